"""Centre of mass and its Jacobian, from the first moments of the subtrees.

A degree of freedom k moves the subtree below it as one rigid body of mass m_k and first moment h_k:

    c = sum_i h_i / m,      dc/dq_k = (m_k v_k + w_k x h_k) / m        for the column s_k = (w_k, v_k)
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from dynamics.algorithms.batch import points, unbatch
from dynamics.algorithms.kinematics import BODY, COLUMN, DOF, MOMENT, POSITION, ROTATION, place_bodies
from dynamics.model.knot_driver import knot_driver, nb, nv
from dynamics.model.model import RigidBodyModel, check_model
from dynamics.simd import align_stack, kernel, splat
from dynamics.spatial.spatial import accumulate, add3, add_rotated, load3, load6, load9, rate_moment, scale3, store3
from dynamics.spatial.tangent import store_column3


@kernel
def total_mass(m):
    """Of all bodies."""
    total = 0.0
    for i in range(m.mass.size):
        total += m.mass[i]
    return total


@kernel
def center_of_mass_kernel(m, derivatives, body, dof, c, J):
    """c (3) and, with `derivatives`, J (3 nv) row-major, after `place_bodies`; MOMENT becomes the subtree's."""
    align_stack(body)
    n, zero = m.dof_body.size, splat(body, 0.0)
    for i in range(m.parent.size):
        b, f = i * BODY, (m.first_moment[i, 0], m.first_moment[i, 1], m.first_moment[i, 2])
        h = scale3(load3(body, b + POSITION), m.mass[i])
        store3(body, b + MOMENT, add_rotated(h, load9(body, b + ROTATION), f))
    per_mass = 1.0 / total_mass(m)
    total = (zero, zero, zero)
    for i in range(m.parent.size - 1, -1, -1):
        h = load3(body, i * BODY + MOMENT)
        if derivatives:
            for k in range(m.v_index[i], m.v_index[i] + m.dof_count[i]):
                rate = rate_moment(m.subtree_mass[i], h, load6(dof, k * DOF + COLUMN))
                store_column3(J, k, n, scale3(rate, per_mass))
        if m.parent[i] >= 0:
            accumulate(body, m.parent[i] * BODY + MOMENT, i * BODY + MOMENT, 3)
        else:
            total = add3(total, h)
    store3(c, 0, scale3(total, per_mass))


@kernel
def _position_kernel(m, q, body, dof, c):
    place_bodies(m, q, body, dof)
    center_of_mass_kernel(m, False, body, dof, c, c)


@kernel
def _jacobian_kernel(m, q, body, dof, c, J):
    place_bodies(m, q, body, dof)
    center_of_mass_kernel(m, True, body, dof, c, J)


_BODIES = {"body": nb * BODY, "dof": nv * DOF}
_drive_position = knot_driver(_position_kernel, inputs="q", scratch=_BODIES, outputs={"c": 3})
_drive_jacobian = knot_driver(_jacobian_kernel, inputs="q", scratch={**_BODIES, "c": 3}, outputs={"J": 3 * nv})


def require_mass(model: RigidBodyModel) -> None:
    """Raise ValueError unless the robot has mass, and so a centre of mass."""
    check_model(model)
    if not model.total_mass > 0.0:
        raise ValueError(f"model {model.name!r} has total mass {model.total_mass:g} kg and no centre of mass")


def _evaluate(model, q, drive, shape):
    require_mass(model)
    single, (q,) = points(model, q)
    out = np.empty((len(q), int(np.prod(shape))))
    drive(model, q, out)
    return unbatch(single, out.reshape(len(q), *shape))[0]


def center_of_mass(model: RigidBodyModel, q: ArrayLike) -> np.ndarray:
    """Centre of mass of all moving bodies, world axes; what is fixed to the world does not count.

    Parameters
    ----------
    model : RigidBodyModel
    q : (nq,) or (K, nq), configuration

    Returns
    -------
    (3,) or (K, 3), m

    Raises
    ------
    ValueError : wrong shape, non-finite entry, a quaternion that is not of unit length, or a model without mass.
    """
    return _evaluate(model, q, _drive_position, (3,))


def center_of_mass_jacobian(model: RigidBodyModel, q: ArrayLike) -> np.ndarray:
    """Jacobian of the centre of mass: its velocity is J v, world axes.

    Parameters: q (nq,) or (K, nq).  Returns: (3, nv) or (K, 3, nv).  Raises: ValueError as `center_of_mass`.
    """
    return _evaluate(model, q, _drive_jacobian, (3, check_model(model).nv))
