"""Pinocchio (extra `peers`) as its Python users call it: analytical derivatives, one point per call.

    computeRNEADerivatives      computeABADerivatives      ComputeRNEASecondOrderDerivatives
"""

from collections.abc import Callable
from typing import Any

import numpy as np

import dynamics
from dynamics import joints


def pinocchio() -> Any:
    """The module; ImportError that names the extra where it is not installed."""
    try:
        import pinocchio as pin  # pyright: ignore[reportMissingImports]
    except ImportError as error:
        raise ImportError("this comparison needs Pinocchio: pip install 'trajopt[peers]'") from error
    return pin


def build(model: dynamics.RigidBodyModel) -> Any:
    """Pinocchio's model of the same tree, with q and v that mean the same.

    Bodies are numbered depth-first here, and must be there: Pinocchio adds each joint as it comes and gets mass
    matrices wrong if a subtree is not a contiguous range.  Raises ImportError without Pinocchio, ValueError on planar
    joints, whose angle it keeps as cosine and sine.
    """
    pin = pinocchio()
    m, peer = model.arrays, pin.Model()
    peer.gravity = pin.Motion(np.array(model.gravity), np.zeros(3))
    upper = np.triu_indices(3)
    for i, joint in enumerate(model.joints):
        R = m.rotation[i].reshape(3, 3, 3)
        # a revolute joint's blocks R A, R B, R C: A + B is the identity
        placement = pin.SE3(R[0] + R[1], m.translation[i].copy())
        number = peer.addJoint(int(m.parent[i]) + 1, _joint(pin, joint), placement, model.joint_names[i])
        about_origin = np.zeros((3, 3))
        about_origin[upper] = m.rotational_inertia[i]
        about_origin += np.triu(about_origin, 1).T
        mass = m.mass[i]
        com = m.first_moment[i] / mass if mass > 0.0 else np.zeros(3)
        shift = mass * (com @ com * np.eye(3) - np.outer(com, com))
        peer.appendBodyToJoint(number, pin.Inertia(mass, com, about_origin - shift), pin.SE3.Identity())
    peer.armature = np.array(model.armature)
    return peer


def _joint(pin, joint: joints.Joint) -> Any:
    if isinstance(joint, joints.Revolute):
        return pin.JointModelRevoluteUnaligned(np.array(joint.axis)) if max(joint.axis) < 1.0 else _aligned(
            joint.axis, pin.JointModelRX, pin.JointModelRY, pin.JointModelRZ
        )
    if isinstance(joint, joints.Prismatic):
        return pin.JointModelPrismaticUnaligned(np.array(joint.axis)) if max(joint.axis) < 1.0 else _aligned(
            joint.axis, pin.JointModelPX, pin.JointModelPY, pin.JointModelPZ
        )
    several = {
        joints.FreeFlyer: pin.JointModelFreeFlyer,
        joints.Spherical: pin.JointModelSpherical,
        joints.Translation: pin.JointModelTranslation,
    }
    if type(joint) not in several:
        raise ValueError(f"joint: {type(joint).__name__} has other coordinates in Pinocchio")
    return several[type(joint)]()


def _aligned(axis, x, y, z) -> Any:
    """Joints along a coordinate axis are faster in Pinocchio, so they are used where they fit."""
    return (x, y, z)[int(np.argmax(axis))]()
