"""Segments of a tree of rods and bodies, and the joints that only soft robots have."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from dynamics.model.joints import (
    Axis,
    Continuous,
    Fixed,
    FreeFlyer,
    Joint,
    Planar,
    Prismatic,
    Revolute,
    Spherical,
    Translation,
    unit_axis,
)
from dynamics.rods.model.arrays import ROD, RodArrays
from dynamics.validation import as_array

# --------------------------------------------------------------------------------------------
# A joint of soft robots alone: a nut on a thread.


@dataclass(frozen=True)
class Helical:
    """A rotation about an axis with a translation of `pitch` metres per radian along it; q is the angle.

    Only rod models have it; rigid models do not.

    Parameters
    ----------
    axis : 'x', 'y', 'z' or a vector (3,)
    pitch : m/rad; the thread's lead is 2 pi times as large; negative for left-handed threads

    Raises
    ------
    ValueError : an axis that is not valid, a pitch that is not a finite number.

    Examples
    --------
    >>> builder = rods.RodModelBuilder()
    >>> builder.add_body("nut", "world", rods.Helical("z", pitch=0.01), mass=1.0, inertia=0.01 * np.eye(3))
    >>> rods.link_placement(builder.build(), "nut", [np.pi])[1].round(4)  # half a turn lifts it by pi times the pitch
    array([0.    , 0.    , 0.0314])
    """

    axis: Axis
    pitch: float
    nv: ClassVar[int] = 1

    def __post_init__(self):
        object.__setattr__(self, "axis", unit_axis(self.axis))
        object.__setattr__(self, "pitch", float(as_array("pitch", self.pitch, ())))


# --------------------------------------------------------------------------------------------
# Columns of `RodArrays` as a builder appends segments, and the entries of joints and bodies.


@dataclass
class SegmentList:
    """Columns of `RodArrays`, which grow with each segment."""

    parent: list[int] = field(default_factory=list)
    kind: list[int] = field(default_factory=list)
    rows: list[np.ndarray] = field(default_factory=list)
    step: list[tuple[float, float]] = field(default_factory=list)
    reference: list[np.ndarray] = field(default_factory=list)
    first_mode: list[int] = field(default_factory=list)
    modes: list[tuple[float, float]] = field(default_factory=list)
    before: list[np.ndarray] = field(default_factory=list)
    after: list[np.ndarray] = field(default_factory=list)
    inertia: list[np.ndarray] = field(default_factory=list)

    def add(
        self,
        parent: int,
        kind: int,
        rows: ArrayLike,
        step: tuple[float, float],
        reference: np.ndarray,
        modes: Iterable[Sequence[float]],
        before: tuple[np.ndarray, np.ndarray],
        after: tuple[np.ndarray, np.ndarray],
        inertia: ArrayLike,
    ) -> int:
        """Append a segment; returns its index."""
        self.parent.append(parent)
        self.kind.append(kind)
        self.rows.append(np.asarray(rows, np.int64))
        self.step.append(step)
        self.reference.append(np.broadcast_to(np.asarray(reference, float), (2, 6)).ravel())
        self.first_mode.append(len(self.modes))
        self.modes.extend((float(one), float(two)) for one, two in modes)
        self.before.append(np.concatenate([before[0].ravel(), before[1]]))
        self.after.append(np.concatenate([after[0].ravel(), after[1]]))
        self.inertia.append(np.asarray(inertia, float))
        return len(self.parent) - 1

    def split(self, s: int, first: Sequence, second: Sequence) -> None:
        """Put a massless segment before segment s; the two have these steps (h, b, strains at rest, modes).

        The indices of the segments from s on rise by one, so that loads at the end of s stay there.
        """
        self.parent = [k + (k >= s) for k in self.parent]
        identity = np.concatenate([np.eye(3).ravel(), np.zeros(3)])
        columns = {
            "parent": self.parent[s], "kind": self.kind[s], "rows": self.rows[s], "step": first[:2],
            "reference": np.ravel(first[2]), "first_mode": len(self.modes), "before": self.before[s],
            "after": identity, "inertia": np.zeros(10),
        }  # fmt: skip
        self.modes.extend((float(one), float(two)) for one, two in first[3])
        start = self.first_mode[s]
        self.modes[start : start + len(second[3])] = [(float(one), float(two)) for one, two in second[3]]
        for name, value in columns.items():
            getattr(self, name).insert(s, value)
        self.parent[s + 1], self.step[s + 1], self.before[s + 1] = s, (second[0], second[1]), identity
        self.reference[s + 1] = np.ravel(second[2])

    def arrays(self, n: int, base: tuple[np.ndarray, np.ndarray], gravity: np.ndarray) -> RodArrays:
        """`RodArrays` of all segments, with the coordinates on the path to each."""
        path, start, beyond, beyond_start = [], [0], [], [0]
        of_rods: dict[int, list[int]] = {}
        for s, kind in enumerate(self.kind):
            if kind == ROD:
                of_rods.setdefault(int(self.rows[s][0]), []).append(s)
        for s in range(len(self.parent)):
            on_path, passed, k = set(), set(), s
            while k >= 0:
                on_path.update(range(self.rows[k][0], self.rows[k][6]))
                passed.add(k)
                k = self.parent[k]
            path += sorted(on_path)
            start.append(len(path))
            rods = {int(self.rows[k][0]) for k in passed if self.kind[k] == ROD}
            beyond += sorted(t for rod in rods for t in of_rods[rod] if t not in passed)
            beyond_start.append(len(beyond))
        whole = (self.parent, self.kind, self.rows)
        parent, kind, rows = (np.array(column, np.int64) for column in whole)
        modes = np.array(self.modes, float).reshape(-1, 2)
        return RodArrays(
            parent, kind, rows.reshape(-1, 7), np.array(self.step), np.array(self.reference),
            np.array(self.first_mode, np.int64), modes, np.array(self.before), np.array(self.after),
            np.array(self.inertia), np.array(start, np.int64), np.array(path, np.int64),
            np.array(beyond_start, np.int64), np.array(beyond, np.int64),
            np.concatenate([base[0].ravel(), base[1]]), gravity.copy(), np.array([n], np.int64),
        )  # fmt: skip


def joint_motion(joint: Joint | Helical) -> tuple[list[int], np.ndarray]:
    """Components [angular; linear] that the joint moves in its standard frame, and that frame's axes (3, 3)."""
    if isinstance(joint, Helical):
        return [2], _frame_with_z(np.array(joint.axis))
    if isinstance(joint, (Revolute, Continuous, Prismatic)):
        axes, _ = joint.motion_subspace()
        return [5 if isinstance(joint, Prismatic) else 2], _frame_with_z(axes[0])
    if isinstance(joint, Planar):
        return [2, 3, 4], joint.alignment()
    if isinstance(joint, Spherical):
        return [0, 1, 2], np.eye(3)
    if isinstance(joint, Translation):
        return [3, 4, 5], np.eye(3)
    if isinstance(joint, FreeFlyer):
        return list(range(6)), np.eye(3)
    return [], np.eye(3)


def _frame_with_z(axis: np.ndarray) -> np.ndarray:
    """A rotation (3, 3) whose third column is the axis."""
    x = np.eye(3)[int(np.argmin(np.abs(axis)))]
    x = x - (x @ axis) * axis
    x = x / np.linalg.norm(x)
    return np.column_stack([x, np.cross(axis, x), axis])


def inertia_about_frame(mass: float, com: np.ndarray, symmetric: np.ndarray) -> np.ndarray:
    """Mass, first moment, and xx xy xz yy yz zz of the inertia about the frame's origin."""
    I = symmetric + mass * (com @ com * np.eye(3) - np.outer(com, com))
    return np.concatenate([[mass], mass * com, I[np.triu_indices(3)]])


# --------------------------------------------------------------------------------------------
# A joint that closes a chain, as a builder stores it.

Pose = tuple[np.ndarray, np.ndarray]



def has_rows(joint: Joint) -> bool:
    """True if the joint is represented by constraint rows; otherwise by a fixed joint and coordinates of its own."""
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
        """True if axes of both sides (3, 3) that satisfy the constraints differ by a rotation of about half a turn."""
        cosines = np.diag(axes[0].T @ axes[1])
        if isinstance(self.joint, Spherical):
            return False
        return bool((cosines[2:] if isinstance(self.joint, Revolute) else cosines).min() < 0.5)
