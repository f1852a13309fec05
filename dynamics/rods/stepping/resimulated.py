"""A soft robot in continuous time, its controls held: what the steps of a `SoftRobotSystem` approximate."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike
from scipy.integrate import Radau

from dynamics.rods.model.turning_joints import turning_joints
from dynamics.rods.robot.plant import Plant
from dynamics.rods.robot.prescribed_motion import prescribed_motion
from dynamics.rods.stepping.stiff_solvers import stiff_motion
from dynamics.validation import as_array, as_batch, as_positive

if TYPE_CHECKING:
    from dynamics.rods.stepping.soft_system import SoftRobotSystem

BAUMGARTE = 0.01
"""Time, s, in which closed chains that are open a little close, as in `simulate`."""


class ResimulatedSystem:
    """The motion of a soft robot by Radau's method at tight tolerances, in steps of a system's dt.

    It moves, and has no derivatives.  Closed chains are held by Baumgarte's method, which draws those together that are
    a little open.  Made by `SoftRobotSystem.resimulated`.

    Parameters
    ----------
    system : SoftRobotSystem
    rtol, atol : of the local error |e_i| <= atol + rtol |x_i|

    Raises
    ------
    ValueError : a tolerance that is no positive number.
    """

    def __init__(self, system: SoftRobotSystem, rtol: float = 1e-6, atol: float = 1e-8) -> None:
        self.system = system
        self.nx, self.ndx, self.nu, self.dt = system.nx, system.ndx, system.nu, system.dt
        self.euclidean = system.euclidean
        self.integrate, self.difference, self.check_state = system.integrate, system.difference, system.check_state
        self._options = {"rtol": as_positive("rtol", rtol), "atol": as_positive("atol", atol)}
        self._free = prescribed_motion(system.model, None)
        self._turns = turning_joints(system.model, self._free.coordinates)

    def step(self, x: ArrayLike, u: ArrayLike) -> np.ndarray:
        """The state after dt from x (nx,) with the control u (nu,), or (K, .) of both; NaN where the motion ends
        before.  ValueError for other shapes."""
        (xs, single), (us, _) = as_batch("x", x, self.nx), as_batch("u", u, self.nu)
        if len(xs) != len(us):
            raise ValueError(f"x has {len(xs)} points and u has {len(us)}; expected as many")
        ends = np.array([self._flow(*point) for point in zip(xs, us, strict=True)]).reshape(xs.shape)
        return ends[0] if single else ends

    def rollout(self, x0: ArrayLike, us: ArrayLike) -> np.ndarray:
        """States (N+1, nx) from x0 under the controls us (N, nu); NaN from where the motion ends."""
        xs = [as_array("x0", x0, (self.nx,))]
        for u in as_array("us", us, (None, self.nu)):
            xs.append(self._flow(xs[-1], u) if np.isfinite(xs[-1]).all() else xs[-1])
        return np.array(xs)

    def _flow(self, x: np.ndarray, u: np.ndarray) -> np.ndarray:
        robot, n = self.system.robot, self.system.nv
        inputs = np.concatenate([u, np.zeros(6 * robot.model.wrench_count)])
        plant = Plant(robot, lambda t: inputs, self._free, 1.0 / BAUMGARTE, self._turns)
        try:
            run = stiff_motion(plant, self.dt, (x[:n], x[n:]), Radau, None, self._options, True, lambda t: None)
        except (RuntimeError, ValueError):  # it fails on the way, or begins where rods turn too far
            return np.full(self.nx, np.nan)
        return np.concatenate([run[1][-1], run[2][-1]])
