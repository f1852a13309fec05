"""A pendulum swings up with ever weaker motors: one solution followed until one swing is no longer enough."""

import numpy as np

import dynamics
import trajopt

builder = dynamics.ModelBuilder()
builder.add_body("bob", "world", dynamics.Continuous("y"), mass=1.0, com=[0.0, 0.0, -1.0])
system = dynamics.RigidBodySystem(builder.build(), dt=0.02, integrator="rk4")
upright = system.state([np.pi])


def make(limit):  # of the torque, N m
    return trajopt.Problem(
        system, system.state([0.0]), 100,
        running_costs=[trajopt.StateCost(system, upright, [0.2, 0.1]), trajopt.ControlCost(0.02)],
        terminal_costs=[trajopt.StateCost(system, upright, [100.0, 10.0])],
        constraints=[trajopt.ControlBounds(-limit, limit)], name="pendulum",
    )  # fmt: skip


found = trajopt.continuation(make, (12.0, 6.0), smallest_step=5e-3).with_restarts()
print(found)
found.plot("results/continuation/torque.png")
other = sum(abs(cold.cost - found.costs[k]) > 1e-6 for k, cold in enumerate(found.cold))
print(f"one swing down to {found.parameters[-1]:.2f} N m; {other} of {len(found)} solves from scratch end elsewhere")
