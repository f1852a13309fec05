"""A unicycle drives around a pillar: dynamics and a constraint of one's own, limits, a warm start from a file."""

import numpy as np

import trajopt


def unicycle(x, u):  # x = (px, py, heading), u = (speed, turn rate)
    return u[0] * np.cos(x[2]), u[0] * np.sin(x[2]), u[1]


def clearance(x):  # squared distance from a pillar less its squared radius
    return ((x[0] - 1.0) ** 2 + (x[1] - 0.1) ** 2 - 0.4**2,)


system = trajopt.CallableSystem(xdot=unicycle, nx=3, nu=2, dt=0.05)
pillar = trajopt.residual(clearance, 1, system)
print(trajopt.check_derivatives(system), trajopt.check_derivatives(pillar, system=system), sep="\n")

problem = trajopt.Problem(
    system,
    x0=[0.0, 0.0, 0.0],
    horizon=60,
    running_costs=[trajopt.ControlCost(weights=[0.2, 0.1])],
    terminal_costs=[trajopt.StateCost(system, reference=[2.0, 0.0, 0.0], weights=100.0)],
    constraints=[
        trajopt.ControlBounds(lower=[0.0, -2.0], upper=[1.0, 2.0]),
        trajopt.ResidualConstraint(pillar, lower=0.0, upper=np.inf, at="all", name="pillar"),
    ],
    us_init=np.tile([0.5, 0.0], (60, 1)),
    name="unicycle",
)
solution = trajopt.DDP().solve(problem)
print(solution.explain())
solution.save("results/custom_dynamics/solution.npz")
again = trajopt.DDP().solve(problem, warm_start=trajopt.Solution.load("results/custom_dynamics/solution.npz", problem))
print(f"{solution.iterations} iterations from scratch, {again.iterations} from the solution")
