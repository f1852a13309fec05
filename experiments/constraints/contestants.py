"""The solvers, all with their default options, behind one call: solve(us, xs) from a start, with a limit of time.

Peers run in a process of their own, one for each problem, so that one that takes longer than the limit, or dies, is a
result.  Their seconds are measured there, around the call of the solver.
"""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import trajopt
from experiments.constraints.catalogue import statement as named
from experiments.constraints.residuals import problem_of
from experiments.constraints.statement import Statement
from experiments.harness import PeerLost, PeerProcess

OURS = {"ddp": trajopt.DDP(), "ilqr": trajopt.ILQR()}
PEERS = ("ipopt", "fatrop")
SOLVERS = (*OURS, *PEERS)
WARM_ITERATIONS, SHORT, REPEATS = 40, 0.5, 3
"""Before anything is timed; solves below so many seconds are timed so often, and the median is taken."""


@dataclass(frozen=True)
class Attempt:
    """One solve: how it ended, and where.  cost and violation are judged from xs (N+1, nx) and us (N, nu) alone.

    Where a peer gave no answer, iterations are None, cost and violation NaN, xs and us those of the start."""

    status: str
    iterations: int | None
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
        self._statement, self._limit = statement, limit
        if solver not in available():
            raise ModuleNotFoundError(f"{solver} needs casadi, of the extra 'peers'")
        self._peer = PeerProcess(peer, solver, statement.name)

    def solve(self, us: np.ndarray, xs: np.ndarray) -> Attempt:
        """From controls and states; where the peer is lost, how it was is the status."""
        times: list[float] = []
        result: Any = None
        begin = time.perf_counter()
        try:
            while not times or (len(times) < REPEATS and times[0] < SHORT):
                result = self._peer.ask(us, xs, seconds=self._limit)
                times.append(result[-1])
        except PeerLost as lost:
            return Attempt(str(lost), None, time.perf_counter() - begin, np.nan, np.nan, xs, us)
        found_xs, found_us, _, status, iterations, _ = result
        return judged(self._statement, status, iterations, float(np.median(times)), found_xs, found_us)

    def close(self) -> None:
        """End its process."""
        self._peer.close()


def peer(solver: str, name: str) -> Callable[[np.ndarray, np.ndarray], tuple]:
    """In the other process: the call that solves a statement of the catalogue from controls and states."""
    from experiments.constraints.programme import Peer

    made = Peer(solver, named(name))
    return lambda us, xs: tuple(made.solve(us, xs))


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
