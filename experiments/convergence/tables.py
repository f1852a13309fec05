"""The tables printed at the end."""

from typing import Any

from rich.box import SIMPLE_HEAD
from rich.table import Table


def problems_table(results: dict[str, Any]) -> Table:
    """Every problem by every solver."""
    table = Table(title="every problem", box=SIMPLE_HEAD, show_edge=False)
    for heading in ("problem", "solver", "status"):
        table.add_column(heading, no_wrap=True)
    for heading in ("iterations", "cost", "same\nminimum", "largest state\ndifference", "last gradient norms", "order"):
        table.add_column(heading, justify="right", no_wrap=True)
    for name, solvers in results.items():
        for solver, r in solvers.items():
            tail = "  ".join(f"{g:.0e}" for g in r["gradient_norm"][-4:])
            table.add_row(
                name, solver, r["status"], str(r["iterations"]), f"{r['cost']:.10g}",
                "yes" if r["same_minimum"] else "no", f"{r['trajectory_difference']:.0e}", tail,
                f"{r['tail_order']:.2f}",
            )  # fmt: skip
        table.add_section()
    return table


def starts_table(results: dict[str, Any]) -> Table:
    """iLQR / DDP from perturbed starts."""
    table = Table(title="perturbed starts, iLQR / DDP", box=SIMPLE_HEAD, show_edge=False)
    for heading in ("problem", "starts"):
        table.add_column(heading, no_wrap=True)
    for heading in (
        "converged", "mean", "median", "max", "ratio of\nmeans", "DDP needs\nfewer", "DDP needs at\nmost ... more",
        "same\nminimum", "largest cost\ndifference",
    ):  # fmt: skip
        table.add_column(heading, justify="right", no_wrap=True)
    for name, record in results.items():
        for group, s in record["summary"].items():
            table.add_row(
                name, f"{group} ({s['starts']})", f"{s['converged']['ilqr']} / {s['converged']['ddp']}",
                f"{s['mean']['ilqr']:.1f} / {s['mean']['ddp']:.1f}",
                f"{s['median']['ilqr']:g} / {s['median']['ddp']:g}", f"{s['max']['ilqr']} / {s['max']['ddp']}",
                f"{s['ratio_of_means']:.2f}", str(s["fewer"]), str(s["most_more"]), str(s["same_minimum"]),
                f"{s['cost_difference']:.0e}",
            )  # fmt: skip
        table.add_section()
    return table
