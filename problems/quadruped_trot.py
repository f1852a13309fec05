"""The quadruped trots: two steps of 10 cm, two legs at a time, diagonally.

While two feet stand, the base can rotate about the line between them without support; 0.6 s of 10 ms knots,
and two touch-downs.  The robot is that of `quadruped_model`; costs and limits are those of `gaits`.
"""

import trajopt
from problems.gaits import DEFAULT, Gait
from problems.quadruped_model import walker

PLAN = [(1, ()), (4, ("lf", "rh")), (4, ("rf", "lh")), (3, ())]


def make(horizon: int = 62, dt: float = 0.01) -> trajopt.Problem:
    """The problem with `horizon` knots, of which two are touch-downs and the others last dt seconds."""
    return Gait(walker(), PLAN, (0.1, 0.0, 0.0), 0.04, horizon, dt, DEFAULT).problem("quadruped_trot")
