"""From public arrays to drivers: batch shapes, scratch memory, threads.

Every public array function takes one point or a batch of K points; a single point among batches is repeated.
"""

import threading

import numba
import numpy as np

from dynamics.simd import LANES, PARALLEL, aligned_zeros
from dynamics.validation import as_batch, check_configuration

_scratch = threading.local()


def scratch(numbers: int) -> np.ndarray:
    """Reusable lane workspace (threads, numbers, LANES); contents are undefined."""
    blocks = _scratch.__dict__.setdefault("blocks", {})
    key = (numba.get_num_threads(), numbers)
    if key not in blocks:
        if len(blocks) > 64:
            blocks.clear()
        blocks[key] = aligned_zeros(key[0], numbers, LANES)
    return blocks[key]


def launch(drive, *args) -> None:
    """Run a driver; the thread pool serves one caller at a time."""
    with PARALLEL:
        drive(*args)


def points(model, q, **vectors):
    """Validated, equally long batches.

    Parameters: q (nq,) or (K, nq); vectors: name -> array (nv,) or (K, nv).
    Returns: single (bool), [q (K, nq), then one (K, nv) array per vector].
    Raises ValueError naming the argument, its shape and the one wanted, or the first bad entry.
    """
    batch, single = as_batch("q", q, model.nq)
    arrays = [batch]
    for name, value in vectors.items():
        array, one = as_batch(name, value, model.nv)
        arrays.append(array)
        single = single and one
    lengths = {len(x) for x in arrays if len(x) != 1}
    if len(lengths) > 1:
        sizes = ", ".join(f"{n}: {len(x)}" for n, x in zip(("q", *vectors), arrays, strict=True))
        raise ValueError(f"arguments have different numbers of points ({sizes}); expected one K, or single points")
    K = max(len(x) for x in arrays)
    check_configuration(model, batch)
    return single, [np.ascontiguousarray(np.broadcast_to(x, (K, x.shape[1]))) if len(x) != K else x for x in arrays]


def unbatch(single: bool, *arrays):
    """The arrays of a batch, or of its only point."""
    return tuple(x[0] for x in arrays) if single else arrays
