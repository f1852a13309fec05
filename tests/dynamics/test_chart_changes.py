"""Equivalent coordinates of joints that turn about any axis: the same poses, motions and forces, exact derivatives."""

import numpy as np
import pytest

import trajopt
from dynamics.rods.algorithms.inverse_dynamics import energies, momentum
from dynamics.rods.kinematics.center_lines import link_placements
from dynamics.rods.kinematics.charts import (
    LIMIT,
    TURN,
    beyond,
    change,
    change_derivatives,
    change_hessian,
    change_jacobian,
    changed,
    farther,
    within_limit,
)
from dynamics.rods.model.rod_model import turning_joints
from dynamics.rods.stepping.soft_steps import INTEGRATORS
from dynamics.rods.stepping.soft_system import ChartDifference, SoftRobotSystem
from dynamics.simd.squares import KnotSum, ResidualWeights
from tests.reference.robot_systems import slope
from tests.reference.soft_systems import complex_step_derivatives
from tests.reference.turning_robots import ROBOTS, body_with_boom
from tests.tolerances import COMPLEX_STEP, IDENTITY, SLOPE, relative_error

STEP = 1e-30
TURNED = LIMIT + 0.5


@pytest.fixture(params=ROBOTS)
def robot(request):
    return ROBOTS[request.param]()


def rotation_vectors(rng: np.random.Generator, turns: np.ndarray, n: int, angle: float) -> np.ndarray:
    """Coordinates (n,), joints turned by this angle, planar ones backwards."""
    q = 0.3 * rng.normal(size=n)
    for joint in turns[:, :3]:
        w = rng.normal(size=3) if (joint >= 0).all() else np.array([0.0, 0.0, -1.0])
        q[joint[joint >= 0]] = (angle * w / np.linalg.norm(w))[joint >= 0]
    return q


def other_charts(turns: np.ndarray, *orders: np.ndarray) -> np.ndarray:
    """q, v, ... (orders, n) in the other charts of all joints."""
    x = np.concatenate(orders)[None]
    return change(turns, len(orders[0]), x, np.ones((1, len(turns)), bool)).reshape(len(orders), -1)


# ------------------------------------------------------------------------------------------------ the same motion
def test_poses_and_motions_are_the_same(robot, rng):
    """Placements, momentum and energy; twice changed is unchanged."""
    model = robot.model
    turns = turning_joints(model)
    for angle in (1.0, 3.0, TURNED, 6.0):
        q, v = rotation_vectors(rng, turns, robot.nq, angle), rng.normal(size=robot.nq)
        other, rates = other_charts(turns, q, v)
        assert np.abs(other - q).max() > 0.1
        for found, expected in zip(link_placements(model, other), link_placements(model, q), strict=True):
            np.testing.assert_allclose(found, expected, atol=1e-11)
        for found, expected in zip(momentum(model, other, rates), momentum(model, q, v), strict=True):
            np.testing.assert_allclose(found, expected, atol=1e-10)
        np.testing.assert_allclose(energies(model, other, rates), energies(model, q, v), rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(other_charts(turns, other, rates), [q, v], rtol=1e-11, atol=1e-11)


def test_forces_are_the_same(robot, rng):
    """c'r of the accelerations in the other chart is r of those in this one."""
    turns, n = turning_joints(robot.model), robot.nq
    q, (v, a) = rotation_vectors(rng, turns, n, TURNED), rng.normal(size=(2, n))
    other = other_charts(turns, q, v, a)
    J = change_derivatives(turns, n, np.concatenate([q, v])[None], np.ones((1, len(turns)), bool), None)[0][0]
    u = np.ones(robot.nu)
    found = J[:n, :n].T @ robot.residual(*other, u)
    assert relative_error(found, robot.residual(q, v, a, u)) < 1e-11


def test_derivatives_of_a_change(rng):
    x, mu = rng.normal(size=(4, 12)), rng.normal(size=(4, 12))
    x[:, :3] *= TURNED / np.linalg.norm(x[:, :3], axis=1)[:, None]
    J, H = change_jacobian(x), change_hessian(x, mu)
    for k in range(12):
        moved = x.astype(complex)
        moved[:, k] += STEP * 1j
        column = changed(moved.reshape(4, 2, 6), np.full(4, TURN)).reshape(4, 12).imag / STEP
        assert relative_error(J[:, :, k], column) < IDENTITY
        assert relative_error(H[:, :, k], np.einsum("ki,kij->kj", mu, change_jacobian(moved).imag / STEP)) < IDENTITY
    accelerations = rng.normal(size=(4, 1, 6))  # along the path: the derivative of velocities
    path = np.concatenate([x.reshape(4, 2, 6), accelerations], axis=1)
    along = changed(path[:, :2] + STEP * 1j * path[:, 1:], np.full(4, TURN))[:, 1].imag / STEP
    assert relative_error(changed(path, np.full(4, TURN))[:, 2], along) < IDENTITY


def test_which_joints_change(rng):
    """Those beyond the limit, by as many turns as leave at most half of one; the nearer of two charts."""
    turns = turning_joints(ROBOTS["free body"]().model)
    axis = rng.normal(size=3)
    axis /= np.linalg.norm(axis)
    for angle, left in ((4.1, 4.1), (4.3, 2.0 * np.pi - 4.3), (9.0, 9.0 - 2.0 * np.pi), (20.0, 20.0 - 6.0 * np.pi)):
        x = np.zeros((2, 6))
        x[0, :3] = angle * axis
        assert np.linalg.norm(within_limit(turns, 6, x)[0]) == pytest.approx(abs(left), rel=1e-12)
        assert beyond(turns, x.reshape(1, 12))[0, 0] == (angle > LIMIT)
    x, reference = np.zeros((2, 12)), np.zeros(12)
    x[0, :3], x[1, :3], reference[:3] = 3.0 * axis, 3.3 * axis, 0.0
    assert farther(turns, reference, x)[:, 0].tolist() == [False, True]


# ------------------------------------------------------------------------------------------------ steps
def crossing(system: SoftRobotSystem, rng: np.random.Generator) -> np.ndarray:
    """A state (nx,) whose first joint passes the limit in a step."""
    turns, n = turning_joints(system.model), system.nv
    q, v = rotation_vectors(rng, turns, n, 2.0), rng.normal(size=n)
    w = rng.normal(size=3)
    w /= np.linalg.norm(w)
    q[turns[0, :3]], v[turns[0, :3]] = (LIMIT - 0.02) * w, 3.0 * w + 0.3 * rng.normal(size=3)
    return np.concatenate([q, v])


@pytest.fixture(params=INTEGRATORS)
def system(request, robot):
    return SoftRobotSystem(robot, 0.01 if robot is body_with_boom() else 0.02, request.param)


def test_expansions_of_steps_that_change_the_chart(system, rng):
    """Derivatives against complex steps of the step and of the change; with and without the knot that follows, which
    may be in either chart; and to third order."""
    x, u, n = crossing(system, rng), np.ones(system.nu), system.nv
    y, turns, lam = system.step(x, u), turning_joints(system.model), rng.normal(size=system.ndx)
    which = np.arange(len(turns))[None] == 0
    raw = change(turns, n, y[None], which)[0]
    assert np.linalg.norm(y[turns[0, :3]]) < LIMIT < np.linalg.norm(raw[turns[0, :3]])
    F, dF = complex_step_derivatives(system, x, u)
    J, curved = change_derivatives(turns, n, raw[None], which, lam[None])
    for ends, Jc, Hc in ((None, J[0], curved[0]), (y, J[0], curved[0]), (raw, np.eye(2 * n), np.zeros((2 * n, 2 * n)))):
        knots = x[None] if ends is None else np.array([x, ends])
        fx, fu = system.linearize(knots, u[None])
        H, expected = system.hessian_products(knots, u[None], lam[None]), np.einsum("i,ijk->jk", lam @ Jc, dF)
        expected += F.T @ Hc @ F
        assert relative_error(np.hstack([fx[0], fu[0]]), Jc @ F) < COMPLEX_STEP
        assert relative_error(np.vstack([H[0][0], H[1][0]]), expected[:, : 2 * n]) < COMPLEX_STEP
        assert relative_error(H[2][0], expected[2 * n :, 2 * n :], np.abs(expected).max()) < COMPLEX_STEP
        written = [np.empty_like(X) for X in (fx, fu, *H)]
        system.write_expansion(knots, u[None], lam[None], *written)
        for found, given in zip(written, (fx, fu, *H), strict=True):
            assert relative_error(found, given) < IDENTITY
    fx, _ = system.linearize(x[None], u[None])
    Hxx, _, _ = system.hessian_products(x[None], u[None], lam[None])
    dx, steps = rng.normal(size=2 * n), 2.0 ** -np.arange(8.0, 12.0)
    model = [lam @ fx[0] @ dx * h + 0.5 * h * h * dx @ Hxx[0] @ dx for h in steps]
    errors = [lam @ system.difference(y, system.step(x + h * dx, u)) - m for h, m in zip(steps, model, strict=True)]
    assert slope(steps, np.abs(errors)) == pytest.approx(3.0, abs=SLOPE)


def test_loops_across_charts(rng):
    """Feedback and gaps see small differences, in whatever chart a state and its nominal one are."""
    system = SoftRobotSystem(body_with_boom(), 0.02, "sdirk2")
    turns, n, N = turning_joints(system.model), system.nv, 6
    x0, us = crossing(system, rng), rng.uniform(0.0, 1.0, (N, 1))
    xs = system.rollout(x0, us)
    assert (np.linalg.norm(np.diff(xs[:, :3], axis=0), axis=1) > 1.0).sum() == 1
    others = change(turns, n, xs, np.ones((N + 1, 1), bool))
    assert np.abs(system.difference(xs, others)).max() < 1e-10
    np.testing.assert_array_equal(system.integrate(xs, 0.5 * xs), 1.5 * xs)
    gaps, k = 1e-3 * rng.normal(size=xs.shape), 0.1 * rng.normal(size=(N, 1))
    K = 1e-3 * rng.normal(size=(N, 1, 2 * n))
    nominal = np.where(np.arange(N + 1)[:, None] % 2, xs, others)
    xs_new, us_new = system.closed_loop_rollout(x0, nominal, us, k, K, np.array([0.5]), gaps)
    near = [system.difference(nominal[0], x0) + nominal[0] - 0.5 * gaps[0]]
    for t in range(N):
        wanted = us[t] + 0.5 * k[t] + K[t] @ system.difference(nominal[t], xs_new[0, t])
        assert np.abs(us_new[0, t] - wanted).max() < 1e-11
        reached = nominal[t + 1] + system.difference(nominal[t + 1], system.step(xs_new[0, t], us_new[0, t]))
        near.append(reached - 0.5 * gaps[t + 1])
    assert np.abs(system.difference(xs_new[0], np.array(near))).max() < 1e-10
    assert (np.linalg.norm(xs_new[0, 1:, :3], axis=1) <= LIMIT).all()


def test_functions_of_the_numbers_of_a_state():
    """They are residuals still, though the states have equivalents: tangents are what is added."""
    system = SoftRobotSystem(body_with_boom(), 0.02)
    made = trajopt.residual(lambda x: x[6:10] ** 2, 4, system)
    xs = np.arange(40.0).reshape(2, 20)
    np.testing.assert_allclose(made.jacobians(xs, None)[0][:, :, 6:10], 2.0 * xs[:, 6:10, None] * np.eye(4))


def test_the_difference_as_a_residual(robot, rng):
    """Weighted squares are those of the residual's values, Jacobians and curvature."""
    system, n = SoftRobotSystem(robot, 0.02), robot.nq
    turns = turning_joints(robot.model)
    xs = np.array([np.r_[rotation_vectors(rng, turns, n, angle), rng.normal(size=n)] for angle in (1.0, 2.5, 4.0)])
    reference = np.r_[-0.3 * xs[2, :n], np.zeros(n)]
    residual, weights = system.difference_residual(reference), rng.uniform(0.5, 1.0, (3, 2 * n))
    r = residual.evaluate(xs, None)
    nearer, plain = (np.linalg.norm(x[:, turns[0, :3]], axis=1) for x in (r, xs - reference))
    assert (nearer < plain).any() and (nearer == plain).any()
    (J, _), (H, _, _) = residual.jacobians(xs, None), residual.hessian_products(xs, None, weights * r)
    value, gradient = 0.5 * (weights * r * r).sum(), np.einsum("ki,kij->kj", weights * r, J)
    target, curvature = (np.zeros((3, 2 * n)), None, np.zeros(J.shape)), (None, None, np.zeros(J.shape))
    total = residual.add_expansion(KnotSum((0, 3), xs, np.zeros((3, 0)), ResidualWeights(weights), target, curvature))
    hessian = J.swapaxes(1, 2) * weights[:, None] @ J
    pairs = (total, value), (target[0], gradient), (target[2], hessian), (curvature[2], H)
    for found, wanted in pairs:
        assert relative_error(found, wanted) < IDENTITY
    assert residual == ChartDifference(turns, reference) != system.difference_residual(xs[0])
    found, both = system.difference_expansion(reference, xs, weights), system.difference_with_jacobian(reference, xs)
    assert relative_error(found[0], J) < IDENTITY and relative_error(both[0], r) < IDENTITY


def test_numbers_of_states_along_tangents(robot, rng):
    """Those of a state move as its tangent does, in whatever chart they are."""
    system = SoftRobotSystem(robot, 0.01, "sdirk2")
    q, n = rotation_vectors(rng, turning_joints(robot.model), robot.nq, TURNED), system.nx
    x = np.r_[q, rng.normal(size=robot.nq)]
    (J,) = system.integrate_jacobian(x[None])
    dx = rng.normal(size=n)
    assert J.shape == (n, n) and relative_error(x + J @ dx, system.integrate(x, dx)) < IDENTITY
