"""Closed chains of a model: configurations that close them, independent constraints of their joints, reactions."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq

from dynamics.model.joints import Continuous, Fixed, Revolute, Spherical
from dynamics.rods.algorithms.backward_pass import BLOCKS
from dynamics.rods.algorithms.inverse_dynamics import inverse_dynamics_kernel, workspace_size
from dynamics.rods.kinematics.center_lines import check_turns
from dynamics.rods.loads.external_loads import LoadList
from dynamics.rods.model.arrays import (
    END,
    FIRST,
    FORCES,
    MASS_MATRIX,
    ORIENTATION,
    POSITION,
    SEGMENT,
    WRENCH,
    ClosureArrays,
    closure_size,
    input_size,
    slice_closures,
)
from dynamics.rods.model.rod_model import RodModel, coordinate_scales
from dynamics.rods.model.segment_list import Closure
from dynamics.simd import by_reference, routine, span
from dynamics.validation import as_array, as_items, as_kind, as_positive, as_whole_number, look_up

# --------------------------------------------------------------------------------------------
# The minimum of a quadratic model within a radius, also where the model has directions of negative curvature.

ROUNDING = 1e-12
"""Eigenvalue that counts as zero, relative to the largest."""
NUDGE = 1e-6
"""Least component of the gradient along a direction of negative curvature, relative to the force at the radius."""


def trust_region_step(g: np.ndarray, H: np.ndarray, radius: float) -> tuple[np.ndarray, float]:
    """The step p (n,) that minimizes g'p + p'Hp/2 within |p| <= radius, and that value, which is never positive.

    (H + mu 1) p = -g with mu >= max(0, - least eigenvalue of H), found from the eigenvalues of H [Nocedal, Wright
    2006, section 4.3]; where g has no component along a direction of negative curvature, a small one is added.
    """
    w, V = np.linalg.eigh(0.5 * (H + H.T))
    least = w[0]
    given = V.T @ g
    if least < -ROUNDING * np.abs(w).max():
        along = np.sign(V[np.argmax(np.abs(V[:, 0])), 0])
        least_force = NUDGE * -least * radius
        if abs(given[0]) < least_force:
            given[0] = -along * least_force
    elif (p := -given / np.maximum(w, ROUNDING * max(np.abs(w).max(), np.abs(given).max()) or 1.0)) @ p <= radius**2:
        return V @ p, float(given @ p + 0.5 * p @ (w * p))

    def excess(shift: float) -> float:
        return float(np.linalg.norm(given / (w - least + shift))) - radius

    low = max(abs(given[0]) / (2.0 * radius), least, np.finfo(float).tiny)
    high = float(np.linalg.norm(given)) / radius + max(least, 0.0)
    shift = brentq(excess, low, high, rtol=1e-10) if excess(low) > 0.0 > excess(high) else high
    p = -given / (w - least + shift)
    return V @ p, float(given @ p + 0.5 * p @ (w * p))


# --------------------------------------------------------------------------------------------
# Closed chains of a model at a configuration: gaps of the chains, and configurations that close them.
#
# Gauss-Newton steps on e(q) = 0 change the elastic energy least.  At singular shapes they make no progress: a straight
# rope that is too long for its span does not grow shorter to first order, whichever way it bends.  There |e|^2 / 2 is
# minimized along its curvature, in the same units x, q = W^-1/2 x,
#
#     g = W^-1/2 A'e        H = W^-1/2 (A'A + sum_i e_i d2e_i/dq2) W^-1/2        min g'p + p'Hp/2,  |p| <= radius
#
# with the exact second derivatives: column j of sum_i e_i d2e_i/dq2 is e'dA/dt for a velocity along q_j alone.

OPEN = 1e-6
"""Size of e and e' at the start of a motion, m and m/s or cosines and their rates, above which chains count as open."""
SHORTEST = 1e-4
"""Least length of a step of `assemble`; if it does not decrease the error, none does."""
LEAST_SHARE, LEAST_RADIUS = 0.1, 1e-6
"""Least share of the decrease predicted by the curvature that a step must give, and least radius, relative to a
moderate change."""


class ChainValues(NamedTuple):
    """e, its first two time derivatives (G,), the Jacobian A (G, n), zero at level FORCES, and dA/dt (G, n), zero at
    levels below FIRST."""

    e: np.ndarray
    rate: np.ndarray
    rate_2: np.ndarray
    A: np.ndarray
    A_rate: np.ndarray


class Assembly(NamedTuple):
    """Coordinates q (n,), True if the chains are closed there, the number of steps, the largest |e_i| at q, and names
    of joints that are closed reversed by half a turn, where e vanishes as well."""

    q: np.ndarray
    converged: bool
    iterations: int
    error: float
    reversed_joints: tuple[str, ...]


@routine
def _evaluate(m, external, closures, level, state, wrenches, work, tau, A, closed):
    m, external, closures = by_reference(m), by_reference(external), by_reference(closures)
    results = span(work), span(tau), span(A), slice_closures(m, closures, span(closed))[0]
    inverse_dynamics_kernel(m, external, closures, level, span(state), span(wrenches), *results, span(closed[:0]))


def evaluate_chains(
    model: RodModel, level: int, q: np.ndarray, v: np.ndarray | None = None
) -> tuple[np.ndarray, ChainValues]:
    """The workspace of the kernel, which begins with the segments, and ChainValues, at q, v (n,) without
    acceleration."""
    n, G = model.nq, model.constraint_count
    m, closures = model.arrays, model.closures
    state, wrenches = np.zeros(4 * n), np.zeros(model.input_count + input_size(closures))
    state[:n] = q
    if v is not None:
        state[n : 2 * n] = v
    sizes = workspace_size(m, model.external, closures), n, BLOCKS * n * n, closure_size(m, closures)
    work, tau, blocks, closed = (np.empty(size) for size in sizes)
    _evaluate(m, model.external, closures, level, state, wrenches, work, tau, blocks, closed)
    e, rate, rate_2 = closed[: 3 * G].reshape(3, G)
    A, A_rate = closed[3 * G : (3 + 2 * n) * G].reshape(2, G, n)
    return work, ChainValues(e, rate, rate_2, A, A_rate)


def rotation(work: np.ndarray, segment: int) -> np.ndarray:
    """Axes (3, 3) of a segment's end, or of the world for -1, from that workspace."""
    return np.eye(3) if segment < 0 else work[segment * SEGMENT + END :][:9].reshape(3, 3)


# ------------------------------------------------------------------------------------------------ public
def closure_error(model: RodModel, q: ArrayLike) -> np.ndarray:
    """Gaps of the chains at q (n,): e (G,), distances in m, then cosines of angles that are right if closed.

    Rows are those of the closed joints in order, without those that vanish at all configurations.
    Raises: ValueError for a wrong shape or a number that is not finite; so do the functions below.
    """
    return evaluate_chains(model, FORCES, _configuration(model, q))[1].e


def closure_jacobian(model: RodModel, q: ArrayLike) -> np.ndarray:
    """A = de/dq (G, n) at q (n,); generalised forces of multipliers are A'lambda."""
    return evaluate_chains(model, MASS_MATRIX, _configuration(model, q))[1].A


def _configuration(model: RodModel, q: ArrayLike) -> np.ndarray:
    q = as_array("q", q, (as_kind("model", model, RodModel).nq,))
    check_turns(model, q, "q")
    return q


def assemble(
    model: RodModel,
    q0: ArrayLike | None = None,
    fixed: tuple[str, ...] = (),
    tolerance: float = 1e-12,
    max_iterations: int = 100,
) -> Assembly:
    """Coordinates near q0 that close the chains, by Gauss-Newton steps that change the elastic energy least.

        dq = - W^-1 A' (A W^-1 A')^+ e,      W = K + a little of its mean diagonal

    halved until they decrease e.  Where none does, as from a straight rope that is to sag between two pins, a step goes
    along the curvature of |e|^2, with the sign for which its largest component, in units of the elastic energy, is
    positive.

    Parameters
    ----------
    q0 : (n,) start; by default zero
    fixed : names of links whose joint keeps its coordinates
    tolerance : largest |e_i|, m or cosines, of closed chains
    max_iterations : number of steps at most

    Returns
    -------
    Assembly(q, converged, iterations, error, reversed_joints).  Where it did not converge, for example if chains cannot
    be closed, q is the best point so far.

    Raises
    ------
    ValueError, TypeError : an invalid argument; the message names it, the value and the expected one.
    """
    as_kind("model", model, RodModel)
    tolerance = as_positive("tolerance", tolerance)
    max_iterations = as_whole_number("max_iterations", max_iterations, 0)
    q = np.zeros(model.nq) if q0 is None else as_array("q0", q0, (model.nq,)).copy()
    check_turns(model, q, "q0")
    for k, link in enumerate(fixed := as_items("fixed", fixed, "names of links")):
        look_up(f"fixed[{k}]: link with a joint", link, model.joint_coordinates)
    return close_chains(model, q, fixed, tolerance, max_iterations)


def close_chains(
    model: RodModel, q: np.ndarray, fixed: tuple[str, ...], tolerance: float, max_iterations: int = 100
) -> Assembly:
    """`assemble` for checked arguments; no steps are made where a rotation of q (n,) is too large."""
    stiffness = np.diag(model.stiffness).copy()
    stiff = stiffness[stiffness > 0.0]
    stiffness += 1e-3 * (np.exp(np.log(stiff).mean()) if len(stiff) else 1.0)
    units = 1.0 / np.sqrt(stiffness)
    for link in fixed:
        units[model.joint_coordinates[link]] = 0.0
    values, count = evaluate_chains(model, MASS_MATRIX, q)[1], 0
    while np.abs(values.e).max(initial=0.0) > tolerance and count < max_iterations:
        step = -units * np.linalg.lstsq(values.A * units, values.e, rcond=1e-12)[0]
        length, error = 1.0, np.linalg.norm(values.e)
        while length > SHORTEST:
            trial = evaluate_chains(model, MASS_MATRIX, q + length * step)[1]
            if np.linalg.norm(trial.e) < (1.0 - 0.1 * length) * error:
                break
            length *= 0.5
        else:
            step, trial = _step_along_curvature(model, q, values, units)
            length = 1.0
            if not step.any():
                break
        q, values, count = q + length * step, trial, count + 1
    error = float(np.abs(values.e).max(initial=0.0))
    wrong = _reversed_joints(model, q) if error <= tolerance else ()
    return Assembly(q, error <= tolerance and not wrong, count, error, wrong)


def _step_along_curvature(
    model: RodModel, q: np.ndarray, values: ChainValues, units: np.ndarray
) -> tuple[np.ndarray, ChainValues]:
    """A step (n,) that decreases |e|^2 where Gauss-Newton steps make no progress, and the values there; zero if there
    is none."""
    free, e = np.flatnonzero(units), values.e
    directions, unit = np.eye(len(q))[free], units[free]
    bent = np.array([e @ evaluate_chains(model, FIRST, q, v)[1].A_rate[:, free] for v in directions])
    A = values.A[:, free] * unit
    g, H = A.T @ e, A.T @ A + bent.reshape(len(free), len(free)) * np.outer(unit, unit)
    moderate = float((coordinate_scales(model)[free] / unit).min(initial=np.inf))
    radius, step = moderate, np.zeros(len(q))
    while len(free) and radius > LEAST_RADIUS * moderate:
        p, promised = trust_region_step(g, H, radius)
        step[free] = unit * p
        trial = evaluate_chains(model, MASS_MATRIX, q + step)[1]
        if trial.e @ trial.e - e @ e < 2.0 * LEAST_SHARE * promised < 0.0:
            return step, trial
        radius *= 0.25
    return np.zeros(len(q)), values


def _reversed_joints(model: RodModel, q: np.ndarray) -> tuple[str, ...]:
    work, _ = evaluate_chains(model, FORCES, q)
    names = []
    for joint in model.closed_joints:
        (a, b), (A, B) = joint.segments, joint.frames
        if joint.reversed((rotation(work, a) @ A, rotation(work, b) @ B)):
            names.append(joint.name)
    return tuple(names)


# --------------------------------------------------------------------------------------------
# Closing the chains of a model: the independent constraints of its closed joints, and their reactions.

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
