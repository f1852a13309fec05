"""Position of a frame:  r = p(q) - target, world axes.

With J the world-aligned linear columns and w_u the angular part of a world column,

    H[l, u] of n'r  =  (n x w_u) . J_l          u above l on the frame's path: u turns all that l moves
"""

import numpy as np
from numpy.typing import ArrayLike

from dynamics.algorithms.frames import FRAME, frame_numbers, frame_pose, last_dof
from dynamics.algorithms.kinematics import BODY, COLUMN, DOF, place_bodies
from dynamics.kernel_model import kernel_model
from dynamics.residuals.robot_residual import HESSIAN, JACOBIAN, VALUE, RobotResidual, run, scatter_block
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
def frame_translation_kernel(m, i, data, order, x, n, body, dof, r, J, H):
    """r (3); by order also J (3 nv) and H (nv nv).  data: the frame (FRAME), then the target."""
    align_stack(body)
    place_bodies(m, x, body, dof)
    _, p = frame_pose(i, data, body)
    store3(r, 0, (p[0] - data[FRAME], p[1] - data[FRAME + 1], p[2] - data[FRAME + 2]))
    if order == VALUE:
        return
    J[:] = 0.0
    k = last_dof(m, i)
    while k >= 0:
        s = load6(dof, k * DOF + COLUMN)
        store_column3(J, k, m.dof_body.size, add_cross((s[3], s[4], s[5]), (s[0], s[1], s[2]), p))
        k = m.dof_parent[k]
    if order == HESSIAN:
        H[:] = 0.0
        multiplier = load3(n, 0)
        k = last_dof(m, i)
        while k >= 0:
            position_curvature(m, k, multiplier, J, dof, H)
            k = m.dof_parent[k]


@driver
def _drive(first, last, work, block, i, data, order, xs, mu, r, derivative):
    m = kernel_model(block)
    nb, n, nx = m.parent.size, m.dof_body.size, xs.shape[1]
    for c in range(first, last):
        body, w = carve(work, nb * BODY)
        dof, w = carve(w, n * DOF)
        x_, w = carve(w, nx)
        mu_, w = carve(w, 3)
        r_, w = carve(w, 3)
        J_, w = carve(w, 3 * n)
        H_, w = carve(w, n * n)
        gather(xs, c * LANES, x_)
        if order == HESSIAN:
            gather(mu, c * LANES, mu_)
        frame_translation_kernel(m, i, data, order, x_, mu_, body, dof, r_, J_, H_)
        if r.shape[0] > 0:
            scatter(r_, c * LANES, r)
        if order == JACOBIAN:
            scatter_block(J_, 3, n, c * LANES, derivative, 0, 0)
        elif order == HESSIAN:
            scatter_block(H_, n, n, c * LANES, derivative, 0, 0)


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

    def __init__(self, model, frame: str, target: ArrayLike):
        body, placement = frame_numbers(model, frame)
        target = as_array("target", target, (3,)).copy()
        super().__init__(model, f"translation of {frame}")
        self._set(frame=frame, target=target, _body=body, _data=np.concatenate([placement, target]))

    def _drive(self, order, xs, mu, r, derivative):
        model, n = self.model, self.model.nv
        numbers = model.nb * BODY + n * (DOF + 3 + n) + self.nx + 6
        run(_drive, len(xs), numbers, model.block, self._body, self._data, order, xs, mu, r, derivative)
