"""Backward pass over a tree of rods and joints: generalised forces, mass matrix, first derivatives, Hessian.

A segment with composites f, n, m, M, N, B of all that moves with its end, and increments S, R, Q, W, has right factors

    Y1 = N R + M Q + K_f S      Y2 = N'W + B R + K_n S + K_m R      Y3 = M W + K_m S
    X1 = N S + 2 M R            X2 = B S + K_m S                    X3 = M S              X4 = N'S

and with J, R, Q, W of all coordinates on the path, at the middle of the segment,                  [rod_hessian, 2]

    dID/dq = J'Y1 + {R'X4 + Q'X3}'        dID/dv = J'X1 + {J'X4 + 2 R'X3}'        M = {J'X3 + its transpose}
    Hqq = {W'Y1 + R'Y2 + Q'Y3 + its transpose}      Hqv = W'X1 + R'X2 + {J'Y2 + 2 R'Y3}'
    Hvv = {J'X2 + its transpose}                    Hqa = W'X3 + {J'Y3}'

summed over segments, each with the curvature of `curvature` in its own block.  Strains multiply the factors last: two
numbers for a coordinate of a rod.
"""

from dynamics.rods.kinematics.curvature import CURVATURE_NUMBERS, HALVES, segment_curvature
from dynamics.rods.kinematics.strains import add_beyond, add_families, mode
from dynamics.rods.loads.composites import add_node, add_to_parent
from dynamics.rods.loads.contact_pairs import add_contact_pairs
from dynamics.rods.loads.segment_loads import add_loads, add_loads_to_parent
from dynamics.rods.model.arrays import COLUMNS, COMPOSITE, FIRST, FORCE, LOADS, MASS_MATRIX, ROD, SCREW, SECOND, SEGMENT
from dynamics.rods.recursion.blocks import add_pairs, add_transposed_blocks, slice_blocks
from dynamics.rods.recursion.products import (
    FACTORS,
    PRODUCTS,
    add_curvature,
    add_load_factors,
    add_load_products,
    left_products,
    path_group,
    right_factors,
)
from dynamics.simd import LANES, align_stack, fma, kernel, load, split, store
from dynamics.spatial.spatial import dot6, load6


@kernel
def _add_forces(m, s, seg, tau):
    """Store generalised forces of the segment's coordinates: S'f through the strains."""
    align_stack(seg)
    f, rod = load6(seg, COMPOSITE + FORCE), m.kind[s] == ROD
    for r in range(6):
        if m.rows[s, r] == m.rows[s, r + 1]:
            continue
        first = dot6(load6(seg, COLUMNS + 6 * r), f)
        second = dot6(load6(seg, COLUMNS + 36 + 6 * r), f) if rod else first
        for j in range(m.rows[s, r], m.rows[s, r + 1]):
            one, two = mode(m, s, j)
            x = fma(one, first, load(tau, j))
            store(tau, j, fma(two, second, x) if rod else x)


@kernel
def _segment_blocks(m, external, s, level, seg, columns, extra, ws, A):
    """Add one segment's part to the blocks of A."""
    factors, w = split(ws, FACTORS)
    curvature, L = split(w, CURVATURE_NUMBERS)
    right_factors(m, s, level, seg, factors)
    loaded = external.loaded[s] == 1
    if loaded:
        add_load_factors(m, s, level, seg, extra, factors)
    differentiated = level >= FIRST and m.kind[s] != SCREW
    if differentiated:
        segment_curvature(m.step[s, 0], m.step[s, 1], 2 if m.kind[s] == ROD else 1, level, seg, curvature)
    t = m.path_start[s]
    while t < m.path_start[s + 1]:
        i, members, t = path_group(m, s, t, L)
        left_products(m, s, level, i, members, columns, factors, L)
        if loaded and level >= FIRST:
            add_load_products(m, s, level, i, members, columns, factors, L)
        if differentiated:
            add_curvature(m, s, level, i, members, curvature[HALVES:], L)
        add_pairs(m, s, level, i, members, L, A)


@kernel
def backward_pass(m, external, level, controls, wrenches, segments, columns, loads, ws, tau, A, of_controls):
    """Store generalised forces tau (n) and `Blocks` in A, as far as the level needs them, after `forward_pass` and
    `clear_blocks`; arguments also: controls of laws, wrenches of the external loads that take them, sums of all loads
    (LOADS per segment), and B and Hqu of laws."""
    align_stack(tau)
    n, (b, _) = m.counts[0], slice_blocks(m, A)
    families = 4 if level >= SECOND else (3 if level >= FIRST else 1)
    tau[:n] = 0.0
    for s in range(m.parent.size):
        if external.loaded[s] == 1:
            loads[s * LOADS : (s + 1) * LOADS] = 0.0
    if external.contacts.numbers.shape[0] > 0:
        add_contact_pairs(m, external.contacts, level, segments, loads, ws, b)
    for s in range(m.parent.size - 1, -1, -1):
        seg = segments[s * SEGMENT : (s + 1) * SEGMENT]
        extra = loads[s * LOADS : (s + 1) * LOADS]
        add_node(m, s, level, seg)
        if level >= MASS_MATRIX:
            add_beyond(m, s, s, -1.0, families, segments, columns)
        if external.start[s] < external.start[s + 1]:
            add_loads(m, external, controls, wrenches, s, level, seg, columns, extra, ws, b, of_controls)
        if m.rows[s, 0] < m.rows[s, 6]:
            _add_forces(m, s, seg, tau)
            if level >= MASS_MATRIX:
                add_families(m, s, -0.5, families, seg, columns)
                _segment_blocks(m, external, s, level, seg, columns, extra, ws, A)
                add_families(m, s, -0.5, families, seg, columns)
        if level >= MASS_MATRIX:
            add_beyond(m, s, s, 1.0, families, segments, columns)
        add_to_parent(m, s, segments)
        add_loads_to_parent(m, external, s, loads)
    add_transposed_blocks(n, level, b)


def backward_size(of_loads: int = 0) -> int:
    """Scratch size of `backward_pass`, of which loads and contacts need `of_loads`."""
    return max(of_loads, FACTORS + CURVATURE_NUMBERS + 12 * PRODUCTS * LANES)  # products of a group
