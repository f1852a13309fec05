# %% [markdown]
# # An arm reaches
#
# A robot from a URDF, costs and limits that speak of its tool and joints, and the question that
# comes before a motion is executed: does the plan hold?

# %%
from dataclasses import replace

import matplotlib.pyplot as plt
import numpy as np

import dynamics
import problems
import trajopt

robot = dynamics.load_urdf(problems.model_path("arm6"))  # or a file of yours
system = dynamics.RigidBodySystem(robot, dt=0.02, integrator="rk4")
x0 = system.state(q=[0.0, -1.2, 1.6, -1.9, -1.6, 0.0])
here = dynamics.frame_placement(robot, x0[:6], "tool")
there = dynamics.frame_placement(robot, [1.1, -1.7, 2.0, -1.4, -1.1, 0.8], "tool")
print(f"joints: {', '.join(robot.joint_names)}")
print(f"the tool is at {here.p.round(2)} m, and is to go to {there.p.round(2)} m")

# %% [markdown]
# ## Residuals
#
# A *residual* is a function of state and control with exact first and second derivatives.
# `dynamics.FramePlacement` is how far, in place and orientation, a frame is from where it should
# be. Squared it is a cost; between limits, a constraint. The arm is to bring its tool there and
# rest.

# %%
reach = dynamics.FramePlacement(robot, "tool", there)
problem = trajopt.Problem(
    system,
    x0,
    horizon=50,
    running_costs=[trajopt.StateCost(system, x0, weights=0.1), trajopt.ControlCost(4e-4)],
    terminal_costs=[
        trajopt.ResidualCost(reach, np.repeat([1e3, 1e2], 3)),
        trajopt.StateCost(system, x0, np.repeat([0.0, 10.0], 6)),
    ],
    us_init="quasi_static",  # torques that hold it still
    scenery=[trajopt.Target(there.p, 0.05, there.R)],
    name="reach",
)
free = trajopt.DDP().solve(problem)
missed = np.linalg.norm(reach.evaluate(free.xs[-1:])[0, :3])
print(f"{free.iterations} iterations, {1e3 * missed:.1f} mm from the target")
print("largest velocities", np.abs(free.xs[:, 6:]).max(axis=0).round(2), "rad/s")
print(f"largest torques {np.abs(free.us).max(axis=0).round(0)} N m")
assert free.converged and missed < 0.01

# %%
trajopt.plot_trajectory(free)

# %% tags=["thumbnail"]
trajopt.animate(free, "reach.gif", fps=12, size=(360, 260))

# %% [markdown]
# ## Limits
#
# `ControlBounds` are limits of torques: the robot's own (`from_model`), numbers, or numbers by
# names of joints. `StateBounds` limits positions and velocities. Here the first joint may turn with
# 1.6 rad/s at most.

# %%
name = robot.joint_names[0]
slow = {f"{name} velocity": 1.6}
limits = [
    trajopt.ControlBounds.from_model(system),
    trajopt.StateBounds(system, lower={f"{name} velocity": -1.6}, upper=slow),
]
solution = trajopt.DDP().solve(replace(problem, constraints=limits), warm_start=free)
print(solution.explain())
assert solution.converged and np.abs(solution.xs[:, 6]).max() < 1.6 + 1e-6

# %%
figure, axes = plt.subplots(figsize=(8.0, 3.0), layout="constrained")
for label, found in (("free", free), ("limited", solution)):
    axes.plot(found.times, found.xs[:, 6], label=label)
axes.axhline(1.6, color="0.6", lw=0.8)
axes.set(xlabel="time [s]", ylabel=f"{name} velocity [rad/s]")
axes.legend(frameon=False)
plt.show()

# %% [markdown]
# ## Does the plan hold?
#
# A plan is made of steps of 20 ms, the robot moves in continuous time. `discretization_error()` is
# the difference at every knot: if the torques are executed alone, and with the feedback
# $u = u^* + K (x - x^*)$ that every solution has in `K`.

# %%
off = {}
for integrator in ("semi_implicit_euler", "rk4"):
    stepping = dynamics.RigidBodySystem(robot, dt=0.02, integrator=integrator)
    planned = trajopt.DDP().solve(replace(problem, system=stepping, constraints=limits))
    error = planned.discretization_error()
    off[integrator] = [np.abs(E[:, :6]).max() for E in (error.open_loop, error.closed_loop)]
    alone, held = off[integrator]
    print(f"{integrator}: off by {alone:.1e} rad without feedback, {held:.1e} rad with it")
assert off["rk4"][0] < 0.05 * off["semi_implicit_euler"][0]

# %% [markdown]
# RK4 takes more time per step, and half the steps: it is worth it for plans that are executed.
# What no integrator knows is a robot that is not the one of the model: 1 kg in its hand that nobody
# told.

# %%
loaded = robot.with_body("payload", "flange", mass=1.0)
figure, axes = plt.subplots(figsize=(8.0, 3.0), layout="constrained")
worst = {}
for policy in ("open loop", "feedback"):
    motion = trajopt.simulate(planned, model=loaded, dt=1e-3, policy=policy)
    places = dynamics.frame_placement(robot, motion.xs[:, :6], "tool").p
    ideal = dynamics.frame_placement(robot, planned.xs[:, :6], "tool").p
    miss = np.linalg.norm(places[motion.knots] - ideal, axis=1)
    worst[policy] = miss.max()
    axes.semilogy(motion.times[motion.knots][1:], 1e3 * miss[1:], label=policy)
    print(f"{policy}: the tool is up to {1e3 * miss.max():.0f} mm off")
axes.set(xlabel="time [s]", ylabel="off its path [mm]", title="1 kg more than planned for")
axes.legend(frameon=False)
assert worst["feedback"] < worst["open loop"]
plt.show()

# %% [markdown]
# `solution.policy()` is that feedback as a function u = policy(t, x), at any rate, around the motion of
# the plan; [a file](../../how_to/execution.md), `to_csv` and `to_trajectory_msg` take it to the robot.
#
# ## Next
#
# [Your own dynamics](03_own_dynamics.ipynb). In depth: [limits](../../how_to/limits.md), [which
# integrator](../../how_to/discretization.md), [your own robot](../../how_to/own_robot.md).
