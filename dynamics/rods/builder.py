"""Building a model of rods and rigid bodies link by link, each after its parent."""

from dataclasses import dataclass, field
from types import MappingProxyType

import numpy as np
from numpy.typing import ArrayLike

from dynamics.body_inertia import inertia_defect
from dynamics.joints import Continuous, FreeFlyer, Joint, Planar, Prismatic, Revolute, Spherical, Translation
from dynamics.rods.arrays import JOINT, ROD, SCREW, RodArrays
from dynamics.rods.cross_section import Elastic, Section
from dynamics.rods.model import Rod, RodModel
from dynamics.rods.strain_basis import COMPONENTS, StrainBasis
from dynamics.validation import as_array, as_inertia, as_name, as_placement, unknown_name

Placement = tuple[ArrayLike, ArrayLike]
IDENTITY = (np.eye(3), np.zeros(3))
STRAIGHT = (0.0, 0.0, 0.0, 1.0, 0.0, 0.0)
SINGULAR = 1e-12
"""A stiffness matrix scaled to a diagonal of ones, with an eigenvalue below this, has a direction without stiffness."""


@dataclass
class _Segments:
    """Columns of `RodArrays` as they grow."""

    parent: list[int] = field(default_factory=list)
    kind: list[int] = field(default_factory=list)
    rows: list[np.ndarray] = field(default_factory=list)
    step: list[tuple[float, float]] = field(default_factory=list)
    reference: list[np.ndarray] = field(default_factory=list)
    first_mode: list[int] = field(default_factory=list)
    modes: list[tuple[float, float]] = field(default_factory=list)
    before: list[np.ndarray] = field(default_factory=list)
    after: list[np.ndarray] = field(default_factory=list)
    inertia: list[np.ndarray] = field(default_factory=list)

    def add(self, parent, kind, rows, step, reference, modes, before, after, inertia) -> int:
        """Append a segment; returns its number."""
        self.parent.append(parent)
        self.kind.append(kind)
        self.rows.append(np.asarray(rows, np.int64))
        self.step.append(step)
        self.reference.append(np.asarray(reference, float))
        self.first_mode.append(len(self.modes))
        self.modes.extend((float(one), float(two)) for one, two in modes)
        self.before.append(np.concatenate([before[0].ravel(), before[1]]))
        self.after.append(np.concatenate([after[0].ravel(), after[1]]))
        self.inertia.append(np.asarray(inertia, float))
        return len(self.parent) - 1

    def arrays(self, n: int, base, gravity: np.ndarray) -> RodArrays:
        """All of it, with the coordinates on the path to each segment."""
        path, start = [], [0]
        for s in range(len(self.parent)):
            on_path, k = set(), s
            while k >= 0:
                on_path.update(range(self.rows[k][0], self.rows[k][6]))
                k = self.parent[k]
            path += sorted(on_path)
            start.append(len(path))
        whole = (self.parent, self.kind, self.rows)
        parent, kind, rows = (np.array(column, np.int64) for column in whole)
        modes = np.array(self.modes, float).reshape(-1, 2)
        return RodArrays(
            parent, kind, rows.reshape(-1, 7), np.array(self.step), np.array(self.reference),
            np.array(self.first_mode, np.int64), modes, np.array(self.before), np.array(self.after),
            np.array(self.inertia), np.array(start, np.int64), np.array(path, np.int64),
            np.concatenate([base[0].ravel(), base[1]]), gravity.copy(), np.array([n], np.int64),
        )  # fmt: skip


def _joint_motion(joint: Joint) -> tuple[list[int], np.ndarray]:
    """Components [angular; linear] that the joint moves in its standard frame, and that frame's axes (3, 3)."""
    if isinstance(joint, (Revolute, Continuous, Prismatic)):
        axes, _ = joint.motion_subspace()
        return [5 if isinstance(joint, Prismatic) else 2], _frame_with_z(axes[0])
    if isinstance(joint, Planar):
        return [2, 3, 4], joint.alignment()
    if isinstance(joint, Spherical):
        return [0, 1, 2], np.eye(3)
    if isinstance(joint, Translation):
        return [3, 4, 5], np.eye(3)
    if isinstance(joint, FreeFlyer):
        return list(range(6)), np.eye(3)
    return [], np.eye(3)


def _frame_with_z(axis: np.ndarray) -> np.ndarray:
    """A rotation (3, 3) whose third column is the axis."""
    x = np.eye(3)[int(np.argmin(np.abs(axis)))]
    x = x - (x @ axis) * axis
    x = x / np.linalg.norm(x)
    return np.column_stack([x, np.cross(axis, x), axis])


def _inertia_about_frame(mass: float, com: np.ndarray, symmetric: np.ndarray) -> np.ndarray:
    """Mass, first moment, and xx xy xz yy yz zz about the frame's origin."""
    I = symmetric + mass * (com @ com * np.eye(3) - np.outer(com, com))
    return np.concatenate([[mass], mass * com, I[np.triu_indices(3)]])


class RodModelBuilder:
    """Builds a `RodModel` from rods and bodies added one by one, each after its parent.

    Parameters
    ----------
    gravity : (3,) acceleration in the world frame, m/s^2
    name : name of the model
    base : (R, p), frame in the world to which links with the parent "world" are attached; by default the world's
    """

    def __init__(
        self, gravity: ArrayLike = (0.0, 0.0, -9.81), name: str = "soft robot", base: Placement | None = None
    ) -> None:
        self._gravity = as_array("gravity", gravity, (3,))
        self._name, self._base = as_name("name", name), as_placement("base", base)
        self._segments, self._n, self._mass = _Segments(), 0, 0.0
        self._links: dict[str, int] = {}
        self._rods: dict[str, Rod] = {}
        self._joints: dict[str, slice] = {}
        self._names: list[str] = []
        self._energies: list[tuple[slice, np.ndarray, np.ndarray]] = []

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
        parent_segment = self._new(name, parent, joint, label)
        mass = float(as_array(label + "mass", mass, ()))
        if mass < 0.0:
            raise ValueError(f"{label}mass: got {mass}, expected a number >= 0")
        symmetric = as_inertia(label + "inertia", inertia)
        defect = inertia_defect(mass, symmetric)
        if defect:
            raise ValueError(f"{label}inertia: {defect}")
        figures = _inertia_about_frame(mass, as_array(label + "com", com, (3,)), symmetric)
        placement_ = as_placement(label + "placement", placement)
        self._links[name] = self._add_joint(name, parent_segment, joint, placement_, figures, stiffness, damping)
        self._mass += mass

    def add_rod(
        self,
        name: str,
        parent: str,
        length: float,
        section: Section,
        material: Elastic,
        basis: StrainBasis,
        joint: Joint | None = None,
        placement: Placement | None = None,
        points: int = 5,
        reference: ArrayLike = STRAIGHT,
    ) -> None:
        """Add a rod along the x axis of its joint's frame.

        Parameters
        ----------
        name, parent, placement : as for `add_body`; children of the rod are attached to the frame of its tip
        length : m
        section : Circular or Rectangular
        material : Elastic
        basis : StrainBasis, such as LegendreBasis(bending_y=4, bending_z=4)
        joint : between parent and rod; None, the default: clamped
        points : Gauss-Legendre points of the quadrature of forces and inertia, at least the functions of a component;
            together with both ends also the points between which kinematics are integrated
        reference : (6,) strains at rest [torsion, bending y, z, stretch, shear y, z]; by default straight

        Raises
        ------
        ValueError : as `add_body`; more functions in a component than points resolve; functions that leave a direction
            without stiffness.
        TypeError : arguments of another kind.
        """
        label = f"rod {name!r}: "
        kinds = {"section": (section, Section), "material": (material, Elastic), "basis": (basis, StrainBasis)}
        for what, (value, kind) in kinds.items():
            if not isinstance(value, kind):
                raise TypeError(f"{label}{what}: got {type(value).__name__}")
        parent_segment = self._new(name, parent, joint, label)
        length = float(as_array(label + "length", length, ()))
        if length <= 0.0:
            raise ValueError(f"{label}length: got {length}, expected a positive number of metres")
        _check_points(label, points, basis)
        reference = as_array(label + "reference", reference, (6,))
        placement_ = as_placement(label + "placement", placement)
        if joint is not None:
            massless = np.zeros(10)
            parent_segment = self._add_joint(name, parent_segment, joint, placement_, massless, 0.0, 0.0)
            placement_ = IDENTITY
        rod = self._rod(name, length, section, material, basis, points, reference)
        K = rod.energy_matrix(material.stiffness(rod.figures))
        _check_stiffness(label, K)
        self._energies.append((rod.coordinates, K, rod.energy_matrix(material.damping(rod.figures))))
        self._links[name] = self._add_segments(rod, parent_segment, placement_)
        self._rods[name] = rod

    # -------------------------------------------------------------------------------------------- parts of these
    def _new(self, name: str, parent: str, joint: Joint | None, label: str) -> int:
        """Number of the parent's segment, once the names are in order."""
        if as_name("name", name) in self._links or name == "world":
            raise ValueError(f"name: {name!r} is taken")
        if joint is not None and not isinstance(joint, Joint):
            raise TypeError(f"{label}joint: got {joint!r}, expected a joint such as Revolute('z')")
        if parent == "world":
            return -1
        if parent not in self._links:
            raise unknown_name(label + "parent", parent, ["world", *self._links])
        return self._links[parent]

    def _add_joint(self, name, parent, joint, placement, figures, stiffness, damping) -> int:
        components, axes = _joint_motion(joint)
        count, label = len(components), f"link {name!r}: "
        rows = self._n + np.concatenate([[0], np.cumsum([r in components for r in range(6)])])
        own = slice(self._n, self._n + count)
        values = []
        for what, value in (("stiffness", stiffness), ("damping", damping)):
            figure = np.broadcast_to(as_array(label + what, value), (count,))
            if (figure < 0.0).any():
                raise ValueError(f"{label}{what}: got {value}, expected numbers >= 0")
            values.append(np.diag(figure))
        self._energies.append((own, *values))
        self._joints[name] = own
        self._names += [f"{name} {COMPONENT_LETTERS[r]}" for r in components]
        self._n += count
        kind = SCREW if count == 1 else JOINT
        before = placement[0] @ axes, placement[1]
        modes = [(1.0, 0.0)] * count
        return self._segments.add(
            parent, kind, rows, (2.0, 0.0), np.zeros(6), modes, before, (axes.T, np.zeros(3)), figures
        )  # fmt: skip

    def _rod(self, name, length, section, material, basis, points, reference) -> Rod:
        x, w = np.polynomial.legendre.leggauss(points)
        nodes = np.concatenate([[0.0], 0.5 * length * (x + 1.0), [length]])
        weights = np.concatenate([[0.0], 0.5 * length * w, [0.0]])
        first = len(self._segments.parent)
        own = slice(self._n, self._n + basis.size)
        for r, component in enumerate(COMPONENTS):
            self._names += [f"{name} {component} {k}" for k in range(basis.rows[r + 1] - basis.rows[r])]
        self._n += basis.size
        segments = slice(first, first + points + 1)
        return Rod(name, length, section, material, basis, reference.copy(), nodes, weights, own, segments)

    def _add_segments(self, rod: Rod, parent: int, placement) -> int:
        M = rod.material.inertia(rod.figures) * rod.weights[:, None]
        self._mass += float(M[:, 3].sum())
        rows = rod.coordinates.start + rod.basis.rows
        for k in range(len(rod.nodes) - 1):
            h = rod.nodes[k + 1] - rod.nodes[k]
            middle, offset = rod.nodes[k] + 0.5 * h, np.sqrt(3.0) / 6.0 * h
            modes = rod.basis.values(np.array([middle - offset, middle + offset]) / rod.length).T
            Jx, Jy, Jz, A = M[k + 1, :4]
            inertia = np.array([A, 0.0, 0.0, 0.0, Jx, 0.0, 0.0, Jy, 0.0, Jz])
            before = placement if k == 0 else IDENTITY
            step = (h, np.sqrt(3.0) * h * h / 12.0)
            parent = self._segments.add(parent, ROD, rows, step, rod.reference, modes, before, IDENTITY, inertia)
        return parent

    # -------------------------------------------------------------------------------------------- the model
    def build(self) -> RodModel:
        """The model; the builder may go on.  ValueError if it has no coordinates."""
        if self._n == 0:
            raise ValueError("build: the model has no coordinates, expected at least one rod or movable body")
        K, D = np.zeros((self._n, self._n)), np.zeros((self._n, self._n))
        for own, stiffness, damping in self._energies:
            K[own, own], D[own, own] = stiffness, damping
        return RodModel(
            self._name, self._n, tuple(self._links), tuple(self._names), MappingProxyType(dict(self._rods)),
            MappingProxyType(dict(self._links)), MappingProxyType(dict(self._joints)), K, D, self._mass,
            self._segments.arrays(self._n, self._base, self._gravity),
        )  # fmt: skip


COMPONENT_LETTERS = ("rx", "ry", "rz", "x", "y", "z")


def _check_points(label: str, points: int, basis: StrainBasis) -> None:
    if isinstance(points, bool) or not isinstance(points, (int, np.integer)) or points < 1:
        raise ValueError(f"{label}points: got {points!r}, expected a whole number of at least 1")
    counts = np.diff(basis.rows)
    most = int(np.argmax(counts))
    if counts[most] > points:
        raise ValueError(
            f"{label}points: got {points}, which cannot resolve the {counts[most]} functions of {COMPONENTS[most]}; "
            f"expected at least {counts[most]}"
        )


def _check_stiffness(label: str, K: np.ndarray) -> None:
    scale = np.sqrt(np.diag(K))
    if not (scale > 0.0).all() or np.linalg.eigvalsh(K / np.outer(scale, scale))[0] < SINGULAR:
        raise ValueError(f"{label}basis: its functions leave a direction without stiffness, expected independent ones")
