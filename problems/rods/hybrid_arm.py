"""An arm of three driven joints that carries a soft link with three tendons."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from dynamics.model.joints import Revolute
from dynamics.rods.loads.tendons import Tendon
from dynamics.rods.model.cross_section import Circular, Elastic
from dynamics.rods.model.strain_basis import LegendreBasis
from dynamics.rods.robot.builder import RodModelBuilder
from dynamics.rods.robot.soft_robot import SoftRobot

TIP = "finger"
JOINTS = ("column", "upper arm", "forearm")


def hybrid_arm(points: int = 4, gravity: ArrayLike = (0.0, 0.0, -9.81)) -> SoftRobot:
    """A column that turns about the vertical, two links of 0.3 m about horizontal axes, and a rod of 0.25 m.

    The rod bends and twists, with eight coordinates; its straight tendons are 120 degrees apart.  Controls: three
    tensions, then the torques of `JOINTS`.

    Parameters
    ----------
    points : Gauss-Legendre points along the rod
    gravity : (3,), m/s^2

    Raises
    ------
    ValueError : fewer points than the strains need, or a parameter out of range.
    """
    builder = RodModelBuilder(gravity)
    upright = {"mass": 1.0, "com": (0.0, 0.0, 0.1), "inertia": np.diag([8e-3, 8e-3, 2e-3])}
    level = {"mass": 1.0, "com": (0.15, 0.0, 0.0), "inertia": np.diag([1e-3, 8e-3, 8e-3])}
    top, elbow = (np.eye(3), (0.0, 0.0, 0.2)), (np.eye(3), (0.3, 0.0, 0.0))
    column, upper, fore = JOINTS
    builder.add_body(column, "world", Revolute("z"), **upright, damping=0.1)
    builder.add_body(upper, column, Revolute("y"), **level, placement=top, damping=0.1)
    builder.add_body(fore, upper, Revolute("y"), **level, placement=elbow, damping=0.1)
    material = Elastic(young=1e6, poisson=0.45, density=1100.0, viscosity=5e3)
    basis = LegendreBasis(torsion=1, bending_y=2, bending_z=2)
    builder.add_rod(TIP, JOINTS[-1], 0.25, Circular(0.02, 0.012), material, basis, placement=elbow, points=points)
    angles = np.radians([90.0, 210.0, 330.0])
    tendons = [
        Tendon.straight(TIP, 0.01 * np.cos(angle), 0.01 * np.sin(angle), name=f"tendon {k}")
        for k, angle in enumerate(angles)
    ]
    return SoftRobot(builder.build(), tendons, torques=JOINTS)
