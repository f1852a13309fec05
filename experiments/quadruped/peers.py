"""The same problems in Crocoddyl: costs, iterations, time, and one iteration by itself."""

from typing import Any

from experiments.peers.single_iteration import single_iterations
from experiments.peers.study import record
from experiments.quadruped import anymal, standing, starts

STANDING_STEPS, GAIT_STEPS = 3, 5
"""Steps of ours into a solve after which one iteration is timed."""


def peer_results(repeats: int, iteration_repeats: int, gaits: bool) -> dict[str, Any]:
    """Problem -> published cost, solvers' figures from every start, and the single iterations."""
    pairs = [(pair, STANDING_STEPS) for pair in standing.pairs()]
    if gaits:
        pairs += [(pair, GAIT_STEPS) for pair in anymal.pairs()]
    results: dict[str, Any] = {}
    for pair, steps in pairs:
        found = {start.name: record(pair, start, repeats) for start in (starts.held(pair), starts.rollout(pair))}
        single = single_iterations(pair, iteration_repeats, starts.rollout(pair), steps)
        results[pair.name] = {"published": pair.published, "in_python": False, "starts": found, "single": single}
    return results
