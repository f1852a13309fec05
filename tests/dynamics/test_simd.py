"""The SIMD number: its functions against exact arithmetic and wide floats, lanes against floats, chunks."""

import math
from fractions import Fraction

import numpy as np
import pytest

from dynamics.algorithms.inverse_dynamics import inverse_dynamics_kernel
from dynamics.algorithms.kinematics import BODY, DOF
from dynamics.simd import (
    LANES,
    aligned_arrays,
    aligned_zeros,
    arctan2,
    chunk_count,
    fma,
    fms,
    fnma,
    gather,
    kernel,
    lane,
    load,
    scatter,
    scatter_blocks,
    select_less,
    sincos,
    splat,
    sqrt,
    store,
    with_lane,
)
from dynamics.simd.tiles import add_knots
from tests.reference.random_robots import random_states
from tests.reference.rigid_body_models import load_reference
from tests.tolerances import relative_error

EPS = np.finfo(float).eps
OUTPUTS = 16
pytestmark = pytest.mark.processor


@kernel
def every_operation(x, out):
    a, b, c = load(x, 0), load(x, 1), load(x, 2)
    s, co = sincos(a)
    store(out, 0, s)
    store(out, 1, co)
    store(out, 2, fma(a, b, c))
    store(out, 3, fnma(a, b, c))
    store(out, 4, fms(a, b, c))
    store(out, 5, arctan2(a, b))
    store(out, 6, select_less(a, b, c, a))
    store(out, 7, sqrt(a * a))
    store(out, 8, a + b)
    store(out, 9, a - 2.0)
    store(out, 10, 3.0 * b)
    store(out, 11, 1.0 / c)
    store(out, 12, -a)
    store(out, 13, select_less(a, 0.0, 1.0, b))
    store(out, 14, splat(x, 0.25))
    b += a
    b *= 2.0
    store(out, 15, b)


@kernel
def turn_lanes(x, out):
    """Lane k to lane k + 1, the last to the first."""
    a = load(x, 0)
    y = a
    for k in range(LANES):
        y = with_lane(y, (k + 1) % LANES, lane(a, k))
    store(out, 0, y)


@kernel
def round_trip(source, first, ws, target):
    gather(source, first, ws)
    scatter(ws, first, target)


@kernel
def scatter_block(ws, first, rows, stride, column, target):
    scatter_blocks(ws, first, rows, stride, column, target)


def in_lanes(x):
    """every_operation on x (3, n), LANES numbers at a time: (OUTPUTS, n); n a multiple of LANES."""
    ws, out, results = aligned_zeros(3, LANES), aligned_zeros(OUTPUTS, LANES), []
    for part in np.split(x, x.shape[1] // LANES, axis=1):
        ws[:] = part
        every_operation(ws, out)
        results.append(out.copy())
    return np.hstack(results)


def in_floats(x):
    results = []
    for point in np.ascontiguousarray(x.T):
        out = np.zeros(OUTPUTS)
        every_operation(point, out)
        results.append(out)
    return np.array(results).T


# ------------------------------------------------------------------------------------------------ functions
@pytest.mark.parametrize("reach", [1e-8, 1.0, 10.0, 1e3, 1e6])
def test_sines_and_cosines(reach, rng):
    """Two units in the last place, relative to the value itself."""
    a = rng.uniform(-reach, reach, 250 * LANES)
    out = in_lanes(np.array([a, a, a]))
    wide = a.astype(np.longdouble)
    for value, exact in ((out[0], np.sin(wide)), (out[1], np.cos(wide))):
        error = np.abs(value - exact).astype(float)
        assert (error <= 2 * np.spacing(np.abs(exact).astype(float))).all()


def test_sines_near_their_zeros(rng):
    """The floats next to multiples of pi/2: the reduction must not lose digits there."""
    n = rng.integers(-600_000, 600_000, 100 * LANES)
    a = n * (np.pi / 2)
    s, c = in_lanes(np.array([a, a, a]))[:2]
    wide = a.astype(np.longdouble)
    small, exact = np.where(n % 2 == 0, s, c), np.where(n % 2 == 0, np.sin(wide), np.cos(wide))
    assert np.abs(small).max() < 1e-9 and np.abs(small - exact).max() < 1e-24
    assert (np.abs(s**2 + c**2 - 1.0) <= 2 * EPS).all()


def test_huge_and_non_finite_angles_stay_in_their_lane():
    a = np.zeros(LANES)
    a[:3] = 1e12, np.nan, np.inf
    s, c = in_lanes(np.array([a, a, a + 1.0]))[:2]
    assert abs(s[0]) <= 1.01 and abs(c[0]) <= 1.01
    assert np.isnan(s[1:3]).all() and np.isnan(c[1:3]).all()
    assert (s[3:] == 0.0).all() and (c[3:] == 1.0).all()


def test_fused_products_round_once(rng):
    a, b = rng.standard_normal((2, 4 * LANES))
    c = -a * b * (1.0 + EPS * rng.integers(-3, 3, 4 * LANES))  # cancels all but the last digits
    out = in_lanes(np.array([a, b, c]))
    for value, sign_product, sign_c in ((out[2], 1, 1), (out[3], -1, 1), (out[4], 1, -1)):
        terms = zip(map(Fraction, a), map(Fraction, b), map(Fraction, c), strict=True)
        assert np.array_equal(value, [float(sign_product * x * y + sign_c * z) for x, y, z in terms])
    assert (out[2] != a * b + c).any(), "two roundings would show"


def test_arctangent_and_selection(rng):
    x = rng.standard_normal((3, 8 * LANES))
    x[:2, :4] = [[0.0, 0.0, 1.0, -1.0], [1.0, -1.0, 0.0, 0.0]]
    x[1, 4] = x[0, 4]
    x[0, 5] = np.nan
    a, b, c = x
    out = in_lanes(x)
    angles = [math.atan2(p, q) for p, q in zip(a, b, strict=True)]
    assert np.array_equal(out[5], angles, equal_nan=True)
    assert np.array_equal(out[6], np.where(a < b, c, a), equal_nan=True)
    assert np.array_equal(out[13], np.where(a < 0.0, 1.0, b))


def test_arithmetic_equals_numpy(rng):
    x = rng.standard_normal((3, 4 * LANES))
    a, b, c = x
    out = in_lanes(x)
    expected = [np.sqrt(a * a), a + b, a - 2.0, 3.0 * b, 1.0 / c, -a]
    assert np.array_equal(out[7:13], expected)
    assert (out[14] == 0.25).all() and np.array_equal(out[15], 2.0 * (b + a))


def test_floats_equal_lanes(rng):
    x = 10.0 * rng.standard_normal((3, 16 * LANES))
    assert np.array_equal(in_lanes(x), in_floats(x))


def test_lanes_are_told_apart():
    x, out = aligned_zeros(1, LANES), aligned_zeros(1, LANES)
    x[0] = np.arange(LANES)
    turn_lanes(x, out)
    assert np.array_equal(out[0], np.roll(x[0], 1))


@pytest.mark.parametrize("name", ["ur5", "joint_zoo"])
def test_a_kernel_in_floats_and_in_lanes(name, rng):
    model, _ = load_reference(name)
    points = random_states(model, LANES, rng)
    nb, n = model.nb, model.nv

    def run(q, v, a, new):
        tau = new(n)
        inverse_dynamics_kernel(model.arrays, q, v, a, None, new(nb * BODY), new(n * DOF), tau)
        return tau

    lanes = []
    for x in points:
        ws = aligned_zeros(x.shape[1], LANES)
        ws[:] = x.T
        lanes.append(ws)
    tau = run(*lanes, lambda size: aligned_zeros(size, LANES))
    for k in range(LANES):
        assert relative_error(tau[:, k], run(*(x[k].copy() for x in points), np.zeros)) <= 4 * EPS


# ------------------------------------------------------------------------------------------------ memory
@pytest.mark.parametrize("knots", [1, 2, LANES - 1, LANES, LANES + 1, 3 * LANES + 2])
@pytest.mark.parametrize("n", [1, 3, LANES - 1, LANES, LANES + 1, 2 * LANES + 5])
def test_gather_and_scatter(knots, n, rng):
    source, target = rng.standard_normal((knots, n)), np.full((knots + 1, n), np.nan)
    ws = aligned_zeros(n, LANES)
    for chunk in range(chunk_count(knots)):
        first = chunk * LANES
        round_trip(source, first, ws, target[:knots])
        rows = np.minimum(first + np.arange(LANES), knots - 1)  # the last knot fills the idle lanes
        assert np.array_equal(ws.T, source[rows])
    assert np.array_equal(target[:knots], source) and np.isnan(target[knots]).all()


@pytest.mark.parametrize("knots", [2, LANES, LANES + 3])
@pytest.mark.parametrize("columns", [1, LANES, LANES + 2])
def test_blocks_of_a_workspace(knots, columns, rng):
    rows, stride, column = 3, columns + 5, 2
    ws = aligned_zeros(rows * stride, LANES)
    target = np.full((knots + 1, rows, columns), np.nan)
    for chunk in range(chunk_count(knots)):
        first = chunk * LANES
        ws[:] = rng.standard_normal(ws.shape)
        scatter_block(ws, first, rows, stride, column, target[:knots])
        there = min(LANES, knots - first)
        matrices = ws.T.reshape(LANES, rows, stride)[:there, :, column : column + columns]
        assert np.array_equal(target[first : first + there], matrices)
    assert np.isnan(target[knots]).all()


@pytest.mark.parametrize("count", [2, LANES])
@pytest.mark.parametrize("size", [1, LANES, 2 * LANES + 3])
def test_knots_are_added(count, size, rng):
    """All numbers of the first lanes, each once, and no other knot."""
    ws, target = aligned_zeros(size, LANES), rng.standard_normal((LANES + 4, size, 1))
    ws[:] = rng.standard_normal(ws.shape)
    expected = target.copy()
    expected[3 : 3 + count, :, 0] += ws.T[:count]
    add_knots(ws, 3, count, target)
    assert np.array_equal(target, expected)


@pytest.mark.parametrize("shape", [(1, LANES), (7, LANES), (2, 3, LANES)])
def test_workspaces_are_aligned(shape):
    ws = aligned_zeros(*shape)
    assert ws.shape == shape and not ws.any() and ws.ctypes.data % 64 == 0


def test_aligned_arrays_share_memory_without_overlap():
    shapes = (2, LANES), (3, 5, LANES), (1, LANES)
    arrays = aligned_arrays(*shapes)
    for i, array in enumerate(arrays):
        array[...] = i
        assert array.ctypes.data % (8 * LANES) == 0
    assert [array.shape for array in arrays] == list(shapes)
    assert all((array == i).all() for i, array in enumerate(arrays))
