"""The table of the quadruped's own problems."""

from typing import Any

from rich.table import Table

from experiments.ilqr_vs_ddp.tables import table


def gaits_table(results: dict[str, dict[str, dict[str, Any]]]) -> Table:
    """Every problem by every solver."""
    result = table(
        "quadruped: iLQR and DDP's Hessian modes",
        ("problem", "solver", "status"),
        (
            "cost", "iterations\nto 1e-8", "all", "exact", "ms to\n1e-8", "violation", "torque\nexcess",
            "cone\nexcess", "drift\n[mm]",
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
