"""Mimic joints: coordinates of the independent joints, and of the full model that has every joint.

A mimic joint has one degree of freedom and moves with another joint, q_j = m q_s + b; chains are multiplied out.  An
index, a multiplier and an offset for each coordinate of the full model hold this,

    q_full = multiplier * q[index] + offset      v_full = G v      a_full = G a      tau = G' tau_full

with G the matrix of the velocities' multipliers.  Kernels run on the full model: this is where q and v enter, and where
results leave.  Covectors and columns of derivatives are projected, G' x and A G, and Hessians become G'H G; of
accelerations and next states the rows of the independent joints are kept, S x with S G = 1, so that multipliers of them
enter as S' lam; and so do torques on the independent joints.

Arrays enter and leave by compiled loops, which `run` makes: at once, or, as a `Recorded`, each time that what is
prepared is called, between arrays that stay.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from math import prod
from typing import Any

import numpy as np

from dynamics.model.attachments import Mimic
from dynamics.simd import aligned_arrays, array_loops, routine
from dynamics.simd.caller import warn
from dynamics.simd.prepared_calls import PreparedCall

KEPT, PROJECTED, AS_IS = "kp-"
"""How an axis of an array of the full model leaves: the rows of the independent joints are kept, it is projected by G',
or it has no degrees of freedom.  A state's axes, written K and P, are those of its tangent [dq; dv]."""

EXPANSION = "KP", "K-", "PP", "-P", "--"
"""Axes of fx, fu, Hxx, Hux and Huu of a step."""


Run = Callable[..., Any]
"""What makes a call: run(function, *arguments)."""


def at_once(function: Callable[..., Any], *arguments: Any) -> None:
    """Make a call now."""
    function(*arguments)


class Recorded(list[Any]):
    """Prepared calls in their order, to which `run` adds one."""

    def run(self, function: Any, *arguments: Any) -> None:
        """Prepare a call."""
        self.append(PreparedCall(function, *arguments))


@routine
def _widen(index, multiplier, offset, source, target):
    """target[t] = multiplier * source[t, index] + offset"""
    for t in range(target.shape[0]):
        for i in range(target.shape[1]):
            target[t, i] = multiplier[i] * source[t, index[i]] + offset[i]


@routine
def _widen_lanes(index, multiplier, offset, source, t, target):
    """The same of states in lanes (C, N+1, nx, LANES), at knot t."""
    for c in range(target.shape[0]):
        for i in range(target.shape[2]):
            for l in range(target.shape[3]):
                target[c, t, i, l] = multiplier[i] * source[c, t, index[i], l] + offset[i]


@routine
def _keep(kept, source, target):
    """target = source[:, kept], along the second axis of three."""
    for o in range(target.shape[0]):
        for i in range(kept.shape[0]):
            for k in range(target.shape[2]):
                target[o, i, k] = source[o, kept[i], k]


@routine
def _keep_lanes(kept, source, start, stop, target):
    """target[:, t] = source[:, t, kept] of states in lanes (C, N+1, nx, LANES), for start <= t <= stop."""
    for c in range(target.shape[0]):
        for t in range(start, stop + 1):
            for i in range(kept.shape[0]):
                for l in range(target.shape[3]):
                    target[c, t, i, l] = source[c, t, kept[i], l]


@routine
def _scatter(kept, source, target):
    """target[:, kept] = source (K, n)"""
    for o in range(source.shape[0]):
        for i in range(kept.shape[0]):
            target[o, kept[i]] = source[o, i]


@routine
def _project(index, multiplier, source, target):
    """target = G'source along the second axis of three, G with `multiplier` in columns `index`."""
    for o in range(target.shape[0]):
        for i in range(target.shape[1]):
            for k in range(target.shape[2]):
                target[o, i, k] = 0.0
        for i in range(index.shape[0]):
            for k in range(target.shape[2]):
                target[o, index[i], k] += multiplier[i] * source[o, i, k]


class IdentityMap:
    """The map of a model without mimic joints, which is its own full model: arrays enter and leave as they are."""

    def full_q(self, q: np.ndarray) -> np.ndarray:
        """Configurations (..., nq) of the full model."""
        return q

    def full_v(self, v: np.ndarray) -> np.ndarray:
        """Velocities or accelerations (..., nv) of the full model."""
        return v

    def full_x(self, x: np.ndarray, run: Run = at_once) -> np.ndarray:
        """States (..., nq + nv) of the full model."""
        return x

    def full_torques(self, tau: np.ndarray) -> np.ndarray:
        """Torques (..., nv) on the full model with the same effect."""
        return tau

    def full_multipliers(self, lam: np.ndarray, run: Run = at_once) -> np.ndarray:
        """Multipliers (N, 2 nv) of next states of the full model."""
        return lam

    def leave(self, axes: str, array: np.ndarray, out: np.ndarray | None = None, run: Run = at_once) -> np.ndarray:
        """An array of the full model in the independent coordinates, in `out` if that is given; `axes` has a letter for
        each of its last axes."""
        return array

    def receivers(self, axes: Sequence[str], arrays: Sequence[np.ndarray]) -> Sequence[np.ndarray]:
        """Arrays for a kernel of the full model to fill or add to, which `deliver` takes to these."""
        return arrays

    def deliver(
        self,
        axes: Sequence[str],
        full: Sequence[np.ndarray],
        arrays: Sequence[np.ndarray],
        add: bool = False,
        run: Run = at_once,
    ) -> None:
        """Store, or add, what `receivers` received."""

    def full_states(self, out: np.ndarray) -> np.ndarray:
        """An array of as many states of the full model, which `keep_states` takes to `out` (K, nx)."""
        return out

    def keep_states(self, full: np.ndarray, out: np.ndarray, run: Run = at_once) -> None:
        """Store the independent coordinates of states."""

    def full_loops(self, loops: Any, start: int, X: np.ndarray, run: Run = at_once) -> tuple[Any, np.ndarray]:
        """Closed loops of the full model, and the states (C, T+1, nx, LANES) of their rollout from knot `start`."""
        return loops, X

    def keep_rollout(self, full: np.ndarray, start: int, stop: int, X: np.ndarray, run: Run = at_once) -> None:
        """Store the independent coordinates of the states from knot `start` to knot `stop`."""


IDENTITY = IdentityMap()
"""The map of all models without mimic joints."""


class MimicMap(IdentityMap):
    """The map of a model with mimic joints.

    Parameters
    ----------
    names, nq, nv : name, coordinates and degrees of freedom of each joint of the full model
    mimics : every mimic joint with its source, which is an independent joint

    Attributes
    ----------
    index_q, multiplier_q, offset : (nq of the full model,)
    index_v, multiplier_v : (nv of the full model,)
    kept_q, kept_v : coordinates and degrees of freedom of the full model that are those of independent joints
    """

    def __init__(self, names: Sequence[str], nq: Sequence[int], nv: Sequence[int], mimics: Sequence[Mimic]) -> None:
        by_joint = {mimic.joint: mimic for mimic in mimics}
        q, v, ends = {}, {}, (0, 0)
        for name, *sizes in zip(names, nq, nv, strict=True):
            if name not in by_joint:
                starts, ends = ends, (ends[0] + sizes[0], ends[1] + sizes[1])
                q[name], v[name] = map(range, starts, ends)
        source = {name: by_joint[name].source if name in by_joint else name for name in names}
        self.index_q = np.array([i for name in names for i in q[source[name]]], dtype=int)
        self.index_v = np.array([i for name in names for i in v[source[name]]], dtype=int)
        one = Mimic("", "")
        per_q = [by_joint.get(name, one) for name, count in zip(names, nq, strict=True) for _ in range(count)]
        per_v = [by_joint.get(name, one) for name, count in zip(names, nv, strict=True) for _ in range(count)]
        self.multiplier_q = np.array([mimic.multiplier for mimic in per_q])
        self.offset = np.array([mimic.offset for mimic in per_q])
        self.multiplier_v = np.array([mimic.multiplier for mimic in per_v])
        self.kept_q = np.array([i for i, mimic in enumerate(per_q) if mimic is one], dtype=int)
        self.kept_v = np.array([i for i, mimic in enumerate(per_v) if mimic is one], dtype=int)

    @cached_property
    def G(self) -> np.ndarray:
        """(nv of the full model, nv)."""
        G = np.zeros((len(self.index_v), len(self.kept_v)))
        G[np.arange(len(G)), self.index_v] = self.multiplier_v
        return G

    @cached_property
    def _kept_x(self) -> np.ndarray:
        return np.concatenate([self.kept_q, len(self.index_q) + self.kept_v])

    @cached_property
    def _kept_dx(self) -> np.ndarray:
        return np.concatenate([self.kept_v, len(self.index_v) + self.kept_v])

    @cached_property
    def _of_q(self) -> tuple[np.ndarray, ...]:
        """Index, multiplier and offset of configurations."""
        return self.index_q, self.multiplier_q, self.offset

    @cached_property
    def _of_v(self) -> tuple[np.ndarray, ...]:
        """Those of velocities."""
        return self.index_v, self.multiplier_v, np.zeros(len(self.index_v))

    @cached_property
    def _of_x(self) -> tuple[np.ndarray, ...]:
        """Those of states."""
        (q, *of_q), (v, *of_v) = self._of_q, self._of_v
        return np.concatenate([q, len(self.kept_q) + v]), *map(np.concatenate, zip(of_q, of_v, strict=True))

    @cached_property
    def _of_dx(self) -> tuple[np.ndarray, ...]:
        """Those of tangents."""
        v, *of_v = self._of_v
        return np.concatenate([v, len(self.kept_v) + v]), *(np.tile(x, 2) for x in of_v)

    # ------------------------------------------------------------------------------------------ what enters
    @staticmethod
    def _widened(by: tuple[np.ndarray, ...], x: np.ndarray, run: Run) -> np.ndarray:
        """multiplier * x[..., index] + offset"""
        x = np.ascontiguousarray(x, np.result_type(x, np.float64))
        full = np.empty((*x.shape[:-1], len(by[0])), x.dtype)
        run(_widen, *by, x.reshape(prod(x.shape[:-1]), x.shape[-1]), full.reshape(prod(x.shape[:-1]), len(by[0])))
        return full

    def full_q(self, q: np.ndarray) -> np.ndarray:
        """See `IdentityMap`."""
        return self._widened(self._of_q, q, at_once)

    def full_v(self, v: np.ndarray) -> np.ndarray:
        """See `IdentityMap`."""
        return self._widened(self._of_v, v, at_once)

    def full_x(self, x: np.ndarray, run: Run = at_once) -> np.ndarray:
        """See `IdentityMap`."""
        return self._widened(self._of_x, x, run)

    def full_torques(self, tau: np.ndarray) -> np.ndarray:
        """See `IdentityMap`: zero on mimic joints."""
        full = np.zeros((*tau.shape[:-1], len(self.index_v)))
        full[..., self.kept_v] = tau
        return full

    def full_multipliers(self, lam: np.ndarray, run: Run = at_once) -> np.ndarray:
        """See `IdentityMap`: zero for those of mimic joints."""
        full = np.zeros((len(lam), 2 * len(self.index_v)))
        run(_scatter, self._kept_dx, lam, full)
        return full

    # ------------------------------------------------------------------------------------------ what leaves
    def leave(self, axes: str, array: np.ndarray, out: np.ndarray | None = None, run: Run = at_once) -> np.ndarray:
        """See `IdentityMap`."""
        left, named = np.ascontiguousarray(array), range(array.ndim - len(axes), array.ndim)
        chosen = [(axis, kind) for axis, kind in zip(named, axes, strict=True) if kind != AS_IS]
        for axis, kind in chosen:
            of_states, before, after = kind.isupper(), left.shape[:axis], left.shape[axis + 1 :]
            count = (2 if of_states else 1) * len(self.kept_v)
            last = out is not None and (axis, kind) == chosen[-1]
            into = out if last and out is not None else np.empty((*before, count, *after), left.dtype)
            rows = [x.reshape(prod(before), x.shape[axis], prod(after)) for x in (left, into)]
            if kind.lower() == KEPT:
                run(_keep, self._kept_dx if of_states else self.kept_v, *rows)
            else:
                run(_project, *(self._of_dx if of_states else self._of_v)[:2], *rows)
            left = into
        return left

    def receivers(self, axes: Sequence[str], arrays: Sequence[np.ndarray]) -> Sequence[np.ndarray]:
        """See `IdentityMap`; zeros, but for empty arrays and those without degrees of freedom."""
        sizes, found = {KEPT: len(self.G), PROJECTED: len(self.G), "K": 2 * len(self.G), "P": 2 * len(self.G)}, []
        for kinds, array in zip(axes, arrays, strict=False):
            shape = [sizes[kind] if kind in sizes else n for kind, n in zip(kinds, array.shape[1:], strict=True)]
            found.append(array if array.size == 0 or set(kinds) == {AS_IS} else np.zeros((len(array), *shape)))
        return found

    def deliver(
        self,
        axes: Sequence[str],
        full: Sequence[np.ndarray],
        arrays: Sequence[np.ndarray],
        add: bool = False,
        run: Run = at_once,
    ) -> None:
        """See `IdentityMap`."""
        for kinds, found, array in zip(axes, full, arrays, strict=False):
            if found is array:
                continue
            if not array.flags.c_contiguous:
                left = self.leave(kinds, found)
                array[...] = array + left if add else left
            elif add:
                run(array_loops.add, array, self.leave(kinds, found, run=run), array)
            else:
                self.leave(kinds, found, array, run)

    def full_states(self, out: np.ndarray) -> np.ndarray:
        """See `IdentityMap`."""
        return np.empty((len(out), len(self.index_q) + len(self.index_v)))

    def keep_states(self, full: np.ndarray, out: np.ndarray, run: Run = at_once) -> None:
        """See `IdentityMap`."""
        run(_keep, self._kept_x, full[:, :, None], out[:, :, None])

    def full_loops(self, loops: Any, start: int, X: np.ndarray, run: Run = at_once) -> tuple[Any, np.ndarray]:
        """See `IdentityMap`."""
        (N, rows, ndx), width = loops.K.shape, 2 * len(self.index_v)
        K = np.zeros((N, rows, width if ndx else 0))
        if ndx:
            run(_scatter, self._kept_dx, loops.K.reshape(N * rows, ndx), K.reshape(N * rows, width))
        gaps = self._widened(self._of_dx, loops.gaps, run) if len(loops.gaps) else loops.gaps
        x0 = self.full_x(loops.x0, run) if len(loops.x0) else loops.x0
        (full,) = aligned_arrays((*X.shape[:2], len(self.index_q) + len(self.index_v), X.shape[3]))
        if not len(x0) or start > 0:  # else X has nothing yet
            for t in range(max(start - 1, 0), start + 1):  # feedback may be to the knot before, too
                run(_widen_lanes, *self._of_x, X, t, full)
        before = self._full_before(loops.before, run)
        return loops._replace(x0=x0, xs=self.full_x(loops.xs, run), K=K, gaps=gaps, before=before), full

    def _full_before(self, before: np.ndarray, run: Run) -> np.ndarray:
        """Gains (N, nu, n + nu) of the velocities and controls of the knot before, as those of all velocities."""
        n = before.shape[2] - before.shape[1]
        if n == 0:
            return before
        (N, nu, count), width = before.shape, len(self.index_v)
        whole, places = np.zeros((N, nu, width + nu)), np.concatenate([self.kept_v[-n:], width + np.arange(nu)])
        run(_scatter, places, before.reshape(N * nu, count), whole.reshape(N * nu, width + nu))
        return whole

    def keep_rollout(self, full: np.ndarray, start: int, stop: int, X: np.ndarray, run: Run = at_once) -> None:
        """See `IdentityMap`."""
        run(_keep_lanes, self._kept_x, full, start, stop, X)


def with_mimics(whole: Any, independent: Any, mimics: Sequence[Mimic]) -> Any:
    """A model with mimic joints, of the full model and the one in which the mimic joints are locked.

    Position and velocity limits keep mimic joints within theirs, too; they are those of the independent joints alone,
    with a warning, where this leaves no room, as in files with the wrong sign.  Effort limits are those of the
    independent joints; damping and friction include what mimic joints add.
    """
    seen = MimicMap(whole.joint_names, whole.joint_nq, whole.joint_nv, mimics)
    ends = [(limit - seen.offset) / seen.multiplier_q for limit in (whole.lower_position, whole.upper_position)]
    lower, upper = np.full(independent.nq, -np.inf), np.full(independent.nq, np.inf)
    np.maximum.at(lower, seen.index_q, np.minimum(*ends))
    np.minimum.at(upper, seen.index_q, np.maximum(*ends))
    own = whole.lower_position[seen.kept_q], whole.upper_position[seen.kept_q]
    if (stuck := (lower >= upper) & (own[0] < own[1])).any():
        at = np.searchsorted(independent.q_index, np.flatnonzero(stuck), side="right") - 1
        joints = ", ".join(repr(independent.joint_names[i]) for i in at)
        warn(f"limits of mimic joints of {joints} would leave no room and are not taken")
    lower, upper = (np.where(stuck, limit, found) + 0.0 for limit, found in zip(own, (lower, upper), strict=True))
    velocity = np.full(independent.nv, np.inf)
    np.minimum.at(velocity, seen.index_v, whole.velocity_limit / np.abs(seen.multiplier_v))
    return replace(
        independent, lower_position=lower, upper_position=upper, velocity_limit=velocity,
        damping=whole.damping @ seen.G**2, friction=whole.friction @ np.abs(seen.G), frames=whole.frames,
        body_names=whole.body_names, base_inertia=whole.base_inertia, springs=whole.springs, actuators=whole.actuators,
        loops=whole.loops, couplings=whole.couplings, geometries=whole.geometries, mimics=tuple(mimics),
        full_model=whole,
    )  # fmt: skip
