"""Loads after laws of the user's own, as kernels see them: programs of `dynamics.tape`, three of each of L laws, of the
forces, also of first, also of second derivatives.

All of it in two arrays, as each of them costs at every call.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

import numpy as np

from dynamics.simd import helper
from dynamics.tape.program import Program

CONTROLS, REGISTERS = 0, 1
"""Where the number of all controls and that of the registers of the longest program are."""
FIRST_CONTROL, RATES, LENGTHS, CONSTANTS_START, OUTPUTS_START, CODE_START, OUTPUTS, CODE = range(2, 10)
"""Tables: first controls (L + 1) and whether forces depend on velocities (L), of laws; registers (3 L), and where those
of constants, outputs and instructions begin (3 L + 1), of programs; and these, outputs being registers."""


class LawArrays(NamedTuple):
    """Tables and constants."""

    integers: np.ndarray  # two numbers, where the tables begin, tables
    constants: np.ndarray


@helper
def entry(laws, table, i):
    """Number i of a table."""
    return laws.integers[laws.integers[table] + i]


def law_arrays(laws: Sequence[tuple[Sequence[Program], int, bool]]) -> LawArrays:
    """Of programs, the number of controls, and whether forces depend on velocities."""
    programs = [program for own, _, _ in laws for program in own]
    controls = [0, *accumulate(count for _, count, _ in laws)]
    code, constants, outputs = ([np.ravel(program[k]) for program in programs] for k in range(3))
    starts = [[0, *accumulate(map(len, parts))] for parts in (constants, outputs, code)]
    lengths = [program.registers for program in programs]
    flat = ([k for part in parts for k in part] for parts in (outputs, code))
    tables = controls, [rates for *_, rates in laws], lengths, *starts, *flat
    places = [2 + len(tables) + k for k in accumulate((len(table) for table in tables[:-1]), initial=0)]
    integers = [controls[-1], max(lengths, default=0), *places, *(int(x) for table in tables for x in table)]
    return LawArrays(np.array(integers, np.int64), np.concatenate([np.zeros(0), *constants]))
