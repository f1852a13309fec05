"""Full tensors of second derivatives of Euler steps of ordinary joints without contacts, from those of IDSVA-SO."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dynamics.algorithms.mass_matrix import inverse_mass_matrix
from dynamics.contacts.closing import in_world_axes
from dynamics.contacts.contact_set import Contact, ContactSet, on_full_model
from dynamics.contacts.dynamics import dynamics_of_set
from dynamics.derivatives.forward_dynamics import forward_dynamics_second_derivatives
from dynamics.model.actuation import actuation_map
from dynamics.model.joint_forces import joint_forces
from dynamics.model.mimic import EXPANSION, Recorded
from dynamics.model.model import RigidBodyModel, check_inertias
from dynamics.model.subject import Subject
from dynamics.simd import launch
from dynamics.simd.prepared_calls import PreparedCalls, PreparedLaunch
from dynamics.systems.acceleration_control import AccelerationControl
from dynamics.systems.discrete_system import ClosedLoops
from dynamics.systems.expansion import (
    Expansion,
    drive_expansion,
    drive_linearization,
    expansion_size,
    linearization_size,
)
from dynamics.systems.frame_forces import force_map, frame_actuators
from dynamics.systems.inertial_gradient import of_steps
from dynamics.systems.robot_system import (
    RobotSystem,
    check_references,
    check_same_joints,
    check_substeps,
    contacts_of,
    holding_controls,
    plant_model,
)
from dynamics.systems.rollouts import drive_closed_loops, drive_steps, rollout_size
from dynamics.systems.steps import TABLEAUS, FixedDuration, Plant, Tableau, expanded_as
from dynamics.validation import as_array, as_batch, as_choice, as_positive, as_whole_number


def euler_tensors(system: RigidBodySystem, xs: np.ndarray, us: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """fxx (N, ndx, ndx, ndx), fux (N, ndx, nu, ndx), fuu (N, ndx, nu, nu) at xs (N, nx), us (N, nu)."""
    N, n, nu, h = len(us), system.nv, system.nu, system.dt
    q, v, B = xs[:, :n], xs[:, n:], system.actuation.B
    force, _, bend = joint_forces(system.plant_model, q, v)
    T = forward_dynamics_second_derivatives(system.plant_model, q, v, us @ B.T - force)
    fxx = np.zeros((N, 2 * n, 2 * n, 2 * n))
    fux = np.zeros((N, 2 * n, nu, 2 * n))
    fxx[:, n:, :n, :n] = 0.5 * h * (T.d2a_dqdq + T.d2a_dqdq.swapaxes(2, 3))
    fxx[:, n:, :n, n:] = h * T.d2a_dqdv
    fxx[:, n:, n:, :n] = h * T.d2a_dqdv.swapaxes(2, 3)
    fxx[:, n:, n:, n:] = h * T.d2a_dvdv
    if bend.any():
        diagonal = np.einsum("tikk->tik", fxx[:, n:, n:, n:])
        diagonal -= h * inverse_mass_matrix(system.plant_model, q) * bend[:, None]
    fux[:, n:, :, :n] = h * (T.d2a_dqdtau @ B).swapaxes(2, 3)
    if system.semi_implicit:
        fxx[:, :n], fux[:, :n] = h * fxx[:, n:], h * fux[:, n:]
    return fxx, fux, np.zeros((N, 2 * n, nu, nu))


# --------------------------------------------------------------------------------------------
# A robot under an integrator: the discrete-time system that trajectory optimization works on.

FORMULATIONS = ("forward", "inverse")
ORDERS = {"explicit_euler": 1, "semi_implicit_euler": 1, "rk4": 4}
"""Convergence order of each integrator."""


class RigidBodySystem(RobotSystem):
    """x+ = f(x, u) for a robot with state x = [q; v] and torques tau = B u.

    Parameters
    ----------
    model : RigidBodyModel
    dt : float, time step [s], positive
    integrator : "semi_implicit_euler" (default), "explicit_euler" or "rk4"
        The configuration moves along its manifold: q+ = q (+) h v+, q (+) h v, or four Munthe-Kaas stages.
    actuation : None (a torque per degree of freedom), "floating_base" (all but the first six), "model" (its actuators,
        with their gears, names and limits), or B (nv, nu)
    contacts : sequence of `PointContact`, `RigidContact`, `LoopConstraint` and `JointCoupling`, or a `ContactSet`
        Points and feet that are held, loops that are closed: accelerations are those of `contact_dynamics`.  It is the
        accelerations that are constrained, so without gains the contacts drift.  The model's own `loops` and
        `couplings` come after them.
    formulation : "forward" (default) or "inverse"
        "inverse": solvers take accelerations for controls and the torques as an output; everything that they are given
        and return is in torques all the same.  For an Euler integrator, joints of one degree of freedom, and as many
        controls as joints; without contacts.
    contact_damping : at least zero, 1/kg, as in `contact_dynamics`; for contacts that depend on others
    joint_friction : bool
        Whether the joints resist motion with the model's `damping` d and Coulomb `friction` c, per degree of freedom
        d v + c v/sqrt(v^2 + e^2).  Euler steps take damping implicitly, d v+ in place of d v: none is too stiff.
    friction_speed : e, rad/s or m/s, positive, or (nv,) of all joints; by default 0.01, more where the step is too long
        for it (`system.plant_model.arrays.joint_friction` has d, c, e^2)

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

    Examples
    --------
    >>> robot = dynamics.load_urdf(problems.model_path("arm6"))
    >>> system = dynamics.RigidBodySystem(robot, dt=0.01, integrator="rk4")
    >>> x0 = system.state(q=[0.0, -1.2, 1.6, -1.9, -1.6, 0.0])  # at rest
    >>> xs = system.rollout(x0, np.tile(dynamics.gravity_forces(robot, x0[:6]), (50, 1)))
    >>> np.allclose(xs, x0)  # these torques hold it
    True
    """

    restitution: float | None = None
    """Its contacts carry forces; those of an `Impact` are struck and have one."""

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
        friction_speed: float | np.ndarray | None = None,
    ) -> None:
        as_positive("dt", dt, "seconds")
        as_choice("integrator", integrator, TABLEAUS)
        as_choice("formulation", formulation, FORMULATIONS)
        held = tuple(contacts) if isinstance(contacts, list) else contacts
        self._given = actuation, held, contact_damping, joint_friction
        self.contacts = on_full_model(check_inertias(model), contacts, contact_damping, "contact_damping", dt)
        self.contact_arrays = self.contacts.damped(contact_damping, "contact_damping")
        self.contact_damping = self.contact_arrays.damping
        if self.contact_damping != 0.0 and not self.in_contact:
            raise ValueError(f"contact_damping: got {contact_damping}, expected zero for a robot without contacts")
        super().__init__(model, dt, actuation_map(model, actuation), self.contacts.places)
        self.integrator = integrator
        semi, rk4 = integrator == "semi_implicit_euler", integrator == "rk4"
        self.semi_implicit = self.euclidean and semi
        self.semi_implicit_from = self.first_plain_row() if semi else None
        B, skip, on_frames = self.full_actuation
        self.formulation = formulation
        self.frame_actuators = frame_actuators(self.full) if on_frames else None
        self.plant_model = plant_model(self.full, dt, rk4, joint_friction, friction_speed)
        held = self.contacts.frames, self.contact_arrays
        if self.frame_actuators is None:  # no residual of contact forces knows these
            self._serves += (Subject(model, self.actuation.B, *held, self.plant_model),)
        self.acceleration_control = self._acceleration_control() if formulation == "inverse" else None
        self._no_knots = np.empty((0, self.ndx, self.ndx)), np.empty((0, self.ndx, self.nu))
        held, manifold = self.contact_arrays if self.in_contact else None, None if self.euclidean else True
        method, duration = Tableau(TABLEAUS[integrator]), FixedDuration(self.dt)
        self._take(Plant(held, B, skip, manifold, method, duration, self.frame_actuators))

    def _take(self, plant: Plant) -> None:
        """Become the system of this plant."""
        self.plant, self._sizes = (self.plant_model.block, plant), {}
        self._kind = expanded_as(plant, self.euclidean)

    def _launch(
        self,
        drive: Callable[..., Any],
        workspace_size: Callable[..., int],
        knots: int,
        *rest: Any,
        call: Callable[..., Any] = launch,
    ) -> Any:
        """Run a driver over the knots, or prepare that, with scratch that is counted at its first use."""
        size = self._sizes.get(drive.__name__)
        if size is None:
            size = workspace_size(self.full.arrays, nq=self.full.nq, nu=self.nu, p=self.plant[1])
            self._sizes[drive.__name__] = size
        return call(drive, knots, size, *self.plant, *rest)

    def _acceleration_control(self) -> AccelerationControl:
        B, lacking = self.actuation.B, []
        if not self.euclidean:
            lacking.append("joints of one degree of freedom")
        if self.integrator == "rk4":
            lacking.append("an Euler integrator")
        if self.model.mimics:
            lacking.append("no mimic joints")
        if B.shape[0] != B.shape[1] or np.linalg.matrix_rank(B) < len(B):
            lacking.append("an independent control for every degree of freedom")
        if self.contact_frames:
            lacking.append("no contacts")
        if self.frame_actuators is not None:
            lacking.append("actuators on joints alone")
        if lacking:
            raise ValueError(f"formulation: got 'inverse', expected {' and '.join(lacking)}")
        return AccelerationControl(self.plant_model, self.actuation, self.dt, self.integrator == "semi_implicit_euler")

    def timed(self) -> RigidBodySystem:
        """The same system whose last control, behind the others, is how long the step takes, s.

        Gains of contacts, and the part of damping that Euler steps take implicitly, stay those of `dt`.
        """
        new = copy.copy(self)
        new.nu = self.nu + 1
        new.semi_implicit, new.semi_implicit_from = False, None
        new._take(self.plant[1]._replace(duration=None))
        new._no_knots = self._no_knots[0], np.empty((0, self.ndx, new.nu))
        return new

    @property
    def free_duration(self) -> bool:
        """True if the last control is the duration of the step, s."""
        return self.plant[1].duration is None

    @property
    def in_contact(self) -> bool:
        """True if the system has contacts, or mimic joints, which are tied as joints in contact are."""
        return len(self.contacts) > 0

    def __repr__(self) -> str:
        return f"RigidBodySystem({self.model!r}, dt={self.dt:g}, integrator={self.integrator!r}, nu={self.nu})"

    # -------------------------------------------------------------------------------------------- others like it
    @property
    def integrator_order(self) -> int:
        """How fast the integrator's error falls with dt: with this power of it."""
        return ORDERS[self.integrator]

    def refined(self, substeps: int) -> RigidBodySystem:
        """The same robot, actuation, contacts and friction in RK4 steps of dt/substeps, with torques as controls.

        Raises ValueError for what is no whole number of at least 1, or too few for the damping of a joint.
        """
        substeps = as_whole_number("substeps", substeps, 1)
        check_substeps(self.full, self.plant_model, self.dt, substeps)
        return self._remade(self.model, self.dt / substeps, "rk4", "forward")

    def with_model(self, model: RigidBodyModel) -> RigidBodySystem:
        """The same system of another robot with the same joints and frames, as one with a payload.

        Raises TypeError or ValueError for one without these.
        """
        check_same_joints(self.model, model)
        return self._remade(model, self.dt, self.integrator, self.formulation)

    def _remade(self, model, dt, integrator, formulation) -> RigidBodySystem:
        actuation, contacts, damping, joint_friction = self._given
        actuation = actuation if actuation is None or isinstance(actuation, str) else self.actuation.B
        parameters, has_friction = self.plant_model.arrays.joint_friction, model.full.friction.any()
        speed = np.sqrt(parameters[:, 2]) if has_friction and self.full.friction.any() and len(parameters) else None
        held = contacts_of(model, contacts)
        return RigidBodySystem(model, dt, integrator, actuation, held, formulation, damping, joint_friction, speed)

    # -------------------------------------------------------------------------------------------- motion
    def write_steps(self, xs: np.ndarray, us: np.ndarray, out: np.ndarray) -> None:
        """out[t] = f(xs[t], us[t])."""
        states = self.joint_map.full_states(out)
        self._launch(drive_steps, rollout_size, len(xs), self.joint_map.full_x(xs), us, states)
        self.joint_map.keep_states(states, out)

    def prepared_steps(self, xs: np.ndarray, us: np.ndarray, following: np.ndarray) -> PreparedCalls:
        """See `trajopt.capabilities.Expansions`."""
        calls, states = Recorded(), self.joint_map.full_states(following)
        given = self.joint_map.full_x(xs, calls.run), us, states
        calls.append(self._launch(drive_steps, rollout_size, len(us), *given, call=PreparedLaunch))
        self.joint_map.keep_states(states, following, calls.run)
        return PreparedCalls(*calls)

    def roll(self, loops: ClosedLoops, start: int, stop: int, X: np.ndarray, U: np.ndarray) -> None:
        """Closed loops over the knots start <= t < stop; see `RobotSystem.roll`."""
        loops, states = self.joint_map.full_loops(loops, start, X)
        self._launch(drive_closed_loops, rollout_size, loops.alphas.size, loops, start, stop, states, U)
        self.joint_map.keep_rollout(states, start, stop, X)

    def prepared_roll(
        self, loops: ClosedLoops, start: int, stop: int, X: np.ndarray, U: np.ndarray
    ) -> Callable[[], Any] | None:
        """See `DiscreteSystem.prepared_roll`."""
        calls = Recorded()
        loops, states = self.joint_map.full_loops(loops, start, X, calls.run)
        rest = loops.alphas.size, loops, start, stop, states, U
        calls.append(self._launch(drive_closed_loops, rollout_size, *rest, call=PreparedLaunch))
        self.joint_map.keep_rollout(states, start, stop, X, calls.run)
        return PreparedCalls(*calls)

    def contact_forces(self, xs: np.ndarray, us: np.ndarray) -> np.ndarray:
        """Forces on the robot (N, C, 3), N, at the knots xs (N or N+1, nx), us (N, nu), world axes, whatever axes the
        contacts ask for."""
        return self._wrenches(xs, us)[0]

    def contact_moments(self, xs: np.ndarray, us: np.ndarray) -> np.ndarray:
        """Moments on rigid feet (N, C, 3), N m, about the origins of their frames, zero for points; as
        `contact_forces`."""
        return self._wrenches(xs, us)[1]

    def _wrenches(self, xs, us):
        xs, us = self._knots(xs, us)
        q, v = np.split(self.joint_map.full_x(xs[: len(us)]), [self.full.nq], axis=1)
        tau = us @ self.full_actuation.B.T - joint_forces(self.plant_model, q, v)[0]
        if self.frame_actuators is not None:
            tau += (force_map(self.full, q) @ us[:, :, None])[..., 0]
        found = dynamics_of_set(self.plant_model, q, v, tau, self.contacts.world_aligned, self.contact_damping)
        return in_world_axes(self.contacts, q, found.f, found.moment)

    def quasi_static(self, x: ArrayLike) -> np.ndarray:
        """Controls (nu,) or (K, nu) that hold the robot still at the configuration of x (nx,) or (K, nx).

        The contact forces and moments f are the least that carry the part of gravity which no control can, N'J'f = N'g
        with the columns of N a basis of the null space of B';  u = B^+ (g - J'f).  What nothing can carry is left.
        """
        xs, single = as_batch("x", x, self.nx)
        self.check_state(xs)
        q, B = self.model.full_configuration(xs[:, : self.nq]), self.full_actuation.B
        if self.frame_actuators is None:
            us = holding_controls(self.full, q, B, self.contacts)
        else:
            maps = zip(q, B + force_map(self.full, q), strict=True)
            us = np.concatenate([holding_controls(self.full, x[None], B, self.contacts) for x, B in maps])
        return us[0] if single else us

    def rests(self, q: np.ndarray, u: np.ndarray) -> bool:
        """Whether the robot stays at rest at q (nq,) under u (nu,): accelerations below 1e-6."""
        moved = self.step(self.state(q), u)[self.nq :]
        return bool(np.abs(moved).max() <= 1e-6 * self.dt)

    def check_start(self, x0: ArrayLike) -> None:
        """Raise ValueError if at x0 (nx,) a contact's frame is more than a millimetre away from its reference, a rigid
        foot turned by more than a milliradian, or a loop open or turned, or a coupling off, by more."""
        q = as_array("x0", x0, (self.nx,))[: self.nq]
        check_references(self.full, self.model.full_configuration(q), self.contacts)

    def inertial_gradient(self, xs: np.ndarray, us: np.ndarray, lam: np.ndarray) -> np.ndarray:
        """What `parameter_gradient` returns."""
        return of_steps(self, xs, us, lam)

    # -------------------------------------------------------------------------------------------- expansions
    def _linearization_size(self, *model: Any, **sizes: Any) -> int:
        return linearization_size(*model, kind=self._kind, **sizes)

    def _expansion_size(self, *model: Any, **sizes: Any) -> int:
        return expansion_size(*model, kind=self._kind, **sizes)

    def write_linearization(self, xs: np.ndarray, us: np.ndarray, fx: np.ndarray, fu: np.ndarray) -> None:
        """What `linearize` returns."""
        full, points = self.joint_map.receivers(EXPANSION, (fx, fu)), (self.joint_map.full_x(xs), us)
        self._launch(drive_linearization, self._linearization_size, len(us), self._kind, *points, *full)
        self.joint_map.deliver(EXPANSION, full, (fx, fu))

    def prepared_expansion(
        self,
        xs: np.ndarray,
        us: np.ndarray,
        fx: np.ndarray,
        fu: np.ndarray,
        lam: np.ndarray | None = None,
        *H: np.ndarray,
    ) -> Callable[[], Any] | None:
        """See `trajopt.capabilities.Expansions`."""
        calls, blocks = Recorded(), (fx, fu, *H)
        full, x = self.joint_map.receivers(EXPANSION, blocks), self.joint_map.full_x(xs, calls.run)
        if lam is None:
            first = self._linearization_size, len(us), self._kind, x, us, *full
            call = self._launch(drive_linearization, *first, call=PreparedLaunch)
        else:
            given = self._kind, x, us, self.joint_map.full_multipliers(lam, calls.run), Expansion(*full)
            call = self._launch(drive_expansion, self._expansion_size, len(us), *given, call=PreparedLaunch)
        calls.append(call)
        self.joint_map.deliver(EXPANSION, full, blocks, run=calls.run)
        return PreparedCalls(*calls)

    def write_hessian_products(self, xs: np.ndarray, us: np.ndarray, lam: np.ndarray, *H: np.ndarray) -> None:
        """What `hessian_products` returns."""
        self.write_expansion(xs, us, lam, self._no_knots[0], self._no_knots[1], *H)

    def write_expansion(
        self, xs: np.ndarray, us: np.ndarray, lam: np.ndarray, fx: np.ndarray, fu: np.ndarray, *H: np.ndarray
    ) -> None:
        """What `linearize` and `hessian_products` return, from one evaluation of the dynamics."""
        full = self.joint_map.receivers(EXPANSION, (fx, fu, *H))
        points = self.joint_map.full_x(xs), us, self.joint_map.full_multipliers(lam)
        self._launch(drive_expansion, self._expansion_size, len(us), self._kind, *points, Expansion(*full))
        self.joint_map.deliver(EXPANSION, full, (fx, fu, *H))

    def hessians(self, xs: np.ndarray, us: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Full tensors fxx (N, ndx, ndx, ndx), fux (N, ndx, nu, ndx), fuu (N, ndx, nu, nu), output index first.

        Euler steps of ordinary joints without contacts take them from the IDSVA-SO tensors; elsewhere row i is
        `hessian_products` with the unit multiplier e_i.
        """
        plain = not (self.in_contact or self.free_duration) and self.frame_actuators is None
        if plain and self.euclidean and self.integrator != "rk4":
            xs, us = self._knots(xs, us)
            return euler_tensors(self, xs[: len(us)], us)
        return super().hessians(xs, us)
