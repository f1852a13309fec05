"""External loads of a model as users describe them, and how they become loads of nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from dynamics.rods.loads.laws import Law
from dynamics.rods.model.arrays import RodArrays
from dynamics.rods.model.contact_arrays import contact_arrays
from dynamics.rods.model.law_arrays import law_arrays
from dynamics.rods.model.load_arrays import ADDED_MASS, DEAD, DRAG, PARAMETERS, LoadArrays
from dynamics.validation import as_array, as_flag

Density = ArrayLike | Callable[[float], ArrayLike]

@dataclass(frozen=True)
class Fluid:
    """A fluid at rest around slender rods: drag, lift, added mass and buoyancy per length, of the rod's radius r.

    Force on a length, with the velocity v in axes of the section:

        drag, lift    -density r |v| [pi/2 cx 0 0; 0 cy -cl; 0 cl cz] v
        added mass    -density A diag(0, ay, az) (acceleration, as of a rigid body)
        buoyancy      -density A gravity

    Parameters
    ----------
    density : kg/m^3
    drag : (cx, cy, cz);  lift : cl;  added_mass : (ay, az)
    smoothing : s of the speed sqrt(v.v + s s), m/s: drag |v| v has no second derivative at rest
    buoyancy : bool
    """

    density: float
    drag: ArrayLike = (0.0, 1.1, 1.1)
    lift: float = -0.1
    added_mass: ArrayLike = (0.6, 0.6)
    smoothing: float = 1e-3
    buoyancy: bool = True

    def __post_init__(self):
        if float(as_array("density", self.density, ())) <= 0.0:
            raise ValueError(f"density: got {self.density}, expected a positive number")
        if (as_array("drag", self.drag, (3,)) < 0.0).any():
            raise ValueError(f"drag: got {self.drag}, expected numbers >= 0")
        as_array("lift", self.lift, ())
        if (as_array("added_mass", self.added_mass, (2,)) < 0.0).any():
            raise ValueError(f"added_mass: got {self.added_mass}, expected numbers >= 0")
        if float(as_array("smoothing", self.smoothing, ())) < 0.0:
            raise ValueError(f"smoothing: got {self.smoothing}, expected at least 0")
        as_flag("buoyancy", self.buoyancy)

    def node_loads(
        self, length: float, radius: float, area: float, gravity: np.ndarray
    ) -> list[tuple[int, np.ndarray]]:
        """Kinds and numbers of the loads of a node that stands for this length, m."""
        cx, cy, cz = as_array("drag", self.drag, (3,))
        D, M = np.zeros((6, 6)), np.zeros((6, 6))
        D[3:, 3:] = [[0.5 * np.pi * cx, 0.0, 0.0], [0.0, cy, -self.lift], [0.0, self.lift, cz]]
        M[4, 4], M[5, 5] = self.density * area * length * as_array("added_mass", self.added_mass, (2,))
        loads = [(DRAG, np.append(self.density * radius * length * D.ravel(), self.smoothing)), (ADDED_MASS, M.ravel())]
        if self.buoyancy:
            loads.append((DEAD, -self.density * area * length * gravity))
        return loads


@dataclass
class LoadList:
    """Loads as they are added: (segment, kind, numbers), and contacts of segments A and B: (A, B, numbers)."""

    wrench_names: list[str] = field(default_factory=list)
    entries: list[tuple[int, int, np.ndarray]] = field(default_factory=list)
    contacts: list[tuple[int, int, np.ndarray]] = field(default_factory=list)
    laws: list[Law] = field(default_factory=list)
    control_names: list[str] = field(default_factory=list)

    def add(self, segment: int, kind: int, parameters: ArrayLike) -> None:
        """Append a load at the end of a segment."""
        self.entries.append((segment, kind, np.asarray(parameters, float)))

    def add_wrench(self, segment: int, kind: int, name: str, point: np.ndarray) -> None:
        """Append a load that takes a wrench of its own, at a point (3,) of the link."""
        self.add_shares(kind, name, [(segment, 1.0)], point)

    def add_shares(self, kind: int, name: str, shares: Iterable[tuple[int, float]], point: ArrayLike) -> None:
        """Append loads that take shares of one wrench: segments, and what it is multiplied with."""
        if name in self.wrench_names:
            raise ValueError(f"name: {name!r} is taken")
        for segment, share in shares:
            self.add(segment, kind, [len(self.wrench_names), *np.asarray(point), share])
        self.wrench_names.append(name)

    def make_room(self, first: int) -> None:
        """Let all segments from number `first` on have a number more, for another one before them."""
        self.entries = [(s + (s >= first), kind, numbers) for s, kind, numbers in self.entries]
        self.contacts = [(s + (s >= first), t + (t >= first), numbers) for s, t, numbers in self.contacts]

    def arrays(self, m: RodArrays) -> LoadArrays:
        """Sorted by segment, with the segments that carry any further out."""
        S = len(m.parent)
        ordered = sorted(self.entries, key=lambda entry: entry[0])
        counts = np.bincount([segment for segment, _, _ in ordered], minlength=S) if ordered else np.zeros(S)
        loaded = counts > 0
        loaded[[s for *ends, _ in self.contacts for s in ends if s >= 0]] = True
        for s in range(S - 1, -1, -1):
            if loaded[s] and m.parent[s] >= 0:
                loaded[m.parent[s]] = True
        parameters = np.zeros((len(ordered), PARAMETERS))
        for row, (_, _, numbers) in zip(parameters, ordered, strict=True):
            row[: len(numbers)] = numbers
        start = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        kinds = np.array([kind for _, kind, _ in ordered], np.int64)
        others = contact_arrays(m, self.contacts), law_arrays(self.laws)
        return LoadArrays(start, kinds, parameters, loaded.astype(np.int64), *others)


def as_density(density: Density, s: float, shape: tuple[int, ...]) -> np.ndarray:
    """A load per length at s = X / length, of this shape; ValueError for another one."""
    if callable(density):
        return as_array(f"density({s:.6g})", density(s), shape)
    return as_array("density", density, shape)
