"""Execute plans of problems, examples and pages in continuous time, and measure how far off they are.

    python -m experiments.gallery.plans [--only NAME ...] [--out DIR]

Writes DIR/plans.json.  A plan is executed by its controls alone and with its gains, and compared with itself at its
knots: by distances of all points of the system's skeleton in mm, tools and tips among them, or by its states if it has
none.  What is executed is the system in steps of 1 ms of its most exact integrator, soft robots by a stiff solver.
NAME is a problem, or the path of a script or of a page, whose Python runs in an empty folder; all solutions that it
leaves are executed.
"""

import os
import re
import runpy
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import chdir, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np

import problems
import trajopt
from experiments.harness import Experiment, Run, option, table
from trajopt.capabilities import Pictures, Steps, capability

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = (
    *(f"examples/{name}.py" for name in ("quick_start", "two_arms", "gripper", "execution", "waypoints", "feedback")),
    *(f"docs/{name}.md" for name in ("index", "first_solve", "how_to/discretization", "how_to/obstacles")),
    *(f"docs/tutorials/{name}.py" for name in ("01_pendulum", "02_arm")),
)
"""Those whose plans are of robots without contacts."""
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.M | re.S)
STEP = 1e-3
"""s"""
POLICIES = ("open loop", "feedback")


def executed(solution: trajopt.Solution, policy: str) -> np.ndarray:
    """States (N+1, nx) at the knots of a plan that is executed in continuous time."""
    system = solution.problem.system
    if capability(system, Steps).resimulated is None:
        motion = trajopt.simulate(solution, dt=STEP, policy=policy)
        return motion.xs[motion.knots]
    error = solution.discretization_error()
    return system.integrate(solution.xs, error.open_loop if policy == "open loop" else error.closed_loop)


def distances(solution: trajopt.Solution, policy: str) -> np.ndarray:
    """How far (N+1,) from the plan the motion is at its knots: the point of the skeleton that is farthest off, mm, or
    the component of the tangent that is."""
    system, xs = solution.problem.system, executed(solution, policy)
    skeleton = capability(system, Pictures).skeleton
    if skeleton is None:
        return np.abs(system.difference(solution.xs, xs)).max(axis=1)
    planned, moved = (np.reshape(skeleton(states), (len(xs), -1, 3)) for states in (solution.xs, xs))
    return 1e3 * np.linalg.norm(moved - planned, axis=-1).max(axis=1)


def record(name: str, solution: trajopt.Solution) -> dict[str, Any]:
    """What a plan is, and how far off it is at its end and at most, without and with its gains; None where its system
    has no finer steps."""
    system = solution.problem.system
    found = {
        "plan": name,
        "knots": len(solution.us),
        "dt": system.dt,
        "integrator": getattr(system, "integrator", type(system).__name__),
        "points": capability(system, Pictures).skeleton is not None,
        "status": str(solution.status),
        "off": None,
    }
    if capability(system, Steps).refined is not None:
        off = {policy: distances(solution, policy) for policy in POLICIES}
        found["off"] = {policy: {"end": off[policy][-1], "largest": off[policy].max()} for policy in POLICIES}
    return found


# ------------------------------------------------------------------------------------------------ where plans are
def solutions_of(path: str) -> Iterator[tuple[str, trajopt.Solution]]:
    """The solutions that a script or a page leaves, with their names."""
    text = (ROOT / path).read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder, chdir(folder), redirect_stdout(StringIO()):
        file = Path(folder, Path(path).name).with_suffix(".py")
        file.write_text("\n".join(BLOCK.findall(text)) if path.endswith(".md") else text, encoding="utf-8")
        left = runpy.run_path(str(file))
    for name, value in left.items():
        each = value if isinstance(value, Mapping) else {"": value}
        for key, solution in each.items():
            if isinstance(solution, trajopt.Solution) and solution.problem is not None:
                yield f"{path}: {name} {key}".rstrip(), solution


def plans(name: str) -> Iterator[tuple[str, trajopt.Solution]]:
    """The plan of a problem, or those of a script or a page."""
    if name in problems.names():
        yield name, trajopt.DDP().solve(problems.make(name))
    else:
        yield from solutions_of(name)


def known(name: str) -> str:
    """Type of the option --only."""
    if name not in problems.names() and not (ROOT / name).is_file():
        raise ValueError
    return name


def study(run: Run) -> dict[str, Any]:
    """All problems, and all scripts and pages that have plans to be executed."""
    names = run.options.only or [*problems.names(), *SCRIPTS]
    return {"plans": [record(*plan) for name in run.track(names, "plans") for plan in plans(name)]}


def shown(results: dict[str, Any]) -> Any:
    """A row for each plan."""
    rows = []
    for r in results["plans"]:
        off = [None] * 4 if r["off"] is None else [r["off"][p][when] for p in POLICIES for when in ("end", "largest")]
        steps = f"{r['knots']} x {1e3 * r['dt']:g} ms"
        rows.append([r["plan"], str(r["integrator"]), r["status"], steps, *off, "mm" if r["points"] else "states"])
    right = ["knots", "alone: end", "largest", "with gains: end", "largest"]
    return table("how far off executed plans are", ["plan", "integrator", "status"], right, [rows], [""])


main = Experiment(
    "gallery.plans",
    __doc__,
    study,
    options=[option("--only", nargs="+", type=known, metavar="NAME", help="these problems, scripts or pages")],
    tables=lambda results: (shown(results),),
)

if __name__ == "__main__":
    os.environ.setdefault("MPLBACKEND", "agg")  # pictures of scripts go into files
    sys.exit(main())
