"""Predictive control with nothing left to do when a sample arrives but a product: an arm follows a moving target."""

import time

import numpy as np

import dynamics
import problems
import trajopt

robot = dynamics.load_urdf(problems.model_path("arm6"))
system = dynamics.RigidBodySystem(robot, dt=0.02)
x = system.state(q=[0.0, -1.2, 1.6, -1.9, -1.6, 0.0])
place = target = dynamics.frame_placement(robot, x[:6], "tool").p
holding = dynamics.gravity_forces(robot, x[:6])

tool = trajopt.ResidualCost(dynamics.FrameTranslation(robot, "tool", target), weights=1e3)
still = trajopt.StateCost(system, x, np.repeat([0.1, 1.0], 6))
torque = trajopt.ControlCost(1e-3, reference=holding)
problem = trajopt.Problem(system, x, 40, [tool, still, torque], [tool, still], us_init=np.tile(holding, (40, 1)))

controller = trajopt.DDP(max_iterations=1).prepare(problem, parameters="target")
feedback = controller.prepare_step(x, target, trajopt.DDP().solve(problem))
rng, seconds, off = np.random.default_rng(0), [], []
for t in range(60):
    target = place + 0.1 * np.array([0.0, np.sin(0.1 * t), 1.0 - np.cos(0.1 * t)])  # nobody knew before
    start = time.perf_counter()
    u = feedback(x, target)
    seconds.append(time.perf_counter() - start)
    plan = feedback.plan(x, target, steps=1)  # until the next sample: the whole plan, for what is expected
    expected = system.step(x, u)
    feedback = controller.prepare_step(expected, target, plan)

    best = trajopt.DDP().solve(controller.at(x), warm_start=plan)
    off.append(np.abs(u - best.us[0]).max())
    x = expected + np.r_[np.zeros(6), rng.normal(0.0, 0.02, 6)]
print(f"{1e6 * np.median(seconds):.0f} us from sample to torques, {np.median(off):.2f} N m off the best ones")
