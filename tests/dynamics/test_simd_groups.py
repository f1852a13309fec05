"""Vectors along workspaces of floats, and the same loops over lanes."""

import numpy as np
import pytest

from dynamics.simd import LANES, aligned_zeros, group_size, load_group, routine, store_group

pytestmark = pytest.mark.processor


@routine
def _double(ws, count, members):
    size = group_size(ws)
    for i in range(0, count, size):
        store_group(ws, i, members, 2.0 * load_group(ws, i, members))
    return size


@pytest.mark.parametrize("start", [0, 1, 3])
def test_floats(start, rng):
    """Members are doubled, at any place in memory; what is no member may be anything and stays."""
    memory = rng.standard_normal(3 * LANES)
    ws, members = memory[start : start + 2 * LANES], 0b101
    outside = [k for k in range(2 * LANES) if k % LANES not in (0, 2)]
    ws[outside] = np.nan
    before = memory.copy()
    expected = before.copy()
    expected[[start, start + 2, start + LANES, start + LANES + 2]] *= 2.0
    assert _double(ws, 2 * LANES, members) == LANES
    np.testing.assert_array_equal(memory, expected)


def test_members_at_the_end_of_memory(rng):
    """A group may reach beyond the numbers that there are."""
    ws = rng.standard_normal(LANES + 1)
    expected = 2.0 * ws
    _double(ws, LANES, -1)
    _double(ws[LANES:], 1, 1)
    np.testing.assert_array_equal(ws, expected)


def test_lanes(rng):
    """A group of one, whatever its members."""
    ws = aligned_zeros(3, LANES)
    ws[:] = rng.standard_normal((3, LANES))
    expected = 2.0 * ws
    assert _double(ws, 3, 0) == 1
    np.testing.assert_array_equal(ws, expected)
    complex_ws = aligned_zeros(3, 2, LANES)
    complex_ws[:] = rng.standard_normal((3, 2, LANES))
    expected = 2.0 * complex_ws
    assert _double(complex_ws, 3, 0) == 1
    np.testing.assert_array_equal(complex_ws, expected)
