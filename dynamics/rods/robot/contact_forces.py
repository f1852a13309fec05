"""Where links of a robot touch, how hard, and the energy that is in it; in numpy, a batch at once."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from dynamics.algorithms.batch import unbatch
from dynamics.rods.kinematics.center_lines import Pose, segment_poses
from dynamics.rods.loads.distances import (
    AXIS,
    CORE,
    EXPONENT,
    HALF_LENGTH,
    OFFSET,
    PLACE,
    PLANE,
    POINT,
    SHAPE,
    SIDE,
    SMOOTHING,
    STIFFNESS,
)
from dynamics.rods.model.load_arrays import CONTACT
from dynamics.rods.model.rod_model import RodModel
from dynamics.validation import as_batch, as_kind

ABSCISSAE, SHARES = np.polynomial.legendre.leggauss(24)


class ContactForces(NamedTuple):
    """C contacts of a model, those with things that stand still first.

    Attributes
    ----------
    links : (C,) tuple of pairs of names, of the link that touches and of what it touches, "world" or a link
    points : (C, 3) or (K, C, 3) centres of the spheres that touch, m, world axes
    forces : (C, 3) or (K, C, 3) on the first link of each pair, N, without damping and friction
    depths : (C,) or (K, C) m, below zero where there is room
    energy : of all, J, a number or (K,); the forces are its gradient with the sign turned
    """

    links: tuple[tuple[str, str], ...]
    points: np.ndarray
    forces: np.ndarray
    depths: np.ndarray
    energy: np.ndarray


def contact_forces(model: RodModel, q: ArrayLike) -> ContactForces:
    """All contacts of a model at q (n,) or (K, n), whether they touch or not.

    Raises: ValueError for a wrong shape or a number that is not finite, TypeError for no model.
    """
    qs, single = as_batch("q", q, as_kind("model", model, RodModel).nq)
    _, ends = segment_poses(model, qs)
    found = list(_contacts(model))
    points, forces = np.empty((2, len(qs), len(found), 3))
    depths, energy = np.empty((len(qs), len(found))), np.zeros(len(qs))
    for k, (a, b, c) in enumerate(found):
        points[:, k] = _place(ends, a, c[PLACE:][:3])
        distance, gradient = _distance(c, points[:, k] - _place(ends, b, c[POINT:][:3]))
        depths[:, k] = c[SIDE] * distance + c[OFFSET]
        forces[:, k] = -c[SIDE] * _law(c, depths[:, k])[:, None] * gradient
        energy += _energy(c, depths[:, k])
    owner = {s: name for name, rod in model.rods.items() for s in range(rod.segments.start, rod.segments.stop)}
    owner |= {-1: "world"} | {s: name for name, s in model.link_segments.items()}
    links = tuple((owner[a], owner[b]) for a, b, _ in found)
    return ContactForces(links, *unbatch(single, points, forces, depths, energy))


def _contacts(model: RodModel):
    """Segments A and B and numbers of each."""
    loads = model.external
    for s, (first, last) in enumerate(zip(loads.start[:-1], loads.start[1:], strict=True)):
        for k in range(first, last):
            if loads.kind[k] == CONTACT:
                yield s, -1, loads.parameters[k]
    for i, numbers in enumerate(loads.contacts.numbers):
        yield int(loads.contacts.integers[2 * i]), int(loads.contacts.integers[2 * i + 1]), numbers


def _place(ends: list[Pose], segment: int, place: np.ndarray) -> np.ndarray:
    return ends[segment][1] + ends[segment][0] @ place if segment >= 0 else place


def _distance(c: np.ndarray, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """d (K,) and its gradient (K, 3), as `loads.distances` has them."""
    axis = c[AXIS:][:3]
    along = x @ axis
    if c[SHAPE] == PLANE:
        return along, np.broadcast_to(axis, x.shape)
    n = x - np.clip(along, -c[HALF_LENGTH], c[HALF_LENGTH])[:, None] * axis
    d = np.sqrt((n * n).sum(axis=1) + c[CORE])
    return d, n / d[:, None]


def _law(c: np.ndarray, depth: np.ndarray) -> np.ndarray:
    """The force, as `loads.load_laws` has it."""
    w = c[SMOOTHING]
    with np.errstate(divide="ignore", invalid="ignore"):
        between = (depth + w) ** 3 * (3.0 * w - depth) / (16.0 * w**3)
    s = np.where(depth >= w, depth, np.where(depth <= -w, 0.0, between))
    return c[STIFFNESS] * np.maximum(s, 0.0) ** c[EXPONENT]


def _energy(c: np.ndarray, depth: np.ndarray) -> np.ndarray:
    """The integral of the force over the depth (K,): by quadrature where it is smoothed."""
    w, p = c[SMOOTHING], c[EXPONENT] + 1.0
    half = 0.5 * (np.clip(depth, -w, w) + w)
    within = (half[:, None] * SHARES * _law(c, half[:, None] * (1.0 + ABSCISSAE) - w)).sum(axis=1)
    return within + c[STIFFNESS] / p * (np.maximum(depth, w) ** p - w**p)
