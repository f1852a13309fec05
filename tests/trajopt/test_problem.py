"""Bad input is refused before any kernel runs, by an error that names the argument, what it got and what was wanted."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dynamics.validation import as_array
from tests.trajopt.systems import CirclePendulum, Pendulum, TipResidual
from trajopt import DDP, ILQR, ControlCost, Problem, ResidualCost, StateCost

SYSTEM = Pendulum()


def test_a_problem_holds_private_copies():
    x0, us = np.zeros(2), np.ones((3, 1))
    problem = Problem(SYSTEM, x0, 3, us_init=us)
    x0[0] = us[0] = 5.0
    assert problem.x0[0] == 0.0 and problem.us_init[0, 0] == 1.0
    with pytest.raises(AttributeError):
        problem.horizon = 4


def test_controls_default_to_zero():
    np.testing.assert_array_equal(Problem(SYSTEM, [1, 2], 4).us_init, np.zeros((4, 1)))


@given(shape=st.lists(st.integers(0, 4), max_size=3).map(tuple).filter(lambda s: s != (2,)))
def test_initial_state_of_any_other_shape_is_refused(shape):
    with pytest.raises(ValueError, match=r"x0: got shape .*, expected \(2,\)"):
        Problem(SYSTEM, np.zeros(shape), 3)


@given(horizon=st.integers(1, 5), shape=st.tuples(st.integers(0, 6), st.integers(0, 3)))
def test_controls_must_have_one_row_per_knot(horizon, shape):
    if shape == (horizon, 1):
        assert Problem(SYSTEM, [0, 0], horizon, us_init=np.zeros(shape)).us_init.shape == shape
    else:
        with pytest.raises(ValueError, match=rf"us_init: got shape .*, expected \({horizon}, 1\)"):
            Problem(SYSTEM, [0, 0], horizon, us_init=np.zeros(shape))


finite = st.lists(st.floats(allow_nan=False, allow_infinity=False), max_size=3)


@given(before=finite, bad=st.sampled_from([np.nan, np.inf, -np.inf]), after=finite)
def test_numbers_that_are_not_finite_are_refused(before, bad, after):
    value = [*before, bad, *after]
    with pytest.raises(ValueError, match=r"a\[\d\]: got (nan|-?inf), expected finite numbers"):
        as_array("a", value, (len(value),))


@given(length=st.integers(0, 6).filter(lambda n: n not in (2, 3)))
def test_weights_of_the_wrong_length(length):
    with pytest.raises(ValueError, match=f"weights: got {length} numbers, expected one or 2"):
        StateCost(SYSTEM, [0, 0], np.ones(length))
    with pytest.raises(ValueError, match=f"weights: got {length} numbers, expected one or 3"):
        ResidualCost(TipResidual(), np.ones(length))


@pytest.mark.parametrize(
    ("make", "error", "match"),
    [
        (lambda: Problem(SYSTEM, [0, 0], 0), ValueError, "horizon: got 0, expected an integer >= 1"),
        (lambda: Problem(SYSTEM, [0, 0], 2.0), TypeError, "horizon: got 2.0"),
        (lambda: Problem(SYSTEM, [0, 0], True), TypeError, "horizon: got True"),
        (lambda: Problem(Pendulum(dt=0.0), [0, 0], 2), ValueError, "system.dt: got 0.0"),
        (lambda: Problem(SYSTEM, [0, 0], 2, ControlCost(1.0)), TypeError, "running_costs: got ControlCost"),
        (lambda: Problem(SYSTEM, [0, 0], 2, [3]), TypeError, r"running_costs\[0\]: got int"),
        (lambda: Problem(SYSTEM, [0, 0], 2, [], [ControlCost(1.0)]), ValueError, "terminal_costs: got a ControlCost"),
        (lambda: Problem(SYSTEM, [0, 0], 2, [ControlCost([1, 2])]), ValueError, "ControlCost weights: got 2 numbers"),
        (lambda: Problem(SYSTEM, [0, 0], 2, [ControlCost(1, [1, 2])]), ValueError, "ControlCost reference: got 2"),
        (lambda: ControlCost(np.ones((2, 2, 2))), ValueError, r"weights: got shape \(2, 2, 2\), expected a number, a"),
        (lambda: ResidualCost(TipResidual(), 1.0, activation="huber"), ValueError, "activation: got 'huber'"),
        (
            lambda: Problem(SYSTEM, [0, 0], 2, [StateCost(CirclePendulum(), [1, 0, 0], 1.0)]),
            ValueError,
            r"StateCost: made for a system with \(nx, ndx\) = \(3, 2\), expected \(2, 2\)",
        ),
    ],
)  # fmt: skip
def test_problems_and_costs_say_what_is_wrong(make, error, match):
    with pytest.raises(error, match=match):
        make()


def test_a_manifold_needs_its_expansion():
    class Incomplete(Pendulum):
        euclidean = False

    with pytest.raises(TypeError, match="lacks difference_expansion"):
        Problem(Incomplete(), [0, 0], 2)


@pytest.mark.parametrize(
    ("make", "error", "match"),
    [
        (lambda: DDP(max_iter=3), TypeError, "DDP: got the option 'max_iter'.*did you mean 'max_iterations'"),
        (lambda: ILQR(hessian="tensor"), TypeError, "ILQR: got the option 'hessian'"),
        (lambda: DDP("tensor"), TypeError, "options are given by name"),
        (lambda: DDP(hessian="value"), ValueError, "hessian: got 'value', expected one of 'parallel', 'tensor'"),
        (lambda: DDP(regularization="state"), TypeError, "DDP: got the option 'regularization', expected one of"),
        (lambda: DDP(hessian="paralel"), ValueError, "hessian: got 'paralel'.*did you mean 'parallel'"),
        (lambda: DDP(cost_hessian="full"), ValueError, "cost_hessian: got 'full'"),
        (lambda: DDP(switch_threshold=-1.0), ValueError, "switch_threshold: got -1.0"),
        (lambda: ILQR(tolerance=np.nan), ValueError, "tolerance: got nan"),
        (lambda: ILQR(max_iterations=1.5), TypeError, "max_iterations: got 1.5"),
        (lambda: ILQR(max_regularization="big"), TypeError, "max_regularization: got 'big'"),
    ],
)
def test_solver_options_say_what_is_wrong(make, error, match):
    with pytest.raises(error, match=match):
        make()


def test_solvers_are_frozen_and_show_their_options():
    solver = DDP(hessian="tensor", tolerance=1e-9)
    assert (solver.hessian, solver.tolerance, solver.switch_threshold) == ("tensor", 1e-9, 1e-2)
    with pytest.raises(AttributeError):
        solver.hessian = "parallel"
    assert "hessian='tensor'" in repr(solver)
