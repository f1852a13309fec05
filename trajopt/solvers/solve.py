"""A solve from a problem and options to a solution.

The problem is transcribed, formulated and started, the loop runs, saddles are left, and what comes out is reported.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from dynamics.simd import PROGRESS
from dynamics.validation import as_positive
from trajopt.backward.backward_pass import SweepResult, empty_gains
from trajopt.backward.expansions import Expansion, adjoint, expand, finite, hessian_products, largest_gradient
from trajopt.backward.regularization import LONGEST
from trajopt.capabilities import Expansions, Steps, capability
from trajopt.costs.residuals import ControlResidual
from trajopt.interfaces.system import System, control_names, slope_name
from trajopt.optimality.active_limits import point_of
from trajopt.optimality.certificate import Certificate, certificate
from trajopt.optimality.kkt_point import KKTPoint
from trajopt.optimality.kkt_system import Indefinite, KKTSystem
from trajopt.problem.constraints import ControlBounds, ResidualConstraint
from trajopt.problem.objective import all_finite, first_not_finite, number_name
from trajopt.problem.problem import Problem, check_problem
from trajopt.problem.transcription import Transcription, transcription_of
from trajopt.results.records import EXAMPLE, GIVEN, HELD, MIDDLE, STILL, ZEROS, ConstraintReport, Status, WarmStart
from trajopt.results.solution import Solution
from trajopt.results.stationary import both, callback_inside, solution_outside, warm_start_inside
from trajopt.rows import Rows, change_of_rows, pack, read_only, with_multipliers
from trajopt.solvers.augmented_lagrangian import LARGEST_PENALTY
from trajopt.solvers.constrained import AugmentedLagrangian, SoftConstraints
from trajopt.solvers.ddp import Callback, Loop
from trajopt.solvers.formulation import (
    ALPHAS,
    EXACT,
    GAUSS_NEWTON,
    Curvature,
    Formulation,
    Iterate,
    Limits,
    LocalModel,
    Stopwatch,
    closed_loop,
    linear_step,
    noise,
)
from trajopt.solvers.inverse import InverseFormulation
from trajopt.solvers.iteration import TRIES, State, Unconstrained, find_direction
from trajopt.solvers.line_search import INVISIBLE
from trajopt.solvers.options import LoopOptions
from trajopt.solvers.program import MADE
from trajopt.solvers.real_time import RealTimeIteration
from trajopt.solvers.start import (
    FirstIterate,
    example_controls,
    first_iterate,
    fitted,
    followed,
    given_trajectory,
    middle_controls,
    middle_states,
    rolled_out,
    starts_from_zeros,
    still_controls,
    taken_over,
)


class Transcribed(NamedTuple):
    """A problem's constraints; their unscaled rows, None if there are none; for each of the constraints that has no
    rows what its reports have in common, as `Rows.of_reports`, None for one that has some."""

    constraints: Sequence[ResidualConstraint | ControlBounds]
    rows: Rows | None
    boxed: tuple[dict[str, Any] | None, ...]


def takes_accelerations(system: System) -> bool:
    """True if the sweep's controls are accelerations for this system."""
    return capability(system, Expansions).acceleration_control is not None


def formulation_of(
    problem: Problem, limits: Limits | None, curvature: Curvature, clock: Stopwatch | None = None
) -> Formulation:
    """The formulation for the problem's system, by forward or inverse dynamics, without rows."""
    make = InverseFormulation if takes_accelerations(problem.system) else Formulation
    return make(problem, limits, curvature, clock)


def transcribe(
    problem: Problem, options: LoopOptions, curvature: Curvature, clock: Stopwatch | None = None
) -> Formulation:
    """The formulation with the rows of all constraints that sweeps and rollouts do not keep, unscaled: those of the
    last solve, where that had the same constraints."""
    boxed = options.control_limits == "box" and not takes_accelerations(problem.system)
    formulation = formulation_of(problem, problem.control_limits if boxed else None, curvature, clock)
    known: Transcribed | None = formulation.kept.get("transcribed")
    if known is None or known.constraints is not problem.constraints:
        known = formulation.kept["transcribed"] = _transcribed(problem, formulation.limits is not None)
    formulation.rows = known.rows
    return formulation


def _transcribed(problem: Problem, boxed: bool) -> Transcribed:
    """The constraints of a problem; limits of controls have rows unless boxed."""
    with_rows, boxes, system, N = [], [], problem.system, problem.horizon
    for constraint in problem.constraints:
        boxes.append(None)
        if isinstance(constraint, ResidualConstraint):
            with_rows.append(constraint)
            continue
        name, (lower, upper) = constraint.name, constraint.limits(N, system.nu)
        if boxed:
            knots, lower, upper = read_only([np.arange(N), lower.copy(), upper.copy()])
            components = control_names(system)
            boxes[-1] = {"name": name, "components": components, "knots": knots, "lower": lower, "upper": upper}
        else:
            with_rows.append(ResidualConstraint(ControlResidual(system), lower, upper, name=name))
    rows = pack(problem, tuple(with_rows)) if with_rows else None
    return Transcribed(problem.constraints, rows, tuple(boxes))


# --------------------------------------------------------------------------------------------
# Gains of a solution under constraints: they are to be deployed on a system, so they are computed with a moderate
# penalty.
#
# At a solution the penalty changes the model alone.  A large one makes K the feedback that keeps the rows exactly,
# about 1/h^2 just before a hard terminal equality, which amplifies noise.  Hence one more sweep at the same trajectory,
#
#     rho = min(rho, 1e4 scale)        lam_e = lam, the dual iterate
#
# whose k is as small as before, and whose K leaves a part of a disturbance of the rows.  A large penalty also
# compensates for indefinite parts of the Lagrangian's Hessian; without it, the positive part of that is used, as in any
# iteration. The active rows are those that are active where a step ends, for some may be within rounding of their
# limits.


def deployed_gains(formulation: Formulation, state: State, options: LoopOptions) -> SweepResult | None:
    """The sweep that gives a solution its policy: the last one, None if there was none; after convergence under
    constraints with a large penalty, a sweep with a moderate one."""
    last, m, model, rows = state.direction, state.multipliers, state.model, formulation.rows
    if last is None:
        return None
    converged = state.status is Status.CONVERGED
    if m is None or options.soft_penalty > 0.0 or not converged or m.penalty <= LARGEST_PENALTY * m.scale:
        return last.sweep
    at, softer = model.rows, m._replace(centre=m.dual, penalty=LARGEST_PENALTY * m.scale, barrier=0.0)
    assert rows is not None and at is not None

    def end(sweep: SweepResult) -> np.ndarray:  # of the full step, where the linearized rows have these values
        return at.c + change_of_rows(rows.first, at.C, *linear_step(model.expansion, None, sweep, model.box))

    active, sweep = m.sides(rows, end(last.sweep)), last.sweep
    for _ in range(TRIES):
        softened = model._replace(rows=at._replace(weights=softer.weights(rows, at.c, active)[1]))
        exact = last.kind != GAUSS_NEWTON
        found = find_direction(formulation, softened, state.regularization, exact, near=True).direction
        if found is None:
            return last.sweep
        sweep, c = found.sweep, end(found.sweep)
        crossed = (active == 0) & (np.abs(rows.violations(c)) > options.feasibility_tolerance)
        if not crossed.any():
            break
        active = np.where(crossed, softer.sides(rows, c), active)
    return sweep


# --------------------------------------------------------------------------------------------
# Leaving saddles: where a solve ends without a definite exact sweep, the curvature at its end is examined.
#
# Gauss-Newton steps stop at any stationary point.  A definite exact sweep without regularization proves a minimum, and
# most solves end with one; otherwise the reduced Hessian is factored, at the cost of a sweep.  At a saddle the
# trajectory moves along the eigenvector of its smallest eigenvalue, in both directions, and the solve goes on from
# there.


ESCAPE = "escape"
"""Kind of such a step in the log."""


class Saddle(NamedTuple):
    """A converged point that is no strict minimum: its certificate, the better trajectory that its curvature leads to
    (None if none was found), and the decrease of the cost there."""

    certificate: Certificate
    escape: Iterate | None
    gain: float


def saddle(loop: Loop, state: State) -> Saddle | None:
    """The saddle at which a solve has converged; None at a minimum, or where the certificate is undecided."""
    last, formulation, m = state.direction, loop.formulation, state.multipliers
    if state.status is not Status.CONVERGED or last is None:
        return None
    if last.kind == EXACT and state.regularization.mu == 0.0:
        return None
    rows, (xs, us, *_), K = state.model.rows, state.model.iterate, formulation.policy(state.model, last.sweep)[1]
    nu, penalty = np.zeros(0) if rows is None else rows.dual, 0.0 if m is None else m.penalty
    with loop.formulation.clock.measure("derivatives"), np.errstate(all="ignore"):
        point = point_of(formulation.problem, xs, us, formulation.rows, nu, penalty, formulation.limits, K)
        if not finite(*point.e):
            return None
        try:
            KKTSystem(point)
            return None
        except Indefinite:
            found = certificate(point)
    return None if found.minimum is not False else Saddle(found, *_escape(loop, state, point, found, last.sweep, K))


def _escape(
    loop: Loop, state: State, point: KKTPoint, found: Certificate, sweep: SweepResult, K: np.ndarray
) -> tuple[Iterate | None, float]:
    """The best trajectory along the certificate's direction, tried with both signs and several lengths under the last
    gains K, those of the sweep, and its decrease of the cost; (None, 0) if none gains enough."""
    model, direction = state.model, found.direction
    formulation, problem = loop.formulation, loop.formulation.problem
    assert direction is not None
    xs, us = point.xs, point.us
    dx, _ = linear_step(point.e, None, sweep._replace(k=direction, K=np.zeros_like(K)))
    k = direction - np.einsum("tij,tj->ti", K, dx[:-1])
    merit = loop.constraints.merit(state.multipliers)
    length = max(1.0, float(np.abs(us).max())) / float(np.abs(direction).max())  # by at most the largest control
    best, least = None, model.iterate.cost - INVISIBLE * abs(model.iterate.cost)
    with formulation.clock.measure("rollouts"):
        shorter = 0.5 * ALPHAS[-1] * length  # so that the lengths of both searches follow each other
        for scale in (length, -length, shorter, -shorter):
            states, controls = closed_loop(problem, xs, us, scale * k, K, None, problem.control_limits)
            for xs_new, us_new in zip(states, controls, strict=True):
                cost = merit(xs_new, us_new)[0]
                if cost < least:
                    best, least = (np.array(xs_new, order="C"), np.array(us_new, order="C")), cost
    if best is None:
        return None, 0.0
    return formulation.start(best[1], best[0])._replace(gaps=None), model.iterate.cost - least


# --------------------------------------------------------------------------------------------
# Where a number is not finite: which term or which array, and at which knot.  Asked only where a solve went wrong.


def of_derivatives(problem: Problem, rows: Rows | None, expansion: Expansion, xs: np.ndarray, us: np.ndarray) -> str:
    """Message: which first derivative or Gauss-Newton Hessian is not finite at xs, us, whose expansion failed a
    sweep."""
    culprit = _of_terms(problem, rows, xs, us) or _of_dynamics(problem, expand(problem, xs, us)[:2])
    if culprit is not None:
        return culprit
    costate, _ = adjoint(expansion)
    bad = np.flatnonzero(~np.isfinite(costate).all(axis=1))
    where = f" at knot {bad[-1]}" if len(bad) else ""
    return f"the gradient overflows{where} although costs and dynamics are finite"


def of_curvature(problem: Problem, rows: Rows | None, xs: np.ndarray, us: np.ndarray) -> str:
    """Message: which second derivative, left out of Gauss-Newton Hessians, is not finite; empty if all are finite."""
    culprit = problem.objective.curvature_culprit(xs, us, problem.system.ndx)
    if culprit is None and rows is not None:
        culprit = rows.curvature_culprit(xs, us)
    if culprit is None:
        ones = np.ones((problem.horizon, problem.system.ndx))
        with np.errstate(all="ignore"):
            products = hessian_products(problem.system, xs, us, ones)
        culprit = _of_dynamics(problem, products)
    return "" if culprit is None else f"{culprit}, so the last step does without curvature"


def of_trajectory(problem: Problem, rows: Rows | None, xs: np.ndarray, us: np.ndarray, which: str = "") -> str:
    """Message: which state, control, cost or constraint is not finite; or the dynamics, where states were given.
    which : words that say which trajectory it is."""
    for what, points in (("the state is", xs), ("a control is", us)):
        t = first_not_finite(points)
        if t is not None:
            why = _no_solution(problem, t - 1) if points is xs and t > 0 and all_finite(us[:t]) else ""
            return f"{what} {number_name(points[t][~np.isfinite(points[t])][0])} at knot {t}{which}{why}"
    with np.errstate(all="ignore"):
        reached = np.asarray(problem.system.step(xs[:-1], us))
    t = first_not_finite(reached)
    if t is not None:
        return f"the step of the dynamics is not finite at knot {t}{which}{_no_solution(problem, t)}"
    return (_of_terms(problem, rows, xs, us) or "the sum of costs overflows") + which


def _no_solution(problem: Problem, t: int) -> str:
    """Words to append where a step from knot t is not finite, of a system whose steps solve an equation."""
    method = capability(problem.system, Steps).implicit_step
    return f", as the implicit step from knot {t} ({method}) has found no solution" if method else ""


def _of_terms(problem: Problem, rows: Rows | None, xs: np.ndarray, us: np.ndarray) -> str | None:
    return problem.objective.culprit(xs, us, problem.system.ndx) or (None if rows is None else rows.culprit(xs, us))


def _of_dynamics(problem: Problem, arrays: Sequence[np.ndarray]) -> str | None:
    """Message: which entry of fx, fu, or of Hessian products is not finite, and where; None if all are."""
    names = ("fx", "fu") if len(arrays) == 2 else ("Hxx", "Hux", "Huu")
    for name, array in zip(names, arrays, strict=True):
        knot = first_not_finite(array)
        if knot is not None:
            i, j = np.argwhere(~np.isfinite(array[knot]))[0]
            entry = f"{name}[{i}, {j}] of the dynamics"
            entry = entry if len(arrays) > 2 else f"{slope_name(problem.system, name, i, j)},"
            return f"{entry} is not finite at knot {knot}"
    return None


def solve(
    problem: Problem,
    options: LoopOptions,
    curvature: Curvature,
    us: ArrayLike | None,
    xs: ArrayLike | None,
    callback: Callback | None,
    warm_start: WarmStart | Solution | None,
    time_limit: float | None = None,
) -> Solution:
    """Improve the controls until there is a status; other arguments are those of `trajopt.DDP.solve`."""
    clock = Stopwatch(None if time_limit is None else as_positive("time_limit", time_limit))
    check_problem(problem)
    PROGRESS.subject(problem, type(options).__name__)
    warm = warm_start.warm_start() if isinstance(warm_start, Solution) else warm_start
    if not (warm is None or isinstance(warm, WarmStart)):
        raise TypeError(f"warm_start: got {type(warm).__name__}, expected a Solution or a WarmStart")
    warm, left = (None, ()) if warm is None else fitted(warm, problem)
    by = transcription_of(problem)
    if by is not None:
        started = _transcribed_start(by, us, xs, warm)
        arguments = options, curvature, *started[:2], callback_inside(by, callback), started[2]
        found = solution_outside(by, solve(by.problem, *arguments, time_limit))
        return replace(found, not_taken_over=both(left, found.not_taken_over))
    by_default = us is None and xs is None and warm is None and starts_from_zeros(problem)
    us, xs, K, of_warm_start = given_trajectory(problem, us, xs, warm)
    formulation = transcribe(problem, options, curvature, clock)
    rows, multipliers = formulation.rows, None
    real_time_iteration = warm is not None and options.max_iterations == 1
    tolerance = options.feasibility_tolerance
    start = first_iterate(formulation, us, xs, None if real_time_iteration else K, of_warm_start, tolerance)
    iterate = start.iterate
    known = math.isfinite(iterate.cost) if real_time_iteration else _known(formulation, iterate)
    if not known:
        found = _from_elsewhere(problem, options, curvature, callback, time_limit) if by_default else None
        return found or _diverged(formulation, iterate)
    soft = options.soft_penalty > 0.0  # rows are in the user's units then, as their cost is, and have no multipliers
    if rows is not None and warm is not None and not soft:
        rows, multipliers, more = taken_over(problem, warm, rows, iterate)
        left += more
        if not real_time_iteration:
            rows = rows.measured_at(iterate.xs, iterate.us)
    elif rows is not None and not soft:
        rows = rows.scaled_at(iterate.xs, iterate.us, problem.system.linearize)
    formulation.rows = rows
    if real_time_iteration and rows is not None and K is not None:
        iterate = followed(formulation, iterate, K, rows) or iterate
    costate, predicted = (None, np.inf) if warm is None else (warm.costate, warm.predicted)
    optimum = None if warm is None or soft or warm.gradient_norm == 0.0 else (warm.gradient_norm, predicted)
    constraints = constraints_of(formulation, options, multipliers)
    of_loop = formulation, options, constraints, optimum
    loop = Loop(*of_loop)
    if options.max_iterations == 1:
        known = multipliers is not None or (soft and warm is not None)
        loop = RealTimeIteration(*of_loop, costate=costate, warm=known, K=K)
    twice = isinstance(constraints, AugmentedLagrangian) and options.max_iterations > 1
    state = loop.run(iterate, callback, predicted, until=TURN if twice else None)
    unfinished = state.status is None or (state.status in FAILED and state.tried < options.max_iterations)
    if (twice and unfinished) or _ended_at_an_edge(loop, state):
        first, still = loop, _still_start(formulation) if by_default else None
        loop, state = _with_second_solve(loop, state, still or iterate, callback)
        if loop is not first and still is not None:
            start = start._replace(kind=STILL)
    if _stuck_with_gaps(state, start):
        loop, state, start = _from_rollout(loop, state, start, callback)
    left_for_others = options.max_iterations - state.tried
    if by_default and left_for_others > 0 and state.status in (Status.INVALID_DERIVATIVES, Status.NOT_FINITE):
        others = replace(options, max_iterations=left_for_others)
        found = _from_elsewhere(problem, others, curvature, callback, time_limit)
        if found is not None and (found.converged or not state.tried):
            return found
    saddles = ""
    if curvature.escape and options.soft_penalty == 0.0 and not real_time_iteration:
        state, saddles = past_saddles(loop, state, callback)
    if _goes_nowhere(state, start):
        return _diverged(loop.formulation, start.rejected or iterate)
    final = deployed_gains(loop.formulation, state, options)
    solution = _solution(loop.formulation, state, final, start.kind, left, saddles, soft)
    loop.formulation.close()
    return solution


def _from_elsewhere(
    problem: Problem, options: LoopOptions, curvature: Curvature, callback: Callback | None, time_limit: float | None
) -> Solution | None:
    """The solution from the middle of limits, or from the controls of an example, in place of zeros, the first one that
    converges, else the first one with a step; None where all lead nowhere."""
    us, states, example, best = middle_controls(problem), middle_states(problem), example_controls(problem), None
    starts = [(us, None, MIDDLE)] if us.any() else []
    starts += [] if states is None else [(us, states, MIDDLE)]
    starts += [] if example is None else [(example, None, EXAMPLE)]
    for us, xs, kind in starts:
        found = solve(problem, options, curvature, us, xs, callback, None, time_limit)
        if found.converged:
            return replace(found, start=kind)
        if best is None and found.status != Status.DIVERGED and found.iterations:
            best = replace(found, start=kind)
    return best


def _ended_at_an_edge(loop: Loop, state: State) -> bool:
    """True if steps ended where a control is at its limit and derivatives are not finite, as that of a root at zero,
    which iterates need not touch where limits are rows."""
    options, limits, us = loop.options, loop.formulation.limits, state.model.iterate.us
    if state.status is not Status.INVALID_DERIVATIVES or limits is None or options.soft_penalty > 0.0:
        return False
    return 0 < state.tried < options.max_iterations and bool(((us == limits[0]) | (us == limits[1])).any())


def _still_start(formulation: Formulation) -> Iterate | None:
    """The rollout of controls that hold the initial state, where these are not zeros; None where it is not finite."""
    problem = formulation.problem
    us = still_controls(problem)
    if us is None or np.allclose(us, problem.us_init):
        return None
    found = formulation.start(us, None)
    return found if _known(formulation, found) else None


def _stuck_with_gaps(state: State, start: FirstIterate) -> bool:
    """True if steps from the held initial state ended before they have closed its gaps, where some were not finite."""
    spoilt = state.status in STUCK and state.stall.rejected.not_finite is not None
    return spoilt and start.kind == HELD and state.model.iterate.gaps is not None


def _from_rollout(
    loop: Loop, state: State, start: FirstIterate, callback: Callback | None
) -> tuple[Loop, State, FirstIterate]:
    """The end of a solve that goes on from a rollout, where the held initial state has led nowhere: under the policy of
    the last iterate, of the first controls, of those that hold the initial state, or of none, whichever is finite and
    cheapest; the given end where none is finite, or where that one is no better."""
    formulation = loop.formulation
    none = np.zeros_like(state.model.iterate.us)
    if formulation.problem.control_limits is not None:
        none = none.clip(*formulation.problem.control_limits)
    starts = [(start.rejected, GIVEN), (_still_start(formulation), STILL), (formulation.start(none, None), ZEROS)]
    if state.direction is not None:
        K = formulation.policy(state.model, state.direction.sweep)[1]
        starts.insert(0, (rolled_out(formulation, state.model.iterate, K), HELD))
    rollouts = [(iterate, kind) for iterate, kind in starts if iterate is not None and _known(formulation, iterate)]
    if not rollouts or state.tried >= loop.options.max_iterations:
        return loop, state, start
    iterate, kind = min(rollouts, key=lambda each: each[0].cost)
    found = replace(loop, optimum=None).run(iterate, callback, np.inf, state.log[: state.tried], state)
    if loop.rank(found) <= loop.rank(state):
        return loop, found, FirstIterate(iterate, kind)
    assert state.status is not None
    return loop, loop.ended(state._replace(log=found.log[: found.tried]), state.status), start


def _known(formulation: Formulation, iterate: Iterate) -> bool:
    """True if cost and rows of an iterate are finite."""
    if not math.isfinite(iterate.cost) or formulation.rows is None:
        return math.isfinite(iterate.cost)
    return bool(np.isfinite(formulation.rows.values(iterate.xs, iterate.us)).all())


def expect_solves(problem: Problem, options: LoopOptions) -> None:
    """Have a program prepared for a problem in its next solve, since there will be others."""
    by = transcription_of(problem)
    formulation = transcribe(problem if by is None else by.problem, options, Curvature())
    formulation.kept[MADE] = LONGEST
    formulation.close()


def constraints_of(
    formulation: Formulation, options: LoopOptions, warm: tuple[np.ndarray, float] | None
) -> Unconstrained:
    """What an iteration does for the constraints of a formulation; warm: their multipliers in a warm start, and its
    penalty."""
    if formulation.rows is None:
        return Unconstrained(formulation, options)
    if options.soft_penalty > 0.0:
        return SoftConstraints(formulation, options)
    single = options.max_iterations == 1
    return AugmentedLagrangian(formulation, options, warm, firm=single and warm is not None)


def _transcribed_start(
    by: Transcription, us: ArrayLike | None, xs: ArrayLike | None, warm: WarmStart | None
) -> tuple[np.ndarray | None, np.ndarray | None, WarmStart | None]:
    """Controls, states and warm start of the problem that is solved in place of another, from those of the latter."""
    problem = by.given
    states = None if xs is None else problem.states("xs", xs)
    controls = None if us is None else problem.controls("us", us)
    inside = None if warm is None else warm_start_inside(by, warm, states)
    if controls is None and (states is None or inside is not None):
        return None, None if states is None or inside is None else inside.xs, inside
    begins = warm.xs[0] if warm is not None and warm.xs is not None else None
    zs, ws = by.inside(states, problem.us_init if controls is None else controls, begins)
    return ws, zs, inside


def _goes_nowhere(state: State, start: FirstIterate) -> bool:
    """True if no step was accepted from a start that is unusable: a held initial state in place of a rollout that is
    not finite, or a start at which derivatives or rows are not finite."""
    rows, rejected = state.model.rows, start.rejected
    if state.tried == 0 and state.status is Status.INVALID_DERIVATIVES:
        return rejected is not None or (rows is not None and not np.isfinite(rows.c).all())
    unknown = rejected is not None and not np.isfinite(rejected.cost)
    return state.status in STUCK and unknown and not any(record.alpha > 0.0 for record in state.log)


def past_saddles(loop: Loop, state: State, callback: Callback | None) -> tuple[State, str]:
    """The state after leaving the saddles at which the loop ends, and a message about the last one that it cannot
    leave."""
    for _ in range(TRIES):
        found = None if loop.formulation.clock.over else saddle(loop, state)
        if found is None:
            break
        if found.escape is None or state.tried >= loop.options.max_iterations:
            return state, str(found.certificate)
        m, (*before, last) = state.multipliers, state.log
        step = last._replace(predicted_decrease=0.0, actual_decrease=found.gain, alpha=1.0, step=ESCAPE)
        warm = None if m is None else (m.dual, m.penalty)
        constraints = constraints_of(loop.formulation, loop.options, warm)
        onwards = replace(loop, constraints=constraints)
        state = onwards.run(found.escape, callback, np.inf, (*before, step), state)
    return state, ""


# ------------------------------------------------------------------------------------------------ a second solve
#
# What is not solved in so many steps is solved in another way: control limits are rows as all other constraints, and
# the first penalty is large.  That is worse for most problems, so it comes second, and in turns with the first solve,
# which may be slow and yet converge.  It begins where the first one began; or, in place of zeros, with controls that
# hold the initial state: all of 24 carts are solved so whose speed over distance is singular where they stop, as they
# do without a force, and 10 of them from zeros alone.  Solves whose clipped controls end at the edge of a domain are
# made again so, too.


TURN = 200
"""Number of steps of the first solve before the second one begins, and of that before the first one goes on."""
STUCK = Status.LINE_SEARCH_FAILED, Status.NOT_POSITIVE_DEFINITE, Status.NOT_FINITE
"""Ends without a step."""
FAILED = Status.MAX_ITERATIONS, *STUCK
"""Ends without a minimum, and without a proof that there is none."""


def _with_second_solve(loop: Loop, state: State, start: Iterate, callback: Callback | None) -> tuple[Loop, State]:
    """The end of a solve that has failed, or has no status yet, or the end of the second one, from an iterate,
    whichever is better."""
    first, log = loop.formulation, state.log[: state.tried]
    options = replace(loop.options, control_limits="augmented_lagrangian")
    formulation = transcribe(first.problem, options, first.curvature, first.clock)
    assert formulation.rows is not None
    formulation.rows = formulation.rows.scaled_at(start.xs, start.us, first.problem.system.linearize)
    constraints = AugmentedLagrangian(formulation, options, firm=True)
    again = Loop(formulation, options, constraints)
    found = again.run(start, callback, np.inf, log, until=len(log) + TURN if state.status is None else None)
    if found.status in (None, *FAILED, Status.INFEASIBLE) and state.status is None:
        state = loop.go_on(state._replace(log=found.log[: found.tried]), callback)
    kept = found
    if first.limits is not None and found.status not in (Status.CONVERGED, Status.INFEASIBLE):
        kept = _within_limits(again, found, first.limits)
    first_wins = state.status in (Status.CONVERGED, Status.INFEASIBLE)
    first_wins = first_wins or kept is None or loop.rank(state) <= again.rank(kept)
    if kept is None or (first_wins and found.status is not Status.CONVERGED):
        formulation.close()
        return loop, _of_both(loop, state, found)
    first.close()
    return again, _of_both(again, kept, state)


def _within_limits(loop: Loop, state: State, limits: Limits) -> State | None:
    """The state of a solve whose limits of controls are rows, which it has not met yet: with a rollout of the controls,
    clipped, or of its policy about them, whichever is better; None if neither is finite."""
    formulation, us = loop.formulation, state.model.iterate.us
    nearest = us.clip(*limits)
    if np.array_equal(nearest, us):
        return state
    rollouts = [formulation.start(nearest, None)]
    if state.direction is not None:
        closed = rolled_out(formulation, state.model.iterate, formulation.policy(state.model, state.direction.sweep)[1])
        rollouts += [] if closed is None else [closed]
    found = []
    for iterate in rollouts:
        if math.isfinite(iterate.cost):
            model = loop.constraints.expand(iterate, False, None, state.multipliers)
            if math.isfinite(loop.constraints.violation(model)):
                found.append(state._replace(model=model))
    if not found:
        return None
    best = min(found, key=loop.rank)
    way = find_direction(formulation, best.model, state.regularization, False)
    if way.direction is not None:
        best = best._replace(model=way.model, direction=way.direction)
    if state.status is None:
        return best
    return loop.ended(best._replace(log=state.log[: state.tried], status=None), state.status)


def _of_both(loop: Loop, state: State, other: State) -> State:
    """A loop's state as the end of two solves, whose steps are all in the log of one of them."""
    steps, status = max(state.log[: state.tried], other.log[: other.tried], key=len), state.status or other.status
    assert status is not None
    if len(steps) == state.tried and state.status is not None:
        return state
    return loop.ended(state._replace(log=steps), status)


def _solution(
    formulation: Formulation,
    state: State,
    final: SweepResult | None,
    start: str,
    not_taken_over: tuple[str, ...],
    saddle: str,
    soft: bool,
) -> Solution:
    """The solution of a solve; final: the sweep that gives its policy, None if there is none; soft: True for soft
    constraints."""
    problem, status = formulation.problem, state.status
    assert status is not None
    model, last = _with_best_multipliers(formulation, state.model), state.direction and state.direction.sweep
    xs, us, _, _, gaps, _, cost = model.iterate
    policy = _policy(formulation, model, last, status)
    reports = _reports(formulation, state, model, policy[1])
    k, K, Vx, Vxx = [x.copy() for x in (policy if final is last else _policy(formulation, model, final, status))]
    of_solver = Solution.unchecked if xs.dtype == us.dtype == np.float64 else Solution  # of a system's rollouts, these
    return of_solver(
        problem=problem,
        xs=xs,
        us=us,
        cost=cost,
        status=status,
        message=" ".join(filter(None, (status.message, saddle, *_remarks(formulation, state, soft)))),
        iterations=len(state.log) - 1,
        k=k,
        K=K,
        Vx=Vx,
        Vxx=Vxx,
        gradient_norm=_gradient_norm(formulation, model),
        log=state.log,
        timings=formulation.clock.split(),
        gaps=np.zeros(Vx.shape) if gaps is None else gaps,
        constraints=reports,
        cause=_cause(formulation, state, status),
        start=start,
        not_taken_over=not_taken_over,
    )


def _remarks(formulation: Formulation, state: State, soft: bool) -> list[str]:
    """Messages: to which accuracy the cost of a converged solve is known, where the dynamics are noisy; and by how much
    controls exceed limits that are rows, where these are soft, or a solve ended before they were met."""
    problem, us, told, converged = formulation.problem, state.model.iterate.us, [], state.status is Status.CONVERGED
    uncertain = noise(problem, state.model) if converged else 0.0
    if uncertain > 0.0:
        told.append(f"Steps of the dynamics are noisy, so that the cost is known to {uncertain:.1g}.")
    if formulation.limits is None and problem.control_limits is not None and (soft or not converged):
        excess = float(np.abs(us - us.clip(*problem.control_limits)).max())
        told += [f"Its controls exceed their limits by up to {excess:.2g}."] if excess > 0.0 else []
    return told


def _policy(
    formulation: Formulation, model: LocalModel, sweep: SweepResult | None, status: Status
) -> tuple[np.ndarray, ...]:
    """k, K, Vx and Vxx of a sweep; zeros without a sweep, or where a solve ended because they are not finite."""
    problem = formulation.problem
    if sweep is not None:
        policy = formulation.policy(model, sweep)
        if status is not Status.INVALID_DERIVATIVES or finite(*policy):
            return *policy, sweep.Vx, sweep.Vxx
    return empty_gains(problem.horizon, problem.system.ndx, problem.system.nu)


def _gradient_norm(formulation: Formulation, model: LocalModel) -> float:
    """Largest entry of the Lagrangian's gradient in the controls us, by forward dynamics where the sweep's controls are
    accelerations."""
    problem, rows, (xs, us, *_) = formulation.problem, formulation.rows, model.iterate
    if not isinstance(formulation, InverseFormulation):
        return model.gradient_norm
    lagrangian = expand(problem, xs, us)
    if rows is not None and model.rows is not None:
        _, Cx, Cu = rows.linearized(xs, us)
        lagrangian = with_multipliers(lagrangian, rows.first, (Cx, Cu), model.rows.dual)
    return largest_gradient(adjoint(lagrangian)[1], us, None)


def _with_best_multipliers(formulation: Formulation, model: LocalModel) -> LocalModel:
    """The model with whichever multipliers of its rows leave the smaller gradient, the dual iterate or p."""
    if model.rows is None or model.rows.weights is None:
        return model
    other = model._replace(rows=model.rows._replace(dual=model.rows.weights.p))
    norm = largest_gradient(_gradient(formulation, other), model.iterate.us, formulation.limits)
    return model if model.gradient_norm < norm else other._replace(gradient_norm=norm)


def _gradient(formulation: Formulation, model: LocalModel, K: np.ndarray | None = None) -> np.ndarray:
    """Gradient (N, nu) of the Lagrangian in changes of the controls, under the feedback K if there is one."""
    lagrangian = model.expansion
    if formulation.rows is not None and model.rows is not None:
        lagrangian = with_multipliers(lagrangian, formulation.rows.first, model.rows.C, model.rows.dual)
    return adjoint(lagrangian, K)[1]


def _reports(formulation: Formulation, state: State, model: LocalModel, K: np.ndarray) -> tuple[ConstraintReport, ...]:
    """One report for each constraint, in the problem's order and in its own units.

    The multiplier of a control limit is the gradient that it balances, under the feedback K: rounding does not grow.
    """
    rows, us = formulation.rows, model.iterate.us
    reports, of_rows, gradient, penalty = [], iter(()), None, 0.0
    if rows is not None:
        assert model.rows is not None and state.multipliers is not None and state.feasibility is not None
        penalty = state.multipliers.penalty
        c, lam, nu = model.rows.c / rows.D, model.rows.dual * rows.D, state.feasibility.certificate
        blame = [None] * len(rows.constraints) if nu is None else rows.unpacked(nu * rows.D)
        of_rows = zip(rows.of_reports, rows.unpacked(c), rows.unpacked(lam), blame, strict=True)
    transcribed: Transcribed = formulation.kept["transcribed"]
    for box in transcribed.boxed:
        if box is None:
            fields, values, lam, weights = next(of_rows)
            reports.append(ConstraintReport(values=values, multipliers=lam, penalty=penalty, weights=weights, **fields))
            continue
        below, above, held = us <= box["lower"], us >= box["upper"], np.zeros(us.shape)
        if np.count_nonzero(below | above):
            if gradient is None:
                gradient = _gradient(formulation, model, np.ascontiguousarray(K))
                gradient = gradient if finite(gradient) else np.zeros_like(gradient)
            held = np.where(below, np.maximum(gradient, 0.0), 0.0) + np.where(above, np.minimum(gradient, 0.0), 0.0)
        reports.append(ConstraintReport(values=us, multipliers=-held, **box))
    return tuple(reports)


def _cause(formulation: Formulation, state: State, status: Status) -> str:
    """Message: which number was not finite, and where, if that ended the solve."""
    problem, rows, xs, us = formulation.problem, formulation.rows, *state.model.iterate[:2]
    if status is Status.INVALID_DERIVATIVES:
        return of_derivatives(problem, rows, state.model.expansion, xs, us)
    blocked = state.stall.rejected.blocked
    if blocked is not None and status in (Status.NOT_FINITE, Status.INFEASIBLE, Status.MAX_ITERATIONS):
        return of_trajectory(problem, rows, blocked.xs, blocked.us, " of the shortest step tried")
    without_curvature = state.direction is not None and state.direction.without_curvature
    return of_curvature(problem, rows, xs, us) if without_curvature else ""


def _diverged(formulation: Formulation, iterate: Iterate) -> Solution:
    """The solution of a solve without a finite iterate: the initial state repeated, and the controls that were
    given."""
    problem, status = formulation.problem, Status.DIVERGED
    xs = np.repeat(problem.x0[None], problem.horizon + 1, axis=0)
    k, K, Vx, Vxx = empty_gains(problem.horizon, problem.system.ndx, problem.system.nu)
    cause = of_trajectory(problem, formulation.rows, iterate.xs, iterate.us)
    return Solution(
        problem, xs, iterate.us, np.inf, status, status.message, 0, k, K, Vx, Vxx, 0.0, (), formulation.clock.split(),
        np.zeros_like(Vx), (), cause,
    )  # fmt: skip
