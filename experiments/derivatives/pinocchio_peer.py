"""Pinocchio (extra `peers`) as its Python users call it: analytical derivatives, one point per call; published robots.

    computeRNEADerivatives      computeABADerivatives

ComputeRNEASecondOrderDerivatives exists in C++ only.
"""

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import dynamics
from dynamics.model import joints

ROBOTS = {"ur3": False, "ur5": False, "baxter": False, "hyq": True, "anymal": True, "talos": True}
"""Name -> whether its base floats."""


def pinocchio() -> Any:
    """The module; ImportError that names the extra where it is not installed."""
    try:
        import pinocchio as pin  # pyright: ignore[reportMissingImports]
    except ImportError as error:
        raise ImportError("this comparison needs Pinocchio: make peers") from error
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
    """Pinocchio's joint; the kind for one coordinate axis where there is one, because it is faster."""
    several = {
        joints.FreeFlyer: pin.JointModelFreeFlyer,
        joints.Spherical: pin.JointModelSpherical,
        joints.Translation: pin.JointModelTranslation,
    }
    if type(joint) in several:
        return several[type(joint)]()
    if not isinstance(joint, joints.Revolute | joints.Prismatic):
        raise ValueError(f"joint: {type(joint).__name__} has other coordinates in Pinocchio")
    kind = "Revolute" if isinstance(joint, joints.Revolute) else "Prismatic"
    along = np.flatnonzero(np.array(joint.axis) == 1.0)
    if along.size:
        return getattr(pin, f"JointModel{kind[0]}{'XYZ'[along[0]]}")()
    return getattr(pin, f"JointModel{kind}Unaligned")(np.array(joint.axis))


def _over_points(function: Callable, peer: Any, arguments) -> Callable[[], Any]:
    """A call of function(peer, data, q, v, u) at K points, one after another; returns the data after the last."""
    data, points = peer.createData(), list(zip(*(np.atleast_2d(x) for x in arguments), strict=True))

    def call():
        for q, v, u in points:
            function(peer, data, q, v, u)
        return data

    return call


def inverse_derivatives(peer: Any, q, v, a) -> Callable[[], Any]:
    """A call of computeRNEADerivatives at K points (K, nq), (K, nv), (K, nv); results: data.dtau_dq, dtau_dv, M."""
    return _over_points(pinocchio().computeRNEADerivatives, peer, (q, v, a))


def forward_derivatives(peer: Any, q, v, tau) -> Callable[[], Any]:
    """A call of computeABADerivatives at K points; results: data.ddq_dq, ddq_dv, Minv."""
    return _over_points(pinocchio().computeABADerivatives, peer, (q, v, tau))


def disagreement(model: dynamics.RigidBodyModel, peer: Any, q, v, a) -> float:
    """Largest deviation of our tau, dtau_dq, dtau_dv and M at one point, over the largest entry of each."""
    pin, data = pinocchio(), inverse_derivatives(peer, [q], [v], [a])()
    M = np.triu(data.M) + np.triu(data.M, 1).T
    pairs = [
        (dynamics.inverse_dynamics(model, q, v, a), pin.rnea(peer, peer.createData(), q, v, a)),
        *zip(dynamics.inverse_dynamics_derivatives(model, q, v, a), (data.dtau_dq, data.dtau_dv, M), strict=True),
    ]
    return max(float(np.abs(ours - theirs).max() / np.abs(theirs).max()) for ours, theirs in pairs)


# ------------------------------------------------------------------------------------------------ published robots
def _file(name: str) -> Path:
    """The robot's URDF file."""
    try:
        import example_robot_data  # pyright: ignore[reportMissingImports]
    except ImportError as error:
        raise ImportError("robots need example_robot_data: make peers") from error
    if name == "ur3":  # some releases load ur5's file under this name
        return _file("ur5").with_name("ur3_robot.urdf")
    return Path(example_robot_data.load("talos_full" if name == "talos" else name).urdf)


def robot(name: str) -> tuple:
    """Our model and Pinocchio's of one of `ROBOTS`; q and v mean the same in both.

    Mimic joints have coordinates of their own in both, as Pinocchio reads a URDF file if nothing else is said.
    Raises ValueError for another name, ImportError without Pinocchio or example_robot_data.
    """
    if name not in ROBOTS:
        raise ValueError(f"name: got {name!r}, expected one of {', '.join(ROBOTS)}")
    pin = pinocchio()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # hyq has links of an inertia that no body can have
        path = str(_file(name))
        ours = dynamics.load_urdf(path, floating_base=ROBOTS[name]).full
        theirs = pin.buildModelFromUrdf(path, *([pin.JointModelFreeFlyer()] if ROBOTS[name] else []))
    # Pinocchio reads rotor inertias from the file, which not every robot's has; here the models must be the same
    theirs.armature = ours.armature.copy()
    if (theirs.nq, list(theirs.names)[1:]) != (ours.nq, list(ours.joint_names)):
        raise ValueError(f"{name}: the joints of {path} are not the same in both models")
    return ours, theirs
