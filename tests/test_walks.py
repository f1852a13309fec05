"""How many files a reader visits who follows a call: pytest -s prints their names.

The counts may fall and are then to be lowered here; the aims are those of the design.
"""

import re
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dynamics
import problems
import trajopt
from problems.quadruped_model import FEET, quadruped, standing

ROOT = Path(__file__).parent.parent
PACKAGES = tuple(f"{ROOT / package}/" for package in ("dynamics", "trajopt"))
GUARD = "dynamics/simd/scratch_guard.py"
"""A file that tests alone visit."""


def visited(call: Callable[[], Any]) -> dict[str, list[str]]:
    """Functions that a call runs, by the files of the two packages that they stand in; nothing of what it imports."""
    found: dict[str, dict[str, None]] = {}

    def profile(frame, event, _):
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(PACKAGES) and code.co_name != "<module>":
            found.setdefault(str(Path(code.co_filename).relative_to(ROOT)), {})[code.co_name] = None

    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        call()
    finally:
        sys.setprofile(before)
    return {file: list(functions) for file, functions in found.items() if file != GUARD}


def robot() -> dynamics.RigidBodySystem:
    """A robot on four points, with friction in its legs, under RK4."""
    on_legs = 0.1 * np.repeat([0.0, 1.0], [6, 12])
    model = replace(quadruped(), damping=on_legs, friction=on_legs)
    feet = [dynamics.PointContact(model, foot) for foot in FEET]
    return walks_of(model, feet)


def walks_of(model, feet) -> dynamics.RigidBodySystem:
    """The system, whose constructor is followed alone."""
    return dynamics.RigidBodySystem(model, 0.01, "rk4", "floating_base", feet, friction_speed=0.1)


def constructor() -> Callable[[], Any]:
    model, feet = (system := robot()).model, system.contacts.contacts
    return lambda: walks_of(model, feet)


def linearize() -> Callable[[], Any]:
    system = robot()
    xs, us = np.tile(system.state(standing()), (3, 1)), np.zeros((2, system.nu))
    return lambda: system.linearize(xs, us)


def swing(x, u):
    """A pendulum's rates."""
    return np.array([x[1], u[0] - np.sin(x[0])])


def expansion_of_a_function() -> Callable[[], Any]:
    def call():
        system = trajopt.CallableSystem(swing, nx=2, nu=1, dt=0.05)
        xs, us = np.zeros((5, 2)), np.zeros((4, 1))
        system.linearize(xs, us)
        system.hessian_products(xs, us, np.ones((4, 2)))

    return call


def solve() -> Callable[[], Any]:
    problem = problems.make("arm")
    return lambda: trajopt.DDP().solve(problem)


@pytest.mark.parametrize(
    ("walk", "most"),  # aims: 15, 8, 12 and 30
    [(constructor, 13), (linearize, 6), (expansion_of_a_function, 12), (solve, 30)],
)
def test_walks_are_short(walk, most):
    call = walk()
    for _ in range(5):
        call()  # what is loaded, compiled or compared by address at first uses is no part of the walk
    files = visited(call)
    print(f"\n{walk.__name__}: {len(files)} files, at most {most}")
    for file, functions in sorted(files.items()):
        print(f"    {file}: {', '.join(functions)}")
    assert 3 < len(files) <= most


def test_a_solve_without_constraints_runs_no_file_about_them_and_the_tour_lists_what_it_runs():
    """The files of docs/code_tour.md are those of the walk, but for kernels, which no profile shows."""
    call = solve()
    for _ in range(5):
        call()
    found = set(visited(call))
    about = ("constrained", "augmented_lagrangian", "active_set", "restoration")
    assert not found & {f"trajopt/solvers/{name}.py" for name in about} and "trajopt/rows.py" not in found
    page = (ROOT / "docs/code_tour.md").read_text().split("## Files that a solve runs")[1].split("\n## ")[0]
    assert set(re.findall(r"`((?:trajopt|dynamics)/[\w/]+\.py)`", page)) == found


def test_a_walk_has_the_files_that_are_known():
    files = visited(lambda: dynamics.mass_matrix(quadruped(), standing()))
    assert {"dynamics/algorithms/mass_matrix.py", "dynamics/simd/threads.py"} <= set(files)
