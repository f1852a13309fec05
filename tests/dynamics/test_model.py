"""The model's arrays and attributes, against the reference robots and by their own definitions."""

import pickle

import numpy as np
import pytest

from dynamics.model import joints
from dynamics.model.builder import ModelBuilder
from dynamics.model.joints import Continuous, Fixed, FreeFlyer, Planar, Prismatic, Revolute, Spherical, Translation
from dynamics.model.model import check_configuration
from tests.reference.rigid_body_models import load_reference


def skew(w):
    return np.array([[0, -w[2], w[1]], [w[2], 0, -w[0]], [-w[1], w[0], 0]])


def quaternion_rotation(quaternion):
    """R = I + 2 w [u]x + 2 [u]x^2 for a unit quaternion (u, w)."""
    U = skew(quaternion[:3])
    return np.eye(3) + 2 * quaternion[3] * U + 2 * U @ U


def body_placements(model, q):
    """World placement (R, p) of every moving body, straight from the definitions of the arrays."""
    m = model.arrays
    placements = []
    for i in range(model.nb):
        blocks = m.rotation[i].reshape(3, 3, 3)
        x = q[m.q_index[i] : m.q_index[i] + model.joints[i].nq]
        R, p = blocks[0], m.translation[i].copy()
        kind = m.joint_type[i]
        if kind == joints.REVOLUTE:
            R = blocks[0] + np.cos(x[0]) * blocks[1] + np.sin(x[0]) * blocks[2]
        elif kind == joints.PRISMATIC:
            p += m.joint_axis[i] * x[0]
        elif kind == joints.TRANSLATION:
            p += R @ x
        elif kind == joints.SPHERICAL:
            R = R @ quaternion_rotation(x)
        elif kind == joints.FREE_FLYER:
            p += R @ x[:3]
            R = R @ quaternion_rotation(x[3:])
        else:
            c, s = np.cos(x[2]), np.sin(x[2])
            p += R[:, :2] @ x[:2]
            R = R @ np.array([[c, -s, 0], [s, c, 0], [0, 0, 1]])
        if m.parent[i] >= 0:
            R_parent, p_parent = placements[m.parent[i]]
            R, p = R_parent @ R, R_parent @ p + p_parent
        placements.append((R, p))
    return placements


def mass_matrix(model, q):
    """Sum over bodies of J' I J, with J from the path of dofs to the root; slow."""
    m = model.arrays
    placements = body_placements(model, q)
    M = np.diag(m.armature)
    for i, (R, p) in enumerate(placements):
        linear, angular = np.zeros((3, model.nv)), np.zeros((3, model.nv))  # of the body origin, body axes
        k = m.v_index[i] + m.dof_count[i] - 1
        while k >= 0:
            R_k, p_k = placements[m.dof_body[k]]
            axis = R.T @ R_k @ m.dof_axis[k]
            if m.dof_angular[k]:
                angular[:, k], linear[:, k] = axis, np.cross(axis, R.T @ (p - p_k))
            else:
                linear[:, k] = axis
            k = m.dof_parent[k]
        xx, xy, xz, yy, yz, zz = m.rotational_inertia[i]
        about_origin = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
        coupling = linear.T @ -skew(m.first_moment[i]) @ angular
        M = M + m.mass[i] * linear.T @ linear + coupling + coupling.T + angular.T @ about_origin @ angular
    return M


def close(value, expected, tolerance=1e-12):
    scale = max(np.abs(expected).max(initial=0.0), 1e-300)
    return np.abs(value - expected).max(initial=0.0) <= tolerance * scale


def test_placements_of_reference(reference):
    model, data = reference
    for q, R_ref, p_ref in zip(data["q"], data["oMi_R"], data["oMi_t"], strict=True):
        placements = body_placements(model, q)
        assert close(np.array([R for R, _ in placements]), R_ref[1:])
        assert close(np.array([p for _, p in placements]), p_ref[1:])


def test_frames_of_reference(reference):
    model, data = reference
    for state, q in enumerate(data["q"]):
        placements = [*body_placements(model, q), (np.eye(3), np.zeros(3))]
        for f, name in enumerate(data["frame_names"]):
            frame = model.frame(str(name))
            R, p = placements[frame.body]
            np.testing.assert_allclose(R @ frame.R, data["oMf_R"][state, f], atol=1e-12)
            np.testing.assert_allclose(R @ frame.p + p, data["oMf_t"][state, f], atol=1e-12)


def test_mass_matrix_of_reference(reference):
    model, data = reference
    for q, M in zip(data["q"], data["M"], strict=True):
        assert close(mass_matrix(model, q), M)


def test_center_of_mass_of_reference(reference):
    model, data = reference
    m = model.arrays
    for q, com in zip(data["q"], data["com"], strict=True):
        moments = [
            R @ h + mass * p for (R, p), h, mass in zip(body_placements(model, q), m.first_moment, m.mass, strict=True)
        ]
        assert close(np.sum(moments, axis=0) / model.total_mass, com)


def test_sizes_limits_and_names_of_reference(reference):
    model, data = reference
    assert (model.nq, model.nv, model.nb) == (data["nq"], data["nv"], data["njoints"] - 1)
    assert model.total_mass == pytest.approx(float(data["total_mass"]), rel=1e-14)
    np.testing.assert_array_equal(model.lower_position, data["q_lower"])
    np.testing.assert_array_equal(model.upper_position, data["q_upper"])
    assert np.isinf(model.velocity_limit).all() and np.isinf(model.effort_limit).all()
    np.testing.assert_array_equal(model.gravity, [0, 0, -9.81])
    assert len(model.dof_names) == model.nv == len(set(model.dof_names))
    assert set(data["frame_names"]) <= set(model.frame_names)
    assert all(model.frame_names[model.frame_index(name)] == name for name in model.frame_names)
    assert all(model.joint_index(name) == i for i, name in enumerate(model.joint_names))
    checked, single = check_configuration(model, data["q"])
    assert not single and checked.shape == data["q"].shape


def test_tree_arrays_of_reference(reference):
    model, _ = reference
    m = model.arrays
    assert (m.parent < np.arange(model.nb)).all()
    for k in range(model.nv):
        body, before = m.dof_body[k], m.dof_parent[k]
        inside = k > m.v_index[body]
        expected_body = body if inside else m.parent[body]
        assert (before == -1) == (expected_body == -1)
        assert before == -1 or (m.dof_body[before] == expected_body and before < k)
    for i in range(model.nb):
        subtree = [j for j in range(model.nb) if i in path_to_root(m.parent, j)]
        assert subtree == list(range(i, i + len(subtree))), "a subtree is one run of numbers"
        assert m.subtree_mass[i] == pytest.approx(m.mass[subtree].sum(), rel=1e-14)


def path_to_root(parent, body):
    path = []
    while body >= 0:
        path.append(body)
        body = parent[body]
    return path


def test_arrays_are_contiguous_and_typed(reference):
    model, _ = reference
    integers = {
        "parent", "joint_type", "q_index", "v_index", "dof_count", "dof_parent", "dof_body", "dof_angular",
        "last_child", "subtree_end", "spring_dof",
    }  # fmt: skip
    for name, array in model.arrays._asdict().items():
        assert array.flags.c_contiguous
        assert array.dtype == (np.int64 if name in integers else np.float64), name


def small_builder():
    builder = ModelBuilder(name="small")
    builder.add_body("cart", "world", Prismatic("x"), joint_name="rail", mass=2.0, lower=-1, upper=1.5, velocity=3)
    builder.add_body("ball", "cart", Spherical(), mass=1.0, com=(0, 0, -0.5), inertia=np.eye(3), effort=[1, 2, 3])
    builder.add_body(
        "wheel", "cart", Continuous("y"), mass=0.5, inertia=np.eye(3), armature=0.1, damping=0.2, friction=0.3
    )
    return builder


def test_attributes():
    model = small_builder().build()
    assert (model.nq, model.nv, model.nb) == (6, 5, 3)
    assert model.joint_names == ("rail", "ball_joint", "wheel_joint")
    assert model.body_names == ("cart", "ball", "wheel")
    assert model.parent_names == ("world", "cart", "cart")
    assert model.joint_types == ("Prismatic", "Spherical", "Continuous")
    assert model.dof_names == ("rail", "ball_joint[0]", "ball_joint[1]", "ball_joint[2]", "wheel_joint")
    assert (model.joint_nq, model.joint_nv) == ((1, 4, 1), (1, 3, 1))
    assert (model.q_index, model.v_index) == ((0, 1, 5), (0, 1, 4))
    assert model.quaternion_slots == (("ball_joint", 1),)
    assert model.frame_names == ("cart", "rail", "ball", "ball_joint", "wheel", "wheel_joint")
    inf = np.inf
    np.testing.assert_array_equal(model.lower_position, [-1, -inf, -inf, -inf, -inf, -inf])
    np.testing.assert_array_equal(model.upper_position, [1.5, inf, inf, inf, inf, inf])
    np.testing.assert_array_equal(model.velocity_limit, [3, inf, inf, inf, inf])
    np.testing.assert_array_equal(model.effort_limit, [inf, 1, 2, 3, inf])
    np.testing.assert_array_equal(model.armature, [0, 0, 0, 0, 0.1])
    np.testing.assert_array_equal(model.damping, [0, 0, 0, 0, 0.2])
    np.testing.assert_array_equal(model.friction, [0, 0, 0, 0, 0.3])
    assert model.total_mass == 3.5
    assert repr(model) == (
        "RigidBodyModel('small', nq=6, nv=5, total_mass=3.5 kg, "
        "joints=[rail: Prismatic, ball_joint: Spherical, wheel_joint: Continuous])"
    )


def test_model_is_immutable_and_hashed_by_content():
    builder = small_builder()
    model, other = builder.build(), builder.build()
    assert model == other and len({model, other}) == 1
    with pytest.raises(AttributeError):
        model.name = "another"
    with pytest.raises(TypeError):
        model.frames["new"] = model.frames["cart"]
    for array in (model.gravity, model.armature, model.lower_position, model.effort_limit, model.frame("cart").R):
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 0.0


def test_model_survives_pickling():
    model = small_builder().build()
    copy = pickle.loads(pickle.dumps(model))
    assert copy.frame_names == model.frame_names and copy.joints == model.joints
    for array, same in zip(model.arrays, copy.arrays, strict=True):
        np.testing.assert_array_equal(array, same)


@pytest.mark.parametrize(
    ("joint", "euclidean"),
    [
        (Revolute("x"), True),
        (Continuous("y"), True),
        (Prismatic((1, 2, 3)), True),
        (Translation(), True),
        (Planar(), False),
        (Spherical(), False),
        (FreeFlyer(), False),
    ],
)
def test_joint_descriptions(joint, euclidean):
    axes, angular = joint.motion_subspace()
    assert axes.shape == (joint.nv, 3) and angular.shape == (joint.nv,) and angular.dtype == bool
    np.testing.assert_allclose(np.linalg.norm(axes, axis=1), 1.0, rtol=1e-15)
    builder = ModelBuilder()
    builder.add_body("body", "world", joint, mass=1.0, inertia=np.eye(3))
    model = builder.build()
    assert model.is_euclidean is euclidean
    R, p = body_placements(model, joint.neutral())[0]
    np.testing.assert_allclose(R, np.eye(3), atol=1e-15)
    np.testing.assert_array_equal(p, 0)
    assert check_configuration(model, joint.neutral())[1]


@pytest.mark.parametrize("axis", [(0, 0, 1), (0, 0, -2), (1, 0, 0), (0, -1, 0), (1, -2, 3), (-1, 2, -3), (1e-9, 0, -1)])
def test_planar_axis(axis):
    """The body keeps its own frame, and moves in the plane normal to the axis."""
    builder = ModelBuilder()
    R0 = quaternion_rotation(np.array([0.1, 0.5, -0.1, 0.7]) / np.sqrt(0.76))
    inertia, com = np.diag([1.0, 2.0, 2.5]), np.array([0.1, 0.2, 0.3])
    builder.add_body("disk", "world", Planar(axis), placement=(R0, (1, 2, 3)), mass=2.0, com=com, inertia=inertia)
    model = builder.build()
    unit = R0 @ np.array(axis) / np.linalg.norm(axis)
    frame = model.frame("disk")
    for q in ([0, 0, 0], [0.3, -0.4, 1.1]):
        R, p = body_placements(model, np.array(q, dtype=float))[0]
        assert abs(unit @ (R @ frame.p + p - [1, 2, 3])) < 1e-14
        np.testing.assert_allclose(R @ frame.R @ R0.T @ unit, unit, atol=1e-14)
        turn = np.arccos(np.clip((np.trace(R @ frame.R @ R0.T) - 1) / 2, -1, 1))
        assert turn == pytest.approx(q[2], abs=1e-7)
        np.testing.assert_allclose(R @ model.arrays.first_moment[0], 2.0 * R @ frame.R @ com, atol=1e-14)


def test_fixed_joints_lump_inertia_and_keep_frames():
    """One body, given whole or as three parts welded together, is the same model."""
    rng = np.random.default_rng(3)
    Q = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    Q *= np.linalg.det(Q)
    p = rng.normal(size=3)
    builder = ModelBuilder()
    builder.add_body("stand", "world", Fixed(), placement=(Q, p), mass=7.0, inertia=np.eye(3))
    builder.add_body("arm", "stand", Revolute("z"), mass=1.0, com=(0.1, 0, 0), inertia=np.eye(3))
    builder.add_body("tool", "arm", Fixed(), joint_name="mount", placement=(Q, p), mass=2.0, com=(0, 0.2, 0))
    builder.add_body("tip", "tool", Fixed(), placement=(np.eye(3), (0, 0, 1)))
    builder.add_frame("camera", "tip", (Q.T, (0, 1, 0)))
    model = builder.build()
    m = model.arrays
    assert model.body_names == ("arm",) and model.total_mass == 3.0
    tool_com = Q @ [0, 0.2, 0] + p
    np.testing.assert_allclose(m.first_moment[0], np.array([0.1, 0, 0]) + 2.0 * tool_com, rtol=1e-14)
    origin = (
        np.eye(3) + np.diag([0, 0.01, 0.01]) + 2.0 * (tool_com @ tool_com * np.eye(3) - np.outer(tool_com, tool_com))
    )
    np.testing.assert_allclose(m.rotational_inertia[0], origin[np.triu_indices(3)], rtol=1e-13)
    np.testing.assert_allclose(m.joint_axis[0], Q[:, 2], atol=1e-15)
    np.testing.assert_array_equal(m.translation[0], p)
    assert model.frame_names == ("stand", "arm", "arm_joint", "tool", "mount", "tip", "camera")
    assert model.frame("stand").body == -1 and model.frame("tool").body == 0
    np.testing.assert_allclose(model.frame("tip").p, Q @ [0, 0, 1] + p, atol=1e-14)
    np.testing.assert_allclose(model.frame("camera").p, Q @ [0, 1, 1] + p, atol=1e-14)
    np.testing.assert_allclose(model.frame("camera").R, np.eye(3), atol=1e-14)


def test_depth_first_numbering_in_the_order_added():
    builder = ModelBuilder()
    ball = {"joint": Revolute("z"), "mass": 1.0, "inertia": np.eye(3)}
    for name, parent in (("b", "world"), ("a", "b"), ("d", "world"), ("c", "a"), ("e", "b"), ("f", "d")):
        builder.add_body(name, parent, **ball)
    model = builder.build()
    assert model.body_names == ("b", "a", "c", "e", "d", "f")
    assert model.arrays.parent.tolist() == [-1, 0, 1, 0, -1, 4]


def test_joint_named_like_a_link():
    builder = ModelBuilder()
    ball = {"joint": Revolute("z"), "mass": 1.0, "inertia": np.eye(3)}
    builder.add_body("arm", "world", joint_name="hand", **ball)
    builder.add_body("hand", "arm", joint_name="wrist", placement=(np.eye(3), (1, 0, 0)), **ball)
    model = builder.build()
    assert model.frame_names == ("arm", "hand_joint", "hand", "wrist")
    assert model.frame("hand").body == 1 and model.frame("hand_joint").body == 0
    assert model.joint_index("hand") == 0
    builder.add_body("hand_joint", "hand", **ball)
    with pytest.raises(ValueError, match=r"got 'hand' for a body and a joint.*'hand_joint', which is taken"):
        builder.build()


def test_unknown_names_come_with_the_nearest():
    model, _ = load_reference("ur5")
    with pytest.raises(ValueError, match=r"frame: got 'tol0', expected .*; did you mean 'tool0'"):
        model.frame_index("tol0")
    with pytest.raises(ValueError, match="frame: got 'tol0'"):
        model.frame("tol0")
    with pytest.raises(ValueError, match=r"joint: got 'elbow', expected .*; did you mean .*'elbow_joint'"):
        model.joint_index("elbow")
    with pytest.raises(ValueError, match="joint: got 'qqqq', expected one of 'shoulder_pan_joint', "):
        model.joint_index("qqqq")
    with pytest.raises(ValueError, match="joint: got 3"):
        model.joint_index(3)
