"""Contacts that stop, or bounce, in no time: one step of a system without duration."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import cast

import numpy as np
from numpy.typing import ArrayLike

from dynamics.actuation import actuation_map
from dynamics.contacts.closing import in_world_axes
from dynamics.contacts.contact_set import Contact, ContactSet, as_contact_set, of_full_robot, of_system
from dynamics.contacts.impulses import as_restitution, contact_impulse
from dynamics.model import RigidBodyModel
from dynamics.simd import launch
from dynamics.subject import Subject
from dynamics.systems.discrete_system import ClosedLoops
from dynamics.systems.impact_drivers import (
    drive_impact_curvature,
    drive_impact_linearization,
    drive_impact_loops,
    drive_impacts,
    impact_expansion_numbers,
    impact_numbers,
)
from dynamics.systems.inertial_gradient import of_impacts
from dynamics.systems.led_motion import LedMotion
from dynamics.systems.other_models import check_same_joints, contacts_of
from dynamics.systems.robot_system import RobotSystem


class Impact(RobotSystem):
    """x+ = (q, v+) with the velocities after the impulses at the contacts; see `contact_impulse`.

    Parameters
    ----------
    model : RigidBodyModel
    contacts : sequence of `PointContact` and `RigidContact`, or a `ContactSet`, at least one; gains and references do
        not enter
    actuation : as `RigidBodySystem` has it: how many controls there are, which have no effect here
    restitution : 0 (the contacts stop) to 1
    contact_damping : at least zero, 1/kg, as in `contact_impulse`; for contacts that depend on others

    Raises
    ------
    ValueError, TypeError : no contacts, a restitution outside of [0, 1], a negative damping; otherwise as
        `RigidBodySystem`.

    Notes
    -----
    `dt` is zero.  Methods and conventions are those of `RigidBodySystem`.
    """

    pushing = None
    """No actuators on frames act while contacts are struck."""

    def __init__(
        self,
        model: RigidBodyModel,
        contacts: ContactSet | Sequence[Contact],
        actuation: str | ArrayLike | None = None,
        restitution: float = 0.0,
        contact_damping: float = 0.0,
    ) -> None:
        self.led, given = None, as_contact_set(model, contacts)
        self._given = contacts, actuation, restitution, contact_damping
        led = model.tree is not None
        damping = contact_damping, "contact_damping"
        self.contacts = of_full_robot(model, given, *damping) if led else of_system(model, given)
        if not len(self.contacts):
            raise ValueError("contacts: got none, expected at least one for an impact")
        super().__init__(model, 0.0, actuation_map(model, actuation), given.places)
        self.restitution = as_restitution(restitution)
        self.semi_implicit, self.semi_implicit_from = self.euclidean, self.first_plain_row()  # with dt = 0
        if led:
            whole = model.full_torques(self.actuation.B.T).T
            tree = Impact(model.full, self.contacts, whole, restitution)
            self.led = LedMotion(model, tree)
            self.plant_model, self.contact_arrays = tree.plant_model, tree.contact_arrays
        else:
            self.plant_model, self.contact_arrays = self.contacts.impulsive(*damping)
            self._struck = self.plant_model.block, self.contact_arrays, self.restitution
            self._expansion_numbers = impact_expansion_numbers(model, self.contacts)
        self.contact_damping = self.contact_arrays.damping
        struck = self.contacts.frames, self.contact_arrays, self.plant_model, self.restitution
        self._serves += (Subject(model, self.actuation.B, *struck),)

    def __repr__(self) -> str:
        return f"Impact({self.model!r}, {self.contacts!r}, restitution={self.restitution:g})"

    @property
    def tree(self) -> Impact | None:
        """The same of the tree, where joints follow others."""
        return None if self.led is None else cast(Impact, self.led.tree)

    def with_model(self, model: RigidBodyModel) -> Impact:
        """The same impact of another robot; see `RigidBodySystem.with_model`."""
        check_same_joints(self.model, model)
        return Impact(model, contacts_of(model, self._given[0]), *self._given[1:])

    def timed(self) -> Impact:
        """The same with one more control, which has no effect either."""
        new = copy.copy(self)
        new.nu = self.nu + 1
        if self.led is not None:
            new.led = LedMotion(self.model, self.led.tree.timed())  # pyright: ignore[reportAttributeAccessIssue]
        return new

    def write_steps(self, xs: np.ndarray, us: np.ndarray, out: np.ndarray) -> None:
        """out[t] = f(xs[t])."""
        if self.led is not None:
            return self.led.write_steps(xs, us, out)
        launch(drive_impacts, len(xs), impact_numbers(self.model, self.contacts), *self._struck, xs, out)

    def roll(self, loops: ClosedLoops, start: int, stop: int, X: np.ndarray, U: np.ndarray) -> None:
        """Closed loops over the knots start <= t < stop; see `RobotSystem.roll`."""
        if self.led is not None:
            return self.led.roll(loops, start, stop, X, U)
        numbers, manifold = impact_numbers(self.model, self.contacts), None if self.euclidean else True
        launch(drive_impact_loops, loops.alphas.size, numbers, *self._struck, manifold, loops, start, stop, X, U)

    def write_linearization(self, xs: np.ndarray, us: np.ndarray, fx: np.ndarray, fu: np.ndarray) -> None:
        """What `linearize` returns; fu = 0."""
        if self.led is not None:
            return self.led.write_linearization(xs, us, fx, fu)
        fu[...] = 0.0
        launch(drive_impact_linearization, len(us), self._expansion_numbers, *self._struck, xs, fx)

    def write_hessian_products(self, xs: np.ndarray, us: np.ndarray, lam: np.ndarray, *H: np.ndarray) -> None:
        """What `hessian_products` returns; Hux = 0, Huu = 0."""
        if self.led is not None:
            return self.led.write_hessian_products(xs, us, lam, *H)
        Hxx, Hux, Huu = H
        Hux[...], Huu[...] = 0.0, 0.0
        launch(drive_impact_curvature, len(us), self._expansion_numbers, *self._struck, xs, lam, Hxx)

    def inertial_gradient(self, xs: np.ndarray, us: np.ndarray, lam: np.ndarray) -> np.ndarray:
        """What `parameter_gradient` returns."""
        return of_impacts(self, xs, us, lam)

    def contact_impulses(self, xs: np.ndarray) -> np.ndarray:
        """Impulses on the robot (K, C, 3), N s, at the states before, xs (K, nx), world axes, whatever axes the
        contacts ask for."""
        if self.led is not None:
            tree = cast(Impact, self.tree)
            return tree.contact_impulses(self.led.full_x(xs))[:, : len(self.contact_frames)]
        q, v = xs[:, : self.nq], xs[:, self.nq :]
        struck = contact_impulse(self.model, q, v, self.contacts.world_aligned, self.restitution, self.contact_damping)
        return in_world_axes(self.contacts, q, struck.f)[0]
