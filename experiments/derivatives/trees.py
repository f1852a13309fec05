"""The harness of experiments on derivatives: contests on trees of N joints, growth with N, and their pictures."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from experiments.derivatives.algorithm import Algorithm
from experiments.derivatives.chains import chain, depths
from experiments.harness import Experiment, Option, Run, medians, quick, seed
from experiments.harness.pictures import OVER_LINES, lines

TREES = {1: "serial", 2: "bf = 2", 5: "bf = 5"}
"""Children of every link -> name."""
SIZES = (2, 3, 4, 6, 8, 12, 16, 24, 36, 50, 75, 100, 150, 250, 500)
"""Joints, where only two matrices are computed."""
MANY, FEW = 100, 16
"""Joints from which on only so many knots are run with arrays: more would not fit."""
Row = dict[str, Any]
Value = Callable[[Row], float | None]
Points = tuple
"""N and values, each a sequence; empty where there are none."""
Peer = tuple[Callable[[], object], Callable[[], Sequence[np.ndarray]]]
"""A call at some points, and what gives the derivatives at the last of them."""


def derivatives(
    name: str, doc: str | None, study: Callable[[Run], Row], tables: Callable, draw: Callable, *options: Option, **other
) -> Experiment:
    """The experiment `experiments.derivatives.NAME` with the picture NAME.png, on one thread if nothing else is said;
    its JSON has the seed.

    Parameters: options, besides --quick and --seed; other, settings of `Experiment`.
    """
    return Experiment(
        f"derivatives.{name}",
        doc,
        lambda run: {"seed": run.options.seed, **study(run)},
        options=[quick("smallest sizes and few rounds, to see that it runs"), seed("random states"), *options],
        tables=tables,
        pictures={f"{name}.png": draw},
        **{"width": 180, "threads": 1} | other,
    )


# ------------------------------------------------------------------------------------------------ measuring
def tracked(run: Run, sizes: Sequence[int], branchings: Iterable[int] = tuple(TREES)) -> Iterator[tuple[int, int]]:
    """Number of joints and children of every link, all trees one by one with a bar of progress."""
    return ((N, b) for b, N in run.track(list(product(branchings, sizes)), "trees"))


def deviation(values: Sequence[np.ndarray], expected: Sequence[np.ndarray]) -> float:
    """Largest deviation over the largest entry of an array, of all arrays; where one is zero, over 1."""
    pairs = zip(values, expected, strict=True)
    return max(float(np.abs(x - y).max() / (np.abs(y).max() or 1.0)) for x, y in pairs)


def microseconds(calls: Mapping[Any, Callable[[], object]], knots: int, seconds: float) -> dict[Any, float]:
    """Medians per knot of calls for so many knots, which take turns for about so many seconds."""
    return {name: 1e6 * t / knots for name, t in medians(calls, seconds).items()}


def contest(
    algorithms: Mapping[str, Algorithm],
    N: int,
    branching: int,
    K: int,
    seconds: float,
    seed: int,
    peers: Mapping[str, Callable[..., Peer | None]] | None = None,
) -> Row:
    """Microseconds per knot of every algorithm in the lanes and with arrays, and its largest deviation from the first
    over the largest entry.

    Parameters: peers, name -> function(model, q, v, u), which gives None where there is no such peer; they are timed
    among those with arrays.
    """
    model = chain(N, branching)
    points = np.random.default_rng(seed).uniform(-1.0, 1.0, (3, K, N))
    some = points[:, : K if N <= MANY else FEW]
    results = {name: algorithm(model, *some) for name, algorithm in algorithms.items()}
    expected = next(iter(results.values()))
    errors = {name: deviation(x, expected[: len(x)]) for name, x in results.items()}
    lanes = {name: algorithm.in_lanes(model, *points) for name, algorithm in algorithms.items()}
    arrays: dict = {name: lambda f=f: f(model, *some) for name, f in algorithms.items()}
    for name, make in (peers or {}).items():
        if peer := make(model, *some):
            arrays[name], derivatives = peer
            arrays[name]()
            errors[name] = deviation(derivatives(), [x[-1] for x in expected])
    del results, expected
    return sizes_of(model, branching, K) | {
        "knots_arrays": some.shape[1], "us": microseconds(lanes, K, seconds),
        "us_arrays": microseconds(arrays, some.shape[1], seconds), "error": errors,
    }  # fmt: skip


def of_tree(row: Row) -> Row:
    """What a table begins with."""
    return {key: row[key] for key in ("tree", "N", "depth", "knots")}


def in_microseconds(row: Row) -> Row:
    """The times in the lanes, as a table shows them."""
    return {f"{name} [µs]": t for name, t in row["us"].items()}


def sizes_of(model, branching: int, knots: int) -> Row:
    """What a row begins with."""
    tree = {"tree": TREES[branching], "N": model.nv, "branching": branching}
    return tree | {"depth": int(depths(model).max()), "knots": knots}


def ratio(a: str, b: str) -> Callable[[Row], float]:
    """Time of a over that of b, in the lanes."""
    return lambda row: row["us"][a] / row["us"][b]


# ------------------------------------------------------------------------------------------------ growth
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


def series(rows: Iterable[Row], tree: str, value: Value) -> Points:
    """N and values of the trees of one kind, where there is a value."""
    points = [(r["N"], value(r)) for r in rows if r["tree"] == tree]
    return tuple(zip(*(p for p in points if p[1] is not None), strict=True))


def by_tree(rows: Sequence[Row], value: Value) -> dict[str, Points]:
    """Kind of tree -> `series`, for all kinds among the rows."""
    return {tree: series(rows, tree, value) for tree in dict.fromkeys(r["tree"] for r in rows)}


def exponents(rows: Sequence[Row], values: Mapping[str, Value]) -> dict[str, dict[str, float]]:
    """Kind of tree -> name -> growth of this value with N, over the upper half of the sizes."""
    found = {name: by_tree(rows, value) for name, value in values.items()}
    kinds = next(iter(found.values()))
    return {tree: {name: exponent(*of_trees[tree]) for name, of_trees in found.items()} for tree in kinds}


def times(names: Iterable[str]) -> dict[str, Value]:
    """The times in the lanes of these algorithms."""
    return {name: lambda row, name=name: row["us"][name] for name in names}


def per_tree(values: Mapping[str, Mapping[str, Any]]) -> list[Row]:
    """Kind of tree -> name -> figure as rows of a table."""
    return [{"tree": tree, **of_tree} for tree, of_tree in values.items()]


# ------------------------------------------------------------------------------------------------ pictures
def draw_times(axes: Axes, series: Mapping[str, Points], unit: str = "time per knot [µs]", title: str = "") -> None:
    """Times against the number of joints, both logarithmic, the fitted exponent in the legend."""
    named = {
        label + (f", $N^{{{exponent(*points):.1f}}}$" if len(points[0]) > 2 else ""): points
        for label, points in series.items()
    }
    lines(axes, named, "joints $N$", unit, title)
    axes.set_yscale("log")
    axes.legend(frameon=False, fontsize=8)


def draw_ratios(axes: Axes, series: Mapping[str, Points], title: str = "") -> None:
    """Speed-ups against the number of joints; the line is at 1, and a range beyond 20 is drawn logarithmically."""
    lines(axes, series, "joints $N$", "speed-up [-]", title)
    axes.axhline(1.0, color="0.5", linewidth=1.0)
    if max(max(ratio) for _, ratio in series.values()) > 20.0:
        axes.set_yscale("log")
    else:
        axes.set_ylim(bottom=0.0)
    axes.legend(**OVER_LINES)  # over the line at 1
