"""The table printed at the end."""

from typing import Any

from rich.table import Table

from experiments.harness import table
from experiments.peers.study import SAME


def peers_table(results: dict[str, dict[str, Any]]) -> Table:
    """Every problem from every start by every solver."""
    return table(
        "the same problems in both libraries",
        ("problem", "start", "solver"),
        (
            "cost", "above\nbest", "own\nstop", "to\n1e-9", "of them\nexact", "ms per\niteration", "ratio",
            "ms per\nexact one", "ratio", "ms to\n1e-9", "least", "ratio",
        ),
        (
            [(problem + ("*" if entry["in_python"] else ""), start, name, *_cells(row)) for name, row in rows.items()]
            for problem, entry in results.items()
            for start, rows in entry["starts"].items()
        ),
        caption="ratios: to an iteration, or to the whole, of the first row of the problem and start.  "
        "* parts of Crocoddyl's statement are in Python",
    )  # fmt: skip


def iterations_table(results: dict[str, dict[str, dict[str, float]]]) -> Table:
    """One full iteration of every kind."""
    columns = {"microseconds": ".0f", "ratio": ".3f", "least_microseconds": ".0f", "least_ratio": ".3f"}
    return table(
        "one full iteration from one trajectory; ratios to Crocoddyl's FDDP",
        ("problem", "iteration"),
        ("microseconds", "ratio", "least", "ratio of least"),
        (
            [(problem, name, *(f"{row[key]:{form}}" for key, form in columns.items())) for name, row in rows.items()]
            for problem, rows in results.items()
        ),
    )


def _cells(row):
    feasible = row["infeasibility"] <= SAME
    cost = f"{row['cost']:.8g}" if feasible else f"off by {row['infeasibility']:.0e}"
    above = f"{100 * row['above_best']:+.3g} %" if feasible and row["above_best"] > SAME else ""
    stop = str(row["iterations"]) + ("" if row["converged"] else " (not)")
    if row["iterations_to_tolerance"] is None:
        return cost, above, stop, "never", *[""] * 8
    return (
        cost, above, stop, str(row["iterations_to_tolerance"]), str(row["exact_steps"] or ""),
        *_pair(row, "iteration"), *_pair(row, "exact_iteration"), f"{row['total_ms']:.2f}",
        f"{row['least_total_ms']:.2f}", _pair(row, "total")[1],
    )  # fmt: skip


def _pair(row, name):
    """Milliseconds and their ratio, empty where there are none."""
    return tuple(f"{row[key]:.3f}" if key in row else "" for key in (f"{name}_ms", f"{name}_ratio"))
