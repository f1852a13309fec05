"""Which pairs of a robot's shapes may come close, and why the others need not be looked at."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

import numpy as np

from dynamics.algorithms.configuration import random_configuration
from dynamics.collisions.collision_geometry import collision_geometry
from dynamics.collisions.distances import cores, distances
from dynamics.formats.srdf import disabled_pairs
from dynamics.geometry.geometry import Geometry
from dynamics.joints import FREE_FLYER, PLANAR, TRANSLATION
from dynamics.model import RigidBodyModel, check_model
from dynamics.validation import as_flag, as_items, as_whole_number, unknown_name

CHUNK = 50
"""Configurations that are looked at together: pairs that are apart in one of them need no other."""


Disabled = str | Path | Iterable[tuple[str, str]] | None
"""Pairs of links that need not be looked at, of a file or by name."""


class DroppedPair(NamedTuple):
    """Two shapes that are not looked at, and why."""

    first: Geometry
    second: Geometry
    reason: str


class CollisionPairs(NamedTuple):
    """What `collision_pairs` found."""

    pairs: tuple[tuple[Geometry, Geometry], ...]
    dropped: tuple[DroppedPair, ...]


def collision_pairs(
    model: RigidBodyModel,
    geometries: Iterable[Geometry] | None = None,
    disabled: Disabled = None,
    adjacent: bool = False,
    sample: int = 1000,
    seed: int = 0,
) -> CollisionPairs:
    """Pairs of shapes that may collide: all, but for those that cannot, are said not to, or always overlap.

    Dropped are, with the first of these reasons that holds: pairs on the same body; on a body and its parent; of links
    that an SRDF file names in <disable_collisions>; those that overlap in all of a number of random configurations.
    Boxes count as their capsules there.  The world is the parent of a body whose joint leaves it no place, as a free
    flyer, in name only; and so is what stands on "world" itself, as a floor, of every body.

    Parameters
    ----------
    model : RigidBodyModel
    geometries : of this model; by default `collision_geometry(model)`
    disabled : path or text of an SRDF file, or pairs of names of links
    adjacent : whether to keep pairs on a body and its parent
    sample : number of configurations drawn by `random_configuration`; 0 to keep what always overlaps
    seed : of the random numbers

    Returns
    -------
    CollisionPairs(pairs, dropped) : tuples of (first, second), and of (first, second, reason)

    Raises
    ------
    ValueError, TypeError
        For geometries that are none of this model's bodies, and a file that is no SRDF.
    FileNotFoundError
        If there is no such file.
    """
    check_model(model)
    chosen = collision_geometry(model) if geometries is None else geometries
    chosen = model.with_geometries(chosen).geometries
    links = _disabled(disabled, {geometry.link for geometry in chosen})
    keep_adjacent, count = as_flag("adjacent", adjacent), as_whole_number("sample", sample, 0)
    rng = np.random.default_rng(as_whole_number("seed", seed, 0))
    pairs: list[tuple[int, int]] = []
    reasons: dict[tuple[int, int], str] = {}
    for pair in combinations(range(len(chosen)), 2):
        reason = _reason(model.full, chosen[pair[0]], chosen[pair[1]], links, keep_adjacent)
        if reason is None:
            pairs.append(pair)
        else:
            reasons[pair] = reason
    for pair in _always_overlapping(model, chosen, pairs, count, rng):
        reasons[pair] = f"they overlap in all of {count} random configurations"
    return CollisionPairs(
        tuple((chosen[i], chosen[j]) for i, j in pairs if (i, j) not in reasons),
        tuple(DroppedPair(chosen[i], chosen[j], reason) for (i, j), reason in reasons.items()),
    )


def _disabled(given: Disabled, known: set[str]) -> dict[frozenset[str], str]:
    """Why each of these pairs of links is left out, empty where nobody said."""
    if given is None or isinstance(given, (str, Path)):
        return {} if given is None else disabled_pairs(given, "disabled")
    links = {}
    for pair in as_items("disabled", given, "pairs of names of links"):
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            raise TypeError(f"disabled: got {pair!r}, expected pairs of names of links")
        for name in pair:
            if name not in known:
                raise unknown_name("link with a shape", name, sorted(known))
        links[frozenset(pair)] = ""
    return links


def _reason(
    model: RigidBodyModel, first: Geometry, second: Geometry, links: dict[frozenset[str], str], adjacent: bool
) -> str | None:
    """Why a pair is dropped before anything is computed."""
    if first.body == second.body:
        return "on the same body"
    if not adjacent and (_carries(model, first, second) or _carries(model, second, first)):
        return "on a body and its parent"
    said = links.get(frozenset((first.link, second.link)))
    if said is not None:
        return f"disabled{f': {said}' if said else ''}"
    return None


def _carries(model: RigidBodyModel, parent: Geometry, child: Geometry) -> bool:
    if child.body < 0 or model.arrays.parent[child.body] != parent.body:
        return False
    loose = model.joints[child.body].code in (FREE_FLYER, PLANAR, TRANSLATION)
    return parent.body >= 0 or not (loose or parent.link == "world")


def _always_overlapping(
    model: RigidBodyModel,
    geometries: tuple[Geometry, ...],
    pairs: list[tuple[int, int]],
    count: int,
    rng: np.random.Generator,
) -> list[tuple[int, int]]:
    """Which of the pairs overlap in all of so many configurations."""
    left = np.array(pairs, dtype=int).reshape(-1, 2)
    for done in range(0, count, CHUNK):
        if not len(left):
            break
        q = np.stack([random_configuration(model, rng) for _ in range(min(CHUNK, count - done))])
        used, where = np.unique(left, return_inverse=True)
        found = cores(model, q, [geometries[i] for i in used])
        first, second = where.reshape(left.shape).T
        left = left[(distances(found, first, second) <= 0.0).all(axis=0)]
    return [(int(i), int(j)) for i, j in left] if count else []
