"""Terminal states that meet the constraints of the last knot, from random ones: where a local search has failed.

A robot asked for a pose of its tool can arrive there in many postures, and a local search ends in front of joint limits
or at a singular posture on the way to one of them, although others are free.  States are found without trajectories:
from many at once, damped Gauss-Newton steps on the rows of the last knot,

    dx = -J'(J J' + zeta I)^-1 v      v = c - clip(c, lower, upper), J its Jacobian in tangent coordinates

with a zeta for each.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from trajopt.costs.cost_of_residual import linearized
from trajopt.interfaces.residual import at_knots
from trajopt.problem.problem import Problem
from trajopt.rows import Rows

TRIES, ROUNDS, STEPS = 64, 6, 40
"""Number of random states at a time, largest number of times until one is found, and of steps from each."""
SPREAD = np.pi
"""Largest distance of a random state, in each coordinate of the tangent: half a turn of a joint, or where the
trajectory goes further, as far as that."""
MET, APART = 1e-9, 1e-2
"""Violation of scaled rows with which they count as met, and least distance of two states that are different."""
FIRST_ZETA, LEAST_ZETA, LARGEST_ZETA, FACTOR = 1e-3, 1e-9, 1e6, 10.0

Violations = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]
"""v (K, r) and J (K, r, ndx) at states (K, nx)."""


def violations_at_end(problem: Problem, rows: Rows) -> Violations | None:
    """Violations of the scaled rows of the last knot, functions of the state alone; None if there are none."""
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

    return violations


def terminal_states(problem: Problem, rows: Rows, xs: np.ndarray) -> list[np.ndarray]:
    """States (nx,) that meet the rows of the last knot, found from random ones around the first and the last one of the
    states xs (N+1, nx), those next to the first one in front; none if the last knot has no rows."""
    violations, system = violations_at_end(problem, rows), problem.system
    if violations is None:
        return []
    with np.errstate(all="ignore"):
        moved = np.abs(system.difference(np.repeat(xs[:1], len(xs), axis=0), xs)).max(axis=0)
        start, rng = np.repeat(xs[[0, -1]], TRIES // 2, axis=0), np.random.default_rng(0)
        found = np.empty((0, system.nx))
        for _ in range(ROUNDS):
            spread = np.maximum(SPREAD, moved) * rng.uniform(-1.0, 1.0, (TRIES, system.ndx))
            found = np.ascontiguousarray(_met(violations, system.integrate, system.integrate(start, spread)))
            if len(found):
                break
        far = np.linalg.norm(system.difference(np.repeat(xs[:1], len(found), axis=0), found), axis=1)
        kept: list[np.ndarray] = []
        for x in found[np.argsort(far)]:
            if all(np.abs(system.difference(known[None], x[None])).max() > APART for known in kept):
                kept.append(x)
        return kept


def _met(violations: Violations, integrate: Callable[..., np.ndarray], xs: np.ndarray) -> np.ndarray:
    """The states that the steps lead to from xs (K, nx), those that meet the rows."""
    (v, J), zeta = violations(xs), np.full(len(xs), FIRST_ZETA)
    F = (v**2).sum(axis=1)
    for _ in range(STEPS):
        S = J @ J.transpose(0, 2, 1) + zeta[:, None, None] * np.eye(v.shape[1])
        if not np.isfinite(S).all():
            break
        dx = -(J.transpose(0, 2, 1) @ np.linalg.solve(S, v[..., None]))[..., 0]
        trial = np.asarray(integrate(xs, dx))
        w, K = violations(trial)
        G = (w**2).sum(axis=1)
        lower = G < F
        xs, F = np.where(lower[:, None], trial, xs), np.where(lower, G, F)
        v, J = np.where(lower[:, None], w, v), np.where(lower[:, None, None], K, J)
        zeta = np.clip(np.where(lower, zeta / FACTOR, zeta * FACTOR), LEAST_ZETA, LARGEST_ZETA)
        if (np.abs(v).max(axis=1) <= MET).all():
            break
    return xs[np.isfinite(xs).all(axis=1) & (np.abs(v).max(axis=1) <= MET)]
