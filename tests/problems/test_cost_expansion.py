"""The second-order model of the total cost along a trajectory, J(u + h d) against J + h g'd + h^2/2 d'Hd.

The gradient g comes from the costate.  H acts on a direction through the linear rollout of the perturbation,

    dx_{t+1} = fx dx_t + fu d_t,      d'Hd = sum_t [dx; d]' (l'' + lam_{t+1}.f'') [dx; d]  +  dx_N' l_N'' dx_N,

with l'' and f'' in exponential coordinates at each knot.  With exact curvature the model's error falls as h^3; without
the curvature of dynamics and residuals, as h^2.
"""

from typing import NamedTuple

import numpy as np
import pytest

import dynamics
import problems
import trajopt
from tests.reference.rigid_body_models import load_reference
from trajopt.backward.expansions import adjoint, cost_curvature, expand, total_cost

DIRECTIONS = 8


STEPS = 0.5 ** np.arange(4)
"""Steps h relative to the first."""


class Case(NamedTuple):
    """A trajectory, whether it is optimal, and the first steps h for the exact and the Gauss-Newton model.

    The second must be small enough for h^3 to have died out beside what the Gauss-Newton model leaves of h^2.
    """

    problem: trajopt.Problem
    us: np.ndarray
    optimal: bool
    exact_step: float = 0.1
    gauss_newton_step: float = 0.02


class SecondOrder(NamedTuple):
    """Dynamics F and the Hessians of the knots, of costs and contracted dynamics; lxx has a terminal knot."""

    fx: np.ndarray
    fu: np.ndarray
    lxx: np.ndarray
    lux: np.ndarray
    luu: np.ndarray


def quadruped_problem():
    """A HyQ-like floating base, twelve motors, tumbling through the air for 0.3 s."""
    model, data = load_reference("hyq")
    system = dynamics.RigidBodySystem(model, 0.02, actuation="floating_base")
    x0, target = system.state(data["q"][0], 0.5 * data["v"][0]), system.state(data["q"][1])
    foot = [0.3, 0.2, -0.5]
    R, p = dynamics.frame_placement(model, data["q"][2], "trunk")
    falling = dynamics.center_of_mass(model, data["q"][0]) - [0.0, 0.0, 0.4]
    running = [
        trajopt.StateCost(system, target, np.r_[np.full(18, 0.5), np.full(18, 0.05)]),
        trajopt.ControlCost(1e-3),
        trajopt.ResidualCost(dynamics.FrameTranslation(model, "lf_foot", foot), 5.0),
        trajopt.ResidualCost(dynamics.FrameVelocity(model, "rh_foot"), 0.1),
    ]
    terminal = [
        trajopt.ResidualCost(dynamics.FramePlacement(model, "trunk", (R, p)), 2.0),
        trajopt.ResidualCost(dynamics.CenterOfMass(model, falling), 10.0),
        trajopt.StateCost(system, target, np.r_[np.full(18, 1.0), np.full(18, 0.1)]),
    ]
    return trajopt.Problem(system, x0, 15, running, terminal, name="quadruped")


def zoo_problem(integrator="semi_implicit_euler"):
    """Every joint type in one tree, a torque for every degree of freedom."""
    model, data = load_reference("joint_zoo")
    n = model.nv
    system = dynamics.RigidBodySystem(model, 0.02, integrator)
    x0, target = system.state(data["q"][0], 0.5 * data["v"][0]), system.state(data["q"][1])
    tip = model.frame_names[-1]
    R, p = dynamics.frame_placement(model, data["q"][2], tip)
    running = [
        trajopt.StateCost(system, target, np.r_[np.full(n, 0.5), np.full(n, 0.05)]),
        trajopt.ControlCost(1e-3),
        trajopt.ResidualCost(dynamics.FrameTranslation(model, tip, p), 1.0),
    ]
    terminal = [
        trajopt.ResidualCost(dynamics.FramePlacement(model, tip, (R, p)), 2.0),
        trajopt.ResidualCost(dynamics.CenterOfMass(model, np.zeros(3)), 1.0),
    ]
    us = np.tile(dynamics.gravity_forces(model, data["q"][0]), (15, 1))
    return trajopt.Problem(system, x0, 15, running, terminal, us_init=us, name="zoo")


def optimum(problem):
    """Controls of the solution, to the rounding of the gradient."""
    solution = trajopt.DDP(tolerance=1e-18).solve(problem)
    assert solution.converged
    return solution.us


CASES = {
    "arm": lambda: Case(problems.make("arm"), optimum(problems.make("arm")), True, 5e-3, 4e-5),
    "quadruped": lambda: Case(quadruped_problem(), optimum(quadruped_problem()), True),
    "zoo": lambda: Case(zoo_problem(), optimum(zoo_problem()), True),
    "quadruped, not optimal": lambda: Case(quadruped_problem(), quadruped_problem().us_init, False),
    "zoo, rk4, not optimal": lambda: Case(zoo_problem("rk4"), zoo_problem().us_init, False),
}


@pytest.fixture(scope="module", params=CASES)
def case(request):
    """Each case, solved once."""
    return CASES[request.param]()


def directions(problem, rng):
    """Changes of the controls (D, N, nu): white noise of joint accelerations of 1, in torques."""
    system = problem.system
    M = dynamics.mass_matrix(system.model, problem.x0[: system.nq])
    noise = rng.standard_normal((DIRECTIONS, problem.horizon, system.nv))
    return noise @ M @ system.actuation.B


def second_order(problem, xs, us, exact):
    """The costate's gradient, and H with or without the curvature of dynamics and residuals."""
    e = expand(problem, xs, us)
    costate, gradient = adjoint(e)
    lxx, lux, luu = e.lxx.copy(), e.lux.copy(), e.luu.copy()
    if exact:
        for into, H in zip((lxx, lux, luu), cost_curvature(problem, xs, us), strict=True):
            into += H
        Hxx, Hux, Huu = problem.system.hessian_products(xs, us, np.ascontiguousarray(costate[1:]))
        lxx[:-1] += Hxx
        lux += Hux
        luu += Huu
    return gradient, SecondOrder(e.fx, e.fu, lxx, lux, luu)


def quadratic_form(H, d):
    """d'Hd (D,) of directions d (D, N, nu)."""
    dx = np.zeros((len(d), H.fx.shape[1]))
    total = np.zeros(len(d))
    for t in range(len(H.fx)):
        du = d[:, t]
        total += np.einsum("di,ij,dj->d", dx, H.lxx[t], dx) + 2.0 * np.einsum("di,ij,dj->d", du, H.lux[t], dx)
        total += np.einsum("di,ij,dj->d", du, H.luu[t], du)
        dx = dx @ H.fx[t].T + du @ H.fu[t].T
    return total + np.einsum("di,ij,dj->d", dx, H.lxx[-1], dx)


def model_errors(case, rng, exact):
    """RMS error of the model over the directions at each step, and the rounding of a cost."""
    problem, us = case.problem, case.us
    xs = problem.system.rollout(problem.x0, us)
    cost = total_cost(problem, xs, us)
    gradient, H = second_order(problem, xs, us, exact)
    d = directions(problem, rng)
    slope, curvature = np.einsum("dtj,tj->d", d, gradient), quadratic_form(H, d)
    errors = []
    for h in (case.exact_step if exact else case.gauss_newton_step) * STEPS:
        moved = us + h * d
        costs = np.array([total_cost(problem, problem.system.rollout(problem.x0, u), u) for u in moved])
        errors.append(np.sqrt(np.mean((costs - cost - h * slope - 0.5 * h**2 * curvature) ** 2)))
    return np.array(errors), np.finfo(float).eps * cost


def slopes(errors):
    """Slope on a log-log plot between neighbouring steps."""
    return np.log2(errors[:-1] / errors[1:])


def test_exact_model_is_of_third_order(case, rng):
    errors, rounding = model_errors(case, rng, exact=True)
    assert errors[-1] > 100 * rounding
    np.testing.assert_allclose(slopes(errors), 3.0, atol=0.1)


def test_gauss_newton_model_is_of_second_order(case, rng):
    errors, rounding = model_errors(case, rng, exact=False)
    assert errors[-1] > 100 * rounding
    np.testing.assert_allclose(slopes(errors), 2.0, atol=0.1)


def test_the_optimum_has_no_slope_and_positive_curvature(case, rng):
    """So that the model is the expansion at a minimum where a case says so, and has a first-order term elsewhere."""
    xs = case.problem.system.rollout(case.problem.x0, case.us)
    gradient, H = second_order(case.problem, xs, case.us, exact=True)
    assert (np.abs(gradient).max() < 1e-8) == case.optimal
    if case.optimal:
        assert (quadratic_form(H, directions(case.problem, rng)) > 0).all()
