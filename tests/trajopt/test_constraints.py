"""What constraints accept, the knots they hold at, and the residuals that come with them."""

import numpy as np
import pytest

from tests.trajopt.systems import CirclePendulum, Pendulum, TipResidual
from trajopt import (
    DDP,
    ConstraintReport,
    ControlBounds,
    ControlCost,
    ControlResidual,
    Problem,
    ResidualConstraint,
    StateBounds,
    StateResidual,
)
from trajopt.problem.objective import zero_blocks
from trajopt.rows import pack

SYSTEM = Pendulum()
TIP = TipResidual()


class Incomplete:
    nr = 1

    def evaluate(self, xs, us):
        return xs[:, :1]


class Sized(TipResidual):
    def __init__(self, nr):
        super().__init__()
        self.nr = nr


@pytest.mark.parametrize(
    ("make", "error", "match"),
    [
        (lambda: ResidualConstraint(3), TypeError, "residual: int has no method 'evaluate'"),
        (lambda: ResidualConstraint(Incomplete()), TypeError, "residual: Incomplete has no method 'jacobians'"),
        (lambda: ResidualConstraint(Sized(0)), ValueError, "residual.nr: got 0, expected an integer >= 1"),
        (lambda: ResidualConstraint(Sized(2.0)), TypeError, "residual.nr: got 2.0"),
        (lambda: ResidualConstraint(TIP, 1.0, -1.0), ValueError, "TipResidual: got lower 1.0 and upper -1.0, expected"),
        (lambda: ResidualConstraint(TIP, 0.0, [1, -1, 1], name="box"), ValueError, r"box: .* at \(1,\), expected"),
        (lambda: ResidualConstraint(TIP, np.nan, 1.0), ValueError, "lower: got nan"),
        (lambda: ResidualConstraint(TIP, np.inf, np.inf), ValueError, "expected lower <= upper"),
        (lambda: ResidualConstraint(TIP, [0, 0], 1.0), ValueError, r"lower: got shape \(2,\), expected a number, \(3"),
        (lambda: ResidualConstraint(TIP, 0.0, np.ones((4, 2))), ValueError, r"upper: got shape \(4, 2\)"),
        (lambda: ResidualConstraint(TIP, "a", 1.0), TypeError, "lower: got 'a', expected an array of real numbers"),
        (lambda: ResidualConstraint(TIP, at="ends"), ValueError, "at: got 'ends', expected one of 'path', 'terminal'"),
        (lambda: ResidualConstraint(TIP, at=[]), ValueError, r"at: got \[\], expected one of .* knots, times in"),
        (lambda: ResidualConstraint(TIP, at=[[1, 2]]), ValueError, r"at: got \[\[1, 2\]\], expected"),
        (lambda: ResidualConstraint(TIP, at=np.ones(4, bool)), ValueError, "at: got array"),
        (lambda: ResidualConstraint(TIP, at=None), ValueError, "at: got None, expected knots, times, a slice, or one"),
        (lambda: ResidualConstraint(TIP, at=[1, 3, 3]), ValueError, "at: got 3 behind 3, expected growing knots"),
        (lambda: ResidualConstraint(TIP, at=[-1, -2]), ValueError, "at: got -2 behind -1, expected growing"),
        (lambda: StateBounds(SYSTEM, -np.inf, np.inf), ValueError, "StateBounds: got infinite limits alone"),
        (lambda: StateBounds(SYSTEM, [1, 2, 3], 9.0), ValueError, r"lower: got shape \(3,\), expected a number, \(2"),
        (lambda: StateBounds(SYSTEM, 1.0, -1.0), ValueError, "state bounds: got lower 1.0 and upper -1.0"),
        (lambda: StateBounds(SYSTEM, -1.0, 1.0, [0.0]), ValueError, r"reference: got shape \(1,\), expected \(2,\)"),
        (lambda: StateResidual(SYSTEM, [0, np.nan]), ValueError, r"reference\[1\]: got nan"),
        (lambda: StateResidual(SYSTEM, components=[]), ValueError, "components: got shape"),
        (lambda: StateResidual(SYSTEM, components=[0, 2]), ValueError, r"components: got \[0, 2\], expected"),
        (lambda: StateResidual(SYSTEM, components=[-1]), ValueError, "components: got"),
        (lambda: ControlResidual(SYSTEM, [1.0, 2.0]), ValueError, "reference: got 2 numbers, expected one or 1"),
    ],
)  # fmt: skip
def test_constraints_say_what_is_wrong(make, error, match):
    with pytest.raises(error, match=match):
        make()


def test_a_constraint_shows_what_it_is():
    assert repr(ControlBounds(-1.0, [1.0, 2.0])) == "ControlBounds(-1.0, [1.0, 2.0])"
    assert repr(ResidualConstraint(TIP, name="tip", at="all")) == "ResidualConstraint('tip', nr=3, at='all')"
    assert repr(StateBounds(SYSTEM, -1.0, [np.inf, 1.0])) == "StateBounds('state bounds', nr=2, at='all')"


def test_the_name_is_the_residual_s_unless_given():
    class Named(TipResidual):
        name = "tip of the rod"

    assert ResidualConstraint(TIP).name == "TipResidual"
    assert ResidualConstraint(Named()).name == "tip of the rod"
    assert ResidualConstraint(Named(), name="tip").name == "tip"


@pytest.mark.parametrize(
    ("residual", "at", "knots"),
    [
        (TIP, "path", [0, 1, 2, 3]),
        (TIP, "all", [0, 1, 2, 3, 4]),
        (TIP, "terminal", [4]),
        (StateResidual(SYSTEM), "path", [1, 2, 3]),
        (StateResidual(SYSTEM), "all", [1, 2, 3, 4]),
        (StateResidual(SYSTEM), "terminal", [4]),
        (ControlResidual(SYSTEM), "path", [0, 1, 2, 3]),
        (ControlResidual(SYSTEM), [0, 2, 3], [0, 2, 3]),
        (StateResidual(SYSTEM), np.array([1, 2]), [1, 2]),
    ],
)
def test_the_knots_it_holds_at(residual, at, knots):
    """Knot 0 only where the residual depends on the controls; the report lists them, and limits have as many rows."""
    rows = np.arange(len(knots))[:, None] + 1.0
    for limits in (9.0, np.full(residual.nr, 9.0), 9.0 * rows * np.ones(residual.nr)):
        constraint = ResidualConstraint(residual, -np.inf, limits, at=at)
        problem = Problem(SYSTEM, [0.1, 0.0], 4, [ControlCost(1.0)], constraints=[constraint])
        (report,) = DDP().solve(problem).constraints
        np.testing.assert_array_equal(report.knots, knots)
        np.testing.assert_array_equal(report.upper, np.broadcast_to(limits, report.values.shape))
        assert report.values.shape == report.multipliers.shape == (len(knots), residual.nr)


class Logged(ControlResidual):
    """Keeps the first controls of the points it is evaluated at."""

    def __init__(self, system):
        super().__init__(system)
        self.seen = []

    def evaluate(self, xs, us):
        self.seen.extend(us[:, 0])
        return super().evaluate(xs, us)

    def jacobians(self, xs, us):
        self.seen.extend(us[:, 0])
        return super().jacobians(xs, us)


def test_knots_of_a_phase():
    """A limit at some of the knots binds there and nowhere else, and warm starts take its multipliers up."""
    push, N = ControlCost(1.0, 5.0), 7
    for knots, upper in (([2, 3], 2.0), ([0, 2, 5], np.array([[1.0], [2.0], [3.0]]))):
        held = ResidualConstraint(ControlResidual(SYSTEM), -np.inf, upper, at=knots, name="phase")
        problem = Problem(SYSTEM, [0.0, 0.0], N, [push], constraints=[held])
        solution = DDP().solve(problem)
        wanted = np.full((N, 1), 5.0)
        wanted[knots] = upper
        np.testing.assert_allclose(solution.us, wanted, atol=1e-6)
        (report,) = solution.constraints
        np.testing.assert_array_equal(report.knots, knots)
        np.testing.assert_allclose(report.multipliers, SYSTEM.dt * (5.0 - wanted[knots]), atol=1e-6)
        later = solution.shifted().constraints[0].multipliers
        np.testing.assert_array_equal(later, report.multipliers[[1, 1] if len(knots) == 2 else [1, 2, 2]])
        again = DDP().solve(problem, warm_start=solution.warm_start())
        assert again.converged and again.iterations < solution.iterations


def test_a_constraint_is_not_evaluated_elsewhere():
    residual = Logged(SYSTEM)
    us = np.arange(1.0, 8.0)[:, None]
    problem = Problem(SYSTEM, [0.0, 0.0], 7, constraints=[ResidualConstraint(residual, 0.0, 1.0, at=[2, 3, 6])])
    rows = pack(problem, problem.residual_constraints)
    residual.seen.clear()
    xs = SYSTEM.rollout(problem.x0, us)
    rows.values(xs, us)
    rows.scaled_at(xs, us).linearized(xs, us)
    rows.add_curvature(xs, us, np.ones(len(rows)), zero_blocks(7, SYSTEM.ndx, SYSTEM.nu))
    assert set(residual.seen) == {3.0, 4.0, 7.0}


def test_the_state_at_knot_zero_is_given():
    """Also where that knot is asked for; rows of limits are those of the knots asked for."""
    limits = np.array([[1.0], [2.0], [3.0]])
    held = ResidualConstraint(StateResidual(SYSTEM, components=[1]), -np.inf, limits, at=[0, 1, 4])
    knots = held.knots(5, state_only=True)
    np.testing.assert_array_equal(knots, [1, 4])
    np.testing.assert_array_equal(held.limits(knots)[1], limits[1:])
    assert not len(ResidualConstraint(StateResidual(SYSTEM), at=[0]).knots(5, state_only=True))


def test_knots_beyond_the_horizon():
    held = ResidualConstraint(TIP, -1.0, 1.0, at=[1, 4], name="tip")
    with pytest.raises(ValueError, match="at: tip got knot 4, expected at most 3, or -1"):
        Problem(SYSTEM, [0.0, 0.0], 3, [ControlCost(1.0)], constraints=[held])
    assert Problem(SYSTEM, [0.0, 0.0], 5, [ControlCost(1.0)], constraints=[held]).horizon == 5
    assert repr(held) == "ResidualConstraint('tip', nr=3, at=(1, 4))"
    assert repr(ResidualConstraint(TIP, at=range(3, 9))) == "ResidualConstraint('TipResidual', nr=3, at='3 ... 8')"


@pytest.mark.parametrize("rows", [2, 5])
def test_limits_have_a_row_for_each_knot(rows):
    constraint = ResidualConstraint(StateResidual(SYSTEM), -np.ones((rows, 2)), 1.0, name="box")
    with pytest.raises(ValueError, match=f"box lower: got {rows} rows, expected one per knot it holds at, 3"):
        DDP().solve(Problem(SYSTEM, [0.1, 0.0], 4, [ControlCost(1.0)], constraints=[constraint]))


def test_limits_that_vary_are_kept_knot_by_knot():
    """A funnel for the rate: every knot has its own limits, and they bind."""
    upper = np.linspace(0.1, 0.05, 6)[:, None]
    narrow = ResidualConstraint(StateResidual(SYSTEM, components=[1]), -np.inf, upper, name="funnel")
    push = ControlCost(1.0, 5.0)
    problem = Problem(SYSTEM, [0.0, 0.0], 7, [push], constraints=[narrow])
    solution = DDP().solve(problem)
    assert solution.converged
    speeds = solution.xs[1:7, 1]
    assert (speeds <= upper[:, 0] + 1e-7).all() and (np.abs(speeds - upper[:, 0]) < 1e-6).sum() >= 4


def test_state_bounds_leave_out_components_without_limits():
    bounds = StateBounds(SYSTEM, [-np.inf, -3.0], [np.inf, np.inf])
    assert bounds.nr == 1
    np.testing.assert_array_equal(bounds.residual.evaluate(np.array([[7.0, 2.0]]), None), [[2.0]])
    assert (bounds.lower, bounds.upper) == (-3.0, np.inf)
    assert StateBounds(SYSTEM, -1.0, [np.inf, 2.0]).nr == 2


def test_state_bounds_count_from_the_reference():
    bounds = StateBounds(SYSTEM, [-1.0, -np.inf], [1.0, np.inf], reference=[2.0, 5.0])
    np.testing.assert_array_equal(bounds.residual.evaluate(np.array([[2.5, 0.0]]), None), [[0.5]])


@pytest.mark.parametrize("components", [None, [1], [1, 0]])
@pytest.mark.parametrize("system", [SYSTEM, CirclePendulum()], ids=["line", "circle"])
def test_state_residual_and_its_jacobian(system, components, rng):
    points = rng.standard_normal((5, 2))
    xs = system.embed(points) if system.nx == 3 else points
    residual = StateResidual(system, xs[0], components)
    chosen = [0, 1] if components is None else components
    expected = np.array([system.difference(xs[0], x) for x in xs])[:, chosen]
    np.testing.assert_allclose(residual.evaluate(xs, None), expected, atol=1e-15)
    rx, ru = residual.jacobians(xs, None)
    assert ru is None and rx.shape == (5, len(chosen), 2)
    h, d = 1e-6, rng.standard_normal((5, 2))
    ahead, behind = (residual.evaluate(system.integrate(xs, s * d), None) for s in (h, -h))
    np.testing.assert_allclose(np.einsum("tij,tj->ti", rx, d), (ahead - behind) / (2 * h), atol=1e-8)
    Hxx, Hux, Huu = residual.hessian_products(xs, None, np.ones((5, len(chosen))))
    assert (Hxx is None) == (system.nx == 2) and Hux is None and Huu is None
    assert Hxx is None or not Hxx.any()


def test_control_residual_and_its_jacobian(rng):
    residual = ControlResidual(SYSTEM, 0.5)
    xs, us = rng.standard_normal((3, 2)), rng.standard_normal((3, 1))
    np.testing.assert_array_equal(residual.evaluate(xs, us), us - 0.5)
    rx, ru = residual.jacobians(xs, us)
    np.testing.assert_array_equal(rx, np.zeros((3, 1, 2)))
    np.testing.assert_array_equal(ru, np.ones((3, 1, 1)))
    assert residual.hessian_products(xs, us, us) == (None, None, None)
    with pytest.raises(ValueError, match="the terminal knot has no control"):
        residual.evaluate(xs, None)


def test_report_arithmetic():
    """Violations, the worst knot, complementarity and activity, by hand."""
    report = ConstraintReport(
        "r", np.array([2, 3, 5]), np.array([[0.0, 1.5], [-2.0, 0.5], [0.25, 1.0]]), np.full((3, 2), -1.0),
        np.full((3, 2), 1.0), np.array([[0.0, 2.0], [-3.0, 0.0], [0.0, 4.0]]),
    )  # fmt: skip
    np.testing.assert_array_equal(report.violations, [[0.0, 0.5], [1.0, 0.0], [0.0, 0.0]])
    assert report.violation == 1.0 and report.worst_knot == 3
    assert report.complementarity == 3.0  # |-3 (-2 - -1)|, which exceeds |2 (1.5 - 1)|
    np.testing.assert_array_equal(report.active, [[False, True], [True, False], [False, True]])


class Misshapen(TipResidual):
    def __init__(self, where):
        super().__init__()
        self.where = where

    def evaluate(self, xs, us):
        r = super().evaluate(xs, us)
        return r[:, :2] if self.where == "evaluate" else r

    def jacobians(self, xs, us):
        rx, ru = super().jacobians(xs, us)
        return (rx[:, :2] if self.where == "rx" else rx), (ru[:, :2] if self.where == "ru" else ru)

    def hessian_products(self, xs, us, mu):
        Hxx, Hux, Huu = super().hessian_products(xs, us, mu)
        return (Hxx[:, :1] if self.where == "Hxx" else Hxx), Hux, Huu


@pytest.mark.parametrize(
    ("where", "match"),
    [
        ("evaluate", r"residual.evaluate: got shape \(\d, 2\), expected \(\d, 3\)"),
        ("rx", r"residual.jacobians, rx: got shape \(\d, 2, 2\), expected \(\d, 3, 2\)"),
        ("ru", r"residual.jacobians, ru: got shape \(\d, 2, 1\), expected \(\d, 3, 1\)"),
        ("Hxx", r"residual.hessian_products, Hxx: got shape \(\d, 1, 2\), expected \(\d, 2, 2\)"),
    ],
)
def test_residuals_of_wrong_shape_are_named(where, match):
    constraint = ResidualConstraint(Misshapen(where), -0.5, 0.5)
    problem = Problem(SYSTEM, [0.1, 0.0], 4, [ControlCost(1.0)], constraints=[constraint])
    with pytest.raises(ValueError, match=match):
        DDP(switch_threshold=1e9).solve(problem)
