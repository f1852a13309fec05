"""Loads after laws of the user's own on a node (`laws`), by the programs that compute them and their derivatives.

Beside what `segment_loads` sums towards the base, forces of pose and velocity at once have the block E, and controls
columns b of the forces, of which mu'b has the gradient h; with J, R, W of the coordinates at the node,

    Hqq + J'E R + its transpose      Hqv + J'E J      B - J'b      Hqu + W'b + J'h
"""

from dynamics.rods.kinematics.strains import load_column
from dynamics.rods.loads.composites import add_at
from dynamics.rods.loads.fluid_loads import carry, in_axes, to_world
from dynamics.rods.loads.laws import INPUTS
from dynamics.rods.loads.matrices import times6, transposed_times6
from dynamics.rods.model.arrays import COMPOSITE, END, FIRST, FORCE, LOAD_FORCE, RATE_FORCE, SECOND, TWIST
from dynamics.rods.model.law_arrays import (
    CODE,
    CODE_START,
    CONSTANTS_START,
    CONTROLS,
    FIRST_CONTROL,
    LENGTHS,
    OUTPUTS,
    OUTPUTS_START,
    RATES,
    entry,
)
from dynamics.rods.model.load_arrays import B6, N6, C, P
from dynamics.simd import align_stack, helper, kernel, load, shared_kernel, splat, store
from dynamics.spatial import dot6, load6, scale6, store3, store6, store9
from dynamics.tape.operations import WIDTH, execute

OF_X, OF_D, OF_U = 6, 42, 78
"""Where, among a program's outputs, P and N begin, and b (6 each), after which C, E, B and h follow."""


@shared_kernel
def _run(laws, i, R, p, eta, mu, controls, work):
    """Program i at this pose and twist, in axes of the node."""
    constants, last = entry(laws, CONSTANTS_START, i), entry(laws, CONSTANTS_START, i + 1)
    for k in range(constants, last):
        store(work, k - constants, splat(work, laws.constants[k]))
    law = i // 3
    first = entry(laws, FIRST_CONTROL, law)
    x, count = work[last - constants :], entry(laws, FIRST_CONTROL, law + 1) - first
    store9(x, 0, R)
    store3(x, 9, p)
    store6(x, 12, eta)
    for k in range(count):
        store(x, INPUTS + k, load(controls, first + k))
    store6(x, INPUTS + count, mu)
    start, end = entry(laws, CODE_START, i), entry(laws, CODE_START, i + 1)
    code = laws.integers[laws.integers[CODE] + start :]
    execute(work, code, (end - start) // WIDTH, entry(laws, LENGTHS, i), 1)


@helper
def _six(laws, i, o, share, work):
    """Six outputs of program i from o on, times the share."""
    k = laws.integers[OUTPUTS] + entry(laws, OUTPUTS_START, i) + o
    r = laws.integers[k : k + 6]
    x = load(work, r[0]), load(work, r[1]), load(work, r[2]), load(work, r[3]), load(work, r[4]), load(work, r[5])
    return scale6(x, share)


@kernel
def _block(laws, i, o, share, work, A):
    """36 outputs of program i into A."""
    for r in range(0, 36, 6):
        store6(A, r, _six(laws, i, o + r, share, work))


@kernel
def _add_mixed(m, s, columns, E, b):
    """Add J'E R, half of what is symmetric, to Hqq, and J'E J to Hqv; E about the origin."""
    n = m.numbers[0]
    for t in range(m.path_start[s], m.path_start[s + 1]):
        j = m.path[t]
        of_R, of_J = times6(E, 0, load_column(columns, n, 6, j)), times6(E, 0, load_column(columns, n, 0, j))
        for k in range(m.path_start[s], m.path_start[s + 1]):
            ij = m.path[k] * n + j
            J = load_column(columns, n, 0, m.path[k])
            store(b.Hqq, ij, load(b.Hqq, ij) + dot6(J, of_R))
            store(b.Hqv, ij, load(b.Hqv, ij) + dot6(J, of_J))


@kernel
def _add_controls(m, s, level, laws, i, share, R, p, columns, work, of_controls):
    """Add to B and Hqu of all laws' controls, which are `of_controls`, one after the other."""
    align_stack(work)
    n, law, all_of_them = m.numbers[0], i // 3, laws.integers[CONTROLS]
    first, last = entry(laws, FIRST_CONTROL, law), entry(laws, FIRST_CONTROL, law + 1)
    h = OF_U + 6 * (last - first) + 108
    for j in range(first, last):
        f = to_world(R, p, _six(laws, i, OF_U + 6 * (j - first), share, work))
        g = f
        if level >= SECOND:
            g = to_world(R, p, _six(laws, i, h + 6 * (j - first), share, work))
        for t in range(m.path_start[s], m.path_start[s + 1]):
            o = m.path[t] * all_of_them + j
            J = load_column(columns, n, 0, m.path[t])
            store(of_controls, o, load(of_controls, o) - dot6(J, f))
            if level >= SECOND:
                W, o = load_column(columns, n, 18, m.path[t]), o + n * all_of_them
                store(of_controls, o, load(of_controls, o) + dot6(W, f) + dot6(J, g))


@kernel
def add_law(m, laws, law, share, level, s, R, p, mu, controls, seg, columns, extra, A, E, work, b, of_controls):
    """A law's load at the end of segment s; A, E (36) and work are scratch."""
    align_stack(A)
    i = 3 * law + (0 if level < FIRST else (1 if level < SECOND else 2))
    eta, virtual = in_axes(R, p, load6(seg, END + TWIST)), in_axes(R, p, mu)
    _run(laws, i, R, p, eta, virtual, controls, work)
    add_at(seg, COMPOSITE + FORCE, to_world(R, p, _six(laws, i, 0, share, work)))
    if level < FIRST:
        return
    second = OF_U + 6 * (entry(laws, FIRST_CONTROL, law + 1) - entry(laws, FIRST_CONTROL, law))
    rates = entry(laws, RATES, law) == 1
    _block(laws, i, OF_X, share, work, A)
    if level >= SECOND:
        add_at(seg, COMPOSITE + LOAD_FORCE, to_world(R, p, transposed_times6(A, 0, virtual)))
    carry(R, p, A, extra, P)
    if rates:
        _block(laws, i, OF_D, share, work, A)
        if level >= SECOND:
            add_at(seg, COMPOSITE + RATE_FORCE, to_world(R, p, transposed_times6(A, 0, virtual)))
        carry(R, p, A, extra, N6)
    if level >= SECOND:
        _block(laws, i, second, share, work, A)
        carry(R, p, A, extra, C)
        if rates:
            _block(laws, i, second + 72, share, work, A)
            carry(R, p, A, extra, B6)
            _block(laws, i, second + 36, share, work, A)
            E[:36] = 0.0
            carry(R, p, A, E, 0)
            _add_mixed(m, s, columns, E, b)
    if of_controls.shape[0] > 0:
        _add_controls(m, s, level, laws, i, share, R, p, columns, work, of_controls)
