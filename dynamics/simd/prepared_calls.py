"""Calls of compiled functions that are made again and again: their arguments are packed once, into a block of words.

    call = PreparedCall(function, xs, us, 0.1)      packs, as `dynamics.simd.entries` describes
    call()                                          0.25 us, whatever the arguments
    call.set(2, 0.2)                                another number, or another array of the same type

Arrays are read and written where they lie, so that who prepares a call must keep what it says of them: shapes and types
are looked at once, when the call is prepared.  A block refers to its arrays, function and result, so none of them is
freed before it; it belongs to one thread at a time, and to one process.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core.registry import cpu_target
from numba.extending import intrinsic

from dynamics.simd import scratch_guard, threads
from dynamics.simd.compilation import routine
from dynamics.simd.dispatchers import KeepingDispatcher
from dynamics.simd.entries import ENTRY, RESULT, entry_name
from dynamics.simd.vector import LANES, aligned_zeros

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


# ------------------------------------------------------------------------------------------------ words and results
def _words(kind, value, words: list[int], kept: list[Any]) -> None:
    """Append the machine words of a value of numba's type `kind`, in the order of numba's calling convention."""
    if isinstance(kind, types.Array):
        kept.append(value)
        words += (0, 0, value.size, value.itemsize, value.__array_interface__["data"][0], *value.shape, *value.strides)
    elif isinstance(kind, types.BaseTuple):
        for part, x in zip(kind, value, strict=True):
            _words(part, x, words, kept)
    elif isinstance(kind, types.NoneType):
        words.append(0)
    elif isinstance(kind, types.Float) and kind.bitwidth == 64:
        words.append(int(np.float64(value).view(np.int64)))
    elif isinstance(kind, types.Integer | types.Boolean):
        words.append(int(value))
    else:
        raise TypeError(f"arguments of prepared calls: got {kind}, expected arrays, floats, integers, None and tuples")


def _reader(kind, code, room: np.ndarray, at: int) -> Callable[[], Any]:
    """Function that reads a result of numba's type `kind`, LLVM's `code`, from the bytes of `room` behind `at`."""
    if isinstance(kind, types.NoneType):
        return lambda: None
    if isinstance(kind, types.Boolean):
        item = room[at : at + 1].item
        return lambda: bool(item())
    if isinstance(kind, types.Float | types.Integer):
        return room[at : at + kind.bitwidth // 8].view(str(kind)).item
    if isinstance(kind, types.BaseTuple):
        members = code.elements if isinstance(code, ir.LiteralStructType) else [code.element] * len(kind)
        reads = []
        for part, member in zip(kind, members, strict=True):
            align = member.get_abi_alignment(_CONTEXT.target_data)
            at = -(-at // align) * align
            reads.append(_reader(part, member, room, at))
            at += member.get_abi_size(_CONTEXT.target_data)
        make = getattr(kind, "instance_class", lambda *results: results)
        return lambda: make(*(read() for read in reads))
    raise TypeError(f"results of prepared calls: got {kind}, expected None, numbers, and tuples of them")


_CONTEXT = cpu_target.target_context


# ------------------------------------------------------------------------------------------------ calls
class PreparedCall:
    """A call of a driver or routine with given arguments, made by its address.

    Raises TypeError if an argument or the result is something else than arrays, numbers, None and tuples of them."""

    def __init__(self, function: KeepingDispatcher, *args: Any) -> None:
        self._kinds = tuple(function.typeof_pyval(x) for x in args)
        function.compile(self._kinds)
        compiled = function.overloads[self._kinds]
        descriptor, self._library = compiled.fndesc, compiled.library
        address = self._library.get_pointer_to_function(entry_name(descriptor))
        if not address:
            raise TypeError(f"{function.__qualname__} has no entry: only drivers and routines have one")
        words: list[int] = [address, 0]
        self.function, self._starts, self._kept = function, [], []
        for kind, x in zip(self._kinds, args, strict=True):
            kept: list[Any] = []
            self._starts.append(len(words))
            _words(kind, x, words, kept)
            self._kept.append(kept)
        code = _CONTEXT.get_value_type(descriptor.restype)
        size = -(-code.get_abi_size(_CONTEXT.target_data) // 8) + 1
        self.block = np.array([*words, *([0] * size)], dtype=np.int64)
        self._address = self.block.__array_interface__["data"][0]
        self.block[RESULT] = self._address + 8 * len(words)
        self._read = _reader(descriptor.restype, code, self.block[len(words) :].view(np.uint8), 0)

    def set(self, place: int, value: Any) -> None:
        """Replace an argument by another value of its type.  Raises TypeError if the type is another one."""
        kind, words, kept = self._kinds[place], [], []
        got = kind if type(value) is float and isinstance(kind, types.Float) else self.function.typeof_pyval(value)
        if got != kind:
            raise TypeError(f"argument {place} of {self.function.__qualname__}: got {got}, expected {kind}")
        _words(kind, value, words, kept)
        start = self._starts[place]
        self.block[start : start + len(words)], self._kept[place] = words, kept

    @property
    def address(self) -> int:
        """Address of the block, for `enter` and for compiled callers."""
        return self._address

    def __call__(self) -> Any:
        """Make the call; returns what the function returns.  Raises RuntimeError if it raised an exception."""
        self.check(enter(self._address))
        return self.result()

    def result(self) -> Any:
        """Result of the last call."""
        return self._read()

    def check(self, status: int) -> None:
        """Raise RuntimeError if the call ended with an exception."""
        if status not in (0, RETURNED_NONE):
            raise RuntimeError(f"{self.function.__qualname__} raised an exception in a prepared call")

    def __reduce__(self):
        raise TypeError("prepared calls hold addresses of this process and cannot be pickled")


class Scratch:
    """Lane workspace of prepared launches that follow one another: one array, of the largest size that any asks for."""

    def __init__(self) -> None:
        self.memory = aligned_zeros(0, LANES)

    def rows(self, count: int, threads: int) -> np.ndarray:
        """The first threads x count rows (threads, count, LANES), in `memory`, which becomes another array to grow."""
        if threads * count > len(self.memory):
            self.memory = aligned_zeros(threads * count, LANES)
        return self.memory[: threads * count].reshape(threads, count, LANES)


class PreparedLaunch:
    """A call of `dynamics.simd.launch` with given arguments, each thread's range of chunks a prepared call.

    Prepared anew when the number of threads or the scratch, which other launches may share, has changed."""

    def __init__(
        self,
        drive: KeepingDispatcher,
        knots: int,
        workspace_size: int,
        *args: Any,
        effort: int | None = None,
        most_threads: int | None = None,
        scratch: Scratch | None = None,
    ) -> None:
        self.drive, self._knots, self._size, self._args = drive, knots, workspace_size, args
        self._effort, self._most_threads, self._scratch = effort or workspace_size, most_threads, scratch or Scratch()
        self._prepare()

    def _prepare(self) -> None:
        self._team = threads.num_threads()
        bounds = threads.shares(self._knots, self._effort, self._most_threads)
        guard = scratch_guard.ROWS if scratch_guard.ON else 0
        self._rows = self._scratch.rows(self._size + guard, len(bounds))
        self._memory = self._scratch.memory
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
        if self._team != threads.num_threads() or self._memory is not self._scratch.memory:
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
