"""Functions selected by the type of an argument when their callers are compiled.

    slice_dynamics = by_type("contacts", {None: _free, ContactArrays: _held})

calls `_free` where the argument of this name is None, and `_held` where it is a ContactArrays; the other function is
not compiled at all, and may return another type.  All take the same parameters.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from numba import types
from numba.core.imputils import lower_constant
from numba.extending import models, register_model, typeof_impl

from dynamics.simd.lane_blocks import parameters_of


class ByType:
    """A function that selects one of several, made by `by_type`."""

    def __init__(self, place: int, cases: Mapping[type | None, Any]) -> None:
        self.place, self.cases = place, cases

    def __call__(self, *arguments):
        block = arguments[self.place]
        return self.cases[None if block is None else type(block)](*arguments)


class _ByTypeType(types.Callable, types.Opaque):
    """Numba type of `ByType`: each call is typed as the case that the arguments' types select."""

    def __init__(self, function: ByType):
        self._function = function
        super().__init__(f"by_type({id(function)})")

    def _case(self, args):
        block = args[self._function.place]
        case = self._function.cases[None if isinstance(block, types.NoneType) else block.instance_class]
        return types.Dispatcher(case)

    def get_call_type(self, context, args, kws):
        return self._case(args).get_call_type(context, args, kws)

    def get_call_signatures(self):
        return (), True

    def get_impl_key(self, sig):
        return self._case(sig.args).get_impl_key(sig)


register_model(_ByTypeType)(models.OpaqueModel)


@typeof_impl.register(ByType)
def _typeof(value, _):
    return _ByTypeType(value)


@lower_constant(_ByTypeType)
def _constant(context, builder, ty, value):
    return context.get_dummy_value()


def by_type(argument: str, cases: Mapping[type | None, Any]) -> ByType:
    """Function that calls the case of an argument's type, in compiled code and in Python; takes no keyword arguments.

    Parameters
    ----------
    argument : name of the parameter whose type decides
    cases : compiled functions by the type of this argument, a NamedTuple class or None
    """
    return ByType(parameters_of(next(iter(cases.values()))).index(argument), cases)
