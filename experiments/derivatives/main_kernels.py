"""What is timed: the four main kernels of the derivatives, their results in the lanes or as arrays, and the peak."""

from collections.abc import Callable
from functools import partial

import numpy as np

import dynamics
from dynamics.derivatives.packed import packed_size
from dynamics.derivatives.second_order import drive_second_order
from dynamics.simd import LANES, aligned_empty, chunk_count, driver, launch, load
from dynamics.simd.threads import MINIMUM_WORK
from dynamics.spatial.spatial import add6, add_scaled6, load6, store6
from experiments.derivatives.algorithm import EXPANSION, INVERSE, PACKED
from experiments.derivatives.algorithm import FORWARD as FORWARD_DYNAMICS

ALGORITHMS = {
    "inverse, first order": INVERSE["IDSVA"],
    "inverse, first order + Hessian": EXPANSION,
    "inverse, packed tensors": PACKED,
    "forward, first order": FORWARD_DYNAMICS["FDSVA"],
}
FIRST, HESSIAN, TENSORS, FORWARD = KERNELS = tuple(ALGORITHMS)
SLAB = 1 << 19  # packed tensors that are kept at once: 4 MB
ACCUMULATORS = 12  # two units that take four or five cycles need 8 to 10; with two factors they fit into 16 registers
TURNS = 40_000
PEAK_OPERATIONS = 2 * ACCUMULATORS * TURNS * LANES

Calls = dict[str, Callable[[], object]]


def states(model, K: int, seed: int) -> list[np.ndarray]:
    """q (K, nq) and v, a, w (K, nv), random."""
    rng = np.random.default_rng(seed)
    q = np.array([dynamics.random_configuration(model, rng) for _ in range(K)])
    return [q, *rng.uniform(-1.0, 1.0, (3, K, model.nv))]


def packed_tensors(model, q, v, a, buffer) -> None:
    """Packed tensors of all knots, as many at a time as the buffer (chunks, packed_size, LANES) holds."""
    few = LANES * len(buffer)
    for i in range(0, len(q), few):
        drive_second_order(model, q[i : i + few], v[i : i + few], a[i : i + few], None, buffer)


def slab(*models) -> np.ndarray:
    """Memory for SLAB packed numbers, but at least for a chunk of every model.  Calls that take turns share it: it then
    stays in the caches as it does for a caller who goes on with one of them."""
    return aligned_empty(max(SLAB, *(LANES * packed_size(model.arrays) for model in models)))


def in_lanes(model, q, v, a, w, memory: np.ndarray | None = None) -> Calls:
    """The main kernels without arrays of results.

    Packed tensors leave the lanes by nature: slab by slab into `memory`, or into memory for all knots."""
    K, size = len(q), LANES * packed_size(model.arrays)
    chunks = chunk_count(K) if memory is None else min(chunk_count(K), max(1, SLAB // size))
    memory = aligned_empty(chunks * size) if memory is None else memory
    buffer = memory[: chunks * size].reshape(chunks, -1, LANES)
    calls: Calls = {name: x.in_lanes(model, *x.taken(q, v, a, w)) for name, x in ALGORITHMS.items() if x is not PACKED}
    return calls | {TENSORS: partial(packed_tensors, model, q, v, a, buffer)}


def with_arrays(model, q, v, a, w) -> Calls:
    """The same as public functions, which return arrays."""
    return {name: partial(x, model, *x.taken(q, v, a, w)) for name, x in ALGORITHMS.items()}


# ------------------------------------------------------------------------------------------------ the peak
@driver
def _drive_peak(first, last, work, turns):
    """In every chunk `turns` fused multiply-adds on each of ACCUMULATORS numbers per lane, which tend to 1."""
    for _ in range(first, last):
        work[: ACCUMULATORS + 2] = 0.5
        x, y, a, b = load6(work, 0), load6(work, 6), load(work, 12), load(work, 13)
        b = (b, b, b, b, b, b)
        for _ in range(turns):
            x, y = add_scaled6(b, a, x), add_scaled6(b, a, y)
        store6(work, 0, add6(x, y))


def fma_peak(chunks: int = 1) -> None:
    """PEAK_OPERATIONS per chunk as fast as a core can, in registers; chunks are shared among threads."""
    launch(_drive_peak, chunks * LANES, ACCUMULATORS + 2, TURNS, effort=MINIMUM_WORK)
