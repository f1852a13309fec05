"""Solutions of problems as functions of their parameters, for frameworks that differentiate: what `trajopt.jax` and
`trajopt.torch` share.

A point is what a solve gives at parameters p (P,), polished by Newton steps of its optimality conditions, so that its
numbers and their derivatives belong together: where a solver's own end is off by e, gradients of a loss at it are off
by the same.  A host solves points, remembers the last ones, begins each solve from the nearest of those of earlier
calls, so that they follow one branch of minima, and multiplies covectors with their derivatives.  What has no solution
has no numbers: NaN, with a reason and a warning.

Problems are functions of p alone.  Where make_problem reads what is not p and has changed, a remembered point is no
solution of the problem that it makes now: this is looked at whenever a p comes again, which takes an expansion.
"""

from __future__ import annotations

import math
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property
from multiprocessing import get_context
from threading import RLock
from typing import Any, NamedTuple

import numpy as np

from dynamics.simd import set_num_threads
from dynamics.simd.caller import warn
from trajopt.batch.many import solve_many
from trajopt.batch.work import start_worker
from trajopt.problem.problem import Problem
from trajopt.results.records import WarmStart
from trajopt.results.sensitivity import Sensitivity, sensitivity
from trajopt.results.solution import Solution
from trajopt.results.stationary import SHORT, polished_solution, stationary_point
from trajopt.validation import whole_number

NO_SOLUTION = ValueError, ArithmeticError, np.linalg.LinAlgError
"""What problems that cannot be made, and solves that fail, raise; anything else is an error of who wrote them."""


STATIONARY = 1e-6
"""Of a remembered solution: largest gradient, relative to the costs' derivatives, and violation of limits, relative to
the controls; polished ones have 1e-9 at most."""


class Covectors(NamedTuple):
    """Derivatives of a loss by states (N+1, nx), number by number, by controls (N, nu) and by the cost."""

    xs: np.ndarray
    us: np.ndarray
    cost: float

    @property
    def finite(self) -> bool:
        """Whether all numbers are."""
        return bool(np.isfinite(self.xs).all() and np.isfinite(self.us).all() and np.isfinite(self.cost))

    @property
    def nothing(self) -> bool:
        """Whether the loss does not depend on the point."""
        return not (self.xs.any() or self.us.any() or self.cost)


@dataclass(frozen=True, eq=False)
class Point:
    """Parameters (P,), the polished solution there, or None and why."""

    make_problem: Callable[[np.ndarray], Problem]
    p: np.ndarray
    solution: Solution | None
    reason: str = ""

    def __reduce__(self) -> tuple[Any, ...]:
        return Point, (self.make_problem, self.p, self.solution, self.reason)

    @cached_property
    def derivatives(self) -> Sensitivity:
        """Of the solution; ValueError without one."""
        if self.solution is None:
            raise ValueError(self.reason)
        return sensitivity(self.make_problem, self.p, self.solution)

    def still_solves(self) -> bool:
        """Whether the solution is one of the problem that make_problem makes now; True where there is none."""
        if self.solution is None:
            return True
        try:
            at = stationary_point(self.make_problem(self.p), self.solution)
        except NO_SOLUTION:
            return False
        free = np.where(at.held.controls == 0, at.gradient, 0.0)
        outside = 0.0
        if at.rows is not None:
            outside = float(np.maximum(at.c - at.rows.upper, at.rows.lower - at.c).max(initial=0.0))
        limits = at.problem.control_limits
        if limits is not None:
            outside = max(outside, float(np.maximum(at.us - limits[1], limits[0] - at.us).max()))
        return bool(np.abs(free).max() <= STATIONARY * at.price and outside <= STATIONARY * (1.0 + np.abs(at.us).max()))

    def vjp(self, bars: Covectors) -> tuple[np.ndarray, str]:
        """d loss / d p (P,), and what there is to say of it: zero where the loss does not depend on the point, NaN
        where it does and there is no solution."""
        if bars.nothing:
            return np.zeros(self.p.shape), ""
        try:
            if not bars.finite:
                raise ValueError("derivatives of the loss that are not finite")
            found = self.derivatives
            xs, us = (bar if bar.any() else None for bar in bars[:2])
            gradient = np.asarray(found.vjp(xs, us, bars.cost, ambient=True))
        except NO_SOLUTION as error:
            return np.full(self.p.shape, np.nan), f"no gradient at p = {self.p}: {error}"
        kinks = f"one of several gradients at p = {self.p}, where {len(found.weak)} limits are just touched"
        return gradient, kinks if found.weak else ""


# ------------------------------------------------------------------------------------------------ solves
@dataclass(frozen=True)
class Solves:
    """Makes, solves and polishes; for `solve_many`, whose parameters are p and where to begin."""

    make_problem: Callable[[np.ndarray], Problem]
    solver: Any

    def solve(self, task: tuple[np.ndarray, WarmStart | None]) -> Solution:
        """The polished solution, begun again from nothing where a warm start fails; ValueError where there is none."""
        p, start = task
        problem = self.make_problem(p)
        if start is not None:
            try:
                return self._polished(problem, self.solver.solve(problem, warm_start=start))
            except NO_SOLUTION:
                pass
        return self._polished(problem, self.solver.solve(problem))

    def _polished(self, problem: Problem, solution: Solution) -> Solution:
        return replace(polished_solution(problem, solution, SHORT), problem=None)


def itself(task: Any) -> Any:
    """In place of make_problem: `Solves` makes problems."""
    return task


def start_single() -> None:
    """Of worker processes, as many as processors: dynamics in one thread."""
    start_worker()
    set_num_threads(1)


def vjp_there(point: Point, bars: Covectors) -> tuple[np.ndarray, str]:
    """In a worker."""
    return point.vjp(bars)


class LayerHost:
    """Solves for a layer, whatever its framework.

    Parameters
    ----------
    make_problem : function of p (P,) that returns a Problem, with P, horizon and sizes the same for all p
    solver : `ILQR`, `DDP`, or what has their ``solve(problem, warm_start=)``
    workers : processes that share batches, kept until the host goes; None: this one alone
    memory : how many of the last points are kept; with 0 each solve begins from nothing, so that equal p have equal
        answers whatever came before
    """

    def __init__(
        self, make_problem: Callable[[Any], Problem], solver: Any, workers: int | None = None, memory: int = 64
    ) -> None:
        if not callable(make_problem):
            raise TypeError(f"make_problem: got {type(make_problem).__name__}, wanted a function of p")
        if isinstance(solver, type) or not callable(getattr(solver, "solve", None)):
            raise TypeError(f"solver: got {solver!r}, wanted a solver such as trajopt.DDP()")
        self.workers = workers if workers is None else whole_number("workers", workers, 1)
        self.memory = whole_number("memory", memory, 0)
        self._solves = Solves(make_problem, solver)
        self._known: OrderedDict[bytes, Point] = OrderedDict()
        self._lock = RLock()
        self._sizes: tuple[int, int, int] | None = None

    def __getstate__(self) -> tuple[Any, ...]:
        return self._solves.make_problem, self._solves.solver, self.workers, self.memory

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.__init__(*state)

    # -------------------------------------------------------------------------------------------- forward
    def sizes(self, p: np.ndarray | None = None) -> tuple[int, int, int] | None:
        """Horizon, nx and nu, from the problem at p if they are not known."""
        if self._sizes is None and p is not None:
            problem = self._solves.make_problem(p)
            self._sizes = problem.horizon, problem.system.nx, problem.system.nu
        return self._sizes

    def points(self, ps: np.ndarray) -> list[Point]:
        """Those of a batch (B, P), from memory or solved."""
        with self._lock:
            keys = [p.tobytes() for p in ps]
            if not all(self._known[key].still_solves() for key in dict.fromkeys(keys) if key in self._known):
                warn(
                    "make_problem: got another problem for the same p, which reads what is not p and has changed; all "
                    "remembered points are solved again, expected a function of p alone, or clear() after a change"
                )
                self.clear()
            new = {key: p.copy() for key, p in zip(keys, ps, strict=True) if key not in self._known}
            found = {key: self._known[key] for key in keys if key not in new}
            tasks = [(p, self._nearest(p)) for p in new.values()]
            for point in self._solved(tasks):
                found[point.p.tobytes()] = self._known[point.p.tobytes()] = point
            while len(self._known) > self.memory:
                self._known.popitem(last=False)
            return [found[key] for key in keys]

    def clear(self) -> None:
        """Forget all points: what make_problem reads besides p has changed, or solves are to begin from nothing."""
        with self._lock:
            self._known.clear()

    def again(self, p: np.ndarray) -> Point:
        """The point at p, that was solved before; a warning where it is no longer known."""
        if self.memory and p.tobytes() not in self._known:
            warn(f"the point at p = {p} was forgotten and is solved again, wanted more than memory={self.memory}")
        return self.points(p[None])[0]

    def numbers(self, points: Sequence[Point]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """xs (B, N+1, nx), us (B, N, nu) and cost (B,), NaN where there is no solution.

        Raises: what make_problem raises, where no problem was ever made.
        """
        sizes = self.sizes(points[0].p)
        assert sizes is not None
        (N, nx, nu), B = sizes, len(points)
        xs, us, cost = (np.full(shape, np.nan) for shape in ((B, N + 1, nx), (B, N, nu), (B,)))
        for i, point in enumerate(points):
            if point.solution is not None:
                xs[i], us[i], cost[i] = point.solution.xs, point.solution.us, point.solution.cost
        return xs, us, cost

    def _solved(self, tasks: list[tuple[np.ndarray, WarmStart | None]]) -> Iterable[Point]:
        """Here, or in workers."""
        if self.workers is None or len(tasks) < 2:
            for task in tasks:
                try:
                    yield self._point(task[0], self._solves.solve(task))
                except NO_SOLUTION as error:
                    yield self._point(task[0], None, f"{type(error).__name__}: {error}")
            return
        for outcome in solve_many(itself, tasks, self._solves, executor=self._pool):
            p = outcome.parameter[0]
            if outcome.error is not None and outcome.ending not in FAILURES:
                raise RuntimeError(f"p = {p}: {outcome.error}\n{outcome.traceback or ''}")
            yield self._point(p, outcome.solution, outcome.error or "")

    def _point(self, p: np.ndarray, solution: Solution | None, reason: str = "") -> Point:
        if solution is None:
            warn(f"no solution at p = {p}: {reason}", RuntimeWarning)
        else:
            self._sizes = len(solution.us), solution.xs.shape[1], solution.us.shape[1]
        return Point(self._solves.make_problem, p, solution, reason)

    def _nearest(self, p: np.ndarray) -> WarmStart | None:
        best, least = None, math.inf
        for point in self._known.values():
            distance = math.inf if point.solution is None else float(np.linalg.norm(point.p - p))
            if distance < least:
                best, least = point.solution, distance
        return None if best is None else best.warm_start()

    @cached_property
    def _pool(self) -> ProcessPoolExecutor:
        """Fresh interpreters, which stay for the next batch."""
        pool = ProcessPoolExecutor(self.workers, get_context("spawn"), start_single)
        weakref.finalize(self, pool.shutdown, wait=False)
        return pool

    # -------------------------------------------------------------------------------------------- backward
    def vjp(self, points: Sequence[Point], bars: Sequence[Covectors]) -> np.ndarray:
        """Products (B, P) of covectors with the derivatives at points, as `Point.vjp`."""
        together = map if self.workers is None or len(points) < 2 else self._pool.map
        found = list(together(vjp_there, points, bars))
        for _, said in found:
            if said:
                warn(said, RuntimeWarning)
        return np.stack([gradient for gradient, _ in found])


FAILURES = {"ValueError", "LinAlgError", "ArithmeticError", "FloatingPointError", "OverflowError", "ZeroDivisionError"}
"""Names of `NO_SOLUTION`, as outcomes tell them."""
