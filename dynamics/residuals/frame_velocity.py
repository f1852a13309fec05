"""Velocity of a frame less a target, [linear; angular], in world-aligned or in the frame's own axes.

With s = (w, s0) a world column, psi = (psi_w, psi_0) = v_parent x s, L(s) = s0 + w x p its linear part at the frame's
origin, J = L(s), v_c and omega the frame's velocities, u above l on the frame's path:

    world-aligned, multiplier (n, m)
      d v_c/dq = L(psi) + w x v_c =: V      d omega/dq = psi_w + w x omega =: W      d v_c/dv = J      d omega/dv = w
      H[q_l, q_u] = (n x psi_w,u).J_l + (n x w_u).V_l + (m x w_u).W_l
      H[q_u, v_l] = (n x w_u).J_l + (m x w_u).w_l          H[q_l, v_u] = (n x w_u).J_l

    local, F the world force that does the multiplier's work on the frame's spatial velocity
      d/dq = Ad(M)^-1 psi          d/dv = Ad(M)^-1 s
      H[q_l, q_u] = F.(psi_u x s_l)          H[q_u, v_l] = 0          H[q_l, v_u] = F.(s_u x s_l)

H[q_l, v_u] for different joints; the velocity block is zero.  Inside one joint q counts as the upper one.
"""

import numpy as np
from numba import get_thread_id, prange
from numpy.typing import ArrayLike

from dynamics.algorithms.batch import launch, scratch
from dynamics.algorithms.frames import (
    FRAME,
    LOCAL,
    LOCAL_WORLD_ALIGNED,
    components,
    frame_numbers,
    frame_pose,
    last_dof,
    parent_velocity,
    path_velocity,
    reference_code,
)
from dynamics.algorithms.kinematics import BODY, COLUMN, DOF, PSI, place_bodies
from dynamics.residuals.robot_residual import (
    HESSIAN,
    JACOBIAN,
    VALUE,
    RobotResidual,
    scatter_block,
    scatter_transposed,
)
from dynamics.simd import LANES, align_stack, carve, driver, gather, helper, kernel, load, scatter, splat, store
from dynamics.spatial import (
    add3,
    add_cross,
    add_dot3,
    angular,
    cross,
    cross_force,
    cross_motion,
    dot3,
    dot6,
    join,
    load3,
    load6,
    rotate,
    store6,
)
from dynamics.tangent import load_column3, store_column6
from dynamics.validation import as_array


@helper
def _store_psi(m, i, v, dof):
    """psi of every degree of freedom on the path of body i."""
    V = path_velocity(m, i, v, dof)
    while i >= 0:
        parent = parent_velocity(m, i, V, v, dof)
        for k in range(m.v_index[i], m.v_index[i] + m.dof_count[i]):
            store6(dof, k * DOF + PSI, cross_motion(parent, load6(dof, k * DOF + COLUMN)))
        V = parent
        i = m.parent[i]


@helper
def _first_order(m, i, reference, R, p, velocity, dof, Jq, Jv):
    """Columns d/dq and d/dv of the velocity; velocity holds its [linear; angular] components."""
    n = m.dof_body.size
    v_c, omega = (velocity[0], velocity[1], velocity[2]), (velocity[3], velocity[4], velocity[5])
    Jq[:] = 0.0
    Jv[:] = 0.0
    k = last_dof(m, i)
    while k >= 0:
        s = load6(dof, k * DOF + COLUMN)
        c = components(reference, R, p, load6(dof, k * DOF + PSI))
        if reference == LOCAL_WORLD_ALIGNED:
            w = angular(s)
            c = join(add_cross((c[0], c[1], c[2]), w, v_c), add_cross((c[3], c[4], c[5]), w, omega))
        store_column6(Jq, k, n, c)
        store_column6(Jv, k, n, components(reference, R, p, s))
        k = m.dof_parent[k]
