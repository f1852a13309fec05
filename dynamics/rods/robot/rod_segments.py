"""The segments of a rod: steps from node to node, and new nodes where a wrench acts between them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dynamics.rods.model.arrays import ROD
from dynamics.rods.model.cross_section import section_inertia
from dynamics.rods.model.rod_model import Rod
from dynamics.rods.model.segment_list import SegmentList

IDENTITY = (np.eye(3), np.zeros(3))
NEAR = 1e-9
"""Distance from a node, relative to the rod's length, within which a position counts as that node."""


def add_segments(segments: SegmentList, rod: Rod, parent: int, placement: tuple[np.ndarray, np.ndarray]) -> float:
    """Append the segments of a rod that is attached to the end of segment `parent`; returns its mass, kg."""
    M = section_inertia(rod.material.density, rod.properties) * rod.weights[:, None]
    rows = rod.coordinates.start + rod.basis.rows
    for k in range(len(rod.nodes) - 1):
        h, b, at_rest, modes = rod.step(rod.nodes[k], rod.nodes[k + 1] - rod.nodes[k])
        Jx, Jy, Jz, A = M[k + 1, :4]
        inertia = np.array([A, 0.0, 0.0, 0.0, Jx, 0.0, 0.0, Jy, 0.0, Jz])
        before = placement if k == 0 else IDENTITY
        parent = segments.add(parent, ROD, rows, (h, b), at_rest, modes, before, IDENTITY, inertia)
    return float(M[:, 3].sum())


def node_at(rod: Rod, X: float) -> int | None:
    """Index of the segment that ends at X > 0, m, or None if X lies between nodes."""
    k = int(np.argmin(np.abs(rod.nodes[1:] - X)))
    return rod.segments.start + k if abs(rod.nodes[k + 1] - X) <= NEAR * rod.length else None


def split(segments: SegmentList, rod: Rod, X: float) -> tuple[Rod, int]:
    """The rod with one more node, at X between two of its nodes, and the index of the segment that now ends there; the
    indices of the segments from this one on rise by one."""
    k = int(np.searchsorted(rod.nodes, X)) - 1
    halves = [rod.step(start, end - start) for start, end in ((rod.nodes[k], X), (X, rod.nodes[k + 1]))]
    segments.split(rod.segments.start + k, *halves)
    nodes, weights = np.insert(rod.nodes, k + 1, X), np.insert(rod.weights, k + 1, 0.0)
    own = slice(rod.segments.start, rod.segments.stop + 1)
    return replace(rod, nodes=nodes, weights=weights, segments=own), rod.segments.start + k
