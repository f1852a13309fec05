"""Loads after laws of the user's own, as kernels see them: programs of `dynamics.tape`."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

import numpy as np

from dynamics.tape.program import Program


class LawArrays(NamedTuple):
    """L laws, each with three programs: of the forces, also of first, also of second derivatives."""

    numbers: np.ndarray  # (2,) controls of all laws; registers of the longest program
    first_control: np.ndarray  # (L + 1,) of the laws' controls
    rates: np.ndarray  # (L,) 1 where forces depend on velocities
    registers: np.ndarray  # (3 L,)
    code: np.ndarray  # instructions, for all programs
    code_start: np.ndarray  # (3 L + 1,)
    constants: np.ndarray
    constants_start: np.ndarray  # (3 L + 1,)
    outputs: np.ndarray  # registers
    outputs_start: np.ndarray  # (3 L + 1,)


def law_arrays(laws: Sequence[tuple[Sequence[Program], int, bool]]) -> LawArrays:
    """Of programs, the number of controls, and whether forces depend on velocities."""
    programs = [program for own, _, _ in laws for program in own]
    parts = [[np.ravel(program[k]) for program in programs] for k in range(3)]
    kinds, flat = (np.int64, np.float64, np.int64), []
    for kind, arrays in zip(kinds, parts, strict=True):
        flat.append(np.concatenate([np.zeros(0, kind), *arrays]).astype(kind))
        flat.append(np.array([0, *accumulate(map(len, arrays))], np.int64))
    controls = np.array([0, *accumulate(count for _, count, _ in laws)], np.int64)
    registers = np.array([program.registers for program in programs], np.int64)
    numbers = np.array([controls[-1], registers.max(initial=0)])
    return LawArrays(numbers, controls, np.array([rates for *_, rates in laws], np.int64), registers, *flat)
