"""A robot under an integrator: the discrete-time system that trajectory optimization works on."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from dynamics.actuation import actuation_map
from dynamics.algorithms.mass_matrix import inverse_mass_matrix
from dynamics.contacts.contact_set import Contact, ContactSet, as_contact_set
from dynamics.contacts.dynamics import dynamics_of_set
from dynamics.contacts.legs import leg_arrays
from dynamics.derivatives.forward_dynamics import forward_dynamics_second_derivatives
from dynamics.joint_friction import friction_forces
from dynamics.model import RigidBodyModel
from dynamics.simd import launch
from dynamics.subject import Subject
from dynamics.systems.acceleration_control import AccelerationControl
from dynamics.systems.curvature import Expansion, drive_expansion, expansion_numbers
from dynamics.systems.discrete_system import ClosedLoops
from dynamics.systems.linearization import drive_linearization, linearization_numbers
from dynamics.systems.plant_model import plant_model
from dynamics.systems.quasi_static import check_references, holding_controls
from dynamics.systems.robot_system import RobotSystem
from dynamics.systems.rollouts import drive_closed_loops, drive_steps
from dynamics.systems.steps import INTEGRATORS, Plant, integrator_of, step_numbers
from dynamics.systems.workspace import dynamics_numbers
from dynamics.validation import as_array, as_batch, check_choice, check_time_step

FORMULATIONS = ("forward", "inverse")


class RigidBodySystem(RobotSystem):
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
    joint_friction : bool
        Whether the joints resist motion with the model's `damping` d and Coulomb `friction` c, per degree of freedom
        d v + c v/sqrt(v^2 + e^2).  Euler steps take damping implicitly, d v+ in place of d v: none is too stiff.
    friction_speed : e, rad/s or m/s, positive; by default 0.01, more where the step is too long for it
        (`system.plant_model.arrays.joint_friction` has d, c, e^2)

    Raises
    ------
    ValueError : names the argument, what came and what was expected.
    TypeError : an entry of `contacts` that is no contact.

    Warns
    -----
    RuntimeWarning : damping that RK4 cannot step.

    Notes
    -----
    Tangent vectors are dx = [dq; dv], ndx = 2 nv.  Expansions are those of the step in exponential coordinates at both
    ends: F is its differential, and `hessian_products` returns symmetric H with
    lam'dx+ = lam'F z + 1/2 z'H z + O(z^3).  All knots are evaluated in one call, LANES at a time, over all threads.
    Steps and rollouts of robots on legs of three joints each, held at points of their last bodies, eliminate the legs
    (`legs`, None for other robots), which gives the accelerations of `contact_dynamics` to ten digits or more.
    """

    def __init__(
        self,
        model: RigidBodyModel,
        dt: float,
        integrator: str = "semi_implicit_euler",
        actuation: str | ArrayLike | None = None,
        contacts: ContactSet | Sequence[Contact] = (),
        formulation: str = "forward",
        contact_damping: float = 0.0,
        joint_friction: bool = True,
        friction_speed: float | None = None,
    ) -> None:
        check_time_step(dt)
        check_choice("integrator", integrator, INTEGRATORS)
        check_choice("formulation", formulation, FORMULATIONS)
        self.contacts = as_contact_set(model, contacts)
        self.contact_arrays = self.contacts.damped(contact_damping, "contact_damping")
        self.contact_damping = self.contact_arrays.damping
        if self.contact_damping != 0.0 and not self.in_contact:
            raise ValueError(f"contact_damping: got {contact_damping}, expected zero for a robot without contacts")
        super().__init__(model, dt, actuation_map(model, actuation), self.contacts.frames)
        self.integrator = integrator
        semi, rk4 = integrator == "semi_implicit_euler", integrator == "rk4"
        self.semi_implicit = self.euclidean and semi
        self.semi_implicit_from = self.first_plain_row() if semi else None
        B, skip = self.actuation
        self.formulation = formulation
        self.plant_model = plant_model(model, dt, rk4, joint_friction, friction_speed)
        held = self.contacts.frames, self.contact_arrays
        self._serves += (Subject(model, self.actuation.B, *held, self.plant_model),)
        self.acceleration_control = self._acceleration_control() if formulation == "inverse" else None
        self.legs = leg_arrays(self.plant_model, self.contacts, self.contact_damping)
        self._rollout_numbers = self.rollout_numbers()
        self._no_knots = np.empty((0, self.ndx, self.ndx)), np.empty((0, self.ndx, self.nu))
        held, manifold = self.contact_arrays if self.in_contact else None, None if self.euclidean else True
        plant = Plant(held, B, skip, manifold, integrator_of(integrator, not self.euclidean, self.dt))
        block = self.plant_model.block
        self.plant = block, plant
        self.motion_plant = block, plant if self.legs is None else plant._replace(contacts=self.legs)

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
        return AccelerationControl(self.plant_model, self.actuation, self.dt, self.integrator == "semi_implicit_euler")

    @property
    def in_contact(self) -> bool:
        """Whether the system has contacts."""
        return len(self.contacts) > 0

    def __repr__(self) -> str:
        return f"RigidBodySystem({self.model!r}, dt={self.dt:g}, integrator={self.integrator!r}, nu={self.nu})"

    # -------------------------------------------------------------------------------------------- motion
    def write_steps(self, xs: np.ndarray, us: np.ndarray, out: np.ndarray) -> None:
        """out[t] = f(xs[t], us[t])."""
        launch(drive_steps, len(xs), self._rollout_numbers, *self.motion_plant, xs, us, out)

    def roll(self, loops: ClosedLoops, start: int, stop: int, X: np.ndarray, U: np.ndarray) -> None:
        """Closed loops over the knots start <= t < stop; see `RobotSystem.roll`."""
        launch(
            drive_closed_loops, loops.alphas.size, self._rollout_numbers, *self.motion_plant, loops, start, stop, X, U
        )  # fmt: skip

    def rollout_numbers(self) -> int:
        """Scratch numbers per lane of steps and rollouts."""
        scratch = dynamics_numbers(self.model, self.contacts, self.legs)
        return scratch + step_numbers(self.model) + 2 * self.nx + self.nu

    def contact_forces(self, xs: np.ndarray, us: np.ndarray) -> np.ndarray:
        """Forces on the robot (N, C, 3), N, at the knots xs (N or N+1, nx), us (N, nu), world axes, whatever axes the
        contacts ask for."""
        return self._contact_dynamics(xs, us).f

    def contact_moments(self, xs: np.ndarray, us: np.ndarray) -> np.ndarray:
        """Moments on rigid feet (N, C, 3), N m, about the origins of their frames, zero for points; as
        `contact_forces`."""
        return self._contact_dynamics(xs, us).moment

    def _contact_dynamics(self, xs, us):
        xs, us = self._knots(xs, us)
        q, v = np.split(xs[: len(us)], [self.nq], axis=1)
        tau = us @ self.actuation.B.T - friction_forces(self.plant_model, v)[0]
        return dynamics_of_set(self.plant_model, q, v, tau, self.contacts.world_aligned, self.contact_damping)

    def quasi_static(self, x: ArrayLike) -> np.ndarray:
        """Controls (nu,) or (K, nu) that hold the robot still at the configuration of x (nx,) or (K, nx).

        The contact forces and moments f are the least that carry the part of gravity which no control can, N'J'f = N'g
        with the columns of N a basis of the null space of B';  u = B^+ (g - J'f).  What nothing can carry is left.
        """
        xs, single = as_batch("x", x, self.nx)
        self.check_state(xs)
        us = holding_controls(self.model, xs[:, : self.nq], self.actuation.B, self.contacts)
        return us[0] if single else us

    def check_start(self, x0: ArrayLike) -> None:
        """Raise ValueError if at x0 (nx,) a contact's frame is more than a millimetre away from its reference, or a
        rigid foot turned by more than a milliradian."""
        check_references(self.model, as_array("x0", x0, (self.nx,))[: self.nq], self.contacts)

    # -------------------------------------------------------------------------------------------- expansions
    def write_linearization(self, xs: np.ndarray, us: np.ndarray, fx: np.ndarray, fu: np.ndarray) -> None:
        """What `linearize` returns."""
        numbers = linearization_numbers(self.model, self.contacts, self.nu, self.integrator == "rk4")
        launch(drive_linearization, len(us), numbers, *self.plant, xs, us, fx, fu)

    def write_hessian_products(self, xs: np.ndarray, us: np.ndarray, lam: np.ndarray, *H: np.ndarray) -> None:
        """What `hessian_products` returns."""
        self.write_expansion(xs, us, lam, self._no_knots[0], self._no_knots[1], *H)

    def write_expansion(
        self, xs: np.ndarray, us: np.ndarray, lam: np.ndarray, fx: np.ndarray, fu: np.ndarray, *H: np.ndarray
    ) -> None:
        """What `linearize` and `hessian_products` return, from one evaluation of the dynamics."""
        numbers = expansion_numbers(self.model, self.contacts, self.nu, self.integrator == "rk4")
        launch(drive_expansion, len(us), numbers, *self.plant, xs, us, lam, Expansion(fx, fu, *H))

    def hessians(self, xs: np.ndarray, us: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Full tensors fxx (N, ndx, ndx, ndx), fux (N, ndx, nu, ndx), fuu (N, ndx, nu, nu), output index first.

        Euler steps of ordinary joints without contacts take them from the IDSVA-SO tensors; elsewhere row i is
        `hessian_products` with the unit multiplier e_i.
        """
        if self.euclidean and self.integrator != "rk4" and not self.in_contact:
            xs, us = self._knots(xs, us)
            return self._euler_tensors(xs[: len(us)], us)
        return super().hessians(xs, us)

    def _euler_tensors(self, xs, us):
        N, n, h = len(us), self.nv, self.dt
        q, v, B = xs[:, :n], xs[:, n:], self.actuation.B
        force, _, bend = friction_forces(self.plant_model, v)
        T = forward_dynamics_second_derivatives(self.plant_model, q, v, us @ B.T - force)
        fxx = np.zeros((N, 2 * n, 2 * n, 2 * n))
        fux = np.zeros((N, 2 * n, self.nu, 2 * n))
        fxx[:, n:, :n, :n] = 0.5 * h * (T.d2a_dqdq + T.d2a_dqdq.swapaxes(2, 3))
        fxx[:, n:, :n, n:] = h * T.d2a_dqdv
        fxx[:, n:, n:, :n] = h * T.d2a_dqdv.swapaxes(2, 3)
        fxx[:, n:, n:, n:] = h * T.d2a_dvdv
        if bend.any():
            diagonal = np.einsum("tikk->tik", fxx[:, n:, n:, n:])
            diagonal -= h * inverse_mass_matrix(self.plant_model, q) * bend[:, None]
        fux[:, n:, :, :n] = h * (T.d2a_dqdtau @ B).swapaxes(2, 3)
        if self.semi_implicit:
            fxx[:, :n], fux[:, :n] = h * fxx[:, n:], h * fux[:, n:]
        return fxx, fux, np.zeros((N, 2 * n, self.nu, self.nu))
