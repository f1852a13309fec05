"""Which problems are compared."""

import numpy as np

from experiments.peers import double_pendulum, hector, kinova, ur5
from experiments.peers.pair import Pair

PENDULUM_LIMIT = 0.5
"""N m; without limits the torque reaches 0.72."""
KINOVA_LIMITS = np.array([0.5, 14.0, 7.5, 2.5, 2.5, 2.5])
"""N m; without limits the torques reach 0.7, 13.5, 7.7, 3.3, 3.7 and 3.0, and the robot's own limits are 20 to 80."""


def unlimited_problems(inverse: bool = False) -> list[Pair]:
    """Problems without limits; with `inverse` the fully actuated robots also in the inverse-dynamics formulation."""
    return [double_pendulum.pair(), kinova.pair(inverse=inverse), hector.pair(), ur5.pair(inverse=inverse)]


def limited_problems() -> list[Pair]:
    """Problems with limits of the controls, all of them active at the optimum."""
    return [
        double_pendulum.pair((-PENDULUM_LIMIT, PENDULUM_LIMIT)),
        kinova.pair((-KINOVA_LIMITS, KINOVA_LIMITS)),
        hector.pair(hector.LIMITS),
    ]
