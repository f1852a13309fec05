"""Solve Crocoddyl's example problems in Crocoddyl and here, side by side, and write table, data and figure.

    python -m experiments.peers [--quick] [--unlimited] [--forward] [--out DIR]

Needs the `peers` extra; mim_solvers takes part if it is installed.  Writes DIR/peers.json and DIR/peers.png.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

import crocoddyl  # pyright: ignore[reportMissingImports]
from rich.console import Console
from rich.progress import Progress

from dynamics.simd import num_threads
from experiments.peers import starts
from experiments.peers.figures import plot_times
from experiments.peers.pairs import limited_problems, unlimited_problems
from experiments.peers.single_iteration import arms, single_iterations
from experiments.peers.study import record
from experiments.peers.tables import iterations_table, peers_table

REPEATS, QUICK_REPEATS = 21, 2
ITERATION_REPEATS = {False: 60, True: 2}


def parser() -> argparse.ArgumentParser:
    """The options."""
    description = (__doc__ or "").split("\n", 1)[0]
    result = argparse.ArgumentParser(prog="python -m experiments.peers", description=description)
    result.add_argument("--quick", action="store_true", help=f"the last problem only, {QUICK_REPEATS} repeats")
    result.add_argument("--unlimited", action="store_true", help="without the problems with limits of the controls")
    result.add_argument("--forward", action="store_true", help="without the inverse-dynamics formulation")
    result.add_argument("--out", type=Path, default=Path("results/peers"), help="folder (default: %(default)s)")
    return result


def main(argv: Sequence[str] | None = None) -> int:
    """Run the comparison; returns the exit code."""
    options = parser().parse_args(argv)
    pairs = unlimited_problems(not options.forward)
    if options.quick:
        pairs, repeats = pairs[-1:], QUICK_REPEATS
    else:
        pairs, repeats = pairs + ([] if options.unlimited else limited_problems()), REPEATS
    console, results = Console(width=200), {}
    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("problems", total=2 * len(pairs))
        for pair in pairs:
            entry = {"published": pair.published, "in_python": pair.in_python, "starts": {}}
            for start in (starts.still(pair), starts.example(pair)):
                entry["starts"][start.name] = record(pair, start, repeats)
                progress.advance(task)
            results[pair.name] = entry
    iterations = {
        f"{pair.ours.name}, {pair.ours.horizon} knots": single_iterations(pair, ITERATION_REPEATS[options.quick])
        for pair in arms()
    }
    console.print(peers_table(results), iterations_table(iterations), sep="\n\n")
    options.out.mkdir(parents=True, exist_ok=True)
    threads = {"ours": num_threads(), "crocoddyl": pairs[0].theirs.nthreads}
    data = {"repeats": repeats, "threads": threads, "crocoddyl": crocoddyl.__version__, "problems": results}
    data["single_iterations"] = iterations
    (options.out / "peers.json").write_text(json.dumps(data, indent=1), encoding="utf-8")
    plot_times(results, "still", options.out / "peers.png")
    for file in ("peers.json", "peers.png"):
        console.print(f"wrote {options.out / file}", highlight=False, soft_wrap=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
