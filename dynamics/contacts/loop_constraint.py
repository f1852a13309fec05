"""Loop closures between two frames of a robot and couplings of joints: their constraint rows and their errors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np

from dynamics.algorithms.configuration import random_configuration
from dynamics.algorithms.frames import FRAME, frame_jacobian, frame_numbers, frame_placement
from dynamics.contacts.frame_contact import FEEDBACK, as_gains
from dynamics.model.attachments import LOOP_KINDS, as_ratios
from dynamics.model.model import RigidBodyModel
from dynamics.validation import as_choice, as_kind, as_name, as_number, as_positive, unknown_name

# --------------------------------------------------------------------------------------------
# Pairs of points of a loop at configurations: their distance, their motion, and the rows that remain.

VANISHING = 1e-5
"""A row counts as zero if at no sample an entry of its Jacobian is more than this times the largest of the loop: chains
that are planar but for parameters like 1.5708 for a right angle are not locked by a rounded digit."""
SAMPLES = 3


class PairMotion(NamedTuple):
    """Motion of P pairs of points, each with the same offset in both frames; world axes."""

    apart: np.ndarray  # (K, P, 3), m, from the second point to the first
    J: np.ndarray  # (K, P, 3, nv)
    turns: tuple[np.ndarray, np.ndarray]  # (K, 3, 3) rotations of the frames


class LoopRows(NamedTuple):
    """Errors of the rows of a loop, m, and their Jacobian for points that coincide."""

    error: np.ndarray  # (rows,) or (K, rows)
    J: np.ndarray  # (rows, nv) or (K, rows, nv)


def pair_motion(model: RigidBodyModel, q: np.ndarray, frames: tuple[str, str], offsets: np.ndarray) -> PairMotion:
    """Motion of the pairs of points at configurations q (K, nq); offsets (P, 3), m."""
    apart, J = np.zeros((len(q), len(offsets), 3)), np.zeros((len(q), len(offsets), 3, model.nv))
    turns = []
    for frame, sign in zip(frames, (1.0, -1.0), strict=True):
        R, p = frame_placement(model, q, frame)
        columns = frame_jacobian(model, q, frame)[:, None]
        arms = np.einsum("kij,pj->kpi", R, offsets)
        apart += sign * (p[:, None] + arms)
        J += sign * (columns[:, :, :3] - np.cross(arms[..., None], columns[:, :, 3:], axis=2))
        turns.append(R)
    return PairMotion(apart, J, (turns[0], turns[1]))


def loop_rows(model: RigidBodyModel, q: np.ndarray, loop: LoopConstraint) -> LoopRows:
    """T'(p_1 - p_2) of all pairs of points, without masked rows; q (K, nq)."""
    offsets, kept = (np.array(x) for x in zip(*loop.pairs, strict=True))
    error, J = _along_axes(pair_motion(model, q, loop.frames, offsets), loop.kind)
    held = kept.ravel() != 0.0
    return LoopRows(error[:, held], J[:, held])


def _along_axes(motion: PairMotion, kind: str) -> tuple[np.ndarray, np.ndarray]:
    """T'(p_1 - p_2) (K, 3 P) and its Jacobian (K, 3 P, nv), T the world's axes for a ball, else those of frame2."""
    K, P, _, n = motion.J.shape
    T = np.broadcast_to(np.eye(3), (K, 3, 3)) if kind == "ball" else motion.turns[1]
    error, J = np.einsum("kji,kpj->kpi", T, motion.apart), np.einsum("kji,kpjl->kpil", T, motion.J)
    return error.reshape(K, 3 * P), J.reshape(K, 3 * P, n)


def moving_rows(model: RigidBodyModel, frames: tuple[str, str], kind: str, offsets: np.ndarray) -> np.ndarray:
    """Mask (P, 3): 1.0 for the rows that move at one of several random configurations, else 0.0, as for the rows across
    the plane of a planar mechanism."""
    rng = np.random.default_rng(0)
    q = np.array([random_configuration(model, rng) for _ in range(SAMPLES)])
    sizes = np.abs(_along_axes(pair_motion(model, q, frames, offsets), kind)[1]).max(axis=(0, 2), initial=0.0)
    return (sizes > VANISHING * sizes.max()).astype(float).reshape(-1, 3)


def loop_gap(model: RigidBodyModel, q: np.ndarray, loop: LoopConstraint) -> tuple[float, float]:
    """Distance of the origins at q (nq,), m, and the angle between the axes of a hinge or the frames of a weld, rad;
    zero for a ball."""
    motion = pair_motion(model, q[None], loop.frames, np.zeros((1, 3)))
    R1, R2 = (R[0] for R in motion.turns)
    chord = {"ball": 0.0, "hinge": np.linalg.norm((R1 - R2)[:, loop.number_of_axis])}.get(
        loop.kind, np.linalg.norm(R1 - R2) / np.sqrt(2.0)
    )
    return float(np.linalg.norm(motion.apart)), float(2.0 * np.arcsin(min(0.5 * chord, 1.0)))


# --------------------------------------------------------------------------------------------
# Closed chains: two frames of one robot that are joined, and joints that are coupled, as by a gear.

AXES = {"x": 0, "y": 1, "z": 2}


@dataclass(frozen=True, eq=False, repr=False)
class LoopConstraint:
    """Two frames joined by a ball, a hinge or a weld, as constraints on pairs of points, one fixed to each frame.

        T'(X_1 - X_2) = 0,        X = a_c + kd v_c + kp p        of the points of a pair

    A ball constrains the origins; T are the axes of the world.  A hinge about an axis of the frames constrains the
    origins and, across the axis, a pair of points at a distance along it; a weld constrains the origins, two rows of a
    pair along x, and one of a pair along y: three, five and six rows, T those of frame2.  So no rotation error is
    needed, and the rows are valid for any motion of both bodies.  Rows that no joint moves, as those across the plane
    of a planar mechanism, are left out; rows that depend on others are detected as those of contacts.

    Parameters
    ----------
    model : RigidBodyModel
    frame1, frame2 : names of `model.frame_names` on two bodies, one of which may be the world
    kind : "ball" (default), "hinge" or "weld"
    gains : (kp, kd), 1/s^2 and 1/s, neither negative: Baumgarte's feedback, which takes drift back, by default within
        some tenths of a second
    axis : "x", "y" or "z" of both frames, about which a hinge rotates
    size : distance of the points of further pairs, m; best of the order of the links' lengths

    Attributes
    ----------
    frame : the name "frame1 - frame2", under which systems report its force and moment: those on the body of frame1 at
        the frames' origin, in the axes of the world for a ball, else in those of frame2

    Raises
    ------
    ValueError : unknown frames (with the nearest matches), both on one body, another kind or axis, gains that are no
        such pair, or a size that is not positive.
    """

    model: RigidBodyModel
    frame1: str
    frame2: str
    kind: str = "ball"
    gains: tuple[float, float] = FEEDBACK
    axis: str = "z"
    size: float = 0.2

    turns: ClassVar[bool] = True
    local: ClassVar[bool] = False

    def __post_init__(self) -> None:
        bodies = [frame_numbers(self.model, as_name(name, getattr(self, name)))[0] for name in ("frame1", "frame2")]
        if bodies[0] == bodies[1]:
            where = "the world" if bodies[0] < 0 else f"body {self.model.body_names[bodies[0]]!r}"
            raise ValueError(f"frame2: got {self.frame2!r} on {where}, as {self.frame1!r}, expected another body")
        as_choice("kind", self.kind, LOOP_KINDS)
        as_choice("axis", self.axis, AXES)
        object.__setattr__(self, "gains", as_gains(self.gains))
        object.__setattr__(self, "size", as_positive("size", self.size))

    @property
    def frame(self) -> str:
        """Name used in messages and reports."""
        return f"{self.frame1} - {self.frame2}"

    @property
    def place(self) -> str:
        """A frame at which pictures show it."""
        return self.frame1

    def __repr__(self) -> str:
        return f"LoopConstraint({self.frame1!r}, {self.frame2!r}, {self.kind!r}, gains={self.gains})"

    @property
    def frames(self) -> tuple[str, str]:
        """The two frames."""
        return self.frame1, self.frame2

    @property
    def number_of_axis(self) -> int:
        """0, 1 or 2 for x, y or z."""
        return AXES[self.axis]

    @property
    def offsets(self) -> np.ndarray:
        """Offset of the points of each pair in the frames (P, 3), m."""
        further = {"ball": [], "hinge": [self.number_of_axis], "weld": [0, 1]}[self.kind]
        return np.vstack([np.zeros(3), self.size * np.eye(3)[further]])

    @cached_property
    def pairs(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """Offset (3,) of the points of each pair in the frames, m, and the mask (3,) of its rows: one for those of the
        kind that move at all, else zero."""
        e = np.eye(3)
        further = {"ball": [], "hinge": [1.0 - e[self.number_of_axis]], "weld": [1.0 - e[0], e[2]]}[self.kind]
        kept = moving_rows(self.model, self.frames, self.kind, self.offsets) * [np.ones(3), *further]
        return list(zip(self.offsets, kept, strict=True))

    def endpoints(self, rows: list[int], first: int) -> list[dict[str, Any]]:
        """Fields of loop arrays of each endpoint, for blocks of these numbers; endpoints are counted from `first`."""
        found: list[dict[str, Any]] = []
        for row, (offset, kept) in zip(rows, self.pairs, strict=True):
            sides = []
            for frame, sign in ((self.frame1, 1.0), (self.frame2, -1.0)):
                body, numbers = frame_numbers(self.model, frame)
                place = np.array(numbers)
                place[9:] += place[:9].reshape(3, 3) @ offset
                sides.append((body, place, sign))
            (body1, place1, _), (body2, place2, _) = sides
            moving = [(body, place, sign) for body, place, sign in sides if body >= 0]
            turns = self.kind != "ball" and body2 >= 0
            fixed = np.eye(3).ravel() if self.kind == "ball" or body2 >= 0 else place2[:9]
            away = place2[9:] if body2 < 0 else place1[9:] if body1 < 0 else np.zeros(3)
            second = first + len(found) + len(moving) - 1
            found += [
                {
                    "body": body, "frame": place.reshape(FRAME), "point": place[9:].copy(), "angular": 0,
                    "gains": np.array(self.gains), "reference": away, "turn": np.eye(3).ravel(), "local": 0, "row": row,
                    "sign": sign, "axes": second if turns else -1, "fixed_axes": fixed, "kept": kept,
                }
                for body, place, sign in moving
            ]  # fmt: skip
        return found

    def wrench_map(self) -> np.ndarray:
        """(6, 3 pairs): force and moment about the origin from the forces of the rows, without masked ones."""
        columns = []
        for offset, kept in self.pairs:
            x, y, z = offset
            lever = np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])
            columns.append(np.vstack([np.eye(3), lever]) * kept)
        return np.hstack(columns)


@dataclass(frozen=True, eq=False, repr=False)
class JointCoupling:
    """Joints of one degree of freedom each that move together: sum_j r_j q_j = offset.

        ds/dt + kd s + kp (sum_j r_j q_j - offset) = 0,        s = sum_j r_j v_j

    Parameters
    ----------
    model : RigidBodyModel
    joints : names of joints and their ratios r_j
    offset : value of the sum of r_j q_j, rad or m times the ratios; zero by default
    gains : (kp, kd), 1/s^2 and 1/s, neither negative: Baumgarte's feedback, which takes drift back, as that of
        `LoopConstraint`, by default within some tenths of a second

    Raises
    ------
    ValueError : unknown joints, one of several degrees of freedom, or fewer than two; an offset that is no finite
        number, or gains that are no such pair.
    TypeError : joints that are no mapping.
    """

    model: RigidBodyModel
    joints: Mapping[str, float]
    offset: float = 0.0
    gains: tuple[float, float] = FEEDBACK

    turns: ClassVar[bool] = True
    local: ClassVar[bool] = False

    def __post_init__(self) -> None:
        as_kind("model", self.model, RigidBodyModel)
        ratios = as_ratios("joints", self.joints)
        moving = dict(zip(self.model.joint_names, self.model.joint_nv, strict=True))
        for name, _ in ratios:
            if name not in moving:
                raise unknown_name("joints", name, moving)
            if moving[name] != 1:
                raise ValueError(f"joints: {name!r} has {moving[name]} degrees of freedom, expected one")
        if len(ratios) < 2:
            raise ValueError(f"joints: got {dict(ratios)!r}, expected at least two joints")
        object.__setattr__(self, "joints", dict(ratios))
        object.__setattr__(self, "offset", as_number("offset", self.offset))
        object.__setattr__(self, "gains", as_gains(self.gains))

    @property
    def frame(self) -> str:
        """Name used in messages and reports."""
        return " - ".join(self.joints)

    @property
    def place(self) -> str:
        """A frame at which pictures show it."""
        return self.model.body_names[self.model.joint_index(next(iter(self.joints)))]

    def __repr__(self) -> str:
        return f"JointCoupling({self.joints!r}, offset={self.offset}, gains={self.gains})"

    @property
    def row(self) -> np.ndarray:
        """The ratios (1, nv)."""
        row = np.zeros((1, self.model.nv))
        for entry in self.entries(0):
            row[0, entry["dof"]] = entry["ratio"]
        return row

    def gap(self, q: np.ndarray) -> np.ndarray:
        """sum_j r_j q_j - offset (...) at configurations q (..., nq)."""
        places = [self.model.q_index[self.model.joint_index(joint)] for joint in self.joints]
        return q[..., places] @ np.array(list(self.joints.values())) - self.offset

    def entries(self, row: int) -> list[dict[str, Any]]:
        """Fields of loop arrays of each joint of the coupling, in this row."""
        m = self.model
        return [
            {
                "row": row, "dof": m.v_index[m.joint_index(joint)], "ratio": ratio, "gains": self.gains,
                "offset": self.offset if i == 0 else 0.0,
            }
            for i, (joint, ratio) in enumerate(self.joints.items())
        ]  # fmt: skip
