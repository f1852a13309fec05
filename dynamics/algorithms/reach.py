"""Legs that bend for their feet to be somewhere: frames brought to their places, each by the joints that move it alone.

A floating base stays where it is, and so do joints that move two of the frames; limits of joints are not looked at,
which `dynamics.ik` does.  For a batch of configurations Newton's method, e being what is missing, a position and
perhaps a small rotation in world axes,

    J dq = e                                J: of the joints that move this frame alone, square
    dq = J' (J J')^-1 e                     more joints than rows: the shortest step

and where eight steps are not enough, near stretched legs or where a frame cannot go, damped least squares,

    dq = J' (J J' + mu I)^-1 e              mu falls with every step that helps, and grows with every other

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
"""What may be missing after Newton's steps, and at the end, m or rad."""
LONGEST = 1.0
"""Longest step of a joint, rad or m: from the next one on it may be another knee."""


def reach(
    model: RigidBodyModel, q: np.ndarray, places: Mapping[str, tuple[np.ndarray | None, np.ndarray]]
) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """The configurations q (K, nq) with frames at their places, or as near as they come, and what is missing (K,) of
    each frame; places: rotations (K, 3, 3) or None, and positions (K, 3)."""
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
    """The degrees of freedom that move each frame and no other of these, the floating base aside; q (1, nq).

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
    """What is missing, (K, 3) or (K, 6): of the position, and the sine of the angle about its axis."""
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
    """A few full steps, and which points (K,) took no long ones, by which knees may turn over; the others stay."""
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
        straight &= np.abs(step).max(axis=1) <= LONGEST  # NaN is not
        step[~straight] = 0.0
        q = _moved(model, q, columns, step)
    return q, straight


def _damped(
    model: RigidBodyModel, q: np.ndarray, frame: str, columns: np.ndarray, R: np.ndarray | None, p: np.ndarray
) -> np.ndarray:
    """Damped least squares: every step that is taken brings the frame nearer."""
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
