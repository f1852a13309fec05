"""Calls by address: every kind of argument and result, threads, errors.  `tests/conftest.py` compares all drivers."""

import gc
import pickle
import signal
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import Event
from time import sleep
from typing import NamedTuple

import numpy as np
import pytest

from dynamics.simd import LANES, by_address, driver, routine, set_num_threads
from dynamics.simd.prepared_calls import PreparedCall, PreparedCalls, PreparedLaunch, calls_of, enter
from dynamics.simd.threads import MINIMUM_WORK, Share, in_this_thread_alone, launch, num_threads, shares, together
from dynamics.simd.vector import aligned_zeros


class Pair(NamedTuple):
    xs: np.ndarray
    scale: float


@routine
def _mixed(n, scale, flag, nothing, pair, numbers, out):
    if flag and nothing is None:
        for i in range(n):
            out[i] = scale * pair.xs[i, 0] * pair.scale + numbers[1]
    return n + 1, flag, scale * out[0]


@routine
def _floats(x, y):
    return x + y, x - y


@routine
def _three(x):
    return Pair(x, 2.0)


@routine
def _nothing(x):
    x[0] += 1.0


@routine
def _integer(x):
    return x.shape[0]


@routine
def _true(x):
    return x[0] > 0.0


@by_address
def _halved(x, y):
    for i in range(x.shape[0]):
        y[i] = 0.5 * x[i]
    return y[0]


@by_address
def _both(first, then):
    enter(first)
    return enter(then)


@routine
def _raises(x):
    if x[0] > 0.0:
        raise ValueError("too large")
    return x[0]


@driver
def _squares(first, last, work, xs, factor, ys):
    for c in range(first, last):
        for i in range(c * LANES, min((c + 1) * LANES, len(xs))):
            work[0, 0] = xs[i]
            ys[i] = factor * work[0, 0] * work[0, 0]
    return float(first)


def test_arguments_of_all_kinds(rng):
    xs, out = rng.standard_normal((5, 2)), np.zeros(5)
    args = 4, 1.5, True, None, Pair(xs, -2.0), (1, 7.0)
    expected = np.zeros(5)
    result = _mixed(*args, expected)
    call = PreparedCall(_mixed, *args, out)
    assert call() == result and out.tobytes() == expected.tobytes()
    assert [type(x) for x in call()] == [int, bool, float]
    xs *= 3.0  # arrays are read where they lie
    assert call() == _mixed(*args, expected) and out.tobytes() == expected.tobytes()


def test_results_of_all_kinds(rng):
    x = rng.standard_normal(3)
    assert PreparedCall(_floats, 1.25, 2.5)() == (3.75, -1.25)
    before = x.copy()
    assert PreparedCall(_nothing, x)() is None and x[0] == before[0] + 1.0
    assert PreparedCall(_integer, x)() == 3
    assert PreparedCall(_true, np.ones(1))() is True
    assert PreparedCall(_true, -np.ones(1))() is False


def test_set_replaces_numbers_and_arrays(rng):
    xs, ys, other = rng.standard_normal(6), np.zeros(6), np.zeros(6)
    work = aligned_zeros(1, LANES)
    call = PreparedCall(_squares, 0, 1, work, xs, 2.0, ys)
    call()
    call.set(4, 3.0)
    call.set(5, other)
    call()
    k = min(LANES, 6)
    assert np.array_equal(ys[:k], 2.0 * xs[:k] * xs[:k]) and np.array_equal(other[:k], 3.0 * xs[:k] * xs[:k])
    with pytest.raises(TypeError, match=r"argument 3 of _squares: got .*float32.*expected .*float64"):
        call.set(3, xs.astype(np.float32))
    with pytest.raises(TypeError, match=r"got an array of strides \(16,\), expected C order"):
        call.set(3, xs[::2])


def test_a_number_that_is_set_again_differs_in_its_sign_alone():
    call = PreparedCall(_floats, 0.0, 1.0)
    for x in (0.0, -0.0, -0.0, np.nan, np.nan, 0.0):
        call.set(0, x)
        assert call.block[2:3].view(float).tobytes() == np.float64(x).tobytes()


def test_compiled_code_makes_calls_by_their_addresses(rng):
    """And finds the results where they lie; from Python such a function is compiled with a wrapper."""
    x, y, z = rng.standard_normal(5), np.zeros(5), np.zeros(5)
    calls = PreparedCall(_halved, x, y), PreparedCall(_halved, y, z)
    assert PreparedCall(_both, *[call.address for call in calls])() == 0
    assert np.array_equal(z, 0.25 * x)
    assert calls[1].room.view(float)[0] == calls[1].result() == z[0]
    assert _halved(z, y) == 0.5 * z[0]


def test_arrays_live_as_long_as_the_call():
    call = PreparedCall(_integer, np.zeros(4_000_000))
    assert call() == 4_000_000
    assert PreparedCall(_true, np.ones(100_000))() is True


def test_what_cannot_be_prepared():
    with pytest.raises(TypeError, match="arguments of prepared calls"):
        PreparedCall(_floats, np.float32(1.0), 2.0)
    with pytest.raises(TypeError, match="results of prepared calls"):
        PreparedCall(_three, np.zeros(3))()


def test_an_exception_inside_is_told():
    call = PreparedCall(_raises, np.array([-1.0]))
    assert call() == -1.0
    call.set(0, np.array([1.0]))
    with pytest.raises(RuntimeError, match="_raises raised an exception"):
        call()


def test_calls_are_not_pickled():
    with pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(PreparedCall(_integer, np.zeros(2)))


@pytest.fixture
def team():
    before = num_threads()
    yield set_num_threads
    set_num_threads(before)


def test_launches_on_any_number_of_threads(rng, team):
    xs = rng.standard_normal(100)
    expected, ys = np.zeros(100), np.zeros(100)
    team(1)
    launch(_squares, 100, 1, xs, 2.0, expected)
    prepared = PreparedLaunch(_squares, 100, 1, xs, 2.0, ys, effort=MINIMUM_WORK)
    for count in (1, 2, 3, 1):
        team(count)
        ys[:] = 0.0
        assert prepared() == 0.0 and ys.tobytes() == expected.tobytes()
    prepared.set(1, 4.0)
    team(2)
    prepared()
    assert ys.tobytes() == (2.0 * expected).tobytes()


def test_calls_in_turn():
    x, y = np.array([4.0, 6.0]), np.zeros(2)
    halve, more = PreparedCall(_halved, x, y), PreparedCall(_nothing, x)
    both = PreparedCalls(more, halve)
    assert both() == 2.5 and y.tolist() == [2.5, 3.0]
    assert both.calls == (more, halve) and calls_of(halve) == (halve,)
    nested = PreparedCalls(both, more, result=halve.result)
    assert nested() == 3.0 and x[0] == 7.0
    assert nested.calls == (more, halve, more)
    assert PreparedCalls(halve, lambda: None).calls is None and calls_of(lambda: None) is None


def test_calls_of_launches(team):
    xs, ys = np.ones(100), np.zeros(100)
    team(1)
    drive = PreparedLaunch(_squares, 100, 1, xs, 2.0, ys, effort=MINIMUM_WORK)
    assert drive.calls is not None and PreparedCalls(drive).calls == drive.calls
    enter(drive.calls[0].address)
    assert (ys == 2.0).all()
    team(2)
    assert drive.calls is None and PreparedCalls(drive).calls is None


def test_launches_of_a_thread_that_shares_no_work(team):
    """They are calls of that thread alone, whatever the number of threads, which others keep."""
    xs, ys = np.ones(100), np.zeros(100)
    team(2)
    drive = PreparedLaunch(_squares, 100, 1, xs, 2.0, ys, effort=MINIMUM_WORK)
    with in_this_thread_alone(), ThreadPoolExecutor(1) as another:
        assert (num_threads(), another.submit(num_threads).result()) == (1, 2)
        with in_this_thread_alone():
            assert num_threads() == 1
        assert drive.calls is not None and len(shares(100, MINIMUM_WORK)) == 1
        drive()
    assert (ys == 2.0).all()
    assert num_threads() == 2 and drive.calls is None


@pytest.mark.parametrize("first", [None, RuntimeError("of this thread's task")])
def test_ctrl_c_waits_for_what_other_threads_write(first, team):
    """It comes twice, while this thread waits for another one, and again later."""
    team(2)
    begun, ended = Event(), []

    def other():
        begun.set()
        for _ in range(2):
            signal.raise_signal(signal.SIGINT)
            sleep(0.05)
        ended.append("other")

    def this():
        assert begun.wait(60.0)
        if first is not None:
            raise first

    with pytest.raises(KeyboardInterrupt):
        together([this, other])
    assert ended == ["other"]
    assert together([lambda: 1, lambda: 2, lambda: 3]) == [1, 2, 3]
    with pytest.raises(ZeroDivisionError):
        together([lambda: 1, lambda: 1 // 0])


def test_a_share_that_is_given_up_never_begins():
    ended = []
    share = Share(lambda: ended.append(1))
    share.settle()
    share()
    assert ended == [] and not share.over


def test_ctrl_c_at_any_time_leaves_a_team_that_works(team):
    """Also while tasks are handed out, as a clock tells this thread so at random times."""
    team(3)
    before, random = signal.signal(signal.SIGALRM, signal.default_int_handler), np.random.default_rng(0)
    cut, xs = 0, np.zeros((3, 100))
    gc.disable()  # what is raised in its callbacks, as hypothesis has some, is told as an exception that nobody raised
    try:
        for seconds in random.uniform(1e-5, 1e-3, 300):
            try:
                signal.setitimer(signal.ITIMER_REAL, seconds)
                for _ in range(50):
                    together([partial(np.add, x, 1.0, x) for x in xs])
            except KeyboardInterrupt:
                cut += 1
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0.0)
            assert together([lambda: 1, lambda: 2, lambda: 3]) == [1, 2, 3]
    finally:
        signal.signal(signal.SIGALRM, before)
        gc.enable()
    assert cut > 0
