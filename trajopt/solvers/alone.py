"""Solves without Python, compiled: a start, and iterations until one ends.

    begin      rollout of the controls, under the gains of the last plan if that is kept, or states with their gaps;
               cost, expansion, multipliers
    step       an iteration of `trajopt.solvers.compiled`
    go_on      iterations until there is a status

Each of the latter leaves a plan for cycles of predictive control (`trajopt.solvers.cycle`), with gains to deploy.
These are entries of a library for programs in which nobody can be asked (`trajopt.solvers.export`).  A start is never
replaced by the initial state at rest, and the units of rows and of mu are those of the start that the library was made
with.
"""

from __future__ import annotations

import numpy as np

from dynamics.simd import by_address, decision
from dynamics.simd.prepared_calls import PreparedCall, enter, float_at, put_float
from trajopt.backward.slots import Slots
from trajopt.rows import Rows
from trajopt.solvers.augmented_lagrangian import FIRST, LARGEST_PENALTY, TINY, project
from trajopt.solvers.compiled import (
    DIVERGED,
    INDEFINITE,
    INVALID,
    NO_STATE,
    SIDES,
    find_direction,
    hard,
    iterated,
    record_type,
    reset,
    sweep,
)
from trajopt.solvers.cycle import Cycle, is_state
from trajopt.solvers.formulation import Curvature
from trajopt.solvers.iteration import CONVERGED, ENDS, GO_ON, TRIES, State, Unconstrained
from trajopt.solvers.program import NEVER, Program

MEANINGS = {
    **{code: "running" if end is None else str(end) for code, end in enumerate(ENDS)},
    INDEFINITE: "not_positive_definite",
    INVALID: "invalid_derivatives",
    DIVERGED: "diverged",
    NO_STATE: "not_a_state",
}
"""Names of codes, as those of `trajopt.Status`."""
CONTROLS, STATES, PLAN = range(3)
"""From what a solve starts: controls; states and controls, with gaps between them; or the last plan, with its gains and
multipliers."""
START = record_type("mu scale", "mode crossed follow activate soften cross")
"""First mu, and its unit; from what to start; number of rows that a sweep violates; addresses of calls."""


@by_address
def put_numbers(values, entry, factor, places):
    """Write values times factors to addresses: numbers in the user's units to where calls read them."""
    for i in range(entry.shape[0]):
        put_float(places[i], values[entry[i]] * factor[i])


@decision
def _first_multipliers(s, start, cycle, lower, upper, dual):
    """`trajopt.solvers.augmented_lagrangian.first_multipliers`."""
    penalty, largest = 0.0, 0.0
    enter(cycle.units)
    if start.mode == PLAN and hard(s):
        project(lower, upper, dual, dual)
        enter(s.measure)
        for i in range(dual.shape[0]):
            largest = max(largest, abs(dual[i]))
        bearable = max(largest, s.unit) / max(s.scaled, TINY)
        penalty = min(s.penalty, LARGEST_PENALTY * s.unit, bearable)
    s.penalty = max(penalty, FIRST * s.unit) if hard(s) else s.soft_penalty
    s.error = s.residual = s.ceiling = s.violation_before = np.inf
    s.stationary, s.waits = 1e-2, 0
    enter(s.advance)
    enter(s.weigh)


@decision
def _roll_out(s, start, x0, xs, gaps, K):
    """Write the candidate: the rollout of the controls, under the gains K about the states xs of a last plan."""
    for t in range(xs.shape[0]):
        for i in range(gaps.shape[1]):
            gaps[t, i] = 0.0
        for i in range(xs.shape[1]):
            xs[t, i] = xs[t, i] if start.mode == PLAN else x0[i]
    for t in range(K.shape[0]):
        for i in range(K.shape[1]):
            for j in range(K.shape[2]):
                K[t, i, j] = K[t, i, j] if start.mode == PLAN else 0.0
    s.lane, s.total_gap = 0, 0.0
    enter(start.follow)


@by_address
def begin(state, starts, cycles, x0, xs, gaps, K, c, limits, dual, lam, D):
    """The state before the first iteration; lam: the multipliers of a plan, in the user's units.  What is not finite,
    or no state, is told by the status, and a plan stays what it was."""
    s, start = state[0], starts[0]
    s.tried, s.directed, s.asked = 0, 0, 0
    if not is_state(cycles[0]):
        s.status = NO_STATE
        return
    s.predicted, s.finite = np.inf, 1
    if start.mode == STATES:
        enter(cycles[0].open)
    else:
        _roll_out(s, start, x0, xs, gaps, K)
    enter(s.value)
    cost = float_at(s.value_at)
    s.status = GO_ON if abs(cost) < np.inf and abs(s.total_gap) < np.inf else DIVERGED
    if s.status == DIVERGED:
        return
    if start.mode != STATES:
        enter(s.step)
    for i in range(dual.shape[0]):
        dual[i] = lam[i] / D[i] if start.mode == PLAN and hard(s) else 0.0
    reset(s, start.mu, start.scale, cost)
    if s.rows > 0:
        for i in range(c.shape[0]):
            if not abs(c[i]) < np.inf:
                s.status = DIVERGED
        _first_multipliers(s, start, cycles[0], *limits, dual)


@by_address
def step(state, starts, sides, cycles):
    """An iteration, unless there is no start; its code is the status."""
    if state[0].status >= DIVERGED:
        return
    state[0].status = iterated(state[0])
    _leave_plan(state[0], starts[0], sides, cycles[0])


@by_address
def go_on(state, starts, sides, cycles):
    """Iterations from the state, until there is a status."""
    while state[0].status == GO_ON:
        state[0].status = iterated(state[0])
    _leave_plan(state[0], starts[0], sides, cycles[0])


@decision
def _leave_plan(s, start, sides, cycle):
    """Write gains, costate and multipliers of the plan, and the largest violation, to where programs read them."""
    if s.directed == 0 and s.status >= INDEFINITE:
        return
    if s.rows > 0:
        enter(s.measure)
        enter(cycle.choose)
        deploy(s, start, sides)
    enter(sides[s.side].costate)
    enter(sides[s.side].publish)
    enter(cycle.publish)


# ------------------------------------------------------------------------------------------------ gains to deploy
@decision
def deploy(s, start, sides):
    """`trajopt.solvers.solve.deployed_gains`, in another side: the gains of a sweep with a moderate penalty."""
    penalty, last, other = s.penalty, s.side, (s.side + 1) % SIDES
    if s.status != CONVERGED or not hard(s) or penalty <= LARGEST_PENALTY * s.unit:
        return
    enter(sides[last].leave)
    enter(start.activate)
    s.penalty = LARGEST_PENALTY * s.unit
    for _ in range(TRIES):
        enter(start.soften)
        good = sweep(s, sides[other], s.kind != 0, s.mu) < 0
        if not good:
            s.asked += 1
            good = find_direction(s, sides[other], False)[0]
        s.side = other if good else last
        if not good:
            break
        enter(sides[other].leave)
        enter(start.cross)
        if start.crossed == 0:
            break
    s.penalty = penalty
    enter(s.weigh)


@decision
def _side_of(c, centre, penalty, lower, upper):
    """Which limit of a row is active (`trajopt.solvers.augmented_lagrangian.Multipliers.sides`)."""
    z = c + centre / penalty
    return 1 if z > upper or lower == upper else -1 if z < lower else 0


@decision
def _weigh_active(penalty, active, c, lower, upper, centre, p, w):
    """Derivatives of the terms of active rows (`trajopt.solvers.augmented_lagrangian.Multipliers.weights`)."""
    for i in range(c.shape[0]):
        limit = upper[i] if active[i] > 0 else lower[i]
        w[i] = penalty if active[i] != 0 else 0.0
        p[i] = centre[i] + penalty * (c[i] - limit) if active[i] != 0 else 0.0


@by_address
def _activate(state, changed, lower, upper, centre, active):
    """Write which rows are active where the step ends."""
    for i in range(active.shape[0]):
        active[i] = _side_of(changed[i], centre[i], state[0].penalty, lower[i], upper[i])


@by_address
def _soften(state, active, c, lower, upper, centre, p, w):
    _weigh_active(state[0].penalty, active, c, lower, upper, centre, p, w)


@by_address
def _cross(state, starts, changed, lower, upper, centre, active):
    """Count rows that were not active and that a sweep violates, which become active ones."""
    s, starts[0].crossed = state[0], 0
    for i in range(active.shape[0]):
        c = changed[i]
        if active[i] == 0 and abs(c - min(max(c, lower[i]), upper[i])) > s.feasibility_tolerance:
            starts[0].crossed += 1
            active[i] = _side_of(c, centre[i], s.penalty, lower[i], upper[i])


# ------------------------------------------------------------------------------------------------ the program
class AloneProgram(Program):
    """A program with a start and an end for which no Python is needed, and with cycles.

    Attributes
    ----------
    starts : array of `trajopt.solvers.alone.START`
    begin, step, go_on : prepared calls
    cycle : Cycle
    """

    def __init__(self, slots: Slots, curvature: Curvature, rows: Rows | None, mu: float) -> None:
        super().__init__(slots, curvature, rows, True)
        self.starts, none = np.zeros(1, START), np.zeros(0)
        self.cycle = Cycle(self, mu)
        start, own, record = self.starts, self.rows, self.cycle.record
        start["follow"] = record["follow"]
        of_rows = (none, (none, none), none) if own is None else (own.c, own.limits, own.dual)
        D = none if own is None else own.own.D
        if own is not None:
            active, changed = np.zeros(len(own.c), np.int64), (own.changed, *own.limits)
            of_deployed = {
                "activate": PreparedCall(_activate, self.state, *changed, own.centre, active),
                "soften": PreparedCall(_soften, self.state, active, own.c, *own.limits, own.dual, own.p, own.w),
                "cross": PreparedCall(_cross, self.state, start, *changed, own.dual, active),
            }
            for name, call in of_deployed.items():
                start[name] = call.address
            self._kept += of_deployed.values()
        plan = slots.x0, self.xs, self.gaps, self.K
        self.begin = PreparedCall(begin, self.state, start, record, *plan, *of_rows, self.cycle.lam, D)
        self.step, self.go_on = (PreparedCall(go, self.state, start, self.sides, record) for go in (step, go_on))
        self._kept.append(self._iterate)

    def load(self, state: State, constraints: Unconstrained) -> None:
        """Take over the state of a solve, to go on alone."""
        super().load(state, constraints)
        s, mu, self.cycle.x0[...] = self.state, state.regularization, self.slots.problem.x0
        s["alone"], s["checked"], s["since"], s["side"], s["asked"], s["status"] = 1, 0, NEVER, 0, 0, 0
        self.starts["mu"], self.starts["scale"] = mu.mu, mu.scale
        states = state.model.iterate.gaps is not None or self.slots.problem.xs_init is not None
        self.starts["mode"] = STATES if states else CONTROLS
        for numbers in (self.K, self.cycle.costate, self.cycle.lam):
            numbers[...] = 0.0

    @property
    def all_calls(self) -> list[PreparedCall]:
        """All calls that are made, those that others make by their addresses too."""
        kept = [call for call in self._kept if isinstance(call, PreparedCall)]
        return list(dict.fromkeys([self.begin, self.step, self.go_on, self.cycle.call, *kept]))
