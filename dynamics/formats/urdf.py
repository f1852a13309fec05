"""Robots from URDF: links, joints and shapes, and warnings about unread parts of a file."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element

import numpy as np
from numpy.typing import ArrayLike

from dynamics.formats.robot_files import MeshPaths, Remarks
from dynamics.formats.xml import attribute_of, by_name, child_of, number_of, numbers_of, parse, read_origin
from dynamics.geometry.geometry import PURPOSES, as_color
from dynamics.geometry.shapes import Box, Capsule, Cylinder, Ellipsoid, Mesh, Shape, Sphere
from dynamics.model.builder import ModelBuilder
from dynamics.model.joints import Continuous, Fixed, FreeFlyer, Joint, Planar, Prismatic, Revolute, Spherical
from dynamics.model.model import RigidBodyModel
from dynamics.validation import as_flag, unknown_name

# --------------------------------------------------------------------------------------------
# Reading the shapes of a URDF: <collision> and <visual> of every link, with the colours of their materials.

Color = tuple[float, float, float, float]


class GeometryReader:
    """Adds the shapes of a <robot> to a builder, link by link."""

    def __init__(self, robot: Element, paths: MeshPaths, remarks: Remarks) -> None:
        self._paths, self._remarks = paths, remarks
        self._names: set[str] = set()
        self._colors: dict[str, Color] = {}
        for material in robot.iter("material"):  # a material defined in a link may be referred to by others
            name, color = material.get("name"), _color(material)
            if name and color is not None:
                self._colors.setdefault(name, color)

    def add_all(self, builder: ModelBuilder, link: Element, name: str) -> None:
        """Add the shapes of a link that is in the builder."""
        for purpose in PURPOSES:
            for number, element in enumerate(link.findall(purpose)):
                where = f"<link name={name!r}> <{purpose}>"
                shape = self._shape(element, where)
                if shape is None:
                    continue
                own = element.get("name")
                label = own if own and own not in self._names else f"{name}_{purpose}_{number}"
                while label in self._names:
                    label += "_"
                self._names.add(label)
                color = self._color_of(element) if purpose == "visual" else None
                builder.add_geometry(name, shape, read_origin(element, where), purpose, label, color)

    def _shape(self, element: Element, where: str) -> Shape | None:
        """The shape of a <collision> or <visual>; None, with a remark, for a missing or unknown one."""
        geometry = element.find("geometry")
        kinds = [] if geometry is None else list(geometry)
        if not kinds or kinds[0].tag not in _SHAPES:
            found = f"<{kinds[0].tag}>" if kinds else "no <geometry>"
            self._remarks.add("shapes of an unknown kind are left out", f"{where} has {found}")
            return None
        kind = kinds[0]
        where = f"{where} <geometry>"
        if kind.tag == "mesh":
            return self._mesh(kind, where)
        try:
            return _SHAPES[kind.tag](kind, where)
        except ValueError as error:
            raise error if str(error).startswith("<") else ValueError(f"{where} <{kind.tag}>: {error}") from None

    def _mesh(self, element: Element, where: str) -> Mesh:
        path = self._paths.find(attribute_of(element, "filename", f"{where} <mesh>"))
        scale = element.get("scale", "1 1 1")
        count = len(scale.split())
        values = numbers_of(element, "scale", count if count in (1, 4) else 3, where, "1 1 1")
        if count == 4:
            self._remarks.add(
                "scales of meshes with four numbers, read as the first three", f"{where} <mesh> {scale!r}"
            )
            values = values[:3]
        if not values.all():
            raise ValueError(f"{where} <mesh>: attribute 'scale' is {scale!r}, expected nonzero numbers")
        return Mesh(path, values if len(values) == 3 else float(values[0]))

    def _color_of(self, element: Element) -> Color | None:
        material = element.find("material")
        if material is None:
            return None
        own = _color(material)
        return self._colors.get(material.get("name", "")) if own is None else own


def _color(material: Element) -> Color | None:
    color = material.find("color")
    if color is None or color.get("rgba") is None:
        return None
    where = f"<material name={material.get('name')!r}>"
    return as_color(f"{where} <color>: attribute 'rgba'", np.clip(numbers_of(color, "rgba", 4, where), 0.0, 1.0))


def _capsule(element: Element, where: str) -> Capsule:
    half = 0.5 * number_of(element, "length", where)
    return Capsule(number_of(element, "radius", where), (0.0, 0.0, -half), (0.0, 0.0, half))


_SHAPES: dict[str, Callable[[Element, str], Shape]] = {
    "sphere": lambda element, where: Sphere(number_of(element, "radius", where)),
    "box": lambda element, where: Box(0.5 * numbers_of(element, "size", 3, where)),
    "cylinder": lambda element, where: Cylinder(
        number_of(element, "radius", where), number_of(element, "length", where)
    ),
    "capsule": _capsule,
    "ellipsoid": lambda element, where: Ellipsoid(numbers_of(element, "radii", 3, where)),
    "mesh": lambda element, where: Mesh(attribute_of(element, "filename", where)),
}
"""Readers of shapes by the tag inside <geometry>; capsule and ellipsoid are common extensions."""


# --------------------------------------------------------------------------------------------
# Unread parts of a URDF: everything except the known parts, which are listed.
#
# Known are the parts that are read, and those that cannot change how the robot moves: pictures, sensors, programs,
# parameters of contacts with a ground, which a robot's file does not contain.  Any other part, a spring of a
# simulator or a misspelt attribute, might change it, and is named.

ORIGIN = "xyz rpy quat_xyzw"
_SHAPE = {
    "": "name group", "/origin": ORIGIN, "/geometry": "name", "/geometry/box": "size", "/geometry/sphere": "radius",
    "/geometry/cylinder": "radius length", "/geometry/capsule": "radius length", "/geometry/ellipsoid": "radii",
    "/geometry/mesh": "filename scale",
}  # fmt: skip
_JOINT = {
    "": "name type dont_collapse", "/parent": "link", "/child": "link", "/origin": ORIGIN, "/axis": "xyz",
    "/dynamics": "damping friction", "/mimic": "joint multiplier offset",
    # the last three are for drives, in addition to the limits that are read
    "/limit": "lower upper velocity effort current command_effort gear_velocity",
}  # fmt: skip
READ = {
    "": "name version",
    "/link": "name type", "/link/inertial": "", "/link/inertial/origin": ORIGIN, "/link/inertial/mass": "value",
    "/link/inertial/inertia": "ixx ixy ixz iyy iyz izz",
    **{f"/link/collision{path}": attributes for path, attributes in _SHAPE.items()},
    "/transmission": "name type", "/transmission/joint": "name", "/transmission/actuator": "name",
    "/transmission/actuator/drake:rotor_inertia": "value", "/transmission/actuator/drake:gear_ratio": "value",
    "/link/contact": "", "/gazebo": "reference name",
    **{f"/{tag}{path}": attributes for tag in ("joint", "drake:joint") for path, attributes in _JOINT.items()},
    "/mujoco": "", "/mujoco/compiler": "meshdir texturedir assetdir strippath discardvisual fusestatic convexhull",
    "/mujoco/option": "timestep integrator solver iterations tolerance cone jacobian impratio ls_iterations",
}  # fmt: skip
"""Elements that are read, by their path inside <robot>, with their attributes."""
REPEATED = {
    "/link", "/link/collision", "/joint", "/drake:joint", "/transmission", "/transmission/joint",
    "/transmission/actuator", "/gazebo", "/transmission/actuator/drake:rotor_inertia",
    "/transmission/actuator/drake:gear_ratio",
}  # fmt: skip
"""Elements that may occur several times; of others the first is read."""
HARMLESS = {
    "": "material sensor ros2_control frame drake:collision_filter_group",
    "/link": "visual sensor material surface self_filter collision_checking",
    "/link/contact": """lateral_friction rolling_friction spinning_friction stiffness damping restitution
        contact_cfm contact_erp friction_anchor""",
    "/link/collision": "material contact surface verbose drake:proximity_properties",
    "/link/collision/geometry/mesh": "drake:declare_convex",
    "/joint": "safety_controller calibration",
    "/transmission": "type mechanicalReduction",
    "/transmission/joint": "type hardwareInterface mechanicalReduction offset role ignoreTransmissionAbsoluteEncoder",
    "/transmission/actuator": "type hardwareInterface mechanicalReduction role",
    "/gazebo": """plugin sensor material visual canonicalBody provideFeedback preserveFixedJoint
        disableFixedJointLumping initial_joint_position implicitSpringDamper fudgeFactor laserRetro selfCollide
        self_collide mu mu1 mu2 fdir1 kp kd maxVel minDepth maxContacts stopCfm stopErp stopKp stopKd cfmDamping""",
    "/mujoco": "size visual statistic asset",
}
"""Elements that are ignored with their content, by the path around them."""
DEFAULTS = {
    "gravity": ("1", "true"), "turnGravityOff": ("0", "false"), "kinematic": ("0", "false"), "static": ("0", "false"),
    "enable_wind": ("0", "false"), "dampingFactor": ("0", "0.0"), "springStiffness": ("0", "0.0"),
    "springReference": ("0", "0.0"),
}  # fmt: skip
"""Settings of simulators, with the texts with which they have no effect."""
PROGRAMS = ("sensor", "controller", "interface")
"""Prefixes of elements for older simulators."""

UNREAD = "not read, though it may change how the robot moves"

_READ = {path: frozenset(attributes.split()) for path, attributes in READ.items()}
_HARMLESS = {f"{path}/{tag}" for path, tags in HARMLESS.items() for tag in tags.split()}


def note_unread(robot: Element, remarks: Remarks) -> None:
    """Record the unknown parts of a <robot>: the first of each kind, and their number."""
    found: dict[str, list[str]] = {}
    pending = [(robot, "", "")]
    while pending:
        element, path, where = pending.pop()
        for attribute in element.attrib:
            if attribute not in _READ[path] and not attribute.startswith("xmlns"):
                found.setdefault(f"{path}@{attribute}", []).append(f"{where or '<robot>'} attribute {attribute!r}")
        inner, seen = [], set()
        for child in element:
            below, label = f"{path}/{child.tag}", f"{where} {_label(child)}".lstrip()
            if below in _HARMLESS or child.tag.partition(":")[0] in PROGRAMS or _is_default(child):
                continue
            if below in _READ and (below not in seen or below in REPEATED):
                seen.add(below)
                inner.append((child, below, label))
            elif not path.endswith("/geometry"):  # the reader of shapes records what it leaves out
                found.setdefault(below, []).append(label)
        pending += reversed(inner)
    for places in found.values():
        more = f" (and {len(places) - 1} like it)" if len(places) > 1 else ""
        remarks.add(UNREAD, f"{places[0]}{more}")


def _label(element: Element) -> str:
    """The element as written in the file, with its name."""
    named = (f" {key}={element.get(key)!r}" for key in ("name", "reference") if element.get(key))
    return f"<{element.tag}{''.join(named)}>"


def _is_default(element: Element) -> bool:
    text = element.get("value", element.text) or ""
    return text.strip().lower() in DEFAULTS.get(element.tag, ())


# --------------------------------------------------------------------------------------------
# Reading URDF files.
#
# The file is parsed (entities rejected), its links and joints are read into plain records, the records are checked to
# form one tree, and the tree is handed to `ModelBuilder`, children in alphabetical order of joint name.

ROOT_JOINT = "root_joint"
JOINT_TYPES = {
    "joint": ("revolute", "continuous", "prismatic", "fixed", "floating", "planar"),
    "drake:joint": ("ball", "planar", "universal"),
}
"""Types of joints by the element: those of the format, and those that Drake adds to it."""
NO_LIMIT = -1.0
"""Value that some files use for a velocity or effort without limit."""
AT_ZERO = {"velocity": "read as no motion", "effort": "read as no torque"}


@dataclass(frozen=True)
class _Joint:
    name: str
    parent: str
    child: str
    motions: tuple[Joint, ...]  # the joints that it is made of, one behind the other
    placement: tuple[np.ndarray, np.ndarray]
    mimic: dict[str, Any] | None  # by the argument names of ModelBuilder.add_mimic
    parameters: dict[str, float]  # limits, damping and friction, by the argument names of ModelBuilder.add_body


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
    floating_base : if True the root link is carried by a free flyer, else it is fixed to the world; the free flyer is
        called "root_joint", with underscores behind where the file has a joint of that name
    gravity : (3,) acceleration in the world frame, m/s^2
    package_dirs : folders in which the packages of meshes ("package://name/...") are searched first; then those of
        ROS_PACKAGE_PATH and AMENT_PREFIX_PATH, then those above the file

    Returns
    -------
    RigidBodyModel
        Fixed links lumped into their moving ancestor, a frame for every link and joint. Velocity and effort limits are
        infinite where the file gives none, and so are position limits without a <limit> element; within one, lower and
        upper default to 0, as in the format, with a warning, for the joint cannot move. q has the coordinates of
        independent joints alone, not of mimic joints (see `ModelBuilder.add_mimic`); a mimic joint of an unknown joint
        is independent, with a warning. <limit> and <dynamics> of joints of several degrees of freedom are not read,
        with a warning, nor <limit lower, upper> of a continuous one. A planar joint moves in the plane normal to its
        axis (see `Planar`), whose default in the format is x.  Drake's own joints are read: a <drake:joint> of type
        "ball" as `Spherical`, "planar", and "universal" as two joints, "<name>[0]" about x and "<name>[1]" about y.
        Without any inertia the robot has kinematics alone.  Rotor inertia and gear ratio of Drake's <transmission> are
        armature, rotor inertia times the square of the ratio.  Rotations of <origin> are rpy, or quat_xyzw as of
        version 1.1.

        Every <collision> and <visual> becomes one of `geometries`, with its material's colour.  No mesh is read: one
        that is not found keeps its name, which is an error or a warning only where the mesh is needed.  A shape of an
        unknown kind is left out, with a warning.

    Raises
    ------
    ValueError
        If the text is not XML, declares entities, or is no URDF of one tree of links; the message names the element
        and the attribute. Also if a moving body, with all links fixed to it, has an inertia that no body can have;
        for a single link among several fixed to each other this is a warning (placeholders are common).
    FileNotFoundError
        If there is no such file.

    Warns
    -----
    UserWarning
        Names elements and attributes that are unknown and so not read, some of which may change how the robot moves,
        and those that are read differently from the file: limits of velocity or effort of -1 as none, an <inertial>
        without <inertia> as a point mass, an empty one as no mass.  Joints whose range is zero.

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
    """A builder of the robot; see `load_urdf`.  `file` is the path that a text was read from."""
    robot = parse(path_or_text)
    name = robot.get("name") or "robot"
    remarks = Remarks(f"URDF {name!r}")
    note_unread(robot, remarks)
    shapes = GeometryReader(robot, MeshPaths(path_or_text if file is None else file, package_dirs), remarks)
    links, elements = by_name(robot, "link"), by_name(robot, *JOINT_TYPES)
    rotors = _rotor_inertias(robot, elements, remarks)
    joints = [_read_joint(element, links, rotors, remarks) for element in elements.values()]
    tree = _tree(links, joints)
    builder = ModelBuilder(gravity=gravity, name=name, strict=False)
    root_joint, root_name = (FreeFlyer(), ROOT_JOINT) if as_flag("floating_base", floating_base) else (Fixed(), None)
    while root_name in elements:
        root_name += "_"
    builder.add_body(tree.root, "world", root_joint, joint_name=root_name, **_read_inertial(links[tree.root], remarks))
    pending = list(reversed(tree.joints.get(tree.root, [])))
    while pending:
        joint = pending.pop()
        *before, last = joint.motions
        parent, placement, name_of_last = joint.parent, joint.placement, joint.name
        for k, motion in enumerate(before):
            inner = f"{joint.name}[{k}]"
            builder.add_body(f"{inner}_body", parent, motion, joint_name=inner, placement=placement)
            parent, placement, name_of_last = f"{inner}_body", None, f"{joint.name}[{k + 1}]"
        inertia = _read_inertial(links[joint.child], remarks)
        builder.add_body(
            joint.child, parent, last, joint_name=name_of_last, placement=placement, **inertia, **joint.parameters
        )
        pending.extend(reversed(tree.joints.get(joint.child, [])))
    moving = dict.fromkeys(builder.joint_names)
    if not moving:
        expected = "at least one joint that moves, or floating_base=True, by which the root link does"
        raise ValueError(f"<robot name={name!r}>: got an empty model, expected {expected}")
    for joint in joints:
        if joint.mimic is not None:
            if joint.mimic["source"] not in moving:
                known = unknown_name("attribute 'joint'", joint.mimic["source"], moving)
                remarks.add("read as independent joints", f"<joint name={joint.name!r}> <mimic>: {known}")
                continue
            try:
                builder.add_mimic(joint.name, **joint.mimic)
            except ValueError as error:
                raise ValueError(f"<joint name={joint.name!r}> <mimic>: {error}") from None
    for name, element in links.items():
        shapes.add_all(builder, element, name)
    remarks.warn()
    return builder


def _rotor_inertias(robot: Element, joints: dict[str, Element], remarks: Remarks) -> dict[str, float]:
    """Armature of joints, the rotor inertia times the square of the gear ratio of Drake's <transmission>s."""
    rotors: dict[str, float] = {}
    for element in robot.findall("transmission"):
        where = f"<transmission name={element.get('name')!r}>"
        motor = [part for actuator in element.findall("actuator") for part in actuator]
        found, ratios = ([x for x in motor if x.tag == f"drake:{tag}"] for tag in ("rotor_inertia", "gear_ratio"))
        if not found:
            continue
        driven = element.findall("joint")
        joint = driven[0].get("name", "") if len(driven) == 1 else ""
        moves = joint in joints and joints[joint].get("type") in ("revolute", "continuous", "prismatic")
        if not moves or len(found) != 1 or len(ratios) > 1:
            remarks.add("rotor inertia of other than one motor on one joint of one degree of freedom, not read", where)
            continue
        ratio = number_of(ratios[0], "value", where) if ratios else 1.0
        rotors[joint] = rotors.get(joint, 0.0) + number_of(found[0], "value", where) * ratio**2
    return rotors


def _read_inertial(link: Element, remarks: Remarks) -> dict[str, Any]:
    """mass, com and inertia, in link axes, as arguments of `ModelBuilder.add_body`; empty without <inertial>."""
    inertial = link.find("inertial")
    if inertial is None:
        return {}
    where = f"<link name={link.get('name')!r}> <inertial>"
    if inertial.find("density") is not None:
        raise ValueError(
            f"{where}: got <density>, which the format does not have and which is not read; expected "
            '<mass value="..."/> and <inertia ixx="..." .../>, in kg and kg m^2'
        )
    if inertial.find("mass") is None and inertial.find("inertia") is None:
        remarks.add("without <mass> and <inertia>, read as no mass", where)
        return {}
    if inertial.find("mass") is None:
        raise ValueError(
            f'{where}: element <mass> is missing, expected <mass value="..."/> beside <inertia>, or no <inertial> '
            "for a link without mass"
        )
    if inertial.find("mass") is not None and inertial.find("inertia") is None:
        remarks.add("without <inertia>, read as point masses", where)
        mass = number_of(child_of(inertial, "mass", where), "value", where)
        return {"mass": mass, "com": read_origin(inertial, where)[1]}
    matrix = child_of(inertial, "inertia", where)
    xx, xy, xz, yy, yz, zz = (number_of(matrix, key, where) for key in ("ixx", "ixy", "ixz", "iyy", "iyz", "izz"))
    R, com = read_origin(inertial, where)
    with np.errstate(over="ignore", invalid="ignore"):  # the builder rejects non-finite values
        inertia = R @ np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]]) @ R.T
    return {"mass": number_of(child_of(inertial, "mass", where), "value", where), "com": com, "inertia": inertia}


def _read_joint(element: Element, links: dict[str, Element], rotors: dict[str, float], remarks: Remarks) -> _Joint:
    name = element.get("name", "")
    where = f"<{element.tag} name={name!r}>"
    kind = attribute_of(element, "type", where)
    if kind not in JOINT_TYPES[element.tag]:
        expected = f"expected one of {', '.join(JOINT_TYPES[element.tag])}"
        raise ValueError(f"{where}: attribute 'type' is {kind!r}, {expected}")
    ends = []
    for tag in ("parent", "child"):
        link = attribute_of(child_of(element, tag, where), "link", f"{where} <{tag}>")
        if link not in links:
            raise unknown_name(f"{where} <{tag}>: attribute 'link'", link, links)
        ends.append(link)
    motions = _motions_of_type(kind, element, where)
    count = sum(motion.nv for motion in motions)
    parameters = _read_parameters(element, kind, where, remarks) if count == 1 else {}
    if count > 1 and any(element.find(tag) is not None for tag in ("limit", "dynamics")):
        remarks.add("<limit> and <dynamics> of joints of several degrees of freedom, not read", name)
    if name in rotors and count == 1:
        parameters["armature"] = rotors[name]
    mimic = _read_mimic(element, where) if count else None
    return _Joint(name, ends[0], ends[1], motions, read_origin(element, where), mimic, parameters)


def _read_mimic(element: Element, where: str) -> dict[str, Any] | None:
    """The source of a mimic joint, its multiplier and its offset."""
    mimic = element.find("mimic")
    if mimic is None:
        return None
    source = attribute_of(mimic, "joint", f"{where} <mimic>")
    defaults = {"multiplier": "1", "offset": "0"}
    return {"source": source} | {name: number_of(mimic, name, where, default) for name, default in defaults.items()}


def _motions_of_type(kind: str, element: Element, where: str) -> tuple[Joint, ...]:
    """The joint, or the two that a universal joint consists of, about x and then about y."""
    without_axis = {"fixed": Fixed, "floating": FreeFlyer, "ball": Spherical}
    if kind in without_axis:
        return (without_axis[kind](),)
    if kind == "universal":
        return Revolute("x"), Revolute("y")
    axis_element = element.find("axis")
    axis = np.array([1.0, 0.0, 0.0]) if axis_element is None else numbers_of(axis_element, "xyz", 3, where)
    if not axis.any():
        raise ValueError(f"{where} <axis>: attribute 'xyz' is zero, expected a nonzero vector")
    types = {"revolute": Revolute, "continuous": Continuous, "prismatic": Prismatic, "planar": Planar}
    return (types[kind](axis),)


def _read_parameters(element: Element, kind: str, where: str, remarks: Remarks) -> dict[str, float]:
    """Limits, damping and friction of a joint with one degree of freedom; missing ones are left to the builder."""
    parameters = {}
    limit = element.find("limit")
    if limit is not None:
        if kind != "continuous":
            for argument in ("lower", "upper"):
                parameters[argument] = number_of(limit, argument, where, "0")
            if parameters["lower"] == parameters["upper"]:
                given = "lower" in limit.attrib or "upper" in limit.attrib
                why = "" if given else ", as the format takes a <limit> without lower and upper"
                remarks.add(f"ranges of zero{why}, in which the joint cannot move", element.get("name", ""))
        for argument in ("velocity", "effort"):
            if argument not in limit.attrib:
                continue
            bound = number_of(limit, argument, where)
            if bound == NO_LIMIT:
                remarks.add(f"limits of {argument} that are -1, read as none", element.get("name", ""))
                continue
            if bound == 0.0:
                remarks.add(f"limits of {argument} that are 0, {AT_ZERO[argument]}", element.get("name", ""))
            parameters[argument] = bound
    dynamics = element.find("dynamics")
    if dynamics is not None:
        for argument in ("damping", "friction"):
            parameters[argument] = number_of(dynamics, argument, where, "0")
    return parameters


def _tree(links: dict[str, Element], joints: list[_Joint]) -> _Tree:
    """The tree of links and joints, with one root; ValueError if they do not form one."""
    if not links:
        raise ValueError("<robot>: there is no <link>")
    carried_by: dict[str, str] = {}
    for joint in joints:
        if joint.child in carried_by:
            raise ValueError(
                f"<link name={joint.child!r}>: is the child of two joints, {carried_by[joint.child]!r} "
                f"and {joint.name!r}, expected one parent"
            )
        carried_by[joint.child] = joint.name
    roots = [link for link in links if link not in carried_by]
    if not roots:
        raise ValueError("<robot>: got a loop of joints, for every link is the child of one, expected a tree")
    if len(roots) > 1:
        raise ValueError(f"<robot>: got the root links {', '.join(map(repr, roots))}, expected one tree")
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
        raise ValueError(f"<robot>: got a loop of the joints that carry links {shown}, expected a tree")
    return tree
