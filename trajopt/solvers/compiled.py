"""The iteration of `trajopt.solvers.ddp` without Python between its kernels, compiled once for all problems.

    the centre of the multipliers moves                                              `advance`
    direction; to the minimum of the piecewise quadratic model, the penalty raised   `find_direction`, `find_minimum`
    stop where the predicted decrease is within the tolerance                        `end_before_step`
    first acceptable step length                                                     `search`
    the iterate and its model, mu, multipliers                                       `step`

The state is one record, and what the loop decides are the functions of numbers that the loop in Python calls, too, so
that both make the same steps, bit for bit.  The record names calls by their addresses (`dynamics.simd.prepared_calls`),
which `trajopt.solvers.program` prepares: compiled code knows no types of robots.

What happens rarely is left to the loop in Python, for which ASK is returned with the state as it was: a search without
an acceptable step, or along other directions where a step is short; numbers that are not finite; mu beyond its limit,
or on states that have gaps; under constraints that hold, exact models that are indefinite, barriers, and searches for
feasibility.

Where the loop is `alone`, as in a library without Python (`trajopt.solvers.alone`), it goes on by itself, and counts
how often it would have asked: it takes the step found, raises mu after a search without one, that of controls where
states have gaps, too, and takes the Gauss-Newton direction; barriers and searches for feasibility are left out.
"""

import numpy as np

from dynamics.simd import by_address, decision
from dynamics.simd.prepared_calls import enter, float_at, integer_at, put_float
from trajopt.backward.regularization import (
    ATTEMPTS,
    FACTOR,
    LONG_STEP,
    LONGEST,
    PATIENCE,
    increased,
    mu_after_step,
    small,
)
from trajopt.solvers.active_set import KNOWN, OF_MULTIPLIERS, OF_TERMS
from trajopt.solvers.augmented_lagrangian import (
    LARGE_COST,
    NEARLY_MET,
    PROGRESS,
    TINY,
    gradient_error,
    optimality_error,
    raised_penalty,
)
from trajopt.solvers.constrained import AT_START, AWAY, BOLD, CLOSE, KINKED, NEAR, helps, penalty_factor
from trajopt.solvers.formulation import ALPHAS, exact_wanted
from trajopt.solvers.iteration import (
    CONVERGED,
    ENDS,
    GO_ON,
    IDLE,
    LINE_SEARCH_FAILED,
    TRIES,
    end_before_step,
    idle_after_step,
    kept,
)
from trajopt.solvers.line_search import INVISIBLE, WORSE, acceptable, merit_weight

ASK = len(ENDS)
"""Code of an iteration that is left to the loop in Python, beyond those of ends."""
INDEFINITE, INVALID, DIVERGED, NO_STATE = range(ASK + 1, ASK + 5)
"""Codes of ends of a loop that is alone: without a direction; of a start that is not finite, or no state."""


def record_type(floats: str, integers: str) -> np.dtype:
    """Type of a record of numbers with these names."""
    return np.dtype([(name, "f8") for name in floats.split()] + [(name, "i8") for name in integers.split()])


STATE = record_type(
    """
    tolerance absolute_tolerance threshold limit scale feasibility_tolerance complementarity_tolerance scaled_tolerance
    cost own_cost gradient_norm mu predicted rounding gap_weight total_gap largest_gap
    d1 d2 alpha new_cost new_own_cost promise after mu_of_search most_sweeps sweeps_left
    soft_penalty penalty unit slope error stationary residual ceiling violation_before
    sizes total violation excess scaled complementarity product farthest new_terms new_violation
    """,
    """
    most limited timed rows checked alone begins settled
    tried idle waits since gained directed closed side kind knot gauss_newton_known exact_known lane finite
    status asked
    iterate code_at save restore value value_at step expand expand_exactly
    rows_at weigh hold hold_exactly measure measure_p advance recentre keep_dual
    """,
)
"""Options and units; the iterate and the last step; multipliers and measures of rows; counts and flags; addresses of
calls."""
SIDE = record_type(
    "",
    """
    sweep sweep_exactly mu_at mu_exactly_at found found_exactly close close_exactly finite finite_exactly
    add_curvature rollouts take rollouts_with_gaps take_with_gaps predict minimum minimum_exactly leave move_dual
    costate publish
    """,
)
"""Calls that read or write a sweep's results.  Sides are those of the last direction, which stays until another one is
found, of the one that is found, and under constraints of those that are tried."""
RECORD = record_type(
    "cost predicted_decrease actual_decrease gradient_norm alpha mu gap violation", "kind indefinite_knot"
)
"""Numbers of a `trajopt.results.records.IterationRecord`."""
SIDES = len(("of the last direction", "of the one that is found", "tried", "tried after that"))
"""Number of sides under constraints; the first trial is two behind the last direction.  Else there are the first two.
"""


# ------------------------------------------------------------------------------------------------ the first model
@decision
def reset(s, mu, scale, cost):
    """The state before the first iteration from an iterate of this cost: its model to first order, mu and its unit."""
    s.cost, s.own_cost, s.mu, s.scale, s.gap_weight, s.violation = cost, cost, mu, scale, 0.0, 0.0
    s.tried, s.idle, s.directed, s.gained, s.gauss_newton_known, s.exact_known = 0, 0, 0, 0, 1, 0
    if s.rows > 0:
        enter(s.keep_dual)
    enter(s.expand)


@decision
def iterated(s):
    """Make an iteration; its code.  As a call by its address, `iterate` is compiled once for all who make it."""
    enter(s.iterate)
    return integer_at(s.code_at)


# ------------------------------------------------------------------------------------------------ direction
@decision
def visible(s):
    """`trajopt.solvers.line_search.visible`."""
    return max(INVISIBLE * abs(s.cost), s.rounding)


@decision
def expected_decrease(s):
    """`trajopt.solvers.iteration.expected_decrease`."""
    change_of_cost = s.d1 + 0.5 * s.d2
    weight = merit_weight(s.gap_weight, change_of_cost, s.total_gap, s.cost)
    return weight, max(0.0, weight * s.total_gap - change_of_cost)


@decision
def sweep(s, side, exact, mu):
    """Sweep; returns the knot at which it failed, -1 for none.  The change of the objective is written."""
    call, place, found, hold = side.sweep, side.mu_at, side.found, s.hold
    if exact:
        call, place, found, hold = side.sweep_exactly, side.mu_exactly_at, side.found_exactly, s.hold_exactly
    if s.rows > 0:
        enter(hold)
    put_float(place, mu * s.scale)
    enter(call)
    failed, s.d1, s.d2, s.finite = integer_at(found), float_at(found + 8), float_at(found + 16), 1
    if failed >= 0:
        enter(side.finite_exactly if exact else side.finite)
    elif s.closed == 0:
        enter(side.close_exactly if exact else side.close)
    return failed


@decision
def find_direction(s, side, exact):
    """`trajopt.solvers.iteration.find_direction`: True if a direction was found, its mu, True for an exact one, and the
    last knot at which a sweep failed."""
    mu, knot, on_states = s.mu, -1, s.closed == 0 and s.alone == 0
    if not abs(s.gradient_norm) < np.inf or (on_states and mu > 0.0):
        return False, mu, False, knot
    if exact and s.exact_known != 0:
        knot = sweep(s, side, True, mu)
        if knot < 0 or s.finite == 0:
            return knot < 0, mu, True, knot
        exact = False
    if s.gauss_newton_known == 0:
        enter(s.expand)
        s.gauss_newton_known = 1
    failed = sweep(s, side, False, mu)
    while failed >= 0:
        knot, mu = failed, increased(mu)
        if s.finite == 0 or mu > s.limit or on_states:
            return False, mu, False, knot
        failed = sweep(s, side, False, mu)
    if not exact:
        return True, mu, False, knot
    enter(side.add_curvature)
    failed = sweep(s, side, True, mu)
    if failed < 0 or s.finite == 0:
        s.exact_known = s.rows > 0
        return failed < 0, mu, True, knot
    sweep(s, side, False, mu)  # once more, for its gains
    return True, mu, False, failed


# ------------------------------------------------------------------------------------------------ under constraints
@decision
def hard(s):
    """True under constraints that hold at a solution: their multipliers and their penalty change."""
    return s.rows > 0 and s.soft_penalty == 0.0


@decision
def advance(s):
    """`trajopt.solvers.constrained.AugmentedLagrangian._advanced`."""
    gradient = gradient_error(s.gradient_norm, s.unit, s.slope, s.sizes, s.rows)
    error = optimality_error(gradient, s.scaled, s.complementarity, s.unit)
    moved = not error > PROGRESS * s.error
    if moved:
        s.error = error
        enter(s.advance)
        enter(s.weigh)
    leads = moved or (s.total > 0.0 and s.total <= PROGRESS * s.violation_before) or s.gained != 0
    s.waits = 0 if leads else s.waits + 1


@decision
def satisfied(s):
    """`trajopt.solvers.constrained.AugmentedLagrangian.satisfied`."""
    if not hard(s):
        return True
    enter(s.measure_p)
    slack = s.complementarity_tolerance * max(1.0, LARGE_COST * abs(s.own_cost))
    return s.excess <= s.feasibility_tolerance and s.product <= slack


@decision
def recentre(s):
    """`trajopt.solvers.augmented_lagrangian.at_minimum`."""
    enter(s.recentre)
    residual = s.farthest / s.penalty
    if residual > max(PROGRESS * s.residual, s.scaled_tolerance):
        s.penalty = raised_penalty(s.penalty, FACTOR, s.unit)
    s.stationary, s.residual = s.stationary / FACTOR, residual
    enter(s.weigh)


@decision
def raise_penalty(s, sides, found, exact, mu, bound):
    """`trajopt.solvers.constrained.AugmentedLagrangian._raised`: the side of the direction with the larger penalty."""
    after = s.after
    for _ in range(bound.raises):
        penalty, d1, d2, promise = s.penalty, s.d1, s.d2, s.promise
        if after <= bound.left * s.total or s.total <= bound.small:
            break
        if penalty >= min(bound.largest * s.unit, s.ceiling):
            break
        s.penalty = raised_penalty(penalty, penalty_factor(after, s.total - after, bound.left, bound.leap), s.unit)
        enter(s.weigh)
        tried = (s.side + 2) % SIDES if found != (s.side + 2) % SIDES else (s.side + 3) % SIDES
        good = sweep(s, sides[tried], exact, mu) < 0
        if good:
            find_minimum(s, sides[tried], exact, mu, KNOWN, np.inf)
            good = helps(s.after, after, s.total)
        if not good:
            s.penalty, s.d1, s.d2, s.promise, s.after = penalty, d1, d2, promise, after
            enter(s.weigh)
            break
        found, after = tried, s.after
    return found


@decision
def find_minimum(s, side, exact, mu, begins, most):
    """`trajopt.solvers.active_set.model_minimum`, in the place of the direction; what is left of the largest number of
    sweeps is written."""
    s.begins, s.mu_of_search, s.sweeps_left = begins, mu, most
    enter(side.minimum_exactly if exact else side.minimum)


@decision
def find_single_minimum(s, sides, found, exact, knot):
    """`trajopt.solvers.constrained.SoftConstraints.find_single_direction`, after its first sweep: the side of the
    direction, whether it is an exact one, and the last knot at which a sweep failed."""
    find_minimum(s, sides[found], exact, s.mu, OF_MULTIPLIERS if hard(s) else OF_TERMS, s.most_sweeps)
    if s.settled != 0 or s.sweeps_left <= 0.0 or (s.closed != 0 and s.promise > 0.0):
        return found, exact, knot
    d1, d2, promise, other = s.d1, s.d2, s.promise, (found + 1) % SIDES
    ok, mu, _, failed = find_direction(s, sides[other], False)
    if ok:
        find_minimum(s, sides[other], False, mu, OF_TERMS, s.sweeps_left - 1.0)
        if s.promise > promise:
            s.mu = mu
            return other, False, failed
    s.d1, s.d2, s.promise, s.settled = d1, d2, promise, 0
    return found, exact, knot


@decision
def find_way(s, side, exact, enough):
    """A direction, and the minimum of the model in its place; where that leads nowhere and the loop is alone, of models
    with a larger mu (`trajopt.solvers.constrained.SoftConstraints.find_direction`): True if there is one, whether it is
    an exact one, and the last knot at which a sweep failed."""
    knot = -1
    for times in range(ATTEMPTS + 1):
        ok, s.mu, kind, failed = find_direction(s, side, exact)
        knot = max(knot, failed)
        convexifies = kind != exact and hard(s)
        if not ok or (convexifies and s.alone == 0):
            return False, exact, knot
        s.asked += convexifies
        exact, change_of_sweep = kind, s.d1 + 0.5 * s.d2
        find_minimum(s, side, exact, s.mu, KNOWN, np.inf)
        if s.closed == 0 or s.promise > enough or -change_of_sweep <= enough or times == ATTEMPTS:
            break
        if s.alone == 0:
            return False, exact, knot
        s.asked += times == 0
        s.mu = s.mu if exact else increased(s.mu)
        exact = False
    return True, exact, knot


@decision
def update_penalty(s, sides, found, exact, mu):
    """`trajopt.solvers.constrained.AugmentedLagrangian._with_updated_penalty`: the side of the direction, and the
    length of a step that was tried along it, 0 for none."""
    if not small(mu):
        return found, 0.0
    near = expected_decrease(s)[1] <= NEAR * abs(s.own_cost)
    if near and s.gained != 0:
        penalty, d1, d2, promise, after = s.penalty, s.d1, s.d2, s.promise, s.after
        bold = raise_penalty(s, sides, found, exact, mu, BOLD)
        if bold != found:
            alpha = search(s, sides[bold], expected_decrease(s)[0] * s.total_gap, rounding_of_search(s))
            lower = s.new_violation <= PROGRESS * s.total
            if alpha == 1.0 and lower and kept(-(s.d1 + 0.5 * s.d2), s.cost - s.new_cost):
                return bold, alpha
        s.penalty, s.d1, s.d2, s.promise, s.after = penalty, d1, d2, promise, after
        enter(s.weigh)
    stalled = s.total > CLOSE.left * s.violation_before
    bound = AT_START if s.directed == 0 else CLOSE if near and stalled else AWAY
    return raise_penalty(s, sides, found, exact, mu, bound), 0.0


@decision
def find_constrained_direction(s, sides, exact, enough):
    """`trajopt.solvers.constrained.AugmentedLagrangian.find_direction`, and of soft constraints: True if a direction
    was found, whether it is an exact one, its side, the last knot at which a sweep failed, and the length of a step
    that was tried along it, 0 for none."""
    idle, first = s.idle >= IDLE, (s.side + 1) % SIDES
    found, knot, alpha = first, -1, 0.0
    if not hard(s):
        ok, exact, knot = find_way(s, sides[first], exact, max(enough, visible(s)) if idle else enough)
        return ok, exact, first, knot, alpha
    enter(s.measure)
    if s.directed != 0:
        advance(s)
    for times in range(TRIES):
        zero = max(enough, visible(s)) if s.idle >= IDLE else enough  # mu would be raised for what is rounding
        ok, exact, knot = find_way(s, sides[first], exact, zero)
        if not ok:
            return False, exact, found, knot, alpha
        found, alpha = update_penalty(s, sides, first, exact, s.mu)
        predicted = expected_decrease(s)[1]
        little = predicted <= max(s.stationary * abs(s.own_cost), enough) and small(s.mu) and s.closed != 0
        if not (idle or little) or satisfied(s) or times == TRIES - 1:
            break
        if times > 0 and s.idle >= IDLE:
            enter(sides[found].leave)
            if s.after / max(s.total, TINY) <= PROGRESS:
                break
        recentre(s)
        idle = False
    return True, exact, found, knot, alpha


# ------------------------------------------------------------------------------------------------ step
@decision
def rounding_of_search(s):
    """The rounding of the merit by which a step under constraints may raise it, where less than that is promised
    (`trajopt.solvers.constrained.AugmentedLagrangian.search`)."""
    return s.rounding if hard(s) and -(s.d1 + 0.5 * s.d2) <= visible(s) else 0.0


@decision
def search(s, side, weighted_gap, noise):
    """`trajopt.solvers.line_search.search`: length of the first acceptable step, 0 for none.  Its candidate, the cost
    and the violation there are left."""
    bound = WORSE * s.total if hard(s) and s.closed != 0 and s.scaled >= NEARLY_MET else np.inf
    closed = s.closed != 0
    take = side.take if closed else side.take_with_gaps
    enter(side.rollouts if closed else side.rollouts_with_gaps)
    alpha = 1.0
    for lane in range(len(ALPHAS)):
        s.lane = lane
        enter(take)
        enter(s.value)
        s.new_own_cost = s.new_cost = float_at(s.value_at)
        if s.rows > 0 and s.new_cost < np.inf:
            enter(s.rows_at)
            cost = s.new_own_cost + s.new_terms
            s.new_cost = cost if cost < np.inf else np.inf
        if abs(s.new_cost) < np.inf and (bound == np.inf or s.new_violation <= bound):
            with_gaps = s.new_cost + (1.0 - alpha) * weighted_gap
            if acceptable(s.cost + weighted_gap, with_gaps, alpha, s.d1 - weighted_gap, s.d2, noise):
                return alpha
        alpha *= 0.5
    return 0.0


@decision
def step(s, side):
    """`trajopt.solvers.ddp.Loop._stepped`: the next iterate and its model."""
    closing, short, gain, new_cost = s.closed == 0, s.alpha < LONG_STEP, s.cost - s.new_cost, s.new_cost
    excused = closing or (short and s.predicted <= visible(s))
    s.gained = s.alpha == 1.0 and s.largest_gap == 0.0 and kept(s.predicted, gain)
    exact = s.alpha == 1.0 and exact_wanted(s.threshold, s.predicted, new_cost)
    if exact or s.timed != 0:
        enter(side.predict)
    if s.rows > 0:
        s.violation_before = s.total
        if hard(s) and not short:
            enter(side.move_dual)
        enter(s.keep_dual)
    enter(s.step)
    s.own_cost, s.cost, s.tried, s.directed = s.new_own_cost, new_cost, s.tried + 1, 1
    s.exact_known, s.gauss_newton_known = exact, not exact
    enter(s.expand_exactly if exact else s.expand)
    if s.rows > 0:
        enter(s.weigh)
        if hard(s) and short and not closing:
            relax(s)
    s.mu = mu_after_step(s.mu, s.alpha, s.limit, excused)
    s.idle = idle_after_step(s.idle, closing, gain, new_cost)


@decision
def relax(s):
    """`trajopt.solvers.augmented_lagrangian.relaxed`."""
    penalty = s.penalty / FACTOR
    enter(s.measure)
    if penalty > s.unit and s.scaled < NEARLY_MET:
        s.penalty = s.ceiling = penalty
        enter(s.advance)
        enter(s.weigh)


@decision
def end_without_direction(s):
    """The code of an end where there is no direction."""
    return INDEFINITE if abs(s.gradient_norm) < np.inf and s.finite != 0 else INVALID


@decision
def end_without_step(s):
    """`trajopt.solvers.ddp.Loop._stuck`, of a loop that is alone: GO_ON with a smaller penalty or a larger mu, or the
    code of an end."""
    s.tried, s.directed, s.gained, penalty = s.tried + 1, 1, 0, s.penalty
    if hard(s):
        relax(s)
        if s.penalty != penalty:
            return GO_ON
    invisible = s.closed != 0 and s.predicted <= visible(s)
    if small(s.mu) and invisible and satisfied(s):
        return CONVERGED
    s.mu = increased(s.mu)
    s.idle += IDLE * invisible
    return LINE_SEARCH_FAILED if s.mu > s.limit else GO_ON


# ------------------------------------------------------------------------------------------------ the iteration
@decision
def write_record(s, record, stepped):
    """`trajopt.solvers.iteration.record_of`; stepped: True if the search has found a step."""
    record.cost, record.predicted_decrease, record.gradient_norm = s.own_cost, s.predicted, s.gradient_norm
    record.actual_decrease = s.cost - s.new_cost if stepped else 0.0
    record.alpha, record.mu, record.kind = s.alpha if stepped else 0.0, s.mu, s.kind
    record.gap, record.violation, record.indefinite_knot = s.largest_gap, s.violation, s.knot


@by_address
def iterate(state, sides, records):
    """An iteration (`trajopt.solvers.ddp.Loop.step`): GO_ON after a step, the code of an end before one, or ASK.  Where
    a function of the user has to be compared with its trace first, the step is left to `take_step`."""
    s = state[0]
    if hard(s) and s.alone == 0 and (s.tried - s.since >= PATIENCE or (s.closed != 0 and s.waits >= KINKED)):
        return ASK
    enter(s.save)
    enough = max(s.tolerance * abs(s.own_cost), s.absolute_tolerance)
    exact = exact_wanted(s.threshold, s.predicted, s.cost)
    found, alpha = (s.side + 1) % sides.shape[0], 0.0
    if s.rows > 0:
        ok, exact, found, knot, alpha = find_constrained_direction(s, sides, exact, enough)
        if ok:
            enter(s.measure)
    else:
        ok, s.mu, exact, knot = find_direction(s, sides[found], exact)
    if not ok and s.alone != 0:
        return end_without_direction(s)
    if not ok:
        enter(s.restore)
        return ASK
    s.gap_weight, s.predicted = expected_decrease(s)
    if s.rows > 0 and s.idle >= IDLE:
        enough = max(enough, visible(s))
    converged = small(s.mu) and s.closed != 0 and s.predicted <= enough and satisfied(s)
    invisible = s.idle >= LONGEST and s.closed != 0 and s.predicted <= visible(s)
    end = end_before_step(converged, s.tried, s.most, s.idle, s.mu, invisible)
    if end == GO_ON:
        if alpha == 0.0:
            alpha = search(s, sides[found], s.gap_weight * s.total_gap, rounding_of_search(s))
        s.alpha = alpha
        elsewhere = not hard(s) and (exact or s.limited != 0)
        if s.alpha == 0.0 or (s.alpha < LONG_STEP and elsewhere):
            if s.alone == 0:
                enter(s.restore)
                return ASK
            s.asked += 1
        elif s.closed == 0 and s.mu > 0.0:
            s.asked += 1
    stepped = end == GO_ON and s.alpha > 0.0
    s.kind, s.knot, s.side = exact, knot, found
    write_record(s, records[0], stepped)
    if stepped and s.checked == 0:
        step(s, sides[found])
    return end_without_step(s) if end == GO_ON and not stepped else end


@by_address
def take_step(state, sides):
    """The step that `iterate` has found."""
    step(state[0], sides[state[0].side])


@by_address
def leave_step(state):
    """The state before `iterate`, as after ASK."""
    enter(state[0].restore)
