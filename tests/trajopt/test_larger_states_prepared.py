"""Prepared functions of systems with longer states: results of methods, to the last bit, by prepared calls alone."""

import numpy as np
import pytest

import dynamics
import problems
import trajopt
from tests.reference.prepared import PreparedSystem
from trajopt.problem.augmented_system import Declared, declared_system
from trajopt.problem.jerk import JerkSystem

N = 9
BUT_ROLLOUTS = "prepared_difference", "prepared_steps", "prepared_expansion"


def curved(x, u):
    """Of a mechanical system with states [q; v]."""
    return x[2], x[3], np.sin(x[0]) * u[0] + x[3] ** 2, np.cos(x[1]) * u[1] * x[2]


def of_function():
    return trajopt.CallableSystem(xdot=curved, nx=4, nu=2, dt=0.1)


def arm():
    return dynamics.RigidBodySystem(problems.make("arm").system.model, 0.05, "rk4")


def quadrotor():
    return problems.make("quadrotor").system


def trot():
    return problems.make("quadruped_trot").system


SYSTEMS = {
    **{f"rates, {of.__name__}": lambda of=of: trajopt.ControlRateSystem(of()) for of in (of_function, arm, quadrotor)},
    "rates, twice": lambda: trajopt.ControlRateSystem(trajopt.ControlRateSystem(of_function())),
    "jerks": lambda: JerkSystem(arm()),
    "rates and jerks": lambda: trajopt.ControlRateSystem(JerkSystem(quadrotor())),
    "durations, of_function": lambda: trajopt.FreeDurationSystem(of_function(), phases=[4, 3]),
    "durations, arm": lambda: trajopt.FreeDurationSystem(arm(), phases=[7]),
    "durations, trot": lambda: trajopt.FreeDurationSystem(trot()).window(0, 12),
    "declared": lambda: declared_system(
        of_function(), 7, Declared(np.zeros(4), np.array([1, 2]), np.array([0]), np.array([1]))
    ),
}


def prepared(system, rng, *methods):
    horizon = getattr(system, "horizon", N)
    inside = problems.make("quadruped_trot").x0 if system.nx == 38 else None
    x = getattr(system, "neutral_state", np.zeros(system.nx)) if inside is None else np.append(inside, 0.0)
    x = x + np.eye(system.nx)[-1] if isinstance(system, trajopt.FreeDurationSystem) else x
    xs = system.integrate(np.tile(x, (horizon + 1, 1)), 0.01 * rng.standard_normal((horizon + 1, system.ndx)))
    us = 0.01 * rng.standard_normal((horizon, system.nu))
    return PreparedSystem(system, xs, us, rng, 1e-3, *methods)


@pytest.mark.parametrize("name", SYSTEMS)
def test_prepared_calls_are_the_plain_ones(name, rng):
    prepared(SYSTEMS[name](), rng, BUT_ROLLOUTS).check()
