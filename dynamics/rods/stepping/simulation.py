"""Simulation of soft robots: stiff solvers of scipy with the exact Jacobian, Newmark's method, the midpoint rule."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
from scipy.integrate import BDF, Radau

from dynamics.printed import in_brief
from dynamics.progress import progress_bar
from dynamics.rods.model.arrays import MASS_MATRIX
from dynamics.rods.model.rod_model import turning_joints
from dynamics.rods.robot import pictures
from dynamics.rods.robot.reactions import Motion, at_time, prescribed_motion
from dynamics.rods.robot.soft_robot import SoftRobot, picklable
from dynamics.rods.statics.newton import CONVERGED, MESSAGES, Newton, NewtonResult
from dynamics.rods.stepping.plant import (
    ClosedLoop,
    Policy,
    Report,
    RodPlant,
    Run,
    State,
    as_policy,
    failure,
    finite,
    held_motion,
)
from dynamics.rods.stepping.soft_steps import GAMMA
from dynamics.rods.stepping.soft_system import SoftRobotSystem
from dynamics.rods.stepping.stiff_solvers import stiff_motion
from dynamics.validation import as_array, as_choice, as_flag, as_kind, as_positive

if TYPE_CHECKING:
    from matplotlib.figure import Figure


# --------------------------------------------------------------------------------------------
# Implicit one-step methods of second order for soft robots, each step by Newton's method for the accelerations.
#
#     Newmark     q+ = q + h v + h^2/4 (a + a+)     v+ = v + h/2 (a + a+)     r(q+, v+, a+, u+) = 0
#     midpoint    q+ = q + h v + h^2/2 a            v+ = v + h a             r(q + h/2 v + h^2/4 a, v + h/2 a, a, u) = 0
#     SDIRK2      two accelerations, as in `soft_steps`
#
# The first two have the Jacobian M + h/2 r_v + h^2/4 r_q, the third with g in place of h/2.           [GVS, section 11]
# Controls u = policy(t, x) are unknowns too (`plant`).  With closed chains SDIRK2 has A v + e / h = 0 at its stages.
# With closed chains (index 3) Newmark's step has e(q+) = 0 and the multipliers among its unknowns.  Velocities and
# accelerations would then alternate about those that keep the chains closed, more and more; they are projected.
# The error of a step of Newmark's method in q is about h^2/12 (a+ - a)                            [Zienkiewicz 1991].
# Steps keep their length, and Newton's method its factors, until the estimate allows steps that are WORTH other ones.

TOLERANCE, MAX_ITERATIONS = 1e-9, 30
CLOSER = 0.1
"""Share of the tolerated error of a step to which Newton's method solves it."""
SAFETY, LEAST, MOST = 0.9, 0.2, 2.0
"""Of the step size that the error estimate asks for, and limits of its change from step to step."""
WORTH = 1.2
"""Least growth of the step for which Newton's method needs another Jacobian."""
SHORTEST = 1e-10  # step, relative to the duration


def _method(plant: RodPlant, q, v) -> Newton:
    """For steps that begin at q, v (n,)."""
    return Newton(plant.robot, plant.prescribed.free) if plant.policy is None else ClosedLoop(plant, q, v)


def _solve(
    method: Newton, plant: RodPlant, t: float, q, v, a, h: float, multipliers=None, tolerance=TOLERANCE, final=False,
    rate=None,
) -> tuple[np.ndarray, NewtonResult]:  # fmt: skip
    """q + h^2/4 z, v + h/2 z, z (3, n) with r = 0 there at the time t, from the start z = a and multipliers; closed
    chains have e = 0, or, with a rate, A v + rate e = 0."""
    c, base = np.array([0.25 * h * h, 0.5 * h, 1.0]), np.array([q, v, 0.0 * v])
    if plant.constrained:
        base[:, plant.prescribed.coordinates] = plant.prescribed.values(t)
    options = tolerance, MAX_ITERATIONS, multipliers, final, rate
    if isinstance(method, ClosedLoop):
        result = method.settle(t, base, c, a, *options)
    else:
        result = method.solve(base, c, plant.inputs(t), a, *options)
    return base + c[:, None] * result.z, result


def _start(plant: RodPlant, q, v) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Accelerations at the start, multipliers and forces."""
    motion = plant.motion(MASS_MATRIX, 0.0, q[None], v[None])
    return finite(plant, 0.0, q, motion.a[0]).copy(), motion.multipliers[0].copy(), motion.forces[0]


def _no_step(plant: RodPlant, t: float, h: float, result: NewtonResult, q: np.ndarray) -> RuntimeError:
    return failure(plant, f"t = {t:.6g} s, step {h:.3g} s: {MESSAGES[result.status]}", q)


class _Record:
    """States along the way, and counts."""

    def __init__(self, q, v):
        self.rows = [(0.0, q, v)]
        self.evaluations = self.jacobians = 0

    def count(self, result: NewtonResult):
        self.evaluations += result.evaluations
        self.jacobians += result.jacobians

    def add(self, t, q, v):
        self.rows.append((t, q, v))

    def result(self):
        t, q, v = (np.array(column) for column in zip(*self.rows, strict=True))
        return t, q, v, len(t) - 1, self.evaluations, self.jacobians


def _midpoint_step(stage: Callable[..., np.ndarray], t: float, h: float, q, v, a) -> tuple:
    a = stage(t + 0.5 * h, q + 0.5 * h * v, v, a, h)
    return q + h * v + 0.5 * h * h * a, v + h * a, a


def _sdirk_step(stage: Callable[..., np.ndarray], t: float, h: float, q, v, a) -> tuple:
    g = GAMMA * h
    first = stage(t + g, q + g * v, v, a, 2.0 * g)
    q, v = q + h * v + 2.0 * g * (h - g) * first, v + (h - g) * first
    last = stage(t + h, q, v, first, 2.0 * g)
    return q + g * g * last, v + g * last, last


def _by_stages(
    step: Callable[..., tuple], plant: RodPlant, duration: float, start: State, dt: float, _tolerances, report: Report
) -> Run:
    """Steps of length dt; the last one ends at the duration."""
    (q, v), driven = start, plant.prescribed.coordinates
    a, multipliers, _ = _start(plant, q, v)
    record, method = _Record(q, v), _method(plant, q, v)
    for t, h in _steps(duration, dt):

        def stage(s, q, v, a, length, t=t, h=h, start=q):
            nonlocal multipliers
            for guess in (a, 0.0 * a):  # of stiff robots a is far from what long steps have
                result = _solve(method, plant, s, q, v, guess, length, multipliers, rate=1.0 / h)[1]
                record.count(result)
                if result.status == CONVERGED:
                    break
            else:
                raise _no_step(plant, t, h, result, start)
            multipliers = result.multipliers
            return result.z

        state = np.array(step(stage, t, h, q, v, a))
        state[:2, driven] = plant.prescribed.values(t + h)[:2]
        q, v, a = inside = plant.in_chart(state)
        if inside is not state:
            method.forget()
        record.add(t + h, q, v)
        report(t + h)
    run = record.result()
    return *run, *plant._replace(rate=0.0).reactions(*run[:3])  # of the ends of the steps, not of their stages


implicit_midpoint, sdirk2 = partial(_by_stages, _midpoint_step), partial(_by_stages, _sdirk_step)


def _steps(duration: float, dt: float):
    """Starts and lengths of equal steps, the last one cut short."""
    count = int(np.ceil(duration / dt * (1.0 - 1e-12)))
    for k in range(count):
        yield k * dt, min(dt, duration - k * dt)


class _Trial(NamedTuple):
    """A step: how it was found, q, v, a (3, n) after it, multipliers and forces there."""

    result: NewtonResult
    state: np.ndarray
    multipliers: np.ndarray
    forces: np.ndarray


class _Newmark:
    """Steps from a state q, v, a (3, n) at a time t; Newton's method starts from accelerations that go on changing."""

    def __init__(self, plant: RodPlant, start):
        a, *reactions = _start(plant, *start)
        self.record, self.reactions = _Record(*start), [reactions]
        self.plant, self.method = plant, _method(plant, *start)
        self.t, self.state, self.multipliers, self.jerk = 0.0, np.array([*start, a]), None, 0.0

    def trial(self, h: float, tolerance: float) -> _Trial:
        """A step of length h."""
        q, v, a = self.state
        closed = self.plant.robot.model.constraint_count > 0
        state, result = _solve(
            self.method, self.plant, self.t + h, q + h * v + 0.25 * h * h * a, v + 0.5 * h * a, a + h * self.jerk, h,
            self.multipliers, tolerance, final=not closed and self.plant.constrained,
        )  # fmt: skip
        self.record.count(result)
        if closed and result.status == CONVERGED:
            return _Trial(result, *self.method.project(*state))
        return _Trial(result, state, result.multipliers, result.forces)

    def accept(self, t: float, h: float, trial: _Trial, report) -> None:
        """Go on from there."""
        self.jerk = (trial.state[2] - self.state[2]) / h
        self.t, self.state, self.multipliers = t, self.plant.in_chart(trial.state), trial.result.multipliers
        if self.state is not trial.state:
            self.jerk = 0.0
            self.method.forget()
        self.record.add(t, *self.state[:2])
        self.reactions.append([trial.multipliers, trial.forces])
        report(t)

    def result(self):
        """The motion, what it took, multipliers and forces of prescribed joints."""
        multipliers, forces = (np.array(column) for column in zip(*self.reactions, strict=True))
        return *self.record.result(), multipliers, self.plant.prescribed.of_links(forces)


def newmark(
    plant: RodPlant, duration: float, start: State, dt: float | None, tolerances: tuple[float, float], report: Report
) -> Run:
    """Steps of length dt, or as long as the tolerances allow."""
    steps = _Newmark(plant, start)
    if dt is None:
        _adapt(steps, duration, tolerances, report)
    else:
        for t, h in _steps(duration, dt):
            trial = steps.trial(h, TOLERANCE)
            if trial.result.status != CONVERGED:
                raise _no_step(plant, t, h, trial.result, steps.state[0])
            steps.accept(t + h, h, trial, report)
    return steps.result()


def _adapt(steps: _Newmark, duration, tolerances, report):
    h, tolerance = 1e-4 * duration, max(TOLERANCE, CLOSER * min(tolerances))
    while steps.t < duration:
        t, before = steps.t, steps.state
        h = min(h, duration - t)
        trial, error = steps.trial(h, tolerance), np.inf
        if trial.result.status == CONVERGED:
            allowed = tolerances[1] + tolerances[0] * np.maximum(np.abs(before[0]), np.abs(trial.state[0]))
            error = h * h / 12.0 * np.sqrt(np.mean(((trial.state[2] - before[2]) / allowed) ** 2))
        if error <= 1.0:
            steps.accept(duration if h == duration - t else t + h, h, trial, report)
        change = min(MOST, max(LEAST, SAFETY * max(error, 1e-12) ** (-1.0 / 3.0)))
        if error > 1.0 or change > WORTH:
            h *= change
        if steps.t < duration and h < SHORTEST * duration:
            if trial.result.status != CONVERGED:
                raise _no_step(steps.plant, t, h, trial.result, steps.state[0])
            short = f"t = {t:.6g} s: the tolerances ask for steps below {h:.3g} s"
            raise failure(steps.plant, short, steps.state[0])


# --------------------------------------------------------------------------------------------
# Motions by all methods, and what they need.

Signal = Callable[[float], ArrayLike] | ArrayLike
STIFF = {"bdf": BDF, "radau": Radau}
FIXED: dict[str, Callable[..., Run]] = {"newmark": newmark, "implicit_midpoint": implicit_midpoint, "sdirk2": sdirk2}
BY_STAGES = ("implicit_midpoint", "sdirk2")


class Simulation(NamedTuple):
    """Times t (T,), coordinates q and velocities v (T, n), and what it took.

    Attributes
    ----------
    steps : accepted steps
    evaluations : of the equation of motion, those of a numerical Jacobian not counted
    jacobians : evaluations of its Jacobian; Newmark and the midpoint rule keep one for many steps of equal length
    multipliers : (T, G) of closed chains, N and N m
    prescribed_forces : mapping of each prescribed link to what its joint takes, (T, dof), N or N m
    controls : (T, nu), u that acted at these times, N, Pa, N m; where it is held, from these times on
    robot : SoftRobot; None in a copy by `pickle`, if the robot has functions that cannot be pickled
    """

    t: np.ndarray
    q: np.ndarray
    v: np.ndarray
    steps: int
    evaluations: int
    jacobians: int
    multipliers: np.ndarray
    prescribed_forces: Mapping[str, np.ndarray]
    controls: np.ndarray
    robot: SoftRobot | None

    def __repr__(self) -> str:
        return in_brief(self, duration=float(self.t[-1] - self.t[0]))

    def __reduce__(self) -> tuple[Any, ...]:
        return Simulation, (*self[:-1], picklable(self.robot))

    @property
    def times(self) -> np.ndarray:
        """Times (T,), s, as pictures of `trajopt` ask for them; so they do for the next four."""
        return self.t

    @property
    def us(self) -> np.ndarray:
        """Controls (T, nu)."""
        return self.controls

    @property
    def xs(self) -> np.ndarray:
        """States (T, 2 n), q and v."""
        return np.concatenate([self.q, self.v], axis=1)

    @property
    def system(self) -> SoftRobotSystem:
        """What moves, in steps as long as these are on the average.  ValueError where the robot is gone."""
        if self.robot is None:
            raise ValueError("robot: got None, as it was not pickled, expected motion._replace(robot=robot)")
        return SoftRobotSystem(self.robot, float(self.t[-1]) / max(len(self.t) - 1, 1))

    @property
    def name(self) -> str:
        """That of the model."""
        return self.system.model.name

    def plot(self, path: str | Path | None = None) -> Figure:
        """Draw tips, joints, energies and controls against time, and snapshots: `trajopt.plot_trajectory` of this.

        Parameters: path, the file to write, by default none.  Returns a figure of matplotlib.
        """
        return pictures.plot(self, path)

    def animate(self, path: str | Path, **options: Any) -> Path:
        """Write a moving picture: `trajopt.animate` of this, whose options and errors these are."""
        return pictures.animate(self, path, **options)


def simulate(
    robot: SoftRobot,
    duration: float,
    controls: Signal | None = None,
    q0: ArrayLike | None = None,
    v0: ArrayLike | None = None,
    wrenches: Signal | None = None,
    method: str = "bdf",
    dt: float | None = None,
    rtol: float = 1e-3,
    atol: float = 1e-6,
    jacobian: bool = True,
    progress: bool = False,
    prescribed: Mapping[str, Motion] | None = None,
    baumgarte: float = 0.01,
    max_step: float | None = None,
    policy: Policy | None = None,
    period: float | None = None,
) -> Simulation:
    """Motion from t = 0 to `duration` under given controls, or those of a policy.

    Parameters
    ----------
    robot : SoftRobot
    duration : s
    controls : function of t that returns u (nu,), or constant u (nu,); without it a policy
    q0, v0 : (n,) at the start; by default zero.  Free, spherical and planar joints without stiffness and damping turn
        without limit: where one turns by more than 4.2 rad it goes on in equivalent coordinates, those of 2 pi the
        other way round, so that q and v that are returned may jump, at the start too, while poses do not
    wrenches : function of t that returns (W, 6), or constant (W, 6): [moment; force] of the external loads that take
        one; by default zero
    method : "bdf" or "radau", variable steps and orders (scipy); "newmark", average acceleration (beta = 1/4,
        gamma = 1/2); "implicit_midpoint"; "sdirk2".  The last three are of second order; the first two of them keep
        energy [GVS, section 4.4], "sdirk2" damps what its steps do not resolve [Alexander 1977].  For which motion
        which: Newmark for undamped rods, where it needs a hundredth of BDF's steps; BDF for damped ones, in fluids and
        contact; Radau where tolerances are tight; SDIRK2 for what a `SoftRobotSystem` of this integrator does
    dt : for the last three the step, s; None: "newmark" chooses steps by an error estimate, and the others refuse.
        For "bdf" and "radau" the spacing of the output; None: at their own steps
    rtol, atol : of the local error |e_i| <= atol + rtol |x_i|, for q and v (of "newmark", for q); not used for fixed
        steps, whose Newton's method ends when q and v change by less than 1e-9 (1 + |x_i|), or, where its steps
        shrink faster than tenfold, as soon as that leaves no larger an error
    jacobian : for "bdf" and "radau": use the exact Jacobian; False: differences
    progress : show a progress bar
    prescribed : coordinate-controlled joints, by name of link: functions of t that return coordinate, rate and
        acceleration, (3,) or (3, dof)
    baumgarte : for "bdf" and "radau": T, s, of the equation e'' + 2 e' / T + e / T^2 = 0 of chains, which keeps them
        closed; "newmark" has e = 0 itself
    max_step : for "bdf" and "radau": the longest step, s
    policy : function of t and x = [q; v] (2 n,) that returns u (nu,), as that of a plan, `solution.policy()`.  It acts
        at every time, and all methods solve for u along with the motion, "bdf" and "radau" with the closed loop's
        Jacobian, in which that of the policy is by differences
    period : s, of a policy that is asked at 0, period, 2 period, ..., and its answer held between: what a controller
        does, and, with the dt of its system, what the gains of a plan are made for; a multiple of the dt of "bdf" and
        "radau".  None: u changes with the state

    Returns
    -------
    Simulation(t, q, v, steps, evaluations, jacobians, multipliers, prescribed_forces, controls, robot), which can
    `plot` and `animate` itself

    Raises
    ------
    ValueError : a wrong shape, a number that is not finite or out of range, an unknown method or link; chains that are
        open at the start; a rod that turns by more than 2 pi from one of its points to the next, or a prescribed joint
        or one with stiffness or damping, about any axis, by more than that; "implicit_midpoint" for closed chains,
        which it does not know; controls beside a policy, or neither, or a period of none.
    TypeError : a policy that is no function.
    RuntimeError : the method cannot go on; names the time, and what turns too far on the way.
    """
    as_kind("robot", robot, SoftRobot)
    jacobian, progress = as_flag("jacobian", jacobian), as_flag("progress", progress)
    duration, dt = as_positive("duration", duration), None if dt is None else as_positive("dt", dt)
    rtol, atol = as_positive("rtol", rtol), as_positive("atol", atol)
    as_choice("method", method, (*STIFF, *FIXED))
    if method in BY_STAGES and dt is None:
        raise ValueError(f"dt: got None, expected the step of {method} in seconds")
    longest = np.inf if max_step is None else as_positive("max_step", max_step)
    motion, rate = prescribed_motion(robot.model, prescribed), 1.0 / as_positive("baumgarte", baumgarte)
    asked = None if policy is None else as_policy(policy, robot.nu)
    period = _period(period, policy, dt if method in STIFF else None)
    turns = turning_joints(robot.model, motion.coordinates)
    inputs = _inputs(robot, _controls(robot, controls, policy), wrenches)
    plant = RodPlant(robot, inputs, motion, rate, turns)
    if method == "implicit_midpoint" and robot.model.constraint_count > 0:
        raise ValueError(f"method: {method} knows no closed chains, of which the robot has some; use newmark or sdirk2")
    zero = np.zeros(robot.nq)
    given = [as_array(name, zero if x is None else x, zero.shape) for name, x in (("q0", q0), ("v0", v0))]
    start = plant.start(*given)

    def move(plant: RodPlant, duration: float, start: State, report: Report) -> Run:
        if method in STIFF:
            options = {"rtol": rtol, "atol": atol, "max_step": longest}
            return stiff_motion(plant, duration, start, STIFF[method], dt, options, jacobian, report)
        return FIXED[method](plant, duration, start, dt, (rtol, atol), report)

    with _progress_bar(progress, duration) as report:
        if asked is not None and period is not None:
            run, us = held_motion(move, plant, asked, period, duration, start, report)
        else:
            plant = plant._replace(policy=asked)
            run = move(plant, duration, start, report)
            us = plant.controls(*run[:3])
    robot.warn_of_slack("controls" if asked is None else "policy", us)
    return Simulation(*run, us, robot)


# ------------------------------------------------------------------------------------------------ arguments
def _signal(name: str, value: Signal, shape: tuple[int, ...]) -> Callable[[float], np.ndarray]:
    if callable(value):
        return lambda t: at_time(name, t, value(t), shape).ravel()
    constant = as_array(name, value, shape).ravel()
    return lambda t: constant


def _controls(robot: SoftRobot, controls: Signal | None, policy: Policy | None) -> Signal:
    """Those given, or zeros in the place of a policy's."""
    if (controls is None) == (policy is None):
        which = "neither" if policy is None else "both"
        raise ValueError(f"controls, policy: got {which}, expected one of them")
    return np.zeros(robot.nu) if controls is None else controls


def _period(period: float | None, policy: Policy | None, spacing: float | None) -> float | None:
    """How long controls are held, s, a multiple of the spacing of the output, if there is one."""
    if period is None:
        return None
    if policy is None:
        raise ValueError(f"period: got {period!r} without a policy, whose controls it holds")
    period = as_positive("period", period)
    if spacing is not None and abs(period / spacing - max(round(period / spacing), 1)) > 1e-9:
        raise ValueError(f"period: got {period:g} s, expected a multiple of dt = {spacing:g} s, the output's spacing")
    return period


def _inputs(robot: SoftRobot, controls: Signal, wrenches: Signal | None) -> Callable[[float], np.ndarray]:
    """u (nu) and external wrenches (6 W) at a time, of which each is asked for once: steps and reports share them."""
    count = robot.model.wrench_count
    u = _signal("controls", controls, (robot.nu,))
    w = _signal("wrenches", np.zeros((count, 6)) if wrenches is None else wrenches, (count, 6))
    return cache(lambda t: np.concatenate([u(t), w(t)]))


@contextmanager
def _progress_bar(show: bool, duration: float):
    """A function to tell the time reached."""
    if not show:
        yield lambda t: None
        return
    columns = TextColumn("simulating"), BarColumn(), TextColumn("{task.fields[t]}"), TimeRemainingColumn()
    with progress_bar(*columns) as bar:
        task = bar.add_task("", total=duration, t="")
        yield lambda t: bar.update(task, completed=t, t=f"{t:.3g} of {duration:.3g} s")
