"""What the gallery shows of a problem: iterations, processor time and cost of both solvers, and its picture."""

import time
import tomllib
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np

import problems
import trajopt
from dynamics.distribution import version
from experiments.gallery.pictures import Look, picture_name, write_picture
from trajopt.plotting.report.page import machine

TEXTS = Path(__file__).resolve().parents[2] / "docs" / "gallery" / "problems.toml"
SOLVERS = {"ilqr": trajopt.ILQR(), "ddp": trajopt.DDP()}
"""As the command line has them."""
DRAWN = "ddp"
KINDS = ("classics", "arms", "vehicles", "legs", "soft", "chains")
"""As the page has them."""
LINES = {
    "moves": "What moves",
    "minimised": "Minimised",
    "limits": "Limits and contacts",
    "interesting": "Of interest",
    "source": "Where it comes from",
}
"""The five lines about a problem; the first is that of its docstring."""


def texts() -> dict[str, dict[str, Any]]:
    """What `problems.toml` says of every problem, and what moves; by kinds, in the order of the file."""
    found = tomllib.loads(TEXTS.read_text(encoding="utf-8"))
    return {
        name: {"moves": problems.describe(name), **found[name]}
        for kind in KINDS
        for name in found
        if found[name]["kind"] == kind
    }


def look_of(text: dict[str, Any]) -> Look:
    """How a problem is drawn, by what `problems.toml` says of it."""
    return Look(**{key: value for key, value in text.items() if key in Look._fields})


def solved(problem: trajopt.Problem, turns: int) -> tuple[dict[str, trajopt.Solution], dict[str, float]]:
    """Solutions of all solvers, and the median of their processor times, s, in turns after one that only warms up.

    Processor time is what others on the machine change least.
    """
    solutions = {name: solver.solve(problem) for name, solver in SOLVERS.items()}
    seconds: dict[str, list[float]] = {name: [] for name in SOLVERS}
    for _ in range(turns):
        for name, solver in SOLVERS.items():
            begin = time.process_time()
            solver.solve(problem)
            seconds[name].append(time.process_time() - begin)
    return solutions, {name: float(np.median(each)) for name, each in seconds.items()}


def record(name: str, folder: Path, turns: int, look: Look) -> dict[str, Any]:
    """Everything about one problem; its picture is in the folder then, and no other of it."""
    problem = problems.make(name)
    solutions, seconds = solved(problem, turns)
    picture, system = picture_name(name, look), problem.system
    for old in folder.glob(f"{name}.*"):
        if old.suffix in (".png", ".webp") and old.name != picture:
            old.unlink()
    drawn = write_picture(solutions[DRAWN], folder / picture, look)
    return {
        "picture": picture,
        **drawn,
        "size": {"knots": problem.horizon, "nx": system.nx, "nu": system.nu},
        "duration": float(solutions[DRAWN].times[-1]),
        "solvers": {
            key: {
                "status": str(solution.status),
                "iterations": solution.iterations,
                "cost": solution.cost,
                "seconds": seconds[key],
            }
            for key, solution in solutions.items()
        },
        "turns": turns,
        "date": date.today().isoformat(),
        "trajopt": version(),
        **machine(),
    }
