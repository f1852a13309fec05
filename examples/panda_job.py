"""A Franka Panda moves to a pose in the least time past a ball; the plan is checked, executed and handed over.
Without a file of the robot it needs the extra `robots`."""

import sys

import numpy as np

import dynamics
import trajopt

source = sys.argv[1] if len(sys.argv) > 1 else "panda_description"  # a file, or a name that is fetched
robot = dynamics.load_robot(source, lock={"panda_finger_joint1": 0.02, "panda_finger_joint2": 0.02})
most = np.array([15.0, 7.5, 10.0, 12.5, 15.0, 20.0, 20.0])  # rad/s^2, the accelerations that its maker allows
inside = dynamics.JointAccelerationSystem(robot, dt=0.03)
system = trajopt.FreeDurationSystem(inside, 40)
x0 = inside.state([-0.9, 0.3, 0.0, -2.0, 0.0, 2.3, 0.8])
pose = dynamics.frame_placement(robot, np.array([0.9, 0.3, 0.0, -2.0, 0.0, 2.3, 0.8]), "panda_hand")

ball = {"ball": (dynamics.Sphere(0.1), (0.5, 0.0, 0.2))}
always = [("panda_link5", "panda_link7")]  # closer than the margin in whatever posture
every = dynamics.Collisions(robot, ball, disabled=always, margin=0.02)
avoid = dynamics.Collisions(robot, ball, disabled=always, margin=0.02, closest=16, along=x0[None])
torques = dynamics.JointTorques(inside, scale=1.0 / robot.effort_limit)
hand, rest = dynamics.FramePlacement(robot, "panda_hand", pose), trajopt.StateResidual(inside, x0, range(7, 14))

us = None
for _ in range(5):  # rows for the pairs of shapes that come closest, until no other pair comes too close
    costs = [trajopt.TimeCost(system), system.lift(trajopt.ControlCost(1e-3))]
    limits = [
        system.duration_bounds(),
        trajopt.ControlBounds(np.append(-most, -np.inf), np.append(most, np.inf)),
        trajopt.StateBounds.from_model(system),
        trajopt.ResidualConstraint(system.lift(torques), torques.lower, torques.upper),
        trajopt.ResidualConstraint(system.lift(avoid), avoid.lower, avoid.upper, name="collisions"),
        *(trajopt.ResidualConstraint(system.lift(residual), at="terminal") for residual in (hand, rest)),
    ]
    plan = trajopt.DDP().solve(trajopt.Problem(system, system.state(x0), system.horizon, costs, (), limits), us)
    xs, us = system.split(plan.xs)[0], plan.us
    if not avoid.missed(xs):
        break
    avoid = avoid.replaced(xs)
clearance = every.distances(system.split(plan.resample(1e-3).xs)[0]).min()  # at every millisecond
print(f"{plan.status}: {system.total_time(plan.xs):.3f} s, never closer than {1e3 * clearance:.1f} mm")

driven = dynamics.RigidBodySystem(robot, dt=0.005, integrator="rk4")  # torques for controls, to execute the plan
knots = plan.resample(driven.dt)
path = system.split(knots.xs)[0]
held = torques.evaluate(path[:-1], knots.us[:-1, :7]) * robot.effort_limit
follow = [trajopt.StateCost(driven, path[:-1], np.repeat([1e4, 1e1], 7)), trajopt.ControlCost(1e-3, held)]
end = [trajopt.StateCost(driven, path[-1], 1e4)]
bounds = [trajopt.ControlBounds.from_model(driven)]
solution = trajopt.DDP().solve(trajopt.Problem(driven, x0, len(held), follow, end, bounds, held, "panda"))


def off(motion):
    """Largest distance of the hand from the plan during a motion, mm."""
    places = [dynamics.frame_placement(robot, np.array(x[:, :7]), "panda_hand").p for x in (motion, path)]
    return 1e3 * np.linalg.norm(places[0] - places[1], axis=1).max()


loaded = robot.with_body("payload", "panda_hand", mass=2.0)  # a payload that the plan does not contain
for model, policy in ((None, "open loop"), (loaded, "open loop"), (loaded, "feedback")):
    motion = trajopt.simulate(solution, model=model, dt=1e-3, policy=policy)
    print(f"{'2 kg more' if model else 'as planned'}, {policy}: {off(motion.xs[motion.knots]):.2f} mm off")
solution.to_csv("results/panda_job/plan.csv", dt=1e-3)
if "--view" in sys.argv:
    trajopt.view(solution)
