"""Robots with closed chains, for tests: a tree with frames anywhere, what holds these together, a planar linkage."""

import numpy as np

import dynamics
from dynamics import JointCoupling, LoopConstraint, ModelBuilder, PointContact, Revolute, RigidContact
from dynamics.contacts.loop_constraint import loop_rows
from dynamics.model.edits import builder_of
from tests.reference.random_robots import random_rotation, random_states, random_tree

TREE = ["revolute", "spherical", "revolute", "revolute", "prismatic", "free flyer", "revolute"], [-1, 0, 1, 0, 3, -1, 5]
GAINS = (30.0, 8.0)


def framed_tree(rng):
    """A free flyer with a joint beside a branched tree; frames f0 ... f2 on three bodies, f3 and f4 in the world."""
    builder = builder_of(random_tree(*TREE, rng))
    for i, body in enumerate(["body 2", "body 4", "body 6", "world", "world"]):
        builder.add_frame(f"f{i}", body, (random_rotation(rng), 0.3 * rng.normal(size=3)))
    return builder.build()


def ball(m):
    return [LoopConstraint(m, "f0", "f1", "ball", GAINS)]


def hinges(m):
    """With a point that is held, and another loop, to the world."""
    return [
        LoopConstraint(m, "f0", "f2", "hinge", GAINS, axis="x"),
        LoopConstraint(m, "f1", "f3", "ball", GAINS),
        PointContact(m, "body 5", axes="local"),
    ]


def weld(m):
    """With a foot that is held."""
    return [LoopConstraint(m, "f0", "f1", "weld", GAINS), RigidContact(m, "body 5", axes="local")]


def weld_to_world(m):
    return [LoopConstraint(m, "f2", "f3", "weld", GAINS, size=0.5)]


def weld_of_world(m):
    return [LoopConstraint(m, "f3", "f2", "weld", GAINS), LoopConstraint(m, "f0", "f1", "hinge", GAINS, size=0.05)]


def coupled(m):
    joints = {"body 0_joint": 1.0, "body 6_joint": -0.7, "body 4_joint": 0.4}
    return [*ball(m), JointCoupling(m, joints, 0.9, GAINS), PointContact(m, "f2", (0.0, 3.0))]


CASES = [ball, hinges, weld, weld_to_world, weld_of_world, coupled]


def closed(tree, ends, rng):
    """The robot with a frame g where f_i is fixed to one body and f_j to another, so that a configuration closes them,
    and this configuration."""
    first, second = (tree.frame(f"f{end}") for end in ends)
    q = random_states(tree, 1, rng, 0)[0][0]
    place = dynamics.frame_placement(tree, q, f"f{ends[0]}")
    builder = builder_of(tree)
    carrier = f"f{ends[1]}"
    at = dynamics.frame_placement(tree, q, carrier)
    builder.add_frame("g", carrier, (at.R.T @ place.R, at.R.T @ (place.p - at.p)))
    assert first.body != second.body
    return builder.build(), f"f{ends[0]}", q


def keeping(model, q, loop, v):
    """The velocity nearest v that keeps a loop closed."""
    J = loop_rows(model, q[None], loop).J[0]
    return v - np.linalg.pinv(J) @ (J @ v)


def planar_four_bar(tilt=0.0):
    """Rows across the plane hold nothing; tilt: of the pin's axis against the others, rad, as rounding may leave it."""
    builder = ModelBuilder()
    for name, parent, x, length in (
        ("crank", "world", 0.0, 0.2),
        ("rod", "crank", 0.2, 0.5),
        ("rocker", "world", 0.5, 0.4),
    ):
        rod = {"mass": 1.0, "com": (length / 2, 0.0, 0.0), "inertia": 0.01 * np.eye(3)}
        axis = Revolute([np.sin(tilt), np.cos(tilt), 0.0] if name == "rod" else "y")
        builder.add_body(name, parent, axis, placement=(np.eye(3), (x, 0.0, 0.0)), **rod)
    builder.add_frame("end of rod", "rod", (np.eye(3), (0.5, 0.0, 0.0)))
    builder.add_frame("end of rocker", "rocker", (np.eye(3), (0.4, 0.0, 0.0)))
    return builder.build()
