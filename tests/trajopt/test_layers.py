"""Layers: gradients of losses against polished solves, what is solved when, and what has no solution.

The shared part is tested without a framework; each framework has tests of its own, skipped where it is absent.
"""

import importlib
import pickle
import sys
import warnings
from functools import cache

import numpy as np
import pytest

import trajopt
from experiments.sensitivity.cases import CASES
from tests.tolerances import IDENTITY, relative_error
from tests.trajopt.systems import LinearSystem, Pendulum
from trajopt.layers import Covectors, LayerHost, warm_starts_of
from trajopt.optimality.first_order import FOURTH_ORDER
from trajopt.results import stationary
from trajopt.results.stationary import polished_solution

RESOLVED = 1e-8
"""Of gradients of a loss against differences of polished solves."""
CARTPOLE = CASES["cartpole"]
P0 = np.array(list(CARTPOLE.p.values()))


def swing(p):
    """A pole on a cart; p (6,): masses, length, dt, start and weight."""
    return CARTPOLE.make(dict(zip(CARTPOLE.p, p, strict=True)))


def pendulum(p):
    """p (2,): mass and goal."""
    if p[0] > 5.0:
        raise TypeError("no pendulum is as heavy as that")
    if p[0] <= 0.0:
        raise ValueError(f"a mass of {p[0]}")
    system = Pendulum(mass=p[0])
    return trajopt.Problem(
        system, [0.3, 0.0], 10, [trajopt.ControlCost(1e-2)], [trajopt.StateCost(system, [p[1], 0.0], [50.0, 5.0])]
    )


def touching(p):
    """x+ = x + u to p, u <= 1/2: the limit is just touched at p = 1, where u = p/2."""
    system = LinearSystem(np.eye(1), np.eye(1))
    costs = [trajopt.ControlCost(1.0)], [trajopt.StateCost(system, p, 1.0)]
    return trajopt.Problem(system, [0.0], 1, *costs, [trajopt.ControlBounds(-np.inf, 0.5)])


def limited(p):
    """x+ = x + u to p, whose states stay below 1/4: a row of constraints with a multiplier."""
    system = LinearSystem(np.eye(1), np.eye(1))
    costs = [trajopt.ControlCost(1.0)], [trajopt.StateCost(system, p, 1.0)]
    return trajopt.Problem(system, [0.0], 2, *costs, [trajopt.StateBounds(system, -np.inf, 0.25)])


def hanging(p):
    """A pendulum that hangs under its goal: a saddle, which iLQR does not leave."""
    costs = [trajopt.ControlCost(1e-2)], [trajopt.ResidualCost(Above(), p[0])]
    return trajopt.Problem(Pendulum(), [0.0, 0.0], 20, *costs)


class Above:
    """1 + cos q, zero above."""

    nr = 1

    def evaluate(self, xs, us):
        return 1.0 + np.cos(xs[:, :1])

    def jacobians(self, xs, us):
        return np.stack([-np.sin(xs[:, :1]), np.zeros((len(xs), 1))], axis=2), None

    def hessian_products(self, xs, us, mu):
        H = np.zeros((len(xs), 2, 2))
        H[:, 0, 0] = -np.cos(xs[:, 0]) * mu[:, 0]
        return H, None, None


class Counting:
    """A solver that remembers where its solves began."""

    def __init__(self):
        self.starts = []

    def solve(self, problem, warm_start=None):
        self.starts.append(warm_start)
        return trajopt.DDP().solve(problem, warm_start=warm_start)


@cache
def weights():
    """Of a loss of states and controls."""
    rng = np.random.default_rng(5)
    return rng.standard_normal((101, 4)), rng.standard_normal((100, 1))


def loss(library, xs, us, cost, W, V):
    return (W * library.sin(xs)).sum() + (V * us**2).sum() + library.log(cost)


@cache
def gradient():
    """Of the loss by p, by differences of polished solves."""
    problem, found = swing(P0), []
    solution = polished_solution(problem, trajopt.DDP().solve(problem))
    for i, p in enumerate(P0):
        h, total = CARTPOLE.factor * 1e-3 * (max(p, 1e-2) if p else 1.0), 0.0
        for multiple, weight in FOURTH_ORDER:
            other = swing(P0 + multiple * h * np.eye(6)[i])
            s = polished_solution(other, trajopt.DDP().solve(other, warm_start=solution))
            total += weight / h * loss(np, s.xs, s.us, s.cost, *weights())
        found.append(total)
    return np.array(found)


@cache
def jacobian():
    """Of the pendulum's xs, us and cost at (1, 1), by the exact derivatives of a polished solve."""
    p = np.ones(2)
    problem = pendulum(p)
    found = trajopt.sensitivity(pendulum, p, polished_solution(problem, trajopt.DDP().solve(problem)))
    return found.xs, found.us, found.cost


def start_at(*p):
    """Where solves of the pendulum may begin."""
    return trajopt.DDP().solve(pendulum(np.array(p)))


def left_and_right():
    """Warm starts of the two ways up of a pendulum that hangs, mirror images."""
    there = trajopt.DDP().solve(hanging(np.ones(1)))
    assert np.abs(there.xs[-1, 0]) > 1.0
    return there, trajopt.WarmStart(-there.us, -there.xs)


# ------------------------------------------------------------------------------------------------ the host
def test_gradients():
    host, (W, V) = LayerHost(swing, trajopt.DDP()), weights()
    points = host.points(P0[None])
    xs, us, cost = host.numbers(points)
    bars = [Covectors(W * np.cos(xs[0]), 2.0 * V * us[0], 1.0 / cost[0])]
    assert relative_error(host.vjp(points, bars)[0], gradient()) < RESOLVED


def test_rough_solves_are_polished():
    host, (W, V) = LayerHost(swing, trajopt.DDP(tolerance=1e-6)), weights()
    points = host.points(P0[None])
    xs, us, cost = host.numbers(points)
    bars = [Covectors(W * np.cos(xs[0]), 2.0 * V * us[0], 1.0 / cost[0])]
    assert relative_error(host.vjp(points, bars)[0], gradient()) < RESOLVED
    assert points[0].solution.largest_gap < 1e-12


def test_what_is_known_is_not_solved_again():
    solver = Counting()
    host = LayerHost(pendulum, solver, memory=3)
    first = host.points(np.array([[1.0, 1.0], [2.0, 1.0], [1.0, 1.0]]))
    assert len(solver.starts) == 2 and solver.starts == [None, None] and first[0] is first[2]
    host.points(np.array([[1.9, 1.0]]))
    assert len(solver.starts) == 3 and np.array_equal(solver.starts[2].us, first[1].solution.us)
    assert host.points(np.array([[2.0, 1.0]]))[0] is first[1] and len(solver.starts) == 3
    host.points(np.array([[1.1, 1.0]]))  # the first one is forgotten
    with pytest.warns(UserWarning, match=r"was forgotten and is solved again, expected more than memory=3"):
        again = host.again(np.array([[1.0, 1.0]]))[0]
    assert len(solver.starts) == 5 and relative_error(again.solution.us, first[0].solution.us) < 1e-10


@pytest.mark.parametrize("what", ["goal", "mass", "dt", "start", "limit", "horizon"])
def test_what_is_known_is_solved_again_where_make_problem_reads_something_else(what):
    others = {"goal": 1.0, "mass": 1.0, "dt": 0.05, "start": 0.3, "limit": 5.0, "horizon": 10}

    def impure(p):
        system = Pendulum(mass=others["mass"], dt=others["dt"])
        ends = [trajopt.StateCost(system, [others["goal"], 0.0], [p[0], 5.0])]
        limits = [trajopt.ControlBounds(-np.inf, others["limit"])]
        start = [others["start"], 0.0]
        return trajopt.Problem(system, start, others["horizon"], [trajopt.ControlCost(1e-2)], ends, limits)

    solver, p = Counting(), np.array([[50.0], [40.0]])
    host = LayerHost(impure, solver)
    first = host.points(p)
    assert host.points(p)[0] is first[0] and len(solver.starts) == 2  # nothing has changed
    others[what] = {"limit": 0.9 * first[0].solution.us.max(), "horizon": 11}.get(what, 1.01 * others[what])
    with pytest.warns(UserWarning, match="make_problem: got another problem for the same p"):
        changed = host.points(p[:1])[0]
    assert len(solver.starts) == 3 and solver.starts[2] is None
    fresh = LayerHost(impure, trajopt.DDP()).points(p[:1])[0].solution
    assert relative_error(changed.solution.us, fresh.us) < IDENTITY
    host.points(p[1:])  # the other one was forgotten too
    assert len(solver.starts) == 4


def test_points_are_forgotten_on_demand():
    solver, p = Counting(), np.array([[1.0, 1.0]])
    host = LayerHost(pendulum, solver)
    host.points(p)
    host.clear()
    host.points(p)
    assert solver.starts == [None, None]


def test_without_memory_nothing_that_came_before_counts():
    solver, p, other = Counting(), np.array([[1.0, 1.0]]), np.array([[1.2, 0.9], [1.0, 1.0], [1.0, 1.0]])
    host = LayerHost(pendulum, solver, memory=0)
    alone = host.points(p)[0].solution
    first, second, third = host.points(other)
    assert second is third and (second.solution.us == alone.us).all() and (second.solution.xs == alone.xs).all()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert (host.again(other[:1])[0].solution.us == first.solution.us).all()
    assert solver.starts == [None] * 4


class Fussy(Counting):
    """Does not converge where it is given a warm start."""

    def solve(self, problem, warm_start=None):
        solution = super().solve(problem, warm_start)
        return solution if warm_start is None else trajopt.DDP(max_iterations=1).solve(problem)


def test_cold_where_a_warm_start_fails():
    solver = Fussy()
    host = LayerHost(pendulum, solver)
    host.points(np.array([[1.0, 1.0]]))
    (point,) = host.points(np.array([[2.0, 1.0]]))
    assert [start is None for start in solver.starts] == [True, False, True] and point.solution.converged


def test_what_has_no_solution():
    host, one = LayerHost(pendulum, trajopt.DDP()), np.ones((11, 2))
    ps = np.array([[1.0, 1.0], [-1.0, 1.0], [np.nan, 1.0]])
    with pytest.warns(RuntimeWarning, match="no solution at p = "):
        points = host.points(ps)
    xs, us, cost = host.numbers(points)
    assert np.isfinite(xs[0]).all() and np.isnan(xs[1:]).all() and np.isnan(us[1:]).all() and np.isnan(cost[1:]).all()
    assert points[1].reason == "ValueError: a mass of -1.0" and points[2].solution is None and not points[0].reason
    some, none = Covectors(one, us[0], 1.0), Covectors(0.0 * one, 0.0 * us[0], 0.0)
    with pytest.warns(RuntimeWarning, match="no gradient at p = .*(a mass of -1.0|not finite)"):
        poisoned = some._replace(cost=np.nan)
        gradients = host.vjp([points[i] for i in (0, 1, 1, 0)], [some, some, none, poisoned])
    assert np.isfinite(gradients[0]).all() and np.isnan(gradients[[1, 3]]).all() and not gradients[2].any()
    with pytest.raises(TypeError, match="as heavy as that"):
        host.points(np.array([[6.0, 1.0]]))


@pytest.mark.parametrize(
    "make, solver, why",
    [
        (hanging, trajopt.ILQR(), "no strict minimum of second order"),
        (hanging, trajopt.DDP(escape=False), "no strict minimum of second order"),
        (pendulum, trajopt.DDP(max_iterations=1), "status 'max_iterations', expected a converged one"),
    ],
)
def test_what_is_no_minimum(make, solver, why):
    with pytest.warns(RuntimeWarning, match=why):
        (point,) = LayerHost(make, solver).points(np.array([[1.0, 1.0]]))
    assert point.solution is None and why in point.reason


def test_limits_that_are_just_touched():
    host = LayerHost(touching, trajopt.DDP())
    points = host.points(np.array([[1.0], [0.9]]))
    bars = [Covectors(np.zeros((2, 1)), np.ones((1, 1)), 0.0)] * 2
    with pytest.warns(RuntimeWarning, match="one of several gradients at p = .*, where 1 limits are just touched"):
        found = host.vjp(points[:1], bars[:1])
    assert abs(found[0, 0] - 0.5) < IDENTITY or abs(found[0, 0]) < IDENTITY
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert host.vjp(points[1:], bars[1:])[0, 0] == pytest.approx(0.5, abs=1e-12)


def test_processes_share_a_batch():
    """The same numbers as in this process."""
    ps, one = np.array([[1.0, 1.0], [1.5, 0.8], [-1.0, 0.0]]), np.ones((11, 2))
    together, alone, found = LayerHost(pendulum, trajopt.DDP(), workers=2), LayerHost(pendulum, trajopt.DDP()), []
    for host in (together, alone):
        with pytest.warns(RuntimeWarning, match="ValueError: a mass of -1.0"):
            points = host.points(ps)
        bars = [Covectors(one, point.solution.us, 1.0) for point in points[:2]]
        assert host.vjp(points[:1], bars[:1]).any()  # which is here, and stays here
        found.append([*host.numbers(points), host.vjp(points[:2], bars)])
    for a, b in zip(*found, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9)
    with pytest.raises(RuntimeError, match="TypeError: no pendulum is as heavy as that"):
        together.points(np.array([[6.0, 1.0], [7.0, 1.0]]))
    copy = pickle.loads(pickle.dumps(together))
    assert (copy.workers, copy.memory) == (2, 64) and copy.sizes(ps[0]) == (10, 2, 1)


# ------------------------------------------------------------------------------------------------ where solves begin
def test_a_solve_begins_where_it_is_told():
    solver, p, start = Counting(), np.array([[1.0, 1.0]]), start_at(1.2, 0.9).warm_start()
    host = LayerHost(pendulum, solver)
    (before,) = host.points(np.array([[1.01, 1.0]]))
    (point,) = host.points(p, [start])
    assert solver.starts[1] is start and len(solver.starts) == 2
    problem = pendulum(p[0])
    expected = polished_solution(problem, trajopt.DDP().solve(problem, warm_start=start), stationary.SHORT)
    assert (point.solution.us == expected.us).all() and (point.solution.xs == expected.xs).all()
    same = start._replace(us=start.us.copy())
    assert host.points(p, [same])[0] is point and host.again(p, [same])[0] is point and len(solver.starts) == 2
    assert host.points(p, [start._replace(us=1.1 * start.us)])[0] is not point and len(solver.starts) == 3
    host.points(np.array([[1.1, 1.0], [1.2, 1.0]]), [start, None])
    assert solver.starts[3] is start and np.array_equal(solver.starts[4].us, before.solution.us)


def test_a_warm_start_chooses_among_minima():
    right, left = left_and_right()
    starts = warm_starts_of([right, left, right], 3)
    points = LayerHost(hanging, trajopt.DDP()).points(np.ones((3, 1)), starts)
    assert points[0] is points[2]
    one, other = (point.solution for point in points[:2])
    assert relative_error(one.us, right.us) < 1e-4 and relative_error(other.us, -one.us) < 1e-7


def test_a_warm_start_that_fails_has_no_solution():
    host, start = LayerHost(pendulum, Fussy()), start_at(1.0, 1.0).warm_start()
    with pytest.warns(RuntimeWarning, match="no solution at p = .*'max_iterations'"):
        (point,) = host.points(np.array([[2.0, 1.0]]), [start])
    assert point.solution is None


def test_warm_starts_and_no_memory_make_answers_that_nothing_before_counts_for():
    p, others = np.array([1.0, 1.0]), np.array([[1.2, 0.9], [0.8, 1.1], [1.0, 1.0]])
    start, another = (start_at(*q).warm_start() for q in ((1.3, 0.8), (0.9, 1.3)))
    host, found = LayerHost(pendulum, trajopt.DDP(), memory=0), []
    for _ in range(2):
        found.append(host.points(p[None], [start])[0])
        found.append(host.points(np.array([others[0], p, others[1]]), [another, start, None])[1])
        found.append(host.points(others, [start] * 3)[2])
        found.append(host.again(p[None], [start])[0])
    for point in found[1:]:
        assert point is not found[0]
        assert (point.solution.us == found[0].solution.us).all() and (point.solution.xs == found[0].solution.xs).all()


def test_bad_warm_starts():
    start = start_at(1.0, 1.0).warm_start()
    assert warm_starts_of(None, None) == [None] and warm_starts_of(start, 2) == [start, start]
    with pytest.raises(TypeError, match="warm_start: got int, expected a Solution, a WarmStart or None"):
        warm_starts_of([start, 3], 2)
    with pytest.raises(TypeError, match="warm_start: got 2 in a list, expected one, as p is no batch"):
        warm_starts_of([start, start], None)
    with pytest.raises(ValueError, match="warm_start: got 1, expected one for each of the 2 problems of the batch"):
        warm_starts_of([start], 2)
    host, ps = LayerHost(pendulum, trajopt.DDP()), np.array([[-1.0, 1.0], [1.0, 1.0]])  # the first has no problem
    with pytest.raises(ValueError, match=r"warm_start: us: got shape \(10, 2\), expected \(N, 1\)"):
        host.points(ps, [None, start._replace(us=np.zeros((10, 2)))])
    with pytest.raises(ValueError, match=r"warm_start: xs: got shape \(11, 3\), expected \(11, 2\)"):
        host.points(ps, [start._replace(xs=np.zeros((11, 3))), start])
    shorter = start._replace(us=start.us[:5], xs=start.xs[:6], costate=None, K=None)
    assert host.points(ps[1:], [shorter])[0].solution is not None  # as solvers take it


# ------------------------------------------------------------------------------------------------ derivatives
def test_forward_equals_reverse(rng):
    """At limits, and by the numbers of quaternions."""
    quadrotor = CASES["quadrotor"]
    names, values = ("x0", "target"), np.array([quadrotor.p["x0"], quadrotor.p["target"]])

    def make(p):
        return quadrotor.make({**quadrotor.p, **dict(zip(names, p, strict=True))})

    host = LayerHost(make, trajopt.DDP())
    points, dp = host.points(values[None]), rng.standard_normal((1, 2))
    parts = host.numbers(points)
    bars = Covectors(rng.standard_normal(parts[0].shape[1:]), rng.standard_normal(parts[1].shape[1:]), 2.0)
    along = host.jvp(points, dp)
    forward = np.sum(bars.xs * along[0]) + np.sum(bars.us * along[1]) + bars.cost * along[2][0]
    reverse = host.vjp(points, [bars]) @ dp[0]
    assert relative_error(np.array([forward]), reverse) < 1e-9
    columns = next(i for i in range(10) if np.allclose(np.linalg.norm(parts[0][0, :, i : i + 4], axis=1), 1.0))
    quaternions, turned = (part[0][0, :, columns : columns + 4] for part in (parts, along))
    assert np.abs(np.einsum("ti,ti->t", quaternions, turned)).max() < IDENTITY  # they keep their length


def test_changes_where_there_is_no_solution():
    host = LayerHost(pendulum, trajopt.DDP())
    with pytest.warns(RuntimeWarning, match="a mass of -1.0"):
        points = host.points(np.array([[1.0, 1.0], [-1.0, 1.0], [-1.0, 1.0], [1.0, 1.0]]))
    dps = np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 0.0], [np.nan, 1.0]])
    with pytest.warns(RuntimeWarning, match="no derivative at p = .*(a mass of -1.0|not finite)"):
        found = host.jvp(points, dps)
    for part, exact in zip(found, jacobian(), strict=True):
        assert relative_error(part[0], exact[..., 0]) < 1e-9
        assert np.isnan(part[[1, 3]]).all() and not part[2].any()


def test_the_way_back_expands_once(monkeypatch):
    """The check of a point that is remembered is where its derivatives begin."""
    expanded, kkt_point = [], stationary.kkt_point
    host, p = LayerHost(pendulum, trajopt.DDP()), np.array([[1.0, 1.0]])
    host.points(p)
    monkeypatch.setattr(stationary, "kkt_point", lambda *a, **b: expanded.append(a) or kkt_point(*a, **b))
    bars = [Covectors(np.ones((11, 2)), np.ones((10, 1)), 1.0)]
    host.vjp(host.again(p), bars)
    assert len(expanded) == 1


def test_what_changes_before_the_way_back_has_no_gradient():
    """Of a point that was in memory, too."""
    goal = [1.0]
    host, p = LayerHost(lambda p: pendulum(np.append(p, goal)), trajopt.DDP()), np.array([[1.0]])
    fresh, known = host.points(p), host.points(p)
    goal[0] = 1.1
    bars = [Covectors(np.ones((11, 2)), np.ones((10, 1)), 1.0)]
    assert fresh[0] is known[0]
    with pytest.warns(RuntimeWarning, match="no gradient at p = .*which make_problem"):
        assert np.isnan(host.vjp(known, bars)).all()


def test_nothing_is_forgotten_that_was_never_solved():
    """As where a compiled gradient does not need the numbers of the way forward."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert LayerHost(pendulum, trajopt.DDP()).again(np.array([[1.0, 1.0]]))[0].solution is not None


@pytest.mark.parametrize("name", ["jax", "torch"])
def test_frameworks_are_extras(name, monkeypatch):
    monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.delitem(sys.modules, f"trajopt.{name}", raising=False)
    with pytest.raises(ImportError, match=rf"trajopt\.{name} needs {name}: pip install '"):
        importlib.import_module(f"trajopt.{name}")


# ------------------------------------------------------------------------------------------------ JAX
@pytest.fixture
def jax():
    """In double precision, as `trajopt.jax` asks for."""
    jax = pytest.importorskip("jax")
    importlib.import_module("trajopt.jax")
    with jax.enable_x64(True):
        yield jax


def test_jax(jax):
    """Alone, compiled, and in batches; of an array and of a dict."""
    jnp, solver = jax.numpy, Counting()
    layer = trajopt.jax.optimal_control(swing, solver)
    of_dict = trajopt.jax.optimal_control(CARTPOLE.make, trajopt.DDP(), example=CARTPOLE.p)
    f, g = (lambda p, layer=layer: loss(jnp, *layer(p), *weights()) for layer in (layer, of_dict))
    assert relative_error(jax.grad(f)(jnp.array(P0)), gradient()) < RESOLVED
    assert relative_error(jax.jit(jax.grad(f))(jnp.array(P0)), gradient()) < RESOLVED
    assert len(solver.starts) == 1
    found = jax.jit(jax.grad(g))(CARTPOLE.p)
    assert relative_error(np.array([found[name] for name in CARTPOLE.p]), gradient()) < RESOLVED
    several = jnp.array(P0) * jnp.array([[1.0], [1.001]])
    batch, solves = jax.jit(jax.vmap(jax.grad(f)))(several), len(solver.starts)
    for p, row in zip(several, batch, strict=True):
        assert relative_error(jax.grad(f)(p), row) < IDENTITY
    assert len(solver.starts) == solves == 2


def test_jax_jacobians(jax):
    """Of p that is a tree, row by row."""
    jnp = jax.numpy
    layer = trajopt.jax.optimal_control(lambda p: pendulum([p["body"]["mass"], p["goal"][0]]), trajopt.DDP())
    p = np.array([1.0, 1.0])
    found = jax.jacrev(lambda p: layer(p)[1])({"body": {"mass": 1.0}, "goal": jnp.ones(1)})
    problem = pendulum(p)
    us = trajopt.sensitivity(pendulum, p, polished_solution(problem, trajopt.DDP().solve(problem))).us
    assert relative_error(found["body"]["mass"], us[..., 0]) < 1e-9
    assert relative_error(found["goal"], us[..., 1:]) < 1e-9


def test_jax_where_there_is_no_solution(jax):
    jnp = jax.numpy
    layer = trajopt.jax.optimal_control(pendulum, trajopt.DDP(), example=np.ones(2))
    ps = jnp.array([[1.0, 1.0], [-1.0, 1.0]])

    def masked(ps):
        xs, failed = jax.vmap(lambda p: layer(p)[0])(ps), jax.vmap(layer.failed)(ps)
        return jnp.sum(jnp.where(failed[:, None, None], 0.0, xs) ** 2)

    with pytest.warns(RuntimeWarning, match="a mass of -1.0"):
        assert jax.vmap(layer.failed)(ps).tolist() == [False, True]
        assert np.isnan(layer(ps[1])[2]) and np.isfinite(layer(ps[0])[2])
        assert np.isnan(jax.grad(lambda p: layer(p)[2])(ps[1])).all()
        gradients = jax.jit(jax.grad(masked))(ps)
    assert np.isfinite(gradients).all() and gradients[0].any() and not gradients[1].any()


def test_jax_bad_input(jax):
    layer = trajopt.jax.optimal_control(pendulum, trajopt.DDP())
    with pytest.raises(TypeError, match="p: got float32, expected float64"):
        layer(np.ones(2, np.float32))
    with pytest.raises(TypeError, match="example: got None, expected a p"):
        jax.jit(lambda p: layer(p)[2])(np.ones(2))
    with jax.enable_x64(False), pytest.raises(TypeError, match="jax: got 32-bit numbers, expected"):
        layer(np.ones(2))
    layer(np.ones(2))
    with pytest.raises(TypeError, match="jax: got 32-bit numbers on the host, expected"):
        next(iter(layer._layers.values()))._solve(np.ones(2, np.float32), np.zeros(0))  # as in another thread
    with pytest.raises(TypeError, match="make_problem: got int"):
        trajopt.jax.optimal_control(3, trajopt.DDP())


def test_jax_says_what_it_does_not_have(jax):
    layer = trajopt.jax.optimal_control(pendulum, trajopt.DDP(), example=np.ones(2))
    p = jax.numpy.ones(2)
    forward, reverse = jax.jacfwd, jax.jacrev
    for one, other in ((forward, forward), (forward, reverse), (reverse, forward), (reverse, reverse)):
        with pytest.raises(NotImplementedError, match=r"got second derivatives asked for, expected first ones"):
            one(other(lambda p: layer(p)[2]))(p)
    with pytest.raises(NotImplementedError, match=r"got second derivatives asked for, expected first ones"):
        jax.jit(jax.grad(lambda p: jax.grad(lambda p: layer(p)[2])(p).sum()))(p)
    with pytest.raises(ValueError, match=r"p: got arrays of shape \(\(3, 2\),\), expected .* jax.vmap\(layer\)"):
        layer(jax.numpy.ones((3, 2)))
    assert layer(p)[0].shape == (11, 2)
    layer.clear()
    assert layer(p)[0].shape == (11, 2)


def test_jax_without_memory(jax):
    solver = Counting()
    layer = trajopt.jax.optimal_control(pendulum, solver, memory=0)
    jax.jacrev(lambda p: layer(p)[1])(jax.numpy.array([1.0, 1.0]))
    assert solver.starts == [None, None]  # forward, and again on the way back of all rows


def test_jax_forward(jax):
    """Alone, compiled and mapped, over p and over directions."""
    jnp = jax.numpy
    layer, p = trajopt.jax.optimal_control(pendulum, trajopt.DDP(), example=np.ones(2)), jnp.ones(2)
    ways = (
        jax.jacfwd(layer)(p),
        jax.jit(jax.jacfwd(layer))(p),
        jax.vmap(jax.jacfwd(layer))(p[None]),
        jax.vmap(lambda dp: jax.jvp(layer, (p,), (dp,))[1], out_axes=-1)(jnp.eye(2)),
        jax.vmap(jax.linearize(layer, p)[1], out_axes=-1)(jnp.eye(2)),
        jax.vmap(jax.jit(jax.jacrev(layer)))(p[None]),
    )
    for way in ways:
        for part, exact in zip(way, jacobian(), strict=True):
            assert relative_error(part.reshape(exact.shape), exact) < 1e-9


def test_jax_batches_in_batches(jax):
    """Mapped over p, before and after the derivative, and inside a scan."""
    jnp = jax.numpy
    layer = trajopt.jax.optimal_control(pendulum, trajopt.DDP(), example=np.ones(2))
    ps = jnp.array([[[1.0, 1.0], [1.1, 0.9], [1.2, 0.8]], [[1.0, 1.1], [1.1, 1.0], [1.0, 1.0]]])
    gradient = jax.grad(lambda p: layer(p)[2])
    each = jnp.stack([jnp.stack([gradient(p) for p in row]) for row in ps])
    nested = jax.jit(jax.vmap(jax.vmap(gradient)))(ps)
    outside = jax.grad(lambda ps: jax.vmap(jax.vmap(layer))(ps)[2].sum())(ps)
    scanned = jax.lax.scan(lambda carry, row: (carry, jax.vmap(gradient)(row)), 0.0, ps)[1]
    for found in (nested, outside, scanned):
        assert relative_error(found, each) < IDENTITY
    jacobians = [jax.jit(of(lambda ps: jax.vmap(layer)(ps)[1]))(ps[0]) for of in (jax.jacrev, jax.jacfwd)]
    assert relative_error(*jacobians) < 1e-9 and relative_error(jacobians[0][0, :, :, 0], jacobian()[1]) < 1e-9
    assert not jacobians[0][0, :, :, 1:].any()


def test_jax_begins_where_it_is_told(jax):
    """At a solution, at one that is traced, at one for each of a batch."""
    jnp, solver = jax.numpy, Counting()
    layer, p = trajopt.jax.optimal_control(hanging, solver, example=np.ones(1)), jnp.ones(1)
    right, left = left_and_right()
    us = layer(p, warm_start=right)[1]
    assert relative_error(us, right.us) < 1e-4 and np.array_equal(solver.starts[0].us, right.us)
    assert relative_error(layer(p, warm_start=left)[1], -us) < 1e-7 and not layer.failed(p, warm_start=left)
    of_both = jax.vmap(lambda p, start: layer(p, warm_start=start)[1])
    stacked = jax.tree.map(lambda *parts: jnp.stack(parts), trajopt.WarmStart(right.us, right.xs), left)
    found = jax.jit(of_both)(jnp.ones((2, 1)), stacked)
    assert relative_error(found, jnp.stack([us, -us])) < 1e-7 and len(solver.starts) == 3
    gradients = jax.grad(lambda p, start: of_both(p, start)[:, 0, 0].sum(), argnums=(0, 1))(jnp.ones((2, 1)), stacked)
    assert len(solver.starts) == 3 and relative_error(gradients[0][0], -gradients[0][1]) < 1e-7
    assert not gradients[1].us.any()  # where a solve begins does not move its end


def test_jax_warm_starts_have_multipliers(jax):
    """Which arrive where solves begin, with what is not a number, of one or of each of a batch."""
    solver, p = Counting(), np.array([0.9])
    layer = trajopt.jax.optimal_control(limited, solver)
    solution = trajopt.DDP().solve(limited(p))
    assert solution.constraints[0].multipliers.any()
    layer(p, warm_start=solution)
    (given,), (report,) = solver.starts[0].constraints, solution.constraints
    assert (given.name, given.penalty, given.factors is None) == (report.name, report.penalty, report.factors is None)
    assert np.array_equal(given.multipliers, report.multipliers) and np.array_equal(given.knots, report.knots)
    starts = [trajopt.DDP().solve(limited(np.array([q]))).warm_start() for q in (0.8, 1.0)]
    stacked = jax.tree.map(lambda *parts: jax.numpy.stack(parts), *starts)
    jax.jit(jax.vmap(lambda p, start: layer(p, warm_start=start)[2]))(np.array([[0.7], [1.1]]), stacked)
    for began, start in zip(solver.starts[1:], starts, strict=True):
        assert np.array_equal(began.constraints[0].multipliers, start.constraints[0].multipliers)


def test_jax_same_answers_whatever_came_before(jax):
    jnp, start = jax.numpy, start_at(1.3, 0.8)
    layer = trajopt.jax.optimal_control(pendulum, trajopt.DDP(), example=np.ones(2), memory=0)
    begun = jax.jit(lambda p: layer(p, warm_start=start)[:2])
    p, others = jnp.array([1.0, 1.0]), jnp.array([[1.2, 0.9], [1.0, 1.0], [0.8, 1.1]])
    alone = begun(p)
    for again in (begun(p), [part[1] for part in jax.vmap(begun)(others)], layer(p, warm_start=start)[:2]):
        assert all((a == b).all() for a, b in zip(again, alone, strict=True))


def test_jax_bad_warm_starts(jax):
    layer, start = trajopt.jax.optimal_control(pendulum, trajopt.DDP(), example=np.ones(2)), start_at(1.0, 1.0)
    p = jax.numpy.ones(2)
    for wrong in (3, "text", [start, start]):
        with pytest.raises(TypeError, match=r"warm_start: got .*, expected a Solution.* of a batch take jax.vmap"):
            layer(p, warm_start=wrong)
    stacked = jax.tree.map(lambda part: np.stack([part, part]), start.warm_start())
    with pytest.raises(ValueError, match=r"warm_start: us: got shape \(2, 10, 1\), expected \(N, 1\); of a batch"):
        jax.jit(lambda p, start: layer(p, warm_start=start)[2])(p, stacked)


def test_jax_in_make_problem(jax):
    """Problems made by jax.numpy, of systems that jax differentiates, inside a compiled gradient."""
    jnp = jax.numpy

    def make(p):
        mass = float(jnp.exp(jnp.log(jnp.asarray(p)[0])))

        def step(x, u):
            return jnp.array([x[0] + 0.05 * x[1], x[1] + 0.05 * (u[0] / mass - 9.81 * jnp.sin(x[0]))])

        system = trajopt.CallableSystem(step, nx=2, nu=1, dt=0.05, derivatives="jax")
        goal = np.asarray(jax.jit(lambda p: jnp.array([p[1], 0.0]))(p))
        costs = [trajopt.ControlCost(1e-2)], [trajopt.StateCost(system, goal, [50.0, 5.0])]
        return trajopt.Problem(system, [0.3, 0.0], 10, *costs)

    layer, p = trajopt.jax.optimal_control(make, trajopt.DDP(), example=np.ones(2)), np.ones(2)
    found = jax.jit(jax.grad(lambda p: layer(p)[2]))(p)
    exact = trajopt.sensitivity(make, p, polished_solution(make(p), trajopt.DDP().solve(make(p))))
    assert relative_error(found, exact.cost) < RESOLVED


# ------------------------------------------------------------------------------------------------ PyTorch
@pytest.fixture
def torch():
    torch = pytest.importorskip("torch")
    importlib.import_module("trajopt.torch")
    return torch


def test_torch(torch):
    """Alone and in batches."""
    layer, (W, V) = trajopt.torch.OptimalControl(swing, trajopt.DDP()), map(torch.tensor, weights())
    p = torch.tensor(P0, requires_grad=True)
    loss(torch, *layer(p), W, V).backward()
    assert relative_error(p.grad.numpy(), gradient()) < RESOLVED
    several = torch.tensor(P0 * np.array([[1.0], [1.001]]), requires_grad=True)
    xs, us, cost = layer(several)
    assert xs.shape == (2, 101, 4) and us.shape == (2, 100, 1) and cost.shape == (2,) and not layer.failed.any()
    sum(loss(torch, *parts, W, V) for parts in zip(xs, us, cost, strict=True)).backward()
    assert relative_error(several.grad[0].numpy(), gradient()) < RESOLVED
    q = several[1].detach().requires_grad_()
    loss(torch, *layer(q), W, V).backward()
    assert relative_error(several.grad[1].numpy(), q.grad.numpy()) < IDENTITY


def test_torch_checks_gradients(torch):
    layer = trajopt.torch.OptimalControl(pendulum, trajopt.DDP())
    p = torch.tensor([[1.0, 1.0], [1.5, 0.5]], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(layer, p, check_forward_ad=True)


def test_torch_says_what_it_does_not_have(torch):
    layer, func = trajopt.torch.OptimalControl(pendulum, trajopt.DDP()), torch.func
    p = torch.ones(2, dtype=torch.float64, requires_grad=True)
    for loss in (lambda p: layer(p)[2], lambda p: layer(p)[1].square().sum()):
        gradient = torch.autograd.grad(loss(p), p, create_graph=True)[0]
        with pytest.raises(NotImplementedError, match="got second derivatives asked for, expected first ones"):
            gradient.sum().backward()
        for one in (func.jacfwd, func.jacrev):
            for other in (func.jacfwd, func.jacrev):
                with pytest.raises(NotImplementedError, match="got second derivatives asked for, expected first ones"):
                    one(other(loss))(p.detach())
    with pytest.raises(NotImplementedError, match=r"got a batch of autograd .*, expected torch.func.jacrev or jacfwd"):
        torch.autograd.functional.jacobian(layer, p, vectorize=True)


def test_torch_func(torch):
    """Both modes, alone and mapped, over p and over directions."""
    layer, func, (xs, us, cost) = trajopt.torch.OptimalControl(pendulum, trajopt.DDP()), torch.func, jacobian()

    def call(p):
        return layer(p)

    p, e = torch.ones(2, dtype=torch.float64), torch.eye(2, dtype=torch.float64)
    ways = (
        func.jacrev(call)(p),
        func.jacfwd(call)(p),
        func.vmap(func.jacrev(call))(p[None]),
        func.vmap(func.jacfwd(call))(p[None]),
        func.vmap(lambda dp: func.jvp(call, (p,), (dp,))[1], out_dims=-1)(e),
    )
    for way in ways:
        for part, exact in zip(way, (xs, us, cost), strict=True):
            assert relative_error(part.numpy().reshape(exact.shape), exact) < 1e-9
    assert relative_error(func.grad(lambda p: layer(p)[2])(p).numpy(), cost) < 1e-9
    assert relative_error(func.vjp(lambda p: layer(p)[1], p)[1](torch.ones_like(layer(p)[1]))[0], us.sum((0, 1))) < 1e-9
    with torch.autograd.forward_ad.dual_level():
        dual = layer(torch.autograd.forward_ad.make_dual(p, e[1]))[2]
        assert relative_error(torch.autograd.forward_ad.unpack_dual(dual).tangent.numpy(), cost[1]) < 1e-9


def test_torch_func_batches_in_batches(torch):
    layer, func = trajopt.torch.OptimalControl(pendulum, trajopt.DDP()), torch.func
    ps = [[[1.0, 1.0], [1.1, 0.9], [1.2, 0.8]], [[1.0, 1.1], [1.1, 1.0], [1.0, 1.0]]]
    ps = torch.tensor(ps, dtype=torch.float64)
    gradient = func.grad(lambda p: layer(p)[2])
    each = torch.stack([torch.stack([gradient(p) for p in row]) for row in ps]).numpy()
    assert relative_error(func.vmap(func.vmap(gradient))(ps).numpy(), each) < IDENTITY
    assert relative_error(func.vmap(func.grad(lambda row: layer(row)[2].sum()))(ps).numpy(), each) < IDENTITY
    across = func.vmap(lambda p: layer(p)[1], in_dims=1)(ps[0].T)
    assert torch.equal(across, layer(ps[0])[1]) and layer.failed.tolist() == [False] * 3
    rows = ps[0].clone().requires_grad_()
    func.vmap(lambda p: layer(p)[2])(rows).sum().backward()
    assert relative_error(rows.grad.numpy(), each[0]) < IDENTITY


@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor")  # torch's own, where a compiled function resumes
def test_torch_compiles(torch):
    """What is around the layer."""
    layer = trajopt.torch.OptimalControl(pendulum, trajopt.DDP())
    p = torch.ones(2, dtype=torch.float64, requires_grad=True)
    torch.compile(lambda p: 2.0 * layer(p.square())[2], backend="eager")(p).backward()
    assert relative_error(p.grad.numpy(), 4.0 * jacobian()[2]) < 1e-9


def test_torch_begins_where_it_is_told(torch):
    solver, (right, left) = Counting(), left_and_right()
    layer = trajopt.torch.OptimalControl(hanging, solver)
    p = torch.ones(1, dtype=torch.float64)
    us = layer(p, warm_start=right)[1]
    assert relative_error(us.numpy(), right.us) < 1e-4 and np.array_equal(solver.starts[0].us, right.us)
    ps = p.expand(2, 1).clone().requires_grad_()
    found = layer(ps, warm_start=[right, left])[1]
    assert relative_error(found.detach().numpy(), torch.stack([us, -us]).numpy()) < 1e-7 and len(solver.starts) == 2
    found[:, 0, 0].sum().backward()
    assert relative_error(ps.grad[0].numpy(), -ps.grad[1].numpy()) < 1e-7  # the points of this call
    mapped = torch.func.vmap(lambda p: layer(p, warm_start=[right, left])[1])(ps.detach())
    assert torch.equal(mapped, found) and len(solver.starts) == 2


def test_torch_same_answers_whatever_came_before(torch):
    layer, start = trajopt.torch.OptimalControl(pendulum, trajopt.DDP(), memory=0), start_at(1.3, 0.8)
    ps = torch.tensor([[1.2, 0.9], [1.0, 1.0], [0.8, 1.1]], dtype=torch.float64)
    alone = layer(ps[1], warm_start=start)
    for again in (layer(ps[1], warm_start=start.warm_start()), [part[1] for part in layer(ps, warm_start=start)]):
        assert all(torch.equal(a, b) for a, b in zip(again, alone, strict=True))


def test_torch_bad_warm_starts(torch):
    layer, start = trajopt.torch.OptimalControl(pendulum, trajopt.DDP()), start_at(1.0, 1.0)
    p = torch.ones((2, 2), dtype=torch.float64)
    with pytest.raises(TypeError, match="warm_start: got float, expected a Solution, a WarmStart or None"):
        layer(p, warm_start=3.0)
    with pytest.raises(TypeError, match="warm_start: got 2 in a list, expected one, as p is no batch"):
        layer(p[0], warm_start=[start, start])
    with pytest.raises(ValueError, match="warm_start: got 3, expected one for each of the 2 problems of the batch"):
        layer(p, warm_start=[start] * 3)


def test_torch_where_there_is_no_solution(torch):
    layer = trajopt.torch.OptimalControl(pendulum, trajopt.DDP())
    p = torch.tensor([[1.0, 1.0], [-1.0, 1.0]], dtype=torch.float64, requires_grad=True)
    with pytest.warns(RuntimeWarning, match="a mass of -1.0"):
        xs, _, cost = layer(p)
    assert layer.failed.tolist() == [False, True] and layer.reasons == ("", "ValueError: a mass of -1.0")
    assert torch.isnan(xs[1]).all() and torch.isnan(cost[1])
    (xs[~layer.failed] ** 2).sum().backward()
    assert torch.isfinite(p.grad).all() and p.grad[0].any() and not p.grad[1].any()
    with pytest.warns(RuntimeWarning, match="no gradient at p = "):
        poisoned = torch.autograd.grad(layer(p)[2].sum(), p)[0]
    assert torch.isfinite(poisoned[0]).all() and torch.isnan(poisoned[1]).all()


def test_torch_bad_input(torch):
    layer = trajopt.torch.OptimalControl(pendulum, trajopt.DDP())
    with pytest.raises(TypeError, match=r"p: got torch\.float32, expected a tensor of torch\.float64"):
        layer(torch.ones(2, dtype=torch.float32))
    with pytest.raises(TypeError, match="p: got float64, expected a tensor"):
        layer(np.ones(2))
    with pytest.raises(ValueError, match=r"p: got shape \(0, 2\), expected \(P,\) or \(B, P\)"):
        layer(torch.ones((0, 2), dtype=torch.float64))
