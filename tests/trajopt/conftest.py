"""Fixtures of the solver tests."""

import numpy as np
import pytest

from tests.trajopt.cases import pendulum
from tests.trajopt.systems import Walker
from trajopt import DDP, ILQR, ControlCost, Problem, StateCost


@pytest.fixture
def rng():
    """Seeded random numbers."""
    return np.random.default_rng(20240607)


@pytest.fixture(scope="module")
def walk():
    system, effort = Walker(), ControlCost(1.0)
    costs = [[effort]] * 10  # at the knot that takes no time, too, whose control moves the point like all others
    problem = Problem(system, [0.0, 0.0], 10, costs, [StateCost(system, [3.0, 1.0], 1e3)], name="walk")
    return ILQR().solve(problem)


@pytest.fixture(scope="module")
def swing():
    return DDP().solve(pendulum())
