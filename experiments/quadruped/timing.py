"""The command line of scripts that time calls on a standing quadruped: options, a table, a file of microseconds."""

import argparse
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from experiments.quadruped.parts import KNOTS


def run(
    name: str,
    doc: str,
    repeats: int,
    measure: Callable[[int, int], Any],
    table: Callable[[Any], Table],
    argv: Sequence[str] | None,
) -> int:
    """Measure with the knots and repeats of argv, print the table, write DIR/name.json; returns the exit code.

    Parameters: name of the module in `experiments.quadruped`; its docstring; repeats by default.
    """
    command = argparse.ArgumentParser(
        prog=f"python -m experiments.quadruped.{name}", description=doc.split("\n", 1)[0]
    )
    command.add_argument("--knots", type=int, default=KNOTS, metavar="N", help="knots (default: %(default)s)")
    command.add_argument("--repeats", type=int, default=repeats, metavar="N", help="repeats (default: %(default)s)")
    command.add_argument("--out", type=Path, default=Path("results/quadruped"), help="folder (default: %(default)s)")
    options = command.parse_args(argv)
    for argument in ("knots", "repeats"):
        if getattr(options, argument) < 1:
            command.error(f"--{argument}: got {getattr(options, argument)}, wanted at least 1")
    times = measure(options.knots, options.repeats)
    Console(width=100).print(table(times))
    options.out.mkdir(parents=True, exist_ok=True)
    data = {"knots": options.knots, "repeats": options.repeats, "microseconds_per_knot": times}
    (options.out / f"{name}.json").write_text(json.dumps(data, indent=1), encoding="utf-8")
    return 0
