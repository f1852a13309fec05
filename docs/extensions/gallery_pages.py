"""The gallery: the directive `gallery`, cards of the problems of one kind, and a page for each problem.

    ```{gallery} arms
    ```

All is drawn from `docs/gallery/`: figures and pictures as `python -m experiments.gallery` wrote them, lines of text as
`problems.toml` has them; what moves, and the set-up, from the docstrings of the problems.
"""

import inspect
import json
import re
from importlib import import_module
from pathlib import Path

from sphinx.util.docutils import SphinxDirective

import problems
from docs.extensions.benchmark_page import when_and_where
from docs.extensions.docstrings import restructured
from docs.extensions.reference_pages import write
from experiments.gallery.pictures import LEGEND
from experiments.gallery.study import LINES, SOLVERS, TEXTS, texts

FIGURES = TEXTS.with_name("gallery.json")
NAMES = {"ilqr": "iLQR", "ddp": "DDP"}


def figures():
    return json.loads(FIGURES.read_text(encoding="utf-8"))["problems"]


def linked(text):
    """Markdown in which names of problems are links to their pages."""
    known = problems.names()
    return re.sub(r"`(\w+)`", lambda m: f"[`{m[1]}`]({m[1]}.md)" if m[1] in known else m[0], text)


def in_words(seconds):
    """A processor time with its unit."""
    value, unit = (seconds, "s") if seconds >= 1.0 else (1e3 * seconds, "ms")
    return f"{value:.1f} {unit}" if value < 9.95 else f"{value:.0f} {unit}"


def card(name, text, found):
    """An item of the grid."""
    by = found["solvers"]
    ends = [f"{NAMES[key]}: {by[key]['iterations']} iterations, {in_words(by[key]['seconds'])}" for key in SOLVERS]
    return [
        f"::::{{grid-item-card}} {name}",
        f":img-top: {found['picture']}",
        f":img-alt: {text['moves']}",
        ":class-img-top: dark-light",
        f":link: problems/{name}",
        ":link-type: doc",
        f"{text['moves']}",
        ":::{card-footer}",
        "\\\n".join(ends),
        ":::",
        "::::",
    ]


class Gallery(SphinxDirective):
    required_arguments = 1

    def run(self):
        kind, found = self.arguments[0], figures()
        for path in (FIGURES, TEXTS):
            self.env.note_dependency(str(path))
        shown = {name: text for name, text in texts().items() if text["kind"] == kind}
        if not shown:
            raise self.error(f"no problem of the kind {kind!r} in {TEXTS.name}")
        lines = [":::::{grid} 1 2 2 3", ":gutter: 2", ""]
        lines += [line for name, text in shown.items() for line in card(name, text, found[name])]
        lines += [":::::", "", "```{toctree}", ":hidden:", "", *(f"problems/{name}" for name in shown), "```"]
        return self.parse_text_to_nodes("\n".join(lines))


def results(found):
    """Both solvers, and what they were measured on."""
    lines = ["```{table}", ":class: figures", ""]
    lines += ["| | ended | iterations | processor time | cost |", "|---|---|---:|---:|---:|"]
    for key, s in found["solvers"].items():
        lines += [f"| {NAMES[key]} | {s['status']} | {s['iterations']} | {in_words(s['seconds'])} | {s['cost']:.6g} |"]
    size, turns = found["size"], found["turns"]
    about = f"{size['knots']} knots, {found['duration']:.3g} s; {size['nx']} states, {size['nu']} controls. "
    about += f"Times are medians of {turns} solves, " if turns > 1 else "Times are those of one solve, "
    return [*lines, "```", "", f"{about}{when_and_where(found['date'], found)}.", ""]


def set_up(name):
    """The docstring of the problem after its first line."""
    lines = restructured(inspect.getdoc(import_module(f"problems.{name}")).split("\n")[1:])
    known = problems.names()
    link = re.compile(r"``(\w+)``")
    return [link.sub(lambda m: f":doc:`{m[1]}`" if m[1] in known and m[1] != name else m[0], line) for line in lines]


def caption(found):
    """What there is to be seen."""
    pace = found["pace"]
    speed = "" if pace is None or pace >= 0.95 else f", {pace:g} times as fast as it is"
    start = "From the start, palest, to the end" if pace is None else f"The motion{speed}"
    shows = [LEGEND[key] for key in found["shows"]]
    return f"{start}. {'; '.join(shows).capitalize()}." if shows else f"{start}."


def page(name, text, found):
    lines = [f"# {name}", "", f"```{{figure}} ../{found['picture']}", f":alt: {text['moves']}", ":class: dark-light"]
    lines += [":width: 400px", "", caption(found), "```", ""]
    for key, heading in LINES.items():
        lines += [heading, f": {linked(text[key])}", ""]
    lines += ["## iLQR and DDP", "", *results(found), "## Commands", ""]
    lines += ["```sh", f"trajopt solve {name} --animate   # a moving picture besides"]
    lines += [f"trajopt solve {name} --report    # a page with all there is to know"]
    lines += [f"trajopt compare {name}           # both solvers", "```", "", f"They write to `results/{name}/`.", ""]
    source = f"problems/{name}.py"
    return [*lines, "## Set-up", "", f"The docstring of `{source}`:", "", "```{eval-rst}", *set_up(name), "```"]


def write_pages(app):
    """Writes `gallery/problems/`, which git ignores."""
    folder, found = Path(app.srcdir) / "gallery" / "problems", figures()
    folder.mkdir(exist_ok=True)
    for old in folder.glob("*.md"):
        if old.stem not in problems.names():
            old.unlink()
    for name, text in texts().items():
        write(folder, name, page(name, text, found[name]), ".md")


def setup(app):
    app.connect("builder-inited", write_pages)
    app.add_directive("gallery", Gallery)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
