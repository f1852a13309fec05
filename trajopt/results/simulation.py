"""Simulation of a plan: its execution in fine steps, by its own system or another one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from dynamics.printed import in_brief
from dynamics.simd.caller import warn
from dynamics.validation import as_array, as_choice, as_number_or_vector, as_positive, as_whole_number
from trajopt.capabilities import Contacts, Knots, Steps, capability
from trajopt.interfaces.system import System, check_system, knot_durations, state_array
from trajopt.problem.extended_system import innermost, remembered_between, remembered_next, remembered_numbers
from trajopt.problem.objective import first_not_finite
from trajopt.results.dense_output import Controller, deviations, fine_rows, finer_for_stiff, roll_out_finely
from trajopt.results.late_feedback import as_delay
from trajopt.results.policy import Policy, deployed, fed_back, planned_problem, policy_of

if TYPE_CHECKING:
    from trajopt.results.solution import Solution

MODES = ("feedback", "open loop")
FINEST = 1000
"""Largest number of steps per knot that is used to meet the times at which a policy is called."""


class ContactReport(NamedTuple):
    """Forces that contacts would have had to exert for a motion in which they hold as planned; made by
    `Simulation.contacts`.

    One entry for each of F frames: names; the fraction of the samples in contact in which a frame pulls on the ground,
    and in which the force leaves the friction cone (NaN without a friction coefficient); the largest |f_t|/f_n while it
    pushes, and its time, s; and the largest height, m, above the planned one at which a frame touched down.
    """

    frames: tuple[str, ...]
    pulls: np.ndarray
    slips: np.ndarray
    steepest: np.ndarray
    steepest_at: np.ndarray
    landings: np.ndarray

    def __repr__(self) -> str:
        return in_brief(self)

    @property
    def holds(self) -> bool:
        """True if no frame pulls or leaves its cone."""
        return not (self.pulls > 0.0).any() and not (self.slips > 0.0).any()


@dataclass(frozen=True, eq=False)
class Simulation:
    """Motion of a simulated plan; made by `trajopt.simulate`.

    Attributes
    ----------
    system : System
        The system simulated, in steps of its dt.
    times, xs, us : (M+1,), (M+1, nx), (M, nu) arrays
        Motion in these steps, s from the start; infinite from where it is not finite.
    knots : (N+1,) array
        The rows of times and xs that are the plan's knots.
    deviation : (N+1, ndx) array
        Tangent vectors from the plan to the motion, at the knots.
    planned : (N+1, nx) array
        States of the plan.
    """

    system: System
    times: np.ndarray = field(repr=False)
    xs: np.ndarray = field(repr=False)
    us: np.ndarray = field(repr=False)
    knots: np.ndarray = field(repr=False)
    deviation: np.ndarray = field(repr=False)
    planned: np.ndarray = field(repr=False)

    def __repr__(self) -> str:
        return in_brief(self, finite=self.finite, largest_deviation=float(self.largest_deviation.max()))

    @property
    def finite(self) -> bool:
        """True if the motion is finite to its end."""
        return bool(np.isfinite(self.xs).all())

    @property
    def cause(self) -> str:
        """From when on the motion is not finite, and the implicit step without a solution that it ends at, if its
        system has such steps; empty where it is finite."""
        t, method = first_not_finite(self.xs), capability(self.system, Steps).implicit_step
        if t is None:
            return ""
        told = f"the motion is not finite from {self.times[t]:.3g} s on"
        return told + (f", as an implicit step ({method}) has found no solution" if method else "")

    @property
    def largest_deviation(self) -> np.ndarray:
        """The largest deviation (ndx,) of each component of the tangent."""
        return np.abs(self.deviation).max(axis=0)

    def contacts(self, friction: float | None = None, normal: ArrayLike = (0.0, 0.0, 1.0)) -> ContactReport:
        """Check if contacts could have exerted the forces of the motion: simulations hold frames as planned, whatever
        forces that takes, and wherever frames are.  Impulses at touch-downs are not checked; see `contact_impulses` of
        the system.

        Parameters
        ----------
        friction : float, optional
            Coefficient of friction of the ground.
        normal : (3,) array
            Normal out of the ground, of any length but zero.

        Raises
        ------
        TypeError
            For a system without contacts.
        ValueError
            For a motion that is not finite, and for an invalid friction coefficient or normal.
        """
        system: Any = self.system
        known = capability(system, Contacts)
        if known.contact_forces is None or known.contact_points is None or not known.contact_frames:
            raise TypeError(f"contacts: got a motion of a {type(system).__name__}, expected a system with contacts")
        if not self.finite:
            raise ValueError(f"contacts: {self.cause}, expected one that is finite to its end")
        mu = np.nan if friction is None else as_positive("friction", friction)
        axis = as_array("normal", normal, (3,), copy=True)
        if not axis.any():
            raise ValueError("normal: got zeros, expected a vector of any length but zero")
        axis = axis / np.linalg.norm(axis)
        f = system.contact_forces(self.xs, self.us)
        held, push = np.abs(f).max(axis=2) > 0.0, f @ axis
        along = np.linalg.norm(f - push[..., None] * axis, axis=2)
        count = np.maximum(held.sum(axis=0), 1)
        pulls = held & (push < 0.0)
        slips = np.full(len(count), np.nan) if np.isnan(mu) else (held & (along > mu * push)).sum(axis=0) / count
        ratio = np.where(push > 0.0, along / np.where(push > 0.0, push, 1.0), 0.0)
        frames, landings = tuple(system.contact_frames), self._landings(held, axis)
        steepest_at = self.times[ratio.argmax(axis=0)]
        return ContactReport(frames, pulls.sum(axis=0) / count, slips, ratio.max(axis=0), steepest_at, landings)

    def _landings(self, held: np.ndarray, axis: np.ndarray) -> np.ndarray:
        """Largest distances (F,) along the axis, of either sign, of frames from their planned places when they touch
        down; after an impact, frames are held from the next row on."""
        system: Any = self.system
        off = (system.contact_points(self.xs[self.knots]) - system.contact_points(self.planned)) @ axis
        rows = self.knots[:-1]
        found = np.zeros(off.shape[1])
        for t in range(1, len(rows)):
            began = held[rows[t]] & ~held[rows[t] - 1 if self.times[rows[t]] > self.times[rows[t] - 1] else rows[t] - 2]
            found = np.where(began & (np.abs(off[t]) > np.abs(found)), off[t], found)
        return found


def simulate(
    solution: Solution,
    model: Any = None,
    dt: float = 1e-3,
    policy: str | Policy | Callable[[float, np.ndarray], np.ndarray] = "feedback",
    x0: ArrayLike | None = None,
    system: System | None = None,
    period: float | None = None,
    joint_stiffness: ArrayLike | str | None = None,
    joint_damping: ArrayLike | str | None = None,
    delay: float | None = None,
    noise: ArrayLike | None = None,
    payload: tuple[str, float] | tuple[str, float, ArrayLike] | None = None,
    seed: int = 0,
) -> Simulation:
    """Execute a plan in fine steps, on a robot that may differ from the planned one, acts late and measures its state
    with errors.

    Controls are computed at the plan's knots, or at the robot's own rate, held until the next time, and clipped to the
    problem's control limits.  Contacts and impacts happen at their planned times.

    Parameters
    ----------
    solution : Solution
        With its problem, and with a trajectory.
    model : optional
        Model that replaces the one of the plan's system, with the same states, e.g. with a heavier payload.
    dt : float
        Longest step, s; steps are a whole fraction of the plan's, by the integrator of highest order that applies (rk4
        for robots).  Systems without finer steps (`refined` of `trajopt.capabilities.Steps`) take their own.
    policy : "feedback" (default), "open loop", or a function u = policy(t, x) such as a `trajopt.Policy`
        With the plan's gains, without them, or by another controller; with a period or stiffness of joints the gains
        are those of `Solution.policy`.
    x0 : (nx,) array, optional
        Initial state; by default the plan's.
    system : System, optional
        System that moves in place of the plan's, with the same states and controls, and steps that are a whole fraction
        of the plan's.
    period : float, optional
        Seconds between calls of the policy: at 0, period, 2 period, ....  By default it is called at the plan's knots.
        Where steps cannot be whole fractions of both the period and the plan's knots, as those of free durations, it is
        called at the next step, a tenth of a period late at most.  Systems without finer steps are controlled at their
        own.
    joint_stiffness, joint_damping : number or (J,) array or "auto", optional
        Stiffness and damping of the joints, added to the gains or in their place, as in `Solution.policy`; an error
        with a function as policy, which has its own.  "auto" is made for the delay.
    delay : float, optional
        Seconds after the measurement of a state at which the control made of it begins to act, in whole steps, as long
        as 64 steps of the plan at most; until the first one does, the first planned control acts.  By default zero, but
        "auto" is then made for the time between two calls and 2 ms more.
    noise : number or (ndx,) array, optional
        Standard deviations of the errors, along the tangent, of the states that the policy is given; independent from
        call to call.  What states remember of controls has none.
    payload : (link, mass) or (link, mass, position), optional
        A point mass, kg, that is fixed to a link or frame of the robot and that the plan does not know; its position
        (3,) in it, m.
    seed : int
        Of the errors.

    Raises
    ------
    TypeError, ValueError
        Naming the argument, the value it got and the one expected.

    Warns
    -----
    RuntimeWarning
        As `Solution.policy`; and where the motion ends at an implicit step without a solution.

    Examples
    --------
    >>> solution = trajopt.DDP().solve(problems.make("pendulum"))
    >>> heavier = solution.problem.system.model.with_body("load", "bob", mass=0.05, com=[0.0, 0.0, -1.0])
    >>> for policy in ("open loop", "feedback"):
    ...     motion = trajopt.simulate(solution, model=heavier, policy=policy)
    ...     print(f"{policy}: {motion.largest_deviation[0]:.1f} rad")
    open loop: 2.7 rad
    feedback: 0.1 rad
    """
    problem = planned_problem(solution)
    if callable(policy) and (joint_stiffness is not None or joint_damping is not None):
        name = "joint_damping" if joint_stiffness is None else "joint_stiffness"
        raise ValueError(f"{name}: got one beside a policy of its own, expected None, or solution.policy with it")
    own, xs, us, N = problem.system, solution.xs, solution.us, len(solution.us)
    dt, period = as_positive("dt", dt), None if period is None else as_positive("period", period)
    late, seed = 0.0 if delay is None else as_delay(delay, own), as_whole_number("seed", seed, 0)
    errors = None if noise is None else _errors(own, noise)
    durations = knot_durations(own, N, xs)
    if not callable(policy):
        feedback = as_choice("policy", policy, MODES) == MODES[0]
        asked = float(durations.max()) if period is None else period
        stiff = joint_stiffness is not None or joint_damping is not None
        hold = None if stiff or period is not None else False
        given = deployed(solution, feedback, joint_stiffness, joint_damping, hold, delay if stiff else None, asked)
        solution, policy = given[0], MODES[0 if given[1] else 1]
    if payload is not None and system is not None:
        raise ValueError("payload: got one beside a system, expected one of them at most")
    moves = _what_moves(own, _with_payload(own, model, payload), system)
    fine, k = _in_fine_steps(own, moves, _longest_step(own, durations, min(dt, late or dt), period))
    rows = fine_rows(own, N, k)
    horizon = capability(fine, Knots).horizon
    if horizon not in (None, rows[-1]):
        raise ValueError(f"system: got one of {horizon} knots in these steps, expected {rows[-1]}")
    times = _times(rows, durations)
    start = xs[0] if x0 is None else state_array(own, "x0", x0)
    if period is None:
        breaks, control = rows, _at_knots(solution, policy)
    else:
        breaks, control = _at_rate(solution, policy, rows, times, period)
    memory = _Memory(own, rows, times) if remembered_numbers(own) else None
    if errors is not None:
        control = _mistaken(own, control, errors, np.random.default_rng(seed))
    if late > 0.0:
        breaks, control = _late(breaks, control, rows, times, late, _clipped(solution, 0, us[0]))
    if memory is not None:
        breaks, control = memory.asked(breaks, control)
    X, U = roll_out_finely(fine, breaks, start, us, control)
    if memory is not None:
        memory.write(X)
    if period is None and np.isfinite(X).all():
        times = _times(rows, knot_durations(own, N, X[rows]))  # feedback may change durations that are free
    motion = Simulation(fine, times, X, np.repeat(U, np.diff(breaks), axis=0), rows, deviations(own, xs, X[rows]), xs)
    if not motion.finite and capability(fine, Steps).implicit_step:
        warn(f"simulate: {motion.cause}; shorter ones (dt=) may have one", RuntimeWarning)
    return motion


def _errors(own: System, noise: Any) -> np.ndarray:
    """Standard deviations (ndx,) of errors; none of what states remember."""
    found = np.zeros(own.ndx) + as_number_or_vector("noise", noise, own.ndx)
    if (found < 0.0).any():
        raise ValueError(f"noise: got {float(found.min())}, expected no negative number")
    found[own.ndx - remembered_numbers(own) :] = 0.0
    return found


def _with_payload(own: System, model: Any, payload: Any) -> Any:
    """The model that moves: this one, or the plan's, with a payload, if there is one."""
    if payload is None:
        return model
    model = getattr(innermost(own), "model", None) if model is None else model
    if not hasattr(model, "with_body"):
        raise TypeError(f"payload: got one for a {type(own).__name__}, expected None, or a robot of dynamics")
    if not isinstance(payload, tuple) or len(payload) not in (2, 3):
        raise TypeError(f"payload: got {payload!r}, expected (link, mass) or (link, mass, position)")
    link, mass, *position = payload
    com = as_array("payload", position[0] if position else np.zeros(3), (3,), copy=True)
    return model.with_body("payload", link, mass=as_positive("payload", mass), com=com)


def _mistaken(own: System, control: Controller, errors: np.ndarray, rng: np.random.Generator) -> Controller:
    """The control of states that are measured with errors of these standard deviations (ndx,)."""

    def measuring(i: int, x: np.ndarray) -> np.ndarray:
        return control(i, np.asarray(own.integrate(x, errors * rng.standard_normal(len(errors)))))

    return measuring


def _late(
    breaks: np.ndarray, control: Controller, rows: np.ndarray, times: np.ndarray, delay: float, first: np.ndarray
) -> tuple[np.ndarray, Controller]:
    """Pieces and control where each control begins to act so many seconds after the piece for which it is made began,
    and the `first` one until then.  Knots of no time keep theirs: nothing is late there."""
    instant = np.isin(breaks[:-1], rows[:-1][np.diff(times[rows]) == 0.0])
    step = float(np.diff(times).max())
    acts = np.searchsorted(times, times[breaks[:-1]] + delay - 0.5 * step)
    acts[instant] = breaks[:-1][instant]
    finer = np.union1d(breaks, acts[acts < breaks[-1]])
    pieces = np.searchsorted(breaks, finer, side="right") - 1
    waiting: list[tuple[int, np.ndarray]] = []
    acting = [first]

    def later(j: int, x: np.ndarray) -> np.ndarray:
        row, i = int(finer[j]), int(pieces[j])
        if row == breaks[i]:
            u = control(i, x)
            if instant[i]:
                return u
            waiting.append((int(acts[i]), u))
        while waiting and waiting[0][0] <= row:
            acting[0] = waiting.pop(0)[1]
        return acting[0]

    return finer, later


def _times(rows: np.ndarray, durations: np.ndarray) -> np.ndarray:
    """Times (M+1,) of finer steps; knots with these durations (N,) begin at the rows `rows` (N+1,)."""
    counts, starts = np.diff(rows), np.append(0.0, np.cumsum(durations))
    inside = np.arange(rows[-1]) - np.repeat(rows[:-1], counts)
    return np.append(np.repeat(starts[:-1], counts) + inside * np.repeat(durations / counts, counts), starts[-1])


class _Memory:
    """Memory of the plan's steps that states have (`trajopt.problem.control_rate`), in a motion in finer
    steps."""

    def __init__(self, own: System, rows: np.ndarray, times: np.ndarray) -> None:
        self.own, self.rows, self.size, counts = own, rows, remembered_numbers(own), np.diff(rows)
        self.knots = np.minimum(np.searchsorted(rows, np.arange(len(times)), side="right") - 1, len(counts) - 1)
        self.parts = (np.arange(len(times)) - rows[self.knots]) / counts[self.knots]
        self.before = self.after = np.zeros(self.size)

    def _state(self, row: int, x: np.ndarray) -> np.ndarray:
        """The state (nx,) of a row; rows of knots before it must have been computed in their order."""
        if row == 0 or row == self.rows[self.knots[row]]:
            self.before = x[-self.size :] if row == 0 else self.after
            self.after = remembered_next(self.own, x, np.zeros(self.own.nu))
        remembered = remembered_between(self.own, self.before, self.after, x[-self.size :], float(self.parts[row]))
        return np.concatenate([x[: -self.size], remembered])

    def asked(self, breaks: np.ndarray, control: Controller) -> tuple[np.ndarray, Controller]:
        """Pieces that begin at all knots too, and their control as a function of states with the memory of the plan's
        steps."""
        finer = np.union1d(breaks, self.rows)
        pieces = np.searchsorted(breaks, finer, side="right") - 1
        held: list[np.ndarray] = []

        def remembering(i: int, x: np.ndarray) -> np.ndarray:
            x = self._state(int(finer[i]), x)
            if finer[i] == breaks[pieces[i]]:
                held[:] = [control(int(pieces[i]), x)]
            return held[0]

        return finer, remembering

    def write(self, X: np.ndarray) -> None:
        """Write the remembered quantities into the states X (M+1, nx) of a motion, as far as it is finite."""
        for row, x in enumerate(X):
            if not np.isfinite(x).all():
                break
            x[:] = self._state(row, x)


def _longest_step(own: System, durations: np.ndarray, dt: float, period: float | None) -> float:
    """Longest step, s (of the plan's own time), allowed: a whole fraction of the period too, where there is one."""
    if period is None:
        return dt
    share = Fraction(period / own.dt).limit_denominator(FINEST)
    even = ((durations == 0.0) | (np.abs(durations - own.dt) <= 1e-9 * own.dt)).all()
    if even and abs(float(share) - period / own.dt) <= 1e-9 * period / own.dt:
        least = max(1, int(np.ceil(own.dt / min(dt, period) - 1e-9)))
        return own.dt / (share.denominator * -(-least // share.denominator))
    return min(dt, 0.1 * period * own.dt / durations.max())


def _what_moves(own: System, model: Any, system: System | None) -> System:
    """The system that is simulated: the plan's, the plan's with another model, or another one."""
    if system is not None:
        if model is not None:
            raise ValueError("model, system: got both, expected one of them at most")
        check_system(system, "nx", "ndx", "nu", "dt", "rollout")
        given, wanted = ((s.nx, s.ndx, s.nu) for s in (system, own))
        if given != wanted:
            raise ValueError(f"system: got nx, ndx, nu = {given}, expected {wanted} as of the plan's")
        return system
    if model is None:
        return own
    with_model = capability(own, Steps).with_model
    if with_model is None:
        raise TypeError(f"model: got one for a {type(own).__name__}, which takes none; expected system= in its place")
    return with_model(model)


def _in_fine_steps(own: System, moves: System, dt: float) -> tuple[System, int]:
    """The system in steps of at most dt, and the number of these in a step of the plan."""
    steps = round(own.dt / moves.dt)
    if steps < 1 or abs(own.dt / moves.dt - steps) > 1e-9 * steps:
        raise ValueError(f"system: got dt = {moves.dt:g}, expected a whole part of {own.dt:g}, the plan's")
    if capability(moves, Steps).refined is None:
        return moves, steps
    fine, k = finer_for_stiff(moves, max(1, int(np.ceil(moves.dt / dt - 1e-9))))
    return fine, steps * k


def _clipped(solution: Solution, t: int, u: np.ndarray) -> np.ndarray:
    """A control clipped to the problem's limits at knot t."""
    limits = solution.problem.control_limits
    return u if limits is None else np.clip(u, limits[0][t], limits[1][t])


def _at_knots(solution: Solution, policy: Any) -> Controller:
    """The control of a knot as a function of the state."""
    xs, us, K, system, times = solution.xs, solution.us, solution.K, solution.problem.system, solution.times
    takes_time = np.diff(times) > 0.0
    feedback = not callable(policy) and policy == MODES[0]

    def control(t: int, x: np.ndarray) -> np.ndarray:
        if not callable(policy):
            u = fed_back(us[t], K[t], system.difference(xs[t], x)) if feedback else us[t]
        elif takes_time[t]:
            u = as_array("policy", policy(float(times[t]), x), (system.nu,), finite=False)
        else:  # knots of no time have the planned control: they share their time with the next knot
            u = us[t]
        return _clipped(solution, t, u)

    return control


def _at_rate(
    solution: Solution, policy: Any, rows: np.ndarray, times: np.ndarray, period: float
) -> tuple[np.ndarray, Controller]:
    """Break points of the motion, and the control of each piece: the policy's, called once in a period, or the one held
    since before a knot of no time, whose control is the planned one."""
    us, system, law = solution.us, solution.problem.system, policy
    if not callable(policy):
        law = policy_of(solution, policy == MODES[0], hold=False)
    still = rows[:-1][np.diff(solution.times) == 0.0]
    moments = np.floor(times[:-1] / period + 1e-6).astype(int)
    for row in still:
        moments[row] = moments[row - 1] if row > 0 else -1
    asked = np.flatnonzero(np.diff(moments, prepend=-1))
    breaks = np.unique(np.concatenate([rows[[0, -1]], asked, still, still + 1]))
    knots = np.searchsorted(rows, breaks, side="right") - 1
    asks, stops = np.isin(breaks, asked), np.isin(breaks, still)
    held: list[np.ndarray] = []

    def control(i: int, x: np.ndarray) -> np.ndarray:
        t = int(knots[i])
        if stops[i]:
            return _clipped(solution, t, us[t])
        if asks[i]:
            held[:] = [as_array("policy", law(float(times[breaks[i]]), x), (system.nu,), finite=False)]
        return _clipped(solution, t, held[0])

    return breaks, control
