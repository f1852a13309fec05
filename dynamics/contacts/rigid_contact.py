"""Contacts of feet that can carry moments."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from dynamics.contacts.frame_contact import FrameContact, read_only
from dynamics.validation import as_placement


@dataclass(frozen=True, eq=False, repr=False)
class RigidContact(FrameContact):
    """A frame that neither slides, nor lifts off, nor turns: a flat foot on the ground.

    a_c + kd v_c + kp (p - p_r) = 0          alpha + kd omega + kp e = 0          e = 1/2 sum_i r_i x R_i

    p, v_c and a_c are position, velocity and classical acceleration of the frame's origin, omega and alpha its angular
    velocity and acceleration, world axes; R_i and r_i are the columns of the frame's rotation and of that to be kept,
    so that e is the sine of the angle between them times the axis.  The foot is held by a force and by a moment about
    the frame's origin.

    Parameters
    ----------
    model : RigidBodyModel
    frame : one of `model.frame_names`, on a moving body
    gains : (kp, kd), 1/s^2 and 1/s, neither negative: Baumgarte's feedback, which takes drift back; None for (100, 20)
        with a reference, and none without one.  [Baumgarte 1972]
    reference : (R, p), rotation (3, 3) and origin (3,), m, to be kept in the world; needed if kp is not zero
    axes : "local_world_aligned" or "local"
        In which force and moment are given: those of the world or those of the frame.

    Raises
    ------
    ValueError : unknown frame (with the nearest matches) or one fixed in the world, gains that are no such pair, kp
        without a reference, a reference that is no pair of a rotation and a point, or unknown axes.

    Notes
    -----
    e also vanishes at half a turn: feedback is meant for the small turns of drift.
    """

    reference: tuple[ArrayLike, ArrayLike] | None = None
    turns = False

    def _as_reference(self, value):
        R, p = as_placement("reference", value)
        return read_only(R), read_only(p)

    @property
    def pose(self) -> tuple[np.ndarray, np.ndarray]:
        R, p = (np.eye(3), np.zeros(3)) if self.reference is None else self.reference
        return np.asarray(R), np.asarray(p)
