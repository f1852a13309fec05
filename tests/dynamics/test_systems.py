"""RigidBodySystem: construction, single steps against numpy, orders of the integrators, rollouts open and closed."""

import numpy as np
import pytest

from dynamics import RigidBodySystem
from dynamics.algorithms.configuration import difference
from dynamics.systems.steps import TABLEAUS
from tests.reference.rigid_body_models import load_reference
from tests.reference.robot_systems import CASES, INTEGRATORS, ROBOTS, make_system, slope, step
from tests.tolerances import IDENTITY, relative_error


@pytest.fixture(params=INTEGRATORS)
def integrator(request):
    return request.param


@pytest.fixture(params=ROBOTS)
def robot(request):
    return request.param


# ------------------------------------------------------------------------------------------------ construction


def test_sizes_and_flags(robot, integrator, rng):
    system, xs, us = make_system(robot, 0.01, integrator, rng)
    n = system.model.nv
    assert (system.nx, system.ndx, system.dt) == (xs.shape[1], 2 * n, 0.01)
    assert system.nu == us.shape[1] == (n - 6 if robot == "hyq afloat" else n)
    assert system.euclidean == robot.startswith("ur5")
    assert system.semi_implicit == (robot.startswith("ur5") and integrator == "semi_implicit_euler")
    x = system.state(xs[0, : system.model.nq])
    assert np.array_equal(x[: system.model.nq], xs[0, : system.model.nq]) and not x[system.model.nq :].any()


def test_the_callers_matrix_is_copied(rng):
    model, data = load_reference("ur5")
    x, u = np.concatenate([data["q"][0], data["v"][0]]), rng.standard_normal(2)
    B = rng.standard_normal((6, 2))
    system = RigidBodySystem(model, 0.01, actuation=B)
    before = system.step(x, u)
    B[:] = 0.0
    assert np.array_equal(system.step(x, u), before)


# ------------------------------------------------------------------------------------------------ steps
@pytest.mark.parametrize("robot", [*ROBOTS, *CASES])
def test_step_equals_numpy(robot, integrator, rng):
    system, xs, us = make_system(robot, 0.1, integrator, rng)
    for x, u, x_next in zip(xs, us, system.step(xs, us), strict=True):
        assert relative_error(x_next, step(system, x, u)) <= IDENTITY
        assert np.array_equal(system.step(x, u), x_next)


@pytest.mark.parametrize("integrator", INTEGRATORS)
@pytest.mark.parametrize("columns", [1, 4, 9])
def test_any_actuation_matrix(integrator, columns, rng):
    model, data = load_reference("hyq")
    B = rng.standard_normal((18, columns))
    system, full = RigidBodySystem(model, 0.02, integrator, B), RigidBodySystem(model, 0.02, integrator)
    xs, us = np.hstack([data["q"], data["v"]]), 10.0 * rng.standard_normal((3, columns))
    assert relative_error(system.step(xs, us), full.step(xs, us @ B.T)) <= IDENTITY
    fx, fu = system.linearize(xs, us)
    Fx, Fu = full.linearize(xs, us @ B.T)
    assert relative_error(fx, Fx) <= IDENTITY and relative_error(fu, Fu @ B) <= 10 * IDENTITY
    lam = rng.standard_normal((3, 36))
    Hxx, Hux, Huu = system.hessian_products(xs, us, lam)
    Gxx, Gux, Guu = full.hessian_products(xs, us @ B.T, lam)
    assert relative_error(Hxx, Gxx) <= 10 * IDENTITY
    assert relative_error(Hux, B.T @ Gux) <= 10 * IDENTITY
    assert relative_error(Huu, B.T @ Guu @ B, floor=np.abs(Gxx).max()) <= 10 * IDENTITY


@pytest.mark.parametrize("name", ["joint_zoo", "spherical_tree"])
@pytest.mark.parametrize(("integrator", "order"), list(zip(INTEGRATORS, (1, 1, 4), strict=True)))
def test_order_of_convergence(name, integrator, order, rng):
    """Errors after 0.2 s against many small RK4 steps, halving the time step."""
    horizon = 0.2
    fine, xs, us = make_system(name, horizon / 400, "rk4", rng)
    exact = fine.rollout(xs[1], np.tile(us[1], (400, 1)))[-1]
    counts = 4 * 2 ** np.arange(4)
    errors = []
    for count in counts:
        system = RigidBodySystem(fine.model, horizon / count, integrator)
        end = system.rollout(xs[1], np.tile(us[1], (count, 1)))[-1]
        errors.append(system.difference(exact, end))
    assert slope(horizon / counts, np.array(errors)) == pytest.approx(order, abs=0.25)


def test_a_method_is_its_table(monkeypatch, rng):
    """Kutta's third-order method as one more row of coefficients: its order, and its derivatives by differences."""
    A = np.array([[0, 0, 0], [1 / 2, 0, 0], [-1, 2, 0], [1 / 6, 2 / 3, 1 / 6]])
    rows = np.hstack([[[0], [1 / 2], [1], [1]], A, A @ A[:3], np.zeros((4, 3))])
    monkeypatch.setitem(TABLEAUS, "kutta", rows)
    fine, xs, us = make_system("ur5", 0.1 / 400, "rk4", rng)
    exact = fine.rollout(xs[1], np.tile(us[1], (400, 1)))[-1]
    counts, errors = 4 * 2 ** np.arange(4), []
    for count in counts:
        end = RigidBodySystem(fine.model, 0.1 / count, "kutta").rollout(xs[1], np.tile(us[1], (count, 1)))[-1]
        errors.append(end - exact)
    assert slope(0.1 / counts, np.array(errors)) == pytest.approx(3, abs=0.25)
    system = RigidBodySystem(fine.model, 0.01, "kutta")
    lam, h = rng.standard_normal(system.ndx), 1e-6
    F = np.concatenate(system.linearize(xs[1:2], us[1:2]), axis=2)[0]
    Hxx, Hux, Huu = (block[0] for block in system.hessian_products(xs[1:2], us[1:2], lam[None]))
    H = np.block([[Hxx, Hux.T], [Hux, Huu]])
    moved = [(xs[1] + s * d[: system.nx], us[1] + s * d[system.nx :]) for d in np.eye(len(H)) for s in (h, -h)]
    X, U = map(np.array, zip(*moved, strict=True))
    slopes = (system.step(X, U)[::2] - system.step(X, U)[1::2]).T / (2 * h)
    assert relative_error(F, slopes) <= 1e-7
    gradients = np.concatenate(system.linearize(X, U), axis=2).transpose(0, 2, 1) @ lam
    assert relative_error(H, (gradients[::2] - gradients[1::2]) / (2 * h)) <= 1e-7


def test_manifold_of_states(robot, rng):
    system, xs, _ = make_system(robot, 0.1, "rk4", rng)
    dx = rng.uniform(-1, 1, (3, system.ndx))
    moved = system.integrate(xs, dx)
    assert relative_error(system.difference(xs, moved), dx) <= IDENTITY
    assert relative_error(system.difference(xs[0], moved[0]), dx[0]) <= IDENTITY
    nq, n = system.model.nq, system.model.nv
    expected = difference(system.model, xs[:, :nq], moved[:, :nq])
    assert relative_error(system.difference(xs, moved)[:, :n], expected) <= IDENTITY


# ------------------------------------------------------------------------------------------------ rollouts
def trajectory(robot, integrator, rng, N=7):
    """System, x0, nominal xs (N+1, nx), us (N, nu), k (N, nu) and gains K (N, nu, ndx) of moderate size."""
    system, xs, us = make_system(robot, 0.02, integrator, rng)
    us = us[0] + 0.1 * rng.standard_normal((N, system.nu))
    k, K = rng.standard_normal((N, system.nu)), 0.3 * rng.standard_normal((N, system.nu, system.ndx))
    return system, xs[0], system.rollout(xs[0], us), us, k, K


def test_rollout_repeats_steps(robot, integrator, rng):
    system, x0, xs, us, *_ = trajectory(robot, integrator, rng)
    assert xs.shape == (8, system.nx) and np.array_equal(xs[0], x0)
    for t, u in enumerate(us):
        assert relative_error(xs[t + 1], system.step(xs[t], u)) <= IDENTITY
    assert np.array_equal(system.rollout(x0, us[:0]), x0[None])


def test_step_length_zero_reproduces_the_nominal(robot, integrator, rng):
    system, x0, xs, us, k, K = trajectory(robot, integrator, rng)
    X, U = system.closed_loop_rollout(x0, xs, us, k, K, [0.0])
    assert relative_error(X[0], xs) <= IDENTITY and relative_error(U[0], us) <= IDENTITY


def test_a_diverging_candidate_stays_in_its_lane(robot, integrator, rng):
    system, x0, xs, us, k, K = trajectory(robot, integrator, rng)
    X, U = system.closed_loop_rollout(x0, xs, us, k, K, [1.0, 1e300, 0.25])
    assert not np.isfinite(X[1, -1]).all()
    good, controls = system.closed_loop_rollout(x0, xs, us, k, K, [1.0, 0.5, 0.25])
    assert np.isfinite(good).all()
    for c in (0, 2):
        assert np.array_equal(X[c], good[c]) and np.array_equal(U[c], controls[c])


# ------------------------------------------------------------------------------------------------ errors
def test_quaternions_of_another_length(rng):
    system, xs, us = make_system("hyq afloat", 0.1, "semi_implicit_euler", rng)
    for scale in (2.0, 0.0):
        xs[0, 3:7] *= scale
        for call in (lambda: system.step(xs, us[0]), lambda: system.rollout(xs[0], us[:1])):
            with pytest.raises(ValueError, match="expected a unit quaternion"):
                call()
