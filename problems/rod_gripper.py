"""Two soft fingers on a carriage hold a body between their tips, and carry it to a target, where it comes to rest.

The chain carriage - finger - body - finger is closed by a hinge.  The fingers hang from the carriage, 20 cm long, with
three tendons each; the body of 100 g turns on hinges at both tips.  The carriage of 300 g runs along y, driven by a
force.  From rest with slack tendons the body goes 40 cm along the rail, and aside and up by what the tensions GOAL
hold.  0.5 seconds, 25 knots of "sdirk2", the method for closed chains.  Costs: tensions, force and a little
motion on the way, the body's position and rest at the end.  Tendons only pull, with 10 N at most.

The initial states go through equilibria, which no controls follow exactly: from a carriage that stands still, solvers
take nearly three times as many steps to get near the optimum.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

import trajopt
from dynamics.model.joints import Prismatic, Revolute
from dynamics.rods.kinematics.center_lines import link_placement
from dynamics.rods.loads.tendons import Tendon
from dynamics.rods.model.cross_section import Circular, Elastic
from dynamics.rods.model.strain_basis import LegendreBasis
from dynamics.rods.robot.builder import RodModelBuilder
from dynamics.rods.robot.link_residuals import LinkTranslation
from dynamics.rods.robot.soft_robot import SoftRobot
from dynamics.rods.statics.equilibrium import static_equilibrium
from dynamics.rods.stepping.soft_system import SoftRobotSystem

CARRIAGE, BODY, FINGERS = "carriage", "body", ("left finger", "right finger")
SPAN, LENGTH = 0.08, 0.2  # m
LARGEST_TENSION, LARGEST_FORCE = 10.0, 20.0  # N
GOAL, PLACE = np.array([5.0, 0.0, 1.0, 5.0, 1.0, 0.0]), 0.4  # N, m
DOWN = np.array([[0.0, 0.0, 1.0], [0.0, 1.0, 0.0], [-1.0, 0.0, 0.0]])
"""Axes of a finger's foot: along it, across in y, and in x."""


def rod_gripper() -> SoftRobot:
    """The gripper, of 14 coordinates and 9 degrees of freedom; controls: three tensions of each finger, the carriage's
    force."""
    builder = RodModelBuilder(name="rod gripper")
    box = {"mass": 0.3, "inertia": np.diag([4e-4, 2e-4, 4e-4])}
    builder.add_body(CARRIAGE, "world", Prismatic("y"), **box, damping=0.5)
    material, basis = Elastic(1e6, 0.45, 1100.0, 5e3), LegendreBasis(torsion=0, bending_y=1, bending_z=2)
    tendons = []
    for name, y in zip(FINGERS, (-0.5 * SPAN, 0.5 * SPAN), strict=True):
        foot = DOWN, (0.0, y, 0.0)
        builder.add_rod(name, CARRIAGE, LENGTH, Circular(0.012, 0.008), material, basis, placement=foot, points=3)
        for k, angle in enumerate(np.radians([90.0, 210.0, 330.0])):
            place = 0.006 * np.cos(angle), 0.006 * np.sin(angle)
            tendons.append(Tendon.straight(name, *place, name=f"{name} {k}"))
    held = {"mass": 0.1, "com": (0.0, 0.5 * SPAN, 0.0), "inertia": np.diag([6e-5, 2e-5, 6e-5])}
    builder.add_body(BODY, FINGERS[0], Revolute("x"), **held, placement=(DOWN.T, np.zeros(3)), damping=1e-3)
    hinge = DOWN.T, np.zeros(3)
    builder.add_closure("grip", FINGERS[1], BODY, Revolute("x"), hinge, (np.eye(3), (0.0, SPAN, 0.0)))
    return SoftRobot(builder.build(), tendons, torques=(CARRIAGE,))


def make(horizon: int = 25, dt: float = 0.02, place: float = PLACE) -> trajopt.Problem:
    """The problem with `horizon` knots of dt seconds to a place of the carriage, m."""
    robot = rod_gripper()
    system = SoftRobotSystem(robot, dt, "sdirk2")
    n, tendons = system.nv, system.nu - 1
    x0, goal = (system.state(resting(robot, *where)) for where in ((0.0 * GOAL, 0.0), (GOAL, place)))
    target = link_placement(robot.model, BODY, goal[:n])[1]
    s, speed = quintic(horizon, horizon * dt)
    return trajopt.Problem(
        system,
        x0,
        horizon,
        running_costs=[
            trajopt.ControlCost(np.r_[np.full(tendons, 1e-3), 1e-3]),
            trajopt.StateCost(system, x0, np.r_[np.zeros(n), np.full(n, 1e-3)]),
        ],
        terminal_costs=[
            trajopt.ResidualCost(LinkTranslation(robot.model, BODY, target), 1e4),
            trajopt.StateCost(system, x0, np.r_[np.zeros(n), np.full(n, 1.0)]),
        ],
        constraints=[
            trajopt.ControlBounds(
                np.r_[np.zeros(tendons), -LARGEST_FORCE], np.r_[np.full(tendons, LARGEST_TENSION), LARGEST_FORCE]
            )
        ],
        us_init=np.column_stack([np.outer(s[:-1], GOAL), np.zeros(horizon)]),
        xs_init=x0 + np.outer(s, goal - x0) + np.outer(speed, np.r_[np.zeros(n), (goal - x0)[:n]]),
        scenery=[trajopt.Target(target, 0.03)],
        name="rod_gripper",
    )


def resting(robot: SoftRobot, tensions: ArrayLike, place: float) -> np.ndarray:
    """Coordinates (n,) at rest under tensions (6,), N, with the carriage fixed at its place, m."""
    return static_equilibrium(robot, np.append(tensions, 0.0), prescribed={CARRIAGE: place}).q


def quintic(horizon: int, duration: float) -> tuple[np.ndarray, np.ndarray]:
    """A function from 0 to 1 (N+1,) with zero rate at both ends, and its rate (N+1,), 1/s."""
    s = np.linspace(0.0, 1.0, horizon + 1)
    return s**3 * (10.0 - 15.0 * s + 6.0 * s**2), 30.0 * (s * (1.0 - s)) ** 2 / duration
