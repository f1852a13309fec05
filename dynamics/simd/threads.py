"""Chunks over threads: a driver runs without the interpreter lock, each thread on its own range of chunks.

Chunks share nothing but read-only inputs and disjoint outputs, so results do not depend on the number of threads.
"""

import os
import threading
from _thread import start_new_thread
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from queue import SimpleQueue
from typing import Any

import numpy as np

from dynamics.simd import scratch_guard
from dynamics.simd.vector import LANES, aligned_zeros

MINIMUM_WORK = 30_000
"""Workspace size times chunks per thread, a measure of its work (2 to 4 ns each), below which handing part of a call
to another thread, about 50 us, costs more than it saves."""


class _State(threading.local):
    """State of a thread: whether its calls run in it alone, and its scratch by size."""

    def __init__(self):
        self.alone = False
        self.blocks: dict[tuple[int, int], np.ndarray] = {}


_state = _State()


def processors() -> int:
    """Number of processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Share:
    """A task for another thread, which begins it unless the caller has run it or given it up before.

    Ctrl-C may come to the caller at any time.  It leaves `wait` and `settle`, which are then called again:
    `Thread.join` is no such wait, since once interrupted it counts a thread that still runs as ended
    (python/cpython#90882, up to Python 3.12).

    Attributes
    ----------
    over : True once another thread has ended it
    """

    def __init__(self, task: Callable[[], Any]) -> None:
        self._task, self._result, self._error, self.over = task, None, None, False
        self._taken: dict[str, bool] = {}  # by another thread, else by the caller: set once by the first of the two
        self._end = threading.Lock()
        self._end.acquire()

    def __call__(self) -> None:
        """Run the task in another thread."""
        if not self._taken.setdefault("elsewhere", True):
            return
        try:
            self._result = self._task()
        except BaseException as error:
            self._error = error
        finally:
            self.over = True
            self._end.release()

    def wait(self, seconds: float = -1.0) -> None:
        """Wait for the end of the task, at most so many seconds where they are not negative."""
        if not self.over:
            self._end.acquire(timeout=seconds)

    def settle(self) -> None:
        """Give the task up if it has not begun, else wait for its end."""
        while self._taken.setdefault("elsewhere", False) and not self.over:
            self.wait()

    def result(self) -> Any:
        """What the task returns, which runs here if it has not begun.  Raises what it raises."""
        if not self._taken.setdefault("elsewhere", False):
            return self._task()
        self.settle()
        if self._error is not None:
            raise self._error
        return self._result


class _Team:
    """The worker threads and the number that may be used.

    They wait at a queue of C: Ctrl-C in the midst of an executor's `submit` leaves its lock taken, and the next call
    would wait without an end."""

    def __init__(self):
        self.size = max(1, int(os.environ.get("TRAJOPT_NUM_THREADS") or processors()))
        self.forget()

    def forget(self):
        self._shares: SimpleQueue[Share] = SimpleQueue()
        self._threads = 0

    def take(self, shares: Sequence["Share"]) -> None:
        """Hand out shares, to as many threads."""
        while self._threads < len(shares):
            start_new_thread(_serve, (self._shares,))
            self._threads += 1
        for share in shares:
            self._shares.put(share)


def _serve(shares: SimpleQueue["Share"]) -> None:
    """In a worker thread: take shares, one after another."""
    while True:
        shares.get()()


_team = _Team()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_team.forget)


def num_threads() -> int:
    """Number of threads that a batch is spread over; initially TRAJOPT_NUM_THREADS, else the processors available; 1 in
    a thread whose calls run in it alone."""
    return 1 if _state.alone else _team.size


def set_num_threads(count: int) -> None:
    """Set the number of threads used from now on.  Raises ValueError unless count is an integer of at least 1."""
    if not isinstance(count, int) or isinstance(count, bool) or count < 1:
        raise ValueError(f"count: got {count!r}, expected an integer >= 1")
    _team.size = count


def alone() -> bool:
    """True where what this thread calls runs in it alone."""
    return _state.alone


@contextmanager
def in_this_thread_alone() -> Iterator[None]:
    """What this thread calls within runs in it alone, as where several threads have work of their own."""
    before, _state.alone = _state.alone, True
    try:
        yield
    finally:
        _state.alone = before


def scratch(workspace_size: int, threads: int = 1) -> np.ndarray:
    """This thread's reusable lane workspace (threads, numbers, LANES); contents are undefined."""
    blocks = _state.blocks
    key = (threads, workspace_size)
    if key not in blocks:
        if len(blocks) >= 64:
            blocks.clear()
        blocks[key] = aligned_zeros(threads, workspace_size, LANES)
    return blocks[key]


def launch(
    drive: Callable[..., Any],
    knots: int,
    workspace_size: int,
    *args: Any,
    effort: int | None = None,
    most_threads: int | None = None,
) -> Any:
    """Call drive(first, last, work, *args) over all chunks of `knots` knots, work (workspace_size, LANES) per thread.

    `effort` measures the work of a chunk in place of `workspace_size`, for drivers with small workspaces.  Returns the
    result of drive for the first range, which is the only one with `most_threads=1`."""
    bounds = shares(knots, effort or workspace_size, most_threads)
    if not scratch_guard.ON:
        return _share_out(drive, bounds, scratch(workspace_size, len(bounds)), args)
    scratch_guard.check_layout(drive, args)
    rows = scratch(workspace_size + scratch_guard.ROWS, len(bounds))
    scratch_guard.lay(rows)
    result = _share_out(drive, bounds, rows[:, :workspace_size], args)
    scratch_guard.check(drive, rows, workspace_size)
    return result


def shares(knots: int, effort: int, most_threads: int | None = None) -> list[tuple[int, int]]:
    """Range of chunks (first, last) of each thread, for chunks of so much work (`MINIMUM_WORK`)."""
    chunks = -(-knots // LANES)
    threads = max(1, min(most_threads or num_threads(), chunks, chunks * effort // MINIMUM_WORK))
    return [(chunks * t // threads, chunks * (t + 1) // threads) for t in range(threads)]


def _share_out(drive, bounds, work, args):
    if len(bounds) == 1:
        return drive(*bounds[0], work[0], *args)
    return together([partial(drive, *bounds[t], work[t], *args) for t in range(len(bounds))])[0]


def together(tasks: Sequence[Callable[[], Any]]) -> list[Any]:
    """Results of tasks that run at the same time, the first of them in this thread; waits for all that have begun, also
    where one raises an error or this thread is interrupted: they write to arrays that others use afterwards."""
    shares, interrupt = [Share(task) for task in tasks[1:]], None
    try:
        _team.take(shares)
        return [tasks[0](), *[share.result() for share in shares]]
    finally:
        while True:
            try:
                for share in shares:
                    share.settle()
                break
            except KeyboardInterrupt as error:
                interrupt = error
        if interrupt is not None:
            raise interrupt
