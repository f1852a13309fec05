"""The second-order tensors of inverse dynamics as arrays, and packed: objects for callers in Python."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from dynamics.algorithms.batch import empty_matrices, launch, square_matrices, unbatch
from dynamics.derivatives.hessian import InverseDynamicsHessian
from dynamics.derivatives.packed import contract_packed_kernel, packed_size, place_dof
from dynamics.kernel_model import kernel_model
from dynamics.knot_driver import knot_driver, nv
from dynamics.model import RigidBodyModel
from dynamics.simd import LANES, aligned_empty, carve, chunk_count, driver
from dynamics.simd.streaming import stream
from dynamics.validation import as_batch


class InverseDynamicsSecondDerivatives(NamedTuple):
    """Tensors [i, j, k], each (nv, nv, nv) or (K, nv, nv, nv); i is the torque."""

    d2tau_dqdq: np.ndarray
    d2tau_dqdv: np.ndarray
    d2tau_dvdv: np.ndarray
    dM_dq: np.ndarray


@driver
def _drive_unpack(first, last, work, block, chunks, Tqq, Tqv, Tvv, TM):
    """Arrays (K, nv nv nv) from the packed tensors."""
    m = kernel_model(block)
    n3 = m.dof_body.size**3
    Tqq_, w = carve(work, n3)
    Tqv_, w = carve(w, n3)
    Tvv_, w = carve(w, n3)
    TM_, w = carve(w, n3)
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
