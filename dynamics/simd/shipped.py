"""Kernels shipped with the package: a wheel may hold those of examples and problems, already compiled.

They are compiled for a level of x86-64 instead of for one processor, and run on every processor of that level.  Files
of kernels are identified as the user's own are, by a hash of sources and versions and by numba's keys: kernels that do
not fit are not found, and are compiled as usual.
"""

import json
import platform
from functools import cache
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm
import numba
import numpy

from dynamics.simd.vector import LANES

FOLDER = Path(__file__).parent / "shipped"
"""Folder of shipped kernels; a checkout has none."""
_AVX2 = {"avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe", "popcnt", "sse4.2"}
LEVELS = {
    "x86-64-v4": _AVX2 | {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"},
    "x86-64-v3": _AVX2,
}
"""Processor features of each level, the best level first [System V ABI, AMD64 supplement, table 3.1]."""


def environment_of(level: str) -> dict[str, str]:
    """Environment variables that make numba compile for this level."""
    return {"NUMBA_CPU_NAME": level, "NUMBA_CPU_FEATURES": ""}


def host_levels() -> list[str]:
    """Levels that this processor supports, the best one first."""
    try:
        features = llvm.get_host_cpu_features()
    except RuntimeError:  # the processor's features are unknown
        features = {}
    return [level for level, needed in LEVELS.items() if all(features.get(name) for name in needed)]


@cache
def level() -> str | None:
    """Level whose kernels this process loads: the one numba is set to compile for, else the processor's best one.

    None if its kernels have another number of lanes than this process, which their argument types would not show."""
    chosen: Any = numba.config
    if chosen.CPU_NAME is None and chosen.CPU_FEATURES is None:
        found = next(iter(host_levels()), None)
    else:
        found = chosen.CPU_NAME if chosen.CPU_NAME in LEVELS and not chosen.CPU_FEATURES else None
    return found if found is not None and (8 if "avx512f" in LEVELS[found] else 4) == LANES else None


@cache
def folder(place: Path) -> Path | None:
    """Shipped folder that may hold the kernels of a cache folder, or None."""
    found = FOLDER / str(level()) / place
    return found if found.is_dir() else None


def versions() -> dict[str, str]:
    """Versions that compiled kernels depend on: that of numba, and those of numpy and Python up to patches."""
    return {"numba": numba.__version__, "numpy": _minor(numpy.__version__), "Python": _minor(platform.python_version())}


def _minor(version: str) -> str:
    return ".".join(version.split(".")[:2])


def misfit() -> str:
    """Reason why the shipped kernels cannot be used here; empty if they can, or if there are none."""
    try:
        about = json.loads((FOLDER / "about.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return ""
    if level() not in about["levels"]:
        return f"those that came with the package are for processors with {' or '.join(about['levels'])}"
    if about["versions"] != versions():
        wanted = ", ".join(f"{name} {version}" for name, version in about["versions"].items())
        return f"those that came with the package are for {wanted}"
    return ""
