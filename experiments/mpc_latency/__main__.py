"""Measure how long a cycle of predictive control takes, whether memory grows, and what one iteration a cycle loses.

    python -m experiments.mpc_latency [--quick] [--out DIR] [--seed N]

Writes DIR/mpc_latency.json.  A cycle moves the target, shifts the plan and takes one iteration.  Ten problems with
limits of states are controlled so under noise, beside solves to convergence: the ratio of the largest costs of plans,
and how much more was executed.
"""

import sys
from typing import Any

from rich.table import Table

from experiments.harness import Experiment, Run, quick, seed, table
from experiments.mpc_latency.balance import compare
from experiments.mpc_latency.renewed import NOISES, SOLVERS, disturbed
from experiments.mpc_latency.study import WARM_UP, measure
from experiments.mpc_latency.ten import TEN

CYCLES, LONG, RUNS, RENEWALS = 1000, 10_000, 10, 300
QUICK_CYCLES, QUICK_LONG, QUICK_RUNS, QUICK_RENEWALS = 60, 300, 1, 12


def latency_table(latency: dict[str, Any]) -> Table:
    """Every solver, with constraints and without."""
    return table(
        "a cycle of a seven-axis arm, 40 knots [ms]",
        ("solver",),
        ("median", "fastest tenth", "99 %", "update", "shift", "solve", "kernels", "Python", "calls", "full steps"),
        [[
            (
                name, *(f"{s[key]:.2f}" for key in ("median_ms", "fast_ms", "p99_ms")),
                *(f"{ms:.2f}" for ms in s["parts_ms"].values()), f"{s['kernels_ms']:.2f}",
                f"{100 * s['python_share']:.0f} %", f"{s['python_calls']:.0f}", f"{100 * s['full_steps']:.0f} %",
            )
            for name, s in latency.items()
        ]],
    )  # fmt: skip


def loss_table(balance: dict[str, Any]) -> Table:
    """Closed-loop costs of the cart and pole."""
    return table(
        "cart and pole, hard limits and rest at the end: cost of the motion",
        ("solver",),
        ("cost", "with noise", "largest speed", "iterations a cycle"),
        [[
            (
                name, f"{s['cost']:.5f}", f"{s['cost_with_noise']:.5f}", f"{s['largest_speed']:.4f}",
                f"{s['iterations']:.1f}",
            )
            for name, s in balance.items()
        ]],
    )  # fmt: skip


def renewals_table(renewals: list[dict[str, Any]]) -> Table:
    """Every problem, solver and noise."""
    return table(
        "plans renewed by one iteration a cycle, beside solves to convergence",
        ("problem", "solver"),
        ("noise", "largest cost", "ratio", "executed", "violation", "no step", "of these unsaid"),
        [[
            (
                row["problem"], row["solver"], f"{row['noise']:.0e}", f"{row['largest']:.4g}", f"{row['ratio']:.3f}",
                f"{100.0 * row['excess']:+.2f} %", f"{row['violation']:.1g}", f"{row['without']}", f"{row['silent']}",
            )
            for row in renewals
        ]],
    )  # fmt: skip


def memory_line(memory: dict[str, Any]) -> str:
    """How the process grew."""
    return f"memory over {memory['cycles']} constrained cycles: {memory['growth_kb']:+.0f} kB"


def study(run: Run) -> dict[str, Any]:
    """All measurements."""
    small = run.options.quick
    cycles, long = (QUICK_CYCLES, QUICK_LONG) if small else (CYCLES, LONG)
    renewals = QUICK_RENEWALS if small else RENEWALS
    advance = run.counter("cycles", WARM_UP + cycles + long + renewals * len(TEN) * len(NOISES) * (1 + len(SOLVERS)))
    results = measure(cycles, long, run.options.seed, advance)
    return {
        **results,
        "balance": compare(QUICK_RUNS if small else RUNS, run.options.seed),
        "renewals": disturbed(renewals, run.options.seed, advance),
    }


main = Experiment(
    "mpc_latency",
    __doc__,
    study,
    options=[quick(f"{QUICK_CYCLES} cycles, not {CYCLES}"), seed("noise on the state")],
    tables=lambda results: (
        latency_table(results["latency"]),
        memory_line(results["memory"]),
        loss_table(results["balance"]),
        renewals_table(results["renewals"]),
    ),
    width=120,
)

if __name__ == "__main__":
    sys.exit(main())
