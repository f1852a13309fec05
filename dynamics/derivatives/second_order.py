"""Second derivatives of inverse dynamics: the four full tensors, packed or as dense arrays."""

from __future__ import annotations

from typing import Literal, overload

from numpy.typing import ArrayLike

from dynamics.algorithms.batch import points, unbatch
from dynamics.algorithms.kinematics import BODY, DERIVATIVES, DOF, forward_pass
from dynamics.algorithms.loads import LOADS, Wrenches, add_loads, loads_batch
from dynamics.derivatives.dead_load_tensors import TENSOR_SUMS, sum_tensor_loads
from dynamics.derivatives.packed import RECORD, packed_size
from dynamics.derivatives.packed_tensors import InverseDynamicsSecondDerivatives, PackedSecondDerivatives
from dynamics.derivatives.second_order_kernels import LOWEST, second_order_dense_kernel, second_order_packed_kernel
from dynamics.knot_driver import knot_driver, nb, nv
from dynamics.mimic import of_tree
from dynamics.model import RigidBodyModel
from dynamics.simd import LANES, aligned_empty, chunk_count, helper, kernel
from dynamics.simd.sizes import Size
from dynamics.simd.streaming import stream
from dynamics.validation import as_flag

__all__ = [
    "InverseDynamicsSecondDerivatives", "PackedSecondDerivatives", "drive_second_order",
    "inverse_dynamics_second_derivatives",
]  # fmt: skip


@helper
def _start(m, q, v, a, loads, body, dof, sums):
    """The forward pass, and the loads and their sums."""
    forward_pass(m, q, v, a, body, dof, DERIVATIVES)
    if loads is not None:
        add_loads(m, loads, -1.0, body)
        sum_tensor_loads(m, loads, body, sums)


@kernel
def _packed_kernel(m, q, v, a, loads, body, dof, low, sums, chunks):
    """The packed tensors of one chunk, (packed_size(m), LANES)."""
    _start(m, q, v, a, loads, body, dof, sums)
    second_order_packed_kernel(m, body, dof, low, loads, sums, chunks)


@kernel
def _dense_kernel(m, q, v, a, loads, body, dof, low, sums, records, Tqq, Tqv, Tvv, TM):
    """The dense tensors, (nv nv nv) each; entries that are zero are not written."""
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
@of_tree("v a", "fff fff fff fff")
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
    if packed:
        chunks = aligned_empty(chunk_count(K), packed_size(model.arrays), LANES)
        drive_second_order(model, q, v, a, loads, chunks)
        return PackedSecondDerivatives(model, chunks, K, single)
    T = aligned_empty(4, K, n**3)
    _drive_dense(model, q, v, a, loads, *T)
    return InverseDynamicsSecondDerivatives(*unbatch(single, *T.reshape(4, K, n, n, n)))
