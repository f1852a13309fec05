"""Numbers of costs, residuals and constraints that may change while a solver stays prepared."""

from typing import Any, Protocol, Self


class Adjustable(Protocol):
    """What a term offers for `trajopt.solvers.prepared.PreparedSolver.update`.  Others stay as they are."""

    @property
    def adjustable(self) -> tuple[str, ...]:
        """Names of the attributes that may change."""
        ...

    def adjusted(self, **values: Any) -> Self:
        """A copy with other values of these attributes, of the shapes that they had; the rest is shared."""
        ...
