"""The README's quick start is the example script, and it runs."""

import re
import runpy
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_readme_shows_the_script():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    code = re.search(r"```python\n(.*?)```", readme, re.S)
    script = (ROOT / "examples" / "quick_start.py").read_text(encoding="utf-8")
    assert code is not None
    assert code[1].strip() == script.split("\n\n", 1)[1].strip()
    assert len(script.splitlines()) < 30


def test_quick_start_runs(tmp_path, monkeypatch, capsys):
    (tmp_path / "problems").symlink_to(ROOT / "problems")
    monkeypatch.chdir(tmp_path)
    result = runpy.run_path(str(ROOT / "examples" / "quick_start.py"))
    assert result["solutions"].converged
    assert "ddp" in capsys.readouterr().out
    assert {p.name for p in (tmp_path / "results" / "quick_start").iterdir()} == {"convergence.png", "motion.png"}
