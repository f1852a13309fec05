"""A strip between hinges under load: where it buckles, to which shape, and how it vibrates on the way."""

import numpy as np

import dynamics
from dynamics import rods

builder = rods.RodModelBuilder(gravity=(0.0, 0.0, 0.0))
steel = rods.Elastic(young=2e11, poisson=0.3, density=7800.0)
strip = rods.Rectangular(height=0.02, width=0.001)  # along y and z
basis = rods.LegendreBasis(bending_y=5, stretch=0)
builder.add_body("slider", "world", dynamics.Prismatic("x"), (np.eye(3), [0.5, 0.0, 0.0]), mass=0.01)
builder.add_rod("strip", "world", 0.5, strip, steel, basis, joint=dynamics.Revolute("y"), points=10)
builder.add_closure("hinge", "strip", "slider", dynamics.Revolute("y"))
builder.add_wrench("slider")
robot = rods.SoftRobot(builder.build())

push = np.array([[0.0, 0.0, 0.0, -10.0, 0.0, 0.0]])  # 10 N
straight = rods.equilibrium_branch(robot, [], wrenches=push, factors=(0.0, 3.0))
buckling = 10.0 * straight.critical_factors[0]
euler = np.pi**2 * 2e11 * 0.02 * 0.001**3 / 12.0 / 0.5**2
print(f"a {straight.critical_kinds[0]} at {buckling:.3f} N; Euler: {euler:.3f} N")

for load in (0.0, 0.9, 1.1):
    wrench = np.array([[0.0, 0.0, 0.0, -load * buckling, 0.0, 0.0]])
    rest = rods.static_equilibrium(robot, [], wrenches=wrench, method="descent")  # from straight, which may be unstable
    slowest = rods.vibration_modes(robot, rest.q, wrenches=wrench, count=1).frequencies[0]
    print(f"{load:.1f} of it: hinges {0.5 + rest.q[0]:.4f} m apart, first mode {slowest:.2f} Hz, stable: {rest.stable}")
