"""Motion between the knots of a plan: its system in finer steps, its controls held as they were planned."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from trajopt.capabilities import KnotByKnot, Refinement, capability
from trajopt.interfaces.system import System, knot_durations, window

Controller = Callable[[int, np.ndarray], np.ndarray]
"""The control (nu,) of knot t in the state x (nx,) that it begins with."""


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


def inside_knots(fine: System, rows: np.ndarray, substeps: int, xs: np.ndarray, us: np.ndarray) -> np.ndarray:
    """States (N, substeps + 1, nx) of the finer motions that begin at the knots xs (N or N+1, nx), one for each, with
    the controls us (N, nu) held; `rows` as `fine_rows` has them.  A knot of no time has its end for all but the first.

    Raises ValueError where one is not finite.
    """
    N, counts = len(us), np.diff(rows)
    Y = np.empty((N, substeps + 1, xs.shape[1]))
    Y[:, 0] = xs[:N]
    with np.errstate(all="ignore"):
        if capability(fine, KnotByKnot) is None and (counts == substeps).all() and not _remembers_knots(fine):
            for j in range(substeps):
                Y[:, j + 1] = fine.step(Y[:, j], us)
                _check_finite(Y[:, j + 1])
        else:
            for t in range(N):
                Y[t, 1:] = _held(fine, rows, t, xs[t], us[t])
    _check_finite(Y.reshape(N, -1))
    return Y


def _remembers_knots(fine: System) -> bool:
    """Whether a finer step alone cannot tell what the states of its knot remember."""
    return getattr(fine, "steps_a_knot", 1) > 1


def _check_finite(rows: np.ndarray) -> None:
    wrong = np.flatnonzero(~np.isfinite(rows).all(axis=1))
    if len(wrong):
        raise ValueError(f"system: got a motion in finer steps that is not finite after knot {wrong[0]}")


def _held(fine: System, rows: np.ndarray, t: int, x: np.ndarray, u: np.ndarray) -> np.ndarray:
    """States (count, nx) of the finer steps of knot t after x."""
    start, stop = int(rows[t]), int(rows[t + 1])
    return np.asarray(window(fine, start, stop).rollout(x, np.repeat(u[None], stop - start, axis=0)))[1:]


def roll_out_finely(
    fine: System, rows: np.ndarray, x0: np.ndarray, us: np.ndarray, control: Controller
) -> tuple[np.ndarray, np.ndarray]:
    """States (rows[-1] + 1, nx) and controls (N, nu), those that `control` says at the knots of the plan us (N, nu),
    held between; infinite from where they are not finite."""
    N = len(us)
    X, U = np.full((int(rows[-1]) + 1, len(x0)), np.inf), np.full(us.shape, np.inf)
    X[0] = x0
    with np.errstate(all="ignore"):
        for t in range(N):
            u = control(t, X[rows[t]])
            motion = _held(fine, rows, t, X[rows[t]], u)
            finite = np.isfinite(motion).all(axis=1)
            count = len(motion) if finite.all() else int(np.argmin(finite))
            U[t], X[rows[t] + 1 : rows[t] + 1 + count] = u, motion[:count]
            if count < len(motion):
                break
    return X, U


def deviations(system: System, plan: np.ndarray, xs: np.ndarray) -> np.ndarray:
    """Tangent vectors (K, ndx) from the plan to the states xs (K, nx); infinite where these are."""
    found, finite = np.full((len(xs), system.ndx), np.inf), np.isfinite(xs).all(axis=1)
    if finite.any():
        found[finite] = system.difference(plan[finite], xs[finite])
    return found
