"""Limits of a robot's own, limits by names of joints, and reports that call components by name."""

from dataclasses import replace

import numpy as np
import pytest

import dynamics
import problems
import trajopt
from problems.quadruped_model import FEET, quadruped
from tests.trajopt.cases import pendulum
from tests.trajopt.systems import CirclePendulum, Pendulum
from trajopt import ControlBounds, StateBounds


def arm(actuation=None, effort=(5.0, 7.0), base=None, **limits):
    """A shoulder and an elbow with limits, on a base that may move."""
    builder = dynamics.ModelBuilder(name="arm")
    shared = {"mass": 1.0, "com": (0.1, 0.0, 0.2), "inertia": 0.1 * np.eye(3)}
    if base is not None:
        builder.add_body("base", "world", base, joint_name="base", **shared, **limits)
    for name, parent, low, torque in (
        ("upper", "base" if base else "world", -1.0, effort[0]),
        ("lower", "upper", 0.1, effort[1]),
    ):
        builder.add_body(
            name, parent, dynamics.Revolute("y"), joint_name={"upper": "shoulder", "lower": "elbow"}[name], **shared,
            lower=low, upper=2.0, velocity=3.0, effort=torque,
        )  # fmt: skip
    return dynamics.RigidBodySystem(builder.build(), 0.01, actuation=actuation)


# ------------------------------------------------------------------------------------------------ a robot's own limits
def test_limits_of_states_are_those_of_the_model():
    system = arm()
    bounds = StateBounds.from_model(system)
    np.testing.assert_array_equal(bounds.lower, [-1.0, 0.1, -3.0, -3.0])
    np.testing.assert_array_equal(bounds.upper, [2.0, 2.0, 3.0, 3.0])
    x = np.array([[0.3, 0.4, 0.5, 0.6]])
    np.testing.assert_array_equal(bounds.residual.evaluate(x, None), x)
    speeds = StateBounds.from_model(system, position=False, at="path", name="speeds")
    assert speeds.component_names == ("shoulder velocity", "elbow velocity")
    assert (speeds.nr, speeds.at, speeds.name) == (2, "path", "speeds")


@pytest.mark.parametrize("base", [dynamics.FreeFlyer(), dynamics.Planar(), dynamics.Spherical()])
def test_joints_on_a_base_that_moves_on_a_group(base, rng):
    """Limits count from the neutral state, and concern the joints alone."""
    system = arm(base=base)
    bounds = StateBounds.from_model(system)
    names = ("shoulder", "elbow", "shoulder velocity", "elbow velocity")
    assert bounds.component_names == names
    q = dynamics.random_configuration(system.model, rng)
    v = rng.standard_normal(system.nv)
    found = bounds.residual.evaluate(system.state(q, v)[None], None)[0]
    np.testing.assert_allclose(found, [*q[-2:], *v[-2:]], rtol=1e-15)
    by_name = StateBounds(system, lower={"elbow": 0.1}, upper={"elbow velocity": 2.0})
    assert by_name.component_names == ("elbow", "elbow velocity")
    np.testing.assert_array_equal(by_name.lower, [0.1, -np.inf])
    np.testing.assert_array_equal(by_name.upper, [np.inf, 2.0])


def test_limits_that_no_tangent_vector_has():
    system = arm(base=dynamics.FreeFlyer(), lower=[-1.0] * 7, upper=[1.0] * 7)
    with pytest.raises(ValueError, match=r"position: joint 'base' of type FreeFlyer has limits .* position=False"):
        StateBounds.from_model(system)
    assert StateBounds.from_model(system, position=False).nr == 2


@pytest.mark.parametrize(
    ("actuation", "upper", "names"),
    [
        (None, [5.0, 7.0], ("shoulder", "elbow")),
        ([[0.0], [1.0]], [7.0], ("elbow",)),
        ([[0.0, -2.0], [1.0, 0.0]], [7.0, 2.5], ("control 0", "control 1")),
        ([[0.0], [0.0]], [np.inf], ("control 0",)),
        ([[4.0], [1.0]], [1.25], ("control 0",)),
    ],
)
def test_limits_of_controls_come_through_the_actuation(actuation, upper, names):
    system = arm(actuation)
    lower, high = system.control_limits()
    np.testing.assert_array_equal(high, upper)
    np.testing.assert_array_equal(lower, -high)
    assert system.control_names == names
    if np.isfinite(upper).any():
        np.testing.assert_array_equal(ControlBounds.from_model(system).upper, upper)
    else:
        with pytest.raises(ValueError, match="system: RigidBodySystem has no finite limit of controls"):
            ControlBounds.from_model(system)


def test_controls_whose_limits_depend_on_each_other():
    with pytest.raises(ValueError, match="actuation: 'shoulder' has an effort limit and is driven by 2 controls"):
        ControlBounds.from_model(arm([[1.0, 1.0], [0.0, 1.0]]))
    free = arm([[1.0, 1.0], [0.0, 1.0]], effort=(np.inf, 7.0))
    np.testing.assert_array_equal(ControlBounds.from_model(free).upper, [np.inf, 7.0])


def driven(motors, **efforts):
    """A chain of three joints, the last of which follows the second if it is called "follower", with motors."""
    builder = dynamics.ModelBuilder(name="driven")
    parent = "world"
    for name, effort in efforts.items():
        builder.add_body(
            name, parent, dynamics.Revolute("y"), joint_name=f"{name} joint", mass=1.0, inertia=np.eye(3), effort=effort
        )
        parent = name
    for name, joints, *limits in motors:
        builder.add_actuator(name, {f"{joint} joint": ratio for joint, ratio in joints.items()}, *limits)
    if "follower" in efforts:
        builder.add_mimic("follower joint", "b joint", 2.0)
    return builder.build()


MOTORS = [("ma", {"a": 1.0}, -1.0, 2.0), ("mb", {"b": -3.0}), ("mc", {"a": 0.0, "c": 0.5}, -4.0, 90.0)]


def test_limits_of_motors_and_of_their_joints_are_both_kept():
    robot = driven(MOTORS, a=1.5, b=0.6, c=8.0)
    system = dynamics.RigidBodySystem(robot, 0.01, actuation="model")
    bounds = ControlBounds.from_model(system)
    np.testing.assert_allclose(bounds.lower, [-1.0, -0.2, -4.0], rtol=1e-15)
    np.testing.assert_allclose(bounds.upper, [1.5, 0.2, 16.0], rtol=1e-15)
    same = dynamics.RigidBodySystem(robot, 0.01, actuation=system.actuation.B)
    np.testing.assert_array_equal(ControlBounds.from_model(same).upper, bounds.upper)
    alone = dynamics.RigidBodySystem(driven([("ma", {"a": 2.0})], a=5.0), 0.01, actuation="model")  # by its joint alone
    np.testing.assert_array_equal(ControlBounds.from_model(alone).upper, [2.5])


def test_motors_on_one_joint_may_only_together_reach_its_limit():
    """Two motors that never exceed the limit keep theirs; else no box holds all that is allowed."""
    pair = [("m1", {"a": 1.0}, -1.0, 1.0), ("m2", {"a": 2.0, "b": 1.0}, -2.0, 1.0)]
    within = dynamics.RigidBodySystem(driven(pair, a=4.0, b=1.5), 0.01, actuation="model")
    np.testing.assert_array_equal(within.control_limits(), [[-1.0, -1.5], [1.0, 1.0]])
    beyond = dynamics.RigidBodySystem(driven(pair, a=4.9, b=2.0), 0.01, actuation="model")
    with pytest.raises(ValueError, match="actuation: 'a joint' has an effort limit and is driven by 2 controls"):
        beyond.control_limits()


def test_motors_of_mimic_joints_keep_to_the_limit_of_their_own_joint():
    robot = driven([("source", {"b": 1.0}), ("other", {"follower": 2.0})], b=3.0, follower=5.0)
    system = dynamics.RigidBodySystem(robot, 0.01, actuation="model")
    np.testing.assert_array_equal(system.control_limits()[1], [3.0, 2.5])


def test_wrapped_systems_and_phases_know_the_limits():
    robot = quadruped()
    phases = dynamics.HybridSystem(robot, 0.01, [("stance", FEET, 2), ("step", FEET[:3], 2)])
    for known in (phases, trajopt.ControlRateSystem(phases), phases.window(1, 2)):
        np.testing.assert_array_equal(ControlBounds.from_model(known).upper, robot.effort_limit[6:])
        assert known.control_names == robot.joint_names[1:]
    system = arm(base=dynamics.FreeFlyer(), actuation="floating_base")
    rate = trajopt.ControlRateSystem(system)
    inside, bounds = (StateBounds.from_model(known) for known in (system, rate))
    assert bounds.component_names == inside.component_names and bounds.nr == inside.nr > 0
    np.testing.assert_array_equal(bounds.upper, inside.upper)
    x = system.neutral_state + np.r_[np.zeros(7), 0.1, 0.2, np.zeros(8)]
    z = rate.state(x, 0.5)[None]
    np.testing.assert_array_equal(bounds.residual.evaluate(z, None), inside.residual.evaluate(x[None], None))
    held = StateBounds(rate, upper={"elbow before": 0.2})
    np.testing.assert_array_equal(held.residual.evaluate(z, None), [[0.5]])


def test_problems_take_the_limits_of_their_robots():
    p = problems.make("arm_obstacle")
    model = p.system.model
    controls, states = p.constraints[:2]
    np.testing.assert_array_equal(controls.upper, model.effort_limit)
    np.testing.assert_array_equal(states.lower, np.r_[model.lower_position, -model.velocity_limit])
    np.testing.assert_array_equal(states.upper, np.r_[model.upper_position, model.velocity_limit])


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: StateBounds.from_model(Pendulum()), TypeError, "system: Pendulum knows no limits of its states"),
        (lambda: ControlBounds.from_model(Pendulum()), TypeError, "system: Pendulum knows no limits of its controls"),
        (
            lambda: StateBounds.from_model(arm(), False, False),
            ValueError,
            "RigidBodySystem has no finite limit of states",
        ),
        (lambda: StateBounds(CirclePendulum(), -1.0, [np.inf, 1.0]), None, ""),
        (
            lambda: StateBounds(arm(), {"elbw": 1.0}),
            ValueError,
            "lower: got 'elbw', expected .*; did you mean 'elbow'",
        ),
        (
            lambda: StateBounds(arm(), upper={"x": 1.0}),
            ValueError,
            "upper: got 'x', expected one of 'shoulder",
        ),
        (lambda: StateBounds(arm(), {"elbow": [1.0]}), ValueError, r"lower\['elbow'\]: got shape \(1,\)"),
        (lambda: StateBounds(arm(), {"elbow": np.nan}), ValueError, r"lower\['elbow'\]: got nan"),
        (
            lambda: StateBounds(arm(), {"elbow": 2.0}, {"elbow": 1.0}),
            ValueError,
            "state bounds: got lower 2.0 and upper 1",
        ),
        (lambda: StateBounds(arm(), {}), ValueError, "StateBounds: got infinite limits alone"),
        (
            lambda: StateBounds(Pendulum(), {"angle": 1.0}),
            ValueError,
            "lower: got limits by name, expected a system= that",
        ),
        (lambda: ControlBounds({"elbow": 1.0}), ValueError, "lower: got limits by name, expected a system= that"),
        (
            lambda: ControlBounds(upper={"elbo": 1.0}, system=arm()),
            ValueError,
            "upper: .* 'elbo', expected .*; did you mean 'elbow'",
        ),
    ],
)
def test_errors_name_the_argument(make, error, words):
    if error is None:
        assert make().nr == 2  # zeros are a state of this one
        return
    with pytest.raises(error, match=words):
        make()


def test_controls_by_name():
    bounds = ControlBounds({"elbow": -1.0}, {"shoulder": 2.0}, arm())
    np.testing.assert_array_equal(bounds.lower, [-np.inf, -1.0])
    np.testing.assert_array_equal(bounds.upper, [2.0, np.inf])


def test_a_system_that_has_no_state_at_zero_wants_a_reference():
    class Strict(CirclePendulum):
        def check_state(self, xs):
            if np.abs(np.hypot(xs[:, 0], xs[:, 1]) - 1.0).max() > 1e-9:
                raise ValueError("no unit vector")

    with pytest.raises(ValueError, match=r"reference: got none, expected a state of Strict .*no unit vector"):
        StateBounds(Strict(), -1.0, 1.0)
    assert StateBounds(Strict(), -1.0, 1.0, [1.0, 0.0, 0.0]).nr == 2


# ------------------------------------------------------------------------------------------------ reports
class Named(Pendulum):
    tangent_names, control_names = ("hinge", "hinge velocity"), ("motor",)


@pytest.mark.parametrize("control_limits", ["box", "augmented_lagrangian"])
def test_reports_call_components_by_name(control_limits, tmp_path):
    p = replace(pendulum(), system=Named())
    bounds = StateBounds(p.system, {"hinge": -1.0}, {"hinge": 1.0, "hinge velocity": 3.0})
    solution = trajopt.DDP(control_limits=control_limits).solve(replace(p, constraints=[ControlBounds(-2, 2), bounds]))
    assert [report.components for report in solution.constraints] == [("motor",), p.system.tangent_names]
    said = " ".join(solution.explain().split())
    assert "of 'motor' at knot" in said.split("Constraint")[0] and "of 'motor' at knot" in said.split("Constraint")[1]
    assert "of 'hinge" in said and "component 0 at" not in said
    again = trajopt.Solution.load(solution.save(tmp_path / "named.npz"))
    assert again.constraints[1].components == p.system.tangent_names


def test_a_violation_is_blamed_on_a_name():
    p = replace(pendulum(), system=Named())
    bounds = StateBounds(p.system, lower={"hinge": 1.0, "hinge velocity": -9.0})
    solution = trajopt.DDP(max_iterations=3).solve(replace(p, constraints=[bounds]))
    (report,) = solution.constraints
    assert report.worst_component == 0 and report.violation > 0.0
    assert f"of 'hinge' at knot {report.worst_knot};" in " ".join(solution.explain().split())


def test_as_many_names_as_numbers():
    residual = trajopt.StateResidual(Named())
    residual.component_names = ("one",)
    with pytest.raises(ValueError, match=r"residual.component_names: got 1 names, expected 2"):
        trajopt.ResidualConstraint(residual)
    system = Named()
    system.tangent_names = ("hinge",)  # pyright: ignore[reportAttributeAccessIssue]
    with pytest.raises(ValueError, match="tangent_names: got 1 names, expected 2"):
        trajopt.StateResidual(system)


# ------------------------------------------------------------------------------------------------ names with units
def test_units_may_be_left_out_of_names():
    system = trajopt.CallableSystem(
        lambda x, u: x + u[0], nx=3, nu=2, dt=0.1, state_names=["p [m]", "v [m/s]", "v [rad/s]"],
        control_names=["push [N]", "turn [N m]"],
    )  # fmt: skip
    bounds = StateBounds(system, upper={"p": 1.0, "v [m/s]": 2.0})
    assert bounds.upper.tolist() == [1.0, 2.0] and bounds.component_names == ("p [m]", "v [m/s]")
    assert ControlBounds(lower={"push": -1.0}, system=system).lower.tolist() == [-1.0, -np.inf]
    with pytest.raises(ValueError, match=r"upper: got 'v', expected one of 'v \[m/s\]', 'v \[rad/s\]'"):
        StateBounds(system, upper={"v": 1.0})
    with pytest.raises(ValueError, match="upper: got 'm'"):
        StateBounds(system, upper={"m": 1.0})
