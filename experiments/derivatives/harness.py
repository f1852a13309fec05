"""What the scripts share: measuring, growth exponents, and results as json, table and plot."""

import argparse
import json
import os
import platform
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from rich.console import Console
from rich.table import Table

import dynamics
from dynamics.simd import LANES
from problems.bench import interleaved
from trajopt.plotting.style import COLORS, DASHES, new_figure, save, tidy

TURN = 1e-3  # seconds that one turn of a short call lasts, in repeats


# ------------------------------------------------------------------------------------------------ measuring
def medians(calls: Mapping[str, Callable[[], object]], seconds: float = 1.0, rounds: int = 201) -> dict[str, float]:
    """Median seconds per call of every contestant.

    They take turns, so that a busy machine slows all alike, for at most `rounds` rounds and, after the third, about
    `seconds` seconds in all.  Short calls are repeated within a turn.  Each is called once before anything is timed.
    """
    return interleaved(calls, rounds, TURN, seconds)


def exponent(N: Sequence[float], t: Sequence[float], upper: float = 0.5) -> float:
    """Slope of log t against log N, by least squares over the last `upper` of the points, but no fewer than three.

    Raises ValueError if there are fewer than two points or a number is not positive.
    """
    x, y = np.asarray(N, dtype=float), np.asarray(t, dtype=float)
    if x.shape != y.shape or x.ndim != 1 or x.size < 2:
        raise ValueError(f"N and t: got shapes {x.shape} and {y.shape}, expected two equally long of at least 2 points")
    if not (np.all(x > 0) and np.all(y > 0)):
        raise ValueError("N and t: expected positive numbers")
    last = max(min(3, x.size), round(upper * x.size))
    return float(np.polyfit(np.log(x[-last:]), np.log(y[-last:]), 1)[0])


def deviation(values: Sequence[np.ndarray], expected: Sequence[np.ndarray]) -> float:
    """Largest deviation over the largest entry of an array, of all arrays; where one is zero, over 1."""
    pairs = zip(values, expected, strict=True)
    return max(float(np.abs(x - y).max() / (np.abs(y).max() or 1.0)) for x, y in pairs)


# ------------------------------------------------------------------------------------------------ options, json, table
def arguments(description: str | None) -> argparse.ArgumentParser:
    """Parser of --quick, --out and --seed; description: the script's docstring, of which the first line is shown."""
    parser = argparse.ArgumentParser(description=(description or "").split("\n", 1)[0])
    parser.add_argument("--quick", action="store_true", help="smallest sizes and few rounds, to see that it runs")
    parser.add_argument("--out", type=Path, default=Path("results/derivatives"), help="folder (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the random states (default: 0)")
    return parser


def processor() -> str:
    """The processor's name, as far as the system tells."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def machine() -> dict[str, Any]:
    """What times depend on: processor, lanes, threads, versions."""
    import numba

    return {
        "processor": processor(),
        "cores": os.cpu_count(),
        "lanes": LANES,
        "threads": dynamics.num_threads(),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "numba": numba.__version__,
    }


def write(name: str, results: Mapping[str, Any], out: Path) -> Path:
    """out/name.json with the results and the facts of the machine; returns its path."""
    out.mkdir(parents=True, exist_ok=True)
    path = out / f"{name}.json"
    text = json.dumps({"machine": machine(), **results}, indent=1, default=_plain)
    path.write_text(text + "\n", encoding="utf-8")
    return path


def _plain(value: Any) -> Any:
    """numpy's numbers and arrays as Python's."""
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} is no part of json")


def show(title: str, rows: Sequence[Mapping[str, Any]], console: Console | None = None) -> None:
    """A table with a line per row and a column per key; floats with three digits, None as a dash."""
    table = Table(title=title, title_justify="left")
    for key in rows[0]:
        table.add_column(key, justify="left" if isinstance(rows[0][key], str) else "right")
    for row in rows:
        table.add_row(*(_cell(row.get(key)) for key in rows[0]))
    (console or Console(width=160)).print(table)


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:#.3g}".rstrip(".") if isinstance(value, float) else str(value)


# ------------------------------------------------------------------------------------------------ plots
Series = Mapping[str, tuple[Sequence[float], Sequence[float]]]
"""label -> (N, values)"""


def draw_times(axes: Axes, series: Series, unit: str = "time per knot [µs]", title: str = "") -> None:
    """Times against the number of joints, both logarithmic, the fitted exponent in the legend."""
    for i, (label, (N, t)) in enumerate(series.items()):
        growth = f", $N^{{{exponent(N, t):.1f}}}$" if len(N) > 2 else ""
        axes.loglog(N, t, marker=".", label=label + growth, **_style(i))
    tidy(axes, "joints $N$", unit)
    axes.set_title(title, fontsize=11)
    axes.legend(frameon=False, fontsize=8)


def draw_ratios(axes: Axes, series: Series, title: str = "") -> None:
    """Speed-ups against the number of joints; the line is at 1, and a range beyond 20 is drawn logarithmically."""
    for i, (label, (N, ratio)) in enumerate(series.items()):
        axes.semilogx(N, ratio, marker=".", label=label, **_style(i))
    axes.axhline(1.0, color="0.5", linewidth=1.0)
    if max(max(ratio) for _, ratio in series.values()) > 20.0:
        axes.set_yscale("log")
    else:
        axes.set_ylim(bottom=0.0)
    tidy(axes, "joints $N$", "speed-up [-]")
    axes.set_title(title, fontsize=11)
    axes.legend(facecolor="white", framealpha=0.9, edgecolor="none", fontsize=8)  # over the line at 1


def _style(i: int) -> dict[str, Any]:
    return {"color": COLORS[i % len(COLORS)], "linestyle": DASHES[i % len(DASHES)], "linewidth": 1.4}


def plot(path: Path, *panels: Callable[[Axes], None]) -> Path:
    """A figure with the panels side by side, each drawn by a call with its axes; returns the path."""
    figure = new_figure(5.4 * len(panels), 4.2)
    for axes, draw in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels, strict=True):
        draw(axes)
    save(figure, path)
    return path
