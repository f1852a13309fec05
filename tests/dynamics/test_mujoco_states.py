"""States as MuJoCo has them: round trips, velocities of free bodies, orders of joints, bodies that move as there."""

import numpy as np
import pytest

import dynamics
from dynamics import FreeFlyer, ModelBuilder, Planar, Prismatic, Revolute, Spherical, frame_placement, integrate

BODY = {"mass": 1.0, "com": (0.1, 0.0, -0.2), "inertia": 0.1 * np.eye(3)}
MJCF = """<mujoco><worldbody><body name="base"><freejoint name="fly"/><geom size="0.1"/>
  <body name="arm" pos="0.2 0 0.1"><joint name="turn" axis="0 1 0"/><geom size="0.1" pos="0 0 0.2"/>
    <body name="hand" pos="0 0 0.4"><joint name="wrist" type="ball"/><geom size="0.1" pos="0.1 0 0"/></body></body>
  <body name="rail" pos="-0.2 0 0"><joint name="move" type="slide" axis="1 0 0"/><geom size="0.1"/></body>
</body></worldbody></mujoco>"""


def robot():
    builder = ModelBuilder()
    builder.add_body("base", "world", FreeFlyer(), joint_name="fly", **BODY)
    builder.add_body("arm", "base", Revolute("y"), joint_name="turn", **BODY)
    builder.add_body("hand", "arm", Spherical(), joint_name="wrist", **BODY)
    builder.add_body("rail", "base", Prismatic("x"), joint_name="move", **BODY)
    return builder.build()


def states(model, rng, count=5):
    q = np.array([dynamics.random_configuration(model, rng) for _ in range(count)])
    return np.hstack([q, rng.standard_normal((count, model.nv))])


def test_there_and_back_in_any_order(rng):
    model = robot()
    xs = states(model, rng)
    for joints in (None, ("move", "wrist", "fly", "turn")):
        qpos, qvel = dynamics.to_mujoco_state(model, xs, joints)
        np.testing.assert_allclose(dynamics.from_mujoco_state(model, qpos, qvel, joints), xs, rtol=0.0, atol=1e-14)
        one = dynamics.to_mujoco_state(model, xs[2], joints)
        assert (one[0] == qpos[2]).all() and (one[1] == qvel[2]).all()
        back = dynamics.from_mujoco_state(model, *one, joints)
        assert back.shape == (model.nq + model.nv,)


def test_quaternions_that_have_drifted_are_of_length_one(rng):
    model = robot()
    x = states(model, rng, 1)[0]
    qpos, qvel = dynamics.to_mujoco_state(model, x)
    qpos[3:7] *= 1.001
    np.testing.assert_allclose(dynamics.from_mujoco_state(model, qpos, qvel), x, rtol=0.0, atol=1e-14)


def test_a_free_body_moves_in_the_axes_of_the_world(rng):
    model = robot()
    x, h = states(model, rng, 1)[0], 1e-6
    q, v = x[: model.nq], x[model.nq :]
    ahead, behind = (frame_placement(model, integrate(model, q, s * h * v), "base").p for s in (1.0, -1.0))
    qpos, qvel = dynamics.to_mujoco_state(model, x)
    np.testing.assert_allclose(qvel[:3], (ahead - behind) / (2.0 * h), rtol=0.0, atol=1e-8)
    np.testing.assert_allclose(qvel[3:6], v[3:6])
    np.testing.assert_allclose(qpos[3:7], q[[6, 3, 4, 5]])


def test_what_mujoco_does_not_have_is_refused():
    model = robot()
    x = np.r_[dynamics.neutral(model), np.zeros(model.nv)]
    builder = ModelBuilder()
    builder.add_body("cart", "world", Planar(), joint_name="drive", **BODY)
    plane = builder.build()
    with pytest.raises(ValueError, match="'drive' is a Planar, expected one that MuJoCo has"):
        dynamics.to_mujoco_state(plane, np.r_[dynamics.neutral(plane), np.zeros(3)])
    with pytest.raises(ValueError, match="joints: got none for 'move'"):
        dynamics.to_mujoco_state(model, x, ("fly", "turn", "wrist"))
    with pytest.raises(ValueError, match="a name twice"):
        dynamics.to_mujoco_state(model, x, ("fly", "turn", "wrist", "move", "move"))
    with pytest.raises(ValueError, match="joints: got 'flies'"):
        dynamics.from_mujoco_state(model, x[: model.nq], x[model.nq :], ("flies", "turn", "wrist", "move"))
    with pytest.raises(ValueError, match="qpos: got zeros as a quaternion"):
        dynamics.from_mujoco_state(model, np.zeros(model.nq), np.zeros(model.nv))
    with pytest.raises(ValueError, match="x: got shape"):
        dynamics.to_mujoco_state(model, x[:-1])
    with pytest.raises(ValueError, match="qvel: got shape"):
        dynamics.from_mujoco_state(model, x[: model.nq], x[:3])
    with pytest.raises(ValueError, match="not at the origin"):
        builder = ModelBuilder()
        builder.add_body("base", "world", FreeFlyer(), joint_name="fly", placement=(np.eye(3), (0, 0, 1)), **BODY)
        moved = builder.build()
        dynamics.to_mujoco_state(moved, np.r_[dynamics.neutral(moved), np.zeros(6)])


@pytest.mark.peer
def test_bodies_are_and_move_as_in_mujoco(rng):
    mujoco = pytest.importorskip("mujoco")
    peer = mujoco.MjModel.from_xml_string(MJCF)
    model, data = dynamics.from_mujoco(peer), mujoco.MjData(peer)
    x = states(model, rng, 1)[0]
    data.qpos[:], data.qvel[:] = dynamics.to_mujoco_state(model, x, peer)
    mujoco.mj_forward(peer, data)
    q, v = x[: model.nq], x[model.nq :]
    for body in ("base", "arm", "hand", "rail"):
        place, moving = frame_placement(model, q, body), np.empty(6)
        np.testing.assert_allclose(place.p, data.body(body).xpos, atol=1e-12)
        number = peer.body(body).id
        mujoco.mj_objectVelocity(peer, data, mujoco.mjtObj.mjOBJ_XBODY, number, moving, 0)  # angular, linear
        found = dynamics.frame_velocity(model, q, v, body)
        np.testing.assert_allclose(found, np.r_[moving[3:], moving[:3]], atol=1e-12)
    np.testing.assert_allclose(dynamics.from_mujoco_state(model, data.qpos, data.qvel, peer), x, atol=1e-14)
