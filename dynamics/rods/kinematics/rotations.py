"""Rotation of segments from start to end, and checks that no rod or joint rotates further than kernels can compute.

The series of `exponential` hold for |w| <= 2 pi, where w is a joint's rotation vector, or that of a Magnus step of a
rod from one node to the next.  A rod that bends or twists more needs more points.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from dynamics.rods.kinematics.exponential import FARTHEST
from dynamics.rods.model.arrays import ROD, SCREW, RodArrays
from dynamics.rods.model.rod_model import Rod, RodModel, turning_segments

MOST_POINTS = 1000
"""Largest number of points of a rod that is tried."""
NEAR = 0.8
"""Share of the largest rotation above which it is named as a possible cause of a method's failure."""


# ------------------------------------------------------------------------------------------------ displacements
def displacement(m: RodArrays, s: int, qs: np.ndarray) -> np.ndarray:
    """Displacements Omega (K, 6) of a segment."""
    rows, first = m.rows[s], m.first_mode[s]
    xi = np.empty((2, len(qs), 6))
    for r in range(6):
        modes = m.modes[first + rows[r] - rows[0] : first + rows[r + 1] - rows[0]]
        xi[:, :, r] = m.reference[s, r::6, None] + (qs[:, rows[r] : rows[r + 1]] @ modes).T
    if m.kind[s] == ROD:
        return magnus(m.step[s, 0], xi[0], xi[1])
    if m.kind[s] == SCREW:
        xi[0, :, 3:] += m.step[s, 1] * xi[0, :, :3]
    return xi[0]


def magnus(h: ArrayLike, first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """h/2 (xi_1 + xi_2) + sqrt(3) h^2 / 12 ad(xi_1) xi_2 (..., 6) for lengths h (...)                  [GVS, C1]."""
    h = np.asarray(h, float)[..., None]
    (k1, e1), (k2, e2) = np.split(first, 2, axis=-1), np.split(second, 2, axis=-1)
    bracket = np.concatenate([np.cross(k1, k2), np.cross(e1, k2) + np.cross(k1, e2)], axis=-1)
    return 0.5 * h * (first + second) + np.sqrt(3.0) / 12.0 * h * h * bracket


def strains_along(rod: Rod, qs: np.ndarray, s: np.ndarray) -> np.ndarray:
    """Strains xi (K, P, 6) at s (P,)."""
    Phi, x = rod.basis.values(s), qs[:, rod.coordinates]
    of_components = [x[:, a:b] @ Phi[:, a:b].T for a, b in zip(rod.basis.rows[:-1], rod.basis.rows[1:], strict=True)]
    return rod.reference_strains(s) + np.stack(of_components, axis=-1)


# ------------------------------------------------------------------------------------------------ turns
@np.errstate(over="ignore", invalid="ignore")
def _largest_turns(model: RodModel, qs: np.ndarray) -> dict[str, float]:
    """Largest rotation |w| over q (K, n) of every rod, by name, and of every joint that rotates about any axis, by the
    words "the joint of ..."; infinite where numbers overflow."""
    m, turns = model.arrays, {}
    for name, rod in model.rods.items():
        steps = [displacement(m, s, qs)[:, :3] for s in range(rod.segments.start, rod.segments.stop)]
        turns[name] = float(np.linalg.norm(steps, axis=-1).max())
    of_coordinate = {k: name for name, own in model.joint_coordinates.items() for k in range(own.start, own.stop)}
    for s in turning_segments(model):
        angles = np.linalg.norm(qs[:, m.rows[s, 0] : m.rows[s, 3]], axis=1)
        turns[f"the joint of {of_coordinate[m.rows[s, 0]]!r}"] = float(angles.max())
    return {what: turn if np.isfinite(turn) else np.inf for what, turn in turns.items()}


def _points_needed(rod: Rod, qs: np.ndarray, turn: float) -> int | None:
    """Least number of points with which no step of the rod rotates by more than FARTHEST; None if it exceeds
    MOST_POINTS."""
    now = int(np.count_nonzero(rod.weights))
    for points in range(max(now + 1, int(min(0.5 * now * turn / FARTHEST, MOST_POINTS))), MOST_POINTS):
        X = 0.5 * rod.length * (np.polynomial.legendre.leggauss(points)[0] + 1.0)
        nodes = np.concatenate([[0.0], X, [rod.length]])
        h, middle = np.diff(nodes), 0.5 * (nodes[1:] + nodes[:-1])
        places = [(middle + sign * np.sqrt(3.0) / 6.0 * h) / rod.length for sign in (-1.0, 1.0)]
        steps = magnus(h, *(strains_along(rod, qs, s) for s in places))
        if np.linalg.norm(steps[..., :3], axis=-1).max() <= FARTHEST:
            return points
    return None


def _place(model: RodModel, what: str) -> str:
    return f"rod {what!r} from one of its points to the next" if what in model.rods else what


def check_turns(model: RodModel, qs: np.ndarray, argument: str) -> None:
    """ValueError, naming the argument, where at q (n,) or (K, n) a rod rotates by more than 2 pi between neighbouring
    nodes (with the number of points it needs), or a joint about any axis does."""
    qs = np.atleast_2d(qs)
    for what, turn in _largest_turns(model, qs).items():
        if turn > FARTHEST:
            advice = ""
            if what in model.rods:
                needed = _points_needed(model.rods[what], qs, turn)
                advice = f", as with {f'at least {MOST_POINTS} points' if needed is None else f'points={needed}'}"
            place = _place(model, what)
            raise ValueError(f"{argument}: got {turn:.4g} rad of rotation of {place}, expected at most 2 pi{advice}")


def turned_far(model: RodModel, q: np.ndarray) -> str:
    """Words to append to the message of a method that fails at q (n,): the rod or joint whose rotation is near the
    largest one; empty if there is none."""
    turns = _largest_turns(model, q[None]) if np.isfinite(q).all() else {}
    what, turn = max(turns.items(), key=lambda item: item[1], default=("", 0.0))
    if turn <= NEAR * FARTHEST:
        return ""
    return f"; {_place(model, what)} turns by {turn:.4g} rad, of 2 pi at most"
