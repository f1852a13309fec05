"""Feasibility of constraints near a trajectory: least squares of their violation, and a certificate where they cannot
be met.

    minimize F = 1/2 sum v_i^2      v = c - clip(c, lower, upper)

by Levenberg-Marquardt: the solver's own sweep with no cost but zeta (|dx|^2 + |du|^2)/2 and penalty 1 on violated rows.
Control limits in a box hold throughout.  At a minimum with F > 0 the weights nu = v are the certificate: with the
costate y_N = C_N'nu_N, y_t = fx'y_{t+1} + C_x'nu_t the gradient C_u'nu_t + fu'y_{t+1} vanishes, so that no small change
of the controls lowers sum nu_i c_i.  The certificate is local where rows are not linear; so the search is repeated from
the start of the solve, from perturbed controls, and from where solves end whose last state meets the last knot's rows.
Constraints are reported as infeasible only if all of these searches end at minima, and none at a lower one.  It is not
repeated where no state at all is found that meets the last knot's rows: then weights of these rows alone, with
C_N'nu = 0 where they are violated least, are a certificate for every trajectory that leads there.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from trajopt.backward.backward_pass import SUFFICIENT
from trajopt.backward.expansions import HALF_PRECISION, Expansion, adjoint, finite, largest_gradient
from trajopt.backward.regularization import ATTEMPTS, FACTOR, LONGEST, PATIENCE
from trajopt.costs.cost_of_residual import linearized
from trajopt.costs.residuals import StateResidual
from trajopt.interfaces.residual import at_knots
from trajopt.interfaces.system import System
from trajopt.problem.constraints import ResidualConstraint
from trajopt.problem.objective import zero_blocks
from trajopt.problem.problem import Problem
from trajopt.results.records import IterationRecord, Status
from trajopt.rows import Rows, Weights, pack, with_multipliers
from trajopt.solvers.augmented_lagrangian import (
    FIRST,
    NEARLY_MET,
    PROGRESS,
    Multipliers,
    influence,
    measures,
    raised,
    weighted,
)
from trajopt.solvers.formulation import GAUSS_NEWTON, Candidate, Formulation, Iterate, LocalModel, Stopwatch
from trajopt.solvers.iteration import IDLE, TRIES, Log, Stall, State
from trajopt.solvers.line_search import GAP_SHARE, INVISIBLE
from trajopt.solvers.options import LoopOptions

RANDOM = 64
"""Number of random states at a time."""
SPREAD = np.pi
"""Largest distance of a random state, in each coordinate of the tangent: half a turn of a joint, or where the
trajectory goes further, as far as that."""
STATIONARY_STATE = 1e-7
"""Bound on the largest entry of J'v at a state of least violation, relative to that of v."""
FIRST_ZETA = 1e-4
"""First damping of least squares, relative to weights of 1."""
NEGLIGIBLE = 1e-3
"""What is smaller, relative to what it is compared with, counts as zero in these searches: a difference of squared
violations, of a step or between two minima; a distance of states; and the gradient of a certificate."""
DIFFERENCE = float(np.cbrt(np.finfo(np.float64).eps))
"""Step of central differences of J'v, in coordinates of the tangent."""
ROBUST = 4
"""Number of steps of a solve that leads to no other terminal state."""
PERTURBED = 0.3
"""Standard deviation of the perturbed controls of a search, as a fraction of each control's largest value, to leave
points where violations have no gradient without being least, such as zero thrust.  A control that is smaller than half
of all digits everywhere counts as of size 1."""


FEASIBILITY = "feasibility"
"""Kind of such a step in the log."""


Run = Callable[[Formulation, Iterate, Log, int], State]
"""A solve of a formulation from an iterate, without searches, until its log, that goes on with another, has so many
records."""


class Budget(NamedTuple):
    """Budget of the searches: the log so far, to which they append, its largest length, and the clock."""

    log: Log
    limit: int
    clock: Stopwatch

    @property
    def over(self) -> bool:
        """True if the records or the time are used up."""
        return len(self.log) >= self.limit or self.clock.over


class RestorationResult(NamedTuple):
    """Result of a least-squares search: the last model, its weights nu (R,), F, True if F is at a minimum, and the log
    with a record of every step tried, whose decreases are those of F and whose mu is zeta."""

    model: LocalModel
    weights: np.ndarray
    value: float
    minimum: bool
    log: Log


def least_violation(
    formulation: Formulation, start: Iterate, budget: Budget, enough: float, known: float = 0.0
) -> RestorationResult:
    """Lower the violation from an iterate without gaps, until F is at most `enough` or at a minimum, comes close to
    the least one known (0: none), or the budget is spent."""
    rows, problem, clock = formulation.rows, formulation.problem, budget.clock
    assert rows is not None
    iterate, zeta, stalls, nothing = start, FIRST_ZETA, 0, np.zeros(len(rows))
    values: list[float] = []  # of F
    blocks = zero_blocks(problem.horizon, problem.system.ndx, problem.system.nu)
    equalities, minimum, first = rows.lower == rows.upper, False, len(budget.log)
    model = formulation.expand(iterate, dual=nothing)
    for block, weights in zip(blocks[2::2], _damping(formulation, model), strict=True):
        np.einsum("tii->ti", block)[...] = weights
    while True:
        assert model.rows is not None
        v = rows.violations(model.rows.c)
        F = 0.5 * float(v @ v)
        minimum = minimum or (stalls >= IDLE and (stalls >= PATIENCE or _stationary(formulation, model, v)))
        minimum = minimum or (stalls > 0 and abs(F - known) <= NEGLIGIBLE * known)
        values.append(F)
        slow = F > known > 0.0 and len(values) > PATIENCE and F > PROGRESS * values[-PATIENCE - 1]
        if F <= enough or minimum or slow or len(budget.log) - first >= LONGEST or budget.over:
            return RestorationResult(model, v, F, minimum, budget.log)
        weighted = model.rows._replace(weights=Weights(v, np.where((v != 0.0) | equalities, 1.0, 0.0)))
        for _ in range(ATTEMPTS):
            step, promise = _step(formulation, model._replace(rows=weighted), blocks, zeta)
            if step is not None:
                left = rows.violations(rows.values(step.xs, step.us))
                with np.errstate(over="ignore"):  # a rollout far away
                    lower = 0.5 * float(left @ left)
                if promise <= INVISIBLE * F:
                    minimum = True
                    break
                if lower <= F - SUFFICIENT * promise:
                    break
            zeta *= FACTOR
        else:
            minimum = True
        record = IterationRecord(
            len(budget.log), iterate.own_cost, promise, 0.0 if minimum else F - lower, model.gradient_norm,
            0.0 if minimum else 1.0, zeta, FEASIBILITY, iterate.time,
            violation=measures(rows, model.rows.c, nothing).violation,
        )  # fmt: skip
        budget = budget._replace(log=(*budget.log, record))
        if minimum:
            continue
        assert step is not None
        stalls = stalls + 1 if lower > (1.0 - NEGLIGIBLE) * F else 0
        cost = problem.objective.value(step.xs, step.us)
        iterate = Iterate(step.xs, step.us, step.controls, cost, None, clock.elapsed, cost)
        model, zeta = formulation.expand(iterate, dual=nothing), max(zeta / FACTOR, HALF_PRECISION)


def _step(
    formulation: Formulation, model: LocalModel, blocks: tuple[np.ndarray, ...], zeta: float
) -> tuple[Candidate | None, float]:
    """The full step of the least-squares model, None if its sweep fails or its rollout is not finite, and its predicted
    decrease."""
    e = model.expansion
    lx, lu, lxx, lux, luu = blocks
    damped = Expansion(e.fx, e.fu, lx, lu, zeta * lxx, lux, zeta * luu)
    transcribed = model._replace(expansions={GAUSS_NEWTON: damped})
    sweep = formulation.sweep(transcribed, 0.0)
    if not sweep.ok:
        return None, 0.0
    with formulation.clock.measure("rollouts"):
        step = next(iter(formulation.candidates(transcribed, sweep)))
    finite = np.isfinite(step.xs).all() and np.isfinite(step.us).all()
    return (step if finite else None), -(sweep.d1 + 0.5 * sweep.d2)


def _damping(formulation: Formulation, model: LocalModel) -> tuple[np.ndarray, np.ndarray]:
    """Weights of |dx_i|^2 (ndx,) and |du_j|^2 (nu,): ones or, where states are large numbers, whose size says nothing
    of how far they may move, the inverse squares of their sizes; and the squared slopes of rows."""
    rows, xs = formulation.rows, model.iterate.xs
    assert rows is not None
    sizes = np.maximum(np.abs(xs).max(axis=0), 1.0) if rows.large else np.ones(formulation.problem.system.ndx)
    return sizes**-2, _slopes(model, rows) ** 2


def _slopes(model: LocalModel, rows: Rows) -> np.ndarray:
    """Typical derivatives (nu,) of rows with respect to the controls, if rows are large or the derivatives negligible;
    ones for others, and where they are not known."""
    slopes = np.sqrt(np.square(influence(model, rows)).mean(axis=0))
    wanted = rows.large or slopes.max() < NEGLIGIBLE
    return slopes if wanted and finite(slopes) and slopes.all() else np.ones_like(slopes)


def certified(formulation: Formulation, found: RestorationResult) -> bool:
    """True if the weights prove that no small change of the controls lowers the violation."""
    return _stationary(formulation, found.model, found.weights)


def _stationary(formulation: Formulation, model: LocalModel, nu: np.ndarray) -> bool:
    """True if C_u'nu + fu'y vanishes."""
    assert formulation.rows is not None and model.rows is not None
    none = model.expansion._replace(lx=np.zeros_like(model.expansion.lx), lu=np.zeros_like(model.expansion.lu))
    _, gradient = adjoint(with_multipliers(none, formulation.rows.first, model.rows.C, nu))
    gradient = gradient / _slopes(model, formulation.rows)
    largest = largest_gradient(gradient, model.iterate.us, formulation.limits)
    return largest <= NEGLIGIBLE * float(np.abs(nu).max(initial=0.0))


def check(
    formulation: Formulation, start: Iterate, first: Iterate, budget: Budget, tolerance: float, run: Run
) -> tuple[RestorationResult, bool]:
    """Search for a trajectory with half the violation from an iterate; where that search ends at a minimum, from the
    first iterate of the solve, if it has no gaps, and from perturbed ones; and, wherever it ends, from trajectories to
    states that meet the last knot's rows, unless its last state leads to one by itself (`terminal_states`): then, if
    rows on the way are violated, from where a solve with a large first penalty ends.  Where rows of one knot alone show
    that no trajectory meets them, the first minimum is the last.

    Returns the search that lowered the violation most, with the log of all; and True if the constraints contradict each
    other as far as the searches show, the largest violation exceeding the tolerance in the user's units: a search that
    is given up before a minimum, or ends at a lower one, refutes the first minimum."""
    rows = formulation.rows
    assert rows is not None
    v = rows.violations(rows.values(start.xs, start.us))
    enough, ends = 0.125 * float(v @ v), None  # half the violations
    if v[rows.first[-2] :].any() and not any(record.step == FEASIBILITY for record in budget.log):
        ends = terminal_states(formulation.problem, rows, start.xs)
        if ends.nearest is not None:
            led = _at_nearest(formulation, start, ends.nearest, budget)
            budget = budget._replace(log=led.log)
            if certified(formulation, led):
                assert led.model.rows is not None
                return led, not budget.over and measures(rows, led.model.rows.c, led.weights).excess > tolerance
    best = least_violation(formulation, start, budget, enough)
    budget, rng, agreed = budget._replace(log=best.log), np.random.default_rng(0), True

    def unmet() -> bool:
        return best.value > enough and not budget.over

    def hopeless() -> bool:
        return unmet() and best.minimum and certified(formulation, best)

    others: tuple[float | np.ndarray | None, ...] = ()
    if unmet():
        ends = terminal_states(formulation.problem, rows, best.model.iterate.xs) if ends is None else ends
        others = tuple(ends.met[i] for i in ends.beside[:TRIES])
        if hopeless():
            on_the_way = (None,) if best.weights[: rows.first[-2]].any() else ()
            others = 0.0, PERTURBED, *(others or on_the_way)
            if ends.nearest is not None or _given(formulation, best):
                others = ()
    for other in others:
        if not (unmet() if isinstance(other, np.ndarray) else hopeless()):
            break
        us = best.model.iterate.us
        if other is None or isinstance(other, np.ndarray):
            trial, log = _reached(formulation, first, other, budget, run)
            budget = budget._replace(log=log)
        elif other > 0.0:
            largest = np.abs(us).max(axis=0, initial=0.0)
            scale = other * np.where(largest > HALF_PRECISION, largest, 1.0)
            trial = formulation.start(us + scale * rng.standard_normal(us.shape), None)
        else:
            trial = first if first.gaps is None else formulation.start(first.us, None)
        if not np.isfinite(trial.cost) or not np.isfinite(rows.values(trial.xs, trial.us)).all():
            continue
        found = least_violation(formulation, trial, budget, 0.25 * best.value, best.value)
        budget, lower = budget._replace(log=found.log), found.value < best.value * (1.0 - NEGLIGIBLE)
        agreed = agreed and found.minimum and not lower
        if lower:
            best = found
    assert best.model.rows is not None
    worst = measures(rows, best.model.rows.c, best.weights).excess
    return best._replace(log=budget.log), hopeless() and agreed and worst > tolerance


def _given(formulation: Formulation, found: RestorationResult) -> bool:
    """True if a violated row of knot 0 is a function of the given initial state alone."""
    rows, (xs, us, *_) = formulation.rows, found.model.iterate
    assert rows is not None and found.model.rows is not None
    violated = np.flatnonzero(found.weights[: rows.first[1]])
    if not len(violated):
        return False
    moved = rows.values(xs, us + np.random.default_rng(0).standard_normal(us.shape))
    return bool((moved[violated] == found.model.rows.c[violated]).any())


def _towards(formulation: Formulation, first: Iterate, end: np.ndarray) -> Formulation:
    """The formulation in which the last state is to be another one (nx,) instead of what the constraints say of it,
    with rows scaled at an iterate."""
    problem, rows = formulation.problem, formulation.rows
    assert rows is not None
    goal = ResidualConstraint(StateResidual(problem.system, end), 0.0, 0.0, at="terminal")
    others = tuple(constraint for constraint in rows.constraints if constraint.at != "terminal")
    other = copy(formulation)
    other.rows = pack(problem, (*others, goal)).scaled_at(first.xs, first.us, problem.system.linearize)
    return other


def _at_nearest(formulation: Formulation, start: Iterate, end: np.ndarray, budget: Budget) -> RestorationResult:
    """The result of a search for a trajectory to a state (nx,) of least violation of the last knot's rows, all others
    being met: with the violations of the constraints themselves, which are then a certificate."""
    rows = formulation.rows
    other = _towards(formulation, start, end)
    assert rows is not None and other.rows is not None
    at_end = np.append(start.xs[:-1], end[None], axis=0)
    c, last = other.rows.values(at_end, start.us), np.arange(len(other.rows)) >= other.rows.first[-2]
    lower, upper = other.rows.lower, other.rows.upper
    lower, upper = np.where(last, np.minimum(lower, c), lower), np.where(last, np.maximum(upper, c), upper)
    other.rows = replace(other.rows, lower=lower, upper=upper)
    v = rows.violations(rows.values(at_end, start.us))[rows.first[-2] :]
    enough = 0.5 * (HALF_PRECISION * float(np.abs(v).max())) ** 2
    led = least_violation(other, start, budget, enough, enough)
    model = formulation.expand(led.model.iterate, dual=np.zeros(len(rows)))
    assert model.rows is not None
    v = rows.violations(model.rows.c)
    return RestorationResult(model, v, 0.5 * float(v @ v), True, led.log)


def _reached(
    formulation: Formulation, first: Iterate, end: np.ndarray | None, budget: Budget, run: Run
) -> tuple[Iterate, Log]:
    """Where a solve from the first iterate ends whose last state is to be another one (nx,) instead of what the
    constraints say of it, None for what they say; and the log."""
    other = formulation if end is None else _towards(formulation, first, end)
    state = run(other, first, budget.log, len(budget.log) + (LONGEST if end is not None else ROBUST))
    return state.model.iterate, state.log[: state.tried]


def checked(formulation: Formulation, state: State, options: LoopOptions, run: Run) -> State:
    """The state after a search for a trajectory with less violation, if constraints are met too slowly: at the end of
    that search, or with its certificate and the status "infeasible"."""
    model, m, iterate, since = state.model, state.multipliers, state.model.iterate, state.feasibility
    budget = Budget(state.log, options.max_iterations, formulation.clock)
    assert m is not None and since is not None
    if state.tried - since.tried < PATIENCE or budget.over:
        return state
    rows = formulation.rows
    assert rows is not None and model.rows is not None
    found = measures(rows, model.rows.c, m.dual)
    largest, tolerance = found.scaled, options.feasibility_tolerance
    small = largest <= NEARLY_MET and (state.stall.idle < IDLE or min(largest, found.excess) <= tolerance)
    known = since._replace(tried=state.tried, violation=largest)
    if iterate.gaps is not None or small or largest <= PROGRESS * since.violation:
        return state._replace(feasibility=known)
    found, hopeless = check(formulation, iterate, since.first, budget, tolerance, run)
    state, v = state._replace(log=found.log), rows.violations(model.rows.c)
    if not hopeless and found.value >= 0.5 * float(v @ v):
        return state._replace(feasibility=known._replace(tried=state.tried))
    stuck, saved = 0.5 * float(v @ v), found.model.iterate.own_cost - iterate.own_cost
    penalty = raised(m, FACTOR)
    if saved > 0.0 and stuck > found.value:
        penalty = max(min(penalty, saved / ((1.0 - GAP_SHARE) * (stuck - found.value))), FIRST * m.scale)
    state = _begun_again(formulation, state, found.model.iterate, penalty)
    if not hopeless:
        return state
    assert state.feasibility is not None
    known = state.feasibility._replace(certificate=found.weights)
    return state._replace(status=Status.INFEASIBLE, feasibility=known)


def _begun_again(formulation: Formulation, state: State, iterate: Iterate, penalty: float) -> State:
    """The state of a solve that goes on from another iterate, with zero multipliers and this penalty."""
    rows, m = formulation.rows, state.multipliers
    assert rows is not None and m is not None and state.feasibility is not None
    nothing = np.zeros(len(rows))
    multipliers = Multipliers(nothing, nothing, penalty, m.scale, m.slope)
    model = weighted(rows, formulation.expand(iterate, dual=nothing), multipliers)
    assert model.rows is not None
    violation = measures(rows, model.rows.c, nothing).scaled
    return state._replace(
        model=model, regularization=replace(state.regularization, mu=0.0, share=1.0), predicted=np.inf,
        multipliers=multipliers, feasibility=state.feasibility._replace(tried=state.tried, violation=violation),
        gap_weight=0.0, stall=Stall(),
    )  # fmt: skip


# --------------------------------------------------------------------------------------------
# Terminal states that meet the constraints of the last knot, from random ones: where a local search has failed.
#
# A robot asked for a pose of its tool can arrive there in many postures, and a local search ends in front of joint
# limits or at a singular posture on the way to one of them, although others are free.  States are found without
# trajectories: from many at once, damped Gauss-Newton steps on the rows of the last knot,
#
#     dx = -J'(J J' + zeta I)^-1 v      v = c - clip(c, lower, upper), J its Jacobian in tangent coordinates
#
# with a zeta for each.  Where all of them end with a violation, rows of the last knot contradict each other, as a goal
# does that lies within an obstacle, as far as random states show: whatever leads there, no trajectory meets them.

Violations = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]
"""v (K, r) and J (K, r, ndx) at states (K, nx)."""


def violations_at_end(problem: Problem, rows: Rows) -> tuple[Violations, np.ndarray] | None:
    """Violations of the scaled rows of the last knot, functions of the state alone, and which of them are equalities
    (r,); None if there are none."""
    N, parts = problem.horizon, []
    for block in rows.blocks:
        if block.of_states and block.knots[-1] == N:
            at = block.rows[-1]
            parts.append((block.constraint.residual, rows.D[at], rows.lower[at], rows.upper[at]))
    if not parts:
        return None

    def at_end(xs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        found = []
        for residual, D, lower, upper in parts:
            r, rx, _ = linearized(at_knots(residual, np.full(len(xs), N)), len(D), xs, None)
            v = D * r - np.clip(D * r, lower, upper)
            J = np.zeros((*v.shape, problem.system.ndx)) if rx is None else D[:, None] * rx
            found.append((v, np.where(((v != 0.0) | (lower == upper))[..., None], J, 0.0)))
        v, J = (np.concatenate(arrays, axis=1) for arrays in zip(*found, strict=True))
        return v, J

    return at_end, np.concatenate([lower == upper for *_, lower, upper in parts])


class TerminalStates(NamedTuple):
    """What random states and the last one of a trajectory tell of the rows of the last knot.

    met: states (nx,) that meet these rows, those next to the trajectory's first one in front; beside: the indices of
    those among them that neither lie on a continuum of others nor are where the last state itself leads; nearest: where
    none meets the rows, the state of least violation, if that is a minimum, else None
    """

    met: list[np.ndarray]
    beside: list[int]
    nearest: np.ndarray | None


def terminal_states(problem: Problem, rows: Rows, xs: np.ndarray) -> TerminalStates:
    """Terminal states found from random ones around the first and the last one of the states xs (N+1, nx), and from the
    last one itself; none if the last knot has no rows."""
    known, system = violations_at_end(problem, rows), problem.system
    if known is None:
        return TerminalStates([], [], None)
    at_end, equal = known
    with np.errstate(all="ignore"):
        moved = np.abs(system.difference(np.repeat(xs[:1], len(xs), axis=0), xs)).max(axis=0)
        start, rng = np.repeat(xs[[0, -1]], RANDOM // 2, axis=0), np.random.default_rng(0)
        own, least, nearest = _led(at_end, system.integrate, xs[-1:]), np.inf, None
        for _ in range(ATTEMPTS):
            spread = np.maximum(SPREAD, moved) * rng.uniform(-1.0, 1.0, (RANDOM, system.ndx))
            found = _led(at_end, system.integrate, system.integrate(start, spread))
            if found.met.any() or own.met.any():
                break
            F = (found.v**2).sum(axis=1)
            if F.min() < least:
                least, nearest = F.min(), found.xs[F.argmin()]
            if F.max() <= (1.0 + NEGLIGIBLE) * least:
                break
        if not (found.met.any() or own.met.any()):
            return TerminalStates([], [], None if nearest is None else _nearest(at_end, system, nearest))
        ends, J = (np.concatenate([getattr(part, name)[part.met] for part in (own, found)]) for name in ("xs", "J"))
        enough = np.count_nonzero(equal) >= system.ndx
        isolated = np.linalg.matrix_rank(J[:, equal]) == system.ndx if enough else np.zeros(len(ends), bool)
        far = np.linalg.norm(system.difference(np.repeat(xs[:1], len(ends), axis=0), ends), axis=1)

        def same(x: np.ndarray, other: np.ndarray) -> bool:
            return bool(np.abs(system.difference(other[None], x[None])).max() <= NEGLIGIBLE)

        met: list[np.ndarray] = []
        beside: list[int] = []
        for i in np.argsort(far):
            if any(same(ends[i], other) for other in met):
                continue
            if not own.met[0] or (isolated[i] and not same(ends[i], own.xs[0])):
                beside.append(len(met))
            met.append(ends[i])
        return TerminalStates(met, beside, None)


class _Led(NamedTuple):
    """Where steps lead: states (K, nx), v (K, r), J (K, r, ndx), and True (K,) where the rows are met."""

    xs: np.ndarray
    v: np.ndarray
    J: np.ndarray
    met: np.ndarray


def _led(at_end: Violations, integrate: Callable[..., np.ndarray], xs: np.ndarray) -> _Led:
    """The states that the steps lead to from xs (K, nx)."""
    (v, J), zeta, idle = at_end(xs), np.full(len(xs), FIRST_ZETA), np.zeros(len(xs), int)
    F = (v**2).sum(axis=1)
    for _ in range(LONGEST):
        S = J @ J.transpose(0, 2, 1) + zeta[:, None, None] * np.eye(v.shape[1])
        if not np.isfinite(S).all():
            break
        dx = -(J.transpose(0, 2, 1) @ np.linalg.solve(S, v[..., None]))[..., 0]
        trial = np.asarray(integrate(xs, dx))
        w, K = at_end(trial)
        G = (w**2).sum(axis=1)
        lower = G < F
        idle = np.where(lower & (G < (1.0 - NEGLIGIBLE) * F), 0, idle + 1)
        xs, F = np.where(lower[:, None], trial, xs), np.where(lower, G, F)
        v, J = np.where(lower[:, None], w, v), np.where(lower[:, None, None], K, J)
        zeta = np.maximum(np.where(lower, zeta / FACTOR, zeta * FACTOR), HALF_PRECISION)
        if ((np.abs(v).max(axis=1) <= HALF_PRECISION) | (idle >= IDLE)).all():
            break
    met = np.isfinite(xs).all(axis=1) & (np.abs(v).max(axis=1) <= HALF_PRECISION)
    return _Led(np.ascontiguousarray(xs), v, J, met)


def _nearest(at_end: Violations, system: System, x: np.ndarray) -> np.ndarray | None:
    """The state (nx,) of least violation next to a state, by Newton's method on F = |v|^2 / 2 with the positive part of
    its Hessian, by central differences of J'v; None if that does not get there."""
    h, zeta = DIFFERENCE * np.eye(system.ndx), 0.0

    def at(xs: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        v, J = at_end(xs)
        return 0.5 * (v**2).sum(axis=1), np.einsum("kri,kr->ki", J, v), np.abs(v).max(axis=1)

    def around(steps: np.ndarray) -> np.ndarray:
        return np.ascontiguousarray(system.integrate(np.repeat(x[None], len(steps), axis=0), steps))

    for _ in range(LONGEST):
        F, gradient, largest = (part[0] for part in at(x[None]))
        if not np.isfinite(gradient).all():
            return None
        if np.abs(gradient).max() <= STATIONARY_STATE * largest:
            return x
        g = at(around(np.concatenate([h, -h])))[1].reshape(2, system.ndx, system.ndx)
        H = (g[0] - g[1]) / (2.0 * DIFFERENCE)
        if not np.isfinite(H).all():
            return None
        values, U = np.linalg.eigh(0.5 * (H + H.T))
        unit = max(float(np.abs(values).max()), HALF_PRECISION)
        dx = -U @ ((U.T @ gradient) / (np.maximum(np.abs(values), HALF_PRECISION * unit) + zeta * unit))
        trial = around(dx[None])
        if at(trial)[0][0] < F:
            x, zeta = trial[0], zeta / FACTOR
        else:
            zeta = max(FACTOR * zeta, FIRST_ZETA)
    return None
