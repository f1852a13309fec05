"""Residuals of contact forces: values by contact dynamics, derivatives by it and by differences, sums in the lanes.

Robots in motion: the project's quadruped on four feet, on two, and on a rigid foot and a point that yield, an arm held
at its tip, joints of many degrees of freedom; forces in world axes and in those of the frames.
"""

import numpy as np
import pytest

import dynamics
from dynamics import ContactForce, FrictionCone, PointContact, RigidBodySystem
from dynamics.simd import LANES
from dynamics.simd.squares import KnotSum, ResidualWeights
from problems.quadruped_model import FEET, quadruped, standing
from tests.dynamics.test_weighted_squares import blocks, figures, slopes
from tests.reference import contact_cases
from tests.reference.contact_cases import GAINS, contacts_on, world_forces
from tests.reference.random_robots import random_states
from tests.reference.robot_systems import slope
from tests.reference.tangent_differences import OFFSETS, WEIGHTS, along_state
from tests.tolerances import IDENTITY, SIXTH_ORDER_DIFFERENCES, SLOPE, relative_error

CASES = ("four feet", "two feet", "foot and point", "arm", "zoo")
MAPS = ("force", "pyramid", "cone")
MU, NORMAL = 0.6, np.array([0.3, -0.2, 1.1])
HESSIANS = 1e-8  # their differences


@pytest.fixture(params=CASES)
def case(request, rng):
    """System, states xs (3, nx) and controls us (3, nu); every other contact in the axes of its frame."""
    return make_case(request.param, rng)


def make_case(name, rng):
    legged, mixed = name not in ("arm", "zoo"), name == "foot and point"
    if legged:
        model, frames = quadruped(), FEET if name == "four feet" else FEET[::3]
        x = np.tile(np.r_[standing(), np.zeros(18)], (3, 1))
        B = "floating_base"
    else:
        model, frames = contact_cases.robot({"arm": "ur5", "zoo": "joint_zoo"}[name], rng)
        frames = frames[:2]
        B = None if name == "arm" else rng.standard_normal((model.nv, 4))
    contacts = contacts_on(model, frames, rng, GAINS, "local", (0,) if mixed else ())
    contacts[1:] = contacts_on(model, frames[1:], rng, GAINS)
    system = RigidBodySystem(model, 0.02, actuation=B, contacts=contacts, contact_damping=0.1 if mixed else 0.0)
    if legged:
        return system, system.integrate(x, 0.3 * rng.standard_normal((3, system.ndx))), rng.standard_normal((3, 12))
    xs = np.hstack(random_states(model, 3, rng, vectors=1))
    return system, xs, rng.standard_normal((3, system.nu))


def make(kind, system, frames=None):
    if kind == "force":
        return ContactForce(system, frames, [1.0, -2.0, 3.0])
    options = {"facets": 6, "inner": True} if kind == "pyramid" else {"facets": None, "smoothing": 0.5}
    return FrictionCone(system, MU, frames, NORMAL, **options)


@pytest.fixture(params=MAPS)
def residual(request, case):
    return make(request.param, case[0])


def solved(system, xs, us):
    """Arguments of contact dynamics."""
    q, v, tau = xs[:, : system.nq], xs[:, system.nq :], us @ system.actuation.B.T
    return system.model, q, v, tau, system.contacts, system.contact_damping


# ------------------------------------------------------------------------------------------------ values
def test_forces_are_those_of_contact_dynamics(case, rng):
    system, xs, us = case
    f, names = dynamics.contact_dynamics(*solved(system, xs, us)).f, [c.frame for c in system.contacts.contacts]
    everywhere = rng.standard_normal((len(names), 3))
    assert relative_error(ContactForce(system).evaluate(xs, us), f.reshape(3, -1)) <= IDENTITY
    apart = ContactForce(system, None, everywhere).evaluate(xs, us)
    assert relative_error(apart, (f - everywhere).reshape(3, -1)) <= IDENTITY
    last = ContactForce(system, names[-1], 2.0)
    assert relative_error(last.evaluate(xs, us), f[:, -1] - 2.0) <= IDENTITY and last.frames == (names[-1],)
    turned = ContactForce(system, names[::-1])
    assert relative_error(turned.evaluate(xs, us), f[:, ::-1].reshape(3, -1)) <= IDENTITY


def test_cones_take_world_forces(case):
    """Spelled out; the axes in which contacts give forces do not matter."""
    system, xs, us = case
    model, q, *_ = solved(system, xs, us)
    given = dynamics.contact_dynamics(*solved(system, xs, us)).f
    f = np.array([world_forces(model, q[t], system.contacts.contacts, given[t]) for t in range(3)])
    n = NORMAL / np.linalg.norm(NORMAL)
    t_0 = np.array([1.0, 0.0, 0.0]) - n[0] * n
    t_0 /= np.linalg.norm(t_0)
    normal, x, y = f @ n, f @ t_0, f @ np.cross(n, t_0)
    angles = 2 * np.pi * np.arange(6) / 6
    rows = [MU * np.cos(np.pi / 6) * normal - np.cos(a) * x - np.sin(a) * y for a in angles]
    expected = np.stack([*rows, normal], axis=2).reshape(3, -1)
    assert relative_error(make("pyramid", system).evaluate(xs, us), expected) <= 10 * IDENTITY
    expected = np.stack([MU * normal - np.sqrt(x**2 + y**2 + 0.25), normal], axis=2).reshape(3, -1)
    assert relative_error(make("cone", system).evaluate(xs, us), expected) <= 10 * IDENTITY


def inside(system, xs, us, **options):
    """Whether the forces of the first contact keep to its cone."""
    cone = FrictionCone(system, MU, system.contacts.contacts[0].frame, **options)
    return (cone.evaluate(xs, us) >= cone.lower).all(axis=1)


def test_pyramids_enclose_the_cone(rng):
    """Of many forces: within the inner pyramid, so in the cone, so in the outer pyramid; no two of them the same."""
    system, xs, _ = make_case("four feet", rng)
    us = 0.5 * rng.standard_normal((600, 12))
    xs = np.tile(xs, (200, 1))
    f = dynamics.contact_dynamics(*solved(system, xs, us)).f[:, 0]
    f = np.einsum("kij,kj->ki", dynamics.frame_placement(system.model, xs[:, :19], FEET[0]).R, f)
    free = np.linalg.norm(f[:, :2], axis=1) <= MU * f[:, 2]
    inner, outer = (inside(system, xs, us, inner=which) for which in (True, False))
    assert (inner <= free).all() and (free <= outer).all()
    assert 0 < inner.sum() < free.sum() < outer.sum() < len(us)
    assert np.array_equal(inside(system, xs, us, facets=None, smoothing=1e-9), free)
    finer = inside(system, xs, us, facets=64, inner=True)
    assert (inner <= finer).all() and finer.sum() > inner.sum()


def test_a_standing_robot_keeps_to_its_cones():
    """Its forces are vertical; a quarter of the weight on each foot is less than half of it."""
    model, q = quadruped(), standing()
    system = RigidBodySystem(model, 0.02, actuation="floating_base", contacts=[PointContact(model, f) for f in FEET])
    x, J = system.state(q)[None], contact_cases.jacobian(model, q, system.contacts.contacts)
    f = np.tile([0.0, 0.0, model.total_mass * 9.81 / 4], 4)
    us = (dynamics.gravity_forces(model, q) - J.T @ f)[None, 6:]
    assert relative_error(ContactForce(system).evaluate(x, us)[0], f) < 1e-9
    for facets in (4, 8, None):
        cone = FrictionCone(system, 0.1, facets=facets, min_normal_force=1.0)
        assert (cone.evaluate(x, us) > cone.lower).all() and np.isinf(cone.upper).all()
        assert sorted(set(cone.lower)) == [0.0, 1.0]
        pressed = FrictionCone(system, 0.1, facets=facets, min_normal_force=2 * f[2])
        assert (pressed.evaluate(x, us) < pressed.lower).sum() == 4


@pytest.mark.parametrize("normal", [(2.0, 0.0, 0.0), (0.0, 0.0, 3.0)])
def test_tangents_start_at_the_x_axis_or_the_y_axis(normal, rng):
    system, xs, us = make_case("four feet", rng)
    cone, foot = FrictionCone(system, 1.0, FEET[1], normal), ContactForce(system, FEET[1])
    f, n = foot.evaluate(xs, us), np.array(normal) / np.linalg.norm(normal)
    t_0 = np.array([0.0, 1.0, 0.0] if n[0] else [1.0, 0.0, 0.0])
    assert relative_error(cone.evaluate(xs, us)[:, 0], f @ n - f @ t_0) <= 1e-10


# ------------------------------------------------------------------------------------------------ derivatives
def test_jacobians_are_those_of_contact_dynamics(case):
    system, xs, us = case
    names = [c.frame for c in system.contacts.contacts]
    d = dynamics.contact_dynamics_derivatives(*solved(system, xs, us))
    r, rx, ru = ContactForce(system, names[::-1]).evaluate_with_jacobians(xs, us)
    assert np.array_equal(r, ContactForce(system, names[::-1]).evaluate(xs, us))
    expected = np.concatenate([d.df_dq, d.df_dv], axis=3)[:, ::-1].reshape(rx.shape)
    assert relative_error(rx, expected) <= IDENTITY
    assert relative_error(ru, (d.df_dtau @ system.actuation.B)[:, ::-1].reshape(ru.shape)) <= IDENTITY


def along_controls(function, u, h):
    """Derivatives of function(us (K, nu)) -> (K, ...) along every control, which becomes the last axis."""
    steps = u + h * np.einsum("s,ij->sij", OFFSETS, np.eye(len(u))).reshape(-1, len(u))
    values = function(steps)
    values = values.reshape(len(OFFSETS), len(u), *values.shape[1:])
    return np.moveaxis(np.tensordot(WEIGHTS, values, 1) / h, 0, -1)


def test_jacobians_are_the_differences(case, residual):
    system, xs, us = case
    rx, ru = residual.jacobians(xs, us)
    of_x = along_state(system.model, lambda x: residual.evaluate(x, np.tile(us[1], (len(x), 1))), xs[1], 1e-3)
    of_u = along_controls(lambda u: residual.evaluate(np.tile(xs[1], (len(u), 1)), u), us[1], 1e-2)
    assert relative_error(rx[1], of_x) <= SIXTH_ORDER_DIFFERENCES
    assert relative_error(ru[1], of_u) <= SIXTH_ORDER_DIFFERENCES


def test_hessians_are_differences_of_jacobians(case, residual, rng):
    system, xs, us = case
    mu = rng.standard_normal((3, residual.nr))
    Hxx, Hux, Huu = (H[1] for H in residual.hessian_products(xs, us, mu))

    def gradient(x, u):
        return np.hstack([np.einsum("i,kij->kj", mu[1], J) for J in residual.jacobians(x, u)])

    of_x = along_state(system.model, lambda x: gradient(x, np.tile(us[1], (len(x), 1))), xs[1], 1e-3)
    of_u = along_controls(lambda u: gradient(np.tile(xs[1], (len(u), 1)), u), us[1], 1e-2)
    n, ndx = system.nv, system.ndx
    of_x[:n, :n] = 0.5 * (of_x[:n, :n] + of_x[:n, :n].T)
    assert relative_error(Hxx, of_x[:ndx]) <= HESSIANS
    assert relative_error(Hux, of_x[ndx:], floor=1e-3) <= HESSIANS
    assert relative_error(Hux, of_u[:ndx].T, floor=1e-3) <= HESSIANS
    assert relative_error(Huu, of_u[ndx:], floor=1e-3 * np.abs(Hxx).max()) <= HESSIANS
    assert np.array_equal(Hxx, Hxx.T) and np.array_equal(Huu, Huu.T)
    if residual.name == "contact forces":
        assert not Huu.any()


def test_the_quadratic_model_is_exact_to_third_order(case, residual, rng):
    system, xs, us = case
    mu, x, u = rng.standard_normal((1, residual.nr)), xs[1:2], us[1:2]
    r, rx, ru = residual.evaluate_with_jacobians(x, u)
    Hxx, Hux, Huu = (H[0] for H in residual.hessian_products(x, u, mu))
    dx, du = rng.standard_normal((8, system.ndx)), rng.standard_normal((8, system.nu))
    steps, errors = 2e-2 * 0.5 ** np.arange(5), []
    quadratic = np.einsum("ki,ij,kj->k", dx, Hxx, dx) + np.einsum("ki,ij,kj->k", du, Huu, du)
    quadratic += 2.0 * np.einsum("ki,ij,kj->k", du, Hux, dx)
    linear = (dx @ rx[0].T + du @ ru[0].T) @ mu[0]
    for h in steps:
        moved = residual.evaluate(system.integrate(np.tile(x, (8, 1)), h * dx), u + h * du)
        errors.append((moved - r) @ mu[0] - h * linear - 0.5 * h**2 * quadratic)
    assert slope(steps, np.array(errors)) == pytest.approx(3.0, abs=SLOPE)


# ------------------------------------------------------------------------------------------------ sums in the lanes
def expected_squares(residual, xs, us, given, start, stop):
    """Value, Gauss-Newton blocks and what these leave out, from the methods of the residual."""
    shape = len(us), residual.ndx, us.shape[1]
    target, curvature = blocks(*shape), blocks(*shape)
    at = slice(start, stop)
    r, rx, ru = residual.evaluate_with_jacobians(xs[at], us[at])
    g, stiffness, value = slopes(r, given)
    for block, hessian in zip(target[:2], (rx, ru), strict=True):
        block[at] = np.einsum("ki,kij->kj", g, hessian)
    for block, (left, right) in zip(target[2:], ((rx, rx), (ru, rx), (ru, ru)), strict=True):
        block[at] = np.einsum("ki,kia,kib->kab", np.broadcast_to(stiffness, g.shape), left, right)
    for block, hessian in zip(curvature[2:], residual.hessian_products(xs[at], us[at], g), strict=True):
        block[at] = hessian
    return value, target, curvature


def assert_squares(residual, xs, us, given, start, stop):
    value, target, curvature = expected_squares(residual, xs, us, given, start, stop)
    shape = len(us), residual.ndx, us.shape[1]
    got, left, together, alone = (blocks(*shape) for _ in range(4))
    pairs = (None, None), (got, None), (None, alone), (None, left), (together, together)
    sums = [residual.add_expansion(KnotSum((start, stop), xs, us, given, *pair)) for pair in pairs]
    np.testing.assert_allclose(sums, value, rtol=1e-12)
    for a, b in zip([*got, *alone], [*target, *curvature], strict=True):
        assert np.abs(a - b).max(initial=0.0) <= 1e-11 * (1e-3 + np.abs(b).max(initial=0.0))
    for a, b, c in zip(together, target, curvature, strict=True):
        size = 1e-3 + np.abs(b).max(initial=0.0) + np.abs(c).max(initial=0.0)
        assert np.abs(a - b - c).max(initial=0.0) <= 1e-11 * size
    residual.add_expansion(KnotSum((start, stop), xs, us, given, got, left))  # on top of what is there
    for a, b in zip([*got, *left], [*target, *curvature], strict=True):
        assert np.abs(a - 2 * b).max(initial=0.0) <= 1e-11 * (1e-3 + np.abs(b).max(initial=0.0))


@pytest.mark.parametrize("limited", [False, True])
def test_squares_are_those_of_the_residual(case, residual, limited, rng):
    system, points, controls = case
    N = LANES + 2
    xs, us = points[np.arange(N + 1) % 3], controls[np.arange(N) % 3] + 0.1 * rng.standard_normal((N, system.nu))
    assert residual.sums_squares
    assert_squares(residual, xs, us, figures(rng, N, residual.nr, limited), 0, N)
    assert_squares(residual, xs, us, figures(rng, 1, residual.nr, limited), 3, N - 1)


def test_squares_of_some_contacts(rng):
    """Feet in another order, of which some knots have no slope, and all lanes of one foot none."""
    system, points, controls = make_case("four feet", rng)
    N = 2 * LANES
    xs, us = points[np.arange(N + 1) % 3], controls[np.arange(N) % 3]
    for kind in MAPS:
        residual = make(kind, system, [FEET[2], FEET[0], FEET[3]])
        given, per_foot = figures(rng, N, residual.nr, False), residual.nr // 3
        given.rows[:, per_foot : 2 * per_foot] = 0.0
        given.rows[LANES + 1 :] = 0.0
        assert_squares(residual, xs, us, given, 0, N)
        given.rows[:] = 0.0
        got = blocks(N, residual.ndx, 12)
        assert residual.add_expansion(KnotSum((0, N), xs, us, given, got, got)) == 0.0
        assert not any(block.any() for block in got)


# ------------------------------------------------------------------------------------------------ what it does not take
def test_errors(rng):
    system, xs, us = make_case("two feet", rng)
    free = RigidBodySystem(system.model, 0.02, actuation="floating_base")
    with pytest.raises(ValueError, match="system: has no contacts, expected a RigidBodySystem with at least one"):
        ContactForce(free)
    with pytest.raises(TypeError, match="system: got RigidBodyModel, expected a RigidBodySystem with contacts"):
        FrictionCone(system.model, 0.5)
    for frames, match in (
        ("rf_foot", f"frames: 'rf_foot' is not in contact, expected frames among {FEET[0]}, {FEET[3]}"),
        ("lf_fot", "lf_foot"),
        ([FEET[0], FEET[0]], f"frames: got '{FEET[0]}' twice"),
        ([], "frames: got none"),
    ):
        with pytest.raises(ValueError, match=match):
            ContactForce(system, frames)
    with pytest.raises(ValueError, match=r"target: got shape \(4,\), expected a number, \(3,\) or \(2, 3\)"):
        ContactForce(system, target=np.zeros(4))
    with pytest.raises(ValueError, match="inner: got True with facets=None"):
        FrictionCone(system, 0.5, facets=None, inner=True)
    residual = ContactForce(system)
    with pytest.raises(ValueError, match=r"us: got None, expected \(3, 12\): contact forces depend on the controls"):
        residual.evaluate(xs)
    with pytest.raises(ValueError, match="us: got 2 rows, expected 3"):
        residual.add_expansion(KnotSum((0, 3), xs, us[:2], ResidualWeights(np.ones((1, 6))), None, None))


def test_a_class_derived_from_a_residual_is_not_summed_behind_its_back(rng):
    system, _, _ = make_case("two feet", rng)
    assert not type("Doubled", (FrictionCone,), {})(system, 0.5).sums_squares
