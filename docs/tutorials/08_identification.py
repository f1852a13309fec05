# %% [markdown]
# # Identification, and derivatives of solutions
#
# A solution is a function of what its problem is made of: masses, weights, limits. Here is its
# derivative, and what it is good for: predictions, estimates from observations, bands of
# uncertainty, a certificate.

# %%
from functools import lru_cache

import matplotlib.pyplot as plt
import numpy as np
import scipy.optimize

import dynamics
import trajopt

NAMES = ("cart", "pole", "effort")


def make(logarithms):
    """A swing-up by the logarithms of two masses and of the price of effort."""
    cart, pole, effort = np.exp(logarithms)
    builder = dynamics.ModelBuilder()
    builder.add_body("cart", "world", dynamics.Prismatic("x"), mass=cart)
    hinge = dynamics.Continuous("y")
    builder.add_body("pole", "cart", hinge, mass=pole, com=(0.0, 0.0, -0.5))
    system = dynamics.RigidBodySystem(builder.build(), 0.02, actuation=[[1.0], [0.0]])
    up = system.state([0.0, np.pi])
    way = trajopt.StateCost(system, up, [0.1, 0.1, 0.01, 0.01])
    running = [way, trajopt.ControlCost(1e-2 * effort)]
    terminal = [trajopt.StateCost(system, up, [100.0, 100.0, 10.0, 10.0])]
    push = 2.0 * np.sin(np.linspace(0.0, 4.0 * np.pi, 100))[:, None]
    return trajopt.Problem(
        system, np.zeros(4), 100, running, terminal, us_init=push, name="swing-up"
    )


@lru_cache
def solve(*logarithms):
    """From the same push every time, so that the swing stays the same one."""
    return trajopt.DDP().solve(make(np.array(logarithms)))


guess = np.log([1.0, 0.1, 1.0])
solution = solve(*guess)
assert solution.converged

# %% [markdown]
# ## The derivative
#
# At a solution the optimality conditions $F(z, p) = 0$ hold for motion and multipliers $z$, so
# $dz/dp = -F_z^{-1} F_p$. The matrix is the one of Newton's method, which a backward sweep factors
# in no more time than an iteration: exact, because the Hessians are. No problem is solved again.

# %%
derivatives = trajopt.sensitivity(make, guess, solution)
for name, slope in zip(NAMES, derivatives.cost, strict=True):
    print(f"1 % more of {name} costs {0.01 * slope:.5f}")

h = 1e-4 * np.array([0.0, 1.0, 0.0])
difference = (solve(*(guess + h)).us - solve(*(guess - h)).us) / 2e-4
error = np.abs(derivatives.us[..., 1] - difference).max() / np.abs(difference).max()
print(f"by the mass of the pole: {error:.0e} from differences of problems solved again")
assert error < 1e-4

# %% [markdown]
# ## Identification
#
# Somebody swings up a pole as well as can be. We see the motion, with noise of 0.01 in every number
# (m, rad, m/s, rad/s, N), and want to know the masses, and what effort was worth to them.
# `scipy.optimize.least_squares` fits the optimal motion to the observed one, with the exact
# Jacobian.

# %%
rng = np.random.default_rng(0)
truth, noise = np.array([1.15, 0.12, 1.3]), 0.01


def seen(solution):
    return np.concatenate([solution.xs.ravel(), solution.us.ravel()])


def jacobian(logarithms):
    found = trajopt.sensitivity(make, logarithms, solve(*logarithms))
    return np.vstack([found.xs.reshape(-1, 3), found.us.reshape(-1, 3)])


observed = seen(solve(*np.log(truth)))
observed = observed + noise * rng.standard_normal(observed.shape)


def misfit(logarithms):
    return seen(solve(*logarithms)) - observed


fit = scipy.optimize.least_squares(misfit, guess, jacobian, method="lm")
covariance = noise**2 * np.linalg.inv(fit.jac.T @ fit.jac)
spread = np.sqrt(np.diag(covariance))
for name, value, relative, right in zip(NAMES, np.exp(fit.x), spread, truth, strict=True):
    print(f"{name}: {value:.4f} +- {value * relative:.4f}, {right} in truth")
assert fit.success and np.all(np.abs(fit.x - np.log(truth)) < 4.0 * spread)

# %% tags=["thumbnail"]
figure, (left, right) = plt.subplots(1, 2, figsize=(10.0, 3.4), layout="constrained")
fitted, times = solve(*fit.x), solution.times
left.plot(times[:-1], observed[-100:], ".", color="0.6", ms=3, label="observed")
left.plot(times[:-1], solution.us, label="guess")
left.plot(times[:-1], fitted.us, label="fitted")
left.set(xlabel="time [s]", ylabel="force [N]")
left.legend(frameon=False)
right.errorbar(NAMES, 100.0 * (np.exp(fit.x) / truth - 1.0), 200.0 * spread, fmt="o")
right.axhline(0.0, color="0.6", lw=0.8)
right.set(ylabel="estimate / truth - 1 [%]", title="two standard deviations")
plt.show()

# %% [markdown]
# ## What is that solution?
#
# `certificate()` factors the exact Hessian of the Lagrangian in all controls: is this a strict
# minimum, and how flat is it in its flattest direction?

# %%
certificate = fitted.certificate()
print(certificate)

# %% [markdown]
# ## Bands
#
# Two kinds of uncertainty. Noise acts on the motion while the gains hold it: `covariance`. And the
# estimated parameters are uncertain, which the derivatives carry to the plan:
#
# $$\Sigma_u = \frac{du}{dp} \, \Sigma_p \, \frac{du}{dp}^\top .$$

# %%
noise_of_velocities = 1e-4 * np.diag([0.0, 0.0, 1.0, 1.0])  # at every knot
gusts = fitted.covariance(process_noise=noise_of_velocities)
trajopt.plot_trajectory(fitted, covariance=gusts)

# %%
du = trajopt.sensitivity(make, fit.x, fitted).us[:, 0]
deviation = np.sqrt(np.einsum("ti,ij,tj->t", du, covariance, du))
print(f"the gusts cost {gusts.cost_increase:.2f} on average, with the gains at work")
print(f"the estimate's standard deviation moves forces by up to {deviation.max():.4f} N")
assert gusts.cost_increase > 0.0 and deviation.max() < 0.2

# %% [markdown]
# ## Any function of the plan
#
# A gradient by parameters of any number that is made of the motion takes one more sweep: `vjp`.
# Here the largest force, smoothly.

# %%
peak = np.sum(fitted.us**8) ** (1 / 8)
slopes = trajopt.sensitivity(make, fit.x, fitted).vjp(us_bar=(fitted.us / peak) ** 7)
for name, slope in zip(NAMES, slopes, strict=True):
    print(f"1 % more of {name} changes the peak of {peak:.1f} N by {0.01 * slope:+.4f} N")
heavier = solve(*(fit.x + [0.0, 0.01, 0.0]))
assert np.isclose(np.sum(heavier.us**8) ** (1 / 8) - peak, 0.01 * slopes[1], rtol=0.1)

# %% [markdown]
# ## Next
#
# `examples/identification.py` also finds what an arm weighs from its torques;
# `examples/leg_design.py` chooses lengths of links by such gradients, and `examples/imitation.py`
# learns with them in JAX and PyTorch. The equations: [derivatives](../../derivatives.md).
