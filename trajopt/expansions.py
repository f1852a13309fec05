"""Cost of a trajectory, its second-order expansion, and the exact gradient of the cost in the controls."""

from typing import NamedTuple

import numpy as np

from dynamics.simd import routine
from trajopt.costs import Quadratic
from trajopt.problem import Problem
from trajopt.validation import same_shape


class Expansion(NamedTuple):
    """First-order dynamics and second-order cost along a trajectory; running costs are already multiplied by dt.

    fx (N, ndx, ndx), fu (N, ndx, nu), lx (N+1, ndx), lu (N, nu), lxx (N+1, ndx, ndx), lux (N, nu, ndx),
    luu (N, nu, nu).
    """

    fx: np.ndarray
    fu: np.ndarray
    lx: np.ndarray
    lu: np.ndarray
    lxx: np.ndarray
    lux: np.ndarray
    luu: np.ndarray


def total_cost(problem: Problem, xs: np.ndarray, us: np.ndarray) -> float:
    """J = sum_t dt l(x_t, u_t) + l_N(x_N); inf wherever the trajectory or a cost is not finite."""
    if not (np.isfinite(xs).all() and np.isfinite(us).all()):
        return np.inf
    cost = 0.0
    with np.errstate(all="ignore"):
        for running in problem.running_costs:
            cost += problem.system.dt * float(np.sum(running.value(xs[:-1], us)))
        for terminal in problem.terminal_costs:
            cost += float(np.sum(terminal.value(xs[-1:], None)))
    return cost if np.isfinite(cost) else np.inf


def _zeros(N: int, ndx: int, nu: int) -> tuple[np.ndarray, ...]:
    shapes = (N + 1, ndx), (N, nu), (N + 1, ndx, ndx), (N, nu, ndx), (N, nu, nu)
    return tuple(np.zeros(shape) for shape in shapes)


def _parts(blocks) -> tuple[Quadratic, Quadratic]:
    """The running knots and the terminal knot of lx, lu, lxx, lux, luu, as views."""
    lx, lu, lxx, lux, luu = blocks
    return Quadratic(lx[:-1], lu, lxx[:-1], lux, luu), Quadratic(lx[-1:], None, lxx[-1:], None, None)


def expand(problem: Problem, xs: np.ndarray, us: np.ndarray) -> Expansion:
    """Expand dynamics to first and costs to Gauss-Newton second order along xs (N+1, nx), us (N, nu)."""
    system, N = problem.system, problem.horizon
    with np.errstate(all="ignore"):
        fx, fu = system.linearize(xs, us)
        blocks = _zeros(N, system.ndx, system.nu)
        running, terminal = _parts(blocks)
        for cost in problem.running_costs:
            cost.accumulate(xs[:-1], us, system.dt, running)
        for cost in problem.terminal_costs:
            cost.accumulate(xs[-1:], None, 1.0, terminal)
    return Expansion(
        same_shape("linearize, fx", fx, (N, system.ndx, system.ndx)),
        same_shape("linearize, fu", fu, (N, system.ndx, system.nu)),
        *blocks,
    )


def cost_curvature(problem: Problem, xs: np.ndarray, us: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """What the Gauss-Newton Hessian of the costs leaves out: Hxx (N+1, ndx, ndx), Hux (N, nu, ndx), Huu (N, nu, nu)."""
    blocks = _zeros(problem.horizon, problem.system.ndx, problem.system.nu)
    add_cost_curvature(problem, xs, us, *blocks)
    return blocks[2], blocks[3], blocks[4]


def add_cost_curvature(problem: Problem, xs: np.ndarray, us: np.ndarray, lx, lu, lxx, lux, luu) -> None:
    """Add that to Hessians lxx, lux, luu in place; lx and lu are left alone."""
    running, terminal = _parts((lx, lu, lxx, lux, luu))
    with np.errstate(all="ignore"):
        for cost in problem.running_costs:
            cost.accumulate_curvature(xs[:-1], us, problem.system.dt, running)
        for cost in problem.terminal_costs:
            cost.accumulate_curvature(xs[-1:], None, 1.0, terminal)


@routine
def _adjoint(fx, fu, lx, lu, costate, gradient):
    N, ndx, nu = fu.shape
    for i in range(ndx):
        costate[N, i] = lx[N, i]
    for t in range(N - 1, -1, -1):
        for j in range(nu):
            gradient[t, j] = lu[t, j]
        for j in range(ndx):
            costate[t, j] = lx[t, j]
        for i in range(ndx):
            p = costate[t + 1, i]
            for j in range(nu):
                gradient[t, j] += p * fu[t, i, j]
            for j in range(ndx):
                costate[t, j] += p * fx[t, i, j]


def adjoint(expansion: Expansion) -> tuple[np.ndarray, np.ndarray]:
    """Costate lam_t = lx_t + fx'lam_{t+1}, lam_N = lx_N, and gradient dJ/du_t = lu_t + fu'lam_{t+1}.

    Returns: costate (N+1, ndx), gradient (N, nu).
    """
    costate, gradient = np.empty_like(expansion.lx), np.empty_like(expansion.lu)
    _adjoint(expansion.fx, expansion.fu, expansion.lx, expansion.lu, costate, gradient)
    return costate, gradient
