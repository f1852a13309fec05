"""An arm with a gripper whose fingers share a motor: it opens while the arm reaches, and is drawn by its shapes."""

import numpy as np

import dynamics
import problems
import trajopt


def block(mass, *sides):
    """Mass and inertia of a box about its middle."""
    x, y, z = np.square(sides)
    return {"mass": mass, "inertia": mass / 12.0 * np.diag([y + z, x + z, x + y])}


builder = dynamics.ModelBuilder(name="gripper")
builder.add_model(dynamics.load_robot(problems.model_path("arm6")))
reach = {"shoulder": (0, 0, 0.127), "upper_arm": (-0.612, 0, 0), "forearm": (-0.572, 0, 0)}
reach |= {"wrist_1_housing": (0, 0, 0.164), "wrist_2_housing": (0, 0, 0.116), "flange": (0, 0, 0.092)}
for link, end in reach.items():
    builder.add_geometry(link, dynamics.Capsule(0.05, [0.0, 0.0, 0.0], end))
at = np.eye(3), [0.0, 0.0, 0.04]
builder.add_body("palm", "tool", dynamics.Fixed(), placement=at, **block(0.8, 0.08, 0.2, 0.08))
builder.add_geometry("palm", dynamics.Box([0.04, 0.1, 0.04]), color=[0.2, 0.2, 0.25])
for name, y in (("left", 0.015), ("right", -0.015)):
    at = np.eye(3), [0.0, y, 0.1]
    slide = {"joint_name": f"{name} finger", "lower": -0.08, "upper": 0.08, "effort": 40.0, "armature": 0.1}
    builder.add_body(name, "palm", dynamics.Prismatic("y"), placement=at, **block(0.1, 0.03, 0.02, 0.12), **slide)
    builder.add_geometry(name, dynamics.Box([0.015, 0.01, 0.06]), color=[0.8, 0.35, 0.0])
builder.add_mimic("right finger", "left finger", multiplier=-1.0)
robot = builder.build()
print(f"{robot.full.nv} joints, {robot.nv} coordinates: {', '.join(robot.joint_names)}")

system = dynamics.RigidBodySystem(robot, dt=0.02, integrator="rk4")
x0 = system.state([0.0, -1.2, 1.6, -0.4, 1.57, 0.0, 0.0])
R, p = dynamics.frame_placement(robot, x0[: robot.nq], "palm")
opened = system.state([0.0, -1.2, 1.6, -0.4, 1.57, 0.0, 0.07])
finger = np.eye(2 * robot.nv)[robot.nv - 1]

problem = trajopt.Problem(
    system,
    x0,
    horizon=40,
    running_costs=[trajopt.StateCost(system, x0, np.repeat([0.0, 0.1], robot.nv)), trajopt.ControlCost(1e-4)],
    terminal_costs=[
        trajopt.ResidualCost(dynamics.FramePlacement(robot, "palm", (R, p + [0.1, 0.3, -0.2])), 1e4),
        trajopt.StateCost(system, opened, 1e4 * finger + np.repeat([0.0, 10.0], robot.nv)),
    ],
    constraints=[trajopt.ControlBounds.from_model(system)],
    us_init="quasi_static",
    name="gripper",
)
solution = trajopt.DDP().solve(problem)
print(solution.explain())
left, right = (dynamics.frame_placement(robot, solution.xs[-1, : robot.nq], name).p for name in ("left", "right"))
print(f"the fingers end {1e3 * np.linalg.norm(left - right):.1f} mm apart")
trajopt.animate(solution, "results/gripper/reach.gif")
