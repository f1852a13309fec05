"""One time step of a soft robot and its expansion, one knot per lane.

    semi-implicit Euler    v+ = v + h a    q+ = q + h v+            ID(q, v, a) + K q+ + D v+ - B(q) u = 0
    implicit midpoint      v+ = v + h a    q+ = q + h v + h^2/2 a   r(q + h/2 v + h^2/4 a, v + h/2 a, a, u) = 0
    Newmark                v+ = v~ + h/2 a1            q+ = q~ + h^2/4 a1            r(q+, v+, a1, u) = 0
                           v~ = v + h/2 a0             q~ = q + h v + h^2/4 a0       r(q, v, a0, u) = 0

    SDIRK2                 v+ = v~ + g a1              q+ = q~ + g^2 a1              r(q+, v+, a1, u) = 0
                           v~ = v + (h - g) a0         q~ = q + h v + 2 g (h - g) a0
                           r(q + g v + g^2 a0, v + g a0, a0, u) = 0                  g = (1 - 1/sqrt 2) h

    extrapolated Euler     x+ = 2 P(h/2) P(h/2) x - P(h) x, P(h) the first of these methods

(Newmark's with average acceleration; SDIRK2 is Alexander's method [Alexander 1977], L-stable, which takes closed chains
as well, with A v + e / h = 0 at both stages: velocities at the end of a step keep them closed, what opens them falls
to 0.35 of it; the extrapolation is L-stable too [Hairer, Wanner 1996, section IV.9].)
"""

from typing import NamedTuple

import numpy as np

from dynamics.rods.loads.robot_arrays import RobotArrays
from dynamics.rods.model.arrays import MASS_MATRIX
from dynamics.rods.model.rod_model import RodModel
from dynamics.rods.recursion.forward_dynamics import accelerations_kernel, linearly_implicit_kernel
from dynamics.rods.stepping.implicit_stage import (
    KEPT,
    LINEAR,
    ImplicitStage,
    advance,
    slice_stage,
    solve_stage,
    stage_size,
    start_chains,
    unknown,
    unknown_count,
)
from dynamics.simd import align_stack, fma, helper, kernel, load, shared_kernel, split, store

SEMI_IMPLICIT_EULER, IMPLICIT_MIDPOINT, NEWMARK, SDIRK2, EXTRAPOLATED_EULER = 0, 1, 2, 3, 4
INTEGRATORS = ("semi_implicit_euler", "implicit_midpoint", "newmark", "sdirk2", "extrapolated_euler")
GAMMA = 1.0 - 0.5 * np.sqrt(2.0)


class Motion(NamedTuple):
    """Scratch of a step."""

    base: np.ndarray  # q, v of a stage (2 n)
    first: np.ndarray  # (N), the unknowns of the first of two stages
    stage: ImplicitStage


@helper
def slice_motion(m, e, w):
    """A `Motion`, the scratch of which is all that is left of w."""
    base, w = split(w, 2 * m.counts[0])
    first, w = split(w, unknown_count(m, e))
    return Motion(base, first, slice_stage(m, e, w))


def motion_size(model: RodModel, e: RobotArrays) -> int:
    """Workspace size of `slice_motion`."""
    return 3 * model.nq + model.constraint_count + stage_size(model, e)


# ------------------------------------------------------------------------------------------------ motion
@kernel
def enter(n, x, u, s):
    """Put x = (q, v) and u into the state of a stage."""
    for i in range(2 * n):
        store(s.state, i, load(x, i))
    for i in range(u.shape[0]):
        store(s.state, 4 * n + i, load(u, i))


@kernel
def solve_midpoint(m, e, h, x, d):
    """a of the midpoint rule and the state there, in the stage's state."""
    n, a = m.counts[0], d.stage.state[2 * m.counts[0] : 3 * m.counts[0]]
    a[:] = 0.0
    advance(n, 0.5 * h, 0.0, 0.0, x, a, d.base)
    solve_stage(m, e, 0.25 * h * h, 0.5 * h, d.base, d.stage, LINEAR)


@kernel
def solve_newmark(m, e, h, x, d):
    """a1 of Newmark's method and the state at the end, in the stage's state; q~, v~ in d.base.

    The start a1 = -a0, at q+ = q + h v and v+ = v, is where a stiff motion ends that a0 has pushed far away."""
    n, s, least = m.counts[0], d.stage, np.int64(MASS_MATRIX)
    a = s.state[2 * n : 3 * n]
    accelerations_kernel(m, e, least, s.state, s.J, s.work, s.r, s.A)
    advance(n, h, 0.25 * h * h, 0.5 * h, x, a, d.base)
    for i in range(n):
        store(a, i, -load(a, i))
    solve_stage(m, e, 0.25 * h * h, 0.5 * h, d.base, s, LINEAR)


@kernel
def solve_sdirk(m, e, h, x, d):
    """a0, in d.first, and a1 of the two stages, and the state at the end, in the stage's state."""
    n, N, s, g = m.counts[0], unknown_count(m, e), d.stage, GAMMA * h
    a = s.state[2 * n : 3 * n]
    a[:] = 0.0
    start_chains(n, N, 1.0 / h, s)
    advance(n, g, 0.0, 0.0, x, a, d.base)
    solve_stage(m, e, g * g, g, d.base, s, LINEAR)
    for i in range(N):
        store(d.first, i, load(s.state, unknown(n, N, s, i)))
    advance(n, h, 2.0 * g * (h - g), h - g, x, a, d.base)
    solve_stage(m, e, g * g, g, d.base, s, KEPT)


@kernel
def semi_implicit_step(m, e, h, level, s, out):
    """The semi-implicit step of the state in the stage, into out (2 n)."""
    n = m.counts[0]
    linearly_implicit_kernel(m, e, h, level, s.state, s.J, s.work, s.r, s.A)
    advance(n, h, h * h, h, s.state, s.state[2 * n : 3 * n], out)


@shared_kernel
def step_kernel(m, e, integrator, h, x, u, d, x_next):
    """x+ = f(x, u), apart from x; d: `slice_motion`."""
    align_stack(x)
    n, s, least = m.counts[0], d.stage, np.int64(MASS_MATRIX)
    a = s.state[2 * n : 3 * n]
    enter(n, x, u, s)
    if integrator == SEMI_IMPLICIT_EULER:
        linearly_implicit_kernel(m, e, h, least, s.state, s.J, s.work, s.r, s.A)
        advance(n, h, h * h, h, x, a, x_next)
    elif integrator == EXTRAPOLATED_EULER:
        semi_implicit_step(m, e, h, least, s, d.base)
        semi_implicit_step(m, e, 0.5 * h, least, s, s.state)
        semi_implicit_step(m, e, 0.5 * h, least, s, x_next)
        for i in range(2 * n):
            store(x_next, i, fma(2.0, load(x_next, i), -load(d.base, i)))
    elif integrator == IMPLICIT_MIDPOINT:
        solve_midpoint(m, e, h, x, d)
        advance(n, h, 0.5 * h * h, h, x, a, x_next)
    else:
        if integrator == NEWMARK:
            solve_newmark(m, e, h, x, d)
        else:
            solve_sdirk(m, e, h, x, d)
        for i in range(2 * n):
            store(x_next, i, load(s.state, i))
