"""The step of an iteration: a search along its direction and, where that gives a short step at best, along others.

In turn: with the limits of constraints that the full step runs into taken to press (a primal-dual active set step),
with controls held that limits clip, without curvature.  The step that leads to the lowest cost is taken.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from trajopt.backward.box_qp import box_around
from trajopt.backward.sweep import SweepResult
from trajopt.problem.objective import all_finite
from trajopt.solvers.iterate import GAUSS_NEWTON, Direction, Formulation, LocalModel, sweep_of_kind
from trajopt.solvers.line_search import Candidate, Refused, Step, search
from trajopt.solvers.predicted_change import with_gradient_of
from trajopt.solvers.timing import Stopwatch

LONG_STEP = 0.25
"""A step that must be shorter than this is compared with others."""
HOLDS = 8
ACTIVE_SETS = 3
"""Directions tried with other limits of constraints taken to press, held controls aside."""


class Attempt(NamedTuple):
    """A direction and the step found along it, if any; the full step tried last, and what all searches refused."""

    direction: Direction
    step: Step | None
    full: Candidate
    refused: Refused

    @property
    def long(self) -> bool:
        """Whether no other direction is worth a try."""
        return self.step is not None and self.step.alpha >= LONG_STEP

    def or_better(self, other: Attempt) -> Attempt:
        """The one whose step leads to the lower cost."""
        worse = other.step is None or (self.step is not None and self.step.cost <= other.step.cost)
        return (self if worse else other)._replace(full=other.full, refused=self.refused.then(other.refused))


class Attempts(NamedTuple):
    """What searches from an iterate have in common: its model, the regularization, the weight of its gaps."""

    formulation: Formulation
    model: LocalModel
    mu: float
    gap_weight: float
    clock: Stopwatch

    def best(self, direction: Direction) -> Attempt:
        """Search along the direction; where it is good for a short step at best, along others too."""
        found = self.along(direction)
        for others in (self._with_limits_pressing, self._with_clipped_controls_held, self._without_curvature):
            if found.long:
                break
            found = others(found)
        return found

    def along(self, direction: Direction) -> Attempt:
        """Search along one direction."""
        iterate, sweep = self.model.iterate, direction.sweep
        with self.clock.measure("rollouts"):
            candidates, expected = self.formulation.candidates(self.model, sweep), (sweep.d1, sweep.d2)
            weighted = self.gap_weight * iterate.total_gap
            return Attempt(direction, *search(self.formulation.objective, iterate.cost, expected, candidates, weighted))

    def _with_limits_pressing(self, best: Attempt) -> Attempt:
        """The best of directions that take those limits of constraints to press that the last full step ran into.

        The model of the iterate knows only of limits that press there [primal-dual active sets: Hintermueller, Ito
        and Kunisch 2002].
        """
        direction, seen = best.direction, set[bytes]()
        for _ in range(ACTIVE_SETS):
            if not (all_finite(best.full.xs) and all_finite(best.full.us)):
                break
            found = self.formulation.with_limits_at(self.model, best.full, self.clock)
            if found is None:
                break
            model, limits = found
            if limits in seen:
                break
            seen.add(limits)
            sweep = sweep_of_kind(self.formulation, model, direction.kind, self.mu, self.clock)
            sweep = with_gradient_of(self.model.expansion, self.model.iterate.gaps, sweep)
            if not sweep.ok or sweep.d1 >= 0.0:
                break
            best = best.or_better(self.along(direction._replace(sweep=sweep)))
            if best.long:
                break
        return best

    def _with_clipped_controls_held(self, best: Attempt) -> Attempt:
        """The best of directions that hold ever more of the controls that limits clip."""
        model, direction = self.model, best.direction
        sweep = direction.sweep
        for _ in range(HOLDS):
            held = hold_clipped(self.formulation, model, sweep)
            if held is None:
                break
            model = held
            sweep = sweep_of_kind(self.formulation, model, direction.kind, self.mu, self.clock)
            if not sweep.ok:
                break
            best = best.or_better(self.along(direction._replace(sweep=sweep)))
            if best.long:
                break
        return best

    def _without_curvature(self, best: Attempt) -> Attempt:
        """The better one of an exact step and the Gauss-Newton step."""
        exact = best.direction
        if exact.kind == GAUSS_NEWTON:
            return best
        sweep = exact.fallback or sweep_of_kind(self.formulation, self.model, GAUSS_NEWTON, self.mu, self.clock)
        if not sweep.ok:
            return best
        return best.or_better(self.along(Direction(GAUSS_NEWTON, sweep, None, exact.indefinite_knot)))


def hold_clipped(formulation: Formulation, model: LocalModel, sweep: SweepResult) -> LocalModel | None:
    """The model with its box closed for controls that lie on a limit and that even the shortest step's feedback pushes
    against it; None if there are none (anymore).

    The sweep counts on such feedback, so its direction may lead uphill where the limit swallows it.
    """
    if formulation.limits is None or model.box is None:
        return None
    (lower, upper), (xs, us, *_), box = formulation.limits, model.iterate, model.box
    *_, shortest = formulation.candidates(model, sweep)
    if not np.isfinite(shortest.xs[:-1]).all():
        return None
    dx = formulation.problem.system.difference(xs[:-1], shortest.xs[:-1])
    wanted = us + shortest.alpha * sweep.k + np.einsum("tij,tj->ti", sweep.K, dx)
    swallowed = ((us <= lower) & (wanted < lower)) | ((us >= upper) & (wanted > upper))
    if not swallowed.any():
        return None
    shut = box_around(us, lower, upper)
    shut.lower[...], shut.upper[...] = np.where(swallowed, 0.0, box.lower), np.where(swallowed, 0.0, box.upper)
    return model._replace(box=shut)
