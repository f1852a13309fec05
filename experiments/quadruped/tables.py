"""The tables of the quadruped's own problems, and of the parts of an iteration."""

from typing import Any

from rich.table import Table

from experiments.harness import table
from experiments.quadruped.parts import ITERATION


def gaits_table(results: dict[str, dict[str, dict[str, Any]]]) -> Table:
    """Every problem by every solver."""

    def row(problem: str, solver: str, r: dict[str, Any]) -> tuple:
        return (
            problem, solver, r["status"], f"{r['cost']:.10g}", r["iterations_to"], r["iterations"], r["exact_steps"],
            f"{1e3 * r['seconds_to']:.1f}", f"{r['violation']:.0e}", f"{r['torque_excess']:.0e}",
            f"{r['cone_excess']:.0e}", f"{1e3 * r['drift']:.3f}",
        )  # fmt: skip

    return table(
        "quadruped: iLQR and DDP's Hessian modes",
        ("problem", "solver", "status"),
        (
            "cost", "iterations\nto 1e-9", "all", "exact", "ms to\n1e-9", "violation", "torque\nexcess",
            "cone\nexcess", "drift\n(mm)",
        ),
        ([row(problem, solver, r) for solver, r in rows.items()] for problem, rows in results.items()),
    )  # fmt: skip


def parts_table(times: dict[str, dict[int, float]]) -> Table:
    """A row a part, a column for each number of threads; whole iterations apart."""
    counts = list(next(iter(times.values())))
    rows = {name: (name, *(f"{of_counts[count]:.2f}" for count in counts)) for name, of_counts in times.items()}
    whole = [rows.pop(name) for name in ITERATION if name in rows]
    return table(
        "standing quadruped, us per knot, least of all repeats",
        ("part",),
        [f"{count} thread{'s' if count > 1 else ''}" for count in counts],
        (rows.values(), whole),
    )
