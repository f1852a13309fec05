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
from trajopt.layers import Covectors, LayerHost
from trajopt.optimality.first_order import FOURTH_ORDER
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
    with pytest.warns(UserWarning, match=r"was forgotten and is solved again, wanted more than memory=3"):
        again = host.again(np.array([1.0, 1.0]))
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
        assert (host.again(other[0]).solution.us == first.solution.us).all()
    assert solver.starts == [None] * 4


def test_cold_where_a_warm_start_fails():
    class Fussy(Counting):
        def solve(self, problem, warm_start=None):
            solution = super().solve(problem, warm_start)
            return solution if warm_start is None else trajopt.DDP(max_iterations=1).solve(problem)

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
        (pendulum, trajopt.DDP(max_iterations=1), "status 'max_iterations', wanted a converged one"),
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
    with pytest.raises(TypeError, match="p: got float32, wanted float64"):
        layer(np.ones(2, np.float32))
    with pytest.raises(TypeError, match="example: got None, wanted a p"):
        jax.jit(lambda p: layer(p)[2])(np.ones(2))
    with jax.enable_x64(False), pytest.raises(TypeError, match="jax: got 32-bit numbers, wanted"):
        layer(np.ones(2))
    with pytest.raises(TypeError, match="make_problem: got int"):
        trajopt.jax.optimal_control(3, trajopt.DDP())


def test_jax_says_what_it_does_not_have(jax):
    layer = trajopt.jax.optimal_control(pendulum, trajopt.DDP(), example=np.ones(2))
    p = jax.numpy.ones(2)
    for second in (jax.hessian, lambda f: jax.grad(lambda p: jax.grad(f)(p).sum()), lambda f: jax.jacrev(jax.grad(f))):
        with pytest.raises(NotImplementedError, match=r"got second derivatives asked for, expected first ones"):
            second(lambda p: layer(p)[2])(p)
    with pytest.raises(ValueError, match=r"p: got arrays of shape \(\(3, 2\),\), expected .* jax.vmap\(layer\)"):
        layer(jax.numpy.ones((3, 2)))
    assert layer(p)[0].shape == (11, 2)
    layer.clear()
    assert layer(p)[0].shape == (11, 2)


def test_jax_without_memory(jax):
    solver = Counting()
    layer = trajopt.jax.optimal_control(pendulum, solver, memory=0)
    jax.grad(lambda p: layer(p)[2])(jax.numpy.array([1.0, 1.0]))
    assert solver.starts == [None, None]  # forward, and again on the way back


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
    assert torch.autograd.gradcheck(layer, p)
    gradient = torch.autograd.grad(layer(p)[2].sum(), p, create_graph=True)[0]
    with pytest.raises(RuntimeError, match="second derivatives asked for, wanted first ones"):
        gradient.sum().backward()


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
    with pytest.raises(TypeError, match=r"p: got torch\.float32, wanted a tensor of torch\.float64"):
        layer(torch.ones(2, dtype=torch.float32))
    with pytest.raises(TypeError, match="p: got float64, wanted a tensor"):
        layer(np.ones(2))
    with pytest.raises(ValueError, match=r"p: got shape \(0, 2\), wanted \(P,\) or \(B, P\)"):
        layer(torch.ones((0, 2), dtype=torch.float64))
