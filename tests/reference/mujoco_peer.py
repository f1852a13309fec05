"""States and forces of a robot as MuJoCo has them: quaternions with w first, free bodies moving in world axes."""

import numpy as np
from scipy.spatial.transform import Rotation

from dynamics.model.joints import FREE_FLYER, SPHERICAL


def _free_flyers(model):
    for joint, q, v in zip(model.joints, model.q_index, model.v_index, strict=True):
        if joint.code == FREE_FLYER:
            yield q, v


def configuration(model, q):
    """q (nq,) with w first."""
    q = q.copy()
    for joint, start in zip(model.joints, model.q_index, strict=True):
        if joint.code in (FREE_FLYER, SPHERICAL):
            start += joint.quaternion_at
            q[start : start + 4] = np.roll(q[start : start + 4], 1)
    return q


def motion(model, q, v, a):
    """v and a (nv,): R v and R (a + w x v) of free bodies' origins."""
    v, a = v.copy(), a.copy()
    for i, k in _free_flyers(model):
        R = Rotation.from_quat(q[i + 3 : i + 7]).as_matrix()
        linear, angular = slice(k, k + 3), slice(k + 3, k + 6)
        a[linear] = R @ (a[linear] + np.cross(v[angular], v[linear]))
        v[linear] = R @ v[linear]
    return v, a


def forces(model, q, tau):
    """From MuJoCo's (nv,) to ours: R'f on free bodies' origins."""
    tau = tau.copy()
    for i, k in _free_flyers(model):
        tau[k : k + 3] = Rotation.from_quat(q[i + 3 : i + 7]).as_matrix().T @ tau[k : k + 3]
    return tau


class Peer:
    """A compiled model of MuJoCo without contacts, limits and other constraints, at one state."""

    def __init__(self, mujoco, compiled):
        self.mujoco, self.m, self.data = mujoco, compiled, mujoco.MjData(compiled)
        flags = "disableflags" if hasattr(compiled.opt, "disableflags") else "disableflag"  # before MuJoCo 4
        setattr(compiled.opt, flags, getattr(compiled.opt, flags) | int(mujoco.mjtDisableBit.mjDSBL_CONSTRAINT))

    def inverse_dynamics(self, model, q, v, a):
        """tau (nv,) without passive forces, and these."""
        d = self.data
        d.qpos[:] = configuration(model, q)
        d.qvel[:], d.qacc[:] = motion(model, q, v, a)
        self.mujoco.mj_inverse(self.m, d)
        tau = forces(model, q, d.qfrc_inverse + d.qfrc_passive)
        return tau, forces(model, q, d.qfrc_passive)
