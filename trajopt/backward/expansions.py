"""Cost of a trajectory, its second-order expansion, and the exact gradient of the cost with respect to the controls."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from dynamics.printed import in_brief
from dynamics.simd import by_address, driver, helper, lean_routine, routine
from dynamics.simd.array_loops import copy
from dynamics.simd.prepared_calls import PreparedCall, PreparedCalls
from dynamics.simd.rows import Term, matrix
from dynamics.simd.squares import Blocks
from dynamics.validation import as_array
from trajopt.capabilities import Expansions, capability
from trajopt.eigenvalues import decompose
from trajopt.interfaces.stepwise import prepare, prepared_difference
from trajopt.interfaces.system import System, idle_knots
from trajopt.matrix_products import row_product
from trajopt.problem.objective import Objective, zero_blocks
from trajopt.problem.problem import Problem, check_problem

HALF_PRECISION = 1e-8
"""Half of the digits of a number: what is smaller, relative to what it is compared with, counts as nothing."""


def finite(*arrays: np.ndarray) -> bool:
    """True if all entries are finite."""
    return all(bool(np.isfinite(array).all()) for array in arrays)


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

    def __repr__(self) -> str:
        return in_brief(self)


def total_cost(problem: Problem, xs: ArrayLike, us: ArrayLike) -> float:
    """J = sum_t dt l(x_t, u_t) + l_N(x_N); inf wherever the trajectory or a cost is not finite.

    Raises TypeError or ValueError for values that are no numbers, or not of the shapes xs (N+1, nx), us (N, nu)."""
    xs, us = checked_trajectory(problem, xs, us)
    return problem.objective.value(xs, us)


def checked_trajectory(problem: Problem, xs: ArrayLike, us: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """xs (N+1, nx) and us (N, nu) as arrays that kernels accept, which do not check shapes; without a copy where
    possible.

    Raises TypeError or ValueError, naming the argument."""
    check_problem(problem)
    N, system = problem.horizon, problem.system
    return as_array("xs", xs, (N + 1, system.nx), finite=False), as_array("us", us, (N, system.nu), finite=False)


def gaps_of(problem: Problem, xs: np.ndarray, us: np.ndarray) -> np.ndarray:
    """Gaps (N+1, ndx) between the states xs and the initial state and dynamics: difference(xs, (x0, f(xs, us))).

    All are NaN if the dynamics are not finite somewhere.
    """
    with np.errstate(all="ignore"):
        following = as_array("step", problem.system.step(xs[:-1], us), xs[1:].shape, finite=False)
        return _up_to(problem.system, xs, np.concatenate([problem.x0[None], following]))


def _up_to(system: System, xs: np.ndarray, reached: np.ndarray) -> np.ndarray:
    """Gaps (N+1, ndx) up to the states that are reached."""
    if not np.isfinite(reached).all():
        return np.full((len(xs), system.ndx), np.nan)
    with np.errstate(all="ignore"):
        return as_array("difference", system.difference(xs, reached), (len(xs), system.ndx), finite=False)


@by_address
def _hide_gaps(reached, gaps):
    """All gaps are NaN if a state that is reached is not finite."""
    good = True
    for t in range(reached.shape[0]):
        for i in range(reached.shape[1]):
            good = good and abs(reached[t, i]) < np.inf
    if not good:
        gaps[:] = np.nan


def prepared_gaps(system: System, x0: np.ndarray, xs: np.ndarray, us: np.ndarray) -> Callable[[], np.ndarray] | None:
    """`gaps_of` with these arrays, as a function without arguments whose result the next call may overwrite; None where
    a system prepares no steps."""
    reached, gaps = np.zeros(xs.shape), np.zeros((len(xs), system.ndx))
    step = prepare(system, "prepared_steps", xs[:-1], us, reached[1:])
    if step is None:
        return None
    reach = PreparedCall(copy, x0, reached[0]), step
    difference = prepared_difference(system, xs, reached, gaps)
    if difference is None:
        return PreparedCalls(*reach, result=lambda: _up_to(system, xs, reached))
    return PreparedCalls(*reach, difference, PreparedCall(_hide_gaps, reached, gaps), result=lambda: gaps)


def expand(
    problem: Problem,
    xs: ArrayLike,
    us: ArrayLike,
    objective: Objective | None = None,
    curvature: Blocks | None = None,
) -> Expansion:
    """Expand dynamics to first and costs to Gauss-Newton second order along xs (N+1, nx), us (N, nu).

    ``objective`` replaces that of the problem; the terms that Gauss-Newton leaves out are added to the Hessians in
    ``curvature``.  Raises TypeError or ValueError for values that are no numbers, or not of these shapes.
    """
    xs, us = checked_trajectory(problem, xs, us)
    system, (N, nu) = problem.system, us.shape
    n = system.ndx
    with np.errstate(all="ignore"):
        dynamics = _checked("linearize", {"fx": (N, n, n), "fu": (N, n, nu)}, system.linearize(xs, us))
    blocks = zero_blocks(N, n, nu)
    (objective or problem.objective).accumulate(xs, us, blocks, curvature)
    expansion = Expansion(*dynamics, *blocks)
    settle_idle_controls(expansion, idle_knots(system))
    return expansion


def _checked(method: str, shapes: dict[str, tuple[int, ...]], found: Iterable[Any]) -> list[np.ndarray]:
    """What a method of a system returns, its shapes checked."""
    parts = zip(shapes.items(), found, strict=True)
    return [as_array(f"{method}, {name}", part, shape, finite=False) for (name, shape), part in parts]


def write_derivatives(
    system: System,
    xs: np.ndarray,
    us: np.ndarray,
    fx: np.ndarray,
    fu: np.ndarray,
    lam: np.ndarray | None = None,
    *H: np.ndarray,
) -> None:
    """Write what `System.linearize` returns along xs (N+1, nx), us (N, nu) into fx, fu, and with multipliers lam
    (N, ndx) what `System.hessian_products` returns into H; by one evaluation where a system has `write_expansion`."""
    write_expansion = capability(system, Expansions).write_expansion
    with np.errstate(all="ignore"):
        if lam is not None and write_expansion is not None:
            write_expansion(xs, us, lam, fx, fu, *H)
            return
        fx[...], fu[...] = _checked("linearize", {"fx": fx.shape, "fu": fu.shape}, system.linearize(xs, us))
        if lam is not None:
            for into, part in zip(H, hessian_products(system, xs, us, lam), strict=True):
                into[...] = part


def prepared_derivatives(system: System, *arguments: Any) -> Callable[[], Any]:
    """`write_derivatives` with these arguments, as a function without any."""
    found = prepare(system, "prepared_expansion", *arguments)
    return partial(write_derivatives, system, *arguments) if found is None else found


def hessian_products(
    system: System, xs: np.ndarray, us: np.ndarray, lam: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """`System.hessian_products`, with the shapes of its results checked."""
    (N, nu), n = us.shape, system.ndx
    shapes = {"Hxx": (N, n, n), "Hux": (N, nu, n), "Huu": (N, nu, nu)}
    Hxx, Hux, Huu = _checked("hessian_products", shapes, system.hessian_products(xs, us, lam))
    return Hxx, Hux, Huu


@driver
def _settle_idle_controls(knots, fu, luu):
    for t in knots:
        for i in range(luu.shape[1]):
            idle = luu[t, i, i] == 0.0
            for j in range(fu.shape[1]):
                idle = idle and fu[t, j, i] == 0.0
            if idle:
                luu[t, i, i] = 1.0


def settle_idle_controls(expansion: Expansion, knots: np.ndarray) -> None:
    """Set curvature 1 for controls that have neither cost nor effect at these knots, so that Quu is regular."""
    _settle_idle_controls(knots, expansion.fu, expansion.luu)


def prepared_idle_controls(expansion: Expansion, knots: np.ndarray) -> PreparedCall:
    """The call of `settle_idle_controls`."""
    return PreparedCall(_settle_idle_controls, knots, expansion.fu, expansion.luu)


def with_hessians(expansion: Expansion, costs: Blocks | None, dynamics: Blocks | None = None) -> Expansion:
    """The expansion with Hessians added: blocks of the costs, and Hxx, Hux, Huu of N knots from the dynamics."""
    totals = [H.copy() for H in expansion[4:]]
    for i, total in enumerate(totals):
        if costs is not None:
            total += costs[2 + i]
        if dynamics is not None:
            total[: len(dynamics[i])] += dynamics[i]
    return Expansion(*expansion[:4], *totals)


@helper
def _raise_eigenvalues(A, n, H, values, V, e, p):
    """Raise the eigenvalues of H (n, n), of which A is a copy, to a tiny fraction of the largest one.  Of H the upper
    triangle is read and written, values to p are scratch."""
    decompose(A, n, values, V, e, p)
    largest = 0.0
    for k in range(n):
        largest = max(largest, abs(values[k]))
    for k in range(n):
        change = HALF_PRECISION * largest - values[k]
        if change > 0.0:
            for i in range(n):
                x = change * V[k, i]
                for j in range(i, n):
                    H[i, j] += x * V[k, j]


@routine
def _convexify(lxx, lux, luu, matrices, vectors):
    """Replace the Hessians of all knots by their positive parts; room for three matrices and vectors of states and
    controls."""
    N, n, size = lux.shape[0], lux.shape[2], lux.shape[1] + lux.shape[2]
    A, H, V = matrices[0], matrices[1], matrices[2]
    values, e, p = vectors[0], vectors[1], vectors[2]
    for t in range(N + 1):
        used = size if t < N else n
        for i in range(used):
            for j in range(i, used):
                H[i, j] = lxx[t, i, j] if j < n else lux[t, j - n, i] if i < n else luu[t, i - n, j - n]
                A[i, j] = A[j, i] = H[i, j]
        _raise_eigenvalues(A, used, H, values, V, e, p)
        for i in range(used):
            for j in range(i, used):
                if j < n:
                    lxx[t, i, j] = lxx[t, j, i] = H[i, j]
                elif i < n:
                    lux[t, j - n, i] = H[i, j]
                else:
                    luu[t, i - n, j - n] = luu[t, j - n, i - n] = H[i, j]


def convexified(e: Expansion) -> Expansion:
    """The expansion with the positive part of the Hessian of each knot, in its state and control together: eigenvalues
    are at least a tiny fraction of the largest."""
    hessians = e.lxx.copy(), e.lux.copy(), e.luu.copy()
    size = e.lux.shape[1] + e.lux.shape[2]
    _convexify(*hessians, np.empty((3, size, size)), np.empty((3, size)))
    return Expansion(*e[:4], *hessians)


def blended(e: Expansion, other: Expansion, share: float) -> Expansion:
    """The expansion with a convex combination of its Hessians and another's, the latter with weight `share`."""
    if share == 1.0:
        return other
    pairs = zip(e[4:], other[4:], strict=True)
    return Expansion(*e[:4], *[(1.0 - share) * mine + share * its for mine, its in pairs])


def cost_curvature(problem: Problem, xs: ArrayLike, us: ArrayLike) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The terms that the Gauss-Newton Hessian of the costs leaves out: Hxx (N+1, ndx, ndx), Hux (N, nu, ndx),
    Huu (N, nu, nu).

    Raises TypeError or ValueError for values that are no numbers, or not of the shapes xs (N+1, nx), us (N, nu)."""
    xs, us = checked_trajectory(problem, xs, us)
    blocks = zero_blocks(problem.horizon, problem.system.ndx, problem.system.nu)
    problem.objective.accumulate(xs, us, None, blocks)
    return blocks[2], blocks[3], blocks[4]


@driver
def _adjoint(fx, fu, lx, lu, K, costate, gradient):
    N, ndx, nu = fu.shape
    for i in range(ndx):
        costate[N, i] = lx[N, i]
    for t in range(N - 1, -1, -1):
        p = matrix(costate, (t + 1) * ndx, 1)
        by_state, by_control = Term(p, matrix(fx, t * ndx * ndx, ndx), ndx), Term(p, matrix(fu, t * ndx * nu, nu), ndx)
        row_product(0, 0, nu, matrix(gradient, t * nu, nu), matrix(lu, t * nu, nu), (by_control,))
        here, of_costs = matrix(costate, t * ndx, ndx), matrix(lx, t * ndx, ndx)
        if K is None:
            row_product(0, 0, ndx, here, of_costs, (by_state,))
        else:
            by_gains = Term(matrix(gradient, t * nu, 1), matrix(K, t * nu * ndx, ndx), nu)
            row_product(0, 0, ndx, here, of_costs, (by_state, by_gains))


@lean_routine
def largest_gradient_entry(gradient, us, lower, upper):
    """`largest_gradient`, for compiled code; limits without rows where there are none."""
    largest = 0.0
    for t in range(us.shape[0]):
        for i in range(us.shape[1]):
            g = gradient[t, i]
            if lower.shape[0] > 0:
                if (us[t, i] <= lower[t, i] and g > 0.0) or (us[t, i] >= upper[t, i] and g < 0.0):
                    continue
            if not abs(g) < np.inf:
                return np.inf
            largest = max(largest, abs(g))
    return largest


def prepared_adjoint(e: Expansion, costate: np.ndarray, gradient: np.ndarray) -> PreparedCall:
    """The call of `adjoint` that writes costate (N+1, ndx) and gradient (N, nu), without gains."""
    return PreparedCall(_adjoint, e.fx, e.fu, e.lx, e.lu, None, costate, gradient)


def largest_gradient(gradient: np.ndarray, us: np.ndarray, limits: tuple[np.ndarray, np.ndarray] | None) -> float:
    """Largest entry of the gradient (N, nu) that no control limit balances; inf if it is not finite."""
    nothing = np.empty((0, 0))
    return largest_gradient_entry(gradient, us, *(limits or (nothing, nothing)))


def adjoint(expansion: Expansion, K: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Costate lam_t = lx_t + fx'lam_{t+1}, lam_N = lx_N, and gradient g_t = dJ/du_t = lu_t + fu'lam_{t+1}; where
    gains K (N, nu, ndx) feed back, g_t is dJ/d(du_t) of u = us + du + K (x - xs), and lam_t has K'g_t, too.

    Returns: costate (N+1, ndx), gradient (N, nu).
    """
    costate, gradient = np.empty_like(expansion.lx), np.empty_like(expansion.lu)
    _adjoint(expansion.fx, expansion.fu, expansion.lx, expansion.lu, K, costate, gradient)
    return costate, gradient


class Tensors(NamedTuple):
    """Second derivatives of the dynamics for sweeps to contract with their own Vx': fxx (N, ndx, ndx, ndx),
    fux (N, ndx, nu, ndx), fuu (N, ndx, nu, nu), output index first."""

    fxx: np.ndarray
    fux: np.ndarray
    fuu: np.ndarray


NO_TENSORS = tuple(np.empty((0, 0, 0, 0)) for _ in range(3))
"""Tensors of size zero: no curvature."""


@helper
def add_contraction(t, ndx, Vx, tensors, hessians):
    """Add sum_i Vx'_i d2 f_i to the Hessians lxx, lux and luu of knot t, if there are tensors."""
    if len(tensors[0]) == 0:
        return
    p = matrix(Vx, (t + 1) * ndx, 1)
    for tensor, H in zip(tensors, hessians):  # noqa: B905, numba knows no strict
        width = tensor.shape[2] * tensor.shape[3]
        total = matrix(H, t * width, width)
        row_product(0, 0, width, total, total, (Term(p, matrix(tensor, t * ndx * width, width), ndx),))


def tensors_of(system: System, xs: np.ndarray, us: np.ndarray) -> Tensors:
    """`System.hessians` of all knots, with the shapes of its results checked."""
    (N, nu), n = us.shape, system.ndx
    shapes = {"fxx": (N, n, n, n), "fux": (N, n, nu, n), "fuu": (N, n, nu, nu)}
    return Tensors(*_checked("hessians", shapes, system.hessians(xs, us)))
