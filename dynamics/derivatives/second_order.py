"""All second derivatives of inverse dynamics, as full or packed tensors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple, overload

import numpy as np
from numpy.typing import ArrayLike

from dynamics.algorithms.batch import empty_matrices, launch, points, square_matrices, unbatch
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
from dynamics.algorithms.loads import LOADS, Wrenches, add_loads, loads_batch
from dynamics.derivatives.dead_loads import TENSOR_SUMS, add_highest_lag, lower_lags, sum_tensor_loads
from dynamics.derivatives.hessian import InverseDynamicsHessian
from dynamics.derivatives.inverse_dynamics import add_to_parent, first_order_vectors, load_composite
from dynamics.derivatives.packed import (
    QQ_I,
    QQ_K,
    QV_I,
    RECORD,
    VQ_K,
    contract_packed_kernel,
    moves,
    packed_size,
    place_dof,
)
from dynamics.model.kernel_model import kernel_model
from dynamics.model.knot_driver import knot_driver, nb, nv
from dynamics.model.model import RigidBodyModel
from dynamics.simd import LANES, align_stack, aligned_empty, chunk_count, driver, helper, kernel, split, store
from dynamics.simd.chunks import stream
from dynamics.simd.sizes import Size
from dynamics.spatial.spatial import (
    accumulate,
    add6,
    add_cross,
    add_cross_force,
    add_dot6,
    add_inertia_times,
    add_rate_times,
    angular,
    cross_force,
    cross_motion,
    dot3,
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
from dynamics.validation import as_batch, as_flag

# --------------------------------------------------------------------------------------------
# Second derivatives of inverse dynamics: the four full tensors (IDSVA SO), for any kinematic tree.
#
# A tensor entry involves three degrees of freedom on one path, i at or below j at or below k, one of which carries the
# torque.  It is the Hessian of `hessian.py` for a unit multiplier w, so three sets of vectors cover all entries:
#
#     torque i (lowest)      alpha_i = psi_j x* i_i - A1 psi_j + s_j x* b_i      beta_i = s_j x* i_i       pair (j, k)
#     torque j (middle)      alpha_j = A3' s_j                                    beta_j = A1 s_j           pair (i, k)
#     torque k (highest)     gamma   as listed in `_highest`                                                pair (i, j)
#
# with A1 = s_i x* I - I s_i x, A3 = d(2B)/dq_i's factor of psi, and eta = beta_i - beta_j.  Fourteen dot products per
# triple give its record (see `packed`), from which every entry follows.  [Singh 2022 (SO), appendix B, algorithm 1]
#
# T[i, j, k] is stored for d2tau_i/dq_j dq_k = d/dq_k (d tau_i/dq_j); inside one joint the order matters, and the index
# differentiated last counts as the upper one.

# vectors of the lowest dof: A1 = (H1, I1); A3 x = (H3, I3) x + x x* G3; and its first-order vectors
H1, I1, H3, I3, G3, IS, BS, FQ, FV = 0, 3, 9, 12, 18, 24, 30, 36, 42
LOWEST = 48


@kernel
def _lowest(m, i, b, body, dof, low):
    """Store the vectors of dof i of body b in low (LOWEST)."""
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
def _pair(alpha, beta, loads, lag, s, psi, psi2):
    """d2tau/dq dq of a pair whose upper dof has s, psi, psi2; `lag` gives the term of dead loads, if any."""
    x = add_dot6(dot6(alpha, psi), beta, psi2)
    if loads is not None:
        x = x + dot3(lag, angular(s))
    return x


@helper
def _pack_own(m, dof, i, j, k, below, alpha_i, beta_i, alpha_j, beta_j, loads, lags, packed, p):
    """Store the own record of (i, j, k) at p; returns its end."""
    lag_i, lag_j = lags
    d = k * DOF
    s, psi, psi2 = load6(dof, d + COLUMN), load6(dof, d + PSI), load6(dof, d + PSI2)
    store(packed, p, _pair(alpha_i, beta_i, loads, lag_i, s, psi, psi2))
    p += 1
    if below:
        store(packed, p, _pair(alpha_j, beta_j, loads, lag_j, s, psi, psi2))
        store(packed, p + 1, add_dot6(dot6(alpha_j, s), beta_j, load6(dof, d + RATE)))
        p += 2
    if j >= k and (i != j or j != k):
        store(packed, p, dot6(beta_j, s))
        p += 1
    if j > k and below:
        store(packed, p, dot6(beta_i, s))
        p += 1
    if i > j and moves(m, k):
        store(packed, p, dot6(sub6(beta_i, beta_j), psi))
        p += 1
    return p


@helper
def _pack_upper(m, dof, i, j, k, below, alpha_i, beta_i, alpha_j, beta_j, loads, lags, eta, highest, packed, p):
    """Store the upper record of (i, j, k) at p; returns its end."""
    lag_i, lag_j = lags
    qq_k, qv_k, vq_k = highest
    d = k * DOF
    s, psi, psi2, rate = load6(dof, d + COLUMN), load6(dof, d + PSI), load6(dof, d + PSI2), load6(dof, d + RATE)
    store(packed, p + QQ_I, _pair(alpha_i, beta_i, loads, lag_i, s, psi, psi2))
    store(packed, p + QV_I, add_dot6(dot6(alpha_i, s), beta_i, rate))
    store(packed, p + QQ_K, dot6(qq_k, s))
    store(packed, p + VQ_K, dot6(vq_k, s))
    p += 4
    if i >= j:
        store(packed, p, dot6(beta_i, s))
        p += 1
    if i > j:
        store(packed, p, dot6(beta_j, s))
        p += 1
        if below:
            store(packed, p, _pair(alpha_j, beta_j, loads, lag_j, s, psi, psi2))
            store(packed, p + 1, add_dot6(dot6(alpha_j, s), beta_j, rate))
            store(packed, p + 2, dot6(qv_k, s))
            p += 3
        else:
            store(packed, p, dot6(eta, s))
            p += 1
        if moves(m, k):
            store(packed, p, dot6(eta, psi))
            p += 1
    return p


@kernel
def _pack_pair(m, dof, i, j, body, low, loads, sums, packed, p):
    """Store the records of lowest dof i, middle dof j, and every dof k of j's joint or above; returns their end."""
    align_stack(dof)
    bi, bj = m.dof_body[i], m.dof_body[j]
    below = bi != bj
    d = j * DOF
    s, psi = load6(dof, d + COLUMN), load6(dof, d + PSI)
    h1, i1, i_s = load3(low, H1), load6(low, I1), load6(low, IS)
    beta_i, beta_j = cross_force(s, i_s), rate_times(h1, i1, s)
    alpha_i = sub6(add_cross_force(cross_force(s, load6(low, BS)), psi, i_s), rate_times(h1, i1, psi))
    alpha_j = sub6(rate_times(load3(low, H3), load6(low, I3), s), cross_force(s, load6(low, G3)))
    s_i, lags = load6(dof, i * DOF + COLUMN), (angular(s), angular(s))
    if loads is not None:
        lags = lower_lags(sums, bi, s_i, s)
    k = m.v_index[bj] + m.dof_count[bj] - 1
    while k >= m.v_index[bj]:
        p = _pack_own(m, dof, i, j, k, below, alpha_i, beta_i, alpha_j, beta_j, loads, lags, packed, p)
        k = m.dof_parent[k]
    if k < 0:
        return p
    qq_k, qv_k, vq_k = _highest(low, s, psi, load6(dof, d + PSI2), load6(dof, d + RATE))
    if loads is not None:
        qq_k = add_highest_lag(qq_k, sums, bi, s_i, s)
    highest = qq_k, qv_k, vq_k
    eta = sub6(beta_i, beta_j)
    if not below:  # js equals `is` with i and j exchanged:  s_i x* I s_j = A1 s_j + I (s_i x s_j)
        x = cross_motion(s_i, s)
        b = bi * BODY
        beta_j = add_inertia_times(beta_j, m.subtree_mass[bi], load3(body, b + MOMENT), load6(body, b + INERTIA), x)
    while k >= 0:
        p = _pack_upper(m, dof, i, j, k, below, alpha_i, beta_i, alpha_j, beta_j, loads, lags, eta, highest, packed, p)
        k = m.dof_parent[k]
    return p


@helper
def _pack_dof(m, i, b, body, dof, low, loads, sums, packed, p):
    """Store all records of the lowest dof i, on body b; returns their end."""
    _lowest(m, i, b, body, dof, low)
    j = m.v_index[b] + m.dof_count[b] - 1
    while j >= 0:
        p = _pack_pair(m, dof, i, j, body, low, loads, sums, packed, p)
        j = m.dof_parent[j]
    return p


@helper
def _pass_on(m, b, body, loads, sums):
    """Add the subtree of body b to that of its parent."""
    add_to_parent(body, m.parent[b] * BODY, b * BODY)
    if loads is not None:
        accumulate(sums, m.parent[b] * TENSOR_SUMS, b * TENSOR_SUMS, TENSOR_SUMS)


@kernel
def second_order_packed_kernel(m, body, dof, low, loads, sums, packed):
    """Compute the packed tensors, packed (packed_size(m)), one knot per lane, after a `forward_pass` for DERIVATIVES.

    body (nb BODY) and dof (nv DOF) come from that pass; body becomes that of the composite bodies, with the caller's
    FORCE in their sums.  Scratch: low (LOWEST).  loads: None, or those that `sum_tensor_loads` has summed into sums."""
    p = 0
    for b in range(m.parent.size - 1, -1, -1):
        for i in range(m.v_index[b], m.v_index[b] + m.dof_count[b]):
            p = _pack_dof(m, i, b, body, dof, low, loads, sums, packed, p)
        if m.parent[b] >= 0:
            _pass_on(m, b, body, loads, sums)


@kernel
def second_order_dense_kernel(m, body, dof, low, loads, sums, records, Tqq, Tqv, Tvv, TM):
    """Compute the four dense tensors, each (nv nv nv); scratch: records (RECORD nv nv), those of one dof at a time.

    Entries between branches are not written (zero them once)."""
    for b in range(m.parent.size - 1, -1, -1):
        for i in range(m.v_index[b], m.v_index[b] + m.dof_count[b]):
            _pack_dof(m, i, b, body, dof, low, loads, sums, records, 0)
            place_dof(m, i, records, 0, None, Tqq, Tqv, Tvv, TM)
        if m.parent[b] >= 0:
            _pass_on(m, b, body, loads, sums)


# --------------------------------------------------------------------------------------------
# Second-order tensors of inverse dynamics for callers in Python, as arrays and packed.


class InverseDynamicsSecondDerivatives(NamedTuple):
    """Tensors [i, j, k], each (nv, nv, nv) or (K, nv, nv, nv); i is the torque."""

    d2tau_dqdq: np.ndarray
    d2tau_dqdv: np.ndarray
    d2tau_dvdv: np.ndarray
    dM_dq: np.ndarray


@driver
def _drive_unpack(first, last, work, block, chunks, Tqq, Tqv, Tvv, TM):
    """Fill arrays (K, nv nv nv) from the packed tensors."""
    m = kernel_model(block)
    n3 = m.dof_body.size**3
    Tqq_, w = split(work, n3)
    Tqv_, w = split(w, n3)
    Tvv_, w = split(w, n3)
    TM_, w = split(w, n3)
    Tqq_[:], Tqv_[:], Tvv_[:], TM_[:] = 0.0, 0.0, 0.0, 0.0
    for c in range(first, last):
        p = 0
        for b in range(m.parent.size - 1, -1, -1):
            for i in range(m.v_index[b], m.v_index[b] + m.dof_count[b]):
                p = place_dof(m, i, chunks[c], p, None, Tqq_, Tqv_, Tvv_, TM_)
        stream(Tqq_, c * LANES, Tqq)
        stream(Tqv_, c * LANES, Tqv)
        stream(Tvv_, c * LANES, Tvv)
        stream(TM_, c * LANES, TM)


drive_contract = knot_driver(
    contract_packed_kernel,
    inputs="w",
    per_chunk="packed",
    scratch={},
    outputs=dict.fromkeys(("Hqq", "Hqv", "Hvv", "Hqa"), nv * nv),
)


@dataclass(frozen=True, eq=False, repr=False)
class PackedSecondDerivatives:
    """Second-derivative tensors of inverse dynamics at K points, every number stored once.

    Made by `inverse_dynamics_second_derivatives(..., packed=True)`; `len` is K.

    Attributes
    ----------
    model : RigidBodyModel
    chunks : (C, entries, LANES), the packed tensors of LANES points side by side; the last chunk may have idle lanes
    knots : K
    single : True if the arguments were one point and not a batch of one; results then have no leading axis
    """

    model: RigidBodyModel
    chunks: np.ndarray
    knots: int
    single: bool

    def __post_init__(self):
        shape = chunk_count(self.knots), packed_size(self.model.arrays), LANES
        if self.chunks.shape != shape:
            raise ValueError(f"chunks: got shape {self.chunks.shape}, expected {shape} for this model")

    def __len__(self) -> int:
        return self.knots

    def __repr__(self) -> str:
        megabytes = self.nbytes / 1e6
        return f"PackedSecondDerivatives({self.model.name!r}, {self.knots} points, {megabytes:.1f} MB)"

    @property
    def entries(self) -> int:
        """Numbers stored per point."""
        return self.chunks.shape[1]

    @property
    def nbytes(self) -> int:
        """Bytes of memory, idle lanes included."""
        return self.chunks.nbytes

    def dense(self) -> InverseDynamicsSecondDerivatives:
        """The four tensors as arrays (nv, nv, nv) or (K, nv, nv, nv)."""
        K, n = self.knots, self.model.nv
        T = aligned_empty(4, K, n**3)
        launch(_drive_unpack, K, 4 * n**3, self.model.block, self.chunks, *T)
        return InverseDynamicsSecondDerivatives(*unbatch(self.single, *T.reshape(4, K, n, n, n)))

    def contract(self, w: ArrayLike) -> InverseDynamicsHessian:
        """Hessian of w' tau, the same as `inverse_dynamics_hessian` at the same points.

        Parameters
        ----------
        w : (nv,) or (K, nv), multiplier of the torques; one for all points or one per point

        Returns
        -------
        InverseDynamicsHessian(Hqq, Hqv, Hvv, Hqa), each (K, nv, nv); (nv, nv) if both the point and w are single.

        Raises
        ------
        ValueError : wrong shape, other than K multipliers, or a non-finite entry; names the argument.
        """
        K, n = self.knots, self.model.nv
        multipliers, one = as_batch("w", w, n)
        if len(multipliers) not in (1, K):
            raise ValueError(f"w: got shape {multipliers.shape}, expected ({n},) or ({K}, {n})")
        multipliers = np.array(np.broadcast_to(multipliers, (K, n)), order="C")
        H = empty_matrices(4, K, n)
        drive_contract(self.model, self.chunks, multipliers, *H)
        return InverseDynamicsHessian(*square_matrices(self.single and one, H))


# --------------------------------------------------------------------------------------------
# Second derivatives of inverse dynamics: the four full tensors, packed or as dense arrays.

__all__ = [
    "InverseDynamicsSecondDerivatives", "PackedSecondDerivatives", "drive_second_order",
    "inverse_dynamics_second_derivatives",
]  # fmt: skip


@helper
def _start(m, q, v, a, loads, body, dof, sums):
    """Run the forward pass, and subtract and sum the loads."""
    forward_pass(m, q, v, a, body, dof, DERIVATIVES)
    if loads is not None:
        add_loads(m, loads, -1.0, body)
        sum_tensor_loads(m, loads, body, sums)


@kernel
def _packed_kernel(m, q, v, a, loads, body, dof, low, sums, chunks):
    """Compute the packed tensors of one chunk, (packed_size(m), LANES)."""
    _start(m, q, v, a, loads, body, dof, sums)
    second_order_packed_kernel(m, body, dof, low, loads, sums, chunks)


@kernel
def _dense_kernel(m, q, v, a, loads, body, dof, low, sums, records, Tqq, Tqv, Tvv, TM):
    """Compute the dense tensors, (nv nv nv) each; entries that are always zero are not written."""
    _start(m, q, v, a, loads, body, dof, sums)
    second_order_dense_kernel(m, body, dof, low, loads, sums, records, Tqq, Tqv, Tvv, TM)


_loaded = Size("loaded", "0 if loads is None else m.parent.size")
_SCRATCH = {"body": nb * BODY, "dof": nv * DOF, "low": LOWEST, "sums": _loaded * TENSOR_SUMS}
drive_second_order = knot_driver(
    _packed_kernel, inputs="q v a", gathered={"loads": LOADS}, scratch=_SCRATCH, outputs={}, per_chunk="chunks"
)
_drive_dense = knot_driver(
    _dense_kernel,
    inputs="q v a",
    gathered={"loads": LOADS},
    scratch={**_SCRATCH, "records": nv * nv * RECORD},
    outputs=dict.fromkeys(("Tqq", "Tqv", "Tvv", "TM"), nv * nv * nv),
    zeroed="Tqq Tqv Tvv TM",
    scatter=stream,
)


@overload
def inverse_dynamics_second_derivatives(
    model, q, v, a, external_wrenches=None, wrench_reference: str = "local", *, packed: Literal[False] = False
) -> InverseDynamicsSecondDerivatives: ...
@overload
def inverse_dynamics_second_derivatives(
    model, q, v, a, external_wrenches=None, wrench_reference: str = "local", *, packed: Literal[True]
) -> PackedSecondDerivatives: ...
def inverse_dynamics_second_derivatives(
    model: RigidBodyModel,
    q: ArrayLike,
    v: ArrayLike,
    a: ArrayLike,
    external_wrenches: Wrenches | None = None,
    wrench_reference: str = "local",
    *,
    packed: bool = False,
) -> InverseDynamicsSecondDerivatives | PackedSecondDerivatives:
    """The four second-derivative tensors of inverse dynamics.                      [Singh 2022 (SO), algorithm 1]

    Parameters
    ----------
    model : RigidBodyModel
    q : (nq,) or (K, nq);  v, a : (nv,) or (K, nv)
    external_wrenches, wrench_reference : as in `inverse_dynamics`; their components are held constant
    packed : if True, every number is kept once, in an object that contracts them or returns the arrays, with a small
        part of the memory and time of the arrays

    Returns
    -------
    InverseDynamicsSecondDerivatives(d2tau_dqdq, d2tau_dqdv, d2tau_dvdv, dM_dq), each (nv, nv, nv) or (K, nv, nv, nv):
    d2tau_dqdq[i, j, k] = d/dq_k (d tau_i/dq_j), whose order matters inside a joint of several degrees of freedom;
    d2tau_dqdv[i, j, k]: j is q, k is v;  dM_dq[i, j, k] = dM_ij/dq_k.  With `packed` a PackedSecondDerivatives.

    Raises
    ------
    ValueError : wrong shape, non-finite entry, or a quaternion that is not of unit length; names the argument.
    """
    packed = as_flag("packed", packed)
    single, (q, v, a) = points(model, q, v=v, a=a)
    K, n = v.shape
    loads = loads_batch(model, external_wrenches, wrench_reference, K)
    if packed and model.mimics:
        raise ValueError("packed: got True, expected False for a model with mimic joints")
    if packed:
        chunks = aligned_empty(chunk_count(K), packed_size(model.arrays), LANES)
        drive_second_order(model, q, v, a, loads, chunks)
        return PackedSecondDerivatives(model, chunks, K, single)
    T = aligned_empty(4, K, n**3)
    _drive_dense(model, q, v, a, loads, *T)
    return InverseDynamicsSecondDerivatives(*unbatch(single, *T.reshape(4, K, n, n, n)))
