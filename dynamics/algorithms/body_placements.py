"""Where all moving bodies are."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from dynamics.algorithms.frames import frame_placement
from dynamics.mimic import of_tree
from dynamics.model import RigidBodyModel, check_model
from dynamics.validation import check_configuration


@of_tree()
def body_placements(model: RigidBodyModel, q: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """Poses R (K, nb, 3, 3) and p (K, nb, 3), m, of the moving bodies in the world at configurations q (K, nq).

    The frames of `Frame` and `Geometry`: that of a body's name may be turned against its moving body's, so that the
    joint moves about an axis of the latter.  Raises ValueError as `frame_placement`.
    """
    q, _ = check_configuration(check_model(model), q)
    R, p = np.empty((len(q), model.nb, 3, 3)), np.empty((len(q), model.nb, 3))
    for i, name in enumerate(model.body_names):
        link, pose = model.frame(name), frame_placement(model, q, name)
        R[:, i] = pose.R @ link.R.T
        p[:, i] = pose.p - R[:, i] @ link.p
    return R, p
