"""Inverse dynamics by the recursive Newton-Euler algorithm (RNEA)."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from dynamics.algorithms.batch import points, unbatch
from dynamics.algorithms.kinematics import BODY, COLUMN, DOF, FORCE, FORCES, forward_pass
from dynamics.algorithms.loads import LOADS, Wrenches, add_loads, loads_batch
from dynamics.model.knot_driver import knot_driver, nb, nv
from dynamics.model.model import RigidBodyModel, check_model
from dynamics.simd import align_stack, fma, kernel, load, shared_kernel, splat, store
from dynamics.simd.prepared_calls import PreparedLaunch
from dynamics.spatial.spatial import accumulate, dot6, load6


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


@shared_kernel
def inverse_dynamics_kernel(m, q, v, a, loads, body, dof, tau):
    """Compute tau = M(q) a + bias(q, v) - loads, for one knot per lane."""
    forward_pass(m, q, v, a, body, dof, FORCES)
    if loads is not None:
        add_loads(m, loads, -1.0, body)
    torques_of_forces(m, a, body, dof, tau)


_drive = knot_driver(
    inverse_dynamics_kernel,
    inputs="q v a",
    gathered={"loads": LOADS},
    scratch={"body": nb * BODY, "dof": nv * DOF},
    outputs={"tau": nv},
)


def inverse_dynamics(
    model: RigidBodyModel,
    q: ArrayLike,
    v: ArrayLike,
    a: ArrayLike,
    external_wrenches: Wrenches | None = None,
    wrench_reference: str = "local",
) -> np.ndarray:
    """Joint torques that produce the acceleration a.

    tau = M(q) a + C(q, v) v + g(q) - sum_i J_i' f_i                   [Featherstone 2008, table 5.1; Kim 2012, table 2]

    Parameters
    ----------
    model : RigidBodyModel
    q : (nq,) or (K, nq), configuration
    v, a : (nv,) or (K, nv), velocity and acceleration
    external_wrenches : (nb, 6) or (K, nb, 6), or a mapping of frame name to (6,) or (K, 6), optional
        Force and moment [N; N m] on each moving body about the origin of its frame, or on frames about theirs.
    wrench_reference : "local" or "local_world_aligned"
        Axes of the wrenches: those of the body or frame (a follower load), or those of the world (a dead load).

    Returns
    -------
    tau : (nv,) or (K, nv), N m (N for translations)

    Raises
    ------
    ValueError : wrong shape, non-finite entry, a quaternion that is not of unit length, or an unknown frame or
        reference; names the argument.

    Examples
    --------
    >>> robot = problems.make("pendulum").system.model  # 1 kg on a rod of 1 m
    >>> dynamics.inverse_dynamics(robot, [np.pi / 2], [0.0], [0.0]).round(3)  # what holds it level
    array([9.81])
    >>> q, v, a = np.random.default_rng(0).uniform(-1.0, 1.0, (3, 64, 1))  # one call for 64 points
    >>> np.allclose(dynamics.inverse_dynamics(robot, q, v, a), a + 9.81 * np.sin(q))
    True
    """
    single, (q, v, a) = points(model, q, v=v, a=a)
    loads = loads_batch(model, external_wrenches, wrench_reference, len(q))
    tau = np.empty_like(v)
    _drive(model, q, v, a, loads, tau)
    return unbatch(single, tau)[0]


def prepared_inverse_dynamics(
    model: RigidBodyModel, q: np.ndarray, v: np.ndarray, a: np.ndarray, tau: np.ndarray
) -> PreparedLaunch:
    """The call that writes tau (K, nv) at what these arrays hold then, of a model without mimic joints."""
    return _drive.prepared(model, q, v, a, None, tau)


def bias_forces(model: RigidBodyModel, q: ArrayLike, v: ArrayLike) -> np.ndarray:
    """C(q, v) v + g(q): Coriolis, centrifugal and gravity torques.  Shapes and errors as `inverse_dynamics`."""
    return inverse_dynamics(model, q, v, np.zeros(check_model(model).nv))


def gravity_forces(model: RigidBodyModel, q: ArrayLike) -> np.ndarray:
    """g(q): torques that hold the robot still.  Shapes and errors as `inverse_dynamics`."""
    zero = np.zeros(check_model(model).nv)
    return inverse_dynamics(model, q, zero, zero)
