"""Optimality conditions of a neighbouring problem at a fixed trajectory and fixed multipliers, and their derivatives
with respect to parameters.

    g_x = lx + (J fx)'lam' + Cx'nu     g_u = lu + (J fu)'lam' + Cu'nu     F     c     limits

J is the Jacobian of difference(xs', .) at f(xs, us): on a manifold the dynamics' Jacobians refer to the tangent space
at f(xs, us), which moves with the parameters, and J carries them to that at xs'.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from dynamics.validation import as_array
from trajopt.backward.expansions import Expansion, expand, gaps_of
from trajopt.costs.cost import FOURTH_ORDER
from trajopt.interfaces.system import as_manifold
from trajopt.optimality.kkt_point import Held, KKTPoint
from trajopt.optimality.kkt_system import KKTStep, KKTSystem, RightHandSide
from trajopt.problem.constraints import BOUNDS
from trajopt.problem.objective import Objective, Term, zero_blocks
from trajopt.problem.problem import Problem
from trajopt.rows import pack, with_multipliers

# --------------------------------------------------------------------------------------------
# Parameters of a problem as one vector: a number, an array, or a mapping or dataclass of these.


class Parameters(NamedTuple):
    """The numbers of p that vary, as a vector, and the functions that replace them."""

    given: Any
    names: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...]
    vector: np.ndarray

    def at(self, vector: np.ndarray) -> Any:
        """p with these numbers."""
        return self._filled(vector)

    def like(self, vector: np.ndarray) -> Any:
        """The vector's numbers, or arrays with leading axes (., P), in the form of p: for mappings and dataclasses a
        dict of the entries that vary."""
        parts, start = {}, 0
        for name, shape in zip(self.names, self.shapes, strict=True):
            size = int(np.prod(shape, dtype=int))
            part = vector[..., start : start + size].reshape((*vector.shape[:-1], *shape))
            parts[name] = float(part) if part.ndim == 0 else part
            start += size
        return parts[""] if self.names == ("",) else parts

    def flat(self, value: Any) -> np.ndarray:
        """The vector from a value of the form that `like` returns."""
        parts = {"": value} if self.names == ("",) else value
        return np.concatenate([np.ravel(parts[name]).astype(float) for name in self.names])

    def numbers(self, p: Any) -> np.ndarray:
        """The vector of another p of the same form.

        Raises: TypeError, ValueError if p has another form, or numbers that are not finite."""
        parts = []
        for name, shape in zip(self.names, self.shapes, strict=True):
            try:
                value = p if name == "" else p[name] if isinstance(p, Mapping) else getattr(p, name)
            except (KeyError, AttributeError):
                raise ValueError(f"p: got a {type(p).__name__} without {name!r}") from None
            parts.append(as_array(f"p[{name!r}]" if name else "p", value, shape, copy=True).ravel())
        return np.concatenate(parts)

    def labels(self) -> tuple[str, ...]:
        """Names (P,) of the numbers."""
        found = []
        for name, shape in zip(self.names, self.shapes, strict=True):
            found += [f"{name or 'p'}{list(index) if index else ''}" for index in np.ndindex(*shape)]
        return tuple(found)

    def _filled(self, vector: np.ndarray) -> Any:
        parts = self.like(np.asarray(vector, float))
        if self.names == ("",):
            return parts
        if isinstance(self.given, Mapping):
            return {**self.given, **parts}
        return dataclasses.replace(self.given, **parts)


def parameters_of(p: Any, wrt: Sequence[str] | None = None) -> Parameters:
    """The parameters in p; wrt: the names of the entries that vary, of a mapping or dataclass.

    Raises: TypeError for p without floats, ValueError for an unknown name or a number that is not finite."""
    if isinstance(p, Mapping):
        entries = dict(p)
    elif dataclasses.is_dataclass(p) and not isinstance(p, type):
        entries = {field.name: getattr(p, field.name) for field in dataclasses.fields(p)}
    else:
        if wrt is not None:
            raise ValueError(f"wrt: got {tuple(wrt)} for a {type(p).__name__}, expected None")
        entries = {"": p}
    floats = {name: value for name, value in entries.items() if _is_float(value)}
    if wrt is not None:
        missing = [name for name in wrt if name not in floats]
        if missing:
            raise ValueError(f"wrt: got {missing[0]!r}, expected some of {', '.join(floats)}")
        floats = {name: floats[name] for name in wrt}
    if not floats:
        raise TypeError(f"p: got {p!r}, expected a number, an array, or a mapping or dataclass with some")
    arrays = {name: as_array(f"p[{name!r}]" if name else "p", value) for name, value in floats.items()}
    vector = np.concatenate([array.ravel() for array in arrays.values()])
    if not vector.size:
        raise TypeError(f"p: got {p!r}, expected at least one number")
    return Parameters(p, tuple(arrays), tuple(array.shape for array in arrays.values()), vector)


def _is_float(value: Any) -> bool:
    if isinstance(value, bool | str | bytes) or value is None:
        return False
    try:
        array = np.asarray(value)
    except (TypeError, ValueError):
        return False
    return array.dtype.kind == "f" or (array.dtype.kind in "iu" and array.ndim == 0 and not isinstance(value, int))


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
        rows = pack(problem, problem.residual_constraints).with_factors(rows.factors)
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


# --------------------------------------------------------------------------------------------
# Weakly active limits of a solution, and derivatives along a direction, in which some of them hold.


SWITCHES = 50
"""Largest number of changes of the set of weakly active limits that hold, in a derivative along a direction."""


class WeakLimit(NamedTuple):
    """A limit that is reached without a multiplier: the constraint's name, the knot, the component, -1 the lower or 1
    the upper limit."""

    name: str
    knot: int
    component: int
    side: int


def weak_limits(point: KKTPoint) -> tuple[WeakLimit, ...]:
    """The weakly active limits of a point, by name."""
    found, sides = [], point.weak.controls
    for t, i in np.argwhere(sides != 0):
        found.append(WeakLimit(BOUNDS, int(t), int(i), int(sides[t, i])))
    if point.rows is not None:
        rows, parts = point.rows, point.rows.unpacked(point.weak.rows.astype(float))
        for constraint, knots, part in zip(rows.constraints, rows.knots, parts, strict=True):
            for k, i in np.argwhere(part != 0.0):
                found.append(WeakLimit(constraint.name, int(knots[k]), int(i), int(part[k, i])))
    return tuple(found)


def one_sided(point: KKTPoint, change: FirstOrder) -> tuple[KKTSystem, KKTStep]:
    """The derivative of the solution along a direction, given the change of the conditions along it (one column), and
    the KKT system with the limits that hold; RuntimeError where no set of weakly active limits is consistent."""
    held = point.held
    for _ in range(SWITCHES):
        system = KKTSystem(point, held)
        step = system.solve(change.right_hand_side(held))
        rows, controls = _switched(system, step, change)
        if (rows == held.rows).all() and (controls == held.controls).all():
            return system, step
        held = Held(rows, controls)
    raise RuntimeError(f"directional: no set of weak limits was found in {SWITCHES} changes")


def _switched(system: KKTSystem, step: KKTStep, change: FirstOrder) -> tuple[np.ndarray, np.ndarray]:
    """The held weak limits after one change: the worst violated one is held, the one with the worst sign released."""
    (rows, controls), (weak_rows, weak_controls) = system.held, system.point.weak
    moving, pulls = (part[:, 0] for part in (system.along_all_rows(step) + change.c, system.of_all_rows(step.dnu)))
    moving = moving - np.where(weak_rows > 0, change.upper[:, 0], change.lower[:, 0])
    limit = np.where(weak_controls > 0, change.largest[..., 0], change.least[..., 0])
    crossing = weak_controls * (step.du[..., 0] - limit)
    gradient = system.gradient(change.gu, step)[..., 0]
    out_rows = weak_rows * np.where(rows == 0, moving, -pulls)
    out_controls = np.where(controls == 0, crossing, weak_controls * gradient)
    scale = 1e-9 * max(float(np.abs(step.du).max(initial=0.0)), 1e-300)
    worst = max(float(out_rows.max(initial=0.0)), float(out_controls.max(initial=0.0)))
    if worst > scale:
        rows = np.where(out_rows == worst, np.where(rows == 0, weak_rows, 0), rows)
        controls = np.where(out_controls == worst, np.where(controls == 0, weak_controls, 0), controls)
    return rows.astype(np.int8), controls.astype(np.int8)
