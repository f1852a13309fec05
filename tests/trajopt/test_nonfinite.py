"""Numbers that are not finite: the solution says where they are."""

import numpy as np
import pytest

from tests.trajopt.cases import pendulum
from tests.trajopt.systems import LinearSystem, Pendulum, TipResidual
from trajopt import (
    DDP,
    ILQR,
    ControlBounds,
    ControlCost,
    Problem,
    ResidualConstraint,
    ResidualCost,
    StateBounds,
    StateCost,
)
from trajopt.solvers.solver import HESSIANS

SOLVERS = {"ilqr": ILQR(), **{hessian: DDP(hessian=hessian) for hessian in HESSIANS}}
KNOT = 37


def assert_finite(solution):
    for name in ("xs", "us", "k", "K", "Vx", "Vxx", "gaps"):
        assert np.isfinite(getattr(solution, name)).all(), name


class Spoilt(TipResidual):
    """A residual that is bad at knot 37, everywhere or only where the pendulum swings."""

    name = "tip of the rod"

    def __init__(self, bad=np.nan, where="evaluate", angle=-np.inf):
        super().__init__()
        self.bad, self.where, self.angle = bad, where, angle

    def _spoil(self, where, array, xs):
        if where == self.where and len(xs) > KNOT and xs[KNOT, 0] > self.angle:
            array = array.copy()
            array[KNOT] = self.bad
        return array

    def evaluate(self, xs, us):
        return self._spoil("evaluate", super().evaluate(xs, us), xs)

    def jacobians(self, xs, us):
        rx, ru = super().jacobians(xs, us)
        return self._spoil("rx", rx, xs), None if ru is None else self._spoil("ru", ru, xs)

    def hessian_products(self, xs, us, mu):
        Hxx, Hux, Huu = super().hessian_products(xs, us, mu)
        return self._spoil("Hxx", Hxx, xs), Hux, Huu


def problem(residual=None, system=None, constraints=()):
    system = system or Pendulum()
    costs = [ControlCost(1e-2), *([] if residual is None else [ResidualCost(residual, 0.1)])]
    return Problem(system, [0.3, 0.0], 40, costs, [StateCost(system, [np.pi, 0.0], [50.0, 5.0])], constraints)


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize(("bad", "name"), [(np.nan, "NaN"), (np.inf, "Inf"), (-np.inf, "Inf")])
def test_a_cost_that_is_not_finite_from_the_start(solver, bad, name):
    solution = SOLVERS[solver].solve(problem(Spoilt(bad)))
    assert solution.status == "diverged" and solution.iterations == 0 and solution.cost == np.inf
    assert solution.cause == f"cost term 'tip of the rod' is {name} at knot 37"
    assert_finite(solution)


def test_the_terminal_cost_is_named_by_its_knot():
    class Last(StateCost):
        def value(self, xs, us):
            return np.full(len(xs), np.nan)

    system = Pendulum()
    solution = DDP().solve(Problem(system, [0.3, 0.0], 40, [ControlCost(1.0)], [Last(system, [0, 0], 1.0)]))
    assert solution.status == "diverged" and solution.cause == "cost term 'Last' is NaN at knot 40"


def test_costs_of_some_knots_are_named_by_the_knot_not_the_row():
    class Sometimes(ControlCost):
        def value(self, xs, us):
            values = super().value(xs, us)
            values[2] = np.nan
            return values

    system, bad, good = Pendulum(), Sometimes(1.0), ControlCost(1.0)
    costs = [[good, bad] if t >= 5 else [good] for t in range(10)]
    solution = DDP().solve(Problem(system, [0.3, 0.0], 10, costs, []))
    assert solution.cause == "cost term 'Sometimes' is NaN at knot 7"


@pytest.mark.parametrize("solver", SOLVERS)
def test_candidates_with_a_cost_that_is_not_finite_are_refused(solver):
    """Bad only beyond an angle at knot 37: the solve stays on this side of it, or ends with a name."""
    solution = SOLVERS[solver].solve(problem(Spoilt(angle=2.0)))
    assert solution.status != "diverged" and solution.cost < solution.log[0].cost
    assert solution.xs[KNOT, 0] <= 2.0
    assert_finite(solution)


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize(
    ("where", "cause"),
    [("rx", "lx[0] of cost term 'tip of the rod' is not finite at knot 37"),
     ("ru", "lu[0] of cost term 'tip of the rod' is not finite at knot 37")],
)  # fmt: skip
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_derivatives_of_a_cost(where, cause, bad, solver):
    solution = SOLVERS[solver].solve(problem(Spoilt(bad, where)))
    assert solution.status == "invalid_derivatives" and solution.cause == cause
    assert solution.iterations == 0 and np.isfinite(solution.cost)
    assert_finite(solution)


@pytest.mark.parametrize("solver", SOLVERS)
def test_derivatives_of_a_cost_later_on(solver):
    """Bad only where a first step leads: the iterate before is not lost, and the cause is found there."""
    solution = SOLVERS[solver].solve(problem(Spoilt(np.nan, "rx", angle=1.5)))
    assert solution.status == "invalid_derivatives" and solution.iterations > 0
    assert solution.cause == "lx[0] of cost term 'tip of the rod' is not finite at knot 37"
    assert solution.cost < solution.log[0].cost
    assert_finite(solution)


class SpoiltBlock(ControlCost):
    """One block of its gradient and Hessian is bad at one knot."""

    def __init__(self, block, knot):
        super().__init__(1e-2)
        self.block, self.knot = block, knot

    def accumulate(self, xs, us, scale, target):
        super().accumulate(xs, us, scale, target)
        getattr(target, self.block)[self.knot] = np.nan


@pytest.mark.parametrize("solver", ["ilqr", "parallel", "tensor"])
@pytest.mark.parametrize("knot", [0, KNOT])
@pytest.mark.parametrize("block", ["lx", "lu", "lxx", "lux", "luu"])
@pytest.mark.parametrize("constraints", [(), (ControlBounds(-5.0, 5.0),)])
def test_every_block_of_a_cost(solver, knot, block, constraints):
    """A Hessian that is not finite is no lack of definiteness, at the first knot too, which no sweep goes beyond."""
    system = Pendulum()
    costs = [SpoiltBlock(block, knot)], [StateCost(system, [np.pi, 0.0], [50.0, 5.0])]
    solution = SOLVERS[solver].solve(Problem(system, [0.3, 0.0], 40, *costs, constraints))
    assert solution.status == "invalid_derivatives"
    entry = "[0]" if len(block) == 2 else "[0, 0]"
    assert solution.cause == f"{block}{entry} of cost term 'SpoiltBlock' is not finite at knot {knot}"
    assert all(np.isfinite(report.multipliers).all() for report in solution.constraints)
    assert_finite(solution)


@pytest.mark.parametrize("hessian", HESSIANS)
def test_curvature_that_is_not_finite_is_left_out(hessian):
    """And named, although the optimum is found without."""
    solution = DDP(hessian=hessian).solve(problem(Spoilt(np.nan, "Hxx")))
    assert solution.converged and {record.step for record in solution.log} == {"gauss_newton"}
    assert any(record.indefinite_knot >= 0 for record in solution.log)
    term = "lxx[0, 0] of the curvature of cost term 'tip of the rod'"
    assert solution.cause == f"{term} is not finite at knot 37, so the last step does without curvature"
    assert f"Not finite: {solution.cause}." in " ".join(solution.explain().split())
    assert_finite(solution)


class SpoiltHessians(Pendulum):
    """Second derivatives of the dynamics that are bad at knot 37, or at the only one."""

    def hessians(self, xs, us):
        found = super().hessians(xs, us)
        found[0][min(KNOT, len(us) - 1)] = np.nan
        return found


@pytest.mark.parametrize("hessian", HESSIANS)
def test_curvature_of_the_dynamics(hessian):
    solution = DDP(hessian=hessian).solve(problem(system=SpoiltHessians()))
    assert solution.converged and {record.step for record in solution.log} == {"gauss_newton"}
    assert solution.cause.startswith("Hxx[0, 0] of the dynamics is not finite at knot 37")
    assert_finite(solution)


class Wall(Pendulum):
    """Goes nowhere from angles beyond 2, or with any torque but zero."""

    torque = np.inf

    def step(self, x, u):
        beyond = (np.asarray(x)[..., :1] > 2.0) | (np.abs(np.asarray(u)[..., :1]) > self.torque)
        return super().step(x, u) + np.where(beyond, np.nan, 0.0)


@pytest.mark.parametrize("solver", SOLVERS)
def test_a_wall_that_every_step_runs_into(solver):
    """Downhill leads to where nothing is finite: no blame on derivatives, which are right, and the best iterate."""
    for spoilt, cause in (
        (problem(Spoilt(angle=2.0)), "cost term 'tip of the rod' is NaN at knot 37"),
        (problem(Spoilt(np.inf, angle=2.0)), "cost term 'tip of the rod' is Inf at knot 37"),
        (problem(system=Wall()), "the state is NaN at knot 40"),
    ):
        solution = SOLVERS[solver].solve(spoilt)
        assert solution.status == "not_finite" and solution.cause == f"{cause} of the shortest step tried"
        assert solution.cost < solution.log[0].cost
        said = " ".join(solution.explain().split())
        assert f"Not finite: {cause}" in said and "derivatives" not in said and "larger tolerance" not in said
        assert_finite(solution)
    system = Wall()
    system.torque = 0.0
    solution = SOLVERS[solver].solve(problem(system=system))
    assert solution.status == "not_finite" and solution.cause.startswith("the state is NaN at knot 1")


def test_plans_are_consistent_where_gaps_cannot_be_closed():
    """The held initial state is cheaper than a fall, and no step closes its gaps: the fall is what is returned."""
    system = Wall()
    system.torque, system.implicit_step = 0.0, "midpoint, dt = 0.05 s"
    near = StateCost(system, [1.01, 0.0], [50.0, 5.0])
    solution = DDP().solve(Problem(system, [1.0, 0.0], 40, [ControlCost(1e-2)], [near]))
    assert solution.status == "not_finite" and solution.consistent
    np.testing.assert_array_equal(solution.xs, system.rollout(solution.xs[0], solution.us))
    assert solution.cause.endswith("implicit step from knot 0 (midpoint, dt = 0.05 s) has found no solution")
    assert_finite(solution)


def test_long_steps_that_diverge_are_no_excuse():
    """Wrong derivatives stay what is blamed where short steps are finite; and a step found after longer ones that
    diverged leaves no cause."""

    class WrongWall(Wall):
        def linearize(self, xs, us):
            fx, fu = super().linearize(xs, us)
            return fx, -fu

    system = WrongWall()
    system.torque = 5.0
    solution = ILQR().solve(problem(system=system))
    assert solution.status == "line_search_failed" and solution.cause == ""
    system = Wall()
    system.torque = 5.0
    target = Problem(system, [0.3, 0.0], 40, [ControlCost(1e-4)], [StateCost(system, [1.5, 0.0], [50.0, 5.0])])
    solution = DDP().solve(target)
    assert solution.converged and solution.log[0].alpha < 1.0 and solution.cause == ""


@pytest.mark.parametrize("solver", ["ilqr", "parallel"])
def test_rounds_for_constraints_end_at_the_wall(solver):
    """What the last round met is not called a constraint that cannot be met."""
    limit = StateBounds(Pendulum(), [2.5, -np.inf], [np.inf, np.inf], at="terminal")
    solution = SOLVERS[solver].solve(problem(system=Wall(), constraints=[limit]))
    assert solution.status == "not_finite" and solution.violation > 0.1
    assert solution.cause == "the state is NaN at knot 40 of the shortest step tried"
    assert_finite(solution)


class SpoiltSystem(Pendulum):
    """Derivatives of the dynamics that are bad at knot 37."""

    which = "fx"

    def linearize(self, xs, us):
        fx, fu = super().linearize(xs, us)
        (fx if self.which == "fx" else fu)[KNOT, 1] = np.nan
        return fx, fu


@pytest.mark.parametrize("which", ["fx", "fu"])
@pytest.mark.parametrize("solver", ["ilqr", "parallel", "tensor"])
def test_derivatives_of_the_dynamics(solver, which):
    system = SpoiltSystem()
    system.which = which
    solution = SOLVERS[solver].solve(problem(system=system))
    assert solution.status == "invalid_derivatives"
    by = "component" if which == "fx" else "control"
    slope = f"{which}[1, 0] of the dynamics, the slope of component 1 by {by} 0,"
    assert solution.cause == f"{slope} is not finite at knot 37"
    assert_finite(solution)


@pytest.mark.parametrize("solver", SOLVERS)
def test_dynamics_that_diverge(solver):
    system = LinearSystem(1e30 * np.eye(2), np.eye(2))
    diverging = Problem(system, [1.0, 0.0], 20, [ControlCost(1.0)], [StateCost(system, [0, 0], 1.0)])
    solution = SOLVERS[solver].solve(diverging)
    assert solution.status == "diverged" and solution.cause == "the state is Inf at knot 11"
    assert_finite(solution)


@pytest.mark.parametrize("solver", SOLVERS)
def test_states_from_which_the_dynamics_are_not_finite(solver):
    xs = np.zeros((41, 2))
    xs[KNOT, 0] = 10.0
    solution = SOLVERS[solver].solve(problem(system=Wall()), xs=xs)
    assert solution.status == "diverged" and solution.cause == "the step of the dynamics is not finite at knot 37"
    assert_finite(solution)


def test_huge_controls_overflow_the_sum():
    solution = DDP().solve(pendulum(), us=np.full((40, 1), 1e160))
    assert solution.status == "diverged" and "Inf" in solution.cause
    assert_finite(solution)


@pytest.mark.parametrize("solver", ["ilqr", "parallel"])
@pytest.mark.parametrize(("where", "what"), [("evaluate", "is NaN"), ("rx", "is not finite"), ("ru", "is not finite")])
def test_constraints(where, what, solver):
    """From the start: the term is named as the constraint is, the knot is the right one."""
    limit = ResidualConstraint(Spoilt(np.nan, where), -np.inf, [0.5, 0.5, 0.5], name="limit of the tip")
    solution = SOLVERS[solver].solve(problem(constraints=[limit]))
    assert solution.status == ("diverged" if where == "evaluate" else "invalid_derivatives")
    assert where == "evaluate" or f"{where}[0, 0] of" in solution.cause
    assert "limit of the tip" in solution.cause and what in solution.cause and "knot 37" in solution.cause
    assert_finite(solution)


@pytest.mark.parametrize("solver", ["ilqr", "parallel"])
def test_constraints_later_on(solver):
    limit = ResidualConstraint(Spoilt(np.nan, angle=2.0), -np.inf, [0.9, 0.9, 9.0], name="limit of the tip")
    solution = SOLVERS[solver].solve(problem(constraints=[limit]))
    assert np.isfinite(solution.cost) and solution.xs[KNOT, 0] <= 2.0
    assert_finite(solution)


def test_the_cause_is_empty_where_all_is_well():
    assert DDP().solve(problem()).cause == ""
