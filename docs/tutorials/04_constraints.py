# %% [markdown]
# # Constraints, and what they cost
#
# A vehicle drives past two pillars. The solver finds a motion and a multiplier for every limit at
# every knot. What these numbers are: the price of a limit, in units of the cost.

# %%
from dataclasses import replace

import matplotlib.pyplot as plt
import numpy as np

import trajopt

PILLARS = np.array([[0.9, 0.15], [1.9, -0.25]])
GOAL = np.array([3.0, 0.0, 0.0])


def unicycle(x, u):  # x = (px, py, heading), u = (speed, turn rate)
    return u[0] * np.cos(x[2]), u[0] * np.sin(x[2]), u[1]


system = trajopt.CallableSystem(
    xdot=unicycle, nx=3, nu=2, dt=0.05,
    state_names=["x [m]", "y [m]", "heading [rad]"], control_names=["speed [m/s]", "turn rate [rad/s]"],
)  # fmt: skip


def make_problem(p):
    """The problem by the radius of the pillars and the fastest speed."""

    def clearance(x):  # squared distances from the middles less the squared radius
        return [(x[0] - a) ** 2 + (x[1] - b) ** 2 - p["radius"] ** 2 for a, b in PILLARS]

    pillars = trajopt.residual(clearance, 2, system)
    there = trajopt.StateResidual(system, GOAL)
    return trajopt.Problem(
        system,
        x0=[0.0, 0.0, 0.0],
        horizon=80,
        running_costs=[trajopt.ControlCost([0.2, 0.5])],
        constraints=[
            trajopt.ControlBounds([0.0, -2.0], [p["speed"], 2.0]),
            trajopt.ResidualConstraint(pillars, lower=0.0, at="path", name="pillars"),
            trajopt.ResidualConstraint(there, at="terminal", name="goal"),
        ],
        us_init=np.tile([0.75, 0.0], (80, 1)),
        name="slalom",
    )


p = {"radius": 0.4, "speed": 0.82}
problem = make_problem(p)
solution = trajopt.DDP().solve(problem)
print(solution.explain())
assert solution.converged

# %% [markdown]
# `ControlBounds` are kept exactly at every iterate, by a box QP in each knot of the sweep. All
# other constraints go through an augmented Lagrangian: the solver minimizes
#
# $$J + \sum_k \lambda_k^\top r_k + \text{penalty}$$
#
# and moves the multipliers $\lambda$ until the penalty has nothing left to do. There is nothing to
# tune.


# %% tags=["thumbnail"]
def draw(axes, solutions, radius):
    for center in PILLARS:
        axes.add_patch(plt.Circle(center, radius, color="0.8"))
    for name, found in solutions.items():
        axes.plot(found.xs[:, 0], found.xs[:, 1], label=name)
    axes.set_aspect("equal", adjustable="datalim")
    axes.set(xlabel="x [m]", ylabel="y [m]")


pillars = next(report for report in solution.constraints if report.name == "pillars")
figure, (above, below) = plt.subplots(2, figsize=(7, 6.4), sharex=True)
draw(above, {"path": solution}, p["radius"])
for column, name in enumerate(("first pillar", "second pillar")):
    x, height = solution.xs[pillars.knots, 0], -pillars.multipliers[:, column]
    below.bar(x, height, 0.03, label=name)
below.set(xlabel="x [m]", ylabel="multiplier, sign changed")
below.legend(frameon=False)
plt.show()

# %% [markdown]
# Multipliers are zero where the vehicle is away from a pillar, and at the few knots where it
# touches one they are what pushes it away. A lower limit has negative ones, an upper limit positive
# ones.
#
# ## The price of a limit
#
# How much does the optimal cost change with the radius R? To first order nothing else of the
# optimum matters: the Lagrangian's derivative at the fixed motion is the answer, here
#
# $$\frac{dJ}{dR} = \sum_k \lambda_k \frac{\partial r_k}{\partial R} = -2 R \sum_k \lambda_k .$$
#
# `trajopt.sensitivity` does this for any parameter of a problem; solving again with other radii
# confirms it.

# %%
by_multipliers = -2.0 * p["radius"] * pillars.multipliers.sum()
derivatives = trajopt.sensitivity(make_problem, p, solution)
dJ = dict(zip(p, derivatives.cost, strict=True))
h = 1e-3
thinner, thicker = (
    trajopt.DDP().solve(make_problem(p | {"radius": p["radius"] + d}), warm_start=solution)
    for d in (-h, h)
)
by_solving = (thicker.cost - thinner.cost) / (2.0 * h)
print(f"dJ/dR: {by_multipliers:.3f} by the multipliers, {dJ['radius']:.3f} by sensitivity,")
print(f"{by_solving:.3f} by solving again")
print(f"dJ/d(fastest speed): {dJ['speed']:.3f}: a faster vehicle would do it for less")
assert np.isclose(by_multipliers, dJ["radius"], rtol=1e-4) and dJ["speed"] < 0.0
assert np.isclose(by_solving, dJ["radius"], rtol=1e-2)

# %% [markdown]
# ## The motion for other pillars
#
# The derivative of the whole motion is there as well. `predict` is the motion for other pillars to
# first order: where the next solve begins.

# %%
most = derivatives.valid[0, 1]
print(f"up to {1e3 * most:.1f} mm more, the same limits press at the same knots")
dR = 0.9 * most
wider = make_problem(p | {"radius": p["radius"] + dR})
start = derivatives.predict({"radius": dR, "speed": 0.0})
again = trajopt.DDP().solve(wider, warm_start=start)
scratch = trajopt.DDP().solve(wider)
off, before = (np.abs(xs - again.xs)[:, :2].max() for xs in (start.xs, solution.xs))
print(f"the path for {1e3 * dR:.2f} mm more is predicted within {1e3 * off:.3f} mm,")
print(f"where the old one is {1e3 * before:.3f} mm off")
print(f"{again.iterations} iterations from there, {scratch.iterations} from scratch")
assert again.converged and off < before

# %% [markdown]
# ## Another way around
#
# Obstacles make several minima. To find a certain way, first lead the vehicle along it by a cost,
# and start from that solution, with its multipliers. Constraints take hold gradually, so a path may
# still slip past a pillar in the first iterations: look at where it ended.

# %%
fast = make_problem(p | {"speed": 1.0})
x = np.linspace(0.0, 3.0, 81)[:-1]
ways = {}
for sides in ("right left", "left right", "right right", "left left"):
    beside = PILLARS[:, 1] + [0.5 if side == "left" else -0.5 for side in sides.split()]
    y = np.interp(x, [0.0, *PILLARS[:, 0], 3.0], [0.0, *beside, 0.0])
    along = trajopt.StateCost(system, np.column_stack([x, y, 0.0 * x]), [10.0, 10.0, 0.0])
    led = trajopt.DDP().solve(replace(fast, running_costs=[*fast.running_costs, along]))
    found = trajopt.DDP().solve(fast, warm_start=led)
    left = np.interp(PILLARS[:, 0], *found.xs[:, :2].T) > PILLARS[:, 1]
    ended = " ".join(np.where(left, "left", "right"))
    ways[ended] = found
    print(f"led {sides}: {found.status}, {ended}, cost {found.cost:.3f}")
assert len(ways) > 1 and min(ways, key=lambda name: ways[name].cost) == "right left"
figure, axes = plt.subplots(figsize=(7.0, 3.4), layout="constrained")
draw(axes, ways, p["radius"])
axes.legend(frameon=False)
plt.show()

# %% [markdown]
# ## Infeasible from here
#
# Too slow to arrive in time: the status is `infeasible`, which is said of the trajectory where the solve ended, and
# `explain()` names what is at fault there. Here no other start would help; elsewhere one often does.

# %%
impossible = trajopt.DDP().solve(make_problem(p | {"speed": 0.5}))
print(impossible.explain())
assert impossible.status == "infeasible"

# %% [markdown]
# ## Next
#
# [A quadruped's gait](05_gait.ipynb). In depth: [limits](../../how_to/limits.md),
# [obstacles](../../how_to/obstacles.md) of robots with shapes.
