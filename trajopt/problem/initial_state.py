"""Free initial states: components by name or number, and their limits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from dynamics.validation import as_floats, has_mask
from trajopt.costs.residuals import chosen_components
from trajopt.interfaces.state_space import SIZES, state_space
from trajopt.interfaces.system import System, neutral_state, tangent_names
from trajopt.problem.constraints import component, limit_rows, limits_by_name
from trajopt.problem.extended_system import innermost
from trajopt.problem.free_duration import FreeDurationSystem

# --------------------------------------------------------------------------------------------
# Some components of a system's tangent vectors, by name, by number or as a mask; which of them are plain numbers.


def components_of(argument: str, value: Any, names: tuple[str, ...], count: int) -> np.ndarray:
    """Numbers of the components that are meant: a name or names, integers, or a mask (count,).

    Raises TypeError or ValueError, naming the argument.
    """
    listed = [value] if isinstance(value, str) else value
    if isinstance(listed, (list, tuple)) and listed and all(isinstance(one, str) for one in listed):
        return _each_once(argument, np.array([component(argument, one, names) for one in listed]))
    mask = np.asarray(value)
    if mask.dtype == bool and not has_mask(value):
        if mask.shape != (count,) or not mask.any():
            raise ValueError(f"{argument}: got a mask of shape {mask.shape}, expected ({count},) with some True")
        return np.flatnonzero(mask)
    try:
        found = chosen_components(value, count)
    except (TypeError, ValueError) as error:
        told = str(error).removeprefix("components: ")
        raise type(error)(f"{argument}: {told}") from None
    return _each_once(argument, found)


def _each_once(argument: str, found: np.ndarray) -> np.ndarray:
    if len(np.unique(found)) < len(found):
        raise ValueError(f"{argument}: got components {found.tolist()}, expected each once")
    return found


def named_components(argument: str, value: Any, system: System) -> np.ndarray:
    """Indices of components of a system's tangent vectors, from an argument that has them by name, index or mask."""
    return components_of(argument, value, tangent_names(system), system.ndx)


def moving_components(system: System) -> np.ndarray:
    """All components but durations, which are chosen where a phase begins."""
    timed: Any = innermost(system, FreeDurationSystem)
    every = np.arange(system.ndx)
    return np.delete(every, timed.ndx - 1) if isinstance(timed, FreeDurationSystem) else every


def plain_components(system: System) -> np.ndarray:
    """True (ndx,) for components of a difference of states that are differences of entries of a state."""
    factors = state_space(system).factors
    if factors is None:
        return np.zeros(system.ndx, dtype=bool)
    parts = []
    for kind, *rest in factors:
        size = SIZES[kind][1] if kind in SIZES else rest[0] * (2 if kind == "charts" else 1)
        parts.append(np.full(size, kind not in SIZES))
    return np.concatenate(parts)


# --------------------------------------------------------------------------------------------
# An initial state that is free, in all its components or some, within limits or without.

ARGUMENT = "free_initial_state"
WANTED = "True, components, a mask, or limits (lower, upper)"


class FreeInitialState(NamedTuple):
    """Free components (F,) of the initial state and their limits (F,), counted from the neutral state."""

    components: np.ndarray
    lower: np.ndarray
    upper: np.ndarray


def free_initial_state(value: Any, system: System, x0: np.ndarray) -> FreeInitialState | None:
    """The argument of a problem with this initial state, as `trajopt.Problem` describes it; None where nothing is free.

    Raises TypeError or ValueError, naming the argument, what it got and what was expected.
    """
    if value is None or value is False or isinstance(value, FreeInitialState):
        return value or None
    if value is True:
        return _unlimited(moving_components(system))
    if isinstance(value, Mapping):
        return _of_mapping(value, system)
    if isinstance(value, tuple) and len(value) == 2 and not isinstance(value[0], (str, bool, np.bool_)):
        return _within(*value, system, x0)
    if isinstance(value, (int, float, complex)) or not isinstance(value, (str, list, tuple, np.ndarray)):
        raise TypeError(f"{ARGUMENT}: got {value!r}, expected {WANTED}")
    if isinstance(value, np.ndarray) and value.ndim == 2:
        if len(value) != 2:
            raise ValueError(f"{ARGUMENT}: got shape {value.shape}, expected (2, {system.ndx}), lower and upper limits")
        return _within(value[0], value[1], system, x0)
    return _unlimited(named_components(ARGUMENT, value, system))


def _unlimited(components: np.ndarray) -> FreeInitialState:
    return FreeInitialState(components, np.full(len(components), -np.inf), np.full(len(components), np.inf))


def _of_mapping(value: Mapping[str, Any], system: System) -> FreeInitialState:
    """Components by name, each with its limits or None."""
    if not value:
        raise ValueError(f"{ARGUMENT}: got an empty mapping, expected {WANTED}")
    lower, upper, names = {}, {}, tangent_names(system)
    for name, limits in value.items():
        pair = as_floats(f"{ARGUMENT}[{name!r}]", (-np.inf, np.inf) if limits is None else limits)
        if pair.shape != (2,):
            raise ValueError(f"{ARGUMENT}[{name!r}]: got shape {pair.shape}, expected (lower, upper)")
        lower[name], upper[name] = pair
    components = named_components(ARGUMENT, list(value), system)
    whole = [np.asarray(limits_by_name(ARGUMENT, each, names, 0.0)) for each in (lower, upper)]
    return _checked(components, whole[0][components], whole[1][components], system)


def _within(lower: Any, upper: Any, system: System, x0: np.ndarray) -> FreeInitialState:
    """Limits of all components; those whose limits are equal are not free."""
    names, whole = tangent_names(system), []
    for which, limits, rest in ("lower", lower, -np.inf), ("upper", upper, np.inf):
        what = f"{ARGUMENT} {which}"
        rows = limit_rows(what, limits_by_name(what, limits, names, rest), system.ndx)
        if rows.ndim > 1:
            raise ValueError(f"{what}: got shape {rows.shape}, expected a number or ({system.ndx},)")
        whole.append(np.broadcast_to(rows, (system.ndx,)))
    low, high = whole
    fixed = np.flatnonzero(low == high)
    given = system.difference(neutral_state(system), x0)
    away = fixed[np.abs(given[fixed] - low[fixed]) > 1e-9 * (1.0 + np.abs(low[fixed]))]
    if len(away):
        i = int(away[0])
        called = repr(names[i]) if names else f"component {i}"
        raise ValueError(f"{ARGUMENT}: got two limits {low[i]:g} of {called}, expected x0's {given[i]:g}")
    free = np.setdiff1d(moving_components(system), fixed)
    return _checked(free, low[free], high[free], system)


def _checked(components: np.ndarray, lower: np.ndarray, upper: np.ndarray, system: System) -> FreeInitialState:
    names, plain = tangent_names(system), plain_components(system)
    for i, low, high in zip(components, lower, upper, strict=True):
        called = repr(names[i]) if names else f"component {i}"
        if not low <= high or low == np.inf or high == -np.inf:
            raise ValueError(f"{ARGUMENT}: got the limits {low:g} and {high:g} of {called}, expected lower <= upper")
        if not plain[i] and (np.isfinite(low) or np.isfinite(high)):
            raise ValueError(
                f"{ARGUMENT}: got limits of {called}, which is part of a rotation or a pose and no number of a state, "
                "expected none, and StateBounds or a ResidualConstraint, which hold at the first knot too"
            )
    return FreeInitialState(components, lower, upper)
