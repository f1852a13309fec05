"""A parallel robot: three soft pillars carry a rigid triangular plate on ball joints; a wrench moves the plate.

    pillars     1.5 x 3 x 15 cm, upright, their thin sides along the radius, 7 cm from the middle; strains of torsion
                and bending of order 3, of stretch and shear of order 1: 18 coordinates each
    plate       an equilateral triangle of 20 cm sides, 1 cm thick, 1000 kg/m^3, corners above the pillars
    joints      balls at the tips of all pillars.  The first carries the plate; the others carry a frame without mass
                that is fixed to the plate by a closed joint
    material    E = 1 MPa, nu = 0.5, 1000 kg/m^3, viscosity 10 kPa s
    wrench      at the middle of the plate, axes of the world: forces of 0.5 N and moments of 0.05 N m at most, each
                component a sine of its own frequency, 0.15 to 0.4 Hz, that fades in over a second

Pillars, plate, strains, material, ball joints, their number of coordinates, 3 * 18 + 3 * 3 = 63, and the size of the
wrench are those of Mathew et al. 2025, section 6.1.  The caption there has two closed revolute joints; on top of three
balls of three coordinates each these would let the frames spin freely, so the joints here are fixed ones: six
constraints each, which leave 51 degrees of freedom.  Places of the pillars and the signals are not given there.
"""

import numpy as np

from dynamics import Fixed, Spherical
from dynamics.rods.model.cross_section import Elastic, Rectangular
from dynamics.rods.model.strain_basis import LegendreBasis
from dynamics.rods.robot.builder import RodModelBuilder
from dynamics.rods.robot.soft_robot import SoftRobot
from problems.rods.example import RodExample

SOFT = Elastic(1e6, 0.5, 1000.0, 1e4)
SIDE, THICKNESS, HEIGHT, RADIUS = 0.2, 0.01, 0.15, 0.07
FORCE, MOMENT = 0.5, 0.05
FREQUENCIES = np.linspace(0.15, 0.4, 6)


def parallel_robot() -> RodExample:
    """The robot, its links "pillar 1" to "pillar 3", "plate", "ball 2" and "ball 3"; one wrench, "plate"."""
    builder = RodModelBuilder(name="parallel robot")
    basis = LegendreBasis(3, 3, 3, 1, 1, 1)
    feet = [_upright(2.0 * np.pi * k / 3.0) for k in range(3)]
    for k, foot in enumerate(feet, 1):
        builder.add_rod(f"pillar {k}", "world", HEIGHT, Rectangular(0.015, 0.03), SOFT, basis, placement=foot)
    middle = np.array([0.0, 0.0, 0.5 * THICKNESS]) - feet[0][1]  # of the plate, whose frame is above the first pillar
    builder.add_body("plate", "pillar 1", Spherical(), (feet[0][0].T, np.zeros(3)), **_triangle(), com=middle)
    for k in (2, 3):
        R, p = feet[k - 1]
        builder.add_body(f"ball {k}", f"pillar {k}", Spherical(), (R.T, np.zeros(3)))
        builder.add_closure(f"joint {k}", f"ball {k}", "plate", Fixed(), None, (np.eye(3), p - feet[0][1]))
    builder.add_wrench("plate", point=middle)
    robot = SoftRobot(builder.build())
    return RodExample("parallel_robot", robot, lambda t: np.zeros(0), _wrench, None, "parallel robot")


def _upright(angle: float) -> tuple[np.ndarray, np.ndarray]:
    """Axes (up, along the radius, across it) and place of a pillar's foot."""
    radial = np.array([np.cos(angle), np.sin(angle), 0.0])
    up = np.array([0.0, 0.0, 1.0])
    return np.column_stack([up, radial, np.cross(up, radial)]), RADIUS * radial


def _triangle() -> dict:
    """Mass and inertia of the plate."""
    mass = 1000.0 * np.sqrt(0.1875) * SIDE**2 * THICKNESS
    bending = mass * (SIDE**2 / 24.0 + THICKNESS**2 / 12.0)
    return {"mass": mass, "inertia": np.diag([bending, bending, mass * SIDE**2 / 12.0])}


def _wrench(t: float) -> np.ndarray:
    """[moment; force] on the plate, (1, 6)."""
    fade = 0.5 * (1.0 - np.cos(np.pi * min(t, 1.0)))
    sines = np.sin(2.0 * np.pi * FREQUENCIES * t)
    return (fade * np.array([MOMENT] * 3 + [FORCE] * 3) * sines)[None]
