"""Where the columns of derivatives of inverse dynamics and of constraints are not zero."""

from __future__ import annotations

import numpy as np

from dynamics.model_arrays import ModelArrays


def paths(arrays: ModelArrays) -> np.ndarray:
    """[k, j] (nv, nv): whether dof j is on the path from k to the root."""
    n = len(arrays.dof_body)
    above = np.eye(n, dtype=bool)
    for k, before in enumerate(arrays.dof_parent):
        if before >= 0:
            above[k] |= above[before]
    return above


def moved_by(arrays: ModelArrays, bodies: np.ndarray) -> np.ndarray:
    """(bodies, nv): whether a dof moves a body."""
    last = arrays.v_index[bodies] + arrays.dof_count[bodies] - 1
    return paths(arrays)[last]


def pair_rows(
    arrays: ModelArrays, bodies: np.ndarray, blocks: np.ndarray | None = None, turning: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """For each pair of dofs 2 p, 2 p + 1, the torques and constraints that depend on their positions or velocities:
    torques of dofs on one path with them, contacts below them.

    bodies : of the contacts, each with three rows; with `blocks` (B, nv) instead, whether a dof moves any of a block
    turning : (t, 2, nv), of loops whose axes turn, whether a dof moves either body and whether it moves the second one:
        the latter dofs reach the torques of all the former
    """
    n = len(arrays.dof_body)
    above = paths(arrays)
    reaches = above | above.T
    for either, second in () if turning is None else turning:
        reaches |= np.outer(either, second)
    acts = np.vstack([reaches, np.repeat(moved_by(arrays, bodies) if blocks is None else blocks, 3, axis=0)])
    rows = [np.flatnonzero(acts[:, j : j + 2].any(axis=1)) for j in range(0, n, 2)]
    start = np.concatenate([[0], np.cumsum([len(r) for r in rows])])
    return start.astype(np.int64), np.concatenate(rows).astype(np.int64)
