"""One loader for all sources of robots: files, text, names of public descriptions, models of other libraries."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from numpy.typing import ArrayLike

from dynamics.formats import xacro_process
from dynamics.formats.mjcf import mjcf_builder, mujoco_builder
from dynamics.formats.pinocchio_models import pinocchio_builder
from dynamics.formats.robot_files import MeshPaths, is_file
from dynamics.formats.urdf import urdf_builder
from dynamics.formats.xml import root_of
from dynamics.model.builder import INERTIAS, ModelBuilder
from dynamics.model.edits import lock_joints
from dynamics.model.model import RigidBodyModel
from dynamics.validation import as_array, as_choice, as_flag, as_items, as_kind

EXPANSION, MEMORY = 30.0, 4 << 30
"""Seconds and bytes that the expansion of a xacro file may take; those of robots take a second."""
Reader = Callable[[str | Path, bool, tuple[str, ...]], ModelBuilder]
"""Reader of a robot from a path or text, True for a floating base, and folders of packages."""


def load_robot(
    source: Any,
    floating_base: bool = False,
    gravity: ArrayLike | None = None,
    lock: Mapping[str, ArrayLike] | None = None,
    keep: Iterable[str] | None = None,
    package_dirs: Iterable[str | Path] = (),
    xacro_arguments: Mapping[str, str] | None = None,
    inertias: str = "strict",
) -> RigidBodyModel:
    """Robot model from a file, text, a name or a model of another library.

    Parameters
    ----------
    source : one of
        path of a URDF, xacro or MJCF file (by its ending, .xml by its first element), or the text of one;
        name of a description of the package robot_descriptions, such as "panda_description" or "go2_mj_description",
        which that package fetches;
        a model of MuJoCo (mujoco.MjModel or mujoco.MjSpec) or Pinocchio (pinocchio.Model, or a wrapper of one).
    floating_base : for URDF and xacro: True if the root link is carried by a free flyer; the other formats specify it
    themselves
    gravity : (3,) m/s^2; None for that of the source, or (0, 0, -9.81) where it gives none
    lock, keep : joints that are fixed, as in `RigidBodyModel.locked`, before the robot is checked: a gripper whose
        fingers have no mass may be locked
    package_dirs : folders that are packages, or that these are in, with or without a package.xml, for `package://`
        names of meshes and $(find PACKAGE) of xacro files
    xacro_arguments : values of a xacro file's arguments
    inertias : "strict", "repaired" or "as_given"
        Treatment of inertias that no rigid body can have, for a moving body with all links fixed to it: a principal
        moment is negative, or exceeds the sum of the other two.  "strict" rejects them.  "repaired" takes, at the same
        mass and centre of mass, the inertia whose second moments of mass are the nearest that are positive
        semidefinite: a principal moment that is too large is kept, and the other two grow equally until their sum is
        that large; a warning names the bodies.  "as_given" keeps them, with a warning; mass matrices may then be
        singular or not positive definite somewhere.  MJCF is compiled by MuJoCo, which rejects such inertias itself,
        and has the option balanceinertia="true" to correct them.

    Returns
    -------
    RigidBodyModel

    Raises
    ------
    ValueError : an invalid source, with file, element and attribute; a xacro file whose expansion does not end;
        arguments that a format does not use; an unknown name.
    TypeError : for a source of another type.
    FileNotFoundError : if there is no such file.
    ImportError : without the package that reads a format; all are in the extra "robots".
    ConnectionError : if robot_descriptions cannot fetch a description.

    Warns
    -----
    UserWarning : names unread parts of the source that may change how the robot moves, parts that are read differently
        from the source, and inertias that no body can have, where they are used or repaired.

    Examples
    --------
    >>> robot = dynamics.load_robot(problems.model_path("arm6"), lock={"wrist_1": -0.5})
    >>> robot.joint_names
    ('shoulder_pan', 'shoulder_lift', 'elbow', 'wrist_2', 'wrist_3')
    """
    as_choice("inertias", inertias, INERTIAS)
    floating = as_flag("floating_base", floating_base)
    folders = tuple(str(folder) for folder in as_items("package_dirs", package_dirs, "folders"))
    arguments = dict(as_kind("xacro_arguments", xacro_arguments or {}, Mapping, "a mapping of names to values"))
    down = None if gravity is None else as_array("gravity", gravity, (3,), copy=True)
    builder, says_base = _builder(source, floating, folders, arguments)
    if says_base and floating:
        raise ValueError("floating_base: got True, expected False: this source says itself whether its base floats")
    if down is not None:
        builder.gravity = down
    builder.inertias = inertias
    lock_joints(builder, lock, keep)
    return builder.build()


def _builder(
    source: Any, floating: bool, folders: tuple[str, ...], arguments: Mapping[str, str]
) -> tuple[ModelBuilder, bool]:
    """A builder of the robot, and True if the source itself specifies a fixed or floating base."""
    if not isinstance(source, (str, Path)):
        package = type(getattr(source, "model", source)).__module__.partition(".")[0]
        if package == "mujoco":
            return mujoco_builder(source), True
        if package == "pinocchio":
            return pinocchio_builder(source), True
        raise TypeError(
            f"source: got {type(source).__name__}, expected a path, a text, a name, or a model of MuJoCo or Pinocchio"
        )
    text = source.lstrip("\ufeff \t\r\n") if isinstance(source, str) else ""
    if not text.startswith("<") and isinstance(source, str) and _is_name(source):
        source, folders = _described(source, folders)
    kind = _kind(source)
    if kind == "mjcf":
        if arguments:
            raise ValueError("xacro_arguments: got some, expected none for MJCF")
        return mjcf_builder(source), True
    text = _expanded(source, folders, arguments) if kind == "xacro" or arguments else source
    return urdf_builder(text, floating, folders, file=source), False


def _is_name(source: str) -> bool:
    """True if this is a name: letters, digits, underscores and plus signs alone, and no file of this name exists."""
    return source.replace("_", "").replace("+", "").isalnum() and not is_file(source)


def _described(name: str, folders: tuple[str, ...]) -> tuple[str | Path, tuple[str, ...]]:
    """File of a description of robot_descriptions, with xacro expanded, and the folders of its packages."""
    try:
        package = import_module("robot_descriptions")
    except ImportError:
        raise ImportError(
            f"source: there is no file {name!r}, and descriptions by name are those of the package robot_descriptions, "
            "of the extra `robots`"
        ) from None
    full = name if name.endswith("_description") else f"{name}_description"
    try:
        module = import_module(f"{package.__name__}.{full}")
    except ModuleNotFoundError:
        raise ValueError(
            f"source: there is neither a file {name!r} nor a description of that name in robot_descriptions"
        ) from None
    except Exception as error:  # git, which fetches it, raises anything
        raise ConnectionError(f"source: robot_descriptions could not fetch {full!r}: {error}") from None
    found = (
        *folders,
        str(Path(getattr(module, "PACKAGE_PATH", ".")).parent),
        str(getattr(module, "PACKAGE_PATH", ".")),
    )
    for attribute in ("URDF_PATH", "MJCF_PATH"):
        if hasattr(module, attribute):
            return Path(getattr(module, attribute)), found
    return _expanded(Path(module.XACRO_PATH), found, getattr(module, "XACRO_ARGS", {})), found


def _kind(source: str | Path) -> str:
    """Format of a file or text: "urdf", "xacro" or "mjcf"."""
    text = str(source).lstrip("\ufeff \t\r\n")
    if not (isinstance(source, str) and text.startswith("<")):
        path = Path(source)
        if path.suffix in (".xacro", ".urdf"):
            return path.suffix[1:]
        if not is_file(path):
            return "urdf"  # whose reader reports the missing file
        text = path.read_text(errors="replace")
    try:
        root = root_of(text)
    except Exception:  # the reader reports the error
        return "mjcf" if "<mujoco" in text else "urdf"
    if root.tag == "sdf":
        raise ValueError("source: the root element is <sdf>; SDF is not read, expected URDF, xacro or MJCF")
    if root.tag in ("mujoco", "mujocoinclude"):
        return "mjcf"
    return "xacro" if any(mark in text for mark in ("<xacro:", "${", "$(")) else "urdf"  # some only declare xacro


def _expanded(source: str | Path, folders: tuple[str, ...], arguments: Mapping[str, str]) -> str:
    """URDF text of a xacro file or text, expanded in a process of its own within `EXPANSION` seconds and `MEMORY`
    bytes; ValueError with xacro's message."""
    if find_spec("xacrodoc") is None:
        raise ImportError("xacro is expanded by the package xacrodoc, of the extra `robots`")
    text = str(source).lstrip("\ufeff \t\r\n")
    is_text = isinstance(source, str) and text.startswith("<")
    if not is_text and not is_file(source):
        raise FileNotFoundError(f"source: there is no file {str(source)[:200]!r}")
    given = {str(name): str(value) for name, value in arguments.items()}
    job = {
        "source": text if is_text else str(source), "is_text": is_text, "arguments": given, "folders": folders,
        "packages": MeshPaths(source, folders).packages, "path": sys.path, "memory": MEMORY,
    }  # fmt: skip
    label = f"xacro {str(source)[:200]!r}"
    try:
        done = subprocess.run(
            [sys.executable, xacro_process.__file__],
            input=json.dumps(job),
            capture_output=True,
            text=True,
            check=False,
            timeout=EXPANSION,
        )
        result = json.loads(done.stdout)
    except subprocess.TimeoutExpired:
        raise ValueError(f"{label}: got an expansion of more than {EXPANSION:g} s, expected one that ends") from None
    except ValueError:
        last = done.stderr.strip().rpartition("\n")[2] or f"exit status {done.returncode}"
        raise ValueError(f"{label}: got an expansion that did not end by itself: {last}") from None
    if "text" in result:
        return result["text"]
    advice = ""
    if result["package"] is not None:
        advice = (
            f"; expected the folder of the package {result['package']!r}, or the one that it is in, among "
            f"package_dirs, got {list(folders)!r}"
        )
    elif "argument" in result["error"].lower():
        advice = f"; values of a file's arguments are given by xacro_arguments, got {given!r}"
    raise ValueError(f"{label}: {result['error']}{advice}")
