"""Gradients of functions of solutions by all that is in their problems: against problems made of other values."""

import pickle
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

import dynamics
import problems
import trajopt
from experiments.sensitivity.cases import CASES
from tests.tolerances import relative_error
from tests.trajopt.systems import CirclePendulum, Pendulum
from trajopt.costs.residuals import ControlResidual, SquaredNorm, StateResidual
from trajopt.layers import Covectors, LayerHost
from trajopt.optimality.kkt_system import KKTSystem
from trajopt.problem.parameters import LIMITS, places
from trajopt.problem.problem import Problem
from trajopt.results.stationary import polished_solution

AGAINST_MADE = 1e-7
"""Tolerance against differences of problems made of other values."""


def solved(problem):
    return polished_solution(problem, trajopt.DDP().solve(problem))


def bars(solution, seed=3):
    rng, n = np.random.default_rng(seed), solution.problem.system.ndx
    return rng.standard_normal((len(solution.xs), n)), rng.standard_normal(solution.us.shape), 2.0


def own(name, value):
    """One that differs from knot to knot."""
    return value * np.linspace(1.0, 1.2, 20)[:, None] + 0.01 * np.arange(20)[:, None]


# ------------------------------------------------------------------------------------------------ problems
def pressed():
    """A pendulum whose torque and speed press, which ends where it must, with numbers of all shapes."""
    s = Pendulum()
    running = [
        trajopt.StateCost(s, own("reference", np.array([0.3, 0.1])), own("weights", np.array([1.0, 0.1]))),
        trajopt.ControlCost(1e-2, 0.4),
        trajopt.ResidualCost(StateResidual(s, [0.2, 0.1]), [0.3, 0.2], trajopt.SmoothAbs(0.3), reference=0.05),
        trajopt.ResidualCost(ControlResidual(s, 0.1), 0.02, trajopt.SmoothNorm(0.2), reference=[0.03]),
    ]
    norm = SquaredNorm(StateResidual(s, [0.2, 0.0]))
    held = trajopt.ResidualConstraint(ControlResidual(s, 0.5), -20.0, 1.2, at=(8, 9, 12), name="push")
    goal = trajopt.ResidualConstraint(StateResidual(s, [0.9, -1.0]), 0.0, 0.0, at="terminal", name="goal")
    near = trajopt.ResidualConstraint(norm, -np.inf, [2.9], at=slice(0.5, 0.8), name="near")
    limits = [trajopt.ControlBounds(-9.0, 9.0), trajopt.ControlBounds(-2.0, [8.0], name="weaker")]
    bounds = trajopt.StateBounds(s, [-np.inf, -4.0], [np.inf, np.linspace(2.0, 1.9, 1)[0]])
    terminal = [trajopt.StateCost(s, [0.2, 0.0], [5.0, 2.0], trajopt.PseudoHuber(0.5)),
                trajopt.ResidualCost(norm, 0.3, trajopt.WeightedQuadratic([[2.0]]))]  # fmt: skip
    return Problem(s, [1.2, 0.0], 20, running, terminal, [*limits, bounds, held, goal, near])


def reaching(horizon=20):
    """An arm with targets of all kinds."""
    model = dynamics.load_urdf(problems.model_path("arm6"))
    system, frame, q = dynamics.RigidBodySystem(model, 0.05), "tool", np.full(6, 0.3)
    R, place = dynamics.frame_placement(model, q + 0.2, frame)
    ball = dynamics.FrameTranslation(model, frame, place)
    running = [
        trajopt.ControlCost(1e-3), trajopt.ResidualCost(dynamics.FrameVelocity(model, frame), 0.1),
        trajopt.ResidualCost(dynamics.FrameRotation(model, frame, R), 1.0, trajopt.PseudoHuber(0.2)),
        trajopt.ResidualCost(SquaredNorm(ball), 10.0), trajopt.StateCost(system, system.state(q), 0.1),
    ]  # fmt: skip
    terminal = [trajopt.ResidualCost(dynamics.FramePlacement(model, frame, (R, place)), [50.0, 60.0, 70.0, 5.0, 6.0, 7.0])]
    held = [trajopt.ResidualConstraint(ball, -0.04, 0.04, at="terminal", name="reached")]
    return Problem(system, system.state(q), horizon, running, terminal, held, us_init="quasi_static")


def wrapped(kind):
    """The pendulum as a robot with what the control before adds, or with free durations."""
    plain = problems.make("double_pendulum")
    plain = replace(plain, horizon=25, us_init=None, x0=np.array([2.9, 0.2, 0.0, 0.0]))
    if kind == "durations":
        return trajopt.with_free_durations(plain, 1.0)
    system = trajopt.ControlRateSystem(plain.system)
    push = trajopt.ResidualCost(system.lift(StateResidual(plain.system, plain.x0)), 0.3)
    costs = [*map(system.lift, plain.running_costs), trajopt.ControlRateCost(system, 1e-4), push]
    return Problem(system, system.state(plain.x0), 25, costs, [system.lift(plain.terminal_costs[0])])


def quadrotor():
    """Clamped thrusts, a state on a manifold, a bound on it."""
    case = CASES["quadrotor"]
    plain = case.make(case.p)
    s = plain.system
    tilted = s.integrate(plain.x0, np.r_[0.1, 0.2, 0.0, 0.1, 0.2, 0.3, np.zeros(6)])
    level = trajopt.StateBounds(s, lower=np.r_[np.full(5, -np.inf), -0.3, np.full(6, -np.inf)], reference=tilted)
    rows = np.stack([s.integrate(plain.x0, np.r_[0.01 * t, np.zeros(11)]) for t in range(75)])
    costs = [*plain.running_costs, trajopt.StateCost(s, rows, 0.05)]
    return replace(plain, running_costs=costs, constraints=[*plain.constraints, level])


MADE = {
    "pressed": pressed, "reaching": reaching, "rates": lambda: wrapped("rates"), "quadrotor": quadrotor,
    "durations": lambda: wrapped("durations"), "quadruped": lambda: CASES["quadruped_stand"].make(CASES["quadruped_stand"].p),
    "unicycle": lambda: CASES["unicycle"].make(CASES["unicycle"].p),
}  # fmt: skip


@cache
def solution_of(name):
    return solved(MADE[name]())


def turned(target, d):
    """A pose T exp(d), or a rotation, to second order."""
    K = np.cross(np.eye(3), 0.5 * d[-3:])
    R = np.linalg.solve(np.eye(3) - K, np.eye(3) + K)
    return (target[0] @ R, target[1] + target[0] @ d[:3]) if isinstance(target, tuple) else target @ R


def moved(problem, place, attribute, gradient):
    """The problem as a function of the attribute, moved along its tangent, and where that is now."""
    value, s = place.values[attribute], problem.system
    with_value = trajopt.DDP().prepare

    def make(p):
        if isinstance(value, tuple) or gradient.shape == (3,) and np.shape(value) == (3, 3):
            new = turned(value, p)
        elif np.shape(value) != gradient.shape:
            new = s.integrate(value, p)
        else:
            new = p
        prepared = with_value(problem)
        prepared.update({place.name: {attribute: new}})
        return prepared.problem

    plain = isinstance(value, np.ndarray | float) and np.shape(value) == gradient.shape
    return make, np.array(value, dtype=float) if plain else np.zeros(gradient.shape)


def some_numbers(p, attribute):
    """Of an array, those that can be moved, at most fifteen: finite ones, of weights positive ones."""
    index = np.flatnonzero(np.isfinite(p) & ((p > 0.0) | (attribute != "weights")))
    return index[:: max(1, len(index) // 13)]


def of_some(make, whole, index):
    """As a function of some numbers of an array."""

    def of_part(p):
        full = whole.copy()
        full.reshape(-1)[index] = p
        return make(full)

    return of_part


@pytest.mark.parametrize("name", MADE)
def test_every_attribute(name):
    """And that all there are have a gradient."""
    solution, checked = solution_of(name), 0
    problem, covectors = solution.problem, bars(solution)
    found = solution.vjp(*covectors)
    for place in places(problem).values():
        for attribute in place.values:
            gradient = found[place.name][attribute]
            make, p = moved(problem, place, attribute, gradient)
            index = some_numbers(p, attribute)
            if not len(index) or (attribute in LIMITS and np.array_equal(*(place.values[side] for side in LIMITS))):
                continue  # one of two equal limits alone cannot be moved
            steps = 1e-3 * np.abs(p.ravel()[index]) if attribute == "weights" else None
            make, p, gradient = of_some(make, p, index), p.ravel()[index], np.ravel(gradient)[index]
            expected = trajopt.sensitivity(make, p, solution, steps=steps).vjp(*covectors)
            size = max(float(np.abs(expected).max()), 1e-6)
            assert np.abs(gradient - expected).max() < AGAINST_MADE * size, (place.name, attribute)
            checked += 1
    assert checked >= 4
