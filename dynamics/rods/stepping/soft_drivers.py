"""Trajectories of soft robots and their expansions: knots in lanes, or candidates of a line search."""

import numpy as np

from dynamics.rods.kinematics.charts import change_charts, move_near
from dynamics.rods.model.arrays import FIRST, SECOND
from dynamics.rods.stepping.soft_expansions import carve_expansion, expand_kernel
from dynamics.rods.stepping.soft_steps import carve_motion, step_kernel
from dynamics.simd import LANES, by_reference, carve, driver, gather, kernel, load, scatter, scatter_blocks, span, store
from dynamics.systems.rollouts import close_gap, feedback, place_lanes


@driver
def drive_soft_steps(first, last, work, m, e, integrator, h, turns, x, u, x_next):
    """x_next[t] = f(x[t], u[t]), knots in lanes."""
    m, e = by_reference(m), by_reference(e)
    x_, w = carve(work, x.shape[1])
    y_, w = carve(w, x.shape[1])
    u_, w = carve(w, u.shape[1])
    d = carve_motion(m, e, w)
    for c in range(first, last):
        gather(x, c * LANES, x_)
        gather(u, c * LANES, u_)
        step_kernel(m, e, integrator, h, x_, u_, d, y_)
        change_charts(turns, m.numbers[0], y_)
        scatter(y_, c * LANES, x_next)


@kernel
def _close_gap(e, turns, xs, gaps, t, alpha, x, work):
    """`close_gap` of knot t in the chart of xs[t]."""
    if gaps is not None:
        n = x.shape[0] // 2
        if t < xs.shape[0]:
            move_near(turns, n, xs[t], x)
        close_gap(e, None, gaps, t, alpha, x, work)
        change_charts(turns, n, x)


@driver
def drive_soft_closed_loops(first, last, work, m, e, integrator, h, turns, loops, start, stop, X, U):
    """Closed loops over the knots start <= t < stop, one step length per lane, as
    `dynamics.systems.rollouts.drive_closed_loops`."""
    m, e, loops = by_reference(m), by_reference(e), by_reference(loops)
    n, nx = m.numbers[0], X.shape[2]
    own, w = carve(work, 2 * nx)
    near, w = carve(w, nx)
    d = carve_motion(m, e, w)
    for c in range(first, last):
        alpha = load(loops.alphas, c)
        if start == 0:
            place_lanes(loops.x0, span(X[c, 0]))
            _close_gap(e, turns, loops.xs, loops.gaps, 0, alpha, span(X[c, 0]), own)
        for t in range(start, stop):
            x, u, x_next = span(X[c, t]), span(U[c, t]), span(X[c, t + 1])
            for i in range(nx):
                store(near, i, load(x, i))
            move_near(turns, n, loops.xs[t], near)
            feedback(e, None, loops, t, c, own, near, u)
            step_kernel(m, e, integrator, h, x, u, d, x_next)
            change_charts(turns, n, x_next)
            _close_gap(e, turns, loops.xs, loops.gaps, t + 1, alpha, x_next, own)


@driver
def drive_soft_expansion(first, last, work, m, e, integrator, h, x, u, lam, ends, fx, fu, Hxx, Hux, Huu):
    """fx[t], fu[t], unless these are arrays of no knots, and, if lam has rows, the Hessian of lam[t]'f at (x[t], u[t])
    in Hxx[t], Hux[t], Huu[t]; the step's end in ends[t], if these have rows; in the chart of x[t].  Knots in lanes."""
    m, e = by_reference(m), by_reference(e)
    n, nu = m.numbers[0], e.numbers[0]
    nz, knots = 2 * n + nu, u.shape[0]
    level = np.int64(SECOND if lam.shape[0] > 0 else FIRST)
    x_, w = carve(work, 2 * n)
    u_, w = carve(w, nu)
    lam_, w = carve(w, 2 * n)
    F, w = carve(w, 2 * n * nz)
    H, w = carve(w, nz * nz)
    p, w = carve_expansion(m, e, w)
    d = carve_motion(m, e, w)
    for c in range(first, last):
        t = c * LANES
        gather(x[:knots], t, x_)
        gather(u, t, u_)
        if level >= SECOND:
            gather(lam, t, lam_)
        expand_kernel(m, e, integrator, h, level, x_, u_, lam_, d, p, F, H)
        if ends.shape[0] > 0:
            scatter(p.end, t, ends)
        if fx.shape[0] > 0:
            scatter_blocks(F, t, 2 * n, nz, 0, fx)
            scatter_blocks(F, t, 2 * n, nz, 2 * n, fu)
        if level >= SECOND:
            scatter_blocks(H, t, 2 * n, nz, 0, Hxx)
            scatter_blocks(H[2 * n * nz :], t, nu, nz, 0, Hux)
            scatter_blocks(H[2 * n * nz :], t, nu, nz, 2 * n, Huu)
