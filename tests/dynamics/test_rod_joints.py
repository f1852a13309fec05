"""Joints of rod models: one behind the other, anywhere along rods, and of all kinds where chains are closed."""

import numpy as np
import pytest
from scipy.linalg import expm

from dynamics import Fixed, FreeFlyer, Geometry, Planar, Prismatic, Revolute, Sphere, Spherical, Translation, rods
from dynamics.rods.kinematics.center_lines import link_placement, skeleton
from tests.reference.rod_robots import SOFT
from tests.tolerances import CENTRAL_DIFFERENCES, IDENTITY, relative_error

TILT = expm(np.cross(np.eye(3), [0.3, -0.2, 0.4]))
RIGID = {"mass": 0.7, "com": (0.1, 0.02, -0.01), "inertia": 0.02 * np.diag([1.0, 1.5, 1.8])}
BASIS = rods.LegendreBasis(torsion=0, bending_y=2, bending_z=1, stretch=0)
CONDITIONED = 1e-8

JOINTS = {
    "prismatic": Prismatic((1.0, -1.0, 2.0)), "planar": Planar((0.2, 1.0, 0.3)), "translation": Translation(),
    "universal": (Revolute("x"), Revolute((0.0, 1.0, 1.0))), "cylindrical": (Revolute("z"), Prismatic("z")),
    "angle": (Revolute((1.0, 2.0, 0.0)),), "slot": (Prismatic("y"), Spherical()),
    "helical": rods.Helical((1.0, 0.0, 2.0), 0.05),
}  # fmt: skip


# ------------------------------------------------------------------------------------------------ one behind the other
@pytest.mark.parametrize("on_rod", [False, True])
def test_a_sequence_of_joints_is_massless_bodies(on_rod, rng):
    """Joints written out one by one give the same equations, and the same placements."""
    robots = []
    for together in (False, True):
        builder = rods.RodModelBuilder()
        builder.add_rod("trunk", "world", 0.4, rods.Circular(0.02), SOFT, BASIS, points=3)
        joints, place = (Revolute("x"), Spherical(), Prismatic("y")), (TILT, [0.1, 0.0, 0.05])
        if not together:
            builder.add_body("1", "trunk", joints[0], place)
            builder.add_body("2", "1", joints[1])
        parent, joint, placement = ("trunk", joints, place) if together else ("2", joints[2], None)
        if on_rod:
            builder.add_rod("end", parent, 0.2, rods.Circular(0.01), SOFT, BASIS, joint, placement)
        else:
            builder.add_body("end", parent, joint, placement, **RIGID)
        robots.append(rods.SoftRobot(builder.build(), torques=("end",) if together else ("1", "2", "end")))
    apart, together = robots
    assert together.model.link_names == ("trunk", "end") and together.nu == apart.nu == 5
    assert together.control_names == ("end rz 0", "end rx 1", "end ry 1", "end rz 1", "end z 2")
    q, v, a, w = rng.uniform(-0.6, 0.6, (4, apart.nq))
    u = rng.normal(size=5)
    for method, point in (("residual", (q, v, a, u)), ("residual_hessian", (q, v, a, u, w))):
        for x, y in zip(*(getattr(robot, method)(*point) for robot in robots), strict=True):
            np.testing.assert_array_equal(x, y)
    np.testing.assert_array_equal(link_placement(apart.model, "end", q)[1], link_placement(together.model, "end", q)[1])
    assert skeleton(together.model, q).ndim == 4


def test_a_nut_runs_along_its_thread(rng):
    """Two joints whose coordinates are in proportion: the same pose, and the energy of that motion; it falls with the
    acceleration of a nut on a thread, m g p / (I + m p^2)."""
    pitch, q = 0.03, 4.0 * np.pi * rng.uniform(-1.0, 1.0)
    models = []
    for joint in (rods.Helical((1.0, 2.0, 2.0), pitch), (Revolute((1.0, 2.0, 2.0)), Prismatic((1.0, 2.0, 2.0)))):
        builder = rods.RodModelBuilder()
        builder.add_body("nut", "world", joint, (TILT, [0.1, 0.2, 0.3]), **RIGID)
        models.append(builder.build())
    nut, apart = models
    both = np.array([1.0, pitch])
    for one, other in zip(link_placement(nut, "nut", [q]), link_placement(apart, "nut", q * both), strict=True):
        assert np.abs(one - other).max() < IDENTITY
    assert relative_error(rods.mass_matrix(nut, [q]), [[both @ rods.mass_matrix(apart, q * both) @ both]]) < IDENTITY
    assert rods.energies(nut, [q], [2.0]).gravitational == pytest.approx(
        rods.energies(apart, q * both, both).gravitational
    )
    builder = rods.RodModelBuilder()
    builder.add_body("nut", "world", rods.Helical("z", pitch), mass=2.0, inertia=0.1 * np.eye(3))
    a = rods.SoftRobot(builder.build()).forward_dynamics([q], [0.5], [])
    assert a[0] == pytest.approx(-2.0 * 9.81 * pitch / (0.1 + 2.0 * pitch**2), rel=1e-12)
    builder.add_rod("rod", "world", 0.3, rods.Circular(0.02), SOFT, BASIS)
    builder.add_rod("next", "rod", 0.3, rods.Circular(0.02), SOFT, BASIS, joint=rods.Helical("x", pitch))
    with pytest.raises(ValueError, match="got 'next', expected none that turns and shifts at once"):
        rods.SoftRobot(builder.build(), [rods.Tendon(("rod", "next"), 0.0, 0.01)])


def test_too_far_a_turn_in_a_sequence_names_the_link():
    builder = rods.RodModelBuilder()
    builder.add_body("end", "world", (Prismatic("x"), Spherical()), **RIGID)
    robot = rods.SoftRobot(builder.build())
    with pytest.raises(ValueError, match="the joint of 'end'"):
        robot.residual([0.0, 7.0, 0.0, 0.0], np.zeros(4), np.zeros(4), [])
    with pytest.raises(ValueError, match=r"prescribed\['end'\].* expected at most 2 pi"):
        rods.static_equilibrium(robot, [], prescribed={"end": [0.0, 7.0, 0.0, 0.0]})


# ------------------------------------------------------------------------------------------------ along rods
@pytest.mark.parametrize("at", [0.0, 0.3, 0.77, 1.0])
def test_a_body_along_a_rod_is_its_weight_there(at, rng):
    """At rest; and it stands where the rod's section is."""
    mass, offset = 0.3, np.array([0.0, 0.03, 0.01])
    builders = [rods.RodModelBuilder(base=(TILT, np.zeros(3))) for _ in range(2)]
    for builder in builders:
        builder.add_body("base", "world", Revolute("z"), **RIGID)
        builder.add_rod("arm", "base", 0.4, rods.Circular(0.02), SOFT, BASIS, placement=(TILT, [0.1, 0.0, 0.0]))
        builder.add_rod("hand", "arm", 0.2, rods.Circular(0.01), SOFT, BASIS)
    builders[0].add_body("lump", "arm", (Revolute("x"),), (TILT.T, offset), mass=mass, at=at)
    loaded = rods.SoftRobot(builders[0].build())
    q = rng.uniform(-0.5, 0.5, loaded.nq)
    own = loaded.model.joint_coordinates["lump"]
    rest, zero = np.delete(q, own), np.zeros(loaded.nq)
    R, p = link_placement(loaded.model, "lump", q)
    if at > 0.0:
        builders[1].add_wrench("arm", "weight", point=offset, at=at)
        bare = rods.SoftRobot(builders[1].build())
        expected = bare.residual(rest, zero[1:], zero[1:], [], [[0.0, 0.0, 0.0, 0.0, 0.0, -9.81 * mass]])
        assert relative_error(np.delete(loaded.residual(q, zero, zero, []), own), expected) < IDENTITY
        section = rods.LinkTranslation(bare.model, "arm", np.zeros(3), s=at, placement=(np.eye(3), offset))
        x = np.concatenate([rest, zero[1:]])
        assert np.abs(section.evaluate(x[None])[0] - p).max() < IDENTITY
    else:
        Rb, pb = link_placement(loaded.model, "base", q)
        assert np.abs(pb + Rb @ ([0.1, 0.0, 0.0] + TILT @ offset) - p).max() < IDENTITY
        assert np.isfinite(R).all()


def test_a_rod_held_in_its_middle_hangs_by_the_force_there():
    """The multipliers of a pin along the rod, as a wrench there, let it rest in the same shape."""
    builders = [rods.RodModelBuilder() for _ in range(3)]
    for builder in builders:
        builder.add_rod("arm", "world", 0.4, rods.Circular(0.02), SOFT, BASIS)
    builders[2].add_body("middle", "arm", Fixed(), at=0.6)
    alone = rods.static_equilibrium(rods.SoftRobot(builders[2].build()), [])
    place = link_placement(builders[2].build(), "middle", alone.q)[1] + [-0.01, 0.02, 0.06]
    builders[0].add_closure("pin", "arm", "world", Spherical(), None, (np.eye(3), place), at_a=0.6)
    builders[1].add_wrench("arm", "pin", at=0.6)
    held = rods.static_equilibrium(rods.SoftRobot(builders[0].build()), [])
    assert held.converged and np.abs(rods.closure_error(builders[0].build(), held.q)).max() < 1e-10
    force = np.r_[0.0, 0.0, 0.0, held.multipliers]
    free = rods.static_equilibrium(rods.SoftRobot(builders[1].build()), [], held.q, [force])
    assert free.converged and np.abs(free.q - held.q).max() < 1e-8


# ------------------------------------------------------------------------------------------------ closed by any joint
@pytest.mark.parametrize("name", JOINTS)
def test_a_chain_closed_by_a_joint_moves_as_a_tree_with_it(name, rng):
    """A body that floats, held to a rod by a closed joint, or carried by it: accelerations, and the coordinates."""
    joint = JOINTS[name]
    count = sum(each.nv for each in joint) if isinstance(joint, tuple) else joint.nv
    springs = {"stiffness": np.linspace(1.0, 2.0, count), "damping": np.linspace(0.2, 0.1, count)}
    a, b = (TILT, np.array([0.05, 0.1, 0.0])), (TILT.T, np.array([0.1, 0.0, 0.02]))
    com, I = a[0].T @ (np.array(RIGID["com"]) - a[1]), a[0].T @ RIGID["inertia"] @ a[0]
    builders = [rods.RodModelBuilder() for _ in range(2)]
    for builder in builders:
        builder.add_rod("trunk", "world", 0.3, rods.Circular(0.02), SOFT, BASIS, points=3)
    builders[0].add_body("joint", "trunk", joint, b, RIGID["mass"], com, I, **springs, at=0.6)
    builders[1].add_body("body", "world", FreeFlyer(), None, **RIGID)
    builders[1].add_closure("joint", "body", "trunk", joint, a, b, at_b=0.6, **springs)
    tree, chain = (rods.SoftRobot(builder.build(), torques=["joint"]) for builder in builders)
    model, q = chain.model, rng.uniform(-0.4, 0.4, tree.nq)
    of_body = model.joint_coordinates["body"]
    kept = np.delete(np.arange(chain.nq), np.r_[of_body])
    assert model.constraint_count == 6
    assert [model.coordinate_names[k] for k in kept] == list(tree.model.coordinate_names)
    R, p = link_placement(tree.model, "joint", q)
    x, v = np.zeros(chain.nq), np.zeros(chain.nq)
    x[kept], v[kept] = q, rng.normal(size=tree.nq)
    place = np.eye(4)
    place[:3, :3], place[:3, 3] = R @ a[0].T, p - R @ a[0].T @ a[1]
    x[of_body] = _logarithm(place)
    assert np.abs(rods.closure_error(model, x)).max() < 1e-10
    A = rods.closure_jacobian(model, x)
    v[of_body] = -np.linalg.solve(A[:, of_body], A[:, kept] @ v[kept])
    u = rng.normal(size=count)
    expected = tree.forward_dynamics(q, v[kept], u)
    assert relative_error(chain.forward_dynamics(x, v, u)[kept], expected) < CONDITIONED
    derivatives, h = chain.forward_dynamics_derivatives(x, v, u), 1e-3
    for part, step in zip(derivatives, (("q", x), ("v", v), ("u", u)), strict=True):
        d = rng.normal(size=len(step[1]))
        f = [chain.forward_dynamics(**{"q": x, "v": v, "u": u, step[0]: step[1] + s * h * d}) for s in (1, -1, 2, -2)]
        difference = (8.0 * (f[0] - f[1]) - (f[2] - f[3])) / (12.0 * h)  # fourth order, at steps beyond rounding
        assert relative_error(part @ d, difference) < 10.0 * CONDITIONED


def _logarithm(place: np.ndarray) -> np.ndarray:
    from scipy.linalg import logm

    X = np.real(logm(place))
    return np.array([X[2, 1], X[0, 2], X[1, 0], *X[:3, 3]])


def test_assembled_along_a_slot():
    """From an open start; the closed joint's coordinates say how far along, and may be held."""
    builder = rods.RodModelBuilder()
    builder.add_rod("arm", "world", 0.4, rods.Circular(0.02), SOFT, BASIS)
    builder.add_closure("slot", "arm", "world", Prismatic("x"), None, (np.eye(3), [0.3, 0.0, 0.0]))
    robot = rods.SoftRobot(builder.build())
    rest = rods.static_equilibrium(robot, [])
    R, p = link_placement(robot.model, "arm", rest.q)
    assert rest.converged and np.abs(R - np.eye(3)).max() < 1e-9 and np.abs(p[1:]).max() < 1e-9
    slid = rest.q[robot.model.joint_coordinates["slot"]]
    assert p[0] == pytest.approx(0.3 + slid[0], abs=1e-9)
    held = rods.static_equilibrium(robot, [], prescribed={"slot": 0.11})
    assert held.converged and link_placement(robot.model, "arm", held.q)[1][0] == pytest.approx(0.41, abs=1e-9)
    assert held.prescribed_forces["slot"][0] > 0.0
    modes = rods.vibration_modes(robot, rest.q, count=3)
    assert (modes.frequencies > 0.0).all()


def test_steps_ask_for_damping_of_joints_that_move_no_mass():
    builder = rods.RodModelBuilder()
    builder.add_rod("arm", "world", 0.4, rods.Circular(0.02), SOFT, BASIS)
    builder.add_closure("slot", "arm", "world", Prismatic("x"), None, (np.eye(3), [0.3, 0.0, 0.0]))
    with pytest.raises(ValueError, match="damping of 'slot z' in closure 'slot', expected one of them above zero"):
        rods.SoftRobotSystem(rods.SoftRobot(builder.build()), 0.01)


@pytest.mark.parametrize("method", ["bdf", "radau", "newmark", "sdirk2"])
def test_motion_along_a_slot_keeps_its_energy(method):
    """Of a pendulum whose tip slides without friction along a line."""
    builder = rods.RodModelBuilder()
    builder.add_body("upper", "world", Revolute("y"), mass=1.0, com=(0.25, 0.0, 0.0), inertia=0.02 * np.eye(3))
    knee = (np.eye(3), [0.5, 0.0, 0.0])
    builder.add_body("lower", "upper", Revolute("y"), knee, 1.0, (0.25, 0.0, 0.0), 0.02 * np.eye(3))
    tip = (np.eye(3), [0.5, 0.0, 0.0])
    builder.add_closure("slot", "lower", "world", (Prismatic("x"), Revolute("y")), tip, (np.eye(3), [0.8, 0.0, 0.0]))
    robot = rods.SoftRobot(builder.build())
    q0 = rods.assemble(robot.model, [0.6, -1.2, 0.0, 0.6]).q
    options = {} if method in ("bdf", "radau") else {"dt": 2e-3}
    run = rods.simulate(robot, 0.8, [], q0=q0, method=method, **options)
    energies = rods.energies(robot.model, run.q, run.v)
    assert np.ptp(run.q[:, 0]) > 0.5 and np.ptp(sum(energies)) < 1e-2 * np.ptp(energies.kinetic)
    R, p = link_placement(robot.model, "lower", run.q)
    assert np.abs((p + R @ tip[1])[:, 1:]).max() < 1e-4


# ------------------------------------------------------------------------------------------------ on branches
def twig() -> rods.RodModelBuilder:
    """A rod that grows from the middle of another one, and a body on the way of that."""
    builder = rods.RodModelBuilder()
    builder.add_rod("stem", "world", 0.4, rods.Circular(0.02), SOFT, BASIS, points=4)
    place = (TILT, [0.0, 0.02, 0.0])
    builder.add_rod("twig", "stem", 0.2, rods.Circular(0.01), SOFT, BASIS, Revolute("y"), place, 3, at=0.4)
    builder.add_body("leaf", "twig", (Revolute("x"), Prismatic("y")), (TILT, [0.0, 0.01, 0.0]), **RIGID, at=0.6)
    return builder


def test_residuals_on_branches(rng):
    """Jacobians and Hessians of what looks at a branch, by differences."""
    model = twig().build()
    ball = Geometry("ball", "world", -1, Sphere(0.05), (np.eye(3), [0.3, 0.2, 0.1]))
    residuals = [
        rods.RodDistance(model, [ball]), rods.LinkTranslation(model, "leaf", np.zeros(3)),
        rods.LinkTranslation(model, "twig", np.zeros(3), s=0.3), rods.LinkVelocity(model, "leaf"),
    ]  # fmt: skip
    x, h = np.concatenate([rng.uniform(-0.5, 0.5, model.nq), rng.normal(size=model.nv)]), 1e-6
    for residual in residuals:
        d, mu = rng.normal(size=len(x)), rng.normal(size=residual.nr)
        J = residual.evaluate_with_jacobians(x[None])[1][0]
        ends = residual.evaluate(np.array([x + h * d, x - h * d]))
        width = J.shape[1]
        assert relative_error(J @ d[:width], (ends[0] - ends[1]) / (2.0 * h)) < CENTRAL_DIFFERENCES
        H = residual.hessian_products(x[None], None, mu[None])
        H = (H[0] if isinstance(H, tuple) else H)[0]
        slopes = residual.evaluate_with_jacobians(np.array([x + h * d, x - h * d]))[1]
        difference = mu @ (slopes[0] - slopes[1]) / (2.0 * h)
        assert relative_error(H[:width] @ d[: H.shape[1]], difference[: len(H)]) < CENTRAL_DIFFERENCES


def test_loads_on_branches(rng):
    """Contact, laws and wrenches there, and contact between the stem's tip and the leaf: derivatives by differences."""
    builder = twig()
    builder.add_contact("twig", rods.PlaneContact(1e3, point=(0.0, 0.0, 0.3), smoothing=0.05), 0.3)
    builder.add_contact("leaf", rods.SphereContact(0.2, 1e3, link="stem", smoothing=0.2), 0.1)
    builder.add_load("leaf", lambda R, p, w, v, u: np.concatenate([p * p[0] - w, u[0] * R[:, 0] - v]), ["pull"])
    builder.add_wrench("twig", at=0.7)
    robot = rods.SoftRobot(builder.build())
    q, v, a, w = rng.uniform(-0.4, 0.4, (4, robot.nq))
    u, wrenches, h = np.array([2.0]), rng.normal(size=(1, 6)), 1e-5
    found = robot.residual_derivatives(q, v, a, u, wrenches)
    H = robot.residual_hessian(q, v, a, u, w, wrenches)
    d = rng.normal(size=robot.nq)
    for first, second, part, cross in (((1, 0), "dr_dq", H.Hqq, "dr_dq"), ((0, 1), "dr_dv", H.Hqv, "dr_dq")):
        ends = [(q + s * h * first[0] * d, v + s * h * first[1] * d, a, u) for s in (1.0, -1.0)]
        r = [robot.residual(*point, wrenches) for point in ends]
        assert relative_error(getattr(found, second) @ d, (r[0] - r[1]) / (2.0 * h)) < CENTRAL_DIFFERENCES
        slopes = [w @ getattr(robot.residual_derivatives(*point, wrenches), cross) for point in ends]
        assert relative_error(part @ d, (slopes[0] - slopes[1]) / (2.0 * h)) < CENTRAL_DIFFERENCES
