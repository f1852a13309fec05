"""Springs, actuators, loops and couplings of a robot, as loaded or built."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple, Self, TypeVar

import numpy as np

from dynamics.validation import as_array, as_kind, as_name, as_not_negative, as_number

LOOP_KINDS = ("ball", "hinge", "weld")

Ratios = tuple[tuple[str, float], ...]
"""Names of joints of one degree of freedom and their ratios."""


def as_ratios(name: str, joints: Mapping[str, float]) -> Ratios:
    """Joints with nonzero ratios; ValueError if there are none, TypeError for a value that is not a mapping."""
    given = as_kind(name, joints, Mapping, "a mapping of names of joints to ratios")
    ratios = tuple((str(joint), as_number(f"{name}[{joint!r}]", ratio)) for joint, ratio in given.items())
    kept = tuple((joint, ratio) for joint, ratio in ratios if ratio != 0.0)
    if not kept:
        raise ValueError(f"{name}: got {dict(given)!r}, expected at least one joint with a ratio other than zero")
    return kept


@dataclass(frozen=True)
class _OnJoints:
    """Base of attachments that act on the sum s = sum_j r_j q_j over joints of one degree of freedom."""

    joints: Ratios

    def renamed(self, prefix: str) -> Self:
        """The same on joints whose names have this prefix, for combined robots."""
        return replace(self, joints=tuple((prefix + joint, ratio) for joint, ratio in self.joints))

    def without(self, joint: str, q: float) -> Self | None:
        """The same after a joint is fixed at q; None if it was the last one."""
        left = tuple((name, ratio) for name, ratio in self.joints if name != joint)
        return replace(self, joints=left) if left else None


@dataclass(frozen=True)
class Spring(_OnJoints):
    """A spring and damper on s = sum_j r_j q_j with energy stiffness (s - rest)^2 / 2: its force on joint j is
    -r_j (stiffness (s - rest) + damping sdot).

    With one joint it is the joint's own spring, with a motor's rotor and the link behind its gear a series elastic
    joint, with several joints a tendon.  Stiffness and damping in N m/rad or N/m and those times seconds; rest in units
    of s.
    """

    stiffness: float
    rest: float = 0.0
    damping: float = 0.0

    def without(self, joint: str, q: float) -> Self | None:
        held = dict(self.joints).get(joint, 0.0) * q
        left = super().without(joint, q)
        return None if left is None else replace(left, rest=self.rest - held)


@dataclass(frozen=True)
class Actuator(_OnJoints):
    """A motor with force u between `lower` and `upper`, which acts on joint j with r_j u; r_j is a gear's ratio, or the
    moment arm of a tendon."""

    name: str
    lower: float = -np.inf
    upper: float = np.inf

    def renamed(self, prefix: str) -> Self:
        return replace(super().renamed(prefix), name=prefix + self.name)


@dataclass(frozen=True)
class _OnFrames:
    """Base of actuators on frames: their force on the joints depends on the configuration, and their columns of B are
    zero."""

    name: str
    joints: ClassVar[Ratios] = ()

    def without(self, joint: str, q: float) -> Self | None:
        """The same, since frames remain when a joint is fixed."""
        return self


@dataclass(frozen=True)
class Thruster(_OnFrames):
    """A force and a moment, N and N m per unit of control, in the axes of the frame that carries it."""

    frame: str
    wrench: tuple[float, ...]
    lower: float = -np.inf
    upper: float = np.inf

    @property
    def frames(self) -> tuple[str, ...]:
        """The frame that carries it."""
        return (self.frame,)

    def renamed(self, prefix: str) -> Self:
        """The same on a frame whose name has this prefix."""
        return replace(self, name=prefix + self.name, frame=prefix + self.frame)


@dataclass(frozen=True)
class LinearActuator(_OnFrames):
    """A force, N per unit of control, that pushes the origins of two frames apart: a cylinder, a cable, a muscle."""

    frame1: str
    frame2: str
    ratio: float = 1.0
    lower: float = -np.inf
    upper: float = np.inf

    @property
    def frames(self) -> tuple[str, ...]:
        """The frames that it pushes apart."""
        return (self.frame1, self.frame2)

    def renamed(self, prefix: str) -> Self:
        """The same between frames whose names have this prefix."""
        return replace(self, name=prefix + self.name, frame1=prefix + self.frame1, frame2=prefix + self.frame2)


AnyActuator = Actuator | Thruster | LinearActuator


@dataclass(frozen=True)
class Coupling(_OnJoints):
    """A linear coupling of joints: sum_j r_j q_j = offset."""

    offset: float = 0.0

    def without(self, joint: str, q: float) -> Self | None:
        held = dict(self.joints).get(joint, 0.0) * q
        left = super().without(joint, q)
        return None if left is None else replace(left, offset=self.offset - held)


@dataclass(frozen=True)
class Mimic:
    """A mimic joint and its source, both of one degree of freedom: q = multiplier q_source + offset."""

    joint: str
    source: str
    multiplier: float = 1.0
    offset: float = 0.0

    def renamed(self, prefix: str) -> Self:
        """The same of joints whose names have this prefix."""
        return replace(self, joint=prefix + self.joint, source=prefix + self.source)


def resolved(mimics: Iterable[Mimic]) -> list[Mimic]:
    """The same mimic joints with independent joints as sources; ValueError for joints that mimic each other."""
    by_joint = {mimic.joint: mimic for mimic in mimics}
    found: dict[str, Mimic] = {}
    for joint in by_joint:
        path: dict[str, None] = {}
        while joint in by_joint and joint not in found:
            if joint in path:
                names = ", ".join(map(repr, path))
                raise ValueError(f"source: joints {names} mimic each other, expected an independent one")
            path[joint] = None
            joint = by_joint[joint].source
        for name in reversed(path):
            mimic = by_joint[name]
            if (further := found.get(mimic.source)) is not None:
                factor, offset = mimic.multiplier, mimic.offset
                mimic = Mimic(name, further.source, factor * further.multiplier, factor * further.offset + offset)
            found[name] = mimic
    return [found[joint] for joint in by_joint]


@dataclass(frozen=True)
class Loop:
    """Two frames at which a joint closes a chain; see `LoopConstraint`."""

    frame1: str
    frame2: str
    kind: str = "ball"
    axis: str = "z"

    def renamed(self, prefix: str) -> Self:
        """The same between frames whose names have this prefix."""
        return replace(self, frame1=prefix + self.frame1, frame2=prefix + self.frame2)


Part = TypeVar("Part", bound=Spring | Actuator | Thruster | LinearActuator | Coupling)


def spring(
    joints: Mapping[str, float], stiffness: float, rest: float = 0.0, damping: float = 0.0, label: str = ""
) -> Spring:
    """A spring of checked parameters; ValueError for negative ones, or no joints."""
    values = {"stiffness": stiffness, "rest": rest, "damping": damping}
    numbers = {name: (as_number if name == "rest" else as_not_negative)(label + name, x) for name, x in values.items()}
    return Spring(as_ratios(label + "joints", joints), **numbers)


def limits_of(label: str, lower: float, upper: float) -> tuple[float, float]:
    """Checked limits of a control; ValueError if they cross."""
    limits = {"lower": lower, "upper": upper}
    low, high = (float(as_array(label + side, value, (), allow_infinite=True)) for side, value in limits.items())
    if not low <= high:
        raise ValueError(f"{label}lower: got {low}, above upper, {high}, expected lower <= upper")
    return low, high


def actuator(name: str, joints: Mapping[str, float], lower: float = -np.inf, upper: float = np.inf) -> Actuator:
    """An actuator of checked parameters; ValueError for limits that cross, or no joints."""
    label = f"actuator {as_name('name', name)!r}: "
    low, high = limits_of(label, lower, upper)
    return Actuator(as_ratios(label + "joints", joints), name, low, high)


def locked_parts(parts: Iterable[Part], joint: str, q: float) -> list[Part]:
    """Springs, actuators or couplings after a joint is fixed at q."""
    return [left for part in parts if (left := part.without(joint, q)) is not None]


class Springs(NamedTuple):
    """All springs of a robot, with forces -(K q + D v - c)."""

    K: np.ndarray  # (nv, nv)
    D: np.ndarray
    c: np.ndarray  # (nv,)
