"""Tests as other processors run them: `python -m tests.processors [NAME ...] [-- ARGUMENTS OF PYTEST]`.

OpenBLAS and numba are told to take this processor for another one.  Where it lacks the instructions for that, this is
said instead.
"""

import os
import subprocess
import sys

from dynamics.simd.shipped import LEVELS, environment_of, host_levels

HASWELL, ZEN = ({"OPENBLAS_CORETYPE": name} for name in ("Haswell", "Zen"))
V4, V3 = LEVELS
CONFIGURATIONS = {
    "haswell": (HASWELL, V3),
    "zen": (ZEN, V3),
    "four-lanes": (environment_of(V3), V3),
    "eight-lanes": (environment_of(V4), V4),
    "narrow": (HASWELL | environment_of(V3), V3),
}
"""Changes of the environment, and the level that the processor must reach for them."""


def main(arguments: list[str]) -> int:
    """Run pytest under each configuration, all but `narrow` if none is named; 1 if any run failed."""
    at = arguments.index("--") if "--" in arguments else len(arguments)
    names, rest = arguments[:at], arguments[at + 1 :]
    if unknown := set(names) - CONFIGURATIONS.keys():
        print(f"{', '.join(sorted(unknown))}: expected one of {', '.join(CONFIGURATIONS)}", file=sys.stderr)
        return 2
    failed = False
    for name in names or [name for name in CONFIGURATIONS if name != "narrow"]:
        environment, level = CONFIGURATIONS[name]
        described = " ".join(f"{key}={value}" for key, value in environment.items())
        if level not in host_levels():
            print(f"\n{name}: skipped, this processor is none of {level}", flush=True)
            continue
        print(f"\n{name}: {described}", flush=True)
        command = [sys.executable, "-m", "pytest", *rest]
        failed |= subprocess.run(command, env={**os.environ, **environment}).returncode != 0
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
