"""The backward pass of differential dynamic programming with SIMD registers along matrix rows, on one thread.

With V' the value function of the next knot, and inner matrix M, inner gradient p, left factors A (m, ndx), B (m, nu):

    dense                 M = V'                              p = v'                A = fx             B = fu
    semi-implicit Euler   M = h^2 V'qq + h (V'qv + V'vq) + V'vv   p = h v'q + v'v   A = fx[n:]         B = fu[n:]

The second line uses fx = [[I, 0], [0, 0]] + [hI; I] A and fu = [hI; I] B, with G = h V'qq + V'vq left over (else 0):

    T = M A + [G 0]       Quu = luu + B'M B     Qux = lux + B'T     Qu = lu + B'p
    Qx = lx + A'p + [v'q; 0]                    Qxx = lxx + A'T + [[V'qq, 0], [0, 0]] + [G 0]'A

Where the second line holds from configuration row b on, as behind a floating base, A is fx[:b] on top of fx[n:], and B
alike.  With v and q the rows and columns from b on and e those before, M and G have the blocks

    M = [V'ee, V'e(n:) + h [0 V'eq]; ., h^2 V'qq + h (V'qv + V'vq) + V'vv]

(`inner_matrix_behind`), and identities act on q alone.

Then Quu + mu I = L D L', Y = L^-1 Qux, Z = -D^-1 Y, K = L^-T Z, and the value of that policy is

    Vxx = Qxx + Z'Y - mu K'K     Vx = Qx + Z'y - mu K'k     (y = L^-1 Qu),

which equals Qxx + K'Quu K + K'Qux + Qux'K without its cancellations.  The upper triangle is computed, then mirrored.

With control limits a box QP finds k and the clamped controls, whose rows of K are zero (`clamp_controls`).  With gaps
between the states and the dynamics, Vx at each knot is that at the end of its gap, Vx + Vxx gap [Mastalli 2020].
"""

from functools import cache
from typing import NamedTuple

import numpy as np

from dynamics.simd import LANES, driver, helper
from dynamics.simd.rows import Matrix, Term, load_part, matrix, store_part, submatrix
from trajopt.backward.backward_pass import Box, SweepResult
from trajopt.backward.sweep_stages import (
    Rows,
    acceleration_model,
    back_substitute,
    clamp_controls,
    count,
    factorize,
    finite,
    hold_clamped,
    inner_matrix,
    inner_matrix_behind,
    mirror,
    policy_penalty,
    regularized,
    shift_gradient,
    split,
    terms,
)
from trajopt.matrix_products import copy_rows, padded, product, row_product

COMMON_SIZES = {(12, 6), (14, 7)}
"""(ndx, nu) of arms with six and seven joints: here sizes are compile-time constants by default, a fifth to a third
faster for a few seconds of compilation per size.  All others share a kernel that reads them from the arrays, so that a
new robot compiles nothing."""


DENSE, SEMI_IMPLICIT, ACCELERATIONS = 0, 1, 2
"""What is known of fx and fu: nothing; semi-implicit form; that of `acceleration_model`."""


# ------------------------------------------------------------------------------------------------ the sweep
def _workspace(ndx: int, nu: int) -> np.ndarray:
    """Scratch for one knot; `_carve` takes it apart."""
    sx, su = -(-ndx // LANES) * LANES, -(-nu // LANES) * LANES
    return np.empty(8 + ndx * (4 * sx + su + 1) + (4 * nu + 1) * sx + (3 * nu + 1) * su + nu)


class _Scratch(NamedTuple):
    """Matrices with rows padded to whole vectors, and the columns p, z.  Y has room for K below, Z for -mu K."""

    M: Matrix  # (m, m)
    G: Matrix  # (m, m)
    T: Matrix  # (m, ndx)
    S: Matrix  # (m, ndx)
    Y: Matrix  # (2 nu, ndx)
    Z: Matrix  # (2 nu, ndx)
    Qx: Matrix  # (1, ndx)
    MB: Matrix  # (m, nu)
    U: Matrix  # (nu, nu)
    F: Matrix  # (nu, nu)
    R: Matrix  # (nu, nu)
    Qu: Matrix  # (1, nu)
    p: Matrix  # (m, 1)
    z: Matrix  # (nu, 1)


@helper
def _carve(ws, m, ndx, nu):
    sm, sx, su = padded(m), padded(ndx), padded(nu)
    misaligned = (-matrix(ws, 0, 1).address) % 64
    M = Matrix(matrix(ws, 0, 1).address + misaligned, sm)
    G = submatrix(M, m, 0)
    T = Matrix(submatrix(G, m, 0).address, sx)
    S = submatrix(T, m, 0)
    Y = submatrix(S, m, 0)
    Z = submatrix(Y, 2 * nu, 0)
    Qx = submatrix(Z, 2 * nu, 0)
    MB = Matrix(submatrix(Qx, 1, 0).address, su)
    U = submatrix(MB, m, 0)
    F = submatrix(U, nu, 0)
    R = submatrix(F, nu, 0)
    Qu = submatrix(R, nu, 0)
    p = Matrix(submatrix(Qu, 1, 0).address, 1)
    return _Scratch(M, G, T, S, Y, Z, Qx, MB, U, F, R, Qu, p, submatrix(p, m, 0))


@cache
def _make_sweep(constant_ndx: int, constant_nu: int, structure: int):
    """The compiled sweep for these sizes, (0, 0) takes them from the arrays, and this structure."""
    structured, accelerations = structure >= SEMI_IMPLICIT, structure == ACCELERATIONS
    shared = None if constant_ndx > 0 else ()

    @driver
    def sweep(mu, seconds, leading, fx, fu, lx, lu, lxx, lux, luu, gaps, box, k, K, Vx, Vxx, ws):
        knots, ndx, nu = fu.shape
        if constant_ndx > 0:
            ndx, nu = np.int64(constant_ndx), np.int64(constant_nu)
        n = ndx // 2 if structured else ndx
        b = count(leading)
        m, skipped = n + b, ndx - n
        s = _carve(ws, m, ndx, nu)
        nothing = Matrix(s.M.address, 0)
        K_pad = submatrix(s.Y, nu, 0)
        copy_rows(ndx, ndx, matrix(Vxx, knots * ndx * ndx, ndx), matrix(lxx, knots * ndx * ndx, ndx))
        copy_rows(1, ndx, matrix(Vx, knots * ndx, ndx), matrix(lx, knots * ndx, ndx))
        mirror(ndx, matrix(Vxx, knots * ndx * ndx, ndx))
        if gaps is not None:
            shift_gradient(ndx, matrix(Vxx, knots * ndx * ndx, ndx), gaps[knots], matrix(Vx, knots * ndx, ndx))
        d1, d2, penalty = 0.0, 0.0, 0.0
        for t in range(knots - 1, -1, -1):
            h = seconds[t]
            A = Rows(matrix(fx, t * ndx * ndx, ndx), matrix(fx, (t * ndx + skipped) * ndx, ndx))
            B = Rows(matrix(fu, t * ndx * nu, nu), matrix(fu, (t * ndx + skipped) * nu, nu))
            lxx_t, luu_t = matrix(lxx, t * ndx * ndx, ndx), matrix(luu, t * nu * nu, nu)
            V_next, v_next = matrix(Vxx, (t + 1) * ndx * ndx, ndx), matrix(Vx, (t + 1) * ndx, ndx)
            V, k_t, K_t = matrix(Vxx, t * ndx * ndx, ndx), matrix(k, t * nu, 1), matrix(K, t * nu * ndx, ndx)
            M, G, p = V_next, nothing, Matrix(v_next.address, 1)
            if structured:
                M, G, p = s.M, s.G, s.p
                if len(leading) == 0:
                    inner_matrix(n, h, V_next, v_next, lxx_t, M, G, p, s.S)
                else:
                    inner_matrix_behind(n, b, h, V_next, v_next, lxx_t, M, G, p, s.S)
            if mu > 0.0:
                regularized(nu, mu, luu_t, s.R)
                luu_t = s.R
            lux_t, lu_t, lx_t = matrix(lux, t * nu * ndx, ndx), matrix(lu, t * nu, nu), matrix(lx, t * ndx, ndx)
            if accelerations:
                acceleration_model(
                    m, h, V_next, v_next, lx_t, lu_t, lxx_t, lux_t, luu_t, M, G, p, s, s.U, s.Y, s.Qu, s.Qx
                )
            else:
                inner, T, MB, costate = split(leading, M), split(leading, s.T), split(leading, s.MB), split(leading, p)
                product(shared, False, 0, m, ndx, s.T, G, terms(leading, m, inner, A))
                product(shared, False, 0, m, nu, s.MB, nothing, terms(leading, m, inner, B))
                product(shared, False, 0, nu, nu, s.U, luu_t, terms(leading, m, B, MB))
                product(shared, False, 0, nu, ndx, s.Y, lux_t, terms(leading, m, B, T))
                row_product(0, 0, nu, s.Qu, lu_t, terms(leading, m, costate, B))
                row_product(0, 0, ndx, s.Qx, lx_t, terms(leading, m, costate, A))
            if structured and not accelerations:
                for j in range(b, n, LANES):
                    part = load_part(s.Qx, 0, j, LANES) + load_part(v_next, 0, j, n - j)
                    store_part(s.Qx, 0, j, LANES, part)
            if box is not None:
                good, slope, curvature = clamp_controls(t, ndx, nu, mu, box, s.U, s.Y, s.Qu, s.Qx)
                if not good:
                    return t, 0.0, 0.0
            good, step = factorize(ndx, nu, s.U, s.Y, s.Qu, s.Qx, s.F, s.Z, s.z)
            if not good:
                return t, 0.0, 0.0
            back_substitute(ndx, nu, s.F, s.Z, s.z, k_t, K_pad, K_t)
            if box is None:
                d1 += step
            else:
                hold_clamped(t, nu, box, k_t)
                d1 += slope
                d2 += curvature
            depth = nu
            if mu > 0.0:
                penalty += policy_penalty(ndx, nu, mu, k_t, K_pad, submatrix(s.Z, nu, 0), s.Qx)
                depth = 2 * nu
            policy = Term(s.Z, s.Y, depth)
            if accelerations:
                product(shared, True, 0, m, ndx, V, s.S, (policy,))
                product(shared, True, m, ndx, ndx, V, submatrix(s.T, -m, 0), (policy,))
            else:
                quadratic = terms(leading, m, A, split(leading, s.T))
                product(shared, True, 0, b, ndx, V, lxx_t, quadratic + (policy,))
                if structured:
                    left_over = terms(leading, m, split(leading, G), A)
                    product(shared, True, b, n, ndx, V, s.S, quadratic + left_over + (policy,))
                product(shared, True, skipped, ndx, ndx, V, lxx_t, quadratic + (policy,))
            mirror(ndx, V)
            copy_rows(1, ndx, matrix(Vx, t * ndx, ndx), s.Qx)
            if gaps is not None:
                shift_gradient(ndx, V, gaps[t], matrix(Vx, t * ndx, ndx))
        if not (finite(ndx, ndx, matrix(Vxx, 0, ndx)) and finite(1, ndx, matrix(Vx, 0, ndx))):
            return 0, 0.0, 0.0
        return -1, d1, -d1 - penalty if box is None else d2

    return sweep


# ------------------------------------------------------------------------------------------------ in Python
def sweep(
    fx: np.ndarray,
    fu: np.ndarray,
    lx: np.ndarray,
    lu: np.ndarray,
    lxx: np.ndarray,
    lux: np.ndarray,
    luu: np.ndarray,
    mu: float,
    semi_implicit_dt: float | np.ndarray = 0.0,
    gaps: np.ndarray | None = None,
    box: Box | None = None,
    constant_sizes: bool | None = None,
    accelerations: bool = False,
    leading: int = 0,
) -> SweepResult:
    """Gains and value function of the linear-quadratic problem with N knots, regularized by mu I in Quu.

    fx (N, ndx, ndx), fu (N, ndx, nu), lx (N + 1, ndx), lu (N, nu), lxx (N + 1, ndx, ndx), lux (N, nu, ndx) and
    luu (N, nu, nu); of the symmetric ones only the upper triangles are used.  ``semi_implicit_dt`` = h > 0, or (N,)
    with h >= 0 for every knot, promises fx[:, :n] = [I 0] + h fx[:, n:] and fu[:, :n] = h fu[:, n:] with n = ndx/2;
    only the lower halves are read then.  ``leading`` = b restricts that promise to the rows from b < n on; the first b
    rows are read, too.
    ``gaps`` (N + 1, ndx) and ``box`` (see `trajopt.backward.backward_pass`) are optional.
    ``accelerations`` promises fx[:, n:] = [0 I] and fu[:, n:] = h I besides; fx and fu are not read then.
    ``constant_sizes`` compiles a kernel for just this ndx and nu (default: for COMMON_SIZES);
    the results agree to rounding.
    """
    arrays = [np.ascontiguousarray(a, np.float64) for a in (fx, fu, lx, lu, lxx, lux, luu)]
    knots, ndx, nu = fu.shape
    shapes = [(knots, ndx, ndx), fu.shape, (knots + 1, ndx), (knots, nu), (knots + 1, ndx, ndx), (knots, nu, ndx)]
    if [a.shape for a in arrays] != [*shapes, (knots, nu, nu)]:
        raise ValueError(f"shapes do not fit fu {fu.shape}: {[a.shape for a in arrays]}")
    if not 0 <= leading < max(1, ndx // 2):
        raise ValueError(f"leading: got {leading}, expected at least 0 and less than ndx / 2 = {ndx // 2}")
    k, K = np.empty((knots, nu)), np.empty((knots, nu, ndx))
    Vx, Vxx = np.empty((knots + 1, ndx)), np.empty((knots + 1, ndx, ndx))
    constant = (ndx, nu) in COMMON_SIZES if constant_sizes is None else constant_sizes
    seconds = np.full(knots, 1.0) * semi_implicit_dt
    structure = ACCELERATIONS if accelerations else (SEMI_IMPLICIT if seconds.any() else DENSE)
    run = _make_sweep(ndx if constant else 0, nu if constant else 0, structure)
    steps = float(mu), seconds, (leading,) if leading else ()
    failed, d1, d2 = run(*steps, *arrays, gaps, box, k, K, Vx, Vxx, _workspace(ndx, nu))
    if failed >= 0:
        for array in (k, K, Vx, Vxx):
            array[...] = 0.0
    return SweepResult(k, K, Vx, Vxx, d1, d2, failed < 0, failed)
