"""A plan at another rate, for the robot that is to execute it.

Between two knots the state is what the plan's own dynamics make of the first one in finer steps, the control held as it
was planned; as the plan's integrator errs, that ends a little off the second one, by the tangent vector d.  So much of
it is put back on the way, w = 3 s^2 - 2 s^3 of it after the part s of the step:

    x(t_k + s h) = integrate(Phi_s(x_k, u_k), w(s) d_k),        d_k = difference(Phi_1(x_k, u_k), x_(k+1))

Knots are met exactly, on any manifold, and the motion begins and ends each step as the dynamics say.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from dynamics.printed import in_brief
from trajopt.capabilities import Coordinates, Refinement, capability
from trajopt.interfaces.system import System, knot_durations
from trajopt.results.policy import EARLY, planned_problem
from trajopt.results.substeps import fine_rows, finer_for_stiff, inside_knots
from trajopt.validation import positive_number

if TYPE_CHECKING:
    from trajopt.results.solution import Solution

FEWEST, MOST = 8, 64
"""Finer steps of a knot: with the fewest, differences of velocities are accelerations to about a percent."""


@dataclass(frozen=True, eq=False)
class ResampledPlan:
    """A plan at equal intervals, and at its end; made by `Solution.resample`.

    Attributes
    ----------
    system : System
    times : (M,) array
        Seconds from the start, strictly increasing: 0, dt, 2 dt, ... and the plan's end.
    xs, us : (M, nx), (M, nu) arrays
        States, at impacts those after; controls from each time on, held as they were planned, the last one repeated.
    K : (M, nu, ndx) array
        Gains, held as the controls are: u = us + K difference(xs, x), with the state at the same time.
    accelerations : (M, nx - nq) array or None
        Derivatives of the velocities, from each time on; None of systems that do not say which of their numbers
        velocities are.
    knots : (M,) array
        The knot of the plan that each time belongs to.
    """

    system: System
    times: np.ndarray = field(repr=False)
    xs: np.ndarray = field(repr=False)
    us: np.ndarray = field(repr=False)
    K: np.ndarray = field(repr=False)
    accelerations: np.ndarray | None = field(repr=False)
    knots: np.ndarray = field(repr=False)

    def __repr__(self) -> str:
        return in_brief(self, duration=float(self.times[-1]))


def resample(solution: Solution, dt: float) -> ResampledPlan:
    """The plan at times dt apart.

    Parameters
    ----------
    solution : Solution
        With its problem, and with a trajectory.
    dt : float
        Seconds, positive; longer or shorter than the plan's steps, whole parts of which it need not be.

    Raises
    ------
    TypeError, ValueError
        Naming the argument; ValueError too where the motion between two knots is not finite.

    Notes
    -----
    The head of this file says how.  Systems without finer steps (`trajopt.capabilities.Refinement`) go from knot to
    knot by equal parts of the tangent vector between them.  Positions of Euler's rules do not quite have the planned
    velocities for derivatives: between knots they are off by up to 3/4 of dt times the acceleration, as the plan is.
    """
    system, N = planned_problem(solution).system, len(solution.us)
    dt = positive_number("dt", dt)
    starts, durations = solution.times, knot_durations(system, N, solution.xs)
    times = _times(starts[-1], dt)
    Y = _between_knots(solution, dt)
    k = Y.shape[1] - 1
    at = np.searchsorted(starts, times + EARLY * min(dt, system.dt), side="right") - 1
    acting = np.minimum(at, np.flatnonzero(durations > 0.0)[-1])
    part = np.clip(k * (times - starts[acting]) / durations[acting], 0.0, k)
    j = np.minimum((part + EARLY).astype(np.intp), k - 1)
    rest = np.clip(part - j, 0.0, 1.0)
    rest[np.abs(rest) < EARLY] = 0.0
    xs = system.integrate(Y[acting, j], rest[:, None] * system.difference(Y[acting, j], Y[acting, j + 1]))
    xs[rest == 0.0] = Y[acting, j][rest == 0.0]
    xs[at == N] = solution.xs[N]
    accelerations, known = None, capability(system, Coordinates)
    if known is not None:
        a = _rates(Y[:, :, known.nq :], durations)
        accelerations = (1.0 - rest)[:, None] * a[acting, j] + rest[:, None] * a[acting, j + 1]
    return ResampledPlan(system, times, xs, solution.us[acting], solution.K[acting], accelerations, acting)


def _times(end: float, dt: float) -> np.ndarray:
    """0, dt, 2 dt, ... and the end."""
    times = dt * np.arange(int(np.floor(end / dt + EARLY)) + 1)
    if end - times[-1] > EARLY * dt:
        return np.append(times, end)
    times[-1] = end
    return times


def _between_knots(solution: Solution, dt: float) -> np.ndarray:
    """States (N, k+1, nx) of all knots at equal parts of their steps, their ends included."""
    system, xs, us = solution.problem.system, solution.xs, solution.us
    if capability(system, Refinement) is None:
        return np.stack([xs[:-1], xs[1:]], axis=1)
    share = dt / system.dt
    near = Fraction(share).limit_denominator(MOST)
    parts = near.denominator if abs(float(near) - share) < 1e-9 * share else MOST
    fine, k = finer_for_stiff(system, parts * -(-FEWEST // parts))
    Y = inside_knots(fine, fine_rows(system, len(us), k), k, xs, us)
    left = system.difference(Y[:, -1], xs[1:])
    for j in range(1, k):
        s = j / k
        Y[:, j] = system.integrate(Y[:, j], s * s * (3.0 - 2.0 * s) * left)
    Y[:, -1] = xs[1:]
    return Y


def _rates(V: np.ndarray, durations: np.ndarray) -> np.ndarray:
    """Derivatives (N, k+1, nv) of what has k+1 values in each of the knots; zero in those of no time."""
    k = V.shape[1] - 1
    slopes = np.gradient(V, axis=1, edge_order=min(k, 2)) * k
    return np.divide(slopes, durations[:, None, None], out=np.zeros_like(slopes), where=durations[:, None, None] > 0.0)
