"""Torques that joint accelerations need, with exact derivatives: limits and costs of them where accelerations are the
controls.

    r = ID(q, v, a) + f(q, v)      f of joint friction and springs (`joint_friction`)
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from dynamics.algorithms.inverse_dynamics import inverse_dynamics
from dynamics.derivatives.hessian import inverse_dynamics_hessian
from dynamics.derivatives.inverse_dynamics import inverse_dynamics_derivatives
from dynamics.joint_friction import joint_forces
from dynamics.joint_springs import felt_springs
from dynamics.subject import Subject
from dynamics.systems.joint_accelerations import JointAccelerationSystem
from dynamics.systems.plant_model import SLOW, plant_model
from dynamics.validation import as_flag, as_floats, as_kind


class JointTorques:
    """Torques r (nv,) of the joints of a robot whose controls are their accelerations, N m or N.

    Parameters
    ----------
    system : JointAccelerationSystem
    joint_friction : whether the model's damping and Coulomb friction count
    scale : number or (nv,), positive: rows are torques times this, such as one over their limits

    Attributes
    ----------
    lower, upper : (nv,) the model's effort limits, scaled, infinite where it has none, as
        ``trajopt.ResidualConstraint(torques)`` takes them
    component_names : those of the degrees of freedom

    Raises
    ------
    TypeError, ValueError : another system, a scale that is not positive, joints that follow others.
    """

    name, reads_dynamics = "joint torques", True

    def __init__(
        self, system: JointAccelerationSystem, joint_friction: bool = True, scale: ArrayLike = 1.0
    ) -> None:
        as_kind("system", system, JointAccelerationSystem, "a dynamics.JointAccelerationSystem")
        model = system.model
        if model.tree is not None:
            raise ValueError(f"system: {model.name!r} has joints that follow others, expected joints that move alone")
        self.nr, self.made_for = model.nv, Subject(model)
        factors = as_floats("scale", scale)
        if factors.shape not in ((), (self.nr,)) or not (np.isfinite(factors).all() and (factors > 0.0).all()):
            raise ValueError(f"scale: got {np.asarray(scale).tolist()}, expected a positive number, or {self.nr}")
        self.scale = np.full(self.nr, 1.0) * factors
        self.component_names = tuple(model.dof_names)
        self.upper = model.effort_limit * self.scale
        self.lower = -self.upper
        rubs = as_flag("joint_friction", joint_friction) and bool(model.friction.any())
        self._model = plant_model(model, 0.0, True, joint_friction, SLOW if rubs else None)

    def _points(self, xs, us):
        n, K = self.nr, len(us)
        return tuple(np.ascontiguousarray(part) for part in (xs[:K, :n], xs[:K, n : 2 * n], us[:, :n]))

    def evaluate(self, xs: np.ndarray, us: np.ndarray) -> np.ndarray:
        """r (K, nv) at states xs (K, nx) and accelerations us (K, nv)."""
        q, v, a = self._points(xs, us)
        return (inverse_dynamics(self._model, q, v, a) + joint_forces(self._model, q, v)[0]) * self.scale

    def jacobians(self, xs: np.ndarray, us: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """rx (K, nv, 2 nv) and ru (K, nv, nv)."""
        q, v, a = self._points(xs, us)
        d, (K, D, _) = inverse_dynamics_derivatives(self._model, q, v, a), felt_springs(self._model.arrays)
        friction = joint_forces(self._model, q, v)[1][:, :, None] * np.eye(self.nr)
        rx = np.concatenate([d.dtau_dq + K, d.dtau_dv + D + friction], axis=2)
        return self.scale[:, None] * rx, self.scale[:, None] * d.M

    def hessian_products(
        self, xs: np.ndarray, us: np.ndarray, mu: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
        """Hessians of mu'r: Hxx (K, 2 nv, 2 nv), Hux (K, nv, 2 nv), and None, torques being linear in accelerations."""
        q, v, a = self._points(xs, us)
        n, w = self.nr, np.ascontiguousarray(mu * self.scale)
        H = inverse_dynamics_hessian(self._model, q, v, a, w)
        Hxx, Hux = np.zeros((len(q), 2 * n, 2 * n)), np.zeros((len(q), n, 2 * n))
        Hxx[:, :n, :n], Hxx[:, :n, n:], Hxx[:, n:, :n] = H.Hqq, H.Hqv, H.Hqv.swapaxes(1, 2)
        Hxx[:, n:, n:] = H.Hvv + (w * joint_forces(self._model, q, v)[2])[:, :, None] * np.eye(n)
        Hux[:, :, :n] = H.Hqa.swapaxes(1, 2)
        return Hxx, Hux, None
