"""Position of a frame:  r = p(q) - target, world axes.

With J the world-aligned linear columns and w_u the angular part of a world column,

    H[l, u] of n'r  =  (n x w_u) . J_l          u above l on the frame's path: u turns all that l moves
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from dynamics.algorithms.frames import FRAME, frame_numbers, frame_pose, last_dof
from dynamics.algorithms.kinematics import BODY, COLUMN, DOF, place_bodies
from dynamics.kernel_model import kernel_model
from dynamics.model import RigidBodyModel
from dynamics.residuals.robot_residual import HESSIAN, JACOBIAN, VALUE, RobotResidual, path_dofs, run, scatter_block
from dynamics.residuals.squares import SQUARES_ROW, add_curvature, add_gauss_newton, sum_lanes, weigh
from dynamics.simd import LANES, align_stack, carve, driver, gather, helper, kernel, scatter, store
from dynamics.spatial import add_cross, cross, dot3, load3, load6, store3
from dynamics.tangent import load_column3, store_column3
from dynamics.validation import as_array


@helper
def position_curvature(m, x, n, J, dof, H):
    """Row and column x of H (nv nv), up the path: (n x w_y) . J_x for y above x; J (3 nv), row-major."""
    nv = m.dof_body.size
    J_x, w_x = load_column3(J, x, nv), load3(dof, x * DOF + COLUMN)
    y = x
    while y >= 0:
        e = dot3(cross(n, load3(dof, y * DOF + COLUMN)), J_x)
        if m.dof_body[y] == m.dof_body[x]:
            e = 0.5 * (e + dot3(cross(n, w_x), load_column3(J, y, nv)))
        store(H, x * nv + y, e)
        store(H, y * nv + x, e)
        y = m.dof_parent[y]


@kernel
def _evaluate(m, i, data, x, body, dof, r):
    """r (3); data: the frame (FRAME), then the target."""
    align_stack(body)
    place_bodies(m, x, body, dof)
    _, p = frame_pose(i, data, body)
    store3(r, 0, (p[0] - data[FRAME], p[1] - data[FRAME + 1], p[2] - data[FRAME + 2]))


@kernel
def _differentiate(m, i, data, order, mu, body, dof, J, H):
    """After `_evaluate`, J (3 nv) of r and, by order, H (nv nv) of mu'r."""
    align_stack(body)
    _, p = frame_pose(i, data, body)
    J[:] = 0.0
    k = last_dof(m, i)
    while k >= 0:
        s = load6(dof, k * DOF + COLUMN)
        store_column3(J, k, m.dof_body.size, add_cross((s[3], s[4], s[5]), (s[0], s[1], s[2]), p))
        k = m.dof_parent[k]
    if order & HESSIAN:
        H[:] = 0.0
        multiplier = load3(mu, 0)
        k = last_dof(m, i)
        while k >= 0:
            position_curvature(m, k, multiplier, J, dof, H)
            k = m.dof_parent[k]


@helper
def position_workspace(nb, n, nx, work):
    """Bodies, dofs, x (nx), r, mu (3), J (3 nv), H (nv nv), and the rest."""
    body, w = carve(work, nb * BODY)
    dof, w = carve(w, n * DOF)
    x, w = carve(w, nx)
    r, w = carve(w, 3)
    mu, w = carve(w, 3)
    J, w = carve(w, 3 * n)
    H, w = carve(w, n * n)
    return body, dof, x, r, mu, J, H, w


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
            _differentiate(m, i, data, order, mu_, body, dof, J, H)
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
            _differentiate(m, i, data, order, slope, body, dof, J, H)
        if order & JACOBIAN:
            add_gauss_newton(columns, J, slope, stiffness, t, count, row, lx, lxx)
        if order & HESSIAN:
            add_curvature(columns, H, t, count, Hxx)
    return total


def position_numbers(model: RigidBodyModel) -> int:
    """Scratch numbers per lane of a position's drivers: `position_workspace`, and what squares need."""
    n = model.nv
    return model.nb * BODY + n * (DOF + 3 + n) + model.nq + n + 9 + SQUARES_ROW * 3


class FrameTranslation(RobotResidual):
    """Position of a frame's origin less a target, world axes, m.

    Parameters
    ----------
    model : RigidBodyModel
    frame : one of `model.frame_names`
    target : (3,), m

    Raises
    ------
    ValueError : unknown frame (with the nearest matches), or a target of wrong shape or with non-finite entries.
    """

    nr = 3

    def __init__(self, model: RigidBodyModel, frame: str, target: ArrayLike) -> None:
        body, placement = frame_numbers(model, frame)
        target = as_array("target", target, (3,)).copy()
        super().__init__(model, f"translation of {frame}")
        self._set(frame=frame, target=target, _body=body, _data=np.concatenate([placement, target]))
        self._set(_numbers=position_numbers(model), _columns=path_dofs(model, body))

    def _drive(self, order, xs, mu, r, derivative):
        frame = self.model.block, self._body, self._data
        run(_drive, len(xs), self._numbers, *frame, order, xs, mu, r, derivative)

    def _drive_squares(self, figures, start, stop, order, xs, us, target, curvature):
        frame = self.model.block, self._body, self._data, self._columns
        blocks = target[0], target[2], curvature[2]
        return run(_drive_squares, stop - start, self._numbers, *frame, figures, start, stop, order, xs, *blocks)
