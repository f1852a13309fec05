"""Building a model of rods and rigid bodies link by link, each after its parent."""

from __future__ import annotations

from collections.abc import Callable
from types import MappingProxyType

import numpy as np
from numpy.typing import ArrayLike

from dynamics.body_inertia import inertia_defect
from dynamics.joints import Fixed, Joint, Revolute, Spherical
from dynamics.rods.chains.closures import closed
from dynamics.rods.loads.external_loads import Density, Fluid, LoadList, as_density
from dynamics.rods.model.arrays import JOINT, SCREW
from dynamics.rods.model.closed_joint import Closure
from dynamics.rods.model.closure_arrays import no_closures
from dynamics.rods.model.cross_section import Material, Section
from dynamics.rods.model.load_arrays import ADDED_MASS, CARRIED, DEAD, DRAG, FOLLOWER, WRENCH
from dynamics.rods.model.rod_checks import check_points, check_slenderness, check_stiffness, strains_at_rest
from dynamics.rods.model.rod_model import LinkContact, Rod, RodModel
from dynamics.rods.model.segment_list import SegmentList, inertia_about_frame, joint_motion
from dynamics.rods.model.strain_basis import COMPONENTS, StrainBasis
from dynamics.rods.robot.contact_builder import ContactBuilder
from dynamics.rods.robot.rod_segments import IDENTITY, add_segments
from dynamics.validation import as_array, as_flag, as_inertia, as_kind, as_name, as_placement, look_up

Placement = tuple[ArrayLike, ArrayLike]
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
        joint: Joint,
        placement: Placement | None = None,
        mass: float = 0.0,
        com: ArrayLike = (0.0, 0.0, 0.0),
        inertia: ArrayLike | None = None,
        stiffness: ArrayLike = 0.0,
        damping: ArrayLike = 0.0,
    ) -> None:
        """Add a rigid body, carried by a joint that is attached to its parent.

        Parameters
        ----------
        name, joint, mass, com, inertia : as `ModelBuilder.add_body` has them
        parent : a link added before, a rod being held by its tip; or "world"
        placement : (R, p), joint frame in the parent's frame; by default the identity
        stiffness, damping : (nv,) or one number for every degree of freedom of the joint; N m / rad or N / m, and
            these times s

        Raises
        ------
        ValueError : a name given twice, an unknown parent, values out of range.
        TypeError : if `joint` is no joint.
        """
        label = f"body {name!r}: "
        if joint is None:
            raise TypeError(f"{label}joint: got None, expected a joint such as Revolute('z')")
        parent_segment = self._new(name, parent, joint, label)
        mass = float(as_array(label + "mass", mass, ()))
        if mass < 0.0:
            raise ValueError(f"{label}mass: got {mass}, expected a number >= 0")
        symmetric = as_inertia(label + "inertia", inertia)
        defect = inertia_defect(mass, symmetric)
        if defect:
            raise ValueError(f"{label}inertia: {defect}")
        inertia_ = inertia_about_frame(mass, as_array(label + "com", com, (3,)), symmetric)
        placement_ = as_placement(label + "placement", placement)
        self._links[name] = self._add_joint(name, parent_segment, joint, placement_, inertia_, stiffness, damping)
        self._mass += mass

    def add_rod(
        self,
        name: str,
        parent: str,
        length: float,
        section: Section,
        material: Material,
        basis: StrainBasis,
        joint: Joint | None = None,
        placement: Placement | None = None,
        points: int = 5,
        reference: ArrayLike | Callable[[np.ndarray], ArrayLike] = STRAIGHT,
    ) -> None:
        """Add a rod along the x axis of its joint's frame.

        Parameters
        ----------
        name, parent, placement : as for `add_body`; children of the rod are attached to the frame of its tip
        length : m
        section : Circular or Rectangular
        material : Elastic or Anisotropic
        basis : StrainBasis, such as LegendreBasis(bending_y=4, bending_z=4)
        joint : between parent and rod; None, the default: clamped
        points : Gauss-Legendre points of the quadrature of forces and inertia, at least the functions of a component;
            together with both ends also the points between which kinematics are integrated
        reference : (6,) strains at rest [torsion, bending y, z, stretch, shear y, z]; by default straight.  Where they
            vary along the rod: a function of s = X / length (K,) that returns (K, 6), or (points + 2, 6), those at the
            base, the points of the quadrature and the tip, between which they follow a polynomial

        Raises
        ------
        ValueError : as `add_body`; more functions in a component than points resolve; functions that leave a direction
            without stiffness.
        TypeError : arguments of another kind.
        """
        label = f"rod {name!r}: "
        kinds = {
            "section": (section, Section, "Circular or Rectangular"), "basis": (basis, StrainBasis, None),
            "material": (material, Material, "Elastic or Anisotropic"),
        }  # fmt: skip
        for what, (value, kind, wanted) in kinds.items():
            as_kind(label + what, value, kind, wanted)
        parent_segment = self._new(name, parent, joint, label)
        length = float(as_array(label + "length", length, ()))
        if length <= 0.0:
            raise ValueError(f"{label}length: got {length}, expected a positive number of metres")
        check_points(label, points, basis)
        check_slenderness(label, length, section)
        placement_ = as_placement(label + "placement", placement)
        if joint is not None:
            massless = np.zeros(10)
            parent_segment = self._add_joint(name, parent_segment, joint, placement_, massless, 0.0, 0.0)
            placement_ = IDENTITY
        rod = self._rod(name, length, section, material, basis, points, reference)
        K = rod.energy_matrix(rod.densities("stiffness"))
        check_stiffness(label, K)
        self._energies.append((rod.coordinates, K, rod.energy_matrix(rod.densities("damping"))))
        self._mass += add_segments(self._segments, rod, parent_segment, placement_)
        self._links[name] = rod.segments.stop - 1
        self._rods[name] = rod

    def add_closure(
        self,
        name: str,
        link_a: str,
        link_b: str,
        joint: Joint,
        placement_a: Placement | None = None,
        placement_b: Placement | None = None,
    ) -> None:
        """Close a chain: a joint between two links that are there already.

        Parameters
        ----------
        name : of the closed joint
        link_a, link_b : links added before; link_b may be "world"
        joint : Revolute(axis), the axis having the same coordinates in both frames, Spherical() or Fixed()
        placement_a, placement_b : (R, p), the joint's frame in the links' frames, of rods those of their tips; by
            default the identity

        Raises
        ------
        ValueError : a name given twice, an unknown link, twice the same link.
        TypeError : another joint.

        `build` drops constraints that vanish at any configuration, and raises ValueError where others depend on each
        other.  The chains need not be closed at q = 0: `assemble` finds coordinates that close them.
        """
        label = f"closure {name!r}: "
        if as_name("name", name) in (closure.name for closure in self._closures):
            raise ValueError(f"name: {name!r} is taken")
        if type(joint) not in (Revolute, Spherical, Fixed):
            raise TypeError(f"{label}joint: got {joint!r}, expected Revolute(axis), Spherical() or Fixed()")
        if link_a == link_b:
            raise ValueError(f"{label}link_b: got {link_b!r} on both sides, expected two links")
        world = isinstance(link_b, str) and link_b == "world"
        segment_b = -1 if world else self._segment_of(link_b, label + "link_b")
        segments = self._segment_of(link_a, label + "link_a"), segment_b
        placements = as_placement(label + "placement_a", placement_a), as_placement(label + "placement_b", placement_b)
        self._closures.append(Closure(name, segments, joint, placements))

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
        name : by default that of the link
        follower : whether its axes are those of the link, else of the world
        point : (3,) where it acts, in the link's frame, of a rod that of its section; by default the frame's origin
        at : where on a rod, X / length above 0 and at most 1; by default the tip, of a body 1.  The rod's kinematics
            have a node there from now on

        Raises
        ------
        ValueError : an unknown link, a name given twice, a place out of range.
        """
        segment, kind = self._segment_of(link), FOLLOWER if as_flag("follower", follower) else WRENCH
        name, at = as_name("name", link if name is None else name), self._place_on(link, at)
        self._loads.add_wrench(segment, kind, name, as_array("point", point, (3,)))
        if at != 1.0:  # once nothing is refused
            segment = self._node(link, at)
            self._loads.entries[-1] = (segment, *self._loads.entries[-1][1:])

    def add_distributed_load(
        self,
        rod: str,
        density: Density,
        follower: bool = False,
        name: str | None = None,
    ) -> None:
        """Let a wrench per length act all along a rod; it adds to others.

        Parameters
        ----------
        rod : a rod added before
        density : (6,) [moment; force] per length, N m/m and N/m, or a function of s = X / length that returns these;
            taken at the points of the quadrature.  With a name one number, or such a function, that the wrench per
            length of this name is multiplied with
        follower : whether its axes are those of the section, else of the world
        name : by default the load is always the same; with a name it is an argument of the dynamics, as of `add_wrench`

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

        Raises: ValueError for an unknown rod or one of another section, TypeError for another kind of fluid.
        """
        as_kind("fluid", fluid, Fluid)
        part, section = self._circular(rod)
        radii, areas = section.radii(part.nodes / part.length), part.properties.A
        for k in np.flatnonzero(part.weights):
            weight, radius = float(part.weights[k]), float(radii[k])
            for load in fluid.node_loads(weight, radius, float(areas[k]), self._gravity):
                self._loads.add(part.segments.start + int(k) - 1, *load)

    def add_drag(self, link: str, matrix: ArrayLike, smoothing: float = 1e-3) -> None:
        """Resist the motion of a link's frame by the wrench |v| D eta, eta its twist [angular; linear] in own axes.

        Parameters: matrix D (6, 6); smoothing s of |v| = sqrt(v.v + s s), m/s, at least 0.
        Raises: ValueError for an unknown link or numbers out of range.
        """
        D, s = as_array("matrix", matrix, (6, 6)), float(as_array("smoothing", smoothing, ()))
        if s < 0.0:
            raise ValueError(f"smoothing: got {s}, expected at least 0")
        self._loads.add(self._segment_of(link), DRAG, np.append(D.ravel(), s))

    def add_added_mass(self, link: str, matrix: ArrayLike) -> None:
        """Add inertia (6, 6), symmetric, axes of the link's frame [angular; linear], that has no weight.

        Raises: ValueError for an unknown link or a matrix that is not symmetric, or has a negative eigenvalue.
        """
        M = as_array("matrix", matrix, (6, 6))
        if np.abs(M - M.T).max() > 1e-9 * np.abs(M).max():
            raise ValueError("matrix: got one that is not symmetric")
        if (least := np.linalg.eigvalsh(M)[0]) < -1e-9 * np.abs(M).max():
            raise ValueError(f"matrix: got one with the eigenvalue {least:.3g}, expected none below zero")
        self._loads.add(self._segment_of(link), ADDED_MASS, (0.5 * (M + M.T)).ravel())

    # -------------------------------------------------------------------------------------------- parts of these
    def _new(self, name: str, parent: str, joint: Joint | None, label: str) -> int:
        """Number of the parent's segment, once the names are in order."""
        if as_name("name", name) in self._links or name == "world":
            raise ValueError(f"name: {name!r} is taken")
        if joint is not None and not isinstance(joint, Joint):
            raise TypeError(f"{label}joint: got {joint!r}, expected a joint such as Revolute('z')")
        return look_up(label + "parent", parent, {"world": -1, **self._links})

    def _add_joint(self, name, parent, joint, placement, inertia, stiffness, damping) -> int:
        components, axes = joint_motion(joint)
        count, label = len(components), f"link {name!r}: "
        rows = self._n + np.concatenate([[0], np.cumsum([r in components for r in range(6)])])
        own = slice(self._n, self._n + count)
        values = []
        for what, value in (("stiffness", stiffness), ("damping", damping)):
            figure = as_array(label + what, value, () if np.ndim(value) == 0 else (count,))
            if (figure < 0.0).any():
                raise ValueError(f"{label}{what}: got {value}, expected numbers >= 0")
            values.append(np.diag(np.broadcast_to(figure, (count,))))
        self._energies.append((own, *values))
        self._joints[name] = own
        self._names += [f"{name} {COMPONENT_LETTERS[r]}" for r in components]
        self._n += count
        kind = SCREW if count == 1 else JOINT
        before = placement[0] @ axes, placement[1]
        modes = [(1.0, 0.0)] * count
        return self._segments.add(
            parent, kind, rows, (2.0, 0.0), np.zeros(6), modes, before, (axes.T, np.zeros(3)), inertia
        )  # fmt: skip

    def _rod(self, name, length, section, material, basis, points, reference) -> Rod:
        x, w = np.polynomial.legendre.leggauss(points)
        nodes = np.concatenate([[0.0], 0.5 * length * (x + 1.0), [length]])
        at_rest = strains_at_rest(f"rod {name!r}: reference", reference, nodes / length)
        weights = np.concatenate([[0.0], 0.5 * length * w, [0.0]])
        first = len(self._segments.parent)
        own = slice(self._n, self._n + basis.size)
        for r, component in enumerate(COMPONENTS):
            self._names += [f"{name} {component} {k}" for k in range(basis.rows[r + 1] - basis.rows[r])]
        self._n += basis.size
        segments = slice(first, first + points + 1)
        return Rod(name, length, section, material, basis, at_rest, nodes, weights, own, segments)

    # -------------------------------------------------------------------------------------------- the model
    def build(self) -> RodModel:
        """The model; the builder may go on.  ValueError if it has no coordinates, or closed chains whose
        constraints depend on each other."""
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
