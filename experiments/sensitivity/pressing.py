"""Friction that barely presses: derivatives of a robot's step where multipliers are a millionth of the costs' slopes.

Payload, friction and stride are drawn at random.  The derivative, by the friction, of a random sum of controls plus the
cost is compared with differences of solutions on both sides, which differ where a row begins or ends to press: a kink.
"""

import warnings
from typing import Any

import numpy as np

import dynamics
import trajopt
from problems.quadruped_model import FEET, quadruped, standing
from trajopt.results.stationary import polished_point, polished_solution

STANDING = quadruped()
START = standing()
LOWEST, HIGHEST = np.array([0.9, 0.23, 0.045]), np.array([1.1, 0.33, 0.065])
"""Of the payload, kg, the friction, and the stride, m."""
POINTS, STEPS, SMALL, KINK = 12, (1e-5, 1e-6), 1e-6, 1e-3


def lifted(p):
    """A quadruped lifts a foot and puts it down p[2] further ahead, on ground of friction p[1], with p[0] kg on it."""
    loaded = STANDING.with_body("load", "base", mass=p[0], com=(0.03, 0.0, 0.06))
    three = [name for name in FEET if name != "rf_foot"]
    phases = [("before", FEET, 10), ("lifted", three, 20), ("after", FEET, 20)]
    system = dynamics.HybridSystem(loaded, 0.01, phases)
    rest = system.state(START)
    goal = dynamics.frame_placement(STANDING, START, "rf_foot").p + np.array([p[2], 0.0, 0.0])
    above, down = (
        trajopt.ResidualCost(dynamics.FrameTranslation(loaded, "rf_foot", place), weight)
        for place, weight in ((goal + np.array([-0.03, 0.0, 0.04]), 1e3), (goal, 1e4))
    )
    usual = [trajopt.StateCost(system, rest, np.repeat([1.0, 1e-2], 18)), trajopt.ControlCost(1e-1)]
    running = [list(usual) for _ in range(system.horizon)]
    running[20].append(above)
    running[30] = [down]  # the knot of the impact
    limits = [trajopt.ControlBounds.from_model(system)]
    for name, phase, first, end in system.segments:
        if phase.dt > 0.0:
            cone = dynamics.FrictionCone(phase, p[1])
            knots = range(first, end)
            limits.append(trajopt.ResidualConstraint(cone, cone.lower, cone.upper, at=knots, name=name))
    final = [trajopt.StateCost(system, rest, 10.0), down]
    return trajopt.Problem(system, rest, system.horizon, running, final, limits, us_init="quasi_static")


def measure(count: int = POINTS, number: int = 1) -> list[dict[str, Any]]:
    """Of each random point its parameters and what `record` finds."""
    rng = np.random.default_rng(number)
    return [record(rng.uniform(LOWEST, HIGHEST), rng) for _ in range(count)]


def record(p: np.ndarray, rng: np.random.Generator) -> dict[str, Any]:
    """Rows whose multipliers are small, rows left as weak, and relative errors of the derivative, against the nearer
    of the two differences, at the solver's solution and at the polished one; whether these differ."""
    solver, problem = trajopt.DDP(switch_threshold=0.1), lifted(p)
    raw = solver.solve(problem)
    solution = polished_solution(problem, raw)
    W = 0.05 * rng.standard_normal(solution.us.shape)

    def along(solution: trajopt.Solution) -> tuple[float, Any]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of weak rows, which are counted
            found = trajopt.sensitivity(lifted, p, solution)
        return float((W * found.us[..., 1]).sum() + found.cost[1]), found

    def value(h: float) -> float:
        other = lifted(p + np.array([0.0, h, 0.0]))
        there = polished_point(other, solver.solve(other, warm_start=solution))
        return float((W * there.us).sum() + other.objective.value(there.xs, there.us))

    (rough, _), (exact, found) = along(raw), along(solution)
    here, sides, kink = value(0.0), np.zeros(2), True
    for h in STEPS:  # the smaller one where another row begins or ends to press within the larger
        sides = np.array([(here - value(-h)) / h, (value(h) - here) / h])
        kink = abs(sides[1] - sides[0]) > KINK * np.abs(sides).max()
        if not kink:
            break
    truths = sides if kink else sides.mean(keepdims=True)
    rough_error, error = (float((np.abs(truths - got) / np.abs(truths)).min()) for got in (rough, exact))
    point = found.point
    little = np.abs(point.nu) < SMALL * point.multiplier_scale
    small = (point.rows.lower < point.rows.upper) & (point.held.rows != 0) & little
    return {
        "payload": p[0], "friction": p[1], "stride": p[2], "small": int(small.sum()), "weak": len(found.weak),
        "kink": bool(kink), "error": error, "unpolished": rough_error,
    }  # fmt: skip
