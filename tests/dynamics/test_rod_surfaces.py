"""What is seen of soft robots lies where kernels have it: sections of rods, routes of tendons and chambers, bodies,
what is touched and what residuals are about."""

from dataclasses import replace

import numpy as np
import pytest

import dynamics
from dynamics import Geometry, Revolute, rods
from dynamics.geometry.world_shape import world_shape
from dynamics.rods.loads.tendons import Chamber
from dynamics.rods.model.cross_section import Circular, Rectangular
from dynamics.rods.model.rod_model import LinkContact
from dynamics.rods.model.strain_basis import LegendreBasis
from dynamics.rods.robot.builder import RodModelBuilder
from dynamics.rods.robot.link_residuals import LinkRotation, LinkTranslation
from dynamics.rods.robot.pictures import FEWER, MANY, body_placements, contact_shapes, section_count, solids
from dynamics.rods.robot.rod_distance import RodDistance
from dynamics.rods.robot.soft_robot import SoftRobot
from tests.reference.rod_robots import ROBOTS, SOFT
from tests.tolerances import IDENTITY, relative_error

NONE = np.zeros(3)


def in_world(solid, R, p):
    """Vertices (V, 3) of a surface."""
    bodies = np.broadcast_to(solid.body, len(solid.vertices))
    return np.einsum("vij,vj->vi", R[bodies], solid.vertices) + p[bodies]


def points_by_kernels(model, rod, s, places, q):
    """Points (P, 3) at places (P, 2) in the section at s of a rod."""
    x = np.concatenate([q, np.zeros(model.nq)])[None]
    frames = [(np.eye(3), [0.0, *place]) for place in places]
    return np.array([LinkTranslation(model, rod, NONE, s, frame).evaluate(x)[0] for frame in frames])


def volume(corners, faces):
    return np.linalg.det(corners[faces]).sum() / 6.0


@pytest.mark.parametrize("name", ROBOTS)
@pytest.mark.parametrize("fine", [True, False])
def test_walls_of_rods_and_routes_of_lines(name, fine, rng):
    robot = ROBOTS[name]()
    model, q = robot.model, rng.uniform(-1.0, 1.0, robot.nq)
    (R,), (p,) = body_placements(model, q[None])
    found, count = solids(robot, fine), section_count(model)
    own_rods, lines = list(model.rods.values()), [*robot.tendons, *robot.chambers]
    for rod, solid in zip(own_rods, found[-len(own_rods) :], strict=True):
        corners, shown = in_world(solid, R, p), count if fine else count // 2 + 1
        twice = 2 if isinstance(rod.section, Rectangular) else 1  # a corner for each side
        for k in (0, 3, shown - 1):
            s = k / (shown - 1)
            outline = np.repeat(rod.section.outline(np.array([s]))[0], twice, axis=0)
            expected, each = points_by_kernels(model, rod.name, s, outline, q), len(outline)
            assert relative_error(corners[k * each : (k + 1) * each], expected, floor=1.0) < IDENTITY
    for line, solid in zip(lines, found[-len(own_rods) - len(lines) : -len(own_rods)], strict=True):
        own = [model.rods[name] for name in line.rods]
        corners, rings = in_world(solid, R, p), count * len(own)
        each = (len(corners) - 2) // (rings + 2)
        around = corners[: rings * each].reshape(rings, each, 3)
        before = np.cumsum([0.0, *(rod.length for rod in own)])
        for i, rod in enumerate(own):
            for k in (0, 5, count - 1):
                s = k / (count - 1)
                place = [place_of(getattr(line, what), i, s, rod, before) for what in ("y", "z")]
                if line.normalized:
                    place = [getattr(line, what) for what in ("y", "z")]
                    place = [route(s) if callable(route) else route for route in place]
                expected = points_by_kernels(model, rod.name, s, [place], q)[0]
                assert relative_error(around[i * count + k].mean(axis=0), expected, floor=1.0) < IDENTITY
                radii = np.linalg.norm(around[i * count + k] - expected, axis=1)
                assert np.ptp(radii) < 1e-12
                if isinstance(line, Chamber) and callable(line.area):
                    assert radii[0] == pytest.approx(np.sqrt(line.area(before[i] + s * rod.length) / np.pi), rel=1e-9)


def place_of(route, i, s, rod, before):
    """y or z where a line is at s of its rod number i."""
    own = isinstance(route, tuple)
    route, X = (route[i], s * rod.length) if own else (route, before[i] + s * rod.length)
    return route(X) if callable(route) else route


@pytest.mark.parametrize("section", [Circular(0.02, 0.01), Rectangular(0.03, 0.01, 0.02, 0.02), Circular(0.01, 0.0)])
def test_walls_are_closed_and_face_outwards(section):
    """Of a straight rod, by Gauss; areas of its polygons are quadratic in s, so that Simpson's rule is exact."""
    builder = RodModelBuilder()
    builder.add_rod("rod", "world", 0.5, section, SOFT, LegendreBasis(bending_y=0))
    robot = SoftRobot(builder.build())
    (R,), (p,) = body_placements(robot.model, np.zeros((1, 1)))
    (y, z) = np.moveaxis(section.outline(np.array([0.0, 0.5, 1.0])), 2, 0)
    areas = 0.5 * (y * np.roll(z, -1, axis=1) - np.roll(y, -1, axis=1) * z).sum(axis=1)
    for fine in (True, False):
        (wall,) = solids(robot, fine)
        corners = in_world(wall, R, p)
        assert volume(corners - [3.0, 2.0, 1.0], wall.faces) == pytest.approx(0.5 * areas @ [1, 4, 1] / 6, rel=1e-12)
        assert wall.color[3] == 1.0, "nothing is inside"


def test_bodies_are_boxes_of_their_inertia():
    robot = ROBOTS["hybrid"]()
    model = robot.model
    k = model.link_names.index("plate")
    (box,) = (each for each in solids(robot) if np.ndim(each.body) == 0 and each.body == k and len(each.faces) == 12)
    a, b, c = np.moveaxis(box.vertices[box.faces], 1, 0)
    parts = np.linalg.det(np.stack([a, b, c], axis=1)) / 6.0
    middle = ((a + b + c) / 4.0 * parts[:, None]).sum(axis=0) / parts.sum()
    square = sum(np.einsum("f,fi,fj->ij", parts, x, y) * (2.0 if x is y else 1.0)
                 for x in (a, b, c) for y in (a, b, c)) / 20.0 / parts.sum()  # fmt: skip
    assert parts.sum() > 0.0
    mass, *first = model.arrays.inertia[model.link_segments["plate"]][:4]
    assert relative_error(middle, np.array(first) / mass) < IDENTITY
    numbers = np.zeros((3, 3))
    numbers[np.triu_indices(3)] = model.arrays.inertia[model.link_segments["plate"]][4:]
    wanted = numbers + numbers.T - np.diag(np.diag(numbers))
    assert relative_error(mass * (np.trace(square) * np.eye(3) - square), wanted) < 1e-9


def test_struts_lead_where_links_are_attached():
    builder = RodModelBuilder()
    builder.add_body("hub", "world", Revolute("z"), mass=1.0)  # without inertia, no box
    away = (np.eye(3), [0.0, 0.3, 0.0])
    builder.add_rod("rod", "hub", 0.2, Circular(0.01), SOFT, LegendreBasis(bending_y=0), placement=away)
    strut, _ = solids(SoftRobot(builder.build()))
    assert strut.body == 0 and strut.vertices[:, 1].max() == pytest.approx(0.3, rel=0.03)
    assert np.abs(strut.vertices[:, [0, 2]]).max() < 0.01


def test_of_many_rods_fewer_sections_are_seen():
    builder, parent = RodModelBuilder(), "world"
    for k in range(MANY + 1):
        builder.add_rod(f"rod {k}", parent, 0.1, Circular(0.005), SOFT, LegendreBasis(bending_y=0))
        parent = f"rod {k}"
    model = builder.build()
    assert section_count(model) == FEWER and body_placements(model, np.zeros((2, model.nq)))[1].shape == (
        2, (MANY + 1) * (FEWER + 1), 3,
    )  # fmt: skip


# ------------------------------------------------------------------------------------------------ what is around
def a_rod():
    builder = RodModelBuilder()
    builder.add_rod("rod", "world", 0.5, Circular(0.02), SOFT, LegendreBasis(bending_y=1, bending_z=1))
    builder.add_contact("rod", rods.CylinderContact(0.1, 1e4, axis="x"))
    return builder.build()


def test_what_is_touched():
    model = a_rod()
    (wall,) = contact_shapes(model)
    assert not wall.target and wall.surface() is None, "around the robot, it would hide it"
    lines = wall.lines()
    np.testing.assert_allclose(np.linalg.norm(lines[..., 1:], axis=-1), 0.1)
    assert lines[..., 0].min() < 0.0 and lines[..., 0].max() > 0.5
    others = (
        rods.PlaneContact(1e4, normal=(0.0, 1.0, 1.0), point=(7.0, 0.0, -0.2)),
        rods.SphereContact(0.05, 1e4, point=(0.3, 0.1, 0.0)),
        rods.CapsuleContact(0.05, 1e4, start=(0.0, 0.2, 0.0), end=(0.4, 0.2, 0.1)),
        rods.SphereContact(0.05, 1e4, link="rod"),  # it moves
        rods.RodContact("rod", 1e4, apart=0.2),
    )
    around = tuple(LinkContact("rod", contact, np.zeros((1, 3)), np.zeros(1)) for contact in others)
    _, plane, ball, capsule = contact_shapes(replace(model, contacts=(*model.contacts, *around, *around)))
    for points in (plane.lines(), plane.surface()[0]):
        np.testing.assert_allclose(points @ [0.0, 1.0, 1.0], -0.2, atol=1e-12)
    middle = plane.lines().mean(axis=(0, 1))
    np.testing.assert_allclose(middle, [0.25, -0.1, -0.1], atol=1e-12, err_msg="next to the robot, not to its point")
    np.testing.assert_allclose(np.linalg.norm(ball.lines() - [0.3, 0.1, 0.0], axis=-1), 0.05)
    start, end = np.array([0.0, 0.2, 0.0]), np.array([0.4, 0.2, 0.1])
    for points in (capsule.lines().reshape(-1, 3), capsule.surface()[0]):
        share = np.clip((points - start) @ (end - start) / ((end - start) @ (end - start)), 0.0, 1.0)
        np.testing.assert_allclose(np.linalg.norm(points - start - share[:, None] * (end - start), axis=1), 0.05)


def test_what_residuals_are_about():
    model, x = a_rod(), np.array([1.0, 0.3, -2.0, 0.5, *np.zeros(4)])
    (cross,) = LinkTranslation(model, "rod", [0.1, 0.2, 0.3]).scenery(x[None])
    np.testing.assert_allclose(cross.lines().mean(axis=1), [[0.1, 0.2, 0.3]] * 3)
    assert cross.target and cross.surface() is None
    turned = np.array([[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
    (cross,) = LinkRotation(model, "rod", turned, 0.5).scenery(x[None])
    place = LinkTranslation(model, "rod", NONE, 0.5).evaluate(x[None])[0]
    np.testing.assert_allclose(cross.lines().mean(axis=1), [place] * 3, atol=1e-14)
    arms = cross.lines()[:, 1] - cross.lines()[:, 0]
    np.testing.assert_allclose(arms / np.linalg.norm(arms, axis=1)[:, None], turned.T, atol=1e-14)
    shapes = dynamics.Box((0.1, 0.2, 0.3)), dynamics.HalfSpace()
    place = np.array([0.5, 0.0, -1.0])
    obstacles = [Geometry(str(k), "world", -1, shape, (turned, place)) for k, shape in enumerate(shapes)]
    box, floor = RodDistance(model, obstacles).scenery(x[None])
    local = (box.lines() - place) @ turned
    assert len(local) == 12 and np.allclose(np.abs(local), [0.1, 0.2, 0.3]) and not (box.target or floor.target)
    corners, faces = box.surface()
    assert volume(corners - place, faces) == pytest.approx(8 * 0.1 * 0.2 * 0.3)
    np.testing.assert_allclose(floor.lines()[..., 2], -1.0)
    with pytest.raises(TypeError, match="shape: got Shape, expected one with a surface"):
        world_shape(dynamics.geometry.shapes.Shape(), np.eye(3), place, np.zeros((2, 3)))
