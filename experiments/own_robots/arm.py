"""An arm of eight joints, built here, that reaches within limits of its torques and joints."""

import numpy as np

import dynamics
import trajopt

builder, parent = dynamics.ModelBuilder(name="eight joints"), "world"
for i in range(8):
    length, mass = 0.28 - 0.02 * i, 4.0 - 0.4 * i
    inertia = mass * length**2 / 12.0 * np.diag([1.0, 1.0, 0.1])
    builder.add_body(
        f"link{i}", parent, dynamics.Revolute("zyyzyyzy"[i]), placement=(np.eye(3), (0.0, 0.0, 0.3 * (i > 0))),
        mass=mass, com=(0.0, 0.0, 0.5 * length), inertia=inertia,
    )  # fmt: skip
    parent = f"link{i}"
builder.add_frame("tool", parent, placement=(np.eye(3), (0.0, 0.0, 0.15)))
robot = builder.build()
system = dynamics.RigidBodySystem(robot, dt=0.02)
x0 = system.state(np.full(8, 0.2))
goal = dynamics.FrameTranslation(robot, "tool", target=[0.6, 0.4, 1.2])
running = [trajopt.StateCost(system, x0, np.repeat([1e-2, 1e-2], 8)), trajopt.ControlCost(1e-4)]
limits = [trajopt.ControlBounds(-120.0, 120.0), trajopt.StateBounds(system, np.full(16, -2.9), np.full(16, 2.9))]
last = [trajopt.ResidualCost(goal, 1e3), trajopt.StateCost(system, x0, np.repeat([0.0, 1.0], 8))]
problem = trajopt.Problem(system, x0, 50, running, last, limits, us_init="quasi_static")
print(trajopt.compare(problem, {"ilqr": trajopt.ILQR(), "ddp": trajopt.DDP()}))
