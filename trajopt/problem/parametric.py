"""A problem as a function of some of its values: initial state, targets, references, weights, limits.

Values are set as by `trajopt.PreparedSolver.update`, in microseconds; and since their names are declared, gradients of
functions of a solution with respect to all of them follow from one solution of the KKT system (`trajopt.Solution.vjp`),
while a function that makes a problem of its parameters is called four times for each number of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import numpy as np

from dynamics.validation import as_array, as_text
from trajopt.costs.residuals import StateResidual
from trajopt.costs.state_cost import StateCost
from trajopt.interfaces.system import across_tangents
from trajopt.problem.parameters import Key, attributes_named, owner, places, with_values, with_x0
from trajopt.problem.problem import Problem, check_problem

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
            problem, _ = with_values(problem, self._places, by_name, {})
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
