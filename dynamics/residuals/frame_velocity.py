"""Velocity of a frame less a target, [linear; angular], in world-aligned or in the frame's own axes.

With s = (w, .) and psi = v_parent x s the world columns of a degree of freedom, and all else in components of the
reference, linear part first, the first derivatives are columns

    world-aligned   d/dv = J = [L(s); w]           d/dq = D = [L(psi) + w x v_c; psi_w + w x omega]
    local           d/dv = J = Ad(M)^-1 s          d/dq = D = Ad(M)^-1 psi

(L: linear part at the frame's origin, v_c and omega the frame's velocities).  The Hessian contracted with a multiplier
(n, m) is, for u above l on the frame's path and three vectors of u,

    H[q_l, q_u] = a_u.J_l + b_u.D_l          H[q_u, v_l] = b_u.J_l          H[q_l, v_u] = c_u.J_l          Hvv = 0

    world-aligned   a = [n x psi_w; 0]             b = [n x w; m x w]             c = [n x w; 0]
    local           a_u.x = (n, m).[D_u, x]        b = 0                          c_u.x = (n, m).[J_u, x]

Inside one joint q counts as the upper one, and c does not apply.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from dynamics.algorithms.frames import (
    LOCAL,
    LOCAL_WORLD_ALIGNED,
    WORLD,
    components,
    frame_numbers,
    frame_pose,
    last_dof,
    parent_velocity,
    path_velocity,
    reference_code,
)
from dynamics.algorithms.kinematics import BODY, COLUMN, DOF, PSI, place_bodies, place_near_origin
from dynamics.model.knot_driver import nb, nv
from dynamics.model.model import RigidBodyModel
from dynamics.residuals.kernel_residual import KernelResidual, residual_kernels
from dynamics.residuals.robot_residual import VECTOR, path_dofs
from dynamics.simd import align_stack, helper, kernel, load, splat, store
from dynamics.simd.lane_algebra import store_pair
from dynamics.spatial import se3
from dynamics.spatial.spatial import (
    add_cross,
    add_dot6,
    angular,
    cross,
    cross_motion,
    dot6,
    join,
    load3,
    load6,
    scale6,
    store6,
)
from dynamics.spatial.tangent import load_column6, store_column6

UPPER = 18
"""Numbers per degree of freedom: a, b, c."""


@helper
def store_psi(m, i, v, dof):
    """psi of every degree of freedom on the path of body i."""
    V = path_velocity(m, i, v, dof)
    while i >= 0:
        parent = parent_velocity(m, i, V, v, dof)
        for k in range(m.v_index[i], m.v_index[i] + m.dof_count[i]):
            store6(dof, k * DOF + PSI, cross_motion(parent, load6(dof, k * DOF + COLUMN)))
        V = parent
        i = m.parent[i]


@helper
def velocity_first_order(m, i, reference, R, p, velocity, dof, J):
    """J (6 2nv), columns d/dq and d/dv of the velocity; velocity holds its [linear; angular] components."""
    n = m.dof_body.size
    v_c, omega = (velocity[0], velocity[1], velocity[2]), (velocity[3], velocity[4], velocity[5])
    J[:] = 0.0
    k = last_dof(m, i)
    while k >= 0:
        s = load6(dof, k * DOF + COLUMN)
        c = components(reference, R, p, load6(dof, k * DOF + PSI))
        if reference == LOCAL_WORLD_ALIGNED:
            w = angular(s)
            c = join(add_cross((c[0], c[1], c[2]), w, v_c), add_cross((c[3], c[4], c[5]), w, omega))
        store_column6(J, k, 2 * n, c)
        store_column6(J, n + k, 2 * n, components(reference, R, p, s))
        k = m.dof_parent[k]


@helper
def upper_vectors(m, i, reference, mu, dof, J, upper):
    """a, b, c of every degree of freedom on the path; upper (nv UPPER)."""
    n, k, zero = m.dof_body.size, last_dof(m, i), splat(upper, 0.0)
    none = (zero, zero, zero)
    while k >= 0:
        if reference == LOCAL:
            a = scale6(se3.coadjoint(mu, load_column6(J, k, 2 * n)), -1.0)
            b = join(none, none)
            c = scale6(se3.coadjoint(mu, load_column6(J, n + k, 2 * n)), -1.0)
        else:
            f, w = se3.linear(mu), load3(dof, k * DOF + COLUMN)
            turned = cross(f, w)
            a = join(cross(f, load3(dof, k * DOF + PSI)), none)
            b = join(turned, cross(se3.angular(mu), w))
            c = join(turned, none)
        store6(upper, k * UPPER, a)
        store6(upper, k * UPPER + 6, b)
        store6(upper, k * UPPER + 12, c)
        k = m.dof_parent[k]


@helper
def velocity_curvature(m, i, upper, J, H):
    """H (2nv 2nv) over the frame's path; zero elsewhere on entry."""
    n, l = m.dof_body.size, last_dof(m, i)
    size = 2 * n
    while l >= 0:
        J_l, D_l = load_column6(J, n + l, size), load_column6(J, l, size)
        u = l
        while u >= 0:
            a, b = load6(upper, u * UPPER), load6(upper, u * UPPER + 6)
            e = add_dot6(dot6(a, J_l), b, D_l)
            store_pair(H, size, u, n + l, dot6(b, J_l))
            if m.dof_body[u] == m.dof_body[l]:
                J_u, a, b = load_column6(J, n + u, size), load6(upper, l * UPPER), load6(upper, l * UPPER + 6)
                e = 0.5 * (e + add_dot6(dot6(a, J_u), b, load_column6(J, u, size)))
                store_pair(H, size, l, n + u, dot6(b, J_u))
            else:
                store_pair(H, size, l, n + u, dot6(load6(upper, u * UPPER + 12), J_l))
            store_pair(H, size, l, u, e)
            u = m.dof_parent[u]
        l = m.dof_parent[l]


@kernel
def _value(m, i, data, target, reference, x, body, dof, r):
    """data: the frame in its body."""
    align_stack(body)
    if reference == WORLD:
        place_bodies(m, x, body, dof)
    else:  # the same about any point
        place_near_origin(m, x, body, dof)
    R, p = frame_pose(i, data, body)
    v = x[x.shape[0] - m.dof_body.size :]
    for k, c in enumerate(components(reference, R, p, path_velocity(m, i, v, dof))):
        store(r, k, c - load(target, k))


@kernel
def _jacobian(m, i, data, target, reference, x, r, body, dof, J):
    align_stack(body)
    R, p = frame_pose(i, data, body)
    v, d, w = x[x.shape[0] - m.dof_body.size :], load6(r, 0), load6(target, 0)
    velocity = (d[0] + w[0], d[1] + w[1], d[2] + w[2], d[3] + w[3], d[4] + w[4], d[5] + w[5])
    store_psi(m, i, v, dof)
    velocity_first_order(m, i, reference, R, p, velocity, dof, J)


@kernel
def _hessian(m, i, reference, mu, dof, upper, J, H):
    align_stack(H)
    H[:] = 0.0
    upper_vectors(m, i, reference, load6(mu, 0), dof, J, upper)
    velocity_curvature(m, i, upper, J, H)


class FrameVelocity(KernelResidual):
    """Velocity of a frame less a target, [linear; angular], m/s and rad/s.

    Parameters
    ----------
    model : RigidBodyModel
    frame : one of `model.frame_names`
    target : (6,), optional, zero unless given; in the same reference.  Or (N+1, 6) with one for each knot of a problem,
        or a function of time, t (s) to (6,), which a problem evaluates at its knots
    reference : "local_world_aligned" (velocity of the frame's origin and angular velocity, world axes) or "local" (the
        same in the frame's own axes)

    Raises
    ------
    ValueError : unknown frame (with the nearest matches) or reference, or a target of wrong shape or with non-finite
        entries.
    """

    nr = 6
    target_kind = VECTOR
    kernels = residual_kernels(
        _value,
        _jacobian,
        _hessian,
        6,
        2 * nv,
        {"body": nb * BODY, "dof": nv * DOF, "upper": nv * UPPER},
        target=6,
    )

    def __init__(
        self,
        model: RigidBodyModel,
        frame: str,
        target: ArrayLike | Callable[[float], ArrayLike] | None = None,
        reference: str = "local_world_aligned",
    ) -> None:
        body, placement = frame_numbers(model, frame)
        code = reference_code(reference, ("local_world_aligned", "local"))
        super().__init__(model, f"velocity of {frame}")
        self._set(frame=frame, reference=reference)
        path, target = path_dofs(model.full, body), np.zeros(6) if target is None else target
        path, targets = np.concatenate([path, model.full.nv + path]), self._as_targets(target)
        self._finish(path, targets=targets, i=body, data=placement, reference=code)
