"""Motions by scipy's stiff solvers with the exact Jacobian, closed chains held by Baumgarte's method (index 1)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from scipy.integrate import BDF, OdeSolver
from scipy.linalg import lu_factor, lu_solve

from dynamics.rods.kinematics.charts import SQUARE
from dynamics.rods.model.arrays import FIRST, MASS_MATRIX
from dynamics.rods.stepping.plant import Report, RodPlant, Run, State, failure, finite
from dynamics.simd import factorize_dense, routine, solve_dense

FARTHEST_STEP = 1.5
"""rad: from within the limit of a chart no step comes near 2 pi."""


class _StateSpace:
    """x' = [v_f; a_f(q, v, u(t))] for x = [q_f; v_f] of the free coordinates, and its Jacobian."""

    def __init__(self, plant: RodPlant):
        self.plant, self.free = plant, plant.prescribed.free
        self._turning = [np.searchsorted(self.free, joint[joint >= 0]) for joint in plant.turns[:, :3]]

    def coordinates(self, t: float, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """q, v (K, n) of states (2 F, K)."""
        K, F, p = x.shape[1], len(self.free), self.plant.prescribed.coordinates
        q, v = np.zeros((2, K, self.plant.robot.nq))
        q[:, self.free], v[:, self.free] = x[:F].T, x[F:].T
        if len(p):
            values = self.plant.prescribed.values(t)
            q[:, p], v[:, p] = values[0], values[1]
        return q, v

    def rates(self, t: float, x: np.ndarray) -> np.ndarray:
        """x' (2 F, K)."""
        q, v = self.coordinates(t, x)
        if len(q) > 1 and not self.plant.constrained:  # knots in lanes
            a = self.plant.robot._accelerations(MASS_MATRIX, self.plant.states(t, q, v))[0]
        else:
            a = self.plant.motion(MASS_MATRIX, t, q, v).a
        return np.vstack([x[len(self.free) :], a[:, self.free].T])

    def longest_step(self, x: np.ndarray) -> float:
        """By which joints that turn about any axis turn by no more than FARTHEST_STEP."""
        return FARTHEST_STEP / (np.sqrt(self._largest_square(x[len(self.free) :])) + 1e-300)

    def _largest_square(self, x: np.ndarray) -> float:
        """Of the angular parts of joints that turn about any axis, in coordinates x (F,) or rates."""
        return max(float(w @ w) for w in (x[places] for places in self._turning))

    def in_chart(self, t: float, x: np.ndarray) -> np.ndarray | None:
        """The state x (2 F,) with joints beyond the limit in their other chart; None where there are none."""
        if not self._largest_square(x) > SQUARE:
            return None
        state = np.concatenate(self.coordinates(t, x[:, None]))
        return self.plant.in_chart(state)[:, self.free].ravel()

    def jacobian(self, t: float, x: np.ndarray) -> np.ndarray:
        """dx'/dx (2 F, 2 F)."""
        F, J = len(self.free), np.zeros((2 * len(self.free),) * 2)
        J[:F, F:] = np.eye(F)
        q, v = self.coordinates(t, x[:, None])
        derivatives, free = self.plant.motion(FIRST, t, q, v).derivatives[0, :F], [*self.free, *(q.size + self.free)]
        J[F:] = derivatives[:, free]
        if self.plant.policy is not None:
            along = np.eye(2 * q.size)[:, free]
            J[F:] += derivatives[:, 2 * q.size :] @ self.plant.gain(t, np.concatenate([q[0], v[0]]), along)
        return J if np.isfinite(J).all() else np.nan_to_num(J, posinf=0.0, neginf=0.0)  # nor are the rates: no step


class _Factors(NamedTuple):
    """Of [a I, b I; C, D] for states [q; v]: a, b, C / a, and L, U and pivots of D - b C / a."""

    a: complex
    b: complex
    C: np.ndarray
    LU: np.ndarray
    pivots: np.ndarray


def _factors(A: np.ndarray) -> _Factors:
    """Of A (2 F, 2 F) = m I - J, J the Jacobian of [v; a(q, v)]; on one thread: BLAS shares matrices of this size out,
    and waits.  Complex matrices, which Radau has besides, are left to it all the same."""
    F = len(A) // 2
    a, b, C = A[0, 0], A[0, F], A[F:, :F] / A[0, 0]
    LU, pivots = A[F:, F:] - b * C, np.empty(F, np.int64)
    if np.iscomplexobj(LU):
        LU, pivots = lu_factor(LU, overwrite_a=True)
    else:
        _factorize(LU, pivots)
    return _Factors(a, b, C, LU, pivots)


def _solution(factors: _Factors, r: np.ndarray) -> np.ndarray:
    """A^-1 r."""
    F = len(factors.pivots)
    v = r[F:] - factors.C @ r[:F]
    if np.iscomplexobj(factors.LU):
        v = lu_solve((factors.LU, factors.pivots), v)
    else:
        _solve(factors.LU, factors.pivots, v[:, None])
    return np.concatenate([(r[:F] - factors.b * v) / factors.a, v])


@routine
def _factorize(A, pivots):
    factorize_dense(A, pivots)


@routine
def _solve(A, pivots, X):
    solve_dense(A, pivots, X)


def stiff_motion(
    plant: RodPlant,
    duration: float,
    start: State,
    method: type[OdeSolver],
    dt: float | None,
    options: Mapping[str, float],
    jacobian: bool,
    report: Report,
) -> Run:
    """Times, q, v, steps, evaluations, Jacobians, reactions of the solver `method` of scipy with these options."""
    space = _StateSpace(plant)
    x = np.concatenate([start[0][space.free], start[1][space.free]])
    finite(plant, 0.0, start[0], space.rates(0.0, x[:, None]))
    jac = space.jacobian if jacobian else None

    def solver_from(t: float, x: np.ndarray, **first_step: float) -> OdeSolver:
        solver = method(space.rates, t, x, duration, jac=jac, vectorized=True, **options, **first_step)
        solver.lu, solver.solve_lu = _factors, _solution
        if isinstance(solver, BDF):
            solver.D[2:] = 0.0  # what scipy leaves there is overwritten before it counts, but may be NaN, and warn
        return solver

    solver = solver_from(0.0, x)
    ts, xs, steps, counts = [0.0], [solver.y], 0, np.zeros(2, np.int64)
    while solver.status == "running":
        if len(plant.turns):
            solver.max_step = min(options.get("max_step", np.inf), space.longest_step(solver.y))
        message = solver.step()
        if solver.status == "failed":
            q = space.coordinates(solver.t, solver.y[:, None])[0]
            raise failure(plant, f"t = {solver.t:.6g} s: {message}", q[0])
        finite(plant, solver.t, solver.y, solver.y)
        steps += 1
        if dt is None:
            ts.append(solver.t)
            xs.append(solver.y)
        else:
            output = solver.dense_output()
            while (t := len(ts) * dt) <= solver.t * (1.0 + 1e-12):
                ts.append(t)
                xs.append(output(min(t, solver.t)))
        report(solver.t)
        inside = space.in_chart(solver.t, solver.y) if len(plant.turns) else None
        if inside is not None and solver.status == "running":
            counts += solver.nfev, solver.njev
            solver = solver_from(solver.t, inside, first_step=min(solver.h_abs, duration - solver.t))
            if dt is None:
                xs[-1] = inside
    states = [space.coordinates(t, x[:, None]) for t, x in zip(ts, xs, strict=True)]
    q, v = (np.concatenate(parts) for parts in zip(*states, strict=True))
    t = np.array(ts)
    counts += solver.nfev, solver.njev
    return t, q, v, steps, int(counts[0]), int(counts[1]), *plant.reactions(t, q, v)
