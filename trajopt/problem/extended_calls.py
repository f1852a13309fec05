"""Loops of prepared calls of systems with longer states: what enters the system inside, and where its results go.

Points (z, w) around and (x, u) inside are as `ControlMap` has them: u[controls] are the first of w, u[parameters] are
`scale` times the first numbers of z behind x.  `rows` are the knots around at which the system inside moves.
"""

import numpy as np

from dynamics.simd.compilation import by_address
from dynamics.simd.prepared_calls import PreparedCall
from trajopt.problem.control_map import ControlMap


@by_address
def _go_inside(rows, zs, us, controls, parameters, scale, x, u):
    n = x.shape[1]
    for k in range(rows.shape[0]):
        t = rows[k]
        for i in range(n):
            x[k, i] = zs[t, i]
        for i in range(controls.shape[0]):
            u[k, controls[i]] = us[t, i]
        for i in range(parameters.shape[0]):
            u[k, parameters[i]] = scale * zs[t, n + i]


def points_inside(
    by: ControlMap, rows: np.ndarray, zs: np.ndarray, us: np.ndarray
) -> tuple[np.ndarray, np.ndarray, PreparedCall]:
    """States (K, nx) and controls (K, nu) inside, and the call that writes them."""
    x, u = np.zeros((len(rows), by.nx)), np.zeros((len(rows), by.nu))
    return x, u, PreparedCall(_go_inside, rows, zs, us, by.controls, by.parameters, by.scale, x, u)


@by_address
def take_rows(rows, source, target):
    """target[k] = the first numbers of source[rows[k]]"""
    for k in range(rows.shape[0]):
        for i in range(target.shape[1]):
            target[k, i] = source[rows[k], i]


@by_address
def place_steps(rows, y, numbers, first, following):
    """Next states around, of the next states y (K, nx) inside and of the numbers appended, which are those of `numbers`
    from `first` on."""
    n = y.shape[1]
    for k in range(rows.shape[0]):
        t = rows[k]
        for i in range(n):
            following[t, i] = y[k, i]
        for i in range(following.shape[1] - n):
            following[t, n + i] = numbers[t, first + i]


@by_address
def place_matrix(rows, matrix, row, column, blocks):
    """blocks[t, row : row + n, column : column + m] = matrix (n, m) at the rows t."""
    for t in rows:
        for i in range(matrix.shape[0]):
            for j in range(matrix.shape[1]):
                blocks[t, row + i, column + j] = matrix[i, j]


@by_address
def _place_first(rows, controls, parameters, scale, f_x, f_u, f_z, f_w):
    """See `ControlMap.place_first`."""
    n = f_x.shape[2]
    for k in range(rows.shape[0]):
        t = rows[k]
        for i in range(f_x.shape[1]):
            for j in range(n):
                f_z[t, i, j] = f_x[k, i, j]
            for j in range(controls.shape[0]):
                f_w[t, i, j] = f_u[k, i, controls[j]]
            for j in range(parameters.shape[0]):
                f_z[t, i, n + j] = scale * f_u[k, i, parameters[j]]


@by_address
def _place_hessian(rows, controls, parameters, scale, Hxx, Hux, Huu, Hzz, Hwz, Hww):
    """See `ControlMap.place_hessian`."""
    n, m, p = Hxx.shape[1], controls.shape[0], parameters.shape[0]
    for k in range(rows.shape[0]):
        t = rows[k]
        for i in range(n):
            for j in range(n):
                Hzz[t, i, j] = Hxx[k, i, j]
        for i in range(m):
            for j in range(n):
                Hwz[t, i, j] = Hux[k, controls[i], j]
            for j in range(m):
                Hww[t, i, j] = Huu[k, controls[i], controls[j]]
            for j in range(p):
                Hwz[t, i, n + j] = scale * Huu[k, controls[i], parameters[j]]
        for i in range(p):
            for j in range(n):
                Hzz[t, n + i, j] = Hzz[t, j, n + i] = scale * Hux[k, parameters[i], j]
            for j in range(p):
                Hzz[t, n + i, n + j] = scale * scale * Huu[k, parameters[i], parameters[j]]


def first_placed(by: ControlMap, rows: np.ndarray, *blocks: np.ndarray) -> PreparedCall:
    """The call that writes derivatives fx, fu inside, the first two blocks, as those around, the last two."""
    return PreparedCall(_place_first, rows, by.controls, by.parameters, by.scale, *blocks)


def hessian_placed(by: ControlMap, rows: np.ndarray, *blocks: np.ndarray) -> PreparedCall:
    """The call that writes Hessians inside, the first three blocks, as those around, the last three."""
    return PreparedCall(_place_hessian, rows, by.controls, by.parameters, by.scale, *blocks)


@by_address
def place_choices(rows, A, B, base, zs, us, following):
    """States after knots that choose, as of `Choices`, of vectors or where A has no rows; base is NaN for numbers that
    choices go on from."""
    m = B.shape[0]
    n = zs.shape[1] - m
    for t in rows:
        for i in range(n + m):
            following[t, i] = zs[t, i]
        for i in range(A.shape[0]):
            for j in range(A.shape[1]):
                following[t, i] += A[i, j] * us[t, j]
        for i in range(m):
            if base[i] == base[i]:
                following[t, n + i] = base[i]
            for j in range(B.shape[1]):
                following[t, n + i] += B[i, j] * us[t, j]
