"""Residuals from functions: derivatives, forms of functions, fall-backs, use in costs and constraints."""

import copy
import math
import pickle

import numpy as np
import pytest
from numba import njit

import trajopt
from dynamics.simd.prepared_calls import calls_of
from dynamics.simd.squares import CLIPPED, MULTIPLIERS, SQUARES, KnotSum, ResidualWeights
from tests.reference.prepared import replay
from tests.tolerances import COMPLEX_STEP, IDENTITY, relative_error
from tests.trajopt.systems import Pendulum
from trajopt.problem.objective import gather_squares, zero_blocks

SYSTEM = trajopt.CallableSystem(lambda x, u: x + 0.1 * np.array([x[1], u[0]]), nx=2, nu=1, dt=0.1)


def both(x, u):
    return math.sin(x[0]) * u[0], x[1] * x[1] - u[0] ** 2, x[0]


def state(x):
    return (x[0] * x[1], np.exp(-x[1]))


def points(rng, nr, K=11):
    return rng.standard_normal((K, 2)), rng.standard_normal((K, 1)), rng.standard_normal((K, nr))


def test_of_states_and_controls(rng):
    residual = trajopt.residual(both, 3, SYSTEM, component_names=["a", "b", "c"])
    assert residual.derivative_source == "traced" and "traced" in repr(residual) and residual.nr == 3
    assert residual.component_names == ("a", "b", "c") and trajopt.check_derivatives(residual, system=SYSTEM).ok
    xs, us, mu = points(rng, 3)
    assert relative_error(residual.evaluate(xs, us), [both(x, u) for x, u in zip(xs, us, strict=True)]) < IDENTITY
    s, c = np.sin(xs[:, 0]), np.cos(xs[:, 0])
    rx, ru = residual.jacobians(xs, us)
    assert relative_error(rx[:, 0, 0], c * us[:, 0]) < IDENTITY
    assert relative_error(ru[:, 1, 0], -2 * us[:, 0]) < IDENTITY
    Hxx, Hux, Huu = residual.hessian_products(xs, us, mu)
    assert relative_error(Hxx[:, 0, 0], -mu[:, 0] * s * us[:, 0]) < IDENTITY
    assert relative_error(Hux[:, 0, 0], mu[:, 0] * c) < IDENTITY
    assert relative_error(Huu[:, 0, 0], -2 * mu[:, 1]) < IDENTITY
    with pytest.raises(ValueError, match="terminal knot"):
        residual.evaluate(xs, None)


@pytest.mark.parametrize("derivatives", ["traced", "complex_step", "finite_differences"])
@pytest.mark.parametrize("form", ["plain", "compiled", "batches"])
def test_of_states_alone(form, derivatives, rng):
    function = {"plain": state, "compiled": njit(state), "batches": lambda x: np.stack(state(x.T), axis=1)}[form]
    residual = trajopt.residual(function, 2, SYSTEM, derivatives=derivatives, vectorized=form == "batches")
    assert residual.derivative_source == derivatives
    xs, us, mu = points(rng, 2)
    assert relative_error(residual.evaluate(xs, None), [state(x) for x in xs]) < IDENTITY
    rx, ru = residual.jacobians(xs, us)
    assert ru is None and relative_error(rx[:, 1, 1], -np.exp(-xs[:, 1])) < COMPLEX_STEP
    Hxx, *rest = residual.hessian_products(xs, us, mu)
    assert rest == [None, None]
    wanted = np.zeros((len(xs), 2, 2))
    wanted[:, 0, 1] = wanted[:, 1, 0] = mu[:, 0]
    wanted[:, 1, 1] = mu[:, 1] * np.exp(-xs[:, 1])
    assert relative_error(Hxx, wanted) < 1e-9


def test_linear_functions_have_no_curvature(rng):
    residual = trajopt.residual(lambda x: (x[0] - 2.0 * x[1],), 1, SYSTEM)
    xs, _, mu = points(rng, 1)
    assert residual.hessian_products(xs, None, mu) == (None, None, None)


def test_what_cannot_be_traced(rng):
    def table(x):
        return (x[0] * [1.0, 2.0][int(np.real(x[0]) < 0)],)

    residual = trajopt.residual(table, 1, SYSTEM, x_example=[0.5, 0.0], scale=0.1)
    assert residual.derivative_source == "complex_step"
    assert residual.jacobians(np.array([[-1.0, 0.0]]), None)[0][0, 0, 0] == pytest.approx(2.0)
    with pytest.raises(ValueError, match="derivatives: got 'traced'"):
        trajopt.residual(table, 1, SYSTEM, derivatives="traced")


def test_a_target_that_moves(rng):
    target = np.zeros(2)
    residual = trajopt.residual(lambda x: x - target, 2, SYSTEM)
    xs, us, _ = points(rng, 2)
    for method in ("evaluate", "jacobians"):
        target[:] = rng.standard_normal(2)
        getattr(residual, method)(xs, us)
        assert relative_error(residual.evaluate(xs, us), xs - target) < IDENTITY
    assert residual.derivative_source == "traced"


def test_no_knots_and_knots_that_are_not_finite(rng):
    residual = trajopt.residual(state, 2, SYSTEM)
    none = np.zeros((0, 2))
    assert residual.evaluate(none, None).shape == (0, 2) and residual.jacobians(none, None)[0].shape == (0, 2, 2)
    xs = rng.standard_normal((3, 2))
    xs[1, 0] = np.nan
    r = residual.evaluate(xs, None)
    assert np.isnan(r[1]).all() and np.isfinite(r[[0, 2]]).all()


def test_copies(rng):
    residual = trajopt.residual(state, 2, Pendulum(0.1))
    xs, _, mu = points(rng, 2)
    for other in (copy.deepcopy(residual), pickle.loads(pickle.dumps(residual))):
        assert np.array_equal(other.jacobians(xs, None)[0], residual.jacobians(xs, None)[0])
        assert np.array_equal(other.hessian_products(xs, None, mu)[0], residual.hessian_products(xs, None, mu)[0])


def test_states_on_a_manifold_are_refused():
    import problems

    with pytest.raises(ValueError, match=r"system: got .*manifold"):
        trajopt.residual(state, 2, problems.make("quadrotor").system)


def test_as_a_cost_and_a_constraint():
    """A double integrator reaches a circle, by the shortest way: the nearest of its points."""
    circle = trajopt.residual(lambda x: (x[0] ** 2 + x[1] ** 2,), 1, SYSTEM, name="circle")
    effort = trajopt.residual(lambda x, u: (u[0],), 1, SYSTEM)
    problem = trajopt.Problem(
        SYSTEM, [0.2, 0.1], 20, running_costs=[trajopt.ResidualCost(effort, 1.0)],
        constraints=[trajopt.ResidualConstraint(circle, 1.0, 1.0, at="terminal")], us_init=np.full((20, 1), 0.5),
    )  # fmt: skip
    solution = trajopt.DDP().solve(problem)
    assert solution.converged and abs(np.linalg.norm(solution.xs[-1]) - 1.0) < 1e-6


# ------------------------------------------------------------------------------------------------ terms of functions
def disc(x):
    return x[0] ** 2 + x[1] ** 2


def pair(x, u):
    return x[0] - u[0], x[1]


def problem_of(costs, constraints, x0=(1.0, 0.5)):
    effort = trajopt.ControlCost(0.1)
    return trajopt.Problem(SYSTEM, list(x0), 20, [effort, *costs], [], constraints, us_init=np.full((20, 1), 0.1))


def test_terms_of_functions_are_those_of_their_residuals():
    """Costs, constraints and their limits; solves are the same to the last bit."""
    of_functions = problem_of(
        [trajopt.ResidualCost(pair, [1.0, 2.0], trajopt.SmoothAbs(0.1), reference=lambda t: [t, 0.0])],
        [trajopt.ResidualConstraint(disc, lower=0.5, at="all"),
         trajopt.ResidualConstraint(lambda x: (x[1],), upper=0.6)],
    )  # fmt: skip
    r = [trajopt.residual(*a, SYSTEM, name=name) for *a, name in ((pair, 2, "pair"), (lambda x: (disc(x),), 1, "disc"))]
    of_residuals = problem_of(
        [trajopt.ResidualCost(r[0], [1.0, 2.0], trajopt.SmoothAbs(0.1), reference=lambda t: [t, 0.0])],
        [trajopt.ResidualConstraint(r[1], lower=0.5, at="all"),
         trajopt.ResidualConstraint(trajopt.residual(lambda x: (x[1],), 1, SYSTEM), upper=0.6)],
    )  # fmt: skip
    one, other = (trajopt.DDP().solve(problem) for problem in (of_functions, of_residuals))
    assert one.converged and np.array_equal(one.us, other.us) and one.cost == other.cost
    assert [c.name for c in of_functions.residual_constraints] == ["disc", "residual"]
    assert [c.nr for c in of_functions.residual_constraints] == [1, 1]
    assert of_functions.running_costs[1].residual.name == "pair" and str(of_functions) == str(of_residuals)


def test_a_cost_in_several_lists_is_one_term():
    cost = trajopt.ResidualCost(pair, 1.0)
    problem = trajopt.Problem(SYSTEM, [1.0, 0.5], 3, [[cost], [cost], [cost]])
    assert len(problem.objective.terms) == 1


def test_numbers_are_counted_where_the_state_begins():
    """Where the function may be defined when it is not at zero; compiled ones may return scalars too."""

    def speed_ratio(x):
        return 1.0 / x[0] if x[0] != 0.0 else 1.0 / 0

    for function in (speed_ratio, njit(lambda x: x[1] / x[0])):
        problem = problem_of([], [trajopt.ResidualConstraint(function, upper=9.0, name="ratio")])
        assert problem.residual_constraints[0].nr == 1
    told = r"function: raises ZeroDivisionError at x = .*, expected x_example=, u_example= of trajopt\.residual"
    with pytest.raises(ValueError, match=told):
        problem_of([], [trajopt.ResidualConstraint(speed_ratio, upper=9.0)], x0=(0.0, 0.5))
    told = r"function: got \[-inf\] at x = .*, expected finite numbers \(give trajopt\.residual x_example=, u_example="
    with pytest.raises(ValueError, match=told):
        problem_of([trajopt.ResidualCost(lambda x, u: np.log(u[0]), 1.0)], [])


def test_lifted_terms_of_functions():
    rates = trajopt.ControlRateSystem(SYSTEM)
    cost = rates.lift(trajopt.ResidualCost(pair, 1.0))
    xs, us = np.array([[0.3, 0.4, 7.0]]), np.array([[0.2]])
    assert cost.value(xs, us) == pytest.approx(0.5 * (0.1**2 + 0.4**2))


def test_functions_that_do_not_fit_say_so():
    cost = trajopt.ResidualCost(pair, [1.0, 2.0, 3.0])
    with pytest.raises(ValueError, match="weights: got 3 numbers, expected one or 2"):
        problem_of([cost], [])
    with pytest.raises(ValueError, match=r"ResidualCost: it has functions of time, which .* or of states"):
        cost.value(np.zeros((1, 2)), np.zeros((1, 1)))
    constraint = trajopt.ResidualConstraint(disc, lower=[0.0, 1.0])
    assert repr(constraint) == "ResidualConstraint('disc', nr=unknown, at='path')"
    with pytest.raises(ValueError, match="lower: got shape"):
        problem_of([], [constraint])
    with pytest.raises(ValueError, match="nr: got None for a function that writes in place"):
        problem_of([], [trajopt.ResidualConstraint(lambda x, u, out: None)])
    with pytest.raises(TypeError, match="activation: got int"):
        trajopt.ResidualCost(pair, 1.0, activation=3)


# ------------------------------------------------------------------------------------------------ sums over knots
N = 9


def weights_of(layout, rng, nr, rows):
    """Some zero; limits of both kinds."""
    w = rng.uniform(0.5, 2.0, (rows, nr))
    w[0, 0] = 0.0
    if layout == SQUARES:
        return ResidualWeights(w)
    if layout == MULTIPLIERS:
        return ResidualWeights(np.hstack([rng.standard_normal((rows, nr)) * (w > 0.0), w]), layout)
    shift, upper = rng.standard_normal((rows, nr)), rng.uniform(0.0, 0.5, (rows, nr))
    return ResidualWeights(np.hstack([w, shift, np.full((rows, nr), -0.1), upper]), layout)


def blocks_of(seed):
    rng = np.random.default_rng(seed)
    return tuple(rng.standard_normal(block.shape) for block in zero_blocks(N, 2, 1))


def trajectory(rng):
    return rng.standard_normal((N + 1, 2)), rng.standard_normal((N, 1))


@pytest.mark.parametrize("layout", [SQUARES, CLIPPED, MULTIPLIERS])
@pytest.mark.parametrize(("function", "nr", "span"), [(both, 3, (2, N)), (state, 2, (3, N + 1))], ids=["xu", "x"])
@pytest.mark.parametrize("of_each_knot", [False, True])
def test_sums_are_those_of_values_and_derivatives(layout, function, nr, span, of_each_knot, rng):
    residual = trajopt.residual(function, nr, SYSTEM)
    (xs, us), (start, stop) = trajectory(rng), span
    X, U = xs[start:stop], us[start:stop] if function is both else None
    weights = weights_of(layout, rng, nr, stop - start if of_each_knot else 1)
    rows = np.broadcast_to(weights.rows, (stop - start, weights.rows.shape[1]))
    w, r = rows[:, :nr], residual.evaluate(X, U)
    if layout == MULTIPLIERS:
        mu, a, value = w, rows[:, nr:], 0.0
    else:
        z = r + rows[:, nr : 2 * nr] if layout == CLIPPED else r
        s = z - np.clip(z, rows[:, 2 * nr : 3 * nr], rows[:, 3 * nr :]) if layout == CLIPPED else r
        mu, a, value = w * s, w * (s != 0.0), 0.5 * np.sum(w * s * s)
    (rx, ru), H = residual.jacobians(X, U), residual.hessian_products(X, U, mu)
    ru = np.zeros((len(r), nr, 1)) if ru is None else ru
    wanted, bent = blocks_of(1), blocks_of(2)
    wanted[0][start:stop] += np.einsum("ti,tij->tj", mu, rx)
    wanted[2][start:stop] += np.einsum("tij,ti,tik->tjk", rx, a, rx)
    if U is not None:
        wanted[1][start:stop] += np.einsum("ti,tij->tj", mu, ru)
        wanted[3][start:stop] += np.einsum("tij,ti,tik->tjk", ru, a, rx)
        wanted[4][start:stop] += np.einsum("tij,ti,tik->tjk", ru, a, ru)
    for block, part in zip(bent[2:], H, strict=True):
        if part is not None:
            block[start:stop] += part
    target, curvature = blocks_of(1), blocks_of(2)
    assert residual.sums_squares
    assert residual.add_expansion(KnotSum(span, xs, us, weights)) == pytest.approx(value, rel=1e-13, abs=1e-15)
    assert residual.add_expansion(KnotSum(span, xs, us, weights, target, curvature)) == pytest.approx(value, rel=1e-13)
    for got, block in zip((*target, *curvature), (*wanted, *bent), strict=True):
        assert relative_error(got, block) < 1e-13


@pytest.mark.parametrize("layout", [SQUARES, CLIPPED, MULTIPLIERS])
@pytest.mark.parametrize("parts", ["value", "target", "both", "curvature", "one"])
def test_prepared_sums_are_the_plain_ones(layout, parts, rng):
    """To the last bit, of functions that change, too, and of those that cannot be traced any more."""
    table, scale = [], np.ones(1)

    def function(x, u):
        pull = np.interp(x[0], [-9.0, 9.0], table) if table else scale[0] * np.sin(x[0])
        return pull * u[0], x[1] * x[1]

    residual, span = trajopt.residual(function, 2, SYSTEM), (1, N)
    xs, us = trajectory(rng)
    weights = weights_of(layout, rng, 2, N - 1)
    into, other = ([blocks_of(1), blocks_of(2)] for _ in range(2))

    def chosen(target, curvature):
        both_of = {"value": (None, None), "target": (target, None), "both": (target, curvature)}
        return {**both_of, "curvature": (None, curvature), "one": (target, target)}[parts]

    add = residual.prepared_sum(KnotSum(span, xs, us, weights, *chosen(*into)))
    for change in (lambda: None, lambda: scale.fill(2.0), lambda: table.extend((-9.0, 8.0))):
        change()
        for _ in range(2):
            got = add()
            assert got == residual.add_expansion(KnotSum(span, xs, us, weights, *chosen(*other)))
            for blocks, wanted in zip(into, other, strict=True):
                assert all(a.tobytes() == b.tobytes() for a, b in zip(blocks, wanted, strict=True))
            xs += 0.1
            us *= 0.9
    assert not residual.sums_squares and residual.prepared_sum(KnotSum(span, xs, us, weights, None, None)) is None


@pytest.mark.parametrize("layout", [SQUARES, MULTIPLIERS])
@pytest.mark.parametrize("parts", [(False, False), (True, False), (True, True)])
def test_compiled_code_makes_the_calls_of_prepared_sums(layout, parts, rng):
    """Their result is that of the last call; a check says that they are to be made anew."""
    scale = np.ones(1)
    residual, span = trajopt.residual(lambda x, u: (scale[0] * np.sin(x[0]) * u[0], x[1] * x[1]), 2, SYSTEM), (1, N)
    (xs, us), weights = trajectory(rng), weights_of(layout, rng, 2, N - 1)
    into, other = ([blocks_of(1) if part else None for part in parts] for _ in range(2))
    add = residual.prepared_sum(KnotSum(span, xs, us, weights, *into))

    def assert_same():
        (*_, last), wanted = calls_of(add), residual.add_expansion(KnotSum(span, xs, us, weights, *other))
        assert last.room.view(float)[0] == last.result() == wanted
        for blocks, found in zip(into, other, strict=True):
            assert blocks is found is None or all(map(np.array_equal, blocks, found))

    xs += 0.1
    assert replay(add)
    assert_same()
    scale[0] = 2.0
    assert not replay(add)
    for block in (block for blocks in (*into, *other) for block in blocks or ()):
        block.fill(0.0)
    assert replay(add)
    assert_same()


def test_compiled_code_makes_the_calls_of_prepared_rows(rng):
    scale = np.ones(1)
    (xs, us), x = trajectory(rng), trajectory(rng)[0]
    for residual, points in (
        (trajopt.residual(lambda x, u: (scale[0] * np.sin(x[0]) * u[0], x[1] * x[1]), 2, SYSTEM), (xs[:N], us)),
        (trajopt.residual(lambda x: (scale[0] * np.sin(x[0]),), 1, SYSTEM), (x, None)),
    ):
        scale[0] = 1.0
        values, rows = (residual.prepared_rows(*points, jacobians) for jacobians in (False, True))
        found = (*values()[:1], *rows())
        points[0][...] += 0.1
        assert replay(values) and replay(rows)
        scale[0] = 2.0
        assert not replay(rows) and replay(rows) and replay(values)
        wanted = residual.evaluate_with_jacobians(*points)
        for got, array in zip(found, (wanted[0], *wanted), strict=True):
            assert got is array is None or (got.flags.c_contiguous and got.tobytes() == array.tobytes())


def test_where_it_does_not_count_a_function_need_not_be_defined(rng):
    """As at knots between two of a term."""
    residual = trajopt.residual(lambda x: (np.log(x[0]), x[1] / x[0]), 2, SYSTEM, x_example=[1.0, 0.0])
    xs, us = np.abs(trajectory(rng)[0]), np.zeros((N, 1))
    xs[2], weights = [-1.0, 0.0], np.ones((N + 1, 2))
    target = blocks_of(1)
    assert np.isnan(residual.add_expansion(KnotSum((0, N + 1), xs, us, ResidualWeights(weights), None, None)))
    weights[2] = 0.0
    for layout, rows in ((SQUARES, weights), (MULTIPLIERS, np.hstack([weights, weights]))):
        total = residual.add_expansion(KnotSum((0, N + 1), xs, us, ResidualWeights(rows, layout), target, target))
        assert np.isfinite(total) and all(np.isfinite(block).all() for block in target)


def test_sums_say_what_does_not_fit(rng):
    residual, (xs, us) = trajopt.residual(both, 3, SYSTEM), trajectory(rng)
    weights = ResidualWeights(np.ones((1, 3)))
    for given, stop in ((us, N + 1), (None, N)):
        with pytest.raises(ValueError, match="terminal knot"):
            residual.add_expansion(KnotSum((0, stop), xs, given, weights, None, None))
    with pytest.raises(ValueError, match="weights: got rows of shape"):
        residual.add_expansion(KnotSum((0, N), xs, us, ResidualWeights(np.ones((1, 2))), None, None))
    with pytest.raises(ValueError, match="xs: got shape"):
        residual.add_expansion(KnotSum((0, N), xs[:5], us, weights, None, None))
    with pytest.raises(ValueError, match="lx: got shape"):
        residual.add_expansion(KnotSum((0, N), xs, us, weights, zero_blocks(3, 2, 1), None))


def test_objectives_of_functions_are_prepared():
    effort, where = trajopt.residual(both, 3, SYSTEM), trajopt.residual(state, 2, SYSTEM)
    problem = trajopt.Problem(
        SYSTEM, [1.0, 0.5], N, [trajopt.ResidualCost(effort, 0.3), trajopt.ResidualCost(where, 1.0)],
        [trajopt.ResidualCost(where, 9.0, reference=[0.1, 0.8])],
    )  # fmt: skip
    xs, us = trajectory(np.random.default_rng(1))
    terms, sums = gather_squares(problem.objective.terms, N, 1)
    assert not terms and {part.span for part in sums} == {(0, N), (N, N + 1)}
    assert problem.objective.prepared_value(xs, us)() == problem.objective.value(xs, us)
    costs = [term.scale * term.cost.value(*term.points(xs, us)).sum() for term in problem.objective.terms]
    assert problem.objective.value(xs, us) == pytest.approx(sum(costs), rel=1e-13)
