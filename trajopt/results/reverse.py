"""Gradients of functions of a solution with respect to all data of its problem, from one backward pass."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from trajopt.capabilities import Expansions, capability
from trajopt.costs import Quadratic
from trajopt.costs.cost import ONE_SIDED
from trajopt.interfaces.residual import at_knots
from trajopt.interfaces.system import as_manifold
from trajopt.interfaces.terms import Tangents, gradient_by, summed_to
from trajopt.optimality.kkt_point import KKTPoint
from trajopt.optimality.kkt_system import KKTStep, KKTSystem, RightHandSide
from trajopt.problem.constraints import ControlBounds, ResidualConstraint
from trajopt.problem.parametric import (
    CONSTRAINT,
    INITIAL,
    RUNNING,
    TERMINAL,
    Key,
    ParameterTerm,
    adjusted,
    attributes_named,
    places,
    read_dynamics,
)
from trajopt.problem.problem import Problem
from trajopt.validation import float_array

# --------------------------------------------------------------------------------------------
# Derivatives of a problem's terms with respect to their attributes: targets, references, weights, limits.
#
# For each term, a cost or a constraint, the gradient of sum_t value_t'y_t + slope_t'dy_t is computed, y being its value
# or residual at its points and dy its change along a direction there
# (`trajopt.interfaces.terms.AttributeGradient`).  Gradients that a term does not offer are computed by differences
# of that term alone, with the attribute moved number by number.

STEP, SMALL = 1e-3, 1e-2
"""Relative step of differences; numbers below SMALL count as SMALL, zero as one.  Differences are one-sided, since
weights are not below zero."""


class OfLagrangian(NamedTuple):
    """Multipliers of the terms of a Lagrangian.

    dx (N+1, ndx), du (N, nu): a direction.  cost: factor of the cost terms' values.  rows: for each constraint with
    rows, by its id, knots (K,), multipliers (K, nr) of values and of changes, and the limits (-1, 1) that are active.
    controls: multipliers (N, nu) of the active limits of controls, and which (-1, 1) these are.
    """

    xs: np.ndarray
    us: np.ndarray
    dx: np.ndarray
    du: np.ndarray
    cost: float
    rows: dict[int, tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]]
    controls: tuple[np.ndarray, np.ndarray]


def term_gradient(problem: Problem, key: Key, place: ParameterTerm, name: str, of: OfLagrangian) -> np.ndarray | None:
    """Gradient with respect to the attribute of this name; None where the term does not offer it and the attribute is
    no array of numbers that can be moved one by one."""
    term = place.term
    if isinstance(term, ControlBounds):
        return _by_control_limit(problem, term, name, of)
    if key[0] == CONSTRAINT:
        return _by_row(term, place, name, of)
    total = None
    for each in problem.objective.terms:
        if each.cost is not term or (TERMINAL if each.terminal else RUNNING) != key[0]:
            continue
        dx, du = each.points(of.dx, of.du)
        slope = np.array(np.broadcast_to(each.scale, (len(dx),)), dtype=np.float64)
        at = Tangents(*each.points(of.xs, of.us), dx, du)
        found = gradient_by(term, name, at, of.cost * slope, slope)
        if found is None:
            found = _differenced(term, place.values[name], name, at, of.cost * slope, slope)
        if found is not None:
            total = found if total is None else total + found
    return total


def _by_row(term: ResidualConstraint, place: ParameterTerm, name: str, of: OfLagrangian) -> np.ndarray | None:
    """Gradient with respect to an attribute of a constraint with rows."""
    knots, value, slope, held = of.rows[id(term)]
    if name in ("lower", "upper"):
        rows = np.where((held > 0) if name == "upper" else (held < 0), -value, 0.0)
        asked = np.array(term.at) if isinstance(term.at, tuple) else knots
        of_all = np.zeros((len(asked), term.nr))
        of_all[np.isin(asked, knots)] = rows
        return summed_to(of_all, np.shape(getattr(term, name)))
    before_last = len(knots) == 0 or knots[-1] < len(of.us)
    us, du = (of.us[knots], of.du[knots]) if before_last else (None, None)
    at = Tangents(of.xs[knots], us, of.dx[knots], du)
    there = copy.copy(term)
    there.residual = at_knots(term.residual, knots)
    found = gradient_by(there.residual, name, at, value, slope)
    return _differenced(there, place.values[name], name, at, value, slope) if found is None else found


def _by_control_limit(problem: Problem, term: ControlBounds, name: str, of: OfLagrangian) -> np.ndarray:
    """Gradient with respect to a limit of controls, where it is the tightest of all limits, the first one of
    several."""
    multipliers, side = of.controls
    assert problem.control_limits is not None
    which = 0 if name == "lower" else 1
    free = (side < 0) if name == "lower" else (side > 0)
    for one in problem.constraints:
        if isinstance(one, ControlBounds):
            own = free & (one.limits(*side.shape)[which] == problem.control_limits[which])
            if one is term:
                return summed_to(np.where(own, multipliers, 0.0), np.shape(getattr(term, name)))
            free = free & ~own
    raise AssertionError("a problem's bounds are among its constraints")


# ------------------------------------------------------------------------------------------------ differences
def _differenced(
    term: Any, known: Any, name: str, at: Tangents, value: np.ndarray, slope: np.ndarray
) -> np.ndarray | None:
    """Gradient by differences of the term alone, whose attribute has this value."""
    if not isinstance(known, np.ndarray | float | int):
        return None
    try:
        return _by_number(term, known, name, at, value, slope)
    except (TypeError, ValueError):  # for example a rotation, which is invalid with one of its numbers changed
        return None


def _by_number(term: Any, known: Any, name: str, at: Tangents, value: np.ndarray, slope: np.ndarray) -> np.ndarray:
    known = np.asarray(known, dtype=np.float64)
    total = np.zeros(known.shape)
    for index in np.ndindex(*known.shape):
        h = STEP * (max(abs(float(known[index])), SMALL) if known[index] else 1.0)
        for multiple, weight in ONE_SIDED:
            moved = known.copy()
            moved[index] += multiple * h
            total[index] += weight / h * _sum(adjusted(term, {name: moved}), at, value, slope)
    return total


def _sum(term: Any, at: Tangents, value: np.ndarray, slope: np.ndarray) -> float:
    """sum_t value_t'y_t + slope_t'dy_t."""
    xs, us, dx, du = at
    if slope.ndim == 2:
        residual = term.residual
        rx, ru = residual.jacobians(xs, us)
        dy = np.einsum("tij,tj->ti", rx, dx)
        if ru is not None and du is not None:
            dy = dy + np.einsum("tij,tj->ti", ru, du)
        return float((value * residual.evaluate(xs, us)).sum() + (slope * dy).sum())
    (K, n), m = dx.shape, 0 if du is None else du.shape[1]
    blocks = np.zeros((K, n)), np.zeros((K, m)), np.zeros((K, n, n)), np.zeros((K, m, n)), np.zeros((K, m, m))
    target = Quadratic(*blocks) if du is not None else Quadratic(blocks[0], None, blocks[2], None, None)
    term.accumulate(xs, us, 1.0, target)
    dy = np.einsum("ti,ti->t", target.lx, dx)
    if du is not None and target.lu is not None:
        dy = dy + np.einsum("ti,ti->t", target.lu, du)
    return float(value @ term.value(xs, us) + slope @ dy)


# --------------------------------------------------------------------------------------------
# Covectors of a solution through its KKT system, and their products with derivatives with respect to the
# problem's data.
#
# With x^, u^, l^ the solution of the KKT system for covectors phi_x, phi_u in place of gradients, and z = (x, u),
#
#     G(z, lam) = d/dpi sum lam'f(z; pi)           dphi/dpi = d/de G(z* + e z^, lam* + e l^)       dJ/dpi = G(z*, lam*)
#
# the derivatives by all parameters of the dynamics cost two evaluations of G, which systems may offer
# (`parameter_gradient` of `trajopt.capabilities.Expansions`).  Those by parameters of a term l(z; pi) of
# the Lagrangian, with s its factor or multiplier, s^ its change for the covectors, zero for a cost, and
# cost_bar = dphi/dJ,
#
#     dphi/dpi = d/dpi [(s^ + cost_bar s) l + s dl/dz z^]
#
# cost a product or two with its linearization, those by limits are multipliers, and that by the initial state is
# l^_0 + cost_bar lam_0.  No other problem is made.

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
    """d phi / d pi in the form in which the system has its parameters; ValueError or TypeError as
    `check_parameters`."""
    cost_bar = float(float_array("cost_bar", cost_bar, ()))
    found = None if xs_bar is None and us_bar is None else covector_step(system, xs_bar, us_bar)[1]
    return parameter_vjp_along(system.point, found, cost_bar)


def parameter_vjp_along(point: KKTPoint, found: KKTStep | None, cost_bar: float) -> np.ndarray:
    """d phi / d pi from the KKT system's solution for the covectors, None without any."""
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
    """G at a trajectory near the point, with lam (N+1, ndx) on tangents at the point's states."""
    system = point.problem.system
    gradient, manifold, multipliers = capability(system, Expansions).parameter_gradient, as_manifold(system), lam[1:]
    assert gradient is not None
    if manifold is not None:
        J = manifold.difference_expansion(point.xs[1:], system.step(xs[:-1], us), np.zeros_like(multipliers))[0]
        multipliers = np.einsum("tij,ti->tj", J, multipliers)
    return gradient(np.ascontiguousarray(xs[:-1]), us, np.ascontiguousarray(multipliers))


def check_parameters(point: KKTPoint) -> None:
    """Raise TypeError for a system without the gradient, ValueError for a cost or constraint that reads its
    parameters."""
    problem = point.problem
    if capability(problem.system, Expansions).parameter_gradient is None:
        raise TypeError(
            f"solution: got one of a {type(problem.system).__name__}, which has no gradient by inertial parameters, "
            "expected a system with parameter_gradient, or trajopt.sensitivity"
        )
    name = read_dynamics(problem)
    if name is not None:
        raise ValueError(
            f"solution: got one whose {name} depends on the inertial parameters besides states and controls, expected "
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
    """d phi with respect to the initial state, attributes of terms, and inertial parameters, as `Solution.vjp` returns
    them.

    wrt: names, as `trajopt.ParametricProblem` takes them, and "inertial"; None: all.
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
    """The attributes of terms that wrt names, and whichever of "x0" and "inertial" it names."""
    known = places(point.problem)
    if wrt is None:
        offered = capability(point.problem.system, Expansions).parameter_gradient is not None
        inertial = {INERTIAL} if offered and read_dynamics(point.problem) is None else set()
        return [(key, name) for key, place in known.items() for name in place.values], {INITIAL} | inertial
    if INERTIAL in wrt:
        check_parameters(point)
    named = [each for name in wrt if name not in (INITIAL, INERTIAL) for each in attributes_named(known, name, "wrt")]
    return list(dict.fromkeys(named)), {INITIAL, INERTIAL}.intersection(wrt)


def _of_lagrangian(system: KKTSystem, back: KKTStep | None, cost_bar: float, of_limits: np.ndarray) -> OfLagrangian:
    """Multipliers of the terms."""
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
