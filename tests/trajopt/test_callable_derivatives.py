"""Derivatives of `CallableSystem` against closed forms, the complex step and differences of its own step."""

import sys
import warnings

import numpy as np
import pytest
from numba import njit
from numba.core.errors import NumbaPerformanceWarning

import problems
from tests.tolerances import COMPLEX_STEP, IDENTITY, relative_error
from tests.trajopt.systems import Pendulum
from trajopt.callable_system import CallableSystem, SlowDynamicsWarning
from trajopt.problem.derivative_check import check_derivatives

INTEGRATORS = ("explicit_euler", "semi_implicit_euler", "rk2", "rk4", "implicit_midpoint")
DIFFERENCES = 1e-8  # of Hessians; those of sixth order that they are compared with are good to 1e-10


@njit
def pendulum(x, u):
    """Unit mass and length, damping 0.1, as tests.trajopt.systems.Pendulum."""
    return x[1], u[0] - 9.81 * np.sin(x[0]) - 0.1 * x[1]


@njit
def pendulum_jacobians(x, u):
    fx = np.array([[0.0, 1.0], [-9.81 * np.cos(x[0]), -0.1]])
    return fx, np.array([[0.0], [1.0]])


@njit
def pendulum_hessians(x, u, lam):
    Hxx = np.zeros((2, 2))
    Hxx[0, 0] = lam[1] * 9.81 * np.sin(x[0])
    return Hxx, np.zeros((1, 2)), np.zeros((1, 1))


@njit
def mixed(x, u):
    """Curved in everything and across x and u: nothing about the integrators' chain rule is zero by luck."""
    return (
        x[1] * np.cos(u[0]) + 0.2 * x[2] * x[0],
        np.sin(x[0] * x[2]) + u[1] * u[1] * x[1],
        np.exp(-0.1 * x[2]) * u[0] * u[1] - x[0] / (2.0 + x[1] * x[1]),
    )


@njit
def mechanical(x, u):
    """x = [q; v] with an acceleration that is curved in q, v, u."""
    return (
        x[2],
        x[3],
        np.sin(x[0] * x[1]) + u[0] * np.cos(x[1]) + x[2] * x[3] * u[0],
        u[0] * u[0] * x[0] - x[3] * x[3] * x[3],
    )


def quiet(*args, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SlowDynamicsWarning)
        return CallableSystem(*args, **options)


def system_of(integrator, **options):
    if integrator == "semi_implicit_euler":
        return CallableSystem(xdot=mechanical, nx=4, nu=1, dt=0.1, integrator=integrator, **options)
    return CallableSystem(xdot=mixed, nx=3, nu=2, dt=0.1, integrator=integrator, **options)


def points(system, rng, K=4):
    return rng.standard_normal((K, system.nx)), rng.standard_normal((K, system.nu)), rng.standard_normal((K, system.nx))


def explicit_step(integrator, x, u, h):
    """The explicit rules written out, for one point, real or complex."""

    def f(x):
        return np.array((mechanical if integrator == "semi_implicit_euler" else mixed).py_func(x, u))

    k1 = f(x)
    if integrator == "explicit_euler":
        return x + h * k1
    if integrator == "semi_implicit_euler":
        v = x[2:] + h * k1[2:]
        return np.concatenate([x[:2] + h * v, v])
    k2 = f(x + 0.5 * h * k1)
    if integrator == "rk2":
        return x + h * k2
    k3 = f(x + 0.5 * h * k2)
    k4 = f(x + h * k3)
    return x + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)


@pytest.mark.parametrize("derivatives", ["traced", "complex_step"])
@pytest.mark.parametrize("integrator", INTEGRATORS[:4])
def test_first_derivatives_against_the_complex_step_of_the_step(integrator, derivatives, rng):
    system = system_of(integrator, derivatives=derivatives)
    assert system.derivative_source == derivatives
    xs, us, _ = points(system, rng)
    n, h = system.nx, 1e-30
    J = np.zeros((len(us), n, n + system.nu))
    for t, (x, u) in enumerate(zip(xs, us, strict=True)):
        assert relative_error(system.step(x, u), explicit_step(integrator, x, u, 0.1)) < IDENTITY
        for j, d in enumerate(1j * h * np.eye(n + system.nu)):
            J[t, :, j] = explicit_step(integrator, x + d[:n], u + d[n:], 0.1).imag / h
    fx, fu = system.linearize(xs, us)
    assert relative_error(fx, J[:, :, :n]) < IDENTITY and relative_error(fu, J[:, :, n:]) < IDENTITY


@pytest.mark.parametrize("derivatives", ["auto", "complex_step", "finite_differences"])
@pytest.mark.parametrize("integrator", INTEGRATORS)
def test_all_derivatives_against_differences_of_the_step(integrator, derivatives):
    report = check_derivatives(system_of(integrator, derivatives=derivatives), tolerance=DIFFERENCES)
    assert report.ok, str(report)
    assert min(abs(report[name].expected) for name in ("fx", "fu", "Hxx", "Hux", "Huu")) > 1e-6
    if integrator == "semi_implicit_euler":
        assert report["semi_implicit fx"].error == 0.0


def test_discrete_steps():
    report = check_derivatives(CallableSystem(mixed, nx=3, nu=2, dt=0.1), tolerance=DIFFERENCES)
    assert report.ok, str(report)


@pytest.mark.parametrize("integrator", INTEGRATORS)
def test_hessians_are_those_of_the_users_derivatives(integrator, rng):
    """For every integrator: its chain rule over exact second derivatives, over complex steps, and traced."""
    options = {"nx": 2, "nu": 1, "dt": 0.05, "integrator": integrator}
    system = CallableSystem(xdot=pendulum, derivatives="complex_step", **options)
    traced = CallableSystem(xdot=pendulum, **options)
    exact = CallableSystem(
        xdot=pendulum, jacobians=pendulum_jacobians, hessian_products=pendulum_hessians, **options
    )  # fmt: skip
    half = CallableSystem(xdot=pendulum, jacobians=pendulum_jacobians, **options)
    sources = [s.derivative_source for s in (system, traced, exact, half)]
    assert sources == ["complex_step", "traced", "user", "user_jacobians"]
    assert exact.compiled
    xs, us, lam = points(system, rng)
    wanted = *exact.linearize(xs, us), *exact.hessian_products(xs, us, lam), *exact.hessians(xs, us)
    for other in (system, traced, half):
        got = *other.linearize(xs, us), *other.hessian_products(xs, us, lam), *other.hessians(xs, us)
        for a, b in zip(got, wanted, strict=True):
            assert relative_error(a, b, floor=1e-2) < COMPLEX_STEP
    for H in (*system.hessian_products(xs, us, lam)[::2], *half.hessian_products(xs, us, lam)[::2]):
        assert relative_error(H, H.swapaxes(1, 2), floor=1e-2) < 1e-15


def test_semi_implicit_pendulum_in_closed_form(rng):
    wanted = Pendulum(dt=0.05)
    system = CallableSystem(xdot=pendulum, nx=2, nu=1, dt=0.05, integrator="semi_implicit_euler")
    xs, us, lam = points(system, rng)
    for a, b in zip(system.linearize(xs, us), wanted.linearize(xs, us), strict=True):
        assert relative_error(a, b) < IDENTITY
    for a, b in zip(system.hessian_products(xs, us, lam), wanted.hessian_products(xs, us, lam), strict=True):
        assert relative_error(a, b, floor=1e-2) < COMPLEX_STEP
    for a, b in zip(system.hessians(xs, us), wanted.hessians(xs, us), strict=True):
        assert relative_error(a, b, floor=1e-2) < COMPLEX_STEP


@pytest.mark.parametrize("vectorized", [False, True])
def test_the_users_derivatives_in_plain_python(vectorized, rng):
    def stack(function):
        return lambda *z: tuple(np.stack(blocks) for blocks in zip(*map(function, *z), strict=True))

    functions = [pendulum.py_func, pendulum_jacobians.py_func, pendulum_hessians.py_func]
    if vectorized:
        functions = [lambda x, u: np.stack(pendulum.py_func(x.T, u.T), axis=1), *map(stack, functions[1:])]
    xdot, jacobians, products = functions
    system = quiet(xdot=xdot, nx=2, nu=1, dt=0.05, jacobians=jacobians, hessian_products=products,
                   vectorized=vectorized)  # fmt: skip
    compiled = CallableSystem(xdot=pendulum, nx=2, nu=1, dt=0.05, jacobians=pendulum_jacobians,
                              hessian_products=pendulum_hessians)  # fmt: skip
    xs, us, lam = points(system, rng)
    for a, b in zip(system.linearize(xs, us), compiled.linearize(xs, us), strict=True):
        assert relative_error(a, b) < IDENTITY
    for a, b in zip(system.hessian_products(xs, us, lam), compiled.hessian_products(xs, us, lam), strict=True):
        assert relative_error(a, b) < IDENTITY


def test_a_users_mistake_is_found():
    def wrong(x, u):
        fx, fu = pendulum_jacobians.py_func(x, u)
        fx[1, 0] *= 1.001
        return fx, fu

    report = check_derivatives(CallableSystem(xdot=pendulum, nx=2, nu=1, dt=0.05, jacobians=wrong))
    assert not report["fx"].ok and report["fx"].index in [(1, 0), (0, 0)]
    assert "WRONG" in str(report)


def test_users_derivatives_of_wrong_shape_are_named():
    options = {"xdot": pendulum, "nx": 2, "nu": 1, "dt": 0.05}
    with pytest.raises(ValueError, match=r"jacobians, fu: returned shape \(2,\), expected \(2, 1\)"):
        CallableSystem(jacobians=njit(lambda x, u: (np.eye(2), np.zeros(2))), **options)
    with pytest.raises(TypeError, match=r"jacobians: returned ndarray, expected the tuple fx \(2, 2\), fu \(2, 1\)"):
        CallableSystem(jacobians=lambda x, u: np.eye(2), **options)
    with pytest.raises(ValueError, match=r"hessian_products, Hux: returned shape \(2, 1\), expected \(1, 2\)"):
        CallableSystem(
            jacobians=pendulum_jacobians,
            hessian_products=lambda x, u, lam: (np.eye(2), np.zeros((2, 1)), np.eye(1)),
            **options,
        )
    with pytest.raises(ValueError, match="derivatives: got 'complex_step' with jacobians"):
        CallableSystem(jacobians=pendulum_jacobians, derivatives="complex_step", **options)


NOT_ANALYTIC = {
    "abs": lambda x, u: np.array([np.abs(x[0]) * x[0] + u[0]]),
    "real part": lambda x, u: np.array([np.real(x[0]) ** 2 + u[0]]),
    "float array": lambda x, u: np.array([x[0] ** 2 + u[0]], dtype=np.float64),
    "arctan2": lambda x, u: np.array([np.arctan2(x[0], 2.0) + u[0]]),
    "clamped": lambda x, u: np.array([min(max(x[0], -0.1), 2.0) ** 2 + u[0]]),
}


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("function", NOT_ANALYTIC.values(), ids=NOT_ANALYTIC.keys())
def test_functions_that_take_no_complex_numbers_fall_back_on_differences(function, compiled, rng):
    """Unless they can be traced, as these can."""

    def branching(x, u):
        return function(x, u) if int(x[0].real) > -1000 else 0.0 * function(x, u)

    function = njit(function)
    for f, source in ((function, "traced"), (branching, "finite_differences")):
        system = quiet((f if source == "traced" else njit(f)) if compiled else getattr(f, "py_func", f),
                       nx=1, nu=1, dt=0.1)  # fmt: skip
        assert system.derivative_source == source and source in repr(system)
        assert check_derivatives(system, x=rng.uniform(0.5, 1.0, (3, 1)), tolerance=1e-7).ok
    with pytest.raises(ValueError, match="derivatives: got 'complex_step' for a function that"):
        quiet(function, nx=1, nu=1, dt=0.1, derivatives="complex_step")


TABLE = np.array([0.0, 0.4, -0.2, 0.5])


@njit
def interpolated(x, u):
    """The table's value between its knots 0, 1, 2, 3, of an index that is clamped to them."""
    at = min(max(x[0], 0.0), 2.999)
    i = int(at)
    return (u[0] + (1.0 - at + i) * TABLE[i] + (at - i) * TABLE[i + 1],)


def test_a_table_that_is_read_by_a_clamped_index():
    """numba has no order of complex numbers, and says so in its own way."""
    system = CallableSystem(xdot=interpolated, nx=1, nu=1, dt=0.1, integrator="explicit_euler")
    assert system.derivative_source == "finite_differences"
    fx, fu = system.linearize(np.array([[0.5], [1.25], [2.5], [0.0]]), np.zeros((3, 1)))
    assert fx.ravel() == pytest.approx([1.04, 0.94, 1.07], abs=1e-10)
    assert fu.ravel() == pytest.approx([0.1, 0.1, 0.1], abs=1e-10)


def test_what_a_function_raises_for_complex_numbers_alone():
    """Whatever it is: the same numbers, real, have gone through it."""
    def checked(x, u):
        if np.iscomplexobj(x) and float(x[0].real) > -1e6:
            raise LookupError("of reals only")
        return (x[0] ** 2 + u[0],) if int(x[0]) > -1000 else (0.0,)

    system = quiet(checked, nx=1, nu=1, dt=0.1)
    assert system.derivative_source == "finite_differences"
    assert check_derivatives(system, x=np.full((1, 1), 0.7), tolerance=1e-7).ok


def test_what_is_slow_takes_complex_steps():
    """numba warns of products with strided arrays, for real numbers and for complex ones."""
    @njit
    def strided(x, u):
        A = np.array([[1.0, 7.0], [2.0, 7.0]]) + 0.0 * x[0]
        return (A[:, ::2] @ x)[:1] * x + u if int(x[0].real) > -1000 else x

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NumbaPerformanceWarning)
        assert CallableSystem(strided, nx=1, nu=1, dt=0.1).derivative_source == "complex_step"


def test_scale_sets_the_steps(rng):
    """A function that varies over 1e-4 in x: differences see it only if told."""
    system = CallableSystem(njit(lambda x, u: (np.sin(1e4 * x[0]) + u[0],)), nx=1, nu=1, dt=0.1, scale=[1e-4, 1.0])
    x, u, lam = np.array([[3e-5]]), np.zeros((1, 1)), np.ones((1, 1))
    assert system.hessian_products(x, u, lam)[0][0, 0, 0] == pytest.approx(-1e8 * np.sin(0.3), rel=1e-10)
    steps = CallableSystem(njit(lambda x, u: (np.sin(1e4 * x[0]) + u[0],)), nx=1, nu=1, dt=0.1,
                           derivatives="complex_step", scale=[1e-4, 1.0])  # fmt: skip
    assert steps.hessian_products(x, u, lam)[0][0, 0, 0] == pytest.approx(-1e8 * np.sin(0.3), rel=1e-10)
    rough = CallableSystem(njit(lambda x, u: (np.sin(1e4 * x[0]) + u[0],)), nx=1, nu=1, dt=0.1,
                           derivatives="finite_differences", scale=[1e-4, 1.0])  # fmt: skip
    assert rough.linearize(x, u)[0][0, 0, 0] == pytest.approx(1e4 * np.cos(0.3), rel=1e-10)
    assert rough.hessian_products(x, u, lam)[0][0, 0, 0] == pytest.approx(-1e8 * np.sin(0.3), rel=1e-8)


def test_differences_at_the_limit_of_a_clip_are_those_of_the_inside():
    """And second ones are not those of the corner; where both sides vary, as those of |x|, it is the mean."""
    def limited(x, u):
        return (x[0] ** 2 + 3.0 * min(max(u[0], -2.0), 2.0) + u[0] * x[0] * 1e-4, abs(x[1]) + x[1] ** 3)

    system = quiet(limited, nx=2, nu=1, dt=0.1, derivatives="finite_differences")
    x, u = np.zeros((4, 2)), np.array([[-2.0], [2.0], [-2.1], [0.3]])
    fx, fu = system.linearize(x, u)
    assert relative_error(fu[:, 0, 0], [3.0, 3.0, 0.0, 3.0]) < 1e-8
    assert np.abs(fx[:, 1, 1]).max() < 1e-5
    Hxx, Hux, Huu = system.hessian_products(x, u, np.ones((4, 2)))
    assert np.abs(Huu).max() < 1e-8 and np.abs(Hux[:, 0] - [1e-4, 0.0]).max() < 1e-8
    assert relative_error(Hxx[:, 0, 0], np.full(4, 2.0)) < 1e-8


def test_stiff_implicit_steps(rng):
    """x' = -1e6 (x - sin u): Newton in one step, derivatives of the closed form."""
    h, stiff = 0.01, 1e6
    system = CallableSystem(xdot=njit(lambda x, u: (-1e6 * (x[0] - np.sin(u[0])),)), nx=1, nu=1, dt=h,
                            integrator="implicit_midpoint")  # fmt: skip
    x, u = rng.standard_normal((3, 1)), rng.standard_normal((3, 1))
    decay = (1 - h * stiff / 2) / (1 + h * stiff / 2)
    assert relative_error(system.step(x, u), decay * x + (1 - decay) * np.sin(u)) < 1e-10
    fx, fu = system.linearize(x, u)
    assert relative_error(fx[:, :, 0], np.full((3, 1), decay)) < 1e-10
    assert relative_error(fu[:, :, 0], (1 - decay) * np.cos(u)) < 1e-10
    Huu = system.hessian_products(x, u, np.ones((3, 1)))[2]
    assert relative_error(Huu[:, :, 0], -(1 - decay) * np.sin(u)) < 1e-9


def test_newton_that_does_not_converge_gives_nan():
    """k = (x + h/2 k)^2 + 2 has no real solution for large steps."""
    system = CallableSystem(xdot=njit(lambda x, u: (x[0] * x[0] + 1.0 + u[0],)), nx=1, nu=1, dt=10.0,
                            integrator="implicit_midpoint", x_example=[0.0], u_example=[-1.0])  # fmt: skip
    assert np.isnan(system.step(np.ones((2, 1)), np.ones((2, 1)))).all()
    python = quiet(xdot=lambda x, u: np.array([x[0] * x[0] + 1.0 + u[0]]), nx=1, nu=1, dt=10.0,
                   integrator="implicit_midpoint", u_example=[-1.0])  # fmt: skip
    assert np.isnan(python.rollout([1.0], np.ones((3, 1)))[1:]).all()
    for s in (system, python):
        assert all(np.isnan(block).all() for block in s.linearize(np.ones((1, 1)), np.ones((1, 1))))
        assert all(np.isnan(block).all() for block in s.hessian_products(*3 * [np.ones((1, 1))]))


def test_a_robot_of_its_own_passes_too():
    assert check_derivatives(problems.make("double_pendulum").system).ok


def test_many_knots_at_once(rng):
    """Blocks and threads change nothing, but that numpy may round a sine by where it lies in its array."""
    own = quiet(xdot=lambda x, u: np.stack(mixed.py_func(x.T, u.T), axis=1), nx=3, nu=2, dt=0.1, vectorized=True)
    for system, tolerance in ((system_of("rk4"), 0.0), (own, IDENTITY)):
        xs, us, lam = points(system, rng, 1500)
        some = [0, 7, 800, 1499]
        for all_, few in zip(
            (*system.linearize(xs, us), *system.hessian_products(xs, us, lam)),
            (*system.linearize(xs[some], us[some]), *system.hessian_products(xs[some], us[some], lam[some])),
            strict=True,
        ):
            assert relative_error(all_[some], few) <= tolerance


def test_jax(rng):
    jax = pytest.importorskip("jax")
    jnp = jax.numpy

    def function(x, u):
        return jnp.stack(
            [x[1] * jnp.cos(u[0]) + 0.2 * x[2] * x[0], jnp.sin(x[0] * x[2]) + u[1] ** 2 * x[1],
             jnp.exp(-0.1 * x[2]) * u[0] * u[1] - x[0] / (2.0 + x[1] ** 2)]
        )  # fmt: skip

    for integrator in ("rk4", "implicit_midpoint"):
        system = CallableSystem(xdot=function, nx=3, nu=2, dt=0.1, integrator=integrator, derivatives="jax")
        assert system.derivative_source == "jax"
        reference = system_of(integrator)
        xs, us, lam = points(system, rng)
        assert relative_error(system.step(xs, us), reference.step(xs, us)) < IDENTITY
        for a, b in zip(system.linearize(xs, us), reference.linearize(xs, us), strict=True):
            assert relative_error(a, b) < IDENTITY
        for a, b in zip(system.hessian_products(xs, us, lam), reference.hessian_products(xs, us, lam), strict=True):
            assert relative_error(a, b) < COMPLEX_STEP
    assert jnp.ones(1).dtype == np.float32  # the user's precision is what it was
    with pytest.raises(ValueError, match=r"xdot: returned shape \(2,\), expected \(3,\)"):
        CallableSystem(xdot=lambda x, u: x[:2], nx=3, nu=2, dt=0.1, derivatives="jax")
    batches = CallableSystem(xdot=jax.vmap(function), nx=3, nu=2, dt=0.1, derivatives="jax", vectorized=True)
    assert relative_error(batches.step(xs, us), system_of("rk4").step(xs, us)) < IDENTITY


def test_jax_is_an_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "jax", None)
    monkeypatch.delitem(sys.modules, "trajopt.callable_system.array_libraries", raising=False)
    with pytest.raises(ImportError, match=r"needs jax: pip install '"):
        CallableSystem(xdot=lambda x, u: x, nx=3, nu=2, dt=0.1, derivatives="jax")
