"""Pictures of simulations, by `trajopt.plotting`, which this module of `dynamics` alone imports, when it is called."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

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
