"""Implicit one-step methods of second order for soft robots, each step by Newton's method for the accelerations.

    Newmark     q+ = q + h v + h^2/4 (a + a+)     v+ = v + h/2 (a + a+)     r(q+, v+, a+, u+) = 0
    midpoint    q+ = q + h v + h^2/2 a            v+ = v + h a              r(q + h/2 v + h^2/4 a, v + h/2 a, a, u) = 0

Both have the Jacobian M + h/2 r_v + h^2/4 r_q.                                                       [GVS, section 11]
With closed chains (index 3) Newmark's step has e(q+) = 0 and the multipliers among its unknowns.  Velocities and
accelerations would then alternate about those that keep the chains closed, more and more; they are projected.
The error of a step of Newmark's method in q is about h^2/12 (a+ - a)                            [Zienkiewicz 1991].
"""

import numpy as np

from dynamics.rods.arrays import MASS_MATRIX
from dynamics.rods.newton import CONVERGED, MESSAGES, Newton, NewtonResult
from dynamics.rods.plant import Plant

TOLERANCE, MAX_ITERATIONS = 1e-9, 30
CLOSER = 0.1
"""Share of the tolerated error of a step to which Newton's method solves it."""
SAFETY, LEAST, MOST = 0.9, 0.2, 2.0
"""Of the step size that the error estimate asks for, and limits of its change from step to step."""
SHORTEST = 1e-10  # step, relative to the duration


def _method(plant: Plant) -> Newton:
    return Newton(plant.robot, plant.prescribed.free)


def _solve(
    method: Newton, plant: Plant, t: float, q, v, a, h: float, multipliers=None, tolerance=TOLERANCE
) -> tuple[np.ndarray, NewtonResult]:
    """q + h^2/4 z, v + h/2 z, z (3, n) with r = 0 there at the time t, from the start z = a and multipliers."""
    c, base = np.array([0.25 * h * h, 0.5 * h, 1.0]), np.array([q, v, 0.0 * v])
    if plant.constrained:
        base[:, plant.prescribed.coordinates] = plant.prescribed.values(t)
    result = method.solve(base, c, plant.inputs(t), a, tolerance, MAX_ITERATIONS, multipliers)
    return base + c[:, None] * result.z, result


def _accelerations(plant: Plant, q, v) -> np.ndarray:
    """At the start."""
    return finite(0.0, plant.motion(MASS_MATRIX, 0.0, q[None], v[None]).a[0])


def finite(t: float, x: np.ndarray) -> np.ndarray:
    """x, or RuntimeError where it is not finite."""
    if not np.isfinite(x).all():
        raise RuntimeError(f"simulate: failed at t = {t:.6g} s: the motion is not finite")
    return x


def _failure(t: float, h: float, result: NewtonResult) -> RuntimeError:
    return RuntimeError(f"simulate: failed at t = {t:.6g} s, step {h:.3g} s: {MESSAGES[result.status]}")


class _Record:
    """States along the way and counts."""

    def __init__(self, q, v):
        self.t, self.q, self.v = [0.0], [q], [v]
        self.evaluations = self.jacobians = 0

    def count(self, result: NewtonResult):
        self.evaluations += result.evaluations
        self.jacobians += result.jacobians

    def add(self, t, q, v):
        self.t.append(t)
        self.q.append(q)
        self.v.append(v)

    def result(self):
        states = np.array(self.t), np.array(self.q), np.array(self.v)
        return *states, len(self.t) - 1, self.evaluations, self.jacobians


def implicit_midpoint(plant: Plant, duration, start, dt, tolerances, report):
    """Steps of length dt; the last one ends at the duration."""
    q, v = start
    a, method = _accelerations(plant, q, v), _method(plant)
    record = _Record(q, v)
    for t, h in _steps(duration, dt):
        _, result = _solve(method, plant, t + 0.5 * h, q + 0.5 * h * v, v, a, h)
        record.count(result)
        if result.status != CONVERGED:
            raise _failure(t, h, result)
        a = result.z
        q, v = q + h * v + 0.5 * h * h * a, v + h * a
        record.add(t + h, q, v)
        report(t + h)
    return record.result()


def _steps(duration: float, dt: float):
    """Starts and lengths of equal steps, the last one cut short."""
    count = int(np.ceil(duration / dt * (1.0 - 1e-12)))
    for k in range(count):
        yield k * dt, min(dt, duration - k * dt)


def _newmark_step(
    method: Newton, plant: Plant, t: float, state, h: float, multipliers, tolerance=TOLERANCE, slope=0.0
):
    """q, v, a (3, n) at t + h, and the result of Newton's method, which starts with accelerations of this slope."""
    q, v, a = state
    q, v = q + h * v + 0.25 * h * h * a, v + 0.5 * h * a
    state, result = _solve(method, plant, t + h, q, v, a + h * slope, h, multipliers, tolerance)
    if plant.robot.model.constraint_count and result.status == CONVERGED:
        state = plant.projected(t + h, *state)
    return state, result


def newmark(plant: Plant, duration, start, dt, tolerances, report):
    """Steps of length dt, or as long as the tolerances allow."""
    q, v = start
    state, multipliers = np.array([q, v, _accelerations(plant, q, v)]), None
    record, method = _Record(q, v), _method(plant)
    if dt is None:
        return _adaptive_newmark(method, plant, duration, state, tolerances, report, record)
    slope = 0.0
    for t, h in _steps(duration, dt):
        after, result = _newmark_step(method, plant, t, state, h, multipliers, slope=slope)
        multipliers, slope, state = result.multipliers, (after[2] - state[2]) / h, after
        record.count(result)
        if result.status != CONVERGED:
            raise _failure(t, h, result)
        record.add(t + h, *state[:2])
        report(t + h)
    return record.result()


def _adaptive_newmark(method, plant, duration, state, tolerances, report, record):
    t, h, multipliers, slope = 0.0, 1e-4 * duration, None, 0.0
    tolerance = max(TOLERANCE, CLOSER * min(tolerances))
    while t < duration:
        h = min(h, duration - t)
        after, result = _newmark_step(method, plant, t, state, h, multipliers, tolerance, slope)
        record.count(result)
        error = np.inf
        if result.status == CONVERGED:
            allowed = tolerances[1] + tolerances[0] * np.maximum(np.abs(state[0]), np.abs(after[0]))
            error = h * h / 12.0 * np.sqrt(np.mean(((after[2] - state[2]) / allowed) ** 2))
        if error <= 1.0:
            t = duration if h == duration - t else t + h
            slope = (after[2] - state[2]) / h
            state, multipliers = after, result.multipliers
            record.add(t, *state[:2])
            report(t)
        h *= min(MOST, max(LEAST, SAFETY * max(error, 1e-12) ** (-1.0 / 3.0)))
        if t < duration and h < SHORTEST * duration:
            if result.status != CONVERGED:
                raise _failure(t, h, result)
            raise RuntimeError(f"simulate: failed at t = {t:.6g} s: the tolerances ask for steps below {h:.3g} s")
    return record.result()
