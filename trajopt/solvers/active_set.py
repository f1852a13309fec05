"""Minimum of an iteration's piecewise quadratic model: terms of constraints become active or inactive along the step,
and controls reach their limits.

    q(z) = grad'z + 1/2 z'H z + sum rho/2 |s(c + C z)|^2      z = (dx, du), du within its box, dx the linear dynamics

A sweep at z knows the terms that are active there, and of the control limits only those that its step meets at z. So
the step is followed, as a rollout of the linear dynamics with the controls clipped, and the sweep repeated at its end:
semismooth Newton steps [Hintermueller, Ito and Kunisch 2002].  A few full steps settle most models; otherwise steps are
halved until q falls.  Where the active set does not change, the first sweep is the last one.

A real-time iteration begins with the active set of the last plan's multipliers instead, which may hold rows that are
loose as if they were equalities: what its first sweep predicts counts for nothing, and steps, each with a sweep of its
own, go on until the active set settles.

The search is one compiled call, of prepared calls that it knows by their addresses alone, the backward pass of a
formulation among them, over arrays to which a model is copied.
"""

from __future__ import annotations

from math import prod
from typing import Any, NamedTuple

import numpy as np

from dynamics.simd import by_address, decision, helper
from dynamics.simd.prepared_calls import PreparedCall, enter
from trajopt.backward.backward_pass import MU, OUTWARD, ROUNDING, SUFFICIENT, SweepResult, box_around
from trajopt.backward.expansions import Expansion
from trajopt.backward.regularization import ATTEMPTS, KEPT
from trajopt.rows import add_terms, along
from trajopt.solvers.augmented_lagrangian import Multipliers, active_side, guessed_side, largest_of, sum_of_terms, term
from trajopt.solvers.formulation import NOTHING, Direction, Formulation, LocalModel, change, dot, follow
from trajopt.solvers.iteration import TRIES
from trajopt.solvers.line_search import INVISIBLE

HALVINGS = 25
"""Largest number of halvings of a step that must lower the model."""
NO_LIMITS = NOTHING, NOTHING
KNOWN, OF_MULTIPLIERS, OF_TERMS = range(3)
"""What a search begins with: a sweep whose predicted change of the model counts, as in an iteration of a solve; or, as
in a real-time iteration, one with the active set of the multipliers, or of the terms at the iterate.  The prediction of
the latter two counts for nothing: steps lower the model from where the iterate's controls lead, each with a sweep of
its own."""


# ------------------------------------------------------------------------------------------------ parts of the search
# Numbers that the parts exchange: of the model, of the search, of a step, and its outcome.
PENALTY, BARRIER, FIRST_VALUE, FIRST_CHANGE, FULL_STEPS, LOWERING_STEPS = range(6)
WANTED, SLOPE, LENGTHS, TERMS, VALUE, LINEAR, LOW, CHANGES = range(6, 14)
LEAST, LINEAR_PART, OTHER, FIRST_ORDER, SECOND_ORDER = range(14, 19)
GUESSED, LENGTH, SETTLED, SWEEPS, MOST_SWEEPS, COUNT = range(19, 25)


@by_address
def _step(dynamics, costs, gaps, policy, box, start, first, C, c, lower, upper, centre, numbers, dx, du, rows):
    """Write the first step dx, du of `trajopt.solvers.formulation.linear_step`, of at most so many lengths 1, 1/2, ...,
    that changes the model's value to less than is wanted, with a small part of the slope beyond; the change C (dx, du)
    of the rows; the value, the linear part of the costs in it, and 1 if that is so, else 0."""
    penalty, barrier, length, value, linear = numbers[PENALTY], numbers[BARRIER], 1.0, 0.0, 0.0
    numbers[LOW] = 0.0
    if start[0].shape[0] == 0:
        numbers[TERMS] = sum_of_terms(c, None, lower, upper, centre, penalty, barrier)
    for _ in range(int(numbers[LENGTHS])):
        follow(*dynamics, gaps, *policy, *box, *start, length, dx, du)
        along(first, *C, dx, du, rows)
        linear, quadratic = change(*costs, dx, du)
        terms = sum_of_terms(c, rows, lower, upper, centre, penalty, barrier)
        value = linear + 0.5 * quadratic + terms - numbers[TERMS]
        if value < numbers[WANTED] + SUFFICIENT * length * numbers[SLOPE]:
            numbers[LOW] = 1.0
            break
        length *= 0.5
    numbers[VALUE], numbers[LINEAR], numbers[LENGTH] = value, linear, length


@by_address
def _compare(c, before, after, lower, upper, centre, numbers, boxed, policy, start, dx, du):
    """Write 1 if the set of active terms, at the iterate the one that was guessed, if one was, differs between two
    changes of the rows; or, within a box, if the step between (dx0, du0) and (dx, du) is not that of the policy k, K;
    else 0."""
    numbers[CHANGES], guessed = 0.0, numbers[GUESSED] == OF_MULTIPLIERS
    largest = largest_of(centre) if guessed else 0.0
    for i in range(c.shape[0]):
        shift = centre[i] / numbers[PENALTY]
        side = active_side(c[i] + before[i] + shift, lower[i], upper[i])
        if guessed:
            side = guessed_side(c[i], centre[i], lower[i], upper[i], largest)
        if side != active_side(c[i] + after[i] + shift, lower[i], upper[i]):
            numbers[CHANGES] = 1.0
            return
    (k, K), (dx0, du0) = policy, start
    for t in range(du.shape[0] if boxed else 0):
        for i in range(du.shape[1]):
            wanted = du0[t, i] + k[t, i]
            for j in range(K.shape[2]):
                wanted += K[t, i, j] * (dx[t, j] - dx0[t, j])
            if abs(wanted - du[t, i]) > INVISIBLE * (1.0 + abs(wanted)):
                numbers[CHANGES] = 1.0
                return


@helper
def _copy(a, b):
    for i in range(a.shape[0]):
        b[i] = a[i]


@by_address
def _sweep(
    sweep, costs, expanded, blocks, first, C, c, lower, upper, dual, centre, numbers, us, limits, box, dx, du, rows, pw
):  # fmt: skip
    """Sweep, by the call at this address, the costs' model at (dx, du), the terms of the rows among it, with the box
    around the controls there, which are written first."""
    lx, lu, lxx, lux, luu = blocks
    N, ndx, nu = du.shape[0], dx.shape[1], du.shape[1]
    _copy(costs, expanded)
    for t in range(N + 1):
        for i in range(ndx):
            lx[t, i] += dot(lxx, t, i, dx, t)
        if t < N:
            for i in range(nu):
                lu[t, i] = lu[t, i] + dot(luu, t, i, du, t) + dot(lux, t, i, dx, t)
                for j in range(ndx):
                    lx[t, j] += lux[t, i, j] * du[t, i]
    (p, w), penalty, barrier = pw, numbers[PENALTY], numbers[BARRIER]
    for i in range(c.shape[0]):
        _, p[i], w[i] = term(c[i] + rows[i], dual[i], centre[i], penalty, barrier, lower[i], upper[i])
    add_terms(first, *C, p, w, *blocks)
    low, high = box
    for t in range(low.shape[0]):
        for i in range(nu):
            u = us[t, i] + du[t, i]
            low[t, i], high[t, i] = OUTWARD * (limits[0][t, i] - u), OUTWARD * (limits[1][t, i] - u)
    enter(sweep)


@by_address
def _finish(numbers, us, box, gaps, p, dx, du, rows, k, K, Vx, Vxx):
    """Write d1 and d2, whose d1 + d2/2 is the change at the point that a search has found, d1 its linear part; and
    where another sweep than the first one led there, the policy and the value function of that about the iterate."""
    linear = numbers[LINEAR_PART]
    for i in range(rows.shape[0]):
        linear += p[i] * rows[i]
    numbers[FIRST_ORDER], numbers[SECOND_ORDER] = linear, 2.0 * (numbers[LEAST] - linear)
    if numbers[OTHER] == 0.0:
        return
    lower, upper = box
    for t in range(du.shape[0]):
        for i in range(du.shape[1]):
            x = du[t, i] - dot(K, t, i, dx, t)
            if lower.shape[0] > 0:
                rounding = ROUNDING * (abs(us[t, i]) + abs(x))
                x = lower[t, i] if abs(x - lower[t, i]) <= rounding else x  # to the limit itself
                x = upper[t, i] if abs(x - upper[t, i]) <= rounding else x
            k[t, i] = x
    for t in range(dx.shape[0]):
        for i in range(dx.shape[1]):
            for j in range(dx.shape[1]):
                Vx[t, i] -= Vxx[t, i, j] * (dx[t, j] - gaps[t, j])


# ------------------------------------------------------------------------------------------------ the search
@by_address
def _search(
    step_from_iterate, step, compare, sweep, finish, drift, numbers, failed, changes, swept, saved, here, end, best
):
    """Write the point of the least value found, that value, the linear part of the costs in it, and 1 if another sweep
    than the first one led there; and what `_finish` does for the gains and the value function of that sweep, where
    those of the first sweep are at the beginning.

    The first six arguments are addresses of prepared calls: a sweep is one at `here`, and a step leads from there to
    the end; the drift is that of the gaps, with the iterate's controls."""
    value, linear, other, settled, smooth = numbers[FIRST_VALUE], 0.0, False, False, numbers[BARRIER] > 0.0
    for i in range(here.shape[0]):
        here[i] = best[i] = 0.0
    _copy(saved, swept)
    numbers[WANTED], numbers[SLOPE], numbers[LENGTHS] = np.inf, 0.0, 1.0
    guessed, numbers[SWEEPS] = numbers[GUESSED] != 0.0, 0.0
    if guessed and value == np.inf:
        enter(drift)
        value, linear, other = numbers[VALUE], numbers[LINEAR], True
        _copy(end, best)
    for count in range(1 + int(numbers[FULL_STEPS])):
        if count > 0:
            enter(compare)
            settled = numbers[CHANGES] == 0.0
            if guessed:
                numbers[GUESSED] = OF_TERMS
            if settled or numbers[SWEEPS] >= numbers[MOST_SWEEPS]:
                break
            _copy(end, here)
            enter(sweep)
            numbers[SWEEPS] += 1.0
            if failed[0] >= 0:
                break
        enter(step if count > 0 else step_from_iterate)
        if numbers[VALUE] < value:
            value, linear, other = numbers[VALUE], numbers[LINEAR], count > 0
            _copy(end, best)
            _copy(swept, saved)
    predicted, gained = -numbers[FIRST_CHANGE], -value
    for _ in range(0 if settled else int(numbers[LOWERING_STEPS])):
        if (smooth and gained >= (1.0 - KEPT) * predicted) or numbers[SWEEPS] >= numbers[MOST_SWEEPS]:
            break
        _copy(best, here)
        anew, slope = smooth or guessed or value < 0.0, numbers[FIRST_CHANGE]
        if anew:
            enter(sweep)
            numbers[SWEEPS] += 1.0
            if failed[0] >= 0:
                break
            slope = changes[1] + 0.5 * changes[2]
        else:
            _copy(saved, swept)
        numbers[WANTED], numbers[SLOPE], numbers[LENGTHS] = value, 0.0 if slope > 0.0 else slope, HALVINGS
        enter(step)
        if numbers[LOW] == 0.0:
            break
        predicted, gained = -slope, value - numbers[VALUE]
        value, linear, other = numbers[VALUE], numbers[LINEAR], anew
        _copy(end, best)
        _copy(swept, saved)
        if guessed:
            enter(compare)
            settled = numbers[LENGTH] == 1.0 and numbers[CHANGES] == 0.0
            if settled:
                break
        elif not smooth and gained <= KEPT * -value:
            break
    numbers[LEAST], numbers[LINEAR_PART], numbers[OTHER], numbers[SETTLED] = value, linear, other, settled
    enter(finish)


@decision
def most_steps(guessed, smooth, closed):
    """Largest number of full steps after the first one, and of steps that lower the model."""
    if guessed:
        return ATTEMPTS, ATTEMPTS
    if smooth:
        return 0, TRIES if closed else 0
    return ATTEMPTS, ATTEMPTS if closed else 0


def parts_of(*shapes: tuple[int, ...]) -> tuple[np.ndarray, tuple[np.ndarray, ...]]:
    """Zeros, and arrays of these shapes that they consist of."""
    ends = np.cumsum([prod(shape) for shape in shapes])
    flat = np.zeros(ends[-1])
    return flat, tuple(part.reshape(shape) for part, shape in zip(np.split(flat, ends[:-1]), shapes, strict=True))


class PreparedSearch:
    """The search over models of so many rows, its parts prepared over arrays of its own.

    Attributes
    ----------
    given : tuple of arrays
        Where a model is copied to: expansion, gaps, box, controls, their limits, rows, multipliers, p, and gains k, K.
    best : dx, du and the change of the rows at the end of a search
    found : k, K, Vx, Vxx of the sweep that led there, about the iterate
    saved : these as one array
    parts : calls that it makes by their addresses
    """

    def __init__(self, slots: Any, e: Expansion, R: int) -> None:
        (N, n, nu), limits, self.numbers = e.fu.shape, slots.limits, np.zeros(COUNT)
        shapes, gains = [x.shape for x in e[2:]], ((N, nu), (N, nu, n), (N + 1, n), (N + 1, n, n))
        fx, fu, gaps, us = np.zeros(e.fx.shape), np.zeros(e.fu.shape), np.zeros((N + 1, n)), np.zeros((N, nu))
        low, high, *ends = np.zeros((4, *((0, 0) if limits is None else us.shape)))
        first, (c, lower, upper, dual, centre), numbers = np.zeros(N + 2, np.intp), np.zeros((5, R)), self.numbers
        C = np.zeros((R, n)), np.zeros((R, nu))
        (costs, blocks), (expanded, moved) = parts_of(*shapes), parts_of(*shapes)
        (swept, sweep), (self.saved, self.found) = parts_of(*gains), parts_of(*gains)
        (here, start), (end, reached), (best, self.best) = [parts_of((N + 1, n), (N, nu), (R,)) for _ in range(3)]
        p = np.zeros(R)
        self.given = (
            fx, fu, *blocks, gaps, low, high, us, *ends, first, *C, c, lower, upper, dual, centre, p, *self.found[:2]
        )  # fmt: skip
        box = None if limits is None else box_around(us, *limits)
        self.sweep = slots.prepared_sweep((fx, fu, *moved), box, sweep)
        of_step = (fx, fu), blocks, gaps, sweep[:2], (low, high)
        to_end = first, C, c, lower, upper, centre, numbers, *reached
        self.parts = (
            PreparedCall(_step, *of_step, (NOTHING, NOTHING), *to_end),
            PreparedCall(_step, *of_step, start[:2], *to_end),
            PreparedCall(
                _compare, c, start[2], reached[2], lower, upper, centre, numbers, box is not None, sweep[:2],
                start[:2], *reached[:2],
            ),
            PreparedCall(
                _sweep, self.sweep.address, costs, expanded, moved, first, C, c, lower, upper, dual, centre, numbers,
                us, tuple(ends), (box or NO_LIMITS)[:2], *start, tuple(np.zeros((2, R))),
            ),
            PreparedCall(_finish, numbers, us, (low, high), gaps, p, *self.best, *self.found),
            PreparedCall(
                _step, (fx, fu), blocks, gaps, (np.zeros((N, nu)), np.zeros((N, nu, n))), (low, high),
                (NOTHING, NOTHING), *to_end,
            ),
        )  # fmt: skip
        addresses, outcome = [part.address for part in self.parts], self.sweep.room
        self.parts = *self.parts, self.sweep
        known = numbers, outcome, outcome.view(np.float64), swept, self.saved, here, end, best
        self.run = PreparedCall(_search, *addresses, *known)


class ModelMinimum(NamedTuple):
    """A direction whose d1 and d2 give the change that the piecewise model predicts; the predicted decrease of the
    cost, augmented-Lagrangian terms included, of its full step; that step z = (dx, du), and the change C z (R,) of the
    rows; False if its active set is another one than that of the sweep that led there; the number of sweeps after the
    first one."""

    direction: Direction
    promise: float
    dx: np.ndarray
    du: np.ndarray
    rows: np.ndarray
    settled: bool
    sweeps: int


def model_minimum(
    formulation: Formulation,
    model: LocalModel,
    m: Multipliers,
    direction: Direction,
    mu: float,
    begins: int = KNOWN,
    most: float = np.inf,
) -> ModelMinimum:
    """The minimum of a model of the direction's kind with the terms of these multipliers, starting from the direction,
    of a sweep at the iterate: full steps first; where these do not settle, steps that lower the model; where a barrier
    smooths it, Newton steps.  The policy and the value function of the last sweep are those about the iterate.

    begins: what the direction is, KNOWN, OF_MULTIPLIERS or OF_TERMS; most: the largest number of sweeps after it."""
    rows, at, (_, _, us, _, gaps, *_) = formulation.rows, model.rows, model.iterate
    assert rows is not None and at is not None and at.weights is not None
    sweep, e = direction.sweep, model.expansions[direction.kind]
    search = formulation.kept.get("search")
    if search is None or len(search.best[2]) != len(rows):
        search = formulation.kept["search"] = PreparedSearch(formulation, e, len(rows))
    given = (
        *e, 0.0 if gaps is None else gaps, *(model.box or NO_LIMITS)[:2], us, *(formulation.limits or NO_LIMITS),
        rows.first, *at.C, at.c, rows.lower, rows.upper, m.dual, m.centre, at.weights.p, sweep.k, sweep.K,
    )  # fmt: skip
    for own, array in zip(search.given, given, strict=True):
        own[...] = array
    smooth, closed = m.barrier > 0.0, gaps is None
    steps = most_steps(begins != KNOWN, smooth, closed)
    search.numbers[GUESSED], search.numbers[MOST_SWEEPS] = begins, most
    search.numbers[:WANTED] = m.penalty, m.barrier, 0.0 if closed else np.inf, direction.change, *steps
    with formulation.clock.measure("backward_pass"):
        search.sweep.set(MU, mu)
        search.run()
    least, _, other, d1, d2 = search.numbers[LEAST : SECOND_ORDER + 1].tolist()
    dx, du, moved = [part.copy() for part in search.best]
    if other:
        k, K, Vx, Vxx = [part.copy() for part in search.found]
        sweep = SweepResult(k, K, Vx, Vxx, d1, d2, True)
    else:
        sweep = sweep._replace(d1=d1, d2=d2)
    settled, sweeps = search.numbers[SETTLED] != 0.0, int(search.numbers[SWEEPS])
    return ModelMinimum(direction._replace(sweep=sweep), -least, dx, du, moved, settled, sweeps)
