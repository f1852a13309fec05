"""Position of a frame:  r = p(q) - target, world axes.

With J the world-aligned linear columns and w_u the angular part of a world column,

    H[l, u] of n'r  =  (n x w_u) . J_l          u above l on the frame's path: u turns all that l moves
"""

from __future__ import annotations

from collections.abc import Callable

from numpy.typing import ArrayLike

from dynamics.algorithms.frames import frame_numbers, frame_pose, last_dof
from dynamics.algorithms.kinematics import BODY, COLUMN, DOF, place_bodies
from dynamics.model.knot_driver import nb, nv
from dynamics.model.model import RigidBodyModel
from dynamics.residuals.kernel_residual import KernelResidual, residual_kernels
from dynamics.residuals.robot_residual import VECTOR, path_dofs
from dynamics.simd import align_stack, helper, kernel, load, store
from dynamics.spatial.spatial import add_cross, cross, dot3, load3, load6, store3
from dynamics.spatial.tangent import load_column3, store_column3


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
def _value(m, i, data, target, x, body, dof, r):
    """data: the frame in its body."""
    align_stack(body)
    place_bodies(m, x, body, dof)
    _, p = frame_pose(i, data, body)
    store3(r, 0, (p[0] - load(target, 0), p[1] - load(target, 1), p[2] - load(target, 2)))


@kernel
def _jacobian(m, i, data, body, dof, J):
    align_stack(body)
    _, p = frame_pose(i, data, body)
    J[:] = 0.0
    k = last_dof(m, i)
    while k >= 0:
        s = load6(dof, k * DOF + COLUMN)
        store_column3(J, k, m.dof_body.size, add_cross((s[3], s[4], s[5]), (s[0], s[1], s[2]), p))
        k = m.dof_parent[k]


@kernel
def _hessian(m, i, mu, dof, J, H):
    align_stack(H)
    H[:] = 0.0
    k = last_dof(m, i)
    while k >= 0:
        position_curvature(m, k, load3(mu, 0), J, dof, H)
        k = m.dof_parent[k]


class FrameTranslation(KernelResidual):
    """Position of a frame's origin less a target, world axes, m.

    Parameters
    ----------
    model : RigidBodyModel
    frame : one of `model.frame_names`
    target : (3,), m, or (N+1, 3) with one for each knot of a problem, or a function of time, t (s) to (3,), which a
        problem evaluates at its knots

    Raises
    ------
    ValueError : unknown frame (with the nearest matches), or a target of wrong shape or with non-finite entries.

    Examples
    --------
    >>> robot = dynamics.load_urdf(problems.model_path("arm6"))
    >>> tool = dynamics.FrameTranslation(robot, "tool", target=[0.4, 0.5, 0.3])
    >>> tool.evaluate(np.zeros((1, 12)), None).round(3)  # at one state, all joints at zero
    array([[-1.584, -0.756, -0.288]])
    """

    nr = 3
    target_kind = VECTOR
    kernels = residual_kernels(_value, _jacobian, _hessian, 3, nv, {"body": nb * BODY, "dof": nv * DOF}, target=3)

    def __init__(self, model: RigidBodyModel, frame: str, target: ArrayLike | Callable[[float], ArrayLike]) -> None:
        body, placement = frame_numbers(model, frame)
        super().__init__(model, f"translation of {frame}")
        self._set(frame=frame)
        self._finish(path_dofs(model.full, body), targets=self._as_targets(target), i=body, data=placement)
