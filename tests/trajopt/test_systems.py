"""The hand-written derivatives of the test systems, against central differences: the other tests rest on them."""

import numpy as np
import pytest

from tests.trajopt.systems import CartPole, CirclePendulum, Pendulum

SYSTEMS = {"pendulum": Pendulum(), "cartpole": CartPole(), "circle": CirclePendulum()}


def random_points(system, rng, count=5):
    y = rng.standard_normal((count, system.ndx))
    xs = system.embed(y) if isinstance(system, CirclePendulum) else y
    return xs, rng.standard_normal((count, system.nu))


@pytest.mark.parametrize("name", SYSTEMS)
def test_first_derivatives(name, rng):
    system, h = SYSTEMS[name], 1e-6
    xs, us = random_points(system, rng)
    fx, fu = system.linearize(xs, us)
    for j in range(system.ndx):
        d = np.zeros_like(xs[:, : system.ndx])
        d[:, j] = h
        ahead, behind = (system.step(system.integrate(xs, s * d), us) for s in (1, -1))
        np.testing.assert_allclose(system.difference(behind, ahead) / (2 * h), fx[:, :, j], atol=1e-8)
    for j in range(system.nu):
        d = np.zeros_like(us)
        d[:, j] = h
        ahead, behind = system.step(xs, us + d), system.step(xs, us - d)
        np.testing.assert_allclose(system.difference(behind, ahead) / (2 * h), fu[:, :, j], atol=1e-8)


@pytest.mark.parametrize("name", SYSTEMS)
def test_second_derivatives(name, rng):
    system, h = SYSTEMS[name], 1e-6
    xs, us = random_points(system, rng)
    fxx, fux, fuu = system.hessians(xs, us)
    for j in range(system.ndx):
        d = np.zeros_like(xs[:, : system.ndx])
        d[:, j] = h
        (fx1, fu1), (fx0, fu0) = (system.linearize(system.integrate(xs, s * d), us) for s in (1, -1))
        np.testing.assert_allclose((fx1 - fx0) / (2 * h), fxx[:, :, :, j], atol=1e-7)
        np.testing.assert_allclose((fu1 - fu0) / (2 * h), fux[:, :, :, j], atol=1e-7)
    for j in range(system.nu):
        d = np.zeros_like(us)
        d[:, j] = h
        fu1, fu0 = system.linearize(xs, us + d)[1], system.linearize(xs, us - d)[1]
        np.testing.assert_allclose((fu1 - fu0) / (2 * h), fuu[:, :, :, j], atol=1e-7)


@pytest.mark.parametrize("name", SYSTEMS)
def test_semi_implicit_promise(name, rng):
    """fx[:, :n] = [I 0] + dt fx[:, n:] and fu[:, :n] = dt fu[:, n:], to the last bits."""
    system = SYSTEMS[name]
    fx, fu = system.linearize(*random_points(system, rng))
    n = system.ndx // 2
    np.testing.assert_allclose(fx[:, :n] - np.eye(n, 2 * n), system.dt * fx[:, n:], atol=1e-15)
    np.testing.assert_allclose(fu[:, :n], system.dt * fu[:, n:], atol=1e-15)
