"""The shapes of a robot as spheres, capsules, boxes and half-spaces, whose distances have closed forms."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path
from uuid import uuid4

import numpy as np

from dynamics.geometry.capsules import capsule_around, minimal_capsule, volume
from dynamics.geometry.geometry import Geometry
from dynamics.geometry.shapes import Box, Capsule, Cylinder, Ellipsoid, HalfSpace, Mesh, Shape, Sphere
from dynamics.geometry.triangles import MeshError, mesh_file, mesh_triangles
from dynamics.model.model import RigidBodyModel, check_model
from dynamics.simd.cache_folder import cache_root, make_folder
from dynamics.simd.caller import first_few, warn
from dynamics.validation import as_choice

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
