"""Policies as C libraries: the control of a plan, for programs without Python and without the solver.

    all numbers finite, x a state?    otherwise the last control stays, and the program is told
    u = policy(t, x)                  of a `trajopt.Policy`, at any time; here
    u = feedback(x, p)                at the first knot, with parameters, of a `trajopt.results.feedback.Feedback`

Controls have the bits of those in Python: states are moved and compared by the same compiled functions, and other
numbers are added in the same order, without fused operations.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from time import perf_counter
from typing import NamedTuple

import numpy as np

from dynamics.simd import by_address, decision
from dynamics.simd.c_library import write_library
from dynamics.simd.c_library.texts import CONTROL_LOOP, add_files
from dynamics.simd.prepared_calls import PreparedCall, PreparedCalls, enter, integer_at
from dynamics.validation import as_text
from trajopt.interfaces.state_space import CompiledSpace, Factors, StateSpace, compiled_space
from trajopt.results.dense_output import DenseOutput, cubic

Limits = tuple[np.ndarray, np.ndarray]
TIMED = 201
"""Calls of which the median time is reported."""


# ------------------------------------------------------------------------------------------------ a law
@by_address
def answer(check, first_wrong, then, found, u, valid):
    """Make the calls at these addresses, the last of which writes what is found, if the one at `check` finds no wrong
    number, whose index is at first_wrong; u is what is found if that is finite."""
    enter(check)
    valid[0] = 1 if integer_at(first_wrong) < 0 else 0
    if valid[0] == 1:
        for call in then:
            enter(call)
        for i in range(found.shape[0]):
            if not abs(found[i]) < np.inf:
                valid[0] = 0
    if valid[0] == 1:
        _copy(found, u)


class Law(NamedTuple):
    """A control law for a library: the call of its only function, `control`, arrays by name, and all calls."""

    call: PreparedCall
    arrays: dict[str, np.ndarray]
    calls: list[PreparedCall]

    def write(
        self, folder: str | os.PathLike[str], name: str, target: str, about: str, examples: Mapping[str, str]
    ) -> Path:
        """Write the library, with examples by file and what its README says of it."""
        entries = {"control": PreparedCalls(self.call)}
        path = write_library(folder, as_text("name", name), entries, self.arrays, self.calls, target)
        times = []
        for _ in range(TIMED):
            start = perf_counter()
            self.call()
            times.append(perf_counter() - start)
        words = {"MICROSECONDS": f"{1e6 * float(np.median(times)):.2g}"}
        add_files(path, name, {**examples, "README.md": about + VALID}, words)
        return path


def law_of(
    given: np.ndarray, factors: Factors, then: Sequence[PreparedCall], found: np.ndarray, arrays: dict[str, np.ndarray]
) -> Law:
    """The law that makes calls, the last of which writes what is found, if all numbers given are a point of a product
    (`trajopt.interfaces.state_space`); its control is named u."""
    point, valid = compiled_space(factors), np.ones(1, dtype=np.int64)
    check = PreparedCall(point.first_no_point, point.rows, given)
    addresses = np.array([call.address for call in then], dtype=np.int64)
    u = found.copy()
    call = PreparedCall(answer, check.address, check.result_address, addresses, found, u, valid)
    named = {name: array for name, array in arrays.items() if array.size}
    return Law(call, {"u": u, "valid": valid, **named}, [call, check, *then])


def compiled(space: StateSpace) -> tuple[CompiledSpace, Factors]:
    """A space for compiled code, and its factors; ValueError for one that needs Python."""
    found = space.compiled()
    if found is None or space.factors is None:
        raise ValueError("export: got states that are compared in Python, expected numbers, rotations and placements")
    return found, space.factors


# ------------------------------------------------------------------------------------------------ policies
@decision
def locate(times, early, t):
    """The knot that acts at a time, the fraction of its step that is over, and the next knot that takes time, as
    `trajopt.results.dense_output.DenseOutput.locate`."""
    N = times.shape[0] - 1
    begun, after = 0, N
    while after - begun > 1:
        middle = (begun + after) // 2
        if times[middle] <= t + early:
            begun = middle
        else:
            after = middle
    k = begun
    while k >= 0 and times[k + 1] <= times[k]:
        k -= 1
    if k < 0:
        k = begun
        while times[k + 1] <= times[k]:
            k += 1
    following = k + 1
    while following < N and times[following + 1] <= times[following]:
        following += 1
    past, step, s = t - times[k], times[k + 1] - times[k], 0.0
    if past > early:
        s = 1.0 if step - past <= early else past / step
    return k, s, following


@decision
def _copy(source, target):
    for i in range(target.shape[0]):
        target[i] = source[i]


@decision
def _refer(k, s, following, xs, table, move, base, tangent, reference):
    """The planned state at a fraction of the step of knot k."""
    if s == 0.0:
        _copy(xs[k], reference)
    elif s == 1.0:
        _copy(xs[following], reference)
    else:
        first, a, b, c, d = cubic(table.shape[1] - 1, s)
        for i in range(tangent.shape[0]):
            total = a * table[k, first, i] + b * table[k, first + 1, i]
            if table.shape[1] > 3:
                total = total + c * table[k, first + 2, i] + d * table[k, first + 3, i]
            tangent[i] = total
        _copy(xs[k], base)
        enter(move)


@decision
def _feed_back(K, deviation, u):
    """u += K deviation"""
    for i in range(u.shape[0]):
        total = K[i, 0] * deviation[0]
        for j in range(1, deviation.shape[0]):
            total += K[i, j] * deviation[j]
        u[i] += total


@decision
def _answer(t, early, plan, K, hold, limits, moving, compare, deviation, u):
    times, xs, us, slopes, table = plan
    held_x, held_u, held_K = hold
    base, tangent, reference, move = moving
    k, s, following = locate(times, early, t)
    held = held_x.shape[0] > 0 and s == 1.0
    if held:
        _copy(held_u, u)
        _copy(held_x, reference)
    else:
        _copy(us[k], u)
        _refer(k, s, following, xs, table, move, base, tangent, reference)
    if slopes.shape[0] > 0 and not held:
        for i in range(u.shape[0]):
            u[i] += (s - 0.5) * slopes[k, 1 if s > 0.5 else 0, i]
    if K.shape[0] > 0:
        enter(compare)
        _feed_back(held_K if held else K[k], deviation, u)
    for i in range(u.shape[0]):
        u[i] = min(max(u[i], limits[0][k, i]), limits[1][k, i])


@by_address
def control(t, early, plan, K, hold, limits, moving, compare, deviation, u):
    """u of a policy at the time t[0]; plan = (times, xs, us, slopes, table), hold = (x, u, K), or empty arrays, and
    gains K, empty for an open loop.  With moving = (base, tangent, reference, call) this call moves the base along
    the tangent to the reference, and `compare` writes the deviation of the state from that."""
    _answer(t[0], early, plan, K, hold, limits, moving, compare, deviation, u)


def law_of_policy(motion: DenseOutput, K: np.ndarray, limits: Limits | None, hold: Mapping[str, np.ndarray]) -> Law:
    """The law u = policy(t, x), of gains K (N, nu, ndx), or none of an open loop, limits (lower, upper), (N, nu) each,
    and x, u and K of what holds the end, if anything does.  The plan is among its arrays, with the names that it has
    in files of policies."""
    space, factors = compiled(motion.space)
    nx, ndx, shape = motion.space.nx, motion.space.ndx, motion.us.shape
    plan = {name: getattr(motion, name).copy() for name in ("times", "xs", "us", "slopes")}
    plan |= {"table": motion.whole_table().copy(), "K": K.copy()}
    none = {"x": np.zeros(0), "u": np.zeros(0), "K": np.zeros((0, 0))}
    end = {f"hold_{name}": part.copy() for name, part in (hold or none).items()}
    free = np.full(shape, -np.inf), np.full(shape, np.inf)
    lower, upper = free if limits is None else (limits[0].copy(), limits[1].copy())

    given, base, reference, u = np.zeros(nx + 1), np.zeros(nx), motion.xs[0].copy(), motion.us[0].copy()
    (x, t), (tangent, deviation) = (given[:nx], given[nx:]), np.zeros((2, ndx))
    x[...] = reference
    move = PreparedCall(space.move, space.rows, base, tangent, reference)
    compare = PreparedCall(space.compare, space.rows, reference, x, deviation)
    moving = base, tangent, reference, move.address
    *of_motion, gains = plan.values()
    numbers = t, motion.early, tuple(of_motion), gains, tuple(end.values()), (lower, upper)
    call = PreparedCall(control, *numbers, moving, compare.address, deviation, u)

    arrays = {"time": t, "reference": reference}
    if len(K):
        arrays |= {"x": x, "deviation": deviation}
    arrays |= plan | end
    if limits is not None:
        arrays |= {"lower": lower, "upper": upper}
    time = ("euclidean", 1)
    law = law_of(given, (*factors, time), [call], u, arrays) if len(K) else law_of(t, (time,), [call], u, arrays)
    return law._replace(calls=[*law.calls, move, compare])


def export_policy(law: Law, folder: str | os.PathLike[str], name: str, target: str) -> Path:
    """See `trajopt.Policy.export`."""
    own = OF_LOOP.replace("STATE", WITH_STATE if "x" in law.arrays else WITHOUT_STATE)
    loop = CONTROL_LOOP.replace("OWN", own).replace("ABOUT", ABOUT_LOOP)
    return law.write(folder, name, target, OF_POLICY, {"control_loop.c": loop})


# ------------------------------------------------------------------------------------------------ texts
VALID = """\
Where a number that is read, or the control, is not finite, or a quaternion in `x` has no unit length within 1e-6,
`valid` becomes 0, and `u` stays what it was.

A call took MICROSECONDS us on the machine where this was written.
"""

OF_POLICY = """
## The control

`NAME_control` writes the control `u` at `time`, seconds from the plan's start, in the state `x` where it is fed back:
with the bits of `trajopt.Policy` in Python.  It writes the planned state at that time, `reference`, and in tangent
coordinates the `deviation` of `x` from it, too.  Before the plan the first knot acts; after it the last one does, whose
gains are those of a plan that ends, or, of `Solution.policy(hold=True)`, controls that hold its end.

The other arrays are the plan, with the names that they have in a file of `trajopt.Policy.save`: another plan with as
many knots, at times that never fall, may be written there.

"""

OF_FEEDBACK = """
## The control

`NAME_control` writes the control `u` at the plan's first knot for the state `x` and the parameters, which are the other
arrays: to first order what the plan for these begins with, within the limits of controls, and with the bits of the
feedback in Python.

"""

ABOUT_LOOP = """\
A plan as a controller at 1 kHz, with the functions of a hardware interface as in ros2_control: read, update, write."""

OF_LOOP = """\
enum { NX = UPPER_xs_DIM1, NU = UPPER_us_DIM1 };

static int start(NAME_t *self) {
    (void)self;
    return 0;
}

/* A robot's drivers go here.  This robot does what the plan says: it is where it was planned to be a moment ago. */
static void read_state(NAME_t *self, double *x) {
    memcpy(x, NAME_reference(self), sizeof(double) * NX);
}

/* Where what was read is no state, the last control goes on. */
static long without = 0;

static int update(NAME_t *self, long cycle, const double *x, double *u) {
    *NAME_time(self) = 1e-3 * (double)cycle;
    STATE
    if (NAME_control(self))
        return 1;
    without += !*NAME_valid(self);
    memcpy(u, NAME_u(self), sizeof(double) * NU);
    return 0;
}

static void report(NAME_t *self) {
    printf(", without a state in %ld of them; the plan ends after %g s\\n", without,
           NAME_times(self)[UPPER_times_SIZE - 1]);
}
"""
WITH_STATE = "memcpy(NAME_x(self), x, sizeof(double) * NX);"
WITHOUT_STATE = "(void)x; /* the planned controls alone */"
