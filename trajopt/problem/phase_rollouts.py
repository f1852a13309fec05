"""Closed loops of systems with free durations, by those of the systems inside, a phase at once.

Along a phase a candidate's duration is what its first knot has: with s that of the nominal trajectory and s + sigma
the candidate's, the feedback to it is the number sigma times K's last column, and h = s dt + sigma dt the last control
of the system inside.  Where s changes from knot to knot, by gaps, sigma takes on what s loses, or alpha times that
where the gaps are closed.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from trajopt.interfaces.stepwise import ClosedLoop, closed_loop_by_steps, rollouts_take


def roll_out_phases(system: Any, loop: ClosedLoop) -> tuple[np.ndarray, np.ndarray]:
    """What `closed_loop_rollout` of a `FreeDurationSystem` returns."""
    N, A = len(loop.us), len(loop.alphas)
    shifted = rollouts_take(type(system.timed_inside(0, 1)), "shift", "pull")
    if loop.pull is not None or N != system.horizon or not shifted:
        return closed_loop_by_steps(system, *loop)
    X, U = np.full((A, N + 1, system.nx), np.nan), np.full((A, N, system.nu), np.nan)
    X[:, :1] = closed_loop_by_steps(system, *_knots(loop, 0, 0, loop.x0, loop.gaps))[0]
    edges = (np.flatnonzero(np.diff(system.setting)) + 1).tolist()
    for a, b in itertools.pairwise([0, *edges, N]):
        rest = None if loop.gaps is None else np.vstack([np.zeros(system.ndx), loop.gaps[a + 1 :]])
        part = _knots(loop, a, b, X[:, a], rest)
        found = closed_loop_by_steps(system.window(a, b), *part) if system.setting[a] else _phase(system, a, part)
        X[:, a + 1 : b + 1], U[:, a:b] = found[0][:, 1:], found[1]
    return X, U


def _knots(loop: ClosedLoop, a: int, b: int, x0: np.ndarray, gaps: np.ndarray | None) -> ClosedLoop:
    """The knots a <= t < b, from these states; gaps (b - a + 1 or more, ndx)."""
    cut = (None if each is None else each[a:b] for each in (loop.lower, loop.upper))
    gaps = None if gaps is None else gaps[: b - a + 1]
    return ClosedLoop(x0, loop.xs[a : b + 1], loop.us[a:b], loop.k[a:b], loop.K[a:b], loop.alphas, gaps, *cut)


def _phase(system: Any, a: int, part: ClosedLoop) -> tuple[np.ndarray, np.ndarray]:
    """Candidates of knots from a on that a phase goes on through."""
    n, m, h, s = len(part.us), system.system.nu, system.dt, part.xs[:, -1]
    alphas, lost, sigma = np.asarray(part.alphas), s[0] - s, part.x0[:, -1] - s[0]
    pull = np.column_stack([part.K[:, :m, -1], np.full(n, h)])
    us, k = np.column_stack([part.us[:, :m], h * s[:-1]]), np.column_stack([part.k[:, :m], np.zeros(n)])
    K, gaps = np.zeros((n, m + 1, system.system.ndx)), None
    K[:, :m] = part.K[:, :m, :-1]
    if part.gaps is None:
        us += pull * lost[:-1, None]
        durations = s + sigma[:, None] + lost
    else:
        k += pull * lost[:-1, None]
        durations = s + sigma[:, None] + np.multiply.outer(alphas, lost)
        gaps = np.ascontiguousarray(part.gaps[:, :-1])
    limits = [None, None]
    if part.lower is not None and part.upper is not None:
        limits = [
            np.column_stack([each[:, :m], np.full(n, end)])
            for each, end in ((part.lower, -np.inf), (part.upper, np.inf))
        ]
    xs = np.ascontiguousarray(part.xs[:, :-1])
    x0 = np.ascontiguousarray(part.x0[:, :-1])
    inside = system.timed_inside(a, a + n)
    X, U = inside.closed_loop_rollout(x0, xs, us, k, K, alphas, gaps, *limits, sigma, pull)
    X = np.concatenate([X, durations[:, :, None]], axis=2)
    return X, np.concatenate([U[:, :, :m], _idle(system, part, X)[:, :, None]], axis=2)


def _idle(system: Any, part: ClosedLoop, X: np.ndarray) -> np.ndarray:
    """The controls (A, n) that would set a duration, which are without effect here."""
    e = part.us[:, -1] + np.multiply.outer(np.asarray(part.alphas), part.k[:, -1])
    if part.K[:, -1].any():
        at = X[:, :-1].reshape(-1, system.nx)
        dz = system.difference(np.tile(part.xs[:-1], (len(X), 1)), at).reshape(*X[:, :-1].shape[:2], -1)
        e = e + np.einsum("tj,atj->at", part.K[:, -1], dz)
    return e if part.lower is None or part.upper is None else np.clip(e, part.lower[:, -1], part.upper[:, -1])
