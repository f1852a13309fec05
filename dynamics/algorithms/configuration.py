"""Configurations as points of a manifold: integration along a tangent, differences, random samples.

    integrate    q (+) d = q exp(d), joint by joint
    difference   log(q0^-1 q1), its inverse

Tangents are body-fixed (right) and ordered as velocities; a free flyer's is [linear; angular].
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from dynamics.algorithms.batch import kinematic_points, unbatch
from dynamics.model.joints import FREE_FLYER, PLANAR, PRISMATIC, TRANSLATION
from dynamics.model.knot_driver import knot_driver, nv
from dynamics.model.model import RigidBodyModel, check_configuration, check_model
from dynamics.simd.sizes import Size
from dynamics.spatial.tangent import difference_configuration, integrate_configuration
from dynamics.validation import as_kind

_nq = Size("nq", "q.shape[1]")
_integrate_all = knot_driver(integrate_configuration, inputs="q dq", scratch={}, outputs={"q_out": _nq})
_difference_all = knot_driver(difference_configuration, inputs="q0 q1", scratch={}, outputs={"dq": nv})


def neutral(model: RigidBodyModel) -> np.ndarray:
    """Configuration (nq,) at which every joint frame lies on its placement: zeros, quaternions (0, 0, 0, 1)."""
    check_model(model)
    return np.concatenate([joint.neutral() for joint in model.joints]) if model.joints else np.zeros(0)


def integrate(model: RigidBodyModel, q: ArrayLike, dq: ArrayLike) -> np.ndarray:
    """Move from q along the tangent dq:  q (+) dq.

    Parameters
    ----------
    model : RigidBodyModel
    q : (nq,) or (K, nq), configuration
    dq : (nv,) or (K, nv), tangent at q: a velocity times a time

    Returns
    -------
    (nq,) or (K, nq); quaternions of unit length.  One point among a batch is repeated.

    Raises
    ------
    ValueError : wrong shape, non-finite entry, or a quaternion that is not of unit length; names the argument.
    """
    single, (q, dq) = kinematic_points(model, q, dq=dq)
    out = np.empty_like(q)
    _integrate_all(model.joint_space, q, dq, out)
    return unbatch(single, out)[0]


def difference(model: RigidBodyModel, q0: ArrayLike, q1: ArrayLike) -> np.ndarray:
    """The tangent at q0 towards q1:  integrate(model, q0, difference(model, q0, q1)) = q1.

    Rotation vectors are at most pi long.  Angles of revolute, continuous and planar joints are real numbers and *not*
    wrapped, so `difference` inverts `integrate`; a planar joint is singular where the angles differ by whole turns.

    Parameters: q0, q1 (nq,) or (K, nq).  Returns: (nv,) or (K, nv).  Raises: ValueError as `integrate`.
    """
    check_model(model)
    q0, one = check_configuration(model, q0, "q0")
    q1, other = check_configuration(model, q1, "q1")
    K = max(len(q0), len(q1)) if len(q0) and len(q1) else 0
    if not {len(q0), len(q1)} <= {1, K}:
        raise ValueError(f"q0: got {len(q0)} points, expected {len(q1)} as of q1, or a single point")
    q0, q1 = (np.ascontiguousarray(np.broadcast_to(q, (K, model.nq))) for q in (q0, q1))
    out = np.empty((K, model.nv))
    _difference_all(model.joint_space, q0, q1, out)
    return unbatch(one and other, out)[0]


def random_configuration(model: RigidBodyModel, rng: np.random.Generator) -> np.ndarray:
    """A configuration (nq,): coordinates uniform within their limits, rotations uniform over all rotations.

    Without limits, displacements are drawn from [-1, 1] (m) and angles from [-pi, pi]; with one limit, from an interval
    of the same length that starts there.
    """
    check_model(model)
    as_kind("rng", rng, np.random.Generator, "a numpy.random.Generator")
    half = np.full(model.nq, np.pi)
    for joint, start in zip(model.joints, model.q_index, strict=True):
        if joint.code in (PRISMATIC, TRANSLATION):
            half[start : start + joint.nq] = 1.0
        elif joint.code == FREE_FLYER:
            half[start : start + 3] = 1.0
        elif joint.code == PLANAR:
            half[start : start + 2] = 1.0
    low, high = model.lower_position, model.upper_position
    start_at = np.where(np.isfinite(low), low, np.where(np.isfinite(high), high - 2.0 * half, -half))
    q = rng.uniform(start_at, np.where(np.isfinite(high), high, start_at + 2.0 * half))
    for _, at in model.quaternion_slots:
        quaternion = rng.standard_normal(4)
        q[at : at + 4] = quaternion / np.linalg.norm(quaternion)
    return q
