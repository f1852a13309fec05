"""Cross-sections of rods, constant or linearly tapered, and the elastic material that fills them."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from dynamics.validation import as_array

CORNERS = 16
"""Of what stands for a disc in pictures."""


class SectionProperties(NamedTuple):
    """Area A [m^2] and second moments of area Jx = Jy + Jz, Jy, Jz [m^4] at K places; each (K,)."""

    A: np.ndarray
    Jx: np.ndarray
    Jy: np.ndarray
    Jz: np.ndarray


def _taper(name: str, size, at_tip) -> tuple[float, float]:
    base = float(as_array(name, size, ()))
    tip = base if at_tip is None else float(as_array(f"{name}_at_tip", at_tip, ()))
    if base <= 0.0:
        raise ValueError(f"{name}: got {base}, expected a positive length in metres")
    if tip < 0.0:
        raise ValueError(f"{name}_at_tip: got {tip}, expected a length of at least 0")
    return base, tip


@dataclass(frozen=True)
class Circular:
    """A disc of this radius [m] at the base and, by default the same, at the tip; linear between."""

    radius: float
    radius_at_tip: float | None = None

    def __post_init__(self):
        _taper("radius", self.radius, self.radius_at_tip)

    def radii(self, s: np.ndarray) -> np.ndarray:
        """Radius at s = X / length (K,)."""
        base, tip = _taper("radius", self.radius, self.radius_at_tip)
        return base + (tip - base) * np.asarray(s)

    def properties(self, s: np.ndarray) -> SectionProperties:
        """Area and second moments at s = X / length (K,)."""
        r = self.radii(s)
        J = np.pi / 4.0 * r**4
        return SectionProperties(np.pi * r**2, 2.0 * J, J, J)

    def contains(self, s: np.ndarray, y: np.ndarray, z: np.ndarray) -> np.ndarray:
        """Whether the points (y, z) lie in the section at s, each (K,)."""
        r = self.radii(s)
        return np.asarray(y) ** 2 + np.asarray(z) ** 2 <= (r * (1.0 + 1e-9)) ** 2

    def outline(self, s: np.ndarray) -> np.ndarray:
        """Points (y, z) around the section at s = X / length (K,), in turn from y to z: (K, C, 2)."""
        angles = np.linspace(0.0, 2.0 * np.pi, CORNERS, endpoint=False)
        return self.radii(s)[:, None, None] * np.stack([np.cos(angles), np.sin(angles)], axis=-1)


@dataclass(frozen=True)
class Rectangular:
    """A rectangle, height along y and width along z [m], at the base and, by default the same, at the tip."""

    height: float
    width: float
    height_at_tip: float | None = None
    width_at_tip: float | None = None

    def __post_init__(self):
        _taper("height", self.height, self.height_at_tip)
        _taper("width", self.width, self.width_at_tip)

    def sides(self, s: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Height and width at s = X / length (K,)."""
        h, w = _taper("height", self.height, self.height_at_tip), _taper("width", self.width, self.width_at_tip)
        s = np.asarray(s)
        return h[0] + (h[1] - h[0]) * s, w[0] + (w[1] - w[0]) * s

    def properties(self, s: np.ndarray) -> SectionProperties:
        """Area and second moments at s = X / length (K,); Jx is the polar one, without warping."""
        h, w = self.sides(s)
        Jy, Jz = h * w**3 / 12.0, h**3 * w / 12.0
        return SectionProperties(h * w, Jy + Jz, Jy, Jz)

    def contains(self, s: np.ndarray, y: np.ndarray, z: np.ndarray) -> np.ndarray:
        """Whether the points (y, z) lie in the section at s, each (K,)."""
        h, w = self.sides(s)
        slack = 0.5 * (1.0 + 1e-9)
        return (np.abs(y) <= slack * h) & (np.abs(z) <= slack * w)

    def outline(self, s: np.ndarray) -> np.ndarray:
        """As that of a disc: its four corners (K, 4, 2)."""
        signs = np.array([[1.0, -1.0], [1.0, 1.0], [-1.0, 1.0], [-1.0, -1.0]])
        return 0.5 * signs * np.stack(np.broadcast_arrays(*self.sides(s)), axis=-1)[:, None]


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

    Raises
    ------
    ValueError : a figure out of range.
    """

    young: float
    poisson: float
    density: float
    viscosity: float = 0.0

    def __post_init__(self):
        for name in ("young", "density"):
            value = float(as_array(name, getattr(self, name), ()))
            if value <= 0.0:
                raise ValueError(f"{name}: got {value}, expected a positive number")
        if not -1.0 < float(as_array("poisson", self.poisson, ())) <= 0.5:
            raise ValueError(f"poisson: got {self.poisson}, expected a number above -1 and at most 0.5")
        if float(as_array("viscosity", self.viscosity, ())) < 0.0:
            raise ValueError(f"viscosity: got {self.viscosity}, expected at least 0")

    @property
    def shear(self) -> float:
        """Shear modulus G, Pa."""
        return self.young / (2.0 * (1.0 + self.poisson))

    def stiffness(self, properties: SectionProperties) -> np.ndarray:
        """diag(G Jx, E Jy, E Jz, E A, G A, G A) at K places, (K, 6); no shear correction."""
        A, Jx, Jy, Jz = properties
        E, G = self.young, self.shear
        return np.stack([G * Jx, E * Jy, E * Jz, E * A, G * A, G * A], axis=-1)

    def damping(self, properties: SectionProperties) -> np.ndarray:
        """viscosity diag(Jx, 3 Jy, 3 Jz, 3 A, A, A) at K places, (K, 6)."""
        A, Jx, Jy, Jz = properties
        return self.viscosity * np.stack([Jx, 3 * Jy, 3 * Jz, 3 * A, A, A], axis=-1)

    def inertia(self, properties: SectionProperties) -> np.ndarray:
        """density diag(Jx, Jy, Jz, A, A, A) at K places, (K, 6)."""
        A, Jx, Jy, Jz = properties
        return self.density * np.stack([Jx, Jy, Jz, A, A, A], axis=-1)
