"""Derivatives of an equilibrium and its constraint forces by controls, wrenches and prescribed coordinates.

With the free coordinates f and the prescribed ones p, the implicit function of r_f = 0, e = 0 is

    [J_ff -A_f'; A_f 0] [dq_f; dlambda] = - [J_fp dq_p - B_f du + r_w dw; A_p dq_p],       J = dr/dq

and the forces of prescribed joints change by  J_pf dq_f + J_pp dq_p - B_p du + r_w dw - A_p'dlambda.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from dynamics.printed import in_brief
from dynamics.rods.robot.reactions import by_variable, constrained_changes
from dynamics.rods.robot.soft_robot import SoftRobot
from dynamics.rods.statics.equilibrium import StaticEquilibrium, load_path
from dynamics.validation import as_kind


class EquilibriumChange(NamedTuple):
    """Derivatives of q (n, Z), multipliers (G, Z) and prescribed forces (dof, Z) by Z variables."""

    q: np.ndarray
    multipliers: np.ndarray
    prescribed_forces: Mapping[str, np.ndarray]

    def __repr__(self) -> str:
        return in_brief(self)


class EquilibriumDerivatives(NamedTuple):
    """First derivatives of an equilibrium, each an `EquilibriumChange`: by the controls (nu columns), the wrenches (6
    W), and the prescribed coordinates (P), in the order in which they were given."""

    du: EquilibriumChange
    dwrenches: EquilibriumChange
    dprescribed: EquilibriumChange

    def __repr__(self) -> str:
        return in_brief(self)


def equilibrium_derivatives(
    robot: SoftRobot, rest: StaticEquilibrium, u: ArrayLike, wrenches: ArrayLike | None = None
) -> EquilibriumDerivatives:
    """First derivatives of an equilibrium and of its constraint forces.

    Parameters
    ----------
    robot : SoftRobot
    rest : result of `static_equilibrium` for the robot, with its prescribed joints
    u, wrenches : (nu,), (W, 6), the arguments for which it was found

    Returns
    -------
    EquilibriumDerivatives(du, dwrenches, dprescribed)

    Raises
    ------
    TypeError : a robot that is not a SoftRobot, a rest that is not a StaticEquilibrium.
    ValueError : a wrong shape, a number that is not finite, an equilibrium that did not converge, one where the
        stiffness is singular, as at limit points.

    Examples
    --------
    >>> builder = rods.RodModelBuilder()
    >>> silicone = rods.Elastic(young=1e6, poisson=0.5, density=1000.0)
    >>> builder.add_rod("arm", "world", 0.3, rods.Circular(0.02), silicone, rods.LegendreBasis(bending_y=2))
    >>> robot = rods.SoftRobot(builder.build(), [rods.Tendon.straight("arm", 0.0, 0.015)])
    >>> rest = rods.static_equilibrium(robot, [1.0])
    >>> rods.equilibrium_derivatives(robot, rest, [1.0]).du.q.shape  # change of the shape per newton of tension
    (3, 1)
    """
    rest = as_kind("rest", rest, StaticEquilibrium)
    as_kind("robot", robot, SoftRobot)
    if not rest.converged:
        raise ValueError(f"rest: got an equilibrium that has not converged ({rest.status}), expected one that has")
    n, nu, G = robot.nq, robot.nu, robot.model.constraint_count
    if rest.q.shape != (n,) or rest.multipliers.shape != (G,):
        raise ValueError(f"rest: got {len(rest.q)} coordinates, expected an equilibrium of this robot, with {n}")
    held_at = {name: rest.q[robot.model.joint_coordinates[name]] for name in rest.prescribed_forces}
    path, _ = load_path(robot, u, wrenches, rest.q, held_at)
    p = path.held.coordinates
    _, J, _, A = path.newton.linearize(rest.q, path.inputs(1.0), rest.multipliers)
    zero = np.zeros(n)
    B = robot.residual_derivatives(rest.q, zero, zero, path.inputs(1.0)[:nu], path.inputs(1.0)[nu:].reshape(-1, 6)).B
    dr = np.hstack([-B, _along_wrenches(robot, rest.q), J[:, p]])
    de = np.hstack([np.zeros((G, dr.shape[1] - len(p))), A[:, p]])
    singular = "rest: got an equilibrium with a singular stiffness, expected one that determines its change"
    try:
        changes = constrained_changes(path.held, J, A, dr, de)
    except np.linalg.LinAlgError:
        raise ValueError(singular) from None
    if not all(np.isfinite(part).all() for part in changes):
        raise ValueError(singular)
    sizes = nu, dr.shape[1] - nu - len(p), len(p)
    return EquilibriumDerivatives(*by_variable(EquilibriumChange, sizes, *changes, path.held))


def _along_wrenches(robot: SoftRobot, q: np.ndarray) -> np.ndarray:
    """dr/dw (n, 6 W), which is constant since r is linear in the wrenches."""
    W, zero = robot.model.wrench_count, np.zeros(robot.nq)
    if not W:
        return np.empty((robot.nq, 0))
    units = np.vstack([np.zeros((1, W, 6)), np.eye(6 * W).reshape(-1, W, 6)])
    r = robot.residual(q, zero, zero, np.zeros(robot.nu), units)
    return (r[1:] - r[0]).T
