"""Bands about the curves of a motion: how covariances along tangents show in what is drawn.

To first order: of a drawn quantity s, cov s = S P S' with S the derivative of s(integrate(x, dx)) by dx, here by
central differences.  So numbers that are no tangents have bands too: quaternions, places in the world of a base that
moves in its own frame, tips of soft robots.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Patch

from trajopt.optimality.uncertainty import Covariance
from trajopt.plotting.motion import Motion

DEVIATIONS = 2.0
"""Half the width of a band."""
STEP = 1e-5
"""Of differences along tangents."""


def covariances_of(covariance: Any, motions: Mapping[str, Motion]) -> dict[str, Covariance]:
    """By the names of motions: of one, or a mapping; TypeError or ValueError for anything else."""
    if covariance is None:
        return {}
    lone = isinstance(covariance, Covariance) and len(motions) == 1
    found = {next(iter(motions)): covariance} if lone else covariance
    if not isinstance(found, Mapping) or not all(isinstance(one, Covariance) for one in found.values()):
        wanted = "a Covariance" if len(motions) == 1 else "a mapping of names to Covariance"
        raise TypeError(f"covariance: got {type(covariance).__name__}, wanted {wanted}")
    for name, one in found.items():
        if name not in motions:
            raise ValueError(f"covariance: got one for {name!r}, wanted some of {', '.join(motions)}")
        motion, n = motions[name], motions[name].system.ndx
        shapes = (len(motion.xs), n, n), (len(motion.us), motion.us.shape[1], motion.us.shape[1])
        if (one.xs.shape, one.us.shape) != shapes:
            raise ValueError(f"covariance: got xs {one.xs.shape} and us {one.us.shape}, wanted {shapes}")
    return dict(found)


def deviations(
    motion: Motion, covariance: Covariance, drawn: Callable[[np.ndarray], Sequence[np.ndarray]]
) -> list[np.ndarray]:
    """Standard deviations (K, n) of all that is drawn, arrays (K, n) of states (K, nx)."""
    columns, system, xs = [], motion.system, motion.xs
    for e in STEP * np.eye(system.ndx):
        ahead, behind = (drawn(system.integrate(xs, np.tile(step, (len(xs), 1)))) for step in (e, -e))
        columns.append([(one - other) / (2.0 * STEP) for one, other in zip(ahead, behind, strict=True)])
    derivatives = [np.stack(column, axis=-1) for column in zip(*columns, strict=True)]
    return [np.sqrt(np.maximum(np.einsum("kia,kab,kib->ki", S, covariance.xs, S), 0.0)) for S in derivatives]


def draw_band(axes: Axes, times: np.ndarray, values: np.ndarray, sd: np.ndarray, color: Any, held: bool) -> None:
    """About one curve (K,)."""
    step = "post" if held else None
    low, high = values - DEVIATIONS * sd, values + DEVIATIONS * sd
    axes.fill_between(times, low, high, step=step, color=color, alpha=0.2, linewidth=0.0)


def band_in_legend() -> Patch:
    """What bands are."""
    return Patch(color="0.5", alpha=0.3, linewidth=0.0, label=f"$\\pm$ {DEVIATIONS:g} standard deviations")
