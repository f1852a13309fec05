"""The Python of every page runs, its blocks in order as one script, and prints what the page says."""

import re
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FENCE = re.compile(r"^```python\n(.*?)^```$", re.M | re.S)
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
    path = tmp_path / f"{page.stem}.py"
    path.write_text(script(text), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", [path.name])
    runpy.run_path(str(path), run_name="__main__")
    printed = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    said = [" ".join(line.split()) for match in PRINTS.finditer(text) for line in match[1].splitlines()]
    assert [line for line in said if line not in ("", "...") and line not in printed] == []


def test_blocks_keep_their_lines():
    assert script("a\n```python\nx = 1\n```\n\n```python\ny = x\n```\n") == "\n\nx = 1\n\n\n\ny = x\n\n"
