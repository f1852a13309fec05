"""Learn from an expert's motions where to and how: a network tells an arm its target and the weight of its cost.
It needs the extra `torch`."""

import sys

import numpy as np
import torch

import dynamics
import problems
import trajopt
import trajopt.torch

robot = dynamics.load_urdf(problems.model_path("arm6"))
system = dynamics.RigidBodySystem(robot, dt=0.02)
x0 = system.state(q=[0.0, -1.2, 1.6, -1.9, -1.6, 0.0])
R, middle = dynamics.frame_placement(robot, np.array([1.1, -1.7, 2.0, -1.4, -1.1, 0.8]), "tool")
hold, rest = np.tile(dynamics.gravity_forces(robot, x0[:6]), (50, 1)), np.r_[np.zeros(6), 10.0 * np.ones(6)]


def motion(p):
    """The tool to a place p[:3], m, from the middle of a table; exp(p[3]) is the weight of the wrist's speeds."""
    speeds = trajopt.StateCost(system, x0, np.r_[np.zeros(6), 0.1 * np.ones(3), np.exp(p[3]) * np.ones(3)])
    place = trajopt.ResidualCost(dynamics.FramePlacement(robot, "tool", (R, middle + p[:3])), np.repeat([1e3, 1e2], 3))
    costs = [speeds, trajopt.ControlCost(1e-4)], [place, trajopt.StateCost(system, x0, rest)]
    return trajopt.Problem(system, x0, 50, *costs, us_init=hold)


def expert(situations):
    """The expert's hidden preferences: a glass goes to a place on a turning table, and the fuller it is, the slower the
    wrist."""
    turn, full = situations.T
    place = 0.1 * torch.stack([torch.cos(2.0 * turn), torch.sin(2.0 * turn), 0.2 * full], dim=1)
    return torch.cat([place, 2.0 * full[:, None] ** 2 - 1.0], dim=1)


torch.manual_seed(0)
torch.set_default_dtype(torch.float64)
known, new = 2.0 * torch.rand(2, 16, 2) - 1.0
plan = trajopt.torch.OptimalControl(motion, trajopt.DDP())
network = torch.nn.Sequential(torch.nn.Linear(2, 24), torch.nn.Tanh(), torch.nn.Linear(24, 4))
network[2].weight.data *= 0.1  # a beginner moves to the middle


def loss(situations, paths):
    """Mean squared distance of all joint angles from the expert's, rad^2."""
    return (plan(network(situations))[0] - paths)[..., :6].square().mean()


paths, of_new = plan(expert(known))[0], plan(expert(new))[0]
first, untrained = loss(new, of_new).item(), network(new[:1]).detach()
steps = int(sys.argv[1]) if len(sys.argv) > 1 else 60
optimizer = torch.optim.Adam(network.parameters(), lr=0.04)
schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
for _ in range(steps):
    optimizer.zero_grad()
    loss(known, paths).backward()
    optimizer.step()
    schedule.step()
last = loss(new, of_new).item()
off = [f"{1e3 * each**0.5:.3g} mrad" for each in (first, last)]
print(f"situations never seen: {off[0]} from the expert untrained, {off[1]} trained")

asked = {"expert": expert(new[:1]), "untrained": untrained, "trained": network(new[:1]).detach()}
solutions = {name: trajopt.DDP().solve(motion(p[0].numpy())) for name, p in asked.items()}
trajopt.plot_trajectory(solutions, "results/imitation/motion.png")
