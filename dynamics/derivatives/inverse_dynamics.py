"""First derivatives of inverse dynamics (IDSVA) for any kinematic tree.

For dof j at or above dof i (S_i below):

    M_ij = i_i . s_j          dtau_i/dq_j = b_i . psi_j + i_i . psi2_j          dtau_i/dv_j = b_i . s_j + i_i . rate_j
                              dtau_j/dq_i = f_q,i . s_j  (joint j strictly above)  dtau_j/dv_i = f_v,i . s_j

with the vectors given below.                                                [Singh 2022, eqs. 30, 32, algorithm 1]
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from dynamics.algorithms.batch import empty_matrices, points, square_matrices
from dynamics.algorithms.kinematics import (
    BODY,
    COLUMN,
    COMPOSITE,
    DERIVATIVES,
    DOF,
    FORCE,
    INERTIA,
    INERTIA_RATE,
    MOMENT,
    MOMENTUM,
    PSI,
    PSI2,
    RATE,
    forward_pass,
)
from dynamics.algorithms.loads import LOADS, Wrenches, add_loads, loads_batch
from dynamics.derivatives.dead_loads import add_dead_loads
from dynamics.model.knot_driver import knot_driver, nb, nv
from dynamics.model.model import RigidBodyModel
from dynamics.simd import align_stack, fma, helper, kernel, load, shared_kernel, splat, store
from dynamics.spatial.spatial import (
    accumulate,
    add6,
    add_cross_force,
    add_dot6,
    add_inertia_times,
    cross_force,
    dot6,
    inertia_times,
    linear,
    load3,
    load6,
    rate_times,
    sub6,
)

# --------------------------------------------------------------------------------------------
# Contributions of one degree of freedom to the derivatives: force vectors of the composite body it moves.
#
# For the composite body at and below a joint, with mass m, first moment h, inertia I, momentum p, net force f, and with
# J the rotational part of the inertia's rate (its moment part is the linear momentum), the body-level Coriolis matrix
# is
#
#     2B x  = (rate) x + x x* p             2B' x = (rate) x - x x* p                    [Singh 2022, eq. 28]
#
# and the vectors of a column s, with its psi, psi2 and rate = psi + Sdot, are
#
#     i_s = I s                                                  row of M
#     b_s = 2B' s                                                row multiplying psi in dtau/dq
#     f_q = 2B psi + I psi2 + s x* f                             column of dtau/dq above the joint      [eq. 30]
#     f_v = 2B s + I rate                                        column of dtau/dv above the joint      [eq. 32]


@helper
def load_composite(body, b):
    """Moment, inertia, inertia rate, momentum, force of the composite body stored at offset b."""
    return (
        load3(body, b + MOMENT), load6(body, b + INERTIA), load6(body, b + INERTIA_RATE), load6(body, b + MOMENTUM),
        load6(body, b + FORCE),
    )  # fmt: skip


@helper
def add_to_parent(body, parent, child):
    """Add the composite at offset `child` to the one at offset `parent`."""
    accumulate(body, parent + COMPOSITE, child + COMPOSITE, 27)


@helper
def first_order_vectors(mass, h, I, J, p, f, s, psi, psi2, rate):
    """i_s, b_s, f_q, f_v of one column."""
    k = linear(p)
    sp = cross_force(s, p)
    js = rate_times(k, J, s)
    i_s = inertia_times(mass, h, I, s)
    b_s = sub6(js, sp)
    f_v = add_inertia_times(add6(js, sp), mass, h, I, rate)
    f_q = add_cross_force(add_inertia_times(add_cross_force(rate_times(k, J, psi), psi, p), mass, h, I, psi2), s, f)
    return i_s, b_s, f_q, f_v


class InverseDynamicsDerivatives(NamedTuple):
    """Partial derivatives of tau(q, v, a); each (nv, nv) or (K, nv, nv), row = torque."""

    dtau_dq: np.ndarray
    dtau_dv: np.ndarray
    M: np.ndarray


@helper
def store_row_pair(n, i, j, i_s, b_s, s, psi, psi2, rate, dq, dv, M):
    """Store the entries [i, j] of M, dtau/dq, dtau/dv, for j at or above i."""
    x = dot6(i_s, s)
    store(M, i * n + j, x)
    store(dq, i * n + j, add_dot6(dot6(b_s, psi), i_s, psi2))
    store(dv, i * n + j, add_dot6(dot6(b_s, s), i_s, rate))
    return x


@kernel
def add_armature(m, a, tau, M):
    """Add the rotor inertia: M_kk += armature_k, tau_k += armature_k a_k."""
    n = m.dof_body.size
    for k in range(n):
        r = splat(M, m.armature[k])
        store(M, k * n + k, load(M, k * n + k) + r)
        store(tau, k, fma(r, load(a, k), load(tau, k)))


@shared_kernel
def inverse_dynamics_first_order(m, q, v, a, loads, body, dof, tau, dq, dv, M):
    """Compute tau and its derivatives for one knot per lane.  dq, dv, M (nv nv), row-major; entries between branches
    are not written (zero them once)."""
    align_stack(body)
    forward_pass(m, q, v, a, body, dof, DERIVATIVES)
    if loads is not None:
        add_loads(m, loads, -1.0, body)
    n = m.dof_body.size
    for i in range(m.parent.size - 1, -1, -1):
        h, I, J, p, f = load_composite(body, i * BODY)
        first, last = m.v_index[i], m.v_index[i] + m.dof_count[i]
        for x in range(first, last):
            d = x * DOF
            s = load6(dof, d + COLUMN)
            store(tau, x, dot6(s, f))
            i_s, b_s, f_q, f_v = first_order_vectors(
                m.subtree_mass[i], h, I, J, p, f, s, load6(dof, d + PSI), load6(dof, d + PSI2), load6(dof, d + RATE)
            )
            y = last - 1
            while y >= 0:
                e = y * DOF
                s = load6(dof, e + COLUMN)
                inertia = store_row_pair(
                    n, x, y, i_s, b_s, s, load6(dof, e + PSI), load6(dof, e + PSI2), load6(dof, e + RATE), dq, dv, M
                )
                if y < first:
                    store(M, y * n + x, inertia)
                    store(dq, y * n + x, dot6(f_q, s))
                    store(dv, y * n + x, dot6(f_v, s))
                y = m.dof_parent[y]
        if m.parent[i] >= 0:
            add_to_parent(body, m.parent[i] * BODY, i * BODY)
    if loads is not None:
        add_dead_loads(m, loads, body, dof, None, None, dq, None)
    add_armature(m, a, tau, M)


drive_derivatives = knot_driver(
    inverse_dynamics_first_order,
    inputs="q v a",
    gathered={"loads": LOADS},
    scratch={"body": nb * BODY, "dof": nv * DOF, "tau": nv},
    outputs={"dq": nv * nv, "dv": nv * nv, "M": nv * nv},
    zeroed="dq dv M",  # no call writes the entries between branches
)


def inverse_dynamics_derivatives(
    model: RigidBodyModel,
    q: ArrayLike,
    v: ArrayLike,
    a: ArrayLike,
    external_wrenches: Wrenches | None = None,
    wrench_reference: str = "local",
) -> InverseDynamicsDerivatives:
    """Derivatives of inverse dynamics with respect to configuration, velocity and acceleration.

    dtau_dq is taken along the tangent of q: column k is d/dh tau(integrate(q, h e_k), v, a).   [Singh 2022, alg. 1]

    Parameters
    ----------
    model : RigidBodyModel
    q : (nq,) or (K, nq);  v, a : (nv,) or (K, nv)
    external_wrenches, wrench_reference : as in `inverse_dynamics`; their components are held constant

    Returns
    -------
    InverseDynamicsDerivatives(dtau_dq, dtau_dv, M), each (nv, nv) or (K, nv, nv); M is also dtau/da.

    Raises
    ------
    ValueError : wrong shape, non-finite entry, or a quaternion that is not of unit length; names the argument.
    """
    single, (q, v, a) = points(model, q, v=v, a=a)
    K, n = v.shape
    out = empty_matrices(3, K, n)
    loads = loads_batch(model, external_wrenches, wrench_reference, K)
    drive_derivatives(model, q, v, a, loads, *out)
    return InverseDynamicsDerivatives(*square_matrices(single, out))
