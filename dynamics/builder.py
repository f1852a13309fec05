"""Building a robot model body by body.

Every link becomes part of one moving body: its own, or, if its joint is fixed, that of its nearest moving ancestor (or
the world). `build` walks the tree once depth-first, so that bodies are numbered parents first, children in the order in
which they were added, and adds up the inertia of each moving body about the origin of its frame.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from dynamics.body_inertia import BodyInertia, inertia_defect, leaf_defect
from dynamics.joint_parameters import dof_parameters, position_limits
from dynamics.joints import Joint
from dynamics.model import Frame, RigidBodyModel
from dynamics.model_arrays import ModelArrays, model_arrays
from dynamics.simd.caller import warn
from dynamics.validation import as_array, as_flag, as_inertia, as_name, as_placement, unknown_name

WORLD = -1

Placement = tuple[ArrayLike, ArrayLike]


@dataclass(frozen=True)
class _Link:
    name: str
    parent: int  # number of the parent link, or WORLD
    joint: Joint
    joint_name: str | None
    placement: tuple[np.ndarray, np.ndarray]  # joint frame in the parent link
    mass: float
    com: np.ndarray
    inertia: np.ndarray
    per_position: dict[str, np.ndarray]  # lower, upper (nq,)
    per_dof: dict[str, np.ndarray]  # velocity, effort, armature, damping, friction (nv,)
    defect: str | None  # why the inertia is not physical


class ModelBuilder:
    """Builds a `RigidBodyModel` from bodies added one by one, each after its parent.

    Parameters
    ----------
    gravity : (3,) acceleration in the world frame, m/s^2
    name : name of the model
    strict : if False, a body whose own inertia no rigid body can have (placeholders are common in published files) is
        only warned about, provided that the moving body it becomes part of is physical
    """

    def __init__(self, gravity: ArrayLike = (0.0, 0.0, -9.81), name: str = "robot", strict: bool = True) -> None:
        self._gravity = as_array("gravity", gravity, (3,)).copy()
        self._name = as_name("name", name)
        self._strict = as_flag("strict", strict)
        self._links: list[_Link] = []
        self._numbers: dict[str, int] = {}
        self._joint_names: set[str] = set()
        self._added_frames: dict[str, tuple[int, tuple[np.ndarray, np.ndarray]]] = {}

    def add_body(
        self,
        name: str,
        parent: str,
        joint: Joint,
        joint_name: str | None = None,
        placement: Placement | None = None,
        mass: float = 0.0,
        com: ArrayLike = (0.0, 0.0, 0.0),
        inertia: ArrayLike | None = None,
        armature: ArrayLike = 0.0,
        lower: ArrayLike | None = None,
        upper: ArrayLike | None = None,
        velocity: ArrayLike | None = None,
        effort: ArrayLike | None = None,
        damping: ArrayLike = 0.0,
        friction: ArrayLike = 0.0,
    ) -> None:
        """Add a body, carried by a joint that is attached to its parent.

        Parameters
        ----------
        name : name of the body, also of its frame
        parent : name of a body added before, or "world" (unless a body has been given that name)
        joint : a joint of `dynamics.joints`
        joint_name : by default "<name>_joint"; without it a fixed joint has no frame
        placement : (R, p), joint frame in the parent frame at zero motion, x_parent = R x + p; by default the identity
        mass : kg
        com : (3,) centre of mass in the body frame, m
        inertia : (3, 3) about the centre of mass, body axes, kg m^2; by default zero, a point mass
        armature, damping, friction : (nv,) or one number for every dof; not negative
        lower, upper : (nq,), position limits, or one number where nq = nv; by default none. Not for continuous joints
        velocity, effort : (nv,) or one number for every dof; by default unlimited

        Raises
        ------
        ValueError
            On duplicate names, an unknown parent, and values out of range; the message names the body and argument.
        TypeError
            If `joint` is not a joint.
        """
        _require_new("name", name, body=self._numbers, frame=self._added_frames)
        label = f"body {name!r}: "
        if not isinstance(joint, Joint):
            raise TypeError(f"{label}joint: got {joint!r}, expected a joint such as Revolute('z')")
        if joint_name is None and joint.nv > 0:
            joint_name = f"{name}_joint"
        if joint_name is not None:
            _require_new(label + "joint_name", joint_name, joint=self._joint_names, frame=self._added_frames)
        parent_number = self._number(label + "parent", parent)
        mass = float(as_array(label + "mass", mass, ()))
        if mass < 0.0:
            raise ValueError(f"{label}mass: got {mass}, expected a number >= 0")
        symmetric = as_inertia(label + "inertia", inertia)
        defect = inertia_defect(mass, symmetric)
        if defect and self._strict:
            raise ValueError(f"{label}inertia: {defect}")
        link = _Link(
            name=name,
            parent=parent_number,
            joint=joint,
            joint_name=joint_name,
            placement=as_placement(label + "placement", placement),
            mass=mass,
            com=as_array(label + "com", com, (3,)).copy(),
            inertia=symmetric,
            per_position=position_limits(label, joint, lower, upper),
            per_dof=dof_parameters(
                label, joint, armature=armature, damping=damping, friction=friction, velocity=velocity, effort=effort
            ),
            defect=defect,
        )
        self._numbers[name] = len(self._links)
        self._links.append(link)
        if joint_name is not None:
            self._joint_names.add(joint_name)

    def add_frame(self, name: str, body: str, placement: Placement | None = None) -> None:
        """Add a frame fixed to a body, or to "world", at `placement` (R, p): x_body = R x + p.

        Raises ValueError on a name that a body, joint or frame already has, an unknown body, or an invalid placement.
        """
        _require_new("name", name, body=self._numbers, joint=self._joint_names, frame=self._added_frames)
        number = self._number(f"frame {name!r}: body", body)
        self._added_frames[name] = (number, as_placement(f"frame {name!r}: placement", placement))

    def build(self) -> RigidBodyModel:
        """The model of all bodies added so far; the builder may go on and build again.

        Raises ValueError if nothing moves, if a leaf of the moving tree has no mass or no inertia along its joint, if
        frame names clash, or if numbers are so large that they overflow.
        """
        order = self._depth_first()
        moving = [number for number in order if self._links[number].joint.nv > 0]
        if not moving:
            raise ValueError("the model is empty: expected at least one body with a joint that moves")
        links = [self._links[number] for number in moving]
        joints = tuple(link.joint for link in links)
        with np.errstate(over="ignore", invalid="ignore"):
            anchors, parents, placements = self._anchors(order)
            frames = self._frames(order, anchors)
            inertias = self._lumped_inertias(order, anchors, len(moving))
            arrays = model_arrays(joints, parents, placements, inertias, _joined(links, "armature"), self._gravity)
            _check_finite(frames, arrays, links)
            self._check_inertias(links, parents, inertias, anchors)
        return RigidBodyModel(
            name=self._name,
            joints=joints,
            joint_names=tuple(str(link.joint_name) for link in links),
            body_names=tuple(link.name for link in links),
            arrays=arrays,
            frames=frames,
            lower_position=np.concatenate([link.per_position["lower"] for link in links]),
            upper_position=np.concatenate([link.per_position["upper"] for link in links]),
            velocity_limit=_joined(links, "velocity"),
            effort_limit=_joined(links, "effort"),
            damping=_joined(links, "damping"),
            friction=_joined(links, "friction"),
        )

    def _number(self, argument: str, name: str) -> int:
        if as_name(argument, name) in self._numbers:
            return self._numbers[name]
        if name == "world":
            return WORLD
        error = unknown_name("body", name, [*self._numbers, "world"])
        raise ValueError(f"{argument}: {error}, expected a body added before or 'world'")

    def _depth_first(self) -> list[int]:
        """Numbers of all links, each after its parent, a whole subtree before the next one."""
        children: dict[int, list[int]] = {}
        for number, link in enumerate(self._links):
            children.setdefault(link.parent, []).append(number)
        order, pending = [], [WORLD]
        while pending:
            number = pending.pop()
            order.append(number)
            pending.extend(reversed(children.get(number, ())))
        return order[1:]

    def _anchors(self, order: list[int]) -> tuple[dict[int, Frame], list[int], list[tuple[np.ndarray, np.ndarray]]]:
        """Each link's frame in its moving body, and each moving body's parent and joint placement in that parent."""
        anchors = {WORLD: Frame(-1, np.eye(3), np.zeros(3))}
        parents, placements = [], []
        for number in order:
            link = self._links[number]
            joint_frame = _compose(anchors[link.parent], link.placement)
            if link.joint.nv == 0:
                anchors[number] = joint_frame
                continue
            alignment = link.joint.alignment()
            parents.append(joint_frame.body)
            placements.append((joint_frame.R @ alignment, joint_frame.p))
            anchors[number] = Frame(len(parents) - 1, alignment.T, np.zeros(3))
        return anchors, parents, placements

    def _lumped_inertias(self, order: list[int], anchors: dict[int, Frame], nb: int) -> list[BodyInertia]:
        """Sum of the inertias of all links of each moving body; links of the world enter nothing."""
        sums = [BodyInertia.zero()] * nb
        for number in order:
            link, frame = self._links[number], anchors[number]
            if frame.body != WORLD:
                part = BodyInertia.of_link(link.mass, frame.R @ link.com + frame.p, frame.R @ link.inertia @ frame.R.T)
                sums[frame.body] = sums[frame.body].plus(part)
        return sums

    def _check_inertias(
        self, links: list[_Link], parents: list[int], inertias: list[BodyInertia], anchors: dict[int, Frame]
    ) -> None:
        suspicious = [number for number, link in enumerate(self._links) if link.defect]
        suspects = {anchors[number].body for number in suspicious}
        inner = set(parents)
        for body, (link, inertia) in enumerate(zip(links, inertias, strict=True)):
            label = f"body {link.name!r}: "
            defect = inertia_defect(inertia.mass, inertia.about_com()) if body in suspects else None
            if defect:
                raise ValueError(f"{label}inertia, with what is fixed to the body: {defect}")
            defect = leaf_defect(link.joint, inertia, link.per_dof["armature"]) if body not in inner else None
            if defect:
                raise ValueError(f"{label}{defect}")
        if suspicious:
            names = ", ".join(repr(self._links[number].name) for number in suspicious)
            warn(
                f"no body can have the inertia given for {names}; used as given, because the moving bodies they are "
                f"fixed to are physical (the first: {self._links[suspicious[0]].defect})"
            )

    def _frames(self, order: list[int], anchors: dict[int, Frame]) -> dict[str, Frame]:
        """All frames by name: links and joints in depth-first order, then those added by hand."""
        frames = {}
        for number in order:
            link = self._links[number]
            frames[link.name] = anchors[number]
            joint_name = link.joint_name
            if joint_name is None:
                continue
            if joint_name in self._numbers:
                joint_name += "_joint"
                if joint_name in self._numbers or joint_name in self._joint_names or joint_name in self._added_frames:
                    raise ValueError(
                        f"joint_name: a body and a joint are both named {link.joint_name!r}, and so the joint's frame "
                        f"would be {joint_name!r}, which is taken; expected distinct names"
                    )
            frames[joint_name] = anchors[number]
        for name, (number, placement) in self._added_frames.items():
            frames[name] = _compose(anchors[number], placement)
        return {name: Frame(frame.body, frame.R.copy(), frame.p.copy()) for name, frame in frames.items()}


def _compose(frame: Frame, placement: tuple[np.ndarray, np.ndarray]) -> Frame:
    """The frame at `placement` (R, p) in another frame, on the same body."""
    R, p = placement
    return Frame(frame.body, frame.R @ R, frame.R @ p + frame.p)


def _require_new(argument: str, name: str, **taken: Container[str]) -> None:
    """A nonempty name that nothing among the kinds in `taken` bears."""
    as_name(argument, name)
    for kind, names in taken.items():
        if name in names:
            raise ValueError(f"{argument}: there already is a {kind} {name!r}, expected a new name")


def _check_finite(frames: dict[str, Frame], arrays: ModelArrays, links: list[_Link]) -> None:
    """Finite numbers may still overflow when they are multiplied and added up."""
    too_large = [f"the placement of frame {name!r}" for name, frame in frames.items() if not np.isfinite(frame.p).all()]
    for field in ("translation", "first_moment", "rotational_inertia", "subtree_mass"):
        finite = np.isfinite(getattr(arrays, field)).reshape(len(links), -1).all(axis=1)
        too_large += [f"the {field} of body {links[body].name!r}" for body in np.flatnonzero(~finite)]
    if not np.isfinite(arrays.mass.sum()):
        too_large.append("the total mass")
    if too_large:
        raise ValueError(f"{too_large[0]} overflows, expected numbers in SI units")


def _joined(links: list[_Link], figure: str) -> np.ndarray:
    return np.concatenate([link.per_dof[figure] for link in links])
