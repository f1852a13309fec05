"""One full iteration from one trajectory: expansion, backward pass, and the rollouts of one line search.

Crocoddyl's is a solve of one iteration less a solve of none, which still expands; ours are the calls that the loop
makes.  The trajectories are some iterations into each solver's own solve, where the full step is good.

The contestants take turns of BLOCK calls, of which the first is not counted: it finds the caches full of the others'
data, and Crocoddyl's idle threads still spinning.
"""

import time
from collections.abc import Callable

import crocoddyl  # pyright: ignore[reportMissingImports]
import numpy as np

import trajopt
from experiments.one_iteration import iterations
from experiments.peers import kinova, starts, ur5
from experiments.peers.contestants import controls_for
from experiments.peers.pair import Pair

KNOTS = 100
THEIR_STEPS, OUR_STEPS = 9, 6
REGULARIZATION = 1e-9
BLOCK = 5


def arms() -> list[Pair]:
    """The arms with a hundred knots."""
    return [kinova.pair(inverse=True), ur5.pair(inverse=True, horizon=KNOTS)]


def _theirs(pair: Pair, start: starts.Start) -> dict[str, Callable[[], object]]:
    solver = crocoddyl.SolverFDDP(pair.theirs)
    solver.solve(list(start.theirs), controls_for(pair.theirs, start.us), THEIR_STEPS, start.feasible)
    xs, us = [np.array(x) for x in solver.xs], [np.array(u) for u in solver.us]
    return {
        "none": lambda: solver.solve(xs, us, 0, True, REGULARIZATION),
        "one": lambda: solver.solve(xs, us, 1, True, REGULARIZATION),
    }


def single_iterations(
    pair: Pair, repeats: int, start: starts.Start | None = None, steps: int = OUR_STEPS
) -> dict[str, dict[str, float]]:
    """Median and least microseconds of every kind of iteration, and their ratios to Crocoddyl's FDDP.

    start: where the solves begin that lead to the trajectories, by default `starts.still`; ours takes so many steps."""
    start = starts.still(pair) if start is None else start
    xs = None if start.feasible else start.ours
    near = trajopt.ILQR(max_iterations=steps).solve(pair.ours, us=start.us, xs=xs).us
    calls = {f"Crocoddyl FDDP, {name}": call for name, call in _theirs(pair, start).items()}
    calls |= iterations(pair.ours, near)
    if pair.inverse is not None:
        calls |= {f"{name}, inverse dynamics": call for name, call in iterations(pair.inverse, near).items()}
    samples: dict[str, list[float]] = {name: [] for name in calls}
    for turn in range(repeats + 1):
        for name, call in calls.items():
            for i in range(BLOCK):
                begin = time.perf_counter()
                call()
                if turn > 0 and i > 0:  # the first turn only warms up
                    samples[name].append(1e6 * (time.perf_counter() - begin))
    median = {name: float(np.median(values)) for name, values in samples.items()}
    least = {name: float(np.min(values)) for name, values in samples.items()}
    rows = {"Crocoddyl FDDP": [t["Crocoddyl FDDP, one"] - t["Crocoddyl FDDP, none"] for t in (median, least)]}
    rows |= {name: [median[name], least[name]] for name in calls if not name.startswith("Crocoddyl")}
    (reference, least_reference), result = rows["Crocoddyl FDDP"], {}
    for name, (middle, lowest) in rows.items():
        result[name] = {
            "microseconds": middle, "least_microseconds": lowest,
            "ratio": middle / reference, "least_ratio": lowest / least_reference,
        }  # fmt: skip
    return result
