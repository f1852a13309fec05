"""Robots in contact, for tests: sets of contact points off their references, and the residuals of contact dynamics."""

import dataclasses

import numpy as np

from dynamics import (
    PointContact,
    bias_forces,
    frame_acceleration,
    frame_jacobian,
    frame_placement,
    frame_velocity,
    mass_matrix,
)
from dynamics.model import Frame
from tests.reference.random_robots import random_rotation
from tests.reference.rigid_body_models import load_reference

GAINS = (30.0, 8.0)
FEET = {
    "hyq": ("lf_foot", "rh_foot", "rf_foot", "lh_foot"),
    "solo12": ("FL_FOOT", "HR_FOOT", "FR_FOOT", "HL_FOOT"),
}


ROBOTS = ("ur5", "hyq", "solo12", "spherical_tree", "joint_zoo")


def robot(name, rng):
    """Model and the frames that touch: the feet, or a point of every body that carries no other."""
    model, _ = load_reference(name)
    if name in FEET:
        return model, FEET[name]
    return with_points(model, sorted(set(range(model.nb)) - set(model.arrays.parent.tolist())), rng)


def with_points(model, bodies, rng):
    """The model with a frame anywhere on each of the bodies, and the names of these frames."""
    frames = {f"tip {i}": Frame(b, random_rotation(rng), rng.uniform(-0.5, 0.5, 3)) for i, b in enumerate(bodies)}
    return dataclasses.replace(model, frames={**model.frames, **frames}), tuple(frames)


def contacts_on(model, frames, rng, gains=GAINS, axes="local_world_aligned"):
    """Contacts whose references are anywhere within a metre of the origin."""
    return [PointContact(model, frame, gains, rng.uniform(-1, 1, 3), axes) for frame in frames]


def growing_sets(model, frames, rng, gains=GAINS, axes="local_world_aligned"):
    """Contacts on the first frame, on the first two, ... on all of them, each set with references of its own."""
    for count in range(1, len(frames) + 1):
        yield contacts_on(model, frames[:count], rng, gains, axes)


def world_forces(model, q, contacts, f):
    """Forces (C, 3) in world axes."""
    turns = [frame_placement(model, q, c.frame).R if c.axes == "local" else np.eye(3) for c in contacts]
    return np.array([R @ x for R, x in zip(turns, f, strict=True)])


def jacobian(model, q, contacts):
    """J (3 C, nv) of the contact points, world axes."""
    return np.vstack([frame_jacobian(model, q, c.frame)[:3] for c in contacts])


def balance(model, q, v, tau, contacts, a, f):
    """M a + bias - tau - J'f at one point, and the largest of its terms."""
    terms = mass_matrix(model, q) @ a, bias_forces(model, q, v), -tau
    terms += (-jacobian(model, q, contacts).T @ world_forces(model, q, contacts, f).ravel(),)
    return sum(terms), np.abs(terms).max()


def constraints(model, q, v, a, contacts):
    """a_c + kd v_c + kp (p - reference), (C, 3), and the largest of its terms or of a."""
    rows, size = [], np.abs(a).max()
    for contact in contacts:
        kp, kd = contact.gains
        terms = (
            frame_acceleration(model, q, v, a, contact.frame)[:3],
            kd * frame_velocity(model, q, v, contact.frame)[:3],
            kp * (frame_placement(model, q, contact.frame).p - (0.0 if kp == 0.0 else contact.reference)),
        )
        rows.append(sum(terms))
        size = max(size, np.abs(terms).max())
    return np.array(rows), size
