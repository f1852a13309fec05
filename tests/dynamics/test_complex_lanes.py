"""Complex lanes: arithmetic and functions against numpy, and derivatives of the project's kernels by complex steps."""

from itertools import product

import numpy as np
import pytest

from dynamics.simd import LANES, aligned_zeros, fma, fms, fnma, gather_complex, kernel, load, sincos, splat, sqrt, store

EPS = np.finfo(float).eps
COMPLEX, REAL, FLOAT = "complex", "real", "float"
BINARY = [kinds for kinds in product((COMPLEX, REAL, FLOAT), repeat=2) if COMPLEX in kinds]
TERNARY = [kinds for kinds in product((COMPLEX, REAL, FLOAT), repeat=3) if COMPLEX in kinds]


# ------------------------------------------------------------------------------------------------ kernels
@kernel
def binary_operations(x, y, out):
    """The four operators, then the same in place."""
    a, b = load(x, 0), load(y, 0)
    store(out, 0, a + b)
    store(out, 1, a - b)
    store(out, 2, a * b)
    store(out, 3, a / b)
    c = a + splat(out, 0.0)
    c += b
    store(out, 4, c)
    c = a + splat(out, 0.0)
    c -= b
    store(out, 5, c)
    c = a + splat(out, 0.0)
    c *= b
    store(out, 6, c)
    c = a + splat(out, 0.0)
    c /= b
    store(out, 7, c)


@kernel
def fused_operations(x, y, z, out):
    a, b, c = load(x, 0), load(y, 0), load(z, 0)
    store(out, 0, fma(a, b, c))
    store(out, 1, fnma(a, b, c))
    store(out, 2, fms(a, b, c))


@kernel
def functions(x, out):
    a = load(x, 0)
    s, c = sincos(a)
    store(out, 0, s)
    store(out, 1, c)
    store(out, 2, sqrt(a))
    store(out, 3, 1.0 / a)
    store(out, 4, 2.0 - 3 * a)
    store(out, 5, -a)


# ------------------------------------------------------------------------------------------------ workspaces
def workspace(values, kind):
    """One number in LANES lanes (complex or real), or the first lane's as a float."""
    if kind == FLOAT:
        return values[:1].real.copy()
    ws = aligned_zeros(1, LANES) if kind == REAL else complex_zeros(1)
    ws[0] = values.real if kind == REAL else (values.real, values.imag)
    return ws


def numbers(values, kind):
    """What a workspace of that kind holds of the complex values."""
    return {COMPLEX: values, REAL: values.real, FLOAT: np.full(LANES, values[0].real)}[kind]


def complex_zeros(n):
    return aligned_zeros(n, 2, LANES)


def complex_lanes(x):
    """The workspace (n, 2, LANES) of LANES knots x (LANES, n), real or complex."""
    ws = complex_zeros(x.shape[1])
    ws[:, 0], ws[:, 1] = x.real.T, x.imag.T
    return ws


def of_lanes(ws):
    """Complex array (n, LANES)."""
    return ws[:, 0] + 1j * ws[:, 1]


def random_complex(rng, *shape):
    return rng.standard_normal(shape) + 1j * rng.standard_normal(shape)


# ------------------------------------------------------------------------------------------------ arithmetic
@pytest.mark.parametrize("kinds", BINARY)
def test_binary_operators(kinds, rng):
    x, y = random_complex(rng, 2, LANES)
    out = complex_zeros(8)
    binary_operations(workspace(x, kinds[0]), workspace(y, kinds[1]), out)
    a, b = numbers(x, kinds[0]), numbers(y, kinds[1])
    expected = [a + b, a - b, a * b, a / b]
    results = of_lanes(out)
    assert (np.abs(results[:4] - expected) <= 4 * EPS * np.abs(expected)).all()
    assert (np.abs(results[4:] - expected) <= 4 * EPS * np.abs(expected)).all()


@pytest.mark.parametrize("kinds", TERNARY)
def test_fused_products(kinds, rng):
    x, y, z = random_complex(rng, 3, LANES)
    out = complex_zeros(3)
    fused_operations(*(workspace(*pair) for pair in zip((x, y, z), kinds, strict=True)), out)
    a, b, c = (numbers(*pair) for pair in zip((x, y, z), kinds, strict=True))
    expected = [a * b + c, c - a * b, a * b - c]
    assert (np.abs(of_lanes(out) - expected) <= 4 * EPS * (np.abs(a * b) + np.abs(c))).all()


def test_real_factors_have_no_imaginary_part():
    """Infinity times a complex number is infinite in both parts: no product with a zero imaginary part is formed."""
    x, y = np.full(LANES, np.inf + 0j), np.full(LANES, 1.0 - 2.0j)
    for kind in (REAL, FLOAT):
        out, fused = complex_zeros(8), complex_zeros(3)
        binary_operations(workspace(y, COMPLEX), workspace(x, kind), out)
        fused_operations(workspace(x, kind), workspace(y, COMPLEX), workspace(y, kind), fused)
        assert (out[2, 0] == np.inf).all() and (out[2, 1] == -np.inf).all() and (out[3] == 0.0).all()
        assert (fused[0, 0] == np.inf).all() and (fused[0, 1] == -np.inf).all()


@pytest.mark.parametrize("scale", [1e-250, 1.0, 1e250])
@pytest.mark.parametrize("slope", [0.0, 1e-9, 1.0, 1e9, np.inf])
def test_quotients(scale, slope, rng):
    """Any divisor, also purely imaginary or with a square beyond the floats."""
    x, y = random_complex(rng, 2, LANES)
    y = scale * (1j * y.imag if slope == np.inf else y.real + 1j * slope * y.imag) / max(1.0, min(slope, 1e9))
    out, inverse = complex_zeros(8), complex_zeros(6)
    binary_operations(workspace(x * scale, COMPLEX), workspace(y, COMPLEX), out)
    functions(workspace(y, COMPLEX), inverse)
    assert (np.abs(of_lanes(out[3:4]) * (y / scale) - x) <= 8 * EPS * np.abs(x)).all()
    assert (np.abs(of_lanes(inverse[3:4]) * y - 1.0) <= 8 * EPS).all()


# ------------------------------------------------------------------------------------------------ functions
@pytest.mark.parametrize("height", [0.0, 1e-100, 1e-20, 1e-3, 0.1])
@pytest.mark.parametrize("reach", [1.0, 1e3])
def test_sines_and_cosines(height, reach, rng):
    x = rng.uniform(-reach, reach, LANES) + 1j * height * rng.uniform(0.5, 1.0, LANES)
    out = complex_zeros(6)
    functions(workspace(x, COMPLEX), out)
    wide = x.astype(np.clongdouble)
    for value, exact in ((out[0], np.sin(wide)), (out[1], np.cos(wide))):
        for part, expected in ((value[0], exact.real), (value[1], exact.imag)):
            assert (np.abs(part - expected) <= 4 * EPS * np.abs(expected)).all()


@pytest.mark.parametrize("height", [0.0, 1e-100, 1e-8, 1.0, 1e3])
def test_roots(height, rng):
    """The principal root, in all quadrants and on both sides of the cut."""
    x = rng.standard_normal(LANES) + 1j * height * rng.standard_normal(LANES)
    x[0] = 0.0
    out = complex_zeros(6)
    functions(workspace(x, COMPLEX), out)
    expected = np.sqrt(x)
    assert (np.abs(out[2, 0] - expected.real) <= 4 * EPS * np.abs(expected.real)).all()
    assert (np.abs(out[2, 1] - expected.imag) <= 4 * EPS * np.abs(expected.imag)).all()


@pytest.mark.parametrize("step", [1e-100, 1e-30])
def test_small_steps_differentiate_and_leave_real_parts_alone(step, rng):
    x = rng.uniform(0.1, 3.0, LANES)
    out, real_out = complex_zeros(6), aligned_zeros(6, LANES)
    functions(workspace(x + 1j * step, COMPLEX), out)
    functions(workspace(x + 0j, REAL), real_out)
    slopes = [np.cos(x), -np.sin(x), 0.5 / np.sqrt(x), -1.0 / x**2, np.full(LANES, -3.0), np.full(LANES, -1.0)]
    assert (np.abs(out[:, 0] - real_out) <= 2 * EPS * np.abs(real_out)).all()
    assert (np.abs(out[:, 1] / step - slopes) <= 8 * EPS * np.abs(slopes)).all()


@pytest.mark.parametrize("n", [1, LANES + 2])
def test_gather_fills_real_parts(n, rng):
    source, ws = rng.standard_normal((LANES + 3, n)), complex_zeros(n)
    for first in (0, LANES):
        ws[:] = np.nan
        gather_complex(source, first, ws)
        rows = np.minimum(first + np.arange(LANES), len(source) - 1)  # the last knot fills the idle lanes
        assert np.array_equal(ws[:, 0].T, source[rows]) and (ws[:, 1] == 0.0).all()
