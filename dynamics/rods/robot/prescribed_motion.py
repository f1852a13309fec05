"""Joints whose coordinates are prescribed as functions of time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from dynamics.rods.kinematics.exponential import FARTHEST
from dynamics.rods.model.rod_model import RodModel, rotation_count
from dynamics.validation import as_array, as_floats, as_kind, look_up

T = TypeVar("T")
Motion = Callable[[float], ArrayLike]


class PrescribedMotion(NamedTuple):
    """Prescribed joints of a model.

    Attributes
    ----------
    links : names of links, and the slices of their coordinates among the prescribed ones
    coordinates, free : (P,) prescribed coordinates, in the order of the links, and (F,) the others
    values : function of t that returns q, v, a of the prescribed coordinates, (3, P)
    """

    links: dict[str, slice]
    coordinates: np.ndarray
    free: np.ndarray
    values: Callable[[float], np.ndarray]

    def of_links(self, forces: np.ndarray) -> dict[str, np.ndarray]:
        """Forces (., n) along all coordinates, split by prescribed joint: (., dof) by name of link."""
        return {name: forces[..., self.coordinates[own]] for name, own in self.links.items()}


def prescribed_motion(model: RodModel, prescribed: Mapping[str, Motion] | None) -> PrescribedMotion:
    """The prescribed motion of the joints of these links, given as functions of t that return coordinates, rates and
    accelerations, (3,) or (3, dof).

    Raises
    ------
    ValueError : an unknown link, or one without a joint; also when a function returns another shape, or more than 2 pi
        for a joint that rotates about any axis.
    TypeError : a value that is not a function.
    """
    links, coordinates, motions, turning = {}, [], [], []
    for name, motion in _by_link(prescribed).items():
        own = _coordinates(model, name)
        if not callable(motion):
            raise TypeError(f"prescribed[{name!r}]: got {type(motion).__name__}, expected a function of t")
        links[name] = slice(len(coordinates), len(coordinates) + own.stop - own.start)
        coordinates += range(own.start, own.stop)
        motions.append((name, motion, links[name]))
        for k in range(own.start, own.stop):
            if count := rotation_count(model, k):
                first = links[name].start + k - own.start
                turning.append((name, slice(first, first + count)))
    indices = np.array(coordinates, np.int64)

    def values(t: float) -> np.ndarray:
        rows = np.empty((3, len(indices)))
        for name, motion, own in motions:
            rows[:, own] = _as_rows(name, t, motion(t), own.stop - own.start)
        if not np.isfinite(rows).all():
            for name, _, own in motions:
                at_time(f"prescribed[{name!r}]", t, rows[:, own], rows[:, own].shape)
        for name, angular in turning:
            if rows[0, angular] @ rows[0, angular] > FARTHEST**2:
                turn = np.linalg.norm(rows[0, angular])
                label = f"prescribed[{name!r}]({t:.6g})"
                raise ValueError(f"{label}: got {turn:.4g} rad of rotation, expected at most 2 pi")
        return rows

    return PrescribedMotion(links, indices, np.setdiff1d(np.arange(model.nq), indices), values)


def _by_link(prescribed: Mapping[str, T] | None) -> Mapping[str, T]:
    return {} if prescribed is None else as_kind("prescribed", prescribed, Mapping, "a mapping by name of link")


def _coordinates(model: RodModel, name: str) -> slice:
    return look_up("prescribed: link with a joint", name, model.joint_coordinates)


def _as_rows(name: str, t: float, value: ArrayLike, dof: int) -> np.ndarray:
    """Coordinates, rates and accelerations (3, dof), given so or, for one degree of freedom, as (3,).  ValueError for
    other shapes."""
    given = as_floats(f"prescribed[{name!r}]({t:.6g})", value)
    if dof == 1 and given.ndim == 1:
        given = given[:, None]
    return given if given.shape == (3, dof) else as_array(f"prescribed[{name!r}]({t:.6g})", given, (3, dof))


def at_time(name: str, t: float, value: ArrayLike, shape: tuple[int, ...]) -> np.ndarray:
    """The value of a function of t as an array; ValueError names the function and t."""
    if isinstance(value, np.ndarray) and value.dtype == np.float64 and value.shape == shape:
        if np.isfinite(value).all():
            return value
    return as_array(f"{name}({t:.6g})", value, shape)


def prescribed_values(model: RodModel, prescribed: Mapping[str, ArrayLike] | None) -> PrescribedMotion:
    """The prescribed motion of joints at rest at given coordinates, a number or (dof,), by name of link."""

    def at_rest(name: str, value: ArrayLike) -> Motion:
        own = _coordinates(model, name)
        label = f"prescribed[{name!r}]"
        q = as_array(label, np.atleast_1d(as_floats(label, value)), (own.stop - own.start,))
        return lambda t: np.array([q, 0.0 * q, 0.0 * q])

    return prescribed_motion(model, {name: at_rest(name, value) for name, value in _by_link(prescribed).items()})
