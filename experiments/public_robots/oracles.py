"""What Pinocchio and MuJoCo compute of a robot, in the coordinates of `dynamics`.

Pinocchio's Python package has no second derivatives: they are differences of order eight of its analytic first ones,
along a random direction of the state.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.spatial.transform import Rotation

import dynamics
from dynamics.model.joints import FreeFlyer, Planar, Prismatic, Revolute, Spherical, Translation

STEPS = 0.04, 0.02, 0.01, 0.005
STENCIL = {1: 4 / 5, 2: -1 / 5, 3: 4 / 105, 4: -1 / 280}
"""Weights of (f(k h) - f(-k h))/h in a derivative of order eight."""


def as_pinocchio(model: dynamics.RigidBodyModel) -> Any:
    """A pinocchio.Model with the bodies and joints of a robot, body by body."""
    import pinocchio as pin

    several = {
        FreeFlyer: pin.JointModelFreeFlyer, Spherical: pin.JointModelSpherical, Planar: pin.JointModelPlanar,
        Translation: pin.JointModelTranslation,
    }  # fmt: skip
    peer, arrays = pin.Model(), model.arrays
    peer.gravity.linear = np.array(model.gravity)
    for i, joint in enumerate(model.joints):
        turned = arrays.rotation[i].reshape(3, 3, 3)
        R = turned[0] + (turned[1] if isinstance(joint, Revolute) else 0.0)
        if isinstance(joint, (Revolute, Prismatic)):
            kind = pin.JointModelRevoluteUnaligned if isinstance(joint, Revolute) else pin.JointModelPrismaticUnaligned
            made = kind(np.array(joint.axis, dtype=float))
        else:
            made = several[type(joint)]()
        placement = pin.SE3(R, arrays.translation[i].copy())
        number = peer.addJoint(int(arrays.parent[i]) + 1, made, placement, model.joint_names[i])
        mass, moment = float(arrays.mass[i]), arrays.first_moment[i]
        about = np.zeros((3, 3))
        about[np.triu_indices(3)] = arrays.rotational_inertia[i]
        about += np.triu(about, 1).T
        com = moment / mass if mass > 0.0 else np.zeros(3)
        central = about - mass * (com @ com * np.eye(3) - np.outer(com, com))
        peer.appendBodyToJoint(number, pin.Inertia(mass, com, central), pin.SE3.Identity())
    peer.armature = np.array(model.armature)
    return peer


class Derivatives(NamedTuple):
    """Of one state: tau = ID(q, v, a), M, and a = FD(q, v, tau) with their first derivatives, and along the direction
    d = (dq, dv, da) the change of the gradients of w'ID in q and v and of w'FD in q and v."""

    values: dict[str, np.ndarray]
    first: dict[str, np.ndarray]
    second: dict[str, np.ndarray]


def of_dynamics(model: dynamics.RigidBodyModel, q, v, a, w, d) -> Derivatives:
    """By the functions of `dynamics`."""
    dq, dv, da = d
    tau = dynamics.inverse_dynamics(model, q, v, a)
    inverse = dynamics.inverse_dynamics_derivatives(model, q, v, a)
    forward = dynamics.forward_dynamics_derivatives(model, q, v, tau)
    H = dynamics.inverse_dynamics_hessian(model, q, v, a, w)
    F = dynamics.forward_dynamics_hessian(model, q, v, tau, w)
    return Derivatives(
        {"ID": tau, "M": dynamics.mass_matrix(model, q), "FD": dynamics.forward_dynamics(model, q, v, tau)},
        {"ID_q": inverse.dtau_dq, "ID_v": inverse.dtau_dv, "FD_q": forward.da_dq, "FD_v": forward.da_dv,
         "FD_tau": forward.da_dtau},
        {"ID_q": H.Hqq @ dq + H.Hqv @ dv + H.Hqa @ da, "ID_v": H.Hqv.T @ dq + H.Hvv @ dv,
         "FD_q": F.Hqq @ dq + F.Hqv @ dv + F.Hqtau @ da, "FD_v": F.Hqv.T @ dq + F.Hvv @ dv},
    )  # fmt: skip


class Pinocchio:
    """The same by Pinocchio."""

    def __init__(self, model: dynamics.RigidBodyModel, peer: Any) -> None:
        import pinocchio

        self.pin, self.model, self.peer, self.data = pinocchio, model, peer, peer.createData()
        self.doubled = peer.nq != model.nq

    def configuration(self, q: np.ndarray) -> np.ndarray:
        """With cosine and sine of angles that Pinocchio keeps as such."""
        if not self.doubled and not any(isinstance(joint, Planar) for joint in self.model.joints):
            return q
        parts = []
        led = [theirs for theirs in self.peer.joints[1:] if theirs.nq > 0]  # those of mimics are none
        for joint, start, theirs in zip(self.model.joints, self.model.q_index, led, strict=True):
            x = q[start : start + joint.nq]
            parts.append([*x[:-1], np.cos(x[-1]), np.sin(x[-1])] if theirs.nq > joint.nq else x)
        return np.concatenate(parts)

    def inverse(self, q, v, a) -> list[np.ndarray]:
        """ID_q, ID_v, M."""
        found = self.pin.computeRNEADerivatives(self.peer, self.data, self.configuration(q), v, a)
        return [np.array(x) for x in found]

    def forward(self, q, v, tau) -> list[np.ndarray]:
        """FD_q, FD_v, FD_tau."""
        found = self.pin.computeABADerivatives(self.peer, self.data, self.configuration(q), v, tau)
        return [np.array(x) for x in found]

    def derivatives(self, q, v, a, w) -> Derivatives:
        """At one state, see `Derivatives`; nothing of second order."""
        pin, peer, data, Q = self.pin, self.peer, self.data, self.configuration(q)
        tau = np.array(pin.rnea(peer, data, Q, v, a))
        ID_q, ID_v, M = self.inverse(q, v, a)
        M = np.triu(M) + np.triu(M, 1).T
        FD_q, FD_v, FD_tau = self.forward(q, v, tau)
        return Derivatives(
            {"ID": tau, "M": M, "FD": np.array(pin.aba(peer, data, Q, v, tau))},
            {"ID_q": ID_q, "ID_v": ID_v, "FD_q": FD_q, "FD_v": FD_v, "FD_tau": np.triu(FD_tau) + np.triu(FD_tau, 1).T},
            {},
        )

    def second(self, q, v, a, w, d, step: float) -> dict[str, np.ndarray]:
        """Of `Derivatives`, by differences with this step."""
        tau = np.array(self.pin.rnea(self.peer, self.data, self.configuration(q), v, a))
        sides = {"ID": (self.inverse, a), "FD": (self.forward, tau)}
        return {
            f"{name}_{x}": column
            for name, (of, given) in sides.items()
            for x, column in zip("qv", self._changes(of, q, v, given, w, d, step), strict=True)
        }

    def _changes(self, of, q, v, x, w, d, step) -> list[np.ndarray]:
        """Of the gradients in q and v, along d."""

        def gradients(t):
            moved = dynamics.integrate(self.model, q, t * d[0])
            return [w @ A for A in of(moved, v + t * d[1], x + t * d[2])[:2]]

        sums = [np.zeros(self.model.nv), np.zeros(self.model.nv)]
        for k, weight in STENCIL.items():
            for i, (ahead, behind) in enumerate(zip(gradients(k * step), gradients(-k * step), strict=True)):
                sums[i] += weight / step * (ahead - behind)
        return sums


class PinocchioLed(Pinocchio):
    """The same where joints follow others.  Pinocchio knows inverse dynamics alone of such robots; mass matrix and
    derivatives are those that it has of the tree, folded."""

    def __init__(self, model: dynamics.RigidBodyModel, peer: Any, tree: Any) -> None:
        super().__init__(model, peer)
        self.whole = Pinocchio(model.full, tree)
        self.G = np.array([dynamics_of_leaders(model, k) for k in range(model.nv)]).T

    def inverse(self, q, v, a) -> list[np.ndarray]:
        """ID_q, ID_v, M."""
        found = self.whole.inverse(self.model.full_configuration(q), self.G @ v, self.G @ a)
        ID_q, ID_v, M = (self.G.T @ X @ self.G for X in (*found[:2], np.triu(found[2]) + np.triu(found[2], 1).T))
        return [ID_q, ID_v, M]

    def forward(self, q, v, tau) -> list[np.ndarray]:
        """FD_q, FD_v, FD_tau."""
        M = self.inverse(q, v, v)[2]
        rest = tau - np.array(self.pin.rnea(self.peer, self.data, self.configuration(q), v, 0.0 * v))
        ID_q, ID_v, M = self.inverse(q, v, np.linalg.solve(M, rest))
        Minv = np.linalg.inv(M)
        return [-Minv @ ID_q, -Minv @ ID_v, Minv]

    def derivatives(self, q, v, a, w) -> Derivatives:
        """At one state, see `Derivatives`; nothing of second order."""
        tau = np.array(self.pin.rnea(self.peer, self.data, self.configuration(q), v, a))
        ID_q, ID_v, M = self.inverse(q, v, a)
        FD_q, FD_v, FD_tau = self.forward(q, v, tau)
        return Derivatives(
            {"ID": tau, "M": M, "FD": a},
            {"ID_q": ID_q, "ID_v": ID_v, "FD_q": FD_q, "FD_v": FD_v, "FD_tau": FD_tau},
            {},
        )


def dynamics_of_leaders(model: dynamics.RigidBodyModel, k: int) -> np.ndarray:
    """A column of G, from where the tree's joints go along a degree of freedom."""
    q = dynamics.neutral(model)
    ends = [model.full_configuration(dynamics.integrate(model, q, step * np.eye(model.nv)[k])) for step in (1.0, 0.0)]
    return dynamics.difference(model.full, ends[1], ends[0])


def of_mujoco(model: dynamics.RigidBodyModel, compiled: Any, q, v, a) -> dict[str, np.ndarray]:
    """ID and M by MuJoCo, without its contacts, limits and passive forces."""
    import mujoco

    data, free = mujoco.MjData(compiled), []
    flags = "disableflags" if hasattr(compiled.opt, "disableflags") else "disableflag"  # before MuJoCo 4
    setattr(compiled.opt, flags, getattr(compiled.opt, flags) | int(mujoco.mjtDisableBit.mjDSBL_CONSTRAINT))
    data.qpos[:], data.qvel[:], data.qacc[:] = q, v, a
    turn = np.eye(model.nv)
    for joint, i, k in zip(model.joints, model.q_index, model.v_index, strict=True):
        if joint.quaternion_at is not None:
            i += joint.quaternion_at
            data.qpos[i : i + 4] = np.roll(q[i : i + 4], 1)
        if isinstance(joint, FreeFlyer):
            R = turn[k : k + 3, k : k + 3] = Rotation.from_quat(q[i : i + 4]).as_matrix()
            data.qvel[k : k + 3] = R @ v[k : k + 3]
            data.qacc[k : k + 3] = R @ (a[k : k + 3] + np.cross(v[k + 3 : k + 6], v[k : k + 3]))
            free.append(k)
    mujoco.mj_inverse(compiled, data)
    M = np.zeros((model.nv, model.nv))
    try:
        mujoco.mj_fullM(compiled, M, data.qM)
    except (TypeError, AttributeError):
        mujoco.mj_fullM(compiled, data, M)
    return {"ID": turn.T @ (data.qfrc_inverse + data.qfrc_passive), "M": turn.T @ M @ turn}
