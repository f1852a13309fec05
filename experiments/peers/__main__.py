"""Solve Crocoddyl's example problems in Crocoddyl and here, side by side, and write table, data and figure.

    python -m experiments.peers [--quick] [--unlimited] [--forward] [--out DIR]

Needs the `peers` extra; mim_solvers takes part if it is installed.  Writes DIR/peers.json and DIR/peers.png.
"""

import sys
from typing import Any

import crocoddyl  # pyright: ignore[reportMissingImports]

from dynamics.simd import num_threads
from experiments.harness import Experiment, Run, option, quick
from experiments.peers import starts
from experiments.peers.figures import plot_times
from experiments.peers.pairs import limited_problems, unlimited_problems
from experiments.peers.single_iteration import arms, single_iterations
from experiments.peers.study import record
from experiments.peers.tables import iterations_table, peers_table

REPEATS, QUICK_REPEATS = 21, 2
ITERATION_REPEATS = {False: 60, True: 2}


def study(run: Run) -> dict[str, Any]:
    """All problems from both starts, and the single iterations."""
    options, results = run.options, {}
    pairs = unlimited_problems(not options.forward)
    if options.quick:
        pairs, repeats = pairs[-1:], QUICK_REPEATS
    else:
        pairs, repeats = pairs + ([] if options.unlimited else limited_problems()), REPEATS
    advance = run.counter("problems", 2 * len(pairs))
    for pair in pairs:
        entry = {"published": pair.published, "in_python": pair.in_python, "starts": {}}
        for start in (starts.still(pair), starts.example(pair)):
            entry["starts"][start.name] = record(pair, start, repeats)
            advance()
        results[pair.name] = entry
    iterations = {
        f"{pair.ours.name}, {pair.ours.horizon} knots": single_iterations(pair, ITERATION_REPEATS[options.quick])
        for pair in arms()
    }
    return {
        "repeats": repeats,
        "threads": {"ours": num_threads(), "crocoddyl": pairs[0].theirs.nthreads},
        "crocoddyl": crocoddyl.__version__,
        "problems": results,
        "single_iterations": iterations,
    }


main = Experiment(
    "peers",
    __doc__,
    study,
    options=[
        quick(f"the last problem only, {QUICK_REPEATS} repeats"),
        option("--unlimited", action="store_true", help="without the problems with limits of the controls"),
        option("--forward", action="store_true", help="without the inverse-dynamics formulation"),
    ],
    tables=lambda results: (peers_table(results["problems"]), iterations_table(results["single_iterations"])),
    pictures={"peers.png": lambda results: plot_times(results["problems"], "still")},
    width=200,
)

if __name__ == "__main__":
    sys.exit(main())
