"""The quadruped walks: one step of 8 cm with each leg, one leg at a time.

Hind leg before front leg on either side, three feet on the ground throughout; a second of 10 ms knots, and four
touch-downs.  The robot is that of `quadruped_model`; costs and limits are those of `gaits`.
"""

import trajopt
from problems.gaits import DEFAULT, Gait
from problems.quadruped_model import walker

PLAN = [(1, ()), (4, ("rh",)), (4, ("rf",)), (1, ()), (4, ("lh",)), (4, ("lf",)), (2, ())]


def make(horizon: int = 104, dt: float = 0.01) -> trajopt.Problem:
    """The problem with `horizon` knots, of which four are touch-downs and the others last dt seconds."""
    return Gait(walker(), PLAN, (0.08, 0.0, 0.0), 0.04, horizon, dt, DEFAULT).problem("quadruped_walk")
