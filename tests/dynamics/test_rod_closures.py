"""Closed chains and prescribed joints: derivatives against complex steps, and what builders refuse."""

import numpy as np
import pytest
from scipy.optimize import brentq

from dynamics import Continuous, Fixed, FreeFlyer, Prismatic, Revolute, Spherical
from dynamics.rods.algorithms.backward_pass import BLOCKS
from dynamics.rods.algorithms.closed_chains import assemble, closure_error, closure_jacobian
from dynamics.rods.algorithms.constrained_dynamics import constrained_motion
from dynamics.rods.algorithms.equation_of_motion import residual_kernel, residual_work, result_size
from dynamics.rods.kinematics.center_lines import center_lines, link_placement
from dynamics.rods.model.arrays import FIRST, FORCES
from dynamics.rods.model.cross_section import Circular
from dynamics.rods.model.strain_basis import LegendreBasis
from dynamics.rods.robot.builder import RodModelBuilder
from dynamics.rods.robot.soft_robot import SoftRobot
from dynamics.rods.statics.equilibrium import static_equilibrium
from dynamics.rods.stepping.simulation import simulate
from tests.reference.rod_robots import SOFT, complex_steps, hybrid_builder
from tests.tolerances import COMPLEX_STEP, IDENTITY, relative_error

CONDITIONED = 1e-8


def closed_robot() -> SoftRobot:
    """The branched robot of rods and joints, its branches joined by a hinge, and held to the world by a ball along a
    rod; a wrench acts beside the plate's frame."""
    builder = hybrid_builder()
    turn = np.array([[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
    builder.add_wrench("plate", point=(0.1, -0.2, 0.3))
    builder.add_wrench("tail", follower=True, point=(0.1, -0.2, 0.3))
    builder.add_closure("hinge", "tail", "weight", Revolute((1.0, -1.0, 2.0)), (turn, [0.05, 0.0, 0.1]))
    builder.add_closure("ball", "flap", "world", Spherical(), (turn.T, [0.02, 0.0, 0.0]), (turn, [0.5, 0.1, 0.3]), 0.8)
    return SoftRobot(builder.build(), torques=("shoulder",))


@pytest.fixture(scope="module")
def robot():
    return closed_robot()


def chains(robot, state):
    """e, e', e'' (G,) and A, A', A'' (G, n) at a state, by the kernel for plain numbers."""
    n, G = robot.nq, robot.model.constraint_count
    m, e = robot.model.arrays, robot.arrays
    r, A = np.empty(n), np.empty(result_size(m, e))
    residual_kernel(m, e, FIRST, state.copy(), np.empty(residual_work(m, e)), r, A)
    out = A[BLOCKS * n * n + 2 * n * robot.nu :]
    return out[: 3 * G].reshape(3, G), out[3 * G : 3 * G * (1 + n)].reshape(3, G, n)


def random_point(robot, rng):
    """q, v, a, u, wrenches, multipliers, and the state of these."""
    n, G, W = robot.nq, robot.model.constraint_count, robot.model.wrench_count
    q, v, a = rng.uniform(-0.5, 0.5, (3, n))
    u, wrenches, multipliers = rng.standard_normal(robot.nu), rng.standard_normal((W, 6)), rng.standard_normal(G)
    between = np.zeros(int(robot.arrays.counts[1]) - 6 * W - G)
    state = np.concatenate([q, v, a, np.zeros(n), u, wrenches.ravel(), between, multipliers])
    return q, v, a, u, wrenches, multipliers, state


def test_first_derivatives(robot, rng):
    """Of the residual with multipliers, and of e, e', e''."""
    n, G, nu = robot.nq, robot.model.constraint_count, robot.nu
    assert G == 8
    *point, state = random_point(robot, rng)
    dr, dA = complex_steps(robot, FORCES, state)
    dq, dv, M, B = robot.residual_derivatives(*point)
    for name, found, expected in (
        ("q", dq, dr[:, :n]), ("v", dv, dr[:, n : 2 * n]), ("a", M, dr[:, 2 * n : 3 * n]),
        ("u", -B, dr[:, 4 * n : 4 * n + nu]),
    ):  # fmt: skip
        assert relative_error(found, expected) <= IDENTITY, name
    _, (A, A1, A2) = chains(robot, state)
    assert relative_error(-A.T, dr[:, -G:]) <= IDENTITY
    de, de1, de2 = dA[BLOCKS * n * n + 2 * n * nu :][: 3 * G].reshape(3, G, -1)
    for found, expected in (
        (A, de[:, :n]), (A1, de1[:, :n]), (A, de1[:, n : 2 * n]), (A2, de2[:, :n]), (2.0 * A1, de2[:, n : 2 * n]),
        (A, de2[:, 2 * n : 3 * n]),
    ):  # fmt: skip
        assert relative_error(found, expected) <= IDENTITY


@pytest.mark.parametrize(("held", "rate"), [((), 0.0), (("weight", "plate"), 20.0)])
def test_accelerations(robot, rng, held, rate):
    """They solve the equations, whose derivatives by complex steps give theirs; some joints prescribed."""
    n, G = robot.nq, robot.model.constraint_count
    *_, state = random_point(robot, rng)
    taken = np.concatenate([np.arange(n)[robot.model.joint_coordinates[link]] for link in held] or [[]]).astype(int)
    free = np.setdiff1d(np.arange(n), taken)
    F = len(free)
    given = state.copy()[None]
    motion = constrained_motion(robot.model, robot.arrays, FIRST, given, free, rate)
    state[2 * n : 3 * n], state[-G:] = motion.a[0], motion.multipliers[0]
    (e, e1, e2), (*_, A2) = chains(robot, state)
    size = np.abs(A2).max()
    assert np.abs(motion.forces[0, free]).max() <= CONDITIONED * np.abs(motion.forces).max(initial=1.0)
    assert np.abs(e2 + rate * (2.0 * e1 + rate * e)).max() <= CONDITIONED * size
    dr, dA = complex_steps(robot, FORCES, state)
    de, de1, de2 = dA[BLOCKS * n * n + 2 * n * robot.nu :][: 3 * G].reshape(3, G, -1)
    F_all = np.vstack([dr[free], de2 + rate * (2.0 * de1 + rate * de)])
    unknown = np.concatenate([2 * n + free, np.arange(len(state) - G, len(state))])
    columns = np.concatenate([np.arange(2 * n), 4 * n + np.arange(robot.nu)])
    expected = -np.linalg.solve(F_all[:, unknown], F_all[:, columns])
    found = motion.derivatives[0]
    for start, stop in ((0, n), (n, 2 * n), (2 * n, 2 * n + robot.nu)):
        for rows in (slice(0, F), slice(F, F + G)):
            assert relative_error(found[rows, start:stop], expected[rows, start:stop]) <= CONDITIONED


def test_public_accelerations(robot, rng):
    """A batch gives what its points give; e'' = 0."""
    n = robot.nq
    points = [random_point(robot, rng) for _ in range(2)]
    q, v, _, u, wrenches, _, _ = (np.array(values) for values in zip(*points, strict=True))
    a = robot.forward_dynamics(q, v, u, wrenches)
    one = robot.forward_dynamics_derivatives(q[1], v[1], u[1], wrenches[1])
    assert np.array_equal(a[1], robot.forward_dynamics(q[1], v[1], u[1], wrenches[1]))
    assert one.da_dq.shape == one.da_dv.shape == (n, n) and one.da_du.shape == (n, robot.nu)
    state = points[1][-1]
    state[2 * n : 3 * n] = a[1]
    (_, _, e2), (A, *_) = chains(robot, state)
    assert np.abs(e2).max() <= COMPLEX_STEP * np.abs(A).max() * np.abs(a[1]).max()


def test_frames_meet_where_chains_are_closed(robot):
    q0 = np.full(robot.nq, 0.05)
    found = assemble(robot.model, q0)
    assert found.converged and found.iterations > 0
    assert np.abs(closure_error(robot.model, found.q)).max() <= 1e-12
    (R, p), (S, r) = (link_placement(robot.model, link, found.q) for link in ("tail", "weight"))
    turn = np.array([[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
    axis = np.array([1.0, -1.0, 2.0])
    assert np.allclose(p + R @ [0.05, 0.0, 0.1], r, atol=1e-11) and np.allclose(R @ turn @ axis, S @ axis, atol=1e-11)
    A, h = closure_jacobian(robot.model, found.q), 1e-6
    dq = np.linspace(-1.0, 1.0, robot.nq)
    difference = closure_error(robot.model, found.q + h * dq) - closure_error(robot.model, found.q - h * dq)
    assert relative_error(difference / (2.0 * h), A @ dq) <= 1e-6


# ------------------------------------------------------------------------------------------------ building
ASIDE = (np.eye(3), [0.3, 0.0, 0.2])


def two_bars() -> RodModelBuilder:
    builder = RodModelBuilder()
    for name, place in (("left", 0.0), ("right", 1.0)):
        builder.add_body(name, "world", Revolute("y"), (np.eye(3), [place, 0.0, 0.0]), 1.0, inertia=0.1 * np.eye(3))
    return builder


def far_tips() -> SoftRobot:
    """Two rods whose tips are three metres apart, in line, so that bending does not draw them together."""
    builder = RodModelBuilder()
    for name, place in (("left", 0.0), ("right", 3.0)):
        basis = LegendreBasis(bending_y=1)
        builder.add_rod(name, "world", 0.5, Circular(0.01), SOFT, basis, placement=(np.eye(3), [place, 0.0, 0.0]))
    builder.add_closure("tips", "left", "right", Spherical())
    return SoftRobot(builder.build())


def parallelogram() -> SoftRobot:
    builder = two_bars()
    builder.add_body("bar", "left", Revolute("y"), (np.eye(3), [0.0, 0.0, 0.5]), 1.0, inertia=0.1 * np.eye(3))
    ends = (np.eye(3), [1.0, 0.0, 0.0]), (np.eye(3), [0.0, 0.0, 0.5])
    builder.add_closure("pin", "bar", "right", Revolute("y"), *ends)
    return SoftRobot(builder.build())


def hinged_ball() -> SoftRobot:
    builder = RodModelBuilder()
    builder.add_body("ball", "world", Spherical(), mass=1.0, inertia=np.eye(3))
    builder.add_closure("hinge", "ball", "world", Revolute("z"))
    return SoftRobot(builder.build())


def test_a_plane_needs_two_constraints_of_a_hinge():
    """Those out of the plane vanish; a hinge that stands across the plane keeps its own."""
    model = parallelogram().model
    assert model.constraint_count == 2 and model.closure_names == ("pin",)
    assert np.abs(closure_error(model, np.zeros(3))).max() <= 1e-15


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda b: b.add_closure("pin", "left", "right", FreeFlyer()), ValueError, "of six degrees of freedom or more"),
        (lambda b: b.add_closure("pin", "left", "right", "x"), TypeError, "expected a joint such as Revolute"),
        (lambda b: b.add_closure("left", "left", "right", Prismatic("x")), ValueError, "'left' is taken"),
        (lambda b: b.add_closure("pin", "left", "left", Fixed()), ValueError, "both sides"),
        (lambda b: b.add_closure("pin", "left", "middle", Fixed()), ValueError, "middle"),
        (lambda b: [b.add_closure("pin", "left", "right", Fixed()) for _ in range(2)], ValueError, "taken"),
        (lambda b: b.add_closure("pin", "left", "right", Fixed(), ASIDE), ValueError, "'pin': the 3 .* rank 2"),
        (lambda b: b.add_closure("pin", "left", "world", Revolute("y")), ValueError, "'pin': constrains nothing"),
    ],
)
def test_refused_closures(call, error, message):
    builder = two_bars()
    with pytest.raises(error, match=message):
        call(builder)
        builder.build()


def test_a_continuous_joint_closes_as_a_revolute_one():
    for joint in (Revolute("y"), Continuous("y")):
        builder = two_bars()
        builder.add_body("bar", "left", joint, (np.eye(3), [0.0, 0.0, 0.5]), 1.0, inertia=0.1 * np.eye(3))
        builder.add_closure("pin", "bar", "right", joint, (np.eye(3), [1.0, 0.0, 0.0]), (np.eye(3), [0.0, 0.0, 0.5]))
        model = builder.build()
        assert model.constraint_count == 2 and assemble(model, [0.1, -0.1, 0.2]).converged


def test_chains_that_cannot_be_closed():
    found = assemble(far_tips().model)
    assert not found.converged and found.error > 1.0


def rope(modes=14, points=22, length=1.2, radius=2e-3) -> SoftRobot:
    """A rope between two pins a metre apart, which bends alone; straight at q = 0."""
    builder = RodModelBuilder()
    basis = LegendreBasis(bending_y=modes)
    builder.add_rod("rope", "world", length, Circular(radius), SOFT, basis, joint=Revolute("y"), points=points)
    builder.add_closure("pin", "rope", "world", Revolute("y"), None, (np.eye(3), [1.0, 0.0, 0.0]))
    return SoftRobot(builder.build())


@pytest.mark.parametrize("bend", [0.0, 1e-6, -1e-6, 1e-3])
def test_a_straight_rope_is_assembled(bend):
    """It is too long for its span, and no bend draws its ends together to first order."""
    model = rope().model
    q0 = np.zeros(model.nq)
    q0[1] = bend
    found = assemble(model, q0)
    assert found.converged and np.abs(closure_error(model, found.q)).max() <= 1e-12
    kept = assemble(model, q0, ("rope",))
    assert kept.converged and kept.q[0] == q0[0]
    short = assemble(rope(length=0.8).model, q0)
    assert not short.converged and np.isfinite(short.q).all() and short.error == pytest.approx(0.2, abs=1e-6)


def test_a_hinge_that_stands_across_leaves_its_place():
    """One way or the other, which are equally far; the wrong one is named."""
    found = assemble(hinged_ball().model, [np.pi / 2, 0.0, 0.0])
    assert found.error < 1e-12 and found.converged == (not found.reversed_joints)


def sag(robot, rest):
    return -center_lines(robot.model, rest.q, 21)["rope"].points[10, 2]


def test_a_slack_rope_hangs():
    """Every method finds it from the straight shape: the catenary, but for what bending stiffness leaves, which is in
    proportion to the radius squared."""
    a = brentq(lambda a: 2.0 * a * np.sinh(0.5 / a) - 1.2, 0.1, 5.0)
    errors = []
    for radius in (4e-3, 2e-3):
        robot = rope(20, 40, radius=radius)
        rest = static_equilibrium(robot, [])
        assert rest.converged and rest.stable and np.abs(closure_error(robot.model, rest.q)).max() <= 1e-12
        assert rest.status.startswith("converged by descent; Newton's method: ")
        errors.append(a * (np.cosh(0.5 / a) - 1.0) - sag(robot, rest))
        for method in ("descent", "loading"):
            same = static_equilibrium(robot, [], method=method)
            assert same.status == "converged" and sag(robot, same) == pytest.approx(sag(robot, rest), abs=1e-9)
    assert abs(errors[1]) < 2e-5 and errors[0] / errors[1] == pytest.approx(4.0, rel=0.1)


def test_descent_refuses_no_step_of_its_own():
    """One in which a rod turns by more than can be told is one too far; it is not the caller's q0."""
    robot, rng, starts = rope(4, 5), np.random.default_rng(0), 0
    for _ in range(12):
        q0 = np.r_[0.0, rng.normal(size=robot.nq - 1) * rng.choice([2.0, 5.0])]
        rest = static_equilibrium(robot, [], q0, method="descent")
        assert np.isfinite(rest.q).all() and rest.converged == (rest.status == "converged")
        starts += rest.converged
    assert starts > 4


def test_joints_closed_the_wrong_way_round():
    """Half a turn of a hinge's axis satisfies its constraints, but is no assembly."""
    model = hinged_ball().model
    assert model.constraint_count == 2 and assemble(model).converged
    found = assemble(model, [np.pi, 0.0, 0.0])
    assert not found.converged and found.error < 1e-12 and found.reversed_joints == ("hinge",)


# ------------------------------------------------------------------------------------------------ singular
SINGULAR = [
    (far_tips, [0.0] * 4, "rank 1 here, expected 2; .* closure 'tips' is open by 3: `assemble` finds"),
    (parallelogram, [np.pi / 2, np.pi / 2, -np.pi / 2], "rank 1 here, .* the chains are closed: choose another"),
    (hinged_ball, [np.pi / 2, 0.0, 0.0], "rank 1 here, .* closure 'hinge' is open by 1: `assemble` finds"),
]
"""Open chains, bars in line, and a hinge whose axis stands across its place."""


@pytest.mark.parametrize(("make", "q", "message"), SINGULAR)
@pytest.mark.parametrize("rate", [0.0, 1.0])
def test_chains_that_determine_no_accelerations(make, q, message, rate):
    """They say so, in whatever way accelerations are asked for; a little beside, there are some."""
    robot, v = make(), np.full(len(q), rate)
    with pytest.raises(ValueError, match=f"q: the 2 constraints of closed chains have {message}"):
        robot.forward_dynamics(q, v, [])
    with pytest.raises(ValueError, match=r"q\[1\]: the 2 constraints"):
        robot.forward_dynamics_derivatives([np.add(q, 0.2), q], v, [])
    beside = np.add(q, np.linspace(0.1, 0.2, len(q)))
    assert np.isfinite(robot.forward_dynamics(beside, v, [])).all()
    assert all(np.isfinite(block).all() for block in robot.forward_dynamics_derivatives(beside, v, []))


@pytest.mark.parametrize("method", ["bdf", "newmark"])
def test_no_motion_starts_where_there_are_no_accelerations(method):
    make, q, _ = SINGULAR[1]
    with pytest.raises(ValueError, match="q0: the 2 constraints of closed chains have rank 1 here"):
        simulate(make(), 0.1, [], q0=q, method=method)


def test_joints_that_move_no_mass():
    builder = RodModelBuilder()
    builder.add_body("idle", "world", Revolute("z"))
    with pytest.raises(ValueError, match="point 0 has no finite accelerations: 'idle rz' moves no mass"):
        SoftRobot(builder.build()).forward_dynamics([0.0], [0.0], [])
