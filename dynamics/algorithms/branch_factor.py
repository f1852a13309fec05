"""The factor of a mass matrix with branch-induced sparsity, and solves with it, in tiles of three rows by four columns.

M = L'D L, L unit lower triangular: with the leaves eliminated first there is no fill-in between branches.  In
place of M the lower triangle then holds D L, the diagonal D^-1, the upper triangle L'.  Degrees of freedom are numbered
depth-first, so those below i are i + 1 ... subtree_end[i] - 1, and M^-1 x takes two sweeps:

    up      x_i <- x_i - sum_{k below i} L_ki x_k                      leaves first                     L^-T x
    down    x_i <- (x_i - sum_{j above i} (D L)_ij x_j) / D_ii         root first                (D L)^-1 L^-T x

Three neighbours on a stretch without branches have the same rows below and above them, and are processed as one tile.
                                                                               [Featherstone 2008, section 6.5]
"""

from dynamics.simd import align_stack, fnma, helper, kernel, load, shared_kernel, splat, store
from dynamics.simd.lane_algebra import (
    four_columns,
    load_columns,
    no_columns,
    scale_columns,
    store_columns,
    store_pair,
    subtract_scaled,
)


# ------------------------------------------------------------------------------------------------ sweeps
@helper
def is_stretch(m, i):
    """True if i, i + 1, i + 2 exist and no branch begins between them."""
    end = m.subtree_end
    return i >= 0 and i + 2 < end.size and end[i] == end[i + 1] and end[i] == end[i + 2]


@kernel
def _up_three(m, n, i, first, last, L, A, B, w, c):
    """Rows i, i + 1, i + 2 of the sweep up; below them only first ... last and the path to `first` are not zero."""
    align_stack(A)
    x0, x1, x2 = load_columns(A, B, i * w, c), load_columns(A, B, (i + 1) * w, c), load_columns(A, B, (i + 2) * w, c)
    o = i * n
    for k in range(max(first, i + 3), min(last, m.subtree_end[i])):
        y = load_columns(A, B, k * w, c)
        x0 = subtract_scaled(x0, load(L, o + k), y)
        x1 = subtract_scaled(x1, load(L, o + n + k), y)
        x2 = subtract_scaled(x2, load(L, o + 2 * n + k), y)
    k = m.dof_parent[first]
    while k >= i + 3:
        y = load_columns(A, B, k * w, c)
        x0 = subtract_scaled(x0, load(L, o + k), y)
        x1 = subtract_scaled(x1, load(L, o + n + k), y)
        x2 = subtract_scaled(x2, load(L, o + 2 * n + k), y)
        k = m.dof_parent[k]
    x1 = subtract_scaled(x1, load(L, o + n + i + 2), x2)
    x0 = subtract_scaled(subtract_scaled(x0, load(L, o + i + 2), x2), load(L, o + i + 1), x1)
    store_columns(A, B, i * w, c, x0)
    store_columns(A, B, (i + 1) * w, c, x1)
    store_columns(A, B, (i + 2) * w, c, x2)


@kernel
def _up_one(m, n, i, first, last, L, A, B, w, c):
    align_stack(A)
    x = load_columns(A, B, i * w, c)
    for k in range(max(first, i + 1), min(last, m.subtree_end[i])):
        x = subtract_scaled(x, load(L, i * n + k), load_columns(A, B, k * w, c))
    k = m.dof_parent[first]
    while k > i:
        x = subtract_scaled(x, load(L, i * n + k), load_columns(A, B, k * w, c))
        k = m.dof_parent[k]
    store_columns(A, B, i * w, c, x)


@helper
def _right_side(A, B, o, c, sign):
    """sign times the columns, or zero for the sign None."""
    if sign is None:
        return no_columns(A)
    return scale_columns(load_columns(A, B, o, c), sign)


@kernel
def _down_three(m, n, i, L, sign, A, B, w, c):
    align_stack(A)
    x0, x1 = _right_side(A, B, i * w, c, sign), _right_side(A, B, (i + 1) * w, c, sign)
    x2 = _right_side(A, B, (i + 2) * w, c, sign)
    o = i * n
    j = m.dof_parent[i]
    while j >= 0:
        y = load_columns(A, B, j * w, c)
        x0 = subtract_scaled(x0, load(L, o + j), y)
        x1 = subtract_scaled(x1, load(L, o + n + j), y)
        x2 = subtract_scaled(x2, load(L, o + 2 * n + j), y)
        j = m.dof_parent[j]
    x0 = scale_columns(x0, load(L, o + i))
    o += n + i
    x1 = scale_columns(subtract_scaled(x1, load(L, o), x0), load(L, o + 1))
    o += n
    x2 = subtract_scaled(subtract_scaled(x2, load(L, o), x0), load(L, o + 1), x1)
    store_columns(A, B, i * w, c, x0)
    store_columns(A, B, (i + 1) * w, c, x1)
    store_columns(A, B, (i + 2) * w, c, scale_columns(x2, load(L, o + 2)))


@kernel
def _down_one(m, n, i, L, sign, A, B, w, c):
    align_stack(A)
    x = _right_side(A, B, i * w, c, sign)
    j = m.dof_parent[i]
    while j >= 0:
        x = subtract_scaled(x, load(L, i * n + j), load_columns(A, B, j * w, c))
        j = m.dof_parent[j]
    store_columns(A, B, i * w, c, scale_columns(x, load(L, i * n + i)))


@kernel
def sweep_up(m, L, first, last, A, B, w, c):
    """x <- L^-T x for the columns c of A and B, rows of length w, by the factor L.

    x must be zero except on the rows first ... last, the subtrees of `first` and perhaps of its successors, and on the
    path from `first` to the root; 0, nv admits all rows.  No other row is read or written."""
    n = m.dof_body.size
    i = last - 1
    while i >= 0:
        if is_stretch(m, i - 2):
            i -= 2
            _up_three(m, n, i, first, last, L, A, B, w, c)
        else:
            _up_one(m, n, i, first, last, L, A, B, w, c)
        i = i - 1 if i > first else m.dof_parent[i]


@kernel
def sweep_down(m, L, sign, A, B, w, c):
    """x <- sign (D L)^-1 x for the columns c of A and B, rows of length w, by the factor L."""
    n = m.dof_body.size
    i = 0
    while i < n:
        if is_stretch(m, i):
            _down_three(m, n, i, L, sign, A, B, w, c)
            i += 3
        else:
            _down_one(m, n, i, L, sign, A, B, w, c)
            i += 1


@kernel
def solve_columns(m, L, sign, first, last, A, B, w, c):
    """x <- sign M^-1 x for the columns c of A and B; arguments as `sweep_up`."""
    sweep_up(m, L, first, last, A, B, w, c)
    sweep_down(m, L, sign, A, B, w, c)


@kernel
def solve_factored(m, L, X, columns, sign):
    """X <- sign M^-1 X for X (nv columns), row-major, by the factor L."""
    for c in range(0, columns, 4):
        solve_columns(m, L, sign, 0, m.dof_body.size, X, X, columns, four_columns(c, columns))


# ------------------------------------------------------------------------------------------------ factor
@kernel
def _eliminate_three(m, n, i, M):
    """Eliminate the diagonal block of the rows i, i + 1, i + 2."""
    align_stack(M)
    o = i * n + i
    d00, d10, d11 = load(M, o), load(M, o + n), load(M, o + n + 1)
    d20, d21, d22 = load(M, o + 2 * n), load(M, o + 2 * n + 1), load(M, o + 2 * n + 2)
    for k in range(i + 3, m.subtree_end[i]):
        y0, y1, y2 = load(M, k * n + i), load(M, k * n + i + 1), load(M, k * n + i + 2)
        e1, e2 = load(M, i * n + n + k), load(M, i * n + 2 * n + k)
        d00, d10, d11 = fnma(load(M, i * n + k), y0, d00), fnma(e1, y0, d10), fnma(e1, y1, d11)
        d20, d21, d22 = fnma(e2, y0, d20), fnma(e2, y1, d21), fnma(e2, y2, d22)
    r2 = 1.0 / d22
    e20, e21 = d20 * r2, d21 * r2
    d10, d11, d00 = fnma(e21, d20, d10), fnma(e21, d21, d11), fnma(e20, d20, d00)
    r1 = 1.0 / d11
    e10 = d10 * r1
    store(M, o, 1.0 / fnma(e10, d10, d00))
    store(M, o + n, d10)
    store(M, o + n + 1, r1)
    store(M, o + 2 * n, d20)
    store(M, o + 2 * n + 1, d21)
    store(M, o + 2 * n + 2, r2)
    store(M, o + 1, e10)
    store(M, o + 2, e20)
    store(M, o + n + 2, e21)


@kernel
def _eliminate_one(m, n, i, M):
    align_stack(M)
    d = load(M, i * n + i)
    for k in range(i + 1, m.subtree_end[i]):
        d = fnma(load(M, i * n + k), load(M, k * n + i), d)
    store(M, i * n + i, 1.0 / d)


@helper
def _before(m, j):
    """The dof before j on its path to the root, or j if it is the root."""
    return m.dof_parent[j] if m.dof_parent[j] >= 0 else j


@shared_kernel
def factorize(m, M):
    """M = L'D L in place: D L below the diagonal, D^-1 on it, L' above; entries between branches are not touched."""
    align_stack(M)
    n = m.dof_body.size
    i = n - 1
    while i >= 0:
        count = 3 if is_stretch(m, i - 2) else 1
        i -= count - 1
        if count == 3:
            _eliminate_three(m, n, i, M)
        else:
            _eliminate_one(m, n, i, M)
        j = m.dof_parent[i]
        while j >= 0:
            k = _before(m, j)
            l = _before(m, k)
            c = (j, k, l, _before(m, l))
            if count == 3:
                _up_three(m, n, i, 0, n, M, M, M, n, c)
            else:
                _up_one(m, n, i, 0, n, M, M, M, n, c)
            for r in range(i, i + count):
                scale = load(M, r * n + r)
                for t in c:
                    store(M, t * n + r, load(M, r * n + t) * scale)
            j = m.dof_parent[c[3]]
        i -= 1


# ------------------------------------------------------------------------------------------------ inverse
@kernel
def _invert_three(m, n, i, L, X):
    """Diagonal block of the rows i, i + 1, i + 2 of X = M^-1, given these rows left of it."""
    align_stack(X)
    zero, one = splat(X, 0.0), splat(X, 1.0)
    x00, x10, x11, x20, x21, x22 = one, zero, one, zero, zero, one
    o = i * n
    j = m.dof_parent[i]
    while j >= 0:
        e0, e1, e2 = load(L, o + j), load(L, o + n + j), load(L, o + 2 * n + j)
        y0, y1, y2 = load(X, o + j), load(X, o + n + j), load(X, o + 2 * n + j)
        x00, x10, x11 = fnma(e0, y0, x00), fnma(e1, y0, x10), fnma(e1, y1, x11)
        x20, x21, x22 = fnma(e2, y0, x20), fnma(e2, y1, x21), fnma(e2, y2, x22)
        j = m.dof_parent[j]
    o += i
    d10, d20, d21 = load(L, o + n), load(L, o + 2 * n), load(L, o + 2 * n + 1)
    x00 *= load(L, o)
    x10 = fnma(d10, x00, x10) * load(L, o + n + 1)
    x11 = fnma(d10, x10, x11) * load(L, o + n + 1)
    x20 = fnma(d21, x10, fnma(d20, x00, x20)) * load(L, o + 2 * n + 2)
    x21 = fnma(d21, x11, fnma(d20, x10, x21)) * load(L, o + 2 * n + 2)
    x22 = fnma(d21, x21, fnma(d20, x20, x22)) * load(L, o + 2 * n + 2)
    store_pair(X, n, i, i, x00)
    store_pair(X, n, i + 1, i, x10)
    store_pair(X, n, i + 1, i + 1, x11)
    store_pair(X, n, i + 2, i, x20)
    store_pair(X, n, i + 2, i + 1, x21)
    store_pair(X, n, i + 2, i + 2, x22)


@kernel
def _invert_one(m, n, i, L, X):
    align_stack(X)
    x = splat(X, 1.0)
    j = m.dof_parent[i]
    while j >= 0:
        x = fnma(load(L, i * n + j), load(X, i * n + j), x)
        j = m.dof_parent[j]
    store(X, i * n + i, x * load(L, i * n + i))


@shared_kernel
def invert_factored(m, L, X):
    """X = M^-1 (nv nv) by the factor L.

    L^-T is upper triangular, so the sweep up has zeros below the diagonal:  X_ic = -sum_j (D L)_ij X_jc / D_ii, where
    X_jc = X_cj if j < c.  This costs a third of one product with M^-1."""
    align_stack(X)
    n = m.dof_body.size
    i = 0
    while i < n:
        count = 3 if is_stretch(m, i) else 1
        for k in range(0, i, 4):
            c = four_columns(k, i)
            if count == 3:
                _down_three(m, n, i, L, None, X, X, n, c)
            else:
                _down_one(m, n, i, L, None, X, X, n, c)
            for r in range(i, i + count):
                for t in c:
                    store(X, t * n + r, load(X, r * n + t))
        if count == 3:
            _invert_three(m, n, i, L, X)
        else:
            _invert_one(m, n, i, L, X)
        i += count
