"""Schedule of the regularization mu, which is added to the diagonal of Quu, or of the states' Hessians with gaps.

It grows tenfold where a sweep or a line search fails and shrinks tenfold after a long step, down to exactly zero, so
that the last steps are pure Newton (or Gauss-Newton) steps.  A short step that closes a part of the gaps between states
and dynamics counts as progress, and one at the rounding of the cost says nothing of the model: mu stays.

An indefinite exact Hessian is convexified by subtracting a share of its negative part: all at first, less after full
steps that gained more than predicted, as they do where the curvature along them is smaller than that of the model.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from dynamics.simd import decision
from trajopt.backward.expansions import HALF_PRECISION, Expansion

FACTOR = 10.0
"""Factor of every adaptation: of mu here, of penalties, and of the damping of least squares."""
FIRST = 1e-6
"""First nonzero value of mu; up to here it counts as small."""
KEPT = 0.1
"""Relative error of a predicted decrease that does not matter: a step that gains it up to this fraction gained it, and
the minimum of a model is known once a sweep lowers it by less than this fraction."""
LONG_STEP, SHORT_STEP = 0.25, 0.05
"""Length of a step beyond which mu falls, and below which multipliers stay and other directions are tried; and below
which mu rises."""
SHARE_FACTOR = 4.0
"""Factor by which the share of an indefinite Hessian's negative part changes."""
MORE, MUCH_LESS = 1.5, 0.3
"""The share falls if a full step gains more than MORE times the predicted decrease, and rises below MUCH_LESS times."""
ATTEMPTS = 8
"""Largest number of attempts in one iteration: increases of mu or of a damping, and further sweeps, until a step leads
somewhere."""
PATIENCE, LONGEST = 15, 40
"""Number of steps within which a search or a solve gets somewhere, and number after which it is given up."""
ORDINARY = 1e-6, 1e6
"""Range of the costs' curvature in the controls in which the unit of mu is 1; in the library's problems it is 4e-6 to
1e4.  Outside of it mu has another unit, so that it means the same whatever the units of costs and controls are."""


def curvature_scale(e: Expansion) -> float:
    """The unit of mu for costs with this expansion: 1 or, for costs in small or large units, the power of two next to
    the largest diagonal entry of luu + fu'lxx'fu, which is their curvature within one step."""
    with np.errstate(all="ignore"):
        diagonal = np.einsum("tii->ti", e.luu) + ((e.lxx[1:] @ e.fu) * e.fu).sum(axis=1)
    largest = float(np.abs(diagonal).max(initial=0.0))
    if largest == 0.0 or not math.isfinite(largest) or ORDINARY[0] <= largest <= ORDINARY[1]:
        return 1.0
    return 2.0 ** round(math.log2(largest))


@decision
def increased(mu):
    """mu after a sweep that was not positive definite, or a line search without an acceptable step."""
    return max(FACTOR * mu, FIRST)


@decision
def mu_after_step(mu, alpha, limit, excused):
    """mu after an accepted step of length alpha; excused: True where a short one says nothing of the model."""
    if alpha > LONG_STEP:
        smaller = mu / FACTOR
        return smaller if smaller >= HALF_PRECISION else 0.0
    return increased(mu) if alpha < SHORT_STEP and not excused and mu < limit else mu


@decision
def small(mu):
    """True if mu is so small that the predicted decrease is reliable."""
    return mu <= FIRST * (1.0 + 1e-9)


@dataclass(frozen=True)
class Regularization:
    """Regularization mu >= 0, and the limit beyond which a solve gives up; `share` of the negative part of an
    indefinite Hessian that is subtracted; `scale`: unit of mu, in that of Quu."""

    mu: float = 0.0
    limit: float = 1e10
    share: float = 1.0
    scale: float = 1.0

    @property
    def shift(self) -> float:
        """The shift of diagonals, in the units of Quu."""
        return self.mu * self.scale

    def with_mu(self, mu: float) -> Regularization:
        """The regularization with another mu."""
        return replace(self, mu=mu)

    def increased(self) -> Regularization:
        """The regularization after a sweep that was not positive definite, or a line search without an acceptable
        step."""
        return replace(self, mu=increased(self.mu))

    def after_step(self, alpha: float, excused: bool = False) -> Regularization:
        """The regularization after an accepted step of length alpha; excused: True where a short one says nothing of
        the model, as it closes gaps or its predicted decrease is below the rounding of the cost."""
        mu = mu_after_step(self.mu, alpha, self.limit, excused)
        return self if mu == self.mu else replace(self, mu=mu)

    def with_larger_share(self) -> Regularization:
        """The regularization with a larger share, where a sweep with the present one was not positive definite."""
        return replace(self, share=min(1.0, SHARE_FACTOR * self.share))

    def after_convexified(self, alpha: float, gain: float, promise: float) -> Regularization:
        """The regularization after a step of length alpha with the positive part of a Hessian."""
        if alpha == 1.0 and gain > MORE * promise:
            return replace(self, share=max(self.share / SHARE_FACTOR, HALF_PRECISION))
        return self.with_larger_share() if alpha <= LONG_STEP or gain < MUCH_LESS * promise else self

    @property
    def small(self) -> bool:
        """True if mu is so small that the predicted decrease is reliable."""
        return small(self.mu)

    @property
    def exhausted(self) -> bool:
        """True if mu is beyond its limit."""
        return self.mu > self.limit
