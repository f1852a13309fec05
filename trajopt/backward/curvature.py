"""Curvature of the dynamics for sweeps that contract it with their own Vx', knot by knot.

It is a function of a knot and a multiplier lam (ndx,) that returns sum_i lam_i d2 f_i there, Hxx (ndx, ndx),
Hux (nu, ndx), Huu (nu, nu); or all d2 f_i of all knots, which the sweep sums.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from dynamics.simd import helper
from dynamics.simd.rows import Term, matrix
from dynamics.validation import as_array
from trajopt.backward.expansions import hessian_products
from trajopt.interfaces.system import System, window
from trajopt.matrix_products import row_product
from trajopt.problem.objective import Blocks


class Tensors(NamedTuple):
    """Second derivatives of the dynamics: fxx (N, ndx, ndx, ndx), fux (N, ndx, nu, ndx), fuu (N, ndx, nu, nu), output
    index first."""

    fxx: np.ndarray
    fux: np.ndarray
    fuu: np.ndarray


NO_TENSORS = tuple(np.empty((0, 0, 0, 0)) for _ in range(3))
"""Tensors of size zero: no curvature."""
CurvatureOfKnot = Callable[[int, np.ndarray], Blocks] | Tensors


@helper
def add_contraction(t, ndx, Vx, tensors, hessians):
    """Add sum_i Vx'_i d2 f_i to the Hessians lxx, lux and luu of knot t, if there are tensors."""
    if len(tensors[0]) == 0:
        return
    p = matrix(Vx, (t + 1) * ndx, 1)
    for tensor, H in zip(tensors, hessians):  # noqa: B905, numba knows no strict
        width = tensor.shape[2] * tensor.shape[3]
        total = matrix(H, t * width, width)
        row_product(0, 0, width, total, total, (Term(p, matrix(tensor, t * ndx * width, width), ndx),))


def by_products(system: System, xs: np.ndarray, us: np.ndarray) -> CurvatureOfKnot:
    """Curvature by `System.hessian_products`, one knot per call (classical DDP)."""

    def curvature(t: int, lam: np.ndarray) -> Blocks:
        of_knot = window(system, t, t + 1)
        return [H[0] for H in hessian_products(of_knot, xs[t : t + 2], us[t : t + 1], lam[None])]

    return curvature


def by_tensors(system: System, xs: np.ndarray, us: np.ndarray) -> CurvatureOfKnot:
    """Curvature by the full tensors `System.hessians` of all knots, computed at once."""
    (N, nu), ndx = us.shape, system.ndx
    shapes = ("fxx", (ndx, ndx)), ("fux", (nu, ndx)), ("fuu", (nu, nu))
    tensors = (
        np.ascontiguousarray(as_array(f"hessians, {name}", tensor, (N, ndx, *shape), finite=False), np.float64)
        for (name, shape), tensor in zip(shapes, system.hessians(xs, us), strict=True)
    )
    return Tensors(*tensors)
