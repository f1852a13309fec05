"""Pictures of motions and shapes by `trajopt.plotting`; the only module of `dynamics` that imports it, and only when
called."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def plot(motion: Any, path: str | Path | None) -> Figure:
    """Picture by `trajopt.plot_trajectory` of a motion with `system`, `times`, `xs` and `us`."""
    from trajopt.plotting import plot_trajectory

    return plot_trajectory(motion, path)


def animate(motion: Any, path: str | Path, **options: Any) -> Path:
    """Animation by `trajopt.animate` of such a motion."""
    from trajopt.plotting import animate

    return animate(motion, path, **options)


def plot_poses(poses: Mapping[str, np.ndarray], around: Sequence[Any], title: str, path: str | Path | None) -> Figure:
    """Picture by `trajopt.plotting.plot_poses` of segments (S, 2, 3), m, by their names in the legend, among fixed
    shapes."""
    from trajopt.plotting import plot_poses

    return plot_poses(poses, around, title, path)
