"""One entry to robots: which reader a source gets, locks, and Pinocchio's models against Pinocchio."""

import sys
import types
from types import SimpleNamespace

import numpy as np
import pytest

import dynamics
import problems
from dynamics import from_pinocchio, load_robot, load_urdf
from dynamics.algorithms.frames import body_placements
from dynamics.model.body_inertia import BodyInertia, inertia_defect, nearest_physical
from dynamics.model.joints import Continuous, Planar
from tests.reference.random_robots import random_inertia, random_states
from tests.tolerances import IDENTITY, ORACLE, relative_error

ARM = problems.model_path("arm6")
INERTIAL = '<inertial><mass value="{}"/><inertia ixx="1" ixy="0" ixz="0" iyy="1" iyz="0" izz="1"/></inertial>'
JOINT = '<joint name="{0}" type="{1}"><parent link="{2}"/><child link="{3}"/><axis xyz="0 0 1"/>{4}</joint>'


def urdf(*parts, names="abc"):
    bodies = zip(names, (1, 2, 0.0), strict=False)
    links = "".join(f'<link name="{name}">{INERTIAL.format(mass)}</link>' for name, mass in bodies)
    return f'<robot name="r" xmlns:xacro="http://www.ros.org/wiki/xacro">{links}{"".join(parts)}</robot>'


def test_files_and_text_of_urdf(tmp_path):
    text = ARM.read_text()
    (tmp_path / "arm.xml").write_text(text)
    expected = load_urdf(ARM)
    for source in (ARM, str(ARM), text, tmp_path / "arm.xml"):
        assert load_robot(source) == expected
    assert load_robot(ARM, floating_base=True) == load_urdf(ARM, floating_base=True)
    assert np.array_equal(load_robot(ARM, gravity=(0.0, 0.0, -1.62)).gravity, [0.0, 0.0, -1.62])


def test_locks_come_before_checks():
    """A last link without mass makes a robot that nobody can simulate, unless its joint is locked."""
    massless = '<link name="c"/>'
    text = urdf(JOINT.format("j", "revolute", "a", "b", '<limit lower="-1" upper="1"/>')).replace(
        f'<link name="c">{INERTIAL.format(0.0)}</link>', massless
    )
    text = text.replace("</robot>", JOINT.format("k", "continuous", "b", "c", "") + "</robot>")
    with pytest.raises(ValueError, match="body 'c': mass: got zero mass"):
        load_robot(text)
    assert load_robot(text, lock={"k": 0.5}).joint_names == ("j",)
    assert load_robot(text, keep=["j"]).joint_names == ("j",)
    with pytest.raises(ValueError, match=r"lock: joint 'j': got \[2.0\], expected between"):
        load_robot(text, lock={"j": 2.0})
    with pytest.raises(ValueError, match="joint: got 'l'"):
        load_robot(text, lock={"l": 2.0})


def test_errors_name_the_argument_that_goes_on():
    """A root that could float; all joints that carry no inertia, also those that only carry such."""
    fixed = urdf(JOINT.format("j", "fixed", "a", "b", ""), names="ab")
    with pytest.raises(ValueError, match=r"<robot name='r'>: got an empty model, expected .* floating_base=True"):
        load_robot(fixed)
    assert load_robot(fixed, floating_base=True).nv == 6
    limit = '<limit lower="0.2" upper="1"/>'
    text = urdf(*(f'<link name="{name}"/>' for name in "cde"), JOINT.format("j", "continuous", "a", "b", ""),
                JOINT.format("k", "revolute", "b", "c", limit), JOINT.format("l", "floating", "c", "d", ""),
                JOINT.format("m", "continuous", "b", "e", ""), names="ab")  # fmt: skip
    with pytest.raises(ValueError, match="body 'd': mass: got zero mass") as raised:
        load_robot(text)
    lock = {"k": 0.2, "l": [0.0] * 6 + [1.0], "m": 0.0}
    assert f"load_robot(..., lock={lock})" in str(raised.value)
    assert load_robot(text, lock=lock).joint_names == ("j",)


def test_xacro_is_expanded(tmp_path):
    pytest.importorskip("xacrodoc")
    body = INERTIAL.format("$(arg mass)")
    text = (
        '<robot name="x" xmlns:xacro="http://www.ros.org/wiki/xacro"><xacro:arg name="mass" default="1"/>'
        f'<link name="a"/><link name="b">{body}</link>{JOINT.format("j", "continuous", "a", "b", "")}</robot>'
    )
    (tmp_path / "r.urdf.xacro").write_text(text)
    assert load_robot(text).total_mass == 1.0
    assert load_robot(tmp_path / "r.urdf.xacro", xacro_arguments={"mass": "2.5"}).total_mass == 2.5
    with pytest.raises(ValueError, match="xacro"):
        load_robot(text.replace("$(arg mass)", "$(arg nothing)"))
    with pytest.raises(FileNotFoundError, match="there is no file"):
        load_robot(tmp_path / "nothing.xacro")


def test_what_a_xacro_includes_lies_beside_it(monkeypatch, tmp_path):
    """From any folder, at any depth, also after a file that failed."""
    pytest.importorskip("xacrodoc")
    name = 'xmlns:xacro="http://www.ros.org/wiki/xacro"'
    include = '<xacro:include filename="{}"/>'.format
    folder = tmp_path / "robot" / "parts"
    folder.mkdir(parents=True)
    main, broken = tmp_path / "robot" / "main.xacro", tmp_path / "broken.xacro"
    main.write_text(f'<robot name="r" {name}>{include("./parts/one.xacro")}<xacro:arm/></robot>')
    (folder / "one.xacro").write_text(f"<robot {name}>{include('two.xacro')}</robot>")
    arm = f'<link name="a"/><link name="b">{INERTIAL.format(1)}</link>{JOINT.format("j", "continuous", "a", "b", "")}'
    (folder / "two.xacro").write_text(f'<robot {name}><xacro:macro name="arm">{arm}</xacro:macro></robot>')
    broken.write_text(f'<robot name="r" {name}>{include("nothing.xacro")}</robot>')
    monkeypatch.chdir(tmp_path)
    for source in (main, "robot/main.xacro"):
        with pytest.raises(ValueError, match=r"No such file or directory: .*nothing\.xacro"):
            load_robot(broken)
        assert load_robot(source).joint_names == ("j",)


def test_packages_of_xacro_files_are_folders(tmp_path):
    """With a package.xml or without, given themselves or the folder that they are in."""
    pytest.importorskip("xacrodoc")
    name = 'xmlns:xacro="http://www.ros.org/wiki/xacro"'
    arm = f'<link name="a"/><link name="b">{INERTIAL.format(1)}</link>{JOINT.format("j", "continuous", "a", "b", "")}'
    elsewhere, package = tmp_path / "elsewhere", tmp_path / "packages" / "arm_parts"
    package.mkdir(parents=True)
    elsewhere.mkdir()
    (package / "arm.xacro").write_text(f'<robot {name}><xacro:macro name="arm">{arm}</xacro:macro></robot>')
    main = elsewhere / "main.xacro"
    main.write_text(
        f'<robot name="r" {name}><xacro:include filename="$(find arm_parts)/arm.xacro"/><xacro:arm/></robot>'
    )
    for manifest in None, "<package/>", "<package><name>arm_parts</name></package>":
        if manifest is not None:
            (package / "package.xml").write_text(manifest)
        for folder in package, package.parent:
            assert load_robot(main, package_dirs=[folder]).joint_names == ("j",)
        assert load_robot(main.read_text(), package_dirs=[str(package)]).joint_names == ("j",)
    with pytest.raises(
        ValueError, match=r"main\.xacro': .*the folder of the package 'arm_parts', .* among package_dirs"
    ):
        load_robot(main)
    inside = package / "main.xacro"
    inside.write_text(main.read_text())
    assert load_robot(inside).joint_names == ("j",)  # the folders above a file are searched as well
    with pytest.raises(ValueError, match=r"given by xacro_arguments, got \{'side': 'left'\}"):
        load_robot(f'<robot name="r" {name}><link name="$(arg nothing)"/></robot>', xacro_arguments={"side": "left"})


@pytest.mark.parametrize("expression", ["9**9**9", "[x for x in range(10**12)]", "'x' * 10**11", "1/0"])
def test_expressions_of_xacro_files_are_bounded(expression, monkeypatch):
    pytest.importorskip("xacrodoc")
    monkeypatch.setattr("dynamics.formats.load_robot.EXPANSION", 3.0)
    monkeypatch.setattr("dynamics.formats.load_robot.MEMORY", 1 << 30)
    name = 'xmlns:xacro="http://www.ros.org/wiki/xacro"'
    with pytest.raises(ValueError, match=r"^xacro '<robot"):
        load_robot(f'<robot name="r" {name}><link name="${{{expression}}}"/></robot>')


def test_macros_that_call_themselves_end():
    pytest.importorskip("xacrodoc")
    name = 'xmlns:xacro="http://www.ros.org/wiki/xacro"'
    with pytest.raises(ValueError, match=r"^xacro '<robot"):
        load_robot(f'<robot name="r" {name}><xacro:macro name="m"><xacro:m/></xacro:macro><xacro:m/></robot>')


def test_descriptions_by_name(monkeypatch, tmp_path):
    """What robot_descriptions would fetch: a module with the path of a file."""
    pytest.importorskip("robot_descriptions")
    module = types.ModuleType("robot_descriptions.toy_description")
    module.URDF_PATH, module.PACKAGE_PATH = str(ARM), str(tmp_path)
    monkeypatch.setitem(sys.modules, module.__name__, module)
    assert load_robot("toy_description") == load_robot("toy") == load_urdf(ARM)
    with pytest.raises(ValueError, match="neither a file 'no_such_robot' nor a description"):
        load_robot("no_such_robot")


def test_bad_sources(tmp_path):
    (tmp_path / "r.sdf").write_text("<sdf/>")
    for source, words in {
        3: (TypeError, "source: got int"),
        "nowhere.urdf": (FileNotFoundError, "there is no file 'nowhere.urdf'"),
        "n/" + "x" * 300: (FileNotFoundError, "there is no file 'n/x"),
        "y" * 300 + ".xml": (FileNotFoundError, "there is no file 'yyy"),
        tmp_path / "r.sdf": (ValueError, "SDF is not read"),
        "<robot>": (ValueError, "not well-formed"),
    }.items():
        with pytest.raises(words[0], match=words[1]):
            load_robot(source)
    for arguments in ({"floating_base": 1}, {"package_dirs": "folder"}, {"lock": ["a"]}, {"xacro_arguments": 3}):
        with pytest.raises(TypeError, match=next(iter(arguments))):
            load_robot(ARM, **arguments)
    with pytest.raises(ValueError, match="gravity"):
        load_robot(ARM, gravity=(1.0, 2.0))
    for value in ("mended", None, 3, True):
        with pytest.raises(ValueError, match=r"inertias: got .*, expected one of 'strict', 'repaired', 'as_given'"):
            load_robot(ARM, inertias=value)


# ------------------------------------------------------------------------------------------------ inertias
PLATE = '<inertia ixx="1" ixy="0" ixz="0" iyy="1" iyz="0" izz="1"/>'
SWING = JOINT.format("j", "continuous", "a", "b", "").replace("0 0 1", "0 1 0")


def swinging(inertia, mass=2):
    body = INERTIAL.format(mass).replace(PLATE, inertia).replace("<mass", '<origin xyz="0 0 -0.5"/><mass')
    return f'<robot name="r"><link name="a"/><link name="b">{body}</link>{SWING}</robot>'


def test_inertias_that_no_body_can_have():
    """Refused, with the argument that goes on; repaired, where the largest moment stays; or taken."""
    text = swinging('<inertia ixx="0" ixy="0" ixz="0" iyy="0.2" iyz="0" izz="0"/>')
    for arguments in ({}, {"inertias": "strict"}):
        with pytest.raises(ValueError, match=r"body 'b': inertia, .*triangle.*inertias=\"repaired\"\) takes"):
            load_robot(text, **arguments)
    shapes = {"repaired": [0.1, 0.2, 0.1], "as_given": [0.0, 0.2, 0.0]}
    said = {"repaired": "for 'b', with what is fixed to it; the nearest", "as_given": "'b', .* used as given"}
    for mode, moments in shapes.items():
        with pytest.warns(UserWarning, match=said[mode]):
            model = load_robot(text, inertias=mode)
        about_origin = np.diag(moments) + np.diag([0.5, 0.5, 0.0])
        np.testing.assert_allclose(model.arrays.rotational_inertia[0], about_origin[np.triu_indices(3)], atol=1e-15)
        assert dynamics.mass_matrix(model, [0.3])[0, 0] == pytest.approx(0.7) and model.total_mass == 2.0
        assert model.locked() == model
    rotor = swinging(PLATE, mass=0)
    with pytest.warns(UserWarning, match="nonzero inertia with zero mass"):
        assert dynamics.mass_matrix(load_robot(rotor, inertias="as_given"), [0.3])[0, 0] == pytest.approx(1.0)
    with pytest.warns(UserWarning):
        repaired = load_robot(rotor, inertias="repaired")
    with pytest.raises(ValueError, match="without mass and inertia of body 'b'"):
        dynamics.mass_matrix(repaired, [0.3])


@pytest.mark.peer
def test_inertias_of_pinocchios_models():
    pin = pytest.importorskip("pinocchio")
    peer = pin.Model()
    joint = peer.addJoint(0, pin.JointModelRY(), pin.SE3.Identity(), "j")
    peer.appendBodyToJoint(joint, pin.Inertia(2.0, np.zeros(3), np.diag([0.0, 0.2, 0.0])), pin.SE3.Identity())
    with pytest.raises(ValueError, match="triangle"):
        load_robot(peer)
    with pytest.warns(UserWarning, match="the nearest that one can have is used"):
        assert dynamics.mass_matrix(load_robot(peer, inertias="repaired"), [0.3])[0, 0] == pytest.approx(0.2)


def test_repaired_inertias_are_the_nearest(rng):
    """By second moments of mass: physical, no physical one nearer, and what is physical stays."""

    def second(about_com):
        return 0.5 * np.trace(about_com) * np.eye(3) - about_com

    for _ in range(50):
        mass, com, good = random_inertia(rng)
        bad = good + 2.0 * np.abs(good).max() * np.diag(rng.normal(size=3))
        found = nearest_physical(BodyInertia.of_link(mass, com, bad))
        assert inertia_defect(mass, found.about_com()) is None
        np.testing.assert_allclose(found.com(), com, atol=1e-13)
        gap = second(bad) - second(found.about_com())
        for _ in range(20):
            other = second(found.about_com()) + rng.uniform(0.0, 1.0) * (second(random_inertia(rng)[2]))
            assert np.linalg.norm(gap) <= np.linalg.norm(second(bad) - other) + 1e-12
        kept = nearest_physical(BodyInertia.of_link(mass, com, good)).about_com()
        np.testing.assert_allclose(kept, good, atol=1e-12 * np.abs(good).max())


# ------------------------------------------------------------------------------------------------ Pinocchio
def theirs(model, q):
    """A configuration as Pinocchio has it."""
    parts = []
    for joint, start in zip(model.joints, model.q_index, strict=True):
        x = q[start : start + joint.nq]
        turns = isinstance(joint, (Continuous, Planar))
        parts.append([*x[:-1], np.cos(x[-1]), np.sin(x[-1])] if turns else x)
    return np.concatenate(parts)


def every_joint(pin, rng):
    """A model of Pinocchio with joints of all types that are known, in a tree."""

    def aligned(kinds):
        return [getattr(pin, f"JointModel{kind}")() for kind in kinds]

    composite = pin.JointModelComposite(pin.JointModelRX(), pin.SE3.Random())
    composite.addJoint(pin.JointModelPY(), pin.SE3.Random())
    composite.addJoint(pin.JointModelRUBZ(), pin.SE3.Random())
    axes = [np.linalg.qr(rng.normal(size=(3, 3)))[0] for _ in range(2)]
    turning = urdf(JOINT.format("j", "continuous", "a", "b", "").replace("0 0 1", "1 2 2"), names="ab")
    unbounded = pin.buildModelFromXML(turning).joints[1]
    joints = [
        *aligned(["FreeFlyer", "RX", "RY", "RZ", "PX", "PY", "PZ", "RUBX", "RUBY", "RUBZ"]),
        pin.JointModelRevoluteUnaligned(axes[0][0].copy()), pin.JointModelPrismaticUnaligned(axes[0][1].copy()),
        unbounded, composite,
        *aligned(["Spherical", "Planar", "Translation"]),
        pin.JointModelUniversal(axes[1][0].copy(), axes[1][1].copy()),
    ]  # fmt: skip
    model, parent = pin.Model(), 0
    for i, joint in enumerate(joints):
        parent = model.addJoint(0 if i == 12 else parent, joint, pin.SE3.Random(), f"j{i}")
        model.appendBodyToJoint(parent, pin.Inertia(*random_inertia(rng)), pin.SE3.Random())
        model.addFrame(pin.Frame(f"b{i}", parent, 0, pin.SE3.Identity(), pin.FrameType.BODY))
    model.addFrame(pin.Frame("tip", parent, 0, pin.SE3.Random(), pin.FrameType.OP_FRAME))
    model.armature = rng.uniform(0.1, 1.0, model.nv)
    return model


@pytest.mark.peer
def test_models_of_pinocchio(rng):
    pin = pytest.importorskip("pinocchio")
    pin.seed(0)
    peer = every_joint(pin, rng)
    model, data = from_pinocchio(peer), peer.createData()
    assert model == load_robot(peer)
    assert np.array_equal(model.armature, peer.armature)
    for q, v, a in zip(*random_states(model, 3, rng), strict=True):
        tau = pin.rnea(peer, data, theirs(model, q), v, a)
        assert relative_error(dynamics.inverse_dynamics(model, q, v, a), tau) < ORACLE
        pin.framesForwardKinematics(peer, data, theirs(model, q))
        for i, frame in enumerate(peer.frames):
            name, pose = frame.name, data.oMf[i]
            if name == "universe":
                continue
            assert relative_error(dynamics.frame_placement(model, q, name).p, pose.translation, 1.0) < 1e2 * IDENTITY


@pytest.mark.peer
def test_what_pinocchio_has_otherwise(rng):
    pin = pytest.importorskip("pinocchio")
    peer = pin.Model()
    for parent, name in ((0, "a"), (0, "b"), (1, "c")):
        number = peer.addJoint(parent, pin.JointModelRX(), pin.SE3.Random(), name)
        peer.appendBodyToJoint(number, pin.Inertia(*random_inertia(rng)), pin.SE3.Identity())
    with pytest.warns(UserWarning, match="not numbered depth-first"):
        assert from_pinocchio(peer).joint_names == ("a", "c", "b")
    peer.addJoint(1, pin.JointModelSphericalZYX(), pin.SE3.Identity(), "odd")
    with pytest.raises(ValueError, match="joint 'odd': its type, SphericalZYX"):
        from_pinocchio(peer)
    with pytest.raises(TypeError, match=r"expected a pinocchio\.Model"):
        from_pinocchio(3)


@pytest.mark.peer
def test_shapes_of_pinocchios_wrappers(rng):
    pin = pytest.importorskip("pinocchio")
    coal = pytest.importorskip("coal")
    model, shapes = every_joint(pin, rng), pin.GeometryModel()
    normal = np.array([0.6, 0.0, 0.8])
    pieces = {
        "ball": (coal.Sphere(0.1), dynamics.Sphere(0.1)),
        "brick": (coal.Box(0.2, 0.4, 0.6), dynamics.Box((0.1, 0.2, 0.3))),
        "can": (coal.Cylinder(0.1, 0.4), dynamics.Cylinder(0.1, 0.4)),
        "rod": (coal.Capsule(0.1, 0.4), dynamics.Capsule(0.1, (0, 0, -0.2), (0, 0, 0.2))),
        "egg": (coal.Ellipsoid(0.1, 0.2, 0.3), dynamics.Ellipsoid((0.1, 0.2, 0.3))),
        "floor": (coal.Halfspace(normal, 0.3), dynamics.HalfSpace()), "cone": (coal.Cone(0.1, 0.2), None),
    }  # fmt: skip
    for i, (name, (shape, _)) in enumerate(pieces.items()):
        shapes.addGeometryObject(pin.GeometryObject(name, i, pin.SE3.Random(), shape))
    wrapper = SimpleNamespace(model=model, collision_model=shapes, visual_model=None)
    with pytest.warns(UserWarning, match="not known here are left out: cone"):
        robot = dynamics.formats.pinocchio_models.from_pinocchio(wrapper)
    data, places = model.createData(), shapes.createData()
    q = dynamics.random_configuration(robot, rng)
    pin.updateGeometryPlacements(model, data, shapes, places, theirs(robot, q))
    R, p = body_placements(robot, q[None])
    assert [g.name for g in robot.geometries] == list(pieces)[:-1]
    for i, shape in enumerate(robot.geometries):
        assert shape.shape == pieces[shape.name][1]
        turn, shift = (R[0, shape.body], p[0, shape.body]) if shape.body >= 0 else (np.eye(3), np.zeros(3))
        found, pose = (turn @ shape.R, turn @ shape.p + shift), places.oMg[i]
        if shape.name == "floor":
            np.testing.assert_allclose(found[0][:, 2], pose.rotation @ normal, atol=1e-13)
            assert pose.actInv(found[1]) @ normal == pytest.approx(0.3)
            continue
        np.testing.assert_allclose(found[0], pose.rotation, atol=1e-13)
        np.testing.assert_allclose(found[1], pose.translation, atol=1e-13)
