"""All that solves call compiled can be part of a C library: no kernel allocates, raises or calls Python."""

from importlib import import_module

import numpy as np
import pytest

import trajopt
from dynamics.simd import num_threads, set_num_threads, threads
from dynamics.simd.c_library.machine_code import linked, target_of
from dynamics.simd.prepared_calls import PreparedCall

CASES = {
    "arm_obstacle": trajopt.DDP,  # frames, limits, capsules
    "quadruped_stand": trajopt.DDP,  # contacts, forces in cones
    "quadruped_jump": trajopt.ILQR,  # phases, impacts
    "unicycle_obstacles": trajopt.DDP,  # functions of the user
    "soft_manipulator_reach": trajopt.DDP,
    "parallel_rods": trajopt.ILQR,  # closed chains
}


@pytest.fixture
def calls(monkeypatch):
    """Calls that are prepared, and launches of drivers, on one thread."""
    found, prepare, launch, before = [], PreparedCall.__init__, threads._share_out, num_threads()

    def prepared(self, *arguments):
        prepare(self, *arguments)
        found.append(self)

    def launched(drive, bounds, work, arguments):
        PreparedCall(drive, *bounds[0], work[0], *arguments)
        return launch(drive, bounds, work, arguments)

    monkeypatch.setattr(PreparedCall, "__init__", prepared)
    monkeypatch.setattr(threads, "_share_out", launched)
    set_num_threads(1)
    yield found
    set_num_threads(before)


@pytest.mark.parametrize("name", CASES)
def test_kernels_of_solves(name, calls):
    problem = import_module(f"problems.{name}").make()
    CASES[name](max_iterations=2).solve(problem)
    system, x = problem.system, problem.x0
    xs, us = np.tile(x, (3, 1)), np.zeros((2, system.nu))
    if name != "quadruped_jump":  # where each phase has a system of its own
        system.hessian_products(xs, us, np.ones((2, system.ndx)))
    found = {(call.function, tuple(call._kinds)): call for call in calls}
    assert len(found) > 5
    linked(list(found.values()), target_of("native"), "kernel")
