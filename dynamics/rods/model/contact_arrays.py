"""Contacts between points of two links, or with friction and damping, as kernels see them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from dynamics.rods.model.arrays import RodArrays


class ContactArrays(NamedTuple):
    """C contacts between points of segments A and B."""

    segment: np.ndarray  # (C, 2) whose ends are the frames of A and B, -1 for the world
    numbers: np.ndarray  # (C, .) as of `distances`, the point in the frame of B
    path_start: np.ndarray  # (C + 1,)
    path: np.ndarray  # coordinates that move A or B, for all contacts


def contact_arrays(m: RodArrays, contacts: Sequence[tuple[int, int, np.ndarray]]) -> ContactArrays:
    """Of segments A and B and numbers."""
    segment = np.array([ends for *ends, _ in contacts], np.int64).reshape(-1, 2)
    own = [m.path[m.path_start[s] : m.path_start[s + 1]] for s in range(len(m.parent))]
    paths = [np.unique(np.concatenate([own[s] for s in ends if s >= 0])) for ends in segment]
    starts = np.concatenate([[0], np.cumsum([len(path) for path in paths])]).astype(np.int64)
    numbers = np.array([numbers for *_, numbers in contacts]) if contacts else np.zeros((0, 0))
    return ContactArrays(segment, numbers, starts, np.concatenate([np.zeros(0, np.int64), *paths]))
