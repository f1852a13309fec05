"""The schedule of mu, which is added to the diagonal of Quu, or of the states' Hessians where there are gaps.

It grows tenfold where a sweep or a line search fails and shrinks tenfold after a long step, down to exactly zero, so
that the last steps are pure Newton (or Gauss-Newton) steps.  A short step that closes a part of the gaps between states
and dynamics is a step forward, and mu stays.

An exact Hessian that is indefinite loses a share of what is negative of it: all at first, less after full steps that
gained more than they promised, as they do where the curvature along them is not as large as what is left of it says.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from trajopt.backward.expansions import Expansion

FACTOR = 10.0
FIRST = 1e-6
"""Where mu starts when it is first needed; up to here it counts as small."""
VANISHING = 1e-9
LONG_STEP, SHORT_STEP = 0.3, 0.05
SHARE_FACTOR, LEAST_SHARE = 4.0, 1e-8
MORE, MUCH_LESS = 1.5, 0.3
"""The share falls where a full step gains so many times what it promised, and rises where it is not even this part."""
ORDINARY = 1e-6, 1e6
"""Curvatures of costs in controls among which mu is counted in units of 1; of the library's problems they are 4e-6 to
1e4.  Others have a unit of their own, so that mu means the same whatever the units of costs and controls are."""


def curvature_scale(e: Expansion) -> float:
    """The unit of mu for costs with this expansion: 1, or for costs in small or large units the power of two next to
    the largest diagonal entry of luu + fu'lxx'fu, which is their curvature within one step."""
    diagonal = np.einsum("tii->ti", e.luu) + np.einsum("tji,tjk,tki->ti", e.fu, e.lxx[1:], e.fu, optimize=True)
    largest = float(np.abs(diagonal).max(initial=0.0))
    if largest == 0.0 or not math.isfinite(largest) or ORDINARY[0] <= largest <= ORDINARY[1]:
        return 1.0
    return 2.0 ** round(math.log2(largest))


@dataclass(frozen=True)
class Regularization:
    """mu >= 0, and the limit beyond which a solve gives up; `share`: of what is negative of an indefinite Hessian, that
    is taken away; `unit` of mu, in that of Quu."""

    mu: float = 0.0
    limit: float = 1e10
    share: float = 1.0
    scale: float = 1.0

    @property
    def shift(self) -> float:
        """What is added to diagonals, in the units of Quu."""
        return self.mu * self.scale

    def increased(self) -> Regularization:
        """After a sweep that was not positive definite, or a line search without an acceptable step."""
        return replace(self, mu=max(FACTOR * self.mu, FIRST))

    def after_step(self, alpha: float, closing: bool = False) -> Regularization:
        """After an accepted step of this length, from an iterate with gaps if `closing`."""
        if alpha > LONG_STEP:
            if self.mu == 0.0:
                return self
            smaller = self.mu / FACTOR
            return replace(self, mu=smaller if smaller >= VANISHING else 0.0)
        return self.increased() if alpha < SHORT_STEP and not closing and self.mu < self.limit else self

    def with_larger_share(self) -> Regularization:
        """Where a sweep with the present share was not positive definite."""
        return replace(self, share=min(1.0, SHARE_FACTOR * self.share))

    def after_convexified(self, alpha: float, gain: float, promise: float) -> Regularization:
        """After a step of this length with what is positive of a Hessian."""
        if alpha == 1.0 and gain > MORE * promise:
            return replace(self, share=max(self.share / SHARE_FACTOR, LEAST_SHARE))
        return self.with_larger_share() if alpha < LONG_STEP or gain < MUCH_LESS * promise else self

    @property
    def small(self) -> bool:
        """True where mu does not disguise how far the optimum is."""
        return self.mu <= FIRST * (1.0 + 1e-9)

    @property
    def exhausted(self) -> bool:
        """True beyond the limit."""
        return self.mu > self.limit
