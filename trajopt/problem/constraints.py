"""Constraints lower <= r(x, u) <= upper: limits of controls, limits of states, and any residual.

Equal limits make an equality, infinite ones have no effect.  Limits of controls are kept by the backward pass and the
rollouts themselves; all others go through an augmented Lagrangian (`trajopt.solvers.augmented_lagrangian`).
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from dynamics.validation import as_array, as_text, as_whole_number, unknown_name
from trajopt.capabilities import KnownLimits, capability
from trajopt.costs.residuals import StateResidual
from trajopt.interfaces.residual import Residual, check_residual, component_names, function_name, is_function
from trajopt.interfaces.system import System, check_system, control_names, tangent_names
from trajopt.interfaces.terms import At, Where, checked_at, knots_at

BOUNDS = "control bounds"
"""Default name of limits of controls."""
Limits = ArrayLike | Mapping[str, float]
"""Limits as numbers in the order of the components, or as a mapping of their names."""


def limit_rows(name: str, value: Any, width: int | None) -> np.ndarray:
    """Limits of shape (), (width,) or (K, width); infinite ones are allowed, NaN is not."""
    array = as_array(name, value, allow_infinite=True, copy=True)
    if array.ndim > 2 or not array.size or (array.ndim and width is not None and array.shape[-1] != width):
        raise ValueError(f"{name}: got shape {array.shape}, expected a number, ({width},) or (K, {width})")
    return array


def limits_by_name(argument: str, value: Limits, names: tuple[str, ...], rest: float) -> ArrayLike:
    """Limits (n,) from a mapping of names to numbers, `rest` where a name is left out; other values are returned
    unchanged."""
    if not isinstance(value, Mapping):
        return value
    if not names:
        raise ValueError(f"{argument}: got limits by name, expected a system= that names its components")
    limits = np.full(len(names), rest)
    for name, limit in value.items():
        limits[component(argument, name, names)] = float(limit_rows(f"{argument}[{name!r}]", limit, 0))
    return limits


def component(argument: str, name: str, names: tuple[str, ...]) -> int:
    """Index of a component by its name, with or without the unit, "speed" for "speed [m/s]"; ValueError for an unknown
    name, or one without its unit that several have."""
    if name in names:
        return names.index(name)
    found = [i for i, known in enumerate(names) if known.partition(" [")[0] == name]
    if len(found) > 1:
        raise ValueError(
            f"{argument}: got {name!r}, expected one of {', '.join(repr(names[i]) for i in found)}"
        )
    if not found:
        raise unknown_name(argument, name, names)
    return found[0]


def limited_components(
    what: str, lower: Limits, upper: Limits, names: tuple[str, ...], width: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Limits (k,) of the components that have a finite one, and the indices of these components; given for all (width,)
    or by name.

    Raises ValueError if there are none, and TypeError or ValueError for values that are no numbers, or of another
    shape.
    """
    low, high = (
        np.broadcast_to(limit_rows(which, limits_by_name(which, value, names, rest), width), (width,))
        for which, value, rest in (("lower", lower, -np.inf), ("upper", upper, np.inf))
    )
    used = np.flatnonzero(np.isfinite(low) | np.isfinite(high))
    if not len(used):
        raise ValueError(f"{what}: got infinite limits alone, expected a finite one")
    return low[used], high[used], used


def _finite_limits(limits: tuple[np.ndarray, np.ndarray], system: System, what: str) -> tuple[np.ndarray, np.ndarray]:
    """The limits; ValueError if all are infinite."""
    if not any(np.isfinite(limit).any() for limit in limits):
        raise ValueError(f"system: {type(system).__name__} has no finite limit of {what}")
    return limits


def _check_order(what: str, lower: np.ndarray, upper: np.ndarray) -> None:
    try:
        wrong = ~(lower <= upper) | (lower == np.inf) | (upper == -np.inf)
    except ValueError:
        raise ValueError(f"{what}: lower has shape {lower.shape} and upper {upper.shape}, which do not fit") from None
    if wrong.any():
        at = tuple(int(i) for i in np.argwhere(wrong)[0])
        low, high = np.broadcast_to(lower, wrong.shape)[at], np.broadcast_to(upper, wrong.shape)[at]
        where = f" at {at}" if at else ""
        raise ValueError(f"{what}: got lower {low} and upper {high}{where}, expected lower <= upper")


def _with_limits(constraint: Any, what: str, values: Mapping[str, Any]) -> Any:
    """A copy of a constraint with other limits."""
    new = copy.copy(constraint)
    for name, value in values.items():
        setattr(new, name, limit_rows(name, value, None))
    _check_order(what, new.lower, new.upper)
    return new


def _rows_over(what: str, limits: np.ndarray, knots: int, width: int) -> np.ndarray:
    """Limits (knots, width), repeated for all knots where they are constant."""
    if limits.ndim == 2 and len(limits) not in (1, knots):
        raise ValueError(f"{what}: got {len(limits)} rows, expected one per knot it holds at, {knots}")
    if limits.ndim and limits.shape[-1] != width:
        raise ValueError(f"{what}: got {limits.shape[-1]} numbers, expected {width}")
    return np.array(np.broadcast_to(limits, (knots, width)))


class ControlBounds:
    """lower <= u_t <= upper at every knot.

    Parameters
    ----------
    lower, upper : number, (nu,) or (N, nu) array, or mapping of controls' names to numbers
        Limits, which may be infinite, as they are by default.
    system : System, optional
        System whose names the mappings use, with their units, as "speed [m/s]", or without.
    name : str
        Name in reports.

    Raises
    ------
    ValueError
        For a lower limit above the upper one, NaN, an unknown name, or (from `trajopt.Problem`) a wrong number of
        limits.

    Examples
    --------
    >>> from dataclasses import replace
    >>> limits = trajopt.ControlBounds(lower=-6.0, upper=6.0)  # too weak to go straight up
    >>> solution = trajopt.DDP().solve(replace(problems.make("pendulum"), constraints=[limits]))
    >>> print(solution.status, np.abs(solution.us).max().round(3))
    converged 6.0
    """

    adjustable = "lower", "upper"

    def __init__(
        self, lower: Limits = -np.inf, upper: Limits = np.inf, system: System | None = None, name: str = BOUNDS
    ) -> None:
        self.name = as_text("name", name)
        names = () if system is None else control_names(system)
        self.lower = limit_rows("lower", limits_by_name("lower", lower, names, -np.inf), None)
        self.upper = limit_rows("upper", limits_by_name("upper", upper, names, np.inf), None)
        _check_order("ControlBounds", self.lower, self.upper)

    @classmethod
    def from_model(cls, system: System) -> ControlBounds:
        """The limits of the system: the efforts of a robot's motors.

        Raises
        ------
        TypeError, ValueError
            For a system without limits, or without finite ones.
        """
        limits = capability(system, KnownLimits).control_limits
        if limits is None:
            raise TypeError(f"system: {type(system).__name__} knows no limits of its controls")
        return cls(*_finite_limits(limits(), system, "controls"))

    def __repr__(self) -> str:
        return f"ControlBounds({self.lower.tolist()}, {self.upper.tolist()})"

    def adjusted(self, **values: Any) -> Self:
        """The constraint with other limits, of the same shapes."""
        return _with_limits(self, "ControlBounds", values)

    def limits(self, horizon: int, nu: int) -> tuple[np.ndarray, np.ndarray]:
        """Limits lower and upper (N, nu)."""
        return (
            _rows_over("ControlBounds lower", self.lower, horizon, nu),
            _rows_over("ControlBounds upper", self.upper, horizon, nu),
        )


def with_own_names(
    constraints: Sequence[ControlBounds | ResidualConstraint],
) -> tuple[ControlBounds | ResidualConstraint, ...]:
    """The constraints with unique names: the second "state bounds" becomes "state bounds 2", and so on."""
    given, taken, named = {one.name for one in constraints}, set(), []
    for one in constraints:
        name, k = one.name, 1
        while name in taken or (k > 1 and name in given):
            k += 1
            name = f"{one.name} {k}"
        if name != one.name:
            one = copy.copy(one)
            one.name = name
        taken.add(name)
        named.append(one)
    return tuple(named)


def common_limits(constraints: Any, horizon: int, nu: int) -> tuple[np.ndarray, np.ndarray] | None:
    """Limits lower and upper (N, nu) of all `ControlBounds` together, None if there are none."""
    bounds = [c.limits(horizon, nu) for c in constraints if isinstance(c, ControlBounds)]
    if not bounds:
        return None
    lower, upper = np.max([low for low, _ in bounds], axis=0), np.min([high for _, high in bounds], axis=0)
    if (lower > upper).any():
        raise ValueError("constraints: the ControlBounds have no control in common at some knot")
    return lower, upper


class ResidualConstraint:
    """The constraint lower <= r(x, u) <= upper for any residual r.

    Parameters
    ----------
    residual : Residual, or a function r(x) or r(x, u)
        The problem converts a function to a residual for its system, as `trajopt.residual` does, which has more
        options.
    lower, upper : number, (nr,) or (K, nr) array
        Limits, K the number of knots; equal ones make an equality.  By default infinite; if both are left out, the
        residual's own `lower` and `upper` if it has them, or else r = 0.
    at : "path" (default), "terminal", "all", knots, times or a slice
        Knots 0 ... N-1, the last knot N, or both; or others, see `trajopt.interfaces.terms`.  Where r does not depend
        on the controls, knot 0 is left out unless its state is free; where it does, a slice ends before knot N, which
        has no controls.
    name : str, optional
        Name in reports.

    Attributes
    ----------
    at : str, a slice, or the knots or times as a tuple; in a problem's constraints, str or knots
    component_names : names of the entries of r in reports, empty if the residual has none

    Raises
    ------
    TypeError, ValueError
        Naming the argument, the value it got and the one expected.

    Examples
    --------
    >>> system = problems.make("cartpole").system
    >>> rail = trajopt.StateResidual(system, np.zeros(4), [0])  # where the cart is
    >>> trajopt.ResidualConstraint(rail, lower=-0.5, upper=0.5, name="rail")
    ResidualConstraint('rail', nr=1, at='path')
    >>> trajopt.ResidualConstraint(rail, at="terminal")  # r = 0
    ResidualConstraint('StateResidual', nr=1, at='terminal')
    >>> outside = trajopt.ResidualConstraint(lambda x: x[0] ** 2 + x[1] ** 2, lower=1.0, name="outside of the disc")
    """

    adjustable = "lower", "upper"

    def __init__(
        self,
        residual: Residual | Callable,
        lower: ArrayLike | None = None,
        upper: ArrayLike | None = None,
        at: At = "path",
        name: str = "",
    ) -> None:
        if lower is None and upper is None:
            lower, upper = getattr(residual, "lower", 0.0), getattr(residual, "upper", 0.0)
        lower, upper = -np.inf if lower is None else lower, np.inf if upper is None else upper
        where = checked_at(at)
        if where is None:
            raise ValueError("at: got None, expected knots, times, a slice, or one of 'path', 'terminal', 'all'")
        self.at: Where = where
        self._ends_before_last = isinstance(where, slice)
        self.name = as_text("name", name)
        if is_function(residual):
            self.residual: Any = residual
            self.nr, self.component_names = 0, ()
            self.name = self.name or function_name(residual)
            self.lower, self.upper = limit_rows("lower", lower, None), limit_rows("upper", upper, None)
            _check_order(self.name, self.lower, self.upper)
        else:
            self._take(residual, lower, upper)

    def _take(self, residual: Any, lower: ArrayLike, upper: ArrayLike) -> None:
        check_residual(residual)
        self.residual = residual
        self.nr = as_whole_number("residual.nr", getattr(residual, "nr", None), 1)
        self.lower, self.upper = limit_rows("lower", lower, self.nr), limit_rows("upper", upper, self.nr)
        self.name = self.name or getattr(residual, "name", "") or type(residual).__name__
        self.component_names = component_names(residual)
        if len(self.component_names) not in (0, self.nr):
            raise ValueError(f"residual.component_names: got {len(self.component_names)} names, expected {self.nr}")
        _check_order(self.name, self.lower, self.upper)

    def for_system(self, system: System, x0: np.ndarray | None = None) -> Self:
        """The constraint for this system, whose states are like x0 (nx,): a function is converted to a residual."""
        if not is_function(self.residual):
            return self
        from trajopt.callable_system.function_residual import residual_of

        new = copy.copy(self)
        new._take(residual_of(self.residual, system, x0), self.lower, self.upper)
        return new

    def __repr__(self) -> str:
        at = self.at
        if isinstance(at, tuple) and len(at) >= 4:
            at = f"{at[0]} ... {at[-1]}"
        return f"{type(self).__name__}({self.name!r}, nr={self.nr or 'unknown'}, at={at!r})"

    def adjusted(self, **values: Any) -> Self:
        """The constraint with other limits, of the same shapes."""
        return _with_limits(self, self.name, values)

    def placed(self, times: np.ndarray) -> Self:
        """The constraint along knots at times (N+1,), s: ``at`` becomes knots unless it is a word.  Raises ValueError
        for knots beyond the horizon."""
        if isinstance(self.at, str):
            return self
        at = tuple(knots_at(self.at, times, self.name).tolist())
        if isinstance(self.at, tuple) and repr(at) == repr(self.at):  # knots, not times in seconds
            return self
        new = copy.copy(self)
        new.at = at
        return new

    def knots(self, horizon: int, state_only: bool) -> np.ndarray:
        """The knots at which it holds, N for the last one.  Raises ValueError for one beyond the horizon."""
        if isinstance(self.at, tuple) and isinstance(self.at[0], float):
            raise ValueError(f"at: {self.name} got times, expected the constraint of a problem, which has knots")
        found = knots_at(self.at, np.arange(horizon + 1.0), self.name)
        left_out = 0 if state_only and self.at != "terminal" else horizon if self._ends_before_last else -1
        return found[found != left_out]

    def limits(self, knots: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Limits lower and upper (len(knots), nr) at the given knots."""
        listed = isinstance(self.at, tuple)
        asked = np.array(self.at) if listed else knots
        held = np.isin(asked, knots) if listed else slice(None)
        return (
            _rows_over(f"{self.name} lower", self.lower, len(asked), self.nr)[held],
            _rows_over(f"{self.name} upper", self.upper, len(asked), self.nr)[held],
        )


class StateBounds(ResidualConstraint):
    """lower <= x (-) x_ref <= upper, component by component of the tangent vector.

    Parameters
    ----------
    system : System
    lower, upper : number, (ndx,) array, or mapping of components' names to numbers
        Limits of x (-) x_ref, infinite by default; components with two infinite limits are free.  Names are those of
        the system, with their units or without: for a robot those of its joints, as "elbow", and "elbow velocity".
    reference : (nx,) array, optional
        x_ref, by default the system's neutral state, or zeros, so that the limits are those of the state itself where
        it is a plain vector, such as angles of joints.
    at : "all" (default), "path", "terminal", knots, times or a slice
        See `ResidualConstraint`.  Knot 0 is left out unless its state is free.
    name : str, optional

    Examples
    --------
    >>> system = problems.make("cartpole").system
    >>> trajopt.StateBounds(system, lower={"rail": -0.5}, upper={"rail": 0.5, "pivot velocity": 8.0})
    StateBounds('state bounds', nr=2, at='all')
    >>> ends = trajopt.StateBounds(system, [-0.1] * 4, [0.1] * 4, reference=[0.0, np.pi, 0.0, 0.0], at="terminal")
    """

    def __init__(
        self,
        system: System,
        lower: Limits = -np.inf,
        upper: Limits = np.inf,
        reference: ArrayLike | None = None,
        at: At = "all",
        name: str = "state bounds",
    ) -> None:
        check_system(system, "nx", "ndx", "difference")
        low, high, used = limited_components("StateBounds", lower, upper, tangent_names(system), system.ndx)
        super().__init__(StateResidual(system, reference, used), low, high, at, name)

    @classmethod
    def from_model(
        cls,
        system: System,
        position: bool = True,
        velocity: bool = True,
        at: At = "all",
        name: str = "state bounds",
    ) -> StateBounds:
        """The limits of the system: ranges and speeds of a robot's joints.

        Parameters: position, velocity, True to include these; at, name: see `StateBounds`.

        Raises
        ------
        TypeError, ValueError
            For a system without limits, without finite ones, or with some that do not fit its tangent vectors.
        """
        limits = capability(system, KnownLimits).state_limits
        if limits is None:
            raise TypeError(f"system: {type(system).__name__} knows no limits of its states")
        found = limits(position=position, velocity=velocity)
        return cls(system, *_finite_limits(found, system, "states"), at=at, name=name)
