"""Equation of motion of a soft robot with its derivatives, knots in lanes, or one knot in plain numbers.

    r(q, v, a, u, lambda) = ID(q, v, a) + K q + D v - B(q) u - A(q)'lambda

Levels are those of `evaluation`: FORCES gives r, MASS_MATRIX also M, FIRST also dr/dq, dr/dv and B, SECOND also the
Hessian of w'r.
"""

from typing import NamedTuple

import numpy as np

from dynamics.rods.loads.drives import DRIVE_NUMBERS, add_drives
from dynamics.rods.loads.robot_arrays import RobotArrays
from dynamics.rods.loads.tendons import TENDON_NUMBERS, add_tendons
from dynamics.rods.model.arrays import CONTROLS, FIRST, SECOND, RodArrays, closed_size
from dynamics.rods.model.rod_model import RodModel
from dynamics.rods.recursion.blocks import block_size, n, scatter_derivatives, slice_blocks
from dynamics.rods.recursion.evaluation import inverse_dynamics_kernel, work_size
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
    shared_kernel,
    split,
    store,
)
from dynamics.simd.lane_blocks import lanes, slicing
from dynamics.simd.sizes import Size
from dynamics.simd.span import by_reference

nu = Size("nu", "e.counts[0]")
"""Number of controls."""


class ControlBlocks(NamedTuple):
    """Results that follow after `Blocks`: B and Hqu of the controls, and those of closed chains."""

    B: np.ndarray = lanes(n * nu)
    Hqu: np.ndarray = lanes(n * nu)
    closed: np.ndarray = lanes(Size("closed", "e.counts[2]"))  # of closed chains (`arrays`)


_slice_control_blocks, _control_block_size = slicing(ControlBlocks)


@helper
def slice_results(m, e, A):
    """`Blocks` and `ControlBlocks` in the results A, and the rest of A."""
    b, rest = slice_blocks(m, A)
    c, rest = _slice_control_blocks(m, e, rest)
    return b, c, rest


def result_size(m: RodArrays, e: RobotArrays) -> int:
    """Size of the results in `slice_results`."""
    return block_size(m) + _control_block_size(m, e)


@kernel
def _add_elasticity(e, level, n, state, r, b):
    """Add K q + D v and its derivatives."""
    align_stack(r)
    for i in range(n):
        x = load(r, i)
        for j in range(e.band[i, 0], e.band[i, 1]):
            K, D = e.stiffness[i, j], e.damping[i, j]
            x = fma(D, load(state, n + j), fma(K, load(state, j), x))
            if level >= FIRST:
                o = i * n + j
                store(b.dq, o, load(b.dq, o) + K)
                store(b.dv, o, load(b.dv, o) + D)
        store(r, i, x)


@kernel
def _add_law_controls(n, nu, laws, level, results, B, Hqu):
    """Store B and Hqu of the controls of laws, which are the last."""
    if level >= FIRST:
        for i in range(n):
            for j in range(laws):
                o = i * nu + nu - laws + j
                store(B, o, load(results, i * laws + j))
                if level >= SECOND:
                    store(Hqu, o, load(results, (n + i) * laws + j))


@shared_kernel
def residual_kernel(m, e, level, state, work, r, A):
    """Store r (n) and, in A, the results of `slice_results` as far as the level goes, with `Blocks` of r in place of
    ID. m: RodArrays; e: RobotArrays; state: q, v, a, w (n each), u (nu), external wrenches (6 W), numbers of closed
    chains (12 C + G); work: `residual_work`."""
    n, nu = m.counts[0], e.counts[0]
    b, (B, Hqu, closed), _ = slice_results(m, e, A)
    laws = e.external.laws.integers[CONTROLS]
    inverse_dynamics_kernel(m, e.external, e.closures, level, state, state[4 * n + nu - laws :], work, r, A, closed)
    _add_elasticity(e, level, n, state, r, b)
    if level >= FIRST:
        B[:] = 0.0
    if level >= SECOND:
        Hqu[:] = 0.0
    add_tendons(e.tendons, level, n, nu, state, work, r, b.dq, b.Hqq, B, Hqu)
    if laws > 0:
        _add_law_controls(n, nu, laws, level, closed[closed_size(e.closures, n) :], B, Hqu)
    add_drives(e.drives, level, n, nu, state, work, r, b.dq, b.Hqq, B, Hqu)


def residual_work(model: RodModel) -> int:
    """Scratch size of `residual_kernel`."""
    return max(work_size(model), TENDON_NUMBERS, DRIVE_NUMBERS)


@driver
def drive_residual(first, last, work, m, e, level, states, r, rows, B, Hqu):
    """Store r, `BlockRows`, and B and Hqu if they have rows, for the knots of `states` (K, .), knots in lanes."""
    m, e = by_reference(m), by_reference(e)
    state, w = split(work, states.shape[1])
    forces, A = split(w, m.counts[0])
    b, of_controls, w = slice_results(m, e, A)
    for c in range(first, last):
        t = c * LANES
        gather(states, t, state)
        residual_kernel(m, e, level, state, w, forces, A)
        scatter(forces, t, r)
        scatter_results(b, of_controls, t, rows, B, Hqu)


@kernel
def scatter_results(b, of_controls, t, rows, B, Hqu):
    """Scatter the results to the knots from t on."""
    scatter_derivatives(b, t, rows)
    if B.shape[0] > 0:
        scatter(of_controls.B, t, B)
    if Hqu.shape[0] > 0:
        scatter(of_controls.Hqu, t, Hqu)


def residual_driver_size(model: RodModel, e: RobotArrays) -> int:
    """Scratch size per lane of `drive_residual`."""
    return 5 * model.nq + int(e.counts[0] + e.counts[1]) + result_size(model.arrays, e) + residual_work(model)
