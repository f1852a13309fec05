"""Trajectories of a robot: batches of single steps, and closed loops with one step length per lane."""

from dynamics.simd import LANES, carve, driver, fma, gather, helper, load, scatter, splat, store
from dynamics.systems.steps import combine, step_kernel
from dynamics.systems.workspace import carve_dynamics
from dynamics.tangent import difference_configuration


@driver
def drive_steps(first, last, work, m, B, skip, curved, rk, semi, h, x, u, x_next):
    """x_next[t] = f(x[t], u[t]), knots in lanes."""
    nb, n, nu, nx = m.parent.size, m.dof_body.size, u.shape[1], x.shape[1]
    nq = nx - n
    for c in range(first, last):
        d, w = carve_dynamics(nb, n, work)
        x_, w = carve(w, nx)
        y_, w = carve(w, nx)
        u_, w = carve(w, nu)
        gather(x, c * LANES, x_)
        gather(u, c * LANES, u_)
        step_kernel(m, B, skip, curved, rk, semi, h, x_[:nq], x_[nq:], u_, d, w, y_[:nq], y_[nq:])
        scatter(y_, c * LANES, x_next)


@helper
def _feedback(n, nu, us, k, K, alpha, dx, u):
    """u = us + alpha k + K dx at one knot; us, k (nu,), K (nu, 2 n) are the same for all lanes."""
    for i in range(nu):
        s = fma(splat(u, k[i]), alpha, splat(u, us[i]))
        for j in range(2 * n):
            s = fma(K[i, j], load(dx, j), s)
        store(u, i, s)


@driver
def drive_closed_loops(first, last, work, m, B, skip, curved, rk, semi, h, x0, xs, us, k, K, alphas, X, U):
    """Closed-loop rollouts from x0, one step length per lane.

    u_t = us_t + alpha k_t + K_t difference(xs_t, x_t);  open loop where K has no knots.
    alphas (C, LANES); X (C, N+1, nx, LANES), U (C, N, nu, LANES) receive the trajectories."""
    nb, n, nu, nx, N = m.parent.size, m.dof_body.size, us.shape[1], x0.shape[0], us.shape[0]
    nq = nx - n
    for c in range(first, last):
        d, w = carve_dynamics(nb, n, work)
        nominal, w = carve(w, nx)
        dx, w = carve(w, 2 * n)
        alpha = load(alphas, c)
        for i in range(nx):
            store(X[c, 0], i, splat(nominal, x0[i]))
        for t in range(N):
            x, u, x_next = X[c, t], U[c, t], X[c, t + 1]
            if K.shape[0] > 0:
                for i in range(nx):
                    store(nominal, i, splat(nominal, xs[t, i]))
                if curved is None:
                    combine(n, dx, x, -1.0, nominal)
                else:
                    difference_configuration(m, nominal[:nq], x[:nq], dx)
                for i in range(n):
                    store(dx, n + i, load(x, nq + i) - load(nominal, nq + i))
                _feedback(n, nu, us[t], k[t], K[t], alpha, dx, u)
            else:
                for i in range(nu):
                    store(u, i, splat(u, us[t, i]))
            step_kernel(m, B, skip, curved, rk, semi, h, x[:nq], x[nq:], u, d, w, x_next[:nq], x_next[nq:])
