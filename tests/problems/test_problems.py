"""The benchmark problems by name, and how both solvers converge on them."""

import numpy as np
import pytest

import problems
import trajopt
from experiments.convergence.starts import kind_of, perturbed
from experiments.gallery.plans import distances
from trajopt.solvers.solver import HESSIANS

NAMES = problems.names()
FULLY_ACTUATED = ("arm", "double_pendulum")
BALANCE = ("humanoid_reach", "humanoid_stand", "humanoid_step")
GAITS = ("quadruped_jump", "quadruped_stand", "quadruped_trot", "quadruped_walk")
MINIMUM_TIME = ("arm_minimum_time", "car_minimum_time", "quadrotor_minimum_time")
IN_ROUNDS = ("arm_obstacle", "leg_jump", "unicycle_obstacles", *GAITS, *BALANCE, *MINIMUM_TIME)
"""Solved by an augmented Lagrangian, whose objective changes from round to round."""
FLAT = ("arm_minimum_time",)
"""Torques count so little beside the time that solvers end a ten-millionth of the cost apart."""
SEVERAL_MINIMA = ("unicycle_obstacles",)
"""The solvers end in minima side by side; `test_optimality` has what makes them minima."""
TRUE = (
    "arm", "arm_obstacle", "cartpole", "delta", "double_pendulum", "five_bar", "four_bar", "leg_jump", "pendulum",
    "pendulum_limits", "quadrotor", "serial_chain",
)  # fmt: skip
"""Rigid robots by RK4: points of the robot are where the plan has them, without feedback."""
NEARLY_GAUSS_NEWTON = ("delta", "five_bar", "four_bar")
"""Residuals so small at the optimum that iLQR converges almost as fast, and DDP steps along exact Hessians last."""


def test_names_are_sorted_and_all_there():
    assert NAMES == sorted(NAMES)
    assert {"acrobot", "arm", "cartpole", "double_pendulum", "pendulum", "serial_chain"} <= set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_every_name_makes_a_problem_with_a_description(name):
    problem = problems.make(name)
    assert isinstance(problem, trajopt.Problem) and problem.name == name
    line = problems.describe(name)
    assert line.endswith(".") and "\n" not in line and 20 < len(line) <= 120


@pytest.mark.parametrize("name", NAMES)
def test_horizon_and_time_step_are_options(name):
    problem = problems.make(name, horizon=17, dt=0.03)
    assert problem.horizon == 17 and problem.system.dt == 0.03 and problem.us_init.shape == (17, problem.system.nu)


@pytest.mark.parametrize("call", [problems.make, problems.describe])
def test_an_unknown_name_lists_the_known_ones_and_the_nearest(call):
    with pytest.raises(ValueError, match=r"one of 'acrobot', 'acro.*'cartpole'.*mean 'double_pendulum'") as error:
        call("double_pendulm")
    assert all(name in str(error.value) for name in NAMES)
    with pytest.raises(ValueError, match="name: got 'xyzzy', expected one of") as error:
        call("xyzzy")
    assert "did you mean" not in str(error.value)


@pytest.mark.parametrize("links", [0, 2.0, "3"])
def test_serial_chain_wants_a_number_of_links(links):
    with pytest.raises(ValueError, match=r"links: got .*, expected an integer >= 1"):
        problems.make("serial_chain", links=links)


@pytest.mark.parametrize("links", [1, 3, 6])
def test_serial_chain_of_any_length(links):
    problem = problems.make("serial_chain", links=links, horizon=40, dt=0.02)
    assert problem.system.nu == links
    assert trajopt.DDP().solve(problem).converged


@pytest.mark.parametrize("name", NAMES)
def test_both_solvers_converge_to_the_same_cost(name, solved):
    """Of minimum time iLQR ends in steps there and back whose gain is 1e-13 of the cost: by processor the last of them
    is or is not found, and then its status says that nothing but rounding is left to gain."""
    ilqr, ddp = solved(name, "ilqr"), solved(name, "parallel")
    assert ddp.status == "converged"
    gained = ilqr.log[-1].predicted_decrease
    at_rounding = name in MINIMUM_TIME and ilqr.status == "line_search_failed" and gained < 1e-12 * abs(ilqr.cost)
    assert ilqr.converged or at_rounding
    if name not in SEVERAL_MINIMA:
        assert ddp.cost == pytest.approx(ilqr.cost, rel=1e-6 if name in FLAT else 1e-8)
    if name not in IN_ROUNDS:
        assert ddp.iterations <= ilqr.iterations + 1


@pytest.mark.parametrize("name", sorted({*NAMES} - {*IN_ROUNDS, *NEARLY_GAUSS_NEWTON}))
@pytest.mark.parametrize("hessian", HESSIANS)
def test_the_tail_is_quadratic(name, hessian, solved):
    """Three of the last four gradient norms fall as e, e^p, e^(p p) with p near 2; the last of iLQR fall linearly.

    The norm is (g'H^-1 g)^(1/2), which the predicted decrease is half the square of: unlike the largest entry of the
    gradient it does not care along which of the stiff and soft directions the error lies.  Control limits change
    nothing once it is settled which of them hold.
    """
    solution = solved(name, hessian)
    steps = solution.log[-3:]
    assert all(record.step == "exact" for record in steps) and steps[-2].alpha == 1.0
    assert max(tail_order(solution, len(solution.log) - back) for back in (0, 1)) > 1.7
    assert steps[-1].predicted_decrease < 0.05**2 * steps[-2].predicted_decrease
    assert tail_order(solved(name, "ilqr")) < 1.3


def tail_order(solution, stop=None):
    """p in e_{k+1} ~ e_k^p of the three norms before `stop`."""
    a, b, c = 0.5 * np.log(solution.history("predicted_decrease")[:stop][-3:])
    return (c - b) / (b - a)


@pytest.mark.parametrize("name", ["arm", "double_pendulum", "pendulum"])
def test_all_hessian_modes_reach_the_same_trajectory(name, solved):
    reference = solved(name, "tensor")
    for hessian in HESSIANS:
        solution = solved(name, hessian)
        assert solution.cost == pytest.approx(reference.cost, rel=1e-12)
        np.testing.assert_allclose(solution.xs, reference.xs, atol=1e-6 * np.abs(reference.xs).max(), err_msg=hessian)


def test_the_arm_arrives_within_its_limits(solved):
    """Torques within a third of the motors' limits, joints within their speeds and ranges, the tool on its target."""
    solution = solved("arm", "parallel")
    problem = solution.problem
    model = problem.system.model
    q, v = solution.xs[:, : model.nq], solution.xs[:, model.nq :]
    assert (np.abs(solution.us) < model.effort_limit / 3).all()
    assert (np.abs(v) < model.velocity_limit).all()
    assert (q > model.lower_position).all() and (q < model.upper_position).all()
    error = problem.terminal_costs[0].residual.evaluate(solution.xs[-1:], None)[0]
    assert np.linalg.norm(error[:3]) < 1e-3 and np.linalg.norm(error[3:]) < np.deg2rad(0.1)
    assert np.abs(v[-1]).max() < 5e-3


@pytest.mark.parametrize(
    "name", ["acrobot", "acrobot_trajax", "cartpole", "double_pendulum", "pendulum", "pendulum_limits"]
)
def test_swing_ups_end_upright(name, solved):
    solution = solved(name, "parallel")
    upright = solution.problem.terminal_costs[0].reference
    assert np.abs(solution.problem.x0 - upright).max() > 3.0
    np.testing.assert_allclose(solution.xs[-1], upright, atol=0.03)


@pytest.mark.parametrize("name", [*TRUE, "acrobot"])
def test_plans_are_true_to_a_millimetre(name, solved):
    """In continuous time, by the controls alone; the acrobot's motion is unstable, and takes its gains for that."""
    solution = solved(name, "parallel")
    alone, held = (distances(solution, policy) for policy in ("open loop", "feedback"))
    assert held.max() < 1.0 and alone.max() < (1.0 if name in TRUE else 100.0)


def test_the_first_comparison_has_nothing_to_add():
    solutions = trajopt.compare(problems.make("arm"), {"ilqr": trajopt.ILQR(), "ddp": trajopt.DDP()})
    assert solutions.converged and "ntegration error" not in str(solutions) + solutions["ddp"].explain()


@pytest.mark.parametrize("name", FULLY_ACTUATED)
def test_perturbed_starts(name):
    """DDP needs at most one iteration more than iLQR from each, and far fewer altogether."""
    problem = problems.make(name)
    totals = np.zeros(2)
    for number in range(8):
        start = perturbed(problem, number)
        ilqr, ddp = trajopt.ILQR().solve(start), trajopt.DDP().solve(start)
        assert ilqr.converged and ddp.converged, number
        assert ddp.cost == pytest.approx(ilqr.cost, rel=1e-8), number
        assert ddp.iterations <= ilqr.iterations + 1, number
        totals += ilqr.iterations, ddp.iterations
    assert totals[1] <= 0.6 * totals[0]


def test_starts_are_functions_of_seed_and_number():
    problem = problems.make("double_pendulum")
    a, b, c = (perturbed(problem, number, seed) for number, seed in ((3, 0), (3, 0), (3, 1)))
    np.testing.assert_array_equal(a.us_init, b.us_init)
    np.testing.assert_array_equal(a.x0, b.x0)
    assert not np.array_equal(a.us_init, c.us_init) and not np.array_equal(a.x0, c.x0)
    assert [kind_of(number) for number in range(50)].count("hard") == 20
