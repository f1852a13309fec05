"""A vehicle under water with six flagella on two shafts that turn against each other.

    body        a free cylinder, 40 cm long, 6 cm in radius, along x
    shafts      a disc of radius 4 cm, 2 cm thick, at either end, about x; driven by 0.25 N m and -0.25 N m
    hooks       three on each shaft, 120 degrees apart: 5 cm outwards, 12.5 mm in radius, fixed
    flagella    from the hooks' ends, 45 degrees outwards and backwards; 35 cm in front, 50 cm behind, radius 12.5 mm,
                tapering to a point; torsion and bending of order 3, neither stretch nor shear: 12 coordinates each
    water       1000 kg/m^3, as all of the vehicle, which is why there is no gravity; drag, lift and added mass of
                slender bodies on the flagella, of a cylinder on the body

Flagella, torques and buoyancy: Mathew et al. 2025, section 6.3, where the radius is printed as 12.5 cm.  Coefficients
of the flagella are those of the authors' toolbox for a similar robot.  Body, shafts and hooks are not given there.
"""

import numpy as np

from dynamics import Fixed, FreeFlyer, Revolute
from dynamics.rods.loads.external_loads import Fluid
from dynamics.rods.model.cross_section import Circular
from dynamics.rods.model.strain_basis import LegendreBasis
from dynamics.rods.robot.builder import RodModelBuilder
from dynamics.rods.robot.soft_robot import SoftRobot
from problems.rods.cable_manipulator import SOFT
from problems.rods.example import RodExample

WATER = Fluid(density=1000.0, drag=(0.0, 1.1, 1.1), lift=-0.1, added_mass=(0.6, 0.6), buoyancy=False)
BODY_LENGTH, BODY_RADIUS = 0.4, 0.06
DRAG_ALONG, DRAG_ACROSS = 0.8, 1.1
"""Drag coefficients of the body, on its front and on its side."""
SHAFT_LENGTH, SHAFT_RADIUS, HOOK_LENGTH, ROD_RADIUS = 0.02, 0.04, 0.05, 0.0125
FLAGELLA = {"front": 0.35, "rear": 0.5}
TORQUE = 0.25


def underwater_vehicle() -> RodExample:
    """The vehicle: links "body", "front", "rear", and e.g. "front hook 1" and "front flagellum 1"."""
    builder = RodModelBuilder(gravity=(0.0, 0.0, 0.0), name="underwater vehicle")
    builder.add_body("body", "world", FreeFlyer(), **_cylinder(BODY_LENGTH, BODY_RADIUS, 0))
    front, side = np.pi * BODY_RADIUS**2, 2.0 * BODY_RADIUS * BODY_LENGTH
    drag = np.array([DRAG_ALONG * front, DRAG_ACROSS * side, DRAG_ACROSS * side])
    builder.add_drag("body", np.diag([0.0, 0.0, 0.0, *(0.5 * WATER.density * drag)]))
    displaced = WATER.density * front * BODY_LENGTH
    builder.add_added_mass("body", np.diag([0.0, 0.0, 0.0, 0.0, displaced, displaced]))
    for shaft, place in (("front", 0.5 * BODY_LENGTH), ("rear", -0.5 * BODY_LENGTH)):
        _add_shaft(builder, shaft, place)
    torques = np.array([TORQUE, -TORQUE])
    robot = SoftRobot(builder.build(), torques=("front", "rear"))
    return RodExample("underwater_vehicle", robot, lambda t: torques, None, None, "underwater vehicle")


def _cylinder(length: float, radius: float, axis: int) -> dict:
    """Mass and inertia about the middle of a cylinder as dense as water."""
    mass = WATER.density * np.pi * radius**2 * length
    moments = np.full(3, mass * (3.0 * radius**2 + length**2) / 12.0)
    moments[axis] = 0.5 * mass * radius**2
    return {"mass": mass, "inertia": np.diag(moments)}


def _add_shaft(builder: RodModelBuilder, shaft: str, place: float) -> None:
    """A shaft at x = place of the body, its hooks and flagella."""
    builder.add_body(
        shaft, "body", Revolute("x"), (np.eye(3), [place, 0.0, 0.0]), **_cylinder(SHAFT_LENGTH, SHAFT_RADIUS, 0)
    )
    hook, middle = _cylinder(HOOK_LENGTH, ROD_RADIUS, 0), (0.5 * HOOK_LENGTH, 0.0, 0.0)
    for k in range(3):
        angle = 2.0 * np.pi * k / 3.0
        outwards = np.array([0.0, np.cos(angle), np.sin(angle)])
        around = np.array([0.0, -np.sin(angle), np.cos(angle)])
        axes = np.column_stack([outwards, around, np.cross(outwards, around)])
        name = f"{shaft} hook {k + 1}"
        builder.add_body(name, shaft, Fixed(), (axes, SHAFT_RADIUS * outwards), com=middle, **hook)
        flagellum = f"{shaft} flagellum {k + 1}"
        builder.add_rod(
            flagellum, name, FLAGELLA[shaft], Circular(ROD_RADIUS, 0.0), SOFT,
            LegendreBasis(torsion=3, bending_y=3, bending_z=3), placement=(_backwards(), [HOOK_LENGTH, 0.0, 0.0]),
        )  # fmt: skip
        builder.add_fluid(flagellum, WATER)


def _backwards() -> np.ndarray:
    """Axes (3, 3) in the hook, with x half outwards, half backwards; the hook's z axis is the body's x axis."""
    c = np.sqrt(0.5)
    return np.array([[c, 0.0, c], [0.0, 1.0, 0.0], [-c, 0.0, c]])
