"""Inverse kinematics of legs: frames are moved to their targets, each by the joints that move it alone.

A floating base is fixed, and so are joints that move two of the frames; limits of joints are not enforced, unlike in
`dynamics.ik`.  Newton's method is applied to a batch of configurations, with e the error of a position and optionally
a small rotation, in world axes,

    J dq = e                                J square, the Jacobian in the joints that move this frame alone
    dq = J' (J J')^-1 e                     more joints than rows: the shortest step

and where eight steps are not enough, near stretched legs or for targets out of reach, damped least squares,

    dq = J' (J J' + mu I)^-1 e              mu decreases with every accepted step, and grows with every rejected one

                                                                    [Wampler 1986; Nakamura and Hanafusa 1986]
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from dynamics.algorithms.configuration import integrate
from dynamics.algorithms.frames import frame_jacobian, frame_placement
from dynamics.model.joints import FreeFlyer
from dynamics.model.model import RigidBodyModel

NEWTON_STEPS, DAMPED_STEPS = 8, 100
CLOSE, REACHED = 1e-10, 1e-6
"""Tolerances on the error after Newton's steps, and at the end, m or rad."""
LONGEST = 1.0
"""Longest step of a joint, rad or m, beyond which a knee may flip."""


def reach(
    model: RigidBodyModel, q: np.ndarray, places: Mapping[str, tuple[np.ndarray | None, np.ndarray]]
) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Configurations q (K, nq) with frames at their targets, or as near as possible, and the error (K,) of each frame;
    places: rotations (K, 3, 3) or None, and positions (K, 3)."""
    missing = {}
    for frame, columns in own_joints(model, q[:1], places).items():
        R, p = places[frame]
        found, straight = _newton(model, q, frame, columns, R, p)
        errors = np.linalg.norm(_missing(model, found, frame, R, p), axis=1)
        far = np.flatnonzero(~straight | (errors > CLOSE))
        if far.size:
            turned = None if R is None else R[far]
            found[far] = _damped(model, q[far], frame, columns, turned, p[far])
            errors[far] = np.linalg.norm(_missing(model, found[far], frame, turned, p[far]), axis=1)
        q, missing[frame] = found, errors
    return q, missing


def own_joints(model: RigidBodyModel, q: np.ndarray, frames: Mapping[str, object]) -> dict[str, np.ndarray]:
    """Degrees of freedom, without the floating base, that move each frame and no other of `frames`; q (1, nq).

    Raises ValueError for a frame without any.
    """
    moves = {frame: np.abs(frame_jacobian(model, q, frame)[0]).max(axis=0) > 0.0 for frame in frames}
    shared = np.sum(list(moves.values()), axis=0) > 1
    if model.joints and isinstance(model.joints[0], FreeFlyer):
        shared[:6] = True
    found = {frame: np.flatnonzero(columns & ~shared) for frame, columns in moves.items()}
    for frame, columns in found.items():
        if not columns.size:
            raise ValueError(f"frame {frame!r}: expected joints that move it alone, got none")
    return found


def _missing(model: RigidBodyModel, q: np.ndarray, frame: str, R: np.ndarray | None, p: np.ndarray) -> np.ndarray:
    """Error (K, 3) of the position, m, or (K, 6) with that of the rotation, the sine of the angle times its axis."""
    now = frame_placement(model, q, frame)
    if R is None:
        return p - now.p
    E = R @ now.R.swapaxes(1, 2)
    return np.hstack([p - now.p, 0.5 * (E - E.swapaxes(1, 2))[:, [2, 0, 1], [1, 2, 0]]])


def _moved(model: RigidBodyModel, q: np.ndarray, columns: np.ndarray, step: np.ndarray) -> np.ndarray:
    dq = np.zeros((len(q), model.nv))
    dq[:, columns] = step
    return integrate(model, q, dq)


def _newton(
    model: RigidBodyModel, q: np.ndarray, frame: str, columns: np.ndarray, R: np.ndarray | None, p: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """A few full Newton steps, and a mask (K,) of the points with no step above `LONGEST`; others are unchanged."""
    straight = np.ones(len(q), bool)
    for _ in range(NEWTON_STEPS):
        e = _missing(model, q, frame, R, p)
        J = frame_jacobian(model, q, frame)[:, : e.shape[1], columns]
        if J.shape[1] == J.shape[2]:
            try:
                step = np.linalg.solve(J, e[..., None])[..., 0]
            except np.linalg.LinAlgError:
                return q.copy(), np.zeros(len(q), bool)
        else:
            step = (np.linalg.pinv(J) @ e[..., None])[..., 0]
        straight &= np.abs(step).max(axis=1) <= LONGEST  # False for NaN
        step[~straight] = 0.0
        q = _moved(model, q, columns, step)
    return q, straight


def _damped(
    model: RigidBodyModel, q: np.ndarray, frame: str, columns: np.ndarray, R: np.ndarray | None, p: np.ndarray
) -> np.ndarray:
    """Damped least squares: every accepted step reduces the error of the frame."""
    e = _missing(model, q, frame, R, p)
    mu = np.full(len(q), 1e-2)
    for _ in range(DAMPED_STEPS):
        J = frame_jacobian(model, q, frame)[:, : e.shape[1], columns]
        JJ = J @ J.swapaxes(1, 2)
        scale = np.trace(JJ, axis1=1, axis2=2) / e.shape[1]
        damped = JJ + (mu * scale)[:, None, None] * np.eye(e.shape[1])
        step = (J.swapaxes(1, 2) @ np.linalg.solve(damped, e[..., None]))[..., 0]
        step *= np.minimum(1.0, LONGEST / np.maximum(np.abs(step).max(axis=1), LONGEST))[:, None]
        trial = _moved(model, q, columns, step)
        e_trial = _missing(model, trial, frame, R, p)
        nearer = np.linalg.norm(e_trial, axis=1) < np.linalg.norm(e, axis=1)
        q, e = np.where(nearer[:, None], trial, q), np.where(nearer[:, None], e_trial, e)
        mu = np.clip(np.where(nearer, 0.1 * mu, 4.0 * mu), 1e-14, 1e6)
        if (np.linalg.norm(e, axis=1) < CLOSE).all():
            break
    return q
