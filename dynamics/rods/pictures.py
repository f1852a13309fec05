"""Pictures of motions and shapes, by `trajopt.plotting`, which this module of `dynamics` alone imports, when it is
called."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def plot(motion: Any, path: str | Path | None) -> Figure:
    """`trajopt.plot_trajectory` of what has `system`, `times`, `xs` and `us`."""
    from trajopt.plotting import plot_trajectory

    return plot_trajectory(motion, path)


def animate(motion: Any, path: str | Path, **options: Any) -> Path:
    """`trajopt.animate` of such a motion."""
    from trajopt.plotting import animate

    return animate(motion, path, **options)


def plot_poses(poses: Mapping[str, np.ndarray], around: Sequence[Any], title: str, path: str | Path | None) -> Figure:
    """`trajopt.plotting.plot_poses` of segments (S, 2, 3), m, by what legends call them, among shapes that stay."""
    from trajopt.plotting import plot_poses

    return plot_poses(poses, around, title, path)
