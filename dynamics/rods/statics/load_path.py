"""The equations of statics as loads grow in proportion to a factor, and the stiffness along shapes that keep chains
closed.

Inputs (controls, external wrenches) and prescribed coordinates p go linearly from what they are at s = 0 to what they
are at s = 1.  With f the free coordinates,

    r_f(q, lambda, s) = 0,    e(q, s) = 0,    J = dr_f/dq_f,    A = de/dq_f,    dr_f/ds = r_f(u1) - r_f(u0) + r_p p'

since r is linear in the inputs.  Coordinates are scaled by moderate changes of each (`coordinate_scales`), and
stiffness is Z'JZ, with Z an orthonormal basis of the null space of A in these units.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dynamics.rods.chains.closures import DEPENDENT
from dynamics.rods.chains.trust_region import ROUNDING
from dynamics.rods.model.arrays import FORCES
from dynamics.rods.model.rod_model import coordinate_scales
from dynamics.rods.robot.prescribed_motion import PrescribedMotion
from dynamics.rods.robot.soft_robot import SoftRobot
from dynamics.rods.statics.newton import CONVERGED, STALLED, Newton, NewtonResult

SYMMETRIC = 1e-9
"""Largest difference of a symmetric stiffness from its transpose, relative to its largest entry."""


class Tangent(NamedTuple):
    """The linearized equations at a point; free coordinates in units of their scales, forces times these, that is,
    energies."""

    r: np.ndarray  # (F,)
    J: np.ndarray  # (F, F)
    r_s: np.ndarray  # (F,)
    e: np.ndarray  # (G,)
    A: np.ndarray  # (G, F)
    e_s: np.ndarray  # (G,)
    multipliers: np.ndarray  # (G,)

    def null_space(self) -> np.ndarray:
        """Z (F, F - rank A)."""
        if not len(self.A):
            return np.eye(len(self.r))
        _, values, rows = np.linalg.svd(self.A)
        return rows[int((values > DEPENDENT * values[0]).sum()) :].T

    def stiffness(self) -> np.ndarray:
        """Z'JZ."""
        if not len(self.A):
            return self.J
        Z = self.null_space()
        return Z.T @ self.J @ Z


def is_symmetric(K: np.ndarray) -> bool:
    """True if the stiffness is symmetric, so that forces are the gradient of an energy."""
    return bool(np.abs(K - K.T).max(initial=0.0) <= SYMMETRIC * np.abs(K).max(initial=0.0))


def stiffness_values(K: np.ndarray) -> np.ndarray:
    """Eigenvalues of a stiffness, ascending; the real ones if it is not symmetric."""
    if is_symmetric(K):
        return np.linalg.eigvalsh(0.5 * (K + K.T))
    values = np.linalg.eigvals(K)
    return np.sort(values[values.imag == 0.0].real)


def negative_directions(K: np.ndarray) -> tuple[int, bool]:
    """The number of negative eigenvalues of a stiffness, and whether all are positive."""
    if not K.size:
        return 0, True
    if not np.isfinite(K).all() or not K.any():
        return 0, False
    if is_symmetric(K):
        d = np.sqrt(np.abs(np.diag(K)) + ROUNDING * np.abs(K).max())
        try:
            np.linalg.cholesky(K / np.outer(d, d) - ROUNDING * np.eye(len(K)))
        except np.linalg.LinAlgError:
            pass
        else:
            return 0, True
    values = stiffness_values(K)
    floor = ROUNDING * np.abs(K).max()
    return int((values < -floor).sum()), bool((values > floor).all())


class LoadPath:
    """A robot, its prescribed motion, and its loads at s = 0 and at s = 1: inputs (nu + 6 W,), prescribed coordinates
    (P,)."""

    def __init__(
        self,
        robot: SoftRobot,
        held: PrescribedMotion,
        inputs: tuple[np.ndarray, np.ndarray],
        values: tuple[np.ndarray, np.ndarray],
    ) -> None:
        self.robot, self.held, self._inputs, self._values = robot, held, inputs, values
        self.scales = coordinate_scales(robot.model)
        self.newton = Newton(robot, held.free)
        self.largest = float((np.diag(robot.model.stiffness) * self.scales**2).max(initial=0.0))

    def inputs(self, s: float) -> np.ndarray:
        """Controls and external wrenches (nu + 6 W,)."""
        start, end = self._inputs
        return end if s == 1.0 else start + s * (end - start)

    def placed(self, q: np.ndarray, s: float) -> np.ndarray:
        """q (n,) with the prescribed coordinates at s."""
        start, end = self._values
        placed = q.copy()
        placed[self.held.coordinates] = end if s == 1.0 else start + s * (end - start)
        return placed

    def solve(
        self, q: np.ndarray, s: float, multipliers: np.ndarray | None, tolerance: float, max_iterations: int
    ) -> tuple[np.ndarray, NewtonResult]:
        """Newton's method from q (n,): the final shape and the result."""
        base = np.zeros((3, len(q)))
        base[0] = self.placed(base[0], s)
        arguments = base, (1.0, 0.0, 0.0), self.inputs(s), q, tolerance, max_iterations, multipliers
        result = self.newton.solve(*arguments, final=True)
        return base[0] + result.z, result

    def at_rest(self, result: NewtonResult, tolerance: float) -> bool:
        """True if Newton's method converged, or ended with a residual within rounding: at shapes that can rotate
        freely, such as a helix between clamps, steps stay as large as rounding makes them."""
        left = np.abs(result.forces * self.scales)[self.held.free].max(initial=0.0)
        return result.status == CONVERGED or (result.status == STALLED and bool(left <= tolerance * self.largest))

    def _states(self, qs: np.ndarray, inputs: np.ndarray, multipliers: np.ndarray | None = None) -> np.ndarray:
        """States (K, .) in the layout of `residual_kernel`, for q (K, n) and inputs (nu + 6 W,) or (K, .)."""
        n, robot = qs.shape[1], self.robot
        states = np.zeros((len(qs), 4 * n + robot.nu + int(robot.arrays.counts[1])))
        states[:, :n], states[:, 4 * n : 4 * n + inputs.shape[-1]] = qs, inputs
        if multipliers is not None:
            states[:, states.shape[1] - len(multipliers) :] = multipliers
        return states

    def forces(self, qs: np.ndarray, s: float) -> np.ndarray:
        """Scaled r_f (K, F) at q (K, n), without multipliers."""
        r = self.robot._residual(FORCES, self._states(qs, self.inputs(s)))[0]
        return (r * self.scales)[:, self.held.free]

    def tangent(self, q: np.ndarray, s: float, multipliers: np.ndarray | None = None) -> Tangent:
        """The linearized equations at q (n,), by default with the multipliers that minimize r."""
        free, p, D = self.held.free, self.held.coordinates, self.scales
        given = np.zeros(self.robot.model.constraint_count) if multipliers is None else multipliers
        r, J, e, A = self._linearized(q, s, given)
        if multipliers is None:
            given = np.linalg.lstsq(A[:, free].T, r[free], rcond=DEPENDENT)[0]
            if len(given):
                r, J, e, A = self._linearized(q, s, given)
        start, end = self._inputs
        r_s = np.zeros(len(q))
        if (end != start).any():
            ends = self.robot._residual(FORCES, self._states(np.array([q, q]), np.array([start, end])))[0]
            r_s = (ends[1] - ends[0]) * D
        rates = (self._values[1] - self._values[0]) / D[p]
        r_s, e_s = r_s + J[:, p] @ rates, A[:, p] @ rates
        return Tangent(r[free], J[np.ix_(free, free)], r_s[free], e, A[:, free], e_s, given)

    def stiffness(self, q: np.ndarray, s: float, multipliers: np.ndarray) -> np.ndarray:
        """Z'JZ at q (n,)."""
        free, none = self.held.free, np.zeros(0)
        r, J, e, A = self._linearized(q, s, multipliers)
        return Tangent(r[free], J[np.ix_(free, free)], none, e, A[:, free], none, multipliers).stiffness()

    def _linearized(self, q: np.ndarray, s: float, multipliers: np.ndarray) -> tuple[np.ndarray, ...]:
        """r (n,), its derivative (n, n), e (G,) and its derivative (G, n), for all coordinates."""
        r, J, e, A = self.newton.linearize(q, self.inputs(s), multipliers)
        return self.scales * r, J * np.outer(self.scales, self.scales), e, A * self.scales
