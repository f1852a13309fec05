"""Functions that return arrays of jax or torch, or numbers in single precision."""

import copy
import sys
import warnings

import numpy as np
import pytest

import trajopt
from tests.tolerances import COMPLEX_STEP, IDENTITY, relative_error

OPTIONS = {"nx": 2, "nu": 1, "dt": 0.1}


def pendulum(x, u):
    return np.array([x[1], u[0] * np.cos(x[0]) - 2.0 * np.sin(x[0]) - 0.1 * x[1] ** 3])


def jax_forms(jax):
    jnp = jax.numpy

    def one(x, u):
        return jnp.array([x[1], u[0] * jnp.cos(x[0]) - 2.0 * jnp.sin(x[0]) - 0.1 * x[1] ** 3])

    return one, lambda x, u: tuple(one(x, u)), jax.jit(one), jax.vmap(one)


def torch_forms(torch):
    def one(x, u):
        return torch.stack([x[1], u[0] * torch.cos(x[0]) - 2.0 * torch.sin(x[0]) - 0.1 * x[1] ** 3])

    def converted(x, u):
        return one(torch.as_tensor(x), torch.as_tensor(u))

    def written(x, u):  # and branches: both are nothing to map over
        x, u, out = torch.as_tensor(x), torch.as_tensor(u), torch.zeros(2, dtype=torch.float64)
        out[0] = x[1]
        out[1] = one(x, u)[1] if x[0] > 0.0 else u[0] * torch.cos(x[0]) - 2.0 * torch.sin(x[0]) - 0.1 * x[1] ** 3
        return out

    def batch(x, u):
        a = u[:, 0] * torch.cos(x[:, 0]) - 2.0 * torch.sin(x[:, 0]) - 0.1 * x[:, 1] ** 3
        return torch.stack([x[:, 1], a], dim=1)

    return one, converted, written, batch


FORMS = {"jax": jax_forms, "torch": torch_forms}


@pytest.mark.parametrize("library", FORMS)
def test_functions_go_through_the_library_whose_arrays_they_return(library, rng):
    """In double precision, exactly, also as residuals and with free durations, without words on numba."""
    forms = FORMS[library](pytest.importorskip(library))
    wanted = trajopt.CallableSystem(xdot=pendulum, **OPTIONS)
    xs, us, lam = rng.standard_normal((7, 2)), rng.standard_normal((7, 1)), rng.standard_normal((7, 2))
    residual = trajopt.residual(pendulum, 2, wanted)
    for form in forms:
        options = {"vectorized": form is forms[-1]}
        system = trajopt.CallableSystem(xdot=form, **OPTIONS, **options)
        assert system.derivative_source == library and system.step_noise is None
        assert relative_error(system.step(xs, us), wanted.step(xs, us)) < IDENTITY
        assert system.step(xs[:0], us[:0]).shape == (0, 2) and np.isnan(system.step([np.nan, 0.0], [0.0])).any()
        for a, b in zip(system.linearize(xs, us), wanted.linearize(xs, us), strict=True):
            assert relative_error(a, b) < IDENTITY
        for a, b in zip(system.hessian_products(xs, us, lam), wanted.hessian_products(xs, us, lam), strict=True):
            assert relative_error(a, b, floor=1e-2) < COMPLEX_STEP
        own = trajopt.residual(form, 2, wanted, **options)
        assert own.derivative_source == library
        assert relative_error(own.jacobians(xs, us)[0], residual.jacobians(xs, us)[0]) < IDENTITY
    timed = trajopt.CallableSystem(xdot=forms[0], **OPTIONS).timed()
    us = np.hstack([us, np.full((7, 1), 0.07)])
    assert timed.derivative_source == library
    assert relative_error(timed.linearize(xs, us)[1], wanted.timed().linearize(xs, us)[1]) < IDENTITY
    of_state = trajopt.residual(lambda x: forms[0](x, x[:1]), 2, wanted)
    assert of_state.derivative_source == library and of_state.jacobians(xs, None)[1] is None


@pytest.mark.parametrize("library", FORMS)
def test_derivatives_that_get_lost_are_found(library):
    module = pytest.importorskip(library)
    form = FORMS[library](module)[0]
    if library == "jax":
        lost = lambda x, u: module.lax.stop_gradient(form(x, u))  # noqa: E731
    else:
        lost = lambda x, u: form(x, u).detach()  # noqa: E731
    with pytest.raises(ValueError, match=f"xdot: got number 0 without a derivative by number 1 of .* from {library}"):
        trajopt.CallableSystem(xdot=lost, **OPTIONS)
    with pytest.raises(ValueError, match=r"returned shape \(1,\), expected \(2,\)"):
        trajopt.CallableSystem(xdot=lambda x, u: form(x, u)[:1], **OPTIONS)


def test_networks_in_single_precision_are_differentiated_by_torch():
    """Exactly but for their own rounding, which solves take for noise."""
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2))

    def step(x, u):
        return net(torch.cat([torch.as_tensor(x), torch.as_tensor(u)]).float())

    system = trajopt.CallableSystem(step, **OPTIONS)
    assert system.derivative_source == "torch" and system.step_noise is not None
    exact = copy.deepcopy(net).double()
    double = trajopt.CallableSystem(lambda x, u: exact(torch.cat([x, u])), **OPTIONS)
    assert double.derivative_source == "torch" and double.step_noise is None
    xs, us = np.array([[0.3, -0.2]]), np.array([[0.1]])
    fx, fu = double.linearize(xs, us)
    for got, wanted in zip(system.linearize(xs, us), (fx, fu), strict=True):
        assert relative_error(got, wanted) < 1e-5


def test_differences_of_single_precision_are_refused():
    def single(x, u):
        return pendulum(x.astype(np.float32), u.astype(np.float32)).astype(np.float32)

    for options in ({"xdot": single}, {"step": lambda x, u: tuple(single(x, u))}):
        with pytest.raises(TypeError, match=r"(xdot|step): returned float32, expected float64, .*x.astype\(float\)"):
            trajopt.CallableSystem(**options, **OPTIONS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", trajopt.SlowDynamicsWarning)
        rough = trajopt.CallableSystem(xdot=single, derivatives="finite_differences", **OPTIONS)
    assert rough.derivative_source == "finite_differences" and rough.step_noise is not None
    with pytest.raises(TypeError, match="function: returned float32"):
        trajopt.residual(single, 2, trajopt.CallableSystem(xdot=pendulum, **OPTIONS))


def test_torch_is_an_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ImportError, match=r"derivatives='torch' needs torch: pip install"):
        trajopt.CallableSystem(xdot=pendulum, derivatives="torch", **OPTIONS)
