"""Checked calls of a discrete-time system x+ = f(x, u) with the states x = [q; v].

A system of its own supplies its state manifold, `check_state`, `integrate` and `difference`, and what moves the state:
`write_steps`, `roll`, `write_linearization` and `write_hessian_products`.  These take checked arrays with the knots in
order and write into arrays that are given, so that systems can be put together along a trajectory without copies.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from dynamics.simd import LANES, aligned_arrays, by_address, chunk_count
from dynamics.simd.array_loops import copy
from dynamics.simd.prepared_calls import PreparedCall, PreparedCalls
from dynamics.validation import as_array, as_batch, as_floats, writeable

THERE, _NO_ROWS, _NO_MATRICES = np.empty(0), np.empty((0, 0)), np.empty((0, 0, 0))
NONE = {"gaps": _NO_ROWS, "limits": _NO_MATRICES, "shift": _NO_ROWS, "pull": _NO_ROWS, "before": _NO_MATRICES}
"""In place of what a closed loop lacks."""


class ClosedLoops(NamedTuple):
    """What closed-loop rollouts follow.  Arrays without rows stand for what there is not, so that one compiled function
    serves all."""

    x0: np.ndarray  # (nx,), or THERE where candidates start from the states that are there
    xs: np.ndarray  # (N or N+1, nx)
    us: np.ndarray  # (N, nu)
    k: np.ndarray  # (N, nu)
    K: np.ndarray  # (N, nu, ndx), or (N, 0, 0) for an open loop
    alphas: np.ndarray  # (C, LANES) step lengths
    gaps: np.ndarray  # (N+1, ndx)
    limits: np.ndarray  # (N, 2, nu)
    shift: np.ndarray  # (C, LANES) what `pull` is multiplied by
    pull: np.ndarray  # (N, nu)
    before: np.ndarray  # (N, nu, n + nu) feedback to n last numbers of the state before, and its controls

    @classmethod
    def of(cls, *law: np.ndarray, **given: np.ndarray | None) -> ClosedLoops:
        """Closed loops with the first six arrays, and as many of the other five, by name, as there are."""
        return cls._make([*law, *(NONE[name] if (x := given.get(name)) is None else x for name in NONE)])


class Segment(NamedTuple):
    """Knots start <= t < stop under one system, a `RigidBodySystem` or an `Impact`."""

    name: str
    system: Any
    start: int
    stop: int


def candidates_of(X: np.ndarray, count: int) -> np.ndarray:
    """Candidates (count, N, n) from lanes X (C, N, n, LANES); a view where one chunk holds them all."""
    if len(X) == 1:
        return X[0].transpose(2, 0, 1)[:count]
    return np.concatenate(list(X.transpose(0, 3, 1, 2)))[:count]


@by_address
def _place_candidates(X, candidates):
    """`candidates_of` where several chunks hold them; candidates (A, N, n)."""
    for a in range(candidates.shape[0]):
        c, l = divmod(a, X.shape[3])
        for t in range(candidates.shape[1]):
            for i in range(candidates.shape[2]):
                candidates[a, t, i] = X[c, t, i, l]


@by_address
def _place_starts(x0, X):
    """Initial states x0 (A, nx) into lanes X (C, N+1, nx, LANES), that of the last candidate into all that follow."""
    for c in range(X.shape[0]):
        for l in range(X.shape[3]):
            a = min(c * X.shape[3] + l, x0.shape[0] - 1)
            for i in range(X.shape[2]):
                X[c, 0, i, l] = x0[a, i]


@by_address
def _place_limits(lower, upper, limits):
    """limits (N, 2, nu) of lower and upper (N, nu)."""
    for t in range(limits.shape[0]):
        for i in range(limits.shape[2]):
            limits[t, 0, i] = lower[t, i]
            limits[t, 1, i] = upper[t, i]


class DiscreteSystem(ABC):
    """Motion and expansions of a system with arguments checked.

    Parameters
    ----------
    nq, nv : numbers of coordinates and of velocities
    nu : number of controls
    dt : float, s
    """

    def __init__(self, nq: int, nv: int, nu: int, dt: float) -> None:
        self.nq, self.nv, self.nu, self.dt = nq, nv, nu, float(dt)
        self.nx, self.ndx = nq + nv, 2 * nv

    def state(self, q: ArrayLike, v: ArrayLike | None = None) -> np.ndarray:
        """x = [q; v], v = 0 by default."""
        q = as_array("q", q, (self.nq,))
        v = np.zeros(self.nv) if v is None else as_array("v", v, (self.nv,))
        return np.concatenate([q, v])

    def segments_of(self, knots: int) -> Sequence[Segment]:
        """The segments of a trajectory of so many knots, each under a system of its own: one, but in hybrid systems."""
        return (Segment("motion", self, 0, knots),)

    # -------------------------------------------------------------------------------------------- of each system
    @abstractmethod
    def check_state(self, x: np.ndarray) -> None:
        """Raise ValueError if a state in x (K, nx) is no point of the manifold."""

    @abstractmethod
    def integrate(self, x: ArrayLike, dx: ArrayLike) -> np.ndarray:
        """x (+) dx;  x (nx,) or (K, nx), dx (ndx,) or (K, ndx)."""

    @abstractmethod
    def difference(self, x0: ArrayLike, x1: ArrayLike) -> np.ndarray:
        """dx with integrate(x0, dx) = x1;  x0, x1 (nx,) or (K, nx)."""

    @abstractmethod
    def write_steps(self, xs: np.ndarray, us: np.ndarray, out: np.ndarray) -> None:
        """out[t] = f(xs[t], us[t])."""

    @abstractmethod
    def roll(self, loops: ClosedLoops, start: int, stop: int, X: np.ndarray, U: np.ndarray) -> None:
        """Closed loops over the knots start <= t < stop, from x0 if start = 0, else from the states in X.

        X (C, N+1, nx, LANES), U (C, N, nu, LANES): candidates in lanes."""

    @abstractmethod
    def write_linearization(self, xs: np.ndarray, us: np.ndarray, fx: np.ndarray, fu: np.ndarray) -> None:
        """What `linearize` returns; xs has N or N+1 rows."""

    @abstractmethod
    def write_hessian_products(self, xs: np.ndarray, us: np.ndarray, lam: np.ndarray, *H: np.ndarray) -> None:
        """What `hessian_products` returns, into H = (Hxx, Hux, Huu)."""

    def write_expansion(
        self, xs: np.ndarray, us: np.ndarray, lam: np.ndarray, fx: np.ndarray, fu: np.ndarray, *H: np.ndarray
    ) -> None:
        """What `linearize` and `hessian_products` return."""
        self.write_linearization(xs, us, fx, fu)
        self.write_hessian_products(xs, us, lam, *H)

    def prepared_expansion(
        self,
        xs: np.ndarray,
        us: np.ndarray,
        fx: np.ndarray,
        fu: np.ndarray,
        lam: np.ndarray | None = None,
        *H: np.ndarray,
    ) -> Callable[[], Any] | None:
        """See `trajopt.capabilities.Expansions`."""
        if lam is None:
            return partial(self.write_linearization, xs, us, fx, fu)
        return partial(self.write_expansion, xs, us, lam, fx, fu, *H)

    def prepared_roll(
        self, loops: ClosedLoops, start: int, stop: int, X: np.ndarray, U: np.ndarray
    ) -> Callable[[], Any] | None:
        """A function without arguments that does what `roll` does with these arrays, as they are then; None where there
        is none."""
        return None

    def prepared_rollouts(
        self,
        x0: np.ndarray,
        xs: np.ndarray,
        us: np.ndarray,
        k: np.ndarray,
        K: np.ndarray,
        alphas: np.ndarray,
        gaps: np.ndarray | None = None,
        lower: np.ndarray | None = None,
        upper: np.ndarray | None = None,
        shift: np.ndarray | None = None,
        pull: np.ndarray | None = None,
        before: np.ndarray | None = None,
    ) -> Callable[[], tuple[np.ndarray, np.ndarray]] | None:
        """See `trajopt.capabilities.Expansions`."""
        (lanes, shifts), *motion = self.candidate_lanes(len(us), alphas)
        calls: list[Callable[[], Any]] = []
        loops = ClosedLoops.of(x0, xs, us, k, K, lanes, gaps=gaps, pull=pull, before=before)
        found: list[np.ndarray] = []
        if lower is not None and upper is not None:
            loops = loops._replace(limits=np.empty((len(us), 2, self.nu)))
            calls.append(PreparedCall(_place_limits, lower, upper, loops.limits))
        if shift is not None:
            loops = loops._replace(shift=shifts)
            calls.append(PreparedCall(copy, shift, shifts.reshape(-1)))
        if x0.ndim == 2:
            loops = loops._replace(x0=THERE)
            calls.append(PreparedCall(_place_starts, x0, motion[0]))
        roll = self.prepared_roll(loops, 0, len(us), *motion)
        if roll is None:
            return None
        calls.append(roll)
        for Z in motion:
            if len(Z) == 1:
                found.append(candidates_of(Z, len(alphas)))
            else:
                found.append(np.zeros((len(alphas), *Z.shape[1:3])))
                calls.append(PreparedCall(_place_candidates, Z, found[-1]))
        return PreparedCalls(*calls, result=lambda: (found[0], found[1]))

    # -------------------------------------------------------------------------------------------- motion
    def step(self, x: ArrayLike, u: ArrayLike) -> np.ndarray:
        """x+ = f(x, u) for one pair or a batch: x (nx,) or (K, nx), u (nu,) or (K, nu)."""
        xs, single_x = as_batch("x", x, self.nx)
        us, single_u = as_batch("u", u, self.nu)
        if len(xs) != len(us) and 1 not in (len(xs), len(us)):
            raise ValueError(f"x: got {len(xs)} points, expected {len(us)} as of u")
        self.check_state(xs)
        if len(xs) != len(us):
            K = max(len(xs), len(us))
            xs = np.ascontiguousarray(np.broadcast_to(xs, (K, self.nx)))
            us = np.ascontiguousarray(np.broadcast_to(us, (K, self.nu)))
        out = np.empty_like(xs)
        self.write_steps(writeable(xs), writeable(us), out)
        return out[0] if single_x and single_u else out

    def rollout(self, x0: ArrayLike, us: ArrayLike) -> np.ndarray:
        """Trajectory (N+1, nx) from x0 under the controls us (N, nu)."""
        us = as_array("us", us, (None, self.nu), copy=True)  # kernels know arrays that are read-only from others
        x0 = as_array("x0", x0, (self.nx,), copy=True)
        self.check_state(x0[None])
        N = len(us)
        xs, _ = self._closed_loops(x0, np.zeros((N, self.nx)), us, us, np.zeros((N, 0, 0)), np.zeros(1))
        return np.ascontiguousarray(xs[0])

    def closed_loop_rollout(
        self,
        x0: np.ndarray,
        xs: np.ndarray,
        us: np.ndarray,
        k: np.ndarray,
        K: np.ndarray,
        alphas: np.ndarray,
        gaps: np.ndarray | None = None,
        lower: np.ndarray | None = None,
        upper: np.ndarray | None = None,
        shift: np.ndarray | None = None,
        pull: np.ndarray | None = None,
        before: np.ndarray | None = None,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Trajectories of u = us_t + alpha k_t + K_t difference(xs_t, x), one per step length, in lanes.

        Parameters: x0 (nx,), or (A, nx) for each, xs (N+1, nx), us (N, nu), k (N, nu), K (N, nu, ndx), alphas (A,);
        optional: lower and upper (N, nu), which the controls keep; gaps (N+1, ndx) between xs and the dynamics, of
        which the new states keep the part 1 - alpha (see `trajopt.System`); shift (A,) and pull (N, nu), whose product
        is added to the controls; before (N, nu, n + nu), gains, from the second knot on, of what the last n numbers of
        the state and the controls of the knot before are off from xs and us, both plain differences.
        Returns: (A, N+1, nx), (A, N, nu), possibly as views with the candidates last in memory.  A candidate that
        diverges holds inf or NaN.
        """
        xs, us = self._knots(xs, us)
        N = len(us)
        alphas, limits = as_array("alphas", alphas, (None,), finite=False), None
        if not len(alphas):
            raise ValueError("alphas: got none, expected at least one step length")
        x0 = as_floats("x0", x0)
        start = (self.nx,) if x0.ndim < 2 else (len(alphas), self.nx)
        x0, k, K = self._shaped(x0=(x0, start), k=(k, us.shape), K=(K, (N, self.nu, self.ndx)))
        if gaps is not None:
            (gaps,) = self._shaped(gaps=(gaps, (N + 1, self.ndx)))
        if lower is not None or upper is not None:
            if lower is None or upper is None:
                raise ValueError("lower and upper: got one of them, expected both or neither")
            limits = np.stack(self._shaped(lower=(lower, us.shape), upper=(upper, us.shape)), axis=1)
        pulled: list[np.ndarray | None] = [None, None]
        if shift is not None or pull is not None:
            pulled = [*self._shaped(shift=(shift, alphas.shape), pull=(pull, us.shape))]
        if before is not None:
            before, most = as_floats("before", before), self.nv + self.nu
            if before.shape[:2] != us.shape or not self.nu <= before.shape[2] <= most:
                raise ValueError(f"before: got shape {before.shape}, expected (N, nu, {self.nu} to {most})")
        return self._closed_loops(x0, xs, us, k, K, alphas, gaps, limits, *pulled, before=before)

    @staticmethod
    def _shaped(**arguments) -> list[np.ndarray]:
        """Arrays of these shapes; no other check, as solvers call this in their inner loops."""
        arrays = []
        for name, (value, shape) in arguments.items():
            arrays.append(array := as_floats(name, value))
            if array.shape != shape:
                raise ValueError(f"{name}: got shape {array.shape}, expected {shape}")
        return arrays

    def candidate_lanes(self, N: int, alphas: np.ndarray) -> list[np.ndarray]:
        """Lanes of candidates: numbers (2, C, LANES), step lengths and zeros, and room for states (C, N+1, nx, LANES)
        and controls (C, N, nu, LANES)."""
        chunks = chunk_count(len(alphas))
        shapes = (2, chunks, LANES), (chunks, N + 1, self.nx, LANES), (chunks, N, self.nu, LANES)
        lanes, X, U = aligned_arrays(*shapes)
        lanes[...] = 0.0
        lanes[0].reshape(-1)[: len(alphas)] = alphas
        return [lanes, X, U]

    def _closed_loops(self, x0, xs, us, k, K, alphas, gaps=None, limits=None, shift=None, pull=None, before=None):
        N, A = len(us), len(alphas)
        lanes, X, U = self.candidate_lanes(N, alphas)
        if shift is not None:
            lanes[1].reshape(-1)[:A] = shift
            shift = lanes[1]
        if x0.ndim == 2:
            rows = np.minimum(np.arange(lanes[0].size), A - 1).reshape(lanes[0].shape)
            X[:, 0] = x0[rows].transpose(0, 2, 1)
            x0 = THERE
        loops = ClosedLoops.of(
            x0, xs, us, k, K, lanes[0], gaps=gaps, limits=limits, shift=shift, pull=pull, before=before
        )  # fmt: skip
        self.roll(ClosedLoops(*map(writeable, loops)), 0, N, X, U)
        return candidates_of(X, A), candidates_of(U, A)

    # -------------------------------------------------------------------------------------------- expansions
    def _knots(self, xs, us):
        xs, us = as_floats("xs", xs), as_floats("us", us)
        if us.ndim != 2 or us.shape[1] != self.nu:
            raise ValueError(f"us: got shape {us.shape}, expected (N, {self.nu})")
        if xs.ndim != 2 or xs.shape[1] != self.nx or len(xs) not in (len(us), len(us) + 1):
            raise ValueError(f"xs: got shape {xs.shape}, expected ({len(us)} or {len(us) + 1}, {self.nx})")
        return writeable(xs), writeable(us)

    def linearize(self, xs: np.ndarray, us: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """fx (N, ndx, ndx) and fu (N, ndx, nu) at the knots xs (N or N+1, nx), us (N, nu)."""
        xs, us = self._knots(xs, us)
        N = len(us)
        fx, fu = np.empty((N, self.ndx, self.ndx)), np.empty((N, self.ndx, self.nu))
        self.write_linearization(xs, us, fx, fu)
        return fx, fu

    def hessian_products(
        self, xs: np.ndarray, us: np.ndarray, lam: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Hessian of lam_t' f per knot: Hxx (N, ndx, ndx), Hux (N, nu, ndx), Huu (N, nu, nu); lam (N, ndx)."""
        xs, us = self._knots(xs, us)
        lam = as_floats("lam", lam)
        N = len(us)
        if lam.shape != (N, self.ndx):
            raise ValueError(f"lam: got shape {lam.shape}, expected ({N}, {self.ndx})")
        H = np.empty((N, self.ndx, self.ndx)), np.empty((N, self.nu, self.ndx)), np.empty((N, self.nu, self.nu))
        self.write_hessian_products(xs, us, lam, *H)
        return H

    def hessians(self, xs: np.ndarray, us: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Full tensors fxx (N, ndx, ndx, ndx), fux (N, ndx, nu, ndx), fuu (N, ndx, nu, nu), output index first.

        Row i is `hessian_products` with the unit multiplier e_i.
        """
        xs, us = self._knots(xs, us)
        N = len(us)
        unit = np.tile(np.eye(self.ndx), (N, 1))
        H = self.hessian_products(np.repeat(xs[:N], self.ndx, 0), np.repeat(us, self.ndx, 0), unit)
        fxx, fux, fuu = (X.reshape(N, self.ndx, *X.shape[1:]) for X in H)
        return fxx, fux, fuu
