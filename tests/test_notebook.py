"""What a notebook shows: tables, figures and moving pictures, once and without magic; nothing is left behind."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
START = """
import sys
import problems, trajopt
problem = problems.make("pendulum", horizon=30)
solution = trajopt.DDP().solve(problem)
"""
PROGRESS = """
import warnings
warnings.simplefilter("error")
from dynamics.progress import progress_bar
with progress_bar("solving") as bar:
    bar.advance(bar.add_task("", total=1))
"""
CELLS = {
    "start": START,
    "problem": "problem",
    "solution": "solution",
    "solutions": 'trajopt.compare(problem, {"ddp": trajopt.DDP()})',
    "printed": "print(solution)",
    "figure": "trajopt.plot_convergence(solution)",
    "assigned": "figure = trajopt.plot_trajectory(solution)",
    "picture": 'trajopt.animate(solution, "swing.gif", fps=5, size=(120, 100))',
    "path": 'print(trajopt.animate(solution, "swing.gif", fps=5, size=(120, 100)))',
    "progress": PROGRESS,
    "pyplot": "import matplotlib.pyplot as plt\ntrajopt.plot_convergence(solution)",
    "left": "print(plt.get_fignums())",
}


@pytest.fixture(scope="module")
def outputs(tmp_path_factory):
    """What each cell of one notebook put out."""
    pytest.importorskip("ipykernel")
    client, notebooks = pytest.importorskip("nbclient"), pytest.importorskip("nbformat.v4")
    folder = tmp_path_factory.mktemp("notebook")
    path = notebooks.new_code_cell(f"import sys; sys.path.insert(0, {str(ROOT)!r})")
    notebook = notebooks.new_notebook(cells=[path, *map(notebooks.new_code_cell, CELLS.values())])
    client.NotebookClient(notebook, timeout=120, resources={"metadata": {"path": str(folder)}}).execute()
    return dict(zip(CELLS, [cell.outputs for cell in notebook.cells[1:]], strict=True))


def shown(outputs):
    """The data of the only output, by their kinds."""
    (output,) = outputs
    return output.data


def test_tables_are_html(outputs):
    for name in ("problem", "solution", "solutions"):
        html = shown(outputs[name])["text/html"]
        assert html.count("<table>") == 1 and "pendulum: 30 steps of 0.04 s" in html and "<span" not in html
    (printed,) = outputs["printed"]
    assert printed.output_type == "stream" and re.search(r"status +converged\n", printed.text)


def test_figures_are_shown_once_and_not_kept(outputs):
    for name in ("figure", "pyplot"):
        assert "image/png" in shown(outputs[name])
    assert outputs["assigned"] == []
    assert outputs["left"][0].text == "[]\n"


def test_a_moving_picture_is_shown_and_is_a_path(outputs):
    assert shown(outputs["picture"])["text/html"].startswith('<img src="data:image/gif;base64,R0lGOD')
    assert outputs["path"][0].text == "swing.gif\n"


def test_progress_is_text(outputs):
    """Of rich alone it would be an error: a warning that widgets are missing."""
    assert all(output.output_type == "stream" and output.name == "stderr" for output in outputs["progress"])
    assert "solving" in "".join(output.text for output in outputs["progress"])
