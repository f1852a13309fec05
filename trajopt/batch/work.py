"""Task of a worker: make one problem, solve it, send the solution back as the content of its file.

A file rather than the solution itself: it contains no problem, which need not be picklable, and results of workers are
read by the same code as those of an earlier run on disk.
"""

import os
import signal
import socket
import time
import traceback
from collections.abc import Callable
from multiprocessing import parent_process
from multiprocessing.connection import wait
from threading import Thread
from typing import Any, NamedTuple

from trajopt.problem.problem import Problem
from trajopt.results.results_files import solution_bytes
from trajopt.results.solution import Solution


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


LOOK = 1.0
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
    while os.getppid() == caller.pid and not wait([caller.sentinel], LOOK):
        pass
    os._exit(1)
