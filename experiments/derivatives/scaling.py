"""How the time of the derivatives grows: with the size of the tree, with the number of knots, and with threads.

    python -m experiments.derivatives.scaling [--quick] [--out DIR] [--seed N]

Growth: with d_k the number of degrees of freedom on the path from k to the root, first order and the Hessian of w'ID
have work for every pair on a path, sum_k d_k = N d of them, and the tensors for every triple, sum_k d_k (d_k + 1) / 2;
besides, all have work for every body.  Times per pair and per triple should therefore fall to constants, times per
operation (counted, see `flops`) be constant throughout, and times grow at most as the pairs and triples do: as N^2 and
N^3 on a serial chain, and little faster than N where every link has two children.                [papers 000, 004]
Exponents are fitted where a kernel's results for one chunk of knots stay in a core's second-level cache, over the upper
half of these sizes; beside them stand the exponents over the upper half of all sizes.
Time per knot should not depend on the number of knots, and two threads should halve it, as far as the machine lets
them: its limit is taken from multiply-adds in registers, which share nothing.

Times are of results in the lanes, as a caller's kernel finds them, one chunk after the other (packed tensors in memory
that is used again and again, but for all knots at once in the part on threads), and with arrays of all results besides.
Sizes, numbers of knots and of threads take turns, so that a machine whose speed drifts bends no curve.
Writes DIR/scaling.json and DIR/scaling.png.
"""

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from rich.table import Table

import dynamics
from dynamics.derivatives.packed import packed_size
from dynamics.simd import LANES
from experiments.derivatives.chains import chain, depths, humanoid
from experiments.derivatives.flops import operations
from experiments.derivatives.main_kernels import (
    FIRST,
    HESSIAN,
    KERNELS,
    TENSORS,
    fma_peak,
    in_lanes,
    slab,
    states,
    with_arrays,
)
from experiments.derivatives.trees import TREES, by_tree, derivatives, draw_times, exponent, in_microseconds
from experiments.harness import Run, medians, records
from experiments.harness.pictures import OVER_LINES, grouped_bars, lines, side_by_side, title
from experiments.harness.timing import on_threads
from problems import arm
from trajopt.plotting.style import tidy

UNITS = {FIRST: "pairs", HESSIAN: "pairs", TENSORS: "triples"}  # what the work of a kernel is proportional to
SIZES = {1: (6, 9, 12, 18, 24, 36, 50, 75), 2: (7, 11, 15, 22, 31, 45, 63, 90, 127)}
TREE_KNOTS, TREE_KNOTS_ARRAYS = 512, 64  # of the smallest trees as many with arrays: a call has its price, too
KNOTS = (64, 128, 256, 512, 1024, 2048, 4096)
THREAD_KNOTS = 256
DEFAULT_CACHE = 1 << 20


# ------------------------------------------------------------------------------------------------ growth
def path_counts(model) -> dict[str, int]:
    """Pairs and triples of degrees of freedom on a common path to the root, repetitions included."""
    depth = depths(model)
    return {"pairs": int(depth.sum()), "triples": int((depth * (depth + 1) // 2).sum())}


def cache_bytes() -> int:
    """Size of a core's second-level cache, as far as the system tells."""
    try:
        text = Path("/sys/devices/system/cpu/cpu0/cache/index2/size").read_text(encoding="ascii").strip()
        return int(text.removesuffix("K")) * 1024
    except (OSError, ValueError):
        return DEFAULT_CACHE


def result_bytes(model) -> dict[str, int]:
    """What a chunk of knots leaves behind, by kernel."""
    n = model.nv
    numbers = {FIRST: 3 * n * n, HESSIAN: 7 * n * n, TENSORS: packed_size(model.arrays)}
    return {name: 8 * LANES * count for name, count in numbers.items()}


def measure(cases: Sequence[tuple], kernels: Iterable[str], seconds: float) -> list[dict]:
    """Microseconds per knot of every kernel, in lanes and with arrays, for cases that take turns with it: a model, its
    states, and how many of these are run with arrays."""
    memory = slab(*(model for model, _, _ in cases))
    lanes = [(in_lanes(model, *x, memory), len(x[0])) for model, x, _ in cases]
    arrays = [(with_arrays(model, *(array[:few] for array in x)), few) for model, x, few in cases]
    rows: list[dict] = [{"us": {}, "us_arrays": {}} for _ in cases]
    for key, calls in (("us", lanes), ("us_arrays", arrays)):
        for name in kernels:
            times = medians({i: of_case[name] for i, (of_case, _) in enumerate(calls)}, seconds)
            for i, (_, knots) in enumerate(calls):
                rows[i][key][name] = 1e6 * times[i] / knots
    return rows


def measure_growth(branching: int, sizes: Sequence[int], quick: bool, seconds: float, seed: int) -> list[dict]:
    """Times and work of every kernel, by number of links."""
    models, K = [chain(N, branching) for N in sizes], 2 * LANES if quick else TREE_KNOTS
    few = [K if N <= 12 else min(K, TREE_KNOTS_ARRAYS) for N in sizes]
    cases = [(model, states(model, K, seed), count) for model, count in zip(models, few, strict=True)]
    found = zip(cases, measure(cases, UNITS, seconds), operations(*models), strict=True)
    return [
        {
            "tree": TREES[branching], "N": model.nv, **path_counts(model), "knots": K, "knots_arrays": count, **us,
            "operations": counts, "result_bytes": result_bytes(model),
        }
        for (model, _, count), us, counts in found
    ]  # fmt: skip


def ns_each(row: dict, name: str) -> float:
    """Nanoseconds per pair or triple."""
    return 1e3 * row["us"][name] / row[UNITS[name]]


def exponents(rows: list[dict], tree: str, name: str, cache: int) -> dict:
    """A kernel's growth with N on a kind of tree, beside that of operations and of pairs or triples, and between which
    limits the time of one of these lies."""

    def growth(value: Callable[[dict], float], some: list[dict], upper: float) -> float:
        return exponent([r["N"] for r in some], [value(r) for r in some], upper)

    sizes, unit = [r for r in rows if r["tree"] == tree], UNITS[name]
    cached = [r for r in sizes if r["result_bytes"][name] <= cache]
    fit = cached[-max(3, round(len(cached) / 2)) :]
    each = [ns_each(r, name) for r in fit]
    operation = [1e6 * r["us"][name] / r["operations"][name] for r in fit]
    return {
        "tree": tree, "kernel": name, "from N": fit[0]["N"], "to N": fit[-1]["N"],
        "time": growth(lambda r: r["us"][name], fit, 1.0),
        "operations": growth(lambda r: r["operations"][name], fit, 1.0),
        "unit": unit, "units": growth(lambda r: r[unit], fit, 1.0),
        "time, all N": growth(lambda r: r["us"][name], sizes, 0.5),
        "arrays, all N": growth(lambda r: r["us_arrays"][name], sizes, 0.5),
        "ns per unit": [min(each), max(each)], "ps per operation": [min(operation), max(operation)],
    }  # fmt: skip


# ------------------------------------------------------------------------------------------------ knots and threads
def measure_knots(robot: str, model, knots: Sequence[int], seconds: float, seed: int) -> list[dict]:
    """Times of every kernel, by number of knots."""
    x = states(model, knots[-1], seed)
    cases = [(model, [array[:K] for array in x], K) for K in knots]
    found = zip(knots, measure(cases, KERNELS, seconds), strict=True)
    return [{"robot": robot, "knots": K, **us} for K, us in found]


def knot_exponents(rows: list[dict]) -> list[dict]:
    """Exponents of the time of a call over the number of knots: 1 is linear."""
    table = []
    for robot in dict.fromkeys(r["robot"] for r in rows):
        some = [r for r in rows if r["robot"] == robot]
        K = [r["knots"] for r in some]
        for name in KERNELS:
            lanes, arrays = ([r["knots"] * r[key][name] for r in some] for key in ("us", "us_arrays"))
            table.append({
                "robot": robot, "kernel": name, "from K": K[0], "to K": K[-1],
                "exponent": exponent(K, lanes, 1.0), "with arrays": exponent(K, arrays, 1.0),
            })  # fmt: skip
    return table


def one_and_two_threads(call: Callable[[], object], seconds: float) -> tuple[float, float]:
    """Seconds of a call on one thread and on two, which take turns."""
    times = medians({str(count): partial(on_threads, count, call) for count in (1, 2)}, seconds)
    return times["1"], times["2"]


def measure_threads(robot: str, model, K: int, seconds: float, seed: int) -> list[dict]:
    """Time per knot on one thread and on two, and the ratio."""
    x = states(model, K, seed)
    lanes, arrays = in_lanes(model, *x), with_arrays(model, *x)
    rows = []
    for name in KERNELS:
        row = {"robot": robot, "kernel": name, "knots": K}
        for suffix, calls in (("", lanes), ("_arrays", arrays)):
            one, two = one_and_two_threads(calls[name], seconds)
            row |= {f"us{suffix}": [1e6 * one / K, 1e6 * two / K], f"speed_up{suffix}": one / two}
        rows.append(row)
    return rows


# ------------------------------------------------------------------------------------------------ tables
def tables(results: dict[str, Any]) -> Iterator[Table]:
    """Growth and its exponents, knots and theirs, threads."""
    growth = [
        {key: r[key] for key in ("tree", "N", "pairs", "triples", "knots")}
        | in_microseconds(r)
        | {f"{name} [ns/{unit[:-1]}]": ns_each(r, name) for name, unit in UNITS.items()}
        for r in results["growth"]
    ]
    yield records("Time per knot, and per pair or triple on a path", growth)
    slopes = [
        {key: " to ".join(f"{y:.3g}" for y in x) if isinstance(x, list) else x for key, x in r.items()}
        for r in results["exponents"]
    ]
    yield records("Exponents of growth with N: of time, of operations, of pairs or triples", slopes)
    knots = [
        {"robot": r["robot"], "knots": r["knots"]}
        | in_microseconds(r)
        | {f"{name}, arrays [µs]": t for name, t in r["us_arrays"].items()}
        for r in results["knots"]
    ]
    yield records("Time per knot", knots)
    yield records("Growth of a call's time with the number of knots", results["knot_exponents"])
    threads = [
        {
            "robot": r["robot"], "kernel": r["kernel"], "knots": r["knots"], "1 thread [µs]": r["us"][0],
            "2 threads [µs]": r["us"][1], "speed-up": r["speed_up"], "speed-up, arrays": r["speed_up_arrays"],
        }
        for r in results["threads"]
    ]  # fmt: skip
    limit = f"two can be {results['thread_limit']:.2f} times as fast as one on this machine"
    yield records(f"Threads, time per knot; {limit}", threads)


# ------------------------------------------------------------------------------------------------ plots
def draw_lines(axes: Axes, series: dict[str, tuple], xlabel: str, ylabel: str, heading: str) -> None:
    """Values that should tend to constants, over x drawn logarithmically."""
    lines(axes, series, xlabel, ylabel, heading)
    axes.set_ylim(0.0, 1.6 * max(max(y) for _, y in series.values()))
    axes.legend(**OVER_LINES, loc="upper left")


def draw_bars(axes: Axes, rows: list[dict], key: str, ylabel: str, heading: str) -> None:
    """A group of bars per robot, a bar per kernel."""
    grouped_bars(axes, rows, "robot", "kernel", lambda row: row[key])
    axes.set_ylim(0.0, 1.4 * max(r[key] for r in rows))
    tidy(axes, "", ylabel)
    title(axes, heading)
    axes.legend(**OVER_LINES, loc="upper left")


def draw(results: dict[str, Any]) -> Figure:
    """Times and times per pair or triple against N, times per knot against the knots, speed-ups."""

    def series(value: Callable[[dict, str], float]) -> dict[str, tuple]:
        found = {name: by_tree(results["growth"], partial(value, name=name)) for name in UNITS}
        kinds = found[FIRST]
        return {f"{name.removeprefix('inverse, ')}, {tree}": found[name][tree] for tree in kinds for name in UNITS}

    def speed_ups(axes: Axes) -> None:
        axes.axhline(results["thread_limit"], color="0.5", linewidth=1.0, label="limit of the machine")
        draw_bars(axes, results["threads"], "speed_up", "speed-up [-]", "Two threads")

    times, each = series(lambda r, name: r["us"][name]), series(ns_each)
    robot, base = results["knots"][-1]["robot"], results["knots"][-1]["us"]
    some = [r for r in results["knots"] if r["robot"] == robot]
    knots = {name: ([r["knots"] for r in some], [r["us"][name] / base[name] for r in some]) for name in KERNELS}
    relative = f"time per knot / that of {some[-1]['knots']} knots [-]"
    return side_by_side(
        lambda axes: draw_times(axes, times, title="Growth with the tree"),
        lambda axes: draw_lines(axes, each, "joints $N$", "time per pair or triple [ns]", "Time of a unit of work"),
        lambda axes: draw_lines(axes, knots, "knots", relative, f"Knots, {robot}"),
        speed_ups,
    )


# ------------------------------------------------------------------------------------------------ all of it
def study(run: Run) -> dict[str, Any]:
    """All three parts."""
    quick, seed = run.options.quick, run.options.seed
    arm6, cache = dynamics.load_urdf(arm.MODEL), cache_bytes()
    sizes, seconds = (dict.fromkeys(SIZES, (3, 7)), 0.01) if quick else (SIZES, 2.0)
    knots, thread_knots = ((LANES, 2 * LANES), LANES) if quick else (KNOTS, THREAD_KNOTS)
    by_knots = {"arm6": arm6} if quick else {"chain 12": chain(12), "humanoid": humanoid()}
    by_threads = {"arm6": arm6} if quick else {"arm6": arm6, "chain 24": chain(24), "humanoid": humanoid()}
    some, few = run.track(by_knots.items(), "knots"), run.track(by_threads.items(), "threads")
    growth = [row for b in run.track(sizes, "trees") for row in measure_growth(b, sizes[b], quick, seconds, seed)]
    knot_rows = [row for robot in some for row in measure_knots(*robot, knots, seconds, seed)]
    thread_rows = [row for robot in few for row in measure_threads(*robot, thread_knots, seconds, seed)]
    one, two = one_and_two_threads(partial(fma_peak, 16 * LANES), seconds)
    kinds = dict.fromkeys(row["tree"] for row in growth)
    dynamics.set_num_threads(1)
    return {
        "cache_bytes": cache, "growth": growth,
        "exponents": [exponents(growth, tree, name, cache) for tree, name in product(kinds, UNITS)],
        "knots": knot_rows, "knot_exponents": knot_exponents(knot_rows), "threads": thread_rows,
        "thread_limit": one / two,
    }  # fmt: skip


main = derivatives("scaling", __doc__, study, tables, draw)

if __name__ == "__main__":
    sys.exit(main())
