"""A soft robot with its inputs as functions of time, as integrated by the methods of a simulation."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from dynamics.rods.chains.closures import check_closed
from dynamics.rods.chains.constrained_dynamics import ConstrainedMotion, constrained_motion
from dynamics.rods.kinematics.charts import within_limit
from dynamics.rods.model.arrays import MASS_MATRIX
from dynamics.rods.robot.prescribed_motion import PrescribedMotion
from dynamics.rods.robot.soft_robot import SoftRobot

State = tuple[np.ndarray, np.ndarray]
"""Coordinates and velocities q, v (n,)."""
Run = tuple[np.ndarray, np.ndarray, np.ndarray, int, int, int, np.ndarray, dict[str, np.ndarray]]
"""Result of a method: the first fields of a `Simulation`."""
Report = Callable[[float], object]
"""A function that is called with the times that a method reaches."""
Policy = Callable[[float, np.ndarray], np.ndarray]
"""Controls u (nu,) as a function of the time and of the state x = [q; v]."""
STEP = 1e-7
"""Step of the finite differences of policies, relative to 1 + the magnitude of the state."""


class RodPlant(NamedTuple):
    """A robot with its inputs: u (nu) and external wrenches (6 W) as a function of time, prescribed joints, 1 / T of
    Baumgarte's method, joints that may change their chart (J, 6), and a policy for u, or None."""

    robot: SoftRobot
    inputs: Callable[[float], np.ndarray]
    prescribed: PrescribedMotion
    rate: float
    turns: np.ndarray
    policy: Policy | None = None

    @property
    def constrained(self) -> bool:
        """True if chains are closed or joints are prescribed."""
        return self.robot.model.constraint_count > 0 or len(self.prescribed.coordinates) > 0

    def states(self, t: float, q: np.ndarray, v: np.ndarray) -> np.ndarray:
        """States (K, .) in the layout of `residual_kernel` for q, v (K, n), with prescribed coordinates overwritten."""
        n, inputs, p = self.robot.nq, self.inputs(t), self.prescribed.coordinates
        states = np.zeros((len(q), 4 * n + self.robot.nu + int(self.robot.arrays.counts[1])))
        states[:, :n], states[:, n : 2 * n], states[:, 4 * n : 4 * n + len(inputs)] = q, v, inputs
        if len(p):
            values = self.prescribed.values(t)
            for k in range(3):
                states[:, k * n + p] = values[k]
        if self.policy is not None:
            states[:, 4 * n : 4 * n + self.robot.nu] = [self.policy(t, x) for x in states[:, : 2 * n]]
        return states

    def controls(self, t: np.ndarray, q: np.ndarray, v: np.ndarray) -> np.ndarray:
        """Controls u (T, nu) along a motion q, v (T, n)."""
        if self.policy is not None:
            return np.array([self.policy(s, x) for s, x in zip(t.tolist(), np.hstack([q, v]), strict=True)])
        return np.array([self.inputs(s) for s in t.tolist()])[:, : self.robot.nu]

    def gain(self, t: float, x: np.ndarray, directions: np.ndarray) -> np.ndarray:
        """Derivatives (nu, D) of the policy at x = [q; v] along directions (2 n, D), by finite differences."""
        assert self.policy is not None
        u, columns = self.policy(t, x), np.empty((self.robot.nu, directions.shape[1]))
        for j, d in enumerate(directions.T):
            step = STEP / max(np.abs(d / (1.0 + np.abs(x))).max(), 1e-300)
            columns[:, j] = (self.policy(t, x + step * d) - u) / step
        return columns

    def motion(self, level: int, t: float, q: np.ndarray, v: np.ndarray) -> ConstrainedMotion:
        """Accelerations and multipliers, with derivatives as the level goes, at q, v (K, n) and a time."""
        return self._solve(level, self.states(t, q, v))

    def _solve(self, level: int, states: np.ndarray) -> ConstrainedMotion:
        return constrained_motion(self.robot.model, self.robot.arrays, level, states, self.prescribed.free, self.rate)

    def start(self, q: np.ndarray, v: np.ndarray) -> State:
        """Initial q, v (n,) with the prescribed coordinates at t = 0, in a chart within the limit.  ValueError where
        chains are open, about to open, or singular."""
        n, state = self.robot.nq, self.states(0.0, q[None], v[None])[0]
        q, v = self.in_chart(state[: 2 * n].reshape(2, n).copy())
        check_closed(self.robot.model, q, v, ("q0", "v0"), self.prescribed.free)
        return q, v

    def in_chart(self, state: np.ndarray) -> np.ndarray:
        """q, v or q, v, a (., n), with joints beyond the limit in their other chart; the same array if there are
        none."""
        return within_limit(self.turns, self.robot.nq, state) if len(self.turns) else state

    def reactions(self, t: np.ndarray, q: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        """Multipliers (T, G) and forces of prescribed joints along a motion, q, v (T, n)."""
        if not self.constrained:
            return np.zeros((len(t), 0)), {}
        states = [self.states(float(t[k]), q[k : k + 1], v[k : k + 1]) for k in range(len(t))]
        motion = self._solve(MASS_MATRIX, np.concatenate(states))
        return motion.multipliers.copy(), self.prescribed.of_links(motion.forces)
