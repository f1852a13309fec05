"""Optimal control problems: costs summed over knots, constraints, what stands around, and checks of derivatives."""
