"""Starts whose states are far from the dynamics: what mu does until the gaps are closed."""

import numpy as np
import pytest

import dynamics
from tests.trajopt.cases import linear
from tests.trajopt.systems import LinearSystem
from trajopt import DDP, ILQR, ControlCost, Problem, ResidualCost, StateCost
from trajopt.backward.backward_pass import sweep
from trajopt.backward.expansions import expand
from trajopt.backward.regularization import FIRST, Regularization
from trajopt.solvers.formulation import (
    GAUSS_NEWTON,
    Curvature,
    Formulation,
    Iterate,
    LocalModel,
    remaining_gaps,
    shares_of,
)

SOLVERS = {"ilqr": ILQR(), "ddp": DDP()}
SCALE = np.array([1.0, 1.0, 1.0, 1.0, 0.1, 0.1])


class Upright:
    """r = [sin q, 1 - cos q, v] of two angles."""

    nr = 6

    def evaluate(self, xs, us):
        return np.hstack([np.sin(xs[:, :2]), 1.0 - np.cos(xs[:, :2]), xs[:, 2:]])

    def jacobians(self, xs, us):
        rx, i = np.zeros((len(xs), 6, 4)), np.arange(2)
        rx[:, i, i], rx[:, 2 + i, i], rx[:, 4 + i, 2 + i] = np.cos(xs[:, :2]), np.sin(xs[:, :2]), 1.0
        return rx, None

    def hessian_products(self, xs, us, mu):
        H, i = np.zeros((len(xs), 4, 4)), np.arange(2)
        H[:, i, i] = mu[:, 2:4] * np.cos(xs[:, :2]) - mu[:, :2] * np.sin(xs[:, :2])
        return H, None, None


def one_motor():
    """Two short links, a motor at the first joint, from hanging to upright in one second."""
    builder = dynamics.ModelBuilder(name="two links")
    axis = dynamics.Continuous("x")
    builder.add_body("upper", "world", axis, mass=0.267, com=(0, 0, 0.036), inertia=np.diag([4.1e-4, 4.1e-4, 0.0]))
    builder.add_body(
        "lower", "upper", axis, mass=0.332, com=(0, 0, 0.101), inertia=np.diag([1.17e-3, 1.17e-3, 0.0]),
        placement=(np.eye(3), (0, 0, 0.1)),
    )  # fmt: skip
    system = dynamics.RigidBodySystem(builder.build(), 1e-2, actuation=np.array([[1.0], [0.0]]))
    running, terminal = ResidualCost(Upright(), 1e-3 * SCALE), ResidualCost(Upright(), 100.0 * SCALE)
    return Problem(system, np.array([3.14, 0.0, 0.0, 0.0]), 100, [running, ControlCost(1e-2)], [terminal])


@pytest.mark.parametrize("solver", SOLVERS)
def test_swing_up_guessed_at_the_target(solver):
    """A gap of 3.14 rad at the first knot takes short steps to close; the swing-up found is a good one."""
    solution = SOLVERS[solver].solve(one_motor(), xs=np.zeros((101, 4)))
    assert solution.converged and solution.consistent and solution.iterations <= 200
    assert solution.cost < 0.021
    gaps, alphas = solution.history("gap"), solution.history("alpha")
    assert gaps[0] == pytest.approx(3.14) and (alphas[gaps > 0.0] < 0.05).sum() > 5
    assert (solution.history("mu")[gaps > 0.0] == 0.0).all()
    costs = solution.history("cost")[gaps == 0.0]
    assert (np.diff(costs) <= 1e-13 * np.abs(costs[1:])).all()


def test_short_steps_that_close_gaps_leave_mu():
    r = Regularization(1e-5)
    assert r.after_step(1 / 64, excused=True) == r
    assert r.after_step(1 / 64).mu == pytest.approx(1e-4)
    assert r.after_step(1.0, excused=True) == r.after_step(1.0)


def test_where_mu_goes(rng):
    problem, xs, us = linear(rng), np.zeros((16, 4)), np.zeros((15, 2))
    e, formulation = expand(problem, xs, us), Formulation(problem, None, Curvature())
    for gaps in (None, np.ones((16, 4))):
        for mu in (0.0, 1e-8, 2.0):
            on_states, left = shares_of(mu, gaps)
            assert on_states == mu * (gaps is not None)
            assert left == (mu if gaps is None else min(mu, FIRST))
            model = LocalModel(Iterate(xs, us, us, 0.0, gaps, 0.0, 0.0), {GAUSS_NEWTON: e}, xs, 0.0)
            found = formulation.sweep(model, mu)
            plain = sweep(e._replace(lxx=e.lxx + on_states * np.eye(4)), left, gaps=gaps)
            for got, wanted in zip(found[:4], plain[:4], strict=True):
                np.testing.assert_allclose(got, wanted, rtol=1e-12, atol=1e-12)


def test_controls_without_cost_or_effect_and_gaps():
    """Adding mu to the states alone would never make this Quu definite."""
    system = LinearSystem(np.eye(2), [[1.0, 0.0], [0.0, 0.0]])
    problem = Problem(system, [1.0, 1.0], 5, [ControlCost([1.0, 0.0])], [StateCost(system, [0, 0], 1.0)])
    solution = DDP().solve(problem, xs=np.zeros((6, 2)))
    assert solution.converged and solution.largest_gap == 0.0
    np.testing.assert_allclose(solution.us[:, 0], -1.0 / 6.0, atol=1e-6)


def test_gaps_below_rounding_are_none():
    xs, gaps = np.full((3, 2), 5.0), np.full((3, 2), 1e-15)
    assert remaining_gaps(None, 0.5, xs) is None
    assert remaining_gaps(np.ones((3, 2)), 1.0, xs) is None
    assert remaining_gaps(gaps, 0.5, xs) is None
    np.testing.assert_allclose(remaining_gaps(2.0 * gaps, 0.25, xs), 1.5e-15)
    np.testing.assert_array_equal(remaining_gaps(gaps, 0.5, 0.0 * xs), 5e-16)
