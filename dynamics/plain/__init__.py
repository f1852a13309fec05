"""Kernels without compilation: what `dynamics.simd` takes from numba's internals, in numpy.

With TRAJOPT_PLAIN_KERNELS in the environment `dynamics` calls `install`, which puts this module in the place of those
modules of `dynamics.simd` that reach into numba and LLVM.  The sources of all kernels then run as plain Python: numbers
in lanes are arrays of LANES floats, complex lanes are complex arrays, spans are views.  Nothing is compiled, and a call
takes some thousand times as long.  It is the way out where a new numba breaks what `docs/numba.md` lists, and
a second opinion on compiled results.
"""

from __future__ import annotations

import ctypes
import math
import sys
from collections.abc import Callable, Mapping
from functools import wraps
from itertools import accumulate
from types import ModuleType
from typing import Any, NamedTuple
from weakref import WeakValueDictionary

import numpy as np

REPLACED = "by_type", "compilation", "functions", "prepared_calls", "rows", "span", "tiles", "vector"
"""Modules of `dynamics.simd` whose names are here."""

LANES = 4
ALIGNMENT = 8 * LANES
INLINED: dict[str, Any] = {}
VEC = COMPLEX_VEC = None
"""Types of numba that nothing has here."""
SCRATCH = ()
"""Names of arguments that are scratch: those of compiled calls alone."""


def install() -> None:
    """Put this module in the place of those that need numba's internals; before any of them is imported."""
    here = sys.modules[__name__]
    for name in REPLACED:
        sys.modules[f"dynamics.simd.{name}"] = here
    model = ModuleType("dynamics.model.kernel_model", "The model as kernels see it: its arrays themselves.")
    model.__dict__.update(model_block=model_block, kernel_model=kernel_model)
    sys.modules[model.__name__] = model


def model_block(arrays: Any) -> Any:
    """What drivers are given of a model: its arrays as they are."""
    return arrays


def kernel_model(block: Any) -> Any:
    """The model in what drivers are given."""
    return block


kernel_model.__module__ = model_block.__module__ = "dynamics.model.kernel_model"  # written drivers import it from there


# ------------------------------------------------------------------------------------------------ prepared calls
class PreparedCall:
    """A call with given arguments.

    `address` is its key among the calls that `enter` knows; `room` holds the numbers that it returned last, as integers
    or, where they are floats, as their bits."""

    def __init__(self, function: Callable[..., Any], *args: Any) -> None:
        self.function, self._args = function, list(args)
        self.address, self.room, self._found = id(self), np.zeros(8, np.int64), None
        _CALLS[self.address] = self

    def set(self, place: int, value: Any) -> None:
        """Replace an argument."""
        self._args[place] = value

    def again(self) -> PreparedCall:
        """The call that returns what this one has returned last."""
        return PreparedCall(lambda: self._found)

    def __call__(self) -> Any:
        """Make the call."""
        found = self._found = self.function(*self._args)
        if isinstance(found, tuple) and all(np.isscalar(number) for number in found[:8]):
            for i, number in enumerate(found[:8]):
                (self.room.view(np.float64) if isinstance(number, float) else self.room)[i] = number
        return found


_CALLS: WeakValueDictionary[int, PreparedCall] = WeakValueDictionary()


def enter(address: int) -> int:
    """Make the call of this address."""
    _CALLS[address]()
    return 0


def float_at(address: int) -> float:
    """The number at an address."""
    return ctypes.c_double.from_address(address).value


def integer_at(address: int) -> int:
    """The integer at an address."""
    return ctypes.c_int64.from_address(address).value


def put_float(address: int, value: float) -> None:
    """Write a number at an address."""
    ctypes.c_double.from_address(address).value = value


class PreparedLaunch:
    """A launch with given arguments."""

    def __init__(self, *args: Any, **options: Any) -> None:
        self._args, self._options = args, options

    def __call__(self) -> Any:
        """Launch the driver."""
        from dynamics.simd.threads import launch

        return launch(*self._args, **self._options)


class PreparedCalls:
    """Functions without arguments, called one after another."""

    calls, checks = None, ()

    def __init__(self, *parts: Callable[[], Any], result: Callable[[], Any] | None = None) -> None:
        self._parts, self.result = parts, result

    def __call__(self) -> Any:
        """Make the calls; returns what the last one does, or the result."""
        found = None
        for part in self._parts:
            found = part()
        return found if self.result is None else self.result()


def calls_of(function: Callable[[], Any]) -> None:
    """None: compiled code makes no calls here."""
    return


def checks_of(function: Callable[[], Any]) -> tuple[Callable[[], bool], ...]:
    """None: functions without arguments look by themselves whether their calls are the right ones."""
    return ()


# ------------------------------------------------------------------------------------------------ decorators
class _Progress:
    """Nothing is compiled: nothing is shown."""

    compiled = 0

    def subject(self, problem: Any, *doing: str) -> None:
        """Nothing is compiled for it."""

    def finish(self) -> None:
        """Nothing is left to clear."""


PROGRESS = _Progress()


def helper(function: Callable[..., Any]) -> Any:
    """The function itself."""
    return function


kernel = shared_kernel = by_address = decision = helper


def driver(function: Callable[..., Any]) -> Any:
    """The function, in which floating-point numbers overflow and divide as in compiled code: silently."""

    @wraps(function)
    def call(*arguments: Any) -> Any:
        with np.errstate(all="ignore"):
            return function(*arguments)

    return call


routine = lean_routine = driver


class ByType:
    """One function of several, chosen by the type of an argument; made by `by_type`."""

    def __init__(self, place: int, cases: Mapping[type | None, Any]) -> None:
        self.place, self.cases = place, cases

    def __call__(self, *arguments: Any) -> Any:
        block = arguments[self.place]
        return self.cases[None if block is None else type(block)](*arguments)


def by_type(argument: str, cases: Mapping[type | None, Any]) -> ByType:
    """As `dynamics.simd.by_type`."""
    from dynamics.simd.lane_blocks import parameters_of

    return ByType(parameters_of(next(iter(cases.values()))).index(argument), cases)


def by_reference(block: Any) -> Any:
    """The block itself."""
    return block


# ------------------------------------------------------------------------------------------------ memory
class Lanes(np.ndarray):
    """A number per lane.  Unlike those of arrays its operators change nothing in place: it is a number."""

    def __iadd__(self, other: Any) -> Any:
        return self + other

    def __isub__(self, other: Any) -> Any:
        return self - other

    def __imul__(self, other: Any) -> Any:
        return self * other

    def __itruediv__(self, other: Any) -> Any:
        return self / other


def _number(values: Any) -> Any:
    return values.view(Lanes) if isinstance(values, np.ndarray) and values.ndim else values


def load(ws: np.ndarray, i: int) -> Any:
    """Number i of the workspace."""
    if ws.ndim == 1:
        return ws[i]
    return _number(ws[i].copy() if ws.ndim == 2 else ws[i, 0] + 1j * ws[i, 1])


def store(ws: np.ndarray, i: int, x: Any) -> None:
    """Write number i of the workspace."""
    if ws.ndim < 3:
        ws[i] = x
    else:
        ws[i, 0], ws[i, 1] = np.real(x), np.imag(x)


def splat(ws: np.ndarray, x: Any) -> Any:
    """The float x as a number of the workspace's kind; one that is of this kind as it is."""
    if ws.ndim == 1:
        return np.float64(x)
    kind = np.float64 if ws.ndim == 2 else np.complex128
    return _number(np.array(np.broadcast_to(np.asarray(x, dtype=kind), (LANES,))))


def span(ws: np.ndarray) -> np.ndarray:
    """The workspace itself."""
    return ws


def flat(array: np.ndarray) -> np.ndarray:
    """All numbers of a C-contiguous array."""
    return array.reshape(-1)


def split(ws: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """The first `count` numbers of a workspace, and the rest."""
    return ws[:count], ws[count:]


def lane(x: Any, k: int) -> Any:
    """Lane k of a vector; a float is its own only lane."""
    return x[k] if np.ndim(x) else x


def with_lane(x: Any, k: int, value: float) -> Any:
    """The vector x with lane k replaced by value."""
    if not np.ndim(x):
        return value
    y = x.copy()
    y[k] = value
    return y


def real(x: Any) -> Any:
    """Real parts."""
    return np.real(x)


def imag(x: Any) -> Any:
    """Imaginary parts."""
    return np.imag(x)


def complex_number(real: Any, imag: Any) -> Any:
    """real + i imag."""
    return real + 1j * imag


def align_stack(ws: np.ndarray) -> None:
    """Nothing: there is no stack of registers."""


def aligned_empty(*shape: int) -> np.ndarray:
    """An array, contents undefined."""
    return np.empty(shape)


def aligned_zeros(*shape: int) -> np.ndarray:
    """The same, zeroed."""
    return np.zeros(shape)


def aligned_arrays(*shapes: tuple[int, ...]) -> list[np.ndarray]:
    """Several arrays in one piece of memory."""
    ends = list(accumulate(map(math.prod, shapes)))
    memory = np.empty(ends[-1])
    return [memory[b - math.prod(shape) : b].reshape(shape) for b, shape in zip(ends, shapes, strict=True)]


# ------------------------------------------------------------------------------------------------ arithmetic
def fma(a: Any, b: Any, c: Any) -> Any:
    """a b + c, with two roundings."""
    return a * b + c


def fnma(a: Any, b: Any, c: Any) -> Any:
    """c - a b, likewise."""
    return c - a * b


def fms(a: Any, b: Any, c: Any) -> Any:
    """a b - c, likewise."""
    return a * b - c


def sqrt(x: Any) -> Any:
    """The root in the right half plane."""
    return np.sqrt(x)


def nearest(x: Any) -> Any:
    """The nearest whole number, the even one of two."""
    return np.rint(x)


def sincos(x: Any) -> tuple[Any, Any]:
    """Sine and cosine."""
    return np.sin(x), np.cos(x)


def arctan2(y: Any, x: Any) -> Any:
    """Angle of the point (x, y)."""
    return np.arctan2(y, x)


def absolute(x: Any) -> Any:
    """x or -x, whichever has a real part of at least zero."""
    return select_less(x, 0.0, -x, x)


def select_less(a: Any, b: Any, x: Any, y: Any) -> Any:
    """x where a < b, else y; of complex a and b the real parts count."""
    less = np.real(a) < np.real(b)
    return _number(np.where(less, x, y)) if max(map(np.ndim, (less, x, y))) else (x if less else y)


def all_less(a: Any, b: Any) -> bool:
    """Whether a < b in every lane."""
    return bool(np.all(np.real(a) < np.real(b)))


# ------------------------------------------------------------------------------------------------ groups and tiles
def group_size(ws: np.ndarray) -> int:
    """LANES for a workspace of floats, else 1."""
    return LANES if ws.ndim == 1 else 1


def _members(members: int) -> list[int]:
    return [k for k in range(LANES) if members >> k & 1]


def load_group(ws: np.ndarray, i: int, members: int) -> Any:
    """The group of numbers from number i of the workspace on; those that take no part are zero."""
    if ws.ndim > 1:
        return load(ws, i)
    x = np.zeros(LANES)
    for k in _members(members):
        x[k] = ws[i + k]
    return _number(x)


def store_group(ws: np.ndarray, i: int, members: int, x: Any) -> None:
    """Write the group of numbers from number i of the workspace on."""
    if ws.ndim > 1:
        store(ws, i, x)
        return
    for k in _members(members):
        ws[i + k] = lane(x, k)


def _tile(offset: int, stride: int) -> np.ndarray:
    """Places (LANES, LANES) of a tile among the numbers of an array: row k begins k strides behind the offset."""
    return offset + stride * np.arange(LANES)[:, None] + np.arange(LANES)


def scatter_tile(ws: np.ndarray, i: int, target: np.ndarray, offset: int, stride: int) -> None:
    """target.flat[offset + k stride + j] = ws[i + j, k]."""
    flat(target)[_tile(offset, stride)] = ws[i : i + LANES].T


def gather_tile(source: np.ndarray, offset: int, stride: int, ws: np.ndarray, i: int) -> None:
    """ws[i + j, k] = source.flat[offset + k stride + j]."""
    ws[i : i + LANES] = flat(source)[_tile(offset, stride)].T


def add_knots(ws: np.ndarray, first: int, count: int, target: np.ndarray) -> None:
    """target[first + l] += ws[:, l] for the first `count` lanes."""
    target[first : first + count].reshape(count, -1)[...] += ws[:, :count].T


stream_tile = scatter_tile


# ------------------------------------------------------------------------------------------------ small matrices
class Matrix(NamedTuple):
    """Row-major float64 numbers: address of the first one, and how many lie from one row to the next."""

    address: int
    stride: int


class Term(NamedTuple):
    """The product left' right over the first `depth` rows of both."""

    left: Matrix
    right: Matrix
    depth: int


def matrix(array: np.ndarray, offset: int, stride: int) -> Matrix:
    """The matrix that starts at number `offset` of a C-contiguous array, which it does not keep alive."""
    return Matrix(array.ctypes.data + 8 * offset, stride)


def submatrix(m: Matrix, i: int, j: int) -> Matrix:
    """m[i:, j:]."""
    return Matrix(m.address + 8 * (i * m.stride + j), m.stride)


def _numbers(m: Matrix, i: int, j: int, count: int) -> np.ndarray:
    """m[i, j : j + count], in place; no more than LANES numbers."""
    count = min(max(count, 0), LANES)
    return np.ctypeslib.as_array((ctypes.c_double * count).from_address(m.address + 8 * (i * m.stride + j)))


def entry(m: Matrix, i: int, j: int) -> Any:
    """m[i, j]."""
    return _numbers(m, i, j, 1)[0]


def set_entry(m: Matrix, i: int, j: int, x: float) -> None:
    """m[i, j] = x."""
    _numbers(m, i, j, 1)[0] = x


def load_part(m: Matrix, i: int, j: int, count: int) -> Any:
    """m[i, j : j + LANES], of which only the first `count` numbers are read; the others are zero."""
    x, numbers = np.zeros(LANES), _numbers(m, i, j, count)
    x[: len(numbers)] = numbers
    return _number(x)


def store_part(m: Matrix, i: int, j: int, count: int, x: Any) -> None:
    """m[i, j : j + LANES] = x, of which only the first `count` numbers are written."""
    numbers = _numbers(m, i, j, count)
    numbers[...] = x[: len(numbers)]


def update_tile(
    rows: int, vectors: int, i: int, j: int, target: Matrix, source: Matrix, terms: tuple[Term, ...]
) -> None:
    """A block of target = source + sum of the terms."""
    for row in range(i, i + rows):
        for column in range(j, j + vectors * LANES, LANES):
            total = load_part(source, row, column, source.stride - column)
            for term in terms:
                for k in range(term.depth):
                    y = load_part(term.right, k, column, term.right.stride - column)
                    total = fma(entry(term.left, k, row), y, total)
            store_part(target, row, column, target.stride - column, total)
