"""Start of a solve: a trajectory, and the multipliers that a warm start has for the problem's constraints.

Without a warm start the first controls are rolled out.  The rollout is rejected where it is not finite, or where the
initial state held at every knot is better in cost J and violation V, the sum of the violations of scaled rows,
together:

    J > 2 J_held  and  J - 2 J_held > mu (V_held - V) for any mu up to 1e2 units,     or  J >= J_held  and  V > 2 V_held

in units of penalties, the largest derivative of the cost there.  Then the initial state is held, with gaps for the
solve to close.  Controls that keep the constraints where the held state violates them stay, whatever their cost.

Where zeros, a problem's first controls by default, lead nowhere, the middle of its limits is tried: controls in the
middle where both limits are finite, else at a distance of one from a single limit that they touch, rolled out; then
with states x0 at every knot, but for components in the middle of finite `StateBounds`; and the controls of the example
at which a function was tried (`u_example`).  That is done where the start, or a derivative there, is not finite, or
where the solve ends at such a point.  Where the solve comes to no end, a second one (`trajopt.solvers.solve`) begins
with controls that hold the initial state: those of the system itself (`quasi_static`), or else by Gauss-Newton steps

    min_u |W (f(x0, u) - x0)|^2,       W = diag(|fu_i|),

so that what controls do not reach within a step, as a clock, does not count.

Where steps from the held initial state end with gaps, since some were not finite, the solve goes on without gaps, from
the cheapest finite rollout: of the last iterate's policy, of the first controls, of those that hold, or of zeros.

A warm start is never compared with the held initial state.  Its states stay where they have no gaps.  Where they have,
as from another initial state, a rollout with its gains replaces them if cost and violation are at most twice those of
the states with gaps, the gaps counted as violation; else the gaps stay, and the first full step closes them.  The
horizon may differ: knots beyond it are left out, or the last control is repeated.  Multipliers are assigned to
constraints of the same name with as many rows, knot by knot.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from dynamics.validation import as_array
from trajopt.capabilities import Start, capability
from trajopt.costs.residuals import StateResidual
from trajopt.interfaces.system import window
from trajopt.problem.constraints import StateBounds
from trajopt.problem.problem import Problem
from trajopt.results.records import GIVEN, HELD, WARM, ConstraintReport, WarmStart
from trajopt.rows import Rows
from trajopt.solvers.augmented_lagrangian import FIRM, measures, penalty_scale, total_violation
from trajopt.solvers.formulation import Formulation, Iterate, closed_loop
from trajopt.solvers.iteration import TRIES
from trajopt.solvers.line_search import WORSE


class FirstIterate(NamedTuple):
    """The first iterate of a solve; its kind, "given", "warm" or "held"; and the rollout that the held initial state
    replaces, None if there is none."""

    iterate: Iterate
    kind: str
    rejected: Iterate | None = None


def given_trajectory(
    problem: Problem, us: Any, xs: Any, warm: WarmStart | None
) -> tuple[np.ndarray, np.ndarray | None, np.ndarray | None, bool]:
    """Controls and states to start from, checked: those passed, else the warm start's, else the problem's; the warm
    start's gains about both, None if it has none; and True if the controls are those of the warm start.

    Controls that are passed without states are rolled out, whatever states a warm start has.
    """
    if warm is not None and us is None:  # `fitted` has checked and copied them
        if xs is not None or warm.xs is None:
            return warm.us, None if xs is None else problem.states("xs", xs), None, True
        problem.check_states("xs", warm.xs)
        return warm.us, warm.xs, warm.K, True
    us = problem.us_init.copy() if us is None else problem.controls("us", us)
    if xs is not None:
        xs = problem.states("xs", xs)
    elif warm is None and problem.xs_init is not None:
        xs = problem.xs_init.copy()
    return us, xs, None, False


def fitted(warm: WarmStart, problem: Problem) -> tuple[WarmStart, tuple[str, ...]]:
    """The warm start over the problem's horizon; messages that say how it was changed, and which of its constraints the
    problem does not have.

    Raises ValueError naming what does not fit the problem's system.
    """
    N, system = problem.horizon, problem.system
    us = as_array("warm_start: us", warm.us, copy=True)
    if us.ndim != 2 or not len(us) or us.shape[1] != system.nu:
        raise ValueError(f"warm_start: us: got shape {us.shape}, expected (N, {system.nu})")
    length = len(us)

    def checked(name: str, rows: np.ndarray | None, *shape: int) -> np.ndarray | None:
        return None if rows is None else as_array(f"warm_start: {name}", rows, shape, copy=True)

    xs = checked("xs", warm.xs, length + 1, system.nx)
    costate = checked("costate", warm.costate, length + 1, system.ndx)
    K = checked("K", warm.K, length, system.nu, system.ndx)
    known = [constraint.name for constraint in problem.constraints]
    left = tuple([f"{report.name!r} is no constraint here" for report in warm.constraints if report.name not in known])
    if length == N:
        return WarmStart(us, xs, warm.constraints, warm.predicted, costate, K, warm.gradient_norm), left
    at = np.minimum(np.arange(N + 1), length)
    us = us[np.minimum(at[:N], length - 1)]
    K = None if K is None else K[np.minimum(at[:N], length - 1)]
    costate = None if costate is None else costate[at]
    if xs is not None and N > length:
        motion = np.asarray(window(system, length, N).rollout(xs[-1], us[length:]))
        xs = np.concatenate([xs, motion[1:]]) if np.isfinite(motion).all() else xs[at]
    elif xs is not None:
        xs = xs[at]
    onwards = "the last control goes on" if N > length else "the rest is left out"
    told = f"it has {length} knots, the problem {N}: {onwards}"
    return warm._replace(us=us, xs=xs, costate=costate, K=K, gradient_norm=0.0), (told, *left)


def first_iterate(
    formulation: Formulation, us: np.ndarray, xs: np.ndarray | None, K: np.ndarray | None, warm: bool, tolerance: float
) -> FirstIterate:
    """The first iterate of a solve; K: gains about controls and states; warm: True if these are a warm start's;
    tolerance: that of constraints."""
    iterate = formulation.start(us, xs)
    if xs is not None and (not warm or np.isfinite(iterate.cost)):
        closed = None
        if K is not None and iterate.gaps is not None:
            rows = formulation.rows
            rows = None if rows is None else rows.scaled_at(iterate.xs, iterate.us)
            closed = followed(formulation, iterate, K, rows)
        return FirstIterate(iterate if closed is None else closed, WARM if warm else GIVEN)
    if xs is not None:
        iterate = formulation.start(us, None)
    if warm and np.isfinite(iterate.cost):
        return FirstIterate(iterate, WARM)
    held = np.repeat(formulation.problem.x0[None], len(us) + 1, axis=0)
    if _leads_away(formulation, iterate, held, tolerance):
        at_rest = formulation.start(us, held)
        if np.isfinite(at_rest.cost):
            return FirstIterate(at_rest, HELD, iterate)
    return FirstIterate(iterate, WARM if warm else GIVEN)


def starts_from_zeros(problem: Problem) -> bool:
    """True if a problem's own start is the default one: controls of zero, and no states."""
    return problem.xs_init is None and not problem.us_init.any()


def middle_controls(problem: Problem) -> np.ndarray:
    """The problem's first controls (N, nu), moved to the middle of their limits."""
    us = problem.us_init.copy()
    if problem.control_limits is None:
        return us
    lower, upper = problem.control_limits
    below, above = np.isfinite(lower), np.isfinite(upper)
    both, at_lower, at_upper = below & above, below & ~above & (us <= lower), above & ~below & (us >= upper)
    us[at_lower], us[at_upper] = lower[at_lower] + 1.0, upper[at_upper] - 1.0
    us[both] = 0.5 * lower[both] + 0.5 * upper[both]
    return us


def middle_states(problem: Problem) -> np.ndarray | None:
    """The initial state (N+1, nx) at every knot, with components in the middle of limits that hold along the path;
    None where no such limits are finite."""
    system, N, found = problem.system, problem.horizon, False
    xs = np.repeat(problem.x0[None], N + 1, axis=0)
    for constraint in problem.constraints:
        if not isinstance(constraint, StateBounds) or not isinstance(constraint.residual, StateResidual):
            continue
        knots, at = constraint.knots(N, True), constraint.residual.components
        lower, upper = constraint.limits(knots)
        wide = np.isfinite(lower) & np.isfinite(upper) & (lower < upper)
        if len(knots) < 2 or not wide.any():
            continue
        reference = np.repeat(constraint.residual.reference[None], len(knots), axis=0)
        away = system.difference(reference, xs[knots])
        limited = away[:, at]
        limited[wide] = 0.5 * lower[wide] + 0.5 * upper[wide]
        away[:, at] = limited
        xs[knots], found = system.integrate(reference, away), True
    return xs if found else None


def example_controls(problem: Problem) -> np.ndarray | None:
    """The controls (N, nu) of the first example that is not zero, of the system or of a residual, within their limits;
    None where there is none."""
    system, nu = problem.system, problem.system.nu
    terms = [getattr(term.cost, "residual", None) for term in problem.objective.terms]
    for part in (system, *terms, *(constraint.residual for constraint in problem.residual_constraints)):
        u = getattr(part, "u_example", None)
        if u is not None and u.shape == (nu,) and u.any():
            us = np.tile(u, (problem.horizon, 1))
            return us if problem.control_limits is None else us.clip(*problem.control_limits)
    return None


def still_controls(problem: Problem) -> np.ndarray | None:
    """Controls (N, nu) that hold the initial state, or what of it they can, within their limits; None where there are
    none."""
    system, x0, N = problem.system, problem.x0, problem.horizon
    quasi_static, first = capability(system, Start).quasi_static, window(system, 0, 1)
    if quasi_static is not None:
        us = np.array(np.broadcast_to(quasi_static(x0), (N, system.nu)))
    else:
        u = problem.us_init[:1].copy()
        with np.errstate(all="ignore"):
            for _ in range(TRIES):  # one suffices where controls act linearly
                off = system.difference(x0[None], np.asarray(first.step(x0[None], u)))[0]
                fu = first.linearize(np.stack([x0, x0]), u)[1][0]
                weights = np.linalg.norm(fu, axis=1)
                if not (np.isfinite(off).all() and np.isfinite(weights).all()):
                    return None
                u = u - np.linalg.lstsq(weights[:, None] * fu, weights * off, rcond=None)[0]
        us = np.repeat(u, N, axis=0)
    us = us if problem.control_limits is None else us.clip(*problem.control_limits)
    return us if np.isfinite(us).all() else None


def followed(formulation: Formulation, iterate: Iterate, K: np.ndarray, rows: Rows | None) -> Iterate | None:
    """The rollout of a warm start with its gains; None where there are no gaps, and where it is worse, also by the
    violation of these rows, than the states with their gaps."""
    found = None if iterate.gaps is None else rolled_out(formulation, iterate, K)
    if found is None or not found.cost <= iterate.cost + (WORSE - 1.0) * abs(iterate.cost):
        return None
    if rows is not None:
        V, before = (total_violation(rows, rows.values(one.xs, one.us)) for one in (found, iterate))
        if not V <= WORSE * (before + iterate.total_gap):
            return None
    return found


def rolled_out(formulation: Formulation, iterate: Iterate, K: np.ndarray) -> Iterate | None:
    """The rollout from the initial state with gains about an iterate; None where it is not finite."""
    problem, (xs, us) = formulation.problem, iterate[:2]
    with formulation.clock.measure("rollouts"):
        limits = problem.control_limits
        states, controls = closed_loop(problem, xs, us, np.zeros_like(us), K, None, limits)
    if not (np.isfinite(states[0]).all() and np.isfinite(controls[0]).all()):
        return None
    found = formulation.start(np.array(controls[0], order="C"), np.array(states[0], order="C"))
    return found._replace(gaps=None) if np.isfinite(found.cost) else None


def _leads_away(formulation: Formulation, rollout: Iterate, held: np.ndarray, tolerance: float) -> bool:
    """True if a rollout of the first controls is worse than the states `held`, by the rule in the module's
    docstring."""
    J, J_held = rollout.cost, formulation.cost(held, rollout.us)
    rows, dear = formulation.rows, 0.0 < WORSE * J_held < J
    if not np.isfinite(J):
        return True
    if rows is None or J < J_held:
        return dear
    rows = rows.scaled_at(held, rollout.us)
    c, c_held = rows.values(rollout.xs, rollout.us), rows.values(held, rollout.us)
    V, V_held = total_violation(rows, c), total_violation(rows, c_held)
    if not (np.isfinite(V) and np.isfinite(V_held)):
        return bool(np.isfinite(V_held))
    kept, held_kept = (measures(rows, x, np.zeros(len(x))).excess <= tolerance for x in (c, c_held))
    if kept:
        return dear and held_kept
    if dear and V < V_held:
        iterate = rollout._replace(xs=held, controls=rollout.us, cost=J_held, own_cost=J_held)
        scale = penalty_scale(formulation.expand(iterate).expansion)
        return J - WORSE * J_held > FIRM * scale * (V_held - V)
    return dear or V > WORSE * V_held


def taken_over(
    problem: Problem, warm: WarmStart, rows: Rows, iterate: Iterate
) -> tuple[Rows, tuple[np.ndarray, float] | None, tuple[str, ...]]:
    """The rows, scaled as in the warm start where it has the constraint, else by their Jacobians at the iterate; the
    multipliers and the penalty for them, None if the warm start has none; and messages that name constraints without
    any."""
    known, scaled, length = {report.name: report for report in warm.constraints}, None, len(warm.us)
    multipliers, factors, penalties, left = [], [], [], []
    for i, (constraint, knots) in enumerate(zip(rows.constraints, rows.knots, strict=True)):
        report, lam, own = known.get(constraint.name), None, None
        if report is None:
            left.append(f"{constraint.name!r} has no multipliers in it")
        elif report.multipliers.shape[1:] != (constraint.nr,):
            there = report.multipliers.shape[-1]
            left.append(f"{constraint.name!r} has {there} rows in it and {constraint.nr} here")
        else:
            lam, own = at_knots(report, length, knots, problem.horizon), report.factors
            penalties.append(report.penalty)
        if own is None:
            scaled = scaled or rows.scaled_at(iterate.xs, iterate.us, problem.system.linearize)
            own = scaled.factors[i]
        multipliers.append(np.zeros((len(knots), constraint.nr)) if lam is None else lam)
        factors.append(own)
    if not penalties:
        return rows.with_factors(factors), None, tuple(left)
    lam = rows.packed("warm_start: multipliers", multipliers)
    rows = rows.with_factors(factors)
    return rows, (lam / rows.D, max(penalties)), tuple(left)


def at_knots(report: ConstraintReport, length: int, knots: np.ndarray, N: int) -> np.ndarray:
    """Multipliers (len(knots), nr) at these knots of a horizon N, from a report over another horizon: at the last knot
    those of the last knot, at knots beyond the other horizon the last ones before it, at knots without a report
    zero."""
    values = report.multipliers
    if len(values) != len(report.knots):
        shape = len(report.knots), values.shape[1]
        raise ValueError(f"warm_start: multipliers of {report.name}: got shape {values.shape}, expected {shape}")
    if length == N and (report.knots is knots or np.array_equal(report.knots, knots)):
        return values
    path = report.knots[report.knots < length]
    found, wanted = np.zeros((len(knots), values.shape[1])), np.flatnonzero(knots < N)
    if len(path):
        at = np.minimum(np.searchsorted(path, knots[wanted]), len(path) - 1)
        same = (path[at] == knots[wanted]) | (knots[wanted] >= length)
        found[wanted[same]] = values[at[same]]
    if len(path) < len(values) and len(wanted) < len(knots):
        found[-1] = values[-1]
    return found
