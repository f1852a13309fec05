"""Contacts of points."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from dynamics.contacts.frame_contact import FrameContact, read_only
from dynamics.validation import as_array


@dataclass(frozen=True, eq=False, repr=False)
class PointContact(FrameContact):
    """A frame's origin that neither slides nor lifts off:  a_c + kd v_c + kp (p - reference) = 0.

    p, v_c and a_c are position, velocity and classical acceleration of the frame's origin, world axes.

    Parameters
    ----------
    model : RigidBodyModel
    frame : one of `model.frame_names`, on a moving body
    gains : (kp, kd), 1/s^2 and 1/s, neither negative: Baumgarte's feedback, which takes drift back; None for (100, 20)
        with a reference, and none without one.  [Baumgarte 1972]
    reference : (3,), m, where the point is to stay; needed if kp is not zero
    axes : "local_world_aligned" or "local"
        In which the contact force is given: those of the world or those of the frame.

    Raises
    ------
    ValueError : unknown frame (with the nearest matches) or one fixed in the world, gains that are no such pair, kp
        without a reference, a reference of wrong shape or with non-finite entries, or unknown axes.
    """

    reference: ArrayLike | None = None
    turns = True

    def _as_reference(self, value):
        return read_only(as_array("reference", value, (3,)))

    @property
    def pose(self) -> tuple[np.ndarray, np.ndarray]:
        return np.eye(3), np.zeros(3) if self.reference is None else np.asarray(self.reference)
