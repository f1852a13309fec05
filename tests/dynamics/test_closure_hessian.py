"""Second derivatives of closed chains, against complex steps of first ones at random states, chains open and moving."""

import numpy as np
import pytest

from dynamics import Fixed, Revolute, Spherical
from dynamics.rods.algorithms.backward_pass import BLOCKS, Blocks
from dynamics.rods.algorithms.equation_of_motion import residual_kernel, residual_work, result_size
from dynamics.rods.model.arrays import FIRST, MASS_MATRIX, SECOND, closure_size
from dynamics.rods.robot.soft_robot import SoftRobot
from problems.rods.parallel_robot import parallel_robot
from tests.reference.rod_robots import STEP, complex_residual, complex_steps, hybrid_builder
from tests.tolerances import CENTRAL_DIFFERENCES, COMPLEX_STEP, IDENTITY, relative_error

TURN = np.array([[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
JOINTS = {"ball": Spherical(), "hinge": Revolute((1.0, -1.0, 2.0)), "weld": Fixed()}


def closed(joint, side) -> SoftRobot:
    """The branched robot, its tail held by a joint to the other branch, to the world, or both along rods."""
    builder = hybrid_builder()
    builder.add_wrench("plate", point=(0.1, -0.2, 0.3))
    other = ("world", (TURN, [0.5, 0.1, 0.3])) if side == "world" else ("weight", (TURN.T, [0.0, 0.1, -0.05]))
    places = (0.45, 0.3) if side == "along" else (1.0, 1.0)
    if side == "along":
        other = "trunk", other[1]
    builder.add_closure("joint", "tail", other[0], joint, (TURN, [0.05, 0.0, 0.1]), other[1], *places)
    return SoftRobot(builder.build(), torques=("shoulder",))


def second_order(robot, state):
    """Hqq, Hqv, Hvv, Hqa (n, n) and the rates of A along w (G, n), by the kernel for plain numbers."""
    n, m, e = robot.nq, robot.model.arrays, robot.arrays
    r, A = np.empty(n), np.empty(result_size(m, e))
    residual_kernel(m, e, SECOND, state.copy(), np.empty(residual_work(robot.model.arrays, robot.arrays)), r, A)
    blocks = dict(zip(Blocks._fields, A[: BLOCKS * n * n].reshape(-1, n, n), strict=True))
    end = A[BLOCKS * n * n + 2 * n * robot.nu :][: closure_size(m, e.closures)][-robot.model.constraint_count * n :]
    return *(blocks[name] for name in ("Hqq", "Hqv", "Hvv", "Hqa")), end.reshape(-1, n)


def check(robot, rng):
    n, nu, G = robot.nq, robot.nu, robot.model.constraint_count
    inputs = int(robot.arrays.counts[1])
    state = np.concatenate([rng.uniform(-0.5, 0.5, 4 * n), rng.normal(size=nu + inputs)])
    w, rate, mu = state[3 * n : 4 * n], state[-2 * G - 1], state[-2 * G : -G]
    dA = complex_steps(robot, FIRST, state)[1]
    of_q, of_v = dA[: 2 * n * n].reshape(2, n, n, -1)
    A, A1 = dA[BLOCKS * n * n + 2 * n * nu :][3 * G : 3 * G + 2 * G * n].reshape(2, G, n, -1)
    q, v, a = (slice(k * n, (k + 1) * n) for k in range(3))
    along = np.einsum("i,ijk->jk", w, of_q) + np.einsum("g,gjk->jk", mu, A1 + rate * A)
    vv = np.einsum("i,ijk->jk", w, of_v[..., v])
    Hqq, Hqv, Hvv, Hqa, Aw = second_order(robot, state)
    assert relative_error(Aw, np.einsum("i,gij->gj", w, A[..., q])) <= IDENTITY
    for found, expected in ((Hqv, along[:, v]), (Hvv, vv), (Hqa, along[:, a]), (Hqq, along[:, q])):
        assert relative_error(found, expected) <= IDENTITY


@pytest.mark.parametrize("side", ["world", "link", "along"])
@pytest.mark.parametrize("joint", JOINTS)
def test_second_derivatives(joint, side, rng):
    """Of w'r with multipliers plus mu'(e' + e/T), and rates of A along w."""
    check(closed(JOINTS[joint], side), rng)


def test_second_derivatives_of_several_loops(rng):
    check(parallel_robot().robot, rng)


def test_hessian_of_the_residual(rng):
    """Batches in lanes, along a line through a point."""
    robot = closed(Fixed(), "link")
    n, G = robot.nq, robot.model.constraint_count
    q, v, a, w = rng.uniform(-0.5, 0.5, (4, 3, n))
    u, multipliers, wrenches = rng.normal(size=(3, robot.nu)), rng.normal(size=(3, G)), rng.normal(size=(3, 1, 6))
    H = robot.residual_hessian(q, v, a, u, w, wrenches, multipliers)
    dq, dv, h = rng.normal(size=n), rng.normal(size=n), 1e-5
    for t in range(3):
        rows = [
            robot.residual_derivatives(q[t] + s * dq, v[t] + s * dv, a[t], u[t], wrenches[t], multipliers[t])
            for s in (h, -h)
        ]
        change = [w[t] @ (x - y) / (2.0 * h) for x, y in zip(*rows, strict=True)]
        assert relative_error(H.Hqq[t] @ dq + H.Hqv[t] @ dv, change[0]) < CENTRAL_DIFFERENCES
        assert relative_error(H.Hqv[t].T @ dq + H.Hvv[t] @ dv, change[1]) < CENTRAL_DIFFERENCES
        assert relative_error(H.Hqa[t].T @ dq, change[2]) < CENTRAL_DIFFERENCES


def acceleration_rows(robot, states):
    """da/d(q, v, u) (K, n, 2 n + nu) at complex states (K, size) without a and multipliers, which are solved for."""
    n, nu, G, states = robot.nq, robot.nu, robot.model.constraint_count, states.copy()
    chains = BLOCKS * n * n + 2 * n * nu

    def block(A, name):
        return A[:, Blocks._fields.index(name) * n * n :][:, : n * n].reshape(-1, n, n)

    r, A = complex_residual(robot, MASS_MATRIX, states)
    rows = A[:, chains + 3 * G :][:, : G * n].reshape(-1, G, n)
    K = np.zeros((len(r), n + G, n + G), complex)
    K[:, :n, :n], K[:, :n, n:], K[:, n:, :n] = block(A, "M"), -rows.swapaxes(1, 2), rows
    y = np.linalg.solve(K, -np.hstack([r, A[:, chains + 2 * G :][:, :G]])[..., None])[..., 0]
    states[:, 2 * n : 3 * n], states[:, -G:] = y[:, :n], y[:, n:]
    A = complex_residual(robot, FIRST, states)[1]
    A1, A2 = A[:, chains + 3 * G + G * n :][:, : 2 * G * n].reshape(-1, 2, G, n).swapaxes(0, 1)
    B = A[:, BLOCKS * n * n :][:, : n * nu].reshape(-1, n, nu)
    above = np.concatenate([block(A, "dq"), block(A, "dv"), -B], axis=2)
    below = np.concatenate([A2, 2.0 * A1, np.zeros((len(A), G, nu))], axis=2)
    return np.linalg.solve(K, -np.concatenate([above, below], axis=1))[:, :n]


@pytest.mark.parametrize("joint", JOINTS)
def test_hessian_of_accelerations(joint, rng):
    """Against complex steps of first derivatives, at more points at once than there are lanes."""
    robot, K = closed(JOINTS[joint], "link"), 9
    n, nu = robot.nq, robot.nu
    q, v, w = rng.uniform(-0.5, 0.5, (3, K, n))
    u, wrenches = rng.normal(size=(K, nu)), rng.normal(size=(K, 1, 6))
    H = robot.forward_dynamics_hessian(q, v, u, w, wrenches)
    first = robot.forward_dynamics_derivatives(q, v, u, wrenches)
    columns = [*range(2 * n), *range(4 * n, 4 * n + nu)]
    for t in (0, K - 1):
        states = np.zeros((2 * n + nu, 4 * n + nu + int(robot.arrays.counts[1])), complex)
        states[:, : 4 * n + nu + 6] = np.concatenate([q[t], v[t], np.zeros(2 * n), u[t], wrenches[t, 0]])
        states[range(2 * n + nu), columns] += 1j * STEP
        rows = acceleration_rows(robot, states)
        assert relative_error(np.hstack([x[t] for x in first]), rows[0].real) < COMPLEX_STEP
        exact = np.einsum("i,kij->jk", w[t], rows.imag) / STEP
        parts = slice(n), slice(n, 2 * n), slice(2 * n, 2 * n + nu)
        for found, i, j in ((H.Hqq, 0, 0), (H.Hqv, 0, 1), (H.Hvv, 1, 1), (H.Hqu, 0, 2)):
            assert relative_error(found[t], exact[parts[i], parts[j]]) < COMPLEX_STEP
        scale = np.abs(H.Hqu[t]).max()
        assert np.abs(exact[parts[1], parts[2]]).max() < COMPLEX_STEP * scale > np.abs(exact[parts[2], parts[2]]).max()
        one = robot.forward_dynamics_hessian(q[t], v[t], u[t], w[t], wrenches[t])
        assert relative_error(one.Hqq, H.Hqq[t]) < IDENTITY
