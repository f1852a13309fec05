"""What figures and times depend on."""

import os
import platform
from pathlib import Path
from typing import Any

import numba
import numpy as np

from dynamics.simd import LANES, num_threads


def machine() -> dict[str, Any]:
    """Processor, lanes, threads, versions."""
    return {
        "processor": processor(),
        "cores": os.cpu_count(),
        "lanes": LANES,
        "threads": num_threads(),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "numba": numba.__version__,
    }


def processor() -> str:
    """The processor's name, as far as the system tells."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()
