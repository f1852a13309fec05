"""Problems as functions of their parameters: models, targets, limits, initial states, time steps.

A case is a function of a mapping p that returns a problem, p itself, and steps of differences of solved problems that
are small enough for the same limits to press.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

import dynamics
import problems
import trajopt
from dynamics import rods
from problems.arm import GOAL as ARM_GOAL
from problems.arm import START as ARM_START
from problems.arm_obstacle import CENTRE, FRAMES
from problems.arm_obstacle import DISTANCE as APART
from problems.gaits import DEFAULT, Gait
from problems.quadrotor import DRAG, GOAL_POSITION, GOAL_YAW, INERTIA, LARGEST_THRUST, MASS, ROTORS
from problems.quadruped_model import walker
from problems.quadruped_stand import SHIFT
from problems.quadruped_trot import PLAN
from problems.swing_up import swing_up
from problems.unicycle_obstacles import CENTRES, DISTANCE, GOAL, unicycle
from trajopt.costs.residuals import SquaredNorm

P = Mapping[str, Any]


class Case(NamedTuple):
    """A problem of p, p, and the steps of differences, in units of those of `sensitivity`."""

    make: Callable[[Any], trajopt.Problem]
    p: dict[str, Any]
    factor: float = 1.0


def swinging_pendulum(p: P) -> trajopt.Problem:
    """A pendulum, on its way up."""
    builder = dynamics.ModelBuilder()
    builder.add_body("bob", "world", dynamics.Continuous("y"), mass=p["mass"], com=(0.0, 0.0, -p["length"]))
    system = dynamics.RigidBodySystem(builder.build(), p["dt"])
    goal = np.array([np.pi + p["target"], 0.0])
    return trajopt.Problem(
        system, [p["x0"], 0.0], 100,
        running_costs=[trajopt.StateCost(system, goal, [0.2, 0.1]), trajopt.ControlCost(p["weight"])],
        terminal_costs=[trajopt.StateCost(system, goal, [100.0, 10.0])], us_init=np.full((100, 1), 1.0),
    )  # fmt: skip


def swinging_cartpole(p: P) -> trajopt.Problem:
    """A pole on a cart."""
    builder = dynamics.ModelBuilder()
    builder.add_body("cart", "world", dynamics.Prismatic("x"), mass=p["cart"])
    builder.add_body("pole", "cart", dynamics.Continuous("y"), mass=p["pole"], com=(0.0, 0.0, -p["length"]))
    system = dynamics.RigidBodySystem(builder.build(), p["dt"], actuation=np.array([[1.0], [0.0]]))
    goal, x0 = system.state([0.0, np.pi]), np.array([p["x0"], 0.0, 0.0, 0.0])
    return trajopt.Problem(
        system, x0, 100,
        running_costs=[trajopt.StateCost(system, goal, [0.1, 0.1, 0.01, 0.01]), trajopt.ControlCost(p["weight"])],
        terminal_costs=[trajopt.StateCost(system, goal, [100.0, 100.0, 10.0, 10.0])],
        us_init=2.0 * np.sin(np.linspace(0.0, 4 * np.pi, 100))[:, None],
    )  # fmt: skip


def swinging_double_pendulum(p: P) -> trajopt.Problem:
    """Two rods."""
    builder = dynamics.ModelBuilder()
    rod = {"com": (0.0, 0.0, -0.5), "mass": p["mass"]}
    inertia = np.diag([1.0, 1.0, 0.0]) * p["inertia"]
    below = np.eye(3), (0.0, 0.0, -p["placement"])
    builder.add_body("upper", "world", dynamics.Continuous("y"), inertia=inertia, **rod)
    builder.add_body("lower", "upper", dynamics.Continuous("y"), placement=below, inertia=inertia, **rod)
    system = dynamics.RigidBodySystem(builder.build(), p["dt"])
    start = swing_up(
        system, [np.pi + p["target"], 0.0], 100, [1e-1, 1e-1, 1e-2, 1e-2], [1e-3, 1e-3], [1e2, 1e2, 1e1, 1e1]
    )
    x0 = np.array([p["x0"], 0.0, 0.0, 0.0])
    return trajopt.Problem(system, x0, 100, start.running_costs, start.terminal_costs)


def reaching_arm(p: P) -> trajopt.Problem:
    """A six-axis arm."""
    model = dynamics.load_urdf(problems.model_path("arm6"))
    system = dynamics.RigidBodySystem(model, p["dt"])
    R, place = dynamics.frame_placement(model, ARM_GOAL, "tool")
    turn = np.array([[0.0, -p["turn"], 0.0], [p["turn"], 0.0, 0.0], [0.0, 0.0, 0.0]])
    turned = R @ np.linalg.solve(np.eye(3) + 0.5 * turn, np.eye(3) - 0.5 * turn)  # a rotation, by Cayley
    pose = turned, place + np.asarray(p["place"])
    start = system.state(ARM_START)
    x0 = start + np.r_[0.0, p["x0"], np.zeros(10)]
    return trajopt.Problem(
        system, x0, 100,
        running_costs=[trajopt.StateCost(system, start, np.full(12, 1e-1)), trajopt.ControlCost(p["weight"])],
        terminal_costs=[
            trajopt.ResidualCost(dynamics.FramePlacement(model, "tool", pose), np.r_[np.full(3, 1e3), np.full(3, 1e2)]),
            trajopt.StateCost(system, start, np.r_[np.zeros(6), np.full(6, 1e1)]),
        ],
        us_init=np.tile(dynamics.gravity_forces(model, ARM_START), (100, 1)),
    )  # fmt: skip


def hurrying_quadrotor(p: P) -> trajopt.Problem:
    """A quadrotor whose thrusts meet their limits."""
    builder = dynamics.ModelBuilder()
    builder.add_body("body", "world", dynamics.FreeFlyer(), mass=p["mass"], inertia=INERTIA + p["inertia"] * np.eye(3))
    model = builder.build()
    places = [(p["arm"] * np.sign(x), p["arm"] * np.sign(y)) for x, y in ROTORS.values()]
    turns = [1.0, -1.0, 1.0, -1.0]
    actuation = np.array([[0.0, 0.0, 1.0, y, -x, DRAG * s] for (x, y), s in zip(places, turns, strict=True)]).T
    system = dynamics.RigidBodySystem(model, p["dt"], actuation=actuation)
    start = system.integrate(system.state(dynamics.neutral(model)), np.r_[0.0, 0.0, 0.0, p["x0"], np.zeros(8)])
    hover, half = 9.81 * MASS / 4, 0.5 * GOAL_YAW
    place = np.array(GOAL_POSITION) + [p["target"], 0.0, 0.0]
    goal = system.state([*place, 0.0, 0.0, np.sin(half), np.cos(half)])
    return trajopt.Problem(
        system, start, 75,
        running_costs=[trajopt.StateCost(system, goal, np.full(12, 1e-1)), trajopt.ControlCost(2e-2, hover)],
        terminal_costs=[trajopt.StateCost(system, goal, np.repeat([1e3, 1e2], 6))],
        constraints=[trajopt.ControlBounds(0.0, p["limit"])], us_init=np.full((75, 4), hover),
    )  # fmt: skip


def unicycle_past_discs(p: P) -> trajopt.Problem:
    """A vehicle past discs, to a goal that it must reach."""
    system = trajopt.CallableSystem(xdot=unicycle, nx=3, nu=2, dt=p["dt"])
    goal = GOAL + np.array([p["goal"], 0.0, 0.0])
    discs = [
        trajopt.ResidualConstraint(
            SquaredNorm(trajopt.StateResidual(system, [*centre, 0.0], [0, 1])), p["radius"] ** 2, np.inf
        )
        for centre in CENTRES
    ]
    return trajopt.Problem(
        system, [0.0, p["x0"], 0.0], 100,
        running_costs=[trajopt.StateCost(system, GOAL, 1.0), trajopt.ControlCost(p["weight"])],
        terminal_costs=[trajopt.StateCost(system, GOAL, 10.0)],
        constraints=[
            trajopt.ControlBounds([0.0, -3.0], [p["limit"], 3.0]), *discs,
            trajopt.ResidualConstraint(trajopt.StateResidual(system, goal), at="terminal", name="goal"),
        ],
        us_init=np.tile([np.hypot(*GOAL[:2]) / (100 * 0.05), 0.0], (100, 1)),
    )  # fmt: skip


def standing_quadruped(p: P) -> trajopt.Problem:
    """A robot on four feet, in friction cones."""
    robot = walker()
    model, q0, system = robot.model, robot.standing, robot.stance(0.01)
    base = problems.make("quadruped_stand")
    center = dynamics.CenterOfMass(model, dynamics.center_of_mass(model, q0) + np.array(SHIFT) * p["shift"])
    start = system.state(q0)
    x0 = system.integrate(start, np.r_[np.zeros(model.nv), np.zeros(2), p["x0"], np.zeros(model.nv - 3)])
    cone = dynamics.FrictionCone(system, p["friction"], facets=None)
    rest = np.r_[np.zeros(3), np.full(3, 1e2), np.full(model.nv - 6, 1e-1), np.full(model.nv, 1e1)]
    posture = np.r_[np.zeros(3), np.full(model.nv - 3, 1e-1), np.full(model.nv, 1e-2)]
    return trajopt.Problem(
        system, x0, base.horizon,
        running_costs=[
            trajopt.StateCost(system, start, posture), trajopt.ControlCost(p["weight"]),
            trajopt.ResidualCost(center, 1e2),
        ],
        terminal_costs=[trajopt.StateCost(system, start, rest), trajopt.ResidualCost(center, 1e5)],
        constraints=[
            trajopt.ControlBounds.from_model(system),
            trajopt.ResidualConstraint(cone, cone.lower, cone.upper, name="friction cones"),
        ],
        us_init="quasi_static", xs_init=base.xs_init,
    )  # fmt: skip


def reaching_manipulator(p: P) -> trajopt.Problem:
    """A soft arm pulled by tendons, two of which are slack for a while."""
    builder = rods.RodModelBuilder()
    silicone = rods.Elastic(young=p["young"], poisson=0.5, density=1000.0, viscosity=1e4)
    basis = rods.LegendreBasis(torsion=0, bending_y=2, bending_z=2, stretch=0)
    builder.add_rod("arm", "world", 0.3, rods.Circular(0.02, 0.012), silicone, basis)
    angles = 2.0 * np.pi * np.arange(3) / 3.0
    tendons = [rods.Tendon.straight("arm", 0.01 * np.sin(a), 0.01 * np.cos(a)) for a in angles]
    robot = rods.SoftRobot(builder.build(), tendons)
    system = dynamics.SoftRobotSystem(robot, p["dt"])
    rest, x0 = np.zeros(system.nx), p["x0"] * np.eye(system.nx)[4]
    tip = rods.LinkTranslation(robot.model, "arm", np.array([0.24, 0.05, -0.1]) + p["target"])
    return trajopt.Problem(
        system, x0, 30,
        running_costs=[trajopt.ControlCost(1e-3)],
        terminal_costs=[
            trajopt.ResidualCost(tip, 1e4),
            trajopt.StateCost(system, rest, np.r_[np.zeros(system.nv), np.full(system.nv, p["rest"])]),
        ],
        constraints=[trajopt.ControlBounds(0.0, p["tension"])],
    )  # fmt: skip


def trotting_quadruped(p: P) -> trajopt.Problem:
    """Two steps of a robot whose base starts turned, aside and on its way: phases of contacts, and impacts."""
    base = Gait(walker(), PLAN, (p["stride"], 0.0, 0.0), p["height"], 62, 0.01, DEFAULT).problem("trot")
    tangent = np.zeros(base.system.ndx)
    tangent[[2, 4, base.system.ndx // 2]] = 0.02, 0.05, 0.1
    return replace(base, x0=base.system.integrate(base.x0, p["x0"] * tangent))


def arm_past_a_ball(p: P) -> trajopt.Problem:
    """The arm around a ball, with limits of speeds, too."""
    base, around = problems.make("arm_obstacle"), np.array(CENTRE) + [0.0, 0.0, p["centre"]]
    apart = [
        trajopt.ResidualConstraint(
            SquaredNorm(dynamics.FrameTranslation(base.system.model, frame, around)),
            lower=p["distance"] ** 2,
            upper=np.inf,
            at="all",
        )
        for frame in FRAMES
    ]
    x0 = base.x0 + np.r_[0.0, p["x0"], np.zeros(10)]
    return replace(base, x0=x0, constraints=[*base.constraints[:2], *apart])


CASES = {
    "pendulum": Case(
        swinging_pendulum, {"mass": 1.0, "length": 1.0, "dt": 0.02, "x0": 0.0, "target": 0.0, "weight": 2e-2}, 0.3
    ),
    "cartpole": Case(
        swinging_cartpole, {"cart": 1.0, "pole": 0.1, "length": 0.5, "dt": 0.02, "x0": 0.0, "weight": 1e-2}, 0.1
    ),
    "double_pendulum": Case(
        swinging_double_pendulum,
        {"mass": 1.0, "inertia": 1.0 / 12.0, "placement": 1.0, "dt": 0.01, "x0": 0.0, "target": 0.0}, 0.1,
    ),
    "arm": Case(reaching_arm, {"place": np.zeros(3), "turn": 0.0, "dt": 0.01, "x0": 0.0, "weight": 4e-4}, 0.1),
    "quadrotor": Case(
        hurrying_quadrotor,
        {"mass": MASS, "inertia": 1e-3, "arm": 0.17, "target": 0.0, "x0": 0.0, "limit": LARGEST_THRUST,
         "dt": 0.02}, 0.5,
    ),
    "unicycle": Case(
        unicycle_past_discs,
        {"x0": 0.0, "goal": 0.0, "radius": DISTANCE, "limit": 3.0, "weight": 0.5, "dt": 0.05}, 0.01,
    ),
    "quadruped_stand": Case(standing_quadruped, {"shift": 1.0, "friction": 0.6, "weight": 1e-1, "x0": 0.0}, 0.3),
    "quadruped_trot": Case(trotting_quadruped, {"stride": 0.1, "height": 0.04, "x0": 0.0}, 0.5),
    "arm_obstacle": Case(arm_past_a_ball, {"distance": APART, "centre": 0.0, "x0": 0.0}, 0.1),
    "soft_manipulator": Case(
        reaching_manipulator,
        {"young": 1e6, "target": np.zeros(3), "tension": 10.0, "rest": 1e-2, "x0": 0.0, "dt": 0.02}, 0.1,
    ),
}  # fmt: skip
