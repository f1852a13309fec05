"""A unicycle drives around a pillar: dynamics and a constraint of one's own, limits, a warm start from a file."""

import numba
import numpy as np

import trajopt


@numba.njit
def unicycle(x, u):  # x = (px, py, heading), u = (speed, turn rate); compiled into the rollouts
    return u[0] * np.cos(x[2]), u[0] * np.sin(x[2]), u[1]


class Clearance:  # a residual: squared distance from a pillar less its squared radius
    nr = 1

    def __init__(self, center, radius):
        self.center, self.radius = np.array(center), radius

    def evaluate(self, xs, us):
        return np.sum((xs[:, :2] - self.center) ** 2, axis=1, keepdims=True) - self.radius**2

    def jacobians(self, xs, us):
        rx = np.zeros((len(xs), 1, 3))
        rx[:, 0, :2] = 2 * (xs[:, :2] - self.center)
        return rx, None

    def hessian_products(self, xs, us, mu):
        return 2 * mu[:, :, None] * np.diag([1.0, 1.0, 0.0]), None, None


system = trajopt.CallableSystem(xdot=unicycle, nx=3, nu=2, dt=0.05)
pillar = Clearance(center=[1.0, 0.1], radius=0.4)
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
