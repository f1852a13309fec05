"""Every driver that tests launch is called by its address too, on copies of its arguments: the same bits come out."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from dynamics.simd import scratch_guard, threads
from dynamics.simd.dispatchers import KeepingDispatcher
from dynamics.simd.prepared_calls import PreparedCall, calls_of, checks_of, enter
from dynamics.simd.vector import aligned_empty

MOST_CALLS = 3
"""Compared calls of a driver, of each combination of argument types: each costs as much as the call."""

compared: Counter = Counter()


def copied(value: Any, known: dict[tuple, np.ndarray]) -> Any:
    """Copies of all arrays in tuples of tuples, as writable as these; of an array that stands twice the same copy."""
    if isinstance(value, tuple):
        parts = [copied(x, known) for x in value]
        return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
    if not isinstance(value, np.ndarray):
        return value
    place = value.ctypes.data, value.shape, value.dtype
    if value.size and place in known:
        return known[place]
    copy = known[place] = aligned_empty(*value.shape) if value.dtype == float else np.empty_like(value)
    copy[...] = value
    copy.flags.writeable = value.flags.writeable
    return copy


def kinds_of(value: Any) -> Any:
    """What the type of a value depends on, much faster than numba's own: all launches of all tests ask for it."""
    if isinstance(value, tuple):
        return (type(value), *[kinds_of(x) for x in value])
    return (value.dtype, value.ndim, value.flags.writeable) if isinstance(value, np.ndarray) else type(value)


def bits(value: Any) -> Any:
    """Bytes of all arrays and numbers in tuples of tuples."""
    if isinstance(value, tuple):
        return tuple(bits(x) for x in value)
    return None if value is None else np.asarray(value).tobytes()


@contextmanager
def called_twice() -> Iterator[None]:
    """Within this context launches of compiled drivers are compared with prepared calls."""
    share_out = threads._share_out

    def twice(drive: Any, bounds: Sequence[tuple[int, int]], work: np.ndarray, args: tuple) -> Any:
        kinds = None
        if isinstance(drive, KeepingDispatcher) and len(bounds) == 1:
            kinds = drive, kinds_of(args)
            compared[kinds] += 1
        if kinds is None or compared[kinds] > MOST_CALLS:
            return share_out(drive, bounds, work, args)
        copies, (_, size, lanes) = copied(args, {}), work.shape
        rows = aligned_empty(size + scratch_guard.ROWS, lanes)  # for drivers, too, that write beyond their scratch
        rows[:size] = work[0]
        result = share_out(drive, bounds, work, args)
        again = PreparedCall(drive, *bounds[0], rows[:size], *copies)()
        assert type(again) is type(result), drive
        assert bits((again, copies)) == bits((result, args)), f"{scratch_guard.name_of(drive)}: other bits by address"
        return result

    threads._share_out = twice
    try:
        yield
    finally:
        threads._share_out = share_out


def replay(function: Callable[[], Any]) -> bool:
    """Make the calls of a prepared function by their addresses, without the function; returns what its checks say."""
    count = threads.num_threads()
    threads.set_num_threads(1)
    try:
        calls = calls_of(function)
        assert calls is not None
        for call in calls:
            call.check(enter(call.address))
    finally:
        threads.set_num_threads(count)
    return all([check() for check in checks_of(function)])
