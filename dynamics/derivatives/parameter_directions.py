"""Directions d/dp of all inputs of the dynamics: conversion from public arguments to arrays for kernels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from dynamics.algorithms.batch import points
from dynamics.algorithms.loads import Loads, Wrenches, loads_batch
from dynamics.derivatives.inertial_parameters import INERTIAL, parameter_rotation, turned_bodies
from dynamics.model.model import RigidBodyModel
from dynamics.simd import gather, helper, split
from dynamics.validation import as_array

TWIST = 6


class ParameterDirection(NamedTuple):
    """Rates of change of the inputs, per knot (K, numbers) for drivers, in lanes (numbers, LANES) for kernels.

    `inertial` and `placement` are empty where they do not change, and then cost nothing."""

    q: np.ndarray  # (., nv) along the tangent
    v: np.ndarray  # (., nv)
    a: np.ndarray  # (., nv)
    inertial: np.ndarray  # (., 10 nb) in the axes of the frames that the joints move
    placement: np.ndarray  # (., 6 nb) in the axes of the same frames at zero motion


@helper
def gather_direction(direction, first, ws):
    """The direction of LANES knots in a slice of the workspace, and the rest of the workspace."""
    q, w = split(ws, direction.q.shape[1])
    v, w = split(w, direction.v.shape[1])
    a, w = split(w, direction.a.shape[1])
    inertial, w = split(w, direction.inertial.shape[1])
    placement, w = split(w, direction.placement.shape[1])
    gather(direction.q, first, q)
    gather(direction.v, first, v)
    gather(direction.a, first, a)
    gather(direction.inertial, first, inertial)
    gather(direction.placement, first, placement)
    return ParameterDirection(q, v, a, inertial, placement), w


def direction_size(direction: ParameterDirection) -> int:
    """Workspace size per lane of `gather_direction`."""
    return sum(part.shape[1] for part in direction)


# ------------------------------------------------------------------------------------------------ from public arguments
class Batch(NamedTuple):
    """K points with one direction at each."""

    single: bool  # all arguments were single points
    q: np.ndarray  # (K, nq)
    v: np.ndarray  # (K, nv)
    a: np.ndarray  # (K, nv)
    tau: np.ndarray  # (K, nv)
    direction: ParameterDirection
    dtau: np.ndarray  # (K, nv)
    loads: Loads | None
    dloads: Loads | None  # None exactly where `loads` is


def direction_batch(
    model: RigidBodyModel,
    q: ArrayLike,
    vectors: dict,
    inertial: ArrayLike | None,
    placement: ArrayLike | None,
    external_wrenches: Wrenches | None,
    wrenches: Wrenches | None,
    wrench_reference: str,
) -> Batch:
    """The public arguments of `parameter_derivatives` as equally long batches; single points are repeated.

    vectors : v, a, tau, dq, dv, da, dtau by name, each (nv,) or (K, nv), or None for zeros.
    Raises ValueError naming the argument and its shape, or the numbers of points that differ.
    """
    given = {name: np.zeros(model.nv) if x is None else x for name, x in vectors.items()}
    single, arrays = points(model, q, **given)
    inertial, one = _per_body(model, "inertial", inertial, INERTIAL, parameter_rotation)
    placement, other = _per_body(model, "placement", placement, TWIST, _twist_rotation)
    loaded, last = _wrench_points(wrenches)
    lengths = {"q": len(arrays[0]), "inertial": len(inertial), "placement": len(placement), "wrenches": loaded}
    K = _common_length(lengths)
    arrays = [np.repeat(x, K, axis=0) if len(x) == 1 != K else x for x in (*arrays, inertial, placement)]
    q, v, a, tau, dq, dv, da, dtau, inertial, placement = arrays
    loads = loads_batch(model, external_wrenches, wrench_reference, K)
    dloads = loads_batch(model, wrenches, wrench_reference, K, "wrenches")
    if loads is None and dloads is not None:
        loads = loads_batch(model, {}, wrench_reference, K)
    if dloads is None and loads is not None:
        dloads = loads_batch(model, {}, wrench_reference, K)
    direction = ParameterDirection(dq, dv, da, inertial, placement)
    return Batch(single and one and other and last, q, v, a, tau, direction, dtau, loads, dloads)


def _per_body(model, name, value, size, rotation) -> tuple[np.ndarray, bool]:
    """One array (nb, size) or a batch of them as (K, nb size), or (1, 0) for None; and True if it was one array.

    rotation : matrix (size, size) of the rotation from a body's axes to those that kernels use."""
    if value is None:
        return np.empty((1, 0)), True
    nb, array = model.nb, as_array(name, value)
    if array.ndim not in (2, 3) or array.shape[-2:] != (nb, size):
        raise ValueError(f"{name}: got shape {array.shape}, expected ({nb}, {size}) or (K, {nb}, {size})")
    copy = array.copy()
    for i, R in turned_bodies(model):
        copy[..., i, :] = copy[..., i, :] @ rotation(R).T
    return copy.reshape(-1, nb * size), array.ndim == 2


def _twist_rotation(R):
    return np.kron(np.eye(2), R)


def _wrench_points(wrenches) -> tuple[int, bool]:
    """Number of points for which wrenches are given, and True for a single one; their shapes are checked later."""
    if wrenches is None:
        return 1, True
    if isinstance(wrenches, Mapping):
        arrays, ndim = [as_array(f"wrenches[{name!r}]", value) for name, value in wrenches.items()], 2
    else:
        arrays, ndim = [as_array("wrenches", wrenches)], 3
    lengths = [len(x) for x in arrays if x.ndim == ndim]
    return max(lengths, default=1), not lengths


def _common_length(lengths: dict[str, int]) -> int:
    several = {n for n in lengths.values() if n != 1}
    if len(several) > 1:
        sizes = ", ".join(f"{name}: {n}" for name, n in lengths.items())
        raise ValueError(f"arguments: got different numbers of points ({sizes}), expected one K, or single points")
    return next(iter(several), 1)
