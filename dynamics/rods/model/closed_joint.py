"""A joint that closes a chain, as a builder takes it down."""

from dataclasses import dataclass

import numpy as np

from dynamics.joints import Fixed, Joint, Revolute, Spherical
from dynamics.rods.model.segment_list import joint_motion

Pose = tuple[np.ndarray, np.ndarray]



def has_rows(joint: Joint) -> bool:
    """Whether constraint rows stand for the joint, else those of a fixed one with coordinates of its own."""
    return isinstance(joint, (Revolute, Spherical, Fixed))


@dataclass(frozen=True)
class Closure:
    """A closed joint between a frame of segment A and one of segment B, -1 for the world."""

    name: str
    segments: tuple[int, int]
    joint: Joint
    placements: tuple[Pose, Pose]

    @property
    def frames(self) -> tuple[np.ndarray, np.ndarray]:
        """Axes (3, 3) of the joint on both sides, in the links' frames."""
        axes = joint_motion(self.joint)[1]
        return self.placements[0][0] @ axes, self.placements[1][0] @ axes

    def reversed(self, axes: tuple[np.ndarray, np.ndarray]) -> bool:
        """Whether axes of both sides (3, 3) that satisfy the constraints are turned by half a turn or more."""
        cosines = np.diag(axes[0].T @ axes[1])
        if isinstance(self.joint, Spherical):
            return False
        return bool((cosines[2:] if isinstance(self.joint, Revolute) else cosines).min() < 0.5)
