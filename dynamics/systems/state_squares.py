"""Weighted squares of the difference from a state, r = x (-) x_ref, summed over knots and expanded in the lanes.

As `dynamics.residuals.squares`, but with a Jacobian that is block diagonal over the joints (`state_difference`).
"""

import numpy as np

from dynamics.kernel_model import kernel_model
from dynamics.lane_algebra import combine
from dynamics.model import RigidBodyModel
from dynamics.residuals.robot_residual import HESSIAN, JACOBIAN, VALUE, Blocks, Run, knots, run
from dynamics.residuals.squares import SQUARES_ROW, add_entry, add_row, sum_lanes, weigh
from dynamics.simd import LANES, carve, driver, fma, gather, kernel, load, splat, store
from dynamics.tangent import JACOBIAN_INVERSE, TANGENT_SLOTS, add_map, difference_configuration, tangent_maps_inverse
from dynamics.tangent_geometry import add_log_hessian


@kernel
def _add_gauss_newton(m, X, mu, gauss_newton_weight, first, count, row, lx, lxx):
    """Add J'mu and J' diag(gauss_newton_weight) J, J = diag(X, I) with a block for every joint in X (nv nv)."""
    n = m.dof_body.size
    for i in range(m.parent.size):
        start, stop = m.v_index[i], m.v_index[i] + m.dof_count[i]
        for a in range(start, stop):
            g = splat(X, 0.0)
            for r in range(start, stop):
                g = fma(load(X, r * n + a), load(mu, r), g)
            store(row, 0, g)
            add_row(row, first, count, lx, a)
            for b in range(start, a + 1):
                e = splat(X, 0.0)
                for r in range(start, stop):
                    e = fma(load(gauss_newton_weight, r) * load(X, r * n + a), load(X, r * n + b), e)
                store(row, 0, e)
                add_entry(row, first, count, lxx, a, b)
    for a in range(n, 2 * n):
        add_row(mu[a : a + 1], first, count, lx, a)
        add_entry(gauss_newton_weight[a : a + 1], first, count, lxx, a, a)


@kernel
def _add_curvature(m, maps, r, mu, X, first, count, Hxx):
    """Add the Hessian of mu'r; X (nv nv) is scratch."""
    n = m.dof_body.size
    X[:] = 0.0
    add_log_hessian(m, maps, r, mu, 1.0, X, 0, n)
    for i in range(m.parent.size):
        start, stop = m.v_index[i], m.v_index[i] + m.dof_count[i]
        if stop - start > 1:
            for a in range(start, stop):
                for b in range(start, a + 1):
                    add_entry(X[a * n + b : a * n + b + 1], first, count, Hxx, a, b)


@driver
def _drive(first, last, work, block, x_ref, weights, start, stop, order, xs, lx, lxx, Hxx):
    m = kernel_model(block)
    nb, n, nx, total = m.parent.size, m.dof_body.size, xs.shape[1], 0.0
    nq = nx - n
    reference, w = carve(work, nx)
    x_, w = carve(w, nx)
    r_, w = carve(w, 2 * n)
    mu, w = carve(w, 2 * n)
    gauss_newton_weight, w = carve(w, 2 * n)
    maps, w = carve(w, nb * TANGENT_SLOTS)
    X, w = carve(w, n * n)
    row, w = carve(w, weights.shape[1])
    gather(x_ref, 0, reference)
    for c in range(first, last):
        t = start + c * LANES
        count = min(LANES, stop - t)
        gather(xs, t, x_)
        difference_configuration(m, reference[:nq], x_[:nq], r_[:n])
        combine(n, r_[n:], x_[nq:], -1.0, reference[nq:])
        total += sum_lanes(weigh(weights, c * LANES, r_, row, mu, gauss_newton_weight), row, count)
        if order != VALUE:
            tangent_maps_inverse(m, r_, maps)
        if order & JACOBIAN:
            X[:] = 0.0
            add_map(m, maps, JACOBIAN_INVERSE, 1.0, X, 0, n)
            _add_gauss_newton(m, X, mu, gauss_newton_weight, t, count, row, lx, lxx)
        if order & HESSIAN:
            _add_curvature(m, maps, r_, mu, X, t, count, Hxx)
    return total


class StateDifference:
    """r = x (-) x_ref (2 nv,) of a robot; see `dynamics.residuals.robot_residual.RobotResidual.weighted_squares`.

    Two of equal models and references are equal.
    """

    sums_squares = True

    def __init__(self, model: RigidBodyModel, x_ref: np.ndarray) -> None:
        n, nx = model.nv, model.nq + model.nv
        self.nr = 2 * n
        self._model, self._x_ref = model, np.array(x_ref, dtype=np.float64).reshape(1, nx)
        nb = len(model.arrays.parent)
        self._numbers = 2 * nx + 6 * n + nb * TANGENT_SLOTS + n * n + SQUARES_ROW * self.nr
        self._key = model, self._x_ref.tobytes()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StateDifference) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    def weighted_squares(
        self,
        xs: np.ndarray,
        us: np.ndarray,
        weights: np.ndarray,
        start: int,
        stop: int,
        target: Blocks | None,
        curvature: Blocks | None,
    ) -> float:
        """1/2 sum_i w_i s_i^2 over the knots start <= t < stop, its expansion added to arrays over all knots."""
        xs = knots("xs", xs, self._x_ref.shape[1])
        asked = Run(self.nr, self.nr, None, start, stop)
        order, target, curvature = asked.requested(xs, us, weights, target, curvature)
        place = self._model.block, self._x_ref, weights, start, stop
        return run(_drive, stop - start, self._numbers, *place, order, xs, target[0], target[2], curvature[2])
