"""Predictive control: a cart swings up its pole although gusts push it and the pole is heavier than the model says."""

import numpy as np

import dynamics
import trajopt

DT, FINE, STEPS, WINDOW = (
    0.02,
    10,
    200,
    50,
)  # seconds a knot, plant steps a knot, knots to simulate, knots to look ahead


def cart_and_pole(pole_mass):
    builder = dynamics.ModelBuilder()
    builder.add_body("cart", "world", dynamics.Prismatic("x"), mass=1.0)
    builder.add_body("pole", "cart", dynamics.Continuous("y"), mass=pole_mass, com=(0.0, 0.0, -0.5))
    return builder.build()


system = dynamics.RigidBodySystem(cart_and_pole(0.10), DT, actuation=np.array([[1.0], [0.0]]))  # what is believed
plant = dynamics.RigidBodySystem(cart_and_pole(0.11), DT / FINE)  # what is simulated, with a force on either joint
hanging, upright = system.state([0.0, 0.0]), system.state([0.0, np.pi])


def swing_up(horizon):
    return trajopt.Problem(
        system,
        hanging,
        horizon,
        running_costs=[trajopt.StateCost(system, upright, [5.0, 5.0, 0.1, 0.1]), trajopt.ControlCost(0.01)],
        terminal_costs=[trajopt.StateCost(system, upright, [100.0, 100.0, 10.0, 10.0])],
        constraints=[trajopt.ControlBounds(-20.0, 20.0)],
        us_init=2.0 * np.sin(2.0 * np.pi * DT * np.arange(horizon))[:, None],
    )


plan = trajopt.DDP().solve(swing_up(STEPS + WINDOW))
controller = trajopt.ILQR(max_iterations=1).prepare(swing_up(WINDOW))


def simulate(kind, gusts):
    """Distance of the pole's tip from its target, m, at every step of the plant."""
    x, start, errors = hanging, 0.0, []
    policy, solution = plan.policy(feedback=kind != "open loop"), None
    for i, gust in enumerate(gusts):
        t = i * DT / FINE
        if kind == "MPC" and i % FINE == 0:  # one iteration from the last plan, moved up by a knot
            if solution is None:
                solution = controller.solve(x, us=plan.us[:WINDOW], xs=plan.xs[: WINDOW + 1])
            else:
                solution = controller.solve(x, warm_start=controller.shifted(solution))
            policy, start = solution.policy(), t
        x = plant.step(x, np.append(policy(t - start, x), 0.0) + gust)
        errors.append(np.hypot(x[0] - 0.5 * np.sin(x[1]), 0.5 + 0.5 * np.cos(x[1])))
    return np.array(errors)


rng = np.random.default_rng(0)
off = {}
for level in (0.0, 1.0, 2.0):
    gusts = np.repeat(rng.normal(0.0, [level, 0.05 * level], (STEPS // 5, 2)), 5 * FINE, axis=0)  # N, N m, 0.1 s each
    for kind in ("open loop", "gains", "MPC"):
        off[kind, level] = np.sqrt(np.mean(simulate(kind, gusts)[-50 * FINE :] ** 2))
        print(f"gusts of {level:.0f} N, {kind:9}: the tip is {off[kind, level]:8.4f} m off in the last second")

# the cart is to stand half a metre further on: the target moves, the prepared problem stays
aside = upright + [0.5, 0.0, 0.0, 0.0]
controller.update({"StateCost": aside, "terminal StateCost": aside})
x, solution = upright, None
for _ in range(STEPS):
    solution = controller.solve(x, warm_start=None if solution is None else controller.shifted(solution))
    x = system.step(x, solution.us[0])
print(f"moved aside, the cart stands at {x[0]:.3f} m, the pole at {np.degrees(x[1]):.1f} degrees")
