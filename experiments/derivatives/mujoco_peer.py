"""MuJoCo (extra `peers`): its own finite differences of inverse dynamics and of one time step, one point per call.

`mjd_inverseFD` gives dtau/dq, dtau/dv and M by forward differences; `mjd_transitionFD` the Jacobian of a step of
semi-implicit Euler, which stands for the derivatives of forward dynamics.  Both skip what a perturbation leaves alone.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.spatial.transform import Rotation

import dynamics
from dynamics.model.joints import FREE_FLYER, PRISMATIC, REVOLUTE

STEP = 1e-6  # the value MuJoCo's documentation suggests


def mujoco() -> Any:
    """The module; ImportError that names the extra where it is not installed."""
    try:
        import mujoco as module  # pyright: ignore[reportMissingImports]
    except ImportError as error:
        raise ImportError("this comparison needs MuJoCo: make peers") from error
    return module


def build(model: dynamics.RigidBodyModel) -> Any:
    """MuJoCo's model of the same tree, without contacts, limits and damping; q and v mean the same.

    Raises ImportError without MuJoCo, ValueError if a joint is neither revolute nor prismatic.
    """
    if not set(model.arrays.joint_type) <= {REVOLUTE, PRISMATIC}:
        raise ValueError("model: got other joints, expected revolute and prismatic ones only")
    mj, spec = mujoco(), specification(model)
    spec.option.disableflags = mj.mjtDisableBit.mjDSBL_CONTACT | mj.mjtDisableBit.mjDSBL_CONSTRAINT
    return spec.compile()


def specification(model: dynamics.RigidBodyModel) -> Any:
    """A `mujoco.MjSpec` of the same tree, not compiled yet: bodies by the names of the model's, without shapes.

    Raises ImportError without MuJoCo, ValueError for joints other than revolute, prismatic and free ones.
    """
    mj, m = mujoco(), model.arrays
    kinds = {REVOLUTE: mj.mjtJoint.mjJNT_HINGE, PRISMATIC: mj.mjtJoint.mjJNT_SLIDE}
    if not set(m.joint_type) <= {*kinds, FREE_FLYER}:
        raise ValueError("model: got other joints, expected revolute, prismatic and free ones only")
    spec = mj.MjSpec()
    spec.option.gravity = model.gravity
    bodies = []
    for i, (parent, joint) in enumerate(zip(m.parent, m.joint_type, strict=True)):
        blocks = m.rotation[i].reshape(3, 3, 3)  # R A, R B, R C of Rodrigues' formula, A + B the identity
        x, y, z, w = Rotation.from_matrix(blocks[0] + (blocks[1] if joint == REVOLUTE else 0.0)).as_quat()
        above = bodies[parent] if parent >= 0 else spec.worldbody
        body = above.add_body(name=model.body_names[i], pos=m.translation[i], quat=[w, x, y, z])
        com = m.first_moment[i] / m.mass[i]
        xx, xy, xz, yy, yz, zz = m.rotational_inertia[i]
        shift = m.mass[i] * (com @ com * np.eye(3) - np.outer(com, com))
        I = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]]) - shift
        body.explicitinertial, body.mass, body.ipos = True, m.mass[i], com
        body.fullinertia = [I[0, 0], I[1, 1], I[2, 2], I[0, 1], I[0, 2], I[1, 2]]
        k = m.v_index[i]
        if joint == FREE_FLYER:
            body.add_freejoint()
        else:
            body.add_joint(type=kinds[int(joint)], axis=m.dof_axis[k], armature=m.armature[k])
        bodies.append(body)
    return spec


def inverse_dynamics(peer: Any, q, v, a) -> np.ndarray:
    """tau (nv,) at one point."""
    mj = mujoco()
    data = mj.MjData(peer)
    data.qpos, data.qvel, data.qacc = q, v, a
    mj.mj_inverse(peer, data)
    return np.array(data.qfrc_inverse)


def inverse_derivatives(peer: Any, q, v, a) -> Callable[[], tuple[np.ndarray, ...]]:
    """A call that differentiates inverse dynamics at K points (K, nv); returns the last one's dtau_dq, dtau_dv, M."""
    mj, n = mujoco(), peer.nv
    data, transposed = mj.MjData(peer), np.empty((3, n, n))

    def call():
        for point in zip(q, v, a, strict=True):
            data.qpos, data.qvel, data.qacc = point
            mj.mjd_inverseFD(peer, data, STEP, False, *transposed, None, None, None, None)
        dq, dv, M = transposed.transpose(0, 2, 1)
        return dq, dv, M

    return call


def transition_derivatives(peer: Any, q, v, tau) -> Callable[[], np.ndarray]:
    """A call that differentiates one time step at K points; returns d(q, v)_next/d(q, v) (2 nv, 2 nv) of the last."""
    mj, n = mujoco(), peer.nv
    data, A = mj.MjData(peer), np.empty((2 * n, 2 * n))

    def call():
        for data.qpos, data.qvel, data.qfrc_applied in zip(q, v, tau, strict=True):
            mj.mjd_transitionFD(peer, data, STEP, False, A, None, None, None)
        return A

    return call
