"""Free initial states, parameters of the whole horizon, periodic motions: derivatives, closed loops, minima found by
doubled states and by a solver for dense problems, derivatives of solutions, reports, bad input."""

import pickle
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize

import dynamics
import problems
import trajopt
from tests.reference.robot_systems import both_orders_at_once
from trajopt.interfaces.stepwise import closed_loop_by_steps
from trajopt.layers import Covectors, SolvedPoint, Solves
from trajopt.problem.augmented_system import Declared, declared_system
from trajopt.problem.periodic import StartAndEnd

N, DT = 30, 0.2


def swing(x, u):
    """A damped pendulum with a torque."""
    return x[1], u[0] - np.sin(x[0]) - 0.2 * x[1]


def sprung(x, u):
    """A mass on a spring that hardens, of stiffness u[1], with a force u[0]."""
    return x[1], u[0] - u[1] * x[0] - 0.3 * x[0] ** 3 - 0.1 * x[1]


def pendulum(dt=DT):
    return trajopt.CallableSystem(xdot=swing, nx=2, nu=1, dt=dt, state_names=("angle", "speed"))


def spring():
    return trajopt.CallableSystem(xdot=sprung, nx=2, nu=2, dt=DT, control_names=("force", "stiffness"))


def quadrotor():
    return problems.make("quadrotor").system


def rates():
    return trajopt.ControlRateSystem(quadrotor())


def trot():
    return problems.make("quadruped_trot").system


SYSTEMS = {"pendulum": pendulum, "spring": spring, "quadrotor": quadrotor, "rates": rates}
CHOICES = {"pendulum": ((0, 1), (1,), ()), "spring": ((1,), (0,), (1,)), "quadrotor": (range(3, 9), (0, 2, 5), (3,)),
           "rates": ((4, 0, 13), (0, 2), (0, 1)), "trot": (range(6, 20), (3, 9), (5,))}  # fmt: skip


def augmented(name, rng, horizon=3):
    system = trot() if name == "trot" else SYSTEMS[name]()
    free, carried, parameters = (np.array(which, dtype=np.intp) for which in CHOICES[name])
    start = problems.make("quadruped_trot").x0 if name == "trot" else near(system, 0.4, rng)
    horizon = system.horizon if name == "trot" else horizon
    return declared_system(system, horizon, Declared(start, free, carried, parameters))


def near(system, size, rng, count=None):
    origin = getattr(system, "neutral_state", np.zeros(system.nx))
    shape = (system.ndx,) if count is None else (count, system.ndx)
    at = origin if count is None else np.tile(origin, (count, 1))
    return system.integrate(at, size * rng.standard_normal(shape))


def trajectory(system, rng, size=0.3):
    """States that follow from controls, moved a little."""
    x0 = system.state(system.choices.center, 0.5 + 0.1 * rng.standard_normal(system.memory))
    us = size * rng.standard_normal((system.horizon, system.nu))
    return system.rollout(x0, us), us


# ------------------------------------------------------------------------------------------------ the system
@pytest.mark.parametrize("name", SYSTEMS)
def test_derivatives_against_differences(name, rng):
    system = augmented(name, rng)
    xs, us = trajectory(system, rng)
    for t in range(system.horizon):
        report = trajopt.check_derivatives(system.window(t, t + 1), xs[t : t + 1], us[t : t + 1])
        assert report.ok, (t, report)
    lam = rng.standard_normal((system.horizon, system.ndx))
    first, second = system.linearize(xs, us), system.hessian_products(xs, us, lam)
    for got, wanted in zip(both_orders_at_once(system, xs[:-1], us, lam), (*first, *second), strict=True):
        np.testing.assert_allclose(got, wanted, atol=1e-12 * (1.0 + np.abs(wanted).max()))


@pytest.mark.parametrize("limited", [False, True])
@pytest.mark.parametrize("gapped", [False, True])
@pytest.mark.parametrize("name", [*SYSTEMS, "trot"])
def test_closed_loops_are_those_of_single_steps(name, gapped, limited, rng):
    """Also where limits keep declared numbers from moving in proportion to the step."""
    system, size = augmented(name, rng), 1e-3 if name == "trot" else 0.03
    system = system.window(0, system.setting.sum() + 6) if name == "trot" else system
    xs, us = trajectory(system, rng, 10 * size)
    N = system.horizon
    k, K = size * rng.standard_normal((N, system.nu)), size * rng.standard_normal((N, system.nu, system.ndx))
    gaps = None
    if gapped:
        x = system.split(xs)[0]
        moved = system.system.integrate(x, size * rng.standard_normal((N + 1, system.system.ndx)))
        xs = np.hstack([moved, xs[:, system.system.nx :]])
        gaps = system.difference(xs, np.vstack([system.state(system.choices.center, xs[0, system.system.nx :]),
                                                system.step(xs[:-1], us)]))  # fmt: skip
    limits = (us - 0.5 * size, us + 0.5 * size) if limited else (None, None)
    x0 = xs[0] if gaps is None else system.integrate(xs[0], gaps[0])
    loop = x0, xs, us, k, K, np.linspace(0.1, 1.0, 10), gaps, *limits
    for got, wanted in zip(system.closed_loop_rollout(*loop), closed_loop_by_steps(system, *loop), strict=True):
        np.testing.assert_allclose(got, wanted, atol=1e-10 * np.abs(wanted).max())


@pytest.mark.parametrize("mirrored", [False, True])
@pytest.mark.parametrize("name", SYSTEMS)
def test_the_constraint_between_both_ends_has_exact_derivatives(name, mirrored, rng):
    """x_N (-) r - M (x_0 (-) r), with r the state near which the initial one is looked for, or another."""
    inside = SYSTEMS[name]()
    free, _, parameters = (np.array(which, dtype=np.intp) for which in CHOICES[name])
    center = near(inside, 0.4, rng)
    system = declared_system(inside, 3, Declared(center, free, np.arange(len(free)), parameters))
    M = rng.standard_normal((inside.ndx, inside.ndx)) if mirrored else None
    tied = np.arange(inside.ndx)[1:]
    periodic = trajopt.Periodic(inside, tied, map=M, reference=near(inside, 0.3, rng) if mirrored else None)
    residual = StartAndEnd(system, periodic.starting_at(center).residual)
    zs = system.state(near(inside, 0.5, rng, 4), 0.4 * rng.standard_normal((4, system.memory)))
    for z in zs:
        report = trajopt.check_derivatives(residual, z[None], system=system.window(system.horizon - 1, system.horizon))
        assert report.ok, report
    d = np.zeros((4, inside.ndx))
    d[:, free] = zs[:, len(parameters) + inside.nx :]
    x0, x = inside.integrate(np.tile(center, (4, 1)), d), system.split(zs)[0]
    bound = [periodic.starting_at(one).residual for one in x0]
    wanted = np.array([one.evaluate(at[None], None)[0] for one, at in zip(bound, x, strict=True)])
    if mirrored or name in ("pendulum", "spring"):
        np.testing.assert_allclose(residual.evaluate(zs, None), wanted, atol=1e-12)
    np.testing.assert_allclose(residual.evaluate(system.state(x0, zs[:, inside.nx :]), None) if not mirrored else 0.0,
                               0.0, atol=1e-12)  # fmt: skip


# ------------------------------------------------------------------------------------------------ minima
def followed(system, T):
    """A sine, and a price of torques."""
    wanted = np.array([[np.sin(2 * np.pi * t / T), 0.0] for t in range(T)])
    return [trajopt.StateCost(system, reference=wanted, weights=[1.0, 0.1]), trajopt.ControlCost(0.1)]


def periodic_swing(**options):
    system = pendulum()
    given = {"constraints": [trajopt.Periodic(system)], "free_initial_state": True, **options}
    return trajopt.Problem(system, np.zeros(2), N, followed(system, N), **given)


def dense(problem, parameters, start, constraints):
    """The minimum over initial state, controls and parameters by a solver for dense problems, exact gradients."""
    system, at = problem.system, list(parameters)
    n, T, others = system.nx, problem.horizon, np.setdiff1d(np.arange(system.nu), parameters)

    def unpacked(z):
        us = np.empty((T, system.nu))
        us[:, others], us[:, at] = z[n : n + T * len(others)].reshape(T, -1), z[len(z) - len(at) :]
        return z[:n].copy(), us

    def states(z):
        return system.rollout(*unpacked(z))

    def packed(of_start, of_controls):
        free, kept = of_controls[..., others], of_controls[..., at].sum(axis=-2)
        return np.concatenate([of_start, free.reshape(*free.shape[:-2], -1), kept], axis=-1)

    def gradient(z):
        xs, us = states(z), unpacked(z)[1]
        e = trajopt.expand(problem, xs, us)
        lam, of_controls = e.lx[-1], np.zeros_like(us)
        for t in range(T - 1, -1, -1):
            of_controls[t], lam = e.lu[t] + e.fu[t].T @ lam, e.lx[t] + e.fx[t].T @ lam
        return packed(lam, of_controls)

    def of_end(z):
        xs, us = states(z), unpacked(z)[1]
        fx, fu = system.linearize(xs[:-1], us)
        by_start, by_controls = np.eye(n), np.zeros((n, T, system.nu))
        for t in range(T - 1, -1, -1):
            by_controls[:, t], by_start = by_start @ fu[t], by_start @ fx[t]
        return packed(by_start, by_controls)

    rows = [{"type": "eq", "fun": lambda z: states(z)[-1] - z[:n],
             "jac": lambda z: of_end(z) - np.eye(n, len(z))}, *constraints]  # fmt: skip
    found = minimize(
        lambda z: problem.objective.value(states(z), unpacked(z)[1]), start, jac=gradient, method="SLSQP",
        constraints=rows, options={"ftol": 1e-15, "maxiter": 500},
    )  # fmt: skip
    return found.fun, states(found.x), unpacked(found.x)[1]


@pytest.mark.parametrize("solver", [trajopt.DDP(), trajopt.ILQR()])
def test_a_periodic_motion_is_that_of_a_dense_solver(solver):
    problem = periodic_swing()
    solution = solver.solve(problem)
    assert solution.converged and solution.problem is problem and solution.xs.shape == (N + 1, 2)
    cost, xs, us = dense(problem, (), np.zeros(N + 2), [])
    assert abs(solution.cost - cost) <= 1e-10 * cost
    np.testing.assert_allclose(solution.xs, xs, atol=1e-6)
    np.testing.assert_allclose(solution.us, us, atol=1e-6)
    np.testing.assert_allclose(solution.xs[-1], solution.xs[0], atol=1e-9)
    np.testing.assert_allclose(pendulum().rollout(solution.xs[0], solution.us), solution.xs, atol=1e-12)
    assert solution.certificate().minimum


def test_a_periodic_motion_is_that_of_doubled_states():
    """By hand: states (x, x_0), a first knot of length zero whose controls choose both, as many as there are states."""

    def doubled(x, u):
        return x[1], u[0] - np.sin(x[0]) - 0.2 * x[1], 0.0 * x[2], 0.0 * x[3]

    plain, solution = pendulum(), trajopt.DDP().solve(periodic_swing())
    twice = trajopt.CallableSystem(xdot=doubled, nx=4, nu=1, dt=DT)
    ends = trajopt.ResidualConstraint(trajopt.residual(lambda x: (x[0] - x[2], x[1] - x[3]), 2, twice), at="terminal")
    wanted = np.array([[np.sin(2 * np.pi * t / N), 0.0, 0.0, 0.0] for t in range(N)])
    costs = [trajopt.StateCost(twice, reference=wanted, weights=[1.0, 0.1, 0.0, 0.0]), trajopt.ControlCost(0.1)]

    def best(x0):
        return trajopt.DDP().solve(trajopt.Problem(twice, np.tile(x0, 2), N, costs, [], [ends])).cost

    there = best(solution.xs[0])
    assert abs(there - solution.cost) <= 1e-9
    around = [best(solution.xs[0] + d) for d in 1e-2 * np.vstack([np.eye(2), -np.eye(2)])]
    assert min(around) > there
    assert plain.nx == solution.xs.shape[1]


def test_parameters_are_those_of_a_dense_solver():
    """The stiffness that lets a mass follow a sine with the least force, and the motion that repeats."""
    system = spring()
    wanted = np.array([[np.sin(4 * np.pi * t / N), 0.0] for t in range(N)])
    costs = [trajopt.StateCost(system, reference=wanted, weights=[5.0, 0.0]), trajopt.ControlCost([0.2, 1e-3])]
    problem = trajopt.Problem(
        system, np.zeros(2), N, costs, [], [trajopt.Periodic(system)], np.tile([0.0, 1.0], (N, 1)),
        free_initial_state=True, parameters="stiffness",
    )  # fmt: skip
    solution = trajopt.DDP().solve(problem)
    assert solution.converged and list(solution.parameters) == ["stiffness"]
    assert np.ptp(solution.us[:, 1]) == 0.0 and solution.parameters["stiffness"] == solution.us[0, 1]
    cost, xs, us = dense(problem, (1,), np.append(np.zeros(N + 2), 1.0), [])
    assert abs(solution.cost - cost) <= 1e-9 * cost
    np.testing.assert_allclose(solution.xs, xs, atol=1e-5)
    np.testing.assert_allclose(solution.us, us, atol=1e-5)
    assert solution.certificate().minimum
    assert "stiffness" not in solution.explain() or "Without effect" not in solution.explain()
    stiff = trajopt.ControlBounds(lower=[-1.0, 0.0], upper=[1.0, us[0, 1] - 0.5])
    bounded = trajopt.DDP().solve(replace(problem, constraints=[*problem.constraints, stiff]))
    assert bounded.converged and bounded.parameters["stiffness"] == us[0, 1] - 0.5
    report = bounded.constraints[1]
    assert report.multipliers[:, 1].max() > 0.0 and report.values.shape == (N, 2)


def test_nothing_but_parameters():
    """A mass that is only held by a spring: the stiffness at which it is where it should be at the end."""
    system = trajopt.CallableSystem(xdot=lambda x, u: (x[1], -u[0] * x[0]), nx=2, nu=1, dt=0.01)
    end = trajopt.StateCost(system, reference=[0.0, 0.0], weights=[1.0, 0.0])
    problem = trajopt.Problem(system, [1.0, 0.0], 100, [], [end], us_init=np.full((100, 1), 2.0), parameters=[0])
    solution = trajopt.DDP().solve(problem)
    assert solution.converged
    np.testing.assert_allclose(solution.parameters["u_1"], np.pi**2 / 4.0, rtol=1e-6)


def test_what_is_free_and_what_is_held():
    """A free speed within limits, the angle given; names, masks and limits say the same."""
    system = pendulum()
    costs = followed(system, N)
    free = trajopt.DDP().solve(trajopt.Problem(system, [0.3, 0.0], N, costs, free_initial_state=["speed"]))
    assert free.converged and free.xs[0, 0] == 0.3 and free.xs[0, 1] > 0.5
    for same in [np.array([False, True]), [1], ([0.3, -9.0], [0.3, 9.0]), {"speed": None}, {"speed": (-9.0, 9.0)},
                 ({"angle": 0.3}, {"angle": 0.3}), np.array([[0.3, -9.0], [0.3, np.inf]])]:  # fmt: skip
        other = trajopt.DDP().solve(trajopt.Problem(system, [0.3, 0.0], N, costs, free_initial_state=same))
        np.testing.assert_allclose(other.xs, free.xs, atol=1e-7)
    held = trajopt.DDP().solve(trajopt.Problem(system, [0.3, 0.0], N, costs, free_initial_state={"speed": (-1.0, 0.5)}))
    assert held.converged and held.xs[0].tolist() == [0.3, 0.5] and held.cost > free.cost
    assert free.certificate().minimum and held.certificate().minimum
    assert "Of the free initial state: 'speed' at its upper limit 0.5." in held.explain()
    assert "initial state:" not in free.explain()
    assert not free.parameters


def test_constraints_hold_at_the_first_knot_where_its_state_is_free():
    system = pendulum()
    costs, below = followed(system, N), trajopt.StateBounds(system, upper={"speed": 0.5})
    solution = trajopt.DDP().solve(trajopt.Problem(system, np.zeros(2), N, costs, [], [below], free_initial_state=True))
    assert solution.converged and solution.constraints[0].knots.tolist() == list(range(N + 1))
    assert solution.xs[:, 1].max() <= 0.5 + 1e-7 and solution.xs[0, 1] > 0.5 - 1e-7
    fixed = replace(solution.problem, x0=np.array([0.0, 0.8]), free_initial_state=["angle"])
    solution = trajopt.DDP().solve(fixed)
    assert solution.converged and solution.xs[0, 1] == 0.8 and solution.xs[1:, 1].max() <= 0.5 + 1e-7


def test_a_given_initial_state_makes_it_a_constraint_of_the_end():
    system = pendulum()
    problem = periodic_swing(free_initial_state=None)
    problem = replace(problem, x0=np.array([0.2, 0.1]))
    solution = trajopt.DDP().solve(problem)
    end = trajopt.StateResidual(system, problem.x0)
    plain = replace(problem, constraints=[trajopt.ResidualConstraint(end, at="terminal")])
    np.testing.assert_allclose(solution.xs, trajopt.DDP().solve(plain).xs, atol=1e-9)
    prepared = trajopt.DDP().prepare(problem)
    moved = prepared.solve([0.3, 0.0])
    np.testing.assert_allclose(moved.xs[-1], [0.3, 0.0], atol=1e-7)


def test_a_turn_in_each_period_and_half_a_motion():
    """The state gains what is asked for; a motion that ends mirrored goes on as a whole one."""
    system = pendulum()
    around = trajopt.Periodic(system, shift={"angle": 2 * np.pi})
    problem = trajopt.Problem(system, [0.0, 1.0], N, [trajopt.ControlCost(1.0)], [], [around], free_initial_state=True)
    solution = trajopt.DDP().solve(problem)
    assert solution.converged
    np.testing.assert_allclose(solution.xs[-1] - solution.xs[0], [2 * np.pi, 0.0], atol=1e-7)
    whole = trajopt.DDP().solve(periodic_swing())
    half = trajopt.Problem(
        system, np.zeros(2), N // 2, followed_half(system), [], [trajopt.Periodic(system, map=[-1.0, -1.0])],
        free_initial_state=True,
    )  # fmt: skip
    found = trajopt.DDP().solve(half)
    assert found.converged and abs(2 * found.cost - whole.cost) <= 1e-9
    np.testing.assert_allclose(found.xs, whole.xs[: N // 2 + 1], atol=1e-6)


def followed_half(system):
    wanted = np.array([[np.sin(2 * np.pi * t / N), 0.0] for t in range(N // 2)])
    return [trajopt.StateCost(system, reference=wanted, weights=[1.0, 0.1]), trajopt.ControlCost(0.1)]


# ------------------------------------------------------------------------------------------------ robots
def test_a_quadrotor_that_flies_in_circles_of_any_heading():
    """On a manifold: the motion repeats, rotation included, and costs the same from another first guess."""
    made = problems.make("quadrotor")
    system, T = made.system, 24
    hover = system.state(made.x0[:7])
    goal = np.array([[0.5 * np.cos(2 * np.pi * t / T), 0.5 * np.sin(2 * np.pi * t / T), 0.0] for t in range(T)])
    place = trajopt.StateCost(system, reference=hover, weights=np.r_[np.zeros(3), np.full(3, 0.1), np.full(6, 0.01)])
    follow = [[trajopt.ResidualCost(dynamics.FrameTranslation(system.model, "body", target=at), 5.0), place,
               trajopt.ControlCost(0.01, reference=made.us_init[0])] for at in goal]  # fmt: skip
    problem = trajopt.Problem(
        system, hover, T, follow, [], [trajopt.Periodic(system)], made.us_init[:T], free_initial_state=True
    )
    solution = trajopt.DDP().solve(problem)
    assert solution.converged
    np.testing.assert_allclose(system.difference(solution.xs[0], solution.xs[-1]), 0.0, atol=1e-7)
    assert np.linalg.norm(solution.xs[0, :3] - hover[:3]) > 0.04
    turned = system.integrate(hover, 0.2 * np.ones(system.ndx))
    again = trajopt.DDP().solve(replace(problem, x0=turned))
    assert again.converged and abs(again.cost - solution.cost) <= 1e-7 * solution.cost
    assert solution.certificate().minimum


def walker():
    """A torso in the plane on two legs with knees, and the mirror that swaps the legs."""
    builder, knee = dynamics.ModelBuilder(), (np.eye(3), [0.0, 0.0, -0.4])
    for axis, parent in ("x", "world"), ("z", "x"):
        builder.add_body(axis, parent, dynamics.Prismatic(axis), joint_name=axis, mass=0.0)
    turn, size = dynamics.Revolute("y"), {"inertia": 0.01 * np.eye(3)}
    builder.add_body("torso", "z", turn, joint_name="pitch", mass=8.0, com=(0.0, 0.0, 0.2), **size)
    for leg in "left", "right":
        rod = {"com": (0.0, 0.0, -0.2), "armature": 0.02, **size}
        builder.add_body(f"{leg} thigh", "torso", turn, joint_name=f"{leg} hip", mass=1.0, **rod)
        shank = {"joint_name": f"{leg} knee", "placement": knee, "mass": 0.5, **rod}
        builder.add_body(f"{leg} shank", f"{leg} thigh", turn, **shank)
        builder.add_frame(leg, f"{leg} shank", knee)
    return builder.build(), np.eye(14)[[0, 1, 2, 5, 6, 3, 4, 7, 8, 9, 12, 13, 10, 11]]


def test_a_walker_takes_the_same_step_with_the_other_leg():
    """Half a gait with an impact, from one initial state that nobody has made."""
    (robot, swap), stride = walker(), 0.3
    motors = np.vstack([np.zeros((3, 4)), np.eye(4)])
    system = dynamics.HybridSystem(robot, 0.04, [("step", ["left"], 12), ("landed", ["right"], 1)], actuation=motors)
    x0 = system.state([0.0, 0.74, 0.0, -0.5, 0.6, 0.2, 0.4])
    still = trajopt.StateCost(system, x0, np.r_[0.0, 0.0, 10.0, np.full(4, 0.1), np.full(7, 1e-2)])
    again = trajopt.Periodic(system, map=swap, shift={"x": stride})
    free = np.array([0.0, np.inf, 0.0])
    place = dynamics.FrameTranslation(robot, "left", np.zeros(3))
    foot = trajopt.ResidualConstraint(place, -free, free, at=[0], name="left foot")
    problem = trajopt.Problem(
        system, x0, system.horizon, [still, trajopt.ControlCost(1e-2)], [], [again, foot], "quasi_static",
        free_initial_state=True,
    )  # fmt: skip
    solution = trajopt.DDP().solve(problem)
    assert solution.converged and solution.constraints[1].knots.tolist() == [0]
    np.testing.assert_allclose(solution.xs[-1], swap @ solution.xs[0] + stride * np.eye(14)[0], atol=1e-7)
    left, right = (dynamics.frame_placement(robot, solution.xs[i, :7], leg).p[[0, 2]]
                   for i, leg in ((0, "left"), (-1, "right")))  # fmt: skip
    np.testing.assert_allclose([left, right], [[0.0, 0.0], [stride, 0.0]], atol=1e-6)
    assert np.linalg.norm(solution.xs[0] - x0) > 0.1 and solution.certificate().minimum


def test_a_free_duration_is_that_of_half_a_swing():
    """The least torque for an amplitude that is asked for: the pendulum swings by itself, as long as that takes."""
    inside = pendulum()
    system = trajopt.FreeDurationSystem(inside, 20, bounds=(0.3, 3.0))
    assert trajopt.Periodic(system).nr == 2
    half = trajopt.Periodic(system, ["angle", "speed"], map=[-1.0, -1.0, 0.0], reference=system.state([0.0, 0.0]))
    amplitude = trajopt.StateResidual(inside, [1.0, 0.0], [0])
    wide = trajopt.ResidualConstraint(system.lift(amplitude), at=[11], name="amplitude")
    problem = trajopt.Problem(
        system, system.state([-1.0, 0.1]), system.horizon, [system.lift(trajopt.ControlCost(0.1))], [],
        [half, wide, system.duration_bounds()], free_initial_state=True,
    )  # fmt: skip
    assert problem.free_initial_state.components.tolist() == [0, 1]
    solution = trajopt.DDP().solve(problem)
    assert solution.converged and solution.certificate().minimum
    np.testing.assert_allclose(solution.xs[-1, :2], -solution.xs[0, :2], atol=1e-8)
    natural = np.pi * (1.0 + 1.0 / 16.0)  # half a period at an amplitude of 1 rad, to third order
    assert solution.times[-1] == pytest.approx(natural, rel=0.02)


def test_a_periodic_problem_with_free_durations():
    """That of a `trajopt.FreeDurationSystem` written by hand; constraints on states hold at the first knot too."""
    inside = pendulum()
    effort, swung = trajopt.ControlCost(0.1), trajopt.Periodic(inside, map=[-1.0, -1.0])
    wide = trajopt.ResidualConstraint(trajopt.StateResidual(inside, [1.0, 0.0], [0]), at=[10], name="amplitude")
    low = trajopt.StateBounds(inside, upper={"speed": 0.5})
    given = trajopt.Problem(inside, [-0.2, 0.1], 20, [effort], [], [swung, wide, low], free_initial_state=True)
    free = trajopt.with_free_durations(given, bounds=(0.3, 3.0))
    solution = trajopt.DDP().solve(free)
    assert solution.converged and solution.certificate().minimum
    np.testing.assert_allclose(solution.xs[-1, :2], -solution.xs[0, :2], atol=1e-8)
    assert 1 in solution.constraints[3].knots and solution.xs[:, 1].max() <= 0.5 + 1e-7
    again = trajopt.DDP().solve(trajopt.with_free_durations(periodic_swing(), time_weight=1e-3))
    assert again.converged and np.abs(again.xs[-1, :2] - again.xs[0, :2]).max() < 1e-7


def test_limits_of_rates_hold_across_the_ends():
    """The torque before the first knot is that of the last one, which is part of the state."""
    inside = pendulum()
    system = trajopt.ControlRateSystem(inside)
    rates = trajopt.ControlRateBounds(system, -0.2, 0.2)
    costs = [system.lift(cost) for cost in followed(inside, N)]
    problem = trajopt.Problem(
        system, system.state([0.0, 0.0]), N, costs, [], [trajopt.Periodic(system), rates], free_initial_state=True
    )
    solution = trajopt.DDP().solve(problem)
    assert solution.converged
    around = np.append(solution.us[:, 0], solution.us[0, 0])
    assert np.abs(np.diff(around)).max() <= 0.2 * DT + 1e-7 and solution.constraints[1].active.any()


# ------------------------------------------------------------------------------------------------ derivatives
def parametric(p):
    """A spring with a motion of an amplitude, a price of force, and a limit of the stiffness that presses."""
    system = spring()
    wanted = np.array([[p["amplitude"] * np.sin(4 * np.pi * t / N), 0.0] for t in range(N)])
    costs = [trajopt.StateCost(system, reference=wanted, weights=[5.0, 0.0]), trajopt.ControlCost([p["price"], 1e-3])]
    limits = trajopt.ControlBounds(lower=[-9.0, 0.0], upper=[9.0, p["stiffest"]])
    return trajopt.Problem(
        system, np.zeros(2), N, costs, [], [trajopt.Periodic(system), limits], np.tile([0.0, 0.5], (N, 1)),
        free_initial_state=True, parameters="stiffness",
    )  # fmt: skip


@pytest.mark.parametrize("stiffest", [0.8, 50.0])
def test_derivatives_of_a_solution_against_two_solves(stiffest):
    p = {"amplitude": 0.8, "price": 0.2, "stiffest": stiffest}
    solver = trajopt.DDP(tolerance=1e-14)
    solution = solver.solve(parametric(p))
    assert (solution.parameters["stiffness"] == stiffest) == (stiffest < 1.0)
    found = trajopt.sensitivity(parametric, p, solution, polish=True)
    assert found.xs.shape == (N + 1, 2, 3) and found.us.shape == (N, 2, 3)
    for i, (name, h) in enumerate((("amplitude", 1e-3), ("price", 1e-4), ("stiffest", 1e-3))):
        up, down = (solver.solve(parametric({**p, name: p[name] + d})) for d in (h, -h))
        scale = 1.0 + np.abs(found.xs[..., i]).max()
        np.testing.assert_allclose(found.xs[..., i], (up.xs - down.xs) / (2 * h), atol=2e-4 * scale)
        np.testing.assert_allclose(found.us[..., i], (up.us - down.us) / (2 * h), atol=5e-4 * scale)
        np.testing.assert_allclose(found.cost[i], (up.cost - down.cost) / (2 * h), atol=1e-5)
    bar = np.cos(np.arange(2 * (N + 1))).reshape(N + 1, 2), np.sin(np.arange(2 * N)).reshape(N, 2)
    back = found.vjp(*bar)
    wanted = np.einsum("ti,tip->p", bar[0], found.xs) + np.einsum("ti,tip->p", bar[1], found.us)
    np.testing.assert_allclose([back[name] for name in p], wanted, atol=1e-8)
    start = found.predict({"amplitude": 0.01, "price": 0.0, "stiffest": 0.0})
    near = solver.solve(parametric({**p, "amplitude": 0.81}), warm_start=start)
    assert near.converged and np.abs(start.xs - near.xs).max() < 1e-2 * np.abs(near.xs - solution.xs).max() + 1e-4
    gradients = solution.vjp(*bar)
    np.testing.assert_allclose(gradients["x0"], 0.0, atol=1e-6)
    np.testing.assert_allclose(gradients["control bounds"]["upper"][1], back["stiffest"], atol=1e-6)
    assert trajopt.check_sensitivity(parametric, p, solution, trajopt.DDP(), wrt=["amplitude"]).ok


def test_derivatives_by_what_is_given_of_the_initial_state():
    """The speed is free: the solution does not depend on its guess."""
    system = pendulum()

    def make(x0):
        return trajopt.Problem(system, x0, N, followed(system, N), free_initial_state=["speed"])

    x0, h = np.array([0.3, 0.1]), 1e-4
    solver = trajopt.DDP(tolerance=1e-14)
    solution = solver.solve(make(x0))
    xs, us = solution.dx0()
    up, down = (solver.solve(make(x0 + [d, 0.0])) for d in (h, -h))
    np.testing.assert_allclose(xs[..., 0], (up.xs - down.xs) / (2 * h), atol=1e-5)
    np.testing.assert_allclose(us[..., 0], (up.us - down.us) / (2 * h), atol=1e-5)
    np.testing.assert_allclose(xs[..., 1], 0.0, atol=1e-12)
    given = trajopt.ParametricProblem(make(x0), "x0")
    found = trajopt.sensitivity(given, given.p, solution)
    np.testing.assert_allclose(found.xs, xs, atol=1e-8)
    np.testing.assert_allclose(found.cost, [(up.cost - down.cost) / (2 * h), 0.0], atol=1e-6)
    np.testing.assert_allclose(solution.vjp(cost_bar=1.0)["x0"], found.cost, atol=1e-10)
    covariance = solution.covariance(1e-4 * np.eye(2))
    assert covariance.xs.shape == (N + 1, 2, 2) and covariance.cost_increase > 0.0


def test_gradients_by_targets_of_knots_and_by_limits():
    """A tool follows a path, at the first knot too, where its state is free."""
    made = problems.make("arm")
    system, T = dynamics.RigidBodySystem(made.system.model, 0.1), 8
    x0 = system.state(made.x0[:6])
    start = dynamics.frame_placement(system.model, made.x0[:6], "tool").p
    angle = 2.0 * np.pi * np.arange(T + 1)[:, None] / T
    path = start + 0.05 * np.hstack([0.0 * angle, np.sin(angle), 1.0 - np.cos(angle)])
    rest = dynamics.gravity_forces(system.model, made.x0[:6])

    def make(moved):
        tool = dynamics.FrameTranslation(system.model, "tool", path + moved)
        cost = trajopt.StateCost(system, x0, np.repeat([1.0, 1e-2], 6))
        limits = trajopt.ControlBounds(-1e3, 1e3)
        return trajopt.Problem(
            system, x0, T, [cost, trajopt.ControlCost(1e-4, reference=rest)], [],
            [trajopt.Periodic(system), limits, trajopt.ResidualConstraint(tool, -1e-3, 1e-3, at="path", name="path")],
            np.tile(rest, (T, 1)), free_initial_state=True,
        )  # fmt: skip

    solver, h = trajopt.DDP(tolerance=1e-13), 1e-4
    nothing = np.zeros((T + 1, 3))
    solution = solver.solve(make(nothing))
    report = solution.constraints[2]
    assert solution.converged and report.knots.tolist() == list(range(T)) and report.active[0].any()
    found = solution.vjp(cost_bar=1.0)
    assert found["path"]["target"].shape == (T + 1, 3) and found["path"]["upper"].shape == ()
    for t in (0, 3):
        up, down = (solver.solve(make(nothing + d * np.eye(T + 1)[t][:, None] * [0.0, 1.0, 0.0])) for d in (h, -h))
        wanted = (up.cost - down.cost) / (2 * h)
        np.testing.assert_allclose(found["path"]["target"][t, 1], wanted, rtol=1e-4, atol=1e-6)
    assert pickle.loads(pickle.dumps(solution.problem)).free_initial_state is not None


def test_layers_and_families():
    """Gradients through layers, and a family of periodic motions."""
    solver = trajopt.DDP(tolerance=1e-14)

    def make(p):
        return parametric({"amplitude": p[0], "price": 0.2, "stiffest": 0.8})

    p = np.array([0.8])
    solution = Solves(make, solver).solve((p, (None,)))
    point = SolvedPoint(make, p, solution)
    assert solution.xs.shape == (N + 1, 2) and point.still_solves()
    found = trajopt.sensitivity(make, p, solver.solve(make(p)), polish=True)
    (xs, us, cost), told = point.jvp(np.ones(1))
    np.testing.assert_allclose(xs, found.xs[..., 0], atol=1e-7)
    np.testing.assert_allclose(us, found.us[..., 0], atol=1e-7)
    np.testing.assert_allclose(cost, found.cost[0], atol=1e-8)
    bar = Covectors(np.ones((N + 1, 2)), np.ones((N, 2)), 1.0)
    np.testing.assert_allclose(point.vjp(bar)[0], xs.sum() + us.sum() + cost, atol=1e-7)
    assert not told
    family = trajopt.continuation(make, [np.array([0.6]), np.array([0.8])], solver)
    assert family.status == "complete" and abs(family.solutions[-1].cost - solution.cost) < 1e-9


def test_derivatives_by_the_state_that_a_motion_comes_back_to():
    """Of a given initial state, and of one whose angle alone is given; also by a `trajopt.ParametricProblem`."""
    solver = trajopt.DDP(tolerance=1e-14)
    for free in None, ["speed"]:

        def make(x0, free=free):
            return replace(periodic_swing(free_initial_state=free), x0=x0)

        x0, h = np.array([0.3, 0.4]), 1e-4
        solution = solver.solve(make(x0))
        xs, us = solution.dx0()
        for i in range(2 if free is None else 1):
            up, down = (solver.solve(make(x0 + d * np.eye(2)[i])) for d in (h, -h))
            np.testing.assert_allclose(xs[..., i], (up.xs - down.xs) / (2 * h), atol=2e-5)
            np.testing.assert_allclose(us[..., i], (up.us - down.us) / (2 * h), atol=2e-5)
            np.testing.assert_allclose(solution.vjp(cost_bar=1.0)["x0"][i], (up.cost - down.cost) / (2 * h), atol=1e-6)
        given = trajopt.ParametricProblem(make(x0), "x0")
        found = trajopt.sensitivity(given, given.p, solution)
        bar = np.ones((N + 1, 2))
        np.testing.assert_allclose(found.vjp(bar), np.einsum("ti,tip->p", bar, xs), atol=1e-6)
        np.testing.assert_allclose(solution.vjp(bar, wrt=["x0"])["x0"], found.vjp(bar), atol=1e-6)


# ------------------------------------------------------------------------------------------------ what users see
def test_everything_else_is_about_the_problem_s_own_states(tmp_path):
    problem = periodic_swing(name="swing")
    seen = []
    solution = trajopt.DDP().solve(problem, callback=lambda progress: seen.append(progress.xs.shape))
    assert set(seen) == {(N + 1, 2)} and solution.times[-1] == pytest.approx(N * DT)
    policy = solution.policy()
    np.testing.assert_allclose(policy(0.0, solution.xs[0]), solution.us[0], atol=1e-12)
    assert "periodic" in solution.explain() and "knot 30" in solution.explain()
    again = trajopt.DDP().solve(problem, warm_start=solution)
    assert again.start == "warm" and again.iterations <= 1 and not again.not_taken_over
    loaded = trajopt.Solution.load(solution.save(tmp_path / "swing.npz"), problem)
    assert loaded.certificate().minimum
    assert trajopt.DDP().solve(problem, us=solution.us).converged
    started = trajopt.DDP().solve(problem, solution.us, xs=solution.xs)
    assert started.start == "given" and abs(started.cost - solution.cost) <= 1e-9
    prepared = trajopt.DDP().prepare(problem)
    assert abs(prepared.solve([0.5, 0.5]).cost - solution.cost) <= 1e-9
    prepared.update({"ControlCost": {"weights": np.array(0.2)}})
    assert prepared.solve().cost > solution.cost
    with pytest.raises(ValueError, match="prepare_step: got a problem with a free initial state"):
        prepared.prepare_step([0.0, 0.0])
    with pytest.raises(ValueError, match="solution: got one of a free initial state"):
        solution.laplace()
    assert "free initial state" in str(problem) and "stiffness" in str(parametric(
        {"amplitude": 0.8, "price": 0.2, "stiffest": 0.8}))  # fmt: skip


def test_a_saddle_has_a_direction_of_the_problem_s_own_controls():
    """A parameter and a free start at which the cost is flat, and falls to both sides."""
    system = trajopt.CallableSystem(xdot=lambda x, u: (u[0] - u[1] * x[0],), nx=1, nu=2, dt=0.1)
    away = trajopt.residual(lambda x, u: (1.0 - u[1] ** 2, 0.1 * u[0], x[0]), 3, system)
    cost = trajopt.ResidualCost(away, 1.0)
    problem = trajopt.Problem(system, [0.0], 6, [cost], free_initial_state=True, parameters=[1])
    solution = trajopt.DDP(escape=False).solve(problem)
    certificate = solution.certificate()
    assert solution.parameters == {"u_2": 0.0} and certificate.minimum is False and certificate.negative == 1
    assert certificate.direction.shape == (6, 2) and certificate.knot == 0
    assert np.ptp(certificate.direction[:, 1]) == 0.0 and certificate.direction[0, 1] != 0.0
    better = trajopt.DDP().solve(problem)
    assert better.converged and abs(better.parameters["u_2"]) == pytest.approx(1.0, abs=1e-6)


def test_a_plan_from_a_free_start_is_held_at_its_end():
    system = pendulum()
    there = trajopt.StateCost(system, [1.0, 0.0], [1.0, 0.1])
    effort = trajopt.ControlCost(0.1, reference=np.sin(1.0))
    slow, end = trajopt.StateBounds(system, upper={"speed": 0.8}), trajopt.StateCost(system, [1.0, 0.0], 50.0)
    problem = trajopt.Problem(system, np.zeros(2), N, [there, effort], [end], [slow], free_initial_state=["speed"])
    solution = trajopt.DDP().solve(problem)
    assert solution.converged and solution.constraints[0].knots[0] == 0 and solution.constraints[0].active.any()
    policy = solution.policy(hold=True)
    np.testing.assert_allclose(policy(100.0, np.array([1.0, 0.0])), np.sin(1.0), atol=1e-2)
    with pytest.raises(ValueError, match="hold: got a plan with parameters"):
        trajopt.DDP().solve(parametric({"amplitude": 0.8, "price": 0.2, "stiffest": 0.8})).policy(hold=True)


def test_limits_by_the_augmented_lagrangian():
    """Limits of the initial state and of parameters where all limits are rows."""
    problem = parametric({"amplitude": 0.8, "price": 0.2, "stiffest": 0.8})
    boxed, rows = (trajopt.DDP(control_limits=way).solve(problem) for way in ("box", "augmented_lagrangian"))
    assert rows.converged and abs(rows.cost - boxed.cost) <= 1e-6 * boxed.cost
    assert rows.certificate().minimum == boxed.certificate().minimum


# ------------------------------------------------------------------------------------------------ bad input
SYSTEM = pendulum()
WRONG: Any = 3


def problem_with(**options):
    return trajopt.Problem(SYSTEM, [0.3, 0.0], 5, **options)


@pytest.mark.parametrize(
    ("make", "error", "told"),
    [
        (lambda: problem_with(free_initial_state=3.0), TypeError, r"free_initial_state: got 3.0, expected True"),
        (lambda: problem_with(free_initial_state=["spead"]), ValueError, "got 'spead', expected .*mean 'speed'"),
        (lambda: problem_with(free_initial_state=[2]), ValueError, r"free_initial_state: got \[2\]"),
        (lambda: problem_with(free_initial_state=[1, 1]), ValueError, "expected each once"),
        (lambda: problem_with(free_initial_state=[False, False]), ValueError, "got a mask of shape"),
        (lambda: problem_with(free_initial_state=np.zeros((3, 2))), ValueError, r"got shape \(3, 2\)"),
        (lambda: problem_with(free_initial_state=(1.0, -1.0)), ValueError, "got the limits 1 and -1 of 'angle'"),
        (lambda: problem_with(free_initial_state=([0.0, -1.0], [0.0, 1.0])), ValueError, "expected x0's 0.3"),
        (lambda: problem_with(free_initial_state=([0.0], 1.0)), ValueError, "free_initial_state lower: got shape"),
        (lambda: problem_with(free_initial_state={}), ValueError, "empty mapping"),
        (lambda: problem_with(free_initial_state={"angle": 3.0}), ValueError, r"\['angle'\]: got shape \(\)"),
        (lambda: problem_with(parameters="torque"), ValueError, "parameters: got 'torque'"),
        (lambda: problem_with(parameters=[1]), ValueError, r"parameters: got \[1\]"),
        (lambda: trajopt.Periodic(WRONG), TypeError, "system"),
        (lambda: trajopt.Periodic(SYSTEM, ["spead"]), ValueError, "components: got 'spead'"),
        (lambda: trajopt.Periodic(SYSTEM, shift=[1.0, 2.0, 3.0]), ValueError, "shift: got 3 numbers"),
        (lambda: trajopt.Periodic(SYSTEM, ["angle"], shift={"speed": 1.0}), ValueError, "none of the components"),
        (lambda: trajopt.Periodic(SYSTEM, map=np.eye(3)), ValueError, r"map: got shape \(3, 3\)"),
        (lambda: trajopt.Periodic(SYSTEM, map=[np.nan, 1.0]), ValueError, r"map\[0\]: got nan"),
        (lambda: trajopt.Periodic(SYSTEM, reference=[0.0]), ValueError, "reference: got shape"),
        (lambda: trajopt.Periodic(SYSTEM, name=WRONG), TypeError, "name: got 3"),
        (lambda: trajopt.Periodic(SYSTEM).residual.evaluate(np.zeros((1, 2)), None), ValueError, "got no initial"),
    ],
)  # fmt: skip
def test_bad_input(make, error, told):
    with pytest.raises(error, match=told):
        make()


def test_what_is_refused():
    made = problems.make("quadrotor")
    with pytest.raises(ValueError, match=r"got limits of .* which is part of a rotation or a pose"):
        replace(made, free_initial_state=(-1.0, 1.0))
    arm = problems.make("arm")
    inverse = dynamics.RigidBodySystem(arm.system.model, 0.03, formulation="inverse")
    with pytest.raises(ValueError, match="takes accelerations for controls"):
        trajopt.Problem(inverse, arm.x0, 5, free_initial_state=True)
    limits = trajopt.ControlBounds(lower=np.linspace(0.0, 1.0, 5)[:, None], upper=np.full((5, 1), 0.5) + [[0.5]])
    assert trajopt.DDP().solve(problem_with(parameters=[0], constraints=[limits])).us[0, 0] == 1.0
    limits = trajopt.ControlBounds(lower=np.linspace(0.0, 1.0, 5)[:, None], upper=np.linspace(0.5, 1.5, 5)[:, None])
    with pytest.raises(ValueError, match="ControlBounds of a parameter have no value in common"):
        trajopt.DDP().solve(problem_with(parameters=[0], constraints=[limits]))
