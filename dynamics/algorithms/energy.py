"""Kinetic and potential energy."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from dynamics.algorithms.batch import points, unbatch
from dynamics.algorithms.center_of_mass import center_of_mass
from dynamics.algorithms.kinematics import BODY, DOF, MOMENTA, MOMENTUM, VELOCITY, forward_pass
from dynamics.model.knot_driver import knot_driver, nb, nv
from dynamics.model.model import RigidBodyModel
from dynamics.simd import align_stack, fma, kernel, load, splat, store
from dynamics.spatial.spatial import add_dot6, load6


@kernel
def kinetic_energy_kernel(m, q, v, body, dof, zeros, energy):
    """Half of  sum_i v_i . I_i v_i + sum_k armature_k v_k^2."""
    forward_pass(m, q, v, zeros, body, dof, MOMENTA)
    align_stack(body)
    twice = splat(body, 0.0)
    for i in range(m.parent.size):
        twice = add_dot6(twice, load6(body, i * BODY + VELOCITY), load6(body, i * BODY + MOMENTUM))
    for k in range(m.dof_body.size):
        twice = fma(load(v, k) * m.armature[k], load(v, k), twice)
    store(energy, 0, 0.5 * twice)


_drive = knot_driver(
    kinetic_energy_kernel,
    inputs="q v",
    scratch={"body": nb * BODY, "dof": nv * DOF, "zeros": nv},
    outputs={"energy": 1},
    zeroed="zeros",
)


def kinetic_energy(model: RigidBodyModel, q: ArrayLike, v: ArrayLike) -> float | np.ndarray:
    """v'M(q)v / 2, without forming M; the armature's share, sum of armature_k v_k^2 / 2, is included.

    Parameters
    ----------
    model : RigidBodyModel
    q : (nq,) or (K, nq), configuration
    v : (nv,) or (K, nv), velocity

    Returns
    -------
    float, or (K,), J

    Raises
    ------
    ValueError : wrong shape, non-finite entry, or a quaternion that is not of unit length; names the argument.
    """
    single, (qs, vs) = points(model, q, v=v)
    out = np.empty((len(qs), 1))
    _drive(model, qs, vs, out)
    return unbatch(single, out[:, 0])[0]


def potential_energy(model: RigidBodyModel, q: ArrayLike) -> float | np.ndarray:
    """-m g.c of all moving bodies, zero at the world origin.

    Parameters: q (nq,) or (K, nq).  Returns: float or (K,), J.  Raises: ValueError as `kinetic_energy`, and for a model
    without mass.
    """
    return -(center_of_mass(model, q) @ model.gravity) * model.total_mass
