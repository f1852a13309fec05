"""Tendons across a joint between two rods: straight from the last place in one to the first in the next.

Of a joint of one degree of freedom x, with the places at a and at E(x) b in axes of the joint, E a turn about its axis
or a shift along it, the square of the length is

    l^2 = |E b - a|^2 = c0 + c1 cos x + c2 sin x   or   c0 + c1 x + c2 x^2

and a tension u adds u l' to the residual, and its derivatives.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from dynamics.rods.loads.lines import Line
from dynamics.rods.model.arrays import FIRST, ROD, SCREW, SECOND
from dynamics.rods.model.rod_model import RodModel
from dynamics.simd import align_stack, helper, kernel, load, sincos, sqrt, store

MEETING, ROUNDING = 1e-9, 1e-12
"""Of the places' distances to the joint: a distance between them, and of the squares: a change, that count as zero."""


# ------------------------------------------------------------------------------------------------ kernels
class SpanArrays(NamedTuple):
    """G spans."""

    control: np.ndarray  # (G,)
    coordinate: np.ndarray  # (G,) of the joint
    turns: np.ndarray  # (G,) 1 of a joint that turns, 0 of one that slides
    square: np.ndarray  # (G, 3) c0, c1, c2


@helper
def _derivatives(turns, c0, c1, c2, x):
    """l', l'', l''' at x."""
    if turns == 1:
        sine, cosine = sincos(x)
        swing = c1 * cosine + c2 * sine
        g, g1 = swing + c0, c2 * cosine - c1 * sine
        g2, g3 = -swing, -g1
    else:
        g, g1 = (c2 * x + c1) * x + c0, 2.0 * c2 * x + c1
        g2, g3 = 0.0 * x + 2.0 * c2, 0.0 * x
    over = 1.0 / sqrt(g + 1e-200)  # finite also where the places meet
    first = 0.5 * g1 * over
    second = (0.5 * g2 - first * first) * over
    return first, second, (0.5 * g3 - 3.0 * first * second) * over


@helper
def _add(x, o, y):
    store(x, o, load(x, o) + y)


@kernel
def add_spans(e, level, n, nu, state, r, dq, Hqq, B, Hqu):
    """Add what spans contribute, as `add_tendons`."""
    align_stack(state)
    for k in range(e.control.size):
        i, c = e.coordinate[k], e.control[k]
        u = load(state, 4 * n + c)
        first, second, third = _derivatives(
            e.turns[k], e.square[k, 0], e.square[k, 1], e.square[k, 2], load(state, i)
        )  # fmt: skip
        _add(r, i, u * first)
        if level >= FIRST:
            _add(B, i * nu + c, -first)
            _add(dq, i * n + i, u * second)
        if level >= SECOND:
            w = load(state, 3 * n + i)
            _add(Hqu, i * nu + c, w * second)
            _add(Hqq, i * n + i, u * w * third)


# ------------------------------------------------------------------------------------------------ from a model
Span = tuple[int, int, bool, tuple[float, float, float]]


def span_arrays(spans: Sequence[Span]) -> SpanArrays:
    """Control, coordinate, whether the joint turns, and c, of each span."""
    control, coordinate, turns, square = zip(*spans, strict=True) if spans else ((), (), (), ())
    figures = np.array(square, float).reshape(-1, 3)
    return SpanArrays(np.array(control, np.int64), np.array(coordinate, np.int64), np.array(turns, np.int64), figures)


def spans_of(model: RodModel, line: Line, control: int, pieces: Mapping[str, np.ndarray]) -> list[Span]:
    """The spans of a line with these routes (P, .) in its rods.

    Raises: ValueError for rods that do not follow each other, and a joint that the line cannot cross.
    """
    m, spans = model.arrays, []
    for before, rod in zip(line.rods[:-1], line.rods[1:], strict=True):
        between = _between(model, line, before, rod)
        joints = [k for k in between if m.rows[k, 0] < m.rows[k, 6]]
        if not joints:
            continue
        first = m.rows[joints, 0]
        of_links = model.joint_coordinates.items()
        names = [name for name, own in of_links if ((own.start <= first) & (first < own.stop)).any()]
        came = ", ".join(map(repr, names))
        label = f"{line.label('rod')}joints between {before!r} and {rod!r}: got {came}, expected "
        if not line.crosses_joints:
            raise ValueError(f"{label}none: only tendons cross joints")
        if len(joints) > 1 or m.kind[joints[0]] != SCREW:
            raise ValueError(f"{label}at most one, of one degree of freedom")
        if m.step[joints[0], 1] != 0.0:
            raise ValueError(f"{label}none that turns and shifts at once")
        ends = np.insert(pieces[before][-1, :2], 0, 0.0), np.insert(pieces[rod][0, :2], 0, 0.0)
        a, b = _at_joint(model, [*between, model.rods[rod].segments.start], joints[0], *ends)
        component = int(np.argmax(np.diff(m.rows[joints[0]])))
        square = _square(component, a, b)
        moves = component >= 3 or abs(square[1]) + abs(square[2]) > ROUNDING * (a @ a + b @ b)
        if moves and np.linalg.norm(b - a) <= MEETING * (np.linalg.norm(a) + np.linalg.norm(b)):
            raise ValueError(f"{label}one whose sides are apart: {line.label()}its places on both sides meet at q = 0")
        if moves:
            spans.append((control, int(m.rows[joints[0], 0]), component < 3, square))
    return spans


def _between(model: RodModel, line: Line, before: str, rod: str) -> list[int]:
    """Segments between the tip of one rod and the start of the next, from the tip on."""
    m, found = model.arrays, []
    k = int(m.parent[model.rods[rod].segments.start])
    while k >= 0 and m.kind[k] != ROD:
        found.insert(0, k)
        k = int(m.parent[k])
    if k != model.link_segments[before]:
        raise ValueError(f"{line.label('rod')}{rod!r} is not carried by the tip of {before!r}, as expected")
    return found


def _at_joint(
    model: RodModel, chain: Sequence[int], joint: int, a: np.ndarray, b: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Both places in axes of the joint, b at x = 0: a from the frame before the chain, b from that where its last
    segment starts."""
    m, at = model.arrays, list(chain).index(joint)
    for k in chain[: at + 1]:
        a = _back(m.before[k], a)
        if k != joint:
            a = _back(m.after[k], a)
    for k in chain[:at:-1]:
        if k != chain[-1]:
            b = _moved(m.after[k], b)
        b = _moved(m.before[k], b)
    return a, _moved(m.after[joint], b)


def _moved(placement: np.ndarray, x: np.ndarray) -> np.ndarray:
    return placement[:9].reshape(3, 3) @ x + placement[9:]


def _back(placement: np.ndarray, x: np.ndarray) -> np.ndarray:
    return placement[:9].reshape(3, 3).T @ (x - placement[9:])


def _square(component: int, a: np.ndarray, b: np.ndarray) -> tuple[float, float, float]:
    """c0, c1, c2 of a joint that moves this component."""
    axis = np.eye(3)[component % 3]
    if component >= 3:
        return float((b - a) @ (b - a)), float(2.0 * axis @ (b - a)), 1.0
    across = b - axis * (axis @ b)
    c1, c2 = -2.0 * float(a @ across), -2.0 * float(a @ np.cross(axis, across))
    return float(a @ a + b @ b - 2.0 * (axis @ a) * (axis @ b)), c1, c2
