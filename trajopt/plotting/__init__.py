"""Figures of solutions; the only modules that import matplotlib."""

from trajopt.plotting.convergence import plot_convergence
from trajopt.plotting.trajectory import plot_trajectory

__all__ = ["plot_convergence", "plot_trajectory"]
