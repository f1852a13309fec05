"""Number of negative eigenvalues of the reduced Hessian: those of Quu, summed over the knots of a sweep [Sylvester].

The reduced Hessian is that of the Lagrangian in the free controls, states following the linear dynamics, on the tangent
space of the active rows, which enter through H + rho C'C with rho large enough.  With s M subtracted, counting finds
eigenvalues by bisection.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from dynamics.printed import in_brief
from trajopt.backward.expansions import Expansion
from trajopt.costs import ControlCost
from trajopt.interfaces.system import knot_durations
from trajopt.optimality.kkt_point import KKTPoint, active_rows
from trajopt.optimality.kkt_system import Factor, factorized, solved, without_clamped
from trajopt.problem.problem import Problem

ROUNDING = 1e-12
"""Size of a pivot, relative to the largest one at its knot, below which it counts as zero."""


class Inertia(NamedTuple):
    """Numbers of negative eigenvalues and of those at rounding, and the last knot with a negative one, -1 without; the
    eigenvector w (m,) of the least one there; gains K (N, m, n)."""

    negative: int
    zero: int
    knot: int
    w: np.ndarray
    K: np.ndarray


def inertia_of(e: Expansion, metric: np.ndarray, shift: float) -> Inertia:
    """Inertia of a linear-quadratic problem without clamped controls, with luu - shift M, M (N, m) diagonal."""
    N, _, m = e.fu.shape
    V = e.lxx[N]
    negative, zero, knot, w, K = 0, 0, -1, np.zeros(m), np.empty_like(e.lux)
    for t in range(N - 1, -1, -1):
        VA, VB = V @ e.fx[t], V @ e.fu[t]
        Quu, Qux = e.luu[t] + e.fu[t].T @ VB, e.lux[t] + e.fu[t].T @ VA
        Quu[np.arange(m), np.arange(m)] -= shift * metric[t]
        values, Q = np.linalg.eigh(0.5 * (Quu + Quu.T))
        small = np.abs(values) <= ROUNDING * np.abs(values).max(initial=0.0)
        zero, below = zero + int(small.sum()), (values < 0.0) & ~small
        if below.any():
            negative += int(below.sum())
            if knot < 0:
                knot, w = t, Q[:, 0].copy()
        inverse = np.where(small, 0.0, 1.0 / np.where(small, 1.0, values))
        K[t] = -(Q * inverse) @ (Q.T @ Qux)
        V = e.lxx[t] + e.fx[t].T @ VA + Qux.T @ K[t]
        V = 0.5 * (V + V.T)
    return Inertia(negative, zero, knot, w, K)


# --------------------------------------------------------------------------------------------
# Second-order conditions at a solution: a strict minimum, a saddle, or undecided.
#
# The number of negative eigenvalues of the reduced Hessian; the smallest eigenvalue relative to a metric, by counting;
# where it is negative, the direction of descent, by inverse iteration with the shifted factor.

DIGITS, LEAST = 1e-7, 1e-14
"""DIGITS: relative width at which bisection ends.  LEAST: relative eigenvalues below it count as zero."""
SHIFT, INVERSE_STEPS = 1.05, 3


@dataclass(frozen=True)
class Certificate:
    """The second-order conditions at a solution.

    Attributes
    ----------
    minimum : True for a strict local minimum, False for a saddle, None where an eigenvalue is zero to rounding
    negative : number of negative eigenvalues of the reduced Hessian, on the tangent space of the active constraints
    smallest_eigenvalue : relative to the metric: 1 is the curvature of the controls' own cost; inf where limits hold
        all controls
    knot : the last knot whose Quu is not positive definite in a sweep without regularization; -1 if there is none
    direction : (N, nu) controls along which the cost falls to second order; None at a minimum
    text : the result in a sentence
    """

    minimum: bool | None
    negative: int
    smallest_eigenvalue: float
    knot: int
    direction: np.ndarray | None = field(repr=False)
    text: str

    def __repr__(self) -> str:
        return in_brief(self)

    def __str__(self) -> str:
        return self.text


class Reduced(NamedTuple):
    """The linear-quadratic problem of the free controls, with the augmented-Lagrangian terms of rows, and the metric
    (N, m) of the controls."""

    e: Expansion
    metric: np.ndarray

    def count(self, shift: float) -> Inertia:
        """Inertia with the shift subtracted: its negative eigenvalues are those below the shift."""
        return inertia_of(self.e, self.metric, shift)


def metric_of(problem: Problem, clamped: np.ndarray) -> np.ndarray:
    """Metric (N, m): dt times the weights of the controls' costs, if all controls have some, else dt; zero at clamped
    controls."""
    N, m = clamped.shape
    dt = knot_durations(problem.system, N)
    weights = np.zeros((N, m))
    for term in problem.objective.terms:
        if isinstance(term.cost, ControlCost):
            knots = np.arange(N) if term.knots is None else term.knots
            rows = np.broadcast_to(np.asarray(term.cost.weights, float), (len(knots), m))
            weights[knots] += rows * np.reshape(np.broadcast_to(term.scale, (len(knots),)), (-1, 1))
    metric = weights if (weights > 0.0).all() else np.repeat(np.where(dt > 0.0, dt, 1.0)[:, None], m, axis=1)
    return np.where(clamped != 0, 0.0, metric)


def certificate(point: KKTPoint) -> Certificate:
    """The certificate of a point."""
    problem, counted = _settled(point)
    if not problem.metric.any():
        return Certificate(True, 0, float("inf"), -1, None, "A strict local minimum: limits hold all controls.")
    smallest, zero = _smallest(problem, counted)
    where = f"to a relative eigenvalue of {smallest:.6g}"
    if zero or counted.zero:
        text = f"Singular: an eigenvalue of the reduced Hessian is zero to rounding ({counted.negative} are negative)."
        return Certificate(None, counted.negative, smallest, counted.knot, None, text)
    if counted.negative == 0:
        return Certificate(True, 0, smallest, -1, None, f"A strict local minimum, {where}.")
    direction = _direction(problem, smallest, counted)
    text = f"A saddle: {counted.negative} negative eigenvalue{'s' * (counted.negative > 1)}, down {where}."
    return Certificate(False, counted.negative, smallest, counted.knot, direction, text)


def _settled(point: KKTPoint) -> tuple[Reduced, Inertia]:
    """The problem with a penalty so large that a tenfold one gives the same count, and its inertia."""
    rows, clamped = point.held
    active, free = active_rows(point, rows, clamped), without_clamped(point.e, clamped)
    metric = metric_of(point.problem, clamped)
    rho = max(point.penalty, point.scale) if rows.any() else 0.0
    problem = Reduced(active.with_terms_in(free, rho), metric)
    counted = problem.count(0.0)
    for _ in range(12 if rho > 0.0 else 0):
        stiffer = Reduced(active.with_terms_in(free, 10.0 * rho), metric)
        more = stiffer.count(0.0)
        if more.negative == counted.negative:
            break
        rho, problem, counted = 10.0 * rho, stiffer, more
    return problem, counted


def _smallest(problem: Reduced, counted: Inertia) -> tuple[float, bool]:
    """The smallest relative eigenvalue, and True if it is zero to rounding."""
    sign = -1.0 if counted.negative else 1.0
    near, far = LEAST, 1.0
    # near: end of the interval towards zero; far: end beyond the eigenvalue

    def beyond(s: float) -> bool:
        return (problem.count(sign * s).negative == 0) == (counted.negative > 0)

    while not beyond(far):
        near, far = far, 10.0 * far
        if far > 1e30:
            return sign * far, False
    if beyond(near):
        return sign * near, True
    while far > near * (1.0 + DIGITS):
        middle = float(np.sqrt(near * far))
        near, far = (near, middle) if beyond(middle) else (middle, far)
    return sign * float(np.sqrt(near * far)), False


def _direction(problem: Reduced, smallest: float, counted: Inertia) -> np.ndarray:
    """Controls along the eigenvector, of unit length in the metric, by inverse iteration from the first negative pivot,
    with the factor shifted beyond the eigenvalue."""
    e, metric = problem
    N, n, m = e.fu.shape
    du = np.zeros((N, m))
    du[counted.knot] = counted.w
    dx = e.fu[counted.knot] @ counted.w
    for t in range(counted.knot + 1, N):
        du[t] = counted.K[t] @ dx
        dx = e.fx[t] @ dx + e.fu[t] @ du[t]
    luu = e.luu.copy()
    luu[:, np.arange(m), np.arange(m)] -= SHIFT * smallest * metric
    factor = factorized(e._replace(luu=luu))
    if isinstance(factor, Factor):
        zero = np.zeros((N + 1, n, 1))
        for _ in range(INVERSE_STEPS):
            du = -solved(factor, zero, (metric * du)[..., None], zero).du[..., 0]
            du /= np.sqrt((metric * du * du).sum())
    return du / np.sqrt((metric * du * du).sum())
