"""Two arms lift a bar: a robot made of others, with a closed chain."""

import numpy as np

import dynamics
import problems
import trajopt

arm = dynamics.load_robot(problems.model_path("arm6"))  # or xacro, MJCF, a name of robot_descriptions
bar = {"mass": 1.5, "com": [0.0, 0.0, 0.25], "inertia": np.diag([0.03, 0.03, 1e-3])}
facing = np.diag([-1.0, -1.0, 1.0]), [-2.18, -0.328, 0.0]  # half a turn, and the place of the other arm

builder = dynamics.ModelBuilder(name="two arms")
builder.add_model(arm.with_body("bar", "tool", **bar), "left/")
builder.add_model(arm, "right/", placement=facing)
builder.add_frame("end", "left/bar", (np.diag([-1.0, 1.0, -1.0]), [0.0, 0.0, 0.5]))
builder.add_loop("end", "right/tool", "weld")  # systems of this robot hold the bar's end in the other hand
robot = builder.build()

hands = dynamics.LoopConstraint(robot, "end", "right/tool", "weld")
q0 = dynamics.close_loops(robot, np.tile([0.0, -1.2, 1.6, -0.4, 1.57, 0.0], 2), [hands])
system = dynamics.RigidBodySystem(robot, dt=0.01, integrator="rk4")
x0 = system.state(q0)
goal = dynamics.frame_placement(robot, q0, "left/bar").p + [0.0, 0.1, 0.2]

problem = trajopt.Problem(
    system,
    x0,
    horizon=60,
    running_costs=[trajopt.StateCost(system, x0, np.repeat([0.0, 0.1], 12)), trajopt.ControlCost(1e-4)],
    terminal_costs=[
        trajopt.ResidualCost(dynamics.FrameTranslation(robot, "left/bar", goal), 1e4),
        trajopt.StateCost(system, x0, np.repeat([0.0, 10.0], 12)),
    ],
    constraints=[trajopt.ControlBounds.from_model(system)],
    us_init="quasi_static",
)
solution = trajopt.DDP().solve(problem)
print(solution.explain())
force = system.contact_forces(solution.xs, solution.us)[:, 0]
print(f"largest force on the bar by the right hand: {np.linalg.norm(force, axis=1).max():.1f} N")
trajopt.animate(solution, "results/two_arms/lift.gif")
