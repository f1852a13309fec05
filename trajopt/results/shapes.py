"""Shapes of what a solution is made of, checked as it is made: by a solve, from a file, by `dataclasses.replace`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from trajopt.results.records import ConstraintReport

if TYPE_CHECKING:
    from trajopt.results.solution import Solution


def check_arrays(solution: Solution) -> None:
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
    """A row of each array for each knot, and knots that there are."""
    knots, shape = np.asarray(report.knots), np.shape(report.values)
    if knots.ndim != 1 or (len(knots) and (knots.dtype.kind not in "iu" or knots.min() < 0 or knots.max() > N)):
        raise ValueError(f"{name}.knots: got {report.knots!r}, expected knots from 0 to {N}")
    if len(shape) != 2 or shape[0] != len(knots):
        raise ValueError(f"{name}.values: got shape {shape}, expected a row for each of {len(knots)} knots")
    for field in ("values", "lower", "upper", "multipliers"):
        _check(f"{name}.{field}", getattr(report, field), shape)
    for field, each in ("factors", report.factors), ("rounding", report.rounding):
        if each is not None:
            _check(f"{name}.{field}", each, shape[1:])
