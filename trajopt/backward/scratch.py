"""Sizes of the sweep, and its workspace for one knot."""

from typing import NamedTuple

from dynamics.simd import LANES, helper
from dynamics.simd.rows import Matrix, matrix, submatrix
from trajopt.matrix_products import padded


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
    """Workspace size that `split` needs at most, in numbers."""
    sx, su = -(-ndx // LANES) * LANES, -(-nu // LANES) * LANES
    return 8 + (5 * ndx + 4 * nu + 1) * sx + (2 * ndx + 2 * nu + 1) * su + ndx + nu


@helper
def split(ws, shape):
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
