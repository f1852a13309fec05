"""A seven-axis arm whose tool follows a moving point past a ball, within its torques, its ranges and its speeds.

Lengths, masses and limits are about those of a light industrial arm with a payload of 14 kg: three links of 0.36, 0.42
and 0.4 m, a tool at 0.2 m from the wrist.  The plan has 40 knots of 20 ms; the point goes round an ellipse in 4 s, the
ball beside it.
"""

import numpy as np

import dynamics
import trajopt
from trajopt import SquaredNorm

KNOTS, DT = 40, 0.02
CENTRE, RADIUS = (0.62, 0.0, 0.7), 0.15
"""Of the ball, and least distance of the tool from its middle [m]; the point passes 3 cm closer."""
PERIOD, MIDDLE, HALF_WIDTH, HALF_HEIGHT = 4.0, (0.5, 0.0, 0.6), 0.35, 0.1
START = np.array([0.6, 0.7, 0.0, -1.3, 0.0, 0.9, 0.0])
TARGET = "translation of tool"
"""What the problem calls the cost of the tool's place."""

_AXES = "zyzyzyz"
_HEIGHTS = (0.16, 0.20, 0.20, 0.22, 0.20, 0.20, 0.08)
_MASSES = (5.8, 5.5, 4.9, 4.4, 3.3, 2.6, 1.2)
_SWING = np.radians([170.0, 120.0, 170.0, 120.0, 170.0, 120.0, 175.0])
_SPEED = np.radians([85.0, 85.0, 100.0, 75.0, 130.0, 135.0, 135.0])
_EFFORT = (320.0, 320.0, 176.0, 176.0, 110.0, 40.0, 40.0)


def arm() -> dynamics.RigidBodyModel:
    """The robot, upright at zero angles."""
    builder, parent = dynamics.ModelBuilder(name="arm7"), "world"
    for i, (axis, height, mass) in enumerate(zip(_AXES, _HEIGHTS, _MASSES, strict=True)):
        builder.add_body(
            f"link_{i}", parent, dynamics.Revolute(axis), joint_name=f"joint_{i}",
            placement=(np.eye(3), np.array([0.0, 0.0, height])), mass=mass, com=(0.0, 0.01, 0.09),
            inertia=mass * np.diag([0.006, 0.006, 0.003]), armature=0.1, lower=-_SWING[i], upper=_SWING[i],
            velocity=_SPEED[i], effort=_EFFORT[i],
        )  # fmt: skip
        parent = f"link_{i}"
    builder.add_frame("tool", parent, (np.eye(3), np.array([0.0, 0.0, 0.12])))
    return builder.build()


def target(time: float) -> np.ndarray:
    """Where the tool is to be (3,) at a time, m."""
    angle = 2.0 * np.pi * time / PERIOD
    return np.array(MIDDLE) + [0.0, HALF_WIDTH * np.cos(angle), HALF_HEIGHT * np.sin(angle)]


def follow(constrained: bool, system: dynamics.RigidBodySystem | None = None) -> trajopt.Problem:
    """The problem of a cycle; unconstrained: without any limit and without the ball."""
    model = arm() if system is None else system.model
    system = dynamics.RigidBodySystem(model, DT) if system is None else system
    x0 = system.state(START)
    tool = dynamics.FrameTranslation(model, "tool", target(0.0))
    ball = trajopt.ResidualConstraint(
        SquaredNorm(dynamics.FrameTranslation(model, "tool", CENTRE)), RADIUS**2, np.inf, at="all", name="ball"
    )
    limits = [
        trajopt.ControlBounds.from_model(system),
        trajopt.StateBounds.from_model(system, name="ranges and speeds"),
        ball,
    ]
    return trajopt.Problem(
        system,
        x0,
        KNOTS,
        running_costs=[
            trajopt.ResidualCost(tool, 1e3),
            trajopt.StateCost(system, x0, np.repeat([0.1, 1.0], 7)),
            trajopt.ControlCost(1e-3, dynamics.gravity_forces(model, START)),
        ],
        terminal_costs=[trajopt.ResidualCost(tool, 1e2), trajopt.StateCost(system, x0, np.repeat([0.0, 1.0], 7))],
        constraints=limits if constrained else [],
        us_init=np.tile(dynamics.gravity_forces(model, START), (KNOTS, 1)),
        name="seven-axis arm",
    )
