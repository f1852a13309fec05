"""Contacts as kernels take them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dynamics.simd.sizes import Size


class ContactArrays(NamedTuple):
    """A set of contacts as kernels take it: B blocks, b with the rows 3 b ... 3 b + 2 of forces and constraints."""

    body: np.ndarray  # (B,)
    frame: np.ndarray  # (B, FRAME) placements in the bodies
    point: np.ndarray  # (B, 3) origins in the bodies
    angular: np.ndarray  # (B,) 1 where the block is that of a moment
    gains: np.ndarray  # (B, 2)
    reference: np.ndarray  # (B, 3) positions to be kept
    turn: np.ndarray  # (B, 9) rotations to be kept
    local: np.ndarray  # (B,) 1 where the force is given in the frame's axes
    damping: float  # how much the contacts yield to force, 1/kg
    blocks: int  # B
    pair_start: np.ndarray  # (ceil(nv / 2) + 1,) where the rows of each pair of dofs begin in pair_row
    pair_row: np.ndarray  # rows of [tau; constraints] on which dofs 2 p, 2 p + 1 act


blocks = Size("blocks", "contacts.blocks")
"""Number of blocks of three rows, where `contacts` are ContactArrays or LoopArrays."""
halves = Size("halves", "contacts.body.size")
"""Number of their contacts, moments of feet apart, and of halves of loops."""
