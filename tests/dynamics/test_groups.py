"""SO(3), SE(3), SE(2): maps and forms against matrix exponentials, exact rational series, and their identities."""

from fractions import Fraction
from itertools import pairwise
from math import factorial
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.linalg import expm
from scipy.spatial.transform import Rotation

from dynamics.spatial import se2, se3, so3
from dynamics.spatial.so3 import half_sinc, stumpff, stumpff_derivatives

J2 = np.array([[0.0, -1.0], [1.0, 0.0]])


def skew(x):
    zero = 0 * x[0]
    return np.array([[zero, -x[2], x[1]], [x[2], zero, -x[0]], [-x[1], x[0], zero]])


def symmetric(G):
    return np.array([[G[0], G[1], G[2]], [G[1], G[3], G[4]], [G[2], G[4], G[5]]])


def block(X, Y):
    X, Y = np.reshape(X, (3, 3)), np.reshape(Y, (3, 3))
    return np.block([[X, Y], [np.zeros((3, 3)), X]])


def form(P0, P1):
    return np.block([[np.zeros((3, 3)), P0], [P0, P1]])


def ad_se3(x):
    w = skew(x[3:])
    return np.block([[w, skew(x[:3])], [0 * w, w]])


def ad_se2(x):
    zero = 0 * x[0]
    return np.array([[zero, -x[2], x[1]], [x[2], zero, -x[0]], [zero, zero, zero]])


def square(theta):
    return stumpff(float(theta))


def matrix_of(function):
    return lambda x: np.reshape(function(tuple(x), square(x @ x)), (3, 3))


def pair_of(function):
    return lambda x: block(*function(tuple(x), square(x[3:] @ x[3:])))


def planar_of(function):
    return lambda x: np.reshape(se2.full(function(tuple(x), square(x[2] ** 2))), (3, 3))


GROUPS = {
    "so3": SimpleNamespace(
        dim=3, angles=slice(0, 3), ad=skew, A=matrix_of(so3.adjoint), Jr=matrix_of(so3.jacobian),
        Ji=matrix_of(so3.jacobian_inverse), bracket=so3.bracket, coadjoint=so3.coadjoint,
        gamma=lambda x, k: symmetric(so3.gamma(tuple(x), tuple(k), square(x @ x))),
    ),
    "se3": SimpleNamespace(
        dim=6, angles=slice(3, 6), ad=ad_se3, A=pair_of(se3.adjoint), Jr=pair_of(se3.jacobian),
        Ji=pair_of(se3.jacobian_inverse), bracket=se3.bracket, coadjoint=se3.coadjoint,
        gamma=lambda x, k: form(*map(symmetric, se3.gamma(tuple(x), tuple(k), square(x[3:] @ x[3:])))),
    ),
    "se2": SimpleNamespace(
        dim=3, angles=slice(2, 3), ad=ad_se2, A=planar_of(se2.adjoint), Jr=planar_of(se2.jacobian),
        Ji=planar_of(se2.jacobian_inverse), bracket=se2.bracket, coadjoint=se2.coadjoint,
        gamma=lambda x, k: symmetric(se2.gamma(tuple(x), tuple(k), square(x[2] ** 2))),
    ),
}  # fmt: skip


@pytest.fixture(params=GROUPS)
def group(request):
    return GROUPS[request.param]


def random_tangent(group, angle, rng):
    """Random tangent whose rotation is exactly this long (to rounding)."""
    x = rng.standard_normal(group.dim)
    x[group.angles] *= angle / np.linalg.norm(x[group.angles])
    return x


def right_jacobian(ad):
    """Jr = integral of exp(-s ad) over s in [0, 1], as a block of a matrix exponential."""
    n = len(ad)
    block = np.zeros((2 * n, 2 * n), ad.dtype)
    block[:n, :n], block[:n, n:] = -ad, np.eye(n)
    return expm(block)[:n, n:]


def gamma_by_complex_step(group, x, k):
    columns = [(right_jacobian(group.ad(x + 1e-30j * e)).T @ k).imag / 1e-30 for e in np.eye(group.dim)]
    D = np.column_stack(columns)
    return 0.5 * (D + D.T)


def error(a, b):
    return np.abs(np.asarray(a) - b).max() / np.abs(b).max()


ANGLES = (0.3, 1.0, 2.5, np.pi - 1e-6, 4.5, 6.0)


# ------------------------------------------------------------------------------------------------ coefficients
@pytest.mark.parametrize("theta", [0.0, 1e-9, 0.5, 2.0, np.pi, 6.2, 2 * np.pi, 9.0, 4 * np.pi])
def test_stumpff_coefficients_equal_their_exact_series(theta):
    s = Fraction(theta * theta)
    for k, c in enumerate(stumpff(theta * theta)):
        exact = sum((-s) ** i / factorial(2 * i + k) for i in range(40))
        tolerance = 4e-15 + 2e-17 * theta**4 if k < 2 else 4e-15
        assert abs(float(c - exact)) * factorial(k) < tolerance


@pytest.mark.parametrize("theta", [1e-6, 0.7, 3.0])
def test_stumpff_slopes_are_derivatives(theta):
    s = Fraction(theta * theta)

    def slope(k, i_power):  # 2^j d^j c_k / ds^j, exactly
        terms = range(i_power, 40)
        falling = (lambda i: i) if i_power == 1 else (lambda i: i * (i - 1))
        return 2**i_power * sum(falling(i) * (-1) ** i * s ** (i - i_power) / factorial(2 * i + k) for i in terms)

    exact = [float(slope(2, 1)), float(slope(3, 1)), float(slope(2, 2)), float(slope(3, 2))]
    np.testing.assert_allclose(stumpff_derivatives(stumpff(theta * theta)), exact, rtol=2e-14)


def test_half_sinc_is_the_chord_of_an_arc():
    assert half_sinc(0.0) == 1.0
    angle = np.array([1e-200, 1e-8, 0.3, -2.0, 6.0, 50.0])
    np.testing.assert_allclose([half_sinc(a) for a in angle], np.sinc(angle / (2 * np.pi)), rtol=1e-14)


# ------------------------------------------------------------------------------------------------ maps and forms
@pytest.mark.processor
@pytest.mark.parametrize("angle", ANGLES)
def test_maps_equal_matrix_exponentials(group, angle):
    x = random_tangent(group, angle, np.random.default_rng(1))
    assert error(group.A(x), expm(-group.ad(x))) < 3e-14
    assert error(group.Jr(x), right_jacobian(group.ad(x))) < 3e-14
    assert error(group.Ji(x) @ right_jacobian(group.ad(x)), np.eye(group.dim)) < 1e-12


@pytest.mark.parametrize("angle", ANGLES)
def test_gamma_equals_the_complex_step_of_the_jacobian(group, angle):
    rng = np.random.default_rng(2)
    for _ in range(3):
        x, k = random_tangent(group, angle, rng), rng.standard_normal(group.dim)
        assert error(group.gamma(x, k), gamma_by_complex_step(group, x, k)) < 3e-14


@pytest.mark.parametrize("angle", ANGLES)
def test_identities_of_the_maps(group, angle):
    x = random_tangent(group, angle, np.random.default_rng(3))
    A, Jr = group.A(x), group.Jr(x)
    assert error(np.linalg.solve(A, Jr), group.Jr(-x)) < 1e-13, "Ad Jr = Jl"
    assert error(Jr @ x, x) < 3e-14, "a motion along xi keeps the body velocity xi"
    assert error(group.Ji(x) @ Jr, np.eye(group.dim)) < 1e-12


def test_maurer_cartan(group):
    """d_j Jr e_k - d_k Jr e_j = -[Jr e_j, Jr e_k]"""
    rng = np.random.default_rng(4)
    x, e, f = random_tangent(group, 1.3, rng), *rng.standard_normal((2, group.dim))

    def slope(along, of):
        levels = [(group.Jr(x + h * along) - group.Jr(x - h * along)) @ of / (2 * h) for h in 0.1 * 0.5 ** np.arange(5)]
        for order in range(1, 5):
            levels = [(4**order * b - a) / (4**order - 1) for a, b in pairwise(levels)]
        return levels[0]

    curl = slope(e, f) - slope(f, e)
    assert error(curl, -np.array(group.bracket(tuple(group.Jr(x) @ e), tuple(group.Jr(x) @ f)))) < 1e-11


def test_brackets(group):
    rng = np.random.default_rng(5)
    a, b, k = rng.standard_normal((3, group.dim))
    assert error(group.bracket(tuple(a), tuple(b)), group.ad(a) @ b) < 1e-15
    C = np.column_stack([group.coadjoint(tuple(k), tuple(e)) for e in np.eye(group.dim)])
    np.testing.assert_array_equal(C, -C.T)
    assert abs(a @ C @ b - k @ group.ad(a) @ b) < 1e-14
    x = random_tangent(group, 1.0, rng)
    c = square(x[group.angles] @ x[group.angles])
    if group.dim == 6:
        J = se3.jacobian(tuple(x), c)
        product = form(*(np.reshape(F, (3, 3)) for F in se3.bracket_matrix(tuple(k), *J)))
    else:
        product_of, jacobian = (so3, so3.jacobian) if group is GROUPS["so3"] else (se2, se2.jacobian)
        product = np.reshape(product_of.bracket_matrix(tuple(k), jacobian(tuple(x), c)), (3, 3))
    assert error(product, C @ group.Jr(x)) < 1e-14


# ------------------------------------------------------------------------------------------------ small angles
def exact_series(group, x, k):
    """Jr(x) and Gam(x, k) as rational numbers: Jr = sum (-ad)^i / (i + 1)!, differentiated term by term."""
    x, k = np.array([Fraction(v) for v in x]), np.array([Fraction(v) for v in k])
    unit = np.array([[Fraction(int(i == j)) for j in range(group.dim)] for i in range(group.dim)])
    ad, steps = group.ad(x), [group.ad(e) for e in unit]
    power, slopes = unit, [0 * unit for _ in unit]
    J, D = unit, 0 * unit
    for i in range(1, 9):
        slopes = [slope.dot(ad) + power.dot(step) for slope, step in zip(slopes, steps, strict=True)]
        power = power.dot(ad)
        weight = Fraction((-1) ** i, factorial(i + 1))
        J = J + weight * power
        D = D + weight * np.column_stack([slope.T.dot(k) for slope in slopes])
    return J.astype(float), ((D + D.T) / 2).astype(float)


@pytest.mark.parametrize("angle", [1e-3, 1e-5, 1e-8, 1e-12])
def test_every_block_keeps_its_digits_at_small_angles(group, angle):
    """Relative to the size of the block itself: the linear-angular block of Gam has the size of the angle."""
    rng = np.random.default_rng(6)
    x, k = random_tangent(group, angle, rng), rng.standard_normal(group.dim)
    J, G = exact_series(group, x, k)
    cuts = {"so3": [slice(0, 3)], "se3": [slice(0, 3), slice(3, 6)], "se2": [slice(0, 2), slice(2, 3)]}
    name = next(name for name, value in GROUPS.items() if value is group)
    for rows in cuts[name]:
        for columns in cuts[name]:
            for value, exact in ((group.Jr(x), J), (group.gamma(x, k), G)):
                assert np.abs(value - exact)[rows, columns].max() <= 4e-15 * np.abs(exact[rows, columns]).max()


# ------------------------------------------------------------------------------------------------ exp and log
@pytest.mark.parametrize("angle", [0.0, 1e-300, 1e-12, 1e-4, 1.0, 3.0, np.pi, 6.0, 40.0])
def test_rotation_exponential_agrees_with_scipy(angle):
    phi = angle * np.array([2.0, -1.0, 2.0]) / 3.0
    quaternion = np.array(so3.exp(tuple(phi)))
    assert abs(quaternion @ quaternion - 1.0) < 1e-15
    oracle = Rotation.from_rotvec(phi)
    assert np.abs(np.reshape(so3.matrix(tuple(quaternion)), (3, 3)) - oracle.as_matrix()).max() < 2e-14
    v = np.array([0.3, -0.7, 1.1])
    np.testing.assert_allclose(so3.act(tuple(quaternion), tuple(v)), oracle.apply(v), rtol=0, atol=2e-14)


@pytest.mark.parametrize("angle", [0.0, 1e-300, 1e-160, 1e-12, 1e-4, 1.0, 3.0, np.pi - 1e-9, np.pi - 1e-15])
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_rotation_logarithm_undoes_the_exponential(angle, sign):
    phi = angle * np.array([2.0, -1.0, 2.0]) / 3.0
    quaternion = tuple(sign * x for x in so3.exp(tuple(phi)))
    np.testing.assert_allclose(so3.log(quaternion), phi, rtol=1e-15, atol=1e-315)


def test_quaternion_product_is_composition():
    a, b = Rotation.from_quat(np.random.default_rng(7).standard_normal((2, 4)))
    product = np.array(so3.product(tuple(a.as_quat()), tuple(b.as_quat())))
    expected = (a * b).as_quat()
    assert min(np.abs(product - expected).max(), np.abs(product + expected).max()) < 1e-15
    assert error(so3.product(so3.conjugate(tuple(a.as_quat())), tuple(a.as_quat())), np.array([0, 0, 0, 1.0])) < 1e-15
    assert error(so3.normalise(tuple(3.0 * a.as_quat())), a.as_quat()) < 1e-15


@pytest.mark.parametrize("angle", [0.0, 1e-12, 1e-3, 1.0, 3.0])
def test_pose_exponential_and_logarithm(angle):
    x = np.r_[0.4, -1.2, 0.7, angle * np.array([2.0, -1.0, 2.0]) / 3.0]
    p, quaternion = se3.exp(tuple(x))
    twist = np.zeros((4, 4))
    twist[:3, :3], twist[:3, 3] = skew(x[3:]), x[:3]
    pose = expm(twist)
    assert np.abs(np.reshape(so3.matrix(quaternion), (3, 3)) - pose[:3, :3]).max() < 3e-15
    assert np.abs(p - pose[:3, 3]).max() < 3e-15
    assert np.abs(se3.log(p, quaternion) - x).max() < 5e-15
    back = se3.integrate(p, quaternion, tuple(-x))
    assert np.abs(back[0]).max() < 3e-15 and np.abs(np.array(back[1]) - (0, 0, 0, 1)).max() < 3e-15


@pytest.mark.parametrize("angle", [0.0, 1e-12, 1.0, -3.0, 6.2, 30.0])
def test_planar_exponential_and_logarithm(angle):
    x, q = np.array([0.4, -1.2, angle]), np.array([0.3, 0.8, -2.0])
    moved = np.array(se2.integrate(tuple(q), tuple(x)))
    twist = np.zeros((3, 3))
    twist[:2, :2], twist[:2, 2] = angle * J2, x[:2]
    rotation = expm(q[2] * J2)
    np.testing.assert_allclose(moved[:2], q[:2] + rotation @ expm(twist)[:2, 2], rtol=0, atol=1e-13)
    assert moved[2] == q[2] + angle, "the heading is a number, not a direction"
    np.testing.assert_allclose(se2.difference(tuple(q), tuple(moved)), x, rtol=0, atol=2e-14)
