"""Configurations as points of a manifold: move along a tangent, compare, draw at random.

    integrate:   q (+) d = q exp(d), joint by joint          difference:  log(q0^-1 q1), its inverse

Velocities and tangents are body-fixed (right tangents); a free flyer's is [linear; angular].
"""

import numba
import numpy as np
from numba import prange
from numpy.typing import ArrayLike

from dynamics.joints import FREE_FLYER, PRISMATIC, SPHERICAL, TRANSLATION
from dynamics.model import RigidBodyModel
from dynamics.simd import LANES, PARALLEL, chunk_count, driver, gather, lane_workspace, scatter
from dynamics.tangent import difference_configuration, integrate_configuration
from dynamics.validation import as_batch, check_configuration

_THIN = 64  # chunks below which one thread is quicker than waking the others


@driver
def _integrate_batch(m, q, dq, out, workspace):
    nq, nv = q.shape[1], dq.shape[1]
    for chunk in prange((out.shape[0] + LANES - 1) // LANES):
        ws = workspace[numba.get_thread_id()]
        first = chunk * LANES
        gather(q, first, ws[:nq])
        gather(dq, first, ws[nq : nq + nv])
        integrate_configuration(m, ws[:nq], ws[nq : nq + nv], ws[:nq])
        scatter(ws[:nq], first, out)


@driver
def _difference_batch(m, q0, q1, out, workspace):
    nq, nv = q0.shape[1], out.shape[1]
    for chunk in prange((out.shape[0] + LANES - 1) // LANES):
        ws = workspace[numba.get_thread_id()]
        first = chunk * LANES
        gather(q0, first, ws[:nq])
        gather(q1, first, ws[nq : 2 * nq])
        difference_configuration(m, ws[:nq], ws[nq : 2 * nq], ws[2 * nq : 2 * nq + nv])
        scatter(ws[2 * nq : 2 * nq + nv], first, out)
