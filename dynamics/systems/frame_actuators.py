"""Actuators that act on frames, as kernels take them: wrenches fixed in a frame, forces along the line of two frames.

The force on the joints is linear in the controls and depends on the configuration, tau = B u + sum_i u_i r_i(q).  At
joint rates mu the power of unit control is

    mu'r = W . V(q, mu)                    W a wrench in the axes of its frame, V the frame's velocity in the same
    mu'r = n . (v_1 - v_2) = dl/dt         n the direction from the second frame to the first, l their distance

so that r and all its derivatives are those of velocities of frames.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dynamics.algorithms.frames import FRAME, frame_jacobian, frame_numbers, frame_placement
from dynamics.attachments import LinearActuator, Thruster
from dynamics.model import RigidBodyModel
from dynamics.simd.sizes import Size

NOWHERE = -2
"""In place of the second body of a wrench."""


class FrameActuators(NamedTuple):
    """D actuators."""

    control: np.ndarray  # (D,) which control each has
    body: np.ndarray  # (D,)
    frame: np.ndarray  # (D, FRAME) placements in the bodies
    other: np.ndarray  # (D,) second bodies, NOWHERE for a wrench
    other_frame: np.ndarray  # (D, FRAME)
    wrench: np.ndarray  # (D, 6) force and moment in the frame's axes; of a line its ratio first


pushed = Size("pushed", "actuators.control.size")
"""Number of these actuators."""


def frame_actuators(model: RigidBodyModel) -> FrameActuators | None:
    """Those of a robot, at its controls; None if it has none."""
    chosen = [(i, each) for i, each in enumerate(model.actuators) if isinstance(each, (Thruster, LinearActuator))]
    if not chosen:
        return None
    D = len(chosen)
    arrays = FrameActuators(
        np.array([i for i, _ in chosen], dtype=np.int64), np.zeros(D, np.int64), np.zeros((D, FRAME)),
        np.full(D, NOWHERE, np.int64), np.zeros((D, FRAME)), np.zeros((D, 6)),
    )  # fmt: skip
    for d, (_, each) in enumerate(chosen):
        if isinstance(each, Thruster):
            arrays.body[d], arrays.frame[d] = frame_numbers(model, each.frame)
            arrays.wrench[d] = each.wrench
        else:
            arrays.body[d], arrays.frame[d] = frame_numbers(model, each.frame1)
            arrays.other[d], arrays.other_frame[d] = frame_numbers(model, each.frame2)
            arrays.wrench[d, 0] = each.ratio
    return arrays


def force_map(model: RigidBodyModel, q: np.ndarray) -> np.ndarray:
    """The columns r_i (K, nv, nu) at configurations q (K, nq), zero for controls of other actuators."""
    R = np.zeros((len(q), model.nv, len(model.actuators)))
    for i, each in enumerate(model.actuators):
        if isinstance(each, Thruster):
            R[:, :, i] = np.einsum("kij,i->kj", frame_jacobian(model, q, each.frame, "local"), each.wrench)
        elif isinstance(each, LinearActuator):
            (_, p1), (_, p2) = (frame_placement(model, q, frame) for frame in (each.frame1, each.frame2))
            J1, J2 = (frame_jacobian(model, q, frame)[:, :3] for frame in (each.frame1, each.frame2))
            apart = p1 - p2
            n = each.ratio * apart / np.maximum(np.linalg.norm(apart, axis=1, keepdims=True), 1e-300)
            R[:, :, i] = np.einsum("kij,ki->kj", J1 - J2, n)
    return R
