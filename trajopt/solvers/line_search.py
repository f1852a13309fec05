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

from trajopt.problem.objective import Objective

SUFFICIENT = 1e-4
ROUNDING = 1e-14
"""Relative rounding error of a sum of costs, below which an increase does not count."""
INVISIBLE = 1e-12
"""Fraction of the cost below which a predicted decrease may not show in the cost itself; the same holds below the noise
that inexact steps of the dynamics bring into the cost."""
LEAST_GAP_WEIGHT = 1e-3
GAP_SHARE = 0.5
"""Least decrease of the merit that its weight ensures, as a fraction of the decrease that closing the gaps gives."""


class Candidate(NamedTuple):
    """A trajectory along a direction: step length, states, controls, and the sweep's controls there."""

    alpha: float
    xs: np.ndarray
    us: np.ndarray
    controls: np.ndarray


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


class LineSearchResult(NamedTuple):
    """The step found, None if there is none, and the candidates rejected."""

    step: Step | None
    rejected: Rejected


def acceptable(cost: float, new_cost: float, alpha: float, d1: float, d2: float, noise: float = 0.0) -> bool:
    """True if new_cost is finite and low enough for a step of length alpha along a direction with (d1, d2), given the
    standard deviation `noise` of the costs."""
    return bool(new_cost <= cost - decrease_wanted(alpha, d1, d2) + ROUNDING * abs(cost) + noise)


def decrease_wanted(alpha: float, d1: float, d2: float) -> float:
    """Least decrease that a step of length alpha along a direction with (d1, d2) must achieve."""
    promised = -(alpha * d1 + 0.5 * alpha**2 * d2)
    return SUFFICIENT * max(promised, -SUFFICIENT * alpha * d1)


def merit_weight(weight: float, change: float, gap: float, cost: float) -> float:
    """The weight of the gaps for which a full step with this predicted change of the objective lowers the merit.

    It never decreases, and all gaps together weigh at least a small fraction of the cost.
    """
    if gap <= 0.0:
        return weight
    least = LEAST_GAP_WEIGHT * (abs(cost) or 1.0) / gap
    return max(weight, change / ((1.0 - GAP_SHARE) * gap), least if weight == 0.0 else 0.0)


Merit = Callable[[np.ndarray, np.ndarray], tuple[float, float, np.ndarray | None]]
"""The merit at xs, us and the problem's own cost, inf where they are not finite; and rows of constraints (R,), None if
there are none or the cost is not finite."""


def own_merit(objective: Objective) -> Merit:
    """The merit of a problem without constraints: its cost."""

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
    """The first acceptable candidate.  Candidates that diverged have the cost inf and are rejected.

    Parameters: cost and weighted gaps of the iterate, the expected change (d1, d2) of the merit, its noise.
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
