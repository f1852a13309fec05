"""Robots that come with packages: how they are loaded here, and a model of Pinocchio or MuJoCo that others made of the
same file.

Nothing is fetched: robots of packages that are not installed are left out.
"""

from __future__ import annotations

import importlib.util
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import dynamics

FIXED = (
    "panda", "ur5", "ur10", "kinova", "xarm7", "z1", "baxter", "tiago_dual", "pr2", "allegro_right_hand",
    "alex_psyonic_hands", "talos_arm", "asr_twodof",
)  # fmt: skip
FLOATING = (
    "anymal", "anymal_c", "hyq", "solo12", "go2", "a1", "bolt", "talos", "g1_with_hands", "simple_humanoid", "iris",
)  # fmt: skip
MJCF = {
    "dm_control": (
        "suite/humanoid", "suite/humanoid_CMU", "suite/cheetah", "suite/walker", "suite/quadruped", "suite/dog",
        "third_party/kinova/jaco_arm", "third_party/kinova/jaco_hand", "locomotion/walkers/assets/rodent",
    ),
    "gymnasium": ("envs/mujoco/assets/ant", "envs/mujoco/assets/pusher", "envs/mujoco/assets/walker2d_v5"),
    "gymnasium_robotics": ("envs/assets/hand/reach", "envs/assets/adroit_hand/adroit_door"),
}  # fmt: skip


class Robot(NamedTuple):
    """A robot here, and one or two others: a pinocchio.Model, a mujoco.MjModel."""

    name: str
    source: str
    model: dynamics.RigidBodyModel
    pinocchio: Any
    mujoco: Any = None
    tree: Any = None  # of `pinocchio`, where joints follow others


class Loader(NamedTuple):
    name: str
    load: Callable[[], Robot]


def quietly(call: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """Without the warnings that readers have of what they leave out."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return call(*arguments, **options)


def installed(*names: str) -> bool:
    """Whether there are packages of these names."""
    return all(importlib.util.find_spec(name) is not None for name in names)


def loaders() -> Iterator[Loader]:
    """All robots that can be had here, unloaded."""
    if not installed("pinocchio"):
        return
    if installed("example_robot_data"):
        for name in FIXED + FLOATING:
            yield Loader(name, lambda name=name: _urdf(name, name in FLOATING))
        edited = {"panda, fingers locked": _locked, "ur5 and a payload": _loaded, "ur5 and panda": _both}
        for name, edit in edited.items():
            yield Loader(name, lambda name=name, edit=edit: edit(name))
        yield Loader("talos, from Pinocchio", lambda: _object("talos, from Pinocchio"))
    if installed("mujoco"):
        for package, names in MJCF.items():
            spec = importlib.util.find_spec(package)
            for name in names if spec is not None and spec.origin else ():
                path = Path(str(spec.origin)).parent / f"{name}.xml"
                label = f"{package}: {path.stem}"
                yield Loader(label, lambda label=label, path=path: _mjcf(label, path))


# ------------------------------------------------------------------------------------------------ by format
def _urdf_path(name: str) -> str:
    from example_robot_data.robots_loader import ROBOTS

    return ROBOTS[name]().df_path


def _theirs(name: str, floating: bool, mimic: bool = False) -> tuple[str, Any]:
    import pinocchio

    path = _urdf_path(name)
    root = (pinocchio.JointModelFreeFlyer(),) if floating else ()
    return path, pinocchio.buildModelFromUrdf(path, *root, mimic=mimic)


def _urdf(name: str, floating: bool) -> Robot:
    path, peer = _theirs(name, floating)
    model = quietly(dynamics.load_robot, path, floating_base=floating)
    if not model.mimics:
        return Robot(name, "URDF", model, peer)
    return Robot(name, "URDF", model, _theirs(name, floating, mimic=True)[1], tree=peer)


def _locked(name: str) -> Robot:
    import pinocchio

    path, peer = _theirs("panda", False)
    fingers = {"panda_finger_joint1": 0.02, "panda_finger_joint2": 0.02}
    q = np.zeros(peer.nq)
    q[-2:] = list(fingers.values())
    reduced = pinocchio.buildReducedModel(peer, [peer.getJointId(finger) for finger in fingers], q)
    return Robot(name, "URDF", quietly(dynamics.load_robot, path, lock=fingers), reduced)


def _loaded(name: str) -> Robot:
    import pinocchio

    path, peer = _theirs("ur5", False)
    com, inertia = np.array([0.02, -0.01, 0.1]), np.diag([0.02, 0.03, 0.025])
    peer.appendBodyToJoint(peer.njoints - 1, pinocchio.Inertia(3.0, com, inertia), pinocchio.SE3.Identity())
    model = quietly(dynamics.load_robot, path)
    return Robot(
        name, "URDF", model.with_body("load", model.body_names[-1], mass=3.0, com=com, inertia=inertia), peer
    )  # fmt: skip


def _both(name: str) -> Robot:
    import pinocchio

    R, p = np.array([[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]), np.array([0.5, 0.2, 0.1])
    (first, one), (second, two) = _theirs("ur5", False), _theirs("panda", False)
    peer = pinocchio.appendModel(one, two, 0, pinocchio.SE3(R, p))
    models = {"a": quietly(dynamics.load_robot, first), "b": quietly(dynamics.load_robot, second)}
    return Robot(name, "URDF", dynamics.combine(models, {"b": (R, p)}).full, peer)


def _object(name: str) -> Robot:
    _, peer = _theirs("talos", True)
    return Robot(name, "Pinocchio", quietly(dynamics.load_robot, peer), peer)


def _mjcf(name: str, path: Path) -> Robot:
    import mujoco

    from experiments.public_robots.oracles import as_pinocchio

    compiled = mujoco.MjModel.from_xml_path(str(path))
    model = quietly(dynamics.load_robot, path)
    return Robot(name, "MJCF", model, as_pinocchio(model), compiled)
