"""The tables printed at the end."""

from typing import Any

from rich.table import Table

from experiments.harness import table


def problems_table(results: dict[str, Any]) -> Table:
    """Every problem by every solver."""

    def row(name: str, solver: str, r: dict[str, Any]) -> tuple:
        return (
            name, solver, r["status"], r["iterations"], f"{r['cost']:.10g}", "yes" if r["same_minimum"] else "no",
            f"{r['trajectory_difference']:.0e}", "  ".join(f"{g:.0e}" for g in r["gradient_norm"][-4:]),
            f"{r['tail_order']:.2f}",
        )  # fmt: skip

    return table(
        "every problem",
        ("problem", "solver", "status"),
        ("iterations", "cost", "same\nminimum", "largest state\ndifference", "last gradient norms", "order"),
        ([row(name, solver, r) for solver, r in solvers.items()] for name, solvers in results.items()),
    )


def starts_table(results: dict[str, Any]) -> Table:
    """iLQR / DDP from perturbed starts."""

    def both(pair: dict[str, float], form: str = "") -> str:
        return f"{pair['ilqr']:{form}} / {pair['ddp']:{form}}"

    def row(name: str, group: str, s: dict[str, Any]) -> tuple:
        return (
            name, f"{group} ({s['starts']})", both(s["converged"]), both(s["mean"], ".1f"), both(s["median"], "g"),
            both(s["max"]), f"{s['ratio_of_means']:.2f}", s["fewer"], s["most_more"], s["same_minimum"],
            f"{s['cost_difference']:.0e}",
        )  # fmt: skip

    return table(
        "perturbed starts, iLQR / DDP",
        ("problem", "starts"),
        (
            "converged", "mean", "median", "max", "ratio of\nmeans", "DDP needs\nfewer", "DDP needs at\nmost ... more",
            "same\nminimum", "largest cost\ndifference",
        ),
        ([row(name, group, s) for group, s in record["summary"].items()] for name, record in results.items()),
    )  # fmt: skip
