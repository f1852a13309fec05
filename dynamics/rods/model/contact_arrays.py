"""Contacts between points of two links, or with friction and damping, as kernels see them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from dynamics.rods.model.arrays import RodArrays
from dynamics.simd import helper


class ContactArrays(NamedTuple):
    """C contacts between points of segments A and B, in two arrays, as each of them costs at every call."""

    integers: np.ndarray  # (2 C) segments whose ends are the frames of A and B, -1 for the world; (C + 1) where the
    # coordinates that move A or B begin; these
    numbers: np.ndarray  # (C, .) as of `distances`, the point in the frame of B


@helper
def touching_segment(k, i, side):
    """Segment A or B of contact i."""
    return k.integers[2 * i + side]


@helper
def touching_path(k, i):
    """Where the coordinates of contact i begin and end among the integers."""
    C = k.numbers.shape[0]
    first = 3 * C + 1
    return first + k.integers[2 * C + i], first + k.integers[2 * C + i + 1]


def contact_arrays(m: RodArrays, contacts: Sequence[tuple[int, int, np.ndarray]]) -> ContactArrays:
    """Of segments A and B and numbers."""
    segment = np.array([ends for *ends, _ in contacts], np.int64).reshape(-1, 2)
    own = [m.path[m.path_start[s] : m.path_start[s + 1]] for s in range(len(m.parent))]
    paths = [np.unique(np.concatenate([own[s] for s in ends if s >= 0])) for ends in segment]
    starts = np.concatenate([[0], np.cumsum([len(path) for path in paths])]).astype(np.int64)
    numbers = np.array([numbers for *_, numbers in contacts]) if contacts else np.zeros((0, 0))
    return ContactArrays(np.concatenate([segment.ravel(), starts, *paths]), numbers)
