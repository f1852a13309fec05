"""Inverse dynamics of rods."""

from dynamics.rods.arrays import SEGMENT
from dynamics.rods.backward_pass import backward_pass
from dynamics.rods.forward_pass import forward_pass
from dynamics.simd import LANES, carve, driver, gather, scatter


@driver
def drive(first, last, work, m, level, states, tau, A, size):
    n = m.numbers[0]
    for c in range(first, last):
        seg, w = carve(work, m.parent.size * SEGMENT)
        cols, w = carve(w, 24 * n)
        x, w = carve(w, 4 * n)
        t, w = carve(w, n)
        a, w = carve(w, 9 * n * n)
        gather(states, c * LANES, x)
        forward_pass(m, level, x, seg, cols, w)
        backward_pass(m, level, seg, cols, w, t, a)
        scatter(t, c * LANES, tau)
        scatter(a, c * LANES, A)
