"""Parameters of a problem as one vector: a number, an array, or a mapping or dataclass of these."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from dynamics.validation import as_array, check_finite


class Parameters(NamedTuple):
    """The numbers of p that vary, as a vector, and the functions that replace them."""

    given: Any
    names: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...]
    vector: np.ndarray

    def at(self, vector: np.ndarray) -> Any:
        """p with these numbers."""
        return self._filled(vector)

    def like(self, vector: np.ndarray) -> Any:
        """The vector's numbers, or arrays with leading axes (., P), in the form of p: for mappings and dataclasses a
        dict of the entries that vary."""
        parts, start = {}, 0
        for name, shape in zip(self.names, self.shapes, strict=True):
            size = int(np.prod(shape, dtype=int))
            part = vector[..., start : start + size].reshape((*vector.shape[:-1], *shape))
            parts[name] = float(part) if part.ndim == 0 else part
            start += size
        return parts[""] if self.names == ("",) else parts

    def flat(self, value: Any) -> np.ndarray:
        """The vector from a value of the form that `like` returns."""
        parts = {"": value} if self.names == ("",) else value
        return np.concatenate([np.ravel(parts[name]).astype(float) for name in self.names])

    def numbers(self, p: Any) -> np.ndarray:
        """The vector of another p of the same form.

        Raises: TypeError, ValueError if p has another form, or numbers that are not finite."""
        parts = []
        for name, shape in zip(self.names, self.shapes, strict=True):
            try:
                value = p if name == "" else p[name] if isinstance(p, Mapping) else getattr(p, name)
            except (KeyError, AttributeError):
                raise ValueError(f"p: got a {type(p).__name__} without {name!r}") from None
            parts.append(as_array(f"p[{name!r}]" if name else "p", value, shape, copy=True).ravel())
        return np.concatenate(parts)

    def labels(self) -> tuple[str, ...]:
        """Names (P,) of the numbers."""
        found = []
        for name, shape in zip(self.names, self.shapes, strict=True):
            found += [f"{name or 'p'}{list(index) if index else ''}" for index in np.ndindex(*shape)]
        return tuple(found)

    def _filled(self, vector: np.ndarray) -> Any:
        parts = self.like(np.asarray(vector, float))
        if self.names == ("",):
            return parts
        if isinstance(self.given, Mapping):
            return {**self.given, **parts}
        return dataclasses.replace(self.given, **parts)


def parameters_of(p: Any, wrt: Sequence[str] | None = None) -> Parameters:
    """The parameters in p; wrt: the names of the entries that vary, of a mapping or dataclass.

    Raises: TypeError for p without floats, ValueError for an unknown name or a number that is not finite."""
    if isinstance(p, Mapping):
        entries = dict(p)
    elif dataclasses.is_dataclass(p) and not isinstance(p, type):
        entries = {field.name: getattr(p, field.name) for field in dataclasses.fields(p)}
    else:
        if wrt is not None:
            raise ValueError(f"wrt: got {tuple(wrt)} for a {type(p).__name__}, expected None")
        entries = {"": p}
    floats = {name: value for name, value in entries.items() if _is_float(value)}
    if wrt is not None:
        missing = [name for name in wrt if name not in floats]
        if missing:
            raise ValueError(f"wrt: got {missing[0]!r}, expected some of {', '.join(floats)}")
        floats = {name: floats[name] for name in wrt}
    if not floats:
        raise TypeError(f"p: got {p!r}, expected a number, an array, or a mapping or dataclass with some")
    arrays = {name: np.asarray(value, float) for name, value in floats.items()}
    for name, array in arrays.items():
        check_finite(f"p[{name!r}]" if name else "p", array)
    vector = np.concatenate([array.ravel() for array in arrays.values()])
    if not vector.size:
        raise TypeError(f"p: got {p!r}, expected at least one number")
    return Parameters(p, tuple(arrays), tuple(array.shape for array in arrays.values()), vector)


def _is_float(value: Any) -> bool:
    if isinstance(value, bool | str | bytes) or value is None:
        return False
    try:
        array = np.asarray(value)
    except (TypeError, ValueError):
        return False
    return array.dtype.kind == "f" or (array.dtype.kind in "iu" and array.ndim == 0 and not isinstance(value, int))
