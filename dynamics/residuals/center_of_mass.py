"""Centre of mass:  r = c(q) - target, world axes.

As for a frame's position, an upper degree of freedom u turns all that a lower one l moves: with J the Jacobian of c,

    H[l, u] of n'r  =  (n x w_u) . J_l          for every l, and every u above it
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from dynamics.algorithms.center_of_mass import center_of_mass_kernel, require_mass
from dynamics.algorithms.kinematics import place_bodies
from dynamics.kernel_model import kernel_model
from dynamics.model import RigidBodyModel
from dynamics.residuals.frame_translation import position_curvature, position_numbers, position_workspace
from dynamics.residuals.robot_residual import HESSIAN, JACOBIAN, VALUE, RobotResidual, run, scatter_block
from dynamics.residuals.squares import add_curvature, add_gauss_newton, sum_lanes, weigh
from dynamics.simd import LANES, align_stack, carve, driver, gather, kernel, load, scatter, splat, store
from dynamics.spatial import load3
from dynamics.validation import as_array


@kernel
def _evaluate(m, target, order, x, body, dof, r, J):
    """r (3); by order also J (3 nv)."""
    align_stack(body)
    place_bodies(m, x, body, dof)
    center_of_mass_kernel(m, order != VALUE, body, dof, r, J)
    for k in range(3):
        store(r, k, load(r, k) - splat(r, target[k]))


@kernel
def _curve(m, mu, dof, J, H):
    """H (nv nv) of mu'r, after `_evaluate` with J."""
    align_stack(H)
    H[:] = 0.0
    multiplier = load3(mu, 0)
    for k in range(m.dof_body.size):
        position_curvature(m, k, multiplier, J, dof, H)


@driver
def _drive(first, last, work, block, target, order, xs, mu, r, derivative):
    m = kernel_model(block)
    n = m.dof_body.size
    body, dof, x_, r_, mu_, J, H, _ = position_workspace(m.parent.size, n, xs.shape[1], work)
    for c in range(first, last):
        gather(xs, c * LANES, x_)
        _evaluate(m, target, order, x_, body, dof, r_, J)
        if r.shape[0] > 0:
            scatter(r_, c * LANES, r)
        if order == JACOBIAN:
            scatter_block(J, 3, n, c * LANES, derivative, 0, 0)
        elif order == HESSIAN:
            gather(mu, c * LANES, mu_)
            _curve(m, mu_, dof, J, H)
            scatter_block(H, n, n, c * LANES, derivative, 0, 0)


@driver
def _drive_squares(first, last, work, block, target, columns, figures, start, stop, order, xs, lx, lxx, Hxx):
    m = kernel_model(block)
    n, total = m.dof_body.size, 0.0
    body, dof, x_, r_, slope, J, H, w = position_workspace(m.parent.size, n, xs.shape[1], work)
    stiffness, w = carve(w, 3)
    row, w = carve(w, figures.shape[1])
    for c in range(first, last):
        t = start + c * LANES
        count = min(LANES, stop - t)
        gather(xs, t, x_)
        _evaluate(m, target, order, x_, body, dof, r_, J)
        total += sum_lanes(weigh(figures, c * LANES, r_, row, slope, stiffness), row, count)
        if order & JACOBIAN:
            add_gauss_newton(columns, J, slope, stiffness, t, count, row, lx, lxx)
        if order & HESSIAN:
            _curve(m, slope, dof, J, H)
            add_curvature(columns, H, t, count, Hxx)
    return total


class CenterOfMass(RobotResidual):
    """Centre of mass of all moving bodies less a target, world axes, m.

    Parameters
    ----------
    model : RigidBodyModel
    target : (3,), m

    Raises
    ------
    ValueError : a target of wrong shape or with non-finite entries, or a model without mass.
    """

    nr = 3

    def __init__(self, model: RigidBodyModel, target: ArrayLike) -> None:
        require_mass(model)
        target = as_array("target", target, (3,)).copy()
        super().__init__(model, "centre of mass")
        self._set(target=target, _data=target.copy(), _numbers=position_numbers(model), _columns=np.arange(model.nv))

    def _drive(self, order, xs, mu, r, derivative):
        run(_drive, len(xs), self._numbers, self.model.block, self._data, order, xs, mu, r, derivative)

    def _drive_squares(self, figures, start, stop, order, xs, us, target, curvature):
        body = self.model.block, self._data, self._columns
        blocks = target[0], target[2], curvature[2]
        return run(_drive_squares, stop - start, self._numbers, *body, figures, start, stop, order, xs, *blocks)
