"""Contacts and closed loops that hold at the same time, as kernels take them.

A loop holds pairs of points, one on each of two bodies, and each pair has a block of three rows T'(X_1 - X_2), X the
motion of a point and T its axes: those of the world for a ball, those of the second frame otherwise.  Each moving body
of a pair is a half of the block, which adds its part to the rows; contacts are blocks of one half.  Rows that a pair
does not hold are masked: they are zero, and so left out like redundant ones, but not counted.

Joints that are coupled have a row sum_j r_j (a_j + kd v_j + kp q_j) = kp offset each, which nothing bends.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from dynamics.contacts.contact_arrays import ContactArrays
from dynamics.contacts.pair_rows import moved_by, pair_rows
from dynamics.model_arrays import ModelArrays

PLAIN = "body", "frame", "point", "angular", "gains", "reference", "turn", "local"
"""Fields of halves that contacts have as well."""
COUPLED = "row", "dof", "ratio", "gains", "offset"
"""Fields of each joint of a coupling."""


class LoopArrays(NamedTuple):
    """As `ContactArrays`, with H halves of B blocks in place of as many blocks."""

    body: np.ndarray  # (H,)
    frame: np.ndarray  # (H, FRAME)
    point: np.ndarray  # (H, 3)
    angular: np.ndarray  # (H,)
    gains: np.ndarray  # (H, 2)
    reference: np.ndarray  # (H, 3) positions to be kept; zero for halves that have a partner
    turn: np.ndarray  # (H, 9)
    local: np.ndarray  # (H,)
    damping: float
    blocks: int
    pair_start: np.ndarray
    pair_row: np.ndarray
    row: np.ndarray  # (H,) block of each half
    sign: np.ndarray  # (H,) 1 of the first frame, -1 of the second
    axes: np.ndarray  # (H,) half along whose frame's axes the rows lie, -1 for the next ones
    fixed_axes: np.ndarray  # (H, 9) T where it does not turn
    kept: np.ndarray  # (H, 3) 0 for masked rows, else 1
    turning: np.ndarray  # (t, 3) blocks with axes that turn, their first half (-1: fixed in the world) and their second
    idle: np.ndarray  # (.,) rows that hold nothing
    coupled_row: np.ndarray  # (E,) row of each entry r_j of a coupling
    coupled_dof: np.ndarray  # (E,)
    coupled_ratio: np.ndarray  # (E,)
    coupled_gains: np.ndarray  # (E, 2)
    coupled_offset: np.ndarray  # (E,) of the row, on its first entry, else zero


def with_loops(
    plain: ContactArrays,
    rows: np.ndarray,
    halves: list[dict[str, Any]],
    blocks: int,
    couplings: list[dict[str, Any]],
    model: ModelArrays,
) -> LoopArrays:
    """The arrays of contacts with those of loops and couplings.

    rows : (C,) blocks of the contacts;  halves : fields of each half;  blocks : B;  couplings : fields of entries
    """
    C = len(plain.body)
    own = {
        "row": rows, "sign": np.ones(C), "axes": np.full(C, -1), "fixed_axes": np.tile(np.eye(3).ravel(), (C, 1)),
        "kept": np.ones((C, 3)),
    }  # fmt: skip
    fields = {name: getattr(plain, name) for name in PLAIN} | own
    for name, values in fields.items():
        added = np.array([half[name] for half in halves], dtype=values.dtype)
        fields[name] = np.concatenate([values, added.reshape(-1, *values.shape[1:])])
    sides = [(fields["row"] == row) & (np.arange(C + len(halves)) >= C) for row in range(blocks)]
    turning = []
    for row, side in enumerate(sides):
        for c in np.flatnonzero(side & (fields["axes"] == np.arange(len(side)))):
            first = np.flatnonzero(side & (fields["sign"] > 0.0))
            turning.append((row, first[0] if len(first) else -1, c))
    moved, by_block = moved_by(model, fields["body"]), np.zeros((blocks, len(model.dof_body)), dtype=bool)
    np.logical_or.at(by_block, fields["row"], moved)
    coupled = {name: np.array([each[name] for each in couplings]) for name in COUPLED}
    for each in couplings:
        by_block[each["row"] // 3, each["dof"]] = True
    reach = np.array([(by_block[row], moved[second]) for row, _, second in turning])
    start, row = pair_rows(model, fields["body"], by_block, reach)
    return LoopArrays(
        **fields,
        damping=plain.damping,
        blocks=blocks,
        pair_start=start,
        pair_row=row,
        turning=np.array(turning, dtype=np.int64).reshape(-1, 3),
        idle=_idle_rows(blocks, fields, coupled["row"]),
        coupled_row=coupled["row"].astype(np.int64),
        coupled_dof=coupled["dof"].astype(np.int64),
        coupled_ratio=coupled["ratio"].astype(np.float64),
        coupled_gains=coupled["gains"].astype(np.float64).reshape(-1, 2),
        coupled_offset=coupled["offset"].astype(np.float64),
    )


def without_feedback(arrays: ContactArrays | LoopArrays) -> ContactArrays | LoopArrays:
    """The same with gains of zero."""
    if isinstance(arrays, LoopArrays):
        arrays = arrays._replace(coupled_gains=np.zeros_like(arrays.coupled_gains))
    return arrays._replace(gains=np.zeros_like(arrays.gains))


def _idle_rows(blocks: int, fields: dict[str, np.ndarray], coupled: np.ndarray) -> np.ndarray:
    """Rows that are masked, or that nothing has."""
    used = np.zeros(3 * blocks, dtype=bool)
    for row, kept in zip(fields["row"], fields["kept"], strict=True):
        used[3 * row : 3 * row + 3] |= kept != 0.0
    used[coupled.astype(np.int64)] = True
    return np.flatnonzero(~used).astype(np.int64)
