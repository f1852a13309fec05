"""Times of calls that take turns, so that a busy machine slows all of them alike."""

import time
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import numpy as np

from dynamics.simd import num_threads, set_num_threads
from problems.bench import interleaved

TURN = 1e-3  # seconds that one turn of a short call lasts, in `medians`
Key = TypeVar("Key", bound=Hashable)


@contextmanager
def threads(count: int | None) -> Iterator[None]:
    """So many threads for a while; None leaves them as they are."""
    before = num_threads()
    set_num_threads(before if count is None else count)
    try:
        yield
    finally:
        set_num_threads(before)


def on_threads(count: int, call: Callable[[], object]) -> None:
    """Call on so many threads, which then stay the number of threads."""
    set_num_threads(count)
    call()


def in_turns(
    calls: Mapping[Key, Callable[[], object]], turns: int, block: int = 1, warm: int = 0
) -> dict[Key, list[float]]:
    """Seconds of every call, in each of `turns` turns after one that only warms up.

    Parameters: block, calls in a row in a turn, of which the first `warm` are not counted.
    """
    samples: dict[Key, list[float]] = {name: [] for name in calls}
    for turn in range(turns + 1):
        for name, call in calls.items():
            for i in range(block):
                begin = time.perf_counter()
                call()
                if turn > 0 and i >= warm:
                    samples[name].append(time.perf_counter() - begin)
    return samples


def medians(calls: Mapping[Any, Callable[[], object]], seconds: float = 1.0, rounds: int = 201) -> dict[Any, float]:
    """Median seconds per call of every contestant.

    They take turns for at most `rounds` rounds and, after the third, about `seconds` seconds in all.  Short calls are
    repeated within a turn.  Each is called once before anything is timed.
    """
    return interleaved(calls, rounds, TURN, seconds)


def least_and_median(samples: Sequence[float], scale: float = 1.0) -> tuple[float, float]:
    """Of some times, in other units."""
    return scale * float(np.min(samples)), scale * float(np.median(samples))
