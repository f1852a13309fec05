"""RNEACR: derivatives of inverse dynamics by the chain rule through the recursive Newton-Euler algorithm.

The competitor of IDSVA in the papers, with the same lanes and the same use of the tree, so that what is left of the
difference is the algorithm's.                                                                  [Singh 2022, table II]
"""

from typing import NamedTuple

import numpy as np

from dynamics.algorithms.batch import empty_matrices, launch, points, square_matrices
from experiments.derivatives.competitors_common import paths, require_one_axis
from experiments.derivatives.rnea_chain_rule_body import body_numbers, drive_body
from experiments.derivatives.rnea_chain_rule_ground import drive_ground, ground_numbers


class ChainRuleDerivatives(NamedTuple):
    """Partial derivatives of tau(q, v, a); each (nv, nv) or (K, nv, nv), row = torque."""

    dtau_dq: np.ndarray
    dtau_dv: np.ndarray


def rnea_chain_rule(model, q, v, a, frame: str = "body") -> ChainRuleDerivatives:
    """Derivatives of inverse dynamics with respect to configuration and velocity.

    Parameters
    ----------
    model : RigidBodyModel; revolute and prismatic joints only in body coordinates
    q : (nq,) or (K, nq);  v, a : (nv,) or (K, nv)
    frame : "body", spatial vectors in the frame of their body  [Kim 2012, table 5], or "ground"

    Returns
    -------
    ChainRuleDerivatives(dtau_dq, dtau_dv); the mass matrix, which IDSVA returns too, is not computed.

    Raises
    ------
    ValueError : another frame, a joint that the frame does not allow, or what `dynamics.inverse_dynamics` refuses.
    """
    if frame not in ("body", "ground"):
        raise ValueError(f"frame: got {frame!r}, expected 'body' or 'ground'")
    single, (q, v, a) = points(model, q, v=v, a=a)
    t, (K, n) = paths(model), v.shape
    out = empty_matrices(2, K, n)
    if frame == "body":
        require_one_axis(model)
        launch(drive_body, K, body_numbers(t) + n * (3 + 2 * n), model.block, t, q, v, a, *out)
    else:
        launch(drive_ground, K, ground_numbers(model, t), model.block, t, q, v, a, *out)
    return ChainRuleDerivatives(*square_matrices(single, out))
