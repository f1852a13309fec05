"""External loads as kernels see them, and what they add up to."""

from typing import NamedTuple

import numpy as np

from dynamics.rods.model.contact_arrays import ContactArrays
from dynamics.rods.model.law_arrays import LawArrays

WRENCH, FOLLOWER, DEAD, CONTACT, DRAG, ADDED_MASS, CARRIED, LAW = range(8)
PARAMETERS = 40
"""Numbers of a load.  WRENCH and FOLLOWER: which of the given wrenches, the point (3) of the link, and what it is
multiplied with; DEAD: a force (3) and a moment (3), axes of the world; CARRIED: these in axes of the node; CONTACT:
those of `distances`; DRAG: matrix (36), speed of the smoothing; ADDED_MASS: matrix (36); LAW:
its number, and what it is multiplied with."""

# sums over a subtree, in the world frame: P, C, M, N, B of `loads` as matrices
P, C, M6, N6, B6 = 0, 36, 72, 108, 144
LOADS = 180


class LoadArrays(NamedTuple):
    """L loads in the order of their segments, of which there are S."""

    start: np.ndarray  # (S + 1,) loads at the end of segment s: start[s] ... start[s + 1] - 1
    kind: np.ndarray  # (L,)
    parameters: np.ndarray  # (L, PARAMETERS)
    loaded: np.ndarray  # (S,) 1 where the segment or one after it has a load, else 0
    contacts: ContactArrays  # with friction, or between links
    laws: LawArrays
