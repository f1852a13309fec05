"""Impulses of the quadruped's touch-downs: how steep they are, and what it costs to keep them within friction cones.

Contact forces of these problems keep to their cones, impulses are free; here the inner pyramid of eight facets holds
for these too, at all feet that stand after the touch-down.
"""

from dataclasses import replace
from typing import Any

import numpy as np

import dynamics
import problems
import trajopt
from problems.walker import FRICTION

NAMES = ("quadruped_jump", "quadruped_trot", "quadruped_walk")
FACETS = 8
TOUCHING = 1e-9
"""N s, of impulses that count."""


def with_cones(name: str) -> trajopt.Problem:
    """The problem of that name whose impulses keep to their cones."""
    problem = problems.make(name)
    rows = [
        trajopt.ResidualConstraint(cone, cone.lower, cone.upper, at=range(s.start, s.stop), name=f"impulses {s.start}")
        for s in problem.system.segments
        if isinstance(s.system, dynamics.Impact)
        for cone in [dynamics.FrictionCone(s.system, FRICTION, facets=FACETS, inner=True)]
    ]
    return replace(problem, constraints=[*problem.constraints, *rows])


def impulses(solution: trajopt.Solution) -> tuple[np.ndarray, np.ndarray]:
    """Normal and tangential impulses of all touch-downs, each (touches,), N s."""
    system: Any = solution.problem.system
    f = system.contact_impulses(solution.xs).reshape(-1, 3)
    f = f[np.linalg.norm(f, axis=1) > TOUCHING]
    return f[:, 2], np.linalg.norm(f[:, :2], axis=1)


def steepest(solution: trajopt.Solution) -> float:
    """The largest |f_t|/f_n; infinity where an impulse pulls."""
    normal, along = impulses(solution)
    return float(np.where(normal > 0.0, along / np.abs(normal), np.inf).max())


def record(name: str) -> dict[str, Any]:
    """Iterations, costs and steepest impulses by DDP without the cones and with them."""
    free, held = (trajopt.DDP().solve(problem) for problem in (problems.make(name), with_cones(name)))
    pulled = [float(min(impulses(each)[0].min(), 0.0)) for each in (free, held)]
    return {
        "problem": name, "status": str(held.status), "iterations, free": free.iterations, "with cones": held.iterations,
        "cost, free": free.cost, "cost": held.cost, "steepest, free": steepest(free), "steepest": steepest(held),
        "pull, free": pulled[0], "pull": pulled[1],
    }  # fmt: skip
