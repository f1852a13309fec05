"""From public arrays to drivers: batch shapes.

Every public array function takes one point or a batch of K points; a single point among batches is repeated.
"""

import numpy as np

from dynamics.simd import launch, scratch
from dynamics.validation import as_batch, check_configuration

__all__ = ["launch", "points", "scratch", "unbatch"]


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
    K = next(iter(lengths), 1)
    check_configuration(model, batch)
    return single, [_repeated(x, K) for x in arrays]


def _repeated(x: np.ndarray, K: int) -> np.ndarray:
    """x as K points; a copy also if read-only, because numba would compile again for that."""
    return x if len(x) == K and x.flags.writeable else np.array(np.broadcast_to(x, (K, x.shape[1])), order="C")


def unbatch(single: bool, *arrays):
    """The arrays of a batch, or of its only point."""
    return tuple(x[0] for x in arrays) if single else arrays
