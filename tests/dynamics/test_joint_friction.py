"""Joint friction: known motions, the step's equation, contacts, accelerations as controls, and what is refused."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import dynamics
import trajopt
from dynamics.systems.robot_system import SLOW
from problems.quadruped_model import FEET, quadruped, standing
from tests.reference.rigid_body_models import load_reference
from tests.reference.robot_systems import SMOOTHING, make_contact_system, model_slopes, rough, step
from tests.tolerances import CENTRAL_DIFFERENCES, IDENTITY, SLOPE, relative_error

PENDULUM = """<robot name="pendulum"><link name="base"/>
<link name="rod"><inertial><origin xyz="0 0 -1"/><mass value="1"/>
<inertia ixx="0" iyy="0" izz="0" ixy="0" ixz="0" iyz="0"/></inertial></link><joint name="hinge" type="continuous">
<parent link="base"/><child link="rod"/><axis xyz="0 1 0"/><dynamics damping="{}" friction="{}"/></joint></robot>"""


def pendulum(damping=0.0, friction=0.0):
    return dynamics.load_urdf(PENDULUM.format(damping, friction))


@pytest.mark.parametrize(("integrator", "order"), [("semi_implicit_euler", 1), ("explicit_euler", 1), ("rk4", 4)])
def test_swing_of_a_pendulum(integrator, order):
    """Against SciPy, with the order of the integrator: a URDF's damping and friction are at work."""
    d, c, e = 0.7, 0.4, 0.5

    def motion(t, x):
        return [x[1], -9.81 * np.sin(x[0]) - d * x[1] - c * x[1] / np.hypot(x[1], e)]

    truth = solve_ivp(motion, (0.0, 2.0), [2.0, 0.0], rtol=1e-11, atol=1e-12).y[:, -1]
    steps, errors = np.array([200, 400, 800]), []
    for N in steps:
        system = dynamics.RigidBodySystem(pendulum(d, c), 2.0 / N, integrator, friction_speed=e)
        errors.append(np.abs(system.rollout([2.0, 0.0], np.zeros((N, 1)))[-1] - truth).max())
    assert np.polyfit(np.log(steps), np.log(errors), 1)[0] == pytest.approx(-order, abs=0.15)


def test_left_out_and_absent():
    """`joint_friction=False` gives the robot without friction bit by bit, as functions of a model alone do."""
    x0, us = np.array([0.3, 2.0]), np.zeros((50, 1))
    bare = dynamics.RigidBodySystem(pendulum(), 0.01)
    left_out = dynamics.RigidBodySystem(pendulum(0.7, 0.4), 0.01, joint_friction=False)
    assert np.array_equal(left_out.rollout(x0, us), bare.rollout(x0, us))
    assert left_out.plant_model is left_out.model
    for f in (dynamics.forward_dynamics, dynamics.inverse_dynamics):
        assert np.array_equal(f(pendulum(0.7, 0.4), [0.3], [2.0], [0.1]), f(pendulum(), [0.3], [2.0], [0.1]))


@pytest.mark.parametrize("damping", [5.0, 1e3, 1e6])
def test_no_damping_is_too_stiff_for_euler(damping):
    """With 5 N m s/rad at 10 ms the pendulum has stopped swinging after 20 s; with more, it creeps towards its rest."""
    system = dynamics.RigidBodySystem(pendulum(damping), 0.01)
    q, v = system.rollout([1.0, 3.0], np.zeros((2000, 1))).T
    slowest = 9.81 / damping if damping > 100.0 else 2.2  # 1/s; q = exp(-9.81 t/d) where inertia hardly counts
    assert q[-1] == pytest.approx(np.exp(-20.0 * slowest), abs=0.05)
    assert np.abs(v[1:]).max() <= 3.0 and np.abs(q).max() < 1.3


def test_coulomb_friction_of_long_steps_does_not_chatter():
    """c h/(m e) would be 20 with the least smoothing speed; the joint stops all the same, and does not turn round."""
    system = dynamics.RigidBodySystem(pendulum(friction=20.0), 0.01)
    assert system.plant_model.arrays.joint_friction[0, 2] == pytest.approx(0.2**2)
    v = system.rollout([0.1, 3.0], np.zeros((100, 1)))[:, 1]
    assert np.all(np.diff(np.abs(v[v > 0.0])) <= 0.0)
    assert abs(v[-1]) < 0.05  # it creeps, at e times the share of c that gravity asks for
    short = dynamics.RigidBodySystem(pendulum(friction=20.0), 1e-4)
    assert short.plant_model.arrays.joint_friction[0, 2] == pytest.approx(SLOW**2)


def test_smoothing_speed_holds_for_coupled_joints(rng):
    """No eigenvalue of h M^-1 diag(c/e) above one, at the neutral configuration as elsewhere."""
    model, data = load_reference("ur5")
    friction = rng.uniform(1.0, 20.0, model.nv)
    friction[2] = 0.0
    system = dynamics.RigidBodySystem(replace(model, friction=friction), 0.02)
    slope = friction / np.sqrt(system.plant_model.arrays.joint_friction[:, 2])
    root = np.sqrt(slope)
    for q in (dynamics.neutral(model), *data["q"]):
        W = 0.02 * np.linalg.inv(dynamics.mass_matrix(model, q))
        assert np.linalg.eigvalsh(root[:, None] * W * root)[-1] <= 1.5  # the samples are few


@pytest.mark.parametrize("integrator", ["semi_implicit_euler", "explicit_euler", "rk4"])
@pytest.mark.parametrize("case", ["hyq on four feet", "joint_zoo, gains", "hyq on a foot and a point"])
def test_rough_robots_in_contact(case, integrator, rng):
    """Steps against numpy, and the slopes of both models of a step."""
    system, xs, us = make_contact_system(case, 0.02, integrator, rng, has_friction=True)
    found = system.step(xs, us)
    for x, u, y in zip(xs, us, found, strict=True):
        assert relative_error(y, step(system, x, u)) <= 1e3 * IDENTITY
    assert model_slopes(system, xs, us, rng) == pytest.approx((2.0, 3.0), abs=SLOPE)


def test_legs_carry_friction(rng):
    """Forces on the feet balance with friction in the joints of the legs."""
    model = rough(quadruped(), rng)
    on_legs = np.repeat([0.0, 1.0], [6, 12])
    model = replace(model, damping=on_legs * model.damping, friction=on_legs * model.friction)
    feet = [dynamics.PointContact(model, foot) for foot in FEET]
    system = dynamics.RigidBodySystem(model, 0.01, actuation="floating_base", contacts=feet, friction_speed=SMOOTHING)
    x = system.state(standing(), 0.3 * rng.standard_normal(model.nv))
    us = rng.standard_normal((1, system.nu))
    y = system.step(x[None], us)[0]
    assert relative_error(y, step(system, x, us[0])) <= 1e-9
    v, q = x[model.nq :], x[: model.nq]
    a = (y[model.nq :] - v) / 0.01
    forces = system.contact_forces(x[None], us)[0]
    J = [dynamics.frame_jacobian(model, q, frame)[:3] for frame in system.contact_frames]
    resisting = model.damping * y[model.nq :] + model.friction * v / np.hypot(v, SMOOTHING)
    left = dynamics.inverse_dynamics(model, q, v, a) + resisting - np.r_[np.zeros(6), us[0]]
    assert relative_error(sum(j.T @ f for j, f in zip(J, forces, strict=True)), left) <= 1e-8
    residual = dynamics.ContactForce(system)
    assert relative_error(residual.evaluate(x[None], us).reshape(-1, 3), forces) <= 1e3 * IDENTITY
    h = 1e-6
    dz = rng.standard_normal((2, system.ndx))
    for dx in dz:
        up, down = (residual.evaluate(system.integrate(x, s * h * dx)[None], us)[0] for s in (1.0, -1.0))
        expected = (up - down) / (2.0 * h)
        assert relative_error(residual.jacobians(x[None], us)[0][0] @ dx, expected) <= 10 * CENTRAL_DIFFERENCES


def test_accelerations_as_controls(rng):
    """The same optimum and torques as with torques as controls, by iLQR and DDP, over several chunks of knots."""
    model = rough(load_reference("ur5")[0], rng)
    costs = {}
    for formulation in ("forward", "inverse"):
        system = dynamics.RigidBodySystem(model, 0.02, formulation=formulation, friction_speed=0.3)
        x0 = system.state(np.array([0.0, -1.2, 1.6, -1.9, -1.6, 0.0]))
        goal = system.state(np.array([0.8, -0.9, 1.1, -1.5, -1.2, 0.4]))
        problem = trajopt.Problem(
            system, x0, 20, [trajopt.ControlCost(1e-3), trajopt.StateCost(system, goal, 1e-2)],
            [trajopt.StateCost(system, goal, np.repeat([1e3, 1e1], 6))],
        )  # fmt: skip
        for solver in (trajopt.ILQR(), trajopt.DDP()):
            solution = solver.solve(problem)
            assert solution.converged
            costs[formulation, type(solver).__name__] = solution.cost
    least = min(costs.values())
    assert all(cost == pytest.approx(least, rel=1e-7) for cost in costs.values()), costs


def test_hybrid_systems_and_rest():
    """Every phase has the friction, an impact has none; at rest friction asks for no torque."""
    on_legs = np.repeat([0.0, 1.0], [6, 12])
    robot = replace(quadruped(), damping=0.1 * on_legs, friction=0.2 * on_legs)
    phases = [("stance", FEET, 2), ("flight", [], 2), ("landing", FEET, 2)]
    system = dynamics.HybridSystem(robot, 0.01, phases)
    free = dynamics.HybridSystem(robot, 0.01, phases, joint_friction=False)
    for part, other in zip(system.segments, free.segments, strict=True):
        if part.system.dt > 0.0:
            assert len(part.system.plant_model.arrays.joint_friction) == robot.nv
            assert part.system.plant_model.armature[6:] == pytest.approx(robot.armature[6:] + 0.01 * robot.damping[6:])
            assert other.system.plant_model is robot
    x = system.state(standing())
    assert np.array_equal(system.quasi_static(x), free.quasi_static(x))


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"joint_friction": 1}, TypeError, "joint_friction: got 1, expected True or False"),
        ({"friction_speed": 0.0}, ValueError, "friction_speed: got 0.0, expected a positive speed"),
        ({"friction_speed": np.nan}, ValueError, "friction_speed"),
        ({"friction_speed": [0.1, 0.2]}, ValueError, "friction_speed"),
        ({"friction_speed": [-0.1]}, ValueError, "friction_speed: got -0.1, expected a positive speed"),
        ({"friction_speed": 0.1, "joint_friction": False}, ValueError, "friction_speed: got 0.1, expected None"),
    ],
)
def test_bad_options(options, error, message):
    with pytest.raises(error, match=message):
        dynamics.RigidBodySystem(pendulum(0.1, 0.2), 0.01, **options)


def test_speed_without_friction_is_refused():
    with pytest.raises(ValueError, match=r"friction_speed: got 0\.1, expected None where no joint"):
        dynamics.RigidBodySystem(pendulum(0.1), 0.01, friction_speed=0.1)


def test_damping_too_stiff_for_runge_kutta_is_said():
    with pytest.warns(RuntimeWarning, match="damping of 'hinge'") as caught:
        dynamics.RigidBodySystem(pendulum(500.0), 0.01, "rk4")
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        dynamics.RigidBodySystem(pendulum(100.0), 0.01, "rk4")
