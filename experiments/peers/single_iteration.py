"""One full iteration from one trajectory: expansion, backward pass, and the rollouts of one line search.

Crocoddyl's is a solve of one iteration less a solve of none, which still expands; ours are the calls that the loop
makes.  The trajectories are some iterations into each solver's own solve, where the full step is good.

The contestants take turns of BLOCK calls, of which the first is not counted: it finds the caches full of the others'
data, and Crocoddyl's idle threads still spinning.
"""

from collections.abc import Callable

import crocoddyl  # pyright: ignore[reportMissingImports]
import numpy as np

import trajopt
from experiments.harness import in_turns, least_and_median
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
    samples = in_turns(calls, repeats, block=BLOCK, warm=1)
    times = {name: np.array(least_and_median(seconds, 1e6)) for name, seconds in samples.items()}
    rows = {"Crocoddyl FDDP": times["Crocoddyl FDDP, one"] - times["Crocoddyl FDDP, none"]}
    rows |= {name: both for name, both in times.items() if not name.startswith("Crocoddyl")}
    ratios = {name: both / rows["Crocoddyl FDDP"] for name, both in rows.items()}
    return {
        name: {
            "microseconds": float(middle), "least_microseconds": float(lowest),
            "ratio": float(ratios[name][1]), "least_ratio": float(ratios[name][0]),
        }
        for name, (lowest, middle) in rows.items()
    }  # fmt: skip
