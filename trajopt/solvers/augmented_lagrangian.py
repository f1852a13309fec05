"""The augmented Lagrangian of packed rows, its multipliers and its penalty.

For lower <= c <= upper, with a centre lam_e for the multipliers (positive at an active upper limit) and a penalty
rho > 0 that all rows share [Powell, Hestenes, Rockafellar],

    z = c + lam_e/rho      s = z - clip(z, lower, upper)      term  rho/2 s^2      p = rho s      w = rho where s != 0

(or lower = upper).  In the quadratic model, with rows C of Jacobians, the term has the gradient C'p and the Hessian
C'wC.  A step (dx, du) of that model has the multipliers lam+ = p + w C (dx, du): the dual-regularized Newton step of
the KKT conditions.  The dual iterate lam follows it, and is the multiplier of exact Hessians; the centre lam_e moves to
it where that reduces the error of the optimality conditions.  p is a first-order estimate of the multipliers.

Where a barrier mu > 0 smooths inequalities, each limit has a slack t > 0 which is minimized out,

    v = c - upper + max(lam_e, 0)/rho      term  min over t of  rho/2 (v + t)^2 - mu log t      p = mu/t = rho (v + t)
    w = 1/(1/rho + t/zeta)      zeta = lam, between p/10 and 10 p

(lower limits mirrored), which as mu -> 0 becomes the term above.  With zeta = p, w would be the exact second
derivative; with the dual iterate it is that of primal-dual methods, and steps are longer.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from dynamics.simd import decision, helper, lean_routine
from trajopt.backward.expansions import Expansion
from trajopt.backward.regularization import FACTOR
from trajopt.rows import Rows, Weights, change_of_rows, random_sum_gradient
from trajopt.solvers.formulation import LocalModel, RowModel


class Multipliers(NamedTuple):
    """Multipliers of scaled rows, in units of the cost.

    dual : lam (R,), the dual iterate
    centre : lam_e (R,)
    penalty : rho
    scale : unit of penalties: the largest derivative of the cost at the start; where rows are scaled by the size of
        their terms, or controls do little to them, a fraction of the penalty with which a step halves violations
    slope : of rows by controls, where they have that unit: scale times slope is that of gradients; else 1
    error : the least violation of the optimality conditions at which the centre has moved
    stationary : how small the gradient of the augmented Lagrangian must be to count as zero
    residual : violation and slackness where the centre last moved to a minimum
    ceiling : largest penalty to which a step that leaves too much of the violation may raise it
    barrier : mu of the barrier that smooths inequalities, in the unit barrier_unit; 0 where none does
    violation : sum of the violations of scaled rows where the last step began
    waits : number of steps since one that gained its predicted decrease, or halved the violation or the error
    """

    dual: np.ndarray
    centre: np.ndarray
    penalty: float
    scale: float = 1.0
    slope: float = 1.0
    error: float = np.inf
    stationary: float = 1e-2
    residual: float = np.inf
    ceiling: float = np.inf
    barrier: float = 0.0
    barrier_unit: float = 1.0
    violation: float = np.inf
    waits: int = 0

    def weights(self, rows: Rows, c: np.ndarray, sides: np.ndarray | None = None) -> tuple[float, Weights]:
        """Sum of the augmented-Lagrangian terms at c (R,), and their derivatives; sides (R,): the limits to take as
        active, -1 the lower, 1 the upper one, 0 none; None for those active at c."""
        p, w = np.empty(len(c)), np.empty(len(c))
        total = weigh(c, rows.lower, rows.upper, self.dual, self.centre, self.penalty, self.barrier, p, w)
        if sides is not None:
            limit = np.where(sides > 0, rows.upper, rows.lower)
            w = np.where(sides != 0, self.penalty, 0.0)
            p = np.where(sides != 0, self.centre + self.penalty * (c - np.where(sides != 0, limit, c)), 0.0)
        return total, Weights(p, w)

    def value(self, rows: Rows, c: np.ndarray) -> float:
        """Sum of the augmented-Lagrangian terms at c (R,)."""
        return sum_of_terms(c, None, rows.lower, rows.upper, self.centre, self.penalty, self.barrier)

    def sides(self, rows: Rows, c: np.ndarray) -> np.ndarray:
        """Active limits (R,): -1 the lower, 1 the upper one or both, 0 none."""
        z = c + self.centre / self.penalty
        return np.where((z > rows.upper) | (rows.lower == rows.upper), 1, np.where(z < rows.lower, -1, 0))


FARTHEST = 10.0
"""Largest ratio to the value on the central path of a barrier: of a multiplier in the second derivative of a smoothed
term to the first derivative p, or of p to it; and of the error of the optimality conditions to the barrier, which falls
then."""


@helper
def _excess(c, centre, penalty, lower, upper):
    """s = z - clip(z, lower, upper) with z = c + lam_e / rho."""
    z = c + centre / penalty
    return z - min(max(z, lower), upper)


@helper
def _smooth_term(v, multiplier, penalty, barrier):
    """Value, first and second derivative of the term of a limit that a barrier smooths."""
    root = np.sqrt(v * v + 4.0 * barrier / penalty)
    t = 2.0 * barrier / penalty / (v + root) if v > 0.0 else 0.5 * (root - v)
    p = barrier / t
    zeta = min(max(multiplier, p / FARTHEST), FARTHEST * p)
    return 0.5 * p * p / penalty - barrier * np.log(t), p, 1.0 / (1.0 / penalty + t / zeta)


@helper
def term(c, dual, centre, penalty, barrier, lower, upper):
    """Value, first and second derivative of a row's term."""
    if barrier == 0.0 or lower == upper:
        s = _excess(c, centre, penalty, lower, upper)
        return 0.5 * penalty * s * s, penalty * s, penalty if s != 0.0 or lower == upper else 0.0
    value, p, w = 0.0, 0.0, 0.0
    if upper < np.inf:
        value, p, w = _smooth_term(c - upper + max(centre, 0.0) / penalty, dual, penalty, barrier)
    if lower > -np.inf:
        more, q, x = _smooth_term(lower - c + max(-centre, 0.0) / penalty, -dual, penalty, barrier)
        value, p, w = value + more, p - q, w + x
    return value, p, w


@lean_routine
def weigh(c, lower, upper, dual, centre, penalty, barrier, p, w):
    total = 0.0
    for i in range(c.shape[0]):
        value, p[i], w[i] = term(c[i], dual[i], centre[i], penalty, barrier, lower[i], upper[i])
        total += value
    return total


@lean_routine
def sum_of_terms(c, change, lower, upper, centre, penalty, barrier):
    """Sum of the augmented-Lagrangian terms at c + change, or at c where that is None."""
    total = 0.0
    for i in range(c.shape[0]):
        r = c[i] if change is None else c[i] + change[i]
        value, _, _ = term(r, 0.0, centre[i], penalty, barrier, lower[i], upper[i])
        total += value
    return total


@helper
def active_side(z, lower, upper):
    """The active limit at z = c + lam_e / rho: -1 the lower, 1 the upper one or both, 0 none."""
    if z > upper or lower == upper:
        return 1
    return -1 if z < lower else 0


# ------------------------------------------------------------------------------------------------ measures
@lean_routine
def measure(c, lower, upper, D, rounding, lam, central):
    violation, excess, scaled, complementarity, product = 0.0, 0.0, 0.0, 0.0, 0.0
    for i in range(c.shape[0]):
        v = max(lower[i] - c[i], c[i] - upper[i], 0.0)
        scaled = max(scaled, v)
        violation = max(violation, v / D[i])
        if v / D[i] > rounding[i]:
            excess = max(excess, v / D[i])
        if lam[i] != 0.0 and lower[i] != upper[i]:
            slack = abs((upper[i] if lam[i] > 0.0 else lower[i]) - c[i])
            if abs(lam[i]) * slack > central:
                complementarity = max(complementarity, min(abs(lam[i]), slack))
            product = max(product, abs(lam[i]) * slack)
    return violation, excess, scaled, complementarity, product


class Measures(NamedTuple):
    """Measures of rows and multipliers: the largest violation in the user's units, the largest one in excess of
    rounding, the largest one of scaled rows; complementarity, the largest min(|lam|, slack) of inequalities, and their
    largest product of multiplier and slack."""

    violation: float
    excess: float
    scaled: float
    complementarity: float
    product: float


def measures(rows: Rows, c: np.ndarray, lam: np.ndarray, central: float = 0.0) -> Measures:
    """Measures of these values and multipliers (R,); a product of multiplier and slack that is at most `central` is as
    it should be, and does not count as complementarity."""
    return Measures(*measure(c, rows.lower, rows.upper, rows.D, rows.rounding, lam, central))


@lean_routine
def project(lower, upper, lam, result):
    """`projected`, for compiled code."""
    for i in range(lam.shape[0]):
        x = lam[i]
        if x > 0.0 and not abs(upper[i]) < np.inf:
            x = 0.0
        if x < 0.0 and not abs(lower[i]) < np.inf:
            x = 0.0
        result[i] = x


def projected(rows: Rows, lam: np.ndarray) -> np.ndarray:
    """Multipliers (R,) with the signs that their limits allow."""
    result = np.empty_like(lam)
    project(rows.lower, rows.upper, lam, result)
    return result


# --------------------------------------------------------------------------------------------
# Update of the multipliers and of the penalty of the augmented Lagrangian.
#
# A minimum of the quadratic model with penalty rho leaves c + C z = (lam+ - lam_e)/rho of the active rows.  Where the
# model's own optimum leaves most of their violation, the penalty is too small, whatever the units of cost and rows
# [Byrd, Nocedal and Waltz 2008].  The centre of the multipliers moves in every iteration that halves the violation of
# the optimality conditions
#
#     E = max(|grad L(lam)|, violation, min(|lam|, slack))
#
# [Armand and Omheni 2017], so at most log2(E_0 / tolerance) times between minima of the augmented Lagrangian.  At those
# minima it moves too, their tolerance is tightened, and the penalty rises if violation and slackness did not fall
# to a half since the last one.  The penalty falls where constraints are nearly met and steps are short: a large one
# makes a narrow valley along curved rows, which multipliers do not.


LARGEST, FIRST = 1e8, 1e-4
"""Largest penalty and largest multiplier; first penalty; both in units of the cost's largest derivative at the
start."""
LARGEST_PENALTY = 1e4
"""Largest penalty that is taken over from the end of a solve, which may have raised it further, by a warm start and for
deployed gains; in those units."""
PROGRESS = 0.5
"""Largest fraction of a violation, or of the error of the optimality conditions, to which it falls where there is
progress."""
SOFT = 1e-3
"""Factor of the unit of penalties where rows are stiff, scaled by the size of their terms, or where controls do little
to them: the largest penalty leaves 1e-5 of their violation, and a larger one would only make the valley narrower."""
NEARLY_MET = 1e-3
"""Violation of scaled rows with which they are nearly met."""
FIRM = 1e2
"""A firm penalty, in those units, with which steps nearly keep the rows: the largest one to which steps away from
minima raise it; the least one of a single step from a warm start; and the first one of a solve that is tried again."""
LARGE_COST = 1e-3
"""Complementarity is measured relative to this fraction of the cost where that exceeds 1."""
TINY = float(np.finfo(np.float64).tiny)
"""Smallest divisor."""


@lean_routine
def largest_derivative(lx, lu, lxx, luu):
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
    return scale_of(largest_derivative(e.lx, e.lu, e.lxx, e.luu))


@decision
def scale_of(largest):
    """The unit of penalties for this largest derivative."""
    return largest if largest > 0.0 and largest < np.inf else 1.0


def influence(model: LocalModel, rows: Rows) -> np.ndarray:
    """Gradient (N, nu) of the sum of all rows with random signs, with respect to the controls."""
    assert model.rows is not None
    e = model.expansion
    return random_sum_gradient(e.fx, e.fu, rows.first, model.rows.C, np.arange(len(rows)))


@lean_routine
def stiffness(gradient, luu):
    """Sum of C luu^-1 C' over rows, and the typical derivative of rows with respect to controls, from the gradient
    (N, nu) of the sum of all rows with random signs."""
    total, squares, (N, nu) = 0.0, 0.0, gradient.shape
    for t in range(N):
        for i in range(nu):
            square = gradient[t, i] * gradient[t, i]
            squares += square
            total += square / luu[t, i, i]
    return total, math.sqrt(squares / max(N * nu, 1))


@decision
def units_of(scale, total, slope, rows, large):
    """`units`, from a cost's largest derivative and what `stiffness` returns; large: True for rows that are scaled by
    the size of their terms.  A fraction of 1 / S, with S the mean of C luu^-1 C', is that of the penalty with which a
    step of the model halves violations."""
    S = total / max(rows, 1)
    if S > 0.0 and S < np.inf and slope > 0.0 and slope < np.inf and (large or SOFT / S > scale):
        return SOFT / S, slope
    return scale, 1.0


def units(model: LocalModel, rows: Rows) -> tuple[float, float]:
    """Units of penalties, and of slopes of rows (`Multipliers`), such that the largest penalty leaves little of the
    violations, as of a heavy body that is moved by newtons."""
    found = stiffness(influence(model, rows), model.expansion.luu)
    return units_of(penalty_scale(model.expansion), *found, len(rows), rows.large)


@decision
def penalty_of_warm_start(penalty, scale):
    """The penalty of a single step from a warm start with this one: firm, and no larger than that of deployed gains."""
    return max(min(penalty, LARGEST_PENALTY * scale), FIRM * scale)


def first_multipliers(
    model: LocalModel, warm: tuple[np.ndarray, float] | None, rows: Rows, firm: bool = False
) -> Multipliers:
    """Zeros with a small penalty, or the multipliers and the penalty of a warm start.

    A warm start's penalty is at most the bearable one at the start; `firm`: it is at least the one that makes a step
    keep the rows instead, and so is that of zeros."""
    scale, slope = units(model, rows)
    dual, penalty = (np.zeros(len(rows)), 0.0) if warm is None else warm
    dual = projected(rows, dual)
    least = (FIRM if firm else FIRST) * scale
    if warm is not None and firm:
        penalty = penalty_of_warm_start(penalty, scale)
    elif warm is not None:
        assert model.rows is not None
        violation = measures(rows, model.rows.c, dual).scaled
        penalty = min(penalty, LARGEST_PENALTY * scale, bearable(dual, scale, violation))
    return Multipliers(dual, dual, max(penalty, least), scale, slope)


def weighted(rows: Rows, model: LocalModel, multipliers: Multipliers) -> LocalModel:
    """The model, and the cost of its iterate, with these multipliers and this penalty."""
    assert model.rows is not None
    terms, weights = multipliers.weights(rows, model.rows.c)
    iterate = model.iterate._replace(cost=model.iterate.own_cost + terms)
    return model._replace(iterate=iterate, rows=model.rows._replace(weights=weights))


@helper
def largest_of(numbers):
    """Largest absolute value."""
    largest = 0.0
    for i in range(numbers.shape[0]):
        largest = max(largest, abs(numbers[i]))
    return largest


@helper
def guessed_side(c, lam, lower, upper, largest):
    """The limit of a row that its multiplier, of which the largest one is this, says is active, or that is not nearly
    met: -1 the lower, 1 the upper one or both, 0 none.  Within limits, multipliers that are next to nothing, as
    barriers leave them, say nothing."""
    if lower == upper:
        return 1
    if abs(lam) < NEARLY_MET * NEARLY_MET * largest and c > lower + NEARLY_MET and c < upper - NEARLY_MET:
        return 0
    if lam > 0.0 or (lam == 0.0 and c > upper + NEARLY_MET):
        return 1
    return -1 if lam < 0.0 or c < lower - NEARLY_MET else 0


@lean_routine
def weigh_active(c, lower, upper, lam, penalty, p, w):
    """Derivatives of the terms of the rows whose `guessed_side` is a limit."""
    largest = largest_of(lam)
    for i in range(c.shape[0]):
        side = guessed_side(c[i], lam[i], lower[i], upper[i], largest)
        p[i] = w[i] = 0.0
        if side != 0:
            p[i] = lam[i] + penalty * (c[i] - (upper[i] if side > 0 else lower[i]))
            w[i] = penalty


def with_active_set(rows: Rows, model: LocalModel, m: Multipliers) -> LocalModel:
    """The model with the active set of the multipliers' centre, and with what is far from being met."""
    assert model.rows is not None
    p, w = np.empty((2, len(rows)))
    weigh_active(model.rows.c, rows.lower, rows.upper, m.centre, m.penalty, p, w)
    return model._replace(rows=model.rows._replace(weights=Weights(p, w)))


@decision
def gradient_error(gradient_norm, scale, slope, multipliers, rows):
    """The Lagrangian's gradient in its unit, relative to the mean multiplier where that is large; multipliers: sum of
    their absolute values, of so many rows."""
    sd = max(100.0, multipliers / max(rows, 1) / scale) / 100.0
    return gradient_norm / slope / scale / sd


@decision
def optimality_error(gradient, scaled, complementarity, scale):
    """Violation E of the optimality conditions."""
    return max(gradient, scaled, complementarity / min(1.0, scale))


@lean_routine
def sum_of_sizes(numbers):
    """Sum of absolute values."""
    total = 0.0
    for i in range(numbers.shape[0]):
        total += abs(numbers[i])
    return total


def _gradient_error(rows: Rows, model: LocalModel, m: Multipliers) -> float:
    return gradient_error(model.gradient_norm, m.scale, m.slope, sum_of_sizes(m.dual), len(rows))


def advanced(rows: Rows, model: LocalModel, m: Multipliers) -> Multipliers:
    """The multipliers, their centre moved to the dual iterate if that has halved the violation of the optimality
    conditions."""
    assert model.rows is not None
    reached = measures(rows, model.rows.c, m.dual, CENTRAL * m.barrier)
    error = optimality_error(_gradient_error(rows, model, m), reached.scaled, reached.complementarity, m.scale)
    return m if error > PROGRESS * m.error else m._replace(centre=m.dual, error=error)


def worth(model: LocalModel, m: Multipliers) -> float:
    """|p - lam_e|^2 / (2 rho), the gain of the next move of the centre, which bounds the predicted decrease that counts
    as a minimum of the augmented Lagrangian [Rockafellar 1976, criterion B]."""
    assert model.rows is not None and model.rows.weights is not None
    change = model.rows.weights.p - m.centre
    return 0.5 * float(change @ change) / m.penalty


def bearable(multipliers: np.ndarray, scale: float, violation: float) -> float:
    """The penalty with which this violation of scaled rows gives multipliers as large as these (R,), at least one unit.

    A larger one makes a narrow valley of rows that are curved, as they are where a model had to be convexified."""
    return max(float(np.abs(multipliers).max(initial=0.0)), scale) / max(violation, TINY)


def at_minimum(model: LocalModel, m: Multipliers, enough: float, careful: bool) -> Multipliers:
    """The multipliers after a minimum of the augmented Lagrangian within its tolerance; enough: a violation of scaled
    rows that is within the tolerance; careful: True if the model was convexified."""
    assert model.rows is not None and model.rows.weights is not None
    p, limit = model.rows.weights.p, LARGEST * m.scale
    residual = float(np.abs(p - m.centre).max(initial=0.0)) / m.penalty
    slow = residual > max(PROGRESS * m.residual, enough)
    centre, penalty = np.clip(p, -limit, limit), raised(m, FACTOR) if slow else m.penalty
    if careful:
        penalty = min(penalty, max(m.penalty, bearable(p, m.scale, residual)))
    m = m._replace(dual=centre, centre=centre, penalty=penalty, stationary=m.stationary / FACTOR, residual=residual)
    return with_lower_barrier(m)


def relaxed(rows: Rows, c: np.ndarray, m: Multipliers) -> Multipliers:
    """The multipliers with a smaller penalty and the dual iterate as centre, after a short step to c (R,), where rows
    are nearly met; otherwise unchanged."""
    penalty = m.penalty / FACTOR
    if penalty <= m.scale or measures(rows, c, m.dual).scaled >= NEARLY_MET:
        return m
    return m._replace(penalty=penalty, ceiling=penalty, centre=m.dual)


def raised(m: Multipliers, factor: float) -> float:
    """The penalty multiplied by a factor, at most the largest one."""
    return raised_penalty(m.penalty, factor, m.scale)


@decision
def raised_penalty(penalty, factor, scale):
    """`raised`, for compiled code."""
    return min(factor * penalty, LARGEST * scale)


def stepped(rows: Rows, at: RowModel, dx: np.ndarray, du: np.ndarray, m: Multipliers, alpha: float) -> Multipliers:
    """The multipliers after a step of length alpha, given the full step dx (N+1, ndx), du (N, nu) of the linearized
    trajectory."""
    p = m.weights(rows, at.c + change_of_rows(rows.first, at.C, dx, du))[1].p
    limit, dual = LARGEST * m.scale, np.empty(len(p))
    move_dual(rows.lower, rows.upper, m.dual, p, alpha, limit, dual)
    return m._replace(dual=dual)


@lean_routine
def move_dual(lower, upper, lam, p, alpha, limit, result):
    for i in range(lam.shape[0]):
        result[i] = lam[i] + alpha * (p[i] - lam[i])
    project(lower, upper, result, result)
    for i in range(lam.shape[0]):
        result[i] = min(max(result[i], -limit), limit)


@lean_routine
def sum_of_violations(c, lower, upper):
    total = 0.0
    for i in range(c.shape[0]):
        v = max(lower[i] - c[i], c[i] - upper[i])
        if not v <= 0.0:  # NaN too
            total += v
    return total


def total_violation(rows: Rows, c: np.ndarray) -> float:
    """Sum of the violations of scaled rows."""
    return sum_of_violations(c, rows.lower, rows.upper)


# --------------------------------------------------------------------------------------------
# The barrier of a solve whose inequalities are smoothed: it falls as fast as the optimality conditions are met.

FIRST_BARRIER, LEAST_BARRIER = 0.1, 1e-10
"""First and last barrier, in the unit below."""
SHARE = 100.0
"""The unit of barriers is at most this multiple of the cost over the number of inequalities, which the barrier would
hide otherwise, as in gaits, whose cost has large derivatives."""
CENTRAL = 3.0
"""Multiple of the barrier up to which products of multiplier and slack are on the central path."""


def smoothed(rows: Rows, model: LocalModel, m: Multipliers) -> Multipliers:
    """The multipliers with the first barrier; unchanged where there are no inequalities."""
    inequalities = np.count_nonzero(rows.lower != rows.upper)
    if inequalities == 0:
        return m
    unit = min(m.scale, SHARE * (abs(model.iterate.own_cost) or 1.0) / inequalities)
    return m._replace(barrier=FIRST_BARRIER * unit, barrier_unit=unit, error=np.inf)


def with_lower_barrier(m: Multipliers) -> Multipliers:
    """The multipliers with the next barrier; unchanged where there is none."""
    if m.barrier == 0.0:
        return m
    barrier = m.barrier / m.barrier_unit
    return m._replace(barrier=m.barrier_unit * max(min(0.2 * barrier, barrier**1.5), LEAST_BARRIER))


def with_met_barrier(rows: Rows, model: LocalModel, m: Multipliers) -> Multipliers:
    """The multipliers with the first barrier whose optimality conditions are not met yet."""
    assert model.rows is not None
    while m.barrier > LEAST_BARRIER * m.barrier_unit:
        off = _off_central_path(model.rows.c, rows.lower, rows.upper, m.dual, m.barrier) / m.barrier_unit
        error = max(_gradient_error(rows, model, m), measures(rows, model.rows.c, m.dual).scaled, off)
        if error > FARTHEST * m.barrier / m.barrier_unit:
            break
        m = with_lower_barrier(m)
    return m


@lean_routine
def _off_central_path(c, lower, upper, lam, barrier):
    """Largest difference between the barrier and a product of multiplier and slack."""
    largest = 0.0
    for i in range(c.shape[0]):
        if lam[i] != 0.0 and lower[i] != upper[i]:
            slack = abs((upper[i] if lam[i] > 0.0 else lower[i]) - c[i])
            largest = max(largest, abs(abs(lam[i]) * slack - barrier))
    return largest
