"""Solutions along paths of parameters: folds and bifurcations in closed form, limits that press, other minima."""

from dataclasses import dataclass

import numpy as np
import pytest

import trajopt
from experiments.sensitivity.cases import CASES, swinging_cartpole, swinging_pendulum
from trajopt.families import path_of, remaining, singular_position

WEIGHT, TILT, KNOTS = 0.1, 0.5, 10
"""Of the controls and of the place; a second in so many knots."""
SYSTEM = trajopt.CallableSystem(step=lambda x, u: (x[0] + u[0] / KNOTS,), nx=1, nu=1, dt=1.0 / KNOTS)
SQUARE = trajopt.residual(lambda x: (x[0] ** 2 - 1.0,), 1, SYSTEM)
ALONE = trajopt.residual(lambda x: (x[0] ** 2,), 1, SYSTEM)
PLACE = trajopt.StateResidual(SYSTEM)
STEEP = 1.0 - TILT / 2.0 - WEIGHT / 2.0
FOLD = 4.0 / 3.0 * STEEP * np.sqrt(STEEP / 3.0)
"""The end x of the motion has J(x) = 1/2 (x^2 - 1)^2 + TILT/2 (x + p/TILT)^2 + WEIGHT/2 x^2, whose right minimum is at
2 x^3 - 2 STEEP x + p = 0 while 6 x^2 > 2 STEEP."""


def two_wells(p, start=1.0):
    """A point that goes into one of two wells; p pulls it to the left."""
    return trajopt.Problem(
        SYSTEM, [0.0], KNOTS, [trajopt.ControlCost(WEIGHT)],
        [trajopt.ResidualCost(SQUARE, 1.0), trajopt.ResidualCost(PLACE, TILT, reference=[-p / TILT])],
        us_init=np.full((KNOTS, 1), start),
    )  # fmt: skip


def fork(p):
    """J(x) = 1/2 (x^2 - p)^2 + WEIGHT/2 x^2: x = 0 is a minimum until p = WEIGHT/2, then two others are."""
    well = trajopt.ResidualCost(ALONE, 1.0, reference=[p])
    return trajopt.Problem(SYSTEM, [0.0], KNOTS, [trajopt.ControlCost(WEIGHT)], [well], us_init=np.zeros((KNOTS, 1)))


def limited_pendulum(p):
    """A pendulum on its way up, its torque within p."""
    free = swinging_pendulum(CASES["pendulum"].p)
    bounds = [trajopt.ControlBounds(-p, p)]
    us = np.clip(free.us_init, -p, p)
    return trajopt.Problem(free.system, free.x0, free.horizon, free.running_costs, free.terminal_costs, bounds, us)


def pole(length):
    """A pole of this length on a cart."""
    return swinging_cartpole({**CASES["cartpole"].p, "length": length})


# ------------------------------------------------------------------------------------------------ singular points
def test_a_fold_in_closed_form():
    found = trajopt.continuation(two_wells, (0.0, 1.0))
    assert found.status == "fold" and "fold" in found.message and not found.complete
    assert found.singular.position == pytest.approx(FOLD, abs=1e-4) and found.singular.p == found.singular.position
    assert abs(found.singular.position - FOLD) < 5.0 * found.singular.spread
    assert (np.diff(found.positions) > 0.0).all() and FOLD - 1e-3 < found.positions[-1] < FOLD
    x = np.array([solution.xs[-1, 0] for solution in found.solutions])
    np.testing.assert_allclose(2.0 * x**3 - 2.0 * STEEP * x + found.numbers[:, 0], 0.0, atol=1e-6)
    slopes = np.array([tangent.xs[-1, 0] for tangent in found.tangents])
    np.testing.assert_allclose(slopes, -1.0 / (6.0 * x**2 - 2.0 * STEEP), rtol=1e-5)
    assert found.smallest_eigenvalues[-1] < 0.5 and found.refused.sum() > 0


def test_a_fold_by_smaller_steps():
    """The estimate comes nearer, also where the path is not as long as the number."""
    path = {"pull": 0.0}, {"pull": 0.5}
    found = trajopt.continuation(lambda p: two_wells(2.0 * p["pull"]), path, smallest_step=1e-5)
    assert found.status == "fold" and found.labels == ("pull",)
    assert found.singular.p["pull"] == pytest.approx(0.5 * FOLD, abs=1e-6)


def test_a_bifurcation_in_closed_form():
    """The tangent stays finite: zero."""
    found = trajopt.continuation(fork, (-1.0, 1.0))
    assert found.status == "bifurcation"
    assert found.singular.p == pytest.approx(0.5 * WEIGHT, abs=1e-6)
    assert all(not solution.us.any() for solution in found.solutions)


def test_a_jump_at_the_end_of_a_branch():
    """From the well that ends to the other one, and on; what follows is the branch that starts there."""
    found = trajopt.continuation(two_wells, (0.0, 1.0), smallest_step=1e-3, jumps=3)
    assert found.complete and "over 1 end of branches" in found.message
    (k,) = np.flatnonzero(found.jumped)
    x = np.array([solution.xs[-1, 0] for solution in found.solutions])
    assert found.positions[k - 1] < FOLD < found.positions[k] <= FOLD + 0.1
    assert (x[:k] > 0.0).all() and (x[k:] < 0.0).all() and "jump to" in str(found)
    np.testing.assert_allclose(2.0 * x**3 - 2.0 * STEEP * x + found.numbers[:, 0], 0.0, atol=1e-6)
    alone = trajopt.continuation(lambda p: two_wells(p, start=-1.0), (found.parameters[k], 1.0))
    assert found.costs[-1] == pytest.approx(alone.costs[-1], rel=1e-9)


def test_over_a_bifurcation():
    """From the branch of zeros, which goes on as a ridge, to one of the two that leave it."""
    found = trajopt.continuation(fork, (-1.0, 1.0), smallest_step=1e-3, jumps=2)
    (k,) = np.flatnonzero(found.jumped)
    moving = np.array([solution.us.any() for solution in found.solutions])
    assert found.complete and not moving[:k].any() and moving[k:].all()
    assert (found.smallest_eigenvalues > 0.0).all()


def test_extrapolation(rng):
    """Exact where positions are a polynomial in what falls."""
    end, a, b = rng.uniform(0.1, 1.0, 3)
    e = np.array([0.5, 0.4, 0.3])
    assert singular_position(end - a * e - b * e**2, e) == pytest.approx(end, rel=1e-12)
    s = end - a * e**2
    assert s[-1] + remaining(s, e) == pytest.approx(end, rel=1e-12)
    assert singular_position(s[1:], e[1:]) == pytest.approx(end, rel=1e-12)
    assert remaining(s, e[::-1]) == np.inf and remaining(s[:1], e[:1]) == np.inf


# ------------------------------------------------------------------------------------------------ along regular paths
def test_where_no_solve_from_scratch_leads():
    """Where the left well is none, every start ends in the right one, which is then the deeper one for long."""
    found = trajopt.continuation(lambda p: two_wells(p, start=-1.0), (-0.6, -0.2))
    assert found.complete
    again = found.with_restarts()
    cold, last = again.cold[-1], found.solutions[-1]
    assert cold.converged and cold.xs[-1, 0] < -0.5 and last.xs[-1, 0] > 0.5 and last.cost < cold.cost - 0.3
    assert all(s.cost == pytest.approx(one.cost, rel=1e-9) for s, one in zip(again.warm, found.solutions, strict=True))
    printed = str(again)
    assert "(worse)" in printed and "(better)" not in printed and "cold" not in str(found)


def test_a_pole_that_grows_shorter():
    """All given points are solved, as well as from scratch, in fewer iterations."""
    path = (0.5, 0.4, 0.3)
    found = trajopt.continuation(pole, path).with_restarts()
    assert found.complete and set(path) <= set(found.parameters) and found.positions[-1] == 2.0
    for solution, cold in zip(found.solutions, found.cold, strict=True):
        assert solution.cost == pytest.approx(cold.cost, rel=1e-9)
    ahead = found.iterations[1:].sum()
    assert ahead < 0.5 * sum(s.iterations for s in found.cold[1:])
    assert ahead < sum(s.iterations for s in found.warm[1:])
    assert (found.smallest_eigenvalues > 0.0).all() and (np.diff(found.costs) < 0.0).all()


def test_limits_that_begin_to_press():
    found = trajopt.continuation(limited_pendulum, (12.0, 8.0))
    assert found.complete and found.pressing[0] == 0 and found.pressing[-1] > 10
    assert found.switched.sum() >= found.pressing[-1]
    for solution, p in zip(found.solutions, found.parameters, strict=True):
        assert np.abs(solution.us).max() <= p
    alone = trajopt.DDP().solve(limited_pendulum(8.0), us=found.solutions[-2].us)
    assert found.costs[-1] == pytest.approx(alone.cost, rel=1e-9)


def test_from_a_limit_that_is_just_touched():
    """The first step is along the one-sided derivative."""
    least = np.abs(trajopt.DDP().solve(limited_pendulum(25.0)).us).max()
    found = trajopt.continuation(limited_pendulum, (float(least), 0.9 * float(least)))
    assert found.complete and found.pressing[-1] > 0


@dataclass(frozen=True)
class Figures:
    """Parameters of two wells."""

    pull: float
    start: float = 1.0
    name: str = "wells"


@pytest.mark.parametrize(
    ("of", "labels"),
    [
        (lambda p: Figures(p), ("pull",)),
        (lambda p: {"pull": np.array([p, 0.0])}, ("pull[0]",)),
        (lambda p: np.array([p, 1.0]), ("p[0]",)),
    ],
)
def test_forms_of_parameters(of, labels):
    def make(p):
        pull = p.pull if isinstance(p, Figures) else np.ravel(p["pull"] if isinstance(p, dict) else p)[0]
        return two_wells(float(pull))

    found = trajopt.continuation(make, [of(0.0), of(0.2)])
    assert found.complete and found.labels == labels and type(found.parameters[1]) is type(of(0.0))
    plain = trajopt.continuation(two_wells, (0.0, 0.2))
    assert found.costs[-1] == pytest.approx(plain.costs[-1], rel=1e-12)


def test_a_path_as_polyline():
    path = path_of([0, 1.0, 3.0])
    assert path.length == 2.0 and path.at(0.5) == 0.5 and path.at(1.5) == 2.0 and path.at(2.0) == 3.0
    assert path.at(1.1, leg=0) == pytest.approx(1.1) and path.at(1.1) == pytest.approx(1.2)


# ------------------------------------------------------------------------------------------------ other ends
def test_contradictory_limits_end_a_path():
    """A point that must go farther than its speed allows from p = 1 on."""

    def make(p):
        there = trajopt.ResidualConstraint(PLACE, p, np.inf, at="terminal", name="there")
        bounds = trajopt.ControlBounds(-1.0, 1.0)
        return trajopt.Problem(SYSTEM, [0.0], KNOTS, [trajopt.ControlCost(WEIGHT)], constraints=[bounds, there])

    found = trajopt.continuation(make, (0.2, 2.0))
    assert found.status in ("infeasible", "lost") and found.numbers[-1, 0] == pytest.approx(1.0, abs=2e-3)
    assert found.singular is None and "no step" in found.message


def test_ends_without_a_path():
    failing = trajopt.continuation(pole, (0.5, 0.4), trajopt.DDP(max_iterations=2))
    assert failing.status == "start_failed" and len(failing) == 0 and "max_iterations" in str(failing)
    short = trajopt.continuation(two_wells, (0.0, 0.3), max_points=2)
    assert short.status == "max_points" and len(short) == 2
    with pytest.raises(ValueError, match="without points"):
        failing.plot()


def test_a_picture(tmp_path):
    found = trajopt.continuation(two_wells, (0.0, 1.0), smallest_step=1e-3).with_restarts()
    figure = found.plot(tmp_path / "fold.png")
    labels = [axes.get_ylabel() for axes in figure.axes]
    assert labels == ["cost", "smallest relative eigenvalue", "iterations", "limits that press"]
    assert (tmp_path / "fold.png").stat().st_size > 1e4
    assert figure.axes[2].get_xlabel() == "p" and "fold" in figure._suptitle.get_text()
