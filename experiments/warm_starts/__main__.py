"""Measure what warm starts are worth: optima given back, moved initial states, predictive control with a hard goal.

    python -m experiments.warm_starts [--quick] [--out DIR]

Writes DIR/warm_starts.json.
"""

import sys
from typing import Any

from rich.table import Table

import problems
from experiments.harness import Experiment, Run, quick, table
from experiments.warm_starts.cases import cases
from experiments.warm_starts.study import NOISES, SOLVERS, TURNS, cycles, moved, returned, summary

QUICK_CASES = ("pendulum_limits", "pendulum: goal", "reach, 0.8 rad")
QUICK_PROBLEMS = ("pendulum", "cartpole")


def returned_table(records: list[dict[str, Any]]) -> Table:
    """Every problem, and how its solutions come back."""
    rows, names = [], list(dict.fromkeys(one["problem"] for one in records))
    for name in names:
        own = [one for one in records if one["problem"] == name]
        good = [one for one in own if "again" in one]
        rows.append((
            name, len(good), ", ".join(str(one["iterations"]) for one in good) or None,
            ", ".join(str(one["again"]) for one in good) or None,
            sum(one["again"] <= 1 and one["again_status"] == "converged" and one["same"] for one in good),
            ", ".join(one["status"] for one in own if "again" not in one) or None,
        ))  # fmt: skip
    total = [sum(row[i] for row in rows) for i in (1, 4)]
    rows.append(("all", total[0], None, None, total[1], None))
    heads = ("solutions", "iterations", "given back", "at once", "did not converge")
    return table("optima of constrained problems, given back as warm starts", ("problem",), heads, [rows])


def moved_table(records: list[dict[str, Any]]) -> Table:
    """Every problem with a moved initial state."""
    rows = [
        (
            one["problem"], one["solver"], one["move"],
            f"{one['cold']} {one['cold_status']}", f"{one['cold_cost']:.6g}",
            f"{one['warm']} {one['warm_status']}", f"{one['warm_cost']:.6g}",
            " ".join(word for word in ("more", "worse") if one[word]) or None,
        )
        for one in records
    ]  # fmt: skip
    heads = ("cold", "cost", "warm", "cost", "")
    return table("initial states moved in every coordinate", ("problem", "solver", "by"), heads, [rows])


def summary_table(summaries: dict[str, dict[str, Any]]) -> Table:
    """Of these, by solver."""
    rows = [(name, s["count"], s["more"], s["worse"], s["median"]) for name, s in summaries.items()]
    heads = ("starts", "more iterations than cold", "a worse minimum", "iterations, warm over cold, median")
    return table("moved initial states", ("solver",), heads, [rows])


def cycles_table(records: list[dict[str, Any]]) -> Table:
    """Cycles of one iteration."""
    rows = [
        (one["turn"], one["noise"], one["cycles"], *(f"{one[key]:.1e}" for key in ("largest", "median")),
         f"{one['cost']:.6g}", f"{one['best']:.6g}")
        for one in records
    ]  # fmt: skip
    heads = ("cycles", "largest violation", "median", "cost at the end", "of a solve from scratch")
    return table("an arm with a hard pose at the end, one iteration a cycle", ("turn [rad]", "noise"), heads, [rows])


def study(run: Run) -> dict[str, Any]:
    """All tables."""
    small = run.options.quick
    names = QUICK_CASES if small else tuple(cases())
    of_cases = [one for name in run.track(names, "constrained problems") for one in returned(name)]
    pairs = [(name, solver) for name in (QUICK_PROBLEMS if small else problems.names()) for solver in SOLVERS]
    advance, of_states = run.counter("moved states", len(pairs)), []
    for name, solver in pairs:
        of_states += moved(name, solver)
        advance()
    arms = [(turn, noise) for turn in (TURNS[:1] if small else TURNS) for noise in NOISES]
    summaries = {solver: summary([one for one in of_states if one["solver"] == solver]) for solver in SOLVERS}
    return {
        "returned": of_cases, "moved": of_states, "summary": summaries,
        "cycles": [cycles(*arm) for arm in arms],
    }  # fmt: skip


main = Experiment(
    "warm_starts",
    __doc__,
    study,
    options=[quick(f"{len(QUICK_CASES)} constrained problems and {len(QUICK_PROBLEMS)} with moved states, not all")],
    tables=lambda results: (
        returned_table(results["returned"]),
        moved_table(results["moved"]),
        summary_table(results["summary"]),
        cycles_table(results["cycles"]),
    ),
    width=150,
)

if __name__ == "__main__":
    sys.exit(main())
