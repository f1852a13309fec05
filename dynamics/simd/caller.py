"""Warnings attributed to the line outside of the project that made the call, at any depth of the stack.

It serves both packages and imports nothing of the project, so that the cache of kernels can warn, too.
"""

import sys
import warnings
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = tuple(f"{ROOT / name}/" for name in ("dynamics", "trajopt", "problems"))
BETWEEN = ("contextlib", "importlib", "numba")
"""Packages that call the project's code themselves, to compile or import it."""


def first_few(items: Sequence[str], most: int = 3) -> str:
    """Text of the first `most` items of a message, with the number of the remaining ones."""
    more = f", and {len(items) - most} more" if len(items) > most else ""
    return f"{'; '.join(items[:most])}{more}"


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """`warnings.warn` attributed to the innermost frame outside of these packages."""
    frame = sys._getframe(1)
    while frame.f_back is not None and _inside(frame.f_globals):
        frame = frame.f_back
    place, names = frame.f_code.co_filename, frame.f_globals
    registry = names.setdefault("__warningregistry__", {})
    warnings.warn_explicit(message, category, place, frame.f_lineno, names.get("__name__"), registry)


def _inside(names: dict) -> bool:
    """True for a frame of the project, by the module's file, since a dataclass has its `__init__` from a string."""
    if str(names.get("__name__")).partition(".")[0] in BETWEEN:
        return True
    return str(names.get("__file__")).startswith(PACKAGES)
