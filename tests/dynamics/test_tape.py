"""Traced functions: every operation against closed forms, random expressions against complex steps."""

import copy
import math
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dynamics.simd import num_threads, set_num_threads
from dynamics.tape import interpreter, program
from dynamics.tape.expressions import Expressions, Tapes
from dynamics.tape.graph import Graph, Untraceable
from dynamics.tape.program import assemble
from dynamics.tape.symbol import indices_of, product, symbols
from dynamics.tape.trace import traceable, traced
from tests.tolerances import COMPLEX_STEP, IDENTITY, relative_error


def tapes_of(function, nx, nu=1):
    """Tapes of function(x, u), as a tuple or an array."""
    e = Expressions(nx, nu, lambda x, u: traced(traceable(function), x, u))
    return Tapes(e, lambda: e.y[None], lambda: e.J[None], lambda: e.H[None])


def s(x):
    return np.sqrt(1.0 - x * x)


OPERATIONS = {
    "sin": (np.sin, np.cos, lambda x: -np.sin(x)),
    "cos": (np.cos, lambda x: -np.sin(x), lambda x: -np.cos(x)),
    "tan": (np.tan, lambda x: 1 + np.tan(x) ** 2, lambda x: 2 * np.tan(x) * (1 + np.tan(x) ** 2)),
    "math.asin": (math.asin, lambda x: 1 / s(x), lambda x: x / s(x) ** 3),
    "math.acos": (math.acos, lambda x: -1 / s(x), lambda x: -x / s(x) ** 3),
    "arctan": (np.arctan, lambda x: 1 / (1 + x * x), lambda x: -2 * x / (1 + x * x) ** 2),
    "math.atan2": (lambda x: math.atan2(x, 2.0), lambda x: 2 / (4 + x * x), lambda x: -4 * x / (4 + x * x) ** 2),
    "sinh": (np.sinh, np.cosh, np.sinh),
    "cosh": (np.cosh, np.sinh, np.cosh),
    "math.tanh": (math.tanh, lambda x: 1 - np.tanh(x) ** 2, lambda x: -2 * np.tanh(x) * (1 - np.tanh(x) ** 2)),
    "arcsinh": (np.arcsinh, lambda x: (1 + x * x) ** -0.5, lambda x: -x * (1 + x * x) ** -1.5),
    "arccosh": (lambda x: np.arccosh(2 + x), lambda x: ((2 + x) ** 2 - 1) ** -0.5,
                lambda x: -(2 + x) * ((2 + x) ** 2 - 1) ** -1.5),
    "arctanh": (np.arctanh, lambda x: 1 / s(x) ** 2, lambda x: 2 * x / s(x) ** 4),
    "math.exp": (math.exp, np.exp, np.exp),
    "exp2": (np.exp2, lambda x: np.log(2) * 2**x, lambda x: np.log(2) ** 2 * 2**x),
    "expm1": (np.expm1, np.exp, np.exp),
    "log": (np.log, lambda x: 1 / x, lambda x: -1 / x**2),
    "log10": (np.log10, lambda x: 1 / x / np.log(10), lambda x: -1 / x**2 / np.log(10)),
    "log2": (np.log2, lambda x: 1 / x / np.log(2), lambda x: -1 / x**2 / np.log(2)),
    "log1p": (np.log1p, lambda x: 1 / (1 + x), lambda x: -1 / (1 + x) ** 2),
    "math.sqrt": (math.sqrt, lambda x: 0.5 * x**-0.5, lambda x: -0.25 * x**-1.5),
    "hypot": (lambda x: np.hypot(x, 2.0), lambda x: x / np.hypot(x, 2), lambda x: 4 / np.hypot(x, 2) ** 3),
    "square": (np.square, lambda x: 2 * x, lambda x: 2 + 0 * x),
    "reciprocal": (np.reciprocal, lambda x: -(x**-2), lambda x: 2 * x**-3),
    "cube": (lambda x: x**3, lambda x: 3 * x**2, lambda x: 6 * x),
    "whole float": (lambda x: x**7.0, lambda x: 7 * x**6, lambda x: 42 * x**5),
    "inverse square": (lambda x: x**-2, lambda x: -2 * x**-3, lambda x: 6 * x**-4),
    "half": (lambda x: x**-0.5, lambda x: -0.5 * x**-1.5, lambda x: 0.75 * x**-2.5),
    "real power": (lambda x: x**2.3, lambda x: 2.3 * x**1.3, lambda x: 2.99 * x**0.3),
    "math.pow": (lambda x: math.pow(x, 1.5), lambda x: 1.5 * x**0.5, lambda x: 0.75 * x**-0.5),
    "base": (lambda x: 3.0**x, lambda x: np.log(3) * 3.0**x, lambda x: np.log(3) ** 2 * 3.0**x),
    "abs": (lambda x: abs(x - 0.5) * x, lambda x: np.sign(x - 0.5) * (2 * x - 0.5), lambda x: 2 * np.sign(x - 0.5)),
    "sign": (lambda x: np.sign(x - 0.5) * x * x, lambda x: 2 * np.sign(x - 0.5) * x, lambda x: 2 * np.sign(x - 0.5)),
    "maximum": (lambda x: np.maximum(x, 0.5) * x, lambda x: np.where(x > 0.5, 2 * x, 0.5), lambda x: 2.0 * (x > 0.5)),
    "min": (lambda x: min(x * x, 0.25), lambda x: 2 * x * (x < 0.5), lambda x: 2.0 * (x < 0.5)),
    "clip": (lambda x: np.clip(x, 0.2, 0.5) * x, lambda x: np.where(x > 0.5, 0.5, np.where(x < 0.2, 0.2, 2 * x)),
             lambda x: 2.0 * ((x > 0.2) & (x < 0.5))),
    "ties": (lambda x: max(x, 0.25) + min(x * x, x), lambda x: 1.0 * (x > 0.25) + 2 * x, lambda x: 2.0 + 0 * x),
    "mod": (lambda x: (7.0 * x % 1.5) * x, lambda x: 14 * x - 1.5 * np.floor(7 * x / 1.5), lambda x: 14.0 + 0 * x),
    "quotient": (lambda x: (1 - x) / (2 + x), lambda x: -3 / (2 + x) ** 2, lambda x: 6 / (2 + x) ** 3),
}  # fmt: skip


@pytest.mark.parametrize("name", OPERATIONS)
def test_operations(name):
    f, slope, curvature = OPERATIONS[name]
    tapes = tapes_of(lambda x, u: (f(x[0]), 2.0), 1)
    X, U, mu = np.linspace(0.03, 0.93, 37)[:, None], np.zeros((37, 1)), np.tile([3.0, 1.0], (37, 1))
    assert relative_error(tapes.evaluate(X, U), np.array([(f(x), 2.0) for x in X[:, 0]])) < IDENTITY
    J, H = tapes.jacobians(X, U), tapes.hessian_products(X, U, mu)
    assert relative_error(J[:, 0, 0], slope(X[:, 0])) < IDENTITY
    assert relative_error(H[:, 0, 0], 3 * curvature(X[:, 0])) < IDENTITY
    assert not J[:, 1].any() and not J[:, :, 1].any() and not H[:, 1].any()


def test_operations_of_two_numbers(rng):
    def function(x, u):
        product = np.maximum(x[0] * u[0], x[1] - 3)
        return np.arctan2(x[0], x[1]), x[0] ** x[1], math.hypot(x[0], u[0]), product, x[0] / u[0]

    def as_powers(x, u):
        return np.array([np.arctan(x[0] / x[1]), np.exp(x[1] * np.log(x[0])), np.sqrt(x[0] ** 2 + u[0] ** 2),
                         x[0] * u[0], x[0] / u[0]])  # fmt: skip

    tapes = tapes_of(function, 2)
    X, U = rng.uniform(0.5, 1.5, (20, 2)), rng.uniform(0.5, 1.5, (20, 1))
    check_first_derivatives(tapes, as_powers, X, U)
    check_second_derivatives(tapes, X, U, rng.standard_normal((20, 5)))


def check_first_derivatives(tapes, function, X, U, tolerance=IDENTITY):
    n, J = X.shape[1], tapes.jacobians(X, U)
    for t, (x, u) in enumerate(zip(X, U, strict=True)):
        assert relative_error(tapes.evaluate(X, U)[t], np.asarray(function(x, u)), floor=1.0) < tolerance
        for j, d in enumerate(1e-30j * np.eye(n + U.shape[1])):
            wanted = np.imag(np.asarray(function(x + d[:n], u + d[n:]), complex)) / 1e-30
            assert relative_error(J[t, :, j], wanted, floor=1.0) < tolerance


def differences(tapes, X, U, mu, h):
    """Those of sixth order of mu'J, with steps h."""
    n, nz = X.shape[1], X.shape[1] + U.shape[1]
    found = np.zeros((len(X), nz, nz))
    for j, d in enumerate(h * np.eye(nz)):
        for k, weight in ((1, 45 / 60), (2, -9 / 60), (3, 1 / 60)):
            for sign in (1, -1):
                J = tapes.jacobians(X + sign * k * d[:n], U + sign * k * d[n:])
                found[:, :, j] += sign * weight / h * np.einsum("ki,kij->kj", mu, J)
    return found


def check_second_derivatives(tapes, X, U, mu, tolerance=1e-8):
    """Against differences, which are as wrong as those with twice the step say."""
    H = tapes.hessian_products(X, U, mu)
    assert np.array_equal(H, H.swapaxes(1, 2))
    wanted, coarse = (differences(tapes, X, U, mu, 2.0**-power) for power in (7, 6))
    assert relative_error(H, wanted, floor=1.0) < tolerance + relative_error(coarse, wanted, floor=1.0) / 16.0


LEAVES = st.sampled_from(["x[0]", "x[1]", "u[0]", "0.7", "2.0", "-1.0", "0.0"])

UNARY = [
    "np.sin({})", "np.cos({})", "np.exp(-0.2*({})**2)", "np.sqrt(2+np.sin({}))", "-({})", "({})**2", "({})**3",
    "1/(3+np.cos({}))", "np.tanh({})",
]  # fmt: skip


def _grown(inner):
    unary = st.tuples(st.sampled_from(UNARY), inner)
    binary = st.tuples(st.sampled_from(["({})+({})", "({})-({})", "({})*({})", "({})/(2+({})**2)"]), inner, inner)
    return unary.map(lambda p: p[0].format(p[1])) | binary.map(lambda p: p[0].format(p[1], p[2]))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.recursive(LEAVES, _grown, max_leaves=12), min_size=1, max_size=3), st.integers(0, 2**31))
def test_random_expressions(texts, seed):
    function = eval("lambda x, u: (" + "".join(f"{text}, " for text in texts) + ")", {"np": np})
    rng = np.random.default_rng(seed)
    tapes = tapes_of(function, 2)
    X, U, mu = rng.uniform(-1, 1, (5, 2)), rng.uniform(-1, 1, (5, 1)), rng.uniform(-1, 1, (5, len(texts)))
    size = 1.0 + np.abs(tapes.hessian_products(X, U, mu)).max()
    check_first_derivatives(tapes, function, X, U, COMPLEX_STEP)
    if size < 100.0:  # curved no more than differences can follow
        check_second_derivatives(tapes, X, U, mu, 1e-6)


def test_what_arrays_and_helpers_do(rng):
    A = rng.standard_normal((2, 2))

    def helper(x):
        return math.sin(x[0]) * x

    def function(x, u):
        out = np.zeros(4)
        out[:2] = A @ helper(x) + np.linalg.solve(np.array([[2.0, x[0]], [x[0], 3.0]]), x)
        out[2] = np.linalg.norm(x) + np.dot(x, x) + np.sum(x * u[0]) + float(x[1])
        for i in range(len(x)):
            out[3] += np.float64(i) * x[i] * np.pi
        return out

    tapes = tapes_of(function, 2)
    X, U = rng.uniform(0.2, 0.8, (9, 2)), rng.standard_normal((9, 1))
    wanted = np.array([function(x, u) for x, u in zip(X, U, strict=True)])
    assert relative_error(tapes.evaluate(X, U), wanted) < IDENTITY
    check_second_derivatives(tapes, X, U, rng.standard_normal((9, 4)))
    M = rng.standard_normal((3, 3)) + 3 * np.eye(3)
    inverse = tapes_of(lambda x, u: (np.linalg.inv(M * x[0]) @ x[:3])[0] + np.linalg.det(M * x[0]) * np.ones(1), 3)
    x = np.array([[0.7, -0.3, 0.2]])
    wanted = (np.linalg.inv(M * 0.7) @ x[0])[0] + np.linalg.det(M * 0.7)
    assert inverse.evaluate(x, U[:1])[0, 0] == pytest.approx(wanted, rel=1e-12)


def even(n, x):
    return x if n == 0 else odd(n - 1, math.sin(x))


def odd(n, x):
    return even(n - 1, odd_factor * x) if n > 1 else x + 0.0 * even(0, x)


odd_factor = 0.9


def test_functions_that_call_each_other():
    tapes = tapes_of(lambda x, u: (even(6, x[0]),), 1)
    x = np.array([[0.4]])
    assert tapes.evaluate(x, x)[0, 0] == pytest.approx(even(6, 0.4), rel=1e-14)


def halved(x):
    while x > 1e-3:
        x = 0.5 * x
    return x


BRANCHES = {
    "int": lambda x, u: (int(x[0]) * u[0],),
    "loop": lambda x, u: (halved(x[0]),),
    "many branches": lambda x, u: (sum(x[0] if x[0] > i else u[0] for i in range(5)),),
    "shapes": lambda x, u: x if x[0] > 0.0 else u[:0],
    "decimals": lambda x, u: (np.round(x[0], 2),),
    "interpolation": lambda x, u: (np.interp(x[0], [0.0, 1.0], [0.0, 1.0]),),
    "large matrix": lambda x, u: np.linalg.inv(x[0] * np.eye(5))[0],
    "text": lambda x, u: ("x",),
    "table": lambda x, u: ([1.0, 2.0][x[0]],),
}


@pytest.mark.parametrize("name", BRANCHES)
def test_what_cannot_be_traced(name):
    with pytest.raises(Untraceable):
        tapes_of(BRANCHES[name], 1)


def branching(x, u):
    if x[0] <= 0.0:
        return 0.0, x[1], x[0] * x[1]
    if x[0] > 1.0 and not x[1] > 0.0:
        return np.log(x[0]), x[1] ** 2, u[0] * x[1] ** 3
    return x[0], np.sqrt(x[0]), x[1] * u[0]


def elementwise(x, u):
    y = np.where(x > 0.0, x**2, np.where(u[0] < x, x[::-1] ** 3, np.sqrt(np.abs(x))))
    y[x > 1.0] += 2.0 * x[x > 1.0]
    return y + (x <= 0.5) * x


SELECTIONS = {
    "branches": branching,
    "elements": elementwise,
    "sorted": lambda x, u: np.sort(np.array([x[0] * x[1], u[0], x[1]])),
    "largest": lambda x, u: (np.max(x * x), x[np.argmin(x)], max(x), np.maximum.reduce(x)),
    "all": lambda x, u: (x[0] ** 3 if (x > 0.0).all() else x[1] ** 2, (x > 0.3).any() * x[0]),
    "logic": lambda x, u: (
        np.where((x[0] > 0) & (x[1] < 1.0) | ~(u[0] > 0), x[0] ** 2, x[1]),
        np.where(np.logical_and(x[0] > 0, np.logical_not(x[1] >= 1.0)) ^ (u[0] != 0.0), x[0] ** 2, x[1]),
        x[0] ** 3 if 0.0 < x[0] <= 1.0 else x[1],
    ),
    "tuples": lambda x, u: np.where(x[0] > 0.0, (x[0] ** 2, x[1]), [u[0], x[1] ** 3]) + (1.0, x[0]),
    "not defined there": lambda x, u: (
        np.where(x[0] > 0.0, np.sqrt(x[0]) * x[1], x[1] ** 3),
        np.select([x[0] < -0.5, x[0] < 0.5], [1.0 / x[0], x[0]], x[1]),
    ),
    "whole": lambda x, u: (
        x[0] % 1.3, np.mod(x[0] * x[1], -2.0), x[0] // 0.7 * x[1], np.floor(x[0]) * x[1], np.ceil(x[1]) * x[0],
        np.rint(3 * x[0]), np.round(3 * x[0]) * x[1], np.fmod(3 * x[0], 1.1), math.fmod(3 * x[0], -1.1),
        math.floor(3 * x[0]), math.trunc(3 * x[0]), *divmod(3 * x[0], 0.7), 2.0 % x[1],
        np.heaviside(x[0], 0.5) * x[1] ** 2, np.sign(x[0]) * x[1],
    ),
    "angle": lambda x, u: (
        (5 * x[0] - x[1] + np.pi) % (2 * np.pi) - np.pi, math.remainder(5 * x[0], 2 * np.pi) * x[1],
        5 * x[0] - 2 * np.pi * np.round(5 * x[0] / (2 * np.pi)), np.where(x[0] > np.float64(0.2), x[0], x[1]),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SELECTIONS)
def test_selections(name, rng):
    """Values are those of the function on every side, and derivatives differences of it, which no jump is near."""
    function = SELECTIONS[name]
    tapes, X, U = tapes_of(function, 2), rng.uniform(-2.0, 2.0, (200, 2)), rng.uniform(-1.0, 1.0, (200, 1))
    with np.errstate(all="ignore"):
        wanted = np.array([np.asarray(function(x, u), float) for x, u in zip(X, U, strict=True)])
        assert relative_error(tapes.evaluate(X, U), wanted) < IDENTITY
        J, mu, h = tapes.jacobians(X, U), rng.standard_normal(wanted.shape), 1e-6
        H = tapes.hessian_products(X, U, mu)
        for j, d in enumerate(h * np.eye(3)):
            ends = [[np.asarray(function(x + s * d[:2], u + s * d[2:]), float) for x, u in zip(X, U, strict=True)]
                    for s in (1, -1)]  # fmt: skip
            assert relative_error(J[:, :, j], (np.array(ends[0]) - ends[1]) / (2 * h), floor=1.0) < 1e-7
            slopes = [tapes.jacobians(X + s * d[:2], U + s * d[2:]) for s in (1, -1)]
            curvature = np.einsum("ki,kij->kj", mu, slopes[0] - slopes[1]) / (2 * h)
            assert relative_error(H[:, :, j], curvature, floor=1.0) < 1e-6


def test_ties_are_exact():
    """Whole numbers and limits, where derivatives are those of one side; conditions of numpy hold alike."""
    tapes = tapes_of(lambda x, u: (x[0] % 1.0, np.rint(x[0]), x[0] // 0.5, np.where(x[0] >= 0.5, 1.0, 0.0),
                                   (x[0] == 0.5) * 1.0, x[0] != 0.5), 1)  # fmt: skip
    X = np.array([-2.5, -2.0, -1.5, -0.5, -1e-20, 0.0, 0.49999999999999994, 0.5, 1.5, 2.5, 1e15 + 0.5])[:, None]
    wanted = [X % 1.0, np.rint(X), X // 0.5, X >= 0.5, X == 0.5, X != 0.5]
    assert np.array_equal(tapes.evaluate(X, 0.0 * X), np.hstack(wanted))
    assert np.array_equal(tapes.jacobians(X, 0.0 * X)[:, :, 0], np.tile([1.0, 0, 0, 0, 0, 0], (11, 1)))


LIMITS = {
    "clip": lambda u: np.clip(u, -2.0, 0.3),
    "maximum": lambda u: np.minimum(np.maximum(u, -2.0), 0.3),
    "mirrored": lambda u: -np.clip(-u, -0.3, 2.0),
    "max": lambda u: max(min(0.3, u), -2.0),
    "converted": lambda u: np.clip(u * 180 / np.pi, -2.0 * 180 / np.pi, 0.3 * 180 / np.pi) * np.pi / 180,
    "branch": lambda u: 0.3 if u > 0.3 else (-2.0 if u <= -2.0 else u),
    "where": lambda u: np.where(u < 0.3, np.where(u > -2.0, u, -2.0), 0.3),
    "beyond": lambda u: np.clip(u, -2.0 - 1e-9, 0.3 + 1e-9),
}


@pytest.mark.parametrize("name", LIMITS)
def test_a_clip_to_the_limits_of_a_box_is_none_inside(name):
    limited = LIMITS[name]
    tapes = tapes_of(lambda x, u: (limited(u[0]),), 1)
    U = np.array([[-2.0], [0.3], [-2.001], [0.301]])
    assert relative_error(tapes.jacobians(0.0 * U, U)[:, 0, 1], [1.0, 1.0, 0.0, 0.0]) < IDENTITY


def test_ties_of_two_variables_are_shared():
    tapes = tapes_of(lambda x, u: (max(x[0], x[1]), min(x[0], 2.0 * x[1] - x[0]), max(x[0], -x[0])), 2)
    X = np.array([[0.3, 0.3], [0.0, 0.0]])
    J = tapes.jacobians(X, np.zeros((2, 1)))
    assert np.array_equal(J[:, :2, :2], np.tile([[0.5, 0.5], [0.0, 1.0]], (2, 1, 1))) and J[1, 2, 0] == 0.0


def test_ways_on_which_a_function_is_not_defined():
    def function(x, u):
        if x[0] > 1.0:
            raise ZeroDivisionError
        return (x[0],)

    x = np.array([[0.5], [1.5]])
    assert np.array_equal(tapes_of(function, 1).evaluate(x, x), [[0.5], [np.nan]], equal_nan=True)
    with pytest.raises(Untraceable, match="KeyError"):
        tapes_of(lambda x, u: (x[0] if x[0] > 0 else {}["missing"],), 1)


def test_graphs_hold_everything_once():
    graph = Graph()
    x, y = symbols(graph, 2)
    assert (x * y + 0.0).index == (1.0 * y * x).index and (x - x).index == graph.constant(0.0)
    assert (x * 0.0).index == graph.constant(0.0) and x.__neg__().__neg__().index == x.index
    assert (x.sin() - -y).index == (y + x.sin()).index
    assert (np.float64(2.0) * x).index == (x + x).index


def test_points_that_are_not_finite(rng):
    tapes = tapes_of(lambda x, u: (x[0] * x[0], 1.0, u[0]), 2)
    X, U = rng.standard_normal((11, 2)), rng.standard_normal((11, 1))
    X[3, 1], X[7, 0], U[9, 0] = np.nan, np.inf, -np.inf
    for block in (tapes.evaluate(X, U), tapes.jacobians(X, U), tapes.hessian_products(X, U, np.ones((11, 3)))):
        flat = block.reshape(11, -1)
        bad = [3, 7, 9]
        assert np.isnan(flat[bad]).all() and np.isfinite(np.delete(flat, bad, axis=0)).all()
    assert np.isinf(tapes_of(lambda x, u: (1.0 / x[0],), 1).evaluate(np.zeros((1, 1)), np.zeros((1, 1)))).all()


def test_at_rest(rng):
    """Drag is smooth where its speed is not; a root of anything else is infinitely steep."""

    def drag(x, u):
        speed = np.sqrt(2.0 * x[0] * x[0] + x[1] ** 2)
        return -speed * x[0], np.hypot(x[0], x[1]) ** 3 * u[0], (x[0] ** 2 + x[1] ** 2) ** 0.75 * x[1], abs(x[0]) * x[0]

    tapes, X = tapes_of(drag, 2), np.zeros((1, 2))
    assert not tapes.jacobians(X, X[:, :1]).any() and not tapes.hessian_products(X, X[:, :1], np.ones((1, 4))).any()
    X = rng.uniform(0.3, 1.0, (5, 2))
    check_second_derivatives(tapes, X, rng.standard_normal((5, 1)), rng.standard_normal((5, 4)), 1e-6)
    steep = tapes_of(lambda x, u: (np.sqrt(x[0]), np.sqrt(x[1] * x[1] - x[0])), 2)
    assert np.isinf(steep.jacobians(np.zeros((1, 2)), np.zeros((1, 1)))[0, :, 0]).all()


def test_no_points():
    tapes = tapes_of(lambda x, u: (x[0] * u[0],), 1)
    none = np.zeros((0, 1))
    assert tapes.evaluate(none, none).shape == (0, 1) and tapes.hessian_products(none, none, none).shape == (0, 2, 2)


def test_large_angles():
    tapes = tapes_of(lambda x, u: (np.sin(x[0]), np.cos(x[0])), 1)
    x = np.array([[0.1], [3e7], [1e15]])
    assert relative_error(tapes.evaluate(x, 0 * x), np.hstack([np.sin(x), np.cos(x)])) < IDENTITY


def test_threads_change_nothing(rng):
    def function(x, u):
        y = x
        for _ in range(30):
            y = np.sin(y) * u[0] + x[::-1] * y
        return y

    tapes, before = tapes_of(function, 3), num_threads()
    X, U, mu = rng.standard_normal((1003, 3)), rng.standard_normal((1003, 1)), rng.standard_normal((1003, 3))
    results = []
    try:
        for threads in (1, 2):
            set_num_threads(threads)
            results.append((tapes.jacobians(X, U), tapes.hessian_products(X, U, mu)))
    finally:
        set_num_threads(before)
    for one, two in zip(*results, strict=True):
        assert np.array_equal(one, two)
    assert np.array_equal(tapes.jacobians(X[5:6], U[5:6])[0], results[0][0][5])


def test_long_functions_are_refused(monkeypatch):
    monkeypatch.setattr(program, "LONGEST", 1000)

    def function(x, u):
        y = x[0]
        for i in range(program.LONGEST + 1):
            y = y + (i + 1.0) * x[i % 2]
        return (y,)

    with pytest.raises(Untraceable, match="instructions"):
        tapes_of(function, 2).program(0)


def test_products_of_symbols(rng):
    """What is zero is left out, and the rest is the product of numbers."""
    A, B = rng.standard_normal((1, 4, 5)), rng.standard_normal((1, 5, 3))
    A[0, 1], A[0, :, 2], B[0, :, 1], B[0, 0] = 0.0, 0.0, 0.0, 0.0
    graph = Graph()
    leaves = symbols(graph, 35)
    values = np.concatenate([A.ravel(), B.ravel()])
    SA, SB = (np.where(M != 0.0, s.reshape(M.shape), 0.0) for M, s in ((A, leaves[:20]), (B, leaves[20:])))
    assert not graph.operations[35:]
    C = product(SA, SB)
    written = assemble(graph, indices_of(graph, C), indices_of(graph, leaves))
    found = interpreter.evaluate(written, values[None], values[None, :0], values[None, :0]).reshape(1, 4, 3)
    assert relative_error(found, A @ B) < IDENTITY
    assert len(graph.operations) == 35 + 3 * 2 * 3 + 3 * 2 * 2 + 1 and not C[0, 1].any() and not C[0, :, 1].any()
    assert np.array_equal(product(A, B), A @ B)


def test_graphs_that_may_grow_by_so_much():
    graph = Graph()
    x = symbols(graph, 1)[0]
    with pytest.raises(Untraceable, match="more than 4 operations"), graph.growing_by(3):
        for _ in range(4):
            x = x * x
    assert len(graph.operations) == 4
    assert (x * x).index == 4


def test_copies(rng):
    tapes = tapes_of(lambda x, u: (np.sin(x[0]) * u[0],), 1)
    X, U = rng.standard_normal((2, 5, 1))
    for other in (copy.deepcopy(tapes), pickle.loads(pickle.dumps(tapes))):
        assert np.array_equal(other.jacobians(X, U), tapes.jacobians(X, U))
        assert np.array_equal(other.hessian_products(X, U, X), tapes.hessian_products(X, U, X))
