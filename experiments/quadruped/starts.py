"""Where the solves start: the robot at rest at every knot, with the torques that hold it.

"held" is what Crocoddyl's example starts from; contacts change from phase to phase, so that the states do not satisfy
the dynamics.  "rollout" has the same torques, and the states they lead to.
"""

import numpy as np

from experiments.peers.pair import Pair, to_pinocchio
from experiments.peers.starts import Start


def held(pair: Pair) -> Start:
    """The start with gaps."""
    problem = pair.ours
    xs = np.tile(problem.x0, (problem.horizon + 1, 1))
    return Start("held", xs, _theirs(pair, xs), problem.us_init, False)


def rollout(pair: Pair) -> Start:
    """The feasible start."""
    problem = pair.ours
    xs = problem.system.rollout(problem.x0, problem.us_init)
    return Start("rollout", xs, _theirs(pair, xs), problem.us_init, True)


def _theirs(pair: Pair, xs: np.ndarray) -> np.ndarray:
    return to_pinocchio(pair.theirs.runningModels[0].state.pinocchio, xs)
