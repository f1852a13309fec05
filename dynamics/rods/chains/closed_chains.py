"""Closed chains of a model at a configuration: gaps of the chains, and configurations that close them.

Gauss-Newton steps on e(q) = 0 change the elastic energy least.  At singular shapes they make no progress: a straight
rope that is too long for its span does not grow shorter to first order, whichever way it bends.  There phi = |e|^2 / 2
is minimized along its curvature, in the same units x, q = W^-1/2 x,

    g = W^-1/2 A'e        H = W^-1/2 (A'A + sum_i e_i d2e_i/dq2) W^-1/2        min g'p + p'Hp/2,  |p| <= radius

with the exact second derivatives: column j of sum_i e_i d2e_i/dq2 is e'dA/dt for a velocity along q_j alone.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from dynamics.rods.chains.trust_region import trust_region_step
from dynamics.rods.kinematics.rotations import check_turns
from dynamics.rods.model.arrays import END, FIRST, FORCES, MASS_MATRIX, SEGMENT, closure_size, input_size
from dynamics.rods.model.rod_model import RodModel, coordinate_scales
from dynamics.rods.recursion.blocks import BLOCKS
from dynamics.rods.recursion.evaluation import inverse_dynamics_kernel, work_size
from dynamics.simd import by_reference, routine, span
from dynamics.validation import as_array, as_items, as_kind, as_positive, as_whole_number, look_up

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
def _evaluate(m, external, closures, level, state, wrenches, work_size, closed_size):
    m, external, closures = by_reference(m), by_reference(external), by_reference(closures)
    n = m.counts[0]
    work, tau, A, closed = np.empty(work_size), np.empty(n), np.empty(BLOCKS * n * n), np.empty(closed_size)
    results = span(work), span(tau), span(A), span(closed)
    inverse_dynamics_kernel(m, external, closures, level, span(state), span(wrenches), *results)
    return work, closed, tau, A  # all of them, so that they are not freed before the kernel runs


def evaluate_chains(
    model: RodModel, level: int, q: np.ndarray, v: np.ndarray | None = None
) -> tuple[np.ndarray, ChainValues]:
    """The workspace of the kernel, which begins with the segments, and ChainValues, at q, v (n,) without
    acceleration."""
    n, G = model.nq, model.constraint_count
    state, wrenches = np.zeros(4 * n), np.zeros(model.input_count + input_size(model.closures))
    state[:n] = q
    if v is not None:
        state[n : 2 * n] = v
    work, closed, _, _ = _evaluate(
        model.arrays, model.external, model.closures, level, state, wrenches, work_size(model),
        closure_size(model.closures, n),
    )  # fmt: skip
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
