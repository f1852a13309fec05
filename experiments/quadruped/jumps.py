"""Solo12 jumps 50 cm, with limits of torque that are barely reached: what such limits cost a solve.

The gait is `dynamics.Gait`'s, with costs of posture, torque, centre of mass and feet as those of `problems.gaits`, and
friction cones that hold at take-off and landing.  Limits are shares of the largest torque of the jump without any.
"""

from dataclasses import replace
from typing import Any

import example_robot_data  # pyright: ignore[reportMissingImports]
import numpy as np

import dynamics
import trajopt
from experiments.quadruped.robots import floating
from experiments.quadruped.standing import FEET

DT, STRIDE, HEIGHT, FRICTION = 5e-3, (0.5, 0.0, 0.0), 0.1, 0.6
KNOTS = 50, 60, 80
"""On the ground, in the air, on the ground."""
SHARES = (0.95, 0.92, 0.91, 0.9, 0.89, 0.88, 0.87, 0.85, 0.8)
CENTER, TORQUE, SWING, FOOTHOLD, LANDING, END = (1e2, 1e2, 0.0), 1e-1, 1e3, 1e5, 1e-1, 1e3


def jump() -> trajopt.Problem:
    """The jump without limits of torque."""
    robot = example_robot_data.load("solo12")
    model, feet, q0 = floating(robot), FEET["solo12"], np.array(robot.q0)
    plan = [(KNOTS[0], ()), (KNOTS[1], feet), (KNOTS[2], ())]
    gait = dynamics.Gait(model, q0, feet, plan, STRIDE, HEIGHT, DT)
    system = gait.system
    posture = np.r_[np.zeros(3), np.ones(model.nv - 3), np.full(model.nv, 1e-2)]
    center = dynamics.center_of_mass(model, q0) + gait.base_shift[gait.moving]
    everywhere = [
        trajopt.StateCost(system, gait.start, posture), trajopt.ControlCost(TORQUE),
        trajopt.ResidualCost(dynamics.CenterOfMass(model, np.zeros(3)), CENTER, reference=center),
    ]  # fmt: skip
    costs: list[list[trajopt.Cost]] = [[] for _ in range(system.horizon)]
    for t in gait.moving:
        costs[t] += everywhere
    for foot, start, stop, path in gait.swings:
        place = dynamics.FrameTranslation(model, foot, np.zeros(3))
        along = trajopt.ResidualCost(place, SWING, reference=path[:-1])
        for t in range(start, stop):
            costs[t].append(along)
        landing = trajopt.ResidualCost(dynamics.FrameVelocity(model, foot), np.repeat([LANDING, 0.0], 3))
        costs[stop] += [trajopt.ResidualCost(place, FOOTHOLD, reference=path[-1]), landing]
    cones = [
        trajopt.ResidualConstraint(cone, cone.lower, cone.upper, at=knots, name=name)
        for cone, knots, name in gait.friction_cones(FRICTION)
    ]
    return trajopt.Problem(
        system, gait.start, system.horizon, costs, [trajopt.StateCost(system, gait.end, END)], cones,
        us_init="quasi_static", xs_init=gait.states(), name="solo12 jumps",
    )  # fmt: skip


def limited(problem: trajopt.Problem, largest: float) -> trajopt.Problem:
    """The jump with this largest torque, N m."""
    return replace(problem, constraints=[trajopt.ControlBounds(-largest, largest), *problem.constraints])


def records() -> list[dict[str, Any]]:
    """The jump without limits, share None, and with each of them."""
    solver, problem = trajopt.DDP(max_iterations=200), jump()
    free = solver.solve(problem)
    largest, found = float(np.abs(free.us).max()), [_record(None, free)]
    return found + [_record(share, solver.solve(limited(problem, share * largest))) for share in SHARES]


def _record(share: float | None, solution: trajopt.Solution) -> dict[str, Any]:
    return {
        "share": share, "status": str(solution.status), "cost": solution.cost, "iterations": solution.iterations,
        "violation": solution.violation, "seconds": float(solution.log[-1].time),
    }  # fmt: skip
