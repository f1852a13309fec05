"""Soft and hybrid robots: trees of Cosserat rods and rigid bodies, their dynamics, first and second derivatives.

Names load on first use.
"""

import importlib

_HOME = {
    "algorithms.closed_chains": ("Assembly", "assemble", "closure_error", "closure_jacobian"),
    "algorithms.inverse_dynamics": (
        "InverseDynamicsDerivatives", "InverseDynamicsHessian", "inverse_dynamics",
        "inverse_dynamics_derivatives", "inverse_dynamics_hessian", "mass_matrix", "Energies", "Momentum",
        "center_of_mass", "energies", "momentum",
    ),
    "kinematics.center_lines": ("CenterLine", "center_lines", "link_placement", "link_placements", "skeleton"),
    "loads.contacts": ("CapsuleContact", "CylinderContact", "PlaneContact", "RodContact", "SphereContact"),
    "loads.external_loads": ("Fluid",),
    "loads.tendons": ("Chamber", "Tendon"),
    "model.cross_section": ("Anisotropic", "Circular", "Elastic", "Rectangular"),
    "model.rod_model": ("LinkContact", "Rod", "RodModel"),
    "model.segment_list": ("Closure", "Helical"),
    "model.strain_basis": ("LegendreBasis", "StrainBasis"),
    "robot.builder": ("RodModelBuilder",),
    "robot.link_residuals": ("LinkRotation", "LinkTranslation", "LinkVelocity", "RodForces", "RodStrain"),
    "robot.reactions": (
        "ContactForces", "contact_forces", "ReactionDerivatives", "Reactions", "reaction_derivatives",
        "reactions",
    ),
    "robot.rod_distance": ("RodDistance",),
    "robot.soft_robot": (
        "AccelerationDerivatives", "AccelerationHessian", "ResidualDerivatives", "ResidualHessian", "SoftRobot",
    ),
    "statics.branch": ("EquilibriumBranch", "equilibrium_branch"),
    "statics.equilibrium": (
        "StaticEquilibrium", "static_equilibrium", "EquilibriumChange", "EquilibriumDerivatives",
        "equilibrium_derivatives",
    ),
    "statics.vibrations": ("VibrationModes", "vibration_modes"),
    "stepping.simulation": ("Simulation", "simulate"),
    "stepping.soft_system": ("SoftRobotSystem",),
}  # fmt: skip
_MODULE = {name: module for module, names in _HOME.items() for name in names}
__all__ = sorted(_MODULE)  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str):
    if name in _MODULE:
        value = getattr(importlib.import_module(f"dynamics.rods.{_MODULE[name]}"), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'dynamics.rods' has no attribute {name!r}")


def __dir__():
    return __all__
