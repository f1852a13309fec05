"""Covectors of a solution through its KKT system, and products with its derivatives by what its problem has in it.

With x^, u^, l^ what the KKT system gives for covectors phi_x, phi_u in place of gradients, z = (x, u), and

    G(z, lam) = d/dpi sum lam'f(z; pi)           dphi/dpi = d/de G(z* + e z^, lam* + e l^)       dJ/dpi = G(z*, lam*)

all parameters of the dynamics cost two evaluations of G, which systems may offer
(`trajopt.capabilities.ParameterGradient`).  Those of a term l(z; pi) of the Lagrangian, with s its factor or
multiplier, s^ what that is for the covectors, zero of a cost's, and cost_bar = dphi/dJ,

    dphi/dpi = d/dpi [(s^ + cost_bar s) l + s dl/dz z^]

cost a product or two with its linearization (`trajopt.problem.term_gradients`), those of limits are multipliers, and
that of the initial state is l^_0 + cost_bar lam_0.  No other problem is made.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from trajopt.capabilities import ParameterGradient, capability
from trajopt.interfaces.system import as_manifold
from trajopt.optimality.kkt_point import KKTPoint
from trajopt.optimality.kkt_system import KKTStep, KKTSystem, RightHandSide
from trajopt.problem.parameters import Key, attributes_named, places, read_dynamics
from trajopt.problem.parametric import INITIAL
from trajopt.problem.term_gradients import OfLagrangian, term_gradient
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
    cost_bar = float(float_array("cost_bar", cost_bar, ()))
    found = None if xs_bar is None and us_bar is None else covector_step(system, xs_bar, us_bar)[1]
    return parameter_vjp_along(system.point, found, cost_bar)


def parameter_vjp_along(point: KKTPoint, found: KKTStep | None, cost_bar: float) -> np.ndarray:
    """The same from what the KKT system gives for the covectors, None for none."""
    xs, us, lam = point.xs, point.us, point.costate
    if found is None:
        return cost_bar * parameter_gradient(point, xs, us, lam)
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


# ------------------------------------------------------------------------------------------------ all in a problem
INERTIAL = "inertial"


def problem_vjp(
    system: KKTSystem,
    xs_bar: ArrayLike | None,
    us_bar: ArrayLike | None,
    cost_bar: float,
    wrt: Sequence[str] | None = None,
) -> dict[str, Any]:
    """d phi by the initial state, by attributes of terms, and by inertial parameters, as `Solution.vjp` returns them.

    wrt: names, as `trajopt.ParametricProblem` takes them, and "inertial"; None: all there are.
    """
    point, cost_bar = system.point, float(float_array("cost_bar", cost_bar, ()))
    problem, back, found = point.problem, None, {}
    of_limits = cost_bar * np.where(system.free, 0.0, point.gradient)
    if xs_bar is not None or us_bar is not None:
        rhs, back = covector_step(system, xs_bar, us_bar)
        of_limits = of_limits + system.gradient(rhs.gu, back)[..., 0]
    attributes, wanted = _wanted(point, wrt)
    if INITIAL in wanted:
        found[INITIAL] = cost_bar * point.costate[0] + (0.0 if back is None else back.dlam[0, :, 0])
    if attributes:
        known, of = places(problem), _of_lagrangian(system, back, cost_bar, of_limits)
        for key, attribute in attributes:
            gradient = term_gradient(problem, key, known[key], attribute, of)
            if gradient is not None:
                found.setdefault(known[key].name, {})[attribute] = gradient
            elif wrt is not None:
                what = f"the {attribute} of {known[key].name!r}, which cannot be moved number by number"
                raise ValueError(f"wrt: got {what}, expected an attribute that can, or one with a gradient_by")
    if INERTIAL in wanted:
        try:
            found[INERTIAL] = parameter_vjp_along(point, back, cost_bar)
        except ValueError:  # of steps of a kind that has none
            if wrt is not None:
                raise
    return found


def _wanted(point: KKTPoint, wrt: Sequence[str] | None) -> tuple[list[tuple[Key, str]], set[str]]:
    """Attributes of terms, and which of the initial state and inertial parameters."""
    known = places(point.problem)
    if wrt is None:
        offered = capability(point.problem.system, ParameterGradient) is not None
        inertial = {INERTIAL} if offered and read_dynamics(point.problem) is None else set()
        return [(key, name) for key, place in known.items() for name in place.values], {INITIAL} | inertial
    if INERTIAL in wrt:
        check_parameters(point)
    named = [each for name in wrt if name not in (INITIAL, INERTIAL) for each in attributes_named(known, name, "wrt")]
    return list(dict.fromkeys(named)), {INITIAL, INERTIAL}.intersection(wrt)


def _of_lagrangian(system: KKTSystem, back: KKTStep | None, cost_bar: float, of_limits: np.ndarray) -> OfLagrangian:
    """What terms are multiplied by."""
    point, rows = system.point, {}
    dx, du = (np.zeros_like(part) for part in (point.costate, point.us))
    moved = cost_bar * point.nu
    if back is not None:
        dx, du = back.dx[..., 0], back.du[..., 0]
        moved = moved + system.of_all_rows(back.dnu)[:, 0]
    if point.rows is not None:
        r = point.rows
        parts = (r.unpacked(part) for part in (moved * r.D, point.nu * r.D, system.held.rows.astype(np.float64)))
        for constraint, knots, *each in zip(r.constraints, r.knots, *parts, strict=True):
            rows[id(constraint)] = knots, *each
    return OfLagrangian(point.xs, point.us, dx, du, cost_bar, rows, (of_limits, system.held.controls))


def names_of(argument: str, names: Sequence[str] | None) -> tuple[str, ...] | None:
    """A list of names, or None; TypeError for anything else."""
    if names is None:
        return None
    if isinstance(names, str) or not all(isinstance(name, str) for name in names):
        raise TypeError(f"{argument}: got {names!r}, expected a list of names")
    return tuple(names)
