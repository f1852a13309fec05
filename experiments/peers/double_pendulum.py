"""Double pendulum, torque at the first joint: upright from hanging, 100 steps of 10 ms.

Figures: Crocoddyl, examples/double_pendulum_fwddyn.py and utils/pendulum.py.  Its cost of the state is 1/2 sum w r^2 of

    r = [sin q1, sin q2, 1 - cos q1, 1 - cos q2, v1, v2],      d2/dq2 of 1/2 (sin^2 + (1 - cos)^2) = cos q,

and its class returns that exact second derivative, negative below the horizontal, where Gauss-Newton has
cos^2 + sin^2 = 1.  So there Crocoddyl's Hessian and that of iLQR here differ.  Cost and actuation are Python classes.
"""

import crocoddyl  # pyright: ignore[reportMissingImports]
import example_robot_data  # pyright: ignore[reportMissingImports]
import numpy as np
from crocoddyl.utils.pendulum import ActuationModelDoublePendulum, CostModelDoublePendulum  # pyright: ignore[reportMissingImports]

import dynamics
import trajopt
from experiments.peers.pair import Pair, action, bounds, cost
from experiments.public_robots.robots import quietly

DT, HORIZON = 1e-2, 100
X0 = np.array([3.14, 0.0, 0.0, 0.0])
WEIGHTS = np.r_[np.full(4, 1.0), np.full(2, 0.1)]
RUNNING, TERMINAL, CONTROL = 1e-3, 100.0, 1e-2
PUBLISHED = 2.059e-2


class UprightResidual:
    """r = [sin q, 1 - cos q, v] of n angles q, zero at rest upright.

    Parameters: n, number of joints.
    """

    def __init__(self, n: int):
        self.n, self.nr = n, 3 * n

    def evaluate(self, xs, us):
        """r (K, 3 n)."""
        q, v = xs[:, : self.n], xs[:, self.n :]
        return np.hstack([np.sin(q), 1.0 - np.cos(q), v])

    def jacobians(self, xs, us):
        """rx (K, 3 n, 2 n)."""
        n, q = self.n, xs[:, : self.n]
        rx = np.zeros((len(xs), 3 * n, 2 * n))
        i = np.arange(n)
        rx[:, i, i], rx[:, n + i, i], rx[:, 2 * n + i, n + i] = np.cos(q), np.sin(q), 1.0
        return rx, None

    def hessian_products(self, xs, us, mu):
        """Hxx (K, 2 n, 2 n) of mu'r: diagonal."""
        n, q = self.n, xs[:, : self.n]
        H = np.zeros((len(xs), 2 * n, 2 * n))
        i = np.arange(n)
        H[:, i, i] = mu[:, n : 2 * n] * np.cos(q) - mu[:, :n] * np.sin(q)
        return H, None, None


def problem(limits=None) -> trajopt.Problem:
    """Our statement."""
    model = quietly(dynamics.load_urdf, example_robot_data.load("double_pendulum").urdf)  # whose speed limits are zero
    upright = UprightResidual(model.nv)
    return trajopt.Problem(
        dynamics.RigidBodySystem(model, DT, actuation=np.array([[1.0], [0.0]]), joint_friction=False),
        X0,
        HORIZON,
        running_costs=[trajopt.ResidualCost(upright, RUNNING * WEIGHTS), trajopt.ControlCost(CONTROL)],
        terminal_costs=[trajopt.ResidualCost(upright, TERMINAL * WEIGHTS)],
        name="double pendulum",
        **bounds(limits),
    )


def peer(limits=None):
    """Crocoddyl's statement."""
    state = crocoddyl.StateMultibody(example_robot_data.load("double_pendulum").model)
    actuation = ActuationModelDoublePendulum(state, actLink=1)
    upright = CostModelDoublePendulum(state, crocoddyl.ActivationModelWeightedQuad(WEIGHTS), actuation.nu)
    control = cost(state, crocoddyl.ResidualModelControl(state, actuation.nu))
    running = action(state, actuation, {"u": (control, CONTROL), "x": (upright, RUNNING)}, DT, limits)
    terminal = action(state, actuation, {"x": (upright, TERMINAL)}, DT)
    return crocoddyl.ShootingProblem(X0, [running] * HORIZON, terminal)


def pair(limits=None) -> Pair:
    """Both."""
    published, name = (PUBLISHED, "double pendulum") if limits is None else (None, "double pendulum, limited")
    return Pair(name, problem(limits), peer(limits), published, limits, in_python=True)
