"""Limits of accelerations, control rates and torques at a speed: values, derivatives, and solves where they bind."""

import numpy as np
import pytest

import dynamics
from problems.quadruped_model import FEET, quadruped, standing
from tests.tolerances import CENTRAL_DIFFERENCES, IDENTITY, relative_error
from tests.trajopt.systems import LinearSystem, Pendulum
from tests.trajopt.test_bounds_by_name import arm
from trajopt import (
    DDP,
    ILQR,
    AccelerationBounds,
    AccelerationResidual,
    CallableSystem,
    ControlBounds,
    ControlCost,
    ControlRateBounds,
    ControlRateSystem,
    JerkBounds,
    JerkResidual,
    JerkSystem,
    Problem,
    ResidualCost,
    StateCost,
    TorqueSpeedBounds,
    check_derivatives,
    total_cost,
)


def swing(system, goal, constraints, horizon=40, u_weight=1e-3, speed=1.0):
    """From rest at the lower ends of its ranges towards a goal."""
    x0 = system.state([-0.5, 0.4])
    return Problem(system, x0, horizon, [ControlCost(u_weight)],
                   [StateCost(system, system.state(goal), np.repeat([100.0, speed], 2))], constraints)  # fmt: skip


def both(problem):
    solutions = [solver.solve(problem) for solver in (DDP(), ILQR())]
    assert all(solution.converged for solution in solutions)
    assert solutions[0].cost == pytest.approx(solutions[1].cost, rel=1e-5)
    return solutions


# ------------------------------------------------------------------------------------------------ accelerations
@pytest.mark.parametrize("integrator", ["semi_implicit_euler", "explicit_euler"])
def test_accelerations_of_a_robot_are_those_of_forward_dynamics(integrator, rng):
    model = arm().model
    system = dynamics.RigidBodySystem(model, 0.01, integrator)
    xs, us = rng.standard_normal((5, 4)), rng.standard_normal((5, 2))
    wanted = dynamics.forward_dynamics(model, xs[:, :2], xs[:, 2:], us)
    assert relative_error(AccelerationResidual(system).evaluate(xs, us), wanted) < 1e2 * IDENTITY
    np.testing.assert_array_equal(AccelerationResidual(system, [1]).evaluate(xs, us)[:, 0],
                                  AccelerationResidual(system).evaluate(xs, us)[:, 1])  # fmt: skip


def robots():
    free = arm(base=dynamics.FreeFlyer(), actuation="floating_base")
    yield "euler", arm(), None
    yield "rk4", dynamics.RigidBodySystem(arm().model, 0.01, "rk4"), None
    yield "inverse", dynamics.RigidBodySystem(arm().model, 0.01, formulation="inverse"), None
    yield "floating", free, free.neutral_state
    robot = quadruped()
    held = dynamics.RigidBodySystem(robot, 0.01, actuation="floating_base", contacts=[
        dynamics.PointContact(robot, foot) for foot in FEET])  # fmt: skip
    yield "standing", held, held.state(standing())


@pytest.mark.parametrize("name, system, x", list(robots()), ids=[name for name, *_ in robots()])
def test_derivatives_of_accelerations(name, system, x, rng):
    x = (system.neutral_state if x is None else x) + 0.0
    x[system.model.nq :] = 0.3 * rng.standard_normal(system.nv)
    x = system.integrate(x, np.r_[0.2 * rng.standard_normal(system.nv), np.zeros(system.nv)])
    u = rng.standard_normal(system.nu)
    report = check_derivatives(AccelerationResidual(system), x, u, system=system, tolerance=CENTRAL_DIFFERENCES)
    assert report.ok, report
    if name != "standing":
        few = AccelerationResidual(system, [system.nv - 1])
        assert check_derivatives(few, x, u, system=system, tolerance=CENTRAL_DIFFERENCES).ok


def test_accelerations_of_other_systems(rng):
    pendulum = Pendulum(0.1)
    xs, us = rng.standard_normal((4, 2)), rng.standard_normal((4, 1))
    wanted = us[:, 0] - 9.81 * np.sin(xs[:, 0]) - 0.1 * xs[:, 1]
    np.testing.assert_allclose(AccelerationResidual(pendulum).evaluate(xs, us)[:, 0], wanted, rtol=1e-12, atol=1e-12)
    assert AccelerationResidual(pendulum).component_names == ()
    mine = CallableSystem(xdot=lambda x, u: (x[1], u[0] - 9.81 * np.sin(x[0]) - 0.1 * x[1]), nx=2, nu=1, dt=0.1,
                          integrator="semi_implicit_euler")  # fmt: skip
    np.testing.assert_allclose(AccelerationResidual(mine).evaluate(xs, us)[:, 0], wanted, rtol=1e-12, atol=1e-12)


def test_a_cost_of_accelerations(rng):
    system = Pendulum(0.1)
    p = Problem(system, [0.0, 0.0], 4, [ResidualCost(AccelerationResidual(system), 2.0, at=[0, 2])])
    xs, us = rng.standard_normal((5, 2)), rng.standard_normal((4, 1))
    a = AccelerationResidual(system).evaluate(xs[:-1], us)[:, 0]
    assert total_cost(p, xs, us) == pytest.approx(a[0] ** 2 + a[2] ** 2, rel=1e-13)


@pytest.mark.parametrize("kind", ["forward", "inverse", "rates"])
def test_accelerations_are_kept(kind):
    """By name, lower and upper; the same minimum with accelerations as controls, and lifted beside control rates."""
    system = arm()
    if kind == "inverse":
        system = dynamics.RigidBodySystem(system.model, 0.01, formulation="inverse")
    rate = ControlRateSystem(system) if kind == "rates" else None
    bounds = AccelerationBounds(rate or system, {"elbow": -3.0}, {"shoulder": 4.0, "elbow": 3.0})
    assert bounds.component_names == ("shoulder acceleration", "elbow acceleration")
    p = swing(system, [0.5, 0.9], [] if rate else [bounds], speed=100.0)
    if rate is not None:
        p = Problem(rate, rate.state(p.x0), 40, p.running_costs, [rate.lift(p.terminal_costs[0])], [bounds])
    solutions = both(p)
    for solution in solutions:
        a = np.diff(solution.xs[:, 2:4], axis=0) / 0.01
        assert a[:, 0].max() == pytest.approx(4.0, abs=1e-4)
        assert a[:, 1].max() <= 3.0 + 1e-4 and a[:, 1].min() >= -3.0 - 1e-4
        assert a[:, 0].min() < -4.1
    assert solutions[0].cost == pytest.approx(_cost_of_kept_accelerations(), rel=1e-5)


def _cost_of_kept_accelerations():
    system = arm()
    bounds = AccelerationBounds(system, [-np.inf, -3.0], [4.0, 3.0])
    return DDP().solve(swing(system, [0.5, 0.9], [bounds], speed=100.0)).cost


def test_accelerations_of_one_phase():
    """The system of a segment, at its knots; that of all phases is refused, and one with other contacts."""
    robot = quadruped()
    phases = dynamics.HybridSystem(robot, 0.01, [("stance", FEET, 3), ("step", FEET[:3], 3)])
    x0 = phases.state(standing())
    segment = phases.segments[1]
    bounds = AccelerationBounds(segment.system, -50.0, 50.0, at=range(segment.start, segment.stop))
    p = Problem(phases, x0, 6, [ControlCost(1.0)], constraints=[bounds], us_init="quasi_static")
    np.testing.assert_array_equal(p.constraints[0].knots(6, False), [3, 4, 5])
    with pytest.raises(ValueError, match="constraints: 'acceleration bounds', at knots 0 to 5, was made"):
        Problem(phases, x0, 6, [ControlCost(1.0)], constraints=[AccelerationBounds(segment.system, -50.0, 50.0)])
    with pytest.raises(ValueError, match="system: the knots of HybridSystem differ, expected the system of some that"):
        AccelerationBounds(phases, -50.0, 50.0)


# ------------------------------------------------------------------------------------------------ control rates
def test_control_rates_are_kept():
    system = arm()
    rate = ControlRateSystem(system)
    bounds = ControlRateBounds(rate, {"elbow": -20.0}, {"shoulder": 40.0, "elbow": 20.0})
    z, u = rate.state(system.state([0.1, 0.2]), [1.0, 2.0]), np.array([1.5, 1.9])
    np.testing.assert_allclose(bounds.residual.evaluate(z[None], u[None]), [[50.0, -10.0]], rtol=1e-12)
    assert bounds.component_names == ("shoulder rate", "elbow rate")
    assert check_derivatives(bounds.residual, z, u, system=rate).ok
    free, held = swing(system, [0.5, 0.9], []), [bounds]
    u0 = system.quasi_static(free.x0)
    p = Problem(rate, rate.state(free.x0, u0), 40, free.running_costs, [rate.lift(free.terminal_costs[0])], held)
    for solution in both(p):
        rates = np.diff(solution.us, axis=0, prepend=u0[None]) / 0.01
        assert rates[:, 0].max() == pytest.approx(40.0, abs=1e-3)
        assert np.abs(rates[:, 1]).max() == pytest.approx(20.0, abs=1e-3)


# ------------------------------------------------------------------------------------------------ jerks
def floating():
    system = arm(base=dynamics.FreeFlyer(), actuation="floating_base")
    return system, system.neutral_state


@pytest.mark.parametrize("make", [lambda: (arm(), arm().neutral_state), floating, lambda: (Pendulum(), np.zeros(2))])
def test_the_velocities_before_are_part_of_the_state(make, rng):
    inner, x0 = make()
    system, n = JerkSystem(inner), inner.ndx // 2
    assert (system.nx, system.ndx, system.nu) == (inner.nx + n, inner.ndx + n, inner.nu)
    x0 = inner.integrate(x0, 0.3 * rng.standard_normal(inner.ndx))
    us = rng.standard_normal((4, inner.nu))
    np.testing.assert_array_equal(system.state(x0)[inner.nx :], x0[-n:])
    zs = system.rollout(system.state(x0, 0.5), us)
    np.testing.assert_allclose(zs[:, : inner.nx], inner.rollout(x0, us), rtol=1e-14)
    np.testing.assert_array_equal(zs[0, inner.nx :], np.full(n, 0.5))
    np.testing.assert_array_equal(zs[1:, inner.nx :], zs[:-1, inner.nx - n : inner.nx])
    np.testing.assert_allclose(system.step(zs[:-1], us), zs[1:], rtol=1e-9, atol=1e-12)
    assert check_derivatives(system, zs[2], us[2]).ok
    residual = JerkResidual(system)
    wanted = np.diff(zs[:, inner.nx - n : inner.nx], 2, axis=0, prepend=0.5 * np.ones((1, n))) / inner.dt**2
    np.testing.assert_allclose(residual.evaluate(zs[:-1], us), wanted, rtol=1e-8, atol=1e-7)
    assert check_derivatives(residual, zs[2], us[2], system=system).ok
    assert check_derivatives(JerkResidual(system, [n - 1]), zs[2], us[2], system=system).ok


def test_jerks_are_kept():
    """By name, beside limits of accelerations; with the control before in the state, too, the same minimum."""
    inner = arm()
    free = swing(inner, [0.5, 0.9], [], speed=100.0)
    costs = []
    for rate in (False, True):
        system = JerkSystem(inner)
        z0, lift = system.state(free.x0), system.lift
        if rate:
            jerks, system = system, ControlRateSystem(system)
            z0, lift = system.state(z0), lambda cost, jerks=jerks, system=system: system.lift(jerks.lift(cost))
        bounds = JerkBounds(system, {"elbow": -150.0}, {"elbow": 150.0})
        assert bounds.component_names == ("elbow jerk",)
        limits = [bounds, AccelerationBounds(system, upper={"shoulder": 6.0})]
        p = Problem(system, z0, 40, free.running_costs, [lift(free.terminal_costs[0])], limits)
        for solution in both(p):
            a = np.diff(solution.xs[:, 2:4], axis=0) / 0.01
            jerk = np.diff(a[:, 1], prepend=0.0) / 0.01
            assert np.abs(jerk).max() == pytest.approx(150.0, abs=1e-2)
            assert a[:, 0].max() == pytest.approx(6.0, abs=1e-4)
            costs.append(solution.cost)
    np.testing.assert_allclose(costs, costs[0], rtol=1e-5)


def test_names_and_speeds_in_front_of_the_velocities_before():
    system = JerkSystem(arm())
    assert system.tangent_names[-2:] == ("shoulder velocity before", "elbow velocity before")
    z = system.state(arm().state([0.0, 0.0], [1.0, 2.0]), 9.0)
    u = np.array([[3.0, 4.0]])
    r = TorqueSpeedBounds.from_model(system).residual.evaluate(z[None], u)
    np.testing.assert_array_equal(r, TorqueSpeedBounds.from_model(arm()).residual.evaluate(z[None, :4], u))
    assert JerkSystem(Pendulum()).memory == 1 and repr(system).startswith("JerkSystem(RigidBodySystem(")
    rates = ControlRateSystem(arm())
    with pytest.raises(ValueError, match=r"with 2 velocities before, not for .* with 2 controls before"):
        Problem(rates, rates.neutral_state, 4, [StateCost(system, system.neutral_state, 1.0)])


# ------------------------------------------------------------------------------------------------ torque and speed
def test_torque_and_speed_by_hand():
    system = arm()
    bounds = TorqueSpeedBounds(system, [4.0, 10.0], 5.0)
    x, u = system.state([0.1, 0.2], [1.0, -3.0]), np.array([2.0, 5.0])
    r = bounds.residual.evaluate(x[None], u[None])
    np.testing.assert_allclose(r, [[0.5 + 0.2, 0.5 - 0.6, 0.5 - 0.2, 0.5 + 0.6]], rtol=1e-14)
    assert bounds.component_names[1:3] == ("elbow torque + speed", "shoulder torque - speed")
    assert check_derivatives(bounds.residual, x, u, system=system).ok
    motoring = TorqueSpeedBounds(system, {"elbow": 10.0}, {"elbow": 5.0}, braking=False)
    np.testing.assert_allclose(motoring.residual.evaluate(x[None], u[None]), [[0.5 - 0.6]], rtol=1e-14)
    rate = ControlRateSystem(system)
    lifted = TorqueSpeedBounds(rate, [4.0, 10.0], 5.0).residual
    np.testing.assert_allclose(lifted.evaluate(rate.state(x, 0.3)[None], u[None]), r, rtol=1e-14)
    assert check_derivatives(lifted, rate.state(x, 0.3), u, system=rate).ok
    mine = LinearSystem(np.eye(3), np.ones((3, 1)))
    of_mine = TorqueSpeedBounds(mine, 2.0, 4.0, speeds=[[0.0, 2.0, 1.0]]).residual
    np.testing.assert_allclose(of_mine.evaluate(np.array([[9.0, 1.0, 3.0]]), np.ones((1, 1))), [[1.75, -0.75]])


def test_what_the_model_knows():
    """Efforts and speeds through gears: a motor of a joint with gear 4 turns four times as fast."""
    plain = TorqueSpeedBounds.from_model(arm())
    x, u = arm().state([0.0, 0.0], [1.0, 2.0]), np.array([3.0, 4.0])
    wanted = [3.0 / 5.0 + 1.0 / 3.0, 4.0 / 7.0 + 2.0 / 3.0, 3.0 / 5.0 - 1.0 / 3.0, 4.0 / 7.0 - 2.0 / 3.0]
    np.testing.assert_allclose(plain.residual.evaluate(x[None], u[None])[0], wanted, rtol=1e-14)
    geared = arm(np.diag([4.0, 1.0]))
    S, limits = geared.control_speeds
    np.testing.assert_array_equal(S, np.diag([4.0, 1.0]))
    np.testing.assert_array_equal(limits, [12.0, 3.0])
    of_motors = TorqueSpeedBounds.from_model(geared).residual.evaluate(x[None], (u / [4.0, 1.0])[None])[0]
    np.testing.assert_allclose(of_motors, wanted, rtol=1e-14)
    coupled = arm([[1.0, 1.0], [0.0, 1.0]], effort=(np.inf, 7.0))
    np.testing.assert_array_equal(coupled.control_speeds[0], [[1.0, 0.0], [1.0, 1.0]])
    np.testing.assert_array_equal(coupled.control_speeds[1], [3.0, np.inf])
    phases = dynamics.HybridSystem(quadruped(), 0.01, [("stance", FEET, 2)])
    np.testing.assert_array_equal(phases.control_speeds[0], np.eye(18)[6:])
    with pytest.raises(ValueError, match="got no motor with finite stall_torque and no_load_speed"):
        TorqueSpeedBounds.from_model(phases)  # the robot knows no limits of speed


def test_propellers_have_no_speeds_of_joints():
    builder = dynamics.ModelBuilder(name="drone")
    builder.add_body("hull", "world", dynamics.FreeFlyer(), mass=1.0, com=(0.0, 0.0, 0.0), inertia=0.1 * np.eye(3))
    builder.add_thruster("lift", "hull", upper=20.0)
    drone = dynamics.RigidBodySystem(builder.build(), 0.01, actuation="model")
    assert drone.control_speeds is None
    with pytest.raises(TypeError, match="system: RigidBodySystem knows no speeds of its motors, expected speeds="):
        TorqueSpeedBounds(drone, 1.0, 1.0)


@pytest.mark.parametrize("formulation", ["forward", "inverse"])
def test_torques_at_a_speed_are_kept(formulation):
    """The elbow's motor cannot give at speed what it could at rest."""
    system = dynamics.RigidBodySystem(arm().model, 0.01, formulation=formulation)
    bounds = TorqueSpeedBounds(system, {"elbow": 6.0}, {"elbow": 4.0})
    p = swing(system, [-0.5, 1.6], [bounds, ControlBounds(-30.0, 30.0)], horizon=50, speed=100.0)
    for solution in both(p):
        use = np.abs(solution.us[:, 1]) / 6.0 + np.abs(solution.xs[:-1, 3]) / 4.0
        assert use.max() == pytest.approx(1.0, abs=1e-5) and (use > 0.99).sum() > 3
        assert np.abs(solution.xs[:, 3]).max() > 1.0


# ------------------------------------------------------------------------------------------------ errors
RATE = ControlRateSystem(Pendulum())
BARE = LinearSystem(np.eye(2), np.ones((2, 1)))


@pytest.mark.parametrize(
    ("make", "error", "match"),
    [
        (lambda: AccelerationBounds(arm()), ValueError, "AccelerationBounds: got infinite limits alone"),
        (lambda: AccelerationBounds(arm(), {"elbo": 1.0}), ValueError, "lower: .* 'elbo', expected .*mean 'elbow'"),
        (lambda: AccelerationBounds(arm(), -1.0, [1.0]), ValueError, r"upper: got shape \(1,\), expected a number, "),
        (lambda: AccelerationBounds(arm(), np.nan), ValueError, "lower: got nan"),
        (lambda: AccelerationBounds(arm(), 2.0, 1.0), ValueError, "acceleration bounds: got lower 2.0 and upper 1.0"),
        (lambda: AccelerationBounds(Pendulum(), {"hinge": 1.0}), ValueError, "lower: got limits by name, expected a s"),
        (lambda: AccelerationBounds(BARE, -1.0), TypeError, "system: LinearSystem does not say which numbers of its"),
        (lambda: AccelerationBounds(None, -1.0), TypeError, "system: NoneType lacks nx"),
        (lambda: AccelerationResidual(arm(), [2]), ValueError, r"components: got \[2\], expected indices from 0"),
        (lambda: AccelerationResidual(arm()).evaluate(np.zeros((1, 4)), None), ValueError, "us: got None, expected"),
        (lambda: ControlRateBounds(Pendulum(), -1.0), TypeError, "system: got Pendulum, expected a trajopt.Control"),
        (lambda: JerkBounds(RATE, -1.0), TypeError, "system: got Pendulum, expected a trajopt.JerkSystem"),
        (lambda: JerkBounds(JerkSystem(arm())), ValueError, "JerkBounds: got infinite limits alone"),
        (lambda: JerkBounds(JerkSystem(arm()), {"elbo": 1.0}), ValueError, "lower: .* 'elbo', expected .*mean 'elbow'"),
        (lambda: JerkSystem(BARE), TypeError, "system: LinearSystem does not say which numbers of its states are"),
        (lambda: JerkSystem(dynamics.RigidBodySystem(arm().model, 0.01, formulation="inverse")), ValueError,
         "system: got a RigidBodySystem that takes accelerations for controls"),
        (lambda: JerkSystem(arm()).state(np.zeros(4), [1.0]), ValueError, "v_before: got 1 numbers, expected one or 2"),
        (lambda: ControlRateBounds(RATE), ValueError, "ControlRateBounds: got infinite limits alone"),
        (lambda: ControlRateBounds(RATE, {"motor": 1.0}), ValueError, "lower: got limits by name, expected a sys"),
        (lambda: ControlRateBounds(RATE, "a"), TypeError, "lower: got 'a', expected an array of real numbers"),
        (lambda: TorqueSpeedBounds(arm(), 0.0, 1.0), ValueError, "stall_torque: got 0.0, expected positive numbers"),
        (lambda: TorqueSpeedBounds(arm(), 1.0, -1.0), ValueError, "no_load_speed: got -1.0, expected positive numbers"),
        (lambda: TorqueSpeedBounds(arm(), 1.0, [1.0]), ValueError, r"no_load_speed: got shape \(1,\), expected a num"),
        (lambda: TorqueSpeedBounds(arm(), np.ones((3, 2)), 1.0), ValueError, r"stall_torque: got shape \(3, 2\)"),
        (lambda: TorqueSpeedBounds(arm(), {"elbo": 1.0}, 1.0), ValueError, "stall_torque: .* did you mean 'elbow'"),
        (lambda: TorqueSpeedBounds(arm(), {"elbow": 1.0}, {"shoulder": 1.0}), ValueError, "got no motor with finite"),
        (lambda: TorqueSpeedBounds(arm(), 1.0, 1.0, braking=3), TypeError, "braking: got 3, expected True or False"),  # type: ignore
        (lambda: TorqueSpeedBounds(arm(), 1.0, 1.0, [[1.0]]), ValueError, r"speeds: got shape \(1, 1\), expected \(2"),
        (lambda: TorqueSpeedBounds(Pendulum(), 1.0, 1.0), TypeError, "system: Pendulum knows no speeds of its motors"),
        (lambda: TorqueSpeedBounds.from_model(Pendulum()), TypeError, "system: Pendulum knows no limits of its con"),
    ],
)  # fmt: skip
def test_errors_name_the_argument(make, error, match):
    with pytest.raises(error, match=match):
        make()
