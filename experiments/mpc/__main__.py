"""Measure what gains and re-planning are worth under gusts, and write data and a figure.

    python -m experiments.mpc [--quick] [--out DIR] [--seed N]

Writes DIR/mpc.json (errors and solve times) and DIR/mpc.png.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from experiments.mpc.figures import plot
from experiments.mpc.scene import CONTROLLERS
from experiments.mpc.study import HELD, LEVELS, study

RUNS, QUICK_RUNS = 20, 2


def parser() -> argparse.ArgumentParser:
    """The options."""
    result = argparse.ArgumentParser(prog="python -m experiments.mpc", description=__doc__.splitlines()[0])
    result.add_argument("--quick", action="store_true", help=f"{QUICK_RUNS} runs at each level, not {RUNS}")
    result.add_argument("--out", type=Path, default=Path("results/mpc"), help="folder (default: %(default)s)")
    result.add_argument("--seed", type=int, default=0, help="seed of the gusts (default: 0)")
    return result


def table(levels: dict) -> Table:
    """Every controller at every level."""
    result = Table(title="distance of the tip in the last second [m]", box=SIMPLE_HEAD, show_edge=False)
    result.add_column("gusts [N]", justify="right")
    result.add_column("controller", no_wrap=True)
    for heading in ("median rms", "worst rms", f"within {HELD:g} m"):
        result.add_column(heading, justify="right", no_wrap=True)
    for level, record in levels.items():
        for controller, s in record.items():
            held = f"{s['held']} of {s['runs']}"
            result.add_row(level, controller, f"{s['median_rms']:.3g}", f"{s['worst_rms']:.3g}", held)
        result.add_section()
    return result


def main(argv: Sequence[str] | None = None) -> int:
    """Run the study; returns the exit code."""
    options = parser().parse_args(argv)
    runs, console = QUICK_RUNS if options.quick else RUNS, Console(width=100)
    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("runs", total=len(CONTROLLERS) * sum(runs if level else 1 for level in LEVELS))
        results = study(runs, options.seed, lambda: progress.advance(task))
    console.print(table(results["levels"]))
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "mpc.json").write_text(json.dumps(results, indent=1), encoding="utf-8")
    plot(results, options.out / "mpc.png")
    for file in ("mpc.json", "mpc.png"):
        console.print(f"wrote {options.out / file}", highlight=False, soft_wrap=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
