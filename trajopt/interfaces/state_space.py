"""The space of states as an object of its own: what a controller needs of it where the system is not.

Systems say what it is as plain data (`trajopt.capabilities.StateManifold`); a state is the numbers of all factors, one
behind the other, and a tangent vector theirs:

    ("euclidean", n)        n numbers, moved and compared by sums and differences
    ("so3",)                a unit quaternion (x y z w); tangents (3,) in the moved axes, x exp(dx)
    ("se3",)                position and unit quaternion (7,); tangents (6,), linear part first
    ("se2",)                x, y and an angle that is not wrapped (3,); tangents (3,)
    ("charts", n, joints)   coordinates and velocities (2 n,) of soft robots with joints that turn without limit;
                            joints, lists of six: where in the n coordinates those of a joint are, -1 where it has none

States of other manifolds are moved and compared by their system, one at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from dynamics.validation import check_finite
from trajopt.capabilities import StateManifold, capability
from trajopt.interfaces.system import System, as_manifold, check_states, tangent_units

SIZES = {"so3": (4, 3), "se3": (7, 6), "se2": (3, 3)}
"""Numbers of a point and of a tangent."""
MEASURED = {
    "so3": [(-1, "1")] * 4,
    "se3": [(-1, "m")] * 3 + [(-1, "1")] * 4,
    "se2": [(-1, "m"), (-1, "m"), (2, "rad")],
}
"""For each number of a point: the component of the tangent that is its change, -1 for none, and its unit."""
NEAR = 1.8
"""Rotation vectors that differ by less than this in each number, rad, differ by less than half a turn."""
Factors = tuple[tuple[Any, ...], ...]


class CompiledSpace(NamedTuple):
    """A space of vectors and groups for compiled code: rows (P, 4) of its factors as `dynamics.spatial.product` has
    them, and routines that take these first.

    first_no_point(rows, x) is negative for a state; move(rows, x, dx, out); compare(rows, x0, x1, out)."""

    rows: np.ndarray
    first_no_point: Any
    move: Any
    compare: Any


class StateSpace:
    """Moves and compares single states; of vectors, where a method is not replaced.

    Attributes
    ----------
    nx, ndx : int
    factors : tuple, as the head of this file has them; None of a manifold that nothing is said of
    """

    factors: Factors | None

    def __init__(self, nx: int, ndx: int, factors: Factors | None) -> None:
        self.nx, self.ndx, self.factors = nx, ndx, factors

    def move(self, x: np.ndarray, dx: np.ndarray) -> np.ndarray:
        """x (nx,) moved along the tangent dx (ndx,)."""
        return x + dx

    def compare(self, x0: np.ndarray, x1: np.ndarray) -> np.ndarray:
        """The tangent (ndx,) at x0 that leads to x1."""
        return x1 - x0

    def contains(self, x: np.ndarray) -> bool:
        """True if the numbers x (nx,) are a state."""
        return bool(np.isfinite(x).all())

    def check(self, name: str, x: np.ndarray) -> None:
        """Raise ValueError, naming the argument, for numbers x (nx,) that are no state."""
        check_finite(name, x)

    def compiled(self) -> CompiledSpace | None:
        """The space for compiled code, which moves and compares with the same bits; None where there is none."""
        return compiled_space([("euclidean", self.nx)])


class GroupStates(StateSpace):
    """Products of vectors, rotations and placements."""

    def __init__(self, factors: Factors) -> None:
        nx, ndx = (sum(sizes) for sizes in zip(*map(sizes_of, factors), strict=True))
        super().__init__(nx, ndx, factors)
        self._own = compiled_space(factors)

    def __reduce__(self) -> tuple[Any, ...]:
        return GroupStates, (self.factors,)

    def move(self, x: np.ndarray, dx: np.ndarray) -> np.ndarray:
        out = np.empty(self.nx)
        self._own.move(self._own.rows, x, dx, out)
        return out

    def compare(self, x0: np.ndarray, x1: np.ndarray) -> np.ndarray:
        out = np.empty(self.ndx)
        self._own.compare(self._own.rows, x0, x1, out)
        return out

    def contains(self, x: np.ndarray) -> bool:
        return self._own.first_no_point(self._own.rows, x) < 0

    def check(self, name: str, x: np.ndarray) -> None:
        super().check(name, x)
        rows = self._own.rows
        i = self._own.first_no_point(rows, x)
        if i >= 0:
            from dynamics.spatial.product import UNIT

            end = int(rows[i, 1] + rows[i, 3])
            raise ValueError(
                f"{name}: the quaternion {name}[{end - 4}:{end}] has norm {np.linalg.norm(x[end - 4 : end]):.9g}, "
                f"expected a unit quaternion (x y z w) within {UNIT:g}"
            )

    def compiled(self) -> CompiledSpace:
        return self._own


def sizes_of(factor: Sequence[Any]) -> tuple[int, int]:
    """Numbers of a point and of a tangent of a factor of vectors or groups."""
    name, *count = factor
    return SIZES[name] if name in SIZES else (*count, *count)


def compiled_space(factors: Sequence[Sequence[Any]]) -> CompiledSpace:
    """The space of vectors and groups for compiled code."""
    from dynamics.spatial import product  # vectors are to import and compile nothing

    codes = dict(zip(SIZES, (product.SO3, product.SE3, product.SE2), strict=True))
    rows, nx, ndx = [], 0, 0
    for factor in factors:
        points, tangents = sizes_of(factor)
        rows.append((codes.get(factor[0], product.EUCLIDEAN), nx, ndx, points))
        nx, ndx = nx + points, ndx + tangents
    return CompiledSpace(
        np.array(rows, dtype=np.int64), product.first_no_point, product.integrate, product.difference
    )


class ChartStates(StateSpace):
    """Vectors with the coordinates of joints that have two charts each: the nearer ones are compared."""

    def __init__(self, factors: Factors) -> None:
        self._joints, size = [], 0
        for name, n, *joints in factors:
            if name == "charts":
                self._joints.append((size, n, np.array(joints[0], dtype=np.int64).reshape(-1, 6)))
            size += 2 * n if name == "charts" else n
        super().__init__(size, size, factors)

    def compare(self, x0: np.ndarray, x1: np.ndarray) -> np.ndarray:
        d = x1 - x0
        for start, n, turns in self._joints:
            if np.abs(d[start : start + n]).max() > NEAR:
                from dynamics.rods.kinematics.charts import change, farther

                part = slice(start, start + 2 * n)
                which = farther(turns, x0[part], x1[None, part])
                d[part] = change(turns, n, x1[None, part], which)[0] - x0[part]
        return d

    def compiled(self) -> None:
        """None: joints with two charts are compared in Python."""


class OwnStates(StateSpace):
    """States that their system moves, compares and checks itself."""

    def __init__(self, system: System) -> None:
        factors = (("euclidean", system.nx),) if as_manifold(system) is None else None
        super().__init__(system.nx, system.ndx, factors)
        self.system = system

    def move(self, x: np.ndarray, dx: np.ndarray) -> np.ndarray:
        return self.system.integrate(x, dx)

    def compare(self, x0: np.ndarray, x1: np.ndarray) -> np.ndarray:
        return self.system.difference(x0, x1)

    def contains(self, x: np.ndarray) -> bool:
        try:
            self.check("x", x)
        except ValueError:
            return False
        return True

    def check(self, name: str, x: np.ndarray) -> None:
        super().check(name, x)
        try:
            check_states(self.system, x[None])
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from None

    def compiled(self) -> CompiledSpace | None:
        """Vectors, and None for a manifold, unless the system checks its states itself."""
        own = self.factors is None or capability(self.system, StateManifold).check_state is not None
        return None if own else super().compiled()


def state_space(system: System) -> StateSpace:
    """The space of a system's states."""
    known = capability(system, StateManifold)
    if known.state_space is not None:
        try:
            return space_of(known.state_space)
        except ValueError:  # of factors that are not known here
            return OwnStates(system)
    if known.euclidean and known.check_state is None:
        return space_of([("euclidean", system.nx)])
    return OwnStates(system)


def space_of(factors: Sequence[Sequence[Any]]) -> StateSpace:
    """The space that plain data describe, as the head of this file has it.

    Raises ValueError for what describes none.
    """
    merged: list[tuple[Any, ...]] = []
    for factor in factors:
        if not _is_factor(factor):
            raise ValueError(f"state_space: got the factor {factor!r}, expected one of {', '.join(KNOWN)}")
        if factor[0] == "euclidean" and merged and merged[-1][0] == "euclidean":
            merged[-1] = "euclidean", merged[-1][1] + factor[1]
        else:
            merged.append(tuple(factor))
    names = {factor[0] for factor in merged}
    if not merged or ("charts" in names and names & set(SIZES)):
        raise ValueError(f"state_space: got {factors!r}, expected groups, or charts, beside vectors")
    if names == {"euclidean"}:
        return StateSpace(merged[0][1], merged[0][1], tuple(merged))
    return ChartStates(tuple(merged)) if "charts" in names else GroupStates(tuple(merged))


KNOWN = ("('euclidean', n)", *(f"({name!r},)" for name in SIZES), "('charts', n, joints)")


def _is_factor(factor: Any) -> bool:
    if not isinstance(factor, (list, tuple)) or not factor:
        return False
    name, *rest = factor
    if name == "charts" and len(rest) == 2:
        count, joints = rest
        return _is_count(count) and isinstance(joints, (list, tuple)) and all(_is_joint(j, count) for j in joints)
    return (name == "euclidean" and len(rest) == 1 and _is_count(rest[0])) or (name in SIZES and not rest)


def _is_count(value: Any) -> bool:
    return type(value) is int and value >= 0


def _is_joint(places: Any, count: int) -> bool:
    listed = isinstance(places, (list, tuple)) and len(places) == 6
    return listed and all(type(i) is int and -1 <= i < count for i in places)


def numbers_of_states(system: System) -> tuple[np.ndarray, tuple[str, ...]]:
    """For each number (nx,) of a state the component of the tangent that is its change, -1 where no single one is, as
    of quaternions and of positions that move in axes of their own; and its unit, "1" of quaternions, "" where none is
    known."""
    units, components, found, at = tangent_units(system), [], [], 0
    factors = state_space(system).factors
    for name, *count in [("unknown", system.nx)] if factors is None else factors:
        own = MEASURED.get(name)
        if own is None:
            plain = name != "unknown"
            span = range(at, at + count[0] * (2 if name == "charts" else 1))
            components += [i if plain else -1 for i in span]
            found += [units[i] if plain else "" for i in span]
            at = span.stop
        else:
            components += [at + i if i >= 0 else -1 for i, _ in own]
            found += [unit for _, unit in own]
            at += SIZES[name][1]
    return np.array(components), tuple(found)
