"""A catheter with a magnet in its tip, bent around a ball by three coils: a load after a law of one's own."""

import numpy as np

import dynamics
import trajopt
from dynamics import rods


def magnet(R, p, w, v, u):
    """Moment m x B and no force: a dipole m along the catheter in a uniform field B = u."""
    return np.concatenate([np.cross(0.1 * R[:, 0], u), np.zeros(3)])  # A m^2, T


builder = rods.RodModelBuilder(gravity=(0.0, 0.0, 0.0))
silicone = rods.Elastic(young=5e6, poisson=0.45, density=1100.0, viscosity=2e5)  # Pa, -, kg/m^3, Pa s
basis = rods.LegendreBasis(torsion=0, bending_y=3, bending_z=3, stretch=0)
builder.add_rod("catheter", "world", 0.2, rods.Circular(0.003), silicone, basis, points=6)  # along x
builder.add_load("catheter", magnet, controls=["Bx", "By", "Bz"])
ball = rods.SphereContact(0.03, 300.0, point=[0.08, 0.036, 0.0], smoothing=2e-3, friction=0.2)
builder.add_contact("catheter", ball, spacing=0.02)
robot = rods.SoftRobot(builder.build())

rest = rods.static_equilibrium(robot, np.zeros(3))
system = dynamics.SoftRobotSystem(robot, dt=0.02, integrator="sdirk2")
x0, n = system.state(rest.q), robot.nv
tip = rods.LinkTranslation(robot.model, "catheter", target=[0.13, 0.1, 0.0])
problem = trajopt.Problem(
    system, x0, 50,
    running_costs=[trajopt.ControlCost([10.0, 10.0, 10.0])],
    terminal_costs=[trajopt.ResidualCost(tip, 1e4), trajopt.StateCost(system, x0, np.repeat([0.0, 1e-4], n))],
    constraints=[trajopt.ControlBounds(np.full(3, -0.1), np.full(3, 0.1))],  # T
)  # fmt: skip
solution = trajopt.DDP().solve(problem)
missed = np.linalg.norm(tip.evaluate(solution.xs[-1:])[0])
touch = rods.contact_forces(robot.model, solution.xs[:, :n])
hardest = np.linalg.norm(touch.forces.sum(axis=1), axis=1).max()
print(f"{solution.status} in {solution.iterations} iterations: the tip is {1e3 * missed:.2f} mm from its target, "
      f"the ball is pressed with up to {1e3 * hardest:.1f} mN")  # fmt: skip
