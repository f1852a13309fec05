"""RNEACR: derivatives of inverse dynamics by the chain rule through the recursive Newton-Euler algorithm.

The competitor of IDSVA in the papers, with the same lanes and the same use of the tree, so that what is left of the
difference is the algorithm's.                                                                  [Singh 2022, table II]
"""

from typing import NamedTuple

import numpy as np

from experiments.derivatives.algorithm import Algorithm
from experiments.derivatives.rnea_chain_rule_body import drive_body, driver_size
from experiments.derivatives.rnea_chain_rule_ground import drive_ground, ground_size


class ChainRuleDerivatives(NamedTuple):
    """Partial derivatives of tau(q, v, a); each (nv, nv) or (K, nv, nv), row = torque.

    The mass matrix, which IDSVA returns too, is not computed.
    """

    dtau_dq: np.ndarray
    dtau_dv: np.ndarray


rnea_chain_rule = Algorithm(drive_body, driver_size, ChainRuleDerivatives, matrices=2)
"""Spatial vectors in the frame of their body.                                                    [Kim 2012, table 5]"""
rnea_chain_rule_ground = Algorithm(drive_ground, ground_size, ChainRuleDerivatives, matrices=2, one_axis=False)
"""Spatial vectors in ground coordinates, for joints of any kind."""
