"""The results of many solves of one problem, as arrays, and as .npz files of these."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, NoReturn

import numpy as np

from dynamics.printed import in_brief
from dynamics.validation import as_array, as_whole_number
from trajopt.problem.problem import Problem
from trajopt.results.archives import archive_of
from trajopt.results.records import Status
from trajopt.results.results_files import checked_file, packed, save_bytes, unpacked
from trajopt.results.solution import Solution

FORMAT, VERSION = "trajopt.BatchSolution", 1
POLICIES = "k", "K"


@dataclass(frozen=True, eq=False)
class BatchSolution:
    """What `trajopt.PreparedSolver.solve_batch` returns: arrays whose first axis is that of the initial states.

    Attributes
    ----------
    x0s : (B, nx) array
        Initial states.
    xs : (B, N+1, nx) array
        States; NaN where a solve was interrupted.
    us : (B, N, nu) array
        Controls; NaN where a solve was interrupted.
    cost : (B,) array
        As `Solution.cost`; inf where a solve was interrupted.
    status : (B,) array of str
        How each solve ended, a `trajopt.Status`; "interrupted" for those that Ctrl-C has left.
    iterations : (B,) array of int
        Steps tried.
    violation : (B,) array
        Largest violation of a constraint, in its own unit; inf where a solve was interrupted.
    k, K : (B, N, nu), (B, N, nu, ndx) arrays, or None
        Policies u = us + k + K (x - xs), if asked for.
    parameters : mapping, list or array, or None
        Those of each solve, as they were given to `solve_batch`.

    Notes
    -----
    Pickles and files hold all of these, but neither the problem nor the solver, so that what is read from them has no
    `solution`.
    """

    x0s: np.ndarray = field(repr=False)
    xs: np.ndarray = field(repr=False)
    us: np.ndarray = field(repr=False)
    cost: np.ndarray = field(repr=False)
    status: np.ndarray = field(repr=False)
    iterations: np.ndarray = field(repr=False)
    violation: np.ndarray = field(repr=False)
    k: np.ndarray | None = field(default=None, repr=False)
    K: np.ndarray | None = field(default=None, repr=False)
    parameters: Any = field(default=None, repr=False)
    _solver: Any = field(default=None, repr=False)
    _problem_of: Callable[[int], Problem] | None = field(default=None, repr=False)

    def __repr__(self) -> str:
        return in_brief(self, "xs", "us", solves=len(self), success_rate=self.success_rate)

    def __len__(self) -> int:
        return len(self.cost)

    def __getitem__(self, index: Any) -> NoReturn:
        raise TypeError(
            f"batch: got the index {index!r}, expected that of one of its arrays, such as batch.us[{index!r}], or "
            "batch.solution(index), which solves again for a whole Solution"
        )

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_solver": None, "_problem_of": None}

    @property
    def converged(self) -> np.ndarray:
        """True (B,) where a solve converged."""
        return self.status == str(Status.CONVERGED)

    @property
    def success_rate(self) -> float:
        """Fraction of the solves that converged, 0 to 1."""
        return float(self.converged.mean())

    def solution(self, index: int) -> Solution:
        """The whole `Solution` with this index, of the same bits, which is solved again for it.

        Raises TypeError or ValueError for another index, and ValueError for a batch that was read from a file or a
        pickle."""
        index = as_whole_number("index", index, 0)
        if index >= len(self):
            raise ValueError(f"index: got {index}, expected one of {len(self)} solves")
        if self._problem_of is None:
            raise ValueError(
                "solution: got a batch from a file or a pickle, which has no problem to solve again; expected "
                "prepared.solve(batch.x0s[index]), after prepared.update if there were parameters"
            )
        return self._solver.solve(self._problem_of(index))

    # -------------------------------------------------------------------------------------------- files
    def save(self, path: str | os.PathLike) -> Path:
        """Write the arrays to exactly this path, as .npz without pickle, for `BatchSolution.load`; folders are made as
        needed.

        The file appears complete or not at all.

        Raises
        ------
        TypeError
            For parameters other than numbers, text, arrays, and mappings, tuples and lists of these, which
            ``dataclasses.replace(batch, parameters=None)`` leaves out.
        """
        arrays = {"format": np.array(FORMAT), "format_version": np.array(VERSION)}
        arrays |= {name: getattr(self, name) for name in (*_KINDS, *POLICIES) if getattr(self, name) is not None}
        arrays["layout"] = np.array(json.dumps(packed("parameters", self.parameters, arrays)))
        return save_bytes(archive_of(arrays), path)

    @classmethod
    def load(cls, source: str | os.PathLike | IO[bytes]) -> BatchSolution:
        """Read what `save` wrote, without the problem.

        Raises
        ------
        FileNotFoundError
        ValueError
            The file is not one of `save`, is cut short or damaged, or was made by a newer version.
        """
        name, arrays = checked_file(source, FORMAT, VERSION, "batch")
        try:
            return cls._of_arrays(arrays)
        except (LookupError, ValueError, TypeError, RecursionError) as error:
            raise ValueError(f"{name}: got a batch file that is damaged ({error})") from error

    @classmethod
    def _of_arrays(cls, arrays: dict[str, np.ndarray]) -> BatchSolution:
        (B, N, nu), nx = arrays["us"].shape, arrays["xs"].shape[-1]
        if not B:
            raise ValueError("us: got no solves")
        shapes = {"x0s": (B, nx), "xs": (B, N + 1, nx), "us": (B, N, nu)}
        for key, kind in _KINDS.items():
            if arrays[key].dtype.kind != kind or arrays[key].shape != shapes.get(key, (B,)):
                raise ValueError(f"{key}: got {arrays[key].shape} of {arrays[key].dtype}")
        unknown = set(arrays["status"].tolist()) - set(map(str, Status))
        if unknown:
            raise ValueError(f"status: got {', '.join(sorted(unknown))}")
        values: dict[str, Any] = {key: arrays[key] for key in _KINDS}
        if any(key in arrays for key in POLICIES):
            K = arrays["K"]
            for key, shape in ("k", (B, N, nu)), ("K", (B, N, nu, K.shape[-1])):
                values[key] = as_array(key, arrays[key], shape, finite=False)
        return cls(**values, parameters=unpacked("parameters", json.loads(str(arrays["layout"])), arrays))


_KINDS = {"x0s": "f", "xs": "f", "us": "f", "cost": "f", "status": "U", "iterations": "i", "violation": "f"}
"""Arrays of every batch, and the kinds of their numbers."""
