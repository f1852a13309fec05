"""An arm passes two places at given times, follows a moving reference, and keeps to the limits of its motors."""

import numpy as np

import dynamics
import problems
import trajopt

robot = dynamics.load_robot(problems.model_path("arm6"))
system = dynamics.RigidBodySystem(robot, dt=0.025, integrator="rk4")
x0 = system.state([0.0, -1.2, 1.6, -1.9, -1.6, 0.0])
start = dynamics.frame_placement(robot, x0[:6], "tool").p
above, over, down = (
    dynamics.FrameTranslation(robot, "tool", start + step)
    for step in ([0.0, 0.2, 0.2], [0.0, 0.6, 0.2], [0.0, 0.6, 0.0])
)
wrist = np.eye(12)[5]  # the last joint alone

problem = trajopt.Problem(
    system,
    x0,
    horizon=48,
    running_costs=[
        trajopt.StateCost(system, x0, np.repeat([0.0, 0.1], 6)),
        trajopt.ControlCost(1e-4),
        trajopt.StateCost(system, lambda t: x0 + 2.0 * t * wrist, 10.0 * wrist, at=slice(0.4, 0.9)),  # seconds
        *trajopt.waypoints([(0.4, above), (0.9, over)], weights=1e4),
        trajopt.StateCost(system, x0, np.repeat([0.0, 10.0], 6), at="terminal"),
    ],
    constraints=[
        *trajopt.waypoints([("terminal", down)], hard=True),
        trajopt.AccelerationBounds(system, -10.0, 10.0),
        trajopt.TorqueSpeedBounds.from_model(system),
        trajopt.StateBounds(system, lower={"shoulder_pan velocity": -0.9}, at=slice(12, 28)),  # knots
    ],
    us_init="quasi_static",
)
solution = trajopt.DDP().solve(problem)
print(solution.explain())
