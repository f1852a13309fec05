"""Two rods in a row, pulled by four cables."""

import numpy as np

import dynamics
import trajopt
from dynamics import rods

builder = rods.RodModelBuilder(name="two rods")
rubber = rods.Elastic(young=8e5, poisson=0.5, density=1100.0, viscosity=8e3)
basis = rods.LegendreBasis(torsion=1, bending_y=2, bending_z=2, stretch=0)
builder.add_rod("lower", "world", 0.2, rods.Circular(0.02, 0.018), rubber, basis)
builder.add_rod("upper", "lower", 0.2, rods.Circular(0.018, 0.015), rubber, basis)
angles = 0.5 * np.pi * np.arange(4)
cables = [rods.Tendon.straight(("lower", "upper"), 0.012 * np.sin(a), 0.012 * np.cos(a)) for a in angles]
robot = rods.SoftRobot(builder.build(), cables)
rest = rods.static_equilibrium(robot, np.zeros(4))
system = dynamics.SoftRobotSystem(robot, dt=0.02)
x0 = system.state(rest.q)
tip = rods.LinkTranslation(robot.model, "upper", target=rods.link_placement(robot.model, "upper", rest.q)[1] + 0.04)
last = [trajopt.ResidualCost(tip, 1e4), trajopt.StateCost(system, x0, np.repeat([0.0, 1.0], robot.nv))]
limits = [trajopt.ControlBounds(np.zeros(4), np.full(4, 40.0))]
problem = trajopt.Problem(system, x0, 40, [trajopt.ControlCost(1e-3)], last, limits)
print(trajopt.compare(problem, {"ilqr": trajopt.ILQR(), "ddp": trajopt.DDP()}))
