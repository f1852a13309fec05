"""A solver and a problem prepared to be solved repeatedly from new initial states, as in predictive control.

All that does not depend on the initial state is checked once, when the problem is made; a new initial state is put into
a shallow copy, where `dataclasses.replace` would check every cost again.  The solves are those of the solver itself,
bit for bit, and independent of one another: the first one compiles the kernels, scratch memory is reused, and no
solution refers to it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from dynamics.simd import PROGRESS
from dynamics.simd.stages import EXECUTED, PREPARED
from dynamics.simd.threads import processors
from dynamics.validation import as_array, as_flag, as_text, as_whole_number
from trajopt.interfaces.system import state_array
from trajopt.optimality.first_order import parameters_of
from trajopt.problem.parametric import Key, ParameterTerm, places, with_values, with_x0
from trajopt.problem.periodic import depends_on_x0
from trajopt.problem.problem import Problem, check_problem
from trajopt.problem.transcription import transcription_of
from trajopt.results.batch_solution import BatchSolution
from trajopt.results.feedback import Feedback, feedback_of
from trajopt.results.records import WarmStart
from trajopt.results.solution import Solution
from trajopt.solvers.options import LoopOptions
from trajopt.solvers.prepared_batch import Arena, own_parameters, parameters_of_each, solve_batch
from trajopt.solvers.rehearsal import rehearse, tried
from trajopt.solvers.solve import expect_solves

if TYPE_CHECKING:
    from trajopt.solvers.ddp import Callback


NAMED = "a mapping of terms' names to numbers or arrays, or prepare(problem, parameters=...)"
"""What parameters are expected to be."""
OFF = 0.0, 1e-6, 1e-3, 1e-2, 0.0
"""Along each direction, how far from what was planned `PreparedSolver.warm_up` starts: solves take the branches of
small gaps and of large ones."""


class PreparedSolver:
    """Solves one problem from many initial states; made by ``solver.prepare(problem)``.

    Parameters
    ----------
    solver : DDP or ILQR
        With its options; ``max_iterations=1`` makes every solve one real-time iteration.
    problem : Problem
    parameters : str or callable, optional
        Terms' values that the p of `prepare_step` sets: a str names the attribute that p is for all terms, ``"target"``
        being ``update(target=p)``; a function turns p into a mapping for `update`.  By default p is that mapping.

    Raises
    ------
    TypeError
        If an argument has another type.
    """

    def __init__(
        self, solver: LoopOptions, problem: Problem, parameters: str | Callable[[Any], Mapping[str, Any]] | None = None
    ) -> None:
        if not (isinstance(solver, LoopOptions) and callable(getattr(solver, "solve", None))):
            raise TypeError(f"solver: got {type(solver).__name__}, expected a trajopt.DDP or trajopt.ILQR")
        check_problem(problem)
        if not (parameters is None or isinstance(parameters, str) or callable(parameters)):
            expected = "the name of an attribute or a function that returns what update takes"
            raise TypeError(f"parameters: got {type(parameters).__name__}, expected {expected}")
        self.solver, self.problem, self.parameters = solver, problem, parameters
        self._places: dict[Key, ParameterTerm] | None = None
        self._arenas: list[Arena] = []
        self._expected = False

    def __reduce__(self) -> tuple[Any, ...]:  # arenas belong to this process
        return PreparedSolver, (self.solver, self.problem, self.parameters)

    def __repr__(self) -> str:
        return f"PreparedSolver({self.solver!r}, {self.problem!r})"

    def at(self, x0: ArrayLike) -> Problem:
        """The problem from another initial state x0 (nx,).

        Raises TypeError or ValueError if x0 is no state of the system.
        """
        return with_x0(self.problem, x0)

    def update(self, by_name: Mapping[str, Any] | None = None, /, **everywhere: Any) -> None:
        """Set targets, references, weights and limits for the solves that follow.

            prepared.update(target=p)                            of all terms that have a target
            prepared.update(target=lambda s: path(t + s))        at each knot, s seconds from the first
            prepared.update({"StateCost": x})                    of one term, its target, else its reference
            prepared.update({"speed": {"upper": [2.0, 2.0]}})    of one constraint

        Terms have the names that `Solution.explain` gives them, those of the last knot "terminal ..." and limits of
        controls "control bounds"; several terms of one name are numbered, "StateCost 2".
        `trajopt.interfaces.terms` says which attributes can change.  A value has the shape of the one before.
        Targets and references with a row for each knot, as those that were functions of time have, may also be
        functions of a knot's time in the problem.  The problem that was passed, and those of solutions, stay as they
        are; so does the scenery.

        Raises TypeError or ValueError, and changes nothing, for a value that does not fit, and for an attribute or a
        name that no term has, or several that differ.
        """
        if not isinstance(by_name, (Mapping, type(None))):
            raise TypeError(f"update: got {type(by_name).__name__}, expected a mapping of terms' names to values")
        if self._places is None:
            self._places = places(self.problem)
        self.problem = with_values(self.problem, self._places, by_name or {}, everywhere)

    def warm_up(self, warm_start: WarmStart | Solution | None = None) -> None:
        """Compile, load and prepare what cycles need, so that the first sample waits for nothing of that.

        As cycles do, solves from the problem's initial state, then from plans shifted by a step, at the state that was
        planned and at states beside it; asks for a `Feedback`, if the problem has one, and for the plan's policy;
        solves a batch; executes the plan by `trajopt.simulate`; and takes the ways that solves take rarely, such as
        searches for feasibility.  After that none of these compiles or loads a kernel, nor do solves of the problem by
        ``solver.solve``.  Nothing of it is kept: the problem and all numbers stay as they are.

        Parameters: warm_start, the plan that cycles begin with; without one they are warmed up from the problem's own
        controls.  Raises TypeError as `solve`.
        """
        from trajopt.results.simulation import simulate

        problem, x0 = self.problem, self.problem.x0.copy()  # kernels know arrays that are read-only from others
        PROGRESS.subject(problem, type(self.solver).__name__, PREPARED, EXECUTED)
        plan = self.solve(x0, warm_start=warm_start)
        if self._places is None:
            self._places = places(problem)
        for off in OFF:
            start = plan.shifted()
            if start.xs is None:
                break
            beside = problem.system.integrate(start.xs[0], np.full(problem.system.ndx, off))
            plan = self.solve(beside, warm_start=start)
        by = transcription_of(problem)
        if by is None and not depends_on_x0(problem):
            feedback = self.prepare_step(x0, warm_start=plan.warm_start())
            feedback(x0)
            feedback.plan(x0, steps=1)
        solver: Any = self.solver
        inside, own = (problem, (plan.xs, plan.us)) if by is None else (by.problem, by.inside(plan.xs, plan.us))
        rehearse(inside, solver, solver._curvature(), *own)
        with tried():
            plan.policy().warm_up()
        with tried():
            self.solve_batch(x0[None], progress=False, gains=True)
        with tried():
            simulate(plan)
        self.problem = problem

    def export(self, folder: str | os.PathLike[str], name: str | None = None, target: str = "native") -> Path:
        """Write the solves as a C library, static and shared, for programs without Python.

        In the folder are both libraries, a header, a file for CMake, examples in C and C++, one of them a control loop
        at 1 kHz, and a README that says what the functions do, how long they take, and which values can be set.  The
        library makes the same steps as `solve`, to the last bit, as long as these are the common ones: it counts the
        iterations in which `solve` would have done something rare, such as a search along another direction, a barrier
        or a search for feasibility, and it has gone on without.  It neither leaves saddles nor makes
        second solves.  Units of penalties, constraints and regularization are those of the solve from the problem's
        initial state and first trajectory.

        Parameters
        ----------
        folder : new, or empty
        name : str, optional
            What all names of the library begin with, by default the problem's.
        target : str
            "native", this processor; "x86-64-v3", with AVX2 and FMA; or "aarch64", which needs
            aarch64-linux-gnu-gcc (Debian's gcc-aarch64-linux-gnu).

        Returns
        -------
        The folder.

        Raises
        ------
        ValueError
            For a problem with terms that are computed in Python, naming them and functions that are not compiled, or
            with a free initial state; and for arguments other than these.
        FileExistsError, FileNotFoundError
            If the folder is not empty; without a C compiler, "cc", which nothing else needs.
        OSError
            On other systems than Linux.
        """
        from trajopt.solvers.export import export

        name = None if name is None else as_text("name", name)
        solver: Any = self.solver
        return export(self.problem, solver, solver._curvature(), folder, name, target)

    def solve(
        self,
        x0: ArrayLike | None = None,
        us: ArrayLike | None = None,
        xs: ArrayLike | None = None,
        warm_start: WarmStart | Solution | None = None,
        callback: Callback | None = None,
        time_limit: float | None = None,
    ) -> Solution:
        """The result of ``solver.solve`` for the problem with the initial state x0 (nx,), by default the problem's own.

        Parameters: x0; the others as for `ILQR.solve`, typically ``warm_start=solution.shifted(1)``.
        """
        problem = self.problem if x0 is None else self.at(x0)
        solver: Any = self.solver
        solution = solver.solve(problem, us, xs, callback, warm_start, time_limit)
        if not self._expected:
            expect_solves(problem, solver)
            self._expected = True
        return solution

    def solve_batch(
        self,
        x0s: ArrayLike,
        parameters: Mapping[str, Any] | Sequence[Any] | np.ndarray | None = None,
        *,
        workers: int | None = None,
        progress: bool | None = None,
        gains: bool = False,
    ) -> BatchSolution:
        """The results of ``solve(x0)`` for many initial states, bit for bit, by threads of this process.

            batch = prepared.solve_batch(x0s)
            batch = prepared.solve_batch(x0s, {"tool": targets})    a target for each solve, (B, 3)

        Each thread has calls and arrays of its own, and makes a solve by compiled code without the interpreter lock.
        Where that leaves something to Python, and for problems with constraints other than limits of controls, or of
        which a part is Python, the solver itself makes the solve in the thread, which gains less.  Functions that are
        traced are compared with their traces at one knot of each result.

        Parameters
        ----------
        x0s : (B, nx) array
            Initial states.
        parameters : sequence or mapping, optional
            Targets, references, weights and limits of each solve: a sequence of B values, each what the p of
            `prepare_step` is, or a mapping of terms' names to arrays, or mappings of attributes to arrays, whose first
            axis is that of the solves.  Other numbers are those of the last `update`.
        workers : int, optional
            Number of threads, by default one for each processor.
        progress : bool, optional
            A progress bar on stderr, or, where that is no terminal, a line now and then; by default if it is one.
        gains : bool
            True: the policies, too.

        Returns
        -------
        BatchSolution
            After Ctrl-C with what was solved until then; the status of the others is "interrupted".

        Raises
        ------
        TypeError, ValueError
            Naming the argument, and for parameters the solve; and what a function of the user has raised, in any of
            the solves, with the number of this in its message.
        """
        gains, count = as_flag("gains", gains), processors()
        if progress is not None:
            as_flag("progress", progress)
        if workers is not None:
            count = as_whole_number("workers", workers, 1)
        x0s = as_array("x0s", x0s, (None, self.problem.system.nx), copy=True)
        if not len(x0s):
            raise ValueError("x0s: got none, expected at least one")
        for i, x0 in enumerate(x0s):
            state_array(self.problem.system, f"x0s[{i}]", x0)
        if self.parameters is None and isinstance(parameters, np.ndarray):
            raise TypeError(f"parameters: got an array of shape {parameters.shape}, expected {NAMED}")
        parameters, size = own_parameters(parameters), len(x0s)
        known = None if parameters is None else parameters_of_each(parameters, size)
        problem = self.problem
        if self._places is None:
            self._places = places(problem)
        found = self._places

        def problem_of(i: int) -> Problem:
            own = problem if known is None else with_values(problem, found, *self._moves(known(i)))
            return with_x0(own, x0s[i])

        given = problem_of, x0s, parameters
        return solve_batch(self.solver, *given, min(count, size), progress, gains, self._arenas)

    def prepare_step(
        self,
        x_predicted: ArrayLike,
        p: Any = None,
        warm_start: WarmStart | Solution | None = None,
        *,
        exact: bool = True,
    ) -> Feedback:
        """The part of a real-time iteration that precedes the measured state and parameters.

            feedback = prepared.prepare_step(x, p, plan)        a plan to start with
            u = feedback(x, p)                                  when x and p arrive: microseconds
            feedback = prepared.prepare_step(system.step(x, u), p, feedback.plan(x, p, steps=1))

        Solves as `solve` does, with ``max_iterations=1`` by one iteration, sets targets, references and limits to p as
        `update` does, and computes how the plan depends on its initial state and on p: by exact second derivatives at
        the plan, without regularization; by Gauss-Newton Hessians where these are not positive definite.  Soft
        constraints stay soft.

        Parameters
        ----------
        x_predicted : (nx,) array
            The state that is expected.
        p : optional
            The parameters that are known: the argument of `parameters` of ``solver.prepare(problem, parameters=...)``,
            a number, an array, or a mapping or dataclass with some, whose other entries are constants; by default a
            mapping of terms' names to values.  Targets of poses, and limits, need a function.
        warm_start : Solution or WarmStart, optional
        exact : bool
            False: always Gauss-Newton Hessians, less accurate for small changes, and safer for large ones.

        Returns
        -------
        Feedback

        Raises
        ------
        TypeError, ValueError
            Naming the argument.
        """
        if transcription_of(self.problem) is not None or depends_on_x0(self.problem):
            raise ValueError(
                "prepare_step: got a problem with a free initial state, parameters or a Periodic, expected one that a "
                "measured state is all that is unknown of"
            )
        parameters, exact = None, as_flag("exact", exact)
        x0 = state_array(self.problem.system, "x_predicted", x_predicted)
        if p is not None:
            parameters = parameters_of(self._numbers(p))
            by_name, everywhere = self._moves(parameters.at(parameters.vector))
            self.update(by_name, **everywhere)
        solution = self.solve(x0, warm_start=warm_start)

        def moved(p: Any) -> Problem:
            assert self._places is not None
            return with_values(solution.problem, self._places, *self._moves(p))

        of_solver = self.solver.max_regularization, self.solver.soft_penalty
        return feedback_of(solution, parameters, moved, exact, *of_solver)

    def _moves(self, p: Any) -> tuple[Mapping[str, Any], dict[str, Any]]:
        """Arguments of `update`: values by the names of terms, and values for all terms."""
        if isinstance(self.parameters, str):
            return {}, {self.parameters: p}
        found = p if self.parameters is None else self.parameters(p)
        if not isinstance(found, Mapping):
            what = "got" if self.parameters is None else "the function of prepare returned"
            raise TypeError(f"parameters: {what} {type(found).__name__}, expected {NAMED}")
        return found, {}

    def _numbers(self, p: Any) -> Any:
        """p with its numbers as floats where all of it has to be numbers."""
        if isinstance(self.parameters, str):
            return as_array("p", p, copy=True)
        if self.parameters is not None:
            return p
        if not isinstance(p, Mapping):
            raise TypeError(f"p: got {type(p).__name__}, expected {NAMED}")
        for name, value in p.items():
            if isinstance(value, Mapping | tuple):
                raise ValueError(f"p: got a {type(value).__name__} for {name!r}, expected {NAMED}")
        return {name: as_array(f"p[{name!r}]", value, copy=True) for name, value in p.items()}

    @staticmethod
    def shifted(solution: Solution, steps: int = 1) -> WarmStart:
        """See `Solution.shifted`."""
        return solution.shifted(steps)
