"""Closing the chains of a model: the independent constraints of its closed joints, and their reactions."""

from dataclasses import replace

import numpy as np

from dynamics.model.joints import Continuous, Fixed, Revolute, Spherical
from dynamics.rods.chains.closed_chains import OPEN, evaluate_chains, rotation
from dynamics.rods.loads.external_loads import LoadList
from dynamics.rods.model.arrays import FORCES, MASS_MATRIX, ORIENTATION, POSITION, WRENCH, ClosureArrays
from dynamics.rods.model.rod_model import RodModel, coordinate_scales
from dynamics.rods.model.segment_list import Closure

VANISHING, DEPENDENT = 1e-9, 1e-8
"""Largest entry of a row relative to that of rows of its kind, and singular value relative to the largest, below which
rows count as zero and as dependent."""
SAMPLES = 3
_OF_AXIS = (2, 0), (2, 1)
ORIENTATIONS = {Spherical: (), Revolute: _OF_AXIS, Continuous: _OF_AXIS, Fixed: ((0, 1), (1, 2), (2, 0))}
"""Pairs of axes of A and B that a joint keeps perpendicular; the axis of a revolute joint is z."""


def closed(model: RodModel, joints: list[Closure], loads: LoadList) -> RodModel:
    """The model with its chains closed by these joints.

    Constraints that vanish at all sampled configurations, such as those out of the plane of a planar mechanism, are
    dropped.

    Raises
    ------
    ValueError : a joint without constraints, or with constraints that depend on its own or those of the joints before.
    """
    if not joints:
        return model
    reactions = [
        (joint.segments[side], WRENCH, np.array([model.wrench_count + 2 * c + side, *joint.placements[side][1], 1.0]))
        for c, joint in enumerate(joints)
        for side in range(2)
        if joint.segments[side] >= 0
    ]
    held = replace(loads, entries=[*loads.entries, *reactions]).arrays(model.arrays)
    model = replace(model, closed_joints=tuple(joints), reaction_loads=held)
    rows = [_rows(model, joint) for joint in joints]
    whole = replace(model, closures=_arrays(model, joints, rows))
    sizes, kept = _independent(whole, joints)
    starts = whole.closures.row_start
    rows = [[row for i, row in enumerate(own) if kept[starts[c] + i]] for c, own in enumerate(rows)]
    return replace(model, closures=_arrays(model, joints, rows), constraint_sizes=sizes[kept])


def _rows(model: RodModel, joint: Closure) -> list[tuple[int, np.ndarray, np.ndarray]]:
    """Kind, a and b of each constraint; positions are compared along the axes that side B has at q = 0."""
    A, B = joint.frames
    rows = [(POSITION, axis, np.zeros(3)) for axis in (_rotation_at_rest(model, joint.segments[1]) @ B).T]
    return rows + [(ORIENTATION, A[:, i], B[:, j]) for i, j in ORIENTATIONS[type(joint.joint)]]


def _rotation_at_rest(model: RodModel, segment: int) -> np.ndarray:
    work, _ = evaluate_chains(model, FORCES, np.zeros(model.nq))
    return rotation(work, segment)


def _arrays(model: RodModel, joints: list[Closure], rows) -> ClosureArrays:
    m = model.arrays
    paths = [
        sorted({int(j) for s in joint.segments if s >= 0 for j in m.path[m.path_start[s] : m.path_start[s + 1]]})
        for joint in joints
    ]
    flat = [row for own in rows for row in own]
    return ClosureArrays(
        np.array([joint.segments for joint in joints], np.int64),
        np.array([[p for _, p in joint.placements] for joint in joints]), _starts(rows),
        np.array([kind for kind, _, _ in flat], np.int64), np.array([a for _, a, _ in flat]).reshape(-1, 3),
        np.array([b for _, _, b in flat]).reshape(-1, 3), _starts(paths),
        np.array([j for path in paths for j in path], np.int64), np.array([model.wrench_count], np.int64),
    )  # fmt: skip


def _starts(lists) -> np.ndarray:
    return np.concatenate([[0], np.cumsum([len(own) for own in lists])]).astype(np.int64)


def _independent(model: RodModel, joints: list[Closure]) -> tuple[np.ndarray, np.ndarray]:
    """Sizes of rows for moderate coordinates, and which rows do not vanish; ValueError where these are dependent."""
    rng, scales, k = np.random.default_rng(0), coordinate_scales(model), model.closures
    samples = [scales * rng.uniform(-1.0, 1.0, model.nq) for _ in range(SAMPLES)]
    A = np.array([evaluate_chains(model, MASS_MATRIX, q)[1].A * scales for q in samples])
    sizes = np.abs(A).max(axis=(0, 2))
    largest = np.array([sizes[k.kind == kind].max(initial=0.0) for kind in k.kind])
    kept = sizes > VANISHING * np.maximum(largest, VANISHING)
    for c, joint in enumerate(joints):
        own = np.flatnonzero(kept[: k.row_start[c + 1]])
        if not kept[k.row_start[c] : k.row_start[c + 1]].any():
            raise ValueError(f"closure {joint.name!r}: constrains nothing, expected links that move against each other")
        rank = max(_rank(sample[own] / sizes[own, None]) for sample in A)
        if rank < len(own):
            raise ValueError(
                f"closure {joint.name!r}: the {len(own)} constraints up to it have rank {rank}, expected {len(own)}; "
                "a joint that leaves more freedom has fewer"
            )
    return sizes, kept


def _rank(A: np.ndarray) -> int:
    values = np.linalg.svd(A, compute_uv=False)
    return int((values > DEPENDENT * values[0]).sum())


def check_independence(model: RodModel, qs: np.ndarray, argument: str, free: np.ndarray | slice = slice(None)) -> None:
    """ValueError where the constraints are dependent at one of the configurations qs (K, n).

    There, as where bars are in line, neither forces in the closed joints nor accelerations are determined.  `free` are
    the coordinates (F,) that may move, by default all.
    """
    if not model.constraint_count:
        return
    scales, G = coordinate_scales(model), model.constraint_count
    for k, q in enumerate(qs):
        chains = evaluate_chains(model, MASS_MATRIX, q)[1]
        A = (chains.A * scales / model.constraint_sizes[:, None])[:, free]
        values = np.linalg.svd(A, compute_uv=False) if np.isfinite(A).all() else np.ones(G)
        rank = int((values > DEPENDENT * values.max(initial=1.0)).sum())
        if rank < G:
            where = f"{argument}[{k}]" if len(qs) > 1 else argument
            raise ValueError(
                f"{where}: the {G} constraints of closed chains have rank {rank} here, expected {G}; fewer "
                f"determine no accelerations; {_way_out(model, chains.e)}"
            )


def check_closed(
    model: RodModel, q: np.ndarray, v: np.ndarray, arguments: tuple[str, str], free: np.ndarray | slice = slice(None)
) -> None:
    """ValueError, naming the argument, where chains are open at q (n,), about to open by v (n,), or singular."""
    if not model.constraint_count:
        return
    _, chains = evaluate_chains(model, FORCES, q, v)
    for name, values, what, hint in (
        (arguments[0], chains.e, "open by", "`assemble` finds coordinates that close them"),
        (arguments[1], chains.rate, "opening at the rate", "velocities have to keep them closed"),
    ):
        gap = np.abs(values).max()
        if gap > OPEN:
            raise ValueError(f"{name}: the chains are {what} {gap:.3g}, expected at most {OPEN}; {hint}")
    check_independence(model, q[None], arguments[0], free)


def _way_out(model: RodModel, e: np.ndarray) -> str:
    """Advice for an error where chains open by e (G,) are singular."""
    gaps = [float(np.abs(own).max()) for own in np.split(e, model.closures.row_start[1:-1])]
    widest = int(np.argmax(gaps))
    if gaps[widest] <= OPEN:
        return "the chains are closed: choose another configuration, perhaps one close by"
    name = model.closure_names[widest]
    return f"closure {name!r} is open by {gaps[widest]:.3g}: `assemble` finds coordinates that close the chains"

