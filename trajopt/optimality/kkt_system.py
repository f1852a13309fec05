"""The KKT system: derivative of the optimality conditions at a point, and its solutions.

    lxx dx + lux'du + fx'dlam' - dlam + Cx'dnu + gx = 0        dx' = fx dx + fu du + F',   dx_0 = F_0
    lux dx + luu du + fu'dlam'        + Cu'dnu + gu = 0  (free controls);   du = held  (clamped controls)
    Cx dx + Cu du + c = 0  (active rows)

Active rows are eliminated with the factor of the augmented Hessian H + rho C'C: conjugate gradients on the dual
problem,

    S dnu = c - C H_rho^-1 (g + rho C'c),      S = C H_rho^-1 C',   eigenvalues in (0, 1/rho)

then one step dnu += rho (C dz + c), and one step of iterative refinement of the whole.
"""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import numpy as np

from dynamics.simd import routine
from trajopt.backward.backward_pass import sweep
from trajopt.backward.expansions import Expansion
from trajopt.optimality.kkt_point import Held, KKTPoint, active_rows

# --------------------------------------------------------------------------------------------
# The Hessian of a linear-quadratic problem, factored by one sweep, and its solutions by two vector sweeps.
#
#     minimize over (dx, du)   sum 1/2 z'H z + g'z,   z = (dx, du),      dx_0 = F_0,   dx' = fx dx + fu du + F'
#
#     s_N = gx_N;   w = s' + Vxx'F';   q = gu + fu'w;   k = - Quu^-1 q;   s = gx + fx'w + Qux'k
#     dx_0 = F_0;   du = k + K dx;   dx' = fx dx + fu du + F';   dlam = s + Vxx dx
#
# Right-hand sides are matrices, with a column for each; clamped controls have du = 0.


class Factor(NamedTuple):
    """fx (N, n, n), fu (N, n, m), gains K (N, m, n), Vxx (N+1, n, n), Qux (N, m, n), L (N, m, m) with L L' = Quu."""

    fx: np.ndarray
    fu: np.ndarray
    K: np.ndarray
    Vxx: np.ndarray
    Qux: np.ndarray
    L: np.ndarray

    @property
    def log_determinant(self) -> float:
        """log det of the reduced Hessian: the sum of those of Quu; clamped controls have pivots of 1."""
        return 2.0 * float(np.log(np.diagonal(self.L, axis1=1, axis2=2)).sum())


def without_clamped(e: Expansion, clamped: np.ndarray) -> Expansion:
    """The expansion in which clamped controls (N, nu) have no effect and curvature 1."""
    held = clamped != 0
    if not held.any():
        return e
    fu, lux, luu = e.fu.copy(), e.lux.copy(), e.luu.copy()
    fu[np.broadcast_to(held[:, None], fu.shape)] = 0.0
    lux[held] = 0.0
    luu[held] = 0.0
    luu.swapaxes(1, 2)[held] = 0.0
    knots, which = np.nonzero(held)
    luu[knots, which, which] = 1.0
    return e._replace(fu=fu, lux=lux, luu=luu)


def factorized(e: Expansion) -> Factor | int:
    """The factor of a linear-quadratic problem (`without_clamped`), or the knot where Quu is not positive definite."""
    zero = e._replace(lx=np.zeros_like(e.lx), lu=np.zeros_like(e.lu))
    result = sweep(zero, 0.0)
    if not result.ok:
        return result.failed_knot
    V = result.Vxx[1:]
    Quu = e.luu + e.fu.swapaxes(1, 2) @ V @ e.fu
    Quu = 0.5 * (Quu + Quu.swapaxes(1, 2))
    try:
        L = np.linalg.cholesky(Quu)
    except np.linalg.LinAlgError:
        bad = [t for t in range(len(Quu)) if np.linalg.eigvalsh(Quu[t])[0] <= 0.0]
        return bad[-1] if bad else 0
    return Factor(e.fx, e.fu, result.K, result.Vxx, -Quu @ result.K, L)


@routine
def _add_product(A, x, y):
    """y += A x,  A (a, b), x (b, P), y (a, P); for one column, four rows at a time, with independent sums."""
    four = A.shape[0] - A.shape[0] % 4 if x.shape[1] == 1 else 0
    for i in range(0, four, 4):
        y0, y1, y2, y3 = y[i, 0], y[i + 1, 0], y[i + 2, 0], y[i + 3, 0]
        for j in range(A.shape[1]):
            c = x[j, 0]
            y0 += A[i, j] * c
            y1 += A[i + 1, j] * c
            y2 += A[i + 2, j] * c
            y3 += A[i + 3, j] * c
        y[i, 0], y[i + 1, 0], y[i + 2, 0], y[i + 3, 0] = y0, y1, y2, y3
    for i in range(four, A.shape[0]):
        for j in range(A.shape[1]):
            c = A[i, j]
            if c != 0.0:
                for p in range(x.shape[1]):
                    y[i, p] += c * x[j, p]


@routine
def _solve_negative(L, q):
    """Solve in place: q <- - (L L')^-1 q."""
    m = L.shape[0]
    for i in range(m):
        for j in range(i):
            for p in range(q.shape[1]):
                q[i, p] -= L[i, j] * q[j, p]
        for p in range(q.shape[1]):
            q[i, p] /= L[i, i]
    for i in range(m - 1, -1, -1):
        for j in range(i + 1, m):
            for p in range(q.shape[1]):
                q[i, p] -= L[j, i] * q[j, p]
        for p in range(q.shape[1]):
            q[i, p] /= L[i, i]
    for i in range(m):
        for p in range(q.shape[1]):
            q[i, p] = -q[i, p]


@routine
def _vector_sweeps(fx, fu, K, Vxx, Qux, L, gx, gu, F, w, dx, du, dlam):
    N = fu.shape[0]
    dlam[:] = gx
    du[:] = gu
    for t in range(N - 1, -1, -1):
        w[:] = dlam[t + 1]
        _add_product(Vxx[t + 1], F[t + 1], w)
        _add_product(fu[t].T, w, du[t])
        _solve_negative(L[t], du[t])
        _add_product(fx[t].T, w, dlam[t])
        _add_product(Qux[t].T, du[t], dlam[t])
    dx[:] = F
    for t in range(N):
        _add_product(Vxx[t], dx[t], dlam[t])
        _add_product(K[t], dx[t], du[t])
        _add_product(fx[t], dx[t], dx[t + 1])
        _add_product(fu[t], du[t], dx[t + 1])
    _add_product(Vxx[N], dx[N], dlam[N])


class RiccatiStep(NamedTuple):
    """Solutions, a column each: dx (N+1, n, P), du (N, m, P), dlam (N+1, n, P)."""

    dx: np.ndarray
    du: np.ndarray
    dlam: np.ndarray


def solved(f: Factor, gx: np.ndarray, gu: np.ndarray, F: np.ndarray) -> RiccatiStep:
    """dx, du, dlam for gx (N+1, n, P), gu (N, m, P), zero for clamped controls, and F (N+1, n, P)."""
    dx, du, dlam, w = np.empty_like(F), np.empty_like(gu), np.empty_like(gx), np.empty(gx.shape[1:])
    _vector_sweeps(*f, gx, gu, F, w, dx, du, dlam)
    return RiccatiStep(dx, du, dlam)


RAISE, LARGEST = 10.0, 1e14
"""Factor from one penalty to the next one tried; largest penalty in units of the least one."""
TOLERANCE, MOST = 1e-13, 200
"""Relative tolerance, and largest number of steps, of conjugate gradients."""
SINGULAR = 1e-12
"""Rows are linearly dependent where p'S p is below this fraction of |p|^2 / rho."""


class RightHandSide(NamedTuple):
    """Right-hand sides, a column each: gx (N+1, n, P), gu (N, m, P), F (N+1, n, P), c (A, P), held (N, m, P), zero
    where not clamped."""

    gx: np.ndarray
    gu: np.ndarray
    F: np.ndarray
    c: np.ndarray
    held: np.ndarray


class KKTStep(NamedTuple):
    """Solutions, a column each: dx (N+1, n, P), du (N, m, P), dlam (N+1, n, P), dnu (A, P)."""

    dx: np.ndarray
    du: np.ndarray
    dlam: np.ndarray
    dnu: np.ndarray


class Indefinite(Exception):
    """Raised if the reduced Hessian is not positive definite; `knot`: the last such knot."""

    def __init__(self, knot: int) -> None:
        super().__init__(knot)
        self.knot = knot


class KKTSystem:
    """The factored KKT system of a point; raises Indefinite where it is no strict minimum of second order."""

    def __init__(self, point: KKTPoint, held: Held | None = None) -> None:
        self.point, self.held = point, point.held if held is None else held
        self.e, self.free = point.e, self.held.controls == 0
        self.masked = without_clamped(point.e, self.held.controls)
        self.active = active_rows(point, self.held.rows, self.held.controls)
        self.penalty, self.factor = self._factor()

    # -------------------------------------------------------------------------------------------- the factor
    def _factor(self) -> tuple[float, Factor]:
        """The penalty and its factor: the smallest penalty, to a factor of RAISE, with which the factor is positive
        definite."""
        A, scale, rho = self.active, self.point.scale, 0.0
        if len(A.index):
            rho = self.point.penalty or scale
        found, least = factorized(A.with_terms_in(self.masked, rho)), rho
        while not isinstance(found, Factor):
            rho *= RAISE
            if not 0.0 < rho <= LARGEST * scale:
                raise Indefinite(found)
            found = factorized(A.with_terms_in(self.masked, rho))
        while rho == least and rho > scale:
            smaller = factorized(A.with_terms_in(self.masked, rho / RAISE))
            if not isinstance(smaller, Factor):
                break
            rho, found = rho / RAISE, smaller
            least = rho
        return rho, found

    # -------------------------------------------------------------------------------------------- solutions
    def solve(self, rhs: RightHandSide) -> KKTStep:
        """The solution of all columns, with one step of refinement."""
        step = self._once(rhs)
        return KKTStep(*(a + b for a, b in zip(step, self._once(self._residual(rhs, step)), strict=True)))

    def residual(self, rhs: RightHandSide, step: KKTStep) -> float:
        """Largest residual of the equations, relative to the largest entry of the right-hand side."""
        size, left = (max(float(np.abs(part).max(initial=0.0)) for part in r) for r in (rhs, self._residual(rhs, step)))
        return left / (size or 1.0)

    def _once(self, rhs: RightHandSide) -> tuple[np.ndarray, ...]:
        e, A = self.e, self.active
        gx, gu, F, c, held = rhs
        free = self.free[:, :, None]
        if held.any():
            gx, F = gx.copy(), F.copy()
            gx[:-1] += e.lux.swapaxes(1, 2) @ held
            F[1:] += e.fu @ held
            gu = gu + e.luu @ held
            if len(c):
                c = c + A.along(np.zeros_like(gx), held)
        gu = np.where(free, gu, 0.0)
        dnu = np.zeros_like(c)
        if len(c):
            dz = self._augmented_solution(gx, gu, F, self.penalty * c)
            dnu, _ = self._conjugate_gradients(A.along(dz.dx, dz.du) + c)
            dz = self._augmented_solution(gx, gu, F, self.penalty * c + dnu)
            dnu = dnu + self.penalty * (A.along(dz.dx, dz.du) + c)
        else:
            dz = solved(self.factor, gx, gu, F)
        return dz.dx, dz.du + held, dz.dlam, dnu

    def _augmented_solution(self, gx, gu, F, y):
        """Solution with C'y added to the gradient."""
        gx, gu = gx.copy(), gu.copy()
        self.active.add_transposed(y, gx, gu)
        gu[~self.free] = 0.0
        return solved(self.factor, gx, gu, F)

    def _conjugate_gradients(self, r: np.ndarray) -> tuple[np.ndarray, bool]:
        """y with S y = r, columns (A, P); True if no direction with S p = 0 was met."""
        N, n, m, _ = self.sizes
        gx, gu, F = (np.zeros((*shape, r.shape[1])) for shape in ((N + 1, n), (N, m), (N + 1, n)))
        y, p, regular, rr = np.zeros_like(r), r.copy(), True, (r * r).sum(axis=0)
        start, live = rr.copy(), rr > 0.0
        for _ in range(MOST):
            if not live.any():
                break
            step = self._augmented_solution(gx, gu, F, p)
            Sp = -self.active.along(step.dx, step.du)
            pSp, pp = (p * Sp).sum(axis=0), (p * p).sum(axis=0)
            flat = live & (pSp * self.penalty <= SINGULAR * pp)
            regular, live = regular and not flat.any(), live & ~flat
            alpha = np.where(live, rr / np.where(live, pSp, 1.0), 0.0)
            y += alpha * p
            r = r - alpha * Sp
            new = (r * r).sum(axis=0)
            beta = np.where(live, new / np.where(live, rr, 1.0), 0.0)
            rr, live = new, live & (new > TOLERANCE**2 * start)
            p = r + beta * p
        return y, regular

    @cached_property
    def independent(self) -> bool:
        """True if the active rows are linearly independent, by S along a vector in general position."""
        count = len(self.active.index)
        return count == 0 or self._conjugate_gradients(np.cos(np.arange(1.0, count + 1.0))[:, None])[1]

    def _residual(self, rhs: RightHandSide, step: tuple[np.ndarray, ...]) -> RightHandSide:
        """Residual of the equations, as the right-hand side of a correction."""
        e, A = self.e, self.active
        dx, du, dlam, dnu = step
        gx, gu = rhs.gx - dlam, rhs.gu.copy()
        gx += e.lxx @ dx
        gx[:-1] += e.lux.swapaxes(1, 2) @ du + e.fx.swapaxes(1, 2) @ dlam[1:]
        gu += e.lux @ dx[:-1] + e.luu @ du + e.fu.swapaxes(1, 2) @ dlam[1:]
        A.add_transposed(dnu, gx, gu)
        gu[~self.free] = 0.0
        F = rhs.F - dx
        F[1:] += e.fx @ dx[:-1] + e.fu @ du
        c = rhs.c + A.along(dx, du) if len(rhs.c) else rhs.c
        return RightHandSide(gx, gu, F, c, np.where(self.free[:, :, None], 0.0, rhs.held - du))

    def gradient(self, gu: np.ndarray, step: KKTStep) -> np.ndarray:
        """Change of the gradient gu + lux dx + luu du + fu'dlam' + Cu'dnu (N, m, P) by a step; nonzero at clamped
        controls."""
        e, total = self.e, gu.copy()
        total += e.lux @ step.dx[:-1] + e.luu @ step.du + e.fu.swapaxes(1, 2) @ step.dlam[1:]
        self.active.add_transposed(step.dnu, np.zeros_like(step.dx), total)
        return np.where(self.free[..., None], 0.0, total)

    def of_all_rows(self, dnu: np.ndarray) -> np.ndarray:
        """Values of active rows (A, P) placed among all rows (R, P), zero elsewhere."""
        total = np.zeros((len(self.point.nu), dnu.shape[1]))
        total[self.active.index] = dnu
        return total

    def along_all_rows(self, step: KKTStep) -> np.ndarray:
        """C (dx, du) (R, P) of all rows, active or not."""
        every = np.ones(len(self.point.nu), np.int8)
        return active_rows(self.point, every, self.held.controls).along(step.dx, step.du)

    @cached_property
    def sizes(self) -> tuple[int, int, int, int]:
        """N, n, m and the number of active rows A."""
        N, n, m = self.e.fu.shape
        return N, n, m, len(self.active.index)

    def zeros(self, columns: int) -> RightHandSide:
        """A right-hand side of zeros."""
        N, n, m, A = self.sizes
        shapes = (N + 1, n), (N, m), (N + 1, n), (A,), (N, m)
        return RightHandSide(*(np.zeros((*shape, columns)) for shape in shapes))
