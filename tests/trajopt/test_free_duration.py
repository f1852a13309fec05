"""Free durations: derivatives against differences, known minima of time, costs over time, phases, bad input."""

from dataclasses import replace

import numpy as np
import pytest

import dynamics
import problems
import trajopt
from tests.reference.robot_systems import both_orders_at_once
from tests.tolerances import IDENTITY
from trajopt import ILQR, FreeDurationSystem, TimeCost
from trajopt.capabilities import Contacts, capability
from trajopt.interfaces.stepwise import closed_loop_by_steps
from trajopt.interfaces.system import window
from trajopt.problem.extended_system import innermost

RULES = ("explicit_euler", "semi_implicit_euler", "rk2", "rk4", "implicit_midpoint")


def curved(x, u):
    """Of a mechanical system with states [q; v]."""
    return x[2], x[3], np.sin(x[0]) * u[0] + x[3] ** 2, np.cos(x[1]) * u[0] * x[2]


def pushed(x, u):
    """A mass on a line."""
    return x[1], u[0]


def line(rule, T, knots=40):
    return trajopt.CallableSystem(xdot=pushed, nx=2, nu=1, dt=T / knots, integrator=rule)


def arm_system(integrator):
    return dynamics.RigidBodySystem(problems.make("arm").system.model, 0.05, integrator=integrator)


def accelerated():
    return dynamics.JointAccelerationSystem(problems.make("arm").system.model, 0.05)


def of_curved(rule, dt=0.1):
    return trajopt.CallableSystem(xdot=curved, nx=4, nu=1, dt=dt, integrator=rule)


SYSTEMS = {
    **{rule: lambda rule=rule: of_curved(rule) for rule in RULES},
    "arm, Euler": lambda: arm_system("semi_implicit_euler"),
    "arm, RK4": lambda: arm_system("rk4"),
    "arm, accelerations": accelerated,
}  # fmt: skip


@pytest.mark.filterwarnings("ignore::trajopt.SlowDynamicsWarning")
@pytest.mark.parametrize("name", SYSTEMS)
def test_derivatives_against_differences(name, rng):
    inside = SYSTEMS[name]()
    system = FreeDurationSystem(inside, phases=[2, 1])
    xs = np.hstack([0.4 * rng.standard_normal((5, inside.nx)), rng.uniform(0.5, 1.5, (5, 1))])
    us = np.hstack([0.4 * rng.standard_normal((5, inside.nu)), rng.uniform(-0.3, 0.3, (5, 1))])
    report = trajopt.check_derivatives(system, xs, us)
    assert report.ok, report
    fx, fu = system.linearize(xs, us)
    lam = rng.standard_normal((5, system.ndx))
    H = system.hessian_products(xs, us, lam)
    for got, wanted in zip(both_orders_at_once(system, xs, us, lam), (fx, fu, *H), strict=True):
        np.testing.assert_allclose(got, wanted, atol=1e-12 * (1.0 + np.abs(wanted).max()))


@pytest.mark.filterwarnings("ignore::trajopt.SlowDynamicsWarning")
@pytest.mark.parametrize("limited", [False, True])
@pytest.mark.parametrize("gapped", [False, True])
@pytest.mark.parametrize("name", [*SYSTEMS, "trot"])
def test_closed_loops_are_those_of_single_steps(name, gapped, limited, rng):
    """Phases at once, candidates of other durations in each, also where durations of the trajectory change on the way
    and in ten candidates, which fill more than one set of lanes."""
    if name == "trot":
        system = FreeDurationSystem(problems.make("quadruped_trot").system).window(0, 10)
        x = np.tile(system.state(problems.make("quadruped_trot").x0), (11, 1))
    else:
        system = FreeDurationSystem(SYSTEMS[name](), phases=[3, 2])
        x = np.tile(system.state(np.zeros(system.system.nx)), (8, 1))
    N, size = system.horizon, 1e-3 if name in ("trot", "arm, Euler", "arm, RK4") else 0.03
    xs = system.integrate(x, size * rng.standard_normal((N + 1, system.ndx)))
    us, k = 10.0 * size * rng.standard_normal((N, system.nu)), size * rng.standard_normal((N, system.nu))
    us[:, -1], K = 0.0, size * rng.standard_normal((N, system.nu, system.ndx))
    gaps = system.difference(xs, np.vstack([x[:1], system.step(xs[:-1], us)])) if gapped else None
    limits = (us - 0.05, us + 0.05) if limited else (None, None)
    loop = x[0], xs, us, k, K, np.linspace(0.1, 1.0, 10), gaps, *limits
    for got, wanted in zip(system.closed_loop_rollout(*loop), closed_loop_by_steps(system, *loop), strict=True):
        assert np.abs(wanted).max() < 1e3
        np.testing.assert_allclose(got, wanted, atol=1e-10 * np.abs(wanted).max())


@pytest.mark.filterwarnings("ignore::trajopt.SlowDynamicsWarning")
@pytest.mark.parametrize("name", SYSTEMS)
def test_steps_are_those_of_the_durations(name, rng):
    """A step of s dt seconds is that of a system with this dt; trajectories go knot by knot."""
    inside = SYSTEMS[name]()
    system = FreeDurationSystem(inside, phases=[2, 3])
    assert system.horizon == 7 and system.setting.tolist() == [True, False, False, True, False, False, False]
    us = 0.3 * rng.standard_normal((7, system.nu))
    xs = system.rollout(system.state(0.3 * rng.standard_normal(inside.nx)), us)
    for t in range(7):
        following = system.window(t, t + 1).step(xs[t], us[t])
        np.testing.assert_allclose(following, xs[t + 1], atol=10 * IDENTITY * np.abs(xs).max())
        if system.setting[t]:
            np.testing.assert_array_equal(xs[t + 1, :-1], xs[t, :-1])
            assert xs[t + 1, -1] == 1.0 + us[t, -1]
        else:
            wanted = with_dt(inside, inside.dt * xs[t, -1]).step(xs[t, :-1], us[t, :-1])
            np.testing.assert_allclose(xs[t + 1, :-1], wanted, atol=1e-12 * np.abs(xs).max())
            assert xs[t + 1, -1] == xs[t, -1]
    np.testing.assert_allclose(system.step(xs[:-1], us), xs[1:], atol=10 * IDENTITY * np.abs(xs).max())
    durations = inside.dt * (1.0 + us[[0, 3], -1]) * [2, 3]
    np.testing.assert_allclose(system.phase_durations(xs), durations, rtol=1e-14)
    assert system.total_time(xs) == pytest.approx(durations.sum(), rel=1e-14)


def with_dt(inside, dt):
    if isinstance(inside, dynamics.JointAccelerationSystem):
        return dynamics.JointAccelerationSystem(inside.model, dt)
    if isinstance(inside, dynamics.RigidBodySystem):
        return dynamics.RigidBodySystem(inside.model, dt, integrator=inside.integrator)
    return of_curved(inside.integrator, dt)


METRES = [
    (rule, phases, solver, T)
    for rule, phases in (("semi_implicit_euler", [40]), ("rk4", [40]), ("rk4", [20, 20]))
    for solver in (trajopt.DDP(), trajopt.ILQR())
    for T in (1.2, 1.5, 3.0, 6.0)
    if (len(phases), type(solver), T) != (2, trajopt.ILQR, 1.2)  # 500 iterations along a valley, 2.00008 s
]


@pytest.mark.parametrize(("rule", "phases", "solver", "T"), METRES)
def test_a_mass_moves_a_metre_in_two_seconds(rule, T, solver, phases):
    """With forces of at most 1 N on 1 kg, and both rules are right there; RK4 also with a phase for each force, where
    Euler's rule gains by steps of two lengths."""
    inside = line(rule, T)
    system = FreeDurationSystem(inside, phases=phases, bounds=(0.1, 5.0))
    goal = trajopt.StateResidual(inside, [1.0, 0.0])
    problem = trajopt.Problem(
        system, system.state([0.0, 0.0]), system.horizon, [TimeCost(system)],
        constraints=[
            system.duration_bounds(),
            trajopt.ControlBounds([-1.0, -np.inf], [1.0, np.inf]),
            trajopt.ResidualConstraint(system.lift(goal), at="terminal"),
        ],
    )  # fmt: skip
    solution = solver.solve(problem)
    assert solution.converged and system.total_time(solution.xs) == pytest.approx(2.0, abs=1e-6)
    assert solution.cost == pytest.approx(2.0, abs=1e-6) and solution.times[-1] == pytest.approx(2.0, abs=1e-6)


def test_costs_over_time(rng):
    """While durations are the given ones, costs, gradients and Hessians in x and u are those of the fixed problem."""
    problem = problems.make("quadruped_trot")
    free = trajopt.with_free_durations(problem, time_weight=2.0)
    system = free.system
    assert free.horizon == problem.horizon + len(problem.system.phase_starts)
    rows = np.flatnonzero(~system.setting)
    us = problem.us_init + 0.1 * rng.standard_normal(problem.us_init.shape)
    xs, wide = problem.xs_init, np.zeros(free.us_init.shape)
    wide[rows, :-1] = us
    expected = trajopt.expand(problem, xs, us)
    got = trajopt.expand(free, free.xs_init, wide)
    seconds = problem.system.durations.sum()
    total = trajopt.total_cost(problem, xs, us) + 2.0 * seconds
    assert trajopt.total_cost(free, free.xs_init, wide) == pytest.approx(total, rel=1e-13)
    n, m = problem.system.ndx, problem.system.nu
    for name, cut in (("lx", np.s_[:, :n]), ("lu", np.s_[:, :m]), ("lxx", np.s_[:, :n, :n]), ("fx", np.s_[:, :n, :n])):
        block, wanted = getattr(got, name), getattr(expected, name)
        at = np.append(rows, free.horizon) if len(wanted) > len(us) else rows
        np.testing.assert_allclose(block[at][cut], wanted, atol=1e-11 * np.abs(wanted).max())
    timed = problem.system.durations > 0.0
    assert got.lx[rows[timed], n].sum() == pytest.approx(total - terminal(problem, xs, us, timed), rel=1e-10)


def terminal(problem, xs, us, timed):
    """What counts at single knots: terminal costs and those of impacts."""
    scaled = 0.0
    for term in problem.objective.terms:
        values = np.asarray(term.scale) * term.cost.value(*term.points(xs, us))
        knots = np.array([term.knot(row) for row in range(len(values))])
        scaled += values[(knots < 0) | ~np.append(timed, False)[knots]].sum()
    return scaled


@pytest.mark.parametrize("integrated", [True, False])
def test_costs_against_differences(integrated, rng):
    inside = trajopt.CallableSystem(xdot=curved, nx=4, nu=1, dt=0.1)
    system = FreeDurationSystem(inside, 3)
    cost = trajopt.StateCost(inside, rng.standard_normal(4), 0.5, at=None if integrated else 2)
    xs = np.hstack([rng.standard_normal((4, 4)), rng.uniform(0.5, 1.5, (4, 1))])
    us = rng.standard_normal((4, 2))
    for made in (system.lift(cost), system.lift(trajopt.ControlCost(0.3)), TimeCost(system, 0.7)):
        report = trajopt.check_derivatives(made, xs, us, system=system)
        assert report.ok, report


def test_the_given_state_breaks_no_limit():
    """A constraint of states leaves out the one that is given, here beyond its limit."""
    inside = line("rk4", 1.0)
    problem = trajopt.Problem(
        inside, [0.5, 0.0], 40, [trajopt.ControlCost(1.0)], [trajopt.StateCost(inside, [0.0, 0.0], 1e3)],
        [trajopt.StateBounds(inside, upper=[0.45, np.inf], at=slice(10, None)), trajopt.ControlBounds(-9.0, 9.0)],
    )  # fmt: skip
    free = trajopt.with_free_durations(problem, 0.1)
    bound = next(c for c in free.constraints if isinstance(c, trajopt.ResidualConstraint))
    assert bound.at == tuple(range(11, 42)) and free.control_limits[0][1:, 0].tolist() == [-9.0] * 40
    everywhere = replace(problem, constraints=[trajopt.StateBounds(inside, upper=[0.499, np.inf], at="path")])
    held = trajopt.with_free_durations(everywhere).constraints[1]
    assert held.at == tuple(range(2, 41))
    assert trajopt.DDP().solve(free).converged


@pytest.mark.parametrize("name", ["quadruped_trot"])
def test_gaits_with_free_durations(name):
    """Both solvers find the same plan, which costs less, and in which phases take other times than before."""
    problem = problems.make(name)
    fixed, free = trajopt.DDP().solve(problem), trajopt.with_free_durations(problem, bounds=(0.6, 1.6))
    ddp, ilqr = trajopt.DDP().solve(free), trajopt.ILQR().solve(free)
    assert ddp.converged and ilqr.converged and ddp.cost == pytest.approx(ilqr.cost, rel=1e-8)
    assert ddp.cost < 0.99 * fixed.cost and ddp.violation < 1e-6
    relative = ddp.xs[1:, -1][~free.system.setting]
    assert relative.min() >= 0.6 and relative.max() <= 1.6 and np.ptp(relative) > 0.1
    again = free.system.rollout(free.x0, ddp.us)
    np.testing.assert_allclose(again[:5], ddp.xs[:5], atol=1e-6)
    assert free.system.contact_forces(ddp.xs, ddp.us).shape == (free.horizon, 4, 3)
    hurried = trajopt.DDP().solve(trajopt.with_free_durations(problem, 1.0, bounds=(0.6, 1.6)))
    assert free.system.total_time(hurried.xs) < free.system.total_time(ddp.xs)


@pytest.mark.parametrize("name", ["arm_minimum_time", "car_minimum_time", "quadrotor_minimum_time"])
def test_minimum_time(name):
    """Another start, half as long again, ends in the same plan, which keeps to its goal and its limits."""
    problem = problems.make(name)
    solution = trajopt.DDP().solve(problem)
    assert solution.converged and solution.violation < 1e-7
    goal = next(c for c in problem.constraints if getattr(c, "name", "") == "goal").residual
    assert np.abs(goal.evaluate(solution.xs[-1:], None)).max() < 1e-7
    slower = problems.make(name, dt=1.5 * problem.system.dt)
    other = trajopt.DDP().solve(slower)
    times = [p.system.total_time(s.xs) for p, s in ((problem, solution), (slower, other))]
    assert other.converged and (name == "car_minimum_time" or times[1] == pytest.approx(times[0], rel=1e-4))
    plan = solution.resample(0.01)
    assert plan.times[-1] == pytest.approx(times[0]) and np.allclose(plan.xs[-1], solution.xs[-1])


def test_plans_take_the_time_that_they_found(tmp_path):
    problem = problems.make("arm_minimum_time")
    solution = trajopt.DDP().solve(problem)
    assert solution.policy().horizon == pytest.approx(problem.system.total_time(solution.xs))
    path = solution.to_csv(tmp_path / "plan.csv")
    last = path.read_text().splitlines()[-1].split(",")
    assert float(last[0]) == pytest.approx(problem.system.total_time(solution.xs))


def test_one_knot_takes_any_number_of_points(rng):
    """As `trajopt.capabilities.Knots` says: steps and derivatives of a window of one knot, here and where a
    duration is set, are those of its points one by one."""
    system = FreeDurationSystem(arm_system("rk4"), 3)
    xs = np.hstack([0.3 * rng.standard_normal((4, system.nx - 1)), rng.uniform(0.5, 1.5, (4, 1))])
    us, lam = 0.3 * rng.standard_normal((4, system.nu)), rng.standard_normal((4, system.ndx))
    for knot in (0, 2):
        one = system.window(knot, knot + 1)
        together = one.step(xs, us), *one.linearize(xs, us), *one.hessian_products(xs, us, lam)
        for i in range(4):
            point = xs[i : i + 1], us[i : i + 1]
            alone = one.step(*point), *one.linearize(*point), *one.hessian_products(*point, lam[i : i + 1])
            for got, wanted in zip(together, alone, strict=True):
                np.testing.assert_allclose(got[i], wanted[0], atol=1e-12 * (1.0 + np.abs(wanted).max()))
    with pytest.raises(ValueError, match="got 2 knots, expected 4"):
        system.linearize(xs[:2], us[:2])


def test_capabilities_that_go_through():
    problem = problems.make("quadruped_trot")
    system = FreeDurationSystem(problem.system)
    assert system.tangent_names[-1] == "duration" and system.control_names[-1] == "duration"
    lower, upper = system.control_limits()
    assert (lower[-1], upper[-1]) == (0.2 - 1.0, 3.0 - 1.0)
    held = system.quasi_static(system.state(problem.x0))
    assert held.shape == (system.horizon, system.nu) and not held[:, -1].any() and held[2].any()
    moved = replace(trajopt.with_free_durations(problem), us_init="quasi_static")
    np.testing.assert_array_equal(moved.us_init, held)
    cost = trajopt.StateCost(problem.system, problem.x0, 1.0)
    with pytest.raises(ValueError, match="made for"):
        trajopt.Problem(system, system.state(problem.x0), system.horizon, [cost])


def test_a_message_of_a_plan_with_free_durations():
    solution = ILQR(max_iterations=2).solve(problems.make("arm_minimum_time"))
    system, plan = solution.problem.system, solution.resample(0.01)
    message = solution.to_trajectory_msg(dt=0.01)
    inside = innermost(system)
    assert message["joint_names"] == list(inside.single_joints)
    columns = {
        name: np.array([point[name] for point in message["points"]]) for name in ("positions", "velocities", "effort")
    }
    q, v = (np.array([row[i] for row in inside.single_joints.values()]) for i in (0, 1))
    np.testing.assert_array_equal(columns["positions"], plan.xs[:, q])
    np.testing.assert_array_equal(columns["velocities"], plan.xs[:, v])
    np.testing.assert_array_equal(columns["effort"], inside.joint_efforts(plan.us[:, : inside.nu]))
    last = message["points"][-1]["time_from_start"]
    assert last["sec"] + 1e-9 * last["nanosec"] == pytest.approx(solution.times[-1], abs=1e-8)


def test_pictures_of_what_knows_no_contact_forces():
    system = problems.make("arm_minimum_time").system
    assert capability(system, Contacts).contact_points is not None
    assert capability(system, Contacts).contact_forces is None


def test_bad_input():
    inside = line("rk4", 1.0)
    discrete = trajopt.CallableSystem(step=pushed, nx=2, nu=1, dt=0.1)
    trot = problems.make("quadruped_trot").system
    for make, error, text in (
        (lambda: FreeDurationSystem(discrete, 5), TypeError, "got CallableSystem, which cannot step for any time"),
        (lambda: FreeDurationSystem(inside), ValueError, "horizon: got None"),
        (lambda: FreeDurationSystem(inside, 0), ValueError, "horizon"),
        (lambda: FreeDurationSystem(inside, 5, [2, 2]), ValueError, r"phases: got \[2, 2\], expected numbers of knots"),
        (lambda: FreeDurationSystem(inside, 5, bounds=(0.0, 1.0)), ValueError, r"bounds: got \[0\.0, 1\.0\]"),
        (lambda: FreeDurationSystem(inside, 5, bounds=(2.0, 1.0)), ValueError, "the lower one first"),
        (lambda: FreeDurationSystem(inside, 5, bounds=(1.0,)), ValueError, r"bounds: got shape \(1,\)"),
        (lambda: FreeDurationSystem(trot, 5), ValueError, "horizon: got 5, expected 62"),
        (lambda: FreeDurationSystem(inside, 5).state([0.0, 0.0], -1.0), ValueError, r"duration: got -1\.0"),
        (lambda: FreeDurationSystem(inside, 5).window(3, 9), ValueError, r"window: got \(3, 9\)"),
        (lambda: TimeCost(inside), TypeError, "system: got CallableSystem"),
        (lambda: TimeCost(FreeDurationSystem(inside, 5), -1.0), ValueError, r"weight: got -1\.0"),
        (lambda: trajopt.with_free_durations(inside), TypeError, "problem: got CallableSystem"),
    ):
        with pytest.raises(error, match=text):
            make()


# ------------------------------------------------------------------------------------------------ in finer steps
@pytest.mark.filterwarnings("ignore::trajopt.SlowDynamicsWarning")
@pytest.mark.parametrize("name", ["rk4", "arm, RK4", "arm, accelerations", "trot"])
def test_finer_steps_end_where_the_phases_do(name, rng):
    """Phases, their durations and impacts stay, motions are those of finer steps of the system inside."""
    inside = problems.make("quadruped_trot").system if name == "trot" else SYSTEMS[name]()
    inside = inside.refined(1) if name == "trot" else inside
    system = FreeDurationSystem(inside) if name == "trot" else FreeDurationSystem(inside, phases=[2, 3])
    fine, N = system.refined(4), system.horizon
    counts = np.where(system.durations > 0.0, 4, 1)
    rows = np.append(0, np.cumsum(counts))
    assert fine.horizon == rows[-1] and fine.dt == system.dt / 4
    np.testing.assert_array_equal(np.flatnonzero(fine.setting), rows[:-1][system.setting])
    np.testing.assert_allclose(np.add.reduceat(fine.durations, rows[:-1]), system.durations, atol=1e-15)
    x = problems.make("quadruped_trot").x0 if name == "trot" else 0.1 * rng.standard_normal(inside.nx)
    us = system.quasi_static(system.state(x)) if name == "trot" else np.full((N, system.nu), 0.1)
    us[system.setting, -1] = rng.uniform(-0.3, 0.3, system.setting.sum())
    z, flow, finer = system.state(x), np.flatnonzero(~system.setting), inside.refined(4)
    edges = np.append(0, np.cumsum(counts[flow]))
    for i, t in enumerate(flow.tolist()):  # knots as long as planned are those of the system inside
        held = np.repeat(us[t : t + 1], counts[t], axis=0)
        closer = fine.window(rows[t], rows[t + 1]).rollout(z, held)
        wanted = window(finer, int(edges[i]), int(edges[i + 1])).rollout(x, held[:, :-1])
        np.testing.assert_allclose(closer[:, :-1], wanted, atol=1e-11 * (1.0 + np.abs(wanted).max()))
        assert (closer[:, -1] == 1.0).all()
    times = [s.total_time(np.full((s.horizon + 1, s.nx), 1.2)) for s in (system, fine)]
    assert times[0] == pytest.approx(times[1], rel=1e-12)
    if name != "trot":  # at other durations RK4 and exact steps are near coarser ones
        coarse, closer = system.rollout(z, us), fine.rollout(z, np.repeat(us, counts, axis=0))[rows]
        np.testing.assert_allclose(closer, coarse, atol=1e-3 * (1.0 + np.abs(coarse).max()))


def test_other_models_come_along():
    system = FreeDurationSystem(line("rk4", 0.3, 3), 3)
    assert not hasattr(system, "with_model") and system.refined is not None and system.integrator_order == 4
    heavier = arm_system("rk4").model.with_body("load", "flange", mass=1.0)
    inside, us = arm_system("rk4"), np.zeros((4, 7))
    loaded = FreeDurationSystem(inside, 3).with_model(heavier)
    assert isinstance(loaded, FreeDurationSystem) and loaded.system.model is heavier
    xs = loaded.rollout(loaded.state(np.zeros(12)), us)
    np.testing.assert_allclose(xs[2, :-1], inside.with_model(heavier).step(np.zeros(12), np.zeros(6)), atol=1e-12)
