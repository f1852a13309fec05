"""Derivatives of the costs of a problem against central differences, knots taken as independent."""

import numpy as np

from trajopt import cost_curvature, expand, total_cost


def pure_cost_derivatives(problem, xs, us, h=1e-6):
    """Gradients in x and u at each knot, knots taken as independent, by central differences."""
    system = problem.system
    lx, lu = np.zeros((len(xs), system.ndx)), np.zeros_like(us)
    for t in range(len(xs)):
        for j in range(system.ndx):
            d = h * np.eye(system.ndx)[j]
            values = []
            for s in (1, -1):
                moved = xs.copy()
                moved[t] = system.integrate(xs[t], s * d)
                values.append(total_cost(problem, moved, us))
            lx[t, j] = (values[0] - values[1]) / (2 * h)
    for t in range(len(us)):
        for j in range(system.nu):
            d = np.zeros_like(us)
            d[t, j] = h
            lu[t, j] = (total_cost(problem, xs, us + d) - total_cost(problem, xs, us - d)) / (2 * h)
    return lx, lu


def random_trajectory(problem, rng):
    """States and controls of a rollout under white noise."""
    us = rng.standard_normal((problem.horizon, problem.system.nu))
    return problem.system.rollout(problem.x0, us), us


def assert_gradients(problem, xs, us):
    """The expansion's lx and lu are those of the total cost."""
    e = expand(problem, xs, us)
    lx, lu = pure_cost_derivatives(problem, xs, us)
    np.testing.assert_allclose(e.lx, lx, atol=1e-6 * max(1.0, np.abs(lx).max()))
    np.testing.assert_allclose(e.lu, lu, atol=1e-6 * max(1.0, np.abs(lu).max()))


def assert_exact_hessians(problem, xs, us, h=1e-6):
    """Gauss-Newton Hessians and curvature together are the derivatives of lx and lu."""
    system = problem.system
    e = expand(problem, xs, us)
    Hxx, Hux, Huu = (a + b for a, b in zip((e.lxx, e.lux, e.luu), cost_curvature(problem, xs, us), strict=True))
    atol = 1e-6 * max(1.0, *(np.abs(H).max() for H in (Hxx, Hux, Huu)))
    for j in range(system.ndx):
        d = np.tile(h * np.eye(system.ndx)[j], (len(xs), 1))
        ahead, behind = (expand(problem, system.integrate(xs, s * d), us) for s in (1, -1))
        np.testing.assert_allclose((ahead.lx - behind.lx) / (2 * h), Hxx[:, :, j], atol=atol)
        np.testing.assert_allclose((ahead.lu - behind.lu) / (2 * h), Hux[:, :, j], atol=atol)
    for j in range(system.nu):
        d = np.zeros_like(us)
        d[:, j] = h
        difference = (expand(problem, xs, us + d).lu - expand(problem, xs, us - d).lu) / (2 * h)
        np.testing.assert_allclose(difference, Huu[:, :, j], atol=atol)
