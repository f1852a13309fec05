"""Pose of a frame:  r = log6(Mref^-1 M(q)), [linear; angular].

With J the local columns, Ji = Jr(r)^-1 and lam = Ji'mu,

    r_x = Ji J,      H of mu'r  =  -J' Ji' Gam(r, lam) Ji J + K,      K[l, u] = lam'[J_u, J_l] / 2,

K over pairs with u's joint strictly above l's; inside one joint the columns are constant in the moving frame.
"""

from __future__ import annotations

from collections.abc import Callable

from numpy.typing import ArrayLike

from dynamics.algorithms.frames import LOCAL, frame_jacobian_kernel, frame_numbers, frame_pose, last_dof
from dynamics.algorithms.kinematics import BODY, DOF, place_bodies
from dynamics.model.knot_driver import nb, nv
from dynamics.model.model import RigidBodyModel
from dynamics.residuals.kernel_residual import KernelResidual, residual_kernels
from dynamics.residuals.robot_residual import PLACEMENT, path_dofs
from dynamics.simd import align_stack, helper, load, select_less, shared_kernel, store
from dynamics.spatial import se3, so3
from dynamics.spatial.so3 import stumpff
from dynamics.spatial.spatial import (
    add_rotated,
    add_scaled6,
    dot3,
    dot6,
    load6,
    load9,
    multiply,
    rotate,
    rotate_back,
    store6,
)
from dynamics.spatial.tangent import load_column6, store_column6


@helper
def _larger(a, b, i):
    """Of two rows of a quaternion's outer product, a and b, the one with the larger diagonal, b's being entry i."""
    d = a[4]
    return (
        select_less(d, b[i], b[0], a[0]), select_less(d, b[i], b[1], a[1]), select_less(d, b[i], b[2], a[2]),
        select_less(d, b[i], b[3], a[3]), select_less(d, b[i], b[i], d),
    )  # fmt: skip


@helper
def quaternion_of(R):
    """Unit quaternion (x y z w) of a rotation matrix: the row of largest diagonal of 4 q q', normalised."""
    wx, wy, wz = R[7] - R[5], R[2] - R[6], R[3] - R[1]
    xy, xz, yz = R[1] + R[3], R[2] + R[6], R[5] + R[7]
    ww = 1.0 + (R[0] + R[4] + R[8])
    a = (wx, wy, wz, ww, ww)
    a = _larger(a, (1.0 + (R[0] - R[4] - R[8]), xy, xz, wx), 0)
    a = _larger(a, (xy, 1.0 + (R[4] - R[0] - R[8]), yz, wy), 1)
    a = _larger(a, (xz, yz, 1.0 + (R[8] - R[0] - R[4]), wz), 2)
    return so3.normalise((a[0], a[1], a[2], a[3]))


@helper
def _relative_log(R, p, target):
    """log6 of (R, p) as seen from the target: rotation, row-major, and origin."""
    B, d = load9(target, 0), (p[0] - load(target, 9), p[1] - load(target, 10), p[2] - load(target, 11))
    return se3.log(rotate_back(B, d), quaternion_of(multiply(so3.transpose(B), R)))


@helper
def _placement_curvature(m, i, lam, P0, P1, J, H):
    """H over the frame's path from the local columns J, lam and Ji'Gam Ji = [[0, P0], [P0, P1]]."""
    n = m.dof_body.size
    x = last_dof(m, i)
    while x >= 0:
        column = load_column6(J, x, n)
        v, w = se3.linear(column), se3.angular(column)
        within = se3.twist(rotate(P0, w), add_rotated(rotate(P0, v), P1, w))
        above = add_scaled6(within, -0.5, se3.coadjoint(lam, column))
        y = x
        while y >= 0:
            g = within
            if m.dof_body[y] != m.dof_body[x]:
                g = above
            e = -dot6(g, load_column6(J, y, n))
            store(H, x * n + y, e)
            store(H, y * n + x, e)
            y = m.dof_parent[y]
        x = m.dof_parent[x]


@shared_kernel
def _value(m, i, data, target, x, body, dof, r):
    """data: the frame in its body."""
    align_stack(body)
    place_bodies(m, x, body, dof)
    R, p = frame_pose(i, data, body)
    store6(r, 0, _relative_log(R, p, target))


@shared_kernel
def _jacobian(m, i, data, r, body, dof, local, J):
    """local (6 nv) receives the frame's Jacobian in its own axes."""
    align_stack(body)
    frame_jacobian_kernel(m, i, data, LOCAL, body, dof, local)
    n, xi = m.dof_body.size, load6(r, 0)
    X, Y = se3.jacobian_inverse(xi, stumpff(dot3(se3.angular(xi), se3.angular(xi))))
    J[:] = 0.0
    k = last_dof(m, i)
    while k >= 0:
        store_column6(J, k, n, se3.apply(X, Y, load_column6(local, k, n)))
        k = m.dof_parent[k]


@shared_kernel
def _hessian(m, i, r, mu, local, H):
    align_stack(H)
    xi = load6(r, 0)
    c = stumpff(dot3(se3.angular(xi), se3.angular(xi)))
    X, Y = se3.jacobian_inverse(xi, c)
    lam = se3.apply_transposed(X, Y, load6(mu, 0))
    G0, G1 = se3.gamma(xi, lam, c)
    P0, P1 = se3.congruence(X, Y, G0, G1)
    H[:] = 0.0
    _placement_curvature(m, i, lam, so3.full(P0), so3.full(P1), local, H)


class FramePlacement(KernelResidual):
    """Pose of a frame relative to a target, log6(target^-1 M(q)): [linear; angular] in the target's axes, m and rad.

    Smooth while the rotation between the two is less than half a turn, where the logarithm jumps.

    Parameters
    ----------
    model : RigidBodyModel
    frame : one of `model.frame_names`
    target : (R, p), rotation (3, 3) and origin (3,) in the world, either or both of them (N+1, ...) with one for each
        knot of a problem, or a function of time, t (s) to (R, p), which a problem evaluates at its knots

    Raises
    ------
    ValueError : unknown frame (with the nearest matches), or a target that is not a pair of a rotation and a point.
    """

    nr = 6
    target_kind = PLACEMENT
    kernels = residual_kernels(
        _value, _jacobian, _hessian, 6, nv, {"body": nb * BODY, "dof": nv * DOF, "local": 6 * nv}, target=12
    )

    def __init__(
        self,
        model: RigidBodyModel,
        frame: str,
        target: tuple[ArrayLike, ArrayLike] | Callable[[float], tuple[ArrayLike, ArrayLike]],
    ) -> None:
        body, placement = frame_numbers(model, frame)
        super().__init__(model, f"placement of {frame}")
        self._set(frame=frame)
        self._finish(path_dofs(model.full, body), targets=self._as_targets(target), i=body, data=placement)
