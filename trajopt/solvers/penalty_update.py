"""Update of the multipliers and of the penalty of the augmented Lagrangian.

A minimum of the quadratic model with penalty rho leaves c + C z = (lam+ - lam_e)/rho of the active rows.  Where the
model's own optimum leaves most of their violation, the penalty is too small, whatever the units of cost and rows [Byrd,
Nocedal and Waltz 2008].  The centre of the multipliers moves in every iteration that halves the violation of the
optimality conditions

    E = max(|grad L(lam)|, violation, min(|lam|, slack))

[Armand and Omheni 2017], so at most log2(E_0 / tolerance) times between minima of the augmented Lagrangian.  At those
minima it moves too, their tolerance is tightened, and the penalty rises if violation and slackness did not fall
fourfold since the last one.  The penalty falls where constraints are nearly met and steps are short: a large one makes
a narrow valley along curved rows, which multipliers do not.
"""

from __future__ import annotations

import numpy as np

from dynamics.simd import routine
from trajopt.backward.expansions import Expansion
from trajopt.capabilities import Steps, capability
from trajopt.rows.augmented_terms import change_of_rows, random_sum_gradient
from trajopt.rows.rows import Rows
from trajopt.solvers.iterate import Formulation, LocalModel, RowModel
from trajopt.solvers.multipliers import Multipliers, measures, project, projected
from trajopt.solvers.options import LoopOptions

GROWTH = 10.0
LARGEST, FIRST = 1e8, 1e-4
"""Largest penalty and largest multiplier; first penalty; both in units of the cost's largest derivative at the
start."""
LARGEST_WARM = 1e3
"""Largest penalty taken from a warm start, in those units: a solve may have raised the one it ended with."""
FAST, SLOW = 0.5, 0.25
TIGHTER = 0.1
"""Factor of the gradient tolerance from one minimum of the augmented Lagrangian to the next."""
NOISY = 10.0
"""Scaled rows are met if their violation is at most this multiple of the noise of a step of the dynamics."""
SOFT = 1e-3
"""Factor of the unit of penalties where rows are scaled by the size of their terms, which makes them stiff: the largest
penalty leaves 1e-5 of their violation, and a larger one would only make the valley narrower."""
CLOSE, NEARLY = 1e-3, 1e-6
"""Violations of scaled rows, or of the optimality conditions, between which a slow decrease raises the penalty."""
SINGLE = 1e2
"""Least penalty of a single step from a warm start, in units: the largest one that updates reach at a start."""
MOSTLY = 0.5
"""A slow decrease raises the penalty only if the violation of rows is at least this fraction of that of the optimality
conditions."""
RELAXATIONS, LEAST_RELAXED = 8, 10.0
"""Largest number of decreases of the penalty in a solve, and the penalty, in units, at or below which it does
not decrease."""
LEAST_MULTIPLIER, TINY = 1e-2, 1e-300
"""Multipliers below LEAST_MULTIPLIER, in units, count as that large; smallest violation used as a divisor."""
LARGE_COST = 1e-3
"""Complementarity is measured relative to this fraction of the cost where that exceeds 1."""


@routine
def _largest_derivative(lx, lu, lxx, luu):
    """Largest entry of the cost's gradients and of the diagonals of its Hessians; inf if one is not finite."""
    largest = 0.0
    for g, H in ((lx, lxx), (lu, luu)):
        for t in range(g.shape[0]):
            for i in range(g.shape[1]):
                if not (abs(g[t, i]) < np.inf and abs(H[t, i, i]) < np.inf):
                    return np.inf
                largest = max(largest, abs(g[t, i]), abs(H[t, i, i]))
    return largest


def penalty_scale(e: Expansion) -> float:
    """Largest derivative of the cost in an expansion; 1 where all vanish or one is not finite."""
    scale = _largest_derivative(e.lx, e.lu, e.lxx, e.luu)
    return scale if np.isfinite(scale) and scale > 0.0 else 1.0


def influence(model: LocalModel, rows: Rows) -> np.ndarray:
    """Gradient (N, nu) of the sum of all rows with random signs, with respect to the controls."""
    assert model.rows is not None
    e = model.expansion
    return random_sum_gradient(e.fx, e.fu, rows.first, model.rows.C, np.arange(len(rows)))


def _stiffness(model: LocalModel, rows: Rows) -> tuple[float, float] | None:
    """A fraction of the penalty 1 / S with which a step of the model halves violations, S the mean of C luu^-1 C' over
    rows; and the typical derivative of rows with respect to controls.  None where these are not known."""
    squares, luu = influence(model, rows) ** 2, np.einsum("tii->ti", model.expansion.luu)
    with np.errstate(all="ignore"):
        S, slope = float((squares / luu).sum()) / len(rows), float(np.sqrt(squares.mean()))
    return (SOFT / S, slope) if 0.0 < S < np.inf and 0.0 < slope < np.inf else None


def first_multipliers(
    model: LocalModel,
    options: LoopOptions,
    warm: tuple[np.ndarray, float] | None,
    rows: Rows,
    single: bool = False,
) -> Multipliers:
    """Zeros with a small penalty, or the multipliers and the penalty of a warm start; a soft penalty stays as it is.

    A warm start's penalty is at most the bearable one at the start or, where a single step is all that follows, at
    least the one that makes that step keep the rows."""
    scale = penalty_scale(model.expansion)
    slope = 1.0
    if rows.large:
        scale, slope = _stiffness(model, rows) or (scale, 1.0)
    dual, penalty = (np.zeros(len(rows)), 0.0) if warm is None else warm
    if options.soft_penalty > 0.0:
        return Multipliers(0.0 * dual, 0.0 * dual, options.soft_penalty, scale, slope)
    dual = projected(rows, dual)
    least = FIRST * scale
    if warm is not None:
        assert model.rows is not None
        violation = measures(rows, model.rows.c, dual).scaled
        bound, least = (np.inf, SINGLE * scale) if single else (bearable(dual, scale, violation), least)
        penalty = min(penalty, LARGEST_WARM * scale, bound)
    return Multipliers(dual, dual, max(penalty, least), scale, slope)


def weighted(formulation: Formulation, model: LocalModel, multipliers: Multipliers) -> LocalModel:
    """The model, and the cost of its iterate, with these multipliers and this penalty."""
    assert model.rows is not None and formulation.rows is not None
    terms, weights = multipliers.weights(formulation.rows, model.rows.c)
    iterate = model.iterate._replace(cost=model.iterate.own_cost + terms)
    return model._replace(iterate=iterate, rows=model.rows._replace(weights=weights))


def satisfied(formulation: Formulation, model: LocalModel, options: LoopOptions) -> bool:
    """True if violation and complementarity are within their tolerances, or constraints are soft."""
    if formulation.rows is None or model.rows is None or options.soft_penalty > 0.0:
        return True
    assert model.rows.weights is not None
    reached = measures(formulation.rows, model.rows.c, model.rows.weights.p)
    slack = options.complementarity_tolerance * max(1.0, LARGE_COST * abs(model.iterate.own_cost))
    step_noise = capability(formulation.problem.system, Steps).step_noise
    met = reached.excess <= options.feasibility_tolerance
    if step_noise is not None:
        met |= reached.scaled <= NOISY * float(step_noise(model.iterate.xs).max(initial=0.0))
    return met and reached.product <= slack


def advanced(rows: Rows, model: LocalModel, m: Multipliers, enough: float) -> Multipliers:
    """The multipliers, their centre moved to the dual iterate if that has halved the violation of the optimality
    conditions.

    enough: a violation of scaled rows that is within the tolerance."""
    assert model.rows is not None
    reached = measures(rows, model.rows.c, m.dual)
    sd = max(100.0, float(np.abs(m.dual).sum()) / max(len(rows), 1) / m.scale) / 100.0
    gradient, complementarity = model.gradient_norm / m.slope / m.scale, reached.complementarity / min(1.0, m.scale)
    error = max(gradient / sd, reached.scaled, complementarity)
    if error > FAST * m.error:
        return m
    slow = SLOW * m.error < error < CLOSE and reached.scaled > max(min(NEARLY, enough), MOSTLY * error)
    return m._replace(centre=m.dual, error=error, penalty=raised(m, GROWTH) if slow else m.penalty)


def worth(model: LocalModel, m: Multipliers) -> float:
    """|p - lam_e|^2 / (2 rho), the gain of the next move of the centre, which bounds the predicted decrease that counts
    as a minimum of the augmented Lagrangian [Rockafellar 1976, criterion B]."""
    assert model.rows is not None and model.rows.weights is not None
    change = model.rows.weights.p - m.centre
    return 0.5 * float(change @ change) / m.penalty


def bearable(multipliers: np.ndarray, scale: float, violation: float) -> float:
    """The penalty with which this violation of scaled rows gives multipliers as large as these (R,).

    A larger one makes a narrow valley of rows that are curved, as they are where a model had to be convexified."""
    return max(float(np.abs(multipliers).max(initial=0.0)), LEAST_MULTIPLIER * scale) / max(violation, TINY)


def at_minimum(model: LocalModel, m: Multipliers, enough: float, careful: bool) -> Multipliers:
    """The multipliers after a minimum of the augmented Lagrangian within its tolerance; enough: see `advanced`;
    careful: True if the model was convexified."""
    assert model.rows is not None and model.rows.weights is not None
    p, limit = model.rows.weights.p, LARGEST * m.scale
    residual = float(np.abs(p - m.centre).max(initial=0.0)) / m.penalty
    slow = residual > max(SLOW * m.residual, min(NEARLY, enough))
    centre, penalty = np.clip(p, -limit, limit), raised(m, GROWTH) if slow else m.penalty
    if careful:
        penalty = min(penalty, max(m.penalty, bearable(p, m.scale, residual)))
    return m._replace(dual=centre, centre=centre, penalty=penalty, stationary=TIGHTER * m.stationary, residual=residual)


def relaxed(rows: Rows, c: np.ndarray, m: Multipliers) -> Multipliers:
    """The multipliers with a smaller penalty and the dual iterate as centre, after a short step to c (R,), where rows
    are nearly met; otherwise unchanged."""
    if m.relaxed >= RELAXATIONS or m.penalty <= LEAST_RELAXED * m.scale or measures(rows, c, m.dual).scaled >= CLOSE:
        return m
    penalty = m.penalty / GROWTH
    return m._replace(penalty=penalty, ceiling=penalty, centre=m.dual, relaxed=m.relaxed + 1)


def raised(m: Multipliers, factor: float) -> float:
    """The penalty multiplied by a factor, at most the largest one."""
    return min(factor * m.penalty, LARGEST * m.scale)


def stepped(rows: Rows, at: RowModel, dx: np.ndarray, du: np.ndarray, m: Multipliers, alpha: float) -> Multipliers:
    """The multipliers after a step of length alpha, given the full step dx (N+1, ndx), du (N, nu) of the linearized
    trajectory."""
    p = m.weights(rows, at.c + change_of_rows(rows.first, at.C, dx, du))[1].p
    limit, dual = LARGEST * m.scale, np.empty(len(p))
    _move_dual(rows.lower, rows.upper, m.dual, p, alpha, limit, dual)
    return m._replace(dual=dual)


@routine
def _move_dual(lower, upper, lam, p, alpha, limit, result):
    for i in range(lam.shape[0]):
        result[i] = lam[i] + alpha * (p[i] - lam[i])
    project(lower, upper, result, result)
    for i in range(lam.shape[0]):
        result[i] = min(max(result[i], -limit), limit)


@routine
def _total_violation(c, lower, upper):
    total = 0.0
    for i in range(c.shape[0]):
        v = max(lower[i] - c[i], c[i] - upper[i])
        if not v <= 0.0:  # NaN too
            total += v
    return total


def total_violation(rows: Rows, c: np.ndarray) -> float:
    """Sum of the violations of scaled rows."""
    return _total_violation(c, rows.lower, rows.upper)
