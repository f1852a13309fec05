"""The mass matrix: composite-rigid-body algorithm, and its factor with branch-induced sparsity.

M = L'L with L lower triangular: eliminating the leaves first leaves zeros between branches where M has them, so factor
and solves follow the path to the root of each degree of freedom.                  [Featherstone 2008, section 6.5]
"""

import numpy as np

from dynamics.algorithms.batch import launch, points, unbatch
from dynamics.algorithms.kinematics import BODY, COLUMN, DOF, INERTIA, MOMENT, place_bodies, place_inertias
from dynamics.simd import (
    LANES,
    align_stack,
    carve,
    driver,
    fma,
    fnma,
    gather,
    kernel,
    load,
    scatter,
    splat,
    sqrt,
    store,
)
from dynamics.spatial import accumulate, dot6, inertia_times, load3, load6


@kernel
def mass_matrix_kernel(m, q, body, dof, M):
    """M (nv nv), full and symmetric, for one knot per lane; body (nb BODY), dof (nv DOF)."""
    align_stack(body)
    place_bodies(m, q, body, dof)
    place_inertias(m, body)
    n = m.dof_body.size
    M[:] = 0.0
    for i in range(m.parent.size - 1, -1, -1):
        h, I = load3(body, i * BODY + MOMENT), load6(body, i * BODY + INERTIA)
        for x in range(m.v_index[i], m.v_index[i] + m.dof_count[i]):
            f = inertia_times(m.subtree_mass[i], h, I, load6(dof, x * DOF + COLUMN))
            y = x
            while y >= 0:
                e = dot6(f, load6(dof, y * DOF + COLUMN))
                store(M, x * n + y, e)
                store(M, y * n + x, e)
                y = m.dof_parent[y]
            store(M, x * n + x, load(M, x * n + x) + splat(M, m.armature[x]))
        if m.parent[i] >= 0:
            accumulate(body, m.parent[i] * BODY + MOMENT, i * BODY + MOMENT, 9)


@kernel
def factorize(m, M):
    """M = L'L in place in the lower triangle; the diagonal holds 1/L_kk."""
    align_stack(M)
    n = m.dof_body.size
    for k in range(n - 1, -1, -1):
        d = 1.0 / sqrt(load(M, k * n + k))
        store(M, k * n + k, d)
        i = m.dof_parent[k]
        while i >= 0:
            store(M, k * n + i, load(M, k * n + i) * d)
            i = m.dof_parent[i]
        i = m.dof_parent[k]
        while i >= 0:
            x = load(M, k * n + i)
            j = i
            while j >= 0:
                store(M, i * n + j, fnma(x, load(M, k * n + j), load(M, i * n + j)))
                j = m.dof_parent[j]
            i = m.dof_parent[i]


@kernel
def solve_factored(m, L, X, columns, sign):
    """X <- sign (L'L)^-1 X for X (nv columns), row-major, four columns at a time."""
    align_stack(L)
    n = m.dof_body.size
    for c in range(0, columns, 4):
        if c + 4 <= columns:
            _solve_four(m, n, L, X, columns, c, sign)
        else:
            for r in range(c, columns):
                _solve_one(m, n, L, X, columns, r, sign)


@kernel
def _solve_four(m, n, L, X, columns, c, sign):
    for i in range(n - 1, -1, -1):
        d = load(L, i * n + i)
        o = i * columns + c
        x0, x1, x2, x3 = load(X, o) * d, load(X, o + 1) * d, load(X, o + 2) * d, load(X, o + 3) * d
        store(X, o, x0)
        store(X, o + 1, x1)
        store(X, o + 2, x2)
        store(X, o + 3, x3)
        j = m.dof_parent[i]
        while j >= 0:
            e = load(L, i * n + j)
            o = j * columns + c
            store(X, o, fnma(e, x0, load(X, o)))
            store(X, o + 1, fnma(e, x1, load(X, o + 1)))
            store(X, o + 2, fnma(e, x2, load(X, o + 2)))
            store(X, o + 3, fnma(e, x3, load(X, o + 3)))
            j = m.dof_parent[j]
    for i in range(n):
        o = i * columns + c
        x0, x1, x2, x3 = load(X, o), load(X, o + 1), load(X, o + 2), load(X, o + 3)
        j = m.dof_parent[i]
        while j >= 0:  # earlier rows already carry the sign
            e = load(L, i * n + j) * (-sign)
            p = j * columns + c
            x0, x1 = fma(e, load(X, p), x0), fma(e, load(X, p + 1), x1)
            x2, x3 = fma(e, load(X, p + 2), x2), fma(e, load(X, p + 3), x3)
            j = m.dof_parent[j]
        d = load(L, i * n + i) * sign
        store(X, o, x0 * d)
        store(X, o + 1, x1 * d)
        store(X, o + 2, x2 * d)
        store(X, o + 3, x3 * d)


@kernel
def _solve_one(m, n, L, X, columns, c, sign):
    for i in range(n - 1, -1, -1):
        x = load(X, i * columns + c) * load(L, i * n + i)
        store(X, i * columns + c, x)
        j = m.dof_parent[i]
        while j >= 0:
            store(X, j * columns + c, fnma(load(L, i * n + j), x, load(X, j * columns + c)))
            j = m.dof_parent[j]
    for i in range(n):
        x = load(X, i * columns + c)
        j = m.dof_parent[i]
        while j >= 0:
            x = fma(load(L, i * n + j) * (-sign), load(X, j * columns + c), x)
            j = m.dof_parent[j]
        store(X, i * columns + c, x * load(L, i * n + i) * sign)


@kernel
def identity(X, n):
    """X <- unit matrix (n n)."""
    X[:] = 0.0
    for k in range(n):
        store(X, k * n + k, splat(X, 1.0))


def _numbers(model) -> int:
    n = model.nv
    return len(model.arrays.parent) * BODY + n * DOF + model.nq + 2 * n * n


@driver
def _drive(first, last, work, m, q, invert, out):
    nb, n, nq = m.parent.size, m.dof_body.size, q.shape[1]
    for c in range(first, last):
        body, w = carve(work, nb * BODY)
        dof, w = carve(w, n * DOF)
        q_, w = carve(w, nq)
        M, w = carve(w, n * n)
        X, w = carve(w, n * n)
        gather(q, c * LANES, q_)
        mass_matrix_kernel(m, q_, body, dof, M)
        if invert:
            factorize(m, M)
            identity(X, n)
            solve_factored(m, M, X, n, 1.0)
            scatter(X, c * LANES, out)
        else:
            scatter(M, c * LANES, out)


def _evaluate(model, q, invert: bool) -> np.ndarray:
    single, (q,) = points(model, q)
    out = np.empty((len(q), model.nv**2))
    launch(_drive, len(q), _numbers(model), model.arrays, q, invert, out)
    return unbatch(single, out.reshape(-1, model.nv, model.nv))[0]


def mass_matrix(model, q) -> np.ndarray:
    """M(q), symmetric positive definite, armature on the diagonal.                [Featherstone 2008, table 6.2]

    Parameters: q (nq,) or (K, nq).  Returns: (nv, nv) or (K, nv, nv).
    Raises ValueError for a wrong shape, a non-finite entry, or a quaternion that is not of unit length.
    """
    return _evaluate(model, q, False)


def inverse_mass_matrix(model, q) -> np.ndarray:
    """M(q)^-1, by the sparse factor.  Shapes and errors as `mass_matrix`."""
    return _evaluate(model, q, True)
