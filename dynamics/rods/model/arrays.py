"""The arrays that kernels take of a soft robot: segments, contacts, laws, loads and closures."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

import numpy as np

from dynamics.simd import helper
from dynamics.tape.program import Program

# --------------------------------------------------------------------------------------------
# Trees of rods and joints as kernels see them: segments, each with its own coordinates, parents first.
#
# A segment moves a frame from its start to its end, g_end = g_start exp(Omega(q)) g_after, where g_start is the
# parent's end moved by the fixed g_before.  Omega depends on the segment's own coordinates x through strains at one or
# two points,
#
#     ROD  xi_1,2 = xi*_1,2 + Phi_1,2 x  Omega = h/2 (xi_1 + xi_2) + b xi_1 x xi_2  b = sqrt(3) h^2 / 12
#     JOINT, SCREW   xi_1 = Phi x                    Omega = xi_1
#
# where each coordinate acts on one of the six components [angular; linear].  A rod is a sequence of segments that share
# their coordinates: a Magnus step of fourth order between quadrature points [GVS, C1].  A SCREW is a joint of one
# degree of freedom, whose rotation may be of any size, and which may shift along its axis as it turns.  Rotations of
# other segments stay below 2 pi (`kinematics.rotations`).

ROD, JOINT, SCREW = 0, 1, 2


class RodArrays(NamedTuple):
    """A tree of S segments with n coordinates."""

    parent: np.ndarray  # (S,) segment before, -1 for the base
    kind: np.ndarray  # (S,)
    rows: np.ndarray  # (S, 7) component r is that of the coordinates rows[s, r] ... rows[s, r + 1] - 1
    step: np.ndarray  # (S, 2) h and b; for joints 2, and m/rad of a SCREW along the axis about which it turns
    reference: np.ndarray  # (S, 12) xi* at both points
    first_mode: np.ndarray  # (S,) row of `modes` of the segment's first coordinate
    modes: np.ndarray  # (., 2) values at the two points
    before: np.ndarray  # (S, 12) R row-major and p of fixed placements
    after: np.ndarray  # (S, 12)
    inertia: np.ndarray  # (S, 10) mass, first moment, rotational inertia of what moves with the end, in its frame
    path_start: np.ndarray  # (S + 1,)
    path: np.ndarray  # coordinates from the base up to and including those of a segment, for all segments
    beyond_start: np.ndarray  # (S + 1,)
    beyond: np.ndarray  # for all segments those of rods on the way to them that lie beyond, rising
    base: np.ndarray  # (12,)
    gravity: np.ndarray  # (3,)
    numbers: np.ndarray  # (1,) n


# ------------------------------------------------------------------------------------------- workspace of a segment
OMEGA = 0  # Omega, its first and half its second time derivative, its derivative along lambda
VALUES = 24  # strains, and rates, accelerations, virtual strains, at both points: (4, 2, 6)
COLUMNS = 72  # increments S, R, Q, W: (4, 12, 6)
START, END = 360, 390  # poses (12), virtual twist, twist, acceleration
VIRTUAL, TWIST, ACCELERATION = 12, 18, 24
COMPOSITE = 420  # of all that moves with the end: see below
FORCE, RATE_FORCE, DOUBLE_FORCE = 0, 6, 12  # f, n, m
MOMENTUM, MASS, MOMENT, INERTIA, INERTIA_RATE, VIRTUAL_MOMENT, VIRTUAL_RATE = 18, 24, 25, 28, 34, 40, 43
LOAD_FORCE = 49  # e
COMPOSITE_NUMBERS = 55
SEGMENT = COMPOSITE + COMPOSITE_NUMBERS

FAMILIES = 24  # per coordinate: J, R, Q, W

# ------------------------------------------------------------------------------------------------ levels of evaluation
FORCES, MASS_MATRIX, FIRST, SECOND = 0, 1, 2, 3
"""What is evaluated: generalised forces; also M; also first derivatives; also the Hessian."""


# --------------------------------------------------------------------------------------------
# Contacts between points of two links, or with friction and damping, as kernels see them.


class RodContactArrays(NamedTuple):
    """C contacts between points of segments A and B, in two arrays, as each of them costs at every call."""

    integers: np.ndarray  # (2 C) segments whose ends are the frames of A and B, -1 for the world; (C + 1) where the
    # coordinates that move A or B begin; these
    numbers: np.ndarray  # (C, .) as of `loads.contacts`, the point in the frame of B


@helper
def touching_segment(k, i, side):
    """Segment A or B of contact i."""
    return k.integers[2 * i + side]


@helper
def touching_path(k, i):
    """Where the coordinates of contact i begin and end among the integers."""
    C = k.numbers.shape[0]
    first = 3 * C + 1
    return first + k.integers[2 * C + i], first + k.integers[2 * C + i + 1]


def contact_arrays(m: RodArrays, contacts: Sequence[tuple[int, int, np.ndarray]]) -> RodContactArrays:
    """Of segments A and B and numbers."""
    segment = np.array([ends for *ends, _ in contacts], np.int64).reshape(-1, 2)
    own = [m.path[m.path_start[s] : m.path_start[s + 1]] for s in range(len(m.parent))]
    paths = [np.unique(np.concatenate([own[s] for s in ends if s >= 0])) for ends in segment]
    starts = np.concatenate([[0], np.cumsum([len(path) for path in paths])]).astype(np.int64)
    numbers = np.array([numbers for *_, numbers in contacts]) if contacts else np.zeros((0, 0))
    return RodContactArrays(np.concatenate([segment.ravel(), starts, *paths]), numbers)


# --------------------------------------------------------------------------------------------
# Loads after laws of the user's own, as kernels see them: programs of `dynamics.tape`, three of each of L laws, of the
# forces, also of first, also of second derivatives.
#
# All of it in two arrays, as each of them costs at every call.

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


# --------------------------------------------------------------------------------------------
# External loads as kernels see them, and what they add up to.

WRENCH, FOLLOWER, DEAD, CONTACT, DRAG, ADDED_MASS, CARRIED, LAW = range(8)
PARAMETERS = 40
"""Numbers of a load.  WRENCH and FOLLOWER: which of the given wrenches, the point (3) of the link, and what it is
multiplied with; DEAD: a force (3) and a moment (3), axes of the world; CARRIED: these in axes of the node; CONTACT:
those of `loads.contacts`; DRAG: matrix (36), speed of the smoothing; ADDED_MASS: matrix (36); LAW:
its number, and what it is multiplied with."""

# sums over a subtree, in the world frame: P, C, M, N, B of `loads` as matrices
P, C, M6, N6, B6 = 0, 36, 72, 108, 144
LOADS = 180


class LoadArrays(NamedTuple):
    """L loads in the order of their segments, of which there are S."""

    start: np.ndarray  # (S + 1,) loads at the end of segment s: start[s] ... start[s + 1] - 1
    kind: np.ndarray  # (L,)
    parameters: np.ndarray  # (L, PARAMETERS)
    loaded: np.ndarray  # (S,) 1 where the segment or one after it has a load, else 0
    contacts: RodContactArrays  # with friction, or between links
    laws: LawArrays


# --------------------------------------------------------------------------------------------
# Closed chains as kernels see them, and where their results lie.

POSITION, ORIENTATION = 0, 1


class ClosureArrays(NamedTuple):
    """C closed joints between sides A and B, with G constraint rows in the order of the joints.

    A row of POSITION is a.(p_A - p_B) for points of the sides and a direction a of the world; one of ORIENTATION is
    a.b for directions a of side A and b of side B.
    """

    segment: np.ndarray  # (C, 2) whose ends are the frames of A and B, -1 for the world
    point: np.ndarray  # (C, 2, 3) in these frames
    row_start: np.ndarray  # (C + 1,)
    kind: np.ndarray  # (G,)
    a: np.ndarray  # (G, 3)
    b: np.ndarray  # (G, 3)
    path_start: np.ndarray  # (C + 1,)
    path: np.ndarray  # coordinates that move A or B, for all joints
    first_wrench: np.ndarray  # (1,) number of external wrenches W, after which those of the joints follow


def no_closures() -> ClosureArrays:
    """None at all."""
    none = np.zeros(0, np.int64)
    return ClosureArrays(
        np.zeros((0, 2), np.int64), np.zeros((0, 2, 3)), np.zeros(1, np.int64), none, np.zeros((0, 3)),
        np.zeros((0, 3)), np.zeros(1, np.int64), none, np.zeros(1, np.int64),
    )  # fmt: skip


def input_numbers(closures: ClosureArrays) -> int:
    """Numbers that a state has for closed chains after its external wrenches: the wrenches on both sides of each joint,
    12 C, which kernels compute; 1/T and the weights mu (G) of e' + e/T in Hessians; the multipliers (G)."""
    rows = len(closures.kind)
    return 12 * len(closures.segment) + (1 + 2 * rows if rows else 0)


def closure_numbers(closures: ClosureArrays, n: int) -> int:
    """Numbers of the results: e, e', e'' (G each), A, A', A'' (G n each), 6 n of each joint in between, and rates of A
    along w (G n)."""
    return int(closed_numbers(closures, n))


@helper
def closed_numbers(closures, n):
    """`closure_numbers`, for kernels."""
    return virtual_rows(closures, n) + closures.kind.size * n


@helper
def virtual_rows(closures, n):
    """Where the last of them begin."""
    return 3 * closures.kind.size * (1 + n) + 6 * n * closures.segment.shape[0]
