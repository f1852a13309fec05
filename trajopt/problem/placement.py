"""Residuals inside costs and constraints, and terms of the objective from lists of costs."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from trajopt.costs import Cost
from trajopt.interfaces.knots import Where, is_span, knots_at
from trajopt.interfaces.system import System
from trajopt.problem.objective import Term

SLOTS = "cost", "residual"
"""Attributes in which costs and constraints hold what they are built from."""


class WithResiduals:
    """Function that returns costs, constraints and residuals with their residuals replaced.

    Objects that several of them share stay shared; one in which nothing changes is returned itself.

    Parameters
    ----------
    change : function of a residual that returns another one, or the residual itself
    """

    def __init__(self, change: Callable[[Any], Any]) -> None:
        self._change = change
        self._known: dict[int, tuple[Any, Any]] = {}

    def __call__(self, term: Any) -> Any:
        """The term with its residuals replaced."""
        if id(term) not in self._known:
            self._known[id(term)] = term, self._changed(term)
        return self._known[id(term)][1]

    def _changed(self, term: Any) -> Any:
        slot = next((slot for slot in SLOTS if getattr(term, slot, None) is not None), None)
        if slot is None:
            return self._change(term)
        before = getattr(term, slot)
        after = self(before)
        if after is before:
            return term
        new = copy.copy(term)
        setattr(new, slot, after)
        return new


# --------------------------------------------------------------------------------------------
# From lists of costs to terms: the knots at which each counts, its factor, and its references.
#
# A running cost in a plain list is integrated: a knot counts by its duration, and not at all without one.  A cost with
# instants for ``at`` (`trajopt.interfaces.knots`) counts at each of them unscaled, so that it means the same at any
# time step; so does one that is listed for a knot without duration in N lists, one per knot.  Costs at the last knot
# become terminal costs.  References that are functions of time are evaluated here.


class Placement(NamedTuple):
    """Costs without functions of time, listed as in `Problem`, each with its knots; and their terms."""

    running: tuple[Any, ...]
    terminal: tuple[Cost, ...]
    terms: tuple[Term, ...]


def where_of(cost: Cost) -> Where | None:
    """The `at` of a cost; None if it has none."""
    return getattr(cost, "at", None)


class Placer:
    """Assigns costs of a system to knots at times (N+1,) with durations (N,), both in seconds."""

    def __init__(self, system: System, times: np.ndarray, durations: np.ndarray) -> None:
        self.system, self.times, self.durations = system, times, durations
        self.last = len(durations)

    def place(self, running: Sequence[Any], terminal: Sequence[Cost]) -> Placement:
        """All costs of a problem, checked for the system.  Raises ValueError, naming the argument or the cost."""
        if running and isinstance(running[0], tuple):
            lists, terms, late = *self._lists(running), []
        else:
            lists, terms, late = self._plain(running)
        ends = [self._at_the_end(cost) for cost in terminal]
        for cost in late:
            cost.check(self.system, True)
        ends += late
        return Placement(tuple(lists), tuple(ends), (*terms, *(Term(cost, None, 1.0, True) for cost in ends)))

    def _plain(self, costs: Sequence[Cost]) -> tuple[list[Cost], list[Term], list[Cost]]:
        """The costs of a plain list, their terms, and their parts at the last knot."""
        placed, terms, late = [], [], []
        for cost in costs:
            at = where_of(cost)
            knots = knots_at("path" if at is None else at, self.times, self._owner(cost))
            if is_span(at):
                timed = self.durations[knots[knots < self.last]] > 0.0
                knots = knots[np.append(timed, np.full(len(knots) - len(timed), at == "all"))]
                if not len(knots) and at is not None:
                    raise ValueError(f"at: {self._owner(cost)} got {at!r}, where no knot takes time")
            before = knots < self.last
            if before.any() or at is None:
                part = self._part(cost, knots, before, "path" if at == "all" else at)
                placed.append(part)
                terms += self._term(part, knots[before], is_span(at))
            if not before.all():
                late.append(self._part(cost, knots, ~before, "terminal"))
        return placed, terms, late

    def _lists(self, lists: Sequence[tuple[Cost, ...]]) -> tuple[list[tuple[Cost, ...]], list[Term]]:
        """N lists of costs, one per knot; a cost in several lists is one term."""
        members: dict[int, tuple[Cost, list[int]]] = {}
        for t, of_knot in enumerate(lists):
            for cost in of_knot:
                if where_of(cost) is not None:
                    raise ValueError(
                        f"running_costs[{t}]: {self._owner(cost)} has at={where_of(cost)!r}, expected a plain list of "
                        "costs, or a cost without at="
                    )
                members.setdefault(id(cost), (cost, []))[1].append(t)
        placed, terms = {}, []
        for key, (cost, at) in members.items():
            knots = np.array(at)
            placed[key] = self._part(cost, knots, np.full(len(knots), True), None)
            terms += self._term(placed[key], knots, True)
        return [tuple(placed[id(cost)] for cost in of_knot) for of_knot in lists], terms

    def _at_the_end(self, cost: Cost) -> Cost:
        at = where_of(cost)
        if at is not None and (at == "all" or is_span(at) or list(knots_at(at, self.times)) != [self.last]):
            raise ValueError(f"terminal_costs: {self._owner(cost)} has at={at!r}, expected it among the running_costs")
        return self._part(cost, np.array([self.last]), np.array([True]), at)

    def _part(self, cost: Cost, knots: np.ndarray, chosen: np.ndarray, at: Where | None) -> Cost:
        """The part of a cost at the chosen ones of its knots."""
        rows, part = np.flatnonzero(chosen), cost
        placed = getattr(cost, "placed", None)
        if placed is not None and len(rows):
            part = placed(self.system, knots, rows, self.times)
        if not chosen.all():
            part = copy.copy(cost) if part is cost else part
            part.at = tuple(knots[rows].tolist()) if isinstance(at, tuple) else at  # pyright: ignore
        return part

    def _term(self, cost: Cost, knots: np.ndarray, weighed: bool) -> list[Term]:
        """The cost as at most one term; a knot counts by its duration if `weighed` and it has one."""
        scales = np.ones(len(knots))
        if weighed:
            scales = np.where(self.durations[knots] > 0.0, self.durations[knots], 1.0)
        if not len(knots):
            return []
        if (scales != scales[0]).any():
            return [Term(cost, knots, scales, False)]
        return [Term(cost, None if len(knots) == self.last else knots, float(scales[0]), False)]

    def _owner(self, cost: Cost) -> str:
        return repr(Term(cost, None, 1.0, False).name)
