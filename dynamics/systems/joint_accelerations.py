"""Joint accelerations as controls, integrated exactly, and the torques that they need."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dynamics.algorithms.inverse_dynamics import inverse_dynamics
from dynamics.derivatives.hessian import inverse_dynamics_hessian
from dynamics.derivatives.inverse_dynamics import inverse_dynamics_derivatives
from dynamics.derivatives.regressor import INERTIAL
from dynamics.model.actuation import actuation_map
from dynamics.model.joint_forces import felt_springs, joint_forces
from dynamics.model.model import RigidBodyModel, check_inertias, check_model
from dynamics.model.subject import Subject
from dynamics.simd import helper, lean_routine
from dynamics.simd.array_loops import split_columns
from dynamics.simd.prepared_calls import PreparedCall, PreparedCalls
from dynamics.simd.squares import KnotSum, add_hessians
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


@helper
def _duration(timed, h, us, t):
    """Duration of knot t: its last control, or h."""
    return us[t, us.shape[1] - 1] if timed else h


@lean_routine
def _step(n, h, timed, xs, us, following):
    """Next states (K, 2 n)."""
    for t in range(us.shape[0]):
        d = _duration(timed, h, us, t)
        for i in range(n):
            v, a = xs[t, n + i], us[t, i]
            following[t, i] = xs[t, i] + d * (v + 0.5 * d * a)
            following[t, n + i] = v + d * a


@lean_routine
def _linearize(n, h, timed, xs, us, fx, fu):
    """fx and fu at all knots."""
    fx[:], fu[:] = 0.0, 0.0
    for t in range(us.shape[0]):
        d = _duration(timed, h, us, t)
        for i in range(n):
            fx[t, i, i] = fx[t, n + i, n + i] = 1.0
            fx[t, i, n + i] = fu[t, n + i, i] = d
            fu[t, i, i] = 0.5 * d * d
            if timed:
                fu[t, i, n], fu[t, n + i, n] = xs[t, n + i] + d * us[t, i], us[t, i]


@lean_routine
def _contract(n, h, timed, us, lam, Hxx, Hux, Huu):
    """Hessians of lam'f, which are zero but for free durations."""
    Hxx[:], Hux[:], Huu[:] = 0.0, 0.0, 0.0
    if timed:
        for t in range(us.shape[0]):
            d = _duration(timed, h, us, t)
            for i in range(n):
                Hux[t, n, n + i] = lam[t, i]
                Huu[t, n, i] = Huu[t, i, n] = d * lam[t, i] + lam[t, n + i]
                Huu[t, n, n] += lam[t, i] * us[t, i]


@helper
def _within(value, limits, t, i):
    """A control within the limits, if there are any; NaN stays NaN."""
    if limits.shape[0] == 0:
        return value
    if value < limits[t, 0, i]:
        return limits[t, 0, i]
    return limits[t, 1, i] if value > limits[t, 1, i] else value


@helper
def _leave_gap(gaps, t, left, X, c, l):
    """Move state t of a candidate along what is left of its gap, if there are gaps."""
    if gaps.shape[0] > 0:
        for i in range(X.shape[2]):
            X[c, t, i, l] -= left * gaps[t, i]


@helper
def _of_before(before, xs, us, t, i, X, U, c, l):
    """Feedback to the knot before, if there is any."""
    value = 0.0
    if t > 0 and before.shape[0] > 0:
        nx, nu = xs.shape[1], us.shape[1]
        m = before.shape[2] - nu
        for j in range(m):
            value += before[t, i, j] * (X[c, t - 1, nx - m + j, l] - xs[t - 1, nx - m + j])
        for j in range(nu):
            value += before[t, i, m + j] * (U[c, t - 1, j, l] - us[t - 1, j])
    return value


@helper
def _pulled(shift, pull, t, i, c, l):
    """A candidate's share of the pull, if there is any."""
    return shift[c, l] * pull[t, i] if pull.shape[0] > 0 else 0.0


@helper
def _place(x0, X, c, l):
    """The initial state, unless it is there."""
    for i in range(x0.shape[0]):
        X[c, 0, i, l] = x0[i]


@lean_routine
def _roll(n, h, timed, start, stop, X, U, x0, xs, us, k, K, alphas, gaps, limits, shift, pull, before):
    """Candidates in lanes, as of `RobotSystem.roll`."""
    for c in range(X.shape[0]):
        for l in range(X.shape[3]):
            left = 1.0 - alphas[c, l]
            if start == 0:
                _place(x0, X, c, l)
                _leave_gap(gaps, 0, left, X, c, l)
            for t in range(start, stop):
                for i in range(us.shape[1]):
                    value = us[t, i]
                    if K.shape[1] > 0:
                        value += alphas[c, l] * k[t, i]
                        for j in range(2 * n):
                            value += K[t, i, j] * (X[c, t, j, l] - xs[t, j])
                        value += _pulled(shift, pull, t, i, c, l)
                        value += _of_before(before, xs, us, t, i, X, U, c, l)
                    U[c, t, i, l] = _within(value, limits, t, i)
                d = U[c, t, n, l] if timed else h
                for i in range(n):
                    v, a = X[c, t, n + i, l], U[c, t, i, l]
                    X[c, t + 1, i, l] = X[c, t, i, l] + d * (v + 0.5 * d * a)
                    X[c, t + 1, n + i, l] = v + d * a
                _leave_gap(gaps, t + 1, left, X, c, l)


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

    @property
    def _motion(self) -> tuple[int, float, bool]:
        """What steps depend on."""
        return self.nv, self.dt, self.free_duration

    # -------------------------------------------------------------------------------------------- motion
    def write_steps(self, xs: np.ndarray, us: np.ndarray, out: np.ndarray) -> None:
        """out[t] = f(xs[t], us[t])."""
        _step(*self._motion, xs, us, out)

    def prepared_steps(self, xs: np.ndarray, us: np.ndarray, following: np.ndarray) -> PreparedCall:
        """See `trajopt.capabilities.Expansions`."""
        return PreparedCall(_step, *self._motion, xs, us, following)

    def roll(self, loops: ClosedLoops, start: int, stop: int, X: np.ndarray, U: np.ndarray) -> None:
        """Closed loops over the knots start <= t < stop; see `RobotSystem.roll`."""
        _roll(*self._motion, start, stop, X, U, *loops)

    def prepared_roll(self, loops: ClosedLoops, start: int, stop: int, X: np.ndarray, U: np.ndarray) -> PreparedCall:
        """See `DiscreteSystem.prepared_roll`."""
        return PreparedCall(_roll, *self._motion, start, stop, X, U, *loops)

    # -------------------------------------------------------------------------------------------- expansions
    def write_linearization(self, xs: np.ndarray, us: np.ndarray, fx: np.ndarray, fu: np.ndarray) -> None:
        """Write the results of `linearize`."""
        _linearize(*self._motion, xs, us, fx, fu)

    def write_hessian_products(self, xs: np.ndarray, us: np.ndarray, lam: np.ndarray, *H: np.ndarray) -> None:
        """Write the results of `hessian_products`, which are zero except for a free duration."""
        _contract(*self._motion, us, lam, *H)

    def prepared_expansion(
        self,
        xs: np.ndarray,
        us: np.ndarray,
        fx: np.ndarray,
        fu: np.ndarray,
        lam: np.ndarray | None = None,
        *H: np.ndarray,
    ) -> Callable[[], Any]:
        """See `trajopt.capabilities.Expansions`."""
        first = PreparedCall(_linearize, *self._motion, xs, us, fx, fu)
        return first if lam is None else PreparedCalls(first, PreparedCall(_contract, *self._motion, us, lam, *H))

    def inertial_gradient(self, xs: np.ndarray, us: np.ndarray, lam: np.ndarray) -> np.ndarray:
        """Result of `parameter_gradient`: zeros, since accelerations do not depend on masses."""
        return np.zeros((self.model.full.nb, INERTIAL))


# --------------------------------------------------------------------------------------------
# Torques that joint accelerations need, with exact derivatives, for limits and costs of torques where accelerations are
# the controls.
#
#     r = ID(q, v, a) + f(q, v)      f of joint friction and springs (`joint_friction`)


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
        model = check_inertias(system.model)
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

    def add_expansion(self, wanted: KnotSum) -> float:
        """See `trajopt.interfaces.residual.SummedResidual`."""
        wanted.check_weights(self.nr)
        (x, u), width = self._knots(wanted)
        r = self.evaluate(x, u)
        J = np.zeros((*r.shape, 0)) if wanted.target is None else self._jacobian(x, u, u.shape[1])
        add, *given = wanted.of_rows(r, J, mu := np.zeros(r.shape))
        total = add(*given)
        if wanted.curvature is not None:
            (q, v, a), w, H = self._points(x, u), mu * self.scale, np.zeros((len(u), width, width))
            flat = [M.reshape(len(u), -1) for M in inverse_dynamics_hessian(self._model, q, v, a, w)]
            write_hessians(*flat, w, joint_forces(self._model, q, v)[2], H)
            add_hessians(wanted.span[0], H, mu, *wanted.curvature[2:])
        return total

    def prepared_sum(self, wanted: KnotSum) -> Callable[[], float] | None:
        """See `trajopt.interfaces.residual.PreparedResidual`."""
        wanted.check_weights(self.nr)
        if wanted.us is None or type(self) is not JointTorques:
            return None
        (x, u), width = self._knots(wanted)
        K, at = len(u), prepared_points(self._model, x, u)
        (r, mu), J = np.zeros((2, K, self.nr)), np.zeros((K, self.nr, width))
        parts = [*at.calls, *prepared_values(self._model, at, self.scale, r)]
        if wanted.target is not None:
            parts += prepared_jacobians(self._model, at, self.scale, J)
        parts.append(total := PreparedCall(*wanted.of_rows(r, J, mu)))
        if wanted.curvature is not None:
            H = np.zeros((K, width, width))
            parts += prepared_hessians(self._model, at, self.scale, mu, H)
            parts += [PreparedCall(add_hessians, wanted.span[0], H, mu, *wanted.curvature[2:]), total.again()]
        return PreparedCalls(*parts)

    def _knots(self, wanted: KnotSum) -> tuple[tuple[np.ndarray, np.ndarray], int]:
        """States and controls at the knots of a sum, and the number of all their components together."""
        (start, stop), xs, us = wanted.span, wanted.xs, wanted.us
        assert us is not None
        return (xs[start:stop], us[start:stop]), 2 * self.nr + us.shape[1]

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
