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
from trajopt.optimality.kkt_point import Held, KKTPoint
from trajopt.optimality.kkt_system import RightHandSide
from trajopt.optimality.parameters import Parameters
from trajopt.problem.problem import Problem
from trajopt.rows.folding import with_prices
from trajopt.rows.packing import pack

STEP, SMALL = 1e-3, 1e-2
"""Of differences, relative to the parameter; parameters below SMALL are taken for that."""
FOURTH_ORDER = (1.0, 8.0 / 12.0), (-1.0, -8.0 / 12.0), (2.0, -1.0 / 12.0), (-2.0, 1.0 / 12.0)


class FirstOrder(NamedTuple):
    """Of one problem, or of their derivatives with one more axis: gx (N+1, n), gu (N, m), F (N+1, n), values c (R,) of
    rows, their limits (R,), the controls' limits (N, m), zero where there are none, and the cost."""

    gx: np.ndarray
    gu: np.ndarray
    F: np.ndarray
    c: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    least: np.ndarray
    largest: np.ndarray
    cost: np.ndarray

    def right_hand_side(self, held: Held) -> RightHandSide:
        """Of derivatives: that of the KKT system in which this is held."""
        index = np.flatnonzero(held.rows)
        limit = np.where(held.rows[index, None] > 0, self.upper[index], self.lower[index])
        sides = held.controls[..., None]
        clamped = np.where(sides > 0, self.largest, np.where(sides < 0, self.least, 0.0))
        return RightHandSide(self.gx, self.gu, self.F, self.c[index] - limit, clamped)


def first_order(problem: Problem, point: KKTPoint) -> FirstOrder:
    """The conditions of a problem at a point of another."""
    xs, us, lam = point.xs, point.us, point.costate
    e, F = expand(problem, xs, us), gaps_of(problem, xs, us)
    manifold = as_manifold(problem.system)
    if manifold is not None:
        J = manifold.difference_expansion(xs[1:], problem.system.step(xs[:-1], us), np.zeros_like(lam[1:]))[0]
        e = e._replace(fx=J @ e.fx, fu=J @ e.fu)
    c, lower, upper = np.zeros((3, 0))
    if point.rows is not None:
        rows = pack(problem, problem.residual_constraints).with_factors(point.rows.factors())
        c, *C = rows.linearized(xs, us)
        lower, upper = _finite(rows.lower), _finite(rows.upper)
        e = with_prices(e, rows.first, (C[0], C[1]), point.nu)
    gx, gu = e.lx.copy(), e.lu + np.einsum("tij,ti->tj", e.fu, lam[1:])
    gx[:-1] += np.einsum("tij,ti->tj", e.fx, lam[1:])
    least, largest = (np.zeros(us.shape),) * 2 if problem.control_limits is None else problem.control_limits
    cost = np.array(problem.objective.value(xs, us))
    return FirstOrder(gx, gu, F, c, lower, upper, _finite(least), _finite(largest), cost)


def _finite(limits: np.ndarray) -> np.ndarray:
    """Zero in place of infinite ones, which stay what they are."""
    return np.where(np.isfinite(limits), limits, 0.0)


def check_alike(problem: Problem, other: Problem) -> None:
    """ValueError unless a problem has the sizes of another."""
    for name in ("nx", "ndx", "nu"):
        if getattr(problem.system, name) != getattr(other.system, name):
            raise ValueError(f"make_problem: system.{name} changes with p, wanted it to stay")
    rows = [sum(len(one.knots(each.horizon, False)) for one in each.residual_constraints) for each in (problem, other)]
    if problem.horizon != other.horizon or rows[0] != rows[1]:
        raise ValueError("make_problem: the horizon or the constraints change with p, wanted them to stay")


def change_with(
    make_problem: Callable[[Any], Problem], p: Parameters, point: KKTPoint, steps: np.ndarray
) -> FirstOrder:
    """d/dp of the conditions, parameters last, by differences of fourth order of their analytic values."""
    columns = []
    for i, h in enumerate(steps):
        total: list[np.ndarray] | None = None
        for multiple, weight in FOURTH_ORDER:
            moved = p.vector.copy()
            moved[i] += multiple * h
            problem = make_problem(p.at(moved))
            check_alike(problem, point.problem)
            values = [part * (weight / h) for part in first_order(problem, point)]
            total = values if total is None else [a + b for a, b in zip(total, values, strict=True)]
        columns.append(total)
    return FirstOrder(*(np.stack(parts, axis=-1) for parts in zip(*columns, strict=True)))


def default_steps(p: Parameters) -> np.ndarray:
    """A thousandth of each number, of a hundredth where it is smaller, of one where it is zero."""
    size = np.abs(p.vector)
    return STEP * np.where(size > 0.0, np.maximum(size, SMALL), 1.0)
