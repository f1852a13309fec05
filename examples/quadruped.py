"""A quadruped takes a step: phases of contact, an impact between them, friction, iLQR and DDP, a moving picture."""

import numpy as np

import dynamics
import trajopt
from problems.quadruped_model import FEET, quadruped, standing

robot = quadruped()
others = [foot for foot in FEET if foot != "rf_foot"]
system = dynamics.HybridSystem(robot, 0.01, [("stance", FEET, 10), ("step", others, 20), ("landing", FEET, 20)])
x0 = system.state(standing())
foothold = dynamics.frame_placement(robot, standing(), "rf_foot").p + [0.06, 0.0, 0.0]
above = foothold + [-0.03, 0.0, 0.04]

posture = trajopt.StateCost(system, x0, np.repeat([1.0, 1e-2], 18))
torque = trajopt.ControlCost(1e-1)
lift, land = (
    trajopt.ResidualCost(dynamics.FrameTranslation(robot, "rf_foot", place), weight)
    for place, weight in ((above, 1e3), (foothold, 1e4))
)
costs = [[posture, torque] for _ in range(system.horizon)]  # one list for each knot
costs[20].append(lift)
costs[30] = [land]  # the impact: a knot that takes no time
limits = [trajopt.ControlBounds.from_model(system)]
for name, feet_held, start, stop in system.segments:
    if feet_held.dt > 0:
        cone = dynamics.FrictionCone(feet_held, 0.6)
        limits.append(trajopt.ResidualConstraint(cone, cone.lower, cone.upper, at=range(start, stop), name=name))

problem = trajopt.Problem(
    system, x0, system.horizon, costs, [trajopt.StateCost(system, x0, 10.0), land], limits, us_init="quasi_static"
)  # fmt: skip
solutions = trajopt.compare(problem, {"ilqr": trajopt.ILQR(), "ddp": trajopt.DDP(switch_threshold=0.1)})
print(solutions)
forces = system.contact_forces(solutions["ddp"].xs, solutions["ddp"].us)  # (knots, feet, 3)
largest, weight = np.linalg.norm(forces, axis=2).max(), 9.81 * robot.total_mass
print(f"largest force on a foot: {largest:.1f} N of {weight:.1f} N weight")
trajopt.animate(solutions["ddp"], "results/quadruped/step.gif")
