"""A rigid arm of seven revolute joints whose angles are prescribed, with a soft rod at its end.

    joints      about the link (x) and across it (y) in turn; angles swing between zero and pi / 4, alternately to
                either side, at a frequency of their own, 0.15 to 0.45 Hz, from rest
    links       seven cylinders, 12 cm long, 3 cm in radius, 1000 kg/m^3; hanging at zero angles
    soft link   0.5 m long, radius 15 mm at its base, 10 mm at its tip, clamped; torsion, bending and stretch of
                order 4, no shear: 20 coordinates

Soft link, joints and the range of angles are those of Mathew et al. 2025, section 5.1; links and motion are not given
there.
"""

from collections.abc import Callable

import numpy as np

from dynamics import Revolute
from dynamics.rods.model.cross_section import Circular
from dynamics.rods.model.strain_basis import LegendreBasis
from dynamics.rods.robot.builder import RodModelBuilder
from dynamics.rods.robot.soft_robot import SoftRobot
from problems.rods.cable_manipulator import SOFT
from problems.rods.example import RodExample
from problems.rods.manipulator_motion import HANGING

LINKS, LENGTH, RADIUS, DENSITY = 7, 0.12, 0.03, 1000.0
ANGLE = 0.25 * np.pi
FREQUENCIES = np.linspace(0.15, 0.45, LINKS)


def serial_arm() -> RodExample:
    """The arm, its links "link 1" to "link 7" and the rod "soft"."""
    builder = RodModelBuilder(name="serial arm", base=(HANGING, np.zeros(3)))
    mass = DENSITY * np.pi * RADIUS**2 * LENGTH
    across = mass * (3.0 * RADIUS**2 + LENGTH**2) / 12.0
    link = {"mass": mass, "com": (0.5 * LENGTH, 0.0, 0.0), "inertia": np.diag([0.5 * mass * RADIUS**2, across, across])}
    end, parent = (np.eye(3), [LENGTH, 0.0, 0.0]), "world"
    for k in range(LINKS):
        name, axis = f"link {k + 1}", "xy"[k % 2]
        builder.add_body(name, parent, Revolute(axis), None if parent == "world" else end, **link)
        parent = name
    basis = LegendreBasis(torsion=4, bending_y=4, bending_z=4, stretch=4)
    builder.add_rod("soft", parent, 0.5, Circular(0.015, 0.01), SOFT, basis, placement=end)
    prescribed = {f"link {k + 1}": _swing((-1.0) ** k * ANGLE, FREQUENCIES[k]) for k in range(LINKS)}
    return RodExample(
        "serial_arm", SoftRobot(builder.build()), lambda t: np.zeros(0), None, prescribed, "hybrid serial arm"
    )


def _swing(angle: float, frequency: float) -> Callable[[float], tuple[float, float, float]]:
    """A function that swings between zero and an angle, rad, with its rate and acceleration."""
    half, w = 0.5 * angle, 2.0 * np.pi * frequency
    return lambda t: (half * (1.0 - np.cos(w * t)), half * w * np.sin(w * t), half * w * w * np.cos(w * t))
