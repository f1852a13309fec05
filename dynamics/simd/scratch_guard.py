"""For tests: a pattern in and behind the scratch of every thread that `launch` starts, so that a driver that writes
more numbers than it asked for is found and named, and one that reads what it never wrote computes NaN; and a look at
the layout of the drivers' arguments.

On in processes with TRAJOPT_GUARD_SCRATCH in their environment.
"""

import os

import numpy as np

ON = bool(os.environ.get("TRAJOPT_GUARD_SCRATCH"))
ROWS = 8
"""Numbers per lane behind the scratch."""
PATTERN = np.uint64(0x7FF4_5C4A_7C4A_11ED)
"""A signalling NaN: arithmetic makes it a quiet one, so only copies have these bits."""

unused: dict[str, int] = {}
"""Of each driver that was called: the fewest numbers at the end of its scratch that a call left alone."""


def name_of(drive) -> str:
    """Module and name of a driver."""
    return f"{drive.__module__}.{drive.__qualname__}"


def check_layout(drive, args) -> None:
    """Raise RuntimeError for an array among the arguments whose numbers do not lie one after the other: numba compiles
    a driver once more for every layout, a minute for the large ones, and gives no sign of it."""
    for x in args:
        if isinstance(x, tuple):
            check_layout(drive, x)
        elif isinstance(x, np.ndarray) and not x.flags.c_contiguous:
            raise RuntimeError(f"{name_of(drive)}: got {x.shape} of strides {x.strides}, expected a C-contiguous array")


def lay(rows: np.ndarray) -> None:
    """Fill scratch and guard (threads, numbers + ROWS, LANES) with the pattern."""
    rows.view(np.uint64).fill(PATTERN)


def check(drive, rows: np.ndarray, numbers: int) -> None:
    """Raise RuntimeError if the driver wrote behind its scratch; else note in `unused` how much of it was left."""
    bits, name = rows.view(np.uint64), name_of(drive)
    over = np.flatnonzero((bits[:, numbers:] != PATTERN).any(axis=(0, 2)))
    if over.size:
        raise RuntimeError(f"{name}: asked for {numbers} numbers of scratch and wrote number {numbers + over[-1] + 1}")
    left, most = 0, unused.get(name, numbers)
    while left < most and (bits[:, numbers - 1 - left] == PATTERN).all():
        left += 1
    unused[name] = left
