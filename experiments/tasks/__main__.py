"""Measure what tasks are made of: distances, free durations, expansions of all problems, systems of a user's own.

    python -m experiments.tasks [--only distances durations expansions users chains] [--quick] [--out DIR] [--seed N]

`distances`: distances of shapes on an arm against coal, gradients against complex steps, Hessians against differences
of these; microseconds a knot of a call for all knots, beside derivatives of the arm's steps.  `durations`: tasks in the
least time from several durations, by iLQR and DDP and, stated once more, by IPOPT; median milliseconds of a solve,
without compilation.  `expansions`: the orders in which errors of the linear and of the quadratic model of a step
vanish, on every problem; wanted are two and three.  `users`: milliseconds an iteration of iLQR and of DDP on systems in
plain Python.  `chains`: seconds until functions of more and more states are traced and differentiated.  coal and
CasADi, of the `peers` extra, are left out where they are not installed.  Writes DIR/tasks.json.
"""

import sys
from typing import Any

import numpy as np

import problems
from experiments.harness import NONE, Experiment, Run, cell, option, quick, seed, table
from experiments.tasks import distances, durations, expansions, users

STATES, COAL_STATES, TURNS = 20, 200, 21
CHAINS = (5, 10, 25)
"""Masses of the chains, of four states each."""
QUICK_STATES, QUICK_COAL_STATES, QUICK_TURNS = 1, 20, 1


def of_distances(run: Run, rng: np.random.Generator) -> dict[str, Any]:
    """Errors of every kind of pair, and times."""
    small, errors = run.options.quick, {}
    states, coal_states, turns = (
        (QUICK_STATES, QUICK_COAL_STATES, QUICK_TURNS) if small else (STATES, COAL_STATES, TURNS)
    )
    for kind in run.track(distances.KINDS, "distances"):
        errors[kind] = {
            **distances.derivative_errors(kind, states, rng), "coal": distances.coal_errors(kind, coal_states, rng),
        }  # fmt: skip
    return {"errors": errors, "us": distances.times(turns, rng)}


def of_durations(run: Run, rng: np.random.Generator) -> dict[str, Any]:
    """Every case, or the first from one duration."""
    chosen, limit = (list(durations.CASES)[:1], 1) if run.options.quick else (list(durations.CASES), None)
    return {name: durations.runs_of(name, lambda: None, limit) for name in run.track(chosen, "durations")}


def of_expansions(run: Run, rng: np.random.Generator) -> dict[str, Any]:
    """Every problem, or the first three at one knot."""
    chosen, count = (problems.names()[:3], 1) if run.options.quick else (problems.names(), None)
    return {name: expansions.orders_of(name, rng, count) for name in run.track(chosen, "expansions")}


def of_users(run: Run, rng: np.random.Generator) -> dict[str, Any]:
    """Every case."""
    turns = QUICK_TURNS if run.options.quick else TURNS
    return {name: users.ratio_of(name, turns) for name in run.track(list(users.CASES), "users")}


def of_chains(run: Run, rng: np.random.Generator) -> list[dict[str, Any]]:
    """Chains from short to long."""
    return [users.preparation_of(masses) for masses in run.track(CHAINS[: 1 if run.options.quick else None], "chains")]


PARTS = {
    "distances": of_distances, "durations": of_durations, "expansions": of_expansions, "users": of_users,
    "chains": of_chains,
}  # fmt: skip


def study(run: Run) -> dict[str, Any]:
    """The parts that are asked for, each with random numbers of its own."""
    return {name: PARTS[name](run, np.random.default_rng(run.options.seed)) for name in run.options.only}


# ------------------------------------------------------------------------------------------------ tables
def small_number(value: float | None) -> str:
    """An error."""
    return NONE if value is None else f"{value:.0e}"


def distance_tables(found: dict[str, Any]):
    """Errors of a kind in a row, and times."""
    rows = []
    for kind, row in found["errors"].items():
        coal = row["coal"] or dict.fromkeys(("error", "deepest", "compared"))
        rows.append((
            kind, small_number(row["gradient"]), row["gradients"], small_number(row["hessian"]), row["hessians"],
            small_number(coal["error"]), coal["compared"], coal["deepest"],
        ))  # fmt: skip
    yield table(
        "distances: errors of gradients, m/rad, of Hessians, relative, and of distances, m, beside coal", ("pair",),
        ("gradient", "of", "Hessian", "of", "coal", "of", "deepest [m]"), [rows],
    )  # fmt: skip
    yield table("twenty pairs on an arm", ("call",), ("us a knot",), [found["us"].items()])


def duration_tables(found: dict[str, Any]):
    """A solve in a row."""
    yield table(
        "minimum time", ("task", "from [s]", "solver", "status"),
        ("T [s]", "cost", "violation", "iterations", "ms"),
        [[
            (
                name, f"{row['start']:g}", row["solver"], row["status"], cell(row["T"], ".6f"),
                cell(row["cost"], ".6f"), small_number(row["violation"]), row["iterations"], 1e3 * row["seconds"],
            )
            for row in rows
        ] for name, rows in found.items()],
    )  # fmt: skip


def expansion_tables(found: dict[str, Any]):
    """A problem in a row."""
    yield table(
        "orders of the errors of a step's models, the farthest from 2 and 3", ("problem",),
        ("states", "controls", "linear", "quadratic", "knots"),
        [[
            (
                name, row["states"], row["controls"],
                *("exact" if row[kind] is None else f"{row[kind]:.3f}" for kind in expansions.WANTED),
                " ".join(map(str, row["knots"])),
            )
            for name, row in found.items()
        ]],
    )  # fmt: skip


def user_tables(found: dict[str, Any]):
    """A case in a row."""
    yield table(
        "systems in plain Python: milliseconds an iteration", ("system", "derivatives", "iLQR", "DDP"),
        ("states", "iterations", "iterations", "ms", "ms", "ratio", "costs apart"),
        [[
            (
                name, row["derivatives"], *(row[solver]["status"] for solver in users.SOLVERS), row["states"],
                *(row[solver][key] for key in ("iterations", "ms") for solver in users.SOLVERS), row["ratio"],
                small_number(row["apart"]),
            )
            for name, row in found.items()
        ]],
    )  # fmt: skip


def chain_tables(found: list[dict[str, Any]]):
    """A chain in a row."""
    columns = "iLQR [s]", "DDP [s]", "again [s]", "step", "Jacobian", "Hessian"
    rows = [
        (str(row["states"]), *(f"{row[key]:.3f}" for key in (*users.SOLVERS, "again")), *row["instructions"])
        for row in found
    ]
    yield table("before the first iteration, and instructions of programs", ("states",), columns, [rows])


TABLES = {
    "distances": distance_tables, "durations": duration_tables, "expansions": expansion_tables, "users": user_tables,
    "chains": chain_tables,
}  # fmt: skip


main = Experiment(
    "tasks",
    __doc__,
    study,
    options=[
        option(
            "--only", nargs="+", choices=PARTS, default=list(PARTS), metavar="PART",
            help=f"which parts (default: all): {', '.join(PARTS)}",
        ),
        quick("few states, problems, tasks and turns"),
        seed("shapes, states, directions and multipliers"),
    ],
    tables=lambda results: [each for name, found in results.items() for each in TABLES[name](found)],
    width=160,
)  # fmt: skip

if __name__ == "__main__":
    sys.exit(main())
