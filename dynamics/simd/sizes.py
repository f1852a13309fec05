"""Sizes of scratch, declared once for Python and for compiled code.

A size is an expression of symbols, each of which says where its number comes from; `nv * nv + 3`, with

    nv = Size("nv", "m.dof_body.size")

has the text "nv * nv + 3", which source that is written for a driver (`dynamics.knot_driver`) has twice: where Python
counts the scratch that it hands over, and where compiled code carves it.
"""

from __future__ import annotations

import re


class Size:
    """An integer expression.

    Parameters
    ----------
    name : what the number is called
    origin : an expression of a driver's arguments, m among them, that gives it
    """

    def __init__(self, name: str, origin: str) -> None:
        self.text, self.origins = name, {name: origin}

    def __repr__(self) -> str:
        return self.text

    def _with(self, other: Size | int, pattern: str) -> Size:
        """This and the other one in a pattern of {0} and {1}."""
        result = object.__new__(Size)
        other_origins = other.origins if isinstance(other, Size) else {}
        for name in self.origins.keys() & other_origins.keys():
            if self.origins[name] != other_origins[name]:
                raise ValueError(f"{name}: got two meanings, {self.origins[name]} and {other_origins[name]}")
        result.text, result.origins = pattern.format(self.text, other), self.origins | other_origins
        return result

    def __add__(self, other: Size | int) -> Size:
        return self._with(other, "{0} + {1}")

    def __radd__(self, other: int) -> Size:
        return self._with(other, "{1} + {0}")

    def __mul__(self, other: Size | int) -> Size:
        return self._with(_factor(other), f"{_factor(self)} * {{1}}")

    def __rmul__(self, other: int) -> Size:
        return self._with(other, f"{{1}} * {_factor(self)}")


def _factor(size: Size | int) -> Size | int:
    """The size, in parentheses if it is a sum."""
    if isinstance(size, int) or not re.search(r" \+ ", size.text):
        return size
    return size._with(0, "({0})")
