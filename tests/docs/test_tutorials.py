"""Tutorials: notebooks are those of their scripts, and the scripts run and print what the notebooks say."""

import json
import re
import runpy

import pytest

from docs import percent_scripts
from docs.percent_scripts import FOLDER, Cell, cells, executed, scripts

NAMES = [script.stem for script in scripts()]
NUMBER = re.compile(r"[-+]?\d+\.?\d*(?:e[-+]?\d+)?")
EXACTLY_MET = "largest violation 0;"
TINY = 1e-6
"""Smaller numbers are rounding: what a line says of them differs from processor to processor."""
PATHS = ("After ", "Steps taken", "Quu was")
"""Lines of `explain` about how a solve went, which does so too."""
KILOBYTES = 320


def notebook(script):
    return json.loads(executed(script).read_text(encoding="utf-8"))


def printed(found):
    """What a notebook printed."""
    outputs = (output for cell in found["cells"] for output in cell.get("outputs", ()))
    return "".join("".join(output["text"]) for output in outputs if output["output_type"] == "stream")


def numbers(line):
    """Numbers of a line, and how far each may be off: 5 %, and 2 of its last digit."""
    texts = NUMBER.findall(line)
    digits = [text.split("e")[0].partition(".")[2] for text in texts]
    powers = [int(text.partition("e")[2] or 0) for text in texts]
    units = [10.0 ** (power - len(digit)) for power, digit in zip(powers, digits, strict=True)]
    values = [float(text) for text in texts]
    return values, [2.0 * unit + 0.05 * abs(value) for unit, value in zip(units, values, strict=True)]


def compared(text):
    """Lines of a text, wrapped ones as one, without those about rounding."""
    lines = re.sub(r"\n  (?=\S)", " ", text).splitlines()
    found = [" ".join(line.split()) for line in lines if not line.startswith(PATHS)]
    exact = [line for line in found if EXACTLY_MET not in line]  # elsewhere met to rounding
    return [line for line in exact if not any(0.0 < abs(value) < TINY for value in numbers(line)[0])]


def same(old, new):
    """Whether a line says the same: its words, and its numbers within their tolerances."""
    if NUMBER.sub("#", old) != NUMBER.sub("#", new):
        return False
    (before, most), (now, _) = numbers(old), numbers(new)
    return all(abs(a - b) <= each for a, b, each in zip(before, now, most, strict=True))


def differences(before, now):
    """Lines that say something else; before, now: texts."""
    before, now = compared(before), compared(now)
    if len(before) != len(now):
        return [f"{len(before)} lines, now {len(now)}"]
    return [f"{old} | {new}" for old, new in zip(before, now, strict=True) if not same(old, new)]


@pytest.mark.parametrize("script", scripts(), ids=NAMES)
def test_a_notebook_is_that_of_its_script(script):
    found = notebook(script)["cells"]
    kept = [Cell(cell["cell_type"], "".join(cell["source"]), tuple(cell["metadata"].get("tags", ()))) for cell in found]
    assert kept == cells(script.read_text(encoding="utf-8")), "make tutorials"
    outputs = [output for cell in found for output in cell.get("outputs", ())]
    assert {output["output_type"] for output in outputs} <= {"stream", "display_data", "execute_result"}
    assert all(output["name"] == "stdout" for output in outputs if output["output_type"] == "stream")
    assert sum("image/png" in output.get("data", ()) for output in outputs) >= 2
    assert executed(script).stat().st_size < 1e3 * KILOBYTES


def test_nothing_else_was_executed_and_all_are_listed():
    index = (FOLDER / "index.md").read_text(encoding="utf-8")
    for folder, suffix in (("executed", ".ipynb"), ("thumbnails", ".png")):
        assert sorted(path.name for path in (FOLDER / folder).iterdir()) == [name + suffix for name in NAMES]
    assert [index.count(f"executed/{name}\n") for name in NAMES] == [2] * len(NAMES)
    assert all(f"thumbnails/{name}.png" in index for name in NAMES)


def test_cells_of_the_percent_format():
    text = '# %% [markdown]\n# # Title\n#\n# Text\n\n# %% tags=["a"]\nx = 1\n\n\n# %%\ndef f():\n    pass\n'
    assert cells(text) == [
        Cell("markdown", "# Title\n\nText"), Cell("code", "x = 1", ("a",)), Cell("code", "def f():\n    pass"),
    ]  # fmt: skip
    for wrong in ("x = 1\n# %%\n", "", "# %% [markdown]\nno comment\n"):
        with pytest.raises(ValueError, match=r"begins? with"):
            cells(wrong)


@pytest.mark.parametrize(
    "before, now, agree",
    [
        ("12 iterations, cost 0.31", "13 iterations, cost 0.32", True),
        ("12 iterations, cost 0.31", "16 iterations, cost 0.31", False),
        ("cost 0.3100", "cost 0.3300", False),
        ("converged", "diverged", False),
        ("by 3.1e-14 at knot 7\na", "by 2e-13 at knot 3\na", True),
        ("a wrapped\n  line of 1", "a wrapped line\n  of 1", True),
        ("a\nb", "a", False),
    ],
)
def test_texts_are_compared(before, now, agree):
    assert (differences(before, now) == []) is agree


def test_a_tutorial_is_executed(tmp_path, monkeypatch, capsys):
    """`make tutorials ARGS=NAME` writes the notebook and its picture, of that one alone."""
    pytest.importorskip("ipykernel")
    execute = pytest.importorskip("docs.execute_tutorials", exc_type=ImportError)
    text = "# %% [markdown]\n# A text.\n\n# %% tags=[\"thumbnail\"]\nfrom matplotlib import pyplot as plt\n\n"
    text += "print(6 * 7)\nplt.plot([1, 2]);\n"
    for name in ("01_one", "02_two"):
        (tmp_path / f"{name}.py").write_text(text, encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", "")
    monkeypatch.setattr(execute, "ROOT", tmp_path)
    for module in (execute, percent_scripts):
        monkeypatch.setattr(module, "FOLDER", tmp_path)
    execute.main(["02_two"])
    assert capsys.readouterr().out.startswith("executed/02_two.ipynb: ")
    assert [path.stem for path in (tmp_path / "executed").iterdir()] == ["02_two"]
    found = json.loads((tmp_path / "executed" / "02_two.ipynb").read_text(encoding="utf-8"))
    assert printed(found) == "42\n" and [cell["cell_type"] for cell in found["cells"]] == ["markdown", "code"]
    assert (tmp_path / "thumbnails" / "02_two.png").stat().st_size > 1e3


@pytest.mark.docs
@pytest.mark.parametrize("script", scripts(), ids=NAMES)
def test_a_tutorial_runs(script, tmp_path, monkeypatch, capsys):
    pyplot = pytest.importorskip("matplotlib.pyplot")
    pyplot.switch_backend("agg")
    monkeypatch.delenv("DISPLAY", raising=False)  # `show` warns where there is one
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", [script.name])
    runpy.run_path(str(script), run_name="__main__")
    pyplot.close("all")
    assert differences(printed(notebook(script)), capsys.readouterr().out) == []
