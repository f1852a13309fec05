"""Second derivatives of accelerations with closed chains, all points in lanes.

With K = [M -A'; A 0] of (a, lambda), K'(w, mu) = (y, 0), the Hessian of y'a is that of `implicit_function` for

    w'r(q, v, a, u, lambda) + mu'e''(q, v, a)

The kernels have that of w'r, and of g = mu'e' (`closure_hessian`); e'' is the rate of e' along (v, a), so that

    qq  (g_qq)'      qv  (g_qv)' + g_qq      vv  g_qv + g_qv'      qa  g_qv

where the rates (.)' along (v, a) are complex steps, which are exact.
"""

import numpy as np

from dynamics.rods.chains.constrained_dynamics import ConstrainedMotion
from dynamics.rods.loads.robot_arrays import RobotArrays
from dynamics.rods.model.arrays import MASS_MATRIX, SECOND
from dynamics.rods.model.closure_arrays import virtual_rows
from dynamics.rods.model.rod_model import RodModel
from dynamics.rods.recursion.blocks import BLOCKS, Blocks
from dynamics.rods.recursion.residual_kernel import residual_kernel, residual_work, result_numbers
from dynamics.simd import LANES, aligned_zeros, by_reference, routine, span

STEP = 1e-30


@routine
def _evaluate(m, e, level, state, work, r, A):
    m, e = by_reference(m), by_reference(e)
    residual_kernel(m, e, level, span(state), span(work), span(r), span(A))


class _Results:
    """Results of `residual_kernel` for states (K, .), and their rates along directions in (q, v) (K, 2 n), complex."""

    def __init__(self, model: RodModel, arrays: RobotArrays, level: int, states, directions=None):
        n, count = model.nq, result_numbers(model.arrays, arrays)
        numbers = states.shape[1], residual_work(model), n, count
        self.n, self.nu, self.closures = n, int(arrays.numbers[0]), arrays.closures
        self.all = np.empty((len(states), count), complex)
        for t in range(0, len(states), LANES):
            state, work, r, A = (aligned_zeros(size, 2, LANES) for size in numbers)
            own = states[t : t + LANES]
            state[:, 0] = own[0][:, None]
            state[:, 0, : len(own)] = own.T
            if directions is not None:
                state[: 2 * n, 1, : len(own)] = STEP * directions[t : t + LANES].T
            _evaluate(model.arrays, arrays, level, state, work, r, A)
            self.all[t : t + LANES] = A[:, 0, : len(own)].T + 1j / STEP * A[:, 1, : len(own)].T

    def block(self, name: str) -> np.ndarray:
        """(K, n, n)"""
        n = self.n
        return self.all[:, Blocks._fields.index(name) * n * n :][:, : n * n].reshape(-1, n, n)

    @property
    def Hqu(self) -> np.ndarray:
        """(K, n, nu)"""
        n, nu = self.n, self.nu
        return np.real(self.all)[:, BLOCKS * n * n + n * nu :][:, : n * nu].reshape(-1, n, nu)

    def rows(self, virtual: bool) -> np.ndarray:
        """A, or its rate along w, (K, G, n)."""
        n, G = self.n, len(self.closures.kind)
        first = virtual_rows(self.closures, n) if virtual else 3 * G
        return np.real(self.all)[:, BLOCKS * n * n + 2 * n * self.nu + first :][:, : G * n].reshape(-1, G, n)


def acceleration_hessian(
    model: RodModel, arrays: RobotArrays, states: np.ndarray, motion: ConstrainedMotion
) -> tuple[np.ndarray, ...]:
    """Hqq, Hqv, Hvv (K, n, n), Hqu (K, n, nu) of y'a, for states (K, .) with y in the place of w, their motion in them
    and its first derivatives."""
    n, G, X = model.nq, model.constraint_count, motion.derivatives
    least = _Results(model, arrays, MASS_MATRIX, states)
    A, K = least.rows(False), np.zeros((len(states), n + G, n + G))
    K[:, :n, :n], K[:, :n, n:], K[:, n:, :n] = np.real(least.block("M")), -A.swapaxes(1, 2), A
    y = np.zeros((len(states), n + G))
    y[:, :n] = states[:, 3 * n : 4 * n]
    w = np.linalg.solve(K.swapaxes(1, 2), y[..., None])[..., 0]
    given, rates = states.copy(), states.copy()
    given[:, 3 * n : 4 * n], given[:, -2 * G - 1 : -G] = w[:, :n], 0.0
    rates[:, 3 * n : 4 * n], rates[:, -2 * G - 1], rates[:, -2 * G : -G], rates[:, -G:] = 0.0, 0.0, w[:, n:], 0.0
    of_r = _Results(model, arrays, SECOND, given)
    g = _Results(model, arrays, SECOND, rates, states[:, n : 3 * n])
    Hqq, Hqv, Hvv, Hqa = (np.real(of_r.block(name)) for name in ("Hqq", "Hqv", "Hvv", "Hqa"))
    (gqq, rate_qq), (gqv, rate_qv) = ((np.real(x), np.imag(x)) for x in (g.block("Hqq"), g.block("Hqv")))
    Hqz = np.concatenate([Hqa + gqv, -of_r.rows(True).swapaxes(1, 2)], axis=2)
    Xq, Xv, Xu = np.split(X, (n, 2 * n), axis=2)
    along = Hqz @ Xq
    return (
        -(Hqq + rate_qq + along + along.swapaxes(1, 2)),
        -(Hqv + rate_qv + gqq + Hqz @ Xv),
        -(Hvv + gqv + gqv.swapaxes(1, 2)),
        -(of_r.Hqu + Hqz @ Xu),
    )
