"""Implicit steps of a quadruped near compliant ground, from random states: which have no solution, and how solves end.

    python -m experiments.rods.near_contact [--states 200] [--starts 16] [--out DIR]

The robot is of rigid bodies on ground of 1e4 N/m, sunk by up to 20 mm or above it by up to 30, with joints that turn at
some rad/s.  Steps that find no solution are NaN; rollouts with one are not accepted.  Solves are of 20 steps of 20 ms
by SDIRK2, begun with random torques of 1 and 3 N m, of which rollouts may have no solution either.
"""

import warnings
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np

import dynamics
import trajopt
from dynamics import rods
from experiments.harness import Experiment, Run, count, records
from problems.quadruped_model import LEGS

POSTURE = np.tile([0.0, 0.7, -1.4], 4)
INTEGRATORS = "sdirk2", "implicit_midpoint", "newmark"
STEPS = 0.005, 0.01, 0.02, 0.05, 0.1
"""Seconds."""
TORQUES = 1.0, 3.0
"""Standard deviations of the first controls, N m."""


def quadruped() -> Any:
    """Four legs of three motors each, whose feet are points."""
    builder = rods.RodModelBuilder(name="quadruped")
    builder.add_body("base", "world", dynamics.FreeFlyer(), mass=1.16, inertia=np.diag([0.0058, 0.0194, 0.0248]))
    ground = rods.PlaneContact(1e4, exponent=1.0, smoothing=3e-3, damping=0.5, friction=0.8, slip=0.05)
    inertia = np.diag([3e-4, 3e-4, 1e-5])
    for leg, (front, left) in LEGS.items():
        places = {"hip": ("x", (0.19 * front, 0.09 * left, 0.0)), "upper": ("y", (0.0, 0.05 * left, 0.0))}
        places["lower"] = "y", (0.0, 0.03 * left, -0.16)
        parent = "base"
        for part, (axis, at) in places.items():
            link = {"mass": 0.1, "com": (0, 0, -0.08), "inertia": inertia, "damping": 0.02}
            hinge, place = dynamics.Revolute(axis), (np.eye(3), np.array(at))
            builder.add_body(f"{leg}_{part}", parent, hinge, placement=place, **link)
            parent = f"{leg}_{part}"
        builder.add_contact(parent, ground, point=(0, 0, -0.16))
    motors = [f"{leg}_{part}" for leg in LEGS for part in ("hip", "upper", "lower")]
    return rods.SoftRobot(builder.build(), torques=motors)


def states(robot: Any, number: int, rng: np.random.Generator) -> Iterator[np.ndarray]:
    """Random states near the ground."""
    for _ in range(number):
        x = np.zeros(2 * robot.nq)
        x[5] = 0.245 + rng.uniform(-0.02, 0.03)
        x[6 : robot.nq] = POSTURE + 0.15 * rng.normal(size=12)
        x[robot.nq :] = rng.normal(size=robot.nv) * np.r_[np.full(3, 1.0), np.full(3, 0.5), np.full(12, 4.0)]
        yield x


def task(system: Any, x0: np.ndarray, us: np.ndarray) -> trajopt.Problem:
    """Be 0.1 m ahead, at rest."""
    goal = np.zeros(system.nx)
    goal[3], goal[5], goal[6:18] = 0.1, 0.24, POSTURE
    running = np.r_[np.full(3, 1.0), 1.0, 1.0, 10.0, np.full(12, 0.1), np.full(6, 0.01), np.full(12, 3e-3)]
    last = np.r_[np.full(3, 100.0), 1e3, 1e3, 300.0, np.full(12, 10.0), np.full(6, 10.0), np.full(12, 1.0)]
    costs = [trajopt.StateCost(system, goal, running), trajopt.ControlCost(1e-2)]
    return trajopt.Problem(system, x0, len(us), costs, [trajopt.StateCost(system, goal, last)], us_init=us)


def study(run: Run) -> dict[str, Any]:
    warnings.simplefilter("ignore")
    robot, options = quadruped(), run.options
    rows, rng = [], np.random.default_rng(0)
    xs = list(states(robot, options.states, rng))
    us = rng.normal(size=(options.states, robot.nu))
    for integrator in run.track(INTEGRATORS, "steps"):
        row: dict[str, Any] = {"integrator": integrator}
        for dt in STEPS:
            system = dynamics.SoftRobotSystem(robot, dt, integrator)
            lost = [not np.isfinite(system.step(x, u)).all() for x, u in zip(xs, us, strict=True)]
            row[f"{1e3 * dt:g} ms [%]"] = 100.0 * float(np.mean(lost))
        rows.append(row)
    system, ends = dynamics.SoftRobotSystem(robot, 0.02, "sdirk2"), []
    for torque in TORQUES:
        rng, found = np.random.default_rng(3), Counter()
        for x in run.track(list(states(robot, options.starts, rng)), f"solves from torques of {torque:g} N m"):
            us = torque * rng.normal(size=(20, robot.nu))
            plan = trajopt.DDP(max_iterations=60).solve(task(system, x, us))
            found[str(plan.status)] += 1
            found["plans not finite"] += not (np.isfinite(plan.xs).all() and np.isfinite(plan.us).all())
        ends.append({"torque": torque, **found})
    return {"states": options.states, "steps": rows, "solves": ends}


def tables(results: dict[str, Any]) -> list[Any]:
    names = list(dict.fromkeys(name for row in results["solves"] for name in row))
    solves = [{name: row.get(name, 0) for name in names} for row in results["solves"]]
    steps = records(f"Steps without a solution, of {results['states']} states", results["steps"])
    return [steps, records("How solves end", solves, {name: name for name in names} | {"torque": "torque [N m]"})]


main = Experiment(
    "rods.near_contact",
    __doc__,
    study,
    options=(count("--states", 200, "of which a step is made"), count("--starts", 16, "solves for each torque")),
    tables=tables,
    failed=lambda results: any(row.get("not_finite") or row["plans not finite"] for row in results["solves"]),
)

if __name__ == "__main__":
    raise SystemExit(main())
