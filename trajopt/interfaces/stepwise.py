"""Closed-loop rollouts for any system, one call of `step` per knot with all step lengths in a batch.

A system that compiles its rollouts is many times faster; this is what serves all others.
"""

import inspect
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from dynamics.simd.array_loops import subtract
from dynamics.simd.prepared_calls import PreparedCall
from trajopt.capabilities import Expansions, StateManifold, capability, members
from trajopt.interfaces.system import System, as_manifold, window


class ClosedLoop(NamedTuple):
    """What `System.closed_loop_rollout` is given."""

    x0: np.ndarray
    xs: np.ndarray
    us: np.ndarray
    k: np.ndarray
    K: np.ndarray
    alphas: np.ndarray
    gaps: np.ndarray | None = None
    lower: np.ndarray | None = None
    upper: np.ndarray | None = None
    shift: np.ndarray | None = None
    pull: np.ndarray | None = None
    before: np.ndarray | None = None


@cache
def rollouts_take(kind: type, *names: str) -> bool:
    """True if the closed-loop rollouts of a kind of system have these arguments, which may be missing."""
    return set(names) <= set(inspect.signature(kind.closed_loop_rollout).parameters)


@cache
def stands_for(kind: type, prepared: str, *plain: str) -> bool:
    """True unless a class that is derived from the one with a prepared method has plain methods of its own, for which
    that would not stand."""
    classes = kind.__mro__

    def level(name: str) -> int:
        return next((i for i, each in enumerate(classes) if name in vars(each)), len(classes))

    return all(level(prepared) <= level(name) for name in plain)


def closed_loop_by_steps(system: System, *arguments: Any, **options: Any) -> tuple[np.ndarray, np.ndarray]:
    """What `System.closed_loop_rollout` returns for these arguments, by `step`, `difference` and `integrate` alone."""
    x0, xs, us, k, K, alphas, gaps, lower, upper, shift, pull, before = ClosedLoop(*arguments, **options)
    A, N = len(alphas), len(us)
    X, U = np.full((A, N + 1, system.nx), np.nan), np.full((A, N, system.nu), np.nan)
    alphas = np.asarray(alphas)
    left = (1.0 - alphas)[:, None]
    X[:, 0] = x0 if gaps is None else system.integrate(np.array(np.broadcast_to(x0, (A, system.nx))), -left * gaps[0])
    alive = np.arange(A)  # a system may refuse states that are not finite, so diverged candidates are left behind
    for t in range(N):
        dx = system.difference(np.tile(xs[t], (len(alive), 1)), X[alive, t])
        u = us[t] + np.multiply.outer(alphas[alive], k[t]) + dx @ K[t].T
        if shift is not None and pull is not None:
            u += np.multiply.outer(shift[alive], pull[t])
        if before is not None and t > 0:
            tail = slice(system.nx + us.shape[1] - before.shape[2], None)
            off = X[alive, t - 1, tail] - xs[t - 1, tail], U[alive, t - 1] - us[t - 1]
            u += np.concatenate(off, axis=1) @ before[t].T
        if lower is not None and upper is not None:
            u = np.clip(u, lower[t], upper[t])
        U[alive, t] = u
        finite = np.isfinite(u).all(axis=1)
        alive = alive[finite]
        following = window(system, t, t + 1).step(X[alive, t], u[finite])
        X[alive, t + 1] = following
        alive = alive[np.isfinite(following).all(axis=1)]
        if gaps is not None:
            X[alive, t + 1] = system.integrate(X[alive, t + 1], -left[alive] * gaps[t + 1])
        if len(alive) == 0:
            break
    return X, U


METHODS = {
    "prepared_integrate": ("integrate",),
    "prepared_difference": ("difference",),
    "prepared_steps": ("step", "write_steps"),
    "prepared_rollouts": ("closed_loop_rollout",),
    "prepared_expansion": ("linearize", "hessian_products"),
}
"""Methods in whose place the functions stand that are prepared."""


def prepare(system: System, name: str, *arguments: Any) -> Callable[[], Any] | None:
    """What one of `METHODS` of a system prepares with these arguments; None where it has none that stands for its
    methods."""
    group = StateManifold if name in members(StateManifold) else Expansions
    method = getattr(capability(system, group), name)
    if method is None or not stands_for(type(system), name, *METHODS[name]):
        return None
    return method(*arguments)


def prepared_difference(
    system: System, x0s: np.ndarray, x1s: np.ndarray, dx: np.ndarray
) -> Callable[[], Any] | None:
    """A function without arguments that writes `System.difference` of states x0s and x1s (K, nx), as they are then,
    into dx (K, ndx); None where a system on a manifold prepares none."""
    if as_manifold(system) is None:
        return PreparedCall(subtract, x0s, x1s, dx)
    return prepare(system, "prepared_difference", x0s, x1s, dx)


class ClosedLoopRollouts:
    """Base of systems that roll out one `ClosedLoop`, step by step where they do not know better."""

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
        """Trajectories of u = clip(us_t + alpha k_t + K_t difference(xs_t, x), lower_t, upper_t), one per alpha.

        Parameters: x0 (nx,), or (A, nx) for each, xs (N+1, nx), us (N, nu), k (N, nu), K (N, nu, ndx), alphas (A,);
        optional gaps (N+1, ndx), of which a step of length alpha leaves the part 1 - alpha (see
        `System.closed_loop_rollout`); lower and upper (N, nu), both or none; shift (A,) and pull (N, nu), both or none,
        whose product is added to the controls; before (N, nu, n + nu), gains, from the second knot on, of what the last
        n numbers of the state and the controls of the knot before are off from xs and us, both plain differences.
        Returns: (A, N+1, nx), (A, N, nu).  A candidate that diverges holds inf or NaN.
        """
        return self._roll_out(ClosedLoop(x0, xs, us, k, K, alphas, gaps, lower, upper, shift, pull, before))

    def _roll_out(self: Any, loop: ClosedLoop) -> tuple[np.ndarray, np.ndarray]:
        return closed_loop_by_steps(self, *loop)
