"""Derivatives of forward dynamics, all from those of inverse dynamics at a = FD(q, v, tau).

First order (FDSVA):   da = M^-1 (dtau - dID)                                          [Singh 2022, eq. 5]
Contracted with y:     that of `implicit_function` with w = M^-1 y and H the Hessian of w'ID

The order of differentiation inside a joint is kept: Hqq[j, k] = d/dq_k (d(y'a)/dq_j).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from dynamics.algorithms.articulated_body import ARTICULATED, ELIMINATION, forward_dynamics_kernel, solve_articulated
from dynamics.algorithms.batch import empty_matrices, points, square_matrices, unbatch
from dynamics.algorithms.forward_dynamics import forward_dynamics
from dynamics.algorithms.inverse_mass import AUTOMATIC, minus_inverse_products
from dynamics.algorithms.kinematics import BODY, DOF, VIRTUAL_BODY
from dynamics.algorithms.loads import LOADS, Wrenches, loads_batch
from dynamics.derivatives.hessian import ExpansionLanes, inverse_dynamics_hessian, inverse_dynamics_hessian_kernel
from dynamics.derivatives.implicit_function import implicit_hessian, implicit_hessians, subtract_product
from dynamics.derivatives.inverse_dynamics import inverse_dynamics_derivatives, inverse_dynamics_first_order
from dynamics.derivatives.second_order import inverse_dynamics_second_derivatives
from dynamics.model.joint_forces import add_friction_curvature, add_friction_derivative, add_spring_responses
from dynamics.model.knot_driver import knot_driver, nb, nv
from dynamics.model.model import RigidBodyModel
from dynamics.simd import kernel, shared_kernel
from dynamics.simd.lane_blocks import lanes


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


class Workspace(NamedTuple):
    """Lanes of the accelerations."""

    body: np.ndarray = lanes(nb * BODY)
    dof: np.ndarray = lanes(nv * DOF)
    art: np.ndarray = lanes(nb * ARTICULATED)
    elim: np.ndarray = lanes(nv * ELIMINATION)
    zeros: np.ndarray = lanes(nv, zero=True)
    a: np.ndarray = lanes(nv)


class FirstOrder(NamedTuple):
    """Lanes of the first derivatives."""

    torque: np.ndarray = lanes(nv)
    M: np.ndarray = lanes(nv * nv)
    Gq: np.ndarray = lanes(nv * nv)  # da/dq in the end
    Gv: np.ndarray = lanes(nv * nv)  # da/dv in the end
    Minv: np.ndarray = lanes(nv * nv)


class SecondOrder(NamedTuple):
    """Lanes of the Hessian."""

    y: np.ndarray = lanes(nv)  # multiplier
    w: np.ndarray = lanes(nv)
    virtual: np.ndarray = lanes(nb * VIRTUAL_BODY)
    zeta: np.ndarray = lanes(nv * 6)
    Hqq: np.ndarray = lanes(nv * nv)
    Hqv: np.ndarray = lanes(nv * nv)
    Hvv: np.ndarray = lanes(nv * nv)
    Hqa: np.ndarray = lanes(nv * nv)


@shared_kernel
def forward_dynamics_first_order(m, q, v, tau, route, loads, w, d):
    """Compute w.a = FD(q, v, tau), d.Gq, d.Gv, d.Minv = da/dtau, one knot per lane, by a route of `inverse_mass`."""
    forward_dynamics_kernel(m, q, v, tau, w.zeros, loads, w.body, w.dof, w.art, w.elim, w.a)
    d.Gq[:], d.Gv[:] = 0.0, 0.0
    inverse_dynamics_first_order(m, q, v, w.a, loads, w.body, w.dof, d.torque, d.Gq, d.Gv, d.M)
    add_friction_derivative(m, v, d.Gv)
    minus_inverse_products(m, route, w.dof, w.elim, w.art, d.M, d.Gq, d.Gv, d.Minv)
    add_spring_responses(m, m.dof_body.size, m.dof_body.size, d.Minv, d.Gq, d.Gv)


@kernel
def forward_dynamics_hessian_at_solution(m, q, v, loads, w, d, h):
    """Compute the first order and the Hessian h.Hqq, h.Hqv, h.Hvv of h.y'a(q, v, tau), for one knot per lane.

    w as `forward_dynamics_kernel` left it, with w.a.  h.Hqa becomes that of h.w'ID, h.w = M^-1 h.y, and d.M scratch."""
    solve_articulated(m, h.w, h.y, None, w.dof, w.elim, w.art)
    d.Gq[:], d.Gv[:] = 0.0, 0.0
    h.Hqq[:], h.Hqv[:], h.Hvv[:], h.Hqa[:] = 0.0, 0.0, 0.0, 0.0
    e = ExpansionLanes(h.virtual, h.zeta, d.torque, d.Gq, d.Gv, d.M, h.Hqq, h.Hqv, h.Hvv, h.Hqa)
    inverse_dynamics_hessian_kernel(m, q, v, w.a, h.w, loads, w.body, w.dof, e)
    add_friction_derivative(m, v, d.Gv)
    add_friction_curvature(m, v, h.w, h.Hvv)
    minus_inverse_products(m, AUTOMATIC, w.dof, w.elim, w.art, d.M, d.Gq, d.Gv, d.Minv)
    add_spring_responses(m, m.dof_body.size, m.dof_body.size, d.Minv, d.Gq, d.Gv)
    implicit_hessian(None, m.dof_body.size, h.Hqa, d.Gq, d.Gv, h, d.M)


@kernel
def _hessian_kernel(m, q, v, tau, loads, w, d, h, Hqtau):
    """Compute the Hessian of h.y'a(q, v, tau) in h, and Hqtau (nv nv)."""
    n = m.dof_body.size
    forward_dynamics_kernel(m, q, v, tau, w.zeros, loads, w.body, w.dof, w.art, w.elim, w.a)
    forward_dynamics_hessian_at_solution(m, q, v, loads, w, d, h)
    Hqtau[:] = 0.0
    subtract_product(None, n, n, h.Hqa, d.Minv, n, Hqtau)


_SCRATCH = {"w": Workspace, "d": FirstOrder}
drive_first_order = knot_driver(
    forward_dynamics_first_order,
    inputs="q v tau",
    gathered={"loads": LOADS},
    scratch=_SCRATCH,
    outputs={"aq": "d.Gq", "av": "d.Gv", "Minv": "d.Minv"},
)
_drive_hessian = knot_driver(
    _hessian_kernel,
    inputs="q v tau y=h.y",
    gathered={"loads": LOADS},
    scratch=_SCRATCH | {"h": SecondOrder},
    outputs={"Hqtau": nv * nv, "Hqq": "h.Hqq", "Hqv": "h.Hqv", "Hvv": "h.Hvv"},
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
    if model.mimics:
        return ForwardDynamicsDerivatives(
            *unbatch(single, *_by_mass_matrix(model, q, v, tau, external_wrenches, wrench_reference)[1:])
        )
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

    Parameters and errors as `forward_dynamics_derivatives`, and w (nv,) or (K, nv), multiplier of the accelerations.

    Returns
    -------
    ForwardDynamicsHessian(Hqq, Hqv, Hvv, Hqtau), each (nv, nv) or (K, nv, nv).  Hqq[j, k] = d/dq_k (d(w'a)/dq_j), not
    symmetric inside a joint of several degrees of freedom; in Hqv and Hqtau the row is q.
    """
    single, (q, v, tau, w) = points(model, q, v=v, tau=tau, w=w)
    if model.mimics:
        a, A, B, Minv = _by_mass_matrix(model, q, v, tau, external_wrenches, wrench_reference)
        mu = (Minv @ w[..., None])[..., 0]
        Hqq, Hqv, Hvv, Hqa = inverse_dynamics_hessian(model, q, v, a, mu, external_wrenches, wrench_reference)
        return ForwardDynamicsHessian(*unbatch(single, *implicit_hessians(Hqq, Hqv, Hvv, 0.0, Hqa, A, B, Minv)))
    K, n = v.shape
    H = empty_matrices(4, K, n)
    loads = loads_batch(model, external_wrenches, wrench_reference, K)
    _drive_hessian(model, q, v, tau, loads, H[3], w, *H[:3])
    return ForwardDynamicsHessian(*square_matrices(single, H))


def _by_mass_matrix(model, q, v, tau, *loads):
    """a, da/dq, da/dv and M^-1 (K, ...) of a model with mimic joints, from derivatives of inverse dynamics."""
    a = forward_dynamics(model, q, v, tau, *loads)
    dq, dv, M = inverse_dynamics_derivatives(model, q, v, a, *loads)
    Minv = np.linalg.inv(M)
    return a, -Minv @ dq, -Minv @ dv, Minv


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
