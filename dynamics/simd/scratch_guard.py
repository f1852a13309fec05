"""Checks for tests: a pattern in and behind the scratch of every thread that `launch` starts, so that a driver that
writes beyond its workspace size is found and named, and one that reads numbers it never wrote computes NaN; the names
of prepared calls that wrote a first NaN; and a check of the layout of the drivers' arguments.

They are on in processes with TRAJOPT_GUARD_SCRATCH in their environment.
"""

import os

import numpy as np

ON = bool(os.environ.get("TRAJOPT_GUARD_SCRATCH"))
ROWS = 8
"""Number of rows of guard behind the scratch."""
PATTERN = np.uint64(0x7FF4_5C4A_7C4A_11ED)
"""Bits of a signalling NaN, which arithmetic turns into a quiet one, so that only copies have these bits."""

unused: dict[str, int] = {}
"""Fewest numbers at the end of its scratch that a call left untouched, by driver."""


wrote_nan: list[str] = []
"""Prepared calls after which arrays held a NaN, and before which none of theirs did, in the order in which that first
happened to each."""


def holding_nan(arrays: list[np.ndarray]) -> set[int]:
    """Indices of arrays with a NaN."""
    return {i for i, x in enumerate(arrays) if x.dtype == np.float64 and np.isnan(x).any()}


def name_of(drive) -> str:
    """Module and name of a driver."""
    return f"{drive.__module__}.{drive.__qualname__}"


def check_layout(drive, args) -> None:
    """Raise RuntimeError for an array among the arguments that is not contiguous: numba compiles a driver once more for
    every layout, a minute for the large ones, without notice."""
    for x in args:
        if isinstance(x, tuple):
            check_layout(drive, x)
        elif isinstance(x, np.ndarray) and not x.flags.c_contiguous:
            raise RuntimeError(f"{name_of(drive)}: got {x.shape} of strides {x.strides}, expected a C-contiguous array")


def lay(rows: np.ndarray) -> None:
    """Fill scratch and guard (threads, numbers + ROWS, LANES) with the pattern."""
    rows.view(np.uint64).fill(PATTERN)


def check(drive, rows: np.ndarray, workspace_size: int) -> None:
    """Raise RuntimeError if the driver wrote behind its scratch; else record in `unused` the size left untouched."""
    bits, name = rows.view(np.uint64), name_of(drive)
    behind = bits[:, workspace_size:] != PATTERN
    if behind.any():
        wrote = workspace_size + np.flatnonzero(behind.any(axis=(0, 2)))[-1] + 1
        raise RuntimeError(f"{name}: asked for {workspace_size} numbers of scratch and wrote number {wrote}")
    most = min(unused.get(name, workspace_size), workspace_size)
    unused[name] = most
    if most:
        touched = (bits[:, workspace_size - most : workspace_size] != PATTERN).any(axis=(0, 2))
        if touched.any():
            unused[name] = int(np.argmax(touched[::-1]))


def blame(drive, before: set[int], after: set[int]) -> None:
    """Note a call after which more arrays hold a NaN, if none did before."""
    if after and not before and name_of(drive) not in wrote_nan:
        wrote_nan.append(name_of(drive))
