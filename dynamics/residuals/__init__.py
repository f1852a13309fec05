"""Residuals of a robot's state x = [q; v] and of its contact forces: values, Jacobians and exact Hessian products, all
knots in one call."""

from dynamics.residuals.center_of_mass import CenterOfMass
from dynamics.residuals.centroidal_momentum import CentroidalMomentum
from dynamics.residuals.collisions import Collisions
from dynamics.residuals.contact_residual import ContactForce
from dynamics.residuals.control_gravity import ControlGravity
from dynamics.residuals.distance import Distance
from dynamics.residuals.frame_placement import FramePlacement
from dynamics.residuals.frame_rotation import FrameRotation
from dynamics.residuals.frame_translation import FrameTranslation
from dynamics.residuals.frame_velocity import FrameVelocity
from dynamics.residuals.friction_cone import FrictionCone
from dynamics.residuals.total_wrench import SupportPolygon, ZeroMomentPoint, zero_moment_point
from dynamics.residuals.wrench_cone import CenterOfPressure, WrenchCone

__all__ = [
    "CenterOfMass", "CenterOfPressure", "CentroidalMomentum", "Collisions", "ContactForce", "ControlGravity",
    "Distance", "FramePlacement", "FrameRotation", "FrameTranslation", "FrameVelocity", "FrictionCone",
    "SupportPolygon", "WrenchCone", "ZeroMomentPoint", "zero_moment_point",
]  # fmt: skip
