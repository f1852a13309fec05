"""Robots with joints that follow others: the tree of all joints, seen in the coordinates of those that lead.

A joint of one degree of freedom follows another one, q_j = m q_s + b; chains multiply out.  So the tree's coordinates
are those of the robot times a constant matrix,

    q_full = G q + b      v_full = G v      a_full = G a      tau = G' tau_full

and whatever is known of the tree is known of the robot: covectors are folded, G' x, derivatives along velocities too,
A G; vectors of which the leading entries alone count are kept, S x with S G = 1; and torques of the leading joints act
on the tree as S' tau.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property, wraps
from typing import Any, ParamSpec, TypeVar, cast

import numpy as np

from dynamics.model.attachments import Mimic
from dynamics.simd.caller import warn

P = ParamSpec("P")
R = TypeVar("R")


class MimicMap:
    """G, b and S as indices and factors, from the joints of a tree.

    Parameters
    ----------
    names : of the tree's joints
    nq, nv : of each
    mimics : followers with the joints that lead them, which follow none themselves
    """

    def __init__(self, names: Sequence[str], nq: Sequence[int], nv: Sequence[int], mimics: Sequence[Mimic]) -> None:
        followers = {mimic.joint: mimic for mimic in mimics}
        q, v, ends = {}, {}, (0, 0)
        for name, *sizes in zip(names, nq, nv, strict=True):
            if name not in followers:
                starts, ends = ends, (ends[0] + sizes[0], ends[1] + sizes[1])
                q[name], v[name] = map(range, starts, ends)
        leader = {name: followers[name].source if name in followers else name for name in names}
        self.from_q = np.array([i for name in names for i in q[leader[name]]], dtype=int)
        self.from_v = np.array([i for name in names for i in v[leader[name]]], dtype=int)
        one = Mimic("", "")
        per_q = [followers.get(name, one) for name, count in zip(names, nq, strict=True) for _ in range(count)]
        per_v = [followers.get(name, one) for name, count in zip(names, nv, strict=True) for _ in range(count)]
        self.factor_q = np.array([mimic.multiplier for mimic in per_q])
        self.offset = np.array([mimic.offset for mimic in per_q])
        self.factor_v = np.array([mimic.multiplier for mimic in per_v])
        self.kept_q = np.array([i for i, mimic in enumerate(per_q) if mimic is one], dtype=int)
        self.kept_v = np.array([i for i, mimic in enumerate(per_v) if mimic is one], dtype=int)

    @cached_property
    def G(self) -> np.ndarray:
        """(nv of the tree, nv)."""
        G = np.zeros((len(self.from_v), len(self.kept_v)))
        G[np.arange(len(G)), self.from_v] = self.factor_v
        return G

    def full_q(self, q: np.ndarray) -> np.ndarray:
        """G q + b for (..., nq)."""
        return np.ascontiguousarray(self.factor_q * q[..., self.from_q] + self.offset)

    def full_v(self, v: np.ndarray) -> np.ndarray:
        """G v for (..., nv)."""
        return np.ascontiguousarray(self.factor_v * v[..., self.from_v])

    def full_x(self, x: np.ndarray) -> np.ndarray:
        """States (..., nq + nv)."""
        n = len(self.kept_q)
        return np.concatenate([self.full_q(x[..., :n]), self.full_v(x[..., n:])], axis=-1)

    def full_torques(self, tau: np.ndarray) -> np.ndarray:
        """S' tau for (..., nv): zero on joints that follow."""
        full = np.zeros((*tau.shape[:-1], len(self.from_v)))
        full[..., self.kept_v] = tau
        return full

    def fold(self, A: np.ndarray, axis: int = -1) -> np.ndarray:
        """G' along an axis of the tree's velocities."""
        return np.moveaxis(np.moveaxis(A, axis, -1) @ self.G, -1, axis)

    def keep(self, A: np.ndarray, axis: int = -1) -> np.ndarray:
        """S along an axis of the tree's velocities."""
        return np.take(A, self.kept_v, axis=axis)


def of_tree(
    inputs: str = "", outputs: str = "", covectors: str = "", rows: str = "", contacts: Callable[..., Any] | None = None
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Let a function of a model take robots whose joints follow others, by way of their trees.

    Parameters
    ----------
    inputs : names of arguments besides q, whose last axis is one of velocities (v, a, ...): "v a"
    outputs : of each array that comes back its last axes: f folded, k kept, c one of contacts, a dash as it is, as in
        "ff c-"; nothing where none of the axes are degrees of freedom
    covectors : names of arguments that are torques, or multipliers of velocities
    rows : names of arguments (..., contacts, 3)
    contacts : (model, contacts, damping) -> the set of the tree; the argument `contacts` is one
    """
    axes = outputs.split()

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        signature = inspect.signature(function)

        @wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            model: Any = args[0] if args else kwargs.get("model")
            if getattr(model, "tree", None) is None:
                return function(*args, **kwargs)
            bound = signature.bind(*args, **kwargs)
            given, count = bound.arguments, 0
            if "q" in given:
                given["q"] = model.full_configuration(given["q"])
            given |= {name: model.full_velocity(given[name], name) for name in inputs.split()}
            for name in covectors.split():
                given[name] = model.full_torques(given[name], name)
            if contacts is not None:
                count = len(given["contacts"])
                given["contacts"] = contacts(model, given["contacts"], given.get("damping", 0.0))
                added = len(given["contacts"]) - count
                for name in rows.split():
                    if given.get(name) is not None:
                        array = np.asarray(given[name], dtype=float)
                        given[name] = np.concatenate([array, np.zeros((*array.shape[:-2], added, 3))], axis=-2)
            given["model"] = model.tree
            return cast(R, _folded(model.mimic_map, function(*bound.args, **bound.kwargs), axes, count))

        return call

    return decorate


def _folded(mimic_map: MimicMap, found: Any, axes: Sequence[str], count: int) -> Any:
    """An array, or a tuple of arrays, in the coordinates that lead."""
    if not axes:
        return found
    if not isinstance(found, (tuple, np.ndarray)):
        raise ValueError("packed: got True, expected False where joints follow others")
    if not isinstance(found, tuple):
        return _along(mimic_map, found, axes[0], count)
    parts = [_along(mimic_map, array, kinds, count) for array, kinds in zip(found, axes, strict=True)]
    return type(found)(*parts) if hasattr(found, "_fields") else tuple(parts)


def _along(mimic_map: MimicMap, array: np.ndarray, kinds: str, count: int) -> np.ndarray:
    for axis, kind in enumerate(kinds, -len(kinds)):
        if kind == "c":
            array = np.take(array, np.arange(count), axis=axis)
        elif kind != "-":
            array = (mimic_map.fold if kind == "f" else mimic_map.keep)(array, axis)
    return array if kinds == "-" else np.ascontiguousarray(array)


def led_by(whole: Any, led: Any, mimics: Sequence[Mimic]) -> Any:
    """The robot of a tree in the coordinates of the joints that lead, from the tree in which all others are locked.

    Position and velocity limits are those that keep followers within theirs, too; the leaders' own, with a warning,
    where they would leave no room, as in files with the wrong sign.  Effort limits are the leaders' own, damping and
    friction those that a leader feels.
    """
    seen = MimicMap(whole.joint_names, whole.joint_nq, whole.joint_nv, mimics)
    ends = [(limit - seen.offset) / seen.factor_q for limit in (whole.lower_position, whole.upper_position)]
    lower, upper = np.full(led.nq, -np.inf), np.full(led.nq, np.inf)
    np.maximum.at(lower, seen.from_q, np.minimum(*ends))
    np.minimum.at(upper, seen.from_q, np.maximum(*ends))
    own = whole.lower_position[seen.kept_q], whole.upper_position[seen.kept_q]
    if (stuck := (lower >= upper) & (own[0] < own[1])).any():
        at = np.searchsorted(led.q_index, np.flatnonzero(stuck), side="right") - 1
        joints = ", ".join(repr(led.joint_names[i]) for i in at)
        warn(f"limits of joints that follow {joints} would leave no room and are not taken")
    lower, upper = (np.where(stuck, limit, found) + 0.0 for limit, found in zip(own, (lower, upper), strict=True))
    velocity = np.full(led.nv, np.inf)
    np.minimum.at(velocity, seen.from_v, whole.velocity_limit / np.abs(seen.factor_v))
    return replace(
        led, lower_position=lower, upper_position=upper, velocity_limit=velocity,
        damping=whole.damping @ seen.G**2, friction=whole.friction @ np.abs(seen.G), frames=whole.frames,
        body_names=whole.body_names, base_inertia=whole.base_inertia, springs=whole.springs, actuators=whole.actuators,
        loops=whole.loops, couplings=whole.couplings, geometries=whole.geometries, mimics=tuple(mimics), tree=whole,
    )  # fmt: skip
