"""The result of a solve: complete and frozen."""

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from trajopt.problem import Problem


class IterationRecord(NamedTuple):
    """An iterate and the step tried from it.

    Cost and largest gradient entry max |dJ/du| of the iterate; predicted decrease of the full step; what the accepted
    step achieved (0 if none was accepted) and its length alpha (0 if none); the regularization mu; the kind of step,
    "gauss_newton" or "exact"; seconds from the start until
    the iterate was reached.  The last record of a log is the final iterate.
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


class Progress(NamedTuple):
    """What a callback is given after each iteration: its record, and the trajectory it led to."""

    record: IterationRecord
    xs: np.ndarray
    us: np.ndarray


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
        max |dJ/du| at us; 0 if the initial rollout diverged.
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

    @property
    def converged(self) -> bool:
        """True if the status is "converged"."""
        return self.status == "converged"

    def history(self, name: str) -> np.ndarray:
        """One column of the log as an array, e.g. ``history("gradient_norm")``."""
        if name not in IterationRecord._fields:
            raise ValueError(f"name: got {name!r}, wanted one of {', '.join(IterationRecord._fields)}")
        return np.array([getattr(record, name) for record in self.log])
