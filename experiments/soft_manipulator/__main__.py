"""Solve problems of soft robots by iLQR and DDP, and many targets of the manipulator; write tables, data and figures.

    python -m experiments.soft_manipulator [--targets N | --plans | --truth | --integrators] [--seed N] [--out DIR]

Targets are where the manipulator's tip rests under random tensions.  --plans executes the plans of the problems as they
are by Radau's method, and tells how far from them the tip ends, beside both solvers' iterations; --truth tells it of
plans by several integrators, in finer steps too.  --integrators tells of each, and of two that the library has not, its
order, the energy and the momentum that an undamped rod gains or loses, how far off the tip of a plan is, and what a
step takes.  Writes DIR/soft_manipulator.json and, for each problem, DIR/<problem>_convergence.png, _controls.png and,
of two, _shapes.png.
"""

import itertools
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
from rich.table import Table

import problems
import trajopt
from dynamics.rods.stepping.soft_steps import INTEGRATORS as METHODS
from dynamics.simd import num_threads
from experiments.harness import Experiment, Run, count, either, option, seed, table
from experiments.soft_manipulator.figures import plot_shapes, plot_tensions
from experiments.soft_manipulator.integrators import PLANNED, STEP, SWING, integrator_record
from experiments.soft_manipulator.plain_steps import PLAIN
from experiments.soft_manipulator.study import (
    CLOSED,
    PROBLEMS,
    SOLVERS,
    random_targets,
    solution_record,
    targets_record,
)
from experiments.soft_manipulator.truth import INTEGRATORS, OF_CLOSED_CHAINS, REFINEMENTS, holds, plan_record

TARGETS = 100
DRAWN = ("soft_manipulator_reach", "soft_manipulator_track")
"""With shapes on the way to a place."""


def problems_table(records: dict[str, Any]) -> Table:
    """Every problem and solver, with the cost above the optimum in the last iterations."""

    def row(name: str, solver: str, entry: dict[str, Any]) -> tuple:
        gaps = "  ".join(f"{gap:.0e}" for gap in entry["cost_gaps"][-5:-1])
        figures = entry["iterations"], f"{entry['cost']:.10g}", f"{1e3 * entry['seconds']:.0f}"
        return name, solver, entry["status"], *figures, gaps

    return table(
        "soft robots",
        ("problem", "solver", "status"),
        ("iterations", "cost", "ms", "last cost gaps"),
        ([row(name, solver, entry) for solver, entry in record.items()] for name, record in records.items()),
    )


def targets_table(record: dict[str, Any]) -> Table:
    """Shares and medians over the targets."""
    rows = [
        (
            solver, f"{s['success']:.0%}", f"{s['iterations']:g}", f"{1e3 * s['seconds']:.0f}",
            f"{1e3 * s['distance']:.3g}", f"{1e3 * s['speed']:.3g}",
        )
        for solver, s in record["summary"].items()
    ]  # fmt: skip
    title = f"{len(record['runs'])} targets, the same optimum in {record['same_optimum']:.0%}; medians"
    return table(title, ("solver",), ("success", "iterations", "ms", "distance [mm]", "speed [mm/s]"), [rows])


def truth_table(plans: list[dict[str, Any]]) -> Table:
    """Every plan."""
    rows = [
        (
            *(plan[key] for key in ("problem", "integrator", "solver", "status", "knots", "iterations")),
            f"{plan['cost']:.6g}", plan["ms"], f"{1e3 * plan['off']:.2f}",
            "" if np.isnan(plan["speed_off"]) else f"{plan['speed_off']:.3f}",
        ) for plan in plans
    ]  # fmt: skip
    return table(
        "plans and what becomes of them", ("problem", "integrator", "solver", "status"),
        ("knots", "iterations", "cost", "ms an iteration", "tip off by [mm]", "its velocity [m/s]"), [rows],
    )  # fmt: skip


def plans_table(plans: list[dict[str, Any]]) -> Table:
    """Every plan of the problems as they are, and where DDP takes at most half of iLQR's iterations."""
    by_problem = [plans[k : k + len(SOLVERS)] for k in range(0, len(plans), len(SOLVERS))]
    half = sum(2 * pair[-1]["iterations"] <= pair[0]["iterations"] for pair in by_problem)
    groups = (
        [
            (
                *(plan[key] for key in ("problem", "solver", "status", "iterations", "gauss_newton")),
                f"{plan['left']:.0e}", f"{plan['seconds']:.2f}",
                f"{plan['cost']:.8g}", f"{1e3 * plan['off']:.2f}", f"{plan['part']:.1%}", ("no", "yes")[holds(plan)],
            ) for plan in pair
        ] for pair in by_problem
    )  # fmt: skip
    return table(
        f"plans of soft robots, executed; DDP in at most half of iLQR's iterations: {half} of {len(by_problem)}",
        ("problem", "solver", "status"),
        ("iterations", "of Gauss-Newton", "a late one leaves", "s", "cost", "tip off [mm]", "of way, speed", "holds"),
        groups,
    )  # fmt: skip


def integrators_table(records: list[dict[str, Any]]) -> Table:
    """Every integrator, steps relative to the first."""
    rows = [
        (
            record["integrator"], f"{record['order']:.2f}", f"{record['energy_drift']:.1e}",
            f"{record['momentum_drift']:.1e}", f"{1e3 * record['plan_error']:.2f}",
            f"{record['step_time'] / records[0]['step_time']:.1f}",
        ) for record in records
    ]  # fmt: skip
    columns = "order", f"energy in {SWING:g} s", f"momentum in {SWING:g} s", "plan off by [mm]", "time of a step"
    title = f"integrators; an undamped rod in steps of {1e3 * STEP:g} ms, plans of {PLANNED[0]}"
    return table(title, ("integrator",), columns, [rows[: len(METHODS)], rows[len(METHODS) :]])


def goal_of(problem: trajopt.Problem) -> np.ndarray:
    """The target of the tip, or its path."""
    terminal: Any = problem.terminal_costs[0]
    running: Any = problem.running_costs[-1]
    return running.reference if problem.name == "soft_manipulator_track" else terminal.residual.target


def draw(run: Run, solutions: dict[str, trajopt.Solution]) -> None:
    """The figures of a problem."""
    problem = next(iter(solutions.values())).problem
    run.picture(f"{problem.name}_convergence.png", trajopt.plot_convergence(solutions))
    run.picture(f"{problem.name}_controls.png", plot_tensions(solutions))
    if problem.name in DRAWN:
        run.picture(f"{problem.name}_shapes.png", plot_shapes(solutions["DDP"], goal_of(problem)))


def study(run: Run) -> dict[str, Any]:
    """The problems, and the targets if there are any."""
    options, data = run.options, {"threads": num_threads(), "problems": {}}
    if options.truth:
        every = itertools.product(PROBLEMS, INTEGRATORS, REFINEMENTS, SOLVERS)
        cases = [case for case in every if case[0] not in CLOSED or case[1] == OF_CLOSED_CHAINS]
        return {**data, "plans": [plan_record(*case) for case in run.track(cases, "plans")]}
    if options.plans:
        shipped = run.track([*itertools.product(PROBLEMS, SOLVERS)], "plans")
        return {**data, "shipped": [plan_record(name, None, 1, solver) for name, solver in shipped]}
    if options.integrators:
        every = run.track((*METHODS, *PLAIN), "integrators")
        return {**data, "integrators": [integrator_record(name) for name in every]}
    for name in run.track(PROBLEMS, "problems"):
        solutions = trajopt.compare(problems.make(name), SOLVERS).solutions
        data["problems"][name] = {solver: solution_record(solutions[solver]) for solver in SOLVERS}
        draw(run, solutions)
    if options.targets:
        data["targets"] = targets_record(run.track(random_targets(options.targets, options.seed), "targets"))
    return data


def tables(results: dict[str, Any]) -> Iterator[Table]:
    """Of integrators, of plans, or of problems and of targets."""
    if "integrators" in results:
        yield integrators_table(results["integrators"])
        return
    if "shipped" in results:
        yield plans_table(results["shipped"])
        return
    if "plans" in results:
        yield truth_table(results["plans"])
        return
    yield problems_table(results["problems"])
    if "targets" in results:
        yield targets_table(results["targets"])


main = Experiment(
    "soft_manipulator",
    __doc__,
    study,
    options=[
        either(
            count("--targets", TARGETS, "random ones", least=0),
            option("--plans", action="store_true", help="only the problems' plans, and where they end"),
            option("--truth", action="store_true", help="only plans by several integrators, and where they end"),
            option("--integrators", action="store_true", help="only what each integrator keeps, and what a step takes"),
        ),
        seed("targets"),
    ],
    tables=tables,
)

if __name__ == "__main__":
    sys.exit(main())
