"""Shapes on bodies: from the builder, from URDF files with meshes that the tests write, with models and without."""

import pickle
from dataclasses import replace

import numpy as np
import pytest

from dynamics import (
    Box,
    Capsule,
    Cylinder,
    Ellipsoid,
    Geometry,
    HalfSpace,
    Mesh,
    ModelBuilder,
    Revolute,
    RigidBodySystem,
    Sphere,
    frame_placement,
    load_urdf,
)
from tests.dynamics.test_urdf import joint, link, robot, rpy_rotation

SHAPES = (
    Sphere(0.1), Capsule(0.1, (0, 0, 0), (0, 0.2, 0)), Box((0.1, 0.2, 0.3)), Cylinder(0.1, 0.4), Ellipsoid((1, 2, 3)),
    HalfSpace(), Mesh("hull.stl", 0.001), Mesh(vertices=np.eye(3), faces=[[0, 1, 2]]),
)  # fmt: skip
ORIGIN = '<origin xyz="0.1 0 0.2" rpy="0.1 -0.4 0.3"/>'


def collision(shape, name="", origin=ORIGIN):
    return f"<collision{name}>{origin}<geometry>{shape}</geometry></collision>"


def visual(shape, material=""):
    return f"<visual>{ORIGIN}<geometry>{shape}</geometry>{material}</visual>"


def rod(*geometries):
    builder = ModelBuilder()
    builder.add_body("rod", "world", Revolute("z"), mass=1.0, com=(0.0, 0.3, 0.0))
    for geometry in geometries:
        builder.add_geometry(**geometry)
    return builder.build()


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: type(shape).__name__)
def test_shapes_are_values(shape):
    copy = pickle.loads(pickle.dumps(shape))
    assert copy == shape and hash(copy) == hash(shape) and len({*SHAPES, copy}) == len(SHAPES)
    for name, value in vars(copy).items():
        if isinstance(value, np.ndarray):
            with pytest.raises(ValueError, match="read-only"):
                value[...] = 0
        with pytest.raises(AttributeError):
            setattr(copy, name, value)


def test_shapes_of_a_model_lie_in_its_moving_bodies():
    """Also those of what is fixed to them, and of the world; and they change neither equality nor what fits."""
    builder = ModelBuilder()
    builder.add_body("rod", "world", Revolute((0.0, 1.0, 1.0)), mass=1.0, com=(0.0, 0.3, 0.0))
    bare = builder.build()
    turn = rpy_rotation(0.3, 0.2, -0.5)
    builder.add_geometry("rod", SHAPES[1], (turn, (0.0, 0.1, 0.0)), color=(1, 0, 0))
    builder.add_geometry("world", HalfSpace(), name="floor")
    builder.add_geometry("rod", SHAPES[6], purpose="visual")
    model = builder.build()
    assert [g.name for g in model.geometries] == ["rod_0", "floor", "rod_1"]
    assert [(g.link, g.body, g.purpose) for g in model.geometries] == [
        ("rod", 0, "collision"), ("world", -1, "collision"), ("rod", 0, "visual")
    ]  # fmt: skip
    first = model.geometries[0]
    assert first.color == (1.0, 0.0, 0.0, 1.0) and first.shape == SHAPES[1]
    link = model.frame("rod")
    np.testing.assert_allclose(first.R, link.R @ turn, atol=1e-15)
    np.testing.assert_allclose(first.p, link.R @ [0.0, 0.1, 0.0], atol=1e-15)
    assert model == bare and hash(model) == hash(bare) and bare.geometries == ()
    again = pickle.loads(pickle.dumps(model))
    assert again == model and again.geometries == model.geometries
    assert RigidBodySystem(model, 0.01).serves == RigidBodySystem(bare, 0.01).serves
    assert bare.with_geometries(model.geometries).geometries == model.geometries


def test_shapes_of_a_file(tmp_path, monkeypatch):
    mesh = '<mesh filename="{}" scale="{}"/>'
    text = robot(
        '<material name="red"><color rgba="1 0 0 0.5"/></material>',
        link("base", visual('<box size="1 2 4"/>', '<material name="red"/>')),
        link("arm", "".join([
            '<inertial><mass value="1"/><inertia ixx="1" ixy="0" ixz="0" iyy="1" iyz="0" izz="1"/></inertial>',
            collision('<cylinder radius="0.1" length="0.4"/>', ' name="barrel"'),
            collision('<capsule radius="0.1" length="0.4"/>', ' name="barrel"', ""),
            collision('<ellipsoid radii="1 2 3"/>'),
            visual(mesh.format("package://thing/meshes/a.stl", "1 1 -1")),
            visual(mesh.format("package://elsewhere/meshes/b.stl", "0.001 0.001 0.001")),
            visual(mesh.format("meshes/a.stl", "2"), '<material name="own"><color rgba="0 1 0 1"/></material>'),
            visual('<sphere radius="0.2"/>', '<material name="own"/>'),
        ])),
        link("tip", collision('<sphere radius="0.3"/>', origin="")),
        joint("turn", "base", "arm"),
        joint("mount", "arm", "tip", "fixed", '<origin xyz="0 0 1"/>'),
    )  # fmt: skip
    file, meshes = tmp_path / "thing" / "urdf" / "thing.urdf", tmp_path / "thing" / "meshes"
    for folder in (file.parent, meshes):
        folder.mkdir(parents=True)
    file.write_text(text)
    (meshes / "a.stl").write_text("this is read by nobody who asks for where it is")
    model = load_urdf(file)
    shapes = {g.name: g for g in model.geometries}
    assert list(shapes) == [
        "base_visual_0", "barrel", "arm_collision_1", "arm_collision_2", *(f"arm_visual_{i}" for i in range(4)),
        "tip_collision_0",
    ]  # fmt: skip
    assert shapes["base_visual_0"].shape == Box((0.5, 1, 2)) and shapes["base_visual_0"].color == (1, 0, 0, 0.5)
    assert shapes["base_visual_0"].body == -1
    assert shapes["barrel"].shape == Cylinder(0.1, 0.4) and shapes["barrel"].color is None
    assert shapes["arm_collision_1"].shape == Capsule(0.1, (0, 0, -0.2), (0, 0, 0.2))
    assert shapes["arm_collision_2"].shape == Ellipsoid((1, 2, 3))
    np.testing.assert_allclose(shapes["barrel"].R, rpy_rotation(0.1, -0.4, 0.3), atol=1e-15)
    np.testing.assert_array_equal(shapes["barrel"].p, [0.1, 0, 0.2])
    assert shapes["arm_visual_0"].shape == Mesh(str(meshes / "a.stl"), (1, 1, -1))
    assert shapes["arm_visual_1"].shape == Mesh("package://elsewhere/meshes/b.stl", 1e-3), "a name that means no file"
    assert shapes["arm_visual_2"].shape == Mesh("meshes/a.stl", 2.0), "beside the file, where there is none"
    assert shapes["arm_visual_2"].color == shapes["arm_visual_3"].color == (0, 1, 0, 1)
    assert shapes["tip_collision_0"].body == 0 and shapes["tip_collision_0"].link == "tip"
    np.testing.assert_array_equal(shapes["tip_collision_0"].p, [0, 0, 1])
    other = tmp_path / "else" / "where"
    (other / "elsewhere" / "meshes").mkdir(parents=True)
    found = other / "elsewhere" / "meshes" / "b.stl"
    found.touch()
    for given in ([other], str(other), [other / "elsewhere"]):
        assert load_urdf(text, package_dirs=given).geometries[5].shape.path == str(found)
    monkeypatch.setenv("ROS_PACKAGE_PATH", str(other))
    assert load_urdf(file).geometries[5].shape.path == str(found)
    assert load_urdf(file).geometries[4].shape.path == str(meshes / "a.stl")


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ('<sphere radius="-1"/>', r"<link name='a'> <collision> <geometry> <sphere>: radius: got -1.0, expected a"),
        ('<sphere radius="nan"/>', r"<geometry> <sphere>: attribute 'radius' is 'nan', expected a finite number"),
        ('<sphere/>', r"<link name='a'> <collision> <geometry> <sphere>: attribute 'radius' is missing"),
        ('<box size="1 2"/>', r"<geometry> <box>: attribute 'size' is '1 2', expected 3 finite numbers"),
        ('<box size="1 2 -3"/>', r"half_extents: got \[0.5, 1.0, -1.5\], expected numbers >= 0"),
        ('<cylinder radius="1"/>', r"<cylinder>: attribute 'length' is missing"),
        ('<mesh/>', r"<geometry> <mesh>: attribute 'filename' is missing"),
        ('<mesh filename="a.stl" scale="1 1 0"/>', r"attribute 'scale' is '1 1 0', expected nonzero numbers"),
        ('<mesh filename="a.stl" scale="1 1"/>', r"attribute 'scale' is '1 1', expected 3 finite numbers"),
    ],
)  # fmt: skip
def test_what_is_no_shape_is_refused(shape, message):
    text = robot(link("a", collision(shape)), link("b"), joint("turn", "a", "b"))
    with pytest.raises(ValueError, match=message):
        load_urdf(text)


def test_shapes_of_unknown_kinds_are_left_out():
    strange = [collision("<heightmap/>"), "<visual/>", "<collision><geometry/></collision>", visual("<cone/>")]
    text = robot(link("a", "".join(strange)), link("b"), joint("turn", "a", "b"))
    message = r"left out: <link name='a'> <collision> has <heightmap>, .* no <geometry>, .* has <cone>"
    with pytest.warns(UserWarning, match=message):
        assert load_urdf(text).geometries == ()


def test_shapes_are_turned_with_their_bodies():
    model = rod({"body": "rod", "shape": Sphere(0.1), "placement": (np.eye(3), (0.0, 1.0, 0.0))})
    (ball,) = model.geometries
    R, p = frame_placement(model, np.array([0.5]), model.body_names[ball.body])
    np.testing.assert_allclose(R @ ball.p + p, [-np.sin(0.5), np.cos(0.5), 0.0], atol=1e-15)
    moved = replace(ball, body=1)
    assert isinstance(moved, Geometry) and moved != ball
    with pytest.raises(ValueError, match=r"geometries\[0\]: its body is 1, expected less than 1"):
        model.with_geometries([moved])
    with pytest.raises(ValueError, match=r"geometries\[1\]: there already is one named 'rod_0'"):
        model.with_geometries([ball, ball])
