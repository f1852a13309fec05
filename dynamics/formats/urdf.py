"""Reading URDF files.

The file is parsed (entities refused), its links and joints are read into plain records, the records are checked to form
one tree, and the tree is handed to `ModelBuilder`, children in alphabetical order of joint name.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element

import numpy as np
from numpy.typing import ArrayLike

from dynamics.builder import ModelBuilder
from dynamics.formats.mesh_paths import MeshPaths
from dynamics.formats.urdf_geometry import GeometryReader
from dynamics.formats.xml import attribute_of, by_name, child_of, number_of, numbers_of, parse, read_origin
from dynamics.joints import Continuous, Fixed, FreeFlyer, Joint, Planar, Prismatic, Revolute
from dynamics.model import RigidBodyModel
from dynamics.simd.caller import warn
from dynamics.validation import as_flag, unknown_name

ROOT_JOINT = "root_joint"
JOINT_TYPES = ("revolute", "continuous", "prismatic", "fixed", "floating", "planar")


@dataclass(frozen=True)
class _Joint:
    name: str
    parent: str
    child: str
    joint: Joint
    placement: tuple[np.ndarray, np.ndarray]
    mimic: dict[str, Any] | None  # by the names of ModelBuilder.add_mimic
    parameters: dict[str, float]  # limits, damping and friction, by their names in ModelBuilder.add_body


@dataclass
class _Tree:
    root: str
    joints: dict[str, list[_Joint]] = field(default_factory=dict)  # by parent link, in alphabetical order


def load_urdf(
    path_or_text: str | Path,
    floating_base: bool = False,
    gravity: ArrayLike = (0.0, 0.0, -9.81),
    package_dirs: Sequence[str | Path] | str | Path = (),
) -> RigidBodyModel:
    """Robot model from a URDF file or from URDF text.

    Parameters
    ----------
    path_or_text : path of a file, or the XML text itself (recognised by its first character, "<")
    floating_base : if True the root link is carried by a free flyer named "root_joint", else it is fixed to the world
    gravity : (3,) acceleration in the world frame, m/s^2
    package_dirs : folders in which the packages of meshes ("package://name/...") are looked for first; then those of
        ROS_PACKAGE_PATH and AMENT_PREFIX_PATH, then those above the file

    Returns
    -------
    RigidBodyModel
        Fixed links lumped into their moving ancestor, a frame for every link and joint. Velocity and effort limits are
        infinite where the file gives none, and so are position limits without a <limit> element; within one, lower and
        upper default to 0, as the format says. Mimic joints follow others, whose coordinates q has alone (see
        `ModelBuilder.add_mimic`); one of a joint that there is not follows none, with a warning. <limit> and
        <dynamics> of a floating or planar joint, and <limit lower, upper> of a continuous one, are not read. A planar
        joint moves in the plane normal to its axis (see `Planar`), whose default in the format is x.

        Every <collision> and <visual> becomes one of `geometries`, with its material's colour.  No mesh is read: one
        that is nowhere to be found keeps its name, which is an error or a warning only where it is needed.  A shape of
        a kind that is not known is left out, with a warning.

    Raises
    ------
    ValueError
        If the text is not XML, declares entities, or is no URDF of one tree of links; the message names the element
        and the attribute. Also if a moving body, with all that is fixed to it, has an inertia that no body can have;
        a single link among several fixed to each other may, with a warning (placeholders are common).
    FileNotFoundError
        If there is no such file.

    Examples
    --------
    >>> robot = dynamics.load_urdf(problems.model_path("arm6"))
    >>> robot.nv, robot.joint_names[:2], round(robot.total_mass, 1)
    (6, ('shoulder_pan', 'shoulder_lift'), 28.4)
    >>> dynamics.load_urdf(problems.model_path("arm6"), floating_base=True).nv
    12
    """
    return urdf_builder(path_or_text, floating_base, package_dirs, gravity).build()


def urdf_builder(
    path_or_text: str | Path,
    floating_base: bool,
    package_dirs: Sequence[str | Path] | str | Path = (),
    gravity: ArrayLike = (0.0, 0.0, -9.81),
    file: str | Path | None = None,
) -> ModelBuilder:
    """A builder of the robot; see `load_urdf`.  `file` is where a text comes from."""
    robot = parse(path_or_text)
    shapes = GeometryReader(robot, MeshPaths(path_or_text if file is None else file, package_dirs))
    links = by_name(robot, "link")
    joints = [_read_joint(element, links) for element in by_name(robot, "joint").values()]
    tree = _tree(links, joints)
    builder = ModelBuilder(gravity=gravity, name=robot.get("name") or "robot", strict=False)
    root_joint, root_name = (FreeFlyer(), ROOT_JOINT) if as_flag("floating_base", floating_base) else (Fixed(), None)
    builder.add_body(tree.root, "world", root_joint, joint_name=root_name, **_read_inertial(links[tree.root]))
    pending = list(reversed(tree.joints.get(tree.root, [])))
    while pending:
        joint = pending.pop()
        builder.add_body(
            joint.child,
            joint.parent,
            joint.joint,
            joint_name=joint.name,
            placement=joint.placement,
            **_read_inertial(links[joint.child]),
            **joint.parameters,
        )
        pending.extend(reversed(tree.joints.get(joint.child, [])))
    for joint in joints:
        if joint.mimic is not None:
            if joint.mimic["source"] not in builder.joint_names:
                known = unknown_name("joint that moves", joint.mimic["source"], builder.joint_names)
                warn(f"<joint name={joint.name!r}> <mimic>: {known}; read as a joint that follows none")
                continue
            try:
                builder.add_mimic(joint.name, **joint.mimic)
            except ValueError as error:
                raise ValueError(f"<joint name={joint.name!r}> <mimic>: {error}") from None
    for name, element in links.items():
        shapes.add_all(builder, element, name)
    shapes.warn_of_left_out()
    return builder


def _read_inertial(link: Element) -> dict[str, Any]:
    """mass, com and inertia, in link axes, as `ModelBuilder.add_body` wants them; nothing without <inertial>."""
    inertial = link.find("inertial")
    if inertial is None:
        return {}
    where = f"<link name={link.get('name')!r}> <inertial>"
    matrix = child_of(inertial, "inertia", where)
    xx, xy, xz, yy, yz, zz = (number_of(matrix, key, where) for key in ("ixx", "ixy", "ixz", "iyy", "iyz", "izz"))
    R, com = read_origin(inertial, where)
    with np.errstate(over="ignore", invalid="ignore"):  # the builder refuses what is not finite
        inertia = R @ np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]]) @ R.T
    return {"mass": number_of(child_of(inertial, "mass", where), "value", where), "com": com, "inertia": inertia}


def _read_joint(element: Element, links: dict[str, Element]) -> _Joint:
    name = element.get("name", "")
    where = f"<joint name={name!r}>"
    kind = attribute_of(element, "type", where)
    if kind not in JOINT_TYPES:
        raise ValueError(f"{where}: attribute 'type' is {kind!r}, expected one of {', '.join(JOINT_TYPES)}")
    ends = []
    for tag in ("parent", "child"):
        link = attribute_of(child_of(element, tag, where), "link", f"{where} <{tag}>")
        if link not in links:
            raise ValueError(f"{where} <{tag}>: attribute 'link': {unknown_name('link', link, links)}")
        ends.append(link)
    joint = _joint_of_type(kind, element, where)
    parameters = _read_parameters(element, kind, where) if joint.nv == 1 else {}
    mimic = _read_mimic(element, where) if joint.nv else None
    return _Joint(name, ends[0], ends[1], joint, read_origin(element, where), mimic, parameters)


def _read_mimic(element: Element, where: str) -> dict[str, Any] | None:
    """Which joint this one follows, and how."""
    mimic = element.find("mimic")
    if mimic is None:
        return None
    source = attribute_of(mimic, "joint", f"{where} <mimic>")
    defaults = {"multiplier": "1", "offset": "0"}
    return {"source": source} | {name: number_of(mimic, name, where, default) for name, default in defaults.items()}


def _joint_of_type(kind: str, element: Element, where: str) -> Joint:
    if kind == "fixed":
        return Fixed()
    if kind == "floating":
        return FreeFlyer()
    axis_element = element.find("axis")
    axis = np.array([1.0, 0.0, 0.0]) if axis_element is None else numbers_of(axis_element, "xyz", 3, where)
    if not axis.any():
        raise ValueError(f"{where} <axis>: attribute 'xyz' is zero, expected a nonzero vector")
    types = {"revolute": Revolute, "continuous": Continuous, "prismatic": Prismatic, "planar": Planar}
    return types[kind](axis)


def _read_parameters(element: Element, kind: str, where: str) -> dict[str, float]:
    """Limits, damping and friction of a joint with one degree of freedom; what is absent is left to the builder."""
    parameters = {}
    limit = element.find("limit")
    if limit is not None:
        if kind != "continuous":
            for argument in ("lower", "upper"):
                parameters[argument] = number_of(limit, argument, where, "0")
        for argument in ("velocity", "effort"):
            if argument in limit.attrib:
                parameters[argument] = number_of(limit, argument, where)
    dynamics = element.find("dynamics")
    if dynamics is not None:
        for argument in ("damping", "friction"):
            parameters[argument] = number_of(dynamics, argument, where, "0")
    return parameters


def _tree(links: dict[str, Element], joints: list[_Joint]) -> _Tree:
    """The tree that the joints make of the links, which must be one, with one root."""
    if not links:
        raise ValueError("<robot>: there is no <link>")
    carried_by: dict[str, str] = {}
    for joint in joints:
        if joint.child in carried_by:
            raise ValueError(
                f"<link name={joint.child!r}>: is the child of two joints, {carried_by[joint.child]!r} "
                f"and {joint.name!r}; expected one parent"
            )
        carried_by[joint.child] = joint.name
    roots = [link for link in links if link not in carried_by]
    if not roots:
        raise ValueError("<robot>: every link is the child of a joint, so the joints form a loop; expected a tree")
    if len(roots) > 1:
        raise ValueError(f"<robot>: there are several root links, {', '.join(map(repr, roots))}; expected one tree")
    tree = _Tree(roots[0])
    for joint in sorted(joints, key=lambda joint: joint.name):
        tree.joints.setdefault(joint.parent, []).append(joint)
    reached, pending = {tree.root}, [tree.root]
    while pending:
        children = [joint.child for joint in tree.joints.get(pending.pop(), [])]
        reached.update(children)
        pending.extend(children)
    unreached = [link for link in links if link not in reached]
    if unreached:
        shown = ", ".join(map(repr, unreached[:5]))
        raise ValueError(f"<robot>: the joints that carry links {shown} form a loop; expected a tree")
    return tree
