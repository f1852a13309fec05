"""Arrays and calls that a solve prepares once, for all of its iterates.

    Slots        of a problem: the cost and the gaps of a trajectory, rollouts under gains
      Expanded   an expansion along a trajectory: dynamics, costs, costate, box of the controls
      Swept      a backward pass

What is prepared runs without Python between its kernels: nothing is allocated, and nothing checked again.  Trajectories
and gains are copied to where the calls read them.

Models and directions refer to results as to any other arrays, and nobody says when he is done with them.  A slot is
taken again once nobody refers to its results, as CPython's counts of references tell; so what is kept is never
overwritten.  For that to be all that is counted, calls have arrays of their own over the memory of the results.

A thread keeps the slots of its last problems: a solve takes them, and gives them back at its end, so that solves within
a solve have others.  They serve all problems that differ in numbers alone: initial states, targets, weights, limits.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import cached_property
from sys import getrefcount
from typing import Any, TypeVar

import numpy as np

from dynamics.simd.prepared_calls import PreparedCall
from trajopt.backward.backward_pass import (
    GAPS,
    MU,
    NO_GAPS,
    OUTWARD,
    Box,
    SweepResult,
    box_around,
    result_of,
    sweep_call,
)
from trajopt.backward.expansions import (
    Expansion,
    gaps_of,
    prepared_adjoint,
    prepared_derivatives,
    prepared_gaps,
    settle_idle_controls,
)
from trajopt.capabilities import Expansions, capability
from trajopt.interfaces.stepwise import stands_for
from trajopt.interfaces.system import idle_knots, semi_implicit_form
from trajopt.problem.problem import Problem

Limits = tuple[np.ndarray, np.ndarray]
"""Lower and upper limits (N, nu) of the controls."""
Rollouts = Callable[[], tuple[np.ndarray, np.ndarray]]
"""Prepared rollouts: states (A, N+1, nx) and controls (A, N, nu)."""
T = TypeVar("T", "Expanded", "Swept")


class _Results:
    """Arrays, twice over the same memory: `own` ones for calls, and `given` ones for those who use the results."""

    def __init__(self, *shapes: tuple[int, ...]) -> None:
        self.own = [np.empty(shape) for shape in shapes]  # not zeros, which would be new memory in each solve
        flat = [np.frombuffer(own.data) for own in self.own]  # what given arrays, and views of them, refer to
        self.given = [array.reshape(shape) for array, shape in zip(flat, shapes, strict=True)]
        self._counted, self._alone = [*flat, *self.given], 0

    def settle(self, *tuples: Any) -> None:
        """References that there are now, to the results and to tuples of them that are given, are those of the slot."""
        self._counted += [given for given in tuples if given is not None]
        del tuples
        self._alone = sum(map(getrefcount, self._counted))

    @property
    def free(self) -> bool:
        """True if nobody but the slot refers to them."""
        return sum(map(getrefcount, self._counted)) == self._alone


def _shapes(N: int, n: int, nu: int) -> tuple[tuple[int, ...], ...]:
    """Shapes of the arrays of an `Expansion`."""
    return (N, n, n), (N, n, nu), (N + 1, n), (N, nu), (N + 1, n, n), (N, nu, n), (N, nu, nu)


class Expanded:
    """An expansion along a trajectory: to first order of the dynamics and Gauss-Newton of the costs, or exact.

    Each of its calls is prepared when it is first asked for."""

    def __init__(self, slots: Slots) -> None:
        problem = slots.problem
        self._slots, self._system, N = slots, problem.system, problem.horizon
        n, nu = self._system.ndx, self._system.nu
        self.results = results = _Results(*_shapes(N, n, nu), (N + 1, n), *[(N, nu)] * (2 if slots.limits else 0))
        self.e, self.own_e = Expansion(*results.given[:7]), Expansion(*results.own[:7])
        self._costate, self._gradient, self._lam = results.given[7], np.zeros((N, nu)), np.zeros((N, n))
        self.gradients = np.zeros((N + 1, n)), np.zeros((N, nu))
        """lx and lu for `adjoint`, those of the last expansion, which others may change to the Lagrangian's."""
        self._xs, self._us = np.zeros((N + 1, self._system.nx)), np.zeros((N, nu))
        self.box = self.own_box = None
        if slots.limits is not None:
            box = box_around(self._us, *slots.limits)
            self.box, self.own_box = (
                box._replace(lower=lower, upper=upper) for lower, upper in (results.given[8:], results.own[8:])
            )
        self.swept: list[Swept] = []
        self._idle = idle_knots(self._system)
        lagrangian = self.own_e._replace(lx=self.gradients[0], lu=self.gradients[1])
        self._adjoint = prepared_adjoint(lagrangian, results.own[7], self._gradient)
        self._calls: dict[tuple[bool, bool], tuple[Callable[[], Any], ...]] = {}
        results.settle(self.e, self.box)

    def expand(
        self, xs: np.ndarray, us: np.ndarray, multiplier: np.ndarray | None = None, cost_curvature: bool = False
    ) -> Expansion:
        """Expand dynamics to first order and costs to Gauss-Newton along xs, us; or with the curvature of the dynamics,
        contracted with a multiplier (N, ndx), and if asked for that of the costs."""
        self._xs[...], self._us[...], dynamics = xs, us, self.own_e[:2]
        lx, lu, lxx, lux, luu = costs = self.own_e[2:]
        if multiplier is not None:
            self._lam[...] = multiplier
            dynamics = *dynamics, self._lam, lxx[:-1], lux, luu
        for block in costs if multiplier is None else (lx, lu, lxx[-1]):  # others are overwritten
            block.fill(0.0)
        kind = multiplier is not None, cost_curvature
        if kind not in self._calls:
            curvature, objective = costs if cost_curvature else None, self._slots.objective
            self._calls[kind] = (
                prepared_derivatives(self._system, self._xs, self._us, *dynamics),
                objective.prepared_expansion(self._xs, self._us, costs, curvature),
            )
        for call in self._calls[kind]:
            call()
        self.gradients[0][...], self.gradients[1][...] = lx, lu
        if len(self._idle):
            settle_idle_controls(self.own_e, self._idle)
        return self.e

    def adjoint(self) -> tuple[np.ndarray, np.ndarray]:
        """Costate (N+1, ndx), and the gradient (N, nu), which the next call overwrites, from `gradients`."""
        self._adjoint()
        return self._costate, self._gradient

    def box_around_controls(self) -> Box | None:
        """The box around the controls of the last expansion."""
        if self.box is None or self.own_box is None or self._slots.limits is None:
            return None
        for side, limit in zip(self.own_box[:2], self._slots.limits, strict=True):
            np.subtract(limit, self._us, out=side)
            side *= OUTWARD
        return self.box


class Swept:
    """A backward pass, over the expansion of a slot or over one of its own, to which others are copied."""

    def __init__(self, slots: Slots, of: Expanded | None = None) -> None:
        N, n, nu = slots.problem.horizon, slots.problem.system.ndx, slots.problem.system.nu
        self.results = results = _Results((N, nu), (N, nu, n), (N + 1, n), (N + 1, n, n))
        self._gaps = np.zeros((N + 1, n))
        if of is None:
            self.e = Expansion(*map(np.empty, _shapes(N, n, nu)))
            self._box = None if slots.limits is None else box_around(np.zeros((N, nu)), *slots.limits)
        else:
            self.e, self._box = of.own_e, of.own_box
        self._call = slots.prepared_sweep(tuple(self.e), self._box, tuple(results.own))
        results.settle()

    def hold(self, e: Expansion, gaps: np.ndarray | None, box: Box | None) -> Expansion:
        """Copy an expansion, gaps and the limits of a box; returns the copy of the expansion, which it sweeps."""
        for own, array in zip((*self.e, *(self._box or ())[:2]), (*e, *(box or ())[:2]), strict=True):
            own[...] = array
        self._gaps[...] = 0.0 if gaps is None else gaps
        self._call.set(GAPS, NO_GAPS if gaps is None else self._gaps)
        return self.e

    def sweep(self, mu: float) -> SweepResult:
        """The pass with this mu."""
        self._call.set(MU, mu)
        return result_of(self.results.given, *self._call())


class Slots:
    """All that is prepared for a problem.

    Parameters
    ----------
    problem : Problem
    limits : (lower, upper), (N, nu) each, or None
        Limits that sweeps and rollouts keep.

    Attributes
    ----------
    x0 : (nx,), where calls read the initial state
    """

    def __init__(self, problem: Problem, limits: Limits | None) -> None:
        system, N = problem.system, problem.horizon
        self.problem, self.size = problem, N * (system.ndx + system.nu) ** 2
        self.limits = None if limits is None else (limits[0].copy(), limits[1].copy())
        dt, self.leading = semi_implicit_form(system)
        self.dt = np.full(N, dt, np.float64)
        self._accelerations = bool(capability(system, Expansions).acceleration_control is not None and self.dt.any())
        self.objective = problem.objective.with_own_numbers(np.zeros((N, system.nu)))
        self._numbers_of: Any = problem.objective
        self.x0, self._xs, self._us = problem.x0.copy(), np.zeros((N + 1, system.nx)), np.zeros((N, system.nu))
        self._cost = self.objective.prepared_value(self._xs, self._us)
        self._expanded: list[Expanded] = []
        self._swept: list[Swept] = []  # over copies
        self._rollouts: dict[int, tuple[list[np.ndarray], Rollouts | None]] = {}  # with gaps, and without
        self.kept: dict[str, Any] = {}  # what others prepare for constraints

    def serve(self, problem: Problem, limits: Limits | None) -> bool:
        """Take the numbers of a problem; False for one that differs in more than numbers."""
        mine = self.problem
        if problem.system is not mine.system or problem.horizon != mine.horizon:
            return False
        if (limits is None) != (self.limits is None):
            return False
        if problem.objective is not self._numbers_of:
            before, self._numbers_of = self._numbers_of, None  # of some terms of one, perhaps, and of others of another
            if not self.objective.take_numbers(problem.objective, before, self._us):
                return False
            self._numbers_of = problem.objective
        self.problem = problem
        self.x0[...] = problem.x0
        for own, given in zip(self.limits or (), limits or (), strict=True):
            own[...] = given
        return True

    def expanded(self) -> Expanded:
        """An expansion that is free."""
        return _free(self._expanded, Expanded, self)

    def swept_over(self, e: Expansion, box: Box | None) -> Swept | None:
        """A free backward pass over this expansion and this box; None if they are not those of a slot."""
        for slot in self._expanded:
            if e is slot.e and box is slot.box:
                return _free(slot.swept, Swept, self, slot)
        return None

    def swept(self) -> Swept:
        """A free backward pass over what it is given to hold."""
        return _free(self._swept, Swept, self)

    def prepared_sweep(
        self,
        e: tuple[np.ndarray, ...],
        box: Box | None,
        results: tuple[np.ndarray, ...],
        gaps: np.ndarray | None = None,
    ) -> PreparedCall:
        """A backward pass over these arrays."""
        return PreparedCall(*sweep_call(e, results, 0.0, self.dt, gaps, box, self.leading, self._accelerations))

    def cost(self, xs: np.ndarray, us: np.ndarray) -> float:
        """The cost of a trajectory."""
        self._xs[...], self._us[...] = xs, us
        return self._cost()

    @cached_property
    def _gaps(self) -> Callable[[], np.ndarray]:
        prepared = prepared_gaps(self.problem.system, self.x0, self._xs, self._us)
        return prepared or (lambda: gaps_of(self.problem, self._xs, self._us))

    def gaps(self, xs: np.ndarray, us: np.ndarray) -> np.ndarray:
        """The gaps of a trajectory, which the next call may overwrite."""
        self._xs[...], self._us[...] = xs, us
        return self._gaps()

    def rollouts(
        self, xs: np.ndarray, us: np.ndarray, k: np.ndarray, K: np.ndarray, alphas: np.ndarray, gaps: np.ndarray | None
    ) -> tuple[np.ndarray, np.ndarray] | None:
        """Candidates of these step lengths, always the same ones, under these gains: states (A, N+1, nx) and controls
        (A, N, nu), which the next call overwrites; None where the system cannot prepare that."""
        given = (xs, us, k, K) if gaps is None else (xs, us, k, K, gaps)
        if len(given) not in self._rollouts:
            own = [np.zeros(array.shape) for array in given]
            self._rollouts[len(given)] = own, self.prepared_rollouts(alphas, *own)
        arrays, call = self._rollouts[len(given)]
        if call is None:
            return None
        for own, array in zip(arrays, given, strict=True):
            own[...] = array
        return call()

    def prepared_rollouts(
        self, alphas: np.ndarray, xs: np.ndarray, us: np.ndarray, k: np.ndarray, K: np.ndarray, gaps: Any = None
    ) -> Rollouts | None:
        """`rollouts` with arrays that stay."""
        system, (lower, upper) = self.problem.system, self.limits or (None, None)
        prepare = capability(system, Expansions).prepared_rollouts
        if prepare is None or not stands_for(type(system), "prepared_rollouts", "closed_loop_rollout"):
            return None
        return prepare(self.x0, xs, us, k, K, alphas, gaps, lower, upper)


def _free(slots: list[T], make: Callable[..., T], *arguments: Any) -> T:
    """A slot of a list that is free, or a new one."""
    for slot in slots:
        if slot.results.free:
            return slot
    slots.append(slot := make(*arguments))
    return slot


MOST_KEPT, LARGEST_KEPT = 16, 300_000
"""Number of problems whose slots are kept, and the largest number of entries of the Hessians of an expansion of all of
them together, some tens of megabytes; what is larger takes longer to compute than to prepare."""


class _Kept(threading.local):
    """Slots of this thread that no solve uses, those used last in front."""

    def __init__(self) -> None:
        self.slots: list[Slots] = []


_kept = _Kept()


def take_slots(problem: Problem, limits: Limits | None) -> Slots:
    """Slots that serve this problem, those of an earlier solve or new ones."""
    for i, slots in enumerate(_kept.slots):
        if slots.serve(problem, limits):
            return _kept.slots.pop(i)
    return Slots(problem, limits)


def give_back(slots: Slots) -> None:
    """Keep slots for the next solves of this thread."""
    _kept.slots.insert(0, slots)
    while len(_kept.slots) > MOST_KEPT or sum(each.size for each in _kept.slots) > LARGEST_KEPT:
        del _kept.slots[-1]
