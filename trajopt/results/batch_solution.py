"""The results of many solves of one problem, as arrays."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dynamics.printed import in_brief
from dynamics.validation import as_whole_number
from trajopt.problem.problem import Problem
from trajopt.results.records import Status
from trajopt.results.solution import Solution


@dataclass(frozen=True, eq=False)
class BatchSolution:
    """What `trajopt.PreparedSolver.solve_batch` returns: arrays whose first axis is that of the initial states.

    Attributes
    ----------
    xs : (B, N+1, nx) array
        States; NaN where a solve was interrupted.
    us : (B, N, nu) array
        Controls; NaN where a solve was interrupted.
    cost : (B,) array
        As `Solution.cost`.
    status : (B,) array of str
        How each solve ended, a `trajopt.Status`; "interrupted" for those that Ctrl-C has left.
    iterations : (B,) array of int
        Steps tried.
    violation : (B,) array
        Largest violation of a constraint, in its own unit.
    k, K : (B, N, nu), (B, N, nu, ndx) arrays, or None
        Policies u = us + k + K (x - xs), if asked for.
    """

    xs: np.ndarray = field(repr=False)
    us: np.ndarray = field(repr=False)
    cost: np.ndarray = field(repr=False)
    status: np.ndarray = field(repr=False)
    iterations: np.ndarray = field(repr=False)
    violation: np.ndarray = field(repr=False)
    k: np.ndarray | None = field(repr=False)
    K: np.ndarray | None = field(repr=False)
    _solver: Any = field(repr=False)
    _problem_of: Callable[[int], Problem] = field(repr=False)

    def __repr__(self) -> str:
        return in_brief(self, "xs", "us", solves=len(self), success_rate=self.success_rate)

    def __len__(self) -> int:
        return len(self.cost)

    @property
    def converged(self) -> np.ndarray:
        """True (B,) where a solve converged."""
        return self.status == str(Status.CONVERGED)

    @property
    def success_rate(self) -> float:
        """Fraction of the solves that converged, 0 to 1."""
        return float(self.converged.mean())

    def solution(self, index: int) -> Solution:
        """The whole `Solution` with this index, of the same bits, which is solved again for it."""
        index = as_whole_number("index", index, 0)
        if index >= len(self):
            raise ValueError(f"index: got {index}, expected one of {len(self)} solves")
        return self._solver.solve(self._problem_of(index))
