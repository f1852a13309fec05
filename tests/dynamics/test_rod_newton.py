"""Newton's method of implicit steps: factors kept from step to step change neither solutions nor their accuracy."""

import numpy as np
import pytest

from dynamics.rods.algorithms.closed_chains import closure_jacobian
from dynamics.rods.model.arrays import MASS_MATRIX
from dynamics.rods.model.rod_model import turning_joints
from dynamics.rods.robot.reactions import prescribed_motion
from dynamics.rods.statics.newton import CONVERGED, Newton
from dynamics.rods.stepping import simulation
from dynamics.rods.stepping.plant import RodPlant
from dynamics.rods.stepping.simulation import simulate
from problems.rods.parallel_robot import parallel_robot
from tests.reference.rod_robots import manipulator
from tests.tolerances import relative_error


class Forgetful(Newton):
    """Without factors of earlier calls."""

    def solve(self, *args, **options):
        self._factors.c[:] = np.nan
        return super().solve(*args, **options)


def tensions(t: float) -> np.ndarray:
    return 5.0 * (1.0 - np.cos(2.0 * np.array([1.0, 1.3, 0.7, 0.9, 1.1]) * t))


def step_problem(rng, scale: float = 1.0):
    """Base, coefficients, inputs and start of a step of Newmark's method with h = 0.002."""
    h, n = 0.002, manipulator().nq
    base = np.array([rng.normal(0.0, 0.3 * scale, n), rng.normal(0.0, scale, n), np.zeros(n)])
    return base, np.array([0.25 * h * h, 0.5 * h, 1.0]), 10.0 * rng.random(5), np.zeros(n)


@pytest.mark.parametrize(
    ("method", "dt"), [("newmark", 0.002), ("newmark", None), ("implicit_midpoint", 0.002)]
)
def test_motions_with_kept_factors(method, dt, monkeypatch):
    """They are those with a new Jacobian for every step, to what Newton's method is asked for."""
    kept = simulate(manipulator(), 0.5, tensions, method=method, dt=dt)
    monkeypatch.setattr(simulation, "Newton", Forgetful)
    fresh = simulate(manipulator(), 0.5, tensions, method=method, dt=dt)
    assert fresh.jacobians >= fresh.steps and kept.evaluations > kept.jacobians
    if dt is None:  # steps are chosen by errors that are known to a tenth
        assert kept.jacobians < 0.6 * kept.steps and relative_error(kept.q[-1], fresh.q[-1]) <= 1e-3
    else:
        assert kept.jacobians < 0.3 * kept.steps and relative_error(kept.q, fresh.q) <= 1e-8


def test_old_factors_do_not_spoil_solutions():
    """From the same start, after a call far away or near by, errors stay below the tolerance asked for."""
    rng, tolerance = np.random.default_rng(0), 1e-7
    for scale in (1e-3, 1e-2, 0.1, 1.0):
        first, second = step_problem(rng), step_problem(rng)
        second = first[0] + scale * (second[0] - first[0]), *second[1:]
        method = Newton(manipulator())
        assert method.solve(*first, tolerance, 30).status == CONVERGED
        found = method.solve(*second, tolerance, 30)
        exact = Newton(manipulator()).solve(*second, 1e-12, 30)
        assert found.status == exact.status == CONVERGED and exact.jacobians >= 1
        assert found.jacobians == 0 or scale > 1e-3
        for k in range(2):
            changes = second[1][k] * np.abs(found.z - exact.z)
            size = 1.0 + np.abs(second[0][k] + second[1][k] * exact.z)
            assert (changes <= tolerance * size).all()


def test_other_coefficients_ask_for_another_jacobian():
    problem = step_problem(np.random.default_rng(1))
    method = Newton(manipulator())
    counts = [
        method.solve(problem[0], scale * problem[1], *problem[2:], 1e-9, 30).jacobians for scale in (1.0, 1.0, 0.5)
    ]
    assert counts[0] >= 1 and counts[1] == 0 and counts[2] >= 1


def test_factors_are_given_up_when_they_cost_more_than_new_ones():
    """While the base drifts away, calls take more and more evaluations, and now and then a Jacobian."""
    base, *others = step_problem(np.random.default_rng(2), 0.5)
    method, jacobians, evaluations = Newton(manipulator()), [], []
    for k in range(60):
        result = method.solve((1.0 + 0.01 * k) * base, *others, 1e-9, 30)
        assert result.status == CONVERGED
        jacobians.append(result.jacobians)
        evaluations.append(result.evaluations)
    assert 2 <= sum(jacobians) <= 20 and max(evaluations) <= 15, (jacobians, evaluations)


# ------------------------------------------------------------------------------------------------ closed chains
def test_projection():
    """It opens no chain, changes nothing the second time, changes least, and gives the reactions of its state."""
    robot = parallel_robot().robot
    n, inputs = robot.nq, np.array([0.01, -0.02, 0.03, 0.1, 0.2, -0.1])
    run = simulate(robot, 0.05, np.zeros(0), wrenches=inputs[None], method="newmark", dt=0.01)
    q, rng, method = run.q[-1], np.random.default_rng(3), Newton(robot)
    v, a = rng.normal(size=(2, n))
    method.solve(np.array([q, v, a]), np.array([0.25e-4, 0.5e-2, 1.0]), inputs, a, 1e-9, 1)
    once = method.project(q, v, a)
    A = closure_jacobian(robot.model, q)
    assert np.abs(A @ once[0][1]).max() <= 1e-12 and np.abs(A @ v).max() > 0.1
    twice = method.project(*once[0])
    assert relative_error(twice[0], once[0]) <= 1e-9 and relative_error(twice[1], once[1]) <= 1e-9
    assert np.abs(once[2]).max() <= 1e-9  # all coordinates are free
    M = robot.residual_derivatives(q, v, a, [], inputs[None]).M
    lost = M @ (once[0][1] - v)
    multipliers = np.linalg.lstsq(A.T, lost, rcond=None)[0]
    assert relative_error(A.T @ multipliers, lost) <= 1e-9
    plant = RodPlant(robot, lambda t: inputs, prescribed_motion(robot.model, None), 1.0, turning_joints(robot.model))
    motion = plant.motion(MASS_MATRIX, 0.0, q[None], once[0][1][None])
    assert relative_error(once[1], motion.multipliers[0]) <= 1e-6
