"""Controls that depend on the state: in every method, continuous or held, and those of a plan."""

import numpy as np
import pytest

import trajopt
from dynamics import Prismatic
from dynamics.rods.model.rod_model import turning_joints
from dynamics.rods.robot.builder import RodModelBuilder
from dynamics.rods.robot.reactions import prescribed_motion
from dynamics.rods.robot.soft_robot import SoftRobot
from dynamics.rods.stepping.plant import RodPlant
from dynamics.rods.stepping.simulation import simulate
from dynamics.rods.stepping.soft_system import SoftRobotSystem
from dynamics.rods.stepping.stiff_solvers import _StateSpace
from problems.soft_manipulator_reach import make
from tests.reference.closed_robots import arch
from tests.reference.rod_robots import manipulator
from tests.tolerances import CENTRAL_DIFFERENCES, relative_error

TIGHT = {"method": "radau", "rtol": 1e-8, "atol": 1e-10}
STEPS = {"bdf": {"rtol": 1e-6, "atol": 1e-8}, **{name: {"dt": 0.002} for name in ("newmark", "sdirk2")}}


def feedback(robot, stiffness=200.0, damping=20.0):
    """u = 5 + sin t - k B'q - d B'v with the B of the straight robot: springs and dampers along the tendons."""
    zero = np.zeros(robot.nq)
    B = robot.residual_derivatives(zero, zero, zero, np.zeros(robot.nu)).B
    G = np.hstack([stiffness * B.T, damping * B.T])
    return lambda t, x: 5.0 + np.sin(t) - G @ x


def cart(damping: float = 0.0) -> SoftRobot:
    builder = RodModelBuilder(gravity=np.zeros(3))
    builder.add_body("cart", "world", Prismatic("x"), mass=2.0, damping=damping)
    return SoftRobot(builder.build(), torques=["cart"])


# ------------------------------------------------------------------------------------------------ continuous
@pytest.mark.filterwarnings("ignore:policy")
def test_methods_agree():
    """On where feedback leads the manipulator, which is elsewhere than without."""
    robot = manipulator()
    policy = feedback(robot)
    exact = simulate(robot, 0.2, policy=policy, **TIGHT)
    without = simulate(robot, 0.2, lambda t: 5.0 + np.full(5, np.sin(t)), **TIGHT)
    assert relative_error(without.q[-1], exact.q[-1]) > 0.05
    for method, options in (*STEPS.items(), ("implicit_midpoint", {"dt": 0.002}), ("newmark", {"rtol": 1e-5})):
        run = simulate(robot, 0.2, policy=policy, method=method, **options)
        assert relative_error(run.q[-1], exact.q[-1]) < 1e-3
        asked = [policy(t, np.concatenate(x)) for t, *x in zip(run.t, run.q, run.v, strict=True)]
        np.testing.assert_array_equal(run.controls, asked)


def test_closed_chains_and_prescribed_joints():
    robot = arch()
    policy = feedback(robot)
    exact = simulate(robot, 0.1, policy=policy, **TIGHT)
    assert relative_error(simulate(robot, 0.1, [5.0, 5.0], **TIGHT).q[-1], exact.q[-1]) > 0.01
    for method, options in STEPS.items():
        run = simulate(robot, 0.1, policy=policy, method=method, **options)
        assert relative_error(run.q[-1], exact.q[-1]) < 1e-2


def test_the_jacobian_of_the_closed_loop(rng):
    robot = manipulator()
    nobody, turns = prescribed_motion(robot.model, None), turning_joints(robot.model)
    plant = RodPlant(robot, lambda t: np.zeros(robot.nu), nobody, 1.0, turns, feedback(robot))
    space, x, h = _StateSpace(plant), 0.1 * rng.normal(size=2 * robot.nq), 1e-6
    for _ in range(3):
        d = rng.normal(size=x.size)
        change = (space.rates(0.3, (x + h * d)[:, None]) - space.rates(0.3, (x - h * d)[:, None]))[:, 0] / (2.0 * h)
        assert relative_error(space.jacobian(0.3, x) @ d, change) < CENTRAL_DIFFERENCES


@pytest.mark.parametrize("method", ["newmark", "implicit_midpoint", "sdirk2"])
def test_feedback_is_implicit(method):
    """A force - d v is the same as a damper of the model in every step, however stiff: d h / m = 500."""
    options = {"v0": [1.0], "method": method, "dt": 0.1}
    run = simulate(cart(), 1.0, policy=lambda t, x: -1e4 * x[1:], **options)
    damped = simulate(cart(1e4), 1.0, [0.0], **options)
    assert np.abs(run.q - damped.q).max() < 1e-9 and np.abs(run.v - damped.v).max() < 1e-7


@pytest.mark.parametrize("method", ["bdf", "radau"])
def test_a_stiff_loop_in_stiff_solvers(method):
    """m x'' = - k x - d v with rates 100 and 1e4: the slow one is left, in few steps."""
    run = simulate(cart(), 0.05, policy=lambda t, x: [-2e6 * x[0] - 2.02e4 * x[1]], q0=[1.0], method=method, rtol=1e-6)
    slow = np.exp(-100.0 * run.t[-1]) * 1e4 / (1e4 - 100.0)
    assert run.q[-1, 0] == pytest.approx(slow, rel=1e-3) and run.steps < 200


# ------------------------------------------------------------------------------------------------ held
@pytest.mark.filterwarnings("ignore:policy")
def test_held_controls():
    """Pieces of a period, each with the controls that the policy says at its start, as `SoftRobotSystem` has them."""
    robot = manipulator()
    policy, n = feedback(robot, 50.0, 0.5), robot.nq
    system, xs, us = SoftRobotSystem(robot, 0.01, "sdirk2"), [np.zeros(2 * n)], []
    for k in range(6):
        us.append(policy(0.01 * k, xs[-1]))
        xs.append(system.step(xs[-1], us[-1]))
    run = simulate(robot, 0.055, policy=policy, period=0.01, method="sdirk2", dt=0.01)
    assert np.allclose(run.t, [0.0, 0.01, 0.02, 0.03, 0.04, 0.05, 0.055])
    assert relative_error(run.controls[:6], np.array(us)) < 1e-6
    np.testing.assert_array_equal(run.controls[6], run.controls[5])
    assert np.abs(np.hstack([run.q, run.v])[:6] - xs[:6]).max() < 1e-6
    exact = simulate(robot, 0.06, policy=policy, period=0.01, **TIGHT)
    for method, options in ({**STEPS, "bdf": {"dt": 0.005, **STEPS["bdf"]}}).items():
        other = simulate(robot, 0.06, policy=policy, period=0.01, method=method, **options)
        assert relative_error(other.q[-1], exact.q[-1]) < 1e-3 and (np.diff(other.t) > 0.0).all()
        assert len(np.unique(other.controls, axis=0)) == 6


def test_signals_go_on_in_pieces():
    """Wrenches and prescribed joints are functions of the time from the start."""
    builder = RodModelBuilder(gravity=np.zeros(3))
    builder.add_body("cart", "world", Prismatic("x"), mass=2.0)
    builder.add_body("slide", "cart", Prismatic("y"), mass=1.0)
    builder.add_wrench("cart")
    robot = SoftRobot(builder.build(), torques=["cart"])
    given = {
        "wrenches": lambda t: [[0.0, 0.0, 0.0, 3.0 * t, 0.0, 0.0]],
        "prescribed": {"slide": lambda t: (t * t, 2.0 * t, 2.0)},
    }
    for method, dt in (("radau", 0.1), ("newmark", 0.001)):
        run = simulate(robot, 0.5, policy=lambda t, x: [0.0 * t], period=0.1, method=method, dt=dt, rtol=1e-8, **given)
        assert run.q[-1] == pytest.approx([0.5**3 / 6.0, 0.25], abs=1e-6)
        np.testing.assert_allclose(run.prescribed_forces["slide"], 2.0, atol=1e-9)


# ------------------------------------------------------------------------------------------------ of plans
@pytest.fixture(scope="module")
def plan():
    return trajopt.DDP(max_iterations=4).solve(make(horizon=20, integrator="sdirk2"))


def test_execution_of_a_plan(plan):
    """The same steps, hence the plan itself; from elsewhere its gains lead back."""
    system, n = plan.problem.system, plan.problem.system.nv
    (q, v), duration = np.split(plan.xs[0], 2), 20 * system.dt
    options = {"q0": q, "v0": v, "period": system.dt, "method": "sdirk2", "dt": system.dt}
    run = simulate(system.robot, duration, policy=plan.policy(), **options)
    assert np.abs(np.hstack([run.q, run.v]) - plan.xs).max() < 1e-5
    assert np.abs(run.controls[:-1] - plan.us).max() < 1e-4
    pushed = {**options, "q0": q + 0.02}
    off = [
        np.abs(simulate(system.robot, duration, policy=plan.policy(feedback), **pushed).q[-1] - plan.xs[-1, :n]).max()
        for feedback in (True, False)
    ]
    assert off[0] < 0.8 * off[1], off


# ------------------------------------------------------------------------------------------------ refusals
@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "controls, policy: got neither"),
        ({"controls": [0.0], "policy": lambda t, x: x[:1]}, "controls, policy: got both"),
        ({"controls": [0.0], "period": 0.1}, "period: got 0.1 without a policy"),
        ({"policy": lambda t, x: x[:1], "period": 0.1, "dt": 0.03}, "period: got 0.1 s, expected a multiple of dt"),
        ({"policy": lambda t, x: x[:1], "period": 0.1, "dt": 0.2}, "period: got 0.1 s, expected a multiple of dt"),
        ({"policy": lambda t, x: [0.0, 0.0]}, r"policy\(0\)"),
    ],
)
def test_what_does_not_go_together(given, message):
    with pytest.raises(ValueError, match=message):
        simulate(cart(), 1.0, **given)


def test_failures_name_the_sample():
    with pytest.raises(RuntimeError, match=r"failed at t = .* \(t from the sample at 0\.05 s on\)"):
        simulate(
            manipulator(), 0.1, policy=lambda t, x: np.full(5, 0.0 if t < 0.04 else 1e7), period=0.05, method="newmark",
            dt=0.01,
        )  # fmt: skip
