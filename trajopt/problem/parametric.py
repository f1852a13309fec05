"""A problem as a function of some of its values: initial state, targets, references, weights, limits.

Values are set as by `trajopt.PreparedSolver.update`, in microseconds; and since their names are declared, gradients of
functions of a solution with respect to all of them follow from one solution of the KKT system (`trajopt.Solution.vjp`),
while a function that makes a problem of its parameters is called four times for each number of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, ClassVar, NamedTuple, TypeVar

import numpy as np

from dynamics.validation import as_array, as_text, did_you_mean, unknown_name
from trajopt.capabilities import capability
from trajopt.costs.cost import rows_of_times
from trajopt.costs.residual_cost import ResidualCost
from trajopt.costs.residuals import SquaredNorm, StateResidual
from trajopt.costs.state_cost import StateCost
from trajopt.interfaces.residual import ReadsDynamics, differs_by_knot
from trajopt.interfaces.system import across_tangents, state_array
from trajopt.interfaces.terms import Adjustable
from trajopt.problem.constraints import ControlBounds, ResidualConstraint, common_limits
from trajopt.problem.extended_system import LiftedCost, LiftedResidual
from trajopt.problem.periodic import depends_on_x0, starting_at
from trajopt.problem.problem import Problem, check_problem

# --------------------------------------------------------------------------------------------
# Targets, references, weights and limits of a problem's terms: where they are, and a problem with others.
#
# Terms are copied and nothing else is checked again, so it takes microseconds.  What a term has of its own comes before
# what its residual has under the same name.


T = TypeVar("T")
LIMITS = "lower", "upper"
_NO_KNOTS = np.zeros(0, dtype=np.intp)
PLAIN = "target", "reference"
"""What a value given to a term without saying of what is, the first of these that it has."""
INSIDE = {ResidualCost: "residual", ResidualConstraint: "residual", SquaredNorm: "residual",
          LiftedResidual: "residual", LiftedCost: "cost"}  # fmt: skip

RUNNING, TERMINAL, CONSTRAINT = range(3)
LISTS = "running_costs", "terminal_costs", "constraints"
Key = tuple[int, int]
"""Key of a term: the list that has it (RUNNING, TERMINAL or CONSTRAINT), and its first place among the objective's
terms or the constraints, which is the same in all problems that differ in values alone."""


class ParameterTerm(NamedTuple):
    """A term: what `Solution.explain` calls it, its attributes that may change, with values of their shapes, the knots
    where a cost counts, and all of its places among the objective's terms or the constraints."""

    name: str
    term: Any
    values: dict[str, Any]
    knots: np.ndarray
    at: list[int]


@cache
def _inside(kind: type) -> str | None:
    """The attribute with what terms of a class are made of, if it is one of those known here."""
    return next((slot for known, slot in INSIDE.items() if issubclass(kind, known)), None)


def _values(term: Any) -> dict[str, Any]:
    """Attributes that may change, those inside too."""
    slot, own = _inside(type(term)), capability(term, Adjustable)
    found = {} if slot is None else _values(getattr(term, slot))
    return {**found, **{name: getattr(term, name) for name in own.adjustable}}


def owner(term: Any, attribute: str) -> Any:
    """What has an attribute that may change: the term, or what is inside it."""
    return term if attribute in capability(term, Adjustable).adjustable else owner(_part(term), attribute)


def _part(term: Any) -> Any:
    """What a term is made of."""
    slot = _inside(type(term))
    assert slot is not None
    return getattr(term, slot)


def read_dynamics(problem: Problem) -> str | None:
    """The name of a cost or constraint that says that it depends on parameters of the dynamics; None if none does."""
    terms = [(term.name, term.cost) for term in problem.objective.terms]
    terms += [(constraint.name, constraint) for constraint in problem.residual_constraints]
    return next((name for name, term in terms if _reads_dynamics(term)), None)


def _reads_dynamics(term: Any) -> bool:
    slot, said = _inside(type(term)), capability(term, ReadsDynamics).reads_dynamics
    if said is not None:
        return said
    return slot is not None and _reads_dynamics(getattr(term, slot))


def places(problem: Problem) -> dict[Key, ParameterTerm]:
    """All terms with attributes that may change."""
    found: dict[Key, ParameterTerm] = {}
    first: dict[tuple[int, int], ParameterTerm] = {}
    for i, term in enumerate(problem.objective.terms):
        where = TERMINAL if term.terminal else RUNNING
        known = first.get((where, id(term.cost)))
        if known is not None:
            known.at.append(i)
            continue
        knots = np.arange(problem.horizon) if term.knots is None else term.knots
        knots = np.array([problem.horizon]) if term.terminal else knots
        name = "terminal " * term.terminal + term.name
        place = ParameterTerm(name, term.cost, _values(term.cost), knots, [i])
        found[where, i] = first[where, id(term.cost)] = place
    for i, constraint in enumerate(problem.constraints):
        found[CONSTRAINT, i] = ParameterTerm(constraint.name, constraint, _values(constraint), _NO_KNOTS, [i])
    return _with_own_names({key: place for key, place in found.items() if place.values})


def _term(problem: Problem, key: Key) -> Any:
    """The term of a key in a problem."""
    where, i = key
    return problem.constraints[i] if where == CONSTRAINT else problem.objective.terms[i].cost


def _with_own_names(found: dict[Key, ParameterTerm]) -> dict[Key, ParameterTerm]:
    """The places, several of one name numbered: "StateCost 1", "StateCost 2"."""
    count, taken = Counter(place.name for place in found.values()), Counter[str]()
    for key, place in found.items():
        if count[place.name] > 1:
            taken[place.name] += 1
            found[key] = place._replace(name=f"{place.name} {taken[place.name]}")
    return found


# ------------------------------------------------------------------------------------------------ what is wanted
def _listed(some: Mapping[Key, ParameterTerm], name: str = "") -> str:
    """Terms and the shapes of their attributes."""
    parts = (
        f"{place.name!r} {attribute} {np.shape(value) if isinstance(value, np.ndarray) else ''}".strip()
        for place in some.values()
        for attribute, value in place.values.items()
        if name in ("", attribute)
    )
    return ", ".join(parts) or "no term with numbers that may change"


class _Checked:
    """Values for terms of a problem, checked as far as shapes go; functions of time as their values at its knots."""

    def __init__(self, problem: Problem) -> None:
        self._problem, self._known = problem, {}

    def __call__(self, key: Key, place: ParameterTerm, attribute: str, value: Any) -> Any:
        """The value, or values of an attribute at the knots of a term, where a function or a mapping with functions is
        given, evaluated once for what several terms have inside.

        Raises ValueError unless it has the shape of the one before, and is finite if it is no limit."""
        before: Any = place.values[attribute]
        if isinstance(before, np.ndarray) and not callable(value):
            as_array(f"update: {attribute} of {place.name!r}", value, before.shape, finite=attribute not in LIMITS)
            return value
        of = owner(_term(self._problem, key), attribute)  # which checks what is no array
        several = isinstance(value, Mapping) and isinstance(before, Mapping)
        if callable(value) or several:
            value = self._at_knots(of, place, attribute, value, several)
        _check(of, place, attribute, value)
        return value

    def _at_knots(self, of: Any, place: ParameterTerm, attribute: str, function: Any, several: bool) -> Any:
        times, before = self._problem.times, place.values[attribute]
        key = id(of), id(function)
        if key not in self._known:
            if several or differs_by_knot(of):
                self._known[key] = getattr(of.adjusted(**{attribute: function}).at_times(times), attribute)
            elif attribute in getattr(of, "by_knot", ()) and before.ndim == 2:
                self._known[key] = rows_of_times(attribute, function, times[place.knots], before.shape[1])
            else:
                what = f"update: {attribute} of {place.name!r}: got a function of time"
                raise ValueError(f"{what}, expected a value of shape {np.shape(before)}, since it is not one a knot")
        return self._known[key]


def _shapes(value: Any) -> str:
    """Shape of an array, shapes of several, or of those that a mapping has by name, in words."""
    if isinstance(value, Mapping):
        return ", ".join(f"{_shapes(each)} of {name!r}" for name, each in value.items())
    return " and ".join(map(_shapes, value)) if isinstance(value, tuple) else str(np.shape(value))


def _check(of: Any, place: ParameterTerm, attribute: str, value: Any) -> None:
    """ValueError unless a value has the shape of the one before, and is finite if it is no limit."""
    before, what = place.values[attribute], f"update: {attribute} of {place.name!r}"
    if isinstance(before, np.ndarray):
        as_array(what, value, before.shape, finite=attribute not in LIMITS)
    elif differs_by_knot(of):
        after = getattr(of.adjusted(**{attribute: value}), attribute)
        if _shapes(after) != _shapes(before):
            raise ValueError(f"{what}: got shapes {_shapes(after)}, expected {_shapes(before)}")


def _of_name(found: dict[Key, ParameterTerm], name: str, value: Any) -> tuple[Key, dict[str, Any]]:
    """The term of a name and the values that it gets."""
    for key, place in found.items():
        if place.name == name:
            return key, _by_attribute(place, value)
    known = tuple(place.name for place in found.values())
    alike = sum(one == f"{name} {i + 1}" for one in known for i in range(len(known)))
    wrong = f"{alike} terms have the name {name!r}" if alike > 1 else f"got the unknown term {name!r}"
    hint = "" if alike > 1 or not isinstance(name, str) else did_you_mean(name, known)
    raise ValueError(f"update: {wrong}{hint}; known: {_listed(found)}")


def _by_attribute(place: ParameterTerm, value: Any) -> dict[str, Any]:
    """The values that a term gets, by the names of its attributes."""
    if not isinstance(value, Mapping):
        for plain in PLAIN:
            if plain in place.values:
                return {plain: value}
        expected = " or ".join(f"{{{attribute!r}: ...}}" for attribute in place.values)
        raise ValueError(f"update: got a value for {place.name!r}, expected {expected}")
    for attribute in value:
        if attribute not in place.values:
            raise ValueError(f"update: {place.name!r} has no {attribute!r}, expected one of {', '.join(place.values)}")
    return dict(value)


def wanted_values(
    found: dict[Key, ParameterTerm], by_name: Mapping[str, Any], everywhere: Mapping[str, Any], problem: Problem
) -> dict[Key, dict[str, Any]]:
    """The values that each term gets, checked as far as shapes go, functions of time at the problem's knots."""
    wanted: dict[Key, dict[str, Any]] = {}
    checked = _Checked(problem)
    for attribute, value in everywhere.items():
        having = {key: place for key, place in found.items() if attribute in place.values}
        if not having:
            raise ValueError(f"update: no term has {attribute!r}; known: {_listed(found)}")
        for key, place in having.items():
            try:
                wanted.setdefault(key, {})[attribute] = checked(key, place, attribute, value)
            except ValueError as error:
                if len(having) == 1:
                    raise
                more = f"all of {_listed(having, attribute)}; update({{name: value}}) changes one of them"
                raise ValueError(f"{error}, for {more}") from None
    for name, value in by_name.items():
        key, values = _of_name(found, name, value)
        for attribute, number in values.items():
            values[attribute] = checked(key, found[key], attribute, number)
        wanted.setdefault(key, {}).update(values)
    return wanted


def attributes_named(found: dict[Key, ParameterTerm], name: str, argument: str = "names") -> list[tuple[Key, str]]:
    """The attributes that a name means: "StateCost", of a term its target, else its reference; "StateCost.weights", one
    attribute of a term; "target", that of all terms that have it.  Raises ValueError for any other."""
    known = {place.name: key for key, place in found.items()}
    term, _, attribute = name.rpartition(".")
    if name in known:
        plain = [attribute for attribute in PLAIN if attribute in found[known[name]].values]
        if plain:
            return [(known[name], plain[0])]
    elif term in known:
        if attribute in found[known[term]].values:
            return [(known[term], attribute)]
    else:
        having = [(key, name) for key, place in found.items() if name in place.values]
        if having:
            return having
    names = tuple(f"{place.name}.{attribute}" for place in found.values() for attribute in place.values)
    raise unknown_name(argument, name, names)


# ------------------------------------------------------------------------------------------------ the other problem
def adjusted(term: Any, values: dict[str, Any], made: dict[Any, Any] | None = None) -> Any:
    """A copy of a term with these values; what several terms have inside stays one thing if it gets the same."""
    made = {} if made is None else made
    key = id(term), *values, *map(id, values.values())
    new = made.get(key)
    if new is None:
        slot, own, inside = _inside(type(term)), values, {}
        if slot is not None:
            names = getattr(term, "adjustable", ())
            own = {name: values[name] for name in names if name in values}
            inside = {name: value for name, value in values.items() if name not in own} if own else values
        new = term.adjusted(**own) if own else term
        if slot is not None and inside:
            new = _with(new, **{slot: adjusted(getattr(term, slot), inside, made)})
        made[key] = new
    return new


def with_x0(problem: Problem, x0: Any) -> Problem:
    """The problem from another initial state x0 (nx,), all else shared; TypeError or ValueError if it is none."""
    x0 = state_array(problem.system, "x0", x0)
    constraints = starting_at(problem.constraints, x0) if depends_on_x0(problem) else problem.constraints
    return _with(problem, x0=x0, constraints=constraints)  # nothing else depends on it


def _with(thing: T, **values: Any) -> T:
    """A copy of a problem or a term, which may be frozen, with other values of these attributes, which are not checked
    again."""
    other = object.__new__(type(thing))
    vars(other).update(vars(thing), **values)
    return other


def with_values(
    problem: Problem, found: dict[Key, ParameterTerm], by_name: Mapping[str, Any], everywhere: Mapping[str, Any]
) -> Problem:
    """The problem with other values in some of its terms, what else is in it shared.

    Parameters
    ----------
    found : what `places` finds in the problem, or in another that differs in values alone
    by_name : mapping of terms' names to a value, or to a mapping of attributes' names to values
    everywhere : mapping of attributes' names to values, for all terms that have them

    Raises
    ------
    TypeError, ValueError
        Naming the term, what it got and what was expected.
    """
    made: dict[Any, Any] = {}
    changed: dict[str, Any] = {}
    costs: dict[int, Any] = {}  # new ones, by their places among the objective's terms
    bounds = False
    for key, values in wanted_values(found, by_name, everywhere, problem).items():
        old, name = _term(problem, key), LISTS[key[0]]
        new = adjusted(old, values, made)
        changed[name] = _replaced(changed.get(name) or getattr(problem, name), old, new)
        if key[0] == CONSTRAINT:
            bounds = bounds or isinstance(new, ControlBounds)
        else:
            costs |= dict.fromkeys(found[key].at, new)
    if costs:
        changed["objective"] = problem.objective.with_costs(costs)
    if bounds:
        changed["control_limits"] = common_limits(changed["constraints"], problem.horizon, problem.system.nu)
    return _with(problem, **changed)


def _replaced(listed: Sequence[Any], old: Any, new: Any) -> tuple[Any, ...]:
    """Terms, or lists of them, with one in the place of another."""
    return tuple([
        new if one is old else _replaced(one, old, new) if type(one) is tuple else one for one in listed
    ])  # fmt: skip


INITIAL = "x0"


class DeclaredParameters:
    """Optional interface of a function that makes problems: names of the problem's values that its parameters are."""

    together: ClassVar = (("wanted", "chained"),)

    @property
    def wanted(self) -> tuple[str, ...]:
        """Names, as `trajopt.Solution.vjp` takes them; none by default."""
        return ()

    @property
    def chained(self) -> Callable[[Any, Any], Any]:
        """A function (p, gradients) that returns the gradient with respect to p, in its form, from gradients with
        respect to the values, as `trajopt.Solution.vjp` returns them."""
        raise NotImplementedError


class ParametricProblem:
    """A problem as a function of some of its values: called with p it returns the problem with those of p.

    It replaces a function that makes problems: in `trajopt.sensitivity`, `solve_many`, the layers of JAX and of Torch.
    Gradients (`Sensitivity.vjp`, `Sensitivity.cost`, layers) then make no problem, and take the time of an iteration or
    two however many numbers p has.  It can be pickled if the problem can.

    Parameters
    ----------
    problem : Problem
        Problem with the values that do not vary.
    *names : str
        "x0"; the name of a term, for its target, else its reference; "NAME.ATTRIBUTE", as "StateCost.weights" or
        "control bounds.upper"; an attribute, such as "target", for all terms that have it.  Terms have the names in
        `PreparedSolver.update`.

    Attributes
    ----------
    values : dict of the problem's own values, by these names
    p : (P,) array of all values, one after another

    Raises
    ------
    TypeError, ValueError
        Naming the argument: for no problem, no or unknown names, attributes that are no arrays, such as poses.  When
        called, for p of another form, and values that `update` rejects.

    Notes
    -----
    p is a mapping of the names to arrays of the shapes of `values`, or (P,) with all of them in the order of the names,
    or, for one name, its array.  States on a manifold are given by their own numbers, such as quaternions, and
    derivatives with respect to these are along the manifold; `Solution.vjp` returns those along tangents.

    Examples
    --------
    >>> plain = problems.make("pendulum")
    >>> parametric = trajopt.ParametricProblem(plain, "x0", "terminal StateCost")
    >>> parametric.p.round(2)  # hanging, and upright
    array([0.  , 0.  , 3.14, 0.  ])
    >>> solution = trajopt.DDP().solve(parametric(parametric.p))
    >>> found = trajopt.sensitivity(parametric, parametric.p, solution)
    >>> found.vjp(us_bar=solution.us).shape  # of half the square of all controls
    (4,)
    """

    def __init__(self, problem: Problem, *names: str) -> None:
        check_problem(problem)
        self.problem, self.names = problem, tuple(as_text("names", name) for name in names)
        if not names or len(set(names)) < len(names):
            raise ValueError(f"names: got {self.names}, expected some, each once")
        self._places = places(problem)
        self._of: dict[str, list[tuple[Key, str]]] = {}
        self.values: dict[str, np.ndarray] = {}
        for name in self.names:
            self._of[name] = [] if name == INITIAL else attributes_named(self._places, name)
            self.values[name] = self._value(name)
        meant = [each for of_name in self._of.values() for each in of_name]
        if len(set(meant)) < len(meant):
            raise ValueError(f"names: got {self.names}, two of which mean the same, expected others")

    def _value(self, name: str) -> np.ndarray:
        """The problem's own value for a name."""
        if name == INITIAL:
            return np.array(self.problem.x0)
        found = [self._places[key].values[attribute] for key, attribute in self._of[name]]
        for (key, attribute), value in zip(self._of[name], found, strict=True):
            what = f"names: got {name!r}, the {attribute} of {self._places[key].name!r}"
            if not isinstance(value, np.ndarray | float | int):
                raise TypeError(f"{what}, which is a {type(value).__name__}, expected an array")
            if np.shape(value) != np.shape(found[0]):
                raise ValueError(f"{what} of shape {np.shape(value)}, expected {np.shape(found[0])} as of the first")
        return np.array(found[0], dtype=np.float64)

    def __reduce__(self) -> tuple[Any, ...]:
        return ParametricProblem, (self.problem, *self.names)

    def __repr__(self) -> str:
        return f"ParametricProblem({self.problem.name!r}, {', '.join(map(repr, self.names))})"

    @property
    def p(self) -> np.ndarray:
        """The problem's own values as a vector."""
        return np.concatenate([value.ravel() for value in self.values.values()])

    @property
    def wanted(self) -> tuple[str, ...]:
        """See `trajopt.problem.parametric.DeclaredParameters`."""
        return self.names

    def __call__(self, p: Any) -> Problem:
        """The problem with these values."""
        by_name: dict[str, dict[str, Any]] = {}
        given, problem = self._parts(p), self.problem
        for name in self.names:
            for key, attribute in self._of[name]:
                by_name.setdefault(self._places[key].name, {})[attribute] = given[name]
        if by_name:
            problem = with_values(problem, self._places, by_name, {})
        return with_x0(problem, given[INITIAL]) if INITIAL in given else problem

    def _parts(self, p: Any) -> dict[str, Any]:
        """The values in p, by names."""
        if isinstance(p, Mapping):
            if set(p) != set(self.names):
                raise ValueError(f"p: got {', '.join(map(str, p))}, expected {', '.join(self.names)}")
            return {name: _numbers(f"p[{name!r}]", p[name], self.values[name].shape) for name in self.names}
        array, start, parts = _numbers("p", p, None), 0, {}
        shapes = [value.shape for value in self.values.values()]
        if len(shapes) == 1 and array.shape == shapes[0]:
            return {self.names[0]: array}
        if array.shape != (len(self.p),):
            raise ValueError(f"p: got shape {array.shape}, expected ({len(self.p)},), or a mapping")
        for name, value in self.values.items():
            parts[name], start = array[start : start + value.size].reshape(value.shape), start + value.size
        return parts

    # -------------------------------------------------------------------------------------------- gradients
    def chained(self, p: Any, gradients: Mapping[str, Any]) -> Any:
        """See `trajopt.problem.parametric.DeclaredParameters`."""
        given = self._parts(p)
        found = {name: self._gradient(name, given[name], gradients) for name in self.names}
        if isinstance(p, Mapping):
            return found
        flat = np.concatenate([part.ravel() for part in found.values()])
        return flat.reshape(np.shape(p))

    def _gradient(self, name: str, value: np.ndarray, gradients: Mapping[str, Any]) -> np.ndarray:
        """The gradient with respect to the entries of one of the values."""
        if name == INITIAL:
            return across_tangents(self.problem.system, value[None], np.asarray(gradients[INITIAL])[None])[0]
        total = np.zeros(value.shape)
        for key, attribute in self._of[name]:
            place = self._places[key]
            part, term = np.asarray(gradients[place.name][attribute]), owner(place.term, attribute)
            if isinstance(term, StateCost | StateResidual) and attribute == "reference":
                part = across_tangents(term.system, np.atleast_2d(value), np.atleast_2d(part)).reshape(value.shape)
            if part.shape != value.shape:
                raise TypeError(
                    f"{name}: got {value.shape} numbers on a manifold of {part.shape}, expected a function that makes "
                    "problems in place of a ParametricProblem"
                )
            total += part
        return total


def _numbers(name: str, value: Any, shape: tuple[int, ...] | None) -> np.ndarray:
    """The value as floats, which may be infinite, as limits are."""
    return as_array(name, value, shape, finite=False, copy=True)
