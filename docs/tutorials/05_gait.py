# %% [markdown]
# # A quadruped's gait
#
# A robot that walks holds the ground with one set of feet after another. Here is how such a problem
# is built, first for one step of one foot, then for a trot.

# %%
import matplotlib.pyplot as plt
import numpy as np

import dynamics
import problems
import trajopt
from problems.quadruped_model import FEET, quadruped, standing

robot = quadruped()  # a floating base, four legs of three motors
print(f"{robot.total_mass:.1f} kg; {robot.nv} velocities, {robot.nv - 6} motors")
print(f"feet: {', '.join(FEET)}")

# %% [markdown]
# ## Phases
#
# A phase is a name, the feet that are held, and a number of knots. While a foot is held, its
# contact force is whatever keeps its acceleration zero. Where a phase begins that holds a new foot,
# an *impact* stands between: a knot that takes no time, after which that foot is at rest.

# %%
others = [foot for foot in FEET if foot != "rf_foot"]
system = dynamics.HybridSystem(
    robot, 0.01, [("stance", FEET, 10), ("step", others, 20), ("landing", FEET, 20)]
)
x0 = system.state(standing())
for name, held, start, stop in system.segments:
    feet = ", ".join(held.contact_frames) if held.dt > 0 else "no time"
    print(f"knots {start} to {stop - 1}: {name}, {feet}")

# %% [markdown]
# ## Costs and limits
#
# Costs are a list per knot, because they differ: posture and torques everywhere, half way the foot
# above the ground, at the impact on its place 6 cm ahead. Contact forces are to stay within the
# friction cones; motors have limits.

# %%
foothold = dynamics.frame_placement(robot, standing(), "rf_foot").p + [0.06, 0.0, 0.0]
above = foothold + [-0.03, 0.0, 0.04]
lift, land = (
    trajopt.ResidualCost(dynamics.FrameTranslation(robot, "rf_foot", place), weight)
    for place, weight in ((above, 1e3), (foothold, 1e4))
)
posture = trajopt.StateCost(system, x0, np.repeat([1.0, 1e-2], 18))
costs = [[posture, trajopt.ControlCost(1e-1)] for _ in range(system.horizon)]
costs[20].append(lift)
costs[30] = [land]

limits = [trajopt.ControlBounds.from_model(system)]
for name, held, start, stop in system.segments:
    if held.dt > 0:
        cone = dynamics.FrictionCone(held, 0.6)
        at = range(start, stop)
        rows = trajopt.ResidualConstraint(cone, cone.lower, cone.upper, at=at, name=name)
        limits.append(rows)

end = [trajopt.StateCost(system, x0, 10.0), land]
step = trajopt.Problem(
    system, x0, system.horizon, costs, end, limits, us_init="quasi_static", name="step"
)
solvers = {"ilqr": trajopt.ILQR(), "ddp": trajopt.DDP(switch_threshold=0.1)}
solutions = trajopt.compare(step, solvers)
for name, found in solutions.items():
    print(f"{name}: {found.status}, {found.iterations} iterations, cost {found.cost:.5f}")
solution = solutions["ddp"]
assert solution.converged

# %% [markdown]
# `us_init="quasi_static"` are torques that hold the robot still. With contacts it pays to turn to
# exact steps early, `switch_threshold=0.1`.

# %%
trajopt.plot_trajectory(solution)

# %% [markdown]
# ## Who carries the robot
#
# `contact_forces(xs, us)` are the forces on the feet at all knots. While the foot is in the air,
# the others carry the weight, and not evenly: the centre of mass has to stay above their triangle,
# or nearly.

# %%
moving = system.durations > 0.0  # all knots but the impact
forces = system.contact_forces(solution.xs, solution.us)[moving]
weight = 9.81 * robot.total_mass
figure, axes = plt.subplots(figsize=(8.0, 3.2), layout="constrained")
times = solution.times[:-1][moving]
for i, foot in enumerate(FEET):
    axes.plot(times, forces[:, i, 2], label=foot)
axes.plot(times, forces[:, :, 2].sum(axis=1), color="0.6", lw=0.8, label="all")
axes.axhline(weight, color="0.6", ls=":", lw=0.8)
axes.set(xlabel="time [s]", ylabel="vertical force [N]", ylim=(-1, 38))
axes.set_title("dotted: the weight")
axes.legend(frameon=False, ncols=5, loc="upper center")
plt.show()
carried = forces[:, :, 2].sum(axis=1)
print(f"weight {weight:.1f} N; on average the feet carry {carried.mean():.1f} N")
assert abs(carried.mean() / weight - 1.0) < 0.1
slips = np.linalg.norm(forces[..., :2], axis=2) - 0.6 * forces[..., 2]
assert slips.max() < 1e-3

# %% [markdown]
# ## A trot
#
# A gait is the same with more phases: `dynamics.Gait` lays out a plan, phases with the feet in the
# air, and `problems.gaits` adds costs. This plan is, as shares of the time,
# `[(1, ()), (4, ("lf", "rh")), (4, ("rf", "lh")), (3, ())]`: stand, one diagonal, the other
# diagonal, stand. Feet follow arches, and the solve starts from states along the plan, which no
# torque has made yet: `xs_init`.

# %%
trot = problems.make("quadruped_trot")
found = trajopt.DDP(switch_threshold=0.1).solve(trot)
forward = found.xs[-1, 0] - found.xs[0, 0]
print(f"{found.iterations} iterations; the base moves {100.0 * forward:.1f} cm")
assert found.converged and 0.05 < forward < 0.15

# %% [markdown]
# Who is on the ground when, and where the feet go:

# %%
forces = trot.system.contact_forces(found.xs, found.us)
figure, (left, right) = plt.subplots(1, 2, figsize=(10.0, 3.2), layout="constrained")
for i, foot in enumerate(FEET):
    held = np.where(forces[:, i, 2] > 0.0, i, np.nan)
    left.plot(found.times[:-1], held, lw=6, solid_capstyle="butt")
    path = dynamics.frame_placement(robot, found.xs[:, : robot.nq], foot).p
    right.plot(100.0 * path[:, 0], 100.0 * path[:, 2], label=foot)
left.set(yticks=range(4), yticklabels=FEET, xlabel="time [s]", title="on the ground")
right.set(xlabel="x [cm]", ylabel="height [cm]", title="paths of the feet")
right.legend(frameon=False, fontsize=8)
plt.show()

# %% tags=["thumbnail"]
trajopt.animate(found, "trot.gif", fps=12, speed=0.4, size=(360, 260))

# %% [markdown]
# ## Next
#
# [A soft arm](06_soft_arm.ipynb). `trajopt solve quadruped_jump --animate` jumps;
# [plan a gait](../../how_to/gaits.md) has gaits of robots of your own.
