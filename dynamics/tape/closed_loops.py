"""Closed-loop rollouts by the program of a step, with the step lengths of a line search in the lanes."""

from typing import NamedTuple

import numpy as np

from dynamics.simd import LANES, driver, flat, helper, launch, load, select_less, splat, store
from dynamics.simd.lane_blocks import lanes, slicing
from dynamics.simd.sizes import Size
from dynamics.tape.interpreter import blemish, place_constants
from dynamics.tape.operations import execute
from dynamics.tape.program import Program


class LoopLanes(NamedTuple):
    """Scratch of `run`."""

    ws: np.ndarray = lanes(Size("registers", "registers"))
    dx: np.ndarray = lanes(Size("n", "x0.shape[1]"))
    lengths: np.ndarray = lanes(2)  # alpha and shift
    off: np.ndarray = lanes(Size("remembered", "before.shape[2]"))  # the deviation at the knot before


_slice_loop, _loop_size = slicing(LoopLanes)


@helper
def _write(ws, start, count, first, t, target):
    """Store registers in target[first + l, t, :] for the lanes that exist; target (A, N, count)."""
    numbers, knots = flat(target), target.shape[1]
    for l in range(min(LANES, target.shape[0] - first)):
        place = ((first + l) * knots + t) * count
        for i in range(count):
            numbers[place + i] = ws[start + i, l]


@helper
def _control(ws, dx, off, lengths, i, t, us, k, K, lower, upper, pull, before):
    """Control clip(us + alpha k + shift pull + K dx + before off, lower, upper); open loop if K has no rows, without
    limits, pull and before if these have none; `lengths` holds alpha and shift, `off` the deviation at knot t - 1."""
    value = splat(ws, us[t, i])
    if K.shape[0] > 0:
        value = value + k[t, i] * load(lengths, 0)
        if pull.shape[0] > 0:
            value = value + pull[t, i] * load(lengths, 1)
        for j in range(K.shape[2]):
            value = value + K[t, i, j] * load(dx, j)
        if t > 0 and before.shape[0] > 0:
            for j in range(before.shape[2]):
                value = value + before[t, i, j] * load(off, j)
    if lower.shape[0] > 0:  # NaN stays NaN
        value = select_less(value, lower[t, i], splat(ws, lower[t, i]), value)
        value = select_less(upper[t, i], value, splat(ws, upper[t, i]), value)
    return value


@driver
def run(
    first, last, work, code, constants, outputs, registers,
    x0, xs, us, k, K, alphas, gaps, lower, upper, shift, pull, before, X, U,
):  # fmt: skip
    """Store X[a], U[a] for every step length, as `System.closed_loop_rollout`; x0 (A, nx); gaps, limits, shift, pull
    and before have no rows if there are none."""
    n, m, x = x0.shape[1], us.shape[1], constants.shape[0]
    (ws, dx, lengths, off), _ = _slice_loop(registers, x0, before, work)
    last_of_state = before.shape[2] - m
    instructions, count = flat(code), code.shape[0]
    place_constants(ws, constants, registers, 1)
    for chunk in range(first, last):
        for l in range(LANES):
            row = min(chunk * LANES + l, alphas.shape[0] - 1)
            lengths[0, l] = alphas[row]
            lengths[1, l] = shift[row] if shift.shape[0] > 0 else 0.0
            for i in range(n):
                ws[x + i, l] = x0[row, i]
        left = 1.0 - load(lengths, 0)
        for i in range(n):
            start = load(ws, x + i)
            store(ws, x + i, start - left * gaps[0, i] if gaps.shape[0] > 0 else start)
        _write(ws, x, n, chunk * LANES, 0, X)
        for t in range(us.shape[0]):
            for j in range(n):
                store(dx, j, load(ws, x + j) - xs[t, j])
            for i in range(m):
                u = _control(ws, dx, off, lengths, i, t, us, k, K, lower, upper, pull, before)
                store(ws, x + n + i, u)
            if before.shape[0] > 0:
                for j in range(last_of_state):
                    store(off, j, load(dx, n - last_of_state + j))
                for i in range(m):
                    store(off, last_of_state + i, load(ws, x + n + i) - us[t, i])
            _write(ws, x + n, m, chunk * LANES, t, U)
            wrong = blemish(ws, x, x + n + m)
            execute(ws, instructions, count, registers, 1)
            for j in range(n):
                following = load(ws, outputs[j]) + wrong
                store(dx, j, following - left * gaps[t + 1, j] if gaps.shape[0] > 0 else following)
            for j in range(n):
                store(ws, x + j, load(dx, j))
            _write(ws, x, n, chunk * LANES, t + 1, X)


def closed_loops(program: Program, loop: tuple[np.ndarray, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Trajectories (A, N+1, nx), (A, N, nu) for x0 (A, nx), xs, us, k, K, alphas, gaps, lower, upper, shift, pull,
    before, all C-ordered float64."""
    n, us, alphas, before = loop[0].shape[1], loop[2], loop[5], loop[-1]
    A, (N, nu) = len(alphas), us.shape
    X, U = np.empty((A, N + 1, n)), np.empty((A, N, nu))
    if A:
        code, constants, outputs, registers = program
        size, effort = _loop_size(registers, loop[0], before), N * (len(code) // 2 + 1)
        launch(run, A, size, code, constants, outputs, registers, *loop, X, U, effort=effort)
    return X, U
