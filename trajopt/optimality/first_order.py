"""Optimality conditions of a neighbouring problem at a fixed trajectory and fixed multipliers, and their derivatives
with respect to parameters.

    g_x = lx + (J fx)'lam' + Cx'nu     g_u = lu + (J fu)'lam' + Cu'nu     F     c     limits

J is the Jacobian of difference(xs', .) at f(xs, us): on a manifold the dynamics' Jacobians refer to the tangent space
at f(xs, us), which moves with the parameters, and J carries them to that at xs'.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from trajopt.backward.expansions import Expansion, expand, gaps_of
from trajopt.costs.cost import FOURTH_ORDER
from trajopt.interfaces.system import as_manifold
from trajopt.optimality.kkt_point import Held, KKTPoint
from trajopt.optimality.kkt_system import RightHandSide
from trajopt.optimality.parameters import Parameters
from trajopt.problem.objective import Objective, Term, zero_blocks
from trajopt.problem.problem import Problem
from trajopt.rows.augmented_terms import with_multipliers
from trajopt.rows.packing import pack

STEP, SMALL = 1e-3, 1e-2
"""Step of differences, relative to the parameter; parameters below SMALL count as SMALL."""


class FirstOrder(NamedTuple):
    """Optimality conditions of a problem, or their derivatives with one more axis: gx (N+1, n), gu (N, m), F (N+1, n),
    values c (R,) of rows, their limits (R,), the controls' limits (N, m), zero where there are none, and the cost."""

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
        """The right-hand side of the KKT system with these limits held, from derivatives."""
        index = np.flatnonzero(held.rows)
        limit = np.where(held.rows[index, None] > 0, self.upper[index], self.lower[index])
        sides = held.controls[..., None]
        clamped = np.where(sides > 0, self.largest, np.where(sides < 0, self.least, 0.0))
        return RightHandSide(self.gx, self.gu, self.F, self.c[index] - limit, clamped)


def first_order(problem: Problem, point: KKTPoint) -> FirstOrder:
    """The optimality conditions of a problem at a point of another one."""
    xs, us, lam = point.xs, point.us, point.costate
    e, F = expand(problem, xs, us), gaps_of(problem, xs, us)
    manifold = as_manifold(problem.system)
    if manifold is not None:
        J = manifold.difference_expansion(xs[1:], problem.system.step(xs[:-1], us), np.zeros_like(lam[1:]))[0]
        e = e._replace(fx=J @ e.fx, fu=J @ e.fu)
    e, rows = _with_rows(e, problem, point)
    gx, gu = e.lx.copy(), e.lu + np.einsum("tij,ti->tj", e.fu, lam[1:])
    gx[:-1] += np.einsum("tij,ti->tj", e.fx, lam[1:])
    cost = np.array(problem.objective.value(xs, us))
    return FirstOrder(gx, gu, F, *rows, *_limits(problem), cost)


def _with_rows(
    e: Expansion, problem: Problem, point: KKTPoint
) -> tuple[Expansion, tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """The expansion with the rows' terms in its gradients, and c, lower, upper of the rows."""
    if point.rows is None:
        return e, (np.zeros(0), np.zeros(0), np.zeros(0))
    rows = point.rows
    if problem is not point.problem:
        rows = pack(problem, problem.residual_constraints).with_factors(rows.factors())
    c, *C = rows.linearized(point.xs, point.us)
    return with_multipliers(e, rows.first, (C[0], C[1]), point.nu), (c, _finite(rows.lower), _finite(rows.upper))


def _limits(problem: Problem) -> tuple[np.ndarray, np.ndarray]:
    """Limits of the controls."""
    none = np.zeros((problem.horizon, problem.system.nu))
    least, largest = (none, none) if problem.control_limits is None else problem.control_limits
    return _finite(least), _finite(largest)


def of_what_moves(around: Sequence[Problem], point: KKTPoint) -> list[FirstOrder]:
    """The optimality conditions of problems at a point, without the parts that all of them share with the point's own
    problem: the dynamics if the system is the same, and the same costs and constraints."""
    base, (N, m) = point.problem, point.us.shape
    of_base = base.objective.terms
    shared = all(one.system is base.system and len(one.objective.terms) == len(of_base) for one in around)
    if not shared or any(len(one.constraints) != len(base.constraints) for one in around):
        return [first_order(problem, point) for problem in around]
    others = [i for i, term in enumerate(of_base) if not all(_same(term, one.objective.terms[i]) for one in around)]
    constraints = [one.residual_constraints for one in around]
    same_rows = all(
        mine is other for each in constraints for mine, other in zip(base.residual_constraints, each, strict=True)
    )
    n, found, nothing = base.system.ndx, [], np.zeros(len(point.nu))
    for problem in around:
        objective = Objective([problem.objective.terms[i] for i in others])
        blocks, F = zero_blocks(N, n, m), np.zeros((N + 1, n))
        objective.accumulate(point.xs, point.us, blocks)
        e, rows = Expansion(np.zeros((N, n, n)), np.zeros((N, n, m)), *blocks), (nothing, nothing, nothing)
        if not same_rows:
            e, rows = _with_rows(e, problem, point)
        F[0] = base.system.difference(point.xs[:1], problem.x0[None])[0]
        cost = np.array(objective.value(point.xs, point.us))
        found.append(FirstOrder(e.lx, e.lu, F, *rows, *_limits(problem), cost))
    return found


def _same(term: Term, other: Term) -> bool:
    """True if two terms are the same object."""
    return all(mine is its for mine, its in zip(term, other, strict=True))


def _finite(limits: np.ndarray) -> np.ndarray:
    """The limits with zeros in place of infinite ones, which do not change."""
    return np.where(np.isfinite(limits), limits, 0.0)


def check_alike(problem: Problem, other: Problem) -> None:
    """Raise ValueError unless a problem has the sizes of another."""
    for name in ("nx", "ndx", "nu"):
        if getattr(problem.system, name) != getattr(other.system, name):
            raise ValueError(f"make_problem: system.{name} changes with p, expected it to stay")
    rows = [sum(len(one.knots(each.horizon, False)) for one in each.residual_constraints) for each in (problem, other)]
    if problem.horizon != other.horizon or rows[0] != rows[1]:
        raise ValueError("make_problem: the horizon or the constraints change with p, expected them to stay")


def change_with(
    make_problem: Callable[[Any], Problem], p: Parameters, point: KKTPoint, steps: np.ndarray, frozen: bool = False
) -> FirstOrder:
    """d/dp of the conditions, parameters last, by differences of fourth order of their analytic values.

    frozen: True if problems never change once they are made, so that parts which several share are the same in all of
    them and need not be evaluated.  Users' functions may set an attribute of a term or a system that all their problems
    have.
    """

    def moved(i: int, change: float) -> Problem:
        vector = p.vector.copy()
        vector[i] += change
        problem = make_problem(p.at(vector))
        check_alike(problem, point.problem)
        return problem

    columns = []
    for i, h in enumerate(steps):
        total: list[np.ndarray] | None = None
        around = (moved(i, multiple * h) for multiple, _ in FOURTH_ORDER)
        each = of_what_moves(list(around), point) if frozen else (first_order(problem, point) for problem in around)
        for (_, weight), conditions in zip(FOURTH_ORDER, each, strict=True):
            values = [part * (weight / h) for part in conditions]
            total = values if total is None else [a + b for a, b in zip(total, values, strict=True)]
        columns.append(total)
    return FirstOrder(*(np.stack(parts, axis=-1) for parts in zip(*columns, strict=True)))


def default_steps(p: Parameters) -> np.ndarray:
    """Steps of parameters: a thousandth of each number, of a hundredth where it is smaller, of one where it is zero."""
    size = np.abs(p.vector)
    return STEP * np.where(size > 0.0, np.maximum(size, SMALL), 1.0)
