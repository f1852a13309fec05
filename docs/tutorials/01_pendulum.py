# %% [markdown]
# # A pendulum swings up
#
# What a problem is, what a solver does with it, and how to ask the solution questions. Everything
# else in these tutorials is this, with other robots.
#
# ## The system
#
# One body of 1 kg, its centre half a metre below a hinge about y. A state is `x = [q, v]`: the
# angle and its velocity. Hanging is `q = 0`, upright `q = pi`.

# %%
from collections import Counter

import matplotlib.pyplot as plt
import numpy as np

import dynamics
import trajopt

builder = dynamics.ModelBuilder(name="pendulum")
hinge = dynamics.Continuous("y")
builder.add_body("rod", "world", hinge, joint_name="hinge", mass=1.0, com=[0.0, 0.0, -0.5])
robot = builder.build()
system = dynamics.RigidBodySystem(robot, dt=0.04, integrator="rk4")
hanging, upright = system.state([0.0]), system.state([np.pi])

level = dynamics.gravity_forces(robot, [np.pi / 2])[0]
print(f"to hold it level takes {level:.1f} N m")

# %% [markdown]
# ## The problem
#
# The motor gives 2.5 N m. It cannot lift the pendulum, it has to swing. Costs are `1/2 sum_i w_i
# r_i^2`; those of the way are integrated over time, those of the end count once. `us_init` is where
# the solver starts: a constant small torque.

# %%
problem = trajopt.Problem(
    system,
    x0=hanging,
    horizon=50,
    running_costs=[trajopt.ControlCost(weights=0.1)],
    terminal_costs=[trajopt.StateCost(system, reference=upright, weights=[100.0, 10.0])],
    constraints=[trajopt.ControlBounds(-2.5, 2.5)],
    us_init=np.ones((50, 1)),
    name="swing-up",
)
problem

# %% [markdown]
# ## The solution
#
# `trajopt.DDP` linearizes the dynamics along the motion it has, finds the best change of all
# controls by one sweep backwards in time, and tries it. `explain()` says how that ended.

# %%
solution = trajopt.DDP().solve(problem)
print(solution.explain())
assert solution.converged

# %%
trajopt.plot_trajectory(solution)

# %% [markdown]
# It swings back first. The thin grey lines are the limits, which are kept exactly.

# %%
end, at_limit = np.degrees(solution.xs[-1, 0]), np.abs(solution.us[:, 0]) > 2.5 - 1e-9
print(f"it ends at {end:.1f} degrees")
print(f"the torque is at a limit at {at_limit.sum()} of {len(at_limit)} knots")
assert abs(end - 180.0) < 2.0 and at_limit.any() and solution.xs[:, 0].min() < -0.5

# %% tags=["thumbnail"]
trajopt.animate(solution, "swing_up.gif", fps=10, size=(360, 260))

# %% [markdown]
# ## iLQR against DDP
#
# The sweep works on a quadratic model of the cost to go. With the value $V$ of the next knot, the
# part of it that belongs to the states is
#
# $$Q_{xx} = l_{xx} + f_x^\top V_{xx} f_x + \sum_i (V_x)_i \, f_{i,xx} .$$
#
# iLQR leaves out the last sum, the curvature of the dynamics. DDP has it, exactly: near the
# solution its steps are Newton's, and the error is squared each time. Without it the error shrinks
# by a factor.

# %%
solutions = trajopt.compare(problem, {"ilqr": trajopt.ILQR(), "ddp": trajopt.DDP()})
best = min(found.cost for found in solutions.values())
figure, axes = plt.subplots(figsize=(8.0, 3.2), layout="constrained")
for name, found in solutions.items():
    print(f"{name}: {found.iterations} iterations, cost {found.cost:.6f}")
    axes.semilogy(found.history("cost") - best + 1e-14, ".-", label=name)
axes.set(xlabel="iteration", ylabel="cost above the optimum", ylim=(1e-10, 1e4))
axes.legend(frameon=False)
assert solutions["ddp"].iterations <= solutions["ilqr"].iterations
plt.show()

# %% [markdown]
# DDP starts as iLQR does: far away, the exact Hessian is no better, and may be indefinite. It
# switches when a step promises less than one percent of the cost. `log` has a record of every
# iteration, with the kind of step that was tried; `trajopt.plot_convergence` draws all of it.

# %%
print(Counter(record.step for record in solutions["ddp"].log))

# %% [markdown]
# ## A weaker motor
#
# With half the torque it does not arrive within two seconds: the cost at the end is high, and that
# is the best there is. Given twice the time, it swings often enough.

# %%
figure, axes = plt.subplots(figsize=(8.0, 3.2), layout="constrained")
ends = []
for horizon in (50, 75, 100):
    weaker = trajopt.Problem(
        system, hanging, horizon, problem.running_costs, problem.terminal_costs,
        [trajopt.ControlBounds(-1.25, 1.25)], us_init=np.ones((horizon, 1)),
    )  # fmt: skip
    found = trajopt.DDP().solve(weaker)
    ends.append(np.degrees(found.xs[-1, 0]))
    print(f"{found.times[-1]:.0f} s: at {ends[-1]:.1f} degrees, cost {found.cost:.2f}")
    axes.plot(found.times, np.degrees(found.xs[:, 0]), label=f"{found.times[-1]:.0f} s")
axes.set(xlabel="time [s]", ylabel="angle [degrees]")
axes.legend(frameon=False)
assert ends[0] < 170.0 and abs(abs(ends[-1]) - 180.0) < 2.0
plt.show()

# %% [markdown]
# ## Next
#
# [An arm reaches](02_arm.ipynb): a robot from a file, more limits, and whether the plan holds. [Why
# did it stop?](../../how_to/why_did_it_stop.md) lists all the ways in which a solve ends.
