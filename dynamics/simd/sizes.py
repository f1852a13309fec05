"""Sizes of scratch, declared once for Python and for compiled code.

A size is an expression of symbols, each of which says where its number comes from; `nv * nv + 3`, with

    nv = Size("nv", "m.dof_body.size")

has the text "nv * nv + 3", which source that is written for a driver (`dynamics.model.knot_driver`) has twice: where
Python counts the scratch that it hands over, and where compiled code carves it.
"""

from __future__ import annotations


class Size:
    """An integer expression.

    Parameters
    ----------
    name : what the number is called
    origin : an expression of a driver's arguments, m among them, that gives it
    """

    def __init__(self, name: str, origin: str) -> None:
        self.text, self.factor, self.origins = name, name, {name: origin}

    def __repr__(self) -> str:
        return self.text

    def _joined(self, *terms: Size | int, by: str) -> Size:
        """A sum, product or list of these, of which this is one."""
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

    def at_least(self, other: Size) -> Size:
        """The larger one."""
        pair = self._joined(self, other, by=", ")
        pair.text = pair.factor = f"max({pair.text})"
        return pair

    def __add__(self, other: Size | int) -> Size:
        return self._joined(self, other, by=" + ")

    def __radd__(self, other: int) -> Size:
        return self._joined(other, self, by=" + ")

    def __mul__(self, other: Size | int) -> Size:
        return self._joined(self, other, by=" * ")

    def __rmul__(self, other: int) -> Size:
        return self._joined(other, self, by=" * ")
