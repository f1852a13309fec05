"""External wrenches: follower loads, fixed in their body, and dead loads, fixed in the world.

A follower load is given in the axes of its body, about the body's origin, and rotates with it.  A dead load
(gravity-like, or a contact force) has fixed components in world axes and acts at a point of the body.  Both enter the
dynamics as forces on the bodies; only their derivatives with respect to the configuration differ.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from dynamics.algorithms.kinematics import BODY, FORCE, POSITION, ROTATION
from dynamics.model.knot_driver import Gathered
from dynamics.model.model import RigidBodyModel
from dynamics.simd import gather, helper, kernel, splat
from dynamics.simd.by_type import by_type
from dynamics.simd.lane_blocks import lanes, slicing, view
from dynamics.simd.sizes import Size
from dynamics.spatial.spatial import add_cross, add_rotated, add_scaled6, join, load3, load6, load9, rotate, store6
from dynamics.validation import as_array

REFERENCES = ("local", "local_world_aligned")

Wrenches = ArrayLike | Mapping[str, ArrayLike]
"""Wrenches on every moving body, (nb, 6) or (K, nb, 6), or by name of a frame, (6,) or (K, 6)."""


class Loads(NamedTuple):
    """Wrenches [force; moment], per knot (K, numbers) for drivers, in lanes (numbers, LANES) for kernels.

    Kernels take None where there are no loads, and then compile no code for them."""

    follower: np.ndarray = lanes(Size("follower", "loads.follower.shape[1]"))
    """(., 6 nb) wrench on every body, in its axes, about its origin."""
    dead: np.ndarray = lanes(Size("dead", "loads.dead.shape[1]"))
    """(., 6 L) wrenches in world axes, about a point of a body."""
    body: np.ndarray = view("loads.body")
    """(L,) the bodies of the dead loads."""
    point: np.ndarray = view("loads.point")
    """(L, 3) their points, in the body frame."""


_slice, _size = slicing(Loads)


@helper
def _gather_none(loads, first, ws):
    return None, ws


@helper
def _gather_some(loads, first, ws):
    found, rest = _slice(loads, ws)
    if loads.follower.shape[0] > 0:
        gather(loads.follower, first, found.follower)
    if loads.dead.shape[0] > 0:
        gather(loads.dead, first, found.dead)
    return found, rest


_gather = by_type("loads", {None: _gather_none, Loads: _gather_some})


@helper
def gather_loads(loads, first, ws):
    """The loads of LANES knots in a slice of the workspace, or None, and the rest of the workspace."""
    return _gather(loads, first, ws)


def loads_size(loads: Loads | None) -> int:
    """Workspace size per lane of `gather_loads`."""
    return 0 if loads is None else _size(loads)


LOADS = Gathered(gather_loads, loads_size)
"""Argument of drivers that gathers loads into lanes."""


@helper
def dead_load(loads, l, body):
    """Body offset, point of action, force and moment about that point of dead load l, all in the world frame."""
    b = loads.body[l] * BODY
    r = loads.point[l]
    p = add_rotated(load3(body, b + POSITION), load9(body, b + ROTATION), (r[0], r[1], r[2]))
    return b, p, load3(loads.dead, 6 * l), load3(loads.dead, 6 * l + 3)


@kernel
def add_loads(m, loads, sign, body):
    """FORCE of every body += sign times the wrenches on it, after `place_bodies`."""
    s = splat(body, sign)
    if loads.follower.shape[0] > 0:
        for i in range(m.parent.size):
            b = i * BODY
            R, w = load9(body, b + ROTATION), load6(loads.follower, 6 * i)
            f = rotate(R, (w[0], w[1], w[2]))
            n = add_cross(rotate(R, (w[3], w[4], w[5])), load3(body, b + POSITION), f)
            store6(body, b + FORCE, add_scaled6(load6(body, b + FORCE), s, join(n, f)))
    for l in range(loads.dead.shape[0] // 6):
        b, p, f, n = dead_load(loads, l, body)
        store6(body, b + FORCE, add_scaled6(load6(body, b + FORCE), s, join(add_cross(n, p, f), f)))


# ------------------------------------------------------------------------------------------------ from public arguments
def loads_batch(
    model: RigidBodyModel,
    external_wrenches: Wrenches | None,
    wrench_reference: str,
    K: int,
    name: str = "external_wrenches",
) -> Loads | None:
    """The public arguments `external_wrenches` (or of that name) and `wrench_reference` as loads of K knots, or None.

    Raises ValueError naming the argument for a wrong shape, an unknown frame or reference, or a non-finite entry.
    """
    if wrench_reference not in REFERENCES:
        raise ValueError(
            f"wrench_reference: got {wrench_reference!r}, expected one of {', '.join(map(repr, REFERENCES))}"
        )
    if external_wrenches is None:
        return None
    follower, dead = np.empty((0, 0)), np.empty((0, 0))
    body, point = np.empty(0, np.int64), np.empty((0, 3))
    frames, values = _frames_and_values(model, name, external_wrenches, K)
    if wrench_reference == "local":
        follower = np.ascontiguousarray(_on_bodies(model, frames, values).reshape(K, 6 * model.nb))
    else:
        kept = [i for i, frame in enumerate(frames) if frame.body >= 0]
        dead = np.ascontiguousarray(values[:, kept].reshape(K, 6 * len(kept)))
        body = np.array([frames[i].body for i in kept], np.int64)
        point = np.array([frames[i].p for i in kept]).reshape(len(kept), 3)
    return Loads(follower, dead, body, point)


def _frames_and_values(model, argument, wrenches, K):
    """The loaded frames and the wrenches (K, frames, 6) on them."""
    if isinstance(wrenches, Mapping):
        frames = [_named_frame(model, argument, name) for name in wrenches]
        values = np.zeros((K, len(frames), 6))
        for i, (frame, value) in enumerate(wrenches.items()):
            w = as_array(f"{argument}[{frame!r}]", value)
            if w.shape not in ((6,), (K, 6)):
                raise ValueError(f"{argument}[{frame!r}] has shape {w.shape}; expected (6,) or ({K}, 6)")
            values[:, i] = w
        return frames, values
    nb = model.nb
    w = as_array(argument, wrenches)
    if w.shape not in ((nb, 6), (K, nb, 6)):
        raise ValueError(
            f"{argument} has shape {w.shape}; expected ({nb}, 6) or ({K}, {nb}, 6), or a mapping of frame names"
        )
    return [model.frame(name) for name in model.body_names], np.broadcast_to(w, (K, nb, 6))


def _named_frame(model, argument, name):
    try:
        return model.frame(name)
    except ValueError as error:
        raise ValueError(f"{argument}: {error}") from None


def _on_bodies(model, frames, values) -> np.ndarray:
    """Wrenches (K, nb, 6) on the moving bodies from those in frame axes about the frame origins."""
    kept = [i for i, frame in enumerate(frames) if frame.body >= 0]  # wrenches on the world have no effect
    total = np.zeros((len(values), model.nb, 6))
    if kept:
        values = values[:, kept]
        R = np.array([frames[i].R for i in kept])
        f = np.einsum("lij,klj->kli", R, values[..., :3])
        n = np.einsum("lij,klj->kli", R, values[..., 3:]) + np.cross(np.array([frames[i].p for i in kept]), f)
        for l, i in enumerate(kept):
            total[:, frames[i].body] += np.concatenate([f[:, l], n[:, l]], axis=1)
    return total
