"""The backward sweep that the solvers use: this line is the one place that says which."""

from trajopt.backward_pass import sweep_loops as sweep

__all__ = ["sweep"]
