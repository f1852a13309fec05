"""Every wrapper around every kind of system answers all that may be asked of a solution, or says why not."""

import copy
import pickle
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

import dynamics
import trajopt
from dynamics import rods
from problems.quadruped_model import FEET, quadruped, standing
from trajopt.interfaces import stepwise
from trajopt.problem import extended_system

pytestmark = pytest.mark.filterwarnings("ignore::trajopt.SlowDynamicsWarning", "ignore::RuntimeWarning")

KNOTS = 10


def hangs(x, u):
    """A pendulum."""
    return x[1], u[0] - 9.81 * np.sin(x[0])


def looks_up(x, u):
    """The same, which takes no symbols."""
    return np.array([x[1], u[0] - 9.81 * np.sin(float(x[0]))])


def steps(x, u):
    """The same in steps of 50 ms."""
    w = x[1] + 0.05 * (u[0] - 9.81 * np.sin(x[0]))
    return x[0] + 0.05 * w, w


@cache
def pendulum():
    builder = dynamics.ModelBuilder()
    builder.add_body("rod", "world", dynamics.Continuous("y"), mass=1.0, com=[0.0, 0.0, -0.5])
    return builder.build()


@cache
def floating():
    builder = dynamics.ModelBuilder()
    builder.add_body("base", "world", dynamics.FreeFlyer(), mass=1.0, inertia=0.01 * np.eye(3))
    return builder.build()


def mimic():
    builder = dynamics.ModelBuilder()
    builder.add_body("rod", "world", dynamics.Revolute("y"), "rod", mass=1.0, com=[0.0, 0.0, -0.5])
    builder.add_body("tip", "rod", dynamics.Revolute("y"), "tip", mass=0.5, com=[0.0, 0.0, -0.2])
    builder.add_mimic("tip", "rod", 0.5)
    return dynamics.RigidBodySystem(builder.build(), 0.05)


def soft():
    builder = rods.RodModelBuilder()
    rubber = rods.Elastic(young=1e6, poisson=0.5, density=1000.0, viscosity=1e4)
    basis = rods.LegendreBasis(bending_y=1, stretch=0)
    builder.add_rod("arm", "world", 0.4, rods.Circular(0.025, 0.018), rubber, basis)
    robot = rods.SoftRobot(builder.build(), [rods.Tendon.straight("arm", 0.0, 0.015)])
    return dynamics.SoftRobotSystem(robot, dt=0.02)


def in_phases():
    robot = quadruped()
    others = [foot for foot in FEET if foot != "rf_foot"]
    return dynamics.HybridSystem(robot, 0.01, [("stance", FEET, 3), ("step", others, 3), ("landing", FEET, 3)])


def of_function(**how):
    return trajopt.CallableSystem(nx=2, nu=1, dt=0.05, **how)


SYSTEMS = {
    "rigid, Euler": lambda: dynamics.RigidBodySystem(pendulum(), 0.05),
    "rigid, RK4": lambda: dynamics.RigidBodySystem(pendulum(), 0.05, integrator="rk4"),
    "rigid, inverse": lambda: dynamics.RigidBodySystem(pendulum(), 0.05, formulation="inverse"),
    "accelerations": lambda: dynamics.JointAccelerationSystem(pendulum(), 0.05),
    "floating": lambda: dynamics.RigidBodySystem(floating(), 0.05, actuation=np.eye(6)),
    "phases": in_phases,
    "soft": soft,
    "xdot": lambda: of_function(xdot=hangs),
    "xdot, semi-implicit": lambda: of_function(xdot=hangs, integrator="semi_implicit_euler"),
    "xdot by differences": lambda: of_function(xdot=looks_up, derivatives="finite_differences"),
    "step": lambda: of_function(step=steps),
}

WRAPPERS = {
    "none": lambda system, N: system,
    "rate": lambda system, N: trajopt.ControlRateSystem(system),
    "jerk": lambda system, N: trajopt.JerkSystem(system),
    "rate of jerk": lambda system, N: trajopt.ControlRateSystem(trajopt.JerkSystem(system)),
    "free": lambda system, N: trajopt.FreeDurationSystem(system, N),
    "free, no limits": lambda system, N: trajopt.FreeDurationSystem(system, N),
    "rate of free": lambda system, N: trajopt.ControlRateSystem(trajopt.FreeDurationSystem(system, N)),
}

NO = {
    ("rigid, inverse", "rate"), ("rigid, inverse", "jerk"), ("rigid, inverse", "rate of jerk"),
    ("rigid, inverse", "free"), ("rigid, inverse", "free, no limits"), ("rigid, inverse", "rate of free"),
    ("step", "jerk"), ("step", "rate of jerk"), ("step", "free"), ("step", "free, no limits"), ("step", "rate of free"),
    ("soft", "free"), ("soft", "free, no limits"), ("soft", "rate of free"),
    *((name, kind) for name in ("xdot", "xdot by differences") for kind in ("jerk", "rate of jerk")),
}  # fmt: skip
"""Pairs that are refused: rates of what is no torque, velocities that a system does not name, steps of one duration."""


def first_state(name, system):
    if name == "phases":
        return system.state(standing())
    return getattr(system, "neutral_state", np.zeros(system.nx))


def lifted(outer, term, inner):
    return term if outer is inner else outer.lift(lifted(outer.system, term, inner))


def state_of(outer, x, inner):
    return x if outer is inner else outer.state(state_of(outer.system, x, inner))


@cache
def solved(name, kind):
    inner = SYSTEMS[name]()
    knots = getattr(inner, "horizon", KNOTS)
    outer = WRAPPERS[kind](inner, knots)
    x = first_state(name, inner)
    goal = inner.integrate(x, np.full(inner.ndx, 0.1 if name != "phases" else 0.0))
    costs = [lifted(outer, trajopt.StateCost(inner, goal, 1.0), inner), trajopt.ControlCost(0.1)]
    limits = []
    if kind == "free":
        limits = [outer.duration_bounds()]
    problem = trajopt.Problem(
        outer, state_of(outer, x, inner), getattr(outer, "horizon", knots), costs,
        [lifted(outer, trajopt.StateCost(inner, x, 10.0), inner)], limits,
        us_init="quasi_static" if name == "phases" and kind in ("none", "free") else None,
    )  # fmt: skip
    return trajopt.DDP(max_iterations=30).solve(problem)


def roundtrip_system(solution, folder):
    again = pickle.loads(pickle.dumps(solution.problem.system))
    us = solution.us
    assert np.array_equal(again.rollout(solution.xs[0], us), solution.problem.system.rollout(solution.xs[0], us))


def file(solution, folder):
    solution.save(folder / "s.npz")
    assert np.array_equal(trajopt.Solution.load(folder / "s.npz", solution.problem).xs, solution.xs)


def steps_of_feedback(solution, folder):
    controller = trajopt.DDP(max_iterations=1).prepare(solution.problem)
    return controller.prepare_step(solution.xs[0], warm_start=solution)(solution.xs[0])


QUESTIONS = {
    "explain": lambda solution, folder: solution.explain(),
    "discretization_error": lambda solution, folder: solution.discretization_error(),
    "violation_between_knots": lambda solution, folder: solution.violation_between_knots(),
    "policy": lambda solution, folder: solution.policy()(0.003, solution.xs[0]),
    "policy that holds": lambda solution, folder: solution.policy(hold=True)(0.003, solution.xs[0]),
    "resample": lambda solution, folder: solution.resample(0.01),
    "simulate": lambda solution, folder: trajopt.simulate(solution, dt=0.01),
    "certificate": lambda solution, folder: solution.certificate(),
    "dx0": lambda solution, folder: solution.dx0(),
    "vjp": lambda solution, folder: solution.vjp(us_bar=solution.us),
    "covariance": lambda solution, folder: solution.covariance(1e-4 * np.eye(solution.problem.system.ndx)),
    "file": file,
    "pickle": lambda solution, folder: pickle.loads(pickle.dumps(solution)),
    "pickle of the system": roundtrip_system,
    "copy": lambda solution, folder: copy.deepcopy(solution),
    "csv": lambda solution, folder: solution.to_csv(folder / "plan.csv", dt=0.01),
    "message": lambda solution, folder: solution.to_trajectory_msg(dt=0.01),
    "prepared": lambda solution, folder: (
        trajopt.DDP(max_iterations=1).prepare(solution.problem).solve(solution.xs[0], warm_start=solution)
    ),
    "prepare_step": steps_of_feedback,
    "shifted": lambda solution, folder: solution.shifted(),
    "texts": lambda solution, folder: (repr(solution), repr(solution.problem), str(solution.problem.system)),
    "check_derivatives": lambda solution, folder: trajopt.check_derivatives(
        solution.problem.system, solution.xs[:-1], solution.us
    ),
    "plot": lambda solution, folder: trajopt.plot_trajectory(solution, folder / "plan.png"),
}
ALWAYS = set(QUESTIONS) & {
    "explain", "file", "pickle", "pickle of the system", "copy", "shifted", "texts", "prepared", "check_derivatives",
}  # fmt: skip


OF_SYSTEMS = {"pickle of the system", "check_derivatives"}
"""Questions whose answers do not depend on the problem."""


@pytest.mark.parametrize("name, kind", sorted(NO))
def test_what_is_refused_says_why(name, kind):
    with pytest.raises((TypeError, ValueError), match=r"^system: (got \w+.*expected|\w+ does not say which numbers)"):
        WRAPPERS[kind](SYSTEMS[name](), KNOTS)


@pytest.mark.parametrize("name", SYSTEMS)
@pytest.mark.parametrize("kind", WRAPPERS)
def test_every_question_has_an_answer(name, kind, tmp_path):
    if (name, kind) in NO:
        return
    answers(solved(name, kind), tmp_path)


@pytest.mark.parametrize("kind", ["none", "rate", "free"])
@pytest.mark.parametrize("name", [name for name in SYSTEMS if name != "rigid, inverse"])
def test_motions_that_repeat_answer_too(name, kind, tmp_path):
    """The initial state is free, and tied to the end, of what of the system says that it moves."""
    if (name, kind) in NO:
        return
    given = solved(name, kind).problem
    again = trajopt.Periodic(given.system)
    problem = replace(given, constraints=[*given.constraints, again], free_initial_state=True)
    solution = trajopt.DDP(max_iterations=30).solve(problem)
    assert solution.xs.shape[1] == given.system.nx and len(solution.us) == given.horizon
    assert solution.problem.system is given.system
    answers(solution, tmp_path, set(QUESTIONS) - OF_SYSTEMS)


def answers(solution, tmp_path, questions=frozenset(QUESTIONS)):
    """Every question is answered, or refused with a reason."""
    for question in sorted(questions):
        try:
            QUESTIONS[question](solution, tmp_path)
        except (TypeError, ValueError) as error:
            assert question not in ALWAYS, f"{question}: {error}"
            assert " got " in f" {error}" or " has no " in f"{error}", f"{question}: {error}"
        except Exception as error:
            raise AssertionError(f"{question}: {type(error).__name__}: {error}") from error


def test_plans_that_go_back_in_time_are_told():
    solution = solved("xdot", "free, no limits")
    assert (solution.xs[1:, -1] < 0.0).all()
    with pytest.raises(ValueError, match=r"solution: got a plan whose knot \d+ takes -\S+ s, .*duration_bounds"):
        solution.policy()
    assert "add system.duration_bounds() to the constraints" in solution.explain()
    assert "duration_bounds" not in solved("xdot", "free").explain()


@pytest.mark.parametrize("gapped", [False, True])
@pytest.mark.parametrize("kind", ["rate", "jerk", "rate of jerk"])
@pytest.mark.parametrize(
    "name", ["rigid, RK4", "accelerations", "floating", "phases", "mimic", "soft", "xdot, semi-implicit"]
)
def test_closed_loops_that_remember_are_those_inside(name, kind, gapped, rng, monkeypatch):
    """Feedback to what is remembered is feedback to the knot before in the compiled rollouts of the system inside, also
    where a trajectory does not keep to the dynamics; oracle: single steps."""
    inner = mimic() if name == "mimic" else SYSTEMS[name]()
    N = getattr(inner, "horizon", 5)
    outer = WRAPPERS[kind](inner, N)
    z0 = state_of(outer, first_state(name, inner), inner)
    us = 0.1 * rng.standard_normal((N, outer.nu))
    xs = outer.integrate(outer.rollout(z0, us), 0.01 * rng.standard_normal((N + 1, outer.ndx)))
    start = outer.integrate(z0, 0.01 * rng.standard_normal(outer.ndx))
    k, K = 0.1 * rng.standard_normal((N, outer.nu)), 0.1 * rng.standard_normal((N, outer.nu, outer.ndx))
    alphas, gaps = np.array([1.0, 0.5, 0.25]), None
    if gapped:
        gaps = 0.01 * rng.standard_normal((N + 1, outer.ndx))
    ends = np.full((N, outer.nu), 0.15)
    shift, pull = rng.standard_normal(3), 0.1 * rng.standard_normal((N, outer.nu))
    loop = start, xs, us, k, K, alphas, gaps, -ends, ends, shift, pull
    wanted = stepwise.closed_loop_by_steps(outer, *loop)
    monkeypatch.setattr(extended_system, "closed_loop_by_steps", None)
    for got, expected in zip(outer.closed_loop_rollout(*loop), wanted, strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-9, atol=1e-11)
