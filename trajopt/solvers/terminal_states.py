"""Terminal states that meet the constraints of the last knot, from random ones: where a local search has failed.

A robot asked for a pose of its tool can arrive there in many postures, and a local search ends in front of joint limits
or at a singular posture on the way to one of them, although others are free.  States are found without trajectories:
from many at once, damped Gauss-Newton steps on the rows of the last knot,

    dx = -J'(J J' + zeta I)^-1 v      v = c - clip(c, lower, upper), J its Jacobian in tangent coordinates

with a zeta for each.  Where all of them end with a violation, rows of the last knot contradict each other, as a goal
does that lies within an obstacle, as far as random states show: whatever leads there, no trajectory meets them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from trajopt.backward.box_qp import HALF_PRECISION
from trajopt.backward.regularization import ATTEMPTS, FACTOR, LONGEST
from trajopt.costs.cost_of_residual import linearized
from trajopt.interfaces.residual import at_knots
from trajopt.interfaces.system import System
from trajopt.problem.problem import Problem
from trajopt.rows import Rows
from trajopt.solvers.iteration import IDLE

RANDOM = 64
"""Number of random states at a time."""
SPREAD = np.pi
"""Largest distance of a random state, in each coordinate of the tangent: half a turn of a joint, or where the
trajectory goes further, as far as that."""
FIRST_ZETA = 1e-4
"""First damping of least squares, relative to weights of 1."""
SAME = 1e-3
"""Relative difference of squared violations below which a step is idle and two minima are the same; and distance below
which two states are the same."""
STATIONARY = 1e-7
"""Bound on the largest entry of J'v at a state of least violation, relative to that of v."""
DIFFERENCE = float(np.cbrt(np.finfo(np.float64).eps))
"""Step of central differences of J'v, in coordinates of the tangent."""

Violations = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]
"""v (K, r) and J (K, r, ndx) at states (K, nx)."""


def violations_at_end(problem: Problem, rows: Rows) -> tuple[Violations, np.ndarray] | None:
    """Violations of the scaled rows of the last knot, functions of the state alone, and which of them are equalities
    (r,); None if there are none."""
    N, parts = problem.horizon, []
    for block in rows.blocks:
        if block.of_states and block.knots[-1] == N:
            at = block.rows[-1]
            parts.append((block.constraint.residual, rows.D[at], rows.lower[at], rows.upper[at]))
    if not parts:
        return None

    def violations(xs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        found = []
        for residual, D, lower, upper in parts:
            r, rx, _ = linearized(at_knots(residual, np.full(len(xs), N)), len(D), xs, None)
            v = D * r - np.clip(D * r, lower, upper)
            J = np.zeros((*v.shape, problem.system.ndx)) if rx is None else D[:, None] * rx
            found.append((v, np.where(((v != 0.0) | (lower == upper))[..., None], J, 0.0)))
        v, J = (np.concatenate(arrays, axis=1) for arrays in zip(*found, strict=True))
        return v, J

    return violations, np.concatenate([lower == upper for *_, lower, upper in parts])


class TerminalStates(NamedTuple):
    """What random states and the last one of a trajectory tell of the rows of the last knot.

    met: states (nx,) that meet these rows, those next to the trajectory's first one in front; beside: the indices of
    those among them that neither lie on a continuum of others nor are where the last state itself leads; nearest: where
    none meets the rows, the state of least violation, if that is a minimum, else None
    """

    met: list[np.ndarray]
    beside: list[int]
    nearest: np.ndarray | None


def terminal_states(problem: Problem, rows: Rows, xs: np.ndarray) -> TerminalStates:
    """Terminal states found from random ones around the first and the last one of the states xs (N+1, nx), and from the
    last one itself; none if the last knot has no rows."""
    known, system = violations_at_end(problem, rows), problem.system
    if known is None:
        return TerminalStates([], [], None)
    violations, equal = known
    with np.errstate(all="ignore"):
        moved = np.abs(system.difference(np.repeat(xs[:1], len(xs), axis=0), xs)).max(axis=0)
        start, rng = np.repeat(xs[[0, -1]], RANDOM // 2, axis=0), np.random.default_rng(0)
        own, least, nearest = _led(violations, system.integrate, xs[-1:]), np.inf, None
        for _ in range(ATTEMPTS):
            spread = np.maximum(SPREAD, moved) * rng.uniform(-1.0, 1.0, (RANDOM, system.ndx))
            found = _led(violations, system.integrate, system.integrate(start, spread))
            if found.met.any() or own.met.any():
                break
            F = (found.v**2).sum(axis=1)
            if F.min() < least:
                least, nearest = F.min(), found.xs[F.argmin()]
            if F.max() <= (1.0 + SAME) * least:
                break
        if not (found.met.any() or own.met.any()):
            return TerminalStates([], [], None if nearest is None else _nearest(violations, system, nearest))
        ends, J = (np.concatenate([getattr(part, name)[part.met] for part in (own, found)]) for name in ("xs", "J"))
        enough = np.count_nonzero(equal) >= system.ndx
        isolated = np.linalg.matrix_rank(J[:, equal]) == system.ndx if enough else np.zeros(len(ends), bool)
        far = np.linalg.norm(system.difference(np.repeat(xs[:1], len(ends), axis=0), ends), axis=1)

        def same(x: np.ndarray, other: np.ndarray) -> bool:
            return bool(np.abs(system.difference(other[None], x[None])).max() <= SAME)

        met: list[np.ndarray] = []
        beside: list[int] = []
        for i in np.argsort(far):
            if any(same(ends[i], other) for other in met):
                continue
            if not own.met[0] or (isolated[i] and not same(ends[i], own.xs[0])):
                beside.append(len(met))
            met.append(ends[i])
        return TerminalStates(met, beside, None)


class _Led(NamedTuple):
    """Where steps lead: states (K, nx), v (K, r), J (K, r, ndx), and True (K,) where the rows are met."""

    xs: np.ndarray
    v: np.ndarray
    J: np.ndarray
    met: np.ndarray


def _led(violations: Violations, integrate: Callable[..., np.ndarray], xs: np.ndarray) -> _Led:
    """The states that the steps lead to from xs (K, nx)."""
    (v, J), zeta, idle = violations(xs), np.full(len(xs), FIRST_ZETA), np.zeros(len(xs), int)
    F = (v**2).sum(axis=1)
    for _ in range(LONGEST):
        S = J @ J.transpose(0, 2, 1) + zeta[:, None, None] * np.eye(v.shape[1])
        if not np.isfinite(S).all():
            break
        dx = -(J.transpose(0, 2, 1) @ np.linalg.solve(S, v[..., None]))[..., 0]
        trial = np.asarray(integrate(xs, dx))
        w, K = violations(trial)
        G = (w**2).sum(axis=1)
        lower = G < F
        idle = np.where(lower & (G < (1.0 - SAME) * F), 0, idle + 1)
        xs, F = np.where(lower[:, None], trial, xs), np.where(lower, G, F)
        v, J = np.where(lower[:, None], w, v), np.where(lower[:, None, None], K, J)
        zeta = np.maximum(np.where(lower, zeta / FACTOR, zeta * FACTOR), HALF_PRECISION)
        if ((np.abs(v).max(axis=1) <= HALF_PRECISION) | (idle >= IDLE)).all():
            break
    met = np.isfinite(xs).all(axis=1) & (np.abs(v).max(axis=1) <= HALF_PRECISION)
    return _Led(np.ascontiguousarray(xs), v, J, met)


def _nearest(violations: Violations, system: System, x: np.ndarray) -> np.ndarray | None:
    """The state (nx,) of least violation next to a state, by Newton's method on F = |v|^2 / 2 with the positive part of
    its Hessian, by central differences of J'v; None if that does not get there."""
    h, zeta = DIFFERENCE * np.eye(system.ndx), 0.0

    def at(xs: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        v, J = violations(xs)
        return 0.5 * (v**2).sum(axis=1), np.einsum("kri,kr->ki", J, v), np.abs(v).max(axis=1)

    def around(steps: np.ndarray) -> np.ndarray:
        return np.ascontiguousarray(system.integrate(np.repeat(x[None], len(steps), axis=0), steps))

    for _ in range(LONGEST):
        F, gradient, largest = (part[0] for part in at(x[None]))
        if not np.isfinite(gradient).all():
            return None
        if np.abs(gradient).max() <= STATIONARY * largest:
            return x
        g = at(around(np.concatenate([h, -h])))[1].reshape(2, system.ndx, system.ndx)
        H = (g[0] - g[1]) / (2.0 * DIFFERENCE)
        if not np.isfinite(H).all():
            return None
        values, U = np.linalg.eigh(0.5 * (H + H.T))
        unit = max(float(np.abs(values).max()), HALF_PRECISION)
        dx = -U @ ((U.T @ gradient) / (np.maximum(np.abs(values), HALF_PRECISION * unit) + zeta * unit))
        trial = around(dx[None])
        if at(trial)[0][0] < F:
            x, zeta = trial[0], zeta / FACTOR
        else:
            zeta = max(FACTOR * zeta, FIRST_ZETA)
    return None
