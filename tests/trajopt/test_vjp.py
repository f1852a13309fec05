"""Gradients of functions of solutions by all that is in their problems: against problems made of other values."""

import pickle
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

import dynamics
import problems
import trajopt
from experiments.sensitivity.cases import CASES
from tests.tolerances import relative_error
from tests.trajopt.systems import CirclePendulum, Pendulum
from trajopt.costs.residuals import ControlResidual, SquaredNorm, StateResidual
from trajopt.layers import Covectors, LayerHost
from trajopt.optimality.kkt_system import KKTSystem
from trajopt.problem.parametric import LIMITS, places
from trajopt.problem.problem import Problem
from trajopt.results.stationary import polished_solution

AGAINST_MADE = 1e-7
"""Tolerance against differences of problems made of other values."""


def solved(problem):
    return polished_solution(problem, trajopt.DDP().solve(problem))


def bars(solution, seed=3):
    rng, n = np.random.default_rng(seed), solution.problem.system.ndx
    return rng.standard_normal((len(solution.xs), n)), rng.standard_normal(solution.us.shape), 2.0


def rows(value):
    """One for each knot."""
    return value * np.linspace(1.0, 1.2, 20)[:, None] + 0.01 * np.arange(20)[:, None]


# ------------------------------------------------------------------------------------------------ problems
def pressed():
    """A pendulum whose torque and speed press, which ends where it must, with numbers of all shapes."""
    s = Pendulum()
    running = [
        trajopt.StateCost(s, rows(np.array([0.3, 0.1])), rows(np.array([1.0, 0.1]))),
        trajopt.ControlCost(1e-2, 0.4),
        trajopt.ResidualCost(StateResidual(s, [0.2, 0.1]), [0.3, 0.2], trajopt.SmoothAbs(0.3), reference=0.05),
        trajopt.ResidualCost(ControlResidual(s, 0.1), 0.02, trajopt.SmoothNorm(0.2), reference=[0.03]),
    ]
    norm = SquaredNorm(StateResidual(s, [0.3, 0.1]))
    held = trajopt.ResidualConstraint(ControlResidual(s, 0.5), -20.0, 2.0, at=(3, 17, 19), name="push")
    goal = trajopt.ResidualConstraint(StateResidual(s, [0.18, 0.0]), 0.0, 0.0, at="terminal", name="goal")
    near = trajopt.ResidualConstraint(norm, -np.inf, [2.4], at=slice(0.5, 0.8), name="near")
    limits = [trajopt.ControlBounds(-9.0, 8.0), trajopt.ControlBounds(-0.1, [8.5], name="looser above")]
    bounds = trajopt.StateBounds(s, [-np.inf, -1.95], [np.inf, 4.0])
    terminal = [trajopt.StateCost(s, [0.2, 0.0], [5.0, 2.0], trajopt.PseudoHuber(0.5)),
                trajopt.ResidualCost(norm, 0.3, trajopt.WeightedQuadratic([[2.0]]))]  # fmt: skip
    return Problem(s, [1.2, 0.0], 20, running, terminal, [*limits, bounds, held, goal, near])


def reaching(horizon=20):
    """An arm with targets of all kinds."""
    model = dynamics.load_urdf(problems.model_path("arm6"))
    system, frame, q = dynamics.RigidBodySystem(model, 0.05), "tool", np.full(6, 0.3)
    R, place = dynamics.frame_placement(model, q + 0.2, frame)
    ball = dynamics.FrameTranslation(model, frame, place)
    running = [
        trajopt.ControlCost(1e-3), trajopt.ResidualCost(dynamics.FrameVelocity(model, frame), 0.1),
        trajopt.ResidualCost(dynamics.FrameRotation(model, frame, R), 1.0, trajopt.PseudoHuber(0.2)),
        trajopt.ResidualCost(SquaredNorm(ball), 10.0), trajopt.StateCost(system, system.state(q), 0.1),
    ]  # fmt: skip
    pose = dynamics.FramePlacement(model, frame, (R, place))
    terminal = [trajopt.ResidualCost(pose, [50.0, 60.0, 70.0, 5.0, 6.0, 7.0])]
    held = [trajopt.ResidualConstraint(ball, -0.04, 0.04, at="terminal", name="reached")]
    return Problem(system, system.state(q), horizon, running, terminal, held, us_init="quasi_static")


def wrapped(kind):
    """The pendulum as a robot with what the control before adds, or with free durations."""
    plain = problems.make("double_pendulum")
    plain = replace(plain, horizon=25, us_init=None, x0=np.array([2.9, 0.2, 0.0, 0.0]))
    if kind == "durations":
        return trajopt.with_free_durations(plain, 1.0)
    system = trajopt.ControlRateSystem(plain.system)
    push = trajopt.ResidualCost(system.lift(StateResidual(plain.system, plain.x0)), 0.3)
    costs = [*map(system.lift, plain.running_costs), trajopt.ControlRateCost(system, 1e-4), push]
    return Problem(system, system.state(plain.x0), 25, costs, [system.lift(plain.terminal_costs[0])])


def quadrotor():
    """Clamped thrusts, a state on a manifold, a bound on it."""
    plain = case("quadrotor")
    s = plain.system
    tilted = s.integrate(plain.x0, np.r_[0.1, 0.2, 0.0, 0.1, 0.2, 0.3, np.zeros(6)])
    level = trajopt.StateBounds(s, lower=np.r_[np.full(5, -np.inf), -0.3, np.full(6, -np.inf)], reference=tilted)
    path = np.stack([s.integrate(plain.x0, np.r_[0.01 * t, np.zeros(11)]) for t in range(75)])
    costs = [*plain.running_costs, trajopt.StateCost(s, path, 0.05)]
    return replace(plain, running_costs=costs, constraints=[*plain.constraints, level])


def case(name):
    """Of the experiment."""
    return CASES[name].make(CASES[name].p)


MADE = {
    "pressed": pressed, "reaching": reaching, "rates": lambda: wrapped("rates"), "quadrotor": quadrotor,
    "durations": lambda: wrapped("durations"), "quadruped": lambda: case("quadruped_stand"),
    "unicycle": lambda: case("unicycle"),
}  # fmt: skip


@cache
def solution_of(name):
    return solved(MADE[name]())


def turned(target, d):
    """A pose T exp(d), or a rotation, to second order."""
    K = np.cross(np.eye(3), 0.5 * d[-3:])
    R = np.linalg.solve(np.eye(3) - K, np.eye(3) + K)
    return (target[0] @ R, target[1] + target[0] @ d[:3]) if isinstance(target, tuple) else target @ R


def moved(problem, place, attribute, gradient):
    """The problem as a function of the attribute, moved along its tangent, and where that is now."""
    value, s = place.values[attribute], problem.system
    def make(p):
        if isinstance(value, tuple) or (gradient.shape == (3,) and np.shape(value) == (3, 3)):
            new = turned(value, p)
        elif np.shape(value) != gradient.shape:
            new = s.integrate(value, p)
        else:
            new = p
        prepared = trajopt.DDP().prepare(problem)
        prepared.update({place.name: {attribute: new}})
        return prepared.problem

    plain = isinstance(value, np.ndarray | float) and np.shape(value) == gradient.shape
    return make, np.array(value, dtype=float) if plain else np.zeros(gradient.shape)


def some_size(p, attribute):
    """Of an array, those that can be moved, at most seven: finite ones, of weights positive ones."""
    index = np.flatnonzero(np.isfinite(p) & ((p > 0.0) | (attribute != "weights")))
    return index[:: max(1, len(index) // 5)]


def of_some(make, whole, index):
    """As a function of some numbers of an array."""

    def of_part(p):
        full = whole.copy()
        full.reshape(-1)[index] = p
        return make(full)

    return of_part


@pytest.mark.parametrize("name", MADE)
def test_every_attribute(name):
    """And that all there are have a gradient."""
    solution, checked = solution_of(name), 0
    problem, covectors = solution.problem, bars(solution)
    found = solution.vjp(*covectors)
    for place in places(problem).values():
        for attribute in place.values:
            gradient = found[place.name][attribute]
            make, p = moved(problem, place, attribute, gradient)
            index = some_size(p, attribute)
            if not len(index) or (attribute in LIMITS and np.array_equal(*(place.values[side] for side in LIMITS))):
                continue  # one of two equal limits alone cannot be moved
            steps = 1e-3 * np.abs(p.ravel()[index]) if attribute == "weights" else None
            make, p, gradient = of_some(make, p, index), p.ravel()[index], np.ravel(gradient)[index]
            expected = trajopt.sensitivity(make, p, solution, steps=steps).vjp(*covectors)
            size = max(float(np.abs(expected).max()), 1e-6)
            assert np.abs(gradient - expected).max() < AGAINST_MADE * size, (place.name, attribute)
            checked += 1
    assert checked >= 4


@pytest.mark.parametrize("name", ["pressed", "quadrotor", "quadruped"])
def test_initial_state(name):
    solution = solution_of(name)
    problem, covectors = solution.problem, bars(solution)

    def make(p):
        return replace(problem, x0=problem.system.integrate(problem.x0, p))

    p, steps = np.zeros(problem.system.ndx), 1e-4  # contacts leave little room
    expected = trajopt.sensitivity(make, p, solution, steps=steps).vjp(*covectors)
    assert relative_error(solution.vjp(*covectors)["x0"], expected) < AGAINST_MADE


@pytest.mark.parametrize("name", ["pressed", "reaching", "quadrotor"])
def test_of_the_cost_alone(name):
    """The envelope theorem: no sweep, and the same as by differences of the cost at the trajectory."""
    solution = solution_of(name)
    problem, found = solution.problem, solution.vjp(cost_bar=1.0)
    for place in places(problem).values():
        if "weights" not in place.values:
            continue
        gradient = found[place.name]["weights"]
        make, p = moved(problem, place, "weights", gradient)
        index = some_size(p, "weights")
        make, p, gradient = of_some(make, p, index), p.ravel()[index], np.ravel(gradient)[index]
        costs = [make(p * (1.0 + h * (np.arange(p.size) == i))).objective.value(solution.xs, solution.us)
                 for i in range(p.size) for h in (1e-4, -1e-4)]  # fmt: skip
        slopes = -np.diff(np.reshape(costs, (-1, 2)))[:, 0] / (2e-4 * p)
        assert np.abs(gradient - slopes).max() < 1e-6 * max(np.abs(slopes).max(), 1e-3)


def flat(found):
    """All numbers."""
    return np.concatenate([flat(part) if isinstance(part, dict) else np.ravel(part) for part in found.values()])


@pytest.mark.parametrize("name", ["pressed", "reaching", "quadrotor"])
def test_linear_in_covectors(name):
    solution = solution_of(name)
    (xs, us, _), (others, controls, _) = bars(solution), bars(solution, 5)
    parts = [solution.vjp(*some) for some in ((xs, us), (others, controls, 2.0), (None, controls), (xs, None, -1.0))]
    total = solution.vjp(2.0 * xs + others + xs, 2.0 * us + 2.0 * controls, 1.0)
    expected = 2.0 * flat(parts[0]) + sum(map(flat, parts[1:]))
    assert relative_error(flat(total), expected) < 1e-7, "by inertial parameters a difference along the direction"
    assert not flat(solution.vjp()).any()


def test_inertial_parameters_and_names():
    solution = solution_of("reaching")
    covectors = bars(solution)
    found = solution.vjp(*covectors)
    assert np.array_equal(found["inertial"], solution.inertial_vjp(*covectors))
    some = solution.vjp(*covectors, wrt=["target", "inertial", "StateCost", "reached.upper"])
    assert list(some["StateCost"]) == ["reference"] and set(some["reached"]) == {"target", "upper"} and "x0" not in some
    assert np.array_equal(some["reached"]["target"], found["reached"]["target"])
    assert "inertial" not in solution_of("quadruped").vjp(cost_bar=1.0), "its centre of mass depends on masses"
    assert "inertial" not in solution_of("durations").vjp(cost_bar=1.0), "these steps do not know it"
    with pytest.raises(ValueError, match="whose centre of mass depends on the inertial parameters"):
        solution_of("quadruped").vjp(cost_bar=1.0, wrt=["inertial"])


def test_numbers_of_states():
    solution = solution_of("quadrotor")
    s, (_, us_bar, _) = solution.problem.system, bars(solution)
    xs_bar = np.random.default_rng(2).standard_normal(solution.xs.shape)
    tangents = np.einsum("tij,ti->tj", s.integrate_jacobian(solution.xs), xs_bar)
    assert np.array_equal(flat(solution.vjp(xs_bar, us_bar, ambient=True)), flat(solution.vjp(tangents, us_bar)))


# ------------------------------------------------------------------------------------------------ terms of users
class Wave(trajopt.StateCost):
    """A cost with a value of its own, and no gradient by its attributes."""

    def value(self, xs, us):
        return 2.0 * super().value(xs, us)

    def accumulate(self, xs, us, scale, target):
        super().accumulate(xs, us, 2.0 * scale, target)

    def accumulate_curvature(self, xs, us, scale, target):
        super().accumulate_curvature(xs, us, 2.0 * scale, target)



class Sine:
    """r = sin(a x_0), with a number that may change."""

    nr, adjustable, name = 1, ("a",), "sine"

    def __init__(self, a):
        self.a = a

    def adjusted(self, a):
        return Sine(float(a))

    def evaluate(self, xs, us):
        return np.sin(self.a * xs[:, :1])

    def jacobians(self, xs, us):
        return np.stack([self.a * np.cos(self.a * xs[:, :1]), np.zeros((len(xs), 1))], axis=2), None

    def hessian_products(self, xs, us, mu):
        H = np.zeros((len(xs), 2, 2))
        H[:, 0, 0] = -(self.a**2) * np.sin(self.a * xs[:, 0]) * mu[:, 0]
        return H, None, None


def replaced(solution, cost):
    """Of the problem with another second cost."""
    first, _, last = solution.problem.running_costs
    return solved(replace(solution.problem, running_costs=[first, cost, last]))


def test_terms_that_know_no_gradient():
    """They are differenced, alone."""
    s = Pendulum()

    def make(p):
        costs = [trajopt.ControlCost(0.1), Wave(s, p[:2], 1.0), trajopt.ResidualCost(Sine(p[2]), 2.0)]
        held = trajopt.ResidualConstraint(Sine(p[3]), 0.3, 0.3, at="terminal", name="held")
        return Problem(s, [1.0, 0.0], 20, costs, [], [held])

    p = np.array([0.5, 0.1, 0.7, 0.9])
    solution = solved(make(p))
    covectors = bars(solution)
    found = solution.vjp(*covectors)
    direct = np.r_[found["Wave"]["reference"], found["sine"]["a"], found["held"]["a"]]
    assert relative_error(direct, trajopt.sensitivity(make, p, solution).vjp(*covectors)) < AGAINST_MADE
    twice = 2.0 * replaced(solution, trajopt.StateCost(s, p[:2], [2.0, 0.0])).vjp(*covectors)["StateCost"]["weights"]
    found = replaced(solution, Wave(s, p[:2], [1.0, 0.0])).vjp(*covectors)["Wave"]["weights"]
    assert relative_error(found, twice) < AGAINST_MADE, "a weight of zero has no other side"


# ------------------------------------------------------------------------------------------------ declared parameters
NAMES = "x0", "StateCost", "StateCost.weights", "near.upper", "ControlCost"


@pytest.fixture
def nothing_made(monkeypatch):
    """No problem is made, however it is called."""

    def made(*args):
        raise AssertionError("a problem was made")

    return lambda: monkeypatch.setattr(Problem, "__post_init__", made)


def test_a_problem_of_declared_parameters(nothing_made):
    """A vector or a mapping, of which no problem is made, against a function that makes problems."""
    solution, parametric = solution_of("pressed"), trajopt.ParametricProblem(pressed(), *NAMES)
    covectors, p = bars(solution), parametric.p
    assert p.shape == (2 + 40 + 40 + 1 + 1,) and np.array_equal(parametric(p).x0, solution.problem.x0)
    expected = trajopt.sensitivity(lambda p: parametric(p), p, solution)
    reverse, cost, forward = expected.vjp(*covectors), expected.cost, expected.us
    nothing_made()
    found = trajopt.sensitivity(parametric, p, solution)
    assert relative_error(found.vjp(*covectors), reverse) < AGAINST_MADE
    assert relative_error(found.cost, cost) < AGAINST_MADE and "change" not in found.__dict__
    assert relative_error(found.us, forward) < 1e-9
    by_name = trajopt.sensitivity(parametric, parametric.values, solution, wrt=["near.upper", "x0"]).vjp(*covectors)
    assert list(by_name) == ["near.upper", "x0"]
    assert np.array_equal(by_name["near.upper"], found.vjp(*covectors)[82:83])


def test_one_parameter_of_its_own_shape():
    solution, parametric = solution_of("pressed"), trajopt.ParametricProblem(pressed(), "StateCost")
    p = parametric.values["StateCost"]
    found = trajopt.sensitivity(parametric, p, solution).vjp(*bars(solution))
    assert np.array_equal(found, solution.vjp(*bars(solution))["StateCost"]["reference"])
    assert trajopt.sensitivity(parametric, p.ravel(), solution).vjp(*bars(solution)).shape == (40,)


def test_a_value_of_several_terms():
    """An attribute of all terms that have it."""
    s = Pendulum()
    running, terminal = (trajopt.StateCost(s, [0.1, 0.0], weight) for weight in (1.0, 9.0))
    effort = trajopt.ResidualCost(ControlResidual(s), 0.1, reference=[0.0])
    solution = solved(Problem(s, [0.6, 0.0], 20, [running, effort], [terminal]))
    parametric = trajopt.ParametricProblem(replace(solution.problem, running_costs=[running]), "reference")
    assert all(term.cost.reference[1] == 0.3 for term in parametric([0.2, 0.3]).objective.terms)
    parametric = trajopt.ParametricProblem(solution.problem, "StateCost", "terminal StateCost")
    both, apart = solution.vjp(*bars(solution)), trajopt.sensitivity(parametric, parametric.values, solution)
    assert all(np.array_equal(part, both[name]["reference"]) for name, part in apart.vjp(*bars(solution)).items())
    everywhere = solution.vjp(*bars(solution), wrt=["reference"])
    assert set(everywhere) == {"StateCost", "terminal StateCost", "ResidualCost"}


def test_states_by_their_numbers():
    """Of a quadrotor: along a curve of quaternions, the slope is the product with the gradient by the numbers."""
    solution = solution_of("quadrotor")
    problem, covectors = solution.problem, bars(solution)
    s, direction = problem.system, np.r_[0.1, -0.2, 0.3, 0.3, 0.2, -0.1, np.zeros(6)]
    parametric = trajopt.ParametricProblem(problem, "x0", "StateCost 1", "StateCost 2", "state bounds.reference")
    found = trajopt.sensitivity(parametric, parametric.values, solution).vjp(*covectors)

    def make(p):
        moved = {name: s.integrate(value, np.broadcast_to(float(p) * direction, (*value.shape[:-1], 12)))
                 for name, value in parametric.values.items()}  # fmt: skip
        return parametric(moved)

    expected = trajopt.sensitivity(make, 0.0, solution, steps=1e-3).vjp(*covectors)
    ways = {name: (s.integrate_jacobian(np.atleast_2d(value)) @ direction).reshape(value.shape)
            for name, value in parametric.values.items()}  # fmt: skip
    total = sum(float((found[name] * way).sum()) for name, way in ways.items())
    assert total == pytest.approx(expected, rel=AGAINST_MADE)


def test_a_layer_of_declared_parameters(nothing_made):
    """It solves, multiplies and travels."""
    parametric = pickle.loads(pickle.dumps(trajopt.ParametricProblem(pressed(), *NAMES)))
    host, solution = LayerHost(parametric, trajopt.DDP()), solution_of("pressed")
    xs_bar, us_bar, cost_bar = bars(solution)
    expected = trajopt.sensitivity(lambda p: parametric(p), parametric.p, solution).vjp(xs_bar, us_bar, cost_bar)
    nothing_made()
    points = host.points(parametric.p[None])
    assert relative_error(points[0].solution.us, solution.us) < 1e-8
    assert relative_error(host.vjp(points, [Covectors(xs_bar, us_bar, cost_bar)])[0], expected) < AGAINST_MADE


def test_layer_of_jax(nothing_made):
    """A pytree of names, and a vector."""
    jax = pytest.importorskip("jax")
    jax.config.update("jax_enable_x64", True)
    optimal_control = pytest.importorskip("trajopt.jax").optimal_control
    parametric, solution = trajopt.ParametricProblem(pressed(), *NAMES), solution_of("pressed")
    expected = solution.vjp(us_bar=2.0 * solution.us, cost_bar=1.0)
    nothing_made()

    def loss(p):
        _, us, cost = optimal_control(parametric, trajopt.DDP())(p)
        return (us**2).sum() + cost

    values = {name: np.asarray(value) for name, value in parametric.values.items()}
    found = jax.grad(loss)(values)
    assert relative_error(found["StateCost.weights"], expected["StateCost"]["weights"]) < 1e-6
    assert relative_error(found["x0"], expected["x0"]) < 1e-6
    whole = np.concatenate([np.ravel(found[name]) for name in NAMES])
    assert relative_error(jax.grad(loss)(parametric.p), whole) < 1e-8


def test_layer_of_torch(nothing_made):
    torch = pytest.importorskip("torch")
    parametric, solution = trajopt.ParametricProblem(pressed(), *NAMES), solution_of("pressed")
    layer = pytest.importorskip("trajopt.torch").OptimalControl(parametric, trajopt.DDP())
    p = torch.tensor(parametric.p, requires_grad=True)
    nothing_made()
    _, us, cost = layer(p)
    ((us**2).sum() + cost).backward()
    found = solution.vjp(us_bar=2.0 * solution.us, cost_bar=1.0)
    expected = np.r_[found["x0"], found["StateCost"]["reference"].ravel(), found["StateCost"]["weights"].ravel(),
                     found["near"]["upper"], found["ControlCost"]["reference"]]  # fmt: skip
    assert relative_error(p.grad.numpy(), expected) < 1e-6


# ------------------------------------------------------------------------------------------------ bad input
def test_bad_input_of_vjp():
    solution = solution_of("pressed")
    for arguments, error, said in [
        ({"xs_bar": np.zeros(3)}, ValueError, r"xs_bar: got shape \(3,\)"),
        ({"us_bar": np.full((20, 1), np.nan)}, ValueError, "us_bar: got NaN"),
        ({"cost_bar": np.inf}, ValueError, "cost_bar: got NaN or Inf"),
        ({"ambient": 1}, TypeError, "ambient: got 1"),
        ({"wrt": "x0"}, TypeError, "wrt: got 'x0', expected a list of names"),
        ({"wrt": ["StateCots"]}, ValueError, "got 'StateCots'.*expected some of"),
        ({"wrt": ["inertial"]}, TypeError, "has no gradient by inertial parameters"),
    ]:
        with pytest.raises(error, match=said):
            solution.vjp(**{"cost_bar": 1.0, **arguments})
    with pytest.raises(ValueError, match="got one without its problem"):
        replace(solution, problem=None).vjp(cost_bar=1.0)
    with pytest.raises(TypeError, match="lacks integrate_jacobian"):
        s = CirclePendulum()
        goal = s.embed(np.array([2.0, 0.0]))
        costs = [trajopt.ControlCost(0.1)], [trajopt.StateCost(s, goal, 5.0)]
        problem = Problem(s, s.embed(np.array([1.5, 0.0])), 10, *costs)
        found = solved(problem)
        assert found.vjp(us_bar=found.us)["terminal StateCost"]["reference"].shape == (2,)
        parametric = trajopt.ParametricProblem(problem, "terminal StateCost")
        trajopt.sensitivity(parametric, parametric.p, found).vjp(us_bar=found.us)


def test_bad_input_of_parametric_problems():
    problem = pressed()
    for names, error, said in [
        ((), ValueError, r"names: got \(\), expected some, each once"),
        (("x0", "x0"), ValueError, "expected some, each once"),
        (("StateCost", "StateCost.reference"), ValueError, "two of which mean the same"),
        ((1,), TypeError, "names: got 1"),
        (("StateCots",), ValueError, "names: got 'StateCots'.*expected some of"),
        (("control bounds",), ValueError, "names: got 'control bounds'"),
        (("StateCost.upper",), ValueError, "names: got 'StateCost.upper'"),
        (("reference",), ValueError, r"of shape \(\), expected \(20, 2\) as of the first"),
    ]:
        with pytest.raises(error, match=said):
            trajopt.ParametricProblem(problem, *names)
    with pytest.raises(TypeError, match="problem: got int"):
        trajopt.ParametricProblem(1, "x0")
    with pytest.raises(TypeError, match="the target of 'terminal placement of tool', which is a tuple, expected an"):
        trajopt.ParametricProblem(reaching(), "terminal placement of tool")
    parametric = trajopt.ParametricProblem(problem, "x0", "near.upper")
    for p, error, said in [
        ([1.0, 2.0], ValueError, r"p: got shape \(2,\), expected \(3,\), or a mapping"),
        ("far", TypeError, "p: got str"),
        ({"x0": [1.0, 0.0]}, ValueError, "p: got x0, expected x0, near.upper"),
        ({"x0": [1.0], "near.upper": [1.0]}, ValueError, r"p\['x0'\]: got shape \(1,\), expected \(2,\)"),
        ([np.nan, 0.0, 2.0], ValueError, "x0: got NaN"),
        ([1.0, 0.0, np.nan], ValueError, "upper: got NaN"),
    ]:
        with pytest.raises(error, match=said):
            parametric(p)
    turn = trajopt.ParametricProblem(reaching(), "rotation of tool")
    with pytest.raises(TypeError, match=r"rotation of tool: got \(3, 3\) numbers on a manifold of \(3,\)"):
        trajopt.sensitivity(turn, turn.p, solution_of("reaching")).vjp(cost_bar=1.0)


def test_one_backward_pass(monkeypatch):
    """However many numbers there are."""
    solution, calls = solution_of("pressed"), []
    solve = KKTSystem.solve
    monkeypatch.setattr(KKTSystem, "solve", lambda self, rhs: calls.append(1) or solve(self, rhs))
    solution.vjp(*bars(solution))
    assert len(calls) == 1
