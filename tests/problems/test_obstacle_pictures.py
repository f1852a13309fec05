"""Obstacles of distances are in all pictures of a robot, without being listed as scenery."""

import dataclasses

import numpy as np
import pytest

import dynamics
import trajopt
from dynamics import Box, Capsule, Collisions, Distance, Geometry, HalfSpace, Prismatic, Revolute, Sphere
from trajopt.plotting.motion import shapes_of
from trajopt.plotting.report.page import OBSTACLE, layers_of, player_scene
from trajopt.plotting.scene import scene_of
from trajopt.plotting.stage import SceneFigure

TURNED = np.array([[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
WALL, PILLAR, BALL = Box((0.1, 0.2, 0.3)), Capsule(0.05, (0, 0, 0), (0, 0, 1)), Sphere(0.08)
OBSTACLES = {
    "wall": (WALL, (TURNED, np.array([2.0, 0.0, 0.0]))),
    "pillar": (PILLAR, (-2.0, 0.0, 0.0)),
    "ball": (BALL, (0.0, 2.0, 0.5)),
    "rod": (dynamics.Cylinder(0.05, 1.0), (0.0, -2.0, 0.0)),
}


def two_links(mimic=False, world=()):
    """Two bodies that slide apart on an arm, with a ball each; the second follows the first if it is to."""
    builder = dynamics.ModelBuilder(name="two links")
    bodies = ("arm", "world", Revolute("z")), ("left", "arm", Prismatic("y")), ("right", "arm", Prismatic("y"))
    for name, parent, joint in bodies:
        builder.add_body(name, parent, joint, placement=(np.eye(3), (0.3, 0, 0)), mass=1.0, inertia=0.01 * np.eye(3))
        builder.add_geometry(name, Sphere(0.1), name=f"{name} ball")
    for name, shape, place in world:
        builder.add_geometry("world", shape, (np.eye(3), np.array(place, dtype=float)), name=name)
    if mimic:
        builder.add_mimic("right_joint", "left_joint", -1.0)
    return builder.build()


def problem_of(model, residual, cost=False, **others):
    system = dynamics.RigidBodySystem(model, 0.05)
    costs, constraints = [trajopt.ControlCost(1.0)], [trajopt.ResidualConstraint(residual)]
    if cost:
        barrier = trajopt.QuadraticBarrier(residual.lower, residual.upper)
        costs, constraints = [*costs, trajopt.ResidualCost(residual, 1e3, barrier)], []
    return trajopt.Problem(system, np.zeros(system.nx), 4, costs, [], constraints, **others)


def middles(shapes):
    found = [shape.lines().reshape(-1, 3) for shape in shapes]
    return {tuple((0.5 * (points.min(axis=0) + points.max(axis=0))).round(9) + 0.0) for points in found}


AT = {(2.0, 0.0, 0.0), (-2.0, 0.0, 0.5), (0.0, 2.0, 0.5), (0.0, -2.0, 0.0)}


@pytest.mark.parametrize("mimic", [False, True])
@pytest.mark.parametrize("cost", [False, True])
def test_obstacles_of_collisions_are_seen(mimic, cost):
    """Each once, however many pairs it is in, as a cost or a constraint, with joints that follow others or without."""
    model = two_links(mimic)
    problem = problem_of(model, Collisions(model, OBSTACLES), cost)
    shapes = shapes_of(problem)
    assert middles(shapes) == AT and len(shapes) == 4 and not any(shape.target for shape in shapes)
    wall = next(shape for shape in shapes if shape.lines()[..., 0].min() > 1.0)
    local = (wall.lines() - [2.0, 0.0, 0.0]) @ TURNED
    np.testing.assert_allclose(np.abs(local).reshape(-1, 3), np.tile(WALL.half_extents, (24, 1)))


def test_pairs_without_rows_are_seen_too():
    model = two_links()
    some = Collisions(model, OBSTACLES, closest=1)
    assert some.nr == 1 and middles(shapes_of(problem_of(model, some))) == AT


def test_obstacles_are_seen_through_wrappers():
    """A state with the controls before, free durations, phases, a squared norm, values set anew."""
    model = two_links()
    away = Collisions(model, OBSTACLES)
    plain = problem_of(model, away)
    system = plain.system
    rates = trajopt.ControlRateSystem(system)
    kept = trajopt.ResidualConstraint(rates.lift(away))
    lifted = trajopt.Problem(rates, np.zeros(rates.nx), 4, [rates.lift(trajopt.ControlCost(1.0))], [], [kept])
    free = trajopt.with_free_durations(plain, 0.1)
    soft = trajopt.with_free_durations(problem_of(model, away, cost=True), 0.1)
    norm = trajopt.SquaredNorm(away)
    squared = dataclasses.replace(plain, constraints=[trajopt.ResidualConstraint(norm, 0.01, np.inf)])
    phases = dynamics.HybridSystem(model, 0.05, [("first", (), 2), ("then", (), 2)], None)
    later = trajopt.ResidualConstraint(away, at=range(2, 4))
    hybrid = trajopt.Problem(phases, np.zeros(system.nx), 4, [trajopt.ControlCost(1.0)], [], [later])
    for problem in (lifted, free, soft, squared, hybrid):
        assert middles(shapes_of(problem)) == AT


def test_shapes_that_the_robot_itself_shows_are_not_seen_twice():
    """The model's own shapes on the world are drawn as its bodies; planes, which those cannot show, as squares."""
    model = two_links(world=(("post", Sphere(0.2), (3, 0, 0)), ("floor", HalfSpace(), (0, 0, -1))))
    shapes = shapes_of(problem_of(model, Collisions(model)))
    (floor,) = shapes
    np.testing.assert_allclose(floor.lines()[..., 2], -1.0)
    assert np.ptp(floor.lines()[..., 0]) > 0.3
    moon = Geometry("moon", "world", -1, BALL)
    pairs = [(geometry, moon) for geometry in model.geometries if geometry.body >= 0]
    assert len(shapes_of(problem_of(model, Distance(model, pairs)))) == 1


def test_a_plane_is_as_large_as_the_motion():
    """Not as where it ends."""
    builder = dynamics.ModelBuilder(name="cart")
    builder.add_body("cart", "world", Prismatic("x"), mass=1.0, inertia=np.eye(3))
    builder.add_geometry("cart", Sphere(0.1))
    model = builder.build()
    floor = Collisions(model, {"floor": (HalfSpace(), (0.0, 0.0, -0.5))})
    xs = np.array([[-1.0, 0.0], [2.0, 0.0], [3.0, 0.0], [1.0, 0.0], [0.0, 0.0]])
    (plane,) = shapes_of(problem_of(model, floor), xs)
    lines = plane.lines()
    assert lines[..., 0].min() < -1.0 and lines[..., 0].max() > 3.0 and (lines[..., 2] == -0.5).all()


def test_robots_most_of_whose_bodies_have_no_shapes_are_lines_too():
    """Otherwise moving pictures and the report would show a few shapes that hang in the air."""
    for count, bare in ((0, True), (1, True), (2, False), (3, False)):
        builder = dynamics.ModelBuilder(name="chain")
        for k, parent in enumerate(("world", "0", "1")):
            place = np.eye(3), (0.0, 0.0, 0.3)
            builder.add_body(str(k), parent, Revolute("y"), placement=place, mass=1.0, inertia=0.01 * np.eye(3))
            if k < count:
                builder.add_geometry(str(k), Sphere(0.1))
        system = dynamics.RigidBodySystem(builder.build(), 0.05)
        solution = trajopt.ILQR().solve(trajopt.Problem(system, np.zeros(6), 4, [trajopt.ControlCost(1.0)]))
        scene = scene_of(solution, solution.times)
        stage = SceneFigure(scene, (20.0, -60.0), False, (3.0, 2.0))
        stage.show(2, "")
        axes = stage.figure.axes[0]
        lines = [np.asarray(c._segments3d) for c in axes.collections if hasattr(c, "_segments3d")]
        assert any(each.shape == scene.segments[2].shape for each in lines) == bare
        assert np.isin(scene.segments[0].reshape(-1, 3), scene.moving()[0]).all() >= bare
        (shown,) = (layer.shown for layer in layers_of(scene) if layer.name == "skeleton")
        assert shown == bare


def test_all_pictures_show_obstacles():
    model = two_links()
    problem = problem_of(model, Collisions(model, OBSTACLES), us_init=np.zeros((4, 3)))
    solution = trajopt.DDP().solve(problem)
    lines = np.concatenate([shape.lines() for shape in shapes_of(problem)])
    scene = scene_of(solution, solution.times)
    np.testing.assert_array_equal(scene.scenery, lines)
    stage = SceneFigure(scene, None, False, (3.0, 2.0))
    assert stage.boxes[0].holds(lines).all()
    assert "surroundings" in [text.get_text() for text in stage.figure.legends[0].get_texts()]
    figure = trajopt.plot_trajectory(solution)
    drawn = [np.asarray(c._segments3d) for c in figure.axes[-1].collections if hasattr(c, "_segments3d")]
    assert any(len(each) == 12 and np.allclose(each.mean(axis=(0, 1)), [2.0, 0.0, 0.0]) for each in drawn)
    grey = [channel / 255.0 for channel in OBSTACLE]
    solids = player_scene(scene)["mesh"]["solids"]
    assert sum(solid["color"][:3] == grey for solid in solids) == 4
