"""Solves of a problem as a C library, for programs without Python; see `trajopt.solvers.prepared`.

The calls of a problem are those of `trajopt.solvers.program`, with a start and an end for which no Python is needed
(`trajopt.solvers.alone`).  Where calls read a target, a weight or a limit is not declared anywhere: the calls are
prepared again for a problem with other values, and the numbers that differ are those values times constant factors.
"""

from __future__ import annotations

import os
import re
from dataclasses import replace
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from dynamics.simd.c_library import write_library
from dynamics.simd.prepared_calls import PreparedCall, PreparedCalls, calls_of
from dynamics.simd.threads import in_this_thread_alone
from trajopt.backward.expansions import prepared_derivatives, prepared_gaps
from trajopt.backward.slots import Slots
from trajopt.costs.state_cost import StateCost
from trajopt.interfaces.stepwise import prepared_difference
from trajopt.problem.objective import Objective, zero_blocks
from trajopt.problem.parametric import LIMITS, Key, ParameterTerm, owner, places, with_values
from trajopt.problem.problem import Problem
from trajopt.problem.transcription import transcription_of
from trajopt.rows import Rows, pack
from trajopt.solvers.alone import CONTROLS, START, STATES, begin, go_on, put_numbers, step, take_first
from trajopt.solvers.ddp import Loop
from trajopt.solvers.formulation import ALPHAS, NOTHING, Curvature, Formulation
from trajopt.solvers.iteration import State, Unconstrained
from trajopt.solvers.options import LoopOptions
from trajopt.solvers.program import NEVER, NoPieces, Program
from trajopt.solvers.solve import constraints_of, transcribe

SAME = 1e-13
"""Relative difference of numbers that are the same one times the same factor."""


class AloneProgram(Program):
    """A program with a start and an end for which no Python is needed.

    Attributes
    ----------
    x0, k, K : the initial state, and the gains of the last direction, where programs read and write them
    starts : array of `trajopt.solvers.alone.START`
    begin, step, go_on : prepared calls
    """

    def __init__(self, slots: Slots, curvature: Curvature, rows: Rows | None, closing: bool) -> None:
        super().__init__(slots, curvature, rows, closing)
        problem, (N, n, nu) = slots.problem, self.fu.shape
        self.x0, self.starts = slots.x0, np.zeros(1, START)
        flat = np.zeros(N * nu * (1 + n))
        self.k, self.K = flat[: N * nu].reshape(N, nu), flat[N * nu :].reshape(N, nu, n)
        rollouts = slots.prepared_rollouts(ALPHAS, self.xs, self.us, np.zeros((N, nu)), self.K)
        start, gaps = self.starts, self.gaps
        start["rollouts"] = self._calls(rollouts).address
        assert rollouts is not None
        take = self._taken(rollouts())
        start["take"], start["iterate"] = take.address, self._iterate.address
        start["code_at"] = self._iterate.result_address
        if closing:
            found = prepared_gaps(problem.system, slots.x0, self.xs, self.us)
            if prepared_difference(problem.system, self.xs, self.xs, gaps) is None:
                raise NoPieces
            start["gaps"] = self._calls(found).address
            assert found is not None
            gaps = found()
        first = [PreparedCall(take_first, results[0].base, flat) for results in self._results]
        gains = np.array([call.address for call in first], np.int64)
        points = (self.xs, self.us), (self._new_xs, self._new_us), self._of_limits
        own = self.rows
        none = np.zeros(0)
        of_rows = (none,) * 4 if own is None else (own.c, *own.limits, own.dual)
        self.begin = PreparedCall(begin, self.state, start, self.x0, *points, gaps, self.gaps, self.K, *of_rows)
        self.step = PreparedCall(step, self.state, start, gains)
        self.go_on = PreparedCall(go_on, self.state, start, gains)
        self._kept += [take, self._iterate, *first]

    @property
    def calls(self) -> list[PreparedCall]:
        """All calls that are made, those that others make by their addresses too."""
        kept = [call for call in self._kept if isinstance(call, PreparedCall)]
        return list(dict.fromkeys([self.begin, self.step, self.go_on, *kept]))


# ------------------------------------------------------------------------------------------------ the program
class _Making(NamedTuple):
    """How programs of problems that differ in values are made: options and curvature; whether states are to start from;
    the rows of the first problem, whose factors all have."""

    options: LoopOptions
    curvature: Curvature
    closing: bool
    rows: Rows | None

    def program(self, problem: Problem) -> AloneProgram:
        """A program in arrays of its own."""
        formulation = transcribe(problem, self.options, self.curvature)
        rows, limits = formulation.rows, formulation.limits
        formulation.close()
        if rows is not None and self.rows is not None:
            rows = rows.with_factors(self.rows.factors)
            rows = replace(rows, rounding=self.rows.rounding, large=self.rows.large)
        return AloneProgram(Slots(problem, limits), self.curvature, rows, self.closing)


def _begun(problem: Problem, options: LoopOptions, curvature: Curvature) -> tuple[Unconstrained, State]:
    """What an iteration does for the problem's constraints, and the state of a solve at its start."""
    formulation = transcribe(problem, options, curvature)
    if type(formulation) is not Formulation:
        raise ValueError("export: got a formulation by inverse dynamics, expected one whose controls are forces")
    iterate = formulation.start(problem.us_init, problem.xs_init)
    rows = formulation.rows
    if rows is not None:
        formulation.rows = rows.scaled_at(iterate.xs, iterate.us, problem.system.linearize)
    if not np.isfinite(iterate.cost) or (rows is not None and not np.isfinite(rows.values(*iterate[:2])).all()):
        raise ValueError("export: the cost or a constraint is not finite at the first trajectory, expected finite ones")
    constraints = constraints_of(formulation, options, None)
    return constraints, Loop(formulation, options, constraints).begin(iterate)
