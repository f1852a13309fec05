"""The motion of a plan between its knots."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from dynamics.simd import decision
from trajopt.capabilities import Knots, Steps, capability
from trajopt.interfaces.state_space import StateSpace, state_space
from trajopt.interfaces.system import System, knot_durations, knot_times, window
from trajopt.problem.extended_system import remembered_between, remembered_numbers

# --------------------------------------------------------------------------------------------
# Motion between the knots of a plan: its system in finer steps, the planned controls held.

Controller = Callable[[int, np.ndarray], np.ndarray]
"""Control (nu,) of a knot, or of another piece of a motion, as a function of its index and of the state x (nx,) in
which it begins."""


def finer(system: System, substeps: int) -> System:
    """The system with this number of steps for each knot that takes time.

    Raises TypeError for a system that has no finer steps, ValueError as its own method does.
    """
    refined = capability(system, Steps).refined
    if refined is None:
        raise TypeError(
            f"system: {type(system).__name__} has no finer steps, expected one that integrates a differential "
            "equation, as a robot or trajopt.CallableSystem(xdot=...), or that has refined and integrator_order "
            "(trajopt.capabilities.Steps)"
        )
    return refined(substeps)


def finer_for_stiff(system: System, substeps: int) -> tuple[System, int]:
    """The system as from `finer`, with that number of steps for each knot or, where these are too few, four, sixteen or
    64 times as many; and the number of steps taken."""
    for times in (1, 4, 16):
        try:
            return finer(system, times * substeps), times * substeps
        except ValueError:
            continue
    return finer(system, 64 * substeps), 64 * substeps


def fine_rows(system: System, horizon: int, substeps: int) -> np.ndarray:
    """Row numbers (N+1,) of the knots in the finer motion."""
    counts = np.where(knot_durations(system, horizon) > 0.0, substeps, 1)
    return np.concatenate([[0], np.cumsum(counts)])


def inside_knots(
    fine: System, rows: np.ndarray, substeps: int, xs: np.ndarray, us: np.ndarray, knots: np.ndarray | None = None
) -> np.ndarray:
    """States (K, substeps + 1, nx) of the finer motions that begin at knots of xs (N or N+1, nx), by default at all;
    controls us (K, nu) held, or (K, substeps, nu) for each finer step; `rows` as from `fine_rows`.
    A knot of no time has its end state in all rows but the first.

    Raises ValueError where one is not finite.
    """
    knots, counts = np.arange(len(us)) if knots is None else knots, np.diff(rows)
    us = np.repeat(us[:, None], substeps, axis=1) if us.ndim == 2 else us
    Y = np.empty((len(knots), substeps + 1, xs.shape[1]))
    Y[:, 0] = xs[knots]
    with np.errstate(all="ignore"):
        if capability(fine, Knots).horizon is None and (counts == substeps).all() and not _remembers_knots(fine):
            for j in range(substeps):
                Y[:, j + 1] = fine.step(Y[:, j], us[:, j])
                _check_finite(Y[:, j + 1], knots)
        else:
            for i, t in enumerate(knots.tolist()):
                Y[i, 1:] = _motion(fine, int(rows[t]), xs[t], us[i, : counts[t]])
    _check_finite(Y.reshape(len(knots), -1), knots)
    return Y


def _remembers_knots(fine: System) -> bool:
    """True if a finer step alone cannot compute what the states of its knot remember."""
    return getattr(fine, "steps_a_knot", 1) > 1


def _check_finite(motions: np.ndarray, knots: np.ndarray) -> None:
    wrong = np.flatnonzero(~np.isfinite(motions).all(axis=1))
    if len(wrong):
        raise ValueError(f"system: got a motion in finer steps that is not finite after knot {knots[wrong[0]]}")


def _motion(fine: System, start: int, x: np.ndarray, us: np.ndarray) -> np.ndarray:
    """States (count, nx) after x of the finer steps from `start` on, with the controls us (count, nu)."""
    return np.asarray(window(fine, start, start + len(us)).rollout(x, us))[1:]


def roll_out_finely(
    fine: System, breaks: np.ndarray, x0: np.ndarray, us: np.ndarray, control: Controller
) -> tuple[np.ndarray, np.ndarray]:
    """States (M+1, nx) and controls (B, nu).  Pieces begin and end at the finer steps `breaks` (B+1,), from 0 to M, as
    at the knots of the plan, whose controls are us (N, nu); `control` gives the control of each piece, which is held,
    from the state in which the piece begins.  Infinite from where they are not finite."""
    pieces = len(breaks) - 1
    X, U = np.full((int(breaks[-1]) + 1, len(x0)), np.inf), np.full((pieces, us.shape[1]), np.inf)
    X[0] = x0
    with np.errstate(all="ignore"):
        for i, (start, stop) in enumerate(zip(breaks[:-1].tolist(), breaks[1:].tolist(), strict=True)):
            u = control(i, X[start])
            motion = _motion(fine, start, X[start], np.repeat(u[None], stop - start, axis=0))
            finite = np.isfinite(motion).all(axis=1)
            count = len(motion) if finite.all() else int(np.argmin(finite))
            U[i], X[start + 1 : start + 1 + count] = u, motion[:count]
            if count < len(motion):
                break
    return X, U


def deviations(system: System, plan: np.ndarray, xs: np.ndarray) -> np.ndarray:
    """Tangent vectors (K, ndx) from the plan to the states xs (K, nx); infinite where these are."""
    found, finite = np.full((len(xs), system.ndx), np.inf), np.isfinite(xs).all(axis=1)
    if finite.any():
        found[finite] = system.difference(plan[finite], xs[finite])
    return found


# --------------------------------------------------------------------------------------------
# A plan between its knots: the motion that policies refer to, and that resampled plans and pictures show.
#
# From the knot x_k on, the state follows the plan's own dynamics in m finer steps, with the control that acts there; by
# the error of the plan's integrator this ends at a small tangent vector d from the next knot.  The fraction
# w = 3 s^2 - 2 s^3 of d is added after the fraction s of the step,
#
#     x(t_k + s h) = integrate(Phi_s(x_k, u), w(s) d_k),        d_k = difference(Phi_1(x_k, u), x_(k+1))
#
# so that knots are met exactly, on any manifold, and the motion begins and ends each step as the dynamics say.  It is
# stored as a table of tangent vectors from x_k, interpolated by cubics through the four nearest ones.
#
# The control that acts is u_k, held, or its linear interpolation.  Held controls are taken as the values in the middles
# of their steps:
#
#     u(t_k + s h) = u_k + (s - 1/2) h (u_k - u_(k-1)) / ((h_(k-1) + h_k)/2)  for s < 1/2, the next knot's for s > 1/2
#
# has, but for second differences of the controls, the same mean over each step, while a line from u_k at t_k to u_(k+1)
# is half a step ahead of the plan.  Nothing is interpolated over the beginning of a phase, nor from knots of no time.

EARLY = 1e-6
"""Fraction of a step around a knot that belongs to the knot, as sums and multiples of decimal steps are rounded."""
SUBSTEPS = 8
"""Finer steps of a knot, more where the dynamics are stiff: cubics through them follow the motion of RK4."""
BLOCK = 16
"""Number of knots whose rows of the table are computed at once: enough for the lanes of vectors, few for a plan that is
soon replaced."""
HELD, LINEAR = CONTROLS = ("held", "linear")


def control_slopes(system: System, us: np.ndarray, durations: np.ndarray) -> np.ndarray:
    """Changes of linearly interpolated controls over a whole step, (N, 2, nu): at their slopes before its middle and
    after it."""
    N, slopes = len(us), np.zeros((len(us), 2, us.shape[1]))
    apart = np.zeros(N + 1, dtype=bool)
    apart[np.asarray(capability(system, Knots).phase_starts)] = True
    for k in range(N - 1):
        h, following = durations[k : k + 2]
        if h > 0.0 and following > 0.0 and not apart[k + 1]:
            rate = (us[k + 1] - us[k]) / (0.5 * (h + following))
            slopes[k, 1], slopes[k + 1, 0] = h * rate, following * rate
    return slopes


@dataclass(eq=False)
class DenseOutput:
    """The motion of a plan at any time; made by `dense_output`.

    Attributes
    ----------
    space : StateSpace
    times : (N+1,) array
        Times of the knots, s.
    xs, us : (N+1, nx), (N, nu) arrays
    slopes : (N, 2, nu) array, or (0, 2, nu)
        Change of the control over a step, before its middle and after it; empty for held controls.
    early : float
        Seconds around a knot that belong to it.
    table : (N, m+1, ndx) array
        Tangents from xs[k] after j/m of the step; rows are computed when they are first asked for.
    system : System, optional
        System that computes the table.
    """

    space: StateSpace
    times: np.ndarray = field(repr=False)
    xs: np.ndarray = field(repr=False)
    us: np.ndarray = field(repr=False)
    slopes: np.ndarray = field(repr=False)
    early: float
    table: np.ndarray | None = field(default=None, repr=False)
    system: System | None = None

    def __post_init__(self) -> None:
        N = len(self.us)
        seconds, knots = np.diff(self.times), np.arange(N)
        moving = np.flatnonzero(seconds > 0.0)
        self._begins, self._seconds = self.times[:-1].tolist(), seconds.tolist()
        self._acts = moving[np.maximum(np.searchsorted(moving, knots, side="right") - 1, 0)].tolist()
        self._next = np.append(moving, N)[np.searchsorted(moving, knots, side="right")].tolist()
        self._made, self._fine = np.full(N, self.table is not None), None

    # -------------------------------------------------------------------------------------------- where
    def locate(self, t: float) -> tuple[int, float]:
        """The knot that acts at a time, and the fraction 0 ... 1 of its step that is over; 0 exactly at knots."""
        k = self._acts[max(bisect_right(self._begins, t + self.early) - 1, 0)]
        past = t - self._begins[k]
        if past <= self.early:
            return k, 0.0
        left = self._seconds[k] - past
        return k, 1.0 if left <= self.early else past / self._seconds[k]

    def locate_all(self, times: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Knots and fractions, (T,) each, for many times; see `locate`."""
        found = [self.locate(t) for t in np.asarray(times, dtype=np.float64).tolist()]
        return np.array([k for k, _ in found], dtype=np.intp), np.array([s for _, s in found])

    # -------------------------------------------------------------------------------------------- states and controls
    def control(self, k: int, s: float) -> np.ndarray:
        """The control (nu,) of the plan after the fraction s of the step of knot k."""
        if not len(self.slopes):
            return self.us[k]
        return self.us[k] + (s - 0.5) * self.slopes[k, int(s > 0.5)]

    def tangent(self, k: int, s: float) -> np.ndarray:
        """The tangent (ndx,) from xs[k] to the state after the fraction s of the step, 0 < s <= 1."""
        rows = self._rows(k)
        first, *weights = cubic(len(rows) - 1, s)
        near = rows[first : first + len(weights)]
        return np.add.accumulate(np.array(weights[: len(near)])[:, None] * near)[-1]

    def state(self, k: int, s: float) -> np.ndarray:
        """The state (nx,) after the fraction s of the step of knot k: at its ends the states of the knots, at an impact
        the state after it."""
        if s in (0.0, 1.0):
            return self.xs[self._next[k] if s else k].copy()
        return self.space.move(self.xs[k], self.tangent(k, s))

    def states(self, times: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """States (T, nx) at many times, at impacts those after, and the knots (T,) that act there."""
        knots, parts = self.locate_all(times)
        pairs = zip(knots.tolist(), parts.tolist(), strict=True)
        return np.array([self.state(k, s) for k, s in pairs]).reshape(-1, self.xs.shape[1]), knots

    def rates(self, knots: np.ndarray, parts: np.ndarray, components: slice) -> np.ndarray:
        """Derivatives with respect to time (T, .) of these components of the tangents."""
        found = np.zeros((len(knots), len(self._rows(0)[0, components])))
        for row, k, s in zip(found, knots.tolist(), parts.tolist(), strict=True):
            rows = self._rows(k)
            first, weights = _cubic_slope(len(rows) - 1, s)
            row[:] = weights @ rows[first : first + len(weights), components] / self._seconds[k]
        return found

    # -------------------------------------------------------------------------------------------- the table
    def whole_table(self) -> np.ndarray:
        """The table with all its rows computed."""
        for k in range(len(self.us)):
            self._rows(k)
        assert self.table is not None
        return self.table

    def all_states(self) -> np.ndarray:
        """States (N, m+1, nx) at all fractions j/m of all steps, at their ends the planned ones.  The plan must have
        its system."""
        table, xs = self.whole_table(), self.xs
        assert self.system is not None
        found = np.stack([self.system.integrate(xs[:-1], table[:, j]) for j in range(table.shape[1])], axis=1)
        found[:, 0], found[:, -1] = xs[:-1], xs[1:]
        return found

    def _rows(self, k: int) -> np.ndarray:
        """Row k of the table (m+1, ndx), computed when it is first asked for."""
        if not self._made[k]:
            start = k - k % BLOCK
            self._make(np.arange(start, min(start + BLOCK, len(self.us))))
        return self.table[k]  # pyright: ignore[reportOptionalSubscript]

    def _make(self, knots: np.ndarray) -> None:
        """Compute rows of the table."""
        system, xs, N = self.system, self.xs, len(self.us)
        assert system is not None
        if capability(system, Steps).refined is None:
            Y = np.stack([xs[knots], xs[knots + 1]], axis=1)
        else:
            if self._fine is None:
                fine, m = finer_for_stiff(system, SUBSTEPS)
                self._fine = fine, fine_rows(system, N, m), m
            fine, rows, m = self._fine
            Y = inside_knots(fine, rows, m, xs, self._controls(knots, m), knots)
            remembered = slice(self.space.ndx - remembered_numbers(system), None)
            left = system.difference(Y[:, -1], xs[knots + 1])
            left[:, remembered] = 0.0
            for j in range(1, m + 1):
                s = j / m
                Y[:, j] = system.integrate(Y[:, j], s * s * (3.0 - 2.0 * s) * left)
        m, remembered = Y.shape[1] - 1, remembered_numbers(system)
        if remembered:
            moment = Y[:, [1, *range(1, m + 1)], -remembered:]
            before, after = xs[knots, -remembered:], xs[knots + 1, -remembered:]
            for j in range(m + 1):
                Y[:, j, -remembered:] = remembered_between(system, before, after, moment[:, j], j / m)
        made = np.zeros((len(knots), m + 1, self.space.ndx))
        for j in range(m + 1):
            made[:, j] = system.difference(xs[knots], Y[:, j])
        if self.table is None:
            self.table = np.zeros((N, m + 1, self.space.ndx))
        self.table[knots], self._made[knots] = made, True

    def _controls(self, knots: np.ndarray, m: int) -> np.ndarray:
        """Controls (K, m, nu) in the middles of finer steps."""
        s = (np.arange(m) + 0.5) / m
        if not len(self.slopes):
            return np.repeat(self.us[knots, None], m, axis=1)
        return self.us[knots, None] + (s - 0.5)[:, None] * self.slopes[knots][:, (s > 0.5).astype(int)]


def dense_output(system: System, xs: np.ndarray, us: np.ndarray, control: str = HELD) -> DenseOutput:
    """Dense output of a trajectory, which is copied; control: "held" or "linear".

    Raises ValueError for a plan with free durations that are not positive, which is no motion.
    """
    N, xs, us = len(us), np.array(xs, dtype=np.float64, order="C"), np.array(us, dtype=np.float64, order="C")
    slopes = np.zeros((0, 2, us.shape[1]))
    if control == LINEAR:
        slopes = control_slopes(system, us, knot_durations(system, N, xs))
    times, early = knot_times(system, N, xs), EARLY * float(system.dt)
    seconds = np.diff(times)
    if (seconds < 0.0).any() or not seconds.any():
        k = int(np.argmin(seconds))
        raise ValueError(
            f"solution: got a plan whose knot {k} takes {seconds[k]:.3g} s, expected positive durations; "
            "a constraint duration_bounds() of the trajopt.FreeDurationSystem keeps them so"
        )
    return DenseOutput(state_space(system), times, xs, us, slopes, early, system=system)


@decision
def cubic(m, s):
    """The first of the four points among 0, 1/m ... 1 that are nearest to s, and their Lagrange weights at s; with a
    single step its two ends, and no weight of others."""
    if m < 3:
        return 0, 1.0 - s, s, 0.0, 0.0
    first = min(max(int(s * m) - 1, 0), m - 3)
    r = s * m - first
    a, b, c = r - 1.0, r - 2.0, r - 3.0
    return first, a * b * c / -6.0, r * b * c / 2.0, r * a * c / -2.0, r * a * b / 6.0


def _cubic_slope(m: int, s: float) -> tuple[int, np.ndarray]:
    """The first of these points, and the derivatives of their weights with respect to s."""
    if m < 3:
        return 0, np.array([-1.0, 1.0])
    first = cubic(m, s)[0]
    r = s * m - first
    a, b, c = r - 1.0, r - 2.0, r - 3.0
    numbers = -(b * c + a * c + a * b) / 6.0, (b * c + r * c + r * b) / 2.0, -(a * c + r * c + r * a) / 2.0
    return first, m * np.array([*numbers, (a * b + r * b + r * a) / 6.0])
