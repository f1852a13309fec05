"""What a builder keeps besides bodies: springs, actuators, loops, couplings and shapes, by names of joints, frames."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dynamics.attachments import (
    LOOP_KINDS,
    AnyActuator,
    Coupling,
    LinearActuator,
    Loop,
    Mimic,
    Ratios,
    Spring,
    Thruster,
    actuator,
    as_ratios,
    leaders,
    limits_of,
    locked_parts,
    spring,
)
from dynamics.geometry.geometry import Geometry
from dynamics.geometry.shapes import Shape
from dynamics.joints import Joint
from dynamics.links import Pose, compose, frame_at, relative, require_new
from dynamics.model import Frame, RigidBodyModel
from dynamics.validation import as_array, check_choice, look_up


class Parts:
    """Base of `ModelBuilder`."""

    def __init__(self) -> None:
        self._springs: list[Spring] = []
        self._actuators: list[AnyActuator] = []
        self._loops: list[Loop] = []
        self._couplings: list[Coupling] = []
        self._mimics: dict[str, Mimic] = {}  # by the joints that follow
        self._geometries: dict[str, tuple[int, Geometry]] = {}  # with the number of the link, in whose frame they lie

    def _moving(self) -> dict[str, Joint]:
        """Joints that move, by name."""
        raise NotImplementedError

    def _joint(self, name: str) -> Joint:
        """The joint that moves of a name; ValueError for an unknown one."""
        raise NotImplementedError

    def _add_armature(self, joint: str, armature: float) -> None:
        """To what a joint has."""
        raise NotImplementedError

    def _mount(self, argument: str, name: str, placement: Any, label: str) -> tuple[int, Pose]:
        """Number of the link that a placement in a link or frame, or the world, belongs to, and it in that link."""
        raise NotImplementedError

    def _carrier(self, name: str) -> int:
        """Number of the moving link that a body, joint or frame is on, or the world's."""
        raise NotImplementedError

    def _frame_names(self) -> Iterable[str]:
        """Names of all that is a frame."""
        raise NotImplementedError

    def add_spring(
        self, joints: Mapping[str, float], stiffness: float, rest: float = 0.0, damping: float = 0.0
    ) -> None:
        """Add a spring and damper on s = sum_j r_j q_j, with force -(stiffness (s - rest) + damping ds/dt).

        Parameters
        ----------
        joints : names of joints of one degree of freedom and their ratios r_j: one joint for its own spring, several
            for a tendon, a rotor and the link behind its gear for a series elastic joint
        stiffness : N m/rad, or N/m for s in metres; not negative
        rest : s at which the spring is slack
        damping : stiffness times seconds; not negative

        Raises ValueError for an unknown joint, one of several degrees of freedom, or figures out of range.
        """
        part = spring(joints, stiffness, rest, damping, "spring: ")
        self._check_joints("spring: joints", part.joints)
        self._springs.append(part)

    def add_actuator(
        self,
        name: str,
        joints: Mapping[str, float],
        lower: float = -np.inf,
        upper: float = np.inf,
        rotor_inertia: float = 0.0,
    ) -> None:
        """Add a motor of force or torque u between lower and upper, which pulls on each joint j with r_j u.

        Parameters
        ----------
        name : of the control
        joints : names of joints of one degree of freedom and their ratios r_j: a gear, or the moment arms of a tendon
        lower, upper : N m or N, at the motor; by default unlimited
        rotor_inertia : kg m^2, of a motor on one joint, which gets r_j^2 of it as armature; not negative

        Raises ValueError for a name that is taken, an unknown joint, one of several degrees of freedom, or limits that
        cross.
        """
        require_new("name", name, actuator=[part.name for part in self._actuators])
        part = actuator(name, joints, lower, upper)
        label = f"actuator {name!r}: "
        self._check_joints(f"{label}joints", part.joints)
        inertia = float(as_array(f"{label}rotor_inertia", rotor_inertia, ()))
        if inertia < 0.0 or (inertia > 0.0 and len(part.joints) > 1):
            wanted = "a number >= 0, zero where it pulls on several joints"
            raise ValueError(f"{label}rotor_inertia: got {inertia}, expected {wanted}")
        for joint, ratio in part.joints:
            self._add_armature(joint, ratio**2 * inertia)
        self._actuators.append(part)

    def add_thruster(
        self,
        name: str,
        frame: str,
        direction: ArrayLike = (0.0, 0.0, 1.0),
        moment_ratio: float = 0.0,
        lower: float = -np.inf,
        upper: float = np.inf,
        wrench: ArrayLike | None = None,
    ) -> None:
        """Add a force that a frame carries along, as that of a propeller; controls are newtons.

        Parameters
        ----------
        name : of the control
        frame : a body, joint or frame added before, at whose origin the force acts
        direction : (3,) of the force, in the frame's axes, of any length
        moment_ratio : m, moment about the direction per force: what a propeller's drag leaves, with its sign
        lower, upper : N; by default unlimited
        wrench : (6,) force and moment per unit of control, in the frame's axes, in place of both

        Raises ValueError for a name that is taken, an unknown frame or one in the world, no direction, or limits that
        cross.
        """
        label = self._new_actuator(name, (frame,))
        if self._carrier(frame) < 0:
            raise ValueError(f"{label}frame: {frame!r} is fixed in the world, expected one on a moving body")
        if wrench is None:
            along = as_array(f"{label}direction", direction, (3,))
            length = float(np.linalg.norm(along))
            if length == 0.0:
                raise ValueError(f"{label}direction: got {along.tolist()}, expected a vector of some length")
            ratio = float(as_array(f"{label}moment_ratio", moment_ratio, ()))
            wrench = np.concatenate([along, ratio * along]) / length
        numbers = as_array(f"{label}wrench", wrench, (6,))
        if not numbers.any():
            raise ValueError(f"{label}wrench: got zeros, expected a force or a moment")
        self._actuators.append(Thruster(name, frame, tuple(numbers.tolist()), *limits_of(label, lower, upper)))

    def add_linear_actuator(
        self, name: str, frame1: str, frame2: str, lower: float = -np.inf, upper: float = np.inf, ratio: float = 1.0
    ) -> None:
        """Add a force along the line between two frames' origins, which positive controls push apart: a cylinder, or
        with controls that are never positive a cable or a muscle.

        Parameters
        ----------
        name : of the control
        frame1, frame2 : bodies, joints or frames added before
        lower, upper : N; by default unlimited
        ratio : N per unit of control, not zero

        Raises ValueError for a name that is taken, an unknown frame, frames on one body, or limits that cross.
        """
        label = self._new_actuator(name, (frame1, frame2))
        force = float(as_array(f"{label}ratio", ratio, ()))
        if force == 0.0:
            raise ValueError(f"{label}ratio: got 0, expected another number")
        if self._carrier(frame1) == self._carrier(frame2):
            raise ValueError(f"{label}frame2: {frame1!r} and {frame2!r} are on one body, expected two")
        self._actuators.append(LinearActuator(name, frame1, frame2, force, *limits_of(label, lower, upper)))

    def _new_actuator(self, name: str, frames: Iterable[str]) -> str:
        """What errors begin with; ValueError for a name that is taken, or frames that there are not."""
        require_new("name", name, actuator=[part.name for part in self._actuators])
        known = dict.fromkeys(self._frame_names())
        for frame in frames:
            look_up("frame", frame, known)
        return f"actuator {name!r}: "

    def add_loop(self, frame1: str, frame2: str, kind: str = "ball", axis: str = "z") -> None:
        """Close a chain: systems of the robot hold two frames together, as `LoopConstraint` does, with its feedback, in
        steps of more than 0.05 s with a time constant of two steps.

        Parameters
        ----------
        frame1, frame2 : bodies, joints or frames added before
        kind : "ball", "hinge" or "weld"
        axis : of both frames, about which a hinge turns

        Raises ValueError for an unknown frame, kind or axis.
        """
        known = dict.fromkeys(self._frame_names())
        for name in (frame1, frame2):
            look_up("frame", name, known)
        check_choice("kind", kind, LOOP_KINDS)
        check_choice("axis", axis, "xyz")
        self._loops.append(Loop(frame1, frame2, kind, axis))

    def add_coupling(self, joints: Mapping[str, float], offset: float = 0.0) -> None:
        """Let joints of one degree of freedom move together: systems of the robot keep sum_j r_j q_j = offset, with the
        feedback of `JointCoupling`, in steps of more than 0.05 s with a time constant of two steps.

        Raises ValueError for an unknown joint, one of several degrees of freedom, or fewer than two joints.
        """
        part = Coupling(as_ratios("coupling: joints", joints), float(as_array("coupling: offset", offset, ())))
        self._check_joints("coupling: joints", part.joints)
        if len(part.joints) < 2:
            raise ValueError(f"coupling: joints: got {dict(part.joints)!r}, expected at least two joints")
        self._couplings.append(part)

    def add_mimic(self, joint: str, source: str, multiplier: float = 1.0, offset: float = 0.0) -> None:
        """Let a joint follow another one, q = multiplier q_source + offset: the robot has one coordinate for both.

        Limits of the source are narrowed by those of what follows it.  Raises ValueError for an unknown joint, one of
        several degrees of freedom, one that follows already, a circle, or a multiplier that is zero.
        """
        figures = {"multiplier": multiplier, "offset": offset}
        factor, start = (float(as_array(f"mimic {joint!r}: {name}", x, ())) for name, x in figures.items())
        if factor == 0.0:
            raise ValueError(f"mimic {joint!r}: multiplier: got 0, expected another number; a joint at rest is locked")
        self._check_joints(f"mimic {joint!r}", ((joint, 1.0), (source, 1.0)))
        if joint in self._mimics:
            raise ValueError(f"mimic {joint!r}: it follows another joint already, expected one source")
        if joint == source:
            raise ValueError(f"mimic {joint!r}: source: got the joint itself, expected another one")
        path = [Mimic(joint, source, factor, start)]
        while path[-1].source in self._mimics:
            path.append(self._mimics[path[-1].source])
            if path[-1].source == joint:
                leaders(path)  # which says that this is a circle
        self._mimics[joint] = path[0]

    @property
    def followers(self) -> dict[str, str]:
        """Joints that follow others, and which lead them."""
        return {mimic.joint: mimic.source for mimic in leaders(self._mimics.values())}

    def add_geometry(
        self,
        body: str,
        shape: Shape,
        placement: tuple[ArrayLike, ArrayLike] | None = None,
        purpose: str = "collision",
        name: str | None = None,
        color: ArrayLike | None = None,
    ) -> None:
        """Add a shape to a body, or to "world", at `placement` (R, p): x_body = R x + p.

        Parameters
        ----------
        body : a body or frame added before, or "world"
        shape : of `dynamics`: Sphere, Capsule, Box, Cylinder, Ellipsoid, HalfSpace or Mesh; where it lies in its own
            axes is for its class to say
        placement : (R, p), axes of the shape in the body frame; by default the identity
        purpose : "collision", or "visual" for what only pictures show
        name : by default that of the body and a number
        color : (3,) or (4,) red, green, blue and opacity, between 0 and 1; by default left to pictures

        Raises
        ------
        ValueError
            On a name that another shape has, an unknown body, an invalid placement, purpose or color.
        TypeError
            If `shape` is none.
        """
        if name is None:
            count = 0
            while (name := f"{body}_{count}") in self._geometries:
                count += 1
        require_new("name", name, geometry=self._geometries)
        label = f"geometry {name!r}: "
        number, pose = self._mount(f"{label}body", body, placement, f"{label}placement")
        rgba: Any = color
        self._geometries[name] = number, Geometry(name, body, -1, shape, pose, purpose, rgba)

    def _check_joints(self, argument: str, joints: Ratios) -> None:
        for name, _ in joints:
            joint = self._joint(name)
            if joint.nv != 1:
                raise ValueError(f"{argument}: {name!r} is {joint.type_name}, expected one degree of freedom")

    # -------------------------------------------------------------------------------------------- for the builder
    def _take_parts(self, model: RigidBodyModel, prefix: str, mimics: Iterable[Mimic]) -> None:
        """Those of a tree that is added, with its joints that follow others."""
        self._springs += [part.renamed(prefix) for part in model.springs]
        self._actuators += [part.renamed(prefix) for part in model.actuators]
        self._loops += [part.renamed(prefix) for part in model.loops]
        self._couplings += [part.renamed(prefix) for part in model.couplings]
        self._mimics |= {prefix + part.joint: part.renamed(prefix) for part in mimics}

    def _lock_parts(self, joint: str, q: float) -> dict[str, float]:
        """Leave a joint out that is fixed at q; other joints that are fixed by that, and where."""
        self._springs = locked_parts(self._springs, joint, q)
        self._actuators = locked_parts(self._actuators, joint, q)
        couplings = locked_parts(self._couplings, joint, q)
        self._couplings = [part for part in couplings if len(part.joints) > 1]
        alone = [(part.joints[0], part.offset) for part in couplings if len(part.joints) == 1]
        fixed = {other: offset / ratio for (other, ratio), offset in alone}
        for mimic in leaders(self._mimics.values()):
            if mimic.source == joint:
                fixed[mimic.joint] = mimic.multiplier * q + mimic.offset
            elif mimic.joint == joint:
                fixed[mimic.source] = (q - mimic.offset) / mimic.multiplier
        left = (mimic for mimic in self._mimics.values() if joint not in (mimic.joint, mimic.source))
        self._mimics = {mimic.joint: mimic for mimic in left}
        return fixed

    def _take_geometry(self, shape: Geometry, prefix: str, number: int, seen: Pose) -> None:
        """A shape of a robot that is added, whose body's link is seen from it as given; or the world."""
        own = (shape.R, shape.p)
        pose = compose(seen, own) if shape.body < 0 else relative(seen, own)
        name, link = prefix + shape.name, prefix + shape.link
        require_new("prefix", name, geometry=self._geometries)
        self._geometries[name] = number, replace(shape, name=name, link=link, body=-1, placement=pose)

    def _placed_geometries(self, anchors: Mapping[int, Frame]) -> tuple[Geometry, ...]:
        """All shapes on their moving bodies."""
        placed = []
        for number, shape in self._geometries.values():
            frame = frame_at(anchors[number], (shape.R, shape.p))
            placed.append(replace(shape, body=frame.body, placement=(frame.R, frame.p)))
        return tuple(placed)

    def _parts(self, frames: Mapping[str, Frame]) -> dict[str, Any]:
        """Fields of a model."""
        return {
            "springs": tuple(self._springs), "actuators": self._acting(frames), "loops": self._closed(frames),
            "couplings": tuple(self._couplings),
        }  # fmt: skip

    def _acting(self, frames: Mapping[str, Frame]) -> tuple[AnyActuator, ...]:
        """All actuators but those on frames that have come to lie on one body, as where joints are locked."""

        def acts(part: AnyActuator) -> bool:
            bodies = {frames[name].body for name in getattr(part, "frames", ())}
            return not bodies or (bodies != {-1} if isinstance(part, Thruster) else len(bodies) == 2)

        return tuple(part for part in self._actuators if acts(part))

    def _closed(self, frames: Mapping[str, Frame]) -> tuple[Loop, ...]:
        """The loops between two bodies; ValueError for one within a body that is open."""
        kept = []
        for loop in self._loops:
            one, two = frames[loop.frame1], frames[loop.frame2]
            if one.body != two.body:
                kept.append(loop)
                continue
            turned = 0.0 if loop.kind == "ball" else np.abs(one.R - two.R).max()
            if loop.kind == "hinge":
                along = "xyz".index(loop.axis)
                turned = np.abs(one.R[:, along] - two.R[:, along]).max()
            if max(np.abs(one.p - two.p).max(), turned) > 1e-6:
                raise ValueError(
                    f"loop of {loop.frame1!r} and {loop.frame2!r}: both are fixed to one body, and do not lie on each "
                    "other; expected joints locked where the loop is closed"
                )
        return tuple(kept)
