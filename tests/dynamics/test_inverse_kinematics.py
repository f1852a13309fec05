"""Configurations for frames to be somewhere: by forward kinematics, on robots of every kind; what is missed is said."""

import dataclasses

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

import dynamics
import problems
from dynamics import ik
from problems import five_bar
from problems.humanoid_model import FEET, humanoid, standing
from tests.reference.random_robots import random_rotation, random_tree
from tests.tolerances import CENTRAL_DIFFERENCES, relative_error

UPPER, LOWER = 0.5, 0.3
LINK = {"mass": 1.0, "inertia": 0.1 * np.eye(3)}


def two_links(**limits):
    builder = dynamics.ModelBuilder(name="two links")
    builder.add_body("upper", "world", dynamics.Revolute("z"), **LINK, **limits)
    at = np.eye(3), (UPPER, 0.0, 0.0)
    builder.add_body("lower", "upper", dynamics.Revolute("z"), placement=at, **LINK, **limits)
    builder.add_frame("tip", "lower", (np.eye(3), (LOWER, 0.0, 0.0)))
    return builder.build()


def six_axes(reach=3.1):
    """The kinematics of UR5's data sheet, rounded to cm, and limits each way, rad."""
    builder = dynamics.ModelBuilder(name="six axes")
    links = [  # axis, place of the joint in its parent
        ("z", (0.0, 0.0, 0.09)), ("y", (0.0, 0.14, 0.0)), ("y", (0.0, -0.12, 0.43)), ("y", (0.0, 0.0, 0.39)),
        ("z", (0.0, 0.09, 0.0)), ("y", (0.0, 0.0, 0.09)),
    ]  # fmt: skip
    parent = "world"
    for i, (axis, place) in enumerate(links):
        limits = {"lower": -reach, "upper": reach}
        builder.add_body(f"link {i}", parent, dynamics.Revolute(axis), placement=(np.eye(3), place), **LINK, **limits)
        parent = f"link {i}"
    builder.add_frame("tool", parent, (Rotation.from_euler("x", -90, degrees=True).as_matrix(), (0.0, 0.08, 0.0)))
    return builder.build()


def with_shapes(robot, *shapes):
    builder = dynamics.ModelBuilder(name=robot.name)
    builder.add_model(robot)
    for body, shape in shapes:
        builder.add_geometry(body, shape)
    return builder.build()


def assert_within(model, q):
    assert (model.lower_position <= q).all() and (q <= model.upper_position).all()


def assert_at(model, q, targets):
    for frame, place in targets.items():
        now = dynamics.frame_placement(model, q, frame)
        R, p = place if isinstance(place, tuple) else (None, place)
        assert p is None or np.abs(now.p - p).max() < 1e-6
        assert R is None or np.linalg.norm(Rotation.from_matrix(R.T @ now.R).as_rotvec()) < 1e-6


# ------------------------------------------------------------------------------------------------ targets in reach
@pytest.mark.parametrize("make", [six_axes, lambda: dynamics.load_urdf(problems.model_path("arm6"))])
def test_poses_that_random_configurations_have(make, rng):
    """An arm of six joints reaches all of these, within its limits, from the neutral configuration."""
    robot = make()
    for _ in range(25):
        targets = {"tool": tuple(dynamics.frame_placement(robot, dynamics.random_configuration(robot, rng), "tool"))}
        found = dynamics.inverse_kinematics(robot, targets)
        assert found.reached and not found.missed
        assert_at(robot, found.q, targets)
        assert_within(robot, found.q)


def test_poses_of_an_arm_whose_joints_turn_twice(rng):
    """All that a UR10 can reach, from the neutral configuration, and with limits of half a turn."""
    for reach in 2.0 * np.pi, np.pi:
        robot = six_axes(reach)
        qs = rng.uniform(-reach, reach, (40, 6))
        reached = 0
        for R, p in zip(*dynamics.frame_placement(robot, qs, "tool"), strict=True):
            found = dynamics.inverse_kinematics(robot, {"tool": (R, p)})
            reached += found.reached
            assert_within(robot, found.q)
        assert reached == len(qs)


@pytest.mark.parametrize("name", ["six axes", "two links", "fingers", "a finger"])
def test_compiled_searches_find_what_bounded_ones_find(name, rng, monkeypatch):
    """From starts near the target, for positions, rotations and both, where some joints are fixed or at limits."""
    robots = {"six axes": six_axes, "two links": lambda: two_links(lower=-2.0, upper=2.0)}
    robot = robots[name]() if name in robots else led_gripper()
    frame = {"six axes": "tool", "two links": "tip", "fingers": "palm", "a finger": "left"}[name]
    turns = Rotation.from_rotvec(0.2 * rng.standard_normal((6, 3))).as_matrix()
    for k, turn in enumerate(turns):
        q = dynamics.random_configuration(robot, rng)
        fixed = robot.joint_names[:1] if k % 2 and robot.nv > 2 else ()
        R, p = dynamics.frame_placement(robot, q, frame)
        near = np.clip(q + 0.15 * rng.standard_normal(robot.nq), robot.lower_position, robot.upper_position)
        near[: len(fixed)] = q[: len(fixed)]
        for place in p, (R, None), (R, p), (R @ turn, p + 3.0):  # the last is out of reach
            compiled = dynamics.inverse_kinematics(robot, {frame: place}, near, fixed=fixed, tries=2)
            with monkeypatch.context() as bounded:
                bounded.setattr(ik, "_damped", lambda *_: None)
                other = dynamics.inverse_kinematics(robot, {frame: place}, near, fixed=fixed, tries=2)
            assert compiled.reached or not other.reached
            assert_within(robot, compiled.q)
            np.testing.assert_array_equal(compiled.q[: len(fixed)], near[: len(fixed)])
            if compiled.reached and other.reached and other.tries == 1:
                assert_at(robot, compiled.q, {frame: place})
                moved, before = (np.linalg.norm(found.q - near) for found in (compiled, other))
                assert moved <= 1.05 * before + 1e-6


def test_kinds_of_targets(rng):
    robot = six_axes()
    q = dynamics.random_configuration(robot, rng)
    (R, p), wrist = dynamics.frame_placement(robot, q, "tool"), dynamics.frame_placement(robot, q, "link 4").p
    for place in (p, list(p), (R, p), (R, None)):
        assert_at(robot, dynamics.inverse_kinematics(robot, {"tool": place}).q, {"tool": place})
    both = {"tool": (R, None), "link 4": wrist}
    assert_at(robot, dynamics.inverse_kinematics(robot, both).q, both)


def test_near_where_it_begins(rng):
    """What reaches already stays; and of all that reach, no other is much nearer, by first-order optimality."""
    robot = six_axes()
    q0 = np.array([0.3, 0.4, 0.8, -0.5, 0.2, 0.1])
    p = dynamics.frame_placement(robot, q0, "tool").p
    stays = dynamics.inverse_kinematics(robot, {"tool": p}, q0)
    assert np.abs(stays.q - q0).max() < 1e-9 and stays.tries == 1
    found = dynamics.inverse_kinematics(robot, {"tool": p + [0.05, 0.03, -0.04]}, q0)
    J = dynamics.frame_jacobian(robot, found.q, "tool")[:3]
    moved = found.q - q0
    along = moved - np.linalg.pinv(J) @ (J @ moved)  # of the motion, what the target leaves free
    assert found.reached and np.linalg.norm(along) < 0.05 * np.linalg.norm(moved)


def test_the_same_seed_the_same_answer(rng):
    robot = six_axes()
    place = tuple(dynamics.frame_placement(robot, np.array([0.5, 2.9, -2.0, 1.0, 3.0, -2.5]), "tool"))
    one, same = (dynamics.inverse_kinematics(robot, {"tool": place}) for _ in range(2))
    assert np.array_equal(one.q, same.q) and one.tries == same.tries
    seeded = [dynamics.inverse_kinematics(robot, {"tool": place}, rng=np.random.default_rng(7)).q for _ in range(2)]
    assert np.array_equal(*seeded)


# ------------------------------------------------------------------------------------------------ limits
def test_out_of_reach_is_said_with_the_distance():
    robot = two_links()
    for place in ([1.2, 0.5, 0.0], [0.05, -0.1, 0.0], [0.3, 0.4, 0.25]):
        found = dynamics.inverse_kinematics(robot, {"tip": place}, q0=[0.2, 0.3])
        x, y, z = place
        across = max(np.hypot(x, y) - (UPPER + LOWER), (UPPER - LOWER) - np.hypot(x, y), 0.0)
        assert not found.reached and found.tries > 1
        assert abs(found.missed["tip"].distance - np.hypot(across, z)) < 1e-6 and found.missed["tip"].angle == 0.0
        assert f"missed='tip by {np.hypot(across, z):.3g} m'" in repr(found)


def test_far_targets_and_starts():
    """Numbers that overflow are refused, those that do not are none too large."""
    robot = two_links()
    assert dynamics.inverse_kinematics(robot, {"tip": [1e8, 0.0, 0.0]}, tries=1).missed["tip"].distance > 0.9e8
    assert dynamics.inverse_kinematics(robot, {"tip": [0.3, 0.4, 0.0]}, q0=[1e6, 0.5]).reached
    with pytest.raises(ValueError, match=r"targets\['tip'\]: got 1e\+100 as an entry, expected at most 1e\+09"):
        dynamics.inverse_kinematics(robot, {"tip": [1e100, 0.0, 0.0]})
    with pytest.raises(ValueError, match=r"q0: got 1e\+300 as an entry"):
        dynamics.inverse_kinematics(robot, {"tip": [0.3, 0.4, 0.0]}, q0=[0.0, 1e300])


def test_frames_of_the_world():
    """Nothing moves them: they are there, or they are missed."""
    builder = dynamics.ModelBuilder()
    builder.add_model(two_links())
    builder.add_frame("post", "world", (np.eye(3), (1.0, 0.0, 0.0)))
    robot = builder.build()
    assert dynamics.inverse_kinematics(robot, {"post": [1.0, 0.0, 0.0]}).reached
    assert dynamics.inverse_kinematics(robot, {"post": [1.0, 0.0, 0.5]}).missed["post"].distance == pytest.approx(0.5)


def test_a_rotation_out_of_reach():
    """A planar arm turns about its axis alone."""
    robot = two_links()
    tilted = Rotation.from_euler("x", 0.3).as_matrix()
    found = dynamics.inverse_kinematics(robot, {"tip": (tilted, None)})
    assert found.missed.keys() == {"tip"} and abs(found.missed["tip"].angle - 0.3) < 1e-6
    assert "tip by 0.3 rad" in repr(found)


def test_a_target_at_the_end_of_reach():
    """Where the Jacobian is singular."""
    found = dynamics.inverse_kinematics(two_links(), {"tip": [0.0, UPPER + LOWER, 0.0]}, q0=[0.2, 0.3])
    assert found.reached and abs(found.q[1]) < 1e-2


def test_limits_of_joints():
    """They decide which way the elbow bends, and what is out of reach; without them neither."""
    place = [0.3, 0.4, 0.0]
    for bound, sign in (({"lower": -0.1, "upper": 3.0}, 1.0), ({"lower": -3.0, "upper": 0.1}, -1.0)):
        robot = two_links(**bound)
        found = dynamics.inverse_kinematics(robot, {"tip": np.array(place) * (1.0, sign, 1.0)}, tries=3)
        assert found.reached and sign * found.q[1] > 0.0
        assert_within(robot, found.q)
    narrow = two_links(lower=-0.2, upper=0.2)
    found = dynamics.inverse_kinematics(narrow, {"tip": place}, tries=3)
    assert_within(narrow, found.q)
    best = min(
        np.linalg.norm(dynamics.frame_placement(narrow, [a, b], "tip").p - place)
        for a in np.linspace(-0.2, 0.2, 41) for b in np.linspace(-0.2, 0.2, 41)
    )  # fmt: skip
    assert abs(found.missed["tip"].distance - best) < 1e-6  # at a corner
    assert dynamics.inverse_kinematics(narrow, {"tip": place}, q0=[0.1, 0.15], limits=False).reached
    crossed = dataclasses.replace(narrow, lower_position=np.array([0.5, -0.2]))
    with pytest.raises(ValueError, match=r"limits: got lower_position\[0\] = 0\.5, upper_position\[0\] = 0\.2, exp"):
        dynamics.inverse_kinematics(crossed, {"tip": place})


def test_ranges_of_zero_are_said():
    robot = two_links(lower=0.5, upper=0.5)
    for fixed, names in ((), "'upper_joint', 'lower_joint'"), (("upper_joint",), "'lower_joint'"):
        with pytest.raises(ValueError, match=rf"limits: got ranges of zero, .* for {names}, expected a joint that may"):
            dynamics.inverse_kinematics(robot, {"tip": [0.3, 0.4, 0.0]}, fixed=fixed)
    assert dynamics.inverse_kinematics(robot, {"tip": [0.3, 0.4, 0.0]}, limits=False).reached


def test_fixed_joints_stay():
    robot = six_axes()
    q0 = np.array([0.3, 0.4, 0.8, -0.5, 0.2, 0.1])
    p = dynamics.frame_placement(robot, q0 + [0.0, 0.2, -0.1, 0.0, 0.3, 0.2], "tool").p
    found = dynamics.inverse_kinematics(robot, {"tool": p}, q0, fixed=["link 0_joint", "link 3_joint"])
    assert found.reached and np.array_equal(found.q[[0, 3]], q0[[0, 3]])
    with pytest.raises(ValueError, match=r"fixed: got .*, expected a joint that may move"):
        dynamics.inverse_kinematics(robot, {"tool": p}, q0, fixed=robot.joint_names)


# ------------------------------------------------------------------------------------------------ robots of every kind
def test_a_humanoid_on_its_feet_reaches_with_a_hand():
    robot, q0 = humanoid(), standing()
    feet = {foot: tuple(dynamics.frame_placement(robot, q0, foot)) for foot in FEET}
    hand = dynamics.frame_placement(robot, q0, "left_hand").p
    targets = {**feet, "left_hand": hand + [0.2, 0.0, -0.3]}
    found = dynamics.inverse_kinematics(robot, targets, q0)
    assert found.reached
    assert_at(robot, found.q, targets)
    assert np.abs(found.q[:3] - q0[:3]).max() > 0.02
    near = {**feet, "left_hand": hand + [0.05, 0.0, 0.05]}
    stands = dynamics.inverse_kinematics(robot, near, q0, fixed=["floating_base"])
    assert stands.reached and np.array_equal(stands.q[:7], q0[:7])
    turned = {FEET[0]: (Rotation.from_euler("z", 2.5).as_matrix(), feet[FEET[0]][1])}
    assert_at(robot, dynamics.inverse_kinematics(robot, turned, q0).q, turned)


def test_a_closed_chain_stays_closed():
    robot = five_bar.model()
    loop, q0 = five_bar.loop(robot), five_bar.reaching(robot, five_bar.START)
    for point in (five_bar.GOAL, [0.05, 0.0, 0.3]):
        found = dynamics.inverse_kinematics(robot, {"left_hand": point}, q0, loops=[loop])
        assert found.reached
        assert_at(robot, found.q, {"left_hand": point, "right_hand": point})
        np.testing.assert_allclose(found.q, five_bar.reaching(robot, np.array(point)), rtol=0, atol=1e-6)
    far, center = np.array([0.05, 0.0, 0.8]), np.array([-0.5 * five_bar.GROUND, 0.0, 0.0])
    found = dynamics.inverse_kinematics(robot, {"left_hand": far}, q0, loops=[loop], tries=3)
    away = np.linalg.norm(far - center) - (five_bar.UPPER + five_bar.FORE)  # of the left arm; the right one reaches
    assert found.missed.keys() == {"left_hand"} and abs(found.missed["left_hand"].distance - away) < 1e-5
    hands = [dynamics.frame_placement(robot, found.q, f"{side}_hand").p for side in ("left", "right")]
    assert np.abs(hands[0] - hands[1]).max() < 1e-9
    own = with_loop(robot)
    again = dynamics.inverse_kinematics(own, {"left_hand": five_bar.GOAL}, q0)
    assert again.reached
    assert_at(own, again.q, {"right_hand": five_bar.GOAL})


def with_loop(robot):
    """The loop as one of the model."""
    builder = dynamics.ModelBuilder(name=robot.name)
    builder.add_model(robot)
    builder.add_loop("left_hand", "right_hand")
    return builder.build()


def test_a_loop_that_does_not_close_is_said():
    builder = dynamics.ModelBuilder()
    builder.add_model(two_links())
    builder.add_frame("wall", "world", (np.eye(3), (0.0, 1.0, 0.0)))
    builder.add_loop("tip", "wall")
    robot = builder.build()
    found = dynamics.inverse_kinematics(robot, {"lower": [0.0, UPPER, 0.0]}, q0=[1.0, 0.3], tries=2)
    assert found.missed.keys() == {"tip - wall"} and abs(found.missed["tip - wall"].distance - 0.2) < 1e-6


def gripper():
    """Fingers that share a coordinate, on an arm in the plane."""
    builder = dynamics.ModelBuilder(name="gripper")
    builder.add_body("palm", "world", dynamics.Planar(), **LINK)
    for name, low, high in (("left", 0.0, 0.04), ("right", -0.04, 0.0)):
        builder.add_body(name, "palm", dynamics.Prismatic("y"), lower=low, upper=high, **LINK)
    builder.add_geometry("right", dynamics.Sphere(0.01))
    return builder


def led_gripper():
    builder = gripper()
    builder.add_mimic("right_joint", "left_joint", -1.0)
    return builder.build()


def test_joints_that_follow_others_and_couplings():
    places = {"left": [1.0, 2.03, 0.0], "right": [1.0, 1.97, 0.0]}
    coupled = gripper()
    coupled.add_coupling({"right_joint": 1.0, "left_joint": 1.0})
    for robot in (led_gripper(), coupled.build()):
        found = dynamics.inverse_kinematics(robot, places)
        assert found.reached
        assert_at(robot, found.q, places)
        apart = {"left": [1.0, 2.05, 0.0], "right": [1.0, 1.95, 0.0]}
        wide = dynamics.inverse_kinematics(robot, apart, tries=2)
        assert all(abs(wide.missed[finger].distance - 0.01) < 1e-6 for finger in apart)
        one = {"left": [1.0, 2.03, 0.0], "right": [1.0, 2.0, 0.0], "palm": [1.0, 2.0, 0.0]}
        both = dynamics.inverse_kinematics(robot, one, tries=2)  # the coupling holds where targets contradict it
        left, right = (dynamics.frame_placement(robot, both.q, finger).p[1] for finger in ("left", "right"))
        assert not both.reached
        palm = dynamics.frame_placement(robot, both.q, "palm").p[1]
        assert abs(left + right - 2.0 * palm) < 1e-6


def test_avoid():
    """A ball where the elbow would be: it bends the other way; one at the target: the tip stays out and says so."""
    robot = with_shapes(two_links(), ("tip", dynamics.Sphere(0.05)), ("lower", dynamics.Sphere(0.05)))
    place, q0 = [0.3, 0.4, 0.0], [0.3, 1.8]
    straight = dynamics.inverse_kinematics(robot, {"tip": place}, q0)
    elbow = dynamics.frame_placement(robot, straight.q, "lower").p
    avoid = dynamics.Collisions(robot, {"ball": (dynamics.Sphere(0.1), elbow)}, margin=0.01)
    around = dynamics.inverse_kinematics(robot, {"tip": place}, q0, avoid=avoid)
    assert straight.reached and around.reached and np.sin(around.q[1]) * np.sin(straight.q[1]) < 0.0
    before, now = (avoid.distances(np.concatenate([found.q, np.zeros(2)])[None]).min() for found in (straight, around))
    assert before < 0.0 and now > 0.01 - 1e-6
    shut = dynamics.Collisions(robot, {"ball": (dynamics.Sphere(0.1), place)}, margin=0.01)
    out = dynamics.inverse_kinematics(robot, {"tip": place}, q0, avoid=[shut], tries=4)
    assert out.missed.keys() == {"tip"} and abs(out.missed["tip"].distance - 0.16) < 1e-5
    touching = dynamics.Collisions(robot, {"plate": (dynamics.Sphere(0.3), [UPPER, 0.0, 0.0])}, margin=0.0)
    held = dynamics.inverse_kinematics(
        robot, {"tip": [0.8, 0.0, 0.0]}, [0.0, 0.0], fixed=["upper_joint"], avoid=touching, tries=2
    )
    assert {"lower_0 - plate"} <= held.missed.keys()  # nothing could move it away


def test_avoid_with_joints_that_follow_others():
    builder = gripper()
    builder.add_mimic("right_joint", "left_joint", -1.0)
    robot = builder.build()
    wall = dynamics.Collisions(robot, {"wall": (dynamics.Sphere(0.1), [1.0, 1.9, 0.0])})
    targets = {"left": [1.0, 2.03, 0.0], "palm": [1.0, 2.02, 0.0]}
    found = dynamics.inverse_kinematics(robot, targets, avoid=wall)
    assert found.reached
    low = {"left": [1.0, 2.03, 0.0], "right": [1.0, 1.97, 0.0]}
    found = dynamics.inverse_kinematics(robot, low, avoid=wall)
    assert not found.reached and wall.distances(np.concatenate([found.q, np.zeros(robot.nv)])[None]).min() > -1e-6


# ------------------------------------------------------------------------------------------------ derivatives
def test_rows_against_differences(rng):
    """Joints of every kind, turned far from where they begin: targets, a loop, a coupling, distances."""
    kinds = ["free flyer", "revolute", "spherical", "planar", "prismatic", "translation", "revolute"]
    tree = random_tree(kinds, [-1, 0, 1, 2, 0, 4, 5], rng)
    builder = dynamics.ModelBuilder()
    builder.add_model(tree)
    names = tree.body_names
    builder.add_coupling({tree.joint_names[1]: 1.0, tree.joint_names[6]: -0.7}, 0.2)
    builder.add_loop(names[3], names[6], "hinge")
    builder.add_geometry(names[3], dynamics.Sphere(2.0))
    builder.add_geometry(names[5], dynamics.Capsule(1.5, [0.0, 0.0, 0.0], [0.1, 0.2, 0.3]))
    robot = builder.build()
    infinite = np.full(robot.nq, np.inf)
    chart = ik._Chart(robot, dynamics.random_configuration(robot, rng), -infinite, infinite, [robot.joint_names[4]])
    targets = {names[3]: (random_rotation(rng), rng.normal(size=3)), names[5]: rng.normal(size=3)}
    avoid = dynamics.Distance(robot, [(robot.geometries[0], robot.geometries[1])], margin=1.0)
    rows = ik._Rows(chart, ik._places(robot, targets), [avoid], ik._loops(robot, []))
    y, h = chart.start.copy(), 1e-5
    y[chart.free] += rng.uniform(-1.0, 1.0, chart.free.size)
    r, J = rows.at(y, 2.0)
    assert np.abs(r[-1]) > 0.0 and J.shape == (9 + 6 + 1 + 1, robot.nv - 1)
    for column, k in enumerate(chart.free):
        ends = [rows.at(y + sign * h * np.eye(robot.nv)[k], 2.0)[0] for sign in (1.0, -1.0)]
        assert relative_error(J[:, column], (ends[0] - ends[1]) / (2.0 * h)) < CENTRAL_DIFFERENCES
    back = chart.coordinates(chart.configuration(y))
    np.testing.assert_allclose(back, y, rtol=0, atol=1e-12)
