"""The schedule of mu, which is added to the diagonal of Quu, or of the states' Hessians where there are gaps.

It grows tenfold where a sweep or a line search fails and shrinks tenfold after a long step, down to exactly zero, so
that the last steps are pure Newton (or Gauss-Newton) steps.  A short step that closes a part of the gaps between states
and dynamics is a step forward, and mu stays.
"""

from dataclasses import dataclass, replace

FACTOR = 10.0
FIRST = 1e-6
"""Where mu starts when it is first needed; up to here it counts as small."""
VANISHING = 1e-9
LONG_STEP, SHORT_STEP = 0.3, 0.05


@dataclass(frozen=True)
class Regularization:
    """mu >= 0 in units of Quu, and the limit beyond which a solve gives up."""

    mu: float = 0.0
    limit: float = 1e10

    def increased(self) -> "Regularization":
        """After a sweep that was not positive definite, or a line search without an acceptable step."""
        return replace(self, mu=max(FACTOR * self.mu, FIRST))

    def after_step(self, alpha: float, closing: bool = False) -> "Regularization":
        """After an accepted step of this length, from an iterate with gaps if `closing`."""
        if alpha > LONG_STEP:
            if self.mu == 0.0:
                return self
            smaller = self.mu / FACTOR
            return replace(self, mu=smaller if smaller >= VANISHING else 0.0)
        return self.increased() if alpha < SHORT_STEP and not closing and self.mu < self.limit else self

    @property
    def small(self) -> bool:
        """True where mu does not disguise how far the optimum is."""
        return self.mu <= FIRST * (1.0 + 1e-9)

    @property
    def exhausted(self) -> bool:
        """True beyond the limit."""
        return self.mu > self.limit
