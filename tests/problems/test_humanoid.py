"""The humanoid's figures and symmetry, and what the solutions of its problems keep and reach."""

import numpy as np
import pytest

import dynamics
import problems
import trajopt
from dynamics.gait import reach
from problems import humanoid_reach, humanoid_stand
from problems.humanoid_model import FEET, HANDS, SOLE, humanoid, standing, walker
from trajopt.plotting.scene import bodies_at

NAMES = ("humanoid_reach", "humanoid_stand", "humanoid_step")
NQ = 29


@pytest.fixture(scope="module")
def model():
    return humanoid()


def reflected(q, v):
    """The configuration and velocity of the mirror image: y reversed, left and right exchanged."""
    swap = np.r_[6:12, 0:6, 12, 13, 18:22, 14:18]
    about_y = np.array([axis == "y" for axis in "zxyyyxzxyyyxzyzxzyzxzy"])
    signs = np.where(about_y, 1.0, -1.0)
    q_image = np.r_[q[:3] * [1, -1, 1], q[3:7] * [-1, 1, -1, 1], signs * q[7:][swap]]
    return q_image, np.r_[v[:3] * [1, -1, 1], v[3:6] * [-1, 1, -1], signs * v[6:][swap]]


def test_figures(model):
    assert (model.nq, model.nv, model.nb) == (NQ, 28, 23)
    assert model.total_mass == pytest.approx(95.0, abs=1e-9)
    assert np.isinf(model.effort_limit[:6]).all() and np.isfinite(model.effort_limit[6:]).all()
    q = dynamics.neutral(model)
    soles = [dynamics.frame_placement(model, q, foot).p for foot in FEET]
    assert np.ptp([soles[0][1], soles[1][1]]) == pytest.approx(0.17) and soles[0][2] == pytest.approx(-1.08)


def test_a_mirror_image_has_the_same_dynamics(model, rng):
    q, v = dynamics.random_configuration(model, rng), rng.normal(size=28)
    q_image, v_image = reflected(q, v)
    for force in (lambda q, v: dynamics.mass_matrix(model, q) @ v, lambda q, v: dynamics.bias_forces(model, q, v)):
        expected = reflected(q, force(q, v))[1]
        np.testing.assert_allclose(force(q_image, v_image), expected, rtol=0, atol=1e-12 * np.abs(expected).max())


@pytest.mark.parametrize("knee", [0.1, 0.5, 1.5])
def test_it_stands_on_level_soles_with_its_weight_above_them(model, knee):
    q = standing(knee)
    for foot, left in zip(FEET, (1.0, -1.0), strict=True):
        R, p = dynamics.frame_placement(model, q, foot)
        np.testing.assert_allclose(R, np.eye(3), rtol=0, atol=1e-12)
        np.testing.assert_allclose(p, [-0.02, 0.085 * left, 0.0], rtol=0, atol=1e-12)
    center = dynamics.center_of_mass(model, q)
    assert abs(center[0] + 0.02) < 0.5 * SOLE[0] and abs(center[1]) < 1e-12
    np.testing.assert_array_equal(reflected(q, np.zeros(28))[0], q)


def test_pictures_show_boxes_on_soles_that_touch_the_ground():
    """Each with the inertia of its body, but for soles, which are seen where they stand, and the head."""
    robot = walker()
    model, seen = robot.model, {shape.name: shape for shape in robot.model.geometries}
    assert all(shape.purpose == "visual" for shape in seen.values()) and len(seen) == model.nb + 1
    thigh = seen["left_thigh_0"]
    a, b, c = 2.0 * thigh.shape.half_extents
    np.testing.assert_allclose(thigh.p, model.arrays.first_moment[thigh.body] / 7.0, rtol=0, atol=1e-12)
    assert (a, b, c) == pytest.approx((0.13, 0.18, 0.42))
    system = dynamics.RigidBodySystem(model, 0.02, actuation="floating_base")
    z = bodies_at(system, system.state(robot.standing)[None], True).corners()[0, :, 2]
    assert z.min() == pytest.approx(0.0, abs=1e-12) and z.max() == pytest.approx(1.75, abs=0.05)
    foot = seen["right_sole_0"]
    np.testing.assert_allclose(foot.shape.half_extents[:2], SOLE, rtol=0, atol=1e-12)
    assert foot.p[:2].tolist() == model.frame(FEET[1]).p[:2].tolist()


@pytest.mark.parametrize("knee", [0.0, 2.0, -0.1, np.nan])
def test_knees_out_of_range(knee):
    with pytest.raises(ValueError, match="knee"):
        standing(knee)


def test_legs_reach_their_footholds(rng):
    robot = walker()
    q = np.tile(robot.standing, (5, 1))
    feet = {foot: place + rng.uniform([-0.04, -0.04, 0.01], 0.04, (5, 3)) for foot, place in robot.footholds().items()}
    targets = {foot: (np.tile(np.eye(3), (5, 1, 1)), place) for foot, place in feet.items()}
    bent, _ = reach(robot.model, q, targets)
    assert np.array_equal(bent[:, :7], q[:, :7]) and np.array_equal(bent[:, 19:], q[:, 19:])
    for foot, place in feet.items():
        R, p = dynamics.frame_placement(robot.model, bent, foot)
        assert np.abs(p - place).max() < 1e-12 and np.abs(R - np.eye(3)).max() < 1e-12


# ------------------------------------------------------------------------------------------------ solutions
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("solver", ["ilqr", "parallel"])
def test_solutions_keep_the_limits(name, solver, solved):
    """Torques of motors, wrenches of soles by the forces that the system says, and soles that stay."""
    solution = solved(name, solver)
    problem = solution.problem
    system = problem.system
    assert solution.converged and solution.violation < 1e-7
    lower, upper = problem.control_limits
    assert (solution.us >= lower).all() and (solution.us <= upper).all()
    f, m = (method(solution.xs, solution.us) for method in (system.contact_forces, system.contact_moments))
    assert f[..., 2].min() > -1e-6
    x, y, z = np.moveaxis(f, 2, 0)
    assert (np.hypot(x, y) - 0.6 * z).max() < 0.05, "soles turn by as much as contacts drift"
    assert (np.abs(m[..., 0]) - SOLE[1] * z).max() < 0.05 and (np.abs(m[..., 1]) - SOLE[0] * z).max() < 0.05
    assert np.abs(solution.xs[-1, NQ:]).max() < 0.01, "it comes to rest"


@pytest.mark.parametrize("name", NAMES)
def test_soles_matter(name, solved):
    """Some rows of the cones are reached, and press."""
    pressed = [
        (np.abs(report.values) < 1e-5) & (report.multipliers < -1e-7)
        for report in solved(name, "parallel").constraints
        if report.name.startswith(("wrench", "friction"))
    ]
    assert sum(rows.sum() for rows in pressed) >= 3


def test_the_push_takes_the_pressure_to_the_toes(solved):
    solution = solved("humanoid_stand", "parallel")
    system = solution.problem.system
    v0 = solution.problem.x0[NQ:]
    J = dynamics.center_of_mass_jacobian(system.model, standing())
    np.testing.assert_allclose(J @ v0, humanoid_stand.PUSH, rtol=0, atol=1e-12)
    z = dynamics.zero_moment_point(system, solution.xs, solution.us)
    toes = -0.02 + SOLE[0]
    assert z[:5, 0] == pytest.approx(np.full(5, toes), abs=1e-3) and z[:, 0].max() < toes + 1e-3 and z[-1, 0] < 0.02
    center = system.center_of_mass(solution.xs)
    assert center[:, 0].max() > 0.02 and np.abs(center[-1, :2] - center[0, :2]).max() < 0.01


def test_the_hand_arrives(solved):
    solution = solved("humanoid_reach", "parallel")
    model = solution.problem.system.model
    q = solution.xs[:, :NQ]
    hand = dynamics.frame_placement(model, q, HANDS[0]).p
    assert np.linalg.norm(hand[0] - humanoid_reach.TARGET) > 0.3
    assert np.linalg.norm(hand[-1] - humanoid_reach.TARGET) < 0.01
    assert dynamics.center_of_mass(model, q[-1])[0] > 0.05, "it leans over"


def test_the_step_puts_weight_on_one_sole_and_then_on_the_other(solved):
    solution = solved("humanoid_step", "parallel")
    system = solution.problem.system
    assert system.idle.sum() == 2 and system.contact_frames == FEET
    places = system.contact_points(solution.xs)
    assert np.abs(places[-1] - places[0] - [0.2, 0.0, 0.0]).max() < 2e-3 and (places[..., 2].max(axis=0) > 0.03).all()
    z = dynamics.zero_moment_point(system, solution.xs, solution.us)
    for segment in system.segments:
        if system.durations[segment.start] > 0.0 and len(segment.system.contact_frames) == 1:
            at = FEET.index(segment.system.contact_frames[0])
            way = np.abs(z[segment.start : segment.stop] - places[segment.start, at, :2])
            assert (way < np.array(SOLE) + 1e-3).all()
    assert np.isnan(z[system.idle]).all() and np.isfinite(z[~system.idle]).all()


@pytest.mark.peer
def test_beside_the_published_description(model):
    """Sizes within a few per cent of Talos's; grippers and sensors that its description has make the difference."""
    package = pytest.importorskip("example_robot_data")
    text = package.load("talos").urdf
    peer = dynamics.load_urdf(text, floating_base=True)
    assert model.total_mass == pytest.approx(peer.total_mass, rel=0.07)
    q, p = dynamics.neutral(peer), dynamics.neutral(model)
    foot, sole = (dynamics.frame_placement(peer, q, "left_sole_link").p, dynamics.frame_placement(model, p, FEET[0]).p)
    np.testing.assert_allclose(sole, foot, rtol=0, atol=0.02)
    arm = dynamics.frame_placement(peer, q, "gripper_left_base_link").p
    np.testing.assert_allclose(dynamics.frame_placement(model, p, HANDS[0]).p[:2], arm[:2], rtol=0, atol=0.05)


def test_problems_are_those_of_the_humanoid():
    assert [name for name in problems.names() if name.startswith("humanoid")] == list(NAMES)
    assert all(isinstance(problems.make(name), trajopt.Problem) for name in NAMES)
