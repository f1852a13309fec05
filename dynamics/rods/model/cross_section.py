"""Cross-sections of rods, constant or tapered, and the elastic material that fills them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import zeta

from dynamics.validation import as_array, as_not_negative, as_number, as_positive

MatrixFunction = Callable[[float], ArrayLike]
SizeFunction = Callable[[np.ndarray], ArrayLike]

CORNERS = 16
"""Corners of the polygon that stands for a disc in pictures."""


class SectionProperties(NamedTuple):
    """Area A [m^2], torsion constant Jx and second moments of area Jy, Jz [m^4] at K places; each (K,)."""

    A: np.ndarray
    Jx: np.ndarray
    Jy: np.ndarray
    Jz: np.ndarray


def _sizes(name: str, size: float | SizeFunction, at_tip: float | None, s: ArrayLike) -> np.ndarray:
    """Values of a size at s (K,), given at the base and at the tip, or as a function.  ValueError for values that are
    not lengths."""
    s = np.asarray(s, float)
    if callable(size):
        if at_tip is not None:
            raise ValueError(f"{name}_at_tip: got {at_tip} beside a function of s, expected None")
        values = as_array(f"{name}(s)", size(s), s.shape)
        if (values < 0.0).any():
            raise ValueError(f"{name}(s): got {values.min()}, expected lengths of at least 0 in metres")
        return values
    base = float(as_array(name, size, ()))
    tip = base if at_tip is None else float(as_array(f"{name}_at_tip", at_tip, ()))
    if base <= 0.0:
        raise ValueError(f"{name}: got {base}, expected a positive length in metres")
    if tip < 0.0:
        raise ValueError(f"{name}_at_tip: got {tip}, expected a length of at least 0")
    return base + (tip - base) * s


ENDS = np.array([0.0, 1.0])


@dataclass(frozen=True)
class Circular:
    """A disc whose radius [m] varies linearly from base to tip, by default constant, or is a function of s = X / length
    (K,) that returns (K,).

    Examples
    --------
    >>> rods.Circular(0.02)
    Circular(radius=0.02, radius_at_tip=None)
    >>> tapered = rods.Circular(0.025, 0.018)
    >>> bulging = rods.Circular(lambda s: 0.02 + 0.01 * s * (1.0 - s))
    """

    radius: float | SizeFunction
    radius_at_tip: float | None = None

    def __post_init__(self):
        _sizes("radius", self.radius, self.radius_at_tip, ENDS)

    def radii(self, s: np.ndarray) -> np.ndarray:
        """Radius at s = X / length (K,)."""
        return _sizes("radius", self.radius, self.radius_at_tip, s)

    def properties(self, s: np.ndarray) -> SectionProperties:
        """Area and second moments at s = X / length (K,)."""
        r = self.radii(s)
        J = np.pi / 4.0 * r**4
        return SectionProperties(np.pi * r**2, 2.0 * J, J, J)

    def contains(self, s: np.ndarray, y: np.ndarray, z: np.ndarray) -> np.ndarray:
        """True where the points (y, z) lie in the section at s, each (K,)."""
        r = self.radii(s)
        return np.asarray(y) ** 2 + np.asarray(z) ** 2 <= (r * (1.0 + 1e-9)) ** 2

    def outline(self, s: np.ndarray) -> np.ndarray:
        """Points (y, z) around the section at s = X / length (K,), counterclockwise from y to z: (K, C, 2)."""
        angles = np.linspace(0.0, 2.0 * np.pi, CORNERS, endpoint=False)
        return self.radii(s)[:, None, None] * np.stack([np.cos(angles), np.sin(angles)], axis=-1)


@dataclass(frozen=True)
class Rectangular:
    """A rectangle with height along y and width along z [m], which vary linearly from base to tip, by default constant,
    or are functions of s = X / length (K,) that return (K,)."""

    height: float | SizeFunction
    width: float | SizeFunction
    height_at_tip: float | None = None
    width_at_tip: float | None = None

    def __post_init__(self):
        self.sides(ENDS)

    def sides(self, s: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Height and width at s = X / length (K,)."""
        height = _sizes("height", self.height, self.height_at_tip, s)
        return height, _sizes("width", self.width, self.width_at_tip, s)

    def properties(self, s: np.ndarray) -> SectionProperties:
        """Area, Saint-Venant's torsion constant and second moments at s = X / length (K,)."""
        h, w = self.sides(s)
        return SectionProperties(h * w, rectangle_torsion(h, w), h * w**3 / 12.0, h**3 * w / 12.0)

    def contains(self, s: np.ndarray, y: np.ndarray, z: np.ndarray) -> np.ndarray:
        """True where the points (y, z) lie in the section at s, each (K,)."""
        h, w = self.sides(s)
        slack = 0.5 * (1.0 + 1e-9)
        return (np.abs(y) <= slack * h) & (np.abs(z) <= slack * w)

    def outline(self, s: np.ndarray) -> np.ndarray:
        """The four corners of the section at s = X / length (K,): (K, 4, 2)."""
        signs = np.array([[1.0, -1.0], [1.0, 1.0], [-1.0, 1.0], [-1.0, -1.0]])
        return 0.5 * signs * np.stack(np.broadcast_arrays(*self.sides(s)), axis=-1)[:, None]


def rectangle_torsion(height: ArrayLike, width: ArrayLike) -> np.ndarray:
    """Saint-Venant's torsion constant of rectangles, with warping, accurate to rounding; sides a >= b [m]:

        a b^3 (1/3 - 64 b / (pi^5 a) sum tanh(k pi a / (2 b)) / k^5,  k = 1, 3, 5 ...)   [Timoshenko, Goodier, eq. 170]
    """
    a, b = np.maximum(height, width), np.minimum(height, width)
    ratio = b / np.where(a > 0.0, a, 1.0)
    k = np.arange(1.0, 16.0, 2.0)
    x = k * np.pi / np.maximum(ratio[..., None], 1e-3)
    missing = 2.0 * np.exp(-x) / (1.0 + np.exp(-x))  # 1 - tanh
    total = zeta(5.0) * 31.0 / 32.0 - (missing / k**5).sum(axis=-1)
    return a * b**3 * (1.0 / 3.0 - 64.0 / np.pi**5 * ratio * total)


Section = Circular | Rectangular


@dataclass(frozen=True)
class Elastic:
    """Linear elasticity and Kelvin-Voigt damping.

    Parameters
    ----------
    young : Young's modulus E, Pa
    poisson : Poisson's ratio nu, above -1 and at most 1/2;  the shear modulus is G = E / (2 (1 + nu))
    density : kg/m^3
    viscosity : Pa s, at least 0
    shear_correction : factor of the area that resists shear, above 0: for example 5/6 for rectangles, 0.9 for discs

    Raises
    ------
    ValueError : a parameter out of range.
    """

    young: float
    poisson: float
    density: float
    viscosity: float = 0.0
    shear_correction: float = 1.0

    def __post_init__(self):
        for name in ("young", "density", "shear_correction"):
            as_positive(name, getattr(self, name))
        if not -1.0 < as_number("poisson", self.poisson) <= 0.5:
            raise ValueError(f"poisson: got {self.poisson}, expected a number above -1 and at most 0.5")
        as_not_negative("viscosity", self.viscosity)

    @property
    def shear(self) -> float:
        """Shear modulus G, Pa."""
        return self.young / (2.0 * (1.0 + self.poisson))

    def stiffness(self, properties: SectionProperties, s: np.ndarray) -> np.ndarray:
        """diag(G Jx, E Jy, E Jz, E A, G k A, G k A), k the shear correction, at s = X / length (K,): (K, 6)."""
        A, Jx, Jy, Jz = properties
        E, G, kA = self.young, self.shear, self.shear_correction * A
        return np.stack([G * Jx, E * Jy, E * Jz, E * A, G * kA, G * kA], axis=-1)

    def damping(self, properties: SectionProperties, s: np.ndarray) -> np.ndarray:
        """viscosity diag(Jx, 3 Jy, 3 Jz, 3 A, k A, k A) at s (K,): (K, 6)."""
        A, Jx, Jy, Jz = properties
        kA = self.shear_correction * A
        return self.viscosity * np.stack([Jx, 3 * Jy, 3 * Jz, 3 * A, kA, kA], axis=-1)


@dataclass(frozen=True)
class Anisotropic:
    """Linear elasticity of sections with a given stiffness matrix, for example laminates, fibres or lattices.

    Parameters
    ----------
    stiffness_matrix : (6, 6), symmetric and positive definite, or a function of s = X / length that returns one: the
        map from strains [torsion, bending y, z, stretch, shear y, z] to [moments; forces], N m^2, N m and N
    density : kg/m^3
    damping_matrix : (6, 6), symmetric and positive semidefinite, or such a function; units times s; by default zero

    Raises
    ------
    ValueError : a wrong shape, a matrix that is not symmetric or not positive, a density that is not positive;
        `add_rod` raises the same for the values of functions.
    """

    stiffness_matrix: ArrayLike | MatrixFunction
    density: float
    damping_matrix: ArrayLike | MatrixFunction | None = None

    def __post_init__(self):
        as_positive("density", self.density)
        for name, definite in (("stiffness_matrix", True), ("damping_matrix", False)):
            given = getattr(self, name)
            if not callable(given) and (given is not None or definite):
                object.__setattr__(self, name, _as_energy(name, given, definite))

    def stiffness(self, properties: SectionProperties, s: np.ndarray) -> np.ndarray:
        """Stiffness matrices at s (K,): (K, 6, 6)."""
        return _matrices("stiffness_matrix", self.stiffness_matrix, s, True)

    def damping(self, properties: SectionProperties, s: np.ndarray) -> np.ndarray:
        """Damping matrices at s (K,): (K, 6, 6)."""
        given = np.zeros((6, 6)) if self.damping_matrix is None else self.damping_matrix
        return _matrices("damping_matrix", given, s, False)


def _matrices(name: str, given: ArrayLike | MatrixFunction, s: np.ndarray, definite: bool) -> np.ndarray:
    if callable(given):
        return np.array([_as_energy(f"{name}({x:.6g})", given(float(x)), definite) for x in s])
    return np.broadcast_to(np.asarray(given), (len(s), 6, 6))


def _as_energy(name: str, given: ArrayLike, definite: bool) -> np.ndarray:
    """The matrix (6, 6) as an array; ValueError unless it is symmetric and positive definite, or semidefinite."""
    K = as_array(name, given, (6, 6))
    scale = np.sqrt(np.abs(np.diag(K)))
    scale[scale == 0.0] = 1.0
    relative = K / np.outer(scale, scale)
    if np.abs(relative - relative.T).max() > 1e-9:
        raise ValueError(f"{name}: got a matrix that is not symmetric, expected a symmetric one")
    least = float(np.linalg.eigvalsh(0.5 * (relative + relative.T))[0])
    if least < (1e-12 if definite else -1e-12):
        wanted = "positive ones" if definite else "none below zero"
        raise ValueError(f"{name}: got the eigenvalue {least:.3g}, scaled to a diagonal of ones; expected {wanted}")
    return 0.5 * (K + K.T)


Material = Elastic | Anisotropic


def section_inertia(density: float, properties: SectionProperties) -> np.ndarray:
    """density diag(Jy + Jz, Jy, Jz, A, A, A) at K places, (K, 6)."""
    A, _, Jy, Jz = properties
    return density * np.stack([Jy + Jz, Jy, Jz, A, A, A], axis=-1)
