"""Joints that turn about any axis, and may turn without limit."""

from __future__ import annotations

import numpy as np

from dynamics.rods.model.arrays import JOINT
from dynamics.rods.model.rod_model import RodModel


def turning_segments(model: RodModel) -> np.ndarray:
    """Free, spherical and planar joints."""
    m = model.arrays
    return np.flatnonzero((m.kind == JOINT) & (m.rows[:, 0] < m.rows[:, 3]))


def rotation_count(model: RodModel, coordinate: int) -> int:
    """How many coordinates, from this one on, are the rotation vector of such a joint: 0, if it is none."""
    rows = model.arrays.rows[turning_segments(model)]
    return int((rows[:, 3] - rows[:, 0])[rows[:, 0] == coordinate].sum())


def turning_joints(model: RodModel, held: np.ndarray | tuple[int, ...] = ()) -> np.ndarray:
    """Coordinates (J, 6) of the components [angular; linear] of joints that may change their chart, -1 of components
    without: free, spherical and planar joints without stiffness and damping, whose forces would depend on the chart,
    none of whose coordinates is held."""
    found, segments = [], turning_segments(model)
    if not len(segments):
        return np.empty((0, 6), np.int64)
    bound = (model.stiffness != 0.0).any(axis=1) | (model.damping != 0.0).any(axis=1)
    bound[np.asarray(held, np.int64)] = True
    for s in segments:
        rows = model.arrays.rows[s]
        if not bound[rows[0] : rows[6]].any():
            found.append(np.where(rows[1:] > rows[:-1], rows[:-1], -1))
    return np.array(found, np.int64).reshape(-1, 6)
