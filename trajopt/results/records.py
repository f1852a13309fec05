"""Statuses of a solve.  Every end has a name and a sentence; none is an exception."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple, Self, TypeVar

import numpy as np

from dynamics.printed import in_brief
from dynamics.validation import as_choice
from trajopt.interfaces.system import knot_times
from trajopt.problem.problem import Problem


class Status(StrEnum):
    """Status at the end of a solve; compares equal to its string."""

    CONVERGED = "converged"
    MAX_ITERATIONS = "max_iterations"
    LINE_SEARCH_FAILED = "line_search_failed"
    NOT_POSITIVE_DEFINITE = "not_positive_definite"
    INVALID_DERIVATIVES = "invalid_derivatives"
    NOT_FINITE = "not_finite"
    DIVERGED = "diverged"
    STOPPED_BY_CALLBACK = "stopped_by_callback"
    INTERRUPTED = "interrupted"
    TIME_LIMIT = "time_limit"
    INFEASIBLE = "infeasible"

    @property
    def message(self) -> str:
        """One sentence that explains the status."""
        return _MESSAGES[self]


_MESSAGES = {
    Status.CONVERGED: "The predicted decrease of the cost is within the tolerance, or too small to show in the cost.",
    Status.MAX_ITERATIONS: "The limit of iterations was reached before the predicted decrease and the violation of "
    "constraints fell below their tolerances.",
    Status.LINE_SEARCH_FAILED: "No step length lowers the cost, even with the largest regularization: "
    "what is left to gain is rounding, or functions change too abruptly there; explain() says what fits.",
    Status.NOT_POSITIVE_DEFINITE: "Quu is not positive definite even with the largest regularization.",
    Status.INVALID_DERIVATIVES: "The derivatives of the dynamics or of a cost are not finite at the last iterate.",
    Status.NOT_FINITE: "Every step from the last iterate, however short, leads to a state, a cost or a constraint that "
    "is not finite.",
    Status.DIVERGED: "The initial controls drive the state, the cost or a constraint to infinity; start from other "
    "controls. The states returned are the initial state, repeated.",
    Status.STOPPED_BY_CALLBACK: "The callback asked to stop.",
    Status.INTERRUPTED: "The solve was interrupted; this is the best iterate until then.",
    Status.TIME_LIMIT: "The time limit was reached; this is the best iterate until then.",
    Status.INFEASIBLE: "The constraints are locally infeasible: near this trajectory no small change of the controls "
    "lowers their violation. From another start they may be met.",
}


# --------------------------------------------------------------------------------------------
# Parts of a solution besides its arrays: iterations, constraints, and warm starts.

GIVEN, WARM, HELD, MIDDLE, STILL, EXAMPLE = "given", "warm", "held", "middle", "quasi_static", "example"
ZEROS = "zeros"
"""Start of a solve: the arguments' or the problem's own; a warm start; the initial state at every knot; the middle of
limits; controls that hold the initial state; those of a function's example; controls of zero in place of those given.
"""


class IterationRecord(NamedTuple):
    """An iterate and the step tried from it.

    Cost and largest gradient entry max |dJ/du| of the iterate; predicted decrease of the full step; actual decrease of
    the accepted step (0 if none was accepted) and its length alpha (0 if none); the regularization mu; the kind of
    step, "gauss_newton", "exact", or "convexified", exact without the negative part of an indefinite Hessian; seconds
    from the start until the iterate was reached; its largest gap between states and dynamics and largest constraint
    violation; the last knot at which Quu was found not to be positive definite, -1 if it always was (mu was raised
    there, or an exact step replaced by one of another kind).  Under constraints the decreases are those of the
    augmented Lagrangian.  Steps of two more kinds are recorded: "feasibility", of a search for trajectories with less
    violation, whose decreases are those of half the sum of squares of scaled violations, and which the solve goes on
    from only if it finds one; and "escape", away from a saddle, whose predicted decrease is zero.  Under constraints a
    solve may take turns with a second one from the same start (`trajopt.solvers.solve`).  The last record of a
    log is the final iterate, one more than there are steps; after ``max_iterations=1``, and where the time or an
    interruption ended the solve, it repeats the predicted decrease of the step to it.
    """

    iteration: int
    cost: float
    predicted_decrease: float
    actual_decrease: float
    gradient_norm: float
    alpha: float
    mu: float
    step: str
    time: float
    gap: float = 0.0
    violation: float = 0.0
    indefinite_knot: int = -1

    @property
    def descends(self) -> bool:
        """True if the step is along a direction of the solver: no search for feasibility, no escape."""
        return self.step not in ("feasibility", "escape")


class Progress(NamedTuple):
    """Argument of a callback after each iteration: its record, and the trajectory it led to.

    xs (N+1, nx) and us (N, nu) are read-only copies: they may be kept, and a callback cannot change the solve by them.
    """

    record: IterationRecord
    xs: np.ndarray
    us: np.ndarray

    @classmethod
    def of(cls, record: IterationRecord, xs: np.ndarray, us: np.ndarray) -> Self:
        """The progress with copies of these arrays."""
        copies = xs.copy(), us.copy()
        for array in copies:
            array.flags.writeable = False
        return cls(record, *copies)

    def __repr__(self) -> str:
        return in_brief(self, iteration=self.record.iteration, cost=self.record.cost)


def largest_product(values: np.ndarray, lower: np.ndarray, upper: np.ndarray, multipliers: np.ndarray) -> float:
    """Largest product of a multiplier and the distance of a value from the limit that it belongs to."""
    limit = np.where(multipliers > 0.0, upper, lower)
    slack = values - np.where(np.isfinite(limit), limit, values)
    return float(np.abs(multipliers * slack).max(initial=0.0))


class ConstraintReport(NamedTuple):
    """A constraint lower <= r <= upper at the knots it holds at, and its multipliers.

    Arrays have the shape (K, nr), knots (K,), with N for the last one; a solve's reports share knots, limits, factors
    and rounding with those of other solves, so that these are read-only.  A multiplier is positive where the upper
    limit is active.  The penalty of the augmented Lagrangian is 0 for control limits kept by a box QP; otherwise it
    multiplies the squares of factors (nr,) times r, and all rows share it.  Components, the entries of r, have names
    where the residual has. Rounding (nr,) is the accuracy of r, which may be computed from large numbers; violations
    below it count as none. Where constraints are locally infeasible, weights are the nu for which no small change of
    the controls lowers the sum of nu r over all constraints; else None.
    """

    name: str
    knots: np.ndarray
    values: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    multipliers: np.ndarray
    penalty: float = 0.0
    components: tuple[str, ...] = ()
    factors: np.ndarray | None = None
    weights: np.ndarray | None = None
    rounding: np.ndarray | None = None

    def __repr__(self) -> str:
        active, rows = int(self.active.sum()), self.values.size
        return in_brief(self, "knots", name=self.name, violation=self.violation, active=active, rows=rows)

    @property
    def violations(self) -> np.ndarray:
        """Distance (K, nr) of r from its limits, 0 within them."""
        return np.abs(self.values - np.clip(self.values, self.lower, self.upper))

    @property
    def violation(self) -> float:
        """The largest violation."""
        return float(self.violations.max(initial=0.0))

    @property
    def excess(self) -> float:
        """The largest violation among those that exceed rounding."""
        found = self.violations
        return float((found if self.rounding is None else np.where(found > self.rounding, found, 0.0)).max(initial=0.0))

    @property
    def worst_knot(self) -> int:
        """The knot of the largest violation."""
        return int(self.knots[np.argmax(self.violations.max(axis=1))])

    @property
    def worst_component(self) -> int:
        """Index of the entry of r with the largest violation."""
        return int(np.argmax(self.violations.max(axis=0)))

    @property
    def complementarity(self) -> float:
        """Largest product of a multiplier and the distance of r from the limit that it belongs to."""
        return largest_product(self.values, self.lower, self.upper, self.multipliers)

    @property
    def active(self) -> np.ndarray:
        """True for entries (K, nr) whose multiplier is not zero."""
        return self.multipliers != 0.0


class WarmStart(NamedTuple):
    """Start of a solve.

    us : (N, nu) array
        Controls.
    xs : (N+1, nx) array or None
        States, which need not follow from the controls; None for a rollout of us.
    constraints : tuple of ConstraintReport
        Multipliers, penalties and factors of constraints.  They go to the problem's constraints of the same names and
        numbers of rows, knot by knot, whatever their order.
    predicted : float
        Predicted decrease of the last sweep.
    costate : (N+1, ndx) array or None
        Gradient of the cost-to-go along the states: the multiplier of the dynamics' curvature in a single exact step.
    K : (N, nu, ndx) array or None
        Gains about the states.  Where these have gaps, a rollout with the gains is tried.
    gradient_norm : float
        Largest gradient entry of the Lagrangian where a solve has converged; elsewhere 0.  A solve whose start has no
        larger one, and is feasible, ends there.
    """

    us: np.ndarray
    xs: np.ndarray | None = None
    constraints: tuple[ConstraintReport, ...] = ()
    predicted: float = np.inf
    costate: np.ndarray | None = None
    K: np.ndarray | None = None
    gradient_norm: float = 0.0

    def __repr__(self) -> str:
        return in_brief(self)


# --------------------------------------------------------------------------------------------
# The numbers of a solution.  Their shapes are checked as it is made: by a solve, from a file, by `dataclasses.replace`.


@dataclass(frozen=True, repr=False)
class SolutionData:
    """The fields of `trajopt.Solution`, with what follows from them alone."""

    problem: Problem = field(repr=False)
    xs: np.ndarray = field(repr=False)
    us: np.ndarray = field(repr=False)
    cost: float
    status: str
    message: str
    iterations: int
    k: np.ndarray = field(repr=False)
    K: np.ndarray = field(repr=False)
    Vx: np.ndarray = field(repr=False)
    Vxx: np.ndarray = field(repr=False)
    gradient_norm: float
    log: tuple[IterationRecord, ...] = field(repr=False)
    timings: dict[str, float] = field(repr=False)
    gaps: np.ndarray = field(repr=False)
    constraints: tuple[ConstraintReport, ...] = field(default=(), repr=False)
    cause: str = ""
    start: str = GIVEN
    not_taken_over: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Raises ValueError for arrays whose shapes do not fit each other, or the problem: kernels rely on them."""
        check_arrays(self)

    @classmethod
    def unchecked(cls, **fields: Any) -> Self:
        """A solution of these fields, of which those without a default are given, and whose shapes are known to fit."""
        made = object.__new__(cls)
        vars(made).update(fields)
        return made

    @property
    def times(self) -> np.ndarray:
        """Times (N+1,) of the knots, s, with the durations found where these are free."""
        return knot_times(self.problem.system, len(self.us), self.xs)

    @property
    def converged(self) -> bool:
        """True if the status is "converged"."""
        return self.status == "converged"

    @property
    def largest_gap(self) -> float:
        """Largest entry of the gaps; 0 if the states are a rollout of the controls."""
        return float(np.abs(self.gaps).max(initial=0.0))

    @property
    def consistent(self) -> bool:
        """True if the states follow from the controls: no gap exceeds 1e-9."""
        return self.largest_gap <= 1e-9

    @property
    def violation(self) -> float:
        """Largest constraint violation."""
        return max((report.violation for report in self.constraints), default=0.0)

    def history(self, name: str) -> np.ndarray:
        """One column of the log as an array, e.g. ``history("gradient_norm")``."""
        as_choice("name", name, IterationRecord._fields)
        return np.array([getattr(record, name) for record in self.log])


AnySolution = TypeVar("AnySolution", bound=SolutionData)
"""A solution, or the class derived from it that a function is given and returns."""


def check_arrays(solution: SolutionData) -> None:
    """Raise ValueError, naming the field, unless the arrays of a solution are numbers of shapes that fit each other and
    its problem, if it has one."""
    xs, us, Vx, problem = solution.xs, solution.us, solution.Vx, solution.problem
    if problem is None:
        for name, array in ("us", us), ("xs", xs), ("Vx", Vx):
            if not isinstance(array, np.ndarray) or array.ndim != 2:
                raise ValueError(f"{name}: got {type(array).__name__}, expected an array with two axes")
        N, nu, nx, n = len(us), us.shape[1], xs.shape[1], Vx.shape[1]
    else:
        system = problem.system
        N, nu, nx, n = problem.horizon, system.nu, system.nx, system.ndx
    for name, array, shape in (
        ("us", us, (N, nu)),
        ("xs", xs, (N + 1, nx)),
        ("k", solution.k, (N, nu)),
        ("K", solution.K, (N, nu, n)),
        ("Vx", Vx, (N + 1, n)),
        ("Vxx", solution.Vxx, (N + 1, n, n)),
        ("gaps", solution.gaps, (N + 1, n)),
    ):
        _check(name, array, shape)
    for i, report in enumerate(solution.constraints):
        _check_report(f"constraints[{i}]", report, N)


def _check(name: str, array: np.ndarray, shape: tuple[int, ...]) -> None:
    if not isinstance(array, np.ndarray):
        raise ValueError(f"{name}: got {type(array).__name__}, expected an array of shape {shape}")
    if array.shape != shape:
        raise ValueError(f"{name}: got shape {array.shape}, expected {shape}")
    if array.dtype != np.float64:
        raise ValueError(f"{name}: got numbers of {array.dtype}, expected float64")


def _check_report(name: str, report: ConstraintReport, N: int) -> None:
    """Check that each array has a row for each knot, and that the knots exist."""
    knots, shape = np.asarray(report.knots), np.shape(report.values)
    if knots.ndim != 1 or (len(knots) and (knots.dtype.kind not in "iu" or knots.min() < 0 or knots.max() > N)):
        raise ValueError(f"{name}.knots: got {report.knots!r}, expected knots from 0 to {N}")
    if len(shape) != 2 or shape[0] != len(knots):
        raise ValueError(f"{name}.values: got shape {shape}, expected a row for each of {len(knots)} knots")
    for which in ("values", "lower", "upper", "multipliers"):
        _check(f"{name}.{which}", getattr(report, which), shape)
    for which, each, rows in (
        ("factors", report.factors, shape[1:]),
        ("rounding", report.rounding, shape[1:]),
        ("weights", report.weights, shape),
    ):
        if each is not None:
            _check(f"{name}.{which}", each, rows)
    if len(report.components) not in (0, shape[1]):
        raise ValueError(f"{name}.components: got {len(report.components)} names, expected {shape[1]}")


class Hold(NamedTuple):
    """Control after the end of a plan: u = u_h + K_h difference(x_h, x); x (nx,), u (nu,), K (nu, ndx)."""

    x: np.ndarray
    u: np.ndarray
    K: np.ndarray

    def __repr__(self) -> str:
        return in_brief(self)
