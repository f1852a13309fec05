"""The backward pass of differential dynamic programming: from the last knot to the first, gains and value function.

At each knot three parts follow one another, `action_value`, `gains` and `value_function`, with SIMD registers along
matrix rows, on one thread.  The expected change of the cost for a step alpha is alpha d1 + alpha^2/2 d2, d1 = sum k'Qu,
d2 = sum k'Quu k.  The update of V is exact for any gains, so a regularized sweep still returns the value of the policy
it returns.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from dynamics.simd import LANES, driver, fma, helper, shared_kernel
from dynamics.simd.rows import Matrix, Term, entry, load_part, matrix, set_entry, store_part, submatrix
from trajopt.backward.expansions import NO_TENSORS, Expansion, Tensors, add_contraction, finite
from trajopt.matrix_products import copy_rows, padded, product, row_product

ROUNDING = 1e-14
"""Relative rounding error of a sum: of a pivot, which counts as positive beyond that fraction of the largest diagonal
entry; of costs, of which an increase within it does not count; and of a control, which counts as on its limit within
that fraction of it and of its change."""
OUTWARD = 1.0 + 4.0 * float(np.finfo(np.float64).eps)
"""Overshoot factor of a step to a limit, by a few units of rounding, so that clipping lands exactly on the limit."""
SUFFICIENT = 1e-4
"""Least part of a predicted decrease that a step has to gain, of costs, of models and of violations alike; small, as in
Armijo's rule [Bertsekas 1982]."""

# --------------------------------------------------------------------------------------------
# The box-constrained quadratic program of one knot, by projected Newton steps [Bertsekas 1982; Tassa 2014].
#
#     minimize  g'x + 1/2 x'H x   subject to  lower <= x <= upper
#
# A component is clamped where it lies on a limit and the gradient r = g + H x pushes it outwards.  The free ones take
# the Newton step H_ff d = -r_f, projected onto the box, if that lowers the objective enough; else they go along d to
# the first limit and that component stays clamped, until the minimum over the free ones is reached and others may be
# released.  The step from the right set of clamped components is exact, so the method ends after finitely many steps,
# usually two or three.


class Box(NamedTuple):
    """Limits of the change of the controls, lower <= k <= upper (N, nu), for a sweep to keep.

    The sweep writes k (N, nu) and clamped (N, nu), True for controls on an active limit; H, L (nu, nu), g (nu,) and
    work (4, nu) are scratch.
    """

    lower: np.ndarray
    upper: np.ndarray
    k: np.ndarray
    clamped: np.ndarray
    H: np.ndarray
    g: np.ndarray
    L: np.ndarray
    work: np.ndarray


def box_around(us: np.ndarray, lower: np.ndarray, upper: np.ndarray) -> Box:
    """The box of changes of the controls us (N, nu) that keep them within lower and upper (N, nu)."""
    N, nu = us.shape
    scratch = np.empty((nu, nu)), np.empty(nu), np.empty((nu, nu)), np.empty((4, nu))
    limits = OUTWARD * (lower - us), OUTWARD * (upper - us)
    return Box(*limits, np.zeros((N, nu)), np.zeros((N, nu), dtype=np.bool_), *scratch)


NO_BOX = tuple(box_around(*np.empty((3, 0, 0))))
"""A box of size zero: no limits."""


@helper
def _solve_free(H, clamped, L, x):
    """x_f <- H_ff^-1 x_f by LDL' of the free rows of the symmetric H, x_c <- 0; False if a pivot is not positive."""
    m = x.shape[0]
    largest = 0.0
    for i in range(m):
        largest = max(largest, abs(H[i, i]))
        for j in range(m):
            L[i, j] = H[i, j]
    for c in range(m):
        if clamped[c]:
            x[c] = 0.0
            continue
        if not (L[c, c] > ROUNDING * largest and L[c, c] < np.inf):
            return False
        for i in range(c + 1, m):
            if not clamped[i]:
                f = L[i, c] / L[c, c]
                for j in range(c + 1, m):
                    L[i, j] -= f * L[c, j]
                x[i] -= f * x[c]
    for c in range(m - 1, -1, -1):
        if not clamped[c]:
            for i in range(c + 1, m):
                x[c] -= L[c, i] * x[i]
            x[c] /= L[c, c]
    return True


@helper
def _gradient(H, g, x, r):
    """r = g + H x; returns g'x + 1/2 x'H x."""
    value = 0.0
    for i in range(x.shape[0]):
        r[i] = g[i]
        for j in range(x.shape[0]):
            r[i] += H[i, j] * x[j]
        value += 0.5 * x[i] * (g[i] + r[i])
    return value


@helper
def _pressed(lower, upper, x, r, i):
    """True if x_i lies on a limit and the gradient pushes it outwards."""
    return (x[i] <= lower[i] and r[i] > 0.0) or (x[i] >= upper[i] and r[i] < 0.0)


@helper
def _hold_outward(lower, upper, x, d, clamped):
    """Clamp free components on a limit that d pushes outwards; True if there were any."""
    found = False
    for i in range(x.shape[0]):
        if not clamped[i] and ((x[i] <= lower[i] and d[i] < 0.0) or (x[i] >= upper[i] and d[i] > 0.0)):
            clamped[i] = True
            found = True
    return found


@helper
def _projected_step(H, g, lower, upper, x, r, d, value, trial, trial_r):
    """Write x + d, projected, to trial; returns its value, True if that is low enough, and True if nothing was
    projected."""
    descent, inside = 0.0, True
    for i in range(x.shape[0]):
        y = x[i] + d[i]
        trial[i] = min(max(y, lower[i]), upper[i])
        inside = inside and trial[i] == y
        descent += r[i] * (trial[i] - x[i])
    new_value = _gradient(H, g, trial, trial_r)
    return new_value, inside or new_value <= value + SUFFICIENT * descent, inside


@helper
def _blocked_step(lower, upper, x, d, clamped, trial):
    """Write trial = x + length d with the largest length that stays in the box; clamp the component that stops it."""
    length, block = np.inf, -1
    for i in range(x.shape[0]):
        if not clamped[i] and d[i] != 0.0:
            limit = ((lower[i] if d[i] < 0.0 else upper[i]) - x[i]) / d[i]
            if limit < length:
                length, block = limit, i
    for i in range(x.shape[0]):
        trial[i] = min(max(x[i] + length * d[i], lower[i]), upper[i])
    trial[block] = lower[block] if d[block] < 0.0 else upper[block]
    clamped[block] = True


@shared_kernel
def box_qp(H, g, lower, upper, x, clamped, L, work):
    """Solve the program; x contains a first guess and becomes the solution, clamped (m,) becomes True on active limits.

    H (m, m) symmetric, g, lower, upper, x (m,); scratch L (m, m), work (4, m).  Returns False if H_ff is not positive
    definite.
    """
    m = x.shape[0]
    r, d, trial, trial_r = work[0], work[1], work[2], work[3]
    for i in range(m):
        x[i] = min(max(x[i], lower[i]), upper[i])
    value = _gradient(H, g, x, r)
    release = True
    while True:
        released = release
        if released:
            for i in range(m):
                clamped[i] = _pressed(lower, upper, x, r, i)
        while True:
            for i in range(m):
                d[i] = -r[i]
            if not _solve_free(H, clamped, L, d):
                return False
            if not _hold_outward(lower, upper, x, d, clamped):
                break
        new_value, release, inside = _projected_step(H, g, lower, upper, x, r, d, value, trial, trial_r)
        if not release:
            _blocked_step(lower, upper, x, d, clamped, trial)
            new_value = _gradient(H, g, trial, trial_r)
        falls = new_value < value  # else the remaining decrease is below rounding
        if not falls and not release:
            return True
        value, done = new_value, inside
        for i in range(m):
            x[i], r[i] = trial[i], trial_r[i]
            done = done and (not clamped[i] or _pressed(lower, upper, x, r, i) or r[i] == 0.0)
        if done or (released and not falls):
            return True


class SweepShape(NamedTuple):
    """Numbers of states and controls, and of the rows of fx and fu that follow from the last ones (`action_value`):
    `derived` rows after `leading` ones."""

    ndx: int
    nu: int
    leading: int
    derived: int


class SweepScratch(NamedTuple):
    """Matrices with rows padded to whole vectors, and the columns p, z; m = ndx - derived."""

    M: Matrix  # (m, m)
    T: Matrix  # (m, ndx)
    G: Matrix  # (m, m)
    A: Matrix  # (m, ndx)
    S: Matrix  # (ndx, ndx), the upper triangle
    Qux: Matrix  # (2 nu, ndx), with room for K below
    Z: Matrix  # (2 nu, ndx), with room for -mu K below
    Qx: Matrix  # (1, ndx)
    B: Matrix  # (m, nu)
    MB: Matrix  # (m, nu)
    Quu: Matrix  # (nu, nu)
    F: Matrix  # (nu, nu)
    Qu: Matrix  # (1, nu)
    p: Matrix  # (m, 1)
    z: Matrix  # (nu, 1)


def scratch_size(ndx: int, nu: int) -> int:
    """Workspace size that `slice_scratch` needs at most, in numbers."""
    sx, su = -(-ndx // LANES) * LANES, -(-nu // LANES) * LANES
    return 8 + (5 * ndx + 4 * nu + 1) * sx + (2 * ndx + 2 * nu + 1) * su + ndx + nu


@helper
def slice_scratch(ws, shape):
    """The scratch matrices as slices of the workspace ws, from its first full cache line on.

    The matrices after M and G are written later than these: last rows of M and G may extend into them."""
    ndx, nu, m = shape.ndx, shape.nu, shape.ndx - shape.derived
    sm, sx, su = padded(m), padded(ndx), padded(nu)
    start = matrix(ws, 0, 1).address
    M = Matrix(start + (-start) % 64, sm)
    T = Matrix(submatrix(M, m, 0).address, sx)
    G = Matrix(submatrix(T, m, 0).address, sm)
    A = Matrix(submatrix(G, m, 0).address, sx)
    S = submatrix(A, m, 0)
    Qux = submatrix(S, ndx, 0)
    Z = submatrix(Qux, 2 * nu, 0)
    Qx = submatrix(Z, 2 * nu, 0)
    B = Matrix(submatrix(Qx, 1, 0).address, su)
    MB = submatrix(B, m, 0)
    Quu = submatrix(MB, m, 0)
    F = submatrix(Quu, nu, 0)
    Qu = submatrix(F, nu, 0)
    p = Matrix(submatrix(Qu, 1, 0).address, 1)
    return SweepScratch(M, T, G, A, S, Qux, Z, Qx, B, MB, Quu, F, Qu, p, submatrix(p, m, 0))


# --------------------------------------------------------------------------------------------
# The action value of one knot, from the value function V', v' of the next: the first of the sweep's three parts.
#
#     Qx  = lx + fx'v'             Qu  = lu + fu'v'                                           [Tassa 2012, eq. 5]
#     Qxx = lxx + fx'V'fx          Qux = lux + fu'V'fx         Quu = luu + fu'V'fu
#
# with an inner matrix M, an inner gradient p and left factors A (m, ndx), B (m, nu):
#
#     dense                 M = V'                                        p = v'            A = fx       B = fu
#     semi-implicit Euler   M = h^2 V'qq + h (V'qv + V'vq) + V'vv         p = h v'q + v'v   A = fx[n:]   B = fu[n:]
#
# The second line uses fx = [[I, 0], [0, 0]] + [hI; I] A and fu = [hI; I] B, with G = h V'qq + V'vq left over (else 0):
#
#     T = M A + [G 0]       Quu = luu + B'M B     Qux = lux + B'T     Qu = lu + B'p
#     Qx = lx + A'p + [v'q; 0]                    Qxx = lxx + A'T + [[V'qq, 0], [0, 0]] + [G 0]'A
#
# Where it holds from configuration row b on, as behind a floating base, A is fx[:b] on top of fx[n:], and B alike.
# With v and q the rows and columns from b on and e those before, M and G have the blocks
#
#     M = [V'ee, V'e(n:) + h [0 V'eq]; ., h^2 V'qq + h (V'qv + V'vq) + V'vv]      G = [V'eq; V'(n:n+b)q; h V'qq + V'vq]
#
# and identities act on q alone.  The dense case has no such row.


class StateHessian(NamedTuple):
    """Qxx as an unevaluated sum, which V then adds up at once: S + A'T + G'A in rows b to n, in all others lxx + A'T,
    of m rows of A, T and G; T and S = lxx + V'qq lie in the scratch."""

    lxx: Matrix
    A: Matrix
    G: Matrix
    m: int
    b: int
    n: int


@helper
def action_value(shared, t, shape, mu, h, accelerations, e, result, s):
    """Write Qx, Qu, Qux and Quu + mu I of knot t into the scratch, from the expansion e and V, v of knot t + 1 in the
    result.

    Returns Qxx."""
    ndx, nu, b, n = shape.ndx, shape.nu, shape.leading, shape.leading + shape.derived
    m = ndx - shape.derived
    V, v = matrix(result.Vxx, (t + 1) * ndx * ndx, ndx), matrix(result.Vx, (t + 1) * ndx, ndx)
    lx, lu, lxx = matrix(e.lx, t * ndx, ndx), matrix(e.lu, t * nu, nu), matrix(e.lxx, t * ndx * ndx, ndx)
    lux, luu = matrix(e.lux, t * nu * ndx, ndx), matrix(e.luu, t * nu * nu, nu)
    M, G, p, zero = V, Matrix(V.address, 0), Matrix(v.address, 1), Matrix(V.address, 0)
    if shape.derived > 0:
        M, G, p = s.M, s.G, s.p
        inner_matrix(shape, h, V, v, M, G, p)
        add_identity(b, n, ndx, V, lxx, s.S)
        if accelerations:
            of_accelerations(n, h, v, lx, lu, lxx, lux, luu, s)
            add_diagonal(nu, mu, s.Quu)
            return StateHessian(lxx, G, G, 0, 0, ndx)
    fx, fu = matrix(e.fx, t * ndx * ndx, ndx), matrix(e.fu, t * ndx * nu, nu)
    A, B = submatrix(fx, n, 0), submatrix(fu, n, 0)
    if b > 0:
        gather(b, n, m, ndx, fx, s.A)
        gather(b, n, m, nu, fu, s.B)
        A, B = s.A, s.B
    product(shared, False, 0, m, ndx, s.T, G, (Term(M, A, m),))
    product(shared, False, 0, m, nu, s.MB, zero, (Term(M, B, m),))
    product(shared, False, 0, nu, nu, s.Quu, luu, (Term(B, s.MB, m),))
    add_diagonal(nu, mu, s.Quu)
    product(shared, False, 0, nu, ndx, s.Qux, lux, (Term(B, s.T, m),))
    row_product(0, 0, nu, s.Qu, lu, (Term(p, B, m),))
    row_product(0, 0, ndx, s.Qx, lx, (Term(p, A, m),))
    for j in range(b, n, LANES):
        store_part(s.Qx, 0, j, LANES, load_part(s.Qx, 0, j, LANES) + load_part(v, 0, j, n - j))
    return StateHessian(lxx, A, G, m, b, n)


@helper
def add_diagonal(nu, mu, Quu):
    """Add mu I to Quu, long before vectors that contain these entries are read, since a load just after the store would
    stall."""
    if mu > 0.0:
        for i in range(nu):
            set_entry(Quu, i, i, entry(Quu, i, i) + mu)


@helper
def gather(b, n, m, width, source, target):
    """Copy the m rows of A, or B: the first b, and those from n on."""
    for i in range(m):
        row = i if i < b else n + i - b
        for j in range(0, width, LANES):
            store_part(target, i, j, LANES, load_part(source, row, j, width - j))


@helper
def inner_matrix(shape, h, V, v, M, G, p):
    """Compute M, G and p.  Row i of them is row i of V', or row n + i - b plus h times its derived row."""
    b, c, n, m = shape.leading, shape.derived, shape.leading + shape.derived, shape.ndx - shape.derived
    for i in range(m):
        source = i if i < b else n + i - b
        one, weight, derived = (0.0, 0.0, source) if i < 2 * b else (1.0, h, i - b)
        for j in range(0, b, LANES):
            store_part(G, i, j, LANES, load_part(V, source, j, 0))  # all entries masked: zeros
            for column, at in (0, 0), (n, b):
                row = fma(weight, load_part(V, derived, column + j, b - j), load_part(V, source, column + j, b - j))
                store_part(M, i, at + j, b - j, row)
        for j in range(0, padded(m) - b, LANES):  # whole vectors, into the next row or the next matrix (see `split`)
            qq, vq = load_part(V, derived, b + j, c - j), load_part(V, source, b + j, c - j)
            mixed = fma(one, load_part(V, derived, n + b + j, c - j), vq)
            store_part(G, i, b + j, LANES, fma(weight, qq, vq))
            vv = load_part(V, source, n + b + j, c - j)
            store_part(M, i, 2 * b + j, LANES, fma(h, fma(weight, qq, mixed), vv))
        set_entry(p, i, 0, fma(weight, entry(v, 0, derived), entry(v, 0, source)))


@helper
def add_identity(b, n, ndx, V, lxx, S):
    """Add rows b to n of S = lxx + V'qq, the upper triangle."""
    for i in range(b, n):
        for j in range(b // LANES * LANES, ndx, LANES):
            store_part(S, i, j, LANES, load_part(lxx, i, j, ndx - j) + load_part(V, i, j, n - j))


@helper
def of_accelerations(n, h, v, lx, lu, lxx, lux, luu, s):
    """The action value where accelerations are the controls: fx[n:] = [0 I] and fu[n:] = h I, so that T = [G M],

    Quu = luu + h^2 M, Qux = lux + h T, Qu = lu + h p, Qx = lx + [v'q; p] and Qxx = S = lxx + [[V'qq, G'], [G, M]], of
    which lxx + V'qq is in place."""
    for i in range(n):
        for j in range(0, n, LANES):
            m = load_part(s.M, i, j, n - j)
            store_part(s.Quu, i, j, LANES, fma(h * h, m, load_part(luu, i, j, n - j)))
        for j in range(n):
            set_entry(s.Qux, i, j, fma(h, entry(s.G, i, j), entry(lux, i, j)))
            set_entry(s.Qux, i, n + j, fma(h, entry(s.M, i, j), entry(lux, i, n + j)))
            set_entry(s.S, i, n + j, entry(s.S, i, n + j) + entry(s.G, j, i))
            set_entry(s.S, n + i, n + j, entry(lxx, n + i, n + j) + entry(s.M, i, j))
        set_entry(s.Qu, 0, i, fma(h, entry(s.p, i, 0), entry(lu, 0, i)))
        set_entry(s.Qx, 0, i, entry(lx, 0, i) + entry(v, 0, i))
        set_entry(s.Qx, 0, n + i, entry(lx, 0, n + i) + entry(s.p, i, 0))


# --------------------------------------------------------------------------------------------
# The gains of one knot, from its action value: the second of the sweep's three parts.
#
#     k = -(Quu + mu I)^-1 Qu      K = -(Quu + mu I)^-1 Qux                                   [Tassa 2012, eq. 10]
#
# by L D L' = Quu + mu I, Y = L^-1 Qux, y = L^-1 Qu, Z = -D^-1 Y, z = -D^-1 y, K = L^-T Z, k = L^-T z.  With control
# limits a box QP finds k and the clamped controls, whose rows of K are zero [Tassa 2014].


@helper
def gains(t, shape, mu, box, s, result):
    """Write k and K of knot t into the result, K also below Qux in the scratch, where Y, Z and Qx + Z'y remain for V.

    Returns True if Quu + mu I is positive definite, k'Qu and k'Quu k.
    """
    ndx, nu = shape.ndx, shape.nu
    k = matrix(result.k, t * nu, 1)
    limited, linear, quadratic = False, 0.0, 0.0
    if box is not None:
        limits = Box(*box)
        limited = len(limits.lower) > 0
        if limited:
            good, linear, quadratic = clamp_controls(t, ndx, nu, mu, limits, s)
            if not good:
                return False, 0.0, 0.0
    good, change = factorize(ndx, nu, s)
    if not good:
        return False, 0.0, 0.0
    back_substitute(ndx, nu, s, k, matrix(result.K, t * nu * ndx, ndx))
    if box is not None:
        if limited:
            for c in range(nu):
                if limits.clamped[t, c]:
                    set_entry(k, c, 0, limits.k[t, c])  # exactly, without rounding
            return True, linear, quadratic
    quadratic = -change
    if mu > 0.0:
        for i in range(nu):
            quadratic -= mu * entry(k, i, 0) * entry(k, i, 0)
    return True, change, quadratic


@helper
def clamp_controls(t, ndx, nu, mu, box, s):
    """Solve the box QP of knot t; then rewrite Quu, Qux, Qu, Qx so that the stages that follow keep clamped controls.

    With c clamped to k_c and f free:  Qx += Qux_c'k_c,  Qu_f += Quu_fc k_c,  Qu_c = -Quu_cc k_c,  Qux_c = 0, and Quu
    loses its rows and columns c but for the diagonal, which is any positive number: its sign does not matter for a
    control that does not move.  Returns True if Quu_ff is positive definite, k'Qu, k'Quu k."""
    H, g, x, clamped = box.H, box.g, box.k[t], box.clamped[t]
    for i in range(nu):
        g[i], x[i] = entry(s.Qu, 0, i), 0.0
        for j in range(i, nu):
            H[i, j] = entry(s.Quu, i, j)
            H[j, i] = H[i, j]
    good = box_qp(H, g, box.lower[t], box.upper[t], x, clamped, box.L, box.work)
    linear, quadratic, largest = 0.0, 0.0, 0.0
    for i in range(nu):
        largest = max(largest, abs(H[i, i]))
        linear += x[i] * g[i]
        quadratic -= mu * x[i] * x[i]
        for j in range(nu):
            quadratic += x[i] * H[i, j] * x[j]
    for c in range(nu):
        if clamped[c]:
            for j in range(0, ndx, LANES):
                store_part(s.Qx, 0, j, LANES, fma(x[c], load_part(s.Qux, c, j, LANES), load_part(s.Qx, 0, j, LANES)))
                store_part(s.Qux, c, j, LANES, 0.0 * load_part(s.Qux, c, j, LANES))
            for i in range(nu):
                if not clamped[i]:
                    set_entry(s.Qu, 0, i, fma(H[i, c], x[c], entry(s.Qu, 0, i)))
                if i != c:
                    set_entry(s.Quu, i, c, 0.0)
                    set_entry(s.Quu, c, i, 0.0)
            diagonal = H[c, c] if H[c, c] > ROUNDING * largest else (largest if largest > 0.0 else 1.0)
            set_entry(s.Quu, c, c, diagonal)
            set_entry(s.Qu, 0, c, -diagonal * x[c])
    return good, linear, quadratic


@helper
def factorize(ndx, nu, s):
    """Factorize in place, row by row: Quu + mu I = D L', Qux = Y, Qu = y, Qx = Qx + Z'y; besides F = -L', Z and z.

    Returns True if all pivots are positive, and z'y = k'Qu.
    """
    change, largest = 0.0, 0.0
    for c in range(nu):
        largest = max(largest, abs(entry(s.Quu, c, c)))
    for c in range(nu):
        row_product(c, c // LANES * LANES, nu, s.Quu, s.Quu, (Term(s.F, s.Quu, c),))
        row_product(c, 0, ndx, s.Qux, s.Qux, (Term(s.F, s.Qux, c),))
        pivot = entry(s.Quu, c, c)
        if not (pivot > ROUNDING * largest and pivot < np.inf):
            return False, change
        scale = -1.0 / pivot
        y = entry(s.Qu, 0, c)
        z = scale * y
        change += z * y
        set_entry(s.z, c, 0, z)
        for j in range(c // LANES * LANES, nu, LANES):
            row = load_part(s.Quu, c, j, LANES)
            store_part(s.F, c, j, LANES, scale * row)
            store_part(s.Qu, 0, j, LANES, fma(z, row, load_part(s.Qu, 0, j, LANES)))
        for j in range(0, ndx, LANES):
            row = load_part(s.Qux, c, j, LANES)
            store_part(s.Z, c, j, LANES, scale * row)
            store_part(s.Qx, 0, j, LANES, fma(z, row, load_part(s.Qx, 0, j, LANES)))
    return True, change


@helper
def back_substitute(ndx, nu, s, k, K):
    """Compute k = L^-T z and K = L^-T Z, last row first, K also below Qux."""
    for c in range(nu - 1, -1, -1):
        x = entry(s.z, c, 0)
        for i in range(nu - 1, c, -1):
            x = fma(entry(s.F, c, i), entry(k, i, 0), x)
        set_entry(k, c, 0, x)
        coefficients = Matrix(submatrix(s.F, c, c + 1).address, 1)
        row, below = submatrix(s.Qux, nu + c, 0), submatrix(s.Qux, nu + c + 1, 0)
        row_product(0, 0, ndx, row, submatrix(s.Z, c, 0), (Term(coefficients, below, nu - 1 - c),))
        copy_rows(1, ndx, submatrix(K, c, 0), row)


# --------------------------------------------------------------------------------------------
# The value function of one knot under its gains: the third of the sweep's three parts.
#
#     Vxx = Qxx + Z'Y - mu K'K     Vx = Qx + Z'y - mu K'k                                     (Y, y, Z of `gains`)
#
# which equals Qxx + K'Quu K + K'Qux + Qux'K and Qx + K'Quu k + K'Qu + Qux'k [Tassa 2012, eq. 11] without their
# cancellations.  The upper triangle is computed, then mirrored.  With gaps between the states and the dynamics, Vx at
# each knot is that at the end of its gap, Vx + Vxx gap [Mastalli 2020].


@helper
def value_function(shared, t, shape, mu, gaps, Qxx, s, result):
    """Write Vx, Vxx of knot t into the result, from Qxx and the scratch that `gains` left."""
    ndx, depth = shape.ndx, shape.nu
    V, v = matrix(result.Vxx, t * ndx * ndx, ndx), matrix(result.Vx, t * ndx, ndx)
    if mu > 0.0:
        subtract_penalty(ndx, shape.nu, mu, matrix(result.k, t * shape.nu, 1), s)
        depth = 2 * shape.nu
    lxx, A, G, m, b, n = Qxx
    quadratic, policy = Term(A, s.T, m), Term(s.Z, s.Qux, depth)
    product(shared, True, 0, b, ndx, V, lxx, (quadratic, policy))
    product(shared, True, b, n, ndx, V, s.S, (quadratic, Term(G, A, m), policy))
    product(shared, True, n, ndx, ndx, V, lxx, (quadratic, policy))
    copy_rows(1, ndx, v, s.Qx)
    finish_value(t, ndx, gaps, V, v)


@helper
def final_value(ndx, gaps, e, result):
    """Write Vx, Vxx of the last knot, those of the final cost."""
    t = len(e.lx) - 1
    V, v = matrix(result.Vxx, t * ndx * ndx, ndx), matrix(result.Vx, t * ndx, ndx)
    copy_rows(ndx, ndx, V, matrix(e.lxx, t * ndx * ndx, ndx))
    copy_rows(1, ndx, v, matrix(e.lx, t * ndx, ndx))
    finish_value(t, ndx, gaps, V, v)


@helper
def finish_value(t, ndx, gaps, V, v):
    """Copy the upper triangle of V to the lower one; move v to the end of the gap, if there are gaps."""
    for i in range(ndx):
        for j in range(i):
            set_entry(V, i, j, entry(V, j, i))
    if len(gaps) > 0:
        for i in range(ndx):
            x = entry(v, 0, i)
            for j in range(ndx):
                x = fma(entry(V, i, j), gaps[t, j], x)
            set_entry(v, 0, i, x)


@helper
def subtract_penalty(ndx, nu, mu, k, s):
    """Write -mu K below Z, for the product with K below Y; Qx -= mu K'k."""
    K, muK = submatrix(s.Qux, nu, 0), submatrix(s.Z, nu, 0)
    for c in range(nu):
        for j in range(0, ndx, LANES):
            row = -mu * load_part(K, c, j, LANES)
            store_part(muK, c, j, LANES, row)
            store_part(s.Qx, 0, j, LANES, fma(entry(k, c, 0), row, load_part(s.Qx, 0, j, LANES)))


@helper
def finite_value(ndx, result):
    """True if Vx, Vxx of the first knot are finite: no later knot would detect it."""
    V, v = matrix(result.Vxx, 0, ndx), matrix(result.Vx, 0, ndx)
    for i in range(ndx):
        if not abs(entry(v, 0, i)) < np.inf:
            return False
        for j in range(ndx):
            if not abs(entry(V, i, j)) < np.inf:
                return False
    return True


COMMON_SIZES = {(12, 6), (14, 7)}
"""(ndx, nu) of arms with six and seven joints: these sizes are compile-time constants by default, a fifth to a third
faster for a few seconds of compilation per size.  All others share a kernel that reads them from the arrays, so that a
new robot compiles nothing."""
NO_GAPS = np.empty((0, 0))


class SweepResult(NamedTuple):
    """Gains k (N, nu), K (N, nu, ndx); value function Vx (N+1, ndx), Vxx (N+1, ndx, ndx); expected change d1, d2.

    If not ok, Quu + mu I was not positive definite, or a number not finite, at failed_knot (else -1), and the arrays
    are zero.  `finite` is False if that is because an input of the sweep was not finite.
    """

    k: np.ndarray
    K: np.ndarray
    Vx: np.ndarray
    Vxx: np.ndarray
    d1: float
    d2: float
    ok: bool
    failed_knot: int = -1
    finite: bool = True


def result_of(arrays: Sequence[np.ndarray], failed: int, d1: float, d2: float) -> SweepResult:
    """The result with arrays k, K, Vx, Vxx, which are set to zero if a sweep failed at a knot, at least 0."""
    if failed >= 0:
        for array in arrays:
            array[...] = 0.0
    k, K, Vx, Vxx = arrays
    return SweepResult(k, K, Vx, Vxx, d1, d2, failed < 0, failed)


class _Arrays(NamedTuple):
    """The arrays of a `SweepResult`."""

    k: np.ndarray
    K: np.ndarray
    Vx: np.ndarray
    Vxx: np.ndarray


@cache
def _compiled(constant_ndx: int = 0, constant_nu: int = 0, constant_derived: int = 0):
    """The sweep compiled for these sizes, without leading rows, or for any sizes where these are 0; with box and
    tensors None, without code for them."""
    shared = None if constant_ndx > 0 else ()

    @driver
    def sweep(mu, shape, seconds, accelerations, e, tensors, gaps, box, result, ws):
        if constant_ndx > 0:
            shape = np.int64(constant_ndx), np.int64(constant_nu), np.int64(0), np.int64(constant_derived)
        shape, e, result = SweepShape(*shape), Expansion(*e), _Arrays(*result)
        s = slice_scratch(ws, shape)
        final_value(shape.ndx, gaps, e, result)
        d1, d2 = 0.0, 0.0
        for t in range(len(e.fx) - 1, -1, -1):
            if tensors is not None:
                add_contraction(t, shape.ndx, result.Vx, tensors, (e.lxx, e.lux, e.luu))
            Qxx = action_value(shared, t, shape, mu, seconds[t], accelerations, e, result, s)
            good, linear, quadratic = gains(t, shape, mu, box, s, result)
            if not good:
                return t, 0.0, 0.0
            value_function(shared, t, shape, mu, gaps, Qxx, s, result)
            d1, d2 = d1 + linear, d2 + quadratic
        if not finite_value(shape.ndx, result):
            return 0, 0.0, 0.0
        return -1, d1, d2

    return sweep


MU, GAPS = 0, 6
"""Places of arguments in the compiled sweep."""


def sweep_call(
    e: tuple[np.ndarray, ...],
    results: tuple[np.ndarray, ...],
    mu: float,
    semi_implicit_dt: float | np.ndarray,
    gaps: np.ndarray | None,
    box: Box | None,
    leading: int,
    accelerations: bool,
    constant_sizes: bool | None = None,
    tensors: Tensors | None = None,
) -> tuple[Any, ...]:
    """The compiled sweep and its arguments, for those of `sweep`, arrays checked: it returns failed_knot, d1 and d2,
    and writes k, K, Vx, Vxx into the results.  The Hessians of e take up the contracted tensors."""
    knots, ndx, nu = e[1].shape
    if not 0 <= leading < max(1, ndx // 2):
        raise ValueError(f"leading: got {leading}, expected at least 0 and less than ndx / 2 = {ndx // 2}")
    seconds = np.full(knots, semi_implicit_dt, np.float64)
    shape = (ndx, nu, leading, ndx // 2 - leading) if np.count_nonzero(seconds) else (ndx, nu, 0, 0)
    constant = (ndx, nu) in COMMON_SIZES if constant_sizes is None else constant_sizes
    constant = constant and shape[2] == 0 and (shape[3] > 0 or constant_sizes is not None)
    run = _compiled(ndx, nu, shape[3]) if constant else _compiled()
    limits, curvature = box and tuple(box), tensors and tuple(tensors)
    if limits or curvature:  # both, so that one kernel serves for either
        limits, curvature = limits or NO_BOX, curvature or NO_TENSORS
    gaps = NO_GAPS if gaps is None else gaps
    scratch = np.empty(scratch_size(ndx, nu))
    # plain tuples: numba takes a microsecond to recognize a named one
    return run, float(mu), shape, seconds, accelerations, e, curvature, gaps, limits, results, scratch


def empty_gains(N: int, ndx: int, nu: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Zeroed k, K, Vx, Vxx for a sweep to fill."""
    return np.zeros((N, nu)), np.zeros((N, nu, ndx)), np.zeros((N + 1, ndx)), np.zeros((N + 1, ndx, ndx))


def sweep(
    expansion: Sequence[np.ndarray],
    mu: float,
    semi_implicit_dt: float | np.ndarray = 0.0,
    gaps: np.ndarray | None = None,
    box: Box | None = None,
    constant_sizes: bool | None = None,
    accelerations: bool = False,
    leading: int = 0,
    tensors: Tensors | None = None,
) -> SweepResult:
    """Gains and value function of the linear-quadratic problem with N knots, regularized by mu I in Quu.

    Of the symmetric arrays of an `Expansion` only the upper triangles are used.  ``semi_implicit_dt`` = h > 0, or (N,)
    with h >= 0 for every knot, asserts fx[:, :n] = [I 0] + h fx[:, n:] and fu[:, :n] = h fu[:, n:] with n = ndx/2;
    only the lower halves are read then.  ``leading`` = b restricts that assertion to the rows from b < n on; the first
    b rows are read, too.
    ``gaps`` (N + 1, ndx) and ``box`` (a `Box`) are optional.
    ``accelerations`` asserts fx[:, n:] = [0 I] and fu[:, n:] = h I besides; fx and fu are not read then.
    ``constant_sizes`` compiles a kernel for just this ndx and nu (default: for COMMON_SIZES where it is semi-implicit);
    the results agree to rounding.
    ``tensors`` are second derivatives of the dynamics: contracted with the sweep's own Vx', they are added to the
    Hessians of each knot [Tassa 2012, eq. 5c-5e].
    """
    e = _contiguous(expansion)
    if tensors is not None:
        e = *e[:4], *[H.copy() for H in e[4:]]
    results = empty_gains(*e[1].shape)
    run, *arguments = sweep_call(
        e, results, mu, semi_implicit_dt, gaps, box, leading, accelerations, constant_sizes, tensors
    )  # fmt: skip
    result = result_of(results, *run(*arguments))
    return result if result.ok or tensors is None else result._replace(finite=finite(*e))


def _contiguous(e: Sequence[np.ndarray]) -> tuple[np.ndarray, ...]:
    fx, fu, lx, lu, lxx, lux, luu = arrays = tuple([np.ascontiguousarray(a, np.float64) for a in e])
    knots, ndx, nu = fu.shape
    at_knots = fx.shape == (knots, ndx, ndx) and lu.shape == (knots, nu) and lux.shape == (knots, nu, ndx)
    of_states = lx.shape == (knots + 1, ndx) and lxx.shape == (knots + 1, ndx, ndx)
    if not (at_knots and of_states and luu.shape == (knots, nu, nu)):
        raise ValueError(f"shapes do not fit fu {fu.shape}: {[a.shape for a in arrays]}")
    return arrays
