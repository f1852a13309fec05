"""A robot whose controls are the accelerations of its joints: torques are what these need, not what is chosen.

Accelerations held over a step of h seconds are integrated exactly,

    q+ = q + h v + h^2/2 a      v+ = v + h a

so that a plan is a motion whatever the time step, and the robot's dynamics come in by costs and limits of the torques
(`dynamics.JointTorques`).  Steps being linear, problems with limits of time and of torques are solved from far away.
"""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from dynamics.actuation import actuation_map
from dynamics.derivatives.inertial_parameters import INERTIAL
from dynamics.model import RigidBodyModel, check_model
from dynamics.subject import Subject
from dynamics.systems.discrete_system import ClosedLoops
from dynamics.systems.robot_system import RobotSystem
from dynamics.validation import as_whole_number, check_time_step


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
        check_time_step(dt)
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
        """None is known: infinite lower and upper (nu,)."""
        return np.full(self.nu, -np.inf), np.full(self.nu, np.inf)

    def quasi_static(self, x: Any) -> np.ndarray:
        """Controls that hold the robot still: zeros (nu,), or (K, nu) for states (K, nx)."""
        return np.zeros((*np.shape(x)[:-1], self.nu))

    integrator_order = 2
    """With this power of dt the error of its integrator falls; there is none."""

    def refined(self, substeps: int) -> JointAccelerationSystem:
        """The same robot in steps of dt/substeps, which are as exact.

        Raises ValueError for what is no whole number of at least 1.
        """
        new = copy.copy(self)
        new.dt = self.dt / as_whole_number("substeps", substeps, 1)
        return new

    def timed(self) -> JointAccelerationSystem:
        """The same system whose last control, behind the others, is how long the step takes, s."""
        new = copy.copy(self)
        new.nu, new.free_duration = self.nu + 1, True
        return new

    def _parts(self, xs, us):
        """q, v, a and h, the latter (K, 1) or a number."""
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
        """What `linearize` returns."""
        n, i = self.nv, np.arange(self.nv)
        _, v, a, h = self._parts(xs, us)
        fx[...], fu[...] = np.eye(2 * n), 0.0
        fx[:, i, n + i] = fu[:, n + i, i] = h
        fu[:, i, i] = 0.5 * h * h
        if self.free_duration:
            fu[:, :n, n], fu[:, n:, n] = v + h * a, a

    def write_hessian_products(self, xs: np.ndarray, us: np.ndarray, lam: np.ndarray, *H: np.ndarray) -> None:
        """What `hessian_products` returns: zero but for the duration."""
        for block in H:
            block[...] = 0.0
        if self.free_duration:
            n, (_, Hux, Huu) = self.nv, H
            _, _, a, h = self._parts(xs, us)
            Hux[:, n, n:] = lam[:, :n]
            Huu[:, n, :n] = Huu[:, :n, n] = h * lam[:, :n] + lam[:, n:]
            Huu[:, n, n] = np.einsum("ti,ti->t", lam[:, :n], a)

    def inertial_gradient(self, xs: np.ndarray, us: np.ndarray, lam: np.ndarray) -> np.ndarray:
        """What `parameter_gradient` returns: zeros, for accelerations know no masses."""
        return np.zeros((self.model.full.nb, INERTIAL))
