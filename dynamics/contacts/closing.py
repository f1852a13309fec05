"""Configurations at which loop closures and joint couplings are satisfied."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import ArrayLike

from dynamics.algorithms.configuration import integrate
from dynamics.algorithms.frames import frame_placement
from dynamics.contacts.contact_set import ContactSet, of_system
from dynamics.contacts.loop_constraint import JointCoupling, LoopConstraint, pair_motion
from dynamics.model.model import RigidBodyModel, check_configuration, check_model
from dynamics.validation import as_array, as_items, unknown_name

CLOSED = 1e-10
"""Gap below which a loop counts as closed, m, or a coupling as satisfied, in the unit of its sum."""
ROUNDED, SMALL = 1e-5, 1e-12
"""Largest gap accepted where Gauss-Newton steps are shorter than `SMALL`: that of parameters which are rounded."""
DEPENDENT = 1e-5
"""Singular values of the Jacobian below this times the largest count as zero."""
ITERATIONS = 100


def in_world_axes(contacts: ContactSet, q: np.ndarray, *vectors: np.ndarray) -> list[np.ndarray]:
    """Forces or moments (K, C, 3) of a `world_aligned` set, those of hinges and welds rotated to world axes as well."""
    turned = [i for i in contacts.loops if contacts.contacts[i].kind != "ball"]
    found = [vector.copy() if turned else vector for vector in vectors]
    for i in turned:
        R = frame_placement(contacts.model, q, contacts.contacts[i].frame2).R
        for vector in found:
            vector[:, i] = np.einsum("kij,kj->ki", R, vector[:, i])
    return found


def _gap_and_jacobian(
    model: RigidBodyModel, q: np.ndarray, held: LoopConstraint | JointCoupling
) -> tuple[np.ndarray, np.ndarray]:
    """Constraint error (rows,) of a loop or coupling at q (nq,), and its Jacobian (rows, nv)."""
    if isinstance(held, JointCoupling):
        return held.gap(q[None]), held.row
    motion = pair_motion(model, q[None], held.frames, held.offsets)
    return motion.apart.ravel(), motion.J.reshape(-1, model.nv)


def close_loops(
    model: RigidBodyModel,
    q: ArrayLike,
    loops: Sequence[LoopConstraint | JointCoupling] | None = None,
    fixed: Iterable[str] = (),
) -> np.ndarray:
    """The configuration near q at which loops are closed and couplings kept, by Gauss-Newton steps of least length.

    Parameters
    ----------
    model : RigidBodyModel
    q : (nq,), where to begin
    loops : sequence of `LoopConstraint` and `JointCoupling`; by default all that the model has
    fixed : names of joints that stay where they are

    Returns
    -------
    q : (nq,), with all gaps below 1e-10 m, or the least ones, below 1e-5 m, of chains that close but for rounding; axes
        of hinges and frames of welds point the same way; sums of couplings differ from their offsets by no more

    Raises
    ------
    ValueError : loops that do not close from q, with the gap that is left; one of another model; unknown joints;
        a wrong shape.
    TypeError : an entry of `loops` that is no loop or coupling.
    """
    check_model(model)
    held = as_items("loops", of_system(model, []).contacts if loops is None else loops, "LoopConstraints")
    for i, loop in enumerate(held):
        if not isinstance(loop, (LoopConstraint, JointCoupling)):
            raise TypeError(f"loops[{i}]: got {type(loop).__name__}, expected a LoopConstraint or JointCoupling")
        if loop.model != model:
            raise ValueError(f"loops[{i}]: {loop.frame!r} belongs to another model")
    fixed, free = as_items("fixed", fixed, "names of joints"), np.ones(model.nv, dtype=bool)
    for name in fixed:
        if name not in model.joint_names:
            raise unknown_name("fixed", name, model.joint_names)
        i = model.joint_index(name)
        free[model.v_index[i] : model.v_index[i] + model.joint_nv[i]] = False
    q = as_array("q", q, (model.nq,), copy=True)
    check_configuration(model, q)
    gap, gaps = np.inf, [np.inf]
    for _ in range(ITERATIONS):
        found = [_gap_and_jacobian(model, q, loop) for loop in held]
        gaps = [float(np.abs(e).max()) for e, _ in found]
        gap = max(gaps, default=0.0)
        if gap < CLOSED:
            return q
        e = np.concatenate([e for e, _ in found])
        J = np.concatenate([J for _, J in found])[:, free]
        dq = np.zeros(model.nv)
        dq[free] = -np.linalg.lstsq(J, e, rcond=DEPENDENT)[0]
        longest = float(np.abs(dq).max())
        if longest < SMALL:
            break
        q = integrate(model, q, dq * min(1.0, 0.5 / longest))
    if gap < ROUNDED:
        return q
    unit = "m" if isinstance(held[int(np.argmax(gaps))], LoopConstraint) else "in the sum of a coupling"
    raise ValueError(
        f"loops: {', '.join(repr(loop.frame) for loop in held)} do not close from this q with fixed={fixed!r}: "
        f"a gap of {gap:.3g} {unit} is left"
    )
