"""Functions that are chosen by the type of an argument, when callers are compiled.

    carve_dynamics = by_type("contacts", {None: _free, ContactArrays: _held})

calls `_free` where the argument of this name is None, and `_held` where it is one of those blocks; the other is not
compiled at all, and may return another type.  All take the same parameters.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from numba import types
from numba.extending import overload

from dynamics.simd.compilation import INLINED
from dynamics.simd.lane_blocks import parameters_of


def by_type(argument: str, cases: Mapping[type | None, Any]) -> Callable[..., Any]:
    """One function of them all, for compiled callers and for Python; called without names of arguments.

    Parameters
    ----------
    argument : name of the parameter whose type decides
    cases : compiled functions, by the NamedTuple that this argument is, or None
    """
    parameters = parameters_of(next(iter(cases.values())))
    place, names = parameters.index(argument), ", ".join(parameters)

    def choose(*arguments):
        block = arguments[place]
        return cases[None if block is None else type(block)](*arguments)

    def typed(block):
        """The case as numba wants it: a function of its own with these parameters."""
        case = cases[None if isinstance(block, types.NoneType) else block.instance_class]
        return eval(f"lambda {names}: case({names})", {"case": case})

    overload(choose, jit_options=INLINED)(eval(f"lambda {names}: typed({argument})", {"typed": typed}))
    return choose
