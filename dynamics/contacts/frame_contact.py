"""What contacts of points and of feet have in common: a frame, feedback of its drift, and axes for the forces."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from dynamics.algorithms.frames import LOCAL, frame_numbers, reference_code
from dynamics.model import RigidBodyModel
from dynamics.validation import as_array

AXES = ("local_world_aligned", "local")
FEEDBACK = (100.0, 20.0)
"""Gains kp, 1/s^2, and kd, 1/s, of what states a position, if it is given no others: critical damping of 0.1 s."""


@dataclass(frozen=True, eq=False, repr=False)
class FrameContact:
    """A frame that is held; see `PointContact` and `RigidContact`."""

    model: RigidBodyModel
    frame: str
    gains: tuple[float, float] | None = None
    reference: object = None
    axes: str = "local_world_aligned"

    turns: ClassVar[bool]
    """Whether the frame may turn."""

    def __post_init__(self) -> None:
        body, _ = frame_numbers(self.model, self.frame)
        if body < 0:
            raise ValueError(f"frame: {self.frame!r} is fixed in the world, expected one on a moving body")
        reference = None if self.reference is None else self._as_reference(self.reference)
        default = (0.0, 0.0) if reference is None else FEEDBACK
        gains = as_gains(default if self.gains is None else self.gains)
        if reference is None and gains[0] != 0.0:
            raise ValueError(f"reference: needed where kp is not zero, got kp = {gains[0]} and no reference")
        if self.axes not in AXES:
            raise ValueError(f"axes: got {self.axes!r}, expected one of {', '.join(map(repr, AXES))}")
        object.__setattr__(self, "gains", gains)
        object.__setattr__(self, "reference", reference)

    def _as_reference(self, value):
        """A read-only copy; ValueError if it is none."""
        raise NotImplementedError

    @property
    def pose(self) -> tuple[np.ndarray, np.ndarray]:
        """Rotation and origin to be kept; where they are not given, any."""
        raise NotImplementedError

    @property
    def place(self) -> str:
        """The frame where pictures show it."""
        return self.frame

    @property
    def local(self) -> bool:
        """Whether forces are given in the frame's axes."""
        return reference_code(self.axes) == LOCAL

    def __repr__(self) -> str:
        arguments = f"{self.frame!r}, gains={self.gains}, reference={self.reference}, axes={self.axes!r}"
        return f"{type(self).__name__}({arguments})"


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
