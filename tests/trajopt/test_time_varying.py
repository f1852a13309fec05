"""Costs with a reference and weights for every knot: equal rows are the constant cost, others a sum knot by knot."""

import numpy as np
import pytest

from tests.trajopt.cost_differences import assert_exact_hessians, assert_gradients, random_trajectory
from tests.trajopt.systems import CartPole, CirclePendulum, Pendulum, TipResidual
from trajopt import DDP, ControlCost, Problem, ResidualCost, StateCost
from trajopt.costs import Quadratic, SmoothAbs, SmoothNorm

K = 5
ACTIVATIONS = {"quadratic": "quadratic", "smooth abs": SmoothAbs(0.3), "smooth norm": SmoothNorm(0.2)}


class Cubic(Pendulum):
    """A state whose difference phi(x) - phi(x_ref), phi = x + 0.1 x^3, depends on the reference in a curved way."""

    euclidean = False

    @staticmethod
    def phi(x):
        return x + 0.1 * np.asarray(x) ** 3

    def difference(self, x0, x1):
        d = self.phi(x1) - self.phi(x0)
        return d + 0.05 * self.phi(x0) * d**2

    def difference_expansion(self, x_ref, xs, mu):
        d, bend = self.phi(xs) - self.phi(x_ref), 0.1 * self.phi(np.broadcast_to(x_ref, xs.shape))
        slope, phi1, phi2 = 1 + bend * d, 1 + 0.3 * xs**2, 0.6 * xs
        return (slope * phi1)[:, :, None] * np.eye(2), (mu * (bend * phi1**2 + slope * phi2))[:, :, None] * np.eye(2)


def angles(rng, n):
    return rng.uniform(-1.0, 1.0, (n, 2))


SYSTEMS = {
    "euclidean": (Pendulum(), angles),
    "circle": (CirclePendulum(), lambda rng, n: CirclePendulum().embed(angles(rng, n))),
    "curved": (Cubic(), angles),
}


def state_costs(system, points, activation, rng):
    """A constructor of costs from rows, and rows that vary."""
    return lambda reference, w: StateCost(system, reference, w, activation), (
        points(rng, K),
        rng.uniform(0.1, 2, (K, 2)),
    )


def control_costs(system, points, activation, rng):
    rows = rng.standard_normal((K, 1)), rng.uniform(0.1, 2, (K, 1))
    return lambda reference, w: ControlCost(w, reference, activation), rows


def residual_costs(system, points, activation, rng):
    rows = rng.standard_normal((K, 3)), rng.uniform(0.1, 2, (K, 3))
    return lambda reference, w: ResidualCost(TipResidual(), w, activation, reference), rows


FAMILIES = {"state": state_costs, "control": control_costs, "residual": residual_costs}


COMBINATIONS = [("state", where, a) for where in SYSTEMS for a in ACTIVATIONS]
COMBINATIONS += [(kind, "euclidean", a) for kind in ("control", "residual") for a in ACTIVATIONS]


@pytest.fixture(params=COMBINATIONS, ids="-".join)
def family(request, rng):
    """A constructor of costs from rows, varying rows, the system, and knots xs, us."""
    kind, where, activation = request.param
    system, points = SYSTEMS[where]
    make, rows = FAMILIES[kind](system, points, ACTIVATIONS[activation], rng)
    return make, rows, system, points(rng, K), rng.standard_normal((K, 1))


def everything(cost, system, xs, us):
    """Value, expansion and curvature of a cost at knots."""
    n, m, k = system.ndx, system.nu, len(xs)
    target = Quadratic(*(np.zeros(s) for s in ((k, n), (k, m), (k, n, n), (k, m, n), (k, m, m))))
    cost.accumulate(xs, us, 0.3, target)
    value, first = cost.value(xs, us), [a.copy() for a in target]
    cost.accumulate_curvature(xs, us, 0.3, target)
    return [value, *first, *target]


def test_equal_rows_are_the_constant_cost(family):
    make, rows, system, xs, us = family
    constant, varying = make(*(r[0] for r in rows)), make(*(np.tile(r[0], (K, 1)) for r in rows))
    assert (constant.knots, varying.knots) == (None, K)
    for a, b in zip(everything(constant, system, xs, us), everything(varying, system, xs, us), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-14, atol=1e-15)


def test_other_rows_are_a_cost_for_every_knot(family):
    make, rows, system, xs, us = family
    together = everything(make(*rows), system, xs, us)
    for t in range(K):
        alone = everything(make(*(r[t] for r in rows)), system, xs[t : t + 1], us[t : t + 1])
        for a, b in zip(together, alone, strict=True):
            np.testing.assert_allclose(a[t], b[0], rtol=1e-13, atol=1e-14)


def test_one_row_is_a_constant_cost(family):
    make, rows, *_ = family
    assert make(*(r[:1] for r in rows)).knots is None


def test_rows_of_one_argument_beside_a_constant_other(rng):
    system, xs, us = Pendulum(), rng.standard_normal((K, 2)), rng.standard_normal((K, 1))
    references, w = rng.standard_normal((K, 2)), rng.uniform(0.1, 1.0, (K, 2))
    for cost, expected in (
        (StateCost(system, references, 2.0), ((xs - references) ** 2).sum(axis=1)),
        (StateCost(system, [0.5, 0.1], w), 0.5 * (w * (xs - [0.5, 0.1]) ** 2).sum(axis=1)),
        (ControlCost(2.0, references[:, :1]), (us - references[:, :1])[:, 0] ** 2),
        (ControlCost(w[:, :1], 0.3), 0.5 * (w[:, :1] * (us - 0.3) ** 2)[:, 0]),
    ):
        assert cost.knots == K
        np.testing.assert_allclose(cost.value(xs, us), expected, rtol=1e-14)


@pytest.mark.parametrize("name", SYSTEMS)
def test_derivatives_in_a_problem(name, rng):
    system, points = SYSTEMS[name]
    state = StateCost(system, points(rng, K), rng.uniform(0.1, 1.0, (K, 2)))
    control = ControlCost(rng.uniform(0.1, 1.0, (K, 1)), rng.standard_normal((K, 1)))
    problem = Problem(system, points(rng, 1)[0], K, [state, control], [StateCost(system, points(rng, 1)[0], 2.0)])
    trajectory = random_trajectory(problem, rng)
    assert_gradients(problem, *trajectory)
    assert_exact_hessians(problem, *trajectory)


def test_tracking_returns_to_the_trajectory_it_tracks(rng):
    system, N = CartPole(), 30
    us = np.sin(0.3 * np.arange(N))[:, None]
    xs = system.rollout(np.zeros(4), us)
    track = [StateCost(system, xs[:-1], rng.uniform(1.0, 2.0, (N, 4))), ControlCost(0.1, us)]
    solution = DDP().solve(Problem(system, np.zeros(4), N, track, [StateCost(system, xs[-1], 10.0)]))
    assert solution.converged
    np.testing.assert_allclose(solution.us, us, atol=1e-8)
    np.testing.assert_allclose(solution.xs, xs, atol=1e-8)


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: StateCost(Pendulum(), np.ones((4, 3)), 1.0), r"reference: got shape \(4, 3\), expected \(4, 2\)"),
        (lambda: StateCost(Pendulum(), np.ones((0, 2)), 1.0), r"reference: got shape \(0, 2\)"),
        (lambda: StateCost(Pendulum(), np.full((4, 2), np.nan), 1.0), r"reference\[0, 0\]: got nan"),
        (lambda: StateCost(Pendulum(), np.ones((4, 2)), np.ones((3, 2))), "4 rows of reference, 3 rows of weights"),
        (lambda: StateCost(Pendulum(), [0, 0], -np.ones((4, 2))), "weights: got -1.0, expected no negative weight"),
        (lambda: ControlCost(np.ones((4, 1)), np.ones((3, 1))), "4 rows of weights, 3 rows of reference"),
        (lambda: ControlCost(np.ones((2, 2, 2))), r"weights: got shape \(2, 2, 2\), expected a number, a vector, or"),
        (lambda: ResidualCost(TipResidual(), np.ones((4, 2))), r"weights: got shape \(4, 2\), expected \(4, 3\)"),
        (lambda: ResidualCost(TipResidual(), 1.0, reference=[0.0]), "reference: got 1 numbers, expected one or 3"),
        (lambda: ControlCost(np.ones((4, 2))).check(Pendulum(), False), "ControlCost weights: got 2 numbers"),
    ],
)  # fmt: skip
def test_rows_of_the_wrong_shape_are_refused(make, match):
    with pytest.raises(ValueError, match=match):
        make()


def test_other_knots_than_the_rows_are_refused():
    xs, us = np.zeros((3, 2)), np.zeros((3, 1))
    for cost in (
        StateCost(Pendulum(), np.zeros((4, 2)), 1.0),
        StateCost(CirclePendulum(), np.tile([1.0, 0.0, 0.0], (4, 1)), 1.0),
        ControlCost(np.ones((4, 1))),
        ResidualCost(TipResidual(), np.ones((4, 3))),
    ):
        for call in (lambda c=cost: c.value(xs, us), lambda c=cost: everything(c, Pendulum(), xs, us)):
            with pytest.raises(ValueError, match=f"{type(cost).__name__}: made for 4 knots, got 3"):
                call()
