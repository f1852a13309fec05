"""State of a solve between its iterations, and how states are ranked where a time limit ends a solve."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from trajopt.backward.regularization import Regularization
from trajopt.results.records import IterationRecord, Status
from trajopt.solvers.augmented_lagrangian import Multipliers
from trajopt.solvers.formulation import Direction, Iterate, LocalModel
from trajopt.solvers.line_search import Rejected

Log = tuple[IterationRecord, ...]


IDLE = 3
"""Number of steps in a row without a gain after which an iterate counts as a minimum."""


class Stall(NamedTuple):
    """What does not go on: the number of steps in a row whose gain is below the rounding of the cost, and the
    candidates that line searches rejected since the last step."""

    idle: int = 0
    rejected: Rejected = Rejected()


class Feasibility(NamedTuple):
    """What searches for feasibility know: the first iterate of the solve; of the last check the number of steps tried
    by then, and the largest violation of scaled rows; weights (R,) of rows which show that these contradict each other,
    None if nothing does."""

    first: Iterate
    tried: int
    violation: float
    certificate: np.ndarray | None = None


class State(NamedTuple):
    """State of a solve between its iterations.

    model : of the last iterate
    regularization : for the next sweep
    predicted : predicted decrease of the merit for a full step along the last direction
    log : a record of every step tried, of searches for feasibility too; where a solve has ended, also the final iterate
    multipliers, feasibility : of the constraints; None if there are none
    gap_weight : weight of the gaps in the merit
    direction : the last one found, of the loop that goes on from an iterate; None before its first
    stall : steps in a row without a gain, and rejected candidates
    status : the reason why the solve has ended; None if it has not
    """

    model: LocalModel
    regularization: Regularization
    predicted: float
    log: Log
    multipliers: Multipliers | None = None
    feasibility: Feasibility | None = None
    gap_weight: float = 0.0
    direction: Direction | None = None
    stall: Stall = Stall()
    status: Status | None = None

    @property
    def tried(self) -> int:
        """Number of steps tried so far; each has its record."""
        return len(self.log) - (self.status is not None)


class Ranked(NamedTuple):
    """A state and its rank, smaller is better: sum of gaps; largest violation beyond the tolerance, else 0; cost.  An
    iterate later on need not be better: gaps are closed, and constraints met, at the expense of the cost."""

    rank: tuple[float, float, float]
    state: State

    def at_end(self, last: State) -> State:
        """This state as the end of a solve whose last state is another one."""
        return self.state._replace(status=last.status, log=last.log)


def better(known: Ranked | None, new: Ranked) -> Ranked:
    """The better one of two, the new one where neither is."""
    return new if known is None or new.rank <= known.rank else known
