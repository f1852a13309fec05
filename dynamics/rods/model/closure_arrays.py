"""Closed chains as kernels see them, and where their results lie."""

from typing import NamedTuple

import numpy as np

from dynamics.simd import helper

POSITION, ORIENTATION = 0, 1


class ClosureArrays(NamedTuple):
    """C closed joints between sides A and B, with G constraint rows in the order of the joints.

    A row of POSITION is a.(p_A - p_B) for points of the sides and a direction a of the world; one of ORIENTATION is
    a.b for directions a of side A and b of side B.
    """

    segment: np.ndarray  # (C, 2) whose ends are the frames of A and B, -1 for the world
    point: np.ndarray  # (C, 2, 3) in these frames
    row_start: np.ndarray  # (C + 1,)
    kind: np.ndarray  # (G,)
    a: np.ndarray  # (G, 3)
    b: np.ndarray  # (G, 3)
    path_start: np.ndarray  # (C + 1,)
    path: np.ndarray  # coordinates that move A or B, for all joints
    first_wrench: np.ndarray  # (1,) number of external wrenches W, after which those of the joints follow


def no_closures() -> ClosureArrays:
    """None at all."""
    none = np.zeros(0, np.int64)
    return ClosureArrays(
        np.zeros((0, 2), np.int64), np.zeros((0, 2, 3)), np.zeros(1, np.int64), none, np.zeros((0, 3)),
        np.zeros((0, 3)), np.zeros(1, np.int64), none, np.zeros(1, np.int64),
    )  # fmt: skip


def input_numbers(closures: ClosureArrays) -> int:
    """Numbers that a state has for closed chains after its external wrenches: the wrenches on both sides of each joint,
    12 C, which kernels compute; 1/T and the weights mu (G) of e' + e/T in Hessians; the multipliers (G)."""
    rows = len(closures.kind)
    return 12 * len(closures.segment) + (1 + 2 * rows if rows else 0)


def closure_numbers(closures: ClosureArrays, n: int) -> int:
    """Numbers of the results: e, e', e'' (G each), A, A', A'' (G n each), 6 n of each joint in between, and rates of A
    along w (G n)."""
    return int(closed_numbers(closures, n))


@helper
def closed_numbers(closures, n):
    """`closure_numbers`, for kernels."""
    return virtual_rows(closures, n) + closures.kind.size * n


@helper
def virtual_rows(closures, n):
    """Where the last of them begin."""
    return 3 * closures.kind.size * (1 + n) + 6 * n * closures.segment.shape[0]
