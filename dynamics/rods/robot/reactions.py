"""Constraint forces of a soft robot in motion: multipliers of closed chains, and forces that drive prescribed joints.

At the solution of the equations of `constrained_dynamics`, prescribed coordinates p with given accelerations and free
ones f, all derivatives have the same matrix,                                                    [GVS, eqs. 43 - 47]

    [M_ff -A_f'; A_f 0] [da_f; dlambda] = - [dr_f + M_fp da_p; A'' dq + 2 A' dv + A_p da_p]

    dr = r_q dq + r_v dv - B du,        d(forces) = dr_p + M_pp da_p + M_pf da_f - A_p'dlambda
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from dynamics.algorithms.batch import unbatch
from dynamics.printed import in_brief
from dynamics.rods.chains.closures import check_independence
from dynamics.rods.chains.constrained_dynamics import constrained_motion
from dynamics.rods.kinematics.rotations import check_turns
from dynamics.rods.model.arrays import FIRST, MASS_MATRIX
from dynamics.rods.recursion.blocks import BLOCKS
from dynamics.rods.recursion.residual_kernel import residual_kernel, residual_work, result_size
from dynamics.rods.robot.prescribed_motion import PrescribedMotion, prescribed_values
from dynamics.rods.robot.soft_robot import SoftRobot
from dynamics.simd import by_reference, routine, span
from dynamics.validation import as_kind

T = TypeVar("T")


class Reactions(NamedTuple):
    """Accelerations a (n,), multipliers (G,) of closed chains, N and N m, and forces (dof,), N or N m, that drive
    prescribed joints, by name of link; with a leading axis for K points (K, .), and in derivatives a trailing one (.,
    Z) for Z variables."""

    a: np.ndarray
    multipliers: np.ndarray
    forces: Mapping[str, np.ndarray]

    def __repr__(self) -> str:
        return in_brief(self)


class ReactionDerivatives(NamedTuple):
    """First derivatives of `Reactions` in q and v (n columns each), in u (nu), and in the accelerations of prescribed
    coordinates (P), in the order in which they were given."""

    dq: Reactions
    dv: Reactions
    du: Reactions
    dprescribed: Reactions

    def __repr__(self) -> str:
        return in_brief(self)


def reactions(
    robot: SoftRobot,
    q: ArrayLike,
    v: ArrayLike,
    u: ArrayLike,
    prescribed: Mapping[str, ArrayLike] | None = None,
    wrenches: ArrayLike | None = None,
) -> Reactions:
    """Accelerations, with the forces that keep chains closed and drive prescribed joints.

    Parameters
    ----------
    robot : SoftRobot
    q, v : (n,) or (K, n);  u : (nu,) or (K, nu); single points are repeated
    prescribed : accelerations of joints with prescribed coordinates, a number or (dof,), by name of link
    wrenches : (W, 6) or (K, W, 6), [moment; force] of the external loads that take one; by default zero

    Returns
    -------
    Reactions(a, multipliers, forces).  In M a + ... = B u + A'multipliers, a multiplier is the force conjugate to its
    row of `closure_error`; A is `closure_jacobian`.

    Raises
    ------
    ValueError : a wrong shape, a number that is not finite, an unknown link; a configuration at which the constraints
        are dependent; `reaction_derivatives` raises the same.

    Examples
    --------
    >>> builder = rods.RodModelBuilder()
    >>> silicone = rods.Elastic(young=1e6, poisson=0.5, density=1000.0)
    >>> hinge = dynamics.Revolute("y")
    >>> bends = rods.LegendreBasis(bending_y=2)
    >>> builder.add_rod("arm", "world", 0.3, rods.Circular(0.02), silicone, bends, joint=hinge)
    >>> held = rods.reactions(rods.SoftRobot(builder.build()), np.zeros(4), np.zeros(4), [], {"arm": 0.0})
    >>> held.forces["arm"].round(3)  # N m that keep the hinge still as the straight arm begins to bend
    array([-0.012])
    """
    single, _, held, motion = _solved(robot, q, v, u, prescribed, wrenches)
    a, multipliers, forces = unbatch(single, motion.a.copy(), motion.multipliers.copy(), motion.forces)
    return Reactions(a, multipliers, held.of_links(forces))


def reaction_derivatives(
    robot: SoftRobot,
    q: ArrayLike,
    v: ArrayLike,
    u: ArrayLike,
    prescribed: Mapping[str, ArrayLike] | None = None,
    wrenches: ArrayLike | None = None,
) -> ReactionDerivatives:
    """First derivatives of `reactions`, with its parameters.

    Returns
    -------
    ReactionDerivatives(dq, dv, du, dprescribed), each Reactions with one axis more: a (n, Z), multipliers (G, Z),
    forces (dof, Z); for K points (K, ., Z).
    """
    single, states, held, _ = _solved(robot, q, v, u, prescribed, wrenches)
    n, nu, P = robot.nq, robot.nu, len(held.coordinates)
    parts = [_changes(robot, held, own) for own in _linearized(robot, states)]
    a, multipliers, forces = unbatch(single, *(np.array(part) for part in zip(*parts, strict=True)))
    return ReactionDerivatives(*by_variable(Reactions, (n, n, nu, P), a, multipliers, forces, held))


def _solved(robot, q, v, u, prescribed, wrenches):
    """True for a single point, the states with the solution in them, the prescribed motion, and the
    result of `constrained_motion`."""
    model = as_kind("robot", robot, SoftRobot).model
    single, states = robot._states(wrenches, q=q, v=v, u=u)
    n, held = robot.nq, prescribed_values(model, prescribed)
    p = held.coordinates
    check_independence(model, states[:, :n], "q", held.free)
    states[:, 2 * n + p] = held.values(0.0)[0]
    motion = constrained_motion(model, robot.arrays, MASS_MATRIX, states, held.free, 0.0)
    bad = np.flatnonzero(~np.isfinite(motion.a).all(axis=1))
    if len(bad):
        check_turns(model, states[:, :n], "q")
        states[:, 2 * n : 3 * n], states[:, states.shape[1] - model.constraint_count :] = 0.0, 0.0
        raise robot._no_acceleration(bad[0], robot._residual(MASS_MATRIX, states[bad[:1]])[3][0])
    return single, states, held, motion


@routine
def _linearize(m, e, level, states, work, r, results):
    m, e = by_reference(m), by_reference(e)
    for t in range(states.shape[0]):
        residual_kernel(m, e, level, span(states[t]), span(work), span(r), span(results[t]))


class _Linearized(NamedTuple):
    """Linearization at one point: r_q, r_v, M (n, n), B (n, nu), A, A', A'' (G, n)."""

    dq: np.ndarray
    dv: np.ndarray
    M: np.ndarray
    B: np.ndarray
    A: np.ndarray
    A_rate: np.ndarray
    A_rate_2: np.ndarray


def _linearized(robot: SoftRobot, states: np.ndarray) -> list[_Linearized]:
    m, e, n, nu, G = robot.model.arrays, robot.arrays, robot.nq, robot.nu, robot.model.constraint_count
    results = np.empty((len(states), result_size(m, e)))
    _linearize(m, e, FIRST, states, np.empty(residual_work(robot.model)), np.empty(n), results)
    points, rows = [], BLOCKS * n * n
    for own in results:
        A, A_rate, A_rate_2 = own[rows + 2 * n * nu + 3 * G :][: 3 * G * n].reshape(3, G, n)
        dq, dv, M = own[: 3 * n * n].reshape(3, n, n)
        points.append(_Linearized(dq, dv, M, own[rows : rows + n * nu].reshape(n, nu), A, A_rate, A_rate_2))
    return points


def _changes(robot: SoftRobot, held: PrescribedMotion, x: _Linearized) -> tuple[np.ndarray, ...]:
    """Derivatives of a (n, Z), the multipliers (G, Z) and forces (P, Z) in q, v, u and prescribed accelerations."""
    nu, G = robot.nu, len(x.A)
    p = held.coordinates
    dr = np.hstack([x.dq, x.dv, -x.B, x.M[:, p]])
    de = np.hstack([x.A_rate_2, 2.0 * x.A_rate, np.zeros((G, nu)), x.A[:, p]])
    return constrained_changes(held, x.M, x.A, dr, de)


# ------------------------------------------------------------------------------------------------ for equilibria, too
def constrained_changes(
    held: PrescribedMotion, J: np.ndarray, A: np.ndarray, dr: np.ndarray, de: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Changes of unknowns x (n, Z), multipliers (G, Z) and forces (P, Z) of prescribed joints, where r changes by
    J dx + dr (n, Z) and the constraints by A dx + de (G, Z); the last P columns are for prescribed unknowns.

    Raises LinAlgError where the matrix is singular."""
    f, p = held.free, held.coordinates
    changes = solve_bordered(J[np.ix_(f, f)], A[:, f], -dr[f], -de)
    dx = np.zeros_like(dr)
    dx[f] = changes[: len(f)]
    dx[p, dr.shape[1] - len(p) + np.arange(len(p))] = 1.0
    forces = dr[p] + J[np.ix_(p, f)] @ changes[: len(f)] - A[:, p].T @ changes[len(f) :]
    return dx, changes[len(f) :], forces


def by_variable(
    kind: Callable[..., T],
    sizes: Sequence[int],
    x: np.ndarray,
    multipliers: np.ndarray,
    forces: np.ndarray,
    held: PrescribedMotion,
) -> list[T]:
    """Changes (.., Z) split by variables of these sizes, which add up to Z: one `kind` for each, with forces by name of
    link."""
    ends = np.cumsum([0, *sizes])
    return [
        kind(x[..., a:b], multipliers[..., a:b], {name: forces[..., own, a:b] for name, own in held.links.items()})
        for a, b in pairwise(ends)
    ]


def solve_bordered(M: np.ndarray, A: np.ndarray, top: np.ndarray, bottom: np.ndarray) -> np.ndarray:
    """Solutions (F + G, Z) of the system with matrix [M -A'; A 0], equilibrated to largest entries of one in rows and
    columns.  LinAlgError if it is singular."""
    F, G = A.shape[1], len(A)
    K = np.zeros((F + G, F + G))
    K[:F, :F], K[:F, F:], K[F:, :F] = M, -A.T, A
    left = 1.0 / np.maximum(np.abs(K).max(axis=1, initial=0.0), 1e-300)
    right = 1.0 / np.maximum(np.abs(left[:, None] * K).max(axis=0, initial=0.0), 1e-300)
    return right[:, None] * np.linalg.solve(left[:, None] * K * right, left[:, None] * np.vstack([top, bottom]))
