"""Weighted squares of residuals, summed and expanded in the lanes, against values and derivatives of the residuals."""

import numpy as np
import pytest

from dynamics import CenterOfMass, ControlGravity
from dynamics.simd import LANES
from dynamics.simd.squares import CLIPPED, MULTIPLIERS, SQUARES, KnotSum, ResidualWeights
from tests.dynamics.test_residuals import KINDS, make, robot, with_frames

__all__ = ["robot"]


def blocks(N, ndx, nu):
    shapes = (N + 1, ndx), (N, nu), (N + 1, ndx, ndx), (N, nu, ndx), (N, nu, nu)
    return [np.zeros(shape) for shape in shapes]


def figures(rng, rows, nr, limited):
    """Weights of squares, or also shifts and limits, of which some are equal, some infinite, and some far apart."""
    w = rng.uniform(0.5, 2.0, (rows, nr))
    if not limited:
        return ResidualWeights(w)
    lower = rng.choice([-0.3, 0.1], (rows, nr))
    upper = lower + rng.choice([0.0, 0.2, 50.0, np.inf], (rows, nr))
    lower[upper - lower == 0.2] = -np.inf
    return ResidualWeights(np.hstack([w, rng.uniform(-0.2, 0.2, (rows, nr)), lower, upper]), CLIPPED)


def slopes(r, given):
    """w s and w a of residuals (K, nr), spelled out."""
    nr, (rows, layout) = r.shape[1], given
    w = np.broadcast_to(rows[:, :nr], r.shape)
    if layout == SQUARES:
        return w * r, w, 0.5 * (w * r**2).sum()
    shift, lower, upper = (rows[:, i * nr : (i + 1) * nr] for i in (1, 2, 3))
    s = r + shift - np.clip(r + shift, lower, upper)
    return w * s, w * ((s != 0) | (lower == upper)), 0.5 * (w * s**2).sum()


def expected(residual, xs, us, given, start, stop):
    """Value, blocks of gradient and Gauss-Newton Hessians, and of what these leave out, from the residual's methods."""
    N = len(us)
    target, curvature = blocks(N, residual.ndx, us.shape[1]), blocks(N, residual.ndx, us.shape[1])
    total = 0.0
    for t in range(start, stop):
        u = us[t : t + 1] if t < N and isinstance(residual, ControlGravity) else None
        r, rx, ru = residual.evaluate_with_jacobians(xs[t : t + 1], u)
        slope, stiffness, value = slopes(r, given._replace(rows=given.rows[min(t - start, len(given.rows) - 1)][None]))
        total += value
        J, W = rx[0], np.diag(stiffness[0])
        target[0][t], target[2][t] = J.T @ slope[0], J.T @ W @ J
        if ru is not None:
            B = ru[0]
            target[1][t], target[3][t], target[4][t] = B.T @ slope[0], B.T @ W @ J, B.T @ W @ B
        curvature[2][t] = residual.hessian_products(xs[t : t + 1], u, slope)[0][0]
    return total, target, curvature


def check(residual, xs, us, given, start, stop):
    value, target, curvature = expected(residual, xs, us, given, start, stop)
    got_target, got_curvature = blocks(len(us), residual.ndx, us.shape[1]), blocks(len(us), residual.ndx, us.shape[1])
    sums = [residual.add_expansion(KnotSum((start, stop), xs, us, given, None, None))]
    sums.append(residual.add_expansion(KnotSum((start, stop), xs, us, given, got_target, got_curvature)))
    np.testing.assert_allclose(sums, value, rtol=1e-13)
    for got, wanted in zip([*got_target, *got_curvature], [*target, *curvature], strict=True):
        assert np.abs(got - wanted).max(initial=0.0) <= 1e-12 * (1.0 + np.abs(wanted).max(initial=0.0))
    once = [np.ones_like(block) for block in got_target]
    residual.add_expansion(KnotSum((start, stop), xs, us, given, once, once))
    for got, first, second in zip(once, got_target, got_curvature, strict=True):
        np.testing.assert_allclose(got, 1.0 + first + second, rtol=0, atol=1e-10 * (1.0 + np.abs(first).max(initial=0)))
    alone = blocks(len(us), residual.ndx, us.shape[1])
    residual.add_expansion(KnotSum((start, stop), xs, us, given, None, alone))
    for got, wanted in zip(alone, got_curvature, strict=True):
        np.testing.assert_array_equal(got, wanted)
    check_multipliers(residual, xs, us, given, (start, stop), got_target, got_curvature)


def check_multipliers(residual, xs, us, given, span, target, curvature):
    """What squares add is what their slopes add, given as multipliers, without a value."""
    at, u = slice(*span), us if residual.nu is not None else None
    r = np.concatenate([residual.evaluate(xs[[t]], None if u is None or t == len(us) else u[[t]])
                        for t in range(*span)])  # fmt: skip
    mu, a, _ = slopes(r, given)
    weights = ResidualWeights(np.hstack([mu, np.broadcast_to(a, mu.shape)]), MULTIPLIERS)
    first, second = ([np.zeros_like(block) for block in target] for _ in range(2))
    assert residual.add_expansion(KnotSum(span, xs, us, weights, first, second)) == 0.0
    for got, wanted in zip([*first, *second], [*target, *curvature], strict=True):
        assert np.abs(got[at] - wanted[at]).max(initial=0.0) <= 1e-13 * (1.0 + np.abs(wanted).max(initial=0.0))


@pytest.mark.parametrize("limited", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_squares_are_those_of_the_residual(robot, kind, limited):
    model, points, rng = robot
    N = LANES + 2
    xs = points[np.arange(N + 1) % len(points)]
    us = rng.standard_normal((N, model.nv))
    residual = make(kind, model, xs[0], rng)
    check(residual, xs, us, figures(rng, N + 1, residual.nr, limited), 0, N + 1)
    check(residual, xs, us, figures(rng, 1, residual.nr, limited), 3, N)
    check(residual, xs, us, figures(rng, 1, residual.nr, limited), N, N + 1)


@pytest.mark.parametrize("actuation", ["floating_base", "matrix"])
def test_gravity_with_other_actuations(actuation):
    rng = np.random.default_rng(5)
    model, points = with_frames("hyq", rng)
    B = rng.standard_normal((model.nv, 4)) if actuation == "matrix" else actuation
    residual = ControlGravity(model, B)
    N = len(points) - 1
    us = rng.standard_normal((N, residual.nu))
    check(residual, points, us, figures(rng, N + 1, residual.nr, True), 0, N + 1)


def test_a_frame_of_the_world_has_no_slopes(robot):
    model, points, rng = robot
    residual = make("placement", model, points[0], rng, frame="marker")
    target = blocks(len(points) - 1, residual.ndx, 1)
    us, weights = np.zeros((len(points) - 1, 1)), ResidualWeights(np.ones((1, 6)))
    assert residual.add_expansion(KnotSum((0, 1), points, us, weights, target, target)) > 0.0
    assert not any(block.any() for block in target)


def test_a_class_derived_from_a_residual_is_not_summed_behind_its_back(robot):
    model = robot[0]

    class Doubled(CenterOfMass):
        def evaluate(self, xs, us=None):
            return 2.0 * super().evaluate(xs, us)

    assert CenterOfMass(model, np.zeros(3)).sums_squares
    assert not Doubled(model, np.zeros(3)).sums_squares


def test_states_of_a_wrong_width_are_named(robot):
    model, points, _ = robot
    residual = CenterOfMass(model, np.zeros(3))
    with pytest.raises(ValueError, match="xs"):
        residual.add_expansion(KnotSum((0, 1), points[:, 1:], np.zeros((1, 1)), ResidualWeights(np.ones((1, 3)))))
