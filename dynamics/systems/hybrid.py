"""The phases of a motion: the contacts that are held, and the number of knots."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from dynamics.contacts.contact_set import Contact, ContactSet, of_system
from dynamics.contacts.frame_contact import PointContact, as_gains
from dynamics.contacts.impulses import as_restitution
from dynamics.model.joints import FreeFlyer
from dynamics.model.model import RigidBodyModel
from dynamics.model.subject import Subject
from dynamics.simd.prepared_calls import PreparedCalls
from dynamics.systems.discrete_system import ClosedLoops, Segment
from dynamics.systems.impact import Impact
from dynamics.systems.rigid_body import ORDERS, RigidBodySystem
from dynamics.systems.robot_system import RobotSystem, check_references, undriven_basis
from dynamics.validation import (
    as_array,
    as_flag,
    as_items,
    as_name,
    as_not_negative,
    as_positive,
    as_whole_number,
    unknown_name,
)


class Phase(NamedTuple):
    """A checked entry of `phases`."""

    name: str
    contacts: ContactSet
    knots: int  # zero at an impact


def checked_phases(model: RigidBodyModel, phases: Any, gains: Any, dt: float) -> list[Phase]:
    """Phases; those with the same contacts share one `ContactSet`.

    phases: sequence of (name, frames, knots); a frame's name stands for a `PointContact` with these gains.  dt: length
    of a step, s.
    Raises ValueError or TypeError naming the phase, the value and the expected one.
    """
    if isinstance(phases, str) or not isinstance(phases, Sequence) or not len(phases):
        raise ValueError(f"phases: got {phases!r}, expected a list of at least one (name, frames, knots)")
    named: dict[str, PointContact] = {}
    sets: dict[frozenset[Contact], ContactSet] = {}
    checked = [_checked_phase(model, i, phase, gains, dt, named, sets) for i, phase in enumerate(phases)]
    if not any(phase.knots for phase in checked):
        raise ValueError("phases: got impacts alone, expected a phase that takes time")
    return checked


def _checked_phase(model, i, phase, gains, dt, named, sets) -> Phase:
    if not isinstance(phase, (tuple, list)) or len(phase) != 3:
        raise ValueError(f"phases[{i}]: got {phase!r}, expected (name, frames, knots)")
    name, frames, knots = phase
    where = f"phases[{i}], {as_name(f'phases[{i}], name', name)!r}"
    if isinstance(frames, str) or not isinstance(frames, Sequence):
        raise TypeError(f"{where}: got frames {frames!r}, expected a list of frame names or contacts")
    if as_whole_number(f"{where}, knots", knots, 0) == 0 and not frames:
        raise ValueError(f"{where}: got neither knots nor frames, expected frames that an impact stops")
    try:
        contacts = [_contact(model, entry, gains, named) for entry in frames]
        found = of_system(model, contacts, dt)
    except (TypeError, ValueError) as error:
        raise type(error)(f"{where}: {error}") from None
    return Phase(name, sets.setdefault(frozenset(contacts), found), int(knots))


def _contact(model, entry, gains, named) -> Contact:
    if not isinstance(entry, str):
        return entry  # the set raises for what is not a contact
    if entry not in named:
        named[entry] = PointContact(model, entry, as_gains(gains))
    return named[entry]


# --------------------------------------------------------------------------------------------
# A robot that holds one set of contacts after another, with impacts where new contacts begin.

STRIKE = "impact of "
"""Beginning of the names of impacts in front of phases."""


class HybridSystem(RobotSystem):
    """Dynamics of a robot whose contacts change from phase to phase: knot t has its own x+ = f_t(x, u).

    Parameters
    ----------
    model : RigidBodyModel
    dt : float, time step [s], positive
    phases : sequence of (name, frames, knots)
        The contacts and the number of steps of each phase.  frames: names of frames, whose points are held, or
        `PointContact`s and `RigidContact`s, each frame at most once; none in flight.  A phase of no knots is an impact
        on its frames alone.
    actuation, integrator : as for `RigidBodySystem`
    gains : (kp, kd) of contacts that are given by name; kp needs references, which contacts given by name do not have
    impacts : bool
        If a phase begins with a contact that the one before does not have, of a frame or its rotation, a knot of its
        own is inserted: the velocities jump to those of `contact_impulse` with all contacts of the new phase.  It takes
        no time, its controls have no effect, and the states before and after it both belong to the trajectory.
    restitution : of the impacts, 0 (the contacts stop) to 1
    contact_damping : at least zero, 1/kg, as in `contact_dynamics`, of all contacts, also at impacts
    joint_friction, friction_speed : as for `RigidBodySystem`; impacts have no friction

    Attributes
    ----------
    horizon : int, N, the knots of all phases and impacts
    segments : tuple of Segment(name, system, start, stop)
        system is a `RigidBodySystem`, one object for all segments of the same contacts, or an `Impact`.
    durations : (N,) seconds, zero at impacts
    idle : (N,) bool, knots whose controls have no effect
    contact_frames : tuple of the names of all frames that are ever held

    Raises
    ------
    ValueError, TypeError : an invalid argument or phase; the message names it, the value and the expected one.

    Notes
    -----
    Methods and conventions are those of `RigidBodySystem`, with the knots in order: a trajectory has as many knots as
    the horizon.  `window` gives single ones; a system of one knot takes batches of any length, all at that knot.
    """

    def __init__(
        self,
        model: RigidBodyModel,
        dt: float,
        phases: Sequence,
        actuation: str | ArrayLike | None = "floating_base",
        integrator: str = "semi_implicit_euler",
        gains: tuple[float, float] = (0.0, 50.0),
        impacts: bool = True,
        restitution: float = 0.0,
        contact_damping: float = 0.0,
        joint_friction: bool = True,
        friction_speed: float | None = None,
    ) -> None:
        as_positive("dt", dt, "seconds")
        impacts = as_flag("impacts", impacts)
        restitution, damping = as_restitution(restitution), as_not_negative("contact_damping", contact_damping)
        of_contacts: dict[ContactSet, RigidBodySystem] = {}
        impact_of: dict[ContactSet, Impact] = {}
        segments, before, t = [], None, 0
        for name, held, knots in (checked := checked_phases(model, phases, gains, dt)):
            fixed = _what_is_fixed(held)
            if knots == 0 or (impacts and before is not None and not fixed <= before):
                if held not in impact_of:
                    impact_of[held] = Impact(model, held, actuation, restitution, damping)
                segments.append(Segment(STRIKE + name if knots else name, impact_of[held], t, t + 1))
                t += 1
            if knots == 0:
                before = fixed | (before or set())
                continue
            if held not in of_contacts:
                soft = damping if len(held) else 0.0
                of_contacts[held] = RigidBodySystem(
                    model, dt, integrator, actuation, held, "forward", soft, joint_friction, friction_speed
                )
            segments.append(Segment(name, of_contacts[held], t, t + knots))
            before, t = fixed, t + knots
        any_phase = next(iter(of_contacts.values()))
        ever = {frame: place for phase in checked for frame, place in phase.contacts.places.items()}
        super().__init__(model, dt, any_phase.actuation, ever)
        self.integrator, self.restitution, self.contact_damping = integrator, restitution, damping
        self._put(segments)

    def _put(self, segments: Sequence[Segment]) -> None:
        """Set the segments, which follow each other from knot 0 on."""
        self.segments = tuple(segments)
        self.horizon = self.segments[-1].stop
        self.durations = np.repeat([s.system.dt for s in self.segments], [s.stop - s.start for s in self.segments])
        self.idle = self.durations == 0.0
        self.durations.flags.writeable = self.idle.flags.writeable = False
        self.semi_implicit = all(s.system.semi_implicit for s in self.segments)
        firsts = {s.system.semi_implicit_from for s in self.segments}
        self.semi_implicit_from = firsts.pop() if len(firsts) == 1 else None
        self._launches = _launches(self.segments)

    def __repr__(self) -> str:
        names = ", ".join(f"{s.name!r}: {s.stop - s.start}" for s in self.segments)
        return f"HybridSystem({self.model!r}, dt={self.dt:g}, {{{names}}})"

    # -------------------------------------------------------------------------------------------- related systems
    @property
    def integrator_order(self) -> int:
        """Convergence order of the integrator: its error falls with this power of dt."""
        return ORDERS[self.integrator]

    def refined(self, substeps: int) -> HybridSystem:
        """The same phases in RK4 steps of dt/substeps, `substeps` of them for each knot that takes time.

        Raises ValueError as `RigidBodySystem.refined`.
        """
        substeps = as_whole_number("substeps", substeps, 1)
        part = copy.copy(self)
        part.dt, part.integrator = self.dt / substeps, "rk4"
        fine = {system: system.refined(substeps) for system, _, _ in self._continuous_phases()}
        segments, t = [], 0
        for name, system, start, stop in self.segments:
            knots = (stop - start) * (substeps if system in fine else 1)
            segments.append(Segment(name, fine.get(system, system), t, t + knots))
            t += knots
        part._put(segments)
        return part

    def with_model(self, model: RigidBodyModel, phases: Iterable[str] | None = None) -> HybridSystem:
        """The same phases for another robot with the same joints and frames, or some of them, such as those with a
        payload.

        Parameters
        ----------
        model : RigidBodyModel, as `RigidBodySystem.with_model` takes it
        phases : names of phases that, with the impacts at their beginning, take this robot; the others, limits,
            pictures, `joint_inertias` and `model` remain as they are.  None: all phases

        Raises
        ------
        ValueError : another number or kind of joints, a frame that is missing, an unknown phase; no phases, where some
            have robots of their own already.
        TypeError : a value that is not a model, or not a sequence of names.

        Notes
        -----
        Velocities do not jump where the robot changes: a payload moves with the robot before it is taken up.  Terms
        belong to the robot that they were made for: a residual with masses, such as `CenterOfMass`, is made once for
        each robot, at the knots of its phases; terms of contact forces raise errors at knots of another robot.
        """
        if phases is not None:
            return self._with_phases(model, as_items("phases", phases, "names of phases"))
        if any(segment.system.model is not self.model for segment in self.segments):
            own = [segment.name for segment in self.segments if segment.system.model is not self.model]
            raise ValueError(
                f"model: got one for all phases, but {', '.join(map(repr, own))} have a robot of their own, expected "
                "system.with_model(model, phases=[...])"
            )
        part = copy.copy(self)
        others = self._others(lambda system: system.with_model(model))
        places = dict(zip(self.contact_frames, self._contact_places, strict=True))
        RobotSystem.__init__(part, model, self.dt, others[0].system.actuation, places)
        part._put(others)
        return part

    def _with_phases(self, model: RigidBodyModel, phases: Sequence[str]) -> HybridSystem:
        of = [segment.name.removeprefix(STRIKE) for segment in self.segments]
        for name in phases:
            if name not in of:
                raise unknown_name("phases", name, dict.fromkeys(of))
        changed = [segment.system for segment, name in zip(self.segments, of, strict=True) if name in phases]
        made = {system: system.with_model(model) for system in dict.fromkeys(changed)}
        part = copy.copy(self)
        part._put(
            [segment._replace(system=made[segment.system]) if name in phases else segment
             for segment, name in zip(self.segments, of, strict=True)]
        )  # fmt: skip
        return part

    def _others(self, make: Callable[[Any], Any]) -> list[Segment]:
        """The segments with new systems, made once from each of the present ones."""
        made = {system: make(system) for system in {segment.system for segment in self.segments}}
        return [segment._replace(system=made[segment.system]) for segment in self.segments]

    # -------------------------------------------------------------------------------------------- knots
    @property
    def phase_starts(self) -> np.ndarray:
        """The knots at which phases begin, each at the impact in front of it, if any."""
        starts = [s.start for s in self.segments]
        return np.array([a for a, s in zip(starts, [None, *self.segments[:-1]], strict=True) if not _is_impact(s)])

    def timed(self) -> HybridSystem:
        """The same system with the duration of the step, s, as its last control; impacts take no time."""
        new = copy.copy(self)
        new.nu = self.nu + 1
        new._put(self._others(lambda system: system.timed()))
        return new

    def window(self, start: int, stop: int) -> HybridSystem:
        """The system of the knots start <= t < stop alone; ValueError unless 0 <= start < stop <= horizon."""
        start, stop = as_whole_number("start", start, 0), as_whole_number("stop", stop, 0)
        if not 0 <= start < stop <= self.horizon:
            raise ValueError(f"window: got ({start}, {stop}), expected 0 <= start < stop <= {self.horizon}")
        inside = [s for s in self.segments if s.start < stop and s.stop > start]
        part = copy.copy(self)
        part._put(
            [s._replace(start=max(s.start, start) - start, stop=min(s.stop, stop) - start) for s in inside]
        )  # fmt: skip
        return part

    @property
    def serves(self) -> tuple[Subject, ...]:
        """Subjects that terms may be made for, as for `RigidBodySystem`, or for `Impact` at a window of its knot alone;
        without contacts where these change, and with those of another robot if all phases have it."""
        first, *others = ({segment.system: segment.system.serves for segment in self.segments}).values()
        shared = (subject for subject in first if all(subject in served for served in others))
        return self._serves + tuple(subject for subject in shared if subject not in self._serves)

    def knots_in_contact(self, frame: str) -> np.ndarray:
        """The knots at which a frame is held, without impacts; ValueError for a frame that is never held."""
        if as_name("frame", frame) not in self.contact_frames:
            raise unknown_name("frame in contact", frame, self.contact_frames)
        held = [np.arange(a, b) for system, a, b in self._continuous_phases() if frame in system.contact_frames]
        return np.concatenate([np.empty(0, np.intp), *held])

    def _continuous_phases(self) -> list[tuple[RigidBodySystem, int, int]]:
        """System, start and stop of the segments that take time."""
        return [(s.system, s.start, s.stop) for s in self.segments if isinstance(s.system, RigidBodySystem)]

    def segments_of(self, knots: int) -> Sequence[Segment]:
        """The segments of a trajectory, or of a batch at a single knot; ValueError unless the phases fill it."""
        if self.horizon == 1:
            return (self.segments[0]._replace(stop=knots),)
        if knots != self.horizon:
            raise ValueError(f"us: got {knots} knots, expected {self.horizon}, which the phases fill")
        return self.segments

    def _write(self, method: str, given: Sequence[np.ndarray], outputs: Sequence[np.ndarray]) -> None:
        """Call a method of the systems on their rows of `given`, whose second array is us (N, nu), and of the
        outputs."""
        segments = self.segments_of(len(given[1]))
        for system, rows in self._launches if segments is self.segments else _launches(segments):
            parts = [X[rows] for X in outputs]
            getattr(system, method)(*(X[rows] for X in given), *parts)
            if not isinstance(rows, slice):
                for X, part in zip(outputs, parts, strict=True):
                    X[rows] = part

    # -------------------------------------------------------------------------------------------- motion
    def write_steps(self, xs: np.ndarray, us: np.ndarray, out: np.ndarray) -> None:
        """out[t] = f_t(xs[t], us[t])."""
        self._write("write_steps", (xs, us), (out,))

    def prepared_steps(self, xs: np.ndarray, us: np.ndarray, following: np.ndarray) -> Callable[[], Any] | None:
        """See `trajopt.capabilities.Expansions`."""
        segments = self.segments_of(len(us))
        return _in_turn(system.prepared_steps(xs[a:b], us[a:b], following[a:b]) for _, system, a, b in segments)

    def roll(self, loops: ClosedLoops, start: int, stop: int, X: np.ndarray, U: np.ndarray) -> None:
        """Closed loops over the knots start <= t < stop, one segment after another; see `RobotSystem.roll`."""
        for _, system, a, b in self.segments_of(len(loops.us)):
            system.roll(loops, max(a, start), min(b, stop), X, U)

    def prepared_roll(
        self, loops: ClosedLoops, start: int, stop: int, X: np.ndarray, U: np.ndarray
    ) -> Callable[[], Any] | None:
        """See `DiscreteSystem.prepared_roll`."""
        segments = self.segments_of(len(loops.us))
        return _in_turn(system.prepared_roll(loops, max(a, start), min(b, stop), X, U) for _, system, a, b in segments)

    def contact_forces(self, xs: np.ndarray, us: np.ndarray) -> np.ndarray:
        """Forces on the robot (N, F, 3), N, world axes, at the frames of `contact_frames`; zero where they are not held
        and at impacts."""
        return self._of_continuous_phases("contact_forces", xs, us)

    def contact_moments(self, xs: np.ndarray, us: np.ndarray) -> np.ndarray:
        """Moments on rigid feet (N, F, 3), N m, about the origins of their frames, zero for points; as
        `contact_forces`."""
        return self._of_continuous_phases("contact_moments", xs, us)

    def _of_continuous_phases(self, method: str, xs, us) -> np.ndarray:
        """Results of a method of the systems with contacts for each of them, (N, F, 3)."""
        xs, us = self._knots(xs, us)
        found = np.zeros((len(us), len(self.contact_frames), 3))
        for _, system, a, b in self.segments_of(len(us)):
            if isinstance(system, RigidBodySystem) and system.in_contact:
                found[a:b, self._columns(system)] = getattr(system, method)(xs[a:b], us[a:b])
        return found

    def contact_impulses(self, xs: np.ndarray) -> np.ndarray:
        """Impulses on the robot (N, F, 3), N s, world axes, as `contact_forces`; zero except at impacts; xs (N or N+1,
        nx)."""
        xs = as_array("xs", xs, (None, self.nx))
        if len(xs) not in (self.horizon, self.horizon + 1):
            raise ValueError(f"xs: got {len(xs)} states, expected {self.horizon} or {self.horizon + 1}")
        impulses = np.zeros((self.horizon, len(self.contact_frames), 3))
        for _, system, a, b in self.segments:
            if isinstance(system, Impact):
                impulses[a:b, self._columns(system)] = system.contact_impulses(xs[a:b])
        return impulses

    def _columns(self, system) -> list[int]:
        return [self.contact_frames.index(frame) for frame in system.contact_frames]

    def inertial_gradient(self, xs: np.ndarray, us: np.ndarray, lam: np.ndarray) -> np.ndarray:
        """Result of `parameter_gradient`."""
        segments, given = self.segments_of(len(us)), (xs, us, lam)
        return np.sum([s.system.inertial_gradient(*(X[s.start : s.stop] for X in given)) for s in segments], axis=0)

    # -------------------------------------------------------------------------------------------- starting points
    def quasi_static(self, x: ArrayLike) -> np.ndarray:
        """Controls (N, nu) that hold the robot still at the configuration of x (nx,), each phase with its contacts.

        Zero at impacts and in free fall, that is, without contacts if some degrees of freedom are not actuated.
        """
        x, nq = as_array("x", x, (self.nx,)), self.nq
        us, falls = np.zeros((self.horizon, self.nu)), undriven_basis(self.actuation.B).size > 0
        known: dict[RigidBodySystem, np.ndarray] = {}
        for system, a, b in self._continuous_phases():
            if not system.in_contact and falls and system.frame_actuators is None:
                continue
            if system not in known:
                u = system.quasi_static(x)
                lost = not system.in_contact and system.frame_actuators is not None and not system.rests(x[:nq], u)
                known[system] = np.zeros(self.nu) if lost else u
            us[a:b] = known[system]
        return us

    @property
    def start_advice(self) -> str:
        """Advice on initial states for `Solution.explain`, for a solve that began without any."""
        floating = isinstance(self.model.joints[0], FreeFlyer)
        made = "xs_init=gait.states() of a dynamics.Gait" if floating else "xs_init=..."
        if not self.contact_frames:
            return f"states that pass near what is wanted, {made}"
        return f"states in which feet are where they are to be, {made}"

    def check_start(self, x0: ArrayLike) -> None:
        """Raise ValueError if at x0 (nx,) a frame held in the first segment is more than a millimetre away from its
        contact's reference, a rigid foot is rotated by more than a milliradian, or a loop or coupling is off by
        more."""
        q = as_array("x0", x0, (self.nx,))[: self.nq]
        check_references(self.model.full, self.model.full_configuration(q), self.segments[0].system.contacts)

    # -------------------------------------------------------------------------------------------- expansions
    def write_linearization(self, xs: np.ndarray, us: np.ndarray, fx: np.ndarray, fu: np.ndarray) -> None:
        """Write the results of `linearize`, knot by knot."""
        self._write("write_linearization", (xs, us), (fx, fu))

    def write_hessian_products(self, xs: np.ndarray, us: np.ndarray, lam: np.ndarray, *H: np.ndarray) -> None:
        """Write the results of `hessian_products`, knot by knot."""
        self._write("write_hessian_products", (xs, us, lam), H)

    def write_expansion(
        self, xs: np.ndarray, us: np.ndarray, lam: np.ndarray, fx: np.ndarray, fu: np.ndarray, *H: np.ndarray
    ) -> None:
        """Write the results of `linearize` and `hessian_products`, knot by knot."""
        self._write("write_expansion", (xs, us, lam), (fx, fu, *H))

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
        arrays = (xs, us, fx, fu) if lam is None else (xs, us, fx, fu, lam, *H)
        segments = self.segments_of(len(us))
        return _in_turn(system.prepared_expansion(*[X[a:b] for X in arrays]) for _, system, a, b in segments)

    def hessians(self, xs: np.ndarray, us: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Full tensors fxx (N, ndx, ndx, ndx), fux (N, ndx, nu, ndx), fuu (N, ndx, nu, nu), output index first."""
        xs, us = self._knots(xs, us)
        parts = [system.hessians(xs[a:b], us[a:b]) for _, system, a, b in self.segments_of(len(us))]
        fxx, fux, fuu = (np.concatenate(T) for T in zip(*parts, strict=True))
        return fxx, fux, fuu


def _in_turn(prepared: Iterable[Callable[[], Any] | None]) -> Callable[[], Any] | None:
    """Prepared functions one after another; None if one of them is."""
    calls = list(prepared)
    return None if None in calls else PreparedCalls(*filter(None, calls))


def _is_impact(segment: Segment | None) -> bool:
    return segment is not None and isinstance(segment.system, Impact)


def _what_is_fixed(contacts: ContactSet) -> set[tuple[str, str]]:
    """The positions and rotations that contacts fix."""
    rotations = {(contact.frame, "rotation") for contact in contacts.contacts if not contact.turns}
    return rotations | {(frame, "position") for frame in contacts.frames}


def _launches(segments: Sequence[Segment]) -> list[tuple[RobotSystem, slice | np.ndarray]]:
    """Systems and the knots that they evaluate in one call: those of a segment, in place, and all impacts on one set of
    contacts together."""
    rows: dict[object, list[Segment]] = {}
    for i, segment in enumerate(segments):
        rows.setdefault(segment.system if isinstance(segment.system, Impact) else i, []).append(segment)
    return [
        (same[0].system, slice(*same[0][2:]) if len(same) == 1 else np.array([s.start for s in same]))
        for same in rows.values()
    ]
