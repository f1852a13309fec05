"""Move an arm's tool to a point: load a robot, state the costs, solve, plot."""

import numpy as np

import dynamics
import problems
import trajopt

robot = dynamics.load_urdf(problems.model_path("arm6"))  # or any URDF of yours
system = dynamics.RigidBodySystem(robot, dt=0.03, integrator="rk4")
x0 = system.state(q=[0.0, -1.2, 1.6, -1.9, -1.6, 0.0])

problem = trajopt.Problem(
    system,
    x0,
    horizon=50,
    running_costs=[
        trajopt.StateCost(system, reference=x0, weights=np.r_[np.zeros(6), 0.1 * np.ones(6)]),
        trajopt.ControlCost(weights=1e-4 * np.ones(6)),
    ],
    terminal_costs=[
        trajopt.ResidualCost(dynamics.FrameTranslation(robot, "tool", target=[0.4, 0.5, 0.3]), weights=1e3),
        trajopt.StateCost(system, reference=x0, weights=np.r_[np.zeros(6), 10.0 * np.ones(6)]),
    ],
    us_init=np.tile(dynamics.gravity_forces(robot, x0[:6]), (50, 1)),
)
solutions = trajopt.compare(problem, {"ilqr": trajopt.ILQR(), "ddp": trajopt.DDP()})
print(solutions)
trajopt.plot_convergence(solutions, "results/quick_start/convergence.png")
trajopt.plot_trajectory(solutions, "results/quick_start/motion.png")
