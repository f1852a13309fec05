"""Kernels that come with the package: a wheel may hold those of examples and problems, already compiled.

They are compiled for a level of x86-64 instead of for one processor, and run on every processor of that level.  Files
of kernels are told apart as the user's own are, by a hash of sources and versions and by numba's keys: what does not
fit is not found, and compiled as without them.
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
"""Where they lie; a checkout has none."""
_AVX2 = {"avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe", "popcnt", "sse4.2"}
LEVELS = {
    "x86-64-v4": _AVX2 | {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"},
    "x86-64-v3": _AVX2,
}
"""What a processor has at each level, the better one first [System V ABI, AMD64 supplement, table 3.1]."""


def environment_of(level: str) -> dict[str, str]:
    """The variables that have numba compile for this level."""
    return {"NUMBA_CPU_NAME": level, "NUMBA_CPU_FEATURES": ""}


def host_levels() -> list[str]:
    """The levels that this processor reaches, the best one first."""
    try:
        features = llvm.get_host_cpu_features()
    except RuntimeError:  # the processor cannot be asked
        features = {}
    return [level for level, needed in LEVELS.items() if all(features.get(name) for name in needed)]


@cache
def level() -> str | None:
    """The level whose kernels this process takes: that numba was told to compile for, else the processor's best one.

    None if its kernels have not as many lanes as this process: their arguments would look the same."""
    chosen: Any = numba.config
    if chosen.CPU_NAME is None and chosen.CPU_FEATURES is None:
        found = next(iter(host_levels()), None)
    else:
        found = chosen.CPU_NAME if chosen.CPU_NAME in LEVELS and not chosen.CPU_FEATURES else None
    return found if found is not None and (8 if "avx512f" in LEVELS[found] else 4) == LANES else None


@cache
def folder(place: Path) -> Path | None:
    """The folder that may hold the kernels of a place, if one came with the package."""
    found = FOLDER / str(level()) / place
    return found if found.is_dir() else None


def versions() -> dict[str, str]:
    """What compiled kernels depend on besides sources: the versions of numba, and of numpy and Python up to patches."""
    return {"numba": numba.__version__, "numpy": _minor(numpy.__version__), "Python": _minor(platform.python_version())}


def _minor(version: str) -> str:
    return ".".join(version.split(".")[:2])


def misfit() -> str:
    """Why the kernels that came with the package are of no use here; empty if they are, or if there are none."""
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
