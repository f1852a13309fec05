"""The backward sweep that the solvers use: this line is the one place that says which."""

from trajopt.backward.sweep_simd import sweep

__all__ = ["sweep"]
