"""Read robots of other packages and compare values, first and second derivatives with Pinocchio and MuJoCo.

    python -m experiments.public_robots [--quick] [--out DIR] [--seed N]

Writes DIR/public_robots.json.  Errors are relative to the largest entry of each array: of M, ID and FD at random
states, of their analytic first derivatives, and of second ones along random directions, which are differences of order
eight of Pinocchio's first ones, with the best of four steps for each robot.  Robots come from example-robot-data,
dm-control, gymnasium and gymnasium-robotics, as far as these are installed; those from MJCF are compared with MuJoCo,
and in derivatives with Pinocchio.  Where joints follow others Pinocchio knows inverse dynamics alone: derivatives are
those that it has of the tree, folded.  Closed chains, see `closed_chains`, are compared with its constraint dynamics.
"""

import sys
from collections.abc import Mapping
from typing import Any

import numpy as np

import dynamics
from experiments.harness import Experiment, Run, quick, seed, table
from experiments.public_robots.closed_chains import HANDS, KINDS, compare_loop
from experiments.public_robots.oracles import STEPS, Pinocchio, PinocchioLed, of_dynamics, of_mujoco
from experiments.public_robots.robots import Robot, loaders

STATES, QUICK_STATES, QUICK_ROBOTS = 3, 1, ("panda", "panda, fingers locked", "dm_control: walker")


def error(found: Mapping[str, np.ndarray], expected: Mapping[str, np.ndarray]) -> float:
    """The largest of the arrays, each relative to its largest entry, or to a ten-thousandth of that of all."""
    least = 1e-4 * max(np.abs(array).max() for array in expected.values())
    return max(
        float(np.abs(found[name] - array).max() / max(np.abs(array).max(), least)) for name, array in expected.items()
    )


def compare(robot: Robot, states: int, rng: np.random.Generator) -> dict[str, Any]:
    """Errors of one robot."""
    model = robot.model
    led = robot.tree is not None
    peer = PinocchioLed(model, robot.pinocchio, robot.tree) if led else Pinocchio(model, robot.pinocchio)
    errors: dict[str, float] = {"values": 0.0, "first": 0.0, "second": 0.0}
    for _ in range(states):
        q = dynamics.random_configuration(model, rng)
        v, a, w = rng.uniform(-1.0, 1.0, (3, model.nv))
        d = rng.uniform(-1.0, 1.0, (3, model.nv))
        here, there = of_dynamics(model, q, v, a, w, d), peer.derivatives(q, v, a, w)
        second = [error(here.second, peer.second(q, v, a, w, d, step)) for step in STEPS]
        worst = {"values": error(here.values, there.values), "first": error(here.first, there.first)}
        for name, value in (worst | {"second": min(second)}).items():
            errors[name] = max(errors[name], value)
        if robot.mujoco is not None:
            theirs = of_mujoco(model, robot.mujoco, q, v, a)
            errors["values_mujoco"] = max(errors.get("values_mujoco", 0.0), error(here.values, theirs))
    condition = float(np.linalg.cond(dynamics.mass_matrix(model, q)))
    sizes = {"nq": model.nq, "nv": model.nv, "followers": len(model.mimics)}
    return {"source": robot.source, **sizes, "condition": condition, **errors}


def study(run: Run) -> dict[str, Any]:
    """All robots."""
    small = run.options.quick
    chosen = {each.name: each for each in loaders() if not small or each.name in QUICK_ROBOTS}
    rng, found = np.random.default_rng(run.options.seed), {}
    for name in run.track(list(chosen), "robots"):
        found[name] = compare(chosen[name].load(), QUICK_STATES if small else STATES, rng)
    loops = {}
    for name in HANDS if not small else ():
        if name in chosen:
            model = chosen[name].load().model
            loops |= {f"{name}, {kind}": compare_loop(model, *HANDS[name], kind, rng) for kind in KINDS}
    return {"robots": found, "loops": loops}


def loops_table(results: dict[str, Any]):
    """A row for each closed chain."""
    return table(
        "hands that hold each other: relative errors of accelerations",
        ("robot",),
        ("values", "first", "second"),
        [[(name, *(f"{error:.0e}" for error in row.values())) for name, row in results["loops"].items()]],
    )


def errors_table(results: dict[str, Any]):
    """A row for each robot."""

    def cell(row, key):
        return f"{row[key]:.0e}" if key in row else ""

    return table(
        "robots of other packages: relative errors",
        ("robot", "format"),
        ("nq", "nv", "followers", "cond M", "values", "MuJoCo", "first", "second"),
        [[
            (name, row["source"], row["nq"], row["nv"], row["followers"] or "", f"{row['condition']:.0e}", *(
                cell(row, key) for key in ("values", "values_mujoco", "first", "second")
            ))
            for name, row in results["robots"].items()
        ]],
    )  # fmt: skip


main = Experiment(
    "public_robots",
    __doc__,
    study,
    options=[quick(f"{len(QUICK_ROBOTS)} robots at one state"), seed("states")],
    tables=lambda results: (
        errors_table(results) if results["robots"] else "no robots: the packages of `make peers` are not installed",
        *([loops_table(results)] if results["loops"] else []),
    ),
    width=120,
)

if __name__ == "__main__":
    sys.exit(main())
