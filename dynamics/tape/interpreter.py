"""Evaluation of programs at many points: one driver for all programs, a point per lane, several vectors at a time."""

from typing import NamedTuple

import numpy as np

from dynamics.simd import LANES, driver, flat, gather, helper, launch, load, scatter, splat, store
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


def evaluate(program: Program, X: np.ndarray, U: np.ndarray, L: np.ndarray) -> np.ndarray:
    """Outputs (K, m) of a program for C-ordered float64 arguments X (K, n), U (K, m), L (K, l)."""
    code, constants, outputs, registers = program
    Y = np.empty((len(X), len(outputs)))
    if Y.size:
        chunks = -(-len(X) // LANES)
        banks = max(1, min(BANKS, chunks, NEAR // registers))
        workspace_size = _banks_size(banks, registers, outputs)
        effort, arguments = len(code) // 2 + 1, (code, constants, outputs, registers, banks, X, U, L, Y)
        launch(run, len(X), workspace_size, *arguments, effort=effort)
    return Y
