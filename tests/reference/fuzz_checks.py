"""Whether a solve under constraints ended as it says: another look, in the controls alone, by dense matrices and scipy.

States follow from controls u (n,), n = N nu, with S_t = dx_t/du.  Of the cost there is the gradient g and the Hessian
H of its squares, of all constraints lower <= r <= upper the Jacobian J.  Where a solve converged, with multipliers lam
of the signs that limits allow,

    g + J'lam = 0      lower <= r <= upper      lam (r - limit) = 0

and what is left of the first is worth 1/2 g'H^-1 g of the cost.  Where constraints are said to contradict each other,
no controls may meet them: for a linear system by a linear programme, which sees all controls; else, for it is said of
what is near the trajectory only, by least squares of the violations from there.
"""

from typing import Any, NamedTuple

import numpy as np
import scipy.linalg
from scipy.optimize import least_squares, linprog, nnls

from tests.trajopt.systems import LinearSystem
from trajopt import ControlBounds, Problem, Solution, expand

EVALUATIONS, ROUNDING, TINY = 60, 1e-12, 1e-300
"""Of the violations; of numbers about one; so that nothing divides by zero."""
TIMES, INVISIBLE, PRICES, NEAR = 10.0, 1e-10, 0.05, 1e-7
"""So many times the tolerance is much; parts of the cost and of its gradient that are little whatever it is; how near a
limit a row may be held by it."""


class Dense(NamedTuple):
    """g (n,), H (n, n), and of all rows r, lower, upper (R,) and J (R, n)."""

    g: np.ndarray
    H: np.ndarray
    r: np.ndarray
    J: np.ndarray
    lower: np.ndarray
    upper: np.ndarray


def dense(problem: Problem, xs: np.ndarray, us: np.ndarray, knots: list[np.ndarray]) -> Dense:
    """A problem at a trajectory; knots: those of every constraint."""
    (N, nu), e = us.shape, expand(problem, xs, us)
    Z = np.zeros((N + 1, e.fx.shape[1] + nu, N * nu))
    H, g = np.zeros((N * nu, N * nu)), np.zeros(N * nu)
    for t in range(N + 1):
        S, at = Z[t, :-nu], slice(t * nu, (t + 1) * nu)
        g += e.lx[t] @ S
        H += S.T @ e.lxx[t] @ S
        if t < N:
            Z[t, -nu:, at] = np.eye(nu)
            g[at] += e.lu[t]
            H += Z[t, -nu:].T @ (e.lux[t] @ S + e.luu[t] @ Z[t, -nu:]) + S.T @ e.lux[t].T @ Z[t, -nu:]
            Z[t + 1, :-nu] = e.fx[t] @ S + e.fu[t] @ Z[t, -nu:]
    none = np.zeros(0)
    rows = [_rows(each, xs, us, Z, where) for each, where in zip(problem.constraints, knots, strict=True)]
    r, J, lower, upper = (np.concatenate(parts) for parts in zip((none, Z[0, :0, :], none, none), *rows, strict=True))
    return Dense(g, H, r, J, lower, upper)


def _rows(constraint: Any, xs: np.ndarray, us: np.ndarray, Z: np.ndarray, knots: np.ndarray) -> tuple:
    """r, J, lower and upper of one constraint."""
    N, nu = us.shape
    if isinstance(constraint, ControlBounds):
        return us.ravel(), np.eye(us.size), *(limit.ravel() for limit in constraint.limits(N, nu))
    values, slopes = [], []
    for t in knots:
        u = us[t : t + 1] if t < N else None
        rx, ru = constraint.residual.jacobians(xs[t : t + 1], u)
        values.append(constraint.residual.evaluate(xs[t : t + 1], u)[0])
        slopes.append(rx[0] @ Z[t, :-nu] + (0.0 if ru is None or t == N else ru[0] @ Z[t, -nu:]))
    limits = (limit.ravel() for limit in constraint.limits(knots))
    return np.concatenate(values), np.concatenate(slopes), *limits


class Conditions(NamedTuple):
    """What is left of those of a minimum: cost to gain while active rows are kept; the largest entry of what other
    multipliers would take from g + J'lam, against its terms; violation, slack times multiplier, multiplier of the wrong
    sign."""

    gain: float
    prices: float
    violation: float
    product: float
    wrong: float


def conditions(solution: Solution, soft: float, near: float) -> Conditions:
    """At a solution, with its own multipliers; soft: what violations cost if they may be, in place of multipliers.
    Rows without a multiplier that are so near a limit may have one, if that leaves less to gain."""
    reports = solution.constraints
    d = dense(solution.problem, solution.xs, solution.us, [report.knots for report in reports])
    lam = np.concatenate([np.zeros(0), *(report.multipliers.ravel() for report in reports)])
    hard = np.concatenate([np.zeros(0, bool), *(np.full(r.values.size, not (soft and r.penalty)) for r in reports)])
    off = d.r - np.clip(d.r, d.lower, d.upper)
    prices, pressed, lam = np.where(hard, lam, soft * off), d.J[~hard & (off != 0.0)], np.where(hard, lam, 0.0)
    g, terms = d.g + prices @ d.J, np.abs(d.g) + np.abs(prices) @ np.abs(d.J)
    g = np.sign(g) * np.maximum(np.abs(g) - ROUNDING * terms, 0.0)
    limit = np.where(lam > 0.0, d.upper, d.lower)
    slack = np.where(np.isfinite(limit) & (d.lower < d.upper), limit - d.r, 0.0)
    measures = off[hard], np.maximum(lam * slack, 0.0), lam[~np.isfinite(limit)]
    Z = _kept(d.J[lam != 0.0])
    free = hard & (lam == 0.0)
    outward = np.concatenate([d.J[free & (d.upper - d.r <= near)], -d.J[free & (d.r - d.lower <= near)]])
    gain = _gain(Z.T @ (d.H + soft * pressed.T @ pressed) @ Z, g @ Z, outward @ Z)
    off_rows = float(np.abs(g - Z @ (g @ Z)).max() / max(terms.max(), TINY))
    return Conditions(gain, off_rows, *(float(np.abs(each).max(initial=0.0)) for each in measures))


def _kept(J):
    """A basis of the directions that keep these rows."""
    return scipy.linalg.null_space(J / np.maximum(np.linalg.norm(J, axis=1, keepdims=True), TINY))


def _gain(H, g, A):
    """-min g'd + 1/2 d'Hd over d with A d <= 0, from its dual."""
    scale = 1.0 / np.sqrt(np.maximum(np.diag(H), TINY))
    values, V = np.linalg.eigh(scale[:, None] * H * scale)
    V = scale[:, None] * V / np.sqrt(np.maximum(values, ROUNDING))
    g, A = g @ V, (A @ V).T
    return 0.5 * nnls(A, -g)[1] ** 2 if A.size else 0.5 * float(g @ g)


def complaints(solver: Any, solution: Solution) -> list[str]:
    """What this look finds of a solution that converged or is said to be infeasible."""
    squares = sum(float(np.sum(report.violations**2)) for report in solution.constraints if report.penalty)
    found, cost = [], abs(solution.cost) + 0.5 * solver.soft_penalty * squares
    if solution.status == "infeasible":
        us, violation = feasible_controls(solution)
        if violation <= solver.feasibility_tolerance:
            away = float(np.abs(us - solution.us).max() / max(np.abs(solution.us).max(), TINY))
            found.append(f"infeasible, but controls {away:.1e} away violate by {violation:.1e}")
    if not solution.converged:
        return found
    left = conditions(solution, solver.soft_penalty, NEAR)
    little = max(TIMES * solver.tolerance, INVISIBLE) * cost + max(solver.absolute_tolerance, INVISIBLE**2)
    if left.gain > little:
        found.append(f"converged, but {left.gain:.1e} of a cost of {cost:.1e} is left to gain")
    if left.prices > PRICES:
        found.append(f"converged, but a part {left.prices:.1e} of the gradient is due to multipliers")
    if left.violation > solver.feasibility_tolerance + ROUNDING * np.abs(solution.xs).max():
        found.append(f"converged, but a constraint is violated by {left.violation:.1e}")
    if left.product > TIMES * solver.complementarity_tolerance * max(1.0, 1e-3 * cost) + little:
        found.append(f"converged, but a multiplier times its slack is {left.product:.1e}")
    if left.wrong > 0.0:
        found.append(f"converged, but a multiplier of {left.wrong:.1e} belongs to no limit")
    return found


def feasible_controls(solution: Solution) -> tuple[np.ndarray, float]:
    """Controls that meet constraints as well as could be found from those of a solution, and their violation."""
    problem, us = solution.problem, solution.us
    knots = [report.knots for report in solution.constraints]

    def at(u: np.ndarray) -> Dense:
        u = u.reshape(us.shape)
        return dense(problem, problem.system.rollout(problem.x0, u), u, knots)

    first, limits = at(us.ravel()), problem.control_limits
    low, high = (np.full(us.size, s * np.inf) if limits is None else limits[i].ravel() for i, s in ((0, -1), (1, 1)))
    D = 1.0 / np.maximum(np.abs(first.J).max(axis=1), 1e-8)
    if isinstance(problem.system, LinearSystem):
        best = _by_linear_programme(first, D, us.ravel(), low, high)
    else:
        best = _by_least_squares(at, D, us.ravel(), low, high)
    best = np.clip(best, low, high)
    end = at(best)
    off = np.abs(end.r - np.clip(end.r, end.lower, end.upper)).max()
    return best.reshape(us.shape), float(off)


def _by_linear_programme(d, D, u, low, high):
    """min s, where no row times D is further than s from its limits."""
    base, A, b = d.r - d.J @ u, [], []
    for limit, sign in ((d.upper, 1.0), (d.lower, -1.0)):
        known = np.isfinite(limit)
        A.append(np.column_stack([sign * D[known, None] * d.J[known], -np.ones(known.sum())]))
        b.append(sign * D[known] * (limit - base)[known])
    bounds = [*zip(low, high, strict=True), (0.0, None)]
    found = linprog(np.r_[np.zeros(u.size), 1.0], np.concatenate(A), np.concatenate(b), bounds=bounds)
    return u if found.x is None else found.x[:-1]


def _by_least_squares(at, D, u, low, high):
    """min |violations times D|^2."""
    free = low < high
    if not free.any():
        return low

    def violated(z):
        whole = low.copy()
        whole[free] = z
        d = at(whole)
        off = D * (d.r - np.clip(d.r, d.lower, d.upper))
        return off, ((off != 0.0) * D)[:, None] * d.J[:, free]

    bounds, tight = (low[free], high[free]), {"xtol": 1e-14, "ftol": 1e-14, "gtol": 1e-14}
    start, whole = np.clip(u[free], *bounds), low.copy()
    with np.errstate(all="ignore"):
        try:
            whole[free] = least_squares(
                lambda z: violated(z)[0], start, lambda z: violated(z)[1], bounds, max_nfev=EVALUATIONS, **tight
            ).x
        except ValueError:  # not finite
            return u
    return whole
