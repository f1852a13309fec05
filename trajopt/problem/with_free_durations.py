"""Problems with free durations from problems with given ones, and the cost of time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dynamics.simd.array_loops import fill
from dynamics.simd.prepared_calls import PreparedCall, PreparedCalls
from dynamics.validation import as_not_negative
from trajopt.interfaces.residual import at_knots
from trajopt.interfaces.system import System
from trajopt.problem.constraints import ControlBounds, ResidualConstraint
from trajopt.problem.free_duration import FreeDurationSystem
from trajopt.problem.lifted_terms import LiftedCost
from trajopt.problem.periodic import Periodic
from trajopt.problem.problem import Problem, WithResiduals, check_problem

# --------------------------------------------------------------------------------------------
# The cost of time.


class TimeCost(LiftedCost):
    """The time that a trajectory takes, times a weight: a running cost.

    Parameters
    ----------
    system : FreeDurationSystem
    weight : number, 1/s, not negative
    """

    def __init__(self, system: FreeDurationSystem, weight: float = 1.0) -> None:
        if not isinstance(system, FreeDurationSystem):
            raise TypeError(f"system: got {type(system).__name__}, expected a trajopt.FreeDurationSystem")
        self.weight = as_not_negative("weight", weight)
        super().__init__(system, _Constant(self.weight), True)
        self.name = "time"


class _Constant:
    """The cost of a unit of time."""

    def __init__(self, weight: float) -> None:
        self.weight = weight

    def check(self, system: System, terminal: bool) -> None:
        if terminal:
            raise ValueError("terminal_costs: got a TimeCost, expected costs of the state")

    def value(self, xs, us):
        return np.full(len(xs), self.weight)

    def accumulate(self, xs, us, scale, target):
        pass

    accumulate_curvature = accumulate

    def prepared_value(self, xs, us, values):
        return PreparedCall(fill, values, self.weight)

    def prepared_accumulation(self, xs, us, scale, target, curvature):
        return PreparedCalls()


# --------------------------------------------------------------------------------------------
# A problem whose phases take as long as is best, from one whose durations are given.


def with_free_durations(
    problem: Problem,
    time_weight: float = 0.0,
    bounds: ArrayLike = (0.2, 3.0),
    phases: Sequence[int] | None = None,
) -> Problem:
    """The same problem with a free duration for each phase, and a cost of the time that all take.

    Parameters
    ----------
    problem : Problem, of a system that can step for any time
    time_weight : 1/s, not negative; the cost of a second, besides running costs, which are integrated over time
    bounds, phases : as for `FreeDurationSystem`

    Returns
    -------
    Problem, of a `FreeDurationSystem`: states and controls have one more number, and each phase one more knot in front.
    It starts from the durations given, and what ``problem`` starts from.  Whatever counts at certain knots counts at
    the same knots of the phases; what was a function of time is what it was at the durations given.

    Raises
    ------
    TypeError, ValueError : what is no problem, and what `FreeDurationSystem` and `TimeCost` raise.
    """
    check_problem(problem)
    system = FreeDurationSystem(problem.system, problem.horizon, phases, bounds)
    rows = np.flatnonzero(~system.setting)
    where = np.append(rows, system.horizon)  # of the knots 0 ... N of the problem
    us = np.zeros((system.horizon, system.nu))
    us[rows, :-1] = problem.us_init
    before = np.cumsum(np.append(0, ~system.setting))  # of a knot that sets a duration, the next one of the problem
    moved, xs = WithResiduals(lambda residual: at_knots(residual, before)), problem.xs_init
    if xs is not None:
        xs = np.hstack([xs[before], np.ones((system.horizon + 1, 1))])
    weight = as_not_negative("time_weight", time_weight)
    costs, time = _running(problem, system, rows, where, moved), TimeCost(system, weight)
    if _listed(problem):
        costs = [[*at, time] if h > 0.0 else at for at, h in zip(costs, system.durations, strict=True)]
    else:
        costs.append(time)
    constraints = [_constraint(each, problem, system, where, moved) for each in problem.constraints]
    return Problem(
        system, system.state(problem.x0), system.horizon, costs,
        [system.lift(moved(cost)) for cost in problem.terminal_costs],
        [system.duration_bounds(), *constraints], us, problem.name, xs, problem.scenery,
        problem.free_initial_state, problem.parameters,
    )  # fmt: skip


def _listed(problem: Problem) -> bool:
    return any(isinstance(entry, (list, tuple)) for entry in problem.running_costs)


def _running(
    problem: Problem, system: FreeDurationSystem, rows: np.ndarray, where: np.ndarray, moved: WithResiduals
) -> list[Any]:
    """The running costs, lifted: once each, for what is listed for several knots to stay one term."""
    made: dict[tuple[int, bool], Any] = {}

    def lifted(cost: Any, timed: bool) -> Any:
        if (id(cost), timed) not in made:
            made[id(cost), timed] = LiftedCost(system, moved(cost), timed)
        return made[id(cost), timed]

    if not _listed(problem):
        return [_moved(system.lift(moved(cost)), where) for cost in problem.running_costs]
    costs: list[Any] = [[] for _ in range(system.horizon)]
    lists: Any = problem.running_costs
    for row, of_knot in zip(rows, lists, strict=True):
        costs[row] = [lifted(cost, bool(system.durations[row] > 0.0)) for cost in of_knot]
    return costs


def _moved(cost: Any, where: np.ndarray) -> Any:
    """A lifted cost at the same knots of the phases."""
    if isinstance(cost.at, tuple):
        cost.at = tuple(where[list(cost.at)].tolist())
    elif isinstance(cost.at, slice):
        raise ValueError(f"problem: got a running cost with at={cost.at!r}, expected knots, or N lists of costs")
    return cost


def _constraint(
    given: Any, problem: Problem, system: FreeDurationSystem, where: np.ndarray, moved: WithResiduals
) -> Any:
    if isinstance(given, ControlBounds):
        limits = np.full((2, system.horizon, system.nu), [[[-np.inf]], [[np.inf]]])
        limits[:, where[:-1], :-1] = given.limits(problem.horizon, system.nu - 1)
        return ControlBounds(limits[0], limits[1], name=given.name)
    if isinstance(given, Periodic):
        return _periodic(given, system)
    residual = system.lift(moved(given.residual))
    if given.at == "terminal":
        return ResidualConstraint(residual, given.lower, given.upper, "terminal", given.name)
    first = at_knots(given.residual, np.zeros(1, dtype=np.intp))
    of_states = first.jacobians(problem.x0[None], problem.us_init[:1])[1] is None
    knots = given.knots(problem.horizon, of_states)
    if of_states and problem.free_initial_state is not None:
        knots = np.union1d(knots, np.intersect1d(given.knots(problem.horizon, False), [0]))
    lower, upper = given.limits(knots)
    return ResidualConstraint(residual, lower, upper, where[knots], given.name)


def _periodic(given: Periodic, system: FreeDurationSystem) -> Periodic:
    """The same of states with durations, which need not repeat."""
    of, matrix = given.residual, None
    if of.matrix is not None:
        matrix = np.pad(of.matrix, (0, 1))
    reference = None if of.given is None else system.state(of.given)
    made = Periodic(system, of.components, map=matrix, reference=reference, name=given.name)
    made.lower, made.upper = given.lower, given.upper
    return made
