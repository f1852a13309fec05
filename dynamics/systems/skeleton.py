"""Line segments that stand for a robot in a picture."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from dynamics.algorithms.frames import frame_placement
from dynamics.joints import FREE_FLYER, PLANAR, TRANSLATION
from dynamics.mimic import of_tree
from dynamics.model import RigidBodyModel
from dynamics.validation import as_batch

LOOSE = (FREE_FLYER, PLANAR, TRANSLATION)
"""Joints that leave a body no place in the world to be drawn from."""


@of_tree()
def skeleton(model: RigidBodyModel, q: ArrayLike) -> np.ndarray:
    """Segments (K, segments, 2, 3), m, in the world at configurations q (K, nq), as `trajopt.animate` draws them.

    One from every body's origin to each child's origin and, on a body without children, to the frames fixed to it; to
    its centre of mass if it has none elsewhere.  Bodies on the world start at the world's origin, but for those behind
    a free-flyer, planar or translation joint, which nothing ties to it: they start there only if nothing else is left
    to draw.  Segments that have no length at any configuration are left out.  For q (nq,), K = 1.
    """
    m = model.arrays
    q, _ = as_batch("q", q, model.nq)
    K, nb = len(q), len(m.parent)
    poses = [frame_placement(model, q, name) for name in model.body_names]
    origin = [p for _, p in poses]
    segments = [(np.zeros((K, 3)) if m.parent[i] < 0 else origin[m.parent[i]], origin[i]) for i in range(nb)]
    loose = [m.parent[i] < 0 and model.joints[i].code in LOOSE for i in range(nb)]
    for i in set(range(nb)) - set(m.parent.tolist()):
        offsets = [model.frame(name).p for name in model.frame_names if model.frame(name).body == i]
        offsets = [p for p in offsets if np.any(p)] or [m.first_moment[i] / max(m.mass[i], 1e-300)]
        R, p = poses[i]
        segments += [(p, p + R @ offset) for offset in offsets]
        loose += [False] * len(offsets)
    lines = np.stack([np.stack(pair, axis=1) for pair in segments], axis=1)
    lengths = np.linalg.norm(lines[:, :, 1] - lines[:, :, 0], axis=-1).max(axis=0)
    seen = lengths > 1e-9
    tied = seen & ~np.array(loose)
    return lines[:, tied if tied.any() else seen]
