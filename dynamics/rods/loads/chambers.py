"""Chambers: channels in rods that a fluid under pressure lengthens.

With an area A(X) across its centre line, a chamber holds V = sum_k w_k A l, l the length of the line per length of rod
(`lines`).  A pressure p does the work p dV, and pushes with sum_k w_k A Phi'[d x t; t] p: as a tendon pulls, with the
tension -p A.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import ClassVar

import numpy as np

from dynamics.rods.loads.lines import Line, Routes
from dynamics.rods.model.rod_model import Rod


@dataclass(frozen=True)
class Chamber(Line):
    """A channel along a rod, from its base to its tip, or on through rods that follow each other, filled with a fluid.

    Parameters
    ----------
    rod, y, z, dy, dz, normalized : as of `Tendon`, of the centre line; no joint may lie between two rods
    area : area A across the centre line [m^2], above zero: a function or number like y; it does not change with strains
    name : by default "chamber" and its number

    Raises
    ------
    ValueError, TypeError : names the argument, what came and what was expected.
    """

    _: KW_ONLY
    area: Routes

    routes: ClassVar[tuple[str, ...]] = ("y", "z", "area")
    one_way: ClassVar[str] = "chambers only push, and got negative pressures"
    unit: ClassVar[str] = "Pa"

    def __post_init__(self):
        super().__post_init__()
        for area in self.area if isinstance(self.area, tuple) else (self.area,):
            if not callable(area) and area <= 0.0:
                raise ValueError(f"area: got {area}, expected a positive number of square metres")

    def scales(self, *rods: Rod) -> np.ndarray:
        """-A at the nodes of its rods: (P,).  ValueError where A is not positive."""
        areas = self.values("area", rods)
        if not (areas > 0.0).all():
            X = np.concatenate([rod.nodes for rod in rods])[np.argmin(areas)]
            raise ValueError(f"{self.label('area')}got {areas.min():.6g} at X = {X:.6g} m, expected a positive number")
        return -areas
