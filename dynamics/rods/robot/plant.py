"""A soft robot with its inputs as functions of time: what the methods of a simulation integrate."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from dynamics.rods.chains.closures import check_closed
from dynamics.rods.chains.constrained_dynamics import ConstrainedMotion, constrained_motion
from dynamics.rods.model.arrays import MASS_MATRIX
from dynamics.rods.robot.prescribed_motion import PrescribedMotion
from dynamics.rods.robot.soft_robot import SoftRobot

State = tuple[np.ndarray, np.ndarray]
"""q, v (n,)."""
Run = tuple[np.ndarray, np.ndarray, np.ndarray, int, int, int, np.ndarray, dict[str, np.ndarray]]
"""What a method returns: the first fields of a `Simulation`."""
Report = Callable[[float], object]
"""Called with the times that a method reaches."""


class Plant(NamedTuple):
    """A robot, u (nu) and external wrenches (6 W) at a time, prescribed joints, and 1 / T of Baumgarte's method."""

    robot: SoftRobot
    inputs: Callable[[float], np.ndarray]
    prescribed: PrescribedMotion
    rate: float

    @property
    def constrained(self) -> bool:
        """Whether chains are closed or joints prescribed."""
        return self.robot.model.constraint_count > 0 or len(self.prescribed.coordinates) > 0

    def states(self, t: float, q: np.ndarray, v: np.ndarray) -> np.ndarray:
        """States (K, .) as `residual_kernel` reads them, for q, v (K, n), of which prescribed ones are overwritten."""
        n, inputs, p = self.robot.nq, self.inputs(t), self.prescribed.coordinates
        states = np.zeros((len(q), 4 * n + self.robot.nu + int(self.robot.arrays.numbers[1])))
        states[:, :n], states[:, n : 2 * n], states[:, 4 * n : 4 * n + len(inputs)] = q, v, inputs
        if len(p):
            values = self.prescribed.values(t)
            for k in range(3):
                states[:, k * n + p] = values[k]
        return states

    def motion(self, level: int, t: float, q: np.ndarray, v: np.ndarray) -> ConstrainedMotion:
        """Accelerations of q, v (K, n) at a time, and what goes with them."""
        return self._solve(level, self.states(t, q, v))

    def _solve(self, level: int, states: np.ndarray) -> ConstrainedMotion:
        return constrained_motion(self.robot.model, self.robot.arrays, level, states, self.prescribed.free, self.rate)

    def start(self, q: np.ndarray, v: np.ndarray) -> State:
        """q, v (n,) with the prescribed coordinates at t = 0.  ValueError where chains are open, about to open, or
        singular."""
        n, state = self.robot.nq, self.states(0.0, q[None], v[None])[0]
        q, v = state[:n].copy(), state[n : 2 * n].copy()
        check_closed(self.robot.model, q, v, ("q0", "v0"), self.prescribed.free)
        return q, v

    def reactions(self, t: np.ndarray, q: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        """Multipliers (T, G) and forces of prescribed joints along a motion, q, v (T, n)."""
        if not self.constrained:
            return np.zeros((len(t), 0)), {}
        states = [self.states(float(t[k]), q[k : k + 1], v[k : k + 1]) for k in range(len(t))]
        motion = self._solve(MASS_MATRIX, np.concatenate(states))
        return motion.multipliers.copy(), self.prescribed.of_links(motion.forces)
