"""What a URDF says and nobody here reads: all but what is known, by a list of that.

Known is what the reader takes, and what cannot change how the robot moves: pictures, sensors, programs, figures of
contacts with a ground, which a robot's file does not hold.  Whatever else there is, a spring of a simulator or a
misspelt attribute, might, and is named.
"""

from __future__ import annotations

from xml.etree.ElementTree import Element

from dynamics.formats.remarks import Remarks

ORIGIN = "xyz rpy quat_xyzw"
_SHAPE = {
    "": "name group", "/origin": ORIGIN, "/geometry": "name", "/geometry/box": "size", "/geometry/sphere": "radius",
    "/geometry/cylinder": "radius length", "/geometry/capsule": "radius length", "/geometry/ellipsoid": "radii",
    "/geometry/mesh": "filename scale",
}  # fmt: skip
READ = {
    "": "name version",
    "/link": "name type", "/link/inertial": "", "/link/inertial/origin": ORIGIN, "/link/inertial/mass": "value",
    "/link/inertial/inertia": "ixx ixy ixz iyy iyz izz",
    **{f"/link/collision{path}": attributes for path, attributes in _SHAPE.items()},
    "/joint": "name type dont_collapse", "/joint/parent": "link", "/joint/child": "link", "/joint/origin": ORIGIN,
    "/joint/axis": "xyz", "/joint/dynamics": "damping friction", "/joint/mimic": "joint multiplier offset",
    # the last three are of drives, beside the limits that are read
    "/joint/limit": "lower upper velocity effort current command_effort gear_velocity",
    "/transmission": "name type", "/transmission/joint": "name", "/transmission/actuator": "name",
    "/transmission/actuator/drake:rotor_inertia": "value", "/transmission/actuator/drake:gear_ratio": "value",
    "/link/contact": "", "/gazebo": "reference name",
    "/mujoco": "", "/mujoco/compiler": "meshdir texturedir assetdir strippath discardvisual fusestatic convexhull",
    "/mujoco/option": "timestep integrator solver iterations tolerance cone jacobian impratio ls_iterations",
}  # fmt: skip
"""Elements by their path inside <robot>, and their attributes."""
REPEATED = {
    "/link", "/link/collision", "/joint", "/transmission", "/transmission/joint", "/transmission/actuator", "/gazebo",
    "/transmission/actuator/drake:rotor_inertia", "/transmission/actuator/drake:gear_ratio",
}  # fmt: skip
"""Those of which there may be several; of others the first is read."""
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
"""Elements by the path around them, with all that is in them."""
DEFAULTS = {
    "gravity": ("1", "true"), "turnGravityOff": ("0", "false"), "kinematic": ("0", "false"), "static": ("0", "false"),
    "enable_wind": ("0", "false"), "dampingFactor": ("0", "0.0"), "springStiffness": ("0", "0.0"),
    "springReference": ("0", "0.0"),
}  # fmt: skip
"""Settings of simulators, and texts by which they change nothing."""
PROGRAMS = ("sensor", "controller", "interface")
"""Prefixes of what older simulators were told."""

UNREAD = "not read, though it may change how the robot moves"

_READ = {path: frozenset(attributes.split()) for path, attributes in READ.items()}
_HARMLESS = {f"{path}/{tag}" for path, tags in HARMLESS.items() for tag in tags.split()}


def note_unread(robot: Element, remarks: Remarks) -> None:
    """Note what of a <robot> is not known: of each kind the first, and how many there are."""
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
            elif not path.endswith("/geometry"):  # of shapes, their reader says what it leaves out
                found.setdefault(below, []).append(label)
        pending += reversed(inner)
    for places in found.values():
        more = f" (and {len(places) - 1} like it)" if len(places) > 1 else ""
        remarks.add(UNREAD, f"{places[0]}{more}")


def _label(element: Element) -> str:
    """As it stands in the file, with its name."""
    named = (f" {key}={element.get(key)!r}" for key in ("name", "reference") if element.get(key))
    return f"<{element.tag}{''.join(named)}>"


def _is_default(element: Element) -> bool:
    text = element.get("value", element.text) or ""
    return text.strip().lower() in DEFAULTS.get(element.tag, ())
