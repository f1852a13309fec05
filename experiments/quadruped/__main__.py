"""Solve the quadruped's problems by iLQR and DDP, and Crocoddyl's in both libraries; write tables, data and figures.

    python -m experiments.quadruped [--quick] [--parts PART ...] [--no-peers] [--starts N] [--out DIR]

own       iterations, cost and feasibility of iLQR and of DDP's Hessian modes on the quadruped's problems
starts    how often both converge from random starts
impulses  those problems with impulses within friction cones
jumps     a jump of Solo12 with limits of torque that are barely reached; needs the `peers` extra
peers     standing robots and ANYmal's gaits beside Crocoddyl, and one iteration by itself; needs the `peers` extra

Writes OUT/quadruped.json, OUT/convergence.png and OUT/<problem>.gif.
"""

import importlib.util
import sys
from collections.abc import Sequence
from typing import Any

import problems
import trajopt
from dynamics.simd import num_threads
from experiments.harness import Experiment, Run, count, option, quick, records, seed
from experiments.ilqr_vs_ddp.study import problem_record, runs_of
from experiments.ilqr_vs_ddp.tables import pairs_table, solvers_table
from experiments.quadruped import impulses
from experiments.quadruped.figures import plot_distances
from experiments.quadruped.gaits import LATE, NAMES, SOLVERS, gait_record
from experiments.quadruped.tables import gaits_table

PARTS = ("own", "starts", "impulses", "jumps", "peers")
REPEATS, ITERATION_REPEATS, STARTS = 5, 30, 10
QUICK = 1
PEERS = ("crocoddyl", "pinocchio", "example_robot_data")


def study(run: Run) -> dict[str, Any]:
    """The parts that are asked for, each with its tables."""
    options, data = run.options, {"threads": num_threads(), "switch_threshold": LATE}
    names = NAMES[:1] if options.quick else NAMES
    data |= {part: {} for part in PARTS}
    if "own" in options.parts:
        data["own"] = own(run, names)
    if "starts" in options.parts and options.starts and not options.quick:
        data["starts"] = basins(run, names)
    elif "starts" in options.parts:
        run.show("left out: random starts, by --quick or --starts 0")
    if "impulses" in options.parts:
        landing = impulses.NAMES[:1] if options.quick else impulses.NAMES
        data["impulses"] = [impulses.record(name) for name in run.track(landing, "impulses")]
        run.show(records("impulses at touch-downs, N s", data["impulses"]))
    if "jumps" in options.parts and options.peers and not options.quick:
        data["jumps"] = jumps(run)
    if "peers" in options.parts and options.peers:
        data["peers"] = peers(run)
    return data


def own(run: Run, names: Sequence[str]) -> dict[str, Any]:
    """Every solver on the quadruped's problems; with a figure, and moving pictures."""
    repeats = QUICK if run.options.quick else REPEATS
    results = {name: gait_record(name, repeats) for name in run.track(names, "own problems")}
    run.show(gaits_table(results))
    run.picture("convergence.png", plot_distances(results))
    for name in names:
        trajopt.animate(SOLVERS["DDP parallel"].solve(problems.make(name)), run.file(f"{name}.gif"))
    return results


def basins(run: Run, names: Sequence[str]) -> dict[str, Any]:
    """iLQR and DDP from random starts of these problems."""
    starts, number = run.options.starts, run.options.seed
    results = {name: problem_record(runs_of(name, starts, number)) for name in run.track(names, "random starts")}
    run.show(solvers_table(results), pairs_table(results))
    return results


def jumps(run: Run) -> list[dict[str, Any]]:
    """The jump with and without limits; nothing where its robot is not installed."""
    if _missing(run, "the jump of Solo12", PEERS[1:]):
        return []
    from experiments.quadruped.jumps import records as jumps_of

    found = jumps_of()
    run.show(records("limits of torque, as shares of the largest without", found))
    return found


def _missing(run: Run, what: str, names: Sequence[str]) -> bool:
    """Whether a library cannot be imported, which is then said."""
    missing = [name for name in names if importlib.util.find_spec(name) is None]
    if missing:
        run.show(f"left out: {what}, for {', '.join(missing)} cannot be imported")
    return bool(missing)


def peers(run: Run) -> dict[str, Any]:
    """The comparison with Crocoddyl; nothing where it is not installed."""
    if _missing(run, "the comparison with Crocoddyl", PEERS):
        return {}
    from experiments.peers.tables import iterations_table, peers_table
    from experiments.quadruped.peers import pair_record, pairs

    repeats = (QUICK, QUICK) if run.options.quick else (REPEATS, ITERATION_REPEATS)
    pairs_of = run.track(pairs(gaits=not run.options.quick), "peers")
    results = {pair.name: pair_record(pair, *repeats) for pair in pairs_of}
    single = {f"{name}, {entry['knots']} knots": entry["single"] for name, entry in results.items()}
    run.show(peers_table(results), iterations_table(single))
    return results


main = Experiment(
    "quadruped",
    __doc__,
    study,
    options=[
        quick("standing only, one repeat, no random starts"),
        option("--parts", nargs="+", choices=PARTS, default=PARTS, help="what to run (default: all)"),
        option("--no-peers", dest="peers", action="store_false", help="without Crocoddyl"),
        count("--starts", STARTS, "random starts", least=0),
        seed("random starts"),
    ],
    width=200,
)

if __name__ == "__main__":
    sys.exit(main())
