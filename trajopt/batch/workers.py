"""Workers that solve problems: own processes, a given executor, or a Dask cluster.

Each kind has `capacity` (number of calls to submit at once), `submit`, `lost` (True if the worker died under this call,
so that another try may succeed), `vanished` (calls that will never end) and `close`.

Own processes are pools of one worker each.  The death of a worker breaks its pool, and every call in a broken pool
fails; with one call per pool there is no doubt whose it was, and the other calls go on.
"""

import math
import multiprocessing
import os
import signal
import socket
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import BrokenExecutor, CancelledError, Executor, Future, InvalidStateError, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from functools import partial
from multiprocessing import parent_process
from multiprocessing.connection import wait
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any, NamedTuple, Protocol

from trajopt.problem.problem import Problem
from trajopt.results.results_files import solution_bytes
from trajopt.results.solution import Solution

# --------------------------------------------------------------------------------------------
# Task of a worker: make one problem, solve it, send the solution back as the content of its file.
#
# A file rather than the solution itself: it contains no problem, which need not be picklable, and results of workers
# are read by the same code as those of an earlier run on disk.


class Answer(NamedTuple):
    """Content of a solution file, or the error as "type: message" with its traceback; and the seconds it took."""

    file: bytes | None
    error: str | None
    traceback: str | None
    seconds: float


def failure(error: BaseException, seconds: float) -> Answer:
    """The answer for this error."""
    return Answer(None, f"{type(error).__name__}: {error}", "".join(traceback.format_exception(error)), seconds)


class Worker(NamedTuple):
    """A process, identified by machine and number."""

    host: str
    pid: int


def here() -> Worker:
    """The process that runs this code."""
    return Worker(socket.gethostname(), os.getpid())


def solve_one(
    make_problem: Callable[[Any], Problem], parameter: Any, solver: Any, single_outside: Worker | None
) -> Answer:
    """Make and solve the problem of one parameter.

    `single_outside`: in any process but this one the dynamics run in a single thread, as there are as many workers as
    processors; None leaves the threads alone.
    """
    start = time.perf_counter()
    if single_outside is not None and here() != single_outside:
        from dynamics.simd import set_num_threads

        set_num_threads(1)
    try:
        solution = solver.solve(make_problem(parameter))
        if not isinstance(solution, Solution):
            raise TypeError(f"solver: solve returned {type(solution).__name__}, expected a trajopt.Solution")
        return Answer(solution_bytes(solution), None, None, time.perf_counter() - start)
    except Exception as error:  # any error belongs to this parameter alone
        return failure(error, time.perf_counter() - start)


CALLER_CHECK = 1.0
"""Interval in seconds at which a worker checks that its caller is alive, though the pipe between them is open."""


def start_worker() -> None:
    """Ignore Ctrl-C, which reaches every process of a terminal, as the caller ends its workers itself; where it is
    killed and cannot, they end with it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    Thread(target=_end_with_the_caller, name="caller's death", daemon=True).start()


def _end_with_the_caller() -> None:
    """Exit when the caller ends: the pipe of a spawned process, whose other end the caller holds, closes with the
    caller; a process that the caller has forked holds that end too, but an orphan is given another parent."""
    caller = parent_process()
    assert caller is not None
    while os.getppid() == caller.pid and not wait([caller.sentinel], CALLER_CHECK):
        pass
    os._exit(1)


# --------------------------------------------------------------------------------------------
# The workers.


LOOK, SILENCE = 5.0, 60.0
"""Seconds without an answer after which workers are checked for vanished calls (LOOK), and for which a scheduler, or a
worker with a result, may be silent (SILENCE)."""


class WorkerLost(Exception):
    """Raised for a parameter over which several workers died, one after another."""

    def __init__(self, deaths: int) -> None:
        super().__init__(
            f"{deaths} worker process{'es' if deaths > 1 else ''} died with this parameter: killed, perhaps for want "
            "of memory, or crashed in compiled code"
        )


class Workers(Protocol):
    """Workers as `answers` uses them."""

    capacity: float
    single_outside: Worker | None

    def submit(self, *call: Any) -> Future:
        """Start a call."""
        ...

    def lost(self, future: Future) -> bool:
        """True if a worker died under the call, so that another try may succeed."""
        ...

    def vanished(self) -> list[Future]:
        """Calls that are known never to end."""
        ...

    def close(self, cancel: bool) -> None:
        """Close; running calls are cancelled if `cancel`."""
        ...


class _Lane(NamedTuple):
    """A pool of one worker, and the future of its process id."""

    pool: ProcessPoolExecutor
    pid: Future


def _kill(lane: _Lane) -> None:
    """Kill the worker, after its start if it is still starting: it may hold a call that can no longer be cancelled."""
    with suppress(BrokenProcessPool, CancelledError, ProcessLookupError):
        os.kill(lane.pid.result(), getattr(signal, "SIGKILL", signal.SIGTERM))


class OwnProcesses:
    """Spawned processes (compiled kernels and their threads do not survive a fork), with one call in each."""

    def __init__(self, count: int) -> None:
        self.capacity: float = count
        self.single_outside: Worker | None = here()
        self._context = multiprocessing.get_context("spawn")
        self._idle = [self._lane() for _ in range(count)]
        self._busy: dict[Future, _Lane] = {}
        self._started = False

    def _lane(self) -> _Lane:
        pool = ProcessPoolExecutor(1, self._context, start_worker)
        return _Lane(pool, pool.submit(os.getpid))

    def submit(self, *call: Any) -> Future:
        """Run the call in an idle worker."""
        lane = self._idle.pop()
        try:
            future = lane.pool.submit(*call)
        except BrokenProcessPool:  # killed while it was idle
            lane = self._lane()
            future = lane.pool.submit(*call)
        self._busy[future] = lane
        return future

    def lost(self, future: Future) -> bool:
        """True if the worker died; it is replaced.

        Raises RuntimeError if no worker has ever started, since no further try would succeed.
        """
        lane = self._busy.pop(future)
        dead = isinstance(future.exception(), BrokenProcessPool)
        self._started |= lane.pid.done() and lane.pid.exception() is None
        if dead and not self._started:
            self._idle.append(lane)
            raise RuntimeError(
                "solve_many: the worker processes die as they start.  They import the script that is run, so it must "
                'call solve_many under `if __name__ == "__main__":` only'
            )
        self._idle.append(self._lane() if dead else lane)
        return dead

    def vanished(self) -> list[Future]:
        """Empty: the death of a worker ends its call."""
        return []

    def close(self, cancel: bool) -> None:
        """End the workers, running calls included if `cancel`."""
        lanes = [*self._idle, *self._busy.values()]
        for lane in lanes:
            lane.pool.shutdown(wait=False, cancel_futures=True)
        for future, lane in self._busy.items() if cancel else ():
            if not future.done():
                _kill(lane)
        for lane in lanes:
            lane.pool.shutdown(wait=True)


class GivenExecutor:
    """Any executor, with as many threads per worker as it was set up with; if it breaks, it is not replaced."""

    def __init__(self, executor: Executor) -> None:
        self.capacity: float = math.inf
        self.single_outside: Worker | None = None
        self._executor = executor
        self._futures: set[Future] = set()

    def submit(self, *call: Any) -> Future:
        """Queue the call; it fails if the executor is broken."""
        try:
            future = self._executor.submit(*call)
        except BrokenExecutor as error:
            future = Future()
            future.set_exception(error)
        self._futures.add(future)
        return future

    def lost(self, future: Future) -> bool:
        """False: another try would fail as well."""
        self._futures.discard(future)
        return False

    def vanished(self) -> list[Future]:
        """Empty: an executor that breaks ends its calls."""
        return []

    def close(self, cancel: bool) -> None:
        """Cancel the calls that have not begun; the executor stays open."""
        for future in self._futures if cancel else ():
            future.cancel()


class DaskWorkers:
    """A `dask.distributed` client.

    The scheduler itself restarts a call whose worker died, and gives up after a few deaths
    (``distributed.scheduler.allowed-failures``), also for calls that only waited on those workers.  Calls that it no
    longer knows, or has assigned to a worker that is gone, never arrive: `vanished` asks it.
    """

    def __init__(self, client: Any) -> None:
        from distributed import KilledWorker

        self.capacity: float = math.inf
        self.single_outside: Worker | None = here()
        self._client, self._given_up = client, (KilledWorker, CancelledError, TimeoutError, OSError)
        self._remote: dict[Future, Any] = {}
        self._missed: set[Future] = set()

    def submit(self, *call: Any) -> Future:
        """Queue the call; it fails if the client is closed."""
        future = Future()
        try:
            self._remote[future] = remote = self._client.submit(*call, pure=False)
            remote.add_done_callback(partial(_hand_over, future))
        except (OSError, RuntimeError, ValueError) as error:  # what a closed client raises
            _settle(future, None, error)
        return future

    def lost(self, future: Future) -> bool:
        """True if the scheduler gave up on the call, or forgot it, or its result was lost with a worker."""
        self._remote.pop(future, None)
        return future.cancelled() or isinstance(future.exception(), self._given_up)

    def vanished(self) -> list[Future]:
        """Calls that the scheduler cannot end, twice in a row; all if it does not answer."""
        asked = {remote.key: future for future, remote in self._remote.items() if not future.done()}
        try:
            keys = self._client.sync(
                self._client._run_on_scheduler, _without_end, list(asked), callback_timeout=SILENCE
            )
        except ImportError:  # a scheduler without this package cannot be asked
            keys = []
        except Exception:  # closed, cut off or silent
            keys = list(asked)
        missed = {asked[key] for key in keys}
        vanished, self._missed = missed & self._missed, missed
        return list(vanished)

    def close(self, cancel: bool) -> None:
        """Cancel the calls that have not ended; the client stays open."""
        for remote in self._remote.values() if cancel else ():
            with suppress(Exception):  # the cluster may be gone
                remote.cancel()


def _without_end(keys: list[str], dask_scheduler: Any) -> list[str]:
    """On the scheduler: the calls that it has forgotten or ended, or assigned to a worker that is gone."""

    def ends(key: str) -> bool:
        task = dask_scheduler.tasks.get(key)
        if task is None or task.state in ("released", "forgotten", "memory", "erred"):
            return False
        worker = task.processing_on
        return worker is None or worker.address in dask_scheduler.workers

    return [key for key in keys if not ends(key)]


def _hand_over(future: Future, remote: Any) -> None:
    """Set the result of a call on a cluster, fetched within `SILENCE`: the worker that has it may die meanwhile."""
    try:
        result, error = remote.result(timeout=SILENCE), None
    except BaseException as raised:
        result, error = None, raised
    _settle(future, result, error)


def _settle(future: Future, result: Any, error: BaseException | None) -> None:
    with suppress(InvalidStateError):  # cancelled meanwhile
        if error is None:
            future.set_result(result)
        else:
            future.set_exception(error)


def answers(workers: Workers, calls: dict[int, tuple], attempts: int) -> Iterator[tuple[int, Answer]]:
    """Key and answer of each call of `solve_one`, as they arrive; a call whose worker dies is tried `attempts`
    times."""
    waiting = deque((index, 1) for index in calls)
    running: dict[Future, tuple[int, int]] = {}
    arrived: SimpleQueue[Future] = SimpleQueue()
    while waiting or running:
        while waiting and len(running) < workers.capacity and arrived.empty():
            index, attempt = waiting.popleft()
            future = workers.submit(solve_one, *calls[index], workers.single_outside)
            running[future] = index, attempt
            future.add_done_callback(arrived.put)
        try:
            future = arrived.get(timeout=LOOK)
        except Empty:
            for gone in workers.vanished():
                gone.cancel()  # arrives
            continue
        index, attempt = running.pop(future)
        if not workers.lost(future):
            yield index, _answer(future)
        elif attempt < attempts:
            waiting.append((index, attempt + 1))
        else:
            yield index, failure(WorkerLost(attempts), math.nan)


def _answer(future: Future) -> Answer:
    error = CancelledError("by the executor") if future.cancelled() else future.exception()
    return future.result() if error is None else failure(error, math.nan)
