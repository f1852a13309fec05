"""Strains of a rod as linear functions of its coordinates, xi(X) = Phi(X) q + xi*.

Components are [torsion, bending about y, bending about z; stretch, shear along y, shear along z] in the frame of the
cross-section, whose x is the rod's axis.  Every coordinate belongs to one component; they are ordered by component.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np
from numpy.polynomial import legendre

from dynamics.validation import as_items, as_kind

COMPONENTS = ("torsion", "bending_y", "bending_z", "stretch", "shear_y", "shear_z")

StrainFunction = Callable[[np.ndarray], np.ndarray]


class StrainBasis:
    """Functions of s = X / length in [0, 1] for each strain component.

    Parameters
    ----------
    functions : mapping of component name to a sequence of functions
        Each takes s (K,) and returns (K,) finite numbers.  A component without functions keeps its reference strain.
        The functions of a component must be linearly independent on the rod.

    Attributes
    ----------
    size : number of coordinates
    rows : (7,) coordinates rows[r] ... rows[r + 1] - 1 belong to component r

    Raises
    ------
    ValueError : an unknown component, or no function at all.
    TypeError : an entry that is not callable.
    """

    def __init__(self, functions: Mapping[str, Sequence[StrainFunction]]) -> None:
        as_kind("functions", functions, Mapping, "a mapping from components to functions")
        unknown = [name for name in functions if name not in COMPONENTS]
        if unknown:
            raise ValueError(f"functions: got component {unknown[0]!r}, expected names among {', '.join(COMPONENTS)}")
        self._functions = [
            as_items(f"functions[{name!r}]", functions.get(name, ()), "functions of s") for name in COMPONENTS
        ]
        for name, of_component in zip(COMPONENTS, self._functions, strict=True):
            for function in of_component:
                if not callable(function):
                    raise TypeError(f"functions: got {function!r} for {name}, expected a function of s")
        self.rows = np.concatenate([[0], np.cumsum([len(f) for f in self._functions])]).astype(np.int64)
        self.size = int(self.rows[-1])
        if self.size == 0:
            raise ValueError("functions: got none, expected at least one; a rod that cannot deform is a body")

    def values(self, s: np.ndarray) -> np.ndarray:
        """Values of the coordinates' functions at s (K,), each in its own component: (K, size).  ValueError if one is
        not finite."""
        s = np.asarray(s, dtype=np.float64)
        columns = [np.broadcast_to(f(s), s.shape) for of_component in self._functions for f in of_component]
        values = np.array(columns, dtype=np.float64).T
        if not np.isfinite(values).all():
            bad = int(np.argmin(np.isfinite(values).all(axis=0)))
            raise ValueError(f"functions: number {bad} is not finite on [0, 1]")
        return values

    def matrix(self, s: float) -> np.ndarray:
        """Phi (6, size) at s."""
        Phi = np.zeros((6, self.size))
        for r in range(6):
            Phi[r, self.rows[r] : self.rows[r + 1]] = self.values(np.array([s]))[0, self.rows[r] : self.rows[r + 1]]
        return Phi


def _shifted_legendre(order: int) -> StrainFunction:
    return partial(_series, np.eye(order + 1)[order])


def _series(coefficients: np.ndarray, s: np.ndarray) -> np.ndarray:
    return legendre.legval(2.0 * s - 1.0, coefficients)


class LegendreBasis(StrainBasis):
    """Legendre polynomials on the rod up to an order for each component, P_0(y) ... P_order(y), y = 2 X / length - 1.

    Parameters
    ----------
    torsion, bending_y, bending_z, stretch, shear_y, shear_z : int >= 0, or None
        None keeps the component at its reference; 0 makes it constant along the rod.

    Examples
    --------
    >>> planar = rods.LegendreBasis(bending_y=2)  # a parabola of the arclength
    >>> rods.LegendreBasis(torsion=0, bending_y=3, bending_z=3, stretch=0)
    LegendreBasis(torsion=0, bending_y=3, bending_z=3, stretch=0)
    """

    def __init__(
        self,
        torsion: int | None = None,
        bending_y: int | None = None,
        bending_z: int | None = None,
        stretch: int | None = None,
        shear_y: int | None = None,
        shear_z: int | None = None,
    ) -> None:
        self.orders = dict(
            zip(COMPONENTS, (torsion, bending_y, bending_z, stretch, shear_y, shear_z), strict=True)
        )
        for name, order in self.orders.items():
            if order is not None and (isinstance(order, bool) or not isinstance(order, (int, np.integer)) or order < 0):
                raise ValueError(f"{name}: got {order!r}, expected an order of at least 0, or None")
        super().__init__(
            {
                name: [_shifted_legendre(k) for k in range(order + 1)]
                for name, order in self.orders.items()
                if order is not None
            }
        )

    def __repr__(self) -> str:
        orders = ", ".join(f"{name}={order}" for name, order in self.orders.items() if order is not None)
        return f"LegendreBasis({orders})"
