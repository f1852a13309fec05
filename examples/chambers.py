"""An arm of two segments on chambers and a cable through both, which reaches over by pressure."""

import numpy as np

import dynamics
import trajopt
from dynamics import rods

builder = rods.RodModelBuilder()
rubber = rods.Elastic(young=5e5, poisson=0.5, density=1100.0, viscosity=5e3)  # Pa, -, kg/m^3, Pa s
down = np.array([[0.0, 0.0, 1.0], [0.0, 1.0, 0.0], [-1.0, 0.0, 0.0]]), np.zeros(3)  # x of the rod along -z
basis = rods.LegendreBasis(torsion=0, bending_y=1, bending_z=1, stretch=0)
builder.add_rod("upper", "world", 0.15, rods.Circular(0.02), rubber, basis, placement=down)
builder.add_body("ring", "upper", dynamics.Fixed(), (np.eye(3), [0.005, 0.0, 0.0]), mass=0.02)
builder.add_rod("lower", "ring", 0.15, rods.Circular(0.02, 0.015), rubber, basis)
builder.add_wrench("lower", "push", at=0.5)  # N m and N, wherever wrenches are an argument
builder.add_distributed_load("upper", [0.0, 0.0, 0.0, 0.0, 2.0, 0.0])  # a breeze, N/m
places = [0.011 * np.array([np.cos(a), np.sin(a)]) for a in 2.0 * np.pi * np.arange(3) / 3.0]
chambers = [rods.Chamber(rod, y, z, area=8e-5) for rod in ("upper", "lower") for y, z in places]
cable = rods.Tendon.straight(("upper", "lower"), 0.0, 0.01)  # one tension through both
robot = rods.SoftRobot(builder.build(), [cable], chambers=chambers)  # a tension, then six pressures

rest = rods.static_equilibrium(robot, np.zeros(7))
bent = rods.static_equilibrium(robot, [0.0, 6e4, 0.0, 0.0, 6e4, 0.0, 0.0])
pushed = rods.static_equilibrium(robot, np.zeros(7), wrenches=[[0.0, 0.0, 0.0, 0.5, 0.0, 0.0]])
hanging, *others = (rods.link_placement(robot.model, "lower", shape.q)[1] for shape in (rest, bent, pushed))
print("tip at rest, under pressure, pushed in the middle [m]:", hanging.round(3), *(tip.round(3) for tip in others))

system = dynamics.SoftRobotSystem(robot, dt=0.02)
x0, n = system.state(rest.q), robot.nv
tip = rods.LinkTranslation(robot.model, "lower", target=hanging + [0.05, 0.05, 0.02])
problem = trajopt.Problem(
    system, x0, 40,
    running_costs=[trajopt.ControlCost([1e-2, *np.full(6, 1e-10)])],  # N and Pa
    terminal_costs=[trajopt.ResidualCost(tip, 3e4), trajopt.StateCost(system, x0, np.repeat([0.0, 1e-2], n))],
    constraints=[trajopt.ControlBounds(np.zeros(7), [20.0, *np.full(6, 1e5)])],  # cables pull, chambers push
)  # fmt: skip
solution = trajopt.DDP().solve(problem)
missed = np.linalg.norm(tip.evaluate(solution.xs[-1:])[0])
print(f"{solution.status} in {solution.iterations} iterations: the tip is {1e3 * missed:.2f} mm from its target, "
      f"pressures up to {1e-3 * solution.us[:, 1:].max():.0f} kPa")  # fmt: skip
