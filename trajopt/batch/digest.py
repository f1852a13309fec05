"""A hash of a parameter that is the same in every process and on every day.

Python's own `hash` of text differs from one process to the next, and arrays and dicts have none.  Here every value is
fed to SHA-256 as (type, length, content), containers item by item, dicts and sets in the order of their items' hashes.
"""

import hashlib
import pickle
import sys
from collections.abc import Iterable
from dataclasses import fields, is_dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np


def digest(value: Any) -> str:
    """Hash as 64 hexadecimal digits.

    numpy scalars count as the numbers they are; functions and classes as their names; objects that are neither plain
    values, containers, arrays nor dataclasses as their pickle.
    """
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, (bool, int, float, complex, str, bytes)):
        return _hash(value, [repr(value).encode()])
    if isinstance(value, np.ndarray) and not value.dtype.hasobject:
        return _hash(value, [value.dtype.str.encode(), repr(value.shape).encode(), value.tobytes()])
    if isinstance(value, (list, tuple)):
        return _hash(value, [digest(item).encode() for item in value])
    if isinstance(value, (dict, set, frozenset)):
        items = value.items() if isinstance(value, dict) else value
        return _hash(value, sorted(digest(item).encode() for item in items))
    if isinstance(value, partial):
        return _hash(value, [digest(part).encode() for part in (value.func, value.args, value.keywords)])
    if is_dataclass(value) and not isinstance(value, type):
        return _hash(value, [digest((f.name, getattr(value, f.name))).encode() for f in fields(value)])
    if callable(value) and hasattr(value, "__qualname__"):
        return _hash(value, [name_of(value).encode()])
    return _hash(value, [pickle.dumps(value, protocol=5)])


def _hash(value: Any, parts: Iterable[bytes]) -> str:
    hasher = hashlib.sha256(name_of(type(value)).encode())
    for part in parts:
        hasher.update(b":%d:" % len(part) + part)
    return hasher.hexdigest()


def name_of(function: Any) -> str:
    """Module and name of a function or class; of a callable object, those of its class."""
    if isinstance(function, partial):
        return f"partial of {name_of(function.func)}"
    if not hasattr(function, "__qualname__"):
        function = type(function)
    return f"{_module_of(function)}.{function.__qualname__}"


def _module_of(function: Any) -> str:
    """The name under which others import its module, also where that is the script that runs."""
    if function.__module__ != "__main__":
        return function.__module__
    main: Any = sys.modules["__main__"]
    if (spec := getattr(main, "__spec__", None)) is not None:
        return spec.name
    file = getattr(main, "__file__", None)
    return "__main__" if file is None else Path(file).stem
