"""Does a plan hold?  How much its integrator errs, what a payload does to it, and how it goes out to the robot."""

import numpy as np

import problems
import trajopt

for integrator in ("explicit_euler", "semi_implicit_euler", "rk4"):
    problem = problems.make("arm", horizon=100, dt=0.01, integrator=integrator)
    solution = trajopt.DDP().solve(problem)
    error = solution.discretization_error()
    alone, held = (np.abs(E[:, :6]).max() for E in (error.open_loop, error.closed_loop))
    print(f"{integrator}: off by {alone:.2g} rad without feedback, {held:.2g} rad with the gains")

loaded = problem.system.model.with_body("payload", "flange", mass=2.0)  # a payload that the plan does not contain
for policy in ("open loop", "feedback"):
    motion = trajopt.simulate(solution, model=loaded, dt=1e-3, policy=policy)
    print(f"2 kg more, {policy}: off by {motion.largest_deviation[:6].max():.2g} rad")

# u = controller(t, x) at any time: the gains around the plan's motion, stiffer joints, and the last posture afterwards
controller = solution.policy(joint_stiffness="auto")
motion = trajopt.simulate(solution, model=loaded, policy=controller, period=1e-3)  # asked at 1 kHz
print(f"2 kg more, policy at 1 kHz: off by {motion.largest_deviation[:6].max():.2g} rad")
controller.save("results/execution/policy.npz")  # for trajopt.Policy.load, which needs neither problem nor robot

plan = solution.resample(1e-3)  # states, held controls, gains, accelerations at 1 kHz
path = solution.to_csv("results/execution/plan.csv", dt=1e-3)
message = solution.to_trajectory_msg(dt=0.004)  # ROS 2's trajectory_msgs/msg/JointTrajectory, as a dict
print(f"{len(plan.times)} states; {path}; {len(message['points'])} points for {', '.join(message['joint_names'])}")
