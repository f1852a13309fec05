"""Lines through the sections of rods, along which tendons pull and chambers push.

A line follows d(X) = (0, y(X), z(X)) in the frame of the cross-section.  With the strains xi = [kappa; epsilon], its
length per length of rod and its direction are                                                          [GVS, 4.3]

    l = |T|,        T = epsilon + kappa x d + d',        t = T / l
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dynamics.rods.model.rod_model import Rod
from dynamics.validation import as_array, as_flag, as_items, as_name

Route = Callable[[float], float] | float
Routes = Route | Sequence[Route]


@dataclass(frozen=True)
class Line:
    """A line from the base of a rod to its tip, or on through rods that follow each other: base of `Tendon` and
    `Chamber`, whose parameters these are."""

    rod: str | Sequence[str]
    y: Routes
    z: Routes
    dy: Routes | None = None
    dz: Routes | None = None
    name: str | None = None
    normalized: bool = False

    routes: ClassVar[tuple[str, ...]] = ("y", "z")
    """Fields that are routes and have to be given."""
    one_way: ClassVar[str] = ""
    """What negative controls are against."""
    unit: ClassVar[str] = ""
    crosses_joints: ClassVar[bool] = False

    def __post_init__(self):
        if not isinstance(self.rod, str) and isinstance(self.rod, Sequence):
            names = as_items("rod", self.rod, "names of rods")
            for k, name in enumerate(names):
                if as_name(f"rod[{k}]", name) in names[:k]:
                    raise ValueError(f"rod[{k}]: {name!r} is there already, expected each rod once")
            if not names:
                raise ValueError("rod: got no names, expected at least one")
            object.__setattr__(self, "rod", names)
        else:
            as_name("rod", self.rod)
        if self.name is not None:
            as_name("name", self.name)
        for what in (*self.routes, "dy", "dz"):
            if getattr(self, what) is not None or what in self.routes:
                object.__setattr__(self, what, self._checked(what, getattr(self, what)))
        as_flag("normalized", self.normalized)

    def _checked(self, what: str, route: Routes) -> Routes:
        """A function, a number, or as many of these as there are rods, in a tuple."""
        if callable(route):
            return route
        if isinstance(self.rod, str) or not isinstance(route, (list, tuple, np.ndarray)):
            return float(as_array(what, route, ()))  # pyright: ignore[reportArgumentType]
        routes: list[Route] = list(route)
        if len(routes) != len(self.rod):
            raise ValueError(f"{what}: got {len(routes)} routes, expected one, or one for each of {len(self.rod)} rods")
        return tuple(x if callable(x) else float(as_array(f"{what}[{k}]", x, ())) for k, x in enumerate(routes))

    @property
    def rods(self) -> tuple[str, ...]:
        """Names of its rods."""
        return (self.rod,) if isinstance(self.rod, str) else tuple(self.rod)

    def routing(self, *rods: Rod) -> np.ndarray:
        """y, z, y', z' at the nodes of its rods, one after another: (P, 4); slopes at both ends of each, which carry no
        weight, are zero.

        Raises: ValueError where the line leaves a section, and for values that are not finite real numbers.
        """
        y, z = self.values("y", rods), self.values("z", rods)
        self._check_inside(rods, y, z)
        return np.stack([y, z, self._slopes("y", rods), self._slopes("z", rods)], axis=1)

    def scales(self, *rods: Rod) -> np.ndarray:
        """What a unit of its control pulls with at the nodes of its rods: (P,)."""
        return np.ones(sum(len(rod.nodes) for rod in rods))

    def label(self, what: str = "") -> str:
        """The beginning of an error."""
        return f"{type(self).__name__.lower()} {self.name!r}: " + (f"{what}: " if what else "")

    # -------------------------------------------------------------------------------------------- parts of these
    def values(self, what: str, rods: Sequence[Rod], s: np.ndarray | None = None) -> np.ndarray:
        """A route at the nodes of the rods, or at s = X / length of each: (P,), rod after rod."""
        label = self.label(what)
        return np.array([_value(label, route, x) for route, X, _ in self._runs(what, rods, s) for x in X])

    def _runs(
        self, what: str, rods: Sequence[Rod], s: np.ndarray | None = None
    ) -> Iterator[tuple[Route, np.ndarray, float]]:
        """Of each rod the route, the arguments it has at the nodes or at s, and the length they are divided by."""
        route, before, whole = getattr(self, what), 0.0, sum(rod.length for rod in rods)
        for k, rod in enumerate(rods):
            own = isinstance(route, tuple)
            scale = (rod.length if own else whole) if self.normalized else 1.0
            X = rod.nodes if s is None else s * rod.length
            yield (route[k] if own else route), (X + (0.0 if own else before)) / scale, scale
            before += rod.length

    def _check_inside(self, rods: Sequence[Rod], y: np.ndarray, z: np.ndarray) -> None:
        first = 0
        for rod in rods:
            own = slice(first, first + len(rod.nodes))
            inside = rod.section.contains(rod.nodes / rod.length, y[own], z[own])
            if not inside.all():
                k = int(np.argmin(inside))
                raise ValueError(
                    f"{self.label()}at X = {rod.nodes[k]:.6g} m of rod {rod.name!r} it is at (y, z) = "
                    f"({y[own][k]:.6g}, {z[own][k]:.6g}) m, outside of the section {rod.section}"
                )
            first = own.stop

    def _slopes(self, what: str, rods: Sequence[Rod]) -> np.ndarray:
        """dy/dX or dz/dX at the nodes."""
        given = f"d{what}"
        known = getattr(self, given) is not None
        slopes = []
        for route, X, scale in self._runs(given if known else what, rods):
            rates = [_value(self.label(given), route, x) if known else _derivative(route, x, X) for x in X[1:-1]]
            slopes.append(np.array([0.0, *rates, 0.0]) / scale)
        return np.concatenate(slopes)


def _value(label: str, route: Route, x: float) -> float:
    return float(as_array(f"{label}at {x:.6g}", route(float(x)) if callable(route) else route, ()))


def _derivative(route: Route, x: float, X: np.ndarray) -> float:
    """Derivative of the route at x, between the ends of X."""
    if not callable(route):
        return 0.0
    length = X[-1] - X[0]
    h = min(1e-5 * length, 0.5 * (x - X[0]), 0.5 * (X[-1] - x))
    difference = (float(route(x + h)) - float(route(x - h))) / (2.0 * h)
    tiny = 1e-30 * length
    try:
        exact = float(np.imag(route(complex(x, tiny)))) / tiny  # pyright: ignore[reportArgumentType]
    except (TypeError, ValueError):
        return difference
    return exact if abs(exact - difference) <= 1e-6 * (abs(difference) + 1e-3) else difference
