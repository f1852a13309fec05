"""What `Solution.explain` says: for every end the right facts, and advice that fits."""

import re
from dataclasses import replace

import numpy as np
import pytest

import problems
from tests.trajopt.cases import cartpole, circle_pendulum, pendulum, tip
from tests.trajopt.systems import LinearSystem, Pendulum
from trajopt import (
    DDP,
    ILQR,
    CallableSystem,
    ControlBounds,
    ControlCost,
    ControlRateBounds,
    ControlRateCost,
    ControlRateSystem,
    LinearCost,
    Problem,
    ResidualConstraint,
    ResidualCost,
    Solution,
    StateBounds,
    StateCost,
    Status,
    compare,
    residual,
    total_cost,
    with_free_durations,
)
from trajopt.results.conflict import conflict
from trajopt.results.explanation import explain, lagrangian_gradient, term_values


class WrongDerivatives(Pendulum):
    def linearize(self, xs, us):
        fx, fu = super().linearize(xs, us)
        return fx, -fu


class NaNDerivatives(Pendulum):
    def linearize(self, xs, us):
        fx, fu = super().linearize(xs, us)
        fx[3] += np.where(np.abs(us[5]) > 1e-3, np.nan, 0.0)
        return fx, fu


class Wall(Pendulum):
    """Goes nowhere with any torque but zero."""

    def step(self, x, u):
        return super().step(x, u) + np.where(np.asarray(u)[..., :1] != 0.0, np.nan, 0.0)


def from_a_rollout(problem):
    """The solution by DDP from the states that the first controls lead to."""
    return DDP().solve(problem, xs=problem.system.rollout(problem.x0, problem.us_init))


def with_system(system, **options):
    return Problem(system, [0.3, 0.0], 20, [ControlCost(1e-3)], [StateCost(system, [1.0, 0.0], 50.0)], **options)


def limited():
    """Limits of torque and state that both press at the optimum."""
    p = pendulum()
    return replace(p, constraints=[ControlBounds(-2, 2), StateBounds(p.system, [-1.0, -np.inf], [1.0, 3.0])])


def impossible():
    """The angle is 0.3 and to be at least 1 after one step."""
    p = pendulum()
    return replace(p, constraints=[ControlBounds(-2, 2), StateBounds(p.system, [1.0, -np.inf], [2.0, 3.0])])


def interrupting(progress):
    raise KeyboardInterrupt


def uncontrolled():
    system = LinearSystem(np.eye(1), np.zeros((1, 2)))
    return Problem(system, [1.0], 3, [ControlCost([1.0, 0.0])], [StateCost(system, [0.0], 1.0)])


def diverging():
    system = LinearSystem(1e30 * np.eye(2), np.eye(2))
    return Problem(system, [1.0, 0.0], 20, [ControlCost(1.0)], [StateCost(system, [0, 0], 1.0)])


ENDS = {
    "converged": lambda: DDP().solve(tip()),
    "max_iterations": lambda: ILQR(max_iterations=2).solve(tip()),
    "line_search_failed": lambda: from_a_rollout(with_system(WrongDerivatives())),
    "not_positive_definite": lambda: ILQR(max_regularization=0.0).solve(uncontrolled()),
    "invalid_derivatives": lambda: DDP().solve(with_system(NaNDerivatives())),
    "not_finite": lambda: DDP().solve(with_system(Wall())),
    "diverged": lambda: DDP().solve(diverging()),
    "stopped_by_callback": lambda: DDP().solve(tip(), callback=lambda progress: True),
    "interrupted": lambda: DDP().solve(tip(), callback=interrupting),
    "time_limit": lambda: DDP().solve(tip(), time_limit=1e-9),
    "infeasible": lambda: DDP().solve(impossible()),
}
ADVICE = {
    "converged": [],
    "max_iterations": ["raise max_iterations (it was 2)", "warm_start=solution"],
    "line_search_failed": ["check_derivatives(system", "WrongDerivatives", "check_derivatives(cost"],
    "not_positive_definite": [
        "a trajopt.ControlCost",
        "convex in control 1 at",
        "max_regularization",
    ],
    "invalid_derivatives": ["check_derivatives", "another start"],
    "not_finite": ["limits or a barrier", "make it finite there"],
    "diverged": ["other controls", "xs=...", "time step"],
    "stopped_by_callback": ["warm_start=solution"],
    "interrupted": ["warm_start=solution"],
    "time_limit": ["warm_start=solution"],
    "infeasible": [
        "another way to meet 'state bounds'",
        "xs=np.linspace(x0, x_goal, 41)",
        "loosen 'state bounds' at knot",
        "loosen 'control bounds'",
        "longer horizon",
        "start from other controls: solver",
    ],
}

SHARED = {"check_derivatives", "xs=...", "another start", "other controls"}
"""Words of several pieces of advice."""


def text(solution, solver=None):
    """The explanation as one line."""
    return " ".join(solution.explain(solver).split())


def test_every_status_is_tried():
    assert set(ENDS) == set(ADVICE) == {str(status) for status in Status}


@pytest.mark.parametrize("status", ENDS)
def test_every_end_is_explained(status, tmp_path):
    """With its problem and, from a file, without it; facts and advice are those of this status alone."""
    solution = ENDS[status]()
    assert solution.status == status
    for known in (solution, Solution.load(solution.save(tmp_path / "end.npz"))):
        lines = known.explain().splitlines()
        assert lines[0].startswith(f"{status}: ") and all(0 < len(line) <= 100 for line in lines)
        assert text(known).startswith(f"{status}: {solution.message}")
        assert ("Try:" in text(known)) == bool(ADVICE[status])
        assert "nan" not in text(known)
    said = text(solution)
    assert all(advice in said for advice in ADVICE[status])
    elsewhere = {advice for others in ADVICE.values() for advice in others} - SHARED - set(ADVICE[status])
    assert not [advice for advice in elsewhere if advice in said]


def test_a_cause_is_named():
    slope = "fx[0, 0] of the dynamics, the slope of component 0 by component 0,"
    assert f"Not finite: {slope} is not finite at knot 3." in text(ENDS["invalid_derivatives"]())
    assert "Not finite: the state is Inf at knot 11." in text(ENDS["diverged"]())
    assert "Not finite: the state is NaN at knot 1 of the shortest step tried." in text(ENDS["not_finite"]())


# ------------------------------------------------------------------------------------------------ gradient and cost
def lagrangian(problem, solution, us):
    """J + sum lam'r along the rollout of us, r of control bounds being u and of state bounds the state."""
    xs = problem.system.rollout(problem.x0, us)
    value = total_cost(problem, xs, us)
    for constraint, report in zip(problem.constraints, solution.constraints, strict=True):
        if isinstance(constraint, ControlBounds):
            value += (report.multipliers * us).sum()
        else:
            value += (report.multipliers * constraint.residual.evaluate(xs[report.knots], None)).sum()
    return value


@pytest.mark.parametrize("make", [tip, cartpole, limited, circle_pendulum])
def test_gradient_of_the_lagrangian_by_differences(make):
    problem = make()
    solution = DDP(max_iterations=3).solve(problem)
    assert solution.consistent
    gradient, h = lagrangian_gradient(solution), 1e-5
    size = np.abs(gradient).max()
    for t in (0, 7, 39):
        step = np.zeros_like(solution.us)
        step[t] = h
        values = (lagrangian(problem, solution, solution.us + sign * step) for sign in (1.0, -1.0))
        scale = max(size, abs(lagrangian(problem, solution, solution.us)) * 1e-3)
        assert gradient[t, 0] == pytest.approx(np.subtract(*values) / (2 * h), abs=1e-5 * scale)


@pytest.mark.parametrize("control_limits", ["box", "augmented_lagrangian"])
def test_gradient_of_the_lagrangian_vanishes_where_constraints_press(control_limits):
    solution = DDP(control_limits=control_limits).solve(limited())
    assert solution.converged and all(report.active.any() for report in solution.constraints)
    pressing = max(np.abs(report.multipliers).max() for report in solution.constraints)
    assert np.abs(lagrangian_gradient(solution)).max() < 1e-6 * pressing
    free = replace(
        solution,
        constraints=tuple(r._replace(multipliers=np.zeros_like(r.multipliers)) for r in solution.constraints),
    )
    assert np.abs(lagrangian_gradient(free)).max() > 1e-4  # the multipliers make it vanish


def test_where_the_gradient_is_largest():
    solution = ILQR(max_iterations=2).solve(tip())
    gradient = np.abs(lagrangian_gradient(solution)[:, 0])
    assert gradient.max() == pytest.approx(solution.gradient_norm, rel=1e-12)
    expected = f"Largest gradient entry: {gradient.max():.2g}, of control 0 at knot {gradient.argmax()}."
    assert expected in text(solution)


def test_terms_add_up_to_the_cost_knot_by_knot(rng):
    p = cartpole()
    every_other = [[p.running_costs[0]] if t % 2 else [p.running_costs[1]] for t in range(p.horizon)]
    for problem in (p, replace(p, running_costs=every_other)):
        solution = ILQR(max_iterations=1).solve(problem)
        rows = [row for _, row in term_values(problem, solution.xs, solution.us)]
        assert np.sum(rows) == pytest.approx(solution.cost, rel=1e-13)
        t = 6  # an even knot
        costs = every_other[t] if problem is not p else p.running_costs
        at_knot = [c.value(solution.xs[t : t + 1], solution.us[t : t + 1])[0] for c in costs]
        assert np.sum(rows, axis=0)[t] == pytest.approx(problem.system.dt * sum(at_knot), rel=1e-13)


def test_shares_of_the_cost(rng):
    """Three terms of known size: 1/2 dt u^2 over four knots, twice in the state, on x = 1 throughout."""
    system = LinearSystem(np.eye(1), np.zeros((1, 1)), dt=0.5)
    running = [ControlCost(1.0), StateCost(system, [0.0], 2.0)]
    problem = Problem(system, [1.0], 4, running, [StateCost(system, [0.0], 10.0)], us_init=np.ones((4, 1)))
    said = text(ILQR(max_iterations=0).solve(problem))
    assert "Cost: terminal StateCost 62.5 %, StateCost 25 %, ControlCost 12.5 %" in said
    assert "the costliest knot is 4 (the last) with 62.5 %." in said


# ------------------------------------------------------------------------------------------------ states, constraints
def test_gaps_are_located():
    problem = tip()
    xs = np.tile([1.0, 0.0], (41, 1))
    xs[17, 1] += 5.0
    solution = ILQR(max_iterations=0).solve(problem, xs=xs)
    said = text(solution)
    assert "States do not follow from the controls yet: the largest gap to the dynamics is 5" in said
    assert "at knot 17, component 1." in said or "at knot 18, component 1." in said
    assert "States follow from the controls (largest gap 0)." in text(ILQR().solve(problem))


def test_constraints_are_counted():
    solution = DDP().solve(limited())
    for report in solution.constraints:
        knots = np.flatnonzero(report.active.any(axis=1))
        row = np.abs(report.multipliers).max(axis=1).argmax()
        expected = (
            f"active in 1 component at {len(knots)} of {len(report.knots)} knots, largest multiplier "
            f"{np.abs(report.multipliers).max():.2g}, of component 0 at knot {report.knots[row]}."
        )
        assert f"Constraint '{report.name}': largest violation {report.violation:.2g}" in text(solution)
        assert expected in text(solution)


def test_a_constraint_that_never_presses():
    p = pendulum()
    solution = DDP().solve(replace(p, constraints=[ControlBounds(-1e3, 1e3)]))
    assert "Constraint 'control bounds': largest violation 0; active nowhere." in text(solution)


def test_the_constraint_that_cannot_be_met_is_named():
    solution = ENDS["infeasible"]()
    bounds = solution.constraints[1]
    assert bounds.violation > 0.1
    said = text(solution)
    assert f"loosen 'state bounds' at knot {bounds.worst_knot}, where it is violated by {bounds.violation:.2g}" in said
    assert "Most at fault here: 'state bounds'" in said and "held back by" in said


def out_of_reach(**options):
    """A cart that is to go farther than its force allows in the time given."""
    system = CallableSystem(xdot=lambda x, u: (x[1], u[0]), nx=2, nu=1, dt=0.1)
    goal = StateBounds(system, [6.0, 0.0], [6.0, 0.0], at="terminal", name="goal")
    return Problem(system, [0.0, 0.0], 30, [ControlCost(1.0)], [], [ControlBounds(-2.0, 2.0), goal], **options)


def test_limits_that_hold_an_infeasible_motion_back_are_not_called_inactive(tmp_path):
    """All but one of the controls are at a limit, beyond which the violation would fall; to loosen it is the remedy."""
    solution = DDP().solve(out_of_reach())
    assert solution.status == "infeasible" and not solution.constraints[0].active.any()
    said = text(solution)
    assert "held back by 'control bounds' at 29 knots from 0 to 29." in said and "active nowhere" not in said
    assert "'control bounds': largest violation 0; holds the motion back in 1 component at 29 of 30 knots." in said
    assert "'goal': largest violation 0.7 at knot 30; cannot be met in 2 components at 1 of 1 knot." in said
    assert "Try: loosen 'control bounds', which stands in its way at 29 of 30 knots." in said
    assert "Try: a longer horizon" in said
    assert "in conflict at 29 knots" in str(solution) and "in conflict at 1 knot, violated by" in str(solution)
    loaded = Solution.load(solution.save(tmp_path / "end.npz"))
    assert "Try: loosen 'control bounds', which stands in its way at 29 of 30 knots." in text(loaded)


def test_the_weights_of_a_conflict_balance():
    """With those of limits, g = -nu, no control changes sum nu r: by differences along the rollout."""
    solution = DDP().solve(out_of_reach())
    bounds, goal = conflict(solution)
    system, us, h = solution.problem.system, solution.us, 1e-4

    def weighted(us):
        xs = system.rollout(solution.problem.x0, us)
        return (goal * (xs[-1:] - [6.0, 0.0])).sum() + (bounds * us).sum()

    for t in (0, 7, 14, 15, 29):
        step = np.zeros_like(us)
        step[t] = h
        slope = (weighted(us + step) - weighted(us - step)) / (2.0 * h)
        assert abs(slope) < 1e-6 * np.abs(goal).max()
    assert conflict(DDP().solve(limited())) == ()


def test_what_a_conflict_does_not_concern_has_no_part_in_it():
    """A wall before the goal, limits of controls that are reached because it is cheap, and another that is far away."""
    problem = out_of_reach()
    wall, far = (StateBounds(problem.system, upper=[x, np.inf], name=f"below {x:g}") for x in (1.0, 50.0))
    near = StateBounds(problem.system, [2.0, 0.0], [2.0, 0.0], at="terminal", name="goal")
    solution = DDP().solve(replace(problem, constraints=[ControlBounds(-4.0, 4.0), wall, far, near]))
    said = text(solution)
    assert solution.status == "infeasible"
    assert "'below 50': largest violation 0; no part in the conflict." in said and "loosen 'below 50'" not in said
    assert "loosen 'below 1'" in said and "loosen 'goal'" in said


def test_the_limit_of_a_duration_is_named_and_may_hold_back():
    problem = with_free_durations(replace(out_of_reach(), name="cart"), 1.0, bounds=(0.1, 0.9))
    assert [one.name for one in problem.constraints] == ["duration", "control bounds", "goal"]
    said = text(DDP().solve(problem))
    assert "'duration': largest violation 0; holds the motion back in 1 component at 1 of 31 knots." in said
    assert "Try: loosen 'duration', which stands in its way at 1 of 31 knots." in said
    named = replace(out_of_reach(), constraints=[ControlBounds(-2.0, 2.0, name="thrust")])
    assert [one.name for one in with_free_durations(named).constraints] == ["duration", "thrust"]


def test_limits_hold_back_where_the_initial_state_is_free():
    """The transcribed problem has knots in front, which no sentence shows."""
    solution = DDP().solve(out_of_reach(free_initial_state=([0.0, 0.0], [0.0, 0.1])))
    said = text(solution)
    assert solution.status == "infeasible"
    assert "'control bounds': largest violation 0; holds the motion back in 1 component at 29 of 30 knots." in said


def test_an_initial_state_that_violates_a_row_is_said_to():
    """Inside an obstacle that counts from the first step on; to let it count later is a remedy, and works."""
    problem = out_of_reach()
    problem = replace(problem, x0=[0.3, 0.0], constraints=[ControlBounds(-2.0, 2.0)])
    beyond = [*problem.constraints, StateBounds(problem.system, [1.0, -np.inf], name="beyond")]
    solution = DDP().solve(replace(problem, constraints=beyond))
    said = text(solution)
    assert solution.status == "infeasible" and "The initial state x0 itself violates 'beyond', by 0.7." in said
    later = re.search(r"Try: another x0, for this one violates 'beyond'; or .* as by at=slice\((\d+), None\)\.", said)
    assert later is not None
    at = slice(int(later[1]), None)
    beyond = [*problem.constraints, StateBounds(problem.system, [1.0, -np.inf], at=at, name="beyond")]
    assert DDP().solve(replace(problem, constraints=beyond)).converged
    assert "x0 itself" not in text(DDP().solve(out_of_reach()))
    both = residual(lambda x, u: (x[0], u[0]), 2, problem.system)
    rows = ResidualConstraint(both, [1.0, -2.0], [9.0, 2.0], name="both")
    assert "x0 itself violates 'both', by 0.7." in text(DDP().solve(replace(problem, constraints=[rows])))


def test_contradictory_rows_bring_up_only_what_can_apply():
    """No integrator where it is the best one already, and no momentum where there is no robot."""
    problem = out_of_reach()
    places = [
        ResidualConstraint(lambda x, place=place: (x[0] - place,), at="terminal", name=f"at {place:g}")
        for place in (1.0, 1.001)
    ]
    said = text(DDP().solve(replace(problem, constraints=places)))
    assert "Try: drop 1 row that follows from others" in said and "a feasibility_tolerance above" in said
    assert "momentum" not in said and "rk4" not in said
    coarse = CallableSystem(xdot=lambda x, u: (x[1], u[0]), nx=2, nu=1, dt=0.1, integrator="explicit_euler")
    said = text(DDP().solve(replace(problem, system=coarse, constraints=places)))
    assert "an integrator with smaller ones, such as 'rk4'." in said and "momentum" not in said


def test_soft_constraints_are_called_soft():
    """To ask for less of a feasibility_tolerance would change nothing; the penalty does, until limits press."""
    problem, missed = out_of_reach(), []
    near = StateBounds(problem.system, [2.0, 0.0], [2.0, 0.0], at="terminal", name="goal")
    for penalty in (10.0, 100.0):
        solver = DDP(soft_penalty=penalty)
        solution = solver.solve(replace(problem, constraints=[ControlBounds(-2.0, 2.0), near]))
        missed.append(solution.violation)
        costs = 0.5 * penalty * np.square(solution.xs[-1] - [2.0, 0.0]).sum()
        for said in (text(solution), text(solution, solver)):
            assert f"Constraints are soft: violations cost {costs:.3g}, which the cost above leaves out." in said
            assert f"Try: a larger soft_penalty (it was {penalty:g}): 'goal' is soft and missed by" in said
            assert "feasibility_tolerance" not in said
    assert missed[1] == pytest.approx(0.1 * missed[0], rel=0.3)
    assert "soft" not in text(DDP().solve(replace(problem, constraints=[near])))


def test_infeasible_is_a_local_verdict():
    """It is of the place where a solve ended, and said so wherever it is said; the start that is advised is one."""
    solution, problem = ENDS["infeasible"](), impossible()
    assert solution.status == "infeasible" and "locally infeasible: near this trajectory" in solution.message
    assert "From another start they may be met" in text(solution) and "contradict" not in text(solution)
    assert "infeasible, near this trajectory" in str(solution)
    comparison = " ".join(str(compare(problem, {"ddp": DDP()})).split())
    assert "ddp: infeasible near the trajectory where it ended, see explain() for other starts" in comparison
    assert DDP(max_iterations=1).solve(problem, xs=np.linspace(problem.x0, [1.5, 0.0], 41)).iterations == 1
    goal = np.array([np.cos(2.0), np.sin(2.0), 0.0])
    p = circle_pendulum()
    outside = StateBounds(p.system, [2.0, -np.inf], [3.0, np.inf], reference=goal, name="there")
    turning = DDP(max_iterations=200).solve(replace(p, constraints=[ControlBounds(-1e-3, 1e-3), outside]))
    assert turning.status == "infeasible"
    line = "xs=[system.integrate(x0, s * system.difference(x0, x_goal)) for s in np.linspace(0, 1, 41)]"
    assert line in text(turning)
    names = {"system": p.system, "x0": p.x0, "x_goal": goal, "np": np}
    assert p.system.difference(eval(line.removeprefix("xs="), names)[-1], goal) == pytest.approx(0.0, abs=1e-12)


# ------------------------------------------------------------------------------------------------ without effect
def saturated(x, u):
    """A pendulum whose torque is clipped, beside a lamp that nothing depends on."""
    return x[0] + 0.05 * x[1], x[1] + 0.05 * (15.0 * np.sin(x[0]) + 3.0 * np.clip(u[0], -2.0, 2.0))


def test_a_control_that_moves_nothing_is_named():
    """A torque beyond where the dynamics clip it: the solve has nothing to change, and says why."""
    system = CallableSystem(saturated, nx=2, nu=1, dt=0.05)
    far = np.full((100, 1), 5.0)
    problem = Problem(system, [np.pi, 0.0], 100, [StateCost(system, [0.0, 0.0], 1.0)], us_init=far)
    solution = DDP().solve(problem)
    assert solution.converged and not system.linearize(solution.xs, solution.us)[1].any()
    assert "Without effect: control 0, the only one, moves nothing along this trajectory" in text(solution)
    near = DDP(max_iterations=3).solve(replace(problem, us_init=0.1 * far))
    assert "Without effect" not in text(near)


def test_one_of_several_controls_moves_nothing():
    """A cost of its own does not make it one that acts; a cost or a row that reads it with a state does."""
    names = ["torque", "lamp"]
    system = CallableSystem(saturated, nx=2, nu=2, dt=0.05, control_names=names)
    costs = [StateCost(system, [0.0, 0.0], 1.0), ControlCost(1e-2)]
    problem = Problem(system, [1.0, 0.0], 10, costs, constraints=[ControlBounds(-3.0, 3.0)])
    assert "Without effect: 'lamp' moves nothing" in text(DDP().solve(problem))
    slack = residual(lambda x, u: (x[0] - u[1],), 1, system)
    for coupled in (replace(problem, running_costs=[*costs, ResidualCost(slack, 1.0)]),
                    replace(problem, constraints=[ResidualConstraint(slack, upper=2.0)])):  # fmt: skip
        assert "Without effect" not in text(DDP(max_iterations=3).solve(coupled))
    rates = ControlRateSystem(system)
    lifted = [*map(rates.lift, costs), ControlRateCost(rates, 1e-3)]
    remembered = Problem(rates, rates.state([1.0, 0.0]), 10, lifted, constraints=[ControlRateBounds(rates, -9.0, 9.0)])
    assert "Without effect: 'lamp' moves nothing" in text(DDP(max_iterations=3).solve(remembered))


@pytest.mark.parametrize("name", ["car_minimum_time", "quadruped_stand", "cartpole"])
def test_controls_of_ordinary_problems_have_an_effect(name):
    """Those that set durations at single knots too."""
    assert "Without effect" not in text(DDP(max_iterations=1).solve(problems.make(name)))


# ------------------------------------------------------------------------------------------------ steps, options
def test_steps_are_counted():
    for solution in (DDP().solve(tip()), DDP().solve(limited())):
        accepted = [r for r in solution.log if r.alpha > 0.0]
        exact = sum(r.step == "exact" for r in accepted)
        said = text(solution)
        assert f"{len(accepted) - exact} Gauss-Newton, {exact} exact, of {solution.iterations} tried" in said
        assert f"the shortest had length {min(r.alpha for r in accepted):.2g}" in said
    assert "Steps taken: none, of" in text(ENDS["line_search_failed"]())


def test_repairs_of_quu_are_reported():
    system = LinearSystem(np.eye(2), [[1.0, 0.0], [0.0, 0.0]])
    problem = Problem(system, [1.0, 1.0], 5, [ControlCost([1.0, 0.0])], [StateCost(system, [0, 0], 1.0)])
    solution = DDP().solve(problem)
    repaired = [r for r in solution.log if r.indefinite_knot >= 0]
    assert repaired
    plural = "" if len(repaired) == 1 else "s"
    expected = (
        f"Quu was not positive definite in {len(repaired)} iteration{plural} and was repaired, the last time at knot"
    )
    assert expected in text(solution) and "mu rose to 1e-06" in text(solution)
    assert "Quu was not" not in text(ILQR().solve(pendulum()))
    without = tuple(record._replace(mu=0.0) for record in solution.log)  # repaired by another kind of step
    said = text(replace(solution, log=without))
    assert "was repaired, the last time at knot" in said and "mu rose" not in said


def test_the_solver_adds_its_limit_and_its_tolerance():
    solver = ILQR(max_regularization=0.0)
    solution = solver.solve(uncontrolled())
    assert "a larger max_regularization than 0" in text(solution, solver) and "than 0" not in text(solution)
    unfinished = ILQR(max_iterations=2, tolerance=1e-7)
    assert "the tolerance is 1e-07" in text(unfinished.solve(tip()), unfinished)
    with pytest.raises(TypeError, match="solver: got str"):
        explain(solution, "ilqr")


def test_gaps_that_stay_open_bring_up_another_start():
    """And larger first mu, advice that a solver which has followed it takes back."""
    solution = ILQR(max_regularization=0.0).solve(uncontrolled())
    apart = replace(solution, gaps=np.full_like(solution.gaps, 0.1))
    assert "start from other controls" in text(apart) and "start from other controls" not in text(solution)
    assert "initial_regularization=1.0" in text(apart)
    assert "initial_regularization=1.0" not in text(apart, ILQR(initial_regularization=1.0))


def test_advice_after_the_iteration_limit_depends_on_what_is_left():
    slow = ILQR(max_iterations=25, tolerance=0.0, absolute_tolerance=0.0).solve(tip())
    assert slow.status == "max_iterations" and slow.log[-1].predicted_decrease < 1e-9 * slow.cost
    assert "what is left to gain is a small part of the cost" in text(slow) and "trajopt.DDP" in text(slow)
    early = ILQR(max_iterations=1).solve(tip())
    assert "accept it" not in text(early) and "trajopt.DDP" not in text(early)
    violated = DDP(max_iterations=1).solve(limited())
    assert violated.violation > 1e-2
    assert f"'state bounds', which is violated at knot {violated.constraints[1].worst_knot}" in text(violated)


def test_a_line_search_at_the_rounding_of_the_cost_is_no_wrong_derivative():
    """The promise that counts is that of the smallest mu tried since the last accepted step, not the larger ones."""
    failed = ENDS["line_search_failed"]()
    assert failed.log[-1].predicted_decrease < 1e-9 * failed.cost < failed.log[0].predicted_decrease
    log = tuple(r._replace(predicted_decrease=1e-9 * failed.cost) for r in failed.log)
    assert "Try: a larger tolerance" in text(replace(failed, log=log)) and "larger tolerance" not in text(failed)
    assert "check_derivatives" not in text(replace(failed, log=log))


def catalyst():
    """A mixture of catalysts along a reactor [Jackson 1968]: a singular arc between two limits, without a cost of
    controls."""

    def xdot(x, u):
        return u[0] * (10.0 * x[1] - x[0]), u[0] * (x[0] - 10.0 * x[1]) - (1.0 - u[0]) * x[1]

    system = CallableSystem(xdot=xdot, nx=2, nu=1, dt=0.12)
    costs = [LinearCost(states=[1.0, 1.0])]
    return Problem(system, [1.0, 0.0], 100, [], costs, [ControlBounds(0.0, 1.0)])


def test_an_optimum_to_rounding_is_called_one_whatever_mu():
    """A line search that fails where the gradient vanishes and nothing is promised is no sign of wrong derivatives."""
    solution = ILQR(max_iterations=300).solve(catalyst())
    assert np.abs(lagrangian_gradient(solution)).max() < 1e-6
    last = solution.log[-1]._replace(mu=1e-2, predicted_decrease=1e-13 * solution.cost)
    failed = Status.LINE_SEARCH_FAILED
    ended = replace(solution, status=failed, message=failed.message, log=(*solution.log[:-1], last))
    assert "Try: take it as it is: the gradient vanishes to rounding" in text(ended)
    assert "derivatives(" not in text(ended) and "kinks" not in text(ended)
    moved = replace(ended, us=np.clip(ended.us + 0.1, 0.0, 1.0))
    assert "as it is" not in text(moved) and "Try: start from other controls" in text(moved)
    assert "as it is" not in text(replace(ended, log=(last._replace(predicted_decrease=1e-3),)))


def test_traced_derivatives_are_not_suspected():
    """Nor those of the library; those of a user's residual are, and differences."""
    problem = with_system(CallableSystem(xdot=lambda x, u: (x[1], u[0] - np.sin(x[0])), nx=2, nu=1, dt=0.05))
    failed = dict(status=Status.LINE_SEARCH_FAILED, message="")
    solution = replace(DDP(max_iterations=1).solve(problem), **failed)
    said = text(solution)
    assert "check_derivatives" not in said and "kinks" not in said and "Try: start from other controls" in said
    by_differences = residual(lambda x: (x[0] - 1.0,), 1, problem.system, derivatives="finite_differences")
    costs = [*problem.running_costs, ResidualCost(by_differences, 1.0)]
    said = text(replace(DDP(max_iterations=1).solve(replace(problem, running_costs=costs)), **failed))
    assert "check_derivatives(cost" in said and "check_derivatives(system" not in said
    limited = replace(problem, constraints=[ResidualConstraint(by_differences, upper=9.0, name="near")])
    said = text(replace(DDP(max_iterations=1).solve(limited), **failed))
    assert "check_derivatives(residual" in said and "check_derivatives(cost" not in said


def test_a_cost_without_a_lower_bound_is_called_so():
    """More iterations would be in vain."""
    system = CallableSystem(xdot=lambda x, u: (x[1], u[0]), nx=2, nu=1, dt=0.1)
    solution = DDP(max_iterations=40).solve(Problem(system, [0.0, 0.0], 20, [LinearCost(controls=1.0)]))
    assert solution.status == "max_iterations" and solution.cost < -1e7
    said = text(solution)
    assert "the cost fell from 0 to" in said and "as if it had no lower bound" in said
    assert "raise max_iterations" not in said and "number 0 of the state reaches" in said
    bounded = Problem(system, [0.0, 0.0], 20, [LinearCost(controls=1.0)], constraints=[ControlBounds(-1.0, 1.0)])
    assert "no lower bound" not in text(DDP(max_iterations=1).solve(bounded))


def investing(x, u):
    """Capital, minus its discounted yield, and time: what is invested beyond all measure pays."""
    return u[0] - 0.2 * x[0], -np.exp(-0.1 * x[2]) * (x[0] - u[0] - u[0] ** 2 / x[0]), 1.0


def test_a_cost_that_fell_less_than_it_promises_is_without_a_lower_bound():
    """A first step that promises much, as where curvature is nearly zero, hides nothing."""
    system = CallableSystem(xdot=investing, nx=3, nu=1, dt=0.5, x_example=[1.0, 0.0, 0.0], u_example=[0.1])
    costs = [LinearCost(states=[0.0, 1.0, 0.0])]
    solution = DDP().solve(Problem(system, [1.0, 0.0, 0.0], 40, [], costs, us_init=np.full((40, 1), 0.2)))
    assert solution.status == "line_search_failed" and solution.cost < -1e4
    said = text(solution)
    assert "trajopt.ControlBounds on what runs away: the cost fell from -6.57 to" in said
    assert "kink" not in said and "check_derivatives" not in said and "fx[" not in said


def tyre(x, u):
    """Sideways position, speed ahead and sideways of a wheel, whose slip angle is undefined where it stands."""
    force = 30.0 * np.sin(1.4 * np.arctan(12.0 * np.arctan2(x[2], x[1])))
    return x[2], u[0], u[1] - force


@pytest.mark.parametrize(("speed", "knot"), [(0.0, 1), (1e-6, 0)])
def test_a_model_that_is_singular_at_rest_is_called_so(speed, knot):
    """The entry of fx and its knot are named in place of what cannot help."""
    system = CallableSystem(xdot=tyre, nx=3, nu=2, dt=0.02, x_example=[0.0, 1.0, 0.0])
    goal = StateCost(system, [0.3, 1.0, 0.0], [100.0, 10.0, 1.0])
    us = np.tile([1.0, 0.0], (40, 1))
    solution = DDP().solve(Problem(system, [0.0, speed, 0.0], 40, [ControlCost([0.1, 1.0])], [goal]), us=us)
    assert solution.status in ("line_search_failed", "not_positive_definite")
    fx = np.abs(system.linearize(solution.xs, solution.us)[0])
    assert np.unravel_index(fx.argmax(), fx.shape) == (knot, 2, 2) and fx.max() > 1e6
    said = text(solution)
    assert "singular" in said and "fx[2, 2] of the dynamics" in said and f"is {fx.max():.2g} at knot {knot}" in said
    assert "max_regularization" not in said and "kink" not in said and "scale costs" not in said


def test_kinks_are_looked_for_where_there_may_be_some():
    """In functions with conditions, in those that were not traced, in a user's classes, and in nearest points."""
    failed, system = dict(status=Status.LINE_SEARCH_FAILED, message=""), with_system(Pendulum()).system
    smooth = CallableSystem(lambda x, u: (x[0] + 0.1 * x[1], x[1] + 0.1 * u[0] / (1.0 + x[0] ** 2)), nx=2, nu=1, dt=0.1)
    kinked = {
        "abs": lambda x: (abs(x[0]),), "condition": lambda x: (x[0] if x[0] > 0.3 else 2.0 * x[0],),
        "clip": lambda x: (np.clip(x[1], -1.0, 1.0),), "wrap": lambda x: (x[0] % 2.0,),
        "norm": lambda x: (np.sqrt(x[0] ** 2 + x[1] ** 2),),
    }  # fmt: skip
    one = DDP(max_iterations=1).solve(with_system(smooth))
    assert not smooth.may_have_kinks and "kinks" not in text(replace(one, **failed))
    for name, function in kinked.items():
        r = residual(function, 1, smooth)
        assert r.may_have_kinks and r.derivative_source == "traced", name
        costs = [*one.problem.running_costs, ResidualCost(r, 1.0)]
        solution = replace(DDP(max_iterations=1).solve(replace(one.problem, running_costs=costs)), **failed)
        assert "smooth what has kinks" in text(solution), name
    assert not residual(lambda x: (np.sqrt(0.1 + x[0] ** 2), x[1] ** 3, 0.0), 3, smooth).may_have_kinks
    assert residual(lambda x: (x[0],), 1, smooth, derivatives="finite_differences").may_have_kinks
    assert "smooth what has kinks" in text(replace(DDP(max_iterations=1).solve(with_system(system)), **failed))


def test_units_that_are_far_apart_are_named_where_constraints_are_not_met():
    system = CallableSystem(xdot=lambda x, u: (x[1], u[0]), nx=2, nu=1, dt=1.0)
    problem = Problem(system, [0.0, 0.0], 10, [ControlCost(1.0)], [], [StateBounds(system, 1e4, 1e4, at="terminal")])
    solution = DDP(max_iterations=1).solve(problem)
    xs = solution.xs.copy()
    xs[:, 0], xs[:, 1] = 7e5, 2.0
    far = replace(solution, xs=xs, status=Status.LINE_SEARCH_FAILED)
    assert solution.violation > 1.0
    assert "similar size: component 0 reaches 7e+05, component 1 reaches 2" in text(far)
    xs[:, 0] = 7e3
    assert "similar size" not in text(replace(far, xs=xs))


def test_a_failed_line_search_far_away_brings_up_the_range_of_the_model():
    """The cost need not have fallen below zero: a state of 1e8 is enough."""
    problem = with_system(CallableSystem(xdot=lambda x, u: (x[1], u[0]), nx=2, nu=1, dt=0.05))
    solution = replace(DDP(max_iterations=1).solve(problem), status=Status.LINE_SEARCH_FAILED)
    assert "may no longer hold" not in text(solution)
    far = solution.xs.copy()
    far[10, 1] = 1e8
    assert "number 1 of the state reaches 1e+08, where the model may no longer hold" in text(replace(solution, xs=far))


class OnLegs(Pendulum):
    """A pendulum that would rather start from states."""

    start_advice, tangent_units, tangent_names = "states of a gait", ("rad", "rad/s"), ("knee", "knee velocity")


def test_states_that_a_system_advises_are_named_where_a_solve_went_without():
    """Not after a few steps to where it should go, and not where states were given; but where an angle turned over."""
    problem, advice = with_system(OnLegs()), "Try: start from states of a gait"
    well = DDP().solve(problem)
    assert well.converged and advice not in text(well)
    short = DDP(max_iterations=1)
    assert f"{advice}." in text(short.solve(problem))
    xs = np.linspace([0.3, 0.0], [1.0, 0.0], 21)
    started = short.solve(problem, xs=xs), short.solve(replace(problem, xs_init=xs))
    started += (short.solve(problem, warm_start=well),)
    assert not any(advice in text(solution) for solution in started)
    around = well.xs.copy()
    around[12, 0] += 5.0
    assert f"{advice}: 'knee' turned over," in text(replace(well, xs=around))
    assert "from its start at knot 12" in text(replace(well, xs=around))
