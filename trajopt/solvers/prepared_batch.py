"""Many solves of one prepared problem from other initial states and with other numbers, in threads of this process.

    in each thread   calls of the problem, prepared once in arrays of its own
    for each solve   numbers and initial state into these arrays
                     a rollout of the first controls, the start, the first model and all iterations: one call of
                     compiled code (`solve_from`)
                     functions of a user compared with their traces, at the trajectory that was found
                     the result into the arrays of all

The steps are those of `trajopt.solvers.solve`, bit for bit.  An iteration that compiled code leaves to Python is made
by the loop in Python, on the arrays of the thread, and what follows again by compiled code; so is the look for a saddle
where a solve ends.  The solver itself makes a whole solve, in the same thread, of a problem

    without a program (`trajopt.solvers.program`)
    with functions of a user that are not what was traced, after which calls are prepared anew
    with constraints other than limits of controls, with states to start from, or free initial states and parameters
    whose start is not finite, or whose costs are so large or small that mu has a unit
    that ends neither in convergence nor at the limit of iterations
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from threading import Thread
from typing import Any, NamedTuple, cast

import numpy as np

from dynamics.progress import counted
from dynamics.simd import by_address, decision
from dynamics.simd.array_loops import copy, repeat
from dynamics.simd.prepared_calls import PreparedCall, calls_of, checks_of, enter, float_at
from dynamics.simd.threads import Share, in_this_thread_alone
from dynamics.validation import as_array, has_mask
from trajopt.backward.regularization import ATTEMPTS, ORDINARY, Regularization
from trajopt.backward.slots import Limits, Slots
from trajopt.capabilities import Expansions, capability
from trajopt.interfaces.stepwise import stands_for
from trajopt.interfaces.system import System
from trajopt.problem.constraints import ControlBounds
from trajopt.problem.extended_system import innermost
from trajopt.problem.objective import all_finite
from trajopt.problem.problem import Problem
from trajopt.problem.transcription import transcription_of
from trajopt.results.batch_solution import BatchSolution
from trajopt.results.records import IterationRecord, Status
from trajopt.results.solution import Solution
from trajopt.solvers.compiled import ASK, iterated, record_type, reset
from trajopt.solvers.ddp import Loop
from trajopt.solvers.formulation import EXACT, GAUSS_NEWTON, Curvature, Formulation
from trajopt.solvers.iteration import ENDS, GO_ON, Stall, State, Unconstrained
from trajopt.solvers.line_search import WORSE
from trajopt.solvers.options import LoopOptions
from trajopt.solvers.program import KINDS, NoPieces, Program, key_of
from trajopt.solvers.solve import past_saddles, takes_accelerations, transcribe

NO_START = ~ASK
"""Code of a solve whose start is left to Python."""
STEP = IterationRecord(0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0, GAUSS_NEWTON, 0.0, 0.0, 0.0)
"""In the place of the record of a step, of which nothing is asked but that there was one."""
RUN = record_type("first_mu", "roll_out open look usual")
"""The first mu, and calls: of what comes before the start, of the start, of the unit of mu there and whether that is 1.
"""


# ------------------------------------------------------------------------------------------------ a solve
@by_address
def _look(runs, fu, lxx, luu):
    """Write whether the unit of mu is 1 for certain (`trajopt.backward.regularization.curvature_scale`)."""
    largest = 0.0
    for t in range(fu.shape[0]):
        for i in range(fu.shape[2]):
            total = luu[t, i, i]
            for j in range(fu.shape[1]):
                for k in range(fu.shape[1]):
                    total += fu[t, j, i] * lxx[t + 1, j, k] * fu[t, k, i]
            if not abs(total) <= 0.5 * ORDINARY[1]:
                largest = np.inf
            largest = max(largest, abs(total))
    runs[0].usual = largest == 0.0 or 2.0 * ORDINARY[0] <= largest < np.inf


@decision
def run(s, r, cost, stop):
    """Iterate from a start of this cost until there is an end; its code, GO_ON if the solve was stopped, or ASK."""
    s.predicted = np.inf
    reset(s, r.first_mu, 1.0, cost)
    enter(r.look)
    if r.usual == 0:
        return NO_START
    code = GO_ON
    while code == GO_ON and stop[0] == 0:
        code = iterated(s)
    return code


@by_address
def solve_from(state, gapped, runs, gapped_runs, gaps, held, stop):
    """Solve from a rollout of the first controls, or from the initial state held at every knot
    (`trajopt.solvers.start`): the code of the end, GO_ON if the solve was stopped, or ASK; and whether the initial
    state was held is written."""
    s, g, r, h = state[0], gapped[0], runs[0], gapped_runs[0]
    s.lane = 0
    enter(r.roll_out)
    enter(s.value)
    enter(g.value)
    cost, cost_held = float_at(s.value_at), float_at(g.value_at)
    known = abs(cost) < np.inf
    held[0] = 0
    if abs(cost_held) < np.inf and (not known or 0.0 < WORSE * cost_held < cost):
        enter(h.open)
        if all_finite(gaps):
            held[0] = 1
            return NO_START if g.closed != 0 else run(g, h, cost_held, stop)
    if not known:
        return NO_START
    enter(r.open)
    s.closed, s.total_gap, s.largest_gap = 1, 0.0, 0.0
    return run(s, r, cost, stop)


class Arena:
    """All that a thread needs to solve a problem again and again: its calls, prepared over arrays of its own.

    Attributes
    ----------
    current : False once a function of the user is not what was traced

    Raises
    ------
    NoPieces
        If some part of the problem is Python.
    """

    current = True

    def __init__(self, problem: Problem, limits: Limits | None, options: LoopOptions, curvature: Curvature) -> None:
        self.options, self.stop = options, np.zeros(1, np.int64)
        self.slots = slots = Slots(problem, limits)
        compared = self._compared()  # before the programs, so that a function that is traced anew now is noticed
        self.by_rollout, self.by_holding = (Program(slots, curvature, None, closing) for closing in (False, True))
        for program, closing in (self.by_rollout, False), (self.by_holding, True):
            slots.kept[key_of(curvature, closing)] = None, program  # for the loop in Python
        self._checked = [int(program.state["checked"][0]) for program in (self.by_rollout, self.by_holding)]
        self._held, self._kept = np.zeros(1, np.int64), []
        if any(self._checked) and not compared:
            raise NoPieces
        self._traced = self.by_rollout.calls(*compared)
        gapped = self.by_holding
        gaps, opened = gapped.prepared_gaps()
        runs = self._run(self.by_rollout, options, curvature), self._run(gapped, options, curvature, opened)
        runs[0]["roll_out"] = self._first_calls(problem.system).address
        states = self.by_rollout.state, gapped.state
        self._call = PreparedCall(solve_from, *states, *runs, gaps, self._held, self.stop)

    def _compared(self) -> list[Callable[[], Any]]:
        """Calls at a trajectory after which functions of the user can be compared with their traces; none where there
        are no such functions, or where the system or the costs have no prepared calls."""
        problem, N = self.slots.problem, self.slots.problem.horizon
        self._end = xs, us = np.zeros((N + 1, problem.system.nx)), np.zeros((N, problem.system.nu))
        steps = capability(problem.system, Expansions).prepared_steps
        made = None if steps is None else steps(xs[:N], us, np.zeros((N, problem.system.nx)))
        parts = made, self.slots.objective.prepared_value(xs, us)
        compared = [each for each in parts if each is not None and calls_of(each) is not None]
        calls = [each for each in compared if checks_of(each)] if len(compared) == len(parts) else []
        self._checks = [check for each in calls for check in checks_of(each)]
        return calls

    def _first_calls(self, system: System) -> PreparedCall:
        """The call that writes the starts of both programs, from the first controls: their rollout, if there is a
        prepared one of the same bits, and the initial state."""
        (_, us), (held, held_us), x0 = self.by_rollout.candidate, self.by_holding.candidate, self.slots.x0
        self._us, N, calls = np.zeros(us.shape), len(us), []
        prepare, longer = capability(system, Expansions).prepared_rollouts, innermost(system) is not system
        if not longer and prepare is not None and stands_for(type(system), "prepared_rollouts", "rollout"):
            gains = np.zeros(us.shape), np.zeros((N, system.nu, system.ndx))
            rollout = prepare(x0, held, self._us, *gains, np.zeros(1))
            if rollout is not None and calls_of(rollout) is not None:
                held[...] = x0
                calls = [rollout, self.by_rollout.taken(rollout())]
        self._rolls = len(calls) > 0
        copies = [PreparedCall(copy, self._us, to) for to in (us, held_us)]
        return self.by_rollout.calls(PreparedCall(repeat, x0, held), *calls, *copies)

    def _run(self, program: Program, options: LoopOptions, curvature: Curvature, *opened: Any) -> np.ndarray:
        """The record of a program, whose start lies where candidates do."""
        record, (xs, us), (_, _, lxx, _, luu) = np.zeros(1, RUN), program.candidate, program.model
        start = PreparedCall(copy, xs, program.xs), PreparedCall(copy, us, program.us)
        look = PreparedCall(_look, record, program.fu, lxx, luu)
        record["open"], record["look"] = program.calls(*start, *opened).address, look.address
        record["first_mu"] = options.initial_regularization
        program.set_options(options, curvature, None)
        self._kept.append(look)
        return record

    def solve(self, problem: Problem, limits: Limits | None) -> tuple[int, Program]:
        """Solve a problem that differs in numbers alone: the code of `solve_from`, and the program with the result."""
        system, x0 = problem.system, problem.x0
        if not self.slots.serve(problem, limits):
            return NO_START, self.by_rollout
        self._us[...] = us = problem.us_init if limits is None else problem.us_init.clip(*limits)
        if not self._rolls:
            with np.errstate(all="ignore"):
                xs = as_array("rollout", system.rollout(x0.copy(), us), (len(us) + 1, system.nx), finite=False)
            self.by_rollout.candidate[0][...] = xs
        self._set_checked(0, 0)
        code = self._call()
        self._set_checked(*self._checked)  # for the loop in Python
        program = self.by_holding if self._held[0] else self.by_rollout
        return code if code in (GO_ON, NO_START) or self._is_right(program) else NO_START, program

    def _set_checked(self, *checked: int) -> None:
        for program, each in zip((self.by_rollout, self.by_holding), checked, strict=True):
            program.state["checked"] = each

    def _is_right(self, program: Program) -> bool:
        """Compare functions of the user with their traces where a solve has ended."""
        if self._checks:
            self._end[0][...], self._end[1][...] = program.xs, program.us
            self._traced()
            self.current = all([check() for check in self._checks])
        return self.current


class Result(NamedTuple):
    """What is kept of a solve."""

    xs: np.ndarray
    us: np.ndarray
    cost: float
    status: str
    iterations: int
    violation: float
    k: np.ndarray
    K: np.ndarray


def _of_solution(found: Solution) -> Result:
    return Result(*[getattr(found, name) for name in Result._fields])


# ------------------------------------------------------------------------------------------------ all of them
@contextmanager
def named(i: int) -> Iterator[None]:
    """Let errors say in which solve they were raised."""
    try:
        yield
    except Exception as error:
        error.args = (": ".join([f"solve {i}", *map(str, error.args[:1])]), *error.args[1:])
        raise


class Batch:
    """The solves of a batch and their results, written by several threads; arguments are those of `solve_batch`."""

    def __init__(
        self, solver: Any, problem_of: Callable[[int], Problem], size: int, gains: bool, arenas: list[Arena]
    ) -> None:
        self._solver, self._curvature, self._problem_of = solver, solver._curvature(), problem_of
        with named(0):
            self._problem = problem = problem_of(0)
        N, nx, n, nu = problem.horizon, problem.system.nx, problem.system.ndx, problem.system.nu
        self._places, self._stopped, self._errors = iter(range(size)), False, []
        self._arenas, self._used = arenas, []
        self.done = np.zeros(size, bool)
        self.xs, self.us = np.full((size, N + 1, nx), np.nan), np.full((size, N, nu), np.nan)
        self.cost, self.violation, self.iterations = *np.full((2, size), np.inf), np.zeros(size, np.int64)
        self.status = np.full(size, str(Status.INTERRUPTED), "<U24")
        self.k = np.full((size, N, nu), np.nan) if gains else None
        self.K = np.full((size, N, nu, n), np.nan) if gains else None

    # -------------------------------------------------------------------------------------------- in a thread
    def _work(self) -> None:
        try:
            with in_this_thread_alone():
                self._solve_all()
        except BaseException as error:  # for the caller to raise
            self._errors.append(error)
            self.stop()

    def _solve_all(self) -> None:
        arena, solved, asked = self._arena(), 0, 0
        for i in self._places:
            if self._stopped:
                return
            with named(i):
                problem = self._problem_of(i)
                result = None if arena is None else self._without_python(arena, problem)
                if self._stopped:
                    return
                asked += result is None
                self.write(i, result or _of_solution(self._solver.solve(problem)))
            solved += 1
            if solved == ATTEMPTS and 2 * asked > solved:  # most of their starts: it goes on in Python
                arena = None
            elif arena is not None and not arena.current:
                arena = self._arena()

    def _limits(self, problem: Problem) -> Limits | None:
        return problem.control_limits if self._solver.control_limits == "box" else None

    def _arena(self) -> Arena | None:
        """What solves without Python; None where the solver has to."""
        problem, options = self._problem, self._solver
        limits = self._limits(problem)
        boxed = limits is not None and all(isinstance(each, ControlBounds) for each in problem.constraints)
        if not (boxed or not problem.constraints) or transcription_of(problem) is not None:
            return None
        if takes_accelerations(problem.system) or problem.xs_init is not None or options.max_iterations == 1:
            return None
        arena = None
        with suppress(IndexError):
            arena = self._arenas.pop()
        if arena is None or arena.options != options or not arena.slots.serve(problem, limits):
            try:
                arena = Arena(problem, limits, options, self._curvature)
            except NoPieces:
                return None
        self._used.append(arena)
        arena.stop[0] = self._stopped
        return arena

    def _without_python(self, arena: Arena, problem: Problem) -> Result | None:
        """The result of a solve that compiled code begins; None where it cannot, or is stopped."""
        limits = self._limits(problem)
        code, program = arena.solve(problem, limits)
        if code in (GO_ON, NO_START):
            return None
        s, status = program.state[0], None if code == ASK else ENDS[code]
        escapes = self._curvature.escape and self._solver.soft_penalty == 0.0
        certain = not escapes or (KINDS[s["kind"]] == EXACT and s["mu"] == 0.0)
        if status is Status.MAX_ITERATIONS or (status is Status.CONVERGED and certain):
            cost, tried = float(s["own_cost"]), int(s["tried"])
            return Result(program.xs, program.us, cost, status, tried, 0.0, *program.gains)
        return self._ended(Formulation(problem, limits, self._curvature, slots=arena.slots), program, status)

    def _ended(self, formulation: Formulation, program: Program, status: Status | None) -> Result | None:
        """The result of the loop in Python, and a look for saddles, from the state of a program; None for an end that
        is left to the solver."""
        options, tried, unknown = self._solver, int(program.state["tried"][0]), cast(Any, None)
        first = Regularization(options.initial_regularization, options.max_regularization)
        begun = State(unknown, first, np.inf, (), Stall())
        state = program.unloaded(begun, (STEP,) * (tried + (status is not None)), 0.0)._replace(status=status)
        loop = Loop(formulation, options, Unconstrained(formulation, options))
        if status is None:
            state = loop.go_on(state, None)
        if self._curvature.escape and options.soft_penalty == 0.0:
            state, _ = past_saddles(loop, state, None)
        if state.status not in (Status.CONVERGED, Status.MAX_ITERATIONS) or state.direction is None:
            return None
        found, gains = state.model.iterate, formulation.policy(state.model, state.direction.sweep)
        return Result(found.xs, found.us, found.own_cost, str(state.status), state.tried, 0.0, *gains)

    def write(self, i: int, result: Result) -> None:
        """Keep the result of a solve."""
        self.xs[i], self.us[i], self.cost[i], self.status[i], self.iterations[i], self.violation[i], k, K = result
        if self.k is not None and self.K is not None:
            self.k[i], self.K[i] = k, K
        self.done[i] = True

    # -------------------------------------------------------------------------------------------- in the caller's
    def stop(self) -> None:
        """Ask the threads to stop after the iterations that they are at."""
        self._stopped = True
        for arena in self._used:
            arena.stop[0] = 1

    def run(self, workers: int, progress: bool | None) -> None:
        """Solve all of them in so many threads, or, where Ctrl-C says so, some."""
        shares = [Share(self._work) for _ in range(workers)]
        with counted(progress, len(self.done)) as count:
            try:
                for i, share in enumerate(shares):
                    Thread(target=share, name=f"solve_batch {i}", daemon=True).start()
                shown, waiting = 0, shares
                while waiting:
                    waiting[0].wait(0.1)
                    waiting = [share for share in waiting if not share.over]
                    done = int(np.count_nonzero(self.done))
                    count(done - shown)
                    shown = done
            except KeyboardInterrupt:
                self.stop()
            except BaseException:
                self.stop()
                raise
            finally:  # whoever still solves writes to arenas that later batches use
                for share in shares:
                    share.settle()
        self._arenas += [arena for arena in self._used if arena.current]
        if self._errors:
            raise self._errors[0]


def solve_batch(
    solver: Any,
    problem_of: Callable[[int], Problem],
    x0s: np.ndarray,
    parameters: Any,
    workers: int,
    progress: bool | None,
    gains: bool,
    arenas: list[Arena],
) -> BatchSolution:
    """Solve problems that differ in numbers alone.

    Parameters
    ----------
    solver : the solver
    problem_of : function of an index that returns the problem of a solve
    x0s, parameters : what these problems were made of
    workers : number of threads
    progress : whether there is a progress bar, by default if stderr is a terminal
    gains : True to keep the policies
    arenas : what threads of earlier batches have prepared, and those of this one leave
    """
    silent = replace(solver, verbose=False)
    batch = Batch(silent, problem_of, len(x0s), gains, arenas)
    batch.run(workers, progress)
    results = batch.xs, batch.us, batch.cost, batch.status, batch.iterations, batch.violation, batch.k, batch.K
    return BatchSolution(x0s.copy(), *results, parameters, silent, problem_of)


def without_python(solver: Any, problem: Problem) -> bool:
    """True if compiled code makes the iterations of a solver's solves of a problem, in a thread that runs alone."""
    if transcription_of(problem) is not None or takes_accelerations(problem.system) or solver.max_iterations == 1:
        return False
    with in_this_thread_alone():
        formulation = transcribe(problem, solver, curvature := solver._curvature())
        try:
            Program(formulation.slots, curvature, formulation.rows, False)
        except NoPieces:
            return False
        finally:
            formulation.close()
    return True


def own_parameters(parameters: Any) -> Any:
    """Parameters whose arrays and lists nobody else changes."""
    if isinstance(parameters, Mapping):
        return {name: own_parameters(each) for name, each in parameters.items()}
    if isinstance(parameters, str | bytes) or not isinstance(parameters, Sequence | np.ndarray):
        return parameters
    return parameters.copy() if isinstance(parameters, np.ndarray) else list(parameters)


def parameters_of_each(parameters: Any, size: int, of: str = "") -> Callable[[int], Any]:
    """A function of an index that returns the parameters of a solve; of: what messages say that they are for.

    Raises TypeError or ValueError unless there are as many as solves."""
    if isinstance(parameters, Mapping):
        parts = {name: parameters_of_each(each, size, f" for {name!r}") for name, each in parameters.items()}
        return lambda i: {name: part(i) for name, part in parts.items()}
    if isinstance(parameters, str | bytes) or not isinstance(parameters, Sequence | np.ndarray) or has_mask(parameters):
        got = f"{type(parameters).__name__}{of}"
        raise TypeError(f"parameters: got {got}, expected sequences with one item per solve")
    if np.shape(parameters)[:1] != (size,) if isinstance(parameters, np.ndarray) else len(parameters) != size:
        got = np.shape(parameters) if isinstance(parameters, np.ndarray) else len(parameters)
        raise ValueError(f"parameters: got {got}{of}, expected one for each of {size} initial states")
    return parameters.__getitem__
