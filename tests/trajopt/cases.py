"""Problems on the small systems, shared by the tests of the solvers."""

import numpy as np

from tests.trajopt.systems import CartPole, CirclePendulum, LinearSystem, Pendulum, TipResidual
from trajopt import ControlCost, Problem, ResidualCost, StateCost


def pendulum(horizon=40, us_init=None):
    """Swing-up in one go, with plenty of torque."""
    system = Pendulum()
    return Problem(
        system, [0.3, 0.0], horizon, [ControlCost(1e-2)], [StateCost(system, [np.pi, 0.0], [50.0, 5.0])],
        us_init=us_init, name="pendulum",
    )  # fmt: skip


def circle_pendulum(horizon=40):
    """The same problem with the angle on a circle."""
    system = CirclePendulum()
    x0, target = system.embed(np.array([0.3, 0.0])), system.embed(np.array([np.pi, 0.0]))
    return Problem(system, x0, horizon, [ControlCost(1e-2)], [StateCost(system, target, [50.0, 5.0])])


def tip(horizon=40):
    """A pendulum with a curved residual cost of state and control, and a terminal one."""
    system = Pendulum()
    running = [ControlCost(1e-1), ResidualCost(TipResidual(), [0.1, 0.1, 0.01])]
    terminal = [ResidualCost(TipResidual(), [50.0, 50.0, 0.0]), StateCost(system, [np.pi, 0.0], [5.0, 5.0])]
    return Problem(system, [1.0, 0.0], horizon, running, terminal, name="tip")


def cartpole(horizon=40):
    """Move the cart by a metre and tilt the pole."""
    system = CartPole()
    target = [1.0, 0.5, 0.0, 0.0]
    running = [ControlCost(1e-2), StateCost(system, target, 0.01)]
    return Problem(system, np.zeros(4), horizon, running, [StateCost(system, target, 20.0)], name="cartpole")


def linear(rng, horizon=15, ndx=4, nu=2):
    """A random stable-ish linear system with random quadratic costs."""
    system = LinearSystem(np.eye(ndx) + 0.1 * rng.standard_normal((ndx, ndx)), rng.standard_normal((ndx, nu)), dt=0.1)
    running = [StateCost(system, rng.standard_normal(ndx), rng.uniform(0.1, 1.0, ndx)), ControlCost([0.3, 0.7], 0.2)]
    terminal = [StateCost(system, rng.standard_normal(ndx), 3.0)]
    return Problem(system, rng.standard_normal(ndx), horizon, running, terminal, name="linear")


NONLINEAR = {"pendulum": pendulum, "circle": circle_pendulum, "tip": tip, "cartpole": cartpole}
