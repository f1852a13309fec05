"""Checks of what a builder puts into a rod."""

import numpy as np

from dynamics.rods.model.strain_basis import COMPONENTS, StrainBasis
from dynamics.validation import as_whole_number

SINGULAR = 1e-12
"""A stiffness matrix scaled to a diagonal of ones, with an eigenvalue below this, has a direction without stiffness."""


def check_points(label: str, points: int, basis: StrainBasis) -> None:
    """ValueError unless this many points resolve the functions of every component."""
    as_whole_number(f"{label}points", points, 1)
    counts = np.diff(basis.rows)
    most = int(np.argmax(counts))
    if counts[most] > points:
        raise ValueError(
            f"{label}points: got {points}, which cannot resolve the {counts[most]} functions of {COMPONENTS[most]}; "
            f"expected at least {counts[most]}"
        )


def check_stiffness(label: str, K: np.ndarray) -> None:
    """ValueError if a direction has no stiffness."""
    scale = np.sqrt(np.diag(K))
    if not (scale > 0.0).all() or np.linalg.eigvalsh(K / np.outer(scale, scale))[0] < SINGULAR:
        raise ValueError(f"{label}basis: its functions leave a direction without stiffness, expected independent ones")
