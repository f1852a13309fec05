"""The quadruped jumps 20 cm forwards: off all four feet, through the air, and onto all four.

Take-off and landing take 0.2 and 0.3 s, the flight 0.25 s, of 2.5 ms knots, and there is one touch-down.  The robot is
that of `quadruped_model`; costs and limits are those of `gaits`.
"""

import trajopt
from problems.gaits import DEFAULT, Gait
from problems.quadruped_model import LEGS, walker

PLAN = [(20, ()), (25, tuple(LEGS)), (30, ())]


def make(horizon: int = 301, dt: float = 0.0025) -> trajopt.Problem:
    """The problem with `horizon` knots, of which one is the touch-down and the others last dt seconds."""
    weights = DEFAULT._replace(center=(1e1, 1e1, 0.0))
    return Gait(walker(), PLAN, (0.2, 0.0, 0.0), 0.06, horizon, dt, weights).problem("quadruped_jump")
