"""The arrays that kernels take of a soft robot: segments, contacts, laws, loads and closures."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

import numpy as np

from dynamics.simd import helper
from dynamics.simd.lane_blocks import lanes, slicing
from dynamics.simd.sizes import Size
from dynamics.tape.program import Program

# --------------------------------------------------------------------------------------------
# Trees of rods and joints as kernels read them: segments, each with its own coordinates, parents first.
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
# other segments stay below 2 pi (`kinematics.center_lines`).

ROD, JOINT, SCREW = 0, 1, 2


class RodArrays(NamedTuple):
    """A tree of S segments with n coordinates."""

    parent: np.ndarray  # (S,) segment before, -1 for the base
    kind: np.ndarray  # (S,)
    rows: np.ndarray  # (S, 7) coordinates rows[s, r] ... rows[s, r + 1] - 1 belong to component r
    step: np.ndarray  # (S, 2) h and b of rods; 2 for joints; for a SCREW the pitch along its axis, m/rad
    reference: np.ndarray  # (S, 12) xi* at both points
    first_mode: np.ndarray  # (S,) row of `modes` of the segment's first coordinate
    modes: np.ndarray  # (., 2) values at the two points
    before: np.ndarray  # (S, 12) R row-major and p of fixed placements
    after: np.ndarray  # (S, 12)
    inertia: np.ndarray  # (S, 10) mass, first moment, rotational inertia of the body at the segment's end, in its frame
    path_start: np.ndarray  # (S + 1,)
    path: np.ndarray  # coordinates from the base up to and including those of a segment, for all segments
    beyond_start: np.ndarray  # (S + 1,)
    beyond: np.ndarray  # for all segments those of rods on the way to them that lie beyond, rising
    base: np.ndarray  # (12,)
    gravity: np.ndarray  # (3,)
    counts: np.ndarray  # (1,) n


n = Size("n", "m.counts[0]")
"""Number of coordinates."""


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
"""Levels of evaluation: generalised forces; also M; also first derivatives; also the Hessian."""


# --------------------------------------------------------------------------------------------
# Contacts with friction or damping, or between points of two links, as kernels read them.


class RodContactArrays(NamedTuple):
    """C contacts between points of segments A and B, in two arrays, since each array passed to a kernel costs time."""

    integers: np.ndarray  # (2 C) segments whose ends are the frames of A and B, -1 for the world; (C + 1) where the
    # coordinates that move A or B begin; these
    numbers: np.ndarray  # (C, .) as of `loads.contacts`, the point in the frame of B


@helper
def touching_segment(k, i, side):
    """Segment A or B of contact i."""
    return k.integers[2 * i + side]


@helper
def touching_path(k, i):
    """First and last (exclusive) index of the coordinates of contact i among the integers."""
    C = k.numbers.shape[0]
    first = 3 * C + 1
    return first + k.integers[2 * C + i], first + k.integers[2 * C + i + 1]


def contact_arrays(m: RodArrays, contacts: Sequence[tuple[int, int, np.ndarray]]) -> RodContactArrays:
    """Arrays of contacts given as segments A and B and numbers."""
    segment = np.array([ends for *ends, _ in contacts], np.int64).reshape(-1, 2)
    own = [m.path[m.path_start[s] : m.path_start[s + 1]] for s in range(len(m.parent))]
    paths = [np.unique(np.concatenate([own[s] for s in ends if s >= 0])) for ends in segment]
    starts = np.concatenate([[0], np.cumsum([len(path) for path in paths])]).astype(np.int64)
    numbers = np.array([numbers for *_, numbers in contacts]) if contacts else np.zeros((0, 0))
    return RodContactArrays(np.concatenate([segment.ravel(), starts, *paths]), numbers)


# --------------------------------------------------------------------------------------------
# Loads added by `add_load`, as kernels read them: programs of `dynamics.tape`, three for each of L laws (forces, with
# first derivatives, with second derivatives).
#
# All are in two arrays, since each array passed to a kernel costs time.

CONTROLS, REGISTERS = 0, 1
"""Indices of the number of all controls and of the largest number of registers of a program."""
FIRST_CONTROL, RATES, LENGTHS, CONSTANTS_START, OUTPUTS_START, CODE_START, OUTPUTS, CODE = range(2, 10)
"""Tables of the laws: first controls (L + 1), and 1 if forces depend on velocities (L); of the programs: numbers of
registers (3 L), and starts of constants, outputs and instructions (3 L + 1); then the outputs, as registers, and the
instructions."""


class LawArrays(NamedTuple):
    """Tables and constants of the laws' programs."""

    integers: np.ndarray  # the two numbers, the starts of the tables, the tables
    constants: np.ndarray


@helper
def entry(laws, table, i):
    """Entry i of a table."""
    return laws.integers[laws.integers[table] + i]


def law_arrays(laws: Sequence[tuple[Sequence[Program], int, bool]]) -> LawArrays:
    """Arrays of laws given as programs, number of controls, and whether forces depend on velocities."""
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
# External loads as kernels read them, and their sums.

WRENCH, FOLLOWER, DEAD, CONTACT, DRAG, ADDED_MASS, CARRIED, LAW = range(8)
PARAMETERS = 40
"""Numbers of a load.  WRENCH and FOLLOWER: index of the wrench, point (3) of the link, factor; DEAD: a force (3) and a
moment (3) in world axes; CARRIED: the same in axes of the node; CONTACT: those of `loads.contacts`; DRAG: matrix (36),
speed of the smoothing; ADDED_MASS: matrix (36); LAW: index of the law, factor."""

# sums over a subtree, in the world frame: P, C, M, N, B of `loads` as matrices
P, C, M6, N6, B6 = 0, 36, 72, 108, 144
LOADS = 180


class LoadArrays(NamedTuple):
    """L loads in the order of the S segments that carry them."""

    start: np.ndarray  # (S + 1,) loads at the end of segment s: start[s] ... start[s + 1] - 1
    kind: np.ndarray  # (L,)
    parameters: np.ndarray  # (L, PARAMETERS)
    loaded: np.ndarray  # (S,) 1 where the segment or one after it has a load, else 0
    contacts: RodContactArrays  # with friction, or between links
    laws: LawArrays


# --------------------------------------------------------------------------------------------
# Closed chains as kernels read them, and the layout of their results.

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
    """Arrays without closed joints."""
    none = np.zeros(0, np.int64)
    return ClosureArrays(
        np.zeros((0, 2), np.int64), np.zeros((0, 2, 3)), np.zeros(1, np.int64), none, np.zeros((0, 3)),
        np.zeros((0, 3)), np.zeros(1, np.int64), none, np.zeros(1, np.int64),
    )  # fmt: skip


def input_size(closures: ClosureArrays) -> int:
    """Number of entries that closed chains add to a state after its external wrenches: the wrenches on both sides of
    each joint (12 C), which kernels compute; 1/T and the weights mu (G) of e' + e/T in Hessians; the multipliers
    (G)."""
    rows = len(closures.kind)
    return 12 * len(closures.segment) + (1 + 2 * rows if rows else 0)


rows = Size("rows", "closures.kind.size")


class ClosureResults(NamedTuple):
    """Results for closed chains: gaps e and their Jacobian A, each with two time derivatives, the change of moments
    that rotate with the sides of each joint, and rates of A along w."""

    e: np.ndarray = lanes(rows)
    rate: np.ndarray = lanes(rows)
    rate_2: np.ndarray = lanes(rows)
    A: np.ndarray = lanes(rows * n)
    A_rate: np.ndarray = lanes(rows * n)
    A_rate_2: np.ndarray = lanes(rows * n)
    spins: np.ndarray = lanes(Size("joints", "closures.segment.shape[0]") * n * 6)
    virtual: np.ndarray = lanes(rows * n)


slice_closures, closure_size = slicing(ClosureResults)
