"""Traced derivatives of systems: those of complex steps; others where a function cannot be traced or changes."""

import copy
import math
import pickle
import warnings

import numpy as np
import pytest
from numba import njit

import trajopt
import trajopt.callable_system.sources
from dynamics.simd.prepared_calls import PreparedCalls, calls_of, checks_of
from dynamics.tape import expressions
from dynamics.tape.expressions import programs_of
from dynamics.tape.graph import Graph, Untraceable
from dynamics.tape.program import assemble
from tests.reference.prepared import replay
from tests.tolerances import COMPLEX_STEP, IDENTITY, relative_error
from trajopt import DDP, ControlBounds, ControlCost, Problem, StateCost
from trajopt.callable_system import CallableSystem, SlowDynamicsWarning
from trajopt.problem.derivative_check import check_derivatives


def quiet(*args, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SlowDynamicsWarning)
        return CallableSystem(*args, **options)


def swing(x, u):
    """A pendulum on a cart, with `math`."""
    s, c = math.sin(x[1]), math.cos(x[1])
    a = (u[0] + s * (x[3] ** 2 + 9.81 * c)) / (2.0 - c * c)
    return x[2], x[3], a, -a * c - 9.81 * s


def all_derivatives(system, xs, us, lam):
    return *system.linearize(xs, us), *system.hessian_products(xs, us, lam)


def points(system, rng, K=13):
    return rng.standard_normal((K, system.nx)), rng.standard_normal((K, system.nu)), rng.standard_normal((K, system.nx))


@pytest.mark.parametrize("integrator", ["explicit_euler", "semi_implicit_euler", "rk2", "rk4", "implicit_midpoint"])
def test_every_integrator(integrator, rng):
    """`math` takes no complex numbers: what is compared with is written with numpy."""

    def with_numpy(x, u):
        s, c = np.sin(x[1]), np.cos(x[1])
        a = (u[0] + s * (x[3] * x[3] + 9.81 * c)) / (2.0 - c * c)
        return np.array([x[2], x[3], a, -a * c - 9.81 * s])

    options = {"nx": 4, "nu": 1, "dt": 0.05, "integrator": integrator}
    system = quiet(xdot=swing, **options)
    wanted = quiet(xdot=with_numpy, derivatives="complex_step", **options)
    assert system.derivative_source == "traced" and "'traced'" in repr(system)
    arguments = points(system, rng)
    for got, expected in zip(all_derivatives(system, *arguments), all_derivatives(wanted, *arguments), strict=True):
        assert relative_error(got, expected, floor=1e-2) < COMPLEX_STEP
    for H in system.hessian_products(*arguments)[::2]:
        assert np.array_equal(H, H.swapaxes(1, 2)) or integrator == "implicit_midpoint"
    assert check_derivatives(system).ok


def test_all_forms_of_functions(rng):
    """In place, batches, methods, closures over compiled helpers."""

    @njit
    def rate(q, v):
        return math.sin(q) * v

    @njit
    def in_place(x, u, out):
        out[0] = x[1]
        for i in range(1):
            out[1 + i] = rate(x[0], x[1]) + u[i] - 0.5 * abs(x[0]) ** 3

    def batch(x, u):
        y = np.empty_like(x)
        y[:, 0] = x[:, 1]
        y[:, 1] = np.sin(x[:, 0]) * x[:, 1] + u[:, 0] - 0.5 * np.abs(x[:, 0]) ** 3
        return y

    class Plant:
        factor = 0.5

        def xdot(self, x, u):
            return np.array([x[1], np.sin(x[0]) * x[1] + u[0] - self.factor * abs(x[0]) ** 3])

    systems = [
        quiet(xdot=in_place, nx=2, nu=1, dt=0.1),
        quiet(xdot=batch, nx=2, nu=1, dt=0.1, vectorized=True),
        quiet(xdot=Plant().xdot, nx=2, nu=1, dt=0.1),
    ]
    arguments = points(systems[0], rng)
    first = all_derivatives(systems[0], *arguments)
    for system in systems:
        assert system.derivative_source == "traced"
        for got, expected in zip(all_derivatives(system, *arguments), first, strict=True):
            assert relative_error(got, expected) < IDENTITY


def test_functions_that_cannot_be_traced_say_so(rng):
    def table(x, u):
        return (np.interp(x[0], [-9.0, 0.0, 9.0], [9.0, 0.0, 1.0]) - u[0] * x[0],)

    with pytest.warns(SlowDynamicsWarning, match=r"slow \(it is not traced: it wants the values of its arg"):
        assert CallableSystem(table, nx=1, nu=1, dt=0.1).derivative_source == "finite_differences"
    with pytest.raises(ValueError, match="derivatives: got 'traced' for a function that cannot be: it wants the value"):
        quiet(table, nx=1, nu=1, dt=0.1, derivatives="traced")

    def hidden(x, u):
        return np.array([x[0] * (2.0 if x.dtype == float else 3.0) + u[0]])

    with pytest.raises(ValueError, match="its trace gives other values"):
        quiet(hidden, nx=1, nu=1, dt=0.1, derivatives="traced")
    assert quiet(hidden, nx=1, nu=1, dt=0.1).derivative_source == "finite_differences"


def test_what_a_closure_holds_may_change(rng):
    """Of Python functions; compiled ones hold what they were compiled with."""
    figures = np.array([2.0, 1.0])

    def xdot(x, u):
        return np.array([x[1], u[0] - figures[0] * np.sin(x[0])])

    system = quiet(xdot=xdot, nx=2, nu=1, dt=0.1)
    xs, us, lam = points(system, rng)
    before = all_derivatives(system, xs, us, lam)
    figures[0] = 3.0
    fresh = quiet(xdot=xdot, nx=2, nu=1, dt=0.1)
    for call in ("linearize", "hessian_products"):
        figures[0] += 0.5
        fresh = quiet(xdot=xdot, nx=2, nu=1, dt=0.1)
        arguments = (xs, us, lam)[: 2 if call == "linearize" else 3]
        for got, wanted in zip(getattr(system, call)(*arguments), getattr(fresh, call)(*arguments), strict=True):
            assert np.array_equal(got, wanted)
    assert system.derivative_source == "traced"
    assert not np.allclose(before[0], system.linearize(xs, us)[0])


def test_rollouts_notice_too(rng):
    """And steps; what comes out is that of other functions, in every lane."""
    gravity = [9.81]

    def xdot(x, u):
        return x[1], u[0] - gravity[0] * math.sin(x[0]) * x[1] + x[1] ** 3

    options = {"nx": 2, "nu": 1, "dt": 0.1}
    system = quiet(xdot=xdot, **options)
    us, alphas, N = rng.standard_normal((7, 1)), np.linspace(1.0, 0.0, 19), 7
    k, K = rng.standard_normal((N, 1)), rng.standard_normal((N, 1, 2))
    for _ in range(2):
        fresh = quiet(xdot=xdot, derivatives="finite_differences", **options)
        xs = fresh.rollout([0.3, -0.2], us)
        assert relative_error(system.rollout([0.3, -0.2], us), xs) < IDENTITY
        arguments = [0.3, -0.1], xs, us, k, K, alphas
        for got, wanted in zip(
            system.closed_loop_rollout(*arguments), fresh.closed_loop_rollout(*arguments), strict=True
        ):
            assert relative_error(got, wanted) < 1e-11
        assert relative_error(system.step(xs[:-1], us), xs[1:]) < IDENTITY
        gravity[0] = 1.62
    assert system.derivative_source == "traced"
    gravity[0] = 3.7
    assert relative_error(system.step(xs[:-1], us), quiet(xdot=xdot, **options).step(xs[:-1], us)) == 0.0
    wild = system.closed_loop_rollout([1e200, 1.0], *arguments[1:])[0]
    assert not np.isfinite(wild[:, -1]).any()


def test_functions_that_branch(rng):
    """A leg that only pushes, a motor within its limits, an angle: exact on every side, in all forms."""

    def hopper(x, u):
        push = -100.0 * x[0] ** 3 if x[0] < 0.0 else 0.0
        return x[1], push + min(max(u[0], -2.0), 2.0) - 9.81 + np.sin((x[0] + np.pi) % (2.0 * np.pi) - np.pi)

    def batch(x, u):
        push = np.where(x[:, 0] < 0.0, -100.0 * x[:, 0] ** 3, 0.0)
        a = push + np.clip(u[:, 0], -2.0, 2.0) - 9.81 + np.sin(x[:, 0])
        return np.stack([x[:, 1], a], axis=1)

    systems = [
        CallableSystem(xdot=f, nx=2, nu=1, dt=0.1, vectorized=f is batch) for f in (hopper, njit(hopper), batch)
    ]
    arguments = points(systems[0], rng)
    first = all_derivatives(systems[0], *arguments)
    for system in systems:
        assert system.derivative_source == "traced" and check_derivatives(system).ok
        for got, expected in zip(all_derivatives(system, *arguments), first, strict=True):
            assert relative_error(got, expected) < IDENTITY
    _, fu = systems[0].linearize(np.array([[1.0, 0.0]]), [[2.0]])
    assert fu[0, 1, 0] == pytest.approx(0.1, rel=1e-2)  # at the limit as inside


@pytest.mark.parametrize("clip", [lambda u: np.clip(u, -2.0, 2.0), lambda u: max(min(u, 2.0), -2.0)])
@pytest.mark.parametrize("start", [2.0, -2.0])
def test_clips_to_control_bounds_change_no_solution(clip, start):
    """Also from controls that are all at their limits, where the derivatives of clips are those of one side."""

    def solved(limited):
        def step(x, u):
            w = x[1] + (5.0 * np.sin(x[0]) + 3.0 * limited(u[0])) * 0.05
            return x[0] + w * 0.05, w

        system = CallableSystem(step, nx=2, nu=1, dt=0.05)
        costs = [StateCost(system, [0.0, 0.0], [1.0, 0.1]), ControlCost(0.002)]
        us = np.full((40, 1), start)
        problem = Problem(system, [1.0, 0.0], 40, costs, [], [ControlBounds(-2.0, 2.0)], us_init=us)
        return DDP().solve(problem)

    wanted, got = solved(lambda u: u), solved(clip)
    assert wanted.converged and got.converged and got.cost == pytest.approx(wanted.cost, rel=1e-12)


def test_jumps_that_rounding_decides_are_no_change():
    """At multiples of a length that is no binary fraction, functions of numpy and their traces may see either side."""

    def step(x, u):
        return (x[0] * 0.1 + u[0] * 0.3 + 5.0 * np.floor(x[0] * 0.1 + u[0] * 0.3),)

    system = CallableSystem(step, nx=1, nu=1, dt=0.1)
    for i in range(-50, 50):
        for u in (0.0, 1.0, -1 / 3, 7.0, i / 0.3):
            system.step(np.array([float(i)]), np.array([u]))
            system.step(np.array([10.0 * i - 3.0 * u]), np.array([u]))
    assert system.derivative_source == "traced"


def test_a_function_that_begins_to_branch(rng):
    """By a table it is differentiated from values then, and the system says so."""
    modes = {"branch": False}

    def xdot(x, u):
        if modes["branch"] and x[0] > 0.0:
            return (2.0 * np.interp(x[0], [0.0, 1.0], [0.0, 1.0]) ** 2 + u[0],)
        return (x[0] * u[0],)

    system = quiet(xdot=xdot, nx=1, nu=1, dt=0.1)
    assert system.derivative_source == "traced"
    modes["branch"] = True
    xs, us = np.full((3, 1), 0.7), rng.standard_normal((3, 1))
    fx, _ = system.linearize(xs, us)
    assert system.derivative_source != "traced"
    wanted = quiet(xdot=xdot, nx=1, nu=1, dt=0.1, x_example=[0.7], derivatives="finite_differences")
    assert relative_error(fx, wanted.linearize(xs, us)[0]) < 1e-9


def test_points_that_are_not_finite_and_none_at_all(rng):
    system = quiet(xdot=swing, nx=4, nu=1, dt=0.05)
    xs, us, lam = points(system, rng)
    xs[6] = np.nan  # the knot in the middle, where trace and function are compared
    for block in all_derivatives(system, xs, us, lam):
        assert np.isnan(block[6]).all() and np.isfinite(np.delete(block, 6, axis=0)).all()
    assert system.derivative_source == "traced"
    none = np.zeros((0, 4)), np.zeros((0, 1)), np.zeros((0, 4))
    assert [len(block) for block in all_derivatives(system, *none)] == 5 * [0]


def test_long_steps_are_differentiated_stage_by_stage(rng, monkeypatch):
    import dynamics.tape.program

    wanted = quiet(xdot=swing, nx=4, nu=1, dt=0.05)
    arguments = points(wanted, rng)
    expected = all_derivatives(wanted, *arguments)
    monkeypatch.setattr(dynamics.tape.program, "LONGEST", 100)
    programs_of.cache_clear()
    system = quiet(xdot=swing, nx=4, nu=1, dt=0.05)
    for got, block in zip(all_derivatives(system, *arguments), expected, strict=True):
        assert relative_error(got, block) < IDENTITY
    assert system.derivative_source == "traced"
    monkeypatch.setattr(dynamics.tape.program, "LONGEST", 5)
    programs_of.cache_clear()
    assert quiet(xdot=swing, nx=4, nu=1, dt=0.05).derivative_source != "traced"
    programs_of.cache_clear()


def test_steps_of_dense_functions_are_not_written_out(rng, monkeypatch):
    """Beyond what products of numbers cost; whether they are changes no derivative."""

    def dense(x, u):
        return np.array([sum(np.sin(a - b) for b in x) + u[0] for a in x])

    options = {"xdot": dense, "nx": 6, "nu": 1, "dt": 0.05}
    one = quiet(**options)
    arguments = points(one, rng)
    expected = all_derivatives(one, *arguments)
    monkeypatch.setattr(trajopt.callable_system.integrators, "STEP_NODES", 0)
    programs_of.cache_clear()
    other = quiet(**options)
    with pytest.raises(Untraceable, match="operations"):
        other._integrator.tapes.program(1)
    for got, block in zip(all_derivatives(other, *arguments), expected, strict=True):
        assert relative_error(got, block, floor=1e-2) < IDENTITY
    assert other.derivative_source == "traced" and other.compiled
    programs_of.cache_clear()


def chain_of_masses(n, stiffness=1.0):
    """n masses on nonlinear springs, the last of them pulled."""

    def xdot(x, u):
        q, v = x[:n], x[n:]
        f = [stiffness * d + 0.5 * d**3 for d in [q[0], *(q[i] - q[i - 1] for i in range(1, n))]] + [u[0]]
        return *v, *(f[i + 1] - f[i] - 0.1 * v[i] for i in range(n))

    return xdot


@pytest.mark.parametrize("integrator", ["rk4", "semi_implicit_euler"])
def test_work_grows_with_the_operations_of_the_function(integrator, monkeypatch):
    """What is written of a step and its derivatives, and all nodes that are asked for on the way."""
    asked, node = [0], Graph.node

    def counted(*arguments):
        asked[0] += 1
        return node(*arguments)

    monkeypatch.setattr(Graph, "node", counted)
    numbers = []
    for n in (8, 16, 32):
        programs_of.cache_clear()
        asked[0] = 0
        system = quiet(xdot=chain_of_masses(n), nx=2 * n, nu=1, dt=0.05, integrator=integrator)
        codes = [len(system._integrator.tapes.program(which)[0].code) for which in range(3)]
        numbers.append([asked[0], *codes])
    small, middle, large = np.array(numbers)
    assert (large - middle <= 2.05 * (middle - small)).all(), numbers


def test_programs_are_written_once(rng, monkeypatch):
    """For functions that do the same; what they close over, the duration and the rule make others."""
    written = []
    monkeypatch.setattr(expressions, "assemble", lambda *arguments: written.append(1) or assemble(*arguments))
    programs_of.cache_clear()

    def derivatives(stiffness=1.0, **options):
        system = quiet(xdot=chain_of_masses(2, stiffness), nx=4, nu=1, **{"dt": 0.05, **options})
        return all_derivatives(system, *arguments)

    arguments = points(quiet(xdot=chain_of_masses(2), nx=4, nu=1, dt=0.05), rng)
    first = derivatives()
    count = len(written)
    again = derivatives()
    assert len(written) == count
    for got, block in zip(again, first, strict=True):
        assert np.array_equal(got, block)
    for options in ({"stiffness": 2.0}, {"dt": 0.1}, {"integrator": "rk2"}, {"integrator": "semi_implicit_euler"}):
        count = len(written)
        remembered = derivatives(**options)
        assert len(written) > count
        assert not np.allclose(remembered[0], first[0], atol=1e-6)
        programs_of.cache_clear()  # what else is remembered shows nowhere, not in the last bits
        for got, block in zip(derivatives(**options), remembered, strict=True):
            assert np.array_equal(got, block)
        derivatives()


def test_the_order_of_calls_changes_nothing(rng):
    one, other = quiet(xdot=swing, nx=4, nu=1, dt=0.05), quiet(xdot=swing, nx=4, nu=1, dt=0.05)
    xs, us, lam = points(one, rng)
    first = all_derivatives(one, xs, us, lam)
    last = other.hessian_products(xs, us, lam)
    for got, wanted in zip((*other.linearize(xs, us), *last), first, strict=True):
        assert np.array_equal(got, wanted)


def test_copies(rng):
    system = quiet(xdot=swing, nx=4, nu=1, dt=0.05)
    arguments = points(system, rng)
    wanted = all_derivatives(system, *arguments)
    for other in (copy.deepcopy(system), pickle.loads(pickle.dumps(system))):
        for got, block in zip(all_derivatives(other, *arguments), wanted, strict=True):
            assert np.array_equal(got, block)


# ------------------------------------------------------------------------------------------------ prepared calls
def prepared_calls(system, rng, limited, N=11):
    """Prepared calls, and functions: what they have found, what those find that are not prepared, and one that changes
    the arrays."""
    xs, us, lam = rng.standard_normal((N + 1, system.nx)), rng.standard_normal((N, system.nu)), np.ones((N, system.nx))
    k, K = rng.standard_normal((N, system.nu)), 0.1 * rng.standard_normal((N, system.nu, system.nx))
    limits = (-np.abs(us), np.abs(us)) if limited else ()
    x0, alphas, n, m = 0.5 * rng.standard_normal(system.nx), np.linspace(1.0, 0.1, 11), system.nx, system.nu
    first, both = ([np.zeros((N, n, n)), np.zeros((N, n, m))] for _ in range(2))
    H = [np.zeros((N, n, n)), np.zeros((N, m, n)), np.zeros((N, m, m))]
    following = np.zeros((N, n))
    expand = system.prepared_expansion(xs, us, *first)
    exactly = system.prepared_expansion(xs, us, *both, lam, *H)
    names = ("gaps", "lower", "upper") if limited else ()
    options = dict(zip(names, (0.1 * rng.standard_normal(xs.shape), *limits), strict=False))
    roll = system.prepared_rollouts(x0, xs, us, k, K, alphas, **options)
    step = system.prepared_steps(xs, us, following)

    def move():
        for array in (xs, us, lam, k, K, x0):
            array += 0.1 * rng.standard_normal(array.shape)

    def plain(of):
        rollouts = of.closed_loop_rollout(x0, xs, us, k, K, alphas, **options)
        return [of.step(xs[:-1], us)], of.linearize(xs, us), all_derivatives(of, xs, us, lam), rollouts

    def found(roll_first=False):
        rollouts = roll() if roll_first else None
        step()
        expand()
        exactly()
        return [following], first, (*both, *H), rollouts or roll()

    return (roll, step, expand, exactly), found, plain, move


def assert_same(got, wanted):
    for part, other in zip(got, wanted, strict=True):
        for a, b in zip(part, other, strict=True):
            assert a.shape == b.shape and a.tobytes() == b.tobytes()


@pytest.mark.parametrize("limited", [False, True])
@pytest.mark.parametrize("integrator", [None, "explicit_euler", "semi_implicit_euler", "rk2", "rk4"])
def test_prepared_calls_are_the_plain_ones(integrator, limited, rng):
    """Also where compiled code makes them."""
    options = {"step": swing} if integrator is None else {"xdot": swing, "integrator": integrator}
    system = quiet(**options, nx=4, nu=1, dt=0.05)
    calls, found, plain, move = prepared_calls(system, rng, limited)
    for _ in range(2):
        assert_same(results := found(), plain(system))
        move()
        assert all(replay(call) for call in calls)
        assert_same(results, plain(system))


def test_what_is_not_traced_is_not_prepared(rng):
    implicit = quiet(xdot=swing, nx=4, nu=1, dt=0.05, integrator="implicit_midpoint")
    for system in (implicit, quiet(step=swing, nx=4, nu=1, dt=0.05, derivatives="finite_differences")):
        assert prepared_calls(system, rng, False)[0] == (None,) * 4
    traced = quiet(step=swing, nx=4, nu=1, dt=0.05)
    xs, us, fx, fu = np.zeros((4, 8)), np.zeros((3, 1)), np.zeros((3, 4, 4)), np.zeros((3, 4, 1))
    assert traced.prepared_expansion(xs[:, ::2], us, fx, fu) is None
    us.setflags(write=False)
    assert traced.prepared_expansion(np.zeros((4, 4)), us, fx, fu) is None


def changing():
    """A function of the user, and functions that change it: its number, and then into one that cannot be traced."""
    stiffness, table = [2.0], []

    def step(x, u):
        pull = np.interp(x[0], [-9.0, 9.0], table) if table else stiffness[0] * np.sin(x[0])
        return x[0] + 0.1 * x[1], x[1] + 0.1 * (u[0] - pull)

    return step, (lambda: None, lambda: stiffness.insert(0, 3.0), lambda: table.extend((-9.0, 8.0)))


def test_prepared_calls_notice_changes(rng):
    """Of the function, also into one that cannot be traced."""
    step, changes = changing()
    system = quiet(step, nx=2, nu=1, dt=0.1)
    _, found, plain, move = prepared_calls(system, rng, True)
    for change in changes:
        change()
        got = found(roll_first=True)
        assert_same(got, plain(system))
        assert_same(got, plain(quiet(step, nx=2, nu=1, dt=0.1)))
        move()


@pytest.mark.parametrize("which", [0, 1])
def test_checks_of_prepared_calls_notice_changes(which, rng):
    """Rollouts and steps compare, expansions know it then; afterwards there are other calls, or none."""
    step, (_, stiffen, look_up) = changing()
    system = quiet(step, nx=2, nu=1, dt=0.1)
    calls, found, plain, move = prepared_calls(system, rng, True)
    results = found()
    assert all(map(replay, calls))
    stiffen()
    assert not replay(calls[which])
    assert not any(check() for check in checks_of(PreparedCalls(calls[2])))
    move()
    assert all(map(replay, calls))
    assert_same(results, plain(quiet(step, nx=2, nu=1, dt=0.1)))
    look_up()
    assert not replay(calls[which])
    assert all(calls_of(call) is None for call in calls)


def test_solves_with_prepared_calls(monkeypatch):
    """Are those without, to the last bit; the next solve is that of the function as it is then."""
    gravity = [9.81]

    def pendulum(x, u):
        return x[1], u[0] - gravity[0] * np.sin(x[0])

    def problem():
        system = quiet(xdot=pendulum, nx=2, nu=1, dt=0.05)
        costs = [StateCost(system, [np.pi, 0.0], [1.0, 0.1]), ControlCost(0.01)]
        return Problem(system, [0.3, 0.0], 40, costs, [], [ControlBounds(-6.0, 6.0)])

    def numbers(solution):
        records = [{**record._asdict(), "time": 0.0} for record in solution.log]
        arrays = solution.xs, solution.us, solution.K, solution.Vxx
        return [*(a.tobytes() for a in arrays), repr(records), solution.cost]

    kept, again = problem(), trajopt.DDP()
    for g in (9.81, 3.7, 1.62):
        gravity[0] = g
        got, once_more = again.solve(kept), again.solve(kept)
        with monkeypatch.context() as without:
            for name in ("prepared_expansion", "prepared_rollouts", "prepared_steps"):
                without.setattr(CallableSystem, name, None)
            plain = trajopt.DDP().solve(problem())
        assert got.converged and numbers(got) == numbers(once_more) == numbers(plain)


def table(x, u):
    """A look-up, which no trace knows."""
    return np.array([x[1], float(np.interp(float(x[0]), [0.0, 1.0], [0.0, 1.0])) + u[0]])


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"xdot": table}, "xdot, table, is not traced: it wants the values of its arguments; page 'Use your own"),
        ({"step": table, "derivatives": "finite_differences"}, "step, table, has derivatives of kind 'finite_diff"),
        ({"xdot": lambda x, u: (x[1], u[0]), "integrator": "implicit_midpoint"}, "is solved for the next state"),
    ],
)
def test_export_says_which_function_is_not_compiled(options, why, tmp_path):
    system = quiet(nx=2, nu=1, dt=0.1, **options)
    problem = Problem(system, np.zeros(2), 5, [ControlCost(1.0)], [StateCost(system, [1.0, 0.0], [1.0, 1.0])])
    with pytest.raises(ValueError, match=rf"^export: the system, CallableSystem \(its .*{why}"):
        DDP().prepare(problem).export(tmp_path / "none")


@pytest.mark.parametrize("as_cost", [True, False])
def test_export_says_which_function_of_a_term_is_not_compiled(as_cost, tmp_path):
    system = CallableSystem(step=lambda x, u: (x[1], u[0]), nx=2, nu=1, dt=0.1)
    residual = trajopt.residual(lambda x: table(x, x)[1:], 1, system, name="height")
    costs, constraints = [ControlCost(1.0)], []
    if as_cost:
        costs.append(trajopt.ResidualCost(residual, 1.0))
    else:
        constraints.append(trajopt.ResidualConstraint(residual, upper=9.0))
    problem = Problem(system, np.zeros(2), 5, costs, constraints=constraints)
    with pytest.raises(ValueError, match=r"^export: height \(its function, <lambda>, is not traced: it wants"):
        DDP().prepare(problem).export(tmp_path / "none")
