"""`RodModel`, a tree of rods and rigid bodies, and the scales and rotational joints of its coordinates."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from dynamics.content import ByContent
from dynamics.rods.model.arrays import JOINT, ClosureArrays, LoadArrays, RodArrays
from dynamics.rods.model.cross_section import Material, Section, SectionProperties
from dynamics.rods.model.segment_list import Closure
from dynamics.rods.model.strain_basis import StrainBasis
from dynamics.validation import as_array, look_up


def coordinate_scales(model: RodModel) -> np.ndarray:
    """Moderate values of the coordinates (n,): 0.3 rad or m of joints; 0.3 / length of torsion and bending, 0.1 of
    other strains."""
    scales = np.full(model.nq, 0.3)
    for rod in model.rods.values():
        for r in range(6):
            size = 0.3 / rod.length if r < 3 else 0.1
            scales[rod.coordinates.start + rod.basis.rows[r] : rod.coordinates.start + rod.basis.rows[r + 1]] = size
    return scales


# --------------------------------------------------------------------------------------------
# Joints that rotate about any axis, by any angle: free, spherical and planar joints.


def turning_segments(model: RodModel) -> np.ndarray:
    """Segments (J,) of free, spherical and planar joints."""
    m = model.arrays
    return np.flatnonzero((m.kind == JOINT) & (m.rows[:, 0] < m.rows[:, 3]))


def rotation_count(model: RodModel, coordinate: int) -> int:
    """Number of coordinates of the rotation vector that begins at this coordinate in such a joint; 0 if none begins
    there."""
    rows = model.arrays.rows[turning_segments(model)]
    return int((rows[:, 3] - rows[:, 0])[rows[:, 0] == coordinate].sum())


def turning_joints(model: RodModel, held: np.ndarray | tuple[int, ...] = ()) -> np.ndarray:
    """Coordinates (J, 6) of the components [angular; linear] of the joints that may change their chart, -1 for
    components that a joint does not have.  These are free, spherical and planar joints without stiffness and damping,
    whose forces would depend on the chart, and without a coordinate in `held`."""
    found, segments = [], turning_segments(model)
    if not len(segments):
        return np.empty((0, 6), np.int64)
    bound = (model.stiffness != 0.0).any(axis=1) | (model.damping != 0.0).any(axis=1)
    bound[np.asarray(held, np.int64)] = True
    for s in segments:
        rows = model.arrays.rows[s]
        if not bound[rows[0] : rows[6]].any():
            found.append(np.where(rows[1:] > rows[:-1], rows[:-1], -1))
    return np.array(found, np.int64).reshape(-1, 6)


# --------------------------------------------------------------------------------------------
# Hybrid robots of rods and rigid bodies, as the builder makes them and all other modules read them.


@dataclass(frozen=True, eq=False)
class Rod(ByContent):
    """A soft link: its properties and its place in the model.  Rods are compared by content.

    Attributes
    ----------
    name : str
    length : m
    section : Circular or Rectangular
    material : Elastic or Anisotropic
    basis : StrainBasis
    reference : (6,) strains at rest, or a function of s (K,) that returns (K, 6)
    nodes : (P,) positions X along the rod, m: 0, the Gauss-Legendre points, length, and further positions at which
        wrenches act
    weights : (P,) quadrature weights, m; zero at nodes that are not Gauss-Legendre points
    coordinates : slice of its coordinates in q
    segments : slice of its P - 1 segments in the arrays
    """

    name: str
    length: float
    section: Section
    material: Material
    basis: StrainBasis
    reference: np.ndarray | Callable[[np.ndarray], ArrayLike]
    nodes: np.ndarray
    weights: np.ndarray
    coordinates: slice
    segments: slice

    def _parts(self) -> Mapping[str, Any]:
        s = self.nodes / self.length  # functions are compared by their values
        of_material = (self.material.density, *(self.densities(what) for what in ("stiffness", "damping")))
        of_functions = {"basis": (self.basis.rows, self.basis.values(s)), "material": of_material}
        of_functions["reference"] = self.reference_strains(s)
        of_functions["section"] = (type(self.section).__name__, *self.properties)
        return {field.name: getattr(self, field.name) for field in fields(self)} | of_functions

    @property
    def properties(self) -> SectionProperties:
        """Section properties at the nodes."""
        return self.section.properties(self.nodes / self.length)

    def step(self, X: float, h: float) -> tuple[float, float, np.ndarray, np.ndarray]:
        """A Magnus step from X to X + h [GVS, C1]: h, the factor b of its commutator, and at its two points the
        strains at rest (2, 6) and the functions of the basis (size, 2)."""
        middle, offset = X + 0.5 * h, np.sqrt(3.0) / 6.0 * h
        places = np.array([middle - offset, middle + offset]) / self.length
        return h, np.sqrt(3.0) * h * h / 12.0, self.reference_strains(places), self.basis.values(places).T

    def reference_strains(self, s: np.ndarray) -> np.ndarray:
        """Strains at rest (K, 6) at s = X / length (K,).  ValueError if the function of s returns another shape or
        values that are not finite."""
        if not callable(self.reference):
            return np.broadcast_to(self.reference, (len(s), 6))
        return as_array(f"rod {self.name!r}: reference(s)", self.reference(np.asarray(s)), (len(s), 6))

    def densities(self, what: str) -> np.ndarray:
        """Stiffness or damping (`what`) of the sections at the nodes: diagonals (P, 6) or matrices (P, 6, 6)."""
        return getattr(self.material, what)(self.properties, self.nodes / self.length)

    def energy_matrix(self, densities: np.ndarray) -> np.ndarray:
        """sum_k w_k Phi_k' D_k Phi_k (size, size) for D_k (P, 6, 6) at the nodes, or their diagonals (P, 6)."""
        values = self.basis.values(self.nodes / self.length)
        total = np.zeros((self.basis.size, self.basis.size))
        own = [slice(*rows) for rows in zip(self.basis.rows[:-1], self.basis.rows[1:], strict=True)]
        for r in range(6):
            for c in range(6) if densities.ndim == 3 else (r,):
                of_pair = densities[:, r, c] if densities.ndim == 3 else densities[:, r]
                total[own[r], own[c]] = values[:, own[r]].T @ ((self.weights * of_pair)[:, None] * values[:, own[c]])
        return total


class LinkContact(NamedTuple):
    """Contact of a link, which touches with spheres fixed to it.

    Attributes
    ----------
    link : str
    contact : the contact as it was given, such as PlaneContact
    places : (P, 3) centres of the spheres in the frame of a body, m; for a rod (X, 0, 0), the centres while it is
        straight
    radii : (P,) m
    """

    link: str
    contact: Any
    places: np.ndarray
    radii: np.ndarray


@dataclass(frozen=True, eq=False)
class RodModel(ByContent):
    """A tree of rods and rigid bodies, fixed to the world at its base; made by `RodModelBuilder`.

    Models are compared and hashed by everything but their name.

    The configuration is a vector space: strains of rods, angles and displacements of joints, rotation vectors of
    spherical joints, exponential coordinates [angular; linear] of free-flyers and of planar joints.  The angle of a
    rotation vector is at most 2 pi; a motion continues in equivalent coordinates (`dynamics.rods.kinematics.charts`).

    Attributes
    ----------
    name : str
    nq, nv : number of coordinates n; nq = nv
    link_names, coordinate_names : tuples of str
    rods : mapping of name to `Rod`
    link_segments : mapping of a link's name to its last segment, whose end is the link's frame (of a rod: its tip)
    joint_coordinates : mapping of a link's name to the slice of its joint's coordinates
    stiffness, damping : (n, n), of rods and joints
    total_mass : kg
    wrench_names : tuple of str, names of the W external loads that take a wrench
    closed_joints : tuple of Closure
    constraint_sizes : (G,) sizes of the rows of the closed joints' Jacobian, for moderate coordinates
    contacts : tuple of `LinkContact`
    load_controls : tuple of str, controls of the loads added by `add_load`
    arrays, external, closures, reaction_loads : the model, its loads and its closed joints as arrays for kernels;
        reaction_loads are the loads with the reactions of closed joints
    """

    name: str
    nq: int
    link_names: tuple[str, ...]
    coordinate_names: tuple[str, ...]
    rods: Mapping[str, Rod]
    link_segments: Mapping[str, int]
    joint_coordinates: Mapping[str, slice]
    stiffness: np.ndarray
    damping: np.ndarray
    total_mass: float
    wrench_names: tuple[str, ...]
    arrays: RodArrays
    external: LoadArrays
    closed_joints: tuple[Closure, ...]
    closures: ClosureArrays
    reaction_loads: LoadArrays
    constraint_sizes: np.ndarray
    contacts: tuple[LinkContact, ...] = ()
    load_controls: tuple[str, ...] = ()

    def _parts(self) -> Mapping[str, Any]:
        return {field.name.replace("_", " "): getattr(self, field.name) for field in fields(self)[1:]}

    def __getstate__(self) -> dict[str, Any]:
        return {k: dict(x) if isinstance(x, MappingProxyType) else x for k, x in self.__dict__.items()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore a copy, with mappings made read-only again: read-only mappings cannot be pickled."""
        self.__dict__.update(state)
        for field in fields(self):
            if isinstance(state[field.name], dict):
                self.__dict__[field.name] = MappingProxyType(state[field.name])

    @property
    def nv(self) -> int:
        """Number of velocities, equal to nq."""
        return self.nq

    @property
    def wrench_count(self) -> int:
        """Number W of external wrenches."""
        return len(self.wrench_names)

    @property
    def input_count(self) -> int:
        """Number of controls of loads and of components of the W wrenches."""
        return len(self.load_controls) + 6 * self.wrench_count

    @property
    def closure_names(self) -> tuple[str, ...]:
        """Names of the closed joints."""
        return tuple(joint.name for joint in self.closed_joints)

    @property
    def constraint_count(self) -> int:
        """Number G of constraints of the closed joints."""
        return len(self.closures.kind)

    def segment_of(self, link: str) -> int:
        """The segment whose end is a link's frame; ValueError for an unknown link, with the nearest matches."""
        return int(look_up("link", link, self.link_segments))

    @property
    def gravity(self) -> np.ndarray:
        """Acceleration of gravity (3,), m/s^2."""
        return self.arrays.gravity

    def __repr__(self) -> str:
        return f"RodModel({self.name!r}, {len(self.rods)} rods, {len(self.link_names)} links, nq={self.nq})"
