"""`RodModelBuilder`: rods, bodies, joints, closures, loads and contacts, checked as they are added."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.interpolate import BarycentricInterpolator

from dynamics.model.body_inertia import inertia_defect
from dynamics.model.joints import Fixed, Joint
from dynamics.rods.algorithms.closed_chains import closed
from dynamics.rods.loads.contacts import Contact, RodContact, SphereContact
from dynamics.rods.loads.external_loads import Density, Fluid, LoadList, as_density, law_of
from dynamics.rods.model.arrays import (
    ADDED_MASS,
    CARRIED,
    CONTACT,
    DEAD,
    DRAG,
    FOLLOWER,
    JOINT,
    LAW,
    ROD,
    SCREW,
    WRENCH,
    no_closures,
)
from dynamics.rods.model.cross_section import Circular, Material, Section, section_inertia
from dynamics.rods.model.rod_model import LinkContact, Rod, RodModel
from dynamics.rods.model.segment_list import (
    Closure,
    Helical,
    Pose,
    SegmentList,
    has_rows,
    inertia_about_frame,
    joint_motion,
)
from dynamics.rods.model.strain_basis import COMPONENTS, StrainBasis
from dynamics.simd.caller import warn
from dynamics.validation import (
    as_array,
    as_flag,
    as_floats,
    as_inertia,
    as_items,
    as_kind,
    as_name,
    as_not_negative,
    as_placement,
    as_positive,
    as_whole_number,
    look_up,
)

# --------------------------------------------------------------------------------------------
# The segments of a rod: steps from node to node, and new nodes where a wrench acts between them.

IDENTITY = (np.eye(3), np.zeros(3))
NEAR = 1e-9
"""Distance from a node, relative to the rod's length, within which a position counts as that node."""


def add_segments(segments: SegmentList, rod: Rod, parent: int, placement: tuple[np.ndarray, np.ndarray]) -> float:
    """Append the segments of a rod that is attached to the end of segment `parent`; returns its mass, kg."""
    M = section_inertia(rod.material.density, rod.properties) * rod.weights[:, None]
    rows = rod.coordinates.start + rod.basis.rows
    for k in range(len(rod.nodes) - 1):
        h, b, at_rest, modes = rod.step(rod.nodes[k], rod.nodes[k + 1] - rod.nodes[k])
        Jx, Jy, Jz, A = M[k + 1, :4]
        inertia = np.array([A, 0.0, 0.0, 0.0, Jx, 0.0, 0.0, Jy, 0.0, Jz])
        before = placement if k == 0 else IDENTITY
        parent = segments.add(parent, ROD, rows, (h, b), at_rest, modes, before, IDENTITY, inertia)
    return float(M[:, 3].sum())


def node_at(rod: Rod, X: float) -> int | None:
    """Index of the segment that ends at X > 0, m, or None if X lies between nodes."""
    k = int(np.argmin(np.abs(rod.nodes[1:] - X)))
    return rod.segments.start + k if abs(rod.nodes[k + 1] - X) <= NEAR * rod.length else None


def split(segments: SegmentList, rod: Rod, X: float) -> tuple[Rod, int]:
    """The rod with one more node, at X between two of its nodes, and the index of the segment that now ends there; the
    indices of the segments from this one on rise by one."""
    k = int(np.searchsorted(rod.nodes, X)) - 1
    halves = [rod.step(start, end - start) for start, end in ((rod.nodes[k], X), (X, rod.nodes[k + 1]))]
    segments.split(rod.segments.start + k, *halves)
    nodes, weights = np.insert(rod.nodes, k + 1, X), np.insert(rod.weights, k + 1, 0.0)
    own = slice(rod.segments.start, rod.segments.stop + 1)
    return replace(rod, nodes=nodes, weights=weights, segments=own), rod.segments.start + k


# --------------------------------------------------------------------------------------------
# Checks of the parts of a rod.

SINGULAR = 1e-12
"""Least eigenvalue of a stiffness matrix scaled to a diagonal of ones; below it, a direction has no stiffness."""


def check_points(label: str, points: int, basis: StrainBasis) -> None:
    """ValueError unless this number of points resolves the functions of every component."""
    as_whole_number(f"{label}points", points, 1)
    counts = np.diff(basis.rows)
    most = int(np.argmax(counts))
    if counts[most] > points:
        raise ValueError(
            f"{label}points: got {points}, which cannot resolve the {counts[most]} functions of {COMPONENTS[most]}; "
            f"expected at least {counts[most]}"
        )


def check_slenderness(label: str, length: float, section: Section) -> None:
    """Warn of a rod that is thicker than long, since one of the two sizes is then likely to be in another unit."""
    s = np.linspace(0.0, 1.0, 11)
    widest = 2.0 * section.radii(s) if isinstance(section, Circular) else np.maximum(*section.sides(s))
    if (largest := float(widest.max())) > 2.0 * length:
        warn(f"{label}section: {largest:.4g} m across on {length:.4g} m of length, expected a slender rod, in metres")


def check_stiffness(label: str, K: np.ndarray) -> None:
    """ValueError if a direction has no stiffness."""
    scale = np.sqrt(np.diag(K))
    if not (scale > 0.0).all() or np.linalg.eigvalsh(K / np.outer(scale, scale))[0] < SINGULAR:
        raise ValueError(f"{label}basis: its functions leave a direction without stiffness, expected independent ones")


def strains_at_rest(label: str, given: ArrayLike | Callable[[np.ndarray], ArrayLike], s: np.ndarray) -> Any:
    """Strains at rest as (6,) or as a function of s (K,) that returns (K, 6): the given one, or the polynomial through
    rows given at the nodes s.  ValueError for another shape."""
    if callable(given):
        return given
    values = as_floats(label, given)
    if values.ndim != 2:
        return as_array(label, values, (6,)).copy()
    return BarycentricInterpolator(s, as_array(label, values, (len(s), 6)))


# --------------------------------------------------------------------------------------------
# The part of a builder that finds the nodes where loads act, splits segments there, and adds loads of the user's own.


class LoadBuilder:
    """Positions on the links of a `RodModelBuilder`, and loads given by functions."""

    _segments: SegmentList
    _links: dict[str, int]
    _rods: dict[str, Rod]
    _loads: LoadList
    _closures: list[Closure]

    def add_load(
        self,
        link: str,
        law: Callable[..., Any],
        controls: Sequence[str] = (),
        at: float | None = None,
        per_length: bool = False,
    ) -> None:
        """Add a load on a link given by your own function of the link's pose, its velocity and controls.

        The function is called once with symbols in place of numbers, like those of `trajopt.CallableSystem`; existing
        kernels evaluate the traced operations and differentiate them exactly.

        Parameters
        ----------
        link : a link added before
        law : (R, p, w, v, u) -> (6,) moment about p, N m, and force, N, in world axes.  R (3, 3) are the axes of the
            link's frame (for a rod, of its section), p (3,) is the frame's origin, w (3,) its angular velocity and v
            (3,) its velocity in world axes, and u (k,) are the load's own controls.  The wrench must be affine in u,
            with factors that do not depend on velocities, and should have two continuous derivatives
        controls : names of its controls, which become controls of the robot, after all others
        at : position along a rod, X / length above 0 and at most 1; by default the tip
        per_length : True for a wrench per length, N and N/m, all along a rod

        Raises
        ------
        TypeError : a law that is not a function.
        ValueError : an unknown link, a place out of range, a name given twice, a law that cannot be used.
        """
        segment, along, k = self._segment_of(link), as_flag("per_length", per_length), len(self._loads.laws)
        names = [as_name(f"controls[{i}]", name) for i, name in enumerate(as_items("controls", controls, "names"))]
        for i, name in enumerate(names):
            if name in self._loads.control_names or name in names[:i]:
                raise ValueError(f"controls[{i}]: {name!r} is taken")
        at = None if at is None else self._place_on(link, at)
        if along and (at is not None or link not in self._rods):
            raise ValueError(f"per_length: got True of {link!r} at {at}, expected a rod, and no place on it")
        made = law_of(law, len(names))
        if along:
            rod = self._rods[link]
            for node in np.flatnonzero(rod.weights):
                self._loads.add(rod.segments.start + int(node) - 1, LAW, [k, rod.weights[node]])
        else:
            self._loads.add(segment if at is None or at == 1.0 else self._node(link, at), LAW, [k, 1.0])
        self._loads.laws.append(made)
        self._loads.control_names += names

    def _place_on(
        self, link: str, at: float, label: str = "", base: float | None = None, argument: str = "at"
    ) -> float:
        """X / length of a position on a rod, above 0, or `base`; ValueError for another one."""
        at = float(as_array(label + argument, at, ()))
        if not 0.0 < at <= 1.0 and at != base:
            least = "above 0" if base is None else "at least 0"
            raise ValueError(f"{label}{argument}: got {at}, expected X / length {least} and at most 1")
        if at != 1.0 and link not in self._rods:
            raise ValueError(f"{label}{argument}: got {at} of {link!r}, expected 1; only rods have other places")
        return at

    def _frame_on(self, link: str, at: float, placement: Pose) -> tuple[int, Pose]:
        """The segment whose end carries a frame with this placement in that of a link, and the frame's placement
        there."""
        if link == "world":
            return -1, placement
        if at > 0.0:
            return (self._links[link] if at == 1.0 else self._node(link, at)), placement
        s = self._rods[link].segments.start
        R, p = self._segments.before[s][:9].reshape(3, 3), self._segments.before[s][9:]
        return self._segments.parent[s], (R @ placement[0], p + R @ placement[1])

    def _segment_of(self, link: str, argument: str = "link") -> int:
        return look_up(argument, link, self._links)

    def _node(self, rod: str, at: float) -> int:
        """The segment that ends at X = at length of a rod; if there is no node, a segment is split there."""
        part = self._rods[rod]
        segment = node_at(part, at * part.length)
        if segment is not None:
            return segment
        self._rods[rod], first = split(self._segments, part, at * part.length)
        self._links = {name: s + (s >= first) for name, s in self._links.items()}
        for name, other in self._rods.items():
            own = other.segments
            if name != rod and own.start >= first:
                self._rods[name] = replace(other, segments=slice(own.start + 1, own.stop + 1))
        self._loads.make_room(first)
        moved = [tuple(s + (s >= first) for s in closure.segments) for closure in self._closures]
        self._closures = [replace(one, segments=pair) for one, pair in zip(self._closures, moved, strict=True)]
        return first

    def _circular(self, name: str) -> tuple[Rod, Circular]:
        rod = look_up("rod", name, self._rods)
        if not isinstance(rod.section, Circular):
            raise ValueError(f"rod: {name!r} has a {type(rod.section).__name__} section, expected Circular")
        return rod, rod.section


# --------------------------------------------------------------------------------------------
# The part of a builder that adds contacts of links with objects and with each other.

MOST_NODES = 1000
"""Largest number of nodes of a rod in contact."""


class _Spheres(NamedTuple):
    """The spheres of a link in contact: segments whose ends carry them, centres in these frames, radii, X along a
    rod."""

    segments: list[int]
    places: np.ndarray
    radii: np.ndarray
    X: np.ndarray


class ContactBuilder(LoadBuilder):
    """Contacts of a `RodModelBuilder`."""

    _contacts: list[LinkContact]

    def add_contact(
        self,
        link: str,
        contact: Contact,
        radius: float | None = None,
        point: ArrayLike = (0.0, 0.0, 0.0),
        spacing: float | None = None,
    ) -> None:
        """Add a contact of a link, which touches with spheres.

        Parameters
        ----------
        link : a rod, with spheres about its nodes except the one at its base; or a body, with one sphere about a point
        contact : PlaneContact, SphereContact, CapsuleContact or CylinderContact; RodContact with another rod or itself
        radius : of the spheres, m, by default that of a circular rod at the node, and zero of a body
        point : (3,) centre of the sphere, in the body's frame
        spacing : largest distance of a rod's nodes, m; nodes are added where they are further apart, also in the rod of
            a RodContact; by default the quadrature points and the tip touch

        Raises
        ------
        ValueError : an unknown link, numbers out of range, a rod of another section without a radius; a sphere with
            friction that does not fit into the hollow one of another link.
        TypeError : another kind of contact.
        """
        as_kind("contact", contact, Contact, "a contact such as PlaneContact")
        place, touching = as_array("point", point, (3,)), [(link, radius)]
        if isinstance(contact, RodContact):
            touching.append((contact.rod, contact.radius))
        self._check(link, contact, place, touching, spacing)
        for name, _ in touching:
            self._refine(name, spacing)
        own, *others = (self._spheres(name, r, place, spacing is not None) for name, r in touching)
        if isinstance(contact, RodContact):
            for i, k in np.ndindex(len(own.X), len(others[0].X)):
                if contact.rod != link or others[0].X[k] - own.X[i] > (contact.apart or 0.0):
                    numbers = contact.numbers(float(own.radii[i]), own.places[i], float(others[0].radii[k]))
                    self._loads.contacts.append((own.segments[i], others[0].segments[k], numbers))
        else:
            target = self._links[contact.link] if isinstance(contact, SphereContact) and contact.link else -1
            for s, centre, r in zip(own.segments, own.places, own.radii, strict=True):
                if target >= 0 or contact.resists:
                    self._loads.contacts.append((s, target, contact.numbers(r, centre)))
                else:
                    self._loads.add(s, CONTACT, contact.numbers(r, centre))
        centres = own.X[:, None] * [1.0, 0.0, 0.0] if link in self._rods else own.places
        self._contacts.append(LinkContact(link, contact, centres, own.radii))

    def _check(self, link: str, contact: Contact, place: np.ndarray, touching: list, spacing: float | None) -> None:
        """ValueError for arguments that `add_contact` does not take."""
        self._segment_of(link)
        if isinstance(contact, SphereContact) and contact.link is not None:
            look_up("contact: link", contact.link, self._links)
            if contact.link == link:
                raise ValueError(f"contact: link: got {link!r} on both sides, expected two links")
        if isinstance(contact, RodContact):
            look_up("contact: rod", contact.rod, self._rods)
            if (contact.rod == link) != (contact.apart is not None):
                wanted = "a distance along the rod, m" if contact.rod == link else "None for two links"
                raise ValueError(f"contact: apart: got {contact.apart}, expected {wanted}")
        if link not in self._rods and spacing is not None:
            raise ValueError(f"spacing: got {spacing} of the body {link!r}, expected None; only rods have nodes")
        if link in self._rods and place.any():
            raise ValueError(f"point: got {place} of the rod {link!r}, expected (0, 0, 0)")
        for name, radius in touching:
            if radius is not None:
                as_not_negative("radius", radius)
            elif name in self._rods:
                self._circular(name)
            if spacing is not None:
                rod = self._rods[name]
                count = rod.length / as_positive("spacing", spacing)
                if count > MOST_NODES:
                    raise ValueError(f"spacing: got {spacing} m, for {count:.0f} nodes, expected at most {MOST_NODES}")

    def _spheres(self, link: str, radius: float | None, place: np.ndarray, everywhere: bool) -> _Spheres:
        """The spheres of a body, or of a rod: at all its nodes if `everywhere`, else without those made for loads."""
        if link not in self._rods:
            return _Spheres([self._links[link]], place[None], np.array([radius or 0.0]), np.zeros(1))
        rod = self._rods[link]
        kept = np.flatnonzero((rod.weights > 0.0) | (rod.nodes == rod.length) | everywhere)
        kept = kept[kept > 0]
        X = rod.nodes[kept]
        radii = self._circular(link)[1].radii(X / rod.length) if radius is None else np.full(len(X), radius)
        return _Spheres([rod.segments.start + int(k) - 1 for k in kept], np.zeros((len(X), 3)), radii, X)

    def _refine(self, name: str, spacing: float | None) -> None:
        """Add nodes to a rod so that neighbouring ones are at most `spacing`, m, apart."""
        if spacing is not None:
            rod = self._rods[name]
            for start, end in zip(rod.nodes[:-1], rod.nodes[1:], strict=True):
                for X in np.linspace(start, end, int(np.ceil((end - start) / spacing)) + 1)[1:-1]:
                    self._node(name, X / rod.length)


# --------------------------------------------------------------------------------------------
# Construction of a model of rods and rigid bodies link by link, each after its parent.

Placement = tuple[ArrayLike, ArrayLike]
RodJoint = Joint | Helical
STRAIGHT = (0.0, 0.0, 0.0, 1.0, 0.0, 0.0)


class RodModelBuilder(ContactBuilder):
    """Builds a `RodModel` from rods and bodies added one by one, each after its parent.

    Parameters
    ----------
    gravity : (3,) acceleration in the world frame, m/s^2
    name : name of the model
    base : (R, p), frame in the world to which links with the parent "world" are attached; by default the world's

    Examples
    --------
    >>> builder = rods.RodModelBuilder()
    >>> silicone = rods.Elastic(young=1e6, poisson=0.5, density=1000.0)  # Pa, -, kg/m^3
    >>> builder.add_rod("arm", "world", 0.3, rods.Circular(0.02), silicone, rods.LegendreBasis(bending_y=2))
    >>> builder.build().nv  # bending is a parabola of the arclength
    3
    """

    def __init__(
        self, gravity: ArrayLike = (0.0, 0.0, -9.81), name: str = "soft robot", base: Placement | None = None
    ) -> None:
        self._gravity = as_array("gravity", gravity, (3,))
        self._name, self._base = as_name("name", name), as_placement("base", base)
        self._segments, self._n, self._mass = SegmentList(), 0, 0.0
        self._links: dict[str, int] = {}
        self._rods: dict[str, Rod] = {}
        self._joints: dict[str, slice] = {}
        self._names: list[str] = []
        self._energies: list[tuple[slice, np.ndarray, np.ndarray]] = []
        self._loads = LoadList()
        self._closures: list[Closure] = []
        self._contacts: list[LinkContact] = []

    # -------------------------------------------------------------------------------------------- links
    def add_body(
        self,
        name: str,
        parent: str,
        joint: RodJoint | Sequence[RodJoint],
        placement: Placement | None = None,
        mass: float = 0.0,
        com: ArrayLike = (0.0, 0.0, 0.0),
        inertia: ArrayLike | None = None,
        stiffness: ArrayLike = 0.0,
        damping: ArrayLike = 0.0,
        at: float = 1.0,
    ) -> None:
        """Add a rigid body, carried by a joint that is attached to its parent.

        Parameters
        ----------
        name, mass, com, inertia : as for `ModelBuilder.add_body`
        parent : a link added before, or "world"
        joint : a joint as for `ModelBuilder.add_body`, or a sequence of joints in series without mass between, such as
            (Revolute("z"), Prismatic("z")), a cylindrical, or (Revolute("x"), Revolute("y")), a universal joint; or
            `rods.Helical`
        placement : (R, p), joint frame in the parent's frame; by default the identity
        stiffness, damping : (nv,) or one number for every degree of freedom of the joint; N m / rad or N / m, and
            these times s
        at : position along a parent that is a rod, X / length from 0 to 1, where the parent's frame is that of its
            section; by default the tip.  The rod has a node there from then on

        Raises
        ------
        ValueError : a name given twice, an unknown parent, values out of range.
        TypeError : a `joint` that is neither a joint nor a sequence of joints.
        """
        label = f"body {name!r}: "
        joints = _as_joints(label, joint)
        self._check_new(name, parent, label)
        at = self._place_on(parent, at, label, 0.0)
        mass = as_not_negative(label + "mass", mass)
        symmetric = as_inertia(label + "inertia", inertia)
        defect = inertia_defect(mass, symmetric)
        if defect:
            raise ValueError(f"{label}inertia: {defect}")
        inertia_ = inertia_about_frame(mass, as_array(label + "com", com, (3,)), symmetric)
        values = self._joint_values(label, joints, stiffness, damping)
        frame = self._frame_on(parent, at, as_placement(label + "placement", placement))
        self._links[name] = self._add_joints(name, frame, joints, inertia_, values)
        self._mass += mass

    def add_rod(
        self,
        name: str,
        parent: str,
        length: float,
        section: Section,
        material: Material,
        basis: StrainBasis,
        joint: RodJoint | Sequence[RodJoint] | None = None,
        placement: Placement | None = None,
        points: int = 5,
        reference: ArrayLike | Callable[[np.ndarray], ArrayLike] = STRAIGHT,
        at: float = 1.0,
    ) -> None:
        """Add a rod along the x axis of its joint's frame.

        Parameters
        ----------
        name, parent, placement, at : as for `add_body`
        length : m
        section : Circular or Rectangular
        material : Elastic or Anisotropic
        basis : StrainBasis, such as LegendreBasis(bending_y=4, bending_z=4)
        joint : between parent and rod, or a sequence of joints as for `add_body`; by default None, which clamps the rod
        points : number of Gauss-Legendre points of the quadrature of forces and inertia, at least the number of
            functions of a component; kinematics are integrated between these points and both ends
        reference : (6,) strains at rest [torsion, bending y, z, stretch, shear y, z]; by default straight.  Where they
            vary along the rod: a function of s = X / length (K,) that returns (K, 6), or (points + 2, 6), those at the
            base, the points of the quadrature and the tip, between which they follow a polynomial

        Raises
        ------
        ValueError : as `add_body`; more functions in a component than the points resolve; functions that leave a
            direction without stiffness.
        TypeError : arguments of another kind.
        """
        label = f"rod {name!r}: "
        kinds = {
            "section": (section, Section, "Circular or Rectangular"), "basis": (basis, StrainBasis, None),
            "material": (material, Material, "Elastic or Anisotropic"),
        }  # fmt: skip
        for what, (value, kind, expected) in kinds.items():
            as_kind(label + what, value, kind, expected)
        joints = () if joint is None else _as_joints(label, joint)
        self._check_new(name, parent, label)
        at = self._place_on(parent, at, label, 0.0)
        length = as_positive(label + "length", length, "metres")
        check_points(label, points, basis)
        check_slenderness(label, length, section)
        placement_ = as_placement(label + "placement", placement)
        count = sum(joint.nv for joint in joints)
        rod = self._rod(name, length, section, material, basis, points, reference, self._n + count)
        K = rod.energy_matrix(rod.densities("stiffness"))
        check_stiffness(label, K)
        damping = rod.energy_matrix(rod.densities("damping"))
        frame = self._frame_on(parent, at, placement_)
        if joints:
            values = self._joint_values(label, joints, 0.0, 0.0)
            frame = self._add_joints(name, frame, joints, np.zeros(10), values), IDENTITY
        first = len(self._segments.parent)
        rod = replace(rod, segments=slice(first, first + len(rod.nodes) - 1))
        self._n += basis.size
        self._names += [
            f"{name} {component} {k}"
            for r, component in enumerate(COMPONENTS)
            for k in range(basis.rows[r + 1] - basis.rows[r])
        ]
        self._energies.append((rod.coordinates, K, damping))
        self._mass += add_segments(self._segments, rod, *frame)
        self._links[name] = rod.segments.stop - 1
        self._rods[name] = rod

    def add_closure(
        self,
        name: str,
        link_a: str,
        link_b: str,
        joint: RodJoint | Sequence[RodJoint],
        placement_a: Placement | None = None,
        placement_b: Placement | None = None,
        at_a: float = 1.0,
        at_b: float = 1.0,
        stiffness: ArrayLike = 0.0,
        damping: ArrayLike = 0.0,
    ) -> None:
        """Close a chain by a joint between two links added before.

        Revolute(axis), whose axis has the same coordinates in both frames, Spherical() and Fixed() are constraints
        alone.  Any other joint, a sequence of joints, and one with stiffness or damping, carry a massless link of the
        closure's name on link B, which is fixed to link A.  Its coordinates are the pose of A's frame in B's, like
        those of any other joint: they can be prescribed, and driven by `SoftRobot(torques=)`.

        Parameters
        ----------
        name : name of the closed joint
        link_a, link_b : links added before; link_b may be "world"
        joint : any but FreeFlyer, or a sequence of joints as for `add_body`; (Revolute("z"),) has its angle among the
            coordinates
        placement_a, placement_b : (R, p), the joint's frame in the links' frames, for rods those of their sections; by
            default the identity
        at_a, at_b : positions along links that are rods, X / length from 0 to 1; by default their tips
        stiffness, damping : as for `add_body`

        Raises
        ------
        ValueError : a name given twice, an unknown link, the same place twice, a joint that constrains nothing, values
            out of range.
        TypeError : an argument that is not a joint.

        `build` drops constraints that vanish at any configuration, and raises ValueError where others are dependent.
        The chains need not be closed at q = 0: `assemble` finds coordinates that close them.
        """
        label = f"closure {name!r}: "
        if as_name("name", name) in (closure.name for closure in self._closures):
            raise ValueError(f"name: {name!r} is taken")
        joints = _as_joints(label, joint)
        values = self._joint_values(label, joints, stiffness, damping)
        if sum(each.nv for each in joints) >= 6:
            raise ValueError(f"{label}joint: got {joint!r} of six degrees of freedom or more, expected fewer")
        self._segment_of(link_a, label + "link_a")
        self._known(link_b, label + "link_b")
        at_a, at_b = self._place_on(link_a, at_a, label, 0.0, "at_a"), self._place_on(link_b, at_b, label, 0.0, "at_b")
        if (link_a, at_a) == (link_b, at_b):
            raise ValueError(
                f"{label}link_b: got {link_b!r} at {at_b} on both sides, expected two links, or two places on one"
            )
        a, b = as_placement(label + "placement_a", placement_a), as_placement(label + "placement_b", placement_b)
        rigid = not any(part.any() for part in values)
        closed_by = joint if isinstance(joint, Joint) and has_rows(joint) and rigid else None
        if closed_by is None:
            self._check_new(name, link_b, label)
            frame = self._frame_on(link_b, at_b, b)
            self._links[name] = self._add_joints(name, frame, joints, np.zeros(10), values)
            closed_by, link_b, at_b, b = Fixed(), name, 1.0, IDENTITY
        for link, at in ((link_a, at_a), (link_b, at_b)):  # nodes come first, since they shift the indices of others
            self._frame_on(link, at, IDENTITY)
        sides = self._frame_on(link_a, at_a, a), self._frame_on(link_b, at_b, b)
        segments, placements = (sides[0][0], sides[1][0]), (sides[0][1], sides[1][1])
        self._closures.append(Closure(name, segments, closed_by, placements))

    # -------------------------------------------------------------------------------------------- external loads
    def add_wrench(
        self,
        link: str,
        name: str | None = None,
        follower: bool = False,
        point: ArrayLike = (0.0, 0.0, 0.0),
        at: float = 1.0,
    ) -> None:
        """Let a wrench [moment; force], N m and N, act on a link; its value is an argument of the dynamics.

        Parameters
        ----------
        link : a link added before
        name : by default the link's name
        follower : True for axes of the link, False for axes of the world
        point : (3,) point of action in the link's frame, for a rod in that of its section; by default the frame's
            origin
        at : position along a rod, X / length above 0 and at most 1; by default the tip, 1 for a body.  The rod has a
            node there from then on

        Raises
        ------
        ValueError : an unknown link, a name given twice, a place out of range.
        """
        segment, kind = self._segment_of(link), FOLLOWER if as_flag("follower", follower) else WRENCH
        name, at = as_name("name", link if name is None else name), self._place_on(link, at)
        self._loads.add_wrench(segment, kind, name, as_array("point", point, (3,)))
        if at != 1.0:  # all arguments are checked by now
            segment = self._node(link, at)
            self._loads.entries[-1] = (segment, *self._loads.entries[-1][1:])

    def add_distributed_load(
        self,
        rod: str,
        density: Density,
        follower: bool = False,
        name: str | None = None,
    ) -> None:
        """Let a wrench per length act all along a rod, in addition to other loads.

        Parameters
        ----------
        rod : a rod added before
        density : (6,) [moment; force] per length, N m/m and N/m, or a function of s = X / length that returns these, at
            the quadrature points.  With a name: a number, or a function of s, by which the named wrench per length is
            multiplied
        follower : True for axes of the section, False for axes of the world
        name : by default None, a constant load; with a name the load is an argument of the dynamics, as in `add_wrench`

        Raises
        ------
        ValueError : an unknown rod, a density of another shape or with numbers that are not finite, a name given twice.
        """
        part, follows = look_up("rod", rod, self._rods), as_flag("follower", follower)
        shape, nodes = () if name is not None else (6,), np.flatnonzero(part.weights)
        densities = [as_density(density, float(part.nodes[k] / part.length), shape) for k in nodes]
        loads = [(part.segments.start + int(k) - 1, part.weights[k] * x) for k, x in zip(nodes, densities, strict=True)]
        if name is not None:
            kind = FOLLOWER if follows else WRENCH
            self._loads.add_shares(kind, as_name("name", name), [(s, float(x)) for s, x in loads], np.zeros(3))
            return
        for segment, wrench in loads:
            self._loads.add(segment, CARRIED if follows else DEAD, np.concatenate([wrench[3:], wrench[:3]]))

    def add_fluid(self, rod: str, fluid: Fluid) -> None:
        """Surround a circular rod with a fluid at rest.

        Raises ValueError for an unknown rod or one of another section, TypeError for another kind of fluid.
        """
        as_kind("fluid", fluid, Fluid)
        part, section = self._circular(rod)
        radii, areas = section.radii(part.nodes / part.length), part.properties.A
        for k in np.flatnonzero(part.weights):
            weight, radius = float(part.weights[k]), float(radii[k])
            for load in fluid.node_loads(weight, radius, float(areas[k]), self._gravity):
                self._loads.add(part.segments.start + int(k) - 1, *load)

    def add_drag(self, link: str, matrix: ArrayLike, smoothing: float = 1e-3) -> None:
        """Resist the motion of a link's frame by the wrench |v| D eta, eta its twist [angular; linear] in its own axes.

        Parameters: matrix D (6, 6); smoothing s of |v| = sqrt(v.v + s s), m/s, at least 0.
        Raises ValueError for an unknown link or numbers out of range.
        """
        D, s = as_array("matrix", matrix, (6, 6)), float(as_array("smoothing", smoothing, ()))
        if s < 0.0:
            raise ValueError(f"smoothing: got {s}, expected at least 0")
        self._loads.add(self._segment_of(link), DRAG, np.append(D.ravel(), s))

    def add_added_mass(self, link: str, matrix: ArrayLike) -> None:
        """Add inertia (6, 6), symmetric, in axes of the link's frame [angular; linear], without weight.

        Raises ValueError for an unknown link or a matrix that is not symmetric or has a negative eigenvalue.
        """
        M = as_array("matrix", matrix, (6, 6))
        if np.abs(M - M.T).max() > 1e-9 * np.abs(M).max():
            raise ValueError("matrix: got one that is not symmetric")
        if (least := np.linalg.eigvalsh(M)[0]) < -1e-9 * np.abs(M).max():
            raise ValueError(f"matrix: got one with the eigenvalue {least:.3g}, expected none below zero")
        self._loads.add(self._segment_of(link), ADDED_MASS, (0.5 * (M + M.T)).ravel())

    # -------------------------------------------------------------------------------------------- parts of the above
    def _check_new(self, name: str, parent: str, label: str) -> None:
        """ValueError if a link of this name exists, or its parent does not."""
        if as_name("name", name) in self._links or name == "world":
            raise ValueError(f"name: {name!r} is taken")
        self._known(parent, label + "parent")

    def _known(self, link: str, argument: str) -> None:
        look_up(argument, link, {"world": -1, **self._links})

    def _joint_values(self, label, joints, stiffness, damping) -> tuple[np.ndarray, np.ndarray]:
        """Stiffness and damping of each degree of freedom."""
        count, values = sum(joint.nv for joint in joints), []
        for what, value in (("stiffness", stiffness), ("damping", damping)):
            figure = as_array(label + what, value, () if as_floats(label + what, value).ndim == 0 else (count,))
            if (figure < 0.0).any():
                raise ValueError(f"{label}{what}: got {value}, expected numbers >= 0")
            values.append(np.broadcast_to(figure, (count,)))
        return values[0], values[1]

    def _add_joints(self, name, frame, joints, inertia, values) -> int:
        """Append joints in series, with the inertia at the end of the last; returns the segment that ends there."""
        (parent, placement), start, massless = frame, self._n, np.zeros(10)
        for i, joint in enumerate(joints):
            components, axes = joint_motion(joint)
            count = len(components)
            rows = self._n + np.concatenate([[0], np.cumsum([r in components for r in range(6)])])
            pitch = joint.pitch if isinstance(joint, Helical) else 0.0
            number = f" {i}" if len(joints) > 1 else ""
            self._names += [f"{name} {COMPONENT_LETTERS[r]}{number}" for r in components]
            self._n += count
            kind, before = SCREW if count == 1 else JOINT, (placement[0] @ axes, placement[1])
            parent = self._segments.add(
                parent, kind, rows, (2.0, pitch), np.zeros(6), [(1.0, 0.0)] * count, before, (axes.T, np.zeros(3)),
                inertia if i == len(joints) - 1 else massless,
            )  # fmt: skip
            placement = IDENTITY
        own = slice(start, self._n)
        self._energies.append((own, np.diag(values[0]), np.diag(values[1])))
        self._joints[name] = own
        return parent

    def _rod(self, name, length, section, material, basis, points, reference, start) -> Rod:
        """A rod whose first coordinate is `start`, without segments."""
        x, w = np.polynomial.legendre.leggauss(points)
        nodes = np.concatenate([[0.0], 0.5 * length * (x + 1.0), [length]])
        at_rest = strains_at_rest(f"rod {name!r}: reference", reference, nodes / length)
        weights = np.concatenate([[0.0], 0.5 * length * w, [0.0]])
        own = slice(start, start + basis.size)
        return Rod(name, length, section, material, basis, at_rest, nodes, weights, own, slice(0, 0))

    # -------------------------------------------------------------------------------------------- the model
    def build(self) -> RodModel:
        """The model; the builder can be used further.  ValueError if the model has no coordinates, or closed chains
        with dependent constraints."""
        if self._n == 0:
            raise ValueError("build: the model has no coordinates, expected at least one rod or movable body")
        K, D = np.zeros((self._n, self._n)), np.zeros((self._n, self._n))
        for own, stiffness, damping in self._energies:
            K[own, own], D[own, own] = stiffness, damping
        arrays = self._segments.arrays(self._n, self._base, self._gravity)
        external = self._loads.arrays(arrays)
        model = RodModel(
            self._name, self._n, tuple(self._links), tuple(self._names), MappingProxyType(dict(self._rods)),
            MappingProxyType(dict(self._links)), MappingProxyType(dict(self._joints)), K, D, self._mass,
            tuple(self._loads.wrench_names), arrays, external, (), no_closures(), external, np.empty(0),
            tuple(self._contacts), tuple(self._loads.control_names),
        )  # fmt: skip
        return closed(model, self._closures, self._loads)


COMPONENT_LETTERS = ("rx", "ry", "rz", "x", "y", "z")


def _as_joints(label: str, joint: RodJoint | Sequence[RodJoint]) -> tuple[RodJoint, ...]:
    if isinstance(joint, (Joint, Helical)):
        return (joint,)
    wanted = "a joint such as Revolute('z'), or a sequence of joints"
    joints = tuple(joint) if isinstance(joint, Sequence) else (joint,)
    for each in joints:
        if not isinstance(each, (Joint, Helical)):
            raise TypeError(f"{label}joint: got {joint!r}, expected {wanted}")
    if not joints:
        raise ValueError(f"{label}joint: got an empty sequence, expected {wanted}")
    return joints
