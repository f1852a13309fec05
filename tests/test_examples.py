"""The README's examples are the example scripts, and they run."""

import re
import runpy
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize("number, name", [(0, "quick_start"), (1, "derivatives")])
def test_readme_shows_the_scripts(number, name):
    code = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.S)
    script = (ROOT / "examples" / f"{name}.py").read_text(encoding="utf-8")
    assert code[number].strip() == script.split("\n\n", 1)[1].strip()
    assert len(script.splitlines()) < 40


def test_quick_start_runs(tmp_path, monkeypatch, capsys):
    (tmp_path / "problems").symlink_to(ROOT / "problems")
    monkeypatch.chdir(tmp_path)
    result = runpy.run_path(str(ROOT / "examples" / "quick_start.py"))
    assert result["solutions"].converged
    assert "ddp" in capsys.readouterr().out
    assert {p.name for p in (tmp_path / "results" / "quick_start").iterdir()} == {"convergence.png", "motion.png"}


def test_derivatives_run(monkeypatch, capsys):
    monkeypatch.chdir(ROOT)
    result = runpy.run_path(str(ROOT / "examples" / "derivatives.py"))
    assert abs(result["missing"][0] - 0.3) < 1e-9 and "0.300 kg" in capsys.readouterr().out
    assert result["tensors"].nbytes < 2e5 and result["Hqq"].shape == (64, 6, 6)
    given = result["arm_given"]
    assert np.array_equal(result["accelerations"][:, given], result["a"][:, given])
    assert not result["torques"][:, ~given].any()
