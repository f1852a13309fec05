"""Frames attached to bodies: placement, Jacobian, velocity and acceleration.

With s = (w, v) the spatial motion of the frame's body in world axes (v the velocity of the point at the world origin)
and (R, p) the frame's pose, its components are

    local_world_aligned    v + w x p,  w             velocity of the frame's origin, world axes
    local                  R'(v + w x p),  R'w       the same in the frame's own axes: the spatial velocity
    world                  v,  w                     the spatial velocity at the world origin

and the same map takes the joints' world columns to the Jacobian.  An acceleration is the time derivative of the
velocity's components in the same reference: the spatial acceleration ds/dt has the same map (s x s = 0, so moving axes
add no term), and the world-aligned one has the additional term w x (v + w x p), because p moves.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from dynamics.algorithms.batch import kinematic_points, unbatch
from dynamics.algorithms.kinematics import BODY, COLUMN, DOF, POSITION, ROTATION, place_bodies, place_near_origin
from dynamics.model.knot_driver import knot_driver, nb, nv
from dynamics.model.model import RigidBodyModel, check_configuration, check_model
from dynamics.simd import align_stack, helper, kernel, load, shared_kernel, splat
from dynamics.simd.sizes import Size
from dynamics.spatial.spatial import (
    add_cross,
    add_cross_motion,
    add_rotated,
    add_scaled6,
    angular,
    linear,
    load3,
    load6,
    load9,
    multiply,
    rotate_back,
    store3,
    store6,
    store9,
)
from dynamics.spatial.tangent import store_column6
from dynamics.validation import as_choice

LOCAL_WORLD_ALIGNED, LOCAL, WORLD = 0, 1, 2
REFERENCES = {"local_world_aligned": LOCAL_WORLD_ALIGNED, "local": LOCAL, "world": WORLD}
FRAME = 12
"""Size of a frame's placement in its body: rotation, row-major, and origin."""

_PLACEMENT, _JACOBIAN, _VELOCITY, _ACCELERATION = 0, 1, 2, 3


class Placement(NamedTuple):
    """Pose of a frame in the world, x_world = R x + p; R (3, 3) or (K, 3, 3), p (3,) or (K, 3)."""

    R: np.ndarray
    p: np.ndarray


# ------------------------------------------------------------------------------------------------ kernels
@helper
def last_dof(m, i):
    """Lowest degree of freedom on the path from body i to the root, -1 for the world."""
    if i < 0:
        return -1
    return m.v_index[i] + m.dof_count[i] - 1


@helper
def frame_pose(i, frame, body):
    """Pose (R, p) of a frame of body i, -1 the world; frame (FRAME)."""
    zero, one = splat(body, 0.0), splat(body, 1.0)
    R, p = (one, zero, zero, zero, one, zero, zero, zero, one), (zero, zero, zero)
    if i >= 0:
        R, p = load9(body, i * BODY + ROTATION), load3(body, i * BODY + POSITION)
    F = (frame[0], frame[1], frame[2], frame[3], frame[4], frame[5], frame[6], frame[7], frame[8])
    return multiply(R, F), add_rotated(p, R, (frame[9], frame[10], frame[11]))


@helper
def components(reference, R, p, s):
    """[linear; angular] components of the world motion s in a reference."""
    w, v = angular(s), linear(s)
    if reference != WORLD:
        v = add_cross(v, w, p)
        if reference == LOCAL:
            w, v = rotate_back(R, w), rotate_back(R, v)
    return (v[0], v[1], v[2], w[0], w[1], w[2])


@shared_kernel
def frame_jacobian_kernel(m, i, frame, reference, body, dof, J):
    """Compute J (6 nv), row-major, zero off the frame's path, after `place_bodies`."""
    align_stack(body)
    J[:] = 0.0
    n = m.dof_body.size
    R, p = frame_pose(i, frame, body)
    k = last_dof(m, i)
    while k >= 0:
        store_column6(J, k, n, components(reference, R, p, load6(dof, k * DOF + COLUMN)))
        k = m.dof_parent[k]


@helper
def path_velocity(m, i, v, dof):
    """World velocity of body i: the sum of v_k s_k over its path."""
    zero = splat(dof, 0.0)
    V = (zero, zero, zero, zero, zero, zero)
    k = last_dof(m, i)
    while k >= 0:
        V = add_scaled6(V, load(v, k), load6(dof, k * DOF + COLUMN))
        k = m.dof_parent[k]
    return V


@helper
def parent_velocity(m, i, V, v, dof):
    """World velocity of the parent of body i, from the velocity V of body i."""
    zero = splat(dof, 0.0)
    P = (zero, zero, zero, zero, zero, zero)
    if m.parent[i] >= 0:
        P = V
        for k in range(m.v_index[i], m.v_index[i] + m.dof_count[i]):
            P = add_scaled6(P, -load(v, k), load6(dof, k * DOF + COLUMN))
    return P


@helper
def _path_acceleration(m, i, V, v, a, dof):
    """World acceleration of body i without gravity:  sum of S qdd + v_parent x S qd  over its path."""
    zero = splat(dof, 0.0)
    A = (zero, zero, zero, zero, zero, zero)
    while i >= 0:
        P = parent_velocity(m, i, V, v, dof)
        for k in range(m.v_index[i], m.v_index[i] + m.dof_count[i]):
            A = add_scaled6(A, load(a, k), load6(dof, k * DOF + COLUMN))
        A = add_cross_motion(A, P, V)  # P x (V - P)
        V = P
        i = m.parent[i]
    return A


@kernel
def _frame_kernel(m, i, frame, reference, quantity, q, v, a, body, dof, out):
    """Compute one of placement (FRAME), Jacobian (6 nv), velocity (6), acceleration (6)."""
    align_stack(body)
    if quantity == _PLACEMENT or reference == WORLD:
        place_bodies(m, q, body, dof)
    else:  # the same about any point
        place_near_origin(m, q, body, dof)
    R, p = frame_pose(i, frame, body)
    if quantity == _PLACEMENT:
        store9(out, 0, R)
        store3(out, 9, p)
    elif quantity == _JACOBIAN:
        frame_jacobian_kernel(m, i, frame, reference, body, dof, out)
    else:
        motion = path_velocity(m, i, v, dof)
        velocity = components(reference, R, p, motion)
        if quantity == _VELOCITY:
            store6(out, 0, velocity)
        else:
            store6(out, 0, components(reference, R, p, _path_acceleration(m, i, motion, v, a, dof)))
            if reference == LOCAL_WORLD_ALIGNED:
                v_p, w = (velocity[0], velocity[1], velocity[2]), (velocity[3], velocity[4], velocity[5])
                store3(out, 0, add_cross(load3(out, 0), w, v_p))


_drive = knot_driver(
    _frame_kernel,
    inputs="q v? a?",
    scratch={"body": nb * BODY, "dof": nv * DOF},
    outputs={"out": Size("size", "out.shape[1]")},
)


# ------------------------------------------------------------------------------------------------ public
def frame_numbers(model: RigidBodyModel, name: str) -> tuple[int, np.ndarray]:
    """Body (-1 the world) and placement (FRAME,) of a frame, for kernels; ValueError for an unknown name."""
    check_model(model)
    frame = model.frame(name)
    return int(frame.body), np.concatenate([np.ravel(frame.R), frame.p])


def reference_code(reference: str, allowed: Collection[str] = tuple(REFERENCES)) -> int:
    """The kernels' code of a reference; ValueError listing the allowed ones."""
    return REFERENCES[as_choice("reference", reference, allowed)]


def _evaluate(model, name, reference, quantity, size, q, v=None, a=None) -> np.ndarray:
    """Results (K, size) of validated batches."""
    i, frame = frame_numbers(model, name)
    v, a = (np.empty((0, model.nv)) if x is None else x for x in (v, a))
    out = np.empty((len(q), size))
    _drive(model, i, frame, reference, quantity, q, v, a, out)
    return out


def frame_placement(model: RigidBodyModel, q: ArrayLike, frame: str) -> Placement:
    """Pose of a frame in the world: x_world = R x + p.

    Parameters
    ----------
    model : RigidBodyModel
    q : (nq,) or (K, nq), configuration
    frame : one of `model.frame_names`

    Returns
    -------
    Placement(R, p) : R (3, 3) or (K, 3, 3); p (3,) or (K, 3), m

    Raises
    ------
    ValueError : unknown frame (with the nearest matches), wrong shape, non-finite entry, or a quaternion that is not
        of unit length.

    Examples
    --------
    >>> robot = dynamics.load_urdf(problems.model_path("arm6"))
    >>> R, p = dynamics.frame_placement(robot, dynamics.neutral(robot), "tool")
    >>> p.round(3)
    array([-1.184, -0.256,  0.012])
    >>> dynamics.frame_placement(robot, np.zeros((5, 6)), "tool").p.shape  # one call for many configurations
    (5, 3)
    """
    single, (q,) = kinematic_points(model, q)
    out = _evaluate(model, frame, LOCAL, _PLACEMENT, FRAME, q)
    R, p = out[:, :9].reshape(-1, 3, 3), np.ascontiguousarray(out[:, 9:])
    return Placement(*unbatch(single, R, p))


def frame_jacobian(
    model: RigidBodyModel, q: ArrayLike, frame: str, reference: str = "local_world_aligned"
) -> np.ndarray:
    """The matrix J of a frame's velocity, `frame_velocity` = J v; rows [linear; angular].

    Parameters
    ----------
    model : RigidBodyModel
    q : (nq,) or (K, nq), configuration
    frame : one of `model.frame_names`
    reference : "local_world_aligned", "local" or "world", see `frame_velocity`

    Returns
    -------
    J : (6, nv) or (K, 6, nv); the columns of joints that do not move the frame are zero

    Raises
    ------
    ValueError : unknown reference; otherwise as `frame_placement`.
    """
    code = reference_code(reference)
    single, (q,) = kinematic_points(model, q)
    n = model.full.nv
    J = _evaluate(model, frame, code, _JACOBIAN, 6 * n, q).reshape(-1, 6, n)
    return unbatch(single, model.mimic_map.leave("p", J))[0]


def frame_velocity(
    model: RigidBodyModel, q: ArrayLike, v: ArrayLike, frame: str, reference: str = "local_world_aligned"
) -> np.ndarray:
    """Velocity of a frame, [linear; angular].

    Parameters
    ----------
    model : RigidBodyModel
    q : (nq,) or (K, nq), configuration
    v : (nv,) or (K, nv), velocity
    frame : one of `model.frame_names`
    reference : str
        "local_world_aligned": velocity of the frame's origin and angular velocity, world axes;
        "local": the same two in the frame's own axes (its spatial velocity);
        "world": spatial velocity at the world origin, world axes.

    Returns
    -------
    (6,) or (K, 6), m/s and rad/s

    Raises
    ------
    ValueError : unknown reference; otherwise as `frame_placement`.
    """
    code = reference_code(reference)
    single, (q, v) = kinematic_points(model, q, v=v)
    return unbatch(single, _evaluate(model, frame, code, _VELOCITY, 6, q, v, np.zeros_like(v)))[0]


def frame_acceleration(
    model: RigidBodyModel, q: ArrayLike, v: ArrayLike, a: ArrayLike, frame: str, reference: str = "local_world_aligned"
) -> np.ndarray:
    """Acceleration of a frame: the time derivative of the components of `frame_velocity` in the same reference.

    "local_world_aligned" therefore gives the classical acceleration of the frame's origin (gravity not included, unlike
    what an accelerometer shows) and the angular acceleration; "local" and "world" give the spatial acceleration.

    Parameters: as `frame_velocity`, and a (nv,) or (K, nv), acceleration.

    Returns
    -------
    (6,) or (K, 6), [linear; angular], m/s^2 and rad/s^2

    Raises
    ------
    ValueError : unknown reference; otherwise as `frame_placement`.
    """
    code = reference_code(reference)
    single, (q, v, a) = kinematic_points(model, q, v=v, a=a)
    return unbatch(single, _evaluate(model, frame, code, _ACCELERATION, 6, q, v, a))[0]


# --------------------------------------------------------------------------------------------
# Placements of all moving bodies.


def body_placements(model: RigidBodyModel, q: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """Poses R (K, nb, 3, 3) and p (K, nb, 3), m, of the moving bodies in the world at configurations q (K, nq).

    These are the frames that `Frame` and `Geometry` refer to.  A frame with a body's name may be rotated against the
    moving body's, whose axes are those of the joint.  Raises ValueError as `frame_placement`.
    """
    q, _ = check_configuration(check_model(model), q)
    R, p = np.empty((len(q), model.nb, 3, 3)), np.empty((len(q), model.nb, 3))
    for i, name in enumerate(model.body_names):
        link, pose = model.frame(name), frame_placement(model, q, name)
        R[:, i] = pose.R @ link.R.T
        p[:, i] = pose.p - R[:, i] @ link.p
    return R, p
