"""Evaluation of programs at many points: one driver for all programs, a point per lane, several vectors at a time."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from dynamics.simd import LANES, driver, flat, gather, helper, launch, load, scatter, select_less, splat, store
from dynamics.simd.lane_blocks import lanes, slicing
from dynamics.simd.sizes import Size
from dynamics.tape.operations import execute
from dynamics.tape.program import Program

BANKS = 4
"""Most vectors that an instruction is applied to before the next one is decoded."""
NEAR = 2048
"""Most vectors in the registers of all banks, which fit in the second-level cache."""


class Banks(NamedTuple):
    """Scratch of `run`."""

    ws: np.ndarray = lanes(Size("banks", "banks") * Size("registers", "registers"))
    block: np.ndarray = lanes(Size("results", "outputs.shape[0]"))


_slice_banks, _banks_size = slicing(Banks)


@helper
def place_constants(ws, constants, registers, banks):
    """Store the constants in the first registers of all banks."""
    for w in range(0, banks * registers, registers):
        for i in range(constants.shape[0]):
            store(ws, w + i, splat(ws, constants[i]))


@helper
def blemish(ws, start, stop):
    """Zero, or NaN in lanes in which one of these registers is not finite."""
    total = splat(ws, 0.0)
    for i in range(start, stop):
        total = total + 0.0 * load(ws, i)
    return total


@driver
def run(first, last, work, code, constants, outputs, registers, banks, X, U, L, Y):
    """Y[t] = outputs of the program for arguments [X[t]; U[t]; L[t]]; NaN where an argument is not finite."""
    n, m, l = X.shape[1], U.shape[1], L.shape[1]
    (ws, block), _ = _slice_banks(banks, registers, outputs, work)
    instructions, count = flat(code), code.shape[0]
    place_constants(ws, constants, registers, banks)
    chunk = first
    while chunk < last:
        used = min(banks, last - chunk)
        for k in range(used):
            t, x = (chunk + k) * LANES, k * registers + constants.shape[0]
            gather(X, t, ws[x : x + n])
            gather(U, t, ws[x + n : x + n + m])
            gather(L, t, ws[x + n + m : x + n + m + l])
        execute(ws, instructions, count, registers, used)
        for k in range(used):
            x = k * registers + constants.shape[0]
            wrong = blemish(ws, x, x + n + m + l)
            for i in range(outputs.shape[0]):
                store(block, i, load(ws, k * registers + outputs[i]) + wrong)
            scatter(block, (chunk + k) * LANES, Y)
        chunk += used


def write(
    program: Program, X: np.ndarray, U: np.ndarray, L: np.ndarray, Y: np.ndarray, call: Callable[..., Any] = launch
) -> Any:
    """Write the outputs of a program to Y (K, m) for arguments X (K, n), U (K, m), L (K, l), all C-ordered float64, or
    prepare this by another `call`."""
    code, constants, outputs, registers = program
    chunks = -(-len(X) // LANES)
    banks = max(1, min(BANKS, chunks, NEAR // registers))
    workspace_size = _banks_size(banks, registers, outputs)
    effort, arguments = len(code) // 2 + 1, (code, constants, outputs, registers, banks, X, U, L, Y)
    return call(run, len(X), workspace_size, *arguments, effort=effort)


def evaluate(program: Program, X: np.ndarray, U: np.ndarray, L: np.ndarray) -> np.ndarray:
    """Outputs (K, m) of a program for C-ordered float64 arguments X (K, n), U (K, m), L (K, l)."""
    Y = np.empty((len(X), len(program.outputs)))
    if Y.size:
        write(program, X, U, L, Y)
    return Y


# --------------------------------------------------------------------------------------------
# Closed-loop rollouts by the program of a step, with the step lengths of a line search in the lanes.


class LoopLanes(NamedTuple):
    """Scratch of `run_closed_loops`."""

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
def run_closed_loops(
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


def write_closed_loops(
    program: Program, loop: tuple[np.ndarray, ...], X: np.ndarray, U: np.ndarray, call: Callable[..., Any] = launch
) -> Any:
    """Write trajectories X (A, N+1, nx), U (A, N, nu) for x0 (A, nx), xs, us, k, K, alphas, gaps, lower, upper, shift,
    pull, before, all C-ordered float64, or prepare this by another `call`."""
    code, constants, outputs, registers = program
    size, effort = _loop_size(registers, loop[0], loop[-1]), U.shape[1] * (len(code) // 2 + 1)
    return call(run_closed_loops, len(X), size, code, constants, outputs, registers, *loop, X, U, effort=effort)


def closed_loops(program: Program, loop: tuple[np.ndarray, ...]) -> tuple[np.ndarray, np.ndarray]:
    """The trajectories that `write_closed_loops` writes."""
    A, (N, nu) = len(loop[5]), loop[2].shape
    X, U = np.empty((A, N + 1, loop[0].shape[1])), np.empty((A, N, nu))
    if A:
        write_closed_loops(program, loop, X, U)
    return X, U
