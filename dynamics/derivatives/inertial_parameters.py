"""The ten inertial parameters of each body: their order, their values in a model, and how they turn with the axes.

    m, m cx, m cy, m cz, Ixx, Ixy, Iyy, Ixz, Iyz, Izz         first moment and inertia about the origin, in body axes

Kernels work in the frame that a joint moves.  It is the body's own but for planar joints with a tilted normal, whose
bodies are turned against it.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from dynamics.model.body_inertia import BodyInertia, inertia_defect
from dynamics.model.joints import PLANAR
from dynamics.model.model import RigidBodyModel, check_model
from dynamics.model.model_arrays import subtree_masses
from dynamics.validation import as_array, as_flag

INERTIAL = 10
_PACKED = [4, 5, 7, 6, 8, 9]
"""Where the entries of `ModelArrays.rotational_inertia` are, and at these places the other way round."""
_ROW, _COLUMN = (0, 0, 1, 0, 1, 2), (0, 1, 1, 2, 2, 2)  # of the inertia's entries


def inertial_parameters(model: RigidBodyModel) -> np.ndarray:
    """Inertial parameters (nb, 10) of the moving bodies, everything fixed to them included; kg, kg m, kg m^2.

    Row: m, m cx, m cy, m cz, Ixx, Ixy, Iyy, Ixz, Iyz, Izz, the first moment m c and the inertia about the origin of the
    body's frame, in its axes.  `inverse_dynamics_regressor` multiplies them, `parameter_derivatives` takes directions
    of them.
    """
    m = check_model(model).full.arrays
    parameters = np.column_stack([m.mass, m.first_moment, m.rotational_inertia[:, np.subtract(_PACKED, 4)]])
    for i, R in turned_bodies(model):
        parameters[i] = parameter_rotation(R.T) @ parameters[i]
    return parameters


def with_inertial_parameters(model: RigidBodyModel, parameters: ArrayLike, physical: bool = True) -> RigidBodyModel:
    """The robot with other inertial parameters of its moving bodies, as an identification finds them.

    Parameters
    ----------
    model : RigidBodyModel without mimic joints
    parameters : (nb, 10), in the order of `inertial_parameters`
    physical : whether to refuse what no body has: a mass or a principal moment of inertia below zero, or a moment that
        exceeds the sum of the other two

    Returns
    -------
    RigidBodyModel, its frames, limits, friction and all else those of `model`.

    Raises
    ------
    ValueError : a wrong shape, numbers that are not finite, parameters of no body (names it), or mimic joints.
    """
    if check_model(model).mimics:
        raise ValueError(f"model: {model.name!r} has mimic joints, expected independent joints")
    parameters = as_array("parameters", parameters, (model.nb, INERTIAL))
    if as_flag("physical", physical):
        for name, row in zip(model.body_names, parameters, strict=True):
            _check_body(name, row)
    own = parameters.copy()
    for i, R in turned_bodies(model):
        own[i] = parameter_rotation(R) @ own[i]
    mass, first_moment = own[:, 0].copy(), own[:, 1:4].copy()
    arrays = model.arrays._replace(
        mass=mass, first_moment=first_moment, rotational_inertia=own[:, _PACKED].copy(),
        subtree_mass=subtree_masses(model.arrays.parent, mass),
    )  # fmt: skip
    return replace(model, arrays=arrays)


def _check_body(name: str, row: np.ndarray) -> None:
    """ValueError if no body has these ten parameters."""
    tensor = np.zeros((3, 3))
    tensor[_ROW, _COLUMN] = tensor[_COLUMN, _ROW] = row[4:]
    defect = f"got a mass of {row[0]:.6g} kg, expected none below zero" if row[0] < 0.0 else None
    if defect is None:
        defect = inertia_defect(row[0], BodyInertia(row[0], row[1:4], tensor).about_com())
    if defect is not None:
        raise ValueError(f"parameters of {name!r}: {defect}; physical=False takes them all the same")


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
