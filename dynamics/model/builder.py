"""`ModelBuilder`: bodies, joints, frames, shapes, springs, actuators, loops, couplings, checked as they are added."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dynamics.geometry.geometry import Geometry
from dynamics.geometry.shapes import Shape
from dynamics.model.attachments import (
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
    limits_of,
    locked_parts,
    resolved,
    spring,
)
from dynamics.model.body_inertia import BodyInertia, inertia_defect
from dynamics.model.joints import Continuous, Joint
from dynamics.model.links import (
    WORLD,
    Link,
    Pose,
    Tree,
    check_overflow,
    compose,
    frame_at,
    joined,
    link_of,
    link_pose,
    relative,
    require_new,
)
from dynamics.model.mimic import with_mimics
from dynamics.model.model import Frame, RigidBodyModel, check_model
from dynamics.model.model_arrays import model_arrays
from dynamics.validation import (
    as_array,
    as_choice,
    as_flag,
    as_floats,
    as_inertia,
    as_kind,
    as_name,
    as_not_negative,
    as_number,
    as_placement,
    look_up,
    unknown_name,
)

# --------------------------------------------------------------------------------------------
# Parameters of a joint: position limits per entry of q, the others per degree of freedom.


def position_limits(
    label: str, joint: Joint, lower: ArrayLike | None, upper: ArrayLike | None
) -> dict[str, np.ndarray]:
    """Lower and upper (nq,), infinite by default."""
    limits = {"lower": np.full(joint.nq, -np.inf), "upper": np.full(joint.nq, np.inf)}
    for argument, value in (("lower", lower), ("upper", upper)):
        if value is None:
            continue
        if joint.nq == 0 or isinstance(joint, Continuous):
            raise ValueError(f"{label}{argument}: got {value!r}, but a {joint.type_name} joint has no position limits")
        if joint.nq == joint.nv and as_floats(label + argument, value).ndim == 0:
            value = np.full(joint.nq, as_array(label + argument, value, (), allow_infinite=True))
        limits[argument] = as_array(label + argument, value, (joint.nq,), allow_infinite=True, copy=True)
    crossed = np.flatnonzero(limits["lower"] > limits["upper"])
    if crossed.size:
        low, high = limits["lower"][crossed[0]], limits["upper"][crossed[0]]
        raise ValueError(f"{label}lower: got {low}, above upper, {high}, expected lower <= upper")
    return limits


def dof_parameters(label: str, joint: Joint, **values: ArrayLike | None) -> dict[str, np.ndarray]:
    """Nonnegative parameters, each (nv,); None stands for infinite velocity and effort limits."""
    parameters = {}
    for argument, value in values.items():
        is_limit = argument in ("velocity", "effort")
        if value is None:
            value = np.inf
        if as_floats(label + argument, value).ndim == 0:
            given = as_array(label + argument, value, (), allow_infinite=is_limit)
            if joint.nv == 0 and given != (np.inf if is_limit else 0.0):
                raise ValueError(f"{label}{argument}: got {value!r}, but a {joint.type_name} joint does not move")
            value = np.full(joint.nv, given)
        parameters[argument] = as_array(label + argument, value, (joint.nv,), allow_infinite=is_limit, copy=True)
        if (parameters[argument] < 0.0).any():
            raise ValueError(f"{label}{argument}: got {parameters[argument].min()}, expected no negative entry")
    return parameters


# --------------------------------------------------------------------------------------------
# Parts of a builder besides bodies: springs, actuators, loops, couplings and shapes, by names of joints and frames.


class Parts:
    """Base of `ModelBuilder` with springs, actuators, loops, couplings and shapes."""

    def __init__(self) -> None:
        self._springs: list[Spring] = []
        self._actuators: list[AnyActuator] = []
        self._loops: list[Loop] = []
        self._couplings: list[Coupling] = []
        self._mimics: dict[str, Mimic] = {}  # by the mimic joints
        self._geometries: dict[str, tuple[int, Geometry]] = {}  # with the index of the link that they are fixed to

    def _moving(self) -> dict[str, Joint]:
        """Movable joints by name."""
        raise NotImplementedError

    def _joint(self, name: str) -> Joint:
        """The movable joint of a name; ValueError for an unknown one."""
        raise NotImplementedError

    def _add_armature(self, joint: str, armature: float) -> None:
        """Add to the armature of a joint."""
        raise NotImplementedError

    def _mount(self, argument: str, name: str, placement: Any, label: str) -> tuple[int, Pose]:
        """Index of the link (or of the world) that carries `name`, and the placement in that link."""
        raise NotImplementedError

    def _carrier(self, name: str) -> int:
        """Index of the moving link that carries a body, joint or frame, or of the world."""
        raise NotImplementedError

    def _frame_names(self) -> Iterable[str]:
        """Names of all frames."""
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

        Raises ValueError for an unknown joint, one of several degrees of freedom, or parameters out of range.
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
        name : name of the control
        joints : names of joints of one degree of freedom and their ratios r_j: a gear, or the moment arms of a tendon
        lower, upper : N m or N, at the motor; by default unlimited
        rotor_inertia : kg m^2, of a motor on one joint, whose armature rises by r_j^2 times it; not negative

        Raises ValueError for a name that is taken, an unknown joint, one of several degrees of freedom, or limits that
        cross.
        """
        require_new("name", name, actuator=[part.name for part in self._actuators])
        part = actuator(name, joints, lower, upper)
        label = f"actuator {name!r}: "
        self._check_joints(f"{label}joints", part.joints)
        inertia = as_number(f"{label}rotor_inertia", rotor_inertia)
        if inertia < 0.0 or (inertia > 0.0 and len(part.joints) > 1):
            expected = "a number >= 0, zero where it pulls on several joints"
            raise ValueError(f"{label}rotor_inertia: got {inertia}, expected {expected}")
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
        """Add a force fixed in a frame, such as that of a propeller; controls are in newtons.

        Parameters
        ----------
        name : name of the control
        frame : a body, joint or frame added before, at whose origin the force acts
        direction : (3,) of the force, in the frame's axes, of any length
        moment_ratio : m, moment about the direction per force, such as the drag of a propeller, with its sign
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
            ratio = as_number(f"{label}moment_ratio", moment_ratio)
            wrench = np.concatenate([along, ratio * along]) / length
        numbers = as_array(f"{label}wrench", wrench, (6,))
        if not numbers.any():
            raise ValueError(f"{label}wrench: got zeros, expected a force or a moment")
        self._actuators.append(Thruster(name, frame, tuple(numbers.tolist()), *limits_of(label, lower, upper)))

    def add_linear_actuator(
        self, name: str, frame1: str, frame2: str, lower: float = -np.inf, upper: float = np.inf, ratio: float = 1.0
    ) -> None:
        """Add a force along the line between two frames' origins; positive controls push them apart: a cylinder, or
        for controls that are never positive a cable or a muscle.

        Parameters
        ----------
        name : name of the control
        frame1, frame2 : bodies, joints or frames added before
        lower, upper : N; by default unlimited
        ratio : N per unit of control, not zero

        Raises ValueError for a name that is taken, an unknown frame, frames on one body, or limits that cross.
        """
        label = self._new_actuator(name, (frame1, frame2))
        force = as_number(f"{label}ratio", ratio)
        if force == 0.0:
            raise ValueError(f"{label}ratio: got 0, expected another number")
        if self._carrier(frame1) == self._carrier(frame2):
            raise ValueError(f"{label}frame2: {frame1!r} and {frame2!r} are on one body, expected two")
        self._actuators.append(LinearActuator(name, frame1, frame2, force, *limits_of(label, lower, upper)))

    def _new_actuator(self, name: str, frames: Iterable[str]) -> str:
        """Beginning of error messages; ValueError for a name that is taken, or unknown frames."""
        require_new("name", name, actuator=[part.name for part in self._actuators])
        known = dict.fromkeys(self._frame_names())
        for frame in frames:
            look_up("frame", frame, known)
        return f"actuator {name!r}: "

    def add_loop(self, frame1: str, frame2: str, kind: str = "ball", axis: str = "z") -> None:
        """Close a chain: systems of the robot keep two frames together by a `LoopConstraint` with its feedback, in
        steps of more than 0.05 s with a time constant of two steps.

        Parameters
        ----------
        frame1, frame2 : bodies, joints or frames added before
        kind : "ball", "hinge" or "weld"
        axis : hinge axis in both frames

        Raises ValueError for an unknown frame, kind or axis.
        """
        known = dict.fromkeys(self._frame_names())
        for name in (frame1, frame2):
            look_up("frame", name, known)
        as_choice("kind", kind, LOOP_KINDS)
        as_choice("axis", axis, "xyz")
        self._loops.append(Loop(frame1, frame2, kind, axis))

    def add_coupling(self, joints: Mapping[str, float], offset: float = 0.0) -> None:
        """Let joints of one degree of freedom move together: systems of the robot keep sum_j r_j q_j = offset, with the
        feedback of `JointCoupling`, in steps of more than 0.05 s with a time constant of two steps.

        Raises ValueError for an unknown joint, one of several degrees of freedom, or fewer than two joints.
        """
        part = Coupling(as_ratios("coupling: joints", joints), as_number("coupling: offset", offset))
        self._check_joints("coupling: joints", part.joints)
        if len(part.joints) < 2:
            raise ValueError(f"coupling: joints: got {dict(part.joints)!r}, expected at least two joints")
        self._couplings.append(part)

    def add_mimic(self, joint: str, source: str, multiplier: float = 1.0, offset: float = 0.0) -> None:
        """Let a joint mimic another one, q = multiplier q_source + offset: the robot has one coordinate for both.

        Limits of the source are narrowed by those of its mimic joints.  Raises ValueError for an unknown joint, one of
        several degrees of freedom, one that is a mimic joint already, a circle, or a multiplier that is zero.
        """
        values = {"multiplier": multiplier, "offset": offset}
        factor, start = (as_number(f"mimic {joint!r}: {name}", x) for name, x in values.items())
        if factor == 0.0:
            raise ValueError(f"mimic {joint!r}: multiplier: got 0, expected another number; a joint at rest is locked")
        self._check_joints(f"mimic {joint!r}", ((joint, 1.0), (source, 1.0)))
        if joint in self._mimics:
            raise ValueError(f"mimic {joint!r}: it mimics another joint already, expected one source")
        if joint == source:
            raise ValueError(f"mimic {joint!r}: source: got the joint itself, expected another one")
        path = [Mimic(joint, source, factor, start)]
        while path[-1].source in self._mimics:
            path.append(self._mimics[path[-1].source])
            if path[-1].source == joint:
                resolved(path)  # which says that this is a circle
        self._mimics[joint] = path[0]

    @property
    def mimic_sources(self) -> dict[str, str]:
        """The independent joint of each mimic joint."""
        return {mimic.joint: mimic.source for mimic in resolved(self._mimics.values())}

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
        shape : of `dynamics`: Sphere, Capsule, Box, Cylinder, Ellipsoid, HalfSpace or Mesh; its class describes its own
            axes
        placement : (R, p), axes of the shape in the body frame; by default the identity
        purpose : "collision", or "visual" for shapes of pictures only
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

    # -------------------------------------------------------------------------------------------- parts of the builder
    def _take_parts(self, model: RigidBodyModel, prefix: str, mimics: Iterable[Mimic]) -> None:
        """Add the parts of a full model, and its mimic joints, with a prefix."""
        self._springs += [part.renamed(prefix) for part in model.springs]
        self._actuators += [part.renamed(prefix) for part in model.actuators]
        self._loops += [part.renamed(prefix) for part in model.loops]
        self._couplings += [part.renamed(prefix) for part in model.couplings]
        self._mimics |= {prefix + part.joint: part.renamed(prefix) for part in mimics}

    def _lock_parts(self, joint: str, q: float) -> dict[str, float]:
        """Remove a joint that is fixed at q; returns the other joints that become fixed by that, with their
        positions."""
        self._springs = locked_parts(self._springs, joint, q)
        self._actuators = locked_parts(self._actuators, joint, q)
        couplings = locked_parts(self._couplings, joint, q)
        self._couplings = [part for part in couplings if len(part.joints) > 1]
        alone = [(part.joints[0], part.offset) for part in couplings if len(part.joints) == 1]
        fixed = {other: offset / ratio for (other, ratio), offset in alone}
        for mimic in resolved(self._mimics.values()):
            if mimic.source == joint:
                fixed[mimic.joint] = mimic.multiplier * q + mimic.offset
            elif mimic.joint == joint:
                fixed[mimic.source] = (q - mimic.offset) / mimic.multiplier
        left = (mimic for mimic in self._mimics.values() if joint not in (mimic.joint, mimic.source))
        self._mimics = {mimic.joint: mimic for mimic in left}
        return fixed

    def _take_geometry(self, shape: Geometry, prefix: str, number: int, seen: Pose) -> None:
        """Add a shape of an added robot, with the pose of its body's link relative to the shape's frame, or of the
        world."""
        own = (shape.R, shape.p)
        pose = compose(seen, own) if shape.body < 0 else relative(seen, own)
        name, link = prefix + shape.name, prefix + shape.link
        require_new("prefix", name, geometry=self._geometries)
        self._geometries[name] = number, replace(shape, name=name, link=link, body=-1, placement=pose)

    def _placed_geometries(self, anchors: Mapping[int, Frame]) -> tuple[Geometry, ...]:
        """All shapes, placed on their moving bodies."""
        placed = []
        for number, shape in self._geometries.values():
            frame = frame_at(anchors[number], (shape.R, shape.p))
            placed.append(replace(shape, body=frame.body, placement=(frame.R, frame.p)))
        return tuple(placed)

    def _parts(self, frames: Mapping[str, Frame]) -> dict[str, Any]:
        """Fields of the model."""
        return {
            "springs": tuple(self._springs), "actuators": self._acting(frames), "loops": self._closed(frames),
            "couplings": tuple(self._couplings),
        }  # fmt: skip

    def _acting(self, frames: Mapping[str, Frame]) -> tuple[AnyActuator, ...]:
        """All actuators except those between frames that are on one body, for example after joints are locked."""

        def acts(part: AnyActuator) -> bool:
            bodies = {frames[name].body for name in getattr(part, "frames", ())}
            return not bodies or (bodies != {-1} if isinstance(part, Thruster) else len(bodies) == 2)

        return tuple(part for part in self._actuators if acts(part))

    def _closed(self, frames: Mapping[str, Frame]) -> tuple[Loop, ...]:
        """The loops between two bodies; ValueError for an open one within a body."""
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
                    f"loop of {loop.frame1!r} and {loop.frame2!r}: got frames fixed to one body, apart from each "
                    "other, expected joints locked where the loop is closed"
                )
        return tuple(kept)


# --------------------------------------------------------------------------------------------
# Construction of a robot model body by body.
#
# Every link becomes part of one moving body: its own, or, if its joint is fixed, that of its nearest moving ancestor
# (or the world). `build` walks the tree once depth-first, so that bodies are numbered parents first, children in the
# order in which they were added, and adds up the inertia of each moving body about the origin of its frame.

Placement = tuple[ArrayLike, ArrayLike]

INERTIAS = ("strict", "repaired", "as_given")
"""Treatment of moving bodies with unphysical inertias: raise an error, repair or keep them."""
CONTRADICTION = 1e-9
"""Largest difference of two positions of a locked joint that count as equal."""


class ModelBuilder(Parts):
    """Builds a `RigidBodyModel` from bodies added one by one, each after its parent.

    Parameters
    ----------
    gravity : (3,) acceleration in the world frame, m/s^2
    name : name of the model
    strict : if False, a body whose own inertia no rigid body can have (placeholders are common in published files) is
        only warned about, provided that the moving body it becomes part of is physical

    Examples
    --------
    >>> builder = dynamics.ModelBuilder(name="cart and pole")
    >>> builder.add_body("cart", "world", dynamics.Prismatic("x"), mass=1.0)
    >>> builder.add_body("pole", "cart", dynamics.Revolute("y"), mass=0.1, com=(0.0, 0.0, -0.5))
    >>> robot = builder.build()
    >>> robot.joint_names, robot.total_mass
    (('cart_joint', 'pole_joint'), 1.1)
    """

    def __init__(self, gravity: ArrayLike = (0.0, 0.0, -9.81), name: str = "robot", strict: bool = True) -> None:
        self.gravity = as_array("gravity", gravity, (3,), copy=True)
        self._name = as_name("name", name)
        self._strict = as_flag("strict", strict)
        self.inertias = "strict"  # or another of INERTIAS, to keep or repair those of a file
        super().__init__()
        self._links: list[Link] = []
        self._numbers: dict[str, int] = {}
        self._joint_names: dict[str, int] = {}  # with the indices of the links that they carry
        self._fixed: dict[str, np.ndarray] = {}  # positions of locked joints
        self._added_frames: dict[str, tuple[int, Pose]] = {}
        self._named: set[int] = set()  # links of added models, whose names are among the added frames
        self._ballast: list[tuple[int, BodyInertia]] = []  # of the worlds of added models, fixed to links

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
        parent : name of a body or frame added before, or "world" (unless a body has been given that name)
        joint : a joint of `dynamics.model.joints`
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
        require_new("name", name, body=self._numbers, frame=self._added_frames)
        label = f"body {name!r}: "
        as_kind(label + "joint", joint, Joint, "a joint such as Revolute('z')")
        if joint_name is None and joint.nv > 0:
            joint_name = f"{name}_joint"
        if joint_name is not None:
            require_new(label + "joint_name", joint_name, joint=self._joint_names, frame=self._added_frames)
        parent_number, pose = self._mount(label + "parent", parent, placement, label + "placement")
        mass = as_not_negative(label + "mass", mass)
        symmetric = as_inertia(label + "inertia", inertia)
        defect = inertia_defect(mass, symmetric)
        if defect and self._strict:
            raise ValueError(f"{label}inertia: {defect}")
        link = Link(
            name=name,
            parent=parent_number,
            joint=joint,
            joint_name=joint_name,
            placement=pose,
            mass=mass,
            com=as_array(label + "com", com, (3,), copy=True),
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
            self._joint_names[joint_name] = self._numbers[name]

    def add_frame(self, name: str, body: str, placement: Placement | None = None) -> None:
        """Add a frame fixed to a body, or to "world", at `placement` (R, p): x_body = R x + p.

        Raises ValueError on a name that a body, joint or frame already has, an unknown body, or an invalid placement.
        """
        require_new("name", name, body=self._numbers, joint=self._joint_names, frame=self._added_frames)
        label = f"frame {name!r}: "
        self._added_frames[name] = self._mount(f"{label}body", body, placement, f"{label}placement")

    def _moving(self) -> dict[str, Joint]:
        return {link.joint_name: link.joint for link in self._links if link.joint_name and link.joint.nv > 0}

    def _joint(self, name: str) -> Joint:
        number = self._joint_names.get(name) if isinstance(name, str) else None
        if number is None or self._links[number].joint.nv == 0:
            raise unknown_name("joint", name, self._moving())
        return self._links[number].joint

    def _add_armature(self, joint: str, armature: float) -> None:
        number = self._joint_names[joint]
        link = self._links[number]
        grown = link.per_dof | {"armature": link.per_dof["armature"] + armature}
        self._links[number] = replace(link, per_dof=grown)

    def _carrier(self, name: str) -> int:
        if name in self._numbers or name in self._added_frames:
            number = self._mount("frame", name, None, "frame")[0]
        else:
            number = self._joint_names[name]
        while number != WORLD and self._links[number].joint.nv == 0:
            number = self._links[number].parent
        return number

    def _frame_names(self) -> list[str]:
        return [*self._numbers, *self._added_frames, *self._joint_names]

    @property
    def joint_names(self) -> tuple[str, ...]:
        """Names of the joints that move, in the order in which they were added."""
        return tuple(self._moving())

    def add_model(
        self, model: RigidBodyModel, prefix: str = "", parent: str = "world", placement: Placement | None = None
    ) -> None:
        """Add all bodies, joints and frames of a robot: another arm, or a gripper on a tool's frame.

        Parameters
        ----------
        model : RigidBodyModel; its gravity and name do not enter
        prefix : prefix of all its names, such as "left/"
        parent : a body or frame added before, or "world", to which the robot's world is fixed, with the inertia of all
            that is fixed to it
        placement : (R, p), the robot's world in the parent; by default the identity

        Raises ValueError for names that are taken, an unknown parent or an invalid placement; TypeError if it is no
        model.
        """
        model, mimics = check_model(model).full, model.mimics
        if not isinstance(prefix, str):
            raise TypeError(f"prefix: got {type(prefix).__name__}, expected text such as 'left/'")
        mount, pose = self._mount("parent", parent, placement, "placement")
        for name in model.frames:
            require_new("prefix", prefix + name, body=self._numbers, frame=self._added_frames)
        for name in model.joint_names:
            require_new("prefix", prefix + name, joint=self._joint_names)
        first = len(self._links)
        own = {-1: (mount, pose)} | {body: (first + body, link_pose(model, body)) for body in range(model.nb)}
        self._ballast.append((mount, model.base_inertia.placed(*pose)))
        self._links += [link_of(model, body, prefix, *own[model.arrays.parent[body]]) for body in range(model.nb)]
        for number, link in enumerate(self._links[first:], first):
            self._numbers[link.name] = number
            self._joint_names[str(link.joint_name)] = number
            self._named.add(number)
        self._take_parts(model, prefix, mimics)
        for shape in model.geometries:
            self._take_geometry(shape, prefix, *own[shape.body])
        for name, (body, R, p) in model.frames.items():
            number, seen = own[body]
            self._added_frames[prefix + name] = number, (compose if body < 0 else relative)(seen, (R, p))

    def lock_joint(self, name: str, q: ArrayLike | None = None) -> None:
        """Fix a joint at the configuration q (nq,), or a number; by default the neutral one, moved into the limits.

        Raises ValueError for an unknown joint, a wrong shape, or a configuration beyond the joint's limits.
        """
        label = f"lock: joint {name!r}"
        if name in self._fixed:
            if q is not None and np.abs(np.subtract(q, self._fixed[name])).max() > CONTRADICTION:
                found = self._fixed[name].tolist()
                raise ValueError(f"{label}: got {q}, but joints that it is tied to fix it at {found}")
            return
        number = self._joint_names.get(name)
        if number is None or self._links[number].joint.nv == 0:
            raise unknown_name("joint that moves", name, self.joint_names)
        link = self._links[number]
        nq = link.joint.nq
        lower, upper = link.per_position["lower"], link.per_position["upper"]
        if q is None:
            q = link.resting()
        q = np.atleast_1d(as_array(label, q, () if nq == 1 and as_floats(label, q).ndim == 0 else (nq,)))
        if (q < lower).any() or (q > upper).any():
            raise ValueError(f"{label}: got {q.tolist()}, expected between {lower.tolist()} and {upper.tolist()}")
        self._links[number], self._fixed[name] = link.fixed_at(q), q
        for other, place in self._lock_parts(name, q[0]).items():
            self.lock_joint(other, place)

    def build(self) -> RigidBodyModel:
        """The model of all bodies added so far; the builder can be continued and build again.

        Raises ValueError if nothing moves, if a leaf of the moving tree has no mass or no inertia along its joint, if
        frame names clash, or if numbers are so large that they overflow.
        """
        whole = self._build_tree()
        return self._independent(whole) if self._mimics else whole

    def _independent(self, whole: RigidBodyModel) -> RigidBodyModel:
        """The robot in the coordinates of its independent joints: its states are those of the model whose mimic joints
        are locked."""
        mimics = resolved(self._mimics.values())
        rest = copy.copy(self)
        rest._springs, rest._actuators, rest._loops, rest._couplings, rest._geometries = [], [], [], [], {}
        locked = {mimic.joint for mimic in mimics}
        rest._links = [
            link.fixed_at(link.joint.neutral()) if link.joint_name in locked else link for link in self._links
        ]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # those of the full model
            independent = rest._build_tree()
        return with_mimics(whole, independent, mimics)

    def _build_tree(self) -> RigidBodyModel:
        """The full model, in which every joint is independent."""
        tree = Tree(self._links)
        links = tree.moving
        if not links:
            raise ValueError("the model is empty: expected at least one body with a joint that moves")
        joints = tuple(link.joint for link in links)
        with np.errstate(over="ignore", invalid="ignore"):
            frames = self._frames(tree)
            *inertias, base = tree.inertias(self._ballast)
            inertias = tree.physical(inertias, self.inertias)
            armature = joined(links, "armature")
            arrays = model_arrays(joints, tree.parents, tree.placements, inertias, armature, self.gravity)
            check_overflow(frames, arrays, links)
            tree.check_leaves(inertias)
        return RigidBodyModel(
            name=self._name,
            joints=joints,
            joint_names=tuple(str(link.joint_name) for link in links),
            body_names=tuple(link.name for link in links),
            arrays=arrays,
            frames=frames,
            lower_position=np.concatenate([link.per_position["lower"] for link in links]),
            upper_position=np.concatenate([link.per_position["upper"] for link in links]),
            velocity_limit=joined(links, "velocity"),
            effort_limit=joined(links, "effort"),
            damping=joined(links, "damping"),
            friction=joined(links, "friction"),
            base_inertia=base,
            geometries=self._placed_geometries(tree.anchors),
            **self._parts(frames),
        )

    def _mount(self, argument: str, name: str, placement: Placement | None, label: str) -> tuple[int, Pose]:
        """Index of the link (or of the world) that carries `name`, and the placement in that link."""
        pose = as_placement(label, placement)
        if as_name(argument, name) in self._numbers:
            return self._numbers[name], pose
        if name in self._added_frames:
            number, frame = self._added_frames[name]
            return number, compose(frame, pose)
        if name == "world":
            return WORLD, pose
        raise unknown_name(argument, name, [*self._numbers, *self._added_frames, "world"])

    def _frames(self, tree: Tree) -> dict[str, Frame]:
        """All frames by name: links and joints in depth-first order, then those of added models and added by hand."""
        frames = {}
        for number in tree.order:
            link = self._links[number]
            if number in self._named:
                continue
            frames[link.name] = tree.anchors[number]
            joint_name = link.joint_name
            if joint_name is None:
                continue
            if joint_name in self._numbers:
                joint_name += "_joint"
                if joint_name in self._numbers or joint_name in self._joint_names or joint_name in self._added_frames:
                    raise ValueError(
                        f"joint_name: got {link.joint_name!r} for a body and a joint, whose frame would be "
                        f"{joint_name!r}, which is taken, expected distinct names"
                    )
            frames[joint_name] = tree.anchors[number]
        for name, (number, placement) in self._added_frames.items():
            frames[name] = frame_at(tree.anchors[number], placement)
        return {name: Frame(frame.body, frame.R.copy(), frame.p.copy()) for name, frame in frames.items()}
