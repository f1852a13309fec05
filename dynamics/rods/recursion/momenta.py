"""Center of mass, momentum and energies of a soft robot."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from dynamics.algorithms.batch import unbatch
from dynamics.rods.loads.composites import MOMENTA
from dynamics.rods.model.arrays import FORCES
from dynamics.rods.model.rod_model import RodModel
from dynamics.rods.recursion.evaluation import evaluate, state_batches
from dynamics.validation import as_choice


class Energies(NamedTuple):
    """Kinetic energy, elastic energy of rods and joints, potential energy of weight (zero at the world's origin), J;
    each a number or (K,)."""

    kinetic: np.ndarray
    elastic: np.ndarray
    gravitational: np.ndarray


class Momentum(NamedTuple):
    """Angular momentum, kg m^2/s, and linear momentum, kg m/s; each (3,) or (K, 3), world axes."""

    angular: np.ndarray
    linear: np.ndarray


def _momenta(model: RodModel, **vectors: ArrayLike) -> tuple[bool, np.ndarray, np.ndarray]:
    """True for a single point, the states (K, 4 n), and the results of `store_momenta` (K,
    MOMENTA)."""
    single, states, wrenches = state_batches(model, **vectors)
    momenta = np.empty((len(states), MOMENTA))
    evaluate(model, FORCES, states, wrenches, momenta)
    return single, states, momenta


def _center(model: RodModel, momenta: np.ndarray) -> np.ndarray:
    if model.total_mass == 0.0:
        raise ValueError("model: has no mass, expected one with a center of mass")
    return momenta[:, :3] / model.total_mass


def center_of_mass(model: RodModel, q: ArrayLike) -> np.ndarray:
    """Center of mass (3,) or (K, 3), m, world axes; q (n,) or (K, n).

    Raises: ValueError for a wrong shape, a number that is not finite, or a model without mass; so do the functions
    below, except for the mass.
    """
    single, _, momenta = _momenta(model, q=q)
    (center,) = unbatch(single, _center(model, momenta))
    return center


def momentum(model: RodModel, q: ArrayLike, v: ArrayLike, about: str = "center_of_mass") -> Momentum:
    """Momentum(angular, linear) of all rods and bodies.

    Parameters
    ----------
    model : RodModel
    q, v : (n,) or (K, n)
    about : reference point of the angular momentum: "center_of_mass", or "world" for the world's origin

    Returns
    -------
    Momentum(angular, linear), each (3,) or (K, 3)

    Raises
    ------
    ValueError : a wrong shape, a number that is not finite, another point; a model without mass has no center of mass.
    """
    as_choice("about", about, ("center_of_mass", "world"))
    single, _, momenta = _momenta(model, q=q, v=v)
    angular, linear = momenta[:, 3:6].copy(), momenta[:, 6:9].copy()
    if about == "center_of_mass":
        angular -= np.cross(_center(model, momenta), linear)
    return Momentum(*unbatch(single, angular, linear))


def energies(model: RodModel, q: ArrayLike, v: ArrayLike) -> Energies:
    """Energies(kinetic, elastic, gravitational) at q, v (n,) or (K, n): v'M v / 2, q'K q / 2, - m g.c."""
    single, states, momenta = _momenta(model, q=q, v=v)
    qs = states[:, : model.nq]
    elastic = np.array([0.5 * (x @ (model.stiffness @ x)) for x in qs])  # point by point, as for a single one
    gravitational = -(momenta[:, :3] * model.gravity).sum(axis=1)
    return Energies(*unbatch(single, momenta[:, 9].copy(), elastic, gravitational))
