"""Figures and animations of solutions; the only modules that import matplotlib."""

from trajopt.plotting.animation import MovingPicture, animate
from trajopt.plotting.continuation import plot_continuation
from trajopt.plotting.convergence import plot_convergence
from trajopt.plotting.snapshots import plot_poses
from trajopt.plotting.trajectory import plot_trajectory
from trajopt.plotting.viewer import Viewer, view

__all__ = [
    "MovingPicture", "Viewer", "animate", "plot_continuation", "plot_convergence", "plot_poses", "plot_trajectory",
    "view",
]  # fmt: skip
