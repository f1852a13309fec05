"""Curvature of the dynamics for sweeps that contract it with their own Vx', one knot after another.

Each of these is a function of a knot and a multiplier lam (ndx,) that returns sum_i lam_i d2 f_i there: Hxx (ndx, ndx),
Hux (nu, ndx), Huu (nu, nu).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from trajopt.backward.expansions import hessian_products
from trajopt.interfaces.system import System, window
from trajopt.problem.objective import Blocks
from trajopt.validation import same_shape

CurvatureOfKnot = Callable[[int, np.ndarray], Blocks]


def by_products(system: System, xs: np.ndarray, us: np.ndarray) -> CurvatureOfKnot:
    """`System.hessian_products`, one knot per call (classical DDP)."""

    def curvature(t: int, lam: np.ndarray) -> Blocks:
        of_knot = window(system, t, t + 1)
        return [H[0] for H in hessian_products(of_knot, xs[t : t + 2], us[t : t + 1], lam[None])]

    return curvature


def by_tensors(system: System, xs: np.ndarray, us: np.ndarray) -> CurvatureOfKnot:
    """The full tensors `System.hessians` of all knots, computed at once."""
    (N, nu), ndx = us.shape, system.ndx
    shapes = ("fxx", (ndx, ndx)), ("fux", (nu, ndx)), ("fuu", (nu, nu))
    flat = [
        (same_shape(f"hessians, {name}", tensor, (N, ndx, *shape)).reshape(N, ndx, -1), shape)
        for (name, shape), tensor in zip(shapes, system.hessians(xs, us), strict=True)
    ]
    return lambda t, lam: [np.dot(lam, tensor[t]).reshape(shape) for tensor, shape in flat]
