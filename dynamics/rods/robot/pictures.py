"""Pictures of a soft robot: of its motions by `trajopt.plotting`, curves over time, and surfaces."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np

from dynamics.geometry.shapes import Box, Capsule, Cylinder, HalfSpace, Shape, Sphere
from dynamics.geometry.triangles import Triangles, axes_along, surface
from dynamics.geometry.world_shape import REACH, WorldShape, world_shape
from dynamics.model.joints import unit_axis
from dynamics.rods.algorithms.inverse_dynamics import energies
from dynamics.rods.kinematics.center_lines import is_loose, link_and_section_placements, link_placements
from dynamics.rods.loads.contacts import CapsuleContact, Contact, CylinderContact, PlaneContact, SphereContact
from dynamics.rods.loads.tendons import Chamber, Line
from dynamics.rods.model.arrays import ROD
from dynamics.rods.model.cross_section import Rectangular
from dynamics.rods.model.rod_model import Rod, RodModel
from dynamics.rods.robot.soft_robot import SoftRobot
from dynamics.systems.pictures import Solid

if TYPE_CHECKING:
    from matplotlib.figure import Figure


# --------------------------------------------------------------------------------------------
# Pictures of motions and shapes by `trajopt.plotting`, which no other module of `dynamics` imports, and this one only
# when called.


def plot(motion: Any, path: str | Path | None) -> Figure:
    """Picture by `trajopt.plot_trajectory` of a motion with `system`, `times`, `xs` and `us`."""
    from trajopt.plotting import plot_trajectory

    return plot_trajectory(motion, path)


def animate(motion: Any, path: str | Path, **options: Any) -> Path:
    """Animation by `trajopt.animate` of such a motion."""
    from trajopt.plotting import animate

    return animate(motion, path, **options)


def plot_poses(poses: Mapping[str, np.ndarray], around: Sequence[Any], title: str, path: str | Path | None) -> Figure:
    """Picture by `trajopt.plotting.plot_poses` of segments (S, 2, 3), m, by their names in the legend, among fixed
    shapes."""
    from trajopt.plotting import plot_poses

    return plot_poses(poses, around, title, path)


# --------------------------------------------------------------------------------------------
# Quantities of a soft robot to draw over time: positions of rod tips, joints, energies; units of controls.

FEW = 3
"""Number of rods above which only those that carry no link are drawn."""
Panel = tuple[str, tuple[str, ...], np.ndarray]
"""A label with a unit, names of curves, values (K, n)."""


def quantities(model: RodModel, q: np.ndarray, v: np.ndarray) -> tuple[Panel, ...]:
    """Panels of a motion q, v (K, n); see `trajopt.capabilities.Pictures`."""
    tips = _tips(model)
    _, p = link_placements(model, q)
    places = p[:, [model.link_names.index(name) for name in tips]].reshape(len(q), -1)
    what = "tips" if model.rods else "links"
    panels = [(f"{what} [m]", tuple(f"{name} {axis}" for name in tips for axis in "xyz"), places)]
    joints = [k for own in model.joint_coordinates.values() for k in range(own.start, own.stop)]
    if joints:
        units = ", ".join(dict.fromkeys("rad" if _turns(model, k) else "m" for k in joints))
        panels.append((f"joints [{units}]", tuple(model.coordinate_names[k] for k in joints), q[:, joints]))
    parts = energies(model, q, v)
    panels.append(("energy [J]", (*parts._fields, "total"), np.stack([*parts, sum(parts)], axis=1)))
    return tuple(panels)


def control_units(robot: SoftRobot) -> tuple[str, ...]:
    """Units of the controls: N for tendons, Pa for chambers, N m or N for joints, empty for others."""
    joints = [robot.model.joint_coordinates[name] for name in robot.torques]
    driven = [k for own in joints for k in range(own.start, own.stop)]
    of_joints = ["N m" if _turns(robot.model, k) else "N" for k in driven]
    units = *(line.unit for line in (*robot.tendons, *robot.chambers)), *of_joints
    return (*units, *("",) * (robot.nu - len(units)))


def coordinate_units(model: RodModel) -> tuple[str, ...]:
    """Units of the coordinates: rad or m for joints, empty for strains."""
    joints = {k for own in model.joint_coordinates.values() for k in range(own.start, own.stop)}
    return tuple("" if k not in joints else "rad" if _turns(model, k) else "m" for k in range(model.nv))


def _tips(model: RodModel) -> tuple[str, ...]:
    """Names of the rods whose tips are drawn, of more than FEW those at the ends of branches; of all links if there are
    no rods."""
    if not model.rods:
        return model.link_names
    carrying = set(model.arrays.parent.tolist())
    ends = tuple(name for name in model.rods if model.link_segments[name] not in carrying)
    return tuple(model.rods) if len(model.rods) <= FEW or not ends else ends


def _turns(model: RodModel, k: int) -> bool:
    """True if the coordinate of a joint is an angle, that is, acts on one of the first three components."""
    rows = model.arrays.rows
    s = int(np.flatnonzero((rows[:, 0] <= k) & (k < rows[:, 6]))[0])
    return bool(k < rows[s, 3])


# --------------------------------------------------------------------------------------------
# Shapes that a soft robot may touch, for pictures; each kind of contact has an entry of KINDS.

Placed = tuple[Shape, np.ndarray, np.ndarray]
"""A shape, with the rotation R (3, 3) and position p (3,) of its axes."""


def contact_shapes(model: RodModel) -> tuple[WorldShape, ...]:
    """All fixed shapes that links may touch, each once; unbounded ones are as large as the robot is at q = 0."""
    _, p = link_and_section_placements(model, np.zeros(model.nq), 2)
    around = p[0]
    shapes, seen = [], []
    for contact in (each.contact for each in model.contacts):
        kind = KINDS.get(type(contact))
        if kind is None or getattr(contact, "link", None) is not None or any(contact is other for other in seen):
            continue
        seen.append(contact)
        shape, R, p = kind(contact, around)
        shapes.append(world_shape(shape, R, p, around, getattr(contact, "inside", False)))
    return tuple(shapes)


def _cylinder(contact: Any, around: np.ndarray) -> Placed:
    """The cylinder of a contact, as long as the points (P, 3) reach along its axis."""
    axis, point = np.array(unit_axis(contact.axis)), np.asarray(contact.point, float)
    along = (around - point) @ axis
    length = max(REACH * float(np.ptp(along)), contact.radius)
    return Cylinder(contact.radius, length), axes_along(axis).T, point + 0.5 * (along.min() + along.max()) * axis


KINDS: dict[type[Contact], Callable[[Any, np.ndarray], Placed]] = {
    CylinderContact: _cylinder,
    PlaneContact: lambda c, _: (HalfSpace(), axes_along(np.array(unit_axis(c.normal))).T, np.asarray(c.point)),
    SphereContact: lambda c, _: (Sphere(c.radius), np.eye(3), np.asarray(c.point)),
    CapsuleContact: lambda c, _: (Capsule(c.radius, c.start, c.end), np.eye(3), np.zeros(3)),
}
"""Shape and pose of a contact, as a function of the contact and of points (P, 3) of the robot."""


# --------------------------------------------------------------------------------------------
# Surfaces of a soft robot: rods with their thickness, tendons and chambers in them, and bodies.
#
# Surfaces of rods, tendons and chambers deform: each vertex is fixed in one of RINGS sections of its rod.  Of a body
# only mass and inertia are known: it is drawn as the box with the same mass and inertia, and struts to its parent and
# to the links it carries.

RINGS, FEWER, MANY = 33, 17, 6
"""Sections drawn of each rod; fewer (FEWER) if there are more rods than MANY."""
SOFT, TENDON, CHAMBER = (0.55, 0.72, 0.86), (0.55, 0.1, 0.25, 1.0), (0.9, 0.6, 0.0, 0.6)
CLEAR = 0.4
"""Opacity of rods that contain tendons or chambers."""
THIN, THINNEST, AROUND = 0.05, 0.02, 0.2
"""Radius of a drawn tendon relative to the largest half width of its rods; radius of a strut relative to the longest
strut, and least side of a box relative to its longest; margin around a box, relative to half of that side, within which
no struts are drawn."""


def section_count(model: RodModel) -> int:
    """Number of sections drawn of each rod."""
    return RINGS if len(model.rods) <= MANY else FEWER


def body_placements(model: RodModel, q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """R (K, B, 3, 3) and p (K, B, 3), m, at q (K, n), of all links and then of the sections of all rods."""
    return link_and_section_placements(model, q, section_count(model))


def solids(robot: SoftRobot, fine: bool = True) -> tuple[Solid, ...]:
    """Surfaces in the form of `trajopt.capabilities.Pictures`; their bodies are those of `body_placements`."""
    model, count = robot.model, section_count(robot.model)
    first = len(model.link_names)
    rings = {name: first + count * k + np.arange(count) for k, name in enumerate(model.rods)}
    lines = (*robot.tendons, *robot.chambers)
    filled = {name for line in lines for name in line.rods}
    boxes = dict(_boxes(model))
    return (
        *_struts(model, boxes),
        *(box.solid(k) for k, box in boxes.items()),
        *(_line_surface(model, line, rings, fine) for line in lines),
        *(_rod_surface(rod, rings[rod.name], fine, rod.name in filled) for rod in model.rods.values()),
    )


# ------------------------------------------------------------------------------------------------ rods
def _rod_surface(rod: Rod, rings: np.ndarray, fine: bool, filled: bool) -> Solid:
    """The wall of a rod and the sections at its ends."""
    shown = np.arange(0, len(rings), 1 if fine else 2)
    outline = rod.section.outline(shown / (len(rings) - 1))
    if isinstance(rod.section, Rectangular):
        outline = np.repeat(outline, 2, axis=1)  # each side has its own corners, so that edges stay sharp
    return _tube(outline, rings[shown], (*SOFT, CLEAR if filled else 1.0), "")


def _line_surface(model: RodModel, line: Line, rings: dict[str, np.ndarray], fine: bool) -> Solid:
    """The surface of a tendon, drawn as a thin tube, or of a chamber with its own section."""
    rods = [model.rods[name] for name in line.rods]
    s = np.linspace(0.0, 1.0, section_count(model))
    middle = np.stack([line.values(what, rods, s) for what in ("y", "z")], axis=1)
    if isinstance(line, Chamber):
        radii, color, label = np.sqrt(line.values("area", rods, s) / np.pi), CHAMBER, "chambers"
    else:
        radii, color, label = np.full(len(middle), THIN * _half_width(rods)), TENDON, "tendons"
    corners = 12 if isinstance(line, Chamber) else 6 if fine else 3
    angles = np.linspace(0.0, 2.0 * np.pi, corners, endpoint=False)
    circle = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    outline = middle[:, None] + radii[:, None, None] * circle
    return _tube(outline, np.concatenate([rings[name] for name in line.rods]), color, label)


def _half_width(rods: list[Rod]) -> float:
    return max(float(np.abs(rod.section.outline(np.zeros(1))).min(axis=-1).max()) for rod in rods)


def _tube(outline: np.ndarray, rings: np.ndarray, color: tuple[float, float, float, float], label: str) -> Solid:
    """A wall through outlines (P, C, 2) in the planes of the sections `rings` (P,), and a fan at either end with its
    own vertices."""
    P, C = outline.shape[:2]
    wall, ends = np.arange(P * C).reshape(P, C), P * C + np.arange(2 * (C + 1)).reshape(2, C + 1)
    apart = np.linalg.norm(outline - np.roll(outline, -1, axis=1), axis=-1).max(axis=0) > 0.0
    here, ahead = wall[:, apart], np.roll(wall, -1, axis=1)[:, apart]
    faces = [np.stack([here[:-1], ahead[:-1], ahead[1:]], axis=-1), np.stack([here[:-1], ahead[1:], here[1:]], axis=-1)]
    for rim, turned in ((ends[0], -1), (ends[1], 1)):
        around, after = rim[:-1][apart], np.roll(rim[:-1], -1)[apart]
        fan = np.stack([np.full(len(around), rim[-1]), around, after], axis=-1)
        faces.append(fan[:, ::turned])
    closing = [np.vstack([outline[k], outline[k].mean(axis=0)]) for k in (0, -1)]
    flat = np.concatenate([outline.reshape(-1, 2), *closing])
    vertices = np.concatenate([np.zeros((len(flat), 1)), flat], axis=1)
    bodies = np.concatenate([np.repeat(rings, C), np.repeat(rings[[0, -1]], C + 1)])
    return Solid(bodies, vertices, np.concatenate([part.reshape(-1, 3) for part in faces]), color, label)


# ------------------------------------------------------------------------------------------------ bodies
class _Box(NamedTuple):
    """A box in axes of a link."""

    axes: np.ndarray  # (3, 3), columns
    middle: np.ndarray  # (3,)
    half: np.ndarray  # (3,)

    def holds(self, p: np.ndarray) -> bool:
        """True if the box, enlarged by a margin, contains the point p (3,)."""
        return bool((np.abs((p - self.middle) @ self.axes) <= AROUND * self.half.max(initial=0.0) + self.half).all())

    def solid(self, k: int) -> Solid:
        """The box as the surface of link k."""
        shown = cast(Triangles, surface(Box(self.half)))
        return Solid(k, shown.vertices @ self.axes.T + self.middle, shown.faces, None)


def _boxes(model: RodModel) -> Iterator[tuple[int, _Box]]:
    """Indices of links and boxes of the bodies with mass and inertia; with principal moments I_k about their centre,

    sides^2 = 6 (I_i + I_j - I_k) / m
    """
    for k, name in enumerate(model.link_names):
        mass, *numbers = model.arrays.inertia[model.link_segments[name]]
        if name in model.rods or mass <= 0.0:
            continue
        com, I = np.array(numbers[:3]) / mass, np.empty((3, 3))
        I[np.triu_indices(3)] = I.T[np.triu_indices(3)] = numbers[3:]
        moments, axes = np.linalg.eigh(I - mass * (com @ com * np.eye(3) - np.outer(com, com)))
        squares = 6.0 * (moments.sum() - 2.0 * moments) / mass
        longest = np.sqrt(max(squares.max(), 0.0))
        if longest > 1e-9 * np.sqrt(com @ com):
            sides = np.maximum(np.sqrt(np.maximum(squares, 0.0)), THINNEST * longest)
            yield k, _Box(axes * np.sign(np.linalg.det(axes)), com, 0.5 * sides)


def _struts(model: RodModel, boxes: Mapping[int, _Box]) -> Iterator[Solid]:
    """Struts from the frames of links to the points where others are attached or closed to them and to the centres of
    mass of bodies, without those that a box hides."""
    m, links = model.arrays, {model.link_segments[name]: k for k, name in enumerate(model.link_names)}
    ends = [(int(parent), m.before[s, 9:]) for s, parent in enumerate(m.parent) if not is_loose(model, s)]
    ends += [(s, m.inertia[s, 1:4] / m.inertia[s, 0]) for s in links if m.kind[s] != ROD and m.inertia[s, 0] > 0.0]
    for joint in model.closed_joints:
        ends += [(s, p) for s, (_, p) in zip(joint.segments, joint.placements, strict=True)]
    longest = max((float(np.linalg.norm(p)) for s, p in ends if s in links), default=0.0)
    for s, p in ends:
        box = boxes.get(links.get(s, -1))
        hidden = box is not None and box.holds(np.zeros(3)) and box.holds(p)
        if s in links and np.linalg.norm(p) > THINNEST * longest and not hidden:
            shown = cast(Triangles, surface(Capsule(THINNEST * longest, np.zeros(3), p), 6, 2))
            yield Solid(links[s], shown.vertices, shown.faces, None)
