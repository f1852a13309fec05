"""The measurements, as plain dicts.

Minimum.  Solvers may end in different minima, or in none: a long run must have settled.  Each is held against the
lowest cost among those that ended in the same one as itself (`SAME`), and the table says how far that is above the
best that any of them found from that start.

Iterations to tolerance: the fewest after which the cost is within `TOLERANCE` of that minimum, relative, and gaps and
excess over limits are at most `FEASIBLE`; of the long run, all of whose iterates are kept.

Time.  All solvers take turns.  Total: a run of just that many iterations, everything included.  One iteration: that
less a run of no iterations, over their number, so that set-up and what follows the last step (here, one more expansion
and sweep) cancel.  One exact iteration of DDP: the same of a second solve, which starts where the first one turned to
exact steps for good, and takes nothing but exact steps after its first.
"""

from functools import partial
from typing import Any

import numpy as np

from experiments.harness import in_turns, least_and_median
from experiments.peers.contestants import Contestant, Ours, Outcome, contestants
from experiments.peers.pair import Pair
from experiments.peers.starts import Start

SAME, TOLERANCE, FEASIBLE = 1e-6, 1e-9, 1e-9
LONG_RUN = 500
EXACT_PART = ", exact part"


def iterations_to(path: list[Outcome], target: float) -> int | None:
    """Fewest iterations of a path to within tolerance of the cost `target`; None if it does not come there."""
    return next((end.iterations for end in path if reached(end, target)), None)


def reached(end: Outcome, target: float) -> bool:
    """Whether cost and feasibility are within tolerance."""
    return abs(end.cost / target - 1.0) <= TOLERANCE and end.infeasibility <= FEASIBLE


def last_exact(kinds: tuple[str, ...]) -> int:
    """How many steps come before the exact ones that end a solve; all of them if the last is not exact."""
    first = len(kinds)
    while first > 0 and kinds[first - 1] == "exact":
        first -= 1
    return first


def first_exact(kinds: tuple[str, ...]) -> int:
    """How many exact steps follow the first step before another kind does."""
    return next((i for i, kind in enumerate(kinds[1:]) if kind != "exact"), len(kinds) - 1)


def timings(runs: dict[str, tuple[Contestant, int, int]], repeats: int) -> dict[str, dict[str, float]]:
    """Milliseconds of (contestant, short, long): total of the long run, and one of the iterations between the two."""
    calls = {
        (name, length): partial(contestant.run, length)
        for name, (contestant, *lengths) in runs.items()
        for length in lengths
    }
    samples, result = in_turns(calls, repeats), {}
    for name, (_, short, long) in runs.items():
        (least_brief, brief), (least_whole, whole) = (
            least_and_median(samples[name, length], 1e3) for length in (short, long)
        )
        result[name] = {
            "total_ms": whole,
            "least_total_ms": least_whole,
            "iteration_ms": (whole - brief) / (long - short),
            "least_iteration_ms": (least_whole - least_brief) / (long - short),
        }
    return result


def record(pair: Pair, start: Start, repeats: int, most: int = LONG_RUN) -> dict[str, dict[str, Any]]:
    """Every solver on one problem from one start, in runs of at most so many iterations: name -> figures."""
    solvers = contestants(pair, start)
    stopped = {name: _run(contestant, most, own_stop=True) for name, contestant in solvers.items()}
    paths = {name: contestant.path(most) for name, contestant in solvers.items()}
    good = {name: path[-1].cost for name, path in paths.items() if settled(path, most)}
    best = min(good.values(), default=np.nan)
    rows, runs = {}, {}
    for name, contestant in solvers.items():
        own, iterations = stopped[name], None
        if name in good:
            minimum = min(cost for cost in good.values() if abs(cost / good[name] - 1.0) <= SAME)
            iterations = iterations_to(paths[name], minimum)
        rows[name] = {
            "cost": own.cost,
            "converged": own.converged,
            "infeasibility": own.infeasibility,
            "iterations": own.iterations,
            "above_best": own.cost / best - 1.0,
            "iterations_to_tolerance": iterations,
        }
        if iterations is not None:
            runs[name] = contestant, 0, iterations
            rows[name]["exact_steps"] = paths[name][-1].kinds[:iterations].count("exact")
        if isinstance(contestant, Ours):
            runs |= _exact_run(name, contestant, paths[name][-1].kinds, most)
    for name, times in timings(runs, repeats).items():
        if name in rows:
            rows[name] |= times
        else:
            rows[name.removesuffix(EXACT_PART)]["exact_iteration_ms"] = times["iteration_ms"]
    _add_ratios(rows)
    return rows


def _exact_run(
    name: str, contestant: Ours, kinds: tuple[str, ...], most: int
) -> dict[str, tuple[Contestant, int, int]]:
    """The run that times exact iterations of a solve that took steps of these kinds; none if it ended without any."""
    first = last_exact(kinds)
    if first == len(kinds):
        return {}
    tail = contestant.exact_tail(first)
    exact = first_exact(_run(tail, most).kinds)
    return {name + EXACT_PART: (tail, 1, 1 + exact)} if exact > 0 else {}


def settled(path: list[Outcome], most: int) -> bool:
    """Whether a run of at most so many iterations ended in a minimum: feasible, and half as many lead to its cost."""
    end, half = path[-1], path[min(most // 2, len(path) - 1)]
    if not np.isfinite(end.cost) or end.infeasibility > FEASIBLE:
        return False
    return abs(half.cost - end.cost) <= TOLERANCE * abs(end.cost)


def _run(contestant: Contestant, most: int, own_stop: bool = False) -> Outcome:
    contestant.run(most, own_stop)
    return contestant.outcome()


def _add_ratios(rows):
    """Times over those of the first row, Crocoddyl's FDDP or BoxFDDP."""
    reference = next(iter(rows.values()))
    for row in rows.values():
        for name, of in (("total", "total"), ("iteration", "iteration"), ("exact_iteration", "iteration")):
            if f"{name}_ms" in row and f"{of}_ms" in reference:
                row[f"{name}_ratio"] = row[f"{name}_ms"] / reference[f"{of}_ms"]
