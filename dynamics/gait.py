"""Gaits: a plan of steps laid out in knots, with the paths of feet and base, and a kinematic initial guess.

A foot in the air moves from one foothold to the next, s being the time since lift-off over the duration of the swing,

    p(s) = hold + (3 s^2 - 2 s^3) stride + sin(pi s)^2 [0, 0, height]

at rest at both ends.  The base moves with the feet: at the end of a phase its displacement is the mean of the feet's,
and in between it is a monotone cubic [Fritsch and Butland 1984].
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from dynamics.algorithms.configuration import difference, integrate
from dynamics.algorithms.frames import frame_jacobian, frame_placement
from dynamics.contacts.frame_contact import PointContact, RigidContact
from dynamics.model.joints import FreeFlyer
from dynamics.model.model import RigidBodyModel, check_configuration, check_model
from dynamics.printed import in_brief
from dynamics.residuals.friction_cone import FrictionCone
from dynamics.residuals.wrench_cone import WrenchCone
from dynamics.systems.hybrid import HybridSystem
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

# --------------------------------------------------------------------------------------------
# Inverse kinematics of legs: frames are moved to their targets, each by the joints that move it alone.
#
# A floating base is fixed, and so are joints that move two of the frames; limits of joints are not enforced, unlike in
# `dynamics.ik`.  Newton's method is applied to a batch of configurations, with e the error of a position and optionally
# a small rotation, in world axes,
#
#     J dq = e                                J square, the Jacobian in the joints that move this frame alone
#     dq = J' (J J')^-1 e                     more joints than rows: the shortest step
#
# and where eight steps are not enough, near stretched legs or for targets out of reach, damped least squares,
#
#     dq = J' (J J' + mu I)^-1 e              mu decreases with every accepted step, and grows with every rejected one
#
#                                                                     [Wampler 1986; Nakamura and Hanafusa 1986]

NEWTON_STEPS, DAMPED_STEPS = 8, 100
CLOSE, REACHED = 1e-10, 1e-6
"""Tolerances on the error after Newton's steps, and at the end, m or rad."""
LONGEST = 1.0
"""Longest step of a joint, rad or m, beyond which a knee may flip."""


def reach(
    model: RigidBodyModel, q: np.ndarray, places: Mapping[str, tuple[np.ndarray | None, np.ndarray]]
) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Configurations q (K, nq) with frames at their targets, or as near as possible, and the error (K,) of each frame;
    places: rotations (K, 3, 3) or None, and positions (K, 3)."""
    missing = {}
    for frame, columns in own_joints(model, q[:1], places).items():
        R, p = places[frame]
        found, straight = _newton(model, q, frame, columns, R, p)
        errors = np.linalg.norm(_missing(model, found, frame, R, p), axis=1)
        far = np.flatnonzero(~straight | (errors > CLOSE))
        if far.size:
            turned = None if R is None else R[far]
            found[far] = _damped(model, q[far], frame, columns, turned, p[far])
            errors[far] = np.linalg.norm(_missing(model, found[far], frame, turned, p[far]), axis=1)
        q, missing[frame] = found, errors
    return q, missing


def own_joints(model: RigidBodyModel, q: np.ndarray, frames: Mapping[str, object]) -> dict[str, np.ndarray]:
    """Degrees of freedom, without the floating base, that move each frame and no other of `frames`; q (1, nq).

    Raises ValueError for a frame without any.
    """
    moves = {frame: np.abs(frame_jacobian(model, q, frame)[0]).max(axis=0) > 0.0 for frame in frames}
    shared = np.sum(list(moves.values()), axis=0) > 1
    if model.joints and isinstance(model.joints[0], FreeFlyer):
        shared[:6] = True
    found = {frame: np.flatnonzero(columns & ~shared) for frame, columns in moves.items()}
    for frame, columns in found.items():
        if not columns.size:
            raise ValueError(f"frame {frame!r}: expected joints that move it alone, got none")
    return found


def _missing(model: RigidBodyModel, q: np.ndarray, frame: str, R: np.ndarray | None, p: np.ndarray) -> np.ndarray:
    """Error (K, 3) of the position, m, or (K, 6) with that of the rotation, the sine of the angle times its axis."""
    now = frame_placement(model, q, frame)
    if R is None:
        return p - now.p
    E = R @ now.R.swapaxes(1, 2)
    return np.hstack([p - now.p, 0.5 * (E - E.swapaxes(1, 2))[:, [2, 0, 1], [1, 2, 0]]])


def _moved(model: RigidBodyModel, q: np.ndarray, columns: np.ndarray, step: np.ndarray) -> np.ndarray:
    dq = np.zeros((len(q), model.nv))
    dq[:, columns] = step
    return integrate(model, q, dq)


def _newton(
    model: RigidBodyModel, q: np.ndarray, frame: str, columns: np.ndarray, R: np.ndarray | None, p: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """A few full Newton steps, and a mask (K,) of the points with no step above `LONGEST`; others are unchanged."""
    straight = np.ones(len(q), bool)
    for _ in range(NEWTON_STEPS):
        e = _missing(model, q, frame, R, p)
        J = frame_jacobian(model, q, frame)[:, : e.shape[1], columns]
        if J.shape[1] == J.shape[2]:
            try:
                step = np.linalg.solve(J, e[..., None])[..., 0]
            except np.linalg.LinAlgError:
                return q.copy(), np.zeros(len(q), bool)
        else:
            step = (np.linalg.pinv(J) @ e[..., None])[..., 0]
        straight &= np.abs(step).max(axis=1) <= LONGEST  # False for NaN
        step[~straight] = 0.0
        q = _moved(model, q, columns, step)
    return q, straight


def _damped(
    model: RigidBodyModel, q: np.ndarray, frame: str, columns: np.ndarray, R: np.ndarray | None, p: np.ndarray
) -> np.ndarray:
    """Damped least squares: every accepted step reduces the error of the frame."""
    e = _missing(model, q, frame, R, p)
    mu = np.full(len(q), 1e-2)
    for _ in range(DAMPED_STEPS):
        J = frame_jacobian(model, q, frame)[:, : e.shape[1], columns]
        JJ = J @ J.swapaxes(1, 2)
        scale = np.trace(JJ, axis1=1, axis2=2) / e.shape[1]
        damped = JJ + (mu * scale)[:, None, None] * np.eye(e.shape[1])
        step = (J.swapaxes(1, 2) @ np.linalg.solve(damped, e[..., None]))[..., 0]
        step *= np.minimum(1.0, LONGEST / np.maximum(np.abs(step).max(axis=1), LONGEST))[:, None]
        trial = _moved(model, q, columns, step)
        e_trial = _missing(model, trial, frame, R, p)
        nearer = np.linalg.norm(e_trial, axis=1) < np.linalg.norm(e, axis=1)
        q, e = np.where(nearer[:, None], trial, q), np.where(nearer[:, None], e_trial, e)
        mu = np.clip(np.where(nearer, 0.1 * mu, 4.0 * mu), 1e-14, 1e6)
        if (np.linalg.norm(e, axis=1) < CLOSE).all():
            break
    return q


LEVEL = 1e-9
"""Tilt below which a sole counts as level, rad: rounding errors of sines and cosines that cancel."""


class Swing(NamedTuple):
    """A foot in the air, from the knot where it leaves the ground to the one where it touches down."""

    foot: str
    start: int
    stop: int  # the impact's knot, or the horizon
    path: np.ndarray  # (stop - start + 1, 3), m, world axes, from foothold to foothold

    def __repr__(self) -> str:
        return in_brief(self)


class Cone(NamedTuple):
    """The friction cones of the feet on the ground, and the knots where these feet are in contact."""

    residual: FrictionCone | WrenchCone
    knots: np.ndarray  # (k,)
    name: str

    def __repr__(self) -> str:
        return in_brief(self)


class Gait:
    """A plan of steps for a legged robot: phases, paths of feet and base, and states that track these.

    It has no costs and no limits; these are the user's.  Its `states` are the recommended initial guess of a solve:
    from standing torques alone, the legs of a robot that is to walk may flip to another posture.

    Parameters
    ----------
    model : RigidBodyModel, with a floating base
    standing : (nq,), the configuration at the start, with all feet on their footholds
    feet : sequence of names of frames, in the points that touch the ground or in the middle of soles
    plan : sequence of (knots, feet in the air)
        Phases, in their order.  Feet that come down do so in an impact, a knot of its own (`HybridSystem`).  A mapping
        in place of a sequence says where feet come down: of a foot its next foothold (3,), m, or None for a stride.
    stride : (3,), or (len(plan), 3) for the feet that leave the ground in each phase, m, world axes
    height : height of the swing feet's arcs, m, at least zero
    dt : time step, s
    sole : (2,), half lengths of soles, m, along the x and y axes of the feet's frames; None for feet that are points
    gains : (kp, kd) of the contacts; None for (1/dt^2, 1/dt), with which a step corrects, to first order, the drift of
        the last one
    base : function of times (N+1,), s, from 0 on, that returns the displacement (N+1, 3) of the base, m; None for the
        mean displacement of the feet
    options : further arguments of `HybridSystem`: actuation, integrator, restitution, contact_damping, ...

    Attributes
    ----------
    system : HybridSystem, of N = system.horizon knots
    start : (nx,), at rest in the configuration `standing`
    end : (nx,), the same posture where the base ends
    times : (N+1,), s
    moving : the knots with a duration, all but impacts
    swings : tuple of Swing(foot, start, stop, path)
    foot_targets : foot -> (N+1, 3), m, world axes, its position at every knot
    base_shift : (N+1, 3), m, displacement of the base
    base_path : (N+1, 3), m, position of the base

    Raises
    ------
    ValueError, TypeError : names the argument, the value got and the one expected.

    Examples
    --------
    >>> from problems.quadruped_model import FEET, quadruped, standing
    >>> diagonals = ["lf_foot", "rh_foot"], ["rf_foot", "lh_foot"]
    >>> plan = [(10, []), (20, diagonals[0]), (20, diagonals[1]), (10, [])]
    >>> gait = dynamics.Gait(quadruped(), standing(), FEET, plan, (0.1, 0, 0), height=0.04, dt=0.01)
    >>> print(gait.system.horizon, gait.states().shape, gait.base_shift[-1])
    62 (63, 37) [0.1 0.  0. ]
    """

    def __init__(
        self,
        model: RigidBodyModel,
        standing: ArrayLike,
        feet: Sequence[str],
        plan: Sequence[tuple[int, Sequence[str] | Mapping[str, ArrayLike | None]]],
        stride: ArrayLike,
        height: float,
        dt: float,
        sole: ArrayLike | None = None,
        gains: tuple[float, float] | None = None,
        base: Callable[[np.ndarray], np.ndarray] | None = None,
        **options: Any,
    ) -> None:
        check_model(model)
        if not model.joints or not isinstance(model.joints[0], FreeFlyer):
            raise ValueError("model: expected one with a floating base, a FreeFlyer as its first joint")
        self.standing = check_configuration(model, as_array("standing", standing, (model.nq,)), "standing")[0][0].copy()
        self.model, self.feet = model, _checked_feet(model, feet)
        own_joints(model, self.standing[None], dict.fromkeys(self.feet))
        steps = _checked_plan(plan, self.feet)
        strides = _checked_strides(stride, len(steps))
        self.height = as_not_negative("height", height)
        as_positive("dt", dt, "seconds")
        self.sole = None if sole is None else as_array("sole", sole, (2,))
        if self.sole is not None and (self.sole <= 0.0).any():
            raise ValueError(f"sole: got {self.sole.min()}, expected positive numbers")
        gains = (1.0 / dt**2, 1.0 / dt) if gains is None else gains

        placed = {foot: frame_placement(model, self.standing, foot) for foot in self.feet}
        self._rotations = {foot: _level(place.R) for foot, place in placed.items()}
        holds = {foot: place.p for foot, place in placed.items()}
        flights = _flights(steps, strides, holds)
        phases = []
        for i, (knots, air) in enumerate(steps):
            for flight in flights:
                if flight.last == i - 1:
                    holds[flight.foot] = flight.hold + flight.stride
            held = [self._contact(foot, gains, holds[foot]) for foot in self.feet if foot not in air]
            phases.append(("+".join(air) or "stance", held, knots))
        self.system = HybridSystem(model, dt, phases, **options)

        self.times = np.r_[0.0, np.cumsum(self.system.durations)]
        self.moving = np.flatnonzero(self.system.durations)
        spans = [s for s in self.system.segments if self.system.durations[s.start] > 0]
        self.swings = tuple(
            Swing(f.foot, start, stop, self._arch(f, start, stop))
            for f in flights
            for start, stop in [(spans[f.first].start, spans[f.last].stop)]
        )
        self.foot_targets = {foot: np.tile(place.p, (len(self.times), 1)) for foot, place in placed.items()}
        for foot, start, stop, path in self.swings:
            self.foot_targets[foot][start : stop + 1] = path
            self.foot_targets[foot][stop + 1 :] = path[-1]
        self.base_shift = self._along_with_feet(flights, spans) if base is None else self._given(base)
        self.base_path = self.standing[:3] + self.base_shift
        self.start = self.system.state(self.standing)
        self.end = self.system.state(np.r_[self.base_path[-1], self.standing[3:]])

    def __repr__(self) -> str:
        return f"Gait({self.model.name!r}, {len(self.swings)} steps, {self.system.horizon} knots, {self.times[-1]:g} s)"

    # ------------------------------------------------------------------------------------------------ layout
    def _contact(self, foot: str, gains: tuple[float, float], hold: np.ndarray) -> PointContact | RigidContact:
        if self.sole is None:
            return PointContact(self.model, foot, gains, hold)
        return RigidContact(self.model, foot, gains, (self._rotations[foot], hold))

    def _arch(self, flight: _Flight, start: int, stop: int) -> np.ndarray:
        """Path (stop - start + 1, 3) of a foot from one foothold to the next."""
        s = (self.times[start : stop + 1] - self.times[start]) / (self.times[stop] - self.times[start])
        along = np.outer(smooth(s), flight.stride)
        return flight.hold + along + np.outer(np.sin(np.pi * s) ** 2, [0.0, 0.0, self.height])

    def _along_with_feet(self, flights: Sequence[_Flight], spans: Sequence[Any]) -> np.ndarray:
        """Displacement (N+1, 3) of the base that equals the mean of the feet's at the ends of phases, m."""
        from scipy.interpolate import PchipInterpolator  # which is slow to import

        ends = np.r_[0.0, self.times[[span.stop for span in spans]]]
        moved = np.zeros((len(ends), 3))
        for f in flights:
            inside = smooth(np.clip((ends - ends[f.first]) / (ends[f.last + 1] - ends[f.first]), 0.0, 1.0))
            moved += np.outer(inside, f.stride) / len(self.feet)
        return PchipInterpolator(ends, moved)(self.times)

    def _given(self, base: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
        if not callable(base):
            raise TypeError(f"base: got {type(base).__name__}, expected a function of times")
        return as_array("base", base(self.times.copy()), (len(self.times), 3))

    # ------------------------------------------------------------------------------------------------ what users take
    def states(self) -> np.ndarray:
        """States (N+1, nx) of a robot that tracks the paths of base and feet, regardless of the forces needed.

        Legs are solved by `dynamics.gait`, each from its posture in `standing`; velocities are differences
        of configurations, zero at first and after impacts.

        Raises
        ------
        ValueError : a foot that cannot reach its path, with the knot and the distance that is left.
        """
        q = np.tile(self.standing, (len(self.times), 1))
        q[:, :3] += self.base_shift
        places = {}
        for foot, path in self.foot_targets.items():
            places[foot] = (None if self.sole is None else np.tile(self._rotations[foot], (len(q), 1, 1)), path)
        q, missing = reach(self.model, q, places)
        for foot, errors in missing.items():
            if errors.max() > REACHED:
                t = int(errors.argmax())
                raise ValueError(
                    f"plan: foot {foot!r} cannot reach its path, at knot {t} it is {errors[t]:.3g} m away; "
                    "expected shorter strides, lower arches, or legs more bent"
                )
        return states_along(self.model, q, self.system.durations)

    def friction_cones(self, mu: float, facets: int | None = None, impacts: bool = False, **options: Any) -> list[Cone]:
        """The cones of contact forces, one for every set of feet on the ground, with the knots where they are.

        Constrain to them by ``trajopt.ResidualConstraint(c.residual, c.residual.lower, c.residual.upper, at=c.knots)``.

        Parameters
        ----------
        mu : coefficient of friction, positive
        facets : as in `FrictionCone`, whose second-order cone is taken by default; soles have `WrenchCone`s
        impacts : True to add the cones of the impulses at touch-downs, for all feet on the ground afterwards
        options : further arguments of `FrictionCone` and `WrenchCone`

        Returns
        -------
        list of Cone(residual, knots, name)
        """
        impacts = as_flag("impacts", impacts)
        standing = [s for s in self.system.segments if s.system.contact_frames and (impacts or s.system.dt > 0.0)]
        cones = []
        for system in {id(s.system): s.system for s in standing}.values():
            knots = np.concatenate([np.arange(s.start, s.stop) for s in standing if s.system is system])
            if self.sole is None:
                residual = FrictionCone(system, mu, facets=facets, **options)
            else:
                residual = WrenchCone(system, mu, self.sole, **options)
            of = "friction of" if system.dt > 0.0 else "impulses on"
            cones.append(Cone(residual, knots, f"{of} {', '.join(system.contact_frames)}"))
        return cones


def smooth(s: np.ndarray) -> np.ndarray:
    """3 s^2 - 2 s^3: from 0 to 1 with zero slope at both ends."""
    return s * s * (3.0 - 2.0 * s)


def states_along(model: RigidBodyModel, q: np.ndarray, durations: np.ndarray) -> np.ndarray:
    """States (N+1, nx) along the configurations q (N+1, nq): at rest first, and after a knot without duration."""
    v, moving = np.zeros((len(q), model.nv)), np.flatnonzero(durations)
    v[1:][moving] = difference(model, q[:-1], q[1:])[moving] / durations[moving, None]
    return np.hstack([q, v])


class _Flight(NamedTuple):
    """A foot in the air from the phase `first` to the phase `last`, off its foothold by a stride."""

    foot: str
    first: int
    last: int
    hold: np.ndarray
    stride: np.ndarray


def _flights(
    steps: Sequence[tuple[int, dict[str, np.ndarray | None]]], strides: np.ndarray, holds: Mapping[str, np.ndarray]
) -> list[_Flight]:
    """All flights, in the order of the phases where they begin, and of the feet."""
    holds, flights = dict(holds), []
    for i, (_, air) in enumerate(steps):
        for foot in air:
            if i > 0 and foot in steps[i - 1][1]:
                continue  # the foot is in the air already
            last = i
            while last + 1 < len(steps) and foot in steps[last + 1][1]:
                last += 1
            given = [steps[k][1][foot] for k in range(i, last + 1) if steps[k][1][foot] is not None]
            stride = given[-1] - holds[foot] if given else strides[i]
            flights.append(_Flight(foot, i, last, holds[foot], stride))
            holds[foot] = holds[foot] + stride
    return flights


def _level(R: np.ndarray) -> np.ndarray:
    return np.eye(3) if np.abs(R - np.eye(3)).max() < LEVEL else R


def _checked_feet(model: RigidBodyModel, feet: Any) -> tuple[str, ...]:
    names = tuple(as_name("feet", foot) for foot in as_items("feet", feet, "names of frames"))
    if not names or len(set(names)) < len(names):
        raise ValueError(f"feet: got {names!r}, expected at least one frame, each once")
    for name in names:
        if name not in model.frames:
            raise unknown_name("feet", name, model.frames)
    return names


def _checked_plan(plan: Any, feet: tuple[str, ...]) -> list[tuple[int, dict[str, np.ndarray | None]]]:
    """Knots and feet in the air, in the order of the feet, with their footholds or None."""
    checked = []
    for i, phase in enumerate(as_items("plan", plan, "(knots, feet in the air)")):
        where = f"plan[{i}]"
        if not isinstance(phase, (tuple, list)) or len(phase) != 2:
            raise ValueError(f"{where}: got {phase!r}, expected (knots, feet in the air)")
        knots, air = as_whole_number(f"{where}, knots", phase[0], 1), phase[1]
        items = air.items() if isinstance(air, Mapping) else [(foot, None) for foot in as_items(where, air, "feet")]
        given: dict[str, np.ndarray | None] = {}
        for foot, place in items:
            if as_name(f"{where}, foot", foot) not in feet:
                raise unknown_name(f"foot in {where}", foot, feet)
            given[foot] = None if place is None else as_array(f"{where}, foothold of {foot!r}", place, (3,))
        checked.append((knots, {foot: given[foot] for foot in feet if foot in given}))
    if not checked:
        raise ValueError("plan: got no phases, expected at least one (knots, feet in the air)")
    return checked


def _checked_strides(stride: ArrayLike, phases: int) -> np.ndarray:
    """Strides (phases, 3) of the feet that leave the ground in each phase, m."""
    strides = as_array("stride", stride)
    if strides.shape not in ((3,), (phases, 3)):
        raise ValueError(f"stride: got shape {strides.shape}, expected (3,) or ({phases}, 3), a row for each phase")
    return np.array(np.broadcast_to(strides, (phases, 3)))
