"""The same bits from every solve of the arm, whatever the number of threads."""

import numpy as np
import pytest

import dynamics
import problems
import trajopt


@pytest.fixture
def threads():
    before = dynamics.num_threads()
    yield dynamics.set_num_threads
    dynamics.set_num_threads(before)


def test_threads_do_not_change_a_bit(threads, monkeypatch):
    monkeypatch.setattr("dynamics.simd.threads.MINIMUM_WORK", 1)  # so that even small calls are split
    solutions = []
    for count in (1, 2, 2):
        threads(count)
        solutions.append(trajopt.DDP().solve(problems.make("arm")))
    for other in solutions[1:]:
        for name in ("xs", "us", "K", "k", "Vx", "Vxx"):
            np.testing.assert_array_equal(getattr(solutions[0], name), getattr(other, name))
        assert other.cost == solutions[0].cost and other.iterations == solutions[0].iterations
