"""Dynamics of a tree by textbook matrices in body frames, for complex arguments: slow, for complex steps in tests.

Poses are 4x4, spatial vectors [linear; angular] with 6x6 transformations, displacements are exponentials, and M is
dense, one call of inverse dynamics per column.  Of the model only its data are used.  Recursions run in the frames that
the joints move; a body on a planar joint with a tilted normal is turned against it ("own" below).
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from scipy.spatial.transform import Rotation

from dynamics.model import joints
from dynamics.model.joints import FREE_FLYER, PLANAR, SPHERICAL

STEP = 1e-30


class Point(NamedTuple):
    """Everything that the dynamics depends on besides a model and its configuration; or a direction of all that."""

    dq: np.ndarray  # (nv,) displacement from the configuration, along the tangent
    v: np.ndarray  # (nv,)
    a: np.ndarray  # (nv,)
    tau: np.ndarray  # (nv,)
    inertial: np.ndarray  # (nb, 10) on top of the model's, in the order of `inertia_matrix`, in body axes
    placement: np.ndarray  # (nb, 6) displacement of the joint placements, in body axes at zero motion
    wrenches: np.ndarray | Mapping  # (nb, 6), or frame name -> (6,)


# ------------------------------------------------------------------------------------------------ 4x4 and 6x6 matrices
def skew(w):
    return np.array([[0, -w[2], w[1]], [w[2], 0, -w[0]], [-w[1], w[0], 0]])


def hat(twist):
    """4x4 matrix of [linear; angular]."""
    return np.block([[skew(twist[3:]), twist[:3, None]], [np.zeros((1, 4))]])


def exponential(A):
    """By its power series, 60 terms: exact to rounding for angles up to a few turns."""
    total = term = np.eye(len(A))
    for n in range(1, 60):
        term = term @ A / n
        total = total + term
    return total


def pose(R, p):
    return np.block([[R, np.reshape(p, (3, 1))], [np.zeros((1, 3)), np.ones((1, 1))]])


def inverse(T):
    return pose(T[:3, :3].T, -T[:3, :3].T @ T[:3, 3])


def adjoint(T):
    """Twists from the frame placed by T to the one it is placed in."""
    R, p = T[:3, :3], T[:3, 3]
    return np.block([[R, skew(p) @ R], [np.zeros((3, 3)), R]])


def bracket(twist):
    """6x6 matrix of twist x."""
    v, w = skew(twist[:3]), skew(twist[3:])
    return np.block([[w, v], [np.zeros((3, 3)), w]])


def inertia_matrix(pi):
    """From m, m c (3), Ixx, Ixy, Iyy, Ixz, Iyz, Izz about the origin."""
    xx, xy, yy, xz, yz, zz = pi[4:]
    c = skew(pi[1:4])
    return np.block([[pi[0] * np.eye(3), -c], [c, np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])]])


# ------------------------------------------------------------------------------------------------ the model's data
def columns(joint):
    """Motions (6, nv) of a joint in the child frame."""
    axes, angular = joint.motion_subspace()
    turning = angular[:, None] * axes
    return np.hstack([axes - turning, turning]).T


def joint_pose(joint: joints.Joint, q):
    """Child frame in the joint's placement, at real coordinates."""
    turn = np.eye(3)
    if joint.code in (FREE_FLYER, SPHERICAL):
        turn = Rotation.from_quat(q[-4:]).as_matrix()
        return pose(turn, q[:3] if joint.code == FREE_FLYER else np.zeros(3))
    if joint.code == PLANAR:
        return exponential(hat(np.array([q[0], q[1], 0, 0, 0, 0]))) @ exponential(hat(np.array([0, 0, 0, 0, 0, q[2]])))
    return exponential(hat(columns(joint) @ q))


def placements(model):
    """Joint placements (4, 4) in the parents; a revolute joint's two even blocks add up to its rotation at zero."""
    blocks = model.arrays.rotation.reshape(-1, 3, 3, 3)
    return [pose(R[0] + R[1], p) for R, p in zip(blocks, model.arrays.translation, strict=True)]


# ------------------------------------------------------------------------------------------------ dynamics
class Robot:
    """A model at a configuration, displaced by what `point` says."""

    def __init__(self, model, q, point: Point, reference="local"):
        self.model, self.parent = model, model.arrays.parent
        self.slots = [slice(i, i + joint.nv) for i, joint in zip(model.v_index, model.joints, strict=True)]
        self.S = [columns(joint) for joint in model.joints]
        m = model.arrays
        stored = np.column_stack([m.mass, m.first_moment, m.rotational_inertia[:, [0, 1, 3, 2, 4, 5]]])
        own = [pose(model.frame(name).R, np.zeros(3)) for name in model.body_names]
        turned = [adjoint(inverse(T)) for T in own]
        self.inertias = [
            inertia_matrix(pi) + X.T @ inertia_matrix(d) @ X
            for pi, d, X in zip(stored, point.inertial, turned, strict=True)
        ]
        self.to_parent, self.to_world = [], []
        for i, (joint, placed) in enumerate(zip(model.joints, placements(model), strict=True)):
            at = model.q_index[i]
            T = placed @ own[i] @ exponential(hat(point.placement[i])) @ inverse(own[i])
            T = T @ joint_pose(joint, q[at : at + joint.nq]) @ exponential(hat(self.S[i] @ point.dq[self.slots[i]]))
            self.to_parent.append(T)
            self.to_world.append(T if self.parent[i] < 0 else self.to_world[self.parent[i]] @ T)
        self.wrenches = self._body_wrenches(point.wrenches, reference)

    def _body_wrenches(self, wrenches, reference):
        """External wrench on every body in the frame that its joint moves, [force; moment]."""
        total = [np.zeros(6) for _ in self.S]
        if not isinstance(wrenches, Mapping):
            wrenches = dict(zip(self.model.body_names, wrenches, strict=True))
        for name, w in wrenches.items():
            i, R, p = self.model.frame(name)
            if i < 0:
                continue
            T = pose(R, p)
            if reference == "local_world_aligned":
                back = (self.to_world[i][:3, :3] @ T[:3, :3]).T
                w = np.concatenate([back @ w[:3], back @ w[3:]])
            total[i] = total[i] + adjoint(inverse(T)).T @ w
        return total

    def inverse_dynamics(self, v, a):
        base = np.concatenate([-self.model.arrays.gravity, np.zeros(3)])
        V, A, F, tau = [], [], [], (self.model.arrays.armature * a).astype(complex)
        for i, S in enumerate(self.S):
            vp, ap = (V[self.parent[i]], A[self.parent[i]]) if self.parent[i] >= 0 else (np.zeros(6), base)
            X, joint_velocity = adjoint(inverse(self.to_parent[i])), S @ v[self.slots[i]]
            V.append(X @ vp + joint_velocity)
            A.append(X @ ap + S @ a[self.slots[i]] + bracket(V[i]) @ joint_velocity)
            momentum = self.inertias[i] @ V[i]
            F.append(self.inertias[i] @ A[i] - bracket(V[i]).T @ momentum - self.wrenches[i])
        for i in reversed(range(len(F))):
            tau[self.slots[i]] += self.S[i].T @ F[i]
            if self.parent[i] >= 0:
                F[self.parent[i]] = F[self.parent[i]] + adjoint(inverse(self.to_parent[i])).T @ F[i]
        return tau

    def hybrid_dynamics(self, v, a, tau, prescribed):
        """a (nv,) and tau (nv,) complete, a being given where prescribed (nv,) and tau elsewhere."""
        free, nothing = ~prescribed, np.zeros(len(v))
        a = np.where(prescribed, a, 0.0).astype(complex)
        torque, bias = self.inverse_dynamics(v, a), self.inverse_dynamics(v, nothing)
        M = np.column_stack([nothing, *(self.inverse_dynamics(v, e) - bias for e in np.eye(len(v))[free])])[:, 1:]
        a[free] = np.linalg.solve(M[free], (tau - torque)[free])
        return a, np.where(prescribed, torque + M @ a[free], tau)


def complex_step(model, q, point: Point, direction: Point, prescribed, reference="local"):
    """Derivatives of a (nv,) and tau (nv,) of hybrid dynamics along the direction, exact to rounding."""

    def moved(x, d):
        if isinstance(x, Mapping):
            return {name: moved(x.get(name, np.zeros(6)), d.get(name, np.zeros(6))) for name in {**x, **d}}
        return x + 1j * STEP * d

    here = Point(*(moved(x, d) for x, d in zip(point, direction, strict=True)))
    results = Robot(model, q, here, reference).hybrid_dynamics(here.v, here.a, here.tau, prescribed)
    return tuple(np.imag(x) / STEP for x in results)
