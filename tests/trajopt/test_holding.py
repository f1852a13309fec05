"""After the end of a plan its last posture is held, by gains of a plan that stands still for ever."""

import numpy as np
import pytest
import scipy.linalg

import problems
import trajopt
from dynamics import frame_jacobian
from experiments.quadruped.impulses import with_cones
from tests.trajopt.systems import LinearSystem
from trajopt import ControlCost, Problem, StateCost
from trajopt.backward.backward_pass import sweep
from trajopt.backward.expansions import Expansion
from trajopt.interfaces.system import window
from trajopt.results.policy import _gains, followed_by_standing

SOLVER = trajopt.DDP(max_iterations=300)


@pytest.fixture(scope="module", params=["quadruped_trot", "quadruped_stand", "arm", "cartpole"])
def plan(request):
    return SOLVER.solve(problems.make(request.param))


@pytest.fixture(scope="module")
def trot():
    return SOLVER.solve(problems.make("quadruped_trot"))


def at_end(solution):
    """The system of the last knot."""
    N = len(solution.us)
    return window(solution.problem.system, N - 1, N)


def closed_loop(solution, hold):
    fx, fu = at_end(solution).linearize(hold.x[None], hold.u[None])
    return fx[0] + fu[0] @ hold.K


def test_the_closed_loop_at_the_end_is_stable(plan):
    hold = plan.policy(hold=True).hold
    assert np.abs(np.linalg.eigvals(closed_loop(plan, hold))).max() < 0.999
    system, after = plan.problem.system, at_end(plan).step(hold.x, hold.u)
    assert np.abs(system.difference(hold.x, after)).max() < 0.5 * system.dt
    np.testing.assert_array_equal(hold.x[system.nq :], 0.0)


def test_what_pushes_the_robot_off_is_gone_after_two_seconds(trot, rng):
    """A centimetre and 0.02 rad, along what held feet allow; asked every millisecond, by steps of a millisecond."""
    policy, system = trot.policy(hold=True), trot.problem.system
    hold, plant = policy.hold, at_end(trot).refined(round(system.dt / 1e-3))
    feet = [frame_jacobian(system.model, hold.x[: system.nq], frame)[:3] for frame in system.contact_frames]
    N = scipy.linalg.null_space(np.concatenate(feet))
    for _ in range(3):
        dq = N @ rng.standard_normal(N.shape[1])
        dq *= min(0.01 / np.abs(dq[:3]).max(), 0.02 / np.abs(dq[3:]).max())
        x = system.integrate(hold.x, np.r_[dq, np.zeros(18)])
        for i in range(2000):
            x = plant.window(0, 1).step(x, policy(policy.horizon + 1e-3 * i, x))
        assert np.abs(system.difference(trot.xs[-1], x)).max() < 1e-3


def test_of_a_linear_system_it_is_the_gain_of_the_riccati_equation(rng):
    """The knots before, too, for which the plan goes on for ever."""
    A, B = np.eye(3) + 0.1 * rng.standard_normal((3, 3)), rng.standard_normal((3, 2))
    Q, R = np.array([1.0, 2.0, 0.5]), 0.3
    system = LinearSystem(A, B)
    solution = trajopt.ILQR().solve(
        Problem(system, np.ones(3), 60, [StateCost(system, np.zeros(3), Q), ControlCost(R)], [])
    )
    policy, dt = solution.policy(hold=True), system.dt
    P = scipy.linalg.solve_discrete_are(A, B, dt * np.diag(Q), dt * R * np.eye(2))
    K = -np.linalg.solve(dt * R * np.eye(2) + B.T @ P @ B, B.T @ P @ A)
    np.testing.assert_allclose(policy.hold.K, K, rtol=0.0, atol=1e-8 * np.abs(K).max())
    np.testing.assert_allclose(policy.K, np.broadcast_to(K, policy.K.shape), rtol=0.0, atol=1e-8 * np.abs(K).max())
    assert np.abs(solution.K[-1] - K).max() > 0.1 * np.abs(K).max()


@pytest.mark.parametrize("name", ["quadruped_trot", "quadruped_stand"])
@pytest.mark.parametrize("solver", [SOLVER, trajopt.ILQR(max_iterations=300)])
def test_gains_of_the_plan_are_those_before_far_from_its_end(name, solver):
    """Hessians of costs and constraints are the same, so that what happens at the end is forgotten."""
    plan = solver.solve(problems.make(name))
    policy = plan.policy(hold=True)
    early = slice(0, len(plan.us) // 4)
    assert np.abs(policy.K - plan.K)[early].max() < 0.02 * np.abs(plan.K[early]).max()
    np.testing.assert_array_equal(policy.us, plan.us)


def test_cones_of_impulses_shape_the_plan_not_the_feedback(trot):
    """Gains that kept the impulses in their cones would be 300 times as large in the last knot before a touch-down, and
    the stiffness of joints that goes with them with it."""
    plan = SOLVER.solve(with_cones("quadruped_trot"))
    assert plan.converged and np.abs(plan.K).max() > 100.0 * np.abs(trot.K).max()
    gains = [np.abs(np.array([followed_by_standing(each)[0].K])).max() for each in (plan, trot)]
    assert gains[0] < 10.0 * gains[1]
    ending = plan.policy(hold=False)
    lasting = np.diff(plan.times) > 0.0
    assert np.abs(ending.K[lasting]).max() < 10.0 * np.abs(trot.K).max()
    start = plan.problem.system.integrate(plan.xs[0], np.full(36, 1e-3))
    for policy in (ending, plan.policy()):
        assert trajopt.simulate(plan, policy=policy, x0=start, period=1e-3, delay=3e-3).finite
    motion = trajopt.simulate(plan, policy=plan.policy(hold=True, joint_stiffness="auto"), period=1e-3)
    assert motion.finite and np.abs(motion.xs[-1] - plan.xs[-1]).max() < 0.05


def test_it_goes_into_files(trot, tmp_path):
    policy = trot.policy(hold=True, joint_stiffness="auto")
    loaded = trajopt.Policy.load(policy.save(tmp_path / "hold.npz"))
    x = trot.problem.system.integrate(trot.xs[-1], np.full(36, 1e-3))
    for t in (0.0, 0.111, policy.horizon - 1e-4, policy.horizon, policy.horizon + 1.0):
        np.testing.assert_array_equal(loaded(t, x), policy(t, x))
        np.testing.assert_array_equal(loaded.reference(t), policy.reference(t))
    np.testing.assert_array_equal(policy(9.0, policy.hold.x), policy.hold.u)
    np.testing.assert_array_equal(policy.reference(9.0), policy.hold.x)
    assert repr(policy.hold) == "Hold(x: (37,), u: (12,), K: (12, 36))"
    with np.load(tmp_path / "hold.npz") as data:
        arrays = dict(data)
    np.savez(tmp_path / "hold.npz", **{key: value for key, value in arrays.items() if key != "hold_K"})
    with pytest.raises(ValueError, match="got a policy file that is damaged"):
        trajopt.Policy.load(tmp_path / "hold.npz")


def test_the_last_row_of_a_resampled_plan_stands_still(trot):
    policy, plan = trot.policy(hold=True, joint_damping=0.1), trot.resample(0.003, hold=True, joint_damping=0.1)
    for got, wanted in zip((plan.xs[-1], plan.us[-1], plan.K[-1]), policy.hold, strict=True):
        np.testing.assert_array_equal(got, wanted)
    np.testing.assert_array_equal(plan.K[:-1], policy.K[plan.knots[:-1]])
    np.testing.assert_array_equal(plan.xs[:-1], trot.resample(0.003).xs[:-1])
    np.testing.assert_array_equal(plan.accelerations[-1], 0.0)


def test_without_it_the_last_gains_go_on(trot):
    for policy in (trot.policy(hold=False), trot.policy(feedback=False)):
        assert policy.hold is None
        np.testing.assert_array_equal(policy.K, trot.K)
    resampled = trot.resample(0.01)
    np.testing.assert_array_equal(resampled.K, trot.K[resampled.knots])


def test_plans_that_end_at_rest_are_held_by_default(plan):
    """Two seconds after the end too, on a robot that is a little off."""
    policy, wanted, system = plan.policy(), plan.policy(hold=True), plan.problem.system
    np.testing.assert_array_equal(policy.K, wanted.K)
    for got, part in zip(policy.hold, wanted.hold, strict=True):
        np.testing.assert_array_equal(got, part)
    np.testing.assert_array_equal(plan.resample(0.01, hold=None).K[-1], wanted.hold.K)
    told = " ".join(plan.explain().split())
    assert "After its end solution.policy() holds the last state; hold=False keeps the last gains." in told
    stance = at_end(plan).refined(round(system.dt / 1e-3)).window(0, 1) if hasattr(system, "window") else None
    if stance is not None:
        t, x = policy.horizon, policy.hold.x
        for _ in range(2000):
            x, t = stance.step(x, policy(t, x)), t + 1e-3
        assert np.abs(system.difference(policy.hold.x, x)).max() < 1e-3


def test_plans_that_cannot_be_held_are_not():
    """One that is still moving at its end; an explanation says why."""
    pendulum = problems.make("pendulum")
    moving = Problem(pendulum.system, pendulum.x0 + [1.0, 0.0], 12, pendulum.running_costs, [])
    solution = trajopt.DDP().solve(moving)
    policy = solution.policy()
    assert policy.hold is None
    np.testing.assert_array_equal(policy.K, solution.K)
    np.testing.assert_array_equal(solution.resample(pendulum.system.dt, hold=None).K[:12], solution.K)
    told = " ".join(solution.explain().split())
    assert "solution.policy() keeps the last knot's control and gains, for this is a plan that is not at rest" in told


def test_the_control_before_is_remembered(rng):
    """With control rates the state of rest has the control that holds it."""
    inside = LinearSystem(np.array([[1.0, 0.1], [0.3, 0.9]]), np.array([[0.0], [0.1]]))
    system = trajopt.ControlRateSystem(inside)
    rate = trajopt.ControlRateCost(system, 0.1)
    costs = [system.lift(StateCost(inside, np.zeros(2), 1.0)), rate, ControlCost(0.1)]
    solution = trajopt.ILQR().solve(Problem(system, np.array([0.1, 0.0, 0.0]), 80, costs, []))
    hold = solution.policy(hold=True).hold
    fx, fu = system.linearize(hold.x[None], hold.u[None])
    assert np.abs(np.linalg.eigvals(fx[0] + fu[0] @ hold.K)).max() < 1.0
    np.testing.assert_allclose(hold.x[2:], hold.u, rtol=0.0, atol=1e-12)


def test_plans_that_do_not_come_to_rest_are_refused(plan):
    system = LinearSystem(np.array([[1.0, 0.1], [0.0, 1.0]]), np.array([[0.0], [0.1]]))
    moving = Problem(system, np.array([0.0, 30.0]), 5, [ControlCost(1.0)], [])
    with pytest.raises(ValueError, match=r"^hold: got .* at rest at its end, where component 0 changes by 3 in a s"):
        trajopt.ILQR().solve(moving).policy(hold=True)
    assert trajopt.ILQR().solve(moving).policy().hold is None
    with pytest.raises(TypeError, match=r"^hold: got 1, expected True or False"):
        plan.policy(hold=1)


def test_costs_without_a_minimum_are_made_convex(rng):
    """As in any iteration of a solve, what is positive of them counts."""
    shapes = (4, 3, 3), (4, 3, 2), (5, 3), (4, 2), (5, 3, 3), (4, 2, 3), (4, 2, 2)
    e = Expansion(*(rng.standard_normal(shape) for shape in shapes))
    e = e._replace(lxx=e.lxx + e.lxx.swapaxes(1, 2), luu=e.luu + e.luu.swapaxes(1, 2))
    assert not sweep(e, 0.0).ok
    result = _gains(e)
    assert result.ok and np.linalg.eigvalsh(result.Vxx).min() > -1e-9


def test_costs_that_leave_the_end_free_are_refused_or_helped_by_the_terminal_cost():
    system = LinearSystem(np.array([[1.0, 0.1], [0.0, 1.0]]), np.array([[0.0], [0.1]]))
    end = [StateCost(system, np.zeros(2), 100.0)]
    with pytest.raises(ValueError, match=r"^hold: got a plan whose costs leave the state at its end free"):
        trajopt.ILQR().solve(Problem(system, np.zeros(2), 5, [ControlCost(1.0)], [])).policy(hold=True)
    hold = trajopt.ILQR().solve(Problem(system, np.zeros(2), 5, [ControlCost(1.0)], end)).policy(hold=True).hold
    fx, fu = system.linearize(np.zeros((1, 2)), np.zeros((1, 1)))
    assert np.abs(np.linalg.eigvals(fx[0] + fu[0] @ hold.K)).max() < 0.999
