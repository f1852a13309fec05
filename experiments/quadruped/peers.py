"""The same problems in Crocoddyl: costs, iterations, time, and one iteration by itself."""

from typing import Any

from experiments.peers.pair import Pair
from experiments.peers.single_iteration import single_iterations
from experiments.peers.study import record
from experiments.quadruped import anymal, standing, starts

MOST = 100
"""Iterations of a run."""
STEPS, OF_OTHERS = {"ANYmal walk": 5, "ANYmal trot": 5, "ANYmal jump": 12}, 3
"""Steps of ours into a solve after which one iteration is timed, where the full step is good."""


def pairs(gaits: bool) -> list[Pair]:
    """The standing robots, and the gaits if asked for."""
    return standing.pairs() + (anymal.pairs() if gaits else [])


def pair_record(pair: Pair, repeats: int, iteration_repeats: int) -> dict[str, Any]:
    """Published cost, solvers' figures from every start, and the single iterations."""
    held, rollout = starts.held(pair), starts.rollout(pair)
    return {
        "published": pair.published,
        "in_python": pair.in_python,
        "knots": pair.ours.horizon,
        "starts": {start.name: record(pair, start, repeats, MOST) for start in (held, rollout)},
        "single": single_iterations(pair, iteration_repeats, held, STEPS.get(pair.name, OF_OTHERS)),
    }
