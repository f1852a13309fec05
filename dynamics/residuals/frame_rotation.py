"""Orientation of a frame:  r = log3(Rref'R(q)).

The angular part of `frame_placement`: with b the frame's angular columns in its own axes, Ji = Jr(r)^-1, lam = Ji'mu,

    r_x = Ji b,      H of mu'r  =  -b'Ji' Gam(r, lam) Ji b + K,      K[l, u] = lam.(b_u x b_l) / 2,

K over pairs with u's joint strictly above l's.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from dynamics.algorithms.frames import frame_numbers, frame_pose, last_dof
from dynamics.algorithms.kinematics import COLUMN, DOF, PSI, place_bodies
from dynamics.groups import so3
from dynamics.groups.stumpff import stumpff
from dynamics.kernel_model import kernel_model
from dynamics.model import RigidBodyModel
from dynamics.residuals.frame_placement import quaternion_of, reference_axes
from dynamics.residuals.frame_translation import position_numbers, position_workspace
from dynamics.residuals.robot_residual import HESSIAN, JACOBIAN, VALUE, RobotResidual, path_dofs, run, scatter_block
from dynamics.residuals.squares import add_curvature, add_gauss_newton, sum_lanes, weigh
from dynamics.simd import LANES, align_stack, carve, driver, gather, helper, kernel, scatter, store
from dynamics.spatial import add_scaled3, dot3, load3, multiply, rotate, rotate_back, store3
from dynamics.tangent import store_column3
from dynamics.validation import as_placement


@helper
def _rotation_curvature(m, i, lam, P, dof, H):
    """H over the frame's path from the columns b in the slots PSI, lam and P = Ji'Gam Ji."""
    n = m.dof_body.size
    x = last_dof(m, i)
    while x >= 0:
        b = load3(dof, x * DOF + PSI)
        within = rotate(P, b)
        above = add_scaled3(within, -0.5, so3.coadjoint(lam, b))
        y = x
        while y >= 0:
            g = within
            if m.dof_body[y] != m.dof_body[x]:
                g = above
            e = -dot3(g, load3(dof, y * DOF + PSI))
            store(H, x * n + y, e)
            store(H, y * n + x, e)
            y = m.dof_parent[y]
        x = m.dof_parent[x]


@kernel
def _evaluate(m, i, data, x, body, dof, r):
    """r (3); data: the frame (FRAME), then the reference's rotation."""
    align_stack(body)
    place_bodies(m, x, body, dof)
    R, _ = frame_pose(i, data, body)
    store3(r, 0, so3.log(quaternion_of(multiply(so3.transpose(reference_axes(data)), R))))


@kernel
def _differentiate(m, i, data, order, r, mu, body, dof, J, H):
    """After `_evaluate`, by order J (3 nv) of r and H (nv nv) of mu'r."""
    align_stack(body)
    R, _ = frame_pose(i, data, body)
    phi = load3(r, 0)
    c = stumpff(dot3(phi, phi))
    Ji = so3.jacobian_inverse(phi, c)
    J[:] = 0.0
    k = last_dof(m, i)
    while k >= 0:
        b = rotate_back(R, load3(dof, k * DOF + COLUMN))
        store3(dof, k * DOF + PSI, b)
        store_column3(J, k, m.dof_body.size, rotate(Ji, b))
        k = m.dof_parent[k]
    if order & HESSIAN:
        H[:] = 0.0
        lam = rotate_back(Ji, load3(mu, 0))
        _rotation_curvature(m, i, lam, so3.full(so3.congruence(Ji, so3.gamma(phi, lam, c))), dof, H)


@driver
def _drive(first, last, work, block, i, data, order, xs, mu, r, derivative):
    m = kernel_model(block)
    n = m.dof_body.size
    body, dof, x_, r_, mu_, J, H, _ = position_workspace(m.parent.size, n, xs.shape[1], work)
    for c in range(first, last):
        gather(xs, c * LANES, x_)
        if order == HESSIAN:
            gather(mu, c * LANES, mu_)
        _evaluate(m, i, data, x_, body, dof, r_)
        if r.shape[0] > 0:
            scatter(r_, c * LANES, r)
        if order != VALUE:
            _differentiate(m, i, data, order, r_, mu_, body, dof, J, H)
        if order == JACOBIAN:
            scatter_block(J, 3, n, c * LANES, derivative, 0, 0)
        elif order == HESSIAN:
            scatter_block(H, n, n, c * LANES, derivative, 0, 0)


@driver
def _drive_squares(first, last, work, block, i, data, columns, figures, start, stop, order, xs, lx, lxx, Hxx):
    m = kernel_model(block)
    n, total = m.dof_body.size, 0.0
    body, dof, x_, r_, slope, J, H, w = position_workspace(m.parent.size, n, xs.shape[1], work)
    stiffness, w = carve(w, 3)
    row, w = carve(w, figures.shape[1])
    for c in range(first, last):
        t = start + c * LANES
        count = min(LANES, stop - t)
        gather(xs, t, x_)
        _evaluate(m, i, data, x_, body, dof, r_)
        total += sum_lanes(weigh(figures, c * LANES, r_, row, slope, stiffness), row, count)
        if order != VALUE:
            _differentiate(m, i, data, order, r_, slope, body, dof, J, H)
        if order & JACOBIAN:
            add_gauss_newton(columns, J, slope, stiffness, t, count, row, lx, lxx)
        if order & HESSIAN:
            add_curvature(columns, H, t, count, Hxx)
    return total


class FrameRotation(RobotResidual):
    """Orientation of a frame relative to a target, log3(target'R(q)): a rotation vector in the target's axes, rad.

    Smooth while the rotation between the two is less than half a turn, where the logarithm jumps.

    Parameters
    ----------
    model : RigidBodyModel
    frame : one of `model.frame_names`
    target : (3, 3), a rotation

    Raises
    ------
    ValueError : unknown frame (with the nearest matches), or a target that is no rotation.
    """

    nr = 3

    def __init__(self, model: RigidBodyModel, frame: str, target: ArrayLike) -> None:
        body, placement = frame_numbers(model, frame)
        R, _ = as_placement("target", (target, np.zeros(3)))
        super().__init__(model, f"rotation of {frame}")
        self._set(frame=frame, target=R, _body=body, _data=np.concatenate([placement, R.ravel()]))
        self._set(_numbers=position_numbers(model), _columns=path_dofs(model, body))

    def _drive(self, order, xs, mu, r, derivative):
        frame = self.model.block, self._body, self._data
        run(_drive, len(xs), self._numbers, *frame, order, xs, mu, r, derivative)

    def _drive_squares(self, figures, start, stop, order, xs, us, target, curvature):
        frame = self.model.block, self._body, self._data, self._columns
        blocks = target[0], target[2], curvature[2]
        return run(_drive_squares, stop - start, self._numbers, *frame, figures, start, stop, order, xs, *blocks)
