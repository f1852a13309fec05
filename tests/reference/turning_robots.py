"""Robots with joints that turn about any axis."""

from functools import cache

import numpy as np

from dynamics import FreeFlyer, Planar, Spherical
from dynamics.rods.loads.tendons import Tendon
from dynamics.rods.model.cross_section import Circular, Elastic
from dynamics.rods.model.strain_basis import LegendreBasis
from dynamics.rods.robot.builder import RodModelBuilder
from dynamics.rods.robot.soft_robot import SoftRobot

MOMENTS = np.array([0.02, 0.03, 0.04])
RUBBER = Elastic(young=1e7, poisson=0.5, density=1000.0, viscosity=1e4)
ROD = Circular(0.005)


@cache
def free_body() -> SoftRobot:
    """A body of three different moments of inertia, free."""
    builder = RodModelBuilder(gravity=(0.0, 0.0, 0.0))
    builder.add_body("body", "world", FreeFlyer(), mass=1.0, inertia=np.diag(MOMENTS))
    return SoftRobot(builder.build())


@cache
def body_with_boom() -> SoftRobot:
    """That body with a soft boom of four coordinates and a tendon."""
    builder = RodModelBuilder(gravity=(0.0, 0.0, 0.0))
    builder.add_body("body", "world", FreeFlyer(), mass=1.0, inertia=np.diag(MOMENTS))
    place, basis = (np.eye(3), [0.05, 0.0, 0.0]), LegendreBasis(bending_y=1, bending_z=1)
    builder.add_rod("boom", "body", 0.3, ROD, RUBBER, basis, placement=place, points=3)
    return SoftRobot(builder.build(), [Tendon("boom", 0.003, 0.001)])


@cache
def chain() -> SoftRobot:
    """A spherical joint, a rod, a planar joint, of which the first has no coordinate 0 of the robot."""
    builder, body = RodModelBuilder(), {"mass": 0.3, "inertia": np.diag(0.1 * MOMENTS)}
    builder.add_rod("root", "world", 0.2, ROD, RUBBER, LegendreBasis(bending_z=0), points=2)
    builder.add_body("ball", "root", Spherical(), com=(0.05, 0.02, 0.0), **body)
    builder.add_rod("arm", "ball", 0.2, ROD, RUBBER, LegendreBasis(bending_y=0, torsion=0), points=2)
    builder.add_body("plate", "arm", Planar(), com=(0.02, 0.0, 0.01), **body)
    return SoftRobot(builder.build())


ROBOTS = {"free body": free_body, "boom": body_with_boom, "chain": chain}
