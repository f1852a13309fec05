"""The humanoid reaches for a point in front of it with its left hand, both soles on the ground.

The point is 52 cm in front of its ankles, 80 cm high and 20 cm to the left; the hand has to arrive early, and to be
there at rest after a second and a half of 20 ms knots.  It leans over and puts its weight on its toes: limits are the
motors' torques and the soles' wrench cones.  The robot is that of `humanoid_model`; starts from torques that stand.
"""

from dataclasses import replace

import numpy as np

import dynamics
import trajopt
from problems.humanoid_model import walker
from problems.humanoid_stand import standing_problem

TARGET = (0.5, 0.2, 0.8)


def make(horizon: int = 75, dt: float = 0.02) -> trajopt.Problem:
    """The problem with `horizon` knots of dt seconds."""
    robot = walker()
    hand = dynamics.FrameTranslation(robot.model, "left_hand", TARGET)
    running, terminal = [trajopt.ResidualCost(hand, 3e1)], [trajopt.ResidualCost(hand, 1e4)]
    problem = standing_problem("humanoid_reach", robot, np.zeros(robot.model.nv), running, terminal, horizon, dt)
    return replace(problem, scenery=[trajopt.Target(TARGET, 0.05)])
