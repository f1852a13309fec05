"""Contact points of a robot's links with their forces, depths and energy, in numpy for a batch."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from dynamics.algorithms.batch import unbatch
from dynamics.rods.kinematics.center_lines import Pose, segment_poses
from dynamics.rods.loads.contacts import (
    EXPONENT,
    OFFSET,
    PLACE,
    POINT,
    SIDE,
    SMOOTHING,
    STIFFNESS,
    contact_law,
    distance,
)
from dynamics.rods.model.arrays import CONTACT
from dynamics.rods.model.rod_model import RodModel
from dynamics.simd import routine
from dynamics.validation import as_batch, as_kind

ABSCISSAE, SHARES = np.polynomial.legendre.leggauss(24)


class ContactForces(NamedTuple):
    """The C contacts of a model, those with fixed objects first.

    Attributes
    ----------
    links : (C,) tuple of pairs of names: the link, and the object it touches, "world" or a link
    points : (C, 3) or (K, C, 3) centres of the spheres that touch, m, world axes
    forces : (C, 3) or (K, C, 3) on the first link of each pair, N, without damping and friction
    depths : (C,) or (K, C) penetration depths, m, negative where there is a gap
    energy : elastic energy of all contacts, J, a number or (K,); the forces are its negative gradient
    """

    links: tuple[tuple[str, str], ...]
    points: np.ndarray
    forces: np.ndarray
    depths: np.ndarray
    energy: np.ndarray


def contact_forces(model: RodModel, q: ArrayLike) -> ContactForces:
    """All contacts of a model at q (n,) or (K, n), whether they touch or not.

    Raises ValueError for a wrong shape or a number that is not finite, TypeError for a model of another kind.
    """
    qs, single = as_batch("q", q, as_kind("model", model, RodModel).nq)
    _, ends = segment_poses(model, qs)
    found = list(_contacts(model))
    points, forces = np.empty((2, len(qs), len(found), 3))
    depths, energy = np.empty((len(qs), len(found))), np.zeros(len(qs))
    depth, gradients = np.empty(len(qs)), np.empty((len(qs), 3))
    for k, (a, b, c) in enumerate(found):
        points[:, k] = _place(ends, a, c[PLACE:][:3])
        _touch(c, points[:, k] - _place(ends, b, c[POINT:][:3]), depth, gradients)
        depths[:, k] = depth
        forces[:, k] = -c[SIDE] * _law(c, depth)[:, None] * gradients
        energy += _energy(c, depth)
    owner = {s: name for name, rod in model.rods.items() for s in range(rod.segments.start, rod.segments.stop)}
    owner |= {-1: "world"} | {s: name for name, s in model.link_segments.items()}
    links = tuple((owner[a], owner[b]) for a, b, _ in found)
    return ContactForces(links, *unbatch(single, points, forces, depths, energy))


def _contacts(model: RodModel):
    """Segments A and B and the numbers of each contact."""
    loads = model.external
    for s, (first, last) in enumerate(zip(loads.start[:-1], loads.start[1:], strict=True)):
        for k in range(first, last):
            if loads.kind[k] == CONTACT:
                yield s, -1, loads.parameters[k]
    for i, numbers in enumerate(loads.contacts.numbers):
        yield int(loads.contacts.integers[2 * i]), int(loads.contacts.integers[2 * i + 1]), numbers


def _place(ends: list[Pose], segment: int, place: np.ndarray) -> np.ndarray:
    return ends[segment][1] + ends[segment][0] @ place if segment >= 0 else place


@routine
def _touch(c, x, depths, gradients):
    """Depths (K,) and gradients (K, 3) of the distance at points x (K, 3) for a contact with the numbers c."""
    for k in range(x.shape[0]):
        d, _, u, _ = distance(c, (x[k, 0], x[k, 1], x[k, 2]))
        depths[k] = c[SIDE] * d + c[OFFSET]
        gradients[k, 0], gradients[k, 1], gradients[k, 2] = u


@routine
def _press(c, depths, forces):
    """Contact forces (K,) at these depths."""
    for k in range(depths.shape[0]):
        forces[k] = contact_law(depths[k], c[STIFFNESS], c[EXPONENT], c[SMOOTHING])[0]


def _law(c: np.ndarray, depths: np.ndarray) -> np.ndarray:
    """Contact forces at depths of any shape."""
    forces = np.empty(depths.size)
    _press(c, depths.ravel(), forces)
    return forces.reshape(depths.shape)


def _energy(c: np.ndarray, depth: np.ndarray) -> np.ndarray:
    """Energy (K,), the integral of the force over the depth, by quadrature where the force is smoothed."""
    w, p = c[SMOOTHING], c[EXPONENT] + 1.0
    half = 0.5 * (np.clip(depth, -w, w) + w)
    within = (half[:, None] * SHARES * _law(c, half[:, None] * (1.0 + ABSCISSAE) - w)).sum(axis=1)
    return within + c[STIFFNESS] / p * (np.maximum(depth, w) ** p - w**p)
