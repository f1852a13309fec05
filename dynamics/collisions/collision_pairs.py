"""Shapes of a robot whose distances have closed forms, and the pairs of them that may collide.

Distances between spheres, capsules and half-spaces are computed many at once, without derivatives.

A sphere is a capsule whose segment is a point.  The closest points a0 + s e1 and b0 + t e2 of two segments minimise a
convex quadratic over the unit square: s where t is free, t for that s, s for that t, each clipped, is exact.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from hashlib import blake2b
from itertools import combinations
from pathlib import Path
from typing import NamedTuple
from uuid import uuid4

import numpy as np

from dynamics.algorithms.configuration import random_configuration
from dynamics.algorithms.frames import body_placements
from dynamics.formats.xml import attribute_of, parse
from dynamics.geometry.capsules import capsule_around, minimal_capsule, volume
from dynamics.geometry.geometry import Geometry
from dynamics.geometry.shapes import Box, Capsule, Cylinder, Ellipsoid, HalfSpace, Mesh, Shape, Sphere
from dynamics.geometry.triangles import MeshError, mesh_file, mesh_triangles
from dynamics.model.joints import FREE_FLYER, PLANAR, TRANSLATION
from dynamics.model.model import RigidBodyModel, check_model
from dynamics.simd.cache_folder import cache_root, make_folder
from dynamics.simd.caller import first_few, warn
from dynamics.validation import as_choice, as_flag, as_items, as_whole_number, unknown_name

# --------------------------------------------------------------------------------------------
# The shapes of a robot as spheres, capsules, boxes and half-spaces, whose distances have closed forms.

BOXES = ("auto", "capsule", "box")
ROOMY = 1.8
"""Ratio of a capsule's volume to its box's above which the box is kept."""
VERSION = 1
"""Version of the fit: capsules cached by other versions are not read."""


def collision_geometry(model: RigidBodyModel, boxes: str = "auto") -> tuple[Geometry, ...]:
    """The collision shapes of a robot as spheres, capsules, boxes and half-spaces that contain them.

    Spheres, capsules and half-spaces are kept; a cylinder or an ellipsoid becomes the smallest capsule along its axis,
    a mesh a capsule of nearly the least volume (see `minimal_capsule`), which is cached in memory and, under a hash of
    the file's content, in the cache of kernels.  `model.with_geometries(...)` puts them on the robot.

    Parameters
    ----------
    model : RigidBodyModel
    boxes : "capsule" for the smallest one along the longest axis of each box, "box" to keep boxes, "auto" to keep those
        whose capsule has more than 1.8 times their volume

    Returns
    -------
    tuple of Geometry, names, bodies and placements as in the model.  A mesh that cannot be read is left out, with a
    warning.

    Raises
    ------
    ValueError, TypeError
        For another choice of `boxes`, and for a `model` that is none.
    """
    as_choice("boxes", boxes, BOXES)
    found, unread = [], []
    for geometry in check_model(model).geometries:
        if geometry.purpose == "collision":
            try:
                found.append(replace(geometry, shape=simplified(geometry.shape, boxes)))
            except MeshError as error:
                unread.append(f"{geometry.name!r} ({error})")
    if unread:
        warn(f"shapes without a capsule are left out: {first_few(unread)}")
    return tuple(found)


def simplified(shape: Shape, boxes: str) -> Shape:
    """A sphere, capsule, box or half-space that contains the shape; `MeshError` for a mesh that cannot be read."""
    if isinstance(shape, (Sphere, Capsule, HalfSpace)):
        return shape
    if isinstance(shape, Mesh):
        return _capsule_of(shape)
    assert isinstance(shape, (Box, Cylinder, Ellipsoid))
    if isinstance(shape, Box) and boxes != "capsule":
        capsule = capsule_around(shape)
        held = volume(capsule.radius, float(np.linalg.norm(np.subtract(capsule.end, capsule.start))))
        return shape if boxes == "box" or held > ROOMY * np.prod(2.0 * np.asarray(shape.half_extents)) else capsule
    return capsule_around(shape)


def _capsule_of(mesh: Mesh) -> Capsule:
    """The capsule around a mesh; cached ones are found by content, without reading triangles."""
    if mesh.path is None:
        return _fitted_once(mesh)
    mesh_file(mesh.path)
    try:
        content = Path(mesh.path).read_bytes()
    except (OSError, ValueError):
        raise MeshError(f"mesh {mesh.path!r}: there is no such file") from None
    hasher = blake2b(content, digest_size=16)
    hasher.update(repr((VERSION, Path(mesh.path).suffix.lower(), np.asarray(mesh.scale).tolist())).encode())
    return _kept(hasher.hexdigest(), lambda: minimal_capsule(mesh_triangles(mesh).vertices))


@lru_cache(maxsize=256)
def _fitted_once(mesh: Mesh) -> Capsule:
    return minimal_capsule(mesh_triangles(mesh).vertices)


_IN_MEMORY: dict[str, Capsule] = {}


def _kept(key: str, fit: Callable[[], Capsule]) -> Capsule:
    """The capsule of this key: from memory, from the user's cache folder, or fitted and stored there."""
    if key not in _IN_MEMORY:
        root = cache_root()
        path = None if root is None else root / "capsules" / f"{key}.json"
        capsule = None
        if path is not None:
            with suppress(OSError, ValueError, TypeError):  # no file, or a damaged one
                capsule = Capsule(**json.loads(path.read_text(encoding="utf-8")))
        if capsule is None:
            capsule = fit()
            if path is not None:
                with suppress(OSError):
                    _write(path, capsule)
        _IN_MEMORY[key] = capsule
    return _IN_MEMORY[key]


def _write(path: Path, capsule: Capsule) -> None:
    """Write the file atomically, for processes that read it at the same time."""
    make_folder(path.parent)
    new = path.with_name(f"{path.name}.{uuid4().hex}")
    ends = {"start": np.asarray(capsule.start).tolist(), "end": np.asarray(capsule.end).tolist()}
    new.write_text(json.dumps({"radius": capsule.radius, **ends}), encoding="utf-8")
    os.replace(new, path)


PARALLEL = 1e-14
"""Fraction of its largest value below which the determinant counts segments as parallel."""


class Cores(NamedTuple):
    """Segments and radii of all shapes in the world, at K configurations."""

    start: np.ndarray  # (K, G, 3)
    end: np.ndarray  # (K, G, 3)
    radius: np.ndarray  # (G,)
    normal: np.ndarray  # (K, G, 3) of half-spaces, whose start is a point of their plane; zero for others


def cores(model: RigidBodyModel, q: np.ndarray, geometries: Sequence[Geometry]) -> Cores:
    """Segments and radii of shapes at configurations q (K, nq); other kinds are replaced by their capsules."""
    R, p = body_placements(model, q)
    K, G = len(q), len(geometries)
    start, end, normal = (np.zeros((K, G, 3)) for _ in range(3))
    radius = np.zeros(G)
    for g, geometry in enumerate(geometries):
        shape = simplified(geometry.shape, "capsule")
        body = geometry.body
        turn, shift = (np.eye(3)[None], np.zeros((1, 3))) if body < 0 else (R[:, body], p[:, body])
        place = lambda x, g=geometry, turn=turn, shift=shift: turn @ (g.R @ x + g.p) + shift  # noqa: E731
        if isinstance(shape, Capsule):
            start[:, g], end[:, g], radius[g] = place(shape.start), place(shape.end), shape.radius
        else:
            start[:, g] = end[:, g] = place(np.zeros(3))
            if isinstance(shape, Sphere):
                radius[g] = shape.radius
            elif isinstance(shape, HalfSpace):
                normal[:, g] = turn @ geometry.R[:, 2]
    return Cores(start, end, radius, normal)


def distances(found: Cores, first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Distances (K, P), m, of shapes first (P,) from shapes second (P,), negative where they overlap.

    The distance of two half-spaces is minus infinity.
    """
    a = segment_distances(found.start[:, first], found.end[:, first], found.start[:, second], found.end[:, second])
    out = a - found.radius[first] - found.radius[second]
    plane = found.normal.any(axis=(0, 2))
    for solid, flat in ((first, second), (second, first)):
        rows = np.flatnonzero(plane[flat])
        solids, flats = solid[rows], flat[rows]
        n, at = found.normal[:, flats], found.start[:, flats]
        heights = [((ends[:, solids] - at) * n).sum(axis=-1) for ends in (found.start, found.end)]
        out[:, rows] = np.minimum(*heights) - found.radius[solids]
    out[:, plane[first] & plane[second]] = -np.inf
    return out


def segment_distances(a0: np.ndarray, a1: np.ndarray, b0: np.ndarray, b1: np.ndarray) -> np.ndarray:
    """Distances (...) of segments a0 to a1 from b0 to b1, (..., 3) each; a segment with equal ends is a point."""
    e1, e2, r = a1 - a0, b1 - b0, a0 - b0
    a, e, b = _dot(e1, e1), _dot(e2, e2), _dot(e1, e2)
    c, f, det = -_dot(e1, r), _dot(e2, r), a * e - b * b
    some_a, some_e = np.where(a > 0.0, a, 1.0), np.where(e > 0.0, e, 1.0)
    apart = det > PARALLEL * a * e
    s = np.where(apart, np.clip((c * e + b * f) / np.where(apart, det, 1.0), 0.0, 1.0), 0.5)
    t = np.clip((b * s + f) / some_e, 0.0, 1.0)
    s = np.clip((b * t + c) / some_a, 0.0, 1.0)
    delta = r + s[..., None] * e1 - t[..., None] * e2
    return np.sqrt(_dot(delta, delta))


def _dot(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.einsum("...i,...i->...", x, y)


# --------------------------------------------------------------------------------------------
# Reading SRDF files: pairs of links that need no collision check.


def disabled_pairs(path_or_text: str | Path, argument: str = "path_or_text") -> dict[frozenset[str], str]:
    """Pairs of links of <disable_collisions link1 link2 reason>, and the reasons, "" where none is given.

    Raises ValueError for a file that is no SRDF, FileNotFoundError if there is none; errors name `argument`.
    """
    pairs = {}
    for element in parse(path_or_text, "SRDF", argument).findall("disable_collisions"):
        links = [attribute_of(element, key, f"{argument}: <disable_collisions>") for key in ("link1", "link2")]
        pairs[frozenset(links)] = element.get("reason", "")
    return pairs


# --------------------------------------------------------------------------------------------
# Selection of the pairs of a robot's shapes that may come close, with the reasons why others are dropped.

CHUNK = 50
"""Number of configurations evaluated at once: pairs that are apart in one of them are tested no further."""


Disabled = str | Path | Iterable[tuple[str, str]] | None
"""Pairs of links that need no collision check, from an SRDF file or by name."""


class DroppedPair(NamedTuple):
    """Two shapes that are not checked, with the reason."""

    first: Geometry
    second: Geometry
    reason: str


class CollisionPairs(NamedTuple):
    """Result of `collision_pairs`."""

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
    """Pairs of shapes that may collide: all except those that cannot, are declared not to, or always overlap.

    Dropped are, with the first of these reasons that holds: pairs on the same body; on a body and its parent; of links
    that an SRDF file names in <disable_collisions>; those that overlap in all of a number of random configurations.
    There boxes are replaced by their capsules.  The world does not count as the parent of a body whose joint moves it
    freely, as a free flyer, nor do shapes on the link "world" itself, as a floor, for any body.

    Parameters
    ----------
    model : RigidBodyModel
    geometries : of this model; by default `collision_geometry(model)`
    disabled : path or text of an SRDF file, or pairs of names of links
    adjacent : True to keep pairs on a body and its parent
    sample : number of configurations drawn by `random_configuration`; 0 to keep pairs that always overlap
    seed : seed of the random numbers

    Returns
    -------
    CollisionPairs(pairs, dropped) : tuples of (first, second), and of (first, second, reason)

    Raises
    ------
    ValueError, TypeError
        For geometries that are not on this model's bodies, and a file that is no SRDF.
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
    """Reason for leaving out each of these pairs of links, "" where none is given."""
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
    """Reason why a pair is dropped without any distance, or None."""
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
    """Pairs that overlap in all of `count` random configurations."""
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
