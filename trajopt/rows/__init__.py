"""Constraints as rows, packed knot by knot: values, Jacobians, curvature, and augmented-Lagrangian terms."""
