"""Memory of arrays that are made anew in every iteration.

The C library of Linux hands freed memory back to the system beyond a threshold, twice the largest block that it has
mapped and freed so far (mallopt(3), M_MMAP_THRESHOLD).  Every page of it that is used again costs a fault: a third of
an exact iteration on a quadruped with 100 knots, whose arrays have a megabyte each.
"""

from functools import cache

import numpy as np

BLOCKS = 6
"""Sets of expansions, curvature and value functions that an exact iteration holds at a time."""
LARGEST = 31 << 20
"""Blocks beyond 32 MB leave the threshold as it is."""


@cache
def keep_freed(horizon: int, ndx: int, nu: int) -> None:
    """Let what one iteration frees serve the next: free a block of that size, which is not even touched."""
    numbers = BLOCKS * (horizon + 1) * (ndx + nu) ** 2
    np.empty(min(8 * numbers, LARGEST), dtype=np.uint8)
