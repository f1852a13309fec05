"""The whole optimal control problem as one nonlinear program, solved by Newton's method on dense KKT systems.

Unknowns are all states, controls and multipliers at once; no rollout, no recursion.  With defects
d_t = f(x_t, u_t) (-) x_{t+1} and the Lagrangian L = J + sum_t lam_{t+1}'d_t,

    [ H  A' ] [ dz   ]     [ grad_z L ]        z = (dx_1 ... dx_N, u_0 ... u_{N-1})
    [ A  0  ] [ dlam ] = - [ d        ]        A = dd/dz,  H = d2L/dz2 with exact curvature

Steps are taken in the tangent space of each state.  The derivative of a defect in x_{t+1} is taken as -I, which is
exact for Euclidean states and where the defect is zero.  For small problems: the matrices are dense.
"""

from typing import NamedTuple

import numpy as np

from trajopt.backward.expansions import adjoint, cost_curvature, expand
from trajopt.problem.constraints import ResidualConstraint
from trajopt.problem.problem import Problem
from trajopt.results.solution import Solution


class KKTPoint(NamedTuple):
    """xs (N+1, nx), us (N, nu), multipliers lam (N+1, ndx), largest KKT residual, and the residual of every iterate.

    The first multiplier belongs to no constraint, as x0 is given; it is left at its initial value.
    """

    xs: np.ndarray
    us: np.ndarray
    lam: np.ndarray
    residual: float
    history: list[float]


def _defects(problem, xs, us):
    f = problem.system
    return np.array([f.difference(xs[t + 1], f.step(xs[t], us[t])) for t in range(problem.horizon)])


def assemble(problem: Problem, xs: np.ndarray, us: np.ndarray, lam: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The KKT matrix and its right-hand side (grad L, d) at any point; lam (N+1, ndx), whose first row is unused."""
    system, N = problem.system, problem.horizon
    n, m = system.ndx, system.nu
    e = expand(problem, xs, us)
    Cxx, Cux, Cuu = cost_curvature(problem, xs, us)
    Hxx, Hux, Huu = system.hessian_products(xs, us, np.ascontiguousarray(lam[1:]))
    states, controls = N * n, N * m
    H = np.zeros((states + controls, states + controls))
    A = np.zeros((states, states + controls))
    gradient = np.zeros(states + controls)

    def x(t):  # where dx_t lies, t = 1 ... N
        return slice((t - 1) * n, t * n)

    def u(t):
        return slice(states + t * m, states + (t + 1) * m)

    for t in range(N):
        row = x(t + 1)
        A[row, row] = -np.eye(n)
        A[row, u(t)] = e.fu[t]
        H[u(t), u(t)] = e.luu[t] + Cuu[t] + Huu[t]
        gradient[u(t)] = e.lu[t] + e.fu[t].T @ lam[t + 1]
        if t > 0:
            A[row, x(t)] = e.fx[t]
            H[x(t), x(t)] = e.lxx[t] + Cxx[t] + Hxx[t]
            H[u(t), x(t)] = e.lux[t] + Cux[t] + Hux[t]
            H[x(t), u(t)] = H[u(t), x(t)].T
            gradient[x(t)] = e.lx[t] + e.fx[t].T @ lam[t + 1] - lam[t]
    H[x(N), x(N)] = e.lxx[N] + Cxx[N]
    gradient[x(N)] = e.lx[N] - lam[N]
    matrix = np.block([[H, A.T], [A, np.zeros((states, states))]])
    return matrix, np.concatenate([gradient, _defects(problem, xs, us).ravel()])


def costate(problem: Problem, xs: np.ndarray, us: np.ndarray) -> np.ndarray:
    """Multipliers (N+1, ndx) that make L stationary in the states."""
    return adjoint(expand(problem, xs, us))[0]


def kkt_residual(problem: Problem, xs: np.ndarray, us: np.ndarray, lam: np.ndarray | None = None) -> float:
    """Largest entry of (grad L, d), with the costate as multiplier if none is given; the start must be x0."""
    lam = costate(problem, xs, us) if lam is None else lam
    _, rhs = assemble(problem, xs, us, lam)
    start = np.abs(problem.system.difference(problem.x0, xs[0])).max()
    return float(max(np.abs(rhs).max(), start))


def solve(problem: Problem, xs: np.ndarray, us: np.ndarray, tolerance: float = 1e-10, steps: int = 30) -> KKTPoint:
    """Newton's method from a nearby point, full steps, until the residual is within the tolerance or steps run out."""
    system, N = problem.system, problem.horizon
    n, m = system.ndx, system.nu
    xs, us, lam = xs.copy(), us.copy(), costate(problem, xs, us)
    history = []
    for _ in range(steps + 1):
        matrix, rhs = assemble(problem, xs, us, lam)
        history.append(float(np.abs(rhs).max()))
        if history[-1] <= tolerance or not np.isfinite(history[-1]):
            break
        step = np.linalg.solve(matrix, -rhs)
        dx, du = step[: N * n].reshape(N, n), step[N * n : N * (n + m)].reshape(N, m)
        xs[1:] = [system.integrate(x, d) for x, d in zip(xs[1:], dx, strict=True)]
        us += du
        lam[1:] += step[N * (n + m) :].reshape(N, n)
    return KKTPoint(xs, us, lam, history[-1], history)


class Stationarity(NamedTuple):
    """Second-order conditions at the end of a solve under constraints r in [lower, upper] with multipliers mu.

    gradient: largest entry of that of L + sum mu'r in the controls; curvature: smallest eigenvalue of its Hessian in
    the directions that keep dynamics and active constraints, to first order.
    """

    gradient: float
    curvature: float


def stationarity(solution: Solution) -> Stationarity:
    """Of a solution with its own multipliers of the constraints; those of the dynamics are found here."""
    problem, xs, us = solution.problem, solution.xs, solution.us
    n, N = problem.system.ndx, problem.horizon
    states = N * n
    matrix, rhs = assemble(problem, xs, us, np.zeros((N + 1, n)))
    A, gradient = matrix[len(rhs) - states :, : len(rhs) - states], rhs[:-states]
    rows, slope, curvature = _constraint_terms(solution)
    gradient += slope
    lam = np.linalg.solve(A[:, :states].T, -gradient[:states])
    H = assemble(problem, xs, us, np.vstack([np.zeros(n), lam.reshape(N, n)]))[0][: len(slope), : len(slope)]
    Z = np.vstack([-np.linalg.solve(A[:, :states], A[:, states:]), np.eye(len(slope) - states)])
    _, values, directions = np.linalg.svd(rows @ Z)
    kept = Z @ directions[np.count_nonzero(values > 1e-10 * values[0]) :].T
    spectrum = np.linalg.eigvalsh(kept.T @ (H + curvature) @ kept)
    return Stationarity(float(np.abs(Z.T @ gradient).max()), float(spectrum[0]))


def _constraint_terms(solution: Solution) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Derivatives of the active rows, and gradient and Hessian of sum mu'r, in (dx_1 ... dx_N, u_0 ... u_{N-1}).

    Constraints are limits of controls, or on residuals of states after the first.
    """
    system, N = solution.problem.system, solution.problem.horizon
    n, m = system.ndx, system.nu
    size = N * (n + m)
    rows, slope, curvature = [], np.zeros(size), np.zeros((size, size))
    for report, constraint in zip(solution.constraints, solution.problem.constraints, strict=True):
        for t, mu in zip(report.knots, report.multipliers, strict=True):
            J = np.zeros((len(mu), size))
            if isinstance(constraint, ResidualConstraint):
                x, state = slice((t - 1) * n, t * n), solution.xs[t : t + 1]
                J[:, x] = constraint.residual.jacobians(state, None)[0][0]
                bent = constraint.residual.hessian_products(state, None, mu[None])[0]
                curvature[x, x] += 0.0 if bent is None else bent[0]
            else:
                J[:, N * n + t * m : N * n + (t + 1) * m] = np.eye(m)
            slope += mu @ J
            rows += list(J[mu != 0.0])
    return np.array(rows), slope, curvature
