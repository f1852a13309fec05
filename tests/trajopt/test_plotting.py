"""Figures are drawn, without any display and without touching matplotlib's global state."""

import sys
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from matplotlib import _pylab_helpers

import dynamics
import problems
from problems import car_parking, unicycle_obstacles
from tests.trajopt.cases import cartpole, linear, pendulum, tip
from tests.trajopt.constrained_cases import arrival, obstacle
from tests.trajopt.systems import CartPole, LinearSystem
from trajopt import (
    DDP,
    ILQR,
    CallableSystem,
    ControlBounds,
    ControlCost,
    ControlRateSystem,
    Problem,
    ResidualConstraint,
    StateBounds,
    StateCost,
    animate,
    compare,
    plot_convergence,
    plot_trajectory,
    simulate,
)
from trajopt.plotting.motion import state_limits
from trajopt.plotting.style import GREY
from trajopt.plotting.trajectory import Series, _color, _name_components

PNG = b"\x89PNG\r\n\x1a\n"


FAR = 1e6


def triangles(axes):
    """Where (P, 2) the triangular markers of a panel are, of all solvers."""
    marks = [c for c in axes.collections if len(c.get_paths()[0].vertices) == 4]
    return np.concatenate([np.asarray(c.get_offsets()) for c in marks])


def vehicle(**pictures):
    """A point that moves as it is told, state (x, y)."""
    return CallableSystem(lambda x, u: x + 0.1 * u, nx=2, nu=2, dt=0.1, vectorized=True, **pictures)


def drive(system, constraints=()):
    """To (1, 2) in ten steps."""
    terminal = [StateCost(system, [1.0, 2.0], 100.0)]
    return Problem(system, [0.0, 0.0], 10, [ControlCost(1.0)], terminal, constraints)


def square(xs):
    """Segments (K, 4, 2, 3) of a square of 0.2 about the point, on the floor."""
    corners = np.array([[-0.1, -0.1, 0.0], [0.1, -0.1, 0.0], [0.1, 0.1, 0.0], [-0.1, 0.1, 0.0]])
    points = np.pad(xs[:, :2], ((0, 0), (0, 1)))[:, None] + corners
    return np.stack([points, np.roll(points, -1, axis=1)], axis=2)


def assert_png(path):
    assert path.read_bytes()[:8] == PNG and path.stat().st_size > 10_000


@pytest.fixture(scope="module")
def comparison():
    return compare(tip(), {"ilqr": ILQR(), "ddp": DDP()})


def test_convergence_figure(comparison, tmp_path):
    figure = plot_convergence(comparison, tmp_path / "new" / "convergence.png")
    assert_png(tmp_path / "new" / "convergence.png")
    labels = {axes.get_xlabel() for axes in figure.axes}
    assert len(figure.axes) == 8 and labels == {"iteration", "time [ms]"}
    gap, gradient = (line.get_ydata() for line in (figure.axes[0].lines[0], figure.axes[1].lines[1]))
    best = min(s.cost for s in comparison.values())
    np.testing.assert_allclose(gap[0], comparison["ilqr"].log[0].cost - best)
    np.testing.assert_allclose(gradient, comparison["ddp"].history("gradient_norm"))
    assert figure.axes[0].get_ylabel() == "cost gap $J - J^*$" and not len(triangles(figure.axes[0]))
    assert len(figure.legends[0].get_texts()) == 5


@pytest.fixture(scope="module")
def constrained():
    return compare(arrival(), {"short": DDP(max_iterations=2), "ddp": DDP()})


def test_infeasible_iterates_are_drawn_by_their_sign_and_do_not_set_the_lowest_cost(constrained):
    short, ddp = constrained.values()
    assert short.cost < ddp.cost and short.violation > 1e-3 and ddp.converged
    figure = plot_convergence(constrained)
    panel = figure.axes[0]
    for line, solution in zip(panel.lines, (short, ddp), strict=True):
        gap, drawn = solution.history("cost") - ddp.cost, np.isfinite(line.get_ydata())
        np.testing.assert_allclose(line.get_ydata()[drawn], np.abs(gap)[drawn])
        assert drawn[np.abs(gap) > 1e-12].all() and (line.get_ydata()[drawn] > 0).all()
    gaps = np.concatenate([s.history("cost") - ddp.cost for s in (short, ddp)])
    np.testing.assert_allclose(np.sort(triangles(panel)[:, 1]), np.sort(-gaps[gaps < -1e-16 * ddp.cost]))
    assert panel.get_ylabel() == "cost gap $|J - J^*|$"
    assert figure.legends[0].get_texts()[-1].get_text() == "$J < J^*$"


def test_convergence_under_constraints_has_a_panel_of_violations(tmp_path):
    results = compare(obstacle(), {"ilqr": ILQR(), "ddp": DDP()})
    violations = [solution.history("violation") for solution in results.values()]
    figure = plot_convergence(results, tmp_path / "convergence.png")
    assert_png(tmp_path / "convergence.png")
    assert len(figure.axes) == 10 and all(len(axes.lines) == 2 for axes in figure.axes)
    for panel in (figure.axes[2], figure.axes[7]):
        assert panel.get_ylabel() == "largest constraint violation"
        for line, violation in zip(panel.lines, violations, strict=True):
            np.testing.assert_array_equal(line.get_ydata(), violation)
    bottom, top = figure.axes[2].get_ylim()
    assert bottom < 0.0 and top > max(v.max() for v in violations)  # so that zeros are seen
    assert figure.axes[2].get_yticklabels()[0].get_text() == "0"


def test_convergence_from_states_with_gaps_has_a_panel_of_gaps():
    problem = pendulum()
    xs = np.linspace(problem.x0, [np.pi, 0.0], problem.horizon + 1)
    solution = DDP().solve(problem, xs=xs)
    figure = plot_convergence(solution)
    labels = [axes.get_ylabel() for axes in figure.axes[:5]]
    assert labels[2] == "largest gap of states" and "violation" not in "".join(labels)
    np.testing.assert_array_equal(figure.axes[2].lines[0].get_ydata(), solution.history("gap"))
    assert solution.history("gap")[0] > 0.0


def test_motion_figure_in_the_plane(comparison, tmp_path):
    figure = plot_trajectory(comparison, tmp_path / "motion.png")
    assert_png(tmp_path / "motion.png")
    assert [axes.get_ylabel() for axes in figure.axes] == [
        "configuration $q$ [rad, m]", "velocity $v$ [rad/s, m/s]", "controls $u$ [N m, N]", "z [m]",
    ]  # fmt: skip
    np.testing.assert_array_equal(figure.axes[0].lines[1].get_ydata(), comparison["ddp"].xs[:, 0])


def test_motion_figure_in_space(tmp_path):
    class Spatial(CartPole):
        def skeleton(self, xs):
            points = np.stack([xs[:, 0], xs[:, 1], xs[:, 1] ** 2], axis=1)
            return np.stack([points, points + 0.1], axis=1)[:, None]

    p = cartpole()
    solution = DDP().solve(Problem(Spatial(), p.x0, p.horizon, p.running_costs, p.terminal_costs))
    figure = plot_trajectory(solution, tmp_path / "motion.png")
    assert_png(tmp_path / "motion.png")
    assert figure.axes[-1].name == "3d"


def limit_lines(axes):
    return [line for line in axes.lines if line.get_color() == GREY]


def test_control_limits_are_grey_lines(tmp_path):
    lower, upper = np.full((10, 2), [-np.inf, 0.5]), np.full((10, 2), [0.9, FAR])
    upper[5:, 0] = 0.8
    solution = DDP().solve(drive(vehicle(), [ControlBounds(lower, upper)]))
    figure = plot_trajectory(solution, tmp_path / "motion.png")
    assert_png(tmp_path / "motion.png")
    lines = limit_lines(figure.axes[1])
    drawn = sorted(tuple(line.get_ydata()) for line in lines)
    assert drawn == sorted([(*upper[:, 0], 0.8), (0.5,) * 11])
    bottom, top = figure.axes[1].get_ylim()
    assert bottom < 0.5 and 2.0 < top < 10.0  # the far limit does not flatten the curves
    assert figure.legends[0].get_texts()[-1].get_text() == "limits"


def test_limits_of_states_are_grey_lines_too():
    """Those of `StateBounds` about their reference, at knots where they hold; not where a state is to arrive."""
    system = vehicle()
    low, high = np.array([-np.inf, 0.3]), np.array([0.7, FAR])
    path = StateBounds(system, low, high, reference=[0.1, 0.2], at=range(2, 8))
    there = StateBounds(system, 0.0, 0.0, reference=[1.0, 2.0], at="terminal")
    figure = plot_trajectory(DDP(max_iterations=2).solve(drive(system, [path, there])))
    lines = [line.get_ydata() for line in limit_lines(figure.axes[0])]
    wanted = [np.full(11, np.nan), np.full(11, np.nan)]
    wanted[0][2:8], wanted[1][2:8] = 0.1 + 0.7, 0.2 + 0.3
    np.testing.assert_allclose(sorted(lines, key=np.nanmax, reverse=True), wanted)
    assert figure.legends[0].get_texts()[-1].get_text() == "limits"
    rates = ControlRateSystem(system)
    inside = [ControlCost(1.0)], [rates.lift(StateCost(system, [1.0, 2.0], 100.0))]
    kept = ResidualConstraint(rates.lift(path.residual), path.lower, path.upper, at=range(2, 8))
    lifted = Problem(rates, np.zeros(4), 10, [rates.lift(inside[0][0])], inside[1], [kept])
    lower, upper = state_limits(lifted)
    np.testing.assert_allclose(lower[3], [-np.inf, 0.5, -np.inf, -np.inf])
    np.testing.assert_allclose(upper[3], [0.8, 0.2 + FAR, np.inf, np.inf])


def test_limits_of_joints_of_a_robot_that_floats():
    """They are those of the numbers of its state that its joints have, behind the quaternion of its base."""
    stand = problems.make("quadruped_stand")
    system, x0 = stand.system, stand.x0
    bounds = StateBounds(system, {"lf_haa": -0.5}, {"lf_haa": 0.5, "rh_kfe velocity": 8.0}, at="all")
    problem = Problem(system, x0, 4, [ControlCost(1.0)], [], [bounds])
    lower, upper = state_limits(problem)
    assert np.isinf(lower[0]).all() and (lower[1:] > -np.inf).sum() == 4 and (upper[1:] < np.inf).sum() == 8
    np.testing.assert_array_equal(lower[1:, 7], -0.5)
    np.testing.assert_array_equal(upper[1:, [7, 36]], np.tile([0.5, 8.0], (4, 1)))


def test_no_lines_of_limits_that_there_are_not():
    for constraints in ((), [ControlBounds(-FAR, np.inf)]):
        figure = plot_trajectory(DDP().solve(drive(vehicle(), constraints)))
        assert not limit_lines(figure.axes[1]) and not figure.legends


def test_components_have_the_names_that_the_system_gives():
    system = vehicle(state_names=["east [m]", "north [m]"], control_names=("a", "b"))
    figure = plot_trajectory(DDP().solve(drive(system)))
    names = [[text.get_text() for text in axes.get_legend().get_texts()] for axes in figure.axes]
    assert names == [["east [m]", "north [m]"], ["a", "b"]]
    system.state_names = ("east",)
    with pytest.raises(ValueError, match="state_names: got 1 names, expected 2"):
        plot_trajectory(DDP().solve(drive(system)))


def leap():
    """A body that floats, with a foot that is held in the first and the third phase."""
    builder = dynamics.ModelBuilder(name="leaper")
    builder.add_body("body", "world", dynamics.FreeFlyer(), joint_name="base", mass=1.0, inertia=0.1 * np.eye(3))
    below = np.eye(3), [0.0, 0.0, -0.5]
    own = {"mass": 0.1, "inertia": 0.01 * np.eye(3)}
    builder.add_body("foot", "body", dynamics.Prismatic("z"), placement=below, joint_name="leg", **own)
    phases = [("stand", ["foot"], 3), ("fly", [], 4), ("land", ["foot"], 3)]
    system = dynamics.HybridSystem(builder.build(), 0.02, phases, impacts=False)
    x0 = system.state([0.0, 0.0, 0.5, 0.0, 0.0, 0.0, 1.0, 0.0])
    return Problem(system, x0, 10, [ControlCost(1.0)], [], us_init=np.full((10, 1), 20.0), name="leap")


def test_a_robot_that_floats_has_names_units_contact_forces_and_phases(tmp_path):
    problem = leap()
    solution = ILQR(max_iterations=0).solve(problem)
    figure = plot_trajectory(solution, tmp_path / "motion.png")
    q, v, u, forces, space = figure.axes
    labels = ["configuration $q$ [m, 1]", "velocity $v$ [m/s, rad/s]", "controls $u$ [N]", "contact forces $|f|$ [N]"]
    assert [axes.get_ylabel() for axes in (q, v, u, forces)] == labels and space.get_ylabel() == "z [m]"
    named = [[text.get_text() for text in axes.get_legend().get_texts()] for axes in (q, v, u, forces)]
    assert named[0] == ["base x", "base y", "base z", "base qx", "base qy", "base qz", "base qw", "leg"]
    assert named[1] == ["base vx", "base vy", "base vz", "base wx", "base wy", "base wz", "leg"]
    assert named[2:] == [["leg"], ["foot"]]
    lengths = np.linalg.norm(problem.system.contact_forces(solution.xs, solution.us), axis=-1)[:, 0]
    np.testing.assert_allclose(forces.lines[0].get_ydata(), np.append(lengths, lengths[-1]))
    assert lengths[:3].all() and not lengths[3:7].any()
    for axes in (q, v, u, forces):
        (shade,) = axes.patches
        np.testing.assert_allclose(shade.get_extents().transformed(axes.transData.inverted()).intervalx, [0.06, 0.14])
    assert figure.legends[0].get_texts()[-1].get_text() == "every other phase"


def test_forces_beside_a_motion_that_diverged(tmp_path):
    """It has none, the others theirs; a robot that is never held has no such panel."""
    solution = ILQR(max_iterations=0).solve(leap())
    xs = solution.xs.copy()
    xs[5:] = np.nan
    several = {"diverged": replace(solution, xs=xs, cost=np.inf), "other": solution}
    figure = plot_trajectory(several, tmp_path / "motion.png")
    forces = figure.axes[3]
    assert np.isnan(forces.lines[0].get_ydata()).all() and np.isfinite(forces.lines[1].get_ydata()).all()
    problem = leap()
    falls = dynamics.HybridSystem(problem.system.model, 0.02, [("one", [], 5), ("other", [], 5)], None)
    fallen = ILQR(max_iterations=0).solve(Problem(falls, problem.x0, 10, [ControlCost(1.0)]))
    assert "contact forces" not in "".join(axes.get_ylabel() for axes in plot_trajectory(fallen).axes)


def test_many_coordinates_of_a_robot_get_a_panel_for_each_unit():
    """Two columns, the snapshots in the second; no figure is wider than twelve inches."""
    solution = ILQR(max_iterations=1).solve(problems.make("quadruped_stand"))
    figure = plot_trajectory(solution)
    labels = [axes.get_ylabel() for axes in figure.axes[:-1]]
    units = [label.partition(" [")[2] for label in labels]
    assert units == ["m]", "1]", "rad]", "m/s]", "rad/s]", "N m]", "N]"]
    assert figure.get_size_inches()[0] == 12.0 and figure.axes[-1].name == "3d"
    for axes in figure.axes[:-1]:
        assert all(line.get_linewidth() >= 1.0 for line in axes.lines)
    assert not set(figure.axes[2].get_legend().get_texts()[0].get_text()) & set("$")


def test_components_of_one_solution_differ_in_grey():
    figure = plot_trajectory(DDP().solve(drive(vehicle())))
    first, second = figure.axes[0].lines[:2]
    assert first.get_linestyle() != second.get_linestyle()


def test_names_are_split_between_configuration_and_velocity():
    p = cartpole()
    p.system.state_names = ("place", "angle", "speed", "rate")
    figure = plot_trajectory(DDP(max_iterations=1).solve(p))
    assert [[text.get_text() for text in axes.get_legend().get_texts()] for axes in figure.axes[:2]] == [
        ["place", "angle"], ["speed", "rate"],
    ]  # fmt: skip


def test_of_many_components_some_are_named_in_their_colours():
    p = cartpole()
    solution = DDP(max_iterations=1).solve(p)
    wide = Series("", np.zeros((3, 29)), tuple(f"joint {j}" for j in range(29)))
    axes = plot_trajectory(solution).axes[0]
    _name_components(axes, wide, True)
    legend = axes.get_legend()
    named = [int(text.get_text().split()[-1]) for text in legend.get_texts()]
    assert len(named) == 12 and (named[0], named[-1]) == (0, 28) and legend.get_title().get_text() == "12 of 29 names"
    assert [line.get_color() for line in legend.get_lines()] == [_color(j, 29) for j in named]


def test_a_planar_vehicle_is_seen_from_above_with_its_scenery_and_path(tmp_path):
    scenery = np.array([[[3.0, -1.0, 0.0], [3.0, 4.0, 0.0]]])
    solution = DDP().solve(drive(vehicle(skeleton=square, scenery=scenery)))
    figure = plot_trajectory(solution, tmp_path / "motion.png")
    assert_png(tmp_path / "motion.png")
    axes = figure.axes[-1]
    assert (axes.name, axes.get_xlabel(), axes.get_ylabel()) == ("rectilinear", "x [m]", "y [m]")
    still, path, *poses = (np.array(c.get_segments()) for c in axes.collections)
    np.testing.assert_array_equal(still, scenery[:, :, :2])
    np.testing.assert_allclose(path, np.stack([solution.xs[:-1], solution.xs[1:]], axis=1), atol=1e-14)
    assert len(poses) == 9
    np.testing.assert_array_equal(poses[0], square(solution.xs[:1])[0, :, :, :2])
    np.testing.assert_array_equal(poses[-1], square(solution.xs[-1:])[0, :, :, :2])
    (left, right), (bottom, top) = axes.get_xlim(), axes.get_ylim()
    assert left < -0.1 and right > 3.0 and bottom < -1.0 and top > 4.0


def test_what_is_held_in_place_leaves_no_path(comparison):
    path, *poses = plot_trajectory(comparison).axes[-1].collections
    assert not len(path.get_segments()) and all(len(pose.get_segments()) for pose in poses)


def test_a_skeleton_without_segments_and_one_of_a_wrong_shape():
    problem = drive(vehicle(skeleton=lambda xs: np.empty((len(xs), 0, 2, 3))))
    assert len(plot_trajectory(DDP().solve(problem)).axes) == 3
    problem = drive(vehicle(skeleton=lambda xs: square(xs)[:, :, :, :2]))
    with pytest.raises(ValueError, match=r"skeleton: got shape \(11, 4, 2, 2\), expected \(11, segments, 2, 3\)"):
        plot_trajectory(DDP().solve(problem))


@pytest.mark.parametrize(
    ("pictures", "error", "message"),
    [
        ({"skeleton": 3}, TypeError, "skeleton: got int, expected a function"),
        ({"scenery": np.zeros((4, 2))}, ValueError, r"scenery: got shape \(4, 2\), expected \(4, 2, 3\)"),
        ({"state_names": "xy"}, TypeError, "state_names: got 'xy', expected a list of 2 names"),
        ({"control_names": ["a", 3]}, TypeError, "control_names"),
        ({"control_names": ["a"]}, ValueError, "control_names: got 1 names, expected 2"),
    ],
)
def test_pictures_of_a_callable_system_are_checked(pictures, error, message):
    with pytest.raises(error, match=message):
        vehicle(**pictures)


def test_a_callable_system_has_no_picture_of_its_own():
    assert not any(hasattr(vehicle(), name) for name in ("skeleton", "scenery", "state_names", "control_names"))


def one_body(joint, frame=True):
    builder = dynamics.ModelBuilder()
    builder.add_body("body", "world", joint, joint_name="joint", mass=1.0, inertia=np.eye(3))
    if frame:
        builder.add_frame("tip", "body", (np.eye(3), [0.0, 0.0, 0.5]))
    return dynamics.RigidBodySystem(builder.build(), 0.1)


@pytest.mark.parametrize("joint", [dynamics.FreeFlyer(), dynamics.Planar("z"), dynamics.Translation()])
def test_nothing_ties_a_free_body_to_the_world(joint, rng):
    system = one_body(joint)
    q = np.stack([dynamics.random_configuration(system.model, rng) for _ in range(4)])
    lines = system.skeleton(np.concatenate([q, np.zeros((4, system.model.nv))], axis=1))
    ends = np.stack([dynamics.frame_placement(system.model, q, frame)[1] for frame in ("body", "tip")], axis=1)
    np.testing.assert_allclose(lines, ends[:, None], atol=1e-14)
    np.testing.assert_array_equal(dynamics.skeleton(system.model, q), lines)
    np.testing.assert_array_equal(dynamics.skeleton(system.model, q[0]), lines[:1])
    with pytest.raises(ValueError, match="q: got shape"):
        dynamics.skeleton(system.model, q[:, 1:])


def test_a_body_on_a_rail_and_a_lone_point_are_drawn_from_the_origin(rng):
    rail = one_body(dynamics.Prismatic("x")).skeleton(np.array([[0.7, 0.0]]))
    np.testing.assert_array_equal(rail[0], [[[0, 0, 0], [0.7, 0, 0]], [[0.7, 0, 0], [0.7, 0, 0.5]]])
    point = one_body(dynamics.Translation(), frame=False).skeleton(np.array([[1.0, 2.0, 3.0, 0.0, 0.0, 0.0]]))
    np.testing.assert_array_equal(point[0], [[[0, 0, 0], [1, 2, 3]]])


def test_vehicles_of_the_problems_are_drawn_where_they_are():
    car = car_parking.outline(np.array([[1.0, 2.0, np.pi / 2, 0.0]]))[0]  # faces north
    np.testing.assert_allclose(car.reshape(-1, 3).min(axis=0), [0.3, 1.5, 0.0], atol=1e-14)
    np.testing.assert_allclose(car.reshape(-1, 3).max(axis=0), [1.7, 4.5, 0.0], atol=1e-14)
    np.testing.assert_allclose(car[4, :, 1], 4.0)  # the front axle
    np.testing.assert_array_equal(car[:4, 1], np.roll(car[:4, 0], -1, axis=0))
    unicycle = unicycle_obstacles.outline(np.array([[1.0, 2.0, np.pi / 2]]))[0]
    np.testing.assert_allclose(np.linalg.norm(unicycle - [1.0, 2.0, 0.0], axis=-1), unicycle_obstacles.VEHICLE)
    np.testing.assert_allclose(unicycle[0, 0], [1.0, 2.0 + unicycle_obstacles.VEHICLE, 0.0])
    for disc, centre in zip(unicycle_obstacles.make().scenery[:3], unicycle_obstacles.CENTRES, strict=True):
        np.testing.assert_allclose(np.linalg.norm(disc.lines() - [*centre, 0.0], axis=-1), unicycle_obstacles.DISC)


def test_states_of_a_system_without_configuration(rng):
    figure = plot_trajectory(ILQR().solve(linear(rng)))
    assert [axes.get_ylabel() for axes in figure.axes] == ["states $x$", "controls $u$"]


def test_many_components_share_a_colour_map(rng):
    system = LinearSystem(0.9 * np.eye(12), rng.standard_normal((12, 3)))
    problem = Problem(system, np.ones(12), 4, [ControlCost(1.0)], [StateCost(system, np.zeros(12), 1.0)])
    figure = plot_trajectory(ILQR().solve(problem))
    colors = {tuple(np.atleast_1d(line.get_color())) for line in figure.axes[0].lines}
    assert len(colors) == 12


def test_a_solution_that_diverged_can_be_drawn(tmp_path):
    system = LinearSystem(1e30 * np.eye(2), np.eye(2))
    problem = Problem(system, [1.0, 0.0], 20, [ControlCost(1.0)], [StateCost(system, [0, 0], 1.0)])
    results = compare(problem, {"ilqr": ILQR(), "ddp": DDP()})
    plot_convergence(results, tmp_path / "convergence.png")
    plot_trajectory(results, tmp_path / "motion.png")
    assert_png(tmp_path / "convergence.png")


def test_what_is_not_a_result_is_refused():
    with pytest.raises(TypeError, match="results: expected a Solution"):
        plot_convergence({})
    with pytest.raises(TypeError, match="results: expected a Solution"):
        plot_trajectory({"ddp": 3})


def test_no_global_state(comparison):
    plot_convergence(comparison)
    assert "matplotlib.pyplot" not in sys.modules or not sys.modules["matplotlib.pyplot"].get_fignums()


def test_executed_plans_are_drawn_as_plans_are(swing, tmp_path):
    """So is anything with a system, times, states and controls, also if these change between the times."""
    executed = simulate(swing, dt=swing.problem.system.dt)
    figure = plot_trajectory(executed, tmp_path / "motion.png")
    assert figure.get_suptitle() == "motion" and not figure.legends
    np.testing.assert_allclose(figure.axes[0].lines[0].get_data(), (executed.times, executed.xs[:, 0]))
    assert figure.axes[-2].lines[0].get_drawstyle() == "steps-post"
    assert animate(executed, tmp_path / "motion.gif", fps=5, size=(120, 100)).stat().st_size > 1000
    at_times = SimpleNamespace(**{name: getattr(executed, name) for name in ("system", "times", "xs")}, name="swing",
                               us=np.concatenate([executed.us, executed.us[-1:]]))  # fmt: skip
    figure = plot_trajectory(at_times)
    assert figure.get_suptitle() == "swing: motion"
    assert figure.axes[-2].lines[0].get_drawstyle() == "default"


def test_figures_show_themselves_in_notebooks():
    """Without pyplot, which would keep them."""
    solution = DDP().solve(linear(np.random.default_rng(0)))
    one, other = (plot(solution)._repr_png_() for plot in (plot_convergence, plot_trajectory))
    assert one.startswith(b"\x89PNG") and other.startswith(b"\x89PNG") and one != other
    assert _pylab_helpers.Gcf.figs == {}


def test_names_of_components_are_shown_letter_by_letter(tmp_path):
    """In labels of axes, legends, moving pictures, reports and tables; components without names have numbers."""
    names, shown = ["$\\frac{1}$", "half \ud800 pair"], ["$\\frac{1}$", "half ? pair"]
    solution = DDP().solve(drive(vehicle(skeleton=square, state_names=names, control_names=names)))
    figure = plot_trajectory(solution, tmp_path / "motion.png")
    for axes in figure.axes[:2]:
        assert [text.get_text().replace(r"\$", "$") for text in axes.get_legend().get_texts()] == shown
    assert animate(solution, tmp_path / "motion.gif", fps=5, size=(120, 100)).stat().st_size > 1000
    assert "half ? pair" in solution.report(tmp_path / "report.html").read_text(encoding="utf-8")
    assert "half ? pair" in solution.to_csv(tmp_path / "plan.csv").read_text(encoding="utf-8")

    class Measured(type(solution.problem.system)):
        def quantities(self, xs):
            return (("half \ud800 [$]", names, xs),)

    solution.problem.system.__class__ = Measured
    figure = plot_trajectory(solution, tmp_path / "motion.png")
    assert figure.axes[0].get_ylabel() == r"half ? [\$]"
    plain = plot_trajectory(DDP().solve(drive(vehicle())), tmp_path / "plain.png")
    assert [text.get_text() for text in plain.axes[0].get_legend().get_texts()] == ["$x_{1}$", "$x_{2}$"]


@pytest.mark.parametrize("name", ["$\\frac{1}$", "5 $", "$a$ $", "half \ud800 pair", "back \\$lash$"])
def test_names_are_shown_letter_by_letter(name, tmp_path):
    """Dollars are no mathematics, and what no font has does not stop a picture."""
    solution = ILQR(max_iterations=2).solve(replace(pendulum(6), name=name))
    several = {name: solution, "other": solution}
    for draw in (plot_trajectory, plot_convergence):
        assert draw(several, path=tmp_path / "a.png") is not None
        assert draw(solution, path=tmp_path / "a.png") is not None
    title = plot_convergence(solution).get_suptitle()
    assert title.replace(r"\$", "$").startswith(name.replace("\ud800", "?"))
