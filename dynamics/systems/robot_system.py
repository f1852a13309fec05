"""What systems of a rigid robot share: limits, the manifold of states, controls at rest, and friction for a step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike

from dynamics.algorithms.center_of_mass import center_of_mass
from dynamics.algorithms.configuration import neutral, random_configuration
from dynamics.algorithms.frames import body_placements, frame_jacobian, frame_placement
from dynamics.algorithms.inverse_dynamics import gravity_forces
from dynamics.algorithms.mass_matrix import mass_matrix
from dynamics.contacts.contact_set import Contact, Contacts, ContactSet
from dynamics.contacts.frame_contact import FrameContact
from dynamics.contacts.loop_constraint import JointCoupling, LoopConstraint, loop_gap, loop_rows
from dynamics.model.actuation import (
    Actuation,
    actuation_of,
    actuator_limits,
    joint_rows,
    on_full_joints,
    spring_matrices,
)
from dynamics.model.attachments import Actuator
from dynamics.model.joint_forces import with_springs
from dynamics.model.joints import FREE_FLYER, PLANAR, PRISMATIC, REVOLUTE, SPHERICAL, TRANSLATION, Joint
from dynamics.model.model import RigidBodyModel, check_configuration, check_model
from dynamics.model.subject import Subject
from dynamics.simd.caller import warn
from dynamics.systems.discrete_system import DiscreteSystem
from dynamics.systems.pictures import Solid, skeleton, solids
from dynamics.systems.state_difference import (
    StateDifference,
    difference_expansion,
    difference_of_states,
    integrate_jacobian,
    integrate_states,
    prepared_difference,
    prepared_integrate,
)
from dynamics.validation import as_array, as_flag

PLAIN = (REVOLUTE, PRISMATIC, TRANSLATION)
"""Joints whose displacement from the neutral configuration is their configuration."""
ROUNDING = 1e-12
"""Relative excess of a sum of largest efforts over a limit that counts as none."""


def position_limits(model: RigidBodyModel) -> tuple[np.ndarray, np.ndarray]:
    """lower and upper (nv,) of the displacement from the neutral configuration, infinite where there is no limit.

    Raises ValueError for limits of a continuous joint or one that moves on a group: no displacement corresponds to a
    single entry of its configuration.
    """
    lower, upper = np.full(model.nv, -np.inf), np.full(model.nv, np.inf)
    for i, joint in enumerate(model.joints):
        q = slice(model.q_index[i], model.q_index[i] + joint.nq)
        low, high = model.lower_position[q], model.upper_position[q]
        if joint.code in PLAIN:
            v = slice(model.v_index[i], model.v_index[i] + joint.nv)
            lower[v], upper[v] = low, high
        elif np.isfinite(low).any() or np.isfinite(high).any():
            raise ValueError(
                f"position: joint {model.joint_names[i]!r} of type {joint.type_name} has limits of its configuration, "
                "which are none of its displacement, expected position=False and a constraint of a residual"
            )
    return lower, upper


def effort_limits(
    model: RigidBodyModel, B: np.ndarray, lower: ArrayLike = -np.inf, upper: ArrayLike = np.inf
) -> tuple[np.ndarray, np.ndarray]:
    """lower and upper (nu,) of controls u within the limits given for which |B u| satisfies the effort limits, where
    these form a box.

    The narrowest of |B_ij u_j| <= effort_i and of the limits given is that of u_j.  Raises ValueError where several
    controls drive a limited degree of freedom and together exceed its limit: their limits depend on each other.
    """
    low, high = (np.full(B.shape[1], limit, float) for limit in (lower, upper))
    limited, driving = np.isfinite(model.effort_limit), np.count_nonzero(B, axis=1)
    for i in np.flatnonzero(limited & (driving == 1)):
        j = np.flatnonzero(B[i])[0]
        most = model.effort_limit[i] / abs(B[i, j])
        low[j], high[j] = np.clip((low[j], high[j]), -most, most)
    for i in np.flatnonzero(limited & (driving > 1)):
        j = np.flatnonzero(B[i])
        largest = np.abs(B[i, j]) @ np.maximum(np.abs(low[j]), np.abs(high[j]))
        if largest > model.effort_limit[i] * (1.0 + ROUNDING):
            raise ValueError(
                f"actuation: {model.dof_names[i]!r} has an effort limit and is driven by {len(j)} controls, "
                "whose limits depend on each other, expected one control, or a constraint of a residual"
            )
    return low, high


def speed_limits(model: RigidBodyModel, B: np.ndarray) -> np.ndarray:
    """Limits (nu,) of the motors' speeds B'v, where a motor drives one degree of freedom; infinite for others."""
    alone = np.count_nonzero(B, axis=0) == 1
    driven = np.abs(B).argmax(axis=0)
    return np.where(alone, model.velocity_limit[driven] * np.abs(B).max(axis=0), np.inf)


def control_names(model: RigidBodyModel, B: np.ndarray) -> tuple[str, ...]:
    """Names (nu,) of the degrees of freedom where every control is the torque of one of its own, else "control j"."""
    driven = [np.flatnonzero(column) for column in B.T]
    if all(len(rows) == 1 and B[rows[0], j] == 1.0 for j, rows in enumerate(driven)):
        names = [model.dof_names[rows[0]] for rows in driven]
        if len(set(names)) == len(names):
            return tuple(names)
    return tuple(f"control {j}" for j in range(B.shape[1]))


# --------------------------------------------------------------------------------------------
# Common base of the discrete-time systems of a rigid robot: the manifold of its states x = [q; v].


class RobotSystem(DiscreteSystem):
    """State manifold of a robot.

    Parameters
    ----------
    model : RigidBodyModel
    dt : float, s
    actuation : Actuation
    contact_frames : names of all frames that are held at some knot, and of frames where pictures show contacts
    """

    def __init__(self, model: RigidBodyModel, dt: float, actuation: Actuation, contact_frames: dict[str, str]) -> None:
        super().__init__(model.nq, model.nv, actuation.B.shape[1], dt)
        self.model, self.actuation = model, actuation
        self.full, self.joint_map, self.full_actuation = model.full, model.mimic_map, on_full_joints(model, actuation)
        self.euclidean = bool(model.is_euclidean)
        self.contact_frames, self._contact_places = tuple(contact_frames), tuple(contact_frames.values())
        plain = bool(model.actuators) and all(isinstance(each, Actuator) for each in model.actuators)
        driven = actuation.on_frames or (plain and np.array_equal(actuation.B, actuation_of(model)))
        self.actuators = model.actuators if driven else ()
        self._serves: tuple[Subject, ...] = (Subject(model), Subject(model, actuation.B))

    # -------------------------------------------------------------------------------------------- names and limits
    @property
    def serves(self) -> tuple[Subject, ...]:
        """Subjects that terms may be made for: the robot; with its actuation; with its contacts, if these are one
        set."""
        return self._serves

    @property
    def neutral_state(self) -> np.ndarray:
        """The neutral configuration at rest (nx,)."""
        return self.state(neutral(self.model))

    @property
    def state_names(self) -> tuple[str, ...]:
        """Names (nx,) of the entries of a state, after its joints: "elbow", "base x", "base qw", "elbow velocity",
        "base vx", "base wz"; velocities of joints that move on a group are those of the child frame."""
        named = list(zip(self.model.joint_names, self.model.joints, strict=True))
        positions = (f"{name} {part}".rstrip() for name, joint in named for part in _coordinates(joint))
        return (*positions, *(f"{name} {part}" for name, joint in named for part in _velocities(joint)))

    @property
    def tangent_names(self) -> tuple[str, ...]:
        """Names (ndx,) of displacements, after the degrees of freedom, and of their velocities."""
        dofs = self.model.dof_names
        return (*dofs, *(f"{name} velocity" for name in dofs))

    @property
    def tangent_units(self) -> tuple[str, ...]:
        """Units (ndx,) of the tangent: rad or m, rad/s or m/s."""
        turns = np.concatenate([np.zeros(0, bool), *(joint.motion_subspace()[1] for joint in self.model.joints)])
        units = ["rad" if angle else "m" for angle in turns]
        return (*units, *(f"{unit}/s" for unit in units))

    @property
    def control_names(self) -> tuple[str, ...]:
        """Names (nu,) of the model's actuators, or of the degrees of freedom that the controls drive, one each; else
        numbered names."""
        if self.actuators:
            return tuple(each.name for each in self.actuators)
        return control_names(self.model, self.actuation.B)

    @property
    def control_units(self) -> tuple[str, ...]:
        """Units (nu,) of the controls: N m or N for those that drive one degree of freedom directly, "" for others."""
        turns = np.concatenate([np.zeros(0, bool), *(joint.motion_subspace()[1] for joint in self.model.joints)])
        driven = [(np.flatnonzero(column), column.sum()) for column in self.actuation.B.T]
        return tuple(("N m" if turns[k[0]] else "N") if len(k) == 1 and gear == 1.0 else "" for k, gear in driven)

    @property
    def single_joints(self) -> dict[str, tuple[int, int]]:
        """Indices of position and velocity in a state, for each joint of one degree of freedom, by name."""
        model = self.model
        rows = zip(model.joint_names, model.joint_nv, model.q_index, model.v_index, strict=True)
        return {name: (q, self.nq + v) for name, dofs, q, v in rows if dofs == 1}

    def joint_efforts(self, us: np.ndarray) -> np.ndarray:
        """Efforts (K, joints), N m or N, of controls us (K, nu) on `single_joints`: B u, zero for actuators on
        frames."""
        rows = [v - self.nq for _, v in self.single_joints.values()]
        return as_array("us", us, (None, self.nu)) @ self.actuation.B[rows].T

    @property
    def joint_feedback(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Indices of positions (J,) and velocities (J,) in a tangent of the J degrees of freedom that controls drive,
        without floating bases, and rows (J, nu) of B; see `trajopt.capabilities.Joints`."""
        dofs = self._driven_dofs()
        return dofs, self.nv + dofs, self.actuation.B[dofs]

    def joint_inertias(self, xs: np.ndarray) -> np.ndarray:
        """Inertias (K, J), kg m^2 or kg, of these degrees of freedom at states xs (K, nx), with all others free and the
        driven ones pushed together: m_j / sum_k |c_jk| with m_j = 1/(M^-1)_jj and c_jk = (M^-1)_jk sqrt(m_j m_k)."""
        driven = self._driven_dofs()
        inverse = np.linalg.inv(mass_matrix(self.model, self._configurations(xs)))[:, driven[:, None], driven]
        alone = 1.0 / np.diagonal(inverse, axis1=1, axis2=2)
        root = np.sqrt(alone)
        return alone / np.abs(inverse * root[:, :, None] * root[:, None]).sum(axis=2)

    def _driven_dofs(self) -> np.ndarray:
        arrays = self.model.arrays
        base = np.repeat(arrays.joint_type == FREE_FLYER, arrays.dof_count)
        return np.flatnonzero(self.actuation.B.any(axis=1) & ~base)

    def state_limits(self, position: bool = True, velocity: bool = True) -> tuple[np.ndarray, np.ndarray]:
        """The model's limits as lower and upper (ndx,) of the tangent at `neutral_state`, infinite where it has none.

        Parameters: position, velocity, True to include them.  Raises ValueError for limits of a joint whose
        configuration is no vector.
        """
        lower, upper = np.full(self.ndx, -np.inf), np.full(self.ndx, np.inf)
        if position:
            lower[: self.nv], upper[: self.nv] = position_limits(self.model)
        if velocity:
            lower[self.nv :], upper[self.nv :] = -self.model.velocity_limit, self.model.velocity_limit
        return lower, upper

    def control_limits(self) -> tuple[np.ndarray, np.ndarray]:
        """lower and upper (nu,) of the controls within the model's effort limits and, if its actuators are the
        controls, within theirs as well; infinite where there are none.

        Forces of actuators on frames depend on the configuration: effort limits of joints do not bound them.  Raises
        ValueError for an actuation in which an effort limit binds several controls together.
        """
        if not self.actuators:
            return effort_limits(self.model, self.actuation.B)
        return effort_limits(self.full, joint_rows(self.model).T, *actuator_limits(self.model))

    @property
    def control_speeds(self) -> tuple[np.ndarray, np.ndarray] | None:
        """B' (nu, nv) and limits (nu,): the motors' speeds B'v, with which power is torque times speed, and their
        largest values where a motor drives one joint; None for a robot with actuators on frames."""
        if self.actuation.on_frames:
            return None
        return np.ascontiguousarray(self.actuation.B.T), speed_limits(self.model, self.actuation.B)

    # -------------------------------------------------------------------------------------------- inertial parameters
    def parameter_gradient(self, xs: np.ndarray, us: np.ndarray, lam: np.ndarray) -> np.ndarray:
        """d/dpi sum_t lam_t'f(x_t, u_t; pi) (nb, 10) by all inertial parameters, in the order of `inertial_parameters`.

        Armature, springs, contacts, friction and its smoothing speeds stay constant.

        Parameters: xs (N or N+1, nx), us (N, nu), lam (N, ndx) of tangents at the next states.
        Raises: ValueError for other shapes, or RK4 steps of joints that move on groups or with free durations.
        """
        xs, us = self._knots(xs, us)
        lam = self._shaped(lam=(lam, (len(us), self.ndx)))[0]
        return self.inertial_gradient(xs[: len(us)], us, lam)

    def inertial_gradient(self, xs: np.ndarray, us: np.ndarray, lam: np.ndarray) -> np.ndarray:
        """Result of `parameter_gradient` for N states."""
        raise NotImplementedError

    # -------------------------------------------------------------------------------------------- the manifold
    def first_plain_row(self) -> int | None:
        """Degrees of freedom up to the last joint that moves on a group, whose rows are not in semi-implicit form; None
        if these are none, or all."""
        arrays = self.model.arrays
        on_groups = np.isin(arrays.joint_type, (FREE_FLYER, SPHERICAL, PLANAR))
        end = int((arrays.v_index + arrays.dof_count)[on_groups].max(initial=0))
        return end if 0 < end < self.nv else None

    @property
    def state_space(self) -> tuple[tuple[Any, ...], ...]:
        """The factors of the states, joint by joint, and the velocities; see `trajopt.capabilities.StateManifold`."""
        groups = {FREE_FLYER: ("se3",), SPHERICAL: ("so3",), PLANAR: ("se2",)}
        joints = (groups.get(joint.code, ("euclidean", joint.nv)) for joint in self.model.joints)
        return *joints, ("euclidean", self.nv)

    def check_state(self, x: np.ndarray) -> None:
        """Raise ValueError if a quaternion in x (K, nx), finite, is not of unit length."""
        if self.model.quaternion_slots:
            check_configuration(self.model, x[:, : self.nq])

    def integrate(self, x: ArrayLike, dx: ArrayLike) -> np.ndarray:
        """x (+) dx;  x (nx,) or (K, nx), dx (ndx,) or (K, ndx).

        Only shapes are checked, here and in `difference`: states that are not finite give results that are not.
        """
        return integrate_states(self.model, x, dx)

    def difference(self, x0: ArrayLike, x1: ArrayLike) -> np.ndarray:
        """dx with integrate(x0, dx) = x1;  x0, x1 (nx,) or (K, nx)."""
        return difference_of_states(self.model, x0, x1)

    def prepared_integrate(self, xs: np.ndarray, dxs: np.ndarray, moved: np.ndarray) -> Callable[[], Any] | None:
        """See `trajopt.capabilities.StateManifold`."""
        return prepared_integrate(self.model, xs, dxs, moved)

    def prepared_difference(self, x0s: np.ndarray, x1s: np.ndarray, dx: np.ndarray) -> Callable[[], Any] | None:
        """See `trajopt.capabilities.StateManifold`."""
        return prepared_difference(self.model, x0s, x1s, dx)

    def difference_expansion(self, x_ref: np.ndarray, xs: np.ndarray, mu: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Jacobian (K, ndx, ndx) of difference(x_ref, xs) in xs, and the Hessian (K, ndx, ndx) of mu'difference."""
        _, J, H = difference_expansion(self.model, x_ref, xs, mu)
        return J, cast(np.ndarray, H)

    def difference_with_jacobian(self, x_ref: np.ndarray, xs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """difference(x_ref, xs) (K, ndx) and its Jacobian (K, ndx, ndx) in xs, from one call."""
        return difference_expansion(self.model, x_ref, xs, None)[:2]

    def integrate_jacobian(self, xs: np.ndarray) -> np.ndarray:
        """Jacobian (K, nx, ndx) of integrate(xs, dx) in dx at dx = 0, xs (K, nx); see
        `trajopt.capabilities.StateManifold`."""
        return integrate_jacobian(self.model, xs)

    def difference_residual(self, x_ref: np.ndarray) -> StateDifference:
        """r = difference(x_ref, x) as a residual that sums its weighted squares itself."""
        return StateDifference(self.model, x_ref)

    def skeleton(self, xs: np.ndarray) -> np.ndarray:
        """Line segments (K, segments, 2, 3) that draw the robot at states xs (K, nx)."""
        return skeleton(self.model, self._configurations(xs))

    def solids(self, fine: bool = True) -> tuple[Solid, ...]:
        """Surfaces of the robot's shapes, with few triangles unless `fine`; see `trajopt.capabilities.Pictures`."""
        return solids(self.model, fine)

    def body_placements(self, xs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Rotations (K, nb, 3, 3) and positions (K, nb, 3), m, of the moving bodies at states xs (K, nx)."""
        return body_placements(self.model, self._configurations(xs))

    def contact_points(self, xs: np.ndarray) -> np.ndarray:
        """Positions (K, F, 3) of the frames `contact_frames`, m, world axes, at states xs (K, nx)."""
        q = self._configurations(xs)
        points = [frame_placement(self.model, q, frame).p for frame in self._contact_places]
        return np.stack(points, axis=1) if points else np.empty((len(q), 0, 3))

    @property
    def center_of_mass(self) -> Callable[[np.ndarray], np.ndarray] | None:
        """Function of states xs (K, nx) to centres of mass (K, 3), m, world axes; None for a robot without mass."""
        if not self.model.total_mass > 0.0:
            return None
        return lambda xs: center_of_mass(self.model, self._configurations(xs))

    def _configurations(self, xs: np.ndarray) -> np.ndarray:
        return np.ascontiguousarray(as_array("xs", xs, (None, self.nx))[:, : self.nq])


def _coordinates(joint: Joint) -> tuple[str, ...]:
    """Names of the entries (nq,) of a joint's configuration, "" for a single entry."""
    turns = joint.motion_subspace()[1]
    if joint.nq == 1:
        return ("",)
    angles = ("angle",) if joint.quaternion_at is None else ("qx", "qy", "qz", "qw")
    return (*"xyz"[: np.count_nonzero(~turns)], *(angles if turns.any() else ()))


def _velocities(joint: Joint) -> tuple[str, ...]:
    """Names of the entries (nv,) of a joint's velocity."""
    if joint.nv == 1:
        return ("velocity",)
    axes, turns = joint.motion_subspace()
    return tuple(("w" if turn else "v") + "xyz"[np.abs(axis).argmax()] for axis, turn in zip(axes, turns, strict=True))


# --------------------------------------------------------------------------------------------
# Requirements for another robot in a system: the same number of coordinates, joints of the same names, the same frames.


def check_same_joints(model: RigidBodyModel, other: RigidBodyModel) -> None:
    """Raise TypeError or ValueError unless `other` is a model with the joints of this one, in the same order."""
    joints, others = (
        tuple(zip(each.joint_names, each.joint_types, strict=True)) for each in (model, check_model(other))
    )
    if joints != others:
        wrong = next((name for name, _ in others if name not in model.joint_names), "their order, number or kind")
        raise ValueError(f"model: got {len(others)} joints, expected the {len(joints)} of {model!r}; not so: {wrong}")


def contacts_of(model: RigidBodyModel, contacts: Contacts) -> list[Contact]:
    """The same contacts on another model; ValueError where it lacks a frame."""
    held = contacts.contacts if isinstance(contacts, ContactSet) else contacts
    return [each if each.model is model else replace(each, model=model) for each in held]


# --------------------------------------------------------------------------------------------
# A robot at rest: controls that hold it there, and checks that its contacts are at their references.

AWAY = 1e-3
"""Largest distance of a contact's frame from its reference at the start of a motion, m and rad; for a coupling, of the
joint with the largest ratio from the position given by the others."""


def undriven_basis(B: np.ndarray) -> np.ndarray:
    """Orthonormal basis N (nv, k) of the null space of B': the directions that no control drives."""
    U, singular, _ = np.linalg.svd(B)
    rank = int((singular > singular.max() * max(B.shape) * np.finfo(float).eps).sum())
    return U[:, rank:]


def holding_controls(model: RigidBodyModel, q: np.ndarray, B: np.ndarray, contacts: ContactSet) -> np.ndarray:
    """u (K, nu) with B u = g - J'f, g of gravity and springs, f the contact forces and moments of least norm (N and
    N m) with N'J'f = N'g, N'B = 0; q (K, nq).

    Least squares where that has no solution."""
    K, _, c = spring_matrices(model)
    load = gravity_forces(model, q)
    if model.springs:
        load += q[:, np.repeat(model.q_index, model.joint_nv)] @ K - c
    if len(contacts) > 0:
        J = np.concatenate([_rows(model, q, held) for held in contacts.contacts], axis=1)
        N = undriven_basis(B)
        carried = np.linalg.pinv(N.T @ J.swapaxes(1, 2)) @ (load @ N)[..., None]
        load = load - (J.swapaxes(1, 2) @ carried)[..., 0]
    return load @ np.linalg.pinv(B).T


def _rows(model: RigidBodyModel, q: np.ndarray, held: Contact) -> np.ndarray:
    """Jacobian (K, rows, nv) of a contact's constraints."""
    if isinstance(held, LoopConstraint):
        return loop_rows(model, q, held).J
    if isinstance(held, JointCoupling):
        return np.broadcast_to(held.row, (len(q), 1, model.nv))
    return frame_jacobian(model, q, held.frame)[:, : 3 if held.turns else 6]


def check_references(model: RigidBodyModel, q: np.ndarray, contacts: ContactSet) -> None:
    """Raise ValueError if at q (nq,) the frame of a contact is farther than `AWAY` from the contact's reference, or
    that of a rigid foot rotated by more, a loop is open, or joints do not satisfy their coupling."""
    for held in contacts.contacts:
        if isinstance(held, LoopConstraint):
            distance, angle = loop_gap(model, q, held)
            for gap, state, unit in ((distance, "open", "m"), (angle, "turned", "rad")):
                if gap > AWAY:
                    raise ValueError(
                        f"x0: the loop of {held.frame1!r} and {held.frame2!r} is {state} by {gap:.3g} {unit}, expected "
                        f"at most {AWAY:g} {unit}; see dynamics.close_loops"
                    )
        if isinstance(held, JointCoupling):
            gap, largest = float(held.gap(q)), max(map(abs, held.joints.values()))
            if abs(gap) > AWAY * largest:
                raise ValueError(
                    f"x0: the coupling of {', '.join(map(repr, held.joints))} is off by {gap:.3g}: its sum is "
                    f"{held.offset + gap:.6g}, expected {held.offset:.6g} to within {AWAY * largest:g}; "
                    "see dynamics.close_loops"
                )
        if not isinstance(held, FrameContact) or held.reference is None:
            continue
        R, p = held.pose
        placement = frame_placement(model, q, held.frame)
        distance = float(np.linalg.norm(placement.p - p))
        if distance > AWAY:
            raise ValueError(
                f"x0: frame {held.frame!r} is {distance:.3g} m away from the reference of its contact, expected at "
                f"most {AWAY:g} m"
            )
        angle = 0.0 if held.turns else 2.0 * np.arcsin(min(np.linalg.norm(placement.R - R) / np.sqrt(8.0), 1.0))
        if angle > AWAY:
            raise ValueError(
                f"x0: frame {held.frame!r} is turned by {angle:.3g} rad from the reference of its contact, expected at "
                f"most {AWAY:g} rad"
            )


# --------------------------------------------------------------------------------------------
# The model that a system steps: the robot's model with the friction of its joints.
#
# An Euler step of h takes damping d implicitly at no cost: with d v+ = d v + h d a in place of d v the equation of
# motion is that of a robot with h d more armature, and damping is never too stiff for the step.
#
# Coulomb friction c is smoothed over a speed e; at rest its derivative is c/e.  A step subtracts h M^-1 diag(c/e) v
# from slow velocities v and must not reverse them: e is such that this matrix has no eigenvalue above one at some
# configurations, and at least `SLOW`.

SLOW = 0.01
"""Least smoothing speed, rad/s or m/s."""

SAMPLES = 16
"""Number of configurations at which inertias are evaluated."""

DAMPING_LIMIT = 2.78
"""Value of h d/m at which RK4 becomes unstable, on the negative real axis."""


def plant_model(
    model: RigidBodyModel, dt: float, explicit: bool, joint_friction: bool, friction_speed: float | np.ndarray | None
) -> RigidBodyModel:
    """The model with `arrays.joint_friction` and `arrays.spring`, and the armature of implicit damping unless
    `explicit`; the model itself if its joints have neither, or if friction is left out.

    Raises ValueError or TypeError for `joint_friction` or `friction_speed`; warns of damping too stiff for RK4."""
    joint_friction = as_flag("joint_friction", joint_friction)
    has_friction = joint_friction and model.friction.any()
    if friction_speed is not None:
        given = np.asarray(friction_speed)
        friction_speed = as_array("friction_speed", friction_speed, (model.nv,) if given.ndim else ())
        if not (friction_speed > 0.0).all():
            raise ValueError(f"friction_speed: got {given.min()}, expected a positive speed, or None")
        if not has_friction:
            raise ValueError(f"friction_speed: got {given}, expected None where no joint has Coulomb friction")
    damped = joint_friction and model.damping.any()
    if model.springs:
        model = replace(model, arrays=with_springs(model.arrays, spring_matrices(model)))
    if not (has_friction or damped):
        return model
    arrays = model.arrays
    if not explicit:
        arrays = arrays._replace(armature=arrays.armature + dt * model.damping)
    plant, speed = replace(model, arrays=arrays), SLOW
    if (has_friction and friction_speed is None) or (damped and explicit):
        inverse = _inverse_inertias(plant)
        if explicit:
            _warn_of_stiffness(model, dt * inverse)
        if has_friction and friction_speed is None:
            speed = np.maximum(SLOW, _steady_speed(model.friction, dt * inverse))
    speed = np.full(model.nv, 1.0) * (speed if friction_speed is None else friction_speed)
    rows = np.column_stack([model.damping, model.friction, speed**2])
    return replace(plant, arrays=arrays._replace(joint_friction=rows))


@lru_cache(maxsize=16)  # systems of one robot are made again and again: refined ones, phases, other integrators
def _inverse_inertias(model: RigidBodyModel) -> np.ndarray:
    """M^-1 (SAMPLES, nv, nv) at the neutral and at random configurations."""
    rng = np.random.default_rng(0)
    qs = [neutral(model), *(random_configuration(model, rng) for _ in range(SAMPLES - 1))]
    return np.linalg.inv(mass_matrix(model, np.array(qs)))


def _steady_speed(friction: np.ndarray, W: np.ndarray) -> np.ndarray:
    """Speeds e (nv,) with no eigenvalue of W diag(c/e) above one, W = h M^-1 (K, nv, nv): e_k = c_k W_kk times the
    largest eigenvalue that W has when its diagonal is scaled to one."""
    has_friction = friction > 0.0
    W = W[:, has_friction][:, :, has_friction]
    diagonal = np.einsum("kii->ki", W)
    scale = 1.0 / np.sqrt(diagonal)
    coupling = np.linalg.eigvalsh(scale[:, :, None] * W * scale[:, None, :])[:, -1]
    speed = np.zeros(len(friction))
    speed[has_friction] = friction[has_friction] * (diagonal * coupling[:, None]).max(axis=0)
    return speed


def check_substeps(model: RigidBodyModel, plant: RigidBodyModel, dt: float, substeps: int) -> None:
    """Raise ValueError if RK4 steps of dt/substeps are too long for the damping of a plant of the model."""
    damping = plant.arrays.joint_friction[:, 0]
    if damping.any():
        ratios = _stiffness(damping, dt * _inverse_inertias(model))
        k, least = int(ratios.argmax()), int(np.ceil(ratios.max() / DAMPING_LIMIT))
        if substeps < least:
            raise ValueError(
                f"substeps: got {substeps}, expected at least {least}: the damping of {plant.dof_names[k]!r} is "
                "too stiff for longer steps of RK4"
            )


def _stiffness(damping: np.ndarray, W: np.ndarray) -> np.ndarray:
    """Largest h d/m (nv,) of each joint over the samples."""
    return (damping * np.einsum("kii->ki", W)).max(axis=0)


def _warn_of_stiffness(model: RigidBodyModel, W: np.ndarray) -> None:
    ratios = _stiffness(model.damping, W)
    k = int(ratios.argmax())
    if ratios[k] > DAMPING_LIMIT:
        warn(
            f"damping of {model.dof_names[k]!r}: times dt and over the inertia of its joint it is up to "
            f"{ratios[k]:.3g}, and RK4 needs less than {DAMPING_LIMIT}: take a smaller dt, an Euler integrator, which "
            "takes damping implicitly, or joint_friction=False",
            RuntimeWarning,
        )
