"""The accuracy experiment runs at small size, methods are exact to rounding, and errors are what they are called."""

import json

import numpy as np
import pytest

from experiments.derivatives import accuracy
from tests.tolerances import CENTRAL_DIFFERENCES, COMPLEX_STEP

METHODS = {
    "inverse": {"IDSVA", "RNEACR"},
    "forward": {"FDSVA, FACTOR", "FDSVA, DIRECT", "FDSVA, AZA", "FDCR", "ABACR"},
    "second": {"IDSVA SO, packed"},
}


def test_quick_run(tmp_path, capsys):
    assert accuracy.main(["--quick", "--out", str(tmp_path)]) == 0
    assert "First derivatives of forward dynamics: rms relative error" in capsys.readouterr().out
    stored = json.loads((tmp_path / "accuracy.json").read_text(encoding="utf-8"))
    assert (tmp_path / "accuracy.png").stat().st_size > 10_000
    assert [(r["branching"], r["N"]) for r in stored["rows"]] == [(b, N) for b in (1, 2) for N in (2, 4)]
    for row in stored["rows"]:
        assert row["condition"] > 1
        for quantity, methods in METHODS.items():
            assert set(row[quantity]) == methods | {"central differences"}
            for name in methods:
                error = row[quantity][name]
                assert 0 <= error["rms"] <= error["rms_worst"] < COMPLEX_STEP
                assert 0 <= error["largest"] < COMPLEX_STEP
            differences = row[quantity]["central differences"]
            assert differences["largest"] < CENTRAL_DIFFERENCES
            assert differences["rms"] > 100 * max(row[quantity][name]["rms"] for name in methods)
    for quantity, methods in METHODS.items():
        assert set(stored["exponents"][quantity]) == {"serial", "bf = 2"}
        for growth in stored["exponents"][quantity].values():
            assert set(growth) == methods | {"central differences"} and np.all(np.isfinite(list(growth.values())))


def test_tensors_stop_where_they_are_large(monkeypatch):
    monkeypatch.setattr(accuracy, "LARGEST_TENSOR", 3)
    assert set(accuracy.measure(4, 1, 2, seed=0)) & set(METHODS) == {"inverse", "forward"}
    assert set(accuracy.measure(3, 1, 2, seed=0)) >= set(METHODS)


def test_errors_by_hand():
    """Two matrices at two knots; the negligible entry is off by 4e-8 of the largest, and the zero by nothing."""
    expected = np.array([[4.0, 2.0], [0.0, 1e-12]]), np.array([[1.0, 1.0], [1.0, 1.0]])
    moved = np.array([[4.0, 2.0 + 2e-6], [0.0, 1.6e-7]]), np.array([[1.0, 1.0 + 3e-6], [1.0, 1.0]])
    value = [np.stack([x, y]) for x, y in zip(expected, moved, strict=True)]
    error = accuracy.errors(value, [np.stack([x, x]) for x in expected])
    worst = np.sqrt((1e-6**2 + 4e-8**2 + 3e-6**2) / 8)
    assert error["rms_worst"] == pytest.approx(worst, rel=1e-6)
    assert error["rms"] == pytest.approx(worst / 2, rel=1e-6), "the median of two knots, one of them exact"
    assert error["largest"] == pytest.approx(3e-6)
