"""Contacts of a robot's frames with the world: points with a force, and soles with a force and a moment."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from dynamics.algorithms.frames import LOCAL, frame_numbers, reference_code
from dynamics.model.model import RigidBodyModel
from dynamics.validation import as_array, as_choice, as_placement

# --------------------------------------------------------------------------------------------
# Common base of point and foot contacts: a frame, feedback of its drift, and axes for the forces.

AXES = ("local_world_aligned", "local")
FEEDBACK = (100.0, 20.0)
"""Default gains kp, 1/s^2, and kd, 1/s, of a contact with a reference, or of a loop: critical damping with a time
constant of 0.1 s."""
LEAST_STEPS = 2.0
"""Least time constant of that feedback in steps: below 1.2, semi-implicit Euler steps amplify gaps."""


@dataclass(frozen=True, eq=False, repr=False)
class FrameContact:
    """A constrained frame; see `PointContact` and `RigidContact`."""

    model: RigidBodyModel
    frame: str
    gains: tuple[float, float] | None = None
    reference: object = None
    axes: str = "local_world_aligned"

    turns: ClassVar[bool]
    """True if the frame may rotate."""

    def __post_init__(self) -> None:
        body, _ = frame_numbers(self.model, self.frame)
        if body < 0:
            raise ValueError(f"frame: {self.frame!r} is fixed in the world, expected one on a moving body")
        reference = None if self.reference is None else self._as_reference(self.reference)
        default = (0.0, 0.0) if reference is None else FEEDBACK
        gains = as_gains(default if self.gains is None else self.gains)
        if reference is None and gains[0] != 0.0:
            raise ValueError(f"reference: needed where kp is not zero, got kp = {gains[0]} and no reference")
        as_choice("axes", self.axes, AXES)
        object.__setattr__(self, "gains", gains)
        object.__setattr__(self, "reference", reference)

    def _as_reference(self, value):
        """A read-only copy of the reference; ValueError for an invalid one."""
        raise NotImplementedError

    @property
    def pose(self) -> tuple[np.ndarray, np.ndarray]:
        """Reference rotation (3, 3) and origin (3,); where they are not given, arbitrary ones that do not enter."""
        raise NotImplementedError

    @property
    def place(self) -> str:
        """The frame at which pictures show the contact."""
        return self.frame

    @property
    def local(self) -> bool:
        """True if forces are given in the frame's axes."""
        return reference_code(self.axes) == LOCAL

    def __repr__(self) -> str:
        arguments = f"{self.frame!r}, gains={self.gains}, reference={self.reference}, axes={self.axes!r}"
        return f"{type(self).__name__}({arguments})"


def feedback(dt: float) -> tuple[float, float]:
    """Gains (kp, kd): `FEEDBACK`, or slower ones where its time constant is less than `LEAST_STEPS` steps of dt, s."""
    kp, kd = FEEDBACK
    slower = max(1.0, 0.5 * kd * LEAST_STEPS * dt)
    return kp / slower**2, kd / slower


def as_gains(value: ArrayLike) -> tuple[float, float]:
    """(kp, kd); ValueError unless these are two numbers of at least zero."""
    gains = as_array("gains", value, (2,))
    if (gains < 0.0).any():
        raise ValueError(f"gains: got (kp, kd) = {tuple(gains.tolist())}, expected two numbers of at least zero")
    kp, kd = gains.tolist()
    return kp, kd


def read_only(array: np.ndarray) -> np.ndarray:
    """A copy that cannot be written to."""
    array = array.copy()
    array.flags.writeable = False
    return array


# --------------------------------------------------------------------------------------------
# Contacts of points.


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


# --------------------------------------------------------------------------------------------
# Contacts of feet that can carry moments.


@dataclass(frozen=True, eq=False, repr=False)
class RigidContact(FrameContact):
    """A frame that neither slides, nor lifts off, nor rotates: a flat foot on the ground.

    a_c + kd v_c + kp (p - p_r) = 0          alpha + kd omega + kp e = 0          e = 1/2 sum_i r_i x R_i

    p, v_c and a_c are position, velocity and classical acceleration of the frame's origin, omega and alpha its angular
    velocity and acceleration, world axes; R_i and r_i are the columns of the frame's rotation and of that to be kept,
    so that e is the sine of the angle between them times the axis.  The contact exerts a force and a moment about the
    frame's origin.

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
    e also vanishes at a rotation by pi: feedback is meant for the small rotations of drift.
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
