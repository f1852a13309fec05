"""How the numbers of a state change as it begins to move along its tangent: the Jacobian of x (+) dx at dx = 0.

    position of a free flyer      R(q) dp                 planar: the same, in the plane
    quaternion (x y z w)          1/2 q (phi, 0)          [Sola 2018, eq. 199]
    all other numbers             dx

A function of the numbers of a state, with gradient g (nx,), has the derivative J'g (ndx,) along the tangent.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from dynamics.joints import FREE_FLYER, PLANAR, SPHERICAL
from dynamics.model import RigidBodyModel
from dynamics.validation import as_array


def integrate_jacobian(model: RigidBodyModel, xs: ArrayLike) -> np.ndarray:
    """J (K, nx, 2 nv) at states xs (K, nx), whose quaternions are taken to be of unit length."""
    nq, nv = model.nq, model.nv
    q = as_array("xs", xs, (None, nq + nv))[:, :nq]
    J = np.zeros((len(q), nq + nv, 2 * nv))
    J[:, nq:, nv:] = np.eye(nv)
    for joint, at, dof in zip(model.joints, model.q_index, model.v_index, strict=True):
        if joint.code in (FREE_FLYER, SPHERICAL):
            turn, phi = at + joint.nq - 4, dof + joint.nv - 3
            J[:, turn : turn + 4, phi : phi + 3] = _turning(q[:, turn : turn + 4])
            if joint.code == FREE_FLYER:
                J[:, at : at + 3, dof : dof + 3] = _rotation(q[:, turn : turn + 4])
        else:
            J[:, at : at + joint.nq, dof : dof + joint.nv] = np.eye(joint.nq)
            if joint.code == PLANAR:
                c, s = np.cos(q[:, at + 2]), np.sin(q[:, at + 2])
                J[:, at : at + 2, dof : dof + 2] = np.array([[c, -s], [s, c]]).transpose(2, 0, 1)
    return J


def _cross(v: np.ndarray) -> np.ndarray:
    """[v] (K, 3, 3)."""
    return np.cross(v[:, None], -np.eye(3))


def _turning(quaternion: np.ndarray) -> np.ndarray:
    """1/2 [w + [v]; -v'] (K, 4, 3)."""
    v, w = quaternion[:, :3], quaternion[:, 3, None, None]
    return 0.5 * np.concatenate([w * np.eye(3) + _cross(v), -v[:, None]], axis=1)


def _rotation(quaternion: np.ndarray) -> np.ndarray:
    """1 + 2 w [v] + 2 [v]^2 (K, 3, 3)."""
    V, w = _cross(quaternion[:, :3]), quaternion[:, 3, None, None]
    return np.eye(3) + 2.0 * (w * V + V @ V)
