"""Reading URDF: small robots written here, malformed files, and Pinocchio on published robots where it is installed."""

import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.transform import Rotation

import dynamics
import trajopt
from dynamics import frame_placement, inverse_kinematics, load_robot
from dynamics.formats.urdf import load_urdf
from dynamics.model.builder import ModelBuilder
from dynamics.model.joints import Continuous, FreeFlyer, Planar, Prismatic, Revolute, Spherical
from tests.reference.mutations import bytes_changed, xml_changed

UNIT_INERTIAL = '<inertial><mass value="1"/><inertia ixx="1" ixy="0" ixz="0" iyy="1" iyz="0" izz="1"/></inertial>'


def link(name, inertial=UNIT_INERTIAL):
    return f'<link name="{name}">{inertial}</link>'


def joint(name, parent, child, kind="revolute", inner='<axis xyz="0 0 1"/>'):
    return f'<joint name="{name}" type="{kind}"><parent link="{parent}"/><child link="{child}"/>{inner}</joint>'


Y_AXIS = '<axis xyz="0 1 0"/>'
ORIGIN = '<origin xyz="1 0 0"/><axis xyz="0 0 1"/>'


def robot(*elements):
    return f'<?xml version="1.0"?>\n<robot name="thing">{"".join(elements)}</robot>'


CRANE = robot(
    link("ground"),
    link("post"),
    link("boom", '<inertial><origin xyz="0.5 0 0.1" rpy="0.3 -0.2 0.7"/><mass value="4"/>'
         '<inertia ixx="0.3" ixy="0.01" ixz="-0.02" iyy="0.5" iyz="0.03" izz="0.6"/></inertial>'),
    link("winch", ""),
    link("hook"),
    joint("slew", "ground", "post", "continuous", '<axis xyz="0 0 2"/><limit effort="50" velocity="2"/>'),
    joint("luff", "post", "boom", "revolute",
          '<origin xyz="0 0 1" rpy="0.1 0.2 0.3"/><axis xyz="0 1 0"/><dynamics damping="0.4" friction="0.5"/>'
          '<limit lower="-1" upper="0.5" effort="30" velocity="1.5"/>'),
    joint("mount", "boom", "winch", "fixed", '<origin xyz="1 0 0"/>'),
    joint("cable", "winch", "hook", "prismatic", '<axis xyz="0 0 -1"/><limit upper="2" effort="9"/>'),
)  # fmt: skip


def rpy_rotation(r, p, y):
    """Rotation about the fixed axes x, y, z in turn, one exponential after the other."""

    def turn(i, j, angle):
        R = np.eye(3)
        R[i, i] = R[j, j] = np.cos(angle)
        R[j, i], R[i, j] = np.sin(angle), -np.sin(angle)
        return R

    return turn(0, 1, y) @ turn(2, 0, p) @ turn(1, 2, r)


def test_crane():
    model = load_urdf(CRANE)
    assert model.name == "thing"
    assert model.joint_names == ("slew", "luff", "cable") and model.body_names == ("post", "boom", "hook")
    assert model.joints == (Continuous("z"), Revolute("y"), Prismatic((0, 0, -1)))
    assert model.frame_names == ("ground", "post", "slew", "boom", "luff", "winch", "mount", "hook", "cable")
    assert model.total_mass == 6.0, "the ground is fixed to the world and does not count"
    np.testing.assert_array_equal(model.lower_position, [-np.inf, -1, 0])
    np.testing.assert_array_equal(model.upper_position, [np.inf, 0.5, 2])
    np.testing.assert_array_equal(model.velocity_limit, [2, 1.5, np.inf])
    np.testing.assert_array_equal(model.effort_limit, [50, 30, 9])
    np.testing.assert_array_equal(model.damping, [0, 0.4, 0])
    np.testing.assert_array_equal(model.friction, [0, 0.5, 0])
    np.testing.assert_array_equal(model.gravity, [0, 0, -9.81])
    m = model.arrays
    R = rpy_rotation(0.1, 0.2, 0.3)
    np.testing.assert_allclose(m.rotation[1].reshape(3, 3, 3)[:2].sum(axis=0), R, atol=1e-15)  # at angle zero
    np.testing.assert_array_equal(m.translation, [[0, 0, 0], [0, 0, 1], [1, 0, 0]])
    com, R = np.array([0.5, 0, 0.1]), rpy_rotation(0.3, -0.2, 0.7)
    central = R @ [[0.3, 0.01, -0.02], [0.01, 0.5, 0.03], [-0.02, 0.03, 0.6]] @ R.T
    origin = central + 4 * (com @ com * np.eye(3) - np.outer(com, com))
    np.testing.assert_allclose(m.first_moment[1], 4 * com)
    np.testing.assert_allclose(m.rotational_inertia[1], origin[np.triu_indices(3)], rtol=1e-14)


def test_floating_base():
    model = load_urdf(CRANE, floating_base=True, gravity=(0, 1, 0))
    assert model.joint_names == ("root_joint", "slew", "luff", "cable") and model.body_names[0] == "ground"
    assert model.joints[0] == FreeFlyer() and (model.nq, model.nv) == (10, 9)
    assert model.total_mass == 7.0 and model.parent_names == ("world", "ground", "post", "boom")
    assert model.frame("root_joint").body == model.frame("ground").body == 0
    np.testing.assert_array_equal(model.gravity, [0, 1, 0])


def test_text_path_and_string_path_are_the_same(tmp_path):
    path = tmp_path / "crane.urdf"
    path.write_bytes(b"\xef\xbb\xbf" + CRANE.encode())
    for source in (path, str(path), "\ufeff\n" + CRANE[CRANE.index("<robot") :]):
        model = load_urdf(source)
        for array, expected in zip(model.arrays, load_urdf(CRANE).arrays, strict=True):
            np.testing.assert_array_equal(array, expected)


def test_children_in_alphabetical_order_of_joint_name():
    model = load_urdf(
        robot(
            *(link(name) for name in "abcdef"),
            joint("j9", "a", "b"),
            joint("j10", "a", "c"),
            joint("z", "c", "d"),
            joint("Z", "b", "e", "fixed"),
            joint("y", "e", "f"),
        )
    )
    assert model.joint_names == ("j10", "z", "j9", "y")
    assert model.arrays.parent.tolist() == [-1, 0, -1, 2]


def test_root_link_may_be_named_world():
    model = load_urdf(robot(link("world"), link("arm"), joint("pivot", "world", "arm")))
    assert model.frame("world").body == -1 and model.frame_names == ("world", "arm", "pivot")
    floating = load_urdf(robot(link("world"), link("arm"), joint("pivot", "world", "arm")), floating_base=True)
    assert floating.arrays.parent.tolist() == [-1, 0]


def test_axis_and_limits_by_default():
    model = load_urdf(robot(link("a"), link("b"), joint("j", "a", "b", inner="")))
    assert model.joints == (Revolute("x"),)
    assert model.lower_position == -np.inf and model.upper_position == np.inf


def test_floating_and_planar_joints():
    text = robot(
        *(link(name) for name in "abcd"),
        joint("fly", "a", "b", "floating", '<origin xyz="1 2 3"/>'),
        joint("slide", "b", "c", "planar", '<axis xyz="0 1 0"/><limit effort="1" velocity="1"/>'),
        joint("tail", "c", "d", "continuous", '<origin xyz="0 0 1"/>'),
    )
    with pytest.warns(
        UserWarning, match="<limit> and <dynamics> of joints of several degrees of freedom, not read: slide"
    ):
        model = load_urdf(text)
    assert model.joints == (FreeFlyer(), Planar("y"), Continuous("x"))
    builder = ModelBuilder()
    body = {"mass": 1.0, "inertia": np.eye(3)}
    builder.add_body("b", "world", FreeFlyer(), placement=(np.eye(3), (1, 2, 3)), **body)
    builder.add_body("c", "b", Planar("y"), **body)
    builder.add_body("d", "c", Continuous("x"), placement=(np.eye(3), (0, 0, 1)), **body)
    for array, expected in zip(model.arrays, builder.build().arrays, strict=True):
        np.testing.assert_array_equal(array, expected)


def test_joints_of_drake():
    """Ball, planar and universal joints, where others have simple ones; the same motion as of theirs."""
    ends = '<parent link="{}"/><child link="{}"/><origin xyz="1 2 3" rpy="0.1 0.2 0.3"/>{}'
    rows = (
        ("ball", "ball", "a", "b", ""), ("gimbal", "universal", "b", "c", ""), ("plane", "planar", "c", "d", Y_AXIS),
    )  # fmt: skip
    joints = (
        f'<drake:joint name="{name}" type="{kind}">{ends.format(*inner)}</drake:joint>' for name, kind, *inner in rows
    )
    text = robot(*(link(name) for name in "abcd"), *joints)
    model = load_urdf(text)
    assert model.joints == (Spherical(), Revolute("x"), Revolute("y"), Planar("y"))
    assert model.joint_names == ("ball", "gimbal[0]", "gimbal[1]", "plane")
    R = rpy_rotation(0.1, 0.2, 0.3)
    q = np.concatenate([[0.0, 0.0, 0.0, 1.0], [0.4, -0.7], np.zeros(3)])
    turned = R @ R @ rpy_rotation(0.4, 0.0, 0.0) @ rpy_rotation(0.0, -0.7, 0.0)
    np.testing.assert_allclose(frame_placement(model, q, "c").R, turned, atol=1e-14)


def test_a_robot_without_inertias_has_kinematics():
    """Files that serve for kinematics often have none; what needs them says so, with a body."""
    text = robot(*(link(name, "") for name in "abc"), joint("j", "a", "b"), joint("k", "b", "c", inner=ORIGIN))
    model = load_urdf(text)
    for other in load_robot(text, inertias="as_given"), load_robot(text, inertias="repaired"), model.locked():
        assert other == model
    assert model.is_kinematic and not load_urdf(CRANE).is_kinematic
    q, zero, place = np.array([0.3, 0.2]), np.zeros(2), [np.cos(0.3), np.sin(0.3), 0.0]
    np.testing.assert_allclose(frame_placement(model, q, "c").p, place, atol=1e-15)
    assert np.isfinite(dynamics.frame_jacobian(model, q, "c")).all()
    assert np.isfinite(dynamics.frame_velocity(model, q, q, "c")).all()
    assert inverse_kinematics(model, {"c": place}).reached
    for call in (
        lambda: dynamics.inverse_dynamics(model, q, zero, zero), lambda: dynamics.mass_matrix(model, q),
        lambda: dynamics.forward_dynamics(model, q, zero, zero), lambda: dynamics.gravity_forces(model, q),
        lambda: dynamics.forward_dynamics_derivatives(model, q, zero, zero),
        lambda: dynamics.kinetic_energy(model, q, zero), lambda: dynamics.RigidBodySystem(model, 0.01),
        lambda: dynamics.JointTorques(dynamics.JointAccelerationSystem(model, 0.01)),
        lambda: dynamics.ControlGravity(model), lambda: dynamics.Impact(model, ["c"]),
    ):  # fmt: skip
        with pytest.raises(ValueError, match="model: got 'thing', without mass and inertia of body 'c' and of all"):
            call()
    assert not model.with_body("tool", "c", mass=1.0, com=(1.0, 0.0, 0.0)).is_kinematic


def test_a_problem_of_a_robot_without_inertias_is_solved():
    text = robot(*(link(name, "") for name in "abc"), joint("j", "a", "b"), joint("k", "b", "c", inner=ORIGIN))
    model = load_urdf(text)
    system = dynamics.JointAccelerationSystem(model, 0.05)
    reach = trajopt.ResidualCost(dynamics.FrameTranslation(model, "c", [0.6, 0.8, 0.0]), 1e4)
    still = trajopt.StateCost(system, np.zeros(4), [0.0, 0.0, 1e2, 1e2])
    problem = trajopt.Problem(system, np.zeros(4), 10, [trajopt.ControlCost(1e-4)], [reach, still])
    solution = trajopt.DDP().solve(problem)
    assert solution.converged and solution.explain() and str(problem)
    assert system.center_of_mass is None and system.solids() == ()  # of pictures
    u = solution.policy()(0.12, solution.xs[2])
    assert u.shape == (2,) and np.isfinite(u).all()
    np.testing.assert_allclose(frame_placement(model, solution.xs[-1, :2], "c").p, [0.6, 0.8, 0.0], atol=1e-3)


def test_mimic_joints_follow_others():
    """Also those that stand before them, or follow others in turn; on fixed joints the element means nothing."""
    follow = '<mimic joint="{}" multiplier="-2" offset="0.1"/>'.format
    joints = joint("j", "a", "b", inner=follow("k")), joint("k", "b", "c", inner=follow("l")), joint("l", "c", "d")
    model = load_urdf(robot(*(link(n) for n in "abcd"), *joints))
    assert model.joint_names == ("l",) and model.full.joint_names == ("j", "k", "l")
    np.testing.assert_allclose(model.full_configuration([0.3]), [-2 * (-2 * 0.3 + 0.1) + 0.1, -2 * 0.3 + 0.1, 0.3])
    still = joint("j", "a", "b", kind="fixed", inner=follow("k")), joint("k", "b", "c")
    assert load_urdf(robot(*(link(n) for n in "abc"), *still)).mimics == ()
    with pytest.warns(UserWarning, match="independent joints: <joint name='j'> <mimic>: attribute 'joint': got 'k'"):
        assert load_urdf(robot(*(link(n) for n in "ab"), joint("j", "a", "b", inner=follow("k")))).mimics == ()
    with pytest.raises(ValueError, match=r"<joint name='.'> <mimic>: source: joints .* mimic each other"):
        load_urdf(robot(*map(link, "abc"), joint(*"jab", inner=follow("k")), joint(*"kbc", inner=follow("j"))))


def test_placeholder_inertia_of_a_fixed_link_is_a_warning_and_of_a_moving_one_an_error():
    placeholder = UNIT_INERTIAL.replace('izz="1"', 'izz="3"')
    parts = link("a"), link("b"), link("c", placeholder), joint("j", "a", "b")
    with pytest.warns(UserWarning, match="no body can have the inertia given for 'c'"):
        load_urdf(robot(*parts, joint("k", "b", "c", "fixed")))
    with pytest.raises(ValueError, match=r"body 'c': inertia, .*triangle inequality"):
        load_urdf(robot(*parts, joint("k", "b", "c")))


def test_origins_by_quaternions():
    """Of any length; in joints, inertials and shapes alike."""
    turn = 'rpy="0.3 -0.2 0.7"'
    x, y, z, w = 2.0 * Rotation.from_euler("xyz", [0.3, -0.2, 0.7]).as_quat()
    body = UNIT_INERTIAL.replace('ixx="1"', 'ixx="0.5"').replace("<mass", f"<origin {turn}/><mass")
    shape = f'<collision><origin xyz="1 0 0" {turn}/><geometry><sphere radius="1"/></geometry></collision>'
    text = robot(
        link("a"), link("b", body + shape), joint("j", "a", "b", inner=f'<origin {turn} xyz="0 1 0"/>')
    )  # fmt: skip
    model, expected = load_urdf(text.replace(turn, f'quat_xyzw="{x} {y} {z} {w}"')), load_urdf(text)
    for array, other in zip(model.arrays, expected.arrays, strict=True):
        np.testing.assert_allclose(array, other, atol=1e-14)
    np.testing.assert_allclose(model.geometries[0].R, expected.geometries[0].R, atol=1e-14)
    for bad, words in (("0 0 0 0", "a quaternion of length one"), ("1 0 0", "4 finite numbers")):
        with pytest.raises(ValueError, match=f"<origin>: attribute 'quat_xyzw' is '{bad}', expected {words}"):
            load_urdf(text.replace(turn, f'quat_xyzw="{bad}"'))
    with pytest.raises(ValueError, match="<origin>: got both attributes 'rpy' and 'quat_xyzw'"):
        load_urdf(text.replace(turn, f'{turn} quat_xyzw="{x} {y} {z} {w}"'))


def test_prefixes_need_no_declaration():
    text = CRANE.replace('effort="50"', 'effort="50" xacro:note="x"').replace("<mass", "<drake:m/><mass")
    with pytest.warns(UserWarning, match=r"<inertial> <drake:m> \(and 3 like it\), .* attribute 'xacro:note'"):
        assert load_urdf(text) == load_urdf(CRANE)


def test_rotors_and_gears_of_transmissions():
    """As in Drake: rotor inertia times the square of the gear ratio, which is one by default."""
    part = '<transmission name="t"><type>x</type><joint name="{}"/><actuator name="m">{}</actuator></transmission>'
    rotor, gear = '<drake:rotor_inertia value="0.001"/>', '<drake:gear_ratio value="50"/>'

    def crane(*parts):
        return load_urdf(CRANE.replace("</robot>", "".join(part.format(*each) for each in parts) + "</robot>"))

    np.testing.assert_allclose(crane(("slew", rotor + gear), ("cable", rotor), ("luff", gear)).armature, [2.5, 0, 1e-3])
    for joint_name, inner in (("mount", rotor), ("no", rotor), ("slew", rotor + rotor), ("slew", rotor + gear + gear)):
        with pytest.warns(UserWarning, match="other than one motor on one joint.*<transmission name='t'"):
            assert not crane((joint_name, inner)).armature.any()
    with pytest.raises(ValueError, match="<transmission name='t'> <drake:rotor_inertia>: attribute 'value' is 'x'"):
        crane(("slew", rotor.replace("0.001", "x")))


GAZEBO = '<gazebo reference="luff">{}</gazebo>'
UNKNOWN = {
    "<gazebo reference='luff'> <springStiffness>": ("</robot>", GAZEBO.format("<springStiffness>5</springStiffness>")),
    "<gazebo> <joint name='close'>": ("</robot>", '<gazebo><joint name="close"/></gazebo>'),
    "<gazebo reference='luff'> <gravity>": ("</robot>", GAZEBO.format("<gravity>false</gravity>")),
    "<mujoco> <option> attribute 'gravity'": ("</robot>", '<mujoco><option gravity="0 0 -1.62"/></mujoco>'),
    "<joint name='luff'> <origin> attribute 'rpj'": ('xyz="0 0 1" rpy="0.1 0.2 0.3"', 'rpj="1 0 0"'),
    "<joint name='luff'> <dinamics>": ("<dynamics", "<dinamics"),
    "<joint name='luff'> <dynamics> attribute 'K'": ("<dynamics", '<dynamics K="7000"'),
    "<robot> attribute 'nam'": ("<robot", '<robot nam="x"'),
    "<joint name='luff'> <dynamics>": ("<dynamics", "<dynamics/><dynamics"),
    "<link name='hook'> <contact> <inertia_scaling>": (
        link("hook"), link("hook", UNIT_INERTIAL + '<contact><stiffness/><inertia_scaling value="3"/></contact>')
    ),
    "<loop_joint name='x'>": ("</robot>", '<loop_joint name="x"/>'),
    "<joint name='luff'> <drake:damping>": ("<dynamics", "<drake:damping/><dynamics"),
}  # fmt: skip


@pytest.mark.parametrize("words", UNKNOWN)
def test_what_is_not_read_is_named(words):
    old, new = UNKNOWN[words]
    assert old in CRANE
    text = CRANE.replace(old, new + ("</robot>" if old == "</robot>" else ""))
    with pytest.warns(UserWarning) as said:
        load_urdf(text)
    message = "URDF 'thing': not read, though it may change how the robot moves: "
    assert [str(each.message) for each in said] == [message + words]


def test_what_moves_nothing_is_not_named():
    gazebo = "<gravity>1</gravity><material>Blue</material><mu1>0.2</mu1><plugin name='p'><any/></plugin><sensor:x/>"
    extra = (
        GAZEBO.format(gazebo), '<material name="m"><color rgba="0 0 0 1"/></material>', "<sensor><a/></sensor>",
        '<transmission name="t"><joint name="luff"><mechanicalReduction>9</mechanicalReduction></joint></transmission>',
        '<ros2_control name="c"><joint name="luff"><param name="x">1</param></joint></ros2_control>',
        '<mujoco><compiler meshdir="here"/></mujoco>',
    )  # fmt: skip
    inner = '<calibration rising="0"/><safety_controller soft_lower_limit="0"/><dynamics'
    text = CRANE.replace("<robot", '<robot version="1.0" xmlns:drake="http://d"').replace("<dynamics", inner)
    assert load_urdf(text.replace("</robot>", f"{''.join(extra)}</robot>")) == load_urdf(CRANE)


def test_figures_that_other_readers_take():
    cases = {
        "limits of velocity that are -1, read as none: slew": ('velocity="2"', 'velocity="-1"'),
        "limits of effort that are -1, read as none: cable": ('effort="9"', 'effort="-1"'),
        "limits of effort that are 0, read as no torque: cable": ('effort="9"', 'effort="0"'),
        "limits of velocity that are 0, read as no motion: slew": ('velocity="2"', 'velocity="0"'),
        "ranges of zero, as the format takes a <limit> without lower and upper, in which the joint cannot move: "
        "cable": ('<limit upper="2"', "<limit"),
        "ranges of zero, in which the joint cannot move: luff": ('lower="-1"', 'lower="0.5"'),
        "without <mass> and <inertia>, read as no mass: <link name='winch'> <inertial>": (
            link("winch", ""), link("winch", '<inertial><origin xyz="1 2 3"/></inertial>')
        ),
        "without <inertia>, read as point masses: <link name='hook'> <inertial>": (
            link("hook"), link("hook", '<inertial><origin xyz="1 2 3"/><mass value="2"/></inertial>')
        ),
    }  # fmt: skip
    models = []
    for words, change in cases.items():
        with pytest.warns(UserWarning) as said:
            models.append(load_urdf(replaced(*change)))
        assert [str(each.message) for each in said] == [f"URDF 'thing': {words}"]
    assert models[0].velocity_limit[0] == models[1].effort_limit[2] == np.inf
    assert models[2].effort_limit[2] == models[3].velocity_limit[0] == 0.0
    assert models[4].lower_position[2] == models[4].upper_position[2] == 0.0 and models[6] == load_urdf(CRANE)
    assert models[7].total_mass == 7.0
    np.testing.assert_array_equal(models[7].arrays.first_moment[2], [2, 4, 6])
    with pytest.raises(ValueError, match="body 'post': velocity: got -2"):
        load_urdf(replaced('velocity="2"', 'velocity="-2"'))


def test_scales_of_meshes_with_four_numbers():
    shape = '<visual><geometry><mesh filename="x.stl" scale="1 2 3 4"/></geometry></visual>'
    with pytest.warns(UserWarning, match="four numbers, read as the first three: <link name='hook'> <visual>"):
        model = load_urdf(replaced(link("hook"), link("hook", UNIT_INERTIAL + shape)))
    np.testing.assert_array_equal(model.geometries[0].shape.scale, [1, 2, 3])


def test_a_joint_of_the_name_that_the_root_would_have():
    own = joint("root_joint", "a", "b", "fixed"), joint("root_joint_", "b", "c", "continuous")
    model = load_urdf(robot(*map(link, "abc"), *own), floating_base=True)
    assert model.joint_names == ("root_joint__", "root_joint_") and model.nv == 7


def test_what_stands_before_the_declaration(tmp_path):
    path = tmp_path / "crane.urdf"
    for before in (b"\n", b" \r\n\t", b"\xef\xbb\xbf\n"):
        path.write_bytes(before + CRANE.encode())
        assert load_urdf(path) == load_urdf(CRANE)


def replaced(old, new):
    assert old in CRANE
    return CRANE.replace(old, new)


A, B, C = link("a"), link("b"), link("c")
MALFORMED = [
    ("<robot", "not well-formed XML"),
    ("<robot><link></robot>", "not well-formed XML"),
    ("<sdf/>", "the root element is <sdf>, expected <robot>"),
    ("<robot name='x'/>", "<robot>: there is no <link>"),
    (robot(A), "got an empty model"),
    (robot("<link/>"), "<link>: attribute 'name' is missing"),
    (robot(A, A), "<link name='a'>: there are two of this name"),
    (robot(A, B, C, joint("j", "a", "b"), joint("j", "b", "c")), "<joint name='j'>: there are two of this name"),
    (
        robot(A, B, joint("j", "a", "bb")),
        "<joint name='j'> <child>: attribute 'link': got 'bb', expected .*; did you mean 'b'",
    ),
    (
        robot(A, B, joint("j", "q", "b")),
        "<joint name='j'> <parent>: attribute 'link': got 'q', expected one of 'a', 'b'",
    ),
    (
        robot(A, B, joint("j", "a", "b").replace('<parent link="a"/>', "")),
        "<joint name='j'>: element <parent> is missing",
    ),
    (
        robot(A, B, joint("j", "a", "b").replace(' link="b"', "")),
        "<joint name='j'> <child>: attribute 'link' is missing",
    ),
    (
        robot(A, B, joint("j", "a", "b", "hinge")),
        "<joint name='j'>: attribute 'type' is 'hinge', expected one of revolute",
    ),
    (robot(A, B, joint("j", "a", "b").replace('type="revolute"', "")), "<joint name='j'>: attribute 'type' is missing"),
    (
        robot(A, B, C, joint("j", "a", "c"), joint("k", "b", "c")),
        "<link name='c'>: is the child of two joints, 'j' and 'k'",
    ),
    (robot(A, B, joint("j", "a", "b"), joint("k", "b", "a")), "<robot>: got a loop of joints, for every link"),
    (
        robot(A, B, C, joint("j", "b", "c"), joint("k", "c", "b")),
        "<robot>: got a loop of the joints that carry links 'b', 'c'",
    ),
    (robot(A, B, joint("j", "a", "a")), "root links|got a loop"),
    (robot(A, B, C, joint("j", "a", "b")), "<robot>: got the root links 'a', 'c'"),
    (replaced('xyz="0 1 0"', 'xyz="0 0 0"'), "<joint name='luff'> <axis>: attribute 'xyz' is zero"),
    (
        replaced('xyz="0 1 0"', 'xyz="0 1"'),
        "<joint name='luff'> <axis>: attribute 'xyz' is '0 1', expected 3 finite numbers",
    ),
    (replaced('xyz="0 1 0"', ""), "<joint name='luff'> <axis>: attribute 'xyz' is missing"),
    (
        replaced('rpy="0.1 0.2 0.3"', 'rpy="0.1 nan 0.3"'),
        "<joint name='luff'> <origin>: attribute 'rpy' is '0.1 nan 0.3'",
    ),
    (
        replaced('lower="-1"', 'lower="${low}"'),
        "<joint name='luff'> <limit>: attribute 'lower' is '\\${low}', expected a fin",
    ),
    (replaced('lower="-1"', 'lower="1"'), "body 'boom': lower: got 1.0, above upper, 0.5"),
    (replaced('damping="0.4"', 'damping="-4"'), "body 'boom': damping: got -4"),
    (replaced('effort="30"', 'effort="inf"'), "<joint name='luff'> <limit>: attribute 'effort' is 'inf'"),
    (replaced('<mass value="4"/>', ""), "'boom'> <inertial>: element <mass> is missing, expected <mass value="),
    (replaced('<mass value="4"/>', '<density value="7"/>'), "got <density>.* expected <mass value="),
    (replaced("</robot>", '<drake:joint name="x" type="screw"/></robot>'), "<drake:joint name='x'>: .* of ball"),
    (replaced("</robot>", '<drake:joint name="luff" type="ball"/></robot>'), "name='luff'>: there are two"),
    (replaced('value="4"', ""), "<link name='boom'> <inertial> <mass>: attribute 'value' is missing"),
    (replaced('value="4"', 'value="-4"'), "body 'boom': mass: got -4"),
    (replaced('ixy="0.01"', ""), "<link name='boom'> <inertial> <inertia>: attribute 'ixy' is missing"),
    (replaced('ixx="0.3"', 'ixx="-0.3"'), "body 'boom': inertia, with what is fixed to the body: .* none negative"),
    (replaced(link("hook"), link("hook", "")), "body 'hook': mass: got zero mass on a moving body"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "message"), MALFORMED)
def test_malformed(text, message):
    with pytest.raises(ValueError, match=message):
        load_urdf(text)


def test_entities_are_refused():
    undeclared = '<!DOCTYPE robot SYSTEM "robot.dtd"><robot>&unknown;</robot>'
    bomb = '<!DOCTYPE robot [<!ENTITY a "aaaaaaaa"><!ENTITY b "&a;&a;&a;&a;">]><robot name="&b;"/>'
    external = '<!DOCTYPE robot [<!ENTITY secret SYSTEM "file:///etc/hostname">]><robot name="&secret;"/>'
    for text in (bomb, external, undeclared):
        with pytest.raises(ValueError, match="XML entities and external references are refused"):
            load_urdf(text)


def test_no_such_file(tmp_path):
    for path in ("no such robot.urdf", tmp_path / "missing.urdf", "x" * 10000, "null\0character", ""):
        with pytest.raises(FileNotFoundError, match="there is no file"):
            load_urdf(path)


def test_a_file_that_is_no_xml(tmp_path):
    for content in (b"", b"robot", b"\x00\xff\xfe", b'<?xml version="1.0" encoding="no-such"?><robot/>'):
        path = tmp_path / "robot.urdf"
        path.write_bytes(content)
        with pytest.raises(ValueError, match=r"robot\.urdf': not well-formed XML"):
            load_urdf(path)


def test_long_chains_do_not_recurse():
    n = 1500
    links = [link(f"l{i}") for i in range(n + 1)]
    joints = [joint(f"j{i}", f"l{i}", f"l{i + 1}") for i in range(n)]
    assert load_urdf(robot(*links, *joints)).nv == n


def calls_of(function, argument):
    """How many calls of functions it takes."""
    count = 0

    def note(frame, event, what):
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(note)
    try:
        function(argument)
    finally:
        sys.setprofile(None)
    return count


def test_large_robots_load_in_linear_time():
    """With joints that follow others and rotors: as many calls for each link more."""
    motor = '<actuator name="m"><drake:rotor_inertia value="1"/></actuator>'

    def tree(n):
        follow = '<axis xyz="0 1 0"/><mimic joint="j0"/>', '<axis xyz="1 0 0"/>'
        joints = (joint(f"j{i}", f"l{i // 2}", f"l{i + 1}", inner=follow[i % 3 != 1]) for i in range(n))
        motors = (f'<transmission><joint name="j{i}"/>{motor}</transmission>' for i in range(n))
        return robot(*(link(f"l{i}") for i in range(n + 1)), *joints, *motors)

    load_urdf(tree(5))
    counts = [calls_of(load_urdf, tree(n)) for n in (200, 400, 800)]
    assert counts[2] - counts[1] < 2.02 * (counts[1] - counts[0])


def test_names_of_files_of_any_length(tmp_path):
    """No system takes a name of 300 letters: such a mesh, or package, is one that is not found."""
    path = tmp_path / "crane.urdf"
    for name in ("x" * 300 + ".stl", f"package://{'p' * 300}/x.stl", "file://" + "y" * 5000, "a/" * 3000 + "b.obj"):
        shape = f'<visual><geometry><mesh filename="{name}"/></geometry></visual>'
        path.write_text(replaced(link("hook"), link("hook", UNIT_INERTIAL + shape)))
        assert load_urdf(path, package_dirs=tmp_path).geometries[0].shape.path == name


@given(cut=st.integers(0, len(CRANE) - 1), insert=st.text(max_size=8), skip=st.integers(0, 30))
def test_damaged_text_builds_or_raises_a_value_error(cut, insert, skip):
    text = CRANE[:cut] + insert + CRANE[cut + skip :]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        try:
            model = load_urdf(text)
        except (ValueError, FileNotFoundError):
            return
    assert all(np.isfinite(array).all() for array in model.arrays)


def test_changed_files_are_read_or_refused(rng, tmp_path):
    """Attributes, elements and lines replaced, left out, moved and doubled; bytes changed."""
    path, refused = tmp_path / "changed.urdf", 0
    content = CRANE.replace("><", ">\n<").encode()
    for what, changed in [*xml_changed(content, rng, 150), *bytes_changed(content, rng, 50)]:
        path.write_bytes(changed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                model = load_urdf(path)
            except ValueError:
                refused += 1
                continue
        q = np.concatenate([joint.neutral() for joint in model.joints])
        for frame in model.frame_names:
            assert np.isfinite(frame_placement(model, q, frame).p).all(), what
    assert refused > 100


def published_robots():
    """URDF files of the package example_robot_data, a few that cover the joint types."""
    package = pytest.importorskip("example_robot_data")
    robots = Path(package.__file__).resolve()
    for folder in robots.parents:
        found = folder / "share" / "example-robot-data" / "robots"
        if found.is_dir():
            return found
    pytest.skip("example_robot_data has no robots folder")


@pytest.mark.peer
@pytest.mark.parametrize("floating_base", [False, True])
@pytest.mark.parametrize(
    "file",
    [
        "ur_description/urdf/ur5_robot.urdf",
        "panda_description/urdf/panda.urdf",
        "solo_description/robots/solo12.urdf",
        "talos_data/robots/talos_reduced.urdf",
        "double_pendulum_description/urdf/double_pendulum_continuous.urdf",
    ],
)
@pytest.mark.filterwarnings("ignore:no body can have|.*not read, though|.*limits of .* 0:UserWarning")
def test_published_robots_as_pinocchio_reads_them(file, floating_base):
    pin = pytest.importorskip("pinocchio")
    path = published_robots() / file
    if not path.exists():
        pytest.skip(f"{file} is not in this version of example_robot_data")
    model = load_urdf(path, floating_base=floating_base).full
    peer = pin.buildModelFromUrdf(str(path), *([pin.JointModelFreeFlyer()] if floating_base else []))
    assert model.joint_names == tuple(peer.names)[1:] and model.nv == peer.nv
    m = model.arrays
    np.testing.assert_array_equal(m.parent, np.array(peer.parents)[1:] - 1)
    for i, inertia in enumerate(list(peer.inertias)[1:]):
        com, mass = inertia.lever, inertia.mass
        origin = inertia.inertia + mass * (com @ com * np.eye(3) - np.outer(com, com))
        assert m.mass[i] == pytest.approx(mass, rel=1e-13)
        np.testing.assert_allclose(m.first_moment[i], mass * com, atol=1e-13 * max(mass, 1))
        np.testing.assert_allclose(
            m.rotational_inertia[i], origin[np.triu_indices(3)], atol=1e-12 * np.abs(origin).max()
        )
    for frame in list(peer.frames)[1:]:
        if frame.type == pin.BODY:
            ours = model.frame(frame.name)
            assert ours.body == frame.parentJoint - 1
            np.testing.assert_allclose(ours.R, frame.placement.rotation, atol=1e-12)
            np.testing.assert_allclose(ours.p, frame.placement.translation, atol=1e-12)
    np.testing.assert_allclose(model.velocity_limit[6 * floating_base :], peer.velocityLimit[6 * floating_base :])
