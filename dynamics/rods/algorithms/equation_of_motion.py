"""Equation of motion of a soft robot with its derivatives, knots in lanes, or one knot in plain numbers.

    r(q, v, a, u, lambda) = ID(q, v, a) + K q + D v - B(q) u - A(q)'lambda

Levels are those of `inverse_dynamics`: FORCES gives r, MASS_MATRIX also M, FIRST also dr/dq, dr/dv and B, SECOND also
the Hessian of w'r.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from dynamics.algorithms.branch_factor import factorize, solve_factored
from dynamics.derivatives.implicit_function import implicit_hessian, subtract_product
from dynamics.rods.algorithms.backward_pass import Blocks, block_size, scatter_derivatives, slice_blocks
from dynamics.rods.algorithms.inverse_dynamics import RodWorkspace, inverse_dynamics_kernel, workspace_size
from dynamics.rods.loads.drives import DriveArrays, add_drives, drive_arrays
from dynamics.rods.loads.tendons import TendonArrays, add_tendons
from dynamics.rods.model.arrays import (
    CONTROLS,
    FIRST,
    MASS_MATRIX,
    SECOND,
    ClosureArrays,
    ClosureResults,
    LoadArrays,
    RodArrays,
    input_size,
    n,
)
from dynamics.rods.model.rod_model import RodModel
from dynamics.simd import LANES, align_stack, driver, fma, gather, helper, kernel, load, scatter, shared_kernel, store
from dynamics.simd.lane_algebra import add_entry, scale_into
from dynamics.simd.lane_blocks import lanes, part, size_of, slicing
from dynamics.simd.sizes import Size
from dynamics.simd.span import by_reference

# --------------------------------------------------------------------------------------------
# A soft robot as kernels read it: elasticity, tendons, chambers, driven joints, and the order of elimination of its
# mass matrix.


class RobotArrays(NamedTuple):
    """Arrays of a robot with n coordinates, W external wrenches, and nu controls: of tendons, chambers, driven joints,
    and laws, in this order."""

    counts: np.ndarray  # (2,) nu; number of entries of a state after u
    external: LoadArrays  # with the reactions of closed chains
    closures: ClosureArrays
    band: np.ndarray  # (n, 2) columns band[i, 0] ... band[i, 1] - 1 of row i of K and D may differ from zero
    stiffness: np.ndarray  # (n, n)
    damping: np.ndarray  # (n, n)
    tendons: TendonArrays
    drives: DriveArrays  # of the controls before those of laws
    # degrees of freedom in the form of `branch_factor`
    dof_body: np.ndarray  # (n,) not read
    dof_parent: np.ndarray  # (n,)
    subtree_end: np.ndarray  # (n,)


def robot_arrays(model: RodModel, tendons: TendonArrays, count: int, driven: Sequence[slice]) -> RobotArrays:
    """The arrays of a robot with `count` tendons and chambers, and driven joints of these coordinates."""
    parent, end = _elimination_order(model)
    n, laws, inputs = model.nq, len(model.load_controls), 6 * model.wrench_count + input_size(model.closures)
    torques = sum(own.stop - own.start for own in driven)
    return RobotArrays(
        np.array([count + torques + laws, inputs], np.int64), model.reaction_loads, model.closures,
        _band(model.stiffness, model.damping), model.stiffness.copy(), model.damping.copy(), tendons,
        drive_arrays(model, driven, count), np.arange(n), parent, end,
    )  # fmt: skip


def _band(K: np.ndarray, D: np.ndarray) -> np.ndarray:
    band = np.zeros((len(K), 2), np.int64)
    for i, row in enumerate((K != 0.0) | (D != 0.0)):
        columns = np.flatnonzero(row)
        if len(columns):
            band[i] = columns[0], columns[-1] + 1
    return band


def _elimination_order(model: RodModel) -> tuple[np.ndarray, np.ndarray]:
    """The coordinate before each on its path, and one past the last that it moves, for zeros of M between branches.

    Where coordinates are not numbered depth-first, such as those of branches added in turn, all are taken as one chain.
    """
    m, n = model.arrays, model.nq
    parent = np.full(n, -1, np.int64)
    moved: list[set[int]] = [set() for _ in range(n)]  # i and the coordinates that it moves
    for s in range(len(m.parent)):
        path = [int(i) for i in m.path[m.path_start[s] : m.path_start[s + 1]]]
        own = range(m.rows[s, 0], m.rows[s, 6])
        for before, i in zip([-1, *path], path, strict=False):
            if i in own:
                parent[i] = before
            moved[i].update(j for j in own if j >= i)
    end = np.array([max(below) + 1 for below in moved], np.int64)
    if any(len(below) < last - i for i, (below, last) in enumerate(zip(moved, end, strict=True))):
        return np.arange(n) - 1, np.full(n, n, np.int64)
    return parent, end


# --------------------------------------------------------------------------------------------
# The residual.

nu = Size("nu", "e.counts[0]")
"""Number of controls."""


class ControlBlocks(NamedTuple):
    """Results that follow after `Blocks`: B and Hqu of all controls, those of closed chains, B and Hqu of laws."""

    B: np.ndarray = lanes(n * nu)
    Hqu: np.ndarray = lanes(n * nu)
    closed: ClosureResults = part(ClosureResults, closures="e.closures")
    of_laws: np.ndarray = lanes(2 * (n * Size("laws", f"e.external.laws.integers[{CONTROLS}]")))


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
                add_entry(b.dq, i * n + j, K)
                add_entry(b.dv, i * n + j, D)
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
    chains (12 C + G); work: `RodWorkspace`, which is also scratch of tendons and drives."""
    n, nu = m.counts[0], e.counts[0]
    b, (B, Hqu, closed, of_laws), _ = slice_results(m, e, A)
    laws = e.external.laws.integers[CONTROLS]
    inputs = state[4 * n + nu - laws :]
    inverse_dynamics_kernel(m, e.external, e.closures, level, state, inputs, work, r, A, closed, of_laws)
    _add_elasticity(e, level, n, state, r, b)
    if level >= FIRST:
        B[:] = 0.0
    if level >= SECOND:
        Hqu[:] = 0.0
    add_tendons(e.tendons, level, n, nu, state, work, r, b.dq, b.Hqq, B, Hqu)
    if laws > 0:
        _add_law_controls(n, nu, laws, level, of_laws, B, Hqu)
    add_drives(e.drives, level, n, nu, state, work, r, b.dq, b.Hqq, B, Hqu)


def residual_work(m: RodArrays, e: RobotArrays) -> int:
    """Workspace size of `residual_kernel`."""
    return workspace_size(m, e.external, e.closures)


RESULTS = size_of(Blocks) + size_of(ControlBlocks)
WORK = size_of(RodWorkspace, external="e.external", closures="e.closures")
"""Sizes of the results and of the workspace of `residual_kernel`."""


class _ResidualLanes(NamedTuple):
    """Scratch of `drive_residual`."""

    state: np.ndarray = lanes(Size("inputs", "states.shape[1]"))
    r: np.ndarray = lanes(n)
    A: np.ndarray = lanes(RESULTS)
    work: np.ndarray = lanes(WORK)


_slice_driver, residual_driver_size = slicing(_ResidualLanes)


@driver
def drive_residual(first, last, work, m, e, level, states, r, rows, B, Hqu):
    """Store r, `BlockRows`, and B and Hqu if they have rows, for the knots of `states` (K, .), knots in lanes."""
    m, e = by_reference(m), by_reference(e)
    (state, forces, A, w), _ = _slice_driver(m, states, e, work)
    b, of_controls, _ = slice_results(m, e, A)
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


# --------------------------------------------------------------------------------------------
# Accelerations of a soft robot and their derivatives, from those of the residual r = M a + r(q, v, 0, u).
#
#     a = - M^-1 r(q, v, 0, u),       a_q = - M^-1 r_q,    a_v = - M^-1 r_v,    a_u = M^-1 B           at that a
#     Hessian of y'a: that of `implicit_function`, with w = M^-1 y and H the Hessian of w'r     [rod_hessian, section 6]
#
# Elasticity and damping may be taken at the end of a step, v+ = v + h a, q+ = q + h v+, since they are linear:
#
#     r + K (q+ - q) + D (v+ - v) = 0:     M + h D + h^2 K in place of M,  r_v + h K in place of r_v,  r + h K v of r


@kernel
def _add_elasticity_to_come(e, h, n, v, L, r):
    """Add h D + h^2 K to M and h K v to r."""
    align_stack(L)
    for i in range(n):
        x = load(r, i)
        for j in range(e.band[i, 0], e.band[i, 1]):
            hK = h * e.stiffness[i, j]
            x = fma(hK, load(v, j), x)
            add_entry(L, i * n + j, h * (e.damping[i, j] + hK))
        store(r, i, x)


@kernel
def _add_stiffness(e, h, n, rv):
    """Add h K to dr/dv."""
    align_stack(rv)
    for i in range(n):
        for j in range(e.band[i, 0], e.band[i, 1]):
            add_entry(rv, i * n + j, h * e.stiffness[i, j])


@shared_kernel
def linearly_implicit_kernel(m, e, h, level, state, L, work, r, A):
    """Store a in the state's third part, with elasticity at the end of a step h, or at its start for h = 0; and, in A,
    the results of `residual_kernel` with derivatives of a in place of those of r: a_q, a_v, the Hessian of y'a (Hqa
    remains that of w'r), and a_u, Hqu in place of B, Hqu.

    state: q, v, -, y, u, wrenches; for SECOND, w = M^-1 y replaces y.  L (n n) becomes the factor of M."""
    n, nu = m.counts[0], e.counts[0]
    b, c, _ = slice_results(m, e, A)
    a, w = state[2 * n : 3 * n], state[3 * n : 4 * n]
    a[:] = 0.0
    least = np.int64(MASS_MATRIX)  # np.int64, since numba would compile everything once more for a literal
    residual_kernel(m, e, least, state, work, r, A)
    scale_into(n * n, L, 1.0, b.M)
    if h > 0.0:
        _add_elasticity_to_come(e, h, n, state[n:], L, r)
    factorize(e, L)
    scale_into(n, a, 1.0, r)
    solve_factored(e, L, a, 1, -1.0)
    if level < FIRST:
        return
    if level >= SECOND:
        solve_factored(e, L, w, 1, 1.0)
    residual_kernel(m, e, level, state, work, r, A)
    if h > 0.0:
        _add_stiffness(e, h, n, b.dv)
    solve_factored(e, L, b.dq, n, -1.0)
    solve_factored(e, L, b.dv, n, -1.0)
    if nu > 0:
        solve_factored(e, L, c.B, nu, 1.0)
    if level >= SECOND:
        implicit_hessian(None, n, b.Hqa, b.dq, b.dv, b, L)
        scale_into(n * nu, c.Hqu, -1.0, c.Hqu)
        subtract_product(None, n, nu, b.Hqa, c.B, nu, c.Hqu)


@shared_kernel
def accelerations_kernel(m, e, level, state, L, work, r, A):
    """`linearly_implicit_kernel` with h = 0, for the accelerations of the motion itself."""
    linearly_implicit_kernel(m, e, 0.0, level, state, L, work, r, A)


class _AccelerationsDriver(NamedTuple):
    """Scratch of `drive_accelerations`."""

    state: np.ndarray = lanes(Size("inputs", "states.shape[1]"))
    L: np.ndarray = lanes(n * n)
    r: np.ndarray = lanes(n)
    A: np.ndarray = lanes(RESULTS)
    work: np.ndarray = lanes(WORK)


_slice_accelerations_driver, accelerations_driver_size = slicing(_AccelerationsDriver)


@driver
def drive_accelerations(first, last, work, m, e, level, states, a, rows, au, Hqu):
    """Store a and its derivatives for `states` (K, 4 n + nu + 6 W), knots in lanes; arguments as in
    `drive_residual`."""
    m, e = by_reference(m), by_reference(e)
    (state, L, r, A, w), _ = _slice_accelerations_driver(m, states, e, work)
    b, of_controls, _ = slice_results(m, e, A)
    for c in range(first, last):
        t = c * LANES
        gather(states, t, state)
        accelerations_kernel(m, e, level, state, L, w, r, A)
        scatter(state[2 * m.counts[0] :], t, a)
        scatter_results(b, of_controls, t, rows, au, Hqu)
