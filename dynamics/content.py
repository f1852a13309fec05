"""Equality by content, for immutable objects that are made of arrays, names and numbers.

Comparing two robots array by array costs more than most computations with them, and arrays have no hash.  So an object
keeps a digest of each of its parts, made when it is first compared with another one; equal parts have equal bits.
"""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from functools import cached_property
from hashlib import blake2b
from typing import Any

import numpy as np


class ByContent:
    """Base of objects that are equal, and hash alike, if they are of one class and all their parts are equal."""

    def _parts(self) -> Mapping[str, Any]:
        """Parts that define equality, by the names that errors use: arrays, text, numbers, None, objects with parts of
        their own, and tuples, mappings and dataclasses of these."""
        raise NotImplementedError

    @cached_property
    def _digests(self) -> dict[str, bytes]:
        return {name: digest(part) for name, part in self._parts().items()}

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return isinstance(other, ByContent) and type(self) is type(other) and self._digests == other._digests

    def __hash__(self) -> int:
        return hash(tuple(self._digests.values()))

    def differences(self, other: "ByContent") -> list[str]:
        """Names of the parts in which another object of this class differs; none if the two are equal."""
        theirs = other._digests
        return [name for name, part in self._digests.items() if theirs.get(name) != part]


def digest(value: Any) -> bytes:
    """16 bytes that are the same for equal values in every process; TypeError for unsupported types."""
    if isinstance(value, (int, float, np.number)) and not isinstance(value, bool):
        value = float(value)
    hasher = blake2b(type(value).__name__.encode(), digest_size=16)
    for item in _items(value):
        hasher.update(item if isinstance(item, bytes) else digest(item))
    return hasher.digest()


def _items(value: Any) -> list[Any]:
    """Bytes, and values to be digested in turn."""
    if value is None or isinstance(value, (bool, float, str, slice)):
        return [repr(value).encode()]
    if isinstance(value, np.ndarray):
        plain = value + 0.0 if value.dtype.kind == "f" else value  # zeros are equal regardless of sign
        return [repr((value.shape, value.dtype.str)).encode(), plain.tobytes()]
    if isinstance(value, ByContent):
        return list(value._digests.values())
    if isinstance(value, Mapping):
        return [part for item in value.items() for part in item]
    if isinstance(value, (tuple, list)):
        return list(value)
    if is_dataclass(value):
        return [getattr(value, field.name) for field in fields(value)]
    raise TypeError(f"got {type(value).__name__}, which cannot be compared by content")
