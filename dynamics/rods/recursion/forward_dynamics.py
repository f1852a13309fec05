"""Accelerations of a soft robot and their derivatives, from those of the residual r = M a + r(q, v, 0, u).

    a = - M^-1 r(q, v, 0, u),       a_q = - M^-1 r_q,    a_v = - M^-1 r_v,    a_u = M^-1 B           at that a
    Hessian of y'a, with w = M^-1 y and H the Hessian of w'r:                                   [rod_hessian, section 6]
    qq: - (Hqq + Hqa a_q + its transpose)    qv: - (Hqv + Hqa a_v)    vv: - Hvv    qu: - (Hqu + Hqa a_u)

Elasticity and damping may be those at the end of a step, v+ = v + h a, q+ = q + h v+, for they are linear:

    r + K (q+ - q) + D (v+ - v) = 0:     M + h D + h^2 K in place of M,  r_v + h K in place of r_v,  r + h K v of r
"""

import numpy as np

from dynamics.algorithms.branch_factor import (
    factorize,
    four_columns,
    load_columns,
    no_columns,
    solve_factored,
    store_columns,
    subtract_scaled,
)
from dynamics.rods.model.arrays import FIRST, MASS_MATRIX, SECOND
from dynamics.rods.model.rod_model import RodModel
from dynamics.rods.recursion.blocks import BLOCKS
from dynamics.rods.recursion.residual_kernel import (
    DV,
    HQA,
    HQQ,
    HQV,
    HVV,
    MASS,
    residual_driver_numbers,
    residual_kernel,
)
from dynamics.simd import LANES, align_stack, carve, driver, fma, gather, kernel, load, scatter, shared_kernel, store


@kernel
def _subtract_product(n, A, B, C, columns):
    """C <- - C - A B for A (n n), B and C (n columns), row-major."""
    align_stack(C)
    for c in range(0, columns, 4):
        four = four_columns(c, columns)
        for i in range(0, n, 2):
            j = min(i + 1, n - 1)
            x, y = no_columns(C), no_columns(C)
            for k in range(n):
                b = load_columns(B, B, k * columns, four)
                x = subtract_scaled(x, load(A, i * n + k), b)
                y = subtract_scaled(y, load(A, j * n + k), b)
            x = subtract_scaled(x, 1.0, load_columns(C, C, i * columns, four))
            y = subtract_scaled(y, 1.0, load_columns(C, C, j * columns, four))
            store_columns(C, C, i * columns, four, x)
            if j > i:
                store_columns(C, C, j * columns, four, y)


@kernel
def _subtract_symmetric(n, A, B, C, X):
    """C <- - C - A B - (A B)', all (n n); scratch X."""
    align_stack(C)
    X[: n * n] = 0.0
    _subtract_product(n, A, B, X, n)
    for i in range(n):
        for j in range(n):
            store(C, i * n + j, load(X, i * n + j) + load(X, j * n + i) - load(C, i * n + j))


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
    """a in the state's third part, with elasticity at the end of a step h, or at its start for h = 0; and, in A, the
    blocks of `residual_kernel` with those of a in place of those of r: a_q, a_v, the Hessian of y'a (Hqa stays that of
    w'r), and a_u, Hqu in place of B, Hqu.

    state: q, v, -, y, u, wrenches; of SECOND, w = M^-1 y takes the place of y.  L (n n) becomes the factor of M."""
    n, nu = m.numbers[0], e.numbers[0]
    size = n * n
    a, w = state[2 * n : 3 * n], state[3 * n : 4 * n]
    a[:] = 0.0
    least = np.int64(MASS_MATRIX)  # for a literal numba would compile everything once more
    residual_kernel(m, e, least, state, work, r, A)
    for k in range(size):
        store(L, k, load(A, MASS * size + k))
    if h > 0.0:
        _add_elasticity_to_come(e, h, n, state[n:], L, r)
    factorize(e, L)
    for k in range(n):
        store(a, k, load(r, k))
    solve_factored(e, L, a, 1, -1.0)
    if level < FIRST:
        return
    if level >= SECOND:
        solve_factored(e, L, w, 1, 1.0)
    residual_kernel(m, e, level, state, work, r, A)
    if h > 0.0:
        _add_stiffness(e, h, n, A[DV * size :])
    B, Hqu = carve(A[BLOCKS * size :], n * nu)
    solve_factored(e, L, A, n, -1.0)
    solve_factored(e, L, A[DV * size :], n, -1.0)
    if nu > 0:
        solve_factored(e, L, B, nu, 1.0)
    if level >= SECOND:
        Hqa, Hvv = A[HQA * size :], A[HVV * size : (HVV + 1) * size]
        _subtract_symmetric(n, Hqa, A, A[HQQ * size :], L)
        _subtract_product(n, Hqa, A[DV * size :], A[HQV * size :], n)
        for k in range(size):
            store(Hvv, k, -load(Hvv, k))
        if nu > 0:
            _subtract_product(n, Hqa, B, Hqu, nu)


@shared_kernel
def accelerations_kernel(m, e, level, state, L, work, r, A):
    """`linearly_implicit_kernel` of the motion itself, h = 0."""
    linearly_implicit_kernel(m, e, 0.0, level, state, L, work, r, A)


@driver
def drive_accelerations(first, last, work, m, e, level, states, a, aq, av, au, Hqq, Hqv, Hvv, Hqu):
    """Rows of the arrays for the knots of `states` (K, 4 n + nu + 6 W), knots in lanes."""
    n, nu = m.numbers[0], e.numbers[0]
    size = n * n
    state, w = carve(work, states.shape[1])
    r, w = carve(w, n)
    L, w = carve(w, size)
    A, w = carve(w, BLOCKS * size + 2 * n * nu)
    for c in range(first, last):
        t = c * LANES
        gather(states, t, state)
        accelerations_kernel(m, e, level, state, L, w, r, A)
        scatter(state[2 * n :], t, a)
        if level >= FIRST:
            scatter(A, t, aq)
            scatter(A[DV * size :], t, av)
            scatter(A[BLOCKS * size :], t, au)
        if level >= SECOND:
            scatter(A[HQQ * size :], t, Hqq)
            scatter(A[HQV * size :], t, Hqv)
            scatter(A[HVV * size :], t, Hvv)
            scatter(A[BLOCKS * size + n * nu :], t, Hqu)


def accelerations_driver_numbers(model: RodModel, nu: int) -> int:
    """Scratch numbers per lane of `drive_accelerations`."""
    return residual_driver_numbers(model, nu) + model.nq**2
