"""The best iterate of a solve that a time limit ends: without gaps, then within constraints, then of the least cost.

An iterate later on need not be better: gaps are closed, and multipliers moved, at the price of the cost.
"""

from __future__ import annotations

from typing import NamedTuple

from trajopt.solvers.iterate import Formulation
from trajopt.solvers.multipliers import measures
from trajopt.solvers.options import LoopOptions
from trajopt.solvers.state import State


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
