"""Derivatives of implicit functions, one knot per lane, or at points in plain numbers.

r(x, z) = 0 defines z(x), with z_x = -r_z^-1 r_x.  With r_z'w = y and H the Hessian of w'r in (x, z), that of y'z is

    -[H_xx + H_xz z_x + (H_xz z_x)' + z_x' H_zz z_x]

In the equations of motion x = (q, v, u), and the accelerations and contact forces z have coefficients of q alone:

    qq  -[H_qq + H_qz z_q + (H_qz z_q)']        qv  -[H_qv + H_qz z_v]        vv  -H_vv        qu  -[H_qu + H_qz z_u]

The order of differentiation in H_qq inside a joint is kept.  Where H_zz is not zero, `add_along` has the terms of z_x.
Equations with constraints and prescribed unknowns have their own r_z (`ConstrainedFactors`).
"""

from typing import NamedTuple

import numpy as np

from dynamics.simd import (
    align_stack,
    equilibrate,
    factorize_dense,
    helper,
    kernel,
    load,
    routine,
    shared_kernel,
    solve_dense,
    splat,
    store,
)
from dynamics.simd.lane_algebra import (
    add_product,
    add_transpose,
    four_columns,
    load_columns,
    store_columns,
    subtract_scaled,
)


# ------------------------------------------------------------------------------------------------ the rule
@kernel
def _product_tile(pattern, n, i, j, A, X, stride, c, columns, C):
    """Rows i and j, columns c of C <- C - A X."""
    align_stack(C)
    x0, x1 = load_columns(C, C, i * columns, c), load_columns(C, C, j * columns, c)
    if pattern is None:
        for k in range(n):
            y = load_columns(X, X, k * stride, c)
            x0 = subtract_scaled(x0, load(A, i * n + k), y)
            x1 = subtract_scaled(x1, load(A, j * n + k), y)
    else:
        for t in range(pattern.pair_start[i // 2], pattern.pair_start[i // 2 + 1]):
            k = pattern.pair_row[t]
            y = load_columns(X, X, k * stride, c)
            x0 = subtract_scaled(x0, load(A, k * n + i), y)
            x1 = subtract_scaled(x1, load(A, k * n + j), y)
    store_columns(C, C, i * columns, c, x0)
    store_columns(C, C, j * columns, c, x1)


@kernel
def subtract_product(pattern, n, columns, A, X, stride, C):
    """C (n columns) <- C - A X, the rows of X lying `stride` apart, for A (n n).

    With a pattern, A is given as its transpose (. n), whose columns 2 p and 2 p + 1 are zero except in the rows
    pair_row[pair_start[p]] ... of the pattern (`ContactArrays`)."""
    for j in range(0, columns, 4):  # the four columns of X, read repeatedly, stay in the first-level cache
        for i in range(0, n, 2):
            _product_tile(pattern, n, i, min(i + 1, n - 1), A, X, stride, four_columns(j, columns), columns, C)


@shared_kernel
def implicit_hessian(pattern, n, A, zq, zv, H, T):
    """Replace H.Hqq, H.Hqv, H.Hvv (n n) of w'r by those of y'z, for A = H_qz in the form of `subtract_product`, z_q and
    z_v; T (n n) is scratch.  For qu see `subtract_product`."""
    align_stack(T)
    T[: n * n] = 0.0
    for k in range(n * n):
        store(H.Hqv, k, -load(H.Hqv, k))
        store(H.Hvv, k, -load(H.Hvv, k))
    subtract_product(pattern, n, n, A, zq, n, T)
    subtract_product(pattern, n, n, A, zv, n, H.Hqv)
    for i in range(n):
        for j in range(n):
            store(H.Hqq, i * n + j, load(T, i * n + j) + load(T, j * n + i) - load(H.Hqq, i * n + j))


@shared_kernel
def add_along(n, nx, X, Z, S, H):
    """H (nx nx), symmetric, += Z X + (Z X)' + X'S X: the terms of the Hessian of R(x, z(x)) with Z = R_xz (nx n),
    S = R_zz (n n) and X = z_x (n nx); overwrites Z."""
    align_stack(H)
    add_product(False, n, nx, n, 1.0, 0.5, X, 1, nx, S, Z)
    add_product(False, n, nx, nx, 0.5, 1.0, Z, n, 1, X, H)
    add_transpose(nx, 1.0, H)


def implicit_hessians(
    Hqq: np.ndarray,
    Hqv: np.ndarray,
    Hvv: np.ndarray,
    Hqu: np.ndarray | float,
    Hqz: np.ndarray,
    zq: np.ndarray,
    zv: np.ndarray,
    zu: np.ndarray,
) -> tuple[np.ndarray, ...]:
    """The four blocks of y'z at K points, (K, ., .) each, from those of w'r."""
    along = Hqz @ zq
    return -(Hqq + along + along.swapaxes(1, 2)), -(Hqv + Hqz @ zv), -Hvv, -(Hqu + Hqz @ zu)


# ------------------------------------------------------------------------------------------------ blocks of states
@helper
def _put(add, H, o, x):
    """H[o] += x, or H[o] = x if `add` is None."""
    store(H, o, x if add is None else load(H, o) + x)


@kernel
def store_state_blocks(add, n, stride, s, H):
    """Store [[Hqq, Hqv], [Hqv', Hvv]] of s in H, whose rows lie `stride` apart, or add it unless `add` is None."""
    align_stack(H)
    for i in range(n):
        for j in range(n):
            k, o = i * n + j, i * stride + j
            qv = load(s.Hqv, k)
            _put(add, H, o, load(s.Hqq, k))
            _put(add, H, o + n, qv)
            _put(add, H, (n + j) * stride + i, qv)
            _put(add, H, o + n * stride + n, load(s.Hvv, k))


@kernel
def store_control_blocks(add, n, nu, stride, Hqu, H):
    """Store or add [Hqu', 0], the rows of nu controls, as `store_state_blocks`."""
    align_stack(H)
    for i in range(nu):
        for j in range(n):
            _put(add, H, i * stride + j, load(Hqu, j * nu + i))
            if add is None:
                store(H, i * stride + n + j, splat(H, 0.0))


@kernel
def store_hessian(add, n, nu, stride, s, Hqu, H):
    """[[Hqq, Hqv, Hqu], [., Hvv, 0], [., ., 0]] of z = (q, v, u), likewise."""
    store_state_blocks(add, n, stride, s, H)
    store_control_blocks(add, n, nu, stride, Hqu, H[2 * n * stride :])
    for i in range(n):
        for j in range(nu):
            _put(add, H, i * stride + 2 * n + j, load(Hqu, i * nu + j))
    if add is None:
        for i in range(n, 2 * n + nu):
            H[i * stride + 2 * n : i * stride + 2 * n + nu] = 0.0


# --------------------------------------------------------------------------------------------
# Equations with G constraints and prescribed unknowns, at one point in plain numbers.
#
# r_f - A_f'lambda = 0 and e = 0 define the free ones (f) of n unknowns x, and lambda, with J = r_x and A = e_x.  Where
# all else changes r and e by dr and de,
#
#     [J_ff  -A_f'; A_f  0] [dx_f; dlambda] = - [dr_f; de]
#
# and the forces r - A'lambda that hold the prescribed unknowns change by dr + J_f dx_f - A'dlambda in their rows.  If J
# is symmetric, the multipliers (w, mu) of y'x are (dx_f, - dlambda) for the change (- y, 0).


class ConstrainedFactors(NamedTuple):
    """Factors of this matrix (N, N), N = F + G."""

    free: np.ndarray  # (F,)
    K: np.ndarray  # (N, N) L and U of the equilibrated matrix
    d: np.ndarray  # (N,) its equilibration; NaN for a singular matrix
    pivots: np.ndarray  # (N,)


def room_for_factors(free: np.ndarray, constraints: int) -> ConstrainedFactors:
    """Arrays of factors, for F unknowns and G constraints."""
    N = len(free) + constraints
    return ConstrainedFactors(free, np.empty((N, N)), np.empty(N), np.empty(N, np.int64))


@kernel
def fill_border(n, free, A, K):
    """Fill K (F + G, F + G) = [0 -A_f'; A_f 0] from A (G n)."""
    F = free.size
    K[:] = 0.0
    for x in range(F):
        for g in range(K.shape[0] - F):
            K[F + g, x] = A[g * n + free[x]]
            K[x, F + g] = -K[F + g, x]


@kernel
def factorize_constrained(n, J, A, s):
    """Factorize the matrix for J (n n) and A (G n)."""
    fill_border(n, s.free, A, s.K)
    for x in range(s.free.size):
        for y in range(s.free.size):
            s.K[x, y] = J[s.free[x] * n + s.free[y]]
    equilibrate(s.K, s.d)
    if not factorize_dense(s.K, s.pivots):
        s.d[:] = np.nan


@kernel
def constrained_changes(n, held, J, A, s, X, Y):
    """Y (F + G, Z) <- [dx_f; dlambda] for X (n + G, Z) = [dr; de], whose rows `held` gain J_f dx_f - A'dlambda."""
    free, F, Z = s.free, s.free.size, X.shape[1]
    for x in range(Y.shape[0]):
        row = free[x] if x < F else n + x - F
        for c in range(Z):
            Y[x, c] = -s.d[x] * X[row, c]
    solve_dense(s.K, s.pivots, Y)
    for x in range(Y.shape[0]):
        for c in range(Z):
            Y[x, c] *= s.d[x]
    for i in held:
        for c in range(Z):
            for x in range(F):
                X[i, c] += J[i * n + free[x]] * Y[x, c]
            for g in range(Y.shape[0] - F):
                X[i, c] -= A[g * n + i] * Y[F + g, c]


@routine
def _changes(n, held, J, A, s, X, Y):
    factorize_constrained(n, J, A, s)
    constrained_changes(n, held, J, A, s, X, Y)


def changes_under_constraints(
    free: np.ndarray, held: np.ndarray, J: np.ndarray, A: np.ndarray, dr: np.ndarray, de: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """[dx_f; dlambda] (F + G, Z) and the forces that hold the prescribed unknowns, in the rows `held` of (n, Z), for dr
    (n, Z) and de (G, Z); not finite where the matrix is singular."""
    X, Y = np.vstack([dr, de]), np.empty((len(free) + len(A), dr.shape[1]))
    _changes(len(J), held, J.ravel(), A.ravel(), room_for_factors(free, len(A)), X, Y)
    return Y, X[: len(J)]
