"""Fixtures of the tests of the benchmark problems."""

import numpy as np
import pytest

import problems
import trajopt
from trajopt.solvers.solver import HESSIANS

SOLVERS = {"ilqr": trajopt.ILQR(), **{mode: trajopt.DDP(hessian=mode) for mode in HESSIANS}}


@pytest.fixture
def rng():
    """Seeded random numbers."""
    return np.random.default_rng(20240607)


@pytest.fixture(scope="session")
def solved():
    """A function (problem name, solver name) -> Solution that solves each pair once."""
    solutions = {}

    def solve(name, solver):
        if (name, solver) not in solutions:
            solutions[name, solver] = SOLVERS[solver].solve(problems.make(name))
        return solutions[name, solver]

    return solve
