"""Arrays that the iterates of a solve take in turn, and the calls upon them, prepared once.

    Slots           of a problem
      Trajectory    xs, us, and their cost
        Expanded    an expansion there: dynamics, costs, costate, box of the controls
          Swept     a backward pass over it: gains, value function, and the rollouts with these gains

What is prepared runs without Python between its kernels: nothing is allocated, and nothing checked again.

Iterates, models and sweeps refer to these arrays as to any others, and nobody says when he is done with them.  A slot
is taken again once nothing but itself refers to its arrays, as CPython's counts of references tell.  So what a caller
keeps is never overwritten: another slot is made, at the price of its preparation.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from functools import partial
from itertools import accumulate
from sys import getrefcount
from typing import Any, TypeVar

import numpy as np

from trajopt.backward.backward_pass import SweepResult, SweepWindow
from trajopt.backward.box_qp import OUTWARD, Box, box_around
from trajopt.backward.expansions import Expansion, prepared_adjoint, prepared_derivatives, settle_idle_controls
from trajopt.capabilities import Expansions, capability
from trajopt.interfaces.system import idle_knots
from trajopt.problem.objective import Blocks
from trajopt.problem.problem import Problem

Rollouts = Callable[[], tuple[np.ndarray, np.ndarray]]
"""States (A, N+1, nx) and controls (A, N, nu) of candidates, views of arrays that the next call overwrites."""
T = TypeVar("T")
S = TypeVar("S", bound="_Slot")


class _Slot:
    """Arrays that are free where no more references to them exist than the slot and those inside it have."""

    def __init__(self, around: _Slot | None = None) -> None:
        self._around, self._watched, self._own = around, [], []

    def _references(self) -> list[int]:
        return [getrefcount(array) for array in self._watched]

    @property
    def free(self) -> bool:
        """True if nothing but the slot refers to its arrays."""
        return self._references() == self._own

    def _taken(self, slots: list[S], kind: type[S]) -> S:
        """One of these slots that is free, or a new one inside this one."""
        for slot in slots:
            if slot.free:
                return slot
        slots.append(slot := self._made(lambda: kind(self)))
        slot._watch()
        return slot

    def _watch(self, *arrays: np.ndarray) -> None:
        """Count the references to arrays that it has, and to more of them."""
        self._watched += arrays
        del arrays
        self._own = self._references()

    def _made(self, make: Callable[[], T]) -> T:
        """What `make` returns, whose references to arrays of this slot, and of those around it, are its own."""
        outer, at = [], self
        while at is not None:
            outer.append((at, at._references()))
            at = at._around
        made = make()
        for at, before in outer:
            at._own = [own + now - was for own, now, was in zip(at._own, at._references(), before, strict=True)]
        return made


class Swept(_Slot):
    """A backward pass over an expansion; none of its arrays is new in a call."""

    def __init__(self, expanded: Expanded) -> None:
        super().__init__(expanded)
        at = expanded.trajectory
        slots, box = at.slots, expanded.box()
        window = SweepWindow(tuple(expanded.expansion()), 0.0, slots.dt, None, box, slots.leading)
        self._sweep, self.trajectory, self._rollouts = window.prepared(), at, None
        self.k, self.K, *values = window.arrays
        self._watched = [self.k, self.K, *values]

    def is_of(self, xs: np.ndarray, us: np.ndarray, sweep: SweepResult) -> bool:
        """True if these are its gains, and its trajectory."""
        at = self.trajectory
        return at.xs is xs and at.us is us and self.k is sweep.k and self.K is sweep.K

    def sweep(self, mu: float) -> SweepResult:
        """The pass with this mu."""
        return self._sweep(mu)

    def rollouts(self, alphas: np.ndarray) -> Rollouts | None:
        """Rollouts with its gains, always of the same step lengths; None where the system cannot prepare them."""
        if self._rollouts is None:
            slots, at = self.trajectory.slots, self.trajectory
            prepare = capability(slots.problem.system, Expansions).prepared_rollouts
            given = slots.problem.x0, at.xs, at.us, self.k, self.K, alphas, *(slots.limits or ())
            self._rollouts = (None if prepare is None else self._made(lambda: prepare(*given)),)
        return self._rollouts[0]


def _memory_and_blocks(N: int, ndx: int, nu: int) -> list[np.ndarray]:
    """Memory of lx, lu, lxx, lux and luu, and these blocks of it."""
    shapes = (N + 1, ndx), (N, nu), (N + 1, ndx, ndx), (N, nu, ndx), (N, nu, nu)
    ends = list(accumulate(map(math.prod, shapes), initial=0))
    memory = np.zeros(ends[-1])
    parts = zip(ends[:-1], ends[1:], shapes, strict=True)
    return [memory, *[memory[a:b].reshape(shape) for a, b, shape in parts]]


class Expanded(_Slot):
    """An expansion along a trajectory: to first order of the dynamics and Gauss-Newton of the costs, or exact.

    Each of its calls is prepared when it is first asked for."""

    def __init__(self, trajectory: Trajectory) -> None:
        super().__init__(trajectory)
        self.trajectory, self._problem = trajectory, trajectory.slots.problem
        (N, nu), n = trajectory.us.shape, self._problem.system.ndx
        self._memory, *self._blocks = _memory_and_blocks(N, n, nu)
        self._dynamics = [np.zeros((N, n, n)), np.zeros((N, n, nu))]
        self._costate, self._gradient, self._lam = np.zeros((N + 1, n)), np.zeros((N, nu)), np.zeros((N, n))
        limits = trajectory.slots.limits
        self._box = [] if limits is None else [*box_around(trajectory.us, *limits)]
        self._idle = idle_knots(self._problem.system)
        self._adjoint = prepared_adjoint(self.expansion(), self._costate, self._gradient)
        self._left_out: list[np.ndarray] = []
        self._calls: dict[str, Callable[[], Any]] = {}
        self._swept: list[Swept] = []
        self._watched = [self._memory, *self._blocks, *self._dynamics, self._costate, *self._box]

    def expansion(self) -> Expansion:
        """Its arrays."""
        return Expansion(*self._dynamics, *self._blocks)

    def box(self) -> Box | None:
        """The box of the controls, None without limits."""
        return Box(*self._box) if self._box else None

    def _call(self, name: str, prepare: Callable[..., Callable[[], Any]], *arguments: Any) -> None:
        """Make the call of this name, which is prepared with these arguments."""
        if name not in self._calls:
            self._calls[name] = self._made(lambda: prepare(self.trajectory.xs, self.trajectory.us, *arguments))
        self._calls[name]()

    def expand(self, with_curvature: bool) -> tuple[Expansion, Blocks | None]:
        """Expand the trajectory as it is now, dynamics to first order and costs to Gauss-Newton, and what the latter
        leave out, None if that is not asked for."""
        system, objective = self._problem.system, self._problem.objective
        with np.errstate(all="ignore"):
            self._call("first", partial(prepared_derivatives, system), *self._dynamics)
        self._memory.fill(0.0)
        left_out = None
        if with_curvature:
            if not self._left_out:
                self._left_out = _memory_and_blocks(*self.trajectory.us.shape[:1], system.ndx, system.nu)
                self._watch(*self._left_out)
            self._left_out[0].fill(0.0)
            left_out = tuple(self._left_out[1:])
        self._call(
            "costs" if left_out is None else "costs and curvature", objective.prepared_expansion, self._blocks, left_out
        )
        return self._settled(), left_out

    def expand_exactly(self, multiplier: np.ndarray, cost_curvature: bool) -> Expansion:
        """Expand it with the curvature of the dynamics, contracted with multiplier (N, ndx), and if asked for that of
        the costs."""
        (lx, lu, lxx, lux, luu), objective = self._blocks, self._problem.objective
        self._lam[...] = multiplier
        for block in (lx, lu, lxx[-1]):
            block.fill(0.0)
        exact = partial(prepared_derivatives, self._problem.system)
        with np.errstate(all="ignore"):
            self._call("exact", exact, *self._dynamics, self._lam, lxx[:-1], lux, luu)
        bent = self._blocks if cost_curvature else None
        self._call("costs" if bent is None else "exact costs", objective.prepared_expansion, self._blocks, bent)
        return self._settled()

    def _settled(self) -> Expansion:
        e = self.expansion()
        settle_idle_controls(e, self._idle)
        return e

    def adjoint(self) -> tuple[np.ndarray, np.ndarray]:
        """Costate (N+1, ndx), and the gradient (N, nu), which the next call overwrites."""
        self._adjoint()
        return self._costate, self._gradient

    def box_around_controls(self) -> Box | None:
        """The box around the controls as they are now, from which a sweep starts anew."""
        if not self._box:
            return None
        assert self.trajectory.slots.limits is not None
        for side, limit in zip(self._box, self.trajectory.slots.limits, strict=False):
            np.subtract(limit, self.trajectory.us, out=side)
            side *= OUTWARD
        self._box[2].fill(0.0)
        self._box[3].fill(False)
        return self.box()

    def is_of(self, e: Expansion, box: Box | None) -> bool:
        """True if these are its arrays."""
        mine = (*self._dynamics, *self._blocks, *self._box[:2])
        return all(a is b for a, b in zip(mine, (*e, *(box or ())[:2]), strict=False)) and bool(self._box) == bool(box)

    def swept(self) -> Swept:
        """A backward pass that is free."""
        return self._taken(self._swept, Swept)


class Trajectory(_Slot):
    """States and controls, and their cost."""

    def __init__(self, slots: Slots) -> None:
        super().__init__(slots)
        problem = slots.problem
        self.slots, system, N = slots, problem.system, problem.horizon
        self.xs, self.us = np.zeros((N + 1, system.nx)), np.zeros((N, system.nu))
        self.cost = problem.objective.prepared_value(self.xs, self.us)
        self._expanded: list[Expanded] = []
        self._watched = [self.xs, self.us]

    def expanded(self) -> Expanded:
        """An expansion that is free."""
        return self._taken(self._expanded, Expanded)


class Slots(_Slot):
    """All slots of a problem, of one thread.

    Parameters
    ----------
    problem : Problem
    limits : (lower, upper), (N, nu) each, or None
        Limits that sweeps and rollouts keep.
    dt, leading : as `semi_implicit_dt` and `leading` of `trajopt.backward.backward_pass.sweep`
    """

    def __init__(
        self, problem: Problem, limits: tuple[np.ndarray, np.ndarray] | None, dt: np.ndarray, leading: int
    ) -> None:
        super().__init__()
        self.problem, self.dt, self.leading = problem, dt, leading
        self.limits = None if limits is None else (limits[0].copy(), limits[1].copy())
        self._trajectories: list[Trajectory] = []

    def serve(self, problem: Problem, limits: tuple[np.ndarray, np.ndarray] | None, dt: np.ndarray) -> bool:
        """True for a problem whose system, costs, initial state and limits are the same."""
        mine = self.problem
        if problem.system is not mine.system or problem.objective is not mine.objective:
            return False
        if problem.horizon != mine.horizon or (limits is None) != (self.limits is None):
            return False
        pairs = ((problem.x0, mine.x0), (dt, self.dt), *zip(limits or (), self.limits or (), strict=True))
        return all(np.array_equal(given, known) for given, known in pairs)

    def let_go(self) -> None:
        """Leave the trajectories that others still refer to to them."""
        self._trajectories = [slot for slot in self._trajectories if slot.free]

    def trajectory(self) -> Trajectory:
        """A trajectory that is free."""
        return self._taken(self._trajectories, Trajectory)

    def of(self, xs: np.ndarray, us: np.ndarray) -> Trajectory | None:
        """The slot with these arrays, if there is one."""
        for slot in self._trajectories:
            if slot.xs is xs and slot.us is us:
                return slot
        return None


# --------------------------------------------------------------------------------------------
# Slots that a thread keeps for its next solves of the same system and costs.

MOST_KEPT, LARGEST_KEPT = 4, 100_000
"""Number of problems whose slots are kept, and the largest number of entries of the Hessians of an expansion, some
megabytes in all; what is larger takes longer to compute than to prepare."""


class _Kept(threading.local):
    """Slots of this thread, those used last in front."""

    def __init__(self) -> None:
        self.slots: list[Slots] = []


_kept = _Kept()


def kept_slots(problem: Problem, limits: tuple[np.ndarray, np.ndarray] | None, dt: np.ndarray) -> Slots | None:
    """The slots of an earlier solve, if they serve this problem."""
    for i, slots in enumerate(_kept.slots):
        if slots.serve(problem, limits, dt):
            _kept.slots.insert(0, _kept.slots.pop(i))
            slots.let_go()
            return slots
    return None


def new_slots(problem: Problem, limits: tuple[np.ndarray, np.ndarray] | None, dt: np.ndarray, leading: int) -> Slots:
    """Slots for a problem, which the thread keeps."""
    slots = Slots(problem, limits, dt, leading)
    if problem.horizon * (problem.system.ndx + problem.system.nu) ** 2 <= LARGEST_KEPT:
        _kept.slots.insert(0, slots)
        del _kept.slots[MOST_KEPT:]
    return slots
