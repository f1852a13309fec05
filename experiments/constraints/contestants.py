"""The solvers, all with their default options, behind one call: solve(us, xs) from a start, with a limit of time.

Peers run in a process of their own, one for each problem, which is ended when a solve takes longer than the limit:
their loops are compiled and cannot be asked to stop.  Their seconds are measured there, around the call of the solver.
"""

from __future__ import annotations

import importlib.util
import multiprocessing
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import trajopt
from experiments.constraints.catalogue import statement as named
from experiments.constraints.residuals import problem_of
from experiments.constraints.statement import Statement

OURS = {"ddp": trajopt.DDP(), "ilqr": trajopt.ILQR()}
PEERS = ("ipopt", "fatrop")
SOLVERS = (*OURS, *PEERS)
WARM_ITERATIONS, SHORT, REPEATS, BUILD_SECONDS = 40, 0.5, 3, 120.0
"""Before anything is timed; solves below so many seconds are timed so often, and the median is taken."""


@dataclass(frozen=True)
class Attempt:
    """One solve: how it ended, and where.  cost and violation are judged from xs (N+1, nx) and us (N, nu) alone."""

    status: str
    iterations: int
    seconds: float
    cost: float
    violation: float
    xs: Any
    us: Any


def available() -> tuple[str, ...]:
    """The solvers that are installed."""
    return SOLVERS if importlib.util.find_spec("casadi") else tuple(OURS)


class Ours:
    """DDP or iLQR on a statement; they start from controls alone."""

    def __init__(self, solver: str, statement: Statement, limit: float) -> None:
        self._solver, self._statement, self._limit = OURS[solver], statement, limit
        self._problem = problem_of(statement)
        self._warm = False

    def solve(self, us: np.ndarray, xs: np.ndarray) -> Attempt:
        """From the controls us; xs are not used."""
        if not self._warm:
            self._warm = bool(self._run(us, WARM_ITERATIONS))
        times: list[float] = []
        solution: Any = None
        while not times or (len(times) < REPEATS and times[0] < SHORT):
            begin = time.perf_counter()
            solution = self._run(us, None)
            times.append(time.perf_counter() - begin)
        status = str(solution.status)
        status = "out of time" if status == "stopped_by_callback" else status
        return judged(self._statement, status, solution.iterations, float(np.median(times)), solution.xs, solution.us)

    def _run(self, us, most):
        end, steps = time.perf_counter() + self._limit, iter(range(10**9))

        def stop(progress: Any) -> bool:
            return time.perf_counter() > end or (most is not None and next(steps) >= most)

        return self._solver.solve(self._problem, us=us, callback=stop)

    def close(self) -> None:
        """Nothing to do."""


class Theirs:
    """IPOPT or FATROP on a statement of the catalogue, in a process of its own."""

    def __init__(self, solver: str, statement: Statement, limit: float) -> None:
        self._solver, self._statement, self._limit = solver, statement, limit
        if solver not in available():
            raise ModuleNotFoundError(f"{solver} needs casadi, of the extra 'peers'")
        self._process: Any = None
        self._line: Any = None

    def solve(self, us: np.ndarray, xs: np.ndarray) -> Attempt:
        """From controls and states."""
        if self._process is None:
            self._begin()
        times: list[float] = []
        while not times or (len(times) < REPEATS and times[0] < SHORT):
            self._line.send((us, xs))
            if not self._line.poll(self._limit):
                self.close()
                return Attempt("out of time", -1, self._limit, np.nan, np.nan, xs, us)
            result = self._line.recv()
            times.append(result[-1])
        found_xs, found_us, _, status, iterations, _ = result
        return judged(self._statement, status, iterations, float(np.median(times)), found_xs, found_us)

    def _begin(self):
        context = multiprocessing.get_context("spawn")
        self._line, other = context.Pipe()
        self._process = context.Process(target=_serve, args=(other, self._solver, self._statement.name), daemon=True)
        self._process.start()
        if not self._line.poll(BUILD_SECONDS) or self._line.recv() != "ready":
            raise RuntimeError(f"{self._solver}: did not start on {self._statement.name}")

    def close(self) -> None:
        """End its process."""
        if self._process is not None:
            self._process.kill()
            self._process.join()
            self._line.close()
            self._process = None


def _serve(line: Any, solver: str, name: str) -> None:
    """In the other process: solve what comes along the line, for ever."""
    from experiments.constraints.programme import Peer

    peer = Peer(solver, named(name))
    line.send("ready")
    while True:
        us, xs = line.recv()
        line.send(tuple(peer.solve(us, xs)))


def contestant(solver: str, statement: Statement, limit: float) -> Ours | Theirs:
    """A solver on a statement."""
    kind: Callable[..., Ours | Theirs] = Ours if solver in OURS else Theirs
    return kind(solver, statement, limit)


def judged(
    statement: Statement, status: str, iterations: int, seconds: float, xs: np.ndarray, us: np.ndarray
) -> Attempt:
    """An attempt with its cost and violation, computed from the trajectory alone."""
    with np.errstate(all="ignore"):
        cost, violation = statement.cost(xs, us), statement.violation(xs, us)
    return Attempt(status, iterations, seconds, cost, violation, xs, us)
