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
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from dynamics.simd.c_library import check_place, write_library
from dynamics.simd.c_library.image import address_of
from dynamics.simd.prepared_calls import SCRATCH, PreparedCall, PreparedCalls, calls_of
from dynamics.simd.threads import in_this_thread_alone
from trajopt.backward.expansions import prepared_derivatives, prepared_gaps
from trajopt.backward.slots import Slots
from trajopt.costs.residuals import StateResidual
from trajopt.costs.state_cost import StateCost
from trajopt.interfaces.stepwise import prepared_difference
from trajopt.problem.objective import Objective, zero_blocks
from trajopt.problem.parametric import LIMITS, Key, ParameterTerm, owner, places, with_values
from trajopt.problem.periodic import depends_on_x0
from trajopt.problem.problem import Problem
from trajopt.problem.transcription import transcription_of
from trajopt.rows import Rows, pack
from trajopt.solvers import export_texts as texts
from trajopt.solvers.alone import CONTROLS, MEANINGS, PLAN, START, STATES, begin, go_on, put_numbers, step
from trajopt.solvers.cycle import CONVERGED, NO_DIRECTION, NO_STEP, STEPPED, Cycle
from trajopt.solvers.ddp import Loop
from trajopt.solvers.formulation import ALPHAS, NOTHING, Curvature, Formulation
from trajopt.solvers.iteration import State, Unconstrained
from trajopt.solvers.options import LoopOptions
from trajopt.solvers.program import NEVER, NoPieces, Program
from trajopt.solvers.solve import constraints_of, transcribe

ROUNDING = 4
"""Number of last bits by which a factor may differ from a quotient of numbers."""
SAME, ALIKE = 1e-13, 1e-8
"""Relative difference of numbers that are the same one times the same factor; and of results with the same values."""


class AloneProgram(Program):
    """A program with a start and an end for which no Python is needed, and with cycles.

    Attributes
    ----------
    starts : array of `trajopt.solvers.alone.START`
    begin, step, go_on : prepared calls
    cycle : Cycle
    """

    def __init__(self, slots: Slots, curvature: Curvature, rows: Rows | None, mu: float) -> None:
        super().__init__(slots, curvature, rows, True)
        self.starts, none = np.zeros(1, START), np.zeros(0)
        self.cycle = Cycle(self, mu)
        rollouts = slots.prepared_rollouts(ALPHAS, self.xs, self.us, np.zeros(self.us.shape), self.K)
        start, own, record = self.starts, self.rows, self.cycle.record
        start["rollouts"] = self.calls(rollouts).address
        assert rollouts is not None
        take = self._taken(rollouts())
        start["take"], start["iterate"] = take.address, self._iterate.address
        start["code_at"] = self._iterate.result_address
        plan = (self.xs, self.us), self.candidate, self.gaps, self.K
        of_rows = (none, (none, none), none) if own is None else (own.c, own.limits, own.dual)
        D = none if own is None else own.own.D
        self.begin = PreparedCall(
            begin, self.state, start, record, slots.x0, *plan, *of_rows, self.cycle.lam, D
        )  # fmt: skip
        self.step, self.go_on = (PreparedCall(go, self.state, start, self.sides, record) for go in (step, go_on))
        self._kept += [take, self._iterate]

    def load(self, state: State, constraints: Unconstrained) -> None:
        """Take over the state of a solve, to go on alone."""
        super().load(state, constraints)
        s, mu, self.cycle.x0[...] = self.state, state.regularization, self.slots.problem.x0
        s["alone"], s["checked"], s["since"], s["side"], s["asked"], s["status"] = 1, 0, NEVER, 0, 0, 0
        self.starts["mu"], self.starts["scale"] = mu.mu, mu.scale
        self.starts["mode"] = CONTROLS if self.slots.problem.xs_init is None else STATES
        self.cycle.record["outcome"], self.cycle.record["asked"] = 0, 0
        for numbers in (self.K, self.cycle.costate, self.cycle.lam):
            numbers[...] = 0.0

    @property
    def all_calls(self) -> list[PreparedCall]:
        """All calls that are made, those that others make by their addresses too."""
        kept = [call for call in self._kept if isinstance(call, PreparedCall)]
        return list(dict.fromkeys([self.begin, self.step, self.go_on, self.cycle.call, *kept]))


# ------------------------------------------------------------------------------------------------ the program
class _Making(NamedTuple):
    """How programs of problems that differ in values are made: options and curvature; and the rows of the first
    problem, whose factors all have."""

    options: LoopOptions
    curvature: Curvature
    rows: Rows | None

    def program(self, problem: Problem) -> AloneProgram:
        """A program in arrays of its own."""
        formulation = transcribe(problem, self.options, self.curvature)
        rows, limits = formulation.rows, formulation.limits
        formulation.close()
        if rows is not None and self.rows is not None:
            rows = rows.with_factors(self.rows.factors)
            rows = replace(rows, rounding=self.rows.rounding, large=self.rows.large)
        return AloneProgram(Slots(problem, limits), self.curvature, rows, self.options.initial_regularization)


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


def _python_parts(problem: Problem, options: LoopOptions) -> list[str]:
    """Names of terms, and of the system, that are computed in Python."""
    system, N = problem.system, problem.horizon
    xs, us = np.zeros((N + 1, system.nx)), np.zeros((N, system.nu))
    xs[...] = problem.x0
    blocks, found = zero_blocks(N, system.ndx, system.nu), []
    for term in problem.objective.terms:
        alone = Objective([term]).with_own_numbers(us)
        parts = alone.prepared_value(xs, us), alone.prepared_expansion(xs, us, blocks, blocks)
        if any(calls_of(part) is None for part in parts):
            found.append("terminal " * term.terminal + term.name)
    rows, c = transcribe(problem, options, Curvature()).rows, np.zeros(0)
    for constraint in () if rows is None else rows.constraints:
        own = pack(problem, (constraint,))
        c, C, lam = np.zeros(len(own)), (np.zeros((len(own), system.ndx)), np.zeros((len(own), system.nu))), np.ones(1)
        lam = np.ones(len(own))
        parts = own.prepared_linearization(xs, us, c, *C), own.prepared_curvature(xs, us, lam, blocks)
        if any(calls_of(part) is None for part in parts):
            found.append(constraint.name)
    fx, fu = np.zeros((N, system.ndx, system.ndx)), np.zeros((N, system.ndx, system.nu))
    gains = np.zeros((N, system.nu)), np.zeros((N, system.nu, system.ndx))
    rollouts = Slots(problem, problem.control_limits).prepared_rollouts(ALPHAS, xs, us, *gains)
    parts = rollouts, prepared_derivatives(system, xs, us, fx, fu)
    if any(part is None or calls_of(part) is None for part in parts):
        found.append(f"the system ({type(system).__name__})")
    return found


# ------------------------------------------------------------------------------------------------ parameters
class Parameter(NamedTuple):
    """An attribute of a term, or the same one of several that have one value, in the user's units.

    Parameters
    ----------
    terms : names of the terms in `PreparedSolver.update`
    attribute : that may change
    arrays : by their names in the library, what programs write to
    put : call that takes the values over
    """

    terms: tuple[str, ...]
    attribute: str
    arrays: dict[str, np.ndarray]
    put: PreparedCall


def _leaves(value: Any) -> list[np.ndarray] | None:
    """Arrays of numbers that a value consists of, None if it is something else."""
    if isinstance(value, tuple):
        found = [_leaves(part) for part in value]
        return None if None in found or not found else [leaf for leaves in found for leaf in leaves or ()]
    if isinstance(value, bool) or not isinstance(value, float | np.ndarray):
        return None
    array = np.asarray(value)
    return [array] if array.dtype == np.float64 and array.size else None


def _another(term: Any, attribute: str, value: Any, rng: np.random.Generator) -> Any:
    """Another value of an attribute: limits on their own side of zero, rotations and states on a manifold among their
    own kind."""
    if isinstance(value, tuple):
        return tuple([_another(term, attribute, part, rng) for part in value])
    size = np.abs(np.where(np.isfinite(value), value, 0.0)) + rng.uniform(1.0, 2.0, np.shape(value))
    if np.shape(value)[-2:] == (3, 3):
        rotation = np.linalg.qr(rng.standard_normal(np.shape(value)))[0]
        return rotation * np.sign(np.linalg.det(rotation))[..., None, None]
    of = owner(term, attribute)
    if attribute == "reference" and isinstance(of, StateCost | StateResidual) and np.shape(value)[-1:] == (of.system.nx,):
        rows = np.atleast_2d(value)
        moved = of.system.integrate(rows, rng.standard_normal((len(rows), of.system.ndx)))
        return np.reshape(moved, np.shape(value))
    return -size if attribute == "lower" else size


class _Numbers:
    """All numbers that the calls of a program read or write, but scratch."""

    def __init__(self, program: AloneProgram) -> None:
        found: dict[int, np.ndarray] = {}
        self.shapes = []
        for call in program.all_calls:
            names = call.function.py_func.__code__.co_varnames
            for name, value in zip(names, call.arguments, strict=False):
                if name in SCRATCH:
                    continue
                for array in _arrays(value):
                    self.shapes.append(array.shape)
                    if array.dtype == np.float64 and array.size:
                        found[address_of(array)] = array.reshape(-1)
                if isinstance(value, float):
                    place = call.argument_address(names.index(name)) - call.address
                    found[call.address + place] = call.block[place // 8 :][:1].view(np.float64)
        self.values = np.concatenate(list(found.values()))
        self.places = np.concatenate([start + 8 * np.arange(len(part)) for start, part in found.items()])


def _arrays(value: Any) -> list[np.ndarray]:
    """The arrays of an argument of a call."""
    if isinstance(value, tuple):
        return [array for part in value for array in _arrays(part)]
    return [value] if isinstance(value, np.ndarray) else []


class _Places(NamedTuple):
    """For numbers that calls read: which of the given values they are, times which factor, and their addresses."""

    entry: np.ndarray
    factor: np.ndarray
    places: np.ndarray


def _matched(numbers: list[_Numbers], given: list[np.ndarray]) -> _Places | None:
    """Where the numbers of programs are given values times factors: of a program with the first values, and two with
    others.  None where none is, or the programs differ in more than numbers."""
    if any(other.shapes != numbers[0].shapes for other in numbers[1:]):
        return None
    base, first, second = (each.values for each in numbers)
    with np.errstate(all="ignore"):
        changed = np.flatnonzero((first != base) & (first != second) & (first != 0.0))
        ratio, ratios = second[changed] / first[changed], given[2] / given[1]
        order = np.argsort(ratios)
        right = np.searchsorted(ratios[order], ratio).clip(1 if len(order) > 1 else 0, len(order) - 1)
        left, right = order[right - 1], order[right]
        entry = np.where(np.abs(ratios[left] - ratio) < np.abs(ratios[right] - ratio), left, right)
        factor, before = first[changed] / given[1][entry], given[0][entry]
        known = np.abs(ratios[entry] - ratio) <= SAME * np.abs(ratio)
        known &= np.isclose(base[changed], factor * before, SAME, 0.0) | ((before == 0.0) & (base[changed] == 0.0))
        changed, entry = changed[known], entry[known]
        there = [(values[entry], each.values[changed]) for values, each in zip(given, numbers, strict=True)]
        return _Places(entry, _factors(there), numbers[0].places[changed]) if len(changed) else None


def _factors(there: list[tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
    """Factors that make numbers of values, (value, number) of each program, to the last bit of the first one's and as
    many others as possible."""
    best, known = there[-1][1] / there[-1][0], np.zeros(len(there[-1][0]))
    for value, number in there:
        quotient = np.where(value != 0.0, number, 0.0) / np.where(value != 0.0, value, 1.0)
        for bits in range(-ROUNDING, ROUNDING + 1):
            factor = quotient + bits * np.spacing(quotient)
            exact = sum(weight * (factor * x == y) for weight, (x, y) in zip((4.0, 1.0, 1.0), there, strict=True))
            best, known = np.where(exact > known, factor, best), np.maximum(exact, known)
    return best


class _Candidate(NamedTuple):
    """Terms one attribute of which may be a parameter, and the value that they have."""

    places: list[ParameterTerm]
    attribute: str
    value: Any

    def of(self, problem: Problem, known: dict[Key, ParameterTerm], value: Any) -> Problem:
        """The problem with another value."""
        return with_values(problem, known, {place.name: {self.attribute: value} for place in self.places}, {})


def _candidates(known: dict[Key, ParameterTerm]) -> list[_Candidate]:
    return [
        _Candidate([place], attribute, value)
        for place in known.values()
        for attribute, value in place.values.items()
        if _leaves(value) is not None
    ]


def _together(candidates: Iterable[_Candidate]) -> list[_Candidate]:
    """Candidates of one attribute and value in one, where there are several."""
    groups: dict[Any, list[_Candidate]] = {}
    for each in candidates:
        key = each.attribute, *[(leaf.shape, leaf.tobytes()) for leaf in _leaves(each.value) or ()]
        groups.setdefault(key, []).append(each)
    several = [group for group in groups.values() if len(group) > 1]
    return [_Candidate([each.places[0] for each in group], *group[0][1:]) for group in several]


class _Found(NamedTuple):
    """The parameters of a program, and attributes of terms that are none, as "NAME.ATTRIBUTE"."""

    parameters: list[Parameter]
    fixed: list[str]


class _Search:
    """A search for the parameters of a program that has begun a solve."""

    def __init__(self, making: _Making, problem: Problem, base: AloneProgram, begun: tuple[Unconstrained, State]) -> None:
        self._making, self._problem, self._base, self._begun = making, problem, base, begun
        self._known, self._numbers = places(problem), _Numbers(base)
        self._rng = np.random.default_rng(0)

    def all(self) -> _Found:
        """Parameters of single terms, then those of several terms that are computed together."""
        parameters, left = [], []
        for each in _candidates(self._known):
            found = self._parameters(each)
            parameters += found
            left += [] if found else [each]
        for each in _together(left):
            found = self._parameters(each)
            parameters += found
            if found:
                left = [one for one in left if one.attribute != each.attribute or one.places[0] not in each.places]
        of_others = [f"{one.places[0].name}.{one.attribute}" for one in left]
        listed = [
            f"{place.name}.{attribute}"
            for place in self._known.values()
            for attribute, value in place.values.items()
            if _leaves(value) is None
        ]
        return _Found(parameters, of_others + listed)

    def _parameters(self, each: _Candidate) -> list[Parameter]:
        """The parameters that arrays of a value are, none if the calls of other values are other ones."""
        given, programs = [], []
        for _ in range(2):
            value = _another(each.places[0].term, each.attribute, each.value, self._rng)
            try:
                programs.append(self._making.program(each.of(self._problem, self._known, value)))
            except (ValueError, NoPieces):
                return []
            given.append(np.concatenate([leaf.reshape(-1) for leaf in _leaves(value) or ()]))
        own = np.concatenate([leaf.reshape(-1) for leaf in _leaves(each.value) or ()])
        matched = _matched([self._numbers, *map(_Numbers, programs)], [own, *given])
        if matched is None:
            return []
        values = given[1].copy()
        put = PreparedCall(put_numbers, values, *matched)
        outcomes = self._outcome(self._base, put), self._outcome(programs[1], None)
        values[...] = own
        put()
        if not np.allclose(*outcomes, rtol=ALIKE, atol=ALIKE, equal_nan=True):
            return []
        return [_named(each, values, put)]

    def _outcome(self, program: AloneProgram, put: PreparedCall | None) -> np.ndarray:
        """Cost, gradient, states and gains after a start and a step; put: takes values over, which the program has if
        it is None."""
        constraints, state = self._begun
        limits = [] if program.rows is None else [limit.copy() for limit in program.rows.limits]
        program.load(state, constraints)
        for own, limit in zip(program.rows.limits if program.rows and put is None else (), limits, strict=False):
            own[...] = limit
        if put is not None:
            put()
        program.begin()
        cost, gradient = float(program.state["cost"][0]), float(program.state["gradient_norm"][0])
        program.step()
        return np.concatenate([[cost, gradient], program.xs.reshape(-1), program.K.reshape(-1)])


def _identifier(text: str) -> str:
    """A name in C."""
    return re.sub("[^A-Za-z0-9]+", "_", text).strip("_")


def _named(each: _Candidate, values: np.ndarray, put: PreparedCall) -> Parameter:
    """The parameter of a candidate, its arrays named after the first of its terms."""
    name, leaves = f"{_identifier(each.places[0].name)}_{each.attribute}", _leaves(each.value) or []
    shapes = [leaf.shape or (1,) for leaf in leaves]
    parts = np.split(values, np.cumsum([leaf.size for leaf in leaves])[:-1])
    endings = [""] if len(leaves) == 1 else [f"_{i}" for i in range(len(leaves))]
    if [leaf.shape[-1:] for leaf in leaves] == [(3,), (3,)] and leaves[0].ndim == leaves[1].ndim + 1:
        endings = ["_rotation", "_translation"]
    arrays = {name + ending: part.reshape(shape) for ending, part, shape in zip(endings, parts, shapes, strict=True)}
    return Parameter(tuple([place.name for place in each.places]), each.attribute, arrays, put)


# ------------------------------------------------------------------------------------------------ the library
class _Times(NamedTuple):
    """Seconds of a solve with so many iterations, and of a cycle from its plan."""

    solve: float
    iterations: int
    cycle: float


CYCLES = 5
"""Number of cycles that are timed."""


class Solves(NamedTuple):
    """What a library consists of: a program, what it has begun, and its parameters."""

    program: AloneProgram
    begun: tuple[Unconstrained, State]
    found: _Found

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
            "outcome": cycle.record["outcome"], "cycles_asked": cycle.record["asked"],
            "cost": s["own_cost"], "gradient_norm": s["gradient_norm"], "violation": s["violation"],
            "gap": s["largest_gap"], "tolerance": s["tolerance"], "max_iterations": s["most"],
        }  # fmt: skip
        if program.rows is not None:
            arrays["multipliers"] = cycle.lam
        for parameter in self.found.parameters:
            arrays |= parameter.arrays
        return arrays

    def reset(self) -> None:
        """Put the program into its first state."""
        constraints, state = self.begun
        self.program.load(state, constraints)
        for parameter in self.found.parameters:
            parameter.put()

    def timed(self) -> _Times:
        """Times of the calls, from the first state, to which it returns."""
        program, entries, solve, times = self.program, self.entries, 0.0, []
        for _ in range(2):
            self.reset()
            start = perf_counter()
            entries["solve"]()
            solve = perf_counter() - start
        iterations = int(program.state["tried"][0])
        for _ in range(CYCLES):
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
        making = _Making(options, curvature, constraints.formulation.rows)
        try:
            program = making.program(problem)
        except NoPieces:
            names = ", ".join(_python_parts(problem, options)) or "a part of it"
            raise ValueError(
                f"export: {names} is computed in Python, expected problems all of whose terms are compiled"
            ) from None
        solves = Solves(program, begun, _Search(making, problem, program, begun).all())
    solves.reset()
    return solves


def export(
    problem: Problem,
    options: LoopOptions,
    curvature: Curvature,
    folder: str | os.PathLike[str],
    name: str,
    target: str,
) -> Path:
    """See `trajopt.solvers.prepared.PreparedSolver.export`."""
    check_place(folder, target)
    solves = solves_of(problem, options, curvature)
    times = solves.timed()
    write_library(folder, name, solves.entries, solves.arrays, solves.program.all_calls, target, _constants())
    _describe(Path(folder), name, solves, times)
    return Path(folder)


def _check_kind(problem: Problem, options: LoopOptions, curvature: Curvature) -> None:
    """Raise ValueError for what a library cannot do."""
    if transcription_of(problem) is not None or depends_on_x0(problem):
        raise ValueError("export: got a problem with a free initial state, parameters or a Periodic, expected a given x0")
    if options.soft_penalty > 0.0:
        raise ValueError(f"export: got soft_penalty={options.soft_penalty}, expected 0")
    if curvature.hessian != "parallel":
        raise ValueError(f"export: got hessian={curvature.hessian!r}, expected 'parallel'")


def _constants() -> dict[str, int]:
    """Names of numbers in the header."""
    starts = {"from_controls": CONTROLS, "from_states": STATES, "from_plan": PLAN}
    outcomes = {"stepped": STEPPED, "optimal": CONVERGED, "no_direction": NO_DIRECTION, "no_step": NO_STEP}
    return starts | {meaning: code for code, meaning in MEANINGS.items()} | outcomes


def _describe(
    folder: Path, name: str, solves: Solves, times: _Times
) -> None:
    """Write the examples, and what the README says of solves."""
    program, found, problem = solves.program, solves.found, solves.program.slots.problem
    milliseconds = max(1, round(1e3 * float(np.diff(problem.times[:2])[0])))
    listed = [
        f"| {', '.join(f'`{array}`' for array in each.arrays)} | {each.attribute} of {', '.join(each.terms)} |"
        for each in found.parameters
    ]
    fixed = ", ".join(found.fixed)
    replaced = {
        "MILLISECONDS": str(milliseconds),
        "MEANINGS": ", ".join(f"{code} {meaning}" for code, meaning in MEANINGS.items()),
        "ROWS\n": "" if program.rows is None else texts.OF_ROWS,
        "PARAMETERS": "\n".join(listed),
        "FIXED": f"Other values stay as they are in the library: {fixed}." if found.fixed else "",
        "ITERATIONS": f"{times.iterations} iterations",
        "SOLVE": f"{1e3 * times.solve:.3g}",
        "CYCLE": f"{1e3 * times.cycle:.3g}",
        "NAME": name,
        "UPPER": name.upper(),
    }
    files = {"example.c": texts.EXAMPLE, "example.cpp": texts.EXAMPLE_CPP, "control_loop.c": texts.CONTROL_LOOP}
    of_library = folder.joinpath("README.md").read_text(encoding="utf-8")
    for file, text in (files | {"README.md": texts.README}).items():
        pattern = re.compile("|".join(replaced))
        written = pattern.sub(lambda found: replaced[found[0]], text)
        before = of_library if file == "README.md" else ""
        folder.joinpath(file).write_text(before + written, encoding="utf-8")
