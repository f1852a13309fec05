"""Spans, references and counts in compiled code do what arrays, blocks of them and ranges do."""

from typing import Any, NamedTuple

import numpy as np
import pytest
from numba.core.errors import TypingError

from dynamics.simd import LANES, by_reference, driver, flat, helper, kernel, routine, shared_kernel, span, split
from dynamics.simd.vector import aligned_empty


def workspace(*rows):
    array = aligned_empty(7, *rows)
    array[...] = np.arange(array.size, dtype=float).reshape(array.shape) + 1.0
    return array


@routine
def _sizes(x):
    return len(x), x.size, x.shape


@routine
def _change(x, other, i, a, b):
    x[a:b] = 0.0
    x[b:] = other[b:]
    return x[i : i + 2].shape[0], x[a:].shape[0], x[:b].size


@routine
def _as_span(work, change, *args):
    return change(span(work), *args)


@pytest.mark.parametrize("rows", [(), (LANES,), (2, LANES)])
def test_what_is_done_to_a_span_is_done_to_its_array(rows):
    x, y = workspace(*rows), workspace(*rows)
    assert _as_span(x, _sizes) == (7, x.size, x.shape) == _sizes(x)
    other = 0.5 * x
    assert _as_span(x, _change, other, 3, 2, 5) == (2, 5, 5 * x[0].size) == _change(y, other, 3, 2, 5)
    assert np.array_equal(x, y) and not x[2:5].any() and np.array_equal(x[5:], other[5:])


@routine
def _entries(x, i, k):
    x[i, k] += 0.25
    row = x[i]
    row[0] = -1.0
    return x[i, k], row[k], row.size


@routine
def _complex_entries(x, i, k):
    x[i, 1, k] += 0.25
    part = x[i, 1]
    part[0] = -1.0
    return x[i, 1, k], part[k], x[i].size


@pytest.mark.parametrize(("rows", "change"), [((LANES,), _entries), ((2, LANES), _complex_entries)])
def test_entries_and_rows(rows, change):
    x, y = workspace(*rows), workspace(*rows)
    assert _as_span(x, change, 4, LANES - 1) == change(y, 4, LANES - 1)
    assert np.array_equal(x, y)


@routine
def _in_three(work, n):
    a, rest = split(work, n)
    b, rest = split(rest, n)
    a[:], b[:], rest[:] = 1.0, 2.0, 3.0
    return a.shape[0], b.shape[0], rest.shape[0]


@pytest.mark.parametrize("rows", [(), (LANES,), (2, LANES)])
def test_pieces_of_a_workspace_lie_one_after_the_other(rows):
    x = workspace(*rows)
    assert _in_three(x, 3) == (3, 3, 1)
    assert np.array_equal(x.reshape(7, -1)[:, 0], [1, 1, 1, 2, 2, 2, 3])
    assert (x.reshape(7, -1) == x.reshape(7, -1)[:, :1]).all()


@routine
def _fill(target):
    numbers = flat(target)
    for i in range(numbers.size):
        numbers[i] = i
    return numbers.size


def test_all_numbers_of_an_array_in_its_order():
    target = np.empty((3, 4, 5))
    assert _fill(target) == 60
    assert np.array_equal(target.ravel(), np.arange(60.0))


class Inner(NamedTuple):
    """A block in a block."""

    index: np.ndarray
    factor: float


class Outer(NamedTuple):
    """What `by_reference` refers to."""

    numbers: np.ndarray
    table: np.ndarray
    cube: np.ndarray
    inner: Inner
    nothing: Any
    count: int


@shared_kernel
def weighted_sum(e):
    """Of the entries of the table that the inner block names; called by address."""
    total = 0.0
    for r in range(e.count):
        for c in range(e.table.shape[1]):
            total += e.numbers[r] * e.table[e.inner.index[r], c] + e.table[r][c]
    return e.inner.factor * total + e.cube[1, 0, 2]


@kernel
def _double(e):
    for i in range(e.numbers.size):
        e.numbers[i] *= 2.0
    return e.nothing is None


@routine
def _read(e):
    e = by_reference(e)
    return weighted_sum(e), _double(e), weighted_sum(e), by_reference(e.count)


def test_a_reference_reads_and_writes_the_arrays_of_its_block():
    rng = np.random.default_rng(5)
    table, cube = rng.normal(size=(4, 3)), rng.normal(size=(2, 2, 3))
    e = Outer(rng.normal(size=4), table, cube, Inner(np.array([2, 0, 3, 1]), 1.5), None, 4)

    def expected():
        return 1.5 * (e.numbers @ table[e.inner.index].sum(axis=1) + table.sum()) + cube[1, 0, 2]

    before, old = expected(), e.numbers.copy()
    first, nothing, second, count = _read(e)
    assert nothing and count == 4 and np.array_equal(e.numbers, 2.0 * old)
    assert first == pytest.approx(before, rel=1e-14) and second == pytest.approx(expected(), rel=1e-14)


@driver
def _turns(first, last, step, out):
    n = 0
    for i in range(first, last, step):
        out[n], n = i, n + 1
    for i in range(last):
        out[n], n = i, n + 1
    for i in range(first, last):
        out[n], n = i, n + 1
    for i in range(last, first, -1):
        out[n], n = i, n + 1
    for i in range(last, first, -3):
        out[n], n = i, n + 1
    for i in range(first, last, 2):
        for j in range(i):
            out[n], n = j, n + 1
    return n


@pytest.mark.parametrize(
    ("first", "last", "step"), [(0, 5, 1), (-3, 8, 3), (7, 2, -2), (4, 4, 1), (6, -1, -1), (2, 7, 100), (1, 6, 5)]
)
def test_loops_turn_as_often_as_in_python(first, last, step):
    found, expected = np.zeros(200), np.zeros(200)
    count = _turns(first, last, step, found)
    assert count == _turns.py_func(first, last, step, expected)
    assert np.array_equal(found, expected)


@kernel
def _perhaps(x):
    if x > 0.0:
        return x
    return None


@routine
def _asks(x):
    return _perhaps(x)


def test_what_cannot_be_a_span_or_a_result_is_refused():
    for refused in (np.zeros((4, LANES))[:, ::-1], np.zeros((2, 2, 2, LANES)), 1.0):
        with pytest.raises(TypingError, match="expected a C-contiguous array of one to three dimensions"):
            _in_three(refused, 1)
    with pytest.raises(TypingError, match="expected a C-contiguous array"):
        _fill(np.zeros((3, 4))[:, 1:])
    with pytest.raises(TypingError, match=r"_perhaps returns .* expected None always, or never"):
        _asks(1.0)


def test_inner_functions_raise_nothing():
    def refuses(x):
        if x < 0.0:
            raise ValueError(x)
        return x

    def asserts(x):
        assert x > 0.0
        return x

    for decorate, function in (helper, refuses), (kernel, refuses), (shared_kernel, asserts):
        with pytest.raises(TypeError, match=f"{function.__name__} raises or asserts"):
            decorate(function)
    assert routine(refuses)(1.0) == 1.0
