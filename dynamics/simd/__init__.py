"""SIMD numbers for numba: one knot per lane, one source for floats, vectors and complex vectors, without robotics."""

from dynamics.simd.chunks import chunk_count, gather, gather_complex, gather_state, scatter, scatter_blocks
from dynamics.simd.compilation import (
    PROGRESS,
    by_address,
    decision,
    driver,
    helper,
    kernel,
    lean_routine,
    routine,
    shared_kernel,
)
from dynamics.simd.elimination import equilibrate, factorize_dense, solve_dense
from dynamics.simd.functions import absolute, arctan2, fma, fms, fnma, select_less, sincos, sqrt
from dynamics.simd.span import by_reference, flat
from dynamics.simd.threads import launch, num_threads, scratch, set_num_threads
from dynamics.simd.vector import (
    LANES,
    align_stack,
    aligned_arrays,
    aligned_empty,
    aligned_zeros,
    group_size,
    lane,
    load,
    load_group,
    span,
    splat,
    split,
    store,
    store_group,
    with_lane,
)

__all__ = [
    "LANES", "PROGRESS", "absolute", "align_stack", "aligned_arrays", "aligned_empty",
    "aligned_zeros", "arctan2", "by_address", "by_reference", "split",
    "chunk_count", "decision", "driver", "equilibrate", "factorize_dense", "flat", "fma", "fms", "fnma", "gather",
    "gather_complex", "gather_state", "group_size", "helper", "kernel", "lean_routine",
    "lane", "launch", "load", "load_group", "num_threads", "routine", "scatter", "scatter_blocks", "scratch",
    "select_less",
    "set_num_threads", "shared_kernel", "sincos", "solve_dense", "span", "splat", "sqrt", "store", "store_group",
    "with_lane",
]  # fmt: skip
