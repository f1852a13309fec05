"""Contacts of rods and bodies: derivatives against complex steps, energies, laws and equilibria in closed form."""

import pickle

import numpy as np
import pytest

from dynamics import FreeFlyer, Prismatic, Revolute, Translation
from dynamics.rods.algorithms.inverse_dynamics import energies, inverse_dynamics, momentum
from dynamics.rods.loads.contacts import CapsuleContact, CylinderContact, PlaneContact, RodContact, SphereContact
from dynamics.rods.model.arrays import FIRST, FORCES
from dynamics.rods.model.cross_section import Circular, Elastic
from dynamics.rods.model.strain_basis import LegendreBasis
from dynamics.rods.robot.builder import RodModelBuilder
from dynamics.rods.robot.reactions import contact_forces
from dynamics.rods.robot.soft_robot import SoftRobot
from dynamics.rods.statics.equilibrium import static_equilibrium
from dynamics.rods.stepping.simulation import simulate
from dynamics.rods.stepping.soft_system import SoftRobotSystem
from tests.reference.robot_systems import slope
from tests.reference.rod_robots import SOFT, complex_steps, hybrid_builder
from tests.tolerances import COMPLEX_STEP, IDENTITY, relative_error

SMOOTH = {"smoothing": 0.02}
TURNED = np.array([[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])


def touching(what: str):
    """The robot of all kinds of joints, whose links touch something deep enough for forces of all kinds."""
    builder = hybrid_builder()
    if what in ("plane", "all"):
        builder.add_contact("trunk", PlaneContact(1e3, [0.2, 0.3, 1.0], [0.0, 0.0, 0.0], **SMOOTH))
        builder.add_contact("flap", PlaneContact(1e2, [-1.0, 0.0, 0.0], [0.5, 0.0, 0.0], exponent=2.0), radius=0.3)
    if what in ("sphere", "all"):
        builder.add_contact("tail", SphereContact(0.3, 1e3, [0.4, 0.2, 0.1], smoothing=0.1))
        builder.add_contact("plate", SphereContact(0.4, 1e3, inside=True), radius=0.1, point=[0.1, 0.2, -0.1])
    if what in ("capsule", "all"):
        builder.add_contact("trunk", CapsuleContact(0.2, 1e3, [0.1, 0.0, 0.0], [0.5, 0.1, 0.0], **SMOOTH), spacing=0.06)
        builder.add_contact("weight", CylinderContact(0.5, 1e3, axis="y", inside=False, **SMOOTH), radius=0.1)
    rates = {"damping": 0.7, "friction": 0.8, "slip": 0.2, **SMOOTH}
    if what in ("rods", "all"):
        builder.add_contact("trunk", RodContact("tail", 1e3, **SMOOTH), radius=0.1)
        builder.add_contact("flap", RodContact("tail", 1e3, radius=0.1, **rates), radius=0.3)
        builder.add_contact("trunk", RodContact("trunk", 1e3, apart=0.1, radius=0.1, **SMOOTH), radius=0.1)
    if what in ("rates", "all"):
        builder.add_contact("trunk", PlaneContact(1e3, [0.2, 0.3, 1.0], **rates))
        builder.add_contact("weight", SphereContact(0.4, 1e2, [0.1, 0.0, 0.1], link="tail", **rates), radius=0.3)
    if what in ("turning", "all"):
        builder.add_contact("flap", SphereContact(0.4, 1e2, [0.1, 0.2, 0.1], True, link="plate", **rates), radius=0.2)
        builder.add_contact("trunk", CapsuleContact(0.2, 1e3, [0.1, 0.0, 0.0], [0.5, 0.1, 0.0], **rates), radius=0.1)
        builder.add_contact("tail", CylinderContact(0.3, 1e2, axis="y", **rates), radius=0.1)
    return SoftRobot(builder.build())


def check(robot, states):
    """First derivatives of r and the Hessian of w'r, and that contacts have a share in them."""
    n, (q, v, a, w), u = robot.nq, states, np.zeros(robot.nu)
    x = np.concatenate([states.ravel(), u, np.zeros(int(robot.arrays.counts[1]))])
    J, _ = complex_steps(robot, FORCES, x)
    first = robot.residual_derivatives(q, v, a, u)
    for found, expected in zip(first, (J[:, :n], J[:, n : 2 * n], J[:, 2 * n : 3 * n]), strict=False):
        assert relative_error(found, expected) <= COMPLEX_STEP
    _, T = complex_steps(robot, FIRST, x)
    T = np.einsum("i,kijl->kjl", w, T[: 2 * n * n].reshape(2, n, n, -1))
    H = robot.residual_hessian(q, v, a, u, w)
    expected = T[0, :, :n], T[0, :, n : 2 * n], T[1, :, n : 2 * n], T[0, :, 2 * n : 3 * n]
    for name, found, block in zip(H._fields, H, expected, strict=False):
        assert relative_error(found, block) <= COMPLEX_STEP, name
    assert relative_error(expected[0], expected[0].T) <= IDENTITY


@pytest.mark.parametrize("what", ["plane", "sphere", "capsule", "rods", "rates", "turning"])
def test_derivatives_against_complex_steps(what, rng):
    robot = touching(what)
    check(robot, 0.4 * rng.standard_normal((4, robot.nq)))


@pytest.mark.parametrize("what", ["plane", "sphere", "capsule", "rods"])
def test_forces_are_the_gradient_of_an_energy(what, rng):
    """-dE/dq by differences, and those of a robot without contact are the others."""
    model, bare = touching(what).model, hybrid_builder()
    if what == "capsule":
        bare.add_contact("trunk", PlaneContact(1.0, point=[0.0, 0.0, -100.0]), spacing=0.06)
    q, zero, h = 0.4 * rng.standard_normal(model.nq), np.zeros(model.nq), 1e-4
    found = inverse_dynamics(model, q, zero, zero) - inverse_dynamics(bare.build(), q, zero, zero)
    steps = h * np.eye(model.nq)
    E = {s: contact_forces(model, q + s * steps).energy for s in (-2.0, -1.0, 1.0, 2.0)}
    gradient = (8.0 * (E[1.0] - E[-1.0]) - (E[2.0] - E[-2.0])) / (12.0 * h)
    assert np.abs(found).max() > 0.1 and relative_error(found, gradient) < 1e-7


@pytest.mark.parametrize("integrator", ["sdirk2", "extrapolated_euler"])
def test_expansions_to_third_order(integrator, rng):
    system = SoftRobotSystem(touching("all"), 1e-3, integrator)
    x, dx = 0.3 * rng.standard_normal((2, system.nx))
    lam, u = rng.standard_normal(system.ndx), np.zeros((1, 0))
    fx, _ = system.linearize(x[None], u)
    Hxx, _, _ = system.hessian_products(x[None], u, lam[None])
    base, steps = lam @ system.step(x, u[0]), 2.0 ** -np.arange(8.0, 13.0)
    errors = [
        lam @ system.step(x + s * dx, u[0]) - base - s * lam @ fx[0] @ dx - 0.5 * s * s * dx @ Hxx[0] @ dx
        for s in steps
    ]
    assert slope(steps, errors) == pytest.approx(3.0, abs=0.1)


# ------------------------------------------------------------------------------------------------ laws
def puck(*contacts, joint=None):
    """A ball of 2 kg and 10 cm that moves in x, y, z."""
    builder = RodModelBuilder()
    builder.add_body("puck", "world", joint or Translation(), mass=2.0, inertia=np.eye(3))
    for contact in contacts:
        builder.add_contact("puck", contact, radius=0.1)
    return SoftRobot(builder.build())


def test_damping_and_friction():
    """On a plane: a force against the velocity across the normal, and one that grows with the velocity into it."""
    robot = puck(PlaneContact(1e4, exponent=1.0, damping=0.3, friction=0.5, slip=0.2))
    v, F = np.array([0.3, -0.4, -0.7]), 1e4 * 0.02
    r = robot.residual([0.0, 0.0, 0.08], v, np.zeros(3), [])
    friction = 0.5 * F * v[:2] / np.hypot(0.5, 0.2)
    assert relative_error(r, np.array([*friction, 2.0 * 9.81 - F * (1.0 + 0.3 * 0.7)])) <= IDENTITY


def balls(places, **parts):
    """Balls of 1 kg and 0.1 m at these places, which float without gravity, the first of which touches something."""
    builder = RodModelBuilder(gravity=(0.0, 0.0, 0.0))
    for name, place in places.items():
        joint = FreeFlyer()
        builder.add_body(name, "world", joint, placement=(np.eye(3), place), mass=1.0, inertia=0.004 * np.eye(3))
    if parts:
        builder.add_contact("ball", **parts)
    return SoftRobot(builder.build())


def wrenches_of_contact(places, v, **parts):
    """Moments about the centres of balls and forces (balls, 6)."""
    q = np.zeros(len(v))
    r, bare = (robot.residual(q, v, q, []) for robot in (balls(places, **parts), balls(places)))
    return (bare - r).reshape(-1, 6)


def test_friction_acts_where_a_ball_touches_the_ground():
    """A ball that is pushed down and slides ends up rolling, at 5/7 of its speed."""
    plane = PlaneContact(1e4, exponent=1.0, friction=0.3, slip=1e-3)
    v = np.array([2.0, 0.0, 0.0, 0.7, 0.0, 0.0])
    (wrench,) = wrenches_of_contact({"ball": [0.2, -0.1, 0.099]}, v, contact=plane, radius=0.1)
    slides, F = np.array([0.7, 0.2]), 10.0  # the velocity at its lowest point, x and y
    friction = -0.3 * F * slides / np.sqrt(slides @ slides + 1e-6)
    moment = np.cross([0.0, 0.0, -0.1], [*friction, 0.0])
    assert relative_error(wrench, np.array([*moment, *friction, F])) <= IDENTITY
    robot = puck_that_turns(plane)
    rest = -9.81 / 1e4
    motion = simulate(robot, 0.5, [], q0=[0.0, 0.1 + rest, 0.0], v0=[0.7, 0.0, 0.0], rtol=1e-6, atol=1e-9)
    speed, _, turn = motion.v[-1]
    assert speed == pytest.approx(0.5, rel=1e-3) and turn == pytest.approx(5.0, rel=1e-3)


def puck_that_turns(contact):
    """A solid ball that slides along x, falls along z and turns about y."""
    builder = RodModelBuilder()
    for name, parent, joint in (("x", "world", Prismatic("x")), ("z", "x", Prismatic("z"))):
        builder.add_body(name, parent, joint)
    builder.add_body("ball", "z", Revolute("y"), mass=1.0, inertia=0.004 * np.eye(3))
    builder.add_contact("ball", contact, radius=0.1)
    return SoftRobot(builder.build())


@pytest.mark.parametrize(
    ("inside", "radius", "apart"), [(False, 0.05, 0.149), (True, 0.05, 0.051), (False, 0.0, 0.099)]
)
def test_bodies_that_rub_turn_each_other(inside, radius, apart, rng):
    """Forces of a moving sphere are opposite and act at one point: no momentum is made, nor angular momentum."""
    contact = SphereContact(0.1, 1e4, inside=inside, link="other", exponent=1.0, friction=0.6, damping=0.4, slip=0.02)
    v, direction, centre = rng.standard_normal(12), np.array([0.36, 0.48, 0.8]), np.array([0.2, -0.1, 0.3])
    places = {"ball": centre, "other": centre - apart * direction}
    of_ball, of_other = wrenches_of_contact(places, v, contact=contact, radius=radius)
    assert relative_error(of_ball[3:], -of_other[3:]) <= IDENTITY
    share = radius / (0.1 - radius) if inside else -radius / (0.1 + radius)
    arms = (share * apart * direction, (1.0 + share) * apart * direction)
    for wrench, arm in zip((of_ball, of_other), arms, strict=True):
        moment = np.cross(arm, wrench[3:])
        assert np.abs(wrench[:3] - moment).max() <= 1e-12 * np.abs(wrench).max()
    sliding = np.cross(v[:3], arms[0]) + v[3:6] - np.cross(v[6:9], arms[1]) - v[9:]
    across, force = (x - (x @ direction) * direction for x in (sliding, of_ball[3:]))
    assert relative_error(across / np.linalg.norm(across), -force / np.linalg.norm(force)) <= 1e-10
    robot = balls(places, contact=contact, radius=radius)
    motion = simulate(robot, 0.01, [], v0=v, rtol=1e-9, atol=1e-11)
    total = momentum(robot.model, motion.q, motion.v)
    assert relative_error(total.angular[-1], total.angular[0]) < 1e-6


def test_a_ball_that_fills_a_moving_hollow_one_is_refused():
    hollow = SphereContact(0.1, 1e4, inside=True, link="other", friction=0.6)
    with pytest.raises(ValueError, match=r"radius: got 0.1, expected less than that of the hollow sphere around, 0\.1"):
        balls({"ball": np.zeros(3), "other": np.zeros(3)}, contact=hollow, radius=0.1)


@pytest.mark.parametrize("contact", [SphereContact(0.3, 1e4, [0.0, 0.0, -0.3]), PlaneContact(1e4)])
def test_a_ball_rests(contact):
    """k depth^(3/2) = m g on top of a sphere and on a plane."""
    rest = static_equilibrium(puck(contact, joint=Prismatic("z")), [], q0=[0.095])
    depth = (2.0 * 9.81 / 1e4) ** (2.0 / 3.0)
    assert rest.converged and abs(rest.q[0] - (0.1 - depth)) < 1e-9


def test_in_the_middle_of_a_sphere_all_is_finite():
    robot = puck(SphereContact(0.3, 1e4), SphereContact(0.3, 1e4, friction=1.0))
    H = robot.residual_hessian(np.zeros(3), np.ones(3), np.zeros(3), [], np.ones(3))
    first = robot.residual_derivatives(np.zeros(3), np.ones(3), np.zeros(3), [])
    assert all(np.isfinite(x).all() for x in (*H, *first))


def test_a_rod_on_a_plane_is_carried():
    """The reactions add up to its weight; each node has what the beam hands on to it."""
    builder = RodModelBuilder()
    builder.add_rod(
        "rod", "world", 0.4, Circular(0.01), SOFT, LegendreBasis(bending_y=2), joint=Prismatic("z"), points=6,
        placement=(np.eye(3), [0.0, 0.0, 0.01]),
    )  # fmt: skip
    builder.add_contact("rod", PlaneContact(1e3, smoothing=1e-4), spacing=0.05)
    robot = SoftRobot(builder.build())
    rest = static_equilibrium(robot, [])
    touch = contact_forces(robot.model, rest.q)
    assert rest.converged and set(touch.links) == {("rod", "world")} and len(touch.depths) > 8
    assert touch.forces.sum(axis=0) == pytest.approx([0.0, 0.0, 9.81 * robot.model.total_mass], abs=1e-8)
    assert robot.model.contacts[0].radii == pytest.approx(0.01)


def crossed(contact, gap=0.015):
    """Two rods that float, one above the middle of the other and across it."""
    builder = RodModelBuilder(gravity=(0.0, 0.0, 0.0))
    stiff, bending = Elastic(1e7, 0.5, 1000.0, 1e3), LegendreBasis(bending_y=2, bending_z=2)
    for name, R, p in (("low", np.eye(3), [-0.2, 0.0, 0.0]), ("high", TURNED, [0.0, -0.2, gap])):
        builder.add_rod(
            name, "world", 0.4, Circular(0.01), stiff, bending, joint=Translation(), placement=(R, p), points=5
        )
    builder.add_contact("low", contact)
    return SoftRobot(builder.build())


def test_rods_push_each_other_apart(rng):
    """Forces are equal and opposite, along the line between the nodes."""
    robot = crossed(RodContact("high", 1e3, smoothing=1e-3))
    q = np.zeros(robot.nq)
    r = robot.residual(q, q, q, [])
    own = [robot.model.joint_coordinates[name] for name in ("low", "high")]
    force = 1e3 * 0.005**1.5
    assert relative_error(r[own[0]], np.array([0.0, 0.0, force])) <= 1e-9  # nodes in the middle are nearest
    assert relative_error(TURNED @ r[own[1]], -r[own[0]]) <= IDENTITY
    touch = contact_forces(robot.model, q)
    assert touch.links[0] == ("low", "high") and np.count_nonzero(touch.depths > 0.0) == 1
    q = 1e-3 * rng.standard_normal(robot.nq)
    r = robot.residual(q, 0.0 * q, 0.0 * q, [])
    assert np.abs(r[own[0]]).max() > 0.1 and relative_error(TURNED @ r[own[1]], -r[own[0]]) <= 1e-10


def test_rods_that_meet_bounce():
    """Momentum is kept in a collision, and energy but for what damping takes."""
    robot = crossed(RodContact("high", 1e3, smoothing=1e-3), gap=0.03)
    v0 = np.zeros(robot.nq)
    low, high = (robot.model.joint_coordinates[name] for name in ("low", "high"))
    v0[low], v0[high] = [0.0, 0.0, 0.3], [0.0, 0.0, -0.1]
    motion = simulate(robot, 0.2, [], v0=v0, rtol=1e-8, atol=1e-10)
    model, touch = robot.model, contact_forces(robot.model, motion.q)
    total = momentum(model, motion.q, motion.v).linear
    assert relative_error(total, np.broadcast_to(total[0], total.shape)) < 1e-5
    energy = np.sum(energies(model, motion.q, motion.v), axis=0) + touch.energy
    assert touch.energy.max() > 0.1 * energy[0] and touch.energy[-1] == 0.0 and motion.v[-1][high][2] > 0.0
    assert np.diff(energy).max() < 1e-6 * energy[0] and energy[-1] < energy[0]


def test_what_was_added_is_in_the_model():
    model = touching("all").model
    names = [touch.link for touch in model.contacts]
    first = ["trunk", "flap", "tail", "plate", "trunk", "weight", "trunk", "flap", "trunk", "trunk", "weight"]
    assert names == [*first, "flap", "trunk", "tail"]
    assert model.contacts[3].places == pytest.approx(np.array([[0.1, 0.2, -0.1]]))
    assert pickle.loads(pickle.dumps(model)) == model and touching("plane").model != model
