# %% [markdown]
# # A soft arm
#
# A silicone arm on a turntable, pulled by three cables: its shape at rest, a simulation, a motion.

# %%
import matplotlib.pyplot as plt
import numpy as np

import dynamics
import trajopt
from dynamics import rods

# %% [markdown]
# ## The model
#
# A *rod* is a curve with a cross-section. Its strains (twist, bending, stretch and shear) are
# polynomials along its length, whose coefficients are its coordinates: here 2 for torsion and 4 for
# bending about each axis, 1 for stretch. It tapers from base to tip and sits on a table that a motor
# turns. Cables run straight beside the middle, 15 mm from it.

# %%
builder = rods.RodModelBuilder()
turning, inertia = dynamics.Revolute("z"), np.diag([0.01, 0.01, 0.02])
builder.add_body("table", "world", turning, mass=1.0, inertia=inertia, damping=0.1)
silicone = rods.Elastic(young=1e6, poisson=0.5, density=1000.0, viscosity=1e4)  # SI units
basis = rods.LegendreBasis(torsion=1, bending_y=3, bending_z=3, stretch=0)  # orders
builder.add_rod("arm", "table", 0.4, rods.Circular(0.025, 0.018), silicone, basis)
angles = 2.0 * np.pi * np.arange(3) / 3.0
cables = [rods.Tendon.straight("arm", 0.015 * np.sin(a), 0.015 * np.cos(a)) for a in angles]
robot = rods.SoftRobot(builder.build(), cables, torques=["table"])  # 3 tensions, a torque
print(f"{robot.nv} coordinates, {robot.nu} controls")
assert robot.nv == 1 + 2 + 4 + 4 + 1

# %% [markdown]
# ## Shapes at rest
#
# `static_equilibrium` solves for the shape under constant tensions. The first cable runs above the
# middle: it lifts.

# %%
figure, axes = plt.subplots(figsize=(7.0, 3.6), layout="constrained")
heights = []
for tension in (0.0, 10.0, 20.0, 30.0):
    tensions = [tension, 0.0, 0.0, 0.0]
    rest = rods.static_equilibrium(robot, tensions, prescribed={"table": 0.0})
    line = rods.center_lines(robot.model, rest.q)["arm"].points
    heights.append(line[-1, 2])
    label = f"{tension:.0f} N: tip at {100.0 * line[-1, 2]:.1f} cm"
    axes.plot(line[:, 0], line[:, 2], label=label)
axes.set(xlabel="x [m]", ylabel="z [m]", aspect="equal")
axes.legend(title="first cable", frameon=False)
assert np.all(np.diff(heights) > 0.0)
plt.show()

# %% [markdown]
# ## A simulation
#
# `simulate` integrates in continuous time, with exact Jacobians, by an implicit method: silicone is
# stiff. A pulse of the first cable, then it swings out.

# %%
rest = rods.static_equilibrium(robot, np.zeros(4), prescribed={"table": 0.0})


def pulse(t):
    return [20.0 * np.sin(np.pi * min(t / 0.5, 1.0)), 0.0, 0.0, 0.0]


motion = rods.simulate(robot, 1.5, pulse, q0=rest.q)
tips = np.array([rods.link_placement(robot.model, "arm", q)[1] for q in motion.q])
figure, axes = plt.subplots(figsize=(8.0, 2.8), layout="constrained")
axes.plot(motion.t, 100.0 * tips[:, 2])
axes.set(xlabel="time [s]", ylabel="height of the tip [cm]")
plt.show()

# %% [markdown]
# ## A reach
#
# For a plan the same robot becomes a system in steps of 20 ms. Its tip is to be 15 cm away a second
# later, and at rest. Cables only pull.

# %%
system = dynamics.SoftRobotSystem(robot, dt=0.02)
x0, n = system.state(rest.q), robot.nv
goal = rods.link_placement(robot.model, "arm", rest.q)[1] + [-0.05, 0.1, 0.1]
tip = rods.LinkTranslation(robot.model, "arm", target=goal)
problem = trajopt.Problem(
    system, x0, 50,
    running_costs=[trajopt.ControlCost([1e-3, 1e-3, 1e-3, 1.0])],
    terminal_costs=[
        trajopt.ResidualCost(tip, 1e4),
        trajopt.StateCost(system, x0, np.repeat([0.0, 1.0], n)),
    ],
    constraints=[trajopt.ControlBounds([0.0, 0.0, 0.0, -1.0], [50.0, 50.0, 50.0, 1.0])],
    scenery=[trajopt.Target(goal, 0.02)],
    name="reach",
)  # fmt: skip
solutions = trajopt.compare(problem, {"ilqr": trajopt.ILQR(), "ddp": trajopt.DDP()})
for name, found in solutions.items():
    missed = 1e3 * np.linalg.norm(tip.evaluate(found.xs[-1:])[0])
    print(f"{name}: {found.iterations} iterations, {missed:.1f} mm from the target")
solution = solutions["ddp"]
assert solution.converged and missed < 5.0
assert solution.iterations <= solutions["ilqr"].iterations

# %% [markdown]
# The dynamics of soft robots are strongly curved: a cable's pull turns with the arm. What iLQR
# leaves out costs it iterations.

# %%
trajopt.plot_trajectory(solution)

# %% [markdown]
# ## Does it hold?
#
# `discretization_error()` executes the plan in continuous time, by a stiff method at tight
# tolerances.

# %%
error = solution.discretization_error()


def tip_at_end(off):
    """Place of the tip at the end of a motion that is off the plan by so much."""
    q = system.integrate(solution.xs[-1], off[-1])[:n]
    return rods.link_placement(robot.model, "arm", q)[1]


planned = tip_at_end(np.zeros_like(error.open_loop))
alone, held = (
    1e3 * np.linalg.norm(tip_at_end(off) - planned)
    for off in (error.open_loop, error.closed_loop)
)
print(
    f"the tip ends {alone:.1f} mm from where it was planned, {held:.1f} mm with the gains"
)
assert held < alone < 10.0

# %% tags=["thumbnail"]
trajopt.animate(solution, "reach.gif", fps=10, size=(360, 260))

# %% [markdown]
# ## Next
#
# [Predictive control](07_predictive_control.ipynb). More robots are in `problems.rods`: a finger, a
# fish, a parallel robot, an underwater vehicle.
