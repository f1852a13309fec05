"""Number of negative eigenvalues of the reduced Hessian: those of Quu, summed over the knots of a sweep [Sylvester].

The reduced Hessian is that of the Lagrangian in the free controls, states following the linear dynamics, on the tangent
space of the active rows, which enter through H + rho C'C with rho large enough.  With s M subtracted, counting finds
eigenvalues by bisection.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from dynamics.printed import in_brief, printable
from dynamics.simd import helper, routine
from dynamics.simd.rows import Matrix, Term, matrix, submatrix
from trajopt.backward.expansions import Expansion
from trajopt.costs import ControlCost
from trajopt.eigenvalues import decompose
from trajopt.interfaces.system import knot_durations
from trajopt.matrix_products import copy_rows, product, row_product
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


class _Scratch(NamedTuple):
    """What a sweep knows of one knot."""

    V: np.ndarray  # (n, n)
    VA: np.ndarray  # (n, n)
    VB: np.ndarray  # (n, m)
    Quu: np.ndarray  # (m, m)
    Qux: np.ndarray  # (m, n)
    Q: np.ndarray  # (m, m), eigenvectors of Quu in its rows
    QQux: np.ndarray  # (m, n)
    values: np.ndarray  # (m,)
    e: np.ndarray  # (m,)
    p: np.ndarray  # (m,)


@helper
def _mirror(A):
    """The symmetric part of A, in place."""
    for i in range(A.shape[0]):
        for j in range(i):
            A[i, j] = A[j, i] = 0.5 * (A[i, j] + A[j, i])


@helper
def _count(t, values, Q, knot, w):
    """Numbers of negative eigenvalues and of those at rounding, of which the inverses are zeros, in place of `values`;
    the knot, and w, of the first negative one."""
    m, negative, zero, largest = len(values), 0, 0, 0.0
    for k in range(m):
        largest = max(largest, abs(values[k]))
    for k in range(m):
        if abs(values[k]) <= ROUNDING * largest:
            zero += 1
            values[k] = 0.0
        else:
            negative += values[k] < 0.0
            values[k] = 1.0 / values[k]
    if negative > 0 and knot < 0:
        knot = t
        for i in range(m):
            w[i] = Q[0, i]
    return negative, zero, knot


@routine
def _inertia(fx, fu, lxx, lux, luu, metric, shift, scratch, w, K):
    """Write w and K; returns the numbers and the knot of `Inertia`."""
    s = _Scratch(*scratch)
    N, n, m = fu.shape
    V, VA, VB, zeros = matrix(s.V, 0, n), matrix(s.VA, 0, n), matrix(s.VB, 0, m), matrix(s.V, 0, 0)
    Quu, Qux, Q, QQux = matrix(s.Quu, 0, m), matrix(s.Qux, 0, n), matrix(s.Q, 0, m), matrix(s.QQux, 0, n)
    copy_rows(n, n, V, matrix(lxx, N * n * n, n))
    negative, zero, knot = 0, 0, -1
    for t in range(N - 1, -1, -1):
        A, B, gains = matrix(fx, t * n * n, n), matrix(fu, t * n * m, m), matrix(K, t * m * n, n)
        product((), False, 0, n, n, VA, zeros, (Term(V, A, n),))
        product((), False, 0, n, m, VB, zeros, (Term(V, B, n),))
        product((), False, 0, m, m, Quu, matrix(luu, t * m * m, m), (Term(B, VB, n),))
        product((), False, 0, m, n, Qux, matrix(lux, t * m * n, n), (Term(B, VA, n),))
        for i in range(m):
            s.Quu[i, i] -= shift * metric[t, i]
        _mirror(s.Quu)
        decompose(s.Quu, m, s.values, s.Q, s.e, s.p)
        below, small, knot = _count(t, s.values, s.Q, knot, w)
        negative, zero = negative + below, zero + small
        for k in range(m):
            eigenvector = Matrix(submatrix(Q, k, 0).address, 1)
            row_product(0, 0, n, submatrix(QQux, k, 0), zeros, (Term(eigenvector, Qux, m),))
            for j in range(n):
                s.QQux[k, j] *= -s.values[k]
        product((), False, 0, m, n, gains, zeros, (Term(Q, QQux, m),))
        product((), False, 0, n, n, V, matrix(lxx, t * n * n, n), (Term(A, VA, n), Term(Qux, gains, m)))
        _mirror(s.V)
    return negative, zero, knot


def inertia_of(e: Expansion, metric: np.ndarray, shift: float) -> Inertia:
    """Inertia of a linear-quadratic problem without clamped controls, with luu - shift M, M (N, m) diagonal."""
    _, n, m = e.fu.shape
    sizes = (n, n), (n, n), (n, m), (m, m), (m, n), (m, m), (m, n), (m,), (m,), (m,)
    w, K = np.zeros(m), np.empty_like(e.lux)
    given = e.fx, e.fu, e.lxx, e.lux, e.luu, metric
    scratch = tuple(map(np.empty, sizes))
    negative, zero, knot = _inertia(*map(np.ascontiguousarray, given), float(shift), scratch, w, K)
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
        return printable(self.text)


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
    """The problem with a penalty so large that a tenth of it gives the same count, and its inertia."""
    rows, clamped = point.held
    active, free = active_rows(point, rows, clamped), without_clamped(point.e, clamped)
    metric = metric_of(point.problem, clamped)
    rho = max(point.penalty, point.scale) if rows.any() else 0.0
    problem = Reduced(active.with_terms_in(free, rho), metric)
    counted = problem.count(0.0)
    for _ in range(12 if rho > 0.0 else 0):
        stiffer = Reduced(active.with_terms_in(free, 10.0 * rho), metric)
        more = stiffer.count(0.0)
        same = more.negative == counted.negative
        rho, problem, counted = 10.0 * rho, stiffer, more
        if same:
            break
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
