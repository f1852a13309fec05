"""Orientation of a frame:  r = log3(Rref'R(q)).

The angular part of `frame_placement`: with b the frame's angular columns in its own axes, Ji = Jr(r)^-1, lam = Ji'mu,

    r_x = Ji b,      H of mu'r  =  -b'Ji' Gam(r, lam) Ji b + K,      K[l, u] = lam.(b_u x b_l) / 2,

K over pairs with u's joint strictly above l's.
"""

from __future__ import annotations

from collections.abc import Callable

from numpy.typing import ArrayLike

from dynamics.algorithms.frames import frame_numbers, frame_pose, last_dof
from dynamics.algorithms.kinematics import BODY, COLUMN, DOF, PSI, place_bodies
from dynamics.model.knot_driver import nb, nv
from dynamics.model.model import RigidBodyModel
from dynamics.residuals.frame_placement import quaternion_of
from dynamics.residuals.kernel_residual import KernelResidual, residual_kernels
from dynamics.residuals.robot_residual import ROTATION, path_dofs
from dynamics.simd import align_stack, helper, kernel, store
from dynamics.spatial import so3
from dynamics.spatial.so3 import stumpff
from dynamics.spatial.spatial import add_scaled3, dot3, load3, load9, multiply, rotate, rotate_back, store3
from dynamics.spatial.tangent import store_column3


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
def _value(m, i, data, target, x, body, dof, r):
    """data: the frame in its body."""
    align_stack(body)
    place_bodies(m, x, body, dof)
    R, _ = frame_pose(i, data, body)
    store3(r, 0, so3.log(quaternion_of(multiply(so3.transpose(load9(target, 0)), R))))


@kernel
def _jacobian(m, i, data, r, body, dof, J):
    align_stack(body)
    R, _ = frame_pose(i, data, body)
    phi = load3(r, 0)
    Ji = so3.jacobian_inverse(phi, stumpff(dot3(phi, phi)))
    J[:] = 0.0
    k = last_dof(m, i)
    while k >= 0:
        b = rotate_back(R, load3(dof, k * DOF + COLUMN))
        store3(dof, k * DOF + PSI, b)
        store_column3(J, k, m.dof_body.size, rotate(Ji, b))
        k = m.dof_parent[k]


@kernel
def _hessian(m, i, r, mu, dof, H):
    align_stack(H)
    phi = load3(r, 0)
    c = stumpff(dot3(phi, phi))
    Ji = so3.jacobian_inverse(phi, c)
    lam = rotate_back(Ji, load3(mu, 0))
    H[:] = 0.0
    _rotation_curvature(m, i, lam, so3.full(so3.congruence(Ji, so3.gamma(phi, lam, c))), dof, H)


class FrameRotation(KernelResidual):
    """Orientation of a frame relative to a target, log3(target'R(q)): a rotation vector in the target's axes, rad.

    Smooth while the rotation between the two is less than half a turn, where the logarithm jumps.

    Parameters
    ----------
    model : RigidBodyModel
    frame : one of `model.frame_names`
    target : (3, 3), a rotation, or (N+1, 3, 3) with one for each knot of a problem, or a function of time, t (s) to
        (3, 3), which a problem evaluates at its knots

    Raises
    ------
    ValueError : unknown frame (with the nearest matches), or a target that is no rotation.
    """

    nr = 3
    target_kind = ROTATION
    kernels = residual_kernels(_value, _jacobian, _hessian, 3, nv, {"body": nb * BODY, "dof": nv * DOF}, target=9)

    def __init__(self, model: RigidBodyModel, frame: str, target: ArrayLike | Callable[[float], ArrayLike]) -> None:
        body, placement = frame_numbers(model, frame)
        super().__init__(model, f"rotation of {frame}")
        self._set(frame=frame)
        self._finish(path_dofs(model.full, body), targets=self._as_targets(target), i=body, data=placement)
