"""A fin-ray finger: two soft walls that meet in a tip, with soft ribs between, bent by one wall sliding at its base.

    walls       from 6 cm apart at the base to the tip, six links of 3 cm each, 2.5 cm across the plane
    ribs        five, from each joint of the left wall to that of the right one, 5, 4, 3, 2, 1 cm long, 1 cm across;
                a hinge at either end, the right one closing a chain; the walls' tips are joined rigidly
    links       1 mm thick; linear bending, constant stretch and shear, all in the plane of the finger: 4 coordinates
    base        the left wall clamped; the right one on a slider of 10 g that moves along the finger, 1 cm towards the
                tip and back every 5 s, smoothly and from rest
    material    E = 2 GPa, nu = 0.35; density 1040 kg/m^3 and viscosity 0.1 MPa s of our choice, as for ABS
    gravity     down; the finger points up

Thicknesses, heights, the walls' links, strains, material and the number of joints are those of Mathew et al. 2025,
section 5.2: 17 * 4 + 5 + 1 = 74 coordinates and 6 closed joints.  The width, with it the ribs' spacing and lengths,
density, damping, slider and its motion are not given there.
"""

import numpy as np

from dynamics import Fixed, Prismatic, Revolute
from dynamics.rods.model.cross_section import Elastic, Rectangular
from dynamics.rods.model.strain_basis import LegendreBasis
from dynamics.rods.robot.builder import RodModelBuilder
from dynamics.rods.robot.soft_robot import SoftRobot
from problems.rods.example import RodExample

LINK, WIDTH, THICKNESS, LINKS = 0.03, 0.06, 0.001, 6
ABS = Elastic(2e9, 0.35, 1040.0, 1e5)
BASIS = LegendreBasis(bending_z=1, stretch=0, shear_y=0)
STROKE, PERIOD = 0.01, 5.0  # m, s
PLANE = np.array([[1.0, 0.0, 0.0], [0.0, 0.0, -1.0], [0.0, 1.0, 0.0]])
"""Axes of a base whose x and y span a plane upright in the world."""


def fin_ray_finger() -> RodExample:
    """The finger, its links "left 1" to "left 6", "right 1" to "right 6", "rib 1" to "rib 5" and "slider"."""
    lean = np.arccos(0.5 * WIDTH / (LINK * LINKS))
    wall, rib = Rectangular(THICKNESS, 0.025), Rectangular(THICKNESS, 0.01)
    builder = RodModelBuilder(name="fin-ray finger", base=(PLANE, np.zeros(3)))
    builder.add_body("slider", "world", Prismatic("y"), (np.eye(3), [0.5 * WIDTH, 0.0, 0.0]), mass=0.01)
    left, right = "world", "slider"
    for k in range(1, LINKS + 1):
        first = k == 1
        for name, parent, place in (
            (f"left {k}", left, (_turn(lean), [-0.5 * WIDTH, 0.0, 0.0])),
            (f"right {k}", right, (_turn(np.pi - lean), np.zeros(3))),
        ):
            builder.add_rod(name, parent, LINK, wall, ABS, BASIS, placement=place if first else None)
        left, right = f"left {k}", f"right {k}"
        if k < LINKS:
            hinge, length = (_turn(-lean), np.zeros(3)), WIDTH * (1.0 - k / LINKS)
            builder.add_rod(f"rib {k}", left, length, rib, ABS, BASIS, joint=Revolute("z"), placement=hinge)
            builder.add_closure(f"hinge {k}", f"rib {k}", right, Revolute("z"))
    builder.add_closure("tip", left, right, Fixed(), None, (_turn(2.0 * lean - np.pi), np.zeros(3)))
    return RodExample(
        "fin_ray_finger", SoftRobot(builder.build()), lambda t: np.zeros(0), None, {"slider": _stroke}, "fin-ray finger"
    )


def _turn(angle: float) -> np.ndarray:
    c, s = np.cos(angle), np.sin(angle)
    return np.array([[c, -s, 0.0], [s, c, 0.0], [0.0, 0.0, 1.0]])


def _stroke(t: float) -> tuple[float, float, float]:
    """Displacement of the slider, m, its rate and acceleration."""
    w, half = 2.0 * np.pi / PERIOD, 0.5 * STROKE
    return half * (1.0 - np.cos(w * t)), half * w * np.sin(w * t), half * w * w * np.cos(w * t)
