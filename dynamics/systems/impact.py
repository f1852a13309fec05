"""Steps, closed loops and expansions of impacts, q+ = q and v+ that of `contact_impulse`, knots or candidates in lanes.

With z = (dq, dv) the step's differential is [[1, 0], [dv+/dq, dv+/dv]], and the Hessian of lam'(dq+, dv+) that of
lam_v'v+, whose block qq is symmetrised for exponential coordinates.  Controls have no effect.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from dynamics.contacts.closing import in_world_axes
from dynamics.contacts.contact_set import Contact, ContactSet, as_contact_set, on_full_model
from dynamics.contacts.derivatives import ContactFirstOrder
from dynamics.contacts.dynamics import ContactWorkspace
from dynamics.contacts.hessian import ContactSecondOrder
from dynamics.contacts.impulses import (
    as_restitution,
    contact_impulse,
    contact_impulse_first_order,
    contact_impulse_hessian_kernel,
    contact_impulse_kernel,
)
from dynamics.derivatives.implicit_function import store_state_blocks
from dynamics.model.actuation import actuation_map
from dynamics.model.kernel_model import kernel_model
from dynamics.model.knot_driver import nv
from dynamics.model.mimic import EXPANSION, Recorded
from dynamics.model.model import RigidBodyModel, check_inertias
from dynamics.model.subject import Subject
from dynamics.simd import (
    LANES,
    align_stack,
    driver,
    gather,
    kernel,
    launch,
    load,
    scatter,
    scatter_blocks,
    span,
    splat,
    store,
)
from dynamics.simd.array_loops import fill
from dynamics.simd.lane_algebra import add_transpose, scale_into
from dynamics.simd.lane_blocks import lanes, part, slicing
from dynamics.simd.prepared_calls import PreparedCalls, PreparedLaunch
from dynamics.simd.span import by_reference
from dynamics.systems.discrete_system import ClosedLoops
from dynamics.systems.inertial_gradient import of_impacts
from dynamics.systems.robot_system import RobotSystem, check_same_joints, contacts_of
from dynamics.systems.rollouts import close_gap, feedback, start_lanes
from dynamics.systems.steps import nq


@kernel
def impact_step(m, contacts, restitution, x, w, x_next):
    """x_next = (q, v+) from x = (q, v)."""
    align_stack(x)
    n = m.dof_body.size
    nq = x.shape[0] - n
    w.Y[:] = 0.0
    contact_impulse_kernel(m, contacts, x[:nq], x[nq:], restitution, w)
    scale_into(nq, x_next, 1.0, x)
    scale_into(n, x_next[nq:], 1.0, w.a)


class ImpactLanes(NamedTuple):
    """Scratch of `drive_impacts`."""

    w: ContactWorkspace = part(ContactWorkspace)
    x: np.ndarray = lanes(nq + nv)
    x_next: np.ndarray = lanes(nq + nv)


class ImpactLoopLanes(NamedTuple):
    """Scratch of `drive_impact_loops`."""

    w: ContactWorkspace = part(ContactWorkspace)
    law: np.ndarray = lanes(nq + 3 * nv)  # of `feedback`, or `close_gap`


class ImpactExpansionLanes(NamedTuple):
    """Scratch of the expansions."""

    w: ContactWorkspace = part(ContactWorkspace)
    d: ContactFirstOrder = part(ContactFirstOrder)
    x: np.ndarray = lanes(nq + nv)
    jump: np.ndarray = lanes(nv)  # v+ - v, and v+ + restitution v
    mean: np.ndarray = lanes(nv)
    F: np.ndarray = lanes(4 * nv * nv)  # or the Hessian
    lam: np.ndarray = lanes(2 * nv)
    h: ContactSecondOrder = part(ContactSecondOrder)


_slice_impacts, impacts_size = slicing(ImpactLanes)
_slice_loops, impact_loops_size = slicing(ImpactLoopLanes)
_slice_expansion, impact_expansion_size = slicing(ImpactExpansionLanes)


@driver
def drive_impacts(first, last, work, block, contacts, restitution, x, x_next):
    """x_next[t] = f(x[t]), knots in lanes."""
    m = kernel_model(block)
    contacts = by_reference(contacts)
    w, _ = _slice_impacts(m, x.shape[1] - m.dof_body.size, contacts, work)
    for c in range(first, last):
        gather(x, c * LANES, w.x)
        impact_step(m, contacts, restitution, w.x, w.w, w.x_next)
        scatter(w.x_next, c * LANES, x_next)


@driver
def drive_impact_loops(first, last, work, block, contacts, restitution, manifold, loops, start, stop, X, U):
    """The impacts of closed loops, as `drive_closed_loops`; the controls follow the same law."""
    m, contacts, loops = kernel_model(block), by_reference(contacts), by_reference(loops)
    w, _ = _slice_loops(m, X.shape[2] - m.dof_body.size, contacts, work)
    for c in range(first, last):
        alpha = load(loops.alphas, c)
        if start == 0:
            start_lanes(m, manifold, loops, alpha, w.law, span(X[c, 0]))
        for t in range(start, stop):
            x, u, x_next = span(X[c, t]), span(U[c, t]), span(X[c, t + 1])
            feedback(m, manifold, loops, t, c, w.law, x, u, X, U)
            impact_step(m, contacts, restitution, x, w.w, x_next)
            close_gap(m, manifold, loops.gaps, t + 1, alpha, x_next, w.law)


@driver
def drive_impact_linearization(first, last, work, block, contacts, restitution, x, fx):
    """fx[t] at x[t], knots in lanes."""
    m = kernel_model(block)
    contacts = by_reference(contacts)
    n = m.dof_body.size
    nq = x.shape[1] - n
    w, _ = _slice_expansion(m, nq, contacts, work)
    F, d = w.F, w.d
    for c in range(first, last):
        gather(x[: fx.shape[0]], c * LANES, w.x)
        contact_impulse_first_order(m, contacts, w.x[:nq], w.x[nq:], restitution, w.w, d, w.jump, w.mean)
        F[:] = 0.0
        for i in range(n):
            store(F, i * 2 * n + i, splat(F, 1.0))
            scale_into(n, F[(n + i) * 2 * n :], 1.0, d.Gq[i * n :])
            scale_into(n, F[(n + i) * 2 * n + n :], 1.0, d.Gv[i * n :])
        scatter_blocks(F, c * LANES, 2 * n, 2 * n, 0, fx)


@driver
def drive_impact_curvature(first, last, work, block, contacts, restitution, x, lam, Hxx):
    """Hxx[t]: Hessian of lam[t]'f at x[t], knots in lanes."""
    m = kernel_model(block)
    contacts = by_reference(contacts)
    n = m.dof_body.size
    nq = x.shape[1] - n
    w, _ = _slice_expansion(m, nq, contacts, work)
    h = w.h
    for c in range(first, last):
        gather(x[: Hxx.shape[0]], c * LANES, w.x)
        gather(lam, c * LANES, w.lam)
        h.y[:] = 0.0
        scale_into(n, h.y, 1.0, w.lam[n:])
        contact_impulse_hessian_kernel(m, contacts, w.x[:nq], w.x[nq:], restitution, w.w, w.d, h, w.jump, w.mean)
        add_transpose(n, 0.5, h.Hqq)
        store_state_blocks(None, n, 2 * n, h, w.F)
        scatter_blocks(w.F, c * LANES, 2 * n, 2 * n, 0, Hxx)


# --------------------------------------------------------------------------------------------
# Contacts that stop or bounce instantaneously: one step of a system without duration.


class Impact(RobotSystem):
    """x+ = (q, v+) with the velocities after the impulses at the contacts; see `contact_impulse`.

    Parameters
    ----------
    model : RigidBodyModel
    contacts : sequence of `PointContact` and `RigidContact`, or a `ContactSet`, at least one; gains and references are
        not used
    actuation : as for `RigidBodySystem`; it gives the number of controls, which have no effect here
    restitution : 0 (the contacts stop) to 1
    contact_damping : at least zero, 1/kg, as in `contact_impulse`; for dependent contacts

    Raises
    ------
    ValueError, TypeError : no contacts, a restitution outside of [0, 1], a negative damping; otherwise as for
        `RigidBodySystem`.

    Notes
    -----
    `dt` is zero.  Methods and conventions are those of `RigidBodySystem`.
    """

    frame_actuators = None
    """Actuators on frames do not act during an impact."""

    def __init__(
        self,
        model: RigidBodyModel,
        contacts: ContactSet | Sequence[Contact],
        actuation: str | ArrayLike | None = None,
        restitution: float = 0.0,
        contact_damping: float = 0.0,
    ) -> None:
        given, damping = as_contact_set(check_inertias(model), contacts), (contact_damping, "contact_damping")
        self._given = contacts, actuation, restitution, contact_damping
        self.contacts = on_full_model(model, given, *damping, dt=0.0)
        if not len(self.contacts):
            raise ValueError("contacts: got none, expected at least one for an impact")
        super().__init__(model, 0.0, actuation_map(model, actuation), given.places)
        self.restitution = as_restitution(restitution)
        self.semi_implicit, self.semi_implicit_from = self.euclidean, self.first_plain_row()  # with dt = 0
        self.plant_model, self.contact_arrays = self.contacts.impulsive(*damping)
        self._struck = self.plant_model.block, self.contact_arrays, self.restitution
        self.contact_damping = self.contact_arrays.damping
        struck = self.contacts.frames, self.contact_arrays, self.plant_model, self.restitution
        self._serves += (Subject(model, self.actuation.B, *struck),)

    def __repr__(self) -> str:
        return f"Impact({self.model!r}, {self.contacts!r}, restitution={self.restitution:g})"

    def with_model(self, model: RigidBodyModel) -> Impact:
        """The same impact of another robot; see `RigidBodySystem.with_model`."""
        check_same_joints(self.model, model)
        return Impact(model, contacts_of(model, self._given[0]), *self._given[1:])

    def timed(self) -> Impact:
        """The same impact with one more control, which has no effect either."""
        new = copy.copy(self)
        new.nu = self.nu + 1
        return new

    def write_steps(self, xs: np.ndarray, us: np.ndarray, out: np.ndarray) -> None:
        """out[t] = f(xs[t])."""
        states = self.joint_map.full_states(out)
        self._launch(drive_impacts, impacts_size, len(xs), self.joint_map.full_x(xs), states)
        self.joint_map.keep_states(states, out)

    def roll(self, loops: ClosedLoops, start: int, stop: int, X: np.ndarray, U: np.ndarray) -> None:
        """Closed loops over the knots start <= t < stop; see `RobotSystem.roll`."""
        loops, states = self.joint_map.full_loops(loops, start, X)
        given = None if self.euclidean else True, loops, start, stop, states, U
        self._launch(drive_impact_loops, impact_loops_size, loops.alphas.size, *given)
        self.joint_map.keep_rollout(states, start, stop, X)

    def prepared_steps(self, xs: np.ndarray, us: np.ndarray, following: np.ndarray) -> PreparedCalls:
        """See `trajopt.capabilities.Expansions`."""
        calls, states = Recorded(), self.joint_map.full_states(following)
        x = self.joint_map.full_x(xs, calls.run)
        calls.append(self._launch(drive_impacts, impacts_size, len(us), x, states, call=PreparedLaunch))
        self.joint_map.keep_states(states, following, calls.run)
        return PreparedCalls(*calls)

    def prepared_roll(
        self, loops: ClosedLoops, start: int, stop: int, X: np.ndarray, U: np.ndarray
    ) -> Callable[[], Any] | None:
        """See `DiscreteSystem.prepared_roll`."""
        calls = Recorded()
        loops, states = self.joint_map.full_loops(loops, start, X, calls.run)
        given = None if self.euclidean else True, loops, start, stop, states, U
        roll = self._launch(drive_impact_loops, impact_loops_size, loops.alphas.size, *given, call=PreparedLaunch)
        calls.append(roll)
        self.joint_map.keep_rollout(states, start, stop, X, calls.run)
        return PreparedCalls(*calls)

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
        calls, enter, axes = Recorded(), self.joint_map, (EXPANSION[0], EXPANSION[2])
        N, size, x, blocks = len(us), impact_expansion_size, enter.full_x(xs, calls.run), (fx, *H[:1])
        for block in (fu, *H[1:]):
            calls.run(fill, block, 0.0)
        full = enter.receivers(axes, blocks)
        calls.append(self._launch(drive_impact_linearization, size, N, x, full[0], call=PreparedLaunch))
        if lam is not None:
            given = x, enter.full_multipliers(lam, calls.run), full[1]
            calls.append(self._launch(drive_impact_curvature, size, N, *given, call=PreparedLaunch))
        enter.deliver(axes, full, blocks, run=calls.run)
        return PreparedCalls(*calls)

    def write_linearization(self, xs: np.ndarray, us: np.ndarray, fx: np.ndarray, fu: np.ndarray) -> None:
        """Write the results of `linearize`; fu = 0."""
        fu[...] = 0.0
        full, x = self.joint_map.receivers(EXPANSION, (fx,)), self.joint_map.full_x(xs)
        self._launch(drive_impact_linearization, impact_expansion_size, len(us), x, *full)
        self.joint_map.deliver(EXPANSION, full, (fx,))

    def write_hessian_products(self, xs: np.ndarray, us: np.ndarray, lam: np.ndarray, *H: np.ndarray) -> None:
        """Write the results of `hessian_products`; Hux = 0, Huu = 0."""
        Hxx, Hux, Huu = H
        Hux[...], Huu[...] = 0.0, 0.0
        full = self.joint_map.receivers(EXPANSION[2:], (Hxx,))
        points = self.joint_map.full_x(xs), self.joint_map.full_multipliers(lam)
        self._launch(drive_impact_curvature, impact_expansion_size, len(us), *points, *full)
        self.joint_map.deliver(EXPANSION[2:], full, (Hxx,))

    def _launch(
        self,
        drive: Callable[..., Any],
        workspace_size: Callable[..., int],
        knots: int,
        *rest: Any,
        call: Callable[..., Any] = launch,
    ) -> Any:
        """Run a driver over the knots, or prepare that."""
        size = workspace_size(self.full.arrays, contacts=self.contact_arrays, nq=self.full.nq)
        return call(drive, knots, size, *self._struck, *rest)

    def inertial_gradient(self, xs: np.ndarray, us: np.ndarray, lam: np.ndarray) -> np.ndarray:
        """Result of `parameter_gradient`."""
        return of_impacts(self, xs, us, lam)

    def contact_impulses(self, xs: np.ndarray) -> np.ndarray:
        """Impulses on the robot (K, C, 3), N s, at the states before impact, xs (K, nx), in world axes for all
        contacts."""
        q, v = np.split(self.joint_map.full_x(xs), [self.full.nq], axis=1)
        struck = contact_impulse(self.full, q, v, self.contacts.world_aligned, self.restitution, self.contact_damping)
        return in_world_axes(self.contacts, q, struck.f)[0]
