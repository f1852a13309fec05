"""The manipulator with five cables pulled in turn, in the open and inside a cylinder.

The paper shows tensions only as curves.  Here each cable's swings between zero and 40 N at a frequency of its own,
0.23 to 0.59 Hz, from rest.  In the cylinder the manipulator hangs down its axis, and has ten points, each of which
touches the wall as a sphere of the rod's radius [Mathew et al. 2025, sections 4.5 and 6.2].
"""

import numpy as np

from dynamics.rods.loads.contacts import CylinderContact
from problems.rods.cable_manipulator import cable_manipulator
from problems.rods.example import RodExample

TENSION = 40.0
FREQUENCIES = np.array([0.23, 0.31, 0.37, 0.43, 0.59])
HANGING = np.array([[0.0, 0.0, 1.0], [0.0, 1.0, 0.0], [-1.0, 0.0, 0.0]])
"""Axes of a base whose x points down."""
WALL = CylinderContact(radius=0.15, stiffness=1e5, exponent=1.5)


def tensions(t: float) -> np.ndarray:
    """Tensions (5,) of the cables at time t, N."""
    return 0.5 * TENSION * (1.0 - np.cos(2.0 * np.pi * FREQUENCIES * t))


def manipulator_motion() -> RodExample:
    """The manipulator without contact, with its base along x."""
    return RodExample("cable_manipulator", cable_manipulator(), tensions, None, None, "cable-driven manipulator")


def manipulator_in_cylinder() -> RodExample:
    """The manipulator in a cylinder around the z axis of the world."""
    robot = cable_manipulator(points=10, base=(HANGING, np.zeros(3)), contact=WALL)
    return RodExample("contact", robot, tensions, None, None, "manipulator in a cylinder")
