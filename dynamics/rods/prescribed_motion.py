"""Coordinate-controlled joints: which coordinates follow given functions of time, and what these functions are."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from dynamics.rods.model import RodModel
from dynamics.validation import as_array, unknown_name

Motion = Callable[[float], ArrayLike]


class PrescribedMotion(NamedTuple):
    """Prescribed joints of a model.

    Attributes
    ----------
    links : names, and the slices of their coordinates among the prescribed ones
    coordinates, free : (P,) prescribed ones, in the order of the links, and (F,) others
    values : function of t: q, v, a of the prescribed coordinates, (3, P)
    """

    links: dict[str, slice]
    coordinates: np.ndarray
    free: np.ndarray
    values: Callable[[float], np.ndarray]

    def of_links(self, forces: np.ndarray) -> dict[str, np.ndarray]:
        """Forces (., n) along all coordinates, split into those of the prescribed joints (., dof)."""
        return {name: forces[..., self.coordinates[own]] for name, own in self.links.items()}


def prescribed_motion(model: RodModel, prescribed: Mapping[str, Motion] | None) -> PrescribedMotion:
    """The joints of these links with functions of t that return (3,), or (3, dof): coordinates, rates, accelerations.

    Raises
    ------
    ValueError : an unknown link, or one without a joint; its function too, for what has another shape.
    TypeError : no function.
    """
    links, coordinates, motions = {}, [], []
    for name, motion in (prescribed or {}).items():
        own = _coordinates(model, name)
        if not callable(motion):
            raise TypeError(f"prescribed[{name!r}]: got {type(motion).__name__}, expected a function of t")
        links[name] = slice(len(coordinates), len(coordinates) + own.stop - own.start)
        coordinates += range(own.start, own.stop)
        motions.append((name, motion, links[name]))
    indices = np.array(coordinates, np.int64)

    def values(t: float) -> np.ndarray:
        rows = np.empty((3, len(indices)))
        for name, motion, own in motions:
            given = np.asarray(motion(t), dtype=np.float64)
            rows[:, own] = _as_rows(name, t, given, own.stop - own.start)
        if not np.isfinite(rows).all():
            for name, _, own in motions:
                at_time(f"prescribed[{name!r}]", t, rows[:, own], rows[:, own].shape)
        return rows

    return PrescribedMotion(links, indices, np.setdiff1d(np.arange(model.nq), indices), values)


def _coordinates(model: RodModel, name: str) -> slice:
    if name not in model.joint_coordinates:
        raise unknown_name("prescribed: link with a joint", name, model.joint_coordinates)
    return model.joint_coordinates[name]


def _as_rows(name: str, t: float, given: np.ndarray, dof: int) -> np.ndarray:
    """Coordinates, rates and accelerations (3, dof), of one degree of freedom also (3,); ValueError for others."""
    if dof == 1 and given.ndim == 1:
        given = given[:, None]
    return given if given.shape == (3, dof) else as_array(f"prescribed[{name!r}]({t:.6g})", given, (3, dof))


def at_time(name: str, t: float, value: ArrayLike, shape: tuple[int, ...]) -> np.ndarray:
    """What a function of t gave, as an array; ValueError names the function and t."""
    array = np.asarray(value, dtype=np.float64)
    if array.shape != shape or not np.isfinite(array).all():
        return as_array(f"{name}({t:.6g})", value, shape)
    return array


def prescribed_values(model: RodModel, prescribed: Mapping[str, ArrayLike] | None) -> PrescribedMotion:
    """The same for joints at rest at given coordinates, a number or (dof,)."""

    def at_rest(name: str, value: ArrayLike) -> Motion:
        own = _coordinates(model, name)
        q = np.atleast_1d(np.asarray(value, dtype=np.float64))
        q = as_array(f"prescribed[{name!r}]", q, (own.stop - own.start,))
        return lambda t: np.array([q, 0.0 * q, 0.0 * q])

    return prescribed_motion(model, {name: at_rest(name, value) for name, value in (prescribed or {}).items()})
