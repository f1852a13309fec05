"""Implicit one-step methods of second order for soft robots, each step by Newton's method for the accelerations.

    Newmark     q+ = q + h v + h^2/4 (a + a+)     v+ = v + h/2 (a + a+)     r(q+, v+, a+, u+) = 0
    midpoint    q+ = q + h v + h^2/2 a            v+ = v + h a              r(q + h/2 v + h^2/4 a, v + h/2 a, a, u) = 0
    SDIRK2      two accelerations, as in `dynamics.rods.stepping.soft_steps`

The first two have the Jacobian M + h/2 r_v + h^2/4 r_q, the third with g in place of h/2.            [GVS, section 11]
Controls u = policy(t, x) are unknowns too (`feedback`).  With closed chains SDIRK2 has A v + e / h = 0 at its stages.
With closed chains (index 3) Newmark's step has e(q+) = 0 and the multipliers among its unknowns.  Velocities and
accelerations would then alternate about those that keep the chains closed, more and more; they are projected.
The error of a step of Newmark's method in q is about h^2/12 (a+ - a)                            [Zienkiewicz 1991].
Steps keep their length, and Newton's method its factors, until the estimate allows steps that are WORTH other ones.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np

from dynamics.rods.kinematics.rotations import check_turns, turned_far
from dynamics.rods.model.arrays import MASS_MATRIX
from dynamics.rods.robot.plant import Report, RodPlant, Run, State
from dynamics.rods.statics.newton import CONVERGED, MESSAGES, Newton, NewtonResult
from dynamics.rods.stepping.feedback import ClosedLoop
from dynamics.rods.stepping.soft_steps import GAMMA

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


def finite(plant: RodPlant, t: float, q: np.ndarray, x: np.ndarray) -> np.ndarray:
    """x; where it is not finite, from coordinates q (n,), RuntimeError, or ValueError of a start that turns too far."""
    if not np.isfinite(x).all():
        if t == 0.0:
            check_turns(plant.robot.model, q, "q0")
        raise failure(plant, f"t = {t:.6g} s: the motion is not finite", q)
    return x


def failure(plant: RodPlant, what: str, q: np.ndarray) -> RuntimeError:
    """Of a simulation at this time for this reason, the last coordinates being q (n,)."""
    return RuntimeError(f"simulate: failed at {what}{turned_far(plant.robot.model, q)}")


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
