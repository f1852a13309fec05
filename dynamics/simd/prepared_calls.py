"""Calls of compiled functions that are made again and again: their arguments are packed once, into a block of words.

    call = PreparedCall(function, xs, us, 0.1)      packs, as `dynamics.simd.entries` describes
    call()                                          0.25 us, whatever the arguments
    call.set(2, 0.2)                                another number, or another array of the same type
    PreparedCalls(call, other)()                    several, one after another

Arrays are read and written where they lie, so that who prepares a call must keep what it says of them: shapes and types
are looked at once, when the call is prepared.  A block refers to its arrays, function and result, so none of them is
freed before it; it belongs to one thread at a time, and to one process.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from struct import Struct
from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir
from numba import types
from numba.core.registry import cpu_target
from numba.extending import intrinsic

from dynamics.simd import scratch_guard, threads
from dynamics.simd.compilation import by_address, routine
from dynamics.simd.dispatchers import KeepingDispatcher
from dynamics.simd.entries import ENTRY, RESULT, entry_name

SCRATCH = "work", "ws"
"""Names of arguments that are scratch."""
RETURNED_NONE = -2
"""numba's status of a function that returned None; 0 is that of one that returned a value."""


@intrinsic
def _entered(typing, address):
    def generate(context, builder, sig, args):
        block = builder.inttoptr(args[0], ENTRY.args[0])
        entry = builder.inttoptr(builder.load(block), ENTRY.as_pointer())
        return builder.call(entry, [block])

    return types.int32(types.int64), generate


@routine
def enter(address):
    """Make the call of the block at this address; returns numba's status."""
    return _entered(address)


def _access(kind, code):
    """Functions of compiled code that read and write a number of a type at an address."""

    @intrinsic
    def read(typing, address):
        def generate(context, builder, sig, args):
            return builder.load(builder.inttoptr(args[0], code.as_pointer()))

        return kind(types.int64), generate

    @intrinsic
    def write(typing, address, value):
        def generate(context, builder, sig, args):
            builder.store(args[1], builder.inttoptr(args[0], code.as_pointer()))
            return context.get_dummy_value()

        return types.none(types.int64, kind), generate

    return read, write


@by_address
def _first_of(numbers):
    return numbers[0]


float_at, put_float = _access(types.float64, ir.DoubleType())
integer_at, _ = _access(types.int64, ir.IntType(64))


# ------------------------------------------------------------------------------------------------ words and results
def _pack(value: Any, words: list[int], kept: list[np.ndarray]) -> Any:
    """Append the machine words of a value, in the order of numba's calling convention, and the arrays among it; returns
    what numba's type of it depends on."""
    if isinstance(value, np.ndarray):
        flags = value.flags
        if not flags.c_contiguous:
            raise TypeError(f"arguments of prepared calls: got an array of strides {value.strides}, expected C order")
        address = value.ctypes.data  # as fast as the array interface, which takes 44 us where numbers have names
        words += (0, 0, value.size, value.itemsize, address, *value.shape, *value.strides)
        kept.append(value)
        return value.dtype, value.ndim, flags.writeable
    if isinstance(value, tuple):
        return (type(value), *[_pack(x, words, kept) for x in value])
    if value is None:
        words.append(0)
    elif isinstance(value, float):
        words += _WORD.unpack(_NUMBER.pack(value))
    elif isinstance(value, int) or getattr(value, "dtype", None) in (bool, np.int64):
        words.append(int(value))
    else:
        raise TypeError(f"arguments of prepared calls: got {value!r}, expected arrays, numbers, None, tuples of them")
    return type(value)


_NUMBER, _WORD = Struct("d"), Struct("q")
_CONTEXT = cpu_target.target_context


def _layout(kind, code) -> np.dtype:
    """How a result of numba's type `kind`, LLVM's `code`, lies in memory: a number, or a tuple as one record."""
    if isinstance(kind, types.Boolean | types.Float | types.Integer):
        return np.dtype(str(kind))
    if not isinstance(kind, types.BaseTuple):
        raise TypeError(f"results of prepared calls: got {kind}, expected None, numbers, and tuples of them")
    members = code.elements if isinstance(code, ir.LiteralStructType) else [code.element] * len(kind)
    formats, offsets, end = [], [], 0
    for part, member in zip(tuple(kind), members, strict=True):  # pyright: ignore[reportArgumentType]
        align = member.get_abi_alignment(_CONTEXT.target_data)
        offsets.append(-(-end // align) * align)
        formats.append(_layout(part, member))
        end = offsets[-1] + member.get_abi_size(_CONTEXT.target_data)
    names = [f"f{i}" for i in range(len(formats))]
    return np.dtype({"names": names, "formats": formats, "offsets": offsets, "itemsize": end})


def _nothing() -> None:
    """The result of a function that returns None."""


class _Compiled(NamedTuple):
    """A function compiled for some types: the address of its entry, the words of its result, and the layout of that,
    None for a function that returns None."""

    entry: int
    words: int
    layout: np.dtype | None


def _compiled(function: KeepingDispatcher, args: tuple) -> _Compiled:
    kinds = tuple(function.typeof_pyval(x) for x in args)
    function.compile(kinds)
    compiled = function.overloads[kinds]
    entry = compiled.library.get_pointer_to_function(entry_name(compiled.fndesc))
    if not entry:
        raise TypeError(f"{function.__qualname__} has no entry: only drivers and routines have one")
    kind = compiled.fndesc.restype
    code = _CONTEXT.get_value_type(kind)
    layout = None if isinstance(kind, types.NoneType) else _layout(kind, code)
    return _Compiled(entry, -(-code.get_abi_size(_CONTEXT.target_data) // 8) + 1, layout)


# ------------------------------------------------------------------------------------------------ calls
class PreparedCall:
    """A call of a driver or routine with given arguments, made by its address.

    Raises TypeError if an argument or the result is something else than arrays, numbers, None and tuples of them."""

    def __init__(self, function: KeepingDispatcher, *args: Any) -> None:
        words: list[int] = [0, 0]
        self.function, self._starts, self._kept, self._kinds, self._args = function, [], [], [], list(args)
        for x in args:
            kept: list[np.ndarray] = []
            self._starts.append(len(words))
            self._kinds.append(_pack(x, words, kept))
            self._kept.append(kept)
        kinds = tuple(self._kinds)
        compiled = function.prepared.get(kinds)
        if compiled is None:
            compiled = function.prepared[kinds] = _compiled(function, args)
        result = len(words)
        words += (0,) * compiled.words
        self.block = np.array(words, dtype=np.int64)
        self._numbers = self.block.view(np.float64)
        self.address: int = self.block.__array_interface__["data"][0]
        """Of the block, for `enter` and for compiled callers."""
        self.block[0], self.block[RESULT] = compiled.entry, self.address + 8 * result
        self.room = self.block[result:]
        """Words of the last result, for compiled callers."""
        self.result_address: int = self.address + 8 * result
        layout, self._returns = compiled.layout, compiled.layout is not None
        at = None if layout is None else self.room.view(np.uint8)[: layout.itemsize].view(layout)
        self.result: Callable[[], Any] = _nothing if at is None else at.item
        """Result of the last call."""

    def argument_address(self, place: int) -> int:
        """Address of the first word of an argument, for compiled callers that set a number."""
        return self.address + 8 * self._starts[place]

    @property
    def arguments(self) -> tuple[Any, ...]:
        """What the function is called with."""
        return tuple(self._args)

    def set(self, place: int, value: Any) -> None:
        """Replace an argument by another value of its type.  Raises TypeError if the type is another one."""
        known, start = self._args[place], self._starts[place]
        if value is known:
            return
        if type(value) is type(known) is float:
            self._numbers[start] = self._args[place] = value
            return
        words, kept = [], []
        got = _pack(value, words, kept)
        if got != self._kinds[place]:
            raise TypeError(
                f"argument {place} of {self.function.__qualname__}: got {got}, expected {self._kinds[place]}"
            )
        self.block[start : start + len(words)], self._kept[place], self._args[place] = words, kept, value

    def again(self) -> PreparedCall:
        """The call of a function that returns the number which this one has returned last, without doing it again."""
        return PreparedCall(_first_of, self.room.view(np.float64))

    def __call__(self) -> Any:
        """Make the call; returns what the function returns.  Raises RuntimeError if it raised an exception."""
        status = enter(self.address)
        if status not in (0, RETURNED_NONE):
            self.check(status)
        return self.result() if self._returns else None

    def _looked_at(self) -> Any:
        """`__call__`, and a look at the arrays before and after it."""
        before = scratch_guard.holding_nan(self._watched())
        self.check(enter(self.address))
        scratch_guard.blame(self.function, before, scratch_guard.holding_nan(self._watched()))
        return self.result()

    if scratch_guard.ON:
        __call__ = _looked_at

    def _watched(self) -> list[np.ndarray]:
        """All arrays but scratch, whose numbers mean nothing before the call, or behind it."""
        names = self.function.py_func.__code__.co_varnames
        return [x for name, kept in zip(names, self._kept, strict=False) if name not in SCRATCH for x in kept]

    def check(self, status: int) -> None:
        """Raise RuntimeError if the call ended with an exception."""
        if status not in (0, RETURNED_NONE):
            raise RuntimeError(f"{self.function.__qualname__} raised an exception in a prepared call")

    def __reduce__(self):
        raise TypeError("prepared calls hold addresses of this process and cannot be pickled")


class PreparedLaunch:
    """A call of `dynamics.simd.launch` with given arguments, each thread's range of chunks a prepared call.

    Its scratch is that of all launches of the thread which prepares it, where it is to be called.  It is prepared anew
    when the number of threads has changed."""

    def __init__(
        self,
        drive: KeepingDispatcher,
        knots: int,
        workspace_size: int,
        *args: Any,
        effort: int | None = None,
        most_threads: int | None = None,
    ) -> None:
        self.drive, self._knots, self._size, self._args = drive, knots, workspace_size, args
        self._effort, self._most_threads = effort or workspace_size, most_threads
        self._prepare()

    def _prepare(self) -> None:
        self._team = threads.num_threads()
        bounds = threads.shares(self._knots, self._effort, self._most_threads)
        guard = scratch_guard.ROWS if scratch_guard.ON else 0
        self._rows = threads.scratch(self._size + guard, len(bounds))
        self._calls = [
            PreparedCall(self.drive, *bounds[t], self._rows[t, : self._size], *self._args) for t in range(len(bounds))
        ]
        self._tasks = [partial(enter, call.address) for call in self._calls]

    def set(self, place: int, value: Any) -> None:
        """Replace the driver's argument at this place behind the workspace, as `PreparedCall.set`."""
        for call in self._calls:
            call.set(3 + place, value)
        self._args = (*self._args[:place], value, *self._args[place + 1 :])

    def __call__(self) -> Any:
        """Launch the driver; returns the result of the first range of chunks."""
        if self._team != threads.num_threads():
            self._prepare()
        if scratch_guard.ON:
            scratch_guard.lay(self._rows)
        first, *rest = self._calls
        if not rest:
            result = first()
        else:
            for call, status in zip(self._calls, threads.together(self._tasks), strict=True):
                call.check(status)
            result = first.result()
        if scratch_guard.ON:
            scratch_guard.check(self.drive, self._rows, self._size)
        return result

    @property
    def calls(self) -> tuple[PreparedCall, ...] | None:
        """The call that it is, None where several threads share it."""
        if self._team != threads.num_threads():
            self._prepare()
        return tuple(self._calls) if len(self._calls) == 1 else None


class PreparedCalls:
    """Prepared functions called one after another, whose result is that of the last one, or what `result` returns.

    Parameters
    ----------
    parts : PreparedCall, PreparedLaunch, PreparedCalls, or other functions without arguments
    result : function without arguments, optional
        It returns the result of the calls made last.
    """

    def __init__(self, *parts: Callable[[], Any], result: Callable[[], Any] | None = None) -> None:
        self._parts, self.result = parts, result

    def __call__(self) -> Any:
        """Make the calls."""
        found = None
        for part in self._parts:
            found = part()
        return found if self.result is None else self.result()

    @property
    def calls(self) -> tuple[PreparedCall, ...] | None:
        """All calls that it consists of, in their order; None if some part of it is no prepared call."""
        found = [calls_of(part) for part in self._parts]
        return None if None in found else tuple([call for calls in found for call in calls or ()])

    @property
    def checks(self) -> tuple[Callable[[], bool], ...]:
        """The checks of all its parts; see `checks_of`."""
        return tuple([check for part in self._parts for check in checks_of(part)])


def calls_of(function: Callable[[], Any]) -> tuple[PreparedCall, ...] | None:
    """The prepared calls that a function without arguments makes, and nothing else, so that compiled code can make them
    in its place; None where it does more, in Python or in several threads."""
    return (function,) if isinstance(function, PreparedCall) else getattr(function, "calls", None)


def checks_of(function: Callable[[], Any]) -> tuple[Callable[[], bool], ...]:
    """Functions without arguments for whoever makes the calls of `calls_of`, and then asks these: each returns True if
    the calls were the right ones, False if others, which `calls_of` then returns, are to be made in their place, as
    where a function of the user is not what it was when it was traced.  Calls that read nothing but arrays have none.
    """
    return getattr(function, "checks", ())
