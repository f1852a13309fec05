"""Trajectories of a robot: batches of single steps, and closed loops with one step length per lane."""

from dynamics.kernel_model import kernel_model
from dynamics.lane_algebra import combine
from dynamics.simd import (
    LANES,
    align_stack,
    carve,
    driver,
    fma,
    gather,
    helper,
    kernel,
    load,
    scatter,
    select_less,
    span,
    splat,
    store,
)  # fmt: skip
from dynamics.simd.references import by_reference
from dynamics.systems.steps import move, step_kernel
from dynamics.systems.workspace import carve_dynamics
from dynamics.tangent import difference_configuration


@driver
def drive_steps(first, last, work, block, p, x, u, x_next):
    """x_next[t] = f(x[t], u[t]), knots in lanes."""
    m = kernel_model(block)
    p = by_reference(p)
    n, nu, nx = m.dof_body.size, u.shape[1], x.shape[1]
    nq = nx - n
    for c in range(first, last):
        d, w = carve_dynamics(m, p.contacts, work)
        x_, w = carve(w, nx)
        y_, w = carve(w, nx)
        u_, w = carve(w, nu)
        gather(x, c * LANES, x_)
        gather(u, c * LANES, u_)
        step_kernel(m, p, x_[:nq], x_[nq:], u_, d, w, y_[:nq], y_[nq:])
        scatter(y_, c * LANES, x_next)


@helper
def clip(ws, u, lower, upper):
    """u between the plain numbers lower and upper, lane by lane; ws is any workspace of the same kind of number."""
    low, high = splat(ws, lower), splat(ws, upper)
    u = select_less(u, low, low, u)
    return select_less(high, u, high, u)


@kernel
def close_gap(m, manifold, gap, alpha, x, work):
    """x <- x (-) (1 - alpha) gap, so that a full step closes the gap (2 nv,); work: nx + nv numbers."""
    n = m.dof_body.size
    nx = x.shape[0]
    nq = nx - n
    before, w = carve(work, nx)
    dq, w = carve(w, n)
    for i in range(nx):
        store(before, i, load(x, i))
    for i in range(n):
        store(dq, i, (alpha - 1.0) * gap[i])
        store(x, nq + i, fma(alpha - 1.0, splat(x, gap[n + i]), load(before, nq + i)))
    move(m, manifold, before[:nq], dq, x[:nq])


@kernel
def start_lanes(m, manifold, x0, gaps, alpha, work, x):
    """x <- x0 in every lane, moved along what is left of the first gap; work as `close_gap`."""
    for i in range(x0.shape[0]):
        store(x, i, splat(work, x0[i]))
    if gaps is not None:
        close_gap(m, manifold, gaps[0], alpha, x, work)


@kernel
def feedback(m, manifold, nominal, us, k, K, alpha, limits, t, work, x, u):
    """u = us + alpha k + K difference(nominal, x), within the limits, at one knot.

    nominal (nx,), us, k (nu,), K (nu, 2 nv) are plain numbers, the same for all lanes; alpha has one step length per
    lane; no feedback where K has no rows.  limits: None or (N, 2, nu), of which knot t's hold.  work: nx + 2 nv."""
    align_stack(x)
    n, nu, nx = m.dof_body.size, us.shape[0], x.shape[0]
    nq = nx - n
    x_nominal, w = carve(work, nx)
    dx, w = carve(w, 2 * n)
    for i in range(nu):
        store(u, i, splat(u, us[i]))
    if K.shape[0] > 0:
        for i in range(nx):
            store(x_nominal, i, splat(x, nominal[i]))
        if manifold is None:
            combine(n, dx, x, -1.0, x_nominal)
        else:
            difference_configuration(m, x_nominal[:nq], x[:nq], dx)
        combine(n, dx[n:], x[nq:], -1.0, x_nominal[nq:])
        for i in range(nu):
            s = fma(splat(u, k[i]), alpha, load(u, i))
            for j in range(2 * n):
                s = fma(K[i, j], load(dx, j), s)
            store(u, i, s if limits is None else clip(u, s, limits[t, 0, i], limits[t, 1, i]))


@kernel
def feedback_step(m, p, nominal, us, k, K, alpha, limits, t, d, work, x, u, x_next):
    """u of `feedback` and x_next = f(x, u) of the `Plant` p at one knot.  d: `carve_dynamics`; work: that of
    `feedback`, and `step_numbers`."""
    nq = x.shape[0] - m.dof_body.size
    feedback(m, p.manifold, nominal, us, k, K, alpha, limits, t, work, x, u)
    step_kernel(m, p, x[:nq], x[nq:], u, d, work, x_next[:nq], x_next[nq:])


@driver
def drive_closed_loops(
    first, last, work, block, p, x0, xs, us, k, K, alphas, gaps, limits, start, stop, X, U
):  # fmt: skip
    """Closed-loop rollouts over the knots start <= t < stop, one step length per lane: from x0, or from the states that
    X already holds where start > 0.

    u_t = us_t + alpha k_t + K_t difference(xs_t, x_t);  open loop, u = us, if K is (N, 0, 0).  limits: None or
    (N, 2, nu); gaps: None or (N+1, 2 nv), of which each state keeps the part 1 - alpha.
    alphas (C, LANES); X (C, N+1, nx, LANES), U (C, N, nu, LANES) receive the trajectories."""
    m = kernel_model(block)
    p = by_reference(p)
    for c in range(first, last):
        d, w = carve_dynamics(m, p.contacts, work)
        alpha = load(alphas, c)
        if start == 0:
            start_lanes(m, p.manifold, x0, gaps, alpha, w, span(X[c, 0]))
        for t in range(start, stop):
            x, u, x_next = span(X[c, t]), span(U[c, t]), span(X[c, t + 1])
            feedback_step(m, p, xs[t], us[t], k[t], K[t], alpha, limits, t, d, w, x, u, x_next)
            if gaps is not None:
                close_gap(m, p.manifold, gaps[t + 1], alpha, x_next, w)
