"""The model that a system steps: the robot's model with the friction of its joints.

An Euler step of h takes damping d implicitly at no cost: with d v+ = d v + h d a in place of d v the equation of motion
is that of a robot with h d more armature, and damping is never too stiff for the step.

Coulomb friction c is smoothed over a speed e; at rest its derivative is c/e.  A step subtracts h M^-1 diag(c/e) v from
slow velocities v and must not reverse them: e is such that this matrix has no eigenvalue above one at some
configurations, and at least `SLOW`.
"""

from dataclasses import replace

import numpy as np

from dynamics.algorithms.configuration import neutral, random_configuration
from dynamics.algorithms.mass_matrix import mass_matrix
from dynamics.model.actuation import spring_matrices
from dynamics.model.joint_forces import with_springs
from dynamics.model.model import RigidBodyModel
from dynamics.simd.caller import warn
from dynamics.validation import as_array, as_flag

SLOW = 0.01
"""Least smoothing speed, rad/s or m/s."""

SAMPLES = 16
"""Number of configurations at which inertias are evaluated."""

DAMPING_LIMIT = 2.78
"""Value of h d/m at which RK4 becomes unstable, on the negative real axis."""


def plant_model(
    model: RigidBodyModel, dt: float, explicit: bool, joint_friction: bool, friction_speed: float | np.ndarray | None
) -> RigidBodyModel:
    """The model with `arrays.joint_friction` and `arrays.spring`, and the armature of implicit damping unless
    `explicit`; the model itself if its joints have neither, or if friction is left out.

    Raises ValueError or TypeError for `joint_friction` or `friction_speed`; warns of damping too stiff for RK4."""
    joint_friction = as_flag("joint_friction", joint_friction)
    has_friction = joint_friction and model.friction.any()
    if friction_speed is not None:
        given = np.asarray(friction_speed)
        friction_speed = as_array("friction_speed", friction_speed, (model.nv,) if given.ndim else ())
        if not (friction_speed > 0.0).all():
            raise ValueError(f"friction_speed: got {given.min()}, expected a positive speed, or None")
        if not has_friction:
            raise ValueError(f"friction_speed: got {given}, expected None where no joint has Coulomb friction")
    damped = joint_friction and model.damping.any()
    if model.springs:
        model = replace(model, arrays=with_springs(model.arrays, spring_matrices(model)))
    if not (has_friction or damped):
        return model
    arrays = model.arrays
    if not explicit:
        arrays = arrays._replace(armature=arrays.armature + dt * model.damping)
    plant, speed = replace(model, arrays=arrays), SLOW
    if (has_friction and friction_speed is None) or (damped and explicit):
        inverse = _inverse_inertias(plant)
        if explicit:
            _warn_of_stiffness(model, dt * inverse)
        if has_friction and friction_speed is None:
            speed = np.maximum(SLOW, _steady_speed(model.friction, dt * inverse))
    speed = np.full(model.nv, 1.0) * (speed if friction_speed is None else friction_speed)
    rows = np.column_stack([model.damping, model.friction, speed**2])
    return replace(plant, arrays=arrays._replace(joint_friction=rows))


def _inverse_inertias(model: RigidBodyModel) -> np.ndarray:
    """M^-1 (SAMPLES, nv, nv) at the neutral and at random configurations."""
    rng = np.random.default_rng(0)
    qs = [neutral(model), *(random_configuration(model, rng) for _ in range(SAMPLES - 1))]
    return np.linalg.inv(mass_matrix(model, np.array(qs)))


def _steady_speed(friction: np.ndarray, W: np.ndarray) -> np.ndarray:
    """Speeds e (nv,) with no eigenvalue of W diag(c/e) above one, W = h M^-1 (K, nv, nv): e_k = c_k W_kk times the
    largest eigenvalue that W has when its diagonal is scaled to one."""
    has_friction = friction > 0.0
    W = W[:, has_friction][:, :, has_friction]
    diagonal = np.einsum("kii->ki", W)
    scale = 1.0 / np.sqrt(diagonal)
    coupling = np.linalg.eigvalsh(scale[:, :, None] * W * scale[:, None, :])[:, -1]
    speed = np.zeros(len(friction))
    speed[has_friction] = friction[has_friction] * (diagonal * coupling[:, None]).max(axis=0)
    return speed


def check_substeps(model: RigidBodyModel, plant: RigidBodyModel, dt: float, substeps: int) -> None:
    """Raise ValueError if RK4 steps of dt/substeps are too long for the damping of a plant of the model."""
    damping = plant.arrays.joint_friction[:, 0]
    if damping.any():
        ratios = _stiffness(damping, dt * _inverse_inertias(model))
        k, least = int(ratios.argmax()), int(np.ceil(ratios.max() / DAMPING_LIMIT))
        if substeps < least:
            raise ValueError(
                f"substeps: got {substeps}, expected at least {least}: the damping of {plant.dof_names[k]!r} is "
                "too stiff for longer steps of RK4"
            )


def _stiffness(damping: np.ndarray, W: np.ndarray) -> np.ndarray:
    """Largest h d/m (nv,) of each joint over the samples."""
    return (damping * np.einsum("kii->ki", W)).max(axis=0)


def _warn_of_stiffness(model: RigidBodyModel, W: np.ndarray) -> None:
    ratios = _stiffness(model.damping, W)
    k = int(ratios.argmax())
    if ratios[k] > DAMPING_LIMIT:
        warn(
            f"damping of {model.dof_names[k]!r}: times dt and over the inertia of its joint it is up to "
            f"{ratios[k]:.3g}, and RK4 needs less than {DAMPING_LIMIT}: take a smaller dt, an Euler integrator, which "
            "takes damping implicitly, or joint_friction=False",
            RuntimeWarning,
        )
