"""Exported solves: in C programs the same bits as in Python, for solves, cycles of predictive control and parameters."""

import ctypes
import dataclasses
import platform
import shutil
import subprocess
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import problems
import trajopt
from dynamics.simd import shipped
from trajopt.solvers.alone import MEANINGS
from trajopt.solvers.export import Solves, solves_of

needs_cc = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler `cc` on the PATH")
OLDER = "x86-64-v3" if "x86-64-v3" in shipped.host_levels() else "native"
"""A processor that programs like valgrind know all instructions of."""
SOLVER = trajopt.DDP()
CYCLES = 4


# ------------------------------------------------------------------------------------------------ six problems
def arm():
    """The arm, within the limits of its motors."""
    problem = problems.make("arm", horizon=20, dt=0.05)
    return dataclasses.replace(problem, constraints=[trajopt.ControlBounds.from_model(problem.system)])


def ball():
    """The arm past a ball."""
    return problems.make("arm_obstacle")


def quadrotor():
    """A short flight, from states that hover."""
    problem = problems.make("quadrotor", horizon=15)
    goal = problem.objective.terms[0].cost.reference
    x0 = problem.system.integrate(goal, np.r_[0.02, -0.01, 0.02, np.zeros(9)])
    return dataclasses.replace(problem, x0=x0, xs_init=np.tile(x0, (16, 1)))


def stand():
    """The quadruped on four feet, which move no farther than friction allows."""
    return problems.make("quadruped_stand")


def pendulum_on_a_cart(x, u):
    s, c, m, M, length, g = np.sin(x[1]), np.cos(x[1]), 0.1, 1.0, 0.5, 9.81
    a = (u[0] + m * s * (length * x[3] ** 2 + g * c)) / (M + m * s * s)
    w = (-u[0] * c - m * length * x[3] ** 2 * c * s - (M + m) * g * s) / (length * (M + m * s * s))
    return np.array([x[2], x[3], a, w])


def cartpole():
    """A function of the user."""
    system = trajopt.CallableSystem(xdot=pendulum_on_a_cart, nx=4, nu=1, dt=0.05)
    x0, goal = np.array([0.1, np.pi - 0.1, 0.0, 0.0]), np.array([0.0, np.pi, 0.0, 0.0])
    running = [trajopt.StateCost(system, goal, np.full(4, 0.1)), trajopt.ControlCost(np.array([1e-2]))]
    terminal = [trajopt.StateCost(system, goal, np.full(4, 100.0))]
    return trajopt.Problem(
        system, x0, 20, running, terminal, constraints=[trajopt.ControlBounds(-20.0, 20.0)],
        xs_init=np.tile(x0, (21, 1)), name="cartpole",
    )  # fmt: skip


def soft():
    """The soft manipulator, with tendons that may push."""
    problem = problems.make("soft_manipulator_reach", horizon=8)
    limits = [trajopt.ControlBounds(-50.0, 80.0)]
    return dataclasses.replace(problem, us_init=np.full((8, 5), 10.0), constraints=limits)


CASES = arm, ball, quadrotor, stand, cartpole, soft


class Exported(NamedTuple):
    """A library in a folder, the problem, and the same solves in this process."""

    folder: Path
    name: str
    problem: trajopt.Problem
    solves: Solves


def exported(make, folder: Path, target: str = "native") -> Exported:
    problem = make()
    SOLVER.prepare(problem).export(folder, make.__name__, target)
    return Exported(folder, make.__name__, problem, solves_of(problem, SOLVER, SOLVER._curvature()))


@pytest.fixture(scope="module", params=CASES, ids=lambda make: make.__name__)
def native(request, tmp_path_factory):
    return exported(request.param, tmp_path_factory.mktemp("native") / request.param.__name__)


@pytest.fixture(scope="module")
def of_arm(tmp_path_factory):
    return exported(arm, tmp_path_factory.mktemp("arm") / "arm")


@pytest.fixture(scope="module")
def older(tmp_path_factory):
    return exported(cartpole, tmp_path_factory.mktemp("older") / "cartpole", OLDER)


# ------------------------------------------------------------------------------------------------ the same in C
KEPT = "status", "iterations", "asked", "outcome", "cost", "violation", "us", "xs", "K"

PROGRAM = r"""
#include <stdio.h>
#include "NAME.h"

static void keep(NAME_t *self, FILE *found) {
    KEEP
}

int main(int count, char **names) {
    NAME_t *self = NAME_create(), *other = NAME_create();
    FILE *given = count == 3 ? fopen(names[1], "rb") : NULL, *found = count == 3 ? fopen(names[2], "wb") : NULL;
    if (!self || !other || !given || !found || NAME_solve(self))
        return 2;
    keep(self, found);
    while (fread(NAME_x0(self), 8, UPPER_x0_SIZE, given) == UPPER_x0_SIZE) {
        if (NAME_cycle(self))
            return 3;
        keep(self, found);
    }
    if (NAME_begin(other))
        return 4;
    while (*NAME_status(other) == UPPER_RUNNING)
        if (NAME_step(other))
            return 5;
    keep(other, found);
    fclose(given);
    fclose(found);
    NAME_free(self);
    NAME_free(other);
    return 0;
}
"""


def states(made: Exported) -> np.ndarray:
    """Measured states, close to those of the plan."""
    system, rng = made.problem.system, np.random.default_rng(3)
    plan = SOLVER.solve(made.problem)
    return system.integrate(plan.xs[1 : 1 + CYCLES], 1e-3 * rng.standard_normal((CYCLES, system.ndx)))


def here(made: Exported, xs: np.ndarray) -> list[dict[str, np.ndarray]]:
    """What is kept of a solve and of cycles from these states, and of the solve again, in this process."""
    entries, arrays, found = made.solves.entries, made.solves.arrays, []
    made.solves.reset()
    entries["solve"]()
    for x in (None, *xs):
        if x is not None:
            arrays["x0"][...] = x
            entries["cycle"]()
        found.append({name: arrays[name].copy() for name in KEPT})
    made.solves.reset()
    return [*found, found[0]]


def in_c(made: Exported, xs: np.ndarray, folder: Path, *options: str, compiler="cc", under=()) -> list[dict[str, Any]]:
    """The same of a program in C."""
    source, given, found = folder / "main.c", folder / "given", folder / "found"
    keep = "\n".join(f"    fwrite(NAME_{name}(self), 8, UPPER_{name}_SIZE, found);" for name in KEPT)
    text = PROGRAM.replace("KEEP", keep).replace("NAME", made.name).replace("UPPER", made.name.upper())
    source.write_text(text, encoding="utf-8")
    given.write_bytes(xs.tobytes())
    strict = "-std=c11", "-Wall", "-Wextra", "-Werror", "-I", str(made.folder)
    succeeds(compiler, *strict, str(source), "-o", str(folder / "main"), *options)
    succeeds(*under, str(folder / "main"), str(given), str(found))
    content, start, kept = found.read_bytes(), 0, []
    for _ in range(len(xs) + 2):
        kept.append({})
        for name in KEPT:
            array = made.solves.arrays[name]
            flat = np.frombuffer(content, array.dtype, array.size, start)
            kept[-1][name], start = flat.reshape(array.shape), start + array.nbytes
    assert start == len(content)
    return kept


def succeeds(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, (command, done.returncode, done.stdout, done.stderr)
    return done.stdout


def static(made: Exported) -> tuple[str, str]:
    return str(made.folder / f"lib{made.name}.a"), "-lm"


def assert_same(found, expected):
    for i, (one, other) in enumerate(zip(found, expected, strict=True)):
        for name in KEPT:
            assert one[name].tobytes() == other[name].tobytes(), (i, name)


@needs_cc
def test_the_same_bits_as_in_python(native, tmp_path):
    """A solve is that of the solver, and cycles are its real-time iterations."""
    xs = states(native)
    expected, plan = here(native, xs), SOLVER.solve(native.problem)
    assert_same(in_c(native, xs, tmp_path, *static(native)), expected)
    first, prepared = expected[0], trajopt.DDP(max_iterations=1).prepare(native.problem)
    assert MEANINGS[int(first["status"][0])] == plan.status == "converged"
    assert (int(first["iterations"][0]), float(first["cost"][0])) == (plan.iterations, plan.cost)
    assert first["us"].tobytes() == plan.us.tobytes() and first["xs"].tobytes() == plan.xs.tobytes()
    for x, cycle in zip(xs, expected[1:], strict=False):
        plan = prepared.solve(x, warm_start=plan.shifted())
        assert cycle["us"].tobytes() == plan.us.tobytes()
