"""A leg of two links jumps up along a rail, until its foot is 30 cm above the ground.

The leg is one of the quadruped of `quadruped_model` in its plane, with a quarter of that robot's base: hip and knee
motors and a foot that is a point, in a friction cone while it pushes off.  It crouches at rest at first, pushes off for
0.13 s, and flies for 0.21 s, of 5 ms knots, at the end of which it is at rest for a moment, bent as it was.  Torques
cost, within the motors' limits.

For co-design the leg is a function of its lengths (`design`).  Links are tubes with the linear density of the lower leg
of the quadruped, 30.7 g on 16 cm; the upper one carries in its middle the motor of the knee, which is the rest of its
148.5 g and whose place follows from their common centre of mass.  Inertias of links are those of thin rods, the motor
is a point.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

import dynamics
import trajopt
from problems.quadruped_model import SEGMENT
from problems.walker import FRICTION

BODY = 1.16115091 / 4.0 + 0.14853845
"""Mass of a quarter of the quadruped's base, and a hip with its motor, kg."""
LINEAR_DENSITY = 0.03070001 / SEGMENT
"""Linear density of the links, kg/m."""
MOTOR = 0.14853845 - 0.03070001
"""Mass of the knee motor, kg."""
FOOT = 0.00693606
"""Mass of the foot, kg."""
ROTOR, GEAR, STALL = 4.5e-6, 9.0, 0.025 * 12.0
"""Rotor inertia, kg m^2, gear ratio, and the largest torque of the motor before the gear, N m."""
CROUCH = 1.0
"""Half the angle of the knee at the start, for equal links also their angle to the vertical, rad."""
STRAIGHT = -0.2
"""The largest angle of the knee, rad, at its stop."""
RISE = 0.3
"""Rise of the foot, m."""
END = 1e4, 1e3, 1e3, 1e3, 1.0, 1.0
"""Weights of the last state."""
PUSH = 13 / 34
"""Share of the time on the ground."""


class Design(NamedTuple):
    """Lengths of the upper and the lower link, m."""

    upper: float
    lower: float


QUADRUPED = Design(SEGMENT, SEGMENT)


def leg(design: Design) -> dynamics.RigidBodyModel:
    """The leg, q = [height of the hip, angles of hip and knee]; x forwards, z upwards, at zero angles the leg hangs
    down."""
    builder = dynamics.ModelBuilder(name="leg")
    motor = {"armature": GEAR**2 * ROTOR, "effort": GEAR * STALL}
    builder.add_body("body", "world", dynamics.Prismatic("z"), joint_name="rail", mass=BODY, inertia=np.eye(3) * 1e-3)
    tubes = [LINEAR_DENSITY * length for length in design]
    for name, parent, place, tube, length in (
        ("upper", "body", 0.0, tubes[0], design.upper),
        ("lower", "upper", -design.upper, tubes[1], design.lower),
    ):
        point, at = (MOTOR, 0.5 * length) if name == "upper" else (FOOT, length)
        mass = tube + point
        com = (0.5 * tube * length + point * at) / mass
        across = tube * length**2 / 12.0 + tube * (0.5 * length - com) ** 2 + point * (at - com) ** 2
        builder.add_body(
            name, parent, dynamics.Revolute("y"), placement=(np.eye(3), [0.0, 0.0, place]), mass=mass,
            joint_name="hip" if name == "upper" else "knee", com=[0.0, 0.0, -com],
            inertia=np.diag([across, across, 1e-6]), **motor,
        )  # fmt: skip
    builder.add_frame("foot", "lower", (np.eye(3), [0.0, 0.0, -design.lower]))
    return builder.build()


def crouching(design: Design) -> np.ndarray:
    """The configuration (3,) with the foot on the ground below the hip, the knee bent by twice CROUCH."""
    upper, lower = design
    height = np.sqrt(upper**2 + lower**2 + 2.0 * upper * lower * np.cos(2.0 * CROUCH))
    return np.array([height, *_bent(design, height)])


def make(horizon: int = 68, dt: float = 0.005, design: ArrayLike = QUADRUPED, rise: float = RISE) -> trajopt.Problem:
    """The problem with `horizon` knots of dt seconds, the first PUSH of them on the ground.

    design: lengths of the upper and the lower link, m; rise: of the foot, m.  Raises ValueError for lengths that are
    not two positive numbers.
    """
    lengths = np.asarray(design, float)
    if lengths.shape != (2,) or not (lengths > 0.0).all():
        raise ValueError(f"design: got {design!r}, expected two positive lengths")
    design = Design(*lengths.tolist())
    model, q0 = leg(design), crouching(design)
    ground = round(PUSH * horizon)
    foot = dynamics.PointContact(model, "foot", (1.0 / dt**2, 1.0 / dt), np.zeros(3))
    actuation = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    phases = [("push", [foot], ground), ("flight", [], horizon - ground)]
    system = dynamics.HybridSystem(model, dt, phases, actuation=actuation, integrator="rk4")
    cone = dynamics.FrictionCone(system.segments[0].system, FRICTION, facets=None)
    landing = system.state(q0 + [rise, 0.0, 0.0])
    return trajopt.Problem(
        system, system.state(q0), horizon,
        running_costs=[trajopt.ControlCost(1.0)],
        terminal_costs=[trajopt.StateCost(system, landing, END)],
        constraints=[
            trajopt.ControlBounds.from_model(system),
            trajopt.StateBounds(system, upper={"knee": STRAIGHT}),
            trajopt.ResidualConstraint(cone, cone.lower, cone.upper, at=range(ground), name="friction of the foot"),
        ],
        us_init="quasi_static", name="leg_jump",
    )  # fmt: skip


def _bent(design: Design, height: float) -> tuple[float, float]:
    """Angles of hip and knee at which the foot is `height` below the hip, by the law of cosines."""
    upper, lower = design
    knee = np.arccos((height**2 - upper**2 - lower**2) / (2.0 * upper * lower))
    return np.arctan2(lower * np.sin(knee), upper + lower * np.cos(knee)), -knee
