"""Two robots that hold each other, against Pinocchio's constraint dynamics.

Accelerations are compared at closed states; first derivatives along curves of closed states, with differences of order
eight of Pinocchio's accelerations; Hessians with such differences of the first derivatives here: Pinocchio has none.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import dynamics
from dynamics.contacts.loop_constraint import loop_rows
from dynamics.model.edits import builder_of
from experiments.public_robots.oracles import STENCIL, as_pinocchio

STEPS = 0.02, 0.01, 0.005
KINDS = ("ball", "weld")
NEWTON = 8
"""Steps that close a loop."""
HANDS = {"ur5 and panda": ("a/tool0", "b/panda_hand"), "simple_humanoid": ("l_wrist", "r_wrist")}
"""Robots, and the frames that hold each other."""


class PinocchioLoop:
    """Accelerations of a robot whose frames a ball or a weld holds together, without feedback."""

    def __init__(self, model: dynamics.RigidBodyModel, loop: dynamics.LoopConstraint) -> None:
        import pinocchio as pin

        self.pin, self.peer = pin, as_pinocchio(model)
        ends = [model.frame(name) for name in (loop.frame1, loop.frame2)]
        poses = [pin.SE3(frame.R.copy(), frame.p.copy()) for frame in ends]
        kind = pin.ContactType.CONTACT_3D if loop.kind == "ball" else pin.ContactType.CONTACT_6D
        constraint = pin.RigidConstraintModel(
            kind, self.peer, ends[0].body + 1, poses[0], ends[1].body + 1, poses[1], pin.ReferenceFrame.LOCAL
        )  # fmt: skip
        self.constraints, self.datas = pin.StdVec_RigidConstraintModel(), pin.StdVec_RigidConstraintData()
        self.constraints.append(constraint)
        self.datas.append(constraint.createData())
        self.data = self.peer.createData()
        pin.initConstraintDynamics(self.peer, self.data, self.constraints, self.datas)

    def accelerations(self, q: np.ndarray, v: np.ndarray, tau: np.ndarray) -> np.ndarray:
        """(nv,)"""
        return np.array(self.pin.constraintDynamics(self.peer, self.data, q, v, tau, self.constraints, self.datas))


def held_together(
    model: dynamics.RigidBodyModel, frame1: str, frame2: str, kind: str, rng: np.random.Generator
) -> tuple[dynamics.RigidBodyModel, dynamics.LoopConstraint, np.ndarray]:
    """The robot with a frame "held" where the first frame is at a random configuration, fixed to the second's body."""
    q = dynamics.random_configuration(model, rng)
    here, there = (dynamics.frame_placement(model, q, frame) for frame in (frame1, frame2))
    builder = builder_of(model)
    builder.add_frame("held", frame2, (there.R.T @ here.R, there.R.T @ (here.p - there.p)))
    robot = builder.build()
    return robot, dynamics.LoopConstraint(robot, frame1, "held", kind, gains=(0.0, 0.0)), q


def derivative(f: Any, step: float) -> Any:
    """df/dt at 0 of a function of one number, of order eight."""
    return sum(weight / step * (f(k * step) - f(-k * step)) for k, weight in STENCIL.items())


def compare_loop(
    model: dynamics.RigidBodyModel, frame1: str, frame2: str, kind: str, rng: np.random.Generator
) -> dict[str, Any]:
    """Errors of values, first and second derivatives, relative to the largest entry of each."""
    robot, loop, q = held_together(model, frame1, frame2, kind, rng)
    peer, n = PinocchioLoop(robot, loop), robot.nv
    v0, tau, dq, w, dv = rng.uniform(-1.0, 1.0, (5, n))

    def keeping(x, v):
        J = loop_rows(robot, x[None], loop).J[0]
        return v - np.linalg.pinv(J) @ (J @ v)

    def along(t):
        """A closed state on a curve through the first one."""
        x = dynamics.integrate(robot, q, t * keeping(q, dq))
        for _ in range(NEWTON):  # always as many, so that the curve is smooth
            rows = loop_rows(robot, x[None], loop)
            x = dynamics.integrate(robot, x, -np.linalg.pinv(rows.J[0]) @ rows.error[0])
        return x, keeping(x, v0)

    q, v = along(0.0)
    a = dynamics.contact_dynamics(robot, q, v, tau, [loop]).a
    theirs = peer.accelerations(q, v, tau)
    D = dynamics.contact_dynamics_derivatives(robot, q, v, tau, [loop])
    errors = {"values": np.abs(a - theirs).max() / np.abs(theirs).max(), "first": np.inf, "second": np.inf}
    H = dynamics.contact_dynamics_hessian(robot, q, v, tau, [loop], w, np.zeros((1, 3)))
    bend = H.Hqq @ dq + H.Hqv @ dv
    gradient = lambda x, y: w @ dynamics.contact_dynamics_derivatives(robot, x, y, tau, [loop]).da_dq  # noqa: E731
    for step in STEPS:
        by_q = derivative(lambda t: dynamics.difference(robot, q, along(t)[0]), step)
        by_v = derivative(lambda t: along(t)[1], step)
        expected = derivative(lambda t: peer.accelerations(*along(t), tau), step)
        found = D.da_dq @ by_q + D.da_dv @ by_v
        errors["first"] = min(errors["first"], np.abs(found - expected).max() / np.abs(expected).max())
        bent = derivative(lambda t: gradient(dynamics.integrate(robot, q, t * dq), v + t * dv), step)
        errors["second"] = min(errors["second"], np.abs(bend - bent).max() / np.abs(bent).max())
    return {name: float(error) for name, error in errors.items()}
