"""What counts as a moderate change of each coordinate of a soft robot."""

import numpy as np

from dynamics.rods.model.rod_model import RodModel


def coordinate_scales(model: RodModel) -> np.ndarray:
    """Moderate values of the coordinates (n,): angles and displacements 0.3, strains that bend a rod as much."""
    scales = np.full(model.nq, 0.3)
    for rod in model.rods.values():
        for r in range(6):
            size = 0.3 / rod.length if r < 3 else 0.1
            scales[rod.coordinates.start + rod.basis.rows[r] : rod.coordinates.start + rod.basis.rows[r + 1]] = size
    return scales
