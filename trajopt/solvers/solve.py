"""From a problem and options to a solution: formulate the problem, run the loop or its rounds, report."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from trajopt.backward.expansions import adjoint, expand, finite, largest_gradient, with_feedback
from trajopt.backward.sweep import empty_gains
from trajopt.capabilities import AccelerationControlled, capability
from trajopt.costs.residuals import ControlResidual
from trajopt.interfaces.system import System, control_names
from trajopt.problem.constraints import ControlBounds, ResidualConstraint
from trajopt.problem.objective import Objective
from trajopt.problem.problem import Problem, check_problem
from trajopt.results.records import ConstraintReport, WarmStart
from trajopt.results.solution import Solution
from trajopt.results.status import Status
from trajopt.solvers import trace
from trajopt.solvers.augmented_lagrangian import AugmentedLagrangian, augmented_lagrangian
from trajopt.solvers.constrained import minimize_in_rounds
from trajopt.solvers.forward import Curvature, ForwardFormulation
from trajopt.solvers.inverse import InverseFormulation
from trajopt.solvers.iterate import Formulation, Iterate, Limits, LocalModel
from trajopt.solvers.loop import Callback, Loop, State
from trajopt.solvers.memory import keep_freed
from trajopt.solvers.options import LoopOptions
from trajopt.solvers.timing import Stopwatch

BOUNDS = "control bounds"
"""What reports call limits of controls."""


def takes_accelerations(system: System) -> bool:
    """Whether the system wants accelerations as the sweep's controls."""
    return capability(system, AccelerationControlled) is not None


def formulation_of(
    problem: Problem, limits: Limits | None, options: LoopOptions, curvature: Curvature, objective: Objective
) -> Formulation:
    """The formulation that the problem's system asks for."""
    keep_freed(problem.horizon, problem.system.ndx, problem.system.nu)
    if takes_accelerations(problem.system):
        return InverseFormulation(problem, objective, curvature, options.regularization)
    return ForwardFormulation(problem, objective, limits, curvature, options.regularization)


def solve(
    problem: Problem,
    options: LoopOptions,
    curvature: Curvature,
    threshold: float | None,
    us: ArrayLike | None,
    xs: ArrayLike | None,
    callback: Callback | None,
    warm_start: WarmStart | Solution | None,
) -> Solution:
    """Improve the controls until an end with a name; threshold None is iLQR, the others as for `trajopt.DDP.solve`."""
    clock = Stopwatch()
    check_problem(problem)
    if not (callback is None or callable(callback)):
        raise TypeError(f"callback: got {type(callback).__name__}, wanted a function of the progress")
    start = warm_start.warm_start() if isinstance(warm_start, Solution) else warm_start
    if not (start is None or isinstance(start, WarmStart)):
        raise TypeError(f"warm_start: got {type(start).__name__}, wanted a Solution or a WarmStart")
    us, xs = _initial(problem, us, xs, start)
    boxed = options.control_limits == "box" and not takes_accelerations(problem.system)
    limits = problem.control_limits if boxed else None
    constraints = _smooth_constraints(problem, boxed=limits is not None)
    posed = partial(formulation_of, problem, limits, options, curvature)
    formulation = posed(problem.objective)
    iterate = formulation.start(us, xs, clock)
    if not np.isfinite(iterate.cost):
        return _diverged(problem, iterate, clock, problem.objective)
    if not constraints:
        state = Loop(formulation, options, threshold, clock, _unconstrained).run(iterate, callback)
        assert state.status is not None
        return _solution(formulation, state, state.status, None, state.tried, clock)
    terms = augmented_lagrangian(problem, constraints).with_penalties(lambda _: options.initial_penalty or 1.0)
    warm = start is not None and len(start.multipliers) > 0
    if start is not None and warm:
        terms = terms.with_multipliers(*_smooth_part(problem, start, boxed=limits is not None))
    rounds = minimize_in_rounds(posed, problem.objective, terms, iterate, options, threshold, clock, callback, warm)
    formulation, state, status, terms, tried = rounds
    assert formulation is not None and state is not None
    if not np.isfinite(state.model.iterate.cost):  # of the objective with its terms for constraints
        return _diverged(problem, iterate, clock, formulation.objective)
    return _solution(formulation, state, status, terms, tried, clock)


def _unconstrained(iterate: Iterate) -> tuple[float, float]:
    return iterate.cost, 0.0


# ------------------------------------------------------------------------------------------------ the start
def _initial(problem: Problem, us: Any, xs: Any, start: WarmStart | None) -> tuple[np.ndarray, np.ndarray | None]:
    """Controls and states to start from, checked: what is passed, else the warm start's, else the problem's."""
    if start is not None:
        us, xs = (start.us if us is None else us), (start.xs if xs is None else xs)
    us = problem.us_init.copy() if us is None else problem.controls("us", us)
    if xs is not None:
        return us, problem.states("xs", xs)
    return us, None if start is not None or problem.xs_init is None else problem.xs_init.copy()


def _smooth_constraints(problem: Problem, boxed: bool) -> tuple[ResidualConstraint, ...]:
    """The constraints for the augmented Lagrangian, in the problem's order; limits of controls unless boxed."""
    constraints = []
    for constraint in problem.constraints:
        if isinstance(constraint, ResidualConstraint):
            constraints.append(constraint)
        elif not boxed:
            lower, upper = constraint.limits(problem.horizon, problem.system.nu)
            constraints.append(ResidualConstraint(ControlResidual(problem.system), lower, upper, name=BOUNDS))
    return tuple(constraints)


def _smooth_part(problem: Problem, start: WarmStart, boxed: bool) -> tuple[list[np.ndarray], list[float]]:
    """Multipliers and penalties of the warm start that belong to constraints of the augmented Lagrangian."""
    for name, given in (("multipliers", start.multipliers), ("penalties", start.penalties)):
        if len(given) != len(problem.constraints):
            raise ValueError(f"warm_start: got {name} of {len(given)} constraints, wanted {len(problem.constraints)}")
    chosen = [not boxed or isinstance(constraint, ResidualConstraint) for constraint in problem.constraints]
    multipliers = [m for m, wanted in zip(start.multipliers, chosen, strict=True) if wanted]
    return multipliers, [p for p, wanted in zip(start.penalties, chosen, strict=True) if wanted]


# ------------------------------------------------------------------------------------------------ the end
def _solution(
    formulation: Formulation,
    state: State,
    status: Status,
    terms: AugmentedLagrangian | None,
    tried: int,
    clock: Stopwatch,
) -> Solution:
    problem, model = formulation.problem, state.model
    N = problem.horizon
    xs, us, _, cost, gaps, _ = model.iterate
    k, K, Vx, Vxx = empty_gains(N, problem.system.ndx, problem.system.nu)
    if state.direction is not None:
        policy = formulation.policy(model, state.direction.sweep)
        if status is not Status.INVALID_DERIVATIVES or finite(*policy):
            k, K = policy
            Vx, Vxx = state.direction.sweep.Vx, state.direction.sweep.Vxx
    return Solution(
        problem=problem,
        xs=xs,
        us=us,
        cost=cost if terms is None else problem.objective.value(xs, us),
        status=status,
        message=status.message,
        iterations=tried,
        k=k,
        K=K,
        Vx=Vx,
        Vxx=Vxx,
        gradient_norm=_gradient_norm(formulation, model),
        log=state.log,
        timings=clock.split(),
        gaps=np.zeros((N + 1, problem.system.ndx)) if gaps is None else gaps,
        constraints=_reports(formulation, model, terms, K),
        cause=_cause(formulation, state, status),
    )


def _gradient_norm(formulation: Formulation, model: LocalModel) -> float:
    """Largest entry of the gradient in the controls us, by the dynamics themselves where the sweep changes others."""
    problem, (xs, us, *_) = formulation.problem, model.iterate
    if not takes_accelerations(problem.system):
        return model.gradient_norm
    return largest_gradient(adjoint(expand(problem, xs, us, formulation.objective))[1], us, None)


def _reports(
    formulation: Formulation, model: LocalModel, terms: AugmentedLagrangian | None, K: np.ndarray
) -> tuple[ConstraintReport, ...]:
    """One report a constraint, in the problem's order.

    The multiplier of a control limit is the gradient that it holds, with the feedback K, in which no rounding grows.
    """
    problem, xs, us = formulation.problem, model.iterate.xs, model.iterate.us
    smooth: Sequence[ConstraintReport] = [] if terms is None else terms.reports(xs, us)
    reports, remaining, gradient = [], iter(smooth), None
    for constraint in problem.constraints:
        if formulation.limits is None or isinstance(constraint, ResidualConstraint):
            reports.append(next(remaining))
            continue
        assert isinstance(constraint, ControlBounds)
        lower, upper = constraint.limits(problem.horizon, problem.system.nu)
        if gradient is None:
            gradient = adjoint(with_feedback(model.expansion, K))[1]
            gradient = gradient if finite(gradient) else np.zeros_like(gradient)
        held = np.where(us <= lower, np.maximum(gradient, 0.0), 0.0)
        held += np.where(us >= upper, np.minimum(gradient, 0.0), 0.0)
        knots, names = np.arange(problem.horizon), control_names(problem.system)
        reports.append(ConstraintReport(BOUNDS, knots, us, lower, upper, -held, components=names))
    return tuple(reports)


def _cause(formulation: Formulation, state: State, status: Status) -> str:
    """Which number was not finite, and where, if that is what the solve met at its end."""
    problem, objective, xs, us = formulation.problem, formulation.objective, *state.model.iterate[:2]
    if status is Status.INVALID_DERIVATIVES:
        return trace.of_derivatives(problem, objective, state.model.expansion, xs, us)
    blocked = state.refused.blocked
    if blocked is not None and status in (Status.NOT_FINITE, Status.INFEASIBLE, Status.MAX_ITERATIONS):
        cause = trace.of_trajectory(problem, objective, blocked.xs, blocked.us)
        return f"{cause} of the shortest step tried"
    return trace.of_curvature(problem, objective, xs, us) if state.without_curvature else ""


def _diverged(problem: Problem, iterate: Iterate, clock: Stopwatch, objective: Objective) -> Solution:
    """No iterate is good: the initial state repeated, and the controls that were given."""
    xs = np.repeat(problem.x0[None], problem.horizon + 1, axis=0)
    k, K, Vx, Vxx = empty_gains(problem.horizon, problem.system.ndx, problem.system.nu)
    cause = trace.of_trajectory(problem, objective, iterate.xs, iterate.us)
    status = Status.DIVERGED
    return Solution(
        problem, xs, iterate.us, np.inf, status, status.message, 0, k, K, Vx, Vxx, 0.0, (), clock.split(),
        np.zeros_like(Vx), (), cause,
    )  # fmt: skip
