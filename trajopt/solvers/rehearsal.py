"""Solves go other ways where the usual one ends: rehearsed, so that none of them compiles or loads a kernel later.

    starts          rollouts of controls, with and without gains; states with gaps
    iterations      in Python and compiled, without curvature and with it
    constraints     a barrier, searches for feasibility, the second solve, whose limits of controls are rows
    ends            a look for saddles; which number is not finite

All of that begins at a plan and takes a few steps of the solver's own loop, from states made up for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace

import numpy as np

from dynamics.simd.threads import in_this_thread_alone
from trajopt.backward.regularization import LONGEST, PATIENCE
from trajopt.problem.problem import Problem
from trajopt.results.records import Status
from trajopt.rows import Rows
from trajopt.solvers.constrained import KINKED, AugmentedLagrangian
from trajopt.solvers.ddp import Loop
from trajopt.solvers.formulation import Curvature, Formulation, Iterate
from trajopt.solvers.iteration import TRIES, State
from trajopt.solvers.options import LoopOptions
from trajopt.solvers.program import MADE, program_of
from trajopt.solvers.real_time import RealTimeIteration
from trajopt.solvers.solve import (
    constraints_of,
    of_curvature,
    of_derivatives,
    of_trajectory,
    past_saddles,
    takes_accelerations,
    transcribe,
)
from trajopt.solvers.start import rolled_out


@contextmanager
def tried() -> Iterator[None]:
    """What fails here, fails in the solve that needs it."""
    with suppress(Exception), np.errstate(all="ignore"):
        yield


def rehearse(problem: Problem, options: LoopOptions, curvature: Curvature, xs: np.ndarray, us: np.ndarray) -> None:
    """Compile, load and prepare what solves of a problem may call, from a plan xs (N+1, nx), us (N, nu) on; nothing of
    it is kept but what is prepared.

    The problem is the one that is solved, without a free initial state."""
    several = options.max_iterations > 1
    second = replace(options, control_limits="augmented_lagrangian")
    boxed = options.control_limits == "box" and problem.control_limits is not None
    others = several and boxed and not takes_accelerations(problem.system)
    for own in (options, second) if others else (options,):
        formulation = transcribe(problem, own, curvature)
        rows = formulation.rows
        for start in _starts(formulation, xs, us):
            with tried():
                if rows is not None and options.soft_penalty == 0.0:
                    formulation.rows = rows.scaled_at(start.xs, start.us, problem.system.linearize)
                for part in _parts(formulation, own, start):
                    with tried():
                        part()
            formulation.rows = rows
        formulation.close()


def _starts(formulation: Formulation, xs: np.ndarray, us: np.ndarray) -> list[Iterate]:
    """The plan as a trajectory without gaps, and one with gaps; a rollout is made, too."""
    found, system, (N, nu) = [], formulation.problem.system, us.shape
    with tried():
        formulation.start(us, None)
    with tried():
        found.append(formulation.start(us, xs)._replace(gaps=None))
        found.append(formulation.start(us, system.integrate(xs, np.full((N + 1, system.ndx), 1e-3))))  # any gap does
        rolled_out(formulation, found[-1], np.zeros((N, nu, system.ndx)))
    return [start for start in found if np.isfinite(start.cost)]


def _parts(formulation: Formulation, options: LoopOptions, start: Iterate) -> list[Callable[[], object]]:
    """Ways to go on from a start."""
    rows, problem, xs, us = formulation.rows, formulation.problem, start.xs, start.us
    few = replace(options, max_iterations=TRIES)
    loop = Loop(formulation, few, constraints_of(formulation, few, None))

    def step(predicted: float, loop: Loop = loop) -> State:
        return loop.step(loop.begin(start, predicted))

    def programs() -> None:
        formulation.kept[MADE], state = LONGEST, loop.begin(start)
        program_of(loop.constraints, state)
        with in_this_thread_alone():
            program_of(loop.constraints, state)

    def saddles() -> object:
        end = step(np.inf)._replace(status=Status.CONVERGED)
        return past_saddles(loop, end._replace(regularization=end.regularization.increased()), None)

    def barrier() -> object:
        state = loop.begin(start)
        assert state.multipliers is not None
        return loop.step(state._replace(multipliers=state.multipliers._replace(waits=KINKED)))

    def feasibility() -> object:
        assert rows is not None
        formulation.rows = _violated(rows, rows.values(xs, us))
        other = replace(loop, constraints=constraints_of(formulation, few, None))
        state = other.begin(start)
        assert state.feasibility is not None
        late = state.feasibility._replace(tried=state.tried - PATIENCE, violation=0.0)
        return other.step(state._replace(feasibility=late))

    def not_finite() -> object:
        of_trajectory(problem, rows, xs, us)
        of_curvature(problem, rows, xs, us)
        return of_derivatives(problem, rows, loop.begin(start).model.expansion, xs, us)

    parts = [lambda: step(np.inf), lambda: step(0.0), not_finite]
    if options.max_iterations == 1:
        single = RealTimeIteration(formulation, options, constraints_of(formulation, options, None), warm=True)
        return [*parts, lambda: step(np.inf, single), lambda: step(0.0, single)]
    parts += [programs, saddles]
    return [*parts, barrier, feasibility] if isinstance(loop.constraints, AugmentedLagrangian) else parts


def _violated(rows: Rows, c: np.ndarray) -> Rows:
    """The rows with limits that their values c (R,) are beyond."""
    away = 1.0 + np.abs(c)
    up = np.isfinite(rows.lower)
    lower = np.where(up, np.maximum(rows.lower, c + away), rows.lower)
    upper = np.where(up, np.maximum(rows.upper, lower), np.minimum(rows.upper, c - away))
    return replace(rows, lower=lower, upper=np.where(rows.lower == rows.upper, lower, upper))
