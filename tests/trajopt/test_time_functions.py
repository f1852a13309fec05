"""References of costs that are functions of time."""

import numpy as np
import pytest

from tests.tolerances import relative_error
from tests.trajopt.cost_differences import assert_exact_hessians
from tests.trajopt.systems import CirclePendulum, TipResidual
from tests.trajopt.test_knots import SYSTEM, TIMES, N, problem
from trajopt import DDP, ILQR, ControlCost, ControlRateSystem, Problem, ResidualCost, StateCost, total_cost


@pytest.fixture
def trajectory(rng):
    return rng.standard_normal((N + 1, 2)), rng.standard_normal((N, 1))


def wave(t):
    return [np.sin(3.0 * t), 3.0 * np.cos(3.0 * t)]


def test_references_are_evaluated_at_the_times_of_the_knots(trajectory):
    rows = np.array([wave(t) for t in TIMES])
    pairs = [
        (StateCost(SYSTEM, wave, 2.0), StateCost(SYSTEM, rows[:-1], 2.0)),
        (StateCost(SYSTEM, wave, 2.0, at=slice(2, 5)), StateCost(SYSTEM, rows[2:5], 2.0, at=slice(2, 5))),
        (StateCost(SYSTEM, wave, 2.0, at=[1, -1]), StateCost(SYSTEM, rows[[1, 8]], 2.0, at=[1, -1])),
        (ControlCost(0.3, np.sin), ControlCost(0.3, np.sin(TIMES[:-1])[:, None])),
        (ControlCost(0.3, lambda t: [t]), ControlCost(0.3, TIMES[:-1, None])),
        (ResidualCost(TipResidual(), 0.3, reference=np.sin),
         ResidualCost(TipResidual(), 0.3, reference=np.tile(np.sin(TIMES[:-1])[:, None], 3))),
    ]  # fmt: skip
    lifted = ControlRateSystem(SYSTEM)
    zs = np.hstack([trajectory[0], np.zeros((N + 1, 1))])
    for of_time, of_rows in pairs:
        values = [total_cost(problem([cost]), *trajectory) for cost in (of_time, of_rows)]
        assert values[0] == pytest.approx(values[1], rel=1e-15)
        value = total_cost(problem([lifted.lift(of_time)], system=lifted), zs, trajectory[1])
        assert value == pytest.approx(values[1], rel=1e-14)
    last = total_cost(problem([], [StateCost(SYSTEM, wave, 2.0)]), *trajectory)
    assert last == pytest.approx(((trajectory[0][-1] - rows[-1]) ** 2).sum(), rel=1e-14)


def test_references_on_a_manifold(rng):
    system = CirclePendulum()
    xs = system.embed(rng.uniform(-1.0, 1.0, (5, 2)))
    cost = StateCost(system, lambda t: system.embed(np.array([t, 1.0])), 2.0)
    p = Problem(system, xs[0], 4, [cost], [cost])
    target = system.embed(np.stack([system.dt * np.arange(5), np.ones(5)], axis=1))
    weights = np.r_[np.full(4, system.dt), 1.0]
    expected = weights @ (system.difference(target, xs) ** 2).sum(axis=1)
    assert total_cost(p, xs, np.zeros((4, 1))) == pytest.approx(expected, rel=1e-13)
    assert_exact_hessians(p, xs, np.zeros((4, 1)))


def test_a_tracked_motion_is_followed():
    """What is tracked solves the dynamics, so both solvers return to it; then its reference is moved."""
    us = np.sin(3.0 * TIMES[:-1])[:, None]
    xs = SYSTEM.rollout([0.1, 0.0], us)
    known = {round(t, 9): x for t, x in zip(TIMES, xs, strict=True)}
    costs = [StateCost(SYSTEM, lambda t: known[round(t, 9)], 1.0), ControlCost(0.1, lambda t: np.sin(3.0 * t))]
    p = Problem(SYSTEM, [0.1, 0.0], N, costs, costs[:1])
    for solver in (DDP(), ILQR()):
        solution = solver.solve(p)
        assert solution.converged and relative_error(solution.us, us) < 1e-7
    prepared = DDP().prepare(p)
    prepared.update({"ControlCost": us + 1.0, "StateCost": xs[:-1] + 0.1})
    moved = Problem(SYSTEM, [0.1, 0.0], N, [StateCost(SYSTEM, xs[:-1] + 0.1, 1.0), ControlCost(0.1, us + 1.0)],
                    p.terminal_costs)  # fmt: skip
    np.testing.assert_allclose(prepared.solve().us, DDP().solve(moved).us, rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: problem([StateCost(SYSTEM, lambda t: [t], 1.0)]), "reference, at 0 s: got 1 numbers, expected one or"),
        (lambda: problem([ControlCost(1.0, lambda t: 1.0 / (0.3 - t) if t < 0.25 else np.nan)]),
         r"reference, at 0.3 s: got nan"),
        (lambda: problem([StateCost(SYSTEM, wave, np.ones((3, 2)))]), "8 rows of reference, 3 rows of weights"),
        (lambda: StateCost(SYSTEM, wave, 1.0).value(np.zeros((2, 2)), None),
         "StateCost: it has functions of time, which a trajopt.Problem evaluates"),
        (lambda: ControlCost(1.0, np.sin).value(np.zeros((2, 2)), np.zeros((2, 1))), "ControlCost: it has functions"),
        (lambda: ResidualCost(TipResidual(), 1.0, reference=wave).value(np.zeros((2, 2)), np.zeros((2, 1))),
         "ResidualCost: it has functions of"),
    ],
)  # fmt: skip
def test_functions_say_what_is_wrong(make, match):
    with pytest.raises(ValueError, match=match):
        make()
