"""Joint types and their motions, as plain immutable descriptions.

A joint carries the frame of its child body from its placement in the parent body. Its velocity is a combination of
`nv` motions, each a pure rotation about, or a pure translation along, one axis that is fixed in the child frame:

    class                q                  v (child frame)         motions
    Revolute(axis)       angle              rate                    rotation about axis
    Continuous(axis)     angle, unbounded   rate                    as Revolute, without position limits
    Prismatic(axis)      displacement       rate                    translation along axis
    Spherical()          x y z w            angular                 rotations about x, y, z
    FreeFlyer()          p, then x y z w    linear, angular         translations, then rotations
    Planar(axis)         x y theta          linear x, y, angular z  in the plane whose normal is `axis`
    Translation()        p                  linear                  translations
    Fixed()              -                  -                       none; the child becomes part of its parent
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from dynamics.validation import as_array

REVOLUTE = 0
PRISMATIC = 1
SPHERICAL = 2
FREE_FLYER = 3
PLANAR = 4
TRANSLATION = 5

_NAMED_AXES = {"x": (1.0, 0.0, 0.0), "y": (0.0, 1.0, 0.0), "z": (0.0, 0.0, 1.0)}

Axis = str | ArrayLike


def unit_axis(axis: Axis) -> tuple[float, float, float]:
    """Axis of unit length from 'x', 'y', 'z' or any nonzero 3-vector.

    Raises ValueError for another string, a wrong shape, a non-finite entry or a zero vector.
    """
    if isinstance(axis, str):
        if axis not in _NAMED_AXES:
            raise ValueError(f"axis: got {axis!r}, expected 'x', 'y', 'z' or a 3-vector")
        return _NAMED_AXES[axis]
    vector = as_array("axis", axis, (3,))
    largest = np.abs(vector).max()
    if largest == 0.0:
        raise ValueError("axis: got the zero vector, expected a nonzero 3-vector")
    vector = vector / largest  # so that the squares below neither overflow nor vanish
    x, y, z = (float(entry) for entry in vector / np.linalg.norm(vector))
    return x, y, z


@dataclass(frozen=True)
class Joint:
    """Base of all joint types. `code` is the number that compiled kernels branch on."""

    code: ClassVar[int]
    nq: ClassVar[int]
    nv: ClassVar[int]
    quaternion_at: ClassVar[int | None] = None  # where a quaternion (x y z w) starts in q, if there is one

    @property
    def type_name(self) -> str:
        """Name of its class."""
        return type(self).__name__

    def motion_subspace(self) -> tuple[np.ndarray, np.ndarray]:
        """Axes (nv, 3) in the child frame and flags (nv,) bool, True for a rotation, False for a translation."""
        raise NotImplementedError

    def neutral(self) -> np.ndarray:
        """Configuration (nq,) at which the child frame lies on the joint placement."""
        q = np.zeros(self.nq)
        if self.quaternion_at is not None:
            q[self.quaternion_at + 3] = 1.0
        return q

    def placement(self, q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(R, p) of the child frame in the joint frame at the configuration q (nq,)."""
        A = self.alignment()
        R, p = self._motion(q)
        return A @ R @ A.T, A @ p

    def _motion(self, q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The same in the frame in which the motions are standard."""
        raise NotImplementedError

    def alignment(self) -> np.ndarray:
        """Rotation (3, 3) from the frame in which the motions are standard to the joint frame; mostly the identity."""
        return np.eye(3)


def _rotation(vector: np.ndarray) -> np.ndarray:
    from scipy.spatial.transform import Rotation  # which is slow to import

    turn = Rotation.from_rotvec(vector) if len(vector) == 3 else Rotation.from_quat(vector)
    return turn.as_matrix()


@dataclass(frozen=True)
class _OneAxisJoint(Joint):
    axis: Axis
    nq: ClassVar[int] = 1
    nv: ClassVar[int] = 1
    turns: ClassVar[bool]

    def __post_init__(self) -> None:
        object.__setattr__(self, "axis", unit_axis(self.axis))

    def motion_subspace(self) -> tuple[np.ndarray, np.ndarray]:
        return np.array([self.axis]), np.array([self.turns])


@dataclass(frozen=True)
class Revolute(_OneAxisJoint):
    """Rotation by the angle q (rad) about an axis: 'x', 'y', 'z' or a 3-vector, which is normalised.

    Examples
    --------
    >>> dynamics.Revolute("z")
    Revolute(axis=(0.0, 0.0, 1.0))
    >>> dynamics.Revolute([0.0, 3.0, 4.0]).axis
    (0.0, 0.6, 0.8)
    """

    code: ClassVar[int] = REVOLUTE
    turns: ClassVar[bool] = True

    def _motion(self, q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return _rotation(q[0] * np.array(self.axis)), np.zeros(3)


@dataclass(frozen=True)
class Continuous(Revolute):
    """A revolute joint without position limits: q is one unbounded angle."""


@dataclass(frozen=True)
class Prismatic(_OneAxisJoint):
    """Translation by q (m) along an axis: 'x', 'y', 'z' or a 3-vector, which is normalised."""

    code: ClassVar[int] = PRISMATIC
    turns: ClassVar[bool] = False

    def _motion(self, q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return np.eye(3), q[0] * np.array(self.axis)


@dataclass(frozen=True)
class Spherical(Joint):
    """Any rotation: q a unit quaternion (x y z w), v the angular velocity in the child frame (rad/s)."""

    code: ClassVar[int] = SPHERICAL
    nq: ClassVar[int] = 4
    nv: ClassVar[int] = 3
    quaternion_at: ClassVar[int | None] = 0

    def motion_subspace(self) -> tuple[np.ndarray, np.ndarray]:
        return np.eye(3), np.ones(3, dtype=bool)

    def _motion(self, q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return _rotation(q), np.zeros(3)


@dataclass(frozen=True)
class FreeFlyer(Joint):
    """Any motion: q = [position; quaternion x y z w], v = [linear; angular] velocity in the child frame."""

    code: ClassVar[int] = FREE_FLYER
    nq: ClassVar[int] = 7
    nv: ClassVar[int] = 6
    quaternion_at: ClassVar[int | None] = 3

    def motion_subspace(self) -> tuple[np.ndarray, np.ndarray]:
        return np.vstack([np.eye(3), np.eye(3)]), np.arange(6) >= 3

    def _motion(self, q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return _rotation(q[3:]), q[:3].copy()


@dataclass(frozen=True)
class Planar(Joint):
    """Motion in a plane: q = [x y theta], v = [linear x, linear y, angular z] in the child frame.

    The plane is the xy plane of the joint frame unless `axis`, its normal, is given. With another normal the
    motions refer to a joint frame rotated so that its z axis is `axis`: by the shortest rotation if axis_z >= 0, else
    by a half turn about x followed by the shortest rotation of -z onto the axis. The body keeps its own frame.
    """

    axis: Axis = "z"
    code: ClassVar[int] = PLANAR
    nq: ClassVar[int] = 3
    nv: ClassVar[int] = 3

    def __post_init__(self) -> None:
        object.__setattr__(self, "axis", unit_axis(self.axis))

    def motion_subspace(self) -> tuple[np.ndarray, np.ndarray]:
        return np.eye(3), np.array([False, False, True])

    def _motion(self, q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return _rotation(np.array([0.0, 0.0, q[2]])), np.array([q[0], q[1], 0.0])

    def alignment(self) -> np.ndarray:
        sign = 1.0 if self.axis[2] >= 0.0 else -1.0
        a, b, c = sign * np.array(self.axis)  # c >= 0, so that 1 + c below is never small
        d = 1.0 / (1.0 + c)
        shortest = np.array([[1.0 - a * a * d, -a * b * d, a], [-a * b * d, 1.0 - b * b * d, b], [-a, -b, c]])
        return shortest * (1.0, sign, sign)


@dataclass(frozen=True)
class Translation(Joint):
    """Any translation: q the position, v the linear velocity, in the joint frame, which does not rotate."""

    code: ClassVar[int] = TRANSLATION
    nq: ClassVar[int] = 3
    nv: ClassVar[int] = 3

    def motion_subspace(self) -> tuple[np.ndarray, np.ndarray]:
        return np.eye(3), np.zeros(3, dtype=bool)

    def _motion(self, q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return np.eye(3), q.copy()


@dataclass(frozen=True)
class Fixed(Joint):
    """No motion. The child's inertia is added to the nearest moving ancestor; its frames are kept."""

    nq: ClassVar[int] = 0
    nv: ClassVar[int] = 0

    def motion_subspace(self) -> tuple[np.ndarray, np.ndarray]:
        return np.zeros((0, 3)), np.zeros(0, dtype=bool)

    def _motion(self, q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return np.eye(3), np.zeros(3)
