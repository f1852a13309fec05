"""The tables of the quadruped's own problems, and of the parts of an iteration."""

from typing import Any

from rich.box import SIMPLE_HEAD
from rich.table import Table

from experiments.ilqr_vs_ddp.tables import table
from experiments.quadruped.parts import ITERATION


def gaits_table(results: dict[str, dict[str, dict[str, Any]]]) -> Table:
    """Every problem by every solver."""
    result = table(
        "quadruped: iLQR and DDP's Hessian modes",
        ("problem", "solver", "status"),
        (
            "cost", "iterations\nto 1e-9", "all", "exact", "ms to\n1e-9", "violation", "torque\nexcess",
            "cone\nexcess", "drift\n(mm)",
        ),
    )  # fmt: skip
    for problem, rows in results.items():
        for solver, row in rows.items():
            result.add_row(
                problem, solver, row["status"], f"{row['cost']:.10g}", str(row["iterations_to"]),
                str(row["iterations"]), str(row["exact_steps"]), f"{1e3 * row['seconds_to']:.1f}",
                f"{row['violation']:.0e}", f"{row['torque_excess']:.0e}", f"{row['cone_excess']:.0e}",
                f"{1e3 * row['drift']:.3f}",
            )  # fmt: skip
        result.add_section()
    return result


def parts_table(times: dict[str, dict[int, float]]) -> Table:
    """A row a part, a column for each number of threads."""
    counts = list(next(iter(times.values())))
    result = Table(title="standing quadruped, us per knot, least of all repeats", box=SIMPLE_HEAD, show_edge=False)
    result.add_column("part", no_wrap=True)
    for count in counts:
        result.add_column(f"{count} thread{'s' if count > 1 else ''}", justify="right", no_wrap=True)
    for name, of_counts in times.items():
        if name == ITERATION[0]:
            result.add_section()
        result.add_row(name, *(f"{of_counts[count]:.2f}" for count in counts))
    return result
