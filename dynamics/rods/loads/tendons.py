"""Tendons: cables that run along rods and pull at their tips.

A tendon follows d(X) = (0, y(X), z(X)) in the frame of the cross-section.  With the strains xi = [kappa; epsilon], its
length per length of rod and its direction are                                                          [GVS, 4.3]

    l = |T|,        T = epsilon + kappa x d + d',        t = T / l

and a tension u pulls along the gradient of the whole length: its generalised forces are - sum_k w_k Phi'[d x t; t] u.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np

from dynamics.rods.model.rod_model import Rod, RodModel
from dynamics.simd.caller import first_few, warn
from dynamics.validation import as_array, as_flag, as_items, as_kind, as_name, unknown_name

Route = Callable[[float], float] | float


@dataclass(frozen=True)
class Tendon:
    """A cable along a rod, from its base to its tip.

    Parameters
    ----------
    rod : name of the rod
    y, z : place in the cross-section [m]: functions of X [m], or numbers
    dy, dz : their slopes dy/dX, dz/dX, functions or numbers; by default by a complex step where the function takes
        complex numbers and that agrees with a central difference, else by the difference
    name : by default "tendon" and its number
    normalized : functions take s = X / length in [0, 1] instead of X, and slopes are d/ds
    """

    rod: str
    y: Route
    z: Route
    dy: Route | None = None
    dz: Route | None = None
    name: str | None = None
    normalized: bool = False

    def __post_init__(self):
        as_name("rod", self.rod)
        if self.name is not None:
            as_name("name", self.name)
        for what in ("y", "z", "dy", "dz"):
            route = getattr(self, what)
            if not callable(route) and (route is not None or what in ("y", "z")):
                as_array(what, route, ())
        as_flag("normalized", self.normalized)

    @staticmethod
    def straight(rod: str, y: float, z: float, name: str | None = None) -> "Tendon":
        """Parallel to the rod's axis."""
        return Tendon(rod, y, z, 0.0, 0.0, name)

    @staticmethod
    def helix(rod: str, radius: float, turns: float, phase: float = 0.0, name: str | None = None) -> "Tendon":
        """y = radius cos(a), z = radius sin(a), a = 2 pi turns X / length + phase; turns < 0 is left-handed."""
        rate = 2.0 * np.pi * float(as_array("turns", turns, ()))
        radius, phase = float(as_array("radius", radius, ())), float(as_array("phase", phase, ()))
        y, z = partial(_wave, np.cos, radius, rate, phase), partial(_wave, np.sin, radius, rate, phase)
        dy, dz = partial(_wave, np.sin, -radius * rate, rate, phase), partial(_wave, np.cos, radius * rate, rate, phase)
        return Tendon(rod, y, z, dy, dz, name, normalized=True)

    def routing(self, rod: Rod) -> np.ndarray:
        """y, z, y', z' at the rod's nodes, (P, 4); slopes at both ends, which carry no weight, are zero.

        Raises: ValueError where the tendon leaves the section, and for values that are not finite real numbers.
        """
        scale = rod.length if self.normalized else 1.0
        places, length = rod.nodes / scale, rod.length / scale
        values = np.zeros((len(places), 4))
        for column, (what, route) in enumerate((("y", self.y), ("z", self.z))):
            values[:, column] = [_value(self._label(what), route, x) for x in places]
        inside = rod.section.contains(rod.nodes / rod.length, values[:, 0], values[:, 1])
        if not inside.all():
            k = int(np.argmin(inside))
            raise ValueError(
                f"{self._label()}at X = {rod.nodes[k]:.6g} m of rod {rod.name!r} it is at (y, z) = "
                f"({values[k, 0]:.6g}, {values[k, 1]:.6g}) m, outside of the section {rod.section}"
            )
        for column, (what, route, derivative) in enumerate((("dy", self.y, self.dy), ("dz", self.z, self.dz)), 2):
            for k, x in enumerate(places[1:-1], 1):
                rate = _derivative(route, x, length) if derivative is None else _value(self._label(what), derivative, x)
                values[k, column] = rate / scale
        return values

    def _label(self, what: str = "") -> str:
        return f"tendon {self.name!r}: " + (f"{what}: " if what else "")


def _wave(function: Callable, size: float, rate: float, phase: float, s: float) -> float:
    return size * function(rate * s + phase)


def warn_of_slack(argument: str, names: Sequence[str], tensions: np.ndarray) -> None:
    """Warn of negative tensions (tendons,) or (K, tendons)."""
    least = np.min(np.atleast_2d(tensions), axis=0, initial=0.0)
    slack = [f"{name!r}: {x:.4g} N" for name, x in zip(names, least, strict=True) if x < 0.0]
    if slack:
        warn(f"{argument}: tendons only pull, and got negative tensions ({first_few(slack)})")


def _value(label: str, route: Route, x: float) -> float:
    return float(as_array(f"{label}at {x:.6g}", route(float(x)) if callable(route) else route, ()))


def _derivative(route: Route, x: float, length: float) -> float:
    """Derivative of the route at x, 0 < x < length."""
    if not callable(route):
        return 0.0
    h = min(1e-5 * length, 0.5 * x, 0.5 * (length - x))
    difference = (float(route(x + h)) - float(route(x - h))) / (2.0 * h)
    tiny = 1e-30 * length
    try:
        exact = float(np.imag(route(complex(x, tiny)))) / tiny  # pyright: ignore[reportArgumentType]
    except (TypeError, ValueError):
        return difference
    return exact if abs(exact - difference) <= 1e-6 * (abs(difference) + 1e-3) else difference


# ------------------------------------------------------------------------------------------------ for kernels
class TendonArrays(NamedTuple):
    """Tendons at the quadrature points of the rods that carry them: P points, T pairs of point and tendon."""

    rows: np.ndarray  # (P, 7) component r is that of the coordinates rows[p, r] ... rows[p, r + 1] - 1
    first_mode: np.ndarray  # (P,) entry of `modes` of the first coordinate
    modes: np.ndarray  # (.,)
    weight: np.ndarray  # (P,) m
    reference: np.ndarray  # (P, 6)
    start: np.ndarray  # (P + 1,) pairs of a point
    control: np.ndarray  # (T,)
    routing: np.ndarray  # (T, 4) y, z, y', z'


def named_tendons(model: RodModel, tendons: Sequence[Tendon]) -> tuple[Tendon, ...]:
    """The tendons, each with a name.  TypeError for what is no tendon, ValueError for rods and names."""
    named: list[Tendon] = []
    for k, tendon in enumerate(as_items("tendons", tendons, "Tendons")):
        as_kind(f"tendons[{k}]", tendon, Tendon)
        name = tendon.name or f"tendon {k}"
        if any(name == other.name for other in named):
            raise ValueError(f"tendons[{k}]: the name {name!r} is taken")
        if tendon.rod not in model.rods:
            raise unknown_name(f"rod of tendon {name!r}:", tendon.rod, model.rods)
        named.append(Tendon(tendon.rod, tendon.y, tendon.z, tendon.dy, tendon.dz, name, tendon.normalized))
    return tuple(named)


def tendon_arrays(model: RodModel, tendons: Sequence[Tendon]) -> TendonArrays:
    """The tendons, which all have names, as kernels see them."""
    rows, first_mode, modes, weight, reference, start, control, routing = [], [], [], [], [], [0], [], []
    for rod in model.rods.values():
        routes = {k: tendon.routing(rod) for k, tendon in enumerate(tendons) if tendon.rod == rod.name}
        if not routes:
            continue
        s = rod.nodes / rod.length
        values, at_rest = rod.basis.values(s), rod.reference_strains(s)
        for k in range(1, len(rod.nodes) - 1):
            rows.append(rod.coordinates.start + rod.basis.rows)
            first_mode.append(len(modes))
            modes.extend(values[k])
            weight.append(rod.weights[k])
            reference.append(at_rest[k])
            control.extend(routes)
            routing.extend(route[k] for route in routes.values())
            start.append(len(control))
    return TendonArrays(
        np.array(rows, np.int64).reshape(-1, 7), np.array(first_mode, np.int64), np.array(modes, float),
        np.array(weight, float), np.array(reference, float).reshape(-1, 6), np.array(start, np.int64),
        np.array(control, np.int64), np.array(routing, float).reshape(-1, 4),
    )  # fmt: skip
