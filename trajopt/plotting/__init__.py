"""Figures and animations of solutions; the only modules that import matplotlib.

Names are loaded on first use, so that solutions, which these modules know, can ask for pictures and reports of
themselves.
"""

from importlib import import_module
from typing import Any

_HOME = {
    "animation": ("MovingPicture", "animate"),
    "continuation": ("plot_continuation",),
    "convergence": ("plot_convergence",),
    "report": ("write_report",),
    "snapshots": ("plot_poses",),
    "trajectory": ("plot_trajectory",),
    "viewer": ("Viewer", "view"),
}
_MODULE = {name: module for module, names in _HOME.items() for name in names}
__all__ = sorted(_MODULE)  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    if name not in _MODULE:
        raise AttributeError(f"module 'trajopt.plotting' has no attribute {name!r}")
    return getattr(import_module(f"trajopt.plotting.{_MODULE[name]}"), name)


def __dir__() -> list[str]:
    return __all__
