"""The optimality conditions of a neighbouring problem at a fixed trajectory and fixed multipliers, and how they change
with parameters.

    g_x = lx + (J fx)'lam' + Cx'nu     g_u = lu + (J fu)'lam' + Cu'nu     F     c     limits

J is the Jacobian of difference(xs', .) at f(xs, us): on a manifold the dynamics' Jacobians live in the tangent space of
where they lead, which the parameters move, and are carried back to that of xs'.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from trajopt.backward.expansions import expand, gaps_of
from trajopt.interfaces.system import as_manifold
from trajopt.optimality.kkt_point import KKTPoint
from trajopt.optimality.kkt_system import RightHandSide
from trajopt.optimality.parameters import Parameters
from trajopt.problem.problem import Problem
from trajopt.rows.packing import pack

STEP = 1e-3
"""Of differences, relative to max(1, |p|)."""
FOURTH_ORDER = (1.0, 8.0 / 12.0), (-1.0, -8.0 / 12.0), (2.0, -1.0 / 12.0), (-2.0, 1.0 / 12.0)


class FirstOrder(NamedTuple):
    """Of one problem: gx (N+1, n), gu (N, m), F (N+1, n), c (A,) less its limit, limits (N, m) of clamped controls, and
    the cost's partial derivative's primitive, the Lagrangian."""

    gx: np.ndarray
    gu: np.ndarray
    F: np.ndarray
    c: np.ndarray
    limits: np.ndarray
    lagrangian: float


def first_order(problem: Problem, point: KKTPoint) -> FirstOrder:
    """The conditions of a problem at a point of another."""
    xs, us, lam, A = point.xs, point.us, point.costate, point.active
    e, F = expand(problem, xs, us), gaps_of(problem, xs, us)
    fx, fu = e.fx, e.fu
    manifold = as_manifold(problem.system)
    if manifold is not None:
        J = manifold.difference_expansion(xs[1:], problem.system.step(xs[:-1], us), np.zeros_like(lam[1:]))[0]
        fx, fu = J @ fx, J @ fu
    gx, gu = e.lx.copy(), e.lu + np.einsum("tij,ti->tj", fu, lam[1:])
    gx[:-1] += np.einsum("tij,ti->tj", fx, lam[1:])
    c = np.zeros(0)
    total = problem.objective.value(xs, us) + float((lam * F).sum())
    if point.rows is not None:
        rows = pack(problem, problem.residual_constraints)
        rows = rows.with_factors(point.rows.factors())
        values, Cx, Cu = rows.linearized(xs, us)
        limit = _held_at(rows.lower, rows.upper, point)
        c = values[A.index] - limit
        for i, t, nu in zip(A.index, A.knots, A.nu, strict=True):
            gx[t] += nu * Cx[i]
            if t < len(gu):
                gu[t] += nu * Cu[i]
        total += float(A.nu @ c)
    limits = np.zeros(us.shape)
    if problem.control_limits is not None:
        lower, upper = problem.control_limits
        limits = np.where(point.clamped < 0, lower, np.where(point.clamped > 0, upper, 0.0))
        total -= float((point.gradient * np.where(point.clamped != 0, us - limits, 0.0)).sum())
    return FirstOrder(gx, gu, F, c, limits, total)


def _held_at(lower: np.ndarray, upper: np.ndarray, point: KKTPoint) -> np.ndarray:
    """The limits of the active rows (A,): the upper ones of equalities."""
    A, rows = point.active, point.rows
    assert rows is not None
    at_upper = (rows.lower == rows.upper)[A.index] | (A.nu > 0.0)
    return np.where(at_upper, upper[A.index], lower[A.index])


class Change(NamedTuple):
    """Derivatives of `FirstOrder` by all parameters, the last axis."""

    rhs: RightHandSide
    cost: np.ndarray


def check_alike(problem: Problem, other: Problem) -> None:
    """ValueError unless a problem has the sizes of another."""
    for name in ("nx", "ndx", "nu"):
        if getattr(problem.system, name) != getattr(other.system, name):
            raise ValueError(f"make_problem: system.{name} changes with p, wanted it to stay")
    if problem.horizon != other.horizon or len(problem.constraints) != len(other.constraints):
        raise ValueError("make_problem: the horizon or the constraints change with p, wanted them to stay")


def change_with(
    make_problem: Callable[[Any], Problem], p: Parameters, point: KKTPoint, steps: np.ndarray
) -> Change:
    """d/dp of the conditions, by differences of fourth order of their analytic values at the fixed point."""
    columns = []
    for i, h in enumerate(steps):
        total: list[np.ndarray] | None = None
        for multiple, weight in FOURTH_ORDER:
            moved = p.vector.copy()
            moved[i] += multiple * h
            problem = make_problem(p.at(moved))
            check_alike(problem, point.problem)
            values = [np.asarray(part) * (weight / h) for part in first_order(problem, point)]
            total = values if total is None else [a + b for a, b in zip(total, values, strict=True)]
        columns.append(total)
    gx, gu, F, c, limits, cost = (np.stack(parts, axis=-1) for parts in zip(*columns, strict=True))
    return Change(RightHandSide(gx, gu, F, c, limits), cost)


def default_steps(p: Parameters) -> np.ndarray:
    """1e-3 max(1, |p|) for each."""
    return STEP * np.maximum(1.0, np.abs(p.vector))
