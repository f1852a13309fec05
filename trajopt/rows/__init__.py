"""Constraints as rows, packed knot by knot: values, Jacobians, curvature, and their terms in expansions."""
