"""Benchmark problems by name: `make(name)` returns a `trajopt.Problem`, `model_path(name)` the file of a robot.

Each problem is a short file whose docstring states its set-up and the source of its parameters.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from trajopt import Problem

_NAMES = (
    "acrobot", "acrobot_trajax", "arm", "arm_minimum_time", "arm_obstacle", "car_minimum_time", "car_parking",
    "cartpole", "delta", "double_pendulum", "five_bar", "flexible_satellite", "four_bar", "humanoid_reach",
    "humanoid_stand", "humanoid_step", "hybrid_arm_reach", "leg_jump", "parallel_rods", "pendulum", "pendulum_limits",
    "quadrotor", "quadrotor_minimum_time", "quadruped_jump", "quadruped_stand", "quadruped_trot", "quadruped_walk",
    "rod_gripper", "serial_chain", "soft_manipulator_obstacle", "soft_manipulator_reach", "soft_manipulator_throw",
    "soft_manipulator_track", "soft_swimmer", "unicycle_obstacles",
)  # fmt: skip


FOLDER = Path(__file__).resolve().parent


def names() -> list[str]:
    """The names that `make` knows, in alphabetical order."""
    return list(_NAMES)


def experiments() -> dict[str, str]:
    """Scripts of a checkout, ``python -m experiments.NAME``, with a line on the measurement of each; empty without a
    checkout."""
    scripts = {
        "bench": "what `trajopt bench` measures, its JSON with the machine and the date",
        "convergence": "iterations of iLQR and of DDP's Hessian modes on every problem, and from 50 perturbed starts",
        "ilqr_vs_ddp": "success, iterations and time of iLQR and DDP on every problem from 100 random starts",
        "gallery": "a picture, iterations and times of every problem, for the gallery of the site",
        "gallery.hero": "the moving picture of the site's first page: a robot that jumps, with its bodies",
        "gallery.plans": "plans of problems, examples and pages executed in continuous time: how far they are off",
        "constraints": "constrained problems of the literature, solved here and by IPOPT and FATROP",
        "constants": "the solver's tuned constants, and the constrained problems with half and with twice of each",
        "holdout": "ten constrained problems on which no solver was tuned, with default options",
        "peers": "the same problems in Crocoddyl and here, solved side by side",
        "tasks": "distances beside coal, minimum time beside IPOPT, expansions of all problems, DDP on plain Python",
        "quadruped": "gaits of a quadruped by iLQR and DDP's Hessian modes; standing and gaits beside Crocoddyl",
        "quadruped.iteration": "what the parts of an iteration on a standing quadruped take",
        "trot_speeds": "the quadruped's trot followed over speed and payload by continuation, as far as it goes",
        "rods": "soft robots over ten seconds with and without exact Jacobians, beside published times; snapshots",
        "rods.knots": "time per knot of the equation of motion of soft robots, its derivatives and the Hessian",
        "rods.speedups": "equilibria and motions of soft robots with exact Jacobians, without, and by explicit steps",
        "rods.swing": "a clamped rod swings, by our integrators and beside PyElastica: error, steps and time",
        "rods.near_contact": "implicit steps near compliant ground that have no solution, and how solves there end",
        "mujoco_gaits": "gaits of five robots executed by MuJoCo, late, with masses and floors that are not the plan's",
        "execution": "plans executed at 1 kHz, with right and wrong masses: policies, held controls; robots on legs",
        "mpc": "predictive control of a swing-up under gusts, beside open loop and feedback gains",
        "public_robots": "robots of other packages, read from URDF and MJCF, against Pinocchio and MuJoCo",
        "public_robots.bulk": "every file of a robot in folders, read here and by Pinocchio or MuJoCo",
        "public_robots.pictures": "motions of public robots with their shapes: moving pictures and pages in a browser",
        "inverse_kinematics": "poses of arms: how many are reached, how near the start, and in what time",
        "warm_starts": "optima given back, initial states that have moved, predictive control with a hard goal",
        "mpc_latency": "a cycle of predictive control of an arm past a ball: time, memory, what it loses",
        "without_python": "iterations compiled and in Python, and cycles of predictive control in a C library",
        "manifest": "what compiles for which kind of problem, found by running all of them",
        "sensitivity": "derivatives of solutions, exact and without the Hessian of the dynamics; saddles",
        "soft_manipulator": "iLQR and DDP on soft robots, and on random targets of a soft manipulator",
        "fuzz": "thousands of solves, random and bad: no exception, no NaN, and every end is what it says",
        "derivatives.first_order": "first derivatives of inverse dynamics against the chain rule, in two frames",
        "derivatives.forward": "first derivatives of forward dynamics against two chain rules; products with M^-1",
        "derivatives.second_order": "second derivatives against CasADi, complex steps and differences",
        "derivatives.robots_table": "all derivatives on six robots, beside Pinocchio",
        "derivatives.accuracy": "errors against complex steps as chains grow",
        "derivatives.scaling": "growth with joints, knots and threads",
        "derivatives.peak": "operations per knot and the share of the core's peak",
        "derivatives.memory": "peak memory of packed tensors, dense tensors and Hessians",
        "cold_start": "functions compiled and processor time with an empty cache; start-up with a filled one",
        "revisions": "times of derivatives, expansions and solves relative to another revision, in turns",
        "wheel": "builds the wheel with compiled kernels, and runs examples from it",
        "many": "many small problems: a loop, processes and threads of solve_many",
        "backward_pass": "time of the backward pass per knot against sizes, SIMD beside plain loops",
    }
    paths = {name: FOLDER.parent.joinpath("experiments", *name.split(".")) for name in scripts}
    return {
        name: purpose
        for name, purpose in scripts.items()
        if paths[name].with_suffix(".py").is_file() or (paths[name] / "__main__.py").is_file()
    }


def model_names() -> list[str]:
    """The robots that `model_path` knows, in alphabetical order."""
    return sorted(path.stem for path in (FOLDER / "models").glob("*.urdf"))


def model_path(name: str) -> Path:
    """The URDF file of a robot that comes with the package, for `dynamics.load_urdf`.

    Raises ValueError for an unknown name, listing the known ones and the nearest.

    Examples
    --------
    >>> problems.model_path("arm6").name
    'arm6.urdf'
    >>> robot = dynamics.load_urdf(problems.model_path("arm6"))
    """
    _check("name", name, model_names())
    return FOLDER / "models" / f"{name}.urdf"


def _check(argument: str, name: str, known: Sequence[str]) -> None:
    from dynamics.validation import as_choice

    as_choice(argument, name, known)


def _module(name: str):
    _check("name", name, _NAMES)
    return importlib.import_module(f"problems.{name}")


def describe(name: str) -> str:
    """A line about the problem.  Raises ValueError for an unknown name, listing the known ones."""
    return (_module(name).__doc__ or "").strip().splitlines()[0]


def make(name: str, **options: Any) -> Problem:
    """The problem of that name; options are those of its module's `make`.

    Raises ValueError for an unknown name, listing the known ones and the nearest.

    Examples
    --------
    >>> problem = problems.make("pendulum", horizon=50)
    >>> problem.name, problem.horizon, trajopt.DDP().solve(problem).converged
    ('pendulum', 50, True)
    """
    return _module(name).make(**options)


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from dynamics.distribution import version

        return version()
    raise AttributeError(f"module 'problems' has no attribute {name!r}")
