"""Shapes in which a soft robot rests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from dynamics.rods.robot.prescribed_motion import prescribed_values
from dynamics.rods.robot.soft_robot import SoftRobot
from dynamics.rods.statics.newton import CONVERGED, MESSAGES, Newton
from dynamics.validation import as_array, as_kind, as_positive, as_whole_number


class StaticEquilibrium(NamedTuple):
    """A shape at rest.

    Attributes
    ----------
    q : (n,) coordinates
    converged : whether the method converged
    status : that, or why not: "a singular Jacobian" where a joint without stiffness is neither held nor driven
    iterations : number of its steps
    residual : largest |r_i| at q, of coordinates that are not prescribed
    multipliers : (G,) of closed chains, N and N m
    prescribed_forces : mapping of each prescribed link to what its joint takes, (dof,), N or N m
    """

    q: np.ndarray
    converged: bool
    status: str
    iterations: int
    residual: float
    multipliers: np.ndarray
    prescribed_forces: Mapping[str, np.ndarray]


def static_equilibrium(
    robot: SoftRobot,
    u: ArrayLike,
    q0: ArrayLike | None = None,
    wrenches: ArrayLike | None = None,
    tolerance: float = 1e-10,
    max_iterations: int = 100,
    prescribed: Mapping[str, ArrayLike] | None = None,
) -> StaticEquilibrium:
    """Coordinates with r(q, 0, 0, u, lambda) = 0 and e(q) = 0, by a damped Newton's method with the exact Jacobian.

    Parameters
    ----------
    robot : SoftRobot
    u : (nu,) controls
    q0 : (n,) start; by default zero
    wrenches : (W, 6), [moment; force] of the external loads that take one; by default zero
    tolerance : the method ends when a step changes every q_i by at most tolerance (1 + |q_i|), or, where steps shrink
        faster than tenfold, as soon as that leaves no larger an error
    max_iterations : number of steps at most
    prescribed : coordinates of joints that are held, a number or (dof,), by name of link

    Returns
    -------
    StaticEquilibrium(q, converged, status, iterations, residual, multipliers, prescribed_forces).  Where it did not
    converge, as where chains cannot be closed, q is the best point so far.  The equilibrium need not be stable.

    Raises
    ------
    ValueError : a wrong shape, a number that is not finite, tolerance or max_iterations out of range.
    """
    count = as_kind("robot", robot, SoftRobot).model.wrench_count
    given = np.zeros((count, 6)) if wrenches is None else as_array("wrenches", wrenches, (count, 6))
    inputs = np.concatenate([as_array("u", u, (robot.nu,)), given.ravel()])
    q0 = np.zeros(robot.nq) if q0 is None else as_array("q0", q0, (robot.nq,))
    tolerance = as_positive("tolerance", tolerance)
    max_iterations = as_whole_number("max_iterations", max_iterations, 1)
    held, base = prescribed_values(robot.model, prescribed), np.zeros((3, robot.nq))
    base[:, held.coordinates] = held.values(0.0)
    method = Newton(robot, held.free)
    result = method.solve(base, (1.0, 0.0, 0.0), inputs, q0, tolerance, max_iterations, final=True)
    residual = float(np.abs(result.forces[held.free]).max(initial=0.0))
    found = result.status == CONVERGED, MESSAGES[result.status], result.iterations, residual
    return StaticEquilibrium(base[0] + result.z, *found, result.multipliers, held.of_links(result.forces))
