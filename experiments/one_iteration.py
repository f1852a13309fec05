"""One full iteration from one trajectory, by the calls that the solvers' loop makes: expansion, sweeps, line search."""

from collections.abc import Callable
from typing import Any

import numpy as np

import trajopt
from trajopt.solvers.formulation import EXACT, Curvature
from trajopt.solvers.line_search import Step, own_merit, search
from trajopt.solvers.solve import formulation_of, takes_accelerations


def iterations(problem: trajopt.Problem, us: np.ndarray) -> dict[str, Callable[[], Step]]:
    """Calls by name, from the rollout of the controls us (N, nu); the full step must be good there.

    The multiplier of the exact iteration is predicted from a sweep there, as after a full step; "not predicted" is what
    the solver does after others.
    """
    posed = formulation_of(problem, None, Curvature())
    iterate = posed.start(us, None)

    def step(model: Any, sweep: Any) -> Step:
        merit, candidates = own_merit(problem.objective.value), posed.candidates(model, sweep)
        found = search(merit, iterate.cost, (sweep.d1, sweep.d2), candidates)[0]
        assert found is not None and found.alpha == 1.0, "the trajectory is not one where the full step is good"
        return found

    def ilqr() -> Step:
        model = posed.expand(iterate)
        return step(model, posed.sweep(model, 0.0))

    before = posed.expand(iterate)
    sweep_before = posed.sweep(before, 0.0)

    def ddp() -> Step:
        model = posed.expand(iterate, True, (before, sweep_before))
        if EXACT not in model.expansions:
            model = posed.with_curvature(model, None)
        return step(model, posed.sweep(model, 0.0, EXACT))

    def unpredicted() -> Step:
        model = posed.expand(iterate, True)
        model = posed.with_curvature(model, posed.sweep(model, 0.0).Vx)
        return step(model, posed.sweep(model, 0.0, EXACT))

    calls = {"iLQR": ilqr, "exact DDP": ddp}
    if not takes_accelerations(problem.system):
        calls["exact DDP, not predicted"] = unpredicted
    return calls
