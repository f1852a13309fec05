"""Soft robots in discrete time: steps, rollouts, and expansions against complex steps of the same kernels."""

import numpy as np
import pytest

from dynamics.model.joints import FreeFlyer, Prismatic, Revolute, Spherical
from dynamics.rods.algorithms.closed_chains import assemble, closure_error, closure_jacobian
from dynamics.rods.loads.contacts import PlaneContact
from dynamics.rods.robot.builder import RodModelBuilder
from dynamics.rods.robot.soft_robot import SoftRobot
from dynamics.rods.stepping.simulation import simulate
from dynamics.rods.stepping.soft_steps import GAMMA, INTEGRATORS
from dynamics.rods.stepping.soft_system import SoftRobotSystem
from tests.reference.prepared import PreparedSystem, replay
from tests.reference.robot_systems import slope
from tests.reference.rod_robots import ROBOTS, manipulator
from tests.reference.soft_systems import complex_step_derivatives
from tests.tolerances import COMPLEX_STEP, IDENTITY, SLOPE, relative_error
from trajopt import DDP, ControlCost, Problem, StateCost

DT = {name: 1e-3 if name == "newmark" else 0.01 for name in INTEGRATORS}
"""Newmark's first acceleration is that of the state, which far from equilibrium is large."""
NEWTON = 1e-8
"""Of residuals at solutions, relative to their terms: what Newton's tolerance leaves, times a stiffness."""


@pytest.fixture(params=ROBOTS)
def robot(request):
    return ROBOTS[request.param]()


@pytest.fixture(params=INTEGRATORS)
def system(request, robot):
    return SoftRobotSystem(robot, DT[request.param], request.param)


def random_knots(system: SoftRobotSystem, rng: np.random.Generator, count: int):
    """Moderate states, and tensions and torques."""
    return 0.1 * rng.normal(size=(count, system.nx)), rng.uniform(0.0, 3.0, (count, system.nu))


# ------------------------------------------------------------------------------------------------ motion
def test_prepared_functions_are_calls(system, rng):
    """And find what the methods do, to the last bit; states with charts have derivatives that are no calls."""
    xs, us = random_knots(system, rng, 4)
    if system.euclidean:
        PreparedSystem(system, xs, us[:-1], rng, 1e-3).check()
        return
    following = np.zeros((4, system.nx))
    step = system.prepared_steps(xs, us, following)
    assert replay(step) and np.array_equal(following, system.step(xs, us))


def test_the_equations_of_a_step(system, rng):
    """Each method's residual vanishes at the accelerations that the step implies."""
    xs, us = random_knots(system, rng, 5)
    robot, h, n = system.robot, system.dt, system.nv
    if system.integrator == "extrapolated_euler":
        whole, half = (SoftRobotSystem(robot, h / k, "semi_implicit_euler") for k in (1, 2))
        expected = 2.0 * half.step(half.step(xs, us), us) - whole.step(xs, us)
        assert relative_error(system.step(xs, us), expected) < IDENTITY
        return
    (q, v), (q_next, v_next) = np.split(xs, 2, axis=1), np.split(system.step(xs, us), 2, axis=1)
    if system.integrator == "newmark":
        a0 = robot.forward_dynamics(q, v, us)
        a1 = 2.0 * (v_next - v) / h - a0
        state, r = (q_next, v_next, a1), robot.residual(q_next, v_next, a1, us)
        assert relative_error(q_next, q + h * v + 0.25 * h * h * (a0 + a1)) < IDENTITY
    elif system.integrator == "implicit_midpoint":
        state = 0.5 * (q + q_next), 0.5 * (v + v_next), (v_next - v) / h
        r = robot.residual(*state, us)
        assert relative_error(q_next, q + 0.5 * h * (v + v_next)) < IDENTITY
    elif system.integrator == "sdirk2":  # from the two equations of the step for its two accelerations
        g = (1.0 - np.sqrt(0.5)) * h
        a = np.stack([q_next - q - h * v, v_next - v]).reshape(2, -1)
        first, last = (x.reshape(q.shape) for x in np.linalg.solve([[2 * g * (h - g), g * g], [h - g, g]], a))
        state, r = (q_next, v_next, last), robot.residual(q_next, v_next, last, us)
        start = q + g * v + g * g * first, v + g * first, first
        terms = np.abs(robot.residual_derivatives(*start, us).M @ first[..., None]).max()
        assert np.abs(robot.residual(*start, us)).max() < NEWTON * terms
    else:
        K, D = robot.model.stiffness, robot.model.damping
        state = q, v, (v_next - v) / h
        r = robot.residual(*state, us) + (q_next - q) @ K + (v_next - v) @ D
        assert relative_error(q_next, q + h * v_next) < IDENTITY
    terms = np.abs(robot.residual_derivatives(*state, us).M @ state[2][..., None]).max()
    assert np.abs(r).max() < NEWTON * terms
    assert n == robot.nq


@pytest.mark.parametrize("integrator", INTEGRATORS)
def test_order_of_the_methods(integrator):
    """From rest the error of the state after 0.08 s falls as h or, of the implicit methods, as h^2."""
    robot = manipulator()
    u = np.full(robot.nu, 4.0)
    exact = simulate(robot, 0.08, lambda t: u, method="radau", rtol=1e-9, atol=1e-11).q[-1]
    errors = []
    for dt in (0.001, 0.0005):
        system = SoftRobotSystem(robot, dt, integrator)
        xs = system.rollout(np.zeros(system.nx), np.tile(u, (round(0.08 / dt), 1)))
        errors.append(np.abs(xs[-1, : robot.nq] - exact).max())
    order = 1.0 if integrator == "semi_implicit_euler" else 2.0
    assert np.log2(errors[0] / errors[1]) == pytest.approx(order, abs=0.2)


def test_rollouts_agree_with_steps(system, rng):
    """Open and closed loops, with limits and gaps, are the steps one after another."""
    N = 5
    x0, us = 0.02 * rng.normal(size=system.nx), rng.uniform(0.5, 2.0, (N, system.nu))
    xs = system.rollout(x0, us)
    for t in range(N):
        assert relative_error(system.step(xs[t], us[t]), xs[t + 1]) < IDENTITY
    k, K = rng.normal(size=us.shape), 0.1 * rng.normal(size=(N, system.nu, system.ndx))
    gaps, alphas = 1e-3 * rng.normal(size=xs.shape), np.array([1.0, 0.5, 0.0])
    lower, upper = np.full_like(us, 0.0), np.full_like(us, 2.0)
    xs_new, us_new = system.closed_loop_rollout(x0, xs, us, k, K, alphas, gaps, lower, upper)
    for x, u, alpha in zip(xs_new, us_new, alphas, strict=True):
        assert relative_error(x[0], x0 - (1.0 - alpha) * gaps[0]) < IDENTITY
        for t in range(N):
            wanted = np.clip(us[t] + alpha * k[t] + K[t] @ (x[t] - xs[t]), 0.0, 2.0)
            assert relative_error(u[t], wanted) < IDENTITY
            assert relative_error(x[t + 1], system.step(x[t], u[t]) - (1.0 - alpha) * gaps[t + 1]) < IDENTITY
    assert (us_new == 0.0).any() or (us_new == 2.0).any()


def test_a_knot_that_fails_leaves_the_others_alone(rng):
    """No exception, NaN where Newton's method fails, and every other lane as without it."""
    system = SoftRobotSystem(manipulator(), 0.01, "implicit_midpoint")
    xs, us = random_knots(system, rng, 3)
    expected = system.step(xs, us)
    xs[1] *= 1e4
    found = system.step(xs, us)
    assert np.isnan(found[1]).all()
    np.testing.assert_array_equal(found[[0, 2]], expected[[0, 2]])


# ------------------------------------------------------------------------------------------------ expansions
def test_derivatives(system, rng):
    (x,), (u,) = random_knots(system, rng, 1)
    lam, n, nx = rng.normal(size=system.ndx), system.nv, system.nx
    fx, fu = system.linearize(x[None], u[None])
    Hxx, Hux, Huu = system.hessian_products(x[None], u[None], lam[None])
    F, dF = complex_step_derivatives(system, x, u)
    for rows in (slice(n), slice(n, nx)):
        for columns in (slice(n), slice(n, nx)):
            assert relative_error(fx[0, rows, columns], F[rows, columns]) < COMPLEX_STEP
        assert relative_error(fu[0, rows], F[rows, nx:]) < COMPLEX_STEP
    H = np.einsum("i,ijk->jk", lam, dF)
    for rows in (slice(n), slice(n, nx)):
        for columns in (slice(n), slice(n, nx)):
            assert relative_error(Hxx[0, rows, columns], H[rows, columns]) < COMPLEX_STEP
    assert relative_error(Hux[0], H[nx:, :nx]) < COMPLEX_STEP
    assert relative_error(Huu[0], H[nx:, nx:], floor=1e-3 * np.abs(H[nx:, :nx]).max()) < COMPLEX_STEP


def test_expansions_in_one_call(system, rng):
    """One evaluation writes what the two calls return; semi-implicit steps have their structure."""
    xs, us = random_knots(system, rng, 9)
    lam = rng.normal(size=(9, system.ndx))
    fx, fu = system.linearize(xs, us)
    H = system.hessian_products(xs, us, lam)
    written = [np.empty_like(X) for X in (fx, fu, *H)]
    system.write_expansion(xs, us, lam, *written)
    for found, expected in zip(written, (fx, fu, *H), strict=True):
        assert relative_error(found, expected) < IDENTITY
    if system.semi_implicit:
        n, h = system.nv, system.dt
        identity = np.eye(n, system.nx)
        np.testing.assert_allclose(fx[:, :n], identity + h * fx[:, n:], rtol=1e-13, atol=1e-13)
        np.testing.assert_allclose(fu[:, :n], h * fu[:, n:], rtol=1e-13)


def test_tensors(rng):
    """Rows of the tensors are Hessians with unit multipliers."""
    system = SoftRobotSystem(manipulator(), 0.01)
    xs, us = random_knots(system, rng, 1)
    lam = rng.normal(size=(1, system.ndx))
    for tensor, product in zip(system.hessians(xs, us), system.hessian_products(xs, us, lam), strict=True):
        assert relative_error(np.einsum("ti,tijk->tjk", lam, tensor), product) < 1e-11


def test_expansion_of_a_step_to_third_order(system, rng):
    (x,), (u,) = random_knots(system, rng, 1)
    lam, dz = rng.normal(size=system.ndx), rng.normal(size=system.nx + system.nu)
    dx, du = np.split(dz, [system.nx])
    fx, fu = system.linearize(x[None], u[None])
    Hxx, Hux, Huu = system.hessian_products(x[None], u[None], lam[None])
    first = lam @ (fx[0] @ dx + fu[0] @ du)
    second = 0.5 * dx @ Hxx[0] @ dx + du @ Hux[0] @ dx + 0.5 * du @ Huu[0] @ du
    base = lam @ system.step(x, u)
    steps = 2.0 ** -np.arange(8.0, 13.0)
    errors = [abs(lam @ system.step(x + s * dx, u + s * du) - base - s * first - s * s * second) for s in steps]
    assert slope(steps, errors) == pytest.approx(3.0, abs=SLOPE)


# ------------------------------------------------------------------------------------------------ arguments
def test_names_and_sizes():
    system = SoftRobotSystem(manipulator(), 0.02)
    assert (system.nx, system.ndx, system.nu) == (48, 48, 5) and system.euclidean
    assert system.integrator == "extrapolated_euler" and not system.semi_implicit
    assert len(system.state_names) == system.nx and len(system.control_names) == system.nu
    assert "nu=5" in repr(system)


# ------------------------------------------------------------------------------------------------ stiff contact
def legged() -> SoftRobot:
    """A body on two legs of two joints each, without any rod, whose feet meet a stiff ground with friction."""
    builder = RodModelBuilder(name="legged")
    builder.add_body("base", "world", FreeFlyer(), mass=1.2, inertia=np.diag([6e-3, 2e-2, 2.5e-2]))
    for side in (-1.0, 1.0):
        parent, at = "base", np.array([0.19 * side, 0.0, 0.0])
        for part in ("upper", "lower"):
            own = {"mass": 0.1, "com": (0.0, 0.0, -0.08), "inertia": np.diag([3e-4, 3e-4, 1e-5]), "damping": 0.02}
            name = f"{part} {side:+g}"
            builder.add_body(name, parent, Revolute("y"), placement=(np.eye(3), at), **own)
            parent, at = name, np.array([0.0, 0.02 * side, -0.16])
        ground = PlaneContact(1e4, exponent=1.0, smoothing=3e-3, damping=0.5, friction=0.8, slip=0.05)
        builder.add_contact(parent, ground, point=at)
    return SoftRobot(builder.build(), torques=["upper -1", "lower -1", "upper +1", "lower +1"])


def sunk_knots(robot: SoftRobot, rng: np.random.Generator, count: int):
    """States with feet above the ground and deep below, at speeds of falls, and torques."""
    x, n = np.zeros((count, 2 * robot.nq)), robot.nq
    x[:, 5] = 0.245 + rng.uniform(-0.03, 0.03, count)
    x[:, 6:n] = np.tile([0.7, -1.4], 2) + 0.15 * rng.normal(size=(count, 4))
    x[:, n:] = rng.normal(size=(count, n)) * np.r_[np.full(3, 1.0), np.full(3, 0.5), np.full(4, 4.0)]
    return x, rng.normal(size=(count, robot.nu))


@pytest.mark.parametrize(("integrator", "dt"), [("sdirk2", 0.02), ("sdirk2", 0.05), ("implicit_midpoint", 0.02)])
def test_steps_near_stiff_contact_are_solved(integrator, dt, rng):
    """Also where Newton's method gets stuck; no knot's bits depend on the others."""
    robot = legged()
    system = SoftRobotSystem(robot, dt, integrator)
    x, u = sunk_knots(robot, rng, 96)
    following = system.step(x, u)
    assert np.isfinite(following).all()
    alone = np.array([system.step(*knot) for knot in zip(x[:16], u[:16], strict=True)])
    np.testing.assert_array_equal(alone, following[:16])
    (q, v), (q_next, v_next) = np.split(x, 2, axis=1), np.split(following, 2, axis=1)
    if integrator == "sdirk2":
        g = GAMMA * dt
        A = np.array([[2.0 * g * (dt - g), g * g], [dt - g, g]])  # of both accelerations in q+ - q - h v and v+ - v
        a0, a1 = np.einsum("ij,jkn->ikn", np.linalg.inv(A), np.array([q_next - q - dt * v, v_next - v]))
        stages = [(q + g * v + g * g * a0, v + g * a0, a0), (q_next, v_next, a1)]
    else:
        a = (v_next - v) / dt
        stages = [(q + 0.5 * dt * v + 0.25 * dt * dt * a, v + 0.5 * dt * a, a)]
    for stage in stages:
        M = robot.residual_derivatives(*stage, u)[2]
        sizes = np.abs(M @ stage[2][:, :, None])[:, :, 0].max(axis=1) + 1.0
        assert (np.abs(robot.residual(*stage, u)).max(axis=1) / sizes).max() < 1e-6


def test_expansions_at_steps_that_newtons_method_does_not_reach_alone(rng):
    system = SoftRobotSystem(legged(), 0.02, "sdirk2")
    x, u = sunk_knots(system.robot, rng, 48)
    fx, _ = system.linearize(x, u)
    dx, h = rng.normal(size=x.shape), 1e-7
    ends = [system.step(x + s * h * dx, u) for s in (1.0, -1.0)]
    found, expected = (fx @ dx[:, :, None])[:, :, 0], (ends[0] - ends[1]) / (2.0 * h)
    errors = np.abs(found - expected).max(axis=1) / np.abs(expected).max(axis=1)
    assert np.sort(errors)[:-3].max() < 1e-3  # but near where the contact's force bends


def five_bars() -> SoftRobot:
    """A body in a plane on two legs, each of which closes a chain of four links at its foot, above a stiff ground."""
    builder = RodModelBuilder(name="five bars")
    builder.add_body("slide", "world", Prismatic("x"))
    builder.add_body("lift", "slide", Prismatic("z"))
    builder.add_body("base", "lift", Revolute("y"), mass=1.2, inertia=2e-2 * np.eye(3))
    own = {"mass": 0.1, "com": (0.0, 0.0, -0.08), "inertia": np.diag([3e-4, 3e-4, 1e-5]), "damping": 0.02}
    end = np.eye(3), (0.0, 0.0, -0.16)
    ground = PlaneContact(1e4, exponent=1.0, smoothing=3e-3, damping=0.5, friction=0.8, slip=0.05)
    for leg in (-1, 1):
        for side in (-1, 1):
            hip = np.eye(3), (0.2 * leg + 0.05 * side, 0.0, 0.0)
            builder.add_body(f"upper {leg} {side}", "base", Revolute("y"), placement=hip, **own)
            builder.add_body(f"lower {leg} {side}", f"upper {leg} {side}", Revolute("y"), placement=end, **own)
        builder.add_closure(f"foot {leg}", f"lower {leg} -1", f"lower {leg} 1", Spherical(), end, end)
        builder.add_contact(f"lower {leg} -1", ground, point=end[1])
    return SoftRobot(builder.build(), torques=[f"upper {leg} {side}" for leg in (-1, 1) for side in (-1, 1)])


def closed_sunk_knots(robot: SoftRobot, rng: np.random.Generator, count: int):
    """As `sunk_knots`, with closed chains that do not open."""
    x, n, model = np.zeros((count, 2 * robot.nq)), robot.nq, robot.model
    for k in range(count):
        q = np.r_[0.0, 0.245 + rng.uniform(-0.03, 0.03), 0.0, np.tile([0.874, -1.348, -0.874, 1.348], 2)]
        q[3:] += 0.15 * rng.normal(size=n - 3)
        q = assemble(model, q).q
        v, A = rng.normal(size=n) * np.r_[0.5, 0.5, 1.0, np.full(n - 3, 4.0)], closure_jacobian(model, q)
        x[k] = np.r_[q, v - np.linalg.pinv(A) @ (A @ v)]
    return x, rng.normal(size=(count, robot.nu))


def test_steps_of_closed_chains_near_stiff_contact_are_solved(rng):
    """Both stages hold, as do the chains in them, whatever the other knots; a fifth of these steps takes a path."""
    robot, dt = five_bars(), 0.05
    system, (x, u) = SoftRobotSystem(robot, dt), closed_sunk_knots(robot, rng, 96)
    following = system.step(x, u)
    assert np.isfinite(following).all()
    alone = np.array([system.step(*knot) for knot in zip(x[:16], u[:16], strict=True)])
    np.testing.assert_array_equal(alone, following[:16])
    for k in range(len(x)):
        q, v = np.split(following[k], 2)
        A, e = closure_jacobian(robot.model, q), closure_error(robot.model, q)
        assert np.abs(A @ v + e / dt).max() < 1e-7 * (1.0 + np.abs(v).max())


def test_derivatives_of_closed_chains_at_the_ends_of_paths(rng):
    system = SoftRobotSystem(five_bars(), 0.05)
    x, u = closed_sunk_knots(system.robot, rng, 48)
    fx, _ = system.linearize(x, u)
    dx, h = rng.normal(size=x.shape), 1e-7
    ends = [system.step(x + s * h * dx, u) for s in (1.0, -1.0)]
    found, expected = (fx @ dx[:, :, None])[:, :, 0], (ends[0] - ends[1]) / (2.0 * h)
    errors = np.abs(found - expected).max(axis=1) / np.abs(expected).max(axis=1)
    assert np.sort(errors)[:-5].max() < 1e-3  # but near where the contact's force bends


# ------------------------------------------------------------------------------------------------ without a solution
def deep(robot: SoftRobot) -> np.ndarray:
    """A state whose feet are 5 cm deep in the ground and fall on: Newmark's first acceleration leads far away."""
    x = np.zeros(2 * robot.nq)
    x[5], x[6 : robot.nq], x[robot.nq + 5] = 0.19, np.tile([0.7, -1.4], 2), -2.0
    return x


def standing(system: SoftRobotSystem, x0: np.ndarray, us: np.ndarray) -> Problem:
    goal, n = np.zeros(system.nx), system.nq
    goal[5], goal[6:n] = 0.24, np.tile([0.7, -1.4], 2)
    w = np.r_[np.full(3, 1.0), 1.0, 1.0, 10.0, np.full(4, 0.1), np.full(6, 0.01), np.full(4, 3e-3)]
    running, last = [StateCost(system, goal, w), ControlCost(1e-2)], [StateCost(system, goal, 30.0 * w)]
    return Problem(system, x0, len(us), running, last, us_init=us)


def test_a_step_without_a_solution_is_named():
    """By solves; explicit methods have none of that."""
    robot = legged()
    system = SoftRobotSystem(robot, 0.05, "newmark")
    x0, us = deep(robot), np.zeros((3, robot.nu))
    assert np.isnan(system.step(x0, us[0])).all()
    solution = DDP().solve(standing(system, x0, us))
    assert solution.status == "diverged"
    assert "as the implicit step from knot 0 (newmark, dt = 0.05 s) has found no solution" in solution.cause
    said = " ".join(solution.explain().split())
    assert solution.cause in said and "a shorter time step, or softer contacts" in said
    assert SoftRobotSystem(robot, 0.05).implicit_step == ""


def test_solves_go_on_from_a_rollout_where_gaps_cannot_be_closed():
    """Steps from the held initial state that would close its gaps have no solution, however short."""
    robot, rng = legged(), np.random.default_rng(7)
    system, n = SoftRobotSystem(robot, 0.02, "sdirk2"), robot.nq
    x0 = np.zeros(system.nx)
    x0[5], x0[6:n] = 0.245 + rng.uniform(-0.03, 0.03), np.tile([0.7, -1.4], 2) + 0.15 * rng.normal(size=4)
    x0[n:] = rng.normal(size=n) * np.r_[np.full(3, 1.0), np.full(3, 0.5), np.full(4, 4.0)]
    problem = standing(system, x0, 2.0 * rng.normal(size=(12, robot.nu)))
    solution = DDP(max_iterations=30).solve(problem)
    assert solution.status != "not_finite" and solution.consistent
    np.testing.assert_allclose(system.rollout(x0, solution.us), solution.xs, rtol=1e-6, atol=1e-6)
