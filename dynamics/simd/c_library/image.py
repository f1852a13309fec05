"""The memory of prepared calls as an image: bytes that a C program copies to one place, and where pointers are in it.

The image holds the calls' blocks (`dynamics.simd.entries`) and all arrays that they refer to.  What lies in several of
them, as views of one array do, is in it once.  It is made of *spans*, each of which begins as far behind a multiple of
64 bytes as it does here.  Those without a number other than zero come last, so that they need not be stored; of scratch
nothing is.

A pointer is a word with the place in the image that it points to, relative to its beginning.
"""

import ctypes
import math
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from dynamics.simd.entries import ARGUMENTS, RESULT
from dynamics.simd.prepared_calls import SCRATCH, PreparedCall

ALIGNMENT = 64
"""Bytes, of a cache line, and of the widest vectors."""
WORD = 8
DATA, SHAPE = 4, 5
"""Words of an array ahead of its address, and ahead of its shape and strides."""


class Image(NamedTuple):
    """Bytes behind `stored` are zero up to `size`.

    Parameters
    ----------
    size : bytes, a multiple of 64
    stored : the bytes that are not all zero
    pointers : numbers of the words that are pointers
    blocks : of each call, the number of its block's first word, which becomes the address of its entry
    places : by name, of each array that was asked for, the byte at which it begins
    """

    size: int
    stored: bytes
    pointers: list[int]
    blocks: list[int]
    places: dict[str, int]


class _Span(NamedTuple):
    """Memory that stays together, between two addresses of this process; `first` is the number of the first array that
    is in it."""

    start: int
    stop: int
    first: int
    scratch: bool


class _Words(NamedTuple):
    """What the argument words of a call are: the numbers of words that are addresses, with the arrays that these are
    of, and of words that are integers, which may be addresses of blocks."""

    arrays: list[tuple[int, np.ndarray]]
    integers: list[int]


def address_of(array: np.ndarray) -> int:
    """Address of an array's numbers."""
    return array.__array_interface__["data"][0]


def _integers_of(kind: np.dtype) -> list[int]:
    """Where in an item of an array the integers of 64 bits are, bytes from its beginning."""
    if kind.fields is not None:
        return [offset + at for part, offset, *_ in kind.fields.values() for at in _integers_of(part)]
    if kind.subdtype is not None:
        part, shape = kind.subdtype
        return [part.itemsize * i + at for i in range(math.prod(shape)) for at in _integers_of(part)]
    return [0] if kind.kind in "iu" and kind.itemsize == WORD else []


def _walk(value: Any, at: int, found: _Words) -> int:
    """Note what the words of an argument are, the first of which is number `at`; returns the number behind the last."""
    if isinstance(value, np.ndarray):
        found.arrays.append((at + DATA, value))
        return at + SHAPE + 2 * value.ndim
    if isinstance(value, tuple):
        for x in value:
            at = _walk(x, at, found)
        return at
    if value is not None and not isinstance(value, float):
        found.integers.append(at)
    return at + 1


def _words_of(call: PreparedCall) -> _Words:
    found, at = _Words([], []), ARGUMENTS
    for value in call.arguments:
        at = _walk(value, at, found)
    where = int(call.block[RESULT]) - call.address
    known = all(call.block[i] == address_of(x) for i, x in found.arrays)
    if where != WORD * at or not known:
        raise RuntimeError(f"{call.function.__qualname__}: the block is not laid out as its arguments are")
    return found


def _merged(parts: list[_Span]) -> list[_Span]:
    """Spans that do not overlap, in the order of their addresses."""
    spans: list[_Span] = []
    for part in sorted(parts):
        last = spans[-1] if spans else None
        if last is None or part.start >= last.stop:
            spans.append(part)
        else:
            first, scratch = min(last.first, part.first), last.scratch and part.scratch
            spans[-1] = _Span(last.start, max(last.stop, part.stop), first, scratch)
    return spans


def _spans(calls: Sequence[PreparedCall]) -> list[_Span]:
    parts: list[_Span] = []

    def add(array, scratch):
        if array.nbytes:
            start = address_of(array)
            parts.append(_Span(start, start + array.nbytes, len(parts), scratch))

    for call in calls:
        add(call.block, False)
        names = call.function.py_func.__code__.co_varnames
        for name, value in zip(names, call.arguments, strict=False):
            found = _Words([], [])
            _walk(value, 0, found)
            for _, array in found.arrays:
                add(array, name in SCRATCH)
    return _merged(parts)


class _Layout:
    """Where each span is in the image."""

    def __init__(self, spans: list[_Span]) -> None:
        self.spans, self._starts = spans, [span.start for span in spans]
        content = [bytes(s.stop - s.start) if s.scratch else ctypes.string_at(s.start, s.stop - s.start) for s in spans]
        zero = [not any(x) for x in content]
        self.places, end, stored = [0] * len(spans), 0, 0
        for i in sorted(range(len(spans)), key=lambda i: (zero[i], spans[i].first)):
            self.places[i] = -(-end // ALIGNMENT) * ALIGNMENT + spans[i].start % ALIGNMENT
            end = self.places[i] + len(content[i])
            stored = stored if zero[i] else end
        self.size = -(-end // ALIGNMENT) * ALIGNMENT
        self.words = np.zeros(self.size // WORD, dtype=np.int64)
        image = self.words.view(np.uint8)
        for place, x in zip(self.places, content, strict=True):
            image[place : place + len(x)] = np.frombuffer(x, dtype=np.uint8)
        self.stored = -(-stored // WORD) * WORD

    def place(self, address: int) -> int | None:
        """The byte of the image that corresponds to an address, None if it is none of the spans'."""
        i = bisect_right(self._starts, address) - 1
        if i < 0 or address >= self.spans[i].stop:
            return None
        return self.places[i] + address - self.spans[i].start


class _Mapped:
    """All memory of this process, to tell addresses from other numbers."""

    def __init__(self) -> None:
        lines = Path("/proc/self/maps").read_text(encoding="utf-8").splitlines()
        bounds = sorted(tuple(int(x, 16) for x in line.split(maxsplit=1)[0].split("-")) for line in lines)
        self._starts, self._stops = [a for a, _ in bounds], [b for _, b in bounds]

    def holds(self, number: int) -> bool:
        """True for an address of this process."""
        i = bisect_right(self._starts, number) - 1
        return i >= 0 and number < self._stops[i]


def image_of(calls: Sequence[PreparedCall], kernels: Sequence[int], arrays: Mapping[str, np.ndarray]) -> Image:
    """The image of calls, in whose blocks the numbers of their `kernels` stand in place of their entries' addresses.

    Integers of 64 bits which are addresses of what is in it become pointers, in blocks, arrays, and fields of records.

    Raises ValueError for an array that is not in it, and for an integer which is the address of anything that is not:
    a call that enters others needs them among `calls`."""
    layout, mapped = _Layout(_spans(calls)), _Mapped()
    words, pointers, blocks = layout.words, set(), []

    def point(word, address):
        place = layout.place(address)
        if place is not None:
            words[word] = place
            pointers.add(word)
        return place is not None

    def look_at(word, number, call):
        if not point(word, number) and mapped.holds(number):
            raise ValueError(
                f"calls: {call.function.__qualname__} holds the address {number:#x}, which is in none of the blocks "
                "and arrays given; expected all calls that it enters among them"
            )

    looked_at: set[int] = set()
    for call in calls:  # whose words are known, also where one is given another's block
        first = (layout.place(call.address) or 0) // WORD
        looked_at.update(range(first, first + call.block.size))
    for call, kernel in zip(calls, kernels, strict=True):
        block = (layout.place(call.address) or 0) // WORD
        found = _words_of(call)
        blocks.append(block)
        words[block] = kernel
        point(block + RESULT, int(call.block[RESULT]))
        for i, array in found.arrays:
            if not array.size:  # nothing is read there
                words[block + i] = 0
                pointers.add(block + i)
            else:
                point(block + i, address_of(array))
        for i in found.integers:
            look_at(block + i, int(call.block[i]), call)
        for _, array in found.arrays:
            offsets = _integers_of(array.dtype) if array.size else []
            first, content = layout.place(address_of(array)) or 0, array.reshape(-1).view(np.uint8)
            for offset in offsets:
                at = np.arange(offset, array.nbytes, array.itemsize)
                numbers = content[at[:, None] + np.arange(WORD)].view(np.int64)[:, 0]
                for word, number in zip(((first + at) // WORD).tolist(), numbers.tolist(), strict=True):
                    if word not in looked_at:
                        looked_at.add(word)
                        look_at(word, number, call)
    places = {}
    for name, array in arrays.items():
        place, last = layout.place(address_of(array)), layout.place(address_of(array) + array.nbytes - 1)
        if place is None or last is None or last - place != array.nbytes - 1:
            raise ValueError(f"arrays[{name!r}]: got an array that no call reads or writes, expected one of the calls'")
        places[name] = place
    return Image(layout.size, words.tobytes()[: layout.stored], sorted(pointers), blocks, places)
