"""What it takes to put another robot into a system: as many coordinates, joints of the same names, the same frames."""

from __future__ import annotations

from dataclasses import replace

from dynamics.contacts.contact_set import Contact, Contacts, ContactSet
from dynamics.model import RigidBodyModel, check_model


def check_same_joints(model: RigidBodyModel, other: RigidBodyModel) -> None:
    """Raise TypeError or ValueError unless `other` is a model with the joints of this one, in the same order."""
    joints, others = (
        tuple(zip(each.joint_names, each.joint_types, strict=True)) for each in (model, check_model(other))
    )
    if joints != others:
        wrong = next((name for name, _ in others if name not in model.joint_names), "their order, number or kind")
        raise ValueError(f"model: got {len(others)} joints, expected the {len(joints)} of {model!r}; not so: {wrong}")


def contacts_of(model: RigidBodyModel, contacts: Contacts) -> list[Contact]:
    """The same contacts on another model; ValueError where it lacks a frame."""
    held = contacts.contacts if isinstance(contacts, ContactSet) else contacts
    return [each if each.model is model else replace(each, model=model) for each in held]
