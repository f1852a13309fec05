"""Robots in contact, for tests: sets of contact points off their references, and the residuals of contact dynamics."""

import dataclasses

import numpy as np

from dynamics import (
    PointContact,
    RigidContact,
    bias_forces,
    frame_acceleration,
    frame_jacobian,
    frame_placement,
    frame_velocity,
    mass_matrix,
)
from dynamics.model.model import Frame
from tests.reference.random_robots import random_rotation, with_armature
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


def contacts_on(model, frames, rng, gains=GAINS, axes="local_world_aligned", rigid=()):
    """Contacts whose references are anywhere within a metre of the origin; `rigid` lists which of them are feet."""
    contacts = []
    for i, frame in enumerate(frames):
        p = rng.uniform(-1, 1, 3)
        if i in rigid:
            contacts.append(RigidContact(model, frame, gains, (random_rotation(rng), p), axes))
        else:
            contacts.append(PointContact(model, frame, gains, p, axes))
    return contacts


def growing_sets(model, frames, rng, gains=GAINS, axes="local_world_aligned"):
    """Contacts on the first frame, on the first two, ... on all of them, each set with references of its own."""
    for count in range(1, len(frames) + 1):
        yield contacts_on(model, frames[:count], rng, gains, axes)


FOOTED = {"ur5": (0,), "hyq": (0, 1), "spherical_tree": (1, 0), "joint_zoo": (2, 0)}
"""Robots with a limb of at least six freedoms that may stand on a foot, and another one that may touch by a point."""


def footed(name, rng):
    """Model and the frames that touch: first the foot."""
    model, frames = robot(name, rng)
    return with_armature(model, rng), [frames[i] for i in FOOTED[name]]


HELD = (*ROBOTS, *(f"{name} on a foot" for name in FOOTED))


def held(name, rng, gains=GAINS, axes="local_world_aligned"):
    """A robot of `HELD`, with armature, and sets of contacts: on ever more of its frames, or on a foot and a point."""
    robot_name, _, on_foot = name.partition(" on ")
    if on_foot:
        model, frames = footed(robot_name, rng)
        return model, [contacts_on(model, frames, rng, gains, axes, rigid=(0,))]
    model, frames = robot(robot_name, rng)
    model = with_armature(model, rng)
    return model, growing_sets(model, frames, rng, gains, axes)


def feet(contacts):
    """Indices of the contacts that are rigid."""
    return [i for i, contact in enumerate(contacts) if isinstance(contact, RigidContact)]


def world_forces(model, q, contacts, f):
    """Forces (C, 3), or moments, in world axes."""
    turns = [frame_placement(model, q, c.frame).R if c.axes == "local" else np.eye(3) for c in contacts]
    return np.array([R @ x for R, x in zip(turns, f, strict=True)])


def world_rows(model, q, contacts, f, moment):
    """Forces of all contacts and moments of the feet, in world axes, in the order of the rows of `jacobian`."""
    f, moment = world_forces(model, q, contacts, f), world_forces(model, q, contacts, moment)
    return np.concatenate([f.ravel(), moment[feet(contacts)].ravel()])


def jacobian(model, q, contacts):
    """J of the contact points (3 C, nv), world axes, and below it that of the feet's rotation."""
    J = [frame_jacobian(model, q, c.frame) for c in contacts]
    return np.vstack([*(x[:3] for x in J), *(J[i][3:] for i in feet(contacts))])


def balance(model, q, v, tau, contacts, a, f, moment=None):
    """M a + bias - tau - J'f at one point, and the largest of its terms; without feet no moments."""
    moment = np.zeros_like(f) if moment is None else moment
    terms = mass_matrix(model, q) @ a, bias_forces(model, q, v), -tau
    terms += (-jacobian(model, q, contacts).T @ world_rows(model, q, contacts, f, moment),)
    return sum(terms), np.abs(terms).max()


def rotation_error(R, reference):
    """Sine of the angle from the reference to R times the axis, world axes: the vector of skew(R reference')."""
    S = 0.5 * (R @ reference.T - reference @ R.T)
    return np.array([S[2, 1], S[0, 2], S[1, 0]])


def constraints(model, q, v, a, contacts):
    """a_c + kd v_c + kp (p - reference), (C, 3), then alpha + kd omega + kp e of every foot, and the largest of the
    terms or of a."""
    rows, turns, size = [], [], np.abs(a).max()
    for contact in contacts:
        kp, kd = contact.gains
        acceleration = frame_acceleration(model, q, v, a, contact.frame)
        velocity = frame_velocity(model, q, v, contact.frame)
        R, p = frame_placement(model, q, contact.frame)
        error = np.zeros(6)
        if kp != 0.0 and isinstance(contact, RigidContact):
            error = np.append(p - contact.reference[1], rotation_error(R, contact.reference[0]))
        elif kp != 0.0:
            error[:3] = p - contact.reference
        terms = acceleration, kd * velocity, kp * error
        size = max(size, np.abs(terms).max())
        rows.append(sum(terms)[:3])
        if isinstance(contact, RigidContact):
            turns.append(sum(terms)[3:])
    return np.array(rows + turns), size
