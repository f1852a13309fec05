"""Solves without Python, compiled: a start from the first controls, and iterations until one ends.

    begin      rollout of the controls, under the gains of the last plan if that is kept, or states with their gaps;
               cost, expansion, multipliers
    step       an iteration of `trajopt.solvers.compiled`
    go_on      iterations until there is a status
    shift      the plan moves on by a knot

These are entries of a library for programs that nobody can be asked in (`trajopt.solvers.export`).  A start is never
replaced by the initial state at rest, and units of penalties, rows and mu are those of the start that the library was
made with.
"""

import numpy as np

from dynamics.simd import by_address, decision
from dynamics.simd.prepared_calls import enter, float_at, integer_at, put_float
from trajopt.solvers.augmented_lagrangian import FIRST, LARGEST_PENALTY, TINY, project
from trajopt.solvers.compiled import record_type
from trajopt.solvers.formulation import EPSILON
from trajopt.solvers.iteration import GO_ON

DIVERGED = 6
"""Code of a start whose cost or constraints are not finite."""
MEANINGS = (
    "running", "converged", "max_iterations", "line_search_failed", "not_positive_definite", "invalid_derivatives",
    "diverged",
)  # fmt: skip
"""Names of codes, by their places, as those of `trajopt.Status`."""
CONTROLS, STATES, KEEP = range(3)
"""From what a solve starts: controls; states and controls, with gaps between them; or the last plan, its gains and
multipliers."""
START = record_type("mu", "mode rollouts take gaps iterate code_at")
"""First mu; from what to start; addresses of calls, 0 where none finds gaps, and of the iteration's code."""


@by_address
def put_numbers(values, entry, factor, places):
    """Write values times factors to addresses: numbers in the user's units to where calls read them."""
    for i in range(entry.shape[0]):
        put_float(places[i], values[entry[i]] * factor[i])


@decision
def _first_multipliers(s, start, lower, upper, dual):
    """`trajopt.solvers.augmented_lagrangian.first_multipliers`, with the units that are known."""
    penalty, largest = 0.0, 0.0
    if start.mode == KEEP:
        project(lower, upper, dual, dual)
        enter(s.measure)
        for i in range(dual.shape[0]):
            largest = max(largest, abs(dual[i]))
        bearable = max(largest, s.unit) / max(s.scaled, TINY)
        penalty = min(s.penalty, LARGEST_PENALTY * s.unit, bearable)
    s.penalty = max(penalty, FIRST * s.unit)
    s.error = s.residual = s.ceiling = s.violation_before = np.inf
    s.stationary, s.waits = 1e-2, 0
    enter(s.advance)
    enter(s.weigh)


@decision
def _roll_out(s, start, x0, trajectory, new, K):
    """Write the rollout of the controls, under the gains K about the states if the last plan is kept."""
    (xs, us), (new_xs, new_us) = trajectory, new
    if start.mode != KEEP:
        for t in range(xs.shape[0]):
            for i in range(xs.shape[1]):
                xs[t, i] = x0[i]
        for t in range(K.shape[0]):
            for i in range(K.shape[1]):
                for j in range(K.shape[2]):
                    K[t, i, j] = 0.0
    s.lane = 0
    enter(start.rollouts)
    enter(start.take)
    for t in range(xs.shape[0]):
        for i in range(xs.shape[1]):
            xs[t, i] = new_xs[t, i]
    for t in range(us.shape[0]):
        for i in range(us.shape[1]):
            us[t, i] = new_us[t, i]


@decision
def _clear(rows):
    for t in range(rows.shape[0]):
        for i in range(rows.shape[1]):
            rows[t, i] = 0.0


@decision
def _leave_gaps(s, start, trajectory, new, limits, found, gaps):
    """Write the states' gaps, and the controls within their limits, to where the cost is computed, too; True unless
    the gaps are not finite."""
    (xs, us), (new_xs, new_us), (lower, upper) = trajectory, new, limits
    size, finite = 0.0, True
    for t in range(us.shape[0]):
        for i in range(us.shape[1]):
            if lower.shape[0] > 0:
                us[t, i] = min(max(us[t, i], lower[t, i]), upper[t, i])
            new_us[t, i] = us[t, i]
    for t in range(xs.shape[0]):
        for i in range(xs.shape[1]):
            new_xs[t, i] = xs[t, i]
            size = max(size, abs(xs[t, i]))
    enter(start.gaps)
    for t in range(gaps.shape[0]):
        for i in range(gaps.shape[1]):
            gaps[t, i] = found[t, i]
            finite = finite and abs(gaps[t, i]) < np.inf
            s.largest_gap = max(s.largest_gap, abs(gaps[t, i]))
            s.total_gap += abs(gaps[t, i])
    s.closed = not s.largest_gap > EPSILON * size
    if s.closed != 0:
        s.total_gap = s.largest_gap = 0.0
        _clear(gaps)
    return finite


@by_address
def begin(state, starts, x0, trajectory, new, limits, found, gaps, K, c, lower, upper, dual):
    """The state before the first iteration, from trajectory = (xs, us)."""
    s, start = state[0], starts[0]
    s.predicted, s.gap_weight, s.mu, s.idle, s.tried, s.asked = np.inf, 0.0, start.mu, 0, 0, 0
    s.directed, s.gained, s.closed, s.exact_known, s.gauss_newton_known, s.finite = 0, 0, 1, 0, 1, 1
    s.total_gap = s.largest_gap = s.gradient_norm = s.violation = 0.0
    known = True
    _clear(gaps)
    if start.mode == STATES and start.gaps != 0:
        known = _leave_gaps(s, start, trajectory, new, limits, found, gaps)
    else:
        _roll_out(s, start, x0, trajectory, new, K)
    enter(s.value)
    s.own_cost = s.cost = float_at(s.value_at)
    s.status = GO_ON if known and abs(s.cost) < np.inf else DIVERGED
    if s.rows > 0:
        if start.mode != KEEP:
            for i in range(dual.shape[0]):
                dual[i] = 0.0
        enter(s.keep_dual)
    enter(s.expand)
    if s.rows > 0:
        for i in range(c.shape[0]):
            if not abs(c[i]) < np.inf:
                s.status = DIVERGED
        _first_multipliers(s, start, lower, upper, dual)


@by_address
def step(state, starts, gains):
    """An iteration; its code is the status."""
    _iterate(state[0], starts[0])
    _finish(state[0], gains)


@by_address
def go_on(state, starts, gains):
    """Iterations from the state, until there is a status."""
    while state[0].status == GO_ON:
        _iterate(state[0], starts[0])
    _finish(state[0], gains)


@decision
def _iterate(s, start):
    enter(start.iterate)
    s.status = integer_at(start.code_at)


@decision
def _finish(s, gains):
    """Write the gains of the last direction to where programs read them, and the largest violation."""
    enter(gains[s.side])
    if s.rows > 0:
        enter(s.measure)


@by_address
def take_first(source, target):
    """Copy as many numbers of the source as the target has."""
    for i in range(target.shape[0]):
        target[i] = source[i]


@by_address
def shift(xs, us, K, first, dual):
    """Move the plan on by a knot, the last one repeated; multipliers stay where a knot has another number of rows."""
    N = us.shape[0]
    for t in range(N):
        for i in range(xs.shape[1]):
            xs[t, i] = xs[t + 1, i]
        rows = first[t + 1] - first[t]
        if t + 1 < N and first[t + 2] - first[t + 1] == rows:
            for i in range(rows):
                dual[first[t] + i] = dual[first[t + 1] + i]
    for t in range(N - 1):
        for i in range(us.shape[1]):
            us[t, i] = us[t + 1, i]
            for j in range(K.shape[2]):
                K[t, i, j] = K[t + 1, i, j]
