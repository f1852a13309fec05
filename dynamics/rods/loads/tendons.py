"""Tendons: cables that run along rods and pull at their tips.

A tension u pulls along the gradient of the whole length: its generalised forces are - sum_k w_k Phi'[d x t; t] u, with
d and t of `lines`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np

from dynamics.rods.loads.lines import Line
from dynamics.validation import as_array


@dataclass(frozen=True)
class Tendon(Line):
    """A cable along a rod, from its base to its tip, or on through rods that follow each other.

    Parameters
    ----------
    rod : name of the rod; or names of several, from the base on, each carried by the tip of the one before.  Rigid
        bodies may lie between two, and a joint of one degree of freedom, which the cable crosses straight from the last
        place in one rod to the first in the next
    y, z : place in the cross-section [m]: functions of X [m], or numbers.  Of several rods X is the length of rod
        from the base of the first on; or one function or number for each of them, in a sequence, of its own X
    dy, dz : their slopes dy/dX, dz/dX, functions or numbers; by default by a complex step where the function takes
        complex numbers and that agrees with a central difference, else by the difference
    name : by default "tendon" and its number
    normalized : functions take s = X / length in [0, 1] instead of X, of the whole length if X is, and slopes are d/ds

    Raises
    ------
    ValueError, TypeError : names the argument, what came and what was expected.
    """

    one_way: ClassVar[str] = "tendons only pull, and got negative tensions"
    unit: ClassVar[str] = "N"
    crosses_joints: ClassVar[bool] = True

    @staticmethod
    def straight(rod: str | Sequence[str], y: float, z: float, name: str | None = None) -> Tendon:
        """Parallel to the axis, of one rod or of several."""
        return Tendon(rod, y, z, 0.0, 0.0, name)

    @staticmethod
    def helix(
        rod: str | Sequence[str], radius: float, turns: float, phase: float = 0.0, name: str | None = None
    ) -> Tendon:
        """y = radius cos(a), z = radius sin(a), a = 2 pi turns X / length + phase; turns < 0 is left-handed."""
        rate = 2.0 * np.pi * float(as_array("turns", turns, ()))
        radius, phase = float(as_array("radius", radius, ())), float(as_array("phase", phase, ()))
        y, z = partial(_wave, np.cos, radius, rate, phase), partial(_wave, np.sin, radius, rate, phase)
        dy, dz = partial(_wave, np.sin, -radius * rate, rate, phase), partial(_wave, np.cos, radius * rate, rate, phase)
        return Tendon(rod, y, z, dy, dz, name, normalized=True)


def _wave(function: Callable, size: float, rate: float, phase: float, s: float) -> float:
    return size * function(rate * s + phase)
