"""Covectors of a solution through its KKT system, and products with its derivative by the parameters of its system.

With x^, u^, l^ what the KKT system gives for covectors phi_x, phi_u in place of gradients, z = (x, u), and

    G(z, lam) = d/dpi sum lam'f(z; pi)           dphi/dpi = d/de G(z* + e z^, lam* + e l^)       dJ/dpi = G(z*, lam*)

all parameters cost two evaluations of G, which systems may offer (`trajopt.capabilities.ParameterGradient`), and no
other problem is made.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from trajopt.capabilities import ParameterGradient, capability
from trajopt.interfaces.system import as_manifold
from trajopt.optimality.kkt_point import KKTPoint
from trajopt.optimality.kkt_system import KKTStep, KKTSystem, RightHandSide
from trajopt.problem.parameters import read_dynamics
from trajopt.validation import float_array

SPREAD = 3e-5
"""Largest change of a state, and of a control relative to the largest one, in the difference along z^."""


def covector_step(
    system: KKTSystem, xs_bar: ArrayLike | None, us_bar: ArrayLike | None
) -> tuple[RightHandSide, KKTStep]:
    """Covectors (N+1, ndx), (N, nu) as a right-hand side, and its solution x^, u^, l^, n^; l^_0 is d phi / d x0."""
    rhs, (N, n, m, _) = system.zeros(1), system.sizes
    if xs_bar is not None:
        rhs.gx[..., 0] = float_array("xs_bar", xs_bar, (N + 1, n))
    if us_bar is not None:
        rhs.gu[..., 0] = float_array("us_bar", us_bar, (N, m))
    return rhs, system.solve(rhs)


def parameter_vjp(system: KKTSystem, xs_bar: ArrayLike | None, us_bar: ArrayLike | None, cost_bar: float) -> np.ndarray:
    """d phi / d pi in the form that the system has them in; ValueError or TypeError as `check_parameters`."""
    point, cost_bar = system.point, float(float_array("cost_bar", cost_bar, ()))
    xs, us, lam = point.xs, point.us, point.costate
    if xs_bar is None and us_bar is None:
        return cost_bar * parameter_gradient(point, xs, us, lam)
    _, found = covector_step(system, xs_bar, us_bar)
    dx, du, dlam = (part[..., 0] for part in found[:3])
    size = max(float(np.abs(dx).max()), float(np.abs(du).max()) / max(1.0, float(np.abs(us).max())))
    e = SPREAD / (size or 1.0)
    forth, back = (
        parameter_gradient(point, point.problem.system.integrate(xs, d * dx), us + d * du, lam + d * dlam)
        for d in (e, -e)
    )
    total = (forth - back) / (2.0 * e)
    return total + cost_bar * parameter_gradient(point, xs, us, lam) if cost_bar else total


def parameter_gradient(point: KKTPoint, xs: np.ndarray, us: np.ndarray, lam: np.ndarray) -> np.ndarray:
    """G at a trajectory near the point, lam (N+1, ndx) of tangents at the point's states."""
    system = point.problem.system
    offered, manifold, multipliers = capability(system, ParameterGradient), as_manifold(system), lam[1:]
    assert offered is not None
    if manifold is not None:
        J = manifold.difference_expansion(point.xs[1:], system.step(xs[:-1], us), np.zeros_like(multipliers))[0]
        multipliers = np.einsum("tij,ti->tj", J, multipliers)
    return offered.parameter_gradient(np.ascontiguousarray(xs[:-1]), us, np.ascontiguousarray(multipliers))


def check_parameters(point: KKTPoint) -> None:
    """TypeError for a system that offers no gradient, ValueError for a cost or constraint that reads its parameters."""
    problem = point.problem
    if capability(problem.system, ParameterGradient) is None:
        raise TypeError(
            f"solution: got one of a {type(problem.system).__name__}, which has no gradient by inertial parameters, "
            "wanted a system with trajopt.capabilities.ParameterGradient, or trajopt.sensitivity"
        )
    name = read_dynamics(problem)
    if name is not None:
        raise ValueError(
            f"solution: got one whose {name} depends on the inertial parameters besides states and controls, wanted "
            "none that does, or trajopt.sensitivity"
        )
