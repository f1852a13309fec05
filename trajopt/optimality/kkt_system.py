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

from trajopt.optimality.active_rows import active_rows
from trajopt.optimality.kkt_point import Held, KKTPoint
from trajopt.optimality.riccati_factor import Factor, factorized, solved, without_clamped

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
