"""Common parts of swing-up problems: from hanging at rest to upright at rest."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

import dynamics
import trajopt


def swing_up(
    system: dynamics.RigidBodySystem,
    upright: ArrayLike,
    horizon: int,
    running: ArrayLike,
    controls: ArrayLike,
    terminal: ArrayLike,
    **options: Any,
) -> trajopt.Problem:
    """A problem from zero to the configuration `upright`, with weights of the state's distance to it and of the
    controls, and of the last state's distance; options are those of `trajopt.Problem`."""
    goal = system.state(upright)
    return trajopt.Problem(
        system,
        system.state(np.zeros(system.nq)),
        horizon,
        running_costs=[trajopt.StateCost(system, goal, running), trajopt.ControlCost(controls)],
        terminal_costs=[trajopt.StateCost(system, goal, terminal)],
        **options,
    )
