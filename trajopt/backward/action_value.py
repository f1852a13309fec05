"""The action value of one knot, from the value function V', v' of the next: the first of the sweep's three parts.

    Qx  = lx + fx'v'             Qu  = lu + fu'v'                                           [Tassa 2012, eq. 5]
    Qxx = lxx + fx'V'fx          Qux = lux + fu'V'fx         Quu = luu + fu'V'fu

with an inner matrix M, an inner gradient p and left factors A (m, ndx), B (m, nu):

    dense                 M = V'                                        p = v'            A = fx       B = fu
    semi-implicit Euler   M = h^2 V'qq + h (V'qv + V'vq) + V'vv         p = h v'q + v'v   A = fx[n:]   B = fu[n:]

The second line uses fx = [[I, 0], [0, 0]] + [hI; I] A and fu = [hI; I] B, with G = h V'qq + V'vq left over (else 0):

    T = M A + [G 0]       Quu = luu + B'M B     Qux = lux + B'T     Qu = lu + B'p
    Qx = lx + A'p + [v'q; 0]                    Qxx = lxx + A'T + [[V'qq, 0], [0, 0]] + [G 0]'A

Where it holds from configuration row b on, as behind a floating base, A is fx[:b] on top of fx[n:], and B alike.  With
v and q the rows and columns from b on and e those before, M and G have the blocks

    M = [V'ee, V'e(n:) + h [0 V'eq]; ., h^2 V'qq + h (V'qv + V'vq) + V'vv]      G = [V'eq; V'(n:n+b)q; h V'qq + V'vq]

and identities act on q alone.  The dense case has no such row.
"""

from typing import NamedTuple

from dynamics.simd import LANES, fma, helper
from dynamics.simd.rows import Matrix, Term, entry, load_part, matrix, set_entry, store_part, submatrix
from trajopt.matrix_products import padded, product, row_product


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
