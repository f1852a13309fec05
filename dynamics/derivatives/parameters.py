"""Derivatives of torques and accelerations with respect to any parameter of a robot."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import ArrayLike

from dynamics.algorithms.articulated_body import ARTICULATED, ELIMINATION, hybrid_dynamics_kernel, solve_articulated
from dynamics.algorithms.batch import points, unbatch
from dynamics.algorithms.forward_dynamics import as_choice, completed, given_entries, hybrid_dynamics
from dynamics.algorithms.frames import frame_pose
from dynamics.algorithms.kinematics import (
    ACCELERATION,
    BODY,
    COLUMN,
    DOF,
    FORCE,
    FORCES,
    INERTIA,
    MOMENT,
    MOMENTUM,
    ORIGIN,
    POSITION,
    ROTATION,
    VELOCITY,
    forward_pass,
)
from dynamics.algorithms.loads import LOADS, Loads, Wrenches, add_loads, dead_load, loads_batch
from dynamics.algorithms.mass_matrix import mass_matrix
from dynamics.derivatives.regressor import INERTIAL, parameter_rotation, turned_bodies
from dynamics.model.knot_driver import Gathered, knot_driver, nb, nv
from dynamics.model.model import RigidBodyModel, check_model
from dynamics.simd import align_stack, gather, helper, kernel, load, shared_kernel, splat, store
from dynamics.simd.lane_blocks import lanes, slicing
from dynamics.simd.sizes import Size
from dynamics.spatial.spatial import (
    add6,
    add_cross,
    add_cross_force,
    add_cross_motion,
    add_inertia_times,
    add_scaled3,
    add_scaled6,
    cross,
    dot6,
    inertia_times,
    join,
    load3,
    load6,
    load9,
    rotate,
    store3,
    store6,
    world_inertia,
)
from dynamics.validation import as_array

# --------------------------------------------------------------------------------------------
# Derivatives of inverse and hybrid dynamics along a direction in which every input may change.
#
# Body i moves relative to its parent by the twist delta_i = Ad placement_i + S dq.  In the world frame, let nu, alpha
# and phi be the change of a body's velocity V, of its acceleration A and of the force F on its subtree *as seen from
# the moving body* (dF = phi + xi x* F, xi the sum of delta down the path), so that S and I change only as far as p
# enters them directly.  Down the tree and back up                                           [Kim 2012, table 5]
#
#     nu    = nu_p + V_p x delta + S dqd
#     alpha = alpha_p + A_p x delta + (nu_p + V_p x delta) x S qd + V_p x S dqd + S dqdd
#     phi   = I alpha + dI A + nu x* I V + V x* (I nu + dI V) - dW + sum over children c of (phi_c + delta_c x* F_c)
#     dtau  = S.phi + armature dqdd
#
# where dW is the change of the external wrench seen from the body: its given direction, and for dead loads the
# difference from a load that rotates with the body.
#
# Forward and hybrid dynamics need no recursion of their own (tables 6 and 7 there).  With r = dID at the known part of
# da, M x = dtau - r where torques are given, and dtau = r + M x where accelerations are: one solve with the factor of
# the articulated-body algorithm.

TWIST = 6
_dofs = Size("dofs", "direction.q.shape[1]")


class ParameterDirection(NamedTuple):
    """Rates of change of the inputs, per knot (K, numbers) for drivers, in lanes (numbers, LANES) for kernels.

    `inertial` and `placement` are empty where they do not change, and then cost nothing."""

    q: np.ndarray = lanes(_dofs)  # along the tangent
    v: np.ndarray = lanes(_dofs)
    a: np.ndarray = lanes(_dofs)
    inertial: np.ndarray = lanes(Size("inertial", "direction.inertial.shape[1]"))
    """(., 10 nb) in the axes of the frames that the joints move."""
    placement: np.ndarray = lanes(Size("placement", "direction.placement.shape[1]"))
    """(., 6 nb) in the axes of the same frames at zero motion."""


_slice_direction, _size_of_direction = slicing(ParameterDirection)


@helper
def gather_direction(direction, first, ws):
    """The direction of LANES knots in a slice of the workspace, and the rest of the workspace."""
    found, rest = _slice_direction(direction, ws)
    gather(direction.q, first, found.q)
    gather(direction.v, first, found.v)
    gather(direction.a, first, found.a)
    gather(direction.inertial, first, found.inertial)
    gather(direction.placement, first, found.placement)
    return found, rest


def direction_size(direction: ParameterDirection) -> int:
    """Workspace size per lane of `gather_direction`."""
    return _size_of_direction(direction)


# per body: delta, nu, alpha, phi, and the angular part of xi
DELTA, NU, ALPHA, PHI, TURN = 0, 6, 12, 18, 24
CHANGE = 27


@helper
def _moved_placement(m, i, placement, body):
    """World twist of joint i's placement, given as [linear; angular] in its own axes."""
    C, t = m.rotation[i], m.translation[i]
    frame = (  # a revolute joint's blocks at angle zero are [0] + [1]; those of the others [0] + 0
        C[0] + C[9], C[1] + C[10], C[2] + C[11], C[3] + C[12], C[4] + C[13], C[5] + C[14], C[6] + C[15], C[7] + C[16],
        C[8] + C[17], t[0], t[1], t[2],
    )  # fmt: skip
    R, p = frame_pose(m.parent[i], frame, body)
    if m.parent[i] < 0:
        p = add_scaled3(p, -1.0, load3(body, ORIGIN))
    w = rotate(R, load3(placement, TWIST * i + 3))
    return join(w, add_cross(rotate(R, load3(placement, TWIST * i)), p, w))


@helper
def _load_parent(m, i, body, change):
    """V and A of the parent of body i, and its nu, alpha and xi's angular part; the world's acceleration is -g."""
    zero = splat(body, 0.0)
    g = m.gravity
    V = nu = alpha = (zero, zero, zero, zero, zero, zero)
    A = (zero, zero, zero, zero - g[0], zero - g[1], zero - g[2])
    turn = (zero, zero, zero)
    if m.parent[i] >= 0:
        b, c = m.parent[i] * BODY, m.parent[i] * CHANGE
        V, A = load6(body, b + VELOCITY), load6(body, b + ACCELERATION)
        nu, alpha, turn = load6(change, c + NU), load6(change, c + ALPHA), load3(change, c + TURN)
    return V, A, nu, alpha, turn


@kernel
def _change_motion(m, v, direction, body, dof, change):
    """Store delta, nu, alpha and the angular part of xi of every body."""
    align_stack(body)
    zero = splat(body, 0.0)
    for i in range(m.parent.size):
        V, A, nu, alpha, turn = _load_parent(m, i, body, change)
        delta = joint = rate = (zero, zero, zero, zero, zero, zero)
        if direction.placement.shape[0] > 0:
            delta = _moved_placement(m, i, direction.placement, body)
        for k in range(m.v_index[i], m.v_index[i] + m.dof_count[i]):
            S = load6(dof, k * DOF + COLUMN)
            delta = add_scaled6(delta, load(direction.q, k), S)
            joint = add_scaled6(joint, load(v, k), S)
            rate = add_scaled6(rate, load(direction.v, k), S)
            alpha = add_scaled6(alpha, load(direction.a, k), S)
        nu = add_cross_motion(nu, V, delta)
        alpha = add_cross_motion(add_cross_motion(alpha, A, delta), nu, joint)
        c = i * CHANGE
        store6(change, c + DELTA, delta)
        store6(change, c + NU, add6(nu, rate))
        store6(change, c + ALPHA, add_cross_motion(alpha, V, rate))
        store3(change, c + TURN, (turn[0] + delta[0], turn[1] + delta[1], turn[2] + delta[2]))


@kernel
def _change_forces(m, direction, body, change):
    """Store phi of every body alone, without external wrenches."""
    align_stack(body)
    for i in range(m.parent.size):
        b, c = i * BODY, i * CHANGE
        V, A, P = load6(body, b + VELOCITY), load6(body, b + ACCELERATION), load6(body, b + MOMENTUM)
        h, I = load3(body, b + MOMENT), load6(body, b + INERTIA)
        nu = load6(change, c + NU)
        force = add_cross_force(inertia_times(m.mass[i], h, I, load6(change, c + ALPHA)), nu, P)
        momentum = inertia_times(m.mass[i], h, I, nu)
        if direction.inertial.shape[0] > 0:
            o = i * INERTIAL
            x = load6(direction.inertial, o + 4)  # xx xy yy xz yz zz
            mass = load(direction.inertial, o)
            h, I = world_inertia(
                load9(body, b + ROTATION), load3(body, b + POSITION), mass, load3(direction.inertial, o + 1),
                (x[0], x[1], x[3], x[2], x[4], x[5]),
            )  # fmt: skip
            force = add_inertia_times(force, mass, h, I, A)
            momentum = add_inertia_times(momentum, mass, h, I, V)
        store6(change, c + PHI, add_cross_force(force, V, momentum))


@helper
def _add_force(change, c, p, f, n):
    """phi at offset c += the force f at the point p and the moment n."""
    store6(change, c + PHI, add6(load6(change, c + PHI), join(add_cross(n, p, f), f)))


@kernel
def _change_loads(m, loads, dloads, body, change):
    """phi -= dW."""
    if dloads.follower.shape[0] > 0:
        for i in range(m.parent.size):
            R, w = load9(body, i * BODY + ROTATION), load6(dloads.follower, 6 * i)
            f, n = rotate(R, (-w[0], -w[1], -w[2])), rotate(R, (-w[3], -w[4], -w[5]))
            _add_force(change, i * CHANGE, load3(body, i * BODY + POSITION), f, n)
    for l in range(dloads.dead.shape[0] // 6):
        b, p, f, n = dead_load(dloads, l, body)
        _add_force(change, b // BODY * CHANGE, p, (-f[0], -f[1], -f[2]), (-n[0], -n[1], -n[2]))
    for l in range(loads.dead.shape[0] // 6):  # a load fixed in the body would change by turn x f, turn x n
        b, p, f, n = dead_load(loads, l, body)
        c = b // BODY * CHANGE
        turn = load3(change, c + TURN)
        _add_force(change, c, p, cross(turn, f), cross(turn, n))


@kernel
def _change_torques(m, da, body, dof, change, dtau):
    """Compute dtau; FORCE and phi become those of the subtrees."""
    align_stack(body)
    for i in range(m.parent.size - 1, -1, -1):
        b, c = i * BODY, i * CHANGE
        F, phi = load6(body, b + FORCE), load6(change, c + PHI)
        for k in range(m.v_index[i], m.v_index[i] + m.dof_count[i]):
            rotor = splat(dtau, m.armature[k]) * load(da, k)
            store(dtau, k, rotor + dot6(load6(dof, k * DOF + COLUMN), phi))
        if m.parent[i] >= 0:
            o, e = m.parent[i] * BODY + FORCE, m.parent[i] * CHANGE + PHI
            store6(body, o, add6(load6(body, o), F))
            store6(change, e, add_cross_force(add6(load6(change, e), phi), load6(change, c + DELTA), F))


@shared_kernel
def change_of_inverse_dynamics(m, v, loads, dloads, direction, body, dof, change, dtau):
    """Compute dtau (nv), one knot per lane, after the forward pass with the net FORCE of every body less its loads.

    change (nb CHANGE) is scratch; FORCE becomes that of the subtrees."""
    _change_motion(m, v, direction, body, dof, change)
    _change_forces(m, direction, body, change)
    if loads is not None:
        _change_loads(m, loads, dloads, body, change)
    _change_torques(m, direction.a, body, dof, change, dtau)


class HybridLanes(NamedTuple):
    """Scratch of `change_of_hybrid_dynamics` in addition to that of inverse dynamics."""

    art: np.ndarray = lanes(nb * ARTICULATED)
    elim: np.ndarray = lanes(nv * ELIMINATION)
    tau: np.ndarray = lanes(nv)
    r: np.ndarray = lanes(nv)
    rest: np.ndarray = lanes(nv)
    x: np.ndarray = lanes(nv)


@shared_kernel
def change_of_hybrid_dynamics(m, q, v, a, prescribed, loads, dloads, direction, dtau, body, dof, change, w):
    """Compute direction.a and dtau (nv) where not given, for one knot per lane; these must be zero before.

    w.tau are the torques; the other arguments as above and in `hybrid_dynamics_kernel`."""
    _, elim, _, r, rest, x = w
    x[:] = 0.0
    hybrid_dynamics_kernel(m, q, v, a, w.tau, prescribed, x, loads, body, dof, w.art, elim)
    for i in range(m.parent.size):
        b = i * BODY
        h, I = load3(body, b + MOMENT), load6(body, b + INERTIA)
        force = inertia_times(m.mass[i], h, I, load6(body, b + ACCELERATION))
        store6(body, b + FORCE, add_cross_force(force, load6(body, b + VELOCITY), load6(body, b + MOMENTUM)))
    if loads is not None:
        add_loads(m, loads, -1.0, body)
    change_of_inverse_dynamics(m, v, loads, dloads, direction, body, dof, change, r)
    for k in range(m.dof_body.size):
        store(rest, k, load(dtau, k) - load(r, k))
    solve_articulated(m, x, rest, prescribed, dof, elim, w.art)
    for k in range(m.dof_body.size):
        if prescribed[k] != 0:
            store(dtau, k, load(r, k) + load(rest, k))
        else:
            store(direction.a, k, load(x, k))


# --------------------------------------------------------------------------------------------
# Derivatives of inverse, forward and hybrid dynamics along any scalar parameter p.
#
# For calibration, identification and design: p may move the configuration, the velocity, the given accelerations and
# torques, the inertial parameters of the bodies, the placements of the joints and the external wrenches, all at once.


@kernel
def _change_at_accelerations(m, q, v, a, loads, dloads, direction, body, dof, change, dtau):
    forward_pass(m, q, v, a, body, dof, FORCES)
    if loads is not None:
        add_loads(m, loads, -1.0, body)
    change_of_inverse_dynamics(m, v, loads, dloads, direction, body, dof, change, dtau)


_GATHERED = {"loads": LOADS, "dloads": LOADS, "direction": Gathered(gather_direction, direction_size)}
_SCRATCH = {"body": nb * BODY, "dof": nv * DOF, "change": nb * CHANGE}
_drive_inverse = knot_driver(
    _change_at_accelerations, inputs="q v a", gathered=_GATHERED, scratch=_SCRATCH, outputs={"dtau": nv}
)
_drive_hybrid = knot_driver(
    change_of_hybrid_dynamics,
    inputs="q v a dtau tau=w.tau",
    gathered=_GATHERED,
    scratch=_SCRATCH | {"w": HybridLanes},
    outputs={"dtau": nv, "da": "direction_.a"},
)


# ------------------------------------------------------------------------------------------------ from public arguments
class _Batch(NamedTuple):
    """K points with one direction at each."""

    single: bool  # all arguments were single points
    q: np.ndarray  # (K, nq)
    v: np.ndarray  # (K, nv)
    a: np.ndarray  # (K, nv)
    tau: np.ndarray  # (K, nv)
    direction: ParameterDirection
    dtau: np.ndarray  # (K, nv)
    loads: Loads | None
    dloads: Loads | None  # None exactly where `loads` is


def _direction_batch(
    model: RigidBodyModel,
    q: ArrayLike,
    vectors: dict,
    inertial: ArrayLike | None,
    placement: ArrayLike | None,
    external_wrenches: Wrenches | None,
    wrenches: Wrenches | None,
    wrench_reference: str,
) -> _Batch:
    """The public arguments of `parameter_derivatives` as equally long batches; single points are repeated.

    vectors : v, a, tau, dq, dv, da, dtau by name, each (nv,) or (K, nv), or None for zeros.
    Raises ValueError naming the argument and its shape, or the numbers of points that differ.
    """
    given = {name: np.zeros(model.nv) if x is None else x for name, x in vectors.items()}
    single, arrays = points(model, q, **given)
    inertial, one = _per_body(model, "inertial", inertial, INERTIAL, parameter_rotation)
    placement, other = _per_body(model, "placement", placement, TWIST, _twist_rotation)
    loaded, last = _wrench_points(wrenches)
    lengths = {"q": len(arrays[0]), "inertial": len(inertial), "placement": len(placement), "wrenches": loaded}
    K = _common_length(lengths)
    arrays = [np.repeat(x, K, axis=0) if len(x) == 1 != K else x for x in (*arrays, inertial, placement)]
    q, v, a, tau, dq, dv, da, dtau, inertial, placement = arrays
    loads = loads_batch(model, external_wrenches, wrench_reference, K)
    dloads = loads_batch(model, wrenches, wrench_reference, K, "wrenches")
    if loads is None and dloads is not None:
        loads = loads_batch(model, {}, wrench_reference, K)
    if dloads is None and loads is not None:
        dloads = loads_batch(model, {}, wrench_reference, K)
    direction = ParameterDirection(dq, dv, da, inertial, placement)
    return _Batch(single and one and other and last, q, v, a, tau, direction, dtau, loads, dloads)


def _per_body(model, name, value, size, rotation) -> tuple[np.ndarray, bool]:
    """One array (nb, size) or a batch of them as (K, nb size), or (1, 0) for None; and True if it was one array.

    rotation : matrix (size, size) of the rotation from a body's axes to those that kernels use."""
    if value is None:
        return np.empty((1, 0)), True
    nb, array = model.nb, as_array(name, value)
    if array.ndim not in (2, 3) or array.shape[-2:] != (nb, size):
        raise ValueError(f"{name}: got shape {array.shape}, expected ({nb}, {size}) or (K, {nb}, {size})")
    copy = array.copy()
    for i, R in turned_bodies(model):
        copy[..., i, :] = copy[..., i, :] @ rotation(R).T
    return copy.reshape(-1, nb * size), array.ndim == 2


def _twist_rotation(R):
    return np.kron(np.eye(2), R)


def _wrench_points(wrenches) -> tuple[int, bool]:
    """Number of points for which wrenches are given, and True for a single one; their shapes are checked later."""
    if wrenches is None:
        return 1, True
    if isinstance(wrenches, Mapping):
        arrays, ndim = [as_array(f"wrenches[{name!r}]", value) for name, value in wrenches.items()], 2
    else:
        arrays, ndim = [as_array("wrenches", wrenches)], 3
    lengths = [len(x) for x in arrays if x.ndim == ndim]
    return max(lengths, default=1), not lengths


def _common_length(lengths: dict[str, int]) -> int:
    several = {n for n in lengths.values() if n != 1}
    if len(several) > 1:
        sizes = ", ".join(f"{name}: {n}" for name, n in lengths.items())
        raise ValueError(f"arguments: got different numbers of points ({sizes}), expected one K, or single points")
    return next(iter(several), 1)


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
    """Derivative of inverse, forward or hybrid dynamics with respect to a scalar parameter p of any of the inputs.

    With a given it is that of inverse dynamics, with tau that of forward dynamics, with a, tau and `prescribed` that of
    hybrid dynamics.  Inputs without a direction do not depend on p.  The cost is O(nv) per direction, except with mimic
    joints [Kim 2012, tables 5 to 7].

    Parameters
    ----------
    model : RigidBodyModel
    q : (nq,) or (K, nq), configuration
    v : (nv,) or (K, nv), velocity
    a, tau : (nv,) or (K, nv), accelerations and torques; hybrid dynamics ignores the entries that are not given
    prescribed : (nv,) bool, True where a is given, False where tau is
    external_wrenches, wrench_reference : as in `inverse_dynamics`
    dq : (nv,) or (K, nv), d/dp of the configuration, along the tangent: p moves to integrate(q, p dq)
    dv, da, dtau : (nv,) or (K, nv), d/dp of v and of the given entries of a and tau
    inertial : (nb, 10) or (K, nb, 10), d/dp of each body's parameters, in the order of `inertial_parameters`
    placement : (nb, 6) or (K, nb, 6), the twist [linear; angular] by which each joint's placement moves, in the axes of
        the placement, those of the body at zero motion: placement -> placement exp(p twist).  The subtree of the joint
        moves along.
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
    if chosen is not None:  # entries that are not given are zero
        everywhere = np.zeros(model.nv)
        a, da = (given_entries(name, everywhere if x is None else x, chosen) for name, x in (("a", a), ("da", da)))
        known = [("tau", tau), ("dtau", everywhere if dtau is None else dtau)]
        tau, dtau = (given_entries(name, x, ~chosen) for name, x in known)
    if model.mimics:
        constant = {"external_wrenches": external_wrenches, "wrench_reference": wrench_reference}
        if chosen is not None:
            a = hybrid_dynamics(model, q, v, cast(np.ndarray, a), cast(np.ndarray, tau), chosen, **constant).a
        directions = {"dq": dq, "dv": dv, "da": da, "dtau": dtau}
        changes = {"inertial": inertial, "placement": placement, "wrenches": wrenches}
        return _by_inverse_dynamics(model, q, v, cast(ArrayLike, a), chosen, directions, constant | changes)
    vectors = {"v": v, "a": a, "tau": tau, "dq": dq, "dv": dv, "da": da, "dtau": dtau}
    batch = _direction_batch(model, q, vectors, inertial, placement, external_wrenches, wrenches, wrench_reference)
    given, moved = (batch.q, batch.v, batch.a), (batch.loads, batch.dloads, batch.direction, batch.dtau)
    if chosen is None:
        _drive_inverse(model, *given, *moved)
    else:
        _drive_hybrid(model, *given, chosen.astype(np.int64), *moved, batch.tau, batch.direction.a)
    return ParameterDerivatives(*unbatch(batch.single, batch.direction.a.copy(), batch.dtau))  # da may be the caller's


def _by_inverse_dynamics(
    model: RigidBodyModel,
    q: ArrayLike,
    v: ArrayLike,
    a: ArrayLike,
    chosen: np.ndarray | None,
    directions: dict[str, ArrayLike | None],
    others: dict[str, Any],
) -> ParameterDerivatives:
    """`parameter_derivatives` with mimic joints, from the inverse dynamics of the full model: r = dID/dp for the change
    of the given accelerations, and M da + r = dtau.  a : all accelerations; directions : dq, dv, da, dtau; others :
    further arguments."""
    d = {name: np.zeros(model.nv) if x is None else x for name, x in directions.items()}
    moves = {name: model.full_velocity(d[name], name) for name in ("dq", "dv", "da")}
    there = model.full_configuration(q), model.full_velocity(v), model.full_velocity(a, "a")
    r = model.mimic_map.leave("p", parameter_derivatives(model.full, *there, **moves, **others).tau)
    single, (q, r, da, dtau) = points(model, q, r=r, da=d["da"], dtau=d["dtau"])
    if chosen is not None:
        da, r = completed(mass_matrix(model, q), chosen, da, dtau, r)
    return ParameterDerivatives(*unbatch(single, da, r))


def _given_accelerations(nv, a, tau, prescribed, da, dtau) -> np.ndarray | None:
    """Mask (nv,) of given accelerations; None for inverse dynamics.  ValueError if the arguments are inconsistent."""
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
