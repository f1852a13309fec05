"""Wrench cones against linear programs over forces at the corners of soles, zero-moment points against the momentum
balance of the robot; the derivatives of both as those of other residuals of contact forces."""

import numpy as np
import pytest
from scipy.optimize import linprog

import dynamics
from dynamics import (
    CenterOfPressure,
    FrictionCone,
    ModelBuilder,
    PointContact,
    RigidBodySystem,
    RigidContact,
    SupportPolygon,
    WrenchCone,
    ZeroMomentPoint,
)
from problems.quadruped_model import FEET, quadruped, standing
from tests.dynamics.test_contact_residuals import (
    make_case,
    solved,
    test_hessians_are_differences_of_jacobians,
    test_jacobians_are_the_differences,
    test_squares_are_those_of_the_residual,
    test_the_quadratic_model_is_exact_to_third_order,
)
from tests.reference.contact_cases import GAINS, contacts_on, world_forces
from tests.tolerances import IDENTITY, relative_error

OF_CONTACT_FORCES = (
    test_hessians_are_differences_of_jacobians, test_jacobians_are_the_differences,
    test_squares_are_those_of_the_residual, test_the_quadratic_model_is_exact_to_third_order,
)  # fmt: skip
MU, SOLE, CENTER = 0.6, (0.1, 0.06), (0.02, -0.01, -0.1)
SQUARE = np.array([[0.0, 0.0], [0.3, 0.1], [0.1, 0.1], [0.1, 0.4], [-0.2, 0.2]])


KINDS = ("cone", "pressure", "point", "polygon")


@pytest.fixture(params=["foot and point", "two feet"])
def case(request, rng):
    """The quadruped on one rigid foot or two, which yield: three joints do not suffice for six rows."""
    return make_case(request.param, rng) if request.param == "foot and point" else on_two_feet(rng)


def on_two_feet(rng):
    """As `make_case`."""
    model = quadruped()
    contacts = contacts_on(model, FEET[::3], rng, GAINS, "local", (0, 1))
    contacts[0] = contacts_on(model, FEET[:1], rng, GAINS, rigid=(0,))[0]
    system = RigidBodySystem(model, 0.02, actuation="floating_base", contacts=contacts, contact_damping=0.1)
    xs = system.integrate(np.tile(system.state(standing()), (3, 1)), 0.3 * rng.standard_normal((3, system.ndx)))
    return system, xs, rng.standard_normal((3, 12))


@pytest.fixture(params=KINDS)
def residual(request, case):
    return make(request.param, case[0])


def make(kind, system):
    if kind == "cone":
        return WrenchCone(system, MU, SOLE, center=CENTER, inner=True, max_normal_force=5.0)
    if kind == "pressure":
        return CenterOfPressure(system, SOLE, center=CENTER)
    return ZeroMomentPoint(system, [0.1, -0.2], 0.05) if kind == "point" else SupportPolygon(system, SQUARE, -0.1)


def block(axes="local"):
    """A body that floats, driven in all its freedoms, on a sole that is turned against it: any wrench can be had."""
    builder = ModelBuilder()
    builder.add_body("block", "world", dynamics.FreeFlyer(), mass=2.0, inertia=np.eye(3))
    turn = np.array([[0.0, 0.0, 1.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
    builder.add_frame("sole", "block", (turn, (0.1, 0.2, -0.3)))
    model = builder.build()
    return RigidBodySystem(model, 0.01, contacts=[RigidContact(model, "sole", axes=axes)])


def wrenches(system, count, rng):
    """States, controls and the wrenches about the middle of the sole, (count, 6), its axes; about a third within the
    cone."""
    sizes = np.array([0.4 * MU, 0.4 * MU, 0.5, 0.5 * SOLE[1], 0.5 * SOLE[0], 0.3 * MU * sum(SOLE)])
    w = rng.standard_normal((count, 6)) * sizes + [0.0, 0.0, 1.0, 0.0, 0.0, 0.0]
    f, m = w[:, :3], w[:, 3:] + np.cross(CENTER, w[:, :3])
    q = dynamics.random_configuration(system.model, rng)
    J = dynamics.frame_jacobian(system.model, q, "sole", reference="local")
    us = dynamics.gravity_forces(system.model, q) - np.hstack([f, m]) @ J
    return np.tile(system.state(q), (count, 1)), us, w


def corners_carry(w, mu):
    """Whether forces within pyramids at the corners of the sole add up to the wrench."""
    X, Y = SOLE
    corners = [(a * X, b * Y, 0.0) for a in (1, -1) for b in (1, -1)]
    moments = [np.cross(corner, e) for corner in corners for e in np.eye(3)]
    A = np.vstack([np.tile(np.eye(3), 4), np.transpose(moments)])
    pyramid = np.array([(1, 0, -mu), (-1, 0, -mu), (0, 1, -mu), (0, -1, -mu)])
    found = linprog(np.zeros(12), np.kron(np.eye(4), pyramid), np.zeros(16), A, w, bounds=(None, None))
    return found.status == 0


# ------------------------------------------------------------------------------------------------ wrench cones
@pytest.mark.parametrize("axes", ["local", "local_world_aligned"])
@pytest.mark.parametrize("inner", [False, True])
def test_rows_hold_where_corners_can_carry_the_wrench(inner, axes, rng):
    system = block(axes)
    xs, us, w = wrenches(system, 300, rng)
    cone = WrenchCone(system, MU, SOLE, center=CENTER, inner=inner)
    rows = cone.evaluate(xs, us)
    within = (rows >= cone.lower).all(axis=1)
    expected = [corners_carry(each, MU / np.sqrt(2.0) if inner else MU) for each in w]
    assert cone.nr == 16 and np.isinf(cone.upper).all() and np.abs(rows).min() > 1e-9
    assert 30 < within.sum() < 200 and np.array_equal(within, expected)


def test_normal_force_and_its_limits(rng):
    system = block()
    xs, us, w = wrenches(system, 20, rng)
    cone = WrenchCone(system, MU, SOLE, center=CENTER, min_normal_force=0.5, max_normal_force=1.5)
    assert cone.nr == 17 and (cone.lower[16], cone.upper[16]) == (0.5, 1.5) and not cone.lower[:16].any()
    assert relative_error(cone.evaluate(xs, us)[:, 16], w[:, 2]) <= 1e-12
    assert WrenchCone(system, MU, SOLE, max_normal_force=1.5).lower[16] == 0.0
    pressed = FrictionCone(system, MU, max_normal_force=3.0)
    assert pressed.upper.tolist() == [np.inf] * 4 + [3.0] and pressed.nr == 5


def test_centres_of_pressure(rng):
    """The way from the edges times the normal force; four of the rows of the cone."""
    system = block()
    xs, us, w = wrenches(system, 20, rng)
    of_sole = CenterOfPressure(system, SOLE, center=CENTER)
    x, y = -w[:, 4] / w[:, 2], w[:, 3] / w[:, 2]
    expected = w[:, 2:3] * np.stack([SOLE[1] - y, SOLE[1] + y, SOLE[0] + x, SOLE[0] - x], axis=1)
    r = of_sole.evaluate(xs, us)
    assert relative_error(r, expected) <= 1e-12 and not of_sole.lower.any()
    assert relative_error(WrenchCone(system, MU, SOLE, center=CENTER).evaluate(xs, us)[:, 4:8], r) <= IDENTITY


def test_every_foot_has_its_sole(case):
    """Feet by name, each with lengths and centre of its own."""
    system, xs, us = case
    feet = [contact.frame for contact in system.contacts.contacts if isinstance(contact, RigidContact)]
    S, turned = len(feet), feet[::-1]
    lengths, centers = np.linspace(0.1, 0.4, 2 * S).reshape(S, 2), np.linspace(-0.2, 0.3, 3 * S).reshape(S, 3)
    together = WrenchCone(system, MU, lengths, turned, centers)
    apart = [WrenchCone(system, MU, *each) for each in zip(lengths, turned, centers, strict=True)]
    assert together.frames == tuple(turned) and WrenchCone(system, MU, SOLE).frames == tuple(feet)
    assert np.array_equal(together.evaluate(xs, us), np.hstack([one.evaluate(xs, us) for one in apart]))


# ------------------------------------------------------------------------------------------------ zero-moment points
def balance(system, xs, us, height):
    """F and M about (0, 0, height) of what holds the robot, by the rows of its base in the equation of motion."""
    model, q, v, *_ = solved(system, xs, us)
    a = dynamics.contact_dynamics(*solved(system, xs, us)).a
    tau = dynamics.inverse_dynamics(model, q, v, a)[:, :6].reshape(len(q), 2, 3)
    base = dynamics.frame_placement(model, q, "base")
    F, M = np.einsum("kij,knj->nki", base.R, tau)
    return F, M + np.cross(base.p - [0.0, 0.0, height], F)


@pytest.mark.parametrize("height", [0.0, -0.2])
def test_the_point_balances_the_robot(case, height):
    system, xs, us = nearly_standing(*case)
    F, M = balance(system, xs, us, height)
    expected = np.stack([-M[:, 1], M[:, 0]], axis=1) / F[:, 2:]
    assert (F[:, 2] > 0.0).all() and np.ptp(F[:, 2]) > 1.0
    assert relative_error(dynamics.zero_moment_point(system, xs, us, height), expected) <= 1e-10


def nearly_standing(system, xs, us):
    """The system with references where the robot stands, states that move around it, and torques that hold it, but for
    noise."""
    stands = np.tile(system.state(standing()), (3, 1))
    system = at_references(system, stands)
    xs = system.integrate(stands, 0.1 * system.difference(stands, xs))
    return system, xs, system.quasi_static(stands) + 0.1 * us


def at_references(system, xs):
    """The system with contacts where the first state has them."""
    model, q = system.model, xs[0, : system.nq]
    places = [dynamics.frame_placement(model, q, contact.frame) for contact in system.contacts.contacts]
    contacts = [
        RigidContact(model, contact.frame, GAINS, place)
        if isinstance(contact, RigidContact)
        else PointContact(model, contact.frame, GAINS, place.p, contact.axes)
        for contact, place in zip(system.contacts.contacts, places, strict=True)
    ]
    return RigidBodySystem(model, 0.02, actuation="floating_base", contacts=contacts, contact_damping=0.1)


def test_rows_are_distances_times_the_normal_force(case):
    system, xs, us = at_references(case[0], case[1]), case[1][:1], case[2][:1]
    F, M = balance(system, xs, us, 0.05)
    point, polygon = ZeroMomentPoint(system, [0.1, -0.2], 0.05), SupportPolygon(system, SQUARE, 0.05)
    expected = F[:, 2:] * [0.1, -0.2] - np.stack([-M[:, 1], M[:, 0]], axis=1)
    assert relative_error(point.evaluate(xs, us), expected) <= 1e-10
    assert polygon.corners.shape == (4, 2) and not polygon.lower.any()
    for corner, after, row in zip(
        polygon.corners, np.roll(polygon.corners, -1, axis=0), polygon.evaluate(xs, us)[0], strict=True
    ):
        inwards = np.array([corner[1] - after[1], after[0] - corner[0]]) / np.linalg.norm(after - corner)
        assert row == pytest.approx(inwards @ (np.array([-M[0, 1], M[0, 0]]) - F[0, 2] * corner), rel=1e-9)
        assert (inwards @ (SQUARE - corner).T).min() == pytest.approx(0.0, abs=1e-12)
    moved = point.adjusted(target=[0.0, 0.3])
    assert relative_error(moved.evaluate(xs, us) - point.evaluate(xs, us), F[:, 2:] * [-0.1, 0.5]) <= 1e-10


def test_a_robot_at_rest_has_it_below_its_centre_of_mass():
    model, q = quadruped(), dynamics.integrate(quadruped(), standing(), np.r_[0.3, 0.1, 0.0, 0.1, -0.1, np.zeros(13)])
    system = RigidBodySystem(model, 0.02, actuation="floating_base", contacts=[PointContact(model, f) for f in FEET])
    hybrid = dynamics.HybridSystem(model, 0.02, [("stand", FEET, 2), ("fly", (), 1), ("land", FEET, 1)])
    x, u = system.state(q)[None], system.quasi_static(system.state(q))[None]
    center = dynamics.center_of_mass(model, q)[:2]
    assert np.abs(dynamics.zero_moment_point(system, x, u) - center).max() < 1e-9
    assert np.abs(dynamics.zero_moment_point(system, np.tile(x, (2, 1)), u, 3.0) - center).max() < 1e-9
    z = dynamics.zero_moment_point(hybrid, np.tile(x, (5, 1)), np.tile(u, (5, 1)))
    assert np.abs(z[[0, 1, 4]] - center).max() < 1e-9 and np.isnan(z[2:4]).all(), "in flight and at the impact"


def test_forces_of_feet_are_those_of_contact_dynamics(case):
    """Local axes of a cone change nothing of what the system says of its forces."""
    system, xs, us = case
    found = dynamics.contact_dynamics(*solved(system, xs, us))
    f = np.array([world_forces(system.model, xs[t, :19], system.contacts.contacts, found.f[t]) for t in range(3)])
    R = dynamics.frame_placement(system.model, xs[:, :19], FEET[0]).R
    rows = WrenchCone(system, MU, SOLE, FEET[0], min_normal_force=0.0).evaluate(xs, us)
    assert relative_error(rows[:, 16], np.einsum("ki,ki->k", R[:, :, 2], f[:, 0])) <= 1e-12


# ------------------------------------------------------------------------------------------------ what it does not take
def test_errors(case, rng):
    system = case[0]
    points = make_case("two feet", rng)[0]
    with pytest.raises(ValueError, match="frames: 'lf_foot' is held at a point, expected RigidContacts"):
        WrenchCone(points, MU, SOLE)
    if len(system.contacts.rigid) == 1:
        with pytest.raises(ValueError, match="frames: 'rh_foot' is held at a point"):
            CenterOfPressure(system, SOLE, "rh_foot")
    S = len(system.contacts.rigid)
    with pytest.raises(ValueError, match=rf"half_lengths: got shape \(3,\), expected \(2,\) or \({S}, 2\)"):
        WrenchCone(system, MU, [0.1, 0.1, 0.1])
    with pytest.raises(ValueError, match=r"half_lengths: got -0\.1, expected positive numbers"):
        CenterOfPressure(system, [0.1, -0.1])
    with pytest.raises(ValueError, match=rf"center: got shape \(2,\), expected \(3,\) or \({S}, 3\)"):
        WrenchCone(system, MU, SOLE, center=[0.1, 0.1])
    limits = {"min_normal_force": 3.0, "max_normal_force": 2.0}
    for make_cone in (lambda: WrenchCone(system, MU, SOLE, **limits), lambda: FrictionCone(system, MU, **limits)):
        with pytest.raises(ValueError, match=r"max_normal_force: got 2\.0, expected more than the least, 3\.0"):
            make_cone()
    with pytest.raises(ValueError, match=r"points: got .*, expected at least three that are not on a line"):
        SupportPolygon(system, [[0.0, 0.0], [1.0, 1.0], [2.0, 2.0]])
    free = RigidBodySystem(quadruped(), 0.02, contacts=[PointContact(quadruped(), FEET[0])])
    with pytest.raises(ValueError, match="frames: the contact of 'lf_foot' has no reference"):
        ZeroMomentPoint(free, [0.0, 0.0])
    with pytest.raises(TypeError, match="system: got RigidBodyModel, expected a RigidBodySystem or HybridSystem"):
        dynamics.zero_moment_point(quadruped(), np.zeros((1, 37)), np.zeros((1, 12)))
