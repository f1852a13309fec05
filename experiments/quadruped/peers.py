"""The same problems in Crocoddyl: costs, iterations, time, and one iteration by itself."""

from typing import Any

from experiments.peers.single_iteration import single_iterations
from experiments.peers.study import record
from experiments.quadruped import anymal, standing, starts

STEPS, OF_OTHERS = {"ANYmal walk": 5, "ANYmal trot": 5, "ANYmal jump": 12}, 3
"""Steps of ours into a solve after which one iteration is timed, where the full step is good."""


def peer_results(repeats: int, iteration_repeats: int, gaits: bool) -> dict[str, Any]:
    """Problem -> published cost, solvers' figures from every start, and the single iterations."""
    pairs = standing.pairs() + (anymal.pairs() if gaits else [])
    results: dict[str, Any] = {}
    for pair in pairs:
        found = {start.name: record(pair, start, repeats) for start in (starts.held(pair), starts.rollout(pair))}
        single = single_iterations(pair, iteration_repeats, starts.held(pair), STEPS.get(pair.name, OF_OTHERS))
        results[pair.name] = {"published": pair.published, "in_python": False, "starts": found, "single": single}
    return results
