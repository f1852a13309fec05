"""Velocity of a frame on a link, anywhere along a rod, [linear; angular], in world-aligned or in the frame's own axes.

With S and R the families of `forward_pass`, columns of the frame's twist eta = S v, R = d eta/dq seen in the moving
body, all in components c() of the reference, v_c and omega those of the velocity,

    d/dv = c(S)      d/dq = c(R) + [local_world_aligned] [S_w x v_c; S_w x omega]

For a multiplier mu, mu'r = v'tau with the generalised forces tau = J'mu of a wrench mu at the frame, in the axes of the
reference.  For the robot without mass, at rest under this load, tau = -ID, hence

    Hvq = -dID/dq      Hqq = -d2(v'ID)/dq2      Hvv = 0
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from dynamics.algorithms.frames import LOCAL_WORLD_ALIGNED, components, reference_code
from dynamics.residuals.kernel_residual import residual_kernels
from dynamics.residuals.robot_residual import VECTOR
from dynamics.rods.kinematics.strains import load_column
from dynamics.rods.model.arrays import END, FIRST, FOLLOWER, SECOND, SEGMENT, TWIST, WRENCH
from dynamics.rods.model.rod_model import RodModel
from dynamics.rods.recursion.blocks import n, slice_blocks
from dynamics.rods.recursion.evaluation import inverse_dynamics_kernel
from dynamics.rods.robot.link_frame import SCRATCH, LinkResidual, end_pose, load_configuration, massless, swept
from dynamics.simd import align_stack, kernel, load, split, store
from dynamics.simd.lane_algebra import store_pair
from dynamics.spatial.spatial import add_cross, angular, load3, load6, store3
from dynamics.spatial.tangent import store_column6


@kernel
def _value(m, reference, target, path, x, state, room, r, J):
    """r (6) and its Jacobian J (6 2n) at x = (q, v)."""
    align_stack(state)
    n = m.counts[0]
    load_configuration(m, x, state)
    for i in range(n):
        store(state, n + i, load(x, x.shape[0] - n + i))
    segments, columns = swept(m, np.int64(FIRST), state, room)
    R, p = end_pose(m, segments)
    c = components(reference, R, p, load6(segments, (m.parent.size - 1) * SEGMENT + END + TWIST))
    v_c, omega = (c[0], c[1], c[2]), (c[3], c[4], c[5])
    for k in range(6):
        store(r, k, c[k] - load(target, k))
    J[:] = 0.0
    for k in range(path.size // 2):
        i = path[k]
        S = load_column(columns, n, 0, i)
        c = components(reference, R, p, load_column(columns, n, 6, i))
        if reference == LOCAL_WORLD_ALIGNED:
            a = add_cross((c[0], c[1], c[2]), angular(S), v_c)
            b = add_cross((c[3], c[4], c[5]), angular(S), omega)
            c = (a[0], a[1], a[2], b[0], b[1], b[2])
        store_column6(J, i, 2 * n, c)
        store_column6(J, n + i, 2 * n, components(reference, R, p, S))


@kernel
def _hessian(m, external, closures, state, mu, room, scratch, H):
    """H (2n 2n), the Hessian of mu'r, after the value; scratch as in `link_translation`."""
    align_stack(state)
    n, level = m.counts[0], np.int64(SECOND)
    wrench, w = split(scratch, 6)
    forces, A = split(w, n)
    store3(wrench, 0, load3(mu, 3))
    store3(wrench, 3, load3(mu, 0))
    for i in range(n):
        store(state, 3 * n + i, load(state, n + i))
        store(state, n + i, load(state, 2 * n + i))
    inverse_dynamics_kernel(m, external, closures, level, state, wrench, room, forces, A, A[:0])
    b, _ = slice_blocks(m, A)
    H[:] = 0.0
    for i in range(n):
        for j in range(n):
            store(H, i * 2 * n + j, -load(b.Hqq, i * n + j))
            store_pair(H, 2 * n, n + i, j, -load(b.dq, i * n + j))


class LinkVelocity(LinkResidual):
    """Velocity of a frame on a link minus a target, [linear; angular], m/s and rad/s.

    Parameters
    ----------
    model, link, s, placement : as for `LinkTranslation`
    target : (6,), by default zero, in the same reference; or (N+1, 6) with one for each knot of a problem, or a
        function of time, t (s) to (6,), which a problem evaluates at its knots
    reference : "local_world_aligned" (velocity of the frame's origin and angular velocity, world axes) or "local" (the
        same in the frame's own axes)

    Raises
    ------
    TypeError, ValueError : as `LinkTranslation`, and for an unknown reference.
    """

    nr = 6
    target_kind = VECTOR
    kernels = residual_kernels(_value, None, _hessian, 6, 2 * n, SCRATCH, model=massless, target=6)

    def __init__(
        self,
        model: RodModel,
        link: str,
        target: ArrayLike | Callable[[float], ArrayLike] | None = None,
        s: float = 1.0,
        placement: tuple[ArrayLike, ArrayLike] | None = None,
        reference: str = "local_world_aligned",
    ) -> None:
        code = reference_code(reference, ("local_world_aligned", "local"))
        kind = WRENCH if code == LOCAL_WORLD_ALIGNED else FOLLOWER
        path, chain, fixed = self._attach(model, link, s, placement, "velocity", kind)
        self._set(reference=reference)
        both, target = np.concatenate([path, model.nq + path]), np.zeros(6) if target is None else target
        self._finish(both, chain, targets=self._as_targets(target), reference=code, **fixed)
