"""Checks of what a builder puts into a rod."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.interpolate import BarycentricInterpolator

from dynamics.rods.model.cross_section import Circular, Section
from dynamics.rods.model.strain_basis import COMPONENTS, StrainBasis
from dynamics.simd.caller import warn
from dynamics.validation import as_array, as_floats, as_whole_number

SINGULAR = 1e-12
"""A stiffness matrix scaled to a diagonal of ones, with an eigenvalue below this, has a direction without stiffness."""


def check_points(label: str, points: int, basis: StrainBasis) -> None:
    """ValueError unless this many points resolve the functions of every component."""
    as_whole_number(f"{label}points", points, 1)
    counts = np.diff(basis.rows)
    most = int(np.argmax(counts))
    if counts[most] > points:
        raise ValueError(
            f"{label}points: got {points}, which cannot resolve the {counts[most]} functions of {COMPONENTS[most]}; "
            f"expected at least {counts[most]}"
        )


def check_slenderness(label: str, length: float, section: Section) -> None:
    """Warn of a rod that is thicker than long, of which one figure is likely to be in another unit."""
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
    """(6,), or a function of s (K,) that returns (K, 6): the one given, or the polynomial through rows given at the
    nodes s.  ValueError for another shape."""
    if callable(given):
        return given
    values = as_floats(label, given)
    if values.ndim != 2:
        return as_array(label, values, (6,)).copy()
    return BarycentricInterpolator(s, as_array(label, values, (len(s), 6)))
