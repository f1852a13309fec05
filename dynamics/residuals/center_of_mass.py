"""Centre of mass:  r = c(q) - target, world axes.

As for a frame's position, an upper degree of freedom u turns all that a lower one l moves: with J the Jacobian of c,

    H[l, u] of n'r  =  (n x w_u) . J_l          for every l, and every u above it
"""

from numpy.typing import ArrayLike

from dynamics.algorithms.center_of_mass import center_of_mass_kernel, require_mass
from dynamics.algorithms.kinematics import BODY, DOF, place_bodies
from dynamics.kernel_model import kernel_model
from dynamics.residuals.frame_translation import position_curvature
from dynamics.residuals.robot_residual import HESSIAN, JACOBIAN, VALUE, RobotResidual, run, scatter_block
from dynamics.simd import LANES, align_stack, carve, driver, gather, kernel, load, scatter, splat, store
from dynamics.spatial import load3
from dynamics.validation import as_array


@kernel
def _center_of_mass_residual(m, target, order, x, n, body, dof, r, J, H):
    """r (3); by order also J (3 nv) and H (nv nv)."""
    align_stack(body)
    place_bodies(m, x, body, dof)
    center_of_mass_kernel(m, order != VALUE, body, dof, r, J)
    for k in range(3):
        store(r, k, load(r, k) - splat(r, target[k]))
    if order == HESSIAN:
        H[:] = 0.0
        multiplier = load3(n, 0)
        for k in range(m.dof_body.size):
            position_curvature(m, k, multiplier, J, dof, H)


@driver
def _drive(first, last, work, block, target, order, xs, mu, r, derivative):
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
        _center_of_mass_residual(m, target, order, x_, mu_, body, dof, r_, J_, H_)
        if r.shape[0] > 0:
            scatter(r_, c * LANES, r)
        if order == JACOBIAN:
            scatter_block(J_, 3, n, c * LANES, derivative, 0, 0)
        elif order == HESSIAN:
            scatter_block(H_, n, n, c * LANES, derivative, 0, 0)


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

    def __init__(self, model, target: ArrayLike):
        require_mass(model)
        target = as_array("target", target, (3,)).copy()
        super().__init__(model, "centre of mass")
        self._set(target=target, _data=target.copy())

    def _drive(self, order, xs, mu, r, derivative):
        model, n = self.model, self.model.nv
        numbers = model.nb * BODY + n * (DOF + 3 + n) + self.nx + 6
        run(_drive, len(xs), numbers, model.block, self._data, order, xs, mu, r, derivative)
