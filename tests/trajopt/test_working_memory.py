"""A solve finds the bits of one in fresh memory, whatever an earlier one, stopped anywhere, has left there."""

from dataclasses import replace

import numpy as np
import pytest

import dynamics
import problems
import trajopt
from tests.reference.working_memory import GARBAGE, WorkingMemory
from tests.trajopt.test_slots import numbers_of
from tests.trajopt.test_solve_batch import (
    FIELDS,
    limited,
    python_system,
    states_near,
    traced,
    traced_in_a_box,
    traced_rates,
)
from trajopt import DDP, ILQR
from trajopt.backward.slots import _kept
from trajopt.solvers.cycle import cycle_of

ENDS = 0, 1, 2, 4, 7, 12
"""Numbers of iterations after which solves are stopped whose leavings are looked at."""


def differences(found, expected):
    """Indices of what differs."""
    return [i for i, (one, other) in enumerate(zip(found, expected, strict=True)) if one != other]


# ------------------------------------------------------------------------------------------------ batches
BATCHES = {
    "pendulum": (DDP(), lambda: problems.make("pendulum", horizon=30)),
    "cartpole": (DDP(max_iterations=60), lambda: problems.make("cartpole", horizon=60)),
    "limits": (DDP(), lambda: problems.make("pendulum_limits", horizon=60)),  # some ask
    "arm": (ILQR(), lambda: problems.make("arm", horizon=20, dt=0.05)),  # some are held, some rolled out
    "traced": (DDP(), traced),
    "traced, limited": (DDP(), traced_in_a_box),
}


@pytest.mark.parametrize("name", BATCHES)
def test_batches(name):
    solver, make = BATCHES[name]
    problem = make()
    prepared, x0s = solver.prepare(problem), states_near(problem, 4)

    def solved():
        batch = prepared.solve_batch(x0s, workers=1, gains=True)
        return [getattr(batch, name)[i].tobytes() for i in range(len(x0s)) for name in (*FIELDS, "status")]

    expected = solved()
    (arena,) = prepared._arenas
    programs, memory = (arena.by_rollout, arena.by_holding), WorkingMemory(lambda: [arena])
    for x0, most in zip(states_near(problem, len(ENDS), seed=1, spread=0.5), ENDS, strict=True):
        for program in programs:
            program.state["most"] = most
        prepared.solve_batch([x0], workers=1)
        memory.watch()
    for program in programs:
        program.state["most"] = solver.max_iterations
    solved()
    memory.watch()
    for garbage in GARBAGE:
        assert memory.fill(*garbage) > 1000
        assert differences(solved(), expected) == [], garbage
        assert prepared._arenas == [arena]


# ------------------------------------------------------------------------------------------------ single solves
def inverse(**changes):
    """An arm whose sweeps change accelerations."""
    problem = problems.make("arm", horizon=12, dt=0.05)
    system = dynamics.RigidBodySystem(problem.system.model, problem.system.dt, formulation="inverse")
    return replace(problem, system=system, **changes)


def slow_arm(make):
    """An arm whose joints have limits of speed."""
    problem = make()
    speeds = trajopt.StateResidual(problem.system, components=range(6, 12))
    return replace(problem, constraints=[trajopt.ResidualConstraint(speeds, -2.0, 2.0, name="speeds")])


SOLVES = {
    "pendulum": (DDP(), lambda: problems.make("pendulum", horizon=30)),
    "iLQR": (ILQR(), lambda: problems.make("pendulum", horizon=30)),
    "limits": (DDP(), lambda: problems.make("pendulum_limits", horizon=60)),
    "limits as rows": (
        DDP(control_limits="augmented_lagrangian"),
        lambda: problems.make("pendulum_limits", horizon=30),
    ),
    "constraints": (DDP(), limited),
    "soft constraints": (DDP(soft_penalty=10.0), limited),
    "one iteration": (DDP(max_iterations=1), lambda: problems.make("pendulum_limits", horizon=60)),
    "tensors": (DDP(hessian="tensor"), lambda: problems.make("pendulum", horizon=20)),
    "inverse": (DDP(max_iterations=10), inverse),
    "inverse, constraints": (DDP(max_iterations=10), lambda: slow_arm(inverse)),
    "python": (DDP(), python_system),
    "traced": (DDP(), traced),
    "traced, rates": (DDP(), traced_rates),
}


@pytest.mark.parametrize("name", SOLVES)
def test_solves(name):
    """Also from states with gaps, and under a time limit that is never reached."""
    solver, make = SOLVES[name]
    problem = make()
    prepared, x0s = solver.prepare(problem), states_near(problem, 3)

    def line(x0):
        return np.linspace(x0, problem.x0, problem.horizon + 1)

    def solved():
        options = [
            {"xs": line(x0) if gaps else None, "time_limit": t}
            for x0 in x0s[:1]
            for gaps in (0, 1)
            for t in (None, 1e6)
        ]
        found = [prepared.solve(x0s[0], **each) for each in options]
        return [numbers_of(each) for each in (*found, *map(prepared.solve, x0s[1:]))]

    _kept.slots.clear()
    expected = solved()
    memory = WorkingMemory(lambda: [_kept.slots])
    for x0 in states_near(problem, 2, seed=1, spread=0.5):
        for most in ENDS:
            for start in None, line(x0):
                left = iter(range(most))
                prepared.solve(x0, xs=start, callback=lambda progress, left=left: next(left, None) is None)
                memory.watch()
    (slots,) = _kept.slots
    for garbage in GARBAGE:
        assert memory.fill(*garbage) > 500
        assert differences(solved(), expected) == [], garbage
        assert _kept.slots == [slots]
    _kept.slots.clear()


# ------------------------------------------------------------------------------------------------ cycles
CYCLES = {
    "pendulum": lambda: problems.make("pendulum_limits", horizon=60),
    "constraints": limited,
    "arm": lambda: slow_arm(lambda: problems.make("arm", horizon=12, dt=0.05)),
}


@pytest.mark.parametrize("soft", [0.0, 10.0])
@pytest.mark.parametrize("name", CYCLES)
def test_cycles(name, soft, rng):
    """But for the plan, its multipliers and what it predicts, which cycles begin with."""
    problem, solver = CYCLES[name](), DDP(max_iterations=1, soft_penalty=soft)
    plan = DDP(soft_penalty=soft).solve(problem)
    xs = [problem.system.integrate(plan.xs[i], 1e-2 * rng.standard_normal(problem.system.ndx)) for i in (1, 2, 3)]

    def made():
        return cycle_of(solver, solver._curvature(), problem, plan)

    def results_of(cycle):
        found = []
        for x in xs:
            found += cycle(x), *[each.tobytes() for each in (cycle.xs, cycle.us, cycle.K, cycle.costate, cycle.lam)]
        return found

    def begin(cycle):
        fresh = made()
        for name in ("xs", "us", "K", "costate", "lam"):
            getattr(cycle, name)[...] = getattr(fresh, name)
        for name in ("predicted", "penalty"):
            cycle.program.state[name] = fresh.program.state[name]

    expected, cycle = results_of(made()), made()
    memory = WorkingMemory(lambda: [cycle])
    for x in xs:
        cycle(x)
        memory.watch()
    for garbage in GARBAGE:
        assert memory.fill(*garbage) > 500
        begin(cycle)
        assert differences(results_of(cycle), expected) == [], garbage
