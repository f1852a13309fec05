# %% [markdown]
# # Your own dynamics
#
# A rocket comes down on its pad. Its equations of motion are a function of ours, and so is a
# constraint; nobody writes a derivative.

# %%
from dataclasses import replace

import matplotlib.pyplot as plt
import numpy as np

import trajopt

MASS, INERTIA, GRAVITY = 1.0, 0.05, 9.81  # kg, kg m^2, m/s^2
ARM = 0.3  # m, from the engine to the centre of mass


def rocket(x, u):  # x = (px, pz, tilt, vx, vz, rate), u = (thrust, angle of the engine)
    pushed = x[2] + u[1]
    ax, az = -u[0] * np.sin(pushed) / MASS, u[0] * np.cos(pushed) / MASS - GRAVITY
    return x[3], x[4], x[5], ax, az, -ARM * u[0] * np.sin(u[1]) / INERTIA


system = trajopt.CallableSystem(
    xdot=rocket,
    nx=6,
    nu=2,
    dt=0.05,
    name="rocket",
    state_names=["x [m]", "z [m]", "tilt [rad]", "vx [m/s]", "vz [m/s]", "rate [rad/s]"],
    control_names=["thrust [N]", "engine [rad]"],
)
print(system.derivative_source)

# %% [markdown]
# The function was *traced*: called once with symbols for `x` and `u`. What it did with them is a
# graph, which is differentiated exactly, first and second order, and runs from then on in a
# compiled interpreter, eight knots at a time. Nothing is compiled for it. `check_derivatives`
# compares with differences:

# %%
report = trajopt.check_derivatives(system)
assert report.ok
report

# %% [markdown]
# ## A constraint of one's own
#
# The rocket has to stay within a cone above its pad, 45 degrees to either side: $z \ge |x|$, two
# rows without the kink, down to 10 cm above the pad. `trajopt.residual` traces a function for costs
# and constraints.


# %%
def above_the_cone(x):
    return x[1] + 0.1 - x[0], x[1] + 0.1 + x[0]


cone = trajopt.residual(above_the_cone, 2, system)
assert trajopt.check_derivatives(cone, system=system).ok
start = np.array([4.0, 5.0, 0.0, 1.0, -2.0, 0.0])
hover = np.array([MASS * GRAVITY, 0.0])

# %% [markdown]
# `StateCost` at the end asks for the pad, upright and at rest; an equality does it exactly.
# `ResidualConstraint` of a `StateResidual` without limits is that equality. The engine pushes
# between 2 and 20 N, and turns by 0.3 rad.

# %%
pad = trajopt.StateResidual(system, np.zeros(6))
landed = trajopt.ResidualConstraint(pad, at="terminal", name="landed")
engine = trajopt.ControlBounds([2.0, -0.3], [20.0, 0.3])
problem = trajopt.Problem(
    system, start, horizon=60,
    running_costs=[
        trajopt.ControlCost([0.01, 1.0], reference=hover),
        trajopt.StateCost(system, np.zeros(6), [0, 0, 1, 0, 0, 0.1]),
    ],
    constraints=[engine, landed],
    us_init=np.tile(hover, (60, 1)), name="landing",
)  # fmt: skip
free = trajopt.DDP().solve(problem)
inside = trajopt.ResidualConstraint(cone, lower=0.0, at="all", name="cone")
guided = trajopt.DDP().solve(replace(problem, constraints=[engine, landed, inside]))
plans = {"free": free, "within the cone": guided}
for name, found in plans.items():
    lowest = cone.evaluate(found.xs, None).min()
    print(f"{name}: cost {found.cost:.3f}, lowest {lowest:.3f} m above the cone")
print(guided.explain())
assert free.converged and guided.converged and np.abs(guided.xs[-1]).max() < 1e-6

# %% [markdown]
# ## The way down
#
# The rocket as a line from its engine to its nose, five times a second, and the flame that pushes
# it.

# %% tags=["thumbnail"]
figure, panels = plt.subplots(1, 2, figsize=(9.0, 4.6), layout="constrained", sharey=True)
for axes, (name, found) in zip(panels, plans.items(), strict=True):
    for x, u in zip(found.xs[:-1:4], found.us[::4], strict=True):
        along, flame = (np.array([-np.sin(a), np.cos(a)]) for a in (x[2], x[2] + u[1]))
        engine_at = x[:2] - ARM * along
        axes.plot(*np.transpose([engine_at, x[:2] + ARM * along]), color="#0072b2", lw=2)
        tail = engine_at - 0.04 * u[0] * flame
        axes.plot(*np.transpose([engine_at, tail]), color="#d55e00", lw=1)
    axes.plot([-2.0, -0.1, 0.0, 0.1, 5.0], [1.9, 0.0, -0.1, 0.0, 4.9], color="0.6", lw=0.8)
    axes.set(title=name, xlabel="x [m]", aspect="equal")
panels[0].set_ylabel("z [m]")
plt.show()

# %%
trajopt.plot_trajectory(plans)

# %% [markdown]
# ## When a derivative is wrong
#
# Derivatives may also be given by hand: a residual can be a class with three methods, for all knots
# at once. This one is the energy; in its Jacobian the velocity along z is forgotten. The check
# names the entry.


# %%
class Energy:
    nr = 1

    def evaluate(self, xs, us):
        return MASS * (0.5 * (xs[:, 3:4] ** 2 + xs[:, 4:5] ** 2) + GRAVITY * xs[:, 1:2])

    def jacobians(self, xs, us):
        rx = np.zeros((len(xs), 1, 6))
        rx[:, 0, 1] = MASS * GRAVITY
        rx[:, 0, 3] = MASS * xs[:, 3]  # and so for 4
        return rx, None

    def hessian_products(self, xs, us, mu):
        return mu[:, :, None] * np.diag([0.0, 0.0, 0.0, MASS, MASS, 0.0]), None, None


report = trajopt.check_derivatives(Energy(), system=system)
assert not report.ok
report

# %% [markdown]
# ## Next
#
# [Constraints and what they cost](04_constraints.ipynb). In depth: [own
# dynamics](../../how_to/own_dynamics.md), [own residuals](../../how_to/own_residual.md).
