"""Robots: models, kinematics, dynamics and their first and second derivatives, one knot per SIMD lane.

Names load on first use, so that importing the package compiles and imports nothing heavy.
"""

import importlib
import os

if os.environ.get("TRAJOPT_PLAIN_KERNELS"):
    importlib.import_module("dynamics.plain").install()

_HOME = {
    "dynamics.model.builder": ("ModelBuilder",),
    "dynamics.model.joints": (
        "Continuous", "Fixed", "FreeFlyer", "Planar", "Prismatic", "Revolute", "Spherical", "Translation",
    ),
    "dynamics.model.model": ("Frame", "RigidBodyModel"),
    "dynamics.model.attachments": ("Actuator", "Coupling", "LinearActuator", "Loop", "Mimic", "Spring", "Thruster"),
    "dynamics.model.edits": ("combine",),
    "dynamics.formats.urdf": ("load_urdf",),
    "dynamics.formats.mjcf": ("from_mujoco",),
    "dynamics.formats.mujoco_states": ("from_mujoco_state", "to_mujoco_state"),
    "dynamics.formats.pinocchio_models": ("from_pinocchio",),
    "dynamics.formats.load_robot": ("load_robot",),
    "dynamics.collisions.collision_pairs": ("CollisionPairs", "collision_geometry", "collision_pairs"),
    "dynamics.geometry.capsules": ("minimal_capsule",),
    "dynamics.geometry.geometry": ("Geometry",),
    "dynamics.geometry.shapes": ("Box", "Capsule", "Cylinder", "Ellipsoid", "HalfSpace", "Mesh", "Sphere"),
    "dynamics.simd": ("num_threads", "set_num_threads"),
    "dynamics.algorithms.configuration": ("difference", "integrate", "neutral", "random_configuration"),
    "dynamics.algorithms.inverse_dynamics": ("bias_forces", "gravity_forces", "inverse_dynamics"),
    "dynamics.algorithms.forward_dynamics": ("HybridDynamics", "forward_dynamics", "hybrid_dynamics"),
    "dynamics.algorithms.mass_matrix": ("inverse_mass_matrix", "mass_matrix"),
    "dynamics.algorithms.energy": ("kinetic_energy", "potential_energy"),
    "dynamics.algorithms.center_of_mass": ("center_of_mass", "center_of_mass_jacobian"),
    "dynamics.algorithms.frames": (
        "Placement", "frame_acceleration", "frame_jacobian", "frame_placement", "frame_velocity",
    ),
    "dynamics.derivatives.inverse_dynamics": ("InverseDynamicsDerivatives", "inverse_dynamics_derivatives"),
    "dynamics.derivatives.forward_dynamics": (
        "ForwardDynamicsDerivatives", "ForwardDynamicsHessian", "ForwardDynamicsSecondDerivatives",
        "forward_dynamics_derivatives", "forward_dynamics_hessian", "forward_dynamics_second_derivatives",
    ),
    "dynamics.derivatives.second_order": (
        "inverse_dynamics_second_derivatives",
        "InverseDynamicsSecondDerivatives",
        "PackedSecondDerivatives",
    ),
    "dynamics.derivatives.hessian": ("InverseDynamicsHessian", "inverse_dynamics_hessian"),
    "dynamics.derivatives.parameters": ("ParameterDerivatives", "parameter_derivatives"),
    "dynamics.derivatives.regressor": (
        "inertial_parameters", "inverse_dynamics_regressor", "with_inertial_parameters",
    ),
    "dynamics.contacts.contact_set": ("ContactSet",),
    "dynamics.contacts.frame_contact": ("PointContact", "RigidContact"),
    "dynamics.contacts.loop_constraint": ("JointCoupling", "LoopConstraint"),
    "dynamics.contacts.closing": ("close_loops",),
    "dynamics.contacts.dynamics": ("ContactDynamics", "contact_dynamics"),
    "dynamics.contacts.derivatives": ("ContactDynamicsDerivatives", "contact_dynamics_derivatives"),
    "dynamics.contacts.hessian": ("ContactDynamicsHessian", "contact_dynamics_hessian"),
    "dynamics.contacts.impulses": (
        "ContactImpulse",
        "ContactImpulseDerivatives",
        "contact_impulse",
        "contact_impulse_derivatives",
        "ContactImpulseHessian",
        "contact_impulse_hessian",
    ),
    "dynamics.systems.rigid_body": ("RigidBodySystem",),
    "dynamics.rods.stepping.soft_system": ("SoftRobotSystem",),
    "dynamics.systems.hybrid": ("HybridSystem",),
    "dynamics.systems.impact": ("Impact",),
    "dynamics.systems.joint_accelerations": ("JointAccelerationSystem", "JointTorques"),
    "dynamics.systems.pictures": ("skeleton",),
    "dynamics.gait": ("Gait",),
    "dynamics.ik": ("InverseKinematics", "inverse_kinematics"),
    "dynamics.residuals.center_of_mass": ("CenterOfMass",),
    "dynamics.residuals.centroidal_momentum": ("CentroidalMomentum",),
    "dynamics.residuals.collisions": ("Collisions",),
    "dynamics.residuals.contact_residual": ("ContactForce",),
    "dynamics.residuals.control_gravity": ("ControlGravity",),
    "dynamics.residuals.distance": ("Distance",),
    "dynamics.residuals.frame_placement": ("FramePlacement",),
    "dynamics.residuals.frame_rotation": ("FrameRotation",),
    "dynamics.residuals.frame_translation": ("FrameTranslation",),
    "dynamics.residuals.frame_velocity": ("FrameVelocity",),
    "dynamics.residuals.friction_cone": ("FrictionCone",),
    "dynamics.residuals.total_wrench": ("SupportPolygon", "ZeroMomentPoint", "zero_moment_point"),
    "dynamics.residuals.wrench_cone": ("CenterOfPressure", "WrenchCone"),
}  # fmt: skip
_MODULE = {name: module for module, names in _HOME.items() for name in names}
__all__ = sorted(_MODULE)  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str):
    if name in _MODULE:
        value = getattr(importlib.import_module(_MODULE[name]), name)
        globals()[name] = value
        return value
    if name == "__version__":
        return importlib.import_module("dynamics.distribution").version()
    raise AttributeError(f"module 'dynamics' has no attribute {name!r}")


def __dir__():
    return __all__
