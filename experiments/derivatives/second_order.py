"""Second derivatives of inverse dynamics: IDSVA SO against automatic differentiation, complex steps and differences.

    python -m experiments.derivatives.second_order [--quick] [--out DIR] [--seed N]
                                                   [--compile-limit N] [--casadi-folder DIR]

Paper 004, figure 3: kinematic trees of N revolute joints, serial and with 2 children a link.  One thread, times per
knot.  Two contests, because moving tensors takes as long as to compute them:

    in lanes    the packed tensors, against the complex step that stores nothing, and against CasADi (extra `peers`),
                which returns the entries that are not zero
    arrays      the four dense tensors, against the complex step and central differences of the first derivatives

CasADi takes the best of its `second_order_candidates`: compiled where one has at most --compile-limit instructions (gcc
takes a second for 5000), else in its virtual machine (VM), 15 to 40 times as slow.  Its functions go over the knots by
its own `map`, which takes 0.1 µs per knot and more.  Ours is called from Python for all knots at once, which takes 5
µs; what that makes of small trees is seen in the lines with 512 knots.
Writes DIR/second_order.json and DIR/second_order.png.
"""

import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator
from rich.table import Table

import dynamics
from dynamics.derivatives.second_order import PackedSecondDerivatives, drive_contract, drive_second_order
from dynamics.simd import LANES, launch
from experiments.derivatives import casadi_peer, complex_step, finite_differences, trees
from experiments.derivatives.algorithm import EXPANSION
from experiments.derivatives.chains import chain
from experiments.derivatives.trees import TREES, by_tree, deviation, draw_ratios, draw_times, of_tree, sizes_of
from experiments.harness import Run, medians, option, records
from experiments.harness.pictures import panels

SIZES = (2, 4, 6, 8, 12, 24, 50, 100)
COMPILED, INTERPRETED = "CasADi, compiled", "CasADi, virtual machine"
STEPS, EXPANDED, CONTRACTED, PACKED = "complex step", "first order + Hessian", "packed contraction", "packed"
DENSE, DENSE_STEPS, DIFFERENCES = "dense", "complex step, arrays", "differences, arrays"
RIVALS = {"CasADi": (COMPILED, INTERPRETED), STEPS: (STEPS,)}
COMPILE_LIMIT = 105_000
"""Instructions that are compiled by default: two minutes for all trees."""
EXPANDABLE = 1_500_000
"""Instructions of CasADi's expanded functions that are made whether or not they are compiled."""
BYTES = 2**28
"""Memory that the results of one call may take."""
VISITS = 30_000_000
"""Instructions of CasADi in one call, about 0.3 s in the virtual machine."""
KNOTS = 64

Calls = dict[str, tuple[Callable[[], object], int]]
"""name -> call, knots of a call"""


# ------------------------------------------------------------------------------------------------ contestants
def in_lanes(model, q, v, a, w) -> tuple[Calls, PackedSecondDerivatives]:
    """Calls that leave their results in lanes (only the packed tensors are stored), and the packed tensors."""
    K, n, block = len(q), model.nv, model.block
    tensors = dynamics.inverse_dynamics_second_derivatives(model, q, v, a, packed=True)
    none = [np.empty((0, n * n)) for _ in range(4)]
    cubes = [np.empty((0, n, n * n)) for _ in range(4)]
    numbers = 2 * complex_step.second_order_size(model)
    calls = {
        PACKED: lambda: drive_second_order(model, q, v, a, None, tensors.chunks),
        EXPANDED: EXPANSION.in_lanes(model, q, v, a, w),
        CONTRACTED: lambda: drive_contract(model, tensors.chunks, w, *none),
        STEPS: lambda: launch(complex_step.drive_second, K, numbers, block, q, v, a, *cubes),
    }
    return {name: (call, K) for name, call in calls.items()}, tensors


def with_arrays(model, q, v, a) -> Calls:
    """Calls that return four arrays (K, nv, nv, nv)."""
    n = model.nv
    x = [y[: knots_that_fit(4 * n**3, len(q))] for y in (q, v, a)]
    few = [y[: knots_that_fit(3 * n**2 * (4 * n + 1), len(x[0]))] for y in x]  # first derivatives at perturbed points
    return {
        DENSE: (lambda: dynamics.inverse_dynamics_second_derivatives(model, *x), len(x[0])),
        DENSE_STEPS: (lambda: complex_step.inverse_dynamics_second_derivatives(model, *x), len(x[0])),
        DIFFERENCES: (lambda: finite_differences.inverse_dynamics_second_derivatives(model, *few), len(few[0])),
    }


def casadi(model, q, v, a, folder: Path, limit: int) -> tuple[Calls, dict[str, float], list[dict]]:
    """Calls of CasADi's functions, their largest deviations from ours, and what they are; nothing without CasADi."""
    try:
        candidates = casadi_peer.second_order_candidates(model, folder, limit, max(EXPANDABLE, 2 * limit))
    except ImportError:
        return {}, {}, []
    ours = dynamics.inverse_dynamics_second_derivatives(model, q[0], v[0], a[0])
    calls, errors, facts = {}, {}, []
    for c in candidates:
        length = c.instructions * (model.nv if "sweeps" in c.name else 1)
        K = min(len(q), max(1, VISITS // length))
        calls[c.name] = casadi_peer.evaluator(c.function, q[:K], v[:K], a[:K]), K
        errors[c.name] = deviation(casadi_peer.tensors(model, c.function(q[0], v[0], a[0])), ours)
        facts.append({"name": c.name, "instructions": length, "knots": K})
    return calls, errors, facts


# ------------------------------------------------------------------------------------------------ measuring
def knots_that_fit(numbers: int, most: int) -> int:
    """At most `most` knots whose results, `numbers` each, stay within BYTES; but a chunk of lanes."""
    return min(most, max(LANES, BYTES // (8 * numbers) // LANES * LANES))


def knots(model, quick: bool) -> list[int]:
    """64 as in trajectory optimization, fewer where the packed tensors take too much memory; 512 besides for small
    trees, to see them without what is done once per call."""
    if quick:
        return [2 * LANES]
    numbers = dynamics.inverse_dynamics_second_derivatives(model, *np.zeros((3, model.nv)), packed=True).entries
    return [knots_that_fit(numbers, KNOTS)] + [512] * (model.nv <= 12)


def measure(model, branching: int, K: int, seconds: float, seed: int, folder: Path, limit: int) -> dict:
    """Microseconds per knot of every contestant, and its largest deviation from IDSVA over the largest entry."""
    q, v, a, w = np.random.default_rng(seed).uniform(-1.0, 1.0, (4, K, model.nv))
    rivals, errors, facts = casadi(model, q, v, a, folder, limit)
    lanes, tensors = in_lanes(model, q, v, a, w)
    arrays = with_arrays(model, q, v, a)
    dense = arrays[DENSE][0]()
    for name in (DENSE_STEPS, DIFFERENCES):
        call, count = arrays[name]
        errors[name] = deviation(call(), [x[:count] for x in dense])
    few = [x[: len(dense[0])] for x in (q, v, a)]
    packed = dynamics.inverse_dynamics_second_derivatives(model, *few, packed=True)
    errors[PACKED] = deviation(packed.dense(), dense)
    del dense, packed
    us: dict[str, float | None] = {}
    for calls in (lanes | rivals, arrays):
        times = medians({name: call for name, (call, _) in calls.items()}, seconds)
        us |= {name: 1e6 * t / calls[name][1] for name, t in times.items()}
    found = {name: us.pop(name) for name in rivals}
    for kind in (COMPILED, INTERPRETED):
        word = kind.removeprefix("CasADi, ")
        us[kind] = min((t for name, t in found.items() if name.endswith(word)), default=None)
    return sizes_of(model, branching, K) | {
        "knots_arrays": arrays[DENSE][1], "knots_differences": arrays[DIFFERENCES][1], "entries": tensors.entries,
        "us": us, "casadi": facts, "us_casadi": found,
        "casadi_by": min(found, key=lambda name: found[name], default=None), "error": errors,
    }  # fmt: skip


# ------------------------------------------------------------------------------------------------ report
def fastest(row: dict, names: Sequence[str]) -> float | None:
    """The shortest of these times; None where none ran."""
    return min((row["us"][name] for name in names if row["us"][name] is not None), default=None)


def ratio(row: dict, rivals: Sequence[str], ours: str) -> float | None:
    """Time of the fastest of these rivals over ours; None where none ran."""
    theirs = fastest(row, rivals)
    return None if theirs is None else theirs / row["us"][ours]


def table_rows(row: dict) -> tuple[dict, dict]:
    """What the two tables show of a measurement."""
    us, by = row["us"], row["casadi_by"]
    lanes = {
        "packed [µs]": us[PACKED], "order 1 + Hessian [µs]": us[EXPANDED],
        "contraction [µs]": us[CONTRACTED], "complex step [µs]": us[STEPS],
        "CasADi [µs]": fastest(row, RIVALS["CasADi"]),
        "CasADi by": by and ("VM" if by.endswith("machine") else "compiled"),
        **{f"{name} / packed": ratio(row, rival, PACKED) for name, rival in RIVALS.items()},
    }  # fmt: skip
    arrays = {
        "dense [µs]": us[DENSE], "complex step [µs]": us[DENSE_STEPS], "differences [µs]": us[DIFFERENCES],
        "complex step / dense": ratio(row, [DENSE_STEPS], DENSE),
        "differences / dense": ratio(row, [DIFFERENCES], DENSE),
        "error of differences": row["error"][DIFFERENCES],
    }  # fmt: skip
    return of_tree(row) | lanes, of_tree(row) | {"knots": row["knots_arrays"]} | arrays


def main_rows(rows: list[dict]) -> list[dict]:
    """Those with `KNOTS` knots or fewer, one for each tree."""
    return [row for row in rows if row["knots"] <= KNOTS]


def exponents(rows: list[dict]) -> list[dict]:
    """Growth with N of what is ours, by tree, over the upper half of the sizes."""
    names = (PACKED, EXPANDED, CONTRACTED, STEPS, DENSE)
    return trees.per_tree(trees.exponents(main_rows(rows), trees.times(names)))


def smallest_ratios(rows: list[dict]) -> dict:
    """Of every ratio the smallest over all trees: ours is the fastest everywhere if it exceeds 1."""
    table = [lanes | arrays for lanes, arrays in map(table_rows, rows)]
    names = [key for key in table[0] if key.endswith(("/ packed", "/ dense"))]
    return {key: min((x[key] for x in table if x[key] is not None), default=None) for key in names}


def tables(results: dict[str, Any]) -> Iterator[Table]:
    """Both contests, growth, and where ours is the least ahead."""
    contests = zip(*map(table_rows, results["rows"]), strict=True)
    for name, rows in zip(("in lanes", "arrays to arrays"), contests, strict=True):
        yield records(f"Second derivatives of inverse dynamics per knot, {name}", rows)
    yield records("Growth with N: exponents", results["exponents"])
    yield records("Smallest ratio over all trees", [results["smallest_ratios"]])


def draw(results: dict[str, Any]) -> Figure:
    """Times in lanes by tree, speed-ups of the packed tensors, speed-ups of the arrays."""
    rows = main_rows(results["rows"])
    in_lanes = {name: (name,) for name in (COMPILED, INTERPRETED, STEPS)}
    in_arrays = {STEPS: (DENSE_STEPS,), "differences": (DIFFERENCES,)}

    def times(tree: str) -> dict:
        shown = {x: (x,) for x in (PACKED, EXPANDED)} | in_lanes
        found = {name: trees.series(rows, tree, lambda r, x=x: fastest(r, x)) for name, x in shown.items()}
        return {name: points for name, points in found.items() if points}

    def gains(rivals: dict[str, Sequence[str]], ours: str) -> dict:
        found = {name: by_tree(rows, lambda r, x=rival: ratio(r, x, ours)) for name, rival in rivals.items()}
        kinds = found[STEPS]
        return {f"{name}, {tree}": found[name][tree] for tree in kinds for name in found if found[name][tree]}

    figure, (serial, branched, lanes, arrays) = panels(4, 2, 5.5, 4.2)
    draw_times(serial, times(TREES[1]), title="Second derivatives in lanes, serial")
    draw_times(branched, times(TREES[2]), title="Second derivatives in lanes, bf = 2")
    draw_ratios(lanes, gains(in_lanes, PACKED), "In lanes: time of others / packed")
    draw_ratios(arrays, gains(in_arrays, DENSE), "Arrays to arrays: time of others / dense")
    sizes = sorted({row["N"] for row in rows})
    for axes in (serial, branched, lanes, arrays):
        axes.set_xticks(sizes, [str(N) for N in sizes])
        axes.xaxis.set_minor_locator(NullLocator())
    return figure


def study(run: Run) -> dict[str, Any]:
    """All trees."""
    options = run.options
    sizes, seconds, limit = ((2, 4), 0.02, 2000) if options.quick else (SIZES, 1.0, COMPILE_LIMIT)
    limit = limit if options.compile_limit is None else options.compile_limit
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as temporary:
        folder = options.casadi_folder or Path(temporary)
        rows = [
            measure(model, b, K, seconds, options.seed, folder, limit)
            for N, b in trees.tracked(run, sizes, (1, 2))
            for model in (chain(N, b),)
            for K in knots(model, options.quick)
        ]
    growth = {"exponents": exponents(rows), "smallest_ratios": smallest_ratios(rows)}
    return {"compile_limit": limit, "rows": rows, **growth}


main = trees.derivatives(
    "second_order", __doc__, study, tables, draw,
    option(
        "--compile-limit", type=int, metavar="N",
        help=f"instructions of a CasADi function that is compiled (default: {COMPILE_LIMIT})",
    ),
    option("--casadi-folder", type=Path, metavar="DIR", help="keep compiled CasADi functions here"),
)  # fmt: skip

if __name__ == "__main__":
    sys.exit(main())
