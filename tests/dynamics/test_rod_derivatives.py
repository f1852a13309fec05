"""Derivatives of soft robots: residual and accelerations, against complex steps of the same kernels."""

import numpy as np
import pytest

from dynamics.rods.algorithms.backward_pass import BLOCKS
from dynamics.rods.algorithms.equation_of_motion import residual_kernel, residual_work, result_size
from dynamics.rods.algorithms.inverse_dynamics import (
    inverse_dynamics,
    inverse_dynamics_derivatives,
    inverse_dynamics_hessian,
)
from dynamics.rods.model.arrays import FIRST, FORCES, MASS_MATRIX
from tests.reference.rod_robots import ROBOTS, complex_steps, hybrid, manipulator, random_state
from tests.tolerances import COMPLEX_STEP, IDENTITY, relative_error

CONDITIONED = 1e-9
"""Of derivatives of accelerations: the mass matrices have conditions of 1e7 and 5e8."""


@pytest.fixture(params=ROBOTS)
def case(request, rng):
    """A robot and q, v, a, w, u."""
    robot = ROBOTS[request.param]()
    return robot, *random_state(robot, rng)


def parts(robot, columns):
    """Derivatives along q, v, a, u."""
    n = robot.nq
    return columns[..., :n], columns[..., n : 2 * n], columns[..., 2 * n : 3 * n], columns[..., 4 * n :]


def gradients(robot, w, dA):
    """Derivatives (., 4 n + nu) of w'(first block), w'(second), w'(third) and w'(B or a_u)."""
    n, nu = robot.nq, robot.nu
    blocks = dA[: 3 * n * n].reshape(3, n, n, -1)
    of_controls = dA[BLOCKS * n * n :][: n * nu].reshape(n, nu, -1)
    return *np.einsum("i,kijl->kjl", w, blocks), np.einsum("i,ijl->jl", w, of_controls)


def test_first_derivatives(case):
    robot, q, v, a, w, u = case
    derivatives = robot.residual_derivatives(q, v, a, u)
    dr, _ = complex_steps(robot, FORCES, np.concatenate([q, v, a, w, u]))
    for value, expected in zip(derivatives, parts(robot, dr), strict=True):
        sign = -1.0 if value is derivatives.B else 1.0
        assert relative_error(value, sign * expected) < IDENTITY
    assert relative_error(derivatives.M, derivatives.M.T) < IDENTITY


def test_hessian_of_the_residual(case):
    robot, q, v, a, w, u = case
    H = robot.residual_hessian(q, v, a, u, w)
    _, dA = complex_steps(robot, FIRST, np.concatenate([q, v, a, w, u]))
    of_q, of_v, of_a, of_u = (parts(robot, gradient) for gradient in gradients(robot, w, dA))
    for value, expected in zip(H, (of_q[0], of_q[1], of_v[1], of_q[2], -of_u[0].T), strict=True):
        assert relative_error(value, expected) < COMPLEX_STEP
    assert relative_error(H.Hqv, of_v[0].T) < COMPLEX_STEP
    assert relative_error(H.Hqa, of_a[0].T) < COMPLEX_STEP
    assert relative_error(H.Hqu, of_q[3]) < COMPLEX_STEP
    for symmetric in (H.Hqq, H.Hvv):
        assert relative_error(symmetric, symmetric.T) < IDENTITY
    for zero in (of_v[2], of_a[2], of_v[3], of_u[3]):
        assert not zero.any()


def test_residual_adds_elasticity_and_actuation_to_inverse_dynamics(case):
    robot, q, v, a, w, u = case
    K, D = robot.model.stiffness, robot.model.damping
    derivatives = robot.residual_derivatives(q, v, a, 0.0 * u)
    expected = inverse_dynamics(robot.model, q, v, a) + K @ q + D @ v - derivatives.B @ u
    assert relative_error(robot.residual(q, v, a, u), expected) < IDENTITY
    of_inertia = inverse_dynamics_derivatives(robot.model, q, v, a)
    expected = of_inertia.dtau_dq + K, of_inertia.dtau_dv + D, of_inertia.M
    for value, sum_ in zip(derivatives, expected, strict=False):
        assert relative_error(value, sum_) < IDENTITY
    H = robot.residual_hessian(q, v, a, 0.0 * u, w)
    for value, alone in zip(H, inverse_dynamics_hessian(robot.model, q, v, a, w), strict=False):
        assert relative_error(value, alone) < IDENTITY


def test_accelerations_and_their_derivatives(case):
    robot, q, v, _, w, u = case
    a = robot.forward_dynamics(q, v, u)
    scale = np.abs(robot.residual(q, v, 0.0 * a, u)).max()
    assert np.abs(robot.residual(q, v, a, u)).max() < IDENTITY * scale
    state = np.concatenate([q, v, 0.0 * a, w, u])
    da, _ = complex_steps(robot, MASS_MATRIX, state, accelerations=True)
    of_q, of_v, _, of_u = parts(robot, da)
    for value, expected in zip(robot.forward_dynamics_derivatives(q, v, u), (of_q, of_v, of_u), strict=True):
        assert relative_error(value, expected) < CONDITIONED
    _, dA = complex_steps(robot, FIRST, state, accelerations=True)
    of_q, of_v, _, of_u = (parts(robot, gradient) for gradient in gradients(robot, w, dA))
    H = robot.forward_dynamics_hessian(q, v, u, w)
    for value, expected in zip(H, (of_q[0], of_q[1], of_v[1], of_u[0].T), strict=True):
        assert relative_error(value, expected) < CONDITIONED
    for zero in (of_v[3], of_u[3]):
        assert np.abs(zero).max() < CONDITIONED * np.abs(of_q[0]).max()


def test_branches_in_any_order(rng):
    """A robot whose coordinates are not numbered depth-first has the accelerations of one whose are."""
    first, second = hybrid(), hybrid(depth_first=False)
    order = [second.model.coordinate_names.index(name) for name in first.model.coordinate_names]
    assert order != sorted(order)
    assert (np.diff(first.arrays.dof_parent) != 1).any() and (np.diff(second.arrays.dof_parent) == 1).all()
    q, v, _, _, u = random_state(first, rng)
    permuted = np.zeros((2, first.nq))
    permuted[:, order] = q, v
    assert relative_error(second.forward_dynamics(*permuted, u)[order], first.forward_dynamics(q, v, u)) < CONDITIONED


def test_plain_numbers(rng):
    """The kernel gives for them what it gives in lanes."""
    robot = manipulator()
    n = robot.nq
    q, v, a, w, u = random_state(robot, rng)
    state = np.concatenate([q, v, a, w, u])
    m, e = robot.model.arrays, robot.arrays
    r, A = np.empty(n), np.empty(result_size(m, e))
    residual_kernel(m, e, FIRST, state, np.empty(residual_work(m, e)), r, A)
    assert relative_error(r, robot.residual(q, v, a, u)) < IDENTITY
    derivatives = robot.residual_derivatives(q, v, a, u)
    for value, expected in zip(A[: 3 * n * n].reshape(3, n, n), derivatives, strict=False):
        assert relative_error(value, expected) < IDENTITY
