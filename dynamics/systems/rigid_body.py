"""A robot under an integrator: the discrete-time system that trajectory optimization works on."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from dynamics.contacts.contact_set import Contact, ContactSet, as_contact_set
from dynamics.contacts.dynamics import contact_dynamics
from dynamics.derivatives.forward_dynamics import forward_dynamics_second_derivatives
from dynamics.simd import LANES, aligned_arrays, chunk_count, launch
from dynamics.systems.acceleration_control import AccelerationControl
from dynamics.systems.actuation import actuation_map
from dynamics.systems.curvature import curvature_driver_numbers, drive_curvature
from dynamics.systems.linearization import drive_linearization, linearization_numbers
from dynamics.systems.rollouts import drive_closed_loops, drive_steps
from dynamics.systems.skeleton import skeleton
from dynamics.systems.state_difference import difference_expansion, difference_of_states, integrate_states
from dynamics.systems.state_squares import StateDifference
from dynamics.systems.steps import INTEGRATORS, step_numbers
from dynamics.systems.workspace import dynamics_numbers
from dynamics.validation import as_array, as_batch, check_configuration

FORMULATIONS = ("forward", "inverse")


class RigidBodySystem:
    """x+ = f(x, u) for a robot with state x = [q; v] and torques tau = B u.

    Parameters
    ----------
    model : RigidBodyModel
    dt : float, time step [s], positive
    integrator : "semi_implicit_euler" (default), "explicit_euler" or "rk4"
        The configuration moves along its manifold: q+ = q (+) h v+, q (+) h v, or four Munthe-Kaas stages.
    actuation : None (a torque per degree of freedom), "floating_base" (all but the first six), or B (nv, nu)
    contacts : sequence of `PointContact` and `RigidContact`, or a `ContactSet`
        Points and feet that are held: accelerations are those of `contact_dynamics`.  It is the accelerations that are
        constrained, so without gains the contacts drift.
    formulation : "forward" (default) or "inverse"
        "inverse": solvers take accelerations for controls and the torques as an output; everything that they are given
        and return is in torques all the same.  For an Euler integrator, joints of one degree of freedom, and as many
        controls as joints; without contacts.
    contact_damping : at least zero, 1/kg, as in `contact_dynamics`; for contacts that depend on others

    Raises
    ------
    ValueError : names the argument, what came and what was expected.
    TypeError : an entry of `contacts` that is no contact.

    Notes
    -----
    Tangent vectors are dx = [dq; dv], ndx = 2 nv.  Expansions are those of the step in exponential coordinates at both
    ends: F is its differential, and `hessian_products` returns symmetric H with
    lam'dx+ = lam'F z + 1/2 z'H z + O(z^3).  All knots are evaluated in one call, LANES at a time, over all threads.
    """

    def __init__(
        self,
        model,
        dt: float,
        integrator: str = "semi_implicit_euler",
        actuation=None,
        contacts: ContactSet | Sequence[Contact] = (),
        formulation: str = "forward",
        contact_damping: float = 0.0,
    ):
        if isinstance(dt, bool) or not isinstance(dt, (int, float, np.number)) or not np.isfinite(dt) or dt <= 0:
            raise ValueError(f"dt is {dt!r}; expected a positive number of seconds")
        if integrator not in INTEGRATORS:
            raise ValueError(f'integrator is "{integrator}"; expected one of {", ".join(INTEGRATORS)}')
        if formulation not in FORMULATIONS:
            raise ValueError(f'formulation is "{formulation}"; expected one of {", ".join(FORMULATIONS)}')
        self.contacts = as_contact_set(model, contacts)
        held = self.contacts.damped(contact_damping, "contact_damping")
        if held.damping != 0.0 and not self.in_contact:
            raise ValueError(f"contact_damping: got {contact_damping}, expected zero for a robot without contacts")
        self.contact_damping = held.damping
        self.model = model
        self.dt = float(dt)
        self.integrator = integrator
        self.actuation = actuation_map(model, actuation)
        self.nq, self.nv = model.nq, model.nv
        self.nx, self.ndx, self.nu = model.nq + model.nv, 2 * model.nv, self.actuation.B.shape[1]
        self.euclidean = bool(model.is_euclidean)
        semi, rk4 = integrator == "semi_implicit_euler", integrator == "rk4"
        self.semi_implicit = self.euclidean and semi
        B, skip = self.actuation
        self.formulation = formulation
        self.acceleration_control = self._acceleration_control() if formulation == "inverse" else None
        self._rollout_numbers = self.rollout_numbers()
        curved, rk = None if self.euclidean else True, True if rk4 else None
        self.plant = (model.block, held if self.in_contact else (), B, skip, curved, rk, semi, self.dt)

    def _acceleration_control(self) -> AccelerationControl:
        B, lacking = self.actuation.B, []
        if not self.euclidean:
            lacking.append("joints of one degree of freedom")
        if self.integrator == "rk4":
            lacking.append("an Euler integrator")
        if B.shape[0] != B.shape[1] or np.linalg.matrix_rank(B) < len(B):
            lacking.append("an independent control for every degree of freedom")
        if self.in_contact:
            lacking.append("no contacts")
        if lacking:
            raise ValueError(f'formulation is "inverse", which needs {" and ".join(lacking)}')
        return AccelerationControl(self.model, self.actuation, self.dt, self.integrator == "semi_implicit_euler")

    @property
    def in_contact(self) -> bool:
        """Whether the system has contacts."""
        return len(self.contacts) > 0

    def __repr__(self) -> str:
        return f"RigidBodySystem({self.model!r}, dt={self.dt:g}, integrator={self.integrator!r}, nu={self.nu})"

    # -------------------------------------------------------------------------------------------- the state manifold
    def state(self, q: ArrayLike, v: ArrayLike | None = None) -> np.ndarray:
        """x = [q; v], v = 0 by default."""
        q = as_array("q", q, (self.nq,))
        v = np.zeros(self.nv) if v is None else as_array("v", v, (self.nv,))
        return np.concatenate([q, v])

    def check_state(self, x: np.ndarray) -> None:
        """Raise ValueError if a quaternion in x (K, nx) is not of unit length."""
        check_configuration(self.model, x[:, : self.nq])

    def integrate(self, x: ArrayLike, dx: ArrayLike) -> np.ndarray:
        """x (+) dx;  x (nx,) or (K, nx), dx (ndx,) or (K, ndx).

        Only shapes are checked, here and in `difference`: states that are not finite give results that are not.
        """
        return integrate_states(self.model, x, dx)

    def difference(self, x0: ArrayLike, x1: ArrayLike) -> np.ndarray:
        """dx with integrate(x0, dx) = x1;  x0, x1 (nx,) or (K, nx)."""
        return difference_of_states(self.model, x0, x1)

    def difference_expansion(self, x_ref: np.ndarray, xs: np.ndarray, mu: np.ndarray):
        """Jacobian (K, ndx, ndx) of difference(x_ref, xs) in xs, and the Hessian (K, ndx, ndx) of mu' of it."""
        return difference_expansion(self.model, x_ref, xs, mu)[1:]

    def difference_with_jacobian(self, x_ref: np.ndarray, xs: np.ndarray):
        """difference(x_ref, xs) (K, ndx) and its Jacobian (K, ndx, ndx) in xs, from one call."""
        return difference_expansion(self.model, x_ref, xs, None)[:2]

    def difference_residual(self, x_ref: np.ndarray) -> StateDifference:
        """r = difference(x_ref, x) as a residual that sums its weighted squares by itself."""
        return StateDifference(self.model, x_ref)

    def skeleton(self, xs: np.ndarray) -> np.ndarray:
        """Line segments (K, segments, 2, 3) that draw the robot at states xs (K, nx)."""
        return skeleton(self.model, np.ascontiguousarray(xs[:, : self.nq]))

    # -------------------------------------------------------------------------------------------- motion
    def step(self, x: ArrayLike, u: ArrayLike) -> np.ndarray:
        """x+ = f(x, u) for one pair or a batch: x (nx,) or (K, nx), u (nu,) or (K, nu)."""
        xs, single_x = as_batch("x", x, self.nx)
        us, single_u = as_batch("u", u, self.nu)
        if len(xs) != len(us) and 1 not in (len(xs), len(us)):
            raise ValueError(f"x has {len(xs)} points and u has {len(us)}; expected as many")
        self.check_state(xs)
        K = max(len(xs), len(us))
        xs = np.ascontiguousarray(np.broadcast_to(xs, (K, self.nx)))
        us = np.ascontiguousarray(np.broadcast_to(us, (K, self.nu)))
        out = np.empty_like(xs)
        launch(drive_steps, K, self._rollout_numbers, *self.plant, xs, us, out)
        return out[0] if single_x and single_u else out

    def rollout(self, x0: ArrayLike, us: ArrayLike) -> np.ndarray:
        """Trajectory (N+1, nx) from x0 under the controls us (N, nu)."""
        us = as_array("us", us, (None, self.nu))
        x0 = as_array("x0", x0, (self.nx,))
        self.check_state(x0[None])
        N = len(us)
        xs, _ = self._closed_loops(x0, np.zeros((N, self.nx)), us, us, np.zeros((N, 0, 0)), np.zeros(1))
        return np.ascontiguousarray(xs[0])

    def closed_loop_rollout(
        self, x0, xs, us, k, K, alphas, gaps=None, lower=None, upper=None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Trajectories of u = us_t + alpha k_t + K_t difference(xs_t, x), one per step length, in lanes.

        Parameters: x0 (nx,), xs (N+1, nx), us (N, nu), k (N, nu), K (N, nu, ndx), alphas (A,); optional: lower and
        upper (N, nu), which the controls keep; gaps (N+1, ndx) between xs and the dynamics, of which the new states
        keep the part 1 - alpha (see `trajopt.System`).
        Returns: (A, N+1, nx), (A, N, nu), possibly as views with the candidates last in memory.  A candidate that
        diverges holds inf or NaN.
        """
        xs, us = self._knots(xs, us)
        N = len(us)
        self._check_shapes(x0=(x0, (self.nx,)), k=(k, us.shape), K=(K, (N, self.nu, self.ndx)))
        limits = None
        if gaps is not None:
            self._check_shapes(gaps=(gaps, (N + 1, self.ndx)))
        if lower is not None or upper is not None:
            if lower is None or upper is None:
                raise ValueError("lower and upper: got one of them, expected both or neither")
            self._check_shapes(lower=(lower, us.shape), upper=(upper, us.shape))
            limits = np.stack([lower, upper], axis=1)
        return self._closed_loops(x0, xs, us, k, K, alphas, gaps, limits)

    @staticmethod
    def _check_shapes(**arguments):
        for name, (array, shape) in arguments.items():
            if np.shape(array) != shape:
                raise ValueError(f"{name}: got shape {np.shape(array)}, expected {shape}")

    def _closed_loops(self, x0, xs, us, k, K, alphas, gaps=None, limits=None):
        N, A = len(us), len(alphas)
        chunks = chunk_count(A)
        shapes = (chunks, LANES), (chunks, N + 1, self.nx, LANES), (chunks, N, self.nu, LANES)
        lanes, X, U = aligned_arrays(*shapes)
        lanes[...] = 0.0
        lanes.reshape(-1)[:A] = alphas
        arrays = [np.ascontiguousarray(y, np.float64) for y in (x0, xs, us, k, K)]
        gaps = None if gaps is None else np.ascontiguousarray(gaps, np.float64)
        launch(drive_closed_loops, A, self._rollout_numbers, *self.plant, *arrays, lanes, gaps, limits, X, U)
        if chunks == 1:
            return X[0].transpose(2, 0, 1)[:A], U[0].transpose(2, 0, 1)[:A]
        return tuple(np.concatenate(list(Y.transpose(0, 3, 1, 2)))[:A] for Y in (X, U))

    def rollout_numbers(self) -> int:
        """Scratch numbers per lane of `drive_steps` and `drive_closed_loops`."""
        return dynamics_numbers(self.model, self.contacts) + step_numbers(self.model) + 2 * self.nx + self.nu + self.ndx

    def contact_forces(self, xs: np.ndarray, us: np.ndarray) -> np.ndarray:
        """Forces on the robot (N, C, 3), N, at the knots xs (N or N+1, nx), us (N, nu), in the axes that each contact
        asks for."""
        return self._contact_dynamics(xs, us).f

    def contact_moments(self, xs: np.ndarray, us: np.ndarray) -> np.ndarray:
        """Moments on rigid feet (N, C, 3), N m, about the origins of their frames, zero for points; as
        `contact_forces`."""
        return self._contact_dynamics(xs, us).moment

    def _contact_dynamics(self, xs, us):
        xs, us = self._knots(xs, us)
        q, v = np.split(xs[: len(us)], [self.nq], axis=1)
        return contact_dynamics(self.model, q, v, us @ self.actuation.B.T, self.contacts, self.contact_damping)

    # -------------------------------------------------------------------------------------------- expansions
    def _knots(self, xs, us):
        xs, us = np.ascontiguousarray(xs, float), np.ascontiguousarray(us, float)
        if us.ndim != 2 or us.shape[1] != self.nu:
            raise ValueError(f"us has shape {us.shape}; expected (N, {self.nu})")
        if xs.ndim != 2 or xs.shape[1] != self.nx or len(xs) not in (len(us), len(us) + 1):
            raise ValueError(f"xs has shape {xs.shape}; expected ({len(us)} or {len(us) + 1}, {self.nx})")
        return xs, us

    def linearize(self, xs: np.ndarray, us: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """fx (N, ndx, ndx) and fu (N, ndx, nu) at the knots xs (N or N+1, nx), us (N, nu)."""
        xs, us = self._knots(xs, us)
        N = len(us)
        fx, fu = np.empty((N, self.ndx, self.ndx)), np.empty((N, self.ndx, self.nu))
        numbers = linearization_numbers(self.model, self.contacts, self.nu, self.integrator == "rk4")
        launch(drive_linearization, N, numbers, *self.plant, xs, us, fx, fu)
        return fx, fu

    def hessian_products(self, xs, us, lam) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Hessian of lam_t' f per knot: Hxx (N, ndx, ndx), Hux (N, nu, ndx), Huu (N, nu, nu); lam (N, ndx)."""
        xs, us = self._knots(xs, us)
        lam = np.ascontiguousarray(lam, float)
        N = len(us)
        if lam.shape != (N, self.ndx):
            raise ValueError(f"lam has shape {lam.shape}; expected ({N}, {self.ndx})")
        H = np.empty((N, self.ndx, self.ndx)), np.empty((N, self.nu, self.ndx)), np.empty((N, self.nu, self.nu))
        numbers = curvature_driver_numbers(self.model, self.contacts, self.nu, self.integrator == "rk4")
        launch(drive_curvature, N, numbers, *self.plant, xs, us, lam, *H)
        return H

    def hessians(self, xs, us) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Full tensors fxx (N, ndx, ndx, ndx), fux (N, ndx, nu, ndx), fuu (N, ndx, nu, nu), output index first.

        Euler steps of ordinary joints without contacts take them from the IDSVA-SO tensors; elsewhere row i is
        `hessian_products` with the unit multiplier e_i.
        """
        xs, us = self._knots(xs, us)
        N = len(us)
        if self.euclidean and self.integrator != "rk4" and not self.in_contact:
            return self._euler_tensors(xs[:N], us)
        unit = np.tile(np.eye(self.ndx), (N, 1))
        H = self.hessian_products(np.repeat(xs[:N], self.ndx, 0), np.repeat(us, self.ndx, 0), unit)
        fxx, fux, fuu = (X.reshape(N, self.ndx, *X.shape[1:]) for X in H)
        return fxx, fux, fuu

    def _euler_tensors(self, xs, us):
        N, n, h = len(us), self.nv, self.dt
        q, v, B = xs[:, :n], xs[:, n:], self.actuation.B
        T = forward_dynamics_second_derivatives(self.model, q, v, us @ B.T)
        fxx = np.zeros((N, 2 * n, 2 * n, 2 * n))
        fux = np.zeros((N, 2 * n, self.nu, 2 * n))
        fxx[:, n:, :n, :n] = 0.5 * h * (T.d2a_dqdq + T.d2a_dqdq.swapaxes(2, 3))
        fxx[:, n:, :n, n:] = h * T.d2a_dqdv
        fxx[:, n:, n:, :n] = h * T.d2a_dqdv.swapaxes(2, 3)
        fxx[:, n:, n:, n:] = h * T.d2a_dvdv
        fux[:, n:, :, :n] = h * (T.d2a_dqdtau @ B).swapaxes(2, 3)
        if self.semi_implicit:
            fxx[:, :n], fux[:, :n] = h * fxx[:, n:], h * fux[:, n:]
        return fxx, fux, np.zeros((N, 2 * n, self.nu, self.nu))
