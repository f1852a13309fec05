"""The result of a solve: complete and frozen."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from trajopt.problem import Problem
from trajopt.validation import whole_number

if TYPE_CHECKING:
    from trajopt.policy import Policy


class IterationRecord(NamedTuple):
    """An iterate and the step tried from it.

    Cost and largest gradient entry max |dJ/du| of the iterate; predicted decrease of the full step; what the accepted
    step achieved (0 if none was accepted) and its length alpha (0 if none); the regularization mu; the kind of step,
    "gauss_newton" or "exact"; seconds from the start until the iterate was reached; its largest gap between states and
    dynamics and largest constraint violation; the last knot at which Quu was found not to be positive definite, -1 if
    it always was (mu was raised there, or an exact step replaced by a Gauss-Newton step).
    Under constraints the decreases are those of the augmented Lagrangian.  The last record of a log is the final
    iterate.
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


class Progress(NamedTuple):
    """What a callback is given after each iteration: its record, and the trajectory it led to."""

    record: IterationRecord
    xs: np.ndarray
    us: np.ndarray


def largest_product(values: np.ndarray, lower: np.ndarray, upper: np.ndarray, multipliers: np.ndarray) -> float:
    """Largest product of a multiplier and the distance of a value from the limit that it belongs to."""
    limit = np.where(multipliers > 0.0, upper, lower)
    slack = values - np.where(np.isfinite(limit), limit, values)
    return float(np.abs(multipliers * slack).max(initial=0.0))


class ConstraintReport(NamedTuple):
    """A constraint lower <= r <= upper at the knots it holds at, and its multipliers.

    Arrays (K, nr) but knots (K,), N for the last one; a multiplier is positive where the upper limit presses.  The
    penalty of the augmented Lagrangian is 0 for control limits kept by a box QP.  Components, the numbers of r, have
    names where the residual has.
    """

    name: str
    knots: np.ndarray
    values: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    multipliers: np.ndarray
    penalty: float = 0.0
    components: tuple[str, ...] = ()

    @property
    def violations(self) -> np.ndarray:
        """Distance (K, nr) of r from its limits, 0 within them."""
        return np.abs(self.values - np.clip(self.values, self.lower, self.upper))

    @property
    def violation(self) -> float:
        """The largest violation."""
        return float(self.violations.max(initial=0.0))

    @property
    def worst_knot(self) -> int:
        """The knot of the largest violation."""
        return int(self.knots[np.argmax(self.violations.max(axis=1))])

    @property
    def worst_component(self) -> int:
        """Which of the numbers of r has the largest violation."""
        return int(np.argmax(self.violations.max(axis=0)))

    @property
    def complementarity(self) -> float:
        """Largest product of a multiplier and the distance of r from the limit that it belongs to."""
        return largest_product(self.values, self.lower, self.upper, self.multipliers)

    @property
    def active(self) -> np.ndarray:
        """Where (K, nr) a multiplier is not zero."""
        return self.multipliers != 0.0


class WarmStart(NamedTuple):
    """Where a solve begins: controls us (N, nu), states xs (N+1, nx) or None for a rollout of us, and for every
    constraint of the problem its multipliers (K, nr) and penalty."""

    us: np.ndarray
    xs: np.ndarray | None
    multipliers: tuple[np.ndarray, ...]
    penalties: tuple[float, ...]


@dataclass(frozen=True)
class Solution:
    """Trajectory, policy, value function and history of a solve.

    Attributes
    ----------
    problem : Problem
    xs : (N+1, nx) array
        States of the last good iterate.
    us : (N, nu) array
        Its controls.
    cost : float
        Its cost; inf only if the initial rollout diverged.
    status, message : str
        How the solve ended, as a name (`trajopt.Status`) and as a sentence.
    iterations : int
        Steps tried.
    k, K : (N, nu), (N, nu, ndx) arrays
        Policy u = us + k + K (x - xs) of the last sweep, about xs.
    Vx, Vxx : (N+1, ndx), (N+1, ndx, ndx) arrays
        Gradient and Hessian of its cost-to-go.
    gradient_norm : float
        max |dJ/du| at us, of the Lagrangian under constraints, without entries that a control limit holds; 0 if the
        initial rollout diverged.  Without feedback, so rounding grows in it where the system is unstable; `explain`
        gives it in closed loop too.
    gaps : (N+1, ndx) array
        Tangent vectors from the states to x0 and to what the dynamics make of the state and control before; zero
        unless the solve started from states `xs` and ended before the gaps were closed.
    constraints : tuple of ConstraintReport
        The problem's constraints, in their order, with multipliers.
    cause : str
        Where a number is not finite, if the solve met one at its end: the term or the array, and the knot.
    log : tuple of IterationRecord
    timings : dict
        Wall-clock seconds: total, derivatives, backward_pass, rollouts, other.
    """

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

    def warm_start(self) -> WarmStart:
        """What another solve can start from: controls, multipliers and penalties; states too where gaps are left."""
        return WarmStart(
            self.us,
            None if self.consistent else self.xs,
            tuple(report.multipliers for report in self.constraints),
            tuple(report.penalty for report in self.constraints),
        )

    def shifted(self, steps: int = 1) -> WarmStart:
        """The warm start for the same problem some steps later: everything moves up, the last rows are repeated.

        A constraint at some knots takes the multipliers of the first of them at or after the later time."""
        whole_number("steps", steps, 0)
        start = self.warm_start()

        def later(rows: np.ndarray) -> np.ndarray:
            return rows[np.minimum(np.arange(len(rows)) + steps, len(rows) - 1)]

        multipliers = []
        for report in self.constraints:
            path = report.knots < len(self.us)
            moved = report.multipliers.copy()
            if path.any():
                knots = report.knots[path]
                moved[path] = moved[path][np.searchsorted(knots, knots + steps).clip(max=len(knots) - 1)]
            multipliers.append(moved)
        return start._replace(us=later(start.us), xs=None, multipliers=tuple(multipliers))

    def policy(self, feedback: bool = True) -> "Policy":
        """The trajectory as a controller u = policy(t, x), with its gains or without; see `trajopt.Policy`."""
        from trajopt.policy import policy_of

        return policy_of(self, feedback)

    def explain(self, solver: Any = None) -> str:
        """What happened and what to try next, in plain words; a solver's options make the advice more precise."""
        from trajopt.explanation import explain

        return explain(self, solver)

    def save(self, path: str | Path) -> Path:
        """Write everything but the problem to exactly this path, as .npz without pickle, for `Solution.load`."""
        from trajopt.results_files import save_solution

        return save_solution(self, path)

    @staticmethod
    def load(path: str | Path, problem: Problem | None = None) -> "Solution":
        """Read what `save` wrote.  The solution has this problem, checked against it, or None.

        Raises ValueError for a file that is damaged, not of this kind, or of another problem.
        """
        from trajopt.results_files import load_solution

        return load_solution(path, problem)

    def history(self, name: str) -> np.ndarray:
        """One column of the log as an array, e.g. ``history("gradient_norm")``."""
        if name not in IterationRecord._fields:
            raise ValueError(f"name: got {name!r}, wanted one of {', '.join(IterationRecord._fields)}")
        return np.array([getattr(record, name) for record in self.log])
