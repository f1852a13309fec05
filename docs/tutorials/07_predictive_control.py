# %% [markdown]
# # Predictive control
#
# A plan meets the world: gusts, and a pole that is heavier than the model says. Three ways to
# execute it, from none to all of the solver at work.

# %%
import matplotlib.pyplot as plt
import numpy as np

import dynamics
import trajopt

DT, FINE = 0.02, 10  # seconds a knot; steps of what moves, a knot
STEPS, WINDOW = 200, 50  # knots to simulate, and to look ahead


def cart_and_pole(pole_mass):
    builder = dynamics.ModelBuilder(name="cart and pole")
    builder.add_body("cart", "world", dynamics.Prismatic("x"), mass=1.0)
    hinge = dynamics.Continuous("y")
    builder.add_body("pole", "cart", hinge, mass=pole_mass, com=(0.0, 0.0, -0.5))
    return builder.build()


# what is believed, and what moves, with a force on either joint for the gusts
system = dynamics.RigidBodySystem(cart_and_pole(0.10), DT, actuation=[[1.0], [0.0]])
plant = dynamics.RigidBodySystem(cart_and_pole(0.11), DT / FINE)
hanging, upright = system.state([0.0, 0.0]), system.state([0.0, np.pi])


def swing_up(horizon):
    way = trajopt.StateCost(system, upright, [5.0, 5.0, 0.1, 0.1])
    return trajopt.Problem(
        system,
        hanging,
        horizon,
        running_costs=[way, trajopt.ControlCost(0.01)],
        terminal_costs=[trajopt.StateCost(system, upright, [100.0, 100.0, 10.0, 10.0])],
        constraints=[trajopt.ControlBounds(-20.0, 20.0)],
        us_init=2.0 * np.sin(2.0 * np.pi * DT * np.arange(horizon))[:, None],
        name="swing-up",
    )


plan = trajopt.DDP().solve(swing_up(STEPS + WINDOW))
assert plan.converged

# %% [markdown]
# ## Prepare once, then cycles
#
# `prepare` does once what every solve would repeat. A cycle of *real-time iteration* is a single
# iteration (`max_iterations=1`) from the last solution, moved up by a knot (`shifted`): it need not
# converge, for the next cycle goes on.

# %%
controller = trajopt.ILQR(max_iterations=1).prepare(swing_up(WINDOW))


def tip_error(x):
    """Distance of the pole's tip from where it should be, m."""
    return np.hypot(x[0] - 0.5 * np.sin(x[1]), 0.5 + 0.5 * np.cos(x[1]))


def simulate(kind, gusts):
    """Distance of the tip at every step of the plant."""
    x, start, errors = hanging, 0.0, []
    policy, solution = plan.policy(feedback=kind != "open loop"), None
    planned = {"us": plan.us[:WINDOW], "xs": plan.xs[: WINDOW + 1]}
    for i, gust in enumerate(gusts):
        t = i * DT / FINE
        if kind == "predictive" and i % FINE == 0:
            if solution is None:
                solution = controller.solve(x, **planned)
            else:
                solution = controller.solve(x, warm_start=controller.shifted(solution))
            policy, start = solution.policy(), t
        x = plant.step(x, np.append(policy(t - start, x), 0.0) + gust)
        errors.append(tip_error(x))
    return np.array(errors)


# %% [markdown]
# `policy(t, x)` is the plan with its gains: between two cycles it reacts at every step of the
# plant. Gusts push the cart and turn the pole, each for a tenth of a second.

# %% tags=["thumbnail"]
rng = np.random.default_rng(0)
figure, panels = plt.subplots(1, 2, figsize=(10.0, 3.4), layout="constrained", sharey=True)
off = {}
for axes, level in zip(panels, (0.0, 2.0), strict=True):
    drawn = rng.normal(0.0, [level, 0.05 * level], (STEPS // 5, 2))  # N, N m
    gusts = np.repeat(drawn, 5 * FINE, axis=0)
    print(f"gusts of {level:.0f} N: in the last second the tip is")
    for kind in ("open loop", "gains", "predictive"):
        errors = simulate(kind, gusts)
        off[kind, level] = np.sqrt(np.mean(errors[-50 * FINE :] ** 2))
        axes.plot(np.arange(len(errors)) * DT / FINE, errors, label=kind)
        print(f"    {off[kind, level]:.2g} m off, {kind}")
    axes.set(xlabel="time [s]", title=f"gusts of {level:.0f} N")
panels[0].set_ylabel("tip off upright [m]")
panels[1].legend(frameon=False)
plt.show()
assert off["predictive", 2.0] < 0.5 * off["open loop", 2.0]
assert off["predictive", 0.0] < 0.1

# %% [markdown]
# Alone, the forces of the plan swing up another pole than this one. Gains hold the plan as far as
# its linearization reaches. Predictive control plans from where it is: pushed far away, it leaves
# the plan and comes back on another way.
#
# ## A target that moves
#
# `update` moves targets, references and limits of the prepared problem, in microseconds.

# %%
aside = upright + [0.5, 0.0, 0.0, 0.0]
controller.update({"StateCost": aside, "terminal StateCost": aside})
x, solution, places = upright, None, []
for _ in range(STEPS):
    start = None if solution is None else controller.shifted(solution)
    solution = controller.solve(x, warm_start=start)
    x = system.step(x, solution.us[0])
    places.append(x[:2] - [0.0, np.pi])
print(f"the cart stands at {x[0]:.3f} m, the pole at {np.degrees(x[1]):.1f} degrees")
assert abs(x[0] - 0.5) < 0.01
figure, axes = plt.subplots(figsize=(8.0, 2.8), layout="constrained")
axes.plot(DT * np.arange(STEPS), places, label=["cart [m]", "pole from upright [rad]"])
axes.set(xlabel="time [s]")
axes.legend(frameon=False)
plt.show()

# %% [markdown]
# ## Nothing left to do when the sample arrives
#
# A cycle takes time, and the state is older by that when its control goes out. `prepare_step` does
# the work before: it plans for the state that is *expected*, and keeps the exact derivatives of
# that plan by the state and by parameters. When the sample arrives, a product is left.

# %%
ready = trajopt.DDP(max_iterations=1).prepare(swing_up(WINDOW))
best = trajopt.DDP().prepare(swing_up(WINDOW))
expected, held = upright, best.solve(upright, us=np.zeros((WINDOW, 1)))
differences, forces = [], []
feedback = ready.prepare_step(expected, warm_start=held)
for _ in range(40):
    sample = expected + rng.normal(0.0, [0.01, 0.02, 0.05, 0.05])
    u = feedback(sample)
    right = best.solve(sample, warm_start=feedback.plan(sample))
    differences.append(abs(u[0] - right.us[0, 0]))
    forces.append(abs(right.us[0, 0]))
    expected = system.step(sample, u)
    feedback = ready.prepare_step(expected, warm_start=feedback.plan(sample, steps=1))
off = np.median(differences)
print(f"forces are up to {max(forces):.1f} N, those by derivatives {off:.2g} N off")
assert off < 0.05 * max(forces)

# %% [markdown]
# ## Next
#
# [Identification](08_identification.ipynb). In depth: [predictive
# control](../../how_to/predictive_control.md); what a cycle costs is measured in
# [benchmarks](../../benchmarks.md).
