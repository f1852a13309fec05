"""Costs, constraints, problems, solvers and systems of functions: what they are given by mistake is refused by name.

Beside the errors that the files of each of them test: text, truth values and complex numbers in place of numbers, and
other things in place of systems, residuals, problems, solvers and solutions.
"""

from functools import cache

import numpy as np
import pytest

import problems
import trajopt
from tests.reference.bad_values import (
    CHOICES,
    ENDLESS,
    FLAGS,
    KINDS,
    MASKED,
    NUMBERS,
    THING,
    WHOLE,
    arrays,
    assert_refused,
    rows,
)
from tests.trajopt.systems import Pendulum
from trajopt import DDP, CallableSystem, ControlBounds, ControlCost, Problem, StateCost
from trajopt.layers import LayerHost, warm_starts_of

SYSTEM = Pendulum()
TEXTS = (3, THING, ["a"], b"x")
NOT_NUMBERS = (
    "text", THING, ENDLESS, "3", ["1", "2"], 1j, 1j * np.ones(2), True, np.ones(2) > 0.0, [], [[1.0], [2.0, 3.0]], {},
    MASKED, np.ma.masked_array(np.ones(2), [False, True]),
)  # fmt: skip
"""In place of a number, or of two."""


class Angles:
    """A residual of two numbers."""

    nr = 2

    def evaluate(self, xs, us):
        return xs

    def jacobians(self, xs, us):
        return np.tile(np.eye(2), (len(xs), 1, 1)), None

    def hessian_products(self, xs, us, mu):
        return None, None, None


RESIDUALS = (*KINDS, Angles)
RATES, JERKS = trajopt.ControlRateSystem(SYSTEM), trajopt.JerkSystem(SYSTEM)
PLACES = (
    "text", THING, [], [[1]], np.nan, np.inf, True, 1j, [True], ["a"], [2, 1], slice("a"), slice(0, 9, 0),
    np.ma.masked_array([1, 2], [False, True]),
)  # fmt: skip
"""In place of `at`."""
ONE = (*NOT_NUMBERS[:5], 1j, True, [[1.0], [2.0, 3.0]], np.nan, MASKED, [1.0, 2.0])
"""In place of one number."""
OR_NONE = tuple(value for value in FLAGS if value is not None)
"""In place of True, False or None."""
STIFFNESS = (*ONE, -1.0)
"""In place of a number for each of one joint that is not negative."""
PLAIN = {"nx": 2, "nu": 1, "dt": 0.1, "derivatives": "finite_differences", "vectorized": True}


def make_problem(**given):
    costs = {"running_costs": [ControlCost(1.0)], "terminal_costs": [StateCost(SYSTEM, [0.0, 0.0], 1.0)]}
    return Problem(**{"system": SYSTEM, "x0": [0.1, 0.0], "horizon": 5, **costs, **given})


@cache
def problem():
    return make_problem()


@cache
def robot():
    return DDP(max_iterations=1).solve(problems.make("pendulum"))


@cache
def solution():
    return DDP().solve(problem())


def of_start(angle):
    return make_problem(x0=[angle, 0.0])


@cache
def doubling():
    return CallableSystem(lambda x, u: 2.0 * x + u, **PLAIN)


@cache
def feedback():
    return DDP().prepare(problem(), lambda p: {"ControlCost": p}).prepare_step(X, 0.0)


def doubling_time():
    return CallableSystem(xdot=lambda x, u: 2.0 * x + u, **PLAIN)


def of_time():
    return make_problem(system=doubling_time(), terminal_costs=[])


def of_doubling(method):
    return lambda **given: getattr(doubling(), method)(**given)


RETURNED = tuple(
    lambda x, u, y=y: y
    for y in (
        None, "a", [1.0], 1j * np.ones(2), [True, False], ["1", "2"], 1.0,
        np.ma.masked_array(np.ones(2), [False, True]),
    )
)  # fmt: skip
FREE = trajopt.FreeDurationSystem(doubling_time(), 5)
X, U, XS, US = np.zeros(2), np.zeros(1), np.zeros((4, 2)), np.zeros((3, 1))
TABLE = [
    *rows("StateCost", StateCost, {"system": SYSTEM, "reference": X, "weights": 1.0}, system=KINDS,
          reference=(*arrays(2)[:7], np.nan, *arrays(2)[8:]), weights=(*NOT_NUMBERS, None, np.nan, -1.0),
          activation=CHOICES[1:], at=PLACES),
    *rows("ControlCost", ControlCost, {"weights": 1.0}, weights=(*NOT_NUMBERS, None, np.inf, -1.0),
          reference=NOT_NUMBERS, at=PLACES),
    *rows(
        "ResidualCost", trajopt.ResidualCost, {"residual": Angles(), "weights": 1.0}, residual=RESIDUALS,
        weights=(*NOT_NUMBERS, None, -1.0), reference=NOT_NUMBERS, at=PLACES,
    ),
    *rows("SquaredNorm", trajopt.SquaredNorm, residual=RESIDUALS),
    *rows("StateResidual", trajopt.StateResidual, {"system": SYSTEM}, system=KINDS, reference=arrays(2)[1:]),
    *rows("ControlResidual", trajopt.ControlResidual, {"system": SYSTEM}, system=KINDS, reference=NOT_NUMBERS),
    *rows("ControlBounds", ControlBounds, {"lower": -1.0, "upper": 1.0}, lower=(*NOT_NUMBERS, None, np.nan, 2.0),
          upper=(*NOT_NUMBERS, None, np.nan, -2.0)),
    *rows("StateBounds", trajopt.StateBounds, {"system": SYSTEM, "lower": -1.0, "upper": 1.0}, system=KINDS,
          lower=NOT_NUMBERS, upper=NOT_NUMBERS, name=TEXTS, at=(*PLACES, None)),
    *rows("ResidualConstraint", trajopt.ResidualConstraint, {"residual": Angles()}, residual=RESIDUALS,
          lower=NOT_NUMBERS, upper=NOT_NUMBERS, name=TEXTS, at=(*PLACES, None)),
    *rows("Periodic", trajopt.Periodic, {"system": SYSTEM}, system=KINDS, components=("text", THING, 3, [1.0], [2], []),
          shift=NOT_NUMBERS[:7], map=arrays(2, 2)[1:], reference=arrays(2)[1:], name=TEXTS),
    *rows("AccelerationResidual", trajopt.AccelerationResidual, {"system": SYSTEM}, system=KINDS,
          components=("text", THING, 3, [1.0], [2], [True], [])),
    *rows("AccelerationBounds", trajopt.AccelerationBounds, {"system": SYSTEM, "lower": -1.0, "upper": 1.0},
          system=KINDS, lower=ONE, upper=ONE, name=TEXTS, at=(*PLACES, None)),
    *rows("ControlRateBounds", trajopt.ControlRateBounds, {"system": RATES, "lower": -1.0, "upper": 1.0},
          system=(*KINDS, SYSTEM), lower=ONE, upper=ONE, name=TEXTS, at=(*PLACES, None)),
    *rows("ControlRateCost", trajopt.ControlRateCost, {"system": RATES, "weights": 1.0}, system=(*KINDS, SYSTEM),
          weights=(*NOT_NUMBERS, -1.0), at=PLACES),
    *rows("JerkSystem", trajopt.JerkSystem, system=KINDS),
    *rows("JerkSystem.state", lambda **given: JERKS.state(**given), {"x": [0.1, 0.2]}, x=arrays(2),
          v_before=ONE[1:]),
    *rows("JerkResidual", trajopt.JerkResidual, {"system": JERKS}, system=(*KINDS, SYSTEM, RATES),
          components=("text", [2], [1.0])),
    *rows("JerkBounds", trajopt.JerkBounds, {"system": JERKS, "lower": -1.0, "upper": 1.0},
          system=(*KINDS, SYSTEM, RATES), lower=ONE, upper=ONE, name=TEXTS, at=(*PLACES, None)),
    *rows("TorqueSpeedBounds", trajopt.TorqueSpeedBounds,
          {"system": SYSTEM, "stall_torque": 1.0, "no_load_speed": 2.0, "speeds": [[1.0]]}, system=KINDS,
          stall_torque=(*ONE, 0.0), no_load_speed=(*ONE, 0.0), speeds=arrays(1, 1)[1:], braking=FLAGS, name=TEXTS,
          at=(*PLACES, None)),
    *rows("TorqueSpeedBounds.from_model", trajopt.TorqueSpeedBounds.from_model, system=KINDS),
    *rows("waypoints", trajopt.waypoints, {"points": [(0.1, [0.0, 0.0])], "system": SYSTEM, "weights": 1.0},
          points=(None, "text", THING, 3.0, [3.0], [(0.1,)], [()]), system=KINDS[1:],
          weights=(*NOT_NUMBERS, None, -1.0), hard=FLAGS, name=TEXTS),
    *rows("ControlRateSystem", trajopt.ControlRateSystem, system=KINDS),
    *rows("LogBarrier", trajopt.LogBarrier, {"lower": -1.0, "upper": 1.0, "delta": 0.1}, lower=NOT_NUMBERS,
          upper=NOT_NUMBERS, delta=(*NUMBERS, 0.0)),
    *rows("SmoothAbs", trajopt.SmoothAbs, scale=NOT_NUMBERS),
    *rows("WeightedQuadratic", trajopt.WeightedQuadratic, matrix=(*NOT_NUMBERS, None, np.ones((2, 3)), -np.eye(2))),
    *rows("Problem", make_problem, system=KINDS, x0=arrays(2), us_init=arrays(5, 1)[1:], xs_init=arrays(6, 2)[1:],
          name=TEXTS, free_initial_state=("text", THING, 3, 1.0, [2], [1.0], {}, (1.0, -1.0), np.zeros((3, 2)),
                                            np.ma.masked_array([True, True], [False, True])),
          parameters=("text", THING, [1], [0.5])),
    *rows(
        "solve", lambda **given: DDP().solve(**{"problem": problem(), **given}), problem=(*KINDS, SYSTEM),
        us=arrays(5, 1)[1:], xs=arrays(6, 2)[1:], callback=KINDS[1:], warm_start=KINDS[1:],
        time_limit=(*NUMBERS[1:], 0.0, -1.0),
    ),
    *rows("prepare", lambda **given: DDP().prepare(problem(), **given), parameters=(3, 1.0, [1], b"x")),
    *rows("prepare_step",
         lambda **given: DDP().prepare(problem(), lambda p: {"ControlCost": p}).prepare_step(
             **{"x_predicted": X, "p": 0.0, **given}
         ),
         x_predicted=arrays(2), p=(*NOT_NUMBERS[:7], np.nan), warm_start=KINDS[1:]),
    *rows("feedback", feedback(), {"x": X, "p": 1.0}, x=arrays(2), p=(*NOT_NUMBERS[:7], np.nan, [1.0, 2.0])),
    *rows("vjp", lambda **given: trajopt.sensitivity(lambda p: problem(), 1.0, solution()).vjp(**given),
          {"xs_bar": np.zeros((6, 2))}, xs_bar=arrays(6, 2)[1:], us_bar=arrays(5, 1)[1:], cost_bar=ONE, ambient=FLAGS),
    *rows("Solution.vjp", lambda **given: solution().vjp(**given), {"xs_bar": np.zeros((6, 2))},
          xs_bar=arrays(6, 2)[1:], us_bar=arrays(5, 1)[1:], cost_bar=ONE, ambient=FLAGS,
          wrt=("x0", [3], ["StateCots"])),
    *rows("ParametricProblem", lambda problem: trajopt.ParametricProblem(problem, "x0"), problem=(*KINDS, SYSTEM)),
    *rows("ParametricProblem of names", lambda names: trajopt.ParametricProblem(problem(), names),
          {"names": "x0"}, names=(3, None, b"x", "StateCots")),
    *rows("ParametricProblem called", lambda p: trajopt.ParametricProblem(problem(), "ControlCost.weights")(p),
          {"p": 1.0}, p=(*NOT_NUMBERS, None, [1.0, 2.0], {"x0": 1.0})),
    *rows("layers", LayerHost, {"make_problem": make_problem, "solver": DDP()}, make_problem=KINDS, solver=KINDS,
          workers=WHOLE[1:], memory=WHOLE),
    *rows("layers called", lambda warm_start: warm_starts_of(warm_start, 2), {"warm_start": None},
          warm_start=(*KINDS[1:], [3, None])),
    *rows("compare", trajopt.compare, {"problem": problem(), "solvers": {"ddp": DDP()}}, problem=KINDS,
          solvers=(*KINDS, {}, {"a": 3}, {"a": DDP})),
    *rows("continuation", lambda **given: trajopt.continuation(**{"make_problem": of_start, **given}),
          {"path": (0.1, 0.2)}, make_problem=KINDS, path=(*KINDS, [], [0.1], [0.1, 0.1], ["a", "b"], [0.1, [0.1, 0.2]],
          [0.1, np.nan], {"a": 0.1}), solver=(*KINDS[1:], DDP), first_step=(*ONE, 0.0, 0.5),
          longest_step=(*ONE, 0.0, 0.01), smallest_step=(*ONE, 0.0, 0.2), max_iterations=(*WHOLE, 0),
          max_points=(*WHOLE, 0), jumps=(*WHOLE, -1)),
    *rows("plot_continuation", trajopt.plot_continuation, continuation=(*KINDS, {}, 3)),
    *rows("plot", trajopt.plot_convergence, results=(*KINDS, {}, {"a": 3})),
    *rows("report", lambda path: solution().report(path), {"path": "report.html"}, path=(*KINDS, "report.pdf", "")),
    *rows("policy", lambda **given: solution().policy()(**{"t": 0.0, **given}), x=arrays(2)[1:]),
    *rows("policy of", lambda **given: solution().policy(**given), feedback=FLAGS, control=CHOICES,
          hold=OR_NONE, delay=(*ONE, -1.0)),
    *rows("policy of a robot", lambda **given: robot().policy(**given), joint_stiffness=STIFFNESS,
          joint_damping=STIFFNESS),
    *rows("resample", lambda **given: robot().resample(**{"dt": 0.01, **given}), dt=(*ONE, 0.0), hold=OR_NONE,
          joint_stiffness=STIFFNESS, joint_damping=STIFFNESS, delay=(*ONE, -1.0)),
    *rows("simulate a robot", lambda **given: trajopt.simulate(robot(), **given), joint_stiffness=STIFFNESS,
          joint_damping=STIFFNESS, payload=(*KINDS[1:], ("flange",), ("flange", -1.0), ("flange", 1.0, [0.0]), 3.0)),
    *rows("reference", lambda **given: solution().policy().reference(**given), t=(*ONE[:5], True, [1.0, 2.0])),
    *rows("simulate", lambda **given: trajopt.simulate(solution(), **given), dt=(*ONE, 0.0), period=(*ONE[1:], 0.0),
          policy=(3, THING, "closed"), delay=(*ONE, -1.0), noise=(*NOT_NUMBERS[:5], -1.0, np.ones(5)),
          payload=(("link", 1.0),), seed=(*WHOLE[1:], -1)),
    *rows(
        "CallableSystem", CallableSystem, {"step": lambda x, u: 2.0 * x + u, **PLAIN}, vectorized=FLAGS, name=TEXTS,
        scale=NOT_NUMBERS, x_example=arrays(2)[1:], u_example=arrays(1)[1:], scenery=arrays(1, 2, 3)[1:],
        step=(*KINDS[1:], *RETURNED),
    ),
    *rows(
        "residual", trajopt.residual, {"function": lambda x: 2.0 * x, "nr": 2, "system": SYSTEM}, system=KINDS,
        function=(*KINDS, *(lambda x, y=y: y for y in (None, "a", [1.0], 1j * np.ones(2), 1.0))), nr=(*WHOLE[1:], 0),
        derivatives=CHOICES, vectorized=FLAGS, scale=NOT_NUMBERS, name=TEXTS, x_example=arrays(2)[1:],
        component_names=(3, THING, ["a"], [3, 4]),
    ),
    *rows(
        "residual of as many numbers as it has", trajopt.residual,
        {"function": lambda x: 2.0 * x, "nr": None, "system": SYSTEM},
        function=tuple(lambda x, y=y: y for y in (None, "a", 1j * np.ones(2), np.ones((2, 2)), [])),
    ),
    *rows("residual of controls", trajopt.residual,
          {"function": lambda x, u: 2.0 * x + u, "nr": 2, "system": SYSTEM}, u_example=arrays(1)[1:]),
    *rows("point by point", CallableSystem, {**PLAIN, "vectorized": False}, step=RETURNED),
    *rows("step", of_doubling("step"), {"x": X, "u": U}, x=arrays(2, finite=False), u=arrays(1, finite=False)),
    *rows("rollout", of_doubling("rollout"), {"x0": X, "us": US}, x0=arrays(2, finite=False),
          us=arrays(3, 1, finite=False)),
    *rows("linearize", of_doubling("linearize"), {"xs": XS, "us": US}, xs=arrays(4, 2, finite=False)),
    *rows("hessians", of_doubling("hessian_products"), {"xs": XS, "us": US}, lam=arrays(3, 2, finite=False)),
    *rows("FreeDurationSystem", trajopt.FreeDurationSystem, {"system": doubling_time(), "horizon": 5}, system=KINDS,
          horizon=WHOLE[1:], phases=(THING, 3, [1.5], [3], ENDLESS),
          bounds=("text", THING, [2.0, 1.0], [0.0, 1.0], [np.nan, 1.0], ENDLESS, [1.0])),
    *rows("FreeDurationSystem.state", lambda **given: FREE.state(**{"x": X, **given}), x=arrays(2),
          duration=(*ONE, 0.0)),
    *rows("TimeCost", trajopt.TimeCost, {"system": FREE}, system=(*KINDS, SYSTEM), weight=(*ONE, -1.0)),
    *rows("with_free_durations", trajopt.with_free_durations, {"problem": of_time()}, problem=KINDS,
          time_weight=(*ONE, -1.0)),
    *rows("PseudoHuber", trajopt.PseudoHuber, {"delta": 0.1}, delta=(*ONE[:-1], 0.0)),
    *rows("SmoothNorm", trajopt.SmoothNorm, {"scale": 0.1}, scale=(*ONE, 0.0)),
    *rows("QuadraticBarrier", trajopt.QuadraticBarrier, {"lower": -1.0, "upper": 1.0},
          lower=("text", THING, np.nan, 2.0, ENDLESS), upper=("text", THING, np.nan, -2.0, ENDLESS)),
    *rows("plot_trajectory", trajopt.plot_trajectory, results=KINDS),
    *rows("animate", trajopt.animate, {"solution": solution(), "path": "x.gif"}, solution=KINDS, fps=(*ONE, 0.0)),
    *rows("solve_many", trajopt.solve_many, {"make_problem": of_start, "parameters": [0.1], "solver": DDP()},
          make_problem=KINDS, parameters=(None, 3.0, THING), solver=KINDS, threads=(1, "text", THING)),
    *rows("continuation", trajopt.continuation, {"make_problem": of_start, "path": (0.1, 0.2)}, make_problem=KINDS,
          path=(None, "text", THING, 3.0, [1.0], (0.1, "a"), ENDLESS)),
    *rows("covariance", lambda **given: solution().covariance(**given), process_noise=arrays(2, 2)),
    *rows("laplace", lambda **given: solution().laplace(**given), temperature=(*ONE, 0.0)),
    *rows("vjp", lambda **given: solution().vjp(**given), xs_bar=arrays(6, 2)[1:], us_bar=arrays(5, 1)[1:]),
]  # fmt: skip


@pytest.mark.parametrize(("call", "good", "name", "values"), TABLE)
def test_bad_input(call, good, name, values):
    assert_refused(call, good, name, values)


@pytest.mark.parametrize("other", [SYSTEM, "text", 3.0])
def test_the_problem_of_a_solution_that_is_read(other, tmp_path):
    solution().save(tmp_path / "solution.npz")
    with pytest.raises(TypeError, match=r"problem: got .*, expected a trajopt\.Problem"):
        trajopt.Solution.load(tmp_path / "solution.npz", other)


@pytest.mark.parametrize("function", [trajopt.total_cost, trajopt.expand, trajopt.cost_curvature])
def test_trajectories_are_checked_before_kernels_take_them(function):
    problem = Problem(SYSTEM, np.zeros(2), 10, [ControlCost(0.1)], [StateCost(SYSTEM, [1.0, 0.0], 10.0)])
    xs, us = np.zeros((11, 2)), np.zeros((10, 1))
    endless = []
    endless.append(endless)
    for name, wrong in (
        *(("xs", x) for x in (xs[:3], xs[:, :1], xs[0], xs[:0], np.zeros((100, 2)), endless, "states", xs + 0j, None)),
        *(("us", u) for u in (us[:2], us[:0], us[:, :0], us[:, 0], np.zeros((11, 1)), endless, us > 0.0)),
    ):
        with pytest.raises((TypeError, ValueError), match=f"^{name}: got .*expected"):
            function(problem, **({"xs": xs, "us": us} | {name: wrong}))
    with pytest.raises(TypeError, match=r"^problem: got int"):
        function(3, xs, us)
    right = function(problem, xs, us)
    for same in (xs.astype(np.float16), np.asfortranarray(xs), xs.astype(int), xs.tolist()):
        found = function(problem, same, us.tolist())
        for a, b in zip(*((value,) if isinstance(value, float) else value for value in (right, found)), strict=True):
            np.testing.assert_array_equal(a, b)


# ------------------------------------------------------------------------------------------------ functions of users
TWO = CallableSystem(xdot=lambda x, u: (x[1], u[0]), nx=2, nu=1, dt=0.1)


def of_two(**terms):
    return Problem(TWO, [0.1, 0.0], 5, **terms)


@pytest.mark.parametrize("at", ["path", "terminal"])
@pytest.mark.parametrize(
    ("function", "kind", "said"),
    [
        (lambda x: (x[5],), ValueError, r"function: raises IndexError \(index 5 .*\), expected a function of x of 2"),
        (lambda x: None, TypeError, "function: returned None, expected a number or a vector"),
        (lambda x: x.shape[0] * x[0] * x.width, ValueError, r"function: raises AttributeError \(.*'width'\), expected"),
        (lambda x: x[:0], ValueError, "function: returned shape"),
    ],
)
def test_functions_that_are_no_residuals_are_told_by_the_terms_that_they_are_in(function, kind, said, at):
    constraint = trajopt.ResidualConstraint(function, at=at, name="disc")
    with pytest.raises(kind, match=rf"^constraints\[1\], 'disc': {said}"):
        of_two(constraints=[ControlBounds(-1.0, 1.0), constraint])
    with pytest.raises(kind, match=rf"^running_costs\[0\]: {said}"):
        of_two(running_costs=[trajopt.ResidualCost(function, 1.0)])


@pytest.mark.parametrize("at", ["terminal", "all", [2, 5], -1])
def test_what_reads_controls_is_refused_at_the_last_knot_when_the_problem_is_made(at):
    function = lambda x, u: (x[0] + u[0],)  # noqa: E731
    for residual in (function, trajopt.residual(function, 1, TWO)):
        constraint = trajopt.ResidualConstraint(residual, at=at, name="last thrust")
        with pytest.raises(ValueError, match=r"^constraints: 'last thrust' got a function of controls, .* expected"):
            of_two(constraints=[constraint])
        with pytest.raises(ValueError, match=r"^terminal_costs: .* got a function of controls, .* expected one of"):
            of_two(running_costs=[trajopt.ResidualCost(residual, 1.0, at=at)])
        of_two(constraints=[trajopt.ResidualConstraint(residual, at=where) for where in ("path", 4, slice(2, None))])
