"""Prepared functions of systems with longer states: results of methods, to the last bit, by prepared calls alone."""

import numpy as np
import pytest

import dynamics
import problems
import trajopt
from tests.reference.prepared import PreparedSystem, replay
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


def accelerations():
    return dynamics.JointAccelerationSystem(problems.make("arm").system.model, 0.05)


def declared(carried):
    free, parameters = np.array([1, 2]), np.array([1])
    return declared_system(of_function(), 7, Declared(np.zeros(4), free, carried, parameters))


SYSTEMS = {
    **{f"rates, {of.__name__}": lambda of=of: trajopt.ControlRateSystem(of()) for of in (of_function, arm, quadrotor)},
    "rates, twice": lambda: trajopt.ControlRateSystem(trajopt.ControlRateSystem(of_function())),
    "jerks": lambda: JerkSystem(arm()),
    "rates and jerks": lambda: trajopt.ControlRateSystem(JerkSystem(quadrotor())),
    "durations, of_function": lambda: trajopt.FreeDurationSystem(of_function(), phases=[4, 3]),
    "durations, arm": lambda: trajopt.FreeDurationSystem(arm(), phases=[7]),
    "accelerations": accelerations,
    "rates, accelerations": lambda: trajopt.ControlRateSystem(accelerations()),
    "jerks, accelerations": lambda: JerkSystem(accelerations()),
    "durations, accelerations": lambda: trajopt.FreeDurationSystem(accelerations(), phases=[3, 4]),
    "durations, trot": lambda: trajopt.FreeDurationSystem(trot()).window(0, 12),
    "durations, quadrotor": lambda: trajopt.FreeDurationSystem(quadrotor(), phases=[4, 2]),
    "a number declared": lambda: declared(np.array([], dtype=int)),
    "two numbers declared": lambda: declared(np.array([0])),
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
    prepared(SYSTEMS[name](), rng, *((BUT_ROLLOUTS,) if name == "two numbers declared" else ())).check()


@pytest.mark.parametrize("limited", [False, True])
def test_candidates_that_diverge_are_the_plain_ones(limited, rng):
    given = prepared(SYSTEMS["durations, trot"](), rng, BUT_ROLLOUTS)
    lower, upper = given.limits if limited else (None, None)
    loop = given.x0, given.xs, given.us, *given.policy, given.alphas, None, lower, upper
    roll = given.system.prepared_rollouts(*loop)
    found = roll()
    for move in (given.move, lambda: given.policy[0].__imul__(1e6)):
        move()
        assert replay(roll)
        for got, wanted in zip(found, given.system.closed_loop_rollout(*loop), strict=True):
            assert np.array_equal(got, wanted, equal_nan=True)
    assert np.isfinite(found[0]).all() == limited


def test_two_numbers_or_more_are_not_prepared(rng):
    given = prepared(SYSTEMS["two numbers declared"](), rng, BUT_ROLLOUTS)
    assert given.system.prepared_rollouts(given.x0, given.xs, given.us, *given.policy, given.alphas) is None


def around_changing_functions(stiffness):
    def sprung(x, u):
        return x[1], u[0] - stiffness[0] * x[0] ** 3

    system = trajopt.CallableSystem(xdot=sprung, nx=2, nu=1, dt=0.1)
    return trajopt.ControlRateSystem(system), trajopt.FreeDurationSystem(system, phases=[4, 3])


@pytest.mark.parametrize("which", [0, 1])
def test_checks_are_those_of_the_system_inside(which, rng):
    """A function that has changed is noticed, and then other calls are made, whose results lie where they lay."""
    stiffness = [1.0]
    given = prepared(around_changing_functions(stiffness)[which], rng)
    given.check()
    stiffness[0] = 2.0
    views = [view for roll in given.rolls for view in roll.result()]
    assert not all(map(replay, given.functions))
    assert all(map(replay, given.functions))
    for got, wanted in zip([*views, given.following], given.plain(), strict=False):
        assert np.array_equal(got, wanted)
