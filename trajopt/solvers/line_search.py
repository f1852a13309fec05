"""The first acceptable step length of 1, 1/2, ..., 2^-7.

The model of the objective along a direction is J + alpha d1 + alpha^2/2 d2.  A step is accepted if it achieves a small
part of what the model promises; where the model promises nothing (d2 large and positive), a still smaller part of
d1.  Where there are gaps between states and dynamics, which shrink by 1 - alpha, the same holds for the merit
J + weight * sum |gaps|.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np

from trajopt.problem.objective import Objective

SUFFICIENT = 1e-4
ROUNDING = 1e-14
"""Relative error of a sum of costs: an increase this small is no increase."""
INVISIBLE = 1e-12
"""A predicted decrease below this fraction of the cost may not show in the cost itself; nor does what is below the
noise of the dynamics, as their steps bring it into the cost."""
LEAST_GAP_WEIGHT = 1e-3
GAP_SHARE = 0.5
"""The merit's weight lets the model's decrease of the merit be at least this share of what closing the gaps gives."""


class Candidate(NamedTuple):
    """A trajectory along a direction, its step length, and what the sweep's controls are there."""

    alpha: float
    xs: np.ndarray
    us: np.ndarray
    controls: np.ndarray


class Step(NamedTuple):
    """An accepted candidate, what it costs, what of that is the problem's own cost, and rows of constraints (R,)."""

    candidate: Candidate
    cost: float
    own_cost: float
    c: np.ndarray | None

    @property
    def alpha(self) -> float:
        """The step length."""
        return self.candidate.alpha


class Rejected(NamedTuple):
    """What is known of the candidates that were rejected since the last step.

    not_finite : the last one with a state or a cost that is not finite
    misled : one was finite, and was to lower the objective by more than its rounding
    """

    not_finite: Candidate | None = None
    misled: bool = False

    @property
    def blocked(self) -> Candidate | None:
        """What stands in the way of every step, if it is that nothing there is finite."""
        return None if self.misled else self.not_finite

    def then(self, later: Rejected) -> Rejected:
        """Both together."""
        return Rejected(later.not_finite or self.not_finite, self.misled or later.misled)


class LineSearchResult(NamedTuple):
    """The step found, if any, and the candidates rejected."""

    step: Step | None
    rejected: Rejected


def acceptable(cost: float, new_cost: float, alpha: float, d1: float, d2: float, noise: float = 0.0) -> bool:
    """True if new_cost is finite and low enough for a step of length alpha along a direction with (d1, d2), known but
    for its noise."""
    return bool(new_cost <= cost - decrease_wanted(alpha, d1, d2) + ROUNDING * abs(cost) + noise)


def decrease_wanted(alpha: float, d1: float, d2: float) -> float:
    """What a step of length alpha along a direction with (d1, d2) must achieve."""
    promised = -(alpha * d1 + 0.5 * alpha**2 * d2)
    return SUFFICIENT * max(promised, -SUFFICIENT * alpha * d1)


def merit_weight(weight: float, change: float, gap: float, cost: float) -> float:
    """The weight of the gaps for which a full step with this predicted change of the objective lowers the merit.

    It never falls, and lets all gaps together weigh at least a small part of the cost.
    """
    if gap <= 0.0:
        return weight
    least = LEAST_GAP_WEIGHT * (abs(cost) or 1.0) / gap
    return max(weight, change / ((1.0 - GAP_SHARE) * gap), least if weight == 0.0 else 0.0)


Merit = Callable[[np.ndarray, np.ndarray], tuple[float, float, np.ndarray | None]]
"""What is minimized at xs, us, and what of that is the problem's own cost; inf where that is not finite.  And rows of
constraints (R,), where there are any and the cost is finite."""


def own_merit(objective: Objective) -> Merit:
    """The cost alone."""

    def merit(xs: np.ndarray, us: np.ndarray) -> tuple[float, float, None]:
        cost = objective.value(xs, us)
        return cost, cost, None

    return merit


def search(
    merit: Merit,
    cost: float,
    expected: tuple[float, float],
    candidates: Iterable[Candidate],
    weighted_gap: float = 0.0,
    noise: float = 0.0,
) -> LineSearchResult:
    """The first acceptable candidate.  Those that diverged cost inf and are rejected.

    Parameters: cost and weighted gaps of the iterate, the expected change (d1, d2) of what is minimized, its noise.
    """
    (d1, d2), not_finite, misled = expected, None, False
    least = SUFFICIENT * (INVISIBLE * abs(cost + weighted_gap) + noise)
    for candidate in candidates:
        alpha, xs, us, _ = candidate
        new_cost, own, c = merit(xs, us)
        with_gaps = new_cost + (1.0 - alpha) * weighted_gap
        if not math.isfinite(new_cost):
            not_finite = candidate
        elif acceptable(cost + weighted_gap, with_gaps, alpha, d1 - weighted_gap, d2, noise):
            return LineSearchResult(Step(candidate, new_cost, own, c), Rejected(not_finite, misled))
        elif decrease_wanted(alpha, d1 - weighted_gap, d2) > least:
            misled = True
    return LineSearchResult(None, Rejected(not_finite, misled))
