"""A soft arm on a turntable: its shape at rest, a simulation, and a reach by iLQR and DDP."""

import numpy as np

import dynamics
import trajopt
from dynamics import rods

builder = rods.RodModelBuilder()
builder.add_body("table", "world", dynamics.Revolute("z"), mass=1.0, inertia=np.diag([0.01, 0.01, 0.02]), damping=0.1)
silicone = rods.Elastic(young=1e6, poisson=0.5, density=1000.0, viscosity=1e4)  # Pa, -, kg/m^3, Pa s
basis = rods.LegendreBasis(torsion=1, bending_y=3, bending_z=3, stretch=0)  # orders of polynomials in the arclength
builder.add_rod("arm", "table", 0.4, rods.Circular(0.025, 0.018), silicone, basis)  # tapered, along x
angles = 2.0 * np.pi * np.arange(3) / 3.0
cables = [rods.Tendon.straight("arm", 0.015 * np.sin(a), 0.015 * np.cos(a)) for a in angles]
robot = rods.SoftRobot(builder.build(), cables, torques=["table"])  # three tensions, then a torque

rest = rods.static_equilibrium(robot, np.zeros(4), prescribed={"table": 0.0})
motion = rods.simulate(robot, 2.0, lambda t: [10.0 * np.sin(t) ** 2, 0.0, 0.0, 0.01], q0=rest.q)  # exact Jacobian, BDF
sag, end = (rods.link_placement(robot.model, "arm", q)[1] for q in (rest.q, motion.q[-1]))
print(f"{rest.status}: tip at rest {sag.round(3)} m, after two seconds {end.round(3)} m")

system = dynamics.SoftRobotSystem(robot, dt=0.02)
x0, n = system.state(rest.q), robot.nv
tip = rods.LinkTranslation(robot.model, "arm", target=sag + [-0.05, 0.1, 0.1])
problem = trajopt.Problem(
    system, x0, 50,
    running_costs=[trajopt.ControlCost([1e-3, 1e-3, 1e-3, 1.0])],
    terminal_costs=[trajopt.ResidualCost(tip, 1e4), trajopt.StateCost(system, x0, np.repeat([0.0, 1.0], n))],
    constraints=[trajopt.ControlBounds([0.0, 0.0, 0.0, -1.0], [50.0, 50.0, 50.0, 1.0])],  # cables only pull
)  # fmt: skip
solutions = trajopt.compare(problem, {"ilqr": trajopt.ILQR(), "ddp": trajopt.DDP()})
print(solutions)
missed = np.linalg.norm(tip.evaluate(solutions["ddp"].xs[-1:])[0])
print(f"the tip is {1e3 * missed:.2f} mm from its target")
trajopt.animate(solutions["ddp"], "results/soft_arm/reach.gif")
motion.animate("results/soft_arm/motion.gif")  # motion.plot("motion.png"): tips, energies and controls
