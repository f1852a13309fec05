"""Pictures of soft robots: plans and simulations as figures and moving pictures, and what is around them."""

import pickle

import numpy as np
import pytest

import dynamics
import problems
import trajopt
from dynamics import Geometry, rods
from dynamics.rods.loads.tendons import Tendon
from dynamics.rods.robot.link_residuals import LinkTranslation
from dynamics.rods.robot.rod_distance import RodDistance
from dynamics.rods.stepping.simulation import Simulation, simulate
from problems.rods.cable_manipulator import ROD, cable_manipulator
from problems.rods.parallel_robot import parallel_robot
from problems.rods.underwater_vehicle import underwater_vehicle
from tests.trajopt.test_animation import frames
from trajopt.plotting.motion import shapes_of
from trajopt.plotting.scene import frame_times, scene_of
from trajopt.plotting.snapshots import SNAPSHOTS
from trajopt.plotting.stage import SceneFigure

SMALL = (240, 180)
NAMES = ("soft_manipulator_obstacle", "rod_gripper", "hybrid_arm_reach", "soft_swimmer", "parallel_rods")


def planned(name, horizon=4):
    """A motion along the first guess."""
    problem = problems.make(name, horizon=horizon)
    return trajopt.DDP(max_iterations=1).solve(problem)


@pytest.fixture(scope="module", params=NAMES)
def plan(request):
    return planned(request.param)


@pytest.fixture(scope="module")
def motion():
    pull = [4.0, 0.0, 1.0, 0.0, 0.0]
    return simulate(cable_manipulator(), 0.2, lambda t: np.multiply(pull, t), method="newmark", dt=0.02)


# ------------------------------------------------------------------------------------------------ plans
def test_plans_are_drawn(plan, tmp_path):
    """All of what moves is in the picture, which has curves with units and as many snapshots as are named."""
    scene = scene_of(plan, plan.times)
    stage = SceneFigure(scene, None, False, (4.0, 3.0))
    stage.show(len(plan.us), "")
    assert scene.solids.bend
    points = np.concatenate([scene.solids.vertices(solid, len(plan.us)) for solid in scene.solids.solids])
    assert stage.boxes[0].holds(points).all() and stage.boxes[0].holds(scene.scenery).all()
    named = [text.get_text() for text in stage.figure.legends[0].get_texts()]
    assert named[0] == "tendons" and "target" in named
    images, _ = frames(trajopt.animate(plan, tmp_path / "plan.gif", fps=25, size=SMALL))
    assert len(images) >= 2 and (images[0] != images[-1]).any()
    figure = trajopt.plot_trajectory(plan, tmp_path / "plan.png")
    labels = [axes.get_ylabel() for axes in figure.axes[:-1]]
    assert labels[0] == "tips [m]" and "energy [J]" in labels and "controls $u$ [N]" in labels
    assert ("controls $u$ [N m]" in labels) == (plan.problem.name == "hybrid_arm_reach")
    assert len(figure.axes[-1].get_legend().get_texts()) == len(plan.xs)


def test_curves_are_what_they_are_called():
    plan = planned("hybrid_arm_reach")
    system, q, v = plan.problem.system, *np.split(plan.xs, 2, axis=1)
    tips, joints, energy = system.quantities(plan.xs)
    place = rods.link_placement(system.model, "finger", q)[1]
    np.testing.assert_array_equal(tips[2], place)
    assert joints[:2] == ("joints [rad]", ("column rz", "upper arm rz", "forearm rz"))
    np.testing.assert_array_equal(joints[2], q[:, :3])
    parts = rods.energies(system.model, q, v)
    np.testing.assert_allclose(energy[2], np.stack([*parts, sum(parts)], axis=1))
    assert energy[1] == ("kinetic", "elastic", "gravitational", "total")
    assert system.control_units == ("N", "N", "N", "N m", "N m", "N m")
    gripper, vehicle = problems.make("rod_gripper").system, underwater_vehicle().robot
    assert gripper.control_units[-1] == "N" and gripper.quantities(np.zeros((1, gripper.nx)))[1][0] == "joints [m, rad]"
    many = dynamics.SoftRobotSystem(vehicle, 0.1)
    assert len(many.quantities(np.zeros((1, many.nx)))[0][1]) == 18, "six flagella end"


# ------------------------------------------------------------------------------------------------ what is around
def test_targets_and_obstacles_of_costs_and_constraints():
    """Once each, where costs are to be zero; those that the problem lists are not shown again."""
    system = dynamics.SoftRobotSystem(cable_manipulator(), 0.05)
    model, x0 = system.model, np.zeros(system.nx)
    shapes = [dynamics.Sphere(0.1), dynamics.Capsule(0.1, (0, 0, 0), (0, 1, 0)), dynamics.HalfSpace()]
    obstacles = [Geometry(str(k), "world", -1, shape, (np.eye(3), (2.0, 0.0, -1.0))) for k, shape in enumerate(shapes)]
    away = RodDistance(model, obstacles)
    reached, held = (LinkTranslation(model, ROD, target) for target in ([0.4, 0.1, 0.0], [0.4, -0.2, 0.0]))
    origin = LinkTranslation(model, ROD, np.zeros(3), 0.5)

    def problem(costs=(), constraints=(), scenery=(), system=system, x0=x0):
        return trajopt.Problem(system, x0, 3, [trajopt.ControlCost(1.0), *costs], [], constraints, scenery=scenery)

    def middles(problem):
        return [shape.lines().mean(axis=(0, 1)).round(9).tolist() for shape in shapes_of(problem) if shape.target]

    at, there = [0.4, 0.1, 0.0], [0.4, -0.2, 0.0]
    cost = trajopt.ResidualCost(reached, 1.0)
    assert middles(problem([cost, trajopt.ResidualCost(reached, 2.0)])) == [at]
    assert middles(problem([trajopt.ResidualCost(origin, 1.0, reference=0.1)])) == []
    path = trajopt.ResidualCost(origin, 1.0, reference=lambda t: np.full(3, t))
    assert middles(problem([path], [trajopt.ResidualConstraint(held)])) == [there]
    wall = trajopt.ResidualConstraint(origin, -np.ones(3), np.ones(3))
    assert middles(problem([], [wall])) == []
    assert len(shapes_of(problem([], [trajopt.ResidualConstraint(away)]))) == 3
    listed = [trajopt.Target([0.4, 0.1, 0.0], 0.2), trajopt.Sphere((2.0, 0.0, -1.0), 0.1)]
    shown = shapes_of(problem([cost], [trajopt.ResidualConstraint(away)], listed))
    assert shown[:2] == tuple(listed) and len(shown) == 4
    rates = trajopt.ControlRateSystem(system)
    lifted = problem([rates.lift(cost)], [trajopt.ResidualConstraint(rates.lift(away))], (), rates, np.zeros(rates.nx))
    assert middles(lifted) == [at] and len(shapes_of(lifted)) == 4


# ------------------------------------------------------------------------------------------------ equilibria
def drooping(route=0.0, floor=False):
    """A rod of silicone that hangs down from a wall, with a tendon."""
    builder = rods.RodModelBuilder(name="drooping")
    silicone = rods.Elastic(young=1e6, poisson=0.5, density=1000.0)
    builder.add_rod("arm", "world", 0.3, rods.Circular(0.02), silicone, rods.LegendreBasis(bending_y=2))
    if floor:
        builder.add_contact("arm", rods.PlaneContact(1e4, normal=(0.0, 0.0, 1.0), point=(0.0, 0.0, -0.3)))
    return rods.SoftRobot(builder.build(), [Tendon("arm", 0.0, route)])


def test_equilibria_draw_themselves(tmp_path):
    """Centre lines in metres where the search began and at rest, in the plane that they stay in, with what may be
    touched."""
    robot = drooping()
    rest = rods.static_equilibrium(robot, [0.0])
    figure = rest.plot(tmp_path / "new" / "rest.png")
    assert (tmp_path / "new" / "rest.png").stat().st_size > 5000
    (axes,) = figure.axes
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("x [m]", "z [m]")
    before, after = (np.array(each.get_segments()) for each in axes.collections)
    np.testing.assert_allclose(before[-1, 1], [0.3, 0.0], atol=1e-12)
    np.testing.assert_allclose(after[-1, 1], rods.link_placement(robot.model, "arm", rest.q)[1][[0, 2]])
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["start", "at rest"]
    assert figure.get_suptitle() == "drooping: converged"
    again = pickle.loads(pickle.dumps(rest))
    np.testing.assert_array_equal(again.q0, np.zeros(robot.nq))
    assert again.plot().axes
    lost = pickle.loads(pickle.dumps(rods.static_equilibrium(drooping(lambda s: 0.01 * s), [0.0])))
    with pytest.raises(ValueError, match="robot: got None, as it was not pickled"):
        lost.plot()
    above = rods.static_equilibrium(drooping(floor=True), [0.0], max_iterations=1, method="newton")
    figure = above.plot()
    assert not above.converged and len(figure.axes[0].collections) == 3 and figure.axes[0].name == "3d"
    assert figure.legends[0].get_texts()[-1].get_text() == "where the search ended"


# ------------------------------------------------------------------------------------------------ simulations
def test_a_simulation_knows_its_controls_and_its_robot(motion):
    t, q, v, steps, evaluations, *_ = motion
    assert t is motion.t and steps == motion.steps and evaluations == motion.evaluations
    np.testing.assert_allclose(motion.us, np.outer(t, [4.0, 0.0, 1.0, 0.0, 0.0]))
    np.testing.assert_array_equal(motion.xs, np.hstack([q, v]))
    assert motion.system.model is motion.robot.model and motion.name == "cable manipulator"


def test_simulations_draw_themselves(motion, tmp_path):
    figure = motion.plot(tmp_path / "new" / "motion.png")
    assert (tmp_path / "new" / "motion.png").stat().st_size > 10_000
    assert figure.get_suptitle() == "cable manipulator: motion" and not figure.legends
    tips, _, tensions, space = figure.axes
    np.testing.assert_allclose(tensions.lines[0].get_data(), (motion.t, motion.us[:, 0]))
    assert tensions.lines[0].get_drawstyle() == "default", "they change between the times"
    tip = rods.link_placement(motion.robot.model, ROD, motion.q)[1]
    np.testing.assert_allclose(tips.lines[2].get_ydata(), tip[:, 2])
    assert space.name == "3d" and len(space.get_legend().get_texts()) == SNAPSHOTS
    path = motion.animate(tmp_path / "motion.gif", fps=10, size=SMALL, title="pulled")
    images, lasting = frames(path)
    assert len(images) == 3 and lasting == [100] * 3
    scene = scene_of(motion, frame_times(motion, 10.0))
    np.testing.assert_allclose(scene.segments[-1, -1, 1], tip[-1], atol=1e-12)
    assert trajopt.animate(motion, tmp_path / "again.gif", fps=10, size=SMALL, title="pulled").read_bytes() == (
        path.read_bytes()
    )


def test_a_robot_without_controls_in_a_plane(tmp_path):
    """No panel of controls; what bends is as thick in the plane as in space."""
    builder = rods.RodModelBuilder()
    basis = rods.LegendreBasis(bending_y=1)
    builder.add_rod("blade", "world", 0.4, rods.Rectangular(0.05, 0.02), rods.Elastic(1e6, 0.4, 1000.0, 1e3), basis)
    robot = rods.SoftRobot(builder.build())
    fall = simulate(robot, 0.1, [], method="newmark", dt=0.02)
    figure = fall.plot(tmp_path / "fall.png")
    assert [axes.get_ylabel() for axes in figure.axes] == ["tips [m]", "energy [J]", "z [m]"]
    low = min(path.vertices[:, 1].min() for c in figure.axes[-1].collections for path in c.get_paths())
    tip, turned = (part[-1] for part in rods.link_placement(robot.model, "blade", fall.q)[::-1])
    assert low == pytest.approx(tip[2] - 0.01 * turned[2, 2], abs=1e-9)


def test_pickled_simulations_keep_what_can_be_kept(motion):
    bare = pickle.loads(pickle.dumps(motion))
    np.testing.assert_array_equal(bare.q, motion.q)
    assert type(bare) is Simulation and bare.robot is None, "routes of its cables are lambdas"
    with pytest.raises(ValueError, match=r"robot: got None, as it was not pickled, expected motion\._replace"):
        bare.plot()
    assert bare._replace(robot=motion.robot).name == motion.name
    straight = rods.SoftRobot(motion.robot.model, [Tendon.straight(ROD, 0.0, 0.01)])
    whole = pickle.loads(pickle.dumps(simulate(straight, 0.02, [1.0], method="newmark", dt=0.01)))
    assert whole.robot == straight


def test_what_cannot_be_drawn(motion, tmp_path):
    with pytest.raises(ValueError, match=r"path: got 'motion.avi', expected a name that ends in"):
        motion.animate(tmp_path / "motion.avi")
    with pytest.raises(ValueError, match="fps: got 0"):
        motion.animate(tmp_path / "motion.gif", fps=0)
    with pytest.raises(TypeError, match="unexpected keyword argument 'colour'"):
        motion.animate(tmp_path / "motion.gif", colour="red")
    broken = motion._replace(q=np.full_like(motion.q, np.nan))
    with pytest.raises(ValueError, match=r"solution: xs\[0, 0\]: got nan"):
        broken.animate(tmp_path / "motion.gif")
    with pytest.raises(TypeError, match="results: expected a Solution"):
        trajopt.plot_trajectory(motion.q)
    assert not list(tmp_path.iterdir())


@pytest.mark.filterwarnings("ignore:websockets:DeprecationWarning")
def test_a_page_bends_what_bends(motion):
    pytest.importorskip("viser")
    with trajopt.view(motion, port=0, block=False) as page:
        assert not page.lines.value and len(page.bent) == 6 and not page.bodies
        page.show(0.1)
        frame = int(np.abs(page.scene.times - 0.1).argmin())
        for solid, mesh in page.bent:
            np.testing.assert_allclose(mesh.vertices, page.scene.solids.vertices(solid, frame), atol=1e-6)


def test_what_is_carried_by_balls_moves_with_them():
    """A plate and the rods that carry it stay together."""
    example = parallel_robot()
    motion = simulate(
        example.robot, 0.2, example.controls, wrenches=lambda t: 5.0 * np.asarray(example.wrenches(t + 0.5)),
        method="newmark", dt=0.02,
    )  # fmt: skip
    scene = scene_of(motion, motion.t[[-1]])
    (plate,) = (solid for solid in scene.solids.solids if not solid.bends and len(solid.faces) >= 12)
    model = motion.robot.model
    R, p = rods.link_placement(model, "plate", motion.q[-1])
    assert plate.body == model.link_names.index("plate")
    np.testing.assert_allclose(scene.solids.vertices(plate, 0), plate.vertices @ R.T + p, atol=1e-12)
