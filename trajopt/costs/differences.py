"""Differences of fourth order: multiples of a step, and the weights, over the step, of values there."""

FOURTH_ORDER = (1.0, 8.0 / 12.0), (-1.0, -8.0 / 12.0), (2.0, -1.0 / 12.0), (-2.0, 1.0 / 12.0)
"""To both sides."""
ONE_SIDED = (0.0, -25.0 / 12.0), (1.0, 4.0), (2.0, -3.0), (3.0, 4.0 / 3.0), (4.0, -0.25)
"""To one side."""
