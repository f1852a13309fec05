"""Inverse kinematics of random poses: how many are reached, how near the start, and times.

    python -m experiments.inverse_kinematics [--robots arm.urdf:tool ...] [--poses 300] [--quick] [--out FILE]

Poses are those of random configurations within the limits of joints, or of two turns where they are wider, sought from
the neutral configuration ("far"), and those of configurations within 0.1 rad of a bent one, sought from that ("near").
The same poses are sought by default and by bounded least squares alone, in turns.
"""

import sys
import time
from typing import Any
from unittest.mock import patch

import numpy as np

import dynamics
import problems
from experiments.harness import Experiment, Run, count, option, quick, table

WAYS = "default", "bounded alone"
NEAR = 0.1
"""Standard deviation of the joints of near poses, rad or m."""


def search(model: dynamics.RigidBodyModel, frame: str, place: Any, q0: Any, way: str) -> tuple[Any, float]:
    """What one way finds, and its seconds."""
    replaced = patch("dynamics.ik._damped", lambda *_: None) if way != WAYS[0] else patch("dynamics.ik.SMALL", 3e-2)
    with replaced:
        begin = time.perf_counter()
        found = dynamics.inverse_kinematics(model, {frame: place}, q0)
        return found, time.perf_counter() - begin


def seek(run: Run, name: str, model: dynamics.RigidBodyModel, frame: str, poses: int) -> list[dict[str, Any]]:
    """A row for each kind of poses and each way."""
    rng = np.random.default_rng(1)
    lower, upper = np.maximum(model.lower_position, -2.0 * np.pi), np.minimum(model.upper_position, 2.0 * np.pi)
    bent = np.clip(np.where(np.arange(model.nq) % 2, -1.2, 1.0), lower, upper)
    q0 = np.clip(dynamics.neutral(model), lower, upper)
    kinds = {"far": (None, rng.uniform(lower, upper, (poses, model.nq)))}
    kinds["near"] = bent, np.clip(bent + NEAR * rng.standard_normal((poses, model.nq)), lower, upper)
    rows = []
    for kind, (start, qs) in kinds.items():
        begin, found = q0 if start is None else start, {way: [] for way in WAYS}
        for R, p in run.track(list(zip(*dynamics.frame_placement(model, qs, frame), strict=True)), f"{name}, {kind}"):
            for way in WAYS:
                found[way].append(search(model, frame, (R, p), start, way))
        for way, results in found.items():
            reached = [each for each, _ in results if each.reached]
            seconds = 1e3 * np.array([each for _, each in results])
            moved = [float(np.linalg.norm(each.q - begin)) for each in reached]
            rows.append({
                "robot": name, "poses": kind, "way": way, "reached": len(reached), "of": poses,
                "moved": float(np.mean(moved)) if moved else None, "median": float(np.median(seconds)),
                "tenth": float(np.quantile(seconds, 0.9)),
            })  # fmt: skip
    return rows


def study(run: Run) -> dict[str, Any]:
    """Rows of all robots."""
    poses = 10 if run.options.quick else run.options.poses
    robots = {"arm6": (dynamics.load_robot(problems.model_path("arm6")), "tool")}
    for text in run.options.robots:
        path, _, frame = text.rpartition(":")
        robots[path.rpartition("/")[2]] = dynamics.load_robot(path), frame
    return {"rows": [row for name, robot in robots.items() for row in seek(run, name, *robot, poses)]}


def tables(results: dict[str, Any]) -> list[Any]:
    """One table, a section for each robot."""
    rows = [[*row.values()] for row in results["rows"]]
    right = ["reached", "of", "moved (rad)", "median (ms)", "of ten nine within (ms)"]
    return [table("Inverse kinematics", ["robot", "poses", "way"], right, [rows])]


main = Experiment(
    "inverse_kinematics",
    __doc__,
    study,
    options=[
        option("--robots", nargs="*", default=[], help="files of other robots with a frame, as arm.urdf:tool"),
        count("--poses", 300, "poses of each kind"),
        quick("ten poses"),
    ],
    tables=tables,
    out="results/inverse_kinematics.json",
    threads=1,
)

if __name__ == "__main__":
    sys.exit(main())
