"""Springs and actuators of robots: known motions, the step's equation, expansions, and what is refused."""

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import dynamics
import trajopt
from dynamics import ModelBuilder, Prismatic, Revolute, RigidBodySystem
from dynamics.model.actuation import joint_row
from dynamics.model.edits import builder_of
from tests.reference.rigid_body_models import load_reference
from tests.reference.robot_systems import make_contact_system, model_slopes
from tests.tolerances import CENTRAL_DIFFERENCES, IDENTITY, SLOPE, relative_error

STIFFNESS, GEAR, ROTOR, DAMPER = 300.0, 50.0, 1e-4, 0.4


def elastic_pendulum():
    """A rod behind a gear that yields: a rotor, a spring between it and the joint, and a motor on the rotor."""
    builder = ModelBuilder()
    builder.add_body("rotor", "world", Revolute("y"), joint_name="motor", mass=0.1, armature=ROTOR)
    builder.add_body("rod", "world", Revolute("y"), joint_name="joint", mass=1.0, com=(0.0, 0.0, -1.0))
    builder.add_spring({"motor": 1.0 / GEAR, "joint": -1.0}, STIFFNESS, rest=0.1, damping=DAMPER)
    builder.add_actuator("drive", {"motor": 1.0}, lower=-0.3, upper=0.5)
    return builder.build()


def sprung(model, rng):
    """The robot, with a spring and damper on each of its joints of one degree of freedom and a tendon over two."""
    builder = builder_of(model)
    names = [name for name, nv in zip(model.joint_names, model.joint_nv, strict=True) if nv == 1]
    inertia = dict(zip(model.dof_names, np.diag(dynamics.mass_matrix(model, dynamics.neutral(model))), strict=True))
    for name in names:
        k, d = inertia[name] * rng.uniform(0.5, 2.0, 2)
        builder.add_spring({name: 1.0}, k, rng.normal(), d)
    scale = min(inertia[names[0]], inertia[names[-1]])
    builder.add_spring({names[0]: 0.6, names[-1]: -1.3}, scale, 0.2, 0.5 * scale)
    return builder.build()


def pull(model, q, v):
    """Forces of the springs (K, nv), spring by spring."""
    tau = np.zeros_like(v)
    for each in model.springs:
        r = joint_row(model, each.joints)
        places = np.zeros((model.nv, model.nq))
        places[model.v_index, model.q_index] = 1.0
        s, rate = q @ places.T @ r, v @ r
        tau -= (each.stiffness * (s - each.rest) + each.damping * rate)[:, None] * r
    return tau


@pytest.mark.parametrize(("integrator", "order"), [("semi_implicit_euler", 1), ("explicit_euler", 1), ("rk4", 4)])
def test_a_series_elastic_joint_swings_as_it_should(integrator, order):
    """Against SciPy, by the equations of Spong's model, with the order of the integrator."""
    u = 0.05

    def motion(t, x):
        motor, joint, dmotor, djoint = x
        force = STIFFNESS * (motor / GEAR - joint - 0.1) + DAMPER * (dmotor / GEAR - djoint)
        return [dmotor, djoint, (u - force / GEAR) / ROTOR, force - 9.81 * np.sin(joint)]

    truth = solve_ivp(motion, (0.0, 1.0), [20.0, 0.5, 0.0, 0.0], rtol=1e-11, atol=1e-12).y[:, -1]
    steps, errors = np.array([400, 800, 1600]) * (1 if order == 4 else 8), []
    for N in steps:
        system = RigidBodySystem(elastic_pendulum(), 1.0 / N, integrator, actuation="model")
        x = system.rollout([20.0, 0.5, 0.0, 0.0], np.full((N, 1), u))[-1]
        errors.append(np.abs((x - truth) / [GEAR, 1.0, GEAR, 1.0]).max())
    assert np.polyfit(np.log(steps), np.log(errors), 1)[0] == pytest.approx(-order, abs=0.2)


@pytest.mark.parametrize("robot", ["ur5", "joint_zoo"])
def test_springs_pull_as_torques_would(robot, rng):
    model, data = load_reference(robot)
    held = sprung(model, rng)
    us = rng.normal(size=(len(data["q"]), model.nv))
    xs = np.hstack([data["q"], data["v"]])
    for integrator in ("semi_implicit_euler", "explicit_euler"):
        free, system = (RigidBodySystem(m, 0.01, integrator, joint_friction=False) for m in (model, held))
        expected = free.step(xs, us + pull(held, data["q"], data["v"]))
        assert relative_error(system.step(xs, us), expected) < 1e2 * IDENTITY


@pytest.mark.parametrize("integrator", ["semi_implicit_euler", "explicit_euler", "rk4"])
@pytest.mark.parametrize("robot", ["ur5", "joint_zoo"])
def test_expansions_of_sprung_robots(robot, integrator, rng):
    model, data = load_reference(robot)
    model = sprung(model, rng)
    system = RigidBodySystem(model, 0.02, integrator)
    xs = np.hstack([data["q"], data["v"]])[:3]
    us = dynamics.inverse_dynamics(model, data["q"], data["v"], rng.uniform(-1, 1, data["v"].shape))
    us = (us - pull(model, data["q"], data["v"]))[:3]
    assert model_slopes(system, xs, us, rng) == pytest.approx((2.0, 3.0), abs=SLOPE)
    full, lam = system.hessians(xs, us), rng.normal(size=(3, system.ndx))
    for products, tensor in zip(system.hessian_products(xs, us, lam), full, strict=True):
        assert relative_error(products, np.einsum("tijk,ti->tjk", tensor, lam)) < 1e3 * IDENTITY


def test_expansions_of_sprung_robots_in_contact(rng):
    system, xs, us = make_contact_system("hyq on a foot and a point", 0.02, "semi_implicit_euler", rng)
    model = sprung(system.model, rng)
    held = [type(c)(model, c.frame, c.gains, c.reference, c.axes) for c in system.contacts.contacts]
    system = RigidBodySystem(model, 0.02, actuation="floating_base", contacts=held)
    assert model_slopes(system, xs, us, rng) == pytest.approx((2.0, 3.0), abs=SLOPE)
    q, v = xs[:, : model.nq], xs[:, model.nq :]
    tau = us @ system.actuation.B.T + pull(model, q, v)
    expected = dynamics.contact_dynamics(model, q, v, tau, held)
    assert relative_error(system.contact_forces(xs, us), expected.f) < 1e3 * IDENTITY


def test_accelerations_as_controls(rng):
    model, data = load_reference("ur5")
    system = RigidBodySystem(sprung(model, rng), 0.01, formulation="inverse")
    xs, a = np.hstack([data["q"], data["v"]])[:3], rng.normal(size=(3, model.nv))
    control = system.acceleration_control
    us = control.controls(xs, a)
    assert relative_error(control.accelerations(xs, us), a) < 1e3 * IDENTITY
    h, (U, _) = 1e-6, control.jacobians(xs, a)
    for k in range(2 * model.nv):
        step = h * np.eye(2 * model.nv)[k]
        difference = (control.controls(xs + step, a) - control.controls(xs - step, a)) / (2 * h)
        assert relative_error(U[:, :, k], difference, np.abs(U).max()) < CENTRAL_DIFFERENCES


def test_both_formulations_find_one_optimum():
    """The spring joins two branches of the tree."""
    solutions = []
    for formulation in ("forward", "inverse"):
        system = RigidBodySystem(elastic_pendulum(), 0.01, formulation=formulation)
        target = system.state([0.5 * GEAR, 0.5])
        costs = [trajopt.StateCost(system, target, [1e-3, 10.0, 1e-4, 0.1]), trajopt.ControlCost([1.0, 1e-2])]
        problem = trajopt.Problem(system, system.state([0.1 * GEAR, 0.0]), 40, costs, [])
        solutions.append(trajopt.DDP().solve(problem))
    assert all(solution.converged for solution in solutions)
    assert solutions[1].cost == pytest.approx(solutions[0].cost, rel=1e-9)
    assert relative_error(solutions[1].us, solutions[0].us) < 1e-4


def test_a_sprung_robot_is_held_still(rng):
    model = sprung(load_reference("ur5")[0], rng)
    system = RigidBodySystem(model, 0.01)
    x = system.state(rng.uniform(-1.0, 1.0, model.nq))
    assert np.abs(system.step(x, system.quasi_static(x)) - x).max() < 1e-12


def test_actuators_are_controls_with_names_and_limits():
    model = elastic_pendulum()
    system = RigidBodySystem(model, 0.01, actuation="model")
    assert system.control_names == ("drive",)
    bounds = trajopt.ControlBounds.from_model(system)
    assert (bounds.lower, bounds.upper) == (pytest.approx([-0.3]), pytest.approx([0.5]))
    again = builder_of(model).build()
    assert again.springs == model.springs and again.actuators == model.actuators


def test_a_rotor_behind_a_gear_is_armature():
    builder = ModelBuilder()
    builder.add_body("rod", "world", Revolute("y"), mass=1.0, com=(0.0, 0.0, -1.0), armature=0.2)
    builder.add_actuator("drive", {"rod_joint": -GEAR}, rotor_inertia=ROTOR)
    assert builder.build().armature == pytest.approx([0.2 + GEAR**2 * ROTOR])
    assert builder_of(builder.build()).build().armature == pytest.approx([0.2 + GEAR**2 * ROTOR])
    for inertia in (-1.0, np.nan):
        with pytest.raises(ValueError, match="actuator 'b': rotor_inertia"):
            builder.add_actuator("b", {"rod_joint": 1.0}, rotor_inertia=inertia)


def test_a_locked_joint_holds_its_end_of_a_spring():
    """The rotor locked at 20 rad leaves the rod with a spring of its own that is slack at 20/50 - 0.1 rad."""
    model = elastic_pendulum().locked({"motor": 20.0})
    assert model.actuators == ()
    system = RigidBodySystem(model, 0.01)
    u = system.quasi_static(system.state([0.7]))
    assert u == pytest.approx([9.81 * np.sin(0.7) - STIFFNESS * (20.0 / GEAR - 0.1 - 0.7)])
    assert elastic_pendulum().locked({"joint": 0.0}).actuators[0].name == "drive"


def test_names_get_prefixes():
    model = dynamics.combine({"a": elastic_pendulum(), "b": elastic_pendulum()})
    assert [each.name for each in model.actuators] == ["a/drive", "b/drive"]
    assert [dict(each.joints) for each in model.springs] == [
        {"a/motor": 1.0 / GEAR, "a/joint": -1.0}, {"b/motor": 1.0 / GEAR, "b/joint": -1.0}
    ]  # fmt: skip


def test_bad_springs_and_actuators():
    builder = ModelBuilder()
    builder.add_body("ball", "world", dynamics.FreeFlyer(), mass=1.0, inertia=np.eye(3))
    builder.add_body("slider", "ball", Prismatic("x"), mass=1.0)
    builder.add_actuator("motor", {"slider_joint": 2.0})
    cases = [
        (lambda: builder.add_spring({"slider": 1.0}, 1.0), "got 'slider', expected .*; did you mean 'slider_joint'"),
        (lambda: builder.add_spring({"ball_joint": 1.0}, 1.0), "'ball_joint' is FreeFlyer, expected one degree"),
        (lambda: builder.add_spring({"slider_joint": 1.0}, -1.0), "spring: stiffness: got -1"),
        (lambda: builder.add_spring({"slider_joint": 1.0}, 1.0, damping=-1.0), "spring: damping: got -1"),
        (lambda: builder.add_spring({"slider_joint": 1.0}, np.nan), "spring: stiffness"),
        (lambda: builder.add_spring({"slider_joint": 0.0}, 1.0), "at least one joint with a ratio other than zero"),
        (lambda: builder.add_spring({}, 1.0), "at least one joint"),
        (lambda: builder.add_actuator("motor", {"slider_joint": 1.0}), "already is a actuator 'motor'"),
        (lambda: builder.add_actuator("m", {"slider_joint": 1.0}, 1.0, 0.0), "lower: got 1.0, above upper"),
        (lambda: builder.add_actuator("", {"slider_joint": 1.0}), "nonempty string"),
        (lambda: RigidBodySystem(load_reference("ur5")[0], 0.01, actuation="model"), "expected a model with actuators"),
    ]
    for call, words in cases:
        with pytest.raises(ValueError, match=words):
            call()
    with pytest.raises(TypeError, match="joints: got list, expected a mapping"):
        builder.add_spring(["slider_joint"], 1.0)
