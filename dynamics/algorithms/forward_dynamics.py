"""Forward and hybrid dynamics of batches."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from dynamics.algorithms.articulated_body import ARTICULATED, ELIMINATION, hybrid_dynamics_kernel
from dynamics.algorithms.batch import points, unbatch
from dynamics.algorithms.inverse_dynamics import inverse_dynamics
from dynamics.algorithms.kinematics import BODY, DOF
from dynamics.algorithms.loads import LOADS, Wrenches, loads_batch
from dynamics.algorithms.mass_matrix import mass_matrix
from dynamics.model.knot_driver import knot_driver, nb, nv
from dynamics.model.model import RigidBodyModel, check_model
from dynamics.simd import kernel
from dynamics.validation import as_array, has_mask


class HybridDynamics(NamedTuple):
    """Accelerations and torques, given and computed; each (nv,) or (K, nv)."""

    a: np.ndarray
    tau: np.ndarray


@kernel
def _forward_dynamics_kernel(m, q, v, tau, loads, body, dof, art, elim, zeros, a):
    hybrid_dynamics_kernel(m, q, v, a, tau, None, zeros, loads, body, dof, art, elim)


_SCRATCH = {
    "body": nb * BODY, "dof": nv * DOF, "art": nb * ARTICULATED, "elim": nv * ELIMINATION, "zeros": nv,
}  # fmt: skip
_drive = knot_driver(
    _forward_dynamics_kernel,
    inputs="q v tau",
    gathered={"loads": LOADS},
    scratch=_SCRATCH,
    outputs={"a": nv},
    zeroed="zeros",
)
_drive_hybrid = knot_driver(
    hybrid_dynamics_kernel,
    inputs="q v a tau",
    gathered={"loads": LOADS},
    scratch=_SCRATCH,
    outputs={"a": nv, "tau": nv},
    zeroed="zeros",
)


def forward_dynamics(
    model: RigidBodyModel,
    q: ArrayLike,
    v: ArrayLike,
    tau: ArrayLike,
    external_wrenches: Wrenches | None = None,
    wrench_reference: str = "local",
) -> np.ndarray:
    """Joint accelerations under the torques tau.

    a = M(q)^-1 (tau - C(q, v) v - g(q) + sum_i J_i' f_i)              [Featherstone 2008, table 7.1; Kim 2012, table 3]

    Parameters
    ----------
    model : RigidBodyModel
    q : (nq,) or (K, nq), configuration
    v, tau : (nv,) or (K, nv), velocity and joint torques
    external_wrenches, wrench_reference : as in `inverse_dynamics`

    Returns
    -------
    a : (nv,) or (K, nv)

    Raises
    ------
    ValueError : wrong shape, non-finite entry, a quaternion that is not of unit length, or an unknown frame or
        reference; names the argument.
    """
    single, (q, v, tau) = points(model, q, v=v, tau=tau)
    if model.mimics:
        rest = tau - inverse_dynamics(model, q, v, np.zeros_like(v), external_wrenches, wrench_reference)
        return unbatch(single, np.linalg.solve(mass_matrix(model, q), rest[..., None])[..., 0])[0]
    loads = loads_batch(model, external_wrenches, wrench_reference, len(q))
    a = np.empty_like(v)
    _drive(model, q, v, tau, loads, a)
    return unbatch(single, a)[0]


def hybrid_dynamics(
    model: RigidBodyModel,
    q: ArrayLike,
    v: ArrayLike,
    a: ArrayLike,
    tau: ArrayLike,
    prescribed: ArrayLike,
    external_wrenches: Wrenches | None = None,
    wrench_reference: str = "local",
) -> HybridDynamics:
    """Accelerations and torques of a robot with given accelerations of some joints and given torques of the others.

    M(q) a + C(q, v) v + g(q) = tau + sum_i J_i' f_i, solved for a where tau is given and for tau where a is, in O(nv)
    (by the mass matrix if there are mimic joints).  With all entries prescribed it is inverse dynamics, with none
    forward dynamics.                                                                             [Kim 2012, table 4]

    Parameters
    ----------
    model : RigidBodyModel
    q : (nq,) or (K, nq), configuration
    v : (nv,) or (K, nv), velocity
    a, tau : (nv,) or (K, nv), accelerations and torques; entries that are not given are ignored and may be NaN
    prescribed : (nv,) bool, True where a is given, False where tau is
    external_wrenches, wrench_reference : as in `inverse_dynamics`

    Returns
    -------
    HybridDynamics(a, tau), each (nv,) or (K, nv): the given entries and the computed ones.

    Raises
    ------
    ValueError : wrong shape, non-finite given entry, a quaternion that is not of unit length, `prescribed` not boolean,
        or an unknown frame or reference; names the argument.
    """
    check_model(model)
    chosen = as_choice("prescribed", prescribed, model.nv)
    a, tau = given_entries("a", a, chosen), given_entries("tau", tau, ~chosen)
    single, (q, v, a, tau) = points(model, q, v=v, a=a, tau=tau)
    if model.mimics:
        known = inverse_dynamics(model, q, v, a, external_wrenches, wrench_reference)
        return HybridDynamics(*unbatch(single, *completed(mass_matrix(model, q), chosen, a, tau, known)))
    loads = loads_batch(model, external_wrenches, wrench_reference, len(q))
    a, tau = a.copy(), tau.copy()
    _drive_hybrid(model, q, v, a, tau, chosen.astype(np.int64), loads)
    return HybridDynamics(*unbatch(single, a, tau))


def completed(
    M: np.ndarray, chosen: np.ndarray, a: np.ndarray, tau: np.ndarray, known: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Solution a, tau (..., nv) of M a + r = tau, with a given where `chosen` (nv,) and zero elsewhere, and tau given
    elsewhere; M (..., nv, nv), and known = M a + r (..., nv) for the given a."""
    free = ~chosen
    found = np.linalg.solve(M[..., free, :][..., free], (tau - known)[..., free, None])
    a, tau = np.broadcast_to(a, known.shape).copy(), np.broadcast_to(tau, known.shape).copy()
    a[..., free] = found[..., 0]
    tau[..., chosen] = (known + (M[..., free] @ found)[..., 0])[..., chosen]
    return a, tau


def as_choice(name: str, value: ArrayLike, n: int) -> np.ndarray:
    """A boolean array (n,); ValueError otherwise."""
    try:
        chosen = np.empty(0) if has_mask(value) else np.asarray(value)
    except ValueError:  # rows of different lengths
        chosen = np.empty(0)
    if chosen.shape != (n,) or chosen.dtype != bool:
        got = f"shape {chosen.shape}, dtype {chosen.dtype}" if chosen.size else type(value).__name__
        raise ValueError(f"{name}: got {got}, expected ({n},) booleans")
    return chosen


def given_entries(name: str, value: ArrayLike, given: np.ndarray) -> np.ndarray:
    """The array with zeros where `given` (nv,) is False; ValueError if its last axis is not nv long."""
    array = as_array(name, value, finite=False)
    if array.shape[-1:] != given.shape:
        raise ValueError(f"{name}: got shape {array.shape}, expected {given.shape} or (K, {len(given)})")
    return np.where(given, array, 0.0)
