"""Centre of mass:  r = c(q) - target, world axes.

As for a frame's position, an upper degree of freedom u turns all that a lower one l moves: with J the Jacobian of c,

    H[l, u] of n'r  =  (n x w_u) . J_l          for every l, and every u above it
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from dynamics.algorithms.center_of_mass import center_of_mass_kernel, require_mass
from dynamics.algorithms.kinematics import BODY, DOF, place_bodies
from dynamics.model.knot_driver import nb, nv
from dynamics.model.model import RigidBodyModel
from dynamics.residuals.frame_translation import position_curvature
from dynamics.residuals.kernel_residual import KernelResidual, residual_kernels
from dynamics.residuals.robot_residual import VALUE, VECTOR
from dynamics.simd import align_stack, kernel, load, store
from dynamics.spatial.spatial import load3


@kernel
def _value(m, target, order, x, body, dof, r, J):
    """By order also J."""
    align_stack(body)
    place_bodies(m, x, body, dof)
    center_of_mass_kernel(m, order != VALUE, body, dof, r, J)
    for k in range(3):
        store(r, k, load(r, k) - load(target, k))


@kernel
def _hessian(m, mu, dof, J, H):
    align_stack(H)
    H[:] = 0.0
    multiplier = load3(mu, 0)
    for k in range(m.dof_body.size):
        position_curvature(m, k, multiplier, J, dof, H)


class CenterOfMass(KernelResidual):
    """Centre of mass of all moving bodies less a target, world axes, m.

    Parameters
    ----------
    model : RigidBodyModel
    target : (3,), m, or (N+1, 3) with one for each knot of a problem, or a function of time, t (s) to (3,), which a
        problem evaluates at its knots

    Raises
    ------
    ValueError : a target of wrong shape or with non-finite entries, or a model without mass.
    """

    nr, reads_dynamics = 3, True
    target_kind = VECTOR
    kernels = residual_kernels(_value, None, _hessian, 3, nv, {"body": nb * BODY, "dof": nv * DOF}, target=3)

    def __init__(self, model: RigidBodyModel, target: ArrayLike | Callable[[float], ArrayLike]) -> None:
        require_mass(model)
        super().__init__(model, "centre of mass")
        self._finish(np.arange(model.full.nv), targets=self._as_targets(target))
