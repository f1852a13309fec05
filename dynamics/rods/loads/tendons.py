"""Tendons and chambers: their lines through rods, across joints, and the forces along them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import partial
from typing import ClassVar, NamedTuple, TypeVar

import numpy as np

from dynamics.rods.model.arrays import FIRST, ROD, SCREW, SECOND
from dynamics.rods.model.rod_model import Rod, RodModel
from dynamics.simd import align_stack, fma, fnma, helper, kernel, load, sincos, splat, sqrt, store
from dynamics.simd.caller import first_few, warn
from dynamics.simd.lane_algebra import add_entry
from dynamics.spatial.spatial import load6, store6
from dynamics.validation import as_array, as_flag, as_items, as_kind, as_name, unknown_name

# --------------------------------------------------------------------------------------------
# Lines through the sections of rods, along which tendons pull and chambers push.
#
# A line follows d(X) = (0, y(X), z(X)) in the frame of the cross-section.  With the strains xi = [kappa; epsilon], its
# length per length of rod and its direction are                                                          [GVS, 4.3]
#
#     l = |T|,        T = epsilon + kappa x d + d',        t = T / l

Route = Callable[[float], float] | float
Routes = Route | Sequence[Route]


@dataclass(frozen=True)
class Line:
    """A line from the base of a rod to its tip, or on through rods that follow each other: base class of `Tendon` and
    `Chamber`, which have its parameters."""

    rod: str | Sequence[str]
    y: Routes
    z: Routes
    dy: Routes | None = None
    dz: Routes | None = None
    name: str | None = None
    normalized: bool = False

    routes: ClassVar[tuple[str, ...]] = ("y", "z")
    """Required fields that are routes."""
    one_way: ClassVar[str] = ""
    """Reason, for a warning, why controls should not be negative."""
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
        """A function or a number, or a tuple with one for each rod; raises errors for other values."""
        if callable(route):
            return route
        several = isinstance(route, (list, tuple)) or (isinstance(route, np.ndarray) and route.ndim > 0)
        if isinstance(self.rod, str) or not several:
            return float(as_array(what, route, ()))  # pyright: ignore[reportArgumentType]
        routes: list[Route] = list(route)  # pyright: ignore[reportArgumentType]
        if len(routes) != len(self.rod):
            raise ValueError(f"{what}: got {len(routes)} routes, expected one, or one for each of {len(self.rod)} rods")
        return tuple(x if callable(x) else float(as_array(f"{what}[{k}]", x, ())) for k, x in enumerate(routes))

    @property
    def rods(self) -> tuple[str, ...]:
        """Names of its rods."""
        return (self.rod,) if isinstance(self.rod, str) else tuple(self.rod)

    def routing(self, *rods: Rod) -> np.ndarray:
        """y, z, y', z' at the nodes of its rods, one after another: (P, 4); slopes at both ends of each rod, which have
        no weight, are zero.

        Raises: ValueError where the line leaves a section, and for values that are not finite real numbers.
        """
        y, z = self.values("y", rods), self.values("z", rods)
        self._check_inside(rods, y, z)
        return np.stack([y, z, self._slopes("y", rods), self._slopes("z", rods)], axis=1)

    def scales(self, *rods: Rod) -> np.ndarray:
        """Tension of a unit of the control at the nodes of its rods: (P,)."""
        return np.ones(sum(len(rod.nodes) for rod in rods))

    def label(self, what: str = "") -> str:
        """Beginning of an error message."""
        return f"{type(self).__name__.lower()} {self.name!r}: " + (f"{what}: " if what else "")

    # -------------------------------------------------------------------------------------------- parts of the above
    def values(self, what: str, rods: Sequence[Rod], s: np.ndarray | None = None) -> np.ndarray:
        """Values of a route at the nodes of the rods, or at s = X / length of each: (P,), rod after rod."""
        label = self.label(what)
        return np.array([_value(label, route, x) for route, X, _ in self._runs(what, rods, s) for x in X])

    def _runs(
        self, what: str, rods: Sequence[Rod], s: np.ndarray | None = None
    ) -> Iterator[tuple[Route, np.ndarray, float]]:
        """For each rod the route, its arguments at the nodes or at s, and the length by which they are divided."""
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
        """Slopes dy/dX or dz/dX at the nodes."""
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


# --------------------------------------------------------------------------------------------
# Tendons: cables that run along rods and pull at their tips.
#
# A tension u pulls along the gradient of the whole length: its generalised forces are - sum_k w_k Phi'[d x t; t] u,
# with d and t as above.


@dataclass(frozen=True)
class Tendon(Line):
    """A cable along a rod, from its base to its tip, or on through rods that follow each other.

    Parameters
    ----------
    rod : name of the rod; or names of several, from the base on, each carried by the tip of the one before.  Between
        two of them there may be rigid bodies, and a joint of one degree of freedom, which the cable crosses straight
        from the last point in one rod to the first in the next
    y, z : position in the cross-section [m]: functions of X [m], or numbers.  For several rods, X is the length along
        all rods from the base of the first; or a sequence of one function or number for each rod, of its own X
    dy, dz : slopes dy/dX, dz/dX, functions or numbers; by default by a complex step if the function takes complex
        numbers and the result agrees with a central difference, else by the difference
    name : by default "tendon" and its number
    normalized : True if functions take s = X / length in [0, 1] instead of X, the length of all rods if X is, and
        slopes are d/ds

    Raises
    ------
    ValueError, TypeError : an invalid argument; the message names it, the value and the expected one.
    """

    one_way: ClassVar[str] = "tendons only pull, and got negative tensions"
    unit: ClassVar[str] = "N"
    crosses_joints: ClassVar[bool] = True

    @staticmethod
    def straight(rod: str | Sequence[str], y: float, z: float, name: str | None = None) -> Tendon:
        """A tendon parallel to the axis of one rod or of several."""
        return Tendon(rod, y, z, 0.0, 0.0, name)

    @staticmethod
    def helix(
        rod: str | Sequence[str], radius: float, turns: float, phase: float = 0.0, name: str | None = None
    ) -> Tendon:
        """A helical tendon y = radius cos(a), z = radius sin(a), a = 2 pi turns X / length + phase; turns < 0 is
        left-handed."""
        rate = 2.0 * np.pi * float(as_array("turns", turns, ()))
        radius, phase = float(as_array("radius", radius, ())), float(as_array("phase", phase, ()))
        y, z = partial(_wave, np.cos, radius, rate, phase), partial(_wave, np.sin, radius, rate, phase)
        dy, dz = partial(_wave, np.sin, -radius * rate, rate, phase), partial(_wave, np.cos, radius * rate, rate, phase)
        return Tendon(rod, y, z, dy, dz, name, normalized=True)


def _wave(function: Callable, size: float, rate: float, phase: float, s: float) -> float:
    return size * function(rate * s + phase)


# --------------------------------------------------------------------------------------------
# Chambers: channels in rods that a fluid under pressure lengthens.
#
# With an area A(X) across its centre line, a chamber holds V = sum_k w_k A l, l the length of the line per length of
# rod.  A pressure p does the work p dV, and pushes with sum_k w_k A Phi'[d x t; t] p: as a tendon pulls, with
# the tension -p A.


@dataclass(frozen=True)
class Chamber(Line):
    """A channel along a rod, from its base to its tip, or on through rods that follow each other, filled with a fluid.

    Parameters
    ----------
    rod, y, z, dy, dz, normalized : as for `Tendon`, for the centre line; no joint may lie between two rods
    area : area A across the centre line [m^2], above zero: a function or number like y; it does not change with strains
    name : by default "chamber" and its number

    Raises
    ------
    ValueError, TypeError : an invalid argument; the message names it, the value and the expected one.
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


# --------------------------------------------------------------------------------------------
# Tendons across a joint between two rods: straight from the last point in one to the first in the next.
#
# For a joint of one degree of freedom x, with the points a and E(x) b in axes of the joint, E a rotation about its axis
# or a translation along it, the square of the length is
#
#     l^2 = |E b - a|^2 = c0 + c1 cos x + c2 sin x   or   c0 + c1 x + c2 x^2
#
# and a tension u adds u l' to the residual, and its derivatives.

MEETING, ROUNDING = 1e-9, 1e-12
"""Distance between two points, relative to their distances to the joint, and change of the squared length that count as
zero."""


# ------------------------------------------------------------------------------------------------ kernels
class SpanArrays(NamedTuple):
    """Arrays of the G spans."""

    control: np.ndarray  # (G,)
    coordinate: np.ndarray  # (G,) of the joint
    turns: np.ndarray  # (G,) 1 for a rotational joint, 0 for a prismatic one
    square: np.ndarray  # (G, 3) c0, c1, c2


@helper
def _derivatives(turns, c0, c1, c2, x):
    """l', l'', l''' at x."""
    if turns == 1:
        sine, cosine = sincos(x)
        swing = c1 * cosine + c2 * sine
        g, g1 = swing + c0, c2 * cosine - c1 * sine
        g2, g3 = -swing, -g1
    else:
        g, g1 = (c2 * x + c1) * x + c0, 2.0 * c2 * x + c1
        g2, g3 = 0.0 * x + 2.0 * c2, 0.0 * x
    over = 1.0 / sqrt(g + 1e-200)  # finite also where the points coincide
    first = 0.5 * g1 * over
    second = (0.5 * g2 - first * first) * over
    return first, second, (0.5 * g3 - 3.0 * first * second) * over


@kernel
def add_spans(e, level, n, nu, state, r, dq, Hqq, B, Hqu):
    """Add the part of spans; arguments as in `add_tendons`."""
    align_stack(state)
    for k in range(e.control.size):
        i, c = e.coordinate[k], e.control[k]
        u = load(state, 4 * n + c)
        first, second, third = _derivatives(
            e.turns[k], e.square[k, 0], e.square[k, 1], e.square[k, 2], load(state, i)
        )  # fmt: skip
        add_entry(r, i, u * first)
        if level >= FIRST:
            add_entry(B, i * nu + c, -first)
            add_entry(dq, i * n + i, u * second)
        if level >= SECOND:
            w = load(state, 3 * n + i)
            add_entry(Hqu, i * nu + c, w * second)
            add_entry(Hqq, i * n + i, u * w * third)


# ------------------------------------------------------------------------------------------------ from a model
Span = tuple[int, int, bool, tuple[float, float, float]]


def span_arrays(spans: Sequence[Span]) -> SpanArrays:
    """Arrays of the spans: control, coordinate, whether the joint is rotational, and c."""
    control, coordinate, turns, square = zip(*spans, strict=True) if spans else ((), (), (), ())
    squares = np.array(square, float).reshape(-1, 3)
    return SpanArrays(np.array(control, np.int64), np.array(coordinate, np.int64), np.array(turns, np.int64), squares)


def spans_of(model: RodModel, line: Line, control: int, pieces: Mapping[str, np.ndarray]) -> list[Span]:
    """The spans of a line with these routes (P, .) in its rods.

    Raises: ValueError for rods that do not follow each other, and a joint that the line cannot cross.
    """
    m, spans = model.arrays, []
    for before, rod in zip(line.rods[:-1], line.rods[1:], strict=True):
        between = _between(model, line, before, rod)
        joints = [k for k in between if m.rows[k, 0] < m.rows[k, 6]]
        if not joints:
            continue
        first = m.rows[joints, 0]
        of_links = model.joint_coordinates.items()
        names = [name for name, own in of_links if ((own.start <= first) & (first < own.stop)).any()]
        came = ", ".join(map(repr, names))
        label = f"{line.label('rod')}joints between {before!r} and {rod!r}: got {came}, expected "
        if not line.crosses_joints:
            raise ValueError(f"{label}none: only tendons cross joints")
        if len(joints) > 1 or m.kind[joints[0]] != SCREW:
            raise ValueError(f"{label}at most one, of one degree of freedom")
        if m.step[joints[0], 1] != 0.0:
            raise ValueError(f"{label}none that turns and shifts at once")
        ends = np.insert(pieces[before][-1, :2], 0, 0.0), np.insert(pieces[rod][0, :2], 0, 0.0)
        a, b = _at_joint(model, [*between, model.rods[rod].segments.start], joints[0], *ends)
        component = int(np.argmax(np.diff(m.rows[joints[0]])))
        square = _square(component, a, b)
        moves = component >= 3 or abs(square[1]) + abs(square[2]) > ROUNDING * (a @ a + b @ b)
        if moves and np.linalg.norm(b - a) <= MEETING * (np.linalg.norm(a) + np.linalg.norm(b)):
            raise ValueError(f"{label}one whose sides are apart: {line.label()}its places on both sides meet at q = 0")
        if moves:
            spans.append((control, int(m.rows[joints[0], 0]), component < 3, square))
    return spans


def _between(model: RodModel, line: Line, before: str, rod: str) -> list[int]:
    """Segments between the tip of one rod and the start of the next, from the tip on."""
    m, found = model.arrays, []
    k = int(m.parent[model.rods[rod].segments.start])
    while k >= 0 and m.kind[k] != ROD:
        found.insert(0, k)
        k = int(m.parent[k])
    if k != model.link_segments[before]:
        raise ValueError(f"{line.label('rod')}{rod!r} is not carried by the tip of {before!r}, as expected")
    return found


def _at_joint(
    model: RodModel, chain: Sequence[int], joint: int, a: np.ndarray, b: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Both points in axes of the joint, b at x = 0: a given in the frame before the chain, b in that where its last
    segment starts."""
    m, at = model.arrays, list(chain).index(joint)
    for k in chain[: at + 1]:
        a = _back(m.before[k], a)
        if k != joint:
            a = _back(m.after[k], a)
    for k in chain[:at:-1]:
        if k != chain[-1]:
            b = _moved(m.after[k], b)
        b = _moved(m.before[k], b)
    return a, _moved(m.after[joint], b)


def _moved(placement: np.ndarray, x: np.ndarray) -> np.ndarray:
    return placement[:9].reshape(3, 3) @ x + placement[9:]


def _back(placement: np.ndarray, x: np.ndarray) -> np.ndarray:
    return placement[:9].reshape(3, 3).T @ (x - placement[9:])


def _square(component: int, a: np.ndarray, b: np.ndarray) -> tuple[float, float, float]:
    """c0, c1, c2 for a joint that moves this component."""
    axis = np.eye(3)[component % 3]
    if component >= 3:
        return float((b - a) @ (b - a)), float(2.0 * axis @ (b - a)), 1.0
    across = b - axis * (axis @ b)
    c1, c2 = -2.0 * float(a @ across), -2.0 * float(a @ np.cross(axis, across))
    return float(a @ a + b @ b - 2.0 * (axis @ a) * (axis @ b)), c1, c2


# --------------------------------------------------------------------------------------------
# Tendons and chambers as kernels read them: their pieces at the quadrature points of rods, and across joints.

L = TypeVar("L", bound=Line)


class TendonArrays(NamedTuple):
    """Lines at the quadrature points of the rods that carry them: P points, T pairs of point and line."""

    rows: np.ndarray  # (P, 7) component r is that of the coordinates rows[p, r] ... rows[p, r + 1] - 1
    first_mode: np.ndarray  # (P,) entry of `modes` of the first coordinate
    modes: np.ndarray  # (.,)
    weight: np.ndarray  # (P,) m
    reference: np.ndarray  # (P, 6)
    start: np.ndarray  # (P + 1,) pairs of a point
    control: np.ndarray  # (T,)
    routing: np.ndarray  # (T, 5) y, z, y', z'; tension of a unit of the control: 1 of tendons, -A of chambers
    spans: SpanArrays


def named_lines(
    model: RodModel, argument: str, given: Sequence[L], kind: type[L], taken: Sequence[str]
) -> tuple[L, ...]:
    """The lines, each with a name.  TypeError for those of another kind, ValueError for rods and names."""
    named: list[L] = []
    for k, line in enumerate(as_items(argument, given, f"{kind.__name__}s")):
        as_kind(f"{argument}[{k}]", line, kind)
        name = line.name or f"{kind.__name__.lower()} {k}"
        if name in taken or any(name == other.name for other in named):
            raise ValueError(f"{argument}[{k}]: the name {name!r} is taken")
        for rod in line.rods:
            if rod not in model.rods:
                raise unknown_name(f"rod of {kind.__name__.lower()} {name!r}", rod, model.rods)
        named.append(replace(line, name=name))
    return tuple(named)


def tendon_arrays(model: RodModel, lines: Sequence[Line]) -> TendonArrays:
    """Arrays of the lines, which all have names, in the order of their controls.  ValueError for rods that do not
    follow each other, and for a line that leaves its section."""
    pieces: dict[str, dict[int, np.ndarray]] = {name: {} for name in model.rods}
    spans = []
    for k, line in enumerate(lines):
        rods = [model.rods[name] for name in line.rods]
        routes = np.column_stack([line.routing(*rods), line.scales(*rods)])
        own = np.split(routes, np.cumsum([len(rod.nodes) for rod in rods])[:-1])
        pieces_of_line = dict(zip(line.rods, own, strict=True))
        spans += spans_of(model, line, k, pieces_of_line)
        for name, piece in pieces_of_line.items():
            pieces[name][k] = piece
    rows, first_mode, modes, weight, reference, start, control, routing = [], [], [], [], [], [0], [], []
    for rod in model.rods.values():
        routes = pieces[rod.name]
        if not routes:
            continue
        s = rod.nodes / rod.length
        values, at_rest = rod.basis.values(s), rod.reference_strains(s)
        for k in np.flatnonzero(rod.weights):
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
        np.array(control, np.int64), np.array(routing, float).reshape(-1, 5), span_arrays(spans),
    )  # fmt: skip


def warn_of_slack(argument: str, lines: Sequence[Line], controls: np.ndarray) -> None:
    """Warn of negative controls (lines,) or (K, lines) of lines of one kind."""
    least = np.min(np.atleast_2d(controls), axis=0, initial=0.0)
    slack = [f"{line.name!r}: {x:.4g} {line.unit}" for line, x in zip(lines, least, strict=True) if x < 0.0]
    if slack:
        warn(f"{argument}: {lines[0].one_way} ({first_few(slack)})")


# --------------------------------------------------------------------------------------------
# Generalised forces of tendons and chambers, and their derivatives, at most one 6x6 matrix per quadrature point for
# all of them.
#
# With D = [-d~ I], g = D't the gradient of a tendon's length per length, y = D Phi w the virtual motion, y_par = t.y,
# h = D'(y - y_par t) and G = D'D,                                                              [rod_hessian, section 4]
#
#     B = - sum_k w_k Phi'g                     d(Bu)/dq    = - sum_k w_k Phi' { sum u (G - g g') / l } Phi
#     d(B'w)/dq = - sum_k w_k h'Phi / l
#     d2(w'Bu)/dq2 = sum_k w_k Phi' { sum u (h g' + g h' + y_par (G - g g')) / l^2 } Phi
#
# with u and B of tendons; those of a chamber are -A(X) times as large.

# scratch of a point
STRAINS, VIRTUAL, GRADIENT, BENT, STIFFNESS, CURVATURE = 0, 6, 12, 18, 24, 45
"""Strains, virtual strains, g, h; lower triangles (21) of the terms {.} in Phi'{.}Phi of dr/dq and of Hqq."""
TENDON_NUMBERS = 66


@kernel
def _strains(e, p, state, first, share, ws, o):
    """Store share times the reference + Phi x at point p, for the coordinates x at `first` in the state."""
    align_stack(ws)
    for r in range(6):
        x = splat(ws, share * e.reference[p, r])
        for j in range(e.rows[p, r], e.rows[p, r + 1]):
            x = fma(_mode(e, p, j), load(state, first + j), x)
        store(ws, o + r, x)


@helper
def _mode(e, p, j):
    return e.modes[e.first_mode[p] + j - e.rows[p, 0]]


@helper
def _carried(x, y, z):
    """D x = x[3:] + x[:3] x (0, y, z)"""
    return (
        fnma(y, x[2], fma(z, x[1], x[3])),
        fnma(z, x[0], x[4]),
        fma(y, x[0], x[5]),
    )


@helper
def _gathered(t, y, z):
    """D't = [(0, y, z) x t; t]"""
    return (y * t[2] - z * t[1], z * t[0], -y * t[0], t[0], t[1], t[2])


@kernel
def _add_outer(ws, o, a, b, y, z):
    """Add a (G - g g') + b (h g' + g h') to the lower triangle at ws[o]."""
    align_stack(ws)
    k = o
    for r in range(6):
        gr, hr = load(ws, GRADIENT + r), load(ws, BENT + r)
        left, right = fma(b, hr, -a * gr), b * gr
        for c in range(r + 1):
            add_entry(ws, k, fma(left, load(ws, GRADIENT + c), right * load(ws, BENT + c)))
            k += 1
    add_entry(ws, o, a * (y * y + z * z))
    add_entry(ws, o + 2, a * (z * z))
    add_entry(ws, o + 4, a * (-y * z))
    add_entry(ws, o + 5, a * (y * y))
    add_entry(ws, o + 7, a * z)
    add_entry(ws, o + 8, a * -y)
    add_entry(ws, o + 9, a)
    add_entry(ws, o + 10, a * -z)
    add_entry(ws, o + 14, a)
    add_entry(ws, o + 15, a * y)
    add_entry(ws, o + 20, a)


@kernel
def _add_columns(e, p, size, k, factor, ws, o, target):
    """target[i size + k] += factor mode_i ws[o + r] for the coordinates i of component r."""
    align_stack(ws)
    for r in range(6):
        x = load(ws, o + r)
        for i in range(e.rows[p, r], e.rows[p, r + 1]):
            add_entry(target, i * size + k, (factor * _mode(e, p, i)) * x)


@kernel
def _expand(e, p, n, ws, o, A):
    """A += w Phi' {lower triangle at ws[o]} Phi for the point p."""
    align_stack(ws)
    for r in range(6):
        for c in range(r + 1):
            x = e.weight[p] * load(ws, o + r * (r + 1) // 2 + c)
            for i in range(e.rows[p, r], e.rows[p, r + 1]):
                for j in range(e.rows[p, c], e.rows[p, c + 1]):
                    entry = (_mode(e, p, i) * _mode(e, p, j)) * x
                    add_entry(A, i * n + j, entry)
                    if c < r:
                        add_entry(A, j * n + i, entry)


@kernel
def _add_tendon(e, level, p, t, nu, u, ws, r, B, Hqu):
    """Add the part of the pair t of point p and tendon to the residual, to B, Hqu, and to the triangles of the
    point."""
    align_stack(ws)
    k, w = e.control[t], e.weight[p] * e.routing[t, 4]
    y, z, dy, dz = e.routing[t, 0], e.routing[t, 1], e.routing[t, 2], e.routing[t, 3]
    x = _carried(load6(ws, STRAINS), y, z)
    x = (x[0], x[1] + dy, x[2] + dz)
    over = 1.0 / sqrt(fma(x[0], x[0], fma(x[1], x[1], x[2] * x[2])))
    along = (over * x[0], over * x[1], over * x[2])
    tension = e.routing[t, 4] * load(u, k)
    store6(ws, GRADIENT, _gathered(along, y, z))
    _add_columns(e, p, 1, 0, e.weight[p] * tension, ws, GRADIENT, r)
    if level >= FIRST:
        zero = splat(ws, 0.0)
        store6(ws, BENT, (zero, zero, zero, zero, zero, zero))
        _add_columns(e, p, nu, k, splat(ws, -w), ws, GRADIENT, B)
        _add_outer(ws, STIFFNESS, tension * over, zero, y, z)
    if level >= SECOND:
        moved = _carried(load6(ws, VIRTUAL), y, z)
        part = fma(along[0], moved[0], fma(along[1], moved[1], along[2] * moved[2]))
        across = (
            fnma(part, along[0], moved[0]), fnma(part, along[1], moved[1]), fnma(part, along[2], moved[2]),
        )  # fmt: skip
        store6(ws, BENT, _gathered(across, y, z))
        _add_columns(e, p, nu, k, w * over, ws, BENT, Hqu)
        b = -tension * over * over
        _add_outer(ws, CURVATURE, b * part, b, y, z)


@kernel
def add_tendons(e, level, n, nu, state, ws, r, dq, Hqq, B, Hqu):
    """Add the part of tendons to the residual r = ... - B u and, as the level goes, to dr/dq, B, Hqq, Hqu.

    e: TendonArrays; state: q, v, a, w, u; scratch ws: TENDON_NUMBERS."""
    align_stack(ws)
    u = state[4 * n :]
    add_spans(e.spans, level, n, nu, state, r, dq, Hqq, B, Hqu)
    for p in range(e.weight.size):
        _strains(e, p, state, 0, 1.0, ws, STRAINS)
        ws[STIFFNESS:TENDON_NUMBERS] = 0.0
        if level >= SECOND:
            _strains(e, p, state, 3 * n, 0.0, ws, VIRTUAL)
        for t in range(e.start[p], e.start[p + 1]):
            _add_tendon(e, level, p, t, nu, u, ws, r, B, Hqu)
        if level >= FIRST:
            _expand(e, p, n, ws, STIFFNESS, dq)
        if level >= SECOND:
            _expand(e, p, n, ws, CURVATURE, Hqq)
