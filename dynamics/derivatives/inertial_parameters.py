"""The ten inertial parameters of each body: their order, their values in a model, and how they turn with the axes.

    m, m cx, m cy, m cz, Ixx, Ixy, Iyy, Ixz, Iyz, Izz         first moment and inertia about the origin, in body axes

Kernels work in the frame that a joint moves.  It is the body's own but for planar joints with a tilted normal, whose
bodies are turned against it.
"""

import numpy as np

from dynamics.joints import PLANAR
from dynamics.mimic import of_tree
from dynamics.model import RigidBodyModel, check_model

INERTIAL = 10
_ROW, _COLUMN = (0, 0, 1, 0, 1, 2), (0, 1, 1, 2, 2, 2)  # of the inertia's entries


@of_tree()
def inertial_parameters(model: RigidBodyModel) -> np.ndarray:
    """Inertial parameters (nb, 10) of the moving bodies, everything fixed to them included; kg, kg m, kg m^2.

    Row: m, m cx, m cy, m cz, Ixx, Ixy, Iyy, Ixz, Iyz, Izz, the first moment m c and the inertia about the origin of the
    body's frame, in its axes.  `inverse_dynamics_regressor` multiplies them, `parameter_derivatives` takes directions
    of them.
    """
    check_model(model)
    m = model.arrays
    parameters = np.column_stack([m.mass, m.first_moment, m.rotational_inertia[:, [0, 1, 3, 2, 4, 5]]])
    for i, R in turned_bodies(model):
        parameters[i] = parameter_rotation(R.T) @ parameters[i]
    return parameters


def turned_bodies(model: RigidBodyModel) -> list[tuple[int, np.ndarray]]:
    """Bodies whose axes are not those of the frame that their joint moves, with the rotation (3, 3) into that frame."""
    planar = [i for i, joint in enumerate(model.joints) if joint.code == PLANAR]
    rotations = [(i, model.frame(model.body_names[i]).R) for i in planar]
    return [(i, R) for i, R in rotations if not np.array_equal(R, np.eye(3))]


def parameter_rotation(R: np.ndarray) -> np.ndarray:
    """The matrix (10, 10) of (m, m c, I) -> (m, R m c, R I R')."""
    units = np.zeros((6, 3, 3))
    units[range(6), _ROW, _COLUMN] = units[range(6), _COLUMN, _ROW] = 1.0
    P = np.zeros((INERTIAL, INERTIAL))
    P[0, 0], P[1:4, 1:4] = 1.0, R
    P[4:, 4:] = (R @ units @ R.T)[:, _ROW, _COLUMN].T
    return P
