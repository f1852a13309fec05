"""What a robot weighs, from the torques of a motion; what a motion was optimal for, and with which masses."""

from functools import lru_cache
from pathlib import Path

import numpy as np
import scipy.linalg
import scipy.optimize
from matplotlib.figure import Figure

import dynamics
import problems
import trajopt

rng = np.random.default_rng(0)

# an arm swings all joints at once, each at a pace of its own; motors report their torques with an error of 1 N m
robot = dynamics.load_urdf(problems.model_path("arm6"))
system = dynamics.RigidBodySystem(robot, dt=0.01)
start, noise = np.array([0.0, -1.2, 1.6, -1.9, -1.6, 0.0]), 1.0
swing, pace = np.array([0.8, 0.5, 0.6, 1.0, 1.0, 1.5]), np.array([1.8, 2.6, 3.2, 4.2, 5.2, 6.2])
path = trajopt.StateCost(system, lambda t: system.state(start + swing * np.sin(pace * t)), np.repeat([1e2, 0.0], 6))
limits = [trajopt.ControlBounds.from_model(system)]
exciting = [path, trajopt.ControlCost(1e-4)]
motion = trajopt.DDP().solve(trajopt.Problem(system, system.state(start), 300, exciting, (), limits, "quasi_static"))
q, v = np.split(motion.xs, 2, axis=1)
Y = dynamics.inverse_dynamics_regressor(robot, q[:-1], v[:-1], np.diff(v, axis=0) / system.dt).reshape(1800, 60)
measured = motion.us.ravel() + noise * rng.standard_normal(1800)

# torques say as much as Y has independent columns: sums of the 60 parameters, which a pivoted QR chooses
R, order = scipy.linalg.qr(Y, mode="r", pivoting=True)
rank = int((np.abs(np.diag(R)) > 1e-9 * abs(R[0, 0])).sum())
sums, columns = scipy.linalg.solve(R[:rank, :rank], R[:rank]), Y[:, order[:rank]]
truth = sums @ dynamics.inertial_parameters(robot).ravel()[order]
estimate = np.linalg.lstsq(columns, measured, rcond=None)[0]
deviation = noise * np.sqrt(np.diag(np.linalg.inv(columns.T @ columns)))
off = (estimate - truth) / deviation
print(f"arm: {rank} sums of 60 parameters, off by {off.std():.2f} standard deviations, at most {abs(off).max():.2f}")

# somebody swings a pole up on a cart, as well as can be: the cart's mass, the pole's, and what effort costs them
names, wanted, guess = ("cart", "pole", "effort"), np.array([1.15, 0.12, 1.3]), np.array([1.0, 0.1, 1.0])


def make(logarithms):
    """The swing-up by logarithms of the three, so that none becomes negative."""
    cart, pole, effort = np.exp(logarithms)
    builder = dynamics.ModelBuilder()
    builder.add_body("cart", "world", dynamics.Prismatic("x"), mass=cart)
    builder.add_body("pole", "cart", dynamics.Continuous("y"), mass=pole, com=(0.0, 0.0, -0.5))
    system = dynamics.RigidBodySystem(builder.build(), 0.02, actuation=[[1.0], [0.0]])
    up = system.state([0.0, np.pi])
    running = [trajopt.StateCost(system, up, [0.1, 0.1, 0.01, 0.01]), trajopt.ControlCost(1e-2 * effort)]
    terminal = [trajopt.StateCost(system, up, [100.0, 100.0, 10.0, 10.0])]
    push = 2.0 * np.sin(np.linspace(0.0, 4.0 * np.pi, 100))[:, None]
    return trajopt.Problem(system, np.zeros(4), 100, running, terminal, us_init=push)


@lru_cache
def solve(*logarithms):
    """A solution from the same initial push every time, so that it stays on the same swing."""
    return trajopt.DDP().solve(make(np.array(logarithms)))


def seen(solution):
    """All observed quantities of a motion."""
    return np.concatenate([solution.xs.ravel(), solution.us.ravel()])


def jacobian(logarithms):
    """Derivatives of the observations by the logarithms: exact derivatives of an optimum."""
    found = trajopt.sensitivity(make, logarithms, solve(*logarithms))
    return np.vstack([found.xs.reshape(-1, 3), found.us.reshape(-1, 3)])


observed = seen(solve(*np.log(wanted)))
observed = observed + 0.01 * rng.standard_normal(observed.shape)
fit = scipy.optimize.least_squares(lambda p: seen(solve(*p)) - observed, np.log(guess), jacobian, method="lm")
spread = 0.01 * np.sqrt(np.diag(np.linalg.inv(fit.jac.T @ fit.jac)))
for name, value, relative, right in zip(names, np.exp(fit.x), spread, wanted, strict=True):
    print(f"{name}: {value:.4f} +- {value * relative:.4f}, {right} in truth")

figure = Figure(figsize=(14.0, 4.0), layout="constrained")
left, middle, right = figure.subplots(1, 3)
for joint, color in ((1, "tab:blue"), (2, "tab:orange")):
    left.plot(motion.times[:-1], measured.reshape(300, 6)[:, joint], ".", ms=3, color=color, alpha=0.5)
    fitted = (columns @ estimate).reshape(300, 6)[:, joint]
    left.plot(motion.times[:-1], fitted, color=color, label=robot.joint_names[joint])
left.set(title="Torques, measured (dots) and fitted", xlabel="time [s]", ylabel="torque [N m]")
left.legend()
middle.errorbar(np.arange(rank) + 1, off, np.ones(rank), fmt="o", ms=3)
middle.set(title="Sums of inertial parameters of the arm", xlabel="number of the sum")
middle.set_ylabel("estimate - truth [standard deviations]")
right.errorbar(names, np.exp(fit.x) / wanted - 1.0, 2.0 * spread, fmt="o")
right.set(title="Cart and pole, two standard deviations", ylabel="estimate / truth - 1")
for axes in (middle, right):
    axes.axhline(0.0, color="gray", lw=1)
Path("results/identification").mkdir(parents=True, exist_ok=True)
figure.savefig("results/identification/estimates.png", dpi=120)
