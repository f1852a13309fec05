"""Activations against closed forms, differences of high order, continuity and convexity."""

import numpy as np
import pytest

from tests.tolerances import IDENTITY, SIXTH_ORDER_DIFFERENCES
from tests.trajopt.cases import tip
from tests.trajopt.cost_differences import assert_exact_hessians, assert_gradients, random_trajectory
from tests.trajopt.systems import CirclePendulum, Pendulum, TipResidual
from trajopt import ControlCost, Problem, ResidualCost, StateCost, expand, total_cost
from trajopt.costs import (
    LogBarrier,
    PseudoHuber,
    QuadraticActivation,
    QuadraticBarrier,
    SmoothAbs,
    SmoothNorm,
    WeightedQuadratic,
)

N = 3
Q = np.array([[2.0, 0.5, -0.3], [0.5, 1.0, 0.2], [-0.3, 0.2, 0.7]])
LOWER, UPPER = np.array([-1.0, -np.inf, -0.5]), np.array([0.8, 1.2, np.inf])

ACTIVATIONS = {
    "quadratic": QuadraticActivation(),
    "weighted quadratic": WeightedQuadratic(Q),
    "smooth abs": SmoothAbs([0.1, 0.5, 2.0]),
    "smooth abs, one scale": SmoothAbs(0.3),
    "pseudo-huber": PseudoHuber([0.2, 1.0, 3.0]),
    "smooth norm": SmoothNorm(0.4),
    "log barrier": LogBarrier(LOWER, UPPER, 0.25),
    "log barrier, one bound": LogBarrier(-np.inf, 0.7, 0.1),
    "quadratic barrier": QuadraticBarrier(LOWER, UPPER),
}
CLOSED_FORMS = {
    "quadratic": lambda r, w: 0.5 * np.sum(w * r**2),
    "weighted quadratic": lambda r, w: 0.5 * (np.sqrt(w) * r) @ Q @ (np.sqrt(w) * r),
    "smooth abs": lambda r, w: np.sum(w * (np.sqrt(r**2 + [0.01, 0.25, 4.0]) - [0.1, 0.5, 2.0])),
    "smooth abs, one scale": lambda r, w: np.sum(w * (np.hypot(r, 0.3) - 0.3)),
    "pseudo-huber": lambda r, w: np.sum(w * [0.04, 1.0, 9.0] * (np.sqrt(1 + (r / [0.2, 1.0, 3.0]) ** 2) - 1)),
    "smooth norm": lambda r, w: np.sqrt(np.sum(w * r**2) + 0.16) - 0.4,
    "log barrier": lambda r, w: sum(w @ [b(x, 0.25) if x < np.inf else 0.0 for x in z] for z in (r - LOWER, UPPER - r)),
    "log barrier, one bound": lambda r, w: w @ [b(0.7 - x, 0.1) for x in r],
    "quadratic barrier": lambda r, w: 0.5 * np.sum(w * np.maximum(np.maximum(LOWER - r, r - UPPER), 0.0) ** 2),
}


def b(z, delta):
    """The relaxed logarithm, in the form in which Feller and Ebenbauer print it."""
    return -np.log(z) if z > delta else 0.5 * (((z - 2 * delta) / delta) ** 2 - 1) - np.log(delta)


@pytest.fixture(params=ACTIVATIONS)
def name(request):
    """Each activation."""
    return request.param


def residuals(rng, K=20):
    """Some small, some large, on both sides of all bounds; rows of weights."""
    return rng.standard_normal((K, N)) * 10.0 ** rng.uniform(-2, 0.7, (K, 1)), rng.uniform(0.2, 2.0, (K, N))


def full(hessian, K):
    """A_rr (K, N, N) from any form in which it may come."""
    matrices = hessian if hessian.ndim == 3 else hessian[:, :, None] * np.eye(N)
    return np.broadcast_to(matrices, (K, N, N))


def sixth_order(f, r, j, h):
    """df/dr_j by central differences of sixth order."""
    step = h * np.eye(N)[j]
    weights = {1: 45.0, 2: -9.0, 3: 1.0}
    return sum(c * (f(r + k * step) - f(r - k * step)) for k, c in weights.items()) / (60.0 * h)


def away_from_joints(activation, r, distance):
    """Rows of r that are further than this from the places where higher derivatives jump."""
    delta = getattr(activation, "delta", 0.0) * np.ones(N)
    away = np.full(len(r), True)
    if hasattr(activation, "lower"):
        for joint in (activation.lower + delta, activation.upper - delta):
            away &= np.abs(r - joint).min(axis=1) > distance
    return away


def test_values_are_the_closed_forms(name, rng):
    r, w = residuals(rng)
    expected = [CLOSED_FORMS[name](*row) for row in zip(r, w, strict=True)]
    np.testing.assert_allclose(ACTIVATIONS[name].value(r, w), expected, rtol=IDENTITY, atol=IDENTITY)
    constant = [CLOSED_FORMS[name](row, w[0]) for row in r]
    np.testing.assert_allclose(ACTIVATIONS[name].value(r, w[:1].copy()), constant, rtol=IDENTITY, atol=IDENTITY)


def test_gradients_and_hessians_against_differences(name, rng):
    activation, h = ACTIVATIONS[name], 2e-3
    r, w = residuals(rng, 200)
    away = away_from_joints(activation, r, 4 * h)
    assert away.sum() > 150
    r, w = r[away], w[away]
    gradient, hessian = activation.derivatives(r, w)
    slopes = [sixth_order(lambda r: activation.value(r, w), r, j, h) for j in range(N)]
    bends = [sixth_order(lambda r: activation.derivatives(r, w)[0], r, j, h) for j in range(N)]
    scale = max(1.0, np.abs(gradient).max())
    np.testing.assert_allclose(gradient, np.stack(slopes, axis=-1), atol=10 * SIXTH_ORDER_DIFFERENCES * scale)
    scale = np.abs(hessian).max()
    np.testing.assert_allclose(
        full(hessian, len(r)), np.stack(bends, axis=-1), atol=10 * SIXTH_ORDER_DIFFERENCES * scale
    )


def test_hessians_are_symmetric_and_positive_semidefinite(name, rng):
    r, w = residuals(rng, 200)
    _, hessian = ACTIVATIONS[name].derivatives(1e3 * r, w)
    for at in (hessian, ACTIVATIONS[name].derivatives(r, w)[1]):
        H = full(at, len(r))
        np.testing.assert_allclose(H, H.swapaxes(1, 2), rtol=0, atol=1e-15 * np.abs(H).max())
        assert np.linalg.eigvalsh(H).min() >= -1e-14 * np.abs(H).max()


def test_values_are_convex_along_lines(name, rng):
    activation = ACTIVATIONS[name]
    (a, w), (b, _) = residuals(rng, 200), residuals(rng, 200)
    ends = activation.value(a, w), activation.value(b, w)
    for share in (0.2, 0.5, 0.9):
        between = activation.value((1 - share) * a + share * b, w)
        chord = (1 - share) * ends[0] + share * ends[1]
        assert (between <= chord + 1e-12 * (1 + np.abs(chord))).all()


def test_only_barriers_are_not_least_at_zero():
    zero, w = np.zeros((1, N)), np.ones((1, N))
    for name, activation in ACTIVATIONS.items():
        if "log" not in name:
            assert activation.value(zero, w) == 0.0
            np.testing.assert_array_equal(activation.derivatives(zero, w)[0], zero)


def test_smooth_abs_keeps_its_digits_near_zero():
    r, w = np.full((1, N), 1e-9), np.ones((1, N))
    # sqrt(r^2 + p^2) - p = r^2/(2p) to this order; the difference itself would round to zero
    np.testing.assert_allclose(SmoothAbs(1.0).value(r, w), N * 0.5e-18, rtol=1e-12)
    np.testing.assert_allclose(SmoothNorm(1.0).value(r, w), N * 0.5e-18, rtol=1e-12)


@pytest.mark.parametrize("side", ["lower", "upper"])
def test_the_relaxed_barrier_is_twice_continuous_at_its_joint_and_finite_beyond(side):
    delta, w = 0.1, np.full((1, 1), 2.0)
    bounds = (1.0, np.inf) if side == "lower" else (-np.inf, 1.0)
    barrier, inwards = LogBarrier(*bounds, delta), 1.0 if side == "lower" else -1.0

    def at(z):
        r = np.array([[1.0 + inwards * z]])
        return np.concatenate([barrier.value(r, w), *(d.ravel() for d in barrier.derivatives(r, w))])

    joint = 2.0 * np.array([-np.log(delta), -inwards / delta, 1 / delta**2])
    for z in (delta - 1e-12, delta + 1e-12):
        np.testing.assert_allclose(at(z), joint, rtol=1e-9)
    np.testing.assert_allclose(at(0.5), 2.0 * np.array([np.log(2.0), -inwards / 0.5, 4.0]), rtol=1e-12)
    for z in (0.0, -1.0, -1e6):
        assert np.isfinite(at(z)).all() and at(z)[0] > joint[0]


def test_pseudo_huber_is_quadratic_near_zero_and_linear_far_away():
    w = np.full((1, 1), 3.0)
    np.testing.assert_allclose(PseudoHuber(2.0).value(np.array([[1e-4]]), w), 1.5e-8, rtol=1e-8)
    np.testing.assert_allclose(PseudoHuber(2.0).value(np.array([[1e8]]), w), 3.0 * 2.0 * 1e8, rtol=1e-7)


# ------------------------------------------------------------------------------------------------ in costs
PER_NUMBER = {
    "weighted quadratic": lambda n: WeightedQuadratic(Q[:n, :n]),
    "smooth abs": lambda n: SmoothAbs(0.3 * np.arange(1, n + 1)),
    "smooth norm": lambda n: SmoothNorm(0.4),
    "log barrier": lambda n: LogBarrier(-2.0, 1.5, 0.3),
    "quadratic barrier": lambda n: QuadraticBarrier(-0.1, 0.2),
}


def test_residual_costs_against_differences(name, rng):
    plain, activation = tip(horizon=4), ACTIVATIONS[name]
    running = [ControlCost(0.1), ResidualCost(TipResidual(), [0.5, 0.7, 0.1], activation)]
    terminal = [ResidualCost(TipResidual(), [2.0, 3.0, 0.0], activation)]
    problem = Problem(plain.system, plain.x0, 4, running, terminal)
    trajectory = random_trajectory(problem, rng)
    assert_gradients(problem, *trajectory)
    assert_exact_hessians(problem, *trajectory)


@pytest.mark.parametrize("of", PER_NUMBER)
@pytest.mark.parametrize("system", [Pendulum(), CirclePendulum()])
def test_state_and_control_costs_against_differences(of, system, rng):
    x0, reference = np.array([0.4, -0.2]), np.array([2.5, 0.3])
    if isinstance(system, CirclePendulum):
        x0, reference = system.embed(x0), system.embed(reference)
    state = StateCost(system, reference, [2.0, 0.7], PER_NUMBER[of](2))
    problem = Problem(system, x0, 4, [state, ControlCost(0.3, 0.2, PER_NUMBER[of](1))], [state])
    trajectory = random_trajectory(problem, rng)
    assert_gradients(problem, *trajectory)
    assert_exact_hessians(problem, *trajectory)


def test_a_full_matrix_weighs_the_state(rng):
    system, P = Pendulum(), np.array([[3.0, 1.0], [1.0, 2.0]])
    problem = Problem(system, [0.1, 0.2], 3, [], [StateCost(system, [1.0, -1.0], 1.0, WeightedQuadratic(P))])
    xs, us = random_trajectory(problem, rng)
    r = xs[-1] - [1.0, -1.0]
    assert total_cost(problem, xs, us) == pytest.approx(0.5 * r @ P @ r, rel=1e-14)
    e = expand(problem, xs, us)
    np.testing.assert_allclose(e.lx[-1], P @ r, rtol=1e-14)
    np.testing.assert_allclose(e.lxx[-1], P, rtol=1e-14)


def test_the_quadratic_activation_is_the_name_quadratic(rng):
    r, w = residuals(rng)
    by_name, by_object = (ResidualCost(TipResidual(), w[0], a) for a in ("quadratic", QuadraticActivation()))
    xs, us = rng.standard_normal((5, 2)), rng.standard_normal((5, 1))
    np.testing.assert_array_equal(by_name.value(xs, us), by_object.value(xs, us))
    one = WeightedQuadratic(np.eye(N))
    np.testing.assert_allclose(one.value(r, w), QuadraticActivation().value(r, w), rtol=1e-14)


# ------------------------------------------------------------------------------------------------ errors
@pytest.mark.parametrize(
    ("make", "error", "match"),
    [
        (lambda: ResidualCost(TipResidual(), 1.0, "quadratc"), ValueError, "activation: got 'quadratc'.*did you mean"),
        (lambda: ResidualCost(TipResidual(), 1.0, 3), TypeError, "activation: got int, expected 'quadratic' or"),
        (lambda: ControlCost(1.0, 0.0, None), TypeError, "activation: got NoneType"),
        (lambda: StateCost(Pendulum(), [0, 0], 1.0, SmoothAbs([1, 2, 3])), ValueError, "scale: got 3 .*one or 2"),
        (lambda: ResidualCost(TipResidual(), 1.0, PseudoHuber([1, 2])), ValueError, "delta: got 2 .*one or 3"),
        (lambda: ResidualCost(TipResidual(), 1.0, QuadraticBarrier([0, 0], 1)), ValueError, "lower: got 2 numbers"),
        (lambda: ResidualCost(TipResidual(), 1.0, LogBarrier(0, [1, 1], 1)), ValueError, "upper: got 2 numbers"),
        (lambda: ResidualCost(TipResidual(), 1.0, WeightedQuadratic(np.eye(2))), ValueError, r"matrix: got shape"),
        (lambda: WeightedQuadratic(np.ones(3)), ValueError, r"matrix: got shape \(3,\), expected a square one"),
        (lambda: WeightedQuadratic([[1, 2], [0, 1]]), ValueError, "matrix: got one that is not symmetric"),
        (lambda: WeightedQuadratic([[1, 2], [2, 1]]), ValueError, "matrix: got eigenvalue -1"),
        (lambda: WeightedQuadratic([[np.nan]]), ValueError, r"matrix\[0, 0\]: got nan"),
        (lambda: SmoothAbs(0.0), ValueError, "scale: got 0.0, expected positive numbers"),
        (lambda: SmoothNorm([1.0, 2.0]), ValueError, "scale: got 2 numbers, expected one"),
        (lambda: PseudoHuber("big"), TypeError, "delta: got 'big'"),
        (lambda: LogBarrier(0, 1, -0.1), ValueError, "delta: got -0.1"),
        (lambda: LogBarrier(1, 1, 0.1), ValueError, "upper: got 1, expected more than lower, 1"),
        (lambda: LogBarrier(np.inf, np.inf, 0.1), ValueError, "lower: got inf, expected finite numbers or -inf"),
        (lambda: QuadraticBarrier(0, np.nan), ValueError, "upper: got nan, expected finite numbers or inf"),
        (lambda: QuadraticBarrier([0, 0], [1, 1, 1]), ValueError, "upper: got 3 numbers, expected as many as lower"),
        (lambda: QuadraticBarrier("a", 1), ValueError, "lower: got 'a', expected a number or a vector"),
    ],
)  # fmt: skip
def test_activations_say_what_is_wrong(make, error, match):
    with pytest.raises(error, match=match):
        make()


def test_derivatives_of_the_wrong_shape_are_refused(rng):
    class Wrong(SmoothAbs):
        def derivatives(self, r, w):
            return r, np.ones((len(r) + 1, r.shape[1]))

    system = Pendulum()
    problem = Problem(system, [0, 0], 3, [StateCost(system, [0, 0], 1.0, Wrong(1.0))])
    with pytest.raises(ValueError, match=r"activation.derivatives, Hessian: returned shape \(4, 2\)"):
        expand(problem, *random_trajectory(problem, rng))
