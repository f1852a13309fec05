"""The exact Hessian of w' tau(q, v, a), in O(n depth) and without forming a tensor.

Summing the second-order expressions over the torque index telescopes.  With the virtual velocity V = sum of w_l s_l
down the path (V_p at the parent), zeta = V_p x s, and subtree sums over the degrees of freedom l at and below a joint

    G0 = sum w_l I s_l          G4 = sum w_l 2B' s_l          A_w = sum w_l A1(I, s_l),     A1(I, s) = s x* I - I s x

each degree of freedom x has three vectors, A3 being the matrix that multiplies psi in d(2B)/dq_x:

    alpha = A3' V_p + psi x* G0 - A_w psi + s x* G4
    beta  = A1 V_p + s x* G0
    eta   = beta - V_p x* i_s - A_w s

and every pair (x at or below y) needs a few dot products with the columns of y:

    H[q_x, q_y] = alpha.psi_y + beta.psi2_y + f_q.zeta_y       H[v_x, v_y] = eta.s_y
    H[q_x, v_y] = alpha.s_y + beta.rate_y                      H[q_y, v_x] = eta.psi_y + f_v.zeta_y
    H[a_y, q_x] = beta.s_y                                     H[a_x, q_y] = i_s.zeta_y

Inside one joint the index differentiated last counts as the upper one, because a tangent step acts like a copy of the
joint, at rest, just above it: H[q_x, q_y] = d/dq_y (d/dq_x) is then not symmetric, and only the forms with q_y upper
apply.  There H[v_x, v_y] = -s_y.(A1(I, V_p) + A_w) s_x.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from dynamics.algorithms.batch import empty_matrices, points, square_matrices
from dynamics.algorithms.kinematics import (
    BODY,
    COLUMN,
    DERIVATIVES,
    DOF,
    PSI,
    PSI2,
    RATE,
    SUM_G0,
    SUM_G4,
    SUM_MOMENT,
    SUM_ROTATION,
    VIRTUAL_BODY,
    forward_pass,
    load_virtual,
    virtual_motion,
)
from dynamics.algorithms.loads import LOADS, Wrenches, add_loads, loads_batch
from dynamics.derivatives.dead_loads import add_dead_loads
from dynamics.derivatives.inverse_dynamics import (
    InverseDynamicsDerivatives,
    add_armature,
    add_to_parent,
    first_order_vectors,
    load_composite,
    store_row_pair,
)
from dynamics.model.knot_driver import knot_driver, nb, nv
from dynamics.model.model import RigidBodyModel
from dynamics.simd import align_stack, helper, load, shared_kernel, splat, store
from dynamics.simd.lane_blocks import lanes
from dynamics.spatial.spatial import (
    accumulate,
    add3,
    add6,
    add_cross_force,
    add_dot6,
    add_inertia_times,
    add_rate_times,
    add_scaled6,
    cross,
    cross_force,
    dot6,
    inertia_times,
    linear,
    load3,
    load6,
    rate_moment,
    rate_rotation,
    rate_times,
    store3,
    store6,
    sub6,
)


class InverseDynamicsHessian(NamedTuple):
    """Second derivatives of w' tau; each (nv, nv) or (K, nv, nv)."""

    Hqq: np.ndarray
    Hqv: np.ndarray
    Hvv: np.ndarray
    Hqa: np.ndarray


@helper
def _add_joint_sums(m, i, mass, h, I, J, p, w, dof, virtual):
    """Add the joint's own terms to G0, G4, A_w of body i; by linearity they are those of sum w_k s_k."""
    zero = splat(virtual, 0.0)
    s = (zero, zero, zero, zero, zero, zero)
    for k in range(m.v_index[i], m.v_index[i] + m.dof_count[i]):
        s = add_scaled6(s, load(w, k), load6(dof, k * DOF + COLUMN))
    o = i * VIRTUAL_BODY
    G0 = add_inertia_times(load6(virtual, o + SUM_G0), mass, h, I, s)
    G4 = sub6(add_rate_times(load6(virtual, o + SUM_G4), linear(p), J, s), cross_force(s, p))
    hw = add3(load3(virtual, o + SUM_MOMENT), rate_moment(mass, h, s))
    Iw = add6(load6(virtual, o + SUM_ROTATION), rate_rotation(h, I, s))
    store6(virtual, o + SUM_G0, G0)
    store6(virtual, o + SUM_G4, G4)
    store3(virtual, o + SUM_MOMENT, hw)
    store6(virtual, o + SUM_ROTATION, Iw)
    return G0, G4, hw, Iw


@helper
def _curvature_vectors(mass, h, I, J, p, s, psi, i_s, V, G0, G4, hw, Iw):
    """alpha, beta, eta of one degree of freedom."""
    k = linear(p)
    h1, I1 = rate_moment(mass, h, s), rate_rotation(h, I, s)
    h3 = add3(rate_moment(mass, h, psi), cross((s[0], s[1], s[2]), k))
    I3 = add6(rate_rotation(h, I, psi), rate_rotation(k, J, s))
    g3 = add_inertia_times(cross_force(s, p), mass, h, I, psi)
    beta = add_cross_force(rate_times(h1, I1, V), s, G0)
    alpha = sub6(sub6(rate_times(h3, I3, V), cross_force(V, g3)), rate_times(hw, Iw, psi))
    alpha = add_cross_force(add_cross_force(alpha, psi, G0), s, G4)
    eta = sub6(sub6(beta, cross_force(V, i_s)), rate_times(hw, Iw, s))
    return alpha, beta, eta


class ExpansionLanes(NamedTuple):
    """Scratch virtual and zeta; results tau and matrices, row-major, with Hqa[q, a], whose entries between branches are
    never written."""

    virtual: np.ndarray = lanes(nb * VIRTUAL_BODY)
    zeta: np.ndarray = lanes(nv * 6)
    tau: np.ndarray = lanes(nv)
    dq: np.ndarray = lanes(nv * nv, zero=True)
    dv: np.ndarray = lanes(nv * nv, zero=True)
    M: np.ndarray = lanes(nv * nv, zero=True)
    Hqq: np.ndarray = lanes(nv * nv, zero=True)
    Hqv: np.ndarray = lanes(nv * nv, zero=True)
    Hvv: np.ndarray = lanes(nv * nv, zero=True)
    Hqa: np.ndarray = lanes(nv * nv, zero=True)


@shared_kernel
def inverse_dynamics_hessian_kernel(m, q, v, a, w, loads, body, dof, e):
    """Compute the first order and the Hessian of w'tau in `ExpansionLanes`, in one pass, one knot per lane."""
    virtual, zeta, tau, dq, dv, M, Hqq, Hqv, Hvv, Hqa = e
    align_stack(body)
    forward_pass(m, q, v, a, body, dof, DERIVATIVES)
    if loads is not None:
        add_loads(m, loads, -1.0, body)
    virtual_motion(m, w, dof, virtual, zeta)
    n = m.dof_body.size
    for i in range(m.parent.size - 1, -1, -1):
        h, I, J, p, f = load_composite(body, i * BODY)
        mass = m.subtree_mass[i]
        V = load_virtual(m, i, virtual)
        G0, G4, hw, Iw = _add_joint_sums(m, i, mass, h, I, J, p, w, dof, virtual)
        first, last = m.v_index[i], m.v_index[i] + m.dof_count[i]
        for x in range(first, last):
            d = x * DOF
            sx, psix = load6(dof, d + COLUMN), load6(dof, d + PSI)
            store(tau, x, dot6(sx, f))
            i_s, b_s, f_q, f_v = first_order_vectors(
                mass, h, I, J, p, f, sx, psix, load6(dof, d + PSI2), load6(dof, d + RATE)
            )
            alpha, beta, eta = _curvature_vectors(mass, h, I, J, p, sx, psix, i_s, V, G0, G4, hw, Iw)
            y = last - 1
            while y >= 0:
                e = y * DOF
                s, psi, psi2, rate = (
                    load6(dof, e + COLUMN), load6(dof, e + PSI), load6(dof, e + PSI2), load6(dof, e + RATE),
                )  # fmt: skip
                z = load6(zeta, y * 6)
                lower, upper = x * n + y, y * n + x
                inertia = store_row_pair(n, x, y, i_s, b_s, s, psi, psi2, rate, dq, dv, M)
                curvature = add_dot6(add_dot6(dot6(alpha, psi), beta, psi2), f_q, z)
                store(Hqq, lower, curvature)
                store(Hqv, upper, add_dot6(dot6(eta, psi), f_v, z))
                mixed = dot6(i_s, z)
                store(Hqa, upper, mixed)
                if y < first:
                    store(M, upper, inertia)
                    store(dq, upper, dot6(f_q, s))
                    store(dv, upper, dot6(f_v, s))
                    store(Hqq, upper, curvature)
                    store(Hqv, lower, add_dot6(dot6(alpha, s), beta, rate))
                    store(Hqa, lower, dot6(beta, s))
                    vv = dot6(eta, s)
                    store(Hvv, lower, vv)
                    store(Hvv, upper, vv)
                else:
                    other = dot6(inertia_times(mass, h, I, s), load6(zeta, x * 6))
                    store(Hvv, lower, mixed + other - dot6(rate_times(hw, Iw, sx), s))
                y = m.dof_parent[y]
        if m.parent[i] >= 0:
            add_to_parent(body, m.parent[i] * BODY, i * BODY)
            accumulate(virtual, m.parent[i] * VIRTUAL_BODY + SUM_G0, i * VIRTUAL_BODY + SUM_G0, VIRTUAL_BODY - SUM_G0)
    if loads is not None:
        add_dead_loads(m, loads, body, dof, virtual, zeta, dq, Hqq)
    add_armature(m, a, tau, M)


drive_expansion = knot_driver(
    inverse_dynamics_hessian_kernel,
    inputs="q v a w",
    gathered={"loads": LOADS},
    scratch={"body": nb * BODY, "dof": nv * DOF, "e": ExpansionLanes},
    outputs={name: f"e.{name}" for name in ("dq", "dv", "M", "Hqq", "Hqv", "Hvv", "Hqa")},
)


def inverse_dynamics_hessian(
    model: RigidBodyModel,
    q: ArrayLike,
    v: ArrayLike,
    a: ArrayLike,
    w: ArrayLike,
    external_wrenches: Wrenches | None = None,
    wrench_reference: str = "local",
) -> InverseDynamicsHessian:
    """Hessian of w' tau(q, v, a) without forming a tensor.

    Parameters and errors as `inverse_dynamics_derivatives`, and w (nv,) or (K, nv), multiplier of the torques.

    Returns
    -------
    InverseDynamicsHessian(Hqq, Hqv, Hvv, Hqa), each (nv, nv) or (K, nv, nv).  Hqq[j, k] = d/dq_k (d(w'tau)/dq_j), not
    symmetric inside a joint of several degrees of freedom; Hqv[j, k]: j is q, k is v; Hqa[j, k]: j is q, k is a.
    """
    return inverse_dynamics_expansion(model, q, v, a, w, external_wrenches, wrench_reference)[1]


def inverse_dynamics_expansion(
    model: RigidBodyModel, q: ArrayLike, v: ArrayLike, a: ArrayLike, w: ArrayLike, *wrenches: Any
) -> tuple[InverseDynamicsDerivatives, InverseDynamicsHessian]:
    """First derivatives and the Hessian of w' tau in one pass; arguments as `inverse_dynamics_hessian`."""
    external_wrenches, wrench_reference = wrenches or (None, "local")
    single, (q, v, a, w) = points(model, q, v=v, a=a, w=w)
    K, n = v.shape
    out = empty_matrices(7, K, n)
    loads = loads_batch(model, external_wrenches, wrench_reference, K)
    drive_expansion(model, q, v, a, w, loads, *out)
    results = square_matrices(single, out)
    return InverseDynamicsDerivatives(*results[:3]), InverseDynamicsHessian(*results[3:])
