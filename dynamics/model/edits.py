"""Edits of robots: joints locked, payloads and tools added, several robots in one model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from numpy.typing import ArrayLike

from dynamics.geometry.geometry import shape_in_place
from dynamics.geometry.shapes import Shape
from dynamics.model.builder import ModelBuilder, Placement
from dynamics.model.joints import Fixed, Joint
from dynamics.model.model import RigidBodyModel, check_model
from dynamics.validation import as_items, as_kind, look_up


def builder_of(model: RigidBodyModel) -> ModelBuilder:
    """A builder that contains all of a robot, to be continued."""
    builder = ModelBuilder(model.gravity, model.name, strict=False)
    builder.add_model(model)
    return builder


def locked(
    model: RigidBodyModel, lock: Mapping[str, ArrayLike] | None = None, keep: Iterable[str] | None = None
) -> RigidBodyModel:
    """The robot with some joints fixed.

    Parameters
    ----------
    model : RigidBodyModel
    lock : configuration (nq,), or a number, of each joint that is fixed there
    keep : names of the joints that remain movable; all others are fixed, those not in `lock` at their neutral
        configuration, moved into the limits.  None: all others remain movable.

    Raises
    ------
    ValueError : an unknown joint, one in both, a configuration beyond its limits, or no joint left.
    TypeError : a `lock` that is not a mapping, or a `keep` that is not a sequence.
    """
    builder = builder_of(check_model(model))
    lock_joints(builder, lock, keep)
    return builder.build()


def lock_joints(
    builder: ModelBuilder, lock: Mapping[str, ArrayLike] | None = None, keep: Iterable[str] | None = None
) -> None:
    """Fix joints of a robot under construction; arguments and errors as `locked`."""
    lock = dict(as_kind("lock", {} if lock is None else lock, Mapping, "a mapping of joint names to configurations"))
    joints = dict.fromkeys(builder.joint_names)
    for name in lock:
        look_up("joint", name, joints)
    places: dict[str, Any] = lock
    if keep is not None:
        kept = as_items("keep", keep, "names of joints")
        for name in kept:
            look_up("joint", name, joints)
            if name in lock:
                raise ValueError(f"keep: joint {name!r} is locked at {lock[name]!r}, expected it in lock or in keep")
        sources = builder.mimic_sources
        moving = {*kept, *(sources[name] for name in kept if name in sources)}
        stay = {*moving, *sources, *lock}
        places = lock | dict.fromkeys(name for name in joints if name not in stay)  # ties count from the first
    for name, q in places.items():
        builder.lock_joint(name, q)


def with_body(
    model: RigidBodyModel, name: str, parent: str, joint: Joint | None, geometry: Iterable[Any], **parameters: Any
) -> RigidBodyModel:
    """The robot with one more body; see `RigidBodyModel.with_body`."""
    builder = builder_of(check_model(model))
    builder.add_body(name, parent, Fixed() if joint is None else joint, **parameters)
    for i, item in enumerate(as_items("geometry", geometry, "shapes such as Sphere(0.1)")):
        shape, place = (item, None) if isinstance(item, Shape) else shape_in_place(f"geometry[{i}]", item)
        builder.add_geometry(name, shape, place)
    return builder.build()


def combine(
    models: Mapping[str, RigidBodyModel], placements: Mapping[str, Placement] | None = None, name: str = "robots"
) -> RigidBodyModel:
    """Several robots in one model.

    Parameters
    ----------
    models : mapping of labels to robots; the names of each get its label and a slash in front: "left/shoulder"
    placements : mapping of labels to (R, p), where the world of each robot lies; by default all in one place
    placements : mapping of labels to (R, p), the pose of each robot's world; by default the identity

    Returns
    -------
    RigidBodyModel
        Configurations and velocities follow each other in the order of `models`.

    Raises
    ------
    ValueError : no robot, an unknown label, robots that disagree about gravity, or an invalid placement.
    TypeError : arguments that are not mappings, or an entry that is not a robot.
    """
    models = dict(as_kind("models", models, Mapping, "a mapping of labels to robots"))
    placements = {} if placements is None else dict(as_kind("placements", placements, Mapping, "a mapping"))
    if not models:
        raise ValueError("models: got none, expected at least one robot")
    for label in placements:
        look_up("label in placements", label, models)
    gravities = {tuple(check_model(model).gravity.tolist()) for model in models.values()}
    if len(gravities) > 1:
        raise ValueError(f"models: got the gravities {sorted(gravities)}, expected one")
    builder = ModelBuilder(gravities.pop(), name, strict=False)
    for label, model in models.items():
        builder.add_model(model, f"{label}/", placement=placements.get(label))
    return builder.build()
