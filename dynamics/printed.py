"""Printed form of results with arrays: their numbers, the shapes of their arrays, and names without codes."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

LONGEST, LONGEST_WORDS, FEW = 600, 160, 6
"""Most characters of a result, of one string in it, and most numbers of an array that is printed in full."""


def printable(text: str) -> str:
    """The text with its control characters, but for ends of lines, written out: names, of files among them, may hold
    codes that a terminal would obey.

    >>> print(printable("a\\x1b[31m name"))
    a\\x1b[31m name
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c == "\n" else c.encode("unicode_escape").decode() for c in text)


def in_brief(result: Any, /, *names: str, **numbers: Any) -> str:
    """`Name(violation=0.1, name='wall', values: (100, 10))`: the main numbers of a result, then its fields.

    Parameters
    ----------
    result : a dataclass or NamedTuple
    names : fields to print; all by default, but those that begin with an underscore
    numbers : values printed first, by name

    Returns
    -------
    One line of at most 600 characters: arrays of more than six numbers as their shapes, collections of other things
    than numbers and words as their lengths, objects as their types.
    """
    own = [field.name for field in fields(result)] if is_dataclass(result) else list(result._fields)
    shown = names or tuple(name for name in own if not name.startswith("_") and name not in numbers)
    values = {**numbers, **{name: getattr(result, name) for name in shown}}
    text = printable(f"{type(result).__name__}({', '.join(_named(name, value) for name, value in values.items())})")
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 6].rsplit(', ', 1)[0]}, ...)"


def _named(name: str, value: Any) -> str:
    shown = _value(value)
    return f"{name}={shown}" if shown is not None else f"{name}: {_kind(value)}"


def _value(value: Any) -> str | None:
    """Text of a value that can be written out, else None."""
    if isinstance(value, (float, np.floating)):
        return f"{value:.6g}"
    if value is None or isinstance(value, (bool, int, np.bool_, np.integer)):
        return str(value)
    if isinstance(value, str):
        return repr(str(value)) if len(value) <= LONGEST_WORDS else repr(f"{value[: LONGEST_WORDS - 3]}...")
    if isinstance(value, np.ndarray):
        short = value.ndim <= 1 and value.size <= FEW and value.dtype != object
        return np.array2string(value, precision=4, max_line_width=1000) if short else None
    if isinstance(value, (tuple, list)) and len(value) <= FEW:
        parts = [_value(part) for part in value]
        return None if None in parts or sum(map(len, map(str, parts))) > 150 else f"({', '.join(map(str, parts))})"
    return None


def _kind(value: Any) -> str:
    """Shape, length or type of a value, printed in place of its content."""
    if isinstance(value, np.ndarray):
        return str(value.shape)
    if isinstance(value, Mapping) or (isinstance(value, Collection) and not hasattr(value, "_fields")):
        what = "arrays" if value and all(isinstance(part, np.ndarray) for part in value) else "of them"
        return f"{len(value)} {what}"
    return type(value).__name__
