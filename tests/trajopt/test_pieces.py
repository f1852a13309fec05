"""What problems prepare consists of prepared calls alone, which give the bits of the plain functions."""

import sys
from contextlib import contextmanager
from functools import partial

import numpy as np
import pytest

import dynamics
import problems
import trajopt
from dynamics.simd import num_threads, set_num_threads
from dynamics.simd.c_library.machine_code import linked, target_of
from dynamics.simd.prepared_calls import calls_of, enter
from tests.tolerances import IDENTITY, relative_error
from tests.trajopt.test_squares import Hidden
from trajopt.costs.cost_of_residual import add_curvature
from trajopt.problem.knot_rows import add_rows_at, place_of, rows_at
from trajopt.problem.objective import zero_blocks
from trajopt.rows import pack

PIECES = (
    "acrobot", "arm", "arm_minimum_time", "arm_obstacle", "car_parking", "cartpole", "double_pendulum", "four_bar",
    "humanoid_stand",
    "pendulum_limits", "quadrotor", "quadrotor_minimum_time", "quadruped_jump", "soft_manipulator_reach",
    "unicycle_obstacles",
)  # fmt: skip
"""Problems of all kinds of costs."""
WITH_ROWS = (
    "arm_minimum_time", "arm_obstacle", "humanoid_stand", "quadruped_jump", "soft_manipulator_obstacle",
    "unicycle_obstacles",
)  # fmt: skip
IN_PYTHON = "flexible_satellite", "soft_swimmer"
"""Problems of states with equivalents, whose differences are taken in numpy."""


@contextmanager
def in_one_thread():
    count = num_threads()
    set_num_threads(1)
    try:
        yield
    finally:
        set_num_threads(count)


def replay(function):
    """Make its calls by their addresses, as for one thread; returns the last one's result."""
    with in_one_thread():
        calls = calls_of(function)
        assert calls is not None
        for call in calls:
            call.check(enter(call.address))
        return calls[-1].result()


def link(*functions):
    """Assert that their calls need the C library alone, as those of a library of kernels."""
    with in_one_thread():
        calls = [call for function in functions for call in calls_of(function)]
        if sys.platform == "linux":
            linked(calls, target_of("native"), "of_")


@pytest.fixture
def one_thread():
    with in_one_thread():
        yield


def trajectory(problem, rng):
    """One that is no solution of the dynamics."""
    us = problem.us_init + 0.1 * rng.standard_normal(problem.us_init.shape)
    start = np.repeat(problem.x0[None], len(us) + 1, axis=0)
    return problem.system.integrate(start, 0.1 * rng.standard_normal((len(start), problem.system.ndx))), us


def bits(blocks):
    return [np.ascontiguousarray(block).tobytes() for block in blocks]


def check_costs(problem, rng):
    (xs, us), objective = trajectory(problem, rng), problem.objective
    cost = objective.prepared_value(xs, us)
    sizes = problem.horizon, problem.system.ndx, us.shape[1]
    first, second = zero_blocks(*sizes), zero_blocks(*sizes)
    kinds = (first, first), (first, None), (None, second), (first, second)
    expansions = [(into, objective.prepared_expansion(xs, us, *into)) for into in kinds]
    for _ in range(2):
        value = objective.value(xs, us)
        assert np.isfinite(value) and value == cost() == replay(cost)
        for into, expand in expansions:
            found = []
            for add in (partial(objective.accumulate, xs, us, *into), expand, partial(replay, expand)):
                for block in (*first, *second):
                    block.fill(0.0)
                add()
                found.append(bits((*first, *second)))
            assert found[0] == found[1] == found[2]
        xs[...], us[...] = trajectory(problem, rng)
    xs[-1, 0] = np.nan
    assert cost() == replay(cost) == np.inf
    link(cost, *[expand for _, expand in expansions])


@pytest.mark.parametrize("name", problems.names())
def test_all_problems_are_prepared_calls(name, one_thread):
    problem = problems.make(name)
    us, n = problem.us_init.copy(), problem.system.ndx
    xs, blocks = np.repeat(problem.x0[None], len(us) + 1, axis=0), zero_blocks(len(us), n, us.shape[1])
    rows, objective = pack(problem, problem.residual_constraints), problem.objective
    c, Cx, Cu = np.empty(len(rows)), np.empty((len(rows), n)), np.empty((len(rows), us.shape[1]))
    costs = objective.prepared_value(xs, us), objective.prepared_expansion(xs, us, blocks, blocks)
    assert [calls_of(function) is not None for function in costs] == [name not in IN_PYTHON] * 2
    of_rows = rows.prepared_values(xs, us, c), rows.prepared_linearization(xs, us, c, Cx, Cu)
    assert all(calls_of(function) is not None for function in of_rows)
    assert calls_of(rows.prepared_curvature(xs, us, c, blocks)) is not None


@pytest.mark.parametrize("name", PIECES)
def test_costs(name, rng):
    check_costs(problems.make(name), rng)


N = 12
ACTIVATIONS = {
    "full": trajopt.WeightedQuadratic([[2.0, 0.5, 0.1], [0.5, 1.0, 0.3], [0.1, 0.3, 3.0]]),
    "smooth absolute": trajopt.SmoothAbs([0.1, 0.2, 0.3]),
    "pseudo-Huber": trajopt.PseudoHuber(0.05),
    "smooth norm": trajopt.SmoothNorm(0.1),
    "logarithmic": trajopt.LogBarrier(-2.0, [1.0, 2.0, 3.0], 0.1),
}


def arm_with(running, terminal):
    arm = problems.make("arm")
    return trajopt.Problem(arm.system, arm.x0, N, running, terminal)


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activations(name, rng):
    """At all knots and at some, of residuals with references and without, which are of states and of controls."""
    activation, system = ACTIVATIONS[name], problems.make("arm").system
    tool = dynamics.FrameTranslation(system.model, "tool", rng.uniform(0.1, 0.5, (N + 1, 3)))
    some = trajopt.StateResidual(system, components=[1, 8, 4])
    running = [
        trajopt.ResidualCost(tool, rng.uniform(0.5, 2.0, (N, 3)), activation, [0.1, 0.2, 0.3]),
        trajopt.ResidualCost(tool, [0.5, 0.6, 0.7], activation, at=(1, 4, 5)),
        trajopt.ResidualCost(some, 0.5, activation, rng.standard_normal((3, 3)), at=(2, 7, 8)),
    ]
    check_costs(arm_with(running, [trajopt.ResidualCost(tool, 2.0, activation)]), rng)


def test_other_costs(rng):
    system = problems.make("arm").system
    tool = dynamics.FrameTranslation(system.model, "tool", [0.1, 0.2, 0.3])
    some = trajopt.StateResidual(system, components=[1, 8, 4])
    held, norm = dynamics.ControlGravity(system.model), trajopt.SquaredNorm(tool)
    barrier, controls = trajopt.QuadraticBarrier(-0.1, 0.1), trajopt.ControlResidual(system, 0.2)
    running = [
        trajopt.LinearCost(rng.standard_normal((N, 12)), 0.1), trajopt.LinearCost(controls=rng.standard_normal(6)),
        trajopt.ControlCost(0.1, 0.2, trajopt.SmoothAbs(0.1)), trajopt.ResidualCost(norm, 2.0, reference=0.1),
        trajopt.ResidualCost(norm, 2.0, trajopt.PseudoHuber(0.1), at=(1, 5)), trajopt.ResidualCost(some, 1.0, barrier),
        trajopt.ResidualCost(trajopt.SquaredNorm(held), 0.01), trajopt.ResidualCost(controls, 0.1),
        trajopt.StateCost(system, np.zeros(12), 1.0),
    ]  # fmt: skip
    terminal = [trajopt.ResidualCost(norm, 1.0), trajopt.LinearCost(1.0), trajopt.ResidualCost(some, [1.0, 2.0, 3.0])]
    check_costs(arm_with(running, terminal), rng)


def test_costs_of_rates(rng):
    arm = problems.make("arm")
    system = trajopt.ControlRateSystem(arm.system)
    costs = [trajopt.ControlRateCost(system, [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]), trajopt.ControlCost(0.1)]
    x0 = np.concatenate([arm.x0, np.zeros(6)])
    check_costs(trajopt.Problem(system, x0, N, costs, []), rng)


def longer(arm):
    """Systems of the arm with longer states, with initial states."""
    remembering = trajopt.ControlRateSystem(arm.system)
    free = trajopt.FreeDurationSystem(arm.system, N - 1)
    return (remembering, np.concatenate([arm.x0, np.zeros(6)])), (free, free.state(arm.x0))


@pytest.mark.parametrize("place", [0, 1], ids=["control rates", "free durations"])
def test_lifted_terms(place, rng):
    """Costs and constraints of the system inside, at knots with controls and at the last one."""
    arm = problems.make("arm")
    system, x0 = longer(arm)[place]
    tool = dynamics.FrameTranslation(arm.system.model, "tool", [0.1, 0.2, 0.3])
    held, some = dynamics.ControlGravity(arm.system.model), trajopt.StateResidual(arm.system, components=[1, 8, 4])
    running = [
        system.lift(trajopt.StateCost(arm.system, arm.x0 + 0.1, 1.0)), system.lift(trajopt.ControlCost(0.1)),
        system.lift(trajopt.ResidualCost(held, 0.01, trajopt.SmoothAbs(1.0))),
        trajopt.ResidualCost(system.lift(tool), 2.0), trajopt.ResidualCost(system.lift(held), 0.01, at=(1, 2, 5)),
    ]  # fmt: skip
    if place == 1:
        running.append(trajopt.TimeCost(system, 2.0))
    terminal = [system.lift(trajopt.ResidualCost(tool, 3.0)), trajopt.ResidualCost(system.lift(some), 1.0)]
    held = [
        trajopt.ResidualConstraint(system.lift(tool), -1.0, 1.0, at="all"),
        trajopt.ResidualConstraint(system.lift(held), -1.0, 1.0, at=(2, 3, 7)),
        trajopt.ResidualConstraint(trajopt.SquaredNorm(system.lift(some)), 0.0, 1.0, at="path"),
    ]
    horizon = N if place == 0 else system.horizon
    problem = trajopt.Problem(system, x0, horizon, running, terminal, constraints=held)
    check_costs(problem, rng)
    check_rows(problem, rng)


def test_limits(rng):
    """Of accelerations, which steps and expansions of the system give, and of rates."""
    arm = problems.make("arm")
    system, x0 = longer(arm)[0]
    limits = [
        trajopt.AccelerationBounds(system, -1.0, [1.0, np.inf, 2.0, 3.0, 4.0, np.inf], at=(1, 4, 6)),
        trajopt.ControlRateBounds(system, -1.0, 1.0),
    ]
    problem = trajopt.Problem(system, x0, N, [trajopt.ControlCost(0.1)], [], constraints=limits)
    check_rows(problem, rng)
    jerking = trajopt.JerkSystem(arm.system)
    bounds = [trajopt.JerkBounds(jerking, -1.0, [1.0, np.inf, 2.0, 3.0, 4.0, np.inf])]
    x0 = jerking.state(arm.x0)
    check_rows(trajopt.Problem(jerking, x0, N, [trajopt.ControlCost(0.1)], [], constraints=bounds), rng)
    accelerations = trajopt.AccelerationResidual(arm.system, [0, 3])
    check_costs(arm_with([trajopt.ResidualCost(accelerations, 0.1), trajopt.ControlCost(0.1)], []), rng)


@pytest.mark.parametrize("name", ["arm", "quadrotor"])
def test_periodic_motions(name, rng):
    start = problems.make(name)
    system, x0 = start.system, start.x0
    periodic = trajopt.Periodic(system)
    check_rows(trajopt.Problem(system, x0, N, [trajopt.ControlCost(0.1)], [], constraints=[periodic]), rng)


def test_states_on_manifolds(rng):
    quadrotor = problems.make("quadrotor")
    system, x0 = quadrotor.system, quadrotor.x0
    some = trajopt.StateResidual(system, x0, components=[1, 4, 7])
    running = [trajopt.StateCost(system, x0, 1.0, trajopt.SmoothAbs(0.1)), trajopt.ResidualCost(some, 2.0)]
    terminal = [trajopt.ResidualCost(trajopt.SquaredNorm(some), 1.0)]
    check_costs(trajopt.Problem(system, x0, N, running, terminal), rng)


def test_sums_of_squared_norms_and_accelerations(rng):
    """They are the squares of the residual, term by term, whatever it sums by itself."""
    arm = problems.make("arm")
    tool = dynamics.FrameTranslation(arm.system.model, "tool", [0.1, 0.2, 0.3])
    held, some = dynamics.ControlGravity(arm.system.model), trajopt.StateResidual(arm.system, components=[1, 8, 4])
    barrier = trajopt.QuadraticBarrier(-0.1, 0.1)
    norms = trajopt.SquaredNorm(tool), trajopt.SquaredNorm(held), trajopt.ControlResidual(arm.system, 0.3)
    for residual in (*norms, some, trajopt.AccelerationResidual(arm.system)):
        for activation in ("quadratic", barrier):
            itself = arm_with([trajopt.ResidualCost(residual, 0.5, activation, 0.1)], [])
            apart = arm_with([trajopt.ResidualCost(Hidden(residual), 0.5, activation, 0.1)], [])
            (xs, us), sizes = trajectory(itself, rng), (N, arm.system.ndx, arm.system.nu)
            found, wanted = [zero_blocks(*sizes) for _ in range(2)], [zero_blocks(*sizes) for _ in range(2)]
            itself.objective.accumulate(xs, us, *found)
            apart.objective.accumulate(xs, us, *wanted)
            values = [one.objective.value(xs, us) for one in (itself, apart)]
            assert relative_error(*values) < IDENTITY
            for got, expected in zip((*found[0], *found[1]), (*wanted[0], *wanted[1]), strict=True):
                assert relative_error(got, expected) < IDENTITY or not expected.any()


class Doubled(trajopt.SmoothAbs):
    def value(self, r, w):
        return 2.0 * super().value(r, w)


def test_methods_of_users_are_called(rng):
    """Activations of classes derived from those here are no prepared calls."""
    system = problems.make("arm").system
    cost = trajopt.ControlCost(1.0, activation=Doubled(0.1))
    problem = trajopt.Problem(system, np.zeros(12), N, [cost], [])
    xs, us = trajectory(problem, rng)
    prepared = problem.objective.prepared_value(xs, us)
    plain = trajopt.Problem(system, np.zeros(12), N, [trajopt.ControlCost(2.0, activation=trajopt.SmoothAbs(0.1))], [])
    assert prepared.calls is None and prepared() == problem.objective.value(xs, us)
    np.testing.assert_allclose(prepared(), plain.objective.value(xs, us), rtol=1e-12)


def rows_of(problem):
    """Rows of its constraints, with factors that are not 1."""
    rows = pack(problem, problem.residual_constraints)
    return rows.with_factors([1.0 + np.arange(one.nr) / 3.0 for one in rows.constraints])


def plain_rows(rows, xs, us, lam):
    """c, Cx, Cu, and the Hessians of lam'c, by the methods of residuals."""
    _, ndx, nu = rows.sizes
    c, Cx, Cu = np.empty(len(rows)), np.zeros((len(rows), ndx)), np.zeros((len(rows), nu))
    blocks = zero_blocks(len(us), ndx, nu)
    for block in rows.blocks:
        points, D, place = block.points(xs, us), rows.D[block.rows], place_of(block.knots)
        rx, ru = block.residual.jacobians(*points)
        c[block.rows], Cx[block.rows] = block.residual.evaluate(*points) * D, rx * D[:, :, None]
        if ru is not None and not block.of_states:
            Cu[block.rows] = ru * D[:, :, None]
        if not block.single:
            into = rows_at(blocks, place, block.of_states)
            add_curvature(block.residual, *points, lam[block.rows] * D, into)
            add_rows_at(blocks, place, into)
    return bits((c, Cx, Cu)), bits(blocks[2:])


def check_rows(problem, rng):
    rows, (xs, us), n, nu = rows_of(problem), trajectory(problem, rng), problem.system.ndx, problem.system.nu
    lam, blocks = rng.standard_normal(len(rows)), zero_blocks(problem.horizon, n, nu)
    c, Cx, Cu = np.empty(len(rows)), np.empty((len(rows), n)), np.empty((len(rows), nu))
    values, linearization = rows.prepared_values(xs, us, c), rows.prepared_linearization(xs, us, c, Cx, Cu)
    curvature = rows.prepared_curvature(xs, us, lam, blocks)
    for _ in range(2):
        expected, curved = plain_rows(rows, xs, us, lam)
        assert bits([rows.values(xs, us)]) == expected[:1] and bits(rows.linearized(xs, us)) == expected
        into = zero_blocks(problem.horizon, n, nu)
        rows.add_curvature(xs, us, lam, into)
        assert bits(into[2:]) == curved
        for make in values, partial(replay, values):
            c.fill(np.nan)
            make()
            assert bits([c]) == expected[:1]
        for make in linearization, partial(replay, linearization):
            c.fill(np.nan)
            make()
            assert bits((c, Cx, Cu)) == expected
        for make in curvature, partial(replay, curvature):
            for block in blocks:
                block.fill(0.0)
            make()
            assert bits(blocks[2:]) == curved
        xs[...], us[...] = trajectory(problem, rng)
        lam[...], rows.D[...] = rng.standard_normal(len(rows)), rng.uniform(0.5, 2.0, len(rows))
    link(values, linearization, curvature)


@pytest.mark.parametrize("name", WITH_ROWS)
def test_rows(name, rng):
    check_rows(problems.make(name), rng)


def test_numbers_of_rows(rng):
    """Limits, factors, references and targets of other constraints are taken over where they are read."""
    arm = problems.make("arm")
    model, some = arm.system.model, (1, 2, 5)

    def rows_to(targets, high, place):
        norm = trajopt.SquaredNorm(tool.adjusted(target=place))
        held = [
            trajopt.ResidualConstraint(tool.adjusted(target=targets), -0.1, high, at=some, name="targets"),
            trajopt.ResidualConstraint(norm, 0.01, np.inf),
            trajopt.StateBounds(arm.system, -high, high), trajopt.ResidualConstraint(state(place[0]), -high, high),
        ]  # fmt: skip
        problem = trajopt.Problem(arm.system, arm.x0, N, [trajopt.ControlCost(1.0)], [], constraints=held)
        rows = pack(problem, problem.residual_constraints)
        return problem, rows.with_factors([rng.uniform(0.5, 2.0, one.nr) for one in rows.constraints])

    def state(x):
        return trajopt.StateResidual(arm.system, np.full(12, x), components=[3, 5])

    tool = dynamics.FrameTranslation(model, "tool", [0.0, 0.0, 0.0])
    problem, rows = rows_to([0.1, 0.2, 0.3], 1.0, [0.3, 0.2, 0.1])
    (xs, us), own = trajectory(problem, rng), rows.with_own_numbers()
    c, Cx, Cu = np.empty(len(rows)), np.empty((len(rows), 12)), np.empty((len(rows), 6))
    linearize = own.prepared_linearization(xs, us, c, Cx, Cu)
    replay(linearize)
    assert bits((c, Cx, Cu)) == bits(rows.linearized(xs, us))
    before = bits(rows.linearized(xs, us))
    _, other = rows_to([0.4, 0.1, 0.2], 2.0, [0.5, 0.1, 0.2])
    assert own.take_numbers(other)
    replay(linearize)
    assert bits((c, Cx, Cu)) == bits(other.linearized(xs, us)) != before
    assert bits((own.lower, own.upper, own.D)) == bits((other.lower, other.upper, other.D))
    assert bits(rows.linearized(xs, us)) == before
    assert not own.take_numbers(rows_to(rng.uniform(0.1, 0.5, (N + 1, 3)), 1.0, [0.3, 0.2, 0.1])[1])


def test_rows_at_some_knots(rng):
    arm = problems.make("arm")
    system, model = arm.system, arm.system.model
    targets = rng.uniform(0.1, 0.5, (arm.horizon + 1, 3))
    tool = dynamics.FrameTranslation(model, "tool", targets)
    held = [
        trajopt.ResidualConstraint(tool, -0.1, 0.1, at=(1, 4, 7, arm.horizon)),
        trajopt.ResidualConstraint(trajopt.SquaredNorm(tool), 0.01, np.inf, at=(2, 3, 9)),
        trajopt.ResidualConstraint(dynamics.ControlGravity(model), -1.0, 1.0, at=(0, 5, 6)),
        trajopt.ResidualConstraint(trajopt.SquaredNorm(trajopt.StateResidual(system, components=[1, 4])), 0.0, 2.0),
        trajopt.StateBounds(system, -1.0, 1.0),
    ]
    check_rows(trajopt.Problem(system, arm.x0, arm.horizon, [trajopt.ControlCost(1.0)], [], constraints=held), rng)
