"""Time the parts of one iteration on a standing quadruped, and write table and data.

    python -m experiments.quadruped.iteration [--knots N] [--repeats N] [--out DIR]

Writes DIR/iteration.json: least microseconds per knot of every part, for one thread and for two.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from experiments.quadruped.parts import KNOTS, measure
from experiments.quadruped.tables import parts_table

REPEATS = 100


def parser() -> argparse.ArgumentParser:
    """The options."""
    description = (__doc__ or "").split("\n", 1)[0]
    result = argparse.ArgumentParser(prog="python -m experiments.quadruped.iteration", description=description)
    result.add_argument("--knots", type=int, default=KNOTS, metavar="N", help="knots (default: %(default)s)")
    result.add_argument("--repeats", type=int, default=REPEATS, metavar="N", help="repeats (default: %(default)s)")
    result.add_argument("--out", type=Path, default=Path("results/quadruped"), help="folder (default: %(default)s)")
    return result


def main(argv: Sequence[str] | None = None) -> int:
    """Measure; returns the exit code."""
    options = parser().parse_args(argv)
    for name in ("knots", "repeats"):
        if getattr(options, name) < 1:
            parser().error(f"--{name}: got {getattr(options, name)}, wanted at least 1")
    times = measure(options.knots, options.repeats)
    Console(width=100).print(parts_table(times))
    options.out.mkdir(parents=True, exist_ok=True)
    data = {"knots": options.knots, "repeats": options.repeats, "microseconds_per_knot": times}
    (options.out / "iteration.json").write_text(json.dumps(data, indent=1), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
