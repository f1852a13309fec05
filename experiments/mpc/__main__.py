"""Measure what gains and re-planning are worth under gusts, and what a prepared feedback is when a sample arrives.

    python -m experiments.mpc [--quick] [--out DIR] [--seed N]

Writes DIR/mpc.json (errors and times), DIR/mpc.png (cart and pole) and DIR/samples.png (arm).
"""

import sys
from typing import Any

from rich.table import Table

from experiments.harness import Experiment, Run, quick, seed, table
from experiments.mpc.arm import PATHS
from experiments.mpc.figures import plot, plot_samples
from experiments.mpc.samples import SCHEMES, measure_samples
from experiments.mpc.scene import CONTROLLERS
from experiments.mpc.study import HELD, LEVELS, measure

RUNS, QUICK_RUNS = 20, 2
ARM_RUNS, QUICK_ARM_RUNS = 5, 1


def levels_table(levels: dict[str, Any]) -> Table:
    """Every controller at every level."""
    return table(
        "distance of the tip in the last second [m]",
        ("gusts [N]", "controller"),
        ("median rms", "worst rms", f"within {HELD:g} m"),
        (
            [
                (level, controller, s["median_rms"], s["worst_rms"], f"{s['held']} of {s['runs']}")
                for controller, s in record.items()
            ]
            for level, record in levels.items()
        ),
    )


def samples_table(samples: dict[str, Any]) -> Table:
    """Every scheme on every path."""
    return table(
        f"six-axis arm, target known when it is sampled: off the best torques [N m], {samples['samples']} samples",
        ("target", "scheme"),
        (
            "median", "90 %", "cost", "exact steps", "exact derivatives", "sample to control [us]", "90 %",
            "preparation [ms]",
        ),
        (
            [
                (
                    path, scheme, f"{s['median']:.3f}", f"{s['most']:.2f}", f"{s['cost']:.4f}", _exact(s["steps"]),
                    _exact(s["kinds"]), s["sample_us"], s["sample_most_us"], s["preparation_ms"],
                )
                for scheme, s in record.items()
            ]
            for path, record in samples["paths"].items()
        ),
    )  # fmt: skip


def _exact(kinds: dict[str, int]) -> str | None:
    total = sum(kinds.values())
    return f"{100 * kinds.get('exact', 0) / total:.0f} %" if total else None


def latency_table(latency: dict[str, dict[str, float]]) -> Table:
    """Of calls in a row."""
    return table(
        "prepared feedback, calls in a row, median [us]",
        ("robot",),
        ("feedback(x, p)", "plan(x, p, steps=1)", "one iteration", "prepare_step"),
        [[(robot, *times.values()) for robot, times in latency.items()]],
    )


def study(run: Run) -> dict[str, Any]:
    """All simulations."""
    runs, arm = (QUICK_RUNS, QUICK_ARM_RUNS) if run.options.quick else (RUNS, ARM_RUNS)
    advance = run.counter("runs", len(CONTROLLERS) * sum(runs if level else 1 for level in LEVELS))
    results = measure(runs, run.options.seed, advance)
    advance = run.counter("runs of the arm", len(PATHS) * len(SCHEMES) * arm)
    return {**results, "samples": measure_samples(arm, run.options.seed, advance)}


main = Experiment(
    "mpc",
    __doc__,
    study,
    options=[
        quick(f"{QUICK_RUNS} runs at each level, not {RUNS}, {QUICK_ARM_RUNS} of the arm, not {ARM_RUNS}"),
        seed("gusts, noise and targets"),
    ],
    tables=lambda results: (
        levels_table(results["levels"]),
        samples_table(results["samples"]),
        latency_table(results["samples"]["latency"]),
    ),
    pictures={"mpc.png": plot, "samples.png": lambda results: plot_samples(results["samples"])},
    width=170,
)

if __name__ == "__main__":
    sys.exit(main())
