"""`CallableSystem`: motion against closed forms and other routes, solves against the built-in model, bad input."""

import math
import warnings
from typing import Any

import numpy as np
import pytest
from numba import njit

import problems
import trajopt
from tests.tolerances import IDENTITY, relative_error
from tests.trajopt.systems import LinearSystem
from trajopt.callable_system import CallableSystem, SlowDynamicsWarning, residual
from trajopt.interfaces.stepwise import closed_loop_by_steps

INTEGRATORS = ("explicit_euler", "semi_implicit_euler", "rk2", "rk4", "implicit_midpoint")


def cartpole(x, u):
    """Cart 1 kg, point mass 0.1 kg at 0.5 m, angle 0 hanging."""
    s, c, w = np.sin(x[1]), np.cos(x[1]), x[3]
    D = 1.0 + 0.1 * s * s
    a = (u[0] - 0.1 * s * (0.5 * w * w + 9.81 * c)) / D
    b = (u[0] * c - 0.05 * w * w * c * s - 1.1 * 9.81 * s) / (0.5 * D)
    return np.array([x[2], x[3], a, b])


def cartpole_tuple(x, u):
    s, c, w = np.sin(x[1]), np.cos(x[1]), x[3]
    D = 1.0 + 0.1 * s * s
    a = (u[0] - 0.1 * s * (0.5 * w * w + 9.81 * c)) / D
    return x[2], x[3], a, (u[0] * c - 0.05 * w * w * c * s - 1.1 * 9.81 * s) / (0.5 * D)


def cartpole_out(x, u, out):
    s, c, w = np.sin(x[1]), np.cos(x[1]), x[3]
    D = 1.0 + 0.1 * s * s
    out[0], out[1] = x[2], x[3]
    out[2] = (u[0] - 0.1 * s * (0.5 * w * w + 9.81 * c)) / D
    out[3] = (u[0] * c - 0.05 * w * w * c * s - 1.1 * 9.81 * s) / (0.5 * D)


def cartpole_batch(x, u):
    return cartpole(x.T, u.T).T


compiled_cartpole = njit(cartpole)
compiled_tuple = njit(cartpole_tuple)
compiled_out = njit(cartpole_out)


@njit
def backward_cartpole(x, u):
    return -compiled_cartpole(x, u)


@njit
def oscillator(x, u):
    return x[1], u[0] - x[0]


def make(function=compiled_cartpole, integrator="semi_implicit_euler", **options):
    """A cart-pole, silently."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SlowDynamicsWarning)
        return CallableSystem(xdot=function, nx=4, nu=1, dt=0.02, integrator=integrator, **options)


def trajectory(system, rng, N=8):
    us = rng.standard_normal((N, system.nu))
    return system.rollout(rng.standard_normal(system.nx), us), us


def test_linear_system_in_closed_form(rng):
    A, B = rng.standard_normal((3, 3)), rng.standard_normal((3, 2))
    system = CallableSystem(njit(lambda x, u: A @ x + B @ u), nx=3, nu=2, dt=0.1)
    assert system.derivative_source == "traced"
    expected = LinearSystem(A, B, 0.1)
    xs, us = trajectory(expected, rng)
    assert relative_error(system.rollout(xs[0], us), xs) < IDENTITY
    for got, wanted in zip(system.linearize(xs, us), expected.linearize(xs, us), strict=True):
        assert relative_error(got, wanted) < 1e-9
    H = system.hessian_products(*(rng.standard_normal((8, n)) for n in (3, 2, 3)))
    assert max(np.abs(block).max() for block in H) < 1e-9


@pytest.mark.parametrize(
    "integrator, order", [("explicit_euler", 1), ("semi_implicit_euler", 1), ("rk2", 2), ("rk4", 4),
                          ("implicit_midpoint", 2)]
)  # fmt: skip
def test_integrators_converge_at_their_order(integrator, order):
    """An oscillator, x(t) = cos t: halving the step divides the error by 2^order."""
    errors = []
    for N in (40, 80):
        system = CallableSystem(xdot=oscillator, nx=2, nu=1, dt=2.0 / N, integrator=integrator)
        x = system.rollout([1.0, 0.0], np.zeros((N, 1)))[-1]
        errors.append(np.abs(x - [np.cos(2.0), -np.sin(2.0)]).max())
    assert np.log2(errors[0] / errors[1]) == pytest.approx(order, abs=0.15)


def test_the_implicit_rule_is_symmetric_in_time(rng):
    x, u = rng.standard_normal((5, 4)), rng.standard_normal((5, 1))
    forward = make(integrator="implicit_midpoint")
    backward = make(backward_cartpole, "implicit_midpoint")
    assert relative_error(backward.step(forward.step(x, u), u), x) < IDENTITY


def test_semi_implicit_euler_is_the_built_in_one(rng):
    built_in, system = problems.make("cartpole", integrator="semi_implicit_euler").system, make()
    xs, us = trajectory(system, rng, 20)
    assert relative_error(built_in.rollout(xs[0], us), xs) < IDENTITY
    assert system.semi_implicit
    assert trajopt.interfaces.system.semi_implicit_form(system) == (0.02, 0)


@pytest.mark.parametrize("integrator", INTEGRATORS)
def test_all_forms_of_a_function_agree(integrator, rng):
    reference = make(integrator=integrator)
    xs, us = trajectory(reference, rng)
    lam = rng.standard_normal((len(us), 4))
    others = [make(f, integrator) for f in (cartpole, cartpole_tuple, cartpole_out)]
    others += [make(f, integrator) for f in (compiled_tuple, compiled_out)]
    others.append(make(cartpole_batch, integrator, vectorized=True))
    explicit = integrator != "implicit_midpoint"  # traced steps need no compiled function
    assert [s.compiled for s in others] == [explicit] * 3 + [True] * 2 + [explicit]
    others.append(make(cartpole, integrator, derivatives="complex_step"))
    others.append(make(compiled_out, integrator, derivatives="complex_step"))
    assert [s.compiled for s in others[-2:]] == [False, True]
    for system in others:
        assert relative_error(system.step(xs[:-1], us), reference.step(xs[:-1], us)) < IDENTITY
        assert relative_error(system.rollout(xs[0], us), xs) < IDENTITY
        for got, wanted in zip(system.linearize(xs, us), reference.linearize(xs, us), strict=True):
            assert relative_error(got, wanted) < IDENTITY
        for got, wanted in zip(
            system.hessian_products(xs, us, lam), reference.hessian_products(xs, us, lam), strict=True
        ):
            assert relative_error(got, wanted, floor=1e-2) < 1e-10


@pytest.mark.parametrize("integrator", INTEGRATORS)
def test_closed_loops_with_gaps_and_limits(integrator, rng):
    system, N = make(integrator=integrator), 8
    xs, us = trajectory(system, rng, N)
    k, K, alphas = rng.standard_normal((N, 1)), rng.standard_normal((N, 1, 4)), np.array([1.0, 0.5, 0.1])
    gaps, upper = 0.1 * rng.standard_normal((N + 1, 4)), rng.uniform(0.1, 0.8, (N, 1))
    for extra in ({}, {"gaps": gaps}, {"lower": -upper, "upper": upper},
                  {"gaps": gaps, "lower": -upper, "upper": upper}):  # fmt: skip
        X, U = system.closed_loop_rollout(xs[0] + 0.1, xs, us, k, K, alphas, **extra)
        X_steps, U_steps = closed_loop_by_steps(system, xs[0] + 0.1, xs, us, k, K, alphas, **extra)
        assert relative_error(X, X_steps) < IDENTITY and relative_error(U, U_steps) < IDENTITY
        if "upper" in extra:
            assert (np.abs(U) <= upper).all() and (np.abs(U) == upper).any()
    for function, derivatives in ((cartpole, "auto"), (cartpole, "complex_step"), (compiled_out, "complex_step")):
        other = make(function, integrator, derivatives=derivatives)
        again = other.closed_loop_rollout(xs[0] + 0.1, xs, us, k, K, alphas, gaps, -upper, upper)
        assert relative_error(again[0], X) < IDENTITY and relative_error(again[1], U) < IDENTITY


def test_rollouts_and_steps_are_the_same_bits(rng):
    """So that a rollout has no gaps at all."""
    systems = [make(), make(integrator="rk4"), make(integrator="implicit_midpoint"), make(cartpole)]
    for system in (*systems, make(derivatives="complex_step"), make(cartpole, derivatives="complex_step")):
        xs, us = trajectory(system, rng)
        assert np.array_equal(xs[1:], system.step(xs[:-1], us))
        zero = np.zeros((len(us), 1)), np.zeros((len(us), 1, 4)), np.ones(1)
        assert np.array_equal(system.closed_loop_rollout(xs[0], xs, us, *zero)[0][0], xs)


@pytest.mark.parametrize("function", [compiled_out, cartpole_batch])
def test_solve_finds_the_optimum_of_the_built_in_cartpole(function):
    wanted = problems.make("cartpole", integrator="semi_implicit_euler")
    system = make(function, vectorized=function is cartpole_batch)
    upright = [0.0, np.pi, 0.0, 0.0]
    problem = trajopt.Problem(
        system, wanted.x0, wanted.horizon,
        [trajopt.StateCost(system, upright, [0.1, 0.1, 0.01, 0.01]), trajopt.ControlCost([1e-2])],
        [trajopt.StateCost(system, upright, [100.0, 100.0, 10.0, 10.0])], us_init=wanted.us_init,
    )  # fmt: skip
    built_in, solution = trajopt.DDP().solve(wanted), trajopt.DDP().solve(problem)
    assert built_in.converged and solution.converged
    assert relative_error(solution.xs, built_in.xs) < 1e-8 and relative_error(solution.us, built_in.us) < 1e-8
    assert abs(solution.cost - built_in.cost) < 1e-8 * built_in.cost


@njit
def quotient(x):
    """In a compiled function of its own, 1/0 raises."""
    return 1.0 / x


def explosive(x, u):
    return np.array([x[0] * x[0] * x[0] + u[0], 1.0 / x[0]])


def singular(x, u):
    return np.array([x[0] + u[0], quotient(x[0])])


@pytest.mark.parametrize("function", [njit(explosive), explosive, njit(singular), singular])
def test_divergence_is_not_an_exception(function):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SlowDynamicsWarning)
        system = CallableSystem(function, nx=2, nu=1, dt=0.1, derivatives="finite_differences", x_example=[1.0, 1.0])
    N = 12
    us = np.full((N, 1), 1e3)
    us[0] = -1.0  # x = 1 goes to 0 in the first step, where 1/x is not defined, or blows up
    xs = system.rollout([1.0, 1.0], us)
    assert xs.shape == (N + 1, 2) and np.isfinite(xs[1]).all() and not np.isfinite(xs[-1]).all()
    zero = np.zeros((N, 1)), np.zeros((N, 1, 2)), np.array([1.0, 0.5])
    X, _ = system.closed_loop_rollout(np.ones(2), np.zeros((N + 1, 2)), us, *zero)
    assert not np.isfinite(X[:, -1]).all()
    for bad in (np.zeros((1, 2)), np.full((1, 2), np.nan)):
        assert not np.isfinite(system.step(bad, np.zeros((1, 1)))).all()
        assert not np.isfinite(system.linearize(np.full((1, 2), np.nan), np.zeros((1, 1)))[0]).any()


@pytest.mark.parametrize("error", [ZeroDivisionError, OverflowError, FloatingPointError, np.linalg.LinAlgError])
@pytest.mark.parametrize("vectorized", [False, True])
def test_arithmetic_errors_of_python_functions_are_nan(error, vectorized):
    def function(x, u):
        if np.any(np.real(x) > 1.0):
            raise error("too far")
        return 2.0 * x + u

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SlowDynamicsWarning)
        system = CallableSystem(function, nx=1, nu=1, dt=0.1, vectorized=vectorized)
    assert np.array_equal(system.rollout([0.4], np.zeros((3, 1)))[:, 0], [0.4, 0.8, 1.6, np.nan], equal_nan=True)
    got = system.step(np.array([[2.0], [0.5]]), np.zeros((2, 1)))[:, 0]
    assert np.array_equal(got, [np.nan, 1.0], equal_nan=True)


@pytest.mark.parametrize("derivatives", ["traced", "finite_differences"])
def test_functions_of_math_out_of_their_domain_are_nan(derivatives):
    """As those of numpy are: where they are defined is told when they are tried, and solves begin elsewhere."""

    def function(x, u):
        return x[0] + 0.1 * math.log(u[0]), x[1] + 0.1 * math.sqrt(u[0] - 0.5)

    given: dict[str, Any] = {"nx": 2, "nu": 1, "dt": 0.1, "derivatives": derivatives}
    told = r"step: raises ValueError \(.*\) at x = \[0\. 0\.\], u = \[0\.\], expected finite numbers \(pass x_example="
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SlowDynamicsWarning)
        with pytest.raises(ValueError, match=told):
            CallableSystem(function, **given)
        system = CallableSystem(function, **given, u_example=[1.5])
    assert np.isnan(system.step([0.0, 0.0], [-1.0])).any()
    assert np.isnan(system.rollout([0.0, 0.0], np.array([[1.0], [0.2], [1.0]]))[:, 1]).tolist() == [0, 0, 1, 1]
    goal = [trajopt.StateCost(system, [0.1, 0.5], 10.0)]
    problem = trajopt.Problem(system, np.zeros(2), 5, [trajopt.ControlCost(0.1)], goal)
    assert trajopt.DDP().solve(problem, us=np.zeros((5, 1))).status == "diverged"
    found = trajopt.DDP().solve(problem)
    assert found.start == "example" and np.isfinite(found.cost)
    ratio = trajopt.residual(lambda x: (math.log(x[0]),), 1, system, x_example=[1.0, 0.0], derivatives=derivatives)
    assert not np.isfinite(ratio.evaluate(np.full((1, 2), -1.0), np.zeros((1, 1)))).any()


def test_other_errors_are_the_users_to_see():
    def function(x, u):
        if x[0] > 1.0:
            raise error("missing table entry")
        return 2.0 * x

    for error in KeyError, ValueError:
        with pytest.warns(SlowDynamicsWarning):
            system = CallableSystem(function, nx=1, nu=1, dt=0.1, derivatives="finite_differences")
        with pytest.raises(error, match="missing table entry"):
            system.rollout([2.0], np.zeros((3, 1)))


def test_plain_python_says_that_it_is_slow():
    CallableSystem(xdot=cartpole, nx=4, nu=1, dt=0.02)  # traced
    with pytest.warns(SlowDynamicsWarning, match="numba.njit") as caught:
        system = CallableSystem(xdot=cartpole, nx=4, nu=1, dt=0.02, derivatives="complex_step")
    assert caught[0].filename == __file__
    assert not system.compiled and "compiled=False" in repr(system)
    assert make().compiled and make(cartpole).compiled  # and no warning: warnings are errors here
    CallableSystem(xdot=cartpole_batch, nx=4, nu=1, dt=0.02, vectorized=True)


def test_states_and_steps_take_one_point_or_many(rng):
    system = make()
    x, u = rng.standard_normal((3, 4)), rng.standard_normal((3, 1))
    assert system.step(x[0], u[0]).shape == (4,)
    assert np.array_equal(system.step(x, u[0])[1], system.step(x[1], u[0]))
    dx = system.difference(x[0], x)
    assert relative_error(system.integrate(x[0], dx), x) < IDENTITY
    assert system.euclidean and system.ndx == 4


BAD = [
    ({}, ValueError, "step, xdot: got neither, expected one"),
    ({"step": compiled_cartpole, "xdot": compiled_cartpole}, ValueError, "step, xdot: got both, expected one"),
    ({"step": compiled_cartpole, "integrator": "rk4"}, ValueError, "integrator: got 'rk4' with a discrete step"),
    ({"xdot": 3}, TypeError, "xdot: got int, expected a function"),
    ({"xdot": compiled_cartpole, "jacobians": 3}, TypeError, "jacobians: got int"),
    ({"xdot": compiled_cartpole, "nx": 0}, ValueError, "nx: got 0"),
    ({"xdot": compiled_cartpole, "nu": 1.5}, TypeError, "nu: got 1.5"),
    ({"xdot": compiled_cartpole, "dt": 0.0}, ValueError, "dt: got 0.0, expected a positive"),
    ({"xdot": compiled_cartpole, "integrator": "rk5"}, ValueError, "integrator: got 'rk5'.*did you mean"),
    ({"xdot": compiled_cartpole, "derivatives": "autograd"}, ValueError, "derivatives: got 'autograd'"),
    ({"xdot": compiled_cartpole, "derivatives": "user"}, ValueError, "jacobians: got None"),
    ({"xdot": compiled_cartpole, "hessian_products": cartpole}, ValueError, "jacobians: got None with hessian"),
    ({"xdot": compiled_cartpole, "scale": 0.0}, ValueError, "scale: got 0.0"),
    ({"xdot": compiled_cartpole, "scale": [1.0, 2.0]}, ValueError, "scale: got 2 numbers"),
    ({"xdot": compiled_cartpole, "x_example": [1.0]}, ValueError, "x_example: got shape"),
    ({"xdot": lambda x, u: x[:3]}, ValueError, r"xdot: returned shape \(3,\), expected \(4,\)"),
    ({"step": lambda x, u: 1 / x}, ValueError, "step: got .* expected finite numbers"),
    (
        {"xdot": lambda t, x, u: x},
        TypeError,
        r"xdot: got a function of time, \(t, x, u\), expected one of x and u: make",
    ),
    ({"step": lambda x, u, time: x}, TypeError, "step: got a function of time"),
    ({"xdot": lambda t, x: x}, TypeError, "xdot: got a function of time"),
    ({"step": [cartpole, cartpole]}, TypeError, "step: got 2 functions, expected one: for phases count knots"),
    ({"step": njit(lambda x, u: np.einsum("i->i", x))}, TypeError, "step: numba cannot compile it"),
]


def swapped(u, x):
    return np.array([x[0] + 0.1 * x[1], x[1] + 0.1 * u[0] * x[0]])


ORDERS = {
    "swapped": swapped,
    "swapped, compiled": njit(swapped),
    "keyword": lambda x, *, u: swapped(u, x),
    "other keyword": lambda state, *, control: swapped(control, state),
    "keywords": lambda *, u, x: swapped(u, x),
    "other keywords": lambda *, state, control: swapped(control, state),
    "others": lambda state, control, gain=1.0: gain * swapped(control, state),
}


@pytest.mark.parametrize("name", ORDERS)
def test_arguments_of_functions_by_name(name, rng):
    """As many controls as states, so that nothing else tells them apart."""
    options = {"nx": 2, "nu": 2, "dt": 0.1}
    wanted = CallableSystem(lambda x, u: swapped(u, x), **options)
    x, u = rng.standard_normal((3, 2)), rng.standard_normal((3, 2))
    for derivatives in ("auto", "complex_step"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SlowDynamicsWarning)
            system = CallableSystem(ORDERS[name], derivatives=derivatives, **options)
        assert np.allclose(system.step(x, u), wanted.step(x, u), rtol=1e-14)
        assert np.allclose(system.linearize(x, u)[1], wanted.linearize(x, u)[1], rtol=1e-12)
    own = residual(ORDERS[name], 2, wanted)
    assert np.allclose(own.evaluate(x, u), wanted.step(x, u), rtol=1e-14)
    assert residual(lambda *, x: (x[0],), 1, wanted).evaluate(x, None)[1, 0] == x[1, 0]


@pytest.mark.parametrize("options, error, message", BAD)
def test_bad_arguments(options, error, message):
    with pytest.raises(error, match=message):
        CallableSystem(**{"nx": 4, "nu": 1, "dt": 0.02, **options})


def test_a_compiled_function_of_wrong_length_is_refused():
    for function in (lambda x, u: x[:2], lambda x, u: (x[0], x[1])):
        with pytest.raises(ValueError, match=r"xdot: returned shape \(2,\), expected \(4,\)"):
            CallableSystem(xdot=njit(function), nx=4, nu=1, dt=0.02)


def test_semi_implicit_euler_wants_a_mechanical_system():
    with pytest.raises(ValueError, match="its first half is not v"):
        make(njit(lambda x, u: np.sin(x)))
    with pytest.raises(ValueError, match="nx: got 3, expected an even number"):
        CallableSystem(xdot=njit(lambda x, u: x), nx=3, nu=1, dt=0.1, integrator="semi_implicit_euler")


def test_a_function_may_not_change_its_arguments():
    def function(x, u):
        x += u
        return x.copy()

    for f in (function, njit(function)):
        with pytest.raises(ValueError, match="changes its arguments"):
            CallableSystem(f, nx=1, nu=1, dt=0.1, u_example=[1.0])


def test_bad_shapes_of_knots(rng):
    system = make()
    xs, us = trajectory(system, rng)
    with pytest.raises(ValueError, match="xs, us: got shapes"):
        system.linearize(xs[:3], us)
    with pytest.raises(ValueError, match="lam"):
        system.hessian_products(xs, us, np.zeros((3, 4)))
    with pytest.raises(ValueError, match="x: got 2 points for 3 of u"):
        system.step(xs[:2], us[:3])
    zero = np.zeros((8, 1)), np.zeros((8, 1, 4)), np.ones(1)
    with pytest.raises(ValueError, match="lower, upper"):
        system.closed_loop_rollout(xs[0], xs, us, *zero, lower=us)
    with pytest.raises(ValueError, match="gaps"):
        system.closed_loop_rollout(xs[0], xs, us, *zero, gaps=xs[:3])
