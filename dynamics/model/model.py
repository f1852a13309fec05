"""The robot model: a frozen tree of moving bodies, its names, limits and frames."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from functools import cached_property
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from dynamics.content import ByContent
from dynamics.geometry.geometry import Geometry
from dynamics.geometry.shapes import Shape
from dynamics.model.attachments import AnyActuator, Coupling, Loop, Mimic, Spring
from dynamics.model.body_inertia import BodyInertia
from dynamics.model.joints import PRISMATIC, REVOLUTE, TRANSLATION, Joint
from dynamics.model.kernel_model import model_block
from dynamics.model.mimic import IDENTITY, IdentityMap, MimicMap
from dynamics.model.model_arrays import ModelArrays
from dynamics.validation import QUATERNION_TOLERANCE, as_array, as_batch, as_items, as_kind, look_up

UNCOMPARED = ("name", "arrays", "base_inertia", "geometries")
"""Fields that are ignored when models are compared; the fields of `arrays` are compared one by one."""

_EUCLIDEAN_TYPES = (REVOLUTE, PRISMATIC, TRANSLATION)


class Frame(NamedTuple):
    """A frame rigidly attached to a moving body: x_body = R x + p."""

    body: int  # index of the moving body, -1 the world
    R: np.ndarray  # (3, 3)
    p: np.ndarray  # (3,)


@dataclass(frozen=True, eq=False, repr=False)
class RigidBodyModel(ByContent):
    """A robot, made by `load_urdf` or `ModelBuilder.build`; immutable, compared and hashed by all but its own name.

    Attributes
    ----------
    joints, joint_names, body_names : tuple, one entry per moving body, in depth-first order
    parent_names : tuple of str, the parent body of each, "world" at a root
    joint_types : tuple of str, class names
    joint_nq, joint_nv, q_index, v_index : tuple of int, where each joint lies in q and in v
    frames : mapping of frame name to `Frame`: every link and joint, moving or fixed, and the frames added by hand.
        A joint that shares its name with a link is found under "<name>_joint".
    arrays : the same tree as arrays, read-only
    block : (numbers,) int64, the same arrays in the form of drivers, see `dynamics.model.kernel_model`
    lower_position, upper_position : (nq,), infinite where there is no limit
    velocity_limit, effort_limit : (nv,), infinite where there is no limit
    armature, damping, friction : (nv,); damping and friction are for systems, functions of a model omit them
    gravity : (3,) world frame, m/s^2
    springs : tuple of `Spring` on joints of one degree of freedom; as damping, for systems
    actuators : tuple of `Actuator`, motors with their gears and limits, `Thruster` and `LinearActuator`, for
        `actuation="model"`
    loops, couplings : tuples of `Loop` and `Coupling`, which systems hold closed beside their contacts
    base_inertia : mass, first moment and inertia about the origin of the bodies fixed to the world, which move where
        the robot is mounted on another one
    quaternion_slots : tuple of (joint name, index in q of its quaternion's first entry)
    geometries : tuple of `Geometry`, the shapes of its bodies and of the world; the dynamics do not depend on them,
        so a robot is equal to the same one without
    mimics : tuple of `Mimic`, the mimic joints.  With some, q and v are those of the independent joints, whose names,
        limits and places in q and v are given; bodies, frames, springs, loops and shapes are those of `full`
    full_model : the robot in which every joint is independent, None without mimic joints
    """

    name: str
    joints: tuple[Joint, ...]
    joint_names: tuple[str, ...]
    body_names: tuple[str, ...]
    arrays: ModelArrays
    frames: Mapping[str, Frame]
    lower_position: np.ndarray
    upper_position: np.ndarray
    velocity_limit: np.ndarray
    effort_limit: np.ndarray
    damping: np.ndarray
    friction: np.ndarray
    base_inertia: BodyInertia
    springs: tuple[Spring, ...] = ()
    actuators: tuple[AnyActuator, ...] = ()
    loops: tuple[Loop, ...] = ()
    couplings: tuple[Coupling, ...] = ()
    geometries: tuple[Geometry, ...] = ()
    mimics: tuple[Mimic, ...] = ()
    full_model: RigidBodyModel | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "frames", MappingProxyType(dict(self.frames)))
        limits = (self.lower_position, self.upper_position, self.velocity_limit, self.effort_limit)
        placements = (array for frame in self.frames.values() for array in (frame.R, frame.p))
        for array in (*limits, self.damping, self.friction, *placements):
            array.flags.writeable = False

    def _parts(self) -> Mapping[str, Any]:
        parts = {field.name: getattr(self, field.name) for field in fields(self)} | self.arrays._asdict()
        return {name.replace("_", " "): part for name, part in parts.items() if name not in UNCOMPARED}

    @property
    def nq(self) -> int:
        """Length of a configuration."""
        return len(self.lower_position)

    @property
    def nv(self) -> int:
        """Length of a velocity: the number of degrees of freedom."""
        return len(self.velocity_limit)

    @property
    def nb(self) -> int:
        """Number of moving bodies."""
        return len(self.body_names)

    @cached_property
    def block(self) -> np.ndarray:
        """The robot in one array, in the form of drivers; ValueError with mimic joints."""
        if self.mimics:
            raise ValueError(
                f"model: {self.name!r} has mimic joints, which this function does not take; call it with model.full, "
                "model.full_configuration(q) and model.full_velocity(v)"
            )
        return model_block(self.arrays)

    @property
    def full(self) -> RigidBodyModel:
        """The robot in which every joint is independent: itself without mimic joints."""
        return self if self.full_model is None else self.full_model

    @cached_property
    def joint_space(self) -> RigidBodyModel:
        """A robot of the same configurations and velocities without mimic joints."""
        return replace(self, mimics=(), full_model=None) if self.mimics else self

    @cached_property
    def mimic_map(self) -> IdentityMap:
        """The map from the independent joints to the full model."""
        full = self.full
        return MimicMap(full.joint_names, full.joint_nq, full.joint_nv, self.mimics) if self.mimics else IDENTITY

    def full_configuration(self, q: ArrayLike) -> np.ndarray:
        """Configuration of `full` (..., model.full.nq) for q (..., nq)."""
        return self._widened("q", q, self.nq, self.mimic_map.full_q)

    def full_velocity(self, v: ArrayLike, name: str = "v") -> np.ndarray:
        """Velocity of `full` (..., model.full.nv) for v (..., nv); or acceleration.  `name` is that in errors."""
        return self._widened(name, v, self.nv, self.mimic_map.full_v)

    def full_torques(self, tau: ArrayLike, name: str = "tau") -> np.ndarray:
        """Torques on `full` (..., model.full.nv) with the same effect as tau (..., nv): zero on mimic joints."""
        return self._widened(name, tau, self.nv, self.mimic_map.full_torques)

    def _widened(self, name: str, value: ArrayLike, size: int, widen: Any) -> np.ndarray:
        array = as_array(name, value)
        if array.ndim == 0 or array.shape[-1] != size:
            raise ValueError(f"{name}: got shape {array.shape}, expected (..., {size})")
        return widen(array)

    @cached_property
    def total_mass(self) -> float:
        """Mass (kg) of all moving bodies, without bodies fixed to the world."""
        return float(self.full.arrays.mass.sum())

    @cached_property
    def gravity(self) -> np.ndarray:
        """Acceleration (3,) in the world frame, m/s^2."""
        return _read_only(self.arrays.gravity)

    @cached_property
    def armature(self) -> np.ndarray:
        """Rotor inertia (nv,), which adds to the diagonal of the mass matrix, kg m^2 (kg)."""
        return _read_only(self.arrays.armature)

    @cached_property
    def joint_types(self) -> tuple[str, ...]:
        """Class name of each joint."""
        return tuple(joint.type_name for joint in self.joints)

    @cached_property
    def joint_nq(self) -> tuple[int, ...]:
        """Number of coordinates of each joint."""
        return tuple(joint.nq for joint in self.joints)

    @cached_property
    def joint_nv(self) -> tuple[int, ...]:
        """Number of degrees of freedom of each joint."""
        return tuple(joint.nv for joint in self.joints)

    @cached_property
    def q_index(self) -> tuple[int, ...]:
        """Index in q of each joint's first entry."""
        return tuple(self.arrays.q_index.tolist())

    @cached_property
    def v_index(self) -> tuple[int, ...]:
        """Index in v of each joint's first entry."""
        return tuple(self.arrays.v_index.tolist())

    @cached_property
    def parent_names(self) -> tuple[str, ...]:
        """Name of the parent body of each moving body, or "world"."""
        return tuple("world" if parent < 0 else self.body_names[parent] for parent in self.full.arrays.parent)

    @cached_property
    def frame_names(self) -> tuple[str, ...]:
        """Names of all frames: links, joints, and added frames."""
        return tuple(self.frames)

    @cached_property
    def dof_names(self) -> tuple[str, ...]:
        """One name per entry of v: the joint's, with [0], [1], ... where it has several."""
        return tuple(
            name if joint.nv == 1 else f"{name}[{i}]"
            for name, joint in zip(self.joint_names, self.joints, strict=True)
            for i in range(joint.nv)
        )

    @cached_property
    def is_euclidean(self) -> bool:
        """True if moving along a tangent is plain addition to q."""
        return all(joint.code in _EUCLIDEAN_TYPES for joint in self.joints)

    @cached_property
    def is_kinematic(self) -> bool:
        """True if the robot has no dynamics, but kinematics: no moving body has mass or inertia, nor every joint
        armature."""
        m = self.full.arrays
        carries = m.mass.any() or m.first_moment.any() or m.rotational_inertia.any()
        return not carries and not m.armature.all()

    @cached_property
    def quaternion_slots(self) -> tuple[tuple[str, int], ...]:
        """Names of the joints with a quaternion, and the index in q where it begins."""
        return tuple(
            (name, start + joint.quaternion_at)
            for name, start, joint in zip(self.joint_names, self.q_index, self.joints, strict=True)
            if joint.quaternion_at is not None
        )

    @cached_property
    def _frame_numbers(self) -> dict[str, int]:
        return {name: number for number, name in enumerate(self.frames)}

    @cached_property
    def _joint_numbers(self) -> dict[str, int]:
        return {name: number for number, name in enumerate(self.joint_names)}

    def frame_index(self, name: str) -> int:
        """Position of a frame in `frame_names`; ValueError with the nearest matches if there is none."""
        return look_up("frame", name, self._frame_numbers)

    def joint_index(self, name: str) -> int:
        """Position of a joint in `joint_names`; ValueError with the nearest matches if there is none."""
        return look_up("joint", name, self._joint_numbers)

    def frame(self, name: str) -> Frame:
        """The frame of this name; ValueError with the nearest matches if there is none."""
        return look_up("frame", name, self.frames)

    def with_body(
        self,
        name: str,
        parent: str,
        joint: Joint | None = None,
        joint_name: str | None = None,
        placement: tuple[ArrayLike, ArrayLike] | None = None,
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
        geometry: Iterable[Shape | tuple[Shape, Any]] = (),
    ) -> RigidBodyModel:
        """The robot with one more body: a payload, a tool, or a link moved by a joint.

        Parameters
        ----------
        name : name of the body, and of its frame
        parent : one of `frame_names`, or "world"
        joint : a joint of `dynamics.model.joints`; by default fixed, so that q and v remain as they are
        joint_name : by default "<name>_joint"; without it a fixed joint has no frame
        placement : (R, p), joint frame in the parent frame at zero motion, x_parent = R x + p; by default the identity
        mass : kg
        com : (3,) centre of mass in the body frame, m
        inertia : (3, 3) about the centre of mass, body axes, kg m^2; by default zero, a point mass
        armature, damping, friction : (nv,) or one number for every dof of the joint; not negative
        lower, upper : (nq,), position limits, or one number where nq = nv; by default none
        velocity, effort : (nv,) or one number for every dof; by default unlimited
        geometry : shapes of the body for collisions and pictures, such as Sphere(0.1), or (shape, position (3,)), or
            (shape, (R, p)) in the body frame

        Raises
        ------
        ValueError
            A name that is taken, an unknown parent, values out of range; the message names the body and argument.
        TypeError
            A joint or a shape of another kind.

        Examples
        --------
        >>> robot = dynamics.load_urdf(problems.model_path("arm6"))
        >>> box = dynamics.Box([0.05, 0.05, 0.1]), [0.0, 0.0, 0.1]
        >>> loaded = robot.with_body("payload", "flange", mass=2.0, com=[0.0, 0.0, 0.1], geometry=[box])
        >>> [geometry.name for geometry in loaded.geometries], round(loaded.total_mass - robot.total_mass, 9)
        (['payload_0'], 2.0)
        """
        from dynamics.model import with_body

        return with_body(
            self, name, parent, joint, geometry, joint_name=joint_name, placement=placement, mass=mass, com=com,
            inertia=inertia, armature=armature, lower=lower, upper=upper, velocity=velocity, effort=effort,
            damping=damping, friction=friction,
        )  # fmt: skip

    def locked(
        self, lock: Mapping[str, ArrayLike] | None = None, keep: Iterable[str] | None = None
    ) -> RigidBodyModel:
        """The robot with some joints fixed; see `dynamics.model.edits.locked`."""
        from dynamics.model import locked

        return locked(self, lock, keep)

    def with_geometries(self, geometries: Iterable[Geometry]) -> RigidBodyModel:
        """The same robot with these shapes in place of its own.

        Raises TypeError for a value that is not a `Geometry`, ValueError for a name given twice or an unknown body.
        """
        items = as_items("geometries", geometries, "Geometry")
        names = set()
        for i, item in enumerate(items):
            as_kind(f"geometries[{i}]", item, Geometry)
            if item.name in names:
                raise ValueError(f"geometries[{i}]: there already is one named {item.name!r}, expected a new name")
            if item.body >= self.nb:
                raise ValueError(f"geometries[{i}]: its body is {item.body}, expected less than {self.nb}")
            names.add(item.name)
        full = None if self.full_model is None else replace(self.full_model, geometries=items)
        return replace(self, geometries=items, full_model=full)

    def __reduce__(self) -> tuple[Any, ...]:
        values = {field: getattr(self, field) for field in self.__dataclass_fields__}
        return _rebuild, (values | {"frames": dict(self.frames)},)

    def __repr__(self) -> str:
        shown = [f"{name}: {kind}" for name, kind in zip(self.joint_names, self.joint_types, strict=True)]
        if len(shown) > 8:
            shown[7:] = [f"{len(shown) - 7} more"]
        return (
            f"RigidBodyModel({self.name!r}, nq={self.nq}, nv={self.nv}, total_mass={self.total_mass:.6g} kg, "
            f"joints=[{', '.join(shown)}])"
        )


def _read_only(array: np.ndarray) -> np.ndarray:
    copy = array.copy()
    copy.flags.writeable = False
    return copy


def check_model(model: object) -> RigidBodyModel:
    """The model; TypeError unless it is that of a rigid robot."""
    return as_kind("model", model, RigidBodyModel)


def check_inertias(model: object) -> RigidBodyModel:
    """The model; TypeError unless it is that of a rigid robot, ValueError, with a body, unless it has inertias."""
    robot = check_model(model)
    if robot.is_kinematic:
        body = robot.full.body_names[-1]
        raise ValueError(
            f"model: got {robot.name!r}, without mass and inertia of body {body!r} and of all others, which has no "
            "dynamics; expected inertias (<inertial> of a URDF, mass= and inertia= of ModelBuilder.add_body).  Without "
            "them there are kinematics, inverse_kinematics and problems of a JointAccelerationSystem"
        )
    return robot


def check_configuration(model: RigidBodyModel, q: ArrayLike, name: str = "q") -> tuple[np.ndarray, bool]:
    """One configuration (nq,) or a batch (K, nq) as an array (K, nq), and whether it was one point.

    Raises ValueError for a wrong shape, a non-finite entry, and a quaternion whose norm is not 1 within 1e-6.
    """
    array, single = as_batch(name, q, model.nq)
    for joint, start in model.quaternion_slots:
        with np.errstate(over="ignore"):
            norm = np.sqrt(np.square(array[:, start : start + 4]).sum(axis=1))
        bad = np.abs(norm - 1.0) > QUATERNION_TOLERANCE
        if bad.any():
            row = int(np.argmax(bad))
            where = "" if single else f" in row {row}"
            raise ValueError(
                f"{name}: the quaternion of joint {joint!r} ({name}[{start}:{start + 4}]){where} "
                f"has norm {norm[row]:.9g}, expected a unit quaternion (x y z w) within {QUATERNION_TOLERANCE:g}"
            )
    return array, single


def _rebuild(values: dict) -> RigidBodyModel:
    return RigidBodyModel(**values)
