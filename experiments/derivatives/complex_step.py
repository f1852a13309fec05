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
from dynamics.derivatives.inverse_dynamics import InverseDynamicsDerivatives, inverse_dynamics_first_order
from dynamics.derivatives.second_order import InverseDynamicsSecondDerivatives
from dynamics.model.kernel_model import kernel_model
from dynamics.simd import LANES, driver, gather_complex, kernel, split

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


@kernel
def _gather_state(m, q, v, u, first, w):
    """q, v and a third argument of the knots from `first` on, as complex numbers, the blocks of bodies
    and of degrees of freedom, and the rest of the scratch w."""
    n = v.shape[1]
    q_, w = split(w, n)
    v_, w = split(w, n)
    u_, w = split(w, n)
    body, w = split(w, m.parent.size * BODY)
    dof, w = split(w, n * DOF)
    gather_complex(q, first, q_)
    gather_complex(v, first, v_)
    gather_complex(u, first, u_)
    return q_, v_, u_, body, dof, w


@driver
def _drive_first(first, last, work, block, forward, q, v, u, by_q, by_v, by_u):
    """First derivatives of forward dynamics, u being tau, or of inverse dynamics, u being a."""
    m = kernel_model(block)
    nb, n = m.parent.size, m.dof_body.size
    z = work.reshape(work.shape[0] // 2, 2, LANES)
    for c in range(first, last):
        q_, v_, u_, body, dof, w = _gather_state(m, q, v, u, c * LANES, z)
        art, w = split(w, nb * ARTICULATED)
        elim, w = split(w, n * ELIMINATION)
        zeros, w = split(w, n)
        result, w = split(w, n)
        zeros[:] = 0.0
        for x, out in ((q_, by_q), (v_, by_v), (u_, by_u)):
            for j in range(n):
                _step(x, j, STEP)
                if forward:
                    forward_dynamics_kernel(m, q_, v_, u_, zeros, None, body, dof, art, elim, result)
                else:
                    inverse_dynamics_kernel(m, q_, v_, u_, None, body, dof, result)
                _take(result, c * LANES, out, j)
                _step(x, j, 0.0)


@driver
def drive_second(first, last, work, block, q, v, a, Tqq, Tqv, Tvv, TM):
    m = kernel_model(block)
    n = m.dof_body.size
    z = work.reshape(work.shape[0] // 2, 2, LANES)
    for c in range(first, last):
        q_, v_, a_, body, dof, w = _gather_state(m, q, v, a, c * LANES, z)
        tau, w = split(w, n)
        dq, w = split(w, n * n)
        dv, w = split(w, n * n)
        M, w = split(w, n * n)
        dq[:], dv[:], M[:] = 0.0, 0.0, 0.0  # entries between branches
        for x, of_dq, other, of_other in ((q_, Tqq, M, TM), (v_, Tqv, dv, Tvv)):
            for j in range(n):
                _step(x, j, STEP)
                inverse_dynamics_first_order(m, q_, v_, a_, None, body, dof, tau, dq, dv, M)
                _take(dq, c * LANES, of_dq, j)
                _take(other, c * LANES, of_other, j)
                _step(x, j, 0.0)


def _run(drive, workspace_size: int, model, q, v, u, shape: tuple, count: int, *given) -> tuple[np.ndarray, ...]:
    """Derivatives of `count` results of this shape: (K, *shape, nv) each, or (*shape, nv) at a single point."""
    if not model.is_euclidean:
        raise ValueError("model: got joints on a manifold, expected revolute, prismatic and translation joints alone")
    single, batches = points(model, q, v=v, u=u)
    K, n = batches[1].shape
    out = np.empty((count, K, n, *shape))
    launch(drive, K, 2 * workspace_size, model.block, *given, *batches, *out.reshape(count, K, n, -1))
    return unbatch(single, *np.moveaxis(out, 2, -1))


def _first_derivatives(forward: bool, model, q, v, u) -> tuple[np.ndarray, ...]:
    n = model.nv
    workspace_size = model.nb * (BODY + ARTICULATED) + n * (DOF + ELIMINATION + 5)
    return _run(_drive_first, workspace_size, model, q, v, u, (n,), 3, forward)


def inverse_dynamics_derivatives(model, q, v, a) -> InverseDynamicsDerivatives:
    """dtau_dq, dtau_dv, M by 3 nv complex runs of the recursive Newton-Euler algorithm; shapes and errors as in
    `dynamics.inverse_dynamics_derivatives`, and ValueError for joints on a manifold."""
    return InverseDynamicsDerivatives(*_first_derivatives(False, model, q, v, a))


def forward_dynamics_derivatives(model, q, v, tau) -> ForwardDynamicsDerivatives:
    """da_dq, da_dv, da_dtau by 3 nv complex runs of the articulated-body algorithm; errors as above."""
    return ForwardDynamicsDerivatives(*_first_derivatives(True, model, q, v, tau))


def second_order_size(model) -> int:
    """Complex workspace size per lane of `drive_second`."""
    n = model.nv
    return model.nb * BODY + n * (DOF + 4 + 3 * n)


def inverse_dynamics_second_derivatives(model, q, v, a) -> InverseDynamicsSecondDerivatives:
    """The four tensors by 2 nv complex runs of the first derivatives; errors as above."""
    n = model.nv
    tensors = _run(drive_second, second_order_size(model), model, q, v, a, (n, n), 4)
    return InverseDynamicsSecondDerivatives(*tensors)
