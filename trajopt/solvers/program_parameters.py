"""The parameters of a program: where its calls read targets, references, weights and limits of a problem's terms.

That is not declared anywhere.  The program is made again for problems with two other values of an attribute; numbers
that are these values times one factor each, and the first value in the first program, are where it is read.  Whether
those are all of them is tried: with the other values put there, a start and a step must lead where they lead in a
program that was made for these.  Attributes that several terms have with one value, and which are computed together,
are one parameter.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from dynamics.simd.c_library import identifier
from dynamics.simd.c_library.image import address_of
from dynamics.simd.prepared_calls import SCRATCH, PreparedCall
from trajopt.backward.expansions import HALF_PRECISION
from trajopt.backward.slots import Slots
from trajopt.costs.residuals import StateResidual
from trajopt.costs.state_cost import StateCost
from trajopt.problem.parametric import Key, ParameterTerm, owner, places, with_values
from trajopt.problem.problem import Problem
from trajopt.rows import ROUNDING, Rows
from trajopt.solvers.alone import AloneProgram, put_numbers
from trajopt.solvers.formulation import Curvature
from trajopt.solvers.iteration import State, Unconstrained
from trajopt.solvers.options import LoopOptions
from trajopt.solvers.program import NoPieces
from trajopt.solvers.solve import transcribe


class Making(NamedTuple):
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


def _another(term: Any, attribute: str, value: Any, rng: np.random.Generator, rounded: bool) -> Any:
    """Another value of an attribute, of powers of two if it is to be rounded, for which products are exact: limits on
    their own side of zero, rotations and states on a manifold among their own kind."""
    if isinstance(value, tuple):
        return tuple([_another(term, attribute, part, rng, rounded) for part in value])
    size = np.abs(np.where(np.isfinite(value), value, 0.0)) + rng.uniform(1.0, 2.0, np.shape(value))
    size = np.exp2(np.ceil(np.log2(size))) if rounded else size
    if np.shape(value)[-2:] == (3, 3):
        rotation = np.linalg.qr(rng.standard_normal(np.shape(value)))[0]
        return rotation * np.sign(np.linalg.det(rotation))[..., None, None]
    of = owner(term, attribute)
    if (
        attribute == "reference"
        and isinstance(of, StateCost | StateResidual)
        and np.shape(value)[-1:] == (of.system.nx,)
    ):
        rows = np.atleast_2d(value)
        moved = of.system.integrate(rows, rng.standard_normal((len(rows), of.system.ndx)))
        return np.reshape(moved, np.shape(value))
    return -size if attribute == "lower" else size


class _Numbers:
    """All numbers that the calls of a program read or write, but scratch, with their addresses.

    Parameters: the program; another one of the same problem, which shows which arrays hold nothing yet: those that
    differ are left out."""

    def __init__(self, program: AloneProgram, again: AloneProgram | None = None) -> None:
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
        self.known = np.ones(len(self.values), bool)
        if again is not None:
            ends = np.cumsum([len(part) for part in found.values()])[:-1]
            same = np.split(_Numbers(again).values == self.values, ends)
            self.known = np.concatenate([np.full(len(part), part.all()) for part in same])
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
    """Where the numbers of programs are given values times factors: of a program with the first values, exactly, and of
    two with others.  None where none is, or the programs differ in more than numbers."""
    if any(other.shapes != numbers[0].shapes for other in numbers[1:]):
        return None
    base, first, second = (each.values for each in numbers)
    with np.errstate(all="ignore"):
        changed = np.flatnonzero((first != base) & (first != second) & (first != 0.0) & numbers[0].known)
        ratio, ratios = second[changed] / first[changed], given[2] / given[1]
        order = np.argsort(ratios)
        right = np.searchsorted(ratios[order], ratio).clip(1 if len(order) > 1 else 0, len(order) - 1)
        left, right = order[right - 1], order[right]
        entry = np.where(np.abs(ratios[left] - ratio) < np.abs(ratios[right] - ratio), left, right)
        factor, before, now = first[changed] / given[1][entry], given[0][entry], base[changed]
        exact = (before == 0.0) | (factor * before == now)
        factor = np.where(exact, factor, now / before)
        known = np.abs(ratios[entry] - ratio) <= ROUNDING * np.abs(ratio)
        known &= (factor * before == now) & np.isclose(factor * given[1][entry], first[changed], ROUNDING, 0.0)
    found = _Places(entry[known], factor[known], numbers[0].places[changed[known]])
    return found if len(found.entry) else None


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


class Found(NamedTuple):
    """The parameters of a program, and attributes of terms that are none, as "NAME.ATTRIBUTE"."""

    parameters: list[Parameter]
    fixed: list[str]


class ParameterSearch:
    """A search for the parameters of a program that has begun a solve."""

    def __init__(
        self, making: Making, problem: Problem, base: AloneProgram, begun: tuple[Unconstrained, State]
    ) -> None:
        self._making, self._problem, self._base, self._begun = making, problem, base, begun
        self._known, self._numbers = places(problem), _Numbers(base, making.program(problem))
        self._rng = np.random.default_rng(0)

    def run(self) -> Found:
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
        _tell_apart(parameters)
        of_others = [f"{one.places[0].name}.{one.attribute}" for one in left]
        listed = [
            f"{place.name}.{attribute}"
            for place in self._known.values()
            for attribute, value in place.values.items()
            if _leaves(value) is None
        ]
        return Found(parameters, of_others + listed)

    def _parameters(self, each: _Candidate) -> list[Parameter]:
        """The parameters that arrays of a value are, none if the calls of other values are other ones."""
        given, programs = [], []
        for rounded in (True, False):
            value = _another(each.places[0].term, each.attribute, each.value, self._rng, rounded)
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
        if not np.allclose(*outcomes, rtol=HALF_PRECISION, atol=HALF_PRECISION, equal_nan=True):
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


def _tell_apart(parameters: list[Parameter]) -> None:
    """Number arrays of different parameters that have one name."""
    taken: Counter[str] = Counter()
    for parameter in parameters:
        for name in list(parameter.arrays):
            taken[name] += 1
            if taken[name] > 1:
                parameter.arrays[f"{name}_{taken[name]}"] = parameter.arrays.pop(name)


def _named(each: _Candidate, values: np.ndarray, put: PreparedCall) -> Parameter:
    """The parameter of a candidate, its arrays named after all of its terms."""
    first, *others = [place.name for place in each.places]
    terms = [first, *["terminal" if other == f"terminal {first}" else other for other in others]]
    name = f"{'_and_'.join(identifier(term, 'term') for term in terms)}_{each.attribute}"
    leaves = _leaves(each.value) or []
    shapes = [leaf.shape or (1,) for leaf in leaves]
    parts = np.split(values, np.cumsum([leaf.size for leaf in leaves])[:-1])
    endings = [""] if len(leaves) == 1 else [f"_{i}" for i in range(len(leaves))]
    if [leaf.shape[-1:] for leaf in leaves] == [(3,), (3,)] and leaves[0].ndim == leaves[1].ndim + 1:
        endings = ["_rotation", "_translation"]
    arrays = {name + ending: part.reshape(shape) for ending, part, shape in zip(endings, parts, shapes, strict=True)}
    return Parameter(tuple([place.name for place in each.places]), each.attribute, arrays, put)
