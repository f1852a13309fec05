"""Regressor Y of inverse dynamics, linear in the bodies' inertial parameters pi: tau - armature a = Y(q, v, a) pi.

In the frame that a joint moves, with w and dw the angular velocity and acceleration and c the classical acceleration of
the origin, gravity subtracted, a mass m with first moment h and inertia I about the origin needs the force and moment

    f = m c + dw x h + w x (w x h)            n = h x c + I dw + w x I w

Their power along the column S = (s, u) of a degree of freedom, angular part s first, is one row of Y for this body:

    m: u.c            h: c x s + u x dw + (u x w) x w           I_ij: entries of s dw' + (s x w) w', symmetric in i, j

Degrees of freedom off the path from the body to the root have zeros.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from dynamics.algorithms.batch import points, unbatch
from dynamics.algorithms.frames import last_dof
from dynamics.algorithms.kinematics import (
    ACCELERATION,
    BODY,
    COLUMN,
    DOF,
    FORCES,
    POSITION,
    ROTATION,
    VELOCITY,
    forward_pass,
)
from dynamics.model.body_inertia import BodyInertia, inertia_defect
from dynamics.model.joints import PLANAR
from dynamics.model.knot_driver import knot_driver, nb, nv
from dynamics.model.model import RigidBodyModel, check_model
from dynamics.model.model_arrays import subtree_masses
from dynamics.simd import align_stack, fma, helper, kernel, load, splat, store
from dynamics.spatial.spatial import (
    add_cross,
    add_scaled6,
    angular,
    cross,
    dot3,
    linear,
    load3,
    load6,
    load9,
    rotate_back,
    store3,
    store6,
)
from dynamics.validation import as_array, as_flag

# --------------------------------------------------------------------------------------------
# The ten inertial parameters of each body: their order, their values in a model, and their change with the axes.
#
#     m, m cx, m cy, m cz, Ixx, Ixy, Iyy, Ixz, Iyz, Izz         first moment and inertia about the origin, in body axes
#
# Kernels work in the frame that a joint moves.  It is the body's own except for planar joints with a tilted normal,
# whose bodies are rotated against it.

INERTIAL = 10
_PACKED = [4, 5, 7, 6, 8, 9]
"""Positions of the entries of `ModelArrays.rotational_inertia` in a row of parameters; the permutation is its own
inverse."""
_ROW, _COLUMN = (0, 0, 1, 0, 1, 2), (0, 1, 1, 2, 2, 2)  # of the inertia's entries


def inertial_parameters(model: RigidBodyModel) -> np.ndarray:
    """Inertial parameters (nb, 10) of the moving bodies, including bodies fixed to them; kg, kg m, kg m^2.

    Row: m, m cx, m cy, m cz, Ixx, Ixy, Iyy, Ixz, Iyz, Izz, the first moment m c and the inertia about the origin of the
    body's frame, in its axes.  `inverse_dynamics_regressor` multiplies them, `parameter_derivatives` takes directions
    of them.
    """
    m = check_model(model).full.arrays
    parameters = np.column_stack([m.mass, m.first_moment, m.rotational_inertia[:, np.subtract(_PACKED, 4)]])
    for i, R in turned_bodies(model):
        parameters[i] = parameter_rotation(R.T) @ parameters[i]
    return parameters


def with_inertial_parameters(model: RigidBodyModel, parameters: ArrayLike, physical: bool = True) -> RigidBodyModel:
    """The robot with other inertial parameters of its moving bodies, as from an identification.

    Parameters
    ----------
    model : RigidBodyModel without mimic joints
    parameters : (nb, 10), in the order of `inertial_parameters`
    physical : True to reject parameters that no body has: a mass or a principal moment of inertia below zero, or a
        moment that exceeds the sum of the other two

    Returns
    -------
    RigidBodyModel, with frames, limits, friction and all other data of `model`.

    Raises
    ------
    ValueError : a wrong shape, numbers that are not finite, parameters that no body has (names the body), or mimic
        joints.
    """
    if check_model(model).mimics:
        raise ValueError(f"model: {model.name!r} has mimic joints, expected independent joints")
    parameters = as_array("parameters", parameters, (model.nb, INERTIAL))
    if as_flag("physical", physical):
        for name, row in zip(model.body_names, parameters, strict=True):
            _check_body(name, row)
    own = parameters.copy()
    for i, R in turned_bodies(model):
        own[i] = parameter_rotation(R) @ own[i]
    mass, first_moment = own[:, 0].copy(), own[:, 1:4].copy()
    arrays = model.arrays._replace(
        mass=mass, first_moment=first_moment, rotational_inertia=own[:, _PACKED].copy(),
        subtree_mass=subtree_masses(model.arrays.parent, mass),
    )  # fmt: skip
    return replace(model, arrays=arrays)


def _check_body(name: str, row: np.ndarray) -> None:
    """ValueError if no body has these ten parameters."""
    tensor = np.zeros((3, 3))
    tensor[_ROW, _COLUMN] = tensor[_COLUMN, _ROW] = row[4:]
    defect = f"got a mass of {row[0]:.6g} kg, expected none below zero" if row[0] < 0.0 else None
    if defect is None:
        defect = inertia_defect(row[0], BodyInertia(row[0], row[1:4], tensor).about_com())
    if defect is not None:
        raise ValueError(f"parameters of {name!r}: {defect}; physical=False takes them all the same")


def turned_bodies(model: RigidBodyModel) -> list[tuple[int, np.ndarray]]:
    """Bodies whose axes are not those of the frame that their joint moves, with the rotation (3, 3) into that frame."""
    planar = [i for i, joint in enumerate(model.joints) if joint.code == PLANAR]
    rotations = [(i, model.frame(model.body_names[i]).R) for i in planar]
    return [(i, R) for i, R in rotations if not np.array_equal(R, np.eye(3))]


def parameter_rotation(R: np.ndarray) -> np.ndarray:
    """The matrix (10, 10) of (m, m c, I) -> (m, R m c, R I R')."""
    units = np.zeros((6, 3, 3))
    units[range(6), _ROW, _COLUMN] = units[range(6), _COLUMN, _ROW] = 1.0
    P = np.zeros((INERTIAL, INERTIAL))
    P[0, 0], P[1:4, 1:4] = 1.0, R
    P[4:, 4:] = (R @ units @ R.T)[:, _ROW, _COLUMN].T
    return P


@helper
def _in_body(R, p, x):
    """Angular and linear part of the world motion x in the axes of the body at (R, p), about its origin."""
    return rotate_back(R, angular(x)), rotate_back(R, add_cross(linear(x), angular(x), p))


@helper
def _store_row(Y, o, s, u, w, dw, c):
    """Store the ten entries of a row for one body at offset o."""
    t = cross(s, w)
    store(Y, o, dot3(u, c))
    store3(Y, o + 1, add_cross(add_cross(cross(c, s), u, dw), cross(u, w), w))
    store(Y, o + 4, fma(s[0], dw[0], t[0] * w[0]))
    store(Y, o + 5, fma(s[0], dw[1], fma(s[1], dw[0], fma(t[0], w[1], t[1] * w[0]))))
    store(Y, o + 6, fma(s[1], dw[1], t[1] * w[1]))
    store(Y, o + 7, fma(s[0], dw[2], fma(s[2], dw[0], fma(t[0], w[2], t[2] * w[0]))))
    store(Y, o + 8, fma(s[1], dw[2], fma(s[2], dw[1], fma(t[1], w[2], t[2] * w[1]))))
    store(Y, o + 9, fma(s[2], dw[2], t[2] * w[2]))


@helper
def _motion_of_body(m, i, body):
    """R, and in the axes of body i, w, dw and the classical acceleration c of its origin."""
    b = i * BODY
    R, p = load9(body, b + ROTATION), load3(body, b + POSITION)
    w, velocity = _in_body(R, p, load6(body, b + VELOCITY))
    dw, acceleration = _in_body(R, p, load6(body, b + ACCELERATION))
    return R, p, w, dw, add_cross(acceleration, w, velocity)


@kernel
def regressor_kernel(m, q, v, a, body, dof, Y):
    """Compute Y (nv 10 nb), row-major, one knot per lane; entries off the paths are not written (zero them once)."""
    align_stack(body)
    forward_pass(m, q, v, a, body, dof, FORCES)
    nb = m.parent.size
    for i in range(nb):
        R, p, w, dw, c = _motion_of_body(m, i, body)
        k = last_dof(m, i)
        while k >= 0:
            s, u = _in_body(R, p, load6(dof, k * DOF + COLUMN))
            _store_row(Y, (k * nb + i) * INERTIAL, s, u, w, dw, c)
            k = m.dof_parent[k]


@kernel
def regressor_product_kernel(m, q, v, a, y, body, dof, rates, Yy):
    """Compute Y'y (10 nb) for one knot per lane: a row is linear in S, so the rows of a body sum to one row for the
    body's motion under the joint rates y."""
    align_stack(body)
    forward_pass(m, q, v, a, body, dof, FORCES)
    zero = splat(y, 0.0)
    for i in range(m.parent.size):
        V = (zero, zero, zero, zero, zero, zero)
        if m.parent[i] >= 0:
            V = load6(rates, m.parent[i] * 6)
        for k in range(m.v_index[i], m.v_index[i] + m.dof_count[i]):
            V = add_scaled6(V, load(y, k), load6(dof, k * DOF + COLUMN))
        store6(rates, i * 6, V)
        R, p, w, dw, c = _motion_of_body(m, i, body)
        s, u = _in_body(R, p, V)
        _store_row(Yy, i * INERTIAL, s, u, w, dw, c)


_drive = knot_driver(
    regressor_kernel,
    inputs="q v a",
    scratch={"body": nb * BODY, "dof": nv * DOF},
    outputs={"Y": nv * nb * INERTIAL},
    zeroed="Y",  # no call writes the entries off the paths
)


_drive_product = knot_driver(
    regressor_product_kernel,
    inputs="q v a y",
    scratch={"body": nb * BODY, "dof": nv * DOF, "rates": nb * 6},
    outputs={"Yy": nb * INERTIAL},
)


def regressor_product(model: RigidBodyModel, q: np.ndarray, v: np.ndarray, a: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Y(q, v, a)'y (K, nb, 10) at K points, y (K, nv), without forming Y; arrays are not checked."""
    Yy = np.empty((len(q), model.nb * INERTIAL))
    _drive_product(model, q, v, a, y, Yy)
    Yy = Yy.reshape(-1, model.nb, INERTIAL)
    for i, R in turned_bodies(model):
        Yy[:, i] = Yy[:, i] @ parameter_rotation(R)
    return Yy


def inverse_dynamics_regressor(model: RigidBodyModel, q: ArrayLike, v: ArrayLike, a: ArrayLike) -> np.ndarray:
    """The matrix Y of inverse dynamics as a linear function of the inertial parameters,

    inverse_dynamics(model, q, v, a) = Y @ inertial_parameters(model).ravel() + armature * a

    Parameters
    ----------
    model : RigidBodyModel
    q : (nq,) or (K, nq), configuration
    v, a : (nv,) or (K, nv), velocity and acceleration

    Returns
    -------
    Y : (nv, 10 nb) or (K, nv, 10 nb), ten columns per moving body, in the order of `inertial_parameters`.  Y depends on
        the geometry of the robot and on gravity, not on its masses.

    Raises
    ------
    ValueError : wrong shape, non-finite entry, or a quaternion that is not of unit length; names the argument.
    """
    single, (q, v, a) = points(model, q, v=v, a=a)
    size = INERTIAL * model.nb
    Y = np.empty((len(q), model.nv * size))
    _drive(model, q, v, a, Y)
    Y = Y.reshape(-1, model.nv, size)
    for i, R in turned_bodies(model):
        columns = slice(INERTIAL * i, INERTIAL * (i + 1))
        Y[:, :, columns] = Y[:, :, columns] @ parameter_rotation(R)
    return unbatch(single, Y)[0]
