"""Solutions of problems as functions of their parameters, for frameworks that differentiate: the common part of
`trajopt.jax` and `trajopt.torch`.

A point is the solution at parameters p (P,), polished by Newton steps of its optimality conditions, so that its numbers
and their derivatives agree: an error e of a solver's own end causes an error of that size in gradients of a loss.  A
host solves points, keeps the last ones, and multiplies vectors and covectors with their derivatives.  A solve begins at
the given warm start, else at the nearest point of earlier calls, so that these follow one branch of minima.  Where
there is no solution the numbers are NaN, with a reason and a warning.

Problems are functions of p alone.  If make_problem reads anything else that has changed, a kept point is no solution of
the problem that it makes now: this is checked whenever a p comes again, which takes an expansion.  In the backward pass
the derivatives are those at this expansion.
"""

from __future__ import annotations

import math
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from multiprocessing import get_context
from threading import RLock
from typing import Any, NamedTuple

import numpy as np

from dynamics.simd import set_num_threads
from dynamics.simd.caller import warn
from trajopt.batch.many import solve_many
from trajopt.batch.workers import start_worker
from trajopt.interfaces.system import numbers_along
from trajopt.optimality.kkt_point import KKTPoint
from trajopt.problem.problem import Problem
from trajopt.problem.transcription import Transcribed, transcribed, transcribed_by
from trajopt.results.records import WarmStart
from trajopt.results.sensitivity import Sensitivity, sensitivity_at
from trajopt.results.solution import Solution
from trajopt.results.stationary import SHORT, polished_solution, solution_inside, stationary_point
from trajopt.validation import whole_number

NO_SOLUTION = ValueError, ArithmeticError, np.linalg.LinAlgError
"""Exceptions of problems that cannot be made and of failed solves; any other is an error in the user's functions."""


STATIONARY = 1e-6
"""Tolerance for a kept solution: largest gradient, relative to the costs' derivatives, and violation of limits,
relative to the controls; polished ones have 1e-9 at most."""


class Covectors(NamedTuple):
    """Derivatives of a loss with respect to the entries of states (N+1, nx), to controls (N, nu) and to the cost."""

    xs: np.ndarray
    us: np.ndarray
    cost: float

    @property
    def finite(self) -> bool:
        """True if all numbers are finite."""
        return bool(np.isfinite(self.xs).all() and np.isfinite(self.us).all() and np.isfinite(self.cost))

    @property
    def nothing(self) -> bool:
        """True if the loss does not depend on the point."""
        return not (self.xs.any() or self.us.any() or self.cost)


@dataclass(frozen=True, eq=False)
class SolvedPoint:
    """Parameters (P,) and the polished solution there, or None and the reason."""

    make_problem: Callable[[np.ndarray], Problem]
    p: np.ndarray
    solution: Solution | None
    reason: str = ""

    def __reduce__(self) -> tuple[Any, ...]:
        return SolvedPoint, (self.make_problem, self.p, self.solution, self.reason)

    @cached_property
    def stationary(self) -> KKTPoint:
        """The KKT point of the solution, for the problem that make_problem made at the first access; ValueError without
        a solution, and where it does not solve that problem."""
        if self.solution is None:
            raise ValueError(self.reason)
        problem = self.make_problem(self.p)
        return stationary_point(transcribed(problem), solution_inside(problem, self.solution))

    @cached_property
    def derivatives(self) -> Sensitivity:
        """Derivatives of the solution; ValueError without one."""
        if self.solution is None:
            raise ValueError(self.reason)
        point, make_problem, solution = self.stationary, self.make_problem, self.solution
        by = transcribed_by(point.problem)
        if by is not None:
            make_problem, solution = Transcribed(make_problem), solution_inside(by.given, solution)
        return sensitivity_at(point, make_problem, self.p, solution)

    def still_solves(self) -> bool:
        """True if the solution solves the problem that make_problem makes now, or there is no solution."""
        if self.solution is None:
            return True
        vars(self).pop("stationary", None)
        try:
            at = self.stationary
        except NO_SOLUTION:
            return False
        free = np.where(at.held.controls == 0, at.gradient, 0.0)
        outside = 0.0
        if at.rows is not None:
            outside = float(np.maximum(at.c - at.rows.upper, at.rows.lower - at.c).max(initial=0.0))
        limits = at.problem.control_limits
        if limits is not None:
            outside = max(outside, float(np.maximum(at.us - limits[1], limits[0] - at.us).max()))
        return bool(
            np.abs(free).max() <= STATIONARY * at.multiplier_scale
            and outside <= STATIONARY * (1.0 + np.abs(at.us).max())
        )

    def vjp(self, bars: Covectors) -> tuple[np.ndarray, str]:
        """d loss / d p (P,), and a warning or "": zero where the loss does not depend on the point, NaN where it does
        and there is no solution."""
        if bars.nothing:
            return np.zeros(self.p.shape), ""
        try:
            if not bars.finite:
                raise ValueError("derivatives of the loss that are not finite")
            xs, us = (bar if bar.any() else None for bar in bars[:2])
            return np.asarray(self.derivatives.vjp(xs, us, bars.cost, ambient=True)), self._active_set_changes
        except NO_SOLUTION as error:
            return np.full(self.p.shape, np.nan), f"no gradient at p = {self.p}: {error}"

    def jvp(self, dp: np.ndarray) -> tuple[tuple[np.ndarray, np.ndarray, float] | None, str]:
        """Changes of the entries of states (N+1, nx), of controls (N, nu) and of the cost with p along dp (P,), and a
        warning or ""; None where there is no solution."""
        try:
            if not np.isfinite(dp).all():
                raise ValueError("a direction that is not finite")
            found = self.derivatives
            point = found.point
            by = transcribed_by(point.problem)
            system, states = (
                (point.problem.system, point.xs) if by is None
                else (by.given.system, by.outside(point.xs, point.us)[0])
            )  # fmt: skip
            xs = numbers_along(system, states, found.xs @ dp)
            return (xs, found.us @ dp, float(found.cost @ dp)), self._active_set_changes
        except NO_SOLUTION as error:
            return None, f"no derivative at p = {self.p}: {error}"

    @property
    def _active_set_changes(self) -> str:
        weak = len(self.derivatives.weak)
        return f"one of several gradients at p = {self.p}, where {weak} limits are just touched" if weak else ""


# ------------------------------------------------------------------------------------------------ solves
@dataclass(frozen=True)
class Solves:
    """Makes, solves and polishes problems; for `solve_many`, with parameters (p, starts), None for no start."""

    make_problem: Callable[[np.ndarray], Problem]
    solver: Any

    def solve(self, task: tuple[np.ndarray, tuple[WarmStart | None, ...]]) -> Solution:
        """The polished solution from the first start that leads to one; ValueError where none does."""
        p, (*first, last) = task
        problem = self.make_problem(p)
        for start in first:
            try:
                return self._polished(problem, self.solver.solve(problem, warm_start=start))
            except NO_SOLUTION:
                pass
        return self._polished(problem, self.solver.solve(problem, warm_start=last))

    def _polished(self, problem: Problem, solution: Solution) -> Solution:
        return replace(polished_solution(problem, solution, SHORT), problem=None)


def itself(task: Any) -> Any:
    """The task itself, in place of make_problem: `Solves` makes problems."""
    return task


def start_single() -> None:
    """Start of a worker process, of which there are as many as processors: dynamics run in one thread."""
    start_worker()
    set_num_threads(1)


# ------------------------------------------------------------------------------------------------ starts of solves
def warm_start_of(given: Any) -> WarmStart | None:
    """The warm start of a `Solution`, a warm start itself, or None; TypeError for anything else."""
    if given is None or isinstance(given, WarmStart):
        return given
    if isinstance(given, Solution):
        return given.warm_start()
    raise TypeError(f"warm_start: got {type(given).__name__}, expected a Solution, a WarmStart or None")


def warm_starts_of(given: Any, count: int | None) -> list[WarmStart | None]:
    """Warm starts for each element of a batch, from one for all or a sequence of as many; count None: for a single p.

    Raises: TypeError as `warm_start_of`, ValueError for a sequence of another length.
    """
    if not isinstance(given, Sequence) or isinstance(given, (WarmStart, str, bytes)):
        return [warm_start_of(given)] * (1 if count is None else count)
    if count is None:
        raise TypeError(f"warm_start: got {len(given)} in a {type(given).__name__}, expected one, as p is no batch")
    if len(given) != count:
        raise ValueError(f"warm_start: got {len(given)}, expected one for each of the {count} problems of the batch")
    return [warm_start_of(each) for each in given]


def content_of(part: Any) -> Any:
    """A warm start, or a part of it, in a form that can be compared and hashed."""
    if isinstance(part, tuple):
        return tuple(content_of(each) for each in part)
    return (part.shape, part.tobytes()) if isinstance(part, np.ndarray) else part


def check_widths(start: WarmStart, nx: int, nu: int) -> None:
    """Raise ValueError for controls and states of another system; only shapes are read."""
    shape = np.shape(start.us)
    if len(shape) != 2 or shape[1] != nu:
        raise ValueError(f"warm_start: us: got shape {shape}, expected (N, {nu})")
    if start.xs is not None and np.shape(start.xs) != (shape[0] + 1, nx):
        raise ValueError(f"warm_start: xs: got shape {np.shape(start.xs)}, expected {(shape[0] + 1, nx)}")


class LayerHost:
    """Solves for a layer, whatever its framework.

    Parameters
    ----------
    make_problem : function of p (P,) that returns a Problem, with P, horizon and sizes the same for all p
    solver : `ILQR`, `DDP`, or an object with their ``solve(problem, warm_start=)``
    workers : processes that share batches, kept as long as the host; None: this process alone
    memory : number of last points that are kept; with 0 each solve begins from its warm start, or without one, so that
        equal p and warm starts have equal results whatever came before
    """

    def __init__(
        self, make_problem: Callable[[Any], Problem], solver: Any, workers: int | None = None, memory: int = 64
    ) -> None:
        if not callable(make_problem):
            raise TypeError(f"make_problem: got {type(make_problem).__name__}, expected a function of p")
        if isinstance(solver, type) or not callable(getattr(solver, "solve", None)):
            raise TypeError(f"solver: got {solver!r}, expected a solver such as trajopt.DDP()")
        self.workers = workers if workers is None else whole_number("workers", workers, 1)
        self.memory = whole_number("memory", memory, 0)
        self._solves = Solves(make_problem, solver)
        self._known: OrderedDict[Any, SolvedPoint] = OrderedDict()
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

    def points(self, ps: np.ndarray, starts: Sequence[WarmStart | None] | None = None) -> list[SolvedPoint]:
        """Points of a batch (B, P), from memory or solved: from the starts, which are part of the key in memory; for
        None from the nearest point of earlier calls, and without a start if that fails.

        Raises: ValueError for starts of another system.
        """
        found = self._points(ps, [None] * len(ps) if starts is None else starts)
        for point in found:
            vars(point).pop("stationary", None)  # large, and make_problem may change before the backward pass
        return found

    def _points(self, ps: np.ndarray, starts: Sequence[WarmStart | None]) -> list[SolvedPoint]:
        """Points of a batch, each with the expansion at which it was found still to be a solution."""
        with self._lock:
            self._check_starts(ps, starts)
            tasks = {self._key(p, start): (p, start) for p, start in zip(ps, starts, strict=True)}
            if not all(self._known[key].still_solves() for key in tasks if key in self._known):
                warn(
                    "make_problem: got another problem for the same p, which reads what is not p and has changed; all "
                    "remembered points are solved again, expected a function of p alone, or clear() after a change"
                )
                self.clear()
            found = {key: self._known[key] for key in tasks if key in self._known}
            new = {key: task for key, task in tasks.items() if key not in found}
            begun = [(p.copy(), self._begins(p) if start is None else (start,)) for p, start in new.values()]
            for key, point in zip(new, self._solved(begun), strict=True):
                found[key] = self._known[key] = point
            while len(self._known) > self.memory:
                self._known.popitem(last=False)
            return [found[self._key(p, start)] for p, start in zip(ps, starts, strict=True)]

    def clear(self) -> None:
        """Forget all points, because data that make_problem reads besides p have changed, or solves are to begin
        without a start."""
        with self._lock:
            self._known.clear()

    def again(self, ps: np.ndarray, starts: Sequence[WarmStart | None] | None = None) -> list[SolvedPoint]:
        """Points that were solved before; with a warning where one is no longer known, as when memory is full."""
        starts = [None] * len(ps) if starts is None else starts
        with self._lock:
            each = zip(ps, starts, strict=True)
            lost = [p for p, start in each if self._key(p, start) not in self._known]
            if lost and 0 < self.memory <= len(self._known):
                warn(
                    f"the point at p = {lost[0]} was forgotten and is solved again, expected more than "
                    f"memory={self.memory}"
                )
            return self._points(ps, starts)

    def numbers(self, points: Sequence[SolvedPoint]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """xs (B, N+1, nx), us (B, N, nu) and cost (B,), NaN where there is no solution.

        Raises: the errors of make_problem, where no problem was ever made.
        """
        sizes = self.sizes(points[0].p)
        assert sizes is not None
        (N, nx, nu), B = sizes, len(points)
        xs, us, cost = (np.full(shape, np.nan) for shape in ((B, N + 1, nx), (B, N, nu), (B,)))
        for i, point in enumerate(points):
            if point.solution is not None:
                xs[i], us[i], cost[i] = point.solution.xs, point.solution.us, point.solution.cost
        return xs, us, cost

    def _solved(self, tasks: list[tuple[np.ndarray, tuple[WarmStart | None, ...]]]) -> Iterable[SolvedPoint]:
        """Solve the tasks here, or in workers, in their order."""
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

    def _point(self, p: np.ndarray, solution: Solution | None, reason: str = "") -> SolvedPoint:
        if solution is None:
            warn(f"no solution at p = {p}: {reason}", RuntimeWarning)
        else:
            self._sizes = len(solution.us), solution.xs.shape[1], solution.us.shape[1]
        return SolvedPoint(self._solves.make_problem, p, solution, reason)

    @staticmethod
    def _key(p: np.ndarray, start: WarmStart | None) -> Any:
        return p.tobytes(), content_of(start)

    def _check_starts(self, ps: np.ndarray, starts: Sequence[WarmStart | None]) -> None:
        given = [start for start in starts if start is not None]
        for p in ps if given else ():
            with suppress(*NO_SOLUTION):
                self.sizes(p)
        if self._sizes is not None:
            for start in given:
                check_widths(start, *self._sizes[1:])

    def _begins(self, p: np.ndarray) -> tuple[WarmStart | None, ...]:
        """Starts of a solve without a given one: the nearest point, if there is one, then none."""
        best, least = None, math.inf
        for point in self._known.values():
            distance = math.inf if point.solution is None else float(np.linalg.norm(point.p - p))
            if distance < least:
                best, least = point.solution, distance
        return (None,) if best is None else (best.warm_start(), None)

    @cached_property
    def _pool(self) -> ProcessPoolExecutor:
        """Pool of spawned processes, kept for the next batch."""
        pool = ProcessPoolExecutor(self.workers, get_context("spawn"), start_single)
        weakref.finalize(self, pool.shutdown, wait=False)
        return pool

    # -------------------------------------------------------------------------------------------- derivatives
    def vjp(self, points: Sequence[SolvedPoint], bars: Sequence[Covectors]) -> np.ndarray:
        """Products (B, P) of covectors with the derivatives at points, see `SolvedPoint.vjp`."""
        return np.stack(self._products(SolvedPoint.vjp, points, bars))

    def jvp(self, points: Sequence[SolvedPoint], dps: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Changes of xs (B, N+1, nx), us (B, N, nu) and cost (B,) as the p of points move along dps (B, P): zero for
        dps of zero, else NaN where there is no solution."""
        xs, us, cost = (np.zeros_like(part) for part in self.numbers(points))
        moving = [i for i, dp in enumerate(dps) if dp.any()]
        products = self._products(SolvedPoint.jvp, [points[i] for i in moving], dps[moving])
        for i, found in zip(moving, products, strict=True):
            xs[i], us[i], cost[i] = (np.nan,) * 3 if found is None else found
        return xs, us, cost

    def _products(self, product: Callable[..., Any], points: Sequence[SolvedPoint], given: Iterable[Any]) -> list[Any]:
        """The products, here or from workers, with each of their warnings."""
        together = map if self.workers is None or len(points) < 2 else self._pool.map
        found = list(together(product, points, given))
        for _, said in found:
            if said:
                warn(said, RuntimeWarning)
        return [one for one, _ in found]


FAILURES = {"ValueError", "LinAlgError", "ArithmeticError", "FloatingPointError", "OverflowError", "ZeroDivisionError"}
"""Names of `NO_SOLUTION` in the errors of outcomes."""
