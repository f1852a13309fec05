"""Workspace sizes, declared once for Python and for compiled code.

A size is an expression of symbols, each with the origin of its value; `nv * nv + 3`, with

    nv = Size("nv", "m.dof_body.size")

has the text "nv * nv + 3", which the source generated for a driver (`dynamics.model.knot_driver`) contains twice: where
Python computes the workspace size, and where compiled code slices it.
"""

from __future__ import annotations

import copy
import re

SHOWN = 32
"""Most characters of a size in a signature."""


class Size:
    """An integer expression of symbols.

    Parameters
    ----------
    name : name of the symbol
    origin : expression of its value in a driver's arguments, m among them
    """

    def __init__(self, name: str, origin: str) -> None:
        self.text, self.factor, self.origins = name, name, {name: origin}

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return self.text if len(self.text) <= SHOWN else f"{self.text[: SHOWN - 4]} ..."

    def _joined(self, *terms: Size | int, by: str) -> Size:
        """Expression of this and the other terms, joined by an operator or a comma."""
        origins: dict[str, str] = {}
        for term in terms:
            for name, origin in getattr(term, "origins", {}).items():
                if origins.setdefault(name, origin) != origin:
                    raise ValueError(f"{name}: got two meanings, {origins[name]} and {origin}")
        result = object.__new__(Size)
        result.origins = origins
        if by == " * ":
            result.text = result.factor = by.join(getattr(term, "factor", str(term)) for term in terms)
        else:
            result.text = by.join(map(str, terms))
            result.factor = f"({result.text})"
        return result

    def at_least(self, other: Size | int) -> Size:
        """The larger of the two sizes."""
        pair = self._joined(self, other, by=", ")
        pair.text = pair.factor = f"max({pair.text})"
        return pair

    def given(self, **arguments: str) -> Size:
        """The same size where arguments that its symbols depend on are other expressions."""
        size = copy.copy(self)
        names = (re.match(r"\w*", origin) for origin in self.origins.values())
        size.origins = {
            name: arguments.get(found[0], found[0]) + origin[found.end() :]
            for (name, origin), found in zip(self.origins.items(), names, strict=True)
            if found
        }
        return size

    def __add__(self, other: Size | int) -> Size:
        return self._joined(self, other, by=" + ")

    def __radd__(self, other: int) -> Size:
        return self._joined(other, self, by=" + ")

    def __mul__(self, other: Size | int) -> Size:
        return self._joined(self, other, by=" * ")

    def __rmul__(self, other: int) -> Size:
        return self._joined(other, self, by=" * ")
