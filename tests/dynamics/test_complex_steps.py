"""Derivatives of the project's kernels by complex steps in the lanes, against those in closed form."""

from types import SimpleNamespace

import numpy as np
import pytest
from scipy.linalg import block_diag
from scipy.spatial.transform import Rotation

from dynamics.algorithms.articulated_body import ARTICULATED, ELIMINATION, forward_dynamics_kernel
from dynamics.algorithms.inverse_dynamics import inverse_dynamics, torques_of_forces
from dynamics.algorithms.kinematics import BODY, DOF, FORCES, forward_pass
from dynamics.derivatives.forward_dynamics import forward_dynamics_derivatives
from dynamics.derivatives.inverse_dynamics import inverse_dynamics_derivatives, inverse_dynamics_first_order
from dynamics.derivatives.second_order import inverse_dynamics_second_derivatives
from dynamics.model.joints import FREE_FLYER, PLANAR, SPHERICAL
from dynamics.model.kernel_model import kernel_model
from dynamics.simd import LANES, driver, gather, gather_complex, launch, split
from tests.dynamics.test_complex_lanes import complex_lanes, complex_zeros
from tests.reference.random_robots import random_states, random_tree
from tests.reference.rigid_body_models import load_reference
from tests.tolerances import COMPLEX_STEP, IDENTITY, relative_error

STEP = 1e-30


@driver
def torque_rates(first, last, work, block, q, v, a, dq, dv, da, tau, rates):
    """tau and its derivative along (dq, dv, da) at every knot, by one complex step."""
    m = kernel_model(block)
    nb, n, nq = m.parent.size, m.dof_body.size, q.shape[1]
    for c in range(first, last):
        directions, numbers = work[: nq + 2 * n], work[nq + 2 * n :]
        body, w = split(numbers.reshape(numbers.shape[0] // 2, 2, LANES), nb * BODY)
        dof, w = split(w, n * DOF)
        q_, w = split(w, nq)
        v_, w = split(w, n)
        a_, tau_ = split(w, n)
        for x, x_, dx, at in ((q, q_, dq, 0), (v, v_, dv, nq), (a, a_, da, nq + n)):
            gather_complex(x, c * LANES, x_)
            gather(dx, c * LANES, directions[at : at + x.shape[1]])
            for i in range(x.shape[1]):
                for l in range(LANES):
                    x_[i, 1, l] = STEP * directions[at + i, l]
        tau_[:] = 0.0
        forward_pass(m, q_, v_, a_, body, dof, FORCES)
        torques_of_forces(m, a_, body, dof, tau_)
        for l in range(min(LANES, len(q) - c * LANES)):
            for i in range(n):
                tau[c * LANES + l, i] = tau_[i, 0, l]
                rates[c * LANES + l, i] = tau_[i, 1, l] / STEP


def chain_of(kinds, parents, seed):
    return random_tree(kinds, parents, np.random.default_rng(seed))


MODELS = {
    "revolute chain": lambda: chain_of(["revolute"] * 6, [-1, 0, 1, 2, 3, 4], 1),
    "branched": lambda: chain_of(["revolute", "prismatic", "continuous", "prismatic", "revolute"], [-1, 0, 1, 0, 3], 2),
    "all joints": lambda: load_reference("joint_zoo")[0],
    "hyq": lambda: load_reference("hyq")[0],
}


@pytest.fixture(scope="module", params=MODELS)
def model(request):
    return MODELS[request.param]()


def quaternion_rate(q):
    """(4, 3): derivative of q exp(dq) by dq at 0, quaternion x y z w."""
    x, y, z, w = q
    return 0.5 * np.array([[w, -z, y], [z, w, -x], [-y, x, w], [-x, -y, -z]])


def coordinate_rates(model, q):
    """(nq, nv): derivative of integrate(q, dq) by dq at 0.  Kernels are polynomials in quaternions, so that a step
    along these columns is a step along the tangent whether or not its end has unit length."""
    blocks = []
    for joint, k in zip(model.joints, model.q_index, strict=True):
        if joint.code == SPHERICAL:
            blocks.append(quaternion_rate(q[k : k + 4]))
        elif joint.code == FREE_FLYER:
            R = Rotation.from_quat(q[k + 3 : k + 7]).as_matrix()
            blocks.append(block_diag(R, quaternion_rate(q[k + 3 : k + 7])))
        elif joint.code == PLANAR:
            s, c = np.sin(q[k + 2]), np.cos(q[k + 2])
            blocks.append(np.array([[c, -s, 0.0], [s, c, 0.0], [0.0, 0.0, 1.0]]))
        else:
            blocks.append(np.eye(joint.nv))
    return block_diag(*blocks)


def all_coordinate_rates(model, q):
    """(K, nq, nv)"""
    return np.array([coordinate_rates(model, point) for point in q])


def steps_along_state(model, q, v):
    """Complex workspaces of q and v stepped along every tangent direction of q, then of v: pairs of iterables."""
    rates, n = all_coordinate_rates(model, q), model.nv
    along_q = [(complex_lanes(q + 1j * STEP * rates[:, :, k]), complex_lanes(v)) for k in range(n)]
    along_v = [(complex_lanes(q), complex_lanes(v + 1j * STEP * np.eye(n)[k])) for k in range(n)]
    return along_q, along_v


def test_inverse_dynamics_by_a_driver(model, rng):
    """One directional derivative per call, at more knots than lanes."""
    K, n = 2 * LANES + 3, model.nv
    q, v, a, dv, da = random_states(model, K, rng, vectors=4)
    rates = all_coordinate_rates(model, q)
    expected = inverse_dynamics_derivatives(model, q, v, a)
    size = model.nq + 2 * n + 2 * (model.nb * BODY + n * DOF + model.nq + 3 * n)
    tau, along = np.empty((2, K, n))
    for k in range(n):
        dq = np.ascontiguousarray(rates[:, :, k])
        launch(torque_rates, K, size, model.block, q, v, a, dq, 0 * dv, 0 * da, tau, along)
        assert relative_error(along, expected.dtau_dq[:, :, k], np.abs(expected.dtau_dq).max()) <= IDENTITY
    launch(torque_rates, K, size, model.block, q, v, a, 0 * q, dv, da, tau, along)
    together = np.einsum("tij,tj->ti", expected.dtau_dv, dv) + np.einsum("tij,tj->ti", expected.M, da)
    assert relative_error(along, together) <= IDENTITY
    assert relative_error(tau, inverse_dynamics(model, q, v, a)) <= IDENTITY


def test_first_order_derivatives_to_second_order(model, rng):
    n, nb = model.nv, model.nb
    q, v, a = random_states(model, LANES, rng)
    T = inverse_dynamics_second_derivatives(model, q, v, a)
    w = SimpleNamespace(body=nb * BODY, dof=n * DOF, tau=n, dq=n * n, dv=n * n, M=n * n)
    w = SimpleNamespace(**{name: complex_zeros(size) for name, size in vars(w).items()})

    def slopes(q_, v_):
        a_ = complex_lanes(a)
        inverse_dynamics_first_order(model.arrays, q_, v_, a_, None, w.body, w.dof, w.tau, w.dq, w.dv, w.M)
        return [x[:, 1].T.reshape(LANES, n, n) / STEP for x in (w.dq, w.dv, w.M)]

    along_q, along_v = ([np.array(slopes(*point)) for point in points] for points in steps_along_state(model, q, v))
    by_q, by_v = np.stack(along_q, axis=-1), np.stack(along_v, axis=-1)
    values = by_q[0], by_v[0], by_v[1], by_q[2]
    for value, expected in zip(values, T, strict=True):
        assert relative_error(value, expected) <= COMPLEX_STEP
    assert relative_error(by_q[1], np.swapaxes(T.d2tau_dqdv, 2, 3)) <= COMPLEX_STEP
    assert not by_v[2].any(), "M does not depend on v"


def test_forward_dynamics(model, rng):
    n, nb = model.nv, model.nb
    q, v, tau = random_states(model, LANES, rng)
    expected = forward_dynamics_derivatives(model, q, v, tau)
    scratch = [complex_zeros(size) for size in (nb * BODY, n * DOF, nb * ARTICULATED, n * ELIMINATION, n)]

    def slopes(q_, v_, dtau=0.0):
        tau_ = complex_lanes(tau + 1j * STEP * dtau)
        forward_dynamics_kernel(model.arrays, q_, v_, tau_, complex_zeros(n), None, *scratch)
        return scratch[-1][:, 1].T / STEP

    along_q, along_v = (np.stack([slopes(*point) for point in points], -1) for points in steps_along_state(model, q, v))
    along_tau = [slopes(complex_lanes(q), complex_lanes(v), unit) for unit in np.eye(n)]
    for value, derivative in zip((along_q, along_v, np.stack(along_tau, -1)), expected, strict=True):
        assert relative_error(value, derivative) <= COMPLEX_STEP
