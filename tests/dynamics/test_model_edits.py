"""Robots made of others: joints locked, payloads, several in one model."""

import inspect

import numpy as np
import pytest

import dynamics
from dynamics import Fixed, FreeFlyer, ModelBuilder, Revolute, combine
from dynamics.model.edits import builder_of
from tests.reference.random_robots import KINDS, random_inertia, random_rotation, random_states, random_tree
from tests.tolerances import IDENTITY, relative_error

BALL = dynamics.Sphere(0.1)
TURNED = BALL, (np.ones((3, 3)), np.zeros(3))
NO_SHAPES = (BALL, "ball", None, [None], [1.0], [(BALL,)], [(1.0, (0.0, 0.0, 0.0))])
TREE = list(KINDS), [-1, 0, 1, 1, 3, 4, -1]


@pytest.fixture
def tree(rng):
    """Joints of all kinds, with frames anywhere and figures of all joints."""
    builder = builder_of(random_tree(*TREE, rng))
    builder.add_frame("tip", "body 5", (random_rotation(rng), rng.normal(size=3)))
    builder.add_frame("marker", "world", (random_rotation(rng), rng.normal(size=3)))
    builder.add_body("tail", "tip", Fixed(), joint_name="weld", mass=0.2, com=rng.normal(size=3))
    return builder.build()


def assert_same_motion(model, other, q, v, a):
    assert model.joint_names == other.joint_names
    assert (
        relative_error(dynamics.inverse_dynamics(other, q, v, a), dynamics.inverse_dynamics(model, q, v, a)) < IDENTITY
    )
    assert set(model.frame_names) == set(other.frame_names)
    for frame in model.frame_names:
        for here, there in zip(
            dynamics.frame_placement(model, q, frame), dynamics.frame_placement(other, q, frame), strict=True
        ):
            assert relative_error(there, here, 1.0) < IDENTITY


def test_a_builder_goes_on_from_a_robot_of_all_joints(tree, rng):
    again = builder_of(tree).build()
    assert_same_motion(tree, again, *random_states(tree, 5, rng))
    for figure in ("lower_position", "upper_position", "velocity_limit", "effort_limit", "armature", "damping"):
        np.testing.assert_array_equal(getattr(again, figure), getattr(tree, figure))
    assert builder_of(again).build().frame_names == again.frame_names


@pytest.mark.parametrize(
    "names", [["body 1_joint", "body 3_joint"], ["body 0_joint"], ["body 4_joint", "body 5_joint"]]
)
def test_locked_joints_are_those_that_do_not_move(tree, rng, names):
    q, v, a = (x[0] for x in random_states(tree, 1, rng))
    moving = np.ones(tree.nv, dtype=bool)
    kept = np.ones(tree.nq, dtype=bool)
    lock = {}
    for name in names:
        i = tree.joint_index(name)
        nq = slice(tree.q_index[i], tree.q_index[i] + tree.joint_nq[i])
        lock[name] = q[nq]
        kept[nq] = False
        moving[tree.v_index[i] : tree.v_index[i] + tree.joint_nv[i]] = False
    model = tree.locked(lock)
    assert model.joint_names == tuple(name for name in tree.joint_names if name not in names)
    tau = dynamics.inverse_dynamics(tree, q, np.where(moving, v, 0.0), np.where(moving, a, 0.0))
    assert relative_error(dynamics.inverse_dynamics(model, q[kept], v[moving], a[moving]), tau[moving]) < IDENTITY
    assert set(model.frame_names) == set(tree.frame_names)
    for frame in tree.frame_names:
        assert (
            relative_error(
                dynamics.frame_placement(model, q[kept], frame).p, dynamics.frame_placement(tree, q, frame).p, 1.0
            )
            < IDENTITY
        )
    assert model.total_mass + model.base_inertia.mass == pytest.approx(tree.total_mass + tree.base_inertia.mass)


def test_joints_not_kept_are_neutral(tree, rng):
    model = tree.locked({"body 5_joint": [0.1, -0.2, 0.3]}, keep=["body 0_joint", "body 4_joint", "body 6_joint"])
    assert model.joint_names == ("body 0_joint", "body 4_joint", "body 6_joint")
    q = dynamics.neutral(tree)
    i = tree.q_index[tree.joint_index("body 5_joint")]
    q[i : i + 3] = 0.1, -0.2, 0.3
    for frame in tree.frame_names:
        here, there = (
            dynamics.frame_placement(model, dynamics.neutral(model), frame),
            dynamics.frame_placement(tree, q, frame),
        )
        assert relative_error(here.p, there.p, 1.0) < IDENTITY
        assert relative_error(here.R, there.R, 1.0) < IDENTITY


def test_a_payload_weighs_what_its_points_weigh(tree, rng):
    """tau grows by J'm (a_p - g) of a point mass at p."""
    p = rng.normal(size=3)
    model = tree.with_body("payload", "tip", placement=(random_rotation(rng), p), mass=1.7)
    marked = builder_of(tree)
    marked.add_frame("load", "tip", (np.eye(3), p))
    marked = marked.build()
    q, v, a = random_states(tree, 4, rng)
    frame = "load", "local_world_aligned"
    J = dynamics.frame_jacobian(marked, q, *frame)[:, :3]
    acceleration = dynamics.frame_acceleration(marked, q, v, a, *frame)[:, :3] - tree.gravity
    grown = dynamics.inverse_dynamics(tree, q, v, a) + 1.7 * np.einsum("kij,ki->kj", J, acceleration)
    assert relative_error(dynamics.inverse_dynamics(model, q, v, a), grown) < IDENTITY
    assert model.total_mass == pytest.approx(tree.total_mass + 1.7)


def test_a_payload_with_shapes_is_seen(rng):
    """By collisions at once, in its place, as by a builder and its shapes."""
    arm = ModelBuilder()
    arm.add_body("arm", "world", Revolute("y"), mass=1.0, inertia=0.1 * np.eye(3))
    arm.add_frame("tip", "arm", (np.eye(3), [1.0, 0.0, 0.0]))
    arm.add_geometry("arm", dynamics.Sphere(0.1))
    arm = arm.build()
    R, p = random_rotation(rng), rng.normal(size=3)
    block, at = dynamics.Box([0.1, 0.2, 0.3]), (random_rotation(rng), rng.normal(size=3))
    shapes = [dynamics.Sphere(0.05), (dynamics.Sphere(0.02), [0.0, 0.0, 0.3]), (block, at)]
    loaded = arm.with_body("payload", "tip", placement=(R, p), mass=2.0, geometry=shapes)
    written = builder_of(arm)
    written.add_body("payload", "tip", Fixed(), placement=(R, p), mass=2.0)
    written.add_geometry("payload", shapes[0])
    written.add_geometry("payload", dynamics.Sphere(0.02), (np.eye(3), [0.0, 0.0, 0.3]))
    written.add_geometry("payload", block, at)
    assert loaded.geometries == written.build().geometries
    assert [shape.name for shape in loaded.geometries] == ["arm_0", "payload_0", "payload_1", "payload_2"]
    ball = [1.0, 0.0, 0.0] + p + [0.5, 0.0, 0.0]
    avoid = dynamics.Collisions(loaded, {"ball": (dynamics.Sphere(0.1), ball)}, smoothing=0.0)
    at_once = dict(zip(avoid.component_names, avoid.distances(np.zeros((1, 2)))[0], strict=True))
    assert at_once["payload_0 - ball"] == pytest.approx(0.5 - 0.15)


def test_with_body_takes_what_a_builder_takes():
    """One by one, for `help`, with the same defaults."""
    here, there = (inspect.signature(f).parameters for f in (dynamics.RigidBodyModel.with_body, ModelBuilder.add_body))
    assert list(here) == [*there, "geometry"]
    assert all(here[name].default == there[name].default for name in there if name != "joint")
    assert all(f"{name}" in (dynamics.RigidBodyModel.with_body.__doc__ or "") for name in here if name != "self")


def gripper(builder, parent, prefix="", placement=None):
    """A base that is fixed, and a finger."""
    rng = np.random.default_rng(7)
    mass, com, inertia = random_inertia(rng)
    builder.add_body(f"{prefix}palm", parent, Fixed(), placement=placement, mass=mass, com=com, inertia=inertia)
    mass, com, inertia = random_inertia(rng)
    builder.add_body(
        f"{prefix}finger", f"{prefix}palm", Revolute([1.0, 2.0, 0.5]), placement=(np.eye(3), [0.1, 0.0, 0.2]),
        mass=mass, com=com, inertia=inertia, lower=-1.0, upper=0.5, damping=0.3,
    )  # fmt: skip
    builder.add_frame(f"{prefix}nail", f"{prefix}finger", (np.eye(3), [0.0, 0.0, 0.1]))


def test_a_robot_on_a_robots_frame_brings_its_base_along(tree, rng):
    alone = ModelBuilder()
    gripper(alone, "world")
    alone = alone.build()
    assert alone.base_inertia.mass > 0.0
    placement = random_rotation(rng), rng.normal(size=3)
    mounted, written = builder_of(tree), builder_of(tree)
    mounted.add_model(alone, "hand/", "tip", placement)
    gripper(written, "tip", "hand/", placement)
    mounted, written = mounted.build(), written.build()
    assert_same_motion(written, mounted, *random_states(written, 5, rng))
    np.testing.assert_array_equal(mounted.upper_position, written.upper_position)
    np.testing.assert_array_equal(mounted.damping, written.damping)
    assert mounted.total_mass == pytest.approx(tree.total_mass + alone.total_mass + alone.base_inertia.mass)


def under_gravity(model, gravity):
    builder = ModelBuilder(gravity)
    builder.add_model(model)
    return builder.build()


def test_robots_beside_each_other_do_not_feel_each_other(rng):
    models = {"left": random_tree(*TREE, rng), "right": random_tree(["free flyer", "revolute"], [-1, 0], rng)}
    models["right"] = under_gravity(models["right"], models["left"].gravity)
    both = combine(models, {"right": (np.eye(3), [0.0, 1.0, 0.0])})
    q, v, a = zip(*(random_states(model, 3, rng) for model in models.values()), strict=True)
    tau = [dynamics.inverse_dynamics(model, *state) for model, *state in zip(models.values(), q, v, a, strict=True)]
    assert relative_error(dynamics.inverse_dynamics(both, *map(np.hstack, (q, v, a))), np.hstack(tau)) < IDENTITY
    here = dynamics.frame_placement(both, np.hstack(q), "right/body 1").p
    assert (
        relative_error(here, dynamics.frame_placement(models["right"], q[1], "body 1").p + [0.0, 1.0, 0.0]) < IDENTITY
    )


def test_a_turned_robot_falls_along_the_worlds_gravity(rng):
    model = random_tree(["revolute", "spherical"], [-1, 0], rng)
    R = random_rotation(rng)
    turned = combine({"a": model}, {"a": (R, rng.normal(size=3))})
    there = under_gravity(model, R.T @ model.gravity)
    q, v, a = random_states(model, 3, rng)
    expected = dynamics.inverse_dynamics(there, q, v, a)
    assert relative_error(dynamics.inverse_dynamics(turned, q, v, a), expected) < IDENTITY


def test_contradictions_are_refused(tree):
    other = ModelBuilder(gravity=(0.0, 0.0, -1.62))
    other.add_body("ball", "world", FreeFlyer(), mass=1.0, inertia=np.eye(3))
    other = other.build()
    hand = ModelBuilder()
    gripper(hand, "world")
    hand = hand.build()
    cases = [
        (lambda: tree.locked({"body 1_joint": 0.0}, keep=["body 1_joint"]), "keep: joint 'body 1_joint' is locked"),
        (lambda: tree.locked({"body 9_joint": 0.0}), "joint: got 'body 9_joint'"),
        (lambda: tree.locked(keep=["body 9_joint"]), "joint: got 'body 9_joint'"),
        (lambda: tree.locked(keep=[]), "the model is empty"),
        (lambda: tree.locked({"body 0_joint": [0.0, 1.0]}), r"lock: joint 'body 0_joint': got shape \(2,\)"),
        (lambda: hand.locked({"finger_joint": 0.7}), r"got \[0.7\], expected between \[-1.0\] and \[0.5\]"),
        (lambda: tree.locked({"body 0_joint": np.nan}), "expected finite numbers"),
        (lambda: tree.with_body("tip", "body 0", mass=1.0), "there already is a frame 'tip'"),
        (lambda: tree.with_body("tool", "tipp", mass=1.0), "did you mean 'tip'"),
        (lambda: tree.with_body("tool", "tip", mass=-1.0), "mass: got -1"),
        (lambda: tree.with_body("tool", "tip", geometry=[(BALL, (0, 0))]), r"geometry\[0\]: position: got shape"),
        (lambda: tree.with_body("tool", "tip", geometry=[BALL, TURNED]), "geometry 'tool_1': placement: .* expected"),
        (lambda: combine({}), "got none"),
        (lambda: combine({"a": hand, "b": other}), "models: got the gravities .*, expected one"),
        (lambda: combine({"a": hand}, {"b": (np.eye(3), np.zeros(3))}), "label in placements: got 'b'"),
        (lambda: builder_of(tree).add_model(tree), "prefix: there already is a"),
    ]
    for call, words in cases:
        with pytest.raises(ValueError, match=words):
            call()
    for call in (
        lambda: tree.locked(["body 0_joint"]),
        lambda: tree.locked(keep="body 0_joint"),
        lambda: combine([hand]),
        *(lambda shapes=shapes: tree.with_body("tool", "tip", geometry=shapes) for shapes in NO_SHAPES),
        lambda: combine({"a": 3}),
        lambda: builder_of(tree).add_model(hand, prefix=3),
    ):
        with pytest.raises(TypeError):
            call()


def test_joints_that_are_tied_together_may_both_be_left_out():
    """The first one that is locked fixes the other, which `keep` does not name either."""
    builder = ModelBuilder()
    for name in "abc":
        builder.add_body(name, "world", Revolute("z"), f"j{name}", mass=1.0, inertia=np.eye(3), lower=-1.0, upper=1.0)
    builder.add_coupling({"ja": 1.0, "jb": -1.0}, offset=0.3)
    model = builder.build()
    assert model.locked(keep=["jc"]).joint_names == model.locked({"jb": 0.1}, keep=["jc"]).joint_names == ("jc",)
    with pytest.raises(ValueError, match=r"lock: joint 'jb': got 0.5, but joints that it is tied to fix it at"):
        model.locked({"ja": 0.0, "jb": 0.5})
