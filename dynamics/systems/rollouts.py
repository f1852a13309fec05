"""Trajectories of a robot: batches of single steps, and closed loops with one step length per lane."""

from typing import NamedTuple

import numpy as np

from dynamics.model.kernel_model import kernel_model
from dynamics.model.knot_driver import nv
from dynamics.simd import (
    LANES,
    align_stack,
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
    split,
    store,
)  # fmt: skip
from dynamics.simd.lane_algebra import combine
from dynamics.simd.lane_blocks import lanes, part, slicing
from dynamics.simd.span import by_reference
from dynamics.spatial.tangent import difference_configuration
from dynamics.systems.controlled_acceleration import Dynamics, nu
from dynamics.systems.steps import StepWork, move, nq, step_kernel


class RolloutLanes(NamedTuple):
    """Scratch of steps and of closed loops."""

    d: Dynamics = part(Dynamics, contacts="p.contacts")
    step: StepWork = part(StepWork)
    law: np.ndarray = lanes(nq + 3 * nv)  # of `feedback`, or `close_gap`
    x: np.ndarray = lanes(nq + nv)
    u: np.ndarray = lanes(nu)
    x_next: np.ndarray = lanes(nq + nv)


slice_rollout, rollout_size = slicing(RolloutLanes)


@driver
def drive_steps(first, last, work, block, p, x, u, x_next):
    """x_next[t] = f(x[t], u[t]), knots in lanes."""
    m = kernel_model(block)
    p = by_reference(p)
    nq = x.shape[1] - m.dof_body.size
    w, _ = slice_rollout(m, nq, u.shape[1], p, work)
    for c in range(first, last):
        gather(x, c * LANES, w.x)
        gather(u, c * LANES, w.u)
        step_kernel(m, p, w.x[:nq], w.x[nq:], w.u, w.d, w.step, w.x_next[:nq], w.x_next[nq:])
        scatter(w.x_next, c * LANES, x_next)


@helper
def clip(ws, u, lower, upper):
    """u between the plain numbers lower and upper, lane by lane; ws is any workspace of the same kind of number."""
    low, high = splat(ws, lower), splat(ws, upper)
    u = select_less(u, low, low, u)
    return select_less(high, u, high, u)


@kernel
def close_gap(m, manifold, gaps, t, alpha, x, work):
    """x <- x (-) (1 - alpha) gap of knot t, so that a full step closes the gap; nothing without gaps.  gaps (N+1, 2
    nv); work: nx + nv numbers."""
    if gaps.shape[0] > 0:
        n = m.dof_body.size
        nx = x.shape[0]
        nq = nx - n
        before, w = split(work, nx)
        dq, w = split(w, n)
        for i in range(nx):
            store(before, i, load(x, i))
        for i in range(n):
            store(dq, i, (alpha - 1.0) * gaps[t, i])
            store(x, nq + i, fma(alpha - 1.0, splat(x, gaps[t, n + i]), load(before, nq + i)))
        move(m, manifold, before[:nq], dq, x[:nq])


@kernel
def place_lanes(x0, x):
    """x <- x0 in every lane; x stays what it is where x0 has no numbers."""
    for i in range(x0.shape[0]):
        store(x, i, splat(x, x0[i]))


@kernel
def start_lanes(m, manifold, loops, alpha, work, x):
    """x <- x0 of the `ClosedLoops` in every lane, moved along what is left of the first gap; work as `close_gap`."""
    place_lanes(loops.x0, x)
    close_gap(m, manifold, loops.gaps, 0, alpha, x, work)


@kernel
def pull_controls(u, loops, t, c):
    """u <- u + shift pull of knot t, the shift of each lane of chunk c, where there is any."""
    if loops.pull.shape[0] > 0:
        shift = load(loops.shift, c)
        for i in range(u.shape[0]):
            store(u, i, fma(loops.pull[t, i], shift, load(u, i)))


@kernel
def remember(u, loops, t, c, X, U):
    """u <- u and the feedback of knot t to the knot before, if there is any: the gains `before` (N, nu, n + nu) of what
    the last n numbers of the state and the controls were off there."""
    before, xs, us = loops.before, loops.xs, loops.us
    if t > 0 and before.shape[0] > 0:
        nx, nu = xs.shape[1], us.shape[1]
        n = before.shape[2] - nu
        x_last, u_last = span(X[c, t - 1]), span(U[c, t - 1])
        for i in range(nu):
            s = load(u, i)
            for j in range(n):
                s = fma(before[t, i, j], load(x_last, nx - n + j) - xs[t - 1, nx - n + j], s)
            for j in range(nu):
                s = fma(before[t, i, n + j], load(u_last, j) - us[t - 1, j], s)
            store(u, i, s)


@kernel
def limit_controls(u, limits, t):
    """u within the limits (N, 2, nu) of knot t, if there are any."""
    if limits.shape[0] > 0:
        for i in range(u.shape[0]):
            store(u, i, clip(u, load(u, i), limits[t, 0, i], limits[t, 1, i]))


@kernel
def feedback(m, manifold, loops, t, c, work, x, u, X, U):
    """u = us + alpha k + shift pull + K difference(xs, x) of knot t, with feedback to the knot before, within limits.

    loops: `ClosedLoops` by reference, of whose step lengths and shifts chunk c has one per lane; other numbers are the
    same for all lanes; no feedback where K has no rows.  X, U: the trajectories up to this knot.  work: nx + 2 nv."""
    align_stack(x)
    n, nu, nx, K = m.dof_body.size, loops.us.shape[1], x.shape[0], loops.K
    nq = nx - n
    x_nominal, w = split(work, nx)
    dx, w = split(w, 2 * n)
    if K.shape[1] == 0:
        for i in range(nu):
            store(u, i, splat(u, loops.us[t, i]))
    else:
        for i in range(nx):
            store(x_nominal, i, splat(x, loops.xs[t, i]))
        if manifold is None:
            combine(n, dx, x, -1.0, x_nominal)
        else:
            difference_configuration(m, x_nominal[:nq], x[:nq], dx)
        combine(n, dx[n:], x[nq:], -1.0, x_nominal[nq:])
        alpha = load(loops.alphas, c)
        for i in range(nu):
            store(u, i, fma(splat(u, loops.k[t, i]), alpha, splat(u, loops.us[t, i])))
        pull_controls(u, loops, t, c)
        for i in range(nu):
            s = load(u, i)
            for j in range(2 * n):
                s = fma(K[t, i, j], load(dx, j), s)
            store(u, i, s)
        remember(u, loops, t, c, X, U)
        limit_controls(u, loops.limits, t)


@kernel
def feedback_step(m, p, loops, t, c, w, x, u, x_next, X, U):
    """u of `feedback` and x_next = f(x, u) of the `Plant` p at one knot; w: `RolloutLanes`."""
    nq = x.shape[0] - m.dof_body.size
    feedback(m, p.manifold, loops, t, c, w.law, x, u, X, U)
    step_kernel(m, p, x[:nq], x[nq:], u, w.d, w.step, x_next[:nq], x_next[nq:])


@driver
def drive_closed_loops(first, last, work, block, p, loops, start, stop, X, U):
    """Closed-loop rollouts over the knots start <= t < stop, one step length per lane: from x0, or from the states that
    X already holds where start > 0.

    u_t = us_t + alpha k_t + shift pull_t + K_t difference(xs_t, x_t);  open loop, u = us, if K is (N, 0, 0).  With
    feedback to the knot before, B_t times what the last numbers of x_{t-1} and u_{t-1} are off is added.
    loops: `ClosedLoops`, of whose gaps each state keeps the part 1 - alpha.
    X (C, N+1, nx, LANES), U (C, N, nu, LANES) receive the trajectories."""
    m, p, loops = kernel_model(block), by_reference(p), by_reference(loops)
    w, _ = slice_rollout(m, X.shape[2] - m.dof_body.size, U.shape[2], p, work)
    for c in range(first, last):
        alpha = load(loops.alphas, c)
        if start == 0:
            start_lanes(m, p.manifold, loops, alpha, w.law, span(X[c, 0]))
        for t in range(start, stop):
            x, u, x_next = span(X[c, t]), span(U[c, t]), span(X[c, t + 1])
            feedback_step(m, p, loops, t, c, w, x, u, x_next, X, U)
            close_gap(m, p.manifold, loops.gaps, t + 1, alpha, x_next, w.law)
