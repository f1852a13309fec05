"""The one loop of iLQR and DDP: expand, find a direction, search along it, adapt mu.

    repeat
        expand to first order; Gauss-Newton sweep, mu raised until Quu + mu I is positive definite
        where the last predicted decrease was a small part of the cost: exact sweep, kept if positive definite
        stop if the predicted decrease -(d1 + d2/2) is within the tolerance and mu is small
        first acceptable step length; mu down after a long step, up after a short one or none

Exact curvature is thus switched on late, when the trajectory is nearly right: exact Quu is almost always indefinite far
from an optimum, and no regularization of it was found to be as good as a Gauss-Newton step there.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from trajopt.backward_pass import SweepResult, empty_gains
from trajopt.expansions import total_cost
from trajopt.line_search import Step, search
from trajopt.problem import Problem
from trajopt.regularization import Regularization
from trajopt.rollout import open_loop
from trajopt.solution import IterationRecord, Progress, Solution
from trajopt.solvers.directions import ExactCurvature, LocalModel, gauss_newton_sweep, local_model
from trajopt.solvers.options import LoopOptions
from trajopt.status import Status
from trajopt.timing import Stopwatch

GAUSS_NEWTON, EXACT = "gauss_newton", "exact"
ROUNDING_LEVEL = 1e-12
"""A predicted decrease below this fraction of the cost may be invisible in the cost itself."""
SHORT_EXACT_STEP = 0.25
"""An exact step that must be shorter than this is compared with the Gauss-Newton step."""

Callback = Callable[[Progress], bool | None]


class Direction(NamedTuple):
    """A sweep and its kind; `fallback` is the Gauss-Newton sweep behind an exact one."""

    kind: str
    sweep: SweepResult
    fallback: SweepResult | None

    @property
    def predicted(self) -> float:
        """Decrease of the cost that the model predicts for a full step."""
        return max(0.0, -(self.sweep.d1 + 0.5 * self.sweep.d2))


def minimize(
    problem: Problem, us: np.ndarray, options: LoopOptions, exact: ExactCurvature | None, callback: Callback | None
) -> Solution:
    """Improve the controls us (N, nu) until an end with a name; `exact` None is iLQR."""
    clock = Stopwatch()
    with clock.measure("rollouts"):
        xs = open_loop(problem, us)
        cost = total_cost(problem, xs, us)
    if not np.isfinite(cost):
        return _diverged(problem, us, clock)

    model = local_model(problem, xs, us, cost, clock)
    regularization = Regularization(options.initial_regularization, options.max_regularization)
    direction, predicted, log, stopping = None, np.inf, [], False
    while True:
        late = exact is not None and predicted < exact.threshold * abs(model.cost)
        found, regularization = _direction(problem, model, regularization, exact if late else None, clock)
        direction = found or direction
        status = _end(model, found, regularization, len(log), stopping, options)
        if status is not None:
            log.append(_record(model, found, None, regularization.mu, len(log)))
            return _solution(problem, model, status, direction, len(log) - 1, log, clock)

        assert found is not None  # else there would be a status
        used, step = _step(problem, model, found, clock)
        predicted = used.predicted
        log.append(_record(model, used, step, regularization.mu, len(log)))
        if step is None:
            status = _end_without_step(predicted, model.cost, regularization)
            if status is not None:
                return _solution(problem, model, status, direction, len(log), log, clock)
            regularization = regularization.increased()
        else:
            regularization = regularization.after_step(step.alpha)
            model = local_model(problem, step.xs, step.us, step.cost, clock)
        stopping = callback is not None and bool(callback(Progress(log[-1], model.xs, model.us)))


def _direction(
    problem: Problem, model: LocalModel, regularization: Regularization, exact: ExactCurvature | None, clock: Stopwatch
) -> tuple[Direction | None, Regularization]:
    """The direction of this iteration, and the mu it took; None if no sweep is positive definite."""
    if not np.isfinite(model.gradient_norm):
        return None, regularization
    gauss_newton, regularization = gauss_newton_sweep(problem, model, regularization, clock)
    if gauss_newton is None:
        return None, regularization
    if exact is not None:
        newton = exact.sweep(problem, model, gauss_newton, regularization.mu, clock)
        if newton.ok:
            return Direction(EXACT, newton, gauss_newton), regularization
    return Direction(GAUSS_NEWTON, gauss_newton, None), regularization


def _end(
    model: LocalModel,
    found: Direction | None,
    regularization: Regularization,
    tried: int,
    stopping: bool,
    options: LoopOptions,
) -> Status | None:
    """Why to stop before a step, None to go on."""
    if stopping:
        return Status.STOPPED_BY_CALLBACK
    if found is None:
        return Status.NOT_POSITIVE_DEFINITE if np.isfinite(model.gradient_norm) else Status.INVALID_DERIVATIVES
    enough = max(options.tolerance * abs(model.cost), options.absolute_tolerance)
    if regularization.small and found.predicted <= enough:
        return Status.CONVERGED
    return Status.MAX_ITERATIONS if tried >= options.max_iterations else None


def _end_without_step(predicted: float, cost: float, regularization: Regularization) -> Status | None:
    """Why to stop after a line search without an acceptable step, None to try again with a larger mu."""
    if regularization.small and predicted <= ROUNDING_LEVEL * abs(cost):
        return Status.CONVERGED  # what is left to gain is below the rounding of the cost
    return Status.LINE_SEARCH_FAILED if regularization.increased().exhausted else None


def _step(problem: Problem, model: LocalModel, direction: Direction, clock: Stopwatch) -> tuple[Direction, Step | None]:
    """Search along the direction; where an exact one is good for a short step at best, also along its fallback."""
    with clock.measure("rollouts"):
        step = search(problem, model.xs, model.us, model.cost, direction.sweep)
        if direction.fallback is None or (step is not None and step.alpha >= SHORT_EXACT_STEP):
            return direction, step
        other = search(problem, model.xs, model.us, model.cost, direction.fallback)
    if other is not None and (step is None or other.cost < step.cost):
        return Direction(GAUSS_NEWTON, direction.fallback, None), other
    return direction, step


def _record(
    model: LocalModel, direction: Direction | None, step: Step | None, mu: float, iteration: int
) -> IterationRecord:
    return IterationRecord(
        iteration=iteration,
        cost=model.cost,
        predicted_decrease=0.0 if direction is None else direction.predicted,
        actual_decrease=0.0 if step is None else model.cost - step.cost,
        gradient_norm=model.gradient_norm,
        alpha=0.0 if step is None else step.alpha,
        mu=mu,
        step=GAUSS_NEWTON if direction is None else direction.kind,
        time=model.time,
    )


def _solution(
    problem: Problem,
    model: LocalModel,
    status: Status,
    direction: Direction | None,
    iterations: int,
    log: list[IterationRecord],
    clock: Stopwatch,
) -> Solution:
    if direction is None:
        k, K, Vx, Vxx = empty_gains(problem.horizon, problem.system.ndx, problem.system.nu)
    else:
        k, K, Vx, Vxx = direction.sweep[:4]
    return Solution(
        problem, model.xs, model.us, model.cost, status, status.message, iterations, k, K, Vx, Vxx, model.gradient_norm,
        tuple(log), clock.split(),
    )  # fmt: skip


def _diverged(problem: Problem, us: np.ndarray, clock: Stopwatch) -> Solution:
    """No iterate is good: the initial state repeated, and the controls that were given."""
    xs = np.repeat(problem.x0[None], problem.horizon + 1, axis=0)
    gains = empty_gains(problem.horizon, problem.system.ndx, problem.system.nu)
    status = Status.DIVERGED
    return Solution(problem, xs, us, np.inf, status, status.message, 0, *gains, 0.0, (), clock.split())
