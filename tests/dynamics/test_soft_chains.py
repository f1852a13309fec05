"""Steps of soft robots with closed chains, and their expansions."""

import numpy as np
import pytest

import trajopt
from dynamics.rods.algorithms.closed_chains import OPEN, assemble, evaluate_chains
from dynamics.rods.model.arrays import FORCES
from dynamics.rods.stepping.simulation import simulate
from dynamics.rods.stepping.soft_steps import GAMMA, INTEGRATORS
from dynamics.rods.stepping.soft_system import SoftRobotSystem
from tests.reference.closed_robots import CLOSED, arch
from tests.reference.robot_systems import slope
from tests.reference.soft_systems import complex_step_derivatives
from tests.tolerances import COMPLEX_STEP, IDENTITY, SLOPE, relative_error

NEWTON = 1e-7
"""Of the multipliers' equations, which Newton's method leaves to its tolerance of velocities."""


@pytest.fixture(params=CLOSED)
def system(request):
    return SoftRobotSystem(CLOSED[request.param](), 0.01, "sdirk2")


def knots(system, rng, count, size=0.05):
    """States of closed chains, and such as are open a little and about to open further; tensions."""
    q = assemble(system.model, 0.2 * rng.normal(size=system.nq)).q
    xs = np.tile(np.concatenate([q, np.zeros(system.nv)]), (count, 1)) + size * rng.normal(size=(count, system.nx))
    return xs, rng.uniform(0.0, 3.0, (count, system.nu))


def gaps(system, x):
    """e and e'."""
    chains = evaluate_chains(system.model, FORCES, *np.split(x, 2))[1]
    return chains.e, chains.rate


# ------------------------------------------------------------------------------------------------ motion
def test_the_equations_of_a_step(system, rng):
    """Both stages satisfy the equations of motion with some multipliers, and A v + e / h = 0."""
    (x,), (u,) = knots(system, rng, 1)
    robot, h, n, g = system.robot, system.dt, system.nv, GAMMA * system.dt
    x_next = system.step(x, u)
    implied = np.stack([x_next[:n] - x[:n] - h * x[n:], x_next[n:] - x[n:]])
    first, last = np.linalg.solve([[2.0 * g * (h - g), g * g], [h - g, g]], implied)
    for q, v, a in (
        (x[:n] + g * x[n:] + g * g * first, x[n:] + g * first, first), (x_next[:n], x_next[n:], last)
    ):  # fmt: skip
        e, rate = gaps(system, np.concatenate([q, v]))
        assert np.abs(rate + e / h).max() <= IDENTITY * np.abs(x_next).max() / h
        derivatives, r = robot.residual_derivatives(q, v, a, u), robot.residual(q, v, a, u)
        A = np.stack([robot.residual(q, v, a, u, multipliers=-row) - r for row in np.eye(len(e))])
        left = r - A.T @ np.linalg.lstsq(A.T, r, rcond=None)[0]
        assert np.abs(left).max() <= NEWTON * np.abs(derivatives.M @ a).max()


def test_order_of_the_method():
    """Of the state after 0.08 s from rest, 2; and of what opens the chains, 2 at least."""
    robot = arch()
    n, u, duration = robot.nq, np.array([3.0, 1.0]), 0.08
    exact = simulate(robot, duration, u, method="radau", rtol=1e-8, atol=1e-10)
    errors, opened = [], []
    for dt in (0.002, 0.001):
        system = SoftRobotSystem(robot, dt, "sdirk2")
        x = system.rollout(np.zeros(2 * n), np.tile(u, (round(duration / dt), 1)))[-1]
        errors.append([np.abs(x[:n] - exact.q[-1]).max(), np.abs(x[n:] - exact.v[-1]).max()])
        opened.append(np.abs(gaps(system, x)[0]).max())
    assert np.log2(np.divide(*errors)) == pytest.approx(2.0, abs=0.3)
    assert np.log2(opened[0] / opened[1]) > 1.7


def test_simulated_steps_are_those_of_a_system(system):
    """Of chains of all kinds, and of a start that is closed; multipliers are those of the motion."""
    robot, u, n = system.robot, np.array([3.0, 1.0]), system.nv
    q0 = assemble(system.model).q
    run = simulate(robot, 0.045, u, q0, method="sdirk2", dt=0.01)
    x0 = np.concatenate([q0, np.zeros(n)])
    xs = system.rollout(x0, np.tile(u, (4, 1)))
    last = SoftRobotSystem(robot, 0.005, "sdirk2").step(xs[-1], u)
    assert np.abs(np.hstack([run.q, run.v]) - np.vstack([xs, last])).max() < NEWTON
    errors = []
    exact = simulate(robot, 0.04, u, q0, method="radau", rtol=1e-8, atol=1e-10)
    for dt in (0.002, 0.001):
        run = simulate(robot, 0.04, u, q0, method="sdirk2", dt=dt)
        errors.append(relative_error(run.multipliers[-1], exact.multipliers[-1]))
    assert errors[1] < 0.05 and errors[1] < 0.6 * errors[0], errors


def test_chains_stay_closed(system):
    """Over two seconds of motion, and open ones close by the rate of the method."""
    n, h = system.nv, system.dt
    q = assemble(system.model).q
    us = 1.5 * (1.0 + np.sin(np.arange(200)[:, None] * h * np.array([9.0, 14.0])))
    xs = system.rollout(np.concatenate([q, np.zeros(n)]), us)
    opened = [np.abs(gaps(system, x)[0]).max() for x in xs]
    assert np.ptp(xs[:, :n], axis=0).max() > 0.1 and max(opened) < 1e-4 and max(opened[-20:]) < 1e-4
    x = xs[-1].copy()
    x[:n] += 1e-3 * np.sin(np.arange(n))  # opens them by far more than a step does
    before, after = (gaps(system, y)[0] for y in (x, system.step(x, us[-1])))
    g, z = GAMMA, -1.0
    factor = (1.0 + (1.0 - 2.0 * g) * z) / (1.0 - g * z) ** 2
    assert np.abs(after - factor * before).max() < 0.2 * np.abs(before).max()


def test_lanes_are_independent(system, rng):
    xs, us = knots(system, rng, 11)
    together = system.step(xs, us)
    for t in range(len(us)):
        np.testing.assert_array_equal(system.step(xs[t], us[t]), together[t])
    lam = rng.normal(size=xs.shape)
    whole = [*system.linearize(xs, us), *system.hessian_products(xs, us, lam)]
    xs[1::2] *= 3.0
    again = [*system.linearize(xs, us), *system.hessian_products(xs, us, lam)]
    for first, second in zip(whole, again, strict=True):
        np.testing.assert_array_equal(first[::2], second[::2])


# ------------------------------------------------------------------------------------------------ expansions
def test_derivatives(system, rng):
    (x,), (u,) = knots(system, rng, 1)
    lam, n, nx = rng.normal(size=system.ndx), system.nv, system.nx
    fx, fu = system.linearize(x[None], u[None])
    Hxx, Hux, Huu = system.hessian_products(x[None], u[None], lam[None])
    F, dF = complex_step_derivatives(system, x, u)
    H = np.einsum("i,ijk->jk", lam, dF)
    for rows in (slice(n), slice(n, nx)):
        for columns in (slice(n), slice(n, nx)):
            assert relative_error(fx[0, rows, columns], F[rows, columns]) < COMPLEX_STEP
            assert relative_error(Hxx[0, rows, columns], H[rows, columns]) < COMPLEX_STEP
        assert relative_error(fu[0, rows], F[rows, nx:]) < COMPLEX_STEP
    assert relative_error(Hux[0], H[nx:, :nx]) < COMPLEX_STEP
    assert relative_error(Huu[0], H[nx:, nx:], floor=1e-3 * np.abs(H[nx:, :nx]).max()) < COMPLEX_STEP


def test_expansion_of_a_step_to_third_order(system, rng):
    (x,), (u,) = knots(system, rng, 1)
    lam, dz = rng.normal(size=system.ndx), rng.normal(size=system.nx + system.nu)
    dx, du = np.split(dz, [system.nx])
    fx, fu = system.linearize(x[None], u[None])
    Hxx, Hux, Huu = system.hessian_products(x[None], u[None], lam[None])
    first = lam @ (fx[0] @ dx + fu[0] @ du)
    second = 0.5 * dx @ Hxx[0] @ dx + du @ Hux[0] @ dx + 0.5 * du @ Huu[0] @ du
    base = lam @ system.step(x, u)
    steps = 2.0 ** -np.arange(8.0, 13.0)
    errors = [abs(lam @ system.step(x + s * dx, u + s * du) - base - s * first - s * s * second) for s in steps]
    assert slope(steps, errors) == pytest.approx(3.0, abs=SLOPE)


def test_problems_of_closed_chains_begin_closed(rng):
    robot = arch()
    n, system = robot.nq, SoftRobotSystem(robot, 0.01, "sdirk2")
    costs = [trajopt.ControlCost(1.0)]
    trajopt.Problem(system, np.zeros(2 * n), 3, running_costs=costs)
    for x0, message in (
        (np.r_[0.1 * rng.normal(size=n), np.zeros(n)], rf"x0: the chains are open by .* at most {OPEN}"),
        (np.r_[np.zeros(n), rng.normal(size=n)], r"x0: the chains are opening at the rate"),
    ):
        with pytest.raises(ValueError, match=message):
            trajopt.Problem(system, x0, 3, running_costs=costs)


@pytest.mark.parametrize("integrator", sorted({*INTEGRATORS} - {"sdirk2"}))
def test_one_integrator_takes_closed_chains(integrator):
    message = rf"integrator: got '{integrator}' for closed chains \(top\), expected 'sdirk2'"
    with pytest.raises(ValueError, match=message):
        SoftRobotSystem(arch(), 0.01, integrator)


def test_refined_steps_close_chains_too():
    system = SoftRobotSystem(arch(), 0.01, "sdirk2").refined(4)
    assert system.dt == 0.0025 and system.integrator == "sdirk2" and system.integrator_order == 2
