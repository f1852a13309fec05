"""An initial state that is free, in all its components or some, within limits or without."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from trajopt.interfaces.system import System, neutral_state, tangent_names
from trajopt.problem.components import moving_components, named_components, plain_components
from trajopt.problem.constraints import limit_rows, limits_by_name
from trajopt.validation import number_array

ARGUMENT = "free_initial_state"
WANTED = "True, components, a mask, or limits (lower, upper)"


class FreeInitialState(NamedTuple):
    """Which components (F,) of the initial state are free, and their limits (F,), counted from the neutral state."""

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
        pair = number_array(f"{ARGUMENT}[{name!r}]", (-np.inf, np.inf) if limits is None else limits)
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
