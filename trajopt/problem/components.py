"""Some components of a system's tangent vectors, by name, by number or as a mask; which of them are plain numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from trajopt.costs.residuals import chosen_components
from trajopt.interfaces.state_space import SIZES, state_space
from trajopt.interfaces.system import System, tangent_names
from trajopt.problem.constraints import component
from trajopt.problem.extended_system import innermost
from trajopt.problem.free_duration import FreeDurationSystem


def components_of(argument: str, value: Any, names: tuple[str, ...], count: int) -> np.ndarray:
    """Numbers of the components that are meant: a name or names, integers, or a mask (count,).

    Raises TypeError or ValueError, naming the argument.
    """
    listed = [value] if isinstance(value, str) else value
    if isinstance(listed, (list, tuple)) and listed and all(isinstance(one, str) for one in listed):
        return _each_once(argument, np.array([component(argument, one, names) for one in listed]))
    mask = np.asarray(value)
    if mask.dtype == bool:
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
    """Those of a system's tangent vectors."""
    return components_of(argument, value, tangent_names(system), system.ndx)


def moving_components(system: System) -> np.ndarray:
    """All components but durations, which are chosen where a phase begins."""
    timed: Any = innermost(system, FreeDurationSystem)
    every = np.arange(system.ndx)
    return np.delete(every, timed.ndx - 1) if isinstance(timed, FreeDurationSystem) else every


def plain_components(system: System) -> np.ndarray:
    """Which components (ndx,) of a difference of states are differences of numbers of a state."""
    factors = state_space(system).factors
    if factors is None:
        return np.zeros(system.ndx, dtype=bool)
    parts = []
    for kind, *rest in factors:
        size = SIZES[kind][1] if kind in SIZES else rest[0] * (2 if kind == "charts" else 1)
        parts.append(np.full(size, kind not in SIZES))
    return np.concatenate(parts)
