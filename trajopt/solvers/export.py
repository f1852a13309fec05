"""Solves of a problem as a C library, for programs without Python; see `trajopt.solvers.prepared`.

The calls of a problem are those of `trajopt.solvers.program`, with a start and an end for which no Python is needed
(`trajopt.solvers.alone`), and calls that take parameters over (`trajopt.solvers.program_parameters`).
"""

from __future__ import annotations

import os
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from dynamics.simd.c_library import check_place, identifier, write_library
from dynamics.simd.c_library.texts import CONTROL_LOOP, add_files
from dynamics.simd.prepared_calls import PreparedCalls, calls_of
from dynamics.simd.threads import in_this_thread_alone
from trajopt.backward.expansions import prepared_derivatives
from trajopt.backward.slots import Slots
from trajopt.problem.extended_system import innermost
from trajopt.problem.objective import Objective, zero_blocks
from trajopt.problem.periodic import depends_on_x0
from trajopt.problem.problem import Problem
from trajopt.problem.transcription import transcription_of
from trajopt.rows import pack
from trajopt.solvers import export_texts as texts
from trajopt.solvers.alone import CONTROLS, MEANINGS, PLAN, STATES, AloneProgram
from trajopt.solvers.ddp import Loop
from trajopt.solvers.formulation import ALPHAS, Curvature, Formulation
from trajopt.solvers.iteration import State, Unconstrained
from trajopt.solvers.options import LoopOptions
from trajopt.solvers.program import NoPieces
from trajopt.solvers.program_parameters import Found, Making, ParameterSearch
from trajopt.solvers.solve import constraints_of, transcribe
from trajopt.solvers.start import first_iterate


def _begun(problem: Problem, options: LoopOptions, curvature: Curvature) -> tuple[Unconstrained, State]:
    """What an iteration does for the problem's constraints, and the state of a solve at its start."""
    formulation = transcribe(problem, options, curvature)
    if type(formulation) is not Formulation:
        raise ValueError("export: got a formulation by inverse dynamics, expected one whose controls are forces")
    start = problem.us_init, problem.xs_init, None, False, options.feasibility_tolerance
    iterate = first_iterate(formulation, *start).iterate
    rows = formulation.rows
    if rows is not None and options.soft_penalty == 0.0:
        formulation.rows = rows.scaled_at(iterate.xs, iterate.us, problem.system.linearize)
    if not np.isfinite(iterate.cost) or (rows is not None and not np.isfinite(rows.values(*iterate[:2])).all()):
        raise ValueError("export: the cost or a constraint is not finite at the first trajectory, expected finite ones")
    constraints = constraints_of(formulation, options, None)
    return constraints, Loop(formulation, options, constraints).begin(iterate)


def _named(name: str, part: Any) -> str:
    """A part of a problem with this name, and which function of the user it calls that is not compiled, and why, as far
    as that is known."""
    while part is not None:
        if hasattr(part, "why_in_python"):
            return f"{name} ({part.why_in_python})"
        part = getattr(part, "residual", None) or getattr(part, "cost", None)
    return name


def _python_parts(problem: Problem, options: LoopOptions) -> list[str]:
    """Names of terms, and of the system, that are computed in Python, with reasons as far as these are known."""
    system, N = problem.system, problem.horizon
    xs, us = np.zeros((N + 1, system.nx)), np.zeros((N, system.nu))
    xs[...] = problem.x0
    blocks, found = zero_blocks(N, system.ndx, system.nu), []
    for term in problem.objective.terms:
        alone = Objective([term]).with_own_numbers(us)
        parts = alone.prepared_value(xs, us), alone.prepared_expansion(xs, us, blocks, blocks)
        if any(calls_of(part) is None for part in parts):
            found.append(_named("terminal " * term.terminal + term.name, term.cost))
    rows = transcribe(problem, options, Curvature()).rows
    for constraint in () if rows is None else rows.constraints:
        own = pack(problem, (constraint,))
        (c, lam), C = np.zeros((2, len(own))), (np.zeros((len(own), system.ndx)), np.zeros((len(own), system.nu)))
        parts = own.prepared_linearization(xs, us, c, *C), own.prepared_curvature(xs, us, lam, blocks)
        if any(calls_of(part) is None for part in parts):
            found.append(_named(constraint.name, constraint))
    fx, fu = np.zeros((N, system.ndx, system.ndx)), np.zeros((N, system.ndx, system.nu))
    gains = np.zeros((N, system.nu)), np.zeros((N, system.nu, system.ndx))
    rollouts = Slots(problem, problem.control_limits).prepared_rollouts(ALPHAS, xs, us, *gains)
    parts = rollouts, prepared_derivatives(system, xs, us, fx, fu)
    if any(part is None or calls_of(part) is None for part in parts):
        found.append(_named(f"the system, {type(system).__name__}", innermost(system)))
    return found


# ------------------------------------------------------------------------------------------------ the library
class _Times(NamedTuple):
    """Seconds of a solve with so many iterations, and of a cycle from its plan."""

    solve: float
    iterations: int
    cycle: float


class Solves(NamedTuple):
    """What a library consists of: a program, what it has begun, and its parameters."""

    program: AloneProgram
    begun: tuple[Unconstrained, State]
    found: Found

    @property
    def entries(self) -> dict[str, PreparedCalls]:
        """Functions by name."""
        program, put = self.program, [parameter.put for parameter in self.found.parameters]
        return {
            "begin": PreparedCalls(*put, program.begin),
            "step": PreparedCalls(program.step),
            "solve": PreparedCalls(*put, program.begin, program.go_on),
            "cycle": PreparedCalls(*put, program.cycle.call),
        }

    @property
    def arrays(self) -> dict[str, np.ndarray]:
        """Arrays by name, those of parameters last."""
        program, s, cycle = self.program, self.program.state, self.program.cycle
        arrays = {
            "x0": cycle.x0, "xs": cycle.xs, "us": cycle.us, "K": cycle.K, "start": program.starts["mode"],
            "status": s["status"], "iterations": s["tried"], "asked": s["asked"],
            "cost": s["own_cost"], "gradient_norm": s["gradient_norm"], "violation": s["violation"],
            "gap": s["largest_gap"], "tolerance": s["tolerance"], "max_iterations": s["most"],
        }  # fmt: skip
        if program.rows is not None:
            arrays |= {"multipliers": cycle.lam, "max_sweeps": s["most_sweeps"]}
        for parameter in self.found.parameters:
            arrays |= parameter.arrays
        return arrays

    def reset(self) -> None:
        """Put the program into its first state."""
        constraints, state = self.begun
        self.program.load(state, constraints)
        for parameter in self.found.parameters:
            parameter.put()

    def timed(self, cycles: int = 5) -> _Times:
        """Times of the calls, so many cycles among them, from the first state, to which it returns."""
        program, entries, solve, times = self.program, self.entries, 0.0, []
        for _ in range(2):
            self.reset()
            start = perf_counter()
            entries["solve"]()
            solve = perf_counter() - start
        iterations = int(program.state["tried"][0])
        for _ in range(cycles):
            program.cycle.x0[...] = program.xs[1]
            start = perf_counter()
            entries["cycle"]()
            times.append(perf_counter() - start)
        self.reset()
        return _Times(solve, iterations, float(np.median(times)))


def solves_of(problem: Problem, options: LoopOptions, curvature: Curvature) -> Solves:
    """The solves of a problem without Python, in this process.

    Raises ValueError for a problem that needs Python, or more than a given initial state."""
    _check_kind(problem, options, curvature)
    with in_this_thread_alone():
        constraints, _ = begun = _begun(problem, options, curvature)
        making = Making(options, curvature, constraints.formulation.rows)
        try:
            program = making.program(problem)
        except NoPieces:
            names = ", ".join(_python_parts(problem, options)) or "a part of it"
            raise ValueError(
                f"export: {names} is computed in Python, expected problems all of whose terms are compiled"
            ) from None
        solves = Solves(program, begun, ParameterSearch(making, problem, program, begun).run())
    solves.reset()
    return solves


def export(
    problem: Problem,
    options: LoopOptions,
    curvature: Curvature,
    folder: str | os.PathLike[str],
    name: str | None,
    target: str,
) -> Path:
    """See `trajopt.solvers.prepared.PreparedSolver.export`."""
    name = identifier(problem.name, "problem") if name is None else name
    check_place(folder, name, target)
    return write_solves(solves_of(problem, options, curvature), folder, name, target)


def write_solves(solves: Solves, folder: str | os.PathLike[str], name: str, target: str) -> Path:
    """Write the library of solves into a folder."""
    times = solves.timed()
    write_library(folder, name, solves.entries, solves.arrays, solves.program.all_calls, target, _constants())
    _describe(Path(folder), name, solves, times)
    return Path(folder)


def _check_kind(problem: Problem, options: LoopOptions, curvature: Curvature) -> None:
    """Raise ValueError for what a library cannot do."""
    if transcription_of(problem) is not None or depends_on_x0(problem):
        got = "a problem with a free initial state, parameters or a Periodic"
        raise ValueError(f"export: got {got}, expected a given initial state")
    if curvature.hessian != "parallel":
        raise ValueError(f"export: got hessian={curvature.hessian!r}, expected 'parallel'")


def _constants() -> dict[str, int]:
    """Names of numbers in the header."""
    starts = {"from_controls": CONTROLS, "from_states": STATES, "from_plan": PLAN}
    return starts | {meaning: code for code, meaning in MEANINGS.items()}


def _describe(folder: Path, name: str, solves: Solves, times: _Times) -> None:
    """Write the examples, and what the README says of solves."""
    program, found, problem = solves.program, solves.found, solves.program.slots.problem
    milliseconds = max(1, round(1e3 * float(np.diff(problem.times[:2])[0])))
    listed = [
        f"| {', '.join(f'`{array}`' for array in each.arrays)} | {each.attribute} of {', '.join(each.terms)} |"
        for each in found.parameters
    ]
    fixed = ", ".join(found.fixed)
    words = {
        "MILLISECONDS": str(milliseconds),
        "MEANINGS": ", ".join(f"{code} {meaning}" for code, meaning in MEANINGS.items()),
        "ROWS": "" if program.rows is None else texts.OF_ROWS,
        "PARAMETERS": "\n".join(listed),
        "FIXED": f"Other values stay as they are in the library: {fixed}." if found.fixed else "",
        "ITERATIONS": f"{times.iterations} iterations",
        "SOLVE": f"{1e3 * times.solve:.3g}",
        "CYCLE": f"{1e3 * times.cycle:.3g}",
    }
    files = {
        "example.c": texts.EXAMPLE,
        "example.cpp": texts.EXAMPLE_CPP,
        "control_loop.c": CONTROL_LOOP.replace("OWN", texts.OF_LOOP).replace("ABOUT", texts.ABOUT_LOOP),
        "README.md": texts.README,
    }
    add_files(folder, name, files, words)
