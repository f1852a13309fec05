"""A cart-pole from a function on a short rail: solved, and prepared for predictive control."""

import numpy as np

import trajopt


def cartpole(x, u):
    s, c, (M, m, length, g) = np.sin(x[1]), np.cos(x[1]), (1.1, 0.2, 0.6, 9.81)
    a = (u[0] + m * s * (length * x[3] ** 2 + g * c)) / (M + m * s * s)
    b = (-u[0] * c - m * length * x[3] ** 2 * c * s - (M + m) * g * s) / (length * (M + m * s * s))
    return [x[2], x[3], a, b]


system = trajopt.CallableSystem(xdot=cartpole, nx=4, nu=1, dt=0.03)
up = np.array([0.0, np.pi, 0.0, 0.0])
running = [trajopt.StateCost(system, up, [0.1, 0.1, 0.01, 0.01]), trajopt.ControlCost(0.01)]
rail = trajopt.StateBounds(system, [-0.9, -np.inf, -np.inf, -np.inf], [0.9, np.inf, np.inf, np.inf])
limits = [rail, trajopt.ControlBounds(-20.0, 20.0)]
problem = trajopt.Problem(system, np.zeros(4), 80, running, [trajopt.StateCost(system, up, 200.0)], limits)
print(trajopt.compare(problem, {"ilqr": trajopt.ILQR(), "ddp": trajopt.DDP()}))
prepared = trajopt.DDP(max_iterations=1).prepare(problem)
prepared.warm_up()
