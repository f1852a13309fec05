"""Tests as other processors run them: `python -m tests.processors [NAME ...] [-- ARGUMENTS OF PYTEST]`.

OpenBLAS and numba are told to take this processor for another one.  Where it lacks the instructions for that, this is
said instead.
"""

import os
import subprocess
import sys

import llvmlite.binding as llvm

AVX2 = {"avx2", "fma"}
AVX512 = {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}
HASWELL, ZEN = ({"OPENBLAS_CORETYPE": name} for name in ("Haswell", "Zen"))
FOUR_LANES, EIGHT_LANES = ({"NUMBA_CPU_NAME": f"x86-64-{v}", "NUMBA_CPU_FEATURES": ""} for v in ("v3", "v4"))
CONFIGURATIONS = {
    "haswell": (HASWELL, AVX2),
    "zen": (ZEN, AVX2),
    "four-lanes": (FOUR_LANES, AVX2),
    "eight-lanes": (EIGHT_LANES, AVX512),
    "narrow": (HASWELL | FOUR_LANES, AVX2),
}
"""Changes of the environment, and the instructions that they need."""


def missing(needed: set[str]) -> set[str]:
    """Those of these instructions that the processor does not have."""
    try:
        features = llvm.get_host_cpu_features()
    except RuntimeError:  # the processor cannot be asked
        features = {}
    return {name for name in needed if not features.get(name, False)}


def main(arguments: list[str]) -> int:
    """Run pytest under each configuration, all but `narrow` if none is named; 1 if any run failed."""
    at = arguments.index("--") if "--" in arguments else len(arguments)
    names, rest = arguments[:at], arguments[at + 1 :]
    if unknown := set(names) - CONFIGURATIONS.keys():
        print(f"{', '.join(sorted(unknown))}: expected one of {', '.join(CONFIGURATIONS)}", file=sys.stderr)
        return 2
    failed = False
    for name in names or [name for name in CONFIGURATIONS if name != "narrow"]:
        environment, needed = CONFIGURATIONS[name]
        described = " ".join(f"{key}={value}" for key, value in environment.items())
        if lacking := missing(needed):
            print(f"\n{name}: skipped, this processor has no {', '.join(sorted(lacking))}", flush=True)
            continue
        print(f"\n{name}: {described}", flush=True)
        command = [sys.executable, "-m", "pytest", *rest]
        failed |= subprocess.run(command, env={**os.environ, **environment}).returncode != 0
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
