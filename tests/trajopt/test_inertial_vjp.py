"""Gradients of functions of solutions by all inertial parameters: against problems of other robots, refused traps."""

from dataclasses import replace

import numpy as np
import pytest

import dynamics
import problems
import trajopt
from experiments.sensitivity.cases import CASES
from experiments.sensitivity.inertial import chain, errors, measure
from experiments.sensitivity.references import polished_solution
from problems.quadruped_model import walker
from tests.tolerances import relative_error
from trajopt.capabilities import Expansions, capability
from trajopt.problem.parametric import read_dynamics


def solved(problem):
    return polished_solution(problem, trajopt.DDP().solve(problem))


def test_a_chain_of_links():
    found = errors(3)
    assert found["generic"] < 1e-8 and found["solved again"] < 1e-9


def test_what_the_experiment_measures():
    found = measure(2, rounds=3)
    assert found["parameters"] == 20 and found["iterations"] > 0.0 and found["errors"]["solved again"] < 1e-8


@pytest.mark.parametrize("name", ["mass", "inertia"])
def test_clamped_thrusts_on_a_floating_base(name, rng):
    """By numbers that move the parameters, chained by hand, against derivatives by these numbers."""
    case = CASES["quadrotor"]
    solution = solved(case.make(case.p))
    xs_bar, us_bar = rng.standard_normal((76, 12)), rng.standard_normal((75, 4))
    gradient = solution.inertial_vjp(xs_bar, us_bar, 3.0)
    h = 1e-3 * case.p[name]
    there, back = (dynamics.inertial_parameters(case.make({**case.p, name: case.p[name] + d}).system.model)
                   for d in (h, -h))  # fmt: skip
    chained = (gradient * (there - back)).sum() / (2.0 * h)
    expected = trajopt.sensitivity(case.make, case.p, solution, wrt=[name]).vjp(xs_bar, us_bar, 3.0)[name]
    assert chained == pytest.approx(expected, rel=1e-7)


def test_a_robot_on_its_feet(rng):
    """Contacts, whose forces follow the masses, and a floating base: the weight of the trunk."""
    robot, dt = walker(), 0.01
    pi = dynamics.inertial_parameters(robot.model)
    heavier = np.zeros_like(pi)
    heavier[0] = pi[0]
    own = robot.stance(dt)

    def make(p):
        model = dynamics.with_inertial_parameters(robot.model, pi + float(p) * heavier)
        system = own.with_model(model)
        start = system.state(robot.standing)
        lower = system.integrate(start, np.r_[0.0, 0.0, -0.02, np.zeros(2 * model.nv - 3)])
        costs = [trajopt.StateCost(system, start, np.repeat([1.0, 1e-2], model.nv)), trajopt.ControlCost(1e-3)]
        rest = [trajopt.StateCost(system, lower, np.repeat([1e2, 1.0], model.nv))]
        return trajopt.Problem(system, start, 20, costs, rest, us_init="quasi_static")

    solution = solved(make(0.0))
    xs_bar, us_bar = rng.standard_normal((21, 36)), rng.standard_normal((20, 12))
    expected = trajopt.sensitivity(make, 0.0, solution).vjp(xs_bar, us_bar, 1.0)
    assert (solution.inertial_vjp(xs_bar, us_bar, 1.0) * heavier).sum() == pytest.approx(expected, rel=1e-7)


def test_of_the_cost_alone():
    """The envelope theorem: no sweep, and the same as together with others."""
    make, pi = chain(2)
    solution = solved(make(pi))
    of_cost = solution.inertial_vjp(cost_bar=1.0)
    us_bar = np.ones_like(solution.us)
    both, of_controls = solution.inertial_vjp(us_bar=us_bar, cost_bar=2.0), solution.inertial_vjp(us_bar=us_bar)
    assert relative_error(both, 2.0 * of_cost + of_controls) < 1e-12
    found = trajopt.sensitivity(make, pi, solution, steps=1e-4).cost.reshape(2, 10)
    assert relative_error(of_cost, found) < 1e-8
    assert not solution.inertial_vjp().any()


@pytest.mark.parametrize("wrap", ["rates", "durations"])
def test_systems_around_a_robot(wrap, rng):
    """What a longer state adds depends on no masses."""
    make, pi = chain(2)

    def wrapped(p):
        one = make(p)
        if wrap == "durations":
            return trajopt.with_free_durations(one, 1.0)
        system = trajopt.ControlRateSystem(one.system)
        costs = [*map(system.lift, one.running_costs), trajopt.ControlRateCost(system, 1e-4)]
        return trajopt.Problem(
            system, system.state(one.x0), one.horizon, costs, [system.lift(one.terminal_costs[0])], us_init=one.us_init
        )

    solution = solved(wrapped(pi))
    us_bar = rng.standard_normal(solution.us.shape)
    expected = trajopt.sensitivity(wrapped, pi, solution, steps=1e-4).vjp(us_bar=us_bar).reshape(2, 10)
    assert relative_error(solution.inertial_vjp(us_bar=us_bar), expected) < 1e-6


# ------------------------------------------------------------------------------------------------ what is refused
def test_terms_that_weigh_the_robot():
    """Each of the library's residuals that reads masses says so, and no other."""
    robot = dynamics.load_urdf(problems.model_path("arm6"))
    heavy = dynamics.with_inertial_parameters(robot, 2.0 * dynamics.inertial_parameters(robot))
    heavy = heavy.with_body("load", "tool", mass=3.0)  # the centre moves, too
    rng = np.random.default_rng(0)
    xs, us = rng.standard_normal((3, 12)), rng.standard_normal((3, 6))

    def terms(model):
        system = dynamics.RigidBodySystem(model, 0.01)
        inside = dynamics.JointAccelerationSystem(model, 0.01)
        return [
            dynamics.CenterOfMass(model, np.zeros(3)), dynamics.CentroidalMomentum(model),
            dynamics.ControlGravity(model), dynamics.JointTorques(inside),
            dynamics.FrameTranslation(model, "tool", np.zeros(3)),
            dynamics.FramePlacement(model, "tool", (np.eye(3), np.zeros(3))),
            dynamics.FrameRotation(model, "tool", np.eye(3)), dynamics.FrameVelocity(model, "tool", np.zeros(6)),
            trajopt.StateResidual(system, np.zeros(12)), trajopt.ControlResidual(system, np.zeros(6)),
            trajopt.AccelerationBounds(system, -1.0, 1.0).residual,
        ]  # fmt: skip

    system = dynamics.RigidBodySystem(robot, 0.01)
    for one, other in zip(terms(robot), terms(heavy), strict=True):
        changes = not np.array_equal(one.evaluate(xs, us), other.evaluate(xs, us))
        problem = trajopt.Problem(system, np.zeros(12), 3)
        object.__setattr__(problem, "constraints", (trajopt.ResidualConstraint(one, -1.0, 1.0),))
        assert (read_dynamics(problem) is not None) == changes, one


def test_jerks_are_of_accelerations():
    """And these of masses, in costs and in limits."""
    system = trajopt.JerkSystem(dynamics.RigidBodySystem(dynamics.load_urdf(problems.model_path("arm6")), 0.01))
    start, cost = np.zeros(18), trajopt.ResidualCost(trajopt.JerkResidual(system), 1e-6)
    limits = trajopt.JerkBounds(system, -1e4, 1e4)
    assert read_dynamics(trajopt.Problem(system, start, 3, [cost])) == "jerks"
    assert read_dynamics(trajopt.Problem(system, start, 3, constraints=[limits])) == limits.name
    assert read_dynamics(trajopt.Problem(system, start, 3, [trajopt.ControlCost(1.0)])) is None


def test_a_robot_in_friction_cones_is_refused():
    case = CASES["quadruped_stand"]
    problem = case.make(case.p)
    assert read_dynamics(problem) == "centre of mass"
    with pytest.raises(ValueError, match="whose centre of mass depends on the inertial parameters"):
        trajopt.DDP().solve(problem).inertial_vjp(cost_bar=1.0)


def test_bad_input():
    unicycle = CASES["unicycle"]
    problem = unicycle.make(unicycle.p)
    assert capability(problem.system, Expansions).parameter_gradient is None
    with pytest.raises(TypeError, match="got one of a CallableSystem, which has no gradient by inertial parameters"):
        trajopt.DDP().solve(problem).inertial_vjp(cost_bar=1.0)
    make, pi = chain(2)
    solution = trajopt.DDP().solve(make(pi))
    with pytest.raises(ValueError, match="us_bar: got shape"):
        solution.inertial_vjp(us_bar=np.zeros(3))
    with pytest.raises(ValueError, match="cost_bar: got NaN"):
        solution.inertial_vjp(cost_bar=np.nan)
    with pytest.raises(ValueError, match="status 'max_iterations', expected a converged one"):
        trajopt.DDP(max_iterations=1).solve(make(pi)).inertial_vjp(cost_bar=1.0)
    with pytest.raises(ValueError, match="got one without its problem"):
        replace(solution, problem=None).inertial_vjp()
