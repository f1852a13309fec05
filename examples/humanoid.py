"""A humanoid makes a step and keeps the pressure under its soles away from their edges."""

from dataclasses import replace

import dynamics
import problems
import trajopt

problem = problems.make("humanoid_step")
limits = list(problem.constraints)  # of torques, and dynamics.WrenchCone of soles of 20 cm by 12 cm
for _, stance, start, stop in problem.system.segments:
    if stance.dt > 0:
        inner = dynamics.CenterOfPressure(stance, half_lengths=(0.08, 0.04))  # 2 cm from the edges
        limits.append(trajopt.ResidualConstraint(inner, at=range(start, stop)))
solutions = trajopt.compare(replace(problem, constraints=limits), {"ilqr": trajopt.ILQR(), "ddp": trajopt.DDP()})
print(solutions)
