"""Pose of a frame:  r = log6(Mref^-1 M(q)), [linear; angular].

With J the local columns, Ji = Jr(r)^-1 and lam = Ji'mu,

    r_x = Ji J,      H of mu'r  =  -J' Ji' Gam(r, lam) Ji J + K,      K[l, u] = lam'[J_u, J_l] / 2,

K over pairs with u's joint strictly above l's; inside one joint the columns are constant in the moving frame.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from dynamics.algorithms.frames import FRAME, LOCAL, frame_jacobian_kernel, frame_numbers, frame_pose, last_dof
from dynamics.algorithms.kinematics import BODY, DOF, place_bodies
from dynamics.groups import se3, so3
from dynamics.groups.stumpff import stumpff
from dynamics.kernel_model import kernel_model
from dynamics.model import RigidBodyModel
from dynamics.residuals.robot_residual import HESSIAN, JACOBIAN, VALUE, RobotResidual, path_dofs, run, scatter_block
from dynamics.residuals.squares import SQUARES_ROW, add_curvature, add_gauss_newton, sum_lanes, weigh
from dynamics.simd import LANES, align_stack, carve, driver, gather, helper, scatter, select_less, shared_kernel, store
from dynamics.spatial import add_rotated, add_scaled6, dot3, dot6, load6, multiply, rotate, rotate_back, store6
from dynamics.tangent import load_column6, store_column6
from dynamics.validation import as_placement


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
def reference_axes(data):
    """Rotation of the reference, row-major, in data[FRAME:]."""
    f = FRAME
    return (
        data[f], data[f + 1], data[f + 2], data[f + 3], data[f + 4], data[f + 5], data[f + 6], data[f + 7], data[f + 8],
    )  # fmt: skip


@helper
def _relative_log(R, p, data):
    """log6 of (R, p) as seen from the reference in data[FRAME:]: rotation, row-major, and origin."""
    f = FRAME
    d = (p[0] - data[f + 9], p[1] - data[f + 10], p[2] - data[f + 11])
    B = reference_axes(data)
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
def _evaluate(m, i, data, x, body, dof, r):
    """r (6); data: the frame (FRAME), then the reference."""
    align_stack(body)
    place_bodies(m, x, body, dof)
    R, p = frame_pose(i, data, body)
    store6(r, 0, _relative_log(R, p, data))


@shared_kernel
def _differentiate(m, i, data, order, r, mu, body, dof, local, J, H):
    """After `_evaluate`, by order J (6 nv) of r and H (nv nv) of mu'r; local (6 nv): room for the frame's Jacobian."""
    align_stack(body)
    frame_jacobian_kernel(m, i, data, LOCAL, body, dof, local)
    n, xi = m.dof_body.size, load6(r, 0)
    c = stumpff(dot3(se3.angular(xi), se3.angular(xi)))
    X, Y = se3.jacobian_inverse(xi, c)
    if order & JACOBIAN:
        J[:] = 0.0
        k = last_dof(m, i)
        while k >= 0:
            store_column6(J, k, n, se3.apply(X, Y, load_column6(local, k, n)))
            k = m.dof_parent[k]
    if order & HESSIAN:
        H[:] = 0.0
        lam = se3.apply_transposed(X, Y, load6(mu, 0))
        G0, G1 = se3.gamma(xi, lam, c)
        P0, P1 = se3.congruence(X, Y, G0, G1)
        _placement_curvature(m, i, lam, so3.full(P0), so3.full(P1), local, H)


@helper
def _workspace(nb, n, nx, work):
    """Bodies, dofs, x (nx), r, mu (6), local, J (6 nv), H (nv nv), and the rest."""
    body, w = carve(work, nb * BODY)
    dof, w = carve(w, n * DOF)
    x, w = carve(w, nx)
    r, w = carve(w, 6)
    mu, w = carve(w, 6)
    local, w = carve(w, 6 * n)
    J, w = carve(w, 6 * n)
    H, w = carve(w, n * n)
    return body, dof, x, r, mu, local, J, H, w


@driver
def _drive(first, last, work, block, i, data, order, xs, mu, r, derivative):
    m = kernel_model(block)
    n = m.dof_body.size
    body, dof, x_, r_, mu_, local, J, H, _ = _workspace(m.parent.size, n, xs.shape[1], work)
    for c in range(first, last):
        gather(xs, c * LANES, x_)
        if order == HESSIAN:
            gather(mu, c * LANES, mu_)
        _evaluate(m, i, data, x_, body, dof, r_)
        if r.shape[0] > 0:
            scatter(r_, c * LANES, r)
        if order != VALUE:
            _differentiate(m, i, data, order, r_, mu_, body, dof, local, J, H)
        if order == JACOBIAN:
            scatter_block(J, 6, n, c * LANES, derivative, 0, 0)
        elif order == HESSIAN:
            scatter_block(H, n, n, c * LANES, derivative, 0, 0)


@driver
def _drive_squares(first, last, work, block, i, data, columns, figures, start, stop, order, xs, lx, lxx, Hxx):
    m = kernel_model(block)
    n, total = m.dof_body.size, 0.0
    body, dof, x_, r_, slope, local, J, H, w = _workspace(m.parent.size, n, xs.shape[1], work)
    stiffness, w = carve(w, 6)
    row, w = carve(w, figures.shape[1])
    for c in range(first, last):
        t = start + c * LANES
        count = min(LANES, stop - t)
        gather(xs, t, x_)
        _evaluate(m, i, data, x_, body, dof, r_)
        total += sum_lanes(weigh(figures, c * LANES, r_, row, slope, stiffness), row, count)
        if order != VALUE:
            _differentiate(m, i, data, order, r_, slope, body, dof, local, J, H)
        if order & JACOBIAN:
            add_gauss_newton(columns, J, slope, stiffness, t, count, row, lx, lxx)
        if order & HESSIAN:
            add_curvature(columns, H, t, count, Hxx)
    return total


class FramePlacement(RobotResidual):
    """Pose of a frame relative to a target, log6(target^-1 M(q)): [linear; angular] in the target's axes, m and rad.

    Smooth while the rotation between the two is less than half a turn, where the logarithm jumps.

    Parameters
    ----------
    model : RigidBodyModel
    frame : one of `model.frame_names`
    target : (R, p), rotation (3, 3) and origin (3,) in the world

    Raises
    ------
    ValueError : unknown frame (with the nearest matches), or a target that is not a pair of a rotation and a point.
    """

    nr = 6

    def __init__(self, model: RigidBodyModel, frame: str, target: tuple[ArrayLike, ArrayLike]) -> None:
        body, placement = frame_numbers(model, frame)
        if target is None:
            raise ValueError("target: got None, expected a pair (R, p) of shapes (3, 3) and (3,)")
        R, p = as_placement("target", target)
        super().__init__(model, f"placement of {frame}")
        R.flags.writeable = p.flags.writeable = False
        data, n = np.concatenate([placement, R.ravel(), p]), model.nv
        numbers = model.nb * BODY + n * (DOF + 12 + n) + self.nx + 18 + SQUARES_ROW * self.nr
        self._set(frame=frame, target=(R, p), _body=body, _data=data, _numbers=numbers, _columns=path_dofs(model, body))

    def _drive(self, order, xs, mu, r, derivative):
        frame = self.model.block, self._body, self._data
        run(_drive, len(xs), self._numbers, *frame, order, xs, mu, r, derivative)

    def _drive_squares(self, figures, start, stop, order, xs, us, target, curvature):
        frame = self.model.block, self._body, self._data, self._columns
        blocks = target[0], target[2], curvature[2]
        return run(_drive_squares, stop - start, self._numbers, *frame, figures, start, stop, order, xs, *blocks)
