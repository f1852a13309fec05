"""SIMD numbers for numba: one knot per lane, one source for vectors and floats.  Knows no robot."""

from dynamics.simd.chunks import PARALLEL, carve, chunk_count, gather, lane_workspace, scatter
from dynamics.simd.compilation import PROGRESS, driver, helper, kernel
from dynamics.simd.vector import (
    LANES,
    absolute,
    align_stack,
    aligned_zeros,
    arctan2,
    fma,
    fms,
    fnma,
    lane,
    load,
    load_row,
    select_less,
    sincos,
    splat,
    splat_row,
    sqrt,
    store,
    store_row,
    with_lane,
)

__all__ = [
    "LANES", "PARALLEL", "PROGRESS", "absolute", "align_stack", "aligned_zeros", "arctan2", "carve", "chunk_count", "driver",
    "fma", "fms", "fnma", "gather", "helper", "kernel", "lane", "lane_workspace", "load", "load_row", "scatter",
    "select_less", "sincos", "splat", "splat_row", "sqrt", "store", "store_row", "with_lane",
]  # fmt: skip
