"""The calls of a problem, prepared over arrays that stay, and the state that the compiled iteration works on.

A `Program` is prepared once for all problems that differ in numbers alone.  A state of the loop in Python is loaded,
compiled iterations are made, and the state is unloaded where they end or leave an iteration to Python.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from dynamics.simd import by_address, num_threads
from dynamics.simd.array_loops import copy, fill
from dynamics.simd.prepared_calls import PreparedCall, calls_of, checks_of, enter, float_at, put_float
from dynamics.simd.threads import alone
from trajopt.backward.backward_pass import MU, OUTWARD, SweepResult, box_around
from trajopt.backward.expansions import (
    Expansion,
    largest_gradient_entry,
    prepared_adjoint,
    prepared_derivatives,
    prepared_gaps,
    prepared_idle_controls,
)
from trajopt.backward.regularization import LONGEST, PATIENCE
from trajopt.backward.slots import Slots
from trajopt.capabilities import Steps, capability
from trajopt.interfaces.stepwise import prepared_difference
from trajopt.interfaces.system import idle_knots
from trajopt.problem.objective import all_finite
from trajopt.results.records import IterationRecord, Progress, Status
from trajopt.rows import Rows, Weights, add_terms, along
from trajopt.solvers.active_set import (
    FIRST_ORDER,
    GUESSED,
    KNOWN,
    LEAST,
    MOST_SWEEPS,
    OTHER,
    SECOND_ORDER,
    SETTLED,
    SWEEPS,
    PreparedSearch,
    most_steps,
    parts_of,
)
from trajopt.solvers.augmented_lagrangian import (
    LARGEST,
    Multipliers,
    measure,
    move_dual,
    sum_of_sizes,
    sum_of_terms,
    sum_of_violations,
    weigh,
)
from trajopt.solvers.compiled import ASK, RECORD, SIDE, SIDES, STATE, iterate, leave_step, take_step
from trajopt.solvers.constrained import AugmentedLagrangian, SoftConstraints, gained_as_predicted
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
    RowModel,
    Stopwatch,
    change,
    follow,
    rounding,
    rounding_of_states,
    write_gradient_at,
)
from trajopt.solvers.iteration import ENDS, GO_ON, Stall, State, Unconstrained
from trajopt.solvers.options import LoopOptions

Callback = Callable[[Progress], bool | None]
KINDS = GAUSS_NEWTON, EXACT
NEVER = np.iinfo(np.int64).max
"""Step of a search for feasibility after which there is none."""


# ------------------------------------------------------------------------------------------------ parts of an iteration
# Each writes what it finds into the state or into arrays.


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
def _shorten(state, gaps):
    """Leave what a step leaves of the gaps."""
    for t in range(gaps.shape[0]):
        for i in range(gaps.shape[1]):
            gaps[t, i] = (1.0 - state[0].alpha) * gaps[t, i]


@by_address
def _take_gaps(state, found, gaps, xs):
    """Take over gaps that are more than the rounding of states xs, else none."""
    s, largest, size = state[0], 0.0, 0.0
    s.total_gap = 0.0
    for t in range(gaps.shape[0]):
        for i in range(gaps.shape[1]):
            s.total_gap += abs(found[t, i])
            largest = max(largest, abs(found[t, i]))
        for i in range(xs.shape[1]):
            size = max(size, abs(xs[t, i]))
    s.closed = not largest > EPSILON * size
    if s.closed != 0:
        s.total_gap = largest = 0.0
    for t in range(gaps.shape[0]):
        for i in range(gaps.shape[1]):
            gaps[t, i] = 0.0 if s.closed != 0 else found[t, i]
    s.largest_gap = largest


@by_address
def _add(first, second, rows, target):
    """target = first + second, and + rows in as many of its entries as there are."""
    for i in range(first.shape[0]):
        target[i] = first[i] + second[i]
    for i in range(rows.shape[0]):
        target[i] += rows[i]


@by_address
def _measure(state, xs, costate, gradient, us, lower, upper, box_lower, box_upper):
    """Write the rounding of the cost, the largest entry of the gradient, and the box around the controls."""
    s = state[0]
    s.rounding = rounding_of_states(xs, costate)
    s.gradient_norm = largest_gradient_entry(gradient, us, lower, upper)
    for t in range(lower.shape[0]):
        for i in range(us.shape[1]):
            box_lower[t, i] = (lower[t, i] - us[t, i]) * OUTWARD
            box_upper[t, i] = (upper[t, i] - us[t, i]) * OUTWARD


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
def _predict(state, Vx, Vxx, gaps, dx, gradient):
    """Write the gradient of the value function that a sweep predicts at a difference from its states."""
    if state[0].closed == 0:
        for t in range(dx.shape[0]):
            for i in range(dx.shape[1]):
                dx[t, i] -= gaps[t, i]
    write_gradient_at(Vx, Vxx, dx, gradient)


# ------------------------------------------------------------------------------------------------ parts for rows
@by_address
def _weigh(state, c, lower, upper, dual, centre, p, w):
    """Write the derivatives of the augmented-Lagrangian terms, and the cost with these."""
    s = state[0]
    s.cost = s.own_cost + weigh(c, lower, upper, dual, centre, s.penalty, 0.0, p, w)


@by_address
def measure_rows(state, c, lower, upper, D, rounding, lam):
    s = state[0]
    s.violation, s.excess, s.scaled, s.complementarity, s.product = measure(c, lower, upper, D, rounding, lam, 0.0)
    s.total, s.sizes = sum_of_violations(c, lower, upper), sum_of_sizes(lam)


@by_address
def _at_rows(state, c, lower, upper, centre):
    """Write the sums of terms and violations of the candidate's rows."""
    s = state[0]
    s.new_terms = sum_of_terms(c, None, lower, upper, centre, s.penalty, 0.0)
    s.new_violation = sum_of_violations(c, lower, upper)


@by_address
def _recentre(state, p, dual, centre):
    """Move centre and dual iterate to p, and write how far the centre was."""
    s = state[0]
    limit, s.farthest = LARGEST * s.unit, 0.0
    for i in range(p.shape[0]):
        s.farthest = max(s.farthest, abs(p[i] - centre[i]))
        centre[i] = dual[i] = min(max(p[i], -limit), limit)


@by_address
def _change(fx, fu, gaps, k, K, lower, upper, none, first, C, c, dx, du, changed):
    """Write the rows after the full step of the linearized trajectory."""
    follow(fx, fu, gaps, k, K, lower, upper, none, none, 1.0, dx, du)
    along(first, *C, dx, du, changed)
    for i in range(c.shape[0]):
        changed[i] += c[i]


@by_address
def _move_dual(state, changed, lower, upper, dual, centre, p, w):
    """Move the dual iterate by a step of the model that leads to these rows."""
    s = state[0]
    weigh(changed, lower, upper, dual, centre, s.penalty, 0.0, p, w)
    move_dual(lower, upper, dual, p, s.alpha, LARGEST * s.unit, dual)


@by_address
def _leave(state, changed, lower, upper):
    state[0].after = sum_of_violations(changed, lower, upper)


@by_address
def _begin_search(state, numbers, mu):
    """Write the numbers that a search for the model's minimum begins with, `trajopt.solvers.active_set.PENALTY` and
    those that follow; mu: where the shift of its sweeps lies."""
    s = state[0]
    closed = s.closed != 0
    numbers[0], numbers[1], numbers[2] = s.penalty, 0.0, 0.0 if closed else np.inf
    numbers[3] = s.d1 + 0.5 * s.d2
    numbers[4], numbers[5] = most_steps(s.begins != KNOWN, False, closed)
    numbers[GUESSED], numbers[MOST_SWEEPS] = s.begins, s.sweeps_left
    put_float(mu, s.mu_of_search * s.scale)


@by_address
def _end_search(state, numbers, found, results, c, changed, lower, upper, after):
    """Write what the search has found: the change of the cost, the violation that is left, and the policy."""
    s = state[0]
    s.promise, s.settled = -numbers[LEAST], numbers[SETTLED] != 0.0
    s.sweeps_left -= numbers[SWEEPS]
    s.d1, s.d2 = numbers[FIRST_ORDER], numbers[SECOND_ORDER]
    for i in range(c.shape[0]):
        after[i] = c[i] + changed[i]
    s.after = sum_of_violations(after, lower, upper)
    if numbers[OTHER] != 0.0:
        for i in range(found.shape[0]):
            results[i] = found[i]


# ------------------------------------------------------------------------------------------------ the program
Keep = Callable[[State], None]
"""Takes over a state where a solve may end that its time limit interrupts."""


class NoPieces(Exception):
    """Raised where a part of a problem is Python, or shared by threads."""

    def __init__(self) -> None:
        super().__init__("a part of the problem is no prepared call")


class _Model(NamedTuple):
    """Blocks of a quadratic model but for fx and fu: gradients and Hessians, and the same as flat arrays."""

    gradients: np.ndarray
    hessians: np.ndarray
    blocks: tuple[np.ndarray, ...]


class _OfRows:
    """Rows of constraints at the iterate and at a candidate, with their multipliers, in arrays that stay.

    Parameters: rows; xs, us of the iterate and of the candidate; number of states and controls."""

    def __init__(self, rows: Rows, points: tuple[np.ndarray, ...], n: int, nu: int) -> None:
        R = len(rows)
        self.own = rows.with_own_numbers()
        self.first = rows.first.copy()
        self.C = np.zeros((R, n)), np.zeros((R, nu))
        self.c, self.dual_of_model, self.changed, self.new_c = np.zeros((4, R))
        self.saved, (self.dual, self.centre, self.p, self.w) = parts_of((R,), (R,), (R,), (R,))
        self.limits = self.own.lower, self.own.upper
        xs, us, new_xs, new_us = points
        self.linearize = self.own.prepared_linearization(xs, us, self.c, *self.C)
        self.evaluate = self.own.prepared_values(new_xs, new_us, self.new_c)

    def take(self, rows: Rows) -> None:
        """Take over the numbers of rows with the same residuals."""
        for name in ("D", "lower", "upper", "rounding"):
            getattr(self.own, name)[...] = getattr(rows, name)

    def add_multipliers(self, lam: np.ndarray, lx: np.ndarray, lu: np.ndarray) -> PreparedCall:
        """The call that adds C'lam to gradients."""
        no_weights, no_hessians = np.zeros(len(lam)), np.empty((3, 0, 0, 0))
        return PreparedCall(add_terms, self.first, *self.C, lam, no_weights, lx, lu, *no_hessians)


class Program:
    """The calls of a problem, prepared, and the state that they work on.

    Parameters
    ----------
    slots : Slots
        Of the problem.
    curvature : Curvature
    rows : Rows or None
        Constraints other than limits of controls.
    closing : True for states with gaps

    Attributes
    ----------
    current : False once a function of the user is not what was traced: another program is to be prepared
    rest : iterations that Python makes before compiled code makes others
    state, sides, records : arrays of `trajopt.solvers.compiled.STATE`, `SIDE`, `RECORD`
    xs, us, gaps, costate : of the iterate
    candidate : states and controls that a search has found
    K : gains of the side that has been published
    multiplier : (N+1, ndx) of the curvature of the dynamics at the next iterate
    limits : lower and upper ones of the controls, of size zero where there are none

    Raises
    ------
    NoPieces
        If some part of it is no prepared call.
    """

    current, rest, _rested = True, 0, 0

    def __init__(self, slots: Slots, curvature: Curvature, rows: Rows | None, closing: bool) -> None:
        problem, limits = slots.problem, slots.limits
        system, N = problem.system, problem.horizon
        nx, n, nu = system.nx, system.ndx, system.nu
        if capability(system, Steps).step_noise is not None or curvature.hessian != "parallel":
            raise NoPieces
        self.slots, self._all_of_costs = slots, curvature.cost_hessian == "exact"
        self._kept: list[Any] = []
        self._checks: list[Callable[[], bool]] = []
        self.state, self.records = np.zeros(1, STATE), np.zeros(1, RECORD)
        self.sides = np.zeros(2 if rows is None else SIDES, SIDE)
        self.xs, self.us, self._new_xs, self._new_us = (np.zeros((N + t, m)) for t, m in ((1, nx), (0, nu)) * 2)
        self.candidate, self.K = (self._new_xs, self._new_us), np.zeros((N, nu, n))
        self.gaps, self._dx, self._du = np.zeros((N + 1, n)), np.zeros((N + 1, n)), np.zeros((N, nu))
        self._given_gaps = self.gaps if closing else None
        self.costate, self._gradient, self.multiplier = np.zeros((N + 1, n)), np.zeros((N, nu)), np.zeros((N + 1, n))
        self.fx, self.fu = np.zeros((N, n, n)), np.zeros((N, n, nu))
        self._gradients, self._lagrangian = parts_of((N + 1, n), (N, nu)), parts_of((N + 1, n), (N, nu))
        self._models = [self._model(self._gradients) for _ in KINDS]
        self._held = self._model(parts_of((N + 1, n), (N, nu)))
        self.box = None if limits is None else box_around(self.us, *limits)
        self.limits = limits or (NOTHING, NOTHING)
        self._of_box = (NOTHING, NOTHING) if self.box is None else (self.box.lower, self.box.upper)
        points = self.xs, self.us, self._new_xs, self._new_us
        self.rows = None if rows is None else _OfRows(rows, points, n, nu)
        e = Expansion(self.fx, self.fu, *self._models[0].blocks)
        self._search = None if rows is None else PreparedSearch(slots, e, len(rows))
        self._prepare_state()
        self._results: list[tuple[np.ndarray, ...]] = []
        for side in self.sides:
            self._results.append(self._prepared_side(side))
        self._iterate = PreparedCall(iterate, self.state, self.sides, self.records)
        self._take_step = PreparedCall(take_step, self.state, self.sides)
        self._leave_step = PreparedCall(leave_step, self.state)
        self.state["limited"], self.state["checked"] = limits is not None, len(self._checks) > 0
        self.state["rows"] = 0 if rows is None else len(rows)
        self.state["iterate"], self.state["code_at"] = self._iterate.address, self._iterate.result_address

    @property
    def model(self) -> tuple[np.ndarray, ...]:
        """Gradients and Gauss-Newton Hessians of the costs: lx, lu, lxx, lux, luu."""
        return self._models[0].blocks

    @property
    def gains(self) -> tuple[np.ndarray, np.ndarray]:
        """k (N, nu) and K (N, nu, ndx) of the last direction."""
        k, K, *_ = self._results[int(self.state["side"][0])]
        return k, K

    # -------------------------------------------------------------------------------------------- preparation
    def _model(self, gradients: tuple[np.ndarray, tuple[np.ndarray, ...]]) -> _Model:
        N, n, nu = self.fu.shape
        hessians, blocks = parts_of((N + 1, n, n), (N, nu, n), (N, nu, nu))
        return _Model(gradients[0], hessians, (*gradients[1], *blocks))

    def calls(self, *parts: Callable[[], Any] | None) -> PreparedCall:
        """One call that makes those of all parts, which are to be pieces."""
        calls = []
        for part in parts:
            found = None if part is None else calls_of(part)
            if part is None or found is None:
                raise NoPieces
            calls += found
        together = PreparedCall(_in_turn, np.array([call.address for call in calls], np.int64))
        self._kept += [*calls, together]
        return together

    def prepared_gaps(self) -> tuple[np.ndarray, PreparedCall]:
        """The gaps of states to the dynamics and to the initial state, and the call that writes them and takes them
        over."""
        prepared = prepared_gaps(self.slots.problem.system, self.slots.x0, self.xs, self.us)
        if prepared is None:
            raise NoPieces
        gaps = prepared()
        return gaps, self.calls(prepared, PreparedCall(_take_gaps, self.state, gaps, self.gaps, self.xs))

    def _prepare_state(self) -> None:
        """Prepare the calls of `STATE`."""
        system, objective, rows = self.slots.problem.system, self.slots.objective, self.rows
        value = objective.prepared_value(self._new_xs, self._new_us)
        self._checks += checks_of(value)
        words, saved = self.state.view(np.int64), np.zeros(self.state.view(np.int64).shape, np.int64)
        numbers, kept = (np.zeros(0), np.zeros(0)) if rows is None else (rows.saved, rows.saved.copy())
        take = PreparedCall(copy, self._new_xs, self.xs), PreparedCall(copy, self._new_us, self.us)
        names: dict[str, tuple[Callable[[], Any] | None, ...]] = {
            "save": (PreparedCall(copy, words, saved), PreparedCall(copy, numbers, kept)),
            "restore": (PreparedCall(copy, saved, words), PreparedCall(copy, kept, numbers)),
            "value": (value,),
            "step": take,
        }
        if self._given_gaps is not None:
            left = PreparedCall(_take_gaps, self.state, self.gaps, self.gaps, self._new_xs)
            names["step"] = (PreparedCall(_shorten, self.state, self.gaps), left, *take)
        gauss_newton, exact = self._models
        lxx, lux, luu = exact.blocks[2:]
        points = self.xs, self.us
        clear = PreparedCall(fill, gauss_newton.gradients, 0.0)
        names["expand"] = (
            clear, PreparedCall(fill, gauss_newton.hessians, 0.0),
            prepared_derivatives(system, *points, self.fx, self.fu),
            objective.prepared_expansion(*points, gauss_newton.blocks),
            *self._idle(gauss_newton), *self._adjoint(None),
        )  # fmt: skip
        curvature = exact.blocks if self._all_of_costs else None
        names["expand_exactly"] = (
            clear, PreparedCall(fill, lxx[-1].reshape(-1), 0.0),
            prepared_derivatives(system, *points, self.fx, self.fu, self.multiplier[1:], lxx[:-1], lux, luu),
            objective.prepared_expansion(*points, exact.blocks, curvature),
            *self._idle(exact), *self._adjoint(curvature),
        )  # fmt: skip
        if rows is not None:
            self._checks += checks_of(rows.evaluate)
            names |= self._of_rows(rows)
        for name, parts in names.items():
            self.state[name] = self.calls(*parts).address
        self.state["value_at"] = [call.result_address for call in calls_of(value) or ()][-1]

    def _idle(self, model: _Model) -> list[PreparedCall]:
        """The call that settles idle controls in a model, if there are such."""
        knots = idle_knots(self.slots.problem.system)
        return [prepared_idle_controls(Expansion(self.fx, self.fu, *model.blocks), knots)] if len(knots) else []

    def _adjoint(self, curvature: tuple[np.ndarray, ...] | None) -> list[Callable[[], Any]]:
        """The calls that follow an expansion: rows and their curvature, costate, gradient and box."""
        rows, (flat, lagrangian) = self.rows, self._lagrangian
        calls: list[Callable[[], Any]] = []
        if rows is not None:
            calls.append(rows.linearize)
            if curvature is not None:
                calls.append(rows.own.prepared_curvature(self.xs, self.us, rows.dual_of_model, curvature))
        calls.append(PreparedCall(copy, self._gradients[0], flat))
        if rows is not None:
            calls.append(rows.add_multipliers(rows.dual_of_model, *lagrangian))
        e = Expansion(self.fx, self.fu, *lagrangian, *self._models[0].blocks[2:])
        calls.append(prepared_adjoint(e, self.costate, self._gradient))
        of_controls = self._gradient, self.us, *self.limits, *self._of_box
        calls.append(PreparedCall(_measure, self.state, self.xs, self.costate, *of_controls))
        return calls

    def _of_rows(self, rows: _OfRows) -> dict[str, tuple[Callable[[], Any], ...]]:
        """Calls of the state that rows need."""
        state, limits = self.state, rows.limits
        measured = rows.c, *limits, rows.own.D, rows.own.rounding
        held = [
            (
                PreparedCall(copy, model.gradients, self._held.gradients),
                PreparedCall(copy, model.hessians, self._held.hessians),
                PreparedCall(add_terms, rows.first, *rows.C, rows.p, rows.w, *self._held.blocks),
            )
            for model in self._models
        ]
        return {
            "rows_at": (rows.evaluate, PreparedCall(_at_rows, state, rows.new_c, *limits, rows.centre)),
            "weigh": (PreparedCall(_weigh, state, rows.c, *limits, rows.dual, rows.centre, rows.p, rows.w),),
            "hold": held[0],
            "hold_exactly": held[1],
            "measure": (PreparedCall(measure_rows, state, *measured, rows.dual),),
            "measure_p": (PreparedCall(measure_rows, state, *measured, rows.p),),
            "advance": (PreparedCall(copy, rows.dual, rows.centre),),
            "recentre": (PreparedCall(_recentre, state, rows.p, rows.dual, rows.centre),),
            "keep_dual": (PreparedCall(copy, rows.dual, rows.dual_of_model),),
        }

    def _prepared_side(self, side: np.void) -> tuple[np.ndarray, ...]:
        """Prepare the calls of a side; returns its arrays k, K, Vx, Vxx."""
        slots, system, (N, n, nu) = self.slots, self.slots.problem.system, self.fu.shape
        flat, results = parts_of((N, nu), (N, nu, n), (N + 1, n), (N + 1, n, n))
        k, K, Vx, Vxx = results
        calls = {
            "add_curvature": self.curvature_with(Vx),
            "costate": PreparedCall(copy, Vx.reshape(-1), self.multiplier.reshape(-1)),
            "publish": PreparedCall(copy, K.reshape(-1), self.K.reshape(-1)),
            "predict": self.calls(
                prepared_difference(system, self.xs, self._new_xs, self._dx),
                PreparedCall(_predict, self.state, Vx, Vxx, self.gaps, self._dx, self.multiplier),
            ),
        }
        with_gaps = [] if self._given_gaps is None else [(self._given_gaps, "_with_gaps")]
        for gaps, suffix in [(None, ""), *with_gaps]:  # other kernels, with other last bits
            candidates = slots.prepared_rollouts(ALPHAS, self.xs, self.us, k, K, gaps)
            if candidates is None:
                raise NoPieces
            calls["rollouts" + suffix], calls["take" + suffix] = self.calls(candidates), self.taken(candidates())
            if not self._results:  # those of all sides compare the same function
                self._checks += checks_of(candidates)
        for model, suffix in zip(self._models, ("", "_exactly"), strict=True):
            swept = model if self.rows is None else self._held
            e = self.fx, self.fu, *swept.blocks
            calls["sweep" + suffix] = sweeping = slots.prepared_sweep(e, self.box, results, self._given_gaps)
            side["mu" + suffix + "_at"], side["found" + suffix] = sweeping.argument_address(MU), sweeping.result_address
            of_step = self.gaps, k, K, NOTHING, self._dx, self._du
            if self._given_gaps is not None:
                calls["close" + suffix] = PreparedCall(_close, self.state, *e, *of_step)
            numbers = self.fx.reshape(-1, n), self.fu.reshape(-1, nu), swept.gradients[None], swept.hessians[None]
            calls["finite" + suffix] = PreparedCall(_look, self.state, *numbers)
            if self.rows is not None:
                calls["minimum" + suffix] = self._minimum(self.rows, model, flat, k, K)
        if self.rows is not None:
            calls |= self._along(self.rows, k, K)
        self._kept += calls.values()
        for name, call in calls.items():
            side[name] = call.address
        return results

    def _along(self, rows: _OfRows, k: np.ndarray, K: np.ndarray) -> dict[str, PreparedCall]:
        """Calls that follow a side's full step along the linearized trajectory to what rows are there."""
        of_step = self.fx, self.fu, self.gaps, k, K, *self._of_box, NOTHING
        change_rows = PreparedCall(_change, *of_step, rows.first, rows.C, rows.c, self._dx, self._du, rows.changed)
        p, w = np.zeros((2, len(rows.c)))
        moved = self.state, rows.changed, *rows.limits, rows.dual, rows.centre, p, w
        return {
            "leave": self.calls(change_rows, PreparedCall(_leave, self.state, rows.changed, *rows.limits)),
            "move_dual": self.calls(change_rows, PreparedCall(_move_dual, *moved)),
        }

    def _minimum(
        self, rows: _OfRows, model: _Model, results: np.ndarray, k: np.ndarray, K: np.ndarray
    ) -> PreparedCall:
        """The call that searches for the minimum of a model of rows, and writes its policy into a side's results."""
        search = self._search
        assert search is not None
        given = (
            self.fx, self.fu, *model.blocks, self.gaps, *self._of_box, self.us, *self.limits, rows.first,
            *rows.C, rows.c, *rows.limits, rows.dual, rows.centre, rows.p, k, K,
        )  # fmt: skip
        pairs = zip(given, search.given, strict=True)
        copies = [PreparedCall(copy, mine.reshape(-1), its.reshape(-1)) for mine, its in pairs]
        begin = PreparedCall(_begin_search, self.state, search.numbers, search.sweep.argument_address(MU))
        left = rows.c, search.best[2], *rows.limits, rows.changed
        end = PreparedCall(_end_search, self.state, search.numbers, search.saved, results, *left)
        self._kept += search.parts
        return self.calls(*copies, begin, search.run, end)

    def taken(self, candidates: tuple[np.ndarray, np.ndarray]) -> PreparedCall:
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

    def curvature_with(self, Vx: np.ndarray) -> PreparedCall:
        """The call that writes the exact Hessians from those of Gauss-Newton, with multipliers Vx (N+1, ndx)."""
        of_costs, again, of_dynamics, sums = self._curvature
        derivatives = prepared_derivatives(self.slots.problem.system, self.xs, self.us, *again, Vx[1:], *of_dynamics)
        return self.calls(of_costs, derivatives, sums)

    @cached_property
    def _curvature(self) -> tuple[PreparedCall, tuple[np.ndarray, ...], tuple[np.ndarray, ...], PreparedCall]:
        """The call that writes what Gauss-Newton leaves out of the costs' Hessians; arrays for the first derivatives of
        the dynamics, which are known, and for their second ones; and the call that adds all up."""
        (N, n, nu), points = self.fu.shape, (self.xs, self.us)
        flat, blocks = parts_of((N + 1, n), (N, nu), (N + 1, n, n), (N, nu, n), (N, nu, nu))
        _, of_dynamics = parts_of((N, n, n), (N, nu, n), (N, nu, nu))
        parts: list[Callable[[], Any]] = [PreparedCall(fill, flat, 0.0)]
        if self._all_of_costs:
            parts.append(self.slots.objective.prepared_expansion(*points, None, blocks))
            if self.rows is not None:
                parts.append(self.rows.own.prepared_curvature(*points, self.rows.dual_of_model, blocks))
        gauss_newton, exact = [model.blocks[2:] for model in self._models]
        rows = zip(gauss_newton, blocks[2:], of_dynamics, exact, strict=True)
        sums = [PreparedCall(_add, *[H.reshape(-1) for H in row]) for row in rows]
        again = np.zeros_like(self.fx), np.zeros_like(self.fu)
        return self.calls(*parts), again, of_dynamics, self.calls(*sums)

    # -------------------------------------------------------------------------------------------- in and out
    def set_options(self, options: LoopOptions, curvature: Curvature, rows: Rows | None) -> None:
        """Take over the options of a solver, and the numbers of rows."""
        s, tolerance = self.state, options.feasibility_tolerance
        s["tolerance"], s["absolute_tolerance"] = options.tolerance, options.absolute_tolerance
        s["threshold"], s["limit"], s["most"] = curvature.threshold, options.max_regularization, options.max_iterations
        s["feasibility_tolerance"], s["complementarity_tolerance"] = tolerance, options.complementarity_tolerance
        s["most_sweeps"], s["soft_penalty"] = options.most_sweeps, options.soft_penalty
        if self.rows is not None and rows is not None:
            self.rows.take(rows)
            s["scaled_tolerance"] = (np.maximum(tolerance, rows.rounding) * rows.D).min(initial=tolerance)

    def load(self, state: State, constraints: Unconstrained) -> None:
        """Take over the state of a solve under these constraints."""
        model, iterate, options = state.model, state.model.iterate, constraints.options
        gaps, e, mu = iterate.gaps, model.expansion, state.regularization
        self.xs[...], self.us[...], self.costate[...] = iterate.xs, iterate.us, model.costate
        self.gaps[...] = 0.0 if gaps is None else gaps
        self.fx[...], self.fu[...] = e.fx, e.fu
        for own, given in zip(self._gradients[1], e[2:4], strict=True):
            own[...] = given
        for kind, own in zip(KINDS, self._models, strict=True):
            if kind in model.expansions:
                for block, given in zip(own.blocks[2:], model.expansions[kind][4:], strict=True):
                    block[...] = given
        for own, given in zip((self.box or ())[:2], (model.box or ())[:2], strict=True):
            own[...] = given
        s = self.state
        self.set_options(options, constraints.formulation.curvature, constraints.formulation.rows)
        s["limit"], s["scale"], s["mu"], s["predicted"] = mu.limit, mu.scale, mu.mu, state.predicted
        s["timed"] = constraints.formulation.clock.limit is not None
        s["cost"], s["own_cost"] = iterate.cost, iterate.own_cost
        s["gradient_norm"], s["rounding"], s["gap_weight"] = model.gradient_norm, rounding(model), state.gap_weight
        s["total_gap"], s["largest_gap"] = iterate.total_gap, 0.0 if gaps is None else np.abs(gaps).max()
        s["violation"] = 0.0  # that of rows is measured in each iteration
        s["closed"], s["tried"], s["idle"] = gaps is None, state.tried, state.stall.idle
        s["gauss_newton_known"], s["exact_known"] = [kind in model.expansions for kind in KINDS]
        s["directed"] = state.direction is not None
        s["gained"] = len(state.log) > 0 and gained_as_predicted(state.log[-1])
        if self.rows is not None:
            self._load_rows(self.rows, state, constraints)

    def _load_rows(self, own: _OfRows, state: State, constraints: Any) -> None:
        at, m = state.model.rows, state.multipliers
        assert at is not None and at.weights is not None and m is not None and state.feasibility is not None
        own.c[...], own.dual_of_model[...], own.dual[...], own.centre[...] = at.c, at.dual, m.dual, m.centre
        for mine, given in zip((*own.C, own.p, own.w), (*at.C, *at.weights), strict=True):
            mine[...] = given
        s = self.state
        s["penalty"], s["unit"], s["slope"], s["error"] = m.penalty, m.scale, m.slope, m.error
        s["stationary"], s["residual"], s["ceiling"] = m.stationary, m.residual, m.ceiling
        s["violation_before"], s["waits"] = m.violation, m.waits
        restores = isinstance(constraints, AugmentedLagrangian) and constraints.restores
        s["since"] = state.feasibility.tried if restores else NEVER

    def rests(self) -> bool:
        """True if this iteration is made in Python: some are after one that was left to it, more after several."""
        self._rested += 1
        if self._rested <= self.rest:
            return True
        self._rested = 0
        return False

    def _iterated(self) -> int:
        """Make an iteration; its code.  A step is left again, and left to Python, if it was computed from the trace of
        a function that is another one now."""
        code = self._iterate()
        if code == GO_ON and self._checks:
            self.current = all([check() for check in self._checks])
            if not self.current:
                self._leave_step()
                return ASK
            self._take_step()
        return code

    def run(
        self, state: State, clock: Stopwatch, callback: Callback | None, until: int | None, keep: Keep
    ) -> tuple[State, bool]:
        """The state after the iterations that compiled code makes from the one that is loaded, until that has as many
        records as asked for, or the time is over; and True if the callback asks to stop.  There is one frame of Python
        for each iteration, in which Ctrl-C is noticed, and where there is a time limit each state is kept that may be
        better than later ones."""
        log, time, status, stopping = list(state.log), state.model.iterate.time, None, False
        try:
            while not stopping and not clock.over and (until is None or len(log) < until):
                code = self._iterated()
                if code == ASK:
                    break
                log.append(self._record(len(log), time))
                status = ENDS[code]
                if status is not None:
                    break
                time = clock.elapsed
                if clock.limit is not None and (self.rows is not None or self.state["closed"] == 0):
                    keep(self.unloaded(state, tuple(log), time))
                if callback is not None:
                    stopping = bool(callback(Progress.of(log[-1], self.xs, self.us)))
        except KeyboardInterrupt:
            if len(log) < int(self.state["tried"][0]):
                log.append(self._record(len(log), time))
            status = Status.INTERRUPTED
        if len(log) > len(state.log):
            state = self.unloaded(state, tuple(log), time)
            if clock.limit is not None:
                keep(state)
        return state._replace(status=status), stopping

    def _record(self, number: int, time: float) -> IterationRecord:
        """Record of the last iteration, of an iterate that was reached after so many seconds."""
        cost, predicted, actual, norm, alpha, mu, gap, violation, kind, knot = self.records[0].item()
        return IterationRecord(
            number, cost, predicted, actual, norm, alpha, mu, KINDS[kind], time, gap, violation, knot
        )  # fmt: skip

    def unloaded(self, before: State, log: tuple[IterationRecord, ...], time: float) -> State:
        """The state as it is now, after these records, whose iterate was reached after so many seconds; before: the one
        that was loaded."""
        s = {name: self.state[name].item() for name in STATE.names or ()}
        us, gaps = self.us.copy(), None if s["closed"] else self.gaps.copy()
        iterate = Iterate(self.xs.copy(), us, us, s["cost"], gaps, time, s["own_cost"])
        first = [array.copy() for array in (self.fx, self.fu, *self._gradients[1])]
        known = s["gauss_newton_known"], s["exact_known"]
        expansions = {
            kind: Expansion(*first, *[H.copy() for H in self._models[i].blocks[2:]])
            for i, kind in enumerate(KINDS)
            if known[i]
        }
        box = None if self.box is None else self.box._replace(lower=self.box.lower.copy(), upper=self.box.upper.copy())
        at, m = None, before.multipliers
        if self.rows is not None and m is not None:
            own = self.rows
            c, Cx, Cu, dual, *weights = [
                x.copy() for x in (own.c, *own.C, own.dual_of_model, own.p, own.w)
            ]  # fmt: skip
            at = RowModel(c, (Cx, Cu), dual, Weights(*weights))
            m = Multipliers(
                own.dual.copy(), own.centre.copy(), s["penalty"], m.scale, m.slope, s["error"], s["stationary"],
                s["residual"], s["ceiling"], m.barrier, m.barrier_unit, s["violation_before"], s["waits"],
            )  # fmt: skip
        model = LocalModel(iterate, expansions, self.costate.copy(), s["gradient_norm"], box, at)
        k, K, Vx, Vxx = [array.copy() for array in self._results[s["side"]]]
        if s["timed"] and log[-1].alpha > 0.0:  # what is left of the direction, `trajopt.solvers.iteration.left_of`
            k = np.zeros_like(k) if s["alpha"] == 1.0 else (1.0 - s["alpha"]) * k
            Vx = self.multiplier.copy()
        found = SweepResult(k, K, Vx, Vxx, s["d1"], s["d2"], True)
        stall = Stall(s["idle"]) if s["tried"] > before.tried else before.stall
        return before._replace(
            model=model, regularization=before.regularization.with_mu(s["mu"]), predicted=s["predicted"], log=log,
            stall=stall, multipliers=m, gap_weight=s["gap_weight"],
            direction=Direction(KINDS[s["kind"]], found, None, s["knot"]),
        )  # fmt: skip


def key_of(curvature: Curvature, closing: bool) -> str:
    """The name of a program among what is kept for a problem, beside the calls of its rows."""
    return f"program, {curvature}, {closing}, {num_threads()}"  # parts that threads share are no pieces


MADE = "iterations that were made in Python"


def program_of(constraints: Unconstrained, state: State) -> Program | None:
    """The program of a problem under these constraints, prepared once, for a state; None where a part of it is no
    prepared call, or the state is one that is left to Python.

    To prepare it takes as long as a program saves in some LONGEST iterations of small problems.  It waits for these,
    but in threads, which Python would hold up, and where solves are expected (`trajopt.solvers.solve.expect_solves`).
    """
    formulation, rows, m = constraints.formulation, constraints.formulation.rows, state.multipliers
    if type(formulation) is not Formulation:
        return None
    if type(constraints) not in (Unconstrained, SoftConstraints, AugmentedLagrangian):
        return None
    if m is not None and m.barrier > 0.0:
        return None
    closing = state.model.iterate.gaps is not None
    key = key_of(formulation.curvature, closing)
    of, known = formulation.kept.get(key, (None, None))
    if key not in formulation.kept and not alone():
        formulation.kept[MADE] = formulation.kept.get(MADE, 0) + 1
        if formulation.kept[MADE] <= LONGEST:
            return None
    calls = None if rows is None else rows.calls
    if key not in formulation.kept or (known is None and of is not calls) or not _fits(known, of, rows):
        try:
            known = Program(formulation.slots, formulation.curvature, rows, closing)
        except NoPieces:
            known = None
    formulation.kept[key] = calls, known
    return known


def _fits(program: Program | None, of: Any, rows: Rows | None) -> bool:
    """True for a program that serves rows: those that it has served, or others that differ in numbers, which it takes;
    None, where there is no program, does."""
    if program is None:
        return True
    if not program.current or (rows is None) != (program.rows is None):
        return False
    return rows is None or rows.calls is of or (program.rows is not None and program.rows.own.take_numbers(rows))


def steps_without_python(
    constraints: Unconstrained, state: State, callback: Callback | None, until: int | None, keep: Keep
) -> tuple[State, bool]:
    """The state after the iterations from it that compiled code makes, and True if the callback asks to stop; the same
    state where it makes none.  keep: see `Program.run`."""
    program = program_of(constraints, state)
    if program is None or program.rests():
        return state, False
    program.load(state, constraints)
    end, stopping = program.run(state, constraints.formulation.clock, callback, until, keep)
    program.rest = program.rest // 2 if end.tried > state.tried else min(2 * program.rest + 1, PATIENCE)
    return end, stopping
