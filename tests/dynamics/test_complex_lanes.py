"""Complex lanes: arithmetic and functions against numpy, and derivatives of the project's kernels by complex steps."""

from itertools import product
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.linalg import block_diag
from scipy.spatial.transform import Rotation

from dynamics.algorithms.articulated_body import ARTICULATED, ELIMINATION, forward_dynamics_kernel
from dynamics.algorithms.inverse_dynamics import inverse_dynamics, torques_of_forces
from dynamics.algorithms.kinematics import BODY, DOF, FORCES, forward_pass
from dynamics.derivatives.forward_dynamics import forward_dynamics_derivatives
from dynamics.derivatives.inverse_dynamics import inverse_dynamics_derivatives, inverse_dynamics_first_order
from dynamics.derivatives.second_order import inverse_dynamics_second_derivatives
from dynamics.joints import FREE_FLYER, PLANAR, SPHERICAL
from dynamics.kernel_model import kernel_model
from dynamics.simd import (
    LANES,
    aligned_zeros,
    carve,
    driver,
    fma,
    fms,
    fnma,
    gather,
    gather_complex,
    kernel,
    launch,
    load,
    sincos,
    splat,
    sqrt,
    store,
)
from tests.reference.random_robots import random_states, random_tree
from tests.reference.rigid_body_models import load_reference
from tests.tolerances import COMPLEX_STEP, IDENTITY, relative_error

EPS = np.finfo(float).eps
STEP = 1e-30
COMPLEX, REAL, FLOAT = "complex", "real", "float"
BINARY = [kinds for kinds in product((COMPLEX, REAL, FLOAT), repeat=2) if COMPLEX in kinds]
TERNARY = [kinds for kinds in product((COMPLEX, REAL, FLOAT), repeat=3) if COMPLEX in kinds]


@pytest.fixture
def rng():
    return np.random.default_rng(113)


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


@driver
def torque_rates(first, last, work, block, q, v, a, dq, dv, da, tau, rates):
    """tau and its derivative along (dq, dv, da) at every knot, by one complex step."""
    m = kernel_model(block)
    nb, n, nq = m.parent.size, m.dof_body.size, q.shape[1]
    for c in range(first, last):
        directions, numbers = carve(work, nq + 2 * n)
        body, w = carve(numbers.reshape(numbers.shape[0] // 2, 2, LANES), nb * BODY)
        dof, w = carve(w, n * DOF)
        q_, w = carve(w, nq)
        v_, w = carve(w, n)
        a_, tau_ = carve(w, n)
        for x, x_, dx, at in ((q, q_, dq, 0), (v, v_, dv, nq), (a, a_, da, nq + n)):
            gather_complex(x, c * LANES, x_)
            gather(dx, c * LANES, directions[at : at + x.shape[1]])
            for i in range(x.shape[1]):
                for l in range(LANES):
                    x_[i, 1, l] = STEP * directions[at + i, l]
        tau_[:] = 0.0
        forward_pass(m, q_, v_, a_, body, dof, FORCES)
        torques_of_forces(m, a_, body, dof, tau_)
        for l in range(min(LANES, len(q) - c * LANES)):
            for i in range(n):
                tau[c * LANES + l, i] = tau_[i, 0, l]
                rates[c * LANES + l, i] = tau_[i, 1, l] / STEP


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
    assert np.array_equal(out[:, 0], real_out)
    assert (np.abs(out[:, 1] / step - slopes) <= 8 * EPS * np.abs(slopes)).all()


@pytest.mark.parametrize("n", [1, LANES + 2])
def test_gather_fills_real_parts(n, rng):
    source, ws = rng.standard_normal((LANES + 3, n)), complex_zeros(n)
    for first in (0, LANES):
        ws[:] = np.nan
        gather_complex(source, first, ws)
        rows = np.minimum(first + np.arange(LANES), len(source) - 1)  # the last knot fills the idle lanes
        assert np.array_equal(ws[:, 0].T, source[rows]) and (ws[:, 1] == 0.0).all()


# ------------------------------------------------------------------------------------------------ kernels by steps
def chain_of(kinds, parents, seed):
    return random_tree(kinds, parents, np.random.default_rng(seed))


MODELS = {
    "revolute chain": lambda: chain_of(["revolute"] * 6, [-1, 0, 1, 2, 3, 4], 1),
    "branched": lambda: chain_of(["revolute", "prismatic", "continuous", "prismatic", "revolute"], [-1, 0, 1, 0, 3], 2),
    "all joints": lambda: load_reference("joint_zoo")[0],
    "hyq": lambda: load_reference("hyq")[0],
}


@pytest.fixture(scope="module", params=MODELS)
def model(request):
    return MODELS[request.param]()


def quaternion_rate(q):
    """(4, 3): derivative of q exp(dq) by dq at 0, quaternion x y z w."""
    x, y, z, w = q
    return 0.5 * np.array([[w, -z, y], [z, w, -x], [-y, x, w], [-x, -y, -z]])


def coordinate_rates(model, q):
    """(nq, nv): derivative of integrate(q, dq) by dq at 0.  Kernels are polynomials in quaternions, so that a step
    along these columns is a step along the tangent whether or not its end has unit length."""
    blocks = []
    for joint, k in zip(model.joints, model.q_index, strict=True):
        if joint.code == SPHERICAL:
            blocks.append(quaternion_rate(q[k : k + 4]))
        elif joint.code == FREE_FLYER:
            R = Rotation.from_quat(q[k + 3 : k + 7]).as_matrix()
            blocks.append(block_diag(R, quaternion_rate(q[k + 3 : k + 7])))
        elif joint.code == PLANAR:
            s, c = np.sin(q[k + 2]), np.cos(q[k + 2])
            blocks.append(np.array([[c, -s, 0.0], [s, c, 0.0], [0.0, 0.0, 1.0]]))
        else:
            blocks.append(np.eye(joint.nv))
    return block_diag(*blocks)


def all_coordinate_rates(model, q):
    """(K, nq, nv)"""
    return np.array([coordinate_rates(model, point) for point in q])


def steps_along_state(model, q, v):
    """Complex workspaces of q and v stepped along every tangent direction of q, then of v: pairs of iterables."""
    rates, n = all_coordinate_rates(model, q), model.nv
    along_q = [(complex_lanes(q + 1j * STEP * rates[:, :, k]), complex_lanes(v)) for k in range(n)]
    along_v = [(complex_lanes(q), complex_lanes(v + 1j * STEP * np.eye(n)[k])) for k in range(n)]
    return along_q, along_v


def test_inverse_dynamics_by_a_driver(model, rng):
    """One directional derivative per call, at more knots than lanes."""
    K, n = 2 * LANES + 3, model.nv
    q, v, a, dv, da = random_states(model, K, rng, vectors=4)
    rates = all_coordinate_rates(model, q)
    expected = inverse_dynamics_derivatives(model, q, v, a)
    size = model.nq + 2 * n + 2 * (model.nb * BODY + n * DOF + model.nq + 3 * n)
    tau, along = np.empty((2, K, n))
    for k in range(n):
        dq = np.ascontiguousarray(rates[:, :, k])
        launch(torque_rates, K, size, model.block, q, v, a, dq, 0 * dv, 0 * da, tau, along)
        assert relative_error(along, expected.dtau_dq[:, :, k], np.abs(expected.dtau_dq).max()) <= IDENTITY
    launch(torque_rates, K, size, model.block, q, v, a, 0 * q, dv, da, tau, along)
    together = np.einsum("tij,tj->ti", expected.dtau_dv, dv) + np.einsum("tij,tj->ti", expected.M, da)
    assert relative_error(along, together) <= IDENTITY
    assert relative_error(tau, inverse_dynamics(model, q, v, a)) <= IDENTITY


def test_first_order_derivatives_to_second_order(model, rng):
    n, nb = model.nv, model.nb
    q, v, a = random_states(model, LANES, rng)
    T = inverse_dynamics_second_derivatives(model, q, v, a)
    w = SimpleNamespace(body=nb * BODY, dof=n * DOF, tau=n, dq=n * n, dv=n * n, M=n * n)
    w = SimpleNamespace(**{name: complex_zeros(size) for name, size in vars(w).items()})

    def slopes(q_, v_):
        a_ = complex_lanes(a)
        inverse_dynamics_first_order(model.arrays, q_, v_, a_, None, w.body, w.dof, w.tau, w.dq, w.dv, w.M)
        return [x[:, 1].T.reshape(LANES, n, n) / STEP for x in (w.dq, w.dv, w.M)]

    along_q, along_v = ([np.array(slopes(*point)) for point in points] for points in steps_along_state(model, q, v))
    by_q, by_v = np.stack(along_q, axis=-1), np.stack(along_v, axis=-1)
    values = by_q[0], by_v[0], by_v[1], by_q[2]
    for value, expected in zip(values, T, strict=True):
        assert relative_error(value, expected) <= COMPLEX_STEP
    assert relative_error(by_q[1], np.swapaxes(T.d2tau_dqdv, 2, 3)) <= COMPLEX_STEP
    assert not by_v[2].any(), "M does not depend on v"


def test_forward_dynamics(model, rng):
    n, nb = model.nv, model.nb
    q, v, tau = random_states(model, LANES, rng)
    expected = forward_dynamics_derivatives(model, q, v, tau)
    scratch = [complex_zeros(size) for size in (nb * BODY, n * DOF, nb * ARTICULATED, n * ELIMINATION, n)]

    def slopes(q_, v_, dtau=0.0):
        tau_ = complex_lanes(tau + 1j * STEP * dtau)
        forward_dynamics_kernel(model.arrays, q_, v_, tau_, complex_zeros(n), None, *scratch)
        return scratch[-1][:, 1].T / STEP

    along_q, along_v = (np.stack([slopes(*point) for point in points], -1) for points in steps_along_state(model, q, v))
    along_tau = [slopes(complex_lanes(q), complex_lanes(v), unit) for unit in np.eye(n)]
    for value, derivative in zip((along_q, along_v, np.stack(along_tau, -1)), expected, strict=True):
        assert relative_error(value, derivative) <= COMPLEX_STEP
