"""Soft robots with closed chains, small ones, for tests of their motion."""

import numpy as np

from dynamics import Fixed, Prismatic, Revolute, Spherical
from dynamics.rods.loads.tendons import Tendon
from dynamics.rods.model.cross_section import Circular, Elastic
from dynamics.rods.model.strain_basis import LegendreBasis
from dynamics.rods.robot.builder import RodModelBuilder
from dynamics.rods.robot.soft_robot import SoftRobot

UP = np.array([[0.0, 0.0, -1.0], [0.0, 1.0, 0.0], [1.0, 0.0, 0.0]])
SPAN = 0.1


def arch(joint=None, anchored: bool = False, damping: float = 0.0) -> SoftRobot:
    """Two upright rods with a tendon each carry a beam, which one of them holds by a ball and the other by this joint,
    by default a ball; the beam's middle may be held by a hinge to the world besides.  15 coordinates, and those that
    the joint has."""
    soft = Elastic(1e6, 0.5, 1000.0, 1e3)
    builder, basis = RodModelBuilder(), LegendreBasis(0, 1, 1, 0)
    for name, y in (("left", 0.0), ("right", SPAN)):
        builder.add_rod(name, "world", 0.2, Circular(0.01), soft, basis, placement=(UP, [0.0, y, 0.0]), points=3)
    inertia = 1e-4 * np.diag([1.0, 0.5, 1.5])
    builder.add_body("beam", "left", Spherical(), mass=0.05, com=(0.0, 0.05, 0.0), inertia=inertia, damping=1e-3)
    end = (np.eye(3), [0.0, SPAN, 0.0])
    builder.add_closure("top", "right", "beam", joint or Spherical(), None, end, damping=damping)
    if anchored:
        place = np.array([0.0, 0.5 * SPAN, 0.0])
        builder.add_closure(
            "anchor", "beam", "world", Revolute("x"), (UP.T, place), (np.eye(3), place + [0.0, 0.0, 0.2])
        )
    tendons = [Tendon.straight("left", 0.0, 0.008, name="left"), Tendon.straight("right", 0.008, 0.0, name="right")]
    return SoftRobot(builder.build(), tendons)


CLOSED = {
    "ball": arch,
    "weld": lambda: arch(Fixed()),
    "world": lambda: arch(Revolute("y"), anchored=True),
    "sleeve": lambda: arch((Prismatic("y"), Revolute("x"), Revolute("z")), damping=0.01),
}
