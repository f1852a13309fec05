"""The first acceptable step length of 1, 1/2, ..., 2^-7.

The model of the objective along a direction is J + alpha d1 + alpha^2/2 d2.  A step is accepted if it achieves a small
fraction of the decrease that the model predicts; where the model predicts no decrease (d2 large and positive), a still
smaller fraction of d1.  With gaps between states and dynamics, which shrink by 1 - alpha, the same holds for the merit
J + weight * sum |gaps|.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np

from dynamics.simd import decision
from trajopt.backward.backward_pass import ROUNDING, SUFFICIENT, SweepResult
from trajopt.backward.regularization import ATTEMPTS, LONG_STEP
from trajopt.solvers.formulation import (
    GAUSS_NEWTON,
    Candidate,
    Direction,
    Formulation,
    Iterate,
    LocalModel,
    remaining_gaps,
    rounding,
    sweep_of_kind,
)

INVISIBLE = 1e-12
"""Fraction of the cost below which a predicted decrease may not show in the cost itself; the same holds below the noise
that inexact steps of the dynamics bring into the cost.  And the difference, relative to 1 and to a control, beyond
which limits have clipped it."""
WORSE = 2.0
"""Ratio of violations, of what steps remove of them, of costs, or of gradients, above which one is worse than another
as more than rounding or an ordinary step makes it."""
LEAST_GAP_WEIGHT = 1e-3
"""Least weight of all gaps together, as a fraction of the cost."""
GAP_SHARE = 0.5
"""Least decrease of the merit that its weight ensures, as a fraction of the decrease that closing the gaps gives."""


def visible(model: LocalModel) -> float:
    """The least change that is more than rounding of the cost."""
    return max(INVISIBLE * abs(model.iterate.cost), rounding(model))


class Step(NamedTuple):
    """An accepted candidate, its cost with the terms of constraints, the problem's own cost, and rows of constraints
    (R,)."""

    candidate: Candidate
    cost: float
    own_cost: float
    c: np.ndarray | None

    @property
    def alpha(self) -> float:
        """The step length."""
        return self.candidate.alpha

    def end(self, gaps: np.ndarray | None, time: float) -> Iterate:
        """The iterate that it leads to, from one with these gaps, after so many seconds."""
        alpha, xs, us, controls = self.candidate
        left = remaining_gaps(gaps, alpha, xs)
        return Iterate(xs, us, controls, self.cost, left, time, self.own_cost)


class Rejected(NamedTuple):
    """The candidates that were rejected since the last step.

    not_finite : the last one with a state or a cost that is not finite
    misled : True if one was finite and predicted to lower the objective by more than its rounding
    """

    not_finite: Candidate | None = None
    misled: bool = False

    @property
    def blocked(self) -> Candidate | None:
        """The last candidate that was not finite, if none was finite; None otherwise."""
        return None if self.misled else self.not_finite

    def then(self, later: Rejected) -> Rejected:
        """These candidates and later ones together."""
        return Rejected(later.not_finite or self.not_finite, self.misled or later.misled)


@decision
def acceptable(cost, new_cost, alpha, d1, d2, noise=0.0):
    """True if new_cost is finite and low enough for a step of length alpha along a direction with (d1, d2), given the
    standard deviation `noise` of the costs."""
    return bool(new_cost <= cost - decrease_wanted(alpha, d1, d2) + ROUNDING * abs(cost) + noise)


@decision
def decrease_wanted(alpha, d1, d2):
    """Least decrease that a step of length alpha along a direction with (d1, d2) must achieve."""
    promised = -(alpha * d1 + 0.5 * alpha * alpha * d2)
    return SUFFICIENT * max(promised, -SUFFICIENT * alpha * d1)


@decision
def merit_weight(weight, change, gap, cost):
    """The weight of the gaps for which a full step with this predicted change of the objective lowers the merit.

    It never decreases, and all gaps together weigh at least a small fraction of the cost.
    """
    if gap <= 0.0:
        return weight
    size = abs(cost)
    least = LEAST_GAP_WEIGHT * (size if size > 0.0 else 1.0) / gap
    return max(weight, change / ((1.0 - GAP_SHARE) * gap), least if weight == 0.0 else 0.0)


Merit = Callable[[np.ndarray, np.ndarray], tuple[float, float, np.ndarray | None]]
"""The merit at xs, us and the problem's own cost, inf where they are not finite; and rows of constraints (R,), None if
there are none or the cost is not finite."""
Bound = Callable[[np.ndarray], bool]
"""True for rows of constraints (R,) to which a step may lead."""


def own_merit(cost: Callable[[np.ndarray, np.ndarray], float]) -> Merit:
    """The merit of a problem without constraints: its cost."""

    def merit(xs: np.ndarray, us: np.ndarray) -> tuple[float, float, None]:
        own = cost(xs, us)
        return own, own, None

    return merit


def search(
    merit: Merit,
    cost: float,
    expected: tuple[float, float],
    candidates: Iterable[Candidate],
    weighted_gap: float = 0.0,
    noise: float = 0.0,
    bound: Bound | None = None,
) -> tuple[Step | None, Rejected]:
    """The step to the first acceptable candidate, None if there is none; and the candidates that were rejected, among
    them those that diverged, of cost inf.

    Parameters: cost and weighted gaps of the iterate, the expected change (d1, d2) of the merit, its noise; the bound
    of rows of constraints.
    """
    (d1, d2), not_finite, misled = expected, None, False
    least = SUFFICIENT * (INVISIBLE * abs(cost + weighted_gap) + noise)
    for candidate in candidates:
        alpha, xs, us, _ = candidate
        new_cost, own, c = merit(xs, us)
        with_gaps = new_cost + (1.0 - alpha) * weighted_gap
        if not math.isfinite(new_cost):
            not_finite = candidate
        elif bound is not None and c is not None and not bound(c):
            misled = True
        elif acceptable(cost + weighted_gap, with_gaps, alpha, d1 - weighted_gap, d2, noise):
            return Step(candidate, new_cost, own, c), Rejected(not_finite, misled)
        elif decrease_wanted(alpha, d1 - weighted_gap, d2) > least:
            misled = True
    return None, Rejected(not_finite, misled)


class TrialStep(NamedTuple):
    """A direction and the step found along it, None if there is none; and the candidates that all searches rejected."""

    direction: Direction
    step: Step | None
    rejected: Rejected

    @property
    def long(self) -> bool:
        """True if the step is so long that no other direction is tried."""
        return self.step is not None and self.step.alpha >= LONG_STEP

    def or_better(self, other: TrialStep) -> TrialStep:
        """The trial that has the step with the lower cost."""
        worse = other.step is None or (self.step is not None and self.step.cost <= other.step.cost)
        return (self if worse else other)._replace(rejected=self.rejected.then(other.rejected))


class TrialSteps(NamedTuple):
    """Searches from an iterate: its model, the merit, the regularization, the weight of its gaps, the noise of its
    cost, and the bound of rows of constraints."""

    formulation: Formulation
    model: LocalModel
    merit: Merit
    mu: float
    gap_weight: float
    noise: float = 0.0
    bound: Bound | None = None

    def best(self, direction: Direction) -> TrialStep:
        """Search along the direction and, where that finds only a short step, along others in turn: with the controls
        held that limits clip; without curvature.  The step with the lowest cost is taken."""
        found = self.along(direction)
        for others in (self._with_clipped_controls_held, self.without_curvature):
            if found.long:
                break
            found = others(found)
        return found

    def along(self, direction: Direction) -> TrialStep:
        """Search along one direction."""
        iterate, sweep = self.model.iterate, direction.sweep
        with self.formulation.clock.measure("rollouts"):
            candidates, expected = self.formulation.candidates(self.model, sweep), (sweep.d1, sweep.d2)
            weighted = self.gap_weight * iterate.total_gap
            found = search(self.merit, iterate.cost, expected, candidates, weighted, self.noise, self.bound)
            return TrialStep(direction, *found)

    def _with_clipped_controls_held(self, best: TrialStep) -> TrialStep:
        """The best of directions that hold more and more of the controls that limits clip."""
        model, direction = self.model, best.direction
        sweep = direction.sweep
        for _ in range(ATTEMPTS):
            shut = hold_clipped(self.formulation, model, sweep)
            if shut is None:
                break
            model = shut
            sweep = sweep_of_kind(self.formulation, model, direction.kind, self.mu)
            held = direction._replace(sweep=sweep)
            if not sweep.ok or -held.change <= INVISIBLE * abs(model.iterate.cost):
                break
            best = best.or_better(self.along(held))
            if best.long:
                break
        return best

    def without_curvature(self, best: TrialStep) -> TrialStep:
        """The better one of an exact step and the Gauss-Newton step."""
        exact = best.direction
        if exact.kind == GAUSS_NEWTON:
            return best
        sweep = exact.fallback or sweep_of_kind(self.formulation, self.model, GAUSS_NEWTON, self.mu)
        if not sweep.ok:
            return best
        return best.or_better(self.along(Direction(GAUSS_NEWTON, sweep, None, exact.indefinite_knot)))


def hold_clipped(formulation: Formulation, model: LocalModel, sweep: SweepResult) -> LocalModel | None:
    """The model with its box closed for controls that lie on a limit and that the feedback of even the shortest step
    pushes against it; None if there are none.

    The sweep relies on such feedback, so its direction may lead uphill where the limit clips it.
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
    lower, upper = np.where(swallowed, 0.0, box.lower), np.where(swallowed, 0.0, box.upper)
    return model._replace(box=box._replace(lower=lower, upper=upper))
