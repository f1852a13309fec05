"""Working memory of solves, filled with numbers that mean nothing: a solve that reads one before it has written it ends
elsewhere than one whose memory is fresh.

Working memory is what solves have been seen to change, number by number: all arrays that can be reached from what is
kept between them, results of prepared calls and their numbers among them; and of a program's state all but what it is
prepared with.
"""

import gc
from ctypes import c_byte
from types import FunctionType, MethodType, ModuleType
from typing import Any, NamedTuple

import numpy as np

from dynamics.simd.dispatchers import KeepingDispatcher
from dynamics.simd.prepared_calls import PreparedCall
from trajopt.problem.problem import Problem
from trajopt.solvers.compiled import STATE

SET_UP = {
    *"tolerance absolute_tolerance threshold limit feasibility_tolerance complementarity_tolerance".split(),
    *"scaled_tolerance soft_penalty most most_sweeps limited timed rows checked alone".split(),
    *STATE.names[STATE.names.index("iterate") :],
}
"""Fields of `STATE` that are written when a program is prepared, or with the options: its last ones are addresses."""
GARBAGE = (np.nan, -1), (1e300, 3), (-7.3, 2**40 + 1), (0.0, 0), (np.inf, 1)
"""Numbers, and integers, that mean nothing."""
OTHERS = (type, ModuleType, KeepingDispatcher, Problem, str, bytes, int, float)
"""Types of what leads to no working memory."""


class Part(NamedTuple):
    """A piece of memory, which is not referred to: who counts references to results must not count this one."""

    address: int
    size: int
    kind: str

    def array(self) -> np.ndarray:
        """Its numbers."""
        return np.frombuffer((c_byte * self.size).from_address(self.address), self.kind)


def _add(array: np.ndarray, found: set[Part]) -> None:
    if array.size and array.flags.writeable and array.flags.forc and array.dtype.kind in "fib":
        found.add(Part(array.__array_interface__["data"][0], array.nbytes, array.dtype.str))


def _of_call(call: PreparedCall, found: set[Part]) -> list[Any]:
    """Add the result of a prepared call and numbers among its arguments; returns its arguments."""
    _add(call.room, found)
    for start, value in zip(call._starts, call._args, strict=True):
        if type(value) is float:
            _add(call._numbers[start : start + 1], found)
    return [call._args]


def parts_of(*roots: Any) -> tuple[set[Part], list[np.ndarray]]:
    """All memory that can be reached from some objects, and the states of programs there."""
    seen, found, states, left = {}, set(), [], list(roots)
    while left:
        each = left.pop()
        if id(each) in seen or isinstance(each, OTHERS):
            continue
        seen[id(each)] = each  # so that no other object has this identity meanwhile
        if isinstance(each, np.ndarray):
            if each.dtype == STATE and each.base is None:
                states.append(each)
            _add(each, found)
            left.append(each.base)
        elif isinstance(each, PreparedCall):
            left += _of_call(each, found)
        elif isinstance(each, FunctionType):
            left += [cell.cell_contents for cell in each.__closure__ or ()]
        elif isinstance(each, MethodType):
            left.append(each.__self__)
        elif isinstance(each, memoryview):
            left.append(each.obj)
        elif type(each).__module__.partition(".")[0] not in ("numba", "llvmlite"):
            left += gc.get_referents(each)
    places = [(state.__array_interface__["data"][0], state.nbytes) for state in states]
    views = {part for part in found if any(at <= part.address < at + size for at, size in places)}
    return found - views, states


class WorkingMemory:
    """What solves change of all that is kept between them.

    Parameters
    ----------
    roots : function without arguments that returns what is kept
    """

    def __init__(self, roots: Any) -> None:
        self._roots, self._last, self._changed = roots, {}, {}
        self.watch()

    def watch(self) -> None:
        """Notice what has changed since the last time."""
        parts, _ = parts_of(*self._roots())
        now = {part: part.array().tobytes() for part in parts}
        for part, content in now.items():
            before = self._last.get(part, content)
            differ = np.frombuffer(before, np.uint8) != np.frombuffer(content, np.uint8)
            differ = differ.reshape(-1, np.dtype(part.kind).itemsize).any(axis=1)
            self._changed[part] = self._changed.get(part, False) | differ
        self._last = now

    def fill(self, number: float, integer: int) -> int:
        """Fill it; returns how many numbers that were."""
        parts, states = parts_of(*self._roots())
        count = 0
        for part in parts & self._changed.keys():
            numbers, changed = part.array(), self._changed[part]
            numbers[changed] = number if part.kind[1] == "f" else np.array(integer).astype(part.kind)
            count += int(changed.sum())
        for state in states:
            for name in set(STATE.names) - SET_UP:
                state[name] = number if STATE[name].kind == "f" else integer
        return count
