"""Predictive control without Python: one call moves the plan up by a knot and makes a real-time iteration from x0.

    the plan moves up: it ends with the control of the last knot's policy, and the state to which that leads
    its gaps to the dynamics and to x0; under constraints its rollout from x0 with its gains, unless that is worse
    its cost, its model to first order
    multipliers and penalty of the last cycle, the latter firm
    direction of one sweep, exact where the last predicted decrease was a small part of the cost; under constraints with
    the active set of the last cycle, and of more sweeps where its step changes that
    first acceptable step, under constraints that of an ordinary iteration where there is none; without constraints, one
    that does not gain what an exact model predicts is compared with a Gauss-Newton step
    where there is none and states have gaps, the same once more from the rollout with the plan's gains
    the iterate and its multipliers, and the costate for the curvature of the next cycle

As `Solution.shifted` and `trajopt.solvers.real_time` do, bit for bit, without anything of a `Solution`.  Where the loop
in Python would hold the controls that limits clip, the short step is taken as it is, and counted.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dynamics.simd import by_address, decision
from dynamics.simd.array_loops import copy, fill
from dynamics.simd.prepared_calls import PreparedCall, enter, float_at, integer_at
from trajopt.backward.expansions import Expansion, largest_gradient_entry, prepared_adjoint
from trajopt.backward.regularization import LONG_STEP, small
from trajopt.backward.slots import Slots
from trajopt.interfaces.state_space import compiled_space, state_space
from trajopt.interfaces.stepwise import prepare, prepared_difference
from trajopt.interfaces.system import window
from trajopt.problem.objective import all_finite
from trajopt.problem.problem import Problem
from trajopt.results.solution import Solution, last_control, moved_up
from trajopt.rows import Rows, random_signs
from trajopt.solvers.augmented_lagrangian import (
    NEARLY_MET,
    PROGRESS,
    largest_derivative,
    penalty_of_warm_start,
    project,
    scale_of,
    stiffness,
    units_of,
    weigh,
    weigh_active,
)
from trajopt.solvers.compiled import (
    DIVERGED,
    INDEFINITE,
    NO_STATE,
    end_without_direction,
    expected_decrease,
    find_constrained_direction,
    find_direction,
    find_single_minimum,
    hard,
    record_type,
    reset,
    rounding_of_search,
    satisfied,
    search,
    sweep,
)
from trajopt.solvers.formulation import ALPHAS, Curvature, Iterate, exact_wanted
from trajopt.solvers.iteration import CONVERGED, GO_ON, LINE_SEARCH_FAILED, MAX_ITERATIONS, kept
from trajopt.solvers.line_search import WORSE
from trajopt.solvers.options import LoopOptions
from trajopt.solvers.program import NoPieces, Program, measure_rows
from trajopt.solvers.solve import transcribe
from trajopt.solvers.start import taken_over

CYCLE = record_type(
    "first_mu",
    """
    finite
    check wrong_at expect feed_back repeat remain move_up open hold follow take stay_with units project take_active_set
    add_curvature keep take_kept before take_terms publish halve give measure_step choose look begin_afresh
    """,
)
"""The first mu; whether the numbers are finite that were looked at; and addresses: of the check of x0 and its result,
and of other calls."""


# ------------------------------------------------------------------------------------------------ the cycle
@decision
def begin(s, c):
    """The plan from x0, its gaps and cost."""
    enter(c.feed_back)
    if c.finite == 0:
        enter(c.repeat)
        if c.finite == 0:
            enter(c.remain)
    enter(c.move_up)
    enter(c.open)
    if s.rows > 0 and s.closed == 0:
        follow(s, c)
    enter(s.value)
    if not abs(float_at(s.value_at)) < np.inf:
        hold(s, c)


@decision
def expand(s, c):
    """The model of the start, to first order, and the multipliers."""
    reset(s, c.first_mu, 1.0, float_at(s.value_at))
    if s.rows > 0:
        enter(c.units)
        s.penalty = penalty_of_warm_start(s.penalty, s.unit) if hard(s) else s.soft_penalty
        enter(c.project)
        enter(s.weigh)
        enter(s.measure)


@decision
def follow(s, c):
    """`trajopt.solvers.start.followed`: the candidate, and the iterate unless it is worse, are its rollout from x0."""
    enter(s.value)
    enter(s.rows_at)
    cost, violation, s.lane = float_at(s.value_at), s.new_violation, 0
    enter(c.follow)
    enter(s.value)
    enter(s.rows_at)
    dearer = not float_at(s.value_at) <= cost + (WORSE - 1.0) * abs(cost)
    if dearer or not s.new_violation <= WORSE * (violation + s.total_gap):
        enter(c.stay_with)
        return
    take(s, c)


@decision
def take(s, c):
    """Take over a candidate without gaps."""
    enter(c.take)
    s.closed, s.total_gap, s.largest_gap = 1, 0.0, 0.0


@decision
def rolled_out(s, c):
    """Take over the rollout from x0 with the plan's gains; False where that is not finite."""
    s.lane = 0
    enter(c.follow)
    enter(s.value)
    finite = abs(float_at(s.value_at)) < np.inf
    if finite:
        take(s, c)
    return finite


@decision
def hold(s, c):
    """Where the plan's cost is not finite: x0 at all knots in its place, with gaps, if the cost of that is."""
    s.asked += 1
    enter(c.hold)
    enter(s.value)
    if abs(float_at(s.value_at)) < np.inf:
        enter(c.take)
    enter(c.open)
    enter(s.value)


@decision
def is_state(c):
    """True if x0 is a state."""
    enter(c.check)
    return integer_at(c.wrong_at) < 0


@by_address
def cycle(state, sides, records, cycles):
    """Make a cycle.  Its code is the status: of a step MAX_ITERATIONS, without one CONVERGED where the plan is optimal,
    LINE_SEARCH_FAILED where none lowers the merit, and those without a direction.  The plan has moved up all the same;
    what is no state is replaced by the one that was planned.  A plan that is not finite is never left: the first
    controls from x0 are in its place, without gains, and the code is DIVERGED."""
    s, c = state[0], cycles[0]
    known = is_state(c)
    if not known:
        enter(c.expect)
    status = control(s, sides, c)
    enter(c.look)
    if c.finite == 0:
        enter(c.begin_afresh)
        status, s.predicted, s.penalty = DIVERGED, np.inf, 0.0
    s.status = status if known else NO_STATE


@decision
def control(s, sides, c):
    """The code of a cycle from a state."""
    penalty, s.asked = s.penalty, 0
    begin(s, c)
    code = GO_ON
    for _ in range(2):
        expand(s, c)
        code = find_step(s, sides, c)
        if code != GO_ON or s.closed != 0 or s.alpha > 0.0 or not rolled_out(s, c):
            break
        s.penalty, s.predicted = penalty, np.inf
    if code >= INDEFINITE:
        s.penalty = penalty  # in units that may not be finite
    elif code == CONVERGED or s.alpha == 0.0:
        stay(s, c, sides[s.side])
        code = CONVERGED if code == CONVERGED else LINE_SEARCH_FAILED
    else:
        step(s, c, sides[s.side])
        code = MAX_ITERATIONS
    return code


@decision
def find_step(s, sides, c):
    """The direction and the length of a step along it, 0 for none; GO_ON, or the code of an end."""
    found, other = (s.side + 1) % sides.shape[0], (s.side + 2) % sides.shape[0]
    exact = exact_wanted(s.threshold, s.predicted, s.cost)
    if exact:
        enter(c.add_curvature)
        s.exact_known = 1
    if hard(s):
        enter(c.take_active_set)
    ok, s.mu, exact, knot = find_direction(s, sides[found], exact)
    if not ok:
        return end_without_direction(s)
    s.settled = 1
    if s.rows > 0:
        enter(s.weigh)
        found, exact, knot = find_single_minimum(s, sides, found, exact, knot)
    s.gap_weight, s.predicted = expected_decrease(s)
    enough = max(s.tolerance * abs(s.own_cost), s.absolute_tolerance)
    s.kind, s.knot, s.side, s.alpha = exact, knot, found, 0.0
    if small(s.mu) and s.closed != 0 and s.predicted <= enough and s.settled != 0 and satisfied(s):
        return CONVERGED
    s.alpha = search(s, sides[found], s.gap_weight * s.total_gap, rounding_of_search(s))
    if s.alpha == 0.0 and s.rows > 0 and s.most_sweeps == np.inf:
        iterate_instead(s, c, sides, enough)
    as_predicted = s.alpha == 1.0 and kept(-(s.d1 + 0.5 * s.d2), s.cost - s.new_cost)
    if s.rows == 0 and not as_predicted:
        if exact:
            search_elsewhere(s, c, sides, found, other)
        s.asked += s.limited != 0 and s.alpha < LONG_STEP
    return GO_ON


@decision
def iterate_instead(s, c, sides, enough):
    """The direction and the step of an ordinary iteration, without curvature; nothing where that has no step either."""
    enter(s.save)
    alone = s.alone
    s.alone, s.mu, s.gap_weight = 1, c.first_mu, 0.0
    s.error = s.residual = s.ceiling = s.violation_before = np.inf
    s.stationary, s.waits, asked = 1e-2, 0, s.asked
    ok, exact, found, knot, alpha = find_constrained_direction(s, sides, False, enough)
    if ok:
        s.gap_weight, s.predicted = expected_decrease(s)
        if alpha == 0.0:
            alpha = search(s, sides[found], s.gap_weight * s.total_gap, rounding_of_search(s))
    if not ok or alpha == 0.0:
        enter(s.restore)
        return
    s.alone, s.asked, s.alpha, s.kind, s.knot, s.side = alone, asked, alpha, exact, knot, found


@decision
def search_elsewhere(s, c, sides, found, other):
    """`trajopt.solvers.iteration.Unconstrained.search_elsewhere`: the better one of the step that was found and one
    along the Gauss-Newton direction."""
    alpha, cost, own, d1, d2 = s.alpha, s.new_cost, s.new_own_cost, s.d1, s.d2
    enter(c.keep)
    good = sweep(s, sides[other], False, s.mu) < 0
    if good:
        s.alpha = search(s, sides[other], s.gap_weight * s.total_gap, 0.0)
        good = s.alpha > 0.0 and not (alpha > 0.0 and cost <= s.new_cost)
    if good:
        s.kind, s.side = False, other
        s.gap_weight, s.predicted = expected_decrease(s)
        return
    s.alpha, s.new_cost, s.new_own_cost, s.d1, s.d2 = alpha, cost, own, d1, d2
    enter(c.take_kept)


@decision
def step(s, c, side):
    """`trajopt.solvers.real_time.RealTimeIteration._stepped`: the iterate, its multipliers and its costate."""
    if hard(s):
        enter(c.before)
        if s.alpha >= LONG_STEP:
            enter(side.move_dual)
        if s.new_violation > max(NEARLY_MET, PROGRESS * s.total):
            enter(c.halve)
    elif s.rows > 0:
        enter(c.take_terms)
    if s.rows > 0:
        enter(c.give)
        enter(c.measure_step)
    finish(c, side, side.predict)
    enter(s.step)
    s.own_cost, s.cost, s.tried = s.new_own_cost, s.new_cost, 1


@decision
def stay(s, c, side):
    """Without a step: the plan that has moved up, under the gains that were found; and whichever multipliers of its
    rows leave the smaller gradient (`trajopt.solvers.solve`)."""
    if s.rows > 0:
        enter(c.choose)
    finish(c, side, side.costate)


@decision
def finish(c, side, costate):
    """Write what the next cycle begins with, and who applies the control: costate, by this call, multipliers, gains."""
    enter(costate)
    enter(side.publish)
    enter(c.publish)


# ------------------------------------------------------------------------------------------------ its parts
@by_address
def _look(cycles, parts):
    """Write whether all numbers of these arrays (K, n) are finite."""
    c = cycles[0]
    c.finite = 1
    for part in parts:
        if not all_finite(part):
            c.finite = 0


@by_address
def _begin_afresh(x0, first, xs, us, others):
    """Write x0 at all knots, the first controls, and zeros."""
    for t in range(xs.shape[0]):
        for i in range(xs.shape[1]):
            xs[t, i] = x0[i]
    for t in range(us.shape[0]):
        for i in range(us.shape[1]):
            us[t, i] = first[t, i]
    for other in others:
        for t in range(other.shape[0]):
            for i in range(other.shape[1]):
                other[t, i] = 0.0


@by_address
def _move_up(xs, us, K, costate, u, last):
    """Move up by a knot: controls and states end with u (1, nu) and the last one (1, nx), gains and costate with their
    last rows."""
    N = us.shape[0]
    for t in range(N):
        for i in range(xs.shape[1]):
            xs[t, i] = xs[t + 1, i]
        for i in range(costate.shape[1]):
            costate[t, i] = costate[t + 1, i]
        for i in range(us.shape[1]):
            us[t, i] = us[t + 1, i] if t + 1 < N else u[0, i]
            for j in range(K.shape[2]):
                K[t, i, j] = K[min(t + 1, N - 1), i, j]
    for i in range(xs.shape[1]):
        xs[N, i] = last[0, i]


@by_address
def _feed_back(us, K, dx, lower, upper, u):
    """`trajopt.results.solution.last_control`."""
    last_control(us, K, dx, lower, upper, u)


@by_address
def _take_multipliers(state, source, lam, D, dual):
    """Multipliers of scaled rows from those of rows a knot later, in the user's units; zeros for soft constraints."""
    for i in range(dual.shape[0]):
        dual[i] = lam[source[i]] / D[i] if state[0].soft_penalty == 0.0 else 0.0


@by_address
def _take_terms(state, c, lower, upper, centre, dual, w):
    """Write the derivatives of the terms of soft constraints, which are their multipliers."""
    weigh(c, lower, upper, dual, centre, state[0].penalty, 0.0, dual, w)


@by_address
def _give_multipliers(dual, D, lam):
    """Multipliers in the user's units from those of scaled rows."""
    for i in range(dual.shape[0]):
        lam[i] = dual[i] * D[i]


@by_address
def _choose(state, gradient, us, lower, upper, dual, p, D, lam):
    """Write the multipliers p, with which the Lagrangian has this gradient, or the dual iterate's, whose largest entry
    is known, in the user's units."""
    norm = largest_gradient_entry(gradient, us, lower, upper)
    for i in range(lam.shape[0]):
        lam[i] = (dual[i] if state[0].gradient_norm < norm else p[i]) * D[i]


@by_address
def _clip(us, lower, upper):
    for t in range(lower.shape[0]):
        for i in range(us.shape[1]):
            us[t, i] = min(max(us[t, i], lower[t, i]), upper[t, i])


@by_address
def _find_units(state, large, lx, lu, lxx, luu, gradient):
    """Write the units of penalties and slopes (`trajopt.solvers.augmented_lagrangian.units`)."""
    s = state[0]
    total, slope = stiffness(gradient, luu)
    s.unit, s.slope = units_of(scale_of(largest_derivative(lx, lu, lxx, luu)), total, slope, s.rows, large)


@by_address
def _take_active_set(state, c, lower, upper, centre, p, w):
    """`trajopt.solvers.augmented_lagrangian.with_active_set`."""
    weigh_active(c, lower, upper, centre, state[0].penalty, p, w)


@by_address
def _halve(before, dual):
    for i in range(dual.shape[0]):
        dual[i] = PROGRESS * before[i]


Warm = tuple[np.ndarray, float]


def source_of(rows: Rows, N: int) -> np.ndarray:
    """For each row (R,) the one whose multiplier it takes when a plan moves up by a knot."""
    places = rows.unpacked(np.arange(len(rows), dtype=np.float64))
    moved = [moved_up(knots, 1, N, each) for knots, each in zip(rows.knots, places, strict=True)]
    return rows.packed("places", moved).astype(np.int64)


class Cycle:
    """Cycles of predictive control over one plan, in arrays that stay.

    Parameters
    ----------
    program : Program
        For states with gaps; others that use it leave a plan there.
    mu : the first regularization

    Attributes
    ----------
    xs, us : the plan
    K : its gains
    costate : (N+1, ndx), of the plan
    lam : (R,) multipliers of the plan's rows, in the user's units
    """

    def __init__(self, program: Program, mu: float) -> None:
        self.program, slots = program, program.slots
        self.x0, self.xs, self.us, self.K = slots.x0, program.xs, program.us, program.K
        self.costate, self.record = np.zeros(program.costate.shape), np.zeros(1, CYCLE)
        state, system, (N, nu) = program.state, slots.problem.system, self.us.shape
        n = self.costate.shape[1]
        u, last, dx = np.zeros((1, nu)), np.zeros((1, system.nx)), np.zeros((1, n))
        step_to_last = prepare(window(system, N - 1, N), "prepared_steps", self.xs[N:], u, last)
        look_at_last = PreparedCall(_look, self.record, (u, last))
        new_xs, new_us = program.candidate
        kept_xs, kept_us = new_xs.copy(), new_us.copy()
        moved: list[Callable[[], Any] | None] = [
            PreparedCall(_move_up, self.xs, self.us, self.K, self.costate, u, last)
        ]
        rollouts = slots.prepared_rollouts(ALPHAS, self.xs, self.us, np.zeros(self.us.shape), self.K)
        if rollouts is None:
            raise NoPieces
        published = [PreparedCall(copy, program.multiplier, self.costate)]
        calls: dict[str, list[Any]] = {
            "feed_back": [
                prepared_difference(system, self.xs[N - 1 : N], self.xs[N:], dx),
                PreparedCall(_feed_back, self.us, self.K, dx, *program.limits, u), step_to_last, look_at_last,
            ],
            "repeat": [PreparedCall(copy, self.us[N - 1 :], u), step_to_last, look_at_last],
            "remain": [PreparedCall(copy, self.us[N - 1 :], u), PreparedCall(copy, self.xs[N:], last)],
            "hold": [PreparedCall(_begin_afresh, self.x0, self.us, new_xs, new_us, (dx,))],
            "follow": [rollouts, program.taken(rollouts())],
            "take": [
                PreparedCall(copy, new_xs, self.xs), PreparedCall(copy, new_us, self.us),
                PreparedCall(fill, program.gaps, 0.0),
            ],
            "open": [
                PreparedCall(_clip, self.us, *program.limits), program.prepared_gaps()[1],
                PreparedCall(copy, self.xs, new_xs), PreparedCall(copy, self.us, new_us),
            ],
            "add_curvature": [program.curvature_with(self.costate)],
            "keep": [PreparedCall(copy, new_xs, kept_xs), PreparedCall(copy, new_us, kept_us)],
            "take_kept": [PreparedCall(copy, kept_xs, new_xs), PreparedCall(copy, kept_us, new_us)],
        }  # fmt: skip
        rows = program.rows
        self.lam = np.zeros(0 if rows is None else len(rows.c))
        if rows is not None:
            R, D = len(rows.c), rows.own.D
            before = np.zeros(R)
            give = PreparedCall(_give_multipliers, rows.dual, D, self.lam)
            moved_dual = np.zeros(R)
            moved += [
                PreparedCall(_take_multipliers, state, source_of(rows.own, N), self.lam, D, moved_dual),
                PreparedCall(copy, moved_dual, rows.dual), give,
            ]  # fmt: skip
            lx, lu, gradient, unused = np.zeros((N + 1, n)), np.zeros((N, nu)), np.zeros((N, nu)), np.zeros((N + 1, n))
            e = program.model
            influence = Expansion(program.fx, program.fu, lx, lu, *e[2:])
            adjoint = prepared_adjoint(influence, unused, gradient)
            calls |= {
                "stay_with": calls["open"][-2:],
                "units": [
                    PreparedCall(fill, lx, 0.0), PreparedCall(fill, lu, 0.0),
                    rows.add_multipliers(random_signs(R).copy(), lx, lu), adjoint,
                    PreparedCall(_find_units, state, rows.own.large, e[0], e[1], e[2], e[4], gradient),
                ],
                "project": [
                    PreparedCall(project, *rows.limits, moved_dual, rows.dual),
                    PreparedCall(copy, rows.dual, rows.centre),
                ],
                "take_active_set": [
                    PreparedCall(_take_active_set, state, rows.c, *rows.limits, rows.centre, rows.p, rows.w)
                ],
                "before": [PreparedCall(copy, rows.dual, before)],
                "take_terms": [
                    PreparedCall(_take_terms, state, rows.new_c, *rows.limits, rows.centre, rows.dual, rows.w)
                ],
                "halve": [PreparedCall(_halve, before, rows.dual)],
                "choose": [
                    PreparedCall(copy, e[0], lx), PreparedCall(copy, e[1], lu),
                    rows.add_multipliers(rows.p, lx, lu), adjoint,
                    PreparedCall(
                        _choose, state, gradient, self.us, *program.limits, rows.dual_of_model, rows.p, D, self.lam
                    ),
                ],
                "give": [give],
                "measure_step": [
                    PreparedCall(measure_rows, state, rows.new_c, *rows.limits, D, rows.own.rounding, rows.dual)
                ],
            }  # fmt: skip
        others = self.K.reshape(N, -1), self.costate, self.lam[None]
        calls["look"] = [PreparedCall(_look, self.record, (self.xs, self.us, *others))]
        first = slots.problem.us_init.copy()
        calls["begin_afresh"] = [PreparedCall(_begin_afresh, self.x0, first, self.xs, self.us, others)]
        space = state_space(system).compiled() or compiled_space([("euclidean", system.nx)])
        check = PreparedCall(space.first_no_point, space.rows, self.x0)
        calls |= {"move_up": moved, "publish": published}
        calls |= {"check": [check], "expect": [PreparedCall(copy, self.xs[1], self.x0)]}
        for name, parts in calls.items():
            self.record[name] = program.calls(*parts).address
        self.record["first_mu"], self.record["wrong_at"] = mu, check.result_address
        self.call = PreparedCall(cycle, state, program.sides, program.records, self.record)

    def take(self, plan: Solution, multipliers: Warm | None) -> None:
        """Take over the plan to begin with, of the same problem, with the numbers that the program has; multipliers:
        those of its rows, scaled, and their penalty, None where there are none."""
        self.xs[...], self.us[...], self.K[...], self.costate[...] = plan.xs, plan.us, plan.K, plan.Vx
        self.program.state["predicted"] = plan.log[-1].predicted_decrease if plan.log else np.inf
        if self.program.rows is not None and multipliers is not None:
            self.lam[...], self.program.state["penalty"] = multipliers[0] * self.program.rows.own.D, multipliers[1]

    def __call__(self, x0: np.ndarray) -> int:
        """Make a cycle from x0 (nx,); returns its code."""
        self.x0[...] = x0
        self.call()
        return int(self.program.state["status"][0])


def cycle_of(options: LoopOptions, curvature: Curvature, problem: Problem, plan: Solution) -> Cycle:
    """Cycles of a solver's real-time iteration that begin with a plan.

    Raises `trajopt.solvers.program.NoPieces` if some part of the problem is Python.
    """
    formulation = transcribe(problem, options, curvature)
    rows, multipliers, warm = formulation.rows, None, plan.warm_start()
    if rows is not None:
        if options.soft_penalty == 0.0:
            start = Iterate(plan.xs, plan.us, plan.us, plan.cost, None, 0.0, plan.cost)
            rows, multipliers, _ = taken_over(problem, warm, rows, start)
        multipliers = multipliers or (np.zeros(len(rows)), 0.0)
    program = Program(Slots(problem, formulation.limits), curvature, rows, True)
    formulation.close()
    program.set_options(options, curvature, rows)
    cycle = Cycle(program, options.initial_regularization)
    cycle.take(plan, multipliers)
    return cycle
