# %% [markdown]
# # An arm reaches
#
# A robot from a URDF, costs and limits that speak of its tool and joints, and the question that comes before a motion is executed: does the
# plan hold?

# %%
from dataclasses import replace

import matplotlib.pyplot as plt
import numpy as np

import dynamics
import problems
import trajopt

robot = dynamics.load_urdf(problems.model_path("arm6"))  # or a file of yours
system = dynamics.RigidBodySystem(robot, dt=0.01)
x0 = system.state(q=[0.0, -1.2, 1.6, -1.9, -1.6, 0.0])
place = dynamics.frame_placement(robot, x0[:6], "tool").p
print(f"{', '.join(robot.joint_names)}; the tool is at {place.round(2)} m")

# %% [markdown]
# ## Residuals
#
# A *residual* is a function of state and control with exact first and second derivatives. `dynamics.FrameTranslation` is the place of a frame less
# a target. Squared it is a cost; between limits, a constraint. The arm is to bring its tool to a point and be at rest there.

# %%
reach = dynamics.FrameTranslation(robot, "tool", target=[0.4, 0.5, 0.3])
problem = trajopt.Problem(
    system,
    x0,
    horizon=100,
    running_costs=[trajopt.StateCost(system, x0, np.repeat([0.0, 0.1], 6)), trajopt.ControlCost(1e-4)],
    terminal_costs=[trajopt.ResidualCost(reach, 1e3), trajopt.StateCost(system, x0, np.repeat([0.0, 10.0], 6))],
    us_init="quasi_static",  # torques that hold it still
    scenery=[trajopt.Target([0.4, 0.5, 0.3])],
    name="reach",
)
free = trajopt.DDP().solve(problem)
missed = np.linalg.norm(reach.evaluate(free.xs[-1:])[0])
print(f"{free.status} after {free.iterations} iterations, {1e3 * missed:.1f} mm from the target")
print(f"largest torques {np.abs(free.us).max(axis=0).round(0)} N m")
assert free.converged and missed < 0.01

# %% tags=["thumbnail"]
trajopt.plot_trajectory(free)

# %% [markdown]
# ## Limits
#
# `ControlBounds` are limits of torques: the robot's own (`from_model`), numbers, or numbers by names of joints. `StateBounds` limits positions and
# velocities. Here the shoulder may turn with 1 rad/s at most.

# %%
name = robot.joint_names[0]
limits = [
    trajopt.ControlBounds.from_model(system),
    trajopt.StateBounds(system, lower={f"{name} velocity": -0.8}, upper={f"{name} velocity": 0.8}),
]
solution = trajopt.DDP().solve(replace(problem, constraints=limits), warm_start=free)
print(solution.explain())
assert solution.converged and np.abs(solution.xs[:, 6]).max() < 0.8 + 1e-6

# %%
figure, axes = plt.subplots(figsize=(8.0, 3.0), layout="constrained")
for label, found in (("free", free), ("limited", solution)):
    axes.plot(found.times, found.xs[:, 6], label=label)
axes.axhline(0.8, color="0.6", lw=0.8)
axes.set(xlabel="time [s]", ylabel=f"{name} velocity [rad/s]")
axes.legend(frameon=False)
plt.show()

# %% [markdown]
# ## Does the plan hold?
#
# A plan is made of steps of 10 ms, the robot moves in continuous time. `discretization_error()` is the difference at every knot: if the torques
# are executed alone, and with the feedback $u = u^* + K (x - x^*)$ that every solution has in `K`.

# %%
off = {}
for integrator in ("semi_implicit_euler", "rk4"):
    finer = dynamics.RigidBodySystem(robot, dt=0.01, integrator=integrator)
    planned = trajopt.DDP().solve(replace(problem, system=finer, constraints=limits))
    error = planned.discretization_error()
    off[integrator] = [np.abs(E[:, :6]).max() for E in (error.open_loop, error.closed_loop)]
    alone, held = off[integrator]
    print(f"{integrator}: off by {alone:.1e} rad without feedback, {held:.1e} rad with it")
assert off["rk4"][0] < 0.01 * off["semi_implicit_euler"][0]

# %% [markdown]
# RK4 costs three times as much per step and is worth it for plans that are executed as they are. What no integrator knows is a robot that is
# not the one of the model: 2 kg in its hand that nobody told.

# %%
loaded = robot.with_body("payload", "flange", mass=2.0)
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
axes.set(xlabel="time [s]", ylabel="tool off its path [mm]", title="2 kg more than planned for")
axes.legend(frameon=False)
assert worst["feedback"] < worst["open loop"]
plt.show()

# %% [markdown]
# `solution.policy()` is that feedback as a function u = policy(t, x), at any rate; `to_csv` and `to_trajectory_msg` take the plan to the robot.
#
# ## Next
#
# [Your own dynamics](03_own_dynamics.ipynb). In depth: [limits](../../how_to/limits.md), [which integrator](../../how_to/discretization.md),
# [your own robot](../../how_to/own_robot.md).
