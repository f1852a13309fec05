"""Products with M^-1 for the derivatives of forward dynamics,  da = -M^-1 dID,  and M^-1 itself = da/dtau.

Three routes to the same result, for n degrees of freedom of mean depth d (both counted along v):

    FACTOR   two sweeps per column with the sparse factor of M           about 2 n d multiply-adds, 3 rows at a time
    DIRECT   M^-1 first, then the product, called DMM                    2 n d, tiles without any order among them
    AZA      ABA at rest without gravity, with the factor of ABA         12 to 24 n
                                                                                           [Singh 2022, section IV-E]

Column c of dID/dq and of dID/dv is zero except on the path from c to the root and in the subtree of c.  The columns c
and c + 1 of both matrices are processed together.
"""

from dynamics.algorithms.articulated_body import D_INVERSE, ELIMINATION, U_VECTOR
from dynamics.algorithms.branch_factor import factorize, invert_factored, solve_columns
from dynamics.algorithms.kinematics import COLUMN, DOF
from dynamics.simd import align_stack, fma, helper, kernel, load, shared_kernel, splat, store
from dynamics.simd.lane_algebra import (
    four_columns,
    load_columns,
    no_columns,
    scale_columns,
    store_columns,
    subtract_scaled,
)

AUTOMATIC, FACTOR, DIRECT, AZA = -1, 0, 1, 2
PANEL = (0, 1, 2, 3)


# ------------------------------------------------------------------------------------------------ factor and direct
@helper
def _pair(m, i):
    """Columns i, i + 1 of two matrices, and the end of the rows in the subtrees of these dofs."""
    j = min(i + 1, m.dof_body.size - 1)
    return (i, j, i, j), max(m.subtree_end[i], m.subtree_end[j])


@kernel
def products_factor(m, L, A, B):
    """A, B <- -M^-1 A, -M^-1 B for matrices of the pattern of dID, by the factor L."""
    n = m.dof_body.size
    for i in range(0, n, 2):
        c, last = _pair(m, i)
        solve_columns(m, L, -1.0, i, last, A, B, n, c)


@kernel
def _direct_three(m, n, rows, c, last, Minv, panel, A, B):
    """Store three rows of -M^-1 panel in the columns c of A and B; panel (nv 4) as `products_direct` fills it."""
    align_stack(A)
    x0 = x1 = x2 = no_columns(A)
    o0, o1, o2 = rows[0] * n, rows[1] * n, rows[2] * n
    for k in range(c[0], last):
        y = load_columns(panel, panel, 4 * k, PANEL)
        x0 = subtract_scaled(x0, load(Minv, o0 + k), y)
        x1 = subtract_scaled(x1, load(Minv, o1 + k), y)
        x2 = subtract_scaled(x2, load(Minv, o2 + k), y)
    k = m.dof_parent[c[0]]
    while k >= 0:
        y = load_columns(panel, panel, 4 * k, PANEL)
        x0 = subtract_scaled(x0, load(Minv, o0 + k), y)
        x1 = subtract_scaled(x1, load(Minv, o1 + k), y)
        x2 = subtract_scaled(x2, load(Minv, o2 + k), y)
        k = m.dof_parent[k]
    store_columns(A, B, o0, c, x0)
    store_columns(A, B, o1, c, x1)
    store_columns(A, B, o2, c, x2)


@kernel
def products_direct(m, Minv, A, B, panel):
    """`products_factor` by M^-1 instead; scratch panel (nv 4)."""
    align_stack(A)
    n = m.dof_body.size
    for i in range(0, n, 2):
        c, last = _pair(m, i)
        for k in range(i, last):
            store_columns(panel, panel, 4 * k, PANEL, load_columns(A, B, k * n, c))
        k = m.dof_parent[i]
        while k >= 0:
            store_columns(panel, panel, 4 * k, PANEL, load_columns(A, B, k * n, c))
            k = m.dof_parent[k]
        for r in range(0, n, 3):
            _direct_three(m, n, (r, min(r + 1, n - 1), min(r + 2, n - 1)), c, last, Minv, panel, A, B)


# ------------------------------------------------------------------------------------------------ articulated
FOUR6 = 24  # numbers of four spatial vectors: the first components of all, then the second ones, ...


@helper
def _load_four6(w, o):
    return (
        load_columns(w, w, o, PANEL), load_columns(w, w, o + 4, PANEL), load_columns(w, w, o + 8, PANEL),
        load_columns(w, w, o + 12, PANEL), load_columns(w, w, o + 16, PANEL), load_columns(w, w, o + 20, PANEL),
    )  # fmt: skip


@helper
def _store_four6(w, o, x):
    for l in range(6):
        store_columns(w, w, o + 4 * l, PANEL, x[l])


@helper
def _nothing(w):
    x = no_columns(w)
    return (x, x, x, x, x, x)


@helper
def _add4(a, b):
    return (a[0] + b[0], a[1] + b[1], a[2] + b[2], a[3] + b[3])


@helper
def _add_four6(f, g):
    return (
        _add4(f[0], g[0]), _add4(f[1], g[1]), _add4(f[2], g[2]), _add4(f[3], g[3]), _add4(f[4], g[4]),
        _add4(f[5], g[5]),
    )  # fmt: skip


@helper
def _subtract_dots(x, w, o, f):
    """x - a.f for the spatial vector a at offset o of w; component by component, so that f stays in registers."""
    x = subtract_scaled(subtract_scaled(x, load(w, o), f[0]), load(w, o + 1), f[1])
    x = subtract_scaled(subtract_scaled(x, load(w, o + 2), f[2]), load(w, o + 3), f[3])
    return subtract_scaled(subtract_scaled(x, load(w, o + 4), f[4]), load(w, o + 5), f[5])


@helper
def _add_scaled(y, e, x):
    return (fma(e, x[0], y[0]), fma(e, x[1], y[1]), fma(e, x[2], y[2]), fma(e, x[3], y[3]))


@helper
def _add_products(f, w, o, x):
    """f + a x for the spatial vector a at offset o of w"""
    return (
        _add_scaled(f[0], load(w, o), x), _add_scaled(f[1], load(w, o + 1), x), _add_scaled(f[2], load(w, o + 2), x),
        _add_scaled(f[3], load(w, o + 3), x), _add_scaled(f[4], load(w, o + 4), x),
        _add_scaled(f[5], load(w, o + 5), x),
    )  # fmt: skip


@helper
def _branches(m, k):
    """True if dof k moves several subtrees."""
    return k + 1 < m.subtree_end[k] and m.subtree_end[k + 1] != m.subtree_end[k]


@kernel
def _articulated_up(m, n, sign, first, last, dof, elim, art, A, B, c):
    """Replace four right-hand sides, zero except on first ... last and the path from `first`, by u.

    Where branches meet, forces are summed in art; on a stretch they stay in registers."""
    align_stack(A)
    for k in range(n):
        if _branches(m, k):
            _store_four6(art, m.dof_body[k] * FOUR6, _nothing(A))
    f = _nothing(A)
    k = last - 1
    while k >= 0:
        if _branches(m, k):
            f = _load_four6(art, m.dof_body[k] * FOUR6)
        u = scale_columns(load_columns(A, B, k * n, c), sign)
        u = _subtract_dots(u, dof, k * DOF + COLUMN, f)
        store_columns(A, B, k * n, c, u)
        e = k * ELIMINATION
        f = _add_products(f, elim, e + U_VECTOR, scale_columns(u, load(elim, e + D_INVERSE)))
        p = m.dof_parent[k]
        if p < 0:
            f = _nothing(A)
        elif _branches(m, p):
            o = m.dof_body[p] * FOUR6
            _store_four6(art, o, _add_four6(f, _load_four6(art, o)))
            f = _nothing(A)
        k = k - 1 if k > first else p


@kernel
def _articulated_down(m, n, rows, dof, elim, art, A, B, c):
    """Replace u by the accelerations of the first `rows` dofs; art keeps those of bodies where branches begin."""
    align_stack(A)
    acc = _nothing(A)
    for k in range(rows):
        p = m.dof_parent[k]
        if p != k - 1:
            acc = _nothing(A)
            if p >= 0:
                acc = _load_four6(art, m.dof_body[p] * FOUR6)
        e = k * ELIMINATION
        x = _subtract_dots(load_columns(A, B, k * n, c), elim, e + U_VECTOR, acc)
        x = scale_columns(x, load(elim, e + D_INVERSE))
        store_columns(A, B, k * n, c, x)
        acc = _add_products(acc, dof, k * DOF + COLUMN, x)
        if _branches(m, k):
            _store_four6(art, m.dof_body[k] * FOUR6, acc)


@kernel
def products_articulated(m, dof, elim, art, A, B):
    """`products_factor` by the articulated factor instead; scratch art (nb ARTICULATED)."""
    n = m.dof_body.size
    for i in range(0, n, 2):
        c, last = _pair(m, i)
        _articulated_up(m, n, -1.0, i, last, dof, elim, art, A, B, c)
        _articulated_down(m, n, n, dof, elim, art, A, B, c)


@kernel
def invert_articulated(m, dof, elim, art, X):
    """X = M^-1 (nv nv) by the articulated factor: column c on the rows 0 ... c, the others from symmetry."""
    align_stack(X)
    n = m.dof_body.size
    for i in range(0, n, 4):
        c = four_columns(i, n)
        last = c[3] + 1
        for k in range(last):
            store_columns(X, X, k * n, c, no_columns(X))
        for t in c:
            store(X, t * n + t, splat(X, 1.0))
        _articulated_up(m, n, 1.0, i, last, dof, elim, art, X, X, c)
        _articulated_down(m, n, last, dof, elim, art, X, X, c)
    for i in range(n):
        for j in range(i):
            store(X, i * n + j, load(X, j * n + i))


# ------------------------------------------------------------------------------------------------ routes
@kernel
def product_route(m):
    """The fastest route for the robot with arrays m.

    Measured with AVX-512, the whole of `minus_inverse_products` in us per knot:

                      chain 6  chain 18  chain 24  chain 28  chain 50  chain 100  HyQ 18  humanoid 50  binary tree 100
        n, d          6, 3.5   18, 9.5   24, 12.5  28, 14.5  50, 25.5  100, 50.5  18, 6.5   50, 12.2      100, 5.8
        FACTOR          .078      .73      1.54      2.47       15       119       .48        6.5           20
        DIRECT          .060      .67      1.30      2.15       11       105       .47        5.8           32
        AZA              .12      .90      1.57      2.07      6.8        30       .80        5.3           56

    AZA costs about 60 n d + 30 n^2 multiply-adds and the others about 5 n^2 d, so that the boundary between them has
    the form p / n + q / d = 1.  Beyond 90 degrees of freedom a dense M^-1 streams from memory, and FACTOR beats
    DIRECT."""
    n, paths = m.subtree_end.size, 0
    for k in range(n):
        paths += m.subtree_end[k] - k  # summed over k: the total length of all paths to the root, n d
    if 15 * paths + 7 * n * n < n * paths:
        return AZA
    return DIRECT if n <= 90 else FACTOR


@shared_kernel
def minus_inverse_products(m, route, dof, elim, art, L, aq, av, Minv):
    """aq, av <- -M^-1 aq, -M^-1 av, which hold dID/dq and dID/dv, and Minv <- M^-1.  All (nv nv), row-major.

    dof and elim as ABA at the same configuration left them, art its scratch.  L holds the full M; it becomes the factor
    of `factorize` unless the route is AZA, which does not change it."""
    if route == AUTOMATIC:
        route = product_route(m)
    if route == AZA:
        invert_articulated(m, dof, elim, art, Minv)
        products_articulated(m, dof, elim, art, aq, av)
        return
    factorize(m, L)
    invert_factored(m, L, Minv)
    if route == DIRECT:
        products_direct(m, Minv, aq, av, art)
    else:
        products_factor(m, L, aq, av)
