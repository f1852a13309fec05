"""The iteration of `trajopt.solvers.ddp` without Python between its kernels, compiled once for all problems.

    iterate       direction, search along it, step; the code of an end, or ASK
    Program       all calls of a problem, prepared over arrays that stay, and the numbers of the state

The state is one record, and what the loop decides are the functions of numbers that the loop in Python calls, too, so
that both make the same steps, bit for bit.  The record names calls by their addresses (`dynamics.simd.prepared_calls`):
compiled code knows no types of robots.

What happens rarely is left to the loop in Python, for which ASK is returned with the state as it was: a search without
an acceptable step, or along other directions where a step is short; numbers that are not finite; mu beyond its limit,
or on states that have gaps.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from dynamics.simd import by_address, helper
from dynamics.simd.prepared_calls import PreparedCall, calls_of, checks_of, enter, float_at, integer_at, put_float
from trajopt.backward.backward_pass import MU, OUTWARD, SweepResult, box_around
from trajopt.backward.expansions import (
    Expansion,
    largest_gradient_entry,
    prepared_adjoint,
    prepared_derivatives,
    prepared_idle_controls,
)
from trajopt.backward.regularization import LONG_STEP, LONGEST, increased, mu_after_step, small
from trajopt.backward.slots import Slots
from trajopt.capabilities import Steps, capability
from trajopt.interfaces.stepwise import prepared_difference
from trajopt.interfaces.system import idle_knots
from trajopt.problem.objective import all_finite
from trajopt.results.records import IterationRecord, Progress, Status
from trajopt.solvers.formulation import (
    ALPHAS,
    EPSILON,
    EXACT,
    GAUSS_NEWTON,
    NOTHING,
    Curvature,
    Direction,
    Formulation,
    Iterate,
    LocalModel,
    Stopwatch,
    change,
    exact_wanted,
    follow,
    rounding_of_states,
    write_gradient_at,
)
from trajopt.solvers.iteration import ENDS, GO_ON, Stall, State, end_before_step, idle_after_step
from trajopt.solvers.line_search import INVISIBLE, acceptable, merit_weight
from trajopt.solvers.options import LoopOptions

Callback = Callable[[Progress], bool | None]

ASK = -1
"""Code of an iteration that is left to the loop in Python."""
KINDS = GAUSS_NEWTON, EXACT


def _record(floats: Any, integers: Any) -> np.dtype:
    floats, integers = floats.split(), integers.split()
    return np.dtype([*[(name, np.float64) for name in floats], *[(name, np.int64) for name in integers]])


STATE = _record(
    """
    tolerance absolute_tolerance threshold limit scale
    cost gradient_norm mu predicted rounding gap_weight total_gap largest_gap
    d1 d2 alpha new_cost new_mu new_predicted new_gap_weight
    """,
    """
    most tried idle limited closed side kind knot gauss_newton_known exact_known lane finite
    new_kind new_knot checked
    value value_at step expand expand_exactly round_off
    """,
)
"""Options; the iterate; the last step; counts and flags; addresses of calls."""
SIDE = _record(
    "",
    """
    sweep sweep_exactly mu_at mu_exactly_at found found_exactly close close_exactly finite finite_exactly
    add_curvature rollouts take predict
    """,
)
"""Calls that read or write a sweep's results.  There are two sides, so that the last direction stays until another one
is found."""
RECORD = _record(
    "cost predicted_decrease actual_decrease gradient_norm alpha mu gap violation", "kind indefinite_knot"
)
"""Numbers of an `IterationRecord`."""


# ------------------------------------------------------------------------------------------------ parts of an iteration
@by_address
def _in_turn(calls):
    for i in range(calls.shape[0]):
        enter(calls[i])


@by_address
def _take(state, states, controls, between_states, between_controls, next_state, next_control, xs, us):
    """Copy the candidate of a lane from rollouts at two addresses, with these distances in bytes."""
    lane = state[0].lane
    for t in range(xs.shape[0]):
        for i in range(xs.shape[1]):
            xs[t, i] = float_at(states + lane * between_states + (t * xs.shape[1] + i) * next_state)
    for t in range(us.shape[0]):
        for i in range(us.shape[1]):
            us[t, i] = float_at(controls + lane * between_controls + (t * us.shape[1] + i) * next_control)


@by_address
def _step_to(state, xs, us, gaps, new_xs, new_us):
    """Copy the candidate into the iterate, with what remains of the gaps."""
    s, largest, size = state[0], 0.0, 0.0
    if s.closed == 0:
        s.total_gap = 0.0
        for t in range(gaps.shape[0]):
            for i in range(gaps.shape[1]):
                gaps[t, i] = (1.0 - s.alpha) * gaps[t, i]
                s.total_gap += abs(gaps[t, i])
                largest = max(largest, abs(gaps[t, i]))
            for i in range(new_xs.shape[1]):
                size = max(size, abs(new_xs[t, i]))
        if not largest > EPSILON * size:
            s.closed, s.total_gap, largest = 1, 0.0, 0.0
            for t in range(gaps.shape[0]):
                for i in range(gaps.shape[1]):
                    gaps[t, i] = 0.0
        s.largest_gap = largest
    for t in range(xs.shape[0]):
        for i in range(xs.shape[1]):
            xs[t, i] = new_xs[t, i]
    for t in range(us.shape[0]):
        for i in range(us.shape[1]):
            us[t, i] = new_us[t, i]


@by_address
def _clear(blocks):
    for i in range(blocks.shape[0]):
        blocks[i] = 0.0


@by_address
def _copy(source, target):
    for i in range(source.shape[0]):
        target[i] = source[i]


@by_address
def _add(first, second, rows, target):
    """target = first + second, and + rows in as many of its entries as there are."""
    for i in range(first.shape[0]):
        target[i] = first[i] + second[i]
    for i in range(rows.shape[0]):
        target[i] += rows[i]


@by_address
def _measure(state, gradient, us, lower, upper, box_lower, box_upper):
    """Write the largest entry of the gradient, and the box around the controls."""
    s = state[0]
    if lower.shape[0] == 0:
        s.gradient_norm = largest_gradient_entry(gradient, us, None, None)
        return
    s.gradient_norm = largest_gradient_entry(gradient, us, lower, upper)
    for t in range(us.shape[0]):
        for i in range(us.shape[1]):
            box_lower[t, i] = (lower[t, i] - us[t, i]) * OUTWARD
            box_upper[t, i] = (upper[t, i] - us[t, i]) * OUTWARD


@by_address
def _round_off(state, xs, costate):
    state[0].rounding = rounding_of_states(xs, costate)


@by_address
def _look(state, fx, fu, first, hessians):
    s = state[0]
    s.finite = all_finite(fx) and all_finite(fu) and all_finite(first) and all_finite(hessians)


@by_address
def _close(state, fx, fu, lx, lu, lxx, lux, luu, gaps, k, K, none, dx, du):
    """Write the change of the cost along the full step of the linearized trajectory, which closes the gaps."""
    s = state[0]
    follow(fx, fu, gaps, k, K, none, none, none, none, 1.0, dx, du)
    s.d1, s.d2 = change(lx, lu, lxx, lux, luu, dx, du)


@by_address
def _predict(state, difference, Vx, Vxx, gaps, dx, gradient):
    """Write the gradient of the value function that a sweep predicts where its step leads."""
    enter(difference)
    if state[0].closed == 0:
        for t in range(dx.shape[0]):
            for i in range(dx.shape[1]):
                dx[t, i] -= gaps[t, i]
    write_gradient_at(Vx, Vxx, dx, gradient)


# ------------------------------------------------------------------------------------------------ the iteration
@helper
def visible(s):
    """`trajopt.solvers.line_search.visible`."""
    enter(s.round_off)
    return max(INVISIBLE * abs(s.cost), s.rounding)


@helper
def sweep(s, side, exact, mu):
    """Sweep; returns the knot at which it failed, -1 for none.  The change of the objective is written."""
    call, place, found = side.sweep, side.mu_at, side.found
    if exact:
        call, place, found = side.sweep_exactly, side.mu_exactly_at, side.found_exactly
    put_float(place, mu * s.scale)
    enter(call)
    failed, s.d1, s.d2, s.finite = integer_at(found), float_at(found + 8), float_at(found + 16), 1
    if failed >= 0:
        enter(side.finite_exactly if exact else side.finite)
    elif s.closed == 0:
        enter(side.close_exactly if exact else side.close)
    return failed


@helper
def find_direction(s, side, exact):
    """`trajopt.solvers.iteration.find_direction`: True if a direction was found, its mu, True for an exact one, and the
    last knot at which a sweep failed."""
    mu, knot = s.mu, -1
    if not abs(s.gradient_norm) < np.inf or (s.closed == 0 and mu > 0.0):
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
        if s.finite == 0 or mu > s.limit or s.closed == 0:
            return False, mu, False, knot
        failed = sweep(s, side, False, mu)
    if not exact:
        return True, mu, False, knot
    enter(side.add_curvature)
    failed = sweep(s, side, True, mu)
    if failed < 0 or s.finite == 0:
        return failed < 0, mu, True, knot
    sweep(s, side, False, mu)  # once more, for its gains
    return True, mu, False, failed


@helper
def search(s, side, weighted_gap):
    """`trajopt.solvers.line_search.search`: length of the first acceptable step, 0 for none.  Its candidate and the
    cost there are left."""
    enter(side.rollouts)
    alpha = 1.0
    for lane in range(len(ALPHAS)):
        s.lane = lane
        enter(side.take)
        enter(s.value)
        s.new_cost = float_at(s.value_at)
        with_gaps = s.new_cost + (1.0 - alpha) * weighted_gap
        if acceptable(s.cost + weighted_gap, with_gaps, alpha, s.d1 - weighted_gap, s.d2, 0.0):
            return alpha
        alpha *= 0.5
    return 0.0


@by_address
def iterate(state, sides, records):
    """An iteration (`trajopt.solvers.ddp.Loop.step`): GO_ON after a step, the code of an end before one, or ASK.  Where
    a function of the user has to be compared with its trace first, the step is left to `take_step`."""
    s, side, record = state[0], sides[1 - state[0].side], records[0]
    enough = max(s.tolerance * abs(s.cost), s.absolute_tolerance)
    ok, mu, exact, knot = find_direction(s, side, exact_wanted(s.threshold, s.predicted, s.cost))
    if not ok:
        return ASK
    change_of_cost = s.d1 + 0.5 * s.d2
    weight = merit_weight(s.gap_weight, change_of_cost, s.total_gap, s.cost)
    predicted = max(0.0, weight * s.total_gap - change_of_cost)
    converged = small(mu) and s.closed != 0 and predicted <= enough
    invisible = s.idle >= LONGEST and s.closed != 0 and predicted <= visible(s)
    end = end_before_step(converged, s.tried, s.most, s.idle, mu, invisible)
    s.alpha = 0.0
    if end == GO_ON:
        s.alpha = search(s, side, weight * s.total_gap)
        if s.alpha == 0.0 or (s.alpha < LONG_STEP and (exact or s.limited != 0)):
            return ASK
    s.new_mu, s.new_predicted, s.new_gap_weight, s.new_kind, s.new_knot = mu, predicted, weight, exact, knot
    record.cost, record.predicted_decrease, record.gradient_norm, record.mu = s.cost, predicted, s.gradient_norm, mu
    record.alpha, record.gap, record.kind, record.indefinite_knot = s.alpha, s.largest_gap, exact, knot
    record.actual_decrease = s.cost - s.new_cost if end == GO_ON else 0.0
    if end != GO_ON:
        keep_direction(s)
    elif s.checked == 0:
        step(s, side)
    return end


@by_address
def take_step(state, sides):
    """The step that `iterate` has found."""
    step(state[0], sides[1 - state[0].side])


@helper
def keep_direction(s):
    """Make the direction that was found that of the state."""
    s.mu, s.predicted, s.gap_weight = s.new_mu, s.new_predicted, s.new_gap_weight
    s.kind, s.knot, s.side = s.new_kind, s.new_knot, 1 - s.side


@helper
def step(s, side):
    """`trajopt.solvers.ddp.Loop._stepped`: the next iterate and its model."""
    keep_direction(s)
    closing, short = s.closed == 0, s.alpha < LONG_STEP
    excused = closing or (short and s.predicted <= visible(s))
    exact = exact_wanted(s.threshold, s.predicted, s.new_cost) and s.alpha == 1.0
    if exact:
        enter(side.predict)
    enter(s.step)
    s.mu = mu_after_step(s.mu, s.alpha, s.limit, excused)
    s.idle = idle_after_step(s.idle, closing, s.cost - s.new_cost, s.new_cost)
    s.cost, s.tried = s.new_cost, s.tried + 1
    s.exact_known, s.gauss_newton_known = exact, not exact
    enter(s.expand_exactly if exact else s.expand)


# ------------------------------------------------------------------------------------------------ a problem's calls
class NoPieces(Exception):
    """Raised where a part of a problem is Python, or shared by threads."""


def _parts(*shapes: tuple[int, ...]) -> tuple[np.ndarray, tuple[np.ndarray, ...]]:
    """Zeros, and arrays of these shapes that they consist of."""
    sizes = [int(np.prod(shape)) for shape in shapes]
    flat = np.zeros(sum(sizes))
    parts = np.split(flat, np.cumsum(sizes)[:-1])
    return flat, tuple(part.reshape(shape) for part, shape in zip(parts, shapes, strict=True))


class _Sweeps(NamedTuple):
    """A side: gains and value function, and the prepared calls of `SIDE`."""

    results: tuple[np.ndarray, ...]
    calls: dict[str, PreparedCall]


class Program:
    """The calls of a problem without constraints but limits of controls, prepared, and the state that they work on.

    Parameters
    ----------
    slots : Slots
        Of the problem.
    curvature : Curvature
    closing : True for states with gaps

    Attributes
    ----------
    current : False once a function of the user is not what was traced: another program is to be prepared

    Raises
    ------
    NoPieces
        If some part of it is no prepared call.
    """

    current = True

    def __init__(self, slots: Slots, curvature: Curvature, closing: bool) -> None:
        problem, limits = slots.problem, slots.limits
        system, N = problem.system, problem.horizon
        nx, n, nu = system.nx, system.ndx, system.nu
        if capability(system, Steps).step_noise is not None or curvature.hessian != "parallel":
            raise NoPieces
        self._slots, self._kept, self._checks = slots, [], []
        self.state, self.sides, self.records = np.zeros(1, STATE), np.zeros(2, SIDE), np.zeros(1, RECORD)
        self.state["limited"] = limits is not None
        self.xs, self.us, self._new_xs, self._new_us = (np.zeros((N + t, m)) for t, m in ((1, nx), (0, nu)) * 2)
        self.gaps, self._dx, self._du = np.zeros((N + 1, n)), np.zeros((N + 1, n)), np.zeros((N, nu))
        self._given_gaps = self.gaps if closing else None
        self.costate, self._gradient, self._multiplier = np.zeros((N + 1, n)), np.zeros((N, nu)), np.zeros((N + 1, n))
        of_states, of_controls, hessians = (N + 1, n), (N, nu), ((N + 1, n, n), (N, nu, n), (N, nu, nu))
        self._first, (self.lx, self.lu) = _parts(of_states, of_controls)
        self._lagrangian, lagrangian = _parts(of_states, of_controls)
        self._flat, self.hessians = zip(*[_parts(*hessians) for _ in KINDS], strict=True)
        self.fx, self.fu = np.zeros((N, n, n)), np.zeros((N, n, nu))
        self.box = None if limits is None else box_around(self.us, *limits)
        value = slots.objective.prepared_value(self._new_xs, self._new_us)
        self._prepare("value", self._calls(value))
        self.state["value_at"] = [call.result_address for call in calls_of(value) or ()][-1]
        self._checks += checks_of(value)
        points = self.xs, self.us, self.gaps
        self._prepare("step", PreparedCall(_step_to, self.state, *points, self._new_xs, self._new_us))
        self._prepare("round_off", PreparedCall(_round_off, self.state, self.xs, self.costate))
        low, high = limits or (NOTHING, NOTHING)
        box = (NOTHING, NOTHING) if self.box is None else self.box[:2]
        adjoint = prepared_adjoint(
            Expansion(self.fx, self.fu, *lagrangian, *self.hessians[0]), self.costate, self._gradient
        )
        idle = idle_knots(system)
        after = (
            PreparedCall(_copy, self._first, self._lagrangian), adjoint,
            PreparedCall(_measure, self.state, self._gradient, self.us, low, high, *box),
        )  # fmt: skip
        clear = PreparedCall(_clear, self._first)
        costs = self.lx, self.lu, *self.hessians[0]
        self._prepare("expand", self._calls(
            clear, PreparedCall(_clear, self._flat[0]),
            prepared_derivatives(system, self.xs, self.us, self.fx, self.fu),
            slots.objective.prepared_expansion(self.xs, self.us, costs), *self._idle(idle, 0), *after,
        ))  # fmt: skip
        self._all_of_costs = curvature.cost_hessian == "exact"
        lxx, lux, luu = self.hessians[1]
        costs = self.lx, self.lu, *self.hessians[1]
        self._prepare("expand_exactly", self._calls(
            clear, PreparedCall(_clear, lxx[-1].reshape(-1)),
            prepared_derivatives(
                system, self.xs, self.us, self.fx, self.fu, self._multiplier[1:], lxx[:-1], lux, luu
            ),
            slots.objective.prepared_expansion(self.xs, self.us, costs, costs if self._all_of_costs else None),
            *self._idle(idle, 1), *after,
        ))  # fmt: skip
        self._sweeps = [self._side(side) for side in self.sides]
        self._iterate = PreparedCall(iterate, self.state, self.sides, self.records)
        self._take_step = PreparedCall(take_step, self.state, self.sides)
        self.state["checked"] = len(self._checks) > 0

    # -------------------------------------------------------------------------------------------- preparation
    def _prepare(self, name: str, call: PreparedCall) -> None:
        self._kept.append(call)
        self.state[name] = call.address

    def _idle(self, knots: np.ndarray, kind: int) -> list[PreparedCall]:
        """The call that settles idle controls in the model of a kind, if there are such."""
        model = Expansion(self.fx, self.fu, self.lx, self.lu, *self.hessians[kind])
        return [prepared_idle_controls(model, knots)] if len(knots) else []

    def _calls(self, *parts: Callable[[], Any] | None) -> PreparedCall:
        """One call that makes those of all parts."""
        calls = []
        for part in parts:
            found = None if part is None else calls_of(part)
            if part is None or found is None:
                raise NoPieces
            calls += found
        self._kept += calls
        self._kept.append(together := PreparedCall(_in_turn, np.array([call.address for call in calls], np.int64)))
        return together

    def _side(self, side: np.void) -> _Sweeps:
        """Prepare the calls of a side."""
        slots, system, (N, n, nu) = self._slots, self._slots.problem.system, self.fu.shape
        results = np.zeros((N, nu)), np.zeros((N, nu, n)), np.zeros((N + 1, n)), np.zeros((N + 1, n, n))
        k, K, Vx, Vxx = results
        calls: dict[str, PreparedCall] = {}
        for kind, suffix in enumerate(("", "_exactly")):
            e = self.fx, self.fu, self.lx, self.lu, *self.hessians[kind]
            sweeping = slots.prepared_sweep(e, self.box, results, self._given_gaps)
            calls["sweep" + suffix] = sweeping
            side["mu" + suffix + "_at"], side["found" + suffix] = sweeping.argument_address(MU), sweeping.result_address
            of_step = self.gaps, k, K, NOTHING, self._dx, self._du
            calls["close" + suffix] = PreparedCall(_close, self.state, *e, *of_step)
            flat = self.fx.reshape(-1, n), self.fu.reshape(-1, nu), self._first[None], self._flat[kind][None]
            calls["finite" + suffix] = PreparedCall(_look, self.state, *flat)
        candidates = slots.prepared_rollouts(ALPHAS, self.xs, self.us, k, K, self._given_gaps)
        if candidates is None:
            raise NoPieces
        calls["rollouts"] = self._calls(candidates)
        self._checks += checks_of(candidates)
        calls["take"] = self._taken(candidates())
        difference = self._calls(prepared_difference(system, self.xs, self._new_xs, self._dx))
        calls["predict"] = PreparedCall(
            _predict, self.state, difference.address, Vx, Vxx, self.gaps, self._dx, self._multiplier
        )
        calls["add_curvature"] = self._curvature(Vx)
        for name, call in calls.items():
            side[name] = call.address
        return _Sweeps(results, calls)

    def _taken(self, candidates: tuple[np.ndarray, np.ndarray]) -> PreparedCall:
        """The call that copies a candidate, from views of the rollouts."""
        addresses, between, following = [], [], []
        for view in candidates:
            if view.strides[1] != view.shape[2] * view.strides[2]:
                raise NoPieces
            addresses.append(view.__array_interface__["data"][0])
            between.append(view.strides[0])
            following.append(view.strides[2])
        self._kept += candidates
        return PreparedCall(_take, self.state, *addresses, *between, *following, self._new_xs, self._new_us)

    def _curvature(self, Vx: np.ndarray) -> PreparedCall:
        """The call that writes the exact Hessians from those of Gauss-Newton, with multipliers Vx (N+1, ndx)."""
        system, shapes = self._slots.problem.system, [H.shape for H in self.hessians[0]]
        N = self._slots.problem.horizon
        costs, of_costs = _parts(*shapes)
        unused = np.zeros_like(self.lx), np.zeros_like(self.lu)
        products, of_dynamics = _parts((N, *shapes[0][1:]), *shapes[1:])
        again = np.zeros_like(self.fx), np.zeros_like(self.fu)  # derivatives that are known
        parts: list[Callable[[], Any]] = [PreparedCall(_clear, costs)]
        if self._all_of_costs:
            curvature = (*unused, *of_costs)
            parts.append(self._slots.objective.prepared_expansion(self.xs, self.us, None, curvature))
        parts.append(prepared_derivatives(system, self.xs, self.us, *again, Vx[1:], *of_dynamics))
        for gauss_newton, of_cost, product, exact in zip(
            self.hessians[0], of_costs, of_dynamics, self.hessians[1], strict=True
        ):
            blocks = [H.reshape(-1) for H in (gauss_newton, of_cost, product, exact)]
            parts.append(PreparedCall(_add, *blocks))
        self._kept.append(products)
        return self._calls(*parts)

    # -------------------------------------------------------------------------------------------- in and out
    def load(self, state: State, options: LoopOptions, threshold: float) -> None:
        """Take over the state of a solve."""
        model, iterate = state.model, state.model.iterate
        gaps, e, known = iterate.gaps, model.expansion, [kind in model.expansions for kind in KINDS]
        self.xs[...], self.us[...], self.costate[...] = iterate.xs, iterate.us, model.costate
        self.gaps[...] = 0.0 if gaps is None else gaps
        self.fx[...], self.fu[...], self.lx[...], self.lu[...] = e[:4]
        for kind, hessians in zip(KINDS, self.hessians, strict=True):
            if kind in model.expansions:
                for own, given in zip(hessians, model.expansions[kind][4:], strict=True):
                    own[...] = given
        for own, given in zip((self.box or ())[:2], (model.box or ())[:2], strict=True):
            own[...] = given
        mu = state.regularization
        s: Any = self.state[0]
        s["tolerance"], s["absolute_tolerance"] = options.tolerance, options.absolute_tolerance
        s["threshold"], s["limit"], s["most"] = threshold, mu.limit, options.max_iterations
        s["scale"], s["mu"], s["predicted"] = mu.scale, mu.mu, state.predicted
        s["cost"], s["gradient_norm"], s["gap_weight"] = iterate.cost, model.gradient_norm, state.gap_weight
        s["total_gap"], s["largest_gap"] = iterate.total_gap, 0.0 if gaps is None else np.abs(gaps).max()
        s["closed"], s["tried"], s["idle"] = gaps is None, state.tried, state.stall.idle
        s["gauss_newton_known"], s["exact_known"] = known

    @property
    def tried(self) -> int:
        """Number of steps tried so far."""
        return int(self.state["tried"][0])

    def record(self, number: int, time: float) -> IterationRecord:
        """Record of the last iteration, of an iterate that was reached after so many seconds."""
        cost, predicted, actual, norm, alpha, mu, gap, violation, kind, knot = self.records[0].item()
        return IterationRecord(
            number, cost, predicted, actual, norm, alpha, mu, KINDS[kind], time, gap, violation, knot
        )  # fmt: skip

    def run(self, state: State, clock: Stopwatch, callback: Callback | None, until: int | None) -> tuple[State, bool]:
        """The state after the iterations that compiled code makes from the one that is loaded, until that has as many
        records as asked for; and True if the callback asks to stop.  There is one frame of Python for each iteration,
        in which Ctrl-C is noticed."""
        log, time, status, stopping = list(state.log), state.model.iterate.time, None, False
        try:
            while not stopping and (until is None or len(log) < until):
                code = self._iterate()
                if code == GO_ON and self._checks:
                    self.current = all([check() for check in self._checks])
                    if not self.current:
                        break
                    self._take_step()
                if code == ASK:
                    break
                log.append(self.record(len(log), time))
                status = ENDS[code]
                if status is not None:
                    break
                time = clock.elapsed
                if callback is not None:
                    stopping = bool(callback(Progress.of(log[-1], self.xs, self.us)))
        except KeyboardInterrupt:
            if len(log) < self.tried:
                log.append(self.record(len(log), time))
            status = Status.INTERRUPTED
        found = len(log) > len(state.log)
        state = self.unload(state, tuple(log), time) if found else state
        return state._replace(status=status), stopping

    def unload(self, before: State, log: tuple[IterationRecord, ...], time: float) -> State:
        """The state as it is now, after these records, whose iterate was reached after so many seconds; before: the one
        that was loaded, in which no direction had been found yet."""
        s: Any = self.state[0]
        closed = bool(s["closed"])
        cost, gaps = float(s["cost"]), None if closed else self.gaps.copy()
        us = self.us.copy()
        iterate = Iterate(self.xs.copy(), us, us, cost, gaps, time, cost)
        first = [array.copy() for array in (self.fx, self.fu, self.lx, self.lu)]
        known = (bool(s["gauss_newton_known"]), bool(s["exact_known"]))
        expansions = {
            kind: Expansion(*first, *[H.copy() for H in self.hessians[i]])
            for i, kind in enumerate(KINDS)
            if known[i]
        }
        box = None if self.box is None else self.box._replace(lower=self.box.lower.copy(), upper=self.box.upper.copy())
        model = LocalModel(iterate, expansions, self.costate.copy(), float(s["gradient_norm"]), box)
        k, K, Vx, Vxx = [array.copy() for array in self._sweeps[int(s["side"])].results]
        found = SweepResult(k, K, Vx, Vxx, float(s["d1"]), float(s["d2"]), True)
        direction = Direction(KINDS[int(s["kind"])], found, None, int(s["knot"]))
        stall = Stall(int(s["idle"])) if int(s["tried"]) > before.tried else before.stall
        mu = before.regularization if s["mu"] == before.regularization.mu else None
        return before._replace(
            model=model, regularization=mu or before.regularization.with_mu(float(s["mu"])),
            predicted=float(s["predicted"]), log=log, stall=stall, gap_weight=float(s["gap_weight"]),
            direction=direction,
        )  # fmt: skip


def program_of(formulation: Formulation, closing: bool) -> Program | None:
    """The program of a formulation, prepared once, for iterates with gaps (`closing`) or without; None where a part of
    it is no prepared call."""
    limited = formulation.clock.limit is not None
    if limited or formulation.rows is not None or type(formulation) is not Formulation:
        return None
    key = f"program, {formulation.curvature}, {closing}"
    known = formulation.kept.get(key)
    if key not in formulation.kept or (known is not None and not known.current):
        try:
            formulation.kept[key] = Program(formulation.slots, formulation.curvature, closing)
        except NoPieces:
            formulation.kept[key] = None
    return formulation.kept[key]


def steps_without_python(
    formulation: Formulation, options: LoopOptions, state: State, callback: Callback | None, until: int | None
) -> tuple[State, bool]:
    """The state after the iterations from it that compiled code makes, and True if the callback asks to stop; the same
    state where it makes none."""
    program = program_of(formulation, state.model.iterate.gaps is not None)
    if program is None:
        return state, False
    program.load(state, options, formulation.curvature.threshold)
    return program.run(state, formulation.clock, callback, until)
