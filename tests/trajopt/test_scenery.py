"""Shapes around a system: their surfaces and lines, what a problem makes of them, and that every picture shows them."""

import dataclasses
import pickle

import numpy as np
import pytest

import dynamics
import problems
from dynamics.geometry.triangles import surface
from tests.trajopt.cases import pendulum
from trajopt import Cylinder, Lines, Problem, Sphere, Target, plot_trajectory
from trajopt.plotting.scene import scene_of
from trajopt.plotting.stage import SceneFigure

SHAPES = {
    "sphere": (Sphere((1.0, 2.0, 3.0), 0.5), 4 / 3 * np.pi * 0.5**3),
    "pillar": (Cylinder((1.0, 0.0, 2.0), 0.3, 2.0), np.pi * 0.3**2 * 2.0),
    "oblique": (Cylinder((0.0, 1.0, 0.0), 0.3, 2.0, axis=(1.0, -2.0, 0.5)), np.pi * 0.3**2 * 2.0),
}


@pytest.mark.parametrize("name", SHAPES)
def test_surfaces_are_closed_and_face_outwards(name):
    shape, volume = SHAPES[name]
    corners, triangles = shape.surface()
    a, b, c = (corners[triangles[:, i]] - shape.center for i in range(3))
    assert np.einsum("fi,fi->f", a, np.cross(b, c)).sum() / 6.0 == pytest.approx(volume, rel=0.02)  # by Gauss
    np.testing.assert_allclose(np.cross(b - a, c - a).sum(axis=0), 0.0, atol=1e-12)
    reach = np.linalg.norm(corners - shape.center, axis=1).max()
    assert np.linalg.norm(shape.lines() - shape.center, axis=-1).max() == pytest.approx(reach)


def test_lines_of_balls_pillars_and_discs_lie_on_them():
    ball, _ = SHAPES["sphere"]
    np.testing.assert_allclose(np.linalg.norm(ball.lines() - ball.center, axis=-1), 0.5)
    pillar, _ = SHAPES["oblique"]
    axis = pillar.axis / np.linalg.norm(pillar.axis)
    along = (pillar.lines() - pillar.center) @ axis
    np.testing.assert_allclose(np.abs(along), 1.0)
    away = pillar.lines() - pillar.center - along[..., None] * axis
    np.testing.assert_allclose(np.linalg.norm(away, axis=-1), 0.3)
    disc = Cylinder((1.0, 2.0, 0.0), 0.25)
    assert not disc.lines()[..., 2].any() and not disc.surface()[0][:, 2].any()
    np.testing.assert_allclose(np.linalg.norm(disc.lines() - disc.center, axis=-1), 0.25)


def test_a_target_is_a_cross_along_its_axes():
    R = np.array([[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
    lines = Target((1.0, 0.0, 0.0), 0.1, R).lines()
    np.testing.assert_allclose(lines.mean(axis=1), [[1.0, 0.0, 0.0]] * 3)
    np.testing.assert_allclose((lines[:, 1] - lines[:, 0]) / 0.2, R.T)
    assert Target((1.0, 0.0, 0.0)).target and not Sphere((0, 0, 0), 1.0).target


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Sphere((0, 0), 1.0), r"center: got shape \(2,\), expected \(3,\)"),
        (lambda: Sphere((0, 0, np.nan), 1.0), r"center\[2\]: got nan"),
        (lambda: Sphere((0, 0, 0), -1.0), "radius: got -1.0, expected a positive number"),
        (lambda: Cylinder((0, 0, 0), 1.0, -2.0), "height: got -2.0, expected a number >= 0"),
        (lambda: Cylinder((0, 0, 0), 1.0, axis=(0, 0, 0)), "axis: got zeros"),
        (lambda: Lines(np.zeros((4, 3))), r"segments: got shape \(4, 3\), expected \(4, 2, 3\)"),
        (lambda: Target((0, 0, 0), 0), "size: got 0, expected a positive number"),
    ],
)
def test_what_is_no_shape(make, message):
    with pytest.raises(ValueError, match=message):
        make()


TURNED = np.array([[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
CORNERS = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [1, 1, 0]])


def test_shapes_of_robots_are_scenery_in_their_places():
    """As obstacles of `dynamics.Collisions` are given: a position, a placement, or a Geometry of the world."""
    box, place = dynamics.Box((0.1, 0.2, 0.3)), np.array([1.0, 2.0, 3.0])
    mesh = dynamics.Mesh(vertices=CORNERS, faces=[[0, 1, 2], [1, 3, 2]])
    capsule = dynamics.Capsule(0.1, (0.0, 0.0, 0.0), (0.5, 0.0, 0.0))
    post = dynamics.Geometry("post", "world", -1, dynamics.Cylinder(0.1, 1.0), (TURNED, place))
    listed = [(box, (TURNED, place)), (mesh, place), (capsule, [0.0, 1.0, 0.0]), post, (dynamics.HalfSpace(), place)]
    crate, sheet, rod, pillar, floor = with_scenery(listed).scenery
    edges = (crate.lines() - place) @ TURNED
    assert len(edges) == 12 and np.allclose(np.abs(edges), [0.1, 0.2, 0.3]) and not crate.target
    assert len(sheet.lines()) == 4, "the diagonal of what is flat is no edge"
    np.testing.assert_allclose(np.ptp(sheet.lines(), axis=(0, 1)), [1.0, 1.0, 0.0])
    np.testing.assert_allclose(sheet.surface()[0] - place, CORNERS)
    for points in (rod.lines().reshape(-1, 3), rod.surface()[0]):
        away = points - [0.0, 1.0, 0.0]
        away[:, 0] -= np.clip(away[:, 0], 0.0, 0.5)
        np.testing.assert_allclose(np.linalg.norm(away, axis=1), 0.1)
    np.testing.assert_allclose(np.linalg.norm((pillar.lines() - place)[..., :2], axis=-1), 0.1)
    np.testing.assert_allclose(floor.lines()[..., 2], 3.0)
    again = pickle.loads(pickle.dumps(with_scenery(listed)))
    np.testing.assert_array_equal(again.scenery[0].lines(), crate.lines())


def test_lines_of_meshes_are_where_they_bend():
    """Of a box of triangles its edges, though corners are there once for each face; of a fine ball a thousand."""
    sides = surface(dynamics.Box((0.1, 0.2, 0.3)))
    mesh = dynamics.Mesh(vertices=sides.vertices, faces=sides.faces)
    (box,) = with_scenery([(mesh, (0, 0, 0))]).scenery
    assert len(box.lines()) == 12 and np.allclose(np.abs(box.lines()), [0.1, 0.2, 0.3])
    fine = surface(dynamics.Sphere(1.0), 64, 32)
    (ball,) = with_scenery([(dynamics.Mesh(vertices=fine.vertices, faces=fine.faces), (0, 0, 0))]).scenery
    assert 500 < len(ball.lines()) <= 1000
    np.testing.assert_allclose(np.linalg.norm(ball.lines(), axis=-1), 1.0)


def with_scenery(scenery):
    swing = pendulum()
    parts = swing.running_costs, swing.terminal_costs
    return Problem(swing.system, swing.x0, swing.horizon, *parts, scenery=scenery)


def test_a_problem_refuses_what_is_no_shape():
    with pytest.raises(TypeError, match="scenery: got Sphere, expected a list of shapes"):
        with_scenery(Sphere((0, 0, 0), 1.0))
    with pytest.raises(TypeError, match=r"scenery\[1\]: got ndarray, expected a shape"):
        with_scenery([Target((0, 0, 0)), np.zeros((1, 2, 3))])
    with pytest.raises(ValueError, match=r"scenery\[0\]: position: got shape \(2,\), expected \(3,\)"):
        with_scenery([(dynamics.Sphere(0.1), (0, 0))])
    with pytest.raises(ValueError, match=r"scenery\[0\]: placement: got a rotation matrix that is not orthonormal"):
        with_scenery([(dynamics.Sphere(0.1), (2.0 * np.eye(3), (0, 0, 0)))])
    with pytest.raises(TypeError, match=r"scenery\[0\]: shape: got float, expected a shape"):
        with_scenery([(1.0, (0, 0, 0))])
    with pytest.raises(ValueError, match=r"scenery\[0\]: got 'tool' on the body 'hand', expected a shape of the world"):
        with_scenery([dynamics.Geometry("tool", "hand", 3, dynamics.Sphere(0.1))])


def test_all_pictures_show_the_scenery(swing, tmp_path, monkeypatch):
    ball, goal = Sphere((2.0, 0.0, 0.5), 0.5), Target((0.0, 0.0, 1.0))
    shown = with_scenery([ball, goal])
    monkeypatch.setattr(shown.system, "scenery", np.array([[[-1.0, 0.0, -2.0], [1.0, 0.0, -2.0]]]), raising=False)
    swing = dataclasses.replace(swing, problem=shown)
    expected = [shown.system.scenery, ball.lines(), goal.lines()]
    scene = scene_of(swing, np.array([0.0]))
    assert [type(shape) for shape in scene.shapes] == [Lines, Sphere, Target]
    np.testing.assert_array_equal(scene.scenery, np.concatenate(expected))
    stage = SceneFigure(scene, None, False, (3.0, 2.0))
    assert stage.boxes[0].holds(scene.scenery).all()
    figure = plot_trajectory(swing, tmp_path / "motion.png")
    assert figure.axes[-1].get_xlim()[1] >= 2.5
    for axes in (stage.figure.axes[0], figure.axes[-1]):
        drawn = axes.collections[:3]
        for lines, collection in zip(expected, drawn, strict=True):
            np.testing.assert_allclose(collection._segments3d, lines)
        assert len({tuple(collection.get_color()[0]) for collection in drawn}) == 2  # targets have their own


@pytest.mark.parametrize(
    ("name", "kinds"),
    [
        ("arm", [Target]),
        ("arm_obstacle", [Sphere, Target]),
        ("unicycle_obstacles", [Cylinder, Cylinder, Cylinder, Lines]),
        ("car_parking", [Lines]),
        ("quadrotor", [Target]),
    ],
)
def test_benchmark_problems_have_their_obstacles_and_targets(name, kinds):
    problem = problems.make(name)
    assert [type(shape) for shape in problem.scenery] == kinds and problem.scenery[-1].target
    assert [shape.target for shape in problem.scenery[:-1]] == [False] * (len(kinds) - 1)


def test_the_ball_of_the_arm_is_what_its_constraints_keep_away_from():
    problem = problems.make("arm_obstacle")
    ball = problem.scenery[0]
    apart = [c for c in problem.residual_constraints if "ball" in c.name]
    for constraint in apart:
        frame = constraint.residual.residual
        np.testing.assert_array_equal(frame.target, ball.center)
        assert np.sqrt(constraint.lower) > ball.radius
    assert len(apart) == 3
