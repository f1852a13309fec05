"""Growth, share of peak and memory of the derivatives: the scripts run, and what they count is right."""

import json
import math

import numpy as np
import pytest

import dynamics
from dynamics.simd import LANES, aligned_empty
from experiments.derivatives import main_kernels, memory, peak, scaling
from experiments.derivatives.chains import chain
from experiments.derivatives.flops import operations
from experiments.derivatives.main_kernels import FIRST, FORWARD, HESSIAN, KERNELS, TENSORS


def numbers(value):
    """All numbers in nested dicts and lists."""
    if isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from numbers(item)
    elif isinstance(value, int | float):
        yield value


def run(script, out, capsys):
    """What a quick run writes; the threads are what they were."""
    threads, name = dynamics.num_threads(), script.__name__.rsplit(".", 1)[1]
    assert script.main(["--quick", "--out", str(out), "--seed", "3"]) == 0
    results = json.loads((out / f"{name}.json").read_text(encoding="utf-8"))
    assert results["machine"]["lanes"] == LANES and results["seed"] == 3
    assert (out / f"{name}.png").stat().st_size > 5_000
    assert f"wrote {out / name}.json" in capsys.readouterr().out
    assert dynamics.num_threads() == threads
    return results


# ------------------------------------------------------------------------------------------------ the scripts
def test_scaling(tmp_path, capsys):
    results = run(scaling, tmp_path, capsys)
    assert all(math.isfinite(x) and x > 0 for key in ("growth", "knots", "threads") for x in numbers(results[key]))
    assert all(math.isfinite(x) for key in ("exponents", "knot_exponents") for x in numbers(results[key]))
    assert [r["N"] for r in results["growth"]] == [3, 7, 3, 7]
    assert all(set(r["us"]) == set(r["us_arrays"]) == {FIRST, HESSIAN, TENSORS} for r in results["growth"])
    assert all(set(r["us"]) == set(r["us_arrays"]) == set(KERNELS) for r in results["knots"])
    assert {r["kernel"] for r in results["threads"]} == set(KERNELS) and results["thread_limit"] > 0


def test_peak(tmp_path, capsys):
    rows = run(peak, tmp_path, capsys)["rows"]
    assert [r["kernel"] for r in rows] == list(KERNELS)
    for row in rows:
        assert 0 < row["share"] < math.inf
        assert row["share"] == pytest.approx(row["gflops"] / row["peak_gflops"])
        assert row["gflops"] == pytest.approx(1e-3 * row["operations"] / row["us"])


def test_memory(tmp_path, capsys):
    rows = {row["case"]: row for row in run(memory, tmp_path, capsys)["rows"]}
    results = {memory.HESSIAN: 7 * 50**2 * 8 * 64 / 1e6, memory.PACKED: 32876 * 8 * 64 / 1e6}
    for case, limit in ((memory.HESSIAN, 30.0), (memory.PACKED, 200.0)):
        row = rows[case]
        assert (row["nv"], row["knots"], row["limit_MB"]) == (50, 64, limit)
        assert results[case] < row["arrays_MB"] < limit, "results, workspaces and temporaries"
        assert 0.8 * results[case] < row["resident_MB"] < limit


# ------------------------------------------------------------------------------------------------ what they count
@pytest.fixture(scope="module")
def counts():
    """Operations by number of links of serial chains, and of binary trees."""
    serial, branched = range(1, 9), (7, 12)
    every = operations(*(chain(N) for N in serial), *(chain(N, 2) for N in branched))
    return dict(zip(serial, every, strict=False)), dict(zip(branched, every[len(serial) :], strict=True))


def test_operations_per_pair_and_triple_by_hand(counts):
    serial = {name: np.array([count[name] for count in counts[0].values()]) for name in counts[0][1]}
    dot = 11  # six products, five sums; and two of them summed take one more
    assert np.all(np.diff(serial["inverse dynamics"], 2) == 0), "every link is one more"
    first = dot + 4 * (dot + 1) - 2 + 2 * dot  # M; dtau_i/dq_j, dtau_i/dv_j of two products; dtau_j/dq_i, dtau_j/dv_i
    assert np.all(np.diff(serial[FIRST], 2) == first)
    hessian = 3 * dot + 2 + 2 * (2 * dot + 1) + 3 * dot  # Hqq of three products, both Hqv of two, both Hqa and Hvv
    assert np.all(np.diff(serial[HESSIAN], 2) == first + hessian)
    assert np.all(np.diff(serial[TENSORS], 3) == 14 * dot + 4), "14 products, four of them added to another one"
    assert np.all(serial[FORWARD] > serial[FIRST])


@pytest.mark.parametrize("name", ["inverse dynamics", FIRST, HESSIAN, TENSORS])
def test_operations_of_trees_follow_from_those_of_chains(name, counts):
    """On any tree of revolute joints they are those of the root, the links, the pairs, the triples on its paths."""
    serial, branched = counts

    def basis(model):
        c = scaling.path_counts(model)
        return [1, model.nv, c["pairs"], c["triples"]]

    A = np.array([basis(chain(N)) for N in serial], dtype=float)
    fit, residual, *_ = np.linalg.lstsq(A, [count[name] for count in serial.values()], rcond=None)
    assert residual < 1e-12 * serial[8][name] ** 2
    for N, count in branched.items():
        assert fit @ basis(chain(N, 2)) == pytest.approx(count[name], rel=1e-9)


def test_path_counts_by_hand():
    assert scaling.path_counts(chain(4)) == {"pairs": 10, "triples": 20}
    assert scaling.path_counts(chain(7, 2)) == {"pairs": 17, "triples": 31}


def test_packed_tensors_through_a_buffer():
    """A buffer of two chunks is filled again and again; in the end it holds the last knots."""
    model, K = chain(5), 4 * LANES - 1
    x = main_kernels.states(model, K, 1)[:3]
    expected = dynamics.inverse_dynamics_second_derivatives(model, *x, packed=True).chunks
    buffer = aligned_empty(2, *expected.shape[1:])
    main_kernels.packed_tensors(model, *x, buffer)
    np.testing.assert_array_equal(buffer, expected[2:])
