"""External loads on rods and bodies: derivatives against complex steps, laws against their definition, errors."""

import numpy as np
import pytest

from dynamics.model.joints import Revolute, Spherical
from dynamics.rods.algorithms.inverse_dynamics import inverse_dynamics, mass_matrix
from dynamics.rods.loads.contacts import CylinderContact
from dynamics.rods.loads.external_loads import Fluid
from dynamics.rods.loads.tendons import Tendon
from dynamics.rods.model.arrays import FIRST, FORCES
from dynamics.rods.model.cross_section import Circular, Rectangular
from dynamics.rods.model.strain_basis import LegendreBasis
from dynamics.rods.robot.builder import RodModelBuilder
from dynamics.rods.robot.link_residuals import LinkVelocity
from dynamics.rods.robot.soft_robot import SoftRobot
from tests.reference.rod_robots import SOFT, complex_steps, hybrid_builder
from tests.tolerances import COMPLEX_STEP, IDENTITY, relative_error


def loaded(builder, rng, load):
    if load in ("wrenches", "all"):
        builder.add_wrench("tail", point=(0.1, -0.2, 0.3))
        builder.add_wrench("plate", follower=True, point=(0.2, 0.1, -0.1))
        builder.add_wrench("trunk", "middle", at=0.37, point=(0.1, 0.0, 0.2))
        builder.add_wrench("flap", follower=True, at=0.7)
    if load in ("smooth contact", "contact", "all"):
        smoothing = 0.0 if load == "contact" else 0.02
        tilted = CylinderContact(0.02, 1e3, smoothing=smoothing, point=(0.05, 0.02, 0.0), axis=[0.2, 0.1, 1.0])
        builder.add_contact("trunk", tilted)
        builder.add_contact("tail", CylinderContact(0.2, 1e3, exponent=2.0, smoothing=0.01))
    if load in ("distributed", "all"):
        builder.add_distributed_load("trunk", lambda s: [0.3, 0.2 * s, -0.1, 2.0 * s, 1.0, -s * s])
        builder.add_distributed_load("flap", [0.1, 0.2, 0.3, -1.0, 2.0, 0.5], follower=True)
        builder.add_distributed_load("tail", 2.0, name="wind")
        builder.add_distributed_load("trunk", lambda s: 1.0 - s, True, "suit")
    if load in ("drag", "all"):
        builder.add_drag("plate", rng.standard_normal((6, 6)), 0.1)
    if load in ("added mass", "all"):
        B = rng.standard_normal((6, 6))
        builder.add_added_mass("weight", B @ B.T)
    if load in ("fluid", "all"):
        builder.add_fluid("tail", Fluid(1000.0, smoothing=0.05))
    return builder.build()


@pytest.mark.parametrize(
    "load", ["none", "wrenches", "distributed", "smooth contact", "contact", "drag", "added mass", "fluid", "all"]
)
def test_derivatives_against_complex_steps(load, rng):
    """First ones of the forces, and of those the Hessian, on a branched robot of rods and all kinds of joints."""
    robot = SoftRobot(loaded(hybrid_builder(), rng, load))
    n, W = robot.nq, robot.model.wrench_count
    states, wrenches = 0.4 * rng.standard_normal((4, n)), rng.standard_normal((W, 6))
    q, v, a, w = states
    x = np.concatenate([states.ravel(), wrenches.ravel()])
    J, _ = complex_steps(robot, FORCES, x)
    u = np.zeros(0)
    first = robot.residual_derivatives(q, v, a, u, wrenches)
    for found, expected in zip(first, (J[:, :n], J[:, n : 2 * n], J[:, 2 * n : 3 * n]), strict=False):
        assert relative_error(found, expected) <= COMPLEX_STEP
    _, T = complex_steps(robot, FIRST, x)
    T = np.einsum("i,kijl->kjl", w, T[: 2 * n * n].reshape(2, n, n, -1))
    H = robot.residual_hessian(q, v, a, u, w, wrenches)
    expected = T[0, :, :n], T[0, :, n : 2 * n], T[1, :, n : 2 * n], T[0, :, 2 * n : 3 * n]
    for name, found, block in zip(H._fields, H, expected, strict=False):
        assert relative_error(found, block) <= COMPLEX_STEP, name
    assert relative_error(expected[0], expected[0].T) <= IDENTITY


def pendulum(point=(0.0, 0.0, -1.0)):
    """A massless bar about y, with a body's frame at its end."""
    builder = RodModelBuilder(gravity=(0.0, 0.0, -9.81))
    builder.add_body("bar", "world", Revolute("y"))
    builder.add_body("end", "bar", Revolute("y"), (np.eye(3), point))
    return builder


def test_wrenches_do_work(rng):
    """tau = -J'F: moments count about the joint's axis, forces with their lever; a follower turns along."""
    builder = pendulum()
    builder.add_wrench("end")
    builder.add_wrench("end", name="follower", follower=True)
    model = builder.build()
    F, angle = rng.standard_normal((2, 6)), 0.7
    lever = np.array([-np.sin(angle), 0.0, -np.cos(angle)])
    turn = np.array([[np.cos(angle), 0.0, np.sin(angle)], [0.0, 1.0, 0.0], [-np.sin(angle), 0.0, np.cos(angle)]])
    moments, forces = F[0, :3] + turn @ F[1, :3], F[0, 3:] + turn @ F[1, 3:]
    tau = inverse_dynamics(model, [angle, 0.0], [0.0, 0.0], [0.0, 0.0], F)
    expected = -np.array([moments[1] + np.cross(lever, forces)[1], moments[1]])
    assert relative_error(tau, expected) <= IDENTITY


def test_wrenches_along_a_rod_act_where_they_are(rng):
    """ID = -J'F with the Jacobians of the places; nodes between others move the rest by no more than its quadrature."""
    places, plain = {"tail": 0.3, "trunk": 0.8, "flap": 0.11}, hybrid_builder()
    builder = hybrid_builder()
    for link, at in places.items():
        builder.add_wrench(link, at=at)
    model, bare = builder.build(), plain.build()
    q, zero, F = 0.3 * rng.standard_normal(model.nq), np.zeros(model.nq), rng.standard_normal((3, 6))
    tau = inverse_dynamics(model, q, zero, zero, F) - inverse_dynamics(model, q, zero, zero)
    expected, x = np.zeros(model.nq), np.concatenate([q, zero])[None]
    for (link, at), wrench in zip(places.items(), F, strict=True):
        frames = [LinkVelocity(m, link, s=at, reference="local_world_aligned") for m in (model, bare)]
        J, without = (frame.jacobians(x, None)[0][0, :, model.nq :] for frame in frames)
        expected -= J.T @ np.roll(wrench, 3)  # of [force; moment]
        assert relative_error(J, without) < 1e-3
    assert relative_error(tau, expected) <= IDENTITY


def test_a_node_in_a_rod_leaves_all_else_where_it_was(rng):
    """Loads, closed chains and tendons of a rod, given before a wrench makes a node in it or after."""

    def robot(first: bool) -> SoftRobot:
        builder = hybrid_builder()
        if first:
            builder.add_wrench("trunk", "node", at=0.4)
        loaded(builder, np.random.default_rng(0), "all")
        builder.add_closure("loop", "weight", "tail", Spherical(), (np.eye(3), [0.1, 0.0, 0.0]))
        builder.add_fluid("trunk", Fluid(1000.0, smoothing=0.05))
        if not first:
            builder.add_wrench("trunk", "node", at=0.4)
        tendon = Tendon("trunk", 0.008, lambda X: 0.01 * X)
        return SoftRobot(builder.build(), [tendon])

    one, other = robot(True), robot(False)
    assert one.model.total_mass == other.model.total_mass and one.model.link_segments == other.model.link_segments
    q, v, a = 0.3 * rng.standard_normal((3, one.nq))
    F, multipliers = rng.standard_normal((len(one.model.wrench_names), 6)), rng.standard_normal(3)
    order = [one.model.wrench_names.index(name) for name in other.model.wrench_names]
    r = one.residual(q, v, a, [3.0], F, multipliers), other.residual(q, v, a, [3.0], F[order], multipliers)
    assert relative_error(*r) <= IDENTITY


def test_a_wrench_at_a_node_needs_no_other():
    builder = pendulum()
    builder.add_rod("rod", "end", 0.5, Circular(0.02), SOFT, LegendreBasis(bending_y=1), points=3)
    count = len(builder.build().arrays.parent)
    for name, at in (("middle", 0.5), ("tip", 1.0), ("again", 0.3), ("and again", 0.3)):
        builder.add_wrench("rod", name, at=at)
    model = builder.build()
    assert len(model.arrays.parent) == count + 1 and np.count_nonzero(model.rods["rod"].weights) == 3


def test_a_distributed_load_of_the_weight_is_the_weight(rng):
    """Of a tapered rod, in axes of the world; a follower load turns along with its section."""
    section, basis, g = Circular(0.02, 0.005), LegendreBasis(1, 2, 2, 0, 0, 0), np.array([0.3, -0.2, -9.81])
    robots = []

    def weight(s: float) -> np.ndarray:
        return np.r_[np.zeros(3), SOFT.density * section.properties(np.array([s])).A[0] * g]

    for gravity in (g, np.zeros(3)):
        builder = RodModelBuilder(gravity)
        builder.add_rod("rod", "world", 0.5, section, SOFT, basis)
        if not gravity.any():
            builder.add_distributed_load("rod", weight)
        robots.append(builder.build())
    q, zero = 0.3 * rng.standard_normal(robots[0].nq), np.zeros(robots[0].nq)
    of_weight, of_load = (inverse_dynamics(model, q, zero, zero) for model in robots)
    assert relative_error(of_load, of_weight) <= IDENTITY


@pytest.mark.parametrize("follower", [False, True])
def test_a_load_with_a_name_is_an_argument(follower, rng):
    """Its density times a number along the rod; as constant loads."""
    wrench, share, models = rng.standard_normal(6), lambda s: 1.0 + s * s, []
    for name in (None, "wind"):
        builder = hybrid_builder()
        density = share if name else lambda s: share(s) * wrench
        builder.add_distributed_load("trunk", density, follower, name)
        models.append(builder.build())
    q, zero = 0.3 * rng.standard_normal(models[0].nq), np.zeros(models[0].nq)
    assert models[0].wrench_names == () and models[1].wrench_names == ("wind",)
    given = inverse_dynamics(models[1], q, zero, zero, [wrench])
    assert relative_error(given, inverse_dynamics(models[0], q, zero, zero)) <= IDENTITY


@pytest.mark.parametrize("smoothing", [0.0, 0.03])
def test_contact_pushes_back_along_the_radius(smoothing):
    """A rod along x inside a cylinder about z: Hertz where it is deep, nothing well inside."""
    builder = RodModelBuilder(gravity=(0.0, 0.0, 0.0))
    section = Circular(0.02, 0.01)
    builder.add_rod("rod", "world", 0.5, section, SOFT, LegendreBasis(stretch=0), points=3)
    builder.add_contact("rod", CylinderContact(0.4, 1e4, smoothing=smoothing))
    model = builder.build()
    nodes = model.rods["rod"].nodes
    depths = np.maximum(0.0, nodes + section.radii(nodes / 0.5) - 0.4)
    depths = depths[depths > 0.04]
    assert len(depths) == 2
    force = 1e4 * depths**1.5
    tau = inverse_dynamics(model, [0.0], [0.0], [0.0])
    assert relative_error(tau, np.array([force @ nodes[-2:]])) <= IDENTITY


def test_a_fluid_carries_what_is_as_dense(rng):
    """Buoyancy cancels weight at rest, added mass has none, and drag takes energy out."""
    builder = RodModelBuilder()
    section, basis = Circular(0.02, 0.005), LegendreBasis(1, 2, 2, 0, 0, 0)
    builder.add_rod("fin", "world", 0.5, section, SOFT, basis)
    builder.add_fluid("fin", Fluid(SOFT.density, added_mass=(0.3, 0.6)))
    model = builder.build()
    q, v = 0.3 * rng.standard_normal((2, model.nq))
    zero = np.zeros(model.nq)
    bare = RodModelBuilder()
    bare.add_rod("fin", "world", 0.5, section, SOFT, basis)
    dry = bare.build()
    weight = np.abs(inverse_dynamics(dry, q, zero, zero)).max()
    assert np.abs(inverse_dynamics(model, q, zero, zero)).max() <= 1e-12 * weight
    more = mass_matrix(model, q) - mass_matrix(dry, q)
    assert np.linalg.eigvalsh(more)[0] >= -1e-12 * np.abs(more).max() and np.abs(more).max() > 0.0
    ID = inverse_dynamics
    wet, alone = (ID(m, q, v, zero) - ID(m, q, -v, zero) for m in (model, dry))
    assert v @ wet > 0.0 and np.abs(alone).max() <= 1e-9 * np.abs(wet).max()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda b: (b.add_wrench("fin"), b.add_wrench("fin", at=0.5)), "taken"),
        (lambda b: (b.add_wrench("fin"), b.add_distributed_load("fin", 1.0, name="fin")), "taken"),
        (lambda b: b.add_contact("fin", CylinderContact(0.1, 1e3)), "section"),
        (lambda b: b.add_added_mass("fin", np.triu(np.ones((6, 6)))), "symmetric"),
    ],
)
def test_errors(call, message):
    builder = RodModelBuilder()
    builder.add_rod("fin", "world", 0.5, Rectangular(0.02, 0.01), SOFT, LegendreBasis(bending_y=1))
    with pytest.raises(ValueError, match=message):
        call(builder)


def test_wrenches_that_nothing_takes():
    builder = RodModelBuilder()
    builder.add_rod("fin", "world", 0.5, Circular(0.02), SOFT, LegendreBasis(bending_y=1))
    with pytest.raises(ValueError, match="wrenches"):
        inverse_dynamics(builder.build(), np.zeros(2), np.zeros(2), np.zeros(2), np.zeros((1, 6)))
