"""Second derivatives of inverse dynamics: the four full tensors (IDSVA SO), for joints of any kind anywhere.

A tensor entry involves three degrees of freedom on one path, i at or below j at or below k, one of which carries the
torque.  It is the Hessian of `hessian.py` for a unit multiplier w, so three sets of vectors cover everything:

    torque i (lowest)      alpha_i = psi_j x* i_i - A1 psi_j + s_j x* b_i      beta_i = s_j x* i_i       pair (j, k)
    torque j (middle)      alpha_j = A3' s_j                                    beta_j = A1 s_j           pair (i, k)
    torque k (highest)     gamma   as listed in `_highest`                                                pair (i, j)

with A1 = s_i x* I - I s_i x, A3 = d(2B)/dq_i's factor of psi, and eta_i = beta_i - beta_j = -eta_j.  Thirteen dot
products per triple fill every entry.                                     [Singh 2022 (SO), appendix B, algorithm 1]

T[i, j, k] is stored for d2tau_i/dq_j dq_k = d/dq_k (d tau_i/dq_j); inside one joint the order matters, and the index
differentiated last counts as the upper one.
"""

from typing import NamedTuple

import numpy as np

from dynamics.algorithms.batch import launch, points, unbatch
from dynamics.algorithms.kinematics import (
    BODY,
    COLUMN,
    DERIVATIVES,
    DOF,
    INERTIA,
    MOMENT,
    PSI,
    PSI2,
    RATE,
    forward_pass,
)
from dynamics.derivatives.composites import add_to_parent, first_order_vectors, load_composite
from dynamics.simd import LANES, align_stack, carve, driver, gather, helper, kernel, scatter, store
from dynamics.spatial import (
    add6,
    add_cross,
    add_cross_force,
    add_dot6,
    add_inertia_times,
    add_rate_times,
    cross_force,
    cross_motion,
    dot6,
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


class InverseDynamicsSecondDerivatives(NamedTuple):
    """Tensors [i, j, k], each (nv, nv, nv) or (K, nv, nv, nv); i is the torque."""

    d2tau_dqdq: np.ndarray
    d2tau_dqdv: np.ndarray
    d2tau_dvdv: np.ndarray
    dM_dq: np.ndarray


# what the lowest dof contributes: A1 = (H1, I1); A3 x = (H3, I3) x + x x* G3; and its first-order vectors
H1, I1, H3, I3, G3, IS, BS, FQ, FV = 0, 3, 9, 12, 18, 24, 30, 36, 42
LOWEST = 48


@kernel
def _lowest(m, i, b, body, dof, low):
    """The vectors of dof i of body b, into low (LOWEST)."""
    align_stack(body)
    h, I, J, p, f = load_composite(body, b * BODY)
    mass = m.subtree_mass[b]
    k = linear(p)
    d = i * DOF
    s, psi = load6(dof, d + COLUMN), load6(dof, d + PSI)
    store3(low, H1, rate_moment(mass, h, s))
    store6(low, I1, rate_rotation(h, I, s))
    store3(low, H3, add_cross(rate_moment(mass, h, psi), (s[0], s[1], s[2]), k))
    store6(low, I3, add6(rate_rotation(h, I, psi), rate_rotation(k, J, s)))
    store6(low, G3, add_inertia_times(cross_force(s, p), mass, h, I, psi))
    i_s, b_s, f_q, f_v = first_order_vectors(mass, h, I, J, p, f, s, psi, load6(dof, d + PSI2), load6(dof, d + RATE))
    store6(low, IS, i_s)
    store6(low, BS, b_s)
    store6(low, FQ, f_q)
    store6(low, FV, f_v)


@helper
def _highest(low, s, psi, psi2, rate):
    """Vectors whose product with s_k is the torque k, for the pairs (q_i, q_j), (q_i, v_j), (v_i, q_j):

    A3 psi_j + A1 psi2_j + s_j x* f_q      A3 s_j + A1 rate_j      A1 psi_j + psi_j x* i_s + s_j x* f_v"""
    h1, i1, h3, i3, g3 = load3(low, H1), load6(low, I1), load3(low, H3), load6(low, I3), load6(low, G3)
    qq = add_rate_times(add_rate_times(cross_force(psi, g3), h3, i3, psi), h1, i1, psi2)
    qv = add_cross_force(add_rate_times(rate_times(h3, i3, s), h1, i1, rate), s, g3)
    vq = add_cross_force(rate_times(h1, i1, psi), psi, load6(low, IS))
    return add_cross_force(qq, s, load6(low, FQ)), qv, add_cross_force(vq, s, load6(low, FV))


@helper
def _store_lowest(n, i, j, k, above, qq, qv, vq, bi, bj, Tqq, Tqv, Tvv, TM):
    """Torque i; pair (j, k); above: joint(k) strictly above joint(j)."""
    jk, kj = (i * n + j) * n + k, (i * n + k) * n + j
    store(Tqq, jk, qq)
    store(Tqv, kj, vq)
    if above:
        store(Tqq, kj, qq)
        store(Tqv, jk, qv)
        store(Tvv, jk, bi - bj)
        store(Tvv, kj, bi - bj)
        store(TM, kj, bi)
        store(TM, (k * n + i) * n + j, bi)
    else:
        store(Tvv, jk, -bj)


@helper
def _store_middle(n, i, j, k, qq, qv, vq, bi, bj, Tqq, Tqv, Tvv, TM):
    """Torque j, joint(j) strictly above joint(i); pair (i, k)."""
    ik, ki = (j * n + i) * n + k, (j * n + k) * n + i
    store(Tqq, ik, qq)
    store(Tqq, ki, qq)
    store(Tqv, ik, qv)
    store(Tqv, ki, -vq)
    store(Tvv, ik, bj - bi)
    store(Tvv, ki, bj - bi)
    store(TM, ki, bj)
    store(TM, (k * n + j) * n + i, bj)


@helper
def _store_highest(n, i, j, k, below, qq, qv, vq, vv, Tqq, Tqv, Tvv):
    """Torque k, joint(k) strictly above joint(j); pair (i, j); below: joint(i) strictly below joint(j)."""
    ij, ji = (k * n + i) * n + j, (k * n + j) * n + i
    store(Tqq, ij, qq)
    store(Tqv, ji, vq)
    store(Tvv, ij, vv)
    if below:
        store(Tqq, ji, qq)
        store(Tqv, ij, qv)
        store(Tvv, ji, vv)


@kernel
def _triples(m, dof, i, j, body, low, Tqq, Tqv, Tvv, TM):
    """All entries of the lowest dof i, the middle dof j, and every dof k of j's joint or above."""
    align_stack(dof)
    n = m.dof_body.size
    bi, bj = m.dof_body[i], m.dof_body[j]
    first_j = m.v_index[bj]
    below = bi != bj
    d = j * DOF
    s, psi, rate = load6(dof, d + COLUMN), load6(dof, d + PSI), load6(dof, d + RATE)
    h1, i1, i_s = load3(low, H1), load6(low, I1), load6(low, IS)
    high_qq, high_qv, high_vq = _highest(low, s, psi, load6(dof, d + PSI2), rate)
    beta_i, beta_j = cross_force(s, i_s), rate_times(h1, i1, s)
    alpha_i = sub6(add_cross_force(cross_force(s, load6(low, BS)), psi, i_s), rate_times(h1, i1, psi))
    alpha_j = sub6(rate_times(load3(low, H3), load6(low, I3), s), cross_force(s, load6(low, G3)))
    high_vv = add6(beta_i, beta_j)
    if not below:  # s_i x* I s_j = A1 s_j + I (s_i x s_j)
        x = cross_motion(load6(dof, i * DOF + COLUMN), s)
        b = bi * BODY
        high_vv = add_inertia_times(high_vv, m.subtree_mass[bi], load3(body, b + MOMENT), load6(body, b + INERTIA), x)
    k = first_j + m.dof_count[bj] - 1
    while k >= 0:
        d = k * DOF
        above = k < first_j
        s, psi, psi2, rate = load6(dof, d + COLUMN), load6(dof, d + PSI), load6(dof, d + PSI2), load6(dof, d + RATE)
        is_, js = dot6(beta_i, s), dot6(beta_j, s)
        vq = dot6(beta_i, psi) - dot6(beta_j, psi)
        qq = add_dot6(dot6(alpha_i, psi), beta_i, psi2)
        qv = add_dot6(dot6(alpha_i, s), beta_i, rate)
        _store_lowest(n, i, j, k, above, qq, qv, vq, is_, js, Tqq, Tqv, Tvv, TM)
        if below:
            qq = add_dot6(dot6(alpha_j, psi), beta_j, psi2)
            qv = add_dot6(dot6(alpha_j, s), beta_j, rate)
            _store_middle(n, i, j, k, qq, qv, vq, is_, js, Tqq, Tqv, Tvv, TM)
        if above:
            _store_highest(
                n, i, j, k, below, dot6(high_qq, s), dot6(high_qv, s), dot6(high_vq, s), dot6(high_vv, s), Tqq, Tqv, Tvv
            )
        k = m.dof_parent[k]


@kernel
def inverse_dynamics_second_order(m, q, v, a, body, dof, low, Tqq, Tqv, Tvv, TM):
    """The four tensors for one knot per lane, each (nv nv nv), row-major [i, j, k].

    Scratch: body (nb BODY), dof (nv DOF), low (LOWEST).  Entries between branches are not written (zero them once)."""
    forward_pass(m, q, v, a, body, dof, DERIVATIVES)
    for b in range(m.parent.size - 1, -1, -1):
        last = m.v_index[b] + m.dof_count[b] - 1
        for i in range(m.v_index[b], last + 1):
            _lowest(m, i, b, body, dof, low)
            j = last
            while j >= 0:
                _triples(m, dof, i, j, body, low, Tqq, Tqv, Tvv, TM)
                j = m.dof_parent[j]
        if m.parent[b] >= 0:
            add_to_parent(body, m.parent[b] * BODY, b * BODY)


def second_order_numbers(model) -> int:
    """Scratch numbers per lane of `drive_second_order`."""
    n = model.nv
    return len(model.arrays.parent) * BODY + n * (DOF + 2) + model.nq + LOWEST + 4 * n**3


@driver
def drive_second_order(first, last, work, m, q, v, a, Tqq, Tqv, Tvv, TM):
    """Tensors of all knots; arrays without knots leave them in the lanes, where a caller's kernel may use them."""
    nb, n, nq = m.parent.size, m.dof_body.size, q.shape[1]
    n3 = n * n * n
    for c in range(first, last):
        body, w = carve(work, nb * BODY)
        dof, w = carve(w, n * DOF)
        low, w = carve(w, LOWEST)
        q_, w = carve(w, nq)
        v_, w = carve(w, n)
        a_, w = carve(w, n)
        Tqq_, w = carve(w, n3)
        Tqv_, w = carve(w, n3)
        Tvv_, w = carve(w, n3)
        TM_, w = carve(w, n3)
        gather(q, c * LANES, q_)
        gather(v, c * LANES, v_)
        gather(a, c * LANES, a_)
        if c == first:  # no chunk writes the entries that are zero
            Tqq_[:], Tqv_[:], Tvv_[:], TM_[:] = 0.0, 0.0, 0.0, 0.0
        inverse_dynamics_second_order(m, q_, v_, a_, body, dof, low, Tqq_, Tqv_, Tvv_, TM_)
        if Tqq.shape[0] > 0:
            scatter(Tqq_, c * LANES, Tqq)
            scatter(Tqv_, c * LANES, Tqv)
            scatter(Tvv_, c * LANES, Tvv)
            scatter(TM_, c * LANES, TM)


def inverse_dynamics_second_derivatives(model, q, v, a) -> InverseDynamicsSecondDerivatives:
    """The four second-derivative tensors of inverse dynamics.                      [Singh 2022 (SO), algorithm 1]

    Parameters
    ----------
    model : RigidBodyModel
    q : (nq,) or (K, nq);  v, a : (nv,) or (K, nv)

    Returns
    -------
    InverseDynamicsSecondDerivatives(d2tau_dqdq, d2tau_dqdv, d2tau_dvdv, dM_dq), each (nv, nv, nv) or (K, nv, nv, nv):
    d2tau_dqdq[i, j, k] = d/dq_k (d tau_i/dq_j), whose order matters inside a joint of several degrees of freedom;
    d2tau_dqdv[i, j, k]: j is q, k is v;  dM_dq[i, j, k] = dM_ij/dq_k.

    Raises
    ------
    ValueError : wrong shape, non-finite entry, or a quaternion that is not of unit length; names the argument.
    """
    single, (q, v, a) = points(model, q, v=v, a=a)
    K, n = v.shape
    T = np.empty((4, K, n**3))
    launch(drive_second_order, len(q), second_order_numbers(model), model.arrays, q, v, a, T[0], T[1], T[2], T[3])
    return InverseDynamicsSecondDerivatives(*unbatch(single, *T.reshape(4, K, n, n, n)))
