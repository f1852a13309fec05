"""A pendulum from a function, swung up."""

import numpy as np

import trajopt


def pendulum(x, u):
    return [x[1], u[0] - 9.81 * np.sin(x[0]) - 0.1 * x[1]]


system = trajopt.CallableSystem(xdot=pendulum, nx=2, nu=1, dt=0.03)
up = np.array([np.pi, 0.0])
running = [trajopt.StateCost(system, up, [0.1, 0.01]), trajopt.ControlCost(0.05)]
problem = trajopt.Problem(system, np.zeros(2), 90, running, [trajopt.StateCost(system, up, 100.0)])
print(trajopt.compare(problem, {"ilqr": trajopt.ILQR(), "ddp": trajopt.DDP()}))
