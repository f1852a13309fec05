"""The set-ups of the benchmark problems against their sources, and their solutions against what they are to do."""

from dataclasses import replace

import numpy as np
import pytest

import dynamics
import problems
import trajopt
from problems import acrobot, arm_obstacle, car_parking, cartpole, pendulum_limits, quadrotor, unicycle_obstacles
from tests.tolerances import IDENTITY
from trajopt.costs.residuals import ControlResidual, SquaredNorm, StateResidual

LIMITED = ("arm_obstacle", "car_parking", "pendulum_limits", "quadrotor", "unicycle_obstacles")


@pytest.mark.parametrize("name", LIMITED)
@pytest.mark.parametrize("solver", ["ilqr", "parallel"])
def test_constraints_hold_at_a_stationary_point(name, solver, solved):
    solution = solved(name, solver)
    assert solution.converged and solution.violation < 1e-6
    assert max(report.complementarity for report in solution.constraints) < 1e-6
    assert solution.gradient_norm < 1e-6 * solution.log[0].gradient_norm
    lower, upper = solution.problem.control_limits
    assert (solution.us >= lower).all() and (solution.us <= upper).all()


@pytest.mark.parametrize("name", LIMITED)
def test_constraints_matter(name, solved):
    """Without them the cost is lower, and one of them is broken."""
    solution = solved(name, "parallel")
    free = trajopt.DDP().solve(replace(solution.problem, constraints=()), us=solution.us)
    assert free.converged and free.cost < 0.999 * solution.cost
    lower, upper = solution.problem.control_limits
    beyond = [((free.us < lower) | (free.us > upper)).any()]
    for report, constraint in zip(solution.constraints, solution.problem.constraints, strict=True):
        if isinstance(constraint, trajopt.ResidualConstraint):
            path = report.knots < len(free.us)
            values = constraint.residual.evaluate(free.xs[report.knots[path]], free.us[report.knots[path]])
            beyond.append(((values < report.lower[path]) | (values > report.upper[path])).any())
    assert any(beyond)


@pytest.mark.parametrize("module", [acrobot, cartpole, pendulum_limits])
@pytest.mark.parametrize("solver", [trajopt.ILQR(), trajopt.DDP()], ids=["ilqr", "ddp"])
def test_perturbed_starts_swing_up(module, solver):
    problem = module.make()
    upright = problem.terminal_costs[0].reference
    starts = [module.perturbed_start(np.random.default_rng(seed)) for seed in range(10)]
    assert np.std(np.array(starts) - problem.us_init) == pytest.approx(module.NOISE, rel=0.1)
    for us in starts:
        solution = solver.solve(problem, us=us)
        assert solution.converged
        np.testing.assert_allclose(solution.xs[-1], upright, atol=0.03)


class TestCarParking:
    def test_wheels_roll_without_slipping(self, rng):
        """The rear axle's middle moves along the heading, the front one's h v along the front wheels."""
        system, d, h = car_parking.make().system, car_parking.WHEELBASE, 0.03
        x, u = rng.standard_normal((50, 4)) * [1, 1, 2, 5], rng.standard_normal((50, 2)) * [0.4, 1]
        after = system.step(x, u)

        def heading(theta):
            return np.stack([np.cos(theta), np.sin(theta)], axis=1)

        rear = after[:, :2] - x[:, :2]
        front = rear + d * (heading(after[:, 2]) - heading(x[:, 2]))
        sideways = rear[:, 0] * np.sin(x[:, 2]) - rear[:, 1] * np.cos(x[:, 2])
        np.testing.assert_allclose(sideways, 0.0, atol=IDENTITY)
        np.testing.assert_allclose(front, h * x[:, 3:] * heading(x[:, 2] + u[:, 0]), atol=IDENTITY)
        np.testing.assert_allclose(after[:, 3], x[:, 3] + h * u[:, 1], atol=IDENTITY)

    def test_cost_is_the_papers(self, rng):
        problem = car_parking.make()
        us = car_parking.perturbed_start(rng)
        xs = problem.system.rollout(problem.x0, us)

        def z(r, p):
            return np.sqrt(r**2 + p**2) - p

        near = 1e-3 * (z(xs[:, 0], 0.1) + z(xs[:, 1], 0.1))
        x, y, theta, v = xs[-1]
        end = 0.1 * z(x, 0.01) + 0.1 * z(y, 0.01) + z(theta, 0.01) + 0.3 * z(v, 1.0)
        cost = (us**2 @ [1e-2, 1e-4]).sum() + near.sum() + end
        assert trajopt.total_cost(problem, xs, us) == pytest.approx(cost, rel=IDENTITY)

    def test_it_parks(self, solved):
        np.testing.assert_allclose(solved("car_parking", "parallel").xs[-1], 0.0, atol=0.03)

    @pytest.mark.parametrize("seed", [0, 1])
    def test_it_parks_from_the_papers_starts(self, seed):
        problem = replace(car_parking.make(), us_init=car_parking.perturbed_start(np.random.default_rng(seed)))
        ilqr, ddp = trajopt.ILQR().solve(problem), trajopt.DDP().solve(problem)
        assert ilqr.converged and ddp.converged and ddp.cost == pytest.approx(ilqr.cost, rel=1e-8)
        np.testing.assert_allclose(ddp.xs[-1], 0.0, atol=0.03)


class TestAcrobotOfTrajax:
    def test_costs_are_those_of_its_test(self, solved):
        problem = problems.make("acrobot_trajax")
        start = trajopt.total_cost(problem, problem.system.rollout(problem.x0, problem.us_init), problem.us_init)
        assert start == pytest.approx(4959.476212, abs=1e-6)
        assert solved("acrobot_trajax", "ilqr").cost < 51.0 and solved("acrobot_trajax", "parallel").cost < 51.0


class TestQuadrotor:
    def test_it_hovers(self):
        problem = quadrotor.make()
        x = problem.system.step(problem.x0, problem.us_init[0])
        np.testing.assert_allclose(x, problem.x0, atol=IDENTITY)
        assert problem.system.model.total_mass == pytest.approx(0.716)

    def test_rotors_turn_the_body_their_way(self):
        """More lift on the left rolls to the right, in front pitches up; drag turns against the rotors."""
        problem = quadrotor.make(integrator="semi_implicit_euler")  # its speeds after a step are those of the start
        hover = problem.us_init[0]

        def turn(thrusts):
            return problem.system.step(problem.x0, hover + thrusts)[-3:] / problem.system.dt

        inertia_about_x = 0.007 + 2 * 0.009 * 0.17**2
        np.testing.assert_allclose(turn([0, 1, 0, 0])[0], 0.17 / inertia_about_x, rtol=IDENTITY)
        np.testing.assert_allclose(turn([1, 0, 0, 0])[1], -0.17 / inertia_about_x, rtol=IDENTITY)
        yaw = 2 * 0.016 / (0.012 + 4 * 0.009 * 0.17**2)
        np.testing.assert_allclose(turn([1, 0, 1, 0]), [0.0, 0.0, yaw], atol=IDENTITY * yaw)
        np.testing.assert_allclose(turn([0, 1, 0, 1]), [0.0, 0.0, -yaw], atol=IDENTITY * yaw)

    def test_it_arrives(self, solved):
        solution = solved("quadrotor", "parallel")
        error = solution.problem.system.difference(solution.problem.terminal_costs[0].reference, solution.xs[-1])
        assert np.abs(error).max() < 5e-3


class TestObstacles:
    def test_the_unicycle_touches_discs_and_meets_its_goal(self, solved):
        for solver in ("ilqr", "parallel"):
            xs = solved("unicycle_obstacles", solver).xs
            apart = np.linalg.norm(xs[:, None, :2] - unicycle_obstacles.CENTRES, axis=2)
            assert apart.min() == pytest.approx(unicycle_obstacles.DISTANCE, abs=1e-6)
            np.testing.assert_allclose(xs[-1], unicycle_obstacles.GOAL, atol=1e-6)

    def test_the_tool_goes_around_the_ball(self, solved):
        solution = solved("arm_obstacle", "parallel")
        model, centre = solution.problem.system.model, np.array(arm_obstacle.CENTRE)
        ways = {}
        for name, xs in (("around", solution.xs), ("through", solved("arm", "parallel").xs)):
            positions = [dynamics.frame_placement(model, xs[:, :6], frame)[1] for frame in arm_obstacle.FRAMES]
            ways[name] = np.linalg.norm(np.array(positions) - centre, axis=2).min()
        assert ways["around"] == pytest.approx(arm_obstacle.DISTANCE, abs=1e-6)
        assert ways["through"] < 0.5 * arm_obstacle.DISTANCE

    def test_the_arm_arrives_within_its_speeds(self, solved):
        solution = solved("arm_obstacle", "parallel")
        model, speeds = solution.problem.system.model, np.abs(solution.xs[:, 6:])
        assert (speeds <= model.velocity_limit + 1e-6).all() and (speeds > model.velocity_limit - 1e-6).any()
        error = solution.problem.terminal_costs[0].residual.evaluate(solution.xs[-1:], None)[0]
        assert np.linalg.norm(error[:3]) < 2e-3 and np.linalg.norm(error[3:]) < np.deg2rad(0.2)


class TestSquaredNorm:
    def test_of_a_linear_residual_in_closed_form(self, rng):
        """|u - c|^2 and |x - c|^2."""
        system = problems.make("unicycle_obstacles").system
        xs, us, mu = rng.standard_normal((5, 3)), rng.standard_normal((5, 2)), rng.standard_normal((5, 1))
        c = np.array([0.3, -0.2, 0.0])
        of_controls, of_states = SquaredNorm(ControlResidual(system, c[:2])), SquaredNorm(StateResidual(system, c))
        np.testing.assert_allclose(of_controls.evaluate(xs, us)[:, 0], ((us - c[:2]) ** 2).sum(1), rtol=IDENTITY)
        rx, ru = of_controls.jacobians(xs, us)
        np.testing.assert_allclose(ru[:, 0], 2 * (us - c[:2]), rtol=IDENTITY)
        assert not rx.any()
        Hxx, Hux, Huu = of_controls.hessian_products(xs, us, mu)
        np.testing.assert_allclose(Huu, 2 * mu[:, :, None] * np.eye(2), rtol=IDENTITY)
        assert Hxx.shape == (5, 3, 3) and Hux.shape == (5, 2, 3) and not Hxx.any() and not Hux.any()
        rx, ru = of_states.jacobians(xs, None)
        np.testing.assert_allclose(rx[:, 0], 2 * (xs - c), rtol=IDENTITY)
        assert ru is None and of_states.hessian_products(xs, None, mu)[1:] == (None, None)
        np.testing.assert_allclose(
            of_states.hessian_products(xs, None, mu)[0], 2 * mu[:, :, None] * np.eye(3), rtol=IDENTITY
        )

    def test_of_a_frame_against_differences(self, rng):
        """Jacobians against the values, Hessians against the Jacobians, along every direction."""
        model = arm_obstacle.make().system.model
        residual = SquaredNorm(dynamics.FrameTranslation(model, "tool", arm_obstacle.CENTRE))
        x, h = rng.standard_normal(12), 1e-5
        xs = x + h * np.concatenate([np.eye(12), -np.eye(12)])
        values, slopes = residual.evaluate(xs, None)[:, 0], residual.jacobians(xs, None)[0][:, 0]
        rx = residual.jacobians(x[None], None)[0][0, 0]
        H = residual.hessian_products(x[None], None, np.array([[1.7]]))[0][0]
        np.testing.assert_allclose((values[:12] - values[12:]) / (2 * h), rx, atol=1e-8)
        np.testing.assert_allclose(1.7 * (slopes[:12] - slopes[12:]) / (2 * h), H, atol=1e-8)

    def test_wants_a_residual(self):
        with pytest.raises(TypeError, match="residual: float has no method 'evaluate'"):
            SquaredNorm(1.0)
