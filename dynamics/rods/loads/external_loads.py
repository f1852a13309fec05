"""External loads, as a robot's builder receives them, and loads given by functions."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from dynamics.rods.model.arrays import (
    ADDED_MASS,
    DEAD,
    DRAG,
    PARAMETERS,
    LoadArrays,
    RodArrays,
    contact_arrays,
    law_arrays,
)
from dynamics.tape.calculus import hessian, jacobian
from dynamics.tape.graph import Graph, Untraceable
from dynamics.tape.program import Program, assemble
from dynamics.tape.symbol import Symbol, indices_of, symbols
from dynamics.tape.trace import traceable, traced
from dynamics.validation import as_array, as_flag, as_not_negative, as_number, as_positive

# --------------------------------------------------------------------------------------------
# Loads given by a function: it is traced, and its wrench differentiated for `segment_loads`.
#
# The law gives a wrench of the frame (R, p), its velocities and controls u.  In axes of the frame, as a resisting
# force, G = - [R'm; R'f] at the frame displaced by exp(X) and with the twist eta + d,
#
#     P = G_X      N = G_d      C, E, B = the blocks XX, X d, d d of the Hessian of mu'G      G_u, and X u of mu'G

INPUTS = 18
"""Number of inputs of a program before the controls: R, p and the twist in axes of the frame; after the controls
follows mu (6)."""


class Law(NamedTuple):
    """A law for kernels: programs of three levels, number of controls, and whether forces depend on velocities."""

    programs: tuple[Program, Program, Program]
    controls: int
    rates: bool


def law_of(function: Callable[..., Any], controls: int) -> Law:
    """The law of a function (R, p, w, v, u) -> [moment; force].

    Raises
    ------
    TypeError : a law that is not a function.
    ValueError : a function that cannot be traced or does not return six numbers; a force that is not affine in the
        controls, or in which a control is multiplied by velocities.
    """
    if not callable(function):
        raise TypeError(f"law: got {type(function).__name__}, expected a function of R, p, w, v and u")
    try:
        return _law(function, controls)
    except Untraceable as error:
        raise ValueError(f"law: got {function!r}, expected one that takes symbols for numbers, but {error}") from None


def _law(function: Callable[..., Any], controls: int) -> Law:
    graph = Graph()
    R, p, eta, u, mu, X, d = (symbols(graph, size) for size in (9, 3, 6, controls, 6, 6, 6))
    turn = _tilde(X[:3])
    frame = R.reshape(3, 3) @ (np.eye(3) + turn + 0.5 * (turn @ turn))
    place = p + R.reshape(3, 3) @ (X[3:] + 0.5 * (turn @ X[3:]))
    w, v = frame @ (eta + d)[:3], frame @ (eta + d)[3:]
    wrench = traced(traceable(function), frame, place, w, v, u)
    if wrench.shape != (6,):
        raise ValueError(f"law: got a result of shape {wrench.shape}, expected (6,), a moment and a force")
    G = -np.concatenate([frame.T @ wrench[:3], frame.T @ wrench[3:]])
    G = np.array([x if isinstance(x, Symbol) else Symbol(graph, graph.constant(float(x))) for x in G])
    z = np.concatenate([X, d, u])
    J, H = jacobian(G, z), hessian(G, mu, z)
    inputs = indices_of(graph, np.concatenate([R, p, eta, u, mu]))
    at_rest = {i: i for i in inputs} | dict.fromkeys(indices_of(graph, np.concatenate([X, d])), graph.constant(0.0))

    def nodes(*expressions: np.ndarray) -> list[int]:
        return graph.substitute([i for x in expressions for i in indices_of(graph, x)], at_rest, graph)

    def vanish(*expressions: np.ndarray) -> bool:
        return all(graph.values.get(i) == 0.0 for i in nodes(*expressions))

    if not vanish(H[12:, 6:]):
        raise ValueError("law: got controls that multiply each other or velocities, expected forces affine in controls")
    first = G, J[:, :6], J[:, 6:12], J[:, 12:].T
    second = H[:6, :6], H[:6, 6:12], H[6:12, 6:12], H[12:, :6]
    levels = (G,), first, (*first, *second)
    one, two, three = (assemble(graph, nodes(*expressions), inputs) for expressions in levels)
    return Law((one, two, three), controls, not vanish(J[:, 6:12]))


def _tilde(x: np.ndarray) -> np.ndarray:
    return np.array([[0.0, -x[2], x[1]], [x[2], 0.0, -x[0]], [-x[1], x[0], 0.0]], dtype=object)


# --------------------------------------------------------------------------------------------
# External loads of a model as users describe them, converted to loads of nodes.

Density = ArrayLike | Callable[[float], ArrayLike]

@dataclass(frozen=True)
class Fluid:
    """A fluid at rest around slender rods: drag, lift, added mass and buoyancy per length, for a rod of radius r.

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
        as_positive("density", self.density)
        if (as_array("drag", self.drag, (3,)) < 0.0).any():
            raise ValueError(f"drag: got {self.drag}, expected numbers >= 0")
        as_number("lift", self.lift)
        if (as_array("added_mass", self.added_mass, (2,)) < 0.0).any():
            raise ValueError(f"added_mass: got {self.added_mass}, expected numbers >= 0")
        as_not_negative("smoothing", self.smoothing)
        as_flag("buoyancy", self.buoyancy)

    def node_loads(
        self, length: float, radius: float, area: float, gravity: np.ndarray
    ) -> list[tuple[int, np.ndarray]]:
        """Kinds and numbers of the loads of a node that represents this length, m."""
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
    """Loads added so far: (segment, kind, numbers), and contacts of segments A and B: (A, B, numbers)."""

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
        """Append loads that take shares of one wrench: segments and factors."""
        if name in self.wrench_names:
            raise ValueError(f"name: {name!r} is taken")
        for segment, share in shares:
            self.add(segment, kind, [len(self.wrench_names), *np.asarray(point), share])
        self.wrench_names.append(name)

    def make_room(self, first: int) -> None:
        """Raise the index of all segments from `first` on by one, for a new segment before them."""
        self.entries = [(s + (s >= first), kind, numbers) for s, kind, numbers in self.entries]
        self.contacts = [(s + (s >= first), t + (t >= first), numbers) for s, t, numbers in self.contacts]

    def arrays(self, m: RodArrays) -> LoadArrays:
        """Arrays of the loads sorted by segment, with flags for the segments that carry loads themselves or further
        out."""
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
    """A load per length at s = X / length, of the given shape; ValueError for another one."""
    if callable(density):
        return as_array(f"density({s:.6g})", density(s), shape)
    return as_array("density", density, shape)
