"""Derivatives of forward dynamics, all from those of inverse dynamics at a = FD(q, v, tau).

First order (FDSVA):   da = M^-1 (dtau - dID)                                          [Singh 2022, eq. 5]
Contracted with y, with w = M^-1 y and H the Hessian of w'ID:

    y'd2a = -[ H_xx + H_xa a_x + (H_xa a_x)' ]                                          x = (q, v), and for tau alike

The Lie order of H_qq inside a joint is kept: Hqq[j, k] = d/dq_k (d(y'a)/dq_j).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from dynamics.algorithms.articulated_body import ARTICULATED, ELIMINATION, forward_dynamics_kernel, solve_articulated
from dynamics.algorithms.batch import empty_matrices, points, square_matrices, unbatch
from dynamics.algorithms.forward_dynamics import forward_dynamics
from dynamics.algorithms.inverse_mass import AUTOMATIC, minus_inverse_products
from dynamics.algorithms.kinematics import BODY, DOF
from dynamics.algorithms.loads import LOADS, Wrenches, loads_batch
from dynamics.derivatives.hessian import inverse_dynamics_hessian_kernel
from dynamics.derivatives.inverse_dynamics import inverse_dynamics_first_order
from dynamics.derivatives.second_order import inverse_dynamics_second_derivatives
from dynamics.derivatives.virtual import VIRTUAL_BODY
from dynamics.joint_friction import add_friction_slope
from dynamics.knot_driver import knot_driver, nb, nv
from dynamics.lane_algebra import multiply_negative
from dynamics.model import RigidBodyModel
from dynamics.simd import align_stack, fma, kernel, load, shared_kernel, store


class ForwardDynamicsDerivatives(NamedTuple):
    """Partial derivatives of a(q, v, tau); each (nv, nv) or (K, nv, nv), row = acceleration."""

    da_dq: np.ndarray
    da_dv: np.ndarray
    da_dtau: np.ndarray


class ForwardDynamicsHessian(NamedTuple):
    """Second derivatives of w' a; each (nv, nv) or (K, nv, nv)."""

    Hqq: np.ndarray
    Hqv: np.ndarray
    Hvv: np.ndarray
    Hqtau: np.ndarray


class ForwardDynamicsSecondDerivatives(NamedTuple):
    """Tensors [i, j, k], each (nv, nv, nv) or (K, nv, nv, nv); i is the acceleration."""

    d2a_dqdq: np.ndarray
    d2a_dqdv: np.ndarray
    d2a_dvdv: np.ndarray
    d2a_dqdtau: np.ndarray


@shared_kernel
def forward_dynamics_first_order(m, q, v, tau, route, zeros, loads, body, dof, art, elim, torque, a, aq, av, M, Minv):
    """a = FD(q, v, tau), da/dq, da/dv and da/dtau = M^-1, for one knot per lane, by a route of `inverse_mass`.

    Scratch as `forward_dynamics_kernel`, torque (nv) and M (nv nv).  aq, av, Minv (nv nv), row-major."""
    forward_dynamics_kernel(m, q, v, tau, zeros, loads, body, dof, art, elim, a)
    aq[:], av[:] = 0.0, 0.0
    inverse_dynamics_first_order(m, q, v, a, loads, body, dof, torque, aq, av, M)
    add_friction_slope(m, v, av)
    minus_inverse_products(m, route, dof, elim, art, M, aq, av, Minv)


@shared_kernel
def forward_dynamics_hessian_kernel(
    m, q, v, tau, y, zeros, loads, body, dof, art, elim, virtual, zeta, torque, a, aq, av, M, Minv, w, Hqq, Hqv, Hvv,
    Hqa,
):  # fmt: skip
    """First order as above and the Hessian of y'a(q, v, tau) for one knot per lane.

    w = M^-1 y (nv); Hqq, Hqv, Hvv (nv nv) are those of y'a; Hqa is that of w'ID, so that Hqtau = -Hqa M^-1."""
    n = m.dof_body.size
    forward_dynamics_kernel(m, q, v, tau, zeros, loads, body, dof, art, elim, a)
    solve_articulated(m, w, y, None, dof, elim, art)
    aq[:], av[:] = 0.0, 0.0
    Hqq[:], Hqv[:], Hvv[:], Hqa[:] = 0.0, 0.0, 0.0, 0.0
    inverse_dynamics_hessian_kernel(
        m, q, v, a, w, loads, body, dof, virtual, zeta, torque, aq, av, M, Hqq, Hqv, Hvv, Hqa
    )
    minus_inverse_products(m, AUTOMATIC, dof, elim, art, M, aq, av, Minv)
    _add_acceleration_terms(n, Hqa, aq, av, Hqq, Hqv, Hvv)


@kernel
def _add_acceleration_terms(n, Hqa, aq, av, Hqq, Hqv, Hvv):
    """Hqq <- -(Hqq + Hqa aq + (Hqa aq)'),  Hqv <- -(Hqv + Hqa av),  Hvv <- -Hvv."""
    align_stack(Hqq)
    for j in range(n):
        for k in range(n):
            o = j * n + k
            qq, qv = load(Hqq, o), load(Hqv, o)
            for i in range(n):
                h = load(Hqa, j * n + i)
                qq = fma(h, load(aq, i * n + k), fma(load(Hqa, k * n + i), load(aq, i * n + j), qq))
                qv = fma(h, load(av, i * n + k), qv)
            store(Hqq, o, -qq)
            store(Hqv, o, -qv)
            store(Hvv, o, -load(Hvv, o))


@kernel
def _hessian_kernel(
    m, q, v, tau, y, loads, zeros, body, dof, art, elim, virtual, zeta, torque, a, aq, av, M, Minv, w, Hqq, Hqv, Hvv,
    Hqa, Hqtau,
):  # fmt: skip
    """The Hessian of y'a(q, v, tau), (nv nv) each, Hqtau with it."""
    forward_dynamics_hessian_kernel(
        m, q, v, tau, y, zeros, loads, body, dof, art, elim, virtual, zeta, torque, a, aq, av, M, Minv, w, Hqq, Hqv,
        Hvv, Hqa,
    )  # fmt: skip
    multiply_negative(m.dof_body.size, Hqa, Minv, Hqtau)


_SCRATCH = {
    "body": nb * BODY, "dof": nv * DOF, "art": nb * ARTICULATED, "elim": nv * ELIMINATION, "zeros": nv, "torque": nv,
    "a": nv, "M": nv * nv,
}  # fmt: skip
drive_first_order = knot_driver(
    forward_dynamics_first_order,
    inputs="q v tau",
    gathered={"loads": LOADS},
    scratch=_SCRATCH,
    outputs=dict.fromkeys(("aq", "av", "Minv"), nv * nv),
    zeroed="zeros",
)
_drive_hessian = knot_driver(
    _hessian_kernel,
    inputs="q v tau y",
    gathered={"loads": LOADS},
    scratch=_SCRATCH
    | {"virtual": nb * VIRTUAL_BODY, "zeta": nv * 6, "w": nv}
    | dict.fromkeys(("aq", "av", "Minv", "Hqa"), nv * nv),
    outputs=dict.fromkeys(("Hqq", "Hqv", "Hvv", "Hqtau"), nv * nv),
    zeroed="zeros",
)


def forward_dynamics_derivatives(
    model: RigidBodyModel,
    q: ArrayLike,
    v: ArrayLike,
    tau: ArrayLike,
    external_wrenches: Wrenches | None = None,
    wrench_reference: str = "local",
) -> ForwardDynamicsDerivatives:
    """Derivatives of forward dynamics with respect to configuration (along the tangent), velocity and torque.

    Parameters
    ----------
    model : RigidBodyModel
    q : (nq,) or (K, nq);  v, tau : (nv,) or (K, nv)
    external_wrenches, wrench_reference : as in `inverse_dynamics`; their components are held constant

    Returns
    -------
    ForwardDynamicsDerivatives(da_dq, da_dv, da_dtau), each (nv, nv) or (K, nv, nv); da_dtau = M^-1.

    Raises
    ------
    ValueError : wrong shape, non-finite entry, or a quaternion that is not of unit length; names the argument.
    """
    single, (q, v, tau) = points(model, q, v=v, tau=tau)
    K, n = v.shape
    out = empty_matrices(3, K, n)
    loads = loads_batch(model, external_wrenches, wrench_reference, K)
    drive_first_order(model, q, v, tau, AUTOMATIC, loads, *out)
    return ForwardDynamicsDerivatives(*square_matrices(single, out))


def forward_dynamics_hessian(
    model: RigidBodyModel,
    q: ArrayLike,
    v: ArrayLike,
    tau: ArrayLike,
    w: ArrayLike,
    external_wrenches: Wrenches | None = None,
    wrench_reference: str = "local",
) -> ForwardDynamicsHessian:
    """Hessian of w' a(q, v, tau) without forming a tensor.

    Parameters
    ----------
    model : RigidBodyModel
    q : (nq,) or (K, nq);  v, tau : (nv,) or (K, nv)
    w : (nv,) or (K, nv), multiplier of the accelerations
    external_wrenches, wrench_reference : as in `inverse_dynamics`

    Returns
    -------
    ForwardDynamicsHessian(Hqq, Hqv, Hvv, Hqtau), each (nv, nv) or (K, nv, nv).  Hqq[j, k] = d/dq_k (d(w'a)/dq_j), not
    symmetric inside a joint of several degrees of freedom; in Hqv and Hqtau the row is q.

    Raises
    ------
    ValueError : wrong shape, non-finite entry, or a quaternion that is not of unit length; names the argument.
    """
    single, (q, v, tau, w) = points(model, q, v=v, tau=tau, w=w)
    K, n = v.shape
    H = empty_matrices(4, K, n)
    loads = loads_batch(model, external_wrenches, wrench_reference, K)
    _drive_hessian(model, q, v, tau, w, loads, *H)
    return ForwardDynamicsHessian(*square_matrices(single, H))


def forward_dynamics_second_derivatives(
    model: RigidBodyModel,
    q: ArrayLike,
    v: ArrayLike,
    tau: ArrayLike,
    external_wrenches: Wrenches | None = None,
    wrench_reference: str = "local",
) -> ForwardDynamicsSecondDerivatives:
    """The four second-derivative tensors of forward dynamics.

    With the tensors T of inverse dynamics at a = FD(q, v, tau) and A = da/dq, B = da/dv:

        d2a_dqdq[:, j, k]   = -M^-1 (T_qq[:, j, k] + dM/dq_j A[:, k] + dM/dq_k A[:, j])
        d2a_dqdv[:, j, k]   = -M^-1 (T_qv[:, j, k] + dM/dq_j B[:, k])
        d2a_dvdv            = -M^-1  T_vv               d2a_dqdtau[:, j, k] = -M^-1 dM/dq_j M^-1[:, k]

    Parameters and errors as `forward_dynamics_derivatives`.

    Returns
    -------
    ForwardDynamicsSecondDerivatives(d2a_dqdq, d2a_dqdv, d2a_dvdv, d2a_dqdtau), each (nv, nv, nv) or (K, nv, nv, nv);
    the second and third index are differentiated in the order of the name, the last one last.
    """
    single, (q, v, tau) = points(model, q, v=v, tau=tau)
    loads = external_wrenches, wrench_reference
    A, B, Minv = forward_dynamics_derivatives(model, q, v, tau, *loads)
    T = inverse_dynamics_second_derivatives(model, q, v, forward_dynamics(model, q, v, tau, *loads), *loads)
    rows = T.dM_dq.transpose(0, 1, 3, 2)  # [t, i, j, l] = dM_il/dq_j
    MA, MB = rows @ A[:, None], rows @ B[:, None]
    tensors = T.d2tau_dqdq + MA + MA.swapaxes(2, 3), T.d2tau_dqdv + MB, T.d2tau_dvdv, rows @ Minv[:, None]
    K, n = v.shape
    solved = [(-Minv @ X.reshape(K, n, n * n)).reshape(K, n, n, n) for X in tensors]
    return ForwardDynamicsSecondDerivatives(*unbatch(single, *solved))
