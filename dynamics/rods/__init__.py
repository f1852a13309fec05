"""Soft and hybrid robots: trees of Cosserat rods and rigid bodies, their dynamics, first and second derivatives.

Names load on first use.
"""

import importlib

_HOME = {
    "builder": ("RodModelBuilder",),
    "closed_joint": ("Closure",),
    "closed_chains": ("Assembly", "assemble", "closure_error", "closure_jacobian"),
    "cross_section": ("Circular", "Elastic", "Rectangular"),
    "evaluation": (
        "InverseDynamicsDerivatives", "InverseDynamicsHessian", "inverse_dynamics", "inverse_dynamics_derivatives",
        "inverse_dynamics_hessian", "mass_matrix",
    ),
    "external_loads": ("CylinderContact", "Fluid"),
    "kinematics": ("CenterLine", "center_lines", "link_placement", "link_placements", "skeleton"),
    "link_translation": ("LinkTranslation",),
    "model": ("Rod", "RodModel"),
    "simulation": ("Simulation", "simulate"),
    "soft_robot": (
        "AccelerationDerivatives", "AccelerationHessian", "ResidualDerivatives", "ResidualHessian", "SoftRobot",
    ),
    "soft_system": ("SoftRobotSystem",),
    "statics": ("StaticEquilibrium", "static_equilibrium"),
    "strain_basis": ("LegendreBasis", "StrainBasis"),
    "tendons": ("Tendon",),
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
