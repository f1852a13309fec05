"""Joint accelerations as controls, integrated exactly, and the torques that they need."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dynamics.algorithms.inverse_dynamics import inverse_dynamics
from dynamics.derivatives.hessian import inverse_dynamics_hessian
from dynamics.derivatives.inverse_dynamics import inverse_dynamics_derivatives
from dynamics.derivatives.regressor import INERTIAL
from dynamics.model.actuation import actuation_map
from dynamics.model.joint_forces import felt_springs, joint_forces
from dynamics.model.model import RigidBodyModel, check_model
from dynamics.model.subject import Subject
from dynamics.simd.array_loops import first_of, split_columns
from dynamics.simd.prepared_calls import PreparedCall, PreparedCalls
from dynamics.simd.squares import ResidualWeights, add_hessians, check_weights, expand_squares
from dynamics.systems.discrete_system import ClosedLoops
from dynamics.systems.robot_system import SLOW, RobotSystem, plant_model
from dynamics.systems.torque_calls import (
    prepared_hessians,
    prepared_jacobians,
    prepared_points,
    prepared_values,
    write_hessians,
    write_jacobians,
    write_torques,
)
from dynamics.validation import as_flag, as_floats, as_kind, as_positive, as_whole_number

# --------------------------------------------------------------------------------------------
# A robot whose controls are the accelerations of its joints; the torques follow from them.
#
# Accelerations held over a step of h seconds are integrated exactly,
#
#     q+ = q + h v + h^2/2 a      v+ = v + h a
#
# so that a plan is a motion for any time step, and the robot's dynamics enter by costs and limits of the torques
# (`dynamics.JointTorques`).  Since steps are linear, problems with limits of time and torques converge from far starts.


class JointAccelerationSystem(RobotSystem):
    """x+ = f(x, a) for a robot with state x = [q; v] and the accelerations of its joints for controls.

    Parameters
    ----------
    model : RigidBodyModel, with joints of one degree of freedom
    dt : float, time step [s], positive

    Raises
    ------
    ValueError : a joint of several degrees of freedom, a time step that is not positive.

    Notes
    -----
    Methods are those of `RigidBodySystem`; fx and fu are constant.  Torques follow as
    ``dynamics.JointTorques(system).evaluate(xs[:-1], us)``.
    """

    semi_implicit = False
    free_duration = False

    def __init__(self, model: RigidBodyModel, dt: float) -> None:
        as_positive("dt", dt, "seconds")
        if not check_model(model).is_euclidean:
            raise ValueError("model: got a joint of several degrees of freedom, expected joints of one each")
        super().__init__(model, dt, actuation_map(model, None), {})
        self.actuators = ()
        self._serves = (Subject(model),)

    def __repr__(self) -> str:
        return f"JointAccelerationSystem({self.model!r}, dt={self.dt:g})"

    @property
    def control_names(self) -> tuple[str, ...]:
        """Names (nu,) of the accelerations."""
        return tuple(f"{name} acceleration" for name in self.model.dof_names)

    def control_limits(self) -> tuple[np.ndarray, np.ndarray]:
        """Infinite lower and upper (nu,), since the model has no limits of accelerations."""
        return np.full(self.nu, -np.inf), np.full(self.nu, np.inf)

    def quasi_static(self, x: Any) -> np.ndarray:
        """Controls that hold the robot still: zeros (nu,), or (K, nu) for states (K, nx)."""
        return np.zeros((*np.shape(x)[:-1], self.nu))

    integrator_order = 2
    """Convergence order of the integrator; nominal, since steps are exact."""

    def refined(self, substeps: int) -> JointAccelerationSystem:
        """The same robot in steps of dt/substeps, which are exact as well.

        Raises ValueError for a number that is not a whole number of at least 1.
        """
        new = copy.copy(self)
        new.dt = self.dt / as_whole_number("substeps", substeps, 1)
        return new

    def timed(self) -> JointAccelerationSystem:
        """The same system with the duration of the step, s, as its last control."""
        new = copy.copy(self)
        new.nu, new.free_duration = self.nu + 1, True
        return new

    def _parts(self, xs, us):
        """q, v, a and h, the last (K, 1) or a number."""
        n = self.nv
        return xs[: len(us), :n], xs[: len(us), n:], us[:, :n], us[:, n:] if self.free_duration else self.dt

    # -------------------------------------------------------------------------------------------- motion
    def write_steps(self, xs: np.ndarray, us: np.ndarray, out: np.ndarray) -> None:
        """out[t] = f(xs[t], us[t])."""
        q, v, a, h = self._parts(xs, us)
        out[:, : self.nv], out[:, self.nv :] = q + h * (v + (0.5 * h) * a), v + h * a

    def roll(self, loops: ClosedLoops, start: int, stop: int, X: np.ndarray, U: np.ndarray) -> None:
        """Closed loops over the knots start <= t < stop; see `RobotSystem.roll`."""
        left = loops.alphas[:, None] - 1.0
        if start == 0:
            if loops.x0 is not None:
                X[:, 0] = loops.x0[:, None]
            if loops.gaps is not None:
                X[:, 0] += left * loops.gaps[0][:, None]
        for t in range(start, stop):
            u = np.broadcast_to(loops.us[t][:, None], U[:, t].shape)
            if loops.K.shape[1]:
                u = u + loops.alphas[:, None] * loops.k[t][:, None] + loops.K[t] @ (X[:, t] - loops.xs[t][:, None])
                if loops.shift is not None and loops.pull is not None:
                    u += loops.shift[:, None] * loops.pull[t][:, None]
                if loops.before is not None and t > 0:
                    tail = slice(self.nx - loops.before.shape[2] + U.shape[2], None)
                    off = X[:, t - 1, tail] - loops.xs[t - 1, tail, None], U[:, t - 1] - loops.us[t - 1][:, None]
                    u += loops.before[t] @ np.concatenate(off, axis=1)
            U[:, t] = u if loops.limits is None else np.clip(u, *loops.limits[t][:, :, None])
            x, u = (Y.swapaxes(1, 2).reshape(-1, Y.shape[1]) for Y in (X[:, t], U[:, t]))
            following = np.empty_like(x)
            with np.errstate(all="ignore"):
                self.write_steps(x, u, following)
            X[:, t + 1] = following.reshape(len(X), -1, self.nx).swapaxes(1, 2)
            if loops.gaps is not None:
                X[:, t + 1] += left * loops.gaps[t + 1][:, None]

    # -------------------------------------------------------------------------------------------- expansions
    def write_linearization(self, xs: np.ndarray, us: np.ndarray, fx: np.ndarray, fu: np.ndarray) -> None:
        """Write the results of `linearize`."""
        n, i = self.nv, np.arange(self.nv)
        _, v, a, h = self._parts(xs, us)
        fx[...], fu[...] = np.eye(2 * n), 0.0
        fx[:, i, n + i] = fu[:, n + i, i] = h
        fu[:, i, i] = 0.5 * h * h
        if self.free_duration:
            fu[:, :n, n], fu[:, n:, n] = v + h * a, a

    def write_hessian_products(self, xs: np.ndarray, us: np.ndarray, lam: np.ndarray, *H: np.ndarray) -> None:
        """Write the results of `hessian_products`, which are zero except for a free duration."""
        for block in H:
            block[...] = 0.0
        if self.free_duration:
            n, (_, Hux, Huu) = self.nv, H
            _, _, a, h = self._parts(xs, us)
            Hux[:, n, n:] = lam[:, :n]
            Huu[:, n, :n] = Huu[:, :n, n] = h * lam[:, :n] + lam[:, n:]
            Huu[:, n, n] = np.einsum("ti,ti->t", lam[:, :n], a)

    def inertial_gradient(self, xs: np.ndarray, us: np.ndarray, lam: np.ndarray) -> np.ndarray:
        """Result of `parameter_gradient`: zeros, since accelerations do not depend on masses."""
        return np.zeros((self.model.full.nb, INERTIAL))


# --------------------------------------------------------------------------------------------
# Torques that joint accelerations need, with exact derivatives, for limits and costs of torques where accelerations are
# the controls.
#
#     r = ID(q, v, a) + f(q, v)      f of joint friction and springs (`joint_friction`)


_NO_BLOCKS = np.empty((0, 0)), np.empty((0, 0)), np.empty((0, 0, 0)), np.empty((0, 0, 0)), np.empty((0, 0, 0))


class JointTorques:
    """Torques r (nv,) of the joints of a robot whose controls are their accelerations, N m or N.

    Parameters
    ----------
    system : JointAccelerationSystem
    joint_friction : True to include the model's damping and Coulomb friction
    scale : number or (nv,), positive: rows are torques times this, such as one over their limits

    Attributes
    ----------
    lower, upper : (nv,) the model's effort limits, scaled, infinite where it has none, in the form of
        ``trajopt.ResidualConstraint(torques)``
    component_names : names of the degrees of freedom

    Raises
    ------
    TypeError, ValueError : another system, a scale that is not positive, mimic joints.
    """

    name, reads_dynamics = "joint torques", True

    def __init__(self, system: JointAccelerationSystem, joint_friction: bool = True, scale: ArrayLike = 1.0) -> None:
        as_kind("system", system, JointAccelerationSystem, "a dynamics.JointAccelerationSystem")
        model = system.model
        if model.mimics:
            raise ValueError(f"system: {model.name!r} has mimic joints, expected independent joints")
        self.nr, self.made_for = model.nv, Subject(model)
        factors = as_floats("scale", scale)
        if factors.shape not in ((), (self.nr,)) or not (np.isfinite(factors).all() and (factors > 0.0).all()):
            raise ValueError(f"scale: got {np.asarray(scale).tolist()}, expected a positive number, or {self.nr}")
        self.scale = np.full(self.nr, 1.0) * factors
        self.component_names = tuple(model.dof_names)
        self.upper = model.effort_limit * self.scale
        self.lower = -self.upper
        has_friction = as_flag("joint_friction", joint_friction) and bool(model.friction.any())
        self._model = plant_model(model, 0.0, True, joint_friction, SLOW if has_friction else None)

    def _points(self, xs, us):
        n, K = self.nr, len(us)
        return tuple(np.ascontiguousarray(part) for part in (xs[:K, :n], xs[:K, n : 2 * n], us[:, :n]))

    def evaluate(self, xs: np.ndarray, us: np.ndarray) -> np.ndarray:
        """r (K, nv) at states xs (K, nx) and accelerations us (K, nv)."""
        q, v, a = self._points(xs, us)
        r = np.empty(q.shape)
        write_torques(inverse_dynamics(self._model, q, v, a), joint_forces(self._model, q, v)[0], self.scale, r)
        return r

    def jacobians(self, xs: np.ndarray, us: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """rx (K, nv, 2 nv) and ru (K, nv, nv)."""
        n, J = self.nr, self._jacobian(xs, us, self.nr)
        return np.ascontiguousarray(J[:, :, : 2 * n]), np.ascontiguousarray(J[:, :, 2 * n :])

    def _jacobian(self, xs: np.ndarray, us: np.ndarray, nu: int) -> np.ndarray:
        """J (K, nv, 2 nv + nu)."""
        q, v, a = self._points(xs, us)
        d, (K, D, _) = inverse_dynamics_derivatives(self._model, q, v, a), felt_springs(self._model.arrays)
        J, flat = np.zeros((len(us), self.nr, 2 * self.nr + nu)), [M.reshape(len(us), -1) for M in d]
        write_jacobians(*flat, K, D, joint_forces(self._model, q, v)[1], self.scale, J)
        return J

    def prepared_rows(
        self, xs: np.ndarray, us: np.ndarray | None, jacobians: bool
    ) -> Callable[[], tuple[Any, ...]] | None:
        """See `trajopt.interfaces.residual.PreparedResidual`."""
        if us is None or type(self) is not JointTorques:
            return None
        K, n, at = len(us), self.nr, prepared_points(self._model, xs, us)
        r = np.zeros((K, n))
        parts, found = [*at.calls, *prepared_values(self._model, at, self.scale, r)], (r, None, None)
        if jacobians:
            J, found = np.zeros((K, n, 3 * n)), (r, np.zeros((K, n, 2 * n)), np.zeros((K, n, n)))
            parts += prepared_jacobians(self._model, at, self.scale, J)
            parts.append(PreparedCall(split_columns, J, *found[1:]))
        return PreparedCalls(*parts, result=lambda: found)

    # ------------------------------------------------------------------------------------------- sums over knots
    @property
    def sums_squares(self) -> bool:
        """See `trajopt.interfaces.residual.SummedResidual`."""
        return type(self) is JointTorques

    def add_expansion(
        self,
        span: tuple[int, int],
        xs: np.ndarray,
        us: np.ndarray,
        weights: ResidualWeights,
        target: Sequence[np.ndarray] | None,
        curvature: Sequence[np.ndarray] | None,
    ) -> float:
        """See `trajopt.interfaces.residual.SummedResidual`."""
        check_weights(weights, self.nr, span)
        start, (x, u), nu = span[0], (points[slice(*span)] for points in (xs, us)), us.shape[1]
        r, into = self.evaluate(x, u), _NO_BLOCKS if target is None else target
        J, mu = np.zeros((*r.shape, 0)) if target is None else self._jacobian(x, u, nu), np.zeros(r.shape)
        total = expand_squares(weights.layout, weights.rows, start, r, J, mu, *into)
        if curvature is not None:
            (q, v, a), w, width = self._points(x, u), mu * self.scale, 2 * self.nr + nu
            found, H = inverse_dynamics_hessian(self._model, q, v, a, w), np.zeros((len(u), width, width))
            flat = [M.reshape(len(u), -1) for M in found]
            write_hessians(*flat, w, joint_forces(self._model, q, v)[2], H)
            add_hessians(start, H, mu, *curvature[2:])
        return total

    def prepared_sum(
        self,
        span: tuple[int, int],
        xs: np.ndarray,
        us: np.ndarray | None,
        weights: ResidualWeights,
        target: Sequence[np.ndarray] | None,
        curvature: Sequence[np.ndarray] | None,
    ) -> Callable[[], float] | None:
        """See `trajopt.interfaces.residual.PreparedResidual`."""
        check_weights(weights, self.nr, span)
        if us is None or type(self) is not JointTorques:
            return None
        (x, u), K, n, z = (points[slice(*span)] for points in (xs, us)), span[1] - span[0], self.nr, 2 * self.nr
        at, r, mu, J = prepared_points(self._model, x, u), *np.zeros((2, K, n)), np.zeros((K, n, z + us.shape[1]))
        parts, into = [*at.calls, *prepared_values(self._model, at, self.scale, r)], _NO_BLOCKS
        if target is not None:
            into = target
            parts += prepared_jacobians(self._model, at, self.scale, J)
        total = PreparedCall(expand_squares, weights.layout, weights.rows, span[0], r, J, mu, *into)
        parts.append(total)
        if curvature is not None:
            H = np.zeros((K, J.shape[2], J.shape[2]))
            parts += prepared_hessians(self._model, at, self.scale, mu, H)
            parts.append(PreparedCall(add_hessians, span[0], H, mu, *curvature[2:]))
            parts.append(PreparedCall(first_of, total.room.view(np.float64)))
        return PreparedCalls(*parts)

    def hessian_products(
        self, xs: np.ndarray, us: np.ndarray, mu: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
        """Hessians of mu'r: Hxx (K, 2 nv, 2 nv), Hux (K, nv, 2 nv), and None, since torques are linear in
        accelerations."""
        q, v, a = self._points(xs, us)
        n, w = self.nr, np.ascontiguousarray(mu * self.scale)
        H = inverse_dynamics_hessian(self._model, q, v, a, w)
        Hxx, Hux = np.zeros((len(q), 2 * n, 2 * n)), np.zeros((len(q), n, 2 * n))
        Hxx[:, :n, :n], Hxx[:, :n, n:], Hxx[:, n:, :n] = H.Hqq, H.Hqv, H.Hqv.swapaxes(1, 2)
        Hxx[:, n:, n:] = H.Hvv + (w * joint_forces(self._model, q, v)[2])[:, :, None] * np.eye(n)
        Hux[:, :, :n] = H.Hqa.swapaxes(1, 2)
        return Hxx, Hux, None
