"""Inverse dynamics by the recursive Newton-Euler algorithm (RNEA)."""

import numpy as np

from dynamics.algorithms.batch import launch, points, unbatch
from dynamics.algorithms.kinematics import BODY, COLUMN, DOF, FORCE, FORCES, POSITION, ROTATION, forward_pass
from dynamics.simd import LANES, align_stack, carve, driver, fma, gather, kernel, load, scatter, splat, store
from dynamics.spatial import accumulate, add_cross, dot6, join, load3, load6, load9, rotate, store6, sub6
from dynamics.validation import as_array


@kernel
def subtract_wrenches(m, wrenches, body):
    """FORCE of every body less the external wrench on it; wrenches (nb 6): [force; moment] in the body frame."""
    for i in range(m.parent.size):
        b = i * BODY
        R = load9(body, b + ROTATION)
        w = load6(wrenches, 6 * i)
        f = rotate(R, (w[0], w[1], w[2]))
        n = add_cross(rotate(R, (w[3], w[4], w[5])), load3(body, b + POSITION), f)
        store6(body, b + FORCE, sub6(load6(body, b + FORCE), join(n, f)))


@kernel
def torques_of_forces(m, a, body, dof, tau):
    """tau_k = S_k . (sum of body forces at and below) + armature_k a_k; FORCE becomes the composite."""
    align_stack(body)
    for i in range(m.parent.size - 1, -1, -1):
        f = load6(body, i * BODY + FORCE)
        for k in range(m.v_index[i], m.v_index[i] + m.dof_count[i]):
            store(tau, k, fma(splat(tau, m.armature[k]), load(a, k), dot6(load6(dof, k * DOF + COLUMN), f)))
        if m.parent[i] >= 0:
            accumulate(body, m.parent[i] * BODY + FORCE, i * BODY + FORCE, 6)


@kernel
def inverse_dynamics_kernel(m, q, v, a, body, dof, tau):
    """tau = M(q) a + bias(q, v) for one knot per lane."""
    forward_pass(m, q, v, a, body, dof, FORCES)
    torques_of_forces(m, a, body, dof, tau)


def _numbers(model) -> int:
    """Scratch numbers per lane that `_drive` carves up."""
    return len(model.arrays.parent) * (BODY + 6) + model.nv * (DOF + 3) + model.nq


@driver
def _drive(first, last, work, m, q, v, a, wrenches, tau):
    nb, nv, nq = m.parent.size, m.dof_body.size, q.shape[1]
    for c in range(first, last):
        body, w = carve(work, nb * BODY)
        dof, w = carve(w, nv * DOF)
        q_, w = carve(w, nq)
        v_, w = carve(w, nv)
        a_, w = carve(w, nv)
        tau_, loads = carve(w, nv)
        gather(q, c * LANES, q_)
        gather(v, c * LANES, v_)
        gather(a, c * LANES, a_)
        forward_pass(m, q_, v_, a_, body, dof, FORCES)
        if wrenches.shape[0] > 0:
            gather(wrenches, c * LANES, loads)
            subtract_wrenches(m, loads, body)
        torques_of_forces(m, a_, body, dof, tau_)
        scatter(tau_, c * LANES, tau)


def wrench_batch(model, external_wrenches, K: int) -> np.ndarray:
    """External wrenches as (K, 6 nb), or an empty array if there are none."""
    if external_wrenches is None:
        return np.empty((0, 0))
    nb = len(model.arrays.parent)
    w = as_array("external_wrenches", external_wrenches)
    if w.shape not in ((nb, 6), (K, nb, 6)):
        raise ValueError(f"external_wrenches has shape {w.shape}; expected ({nb}, 6) or ({K}, {nb}, 6)")
    return np.ascontiguousarray(np.broadcast_to(w, (K, nb, 6)).reshape(K, 6 * nb))


def inverse_dynamics(model, q, v, a, external_wrenches=None) -> np.ndarray:
    """Joint torques that produce the acceleration a.

    tau = M(q) a + C(q, v) v + g(q) - sum_i J_i' f_i                              [Featherstone 2008, table 5.1]

    Parameters
    ----------
    model : RigidBodyModel
    q : (nq,) or (K, nq), configuration
    v, a : (nv,) or (K, nv), velocity and acceleration
    external_wrenches : (nb, 6) or (K, nb, 6), optional
        Force and moment [N; N m] on each moving body, in the body frame, about its origin.

    Returns
    -------
    tau : (nv,) or (K, nv), N m (N for translations)

    Raises
    ------
    ValueError : wrong shape, non-finite entry, or a quaternion that is not of unit length; names the argument.
    """
    single, (q, v, a) = points(model, q, v=v, a=a)
    wrenches = wrench_batch(model, external_wrenches, len(q))
    tau = np.empty_like(v)
    launch(_drive, len(q), _numbers(model), model.arrays, q, v, a, wrenches, tau)
    return unbatch(single, tau)[0]


def bias_forces(model, q, v) -> np.ndarray:
    """C(q, v) v + g(q): Coriolis, centrifugal and gravity torques.  Shapes and errors as `inverse_dynamics`."""
    return inverse_dynamics(model, q, v, np.zeros(model.nv))


def gravity_forces(model, q) -> np.ndarray:
    """g(q): torques that hold the robot still.  Shapes and errors as `inverse_dynamics`."""
    return inverse_dynamics(model, q, np.zeros(model.nv), np.zeros(model.nv))
