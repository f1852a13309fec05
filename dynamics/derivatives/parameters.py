"""Derivatives of inverse, forward and hybrid dynamics along any scalar parameter p.

For calibration, identification and design: p may move the configuration, the velocity, the given accelerations and
torques, the inertial parameters of the bodies, the placements of the joints and the external wrenches, all at once.
"""

from __future__ import annotations

from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import ArrayLike

from dynamics.algorithms.batch import launch, points, unbatch
from dynamics.algorithms.forward_dynamics import as_choice, completed, given_entries, hybrid_dynamics
from dynamics.algorithms.kinematics import BODY, DOF, FORCES, forward_pass
from dynamics.algorithms.loads import Wrenches, add_loads, gather_loads, loads_numbers
from dynamics.algorithms.mass_matrix import mass_matrix
from dynamics.derivatives.parameter_directions import direction_batch, direction_numbers, gather_direction
from dynamics.derivatives.parameter_recursion import (
    CHANGE,
    carve_hybrid,
    change_of_hybrid_dynamics,
    change_of_inverse_dynamics,
    hybrid_numbers,
)
from dynamics.kernel_model import kernel_model
from dynamics.model import RigidBodyModel, check_model
from dynamics.simd import LANES, carve, driver, gather, gather_state, scatter


@driver
def _drive(first, last, work, block, q, v, a, tau, prescribed, loads, dloads, direction, dtau):
    m = kernel_model(block)
    nb, n = m.parent.size, m.dof_body.size
    for c in range(first, last):
        body, w = carve(work, nb * BODY)
        dof, w = carve(w, n * DOF)
        change, w = carve(w, nb * CHANGE)
        q_, v_, a_, w = gather_state(q, v, a, c * LANES, w)
        dtau_, w = carve(w, n)
        direction_, w = gather_direction(direction, c * LANES, w)
        loads_, w = gather_loads(loads, c * LANES, w)
        dloads_, w = gather_loads(dloads, c * LANES, w)
        if prescribed is None:
            forward_pass(m, q_, v_, a_, body, dof, FORCES)
            if loads is not None:
                add_loads(m, loads_, -1.0, body)
            change_of_inverse_dynamics(m, v_, loads_, dloads_, direction_, body, dof, change, dtau_)
        else:
            h, w = carve_hybrid(m, w)
            gather(tau, c * LANES, h.tau)
            gather(dtau, c * LANES, dtau_)
            change_of_hybrid_dynamics(
                m, q_, v_, a_, prescribed, loads_, dloads_, direction_, dtau_, body, dof, change, h
            )
            scatter(direction_.a, c * LANES, direction.a)
        scatter(dtau_, c * LANES, dtau)


class ParameterDerivatives(NamedTuple):
    """Derivatives of accelerations and torques along p, given and computed; each (nv,) or (K, nv)."""

    a: np.ndarray
    tau: np.ndarray


def parameter_derivatives(
    model: RigidBodyModel,
    q: ArrayLike,
    v: ArrayLike,
    a: ArrayLike | None = None,
    tau: ArrayLike | None = None,
    prescribed: ArrayLike | None = None,
    external_wrenches: Wrenches | None = None,
    wrench_reference: str = "local",
    *,
    dq: ArrayLike | None = None,
    dv: ArrayLike | None = None,
    da: ArrayLike | None = None,
    dtau: ArrayLike | None = None,
    inertial: ArrayLike | None = None,
    placement: ArrayLike | None = None,
    wrenches: Wrenches | None = None,
) -> ParameterDerivatives:
    """Derivative of inverse, forward or hybrid dynamics along a scalar parameter p that everything may depend on.

    With a given it is that of inverse dynamics, with tau that of forward dynamics, with a, tau and `prescribed` that of
    hybrid dynamics.  What is left out does not depend on p.  Cost O(nv) per direction, but where joints follow others
    [Kim 2012, tables 5 to 7].

    Parameters
    ----------
    model : RigidBodyModel
    q : (nq,) or (K, nq), configuration
    v : (nv,) or (K, nv), velocity
    a, tau : (nv,) or (K, nv), accelerations and torques; of both, hybrid dynamics ignores what is not given
    prescribed : (nv,) bool, True where a is given, False where tau is
    external_wrenches, wrench_reference : as in `inverse_dynamics`
    dq : (nv,) or (K, nv), d/dp of the configuration, along the tangent: p moves to integrate(q, p dq)
    dv, da, dtau : (nv,) or (K, nv), d/dp of v and of the given entries of a and tau
    inertial : (nb, 10) or (K, nb, 10), d/dp of each body's parameters, in the order of `inertial_parameters`
    placement : (nb, 6) or (K, nb, 6), the twist [linear; angular] by which each joint's placement moves, in the axes of
        the placement, those of the body at zero motion: placement -> placement exp(p twist).  Everything beyond the
        joint moves along.
    wrenches : d/dp of the external wrenches, in the form of `external_wrenches` and in the same reference

    A single point among a batch, of inputs or of directions, is repeated: K directions at one point need it only once.

    Returns
    -------
    ParameterDerivatives(a, tau), each (nv,) or (K, nv): da/dp and dtau/dp, the given entries and the computed ones.

    Raises
    ------
    ValueError : wrong shape, non-finite given entry, different numbers of points, a quaternion that is not of unit
        length, an unknown frame or reference, `prescribed` not boolean, neither a nor tau, both of them without
        `prescribed`, or the direction of an unknown; names the argument.
    """
    chosen = _given_accelerations(check_model(model).nv, a, tau, prescribed, da, dtau)
    if chosen is not None:  # whatever is not given reads zero
        everywhere = np.zeros(model.nv)
        a, da = (given_entries(name, everywhere if x is None else x, chosen) for name, x in (("a", a), ("da", da)))
        known = [("tau", tau), ("dtau", everywhere if dtau is None else dtau)]
        tau, dtau = (given_entries(name, x, ~chosen) for name, x in known)
    if model.tree is not None:
        constant = {"external_wrenches": external_wrenches, "wrench_reference": wrench_reference}
        if chosen is not None:
            a = hybrid_dynamics(model, q, v, cast(np.ndarray, a), cast(np.ndarray, tau), chosen, **constant).a
        directions = {"dq": dq, "dv": dv, "da": da, "dtau": dtau}
        changes = {"inertial": inertial, "placement": placement, "wrenches": wrenches}
        return _where_joints_follow(model, q, v, cast(ArrayLike, a), chosen, directions, constant | changes)
    vectors = {"v": v, "a": a, "tau": tau, "dq": dq, "dv": dv, "da": da, "dtau": dtau}
    batch = direction_batch(model, q, vectors, inertial, placement, external_wrenches, wrenches, wrench_reference)
    numbers = model.nb * (BODY + CHANGE) + model.nv * (DOF + 3) + model.nq + hybrid_numbers(model.arrays)
    numbers += direction_numbers(batch.direction) + loads_numbers(batch.loads) + loads_numbers(batch.dloads)
    launch(
        _drive, len(batch.q), numbers, model.block, batch.q, batch.v, batch.a, batch.tau,
        None if chosen is None else chosen.astype(np.int64), batch.loads, batch.dloads, batch.direction, batch.dtau,
    )  # fmt: skip
    return ParameterDerivatives(*unbatch(batch.single, batch.direction.a.copy(), batch.dtau))  # da may be the caller's


def _where_joints_follow(
    model: RigidBodyModel,
    q: ArrayLike,
    v: ArrayLike,
    a: ArrayLike,
    chosen: np.ndarray | None,
    directions: dict[str, ArrayLike | None],
    others: dict[str, Any],
) -> ParameterDerivatives:
    """`parameter_derivatives` from those of the inverse dynamics of all joints: r = dID/dp where the accelerations that
    are given change, and M da + r = dtau.  a : all accelerations; directions : dq, dv, da, dtau; others : further
    arguments."""
    d = {name: np.zeros(model.nv) if x is None else x for name, x in directions.items()}
    moves = {name: model.full_velocity(d[name], name) for name in ("dq", "dv", "da")}
    there = model.full_configuration(q), model.full_velocity(v), model.full_velocity(a, "a")
    r = model.mimic_map.fold(parameter_derivatives(model.full, *there, **moves, **others).tau)
    single, (q, r, da, dtau) = points(model, q, r=r, da=d["da"], dtau=d["dtau"])
    if chosen is not None:
        da, r = completed(mass_matrix(model, q), chosen, da, dtau, r)
    return ParameterDerivatives(*unbatch(single, da, r))


def _given_accelerations(nv, a, tau, prescribed, da, dtau) -> np.ndarray | None:
    """Where the acceleration is given (nv,); None for inverse dynamics.  ValueError if the arguments do not fit."""
    if a is None and tau is None:
        raise ValueError("a, tau: got neither, expected a (inverse dynamics), tau (forward dynamics) or both (hybrid)")
    if a is None and da is not None:
        raise ValueError("da: got the direction of an unknown, expected None in forward dynamics")
    if tau is None and dtau is not None:
        raise ValueError("dtau: got the direction of an unknown, expected None in inverse dynamics")
    if a is None or tau is None:
        if prescribed is not None:
            raise ValueError("prescribed: expected None unless both a and tau are given, for hybrid dynamics")
        return np.zeros(nv, bool) if a is None else None
    if prescribed is None:
        raise ValueError(f"prescribed: got None, expected ({nv},) booleans where both a and tau are given")
    return as_choice("prescribed", prescribed, nv)
