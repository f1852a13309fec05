"""Workers that solve problems: own processes, own threads, a given executor, or a Dask cluster.

Each kind says how many calls are `wanted` of it now, starts them (`submit`), hands over what `ended`, and closes.
"""

import math
import multiprocessing
import os
import pickle
import signal
import socket
import time
import traceback
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import BrokenExecutor, CancelledError, Executor, Future, InvalidStateError
from contextlib import suppress
from dataclasses import replace
from functools import partial
from multiprocessing import parent_process
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from multiprocessing.reduction import ForkingPickler
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any, NamedTuple, Protocol

from dynamics.simd.threads import in_this_thread_alone
from trajopt.batch.outcomes import StoredSolution
from trajopt.problem.problem import Problem
from trajopt.results.solution import Solution

# --------------------------------------------------------------------------------------------
# Task of a worker: make one problem, solve it, send the solution back as the content of its file.
#
# A file rather than the solution itself: it contains no problem, which need not be picklable, and who only counts how
# solves ended never reads it.


class Answer(NamedTuple):
    """A solution, or the error as "type: message" with its traceback; and the seconds it took."""

    stored: StoredSolution | Solution | None
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


Kept = Callable[[Solution], StoredSolution | Solution]
"""What of a solution is kept."""


def solve_one(
    make_problem: Callable[[Any], Problem], parameter: Any, solver: Any, single_outside: Worker | None
) -> Answer:
    """Make and solve the problem of one parameter.

    `single_outside`: in any process but this one the dynamics run in a single thread, as there are as many workers as
    processors; None leaves the threads alone.
    """
    if single_outside is not None and here() != single_outside:
        from dynamics.simd import set_num_threads

        set_num_threads(1)
    return _solved(make_problem, parameter, solver, StoredSolution)


def _solved(make_problem: Callable[[Any], Problem], parameter: Any, solver: Any, kept: Kept) -> Answer:
    start = time.perf_counter()
    try:
        solution = solver.solve(make_problem(parameter))
        if not isinstance(solution, Solution):
            raise TypeError(f"solver: solve returned {type(solution).__name__}, expected a trajopt.Solution")
        return Answer(kept(solution), None, None, time.perf_counter() - start)
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
    """Raised for a parameter over which several workers died, one after another, or for which there was none."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)


def _died(times: int) -> WorkerLost:
    return WorkerLost(
        f"{times} worker process{'es' if times > 1 else ''} died with this parameter: killed, perhaps for want of "
        "memory, or crashed in compiled code"
    )


Calls = Mapping[int, tuple[Any, ...]]
"""Arguments make_problem, parameter and solver of `solve_one`, by the index of the parameter."""


class Workers(Protocol):
    """Workers as `answers` uses them."""

    def wanted(self, waiting: int) -> int:
        """Number of calls, of so many that wait, to submit together now."""
        ...

    def submit(self, calls: Calls) -> None:
        """Start calls."""
        ...

    def ended(self) -> tuple[int, Answer | None] | None:
        """A call that has ended and its answer, None if a worker died under it, so that another try may succeed; None
        if none ends within `LOOK`."""
        ...

    def close(self, cancel: bool) -> None:
        """Close; running calls are cancelled if `cancel`."""
        ...


def answers(workers: Workers, calls: Calls, attempts: int) -> Iterator[tuple[int, Answer]]:
    """Index and answer of each call, as they arrive; a call whose worker dies is tried `attempts` times."""
    waiting, running, deaths = deque(calls), 0, Counter[int]()
    while waiting or running:
        while count := workers.wanted(len(waiting)):
            taken = [waiting.popleft() for _ in range(count)]
            workers.submit({index: calls[index] for index in taken})
            running += count
        if (arrival := workers.ended()) is None:
            continue
        running -= 1
        index, answer = arrival
        if answer is not None:
            yield index, answer
            continue
        deaths[index] += 1
        if deaths[index] < attempts:
            waiting.append(index)
        else:
            yield index, failure(_died(attempts), math.nan)


# --------------------------------------------------------------------------------------------
# Own processes, each at the other end of a line.  A message to a process is a list of calls, each pickled by itself; a
# message from it is an answer, and answers come in the order of the calls.  So when a line breaks, the call that the
# process was at is the first one without an answer.

AHEAD = 0.1
"""Seconds of work that a process has before it, if problems are as fast as they were on average: it is sent the next
calls when half of them are done.  Long enough that it never waits for its caller, and short enough that few problems
wait behind one that takes unexpectedly long."""


class _Process:
    """A worker process, and the calls it has, the one it is at first."""

    def __init__(self, caller: Worker) -> None:
        context = multiprocessing.get_context("spawn")  # compiled kernels and their threads do not survive a fork
        self.line, line = context.Pipe()
        self.process: BaseProcess = context.Process(target=serve, args=(line, caller))
        self.process.start()
        line.close()  # so that it breaks when the process ends
        self.calls: dict[int, tuple[Any, ...]] = {}
        self.started = False

    def submit(self, calls: Calls) -> None:
        """Send calls."""
        self.calls.update(calls)
        with suppress(OSError):  # of a process that has died: told when its line is read
            self.line.send([bytes(ForkingPickler.dumps(call)) for call in calls.values()])

    def close(self, cancel: bool) -> None:
        """Begin to end the process; at once if `cancel`, or if it has not begun to work."""
        if cancel or not self.started:
            self.process.kill()
        self.line.close()


class OwnProcesses:
    """Spawned processes, which are replaced when they die."""

    def __init__(self, count: int) -> None:
        self._count, self._caller = count, here()
        self._processes = [_Process(self._caller) for _ in range(count)]
        self._arrived: deque[tuple[int, Answer | None]] = deque()
        self._started = False
        self._seconds, self._answers = 0.0, 0

    def wanted(self, waiting: int) -> int:
        """Number of calls that the process with the fewest is to have in addition."""
        full = len(self._processes) == self._count
        fewest = min(len(process.calls) for process in self._processes) if full else 0
        ahead = max(1, min(self._in_time(AHEAD), waiting // (2 * self._count)))
        return min(waiting, ahead - fewest) if fewest <= ahead // 2 else 0

    def _in_time(self, seconds: float) -> int:
        """Number of calls that a process can be expected to answer in this time."""
        return int(seconds * self._answers / self._seconds) if self._seconds > 0.0 else 0

    def submit(self, calls: Calls) -> None:
        """Send calls to the process that has the fewest, a new one if one has died and the others are busy."""
        process = min(self._processes, key=lambda process: len(process.calls), default=None)
        if process is None or (process.calls and len(self._processes) < self._count):
            process = self._start()
        process.submit(calls)

    def _start(self) -> _Process:
        self._processes.append(_Process(self._caller))
        return self._processes[-1]

    def ended(self) -> tuple[int, Answer | None] | None:
        """The next answer, or the call under which a process died.

        Raises RuntimeError if no process has ever started, since no further try would succeed.
        """
        if not self._arrived:
            lines = {process.line: process for process in self._processes}
            for line in wait(list(lines), LOOK):
                self._read(lines[line])  # pyright: ignore[reportArgumentType]
        return self._arrived.popleft() if self._arrived else None

    def _read(self, process: _Process) -> None:
        try:
            answer: Answer | None = process.line.recv()
        except (EOFError, OSError):
            return self._replace(process)
        if answer is None:
            self._started = process.started = True
            return
        self._seconds, self._answers = self._seconds + answer.seconds, self._answers + 1
        index = next(iter(process.calls))
        del process.calls[index]
        self._arrived.append((index, answer))

    def _replace(self, process: _Process) -> None:
        """Replace a process that has died, and give the calls that it had not begun to the new one."""
        self._processes.remove(process)
        process.close(cancel=True)
        process.process.join()
        if not self._started:
            raise RuntimeError(
                "solve_many: the worker processes die as they start.  They import the script that is run, so it must "
                'call solve_many under `if __name__ == "__main__":` only'
            )
        if process.calls:
            (index, _), *rest = process.calls.items()
            self._arrived.append((index, None))
            if rest:
                self._start().submit(dict(rest))

    def close(self, cancel: bool) -> None:
        """End the processes, running calls included if `cancel`."""
        for process in self._processes:
            process.close(cancel)
        for process in self._processes:
            process.process.join()


def serve(line: Connection, caller: Worker) -> None:
    """A worker process: answer the calls that come along the line, until it is closed."""
    start_worker()
    calls: SimpleQueue[bytes | None] = SimpleQueue()
    Thread(target=_receive, args=(line, calls), name="calls", daemon=True).start()
    with suppress(OSError):  # of a caller that has ended
        line.send(None)
        while (call := calls.get()) is not None:
            line.send(_answer(call, caller))


def _receive(line: Connection, calls: SimpleQueue[bytes | None]) -> None:
    """Queue the calls, so that the line is free while a problem is solved."""
    with suppress(EOFError, OSError):
        while True:
            for call in line.recv():
                calls.put(call)
    calls.put(None)


def _answer(call: bytes, caller: Worker) -> Answer:
    start = time.perf_counter()
    try:
        make_problem, parameter, solver = pickle.loads(call)
        return solve_one(make_problem, parameter, solver, caller)
    except BaseException as error:  # a parameter that cannot be read, or SystemExit
        return failure(error, time.perf_counter() - start)


# --------------------------------------------------------------------------------------------
# Threads of this process.


class OwnThreads:
    """Threads that solve each problem in one of them alone; solutions stay objects.

    A thread cannot be ended from outside: where calls are cancelled, those that have begun go on, but nobody waits for
    them, and they end with the program."""

    def __init__(self, count: int) -> None:
        self._calls: SimpleQueue[tuple[int, tuple[Any, ...]] | None] = SimpleQueue()
        self._ended: SimpleQueue[tuple[int, Answer | None]] = SimpleQueue()
        self._threads = [Thread(target=self._work, name=f"solve_many {i}", daemon=True) for i in range(count)]
        for thread in self._threads:
            thread.start()

    def _work(self) -> None:
        with in_this_thread_alone():
            while (task := self._calls.get()) is not None:
                index, (make_problem, parameter, solver) = task
                try:
                    answer = _solved(make_problem, parameter, solver, _without_problem)
                except BaseException as error:  # such as SystemExit
                    answer = failure(error, math.nan)
                self._ended.put((index, answer))

    def wanted(self, waiting: int) -> int:
        """All of them."""
        return waiting

    def submit(self, calls: Calls) -> None:
        """Queue calls."""
        for task in calls.items():
            self._calls.put(task)

    def ended(self) -> tuple[int, Answer | None] | None:
        """The next answer."""
        with suppress(Empty):
            return self._ended.get(timeout=LOOK)
        return None

    def close(self, cancel: bool) -> None:
        """End the threads; those that solve a problem yet are not waited for."""
        if cancel:
            with suppress(Empty):
                while True:
                    self._calls.get_nowait()
        for _ in self._threads:
            self._calls.put(None)


def _without_problem(solution: Solution) -> Solution:
    return replace(solution, problem=None)


# --------------------------------------------------------------------------------------------
# Executors of others.


class _Futures:
    """Calls that are futures, submitted as soon as possible."""

    single_outside: Worker | None
    look = LOOK
    """Seconds without an answer after which calls are looked after."""

    def __init__(self) -> None:
        self._running: dict[Future, int] = {}
        self._ended: SimpleQueue[Future] = SimpleQueue()

    def wanted(self, waiting: int) -> int:
        """One, unless a call has ended that is to be seen first."""
        return int(waiting > 0 and self._ended.empty())

    def submit(self, calls: Calls) -> None:
        """Queue the calls."""
        for index, call in calls.items():
            future = self._submitted(solve_one, *call, self.single_outside)
            self._running[future] = index
            future.add_done_callback(self._ended.put)

    def ended(self) -> tuple[int, Answer | None] | None:
        """The next call that ends."""
        try:
            future = self._ended.get(timeout=self.look)
        except Empty:
            self._look_after()
            return None
        index = self._running.pop(future)
        if self._lost(future):
            return index, None
        error = CancelledError("by the executor") if future.cancelled() else future.exception()
        return index, future.result() if error is None else failure(error, math.nan)

    def _submitted(self, *call: Any) -> Future:
        raise NotImplementedError

    def _lost(self, future: Future) -> bool:
        """True if a worker died under the call, so that another try may succeed."""
        raise NotImplementedError

    def _look_after(self) -> None:
        """End calls that are known never to end by themselves."""
        raise NotImplementedError


class GivenExecutor(_Futures):
    """Any executor, with as many threads per worker as it was set up with; if it breaks, it is not replaced."""

    def __init__(self, executor: Executor) -> None:
        super().__init__()
        self.single_outside = None
        self._executor = executor

    def _submitted(self, *call: Any) -> Future:
        try:
            return self._executor.submit(*call)
        except BrokenExecutor as error:
            future = Future()
            future.set_exception(error)
            return future

    def _lost(self, future: Future) -> bool:
        return False  # another try would fail as well

    def _look_after(self) -> None:
        """An executor that breaks ends its calls."""

    def close(self, cancel: bool) -> None:
        """Cancel the calls that have not begun; the executor stays open."""
        for future in self._running if cancel else ():
            future.cancel()


class DaskWorkers(_Futures):
    """A `dask.distributed` client.

    The scheduler itself restarts a call whose worker died, and gives up after a few deaths
    (``distributed.scheduler.allowed-failures``), also for calls that only waited on those workers.  Calls that it no
    longer knows, or has assigned to a worker that is gone, never arrive, and none does where there are no workers: it
    is asked for both.

    Parameters
    ----------
    client : distributed.Client
    timeout : seconds without any worker after which all calls end
    note : function that says what calls wait for, "" for nothing
    options : of the client's ``submit``
    """

    def __init__(self, client: Any, timeout: float, note: Callable[[str], None], options: Mapping[str, Any]) -> None:
        from distributed import KilledWorker

        super().__init__()
        self.single_outside = here()
        self._client, self._given_up = client, (KilledWorker, CancelledError, TimeoutError, OSError)
        self._timeout, self._note, self._options = timeout, note, {**options, "pure": False}
        self._remote: dict[Future, Any] = {}
        self._missed: set[Future] = set()
        self._alone: float | None = None  # time since which there are no workers, None where there are some
        self.look = min(LOOK, timeout)

    def _submitted(self, *call: Any) -> Future:
        future = Future()
        try:
            self._remote[future] = remote = self._client.submit(*call, **self._options)
            remote.add_done_callback(partial(_hand_over, future))
        except (OSError, RuntimeError, ValueError) as error:  # what a closed client raises
            _settle(future, None, error)
        return future

    def _lost(self, future: Future) -> bool:
        """True if the scheduler gave up on the call, or forgot it, or its result was lost with a worker."""
        self._remote.pop(future, None)
        return future.cancelled() or isinstance(future.exception(), self._given_up)

    def _look_after(self) -> None:
        """End calls that the scheduler cannot end, twice in a row; all if it does not answer, or has had no workers for
        too long."""
        asked = {remote.key: future for future, remote in self._remote.items() if not future.done()}
        keys, workers = self._state(list(asked))
        missed = {asked[key] for key in keys}
        vanished, self._missed = missed & self._missed, missed
        for future in vanished:
            future.cancel()
        if workers:
            self._alone = None
            self._note("")
            return
        now = time.monotonic()
        self._alone = now if self._alone is None else self._alone
        self._note("no workers")
        if now - self._alone >= self._timeout:
            for future in asked.values():
                _settle(future, None, WorkerLost(f"the cluster had no workers for {self._timeout:g} s"))
            self.close(cancel=True)

    def _state(self, keys: list[str]) -> tuple[list[str], int]:
        """Of these calls those that the scheduler cannot end, and its number of workers."""
        try:
            asked = self._client._run_on_scheduler, _without_end, keys
            return self._client.sync(*asked, callback_timeout=SILENCE)
        except ImportError:  # a scheduler without this package cannot be asked
            return [], len(self._client.scheduler_info()["workers"])
        except Exception:  # closed, cut off or silent
            return keys, 1

    def close(self, cancel: bool) -> None:
        """Cancel the calls that have not ended; the client stays open."""
        for remote in self._remote.values() if cancel else ():
            with suppress(Exception):  # the cluster may be gone
                remote.cancel()


def _without_end(keys: list[str], dask_scheduler: Any) -> tuple[list[str], int]:
    """On the scheduler: the calls that it has forgotten or ended, or assigned to a worker that is gone; and the number
    of workers."""

    def ends(key: str) -> bool:
        task = dask_scheduler.tasks.get(key)
        if task is None or task.state in ("released", "forgotten", "memory", "erred"):
            return False
        worker = task.processing_on
        return worker is None or worker.address in dask_scheduler.workers

    return [key for key in keys if not ends(key)], len(dask_scheduler.workers)


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
