"""The guard of drivers' scratch, which tests/conftest.py switches on: what it finds, and that it misses nobody."""

import importlib
import inspect

import numpy as np
import pytest

import problems
import trajopt
from dynamics.model.knot_driver import DRIVERS
from dynamics.residuals.kernel_residual import RESIDUALS
from dynamics.simd import LANES, driver, lane, launch, load, routine, scratch_guard, splat, store, threads
from dynamics.simd.prepared_calls import PreparedCall, PreparedLaunch
from tests import conftest
from trajopt.backward.expansions import expand, prepared_adjoint


@driver
def fill(first, last, work, count):
    for i in range(count):
        store(work, i, splat(work, 1.0))


@driver
def read(first, last, work, i, out):
    out[0] = lane(load(work, i), 0)


@routine
def double(x, out):
    out[0] = 2.0 * x[0]


NAME = scratch_guard.name_of(fill)


@pytest.mark.parametrize("count", [1, 2])
def test_a_number_too_many_is_found_and_its_driver_named(count, monkeypatch):
    monkeypatch.setattr(threads, "MINIMUM_WORK", 1)
    monkeypatch.setattr(threads._team, "size", count)
    launch(fill, 5 * LANES, 3, 3)
    with pytest.raises(RuntimeError, match=f"{NAME}: asked for 3 numbers of scratch and wrote number 4"):
        launch(fill, 5 * LANES, 3, 4)


def test_numbers_left_alone_are_counted(monkeypatch):
    """The fewest of all calls count."""
    monkeypatch.setattr(scratch_guard, "unused", {})
    for used, left in ((1, 4), (3, 2), (2, 2), (5, 0)):
        launch(fill, 1, 5, used)
        assert scratch_guard.unused[NAME] == left


def test_what_was_never_written_is_no_number():
    out = np.zeros(1)
    launch(fill, 1, 2, 2)
    launch(read, 1, 2, 1, out)
    assert np.isnan(out[0])


def test_the_first_nan_of_a_solve_has_a_name(monkeypatch):
    """Of prepared calls, the one that wrote it; those that read it are not blamed."""
    monkeypatch.setattr(scratch_guard, "wrote_nan", [])
    bad, out = np.zeros(1), np.zeros(1)
    calls = PreparedLaunch(read, 1, 2, 1, bad), PreparedCall(double, bad, out)
    for call in calls:
        call()
    assert np.isnan(bad[0]) and np.isnan(out[0]) and scratch_guard.wrote_nan == [scratch_guard.name_of(read)]
    problem = problems.make("pendulum")
    trajopt.ILQR().solve(problem)
    assert len(scratch_guard.wrote_nan) == 1
    us = np.zeros((problem.horizon, problem.system.nu))
    xs = problem.system.rollout(problem.x0, us)
    e, gradient = expand(problem, xs, us), np.zeros(us.shape)
    e.lx[-1] = np.inf, -np.inf
    e.fx[-1] = 1.0  # the sum of both
    prepared_adjoint(e, np.zeros(xs.shape), gradient)()
    assert scratch_guard.wrote_nan[1:] == ["trajopt.backward.expansions._adjoint"]


def test_arrays_in_another_order_are_named():
    """Alone and in tuples: numba would compile the driver once more for them."""
    for array in (np.ones((2, 3), order="F"), np.ones(4)[::2]):
        for argument in (array, (1.0, (array,))):
            with pytest.raises(RuntimeError, match=f"{NAME}: got .*strides.*expected a C-contiguous array"):
                launch(fill, 1, 2, argument)


def test_every_driver_is_known(monkeypatch):
    """And missed, where no test of all calls it; so is scratch that all drivers of a module leave alone."""
    names = conftest.drivers()
    assert len(names) > 60
    written = {driver.module_name: driver.module for driver in (*DRIVERS, *RESIDUALS)}
    for name in names:
        module, _, function = name.rpartition(".")
        found = getattr(written.get(module) or importlib.import_module(module), function)
        assert list(inspect.signature(found.py_func).parameters)[:3] == ["first", "last", "work"]
    missed, *others = sorted(names)
    module = "dynamics.systems.impact"
    left = dict.fromkeys(others, 0) | {name: 2 for name in others if name.startswith(module)}
    monkeypatch.setattr(conftest, "unused", left)
    monkeypatch.setattr(conftest, "completed", conftest.expected())
    never, too_many = conftest.complaints()
    assert never.startswith(f"{missed}: no test calls it") and too_many.startswith(f"{module}: asks for 2 numbers")
