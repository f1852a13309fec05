"""Motions of soft robots: methods agree, keep energy, converge, and say where they fail."""

import numpy as np
import pytest

from dynamics import Prismatic
from dynamics.rods.model.strain_basis import LegendreBasis
from dynamics.rods.robot.builder import RodModelBuilder
from dynamics.rods.robot.soft_robot import SoftRobot
from dynamics.rods.stepping.simulation import simulate
from dynamics.rods.stepping.soft_system import SoftRobotSystem
from tests.reference.rod_robots import REFERENCE, cantilever, hybrid, manipulator
from tests.tolerances import relative_error

FREQUENCIES = REFERENCE["frequencies"]["cases"]


def tensions(t: float) -> np.ndarray:
    """Smooth, from 0 to 10 N."""
    return 5.0 * (1.0 - np.cos(2.0 * np.array([1.0, 1.3, 0.7, 0.9, 1.1]) * t))


@pytest.fixture(scope="module")
def accurate():
    """The manipulator after one second."""
    return simulate(manipulator(), 1.0, tensions, method="radau", rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize(
    ("options", "tolerance"),
    [
        ({"method": "bdf"}, 1e-3),
        ({"method": "bdf", "jacobian": False}, 1e-3),
        ({"method": "radau"}, 1e-3),
        ({"method": "newmark", "dt": 0.004}, 1e-4),
        ({"method": "newmark"}, 1e-3),
        ({"method": "implicit_midpoint", "dt": 0.004}, 1e-4),
        ({"method": "sdirk2", "dt": 0.004}, 1e-4),
    ],
)
def test_methods_agree(options, tolerance, accurate):
    run = simulate(manipulator(), 1.0, tensions, **options)
    assert run.t[0] == 0.0 and run.t[-1] == pytest.approx(1.0, abs=1e-12)
    assert len(run.t) == len(run.q) == len(run.v) == run.steps + 1
    assert run.evaluations >= run.steps and run.jacobians > 0
    assert relative_error(run.q[-1], accurate.q[-1]) < tolerance


@pytest.mark.parametrize("method", ["newmark", "implicit_midpoint", "sdirk2"])
def test_second_order(method, accurate):
    errors = [
        np.abs(simulate(manipulator(), 1.0, tensions, method=method, dt=dt).q[-1] - accurate.q[-1]).max()
        for dt in (0.02, 0.01)
    ]
    assert np.log2(errors[0] / errors[1]) == pytest.approx(2.0, abs=0.2)


def test_energy_of_the_midpoint_rule():
    """Without gravity, damping and controls energy drifts by O(dt^2)."""
    basis = LegendreBasis(torsion=0, bending_y=1, bending_z=1)
    robot = cantilever(FREQUENCIES["rodB"], 4, basis, gravity=(0.0, 0.0, 0.0))
    drifts = []
    for dt in (0.005, 0.0025):
        run = simulate(robot, 1.0, [], q0=[0.5, 2.0, -0.3, 1.0, 0.4], method="implicit_midpoint", dt=dt)
        zero = np.zeros_like(run.q)
        M = robot.residual_derivatives(run.q, zero, zero, []).M
        energy = 0.5 * np.einsum("ti,tij,tj->t", run.v, M, run.v)
        energy += 0.5 * np.einsum("ti,ij,tj->t", run.q, robot.model.stiffness, run.q)
        drifts.append(np.abs(energy / energy[0] - 1.0).max())
    assert drifts[1] < 1e-2, drifts
    assert np.log2(drifts[0] / drifts[1]) == pytest.approx(2.0, abs=0.2), drifts


def test_free_fall_and_a_short_last_step():
    """A cart under gravity and a constant force: exact for Newmark; the last step is shorter."""
    builder = RodModelBuilder()
    builder.add_body("cart", "world", Prismatic("z"), mass=2.0)
    robot = SoftRobot(builder.build(), torques=["cart"])
    run = simulate(robot, 0.25, [3.0], v0=[1.0], method="newmark", dt=0.1)
    assert np.allclose(run.t, [0.0, 0.1, 0.2, 0.25])
    a = 1.5 - 9.81
    assert np.allclose(run.q[:, 0], run.t + 0.5 * a * run.t**2, rtol=0.0, atol=1e-12)
    assert np.allclose(run.v[:, 0], 1.0 + a * run.t, rtol=0.0, atol=1e-12)


def test_output_at_equal_times(accurate):
    run = simulate(manipulator(), 1.0, tensions, dt=0.125, rtol=1e-6, atol=1e-8)
    assert np.allclose(run.t, np.arange(9) / 8.0) and run.q.shape == (9, 24)
    assert relative_error(run.q[-1], accurate.q[-1]) < 1e-4


def test_hybrid_robot_moves():
    """Joints of all kinds: two methods agree."""
    robot = hybrid()
    u = np.array([1.0, 0.5, 0.5, 2.0, 0.1])
    runs = [
        simulate(robot, 0.05, u, **options)
        for options in ({"method": "radau", "rtol": 1e-7, "atol": 1e-9}, {"method": "newmark", "dt": 0.0005})
    ]
    assert relative_error(runs[1].q[-1], runs[0].q[-1]) < 1e-3


def test_progress_bar(capsys):
    simulate(manipulator(), 0.01, tensions, method="newmark", dt=0.005, progress=True)
    assert "0.01 of 0.01 s" in capsys.readouterr().err


@pytest.mark.parametrize("method", ["newmark", "implicit_midpoint", "sdirk2"])
def test_failures_name_the_time(method):
    """Tensions that crush the arm halfway."""

    def crush(t):
        return np.full(5, 0.0 if t < 0.05 else 1e7)

    with pytest.raises(RuntimeError, match=r"failed at t = 0\.0[45] s, step 0\.01 s: "):
        simulate(manipulator(), 0.1, crush, method=method, dt=0.01)


@pytest.mark.parametrize("method", ["newmark", "bdf", "radau"])
def test_a_body_without_mass_has_no_acceleration(method):
    builder = RodModelBuilder()
    builder.add_body("cart", "world", Prismatic("z"))
    with pytest.raises(RuntimeError, match="failed at t = 0 s"):
        simulate(SoftRobot(builder.build(), torques=["cart"]), 1.0, [1.0], method=method)


@pytest.mark.parametrize("method", ["implicit_midpoint", "sdirk2"])
def test_single_steps_want_their_length(method):
    with pytest.raises(ValueError, match="dt: got None"):
        simulate(manipulator(), 1.0, np.zeros(5), method=method)


def test_stiff_motion_dies_out():
    """Steps of 2 s for a rod that swings in milliseconds to tenths of a second: SDIRK2 leaves nothing of a push after
    ten steps, the midpoint rule all of it; simulated steps are those of a system."""
    robot = cantilever(FREQUENCIES["rodB"], 6, LegendreBasis(torsion=0, bending_y=4, bending_z=4), gravity=(0, 0, 0))
    left = {}
    for method in ("sdirk2", "implicit_midpoint"):
        run = simulate(robot, 20.0, [], v0=np.full(robot.nq, 1e-4), method=method, dt=2.0)
        xs = SoftRobotSystem(robot, 2.0, method).rollout(np.hstack([run.q[0], run.v[0]]), np.zeros((10, 0)))
        left[method] = np.abs(run.v).max(axis=1) / 1e-4
        assert np.abs(xs[:, robot.nq :] - run.v).max() < 1e-7
    assert left["sdirk2"][-1] < 1e-3 and left["implicit_midpoint"].min() > 0.5
