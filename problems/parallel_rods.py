"""A plate on three soft rods, a parallel robot, reaches a pose and comes to rest there, pulled by six tendons.

The rods stand upright on a circle of 8 cm, 15 cm long; balls join their tips to the corners of the plate of 120 g and
close two chains.  Each rod has a tendon that bends it outwards and one that bends it along the circle, all the same
way round, so that the plate shifts, tilts and turns.  The pose is the one that the tensions GOAL hold; it is reached
when all corners are in place.  0.4 seconds, 20 knots of "sdirk2", the method for closed chains.  Costs: tensions
and a little motion on the way, the corners' positions and rest at the end.  Tendons only pull, with 15 N at most.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

import trajopt
from dynamics.model.joints import Fixed, Spherical
from dynamics.rods.kinematics.center_lines import link_placement
from dynamics.rods.loads.tendons import Tendon
from dynamics.rods.model.cross_section import Circular, Elastic
from dynamics.rods.model.strain_basis import LegendreBasis
from dynamics.rods.robot.builder import RodModelBuilder
from dynamics.rods.robot.link_residuals import LinkTranslation
from dynamics.rods.robot.soft_robot import SoftRobot
from dynamics.rods.statics.equilibrium import static_equilibrium
from dynamics.rods.stepping.soft_system import SoftRobotSystem

CORNERS = ("plate", "corner 2", "corner 3")
RADIUS, LENGTH = 0.08, 0.15  # m
LARGEST_TENSION = 15.0  # N
GOAL = np.array([8.0, 0.0, 3.0, 6.0, 0.0, 6.0])
PLACES = {"outwards": (0.007, 0.0), "around": (0.0, 0.007)}
"""Positions of tendons in a rod's section, m."""


def parallel_rods() -> SoftRobot:
    """The robot, of 18 coordinates and 12 degrees of freedom; controls: two tensions of each rod."""
    builder = RodModelBuilder(name="parallel rods")
    material, basis = Elastic(1e6, 0.45, 1100.0, 5e3), LegendreBasis(torsion=0, bending_y=1, bending_z=1)
    feet, tendons = [_upright(2.0 * np.pi * k / 3.0) for k in range(3)], []
    for k, foot in enumerate(feet, 1):
        rod = f"rod {k}"
        builder.add_rod(rod, "world", LENGTH, Circular(0.01), material, basis, placement=foot, points=3)
        tendons += [Tendon.straight(rod, *place, name=f"{rod} {way}") for way, place in PLACES.items()]
    (R, first), rest = feet[0], feet[1:]
    inertia = np.diag([2e-4, 2e-4, 4e-4])
    builder.add_body(
        CORNERS[0], "rod 1", Spherical(), mass=0.12, com=-first, inertia=inertia, placement=(R.T, np.zeros(3)),
        damping=1e-4,
    )  # fmt: skip
    for k, (_, place) in enumerate(rest, 2):
        builder.add_body(CORNERS[k - 1], CORNERS[0], Fixed(), placement=(np.eye(3), place - first))
        builder.add_closure(f"ball {k}", f"rod {k}", CORNERS[k - 1], Spherical())
    return SoftRobot(builder.build(), tendons)


def _upright(angle: float) -> tuple[np.ndarray, np.ndarray]:
    """Axes (up, along the radius, across it) and place of a rod's foot."""
    radial, up = np.array([np.cos(angle), np.sin(angle), 0.0]), np.array([0.0, 0.0, 1.0])
    return np.column_stack([up, radial, np.cross(up, radial)]), RADIUS * radial


def make(horizon: int = 20, dt: float = 0.02, targets: ArrayLike | None = None) -> trajopt.Problem:
    """The problem with `horizon` knots of dt seconds and targets (3, 3) of the plate's corners, m."""
    robot = parallel_rods()
    system = SoftRobotSystem(robot, dt, "sdirk2")
    n, nu = system.nv, system.nu
    x0 = system.state(static_equilibrium(robot, np.zeros(nu)).q)
    targets = resting_corners(robot, GOAL) if targets is None else np.asarray(targets, float)
    corners = [LinkTranslation(robot.model, *pair) for pair in zip(CORNERS, targets, strict=True)]
    return trajopt.Problem(
        system,
        x0,
        horizon,
        running_costs=[
            trajopt.ControlCost(1e-3),
            trajopt.StateCost(system, x0, np.r_[np.zeros(n), np.full(n, 1e-3)]),
        ],
        terminal_costs=[
            *(trajopt.ResidualCost(corner, 1e4) for corner in corners),
            trajopt.StateCost(system, x0, np.r_[np.zeros(n), np.full(n, 1.0)]),
        ],
        constraints=[trajopt.ControlBounds(np.zeros(nu), np.full(nu, LARGEST_TENSION))],
        scenery=[trajopt.Target(target, 0.01) for target in targets],
        name="parallel_rods",
    )


def resting_corners(robot: SoftRobot, tensions: ArrayLike) -> np.ndarray:
    """Positions (3, 3) of the plate's corners at rest under constant tensions (6,), N."""
    q = static_equilibrium(robot, tensions).q
    return np.array([link_placement(robot.model, corner, q)[1] for corner in CORNERS])
