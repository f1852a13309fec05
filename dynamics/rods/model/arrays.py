"""Trees of rods and joints as kernels see them: segments, each with its own coordinates, parents first.

A segment moves a frame from its start to its end, g_end = g_start exp(Omega(q)) g_after, where g_start is the parent's
end moved by the fixed g_before.  Omega depends on the segment's own coordinates x through strains at one or two points,

    ROD            xi_1,2 = xi*_1,2 + Phi_1,2 x     Omega = h/2 (xi_1 + xi_2) + b xi_1 x xi_2       b = sqrt(3) h^2 / 12
    JOINT, SCREW   xi_1 = Phi x                    Omega = xi_1

where each coordinate acts on one of the six components [angular; linear].  A rod is a sequence of segments that share
their coordinates: a Magnus step of fourth order between quadrature points [GVS, C1].  A SCREW is a joint of one degree
of freedom, whose rotation may be of any size, and which may shift along its axis as it turns.  Rotations of other
segments stay below 2 pi (`kinematics.rotations`).
"""

from typing import NamedTuple

import numpy as np

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
