"""Equation of motion of a soft robot with its derivatives, knots in lanes, or one knot in plain numbers.

    r(q, v, a, u, lambda) = ID(q, v, a) + K q + D v - B(q) u - A(q)'lambda

Levels are those of `evaluation`: FORCES gives r, MASS_MATRIX also M, FIRST also dr/dq, dr/dv and B, SECOND also the
Hessian of w'r.
"""

from dynamics.rods.loads.tendon_kernel import TENDON_NUMBERS, add_tendons
from dynamics.rods.model.arrays import FIRST, MASS_MATRIX, SECOND
from dynamics.rods.model.closure_arrays import closure_numbers, input_numbers
from dynamics.rods.model.rod_model import RodModel
from dynamics.rods.recursion.blocks import BLOCKS
from dynamics.rods.recursion.evaluation import inverse_dynamics_kernel, work_numbers
from dynamics.simd import (
    LANES,
    align_stack,
    carve,
    driver,
    fma,
    gather,
    kernel,
    load,
    scatter,
    shared_kernel,
    splat,
    store,
)

DQ, DV, MASS, HQQ, HQV, HVV, HQA = 0, 1, 2, 3, 4, 6, 7
"""Blocks (n, n) of the results; B and Hqu, (n, nu) each, follow after BLOCKS."""


@kernel
def _add_elasticity(e, level, n, state, r, A):
    """Add K q + D v and its derivatives."""
    align_stack(r)
    for i in range(n):
        x = load(r, i)
        for j in range(e.band[i, 0], e.band[i, 1]):
            K, D = e.stiffness[i, j], e.damping[i, j]
            x = fma(D, load(state, n + j), fma(K, load(state, j), x))
            if level >= FIRST:
                o = i * n + j
                store(A, o, load(A, o) + K)
                store(A, n * n + o, load(A, n * n + o) + D)
        store(r, i, x)


@shared_kernel
def residual_kernel(m, e, level, state, work, r, A):
    """r (n) and, in A, blocks (n n): dr/dq, dr/dv, M, Hqq, Hqv, -, Hvv, Hqa, -, then B and Hqu (n nu), as far as the
    level goes, then the results of closed chains (`closure_arrays`).  m: RodArrays; e: RobotArrays; state: q, v, a, w
    (n each), u (nu), external wrenches (6 W), numbers of closed chains (12 C + G); work: `residual_work`."""
    n, nu = m.numbers[0], e.numbers[0]
    B, rest = carve(A[BLOCKS * n * n :], n * nu)
    Hqu, closed = carve(rest, n * nu)
    inverse_dynamics_kernel(m, e.external, e.closures, level, state, state[4 * n + nu :], work, r, A, closed)
    _add_elasticity(e, level, n, state, r, A)
    if level >= FIRST:
        B[: n * nu] = 0.0
    if level >= SECOND:
        Hqu[: n * nu] = 0.0
    add_tendons(e.tendons, level, n, nu, state, work, r, A, A[HQQ * n * n :], B, Hqu)
    first = nu - e.driven.size
    for k in range(e.driven.size):
        i = e.driven[k]
        store(r, i, load(r, i) - load(state, 4 * n + first + k))
        if level >= FIRST:
            store(B, i * nu + first + k, splat(B, 1.0))


def residual_work(model: RodModel) -> int:
    """Scratch numbers of `residual_kernel`."""
    return max(work_numbers(model), TENDON_NUMBERS)


def result_numbers(n: int, nu: int, closed: int = 0) -> int:
    """Numbers of its results A, with those of closed chains."""
    return BLOCKS * n * n + 2 * n * nu + closed


@driver
def drive_residual(first, last, work, m, e, level, states, r, dq, dv, M, Hqq, Hqv, Hvv, Hqa, B, Hqu):
    """Rows of the arrays for the knots of `states` (K, .), knots in lanes."""
    n, nu = m.numbers[0], e.numbers[0]
    size = n * n
    state, w = carve(work, states.shape[1])
    forces, w = carve(w, n)
    A, w = carve(w, BLOCKS * size + 2 * n * nu + e.numbers[2])
    for c in range(first, last):
        t = c * LANES
        gather(states, t, state)
        residual_kernel(m, e, level, state, w, forces, A)
        scatter(forces, t, r)
        if level >= MASS_MATRIX:
            scatter(A[MASS * size :], t, M)
        if level >= FIRST:
            scatter(A, t, dq)
            scatter(A[DV * size :], t, dv)
            scatter(A[BLOCKS * size :], t, B)
        if level >= SECOND:
            scatter(A[HQQ * size :], t, Hqq)
            scatter(A[HQV * size :], t, Hqv)
            scatter(A[HVV * size :], t, Hvv)
            scatter(A[HQA * size :], t, Hqa)
            scatter(A[BLOCKS * size + n * nu :], t, Hqu)


def residual_driver_numbers(model: RodModel, nu: int) -> int:
    """Scratch numbers per lane of `drive_residual`."""
    n, inputs = model.nq, 6 * model.wrench_count + input_numbers(model.closures)
    results = result_numbers(n, nu, closure_numbers(model.closures, n))
    return 5 * n + nu + inputs + results + residual_work(model)
