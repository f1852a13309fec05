"""What a worker does: make one problem, solve it, send the solution back as the content of its file.

A file rather than the solution itself: it holds no problem, which need not be picklable, and what comes from a worker
is read by the same lines as what an earlier run left on disk.
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
    """Content of a solution file, or what went wrong, as "type: message" and with its traceback; seconds it took."""

    file: bytes | None
    error: str | None
    traceback: str | None
    seconds: float


def failure(error: BaseException, seconds: float) -> Answer:
    """The answer that tells of this error."""
    return Answer(None, f"{type(error).__name__}: {error}", "".join(traceback.format_exception(error)), seconds)


class Worker(NamedTuple):
    """A process, on whatever machine."""

    host: str
    pid: int


def here() -> Worker:
    """The process this runs in."""
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
            raise TypeError(f"solver: solve returned {type(solution).__name__}, wanted a trajopt.Solution")
        return Answer(solution_bytes(solution), None, None, time.perf_counter() - start)
    except Exception as error:  # whatever it is, it belongs to this parameter alone
        return failure(error, time.perf_counter() - start)


LOOK = 1.0
"""Seconds after which a worker looks for its caller, though the pipe between them is open."""


def start_worker() -> None:
    """Ctrl-C reaches every process of a terminal, but the caller ends its workers itself; where it is killed and
    cannot, they end with it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    Thread(target=_end_with_the_caller, name="caller's death", daemon=True).start()


def _end_with_the_caller() -> None:
    """The pipe of a spawned process, whose other end the caller holds, closes with the caller; a process that the
    caller has forked holds that end too, but an orphan is given another parent."""
    caller = parent_process()
    assert caller is not None
    while os.getppid() == caller.pid and not wait([caller.sentinel], LOOK):
        pass
    os._exit(1)
