"""Motion between the knots of a plan: its system in finer steps, its controls held as they were planned."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from trajopt.capabilities import KnotByKnot, Refinement, capability
from trajopt.interfaces.system import System, knot_durations, window

Controller = Callable[[int, np.ndarray], np.ndarray]
"""The control (nu,) of a knot, or of another piece of a motion, in the state x (nx,) that it begins with."""


def finer(system: System, substeps: int) -> System:
    """The system in so many steps for each knot that takes time.

    Raises TypeError for a system that has no finer steps, ValueError as its own method does.
    """
    known = capability(system, Refinement)
    if known is None:
        raise TypeError(
            f"system: {type(system).__name__} has no finer steps, wanted one that integrates a differential equation, "
            "as a robot or trajopt.CallableSystem(xdot=...), or that has what trajopt.capabilities.Refinement asks for"
        )
    return known.refined(substeps)


def finer_for_stiff(system: System, substeps: int) -> tuple[System, int]:
    """As `finer`, in so many steps for each knot or, where they are too few, four, sixteen or 64 times as many; and how
    many they are."""
    for times in (1, 4, 16):
        try:
            return finer(system, times * substeps), times * substeps
        except ValueError:
            continue
    return finer(system, 64 * substeps), 64 * substeps


def fine_rows(system: System, horizon: int, substeps: int) -> np.ndarray:
    """Where (N+1,) along the finer motion the knots are."""
    counts = np.where(knot_durations(system, horizon) > 0.0, substeps, 1)
    return np.concatenate([[0], np.cumsum(counts)])


def inside_knots(
    fine: System, rows: np.ndarray, substeps: int, xs: np.ndarray, us: np.ndarray, knots: np.ndarray | None = None
) -> np.ndarray:
    """States (K, substeps + 1, nx) of the finer motions that begin at knots of xs (N or N+1, nx), by default all, one
    for each; their controls us (K, nu) held, or (K, substeps, nu) of each finer step; `rows` as `fine_rows` has them.
    A knot of no time has its end for all but the first.

    Raises ValueError where one is not finite.
    """
    knots, counts = np.arange(len(us)) if knots is None else knots, np.diff(rows)
    us = np.repeat(us[:, None], substeps, axis=1) if us.ndim == 2 else us
    Y = np.empty((len(knots), substeps + 1, xs.shape[1]))
    Y[:, 0] = xs[knots]
    with np.errstate(all="ignore"):
        if capability(fine, KnotByKnot) is None and (counts == substeps).all() and not _remembers_knots(fine):
            for j in range(substeps):
                Y[:, j + 1] = fine.step(Y[:, j], us[:, j])
                _check_finite(Y[:, j + 1], knots)
        else:
            for i, t in enumerate(knots.tolist()):
                Y[i, 1:] = _motion(fine, int(rows[t]), xs[t], us[i, : counts[t]])
    _check_finite(Y.reshape(len(knots), -1), knots)
    return Y


def _remembers_knots(fine: System) -> bool:
    """Whether a finer step alone cannot tell what the states of its knot remember."""
    return getattr(fine, "steps_a_knot", 1) > 1


def _check_finite(motions: np.ndarray, knots: np.ndarray) -> None:
    wrong = np.flatnonzero(~np.isfinite(motions).all(axis=1))
    if len(wrong):
        raise ValueError(f"system: got a motion in finer steps that is not finite after knot {knots[wrong[0]]}")


def _motion(fine: System, start: int, x: np.ndarray, us: np.ndarray) -> np.ndarray:
    """States (count, nx) after x of the finer steps from `start` on, with the controls us (count, nu)."""
    return np.asarray(window(fine, start, start + len(us)).rollout(x, us))[1:]


def roll_out_finely(
    fine: System, breaks: np.ndarray, x0: np.ndarray, us: np.ndarray, control: Controller
) -> tuple[np.ndarray, np.ndarray]:
    """States (M+1, nx) and controls (B, nu): `control` says that of each piece, in the state that the piece begins in,
    and it is held in it; pieces begin and end at the finer steps `breaks` (B+1,), from 0 to M, as at the knots of the
    plan, of which us (N, nu) are the controls.  Infinite from where they are not finite."""
    pieces = len(breaks) - 1
    X, U = np.full((int(breaks[-1]) + 1, len(x0)), np.inf), np.full((pieces, us.shape[1]), np.inf)
    X[0] = x0
    with np.errstate(all="ignore"):
        for i, (start, stop) in enumerate(zip(breaks[:-1].tolist(), breaks[1:].tolist(), strict=True)):
            u = control(i, X[start])
            motion = _motion(fine, start, X[start], np.repeat(u[None], stop - start, axis=0))
            finite = np.isfinite(motion).all(axis=1)
            count = len(motion) if finite.all() else int(np.argmin(finite))
            U[i], X[start + 1 : start + 1 + count] = u, motion[:count]
            if count < len(motion):
                break
    return X, U


def deviations(system: System, plan: np.ndarray, xs: np.ndarray) -> np.ndarray:
    """Tangent vectors (K, ndx) from the plan to the states xs (K, nx); infinite where these are."""
    found, finite = np.full((len(xs), system.ndx), np.inf), np.isfinite(xs).all(axis=1)
    if finite.any():
        found[finite] = system.difference(plan[finite], xs[finite])
    return found
