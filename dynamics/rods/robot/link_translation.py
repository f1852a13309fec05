"""Position of a frame on a link, anywhere along a rod:  r = p(q) - target, world axes.

The columns of J are those of the frame's twist, moved to its origin.  The generalised forces of a constant force f at
that point are J'f, so that the Hessian of f'r is d(J'f)/dq: the derivative of -ID at rest for the robot without mass
and gravity, with a load f at the frame.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import numpy as np
from numpy.typing import ArrayLike

from dynamics.geometry.world_shape import WorldShape, target_cross
from dynamics.residuals.kernel_residual import residual_kernels
from dynamics.residuals.robot_residual import VECTOR
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
    swept,
    target_size,
)
from dynamics.simd import align_stack, kernel, load, split
from dynamics.simd.lane_algebra import scale_into
from dynamics.spatial.spatial import add_cross, angular, linear, load3, store3
from dynamics.spatial.tangent import store_column3


@kernel
def _value(m, target, path, x, state, room, r, J):
    """r (3) and its Jacobian J (3 n) at x = (q, v)."""
    align_stack(state)
    n = m.counts[0]
    load_configuration(m, x, state)
    segments, columns = swept(m, np.int64(MASS_MATRIX), state, room)
    _, p = end_pose(m, segments)
    store3(r, 0, (p[0] - load(target, 0), p[1] - load(target, 1), p[2] - load(target, 2)))
    J[:] = 0.0
    for i in path:
        S = load_column(columns, n, 0, i)
        store_column3(J, i, n, add_cross(linear(S), angular(S), p))


@kernel
def _hessian(m, external, closures, state, mu, room, scratch, H):
    """H (n n), the Hessian of mu'r; scratch: a wrench (6), generalised forces (n) and the blocks of ID."""
    align_stack(state)
    n, level = m.counts[0], np.int64(FIRST)
    wrench, w = split(scratch, 6)
    forces, A = split(w, n)
    wrench[:3] = 0.0
    store3(wrench, 3, load3(mu, 0))
    inverse_dynamics_kernel(m, external, closures, level, state, wrench, room, forces, A, A[:0])
    scale_into(n * n, H, -1.0, slice_blocks(m, A)[0].dq)


class LinkTranslation(LinkResidual):
    """Position of a frame on a link minus a target, world axes, m.

    Parameters
    ----------
    model : RodModel
    link : one of `model.link_names`
    target : (3,), m, or (N+1, 3) with one for each knot of a problem, or a function of time, t (s) to (3,), which a
        problem evaluates at its knots
    s : position along a rod, X / length between 0 and 1; by default the tip.  For a body 1
    placement : (R, p), the frame in that of the rod's section (its x is the rod's axis) or of the body; by default the
        identity

    Raises
    ------
    TypeError : a model that is not a RodModel.
    ValueError : unknown link (with the nearest matches), s out of range, or a target or placement of wrong shape or
        with non-finite entries.
    """

    nr = 3
    target: np.ndarray
    target_kind = VECTOR
    kernels = residual_kernels(_value, None, _hessian, 3, n, SCRATCH, model=massless, target=3)

    def __init__(
        self,
        model: RodModel,
        link: str,
        target: ArrayLike | Callable[[float], ArrayLike],
        s: float = 1.0,
        placement: tuple[ArrayLike, ArrayLike] | None = None,
    ) -> None:
        path, chain, fixed = self._attach(model, link, s, placement, "translation")
        self._finish(path, chain, targets=self._as_targets(target), **fixed)

    def scenery(self, xs: np.ndarray) -> tuple[WorldShape, ...]:
        """Scene objects of the target, for several targets the last one and the path of all; see
        `trajopt.interfaces.residual.SeenResidual`."""
        path = np.atleast_2d(self.target)
        shapes = (target_cross(np.eye(3), path[-1], target_size(cast(RodModel, self.model))),)
        if len(path) == 1:
            return shapes
        return (*shapes, WorldShape(np.stack([path[:-1], path[1:]], axis=1), target=True))
