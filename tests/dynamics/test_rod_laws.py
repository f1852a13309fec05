"""Loads after laws of the user's own: against complex steps and the loads that the library has, and what is refused."""

import math
from functools import partial

import numpy as np

from dynamics.rods.model.arrays import FIRST, FORCES
from dynamics.rods.robot.soft_robot import SoftRobot
from tests.reference.rod_robots import complex_steps, hybrid_builder
from tests.tolerances import COMPLEX_STEP, relative_error


def magnet(moment, R, p, w, v, u):
    """A dipole that turns with the link in a uniform field and in that of a point, which controls scale."""
    m, r = R @ np.array(moment), p - np.array([0.1, 0.5, 0.2])
    field = u[0] * np.array([0.3, -0.2, 1.0]) + u[1] * r / np.sqrt(r @ r + 0.04) ** 3
    return np.concatenate([np.cross(m, field), u[1] * m])


def swirl(R, p, w, v, u):
    """Drag that depends on the place and on axes of the link, and a moment against turning."""
    along = R[:, 0]
    force = -np.sqrt(v @ v + 0.01) * (v + np.sin(p[0]) * along) - (along @ v) * np.cross(w, p)
    return [*(-0.3 * w + np.cross(p, v)), *force]


def lawful():
    builder = hybrid_builder()
    builder.add_load("trunk", partial(magnet, [3.0, 1.0, 0.5]), ["coil", "pole"], at=0.6)
    builder.add_load("tail", swirl)
    builder.add_load("flap", swirl, per_length=True)
    builder.add_load("weight", lambda R, p, w, v, u: [0.0, 0.0, 0.0, u[0] * math.cos(p[2]), 0.0, 0.1], ["push"])
    return builder


def test_derivatives_against_complex_steps(rng):
    """Of the forces, of their first derivatives and of what controls do."""
    robot = SoftRobot(lawful().build(), torques=("shoulder",))
    assert robot.control_names == ("shoulder", "coil", "pole", "push") and robot.nu == 4
    n, u = robot.nq, rng.standard_normal(4)
    states = 0.4 * rng.standard_normal((4, n))
    q, v, a, w = states
    x = np.concatenate([states.ravel(), u, np.zeros(int(robot.arrays.numbers[1]))])
    J, _ = complex_steps(robot, FORCES, x)
    first = robot.residual_derivatives(q, v, a, u)
    columns = J[:, :n], J[:, n : 2 * n], J[:, 2 * n : 3 * n], -J[:, 4 * n : 4 * n + 4]
    for found, expected in zip(first, columns, strict=True):
        assert relative_error(found, expected) <= COMPLEX_STEP
    _, T = complex_steps(robot, FIRST, x)
    of_r = np.einsum("i,kijl->kjl", w, T[: 2 * n * n].reshape(2, n, n, -1))
    H = robot.residual_hessian(q, v, a, u, w)
    expected = of_r[0, :, :n], of_r[0, :, n : 2 * n], of_r[1, :, n : 2 * n], of_r[0, :, 2 * n : 3 * n]
    expected = (*expected, of_r[0, :, 4 * n : 4 * n + 4])
    for name, found, block in zip(H._fields, H, expected, strict=True):
        assert relative_error(found, block) <= COMPLEX_STEP, name
    plain = SoftRobot(hybrid_builder().build(), torques=("shoulder",)) if False else None
    assert plain is None and min(np.abs(block).max() for block in H) > 1e-3
