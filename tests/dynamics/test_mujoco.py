"""Robots from MuJoCo: kinematics, inverse dynamics, passive and actuator forces against MuJoCo's own."""

import importlib.util
import re
import warnings
from pathlib import Path

import numpy as np
import pytest
from scipy.spatial.distance import pdist

import dynamics
from dynamics import RigidBodySystem, from_mujoco, load_robot
from dynamics.algorithms.frames import body_placements
from dynamics.geometry.triangles import surface
from tests.reference.mujoco_peer import Peer
from tests.reference.random_robots import random_states
from tests.tolerances import IDENTITY, ORACLE, relative_error

mujoco = pytest.importorskip("mujoco")
pytestmark = pytest.mark.peer

ZOO = """<mujoco model="zoo">
  <compiler angle="degree"/>
  <option gravity="0.3 -0.2 -9"/>
  <default>
    <joint armature="0.02" damping="0.3"/>
    <default class="strong"><joint frictionloss="0.4" stiffness="5" springref="20"/><geom density="700"/></default>
  </default>
  <worldbody>
    <site name="mark" pos="1 2 3" euler="10 20 30"/>
    <body name="base" pos="0.1 0.2 0.3" euler="5 0 10">
      <freejoint name="fly"/>
      <geom type="box" size="0.1 0.2 0.05" pos="0.02 0 0.01" euler="0 30 0"/>
      <body name="arm" pos="0.2 0 0.1" euler="0 0 40" childclass="strong">
        <joint name="yaw" axis="0 0 1" range="-90 60"/>
        <joint name="pitch" axis="0 1 1" pos="0.05 0.1 -0.02" ref="15"/>
        <geom type="capsule" size="0.03" fromto="0 0 0 0.3 0 0"/>
        <body name="slider" pos="0.3 0 0">
          <joint name="slide" type="slide" axis="1 1 0" ref="0.1" range="-0.2 0.5" pos="0.3 0 0" limited="true"/>
          <inertial pos="0.1 0 0.02" mass="0.7" diaginertia="0.02 0.03 0.04" euler="10 0 0"/>
          <site name="tip" pos="0 0.1 0" quat="1 0.1 0.2 0.3"/>
          <site name="slider" pos="0 0 0.3"/>
        </body>
      </body>
      <body name="fixed" pos="-0.2 0.1 0" quat="1 1 0 0"><geom type="sphere" size="0.08" pos="0 0 0.1"/></body>
      <body name="ball" pos="0 -0.3 0">
        <joint name="socket" type="ball" pos="0.1 0 0.1" damping="0.7"/>
        <geom type="ellipsoid" size="0.1 0.05 0.08" pos="0.1 0.1 0"/>
      </body>
    </body>
    <body name="pole"><joint name="turn" axis="0 1 0"/><geom size="0.1" pos="0 0 -1"/></body>
  </worldbody>
  <tendon>
    <fixed name="cable" stiffness="3" damping="0.5" springlength="0.2">
      <joint joint="yaw" coef="0.7"/><joint joint="turn" coef="-1.2"/>
    </fixed>
  </tendon>
  <actuator>
    <motor name="m1" joint="pitch" gear="30" ctrlrange="-0.5 2" ctrllimited="true"/>
    <general name="m2" joint="slide" gainprm="-4" ctrlrange="-1 3" forcerange="-5 9" gear="2"/>
    <motor name="m3" tendon="cable" gear="3" forcerange="-2 2"/>
  </actuator>
</mujoco>"""


SHAPES = """<mujoco>
  <asset>
    <mesh name="wedge" vertex="0 0 0  1 0 0  0 2 0  0 0 3" scale="0.1 0.1 0.1"/>
    <material name="blue" rgba="0 0 1 1"/><hfield name="hills" nrow="2" ncol="2" size="1 1 1 1"/>
  </asset>
  <worldbody>
    <geom name="floor" type="plane" size="1 1 1"/><geom name="hills" type="hfield" hfield="hills"/>
    <body name="link" pos="0 0 1" euler="10 20 30">
      <joint axis="1 2 0"/>
      <geom name="ball" size="0.1" rgba="1 0.5 0 0.25"/>
      <geom name="rod" type="capsule" size="0.03" fromto="0 0 0 0.4 0 0"/>
      <geom name="egg" type="ellipsoid" size="0.1 0.2 0.3" pos="0 1 0"/>
      <body name="tip" pos="0.3 0 0"><geom name="can" type="cylinder" size="0.1 0.2" material="blue"/></body>
      <geom name="brick" type="box" size="0.1 0.2 0.3" euler="0 0 20" contype="0" conaffinity="0"/>
      <geom name="wedge" type="mesh" mesh="wedge" pos="0 0 0.4"/>
    </body>
  </worldbody>
</mujoco>"""


ALMOST_SAME = 1e-5
"""MuJoCo takes geoms that are turned or shifted by less for such as lie in the frame of their body."""


def packaged():
    """MJCF files that come with packages, where these are installed."""
    files = {
        "dm_control": ["suite/cartpole", "suite/cheetah", "suite/humanoid", "suite/humanoid_CMU", "suite/walker",
                       "suite/quadruped", "suite/dog", "suite/fish", "suite/manipulator", "suite/finger",
                       "third_party/kinova/jaco_arm", "locomotion/walkers/assets/rodent"],
        "gymnasium": [f"envs/mujoco/assets/{name}" for name in ("ant", "pusher", "walker2d_v5")],
        "gymnasium_robotics": ["envs/assets/hand/reach", "envs/assets/fetch/reach"],
    }  # fmt: skip
    for package, names in files.items():
        spec = importlib.util.find_spec(package)
        for name in names if spec is not None and spec.origin else ():
            yield pytest.param(Path(spec.origin).parent / f"{name}.xml", id=f"{package}/{Path(name).name}")


def compiled(source):
    if isinstance(source, Path):
        return mujoco.MjModel.from_xml_path(str(source))
    return mujoco.MjModel.from_xml_string(source)


def quietly(load, *arguments):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return load(*arguments)


@pytest.mark.parametrize("source", [pytest.param(ZOO, id="zoo"), *packaged()])
def test_robots_move_as_in_mujoco(source, rng):
    peer = Peer(mujoco, compiled(source))
    model = quietly(from_mujoco, peer.m)
    assert list(model.joint_names) == [peer.m.joint(j).name or f"joint{j}" for j in range(peer.m.njnt)]
    for q, v, a in zip(*random_states(model, 3, rng), strict=True):
        tau, passive = peer.inverse_dynamics(model, q, v, a)
        lost = 1e-4 * np.abs(passive).max()  # digits, where dampers hold a base
        assert relative_error(dynamics.inverse_dynamics(model, q, v, a), tau, lost) < ORACLE
        for i in range(1, peer.m.nbody):
            here = dynamics.frame_placement(model, q, peer.m.body(i).name or f"body{i}")
            assert relative_error(here.p, peer.data.xpos[i], 1.0) < 1e2 * IDENTITY
            assert relative_error(here.R, peer.data.xmat[i].reshape(3, 3)) < 1e2 * IDENTITY
    assert model.total_mass + model.base_inertia.mass == pytest.approx(peer.m.body_mass.sum())


def test_sites_are_frames(rng):
    peer = Peer(mujoco, compiled(ZOO))
    model = quietly(from_mujoco, peer.m)
    q, v, a = (x[0] for x in random_states(model, 1, rng))
    peer.inverse_dynamics(model, q, v, a)
    for i, name in enumerate(["mark", "tip", "slider_site"]):
        here = dynamics.frame_placement(model, q, name)
        assert relative_error(here.p, peer.data.site_xpos[i], 1.0) < 1e2 * IDENTITY
        assert relative_error(here.R, peer.data.site_xmat[i].reshape(3, 3)) < 1e2 * IDENTITY


@pytest.mark.parametrize("source", [pytest.param(SHAPES, id="shapes"), *packaged()])
def test_geoms_are_shapes(source, rng):
    peer = Peer(mujoco, compiled(source))
    model = quietly(from_mujoco, peer.m)
    q, v, a = (x[0] for x in random_states(model, 1, rng))
    peer.inverse_dynamics(model, q, v, a)
    R, p = (np.concatenate([x[0], last]) for x, last in zip(
        body_placements(model, q[None]), (np.eye(3)[None], np.zeros((1, 3))), strict=True
    ))  # fmt: skip
    known = [g for g in range(peer.m.ngeom) if peer.m.geom_type[g] != int(mujoco.mjtGeom.mjGEOM_HFIELD)]
    assert len(model.geometries) == len(known)
    for shape, g in zip(model.geometries, known, strict=True):
        assert relative_error(R[shape.body] @ shape.p + p[shape.body], peer.data.geom_xpos[g], 1.0) < ALMOST_SAME
        assert relative_error(R[shape.body] @ shape.R, peer.data.geom_xmat[g].reshape(3, 3)) < ALMOST_SAME
        collides = peer.m.geom_contype[g] or peer.m.geom_conaffinity[g]
        assert shape.purpose == ("collision" if collides else "visual")


def test_figures_of_geoms():
    with pytest.warns(UserWarning, match="geoms of kinds that have no shape here, not read: hills"):
        shapes = {shape.name: shape for shape in load_robot(SHAPES).geometries}
    assert shapes["ball"].shape == dynamics.Sphere(0.1) and shapes["ball"].color == (1.0, 0.5, 0.0, 0.25)
    assert shapes["rod"].shape == dynamics.Capsule(0.03, (0, 0, -0.2), (0, 0, 0.2))
    assert shapes["egg"].shape == dynamics.Ellipsoid((0.1, 0.2, 0.3))
    assert shapes["can"].shape == dynamics.Cylinder(0.1, 0.4) and shapes["can"].color == (0.0, 0.0, 1.0, 1.0)
    assert shapes["brick"].shape == dynamics.Box((0.1, 0.2, 0.3)) and shapes["floor"].shape == dynamics.HalfSpace()
    assert shapes["floor"].link == "world" and shapes["brick"].purpose == "visual"
    corners = surface(shapes["wedge"].shape).vertices  # in axes of its inertia
    np.testing.assert_allclose(sorted(pdist(corners)), np.sqrt([0.01, 0.04, 0.05, 0.09, 0.1, 0.13]), rtol=1e-6)


@pytest.mark.parametrize("name", ["zoo", "hopper"])
def test_springs_and_dampers_pull_as_in_mujoco(name, rng):
    """An explicit step changes velocities by M^-1 times the passive forces; dry friction left out."""
    peer = Peer(mujoco, compiled(ZOO if name == "zoo" else HOPPER))
    model = quietly(from_mujoco, peer.m)
    system = RigidBodySystem(model.locked(), 1e-3, "explicit_euler", joint_friction=False)
    q, v, a = (x[0] for x in random_states(model, 1, rng))
    tau, passive = peer.inverse_dynamics(model, q, v, a)
    passive += model.damping * v  # implicit in steps
    step = system.step(np.r_[q, v], tau - passive)
    assert relative_error((step[model.nq :] - v) / 1e-3, a) < 1e3 * ORACLE


HOPPER = """<mujoco><worldbody><body name="a"><joint name="x" type="slide" axis="0 0 1" stiffness="40" springref="0.2"/>
<geom size="0.1"/><body name="b" pos="0 0 -0.5"><joint name="y" axis="0 1 0" stiffness="7"/><geom size="0.05"/></body>
</body></worldbody></mujoco>"""


def test_motors_pull_as_in_mujoco(rng):
    m = compiled(ZOO)
    model = from_mujoco(m)
    system = RigidBodySystem(model, 0.01, actuation="model")
    assert system.control_names == ("m1", "m2", "m3")
    lower, upper = system.control_limits()
    assert lower == pytest.approx([-0.5, -5.0, -2.0]) and upper == pytest.approx([2.0, 4.0, 2.0])
    data = mujoco.MjData(m)
    data.ctrl[:] = 0.3, 0.5, 0.2
    mujoco.mj_forward(m, data)
    assert relative_error(system.actuation.B @ data.actuator_force, data.qfrc_actuator) < IDENTITY
    assert data.actuator_force == pytest.approx([0.3, -2.0, 0.2])


def test_controls_stay_where_mujoco_clips_no_joint_force():
    """Of a motor's limit and its joint's the lesser is kept."""
    m = compiled("""<mujoco><worldbody><body><joint name="hip" axis="0 1 0" actuatorfrcrange="-3 3"/><geom size="0.1"/>
      <body pos="0 0 -0.3"><joint name="knee" axis="0 1 0" actuatorfrcrange="-0.8 0.8"/><geom size="0.1"/></body></body>
      </worldbody><actuator><motor joint="hip" ctrlrange="-2 9"/><motor joint="knee" gear="-4"/></actuator></mujoco>""")
    lower, upper = RigidBodySystem(from_mujoco(m), 0.01, actuation="model").control_limits()
    assert lower == pytest.approx([-2.0, -0.2]) and upper == pytest.approx([3.0, 0.2])
    data = mujoco.MjData(m)
    for ctrl, factor in ((lower, 1.0), (upper, 1.0), (upper, 2.0)):
        data.ctrl[:] = factor * ctrl
        mujoco.mj_forward(m, data)
        assert data.qfrc_actuator == pytest.approx(ctrl * [1.0, -4.0])


UNEVEN = """<mujoco><worldbody><body><joint name="hip" axis="0 1 0" actuatorfrcrange="-5 10"/><geom size="0.1"/>
  <body pos="0 0 -0.3"><joint name="knee" axis="0 1 0" actuatorfrcrange="-8 4"/><geom size="0.1"/></body></body>
  </worldbody><actuator><motor name="a" joint="hip" ctrlrange="-2 90"/><motor name="b" joint="knee" gear="-4"/>{}
  </actuator></mujoco>"""


def test_uneven_limits_of_joint_forces():
    """Of a joint with one actuator, they are that one's."""
    m = compiled(UNEVEN.format(""))
    model = from_mujoco(m)  # without a warning
    assert [(each.lower, each.upper) for each in model.actuators] == [(-2.0, 10.0), (-1.0, 2.0)]
    assert model.effort_limit.tolist() == [10.0, 8.0], "those of controls that are forces of the joints"
    lower, upper = RigidBodySystem(model, 0.01, actuation="model").control_limits()
    assert lower == pytest.approx([-2.0, -1.0]) and upper == pytest.approx([10.0, 2.0])
    data = mujoco.MjData(m)
    for ctrl, factor in ((lower, 1.0), (upper, 1.0), (upper, 2.0)):
        data.ctrl[:] = factor * ctrl
        mujoco.mj_forward(m, data)
        assert data.qfrc_actuator == pytest.approx(ctrl * [1.0, -4.0])


def test_uneven_limits_of_joint_forces_without_an_actuator_of_their_own():
    """Of several actuators, or none, the warning says what is read, and the way on."""
    several, none = UNEVEN.format('<motor name="c" joint="hip"/>'), UNEVEN.replace('<motor name="a"', "<motor ")
    told = r"limits of joint forces that differ in size, of joints with no or several actuators, read as the larger"
    for text in (several, none.replace('joint="hip" ctrlrange="-2 90"/>', 'joint="knee"/>').format("")):
        with pytest.warns(UserWarning, match=told + r" one, expected trajopt\.ControlBounds.*: hip"):
            model = load_robot(text)
        assert model.effort_limit[0] == 10.0


def test_limits_and_figures_of_joints():
    model = from_mujoco(compiled(ZOO))
    yaw = model.v_index[model.joint_index("yaw")]
    q = model.q_index[model.joint_index("yaw")]
    assert model.lower_position[q] == pytest.approx(-np.pi / 2) and model.upper_position[q] == pytest.approx(np.pi / 3)
    slide = model.q_index[model.joint_index("slide")]
    assert (model.lower_position[slide], model.upper_position[slide]) == (-0.2, 0.5)
    assert model.friction[yaw] == 0.4 and model.damping[yaw] == 0.3 and model.armature[yaw] == 0.02
    assert np.allclose(model.gravity, [0.3, -0.2, -9.0])


CLOSED = """<mujoco><worldbody>
<body name="a"><joint name="ja" axis="0 1 0"/><geom type="capsule" size="0.02" fromto="0 0 0 0.2 0 0"/>
  <body name="b" pos="0.2 0 0"><joint name="jb" axis="0 1 0"/><geom type="capsule" size="0.02" fromto="0 0 0 0.5 0 0"/>
  <site name="sb" pos="0.5 0 0" euler="0 20 0"/></body></body>
<body name="c" pos="0.5 0 0"><joint name="jc" axis="0 1 0" ref="10"/>
  <geom type="capsule" size="0.02" fromto="0 0 0 0.4 0 0"/><site name="sc" pos="0.4 0 0.1"/></body>
<body name="d" pos="0 1 0"><joint name="jd" type="slide" ref="0.1"/><geom size="0.1"/></body>
</worldbody>
<tendon><fixed name="t1"><joint joint="ja" coef="2"/><joint joint="jd" coef="-1"/></fixed></tendon>
<equality>{}</equality></mujoco>"""


@pytest.mark.parametrize(
    "text",
    [
        '<connect name="e" body1="b" body2="c" anchor="0.5 0.1 0.2"/>',
        '<connect name="e" body1="b" anchor="0.1 0 0"/>',
        '<connect name="e" site1="sb" site2="sc"/>', '<weld name="e" site1="sb" site2="sc"/>',
        '<weld name="e" body1="b" body2="c" anchor="0.1 0.2 0.3" relpose="0.1 0.3 0.2 0.8 0.6 0 0"/>',
        '<joint name="e" joint1="jc" joint2="ja" polycoef="0.2 -0.7 0 0 0"/>',
        '<tendon name="e" tendon1="t1"/>',
    ],
)  # fmt: skip
def test_equality_constraints_vanish_where_mujocos_do(text, rng):
    """MuJoCo's residuals, which have other scales of rotations, against gaps of loops and couplings."""
    m = compiled(CLOSED.format(text))
    model, data = from_mujoco(m), mujoco.MjData(m)
    for q in random_states(model, 3, rng, 0)[0]:
        data.qpos[:] = q
        mujoco.mj_forward(m, data)
        theirs = np.array(data.efc_pos[: data.ne])
        for loop in model.loops:
            ends = [dynamics.frame_placement(model, q, frame) for frame in (loop.frame1, loop.frame2)]
            assert relative_error(np.abs(ends[0].p - ends[1].p), np.abs(theirs[:3])) < 1e3 * IDENTITY
            turn = np.linalg.norm(ends[0].R - ends[1].R)
            assert loop.kind == "ball" or (turn > 1e-3) == (np.linalg.norm(theirs[3:]) > 1e-4)
        for coupling in model.couplings:
            value = sum(ratio * q[model.q_index[model.joint_index(joint)]] for joint, ratio in coupling.joints)
            assert value - coupling.offset == pytest.approx(theirs[0], abs=1e-12)
        assert len(model.loops) + len(model.couplings) == 1
    system = RigidBodySystem(model, 0.01)
    assert len(system.contacts) == 1
    assert "e_1 - e_2" in system.contacts.frames or not model.loops or "sb - sc" in system.contacts.frames


def test_what_is_not_read_is_named():
    body = "<body name='b'><joint name='j'/><geom size='0.1'/></body>"
    cases = {
        "<worldbody>{}</worldbody><actuator><position name='servo' joint='j' kp='9'/></actuator>": "motors.*servo",
        "<worldbody>{}</worldbody><equality><joint name='tie' joint1='j' polycoef='0.2 0 0 0 0'/></equality>":
            r"equality.* may be locked: tie, lock=\{'j': 0.2\}",
        "<worldbody>{}<body mocap='true' name='hand'/></worldbody><equality><weld name='grip' body1='hand' body2='b'/>"
        "</equality>": "motion capture moves, not read: grip",
        "<option density='1.2'/><worldbody>{}</worldbody>": "forces of a medium.*density 1.2",
        "<worldbody>{}<body mocap='true' name='hand'><geom size='0.1'/></body></worldbody>": "motion capture.*hand",
        "<worldbody><body name='b' gravcomp='1'><joint name='j'/><geom size='0.1'/></body></worldbody>": "compens.*b",
        "<worldbody>{}</worldbody><actuator><motor name='slow' joint='j' delay='0.05' nsample='30'/></actuator>":
            "delays of controls, not read: slow",
        "<worldbody>{}</worldbody><actuator><pid name='law' joint='j' kp='9'/><motor joint='j'/></actuator>":
            "law of their own, read as motors of their force: law$",
        "<worldbody>{}<body><joint name='o' type='ball'/><geom size='0.1'/></body></worldbody><actuator><orientation "
        "name='so3' joint='o' kp='3'/></actuator>": "actuators on other.*so3",
        "<option actuatorgroupdisable='1'/><worldbody>{}</worldbody><actuator><motor name='off' joint='j' group='1'/>"
        "</actuator>": "groups that are disabled, left out: off",
        "<option><flag constraint='disable'/></option><worldbody>{}</worldbody>": "a flag disables.*constraint",
        "<worldbody><body><joint name='j' stiffness='9' springyield='0.1'/><geom size='1'/></body></worldbody>":
            "springs that yield, read as such that do not: j",
        "<worldbody>{}</worldbody><tendon><fixed name='t' stiffness='9' springyield='0.1'><joint joint='j' coef='1'/>"
        "</fixed></tendon>": "springs that yield, read as such that do not: t",
        "<worldbody>{}</worldbody><tendon><fixed name='t' actuatorfrcrange='-2 3'><joint joint='j' coef='1'/></fixed>"
        "</tendon><actuator><motor tendon='t'/><motor tendon='t'/></actuator>":
            r"several actuators on one tendon, not read: actuator0, actuator1",
        "<worldbody>{}<body name='c'><joint name='o' type='ball' range='0 1' limited='true' stiffness='3'/>"
        "<geom size='0.1' pos='0.1 0.2 0.3'/></body></worldbody>": "(limits|springs) of ball.*o",
        "<worldbody>{}<site name='s'/></worldbody><actuator><motor name='jet' site='s' refsite='s'/></actuator>":
            "actuators on other.*jet",
        "<worldbody>{}<site name='s'/></worldbody><actuator><motor name='still' site='s'/></actuator>":
            "actuators on other.*still",
        "<worldbody>{}<body><joint/><geom size='1'/><site name='s'/><body><geom size='1'/><site name='t' pos='1 0 0'/>"
        "</body></body></worldbody><tendon><spatial name='l'><site site='s'/><site site='t'/></spatial></tendon>"
        "<actuator><motor name='rigid' tendon='l'/></actuator>": "actuators on other.*rigid",
    }  # fmt: skip
    for text, words in cases.items():
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            load_robot(f"<mujoco>{text.format(body)}</mujoco>")
        assert any(re.search(words, str(each.message)) for each in caught), text


def test_limits_of_forces_on_tendons():
    """Of the actuator's force, before the gear."""
    tendon = '<tendon><fixed name="t" actuatorfrcrange="-2 3"><joint joint="x" coef="2"/></fixed></tendon>'
    motor = '<actuator><motor tendon="t" gear="5" {}/></actuator></mujoco>'
    for figures, ends in {"": (-2.0, 3.0), 'forcerange="-1 9"': (-1.0, 3.0), 'ctrlrange="-4 1"': (-2.0, 1.0)}.items():
        text = HOPPER.replace("</mujoco>", tendon + motor.format(figures))
        m, (read,) = compiled(text), load_robot(text).actuators
        data = mujoco.MjData(m)
        for command, end in zip((-50.0, 50.0), ends, strict=True):
            data.ctrl[0] = command
            mujoco.mj_forward(m, data)
            assert data.actuator_force[0] == pytest.approx(end)
        assert (read.lower, read.upper) == ends and read.joints == (("x", 10.0),)


def test_motors_in_the_parents_axes_pull_on_hinges_as_others():
    text = HOPPER.replace("</mujoco>", '<actuator><motor name="m" jointinparent="y" gear="3"/></actuator></mujoco>')
    assert load_robot(text).actuators[0].joints == (("y", 3.0),)


def test_welds_without_rotations_are_connections(rng):
    text = CLOSED.format('<weld name="e" body1="b" body2="c" anchor="0.1 0.2 0.3" torquescale="0"/>')
    m = compiled(text)
    model, data = from_mujoco(m), mujoco.MjData(m)
    (loop,) = model.loops
    assert loop.kind == "ball"
    for q in random_states(model, 3, rng, 0)[0]:
        data.qpos[:] = q
        mujoco.mj_forward(m, data)
        ends = [dynamics.frame_placement(model, q, frame).p for frame in (loop.frame1, loop.frame2)]
        assert relative_error(np.abs(ends[0] - ends[1]), np.abs(data.efc_pos[:3])) < 1e3 * IDENTITY
        assert not data.efc_pos[3:6].any()


FREE = """<mujoco><option gravity="0 0 0"/><worldbody><body><joint name="f" type="free" {}/>
<inertial pos="0 0 0" mass="1" diaginertia="0.1 0.1 0.1"/></body></worldbody></mujoco>"""


def test_figures_of_free_joints_that_depend_on_axes():
    """Even damping does not; of armature a the force a (omega x v) is missing, as its warning says."""
    text = FREE.format('armature="0.7"')
    with pytest.warns(UserWarning, match=r"armature of free joints, read without the force a \(omega x v\).*: f"):
        model = load_robot(text)
    peer, v = Peer(mujoco, compiled(text)), np.array([1.0, 2.0, 3.0, 0.3, -0.2, 0.5])
    tau, _ = peer.inverse_dynamics(model, dynamics.neutral(model), v, np.zeros(6))
    missing = np.r_[0.7 * np.cross(v[3:], v[:3]), np.zeros(3)]
    np.testing.assert_allclose(dynamics.bias_forces(model, dynamics.neutral(model), v) + missing, tau, atol=1e-12)
    with pytest.warns(UserWarning, match="dry friction of free joints, which is along axes of the world.*: f"):
        load_robot(FREE.format('frictionloss="1"'))
    m = compiled(FREE.format('damping="1"'))
    assert from_mujoco(m).damping.tolist() == [1.0] * 6
    m.dof_damping[1] = 3.0
    with pytest.warns(UserWarning, match="uneven damping of free joints, along axes of the world.*: f"):
        from_mujoco(m)


def test_names_of_what_has_none():
    """By kind and number, unless the name is taken; states are told by the same names."""
    body = '<body {}><joint {}/><inertial pos="0 0 -1" mass="1" diaginertia="1 1 1"/>'
    text = body.format("", 'name="joint1"') + body.format("", "") + body.format('name="body2"', "") + "</body>" * 3
    m = compiled(f"<mujoco><worldbody>{text}</worldbody></mujoco>")
    model = from_mujoco(m)
    assert model.body_names == ("body1", "body2_", "body2")
    assert model.joint_names == ("joint1", "body2__joint", "joint2")
    np.testing.assert_array_equal(dynamics.to_mujoco_state(model, np.arange(6.0), m)[0], [0, 1, 2])


def test_bad_sources():
    with pytest.raises(ValueError, match="MJCF text: XML Error: Schema violation: unrecognized element"):
        load_robot("<mujoco><worldbody><boddy/></worldbody></mujoco>")
    with pytest.raises(ValueError, match="expected at least one body with a joint"):
        load_robot("<mujoco><worldbody/></mujoco>")
    with pytest.raises(FileNotFoundError, match="there is no file"):
        dynamics.formats.mjcf.mjcf_builder("nowhere.xml")
    with pytest.raises(TypeError, match=r"got int, expected a mujoco\.MjModel"):
        from_mujoco(3)
    with pytest.raises(ValueError, match="floating_base: got True"):
        load_robot(HOPPER, floating_base=True)


SWING = '<body name="b"{}><joint name="j"{}/><geom size="0.1"{}/></body>'


@pytest.mark.parametrize("bad", ["nan", "NaN", "inf", "-inf", "+Infinity"])
def test_numbers_that_are_not_finite_are_refused(bad, tmp_path):
    """MuJoCo takes them, and a mass of NaN for one that was not given."""
    places = (' pos="0 {} 0"', "", ""), ("", ' damping="{}"', ""), ("", ' range="-1 {}"', ""), ("", "", ' mass="{}"')
    for place in places:
        text = f"<mujoco><worldbody>{SWING.format(*(part.format(bad) for part in place))}</worldbody></mujoco>"
        with pytest.raises(
            ValueError, match=rf"^MJCF text: <(body|joint|geom).*{re.escape(bad)}.*, expected finite num"
        ):
            load_robot(text)
        (tmp_path / "part.xml").write_text(text.replace("mujoco>", "mujocoinclude>"))
        (tmp_path / "main.xml").write_text('<mujoco><include file="part.xml"/></mujoco>')
        with pytest.raises(ValueError, match=r"^MJCF file '.*main\.xml': <.*, expected finite numbers"):
            load_robot(tmp_path / "main.xml")
    named = SWING.format("", "", "").replace('"j"', f'"{bad}"')
    assert load_robot(f"<mujoco><worldbody>{named}</worldbody></mujoco>").joint_names == (bad,)


def test_copies_and_grids_are_bounded(tmp_path):
    ball = '<body pos="0 0 1"><geom size="0.1"/></body>'
    swing = SWING.format("", "", "")
    for inside in (
        f'<replicate count="1000000" offset="0 0 1">{ball}</replicate>',
        f'<replicate count="1000" offset="0 0 1"><replicate count="1000" offset="0 1 0">{ball}</replicate></replicate>',
        f'<frame><replicate count="{"9" * 18}">{ball}</replicate></frame>',
        '<flexcomp name="f" type="grid" count="1000 1000 10" spacing="1 1 1" mass="1"/>',
    ):
        text = f"<mujoco><worldbody>{swing}{inside}</worldbody></mujoco>"
        with pytest.raises(ValueError, match=r"^MJCF text: <\w+.*>: got more than 10000 elements by its copies"):
            load_robot(text)
        (tmp_path / "part.xml").write_text(text.replace("mujoco>", "mujocoinclude>"))
        (tmp_path / "main.xml").write_text('<mujoco><include file="part.xml"/></mujoco>')
        with pytest.raises(ValueError, match="elements by its copies"):
            load_robot(tmp_path / "main.xml")
    grid = '<mujoco><asset><hfield name="h" nrow="100000" ncol="100000" size="1 1 1 1"/></asset></mujoco>'
    with pytest.raises(ValueError, match=r"<hfield name='h'>: got a grid of 10000000000 numbers, expected at most"):
        load_robot(grid)
    few = f'<replicate count="3" offset="0 0 1">{ball}</replicate>'
    assert len(load_robot(f"<mujoco><worldbody>{swing}{few}</worldbody></mujoco>").geometries) == 4


def test_a_specification_is_compiled():
    spec = mujoco.MjSpec.from_string(HOPPER)
    assert from_mujoco(spec) == load_robot(HOPPER)
