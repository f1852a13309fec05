"""Derivatives of a swing-up by what its robot is made of: prediction, a gradient, a certificate, bands of noise."""

import numpy as np

import dynamics
import trajopt


def make_problem(p):
    builder = dynamics.ModelBuilder()
    builder.add_body("cart", "world", dynamics.Prismatic("x"), mass=1.0)
    builder.add_body("pole", "cart", dynamics.Continuous("y"), mass=p["mass"], com=(0.0, 0.0, -p["length"]))
    system = dynamics.RigidBodySystem(builder.build(), dt=0.02, integrator="rk4", actuation=np.array([[1.0], [0.0]]))
    upright = system.state([0.0, np.pi])
    return trajopt.Problem(
        system,
        x0=np.zeros(4),
        horizon=100,
        running_costs=[trajopt.StateCost(system, upright, [0.1, 0.1, 0.01, 0.01]), trajopt.ControlCost(0.01)],
        terminal_costs=[trajopt.StateCost(system, upright, [100.0, 100.0, 10.0, 10.0])],
        us_init=2.0 * np.sin(np.linspace(0.0, 4.0 * np.pi, 100))[:, None],
    )


p = {"mass": 0.1, "length": 0.5}
solution = trajopt.DDP().solve(make_problem(p))
found = trajopt.sensitivity(make_problem, p, solution)  # .xs (101, 4, 2), .us (100, 1, 2), .cost (2,)
print(f"a kilogram more of pole costs {found.cost[0]:.3f}, a metre {found.cost[1]:.3f}")

start = found.predict({"mass": 0.0, "length": 0.01})  # a plan for a pole that is a centimetre longer, for no solve
longer = trajopt.DDP().solve(make_problem({"mass": 0.1, "length": 0.51}), warm_start=start)
off, before = (np.abs(us - longer.us).max() for us in (start.us, solution.us))
print(f"predicted within {off:.3f} N, without {before:.3f} N; {longer.iterations} iterations from there")

peak = np.sum(solution.us**8) ** (1 / 8)  # the largest force, smoothly: any function of the plan has a gradient
slopes = found.vjp(us_bar=(solution.us / peak) ** 7)
print(f"the peak of {peak:.1f} N grows by {slopes['mass']:.1f} N/kg and {slopes['length']:.1f} N/m")

print(solution.certificate())
gusts = solution.covariance(process_noise=1e-4 * np.diag([0.0, 0.0, 1.0, 1.0]))  # of velocities, at every knot
trajopt.plot_trajectory(solution, "results/sensitivity/bands.png", covariance=gusts)
print(f"noise costs {gusts.cost_increase:.3f} on average, the gains at work")
