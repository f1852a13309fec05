"""The Python of every page runs, its blocks in order as one script, and prints what the page says."""

import re
import runpy
import shutil
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
FENCE = re.compile(r"^```python\n(.*?)^```$", re.M | re.S)
THEIRS = re.compile(r"^```{code-block} python\n(.*?)^```$", re.M | re.S)
PRINTS = re.compile(r"^<!-- prints -->\n+```text\n(.*?)^```$", re.M | re.S)


def script(text):
    """The blocks of a page, each on its own lines, so that a traceback names the line of the page."""
    lines = [""] * (text.count("\n") + 1)
    for match in FENCE.finditer(text):
        first = text.count("\n", 0, match.start(1))
        code = match[1].splitlines()
        lines[first : first + len(code)] = code
    return "\n".join(lines)


def pages():
    found = sorted((ROOT / "docs").rglob("*.md"))
    return [path for path in found if FENCE.search(path.read_text(encoding="utf-8"))]


@pytest.mark.docs
@pytest.mark.parametrize("page", pages(), ids=lambda page: page.relative_to(ROOT / "docs").as_posix())
def test_a_page_runs(page, tmp_path, monkeypatch, capsys):
    text = page.read_text(encoding="utf-8")
    if "\nimport mujoco\n" in script(text):
        pytest.importorskip("mujoco")
    path = tmp_path / f"{page.stem}.py"
    path.write_text(script(text), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", [path.name])
    runpy.run_path(str(path), run_name="__main__")
    printed = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    said = [" ".join(line.split()) for match in PRINTS.finditer(text) for line in match[1].splitlines()]
    assert [line for line in said if line not in ("", "...") and line not in printed] == []


@pytest.fixture
def of_both(tmp_path, monkeypatch):
    """What the code of another library on its page leaves, and what ours does."""
    monkeypatch.chdir(tmp_path)
    shutil.copy(ROOT / "problems" / "models" / "arm6.urdf", tmp_path)

    def run(library):
        pytest.importorskip(library)
        text = (ROOT / "docs" / "coming_from" / f"{library}.md").read_text(encoding="utf-8")
        (theirs,) = THEIRS.findall(text)
        left = []
        for code in (theirs, script(text)):
            (tmp_path / "code.py").write_text(code, encoding="utf-8")
            left.append(runpy.run_path(str(tmp_path / "code.py")))
        return left

    return run


@pytest.mark.docs
@pytest.mark.peer
def test_other_libraries_come_to_the_same(of_both):
    theirs, ours = of_both("crocoddyl")
    assert theirs["solver"].cost == pytest.approx(ours["solution"].cost, rel=1e-7)
    theirs, ours = of_both("casadi")
    assert theirs["solution"].value(theirs["opti"].f) == pytest.approx(ours["solution"].cost, rel=1e-6)
    theirs, ours = of_both("mujoco")
    np.testing.assert_allclose(theirs["A"], ours["A"][0], atol=1e-6)
    end = ours["system"].rollout(ours["x0"], ours["us"])[-1]
    np.testing.assert_allclose([theirs["data"].qpos[0], theirs["data"].qvel[0]], end, atol=1e-9)
    theirs, ours = of_both("pinocchio")
    for name in ("tau", "dtau_dq", "dtau_dv", "M", "place", "J"):
        np.testing.assert_allclose(theirs[name], ours[name], atol=1e-9)


def test_blocks_keep_their_lines():
    assert script("a\n```python\nx = 1\n```\n\n```python\ny = x\n```\n") == "\n\nx = 1\n\n\n\ny = x\n\n"
