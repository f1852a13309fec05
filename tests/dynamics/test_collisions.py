"""Capsules around shapes, distances between them and pairs of them: against sampled surfaces, brute force and coal."""

import json
import re
import sys
from glob import glob
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.spatial import ConvexHull

from dynamics import (
    Box,
    Capsule,
    Cylinder,
    Ellipsoid,
    FreeFlyer,
    Geometry,
    HalfSpace,
    Mesh,
    ModelBuilder,
    Revolute,
    Sphere,
    collision_geometry,
    collision_pairs,
    load_urdf,
    minimal_capsule,
    random_configuration,
)
from dynamics.algorithms.frames import body_placements
from dynamics.collisions import collision_pairs as fits
from dynamics.collisions.collision_pairs import cores, distances, segment_distances
from dynamics.geometry.capsules import capsule_around, volume
from dynamics.geometry.triangles import LARGEST_FILE, MeshError, mesh_triangles, surface

ROBOTS = f"{sys.prefix}/lib/python3*/site-packages/cmeel.prefix/share/example-robot-data/robots"


def outside(points, capsule):
    """How far the farthest of the points is outside of a capsule."""
    count = len(points)
    ends = np.tile(capsule.start, (count, 1)), np.tile(capsule.end, (count, 1))
    return (segment_distances(points, points, *ends) - capsule.radius).max()


def volume_of(capsule):
    return volume(capsule.radius, np.linalg.norm(np.subtract(capsule.end, capsule.start)))


def sampled(triangles, rng, count=4000):
    """Points on a surface."""
    corners = triangles.vertices[triangles.faces[rng.integers(len(triangles.faces), size=count)]]
    weights = rng.dirichlet(np.ones(3), size=count)
    return np.einsum("ij,ijk->ik", weights, corners)


def write_stl(path, triangles):
    """ASCII STL."""
    lines = ["solid made here"]
    for face in triangles.vertices[triangles.faces]:
        lines += ["facet normal 0 0 0", "outer loop", *(f"vertex {x!r} {y!r} {z!r}" for x, y, z in face.tolist())]
        lines += ["endloop", "endfacet"]
    path.write_text("\n".join([*lines, "endsolid"]))
    return path


# ------------------------------------------------------------------------------------------------ surfaces, capsules
SOLIDS = {
    "cylinder": (Cylinder(0.05, 0.4), 1.17),
    "capsule": (Capsule(0.05, (0.1, 0.0, 0.0), (0.1, 0.2, 0.3)), 1.01),
    "sphere": (Sphere(0.1), 1.02),
    "box": (Box((0.05, 0.07, 0.2)), 2.1),
    "cube": (Box((0.5, 0.5, 0.5)), 2.66),
    "ellipsoid": (Ellipsoid((0.1, 0.4, 0.2)), 2.6),
}


@pytest.mark.parametrize("name", SOLIDS)
def test_surfaces_are_closed_and_face_outwards(name):
    shape, _ = SOLIDS[name]
    corners = surface(shape).vertices[surface(shape).faces]
    enclosed = np.linalg.det(corners).sum() / 6.0
    assert enclosed == pytest.approx(ConvexHull(surface(shape).vertices).volume, rel=1e-9)
    true = {
        "cylinder": np.pi * 0.05**2 * 0.4, "sphere": 4 / 3 * np.pi * 1e-3, "box": 8 * 0.05 * 0.07 * 0.2, "cube": 1.0,
        "ellipsoid": 4 / 3 * np.pi * 0.008, "capsule": volume(0.05, np.hypot(0.2, 0.3)),
    }[name]  # fmt: skip
    assert 0.97 * true < enclosed <= true * (1 + 1e-12)


@pytest.mark.parametrize("name", SOLIDS)
def test_capsules_around_solids(name, rng):
    shape, most = SOLIDS[name]
    triangles = surface(shape)
    capsule = minimal_capsule(triangles.vertices)
    hull = ConvexHull(triangles.vertices).volume
    assert outside(triangles.vertices, capsule) <= 1e-15 and outside(sampled(triangles, rng), capsule) <= 1e-15
    assert 1.0 < volume_of(capsule) / hull < most
    if isinstance(shape, (Box, Cylinder, Ellipsoid)):
        closed = capsule_around(shape)
        assert outside(triangles.vertices, closed) <= 1e-15
        assert volume_of(capsule) < 1.02 * volume_of(closed), "the fit is nearly as good as if the axis is known"
        if name != "ellipsoid":  # whose corners are those of no ellipsoid
            assert volume_of(closed) < 1.02 * volume_of(capsule)


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 40), st.integers(0, 2**32 - 1), st.sampled_from([0, 1, 2, 3]))
def test_capsules_around_points(count, seed, flat):
    """Also of points in a plane, on a line, or all in one place."""
    points = np.random.default_rng(seed).normal(size=(count, 3)) * (np.arange(3) < flat) * 0.3 + [1.0, -2.0, 0.5]
    capsule = minimal_capsule(points)
    assert outside(points, capsule) <= 1e-12
    if flat < 2:
        assert capsule.radius <= 1e-6


@settings(deadline=None)
@given(st.tuples(*[st.floats(0.0, 2.0)] * 3))
def test_capsules_of_the_closed_family(figures):
    a, b, _ = figures
    for shape in (Box(figures), Cylinder(a, b), Ellipsoid(figures)):
        capsule = capsule_around(shape)
        assert outside(surface(shape).vertices, capsule) <= 1e-12 and np.isfinite(capsule.end).all()
        assert volume_of(capsule) <= volume(np.linalg.norm(figures), 0.0) * (1 + 1e-8) + 1e-12


# ------------------------------------------------------------------------------------------------ robots
def arm_with(*shapes):
    """A chain of three links along x, each with a shape of its own."""
    builder = ModelBuilder()
    builder.add_geometry("world", HalfSpace(), (np.eye(3), (0.0, 0.0, -0.3)), name="floor")
    parent = "world"
    for i, shape in enumerate(shapes):
        place = (np.eye(3), (0.4 * (i > 0), 0.0, 0.0))
        axis = np.eye(3)[2 - i % 2] + [0.0, 0.3, 0.0]
        builder.add_body(f"link{i}", parent, Revolute(axis), placement=place, mass=1.0, com=(0.2, 0.0, 0.0))
        if shape is not None:
            turn = np.array([[0.0, 0.0, 1.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])  # its z along the link
            builder.add_geometry(f"link{i}", shape, (turn, (0.2, 0.0, 0.0)))
        parent = f"link{i}"
    return builder.build()


def test_what_becomes_of_each_shape(tmp_path, monkeypatch):
    monkeypatch.setattr(fits, "cache_root", lambda: tmp_path)
    cube, rod = Box((0.1, 0.1, 0.1)), Box((0.02, 0.03, 0.3))
    round_ones = Sphere(0.1), Capsule(0.1, (0, 0, 0), (1, 0, 0)), Cylinder(0.1, 0.5)
    model = arm_with(*round_ones, cube, rod, Ellipsoid((1, 1, 2)))
    kinds = {boxes: [type(g.shape) for g in collision_geometry(model, boxes)] for boxes in fits.BOXES}
    same = [HalfSpace, Sphere, Capsule, Capsule]
    assert kinds["auto"] == kinds["box"] == [*same, Box, Box, Capsule]
    assert kinds["capsule"] == [*same, Capsule, Capsule, Capsule]
    for before, after in zip(model.geometries, collision_geometry(model), strict=True):
        assert (before.name, before.body) == (after.name, after.body)
        np.testing.assert_array_equal(before.R, after.R)
    slim = arm_with(Box((0.001, 0.3, 0.001)))
    assert type(collision_geometry(slim)[1].shape) is Capsule, "1.57 of the volume of a slim box"
    assert model.with_geometries(collision_geometry(model)) == model


def test_meshes_are_fitted_once(tmp_path, monkeypatch, rng):
    """Capsules are found again by content, in the cache and in memory; a damaged file is fitted anew."""
    pytest.importorskip("trimesh")
    monkeypatch.setattr(fits, "cache_root", lambda: tmp_path / "cache")
    monkeypatch.setattr(fits, "_IN_MEMORY", {})
    block = surface(Box((0.05, 0.1, 0.3)))
    file = write_stl(tmp_path / "block.stl", block)
    model = arm_with(Mesh(str(file), (1.0, -2.0, 1.0)))
    (_, fitted) = collision_geometry(model)
    assert outside(block.vertices * [1.0, -2.0, 1.0], fitted.shape) <= 1e-7  # STL has single precision
    (kept,) = (tmp_path / "cache" / "capsules").glob("*.json")
    monkeypatch.setattr(fits, "minimal_capsule", lambda vertices: pytest.fail("fitted again"))
    assert collision_geometry(model)[1] == fitted
    fits._IN_MEMORY.clear()
    assert collision_geometry(model)[1] == fitted
    fits._IN_MEMORY.clear()
    kept.write_text(json.dumps({"radius": -1.0, "start": [0, 0, 0], "end": [0, 0, 1]}))
    monkeypatch.setattr(fits, "minimal_capsule", minimal_capsule)
    assert collision_geometry(model)[1] == fitted
    same = arm_with(Mesh(vertices=block.vertices, faces=block.faces, scale=(1.0, -2.0, 1.0)))
    np.testing.assert_allclose(collision_geometry(same)[1].shape.end, fitted.shape.end, atol=1e-6)


def test_triangles_of_files(tmp_path):
    """STL and OBJ of the same solid, colours of the latter's material; mirrored ones still face outwards."""
    pytest.importorskip("trimesh")
    solid = surface(Cylinder(0.1, 0.5))
    lines = [f"v {x} {y} {z}" for x, y, z in solid.vertices] + [f"f {i} {j} {k}" for i, j, k in solid.faces + 1]
    (tmp_path / "a.obj").write_text("\n".join(["mtllib a.mtl", "usemtl red", *lines]))
    (tmp_path / "a.mtl").write_text("newmtl red\nKd 1 0 0\n")
    for file in (tmp_path / "a.obj", write_stl(tmp_path / "a.stl", solid)):
        for scale in ((1.0, 1.0, 1.0), (2.0, -1.0, 1.0)):
            triangles = mesh_triangles(Mesh(str(file), scale))
            corners = triangles.vertices[triangles.faces]
            enclosed = np.einsum("ij,ij->i", corners[:, 0], np.cross(corners[:, 1], corners[:, 2])).sum() / 6.0
            assert enclosed == pytest.approx(scale[0] * np.pi * 0.1**2 * 0.5, rel=0.01)
        if file.suffix == ".obj":
            assert (triangles.colors == [255, 0, 0, 255]).all()
        else:
            assert triangles.colors is None


def test_meshes_that_cannot_be_read(tmp_path, monkeypatch):
    damaged, empty = tmp_path / "damaged.stl", tmp_path / "empty.stl"
    damaged.write_text("solid nothing much\nfacet nor")
    empty.write_text("")
    ball = Sphere(0.1)
    model = arm_with(Mesh(str(tmp_path / "none.stl")), ball, Mesh("package://nowhere/none.dae"), ball)
    message = r"are left out: 'link0_0' \(mesh '.*none.stl': there is no such file\); 'link2_0'"
    with pytest.warns(UserWarning, match=message):
        assert [g.name for g in collision_geometry(model)] == ["floor", "link1_0", "link3_0"]
    archive, large = tmp_path / "arm.ZIP", tmp_path / "large.stl"
    archive.write_bytes(b"PK")
    with large.open("wb") as file:
        file.truncate(LARGEST_FILE + 1)  # which takes no room
    for path, words in ((archive, "expected a file that ends in one of .stl, .obj"), (large, "got a file of 256 MiB")):
        with pytest.raises(MeshError, match=re.escape(f"mesh '{path}': {words}")):
            mesh_triangles(Mesh(str(path)))
        with pytest.warns(UserWarning, match=re.escape(words)):
            collision_geometry(arm_with(Mesh(str(path)), ball, ball, ball))
    monkeypatch.setitem(sys.modules, "trimesh", None)
    with pytest.raises(MeshError, match=r"reading it needs trimesh: pip install '"):
        mesh_triangles(Mesh(str(damaged)))
    monkeypatch.undo()
    pytest.importorskip("trimesh")
    for file in (damaged, empty):
        with pytest.raises(MeshError, match=r"damaged.stl|empty.stl"):
            mesh_triangles(Mesh(str(file)))


# ------------------------------------------------------------------------------------------------ distances and pairs
def test_distances_between_segments(rng):
    """Against a bounded minimisation; parallel ones, crossing ones and points among them."""
    a0, a1, b0, b1 = rng.normal(size=(4, 60, 3))
    a1[:8] = a0[:8]
    b1[4:12] = b0[4:12]
    b1[20:30] = b0[20:30] + rng.normal(size=(10, 1)) * (a1 - a0)[20:30]
    for i in range(60):
        gap = lambda st, i=i: np.sum((a0[i] + st[0] * (a1 - a0)[i] - b0[i] - st[1] * (b1 - b0)[i]) ** 2)  # noqa: E731
        starts = ((0.0, 0.0), (1.0, 1.0), (0.5, 0.5), (0.0, 1.0), (1.0, 0.0))
        least = min(minimize(gap, x, bounds=[(0, 1)] * 2, options={"ftol": 1e-15}).fun for x in starts)
        got = segment_distances(a0[i], a1[i], b0[i], b1[i])
        assert np.sqrt(least) - 2e-7 <= got <= np.sqrt(least) + 1e-12 or got == pytest.approx(np.sqrt(least), abs=1e-6)


CHAIN = (
    Capsule(0.05, (0, 0, -0.2), (0, 0, 0.2)), Cylinder(0.06, 0.3), Sphere(0.1), Box((0.05, 0.05, 0.3)), Sphere(0.02)
)  # fmt: skip


def test_pairs_against_brute_force(rng):
    """Every pair is kept, or dropped for a reason that holds; distances as of points placed one by one."""
    model = arm_with(*CHAIN, None, Sphere(0.2))
    shapes = collision_geometry(model, "capsule")
    srdf = '<robot name="r"><disable_collisions link1="link4" link2="link0" reason="Never"/></robot>'
    found = collision_pairs(model, shapes, srdf, sample=40, seed=3)
    again = collision_pairs(model, shapes, srdf, sample=40, seed=3)
    assert again == found
    reasons = {frozenset((d.first.name, d.second.name)): d.reason for d in found.dropped}
    kept = [frozenset((first.name, second.name)) for first, second in found.pairs]
    assert len(kept) + len(reasons) == len(shapes) * (len(shapes) - 1) // 2 and not set(kept) & set(reasons)
    generator = np.random.default_rng(3)
    q = np.stack([random_configuration(model, generator) for _ in range(40)])
    R, p = body_placements(model, q)
    for first, second in combinations(shapes, 2):
        names = frozenset((first.name, second.name))
        adjacent = sorted((first.body, second.body)) in [[i, i + 1] for i in range(6)]
        overlap = []
        for k in range(len(q)):
            places = [(np.eye(3), np.zeros(3)) if g.body < 0 else (R[k, g.body], p[k, g.body]) for g in (first, second)]
            overlap.append(brute_distance(first, second, places) <= 0.0)
        wanted = ("on a body and its parent" if adjacent else "disabled: Never"
                  if names == {"link0_0", "link4_0"} else
                  "they overlap in all of 40 random configurations" if all(overlap) else None)  # fmt: skip
        assert reasons.get(names) == wanted, names
    assert "on a body and its parent" not in {d.reason for d in collision_pairs(model, shapes, adjacent=True).dropped}


def brute_distance(first, second, places):
    """From points along the segments of capsules and spheres; exact to a half-space."""
    points = []
    for geometry, (R, p) in zip((first, second), places, strict=True):
        shape = geometry.shape
        ends = (shape.start, shape.end) if isinstance(shape, Capsule) else (np.zeros(3), np.zeros(3))
        points.append([R @ (geometry.R @ np.asarray(end) + geometry.p) + p for end in ends])
    radii = [getattr(g.shape, "radius", 0.0) for g in (first, second)]
    if isinstance(first.shape, HalfSpace):
        return min(end[2] - points[0][0][2] for end in points[1]) - radii[1]
    share = np.linspace(0.0, 1.0, 200)[:, None]
    lines = [start + share * (end - start) for start, end in points]
    return np.linalg.norm(lines[0][:, None] - lines[1], axis=-1).min() - sum(radii)


def test_pairs_that_always_overlap_are_dropped():
    """A shell around the wrist, and a floor through the base of the arm; not the floor below a free flyer."""
    model = arm_with(Sphere(0.5), Sphere(0.01), Sphere(0.9))
    found = collision_pairs(model, sample=20)
    assert (model.geometries[0], model.geometries[2]) in found.pairs
    reasons = {(d.first.name, d.second.name): d.reason for d in found.dropped}
    always = "they overlap in all of 20 random configurations"
    assert reasons["floor", "link0_0"] == reasons["link0_0", "link2_0"] == always
    assert collision_pairs(model, sample=0, adjacent=True).dropped == ()
    builder = ModelBuilder()
    builder.add_body("trunk", "world", FreeFlyer(), mass=1.0, inertia=np.eye(3))
    builder.add_geometry("trunk", Sphere(0.1))
    builder.add_geometry("trunk", Sphere(0.2))
    builder.add_geometry("world", HalfSpace(), name="floor")
    found = collision_pairs(builder.build())
    assert [[g.name for g in pair] for pair in found.pairs] == [["trunk_0", "floor"], ["trunk_1", "floor"]]
    assert [d.reason for d in found.dropped] == ["on the same body"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("<robot", "SRDF text: not well-formed XML"),
        ("<srdf/>", "SRDF text: the root element is <srdf>, expected <robot>"),
        ('<robot><disable_collisions link1="a"/></robot>', "<disable_collisions>: attribute 'link2' is missing"),
        ('<!DOCTYPE x [<!ENTITY a "b">]><robot/>', "SRDF text: XML entities and external references are refused"),
    ],
)
def test_files_that_are_no_srdf(text, message):
    with pytest.raises(ValueError, match=message):
        collision_pairs(arm_with(Sphere(0.1)), disabled=text)


# ------------------------------------------------------------------------------------------------ peers
@pytest.mark.peer
def test_distances_against_coal(rng):
    coal = pytest.importorskip("coal")
    count = 200
    model = arm_with(Sphere(0.1), Sphere(0.1))
    shapes, objects = [], []
    for i in range(count):
        r, half = rng.uniform(0.01, 0.3), rng.uniform(0.0, 0.5) * (i % 3 > 0)
        turn = np.linalg.qr(rng.normal(size=(3, 3)))[0]
        turn *= np.sign(np.linalg.det(turn))
        place = (turn, rng.normal(size=3))
        shape = Capsule(r, (0, 0, -half), (0, 0, half)) if i % 3 else Sphere(r)
        shapes.append(Geometry(f"{i}", "world", -1, shape, place))
        solid = coal.Capsule(r, 2.0 * half) if i % 3 else coal.Sphere(r)
        objects.append((solid, coal.Transform3s(*place)))
    first, second = np.triu_indices(count, 1)
    found = distances(cores(model, np.zeros((1, 2)), shapes), first, second)[0]
    for k in range(0, len(first), 7):
        (a, at), (b, bt) = objects[first[k]], objects[second[k]]
        wanted = coal.distance(a, at, b, bt, coal.DistanceRequest(), coal.DistanceResult())
        assert found[k] == pytest.approx(wanted, abs=1e-9) or (found[k] < 0.0 and wanted < 0.0)


@pytest.mark.peer
@pytest.mark.filterwarnings("ignore:.*not read, though it may", "ignore:no body can have the inertia")
@pytest.mark.parametrize("name", ["panda_description/urdf/panda", "anymal_c_simple_description/urdf/anymal"])
def test_meshes_of_published_robots(name):
    """Where a mesh lies and how large it is, as coal reads it; and it is in its capsule."""
    coal = pytest.importorskip("coal")
    pytest.importorskip("collada")
    files = glob(f"{ROBOTS}/{name}.urdf")
    if not files:
        pytest.skip("needs example-robot-data")
    model = load_urdf(files[0])
    meshes = {g.shape.path: g.shape for g in model.geometries if isinstance(g.shape, Mesh)}
    assert meshes
    for mesh in meshes.values():
        vertices = mesh_triangles(mesh).vertices
        read = coal.MeshLoader().load(mesh.path, np.asarray(mesh.scale))
        read.computeLocalAABB()
        np.testing.assert_allclose(vertices.min(axis=0), read.aabb_local.min_, atol=1e-5)
        np.testing.assert_allclose(vertices.max(axis=0), read.aabb_local.max_, atol=1e-5)
    for geometry, given_as in zip(collision_geometry(model), filter(is_solid, model.geometries), strict=True):
        if isinstance(geometry.shape, Capsule):
            assert outside(surface(given_as.shape).vertices, geometry.shape) <= 1e-12


def is_solid(geometry):
    return geometry.purpose == "collision"
