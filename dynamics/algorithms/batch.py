"""Batches: validation and shapes of the arrays of public functions, for drivers.

Every public array function takes one point or a batch of K points; a single point among batches is repeated.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import cast

import numpy as np
from numpy.typing import ArrayLike

from dynamics.model.model import RigidBodyModel, check_configuration, check_inertias, check_model
from dynamics.simd import LANES, aligned_empty, launch, routine, scratch
from dynamics.validation import QUATERNION_TOLERANCE, as_batch

__all__ = ["empty_matrices", "kinematic_points", "launch", "points", "scratch", "square_matrices", "unbatch"]


def points(model: RigidBodyModel, q: ArrayLike, **vectors: ArrayLike) -> tuple[bool, list[np.ndarray]]:
    """`kinematic_points` of a robot with inertias, for functions of its dynamics; ValueError for one without."""
    if check_model(model).is_kinematic:
        check_inertias(model)
    return _points(model, q, vectors)


def kinematic_points(model: RigidBodyModel, q: ArrayLike, **vectors: ArrayLike) -> tuple[bool, list[np.ndarray]]:
    """Validated, equally long batches.

    Parameters: q (nq,) or (K, nq); vectors: name -> array (nv,) or (K, nv).
    Returns: single (bool), [q (K, nq), then one (K, nv) array per vector].
    Raises ValueError naming the argument, its shape and the one expected, or the first bad entry.
    """
    check_model(model)
    return _points(model, q, vectors)


def _points(model: RigidBodyModel, q: ArrayLike, vectors: dict[str, ArrayLike]) -> tuple[bool, list[np.ndarray]]:
    if _is_batch(model, q, vectors):
        return False, cast("list[np.ndarray]", [q, *vectors.values()])
    batch, single = as_batch("q", q, model.nq)
    arrays = [batch]
    for name, value in vectors.items():
        array, one = as_batch(name, value, model.nv)
        arrays.append(array)
        single = single and one
    lengths = {len(x) for x in arrays if len(x) != 1}
    if len(lengths) > 1:
        sizes = ", ".join(f"{n}: {len(x)}" for n, x in zip(("q", *vectors), arrays, strict=True))
        raise ValueError(f"arguments: got different numbers of points ({sizes}), expected one K, or single points")
    K = next(iter(lengths), 1)
    check_configuration(model, batch)
    return single, [_repeated(x, K) for x in arrays]


def _is_batch(model, q, vectors: dict) -> bool:
    """True if the arguments already have the form that `points` returns, which halves the cost of a few knots."""
    K = len(q) if isinstance(q, np.ndarray) and q.ndim == 2 else 0
    shape = (K, model.nv)
    return (
        K > 0
        and _is_plain(q, (K, model.nq))
        and all(_is_plain(x, shape) for x in vectors.values())
        and _all_finite(q)
        and all(_all_finite(x) for x in vectors.values())
        and all(_all_unit(q, start, QUATERNION_TOLERANCE) for _, start in model.quaternion_slots)
    )


def _is_plain(x, shape) -> bool:
    flags = x.flags if type(x) is np.ndarray else None
    return flags is not None and x.shape == shape and x.dtype == np.float64 and flags.carray


@routine
def _all_finite(x):
    """True if no entry of x (K, n) is infinite or NaN."""
    for value in x.reshape(x.size):
        if not value - value == 0.0:
            return False
    return True


@routine
def _all_unit(q, start, tolerance):
    """True if the quaternions q[:, start : start + 4] have unit length."""
    good = True
    for k in range(q.shape[0]):
        square = 0.0
        for i in range(start, start + 4):
            square += q[k, i] * q[k, i]
        good = good and abs(np.sqrt(square) - 1.0) <= tolerance
    return good


def _repeated(x: np.ndarray, K: int) -> np.ndarray:
    """x repeated to K points; read-only arrays are copied, because numba would compile again for these."""
    return x if len(x) == K and x.flags.writeable else np.array(np.broadcast_to(x, (K, x.shape[1])), order="C")


def unbatch(single: bool, *arrays: np.ndarray) -> tuple[np.ndarray, ...]:
    """The arrays of a batch, or if `single` those of its only point."""
    return tuple(x[0] for x in arrays) if single else arrays


def empty_matrices(count: int, K: int, n: int) -> list[np.ndarray]:
    """Arrays (K, n n) for drivers to fill, on vector boundaries, which saves a third of the time of filling."""
    size = K * n * n
    block = aligned_empty(count, -(-size // LANES) * LANES)
    return [row[:size].reshape(K, n * n) for row in block]


def square_matrices(single: bool, arrays: Sequence[np.ndarray]) -> tuple[np.ndarray, ...]:
    """The arrays of `empty_matrices` as (K, n, n), or if `single` as (n, n)."""
    n = math.isqrt(arrays[0].shape[1])
    return unbatch(single, *(x.reshape(-1, n, n) for x in arrays))
