"""Bodies in pictures: what is seen of a robot, where it is, and that pictures, moving ones and pages show it."""

import numpy as np
import pytest
from matplotlib.image import imread
from scipy.spatial import ConvexHull

import dynamics
from dynamics.geometry.triangles import surface
from dynamics.systems.pictures import COLORS, CORNERS, solids
from tests.trajopt.test_animation import frames
from trajopt import DDP, ControlCost, Problem, StateCost, animate, plot_trajectory, view
from trajopt.plotting.scene import Bodies, Scene, bodies_at, scene_of
from trajopt.plotting.stage import SceneFigure, put_bodies


def arm(*shapes):
    """Two links of half a metre with these shapes on the second, a ball on the first and a box on the world."""
    builder = dynamics.ModelBuilder()
    rod = {"mass": 1.0, "com": (0.25, 0.0, 0.0), "inertia": 0.02 * np.eye(3)}
    builder.add_body("upper", "world", dynamics.Revolute("y"), placement=(np.eye(3), (0.0, 0.0, 0.5)), **rod)
    builder.add_body("lower", "upper", dynamics.Revolute((0, 1, 1)), placement=(np.eye(3), (0.5, 0.0, 0.0)), **rod)
    builder.add_geometry("world", dynamics.Box((0.1, 0.1, 0.2)), color=(0.0, 0.0, 1.0))
    builder.add_geometry("upper", dynamics.Sphere(0.1))
    for shape in shapes:
        builder.add_geometry("lower", **shape)
    return builder.build()


def lumpy(rng, count=900):
    """A mesh of points about a ball, far from convex."""
    points = rng.normal(size=(count, 3))
    points *= (rng.uniform(0.1, 0.2, count) / np.linalg.norm(points, axis=1))[:, None]
    return dynamics.Mesh(vertices=points, faces=ConvexHull(points / np.linalg.norm(points, axis=1)[:, None]).simplices)


@pytest.fixture(scope="module")
def swing():
    system = dynamics.RigidBodySystem(arm({"shape": dynamics.Capsule(0.05, (0, 0, 0), (0.5, 0, 0))}), dt=0.05)
    goal = StateCost(system, [1.0, -0.5, 0.0, 0.0], 10.0)
    return DDP().solve(Problem(system, np.zeros(4), 10, [ControlCost(1e-2)], [goal], name="arm"))


def test_links_are_seen_as_they_look(tmp_path):
    """Visual shapes come first; a link whose visual ones cannot be read is seen as it collides."""
    look, block = dynamics.Box((0.1, 0.2, 0.3)), dynamics.Sphere(0.3)
    hidden = {"shape": block, "purpose": "visual", "color": (1.0, 1.0, 1.0, 0.0)}
    seen = {"shape": look, "purpose": "visual", "color": (1.0, 0.0, 0.0)}
    found = solids(arm({"shape": block}, seen, hidden))
    assert [(each.body, each.color) for each in found] == [(-1, (0, 0, 1, 1)), (0, None), (1, (1, 0, 0, 1))]
    assert len(found[2].faces) == 12
    lost = {"shape": dynamics.Mesh(str(tmp_path / "lost.stl")), "purpose": "visual"}
    with pytest.warns(UserWarning, match=r"shapes that cannot be shown: mesh '.*lost\.stl': there is no such file"):
        found = solids(arm({"shape": block}, lost))
    assert [each.body for each in found] == [-1, 0, 1] and np.ptp(found[2].vertices) == pytest.approx(0.6)
    assert solids(arm({"shape": dynamics.HalfSpace()}))[-1].body == 0, "a half-space has no end"


def test_meshes_become_hulls_of_few_triangles(rng):
    mesh = lumpy(rng)
    fine, few = (solids(arm({"shape": mesh, "purpose": "visual"}), fine)[-1] for fine in (True, False))
    assert len(fine.faces) == len(mesh.faces) and len(few.faces) <= 2 * CORNERS
    corners = few.vertices[few.faces]
    normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    assert (np.einsum("ij,ij->i", normals, corners.mean(axis=1) - few.vertices.mean(axis=0)) > 0.0).all()
    whole = ConvexHull(surface(mesh).vertices)
    assert 0.6 * whole.volume < np.linalg.det(corners).sum() / 6.0 <= whole.volume
    flat = dynamics.Mesh(vertices=np.eye(3), faces=[[0, 1, 2]])
    assert len(solids(arm({"shape": flat, "purpose": "visual"}), fine=False)[-1].faces) == 1


def test_colours_of_a_file(tmp_path, rng):
    trimesh = pytest.importorskip("trimesh")
    shape = lumpy(rng, 100)
    mesh = trimesh.Trimesh(shape.vertices, shape.faces, process=False)
    for kinds in (2, COLORS + 1):
        colors = np.full((len(shape.faces), 4), 255, dtype=np.uint8)
        colors[:, 0] = np.arange(len(colors)) % kinds * 10
        mesh.visual.face_colors = colors
        mesh.export(tmp_path / f"{kinds}.ply")
        read = {"shape": dynamics.Mesh(str(tmp_path / f"{kinds}.ply")), "purpose": "visual"}
        found = solids(arm(read))[2:]
        assert sum(len(each.faces) for each in found) == len(colors)
        expected = {0, 10} if kinds == 2 else {round(float(colors[:, 0].mean()))}
        assert {round(255 * each.color[0]) for each in found} == expected
        few = solids(arm(read), fine=False)[2]
        assert round(255 * few.color[0]) == round(float(colors[:, 0].mean()))


def test_bodies_are_where_their_points_are(swing):
    system = swing.problem.system
    scene = scene_of(swing, swing.problem.times)
    for frame in (0, 4, 10):
        q = swing.xs[frame, :2]
        faces, colors = scene.solids.triangles(frame)
        assert faces.shape[1:] == (3, 3) and colors.shape == (len(faces), 4)
        assert (colors >= 0.0).all() and (colors <= 1.0).all()
        start = 0
        for solid in scene.solids.solids:  # those of the system, with smaller faces
            corners = faces[start : start + len(solid.faces)]
            start += len(solid.faces)
            if solid.body < 0:
                np.testing.assert_array_equal(corners, solid.vertices[solid.faces])
                continue
            link = system.model.frame(system.model.body_names[solid.body])
            pose = dynamics.frame_placement(system.model, q, system.model.body_names[solid.body])
            local = (solid.vertices[solid.faces] - link.p) @ link.R
            np.testing.assert_allclose(corners, local @ pose.R.T + pose.p, atol=1e-14)
    corners = scene.solids.corners()
    low, high = corners.min(axis=1), corners.max(axis=1)
    points = np.stack([scene.solids.triangles(frame)[0].reshape(-1, 3) for frame in range(11)])
    assert (points >= low[:, None] - 1e-12).all() and (points <= high[:, None] + 1e-12).all()
    assert len(scene.moving()[0]) == corners.shape[1] + 1, "the skeleton is not drawn, and takes no room"


def test_moving_pictures_show_bodies(swing, tmp_path):
    stage = SceneFigure(scene_of(swing, swing.problem.times), None, False, (4, 3))
    stage.show(3, "")
    assert len(stage._bodies._faces if hasattr(stage._bodies, "_faces") else stage._bodies._vec.T) > 0
    images, _ = frames(animate(swing, tmp_path / "arm.gif", fps=10, size=(240, 180)))
    blue = (images[..., 2] > images[..., 0] + 60).sum(axis=(1, 2))
    assert (blue > 100).all(), "the box on the world"
    plot_trajectory(swing, tmp_path / "arm.png")
    picture = imread(tmp_path / "arm.png")
    assert ((picture[..., 2] > picture[..., 0] + 0.1) & (picture[..., 1] < picture[..., 2] - 0.1)).sum() > 300


@pytest.mark.filterwarnings("ignore:websockets:DeprecationWarning")
def test_a_page_moves_bodies(swing):
    pytest.importorskip("viser")
    with view(swing, port=0, block=False) as page:
        assert sorted(page.bodies) == [-1, 0, 1] and not page.lines.value and not page.skeleton[0].visible
        page.show(0.2)
        frame = int(np.abs(page.scene.times - 0.2).argmin())
        np.testing.assert_allclose(page.bodies[1].position, page.scene.solids.origins[frame, 1], atol=1e-7)
        w, x, y, z = page.bodies[1].wxyz
        turned = page.scene.solids.turns[frame, 1]
        assert 4.0 * w * w == pytest.approx(1.0 + np.trace(turned)) and w * w + x * x + y * y + z * z == pytest.approx(
            1.0
        )
        page.lines.value = True
        assert page.skeleton[0].visible and page.skeleton[1].visible


def test_faces_that_are_seen():
    """Of opaque boxes three sides; of what is clear, all; flat meshes from both sides; small ones of the same area."""
    stage = SceneFigure(scene_along_nothing(), (20.0, -60.0), False, (3, 3))
    seen = {}
    for name, shape, color in (
        ("box", dynamics.Box((0.1, 0.1, 0.1)), (1, 0, 0)),
        ("clear", dynamics.Box((0.1, 0.1, 0.1)), (1, 0, 0, 0.5)),
        ("flat", dynamics.Mesh(vertices=np.eye(3), faces=[[0, 1, 2]]), (1, 0, 0)),
    ):
        model = arm({"shape": shape, "color": color, "purpose": "visual"})
        system = dynamics.RigidBodySystem(model, 0.1)
        bodies = bodies_at(system, np.zeros((1, 4)), fine=False)
        bodies = bodies._replace(solids=bodies.solids[-1:])
        whole = surface(shape)
        faces, colors = bodies.triangles(0)
        put_bodies(Recorded(seen, name), stage._axes, faces, colors)
        areas = [area(corners).sum() for corners in (faces, whole.vertices[whole.faces], seen[name])]
        assert areas[0] == pytest.approx((2 if name == "flat" else 1) * areas[1])
        assert areas[2] == pytest.approx(areas[0] * {"box": 0.5, "clear": 1.0, "flat": 0.5}[name])


def area(corners):
    return 0.5 * np.linalg.norm(np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]), axis=1)


class Recorded:
    """Takes what a collection of faces is told to be."""

    def __init__(self, seen, name):
        self.seen, self.name = seen, name

    def set_verts(self, faces):
        self.seen[self.name] = faces

    def set(self, **colors):
        assert all(len(value) == len(self.seen[self.name]) for value in colors.values())


def scene_along_nothing():
    """A scene of one point."""
    none = np.empty((1, 0, 3))
    bodies = Bodies((), none[..., None], none)
    return Scene(np.zeros(1), np.ones((1, 1, 2, 3)), (), none, none, np.empty((1, 0)), bodies)
