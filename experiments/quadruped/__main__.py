"""Solve the quadruped's problems by iLQR and DDP, and Crocoddyl's in both libraries; write tables, data and figures.

    python -m experiments.quadruped [--quick] [--no-peers] [--starts N] [--out DIR]

Without the `peers` extra the comparison with Crocoddyl is left out.  Writes OUT/quadruped.json, OUT/convergence.png and
OUT/<problem>.gif.
"""

import argparse
import importlib.util
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.progress import Progress

import problems
import trajopt
from experiments.ilqr_vs_ddp.study import problem_record, runs_of
from experiments.ilqr_vs_ddp.tables import pairs_table, solvers_table
from experiments.quadruped.figures import plot_distances
from experiments.quadruped.gaits import LATE, NAMES, SOLVERS, gait_record
from experiments.quadruped.tables import gaits_table

REPEATS, ITERATION_REPEATS, STARTS = 7, 60, 30
QUICK = 1


def parser() -> argparse.ArgumentParser:
    """The options."""
    description = (__doc__ or "").split("\n", 1)[0]
    result = argparse.ArgumentParser(prog="python -m experiments.quadruped", description=description)
    result.add_argument("--quick", action="store_true", help="standing only, one repeat, no random starts")
    result.add_argument("--no-peers", dest="peers", action="store_false", help="without Crocoddyl")
    result.add_argument("--starts", type=int, default=STARTS, metavar="N", help="random starts (default: %(default)s)")
    result.add_argument("--seed", type=int, default=0, help="seed of the random starts (default: 0)")
    result.add_argument("--out", type=Path, default=Path("results/quadruped"), help="folder (default: %(default)s)")
    return result


def main(argv: Sequence[str] | None = None) -> int:
    """Run the study; returns the exit code."""
    options = parser().parse_args(argv)
    if options.starts < 0:
        parser().error(f"--starts: got {options.starts}, wanted at least 0")
    names, repeats = (NAMES[:1], QUICK) if options.quick else (NAMES, REPEATS)
    starts = 0 if options.quick else options.starts
    own, basin = {}, {}
    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("", total=len(names))
        for name in names:
            progress.update(task, description=name)
            own[name] = gait_record(name, repeats)
            if starts:
                basin[name] = problem_record(runs_of(name, starts, options.seed))
            progress.advance(task)
    console = Console(width=200)
    console.print(gaits_table(own))
    if basin:
        console.print(solvers_table(basin), pairs_table(basin), sep="\n\n")
    peers = with_peers(console, options.quick) if options.peers else {}
    write(console, options.out, {"own": own, "starts": basin, "peers": peers})
    return 0


def with_peers(console: Console, quick: bool) -> dict:
    """The comparison with Crocoddyl; nothing where it is not installed."""
    if any(importlib.util.find_spec(name) is None for name in ("crocoddyl", "example_robot_data")):
        console.print("Crocoddyl or example-robot-data is not installed: no comparison")
        return {}
    from experiments.peers.tables import iterations_table, peers_table
    from experiments.quadruped.peers import peer_results

    repeats = QUICK if quick else REPEATS
    results = peer_results(repeats, QUICK if quick else ITERATION_REPEATS, gaits=not quick)
    single = {name: entry["single"] for name, entry in results.items()}
    console.print(peers_table(results), iterations_table(single), sep="\n\n")
    return results


def write(console: Console, out: Path, data: dict) -> None:
    """Data, figure, and a moving picture of every problem."""
    out.mkdir(parents=True, exist_ok=True)
    (out / "quadruped.json").write_text(json.dumps({"switch_threshold": LATE, **data}, indent=1), encoding="utf-8")
    plot_distances(data["own"], out / "convergence.png")
    files = ["quadruped.json", "convergence.png"]
    for name in data["own"]:
        trajopt.animate(SOLVERS["DDP parallel"].solve(problems.make(name)), out / f"{name}.gif")
        files.append(f"{name}.gif")
    for file in files:
        console.print(f"wrote {out / file}", highlight=False, soft_wrap=True)


if __name__ == "__main__":
    sys.exit(main())
