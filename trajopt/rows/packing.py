"""Packing of constraints into rows: the knots at which they hold, and the rows that are single components of a state or
control."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from trajopt.capabilities import capability
from trajopt.interfaces.residual import SingleComponents, at_knots
from trajopt.problem.constraints import ResidualConstraint
from trajopt.problem.problem import Problem
from trajopt.rows.rows import Block, Rows, Singles


class _Block(NamedTuple):
    """A constraint at knots where it is evaluated in one call, the number of rows before its own at these knots, and
    its limits."""

    constraint: ResidualConstraint
    number: int
    knots: np.ndarray
    of_states: bool
    before: np.ndarray
    limits: list[np.ndarray]


def pack(problem: Problem, constraints: tuple[ResidualConstraint, ...]) -> Rows:
    """The rows of these constraints, unscaled."""
    N, nx, ndx, nu = problem.horizon, problem.system.nx, problem.system.ndx, problem.system.nu
    first, parts, counts = np.zeros(N + 2, dtype=np.intp), [], np.zeros(N + 1, dtype=np.intp)
    for number, constraint in enumerate(constraints):
        of_states = constraint.at == "terminal" or _state_only(constraint, problem)
        knots = constraint.knots(N, constraint.at != "terminal" and of_states)
        for some in (knots,) if of_states else (knots[knots < N], knots[knots == N]):
            if len(some):
                limits = [rows[np.isin(knots, some)] for rows in constraint.limits(knots)]
                parts.append(_Block(constraint, number, some, of_states or some[0] == N, counts[some].copy(), limits))
                counts[some] += constraint.nr
    first[1:] = np.cumsum(counts)
    R, blocks, singles = first[-1], [], []
    lower, upper, component = np.empty(R), np.empty(R), np.empty(R, dtype=np.intp)
    components_before = np.cumsum([0, *(constraint.nr for constraint in constraints)])
    for part in parts:
        constraint = part.constraint
        rows = (first[part.knots] + part.before)[:, None] + np.arange(constraint.nr)
        single = _singles(part, rows, nx, nu)
        if single is not None:
            singles.append(single)
        residual = at_knots(constraint.residual, part.knots)
        blocks.append(Block(constraint, residual, part.number, part.knots, part.of_states, rows, single is not None))
        lower[rows], upper[rows] = part.limits
        component[rows] = components_before[part.number] + np.arange(constraint.nr)
    order = np.concatenate([np.zeros(0, dtype=np.intp), *(block.rows.ravel() for block in blocks)])
    none = Singles(*(np.zeros(0, dtype) for dtype in (np.intp, np.intp, np.intp, np.float64)))
    columns = zip(none, *singles, strict=True)
    return Rows(
        constraints, tuple(blocks), Singles(*map(np.concatenate, columns)), order, component, first, lower, upper,
        np.ones(R), (nx, ndx, nu), np.zeros(R),
    )  # fmt: skip


def _singles(part: _Block, rows: np.ndarray, nx: int, nu: int) -> Singles | None:
    """The rows (K, nr) as single components of states or controls if they are that, else None."""
    found = capability(part.constraint.residual, SingleComponents).components_read()
    if found is None or (part.of_states and found.of_controls):
        return None
    indices, reference, width = found.indices, found.reference, nu if found.of_controls else nx
    if found.width != width or len(indices) != part.constraint.nr:
        return None
    K = len(part.knots)
    return Singles(
        rows.ravel(), np.repeat(part.knots, len(indices)), np.tile(indices + nx * found.of_controls, K),
        np.tile(reference, K),
    )  # fmt: skip


def _state_only(constraint: ResidualConstraint, problem: Problem) -> bool:
    """True if the residual has no derivative in the controls."""
    residual = at_knots(constraint.residual, np.zeros(1, dtype=np.intp))
    _, ru = residual.jacobians(problem.x0[None], problem.us_init[:1])
    return ru is None
