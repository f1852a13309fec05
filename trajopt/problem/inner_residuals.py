"""The residuals that costs and constraints are made of, wherever they are inside, and the terms made of others."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

SLOTS = "cost", "residual"
"""Attributes in which terms have what they are made of."""


class WithResiduals:
    """A function of costs, constraints and residuals: the same ones with their residuals changed.

    What several of them share stays one thing; one of which nothing changes is returned itself.

    Parameters
    ----------
    change : function of a residual that returns another one, or the residual itself
    """

    def __init__(self, change: Callable[[Any], Any]) -> None:
        self._change = change
        self._known: dict[int, tuple[Any, Any]] = {}

    def __call__(self, term: Any) -> Any:
        """The term with its residuals changed."""
        if id(term) not in self._known:
            self._known[id(term)] = term, self._changed(term)
        return self._known[id(term)][1]

    def _changed(self, term: Any) -> Any:
        slot = next((slot for slot in SLOTS if getattr(term, slot, None) is not None), None)
        if slot is None:
            return self._change(term)
        before = getattr(term, slot)
        after = self(before)
        if after is before:
            return term
        new = copy.copy(term)
        setattr(new, slot, after)
        return new
