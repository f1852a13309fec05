"""A hexapod, built here, that makes two steps of a tripod gait."""

import numpy as np

import dynamics
import trajopt

builder = dynamics.ModelBuilder(name="hexapod")
builder.add_body("base", "world", dynamics.FreeFlyer(), mass=3.0, inertia=np.diag([0.02, 0.04, 0.05]))
link = {"inertia": np.diag([2e-4, 2e-4, 2e-5])}
feet, angles = [], []
for i, (x, side) in enumerate((x, side) for x in (0.2, 0.0, -0.2) for side in (1.0, -1.0)):
    hip, thigh, shank = (f"{part}{i}" for part in ("hip", "thigh", "shank"))
    builder.add_body(hip, "base", dynamics.Revolute("z"), placement=(np.eye(3), (x, 0.08 * side, 0)), mass=0.1, **link)
    outwards = (np.eye(3), (0.0, 0.06 * side, 0.0))
    builder.add_body(thigh, hip, dynamics.Revolute("x"), placement=outwards, mass=0.15, com=(0, 0, -0.06), **link)
    knee = (np.eye(3), (0.0, 0.0, -0.12))
    builder.add_body(shank, thigh, dynamics.Revolute("x"), placement=knee, mass=0.1, com=(0, 0, -0.06), **link)
    builder.add_frame(f"foot{i}", shank, placement=knee)
    feet.append(f"foot{i}")
    angles += [0.0, 0.6 * side, -1.2 * side]
robot = builder.build()
standing = np.r_[0.0, 0.0, 0.24 * np.cos(0.6), 0.0, 0.0, 0.0, 1.0, angles]
tripods = (feet[0], feet[3], feet[4]), (feet[1], feet[2], feet[5])
plan = [(4, ()), (16, tripods[0]), (16, tripods[1]), (8, ())]
gait = dynamics.Gait(robot, standing, feet, plan, stride=(0.05, 0, 0), height=0.03, dt=0.01)
system = gait.system
posture = np.r_[np.zeros(3), np.ones(robot.nv - 3), np.full(robot.nv, 1e-2)]
costs = [[] for _ in range(system.horizon)]
for t in gait.moving:
    costs[t] += [trajopt.StateCost(system, gait.start, posture), trajopt.ControlCost(0.05)]
for foot, start, stop, path in gait.swings:
    place = dynamics.FrameTranslation(robot, foot, np.zeros(3))
    for t in range(start, stop):
        costs[t].append(trajopt.ResidualCost(place, 1e3, reference=path[t - start]))
    costs[stop].append(trajopt.ResidualCost(place, 1e5, reference=path[-1]))
limits = [trajopt.ControlBounds(-8.0, 8.0)]
for cone, knots, name in gait.friction_cones(0.7):
    limits.append(trajopt.ResidualConstraint(cone, cone.lower, cone.upper, at=knots, name=name))
problem = trajopt.Problem(
    system, gait.start, system.horizon, costs, [trajopt.StateCost(system, gait.end, 1e3)], limits,
    us_init="quasi_static", xs_init=gait.states(),
)  # fmt: skip
print(trajopt.compare(problem, {"ilqr": trajopt.ILQR(), "ddp": trajopt.DDP()}))
