"""Derivatives by complex steps through the library's own kernels, which compile for complex lanes as they stand.

    df/dx_j = Im f(x + i h e_j) / h,    h = 1e-30, exact to rounding

First order runs the recursive Newton-Euler or articulated-body algorithm once per direction; second order runs the
analytical first derivatives once per direction, as Singh et al. (2022, second order, section VI) do to verify theirs.
For joints whose configuration is a vector: the imaginary step is then along e_j.
"""

import numpy as np

from dynamics.algorithms.articulated_body import ARTICULATED, ELIMINATION, forward_dynamics_kernel
from dynamics.algorithms.batch import launch, points, unbatch
from dynamics.algorithms.inverse_dynamics import inverse_dynamics_kernel
from dynamics.algorithms.kinematics import BODY, DOF
from dynamics.derivatives.forward_dynamics import ForwardDynamicsDerivatives
from dynamics.derivatives.inverse_dynamics import inverse_dynamics_first_order
from dynamics.derivatives.second_order import InverseDynamicsSecondDerivatives
from dynamics.kernel_model import kernel_model
from dynamics.simd import LANES, carve, driver, gather_complex, kernel

STEP = 1e-30


@kernel
def _take(ws, first, target, direction):
    """target[t, direction, i] = Im ws[i] / h for the knots t of the lanes."""
    knots, _, n = target.shape
    for l in range(min(LANES, knots - first)):
        for i in range(n):
            target[first + l, direction, i] = ws[i, 1, l] * (1.0 / STEP)


@kernel
def _step(ws, i, h):
    """Imaginary part of number i."""
    for l in range(LANES):
        ws[i, 1, l] = h


@driver
def _drive_inverse(first, last, work, block, q, v, a, dq, dv):
    m = kernel_model(block)
    nb, n = m.parent.size, m.dof_body.size
    z = work.reshape(work.shape[0] // 2, 2, LANES)
    for c in range(first, last):
        body, w = carve(z, nb * BODY)
        dof, w = carve(w, n * DOF)
        q_, w = carve(w, n)
        v_, w = carve(w, n)
        a_, w = carve(w, n)
        tau, w = carve(w, n)
        gather_complex(q, c * LANES, q_)
        gather_complex(v, c * LANES, v_)
        gather_complex(a, c * LANES, a_)
        for x, out in ((q_, dq), (v_, dv)):
            for j in range(n):
                _step(x, j, STEP)
                inverse_dynamics_kernel(m, q_, v_, a_, None, body, dof, tau)
                _take(tau, c * LANES, out, j)
                _step(x, j, 0.0)


@driver
def _drive_forward(first, last, work, block, q, v, tau, aq, av, at):
    m = kernel_model(block)
    nb, n = m.parent.size, m.dof_body.size
    z = work.reshape(work.shape[0] // 2, 2, LANES)
    for c in range(first, last):
        body, w = carve(z, nb * BODY)
        dof, w = carve(w, n * DOF)
        art, w = carve(w, nb * ARTICULATED)
        elim, w = carve(w, n * ELIMINATION)
        q_, w = carve(w, n)
        v_, w = carve(w, n)
        tau_, w = carve(w, n)
        zeros, w = carve(w, n)
        a, w = carve(w, n)
        zeros[:] = 0.0
        gather_complex(q, c * LANES, q_)
        gather_complex(v, c * LANES, v_)
        gather_complex(tau, c * LANES, tau_)
        for x, out in ((q_, aq), (v_, av), (tau_, at)):
            for j in range(n):
                _step(x, j, STEP)
                forward_dynamics_kernel(m, q_, v_, tau_, zeros, None, body, dof, art, elim, a)
                _take(a, c * LANES, out, j)
                _step(x, j, 0.0)


@driver
def drive_second(first, last, work, block, q, v, a, Tqq, Tqv, Tvv, TM):
    m = kernel_model(block)
    nb, n = m.parent.size, m.dof_body.size
    z = work.reshape(work.shape[0] // 2, 2, LANES)
    for c in range(first, last):
        body, w = carve(z, nb * BODY)
        dof, w = carve(w, n * DOF)
        q_, w = carve(w, n)
        v_, w = carve(w, n)
        a_, w = carve(w, n)
        tau, w = carve(w, n)
        dq, w = carve(w, n * n)
        dv, w = carve(w, n * n)
        M, w = carve(w, n * n)
        gather_complex(q, c * LANES, q_)
        gather_complex(v, c * LANES, v_)
        gather_complex(a, c * LANES, a_)
        dq[:], dv[:], M[:] = 0.0, 0.0, 0.0  # entries between branches
        for j in range(n):
            _step(q_, j, STEP)
            inverse_dynamics_first_order(m, q_, v_, a_, None, body, dof, tau, dq, dv, M)
            _take(dq, c * LANES, Tqq, j)
            _take(M, c * LANES, TM, j)
            _step(q_, j, 0.0)
            _step(v_, j, STEP)
            inverse_dynamics_first_order(m, q_, v_, a_, None, body, dof, tau, dq, dv, M)
            _take(dq, c * LANES, Tqv, j)
            _take(dv, c * LANES, Tvv, j)
            _step(v_, j, 0.0)


def _require_vectors(model) -> None:
    if not model.is_euclidean:
        raise ValueError("model: got joints on a manifold, expected revolute, prismatic and translation joints alone")


def inverse_dynamics_complex_step(model, q, v, a) -> tuple[np.ndarray, ...]:
    """dtau_dq, dtau_dv by 2 nv complex runs of the recursive Newton-Euler algorithm; shapes and errors as in
    `dynamics.inverse_dynamics_derivatives`, and ValueError for joints on a manifold."""
    _require_vectors(model)
    single, (q, v, a) = points(model, q, v=v, a=a)
    K, n = v.shape
    out = np.empty((2, K, n, n))
    launch(_drive_inverse, K, 2 * (model.nb * BODY + n * (DOF + 4)), model.block, q, v, a, *out)
    return unbatch(single, *out.swapaxes(2, 3))


def forward_dynamics_complex_step(model, q, v, tau) -> ForwardDynamicsDerivatives:
    """da_dq, da_dv, da_dtau by 3 nv complex runs of the articulated-body algorithm; errors as above."""
    _require_vectors(model)
    single, (q, v, tau) = points(model, q, v=v, tau=tau)
    K, n = v.shape
    out = np.empty((3, K, n, n))
    numbers = 2 * (model.nb * (BODY + ARTICULATED) + n * (DOF + ELIMINATION + 5))
    launch(_drive_forward, K, numbers, model.block, q, v, tau, *out)
    return ForwardDynamicsDerivatives(*unbatch(single, *out.swapaxes(2, 3)))


def second_derivatives_complex_step(model, q, v, a) -> InverseDynamicsSecondDerivatives:
    """The four tensors by 2 nv complex runs of the first derivatives; errors as above."""
    _require_vectors(model)
    single, (q, v, a) = points(model, q, v=v, a=a)
    K, n = v.shape
    out = np.empty((4, K, n, n * n))
    launch(drive_second, K, 2 * (model.nb * BODY + n * (DOF + 4) + 3 * n * n), model.block, q, v, a, *out)
    tensors = np.moveaxis(out.reshape(4, K, n, n, n), 2, 4)
    return InverseDynamicsSecondDerivatives(*unbatch(single, *tensors))
