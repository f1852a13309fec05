"""Orientation of a frame on a link, anywhere along a rod:  r = log3(target'R(q)).

With w the angular columns in the frame's axes, Ji = Jr(r)^-1, lam = Ji'mu, as for rigid robots,

    r_x = Ji w,      H of mu'r  =  -w'Ji'Gam(r, lam) Ji w + K,

K is the symmetric part of d(w'lam)/dq for a moment lam that rotates with the frame or, equivalently, stays fixed in the
world: the derivative of -ID at rest for the robot without mass, with the load R lam.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import numpy as np
from numpy.typing import ArrayLike

from dynamics.geometry.world_shape import WorldShape, target_cross
from dynamics.residuals.frame_placement import quaternion_of
from dynamics.residuals.kernel_residual import residual_kernels
from dynamics.residuals.robot_residual import ROTATION
from dynamics.rods.kinematics.strains import load_column
from dynamics.rods.model.arrays import FIRST, MASS_MATRIX
from dynamics.rods.model.rod_model import RodModel
from dynamics.rods.recursion.blocks import n, slice_blocks
from dynamics.rods.recursion.evaluation import inverse_dynamics_kernel
from dynamics.rods.robot.link_frame import (
    SCRATCH,
    LinkResidual,
    end_pose,
    load_configuration,
    massless,
    sliced,
    swept,
    target_size,
)
from dynamics.rods.robot.link_translation import LinkTranslation
from dynamics.simd import align_stack, helper, kernel, load, split, store
from dynamics.simd.lane_algebra import add_transpose, store_pair
from dynamics.spatial import so3
from dynamics.spatial.so3 import stumpff
from dynamics.spatial.spatial import angular, dot3, load3, load9, multiply, rotate, rotate_back, store3
from dynamics.spatial.tangent import store_column3


@helper
def _turning(r):
    """Stumpff functions of r, and Jr(r)^-1."""
    c = stumpff(dot3(r, r))
    return c, so3.jacobian_inverse(r, c)


@kernel
def _value(m, target, path, x, state, room, r, J):
    """r (3) and its Jacobian J (3 n) at x = (q, v)."""
    align_stack(state)
    n = m.counts[0]
    load_configuration(m, x, state)
    segments, columns = swept(m, np.int64(MASS_MATRIX), state, room)
    R, _ = end_pose(m, segments)
    store3(r, 0, so3.log(quaternion_of(multiply(so3.transpose(load9(target, 0)), R))))
    _, Ji = _turning(load3(r, 0))
    J[:] = 0.0
    for i in path:
        store_column3(J, i, n, rotate(Ji, rotate_back(R, angular(load_column(columns, n, 0, i)))))


@kernel
def _hessian(m, external, closures, path, state, r, mu, room, scratch, H):
    """H (n n), the Hessian of mu'r, after the value; scratch as in `link_translation`."""
    align_stack(state)
    n, level = m.counts[0], np.int64(FIRST)
    wrench, w = split(scratch, 6)
    forces, A = split(w, n)
    phi = load3(r, 0)
    c, Ji = _turning(phi)
    lam = rotate_back(Ji, load3(mu, 0))
    segments, columns, _ = sliced(m, room)
    R, _ = end_pose(m, segments)
    P = so3.full(so3.congruence(Ji, so3.gamma(phi, lam, c)))
    H[:] = 0.0
    for i in path:
        turned = rotate(R, rotate(P, rotate_back(R, angular(load_column(columns, n, 0, i)))))
        for j in path:
            if j <= i:
                store_pair(H, n, i, j, -dot3(turned, angular(load_column(columns, n, 0, j))))
    wrench[3:] = 0.0
    store3(wrench, 0, rotate(R, lam))
    inverse_dynamics_kernel(m, external, closures, level, state, wrench, room, forces, A, A[:0])
    K = slice_blocks(m, A)[0].dq
    add_transpose(n, -0.5, K)
    for k in range(n * n):
        store(H, k, load(H, k) + load(K, k))


class LinkRotation(LinkResidual):
    """Orientation of a frame on a link relative to a target, log3(target'R(q)): a rotation vector in the target's axes,
    rad; smooth while the rotation between the two is less than half a turn, where the logarithm jumps.

    Parameters
    ----------
    model, link, s, placement : as for `LinkTranslation`
    target : (3, 3), a rotation, or (N+1, 3, 3) with one for each knot of a problem, or a function of time, t (s) to
        (3, 3), which a problem evaluates at its knots

    Raises
    ------
    TypeError, ValueError : as `LinkTranslation`, and for a target that is not a rotation.
    """

    nr = 3
    target: np.ndarray
    target_kind = ROTATION
    kernels = residual_kernels(_value, None, _hessian, 3, n, SCRATCH, model=massless, target=9)

    def __init__(
        self,
        model: RodModel,
        link: str,
        target: ArrayLike | Callable[[float], ArrayLike],
        s: float = 1.0,
        placement: tuple[ArrayLike, ArrayLike] | None = None,
    ) -> None:
        path, chain, fixed = self._attach(model, link, s, placement, "rotation")
        self._finish(path, chain, targets=self._as_targets(target), **fixed)

    def scenery(self, xs: np.ndarray) -> tuple[WorldShape, ...]:
        """Scene objects of the target (the last one if there are several), at the frame's position in the last state;
        see `trajopt.interfaces.residual.SeenResidual`."""
        model = cast(RodModel, self.model)
        place = LinkTranslation(model, self.link, np.zeros(3), self.s, self.placement).evaluate(xs[-1:])[0]
        return (target_cross(self.target.reshape(-1, 3, 3)[-1], place, target_size(model)),)
