"""Solve the quadruped's problems by iLQR and DDP, and Crocoddyl's in both libraries; write tables, data and figures.

    python -m experiments.quadruped [--quick] [--parts PART ...] [--no-peers] [--starts N] [--out DIR]

own       iterations, cost and feasibility of iLQR and of DDP's Hessian modes on the quadruped's problems
starts    how often both converge from random starts
peers     standing robots and ANYmal's gaits beside Crocoddyl, and one iteration by itself; needs the `peers` extra

Writes OUT/quadruped.json, OUT/convergence.png and OUT/<problem>.gif.
"""

import argparse
import importlib.util
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import Progress

import problems
import trajopt
from dynamics.simd import num_threads
from experiments.ilqr_vs_ddp.study import problem_record, runs_of
from experiments.ilqr_vs_ddp.tables import pairs_table, solvers_table
from experiments.quadruped.figures import plot_distances
from experiments.quadruped.gaits import LATE, NAMES, SOLVERS, gait_record
from experiments.quadruped.tables import gaits_table

PARTS = ("own", "starts", "peers")
REPEATS, ITERATION_REPEATS, STARTS = 5, 30, 10
QUICK = 1
PEERS = ("crocoddyl", "pinocchio", "example_robot_data")


def parser() -> argparse.ArgumentParser:
    """The options."""
    description = (__doc__ or "").split("\n", 1)[0]
    result = argparse.ArgumentParser(prog="python -m experiments.quadruped", description=description)
    result.add_argument("--quick", action="store_true", help="standing only, one repeat, no random starts")
    result.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS, help="what to run (default: all)")
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
    names = NAMES[:1] if options.quick else NAMES
    console, data = Console(width=200), {"threads": num_threads(), "switch_threshold": LATE}
    data |= {part: {} for part in PARTS}
    with Progress(console=Console(stderr=True), transient=True) as progress:
        if "own" in options.parts:
            data["own"] = own(console, progress, names, QUICK if options.quick else REPEATS)
        if "starts" in options.parts and options.starts and not options.quick:
            data["starts"] = basins(console, progress, names, options.starts, options.seed)
        elif "starts" in options.parts:
            console.print("left out: random starts, by --quick or --starts 0")
        if "peers" in options.parts and options.peers:
            data["peers"] = peers(console, progress, options.quick)
    write(console, options.out, data)
    return 0


def own(console: Console, progress: Progress, names: Sequence[str], repeats: int) -> dict[str, Any]:
    """Every solver on the quadruped's problems."""
    results = {name: gait_record(name, repeats) for name in progress.track(names, description="own problems")}
    console.print(gaits_table(results))
    return results


def basins(console: Console, progress: Progress, names: Sequence[str], starts: int, seed: int) -> dict[str, Any]:
    """iLQR and DDP from random starts of these problems."""
    results = {
        name: problem_record(runs_of(name, starts, seed)) for name in progress.track(names, description="random starts")
    }
    console.print(solvers_table(results), pairs_table(results), sep="\n\n")
    return results


def peers(console: Console, progress: Progress, quick: bool) -> dict[str, Any]:
    """The comparison with Crocoddyl; nothing where it is not installed."""
    missing = [name for name in PEERS if importlib.util.find_spec(name) is None]
    if missing:
        console.print(f"left out: the comparison with Crocoddyl, for {', '.join(missing)} cannot be imported")
        return {}
    from experiments.peers.tables import iterations_table, peers_table
    from experiments.quadruped.peers import pair_record, pairs

    repeats = (QUICK, QUICK) if quick else (REPEATS, ITERATION_REPEATS)
    pairs_of = progress.track(pairs(gaits=not quick), description="peers")
    results = {pair.name: pair_record(pair, *repeats) for pair in pairs_of}
    single = {f"{name}, {entry['knots']} knots": entry["single"] for name, entry in results.items()}
    console.print(peers_table(results), iterations_table(single), sep="\n\n")
    return results


def write(console: Console, out: Path, data: dict[str, Any]) -> None:
    """Data; a figure and moving pictures of the problems that were solved."""
    out.mkdir(parents=True, exist_ok=True)
    (out / "quadruped.json").write_text(json.dumps(data, indent=1), encoding="utf-8")
    files = ["quadruped.json"]
    if data["own"]:
        plot_distances(data["own"], out / "convergence.png")
        files.append("convergence.png")
    for name in data["own"]:
        trajopt.animate(SOLVERS["DDP parallel"].solve(problems.make(name)), out / f"{name}.gif")
        files.append(f"{name}.gif")
    for file in files:
        console.print(f"wrote {out / file}", highlight=False, soft_wrap=True)


if __name__ == "__main__":
    sys.exit(main())
