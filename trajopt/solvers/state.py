"""Where a solve has come to, and what an iteration of it goes by."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from trajopt.backward.regularization import Regularization
from trajopt.results.records import IterationRecord, Status
from trajopt.solvers.iterate import Direction, Formulation, Iterate, LocalModel
from trajopt.solvers.line_search import Rejected, merit_weight
from trajopt.solvers.multipliers import Multipliers, measures
from trajopt.solvers.options import LoopOptions
from trajopt.solvers.trial_steps import TrialStep

Log = tuple[IterationRecord, ...]


IDLE = 3
"""Steps in a row without a gain after which an iterate counts as a minimum."""


class Checked(NamedTuple):
    """When it was last looked whether constraints are being met: steps tried, and the largest violation of scaled rows
    then."""

    tried: int = 0
    violation: float = np.inf


class State(NamedTuple):
    """Where a solve has come to.

    model : of the last iterate
    regularization : for the next sweep
    predicted : decrease of the merit that the last direction promised for a full step
    log : a record of every step tried, whatever it was tried for; one more, the final iterate, where a solve has ended
    multipliers : of the constraints; None if there are none
    gap_weight : of the gaps in the merit
    direction : the last one found, of the loop that goes on from an iterate; None before its first
    without_curvature : whether the iterate has curvature that is not finite, and the direction does without
    rejected : what line searches met since the last step
    idle : steps in a row that gained nothing that shows in the cost
    again : how often mu began anew where no step was found with a large one
    trusted : whether the last step was a full one and gained what it promised
    violation : sum of the violations of scaled rows where that step began
    checked : when constraints were last looked after
    first : the first iterate, where there are constraints
    certificate : weights (R,) of rows which show that these contradict each other; None if nothing does
    stopping : whether the callback wants an end
    status : why the solve has ended; None if it has not
    saddle : what is said of a saddle that the solve has ended at and did not leave
    """

    model: LocalModel
    regularization: Regularization
    predicted: float
    log: Log
    multipliers: Multipliers | None = None
    gap_weight: float = 0.0
    direction: Direction | None = None
    without_curvature: bool = False
    rejected: Rejected = Rejected()
    idle: int = 0
    again: int = 0
    trusted: bool = False
    violation: float = np.inf
    checked: Checked = Checked()
    first: Iterate | None = None
    certificate: np.ndarray | None = None
    stopping: bool = False
    status: Status | None = None
    saddle: str = ""

    @property
    def tried(self) -> int:
        """Steps so far: each has its record."""
        return len(self.log) - (self.status is not None)


class FoundDirection(NamedTuple):
    """The direction of an iteration, None and why if there is none; the model, the multipliers and the regularization
    it was found with; the search along it, if that was made already."""

    direction: Direction | None
    model: LocalModel
    regularization: Regularization
    without_curvature: bool = False
    status: Status | None = None
    multipliers: Multipliers | None = None
    trial: TrialStep | None = None


def expected_decrease(iterate: Iterate, direction: Direction, gap_weight: float) -> tuple[float, float]:
    """The weight of the gaps, and the decrease of the merit that the model predicts for a full step."""
    gap = iterate.total_gap
    weight = merit_weight(gap_weight, direction.change, gap, iterate.cost)
    return weight, max(0.0, weight * gap - direction.change)


# --------------------------------------------------------------------------------------------
# The best iterate of a solve that a time limit ends: without gaps, then within constraints, then of the least cost.
#
# An iterate later on need not be better: gaps are closed, and multipliers moved, at the price of the cost.


class Ranked(NamedTuple):
    """A state and its rank, smaller if better: sum of gaps; largest violation beyond the tolerance, else 0; cost."""

    rank: tuple[float, float, float]
    state: State

    def at_end(self, last: State) -> State:
        """This state as the end of a solve that has come to another one."""
        return self.state._replace(status=last.status, log=last.log)


def ranked(formulation: Formulation, state: State, options: LoopOptions) -> Ranked:
    """A state with its rank; soft constraints count as cost."""
    rows, (iterate, at) = formulation.rows, (state.model.iterate, state.model.rows)
    if rows is None or at is None or options.soft_penalty > 0.0:
        return Ranked((iterate.total_gap, 0.0, iterate.cost), state)
    violation = measures(rows, at.c, at.dual).excess
    beyond = violation if violation > options.feasibility_tolerance else 0.0
    return Ranked((iterate.total_gap, beyond, iterate.own_cost), state)


def better(known: Ranked | None, new: Ranked) -> Ranked:
    """The better one of two, the new one where neither is."""
    return new if known is None or new.rank <= known.rank else known
