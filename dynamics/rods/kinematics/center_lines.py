"""Rotations of segments, positions of links and center lines of soft robots; in numpy, for a batch."""

from __future__ import annotations

from math import factorial
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from dynamics.algorithms.batch import unbatch
from dynamics.rods.kinematics.exponential import FARTHEST
from dynamics.rods.model.arrays import JOINT, ROD, SCREW, RodArrays
from dynamics.rods.model.cross_section import Circular
from dynamics.rods.model.rod_model import Rod, RodModel, turning_segments
from dynamics.validation import as_batch, as_kind, as_whole_number

# --------------------------------------------------------------------------------------------
# Rotation of segments from start to end, and checks that no rod or joint rotates further than kernels can compute.
#
# The series of `exponential` hold for |w| <= 2 pi, where w is a joint's rotation vector, or that of a Magnus step of a
# rod from one node to the next.  A rod that bends or twists more needs more points.

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


# --------------------------------------------------------------------------------------------
# Poses of segments and links, and curves along them.

Pose = tuple[np.ndarray, np.ndarray]
"""Rotations (..., 3, 3) and positions (..., 3)."""
SMALL, TERMS = 0.5, 9
"""Squared angle below which coefficients of the exponential are summed as series, and the number of terms."""


class CenterLine(NamedTuple):
    """Points and radii to draw a link.

    Attributes
    ----------
    points : (P, 3) or (K, P, 3), world axes, m.  For a rod, at equal distances from base to tip; for a body, its
        parent's frame, its joint, its own frame and, if it carries no link, its centre of mass
    radii : (P,) m, half of the smallest width of the rod's sections; zeros for a body
    """

    points: np.ndarray
    radii: np.ndarray


def link_placements(model: RodModel, q: ArrayLike) -> Pose:
    """Frames of all links in the order of `model.link_names`; that of a rod is at its tip.

    Parameters
    ----------
    model : RodModel
    q : (n,) or (K, n)

    Returns
    -------
    R : (L, 3, 3) or (K, L, 3, 3), from link to world;  p : (L, 3) or (K, L, 3), m

    Raises
    ------
    ValueError : a wrong shape, a number that is not finite, a rod that turns by more than 2 pi between two of its
        points; so do the functions below.
    """
    qs, single = _configurations(model, q)
    _, ends = segment_poses(model, qs)
    of_links = [ends[model.link_segments[name]] for name in model.link_names]
    R, p = (np.stack(part, axis=1) for part in zip(*of_links, strict=True))
    R, p = unbatch(single, R, p)
    return R, p


def link_placement(model: RodModel, link: str, q: ArrayLike) -> Pose:
    """R (3, 3) or (K, 3, 3) and p (3,) or (K, 3) of one link's frame; q as above.  ValueError for an unknown link."""
    qs, single = _configurations(model, q)
    segment = model.segment_of(link)
    _, ends = segment_poses(model, qs)
    R, p = unbatch(single, *ends[segment])
    return R, p


def center_lines(model: RodModel, q: ArrayLike, points: int = 20) -> dict[str, CenterLine]:
    """A curve for every link, by name.

    Parameters
    ----------
    model : RodModel
    q : (n,) or (K, n)
    points : number P of points of a rod, at least 2
    """
    qs, single = _configurations(model, q)
    points = as_whole_number("points", points, 2)
    starts, ends = segment_poses(model, qs)
    lines = _all_lines(model, qs, starts, ends, points)
    return {name: CenterLine(unbatch(single, line.points)[0], line.radii) for name, line in lines.items()}


def skeleton(model: RodModel, q: ArrayLike, points: int = 20) -> np.ndarray:
    """Segments (K, S, 2, 3) of all curves, m, in the form that `trajopt.animate` draws.

    Rods are joined to their parent's frame; segments that have no length at any time are left out.  Parameters as
    `center_lines`; for q (n,), K = 1.
    """
    qs, _ = _configurations(model, q)
    points = as_whole_number("points", points, 2)
    starts, ends = segment_poses(model, qs)
    lines = _all_lines(model, qs, starts, ends, points)
    parts = [np.stack([line.points[:, :-1], line.points[:, 1:]], axis=2) for line in lines.values()]
    for rod in model.rods.values():
        first = rod.segments.start
        chain = _joints_before(model, first)
        parent = model.arrays.parent[chain[0]]
        if parent >= 0 and not any(is_loose(model, s) for s in chain):
            parts.append(np.stack([ends[parent][1], starts[first][1]], axis=1)[:, None])
    segments = np.concatenate(parts, axis=1)
    lengths = np.linalg.norm(segments[:, :, 1] - segments[:, :, 0], axis=-1)
    return segments[:, lengths.max(axis=0, initial=0.0) > 1e-9]


def link_and_section_placements(model: RodModel, q: ArrayLike, points: int) -> Pose:
    """Frames of all links, in order, then of P = `points` sections of each rod, at equal distances from base to tip.

    Parameters as `center_lines`; for q (n,), K = 1.  Returns R (K, L + rods P, 3, 3) and p (K, L + rods P, 3), m.
    """
    qs, _ = _configurations(model, q)
    starts, ends = segment_poses(model, qs)
    of_links = [ends[model.link_segments[name]] for name in model.link_names]
    links = [np.stack(part, axis=1) for part in zip(*of_links, strict=True)]
    of_rods = [_section_poses(rod, qs, starts, points) for rod in model.rods.values()]
    R, p = (np.concatenate([links[i], *(pose[i] for pose in of_rods)], axis=1) for i in (0, 1))
    return R, p


def _configurations(model: RodModel, q: ArrayLike) -> tuple[np.ndarray, bool]:
    """q as (K, n), and whether it was a single point."""
    return as_batch("q", q, as_kind("model", model, RodModel).nq)


# ------------------------------------------------------------------------------------------------ curves
def _all_lines(model: RodModel, qs: np.ndarray, starts: list[Pose], ends: list[Pose], points: int):
    """`CenterLine` of every link for a batch."""
    lines = {}
    for name in model.link_names:
        if name in model.rods:
            lines[name] = CenterLine(*_rod_curve(model.rods[name], qs, starts, points))
        else:
            curve = _body_line(model, name, starts, ends)
            lines[name] = CenterLine(curve, np.zeros(curve.shape[1]))
    return lines


def _joints_before(model: RodModel, s: int) -> list[int]:
    """Segments of the joints from the parent to the link of segment s, and s."""
    m, links, chain = model.arrays, set(model.link_segments.values()), [s]
    while (parent := int(m.parent[chain[0]])) >= 0 and m.kind[parent] != ROD and parent not in links:
        chain.insert(0, parent)
    return chain


def is_loose(model: RodModel, s: int) -> bool:
    """True if a joint moves along two or three directions, so that its link has no fixed point to be drawn from."""
    m = model.arrays
    return m.kind[s] == JOINT and m.rows[s, 6] - m.rows[s, 3] > 1


def _rod_curve(rod: Rod, qs: np.ndarray, starts: list[Pose], points: int) -> tuple[np.ndarray, np.ndarray]:
    """Points (K, P, 3) at equal distances, and radii (P,)."""
    section, s = rod.section, np.linspace(0.0, 1.0, points)
    radii = section.radii(s) if isinstance(section, Circular) else 0.5 * np.minimum(*section.sides(s))
    return _section_poses(rod, qs, starts, points)[1], radii


def _section_poses(rod: Rod, qs: np.ndarray, starts: list[Pose], points: int) -> Pose:
    """R (K, P, 3, 3) and p (K, P, 3) of sections at equal distances from base to tip."""
    X = np.linspace(0.0, rod.length, points)
    k = np.clip(np.searchsorted(rod.nodes, X, side="left") - 1, 0, len(rod.nodes) - 2)
    h = X - rod.nodes[k]
    middle, offset = rod.nodes[k] + 0.5 * h, np.sqrt(3.0) / 6.0 * h
    strains = [strains_along(rod, qs, (middle + sign * offset) / rod.length) for sign in (-1.0, 1.0)]
    own = rod.segments.start + k
    before = [np.stack([starts[s][part] for s in own], axis=1) for part in (0, 1)]
    return _composed((before[0], before[1]), _exponential(magnus(h, *strains)))


def _body_line(model: RodModel, name: str, starts: list[Pose], ends: list[Pose]) -> np.ndarray:
    """Points (K, P, 3): the parent's frame, the joint, the body's frame, its centre of mass."""
    m, s = model.arrays, model.link_segments[name]
    R, p = ends[s]
    points = [p]
    chain = _joints_before(model, s)
    if not any(is_loose(model, k) for k in chain):
        points = [starts[k][1] for k in chain] + points
        if m.parent[chain[0]] >= 0:
            points.insert(0, ends[m.parent[chain[0]]][1])
    if m.inertia[s, 0] > 0.0 and not (m.parent == s).any():
        points.append(p + R @ (m.inertia[s, 1:4] / m.inertia[s, 0]))
    return np.stack(points, axis=1)


# ------------------------------------------------------------------------------------------------ segments
@np.errstate(over="ignore", invalid="ignore")
def segment_poses(model: RodModel, qs: np.ndarray) -> tuple[list[Pose], list[Pose]]:
    """Frames at the starts and at the ends of all segments, as in `forward_pass`; ValueError where a rod rotates too
    far."""
    m, starts, ends, of_rods = model.arrays, [], [], []
    base = _fixed(m.base)
    for s, parent in enumerate(m.parent):
        start = _composed(ends[parent] if parent >= 0 else _repeated(base, len(qs)), _fixed(m.before[s]))
        starts.append(start)
        step = displacement(m, s, qs)
        if m.kind[s] == ROD:
            of_rods.append(step[:, :3])
        ends.append(_composed(_composed(start, _exponential(step)), _fixed(m.after[s])))
    if of_rods and not np.linalg.norm(of_rods, axis=-1).max() <= FARTHEST:
        check_turns(model, qs, "q")
    return starts, ends


def _exponential(x: np.ndarray) -> Pose:
    """exp x for twists x = [w; u] (..., 6), of any angle."""
    w, u = x[..., :3], x[..., 3:]
    c1, c2, c3 = (c[..., None, None] for c in _stumpff(np.einsum("...i,...i->...", w, w)))
    W = np.cross(w[..., None, :], np.eye(3)).swapaxes(-1, -2)
    WW = W @ W
    return np.eye(3) + c1 * W + c2 * WW, _turned(np.eye(3) + c2 * W + c3 * WW, u)


def _stumpff(s: np.ndarray) -> list[np.ndarray]:
    """c_k(s) = sum (-s)^j / (2j + k)! for k = 1, 2, 3 and squared angles s."""
    small = s < SMALL
    near, far = np.where(small, s, 0.0), np.where(small, 1.0, s)
    angle = np.sqrt(far)
    sine = np.sin(angle) / angle
    closed = sine, (1.0 - np.cos(angle)) / far, (1.0 - sine) / far
    series = [sum((-near) ** j / factorial(2 * j + k) for j in range(TERMS)) for k in (1, 2, 3)]
    return [np.where(small, x, y) for x, y in zip(series, closed, strict=True)]


def _fixed(numbers: np.ndarray) -> Pose:
    """R and p from twelve numbers."""
    return numbers[:9].reshape(3, 3), numbers[9:]


def _repeated(pose: Pose, K: int) -> Pose:
    return np.broadcast_to(pose[0], (K, 3, 3)), np.broadcast_to(pose[1], (K, 3))


def _composed(a: Pose, b: Pose) -> Pose:
    return a[0] @ b[0], a[1] + _turned(a[0], b[1])


def _turned(R: np.ndarray, x: np.ndarray) -> np.ndarray:
    """R x (..., 3)"""
    return (R @ x[..., None])[..., 0]
