"""The links of a leg that jumps, chosen for the least effort: gradients of the optimal cost by the lengths."""

import numpy as np
from scipy.optimize import minimize

import problems
import trajopt
from trajopt.plotting.style import COLORS, new_figure, save, tidy


def make(lengths):  # of the upper and the lower link, cm; masses and inertias follow
    return problems.make("leg_jump", design=0.01 * np.asarray(lengths))


start = np.array([16.0, 16.0])  # those of the quadruped
tried = [(start, first := trajopt.DDP().solve(make(start)), trajopt.sensitivity(make, start, first))]


def effort(lengths):
    """The least cost of a jump, and its gradient; from the jump before, to first order."""
    before, _, derivatives = tried[-1]
    solution = trajopt.DDP().solve(make(lengths), warm_start=derivatives.predict(lengths - before))
    tried.append((lengths.copy(), solution, trajopt.sensitivity(make, lengths, solution)))
    return solution.cost, tried[-1][2].cost


best = minimize(effort, start, jac=True, method="L-BFGS-B", bounds=[(9.0, 24.0)] * 2)
lengths, solution, derivatives = tried[-1]
for (upper, lower), jump, _ in (tried[0], tried[-1]):
    print(f"{upper:.1f} and {lower:.1f} cm: cost {jump.cost:.4f}, torques up to {np.abs(jump.us).max():.2f} N m")
print(f"{best.nfev} jumps; {solution.certificate()}")

knee = solution.us[:, 1]
peak = np.linalg.norm(knee, 16)  # a smooth largest torque, and what the lengths do to it: one adjoint sweep
by_lengths = derivatives.vjp(us_bar=np.column_stack([0.0 * knee, (knee / peak) ** 15]))
print(f"the largest torque of the knee changes by {by_lengths[0]:.4f} and {by_lengths[1]:.4f} N m per cm of a link")
error = solution.discretization_error()
print(f"executed without feedback the plan is off by {100.0 * error.relative:.2g} % of its motion")

trajopt.plot_trajectory({"16 and 16 cm": first, "least effort": solution}, "results/leg_design/motion.png")
figure = new_figure(11.0, 4.2)
before, after, falling = figure.subplots(1, 3)
for axes, ((upper, lower), jump, _) in ((before, tried[0]), (after, tried[-1])):
    for moment in jump.problem.system.skeleton(jump.xs[::6])[:, 1:]:  # without the rail
        axes.plot(*moment[..., [0, 2]].reshape(-1, 2).T, color=COLORS[0], alpha=0.5)
    axes.set(aspect="equal", xlim=(-0.2, 0.2), ylim=(-0.02, 0.55), title=f"{upper:.1f} and {lower:.1f} cm")
    tidy(axes, "x [m]", "z [m]")
falling.plot(np.minimum.accumulate([jump.cost for _, jump, _ in tried]), "o-", color=COLORS[0])
falling.set_xticks(range(0, len(tried), 4))
tidy(falling, "jumps", "least cost until then")
save(figure, "results/leg_design/design.png")
