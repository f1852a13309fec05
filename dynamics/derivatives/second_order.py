"""Second derivatives of inverse dynamics: the four full tensors, packed or as dense arrays."""

from __future__ import annotations

from typing import Literal, overload

from numpy.typing import ArrayLike

from dynamics.algorithms.batch import points, unbatch
from dynamics.algorithms.kinematics import (
    BODY,
    DERIVATIVES,
    DOF,
    forward_pass,
)
from dynamics.algorithms.loads import Loads, Wrenches, add_loads, gather_loads, loads_batch, loads_numbers
from dynamics.derivatives.dead_load_tensors import (
    TENSOR_SUMS,
    sum_tensor_loads,
)
from dynamics.derivatives.packed import (
    RECORD,
    packed_size,
)
from dynamics.derivatives.packed_tensors import InverseDynamicsSecondDerivatives, PackedSecondDerivatives
from dynamics.derivatives.second_order_kernels import LOWEST, second_order_dense_kernel, second_order_packed_kernel
from dynamics.kernel_model import kernel_model
from dynamics.model import RigidBodyModel
from dynamics.simd import (
    LANES,
    aligned_empty,
    carve,
    chunk_count,
    driver,
    gather_state,
    helper,
    launch,
)
from dynamics.simd.streaming import stream
from dynamics.validation import as_flag

__all__ = [
    "InverseDynamicsSecondDerivatives", "PackedSecondDerivatives", "drive_second_order",
    "inverse_dynamics_second_derivatives", "second_order_numbers",
]  # fmt: skip


def second_order_numbers(model: RigidBodyModel, loads: Loads | None = None) -> int:
    """Scratch numbers per lane of `drive_second_order`."""
    numbers = model.nb * BODY + model.nv * (DOF + 2) + model.nq + LOWEST
    return numbers + (0 if loads is None else loads_numbers(loads) + model.nb * TENSOR_SUMS)


@helper
def _start(c, work, m, q, v, a, loads):
    """The forward pass of chunk c: body and dof as it leaves them, scratch for a dof, the loads and their sums, and the
    rest of the workspace."""
    nb, n = m.parent.size, m.dof_body.size
    body, w = carve(work, nb * BODY)
    dof, w = carve(w, n * DOF)
    low, w = carve(w, LOWEST)
    q_, v_, a_, w = gather_state(q, v, a, c * LANES, w)
    forward_pass(m, q_, v_, a_, body, dof, DERIVATIVES)
    loads_, w = gather_loads(loads, c * LANES, w)
    sums, w = carve(w, 0 if loads is None else nb * TENSOR_SUMS)
    if loads is not None:
        add_loads(m, loads_, -1.0, body)
        sum_tensor_loads(m, loads_, body, sums)
    return body, dof, low, loads_, sums, w


@driver
def drive_second_order(first, last, work, block, q, v, a, loads, chunks):
    """The packed tensors of all knots, into chunks (C, packed_size(m), LANES)."""
    m = kernel_model(block)
    for c in range(first, last):
        body, dof, low, loads_, sums, _ = _start(c, work, m, q, v, a, loads)
        second_order_packed_kernel(m, body, dof, low, loads_, sums, chunks[c])


@driver
def _drive_dense(first, last, work, block, q, v, a, loads, Tqq, Tqv, Tvv, TM):
    """The dense tensors of all knots, each (K, nv nv nv)."""
    m = kernel_model(block)
    n = m.dof_body.size
    for c in range(first, last):
        body, dof, low, loads_, sums, w = _start(c, work, m, q, v, a, loads)
        records, w = carve(w, RECORD * n * n)
        Tqq_, w = carve(w, n**3)
        Tqv_, w = carve(w, n**3)
        Tvv_, w = carve(w, n**3)
        TM_, w = carve(w, n**3)
        if c == first:  # no chunk writes the entries that are zero
            Tqq_[:], Tqv_[:], Tvv_[:], TM_[:] = 0.0, 0.0, 0.0, 0.0
        second_order_dense_kernel(m, body, dof, low, loads_, sums, records, Tqq_, Tqv_, Tvv_, TM_)
        stream(Tqq_, c * LANES, Tqq)
        stream(Tqv_, c * LANES, Tqv)
        stream(Tvv_, c * LANES, Tvv)
        stream(TM_, c * LANES, TM)


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
    packed : if True, every number is kept once, in an object that contracts them or gives the arrays: a small part of
        the memory and time that the arrays take

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
    numbers = second_order_numbers(model, loads)
    if packed:
        chunks = aligned_empty(chunk_count(K), packed_size(model.arrays), LANES)
        launch(drive_second_order, K, numbers, model.block, q, v, a, loads, chunks)
        return PackedSecondDerivatives(model, chunks, K, single)
    T = aligned_empty(4, K, n**3)
    launch(_drive_dense, K, numbers + RECORD * n * n + 4 * n**3, model.block, q, v, a, loads, *T)
    return InverseDynamicsSecondDerivatives(*unbatch(single, *T.reshape(4, K, n, n, n)))
