"""The shapes of a geometry model of Pinocchio, as wrappers of robots carry them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.spatial.transform import Rotation

from dynamics.geometry.shapes import Box, Capsule, Cylinder, Ellipsoid, HalfSpace, Mesh, Shape, Sphere
from dynamics.model.builder import ModelBuilder
from dynamics.model.joints import Continuous, FreeFlyer, Joint, Planar, Prismatic, Revolute, Spherical, Translation
from dynamics.model.links import IDENTITY, Pose, compose
from dynamics.model.model import RigidBodyModel
from dynamics.simd.caller import warn

if TYPE_CHECKING:
    import pinocchio  # pyright: ignore[reportMissingImports]


def add_geometry_objects(wrapper: Any, builder: ModelBuilder, held: Mapping[int, str]) -> None:
    """Add what a wrapper has in `collision_model` and `visual_model` to the bodies held by joints of these numbers."""
    taken, lost = set(), []
    for purpose in ("collision", "visual"):
        model = getattr(wrapper, f"{purpose}_model", None)
        for item in () if model is None else model.geometryObjects:
            found = _shape(item)
            if found is None:
                lost.append(item.name)
                continue
            shape, inner = found
            name = item.name if item.name not in taken else f"{item.name}_{purpose}"
            taken.add(name)
            place = compose((np.array(item.placement.rotation), np.array(item.placement.translation)), inner)
            color = np.clip(np.array(item.meshColor, dtype=float), 0.0, 1.0) if purpose == "visual" else None
            builder.add_geometry(held[item.parentJoint], shape, place, purpose, name, color)
    if lost:
        warn(f"Pinocchio geometry: shapes of kinds that are not known here are left out: {', '.join(lost)}")


def _shape(item: Any) -> tuple[Shape, Pose] | None:
    """A shape and where it lies in the object's axes."""
    shape, R, p = item.geometry, np.eye(3), np.zeros(3)
    kind = type(shape).__name__
    if item.meshPath and (kind.startswith("BVHModel") or kind in ("Convex", "ConvexBase", "CollisionGeometry")):
        return Mesh(item.meshPath, np.array(item.meshScale, dtype=float)), (R, p)
    if kind == "Halfspace":
        normal = np.array(shape.n)
        across = np.linalg.svd(normal[None])[2][1:]
        across[0] *= np.sign(np.linalg.det(np.vstack([across, normal])))
        return HalfSpace(), (np.vstack([across, normal]).T, float(shape.d) * normal)
    made = {
        "Sphere": lambda: Sphere(shape.radius), "Box": lambda: Box(np.array(shape.halfSide)),
        "Cylinder": lambda: Cylinder(shape.radius, 2.0 * shape.halfLength),
        "Capsule": lambda: Capsule(shape.radius, (0, 0, -shape.halfLength), (0, 0, shape.halfLength)),
        "Ellipsoid": lambda: Ellipsoid(np.array(shape.radii)),
    }  # fmt: skip
    return (made[kind](), (R, p)) if kind in made else None


# --------------------------------------------------------------------------------------------
# Robots from models of Pinocchio.
#
# Configurations, velocities and their order are the same, except that a continuous joint, and the angle of a planar
# one, is one number here and cosine and sine there.

_SEVERAL: dict[str, Callable[[], Joint]] = {
    "FreeFlyer": FreeFlyer, "Spherical": Spherical, "Planar": Planar, "Translation": Translation
}  # fmt: skip
_HELICAL = ("HX", "HY", "HZ", "HelicalUnaligned")
_ONE: dict[str, Callable[[Any], Joint]] = {"R": Revolute, "RUB": Continuous, "P": Prismatic} | {
    "RevoluteUnaligned": Revolute, "RevoluteUnboundedUnaligned": Continuous, "PrismaticUnaligned": Prismatic
}  # fmt: skip


class _Part(NamedTuple):
    """A joint of ours, placed in what the one before moves, which it may mimic."""

    joint: Joint
    placement: Pose = IDENTITY
    pitch: float | None = None  # m/rad, by which it mimics the one before


def from_pinocchio(model: pinocchio.Model) -> RigidBodyModel:
    """Robot model from a model of Pinocchio.

    Parameters
    ----------
    model : pinocchio.Model, or what has one as its attribute `model`, as wrappers do, and may have geometry
        models as collision_model and visual_model for shapes

    Returns
    -------
    RigidBodyModel
        Joints with limits, armature, damping and friction, bodies and all frames.  Composite and universal joints
        become as many joints; a helical joint a revolute one of its name, and "<joint>_slide" that mimics it by its
        pitch (`ModelBuilder.add_mimic`).  A body without a frame of its own is called after its joint, "<joint>_body".

    Raises
    ------
    TypeError : for anything else.
    ValueError : for a joint of another type, or where a body cannot be moved by its joint.

    Warns
    -----
    UserWarning : where joints are not numbered depth-first, so that their order differs here.
    """
    return pinocchio_builder(model).build()


def pinocchio_builder(model: Any) -> ModelBuilder:
    """A builder of the robot; see `from_pinocchio`."""
    m = getattr(model, "model", model)
    if not all(hasattr(m, name) for name in ("joints", "jointPlacements", "inertias", "frames")):
        raise TypeError(f"model: got {type(model).__name__}, expected a pinocchio.Model")
    builder = ModelBuilder(np.array(m.gravity.linear), m.name or "robot", strict=False)
    bodies, held = _body_names(m), {0: "world"}
    for i in range(1, m.njoints):
        name, parent, placement = m.names[i], held[m.parents[i]], _pose(m.jointPlacements[i])
        source = _source(m, i)
        parts = _joints(m.joints[i], name) if source is None else [_Part(_mimicking(m, i))]
        q, v = m.joints[i].idx_q, m.joints[i].idx_v
        several, label = sum(part.pitch is None for part in parts) > 1, name
        for k, (joint, inner, pitch) in enumerate(parts):
            last, before = k == len(parts) - 1, label
            label = f"{before}_slide" if pitch is not None else f"{name}[{k}]" if several else name
            inner_body = f"{label}_body" if several else f"{label}_turn"
            body = bodies[i] if last else inner_body
            own = {} if source or pitch is not None else _joint_parameters(m, joint, q, v)
            parameters = own | (_inertia(m.inertias[i]) if last else {})
            builder.add_body(body, parent, joint, label, placement=compose(placement, inner), **parameters)
            parent, placement = body, IDENTITY
            if pitch is not None:
                builder.add_mimic(label, before, pitch)
                continue
            q, v = q + joint.nq + _extra(joint), v + joint.nv
            if source:
                exact = m.joints[i].extract()
                builder.add_mimic(label, source, float(exact.scaling), float(exact.offset))
        held[i] = parent
    taken = {*bodies.values(), *m.names}
    for frame in m.frames:
        if frame.name not in taken:
            builder.add_frame(frame.name, held[frame.parentJoint], _pose(frame.placement))
            taken.add(frame.name)
    add_geometry_objects(model, builder, held)
    if any(not _above(m, m.parents[i], i - 1) for i in range(2, m.njoints)):
        order = ", ".join(builder.joint_names)
        warn(f"Pinocchio model {m.name!r}: its joints are not numbered depth-first, as here; they were {order}")
    return builder


def _source(m: Any, i: int) -> str | None:
    """The name of the joint that joint i mimics, if it does: that of the same coordinate."""
    if m.joints[i].shortname() != "JointModelMimic":
        return None
    q = m.joints[i].idx_q
    return next(m.names[j] for j in range(1, m.njoints) if j != i and m.joints[j].nq and m.joints[j].idx_q == q)


def _above(m: Any, joint: int, below: int) -> bool:
    """Whether a joint lies on the path from another one to the root, or is it."""
    while below > joint:
        below = m.parents[below]
    return below == joint


def _body_names(m: Any) -> dict[int, str]:
    """Of each joint the first body's frame that lies on it, or "<joint>_body"."""
    names = {}
    for frame in m.frames:
        own = frame.placement.isIdentity(1e-12) and frame.parentJoint not in names
        if str(frame.type) == "BODY" and own and frame.parentJoint > 0:
            names[frame.parentJoint] = frame.name
    return {i: names.get(i, f"{m.names[i]}_body") for i in range(1, m.njoints)}


def _joints(model: Any, name: str) -> list[_Part]:
    """A joint as joints of ours."""
    kind = model.shortname().removeprefix("JointModel")
    exact = model.extract() if hasattr(model, "extract") else model
    if kind == "Composite":
        inner = zip(exact.joints, exact.jointPlacements, strict=True)
        placed = [(_pose(place), _joints(part, name)) for part, place in inner]
        moved = [[first._replace(placement=compose(at, first.placement)), *rest] for at, (first, *rest) in placed]
        return [part for parts in moved for part in parts]
    if kind == "Universal":
        return [_Part(Revolute(exact.axis1)), _Part(Revolute(exact.axis2))]
    if kind in _SEVERAL:
        return [_Part(_SEVERAL[kind]())]
    if kind in _HELICAL:
        axis, pitch = _axis(exact), float(exact.pitch)
        return [_Part(Revolute(axis)), *([_Part(Prismatic(axis), pitch=pitch)] if pitch != 0.0 else [])]
    one = _ONE.get(kind) or (_ONE.get(kind[:-1]) if kind[-1] in "XYZ" else None)
    if one is not None:
        return [_Part(one(_axis(exact)))]
    raise ValueError(f"joint {name!r}: its type, {kind}, is not known here")


def _axis(model: Any) -> np.ndarray:
    """Of a joint of one degree of freedom: the one that it turns about, or else the one that it moves along."""
    data, q = model.createData(), np.zeros(model.idx_q + model.nq)
    q[model.idx_q] = 1.0
    model.calc(data, q)
    linear, angular = np.split(np.array(data.S).ravel(), 2)
    return angular if angular.any() else linear


def _mimicking(m: Any, i: int) -> Joint:
    """A joint that mimics another, from where it is when it has moved by one."""
    pinocchio = import_module("pinocchio")
    exact, data, q = m.joints[i].extract(), m.createData(), pinocchio.neutral(m)
    q[m.joints[i].idx_q] = (1.0 - exact.offset) / exact.scaling
    source = next(j for j in m.joints if j.shortname() != "JointModelMimic" and j.nq and j.idx_q == m.joints[i].idx_q)
    if source.nq == 2:
        q[source.idx_q : source.idx_q + 2] = np.cos(q[source.idx_q]), np.sin(q[source.idx_q])
    pinocchio.forwardKinematics(m, data, q)
    moved = m.jointPlacements[i].actInv(data.liMi[i])
    turn = Rotation.from_matrix(np.array(moved.rotation)).as_rotvec()
    if turn.any() and np.abs(np.array(moved.translation)).max() > 1e-12:
        raise ValueError(f"joint {m.names[i]!r}: its type, a mimic of a helical joint, is not known here")
    return Continuous(turn) if turn.any() else Prismatic(np.array(moved.translation))


def _extra(joint: Joint) -> int:
    """How many more numbers of a configuration Pinocchio has."""
    return int(isinstance(joint, (Continuous, Planar)))


def _joint_parameters(m: Any, joint: Joint, q: int, v: int) -> dict[str, Any]:
    parameters = {
        "armature": m.armature, "damping": m.damping, "friction": m.friction, "effort": m.effortLimit,
        "velocity": m.velocityLimit,
    }  # fmt: skip
    own = {name: _finite(np.array(values[v : v + joint.nv])) for name, values in parameters.items()}
    own = {name: values for name, values in own.items() if name in ("effort", "velocity") or values.any()}
    if joint.nq == joint.nv and not isinstance(joint, (Continuous, Planar)):
        rows = slice(q, q + joint.nq)
        own |= {
            "lower": _finite(np.array(m.lowerPositionLimit[rows])),
            "upper": _finite(np.array(m.upperPositionLimit[rows])),
        }
    return own


def _finite(values: np.ndarray) -> np.ndarray:
    """Pinocchio's largest numbers stand for no limit."""
    return np.where(np.abs(values) >= np.finfo(float).max, np.copysign(np.inf, values), values)


def _pose(placement: Any) -> Pose:
    return np.array(placement.rotation), np.array(placement.translation)


def _inertia(inertia: Any) -> dict[str, Any]:
    return {"mass": float(inertia.mass), "com": np.array(inertia.lever), "inertia": np.array(inertia.inertia)}
