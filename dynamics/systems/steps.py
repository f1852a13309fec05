"""One time step of a robot, for one knot per lane: explicit Runge-Kutta-Nystroem methods on groups.

A method is its table (`Tableau`).  With the accelerations a_i of its s stages, row i of the coefficients gives

    O_i = h c_i v + h^2 sum_j P_ij a_j + h^3 sum_j D_ij [v, a_j]        q_i = q (+) O_i
    v_i = v + h sum_j V_ij a_j                                          a_i = a(q_i, v_i, u)

and the row behind the stages the step's end, q+ and v+.  The brackets are zero on Euclidean joints.

    explicit Euler        q+ = q (+) h v               v+ = v + h a
    semi-implicit Euler   q+ = q (+) h v+              v+ = v + h a
    RK4                   Munthe-Kaas form, two brackets keep order 4 on SE(3), SO(3), SE(2):

        O2 = h/2 v                                  v2 = v + h/2 a1
        O3 = h/2 v + h^2/4 a1 + h^3/16 [v, a1]      v3 = v + h/2 a2
        O4 = h v + h^2/2 a2                         v4 = v + h a3
        O  = h v + h^2/6 (a1 + a2 + a3) + h^3/12 [v, a3]
        q+ = q (+) O                                v+ = v + h/6 (a1 + 2 a2 + 2 a3 + a4)

The duration h is an argument of every step: that of the system, or the number behind the controls.  Only what a robot
needs is compiled: the types of a `Plant`'s contacts and duration select code, and so does `manifold`, which is None
where all joints are Euclidean.  Steps and rollouts are the same code for every method; expansions of Euler steps of
fixed duration have a form of their own (`expanded_as`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dynamics.contacts.contact_set import ContactArrays, LoopArrays
from dynamics.model.knot_driver import nv
from dynamics.simd import helper, kernel, load, shared_kernel
from dynamics.simd.by_type import by_type
from dynamics.simd.lane_algebra import add_scaled, combine, scale_into
from dynamics.simd.lane_blocks import lanes
from dynamics.simd.sizes import Size
from dynamics.spatial.tangent import add_bracket_rows, integrate_configuration
from dynamics.systems.controlled_acceleration import acceleration
from dynamics.systems.frame_forces import FrameActuators


# ------------------------------------------------------------------------------------------------ methods
class Tableau(NamedTuple):
    """Any explicit method."""

    rows: np.ndarray  # (s + 1, 1 + 3 s): c_i, V_i, P_i, D_i of the s stages and, last, of the end of the step


class EuclideanEuler(NamedTuple):
    """Expanded as an Euler step of fixed duration, all joints Euclidean: a handful of blocks."""

    rows: np.ndarray  # those of the `Tableau`


class LieEuler(NamedTuple):
    """Expanded as an Euler step of fixed duration, joints of any kind: the rows are sparse."""

    rows: np.ndarray


def _rows(c, V, P, D) -> np.ndarray:
    """The rows of these coefficients."""
    return np.column_stack([c, V, P, D]).astype(np.float64)


TABLEAUS = {
    "semi_implicit_euler": _rows([0, 1], [[0], [1]], [[0], [1]], [[0], [0]]),
    "explicit_euler": _rows([0, 1], [[0], [1]], [[0], [0]], [[0], [0]]),
    "rk4": _rows(
        [0, 1 / 2, 1 / 2, 1, 1],
        [[0, 0, 0, 0], [1 / 2, 0, 0, 0], [0, 1 / 2, 0, 0], [0, 0, 1, 0], [1 / 6, 1 / 3, 1 / 3, 1 / 6]],
        [[0, 0, 0, 0], [0, 0, 0, 0], [1 / 4, 0, 0, 0], [0, 1 / 2, 0, 0], [1 / 6, 1 / 6, 1 / 6, 0]],
        [[0, 0, 0, 0], [0, 0, 0, 0], [1 / 16, 0, 0, 0], [0, 0, 0, 0], [0, 0, 1 / 12, 0]],
    ),
}


class FixedDuration(NamedTuple):
    """The duration of every step."""

    h: float


class Plant(NamedTuple):
    """What kernels know of a system besides the robot."""

    contacts: ContactArrays | LoopArrays | None  # None: touches nothing
    B: np.ndarray  # (nv, nu), skip: `Actuation`
    skip: int
    manifold: bool | None  # None: all joints are Euclidean
    method: Tableau
    duration: FixedDuration | None  # None: the number behind the controls
    actuators: FrameActuators | None  # those on frames, whose forces depend on the configuration


def expanded_as(plant: Plant, euclidean: bool) -> Tableau | EuclideanEuler | LieEuler:
    """How steps of a plant are expanded, whose joints are all Euclidean or not."""
    rows = plant.method.rows
    if len(rows) > 2 or plant.duration is None:
        return plant.method
    return EuclideanEuler(rows) if euclidean else LieEuler(rows)


@helper
def coefficients(table, i, j):
    """V_ij, P_ij and D_ij."""
    stages = table.rows.shape[0] - 1
    return table.rows[i, 1 + j], table.rows[i, 1 + stages + j], table.rows[i, 1 + 2 * stages + j]


@helper
def _fixed(duration, nu, u):
    return duration.h


@helper
def _behind_controls(duration, nu, u):
    return load(u, nu)


duration_of = by_type("duration", {FixedDuration: _fixed, None: _behind_controls})
"""h of a step, (duration, nu, u): u are nu controls, and behind them the duration where it is free."""


@helper
def _none(duration):
    return 0


@helper
def _one(duration):
    return 1


free_durations = by_type("duration", {FixedDuration: _none, None: _one})
"""The number of durations behind the controls, 0 or 1."""


# ------------------------------------------------------------------------------------------------ steps
@kernel
def increment(m, manifold, table, i, h, v, acc, O):
    """O_i of row i of the table; acc (s nv) holds a_1, a_2, ..., as far as they are known."""
    n = m.dof_body.size
    scale_into(n, O, h * table.rows[i, 0], v)
    for j in range(i):
        _, P, _ = coefficients(table, i, j)
        if P != 0.0:
            add_scaled(n, O, h * h * P, acc[j * n :])
    if manifold is not None:
        for j in range(i):
            _, _, D = coefficients(table, i, j)
            if D != 0.0:
                add_bracket_rows(m, v, h * h * h * D, acc, j * n, 1, O, 0, 1, 1)


@helper
def velocity(n, table, i, h, v, acc, v_i):
    """v_i of row i of the table, apart from v."""
    scale_into(n, v_i, 1.0, v)
    for j in range(i):
        V, _, _ = coefficients(table, i, j)
        if V != 0.0:
            add_scaled(n, v_i, h * V, acc[j * n :])


@helper
def move(m, manifold, q, dq, q_out):
    """q_out = q (+) dq"""
    if manifold is None:
        combine(q.shape[0], q_out, q, 1.0, dq)
    else:
        integrate_configuration(m, q, dq, q_out)


nq = Size("nq", "nq")
"""Number of coordinates."""
stages = Size("stages", "p.method.rows.shape[0] - 1")
"""Number of stages of the method of the `Plant` p."""


class StepWork(NamedTuple):
    """Scratch of one step besides a `Dynamics`."""

    O: np.ndarray = lanes(nv)
    v: np.ndarray = lanes(nv)
    q: np.ndarray = lanes(nq)
    acc: np.ndarray = lanes(stages * nv)


@shared_kernel
def step_kernel(m, p, q, v, u, d, w, q_next, v_next):
    """(q+, v+) from (q, v, u) of the `Plant` p.

    d: a `Dynamics`; w: a `StepWork`; q_next, v_next apart from q, v."""
    n, h, table = m.dof_body.size, duration_of(p.duration, p.B.shape[1], u), p.method
    stages = table.rows.shape[0] - 1
    acceleration(m, p, q, v, u, d, w.acc[:n])
    for i in range(1, stages):
        increment(m, p.manifold, table, i, h, v, w.acc, w.O)
        move(m, p.manifold, q, w.O, w.q)
        velocity(n, table, i, h, v, w.acc, w.v)
        acceleration(m, p, w.q, w.v, u, d, w.acc[i * n : (i + 1) * n])
    increment(m, p.manifold, table, stages, h, v, w.acc, w.O)
    move(m, p.manifold, q, w.O, q_next)
    velocity(n, table, stages, h, v, w.acc, v_next)
