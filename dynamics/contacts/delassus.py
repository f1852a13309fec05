"""The matrix S = J M^-1 J' of contacts: how their points yield to forces                        [Delassus 1917]

With M = L'D L of `branch_factor` and Y = L^-T J', which is as sparse as J',

    S = Y' D^-1 Y + damping 1

and S = C E C', C unit lower triangular: the lower triangle then holds C E, the diagonal E^-1, the upper triangle C'.

Contacts may be redundant: rows of J that depend on those before them leave a pivot of zero.  Such a row gets E^-1 = 0,
which amounts to leaving it out: it carries no force, and its point is held by the rows that it depends on.  A pivot
counts as zero below `REDUNDANT` times the entry of S that it started from.
"""

from dynamics.algorithms.branch_factor import sweep_up
from dynamics.algorithms.frames import last_dof
from dynamics.contacts.contact_arrays import ContactArrays
from dynamics.contacts.loop_arrays import LoopArrays
from dynamics.lane_algebra import four_columns, load_columns, scale_columns, store_columns, subtract_scaled
from dynamics.simd import align_stack, fnma, helper, kernel, load, select_less, splat, store
from dynamics.simd.by_type import by_type
from dynamics.spatial import add_scaled3, load3, scale3, store3

REDUNDANT = 1e-10
NEGLIGIBLE = 1e-24
"""What counts as zero in the end: this times the largest entry, the square of rounding in a row that is none."""


@kernel
def _half_solve_paths(m, contacts, L, Y):
    width = 3 * contacts.blocks
    for c in range(contacts.body.size):
        k = last_dof(m, contacts.body[c])
        sweep_up(m, L, k, k + 1, Y, Y, width, (3 * c, 3 * c + 1, 3 * c + 2, 3 * c + 2))


@kernel
def _half_solve_all(m, contacts, L, Y):
    width = 3 * contacts.blocks
    for c in range(0, width, 4):
        sweep_up(m, L, 0, m.dof_body.size, Y, Y, width, four_columns(c, width))


half_solve = by_type("contacts", {ContactArrays: _half_solve_paths, LoopArrays: _half_solve_all})
"""Y <- L^-T Y for Y = J' (nv 3B), (m, contacts, L, Y); of contacts only the rows on their paths are touched."""


@helper
def _common_dof(m, i, j):
    """Lowest dof on both paths from bodies i and j, -1 if there is none."""
    k, l = last_dof(m, i), last_dof(m, j)
    while k != l:
        if k > l:
            k = m.dof_parent[k]
        else:
            l = m.dof_parent[l]
    return k


@helper
def _lowest_common(m, contacts, c, d):
    return _common_dof(m, contacts.body[c], contacts.body[d])


@helper
def _next_on_path(m, contacts, k):
    return m.dof_parent[k]


@helper
def _lowest_of_all(m, contacts, c, d):
    return m.dof_body.size - 1


@helper
def _next_of_all(m, contacts, k):
    return k - 1


_first = by_type("contacts", {ContactArrays: _lowest_common, LoopArrays: _lowest_of_all})
_next = by_type("contacts", {ContactArrays: _next_on_path, LoopArrays: _next_of_all})


@kernel
def _no_idle_rows(contacts, width, S):
    return


@kernel
def _ones_on_diagonal(contacts, width, S):
    for i in range(contacts.idle.size):
        r = contacts.idle[i]
        store(S, r * width + r, load(S, r * width + r) + 1.0)


_hold_idle_rows = by_type("contacts", {ContactArrays: _no_idle_rows, LoopArrays: _ones_on_diagonal})


@kernel
def delassus_matrix(m, contacts, L, Y, S):
    """Lower triangle, in blocks of three, of S (3B 3B)."""
    align_stack(S)
    zero = splat(S, 0.0)
    width = 3 * contacts.blocks
    for c in range(contacts.blocks):
        for d in range(c + 1):
            s0 = s1 = s2 = (zero, zero, zero)
            k = _first(m, contacts, c, d)
            while k >= 0:
                y = load3(Y, k * width + 3 * c)
                z = scale3(load3(Y, k * width + 3 * d), load(L, k * m.dof_body.size + k))
                s0, s1, s2 = add_scaled3(s0, y[0], z), add_scaled3(s1, y[1], z), add_scaled3(s2, y[2], z)
                k = _next(m, contacts, k)
            o = 3 * c * width + 3 * d
            store3(S, o, s0)
            store3(S, o + width, s1)
            store3(S, o + 2 * width, s2)
        for r in range(3 * c, 3 * c + 3):
            store(S, r * width + r, load(S, r * width + r) + contacts.damping)
    _hold_idle_rows(contacts, width, S)


@kernel
def factorize_delassus(size, S, diagonal, report):
    """S (size size) = C E C' in place; scratch diagonal (size).

    report: smallest pivot, relative to its entry of S, and number of rows left out."""
    align_stack(S)
    zero, one = splat(S, 0.0), splat(S, 1.0)
    smallest, dropped, largest = one, zero, zero
    for i in range(size):
        store(diagonal, i, load(S, i * size + i))
        largest = select_less(largest, load(diagonal, i), load(diagonal, i), largest)
    for k in range(size):
        pivot, start = load(S, k * size + k), load(diagonal, k)
        bound = start * REDUNDANT + largest * NEGLIGIBLE
        inverse = select_less(bound, pivot, 1.0 / pivot, zero)
        dropped = dropped + select_less(bound, pivot, zero, one)
        relative = select_less(zero, start, pivot / start, zero)
        smallest = select_less(relative, smallest, relative, smallest)
        store(S, k * size + k, inverse)
        for j in range(k + 1, size):
            store(S, k * size + j, load(S, j * size + k) * inverse)
        for i in range(k + 1, size):
            x = load(S, i * size + k)
            for j in range(k + 1, i + 1):
                store(S, i * size + j, fnma(x, load(S, k * size + j), load(S, i * size + j)))
    store(report, 0, smallest)
    store(report, 1, dropped)


@kernel
def solve_delassus(size, S, x):
    """x <- S^-1 x by the factor, x (size); zero for the rows left out."""
    align_stack(S)
    for i in range(size):
        e = load(x, i)
        for k in range(i):
            e = fnma(load(S, k * size + i), load(x, k), e)
        store(x, i, e)
    for i in range(size - 1, -1, -1):
        e = load(x, i) * load(S, i * size + i)
        for k in range(i + 1, size):
            e = fnma(load(S, i * size + k), load(x, k), e)
        store(x, i, _unless_dropped(load(S, i * size + i), e))


@helper
def _unless_dropped(inverse, x):
    """x, or zero where the inverse pivot is."""
    return select_less(0.0 * inverse, inverse, x, 0.0 * inverse)


@kernel
def _solve_columns(size, S, X, o, w, c):
    """The same for the columns c of X (size rows of length w), which starts at o."""
    align_stack(X)
    for i in range(size):
        x = load_columns(X, X, o + i * w, c)
        for k in range(i):
            x = subtract_scaled(x, load(S, k * size + i), load_columns(X, X, o + k * w, c))
        store_columns(X, X, o + i * w, c, x)
    for i in range(size - 1, -1, -1):
        inverse = load(S, i * size + i)
        x = scale_columns(load_columns(X, X, o + i * w, c), inverse)
        for k in range(i + 1, size):
            x = subtract_scaled(x, load(S, i * size + k), load_columns(X, X, o + k * w, c))
        store_columns(
            X, X, o + i * w, c,
            (_unless_dropped(inverse, x[0]), _unless_dropped(inverse, x[1]), _unless_dropped(inverse, x[2]),
             _unless_dropped(inverse, x[3])),
        )  # fmt: skip


# ------------------------------------------------------------------------------------------------ KKT matrix
@kernel
def invert_kkt(n, size, S, X, Minv, Z):
    """Z = [[P, B], [-B', S^-1]] (n + size squared), the inverse of [[M, -J'], [J, damping 1]].

    B = X S^-1,  P = M^-1 - B X',  with X = M^-1 J' (n size)."""
    w = n + size
    for r in range(size):
        o = (n + r) * w
        for j in range(n):
            store(Z, o + j, load(X, j * size + r))
        for s in range(size):
            store(Z, o + n + s, splat(Z, 1.0 if r == s else 0.0))
    for c in range(0, w, 4):
        _solve_columns(size, S, Z, n * w, w, four_columns(c, w))
    for i in range(0, n, 3):
        for j in range(0, n, 4):
            _project_tile(n, size, (i, min(i + 1, n - 1), min(i + 2, n - 1)), four_columns(j, n), X, Minv, Z)
    for r in range(size):
        for j in range(n):
            b = load(Z, (n + r) * w + j)
            store(Z, j * w + n + r, b)
            store(Z, (n + r) * w + j, -b)


@kernel
def _project_tile(n, size, rows, c, X, Minv, Z):
    """Three rows and four columns of P, while the rows below n hold B'."""
    align_stack(Z)
    w = n + size
    i, j, k = rows
    x0, x1, x2 = (
        load_columns(Minv, Minv, i * n, c),
        load_columns(Minv, Minv, j * n, c),
        load_columns(Minv, Minv, k * n, c),
    )
    for r in range(size):
        y = load_columns(Z, Z, (n + r) * w, c)
        x0 = subtract_scaled(x0, load(X, i * size + r), y)
        x1 = subtract_scaled(x1, load(X, j * size + r), y)
        x2 = subtract_scaled(x2, load(X, k * size + r), y)
    store_columns(Z, Z, i * w, c, x0)
    store_columns(Z, Z, j * w, c, x1)
    store_columns(Z, Z, k * w, c, x2)
