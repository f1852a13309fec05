"""Reading URDF files.

The file is parsed (entities refused), its links and joints are read into plain records, the records are checked to form
one tree, and the tree is handed to `ModelBuilder`, children in alphabetical order of joint name.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element, ParseError

import defusedxml.ElementTree
import numpy as np
from defusedxml import DefusedXmlException
from numpy.typing import ArrayLike

from dynamics.builder import ModelBuilder
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
    parameters: dict[str, float]  # limits, damping and friction, by their names in ModelBuilder.add_body


@dataclass
class _Tree:
    root: str
    joints: dict[str, list[_Joint]] = field(default_factory=dict)  # by parent link, in alphabetical order


def load_urdf(
    path_or_text: str | Path, floating_base: bool = False, gravity: ArrayLike = (0.0, 0.0, -9.81)
) -> RigidBodyModel:
    """Robot model from a URDF file or from URDF text.

    Parameters
    ----------
    path_or_text : path of a file, or the XML text itself (recognised by its first character, "<")
    floating_base : if True the root link is carried by a free flyer named "root_joint", else it is fixed to the world
    gravity : (3,) acceleration in the world frame, m/s^2

    Returns
    -------
    RigidBodyModel
        Fixed links lumped into their moving ancestor, a frame for every link and joint. Velocity and effort limits are
        infinite where the file gives none, and so are position limits without a <limit> element; within one, lower and
        upper default to 0, as the format says. A mimic joint becomes an ordinary joint, with a warning. <limit> and
        <dynamics> of a floating or planar joint, and <limit lower, upper> of a continuous one, are not read. A planar
        joint moves in the plane normal to its axis (see `Planar`), whose default in the format is x.

    Raises
    ------
    ValueError
        If the text is not XML, declares entities, or is no URDF of one tree of links; the message names the element
        and the attribute. Also if a moving body, with all that is fixed to it, has an inertia that no body can have;
        a single link among several fixed to each other may, with a warning (placeholders are common).
    FileNotFoundError
        If there is no such file.
    """
    robot = _parse(path_or_text)
    links = _by_name(robot, "link")
    joints = [_read_joint(element, links) for element in _by_name(robot, "joint").values()]
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
    return builder.build()


def _parse(path_or_text: str | Path) -> Element:
    """The <robot> element."""
    source: str | bytes
    if isinstance(path_or_text, str) and path_or_text.lstrip("\ufeff \t\r\n").startswith("<"):
        origin, source = "URDF text", path_or_text.lstrip("\ufeff \t\r\n")
    elif isinstance(path_or_text, (str, Path)):
        origin, source = f"URDF file {str(path_or_text)[:200]!r}", _read_file(path_or_text)
    else:
        raise TypeError(f"path_or_text: got {type(path_or_text).__name__}, expected a path or the text of a URDF")
    try:
        robot = defusedxml.ElementTree.fromstring(source)
    except DefusedXmlException as error:
        raise ValueError(f"{origin}: XML entities and external references are refused, got {error}") from None
    except (ParseError, ValueError, LookupError) as error:  # bad syntax, bad characters, unknown encoding
        raise ValueError(f"{origin}: not well-formed XML ({error})") from None
    if robot.tag != "robot":
        raise ValueError(f"{origin}: the root element is <{robot.tag}>, expected <robot>")
    return robot


def _read_file(path: str | Path) -> bytes:
    try:
        return Path(path).read_bytes()
    except PermissionError:
        raise
    except (OSError, ValueError):  # among them a directory, a name that is too long, a null character
        raise FileNotFoundError(
            f"path_or_text: there is no file {str(path)[:200]!r}, and it is no URDF text, which would begin with '<'"
        ) from None


def _by_name(robot: Element, tag: str) -> dict[str, Element]:
    elements: dict[str, Element] = {}
    for element in robot.findall(tag):
        name = _attribute(element, "name", f"<{tag}>")
        if name in elements:
            raise ValueError(f"<{tag} name={name!r}>: there are two of this name")
        elements[name] = element
    return elements


def _attribute(element: Element, attribute: str, where: str) -> str:
    value = element.get(attribute)
    if not value:
        raise ValueError(f"{where}: attribute {attribute!r} is missing or empty")
    return value


def _child(element: Element, tag: str, where: str) -> Element:
    child = element.find(tag)
    if child is None:
        raise ValueError(f"{where}: element <{tag}> is missing")
    return child


def _numbers(element: Element, attribute: str, count: int, where: str, default: str | None = None) -> np.ndarray:
    """The finite numbers (count,) of an attribute of `element`, which is named in errors as a part of `where`."""
    where = f"{where} <{element.tag}>"
    text = element.get(attribute, default)
    if text is None:
        raise ValueError(f"{where}: attribute {attribute!r} is missing")
    try:
        numbers = np.array([float(word) for word in text.split()])
    except ValueError:
        numbers = np.array([])
    if numbers.shape != (count,) or not np.isfinite(numbers).all():
        wanted = "a finite number" if count == 1 else f"{count} finite numbers"
        raise ValueError(f"{where}: attribute {attribute!r} is {text!r}, expected {wanted}")
    return numbers


def _number(element: Element, attribute: str, where: str, default: str | None = None) -> float:
    return float(_numbers(element, attribute, 1, where, default)[0])


def _read_origin(element: Element, where: str) -> tuple[np.ndarray, np.ndarray]:
    """Placement (R, p) of <origin xyz rpy>: R = Rz(yaw) Ry(pitch) Rx(roll)."""
    origin = element.find("origin")
    if origin is None:
        return np.eye(3), np.zeros(3)
    p = _numbers(origin, "xyz", 3, where, "0 0 0")
    (cr, cp, cy), (sr, sp, sy) = (f(_numbers(origin, "rpy", 3, where, "0 0 0")) for f in (np.cos, np.sin))
    Rz = np.array([[cy, -sy, 0.0], [sy, cy, 0.0], [0.0, 0.0, 1.0]])
    Ry = np.array([[cp, 0.0, sp], [0.0, 1.0, 0.0], [-sp, 0.0, cp]])
    Rx = np.array([[1.0, 0.0, 0.0], [0.0, cr, -sr], [0.0, sr, cr]])
    return Rz @ Ry @ Rx, p


def _read_inertial(link: Element) -> dict[str, Any]:
    """mass, com and inertia, in link axes, as `ModelBuilder.add_body` wants them; nothing without <inertial>."""
    inertial = link.find("inertial")
    if inertial is None:
        return {}
    where = f"<link name={link.get('name')!r}> <inertial>"
    matrix = _child(inertial, "inertia", where)
    xx, xy, xz, yy, yz, zz = (_number(matrix, key, where) for key in ("ixx", "ixy", "ixz", "iyy", "iyz", "izz"))
    R, com = _read_origin(inertial, where)
    with np.errstate(over="ignore", invalid="ignore"):  # the builder refuses what is not finite
        inertia = R @ np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]]) @ R.T
    return {"mass": _number(_child(inertial, "mass", where), "value", where), "com": com, "inertia": inertia}


def _read_joint(element: Element, links: dict[str, Element]) -> _Joint:
    name = element.get("name", "")
    where = f"<joint name={name!r}>"
    kind = _attribute(element, "type", where)
    if kind not in JOINT_TYPES:
        raise ValueError(f"{where}: attribute 'type' is {kind!r}, expected one of {', '.join(JOINT_TYPES)}")
    ends = []
    for tag in ("parent", "child"):
        link = _attribute(_child(element, tag, where), "link", f"{where} <{tag}>")
        if link not in links:
            raise ValueError(f"{where} <{tag}>: attribute 'link': {unknown_name('link', link, links)}")
        ends.append(link)
    joint = _joint_of_type(kind, element, where)
    if element.find("mimic") is not None:
        warn(f"{where}: <mimic> is not supported, read as an ordinary joint")
    parameters = _read_parameters(element, kind, where) if joint.nv == 1 else {}
    return _Joint(name, ends[0], ends[1], joint, _read_origin(element, where), parameters)


def _joint_of_type(kind: str, element: Element, where: str) -> Joint:
    if kind == "fixed":
        return Fixed()
    if kind == "floating":
        return FreeFlyer()
    axis_element = element.find("axis")
    axis = np.array([1.0, 0.0, 0.0]) if axis_element is None else _numbers(axis_element, "xyz", 3, where)
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
                parameters[argument] = _number(limit, argument, where, "0")
        for argument in ("velocity", "effort"):
            if argument in limit.attrib:
                parameters[argument] = _number(limit, argument, where)
    dynamics = element.find("dynamics")
    if dynamics is not None:
        for argument in ("damping", "friction"):
            parameters[argument] = _number(dynamics, argument, where, "0")
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
