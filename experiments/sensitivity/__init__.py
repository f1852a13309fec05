"""Derivatives of solutions: exact against Gauss-Newton, against solving again, and what they cost."""
