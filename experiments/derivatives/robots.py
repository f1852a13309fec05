"""Published robots, ours beside Pinocchio's model of the same file (extra `peers`)."""

import warnings
from pathlib import Path

import dynamics
from experiments.derivatives.pinocchio_peer import pinocchio

ROBOTS = {"ur3": False, "ur5": False, "baxter": False, "hyq": True, "anymal": True, "talos": True}
"""Name -> whether its base floats."""


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
