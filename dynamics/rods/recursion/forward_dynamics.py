"""Accelerations of a soft robot and their derivatives, from those of the residual r = M a + r(q, v, 0, u).

    a = - M^-1 r(q, v, 0, u),       a_q = - M^-1 r_q,    a_v = - M^-1 r_v,    a_u = M^-1 B           at that a
    Hessian of y'a: that of `implicit_function`, with w = M^-1 y and H the Hessian of w'r       [rod_hessian, section 6]

Elasticity and damping may be taken at the end of a step, v+ = v + h a, q+ = q + h v+, since they are linear:

    r + K (q+ - q) + D (v+ - v) = 0:     M + h D + h^2 K in place of M,  r_v + h K in place of r_v,  r + h K v of r
"""

import numpy as np

from dynamics.algorithms.branch_factor import factorize, solve_factored
from dynamics.derivatives.implicit_function import implicit_hessian, subtract_product
from dynamics.rods.loads.robot_arrays import RobotArrays
from dynamics.rods.model.arrays import FIRST, MASS_MATRIX, SECOND
from dynamics.rods.model.rod_model import RodModel
from dynamics.rods.recursion.residual_kernel import (
    residual_driver_size,
    residual_kernel,
    scatter_results,
    slice_results,
)
from dynamics.simd import LANES, align_stack, driver, fma, gather, kernel, load, scatter, shared_kernel, split, store
from dynamics.simd.lane_algebra import scale_into
from dynamics.simd.span import by_reference


@kernel
def _add_elasticity_to_come(e, h, n, v, L, r):
    """Add h D + h^2 K to M and h K v to r."""
    align_stack(L)
    for i in range(n):
        x = load(r, i)
        for j in range(e.band[i, 0], e.band[i, 1]):
            hK = h * e.stiffness[i, j]
            x = fma(hK, load(v, j), x)
            store(L, i * n + j, load(L, i * n + j) + h * (e.damping[i, j] + hK))
        store(r, i, x)


@kernel
def _add_stiffness(e, h, n, rv):
    """Add h K to dr/dv."""
    align_stack(rv)
    for i in range(n):
        for j in range(e.band[i, 0], e.band[i, 1]):
            store(rv, i * n + j, load(rv, i * n + j) + h * e.stiffness[i, j])


@shared_kernel
def linearly_implicit_kernel(m, e, h, level, state, L, work, r, A):
    """Store a in the state's third part, with elasticity at the end of a step h, or at its start for h = 0; and, in A,
    the results of `residual_kernel` with derivatives of a in place of those of r: a_q, a_v, the Hessian of y'a (Hqa
    remains that of w'r), and a_u, Hqu in place of B, Hqu.

    state: q, v, -, y, u, wrenches; for SECOND, w = M^-1 y replaces y.  L (n n) becomes the factor of M."""
    n, nu = m.counts[0], e.counts[0]
    b, c, _ = slice_results(m, e, A)
    a, w = state[2 * n : 3 * n], state[3 * n : 4 * n]
    a[:] = 0.0
    least = np.int64(MASS_MATRIX)  # np.int64, since numba would compile everything once more for a literal
    residual_kernel(m, e, least, state, work, r, A)
    scale_into(n * n, L, 1.0, b.M)
    if h > 0.0:
        _add_elasticity_to_come(e, h, n, state[n:], L, r)
    factorize(e, L)
    scale_into(n, a, 1.0, r)
    solve_factored(e, L, a, 1, -1.0)
    if level < FIRST:
        return
    if level >= SECOND:
        solve_factored(e, L, w, 1, 1.0)
    residual_kernel(m, e, level, state, work, r, A)
    if h > 0.0:
        _add_stiffness(e, h, n, b.dv)
    solve_factored(e, L, b.dq, n, -1.0)
    solve_factored(e, L, b.dv, n, -1.0)
    if nu > 0:
        solve_factored(e, L, c.B, nu, 1.0)
    if level >= SECOND:
        implicit_hessian(None, n, b.Hqa, b.dq, b.dv, b, L)
        scale_into(n * nu, c.Hqu, -1.0, c.Hqu)
        subtract_product(None, n, nu, b.Hqa, c.B, nu, c.Hqu)


@shared_kernel
def accelerations_kernel(m, e, level, state, L, work, r, A):
    """`linearly_implicit_kernel` with h = 0, for the accelerations of the motion itself."""
    linearly_implicit_kernel(m, e, 0.0, level, state, L, work, r, A)


@driver
def drive_accelerations(first, last, work, m, e, level, states, a, rows, au, Hqu):
    """Store a and its derivatives for `states` (K, 4 n + nu + 6 W), knots in lanes; arguments as in
    `drive_residual`."""
    m, e = by_reference(m), by_reference(e)
    n = m.counts[0]
    state, w = split(work, states.shape[1])
    r, w = split(w, n)
    L, A = split(w, n * n)
    b, of_controls, w = slice_results(m, e, A)
    for c in range(first, last):
        t = c * LANES
        gather(states, t, state)
        accelerations_kernel(m, e, level, state, L, w, r, A)
        scatter(state[2 * n :], t, a)
        scatter_results(b, of_controls, t, rows, au, Hqu)


def accelerations_driver_size(model: RodModel, e: RobotArrays) -> int:
    """Scratch size per lane of `drive_accelerations`."""
    return residual_driver_size(model, e) + model.nq**2
